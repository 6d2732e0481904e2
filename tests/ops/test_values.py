"""Values against NumPy: every elementwise function on every dtype, on awkward numbers, strides,
broadcasts and scalars; every other function of the records in every floating-point dtype."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import records
from hypothesis import given
from hypothesis import strategies as st
from records import CREATION, ELEMENTWISE, ROWS, Elementwise, Row
from strategies import (
    BF16,
    DTYPES,
    FLOATS,
    awkward,
    broadcastable,
    eps,
    kind,
    numbers,
    of_kinds,
    views,
)

import cudamath as cm
from cudamath.testing import assert_close

CASES = [(row, dtype) for row in ELEMENTWISE for dtype in of_kinds(row.kinds)]
NAMES = [f"{row.name}-{dtype}" for row, dtype in CASES]


def result_dtype(row: Elementwise, *dtypes: np.dtype) -> np.dtype:
    """The dtype NumPy returns; bfloat16 where it would return float16 for it."""
    half = np.dtype(np.float16)
    *_, found = row.numpy.resolve_dtypes((*[half if d == BF16 else d for d in dtypes], None))
    return BF16 if found == half and BF16 in dtypes else found


def wider(dtype: np.dtype) -> np.dtype:
    """A dtype with at least twice the digits (64-bit numbers: what the machine has)."""
    if kind(dtype) == "c":
        return np.dtype(np.clongdouble if dtype == np.complex128 else np.complex128)
    return np.dtype(np.longdouble if dtype == np.float64 else np.float64)


def answer(row: Elementwise, *arrays: np.ndarray) -> np.ndarray:
    """NumPy's answer; but its complex log1p is log(1 + z), which loses the digits that this
    function is there for; and infinity divided by a finite number, rounded down, is NaN there,
    where the array API wants infinity."""
    out = np.asarray(row.numpy(*arrays))
    if row.name == "floor_divide" and out.dtype.kind == "f":
        out = np.where(np.isinf(arrays[0]) & np.isfinite(arrays[1]), np.true_divide(*arrays), out)
    if row.name == "log1p" and out.dtype.kind == "c":
        a, b = arrays[0].real, arrays[0].imag
        near = (a > -0.5) & (np.abs(a) + np.abs(b) < 1)
        out.real = np.where(near, np.log1p(a * (2 + a) + b * b) / 2, out.real)
    if row.name == "expm1" and out.dtype.kind == "c":
        out.real += 0.0  # the array API wants 0 of -0
    return out


def check(
    row: Elementwise, ours: cm.ndarray, arrays: list[np.ndarray], exact: bool | None = None
) -> None:
    """Compare with NumPy: in the same dtype where the answer is exact, else in a wider one, within
    row.ulp."""
    dtype = result_dtype(row, *[a.dtype for a in arrays])
    assert isinstance(ours, (cm.ndarray, np.generic))
    assert ours.dtype == dtype, f"{row.name}: dtype {ours.dtype}, NumPy returns {dtype}"
    got = np.asarray(ours)
    with np.errstate(all="ignore"):
        if kind(dtype) not in "fc":
            expected = row.numpy(*[a.astype(np.float32) if a.dtype == BF16 else a for a in arrays])
            np.testing.assert_array_equal(got, expected, err_msg=row.name)
            return
        wide = wider(dtype)
        # functions of whole numbers take them in the result's dtype
        if row.ulp == 0:
            wide = np.dtype(np.float32) if dtype == BF16 and row.name != "nextafter" else dtype
        # functions of whole numbers take them in the result's dtype
        narrow = [a if kind(a.dtype) == "c" else a.astype(dtype) for a in arrays]
        expected = answer(
            row,
            *[
                a.astype(wider(a.dtype) if kind(a.dtype) == "c" and row.ulp else wide)
                for a in narrow
            ],
        )
        rounded = (
            expected.astype(np.float32).astype(dtype) if dtype == BF16 else expected.astype(dtype)
        )
    assert got.shape == rounded.shape
    if row.ulp == 0:
        same = (got == rounded) | (np.isnan(got.astype(wide)) & np.isnan(rounded.astype(wide)))
    else:
        ulp = max(row.ulp, 1) if dtype.itemsize > 2 else 1.01
        tiny = {BF16: 2.0**-133}.get(dtype) or float(np.finfo(dtype).smallest_subnormal)
        g, r = got.astype(wide), rounded.astype(wide)
        with np.errstate(all="ignore"):
            near = np.abs(g - expected) <= ulp * (eps(dtype) * np.abs(expected) + tiny)
        same = near | (g == r) | (np.isnan(g) & np.isnan(r))
        if kind(dtype) == "c":  # an infinite part and a finite one
            parts = [
                np.isclose(
                    getattr(g, p), getattr(r, p), rtol=ulp * eps(dtype), atol=0, equal_nan=True
                )
                for p in ("real", "imag")
            ]
            same |= ~np.isfinite(r) & parts[0] & parts[1]
    if not same.all():
        at = tuple(int(i) for i in np.argwhere(~same)[0])
        places = [np.broadcast_to(a, got.shape)[at] for a in arrays]
        raise AssertionError(
            f"{row.name} {dtype}: {(~same).sum()} of {same.size} differ; at {places}: {got[at]}, "
            f"expected {rounded[at]}"
        )


@pytest.mark.parametrize(("row", "dtype"), CASES, ids=NAMES)
def test_random_numbers(device, row, dtype):
    rng = np.random.default_rng(len(row.name))
    arrays = [numbers(rng, 300, dtype, row.low, row.high) for _ in range(row.inputs)]
    if row.name == "pow" and kind(dtype) == "i":
        arrays[1] = np.abs(arrays[1])
    check(row, row.function(*[cm.asarray(a) for a in arrays]), arrays)


@pytest.mark.filterwarnings(
    "error"
)  # floating-point errors pass in silence, and NumPy is called as it wants to be
@pytest.mark.parametrize(
    ("row", "dtype"),
    [c for c in CASES if c[0].wild],
    ids=[n for n, c in zip(NAMES, CASES, strict=True) if c[0].wild],
)
def test_awkward_numbers(device, row, dtype):
    """NaN, infinities, signed zeros, extremes, division by zero, shifts beyond the width, branch
    cuts; all pairs."""
    some = awkward(dtype)
    if row.name == "reciprocal" and kind(dtype) in "iu":
        some = some[some != 0]  # what NumPy makes of 1 / 0 there depends on the machine
    pairs = itertools.product(*[some] * row.inputs)
    arrays = [np.array(column, dtype) for column in zip(*pairs, strict=True)]
    ours = row.function(*[cm.asarray(a) for a in arrays])
    check(row, ours, arrays)
    # -0.0 == 0.0, yet 1 / -0.0 is not 1 / 0.0; of two zeros either is the maximum
    if (
        row.ulp == 0
        and kind(ours.dtype) == "f"
        and row.name not in ("maximum", "minimum", "fmax", "fmin")
    ):
        with np.errstate(all="ignore"):
            expected = row.numpy(*[a.astype(np.float64) if a.dtype == BF16 else a for a in arrays])
        known = ~np.isnan(expected)
        if row.name == "nextafter":  # of 0 and -0, NumPy's float16 changed in 2.5
            known &= arrays[0] != arrays[1]
        np.testing.assert_array_equal(
            np.signbit(np.asarray(ours).astype(np.float64))[known], np.signbit(expected)[known]
        )


@pytest.mark.parametrize("dtype", [np.dtype(t) for t in ("c8", "c16")], ids=str)
@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "expm1",
        "log",
        "log1p",
        "sqrt",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "asin",
        "acos",
        "atan",
        "asinh",
        "acosh",
        "atanh",
    ],
)
def test_complex_parts(device, name, dtype):
    """Real and imaginary part each, near 0, on and beside the cuts: sign and digits, as NumPy has
    them."""
    row = next(r for r in ELEMENTWISE if r.name == name)
    parts = np.array([0.0, -0.0, 1e-6, -1e-6, 0.3, -0.7, 0.99, 1.0, -1.0, 1.01, 3.0, -5.0])
    z = np.empty((len(parts),) * 2, dtype)
    z.real, z.imag = parts[:, None], parts
    if name in ("log", "log1p", "atan", "atanh"):  # poles: infinite in one part
        z = z[np.abs(np.abs(z * (1j if name == "atan" else 1)) - (name != "log")) > 1e-9]
    with np.errstate(all="ignore"):
        expected = answer(row, z.astype(wider(dtype)))
    got = np.asarray(row.function(cm.asarray(z)))
    for part in ("real", "imag"):
        g, e = getattr(got, part), getattr(expected, part)
        np.testing.assert_array_equal(
            np.signbit(g), np.signbit(e), err_msg=f"sign of the {part} part"
        )
        np.testing.assert_allclose(
            g, e.astype(g.dtype), rtol=64 * eps(dtype), atol=0, err_msg=f"{name}, {part} part"
        )


SPECIAL = np.array(
    [
        complex(a, b)
        for a in (0.0, 0.5, -1.5, np.inf, -np.inf, np.nan)
        for b in (0.0, 0.5, np.inf, np.nan)
    ]
)


def check_special(row: Elementwise, got: np.ndarray) -> None:
    """Parts that are infinite, zero or NaN are so as in NumPy, whose C library follows annex G of
    the standard (which leaves some signs open); expm1 is exp - 1 there."""
    with np.errstate(all="ignore"):
        expected = np.exp(SPECIAL) - 1 if row.name == "expm1" else row.numpy(SPECIAL)
    for part in ("real", "imag"):
        np.testing.assert_allclose(
            abs(getattr(got, part)),
            abs(getattr(expected, part)),
            rtol=1e-12,
            atol=1e-12,
            err_msg=f"{row.name}, {part} part",
        )


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_log1p_beside_minus_one(device, dtype):
    """1 + z is exact there, its square is not."""
    rng, real = np.random.default_rng(0), np.dtype(dtype).type(0).real.dtype
    z = (rng.normal(size=(2, 400)) * 10.0 ** rng.uniform(-7, -1, 400)).astype(real)
    z = (z[0] - 1 + 1j * z[1]).astype(dtype)
    wide = z.astype(np.clongdouble) + 1
    found = cm.log1p(z).to_numpy()
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(found.real, np.log(np.abs(wide)), 3 * eps, 0)
    np.testing.assert_allclose(found.imag, np.angle(wide), 3 * eps, 0)


@pytest.mark.parametrize(
    "name",
    ["exp", "expm1", "sqrt", "sign", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atanh", "atan"],
)
def test_complex_special_cases(device, name):
    row = next(r for r in ELEMENTWISE if r.name == name)
    check_special(row, np.asarray(row.function(cm.asarray(SPECIAL))))


@given(data=st.data())
def test_strides_and_broadcasts(device, data):
    """Any function, any shapes that broadcast, any strides (0 and negative among them), any two
    dtypes."""
    row = data.draw(st.sampled_from([r for r in ELEMENTWISE if r.name != "pow"]))
    shapes = data.draw(broadcastable(row.inputs))
    arrays, ours = [], []
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    for shape in shapes.input_shapes:
        view = data.draw(views(shape))
        base = numbers(
            rng, view.base, data.draw(st.sampled_from(of_kinds(row.kinds))), row.low, row.high
        )
        arrays.append(view.of(base))
        ours.append(view.of(cm.asarray(base)))
    common = cm.result_type(*ours)
    if kind(common) not in row.kinds or (row.name.startswith("bitwise") and kind(common) == "f"):
        with pytest.raises(TypeError, match=f"^{row.name}: "):
            row.function(*ours)
        return
    out = row.function(*ours)
    assert out.shape == shapes.result_shape
    if (
        kind(result_dtype(row, *[common] * row.inputs)) not in "fc"
    ):  # exact also where a common float would not be
        with np.errstate(all="ignore"):
            expected = row.numpy(*[a.astype(np.float32) if a.dtype == BF16 else a for a in arrays])
        assert out.dtype == result_dtype(row, *[common] * row.inputs)
        np.testing.assert_array_equal(np.asarray(out), expected)
    else:
        check(row, out, arrays if kind(common) in "iu" else [a.astype(common) for a in arrays])


# -------------------- Python scalars (NEP 50)

BINARY = [
    r for r in ELEMENTWISE if r.inputs == 2 and r.name != "pow" and not r.name.startswith("bitwise")
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scalar", [True, 2, 1.5, 0.1, 1 + 2j], ids=str)
def test_scalars_on_either_side(device, dtype, scalar):
    """A Python scalar never widens an array, whichever side it is on; called twice, as the second
    call is remembered."""
    base = numbers(np.random.default_rng(3), 40, dtype, 1, 3)
    x = cm.asarray(base)
    common = cm.result_type(x, scalar)
    for row in BINARY:
        if kind(common) not in row.kinds:
            with pytest.raises(TypeError, match=f"^{row.name}: "):
                row.function(x, scalar)
            continue
        a, s = base.astype(common), np.full(40, scalar).astype(common)
        for _ in range(2):
            check(row, row.function(x, scalar), [a, s])
            check(row, row.function(scalar, x), [s, a])


@pytest.mark.parametrize("dtype", DTYPES[1:9], ids=str)
def test_integers_out_of_range(device, dtype):
    """Comparisons answer for any Python integer; arithmetic with one that the dtype cannot hold is
    refused, by name."""
    limits = np.iinfo(dtype)
    base = np.array([limits.min, 0, limits.max], dtype)
    x = cm.asarray(base)
    for scalar in (0, limits.max + 1, limits.min - 1, 1 << 70, -(1 << 70), 5):
        for ours, theirs in (
            (cm.less, np.less),
            (cm.less_equal, np.less_equal),
            (cm.greater, np.greater),
            (cm.greater_equal, np.greater_equal),
            (cm.equal, np.equal),
            (cm.not_equal, np.not_equal),
        ):
            np.testing.assert_array_equal(ours(x, scalar), theirs(base, scalar))
            np.testing.assert_array_equal(ours(scalar, x), theirs(scalar, base))
    x + 1
    for scalar in (limits.max + 1, limits.min - 1):
        with pytest.raises(OverflowError, match="^add: "):
            x + scalar


def test_64_bit_integers_of_both_signs_compare_exactly(device):
    a = np.array([-1, 0, 2**53 + 1, 2**63 - 1])
    b = np.array([2**64 - 1, 2**53, 2**63 - 1, 2**63], np.uint64)
    for x, y in ((a[:, None], b), (b[:, None], a)):
        for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
            ours = getattr(cm, name)(cm.asarray(x), cm.asarray(y))
            np.testing.assert_array_equal(ours, getattr(np, name)(x, y), err_msg=name)
    assert (cm.asarray(a) + cm.asarray(b)).dtype == np.float64


def test_powers(device):
    x = np.array([-3.0, -0.5, 0.0, 0.5, 2.0])
    for y in (2, 3, -1, 0, 0.5, 2.0, -2.0, True):
        for dtype in (np.float32, np.float64):
            a = x.astype(dtype)
            with np.errstate(all="ignore"):
                expected = a**y
            got = cm.asarray(a) ** y
            assert got.dtype == expected.dtype
            np.testing.assert_allclose(got, expected, rtol=4 * eps(got.dtype))
    whole = np.arange(-4, 5)
    for y in (0, 1, 2, 3, 2.0, np.int64(2), np.arange(9)):
        got, expected = cm.asarray(whole) ** y, whole**y
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(2 ** cm.asarray(np.arange(5)), 2 ** np.arange(5))
    with pytest.raises(ValueError, match="^pow: "):
        cm.asarray(whole) ** -1
    z = np.array([0j, 1 + 2j, -1.5, 1e-3j])
    with np.errstate(all="ignore"):
        for y in (0, 2, 0.5, 1 + 1j):
            np.testing.assert_allclose(cm.asarray(z) ** y, z**y, rtol=1e-14)


def test_sixteen_bits_overflow_and_round_once(device):
    """float16 goes to infinity beyond 65504; sums and products are rounded once, from float32."""
    x = cm.asarray(np.array([65504.0, 300.0, 2.0**-24], np.float16))
    assert (x * 2).tolist() == [np.inf, 600.0, 2.0**-23]
    assert (x * x).tolist() == [np.inf, np.inf, 0.0]
    rng = np.random.default_rng(0)
    for dtype in (np.dtype(np.float16), BF16):
        a, b = numbers(rng, 4000, dtype), numbers(rng, 4000, dtype)
        for name in ("add", "subtract", "multiply", "divide"):
            expected = getattr(np, name)(a.astype(np.float32), b.astype(np.float32)).astype(dtype)
            got = np.asarray(getattr(cm, name)(cm.asarray(a), cm.asarray(b)))
            np.testing.assert_array_equal(got.view(np.uint16), expected.view(np.uint16))


# -------------------- in place


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_in_place(device, dtype):
    base = numbers(np.random.default_rng(1), (4, 6), dtype, 1, 3)
    for row, operator in (
        (records.ELEMENTWISE[0], "__iadd__"),
        (records.ELEMENTWISE[2], "__imul__"),
    ):
        for other in (base[0].copy(), 2):
            x = cm.array(base)
            view = x[::2, 1:4]
            if kind(dtype) == "b" and other == 2 if isinstance(other, int) else False:
                with pytest.raises(TypeError, match=f"^{row.name}: "):
                    getattr(view, operator)(other)
                continue
            theirs = base.copy()
            part = other[1:4] if isinstance(other, np.ndarray) else np.asarray(other, dtype)
            theirs[::2, 1:4] = row.numpy(theirs[::2, 1:4], part)
            result = getattr(view, operator)(
                cm.asarray(part) if isinstance(other, np.ndarray) else other
            )
            assert result is view
            got = np.asarray(x)
            if (
                kind(dtype) == "c"
                # a GPU multiplies and adds with one rounding: each part of a product within 2 eps
                # |x| |y|
            ):
                assert (np.abs(got - theirs) <= 4 * np.finfo(dtype).eps * np.abs(theirs)).all()
            else:
                np.testing.assert_array_equal(got.astype(np.float64), theirs.astype(np.float64))


def test_in_place_with_itself_shifted(device):
    """The right side is read before the left is written, as in NumPy."""
    base = np.arange(100_000.0)
    x = cm.array(base)
    x[1:] += x[:-1]
    theirs = base.copy()
    theirs[1:] += theirs[:-1]
    np.testing.assert_array_equal(x, theirs)
    x = cm.array(base[:100].reshape(10, 10))
    x += x.T
    np.testing.assert_array_equal(x, base[:100].reshape(10, 10) + base[:100].reshape(10, 10).T)


def test_in_place_refusals(device):
    x = cm.arange(4)
    with pytest.raises(TypeError, match="^add: .*float64.*int64"):
        x += 1.5
    with pytest.raises(ValueError, match=r"^add: .*\(2, 4\).*\(4,\)"):
        x += cm.ones((2, 4), dtype="int64")
    wide = cm.broadcast_to(x, (3, 4))
    with pytest.raises(ValueError, match="^add: .*share memory"):
        wide += 1
    assert x.tolist() == [0, 1, 2, 3]


# -------------------- everything else


#: Functions whose results come in the dtype that they are computed in.
LOSSES = [
    f"ml.{name}"
    for name in "cross_entropy nll_loss mse_loss l1_loss huber_loss smooth_l1_loss bce_with_logits "
    "binary_cross_entropy kl_div".split()
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows(device, row: Row, dtype):
    arrays = row.arrays(dtype)
    expected = row.expected(arrays)
    ours = row.run(cm, *[cm.asarray(a) for a in arrays])
    ours = list(ours) if isinstance(ours, (tuple, list)) else [ours]
    assert len(ours) == len(expected)
    for got, truth in zip(ours, expected, strict=True):
        assert isinstance(got, cm.ndarray | np.generic)
        if truth.dtype.kind in "biu":
            assert got.dtype == truth.dtype
        elif row.name == "astype":
            assert got.dtype == np.float64
        else:
            least = {"real": np.float32, "imag": np.float32, "interp": np.float64}
            least["bincount"] = np.float64
            least |= dict.fromkeys(LOSSES, np.float32)
            assert got.dtype == cm.result_type(dtype, least.get(row.name, dtype))
        assert_close(got, truth, rtol=0, atol=row.allowed(dtype, truth), what=f"{row.name} {dtype}")


@pytest.mark.parametrize(
    "row",
    [r for r in ROWS if not any(isinstance(a, records.Whole) for a in r.inputs)],
    ids=lambda row: row.name,
)
def test_rows_take_any_strides(device, row: Row):
    """Transposed and reversed inputs give what contiguous copies give."""
    arrays = row.arrays(np.dtype(np.float64))
    strided: list[Any] = []
    for a in arrays:
        back = tuple(range(a.ndim))[::-1]
        turned = np.ascontiguousarray(a.transpose(back)[..., ::-1] if a.ndim else a)
        x = cm.asarray(turned)
        x = cm.transpose(x[..., ::-1] if a.ndim else x)
        np.testing.assert_array_equal(x, a)
        strided.append(x)
    ours, straight = row.run(cm, *strided), row.run(cm, *[cm.asarray(a) for a in arrays])
    pairs = (
        zip(ours, straight, strict=True) if isinstance(ours, (tuple, list)) else [(ours, straight)]
    )
    for got, expected in pairs:
        size = (
            float(np.abs(np.asarray(expected)).max(initial=0))
            if kind(expected.dtype) in "fc"
            else 0.0
        )
        assert_close(
            got, expected, rtol=0, atol=8 * eps(np.dtype(np.float64)) * size, what=row.name
        )


def test_whether_arrays_are_equal(device):
    x = cm.asarray([1.0, np.nan, np.inf])
    near = cm.asarray([1.0 + 1e-9, np.nan, np.inf])
    assert (
        cm.array_equal(x[::2], x[::2]) and not cm.array_equal(x, x) and not cm.array_equal(x, x[:2])
    )
    assert (
        cm.allclose(x[::2], near[::2])
        and not cm.allclose(x, near)
        and not cm.allclose(x[:1], x[:1] + 1)
    )
    assert np.allclose(x[::2], np.asarray(near[::2]))


def test_sgd_starts_at_rest(device):
    velocity = cm.ml.sgd_init({"a": cm.ones((2, 3), "float16")})["a"]
    assert (velocity.shape, velocity.dtype) == ((2, 3), np.float32) and not velocity.any()


@pytest.mark.parametrize("name", sorted(CREATION))
def test_creation(device, name):
    ours, theirs = CREATION[name](cm), CREATION[name](np)
    if isinstance(ours, cm.ndarray):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours == theirs
