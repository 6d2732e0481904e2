"""Rows over a grid: elementwise functions of one to four inputs, reductions along each axis and
scans; dtypes, memory layouts, and sizes from 1 MB to 4 GB per array.

In reports they form a table of their own, with a line per expression and a column per size
(`section`). 4 GB of a 16-bit dtype are 2^31 elements, beyond 32-bit indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.rows import Bind, Call, row

MB = 1 << 20
SIZES = {"1 MB": MB, "16 MB": 16 * MB, "256 MB": 256 * MB, "4 GB": 4096 * MB}  # bytes of an array
DRAWN = MB  # random numbers that are drawn; arrays repeat them, on the device
WIDE = 1024  # columns where an expression wants rows
PEERS = {
    "float32": ("cudamath", "torch", "cupy"),
    "float16": ("cudamath", "torch", "cupy"),
    "bfloat16": ("cudamath", "torch"),
}
Function = Callable[..., object]  # (library, arrays of n numbers) -> result


def clip(lib: Any, a: Any, b: Any, c: Any) -> Any:
    """Bounds that are arrays."""
    return lib.clamp(a, b, c) if lib.__name__ == "torch" else lib.clip(a, b, c)


def square(a: Any) -> Any:
    """As a matrix with as many columns as rows, or twice as many."""
    return a.reshape((1 << (math.prod(a.shape).bit_length() - 1) // 2, -1))


def across(a: Any) -> Any:
    """The transpose of a matrix, of the shape of `square`."""
    return a.reshape((-1, square(a).shape[0])).T


def rows_of(a: Any) -> tuple[Any]:
    """As rows of 1,024."""
    return (a.reshape((-1, WIDE)),)


def by_name(ours: str, torch: str, **biased: int) -> Function:
    """A reduction of rows; torch's may want to be told to divide by n."""

    def function(lib: Any, a: Any) -> Any:
        return (
            getattr(lib, torch)(a, 1, **biased)
            if lib.__name__ == "torch"
            else getattr(lib, ours)(a, axis=1)
        )

    return function


def scan(lib: Any, a: Any) -> Any:
    """Sums along rows so far."""
    return lib.cumulative_sum(a, axis=1) if lib.__name__ == "cudamath" else lib.cumsum(a, 1)


#: name -> (title, number of arrays drawn, bytes moved / bytes of an array, what is prepared of
#: them, the function)
EXPRESSIONS: dict[str, tuple[str, int, float, Callable[..., Sequence[Any]], Function]] = {
    "exp": ("exp(a)", 1, 2, lambda a: (a,), lambda lib, a: lib.exp(a)),
    "add": ("a + b", 2, 3, lambda a, b: (a, b), lambda lib, a, b: a + b),
    "clip": ("clip(a, b, c)", 3, 4, lambda a, b, c: (a, b, c), clip),
    "broadcast": (
        "a + row, rows of 1,024",
        1,
        2,
        lambda a: (a.reshape((-1, WIDE)), a[:WIDE]),
        lambda lib, a, b: a + b,
    ),
    "strided": (
        "a[:, ::2] + 1, of rows of 2,048",
        1,
        1.5,
        lambda a: (a.reshape((-1, 2 * WIDE))[:, ::2],),
        lambda lib, a: a + 1.0,
    ),
    "transposed": (
        "a + b.T, square",
        2,
        3,
        lambda a, b: (square(a), across(b)),
        lambda lib, a, b: a + b,
    ),
    "reduce_sum": ("a.sum()", 1, 1, lambda a: (a,), lambda lib, a: a.sum()),
    "reduce_norm": ("norm(a)", 1, 1, lambda a: (a,), lambda lib, a: lib.linalg.norm(a)),
    "reduce_last": ("a.sum(1), rows of 1,024", 1, 1, rows_of, lambda lib, a: a.sum(1)),
    "reduce_first": ("a.sum(0), rows of 1,024", 1, 1, rows_of, lambda lib, a: a.sum(0)),
    "reduce_middle": (
        "a.sum(1), of 64 x 256 each",
        1,
        1,
        lambda a: (a.reshape((-1, 64, 256)),),
        lambda lib, a: a.sum(1),
    ),
    "reduce_argmax": ("argmax(a, 1), rows of 1,024", 1, 1, rows_of, by_name("argmax", "argmax")),
    "reduce_var": ("var(a, 1), rows of 1,024", 1, 1, rows_of, by_name("var", "var", correction=0)),
    "reduce_cumsum": ("cumsum(a, 1), rows of 1,024", 1, 2, rows_of, scan),
}
ELEMENTWISE = [name for name in EXPRESSIONS if not name.startswith("reduce_")]
LARGER = ("16 MB", "256 MB")
#: (name, dtype) -> sizes
KINDS: dict[tuple[str, str], Sequence[str]] = {
    **{
        (name, kind): LARGER if kind == "float16" and name not in ("exp", "add") else tuple(SIZES)
        for kind in ("float32", "bfloat16", "float16")
        for name in ELEMENTWISE
    },
    **{
        (name, kind): sizes
        for kind, sizes in (
            ("float32", ("1 MB", "16 MB", "4 GB")),
            ("bfloat16", LARGER),
            ("float16", ("256 MB",)),
        )
        for name in EXPRESSIONS
        if name not in ELEMENTWISE
    },
}


def cast(lib: Any, x: Any, kind: str) -> Any:
    """In another dtype."""
    if kind == "float32":
        return x
    return x.to(getattr(lib, kind)) if lib.__name__ == "torch" else x.astype(kind)


def bound(name: str, kind: str, size: int) -> Bind:
    """The expression on arrays of that many numbers, made on the device."""
    _, _, _, prepare, function = EXPRESSIONS[name]

    def bind(lib: Any, *drawn: Any) -> Call:
        arrays = prepare(
            *[
                lib.tile(cast(lib, x[: min(size, DRAWN)], kind), (max(size // DRAWN, 1),))
                for x in drawn
            ]
        )
        return lambda: function(lib, *arrays)

    return bind


def draw(count: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    """So many arrays of DRAWN numbers."""
    return lambda rng: tuple(rng.standard_normal((count, DRAWN), dtype=np.float32))


for (name, kind), labels in KINDS.items():
    title, count, traffic, *_ = EXPRESSIONS[name]
    for label in labels:
        nbytes = SIZES[label]
        size = nbytes // (4 if kind == "float32" else 2)
        row(
            f"grid_{name}_{kind}_{nbytes // MB}",
            "device",
            f"{title}, {kind}, {label}",
            draw(count),
            dict.fromkeys(PEERS[kind], bound(name, kind, size)),
            work=traffic * nbytes,
            unit="B",
            copies=max(1, -(-100 * MB // int(traffic * nbytes))),
        )


def four(lib: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Of four inputs, by hand."""
    return a * b + c * d


def fused(kind: str, nbytes: int) -> Bind:
    """`four` of arrays of so many bytes by a library's own way to fuse."""

    def bind(lib: Any, *drawn: Any) -> Call:
        arrays = [
            lib.tile(cast(lib, x, kind), (nbytes // (4 if kind == "float32" else 2) // DRAWN,))
            for x in drawn
        ]
        if lib.__name__ == "torch":
            compiled = lib.compile(lambda *xs: four(lib, *xs), dynamic=False)
        else:
            compiled = lib.fuse(lambda *xs: four(lib, *xs))
        return lambda: compiled(*arrays)

    return bind


for name, kind, label in (
    ("four_inputs", "float32", "256 MB"),
    ("four_inputs_16", "float32", "16 MB"),
    ("four_inputs_4096", "float32", "4 GB"),
    ("four_inputs_bf16", "bfloat16", "256 MB"),
    ("four_inputs_f16", "float16", "256 MB"),
):
    nbytes = SIZES[label]
    row(
        name,
        "device",
        f"a * b + c * d, fused, {kind}, {label}",
        draw(4),
        dict.fromkeys(("cudamath", "torch"), fused(kind, nbytes)),
        work=5 * nbytes,
        unit="B",
        copies=max(1, -(-100 * MB // (5 * nbytes))),
    )


def section(records: Sequence[dict[str, Any]]) -> list[str]:
    """The Markdown of the grid's records: speedup, share of the ceiling."""
    by_name = {
        record["name"]: record["results"]
        for record in records
        if record["name"].startswith("grid_")
    }
    lines = []
    for name, kind in KINDS:
        cells = []
        for nbytes in SIZES.values():
            results = by_name.get(f"grid_{name}_{kind}_{nbytes // MB}")
            if results is None:
                cells.append("")
                continue
            ours = results["cudamath"]
            best = min(
                result["median"] for library, result in results.items() if library != "cudamath"
            )
            cells.append(f"{best / ours['median']:.2f} ({ours['of_ceiling']:.0%})")
        if any(cells):
            lines.append(f"| {EXPRESSIONS[name][0]}, {kind} | " + " | ".join(cells) + " |")
    if not lines:
        return []
    return [
        "",
        "**Elementwise functions, reductions, scans by array size**: speedup (share of a copy's "
        "rate)",
        "",
        "| expression | " + " | ".join(SIZES) + " |",
        "|---" + "|---:" * len(SIZES) + "|",
        *lines,
    ]
