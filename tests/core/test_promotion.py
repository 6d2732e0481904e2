"""The promotion table against NumPy's, bfloat16's place in it, and what scalars and the default
dtype do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import ELEMENTWISE
from strategies import BF16, DTYPES, SIGNED, UNSIGNED, kind

import cudamath as cm

HALF, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
NUMPY = [d for d in DTYPES if d != BF16]

#: What bfloat16 meets each dtype in: what float16 would, except that the two of them give float32.
WITH_BFLOAT16 = {
    "bool": BF16,
    "int8": BF16,
    "uint8": BF16,
    "int16": F32,
    "uint16": F32,
    "int32": F64,
    "uint32": F64,
    "int64": F64,
    "uint64": F64,
    "float16": F32,
    "bfloat16": BF16,
    "float32": F32,
    "float64": F64,
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
}


@pytest.mark.parametrize(("a", "b"), list(itertools.product(NUMPY, NUMPY)), ids=str)
def test_table_is_numpys(a, b):
    assert cm.result_type(a, b) == np.result_type(a, b)


@pytest.mark.parametrize("other", DTYPES, ids=str)
def test_bfloat16(other):
    assert cm.result_type(BF16, other) == WITH_BFLOAT16[other.name]
    assert cm.result_type(other, BF16) == WITH_BFLOAT16[other.name]


@pytest.mark.parametrize(
    ("dtype", "scalar"), list(itertools.product(NUMPY, [True, 1, 1.0, 1j])), ids=str
)
def test_scalars_are_weak(dtype, scalar):
    assert cm.result_type(dtype, scalar) == np.result_type(dtype, scalar)
    assert cm.result_type(scalar, dtype) == np.result_type(scalar, dtype)


def test_scalars_and_bfloat16():
    assert cm.result_type(BF16, True, 3, 2.5) == BF16
    assert cm.result_type(BF16, 1j) == np.complex64


@given(
    st.lists(st.sampled_from(NUMPY) | st.sampled_from([True, 2, 2.5, 1j]), min_size=1, max_size=5)
)
def test_any_number_of_operands(operands):
    assert cm.result_type(*operands) == np.result_type(*operands)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)), ids=str)
def test_what_arrays_do(device, a, b):
    """Operators give the table's dtype; so do concat and where, which is NumPy's too."""
    x, y = cm.ones(3, a), cm.ones(3, b)
    expected = cm.result_type(a, b)
    for out in (
        x + y,
        x * y,
        cm.maximum(x, y) if "c" not in kind(a) + kind(b) else x + y,
        cm.concat([x, y]),
        cm.where(cm.asarray([True, False, True]), x, y),
    ):
        assert out.dtype == expected
    assert (x == y).dtype == np.bool_
    if BF16 not in (a, b):
        assert (x / y).dtype == np.divide(x.to_numpy(), y.to_numpy()).dtype


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_of_one_array(device, dtype):
    """Whole numbers go to the float that NumPy takes for them; floats and complex numbers stay."""
    x = cm.ones(3, dtype)
    for ours, theirs in (
        (cm.sqrt, np.sqrt),
        (cm.exp, np.exp),
        (cm.sum, np.sum),
        (cm.mean, np.mean),
        (cm.prod, np.prod),
        (cm.abs, np.abs),
    ):
        expected = dtype if dtype == BF16 else theirs(np.ones(3, dtype)).dtype
        assert ours(x).dtype == expected, ours.__name__


@pytest.mark.parametrize("row", [r for r in ELEMENTWISE if r.inputs == 2], ids=lambda r: r.name)
def test_whole_numbers_of_two_dtypes(device, row):
    """What computes whole numbers in floats looks for a float that holds either dtype: int8 and
    uint8 meet in float16."""
    for a, b in itertools.product(SIGNED + UNSIGNED, repeat=2):
        if cm.result_type(a, b).kind in row.kinds:
            x, y = np.array([3, 7, 2], a), np.array([1, 2, 5], b)
            got, expected = row.function(cm.asarray(x), cm.asarray(y)), row.numpy(x, y)
            assert got.dtype == expected.dtype, (row.name, a, b)
            near = 2e-3 if got.dtype == HALF else 1e-6
            np.testing.assert_allclose(got.to_numpy().astype(F64), expected.astype(F64), rtol=near)


@pytest.mark.parametrize("dtype", [d for d in NUMPY if d.kind in "biuf"], ids=str)
def test_whole_numbers_in_the_float_that_holds_them(device, dtype):
    x, i = np.array([1, 0, 3], dtype), np.array([True, False, True])
    for got, expected, near in (
        (cm.modf(cm.asarray(x)), np.modf(x), 0),
        (cm.frexp(cm.asarray(x)), np.frexp(x), 0),
        ([cm.ldexp(cm.asarray(x), cm.asarray(i))], [np.ldexp(x, i)], 0),
        ([cm.spacing(x)], [np.spacing(x)], 0),
        # CUDA's pow(3.0, 1.0) is a unit in the last place below 3
        ([cm.float_power(cm.asarray(x), cm.asarray(i))], [np.float_power(x, i)], 4e-16),
        ([cm.float_power(cm.asarray(i), cm.asarray(x))], [np.float_power(i, x)], 4e-16),
    ):
        for ours, numpys in zip(got, expected, strict=True):
            assert ours.dtype == numpys.dtype
            np.testing.assert_allclose(ours.to_numpy(), numpys, rtol=near)


def test_powers_of_bools(device):
    x = np.array([True, False])
    for y in (0, 1, 3, 0.5, 2.0):
        np.testing.assert_array_equal(cm.power(cm.asarray(x), y), np.power(x, y), strict=True)
    np.testing.assert_array_equal(cm.asarray(x) ** 2, np.power(x, 2), strict=True)
    with pytest.raises(ValueError, match="^pow: "):
        cm.power(cm.asarray(x), -1)


@pytest.mark.parametrize("dtype", [HALF, BF16], ids=str)
def test_sixteen_bits_are_rounded_to_decimals_in_32(device, dtype):
    """1000.5 * 100 is no float16: hundredths of it were infinite."""
    x = np.array([1000.5, 2.67, -0.125, 60000]).astype(dtype)
    for decimals in (1, 2, -2):
        expected = np.round(x.astype(F64), decimals).astype(dtype)
        np.testing.assert_array_equal(cm.round(cm.asarray(x), decimals).to_numpy(), expected)


@pytest.mark.parametrize("number", [2**63, -(2**70)])
def test_bools_beside_numbers_beyond_all_integers(device, number):
    """A comparison has an answer; on the CPU it was an error without a name."""
    x = cm.asarray([True, False])
    assert (x < number).tolist() == [number > 0] * 2 and (x != number).tolist() == [True] * 2
    assert cm.greater(number, x).tolist() == [number > 0] * 2


def test_sixteen_bits_never_pass_through_float64(device):
    for dtype in (HALF, BF16, F32):
        x = cm.ones(4, dtype)
        for out in (
            x + 1,
            2.0 * x,
            x**2,
            x**0.5,
            1 / x,
            x // 2,
            x % 3,
            cm.where(x > 0, x, 0.0),
            cm.clip(x, 0, 1),
            x.mean(),
            x.std(),
            cm.maximum(x, 0),
            cm.ml.softmax(x),
            cm.ml.gelu(x),
            cm.linalg.vector_norm(x),
            x @ x,
        ):
            assert out.dtype == dtype


def test_default_dtype(device):
    assert cm.asarray(1.0).dtype == F64
    cm.set_default_dtype("float32")
    try:
        assert cm.asarray(1.0).dtype == cm.asarray([1.0, 2.0]).dtype == cm.ones(2).dtype == F32
        assert cm.asarray(1j).dtype == np.complex64
        assert cm.asarray(np.array([1.0])).dtype == F64  # an array keeps what it has
        whole = cm.asarray([1, 2, 4])
        assert (
            cm.sqrt(whole).dtype
            == (whole / 2).dtype
            == (whole * 0.5).dtype
            == whole.mean().dtype
            == F32
        )
        np.testing.assert_array_equal(cm.sqrt(whole), np.sqrt(np.float32([1, 2, 4])))
        np.testing.assert_array_equal(whole / 3, np.float32([1, 2, 4]) / np.float32(3))
        assert (cm.asarray(np.float64([1])) * 2.0).dtype == F64
        assert cm.result_type(np.int32, 1.0) == F32
    finally:
        cm.set_default_dtype("float64")
    # plans made meanwhile must not be remembered
    assert cm.sqrt(cm.asarray([1, 2, 4])).dtype == (cm.asarray([1, 2, 4]) / 2).dtype == F64


@pytest.mark.parametrize("wrong", ["int8", "float16", "complex64", "nonsense"])
def test_default_dtype_is_float32_or_float64(wrong):
    with pytest.raises(TypeError):
        cm.set_default_dtype(wrong)
    assert cm.zeros(1).dtype == F64


@pytest.mark.parametrize("wrong", ["U3", object, "M8[s]", "f16", "not a dtype"])
def test_dtypes_that_arrays_cannot_have(wrong):
    with pytest.raises(TypeError, match="^zeros: "):
        cm.zeros(2, wrong)


def test_names_of_dtypes():
    for name in ("bool", "int8", "uint64", "float16", "bfloat16", "float32", "complex128"):
        assert (
            cm.zeros(1, name).dtype
            == cm.zeros(1, getattr(cm, name)).dtype
            == np.dtype(getattr(cm, name))
        )
    for call in (lambda: cm.zeros(1, ">f4"), lambda: cm.ones(1).astype(">f4")):
        with pytest.raises(TypeError, match="the machine's byte order, got '>f4'"):
            call()
