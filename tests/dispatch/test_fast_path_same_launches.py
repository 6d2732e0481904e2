"""The calls whose host cost is measured (benchmarks/host_calls): a replay makes the launches of the
first call, on the same memory. An error that its kernel reports later names the caller's line. The
tests run on the fake driver, without a GPU."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from fake_driver import FakeDriver

import cudamath as cm
from benchmarks import host_calls, timer
from cudamath.core import array
from cudamath.core.array import ndarray
from cudamath.core.transfer import device_to_host
from cudamath.runtime import kernel_errors

#: These call a library (cuFFT, cuSOLVER), which the fake driver has not, or wait for numbers that
#: kernels would have made.
LIBRARIES = (
    "fft",
    "linalg",
    "cov",
    "images @ images",
    "bincount",
    "norm(a)",
    "half @ half",
    "brain @ brain",
    "waves @ waves",
    "(half, half)",
    "(brain, brain)",
    "lines.swapaxes(1, 2)",
)
DRAWN = (
    "rand",
    "normal",
    "uniform",
    "exponential",
    "poisson",
    "bernoulli",
    "integers",
    "permutation",
    "dropout",
    "choice",
    "cauchy",
    "geometric",
    "binomial",
    "gamma",
    "gumbel",
    "laplace",
    "categorical",
    "AdamW",
)  # the place in the sequence, or the number of the step, is a scalar, which moves on
CALLS = [
    title for title in host_calls.CALLS if not any(word in title for word in (*LIBRARIES, *DRAWN))
]
PICKED = [
    title
    for title in host_calls.CALLS
    if any(word in title for word in ("choice", "permutation", "shuffle"))
]


def described(fake, arguments, result):
    """Launches and result, with addresses by where they were seen first: an argument's name, or a
    number."""
    names = {x._data: name for name, x in vars(arguments).items() if type(x) is ndarray}

    def address(word):
        return names.setdefault(word, len(names)) if word in addresses else word

    results = [
        y
        for y in (result if isinstance(result, (tuple, list)) else [result])
        if type(y) is ndarray and y._layout.device >= 0
    ]
    addresses = {
        *names,
        *(y._data for y in results),
        *(arg[1][4] for launch in fake.launches for arg in launch[-1] if isinstance(arg, tuple)),
    }

    def number(value):
        """A number; a tensor map, which is made anew for every address, by its kind."""
        return "tensor map" if isinstance(value, int) and value > 1 << 40 else value

    launches = [
        (
            name,
            grid,
            block,
            [
                [*map(address, arg[1])] if isinstance(arg, tuple) else number(arg.item())
                for arg in args
            ],
        )
        for name, grid, block, _shared, _stream, args in fake.launches
    ]
    return launches, [(y._layout, address(y._data)) for y in results]


@pytest.mark.parametrize("title", CALLS)
def test_a_replay_makes_the_same_launches(fake, monkeypatch, title):
    monkeypatch.setattr(FakeDriver, "finish", lambda self, target: None)  # kernels do not run
    monkeypatch.setattr(device_to_host, "BLANK", 0)  # what the host reads of them: zeros
    monkeypatch.setattr(
        array, "array_reader", lambda layout: lambda x: np.zeros(layout.shape, layout.dtype)
    )
    # which is otherwise another one each time
    monkeypatch.setattr(kernel_errors, "next_ticket", lambda: 1)
    with cm.device("cuda:0"):
        arguments = host_calls.Arguments(timer.Cudamath("cuda:0"))
        seen = []
        for _ in range(3):
            fake.launches.clear()
            kernel_errors.calls[1] = (0, "", None)
            result = host_calls.CALLS[title][0](cm, arguments)
            seen.append(described(fake, arguments, result))
            check_place()
            del result
    assert without_kept(seen[0], seen[1]) == without_kept(seen[1], seen[1]) and seen[1] == seen[2]


def without_kept(seen, again):
    """Launches and result without the arrays that `again` has empty: what a norm keeps for its
    gradient, which nobody wants, is written by the first call alone (its plan is that of calls
    whose gradient is recorded)."""
    launches, results = seen
    if [len(launch[-1]) for launch in launches] != [len(launch[-1]) for launch in again[0]]:
        return seen
    return [
        (
            *launch[:-1],
            [
                arg
                for arg, other in zip(launch[-1], then[-1], strict=True)
                if not (launch[0].startswith("norm_") and type(other) is list and other[2] == 0)
            ],
        )
        for launch, then in zip(launches, again[0], strict=True)
    ], results


def check_place():
    """The call whose errors may come later, if there was one, was noted with a line of
    benchmarks/host_calls."""
    _, op, place = kernel_errors.calls[1]
    assert (
        place is None
        or pathlib.Path(place[0].co_filename).parent == pathlib.Path(host_calls.__file__).parent
    ), (op, place)


@pytest.mark.parametrize("title", PICKED)
def test_errors_of_draws_name_the_callers_line(fake, monkeypatch, title):
    monkeypatch.setattr(FakeDriver, "finish", lambda self, target: None)
    monkeypatch.setattr(kernel_errors, "next_ticket", lambda: 1)
    with cm.device("cuda:0"):
        arguments = host_calls.Arguments(timer.Cudamath("cuda:0"))
        for _ in range(2):
            kernel_errors.calls[1] = (0, "", None)
            host_calls.CALLS[title][0](cm, arguments)
            check_place()


def test_each_call_has_its_own_title():
    assert len(host_calls.CALLS) == sum(len(file.CALLS) for file in host_calls.FILES)
