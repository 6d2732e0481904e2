"""`python -m cudamath tune`: times the candidates of matrix products and of convolutions on this
device and remembers them (core/dispatch/autotune.py).

Products are timed *in situ*: each call behind a pass over more memory than the second-level cache
holds, as in a training step, where norms and activations lie between them. One product after the
other, for seconds, brings a GPU to its power limit, at which kernels rank differently: some that
are level then are up to a fifth slower between memory-bound kernels (seen in GPT-2's products on an
H200). Convolutions walk through copies of their operands, which the cache does not hold either.
"""

from __future__ import annotations

import functools
import itertools
import pathlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import cuda
from .core.array import ndarray
from .core.devices import device as place
from .core.dispatch import autotune
from .core.dispatch.plan import Plan
from .core.dtypes import bfloat16, float8_e4m3
from .core.layout import Layout
from .cuda.first_use import FAR, interleaved
from .ops.creation import zeros
from .ops.elementwise import negative
from .random import default_rng
from .runtime import device as devices
from .runtime.stream import Event, synchronize

DTYPES: dict[str, Any] = {
    "bfloat16": bfloat16,
    "float16": np.float16,
    "float32": np.float32,
    "tf32": np.float32,
    "float64": np.float64,
    "float8_e4m3": float8_e4m3,
}
TOKENS = 8192
Size = tuple[int, int, int, int]  # batch, m, k, n
#: Sizes that matter most: squares, odd ones, small ones in batches, the layers of GPT-2 and Llama.
SIZES: tuple[Size, ...] = (
    *[(1, n, n, n) for n in (512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384)],
    *[(1, n, n, n) for n in (511, 1023, 2047, 4095)],
    *[(batch, n, n, n) for batch, n in ((1024, 64), (256, 128), (64, 256), (32, 512))],
    *[
        (1, TOKENS, k, n)
        for k, n in ((768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50304))
    ],
    *[
        (1, m, k, n)
        for m in (16, 64, 256, 4096)
        for k, n in ((4096, 4096), (4096, 14336), (14336, 4096))
    ],
)
#: Images, channels, rows and columns, outputs, taps down and right, stride[, dilation, groups]:
#: ResNet-50's layers, a large one, one with gaps between its taps, one in groups.
Layer = tuple[int, ...]
LAYERS: tuple[Layer, ...] = (
    (32, 64, 128, 128, 3, 1),
    *[
        (64, *layer)
        for layer in (
            (64, 56, 64, 3, 1),
            (128, 28, 128, 3, 1),
            (256, 14, 256, 3, 1),
            (512, 7, 512, 3, 1),
            (128, 56, 128, 3, 2),
            (256, 28, 256, 3, 2),
            (512, 14, 512, 3, 2),
            (64, 56, 64, 1, 1),
            (64, 56, 256, 1, 1),
            (256, 56, 64, 1, 1),
            (128, 28, 512, 1, 1),
            (512, 28, 128, 1, 1),
            (256, 14, 1024, 1, 1),
            (1024, 14, 256, 1, 1),
            (512, 7, 2048, 1, 1),
            (2048, 7, 512, 1, 1),
            (256, 56, 512, 1, 2),
        )
    ],
    (32, 128, 56, 128, 3, 1, 2, 1),
    (64, 256, 56, 256, 3, 1, 1, 32),
)
#: The largest error of a candidate for a convolution, relative to the largest sum of |products|: in
#: float32, and of 16-bit results, which are rounded once.
EXACT, ROUNDED = 2e-6, 4e-3
PASS = (
    128 << 20
)  # bytes that are read and written before each product: more than the second-level cache holds


def products(
    sizes: Sequence[Size] = SIZES,
    dtypes: Sequence[str] = ("bfloat16",),
    layouts: Sequence[str] = ("nn", "nt", "tn", "tt"),
    *,
    device: str = "cuda:0",
    file: str | None = None,
    seconds: float = float("inf"),
    say: Callable[[str], None] = print,
) -> int:
    """Time a @ b for these sizes (batch, m, k, n) and write the results to this machine's file, or
    to `file`.

    Each call is timed behind a pass over memory, see above: what it takes in a program whose other
    kernels are memory-bound.

    Args:
        sizes, dtypes, layouts: see SIZES and DTYPES; "t" where an operand lies transposed.
        float8_e4m3: `scaled_matmul`, with
            scales of rows and columns and results in bfloat16; single products, whose b lies
            transposed ("nt"), alone.
        device: which GPU.
        seconds: stop, between two sizes, after so long.
        say: is told each result.

    Returns: how many were measured.
    Raises: DeviceError without a GPU.
    """
    end, count, target = time.monotonic() + seconds, 0, pathlib.Path(file) if file else None
    with place(device) as where:
        for dtype in dtypes:
            for layout in layouts:
                for size in sizes:
                    if dtype == "float8_e4m3" and (layout != "nt" or size[0] > 1):
                        continue
                    if time.monotonic() > end:
                        return count
                    op, kind, key, times = product(size, dtype, layout)
                    autotune.save(devices.name(where.index), op, kind, key, times, target)
                    best = min(times, key=times.__getitem__)
                    others = [
                        f", {c} {times[c]:.4g}"
                        for c in ("cublas", "cublaslt")
                        if c in times and c != best
                    ]
                    say(
                        f"{kind} {'x'.join(map(str, key))}: {best} {times[best]:.4g} "
                        f"us{''.join(others)}"
                    )
                    count += 1
    return count


def product(
    size: Size, dtype: str, layout: str
) -> tuple[str, str, tuple[int, ...], dict[str, float]]:
    """(op, kind and sizes as the table calls them, microseconds of every candidate, rounded to four
    digits) on the current device."""
    from .kernels.matmul import dispatch as matmul_dispatch
    from .kernels.matmul import measured
    from .kernels.quantize import dispatch as quantize_dispatch

    a, b = operands(size, DTYPES[dtype], layout)
    given = [a, b]
    key: tuple[int, ...] = size
    if dtype == "float8_e4m3":
        given += [zeros((n,), np.float32) for n in (size[1], size[3])]
        out = Layout.new((size[1], size[3]), np.dtype(bfloat16), a._layout.device)
        op, kind, key = "scaled_matmul", a.dtype.name, size[1:]
        versions = quantize_dispatch.contenders(
            a._layout, b._layout, given[2]._layout, given[3]._layout, None, out
        )
        plan: Callable[..., Any] = functools.partial(
            quantize_dispatch.scaled_matmul, dtype=out.dtype
        )
    else:
        tf32 = dtype == "tf32"
        op, kind = "matmul", measured.kind(a._layout, b._layout, tf32)
        versions = matmul_dispatch.contenders(a._layout, b._layout, tf32)
        plan = functools.partial(matmul_dispatch.matmul, tf32=tf32)
    layouts = [x._layout for x in given]
    calls = {
        v: functools.partial(plan(*layouts, version=v).bind(op, layouts), *given) for v in versions
    }
    wide = zeros((PASS // 4,), np.float32)
    times = in_situ(calls, functools.partial(negative, wide, out=wide))
    return op, kind, key, {name: float(f"{1e3 * t:.4g}") for name, t in times.items()}


def convolutions(
    layers: Sequence[Layer] = LAYERS,
    *,
    device: str = "cuda:0",
    file: str | None = None,
    seconds: float = float("inf"),
    say: Callable[[str], None] = print,
) -> int:
    """Time convolutions and their gradients, of float32 images in C order and of bfloat16 images
    channels last: our kernel, cuBLAS for filters of one tap, and each of cuDNN's plans.

    Args and Returns: see `products`.
    Raises: DeviceError without a GPU.
    """
    end, count, target = time.monotonic() + seconds, 0, pathlib.Path(file) if file else None
    with place(device) as where:
        for layer in layers:
            for dtype, kind in itertools.product(
                (np.float32, bfloat16), ("forward", "input", "weight")
            ):
                if dtype == bfloat16 and (*layer, 1, 1)[7] > 1:
                    continue  # in small groups: not by tensor cores
                if time.monotonic() > end:
                    return count
                what, sizes, times = convolution(layer, kind, dtype)
                autotune.save(devices.name(where.index), "conv2d", what, sizes, times, target)
                best = sorted(times, key=times.__getitem__)
                say(
                    f"{what} {'x'.join(map(str, sizes))}: "
                    + ", ".join(f"{name} {times[name]:.4g} us" for name in best[:3])
                )
                count += 1
    return count


def convolution(
    layer: Layer, kind: str, dtype: Any = np.float32
) -> tuple[str, Size, dict[str, float]]:
    """(what the table calls this, its sizes, microseconds of the candidates) on the current
    device."""
    from .kernels.conv import cudnn as conv_cudnn
    from .kernels.conv import dispatch as conv_dispatch
    from .kernels.conv import pointwise as conv_pointwise
    from .kernels.conv.problem import Problem, tuning_key
    from .kernels.lib.versions import choose
    from .runtime import cudnn

    images, channels, side, outputs, taps, stride, dilation, groups = (*layer, 1, 1)[:8]
    after, margin = (side - 1) // stride + 1, taps // 2 * dilation
    rng = default_rng(0)
    single = np.dtype(dtype).itemsize == 4

    def drawn(*shape: int) -> ndarray:
        """Random images or filters of this shape, in C order or channels last."""
        if single:
            return rng.normal(size=shape, dtype=np.float32)
        return (
            rng.normal(size=(shape[0], *shape[2:], shape[1]), dtype=np.float32)
            .astype(dtype)
            .transpose(0, 3, 1, 2)
        )

    numbers = images * (channels * side**2 + outputs * after**2) * np.dtype(dtype).itemsize
    sets = [
        (
            drawn(images, channels, side, side),
            drawn(outputs, channels // groups, taps, taps),
            drawn(images, outputs, after, after),
        )
        for _ in range(max(1, min(8, PASS // numbers)))
    ]
    x, w, y = sets[0]
    where: dict[str, Any] = {
        "stride": (stride,) * 2,
        "padding": (margin,) * 4,
        "dilation": (dilation,) * 2,
        "groups": groups,
    }
    read = {"forward": (0, 1), "input": (2, 1), "weight": (2, 0)}[kind]
    pairs = [[each[i] for i in read] for each in sets]
    inputs = pairs[0]
    layouts = [each._layout for each in inputs]
    if kind == "forward":
        problem = Problem.forward(*layouts, **where)
    elif kind == "input":
        problem = Problem.input_gradient(*layouts, size=(side, side), **where)
    else:
        problem = Problem.weight_gradient(*layouts, kernel=(taps, taps), **where)

    def plan_of(method: str) -> Plan | None:
        """The plan of the preferred version of a method."""
        version = conv_dispatch.version_of(problem, method)
        table = conv_dispatch.TABLES[kind]
        return None if version is None else choose("conv2d", table, problem, version)

    method = "simt" if single else "sm90" if problem.capability[0] == 9 else "sm80"
    plans = {method: plan_of(method)}
    if taps == stride == groups == 1:
        plans["pointwise_cublas"] = plan_of("pointwise_cublas")
        if conv_dispatch.is_product_sm90(problem):
            for tile in conv_pointwise.contenders(problem):
                name = tile.replace("sm90", "pointwise_matmul")
                plans[name] = conv_pointwise.as_product(problem, tile)
    if taps > 1:
        plans["im2col_cublas"] = plan_of("im2col_cublas")
    found: dict[str, Callable[..., Any]] = {
        name: plan.bind("conv2d", layouts) for name, plan in plans.items() if plan is not None
    }
    ours = found[method]
    if cudnn.available():
        exact, most = (
            ours(*inputs),
            (EXACT if single else ROUNDED) * float(ours(*map(abs, inputs)).max()),
        )
        for name in conv_cudnn.names_of_plans(problem):
            plan = conv_cudnn.convolution(problem, name)
            run = plan.bind("conv2d", layouts) if plan else None
            if run and float(abs(run(*inputs) - exact).max()) <= most:
                found[f"cudnn {name}"] = run

    def walk(run: Callable[..., Any]) -> None:
        for pair in pairs:
            run(*pair)

    calls = {name: cuda.graph(functools.partial(walk, run)) for name, run in found.items()}
    times = {name: float(f"{1e3 * t / len(pairs):.4g}") for name, t in interleaved(calls).items()}
    what = tuning_key(x.dtype, kind, (taps, taps), where["stride"], where["dilation"], groups)
    return what, (images, channels, side * side, outputs), times


def operands(size: Size, dtype: Any, layout: str) -> tuple[ndarray, ndarray]:
    """Random operands that lie as `layout` says."""
    batch, m, k, n = size
    rng = default_rng(0)

    def one(rows: int, columns: int, how: str) -> ndarray:
        shape = (batch,) * (batch > 1) + ((rows, columns) if how == "n" else (columns, rows))
        x = rng.normal(size=shape, dtype=np.float32).astype(dtype)
        return x if how == "n" else x.mT

    return one(m, k, layout[0]), one(k, n, layout[1])


def in_situ(
    calls: Mapping[str, Callable[[], object]], between: Callable[[], object], rounds: int = 25
) -> dict[str, float]:
    """Median milliseconds of device time of each call right after `between`, in rounds in random
    order.

    Those that take more than FAR times as long as the fastest drop out after the first rounds.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    kept, first, shuffled = list(calls), 2, random.Random(0)
    for number in range(first + rounds):
        recorded = []
        for name in shuffled.sample(kept, len(kept)):
            between()
            start = Event().record()
            calls[name]()
            recorded.append((name, start, Event().record()))
        synchronize()
        for name, start, stop in recorded:
            samples[name].append(start.elapsed(stop))
        if number == first - 1:  # the first of all compiled
            least = min(times[-1] for times in samples.values())
            kept = [name for name in kept if samples[name][-1] <= FAR * least]
            samples = {name: [] for name in kept}
    return {name: sorted(times)[len(times) // 2] for name, times in samples.items()}
