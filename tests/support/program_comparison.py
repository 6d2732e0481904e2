"""Random programs with `jit` and without: the same results, written arguments, surroundings and
random numbers, at several calls; results are kept, or written into, between the calls.

On the CPU the bits are the same. On a GPU fused operations may round otherwise: what they give may
be about as far from the float64 program as what the eager one gives.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import traceback
import warnings
from typing import Any

import numpy as np
import pytest
from emulated_gpu import emulated_gpu
from random_programs import SUDDEN, SUMMED, RandomProgram

import cudamath as cm
from cudamath.programs import in_place, recomputed, schedule

CALLS = 4
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}

#: Beyond these, one may overflow and the other not.
LARGEST = {"float16": 3e4, "bfloat16": 1e38, "float32": 1e38, "float64": 1e300}

#: Products of several such numbers may overflow in one order of operations and not in another.
HUGE = {"float16": 3e4, "bfloat16": 1e9, "float32": 1e9, "float64": 1e75}


def outcomes(
    program: RandomProgram, jitted: bool, dtype: Any = None
) -> tuple[list[list[np.ndarray]], Any]:
    """All that can be seen of several calls on the default device, and the function.

    Parameters
    ----------
    program : RandomProgram
        What is called.
    jitted : bool
        Whether by `jit`.
    dtype : dtype, optional
        Of the arrays, instead of the program's own.
    """
    source, state = cm.random.default_rng(program.seed), program.state(dtype)
    function: Any = program.function(source, state)
    if jitted:
        function = cm.jit(function, donate_argnums=program.donated)
    seen, kept = [], []
    arrays = program.arguments(0, dtype)
    for call in range(CALLS):
        if call and not program.steady:
            arrays = program.arguments(call, dtype)
        results, total = function(*arrays, *program.numbers(call))
        results = [*results, total]
        # the caller does not use donated arguments again, nor what shares their memory
        given = [] if program.donated else arrays
        seen.append([_read(x) for x in (*results, *given, state)])
        if call % 2:
            for y in results:
                if isinstance(y, cm.ndarray) and y.ndim and y.size and 0 not in y.strides:
                    y[...] = 7  # results may be written by their receiver
            seen.append([_read(x) for x in (*given, state)])
        else:
            kept += results
    seen.append([_read(x) for x in kept])
    return seen, function


def _read(x: Any) -> np.ndarray:
    return np.array(cm.asarray(x).to_numpy())


@contextlib.contextmanager
def on(device: str) -> Any:
    """A default device: "cpu", "cuda", or "emulated" (emulated_gpu.py), where what pays for large
    arrays alone happens for small ones."""
    if device == "emulated":
        with pytest.MonkeyPatch.context() as patches, emulated_gpu(patches):
            patches.setattr(schedule, "LEAST", 1)
            patches.setattr(schedule, "NEAR", 0.0)
            patches.setattr(in_place, "LEAST", 0)
            patches.setattr(in_place, "NEAR", 0.0)
            patches.setattr(recomputed, "LEAST", 1)
            yield
    else:
        with cm.device(device):
            yield


def batch(task: tuple[str, int, int]) -> tuple[int, list[str], collections.Counter]:
    """Compare programs of a device, from a seed on, so many: their number, what went wrong, and how
    many each pass changed."""
    device, first, count = task
    warnings.simplefilter("ignore")
    gc.freeze()  # emulated GPUs collect garbage, among what they made
    failures: list[str] = []
    passes: collections.Counter = collections.Counter()
    with on(device):
        for seed in range(first, first + count):
            try:
                passes.update(check(device, seed))
            except Exception as error:
                failures.append(f"seed {seed}: {''.join(traceback.format_exception(error)[-3:])}")
                if device == "emulated":
                    _finish()
    return count, failures, passes


def _finish() -> None:
    """Let what a program that went wrong has queued come to its end, whatever it raises."""
    while True:
        try:
            return cm.cuda.synchronize()
        except Exception:
            continue


def check(device: str, seed: int) -> set[str]:
    """Compare the program of a seed on this device, the default one; the passes that changed it."""
    if device == "cpu":
        return check_bits(RandomProgram(seed, wide=True, without=SUMMED))
    return check_close(RandomProgram(seed, wide=True, without=SUDDEN))


def check_bits(program: RandomProgram) -> set[str]:
    """On the default device `jit` gives the bits of the function."""
    ours, jitted = outcomes(program, True)
    truth, _ = outcomes(program, False)
    for some, others in zip(ours, truth, strict=True):
        for a, b in zip(some, others, strict=True):
            assert a.dtype == b.dtype, program
            np.testing.assert_array_equal(a, b, err_msg=repr(program))
    return _passes(program, jitted)


def check_close(program: RandomProgram) -> set[str]:
    """What `jit` gives on the default device is as near to the float64 program as the function on
    the CPU. Of a program in float64, that is the error in float32, times the ratio of the two
    spacings: it knows how the program magnifies roundings. Where these happen to cancel there, what
    roundings of the arguments change tells it."""
    ours, jitted = outcomes(program, True)
    rounded = "float32" if program.dtype.name == "float64" else program.dtype.name
    with cm.device("cpu"), np.errstate(all="ignore"):
        eager, _ = outcomes(program, False, rounded)
        truth, _ = outcomes(program, False, "float64")
    limit = min(LARGEST[rounded], LARGEST[program.dtype.name])
    step = EPSILON[program.dtype.name]
    size = 1e-3
    for some, others, exact in zip(ours, eager, truth, strict=True):
        # sums may cancel: what all arrays of a call are made of has the size of the largest, of
        # earlier calls as well where these leave something to it
        before = size if program.has_state or program.steady else 1e-3
        size = max([before, *[np.abs(x[np.isfinite(x)]).max(initial=0) for x in exact]])
        if size > HUGE[rounded]:
            continue
        for k, (a, b, c) in enumerate(zip(some, others, exact, strict=True)):
            assert a.shape == b.shape, program
            assert a.dtype == (b if rounded == program.dtype.name else c).dtype, program
            there = np.isfinite(b.astype("float64")) & (np.abs(c) < limit)
            if not there.any():
                continue
            a, b, c = (np.asarray(x).astype("float64")[there] for x in (a, b, c))
            error = np.abs(a - c).max()
            bound = 8 * np.abs(b - c).max() * step / EPSILON[rounded] + 64 * step * size
            if not error <= bound:
                others = [_read_at(nudged, truth, exact, k) for nudged in _nudged(program, step)]
                moved = max([np.abs(other[there] - c).max() for other in others])
                bound = max(bound, 8 * moved)
            assert error <= bound, (program, a, b, c)
    return _passes(program, jitted)


def _nudged(program: RandomProgram, step: float) -> list[list[list[np.ndarray]]]:
    """Outcomes of the float64 program on the CPU whose arguments are off by a spacing."""
    found = []
    with cm.device("cpu"), np.errstate(all="ignore"):
        for times in (1, -1, 0.7):
            program.nudge = times * step
            found.append(outcomes(program, False, "float64")[0])
    program.nudge = 0.0
    return found


def _read_at(
    nudged: list[list[np.ndarray]],
    truth: list[list[np.ndarray]],
    exact: list[np.ndarray],
    k: int,
) -> np.ndarray:
    """What stands in an outcome where `exact` has its k-th array in the true one."""
    (call,) = [i for i, each in enumerate(truth) if each is exact]
    return nudged[call][k].astype("float64")


def _passes(program: RandomProgram, jitted: Any) -> set[str]:
    """The names of what changed the program. It was traced once for each number."""
    assert jitted.traces == 1 + program.has_number, program
    return {note.partition(":")[0] for p in jitted.programs() for note in p.notes}
