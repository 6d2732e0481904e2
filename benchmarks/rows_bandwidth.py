"""Rows of work that memory limits: elementwise functions, copies, reductions, pools, optimizers,
and functions fused by `cm.fuse` beside `torch.compile`.

`work` is the floor in bytes: what must be read and written if every array moves once (gradients:
what forward and backward must read and write, each by itself). Softmax, normalisation and losses
are in rows_norms.py.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.rows import PEERS, Bind, Call, everywhere, faster, method, normal, repeated, row

N = 1 << 27  # numbers of a large array
SIDE = 8192
IMAGES = (32, 64, 256, 256)
PIXELS = 32 * 64 * 256 * 256
VOCABULARY = 50257


def in_bfloat16(function: Callable[..., Any]) -> dict[str, Bind]:
    """The same function of bfloat16 arrays for cudamath and torch; it gets the library first."""

    def ours(lib: Any, *arrays: Any) -> Call:
        halves = [a.astype("bfloat16") for a in arrays]
        return lambda: function(lib, *halves)

    def torch(lib: Any, *arrays: Any) -> Call:
        halves = [a.bfloat16() for a in arrays]
        return lambda: function(lib, *halves)

    return {"cudamath": ours, "torch": torch}


def pair(
    ours: Callable[..., Any],
    torch: Callable[..., Any],
    kind: str = "float32",
    fixed: int = 0,
    compiled: bool = False,
) -> dict[str, Bind]:
    """A function for cudamath (of its `ml`) and one for torch (of torch.nn.functional); kind: of
    all arrays but the last `fixed`; compiled: by torch.compile too, and the faster of both."""

    def bind(lib: Any, *arrays: Any) -> Call:
        count = len(arrays) - fixed
        arguments = (*[a.astype(kind) for a in arrays[:count]], *arrays[count:])
        return lambda: ours(lib.ml, *arguments)

    def bind_torch(lib: Any, *arrays: Any) -> Call:
        count = len(arrays) - fixed
        arguments = (*[a.to(getattr(lib, kind)) for a in arrays[:count]], *arrays[count:])
        return fastest(
            lib, [functools.partial(run, *arguments) for run in ways(lib, torch, compiled)]
        )

    return {"cudamath": bind, "torch": bind_torch}


def slopes(
    ours: Callable[..., Any],
    torch: Callable[..., Any],
    kind: str = "float32",
    fixed: int = 0,
    compiled: bool = False,
) -> dict[str, Bind]:
    """Forward and the gradients of all arrays but the last `fixed`, for a gradient of ones; see
    `pair`."""

    def bind(lib: Any, *arrays: Any) -> Call:
        count = len(arrays) - fixed
        floats, rest = [a.astype(kind) for a in arrays[:count]], arrays[count:]
        g = lib.ones_like(ours(lib.ml, *floats, *rest))

        def call() -> Any:
            y, pull = lib.vjp(lambda *xs: ours(lib.ml, *xs, *rest), *floats)
            return y, pull(g)

        return call

    def bind_torch(lib: Any, *arrays: Any) -> Call:
        count = len(arrays) - fixed
        floats = [a.to(getattr(lib, kind)).requires_grad_() for a in arrays[:count]]
        rest = arrays[count:]
        g = lib.ones_like(torch(lib.nn.functional, *floats, *rest))

        def gradients(run: Callable[..., Any]) -> Any:
            return lib.autograd.grad(run(*floats, *rest), floats, g)

        return fastest(
            lib, [functools.partial(gradients, run) for run in ways(lib, torch, compiled)]
        )

    return {"cudamath": bind, "torch": bind_torch}


def ways(lib: Any, function: Callable[..., Any], compiled: bool) -> list[Callable[..., Any]]:
    """torch's function as it is, and compiled for the shapes it meets."""
    eager = functools.partial(function, lib.nn.functional)
    if not compiled:
        return [eager]
    lib._dynamo.config.recompile_limit = 1000  # a function of each row, all with this one's code
    return [eager, lib.compile(lambda *xs: eager(*xs), dynamic=False)]


def fastest(lib: Any, calls: Sequence[Call]) -> Call:
    """The faster one, if there are several."""
    return faster(lib, calls) if len(calls) > 1 else calls[0]


def functional(lib: Any) -> Any:
    """Where a library has its functions of machine learning."""
    return lib.ml if lib.__name__ == "cudamath" else lib.nn.functional


# -------------------- elementwise, copies

row(
    "add_bf16",
    "device",
    "a + b, 2^27, bfloat16",
    repeated((N,), (N,)),
    in_bfloat16(lambda lib, a, b: a + b),
    work=6 * N,
    unit="B",
)
row(
    "add_small",
    "device",
    "a + b, 2^18",
    repeated((1 << 18,), (1 << 18,)),
    everywhere(lambda lib, a, b: lambda: a + b, *PEERS),
    work=12 << 18,
    unit="B",
    copies=64,
)
row(
    "add_medium",
    "device",
    "a + b, 2^24",
    repeated((1 << 24,), (1 << 24,)),
    everywhere(lambda lib, a, b: lambda: a + b, *PEERS),
    work=12 << 24,
    unit="B",
    copies=2,
)
row(
    "gelu",
    "device",
    "gelu, 2^27",
    repeated((N,)),
    pair(lambda ml, x: ml.gelu(x), lambda f, x: f.gelu(x)),
    work=8 * N,
    unit="B",
)
row(
    "gelu_bf16",
    "device",
    "gelu, 2^27, bfloat16",
    repeated((N,)),
    in_bfloat16(lambda lib, x: functional(lib).gelu(x)),
    work=4 * N,
    unit="B",
)
row(
    "where",
    "device",
    "where(a > b, a, b) of a mask, 2^26",
    repeated((N // 2,), (N // 2,), (N // 2,)),
    {
        "cudamath": lambda lib, m, a, b: (lambda mask: lambda: lib.where(mask, a, b))(m > 0),
        "torch": lambda lib, m, a, b: (lambda mask: lambda: lib.where(mask, a, b))(m > 0),
        "cupy": lambda lib, m, a, b: (lambda mask: lambda: lib.where(mask, a, b))(m > 0),
    },
    work=13 * N // 2,
    unit="B",
)
row(
    "strided",
    "device",
    "a[:, ::2] + 1, 8192x16384",
    repeated((SIDE, 2 * SIDE)),
    everywhere(lambda lib, a: lambda: a[:, ::2] + 1.0, *PEERS),
    work=12 * SIDE * SIDE,
    unit="B",
)
row(
    "unaligned",
    "device",
    "a[:, 1:] + 1, 8192x8193",
    repeated((SIDE, SIDE + 1)),
    everywhere(lambda lib, a: lambda: a[:, 1:] + 1.0, *PEERS),
    work=8 * SIDE * SIDE,
    unit="B",
)
row(
    "copy_transposed",
    "device",
    "a.T in C order, 8192x8192",
    repeated((SIDE, SIDE)),
    {
        "cudamath": lambda lib, a: lambda: lib.copy(a.T),
        "torch": lambda lib, a: lambda: a.T.contiguous(),
        "cupy": lambda lib, a: lambda: lib.ascontiguousarray(a.T),
    },
    work=8 * SIDE * SIDE,
    unit="B",
)
WINDOWS = (
    1,
    4,
    5,
    0,
    2,
    3,
)  # image, channel, place, place in the window -> channel, place in the window, image, place
row(
    "copy_windows",
    "device",
    "3x3 windows of 32x64x58x58 as columns",
    repeated((32, 64, 58, 58)),
    {
        "cudamath": lambda lib, a: (
            lambda: lib.copy(
                lib.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(2, 3)).transpose(WINDOWS)
            )
        ),
        "torch": lambda lib, a: (
            lambda: a.unfold(2, 3, 1).unfold(3, 3, 1).permute(WINDOWS).contiguous()
        ),
        "cupy": lambda lib, a: (
            lambda: lib.ascontiguousarray(
                lib.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(2, 3)).transpose(WINDOWS)
            )
        ),
    },
    work=4 * 32 * 64 * (58 * 58 + 9 * 56 * 56),
    unit="B",
)
row(
    "channels_first",
    "device",
    "NHWC to NCHW, 32x128x128x128",
    repeated((32, 128, 128, 128)),
    {
        "cudamath": lambda lib, a: lambda: lib.copy(a.transpose((0, 3, 1, 2))),
        "torch": lambda lib, a: lambda: a.permute(0, 3, 1, 2).contiguous(),
        "cupy": lambda lib, a: lambda: lib.ascontiguousarray(a.transpose(0, 3, 1, 2)),
    },
    work=8 * 32 * 128**3,
    unit="B",
)
row(
    "transposed_matrices",
    "device",
    "the matrices of 512x512x512 transposed",
    repeated((512, 512, 512)),
    {
        "cudamath": lambda lib, a: lambda: lib.copy(a.mT),
        "torch": lambda lib, a: lambda: a.mT.contiguous(),
        "cupy": lambda lib, a: lambda: lib.ascontiguousarray(a.swapaxes(1, 2)),
    },
    work=8 * N,
    unit="B",
)
row(
    "axes_turned",
    "device",
    "axes (2, 0, 1) of 512x512x512",
    repeated((512, 512, 512)),
    {
        "cudamath": lambda lib, a: lambda: lib.copy(a.transpose((2, 0, 1))),
        "torch": lambda lib, a: lambda: a.permute(2, 0, 1).contiguous(),
        "cupy": lambda lib, a: lambda: lib.ascontiguousarray(a.transpose((2, 0, 1))),
    },
    work=8 * N,
    unit="B",
)
row(
    "gather",
    "device",
    "take_along_axis(a, i, 1), 8192x4096, int64",
    lambda rng: (
        np.resize(rng.standard_normal(1 << 20, dtype=np.float32), (SIDE, 4096)),
        np.resize(rng.integers(0, 4096, 1 << 20), (SIDE, 4096)),
    ),
    {
        "cudamath": lambda lib, a, i: lambda: lib.take_along_axis(a, i, axis=1),
        "torch": lambda lib, a, i: lambda: lib.gather(a, 1, i),
        "cupy": lambda lib, a, i: lambda: lib.take_along_axis(a, i, 1),
    },
    work=16 * SIDE * 4096,
    unit="B",
)
row(
    "concat",
    "device",
    "two 8192x4096 side by side",
    repeated((SIDE, 4096), (SIDE, 4096)),
    {
        "cudamath": lambda lib, a, b: lambda: lib.concat([a, b], axis=1),
        "torch": lambda lib, a, b: lambda: lib.cat([a, b], 1),
        "cupy": lambda lib, a, b: lambda: lib.concatenate([a, b], 1),
    },
    work=16 * SIDE * 4096,
    unit="B",
)
row(
    "dropout",
    "device",
    "dropout, 2^27",
    repeated((N,)),
    pair(lambda ml, x: ml.dropout(x, 0.1), lambda f, x: f.dropout(x, 0.1)),
    work=8 * N,
    unit="B",
    random=True,
)

# -------------------- reductions

row(
    "sum_middle",
    "device",
    "a.sum(1), 64x2048x1024",
    repeated((64, 2048, 1024)),
    everywhere(method("sum", 1), *PEERS),
    work=4 * N,
    unit="B",
)
row(
    "sum_short",
    "device",
    "a.sum(1), 2^21x64",
    repeated((1 << 21, 64)),
    everywhere(method("sum", 1), *PEERS),
    work=4 * N,
    unit="B",
)
row(
    "max_middle",
    "device",
    "max(a, 1), 64x2048x1024",
    repeated((64, 2048, 1024)),
    everywhere(
        lambda lib, a: lambda: lib.amax(a, 1) if lib.__name__ == "torch" else lib.max(a, axis=1),
        *PEERS,
    ),
    work=4 * N,
    unit="B",
)
row(
    "argmax_middle",
    "device",
    "argmax(a, 1), 64x2048x1024",
    repeated((64, 2048, 1024)),
    {
        "cudamath": lambda lib, a: lambda: lib.argmax(a, axis=1),
        "torch": lambda lib, a: lambda: lib.argmax(a, 1),
        "cupy": lambda lib, a: lambda: lib.argmax(a, 1),
    },
    work=4 * N,
    unit="B",
)
row(
    "cumsum_middle",
    "device",
    "cumsum(a, 1), 64x2048x1024",
    repeated((64, 2048, 1024)),
    {
        "cudamath": lambda lib, a: lambda: lib.cumulative_sum(a, axis=1),
        "torch": lambda lib, a: lambda: lib.cumsum(a, 1),
        "cupy": lambda lib, a: lambda: lib.cumsum(a, 1),
    },
    work=8 * N,
    unit="B",
)
row(
    "max_bf16",
    "device",
    "max(a, 1), 32768x4096, bfloat16",
    repeated((32768, 4096)),
    in_bfloat16(lambda lib, a: a.max(1) if lib.__name__ == "cudamath" else a.amax(1)),
    work=2 * N,
    unit="B",
)
row(
    "sum_bf16",
    "device",
    "a.sum(1), 32768x4096, bfloat16",
    repeated((32768, 4096)),
    in_bfloat16(lambda lib, a: a.sum(1)),
    work=2 * N,
    unit="B",
)
row(
    "argmax_all",
    "device",
    "argmax(a), 2^27",
    repeated((N,)),
    everywhere(lambda lib, a: lambda: lib.argmax(a), *PEERS),
    work=4 * N,
    unit="B",
)
row(
    "var_columns",
    "device",
    "var(a, 0), 32768x4096",
    repeated((32768, 4096)),
    {
        "cudamath": lambda lib, x: lambda: lib.var(x, axis=0),
        "torch": lambda lib, x: lambda: lib.var(x, 0, correction=0),
        "cupy": lambda lib, x: lambda: lib.var(x, 0),
    },
    work=4 * N,
    unit="B",
)
row(
    "norm",
    "device",
    "norm(a), 2^27",
    repeated((N,)),
    everywhere(lambda lib, a: lambda: lib.linalg.norm(a), *PEERS),
    work=4 * N,
    unit="B",
)

# -------------------- pools, embedding

row(
    "max_pool2d_3x3",
    "device",
    "max_pool2d, 32x64x256x256, 3x3, stride 2",
    repeated(IMAGES),
    pair(lambda ml, x: ml.max_pool2d(x, 3, 2, 1), lambda f, x: f.max_pool2d(x, 3, 2, 1)),
    work=5 * PIXELS,
    unit="B",
)
row(
    "max_pool2d_gradient",
    "device",
    "max_pool2d and gradient, 32x64x256x256, 2x2",
    repeated(IMAGES),
    slopes(lambda ml, x: ml.max_pool2d(x, 2), lambda f, x: f.max_pool2d(x, 2)),
    work=10.5 * PIXELS,
    unit="B",
)
row(
    "max_pool2d_3x3_gradient",
    "device",
    "max_pool2d and gradient, 32x64x256x256, 3x3, stride 2",
    repeated(IMAGES),
    slopes(lambda ml, x: ml.max_pool2d(x, 3, 2, 1), lambda f, x: f.max_pool2d(x, 3, 2, 1)),
    work=10.5 * PIXELS,
    unit="B",
)
row(
    "avg_pool2d",
    "device",
    "avg_pool2d, 32x64x256x256, 2x2",
    repeated(IMAGES),
    pair(lambda ml, x: ml.avg_pool2d(x, 2), lambda f, x: f.avg_pool2d(x, 2)),
    work=5 * PIXELS,
    unit="B",
)
row(
    "embedding_gradient",
    "device",
    "embedding and gradient, 8192 of 50257x768",
    lambda rng: (
        np.resize(rng.standard_normal(1 << 20, dtype=np.float32), (VOCABULARY, 768)),
        rng.integers(0, VOCABULARY, 8192),
    ),
    slopes(lambda ml, w, i: ml.embedding(i, w), lambda f, w, i: f.embedding(i, w), fixed=1),
    work=12 * 8192 * 768 + 4 * VOCABULARY * 768,
    unit="B",
    hide_host=True,
)

# -------------------- optimizers: 124 million parameters in 148 arrays

BLOCK = (
    (768,),
    (768,),
    (768, 2304),
    (2304,),
    (768, 768),
    (768,),
    (768,),
    (768,),
    (768, 3072),
    (3072,),
    (3072, 768),
    (768,),
)
GPT2 = (
    (VOCABULARY, 768),
    (1024, 768),
    *(shape for _ in range(12) for shape in BLOCK),
    (768,),
    (768,),
)
PARAMETERS = sum(math.prod(shape) for shape in GPT2)


def split(x: Any) -> list[Any]:
    """New arrays of GPT-2's shapes, from a long one."""
    parts, at = [], 0
    for shape in GPT2:
        parts.append(x[at : at + math.prod(shape)].reshape(shape) * 1.0)
        at += math.prod(shape)
    return parts


def optimizer(
    ours: Callable[[Any, list, list], Call], torchs: Callable[[Any, Sequence], Call]
) -> dict[str, Bind]:
    """A step of all parameters: `ours` of (ml, parameters, gradients), `torchs` of (torch,
    parameters with gradients)."""

    def torch(lib: Any, p: Any, g: Any) -> Call:
        parameters = [each.requires_grad_() for each in split(p)]
        for each, slope in zip(parameters, split(g), strict=True):
            each.grad = slope
        return torchs(lib, parameters)

    return {"cudamath": lambda lib, p, g: ours(lib.ml, split(p), split(g)), "torch": torch}


def adamw(ml: Any, p: list, g: list) -> Call:
    """cudamath's."""
    state = ml.adam_init(p)
    return lambda: ml.adamw_update(p, g, state, lr=1e-4)


def momentum(ml: Any, p: list, g: list) -> Call:
    """cudamath's."""
    state = ml.sgd_init(p)
    return lambda: ml.sgd_update(p, g, state, lr=1e-4, momentum=0.9)


def mixed(ml: Any, p: list, g: list) -> Call:
    """cudamath's: gradients and copies of 16 bits."""
    state, copies, slopes = ml.adam_init(p), ml.amp.cast(p, "bfloat16"), ml.amp.cast(g, "bfloat16")
    return lambda: ml.adamw_update(p, slopes, state, lr=1e-4, copies=copies)


def torch_mixed(torch: Any, p: Sequence) -> Call:
    """torch's: what it does beside its step, since parameters must have gradients of their own
    dtype, is to cast."""
    step, masters = torch.optim.AdamW(p, lr=1e-4, fused=True).step, [each.detach() for each in p]
    copies = [each.bfloat16() for each in masters]

    def call() -> None:
        step()
        torch._foreach_copy_(copies, masters)

    return call


row(
    "adamw",
    "device",
    "AdamW, 124M parameters in 148 arrays",
    repeated((PARAMETERS,), (PARAMETERS,)),
    optimizer(adamw, lambda torch, p: torch.optim.AdamW(p, lr=1e-4, fused=True).step),
    work=28 * PARAMETERS,
    unit="B",
)
row(
    "adamw_mixed",
    "device",
    "AdamW with bfloat16 copies, 124M parameters in 148 arrays",
    repeated((PARAMETERS,), (PARAMETERS,)),
    optimizer(mixed, torch_mixed),
    work=28 * PARAMETERS,
    unit="B",
)
row(
    "sgd",
    "device",
    "SGD with momentum, 124M parameters in 148 arrays",
    repeated((PARAMETERS,), (PARAMETERS,)),
    optimizer(
        momentum, lambda torch, p: torch.optim.SGD(p, lr=1e-4, momentum=0.9, fused=True).step
    ),
    work=20 * PARAMETERS,
    unit="B",
)
row(
    "clip_grad_norm",
    "device",
    "clip_grad_norm, 124M parameters in 148 arrays",
    repeated((PARAMETERS,), (PARAMETERS,)),
    optimizer(
        lambda ml, _, g: lambda: ml.clip_grad_norm(g, 1.0),
        lambda torch, p: lambda: torch.nn.utils.clip_grad_norm_(p, 1.0, foreach=True),
    ),
    work=12 * PARAMETERS,
    unit="B",
)
row(
    "clip_factor",
    "device",
    "norm of all gradients, 124M in 148 arrays",
    repeated((PARAMETERS,), (PARAMETERS,)),
    optimizer(
        lambda ml, _, g: lambda: ml.clip_factor(g, 1.0),
        lambda torch, p: (
            lambda: torch.nn.utils.get_total_norm([each.grad for each in p], foreach=True)
        ),
    ),
    work=4 * PARAMETERS,
    unit="B",
)

# -------------------- fused functions: cm.fuse beside torch.compile


def gelu(lib: Any, x: Any) -> Any:
    """By hand."""
    return 0.5 * x * (1 + lib.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def layer_norm(lib: Any, x: Any, w: Any, b: Any) -> Any:
    """By hand."""
    apart = x - x.mean(-1)[:, None]
    return apart / lib.sqrt((apart * apart).mean(-1)[:, None] + 1e-5) * w + b


def chain(lib: Any, x: Any, y: Any) -> Any:
    """Ten operations."""
    z = x * y + 1.0
    return lib.exp(-lib.abs(z * z - x)) * 0.5 + x / (1.0 + lib.abs(y))


def mean_square(lib: Any, x: Any, y: Any) -> Any:
    """A reduction of everything."""
    return ((x - y) * (x - y)).mean()


def fused(function: Callable[..., Any]) -> dict[str, Bind]:
    """cm.fuse and torch.compile of one function of (library, arrays); CuPy as it is."""

    def ours(lib: Any, *arrays: Any) -> Call:
        fused = lib.fuse(lambda *xs: function(lib, *xs))
        return lambda: fused(*arrays)

    def torch(lib: Any, *arrays: Any) -> Call:
        compiled = lib.compile(lambda *xs: function(lib, *xs))
        return lambda: compiled(*arrays)

    return {
        "cudamath": ours,
        "torch": torch,
        "cupy": lambda lib, *arrays: lambda: function(lib, *arrays),
    }


row(
    "fuse_gelu",
    "device",
    "gelu by hand, fused, 2^27",
    repeated((N,)),
    fused(gelu),
    work=8 * N,
    unit="B",
)
row(
    "fuse_layer_norm",
    "device",
    "layer norm by hand, fused, 16384x4096",
    repeated((16384, 4096), (4096,), (4096,)),
    fused(layer_norm),
    work=8 * N // 2,
    unit="B",
)
row(
    "fuse_chain",
    "device",
    "ten operations, fused, 2^26",
    repeated((N // 2,), (N // 2,)),
    fused(chain),
    work=12 * N // 2,
    unit="B",
)
row(
    "fuse_mean_square",
    "device",
    "mean((a - b)^2), fused, 2^27",
    repeated((N,), (N,)),
    fused(mean_square),
    work=8 * N,
    unit="B",
)

# -------------------- host: small calls

row(
    "host_layer_norm",
    "host",
    "layer_norm, 64x64",
    normal((64, 64), (64,), (64,)),
    pair(
        lambda ml, x, w, b: ml.layer_norm(x, 64, w, b),
        lambda f, x, w, b: f.layer_norm(x, (64,), w, b),
    ),
)
row(
    "host_max_pool2d",
    "host",
    "max_pool2d, 4x8x16x16, 2x2",
    normal((4, 8, 16, 16)),
    pair(lambda ml, x: ml.max_pool2d(x, 2), lambda f, x: f.max_pool2d(x, 2)),
)
row(
    "host_gelu",
    "host",
    "gelu, 4,096",
    normal((4096,)),
    pair(lambda ml, x: ml.gelu(x), lambda f, x: f.gelu(x)),
)
row(
    "host_transposed",
    "host",
    "a + b.T, 64x64",
    normal((64, 64), (64, 64)),
    everywhere(lambda lib, a, b: lambda: a + b.T),
)
row("host_fuse", "host", "ten operations, fused, 4,096", normal((4096,), (4096,)), fused(chain))

# -------------------- CUDA graphs

STEPS = 50


def steps(a: Any) -> Any:
    """Small kernels, one after the other."""
    for _ in range(STEPS):
        a = a + 1.0
    return a


def graphed_torch(lib: Any, a: Any) -> Call:
    """PyTorch's graph of `steps`."""
    side = lib.cuda.Stream()
    with lib.cuda.stream(side):
        steps(a)
    lib.cuda.synchronize()
    graph = lib.cuda.CUDAGraph()
    with lib.cuda.graph(graph):
        steps(a)
    return graph.replay


def captured(lib: Any, a: Any) -> Call:
    """cudamath's, replayed as it is, like PyTorch's."""
    steps(a)
    with lib.cuda.capture() as recorded:
        steps(a)
    return recorded.replay


def graphed(lib: Any, a: Any) -> Call:
    """cudamath's function as a graph, into which the argument and from which the result is
    copied."""
    replayed = lib.cuda.graph(steps)
    return lambda: replayed(a)


row(
    "graph_steps",
    "device",
    f"{STEPS} times a + 1.0, 4,096, as one CUDA graph",
    repeated((4096,)),
    {
        "cudamath": captured,
        "torch": graphed_torch,
        "argument and result copied": graphed,
        "without a graph": lambda lib, a: lambda: steps(a),
    },
    work=STEPS * 8 * 4096,
    unit="B",
)

# -------------------- what others advertise

MEGA = 1 << 20
row(
    "add_1m",
    "device",
    "a + b, 2^20",
    repeated((MEGA,), (MEGA,)),
    everywhere(lambda lib, a, b: lambda: a + b, *PEERS),
    work=12 * MEGA,
    unit="B",
    copies=16,
)
row(
    "sum_1m",
    "device",
    "a.sum(), 2^20",
    repeated((MEGA,)),
    everywhere(method("sum"), *PEERS),
    work=4 * MEGA,
    unit="B",
    copies=32,
)
row(
    "softmax_10k",
    "device",
    "softmax, 10,000",
    repeated((10_000,)),
    pair(lambda ml, x: ml.softmax(x), lambda f, x: f.softmax(x, -1)),
    work=80_000,
    unit="B",
    copies=64,
)
ADVERTISED = (
    (
        "relu_1m",
        "relu, 2^20",
        ((MEGA,),),
        lambda ml, x: ml.relu(x),
        lambda f, x: f.relu(x),
        8 * MEGA,
    ),
    (
        "max_pool_128",
        "max_pool2d, 32x64x128x128, 2x2",
        ((32, 64, 128, 128),),
        lambda ml, x: ml.max_pool2d(x, 2),
        lambda f, x: f.max_pool2d(x, 2),
        5 * 32 * 64 * 128 * 128,
    ),
    (
        "batch_norm_32",
        "batch_norm, 32x64x32x32",
        ((32, 64, 32, 32), (64,), (64,)),
        lambda ml, x, m, v: ml.batch_norm(x, m, v * v),
        lambda f, x, m, v: f.batch_norm(x, m, v * v),
        8 * 32 * 64 * 32 * 32,
    ),
)
for name, title, shapes, ours, torchs, work in ADVERTISED:
    row(name, "device", title, repeated(*shapes), pair(ours, torchs), work=work, unit="B", copies=4)
    row(f"cpu_{name}", "cpu", title, repeated(*shapes), pair(ours, torchs), work=work, unit="B")
