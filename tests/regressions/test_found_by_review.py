"""What a reviewer found beside NumPy: each was wrong once, or refused."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
import pytest
from numpy_comparison import agree

import cudamath as cm

EIGHTHS, KEPT = np.array([1.875, 2.125, 2.875], "f4"), np.array([True, False, True])
TURNED = np.array([1 + 2j, 3 - 1j, 0.5])


def at(m: Any, function: str, x: Any, values: Any) -> Any:
    """What `ufunc.at` leaves, where one position occurs twice."""
    getattr(m, function).at(x, [0, 2, 0], values)
    return x


def diagonal(m: Any, x: Any, values: Any, wrap: bool) -> Any:
    """What `fill_diagonal` leaves."""
    m.fill_diagonal(x, values, wrap)
    return x


def over(m: Any, x: Any) -> Any:
    """Quotients and remainders, the first of which are written into what both are of."""
    return m.divmod(x, 3, out=(x, None))


#: Functions of the module and of a function that makes its arrays, whose answers are NumPy's.
CALLS = [
    # the dtype of a variance about a given mean
    *[
        lambda m, a, f=f, t=t, n=n: getattr(m, f)(
            a(EIGHTHS), dtype=t, mean=n if isinstance(n, float) else a(n)
        )
        for f in ("var", "std", "nanvar", "nanstd")
        for t in (None, "f4", "f8")
        for n in (3.25, np.array([3.25]), np.array([3.25], "f4"))
    ],
    *[
        lambda m, a, f=f, k=k: getattr(m, f)(a(EIGHTHS), where=a(KEPT), **k)
        for f in ("var", "std")
        for k in ({}, {"dtype": "f8"}, {"mean": 2.5}, {"mean": 2.5, "dtype": "f8"}, {"ddof": 1})
    ],
    lambda m, a: m.var(a([1, 2, 3]), mean=a(np.array([2.5], "f4")), dtype="f4"),
    lambda m, a: m.mean(a(TURNED), dtype="c8"),
    lambda m, a: m.mean(a(TURNED), dtype="c8", where=a(KEPT)),
    # numbers among choices widened the others, and whole numbers beside uint64 made float64 of it
    *[
        lambda m, a, t=t, n=n: m.choose(a([0, 1]), [a(np.array([2, 1], t)), n])
        for t in ("f2", "f4", "u1", "u8", "c8", "?")
        for n in (2.5, 1, True)
    ],
    lambda m, a: m.choose(a([1, 0]), [3, a(np.array([2**64 - 1, 5], "u8"))]),
    lambda m, a: m.choose(a([0, 1, 0]), [1, 2.5]),
    lambda m, a: m.choose(a([1, 0]), [np.float64(0.1), a(np.array([2, 1], "f4"))]),
    # in place of unsigned numbers a Python number was refused
    *[
        lambda m, a, f=f, t=t, n=n: at(m, f, a(np.array([4, 3, 9], t)), n)
        for t in ("u1", "u4", "i2", "i8")
        for f in (
            "bitwise_or",
            "floor_divide",
            "power",
            "left_shift",
            "logical_and",
            "subtract",
            "gcd",
            "fmax",
            "add",
        )
        for n in (1, 2, [1, 2, 3])
    ],
    *[
        lambda m, a, f=f: at(m, f, a(np.array([4, 3, 9], "u8")), 2)
        for f in ("floor_divide", "power", "subtract", "fmin")
    ],
    *[
        lambda m, a, f=f, t=t: at(m, f, a(np.array([4, 3, 9], t)), 2)
        for t in ("f4", "f2", "c8")
        for f in ("divide", "add")
    ],
    lambda m, a: at(m, "logical_and", a(np.array([4, 3, 9], "u1")), 256),
    lambda m, a: at(m, "hypot", a(EIGHTHS), 2.0),
    # with dtype= numbers were made int64 first, and then cast: 300 became 44, and 2**64 was refused
    lambda m, a: m.multiply(a([1.0, 2.0]), 2**64, dtype="f8"),
    lambda m, a: m.less(a(np.array([1, 2], "u1")), 300, dtype=bool),
    *[
        lambda m, a, t=t, n=n: (
            m.add(a(np.array([1, 2], "u1")), n, dtype=t),
            m.subtract(n, a(np.array([1, 2], "u1")), dtype=t),
        )
        for t in ("i4", "u2", "f2", "f4", "f8", "c8")
        for n in (300, True)
    ],
    lambda m, a: m.add(a([1, 2]), 2.5, dtype="i4", casting="unsafe"),
    lambda m, a: m.negative(3, dtype="f4"),
    lambda m, a: m.add(a([True, False]), 1, dtype=bool, casting="unsafe"),
    lambda m, a: m.add(1, 2, dtype="f4"),
    *[
        lambda m, a, n=n: m.logical_and(a(np.array([1, 2], "u1")), n, dtype=bool)
        for n in (256, 1e-300, 0)
    ],
    # functions written by hand lacked the options of ufuncs
    *[
        lambda m, a, f=f, t=t, k=k: getattr(m, f)(a(np.array([7.5, 7, 2], t)), **k)
        for f in ("fabs", "spacing", "modf")
        for t in ("f4", "f8", "i2", "u1")
        for k in ({"dtype": "f4"}, {"dtype": "f8", "casting": "safe"}, {"casting": "unsafe"})
    ],
    *[
        lambda m, a, f=f: getattr(m, f)(a(EIGHTHS), a(np.zeros(3, "f8")), where=a(KEPT))
        for f in ("fabs", "spacing")
    ],
    *[
        lambda m, a, k=k: m.float_power(a(EIGHTHS), 2, **k)
        for k in ({"dtype": "f8"}, {"dtype": "c16"}, {"casting": "safe"})
    ],
    lambda m, a: m.float_power(a([2, 3, 5]), a([1.5, 2, 3]), out=a(np.ones(3)), where=a(KEPT)),
    *[lambda m, a, t=t: m.divmod(a(np.array([7, -7, 9])), 4, dtype=t) for t in ("f4", "i2", "f8")],
    *[
        lambda m, a, f=f, n=n, q=q, r=r: getattr(m, f)(
            a(np.array([7.5, -7, 2])), *n, out=(a(np.ones(3, q)), a(np.ones(3, r))), where=a(KEPT)
        )
        for f, n, q, r in (
            ("divmod", (3,), "f4", "c16"),
            ("modf", (), "f8", "f4"),
            ("frexp", (), "f8", "i8"),
        )
    ],
    lambda m, a: m.divmod(a([7, -7]), 3, out=(None, a(np.zeros(2)))),
    lambda m, a: over(m, a([7, -7, 5])),
    lambda m, a: m.ldexp(a(EIGHTHS), 2, out=a(np.ones(3)), where=a(KEPT)),
    lambda m, a: m.ldexp(a(EIGHTHS), a([1, 2, 3]), out=a(np.ones(3)), where=a(KEPT)),
    *[
        lambda m, a, f=f, t=t, n=n: at(m, f, a(np.array([2, 3, 5], t)), n)
        for f in ("float_power", "ldexp")
        for t in ("f4", "f8")
        for n in (2, [1, 2, 3])
    ],
    *[
        lambda m, a, b=b, k=k: m.clip(a(np.array([1, 5, 9], "u1")), *b, **k)
        for b in ((2, 7), (None, 7), (2, 300), (-3, None))
        for k in ({"dtype": "f4"}, {"dtype": "u1"}, {"dtype": "i8", "casting": "safe"})
    ],
    lambda m, a: m.clip(a([1, 5, 9.5]), 2, 7, dtype="i4", casting="unsafe"),
    *[
        lambda m, a, b=b: m.clip(
            a(np.array([1, 5, 9])), *b, a(np.zeros(3)), where=a(KEPT), dtype="f4"
        )
        for b in ((2, 7), (2, None))
    ],
    # several shifts of all; grids of what is no vector; modes by axis; a number along its only
    # axis, as NumPy sees it
    *[
        lambda m, a, s=s: m.roll(a(np.arange(6).reshape(2, 3)), s)
        for s in ((1, 2), [1, -3], (), np.array([4, 5]), (7,))
    ],
    *[
        lambda m, a, k=k, s=s: m.meshgrid(
            a(np.arange(6).reshape(2, 3)).T, a([1, 2, 3]), a(5), indexing=k, sparse=s
        )
        for k in ("xy", "ij")
        for s in (True, False)
    ],
    *[
        lambda m, a, k=k: m.ravel_multi_index((a([2, 1]), a([7, 0])), (3, 4), mode=k)
        for k in (("wrap", "clip"), ("raise", "clip"), ["clip", "wrap"])
    ],
    # indices of dtypes that no range is made in; a diagonal that nothing is assigned to
    *[
        lambda m, a, s=s, t=t: m.indices(s, dtype=t)
        for s in ((2,), (2, 1), (0, 2), ())
        for t in ("c8", "c16", "?", "f2", "i1")
    ],
    *[
        lambda m, a, v=v, w=w: diagonal(m, a(np.arange(8).reshape(4, 2)), v, w)
        for v in ([], np.zeros((0, 3)))
        for w in (True, False)
    ],
    lambda m, a: m.linspace(1j, 2, 3, dtype="c8"),
    lambda m, a: m.einsum("i,i", a(TURNED), a(EIGHTHS), dtype="c16"),
    # bools are numbers, 0 and 1
    *[lambda m, a, o=o: m.linalg.norm(a(KEPT), o) for o in (None, 0, 1, 2, 3, np.inf, -np.inf)],
    *[
        lambda m, a, o=o: m.linalg.norm(a([[True, True], [False, True]]), o)
        for o in (None, "fro", "nuc", 1, -1, 2, np.inf)
    ],
    lambda m, a: (m.linalg.vector_norm(a(KEPT)), m.linalg.matrix_norm(a(KEPT[None]))),
    lambda m, a: (
        m.trapezoid(a(KEPT)),
        m.trapezoid(a(KEPT), a([1, 3, 4])),
        m.trapezoid(a([1.0, 2, 4]), a(KEPT)),
    ),
    *[
        lambda m, a, p=p, x=x: m.polyval(a(p), a(x))
        for p in (KEPT, [1, 2], EIGHTHS)
        for x in (KEPT, [3, 4], 2.5)
    ],
    *[
        lambda m, a, x=x, b=b, r=r: m.digitize(a(x), a(b), right=r)
        for x, b in ((KEPT, [0, 0.5]), (EIGHTHS, [False, True]), (KEPT, [True, False]))
        for r in (True, False)
    ],
    *[
        lambda m, a, k=k, i=i: (
            m.take(a(5), i, axis=k),
            m.repeat(a(5.5), 3, axis=k),
            m.repeat(a(5), [2], axis=k),
        )
        for k in (0, -1)
        for i in ([0, 0], -1)
    ],
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
    *[
        (
            lambda f=f, k=k: getattr(cm, f)(cm.asarray(EIGHTHS), dtype="i4", **k),
            TypeError,
            f"{f}: wants a floating-point",
        )
        for f in ("var", "std", "nanvar", "nanstd")
        for k in ({"where": KEPT}, {"mean": 2.0}, {"where": KEPT, "mean": 2.0})
    ],
    *[
        (
            lambda f=f, k=k: getattr(cm, f)(cm.asarray(TURNED), dtype="f8", **k),
            TypeError,
            f"{f}: complex128 of shape (3,) would lose its imaginary part in dtype float64",
        )
        for f in ("var", "std", "nanvar", "nanstd", "mean", "nanmean")
        for k in ({}, {"where": KEPT})
    ],
    (
        lambda: cm.mean(cm.asarray(TURNED), dtype="i4"),
        TypeError,
        "mean: complex128 of shape (3,) would lose",
    ),
    (
        lambda: cm.std(cm.asarray(EIGHTHS), where=KEPT, ddof="one"),
        TypeError,
        "std: correction must be a number",
    ),
    (
        lambda: cm.choose(cm.asarray([0, 1]), [cm.ones(2, "u1"), 300]),
        OverflowError,
        "choose: 300 as uint8",
    ),
    # subtract.at spoke of add_at, and took a number that does not fit
    *[
        (lambda f=f, n=n: getattr(cm, f).at(cm.ones(3, "u1"), [0, 0], n), OverflowError, begins)
        for f, begins in (
            ("add", "add_at: "),
            ("subtract", "subtract.at: "),
            ("bitwise_or", "bitwise_or: Python integer"),
        )
        for n in (300, -1)
    ],
    (
        lambda: cm.subtract.at(cm.ones(3, "i4"), [0, 0], [0.5, 1.5]),
        TypeError,
        "subtract.at: values of float64 would lose",
    ),
    (lambda: cm.subtract.at(cm.ones(3), 7, 1), IndexError, "subtract.at: "),
    (
        lambda: cm.divide.at(cm.ones(3, "u1"), [0, 0], 2),
        TypeError,
        "divide.at: a result of float64",
    ),
    # numbers that the dtype asked for cannot hold
    *[
        (
            lambda n=n, k=k: cm.add(cm.ones(2, "u1"), n, dtype="u1", **k),
            OverflowError,
            f"add: Python integer {n} out of bounds",
        )
        for n in (300, -1)
        for k in ({}, {"casting": "unsafe"}, {"where": KEPT[:2]})
    ],
    (lambda: cm.add(300, 1, dtype="u1"), OverflowError, "add: 300 as uint8"),
    *[
        (
            lambda f=f: getattr(cm, f)(cm.asarray(EIGHTHS), dtype="i4"),
            TypeError,
            f"{f}: wants a floating-point dtype, got int32",
        )
        for f in ("fabs", "spacing", "modf")
    ],
    (
        lambda: cm.fabs(cm.ones(2), dtype="f4", casting="safe"),
        TypeError,
        "fabs: cannot compute in dtype float32",
    ),
    (lambda: cm.modf(cm.ones(2), casting="wild"), ValueError, "modf: casting must be"),
    (
        lambda: cm.float_power(cm.ones(2), 2, dtype="f4"),
        TypeError,
        "float_power: is computed in float64 or complex128",
    ),
    (
        lambda: cm.float_power(cm.asarray(TURNED), 2, dtype="f8"),
        TypeError,
        "float_power: cannot compute in dtype float64",
    ),
    (
        lambda: cm.clip(cm.ones(2), 0, 1, dtype="i4"),
        TypeError,
        "clip: cannot compute in dtype int32",
    ),
    *[
        (
            lambda f=f, k=k: getattr(cm, f)(cm.ones(2), *k, out=cm.ones(2)),
            TypeError,
            f"{f}: out must be a tuple of two arrays",
        )
        for f, k in (("divmod", (2,)), ("modf", ()), ("frexp", ()))
    ],
    (lambda: cm.frexp(cm.ones(2), out=(None, cm.zeros(2, "?"))), TypeError, "frexp: "),
    *[
        (
            lambda k=k: cm.ravel_multi_index(([1], [2]), (3, 4), mode=k),
            ValueError,
            "ravel_multi_index: order must be",
        )
        for k in (("wrap",), ("wrap", "raise", "clip"), ("wrap", "up"))
    ],
    *[
        (
            lambda f=f: getattr(cm, f)(cm.asarray(5), 0, axis=1),
            np.exceptions.AxisError,
            f"{f}: axis 1 is out of bounds",
        )
        for f in ("take", "repeat")
    ],
    # imaginary parts were dropped, or the error was Python's or NumPy's own
    *[
        (
            lambda t=t: cm.linspace(1j, 2, 3, dtype=t),
            TypeError,
            "linspace: numbers from 1j to 2 would lose",
        )
        for t in ("u1", "f4")
    ],
    *[
        (
            lambda t=t: cm.linspace(cm.asarray([1j]), 2, 3, dtype=t),
            TypeError,
            "linspace: complex128 of shape (3, 1) would lose",
        )
        for t in ("u1", "f4")
    ],
    (
        lambda: cm.einsum("i,i", cm.asarray(TURNED), cm.asarray(EIGHTHS), dtype="f4"),
        TypeError,
        "einsum: complex128 of shape (3,) would lose its imaginary part in dtype float32",
    ),
    (
        lambda: pow(cm.asarray([2]), 3, 5),
        TypeError,
        "pow: no power of arrays is taken modulo a number, got 5 for int64",
    ),
    # NumPy's arrays cannot be written into
    (
        lambda: np.add(cm.ones(2), 1, out=np.zeros(2)),
        TypeError,
        "add: out must be an ndarray of this package, got numpy",
    ),
    (
        lambda: operator.iadd(np.ones(3), cm.ones(3)),
        TypeError,
        "add: out must be an ndarray of this package",
    ),
    (
        lambda: np.divmod(cm.ones(2), 1, out=(None, np.zeros(2))),
        TypeError,
        "divmod: out must be an ndarray of this package",
    ),
    # where a function had nothing to be applied to, nobody had asked for dtypes
    *[
        (
            lambda f=f, x=x, k=k: getattr(cm, f).reduce(cm.asarray(x), axis=k),
            TypeError,
            f"{f}.reduce: wants {wanted} arrays, got float64 of shape {np.shape(x)}",
        )
        for f, wanted in (("bitwise_or", "integer or bool"), ("gcd", "integer"))
        for x, k in (([[1.5, 2.5]], 0), ([[1.5, 2.5]], ()), (1.5, None), (np.zeros((0, 2)), 0))
    ],
    *[
        (
            lambda f=f: getattr(cm, f).accumulate(cm.asarray([[1j, 2]]), axis=0),
            TypeError,
            f"{f}.accumulate: wants ",
        )
        for f in ("hypot", "fmod", "bitwise_xor", "logaddexp")
    ],
    (
        lambda: cm.subtract.reduce(cm.asarray([[True]]), axis=0),
        TypeError,
        "subtract.reduce: wants numeric arrays, got bool",
    ),
]


@pytest.mark.parametrize(("call", "error", "begins"), REFUSED)
def test_refused(call, error, begins, device):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value).startswith(begins)


def test_bools_are_drawn_as_integers(device):
    """They were refused."""
    for given in (
        ((0, 2, 500), {}),
        ((2,), {"size": (5, 100)}),
        ((0, 1, 500), {"endpoint": True}),
        (([0] * 500, 2), {}),
    ):
        for _ in range(2):  # new, and seen before
            drawn = cm.random.default_rng(3).integers(*given[0], dtype=bool, **given[1])
            assert drawn.dtype == bool and 200 < drawn.to_numpy().sum() < 300
    assert cm.random.default_rng(3).integers(1, 2, 9, dtype=bool).tolist() == [True] * 9
    assert cm.random.randint(2, size=4, dtype=bool).dtype == bool
    for wrong in (3, [1, 3]):
        with pytest.raises(
            ValueError, match=r"^random.integers: wants bounds that bool can hold \(0 to 1\)"
        ):
            cm.random.default_rng(3).integers(0, wrong, dtype=bool)


def test_numpys_ufuncs_pass_their_options_on(device):
    x, y, pair = cm.asarray(EIGHTHS), cm.zeros(3), (cm.zeros(3), cm.zeros(3))
    assert np.fabs(x, out=y, where=cm.asarray(KEPT)) is y and y.tolist() == [1.875, 0, 2.875]
    assert np.divmod(x, 2, out=pair)[1] is pair[1]
    assert [each.tolist() for each in pair] == [each.tolist() for each in np.divmod(EIGHTHS, 2)]
    np.float_power.at(y, [0, 0], 2)
    assert y.tolist() == [1.875**4, 0, 2.875]
