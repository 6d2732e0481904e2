"""What a reviewer found beside NumPy: each was wrong once, or refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from habits import agree

import cudamath as cm

EIGHTHS, KEPT = np.array([1.875, 2.125, 2.875], "f4"), np.array([True, False, True])
TURNED = np.array([1 + 2j, 3 - 1j, 0.5])

#: Functions of the module and of a function that makes its arrays, whose answers are NumPy's.
CALLS = [
    # the dtype of a variance about a given mean
    *[lambda m, a, f=f, t=t, n=n: getattr(m, f)(a(EIGHTHS), dtype=t, mean=n if isinstance(n, float) else a(n))
      for f in ("var", "std", "nanvar", "nanstd") for t in (None, "f4", "f8")
      for n in (3.25, np.array([3.25]), np.array([3.25], "f4"))],
    *[lambda m, a, f=f, k=k: getattr(m, f)(a(EIGHTHS), where=a(KEPT), **k) for f in ("var", "std")
      for k in ({}, {"dtype": "f8"}, {"mean": 2.5}, {"mean": 2.5, "dtype": "f8"}, {"ddof": 1})],
    lambda m, a: m.var(a([1, 2, 3]), mean=a(np.array([2.5], "f4")), dtype="f4"),
    lambda m, a: m.mean(a(TURNED), dtype="c8"), lambda m, a: m.mean(a(TURNED), dtype="c8", where=a(KEPT)),
    # numbers among choices widened the others, and whole numbers beside uint64 made float64 of it
    *[lambda m, a, t=t, n=n: m.choose(a([0, 1]), [a(np.array([2, 1], t)), n]) for t in ("f2", "f4", "u1", "u8", "c8", "?")
      for n in (2.5, 1, True)],
    lambda m, a: m.choose(a([1, 0]), [3, a(np.array([2**64 - 1, 5], "u8"))]), lambda m, a: m.choose(a([0, 1, 0]), [1, 2.5]),
    lambda m, a: m.choose(a([1, 0]), [np.float64(0.1), a(np.array([2, 1], "f4"))]),
]


@pytest.mark.parametrize("call", CALLS)
def test_as_numpy(call, device):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = call(np, lambda x: np.array(x))
    agree(call(cm, lambda x: cm.asarray(np.array(x))), theirs)


#: Calls that are refused: (function, error, how its message begins).
REFUSED: list[tuple[Any, type[Exception], str]] = [
    # with `where=` nobody had asked whether the dtype will do; and means dropped imaginary parts
    *[(lambda f=f, k=k: getattr(cm, f)(cm.asarray(EIGHTHS), dtype="i4", **k), TypeError, f"{f}: wants a floating-point")
      for f in ("var", "std", "nanvar", "nanstd") for k in ({"where": KEPT}, {"mean": 2.0}, {"where": KEPT, "mean": 2.0})],
    *[(lambda f=f, k=k: getattr(cm, f)(cm.asarray(TURNED), dtype="f8", **k), TypeError,
       f"{f}: complex128 of shape (3,) would lose its imaginary part in dtype float64")
      for f in ("var", "std", "nanvar", "nanstd", "mean", "nanmean") for k in ({}, {"where": KEPT})],
    (lambda: cm.mean(cm.asarray(TURNED), dtype="i4"), TypeError, "mean: complex128 of shape (3,) would lose"),
    (lambda: cm.std(cm.asarray(EIGHTHS), where=KEPT, ddof="one"), TypeError, "std: correction must be a number"),
    (lambda: cm.choose(cm.asarray([0, 1]), [cm.ones(2, "u1"), 300]), OverflowError, "choose: 300 as uint8"),
]


@pytest.mark.parametrize(("call", "error", "begins"), REFUSED)
def test_refused(call, error, begins, device):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(begins)
