"""Single calls whose answer differed from NumPy's: values, dtype, shape, class, order in memory.

A call is an expression in `np`, which is NumPy or cudamath, and `X(shape, dtype)`, an array of
small numbers; `F` is one whose columns lie together in memory.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy_comparison import agree

import cudamath as cm


def _numbers(shape: Any, dtype: str) -> np.ndarray:
    n = int(np.prod(shape))
    whole = (np.arange(n) * 7 % 11 - 3).reshape(shape)
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return (whole + 1j * (whole % 3)).astype(dtype)
    return (abs(whole) if dtype.kind == "u" else whole % 2 if dtype.kind == "b" else whole).astype(
        dtype
    )


def _names(xp: Any) -> dict[str, Any]:
    def X(shape: Any, dtype: str = "float64") -> Any:
        return xp.array(_numbers(shape, dtype))

    def F(shape: Any, dtype: str = "float64") -> Any:
        return xp.array(_numbers(shape, dtype), order="F")

    return {"np": xp, "X": X, "F": F, "nan": np.nan, "inf": np.inf}


ANSWERS = """
np.sum(X(3, 'i4'), dtype=bool)
np.prod(X((2, 3), 'f4'), axis=1, dtype=bool)
np.cumsum(X(4, 'u1'), dtype=bool)
np.cumulative_prod(X((2, 3), 'f4'), axis=1, dtype=bool, include_initial=True)
np.nansum([nan, 0.0], dtype=bool)
np.nanprod([nan, 0.0], dtype=bool)
np.nancumsum([nan, 0.0, 1.0], dtype=bool)
np.trace(X((3, 3), 'u1'), dtype=bool)
np.sum(X(3, 'c8'), dtype='f4')
np.cumsum(X(3, 'c8'), dtype='f4')
np.nansum(np.array([1 + 1j, complex(2, nan)]), dtype='f8')
np.nancumprod(np.array([2 + 1j, complex(2, nan), 3]), dtype='f8')
np.mean(X(3, 'c8'), dtype='f4')
np.trace(X((3, 3), 'c8'), dtype='i2')
np.sum(1.0, axis=np.int64(0))
np.cumsum(1.0, axis=np.int8(-1))
np.any(1, np.int8(0))
np.argmax(3, np.int64(0))
np.nanmean(1.0, axis=0)
np.nanvar(1.0, axis=0)
np.add.reduce(2.0, np.int64(0))
np.maximum.reduce(2.0, np.int64(0))
np.sum(X(3, 'u1'), initial=np.int64(-3))
np.max(X(3, 'u1'), initial=np.int64(-3))
np.min(X(3, 'f4'), initial=np.complex64(1j))
np.conj(X((2, 3), 'i4'))
np.conj(X((2, 3), '?'))
np.spacing(np.array([1, -1, -2, -3, 65504, -65504, inf, -inf, nan, 0, -0.0, -6e-8], 'f2'))
np.fft.rfftn(X((2, 3, 4), 'f4'), axes=(0, 0, 1), s=(10, 20, 40))
np.fft.irfftn(X((2, 3, 4), 'f4'), axes=(0, 0, 1), s=(10, 20, 40))
np.fft.irfftn(X((2, 3, 4), 'f2'), axes=(1,))
np.fft.irfft2(X((4, 4), 'f2'))
np.fft.fftshift(X((2, 4), 'f2'), axes=(1, 1))
np.fft.ifftshift(X((2, 3), 'f2'), axes=(0, 1, 0))
np.fft.fftshift(X(3), axes=())
np.full_like(X(3, 'i4'), 1j)
np.full(3, 2.7, int)
np.full(2, 3 + 1j, 'f4')
np.asfortranarray(0)
np.concatenate([X(3, 'u1'), 0], axis=None)
np.concatenate([0, 2.5, X(3, 'f4')], axis=None)
np.union1d(-1, X(3, 'f2'))
np.add.accumulate([1, 2, 3], None)
np.subtract.accumulate([1, 2, 3], None)
np.power.reduceat(abs(X(6, 'i4')), [0, 2, 1])
np.subtract.reduceat(X((3, 4), 'f4'), [0, 2], 1)
np.bitwise_or.reduceat([1, 2, 3], [])
np.add.reduceat([1, 2, 3], [])
np.fmax.reduceat([1.0, nan, 3], [0, 1])
np.logical_xor.reduceat([1, 0, 3], [0, 1])
np.tanh([1.5, 2, 3], order='A')
np.partition(X(6, 'i1'), range(2))[:2]
np.unravel_index(True, 6)
np.unravel_index([True, False], (2, 3))
np.quantile(X(6, 'i4'), 0)
np.quantile(X(6, 'i4'), [0, 1])
np.quantile(X(6, 'u2'), np.array([0, 1]))
np.quantile(X(6, 'f4'), 1)
np.arange(np.uint64(5))
np.arange(np.int8(5))
np.lexsort((inf, inf), 0)
np.histogram2d(X(3, 'f4'), X(3, 'i4'))[1]
np.geomspace(-3, 3, 4)
np.geomspace([1, 2], 1 + 1j)
np.geomspace([1, -2], [4, -8], 5)
np.frexp(X(3, 'f4'), casting='same_kind')
np.modf(X(3, 'i4'), dtype='f4')
np.ldexp(X(3, 'f4'), 2, dtype='f8')
np.ldexp(np.float32(1.0), np.int_(2), dtype='d')
np.permute_dims(X((2, 3), 'f4'))
np.transpose(X(3, 'f4'), 0)
np.average(X((2, 3), 'f4'), returned=True)
np.cumulative_sum(2.5, include_initial=True)
np.var(X(3, 'f4'), ddof=0, correction=1)
np.linalg.matrix_norm(X((2, 3), 'f4'), ord=None)
X(3, 'f4') + range(3)
range(3) * X(3, 'f4')
np.array([1, 2]) * np.poly1d([1, 2])
np.vectorize(np.sin)([1.0, 2.0])
np.unwrap(X(6, 'i4'), period=4)
np.unwrap(X(6, 'i4'), period=5)
np.unwrap(X((2, 6), 'u1'), discont=2, axis=0)
np.unwrap(X(6, '?'))
np.einsum('ij->i', X((2, 2), 'c8'), dtype='f8', casting='unsafe')
np.linspace(1j, 2, 3, dtype=float)
np.linspace(X(3, 'c8'), 2, 3, dtype=float)
np.arange(stop=3)
np.arange(start=0, stop=4)
np.unique([nan, 1, nan], axis=0)
np.unique([3, 1, 3], axis=0, return_inverse=True)
np.array(5).transpose()
"""

ORDERS = """
F((2, 3), 'i2').astype('f2')
F((2, 3), 'i2').astype('f2', order='A')
X((2, 3, 4), 'i2').transpose(1, 0, 2).astype('f2')
np.add(2.5, F((2, 3), '?'), dtype=np.float32)
np.hypot(F((2, 3, 4), 'i8'), 0, dtype=np.float32)
np.add(F((2, 3)), 1, order='A')
np.add([[1, 2, 3], [4, 5, 6]], 1, order='A')
np.pad(F((2, 3), 'f4'), 1)
np.pad(F((2, 3), 'f4'), ((1, 0), (2, 3)), 'edge')
np.pad(X((2, 1, 3), 'c8'), (1, 2), 'reflect')
np.pad(F((4, 4), 'c8'), ((1, 2), (0, 1)), 'linear_ramp', end_values=2)
np.imag(F((3, 2), 'f4'))
np.isreal(F((3, 2), 'i4'))
np.iscomplex(F((3, 2), 'i4'))
np.broadcast_to(X((4, 4), 'f2'), (2, 4, 4)) // F((4, 4), 'f4')
np.where(np.broadcast_to(X((4, 4), 'i1'), (2, 4, 4)), X((4, 4)), 1.0)
np.clip(X((3, 2), 'c8'), 0, np.broadcast_to(X((3, 2), 'f4'), (2, 3, 2)))
np.spacing(X((2, 3), 'f4'), order='F')
np.float_power([1.5, 2.5, 3], X((2, 3), 'i4'), order='F', dtype=None)
np.fabs(X((2, 3), 'f4'), None, order='F')
np.divmod(X(3), X((2, 3), 'i4') + 4, None, order='F')[1]
np.average(X((2, 3), 'f4'), 1, returned=True)[1]
np.average(X((2, 3), 'f4'), 1, [1, 2, 3], returned=True)[1]
np.concatenate([X((2, 3)).T, X((4, 3)).T], 1)
np.concatenate([X((2, 3, 4)).transpose(1, 2, 0), X((2, 3, 4)).transpose(1, 2, 0)], 2)
np.concatenate([X((2, 3)).T, X((3, 2))], 0)
np.stack([X((2, 3)).T, X((2, 3)).T])
np.block([[X((2, 3)).T, X((2, 3)).T], [X((2, 3)).T, X((2, 3)).T]])
np.delete(X((2, 5)).T, slice(60, None), axis=0)
np.delete(X((2, 5)).T, 2, axis=0)
np.append(X((2, 5)).T, X((1, 5)).T, axis=1)
"""

ERRORS = """
np.mean(1.0, axis=0)
np.std(1.0, axis=0)
np.nanmean(1, axis=0)
np.nanvar(1, axis=0)
np.full(3, 300, 'u1')
np.geomspace(1, 0)
np.geomspace([1, 0], 3)
np.add.accumulate([[1, 2, 3]], None)
np.subtract.reduceat([1, 2, 3], [3])
np.tensordot(X((2, 3)), X(0))
np.tensordot(X((2, 3)), X(2))
np.percentile(X(0), 50)
np.frexp(X(3, 'i4'), dtype='f4')
np.var(X(3, 'f4'), ddof=1, correction=1)
X(2, 'i1').__setitem__(0, np.float64(nan))
X(2, 'i1').__setitem__((), np.int64(300))
X((), 'i1').__setitem__((), np.uint64(2**63))
X(2, 'i1').fill(np.int64(300))
np.array([1], ndmax=65)
np.array([1], ndmax=-1)
np.array(1, copy=False)
np.array(np.float32(1), copy=False)
np.einsum('ij->i', X((2, 2), 'c8'), dtype='f8')
np.arange()
np.unique([3, 1], axis=1)
X(3).__delitem__(0)
X(3).flat.__delitem__(0)
"""


def _calls(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("call", _calls(ANSWERS))
def test_answers(device, call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        agree(eval(call, _names(cm)), eval(call, _names(np)))


@pytest.mark.parametrize("call", _calls(ORDERS))
def test_orders_in_memory(device, call):
    ours, theirs = eval(call, _names(cm)), eval(call, _names(np))
    agree(ours, theirs)
    assert ours.strides == theirs.strides


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_logarithms_of_powers_of_two_are_exact(device, kind):
    powers = np.arange(np.finfo(kind).minexp, np.finfo(kind).maxexp)
    numbers = np.ldexp(np.ones(len(powers), kind), powers)
    np.testing.assert_array_equal(cm.log2(cm.array(numbers)).to_numpy(), powers)


def test_whole_powers_of_infinite_numbers(device):
    numbers = np.array([np.inf, complex(0, np.inf), complex(1, np.inf), complex(-np.inf, 2)])
    with np.errstate(invalid="ignore"):
        for power, expected in ((2, numbers * numbers), (3, numbers * (numbers * numbers))):
            np.testing.assert_array_equal((cm.array(numbers) ** power).to_numpy(), expected)


@pytest.mark.parametrize("call", _calls(ERRORS))
def test_errors(device, call):
    with pytest.raises(Exception) as theirs:
        eval(call, _names(np))
    with pytest.raises(theirs.type):
        eval(call, _names(cm))


CHANGES = """
np.add.at(x, [0, 0, 1], [1.5, 2.5, -1.5])
np.divide.at(x, [0, 0, 1], 2)
np.subtract.at(x, [0, 0, 1], 1.5)
np.maximum.at(x, [1, 2], 3.5)
x.__setitem__(0, np.int64(3))
x.__setitem__(..., np.float32(2.7))
x.__setitem__([0, 1], np.int64(3))
"""


@pytest.mark.parametrize("dtype", ["i4", "u1", "f4", "?"])
@pytest.mark.parametrize("call", _calls(CHANGES))
def test_changes_in_place(device, call, dtype):
    """Results of other dtypes are converted, as NumPy's ufunc.at converts them."""
    if dtype == "?" and "subtract" in call:
        pytest.skip("bools have no difference")
    both = []
    for xp in (cm, np):
        names = _names(xp)
        names["x"] = names["X"](5, dtype) + xp.asarray(3, dtype)
        eval(call, names)
        both.append(names["x"])
    agree(*both)


OWN = """
X((2, 3), 'i2').copy('F')
X((2, 3), 'i2').T.copy('K')
X((2, 3), 'i2').T.astype('f4')
X((2, 3), 'i2').T.astype('f4', order='C')
X((2, 3), 'i2').ravel('F')
X((2, 3), 'i2').flatten()
X((2, 3), 'i2').flatten('F')
X(3, 'i4').byteswap()
X(3, 'i4').repeat(2)
np.copy(X((2, 3)), order='F')
np.array([[1, 2, 3], [4, 5, 6]], order='F')
np.asfortranarray(X((2, 3), 'i2'))
np.zeros((2, 3), order='F')
np.full((2, 3), 2.5, order='F')
np.ones_like(F((2, 3)))
np.full_like(X(6)[::2], 1)
np.add(X((2, 3)), 1, order='F')
np.repeat(X((2, 3)), 2, axis=1)
np.choose([0, 1], [[1, 2], [3, 4]])
np.quantile(X((2, 3)), [0.2, 0.3])
np.convolve(X(3), X(2))
np.round(X((2, 3), 'c8'), -1)
np.fft.fftshift(X((4, 4)))
np.linalg.solve(X((3, 3)) + 9 * np.eye(3), [1.0, 2, 3])
np.subtract.reduce(X((1, 3)))
np.fmax.accumulate(X((1, 3)))
np.vander(X(3))
"""


@pytest.mark.parametrize("call", _calls(OWN))
def test_new_arrays_own_their_memory(device, call):
    ours, theirs = eval(call, _names(cm)), eval(call, _names(np))
    assert theirs.base is None is ours.base
    assert theirs.flags.owndata and ours.flags.owndata


@pytest.mark.parametrize("function", ["subtract", "fmax", "power", "hypot", "bitwise_or", "divide"])
def test_reductions_of_one_element_are_no_views(device, function):
    x = cm.ones((1, 3), "i8" if function == "bitwise_or" else "f8")
    for result in (getattr(cm, function).reduce(x), getattr(cm, function).accumulate(x)):
        result[...] = 5
    assert x.tolist() == [[1, 1, 1]]


ELLIPSIS = """
np.add(1, 2, out=...)
np.add(np.array(1), 2, out=...)
np.negative(np.float32(1), out=...)
np.divmod(1, 2, out=...)[0]
np.add.reduce(np.array(1), out=...)
np.maximum.reduce(X(3), out=...)
"""


@pytest.mark.parametrize("call", _calls(ELLIPSIS))
def test_results_as_arrays(device, call):
    """`out=...` asks for an array, also without dimensions."""
    ours, theirs = eval(call, _names(cm)), eval(call, _names(np))
    assert type(ours) is cm.ndarray and type(theirs) is np.ndarray
    agree(ours, theirs)


def test_one_draw_is_a_scalar(device):
    rng = cm.random.default_rng(0)
    for number in (rng.zipf(2.0), rng.hypergeometric(10, 5, 3), rng.vonmises(0.0, 1.0)):
        assert isinstance(number, cm.generic) and number.shape == ()


def test_first_powers_are_exact(device):
    for dtype in ("f4", "f8"):
        x = np.random.default_rng(0).random(1000).astype(dtype) * 9
        assert np.array_equal(np.asarray(cm.asarray(x) ** cm.ones(1000, dtype)), x)
        assert np.array_equal(np.asarray(cm.pow(cm.asarray(x), 1)), x)


def test_results_in_errstate_are_scalars(device):
    """The record that looks for errors kept arrays, which in-place operators changed."""
    with cm.errstate(all="warn"):
        total, seen = cm.ones(3).sum(), []
        for _ in range(3):
            seen.append(total)
            total += 1
    assert [float(t) for t in seen] == [3, 4, 5]


@pytest.mark.parametrize("around", [lambda f: f, cm.cuda.graph, cm.jit])
def test_scalars_are_values_in_transformed_functions(device, around):
    def three(x):
        total, seen = x.sum(), []
        for _ in range(3):
            seen.append(total)
            total += 1
        return cm.stack(seen)

    function = around(three)
    for _ in range(3):  # a graph runs, then watches, then replays
        assert function(cm.ones(3)).tolist() == [3, 4, 5]
    written = []
    cm.explain(lambda: written.append(three(cm.ones(3))))
    assert written[0].tolist() == [3, 4, 5]


def test_imaginary_parts_are_lost_with_a_warning(device):
    for call in ("sum", "prod", "mean", "cumsum", "nansum", "nancumprod", "full_like"):
        x = cm.ones(3, "c8" if call != "full_like" else "f4")
        more = {"dtype": "f4"} if call != "full_like" else {"fill_value": 1j}
        with pytest.warns(np.exceptions.ComplexWarning):
            getattr(cm, call)(x, **more)
    for key in (0, slice(None), [0, 1]):
        with pytest.warns(np.exceptions.ComplexWarning):
            cm.ones(3)[key] = cm.ones((), "c8")


def test_floats_that_no_integer_holds(device):
    """Undefined, as in NumPy; refused before."""
    for value in (np.nan, np.inf, 1e30):
        assert cm.full(2, value, "i4").shape == cm.full_like(cm.ones(2, "u1"), value).shape


@pytest.mark.parametrize("dtype", ["f4", "i8", "u1"])
@pytest.mark.parametrize("make", [cm.conj, lambda x: cm.fft.fftshift(x, axes=())])
def test_results_share_no_memory(device, make, dtype):
    x = cm.ones(3, dtype)
    make(x)[0] = 5
    assert x.tolist() == [1, 1, 1]
