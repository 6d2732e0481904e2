"""Registers and spills of every version of the matrix kernels on every architecture, from the
compiler alone: no GPU.

`python -m benchmarks.registers` compiles them (some minutes) and writes
benchmarks/results/registers.json and registers.md; `python -m benchmarks.registers wgmma decode`
only those whose title contains one of these words, and keeps the others' figures.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.run import RESULTS, commit
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Launch
from cudamath.core.dtypes import bfloat16
from cudamath.core.layout import Layout
from cudamath.kernels.attention import dispatch as attention_dispatch
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import lazy_numba, storage_types, target
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.matmul import dispatch as matmul_dispatch
from cudamath.kernels.matmul import linear as matmul_linear
from cudamath.runtime.device import assume

FLOAT = np.dtype(np.float32)
FIGURES = (r"Used (\d+) registers", r"(\d+) bytes spill stores", r"(\d+) bytes stack frame")
SINCE_8 = tuple(c for c in target.CAPABILITIES if c >= (8, 0))
ALL, HOPPER = target.CAPABILITIES, ((9, 0),)


def lay(*shape: int, dtype: Any = bfloat16) -> Layout:
    """A contiguous layout on the first GPU."""
    return Layout.new(shape, np.dtype(dtype), 0)


def last(n: int, c: int, h: int, w: int, dtype: Any = bfloat16) -> Layout:
    """(n, c, h, w), channels last."""
    size = np.dtype(dtype).itemsize
    return Layout.of(
        (n, c, h, w), tuple(size * s for s in (h * w * c, 1, w * c, c)), np.dtype(dtype), 0
    )


Case = tuple[str, tuple[tuple[int, int], ...], Callable[..., Plan], list[Layout], dict[str, Any]]


def cases() -> Iterator[Case]:
    """(title, capabilities, planner, layouts, options) of each version."""
    for version in ("naive", "tiled", "register_tiles", "simt", "simt_small"):
        yield (
            version,
            ALL,
            matmul_dispatch.matmul,
            [lay(4096, 4096, dtype=FLOAT)] * 2,
            {"version": version},
        )
    for version in ("simt_async_copy", "simt_async_copy_small"):
        yield (
            version,
            SINCE_8,
            matmul_dispatch.matmul,
            [lay(4096, 4096, dtype=FLOAT)] * 2,
            {"version": version},
        )
    yield "sm80", SINCE_8, matmul_dispatch.matmul, [lay(4096, 4096)] * 2, {"version": "sm80"}
    yield (
        "sm80, float64",
        SINCE_8,
        matmul_dispatch.matmul,
        [lay(4096, 4096, dtype=np.float64)] * 2,
        {"version": "sm80"},
    )
    for tile in (
        "64x64",
        "64x128",
        "128x64",
        "128x128",
        "128x192",
        "128x256",
        "192x128",
        "192x192",
        "64x256 pingpong",
        "128x128 pingpong",
        "64x128 share 4",
        "192x192 share 2",
    ):
        yield (
            f"sm90 {tile}",
            HOPPER,
            matmul_dispatch.matmul,
            [lay(4096, 4096)] * 2,
            {"version": f"sm90 {tile}"},
        )
    for f in ("gelu", "gelu_tanh", "silu"):
        yield (
            f"linear, {f}",
            HOPPER,
            matmul_linear.linear,
            [lay(8192, 768), lay(3072, 768), lay(3072)],
            {"activation": f},
        )
    where: dict[str, Any] = {
        "stride": (1, 1),
        "padding": (1, 1, 1, 1),
        "dilation": (1, 1),
        "groups": 1,
    }
    for method, weight, dtype, able in (
        ("direct", "wgrad_direct", FLOAT, ALL),
        ("simt", "wgrad_simt", FLOAT, ALL),
        ("sm80", "wgrad_sm80", bfloat16, SINCE_8),
        ("sm90", "wgrad_sm90_shared_taps", bfloat16, HOPPER),
    ):
        x, w, g = (
            last(64, 128, 28, 28, dtype),
            last(128, 128, 3, 3, dtype),
            last(64, 128, 28, 28, dtype),
        )
        yield method, able, conv_dispatch.conv2d, [x, w], {**where, "version": f"fprop_{method}"}
        yield (
            method,
            able,
            conv_dispatch.conv2d_input_grad,
            [g, w],
            {**where, "size": (28, 28), "version": f"dgrad_{method}"},
        )
        yield (
            method,
            able,
            conv_dispatch.conv2d_weight_grad,
            [g, x],
            {**where, "kernel": (3, 3), "version": weight},
        )
    for name, size, outputs, channels in (
        ("one tap, a pair", 7, 2048, 512),
        ("one tap, several pairs", 28, 512, 128),
    ):
        g, x = last(64, outputs, size, size), last(64, channels, size, size)
        yield (
            f"sm90, {name}",
            HOPPER,
            conv_dispatch.conv2d_weight_grad,
            [g, x],
            {
                **where,
                "padding": (0, 0, 0, 0),
                "kernel": (1, 1),
                "version": "wgrad_sm90_pointwise",
            },
        )
    options = {"causal": True, "scale": 0.1, "dropping": False}
    for depth in (64, 128):
        for forward, backward, able in (
            ("simt", "simt", ALL),
            ("sm80", "sm80", SINCE_8),
            ("forward_sm90", "backward_sm90", HOPPER),
        ):
            q, lse = lay(4, 16, 4096, depth), lay(4, 16, 4096, dtype=FLOAT)
            yield (
                f"{forward}, depth {depth}",
                able,
                attention_dispatch.attention,
                [q] * 3,
                {**options, "version": forward},
            )
            yield (
                f"{backward}, depth {depth}",
                able,
                attention_dispatch.attention_grad,
                [q] * 5 + [lse],
                {**options, "version": backward},
            )
        one = lay(16, 16, 1, depth)
        yield (
            f"decode_split_kv, depth {depth}",
            SINCE_8,
            attention_dispatch.attention,
            [one, *[lay(16, 16, 4096, depth)] * 2],
            {**options, "version": "decode_split_kv"},
        )


def compiled(words: Sequence[str] = ()) -> dict[str, dict[str, list[int]]]:
    """ "kernel (version)" -> capability -> registers a thread, bytes spilled, bytes of stack; of
    titles with one of `words`."""
    found: dict[str, dict[str, list[int]]] = {}
    for title, capabilities, planner, layouts, options in cases():
        if words and not any(word in title for word in words):
            continue
        kernels: dict[Any, tuple[Any, list[tuple[int, int]]]] = {}
        for capability in capabilities:
            with assume(capability):
                plan = planner(*layouts, **options)
                for step in plan.steps:
                    if isinstance(step, Launch):
                        types = tuple(
                            storage_types.argument_type(k) for k in plan.signature(step, layouts)
                        )
                        kernels.setdefault((step.kernel, types), (types, []))[1].append(capability)
        for (kernel, types), (_, able) in kernels.items():
            name = f"{kernel.py_func.__name__} ({title})"
            targets = [target.target(c) for c in able]
            for capability, (_, log) in zip(
                able,
                compiler.compile_each(kernel, lazy_numba.types.void(*types), targets),
                strict=True,
            ):
                figures = [re.search(pattern, log) for pattern in FIGURES]
                found.setdefault(name, {})[".".join(map(str, capability))] = [
                    int(f[1]) if f else 0 for f in figures
                ]
            print(name, found[name], flush=True)
    return found


def markdown(record: dict[str, Any]) -> str:
    """The table."""
    columns = [".".join(map(str, c)) for c in ALL]
    lines = [
        "# Registers a thread, by the compiler",
        "",
        f"Generated by `python -m benchmarks.registers` at commit {record['commit']}. In "
        "brackets: bytes a thread spills.",
        "",
        "| kernel | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for name, figures in record["kernels"].items():
        cells = []
        for column in columns:
            registers, spilled, _ = figures.get(column, (0, 0, 0))
            cells.append(
                (f"{registers} ({spilled})" if spilled else str(registers)) if registers else ""
            )
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(words: Sequence[str]) -> int:
    """Compile and write both files."""
    file = RESULTS / "registers.json"
    before = json.loads(file.read_text())["kernels"] if words else {}
    record = {"commit": commit(), "kernels": before | compiled(words)}
    file.write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / "registers.md").write_text(markdown(record))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
