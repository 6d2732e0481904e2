"""Complex numbers in order: by real part, then by imaginary part, with NumPy's rules for NaN, in
every function that orders its elements."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from numpy_comparison import agree
from simulated_gpu import simulated_gpu

import cudamath as cm

PARTS = (-np.inf, -1.0, -0.0, 0.0, 2.0, np.inf, np.nan)
#: Every pair of awkward parts, in an order that is none.
ALL = np.random.default_rng(3).permutation(
    [complex(a, b) for a, b in itertools.product(PARTS, PARTS)]
)
NUMBERS = ALL[~np.isnan(ALL)]
FINITE = NUMBERS[np.isfinite(NUMBERS)]


def pairs(x):
    return x[:, None], x[None, :]


def lines(x):
    """Of some lengths, with and without NaN."""
    return [x[:0], x[:1], x[:2], x[:5], x[: x.size // 3 * 3].reshape(-1, 3)]


COMPARISONS = "less less_equal greater greater_equal maximum minimum fmax fmin".split()
REDUCTIONS = "max min argmax argmin nanmax nanmin ptp median".split()
SETS = "union1d intersect1d setdiff1d setxor1d isin".split()
CALLS = {
    **{name: [lambda m, a, f=name: getattr(m, f)(*map(a, pairs(ALL)))] for name in COMPARISONS},
    **{
        name: [
            lambda m, a, f=name, x=x, axis=axis: getattr(m, f)(a(x), axis=axis)
            for numbers in (ALL, NUMBERS, FINITE)
            for x in lines(numbers)[1:]
            for axis in (None, 0, -1)
            if name != "ptp" or numbers is FINITE
        ]
        for name in REDUCTIONS
    },
    "nanmedian": [
        lambda m, a, x=x: m.nanmedian(a(x), axis=-1)
        for x in (FINITE, np.append(FINITE, np.nan), lines(np.append(FINITE, np.nan))[-1])
    ],
    "nanargmax": [lambda m, a: m.nanargmax(a(ALL)), lambda m, a: m.nanargmin(a(ALL))],
    **{
        name: [
            lambda m, a, f=name: getattr(m, f)(a(NUMBERS[:20]), a(NUMBERS[10:30])),
            lambda m, a, f=name: getattr(m, f)(a(NUMBERS[:20]), a(np.repeat(NUMBERS[10:], 9))),
            lambda m, a, f=name: getattr(m, f)(a(NUMBERS[:20]), a(np.arange(3.0))),
        ]
        for name in SETS
    },
    "searchsorted": [
        lambda m, a, side=side: m.searchsorted(a(np.sort(ALL)), a(ALL), side=side)
        for side in ("left", "right")
    ]
    + [lambda m, a: m.searchsorted(a(ALL), 2.0, sorter=np.argsort(ALL))],
    "lexsort": [
        lambda m, a: m.lexsort((a(ALL), a(np.arange(ALL.size) % 3))),
        lambda m, a: m.lexsort((a(np.arange(ALL.size)), a(ALL.real + 0j))),
    ],
    "accumulate": [
        lambda m, a, f=f, x=x: getattr(m, f).accumulate(a(x))
        for f in ("maximum", "minimum")
        for x in (NUMBERS, ALL[::-1])
    ],
    "clip": [
        lambda m, a: m.clip(a(FINITE), -1 + 1j, 2 - 1j),
        lambda m, a: m.clip(a(FINITE), a(FINITE[::-1]), None),
    ],
    "exp2": [lambda m, a: m.exp2(a(FINITE))],
    "sort_complex": [lambda m, a: m.sort_complex(a(np.array([3, 1, 2], "f4")))],
    "options": [
        lambda m, a: m.max(a(FINITE), initial=9 + 9j),
        lambda m, a: m.min(a(FINITE), initial=9 + 9j, where=a(FINITE.real > 0)),
        lambda m, a: m.argmax(a(FINITE), keepdims=True),
    ],
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", CALLS)
def test_values(name, dtype):
    def given(x):
        x = np.asarray(x)
        return x.astype(dtype) if x.dtype.kind == "c" else x

    for call in CALLS[name]:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = call(np, given)
        agree(call(cm, lambda x: cm.asarray(given(x))), expected)


def test_at():
    x, ours = np.array([1 + 1j, 5, np.nan]), cm.asarray([1 + 1j, 5, np.nan])
    np.maximum.at(x, [0, 1, 0, 2], [1 + 2j, 4, 1 + 1.5j, 3])
    cm.maximum.at(ours, [0, 1, 0, 2], [1 + 2j, 4, 1 + 1.5j, 3])
    np.testing.assert_array_equal(ours.to_numpy(), x)


def check_kernels():
    x = ALL.astype("c8")
    a, b = pairs(x[:12])
    for name in COMPARISONS:
        ours = getattr(cm, name)(cm.asarray(a), cm.asarray(b))
        np.testing.assert_array_equal(ours.to_numpy(), getattr(np, name)(a, b), err_msg=name)
    places = cm.searchsorted(cm.asarray(np.sort(x)), cm.asarray(x), side="right")
    np.testing.assert_array_equal(
        places.to_numpy(), np.searchsorted(np.sort(x), x, side="right"), err_msg="searchsorted"
    )
    for numbers in (NUMBERS[:9], ALL[:9]):
        for name in ("max", "min"):
            ours = getattr(cm, name)(cm.asarray(numbers))
            np.testing.assert_array_equal(ours.to_numpy(), getattr(np, name)(numbers))
        ours = cm.cummax(cm.asarray(numbers))
        np.testing.assert_array_equal(ours.to_numpy(), np.maximum.accumulate(numbers))


@pytest.mark.simulator
def test_kernels_simulated(monkeypatch):
    with simulated_gpu(monkeypatch), np.errstate(all="ignore"):
        check_kernels()


@pytest.mark.gpu
def test_kernels_on_a_gpu():
    check_kernels()
    for name in ("argmax", "argmin", "nanmax", "nanmin"):
        x = np.resize(ALL, (700, 49))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for axis in (0, 1):
                np.testing.assert_array_equal(
                    getattr(cm, name)(cm.asarray(x), axis=axis).to_numpy(),
                    getattr(np, name)(x, axis=axis),
                )


@pytest.mark.compiles
def test_reductions_compile(capability=(9, 0)):
    """The kernels of places and extremes, which the simulator does not run, become machine code."""
    from compiled_facts import compile_plan

    from cudamath.core.layout import Layout
    from cudamath.kernels.reduce import dispatch
    from cudamath.runtime.device import assume

    x = Layout.new((64, 5000), np.dtype("c8"), 0)
    with assume(capability):
        for kind, dtype in (("argmax", "i8"), ("max", "c8"), ("nanmin", "c8")):
            plan = dispatch.plan(x, kind=kind, axis=(1,), keepdims=False, dtype=np.dtype(dtype))
            compile_plan(plan, [x], capability)
