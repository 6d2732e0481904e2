"""The promotion table against NumPy's, bfloat16's place in it, and what scalars and the default dtype do."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import BF16, DTYPES, kind

import cudamath as cm

HALF, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
NUMPY = [d for d in DTYPES if d != BF16]

#: What bfloat16 meets each dtype in: what float16 would, except that the two of them give float32.
WITH_BFLOAT16 = {"bool": BF16, "int8": BF16, "uint8": BF16, "int16": F32, "uint16": F32, "int32": F64, "uint32": F64,
                 "int64": F64, "uint64": F64, "float16": F32, "bfloat16": BF16, "float32": F32, "float64": F64,
                 "complex64": np.dtype(np.complex64), "complex128": np.dtype(np.complex128)}


@pytest.mark.parametrize(("a", "b"), list(itertools.product(NUMPY, NUMPY)), ids=str)
def test_table_is_numpys(a, b):
    assert cm.result_type(a, b) == np.result_type(a, b)


@pytest.mark.parametrize("other", DTYPES, ids=str)
def test_bfloat16(other):
    assert cm.result_type(BF16, other) == WITH_BFLOAT16[other.name]
    assert cm.result_type(other, BF16) == WITH_BFLOAT16[other.name]


@pytest.mark.parametrize(("dtype", "scalar"), list(itertools.product(NUMPY, [True, 1, 1.0, 1j])), ids=str)
def test_scalars_are_weak(dtype, scalar):
    assert cm.result_type(dtype, scalar) == np.result_type(dtype, scalar)
    assert cm.result_type(scalar, dtype) == np.result_type(scalar, dtype)


def test_scalars_and_bfloat16():
    assert cm.result_type(BF16, True, 3, 2.5) == BF16
    assert cm.result_type(BF16, 1j) == np.complex64


@given(st.lists(st.sampled_from(NUMPY) | st.sampled_from([True, 2, 2.5, 1j]), min_size=1, max_size=5))
def test_any_number_of_operands(operands):
    assert cm.result_type(*operands) == np.result_type(*operands)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)), ids=str)
def test_what_arrays_do(device, a, b):
    """Operators give the table's dtype; so do concat and where, which is NumPy's too."""
    x, y = cm.ones(3, a), cm.ones(3, b)
    expected = cm.result_type(a, b)
    for out in (x + y, x * y, cm.maximum(x, y) if "c" not in kind(a) + kind(b) else x + y, cm.concat([x, y]),
                cm.where(cm.asarray([True, False, True]), x, y)):
        assert out.dtype == expected
    assert (x == y).dtype == np.bool_
    if BF16 not in (a, b):
        assert (x / y).dtype == np.divide(x.to_numpy(), y.to_numpy()).dtype


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_of_one_array(device, dtype):
    """Whole numbers go to the float that NumPy takes for them; floats and complex numbers stay."""
    x = cm.ones(3, dtype)
    for ours, theirs in ((cm.sqrt, np.sqrt), (cm.exp, np.exp), (cm.sum, np.sum), (cm.mean, np.mean), (cm.prod, np.prod),
                         (cm.abs, np.abs)):
        expected = dtype if dtype == BF16 else theirs(np.ones(3, dtype)).dtype
        assert ours(x).dtype == expected, ours.__name__


def test_sixteen_bits_never_pass_through_float64(device):
    for dtype in (HALF, BF16, F32):
        x = cm.ones(4, dtype)
        for out in (x + 1, 2.0 * x, x**2, x**0.5, 1 / x, x // 2, x % 3, cm.where(x > 0, x, 0.0), cm.clip(x, 0, 1), x.mean(),
                    x.std(), cm.maximum(x, 0), cm.ml.softmax(x), cm.ml.gelu(x), cm.linalg.vector_norm(x), x @ x):
            assert out.dtype == dtype


def test_default_dtype(device):
    assert cm.asarray(1.0).dtype == F64
    cm.set_default_dtype("float32")
    try:
        assert cm.asarray(1.0).dtype == cm.asarray([1.0, 2.0]).dtype == cm.ones(2).dtype == F32
        assert cm.asarray(1j).dtype == np.complex64
        assert cm.asarray(np.array([1.0])).dtype == F64  # an array keeps what it has
        whole = cm.asarray([1, 2, 4])
        assert cm.sqrt(whole).dtype == (whole / 2).dtype == (whole * 0.5).dtype == whole.mean().dtype == F32
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
        assert cm.zeros(1, name).dtype == cm.zeros(1, getattr(cm, name)).dtype == np.dtype(getattr(cm, name))
    assert cm.zeros(1, ">f4").dtype == F32  # foreign byte orders become the machine's
