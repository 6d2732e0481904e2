"""What a stranger tries: arguments nobody meant, beside what NumPy makes of them. No answer may be wrong without a word."""

import numpy as np
import pytest

import cudamath as cm

A, V, F = np.random.default_rng(0).normal(size=(4, 5)), np.arange(10), np.random.default_rng(1).normal(size=10)


@pytest.mark.parametrize("call", [
    lambda m, x: m.sum(x, True), lambda m, x: m.max(x, axis=False), lambda m, x: m.cumsum(x, True),
    lambda m, x: m.mean(x, axis=(0, True)), lambda m, x: m.argmax(x, True)])
def test_a_bool_is_no_axis(device, call):
    with pytest.raises(TypeError):
        call(np, A)
    with pytest.raises(TypeError, match=r"^\w+: axis must be an integer, got (True|False) for an array of 2 dimensions"):
        call(cm, cm.asarray(A))


def test_contains(device):
    x = cm.asarray(V)
    assert 3 in x and 11 not in x and None not in x and "a" not in x


@pytest.mark.parametrize("into, value, error", [
    ("i8", 1.5, TypeError), ("f8", 1j, TypeError), ("?", 5, TypeError), ("i8", 7, None), ("i8", True, None), ("u1", 5, None),
    ("f4", 2.5, None), ("f8", 3, None), ("c8", 1.5, None), ("?", True, None)])
def test_copyto_loses_nothing(device, into, value, error):
    mine, theirs = cm.zeros(3, dtype=into), np.zeros(3, into)
    if error is None:
        cm.copyto(mine, value, where=[True, False, True]), np.copyto(theirs, value, where=[True, False, True])
    else:
        for where in (True, [True, False, True]):
            with pytest.raises(error, match="^copyto: .* cannot become .* of shape"):
                cm.copyto(mine, value, where=where)
        with pytest.raises(error):
            np.copyto(theirs, value)
        if value != 1j:
            cm.copyto(mine, value, "unsafe"), np.copyto(theirs, value, "unsafe")
    assert np.array_equal(mine.to_numpy(), theirs)


@pytest.mark.parametrize("call, error, words", [
    (lambda: cm.round(F, 2.5), TypeError, r"round: decimals must be an integer, got 2\.5 for float64 of shape \(10,\)"),
    (lambda: cm.arange("a"), TypeError, "arange: wants real numbers, got str 'a'"),
    (lambda: cm.arange(1j), TypeError, "arange: wants real numbers, got complex 1j"),
    (lambda: cm.arange(0, None, [3]), TypeError, "arange: wants real numbers, got list"),
    (lambda: cm.bincount([1], minlength=2.5), TypeError, "bincount: minlength must be an integer, got 2.5"),
    (lambda: cm.var(V, dtype=int), TypeError, r"var: wants a floating-point or complex dtype, got int64 for int64 of"),
    (lambda: cm.std(F, dtype="u1"), TypeError, "std: wants a floating-point"),
    (lambda: cm.nanvar(F, dtype=int), TypeError, "nanvar: wants a floating-point"),
    (lambda: cm.nanstd(F, dtype=int), TypeError, "nanstd: wants a floating-point"),
    (lambda: cm.nanmean(F, dtype=int), TypeError, "nanmean: wants a floating-point"),
    (lambda: cm.sum(A, where=np.ones(3, bool)), ValueError, r"sum: shapes \(3,\) and \(4, 5\) cannot be broadcast"),
    (lambda: cm.mean(A, where=np.ones(3, bool)), ValueError, r"mean: shapes \(3,\) and \(4, 5\)"),
    (lambda: cm.sum(V, where=np.ones((3, 10), bool)), ValueError, r"sum: where of shape \(3, 10\) does not fit an array of"),
])
def test_errors(device, call, error, words):
    with pytest.raises(error, match=f"^{words}"):
        call()


@pytest.mark.parametrize("call", [
    lambda m: m.mean(m.asarray(V), dtype=int), lambda m: m.mean(m.asarray(A * 9), dtype="i4", axis=0, keepdims=True),
    lambda m: m.cov(m.asarray(A), ddof=9), lambda m: m.cov(m.asarray(A), ddof=5),
    lambda m: m.cov(m.asarray(A), ddof=9, aweights=m.asarray([1.0, 2, 3, 4, 5])), lambda m: m.cov(m.asarray(A[:, :1])),
    lambda m: m.round(m.asarray(F), np.int64(2)), lambda m: m.sum(m.asarray(A), where=m.asarray(A[:1] > 0), axis=0)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_numpy(device, call):
    mine, theirs = call(cm).to_numpy(), call(np)
    assert mine.dtype == theirs.dtype
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)
