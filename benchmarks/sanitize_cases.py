"""The cases of `benchmarks.sanitize`, each at one small size: every version of every matrix kernel
by name, calls of every other family of kernels, the versions that planners choose only on other
machines, and every function of the tests' records with its gradient. Together they reach every
kernel of the package; tests/meta/test_compile.py checks that.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

import cudamath as cm
from benchmarks.accuracy import ELEMENTWISE, ROWS, Array, gradients, numbers
from cudamath.core.dispatch.op import registry

Calls = dict[str, Callable[[], Any]]
LARGEST = 1 << 21  # elements of an array of a plan by name: the tools slow kernels by tens


def array(*shape: int, dtype: Any = "float32") -> cm.ndarray:
    """Random numbers on the GPU."""
    return cm.asarray(np.random.default_rng(0).standard_normal(shape, dtype=np.float32)).astype(
        dtype
    )


def planned(planner: Callable, *arrays: cm.ndarray, **options: Any) -> Any:
    """What a planner's plan gives for these arrays."""
    layouts = [a._layout for a in arrays]
    return planner(*layouts, **options).bind("sanitize", layouts)(*arrays)


def products() -> Calls:
    """Versions of matrix products, and of the layer."""
    from cudamath.kernels.matmul import dispatch as matmul_dispatch
    from cudamath.kernels.matmul import linear as matmul_linear

    calls: Calls = {}
    versions = {
        "float32": [
            "naive",
            "tiled",
            "register_tiles",
            "simt",
            "simt_small",
            "simt_async_copy",
            "simt_async_copy_small",
        ],
        "bfloat16": [
            "register_tiles",
            "sm80",
            "sm90 64x64",
            "sm90 128x256",
            "sm90 128x128 pingpong",
            "sm90 192x128",
            "sm90 64x128 split 2",
            "sm90 64x128 share 3",
        ],
        "float64": ["sm80"],
        "int8": ["sm80", "sm90 64x128"],
    }
    for dtype, names in versions.items():
        a, b = array(200, 264, dtype=dtype), array(264, 136, dtype=dtype)
        for name in names:
            calls[f"matmul {name}, {dtype}"] = functools.partial(
                planned, matmul_dispatch.matmul, a, b, version=name
            )
            calls[f"matmul {name}, {dtype}, tt"] = functools.partial(
                planned, matmul_dispatch.matmul, b.mT, a.mT, version=name
            )
    x, w, bias, more = (
        array(*s, dtype="bfloat16") for s in ((200, 264), (136, 264), (136,), (200, 136))
    )
    for f in ("gelu", "gelu_tanh", "relu", "silu"):
        calls[f"linear {f}"] = functools.partial(
            planned, matmul_linear.linear, x, w, bias, more, activation=f
        )
        calls[f"linears {f}"] = functools.partial(
            planned, matmul_linear.linears, x, w, w, bias, bias, activation=f, count=2
        )
        calls[f"linear {f}, blocks that share sums"] = functools.partial(
            planned,
            matmul_linear.linear,
            x,
            w,
            bias,
            more,
            activation=f,
            version="sm90 64x64 share 2",
        )
    return calls


def weights_by_pairs(grad: Any, x: Any, **where: Any) -> Any:
    """The plan of a 3 x 3 weight gradient of which two blocks share each tile; planners want more
    filters for that."""
    from cudamath.kernels.conv import wgrad_sm90_shared_taps
    from cudamath.kernels.conv.problem import Problem

    problem = Problem.weight_gradient(grad, x, kernel=(3, 3), **where)
    return wgrad_sm90_shared_taps.weight_gradient(problem, rows=3, paired=True)


def weights_of_one_tap(grad: Any, x: Any, *, parts: int, **where: Any) -> Any:
    """The plan of a weight gradient of filters of one tap, of which two blocks share each tile, in
    so many parts."""
    from cudamath.kernels.conv import wgrad_sm90_pointwise
    from cudamath.kernels.conv.problem import Problem

    problem = Problem.weight_gradient(grad, x, kernel=(1, 1), **where)
    return wgrad_sm90_pointwise.weight_gradient(problem, parts=parts)


def with_resident_filters(x: Any, weight: Any, **where: Any) -> Any:
    """The plan of a convolution whose filters stay in shared memory; planners want more pixels for
    that."""
    from cudamath.kernels.conv import fprop_dgrad_sm90_resident_filters
    from cudamath.kernels.conv.problem import Problem

    problem = Problem.forward(x, weight, **where)
    return fprop_dgrad_sm90_resident_filters.forward(problem, pixels=112)


def convolutions() -> Calls:
    """Versions of convolutions and their gradients."""
    from cudamath.kernels.conv import dispatch as conv_dispatch
    from cudamath.kernels.conv import tap_products
    from cudamath.kernels.conv.problem import Problem as ConvProblem

    calls: Calls = {}
    where: dict[str, Any] = {
        "stride": (1, 1),
        "padding": (1, 1, 1, 1),
        "dilation": (1, 1),
        "groups": 1,
    }
    for dtype, versions in {
        "float32": [("direct", "wgrad_direct"), ("simt", "wgrad_simt")],
        "bfloat16": [("sm80", "wgrad_sm80"), ("sm90", "wgrad_sm90_shared_taps")],
    }.items():
        x, w, g = (
            array(*s, dtype=dtype).transpose(0, 3, 1, 2)
            for s in ((2, 9, 11, 64), (72, 3, 3, 64), (2, 9, 11, 72))
        )
        for method, weight in versions:
            end = f"{method}, {dtype}"
            calls[f"conv2d {end}"] = functools.partial(
                planned, conv_dispatch.conv2d, x, w, **where, version=f"fprop_{method}"
            )
            calls[f"conv2d_input_grad {end}"] = functools.partial(
                planned,
                conv_dispatch.conv2d_input_grad,
                g,
                w,
                size=(9, 11),
                **where,
                version=f"dgrad_{method}",
            )
            calls[f"conv2d_weight_grad {end}"] = functools.partial(
                planned,
                conv_dispatch.conv2d_weight_grad,
                g,
                x,
                kernel=(3, 3),
                **where,
                version=weight,
            )
    grad, y = (
        array(*s, dtype="bfloat16").transpose(0, 3, 1, 2) for s in ((2, 9, 11, 64), (2, 17, 21, 64))
    )
    calls["conv2d_weight_grad sm90, rows of taps together"] = functools.partial(
        planned,
        conv_dispatch.conv2d_weight_grad,
        grad,
        grad,
        kernel=(3, 3),
        **where,
        version="wgrad_sm90_shared_taps",
    )
    calls["conv2d_weight_grad sm90, stride 2"] = functools.partial(
        planned,
        conv_dispatch.conv2d_weight_grad,
        grad,
        y,
        kernel=(3, 3),
        **{**where, "stride": (2, 2)},
        version="wgrad_sm90",
    )
    calls["conv2d_weight_grad sm90, pairs of blocks"] = functools.partial(
        planned, weights_by_pairs, grad, grad, **where
    )
    calls["conv2d sm90, resident filters"] = functools.partial(
        planned,
        with_resident_filters,
        grad,
        array(72, 3, 3, 64, dtype="bfloat16").transpose(0, 3, 1, 2),
        **where,
    )
    for parts in (1, 2):
        calls[f"conv2d_weight_grad sm90, one tap, {parts} pairs of blocks"] = functools.partial(
            planned, weights_of_one_tap, y, y, **{**where, "padding": (0, 0, 0, 0)}, parts=parts
        )
    tap, alone = (
        array(72, 64, 1, 1, dtype="bfloat16"),
        {**where, "padding": (0, 0, 0, 0), "version": "pointwise_matmul"},
    )
    calls["conv2d pointwise_matmul"] = functools.partial(
        planned, conv_dispatch.conv2d, grad, tap, **alone
    )
    few = array(3, 64, 3, 3)
    images = array(2, 64, 9, 11)
    calls["conv2d by taps, sums"] = functools.partial(
        planned,
        tap_products.sums,
        array(2 * 9 * 11, 27),
        problem=ConvProblem.forward(images._layout, few._layout, **where),
    )
    return {**calls, **few_channels(where), **not_finite_anew(where)}


def not_finite_anew(where: dict[str, Any]) -> Calls:
    """What is not finite behind a transform: an infinity in every tenth result, in either order."""
    from cudamath.kernels.conv import not_finite
    from cudamath.kernels.conv.problem import Problem

    calls: Calls = {}
    for last in (False, True):

        def images(*shape: int, last: bool = last) -> cm.ndarray:
            n, c, h, w = shape
            return array(n, h, w, c).transpose(0, 3, 1, 2) if last else array(*shape)

        x, y, w, bias = images(2, 9, 9, 11), images(2, 12, 9, 11), images(12, 9, 3, 3), array(12)
        for problem, result, inputs in (
            (Problem.forward(x._layout, w._layout, bias._layout, **where), y, (x, w, bias)),
            (Problem.input_gradient(y._layout, w._layout, size=(9, 11), **where), x, (y, w)),
            (Problem.weight_gradient(y._layout, x._layout, kernel=(3, 3), **where), w, (y, x)),
        ):
            flat = cm.arange(result.size, device=result.device).reshape(result.shape)
            seeded = cm.where(flat % 10 == 0, cm.inf, result).astype("float32")
            calls[f"conv2d not finite, {problem.kind}{', channels last' * last}"] = (
                functools.partial(planned, not_finite.copied, seeded, *inputs, problem=problem)
            )
    return calls


def few_channels(where: dict[str, Any]) -> Calls:
    """A channel or eight for each group."""
    from cudamath.kernels.conv import dispatch as conv_dispatch

    calls: Calls = {}
    for method, dtype, channels, groups in (
        ("depthwise_nchw", "float32", 1, 24),
        ("depthwise_nhwc", "bfloat16", 1, 24),
        ("few_channels", "float32", 8, 3),
    ):
        x, w = array(2, 24, 9, 11, dtype=dtype), array(24, channels, 3, 3, dtype=dtype)
        if method == "depthwise_nhwc":
            x, w = (a.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2) for a in (x, w))
        how = {**where, "groups": groups}
        if method != "few_channels":
            calls[f"conv2d {method}"] = functools.partial(
                planned, conv_dispatch.conv2d, x, w, **how, version=f"fprop_{method}"
            )
            calls[f"conv2d_input_grad {method}"] = functools.partial(
                planned,
                conv_dispatch.conv2d_input_grad,
                x,
                w,
                size=(9, 11),
                **how,
                version=f"dgrad_{method}",
            )
        calls[f"conv2d_weight_grad {method}"] = functools.partial(
            planned,
            conv_dispatch.conv2d_weight_grad,
            x,
            x,
            kernel=(3, 3),
            **how,
            version=f"wgrad_{method}",
        )
    grad, w, how = (
        array(2, 70, 9, 11),
        array(70, 3, 7, 7),
        {**where, "padding": (3, 3, 3, 3), "stride": (2, 2)},
    )
    calls["conv2d_input_grad few_channels"] = functools.partial(
        planned,
        conv_dispatch.conv2d_input_grad,
        grad,
        w,
        size=(17, 22),
        **how,
        version="dgrad_few_channels",
    )
    calls["conv2d_weight_grad few_channels, one group"] = functools.partial(
        planned,
        conv_dispatch.conv2d_weight_grad,
        grad,
        array(2, 3, 17, 22),
        kernel=(7, 7),
        **how,
        version="wgrad_few_channels",
    )
    grad, w = (
        array(2, 9, 11, 72, dtype="bfloat16").transpose(0, 3, 1, 2),
        array(72, 3, 7, 7, dtype="bfloat16"),
    )
    calls["conv2d_input_grad space_to_depth"] = functools.partial(
        planned,
        conv_dispatch.conv2d_input_grad,
        grad,
        w,
        size=(17, 22),
        **how,
        version="dgrad_space_to_depth",
    )
    x = array(2, 3, 17, 22, dtype="bfloat16")
    calls["conv2d space_to_depth"] = functools.partial(
        planned, conv_dispatch.conv2d, x, w, **how, version="fprop_space_to_depth"
    )
    calls["conv2d_weight_grad space_to_depth"] = functools.partial(
        planned,
        conv_dispatch.conv2d_weight_grad,
        grad,
        x,
        kernel=(7, 7),
        **how,
        version="wgrad_space_to_depth",
    )
    return calls


def attentions() -> Calls:
    """Versions of attention, forward and backward."""
    from cudamath.kernels.attention import dispatch as attention_dispatch

    calls: Calls = {}
    options: dict[str, Any] = {"causal": True, "scale": 0.1, "dropping": False}
    for dtype, version, depth in (
        ("float32", "simt", 64),
        ("bfloat16", "sm80", 64),
        ("bfloat16", "forward_sm90", 64),
        ("bfloat16", "forward_sm90", 128),
        ("bfloat16", "forward_sm90", 256),
        ("bfloat16", "forward_sm90_split", 64),
        ("bfloat16", "forward_sm90_split", 128),
        ("bfloat16", "decode_split_kv", 64),
        ("bfloat16", "decode_split_kv, large", 128),
    ):
        # enough to fill each of its stages again, and for two parts of keys
        rows = {"forward_sm90": 400, "forward_sm90_split": 600}.get(version, 150)
        heads = 1 if "sm90" in version else 2  # of many rows: initcheck takes a minute for two
        q, k = (
            array(1, heads, n, depth, dtype=dtype)
            for n in (3 if "decode" in version else rows, rows)
        )

        def both(q: Any = q, k: Any = k, version: str = version, depth: int = depth) -> None:
            name, _, large = version.partition(",")  # large: as if the cache were
            with mock.patch(
                "cudamath.kernels.attention.decode_split_kv.TMA_BELOW", 1 if large else 1 << 28
            ):
                y, lse = planned(attention_dispatch.attention, q, k, k, **options, version=name)
            if name != "decode_split_kv":
                if name.startswith("forward_sm90"):
                    name = f"backward_sm90{'_large_heads' * (depth > 128)}"
                planned(
                    attention_dispatch.attention_grad, q, q, k, k, y, lse, **options, version=name
                )

        calls[f"attention {version}, {dtype}, {depth}"] = both

    def shared() -> None:
        q, k = (array(1, heads, 200, 64, dtype="bfloat16") for heads in (4, 2))
        y, lse = planned(attention_dispatch.attention, q, k, k, **options, version="forward_sm90")
        operands = (q, q, k, k, y, lse)
        planned(
            attention_dispatch.attention_grad, *operands, **options, version="backward_sm90_split"
        )

    calls["attention backward_sm90_split"] = shared
    return calls


def recurrent_layers() -> Calls:
    """One layer as one kernel, forward and backward."""
    from cudamath.ml import recurrent

    calls: Calls = {}
    for kind, gates in (("lstm", 4), ("gru", 3), ("rnn", 1)):
        x = array(3, 18, 8)
        w = {
            "weight_ih_l0": array(gates * 24, 8),
            "weight_hh_l0": array(gates * 24, 24),
            "bias_ih_l0": array(gates * 24),
            "bias_hh_l0": array(gates * 24),
        }

        def both(kind: str = kind, x: Any = x, w: Any = w) -> None:
            with recurrent.by_version("persistent"):
                cm.grad(lambda x, w: getattr(cm.ml, kind)(x, w)[0].sum(), (0, 1))(x, w)

        calls[f"recurrent layer, {kind}"] = both
    return calls


def packed() -> Calls:
    """Products of groups, and of numbers of 4 and 8 bits."""
    from cudamath.kernels.matmul import grouped

    calls: Calls = {}
    ends = cm.asarray(np.array([40, 40, 170, 200], np.int32))
    for version, dtype in (("tiled", "float32"), ("sm90", "bfloat16")):
        x, w, y = (
            array(200, 136, dtype=dtype),
            array(4, 136, 72, dtype=dtype),
            array(200, 72, dtype=dtype),
        )
        calls[f"grouped_matmul {version}"] = functools.partial(
            planned, grouped.grouped_matmul, x, w, ends, version=version
        )
        calls[f"grouped_outer {version}"] = functools.partial(
            planned, grouped.grouped_outer, x, y, ends, version=version
        )
    weight, one, many = (
        array(136, 256),
        array(1, 256, dtype="bfloat16"),
        array(50, 256, dtype="bfloat16"),
    )
    for form in ("int8", "int4", "float8_e4m3"):
        small = cm.ml.quantize(
            weight, form, axis=None if form == "int4" else 0, group=128 if form == "int4" else None
        )
        calls[f"linear {form}"] = functools.partial(
            lambda small: [cm.ml.linear(x, small) for x in (one, many)], small
        )
        if form != "int4":
            calls[f"linear_quantized {form}"] = functools.partial(
                cm.ml.linear_quantized, many, small
            )
    return calls


def versions() -> Calls:
    """Versions of running sums, sorting, scaled products, turned matrices; planners want more for
    them, or another machine."""
    from cudamath.kernels.elementwise import dispatch as elementwise_dispatch
    from cudamath.kernels.loss import dispatch as loss_dispatch
    from cudamath.kernels.quantize import dispatch as quantize_dispatch
    from cudamath.kernels.scan import dispatch as scan_dispatch
    from cudamath.kernels.shape import dispatch as shape_dispatch
    from cudamath.kernels.sort import dispatch as sort_dispatch

    calls = {
        f"scan ring, {source}": functools.partial(
            planned,
            scan_dispatch.scan,
            array(300, 16_480, dtype=source),
            kind="sum",
            axis=1,
            dtype=np.dtype(target),
            version="ring",
        )
        for source, target in (("float32", "f4"), ("float64", "f8"), ("int32", "i8"))
    }  # a block takes several tiles
    logits, classes = array(16, 50_304, dtype="bfloat16"), cm.zeros(16, dtype="int32")
    a, b, one = (
        array(40, 128, dtype="int8"),
        array(128, 72, dtype="int8"),
        cm.ones(1, dtype="float32"),
    )
    return {
        **calls,
        "join, gathered": functools.partial(
            planned,
            shape_dispatch.concat,
            array(3, 1),
            array(3, 7),
            axis=1,
            sizes=(1, 7),
            version="join_gathered",
        ),
        "linear_loss": functools.partial(
            planned,
            loss_dispatch.linear_loss,
            logits,
            classes,
            cm.ones((), dtype="float32"),
            classes=50_257,
            ignore_index=-100,
        ),
        "sort, radix": functools.partial(
            planned, sort_dispatch.argsort, array(9_000), axis=0, descending=False, version="radix"
        ),
        "sort, in a block": functools.partial(
            planned,
            sort_dispatch.argsort,
            array(3, 1_500),
            axis=1,
            descending=False,
            version="block_radix",
        ),
        "tiled, pairs": functools.partial(
            planned,
            elementwise_dispatch.elementwise,
            array(136, 264, dtype="float16"),
            array(264, 136, dtype="float16").T,
            expression="x + y",
            compute=np.dtype("f4"),
            output=np.dtype("f2"),
            version="tiled_pairs",
        ),
        "vector, ahead": functools.partial(
            planned,
            elementwise_dispatch.elementwise,
            array(9_001, dtype="float16"),
            expression="exp(x)",
            compute=np.dtype("f4"),
            output=np.dtype("f2"),
            version="vector_ahead",
        ),
        "elementwise, broadcast": functools.partial(
            planned,
            elementwise_dispatch.elementwise,
            array(71, 5, 7, dtype="float16"),
            array(5, 1, dtype="float16"),
            expression="x / y",
            compute=np.dtype("f4"),
            output=np.dtype("f2"),
            version="broadcast",
        ),
        "scan, lines": functools.partial(
            planned,
            scan_dispatch.scan,
            array(9_000, 3),
            kind="sum",
            axis=0,
            dtype=np.dtype("f4"),
            version="lines",
        ),
        "scaled_matmul, steps": functools.partial(
            planned,
            quantize_dispatch.scaled_matmul,
            a,
            b,
            one,
            one,
            dtype=np.dtype("f4"),
            version="unfused",
        ),
        "scaled_matmul, odd": functools.partial(
            planned,
            quantize_dispatch.scaled_matmul,
            a[:, :127].astype("float8_e4m3"),
            array(71, 127).astype("float8_e4m3").mT,
            one,
            one,
            dtype=cm.dtype("bfloat16"),
        ),
        "scaled_matmul, sums": functools.partial(
            planned,
            quantize_dispatch.scaled_matmul,
            a.astype("float8_e4m3"),
            b[:, :71].astype("float8_e4m3"),
            one,
            one,
            dtype=cm.dtype("bfloat16"),
            version="sm90_sums",
        ),
    }


def sums_of_chosen_rows() -> Any:
    """What a program makes of sums by one index over rows that another index chose."""
    index, rows = (cm.asarray(np.random.default_rng(k).integers(0, 40, 500)) for k in range(2))
    keys, order = registry["index_add (places)"](index, rows=40)
    sources = registry["index_add (sources)"](rows, order, rows=40)
    return [
        registry["index_add (chosen sums)"](array(40, 16), keys, sources, *weights, shape=(40, 16))
        for weights in ((), (array(500),))
    ]


def families() -> Calls:
    """One call of every other family, through the public functions."""
    x, small, i = (
        array(70, 300),
        array(5, 7),
        cm.asarray(np.random.default_rng(1).integers(0, 70, 50)),
    )
    images, square = array(2, 8, 10, 12), array(2, 8, 16, 16)
    tall, places = array(300, 64), cm.asarray(np.random.default_rng(2).integers(0, 64, (300, 32)))
    return {
        "elementwise": lambda: cm.exp(x) + x[:, ::-1],
        "small": lambda: cm.arange(30)[::2] * x[0, :15] + x[:2, :15].T[:, 0],
        "reduce": lambda: (x.sum(), x.sum(0), x.mean(1), x.max()),
        "scan": lambda: (
            cm.cumulative_sum(x, axis=1),
            cm.cumulative_sum(x, axis=0),
            cm.cumulative_sum(array(40_000), axis=0),
        ),
        "sort": lambda: (cm.sort(x, axis=1), cm.argsort(x.reshape(-1))),
        "search": lambda: (
            cm.searchsorted(cm.sort(x[0]), x[1]),
            cm.searchsorted(cm.sort(x[0] + 1j), x[1] + 1j),
        ),
        "index": lambda: (
            x[i],
            cm.take(x, i, axis=0),
            cm.nonzero(x),
            cm.take_along_axis(tall, places, axis=1),
            cm.add_at(x.copy(), i, x[:50]),
            cm.add_at(array(3, 70), cm.zeros(3000, dtype="int64"), array(70)),
        ),
        "sums of chosen rows": sums_of_chosen_rows,
        "ranks": lambda: (
            cm.sort(x.reshape(-1)[:3000]),
            cm.topk(x[:20], 5),
            cm.median(x, axis=1),
            cm.median(x[:, :7], axis=1),
            cm.nanmedian(x, axis=1),
            cm.median(array(3, 12_000), axis=1),
        ),
        "masks": lambda: (x[x > 0], cm.argwhere(x > 0), cm.nonzero(x[0]), cm.unique(i)),
        "copy": lambda: cm.concat([x.mT.copy(), x.mT]),
        "copy of rows": lambda: array(300, 501)[::-1, 1:].copy(),
        "repeated rows": lambda: cm.repeat(array(300, 501), 3, axis=0),
        "runs": lambda: cm.repeat(array(29, 41), 3, axis=1),
        "random": lambda: (cm.random.normal(size=1000), cm.random.permutation(500)),
        "histogram": lambda: cm.histogram(x),
        "softmax": lambda: (cm.ml.softmax(x), cm.ml.softmax(x, axis=0)),
        "pad": lambda: (cm.pad(x, 3), cm.pad(array(7, 5, 3, 2), 1)),
        "softmax, segments": lambda: cm.grad(lambda v: (cm.ml.softmax(v, axis=0) * v).sum())(
            array(2000, 7)
        ),
        "layer_norm": lambda: cm.grad(lambda v: cm.ml.layer_norm(v, 300).sum())(x),
        "cross_entropy": lambda: [
            cm.ml.cross_entropy(
                v, cm.asarray([1, 2, 3, 4, 5] * 40)[: len(v)], weight=w, reduction=r
            )
            for v in (small, x)
            for w in (None, v[0])
            for r in ("mean", "none")
        ],
        "max_pool2d, pairs": lambda: cm.grad(lambda v: (cm.ml.max_pool2d(v, 3, 2, 1) ** 2).sum())(
            array(2, 3, 15, 32, dtype="bfloat16")
        ),
        "max_pool2d": lambda: (
            cm.grad(lambda v: cm.ml.max_pool2d(v, 2).sum())(images),
            cm.grad(lambda v: (cm.ml.max_pool2d(v, 3, 2, 1) ** 2).sum())(square),
        ),
        "batch_norm": lambda: cm.ml.batch_norm(images, None, None, training=True),
        "embedding": lambda: cm.ml.embedding(i, x),
        "fft": lambda: cm.fft.fft(x),
        "einsum": lambda: cm.einsum("ij,kj->ik", x, x),
        "det": lambda: cm.linalg.det(x[:70, :70]),
    }


def large() -> Calls:
    """What families do where arrays are longer."""
    rng = np.random.default_rng(3)
    long, rows, images = array(200_000), array(3, 30_000), array(2, 3, 20, 32)
    places, classes = (
        cm.asarray(rng.integers(0, 5_000, 20_000)),
        cm.asarray(rng.integers(0, 30_000, 3)),
    )
    table, weights = array(5_000, 24), {"a": array(300, 7), "b": array(1_001)}

    def assigned() -> None:
        y, z = table.copy(), long.copy()
        y[places[:900]], y[places[:9]] = 1.0, table[:9]
        z[places] = long[:20_000]

    def step() -> None:
        state = cm.ml.adam_init(weights)
        cm.ml.clip_grad_norm(weights, 1.0)
        cm.ml.adamw_update(weights, weights, state)

    eights = array(77, 1032, dtype="bfloat16")
    return {
        "sort, long": lambda: (
            cm.sort(long),
            cm.argsort(long),
            cm.unique(places),
            cm.topk(long, 9),
            cm.partition(long, 70),
        ),
        "masks, long": lambda: (
            long[long > 0],
            cm.flatnonzero(long > 0),
            cm.nonzero(rows),
            cm.unique(long),
        ),
        "reduce, long": lambda: (
            long.sum(),
            long.max(),
            long.argmax(),
            cm.median(long),
            rows.var(1),
            rows.argmin(1),
        ),
        "reduce, eights": lambda: [
            f(eights, axis=1) for f in (cm.argmax, cm.argmin, cm.var, cm.std)
        ],
        "scan, long": lambda: (
            cm.cumsum(long),
            cm.cumsum(array(100_001)),
            cm.cumprod(rows, axis=1),
        ),
        "scan, columns": lambda: (
            cm.cumsum(array(300, 70, 30), axis=1),
            cm.cumsum(array(30, 7, 11), axis=1),
            cm.cumsum(array(600, 70, 64), axis=1),
        ),
        "assignment": assigned,
        "bincount, weighted": lambda: cm.bincount(places, weights=long[:20_000]),
        "histogram, long": lambda: cm.histogram(long, 50),
        "softmax, long": lambda: cm.grad(lambda v: (cm.ml.softmax(v) * v).sum())(rows),
        "softmax, clusters": lambda: cm.ml.softmax(array(40, 33_001)),
        "group_norm, clusters": lambda: cm.grad(lambda v: (cm.ml.group_norm(v, 2) ** 2).sum())(
            array(5, 8, 60, 80)
        ),
        "group_norm, long": lambda: cm.grad(lambda v: (cm.ml.group_norm(v, 1) ** 2).sum())(
            array(2, 8, 160, 120)
        ),
        "norms, long": lambda: cm.grad(
            lambda v: (cm.ml.layer_norm(v, 30_000) * cm.ml.rms_norm(v, 30_000)).sum()
        )(rows),
        "norms, shifted": lambda: [
            cm.grad(lambda v: (cm.ml.layer_norm(v, 3001) * cm.ml.rms_norm(v, 3001)).sum())(
                array(7, 3001, dtype=dtype)
            )
            for dtype in ("bfloat16", "float32")
        ],
        "norms, shifted, long": lambda: [
            cm.grad(lambda v: (cm.ml.layer_norm(v, 9001) * cm.ml.rms_norm(v, 9001)).sum())(
                array(7, 9001, dtype=dtype)
            )
            for dtype in ("bfloat16", "float32")
        ],
        "norms, ring": lambda: cm.grad(lambda v: cm.ml.layer_norm(v, 1024).sum())(
            array(300, 1024, dtype="bfloat16")
        ),
        "cross_entropy, long": lambda: cm.grad(lambda v: cm.ml.cross_entropy(v, classes))(rows),
        "embedding, repeated": lambda: cm.grad(lambda t: (cm.ml.embedding(places, t) ** 2).sum())(
            table
        ),
        "embedding, long rows": lambda: [
            cm.grad(lambda t, n=n: cm.ml.embedding(places % n, t).sum())(
                long[:128_000].reshape(1_000, 128)
            )
            for n in (1_000, 50)
        ],
        "embedding, claimed slots": lambda: cm.grad(
            lambda t: cm.ml.embedding(np.r_[:900, [901] * 100, [7] * 2_500], t).sum()
        )(array(2_050, 1_024)),
        "upsample": lambda: [
            cm.grad(lambda v, mode=mode: (cm.ml.upsample(v, scale_factor=2, mode=mode) ** 2).sum())(
                images
            )
            for mode in ("nearest", "bilinear")
        ],
        "optimizer": step,
    }


def more() -> Calls:
    """What the calls above leave out: one call, or a few, for the kernels of each file."""

    rng, F = np.random.default_rng(4), cm.ml
    x, line, wide = array(40, 70), array(70), array(40, 128)
    i, j, many, keys = (cm.asarray(rng.integers(0, 40, n)) for n in (30, 30, 5_000, (40, 70)))
    square, images = (
        array(2, 3, 3) + 9 * cm.eye(3, dtype="float32"),
        array(2, 3, 32, 32, dtype="bfloat16"),
    )
    waves, matrix = (
        x + 1j * x,
        array(2, 2) + 9 * cm.eye(2, dtype="float32"),
    )  # small: libraries' kernels are checked as well
    q, cache = array(2, 8, 1, 64, dtype="bfloat16"), array(2, 2, 4096, 64, dtype="bfloat16")

    def assigned() -> None:
        y, z = x.copy(), array(600, 70)
        y[i, j], y[i], y[1:, ::3], y[0, ::3] = 1.0, line, 2.0, 3.0
        y[i, j] = line[:30]
        z[i, j] = 3.0
        for limits in (
            {"BIDDERS": 1_000},
            {"BIDS": 0, "MANY": 1_000, "CACHE": 1_000},
        ):  # as of many more numbers
            with mock.patch.multiple("cudamath.kernels.index.dispatch", **limits):
                array(19_000 + len(limits))[many] = array(5_000)
        cm.put_along_axis(y, cm.asarray(rng.integers(0, 70, (40, 3))), line[:3], 1)
        cm.put_along_axis(y, cm.asarray(rng.integers(0, 40, (2, 70))), 1.0, 0)

    def solved(a: cm.ndarray, solver: Callable) -> None:
        solver(a), solver(a.mT)

    la = cm.linalg
    solvers = {
        "inv": la.inv,
        "slogdet": la.slogdet,
        "cholesky": lambda a: la.cholesky(a @ a.mT, upper=True),
        "eigh": la.eigh,
        "qr": lambda a: la.qr(a, mode="complete"),
        "solve": lambda a: la.solve(a, a),
        "lu": la.lu,
        "lu_solve": lambda a: la.lu_solve(la.lu_factor(a), a),
        "solve_triangular": lambda a: la.solve_triangular(cm.triu(a), a),
        "eig": la.eig,
    }

    def normalised() -> None:
        for v in (array(32, 14, 14, 64).transpose(0, 3, 1, 2), array(600, 30)):
            for plain in (True, False):
                w = array(v.shape[1])
                cm.grad(
                    lambda v, w, plain=plain: (
                        F.batch_norm(
                            v,
                            None,
                            None,
                            w,
                            w,
                            training=True,
                            activation=(None if plain else "relu"),
                        )[0]
                        ** 2
                    ).sum(),
                    (0, 1),
                )(v, w)
        long, scale = array(3, 20_000, dtype="float64"), array(20_000, dtype="float64")
        cm.grad(
            lambda v, w: (F.softmax(v) ** 2).sum() + (F.layer_norm(v, 20_000, w, w) ** 2).sum(),
            (0, 1),
        )(long, scale)

    def limited() -> None:
        n = cm.asarray(np.array([300, 70], np.int32))
        attend = functools.partial(
            F.scaled_dot_product_attention, causal=True, query_lengths=n, key_lengths=n
        )
        for depth in (128, 256):
            q = array(2, 4, 400, depth, dtype="bfloat16")
            cm.grad(lambda q, k: attend(q, k, k).sum(), (0, 1))(q, q[:, :2])

    def chosen() -> None:
        generator = cm.random.default_rng(5)
        generator.choice(10, 50, p=np.full(10, 0.1)), generator.choice(10, 50, p=cm.full(10, 0.1))
        generator.permutation(100_000), generator.geometric(0.3, 50)
        (
            generator.bernoulli(cm.clip(array(70, 300), 0, 1)),
            generator.bernoulli(cm.clip(array(5_001), 0, 1)[1:]),
        )

    return {
        "norms, columns": normalised,
        "selection": lambda: [
            cm.partition(array(n, dtype="bfloat16"), 9) for n in (2_000, 8_000, 1 << 20)
        ],
        "losses": lambda: (
            F.mse_loss(array(100, 1000), array(100, 1000)),
            F.nll_loss(x, i[:1].repeat(40)),
        ),
        "decode, merged": lambda: F.scaled_dot_product_attention(q, cache, cache, causal=True),
        "attention with lengths": limited,
        "assignment, pairs": assigned,
        "choices": chosen,
        **{
            f"{name}, {a.ndim}-d": functools.partial(solved, a, solver)
            for name, solver in solvers.items()
            for a in (square, matrix)
        },
        "solve_triangular, large": lambda: la.solve_triangular(
            cm.triu(array(300, 300)), array(300, 9)
        ),
        "norm of order 3": lambda: la.vector_norm(array(300, 30), ord=3, axis=0),
        "lu of rectangles": lambda: la.lu(square[:, :2]),
        "lu_solve, large": lambda: la.lu_solve(la.lu_factor(array(300, 300)), array(300, 9)),
        # each in a case of its own: racecheck follows every access to shared memory, of which there
        # are n^3 a sweep
        "svd": lambda: la.svd(array(20, 17)),
        "svd of rank 1": lambda: la.svd(cm.ones((12, 5))),
        "eigvalsh": lambda: la.eigvalsh(array(3, 9, 9), "U"),
        "complex eigh": lambda: la.eigh(array(2, 5, 5) + 1j),
        "eigh, large": lambda: la.eigh(array(140, 140)),
        "qr of many": lambda: (
            la.qr(array(200, 260, 3)),
            la.qr(array(9, 5), mode="r"),
            la.qr(array(70, 9), mode="complete"),
        ),
        "svd by products": lambda: (
            la.svd(array(70, 66)),
            la.svdvals(array(66, 70)),
            la.eig(array(66, 66)),
            la.svd(array(112, 110, dtype="float64")),
        ),
        "svdvals": lambda: la.svdvals(array(3, 9, 8)),
        "pinv": lambda: la.pinv(array(5, 9)),
        "complex svd": lambda: la.svd(square[:, :2, :2] + 1j),
        "cross": lambda: la.cross(array(7, 3), array(7, 3)),
        "gathers": lambda: (
            array(40, 333)[i],
            x[i, j],
            wide[i],
            array(40, 8)[i],
            array(40, 40, 40)[i, j, i],
            cm.grad(lambda v: (cm.take_along_axis(v, keys, axis=1) ** 2).sum())(x),
        ),
        "band, grids": lambda: (
            cm.eye(5),
            cm.eye(64),
            cm.tril(x),
            cm.tril_indices(50),
            cm.kaiser(50, 5.0),
            cm.hanning(50),
            cm.logspace(0, 1, 50),
            cm.full((7, 9), 1.0),
            cm.frexp(line),
            cm.fft.fftfreq(9),
            cm.linalg.hadamard(64),
            cm.linalg.helmert(50),
            cm.linalg.dft(50),
            cm.linalg.fiedler_companion(line),
            cm.linalg.leslie(line, line[1:]),
        ),
        "transforms": lambda: (
            cm.fft.ifft(waves),
            cm.fft.fft2(x),
            cm.fft.fft(x, axis=0),
            cm.fft.hfft(waves),
            cm.fft.irfft2(waves),
            *[cm.fft.dct(x, kind) for kind in (1, 2, 3, 4)],
            *[cm.fft.dst(x, kind, axis=0) for kind in (1, 2, 3, 4)],
            cm.fft.dctn(x),
            cm.fft.idstn(x),
        ),
        "weighted means": lambda: (
            cm.average(x, weights=x * x),
            cm.average(x, 0, x * x),
            cm.average(x + 1j, 1, x * x),
        ),
        "bins, quantiles": lambda: (
            cm.histogram(x, 9_000, range=(-3, 3)),
            cm.nanquantile(x, 0.3, axis=1),
            cm.isin(many, many),
        ),
        "8 bits": lambda: (
            F.linear(
                wide.astype("float16")[:16], F.quantize(array(256, 128), "float8_e4m3", axis=0)
            ),
            F.quantize(x.astype("bfloat16"), "int8"),
            F.quantize(wide, "int8", symmetric=False),
            F.scaled_matmul(
                wide.astype("int8"), wide.mT.astype("int8"), cm.ones((), "float32"), line[:40]
            ),
        ),
        "pad, rotary": lambda: [
            cm.grad(f)(array(2, 3, 9, 20))
            for f in (
                lambda v: (F.pad(v, 1, "reflect") ** 2).sum(),
                lambda v: F.rotary_embedding(v, array(9, 8), array(9, 8)).sum(),
            )
        ],
        "max_pool2d, twice": lambda: cm.grad(
            lambda v: (cm.grad(lambda u: (F.max_pool2d(u, 2) ** 2).sum())(v) ** 2).sum()
        )(array(2, 3, 8, 8)),
        "few channels, 16 bits": lambda: [
            cm.grad(lambda u, v, s=s: F.conv2d(u, v, stride=s).sum(), (0, 1))(
                images, array(32, 3, n, n, dtype="bfloat16")
            )
            for n, s in ((3, 1), (7, 2))
        ],
        "probabilities": lambda: [
            cm.grad(lambda v, s=s: F.cross_entropy(v, F.softmax(array(*s), axis=1)))(array(*s))
            for s in ((4, 5, 6), (50, 10))
        ],
    }


def left_to_others() -> Calls:
    """The versions that planners leave to other machines or to odd shapes: of the plans that the
    tests compile, the first with the same kernels for dtypes of the same widths, where small.
    Arrays hold zeros, what is but one number is 1."""
    from compile_calls import by_name

    from cudamath.core.dispatch.arguments import Scalar

    def bound(plan: Any, inputs: Any) -> None:
        values = [a for step in plan.steps for a in step.args if isinstance(a, Scalar)]
        count = 1 + max((a.index for a in values), default=-1)
        plan.bind("clip_factor", inputs, count)(  # what it complains of is a FloatingPointError
            *[(cm.zeros if x.ndim else cm.ones)(x.shape, dtype=x.dtype) for x in inputs],
            *[5_000] * count,
        )
        with contextlib.suppress(FloatingPointError):  # a kernel found that its zeros are singular
            cm.cuda.synchronize()

    calls: Calls = {}
    for plan, inputs in by_name():
        kernels = ", ".join(
            step.kernel.py_func.__name__ for step in plan.steps if hasattr(step, "kernel")
        )
        if not kernels:  # calls of libraries alone
            continue
        if all(x.size <= LARGEST and x.contiguous for x in inputs) and all(
            y.size <= LARGEST for y in plan.outputs
        ):
            widths = "/".join(str(8 * x.itemsize) for x in inputs)
            calls.setdefault(
                f"{kernels} by name, {widths} bits", functools.partial(bound, plan, inputs)
            )
    return calls


def functions() -> Calls:
    """Every function of the tests' records with its gradient, in float32."""
    single, calls = np.dtype(np.float32), dict[str, Callable[[], Any]]()
    for row in [*ELEMENTWISE, *ROWS]:
        if row in ELEMENTWISE:
            if "f" not in row.kinds:
                continue
            arrays = [
                numbers(np.random.default_rng(0), (40, 9), single, row.low, row.high)
                for _ in range(row.inputs)
            ]
            which, run = [i for i, has in enumerate(row.grad) if has], row.function
        else:
            arrays, run = row.arrays(single), functools.partial(row.run, cm)
            which = (
                [i for i, a in enumerate(row.inputs) if isinstance(a, Array) and not a.constant]
                if row.grad
                else []
            )

        def both(run: Any = run, arrays: Any = arrays, which: Any = which) -> None:
            run(*map(cm.asarray, arrays))
            if which:
                gradients(run, arrays, which, str(cm.default_device()))

        name = f"{row.name} and gradient" if which else row.name
        calls[name if name not in calls else f"{name}, again {len(calls)}"] = both
    return calls


def sparse_pairs() -> Calls:
    """Two sparse arrays, with rows that meet few, some and many elements."""
    rng = np.random.default_rng(0)
    lengths = np.resize([1, 0, 5, 40, 90, 2], 100)
    columns = [np.sort(rng.choice(100, n, replace=False)) for n in lengths]
    indices = np.concatenate(columns).astype(np.int32)
    indptr = np.cumsum([0, *lengths]).astype(np.int32)

    def matrix(rows: int) -> Any:
        parts = array(int(indptr[rows])), indices[: indptr[rows]], indptr[: rows + 1]
        return cm.sparse.csr_array(parts, shape=(rows, 100))

    return {
        "sums of sparse arrays": lambda: (matrix(100) + matrix(100).T, matrix(9) < matrix(9)),
        "products of sparse arrays": lambda: (
            matrix(100) * matrix(100),
            matrix(100) @ matrix(100),
            matrix(3) @ matrix(100),
            matrix(2) @ cm.sparse.eye_array(100, format="csr"),
        ),
    }


def cases() -> Calls:
    """Everything that is checked."""
    return {
        **products(),
        **convolutions(),
        **attentions(),
        **recurrent_layers(),
        **packed(),
        **versions(),
        **families(),
        **large(),
        **more(),
        **left_to_others(),
        **sparse_pairs(),
        **functions(),
    }
