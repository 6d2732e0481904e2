"""`vmap` of every card equals the stack of its calls.

The cards are those of the registry: each must be reached, batched, by a row of the records or by a
case here, or be listed with the reason why it cannot be batched.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from records import ELEMENTWISE, ROWS, Elementwise, Row
from strategies import eps

import cudamath as cm
import cudamath.distributed  # noqa: F401  its cards are among those of the registry
from cudamath.batching import sampling
from cudamath.batching.transform import load_rules
from cudamath.core import batched
from cudamath.core.array import ndarray
from cudamath.core.dispatch import fast_path
from cudamath.core.dispatch.lazy_import import lazy
from cudamath.core.dispatch.op import Op, registry
from cudamath.ml import recurrent
from cudamath.sparse import products as sparse_products
from cudamath.sparse import reductions

SIZE = 3  # calls in a batch
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def leaves(result: Any) -> list[np.ndarray]:
    return [
        np.asarray(x) for x in cm.tree.leaves(list(result) if isinstance(result, tuple) else result)
    ]


def stacked(results: list[Any]) -> list[np.ndarray]:
    return [np.stack(each) for each in zip(*[leaves(r) for r in results], strict=True)]


def assert_equal(got: Any, wanted: list[np.ndarray], error: float, least: float = 0.0) -> None:
    """least: what is small beside it (a difference of such numbers) has its error."""
    found = leaves(got)
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        if y.dtype.kind not in "fcV":
            np.testing.assert_array_equal(x, y)
            continue
        finite = np.abs(y[np.isfinite(y)]).max(initial=least)
        np.testing.assert_allclose(x, y, rtol=0, atol=error * eps(y.dtype) * finite)


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The names of the cards that were batched."""
    names: set[str] = set()

    class Rules(dict):
        def get(self, name: str, default: Any = None) -> Any:
            rule = dict.get(self, name)
            if rule is None:
                rule = self["*"](registry[name])

            def noted(call: batched.Call) -> Any:
                result = rule(call)
                names.add(name)
                return result

            return noted

    load_rules()
    monkeypatch.setattr(batched, "rules", Rules(batched.rules))
    for card in registry.values():  # which keep the rules that they found
        getattr(card, "plans", {}).clear()
    fast_path.forget()
    yield names


def batches(row: Row, dtype: np.dtype) -> list[np.ndarray]:
    """SIZE different sets of inputs, stacked."""
    each = [row.arrays(dtype, seed) for seed in range(SIZE)]
    return [np.stack(arrays) for arrays in zip(*each, strict=True)]


#: Which inputs are mapped, and where their batch is.
AXES: dict[str, Callable[[int], tuple]] = {
    "all": lambda n: (0,) * n,
    "last": lambda n: (-1,) * n,
    "first alone": lambda n: (0, *[None] * (n - 1)),
    "all but the first": lambda n: (None, *[0] * (n - 1)),
}


def compare(
    fn: Callable, arrays: list[np.ndarray], axes: tuple, error: float, least: float = 0.0
) -> None:
    """`vmap` beside the stack of calls."""
    one = [x[0] if axis is None else x for x, axis in zip(arrays, axes, strict=True)]
    calls = [
        fn(*[cm.asarray(x if a is None else x[i]) for x, a in zip(one, axes, strict=True)])
        for i in range(SIZE)
    ]
    given = [
        cm.asarray(x if a is None else np.moveaxis(x, 0, a)) for x, a in zip(one, axes, strict=True)
    ]
    assert_equal(cm.vmap(fn, axes)(*given), stacked(calls), error, least)


#: Rows whose shapes or ways depend on values: vmap says so.
BY_VALUE = set(
    """nonzero flatnonzero argwhere bincount unique unique_values unique_counts unique_inverse
    unique_all intersect1d union1d setdiff1d setxor1d""".split()
)


def refuses(row: Row) -> contextlib.AbstractContextManager:
    """What is expected where the inputs of a row differ from call to call."""
    if row.name in BY_VALUE or "histogram_in_range" in row.cards:
        return pytest.raises(TypeError, match="vmap: ")
    return contextlib.nullcontext()


def cases(rows: list[Row]) -> list[Any]:
    return [
        pytest.param(row, axes, id=f"{row.name} {axes}")
        for row in rows
        for axes in AXES
        if len(row.inputs) > 1 or axes in ("all", "last")
    ]


@pytest.mark.parametrize(("row", "axes"), cases(ROWS))
def test_rows_equal_their_calls(row: Row, axes: str):
    with cm.device("cpu"), refuses(row):
        compare(
            lambda *xs: row.run(cm, *xs),
            batches(row, FLOAT32),
            AXES[axes](len(row.inputs)),
            4 * max(row.error, 4),
        )


DIFFERENTIABLE = [row for row in ROWS if row.grad]


def loss(row: Row) -> Callable:
    """A number that depends on all results of a row."""

    def value(*xs: ndarray) -> Any:
        out = row.run(cm, *xs)
        out = out if isinstance(out, (tuple, list)) else [out]
        return sum((y * cm.cos(y)).sum() for y in out)

    return value


def differentiated(row: Row) -> tuple[int, ...]:
    return tuple(i for i, a in enumerate(row.inputs) if not getattr(a, "constant", True))


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=lambda row: row.name)
def test_gradients_inside_equal_those_of_the_calls(row: Row):
    """`vmap(grad(f))`, for the derivatives of first and second order."""
    with cm.device("cpu"), refuses(row):
        arrays = batches(row, FLOAT64)
        slope = cm.grad(loss(row), differentiated(row))
        compare(slope, arrays, (0,) * len(arrays), 64 * max(row.error, 4), 0.01)
        if row.second:
            second = cm.grad(
                lambda *xs: sum((cm.sin(g)).sum() for g in slope(*xs)), differentiated(row)
            )
            compare(second, arrays, (0,) * len(arrays), 1024 * max(row.error, 4), 0.01)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=lambda row: row.name)
def test_gradients_through_equal_those_of_the_calls(row: Row, axes: str):
    """`grad` of what `vmap` returns, for the derivatives of first and second order."""
    mapped = AXES[axes](len(row.inputs))
    if mapped == (None,) or axes == "last" and not all(a.shape for a in row.inputs):
        pytest.skip("nothing is mapped")
    with cm.device("cpu"), refuses(row):
        one = [
            x[0] if a is None else np.moveaxis(x, 0, a)
            for x, a in zip(batches(row, FLOAT64), mapped, strict=True)
        ]
        arrays = [cm.asarray(x) for x in one]
        which = differentiated(row)

        def through(*xs: ndarray) -> Any:
            return cm.vmap(loss(row), mapped)(*xs).sum()

        def apart(*xs: ndarray) -> Any:
            return sum(
                loss(row)(
                    *[
                        x if a is None else cm.moveaxis(x, a, 0)[i]
                        for x, a in zip(xs, mapped, strict=True)
                    ]
                )
                for i in range(SIZE)
            )

        assert_equal(
            cm.grad(through, which)(*arrays),
            leaves(cm.grad(apart, which)(*arrays)),
            64 * max(row.error, 4),
            0.01,
        )
        if row.second:

            def again(fn: Callable) -> Callable:
                slope = cm.grad(fn, which)
                return cm.grad(lambda *xs: sum(cm.sin(g).sum() for g in slope(*xs)), which)

            assert_equal(
                again(through)(*arrays),
                leaves(again(apart)(*arrays)),
                1024 * max(row.error, 4),
                0.01,
            )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_two_levels_equal_their_calls(row: Row):
    """`vmap` of `vmap`, the inner one over another axis."""
    with cm.device("cpu"):
        outer = [
            np.stack([row.arrays(FLOAT32, SIZE * i + j)[k] for i in range(SIZE) for j in range(2)])
            for k in range(len(row.inputs))
        ]
        outer = [x.reshape(SIZE, 2, *x.shape[1:]) for x in outer]
        fn = cm.vmap(lambda *xs: row.run(cm, *xs), -1)
        given = [cm.asarray(np.moveaxis(x, 1, -1)) for x in outer]
        with refuses(row):
            got = cm.vmap(fn)(*given)
        if isinstance(refuses(row), contextlib.nullcontext):
            wanted = [
                tuple(
                    stacked([row.run(cm, *[cm.asarray(x[i, j]) for x in outer]) for j in range(2)])
                )
                for i in range(SIZE)
            ]
            assert_equal(got, stacked(wanted), 4 * max(row.error, 4))


# -------------------- elementwise cards


@pytest.mark.parametrize("row", ELEMENTWISE, ids=lambda row: row.name)
def test_elementwise_functions_equal_their_calls(row: Elementwise):
    """In several dtypes, between operands of different shapes, and with numbers."""
    rng = np.random.default_rng(1)
    with cm.device("cpu"):
        for kind, dtype in (("i", np.int64), ("f", np.float32), ("c", np.complex64)):
            if kind not in row.kinds:
                continue
            low, high = (1, 5) if kind == "i" else (row.low, row.high)
            shapes = [(SIZE, 2, 4), (SIZE, 4)][: row.inputs]
            arrays = [rng.uniform(low, high, s).astype(dtype) for s in shapes]
            for axes in {AXES[name](row.inputs) for name in AXES} - {(None,)}:
                compare(row.function, arrays, axes, 2 * max(row.ulp, 1))
            if row.inputs == 2:
                compare(lambda x: row.function(x, 2), arrays[:1], (0,), 2 * max(row.ulp, 1))


# -------------------- further calls

RNG = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=(SIZE, *shape))


def positive(n: int) -> np.ndarray:
    """Matrices that are positive definite."""
    a = normal(n, n)
    return a @ a.swapaxes(1, 2) + n * np.eye(n)


def below(n: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, n, (SIZE, *shape))


def own(x: ndarray) -> ndarray:
    """A copy that belongs to the call."""
    return x + cm.zeros(x.shape, dtype=x.dtype)


def filled(x: ndarray, key: Any, value: Any) -> ndarray:
    x = own(x)
    x[key] = value
    return x


def updated(function: Callable, x: ndarray, *rest: Any) -> ndarray:
    x = own(x)
    function(x, *rest)
    return x


def stepped(function: Callable, steps: int = 2, state: Any = None, **options: Any) -> Callable:
    """Steps of an optimizer on parameters of two shapes, with all of its results."""

    def run(p: ndarray, q: ndarray, g: ndarray, h: ndarray) -> Any:
        params = {"p": own(p), "q": own(q)}
        held = state(params) if state else None
        for _ in range(steps):
            params, held = function(params, {"p": g, "q": h}, held, **options)
        return cm.tree.leaves((params, held))

    return run


def masked(x: ndarray, mask: ndarray) -> ndarray:
    return filled(x, mask > 0, 7.0)


def quantized(x: ndarray, dtype: str, axis: int | None) -> Any:
    q = cm.ml.quantize(x, dtype, axis=axis)
    return q.values, q.scale, cm.ml.dequantize(q)


PARAMETERS = normal(3, 2), normal(5), normal(3, 2), normal(5)
IMAGES = normal(2, 3, 6, 6)
VOLUME = {"size": (2, 2, 2), "kernel": (2, 2, 2), "stride": (2, 2, 2), "padding": (0, 0, 0)}


#: Calls of cards that the rows do not reach batched: functions and their mapped arguments.
def in_one_op(x: Any, ih: Any, hh: Any) -> Any:
    """An LSTM by its op (ml/recurrent.py)."""
    with recurrent.by_version("numpy"):
        y, (h, c) = cm.ml.lstm(x, {"weight_ih_l0": ih, "weight_hh_l0": hh})
    return y, h, c


CASES: dict[str, tuple[Callable, tuple[np.ndarray, ...]]] = {
    "recurrent layers": (in_one_op, (normal(3, 2, 4), normal(12, 4), normal(12, 3))),
    "gradient of recurrent layers": (
        cm.grad(lambda *a: sum([(y * y).sum() for y in in_one_op(*a)]), (0, 1, 2)),
        (normal(3, 2, 4), normal(12, 4), normal(12, 3)),
    ),
    "row_diagonal": (
        lambda x: sparse_products.diagonal_of_rows(
            x, cm.asarray([0, 2, 1, 2, 3, 3], device=x.device), cm.asarray([0, 2, 4, 6]), 1, 3
        ),
        (normal(6),),
    ),
    "places of extremes of rows": (
        lambda x: reductions._row_extremes(
            x, cm.asarray([0, 2, 2, 6], device=x.device), largest=True, skips=False
        ),
        (normal(6),),
    ),
    "companion": (cm.linalg.companion, (normal(4),)),
    "toeplitz": (cm.linalg.toeplitz, (normal(4), normal(3))),
    "circulant": (cm.linalg.circulant, (normal(4),)),
    "hankel": (cm.linalg.hankel, (normal(4), normal(3))),
    "hankel_of_column": (cm.linalg.hankel, (normal(4),)),
    "leslie": (cm.linalg.leslie, (normal(4), normal(3))),
    "gradient of fiedler_companion": (
        cm.grad(lambda x: (cm.linalg.fiedler_companion(x) ** 3).sum()),
        (normal(6),),
    ),
    "fft": (lambda x: cm.fft.fft(x, axis=0), (normal(6, 3),)),
    "ifft of both axes": (lambda x: cm.fft.ifftn(x), (normal(6, 3),)),
    "rfft": (lambda x: cm.fft.rfft(x), (normal(3, 6),)),
    "irfft": (lambda x: cm.fft.irfft(x, 7, axis=0), (normal(4, 3),)),
    "dct": (lambda x: cm.fft.dct(x, 1, axis=0), (normal(6, 3),)),
    "dstn and its gradient": (
        cm.grad(lambda x: (cm.fft.dstn(x) ** 3).sum()),
        (normal(4, 3),),
    ),
    "gradient of rfft": (
        cm.grad(lambda x: (abs(cm.fft.rfft(x)) ** 2 * cm.arange(4.0)).sum()),
        (normal(6),),
    ),
    "gradient of irfft": (cm.grad(lambda x: (cm.fft.irfft(x) ** 3).sum()), (normal(4),)),
    "setitem": (lambda x, v: filled(x, slice(1, 3), v), (normal(4, 2), normal(2))),
    "setitem of a number": (lambda x: filled(x, (0, slice(None)), 2), (normal(4, 2),)),
    "index_put": (lambda x, v: filled(x, cm.asarray([2, 0]), v), (normal(4, 2), normal(2, 2))),
    "index_put, indices": (
        lambda x, i, v: filled(x, i, v),
        (normal(4, 2), np.array([[1, 3], [0, 2], [-1, 0]]), normal(2, 2)),
    ),
    "index_put, inner axis": (
        lambda x, i, v: filled(x, (slice(None), i), v),
        (normal(2, 5, 3), np.array([[1, 3], [0, 2], [-1, 0]]), normal(2, 3)),
    ),
    "index_put, two": (
        lambda x, i, j: filled(x, (i, j), 3.0),
        (normal(4, 5), below(4, 3), below(5, 3)),
    ),
    "index_put_number": (lambda x, i: filled(x, i, 3.0), (normal(4, 2), below(4, 2))),
    "where_into": (masked, (normal(4, 3), normal(4, 3))),
    "add_at": (
        lambda x, i, v: updated(cm.add.at if hasattr(cm.add, "at") else np.add.at, x, i, v),
        (normal(4, 2), below(4, 5), normal(5, 2)),
    ),
    "put": (lambda x, i, v: updated(cm.put, x, i, v), (normal(3, 2), below(6, 2), normal(2))),
    "put_along_axis": (
        lambda x, i, v: updated(cm.put_along_axis, x, i, v, 1),
        (normal(3, 4), np.argsort(normal(3, 4), axis=-1)[..., :2], normal(3, 2)),
    ),
    "index_add": (
        lambda x, i, v: cm.index_add(x, i, v, 1),
        (normal(3, 4), below(4, 5), normal(3, 5)),
    ),
    "take_along_axis": (
        lambda x, i: cm.take_along_axis(x, i, 0),
        (normal(3, 4), below(3, 2, 4)),
    ),
    "count_true": (lambda x: cm.count_nonzero(x > 0), (normal(3, 4),)),
    "average": (lambda x, w: cm.average(x, 0, abs(w)), (normal(3, 4), normal(3, 4))),
    "cross": (cm.cross, (normal(2, 3), normal(3))),
    "frexp": (cm.frexp, (normal(3, 4),)),
    "median": (lambda x: cm.median(x, axis=0), (normal(5, 4),)),
    "quantile": (lambda x: cm.quantile(x, 0.3, axis=1), (normal(5, 4),)),
    "nanquantile": (lambda x: cm.nanquantile(x, 0.3, axis=1), (normal(5, 4),)),
    "nanmedian": (lambda x: cm.nanmedian(x, axis=1), (normal(5, 4),)),
    **{
        name: (functools.partial(getattr(cm, name), axis=0), (normal(5, 4),))
        for name in "nansum nanprod nanmean nanmax nanmin nanvar nanstd".split()
    },
    "leading": (
        lambda x: cm.lexsort((x,)) if x.ndim == 1 else x,
        (normal(6),),
    ),
    "cholesky": (cm.linalg.cholesky, (positive(3),)),
    "inv": (cm.linalg.inv, (positive(3),)),
    "cond": (cm.linalg.cond, (positive(3),)),
    "pinv": (cm.linalg.pinv, (normal(4, 3),)),
    "slogdet": (cm.linalg.slogdet, (positive(3),)),
    "solve": (cm.linalg.solve, (positive(3), normal(3, 2))),
    "solve, shared": (lambda b: cm.linalg.solve(cm.eye(3) * 2, b), (normal(3),)),
    "qr": (cm.linalg.qr, (normal(4, 3),)),
    "qr, r": (lambda a: cm.linalg.qr(a, mode="r"), (normal(4, 3),)),
    "svd": (lambda a: cm.linalg.svd(a, full_matrices=False), (normal(4, 3),)),
    "svdvals": (cm.linalg.svdvals, (normal(4, 3),)),
    "eigh": (cm.linalg.eigh, (positive(3),)),
    "eigvalsh": (cm.linalg.eigvalsh, (positive(3),)),
    "eig": (cm.linalg.eig, (normal(3, 3),)),
    "eigvals": (cm.linalg.eigvals, (normal(3, 3),)),
    "lu": (cm.linalg.lu, (positive(3),)),
    "lu_solve": (
        lambda a, b: cm.linalg.lu_solve(cm.linalg.lu_factor(a), b),
        (positive(3), normal(3, 2)),
    ),
    "solve_triangular": (cm.linalg.solve_triangular, (positive(3), normal(3, 2))),
    # cards that the functions choose on a GPU alone, called as they are
    "inv_and_sign": (registry["inv_and_sign"], (positive(3),)),
    "exchanged_rows": (
        lambda p: registry["exchanged_rows"](p, m=4),
        (np.array([[0, 2], [1, 1], [3, 3]], np.int32),),
    ),
    "card count_true": (lambda x: registry["count_true"](x > 0), (normal(3, 4),)),
    "card leading": (
        lambda x: registry["leading"](x, axis=1, count=2, descending=True),
        (normal(3, 4),),
    ),
    "order_statistics": (
        lambda x: registry["order_statistics"](x, ranks=(0, 2)),
        (normal(3, 4),),
    ),
    "card adaptive_pool": (
        lambda x: registry["adaptive_pool"](x, size=(2, 2), kind="max"),
        (IMAGES,),
    ),
    "card max_pool3d": (
        lambda x: registry["max_pool3d"](x, **VOLUME, dilation=(1, 1, 1)),
        (normal(2, 3, 4, 4, 4),),
    ),
    "card avg_pool3d": (
        lambda x: registry["avg_pool3d"](x, **VOLUME, count_include_pad=True, divisor=0),
        (normal(2, 3, 4, 4, 4),),
    ),
    "_max_pool2d_take": (
        lambda x, i: registry["_max_pool2d_take"](x, i, size=(6, 6), old=(2, 2)),
        (IMAGES, below(36, 2, 3, 2, 2).astype(np.int32)),
    ),
    "card put_along_axis": (
        lambda x, i, v: updated(lambda x: registry["put_along_axis"](x, i, v, axis=1), x),
        (normal(3, 4), below(4, 3, 1), normal(3, 1)),
    ),
    "trunc_normal": (
        lambda p: registry["trunc_normal"](p, scalars=(1.0, 0.0, -2.0, 2.0), dtype=FLOAT64),
        (RNG.uniform(-0.9, 0.9, (SIZE, 4)),),
    ),
    "rotary_embedding": (
        lambda x, a: cm.ml.rotary_embedding(x, cm.cos(a), cm.sin(a)),
        (normal(2, 5, 8), normal(5, 4)),
    ),
    "max_pool3d": (lambda x: cm.ml.max_pool3d(x, 2), (normal(2, 3, 4, 4, 4),)),
    "avg_pool3d": (lambda x: cm.ml.avg_pool3d(x, 2), (normal(2, 3, 4, 4, 4),)),
    "adaptive_pool": (lambda x: cm.ml.adaptive_avg_pool2d(x, 2), (IMAGES,)),
    "searchsorted, all": (
        lambda a, v: cm.searchsorted(a, v, side="right"),
        (np.sort(below(6, 7), axis=1), below(7, 2, 3)),
    ),
    "digitize, all": (cm.digitize, (normal(6), np.sort(normal(4), axis=1)[:, ::-1].copy())),
    "interp, all": (
        lambda x, p, v: cm.interp(x, p, v, left=-5.0),
        (2 * normal(9), np.sort(normal(5), axis=1), normal(5)),
    ),
    "isin, all": (lambda x, t: cm.isin(x, t, invert=True), (below(9, 7), below(9, 4))),
    "histogram, edges": (lambda x: cm.histogram(x, [-1.0, 0.0, 0.1, 1.0])[0], (normal(30),)),
    "bincount, of an inner call": (
        cm.vmap(lambda x: cm.histogram(x, [-1.0, 0.0, 0.1, 1.0])[0]),
        (normal(2, 30),),
    ),
    "histogram, range": (lambda x: cm.histogram(x, 4, (-1.0, 1.0)), (normal(30),)),
    "clip_grad_norm": (
        lambda p, q: cm.ml.clip_grad_norm({"p": p, "q": q}, 1.0),
        (normal(3, 2), normal(5)),
    ),
    "clip_factor": (lambda p, q: cm.ml.clip_factor([p, q], 1.0), (normal(3, 2), normal(5))),
    "sgd_update": (stepped(cm.ml.sgd_update, lr=0.1, weight_decay=0.1), PARAMETERS),
    "sgd_update (momentum)": (
        stepped(cm.ml.sgd_update, state=cm.ml.sgd_init, lr=0.1, momentum=0.9),
        PARAMETERS,
    ),
    "adam_update": (stepped(cm.ml.adam_update, state=cm.ml.adam_init, lr=0.1), PARAMETERS),
    "rmsprop_update": (stepped(cm.ml.rmsprop_update, lr=0.1), PARAMETERS),
    "lion_update": (stepped(cm.ml.lion_update, lr=0.1), PARAMETERS),
    "quantize, rows": (lambda x: quantized(x, "int8", 0), (normal(4, 6),)),
    "quantize, columns": (lambda x: quantized(x, "int8", 1), (normal(4, 6),)),
    "quantize, packed": (lambda x: quantized(x, "int4", 1), (normal(4, 6),)),
    "linear (quantized weight)": (
        lambda x: cm.ml.linear(x, cm.ml.quantize(cm.asarray(normal(4, 6)[0] * 0 + 1.5), axis=0)),
        (normal(5, 6),),
    ),
    "linear_quantized": (
        lambda x: cm.ml.linear_quantized(
            x, cm.ml.quantize(cm.asarray(np.arange(24.0).reshape(4, 6)), axis=0)
        ),
        (normal(5, 6),),
    ),
    "scaled_matmul": (
        lambda a, b, s: cm.ml.scaled_matmul(a, b, s, cm.ones(2, dtype="float32")),
        (
            below(9, 3, 4).astype(np.int8),
            below(9, 4, 2).astype(np.int8),
            RNG.uniform(1, 2, (SIZE, 3)).astype(np.float32),
        ),
    ),
    "matmul (int8 to int32)": (
        lambda a, b: cm.matmul(a, b, dtype="int32"),
        (below(9, 3, 4).astype(np.int8), below(9, 4, 2).astype(np.int8)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases_equal_their_calls(name: str):
    fn, arrays = CASES[name]
    with cm.device("cpu"):
        for axes in {AXES[variant](len(arrays)) for variant in AXES} - {(None,)}:
            compare(fn, list(arrays), axes, 64, 0.01)


#: Draws, of which the test asks whether they differ: cards and calls.
DRAWS: dict[str, Callable] = {
    "dropout": lambda rng, x: cm.ml.dropout(x, 0.5, rng=rng),
    "random.uniform": lambda rng, x: rng.random(8),
    "random.normal": lambda rng, x: rng.normal(size=8),
    "random.gamma": lambda rng, x: rng.gamma(abs(x) + 1),
    "random.beta": lambda rng, x: rng.beta(abs(x) + 1, 2.0),
    "random.poisson": lambda rng, x: rng.poisson(abs(x) * 50),
    "random.binomial": lambda rng, x: rng.binomial(1000, cm.minimum(abs(x), 1.0) * 0.5),
    "random.integers (bounds by element)": lambda rng, x: rng.integers(
        0, (abs(x) * 1000).astype("int64") + 1000
    ),
    "random.bernoulli (chances by element)": lambda rng, x: rng.bernoulli(x * 0 + 0.5),
    "random.permutation": lambda rng, x: rng.permutation(8),
    "random.choice (thresholds)": lambda rng, x: rng.choice(8, 8, p=np.full(8, 1 / 8)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_differ_from_call_to_call(name: str):
    with cm.device("cpu"):
        x = cm.asarray(np.repeat(normal(8)[:1], SIZE, 0))
        y = cm.vmap(lambda x: DRAWS[name](cm.random.default_rng(4), x))(x).to_numpy()
        again = cm.vmap(lambda x: DRAWS[name](cm.random.default_rng(4), x))(x).to_numpy()
    np.testing.assert_array_equal(y, again)
    assert len({row.tobytes() for row in y}) == SIZE
    if name == "random.permutation":
        np.testing.assert_array_equal(np.sort(y, axis=1), np.tile(np.arange(8), (SIZE, 1)))


def test_random_orders_are_those_of_63_bit_keys():
    """So that equal keys, which would keep their order, do not come."""
    with cm.device("cpu"):
        x = cm.ones((SIZE, 2))
        orders = cm.vmap(lambda x: cm.random.default_rng(4).permutation(300))(x).to_numpy()
        keys = cm.random.default_rng(4).integers(0, (1 << 63) - 1, (SIZE, 300)).to_numpy()
    assert keys.max() > 1 << 62
    np.testing.assert_array_equal(orders, np.argsort(keys, axis=1, kind="stable"))


# -------------------- nothing is forgotten


def takes_arrays(card: Op) -> bool:
    """Whether a card has inputs. What has none is made once, for all calls."""
    parameters = inspect.signature(inspect.unwrap(lazy("cpu", card.cpu))).parameters.values()
    return any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters)


def wants_a_rule(card: Any) -> bool:
    """Elementwise cards are batched by one function, views and transfers are such of the physical
    array."""
    return isinstance(card, Op) and takes_arrays(card)


def test_every_card_is_batched(reached: set[str]):
    for name in dir(cm):  # modules that are imported when they are used have cards, too
        getattr(cm, name)
    with cm.device("cpu"):
        for row in ROWS:
            arrays = [cm.asarray(x) for x in batches(row, FLOAT64)]
            with contextlib.suppress(TypeError):  # of results whose shapes depend on values
                cm.vmap(lambda *xs, row=row: row.run(cm, *xs))(*arrays)
            if row.grad:
                slope = cm.grad(loss(row), differentiated(row))
                with contextlib.suppress(TypeError):
                    cm.vmap(slope)(*arrays)
        for fn, arrays in CASES.values():
            with contextlib.suppress(TypeError):
                cm.vmap(fn)(*[cm.asarray(x) for x in arrays])
        for draw in DRAWS.values():
            cm.vmap(lambda x, draw=draw: draw(cm.random.default_rng(0), x))(cm.ones((SIZE, 8)))
    refused = {name for name, rule in batched.rules.items() if hasattr(rule, "why")}
    cards = {name for name, card in registry.items() if wants_a_rule(card)}
    assert cards - reached - refused == set()
    assert set(sampling.LOOPS) == {"random.permutation"}
