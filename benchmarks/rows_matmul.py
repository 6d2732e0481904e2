"""Rows of matrix products on tensor cores: squares, the layers of GPT-2 and Llama, transposed operands, odd sizes; the
fully connected layer with what follows it.

"cudamath" is what the public function does, "wgmma" and "mma" are kernels of it by name. Operands are drawn in float32 and
rounded by each library. Layouts are those of BLAS: in "nt" the second operand lies transposed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.rows import MEBI, Bind, Call, row


def stored(m: int, k: int, n: int, layout: str) -> Any:
    """Arguments as they lie in memory: repeated random numbers, which are quickly drawn."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        left, right = ((m, k) if layout[0] == "n" else (k, m)), ((k, n) if layout[1] == "n" else (n, k))
        return tuple(np.resize(rng.standard_normal(MEBI + 7, dtype=np.float32), shape) for shape in (left, right))

    return make


def product(dtype: str, layout: str, version: str | None = None, tf32: bool = False) -> Bind:
    """a @ b in any of the libraries, or by cudamath's kernel of that name."""

    def bind(lib: Any, a: Any, b: Any) -> Call:
        if lib.__name__ == "torch":
            lib.backends.cuda.matmul.allow_tf32 = tf32
            a, b = a.to(getattr(lib, dtype)), b.to(getattr(lib, dtype))
        else:
            a, b = a.astype(dtype), b.astype(dtype)
        a, b = (x if how == "n" else x.T for x, how in zip((a, b), layout, strict=True))
        if version is None:
            if lib.__name__ == "cudamath" and tf32:
                from cudamath.ops.linalg import _matmul

                return lambda: _matmul(a, b, tf32=True)
            return lambda: a @ b
        from cudamath.core.op import Op

        named = Op(f"benchmark of {version}", cpu="matmul.matmul", cuda="matmul.matmul")
        return lambda: named(a, b, tf32=tf32, version=version)

    return bind


def products(name: str, m: int, k: int, n: int, layout: str = "nn", dtype: str = "bfloat16", tf32: bool = False) -> None:
    """One row: cudamath and its kernels, torch, and CuPy where it has the dtype."""
    calls = {library: product(dtype, layout, tf32=tf32) for library in ("cudamath", "torch")}
    if dtype != "bfloat16" and not tf32:
        calls["cupy"] = product(dtype, layout)
    calls |= {version: product(dtype, layout, version, tf32) for version in ("wgmma", "mma")}
    kind = "tf32" if tf32 else dtype
    copies = max(1, min(4, (128 << 20) // ((m * k + k * n) * 2)))
    row(f"matmul_{kind}_{name}", "device", f"{m}x{k} @ {k}x{n} {layout}, {kind}", stored(m, k, n, layout), calls,
        work=2 * m * k * n, unit="FLOP", copies=copies, traffic=(m * k + k * n + m * n) * (4 if tf32 else 2),
        ceiling="TF32" if tf32 else "FLOP16")


for size in (1024, 2048, 4096, 8192, 16384):
    products(str(size), size, size, size)
for size in (1024, 2048, 4096, 8192):
    products(str(size), size, size, size, dtype="float16")
for layout in ("nt", "tn", "tt"):
    products(f"4096_{layout}", 4096, 4096, 4096, layout)
    products(f"2048_{layout}", 2048, 2048, 2048, layout)
for size in (2047, 4095):
    products(f"odd_{size}", size, size, size)
products("odd_rows", 3001, 4096, 1000, "nt")
for name, (k, n) in {"qkv": (768, 2304), "out": (768, 768), "up": (768, 3072), "down": (3072, 768),
                     "head": (768, 50304)}.items():
    products(f"gpt2_{name}", 8192, k, n, "nt")
for name, (k, n) in {"qkv": (4096, 6144), "out": (4096, 4096), "up": (4096, 14336), "down": (14336, 4096)}.items():
    products(f"llama_{name}", 4096, k, n, "nt")
    products(f"llama_decode_{name}", 16, k, n, "nt")
for size in (2048, 4096):
    products(str(size), size, size, size, dtype="float32", tf32=True)


def layer(activation: str | None, residual: bool, compiled: bool) -> dict[str, Bind]:
    """linear, activation and residual: cudamath's one call; torch's functions, eager and compiled."""

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
        "gelu": (768, 3072, "gelu", False), "relu": (768, 3072, "relu", False), "silu": (768, 3072, "silu", False),
        "residual": (3072, 768, None, True)}.items():
    shapes = ((8192, k), (n, k), (n,), *[(8192, n)] * residual)
    row(f"linear_{name}", "device", f"linear 8192x{k} -> {n}, {name}, bfloat16",
        lambda rng, shapes=shapes: tuple(np.resize(rng.standard_normal(MEBI + 7, dtype=np.float32), s) for s in shapes),
        layer(activation, residual, True), work=2 * 8192 * k * n, unit="FLOP", ceiling="FLOP16", copies=2,
        traffic=2 * (8192 * k + n * k + (2 if residual else 1) * 8192 * n))
