"""Calls and plans that reach every kernel of the package: what test_compile.py compiles."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import compile_quantized
import numpy as np
from compile_ordering import ordering
from records import ELEMENTWISE, ROWS, Array, Elementwise, Row
from strategies import BF16, FLOATS, of_kinds

import cudamath as cm
from cudamath.core.dispatch import plan as plans
from cudamath.core.dispatch.op import registry
from cudamath.core.dtypes import compute_dtype
from cudamath.core.layout import Layout
from cudamath.core.specs.optimizer import Form
from cudamath.ml import recurrent
from cudamath.runtime import device

F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
#: One dtype of each way to compute: the others differ in the width of their loads and stores.
SAMPLE = [np.dtype(t) for t in ("?", "i4", "u1", "f2", "f4", "f8", "c8")]
#: Functions whose expressions are compiled for every dtype; the others for one of each way to
#: compute.
THOROUGH = ("add", "exp", "floor_divide", "less")
WAYS = {
    "b": np.dtype(bool),
    "i": np.dtype(np.int32),
    "u": np.dtype(np.uint8),
    "f": F32,
    "c": np.dtype(np.complex64),
}


def gradients(row: Row, dtype: np.dtype) -> None:
    """Forward and gradient of a row of the records."""
    arrays = [cm.asarray(a) for a in row.arrays(dtype)]
    which = [i for i, a in enumerate(row.inputs) if isinstance(a, Array)]

    def value(*xs: cm.ndarray) -> Any:
        full = list(arrays)
        for i, x in zip(which, xs, strict=True):
            full[i] = x
        out = row.run(cm, *full)
        return sum(
            cm.real((y * 1).sum()) for y in (out if isinstance(out, (tuple, list)) else [out])
        )

    if row.grad:
        cm.grad(value, tuple(range(len(which))))(*[arrays[i] for i in which])
    else:
        row.run(cm, *arrays)


def second_order(row: Row) -> None:
    """The gradient of a gradient, where cards have kernels for it."""
    (x,) = [cm.asarray(a) for a in row.arrays(F32)]
    cm.grad(lambda x: (cm.grad(lambda x: row.run(cm, x).sum())(x) ** 2).sum())(x)


def made(shape: Any, dtype: Any = F32) -> cm.ndarray:
    return cm.empty(shape, dtype)


def function_of(row: Elementwise, dtype: np.dtype) -> None:
    """Contiguous arrays of float32, where `vector` repeats the expression for each element of an
    access; else strided ones, for which `plain` states it once."""
    row.function(*[made(64, dtype) if dtype == F32 else made(128, dtype)[::2]] * row.inputs)


def ways(row: Elementwise) -> str:
    """The kinds of dtypes in which an expression differs: where there is a float one, bool and
    unsigned compute in it or like signed integers."""
    kinds = row.kinds
    return kinds.replace("b", "").replace("u", "") if "f" in kinds else kinds


def layers(f: np.dtype) -> None:
    """Shapes beyond those of the records: long rows, many rows, channels last, wide
    convolutions."""
    ml = cm.ml
    for shape, axis in (
        ((64, 1000), 1),
        ((3, 70_000), 1),
        ((3, 50_000), 1),
        ((70, 33, 5), 1),
        ((64, 4096), 1),
    ):
        for function in (ml.softmax, ml.log_softmax):
            cm.grad(lambda x, fn=function, axis=axis: fn(x, axis).sum())(made(shape, f))
    for columns in (768, 1000, 4096, 5001, 40_000):
        w, b = made(columns, f), made(columns, f)
        cm.grad(lambda x, w, b, n=columns: ml.layer_norm(x, n, w, b).sum(), (0, 1, 2))(
            made((50, columns), f), w, b
        )
        cm.grad(lambda x, w, n=columns: ml.rms_norm(x, n, w).sum(), (0, 1))(
            made((50, columns), f), w
        )
    if f == F32:
        w = {"weight_ih_l0": made((72, 8)), "weight_hh_l0": made((72, 24))}
        with recurrent.by_version("persistent"):
            cm.grad(lambda x, w: ml.gru(x, w)[0].sum(), (0, 1))(made((3, 18, 8)), w)
    if f.itemsize == 2:
        w = made(768)
        cm.grad(lambda x, w: ml.layer_norm(x, 768, w).sum(), (0, 1))(made((50, 768), f), w)
        x = made((50, 768), f)
        cm.grad(lambda x, r: sum(v.sum() for v in ml.layer_norm(x, 768, residual=r)), (0, 1))(x, x)
    for x in (
        made((32, 64, 14, 14), f),
        cm.moveaxis(made((32, 14, 14, 64), f), -1, 1),
        made((100, 30), f),
    ):
        w, b = made(x.shape[1], f), made(x.shape[1], f)
        cm.grad(
            lambda x, w, b: ml.batch_norm(x, None, None, w, b, training=True)[0].sum(), (0, 1, 2)
        )(x, w, b)
        ml.batch_norm(x, w, b)
        for more in ({}, {"residual": cm.copy(x)}):

            def used(x, w, b, times, more=more):
                y = ml.batch_norm(x, None, None, w, b, training=True, activation="relu", **more)[0]
                return y.sum() if times == 1 else (y * y).sum()

            for times in (1, 2):
                cm.grad(used, (0, 1, 2))(x, w, b, times)
            ml.batch_norm(x, w, b, activation="relu", **more)
    if f == F64:
        return
    for shape, kernel, options in (
        ((8, 64, 14, 14), (128, 64, 3, 3), {"padding": 1}),
        ((8, 3, 32, 32), (32, 3, 3, 3), {}),
        ((8, 3, 32, 32), (32, 3, 7, 7), {"stride": 2, "padding": 3}),
        ((4, 32, 9, 9), (32, 1, 3, 3), {"groups": 32}),
        ((64, 16, 28, 28), (8, 16, 5, 5), {}),
        ((8, 64, 14, 14), (64, 64, 1, 1), {"stride": 2}),
    ):
        x, w = made(shape, f), made(kernel, f)
        cm.grad(lambda x, w, o=options: ml.conv2d(x, w, **o).sum(), (0, 1))(x, w)
    for classes, count in ((50_257, 16), (50_304, 16), (10, 5000)):
        targets = cm.zeros(count, "int32")
        cm.grad(lambda x, t=targets: ml.cross_entropy(x, t))(made((count, classes), f))
        cm.grad(lambda x, t=targets: ml.nll_loss(x, t))(made((count, classes), f))
        cm.grad(lambda x, t=targets, n=classes: ml.linear_cross_entropy(x, made((n, 16), f), t))(
            made((count, 16), f)
        )
        ml.linear_cross_entropy(made((count, 16), f), made((classes, 16), f), targets)
    for reduction, smoothing, weight in (
        ("mean", 0.1, None),
        ("mean", 0.0, made(10, f)),
        ("none", 0.0, made(10, f)),
    ):
        for count in (64, 5000):  # in one launch, and in several
            ml.cross_entropy(
                made((count, 10), f),
                cm.zeros(count, "int64"),
                reduction=reduction,
                weight=weight,
                label_smoothing=smoothing,
            )
    cm.grad(lambda x: ml.cross_entropy(x, cm.zeros((4, 6), "int64")))(made((4, 5, 6), f))
    ml.cross_entropy(made((4, 5, 6), f), cm.zeros((4, 6), "int64"), weight=made(5, f))
    for shape in ((16, 50_257), (5000, 10), (64, 4096), (4, 5, 6)):
        cm.grad(lambda x, s=shape: ml.cross_entropy(x, made(s, f)))(made(shape, f))
    for pair in (made((100, 1000), f), made((100, 1000), f)), (made((33, 7), f), made((33, 7), f)):
        cm.grad(lambda x, t: ml.mse_loss(x, t), (0, 1))(*pair)
        cm.grad(lambda x, t: ml.bce_with_logits(x, t, reduction="none").sum(), (0, 1))(*pair)
    x = made((2, 3, 8, 8), f)
    cm.grad(lambda x: (cm.grad(lambda x: (ml.max_pool2d(x, 2) ** 2).sum())(x) ** 2).sum())(x)
    for x in (made((2, 8, 16, 16), f), cm.moveaxis(made((2, 16, 16, 8), f), -1, 1)):
        cm.grad(
            lambda x: (
                (ml.max_pool2d(x, 3, 2, 1) ** 2).sum() + (ml.avg_pool2d(x, 3, 2, 1) ** 2).sum()
            )
        )(x)
        cm.grad(lambda x: ml.max_pool2d(x, 3, 2, 1).sum())(x)
        cm.grad(lambda x: ml.max_pool2d(x, 3, 2, 1, return_indices=True)[0].sum())(x)
    ml.max_pool2d(x, 2)
    volumes = made((2, 3, 4, 6, 6), f)
    ml.adaptive_avg_pool3d(volumes, 2), ml.adaptive_max_pool2d(made((2, 3, 7, 5), f), 3)
    (
        ml.max_pool3d(volumes, 3, 2, 1),
        ml.avg_pool3d(volumes, 2),
        ml.avg_pool3d(volumes, 3, 2, 1, count_include_pad=False),
    )
    for x in (made((2, 8, 16, 16), f), cm.moveaxis(made((2, 16, 16, 8), f), -1, 1)):
        for mode in ("nearest", "bilinear"):
            for size in ((24, 32), (32, 32)):
                cm.grad(lambda x, mode=mode, size=size: ml.upsample(x, size, mode=mode).sum())(x)
        cm.grad(lambda x: (ml.pad(x, 1, "reflect") ** 2).sum())(x)
    cm.grad(lambda x: ml.dropout(x, 0.3, rng=cm.random.default_rng(1)).sum())(made((100, 33), f))
    cm.grad(lambda w: ml.embedding(cm.zeros(5000, "int64"), w).sum())(made((1000, 64), f))
    cm.grad(lambda w: ml.embedding(cm.zeros(2000, "int64"), w).sum())(
        made((4200, 1024), f)
    )  # by claimed slots
    cm.grad(lambda x: ml.rotary_embedding(x, made((9, 8)), made((9, 8))).sum())(
        made((2, 3, 9, 20), f)
    )
    if f.itemsize == 2:
        attend = functools.partial(ml.scaled_dot_product_attention, causal=True)
        cm.grad(lambda q, k: attend(q, k, k).sum(), (0, 1))(
            made((2, 8, 300, 128), f), made((2, 2, 500, 128), f)
        )
        lengths = {"query_lengths": cm.zeros(2, "int32"), "key_lengths": cm.zeros(2, "int32")}
        for depth in (128, 256):
            cm.grad(lambda q: attend(q, q, q, **lengths).sum())(made((2, 8, 300, depth), f))
        attend(
            made((2, 8, 1, 64), f),
            *[made((2, 2, 4096, 64), f)] * 2,
            key_lengths=cm.zeros(2, "int32"),
        )
        cm.grad(lambda q: attend(q, q, q, mask=made((300, 300), "?")).sum())(
            made((2, 8, 300, 64), f)
        )
        attend(
            made((2, 8, 300, 64), f), *[made((2, 8, 301, 64), f)] * 2, mask=made((300, 301), "?")
        )  # pairs do not fit
        cm.grad(lambda x: ml.self_attention(x, 8).sum())(made((2, 300, 3 * 8 * 64), f))


def optimizers(f: np.dtype) -> None:
    """Updates of a tree of parameters, odd sizes among them."""
    params = {"a": made((100, 33), f), "b": made(7, f)}
    cm.ml.sgd_update(params, params, lr=0.1)
    for nesterov in (False, True):
        cm.ml.sgd_update(
            params, params, cm.ml.sgd_init(params), lr=0.1, momentum=0.9, nesterov=nesterov
        )
    cm.ml.adam_update(params, params, cm.ml.adam_init(params))
    cm.ml.adamw_update(params, params, cm.ml.adam_init(params))
    cm.ml.rmsprop_update(params, params)
    cm.ml.lion_update(params, params)
    cm.ml.clip_grad_norm(params, 1.0)
    cm.ml.clip_factor(params, 1.0)
    cm.ml.amp.unscale(params, cm.ml.amp.loss_scale())


def arrays(t: np.dtype) -> None:
    """Copies, fills, assignments, gathers and scatters of one dtype, contiguous and strided."""
    x, line = made((40, 70), t), made(70, t)
    index = cm.asarray(np.arange(5))
    mask = made((40, 70), "?")
    x.copy(), x.T.copy(), cm.concat([x.T, x.reshape(70, 40)])
    x[::2, 1:].copy(), x[:, ::-1].copy(), cm.concat([x, x.T.reshape(40, 70)]), cm.pad(x, 1)
    cm.pad(made((2, 3, 2, 2, 2), t), 1)
    made((300, 500), t).T.copy(), made((300, 501), t)[::-1].copy()
    made((6, 7, 5, 801), t)[::-1, :, ::-1, 1:].copy(), made((6, 99, 801), t)[:, ::-1, 1:].copy()
    for shape in ((2, 3, 9, 9), (4, 64, 58, 58)):
        windows = cm.lib.stride_tricks.sliding_window_view(made(shape, t), (3, 3), axis=(2, 3))
        cm.ascontiguousarray(windows.transpose(1, 4, 5, 0, 2, 3))
    x[:], x[1:, ::3], x[0], line[::2] = line, 1, line, 1
    x[index], wide = line, made((300, 500), t)
    wide[cm.asarray(np.arange(300))] = wide[0].copy()
    if t == F32:
        made(1 << 23, t)[made(1 << 19, "int64")] = made(1 << 19, t)
        made(1 << 18, t)[made(1 << 17, "int64")] = made(1 << 17, t)
        cm.roll(made(1 << 21, t), 5)
    x[index, index] = line[:5]
    x[index, index]
    x[index, index] = 1
    made((5, 6, 7), t)[index, index, index]
    x[mask], x[index] = 1, 1
    if t.kind in "fc":
        cm.gradient(x), cm.gradient(x, 2, axis=0, edge_order=2)
    x[mask] = x[0, 0]
    x[mask]
    cm.where(mask, x, line), cm.where(mask, x, 1)
    cm.take(x, index, axis=1), cm.take(made((40, 131), t), index, axis=0)
    cm.take_along_axis(x, cm.zeros((40, 3), "int32"), axis=1)
    cm.take_along_axis(wide, cm.zeros((300, 128), "int32"), axis=1)
    (
        cm.put_along_axis(x, cm.zeros((40, 3), "int32"), 1, 1),
        cm.put_along_axis(x, cm.zeros((2, 70), "int64"), line, 0),
    )
    cm.put(x, index, line)
    cm.tile(x, (2, 3)), cm.repeat(x, 2, axis=0), cm.stack([x, x])
    cm.repeat(cm.ones((4096, 512)), 2, axis=0), cm.repeat(cm.ones((40, 5), "uint8"), 3, axis=1)
    (
        cm.roll(x, 3, axis=1),
        cm.roll(x, (3, 2), (0, 1)),
        cm.roll(made((4, 5, 6, 8), t), (1, 2, 4), (1, 2, 3)),
    )
    cm.full((7, 9), 1, t), cm.tril(x), cm.diag(line), cm.eye(5, dtype=t), cm.eye(64, dtype=t)
    for other in SAMPLE:
        x.astype(other)
    if t.kind != "b":
        cm.add_at(x, index, line), cm.add_at(x, cm.zeros(2000, "int64"), line)
        cm.index_add(x, index, line, axis=0)
        cm.add_at(made((7, 300), t), cm.zeros(2000, "int64"), made(300, t))  # slices of many
        if t in (F16, F32):
            table, many = made((3000, 512), t), cm.zeros(2000, "int64")
            (
                cm.index_add(table, many, made(512, t), axis=0),
                cm.ml.embedding(many, table),
                table[many],
            )
            starts = cm.zeros(31, "int64")
            registry["row_extremes"](made(90, t), starts, largest=True, skips=False)
            places, values = cm.zeros(90, "int32"), made(90, t)
            registry["row_diagonal"](values, places, starts, k=0, count=30)
            matrix = values, places, starts
            for function in ("add", "less", "maximum"):
                registry["combined_rows"](*matrix, *matrix, function=function, both=False)
            registry["product_counts"](places, starts, starts)
            short, long = cm.zeros(4, "int64"), cm.zeros(26, "int64")
            for most in (9, 200, 512):
                rows = (short, long) if most == 512 else ()
                how = {"width": 600, "most": most}
                registry["product_lengths"](places, starts, places, starts, *rows, **how)
                registry["product_rows"](*matrix, *matrix, starts, *rows, stored=90, **how)
            # of programs alone
            places = registry["index_add (places)"](many, rows=3000)
            registry["index_add (sums)"](made((2000, 512), t), *places, shape=(3000, 512))
            if t in (np.dtype("f4"), np.dtype("f8")):
                sources = registry["index_add (sources)"](many, places[1], rows=2000)
                for weights in ((), (made(2000, t),)):
                    chosen = made((2000, 16), t), places[0], sources, *weights
                    registry["index_add (chosen sums)"](*chosen, shape=(3000, 16))
        if t.kind != "c":
            cm.arange(0, 10, dtype=t)
        if t in FLOATS:
            cm.linspace(0, 1, 10, dtype=t), cm.logspace(0, 1, 10, dtype=t)
            (
                cm.nan_to_num(line),
                cm.isposinf(line),
                cm.isneginf(line),
                cm.clip(line, 0, 1),
                cm.ldexp(line, 2),
                cm.frexp(line),
            )
            cm.ldexp(line, made(70, np.dtype(np.int64))), cm.ldexp(x, made(70, np.dtype(np.int8)))
            cm.sinc(line), cm.ml.hardtanh(line), cm.round(line, 2), cm.isclose(line, line)


def reductions(t: np.dtype) -> None:
    """Rows, columns, both, everything; large ones are split."""
    for shape in ((64, 1000), (2_000_000,), (200_000, 8)):
        for axis in (None, 0, -1):
            cm.sum(made(shape, t), axis=axis)
    cm.sum(made((3, 5, 7, 4), t), axis=(0, 3))
    cm.cumsum(made(100_001, t)), cm.cumsum(made((3, 70), t), axis=0)
    if t == np.int8:  # totals that are narrower than a register, of one block, a cluster, and many
        cm.cummax(made(16_000, t)), cm.cummax(made(100_000, t)), cm.cummax(made(1_000_000, t))
    x = made((64, 1000), t)
    cm.sum(x.T, axis=0), cm.sum(x[:, ::2], axis=1), cm.any(x, axis=1)
    if t not in (F32, np.int32):
        return
    for function in (
        cm.mean,
        cm.any,
        cm.all,
        cm.count_nonzero,
        cm.prod,
        cm.var,
        cm.std,
        cm.max,
        cm.min,
        cm.argmax,
        cm.argmin,
    ):
        function(x, axis=0), function(x, axis=1), function(made(2_000_000, t))
    for number in ("int8", "uint8", "uint32"):
        cm.max(made((64, 1000), number), axis=1)
    for order in (0, 1, 2, float("inf"), float("-inf")):
        cm.linalg.vector_norm(x.astype(F32), ord=order)
    cm.linalg.vector_norm(x.astype(F32), ord=3, axis=1)
    for number in of_kinds("iufc"):
        cm.linalg.cross(made((7, 3), number), made((7, 3), number))
    if t == F32:
        for function in (
            cm.nansum,
            cm.nanmean,
            cm.nanprod,
            cm.nanvar,
            cm.nanstd,
            cm.nanmax,
            cm.nanmin,
        ):
            function(x, axis=0), function(x, axis=1), function(made(2_000_000, t))


def numbers_at_random() -> None:
    rng = cm.random.default_rng(5)
    for t in FLOATS:
        rng.uniform(size=(100, 3), dtype=t), rng.normal(size=101, dtype=t)
        cm.ml.init.trunc_normal(101, dtype=t, rng=rng)
    for t in of_kinds("iu"):
        rng.integers(0, 100, 50, dtype=t)
        rng.geometric(0.3, 50, t)
    rng.integers(0, 1 << 62, 50)
    (
        rng.permutation(50),
        rng.permutation(100_000),
        rng.bernoulli(0.3, (50,)),
        rng.choice(10, 50, p=np.full(10, 0.1)),
    )
    [rng.choice(10, 50, p=cm.full(10, 0.1, dtype=t)) for t in (F32, F64)]
    for t in (F32, F64):
        rng.exponential(size=50, dtype=t), rng.gamma(2.5, size=50, dtype=t)
    (
        rng.laplace(size=50, dtype=F32),
        rng.logistic(size=50, dtype=F32),
        rng.gumbel(size=50, dtype=F32),
    )
    (
        rng.rayleigh(size=50, dtype=F32),
        rng.weibull(2, 50, F32),
        rng.pareto(2, 50, F32),
        rng.cauchy(size=50, dtype=F32),
    )
    (
        rng.beta(made((50,), F32), 2.0),
        rng.beta(2.0, 3.0, 50),
        rng.poisson(3.0, 50),
        rng.binomial(10, 0.3, 50),
    )
    (
        rng.lognormal(0, 1, 50, F32),
        rng.lognormal(0, 1, 50, F64),
        rng.poisson(made((50,), F32)),
        rng.poisson(made((50,), F64)),
    )
    rng.integers(made((50,), np.dtype("i8")), made((50,), np.dtype("i8")))
    for t in (*FLOATS, *of_kinds("iu")):
        rng.bernoulli(made((50,), t)), rng.bernoulli(made((51,), t)[1:])


def grids() -> None:
    """Arrays that are made of their indices alone."""
    cm.tril_indices(50), cm.triu_indices(50, 1, 40)
    for dtype in ("float32", "float64"):
        cm.set_default_dtype(dtype)
        (
            cm.kaiser(50, 5.0),
            cm.hanning(50),
            cm.hamming(50),
            cm.blackman(50),
            cm.bartlett(50),
            cm.logspace(0, 1, 50),
        )


def libraries(t: np.dtype) -> None:
    """The kernels beside the calls of cuSOLVER and cuFFT: one matrix and many, as they lie and
    turned."""
    la, fft = cm.linalg, cm.fft
    if t.kind == "c":
        la.dft(9, dtype=t)
    else:
        la.hilbert(9, dtype=t), la.helmert(9, dtype=t)
    la.hadamard(8, dtype=t), la.companion(made((9,), t)), la.fiedler_companion(made((9,), t))
    la.leslie(made((9,), t), made((8,), t)), la.toeplitz(made((9,), t), made((8,), t))
    la.circulant(made((9,), t)), la.hankel(made((9,), t)), la.hankel(made((9,), t), made((8,), t))
    for shape in ((5, 5), (20, 5, 5), (7, 4), (20, 7, 4)):
        for a in (made(shape, t), made((*shape[:-2], shape[-1], shape[-2]), t).mT):
            if shape[-1] == shape[-2]:
                b = made((*shape[:-1], 3), t)
                la.cond(a, 1), la.lu_solve(la.lu_factor(a), b), la.lu(a)
                (
                    la.solve(a, b),
                    la.inv(a),
                    la.slogdet(a),
                    la.cholesky(a),
                    la.cholesky(a, upper=True),
                    la.eigh(a),
                    la.eigvalsh(a),
                )
                (
                    la.solve_triangular(a, b),
                    la.solve_triangular(a, b, lower=True),
                    la.eig(a),
                    la.eigvals(a),
                )
            (
                la.lu_factor(a),
                la.qr(a),
                la.qr(a, mode="complete"),
                la.qr(a, mode="r"),
                la.svd(a),
                la.svdvals(a),
            )
    for shape in (
        (70, 70),
        (70, 90),
        (9, 140, 130),
    ):  # products in double precision; eig by cuSOLVER
        la.svd(made(shape, t)), la.svdvals(made(shape, t)), la.eig(made((70, 70), t))
    la.svd(made((120, 110), np.result_type(t, F64)))
    la.lu_solve(la.lu_factor(made((140, 140), t)), made((140, 3), t))  # by cuSOLVER, too
    for shape in (
        (200, 300, 3),
        (300, 300),
        (100, 20),
        (200, 20),
        (9, 3),
        (9, 12),
        (18, 18),
        (33, 33),
    ):
        (
            la.qr(made(shape, t)),
            la.qr(made(shape, t), mode="complete"),
            la.qr(made(shape, t), mode="r"),
        )
    for shape in ((70, 70), (9, 30, 30)):
        la.lu_solve(la.lu_factor(made(shape, t)), made((*shape[:-1], 3), t))
    for shape in ((140, 140), (400, 140, 140)):  # by cuSOLVER
        la.eigh(made(shape, t)), la.eigvalsh(made(shape, t))
    cm.grad(lambda a: cm.abs(la.lu_factor(a)[0]).sum())(made((5, 5), t))
    for shape in ((5, 12), (40, 33), (200, 4)):
        (
            la.svd(made(shape, t), full_matrices=False),
            la.svdvals(made(shape, t)),
            la.pinv(made(shape, t)),
        )
    x = made((6, 8), t)
    fft.ifft(x), fft.fft2(x), fft.irfft(x), fft.irfft2(x), fft.hfft(x), fft.fft(x, axis=0)
    if t.kind == "f":
        (
            fft.rfft(x),
            fft.rfft2(x),
            fft.rfft(x, axis=0),
            fft.fft(x),
            fft.fft2(x, norm="forward"),
            fft.fftfreq(9, dtype=t),
        )
        for one in (fft.dct, fft.dst):
            one(x, 1), one(x, 2), one(x, 3), one(x, 4)
            one(x, 1, axis=0), one(x, 2, axis=0), one(x, 3, axis=0), one(x, 4, axis=0)
        for several in (fft.dctn, fft.dstn, fft.idctn, fft.idstn):
            several(x), several(made((3, 4, 5), t))


def by_name() -> list[tuple[plans.Plan, list[Layout]]]:
    """Versions that planners leave to other machines, to the simulator or to odd layouts."""
    from cudamath.kernels.attention import dispatch as attention_dispatch
    from cudamath.kernels.conv import dispatch as conv_dispatch
    from cudamath.kernels.conv import not_finite, overlap_add, tap_products
    from cudamath.kernels.conv.problem import Problem as ConvProblem
    from cudamath.kernels.copy import channels_last
    from cudamath.kernels.elementwise import dispatch as elementwise_dispatch
    from cudamath.kernels.index import stream_compaction
    from cudamath.kernels.loss import dispatch as loss_dispatch
    from cudamath.kernels.matmul import dispatch as matmul_dispatch
    from cudamath.kernels.matmul import grouped as matmul_grouped
    from cudamath.kernels.matmul import linear as matmul_linear
    from cudamath.kernels.matmul import mlp
    from cudamath.kernels.norm import backward_parts
    from cudamath.kernels.norm import dispatch as norm_dispatch
    from cudamath.kernels.optim import dispatch as optim_dispatch
    from cudamath.kernels.pool import dispatch as pool_dispatch
    from cudamath.kernels.random import bernoulli_array, distributions, dropout
    from cudamath.kernels.recurrent import dispatch as recurrent_dispatch
    from cudamath.kernels.reduce import dispatch as reduce_dispatch
    from cudamath.kernels.softmax import dispatch as softmax_dispatch
    from cudamath.kernels.softmax import online
    from cudamath.kernels.sparse import dispatch as sparse_dispatch
    from cudamath.kernels.sparse import row_diagonal as sparse_diagonal
    from cudamath.kernels.sparse import row_extremes as sparse_extremes
    from cudamath.kernels.sparse import triangular as sparse_triangular

    found: list[tuple[plans.Plan, list[Layout]]] = []

    def plan(planner: Callable[..., plans.Plan], *inputs: Layout | None, **params: Any) -> None:
        given = [x for x in inputs if x is not None]
        try:
            found.append((planner(*inputs, **params), given))
        except ValueError as error:
            if "does not support" not in str(error):  # a version that this capability lacks
                raise

    def new(*shape: int, dtype: Any = F32) -> Layout:
        return Layout.new(shape, np.dtype(dtype), 0)

    for kind, gates in {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}.items():
        x, y, state = new(3, 18, 8), new(3, 18, 32), new(1, 18, 32)
        w, cells = new(gates * 32 * 42), state if kind == "lstm" else None
        of_layer = {
            "kind": kind, "units": 32, "out": 32, "layers": 1, "directions": 1, "bias": True,
            "lengths": None, "tf32": False, "training": True, "version": "persistent",
        }  # fmt: skip
        operands = x, w, state, cells
        forward = recurrent_dispatch.layers(*operands, **of_layer)
        found.append((forward, [a for a in operands if a is not None]))
        operands = x, w, y, forward.outputs[1], y, state, cells, state, cells
        found.append(
            (
                recurrent_dispatch.layers_grad(*operands, **of_layer),
                [a for a in operands if a is not None],
            )
        )
    stored, starts = new(90, dtype="i4"), new(11, dtype="i4")
    for version in ("plain", "columns", "vector", "rows"):
        plan(
            functools.partial(sparse_dispatch.csr_product, version=version),
            *(new(90), stored, starts, new(20, 1)),
        )
        plan(
            functools.partial(sparse_dispatch.csr_product, version=version),
            *(new(90), stored, starts, new(20, 1), None, stored, stored, starts, stored),
        )
    plan(
        functools.partial(sparse_dispatch.sampled_product, version="plain"),
        *(stored, stored, starts, new(10, 3), new(20, 3)),
    )
    for largest, skips in ((True, False), (False, True)):
        plan(
            functools.partial(sparse_extremes.row_extremes, largest=largest, skips=skips),
            *(new(90), starts),
        )
    plan(
        functools.partial(sparse_diagonal.row_diagonal, k=1, count=9),
        *(new(90), stored, starts),
    )
    for version in ("plain", "waiting"):
        plan(
            functools.partial(sparse_triangular.solve, lower=True, unit=False, version=version),
            *(new(90), stored, starts, new(10, 3)),
        )
    for t in SAMPLE:
        for shape in ((), (70,), (5, 6, 7)):
            x = new(*shape, dtype=t)
            strided = Layout.of(shape, tuple(2 * s for s in x.strides), t, 0)
            for y in (x, strided):
                plan(
                    functools.partial(
                        elementwise_dispatch.elementwise,
                        expression="x == y",
                        compute=t,
                        output=np.dtype(bool),
                        version="plain",
                    ),
                    y,
                    y,
                )
        if t.itemsize == 2:
            plan(
                functools.partial(
                    elementwise_dispatch.elementwise,
                    expression="x + y",
                    compute=F32,
                    output=t,
                    version="tiled_pairs",
                ),
                new(64, 64, dtype=t),
                Layout.of((64, 64), (2, 128), t, 0),
            )
            if t in FLOATS:
                plan(
                    functools.partial(
                        elementwise_dispatch.elementwise,
                        expression="x / y",
                        compute=F32,
                        output=t,
                        version="broadcast",
                    ),
                    new(5, 6, 4, dtype=t),
                    new(5, 1, 4, dtype=t),
                )
                plan(
                    functools.partial(
                        elementwise_dispatch.elementwise,
                        expression="exp(x)",
                        compute=F32,
                        output=t,
                        version="vector_ahead",
                    ),
                    new(70, dtype=t),
                )
        plan(functools.partial(stream_compaction.count_true, version="plain"), new(70, dtype=t))
        plan(
            functools.partial(stream_compaction.nonzero, capacity=9, rows=False, version="plain"),
            new(70, dtype=t),
            new(2, dtype="i8"),
        )
        if t.kind == "b":
            continue
        a, b = new(64, 48, dtype=t), new(48, 80, dtype=t)
        (
            plan(matmul_dispatch.matmul, a, b, version="naive"),
            plan(matmul_dispatch.matmul, a, b, version="tiled"),
        )
        if t in (F16, F32):
            for c in (a, Layout.of(a.shape, (t.itemsize, 64 * t.itemsize), t, 0)):
                for d in (b, Layout.of(b.shape, (t.itemsize, 48 * t.itemsize), t, 0)):
                    for version in (
                        "register_tiles",
                        "simt",
                        "simt_small",
                        *["simt_async_copy", "simt_async_copy_small"] * (t == F32),
                    ):
                        plan(matmul_dispatch.matmul, c, d, version=version)
        if t in (F16, F64):
            plan(matmul_dispatch.matmul, a, b, version="sm80")
        if t == F16:
            c, d, bias = new(64, 256, dtype=t), new(256, 80, dtype=t), new(80, dtype=t)
            q, lse = new(1, 2, 130, 256, dtype=t), new(1, 2, 130)
            plan(
                attention_dispatch.attention_grad,
                q,
                q,
                q,
                q,
                q,
                lse,
                causal=True,
                scale=0.1,
                dropping=False,
                version="backward_sm90_large_heads",
            )
            q, k = new(1, 4, 130, 64, dtype=t), new(1, 2, 500, 64, dtype=t)
            attend = {"causal": True, "scale": 0.1, "dropping": False}
            plan(attention_dispatch.attention, q, k, k, **attend, version="forward_sm90_split")
            plan(
                attention_dispatch.attention_grad,
                *(q, q, k, k, q, new(1, 4, 130)),
                **attend,
                version="backward_sm90_split",
            )
            for version in (
                "sm90 128x256",
                "sm90 64x128 split 2",
                "sm90 128x128 pingpong",
                "sm90 192x128",
            ):
                plan(matmul_dispatch.matmul, c, d, version=version)
            rows, w, ends = new(300, 64, dtype=t), new(4, 64, 80, dtype=t), new(4, dtype="i4")
            for version in ("sm90 128x128", "sm90 64x256"):
                plan(matmul_grouped.grouped_matmul, rows, w, ends, version=version)
                plan(
                    matmul_grouped.grouped_outer, rows, new(300, 80, dtype=t), ends, version=version
                )
            layers = functools.partial(matmul_linear.linears, activation="gelu", count=3)
            plan(layers, c, *[new(80, 256, dtype=t)] * 3, *[bias] * 3)
            turned = Layout.of((80, 256), (2, 160), np.dtype(t), 0)
            plan(layers, c, *[turned] * 3)
            rows, layer = cm.zeros((64, 256), t), cm.zeros((80, 256), t)
            registry["linears"](rows, layer, layer, activation="", count=2)
            for activation, version in (
                ("gelu", "sm90 128x128 pingpong"),
                ("silu", "sm90 128x128 pingpong"),
                ("gelu", "sm90 64x64 share 4"),
            ):
                plan(
                    functools.partial(
                        matmul_linear.linear,
                        activation=activation,
                        version=version,
                    ),
                    c,
                    new(80, 256, dtype=t),
                    bias,
                    new(64, 80, dtype=t),
                )
                plan(
                    functools.partial(
                        mlp.product_slope, activation=activation, version="sm90 64x256 pingpong"
                    ),
                    c,
                    new(256, 80, dtype=t),
                    new(64, 80, dtype=t),
                )
    has_tma = device.capability(0) in backward_parts.TMA_DEVICES
    for f in (BF16, F32):
        x, v = new(20, 64, dtype=f), new(64, dtype=f)
        wide = F64 if f == F64 else F32
        rows = new(20, dtype=wide)
        for log in (False, True):
            plan(lambda *i, log=log: softmax_dispatch.plan(i, 1, log, version="plain"), x)
            plan(lambda *i, log=log: softmax_dispatch.plan(i, 1, log, version="plain"), x, x)
            for inputs in ((new(2, 300, 5, dtype=f),), (new(2, 300, 5, dtype=f),) * 2):
                for version in ("columns", "columns_split"):
                    plan(
                        lambda *i, log=log, v=version: softmax_dispatch.plan(i, 1, log, version=v),
                        *inputs,
                    )
            for inputs in ((new(3, 50_257, dtype=f),), (new(3, 50_257, dtype=f),) * 2):
                for version in [
                    *["cluster"] * (device.capability(0) >= (9, 0)),
                    *["shared_memory"] * (device.capability(0) in online.CACHE),
                ]:
                    plan(
                        lambda *i, log=log, v=version: softmax_dispatch.plan(i, 1, log, version=v),
                        *inputs,
                    )
        plan(
            lambda x, w, b, r: norm_dispatch.forward(x, w, b, r, 64, 1e-5, version="plain"),
            x,
            v,
            v,
            x,
        )
        plan(
            lambda x: norm_dispatch.forward(
                x, None, None, None, 64, 1e-5, center=False, version="plain"
            ),
            x,
        )
        plan(
            lambda x, w, b, r: norm_dispatch.forward(x, w, b, r, 64, 1e-5, version="rows"),
            x,
            v,
            v,
            x,
        )
        plan(
            lambda x, w: norm_dispatch.forward(
                x, w, None, None, 64, 1e-5, center=False, version="rows"
            ),
            x,
            v,
        )
        for columns in (40, 4096):  # fewer than the threads could hold; a wide row
            part, c = new(20, columns, dtype=f), new(columns, dtype=f)
            plan(
                lambda x, w, b, r, n=columns: norm_dispatch.forward(
                    x, w, b, r, n, 1e-5, version="rows"
                ),
                part,
                c,
                c,
                part,
            )
            plan(
                lambda g, x, w, m, s, h, n=columns: norm_dispatch.backward(
                    g, x, w, m, s, h, n, True, version="rows"
                ),
                part,
                part,
                c,
                rows,
                rows,
                part,
            )
        plan(
            lambda x, w: norm_dispatch.group_norm(x, w, None, groups=2, eps=1e-5, version="plain"),
            new(4, 6, 25, dtype=f),
            new(6, dtype=f),
        )
        long, w, c = new(20, 20_000, dtype=f), new(20_000, dtype=f), new(6, dtype=f)
        plan(
            lambda x, w, b: norm_dispatch.forward(x, w, b, None, 20_000, 1e-5, version="cluster"),
            long,
            w,
            w,
        )
        plan(
            lambda x: norm_dispatch.forward(
                x, None, None, None, 20_000, 1e-5, center=False, version="cluster"
            ),
            long,
        )
        odd, one = new(20, 20_011, dtype=f), new(20_011, dtype=f)
        plan(
            lambda x, w, b: norm_dispatch.forward(x, w, b, None, 20_011, 1e-5, version="long_rows"),
            odd,
            one,
            one,
        )
        plan(
            lambda g, x, w, m, s: norm_dispatch.backward(
                g, x, w, m, s, None, 20_011, True, version="long_rows"
            ),
            odd,
            odd,
            one,
            rows,
            rows,
        )
        if has_tma:
            plan(
                lambda g, x, w, m, s, h: norm_dispatch.backward(
                    g, x, w, m, s, h, 20_000, True, version="cluster"
                ),
                long,
                long,
                w,
                rows,
                rows,
                long,
            )
            plan(
                lambda g, x, s: norm_dispatch.backward(
                    g, x, None, None, s, None, 20_000, False, version="cluster"
                ),
                long,
                long,
                rows,
            )
        for planes in (new(4, 6, 100, 80, dtype=f), new(4, 6, 10, 8, dtype=f)):
            plan(
                lambda x, w, b: norm_dispatch.group_norm(
                    x, w, b, groups=3, eps=1e-5, version="cluster"
                ),
                planes,
                c,
                c,
            )
        for planes, version in (
            (new(4, 6, 25, dtype=f), "plain"),
            (new(4, 6, 80, 80, dtype=f), "long_groups"),
            (new(4, 6, 80, 80, dtype=f), "cluster"),
            (new(4, 6, 25, dtype=f), "cluster"),
        ):
            if version == "cluster" and f == F64 and planes.shape[2] == 80:
                continue  # no cluster, and too long for a block
            plan(
                lambda g, x, w, m, s, v=version: norm_dispatch.group_norm_grad(
                    g, x, w, m, s, groups=3, biased=True, version=v
                ),
                planes,
                planes,
                c,
                new(12, dtype=wide),
                new(12, dtype=wide),
            )
            plan(
                lambda g, x, m, s, v=version: norm_dispatch.group_norm_grad(
                    g, x, None, m, s, groups=3, biased=False, version=v
                ),
                planes,
                planes,
                new(12, dtype=wide),
                new(12, dtype=wide),
            )
        if f == BF16 and has_tma:
            for n in (4096, 768):
                long, w = new(20, n, dtype=f), new(n, dtype=f)
                plan(
                    lambda g, x, w, m, s, h, n=n: norm_dispatch.backward(
                        g, x, w, m, s, h, n, True, version="tma"
                    ),
                    long,
                    long,
                    w,
                    rows,
                    rows,
                    long,
                )
            plan(
                lambda g, x, s: norm_dispatch.backward(
                    g, x, None, None, s, None, 768, False, version="tma"
                ),
                long,
                long,
                rows,
            )
        plan(
            lambda g, x, w, m, s, h: norm_dispatch.backward(
                g, x, w, m, s, h, 64, True, version="plain"
            ),
            x,
            x,
            v,
            rows,
            rows,
            x,
        )
        plan(
            lambda g, x, s: norm_dispatch.backward(
                g, x, None, None, s, None, 64, False, version="plain"
            ),
            x,
            x,
            rows,
        )
        image, c = new(4, 6, 5, 5, dtype=f), new(6, dtype=f)
        for version in ("plain", "split_channels"):
            plan(
                lambda x, w, b, m, s, v=version: norm_dispatch.batch_forward(
                    x, w, None, 0.1, 1e-5, False, version=v
                ),
                image,
                c,
                c,
                c,
                c,
            )
        for more in ((), (new(4, 6, 8, 8, dtype=f),)):
            plan(
                lambda x, w, b, m, s, *r: norm_dispatch.batch_forward(
                    x, w, *r or [None], 0.1, 1e-5, bool(r), version="held"
                ),
                *(new(4, 6, 8, 8, dtype=f), c, c, c, c, *more),
            )
        stat = new(6, dtype=wide)
        plan(
            lambda g, x, w, b, m, r: norm_dispatch.batch_backward(
                g, x, w, None, True, version="plain"
            ),
            image,
            image,
            c,
            c,
            stat,
            stat,
        )
        plan(
            lambda g, x, w, b, m, r, y: norm_dispatch.batch_backward(
                g, x, w, y, True, version="plain"
            ),
            image,
            image,
            c,
            c,
            stat,
            stat,
            image,
        )
        logits, targets = new(20, 5003, 1, dtype=f), new(20, 1, dtype="i8")
        for a in (0.0, 0.1):
            plan(
                lambda x, t, a=a: loss_dispatch.cross_entropy(
                    x,
                    t,
                    reduction="mean",
                    ignore_index=-100,
                    label_smoothing=a,
                    version="long_rows",
                ),
                logits,
                targets,
            )
            for g in (new(dtype=wide), new(20, 1, dtype=wide)):
                plan(
                    lambda g, x, *_, a=a: loss_dispatch.cross_entropy_grad(
                        g,
                        x,
                        None,
                        None,
                        None,
                        ignore_index=-100,
                        label_smoothing=a,
                        version="long_rows",
                    ),
                    g,
                    logits,
                    targets,
                    new(2, 20, 1, dtype=wide),
                    new(dtype=wide),
                )
        logits = new(20, 9, 1, dtype=f)
        for reduction in ("mean", "sum", "none"):
            plan(
                lambda x, t, r=reduction: loss_dispatch.cross_entropy(
                    x, t, reduction=r, ignore_index=-100, label_smoothing=0.1, version="plain"
                ),
                logits,
                targets,
            )
        for g in (new(dtype=wide), new(20, 1, dtype=wide)):
            plan(
                lambda g, x, *_: loss_dispatch.cross_entropy_grad(
                    g, x, None, None, None, ignore_index=-100, label_smoothing=0.0, version="plain"
                ),
                g,
                logits,
                targets,
                new(2, 20, 1, dtype=wide),
                new(dtype=wide),
            )
        plan(
            functools.partial(
                loss_dispatch.loss, kind="huber_loss", reduction="mean", version="plain"
            ),
            x,
            x,
        )
        for version in ("fprop_direct", "fprop_simt"):
            where = {
                "stride": (1, 1),
                "padding": (1, 1, 1, 1),
                "dilation": (1, 1),
                "groups": 1,
                "version": version,
            }
            plan(functools.partial(conv_dispatch.conv2d, **where), image, new(8, 6, 3, 3, dtype=f))
        if f == F32:  # what is not finite behind a transform
            where = {"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
            images, filters, added = new(2, 8, 9, 9), new(6, 8, 3, 3), new(6)
            grad = new(2, 6, 9, 9)
            for problem in (
                ConvProblem.forward(images, filters, added, **where),
                ConvProblem.input_gradient(grad, filters, None, size=(9, 9), **where),
                ConvProblem.weight_gradient(grad, images, kernel=(3, 3), **where),
            ):
                repaired = functools.partial(not_finite.copied, problem=problem)
                plan(repaired, problem.out, *problem.inputs)
        where = {"stride": (1, 1), "padding": (3, 3, 3, 3), "dilation": (1, 1), "groups": 1}
        for taps in (3, 7):  # sums behind a product by cuBLAS
            pixels, filters = new(2, 8, 9, 9, dtype=f), new(3, 8, taps, taps, dtype=f)
            problem = ConvProblem.forward(pixels, filters, **where)
            products = new(162, 3 * taps * taps, dtype=compute_dtype(f))
            plan(functools.partial(tap_products.sums, problem=problem), products)
        for c, step in ((3, 2), (4, 1)):  # gradients of images of few channels
            where = {
                "stride": (step, step),
                "padding": (3, 3, 3, 3),
                "dilation": (1, 1),
                "groups": 1,
                "version": "dgrad_few_channels",
            }
            plan(
                functools.partial(
                    conv_dispatch.conv2d_input_grad, size=(9 * step, 8 * step), **where
                ),
                new(2, 5, 9, 8, dtype=f),
                new(5, c, 7, 7, dtype=f),
            )
        for c, size in ((3, 12), (4, 13)) if f.itemsize == 2 else ():  # and by tensor cores
            where = {
                "stride": (2, 2),
                "padding": (3, 3, 3, 3),
                "dilation": (1, 1),
                "groups": 1,
            }
            y, w = new(2, 8, 6, 6, dtype=f), new(8, c, 7, 7, dtype=f)
            for grad in (y, channels_last.as_channels_last(y)):
                plan(
                    functools.partial(
                        conv_dispatch.conv2d_input_grad,
                        size=(size, size),
                        **where,
                        version="dgrad_space_to_depth",
                    ),
                    grad,
                    w,
                )
            x = new(2, c, 12, 12, dtype=f)
            forward = functools.partial(
                conv_dispatch.conv2d, **where, version="fprop_space_to_depth"
            )
            plan(forward, x, w, new(8, dtype=f))
            weight = functools.partial(
                conv_dispatch.conv2d_weight_grad,
                kernel=(7, 7),
                **where,
                version="wgrad_space_to_depth",
            )
            plan(weight, y, x)
        for methods in (("sm80",), ("sm90", "sm90_shared_taps")) if f == BF16 else ():
            for c in (72, 16):  # images and filters that are whole steps, and such that are not
                x, w, y = (
                    new(2, c, 9, 9, dtype=f),
                    new(40, c, 3, 3, dtype=f),
                    new(2, 40, 5, 5, dtype=f),
                )
                where = {
                    "stride": (2, 2),
                    "padding": (1, 1, 1, 1),
                    "dilation": (1, 1),
                    "groups": 1,
                }
                forward = functools.partial(
                    conv_dispatch.conv2d, **where, version=f"fprop_{methods[0]}"
                )
                plan(forward, x, w, new(40, dtype=f))
                images = functools.partial(
                    conv_dispatch.conv2d_input_grad,
                    size=(9, 9),
                    **where,
                    version=f"dgrad_{methods[0]}",
                )
                plan(images, y, w)
                weight = functools.partial(conv_dispatch.conv2d_weight_grad, kernel=(3, 3), **where)
                if methods == ("sm80",):
                    plan(functools.partial(weight, version="wgrad_sm80"), y, x)
        for step, size in ((1, 9), (2, 5)) if f == BF16 else ():
            where = {
                "stride": (2, step),
                "padding": (1, 1, 1, 1),
                "dilation": (1, 1),
                "groups": 1,
            }
            for version in ("wgrad_sm90", "wgrad_sm90_shared_taps"):
                plan(
                    functools.partial(
                        conv_dispatch.conv2d_weight_grad, kernel=(3, 3), **where, version=version
                    ),
                    new(2, 72, 5, size, dtype=f),
                    new(2, 72, 9, 9, dtype=f),
                )
        if f == BF16:  # weights for which two blocks add up their sums
            x, where = (
                new(64, 512, 7, 7, dtype=f),
                {"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1},
            )
            plan(
                functools.partial(
                    conv_dispatch.conv2d_weight_grad,
                    kernel=(3, 3),
                    **where,
                    version="wgrad_sm90_shared_taps",
                ),
                x,
                x,
            )
            where["padding"] = (0, 0, 0, 0)  # the same of one tap, in some parts:
            for outputs in (2048, 512, 384, 256):  # 1, 4, 5 and 8
                plan(
                    functools.partial(
                        conv_dispatch.conv2d_weight_grad,
                        kernel=(1, 1),
                        **where,
                        version="wgrad_sm90_pointwise",
                    ),
                    new(64, outputs, 7, 7, dtype=f),
                    x,
                )
        for m in (64, 128) if f == BF16 else ():  # filters that stay in shared memory
            where = {
                "stride": (1, 1),
                "padding": (1, 1, 1, 1),
                "dilation": (1, 1),
                "groups": 1,
            }
            x, w, y = (
                new(32, 64, 80, 80, dtype=f),
                new(m, 64, 3, 3, dtype=f),
                new(32, m, 80, 80, dtype=f),
            )
            forward = functools.partial(
                conv_dispatch.conv2d, **where, version="fprop_sm90_resident_filters"
            )
            plan(forward, x, w)
            images = functools.partial(
                conv_dispatch.conv2d_input_grad,
                size=(80, 80),
                **where,
                version="dgrad_sm90_resident_filters",
            )
            plan(images, y, w)
        for c, where in (
            (6, {"stride": (1, 1), "padding": (1, 1, 1, 1)}),
            (8, {"stride": (2, 2), "padding": (1, 1, 1, 1)}),
        ):
            where = {**where, "dilation": (1, 1), "groups": c}
            x, w, y = (
                new(4, c, 8, 8, dtype=f),
                new(c, 1, 3, 3, dtype=f),
                new(4, c, *[8 // where["stride"][0]] * 2, dtype=f),
            )
            for method in ("depthwise_nchw", "depthwise_nhwc"):
                forward = functools.partial(
                    conv_dispatch.conv2d, **where, version=f"fprop_{method}"
                )
                plan(forward, x, w, new(c, dtype=f))
                images = functools.partial(
                    conv_dispatch.conv2d_input_grad,
                    size=(8, 8),
                    **where,
                    version=f"dgrad_{method}",
                )
                plan(images, y, w)
                weight = functools.partial(
                    conv_dispatch.conv2d_weight_grad,
                    kernel=(3, 3),
                    **where,
                    version=f"wgrad_{method}",
                )
                plan(weight, y, x)
        for c, m in ((8, 8), (3, 1)):
            plan(
                functools.partial(
                    conv_dispatch.conv2d_weight_grad,
                    kernel=(3, 3),
                    stride=(1, 1),
                    padding=(1, 1, 1, 1),
                    dilation=(1, 1),
                    groups=2,
                    version="wgrad_few_channels",
                ),
                new(4, 2 * m, 8, 8, dtype=f),
                new(4, 2 * c, 8, 8, dtype=f),
            )
        where = {
            "stride": (2, 2),
            "dilation": (1, 1),
            "groups": 1,
        }  # of a group alone; 7 x 7 taps want more than 64 KB
        plan(
            functools.partial(
                conv_dispatch.conv2d_weight_grad,
                kernel=(3, 3),
                padding=(1, 1, 1, 1),
                **where,
                version="wgrad_few_channels",
            ),
            new(2, 64, 8, 8, dtype=f),
            new(2, 3, 16, 16, dtype=f),
        )
        plan(
            functools.partial(
                conv_dispatch.conv2d_weight_grad, kernel=(7, 7), padding=(3, 3, 3, 3), **where
            ),
            new(64, 64, 112, 112, dtype=f),
            new(64, 3, 224, 224, dtype=f),
        )
        for version in ("wgrad_direct", "wgrad_simt"):
            where = {
                "kernel": (3, 3),
                "stride": (1, 1),
                "padding": (1, 1, 1, 1),
                "dilation": (1, 1),
                "groups": 1,
                "version": version,
            }
            plan(
                functools.partial(conv_dispatch.conv2d_weight_grad, **where),
                new(4, 8, 5, 5, dtype=f),
                image,
            )
        where = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1}
        plan(
            functools.partial(
                conv_dispatch.conv2d_weight_grad, kernel=(1, 1), **where, version="wgrad_direct"
            ),
            *[new(1, 1, 2, 1 << 30, dtype=f)] * 2,
        )  # positions beyond 32 bits
        where = {**where, "stride": (1 << 31, 1), "size": (3, 6)}
        plan(
            functools.partial(conv_dispatch.conv2d_input_grad, **where),
            new(4, 2, 1, 4, dtype=f),
            new(2, 4, 2, 3, dtype=f),
            new(4, dtype=f),
        )  # steps beyond 32 bits
        del where["size"]
        plan(
            functools.partial(conv_dispatch.conv2d, **where),
            new(4, 4, 3, 6, dtype=f),
            new(2, 4, 2, 3, dtype=f),
            new(2, dtype=f),
        )
        far = {
            "depth": 1,
            "taps": 2,
            "step": 1,
            "apart": 1 << 32,
            "before": 1 << 32,
        }  # places beyond 32 bits
        plan(
            functools.partial(overlap_add.overlap_add, shape=(1, 3, 1, 9, 9), **far),
            new(1, 6, 9, 9, dtype=f),
        )
        plan(
            functools.partial(overlap_add.overlap_take, **{**far, "depth": 1 << 20}),
            new(1, 32, 1, 9, 9, dtype=f),
        )
        for version in ("plain", "rows", "columns", "rows_split", "columns_split"):
            plan(
                functools.partial(
                    reduce_dispatch.plan,
                    kind="sum",
                    axis=(1,),
                    keepdims=False,
                    dtype=f,
                    version=version,
                ),
                x,
            )
        plan(functools.partial(optim_dispatch.clip, version="one"), x, image)
        window = {"kernel": (3, 2), "stride": (2, 2), "padding": (1, 1), "version": "plain"}
        y = new(4, 6, 3, 3, dtype=f)
        plan(
            functools.partial(pool_dispatch.max_pool2d, size=(3, 3), dilation=(1, 1), **window),
            image,
        )
        for kind in ("i4", "u1"):
            notes = new(4, 6, 3, 3, dtype=kind)
            plan(
                functools.partial(
                    pool_dispatch.max_pool2d_grad, size=(5, 5), dilation=(1, 1), **window
                ),
                y,
                notes,
            )
            plan(
                functools.partial(pool_dispatch.max_pool2d_take, dilation=(1, 1), **window),
                image,
                notes,
            )
        for counted in (False, True):
            plan(
                functools.partial(
                    pool_dispatch.avg_pool2d, size=(3, 3), count_include_pad=counted, **window
                ),
                image,
            )
            plan(
                functools.partial(
                    pool_dispatch.avg_pool2d_grad, size=(5, 5), count_include_pad=counted, **window
                ),
                y,
            )
        plan(
            functools.partial(
                pool_dispatch.avg_pool2d, size=(3, 3), count_include_pad=True, divisor=5, **window
            ),
            image,
        )
        x = new(20, 64, dtype=f)
        plan(functools.partial(optim_dispatch.sgd, version="one"), x, x)
        plan(
            functools.partial(optim_dispatch.adam, version="one"),
            x,
            x,
            new(20, 64, dtype=wide),
            new(20, 64, dtype=wide),
        )
        plan(functools.partial(dropout.dropout, version="each"), x)
        plan(
            functools.partial(
                distributions.uniform, shape=(100,), dtype=f, device=0, version="each"
            )
        )
        plan(
            functools.partial(distributions.normal, shape=(100,), dtype=f, device=0, version="each")
        )
    cell = new(3, dtype="u8")
    plan(functools.partial(distributions.normal, shape=(100,), dtype=F32, device=0), cell)
    plan(
        functools.partial(distributions.permutation, count=5000, ranked=False, bits=13, device=0),
        cell,
    )
    plan(dropout.dropout, new(100), cell)
    plan(bernoulli_array.chances, new(100), cell)
    plan(functools.partial(bernoulli_array.chances, version="each"), new(100))
    plan(
        functools.partial(loss_dispatch.linear_loss, classes=9, ignore_index=-1, version="plain"),
        new(5, 12),
        new(5, dtype="i8"),
        new(),
    )
    for rate, factor in ((True, False), (False, False), (True, True)):
        form = Form(True, rate, factor)
        plan(
            functools.partial(optim_dispatch.adam, form=form),
            *[new(20)] * 4,
            new(dtype="i8"),
            *[new()] * (rate + factor),
        )
    plan(functools.partial(optim_dispatch.lion, form=Form(rate=True)), *[new(20)] * 3, new())
    for f in (F16, BF16):  # gradients and copies of 16 bits
        for version in ("one", "many"):
            plan(
                functools.partial(
                    optim_dispatch.adam,
                    form=Form(True, True, True, True, (True, False)),
                    version=version,
                ),
                *[new(20), new(7), new(20, dtype=f), new(7, dtype=f)],
                *[new(20), new(7)] * 2,
                *[new(20, dtype=f), new(7, dtype=f)],
                new(dtype="i8"),
                new(),
                new(),
            )
    state = [new(), new(dtype="i8"), new(dtype="i8")]
    for version in ("one", "many"):
        for f in (BF16, F64):
            plan(
                functools.partial(
                    optim_dispatch.factor, scaling=True, strict=True, version=version
                ),
                new(20, dtype=f),
                *state,
            )
    compile_quantized.by_name(plan, new)
    return found


def complex_special() -> None:
    z = cm.zeros(5, np.complex128)
    gammas = "gamma", "loggamma", "rgamma", "digamma", "zeta"
    errors = "erf", "erfc", "erfcx", "erfi", "dawsn", "wofz"
    for name in (*gammas, *errors):
        getattr(cm.special, name)(z)
    cm.grad(lambda z: cm.special.digamma(z).real.sum())(z)


CALLS: list[tuple[str, Callable[[], None]]] = [
    ("grids", grids),  # before the others: plans are forgotten when the default dtype changes
    *[
        (f"{row.name} {t}", functools.partial(function_of, row, t))
        for row in ELEMENTWISE
        for t in (of_kinds(row.kinds) if row.name in THOROUGH else [WAYS[k] for k in ways(row)])
    ],
    *[
        (f"{row.name} {t}", functools.partial(gradients, row, t))
        for row in ROWS
        for t in (BF16, F32)
        if t == F32 or not row.name.startswith("special.")  # one computation for all dtypes
    ],
    *[
        (f"{row.name} second order", functools.partial(second_order, row))
        for row in ROWS
        if row.second and row.grad and row.name.startswith("ml.") and len(row.inputs) == 1
    ],
    (
        "spherical harmonics",
        lambda: cm.special.sph_harm_y(3, 2, cm.zeros(5, F32), cm.zeros(5, F32)),
    ),
    ("complex special functions", complex_special),
    *[(f"layers {t}", functools.partial(layers, t)) for t in (F16, F32, F64)],
    *[(f"optimizers {t}", functools.partial(optimizers, t)) for t in FLOATS],
    *[(f"arrays {t}", functools.partial(arrays, t)) for t in (*SAMPLE, np.dtype(np.complex128))],
    *[(f"ordering {t}", functools.partial(ordering, t)) for t in (*SAMPLE, BF16)],
    *[
        (f"reductions {t}", functools.partial(reductions, t))
        for t in SAMPLE
        if t.itemsize > 1 and t != F64
    ],
    *[(f"libraries {t}", functools.partial(libraries, np.dtype(t))) for t in ("f4", "c8")],
    ("angle", lambda: cm.angle(cm.ones(9, dtype="complex64"))),
    *[(f"modf {t}", functools.partial(lambda t: cm.modf(cm.ones(9, dtype=t)), t)) for t in FLOATS],
    ("random", numbers_at_random),
    *compile_quantized.CALLS,
    ("matmul int8", lambda: cm.matmul(made((64, 128), "i1"), made((128, 64), "i1"), dtype="int32")),
]
