"""One row an op: how it is called, what the answer is (NumPy's, in float64), on which numbers, and how near it must be.

Nothing here is taken from the cards. `ELEMENTWISE` has a row for each ufunc-like function; `ROWS` one for each other
function that takes floating-point arrays. What neither can say (random numbers, optimizers, files, devices) is tested
in the file that `ELSEWHERE` names. tests/test_complete.py compares all three with what the package has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from strategies import eps, numbers

import cudamath as cm


class Elementwise(NamedTuple):
    """A function of one or two arrays, element by element.

    kinds: dtypes it takes: b(ool) i(nt) u(int) f(loat) c(omplex), p: float32 and float64. low, high: where gradients are
    taken and accuracy is asked for. ulp: allowed error in units in the last place, float32 and float64 (16-bit floats:
    rounded from float32, so 1); 0 is exact. wild: also right for every awkward number (NaN, infinities, signed zeros,
    extremes). grad: which inputs have one.
    """

    name: str
    numpy: np.ufunc
    kinds: str
    low: float = -3.0
    high: float = 3.0
    ulp: float = 0
    grad: tuple[bool, ...] = ()
    wild: bool = True

    @property
    def inputs(self) -> int:
        return self.numpy.nin

    @property
    def function(self) -> Callable[..., Any]:
        return getattr(cm, self.name)


E = Elementwise
BOTH, FIRST, ONE = (True, True), (True, False), (True,)
ELEMENTWISE = [
    E("add", np.add, "biufc", grad=BOTH),
    E("subtract", np.subtract, "iufc", grad=BOTH),
    E("multiply", np.multiply, "biufc", grad=BOTH, ulp=2),
    E("divide", np.divide, "biufc", 0.5, 3, grad=BOTH, ulp=4),
    E("floor_divide", np.floor_divide, "iuf"),
    E("remainder", np.remainder, "iuf", 0.5, 3, grad=BOTH, ulp=2),
    E("pow", np.power, "iufc", 0.2, 3, grad=BOTH, ulp=8, wild=False),
    E("negative", np.negative, "iufc", grad=ONE),
    E("positive", np.positive, "iufc", grad=ONE),
    E("abs", np.absolute, "biufc", grad=ONE, ulp=2),
    E("square", np.square, "iufc", grad=ONE, ulp=2),
    E("sqrt", np.sqrt, "biufc", 0.2, 3, grad=ONE, ulp=2),
    E("reciprocal", np.reciprocal, "iufc", 0.5, 3, grad=ONE, ulp=4),
    E("sign", np.sign, "iufc", grad=ONE, ulp=2),
    E("hypot", np.hypot, "iuf", grad=BOTH, ulp=2),
    E("copysign", np.copysign, "iuf", grad=FIRST),
    E("nextafter", np.nextafter, "p"),
    E("exp", np.exp, "biufc", grad=ONE, ulp=3),
    E("expm1", np.expm1, "biufc", grad=ONE, ulp=4),
    E("exp2", np.exp2, "biuf", grad=ONE, ulp=3),
    E("log", np.log, "biufc", 0.2, 3, grad=ONE, ulp=4),
    E("log1p", np.log1p, "biufc", 0.2, 3, grad=ONE, ulp=4),
    E("log2", np.log2, "biufc", 0.2, 3, grad=ONE, ulp=4),
    E("log10", np.log10, "biufc", 0.2, 3, grad=ONE, ulp=4),
    E("logaddexp", np.logaddexp, "iuf", 0, 3, grad=BOTH, ulp=4),
    E("sin", np.sin, "biufc", grad=ONE, ulp=4),
    E("cos", np.cos, "biufc", grad=ONE, ulp=4),
    E("tan", np.tan, "biufc", -1.2, 1.2, grad=ONE, ulp=6),
    E("asin", np.arcsin, "biufc", -0.9, 0.9, grad=ONE, ulp=6),
    E("acos", np.arccos, "biufc", -0.9, 0.9, grad=ONE, ulp=6),
    E("atan", np.arctan, "biufc", grad=ONE, ulp=6),
    E("sinh", np.sinh, "biufc", grad=ONE, ulp=6),
    E("cosh", np.cosh, "biufc", grad=ONE, ulp=6),
    E("tanh", np.tanh, "biufc", grad=ONE, ulp=6),
    E("asinh", np.arcsinh, "biufc", grad=ONE, ulp=6),
    E("acosh", np.arccosh, "biufc", 1.2, 3, grad=ONE, ulp=6),
    E("atanh", np.arctanh, "biufc", -0.9, 0.9, grad=ONE, ulp=6),
    E("atan2", np.arctan2, "iuf", 0.2, 3, grad=BOTH, ulp=4),
    E("floor", np.floor, "biuf"),
    E("ceil", np.ceil, "biuf"),
    E("trunc", np.trunc, "biuf"),
    E("rint", np.rint, "iufc"),
    E("equal", np.equal, "biufc"),
    E("not_equal", np.not_equal, "biufc"),
    E("less", np.less, "biuf"),
    E("less_equal", np.less_equal, "biuf"),
    E("greater", np.greater, "biuf"),
    E("greater_equal", np.greater_equal, "biuf"),
    E("maximum", np.maximum, "biuf", grad=BOTH),
    E("minimum", np.minimum, "biuf", grad=BOTH),
    E("isfinite", np.isfinite, "biufc"),
    E("isinf", np.isinf, "biufc"),
    E("isnan", np.isnan, "biufc"),
    E("signbit", np.signbit, "f"),
    E("logical_and", np.logical_and, "biufc"),
    E("logical_or", np.logical_or, "biufc"),
    E("logical_xor", np.logical_xor, "biufc"),
    E("logical_not", np.logical_not, "biufc"),
    E("bitwise_and", np.bitwise_and, "biu"),
    E("bitwise_or", np.bitwise_or, "biu"),
    E("bitwise_xor", np.bitwise_xor, "biu"),
    E("bitwise_invert", np.invert, "biu"),
    E("bitwise_left_shift", np.left_shift, "iu"),
    E("bitwise_right_shift", np.right_shift, "iu"),
    E("conj", np.conjugate, "iufc", grad=ONE),
    E("fmax", np.fmax, "biuf", grad=BOTH),
    E("fmin", np.fmin, "biuf", grad=BOTH),
    E("fmod", np.fmod, "iuf", 0.5, 3, grad=BOTH, ulp=2),
    E("heaviside", np.heaviside, "biuf"),
    E("logaddexp2", np.logaddexp2, "iuf", 0, 3, grad=BOTH, ulp=4, wild=False),
    E("radians", np.radians, "biuf", grad=ONE, ulp=2),
    E("degrees", np.degrees, "biuf", grad=ONE, ulp=2),
    E("cbrt", np.cbrt, "biuf", 0.2, 3, grad=ONE, ulp=2),
]

# ---------------------------------------------------------------- the other functions


class Array(NamedTuple):
    """A floating-point input: shape and range of its random numbers; `constant`: no gradient is asked of it."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    constant: bool = False


class Whole(NamedTuple):
    """An integer input below `stop`."""

    shape: tuple[int, ...]
    stop: int


class Row(NamedTuple):
    """name: public name. run(xp, *arrays): the call, where xp is cudamath or, if `truth` is missing, NumPy.

    error: allowed error in epsilons of the dtype times the largest number of the answer; 0 is exact.
    grad, second: whether first and second derivatives exist. cards: names in the registry that the row runs through.
    """

    name: str
    run: Callable[..., Any]
    inputs: tuple[Array | Whole, ...]
    truth: Callable[..., Any] | None = None
    error: float = 8
    grad: bool = True
    second: bool = True
    cards: tuple[str, ...] = ()

    def arrays(self, dtype: np.dtype, seed: int = 0) -> list[np.ndarray]:
        """Inputs of the row: floating-point ones in this dtype."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        return [rng.integers(0, a.stop, a.shape) if isinstance(a, Whole) else numbers(rng, a.shape, dtype, a.low, a.high)
                for a in self.inputs]

    def expected(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """The answer(s), computed in float64."""
        wide = [a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) if a.dtype.kind not in "biu" else a
                for a in arrays]
        answer = self.run(np, *wide) if self.truth is None else self.truth(*wide)
        return [np.asarray(a) for a in answer] if isinstance(answer, (tuple, list)) else [np.asarray(answer)]

    def allowed(self, dtype: np.dtype, expected: np.ndarray) -> float:
        """The largest allowed error."""
        size = float(np.max(np.abs(expected), initial=0.0)) if expected.dtype.kind != "b" else 0.0
        return self.error * eps(dtype) * size


# truths that NumPy has no function for


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def normal_cdf(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(-x / math.sqrt(2))


def standard(x: np.ndarray, axes: Any, e: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + e)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Causal, queries in groups, the last query aligned with the last key."""
    k, v = (np.repeat(a, q.shape[1] // a.shape[1], axis=1) for a in (k, v))
    hidden = ~np.tri(q.shape[2], k.shape[2], k.shape[2] - q.shape[2], dtype=bool)
    return softmax(np.where(hidden, -np.inf, q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]))) @ v


def self_attention(qkv: np.ndarray) -> np.ndarray:
    """Two heads."""
    q, k, v = np.moveaxis(qkv.reshape(*qkv.shape[:2], 3, 2, -1), (2, 3), (0, 2))
    return attention(q, k, v).swapaxes(1, 2).reshape(*qkv.shape[:2], -1)


def windows(x: np.ndarray, size: tuple[int, int], stride: int, dilation: int = 1) -> np.ndarray:
    """(N, C, H, W) -> (N, C, oh, ow, kh, kw)."""
    reach = [(k - 1) * dilation + 1 for k in size]
    return sliding_window_view(x, reach, (2, 3))[:, :, ::stride, ::stride, ::dilation, ::dilation]


def padded(x: np.ndarray, by: int, value: float = 0.0) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, 0), (by, by), (by, by)), constant_values=value)


def conv2d(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    halves = zip(np.split(padded(x, 1), 2, axis=1), np.split(w, 2), strict=True)
    parts = [np.einsum("nchwij,ocij->nohw", windows(a, v.shape[2:], 2), v) for a, v in halves]
    return np.concatenate(parts, 1) + b[:, None, None]


def at(x: np.ndarray, index: np.ndarray, values: np.ndarray) -> np.ndarray:
    x = x.copy()
    np.add.at(x, index, values)
    return x


A, W = Array, Whole
M, V, CUBE = A((4, 6)), A((6,)), A((3, 4, 5))
IMAGE = A((2, 4, 7, 6))


def same(name: str, run: Callable[..., Any], *inputs: Any, **options: Any) -> Row:
    """A row whose call reads the same in NumPy."""
    return Row(name, run, inputs, **options)


def moves(name: str, run: Callable[..., Any], *inputs: Any, **options: Any) -> Row:
    """The same, for functions that only move elements: exact."""
    return Row(name, run, inputs, **{"error": 0, **options})


ROWS = [
    # reductions
    same("sum", lambda xp, x: xp.sum(x, axis=(0, 2)), CUBE, cards=("sum",)),
    same("prod", lambda xp, x: xp.prod(x, axis=1), CUBE, cards=("prod",)),
    same("mean", lambda xp, x: xp.mean(x, axis=-1, keepdims=True), CUBE, cards=("mean",)),
    same("var", lambda xp, x: xp.var(x, axis=0, ddof=1), CUBE, cards=("var",)),
    same("std", lambda xp, x: xp.std(x, axis=(1, 2)), CUBE, cards=("std",)),
    moves("max", lambda xp, x: xp.max(x, axis=1), CUBE, cards=("max",)),
    moves("min", lambda xp, x: xp.min(x), CUBE, cards=("min",)),
    moves("argmax", lambda xp, x: xp.argmax(x, axis=2), CUBE, grad=False, cards=("argmax",)),
    moves("argmin", lambda xp, x: xp.argmin(x), CUBE, grad=False, cards=("argmin",)),
    moves("any", lambda xp, x: xp.any(x > 1.9, axis=0), CUBE, grad=False, cards=("any",)),
    moves("all", lambda xp, x: xp.all(x < 1.9, axis=0), CUBE, grad=False, cards=("all",)),
    moves("count_nonzero", lambda xp, x: xp.count_nonzero(x > 0, axis=1), CUBE, grad=False, cards=("count_nonzero",)),
    # products and norms
    same("matmul", lambda xp, a, b: a @ b, A((2, 1, 3, 4)), A((5, 4, 2)), cards=("matmul",)),
    same("dot", lambda xp, a, b: xp.dot(a, b), M, V),
    same("inner", lambda xp, a, b: xp.inner(a, b), M, A((3, 6))),
    same("outer", lambda xp, a, b: xp.outer(a, b), A((3,)), V),
    same("vdot", lambda xp, a, b: xp.vdot(a, b), M, M),
    same("vecdot", lambda xp, a, b: xp.vecdot(a, b), M, V),
    same("tensordot", lambda xp, a, b: xp.tensordot(a, b, axes=((1, 2), (2, 0))), CUBE, A((5, 2, 4))),
    Row("gemm", lambda xp, a, b, c: xp.gemm(a, b, 0.5, c, 2.0), (M, A((6, 3)), A((4, 3))), lambda a, b, c: 0.5 * a @ b + 2 * c),
    Row("gemv", lambda xp, a, x, y: xp.gemv(a, x, 0.5, y, 2.0), (M, V, A((4,))), lambda a, x, y: 0.5 * a @ x + 2 * y),
    same("linalg.vector_norm", lambda xp, x: xp.linalg.vector_norm(x, axis=1), CUBE, cards=("vector_norm",)),
    same("linalg.matrix_norm", lambda xp, x: xp.linalg.matrix_norm(x), CUBE),
    same("linalg.norm", lambda xp, x: xp.linalg.norm(x, axis=0), M),
    # elementwise compositions
    same("clip", lambda xp, x: xp.clip(x, -0.5, 1.0), M),
    same("round", lambda xp, x: xp.round(x, 1), M, grad=False),
    same("where", lambda xp, x, y: xp.where(x > y, x, y * 2), M, V, cards=("where", "greater"), error=0),
    Row("real", lambda xp, x: xp.real(x * (1 + 2j)), (M,), cards=("real",)),
    Row("imag", lambda xp, x: xp.imag(x * (1 + 2j)), (M,), cards=("imag",)),
    # shapes
    moves("reshape", lambda xp, x: xp.reshape(x, (2, -1)), CUBE, cards=("reshape",)),
    moves("ravel", lambda xp, x: xp.ravel(x), CUBE),
    Row("flatten", lambda xp, x: xp.flatten(x), (CUBE,), lambda x: x.flatten(), error=0),
    moves("expand_dims", lambda xp, x: xp.expand_dims(x, axis=(0, 2)), M),
    moves("squeeze", lambda xp, x: xp.squeeze(x, axis=1), A((3, 1, 2))),
    moves("atleast_1d", lambda xp, x: xp.atleast_1d(x), A(())),
    moves("atleast_2d", lambda xp, x: xp.atleast_2d(x), V),
    moves("permute_dims", lambda xp, x: xp.permute_dims(x, (2, 0, 1)), CUBE, cards=("permute_dims",)),
    moves("transpose", lambda xp, x: xp.transpose(x), CUBE),
    moves("matrix_transpose", lambda xp, x: xp.matrix_transpose(x), CUBE),
    moves("swapaxes", lambda xp, x: xp.swapaxes(x, 0, 2), CUBE),
    moves("moveaxis", lambda xp, x: xp.moveaxis(x, 0, -1), CUBE),
    moves("flip", lambda xp, x: xp.flip(x, axis=1), CUBE, cards=("getitem",)),
    moves("rot90", lambda xp, x: xp.rot90(x), M),
    moves("diagonal", lambda xp, x: xp.diagonal(x, offset=1), M, cards=("unview",)),
    moves("linalg.diagonal", lambda xp, x: xp.linalg.diagonal(x, offset=-1), CUBE),
    moves("isclose", lambda xp, x, y: xp.isclose(x, y, atol=0.5), M, V, grad=False),
    moves("broadcast_to", lambda xp, x: xp.broadcast_to(x, (4, 6)), V, cards=("broadcast_to",)),
    moves("broadcast_arrays", lambda xp, x, y: xp.broadcast_arrays(x, y), V, A((4, 1))),
    moves("copy", lambda xp, x: xp.copy(x), M, cards=("copy",)),
    moves("astype", lambda xp, x: xp.astype(x, "float64"), M, cards=("astype",)),
    moves("concat", lambda xp, x, y: xp.concat([x, y], axis=1), M, A((4, 2)), cards=("concat",)),
    moves("concatenate", lambda xp, x, y: xp.concatenate([x, y], axis=0), M, A((2, 6))),
    moves("stack", lambda xp, x, y: xp.stack([x, y], axis=1), M, M),
    moves("hstack", lambda xp, x, y: xp.hstack([x, y]), M, M),
    moves("vstack", lambda xp, x, y: xp.vstack([x, y]), M, V),
    moves("split", lambda xp, x: xp.split(x, [1, 3], axis=1), M),
    moves("array_split", lambda xp, x: xp.array_split(x, 4, axis=1), M),
    moves("unstack", lambda xp, x: xp.unstack(x, axis=1), M),
    moves("roll", lambda xp, x: xp.roll(x, (1, -2), axis=(0, 1)), M),
    moves("pad", lambda xp, x: xp.pad(x, ((1, 0), (2, 3)), constant_values=1.5), M, cards=("pad",)),
    moves("tile", lambda xp, x: xp.tile(x, (2, 1, 2)), M),
    moves("repeat", lambda xp, x: xp.repeat(x, 3, axis=0), M),
    moves("tril", lambda xp, x: xp.tril(x, k=-1), M),
    moves("triu", lambda xp, x: xp.triu(x, k=1), CUBE),
    moves("diag", lambda xp, x: xp.diag(x, k=1), V),
    moves("meshgrid", lambda xp, x, y: xp.meshgrid(x, y, indexing="ij"), V, A((3,))),
    # indexing
    moves("take", lambda xp, x, i: xp.take(x, i, axis=1), CUBE, W((2, 3), 4), cards=("take", "index_grad")),
    moves("take_along_axis", lambda xp, x, i: xp.take_along_axis(x, i, axis=1), M, W((4, 9), 6),
          cards=("take_along_axis", "take_along_axis_grad")),
    moves("ndarray.__getitem__", lambda xp, x, i: x[i, 1:], M, W((5,), 4), cards=("index",)),
    Row("index_add", lambda xp, x, i, v: xp.index_add(x, i, v), (M, W((7,), 4), A((7, 6))), at),
    moves("nonzero", lambda xp, x: xp.nonzero(x > 0), M, grad=False, cards=("nonzero", "count_true")),
    moves("flatnonzero", lambda xp, x: xp.flatnonzero(x > 0), M, grad=False),
    moves("argwhere", lambda xp, x: xp.argwhere(x > 0), M, grad=False),
    # differences and sliding sums
    same("diff", lambda xp, x: xp.diff(x, n=2, axis=1), M),
    same("ediff1d", lambda xp, x: xp.ediff1d(x), M),
    Row("gradient", lambda xp, x: xp.gradient(x, 0.5, axis=1, edge_order=2), (M,),
        lambda x: np.gradient(x, 0.5, axis=1, edge_order=2)),
    same("trapezoid", lambda xp, y, x: xp.trapezoid(y, x), M, V),
    same("convolve", lambda xp, a, v: xp.convolve(a, v, "same"), V, A((4,))),
    same("correlate", lambda xp, a, v: xp.correlate(a, v, "full"), V, A((4,))),
    Row("sliding_window_view", lambda xp, x: xp.sliding_window_view(x, (2, 3)), (M,),
        lambda x: sliding_window_view(x, (2, 3)), error=0, cards=("sliding_window_view",)),
    same("interp", lambda xp, x, f: xp.interp(x, np.arange(-3, 3, dtype=np.int8), f), M, V, error=16),
    same("einsum", lambda xp, a, b: xp.einsum("ijk,lk->jl", a, b), CUBE, A((2, 5))),
    same("einsum", lambda xp, a, b, c: xp.einsum("ij,jk,k->i", a, b, c), M, A((6, 3)), A((3,))),
    same("kron", lambda xp, a, b: xp.kron(a, b), A((2, 3)), A((3, 2)), error=2),
    # sorting, running totals, searching, counting, sets
    moves("sort", lambda xp, x: xp.sort(x, axis=1), CUBE, cards=("sort",)),
    moves("argsort", lambda xp, x: xp.argsort(x, axis=0, kind="stable"), CUBE, grad=False, cards=("argsort",)),
    moves("lexsort", lambda xp, x: xp.lexsort((x[0], xp.floor(x[1]))), M, grad=False),
    moves("partition", lambda xp, x: xp.partition(x, 2)[:, 2], M),
    moves("partition", lambda xp, x: xp.partition(x, 2)[:, 2], M, grad=False, cards=("partition",)),
    moves("argpartition", lambda xp, x: xp.take_along_axis(x, xp.argpartition(x, 2), -1)[:, 2], M, grad=False,
          cards=("argpartition",)),
    Row("topk", lambda xp, x: xp.topk(x, 2, axis=1)[0], (CUBE,), lambda x: -np.sort(-x, axis=1)[:, :2], error=0),
    same("cumsum", lambda xp, x: xp.cumsum(x, axis=1), CUBE, cards=("cumulative",)),
    same("cumprod", lambda xp, x: xp.cumprod(x, axis=1), CUBE),
    same("nancumsum", lambda xp, x: xp.nancumsum(x), M),
    same("nancumprod", lambda xp, x: xp.nancumprod(x, axis=0), M),
    same("cumulative_sum", lambda xp, x: xp.cumulative_sum(x, axis=0, include_initial=True), M),
    same("cumulative_prod", lambda xp, x: xp.cumulative_prod(x, axis=1, include_initial=True), M),
    Row("cummax", lambda xp, x: xp.cummax(x, axis=1), (CUBE,), lambda x: np.maximum.accumulate(x, 1), error=0),
    Row("cummin", lambda xp, x: xp.cummin(x, axis=0), (CUBE,), lambda x: np.minimum.accumulate(x, 0), error=0),
    Row("nancummax", lambda xp, x: xp.nancummax(x), (M,), lambda x: np.fmax.accumulate(x.ravel()), error=0),
    Row("nancummin", lambda xp, x: xp.nancummin(x), (M,), lambda x: np.fmin.accumulate(x.ravel()), error=0),
    moves("searchsorted", lambda xp, x, v: xp.searchsorted(xp.sort(x), v), V, M, grad=False, cards=("searchsorted",)),
    moves("digitize", lambda xp, x: xp.digitize(x, [-1.0, 0.0, 1.5]), M, grad=False),
    moves("bincount", lambda xp, i: xp.bincount(i, minlength=9), W((20,), 7), grad=False, cards=("bincount",)),
    same("bincount", lambda xp, i, w: xp.bincount(i, w), W((20,), 7), A((20,))),
    moves("histogram", lambda xp, x: xp.histogram(x, [-2.0, -0.5, 0.0, 1.0])[0], CUBE, grad=False, cards=("histogram",)),
    moves("unique", lambda xp, x: xp.unique(xp.floor(x), return_counts=True), CUBE, grad=False),
    moves("unique_values", lambda xp, x: xp.unique_values(xp.floor(x)), M, grad=False,
          truth=lambda x: np.unique(np.floor(x))),
    moves("unique_counts", lambda xp, x: xp.unique_counts(xp.floor(x)), M, grad=False),
    moves("unique_inverse", lambda xp, x: xp.unique_inverse(xp.floor(x)), M, grad=False),
    moves("unique_all", lambda xp, x: xp.unique_all(xp.floor(x)), M, grad=False),
    moves("isin", lambda xp, x: xp.isin(xp.floor(x), [0, 1]), M, grad=False),
    moves("intersect1d", lambda xp, x, y: xp.intersect1d(xp.floor(x), xp.floor(y)), M, V, grad=False),
    moves("union1d", lambda xp, x, y: xp.union1d(xp.floor(x), xp.floor(y)), M, V, grad=False),
    moves("setdiff1d", lambda xp, x, y: xp.setdiff1d(xp.floor(x), xp.floor(y)), M, A((2,)), grad=False),
    moves("setxor1d", lambda xp, x, y: xp.setxor1d(xp.floor(x), xp.floor(y)), M, A((2,)), grad=False),
    # activations
    Row("ml.relu", lambda xp, x: xp.ml.relu(x), (M,), lambda x: np.maximum(x, 0), error=0, cards=("relu", "relu_grad")),
    Row("ml.leaky_relu", lambda xp, x: xp.ml.leaky_relu(x, 0.1), (M,), lambda x: np.where(x > 0, x, 0.1 * x),
        cards=("leaky_relu", "leaky_relu_grad")),
    Row("ml.prelu", lambda xp, x, w: xp.ml.prelu(x, w), (M, V), lambda x, w: np.where(x > 0, x, w * x),
        cards=("leaky_relu_slope",)),
    Row("ml.relu6", lambda xp, x: xp.ml.relu6(x), (A((4, 6), -3, 9),), lambda x: np.clip(x, 0, 6), error=0,
        cards=("relu6", "relu6_grad")),
    Row("ml.hardtanh", lambda xp, x: xp.ml.hardtanh(x, -1, 1.5), (M,), lambda x: np.clip(x, -1, 1.5), error=0),
    Row("ml.selu", lambda xp, x: xp.ml.selu(x), (M,),
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), cards=("selu", "selu_grad")),
    Row("ml.celu", lambda xp, x: xp.ml.celu(x, 1.5), (M,), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x / 1.5)),
        cards=("celu", "celu_grad")),
    Row("ml.softsign", lambda xp, x: xp.ml.softsign(x), (M,), lambda x: x / (1 + abs(x)), cards=("softsign", "softsign_grad")),
    Row("ml.hardsigmoid", lambda xp, x: xp.ml.hardsigmoid(x), (A((4, 6), -5, 5),), lambda x: np.clip(x / 6 + 0.5, 0, 1),
        cards=("hardsigmoid", "hardsigmoid_grad")),
    Row("ml.hardswish", lambda xp, x: xp.ml.hardswish(x), (A((4, 6), -5, 5),), lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
        cards=("hardswish", "hardswish_grad")),
    Row("ml.mish", lambda xp, x: xp.ml.mish(x), (M,), lambda x: x * np.tanh(np.log1p(np.exp(x))), cards=("mish", "mish_grad")),
    Row("ml.log_sigmoid", lambda xp, x: xp.ml.log_sigmoid(x), (M,), lambda x: -np.log1p(np.exp(-x)),
        cards=("log_sigmoid", "log_sigmoid_grad")),
    Row("ml.glu", lambda xp, x: xp.ml.glu(x), (M,), lambda x: x[:, :3] / (1 + np.exp(-x[:, 3:])), cards=("glu", "glu_gate")),
    Row("ml.elu", lambda xp, x: xp.ml.elu(x, 1.5), (M,), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x)),
        cards=("elu", "elu_grad")),
    Row("ml.sigmoid", lambda xp, x: xp.ml.sigmoid(x), (M,), lambda x: 1 / (1 + np.exp(-x)),
        cards=("sigmoid", "sigmoid_grad")),
    Row("ml.silu", lambda xp, x: xp.ml.silu(x), (M,), lambda x: x / (1 + np.exp(-x)), cards=("silu", "silu_grad")),
    Row("ml.softplus", lambda xp, x: xp.ml.softplus(x, 2.0), (M,), lambda x: np.log1p(np.exp(2 * x)) / 2,
        cards=("softplus", "softplus_grad")),
    Row("ml.gelu", lambda xp, x: xp.ml.gelu(x), (M,), lambda x: x * normal_cdf(x), cards=("gelu", "gelu_grad")),
    Row("ml.gelu", lambda xp, x: xp.ml.gelu(x, approximate="tanh"), (M,),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        cards=("gelu_tanh", "gelu_tanh_grad")),
    Row("ml.activation", lambda xp, x: xp.ml.activation(x, "tanh"), (M,), np.tanh),
    # softmax and losses
    Row("ml.softmax", lambda xp, x: xp.ml.softmax(x, axis=1), (CUBE,), lambda x: softmax(x, 1),
        cards=("softmax", "softmax_grad")),
    Row("ml.log_softmax", lambda xp, x: xp.ml.log_softmax(x), (CUBE,), lambda x: np.log(softmax(x)),
        cards=("log_softmax", "log_softmax_grad")),
    Row("ml.cross_entropy", lambda xp, x, t: xp.ml.cross_entropy(x, t, label_smoothing=0.1), (A((5, 7)), W((5,), 7)),
        lambda x, t: (-np.log(softmax(x)) * (0.9 * np.eye(7)[t] + 0.1 / 7)).sum(1).mean(),
        cards=("cross_entropy", "cross_entropy_grad")),
    Row("ml.cross_entropy", lambda xp, x, q: xp.ml.cross_entropy(x, q, reduction="sum"), (A((5, 7)), A((5, 7), 0, 1)),
        lambda x, q: -(np.log(softmax(x)) * q).sum()),
    Row("ml.nll_loss", lambda xp, x, t: xp.ml.nll_loss(x, t, reduction="none"), (A((5, 7, 2), -4, 0), W((5, 2), 7)),
        lambda x, t: -np.take_along_axis(x, t[:, None], 1)[:, 0], error=0, cards=("nll_loss", "nll_loss_grad")),
    Row("ml.mse_loss", lambda xp, x, t: xp.ml.mse_loss(x, t), (M, M), lambda x, t: ((x - t) ** 2).mean(),
        cards=("pointwise_loss", "pointwise_loss_grad")),
    Row("ml.l1_loss", lambda xp, x, t: xp.ml.l1_loss(x, t), (M, M), lambda x, t: abs(x - t).mean()),
    Row("ml.huber_loss", lambda xp, x, t: xp.ml.huber_loss(x, t, delta=0.5), (M, M),
        lambda x, t: np.where(abs(x - t) < 0.5, (x - t) ** 2 / 2, abs(x - t) / 2 - 0.125).mean()),
    Row("ml.smooth_l1_loss", lambda xp, x, t: xp.ml.smooth_l1_loss(x, t, reduction="none"), (M, M),
        lambda x, t: np.where(abs(x - t) < 1, (x - t) ** 2 / 2, abs(x - t) - 0.5)),
    Row("ml.bce_with_logits", lambda xp, x, t: xp.ml.bce_with_logits(x, t, pos_weight=2.0), (M, A((4, 6), 0, 1)),
        lambda x, t: (2 * t * np.log1p(np.exp(-x)) + (1 - t) * np.log1p(np.exp(x))).mean()),
    Row("ml.binary_cross_entropy", lambda xp, x, t: xp.ml.binary_cross_entropy(x, t), (A((4, 6), 0.1, 0.9), A((4, 6), 0, 1)),
        lambda x, t: -(t * np.log(x) + (1 - t) * np.log1p(-x)).mean(), ),
    Row("ml.kl_div", lambda xp, x, t: xp.ml.kl_div(x, t, reduction="batchmean"), (M, A((4, 6), 0.1, 1)),
        lambda x, t: (t * (np.log(t) - x)).sum() / 4),
    Row("ml.kl_div", lambda xp, x, t: xp.ml.kl_div(x, t, log_target=True), (M, A((4, 6), -2, 0)),
        lambda x, t: (np.exp(t) * (t - x)).mean()),
    # layers
    Row("ml.scaled_dot_product_attention", lambda xp, q, k, v: xp.ml.scaled_dot_product_attention(q, k, v, causal=True),
        (A((2, 4, 5, 6)), A((2, 2, 7, 6)), A((2, 2, 7, 3))), attention,
        cards=("scaled_dot_product_attention", "attention_grad")),
    Row("ml.self_attention", lambda xp, qkv: xp.ml.self_attention(qkv, 2), (A((2, 5, 18)),), self_attention,
        cards=("self_attention", "self_attention_grad")),
    Row("ml.linear", lambda xp, x, w, b: xp.ml.linear(x, w, b), (A((2, 3, 6)), A((5, 6)), A((5,))),
        lambda x, w, b: x @ w.T + b, cards=("linear",)),
    Row("ml.linear_cross_entropy", lambda xp, x, w, t: xp.ml.linear_cross_entropy(x, w, t, classes=6, rows=3).astype(x.dtype),
        (A((2, 4, 6)), A((7, 6)), W((2, 4), 6)),
        lambda x, w, t: -np.log(np.take_along_axis(softmax(x @ w[:6].T), t[..., None], 2)).mean(),
        cards=("linear_loss",)),
    Row("ml.embedding", lambda xp, i, w: xp.ml.embedding(i, w), (W((3, 4), 5), A((5, 6))), lambda i, w: w[i], error=0,
        cards=("embedding",)),
    Row("ml.conv2d", lambda xp, x, w, b: xp.ml.conv2d(x, w, b, stride=2, padding=1, groups=2),
        (IMAGE, A((6, 2, 3, 2)), A((6,))), conv2d, cards=("conv2d", "_conv2d_input_grad", "_conv2d_weight_grad")),
    Row("ml.conv1d", lambda xp, x, w: xp.ml.conv1d(x, w, padding=1), (A((2, 3, 7)), A((4, 3, 3))),
        lambda x, w: np.einsum("nclr,kcr->nkl", sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1))), 3, 2), w)),
    Row("ml.conv3d", lambda xp, x, w: xp.ml.conv3d(x, w, stride=(2, 1, 1)), (A((2, 3, 5, 4, 5)), A((4, 3, 2, 3, 2))),
        lambda x, w: np.einsum("ncdhwtrs,kctrs->nkdhw", sliding_window_view(x, (2, 3, 2), (2, 3, 4))[:, :, ::2], w)),
    Row("ml.conv_transpose2d", lambda xp, x, w: xp.ml.conv_transpose2d(x, w), (A((2, 3, 4, 4)), A((3, 4, 2, 2))),
        lambda x, w: np.einsum("nchwrs,kcrs->nkhw", sliding_window_view(padded(x, 1), (2, 2), (2, 3)),
                               w.swapaxes(0, 1)[:, :, ::-1, ::-1])),
    Row("ml.max_pool2d", lambda xp, x: xp.ml.max_pool2d(x, (3, 2), 2, 1), (IMAGE,),
        lambda x: windows(padded(x, 1, -np.inf), (3, 2), 2).max((-2, -1)), error=0,
        cards=("max_pool2d", "max_pool2d (with positions)", "_max_pool2d_grad", "_max_pool2d_take")),
    Row("ml.avg_pool2d", lambda xp, x: xp.ml.avg_pool2d(x, (3, 2), 2, 1), (IMAGE,),
        lambda x: windows(padded(x, 1), (3, 2), 2).mean((-2, -1)), cards=("avg_pool2d", "_avg_pool2d_grad")),
    Row("ml.batch_norm", lambda xp, x, w, b: xp.ml.batch_norm(x, None, None, w, b, training=True)[0],
        (IMAGE, A((4,)), A((4,))),
        lambda x, w, b: standard(x, (0, 2, 3)) * w[:, None, None] + b[:, None, None],
        cards=("batch_norm", "batch_norm_grad")),
    Row("ml.batch_norm", lambda xp, x, m, v, w, b: xp.ml.batch_norm(x, m, v, w, b),
        (A((5, 3)), A((3,)), A((3,), 0.5, 2), A((3,)), A((3,))),
        lambda x, m, v, w, b: (x - m) / np.sqrt(v + 1e-5) * w + b, cards=("batch_norm_inference",)),
    Row("ml.batch_norm", lambda xp, x, w, b, r: xp.ml.batch_norm(x, None, None, w, b, training=True, activation="relu",
                                                                 residual=r)[0],
        (IMAGE, A((4,)), A((4,)), IMAGE),
        lambda x, w, b, r: np.maximum(standard(x, (0, 2, 3)) * w[:, None, None] + b[:, None, None] + r, 0),
        cards=("batch_norm_residual_grad",)),
    Row("ml.layer_norm", lambda xp, x, w, b: xp.ml.layer_norm(x, (4, 5), w, b), (CUBE, A((4, 5)), A((4, 5))),
        lambda x, w, b: standard(x, (1, 2)) * w + b, cards=("layer_norm", "layer_norm_grad")),
    Row("ml.rms_norm", lambda xp, x, w: xp.ml.rms_norm(x, 5, w, eps=1e-5), (CUBE, A((5,))),
        lambda x, w: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * w, cards=("rms_norm", "rms_norm_grad")),
    Row("ml.group_norm", lambda xp, x, w, b: xp.ml.group_norm(x, 2, w, b), (IMAGE, A((4,)), A((4,))),
        lambda x, w, b: standard(x.reshape(len(x), 2, -1), 2).reshape(x.shape) * w[:, None, None] + b[:, None, None],
        cards=("scale_shift",)),
    Row("ml.instance_norm", lambda xp, x: xp.ml.instance_norm(x), (IMAGE,), lambda x: standard(x, (2, 3))),
    Row("ml.adaptive_avg_pool2d", lambda xp, x: xp.ml.adaptive_avg_pool2d(x, (1, None)), (IMAGE,),
        lambda x: x.mean(2, keepdims=True)),
    Row("ml.adaptive_max_pool2d", lambda xp, x: xp.ml.adaptive_max_pool2d(x, (None, 1)), (IMAGE,),
        lambda x: x.max(3, keepdims=True), error=0),
    Row("ml.global_avg_pool2d", lambda xp, x: xp.ml.global_avg_pool2d(x), (IMAGE,), lambda x: x.mean((2, 3), keepdims=True)),
    Row("ml.global_max_pool2d", lambda xp, x: xp.ml.global_max_pool2d(x), (IMAGE,), lambda x: x.max((2, 3), keepdims=True),
        error=0),
]

#: Public functions that make arrays from numbers: name -> the same call of both libraries.
CREATION: dict[str, Callable[[Any], Any]] = {
    "arange": lambda xp: xp.arange(2, 9, 2),
    "array": lambda xp: xp.array([[1, 2], [3, 4]]),
    "asarray": lambda xp: xp.asarray([1.5, 2.5]),
    "empty": lambda xp: xp.empty((2, 3)) * 0 == 1,
    "empty_like": lambda xp: xp.empty_like(xp.ones(3)).shape,
    "eye": lambda xp: xp.eye(3, 4, k=1),
    "from_dlpack": lambda xp: xp.from_dlpack(np.arange(3)),
    "full": lambda xp: xp.full((2, 2), 7),
    "full_like": lambda xp: xp.full_like(xp.ones(3), 2),
    "identity": lambda xp: xp.identity(3),
    "linspace": lambda xp: xp.linspace(0, 1, 5),
    "ones": lambda xp: xp.ones((2, 3)),
    "ones_like": lambda xp: xp.ones_like(xp.zeros(3)),
    "tri": lambda xp: xp.tri(3, k=-1),
    "zeros": lambda xp: xp.zeros(4),
    "zeros_like": lambda xp: xp.zeros_like(xp.ones(3)),
    "broadcast_shapes": lambda xp: xp.broadcast_shapes((3, 1), (1, 4)),
    "result_type": lambda xp: xp.result_type(np.float32, 1.0, np.int16),
    "einsum_path": lambda xp: len(xp.einsum_path("ij,jk,k->i", np.ones((9, 9)), np.ones((9, 9)), np.ones(9))[0]),
    "can_cast": lambda xp: xp.can_cast(np.int16, np.float32),
    "finfo": lambda xp: xp.finfo(np.float32).eps,
    "iinfo": lambda xp: xp.iinfo(np.int16).max,
    "isdtype": lambda xp: xp.isdtype(np.dtype(np.float32), "real floating"),
    "issubdtype": lambda xp: xp.issubdtype(np.float32, np.floating),
    "promote_types": lambda xp: xp.promote_types(np.int32, np.float32),
}

#: Other names of the same functions.
ALIASES = {
    "absolute": "abs", "true_divide": "divide", "mod": "remainder", "power": "pow", "arctan2": "atan2", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "invert": "bitwise_invert",
    "bitwise_not": "bitwise_invert", "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
    "conjugate": "conj", "amax": "max", "amin": "min",
    "around": "round", "deg2rad": "radians", "rad2deg": "degrees", "norm": "linalg.norm",
    "vector_norm": "linalg.vector_norm", "matrix_norm": "linalg.matrix_norm", "linalg.matmul": "matmul",
    "linalg.outer": "outer", "linalg.tensordot": "tensordot", "linalg.vecdot": "vecdot",
    "linalg.matrix_transpose": "matrix_transpose", "linalg.dot": "dot", "linalg.gemm": "gemm", "linalg.gemv": "gemv",
    "linalg.inner": "inner", "linalg.vdot": "vdot", "ml.tanh": "tanh",
    "ml.binary_cross_entropy_with_logits": "ml.bce_with_logits",
}

#: Public functions and cards whose tests are in a file of their own.
ELSEWHERE = {
    "test_random.py": ["ml.dropout", "random.*", "dropout"],
    "test_rotary.py": ["ml.rotary_embedding", "ml.rotary_tables", "rotary_embedding"],
    "test_optim.py": ["ml.sgd_update", "ml.adam_update", "ml.adamw_update", "ml.clip_grad_norm", "ml.adam_init",
                      "ml.rmsprop_update", "ml.adagrad_update", "ml.lion_update", "rmsprop_update", "lion_update",
                      "clip_grad_norm", "ml.init.*", "sgd_update", "sgd_update (momentum)", "adam_update", "ml.clip_factor",
                      "clip_factor"],
    "test_amp.py": ["ml.amp.*", "ml.schedules.*", "unscale"],
    "test_histogram.py": ["histogram2d", "histogramdd", "histogram_bin_edges"],
    "test_index.py": ["add_at", "multiply_at", "maximum_at", "minimum_at", "put", "index_put", "where_into"],
    "test_array.py": ["copy_into", "fill", "to", "ramp", "device", "default_device", "set_default_device"],
    "test_values.py": ["ml.sgd_init", "allclose", "array_equal"],
    "test_gradients.py": ["grad", "value_and_grad", "vjp", "stop_gradient"],
    "test_fuse.py": ["fuse"],
    "test_custom.py": ["elementwise", "reduction"],
    "test_promotion.py": ["set_default_dtype"],
    "test_errors.py": ["set_matmul_precision"],
    "test_tune.py": ["explain"],
    "test_matmul.py": ["matmul (int8 to int32)"],
    "test_numpy_habits.py": [
        "asanyarray", "ascontiguousarray", "asfortranarray", "bartlett", "blackman", "copyto", "diag_indices_from", "diagflat",
        "frombuffer", "fromfunction", "fromiter", "get_printoptions", "hamming", "hanning", "isfortran", "isscalar",
        "may_share_memory", "ndim", "polyder", "polyfit", "polyint", "polyval", "printoptions", "set_printoptions", "shape",
        "size", "tril_indices_from", "triu_indices_from",
        "angle", "append", "apply_along_axis", "apply_over_axes", "array_equiv", "atleast_3d", "average",
        "block", "choose", "column_stack", "compress", "corrcoef", "cov", "delete", "diag_indices", "divmod",
        "dsplit", "dstack", "extract", "fabs", "fill_diagonal", "fix", "fliplr", "flipud", "float_power",
        "geomspace", "hsplit", "indices", "insert", "iscomplex", "iscomplexobj", "isneginf", "isposinf",
        "isreal", "isrealobj", "ix_", "logspace", "median", "modf", "nan_to_num", "nanargmax", "nanargmin",
        "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod", "nanquantile", "nanstd",
        "nansum", "nanvar", "percentile", "piecewise", "place", "ptp", "quantile",
        "ravel_multi_index", "real_if_close", "resize", "rollaxis", "select", "sinc", "trace", "tril_indices",
        "trim_zeros", "triu_indices", "unravel_index", "unwrap", "vander", "vsplit"],
    "test_numpy_protocols.py": ["put_along_axis", "putmask"],
    "test_fft.py": ["fft.*", "fft_c2c", "fft_r2c", "fft_c2r"],
    "test_linalg.py": ["linalg.cholesky", "linalg.cond", "linalg.cross", "linalg.det", "linalg.eig", "linalg.eigh",
                       "linalg.eigvals", "linalg.eigvalsh", "linalg.expm", "linalg.inv", "linalg.lstsq", "linalg.lu",
                       "linalg.lu_factor", "linalg.lu_solve", "linalg.matrix_power", "linalg.matrix_rank", "linalg.multi_dot",
                       "linalg.pinv", "linalg.qr", "linalg.slogdet", "linalg.solve", "linalg.solve_triangular", "linalg.svd",
                       "linalg.svdvals", "linalg.tensorinv", "linalg.tensorsolve", "linalg.trace", "cholesky", "eig", "eigh",
                       "eigvals", "eigvalsh", "inv", "lu_factor", "qr", "qr_r", "slogdet", "solve", "solve_triangular", "svd",
                       "svdvals"],
}
