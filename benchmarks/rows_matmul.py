"""Rows of matrix products: squares, the layers of GPT-2 and Llama, transposed operands, odd sizes,
many small ones, also of different sizes; the fully connected layer with what follows it.

"cudamath" is what the public function does, the other names (NUMBERS) are kernels of it. Operands
are drawn in float32 and rounded by each library. Layouts are those of BLAS: in "nt" the second
operand lies transposed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.rows import MEBI, Bind, Call, row


def stored(m: int, k: int, n: int, layout: str, batch: int = 1) -> Any:
    """Arguments as they lie in memory: repeated random numbers, which are quickly drawn."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        left, right = (
            ((m, k) if layout[0] == "n" else (k, m)),
            ((k, n) if layout[1] == "n" else (n, k)),
        )
        lead = (batch,) * (batch > 1)
        return tuple(
            np.resize(rng.standard_normal(MEBI + 7, dtype=np.float32), (*lead, *shape))
            for shape in (left, right)
        )

    return make


def product(dtype: str, layout: str, version: str | None = None, tf32: bool = False) -> Bind:
    """a @ b in any of the libraries, or by cudamath's kernel of that name."""

    def bind(lib: Any, a: Any, b: Any) -> Call:
        if lib.__name__ == "torch":
            lib.backends.cuda.matmul.allow_tf32 = tf32
            a, b = a.to(getattr(lib, dtype)), b.to(getattr(lib, dtype))
        else:
            a, b = a.astype(dtype), b.astype(dtype)
        a, b = (
            x if how == "n" else lib.swapaxes(x, -1, -2)
            for x, how in zip((a, b), layout, strict=True)
        )
        if version is None:
            if lib.__name__ == "cudamath" and tf32:
                from cudamath.ops.linalg.products import _matmul

                return lambda: _matmul(a, b, tf32=True)
            return lambda: a @ b
        from cudamath.core.dispatch.op import Op

        named = Op(f"benchmark of {version}", cpu="matmul.matmul", cuda="matmul.dispatch.matmul")
        return lambda: named(a, b, tf32=tf32, version=version)

    return bind


#: kind of number -> (its dtype, bytes, the ceiling measured beside, our kernels)
NUMBERS = {
    "bfloat16": ("bfloat16", 2, "FLOP16", ("sm90", "sm80")),
    "float16": ("float16", 2, "FLOP16", ("sm90",)),
    "tf32": ("float32", 4, "TF32", ("sm90",)),
    "float32": ("float32", 4, "FLOP", ("simt_async_copy",)),
    "float64": ("float64", 8, "FLOP64", ("sm80",)),
}


def products(
    name: str, m: int, k: int, n: int, layout: str = "nn", kind: str = "bfloat16", batch: int = 1
) -> None:
    """One row: cudamath and its kernels, torch, and CuPy where it has the dtype."""
    dtype, size, ceiling, versions = NUMBERS[kind]
    tf32 = kind == "tf32"
    calls = {library: product(dtype, layout, tf32=tf32) for library in ("cudamath", "torch")}
    if kind not in ("bfloat16", "tf32"):
        calls["cupy"] = product(dtype, layout)
    # rows: kernels/matmul/gemv.py's
    few = m <= 16 and kind in ("bfloat16", "float16") and layout == "nt"
    more = (
        ["gemv"]
        if few
        else ["simt_async_copy_small"]
        if kind == "float32" and batch > 1 and m <= 128
        else []
    )
    calls |= {version: product(dtype, layout, version, tf32) for version in (*versions, *more)}
    copies = max(1, min(4, (128 << 20) // (batch * (m * k + k * n) * size)))
    row(
        f"matmul_{kind}_{name}",
        "device",
        f"{f'{batch} times ' * (batch > 1)}{m}x{k} @ {k}x{n} {layout}, {kind}",
        stored(m, k, n, layout, batch),
        calls,
        work=2 * batch * m * k * n,
        unit="FLOP",
        copies=copies,
        traffic=batch * (m * k + k * n + m * n) * size,
        ceiling=ceiling,
        hide_host=True,
    )


#: layer -> numbers that go in, numbers that come out
GPT2 = {
    "qkv": (768, 2304),
    "out": (768, 768),
    "up": (768, 3072),
    "down": (3072, 768),
    "head": (768, 50304),
}
LLAMA = {"qkv": (4096, 6144), "out": (4096, 4096), "up": (4096, 14336), "down": (14336, 4096)}

for kind in ("bfloat16", "float16"):
    for size in (1024, 2048, 4096, 8192, 16384):
        products(str(size), size, size, size, kind=kind)
    for layout in ("nt", "tn", "tt"):
        products(f"4096_{layout}", 4096, 4096, 4096, layout, kind)
        products(f"2048_{layout}", 2048, 2048, 2048, layout, kind)
    for size in (2047, 4095):
        products(f"odd_{size}", size, size, size, kind=kind)
    products("odd_rows", 3001, 4096, 1000, "nt", kind)
    for name, (k, n) in GPT2.items():
        products(f"gpt2_{name}", 8192, k, n, "nt", kind)
    for name, (k, n) in LLAMA.items():
        products(f"llama_{name}", 4096, k, n, "nt", kind)
        products(f"llama_decode_{name}", 16, k, n, "nt", kind)
for name, (m, n) in {
    "qkv": (2304, 768),
    "out": (768, 768),
    "up": (3072, 768),
    "down": (768, 3072),
}.items():
    products(f"gpt2_{name}_weight", m, 8192, n, "tn")  # the gradient of the weights
for kind in ("tf32", "float32", "float64"):
    for size in (1024, 2048, 4096, 8192, 16384):
        products(str(size), size, size, size, kind=kind)
    for layout in ("nt", "tn", "tt"):
        products(f"2048_{layout}", 2048, 2048, 2048, layout, kind)
    products("odd_2047", 2047, 2047, 2047, kind=kind)
    products("odd_rows", 3001, 4096, 1000, "nt", kind)
    for name, (k, n) in GPT2.items():
        products(f"gpt2_{name}", 8192, k, n, "nt", kind)
    for name, (k, n) in LLAMA.items():
        products(f"llama_{name}", 4096, k, n, "nt", kind)
for kind in ("bfloat16", "float32"):
    for batch, size in ((1024, 64), (256, 128), (64, 256), (32, 512)):
        for layout in ("nn", "nt"):
            products(f"batch_{size}_{layout}", size, size, size, layout, kind, batch)


def grouped(gradient: bool) -> dict[str, Bind]:
    """Groups of rows, each times its own matrix, whose transpose lies in memory (groups, out, in);
    `gradient`: what x and the rows y give for those matrices, x^T y of each group."""

    def ours(lib: Any, x: Any, w: Any, y: Any, ends: Any) -> Call:
        from cudamath.ml.grouped_matmul import _grouped_outer

        x, w, y = (a.astype("bfloat16") for a in (x, w, y))
        return (
            (lambda: _grouped_outer(x, y, ends))
            if gradient
            else lambda: lib.ml.grouped_matmul(x, w.mT, ends)
        )

    def theirs(lib: Any, x: Any, w: Any, y: Any, ends: Any) -> Call:
        x, w, y = (a.bfloat16() for a in (x, w, y))
        return (
            (lambda: lib._grouped_mm(x.mT, y, offs=ends))
            if gradient
            else lambda: lib._grouped_mm(x, w.mT, offs=ends)
        )

    return {"cudamath": ours, "torch": theirs}


def ends_of(rng: np.random.Generator, count: int, least: int, most: int) -> np.ndarray:
    """Where groups of random sizes end."""
    return np.cumsum(rng.integers(least, most + 1, count)).astype(np.int32)


for name, (count, least, most, inner, outer) in {
    "small": (64, 64, 512, 512, 512),
    "8_experts": (8, 200, 1848, 2048, 5632),
    "64_experts": (64, 100, 924, 2048, 768),
}.items():
    rows = int(ends_of(np.random.default_rng(0), count, least, most)[-1])

    def arrays(
        rng: np.random.Generator,
        sizes: tuple[int, ...] = (count, least, most),
        shapes: tuple[tuple[int, ...], ...] = ((rows, inner), (count, outer, inner), (rows, outer)),
    ) -> tuple[Any, ...]:
        ends = ends_of(rng, *sizes)
        return (
            *[
                np.resize(rng.standard_normal(MEBI + 7, dtype=np.float32), shape)
                for shape in shapes
            ],
            ends,
        )

    for gradient in (False, True):
        row(
            f"grouped_{name}{'_weight' * gradient}",
            "device",
            f"{count} groups of {least} to {most} rows, {inner} -> {outer}, "
            f"bfloat16{', gradient of the weights' * gradient}",
            arrays,
            grouped(gradient),
            work=2 * rows * inner * outer,
            unit="FLOP",
            ceiling="FLOP16",
            hide_host=True,
        )


def layer(activation: str | None, residual: bool, compiled: bool) -> dict[str, Bind]:
    """linear, activation and residual: cudamath's one call; torch's functions, eager and
    compiled."""

    def ours(lib: Any, *arrays: Any) -> Call:
        x, w, b, *r = (a.astype("bfloat16") for a in arrays)
        return lambda: lib.ml.linear(x, w, b, activation=activation, residual=r[0] if r else None)

    def theirs(compile: bool) -> Bind:
        def bind(lib: Any, *arrays: Any) -> Call:
            x, w, b, *r = (a.to(lib.bfloat16) for a in arrays)
            act = getattr(lib.nn.functional, activation) if activation else None

            def run(x: Any, w: Any, b: Any, *r: Any) -> Any:
                y = lib.nn.functional.linear(x, w, b)
                y = act(y) if act else y
                return y + r[0] if r else y

            run = lib.compile(run) if compile else run
            return lambda: run(x, w, b, *r)

        return bind

    return {"cudamath": ours, "torch": theirs(compiled)}


for name, (k, n, activation, residual) in {
    "gelu": (768, 3072, "gelu", False),
    "relu": (768, 3072, "relu", False),
    "silu": (768, 3072, "silu", False),
    "residual": (3072, 768, None, True),
}.items():
    shapes = ((8192, k), (n, k), (n,), *[(8192, n)] * residual)
    row(
        f"linear_{name}",
        "device",
        f"linear 8192x{k} -> {n}, {name}, bfloat16",
        lambda rng, shapes=shapes: tuple(
            np.resize(rng.standard_normal(MEBI + 7, dtype=np.float32), s) for s in shapes
        ),
        layer(activation, residual, True),
        work=2 * 8192 * k * n,
        unit="FLOP",
        ceiling="FLOP16",
        copies=2,
        hide_host=True,
        traffic=2 * (8192 * k + n * k + (2 if residual else 1) * 8192 * n),
    )
