"""What random calls beside NumPy brought to light: each was wrong once, silently where nothing else
is said."""

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm

RNG = np.random.default_rng(7)
CUBE = RNG.integers(-9, 9, (2, 3, 4))

#: Functions of the module and of a function that makes its arrays.
CALLS = [
    # |-128| is not an int8: norms of integers took it for negative
    *[
        lambda m, a, o=o: m.linalg.norm(a(np.array([-128, 1, 7], "i1")), o)
        for o in (1, 3, 0, np.inf, -np.inf)
    ],
    lambda m, a: m.linalg.norm(a(np.array([[-128, 1], [100, 100]], "i1")), 1),
    # the first element stayed what it was, among bools
    *[
        lambda m, a, f=f: getattr(m, f).accumulate(a([[3, 0, 2], [0, 5, 0]]), axis=1)
        for f in ("logical_and", "logical_or", "logical_xor")
    ],
    lambda m, a: m.less.accumulate(a([True, False, True])),
    # order "K" read in C order
    *[
        lambda m, a, p=p: (
            m.ravel(a(CUBE).transpose(p), order="K"),
            a(CUBE).transpose(p).flatten("K"),
        )
        for p in ((1, 2, 0), (2, 1, 0), (0, 2, 1))
    ],
    lambda m, a: m.ravel(a(CUBE)[:, ::-1].transpose(2, 0, 1), order="K"),
    lambda m, a: m.ravel(m.flip(m.broadcast_to(a(CUBE), (2, 2, 3, 4)), 2), order="K"),
    lambda m, a: m.ravel(
        m.broadcast_to(a(CUBE).transpose(2, 1, 0)[:, None], (4, 3, 3, 2)), order="K"
    ),
    # integers beyond 2^53 went through float64
    *[
        lambda m, a, k=k: m.percentile(a([2**60 + 1, 2**60 + 3, 2**60 + 9]), [50, 99], method=k)
        for k in ("lower", "higher", "nearest", "inverted_cdf", "closest_observation", "linear")
    ],
    lambda m, a: m.nanquantile(a(CUBE), 0.3, axis=1, method="nearest", keepdims=True),
    lambda m, a: m.quantile(a(CUBE > 0), 0.3, axis=2, method="lower"),
    lambda m, a: m.vander(a(np.array([2**63, 1], "u8")), 2),
    *[
        lambda m, a, e=e: m.geomspace(*e, 5)
        for e in ((1j, 8j), (1 + 1j, -2), (np.float32(1), 8), (-1, -8))
    ],
    # dtypes of results
    lambda m, a: m.max(a(CUBE > 0), axis=0, initial=0),
    lambda m, a: m.min(a(CUBE > 0), axis=1, initial=3),
    lambda m, a: m.prod(a(CUBE.astype("f4")), axis=0, initial=np.float64(2)),
    lambda m, a: m.min(a(CUBE.astype("f4")), axis=0, initial=a(np.float64(2))),
    lambda m, a: m.mean(a(CUBE), axis=0, where=a(CUBE > 0), dtype="i4"),
    # a float32 sum for a float64 array
    *[
        lambda m, a, f=f: getattr(m, f)(
            a(np.array([[0.1, 0.2, 0.3]] * 5, "f4")), axis=0, out=a(np.zeros(3))
        )
        for f in ("sum", "mean", "prod")
    ],
    # nothing to add up, along axes that are not the innermost
    *[
        lambda m, a, f=f: getattr(m, f)(a(np.zeros((66, 32, 0, 65))), axis=(3, 0))
        for f in ("sum", "mean", "std")
    ],
    lambda m, a: m.mean(
        a(np.zeros((66, 0, 65), "i4")), axis=(2, 0), where=a(np.zeros((0, 1), bool))
    ),
    # a polynomial of a polynomial was one of its coefficients
    lambda m, a: m.asarray(m.polyval(a([1.0, 2, 3]), m.poly1d([1.0, -2])).coeffs),
    lambda m, a: m.asarray(m.polyval([2, 1], m.poly1d([3, 4]))(5)),
    lambda m, a: m.roots(a([])),
    lambda m, a: m.roots([]),
    # the dtype of a reduction was not heeded
    *[
        lambda m, a, f=f: (
            getattr(m, f).reduce(a(CUBE), dtype="f8"),
            getattr(m, f).accumulate(a(CUBE.astype("i4")), 1, "i8"),
        )
        for f in ("maximum", "fmin", "remainder", "add")
    ],
    lambda m, a: m.bitwise_or.reduce(a(CUBE > 0), dtype="i8"),
    lambda m, a: m.maximum.reduce(a([1.5, 2.5]), dtype="i4"),
    lambda m, a: m.fmin.accumulate(a([2.5, 1.5]), dtype="i8"),
    lambda m, a: m.add.reduceat(a([1.5, 2.5]), [0, 1], dtype="i4"),
    lambda m, a: (
        m.logical_and.reduce(a(CUBE), dtype=bool),
        m.less.accumulate(a(CUBE > 0), dtype=bool),
    ),
    # where= promoted the result with out= before the rule was asked
    lambda m, a: m.power(
        *a(np.array([[2, 3], [3, 1]], "u8")), out=a(np.array([7, 7], "i8")), where=a([True, False])
    ),
    # no elements, read as others
    *[
        lambda m, a, s=s, t=t: a(np.zeros(s, "c8")).view(t)
        for s in ((0, 4), (3, 0), (0,), (2, 0, 6))
        for t in ("u1", "c16")
    ],
    # an initial value that is no number of the result's dtype made another one of it, also where
    # that was requested
    *[
        lambda m, a, f=f, i=i, t=t: getattr(m, f)(
            a(np.array([[1, 0], [3, 5]], t)), axis=1, initial=i
        )
        for f in ("sum", "prod", "max", "min")
        for i in (2.5, 1, np.float64(3.5), True)
        for t in ("i1", "u8", "f4", "?")
    ],
    lambda m, a: m.sum(a(CUBE), axis=1, initial=2.5, dtype="i4"),
    lambda m, a: m.max(a(CUBE)[:, :0], axis=1, initial=2.5),
    lambda m, a: m.min(a(CUBE), axis=0, initial=2.5, where=a(CUBE > 0)),
    *[
        lambda m, a, f=f, k=k: getattr(m, f).reduce(a(CUBE)[:, :k], (0, 1), initial=0)
        for f in ("fmax", "bitwise_or", "logical_and", "logical_or", "gcd")
        for k in (0, 3)
    ],
    lambda m, a: m.logical_and.reduce(a([1, 2]), initial=2),
    lambda m, a: m.logical_or.reduce(a(CUBE), keepdims=True, initial=1),
    # whole numbers between arrays were cut off towards 0; a number widened the array beside it;
    # steps of nothing
    lambda m, a: m.linspace(a([-4, -3]), 3.5, 5, dtype="i4"),
    lambda m, a: m.linspace(a([0.5, -0.5]), -4, 7, dtype=int, axis=1),
    *[
        lambda m, a, t=t, e=e: m.linspace(a(np.array([1, 2], t)), e, 4)
        for t in ("f2", "f4", "c8", "i4", "u1")
        for e in (5, 3.5, 2j, np.float64(5), [5, 6])
    ],
    lambda m, a: m.linspace(5, a(np.array([1, 2], "f2")), 3, endpoint=False),
    *[
        lambda m, a, s=s, n=n, e=e: tuple(
            map(m.asarray, m.linspace(a(s) if isinstance(s, list) else s, 3.5, n, e, retstep=True))
        )
        for s in (1.5, [1.0, 2.0])
        for n in (0, 1, 2)
        for e in (True, False)
    ],
    # condition of nothing but zeros; constants of integration: none, or several
    lambda m, a: (
        m.linalg.cond(a(np.zeros((2, 2))), -2),
        m.linalg.cond(a(np.zeros((3, 2, 3))), -2),
    ),
    *[
        lambda m, a, k=k, t=t: m.polyint(a([3.0, 2.0, 5.0]), t, k)
        for k, t in (
            (None, 2),
            (4, 2),
            ([7], 2),
            ([1, 2], 2),
            ([1, 2, 3], 2),
            (np.array([1.5, 2]), 2),
            (None, 0),
            ([], 0),
        )
    ],
    # what NumPy lets a number be
    lambda m, a: m.argwhere(a(3)),
    lambda m, a: m.argwhere(a(0)),
    lambda m, a: m.add.reduce(a(3.5)),
    lambda m, a: m.sum(a(3.5), axis=-1, keepdims=True),
    lambda m, a: m.max(a(3), axis=0),
    # along no axis, what comes first was forgotten, and with one element the dtype of results; all
    # bits of an unsigned dtype
    *[
        lambda m, a, f=f, i=i, x=x: getattr(m, f).reduce(
            a(x), axis=() if x.ndim else None, initial=i
        )
        for x in (np.array(2, "u2"), np.array([[3, 4]], "i1"), np.array([0.5, -2.0]))
        for f, i in (
            ("fmin", 1),
            ("copysign", -2),
            ("divide", 9),
            ("floor_divide", 9),
            ("hypot", 3),
            ("arctan2", 1),
        )
    ],
    *[
        lambda m, a, f=f: (
            getattr(m, f).reduce(a(np.array([5], "i8"))),
            getattr(m, f).accumulate(a(np.array([[7]], "u4")), 1),
        )
        for f in ("divide", "copysign", "hypot", "arctan2", "logaddexp")
    ],
    lambda m, a: m.divide.reduce(a([3, 2]), initial=np.nan),
    lambda m, a: m.copysign.reduce(a(5)),
    lambda m, a: m.bitwise_and.reduce(a(np.zeros((0, 2), "u2"))),
    lambda m, a: m.logical_xor.reduce(a(2), axis=None, initial=1j),
    *[
        lambda m, a, f=f, x=x, k=k: getattr(m, f).reduce(a(np.array(x)), k)
        for f in ("hypot", "gcd")
        for k in ((), 0, None)
        for x in ([[-2]], [[-2], [3]], -4)
    ],
    # numbers beside logical functions were rounded first: 1e-300 to a float32 0, 300 to no uint8
    *[
        lambda m, a, f=f, t=t, n=n: (
            getattr(m, f)(a(np.array([0, 1, 3], t)), n),
            getattr(m, f)(n, a(np.array([0, 1, 3], t))),
        )
        for f in ("logical_and", "logical_or", "logical_xor")
        for t in ("u1", "f4", "c8")
        for n in (300, 1e-300, 0.0, 1e-300j)
    ],
    *[
        lambda m, a, n=n: m.logical_and(n, a(np.array([2, 0], "u1")), dtype="?")
        for n in (256, 2**40, 1e-300, 0.5, 0)
    ],
    *[
        lambda m, a, t=t: m.logical_xor(a(np.array([0, 1, 3], t)), 1e-300, out=a(np.zeros(3, t)))
        for t in ("f4", "u1")
    ],
    # rows of nothing: which is which was not written; whole numbers in bins narrower than 1
    *[
        lambda m, a, s=s: m.unique(a(np.zeros(s, "i8")), True, True, True, axis=0)
        for s in ((2, 0), (5, 0), (0, 2))
    ],
    *[
        lambda m, a, b=b, x=x: m.histogram(a(np.array(x)), b)
        for b in ("auto", "sqrt", "rice", "fd", "doane", "sturges", "scott")
        for x in ([2, 3, 3], [0, 1, 1, 1], [4, 4, 4], [1, 2, 1, 3, 2, 0, 1])
    ],
    lambda m, a: m.histogram_bin_edges(a([1, 2, 1, 3, 2, 0, 1]), "auto", range=(0, 1)),
    lambda m, a: m.histogram_bin_edges(a(3), "sturges", range=(-3, 3)),
    # at the end of a table, of equal places another one than the last
    *[
        lambda m, a, t=t, k=k: m.interp(
            a(np.array([3, 0, 2, 4, -1], t)), a([0.0, 0, 1, 3, 3, 3]), a(np.arange(6) ** 2 * k)
        )
        for t in ("f4", "i4", "f8")
        for k in (1.5, 1j)
    ],
    # float32 weights of whole numbers; what is left of a division by a longer polynomial begins
    # with no zeros
    *[
        lambda m, a, t=t, w=w: m.average(
            a(np.array([1, 2, 4], t)), weights=a(np.array([1, 2, 3], w))
        )
        for t in ("i2", "?", "f4")
        for w in ("f4", "i8", "f8")
    ],
    lambda m, a: m.polydiv(a([0.0, -2.0]), a([1.0, 2.0, 3.0])),
    lambda m, a: m.polydiv(a([0, 0]), a([1, 2, 3])),
    # a float64 for NaN made float64 of all; integers met one another before they met the float
    *[
        lambda m, a, t=t: m.nan_to_num(
            a(np.array([1, np.nan, np.inf], t)), nan=np.float64(2), posinf=np.float64(3)
        )
        for t in ("f4", "f2", "c8")
    ],
    *[
        lambda m, a, t=t, f=f: getattr(m, f)([a(np.ones(2, k)) for k in t])
        for f in ("concatenate", "stack")
        for t in (
            ("u1", "i1", "f2"),
            ("i2", "u2", "c8"),
            ("u2", "f4", "i2"),
            ("i1", "u2", "f2", "i4"),
        )
    ],
    lambda m, a: m.select(
        [a([True, False]), a([False, True])],
        [a(np.ones(2, "u1")), a(np.ones(2, "i1"))],
        np.float16(2),
    ),
    *[
        lambda m, a, t=t, n=n: m.r_[a(np.array([1, 2], t)), n, 2:4]
        for t in ("f4", "c8")
        for n in (0.5, 1, 1j)
    ],
    *[
        lambda m, a, t=t: (m.r_[a(np.ones(2, t)), 3, True], m.r_[1, a(np.ones(2, t)), [4]])
        for t in ("u1", "f2", "?")
    ],
    # weighted quantiles of integers went through float64; slopes took the coordinates' dtype
    *[
        lambda m, a, f=f, t=t: getattr(m, f)(
            a(np.array([5, 2**60 + 1, 7, 2**60 + 3] if t == "i8" else [5, 1, 7, 2], t)),
            [0.1, 0.6, 1],
            method="inverted_cdf",
            weights=a([1.0, 2, 0, 3]),
        )
        for f in ("quantile", "nanquantile")
        for t in ("i8", "u1", "f4")
    ],
    *[
        lambda m, a, t=t, k=k: m.gradient(
            a(np.array([1, 4, 2, 7], t)), a([0.5, 1, 3, 3.5]), edge_order=k
        )
        for t in ("f4", "c8", "i4")
        for k in (1, 2)
    ],
    # squares beyond the dtype, of what no partial sum had come before
    *[
        lambda m, a, f=f, x=x, k=k: getattr(m, f)(a(x), axis=k)
        for f in ("var", "nanstd")
        for k in (0, -1)
        for x in (
            np.full(3, 2e19, "f4"),
            np.array([[2e19, 2e19], [3e19, 3e19]], "f4"),
            np.array([1e200]),
        )
    ],
    # numbers were rounded to the choice beside them before they met the others
    *[
        lambda m, a, k=k, n=n, t=t: m.select(
            [a([1, 0, 0]) > 0, a([0, 1, 0]) > 0], [a(np.ones(3, k)), a(np.ones(3, t))], n
        )
        for k, t in (("f8", "f4"), ("c16", "u1"), ("f4", "f2"), ("i8", "u2"))
        for n in (0.1, -1, 1e-30)
    ],
    lambda m, a: m.select([a([True, False])] * 2, [0.1, a(np.ones(2, "f4"))], a(np.ones(2))),
    # how many elements count, for each end and axis
    *[
        lambda m, a, n=n, k=k: m.pad(a(CUBE[0]), ((1, 2), (3, 0)), k, stat_length=n)
        for n in ((1, 2), ((1, 2), (3, 1)), 2, (3,), None)
        for k in ("maximum", "mean", "median")
    ],
    # scans of a number, and in the dtype they are written in; bounds of bools; angles of small
    # whole numbers
    *[
        lambda m, a, f=f, k=k: getattr(m, f)(a(2.5), axis=k)
        for f in ("cumsum", "cumprod", "nancumsum")
        for k in (0, -1, None)
    ],
    *[
        lambda m, a, f=f, t=t: getattr(m, f)(a(np.array([0.1, 0.7, 1.3], t)), out=a(np.zeros(3)))
        for f in ("cumsum", "cumprod")
        for t in ("f2", "f4")
    ],
    *[
        lambda m, a, b=b: m.clip(a([True, False]), *b)
        for b in ((0, 2), (True, None), (0.5, None), (None, False), (-1, 1.5))
    ],
    lambda m, a: m.arange(1, 7, None),
    # elements left out of reductions by functions that are no sums
    *[
        lambda m, a, f=f, k=k: getattr(m, f).reduce(a(CUBE), k, where=a(CUBE > -3))
        for k in (1, None, (0, 2))
        for f in (
            "bitwise_or",
            "bitwise_and",
            "bitwise_xor",
            "logical_xor",
            "gcd",
            "hypot",
            "logaddexp",
        )
    ],
    *[
        lambda m, a, f=f: getattr(m, f).reduce(a(CUBE), 2, where=a(CUBE[:, :1] > 0), initial=2)
        for f in ("fmax", "fmin", "lcm")
    ],
    lambda m, a: m.bitwise_and.reduce(a(np.array([7, 3, 8], "u1")), where=a([True, True, False])),
    # bools count as numbers
    *[
        lambda m, a, f=f: f(m, a(CUBE[0] > 0))
        for f in (
            lambda m, x: m.cov(x),
            lambda m, x: m.corrcoef(x),
            lambda m, x: m.sinc(x),
            lambda m, x: m.interp(x, [0, 1], [3, 5.5]),
        )
    ],
    # to thousands: multiples of 1 / 0.001 are none of 1000
    *[
        lambda m, a, t=t, k=k: m.round(a(np.array([1000.5, 60000, 15, 25, 1250, 12345], t)), k)
        for k in (-1, -2, -3, -4)
        for t in ("f2", "f4", "f8", "i4", "u2")
    ],
    # NaN where there is nothing
    *[
        lambda m, a, s=s, t=t, k=k, d=d: m.nanpercentile(a(np.zeros(s, t)), 30, axis=k, keepdims=d)
        for t in ("f4", "f8", "i2", "?")
        for d in (True, False)
        for s, k in (((0, 3), 0), ((0, 3), None), ((2, 0, 3), 1), ((0,), 0), ((0, 3), 1))
    ],
    *[
        lambda m, a, t=t: m.angle(a(np.array([1, 0, 3], t)), deg=True)
        for t in ("u1", "i1", "i2", "i8", "?", "f4")
    ],
    # widths by axis; mirrored in value, too
    *[lambda m, a, w=w: m.pad(a(CUBE), w, "wrap") for w in ({}, {-1: (2, 1)}, {0: 1, 1: (0, 3)})],
    *[
        lambda m, a, k=k, w=w, t=t: m.pad(a(CUBE.astype(t)), w, k, reflect_type="odd")
        for k in ("reflect", "symmetric")
        for w in (1, ((0, 0), (5, 8), (0, 2)), ((9, 3), (0, 1), (17, 2)))
        for t in ("f4", "i8", "u1", "?")
    ],
    lambda m, a: m.pad(a([5.0]), 2, "reflect", reflect_type="odd"),
    # one position in a list takes all values
    *[
        lambda m, a, v=v, k=k: m.insert(a(CUBE), k, a(np.array(v)), axis=1)
        for v in (7, [[1], [2]], np.ones((2, 5, 4)), np.ones((1, 4)))
        for k in ([1], [-1], slice(2, 3), np.array([0, 1, 0]) > 0)
    ],
    lambda m, a: (
        m.insert(a([1, 2, 3]), [1], [7, 8]),
        m.insert(a([1, 2, 3]), [1], a(np.zeros(0, "i8"))),
    ),
    # dtypes of results
    *[
        lambda m, a, t=t, p=p: m.linalg.cond(a(np.array([[1, 2], [3, 5]], t)), p)
        for t in ("f4", "c8", "f8")
        for p in (None, 2, 1)
    ],
    lambda m, a: m.linalg.cond(a(np.array([[[1, 2], [2, 5]], [[1, 0], [0, 0]]], "f4"))),
    *[
        lambda m, a, t=t, b=b: m.histogram(
            a([0.5, 2, 2, 3]), b, weights=a(np.array([1, 2, 5, 7], t))
        )
        for t in ("i8", "u1", "f4")
        for b in (3, [0, 2, 3])
    ],
    lambda m, a: m.histogram(a([0.5, 2, 2, 3]), 3, weights=a([1, 2, 5, 7]), density=True)[0],
    lambda m, a: a(CUBE).compress([False, True], 1, a(np.zeros((2, 1, 4), CUBE.dtype))),
    lambda m, a: m.linalg.multi_dot(
        [a(CUBE[0]), a(CUBE[1].T), a(CUBE[1])], out=a(np.zeros((3, 4), CUBE.dtype))
    ),
]

#: Functions of the module, of an array, and of what is a scalar of NumPy's and a 0-d array here:
#: neither can be looked up by.
OF_SCALARS = [
    lambda m, x, n: m.linspace(0, 1, n),
    lambda m, x, n: m.logspace(0, 2, n, endpoint=n < 3),
    lambda m, x, n: m.geomspace(n, 8, n),
    lambda m, x, n: m.eye(n, k=n),
    lambda m, x, n: m.tril_indices(4, n),
    lambda m, x, n: m.diag_indices(3, n),
    lambda m, x, n: m.array(5, ndmin=n),
    lambda m, x, n: m.broadcast_to(x[0], (n, 4)),
    lambda m, x, n: x.reshape(n, -1),
    lambda m, x, n: x.reshape((-1, n)),
    lambda m, x, n: x.T.reshape((n, 6)),
    lambda m, x, n: m.reshape(x, (n, 6)),
    lambda m, x, n: m.reshape(x, m.stack([n, 3 * n])),
    lambda m, x, n: x.reshape(m.asarray([6, 2])),
    lambda m, x, n: x.T.reshape(np.array([4, -1])),
    lambda m, x, n: (m.std(x, ddof=n), m.nanvar(x, axis=1, ddof=n)),
    lambda m, x, n: m.gradient(x[0], edge_order=n),
    lambda m, x, n: m.histogram(x, n),
    lambda m, x, n: m.histogram(x, bins=4, range=(-n, n)),
    lambda m, x, n: m.histogramdd(x[:, :2], n)[0],
    lambda m, x, n: m.tensordot(x, x, n),
]


@pytest.mark.parametrize("call", OF_SCALARS)
def test_what_is_no_scalar_here_serves_as_one(device, call):
    numbers = np.cos(np.arange(12.0)).reshape(3, 4)
    for _ in range(2):  # new, and seen before
        mine = call(cm, cm.asarray(numbers, copy=True), cm.max(cm.asarray([1, 2])))
        theirs = call(np, numbers, np.max([1, 2]))
        for got, expected in (
            zip(mine, theirs, strict=True) if isinstance(theirs, tuple) else [(mine, theirs)]
        ):
            assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_allclose(got.to_numpy(), expected, rtol=1e-12)


def test_shapes_that_are_none(device):
    for shape in (np.array([[3, 4]]), cm.asarray([3.0, 4.0]), (3, cm.asarray([4]))):
        with pytest.raises(TypeError, match="^reshape: shape must be"):
            cm.arange(12).reshape(shape)
    for wrong in (cm.asarray([1]), cm.asarray([1.0, 2.0]), "1"):
        with pytest.raises(TypeError, match="^var: correction must be a number"):
            cm.arange(12).var(ddof=wrong)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_numpy(device, call):
    mine, theirs = call(cm, lambda x: cm.asarray(x, copy=True)), call(np, np.asarray)
    for got, expected in (
        zip(mine, theirs, strict=True) if isinstance(theirs, tuple) else [(mine, theirs)]
    ):
        assert got.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(
            got.to_numpy(), expected, rtol=1e-12 if got.dtype == np.float64 else 1e-6
        )


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.logical_or.reduce(m.asarray(x), dtype="f8"),
        lambda m, x: m.divide.reduce(m.asarray(x.astype(int)), dtype="i8"),
        lambda m, x: m.logical_and(
            m.asarray(x), 1, out=m.zeros(3), where=m.asarray(x > 0), casting="no"
        ),
        lambda m, x: m.fmax(
            m.asarray(x.astype("i1")),
            1,
            out=m.zeros(3, dtype="i4"),
            where=m.asarray(x > 0),
            casting="no",
        ),
        lambda m, x: m.putmask(m.zeros(3, dtype="i1"), m.asarray(x > 0), m.asarray(x)),
        lambda m, x: m.insert(m.asarray(x.astype(int)), 0, 1 + 2j),
        lambda m, x: m.place(m.zeros(3, dtype="f4"), m.asarray(x > 0), m.asarray(x)),
    ],
)
def test_what_would_be_lost_without_a_word(device, call):
    x = np.array([1.5, -2.5, 300.25])
    for module, words in ((np, None), (cm, r"^\w+(\.\w+)?: ")):
        with pytest.raises(TypeError, match=words):
            call(module, x)


@pytest.mark.parametrize(
    "values, power", [("u1", 1.5), ("i8", 2.0), ("u2", 2j), ("u1", np.array([1, 2, 3]))]
)
def test_powers_in_place_lose_nothing(device, values, power):
    """They were cast to the array's dtype, whatever they were."""
    for module, error in ((np, TypeError), (cm, TypeError)):
        x = module.asarray(np.array([1, 2, 3], values))
        with pytest.raises(error):
            x **= power if module is np or not isinstance(power, np.ndarray) else cm.asarray(power)
    x = y = cm.asarray(np.array([1, 2, 3], values))
    x **= 2
    assert x is y and x.to_numpy().tolist() == [1, 4, 9]
    x **= x
    assert x.to_numpy()[:2].tolist() == [1, 4**4 % 256 if values == "u1" else 4**4]


@pytest.mark.parametrize(
    "letters, shape",
    [("ii", (1, 3)), ("ii->i", (1, 0)), ("iij->j", (3, 1, 2)), ("...ii", (2, 3, 1))],
)
def test_a_diagonal_is_as_long_as_both_axes(device, letters, shape):
    """One of length 1 was broadcast."""
    for module in (np, cm):
        with pytest.raises(ValueError, match="fit|match"):
            module.einsum(letters, module.asarray(np.ones(shape)))
    with pytest.raises(ValueError, match="^einsum: term"):
        cm.einsum("ii,i->i", cm.ones((3, 1)), cm.ones(3))


@pytest.mark.parametrize("name", ["less", "equal", "greater_equal"])
def test_comparisons_follow_one_another_between_bools_only(device, name):
    for method in ("reduce", "accumulate"):
        for module in (np, cm):
            with pytest.raises(TypeError):
                getattr(getattr(module, name), method)(module.asarray([3, 1, 2]))


def test_bools_are_subtracted_at_positions(device):
    x = cm.asarray([1.0, 2.0, 3.0])
    cm.subtract.at(x, cm.asarray([0, 1, 0]), True)
    assert x.to_numpy().tolist() == [-1, 1, 3]


def test_extremes_of_bools_at_positions_are_of_bools(device):
    """-1 was True, and beside False the larger of them."""
    x = cm.asarray([False, True])
    for values in (-1, 2, -1.0, cm.asarray([-1, 3])):
        for name in ("maximum", "minimum"):
            with pytest.raises(TypeError, match=f"^{name}_at: values of "):
                getattr(cm, name).at(x, cm.asarray([0, 1]), values)
    cm.maximum.at(x, cm.asarray([0, 0]), 0)
    cm.minimum.at(x, cm.asarray([1]), cm.asarray([True]))
    assert x.tolist() == [False, True]


@pytest.mark.parametrize(
    ("own", "other"), [("u1", "i1"), ("i1", "u2"), ("i2", "i8"), ("u8", "i8"), ("i8", "u8")]
)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_at_positions_of_numbers_the_array_cannot_hold(device, name, own, other):
    """-3 was 253 among uint8, and so the larger one."""
    limits = np.iinfo(own)
    x = np.array([0, 5, 100, 7], own)
    values, places = (
        np.array([0, 3, np.iinfo(other).min, np.iinfo(other).max, 50, 6], other),
        np.array([0, 1, 2, 2, 3, 1]),
    )
    for key, given in ((places, values), (slice(None), values[1:5])):
        exact = x.astype(object)
        getattr(np, name).at(exact, key, given.astype(object))
        y = cm.asarray(x)
        getattr(cm, name).at(y, cm.asarray(key) if key is places else key, cm.asarray(given))
        np.testing.assert_array_equal(
            y.to_numpy(), np.clip(exact, limits.min, limits.max).astype(own)
        )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["f4", "c16", "i8", "u8", "i2", "u1"])
@pytest.mark.parametrize(
    "values",
    [np.array([1, 255, 3], "u1"), np.array([1, -128, 127], "i1"), np.array([1, 2**31, 0], "u4")],
)
def test_what_is_subtracted_at_positions_is_negated_in_their_dtype(device, dtype, values):
    """Minus uint8(1) was 255, and minus int8(-128) itself."""
    x, expected = cm.asarray(np.array([5, 7], dtype)), np.array([5, 7], dtype)
    cm.subtract.at(x, cm.asarray([0, 1, 0]), cm.asarray(values))
    for place, value in zip(
        [0, 1, 0], values.astype(dtype), strict=True
    ):  # whole numbers modulo 2^n
        expected[place] = expected[place] - value
    assert x.to_numpy().tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum", "minimum"])
def test_fractions_are_not_lost_at_positions(device, name):
    """1.5 was taken for 1, where NumPy adds 1.5 and drops the fraction of the sum."""
    x, at = cm.asarray([3, 4, 5]), getattr(cm, name).at
    for values in (1.5, np.float64(1.5), cm.asarray([1.5, 2.0])):
        with pytest.raises(TypeError, match=rf"^{name}[._]at: values of float64 would lose"):
            at(x, cm.asarray([0, 1]), values)
    at(x, cm.asarray([0, 1, 0]), 2.0)
    expected = np.array([3, 4, 5])
    getattr(np, name).at(expected, [0, 1, 0], 2)
    assert x.to_numpy().tolist() == expected.tolist()
    y = cm.asarray(np.array([250, 4], "u1"))
    getattr(cm, name).at(y, cm.asarray([0, 0]), cm.asarray([1, 2]))
    expected = np.array([250, 4], "u1")
    getattr(np, name).at(expected, [0, 0], np.array([1, 2], "u1"))
    assert y.to_numpy().tolist() == expected.tolist()


@pytest.mark.parametrize(
    "target, source",
    [
        ((0, 10, 2), (0, 5, 1)),
        ((4, 9, 1), (0, 10, 2)),
        ((9, 4, -1), (9, None, -2)),
        ((0, 10, 3), (1, 9, 2)),
        ((9, None, -3), (0, 4, 1)),
        ((1, 9, 1), (0, 8, 1)),
    ],
)
def test_what_is_assigned_is_read_before_it_is_written(device, target, source):
    """NumPy 2.4 does not look for an overlap of two vectors; the CPU's short way is NumPy's."""
    expected, x = np.arange(10.0), cm.arange(10.0, dtype="float64")
    expected[slice(*target)] = expected[slice(*source)].copy()
    x[slice(*target)] = x[slice(*source)]
    np.testing.assert_array_equal(x.to_numpy(), expected)


@pytest.mark.parametrize("step", [2, 4, -4, 8])
@pytest.mark.parametrize("dtype", ["f4", "i4", "f8", "i8"])
def test_negative_in_place_of_some_places(device, dtype, step):
    """NumPy 2.4 reads others than these where they are 4 (of 4 bytes) or 8 (of 8 bytes) apart."""
    given = np.arange(1, 400).astype(dtype)
    expected, x = given.copy(), cm.asarray(given, copy=True)
    expected[::step] = -given[::step].copy()
    part = x[::step]
    assert cm.negative(part, out=part) is part
    np.testing.assert_array_equal(x.to_numpy(), expected)


@pytest.mark.parametrize("dtype", [">u2", ">i4", ">f8", np.dtype(">f4"), "<i4", "u1", np.int16])
def test_bytes_in_the_other_order(device, dtype, tmp_path):
    """The bytes were read in the machine's order, whatever was asked for."""
    given = np.array([1, 2, 300 % 256, 5], dtype)
    native = given.astype(given.dtype.newbyteorder("="))
    (tmp_path / "x").write_bytes(given.tobytes())
    for found in (
        cm.frombuffer(given.tobytes(), dtype),
        cm.fromfile(tmp_path / "x", dtype),
        cm.asarray(given),
        cm.asarray([1, 2, 44, 5]).astype(dtype),
        cm.fromiter(iter([1, 2, 44, 5]), dtype),
    ):
        assert found.dtype == native.dtype and found.tolist() == native.tolist()
    if np.dtype(dtype).isnative:
        assert cm.asarray(native).view(dtype).tolist() == native.tolist()
    else:
        with pytest.raises(TypeError, match="^view: arrays are in the machine's byte order"):
            cm.asarray(native).view(dtype)


@pytest.mark.parametrize("zeros", [(), (1,), (0, 3), (1, 2, 4)])
@pytest.mark.parametrize("cumulative", [False, True])
def test_second_derivatives_of_products_with_zeros(device, zeros, cumulative):
    """They were 0 where a factor was: the first derivative treats zeros apart. d2 y[i] / dx[a]
    dx[b] leaves out a and b."""
    x = np.array([1.5, -2.0, 0.5, 3.0, -1.0])
    x[list(zeros)] = 0
    weights, direction = np.array([0.5, -1.0, 2.0, 1.0, 3.0]), np.array([1.0, 2.0, -1.0, 0.5, 4.0])
    expected = np.zeros(5)
    for i in range(5) if cumulative else (4,):
        for a in range(i + 1):
            expected[a] += weights[i] * sum(
                direction[b] * np.prod(np.delete(x[: i + 1], [a, b]))
                for b in range(i + 1)
                if b != a
            )

    def slope(v):
        return cm.grad(
            lambda v: (
                (cm.cumprod(v) * cm.asarray(weights)).sum()
                if cumulative
                else cm.prod(v) * weights[4]
            )
        )(v)

    got = cm.grad(lambda v: (slope(v) * cm.asarray(direction)).sum())(cm.asarray(x))
    np.testing.assert_allclose(got.to_numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [(1, 0, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)], ids=str)
def test_attention_in_any_order_of_memory(device, order):
    """Masks were lost on the CPU where heads lay outside batches: NumPy's product was in that
    order, its reshape a copy."""
    rng = np.random.default_rng(5)
    given = [rng.normal(size=(2, n, s, 8)).astype(np.float32) for n, s in ((4, 1), (2, 6), (2, 6))]
    mask = np.array([[1, 0, 1, 1, 0, 1], [0, 1, 1, 0, 1, 1]], bool).reshape(2, 1, 1, 6)
    back = tuple(order.index(i) for i in range(4))
    found = []
    for turned in (False, True):
        arrays = [
            cm.asarray(np.ascontiguousarray(x.transpose(order))).transpose(back)
            if turned
            else cm.asarray(x)
            for x in given
        ]
        for options in (
            {"mask": cm.asarray(mask)},
            {"key_lengths": cm.asarray([3, 5])},
            {"dropout": 0.5, "rng": 1},
        ):
            if "rng" in options:
                options = options | {"rng": cm.random.default_rng(1)}
            y, pull = cm.vjp(
                lambda *a, o=options: cm.ml.scaled_dot_product_attention(*a, **o), *arrays
            )
            found.append([each.to_numpy() for each in (y, *pull(cm.ones_like(y)))])
    for expected, got in zip(found[:3], found[3:], strict=True):
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


#: Values that NumPy takes or refuses: its own numbers are cast like Python's, arrays only where
#: nothing is lost.
VALUES = [
    1.5,
    2,
    -1,
    True,
    np.float64(1.5),
    np.float32(1.5),
    np.int64(3),
    np.array([2.5]),
    np.array([1, 2], "i4"),
    [1, 2],
    1j,
    1e300,
    float("nan"),
    300,
]


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "bool", "c8"])
def test_values_of_place_and_putmask(device, dtype):
    """NumPy's numbers were refused; Python's went into integers, and complex ones into real arrays,
    whatever was lost."""
    for name in ("place", "putmask"):
        for value in VALUES:

            def call(m, name=name, value=value):
                x = m.asarray(np.arange(9).reshape(3, 3).astype(dtype))
                mask = m.asarray(np.arange(9).reshape(3, 3) % 2 == 0)
                getattr(m, name)(
                    x, mask, m.asarray(value) if isinstance(value, np.ndarray) else value
                )
                return x

            with np.errstate(all="ignore"):
                try:
                    expected = call(np)
                except (TypeError, ValueError, OverflowError) as error:
                    with pytest.raises((TypeError, ValueError, OverflowError), match=f"^{name}: "):
                        call(cm)
                    assert error
                else:
                    np.testing.assert_array_equal(
                        call(cm).to_numpy(), expected, err_msg=f"{name} {value!r}"
                    )


def test_errors_of_what_is_written_name_the_function(device):
    x, row = cm.zeros((3, 3)), cm.broadcast_to(cm.zeros(3), (3, 3))
    for name, call in {
        "copyto": lambda: cm.copyto(x, cm.zeros((3, 4))),
        "vector_norm": lambda: cm.linalg.vector_norm(x, ord="x"),
        "fill_diagonal": lambda: cm.fill_diagonal(row, 1.0),
        "putmask": lambda: cm.putmask(row, x == 0, 1.0),
        "array": lambda: cm.array(1.0, ndmin="a"),
    }.items():
        with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
            call()
    assert (
        row.tolist() == [[0.0] * 3] * 3
    )  # the diagonal of a row that is repeated is no view that overlaps


def test_orders_of_norms_that_are_arrays(device):
    x = np.array([1.0, -2.0, 3.0])
    for order in (
        np.array(3),
        np.float32(2.5),
        np.int64(3),
        cm.asarray(3.0),
        cm.asarray(1),
        np.array(np.inf),
    ):
        for _ in range(2):
            np.testing.assert_allclose(
                float(cm.linalg.vector_norm(cm.asarray(x), ord=order)),
                np.linalg.vector_norm(x, ord=float(order)),
            )


def signed_zeros(m, dtype):
    """-0 with nothing, -0, or 0 added to it, by few sources and by many, copied and in place;
    gradients begin at 0."""
    x = m.asarray(
        np.full(4, complex(-0.0, -0.0)).astype(dtype)
        if dtype == "c8"
        else np.full(4, -0.0).astype(dtype)
    )
    found = []
    for places, values in (
        ([1, 2, 1], x[:3]),
        ([3], m.asarray(np.zeros(1, dtype))),
        ([0] * 40 + [2], x[[0] * 41]),
    ):
        y = x.copy()
        m.add.at(y, m.asarray(places), values)
        if m is np:
            z = y
        else:
            z = m.index_add(x, m.asarray(places), values)
        found += [y, z]
    return found


@pytest.mark.parametrize("dtype", ["f4", "f2", "c8", "f8"])
def test_minus_nothing_stays_minus_nothing(device, dtype):
    for mine, theirs in zip(signed_zeros(cm, dtype), signed_zeros(np, dtype), strict=True):
        mine = mine.to_numpy()
        for a, b in (
            ((mine.real, theirs.real), (mine.imag, theirs.imag))
            if dtype == "c8"
            else ((mine, theirs),)
        ):
            assert np.signbit(a).tolist() == np.signbit(b).tolist()
    slope = cm.grad(lambda x: -(x[[1, 1]] * 0.0).sum())(cm.asarray([1.0, 2.0, 3.0])).to_numpy()
    assert np.signbit(slope).tolist() == [False] * 3


@pytest.mark.parametrize("name", ["mean", "var", "std", "any", "all", "count_nonzero"])
def test_reductions_without_an_initial_value(device, name):
    """With where= some took one and forgot it."""
    x = cm.asarray([1.0, 2.0, 4.0])
    for options in ({}, {"where": x > 1}, {"out": cm.zeros(())}):
        with pytest.raises(TypeError, match=f"^{name}(: |\\(\\) )got an unexpected .*initial"):
            getattr(cm, name)(x, initial=1, **options)


@pytest.mark.parametrize("name", ["split", "array_split"])
@pytest.mark.parametrize("places", [[-1], [1, -1], [-9], [-20, 3], [-3, -5], [40, -2], [3, 1]])
def test_places_from_the_end_are_found_again(device, name, places):
    """The second call cut before the array's beginning."""
    numbers = np.arange(24.0).reshape(12, 2)
    base = cm.asarray(np.concatenate([np.full((2, 2), np.nan), numbers]))
    for x, theirs, axis in (
        (base[2:], numbers, 0),
        (base[:1:-1], numbers[::-1], 0),
        (base[2:].T, numbers.T, 1),
    ):
        for _ in range(3):
            mine = getattr(cm, name)(x, places, axis)
            assert [y.tolist() for y in mine] == [
                y.tolist() for y in getattr(np, name)(theirs, places, axis)
            ]


def test_numbers_that_do_not_fit_are_not_inserted(device):
    """Of 300 became 44, of -1 255."""
    for module, words in ((np, None), (cm, "^insert: (300|-1) as uint8")):
        for value in (300, -1):
            with pytest.raises(OverflowError, match=words):
                module.insert(module.asarray(np.array([1, 2], "u1")), 0, value)
    assert (
        cm.insert(cm.asarray([1, 2]), 1, [2.75, 3]).tolist()
        == np.insert([1, 2], 1, [2.75, 3]).tolist()
    )


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_parts_of_complex_numbers_are_rounded_to_what_they_print_as(dtype, device):
    """12 * (1 / 10) is 1.2000000000000002."""
    x = (RNG.integers(-900, 900, (2, 50)) / 8 * [[1], [1j]]).sum(0).astype(dtype)
    x[:3] = [complex(np.inf, 1.25), complex(0.25, np.nan), complex(-0.0, -0.0)]
    for decimals in (1, 2, -1, -2):
        both = cm.round(cm.asarray(x), decimals).to_numpy(), np.round(x, decimals)
        ours, numpys = (np.array([y.real, y.imag]) for y in both)
        np.testing.assert_array_equal(ours, numpys)
        there = ~np.isnan(numpys)
        np.testing.assert_array_equal(np.signbit(ours[there]), np.signbit(numpys[there]))


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_parts_of_complex_numbers_are_rounded_simulated(dtype, monkeypatch):
    x = (RNG.integers(-900, 900, (2, 50)) / 8 * [[1], [1j]]).sum(0).astype(dtype)
    with simulated_gpu(monkeypatch):
        for decimals in (1, -1):
            assert (
                cm.round(cm.asarray(x), decimals).to_numpy().tobytes()
                == np.round(x, decimals).tobytes()
            )


@pytest.mark.parametrize("first, step", [(-8, 4), (0, 1), (-1000, 8)])
def test_many_float16_of_few_values_are_sorted(first, step, device):
    """NumPy's own sort of them left some where they were, on a CPU with AVX-512."""
    x = (RNG.integers(first, first + 16, 50_000) / step).astype(np.float16)
    expected = np.sort(x.astype(np.float64))
    np.testing.assert_array_equal(cm.sort(cm.asarray(x)).to_numpy(), expected)
    np.testing.assert_array_equal(
        cm.sort(cm.asarray(x), descending=True).to_numpy(), expected[::-1]
    )
    np.testing.assert_array_equal(cm.unique(cm.asarray(x)).to_numpy(), np.unique(expected))


@pytest.mark.simulator
def test_variances_of_large_numbers_simulated(monkeypatch):
    with simulated_gpu(monkeypatch):
        for numbers in (
            np.full(3, 2e19, "f4"),
            np.array([2e19, 2e19, 3e19, 3e19], "f4"),
            np.array([1e200]),
        ):
            np.testing.assert_allclose(
                cm.var(cm.asarray(numbers)).to_numpy(), np.var(numbers), rtol=1e-6
            )


def check_medians_of_the_smallest(lengths):
    for dtype in ("f2", "f4", "f8"):
        tiny, most = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
        for n in lengths:
            for low, high in ((5 * tiny, 5 * tiny), (tiny, 3 * tiny), (-most, most)):
                x = np.array([high] * (n - n // 2) + [low] * (n // 2) + [np.nan], dtype)
                below, above = np.sort(x[:n])[[(n - 1) // 2, n // 2]]
                expected = float(below) if n % 2 else (float(below) + float(above)) / 2
                assert float(cm.nanmedian(cm.asarray(x))) == expected, (dtype, n, low, high)


def test_medians_of_the_smallest_numbers(device):
    """The sum of two halves, each of which had been rounded: of float16(3e-7) 2.4e-7."""
    check_medians_of_the_smallest((1, 2, 7, 8, 5000))


@pytest.mark.simulator
def test_medians_of_the_smallest_numbers_simulated(monkeypatch):
    from cudamath.ops import statistics

    monkeypatch.setattr(statistics, "_SHORT", 0)
    with simulated_gpu(monkeypatch):
        check_medians_of_the_smallest((2, 7))
