"""The rows: what is measured. A row names an operation, its arguments, and how each library is
asked for it.

Kinds of rows:
    host     what a call costs the host: public call to return, output allocated; the device works
             behind
    device   time on the GPU by events; `work` is the floor in bytes moved or the flops, whichever
             limits
    cpu      time on the CPU, from call to result
A library takes part in a row if the row's `calls` has an entry for it, and if it is installed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Call = Callable[[], object]
# (library, arrays as that library's) -> a function without arguments
Bind = Callable[..., Call]


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of a table; see the module's docstring."""

    name: str
    kind: str
    title: str
    arguments: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    calls: dict[str, Bind]
    work: float = 0
    unit: str = ""  # of `work`: "B" or "FLOP"
    ceiling: str = ""  # which of run.ceilings; by default the unit's
    copies: int = 1  # of the arguments, walked through call by call
    traffic: float = 0  # bytes of operands and results, where `work` counts operations
    hide_host: bool = False  # "device": see timer.on_device
    random: bool = False  # results are other numbers of the same distribution


ROWS: dict[str, Row] = {}
# takes part in the CPU's rows beside NumPy: how far it is from itself is what a run cannot tell
AGAIN = "numpy again"


def row(
    name: str, kind: str, title: str, arguments: Any, calls: dict[str, Bind], **more: Any
) -> None:
    """Register a row."""
    if name in ROWS:
        raise ValueError(f"row: {name} is there twice")
    ROWS[name] = Row(name, kind, title, arguments, calls, **more)


def normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """Arguments: one array of standard normals, float32, for each shape."""
    return lambda rng: tuple(rng.standard_normal(shape, dtype=np.float32) for shape in shapes)


def everywhere(bind: Bind, *names: str) -> dict[str, Bind]:
    """The same expression for all of these libraries."""
    return dict.fromkeys(names or ("cudamath", "numpy", "torch", "cupy"), bind)


def method(name: str, *args: Any) -> Bind:
    """x -> x.name(*args)."""
    return lambda lib, x: lambda: getattr(x, name)(*args)


def faster(torch: Any, calls: Sequence[Call]) -> Call:
    """Of several ways to ask torch for the same, the one that takes less time; a way that torch
    refuses is left out."""
    found: list[tuple[float, int, Call]] = []
    for call in calls:
        try:
            for _ in range(3):
                call()
        except RuntimeError:
            continue
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            call()
        end.record()
        torch.cuda.synchronize()
        found.append((begin.elapsed_time(end), len(found), call))
    return min(found)[2]


def jitted(function: Callable[[Any], Callable[..., Any]]) -> Bind:
    """JAX: the function that `function(jax)` gives, jitted."""

    def bind(jax: Any, *arrays: Any) -> Call:
        compiled = jax.jit(function(jax))
        return lambda: compiled(*arrays)

    return bind


def numpy_softmax(lib: Any, x: Any) -> Call:
    """What NumPy's user writes."""

    def call() -> Any:
        e = lib.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    return call


def cupy_softmax(lib: Any, x: Any) -> Call:
    """CuPy's, from its scipy namespace."""
    from cupyx.scipy.special import softmax

    return lambda: softmax(x, -1)


# -------------------- host: small arrays, cost of a call

SMALL = 4096

row(
    "host_add",
    "host",
    "a + b, 4,096",
    normal((SMALL,), (SMALL,)),
    {**everywhere(lambda lib, a, b: lambda: a + b), "jax": jitted(lambda jax: lambda a, b: a + b)},
)
row(
    "host_sum",
    "host",
    "a.sum(), 4,096",
    normal((SMALL,)),
    {**everywhere(lambda lib, a: lambda: a.sum()), "jax": jitted(lambda jax: lambda a: a.sum())},
)
row(
    "host_matmul",
    "host",
    "a @ b, 64x64",
    normal((64, 64), (64, 64)),
    {**everywhere(lambda lib, a, b: lambda: a @ b), "jax": jitted(lambda jax: lambda a, b: a @ b)},
)
row(
    "host_softmax",
    "host",
    "softmax, 64x64",
    normal((64, 64)),
    {
        "cudamath": lambda lib, x: lambda: lib.ml.softmax(x),
        "torch": lambda lib, x: lambda: lib.softmax(x, -1),
        "numpy": numpy_softmax,
        "cupy": cupy_softmax,
        "jax": jitted(lambda jax: jax.nn.softmax),
    },
)
row(
    "host_slice", "host", "a[1:], 4,096", normal((SMALL,)), everywhere(lambda lib, a: lambda: a[1:])
)
row(
    "host_exp",
    "host",
    "exp(a), 4,096",
    normal((SMALL,)),
    {**everywhere(lambda lib, a: lambda: lib.exp(a)), "jax": jitted(lambda jax: jax.numpy.exp)},
)

# -------------------- device: large arrays, time on the GPU

MEBI = 1 << 20
BIG = 1 << 28  # 1 GiB of float32


def repeated(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """Arguments too large to draw quickly: a repeated row of random numbers."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        return tuple(
            np.resize(rng.standard_normal(MEBI, dtype=np.float32), shape) for shape in shapes
        )

    return make


PEERS = ("cudamath", "torch", "cupy")

row(
    "add",
    "device",
    "a + b, 2^28",
    repeated((BIG,), (BIG,)),
    everywhere(lambda lib, a, b: lambda: a + b, *PEERS),
    work=12 * BIG,
    unit="B",
)
row(
    "exp",
    "device",
    "exp(a), 2^28",
    repeated((BIG,)),
    everywhere(lambda lib, a: lambda: lib.exp(a), *PEERS),
    work=8 * BIG,
    unit="B",
)
row(
    "add_row",
    "device",
    "a + row, 16384x4096",
    repeated((16384, 4096), (4096,)),
    everywhere(lambda lib, a, b: lambda: a + b, *PEERS),
    work=8 * 16384 * 4096,
    unit="B",
)
row(
    "add_transposed",
    "device",
    "a + b.T, 8192x8192",
    repeated((8192, 8192), (8192, 8192)),
    everywhere(lambda lib, a, b: lambda: a + b.T, *PEERS),
    work=12 * 8192 * 8192,
    unit="B",
)
row(
    "sum_all",
    "device",
    "a.sum(), 2^28",
    repeated((BIG,)),
    everywhere(method("sum"), *PEERS),
    work=4 * BIG,
    unit="B",
)
row(
    "sum_rows",
    "device",
    "a.sum(1), 65536x4096",
    repeated((65536, 4096)),
    everywhere(method("sum", 1), *PEERS),
    work=4 * BIG,
    unit="B",
)
row(
    "sum_columns",
    "device",
    "a.sum(0), 65536x4096",
    repeated((65536, 4096)),
    everywhere(method("sum", 0), *PEERS),
    work=4 * BIG,
    unit="B",
)
row(
    "var_rows",
    "device",
    "var(a, 1), 65536x4096",
    repeated((65536, 4096)),
    {
        "cudamath": lambda lib, x: lambda: lib.var(x, axis=1),
        "torch": lambda lib, x: lambda: lib.var(x, 1, correction=0),
        "cupy": lambda lib, x: lambda: lib.var(x, 1),
    },
    work=4 * BIG,
    unit="B",
)
row(
    "argmax_rows",
    "device",
    "argmax(a, 1), 65536x4096",
    repeated((65536, 4096)),
    {
        "cudamath": lambda lib, x: lambda: lib.argmax(x, axis=1),
        "torch": lambda lib, x: lambda: lib.argmax(x, 1),
        "cupy": lambda lib, x: lambda: lib.argmax(x, 1),
    },
    work=4 * BIG,
    unit="B",
)
row(
    "softmax",
    "device",
    "softmax, 16384x4096",
    repeated((16384, 4096)),
    {
        "cudamath": lambda lib, x: lambda: lib.ml.softmax(x),
        "torch": lambda lib, x: lambda: lib.softmax(x, -1),
        "cupy": cupy_softmax,
    },
    work=8 * 16384 * 4096,
    unit="B",
)
row(
    "layer_norm",
    "device",
    "layer_norm, 16384x4096",
    repeated((16384, 4096), (4096,), (4096,)),
    {
        "cudamath": lambda lib, x, w, b: lambda: lib.ml.layer_norm(x, (4096,), w, b),
        "torch": lambda lib, x, w, b: lambda: lib.layer_norm(x, (4096,), w, b),
    },
    work=8 * 16384 * 4096,
    unit="B",
)
row(
    "take",
    "device",
    "take(a, i, 0), 16384 rows of 50257x768",
    lambda rng: (
        np.resize(rng.standard_normal(MEBI, dtype=np.float32), (50257, 768)),
        rng.integers(0, 50257, 16384),
    ),
    {
        "cudamath": lambda lib, x, i: lambda: lib.take(x, i, axis=0),
        "torch": lambda lib, x, i: lambda: lib.index_select(x, 0, i),
        "cupy": lambda lib, x, i: lambda: lib.take(x, i, 0),
    },
    work=8 * 16384 * 768,
    unit="B",
    copies=2,
)

MATMUL = 4096


def planned(path: str, version: str, **params: Any) -> Bind:
    """cudamath's kernel of that name, by the planner `path` = "file.function" (see
    cudamath/kernels)."""

    def bind(lib: Any, *arrays: Any) -> Call:
        from cudamath.core.dispatch.op import Op

        named = Op(f"benchmark of {version}", cpu=path, cuda=path)
        return lambda: named(*arrays, version=version, **params)

    return bind


row(
    "matmul",
    "device",
    "a @ b, 4096x4096",
    normal((MATMUL, MATMUL), (MATMUL, MATMUL)),
    {
        **everywhere(lambda lib, a, b: lambda: a @ b, *PEERS),
        **{
            version: planned("matmul.dispatch.matmul", version)
            for version in ("naive", "tiled", "register_tiles")
        },
    },
    work=2 * MATMUL**3,
    unit="FLOP",
    copies=2,
)


def conv2d_torch(lib: Any, x: Any, w: Any) -> Call:
    """torch's, in float32 (no TF32, which is torch's default for convolutions)."""
    lib.backends.cudnn.allow_tf32 = False
    return lambda: lib.conv2d(x, w, padding=1)


CONV = (32, 64, 128, 128), (128, 64, 3, 3)
row(
    "conv2d",
    "device",
    "conv2d, 32x64x128x128 * 128x64x3x3",
    normal(*CONV),
    {"cudamath": lambda lib, x, w: lambda: lib.ml.conv2d(x, w, padding=1), "torch": conv2d_torch},
    work=2 * 32 * 128 * 128 * 128 * 64 * 9,
    unit="FLOP",
)
row(
    "max_pool2d",
    "device",
    "max_pool2d, 32x64x256x256, 2x2",
    repeated((32, 64, 256, 256)),
    {
        "cudamath": lambda lib, x: lambda: lib.ml.max_pool2d(x, 2),
        "torch": lambda lib, x: lambda: lib.max_pool2d(x, 2),
    },
    work=5 * 32 * 64 * 256 * 256,
    unit="B",
)

# -------------------- cpu: time from call to result, beside NumPy and torch

CPU = ("cudamath", "numpy", "torch")

for size in (100_000, 1_000_000, 10_000_000):
    label, name = f"{size:,}", f"{size:.0e}".replace("+0", "")
    row(
        f"cpu_add_{name}",
        "cpu",
        f"a + b, {label}",
        normal((size,), (size,)),
        everywhere(lambda lib, a, b: lambda: a + b, *CPU),
        work=12 * size,
        unit="B",
    )
    row(
        f"cpu_exp_{name}",
        "cpu",
        f"exp(a), {label}",
        normal((size,)),
        everywhere(lambda lib, a: lambda: lib.exp(a), *CPU),
        work=8 * size,
        unit="B",
    )
    row(
        f"cpu_sum_{name}",
        "cpu",
        f"a.sum(), {label}",
        normal((size,)),
        everywhere(method("sum"), *CPU),
        work=4 * size,
        unit="B",
    )


def reduction(name: str, *axis: int) -> dict[str, Bind]:
    """A reduction of the whole array or over an axis, as the libraries call it; torch's var divides
    by n like NumPy's."""
    torch = {"max": "amax"}.get(name, name)
    biased = {"correction": 0} if name in ("var", "std") else {}
    return {
        **everywhere(method(name, *axis), "cudamath", "numpy"),
        "torch": lambda lib, x: lambda: getattr(x, torch)(*axis, **biased),
    }


for side in (316, 1000):  # 1e5 and 1e6 elements
    label, name = f"{side}x{side}", f"{side**2:.0e}".replace("+0", "")
    for kind in ("sum", "mean", "max", "argmax", "any", "var", "std"):
        for where, axis in (("all", ()), ("columns", (0,)), ("rows", (1,))):
            row(
                f"cpu_{kind}_{where}_{name}",
                "cpu",
                f"a.{kind}({', '.join(map(str, axis))}), {label}",
                normal((side, side)),
                reduction(kind, *axis),
                work=4 * side**2,
                unit="B",
            )
    row(
        f"cpu_multiply_{name}",
        "cpu",
        f"a * 2.0, {side**2:,}",
        normal((side**2,)),
        everywhere(lambda lib, a: lambda: a * 2.0, *CPU),
        work=8 * side**2,
        unit="B",
    )
    row(
        f"cpu_greater_{name}",
        "cpu",
        f"a > b, {side**2:,}",
        normal((side**2,), (side**2,)),
        everywhere(lambda lib, a, b: lambda: a > b, *CPU),
        work=9 * side**2,
        unit="B",
    )
for size in (320, 1024):
    row(
        f"cpu_matmul_{size}",
        "cpu",
        f"a @ b, {size}x{size}",
        normal((size, size), (size, size)),
        everywhere(lambda lib, a, b: lambda: a @ b, *CPU),
        work=2 * size**3,
        unit="FLOP",
    )
row(
    "cpu_softmax",
    "cpu",
    "softmax, 1000x1000",
    normal((1000, 1000)),
    {
        "cudamath": lambda lib, x: lambda: lib.ml.softmax(x),
        "numpy": numpy_softmax,
        "torch": lambda lib, x: lambda: lib.softmax(x, -1),
    },
    work=8e6,
    unit="B",
)


def with_gradients(function: Callable[[Any], Callable[..., Any]]) -> dict[str, Bind]:
    """cudamath and torch: a function of arrays, forward and the gradients of all of them (of the
    output's sum)."""

    def ours(lib: Any, *arrays: Any) -> Call:
        gradient = lib.value_and_grad(lambda tree: function(lib.ml)(*tree).sum())
        return lambda: gradient(arrays)

    def torch(lib: Any, *arrays: Any) -> Call:
        for array in arrays:
            array.requires_grad_()
        return lambda: lib.autograd.grad(function(lib)(*arrays).sum(), arrays)

    return {"cudamath": ours, "torch": torch}


def convolution(name: str, x: tuple[int, ...], w: tuple[int, ...], **how: int) -> None:
    """Two rows: conv2d forward, and with its gradients."""
    flops = 2 * x[0] * (x[2] * x[3] // how.get("stride", 1) ** 2) * w[0] * w[1] * w[2] * w[3]
    text = f"{'x'.join(map(str, x))} * {'x'.join(map(str, w))}" + "".join(
        f", {word} {how[word]}" for word in ("stride", "groups") if word in how
    )
    row(
        f"cpu_conv2d_{name}",
        "cpu",
        f"conv2d, {text}",
        normal(x, w),
        {
            "cudamath": lambda lib, x, w: lambda: lib.ml.conv2d(x, w, **how),
            "torch": lambda lib, x, w: lambda: lib.conv2d(x, w, **how),
        },
        work=flops,
        unit="FLOP",
    )
    row(
        f"cpu_conv2d_{name}_gradients",
        "cpu",
        f"conv2d and gradients, {text}",
        normal(x, w),
        with_gradients(lambda lib: lambda x, w: lib.conv2d(x, w, **how)),
        work=3 * flops,
        unit="FLOP",
    )


convolution("56", (32, 64, 56, 56), (64, 64, 3, 3), padding=1)
convolution("28", (64, 1, 28, 28), (32, 1, 3, 3), padding=1)
convolution("14", (64, 32, 14, 14), (64, 32, 3, 3), padding=1)
convolution("1x1", (32, 64, 28, 28), (128, 64, 1, 1))
convolution("stride2", (32, 64, 28, 28), (128, 64, 3, 3), padding=1, stride=2)
convolution("depthwise_14", (32, 128, 14, 14), (128, 1, 3, 3), padding=1, groups=128)
convolution("depthwise_7", (8, 960, 7, 7), (960, 1, 3, 3), padding=1, groups=960)
convolution("depthwise_stride2", (32, 128, 14, 14), (128, 1, 3, 3), padding=1, stride=2, groups=128)
POOL = (32, 64, 56, 56)
row(
    "cpu_max_pool2d",
    "cpu",
    "max_pool2d, 32x64x56x56, 2x2",
    normal(POOL),
    {
        "cudamath": lambda lib, x: lambda: lib.ml.max_pool2d(x, 2),
        "torch": lambda lib, x: lambda: lib.max_pool2d(x, 2),
    },
    work=5 * 32 * 64 * 56 * 56,
    unit="B",
)
row(
    "cpu_max_pool2d_gradients",
    "cpu",
    "max_pool2d and gradient, 32x64x56x56, 2x2",
    normal(POOL),
    with_gradients(lambda lib: lambda x: lib.max_pool2d(x, 2)),
    work=10 * 32 * 64 * 56 * 56,
    unit="B",
)
