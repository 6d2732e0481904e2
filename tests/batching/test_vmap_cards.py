"""`vmap` of every card equals the stack of its calls.

The cards are those of the registry: each must be reached, batched, by a row of the records or by a
case here, or be listed with the reason why it cannot be batched.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from records import ELEMENTWISE, ROWS, Elementwise, Row
from strategies import eps

import cudamath as cm
from cudamath.core import batched
from cudamath.core.array import ndarray
from cudamath.core.dispatch import fast_path
from cudamath.core.dispatch.lazy_import import lazy
from cudamath.core.dispatch.op import Op, registry

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


def cases(rows: list[Row]) -> list[Any]:
    return [
        pytest.param(row, axes, id=f"{row.name} {axes}")
        for row in rows
        for axes in AXES
        if len(row.inputs) > 1 or axes in ("all", "last")
    ]


@pytest.mark.parametrize(("row", "axes"), cases(ROWS))
def test_rows_equal_their_calls(row: Row, axes: str):
    with cm.device("cpu"):
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
    with cm.device("cpu"):
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
    with cm.device("cpu"):
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
        wanted = [
            tuple(stacked([row.run(cm, *[cm.asarray(x[i, j]) for x in outer]) for j in range(2)]))
            for i in range(SIZE)
        ]
        given = [cm.asarray(np.moveaxis(x, 1, -1)) for x in outer]
        assert_equal(cm.vmap(fn)(*given), stacked(wanted), 4 * max(row.error, 4))


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


# -------------------- nothing is forgotten

#: Cards that no row reaches batched, in a call of their own.
CASES: dict[str, Callable[[], Any]] = {}
#: Cards that are not tested yet, or have no rule yet.
NOT_YET = {
    "_max_pool2d_take",
    "adam_update",
    "adaptive_pool",
    "add_at",
    "average",
    "avg_pool3d",
    "bin_sums",
    "bincount",
    "cholesky",
    "clip_factor",
    "clip_grad_norm",
    "convolve",
    "copy_into",
    "count_true",
    "cross",
    "dequantize",
    "digitize",
    "dropout",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "exchanged_rows",
    "fill",
    "frexp",
    "histogram",
    "histogram_between",
    "histogram_in_range",
    "index_put",
    "index_put_number",
    "interp",
    "inv",
    "inv_and_sign",
    "inverse_values",
    "isin",
    "leading",
    "linear (quantized weight)",
    "linear_loss",
    "linear_quantized",
    "lion_update",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul (int8 to int32)",
    "max_pool3d",
    "median_lines",
    "nan_quantile",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "order_statistics",
    "product_slope",
    "put",
    "put_along_axis",
    "qr",
    "qr_r",
    "quantize",
    "quantize (rows)",
    "random.bernoulli (chances by element)",
    "random.beta",
    "random.binomial",
    "random.choice (thresholds)",
    "random.gamma",
    "random.integers (bounds by element)",
    "random.poisson",
    "rmsprop_update",
    "rotary_embedding",
    "scaled_matmul",
    "searchsorted",
    "sgd_update",
    "sgd_update (momentum)",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "trunc_normal",
    "unscale",
    "where_into",
}


def takes_arrays(card: Op) -> bool:
    """Whether a card has inputs. What has none is made once, for all calls."""
    parameters = inspect.signature(inspect.unwrap(lazy("cpu", card.cpu))).parameters.values()
    return any(p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters)


def wants_a_rule(card: Any) -> bool:
    """Elementwise cards are batched by one function, views and transfers are such of the physical
    array."""
    return isinstance(card, Op) and takes_arrays(card)


def test_every_card_is_batched(reached: set[str]):
    with cm.device("cpu"):
        for row in ROWS:
            arrays = [cm.asarray(x) for x in batches(row, FLOAT64)]
            with contextlib.suppress(TypeError):  # of results whose shapes depend on values
                cm.vmap(lambda *xs, row=row: row.run(cm, *xs))(*arrays)
            if row.grad:
                slope = cm.grad(loss(row), differentiated(row))
                with contextlib.suppress(TypeError):
                    cm.vmap(slope)(*arrays)
        for case in CASES.values():
            case()
    refused = {name for name, rule in batched.rules.items() if hasattr(rule, "why")}
    cards = {name for name, card in registry.items() if wants_a_rule(card)}
    assert cards - reached - refused == NOT_YET
