"""Reductions of 16-bit floats that take eight numbers together
(kernels/reduce/accumulators_16bit.py)."""

import os

import numpy as np
import pytest
from strategies import BF16

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.runtime.device import assume

HALVES = [np.dtype("f2"), BF16]
WIDTHS = [8, 16, 24, 40, 64, 100, 256, 264, 1000, 1001, 1024, 1032, 3000, 4096, 20_000]
SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


def planned(kind, x, axis, version=None):
    from cudamath.kernels.reduce.dispatch import plan

    dtype = np.dtype(int) if kind.startswith("arg") else x.dtype
    return plan(x, kind=kind, axis=(axis,), keepdims=False, dtype=dtype, version=version)


def on_the_gpu(kind, x, version):
    a = cm.asarray(x, device="cuda")
    return planned(kind, a._layout, 1, version).bind(kind, [a._layout])(a).to_numpy()


@pytest.mark.skipif(SIMULATED, reason="plans of a GPU")
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(
    "shape, axis, capability, together",
    [
        ((300, 1024), 1, (9, 0), True),
        ((300, 1024), 1, (8, 0), True),
        ((300, 1024), 1, (7, 5), False),
        ((1024, 300), 0, (9, 0), False),
        ((1, 1 << 22), 1, (9, 0), True),
    ],
)
@pytest.mark.parametrize("kind", ["argmax", "std"])
def test_rows_of_eights(kind, dtype, shape, axis, capability, together):
    """By their kernels' first functions: what a load becomes."""
    with assume(capability):
        kernel = planned(kind, Layout.new(shape, dtype, 0), axis).steps[0].kernel
    seen, found = [kernel], set()
    while seen:
        function = getattr(seen.pop(), "py_func", None)
        if function is not None and function not in found:
            found.add(function)
            seen += [c.cell_contents for c in function.__closure__ or ()]
    assert (
        "together"
        in {f.__name__ for f in found if (f.__module__ or "").endswith("accumulators_16bit")}
    ) == together


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["rows", "rows_split"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_positions(dtype, version):
    """The first of equals at every place of a load; zeros of both signs, infinities, subnormal
    numbers, NaNs of all kinds."""
    rng = np.random.default_rng(1)
    bits = np.arange(1 << 16, dtype=np.uint16)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-7, -1e-7], "f4").astype(
        dtype
    )
    for n in WIDTHS:
        every = rng.choice(bits, (61, n)).view(dtype)  # of NaNs, many a row
        numbers = np.where(np.isnan(every.astype("f4")), np.float32(1).astype(dtype), every)
        few = rng.choice(special, (61, n))
        ties = rng.integers(-1, 2, (61, n)).astype("f4").astype(dtype)
        zeros = rng.choice(special[:2], (61, n))
        lowest, highest = (
            np.full((61, n), -np.inf, "f4").astype(dtype),
            np.full((61, n), np.inf, "f4").astype(dtype),
        )
        for x in (every, numbers, few, ties, zeros, lowest, highest):
            wide = x.astype("f4")
            np.testing.assert_array_equal(on_the_gpu("argmax", x, version), np.argmax(wide, 1))
            np.testing.assert_array_equal(on_the_gpu("argmin", x, version), np.argmin(wide, 1))
    one = (
        np.zeros((n, n), "f4").astype(dtype)
        if n <= 4096
        else np.zeros((64, 64), "f4").astype(dtype)
    )
    for sign, kind in ((1, "argmax"), (-1, "argmin")):
        np.fill_diagonal(one, np.float32(sign).astype(dtype))
        np.testing.assert_array_equal(on_the_gpu(kind, one, version), np.arange(len(one)))


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["rows", "rows_split"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_variances(dtype, version):
    """Also where the mean is far greater than what varies; of equal numbers 0 itself; NaN of what
    has no mean."""
    rng = np.random.default_rng(2)
    eps = 2.0**-8 if dtype == BF16 else 2.0**-11
    for n in WIDTHS:
        x = rng.standard_normal((37, n)).astype("f4").astype(dtype)
        far = (200 + 4 * rng.integers(0, 3, (37, n))).astype("f4").astype(dtype)
        for numbers in (x, far):
            for kind, function in (("var", np.var), ("std", np.std)):
                expected = function(numbers.astype("f8"), 1)
                got = on_the_gpu(kind, numbers, version).astype("f8")
                np.testing.assert_allclose(got, expected, rtol=2 * eps, atol=0)
        equal = np.full((5, n), 7.1, "f4").astype(dtype)
        assert (on_the_gpu("var", equal, version).astype("f4") == 0).all()
        x[0, n // 2], x[1, n - 1] = np.nan, np.inf
        with np.errstate(invalid="ignore"):
            assert np.isnan(on_the_gpu("var", x[:3], version).astype("f4")).tolist() == [
                True,
                True,
                False,
            ]
