"""Rows of quantized numbers: one token through layers with packed weights, products of 8-bit
matrices, quantizing itself.

What torch does beside: bfloat16 weights where it has no kernel for packed ones that is worth it
(that for int8 takes ten times as long as bfloat16), `_weight_int4pack_mm` for int4 in groups,
`_int_mm` for int8 products, `_scaled_mm` with scales of rows and columns for float8, at its faster
accumulation, which keeps as many bits as ours. One token takes the device less time than a call
takes the host: in a language model these layers are parts of a graph.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from benchmarks.rows import MEBI, Bind, Call, faster, row
from benchmarks.rows_matmul import GPT2, LLAMA

GROUP = 128


def drawn(*shapes: tuple[int, ...]) -> Any:
    """Arguments: arrays of repeated random numbers, which are quickly drawn."""
    return lambda rng: tuple(
        np.resize(rng.standard_normal(MEBI + 7, dtype=np.float32), shape) for shape in shapes
    )


def packed(dtype: str, how: dict[str, int]) -> Bind:
    """linear with a quantized weight."""

    def bind(lib: Any, x: Any, w: Any) -> Call:
        x, q = x.astype("bfloat16"), lib.ml.quantize(w, dtype, **how)
        return lambda: lib.ml.linear(x, q)

    return bind


def plain(lib: Any, x: Any, w: Any) -> Call:
    """linear with a bfloat16 weight."""
    if lib.__name__ == "torch":
        x, w = x.to(lib.bfloat16), w.to(lib.bfloat16)
        return lambda: lib.nn.functional.linear(x, w)
    x, w = x.astype("bfloat16"), w.astype("bfloat16")
    return lambda: lib.ml.linear(x, w)


def torch_int4(lib: Any, x: Any, w: Any) -> Call:
    """torch's int4 kernel; what the weights are does not matter to it."""
    out, inner = w.shape
    if out % 64:
        return plain(lib, x, w)
    codes = lib.randint(0, 255, (out, inner // 2), dtype=lib.uint8, device=x.device)
    stored = lib._convert_weight_to_int4pack(codes, 8)
    scales = lib.ones(inner // GROUP, out, 2, dtype=lib.bfloat16, device=x.device)
    x = x.to(lib.bfloat16)
    return lambda: lib._weight_int4pack_mm(x, stored, GROUP, scales)


for name, rows, inner, out in (
    ("4096", 1, 4096, 4096),
    ("16384", 1, 4096, 16384),
    ("down", 1, 14336, 4096),
    ("gpt2_head", 1, 768, 50304),
    ("16_rows", 16, 4096, 16384),
):
    for dtype, how, bits, theirs in (
        ("bfloat16", {}, 16, plain),
        ("int8", {"axis": 0}, 8, plain),
        ("float8_e4m3", {"axis": 0}, 8, plain),
        ("int4", {"group": GROUP}, 4, torch_int4),
    ):
        numbers = inner * out
        scales = 0 if bits == 16 else 4 * (numbers // GROUP if bits == 4 else out)
        row(
            f"linear_{dtype}_{name}",
            "device",
            f"linear {rows}x{inner} -> {out}, weights {dtype}",
            drawn((rows, inner), (out, inner)),
            {"cudamath": plain if bits == 16 else packed(dtype, how), "torch": theirs},
            work=numbers * bits / 8 + scales,
            unit="B",
            copies=max(2, min(12, (200 << 20) // (numbers * bits // 8))),
            hide_host=True,
        )


def eight_bits(dtype: str, layout: str = "nt") -> dict[str, Bind]:
    """Products of 8-bit matrices, b transposed: with bfloat16 results brought to scale (float8),
    with int32 sums (int8).

    layout: as in rows_matmul.py. torch wants sides that are multiples of 8 (int8) or 16 (float8),
    and for float8 k contiguous in both operands: what lies otherwise is first padded or copied in
    its call."""

    def quantized(lib: Any, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
        p, q = lib.ml.quantize(a, dtype, axis=0), lib.ml.quantize(b, dtype, axis=0)
        x = p.values if layout[0] == "n" else lib.copy(p.values.T).T
        return x, q.values.T if layout[1] == "t" else lib.copy(q.values.T), p.scale, q.scale

    def ours(lib: Any, a: Any, b: Any) -> Call:
        x, y, *scales = quantized(lib, a, b)
        if dtype == "int8":
            return lambda: lib.matmul(x, y, dtype="int32")
        return lambda: lib.ml.scaled_matmul(x, y, *scales)

    def theirs(lib: Any, a: Any, b: Any) -> Call:
        (m, k), n = a.shape, b.shape[0]
        whole = dtype == "int8"
        stored = [
            (30 * each).to(lib.int8) if whole else each.to(lib.float8_e4m3fn).view(lib.int8)
            for each in (a, b)
        ]
        x, y = stored[0] if layout[0] == "n" else stored[0].T.contiguous().T, stored[1].T
        y = y if layout[1] == "t" else y.contiguous()
        step = 8 if whole else 16
        more_k, more_n = -k % step, -n % step
        rows, columns = lib.ones(m, 1, device=a.device), lib.ones(1, n + more_n, device=a.device)

        def call(copied: bool) -> Any:
            p, q = x, y.T
            if more_k or more_n:
                p, q = (
                    lib.nn.functional.pad(each, (0, more_k, 0, more))
                    for each, more in ((p, 0), (q, more_n))
                )
            if copied:
                p, q = p.contiguous(), q.contiguous()
            if whole:
                found = lib._int_mm(p, q.T)
            else:
                p, q = p.view(lib.float8_e4m3fn), q.view(lib.float8_e4m3fn)
                found = lib._scaled_mm(
                    p, q.T, rows, columns, out_dtype=lib.bfloat16, use_fast_accum=True
                )
            return found[:, :n] if more_n else found

        ways = [functools.partial(call, copied) for copied in (False, True)]
        return faster(lib, ways) if layout != "nt" else ways[0]

    def kernel(lib: Any, a: Any, b: Any) -> Call:
        from cudamath.ml.quantize import _scaled

        x, y, *scales = quantized(lib, a, b)
        return lambda: _scaled(x, y, *scales, dtype=lib.dtype("bfloat16"), version="sm90")

    own = {"sm90": kernel} if dtype != "int8" else {}  # int8 is multiplied by no other
    return {"cudamath": ours, "torch": theirs} | own


for size in (1024, 2048, 4096, 8192, 16384):
    for dtype in ("int8", "float8_e4m3"):
        row(
            f"matmul_{dtype}_{size}",
            "device",
            f"matmul {size} squared, {dtype}",
            drawn((size, size), (size, size)),
            eight_bits(dtype),
            work=2 * size**3,
            unit="FLOP",
            ceiling="FLOP8",
            copies=2,
            hide_host=True,
        )

for name, m, k, n, layout in (
    *((f"2048_{layout}", 2048, 2048, 2048, layout) for layout in ("nn", "tn", "tt")),
    ("odd_2047", 2047, 2047, 2047, "nt"),
    ("odd_rows", 3001, 4096, 1000, "nt"),
    *((f"gpt2_{name}", 8192, *sides, "nt") for name, sides in GPT2.items()),
    *((f"llama_{name}", 4096, *sides, "nt") for name, sides in LLAMA.items()),
):
    for dtype in ("int8", "float8_e4m3"):
        row(
            f"matmul_{dtype}_{name}",
            "device",
            f"{m}x{k} @ {k}x{n} {layout}, {dtype}",
            drawn((m, k), (n, k)),
            eight_bits(dtype, layout),
            work=2 * m * k * n,
            unit="FLOP",
            ceiling="FLOP8",
            copies=2,
            hide_host=True,
        )

for dtype, stored in (("int8", 1.0), ("int4", 0.5)):

    def quantizes(lib: Any, x: Any, dtype: str = dtype) -> Call:
        x = x.astype("bfloat16")
        return lambda: lib.ml.quantize(x, dtype, axis=0)

    def dequantizes(lib: Any, x: Any, dtype: str = dtype) -> Call:
        q = lib.ml.quantize(x.astype("bfloat16"), dtype, axis=0)
        return lambda: lib.ml.dequantize(q, "bfloat16")

    count = 1 << 26
    row(
        f"quantize_{dtype}",
        "device",
        f"quantize 8,192 squared, bfloat16 to {dtype}, scales of rows",
        drawn((8192, 8192)),
        {"cudamath": quantizes},
        work=count * (2 + stored),
        unit="B",
        copies=2,
    )
    row(
        f"dequantize_{dtype}",
        "device",
        f"dequantize 8,192 squared, {dtype} to bfloat16",
        drawn((8192, 8192)),
        {"cudamath": dequantizes},
        work=count * (2 + stored),
        unit="B",
        copies=2,
    )
