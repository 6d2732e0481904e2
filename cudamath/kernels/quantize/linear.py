"""The fully connected layer with quantized weights: y = f(x dequantize(w)^T + bias) + residual.

Up to 16 rows of 16-bit numbers go through matmul/gemv.py, which reads the weights as they are
packed. More rows use each weight often enough that the product, not memory, takes the time: the
weights become 16-bit numbers in scratch memory first (quantize.py), and matmul/linear.py does the
rest. So do float32 and float64, and weights whose rows are no multiple of 16 bytes.

Measured (row linear_int8_4096):
linear 1x4096 -> 4096, weights int8; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

                   GB/s     of a copy
    cudamath      1,806          0.43
    torch         1,168          0.28

(end of what was measured)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.dispatch.plan import ArrayArg, Input, Launch, Output, Plan, Temp
from ...core.layout import Layout
from ...runtime import device as devices
from ..compiler.compile import SIMULATOR, blocks
from ..matmul import dispatch as matmul_dispatch
from ..matmul import linear as plain
from .quantize import dequantize_steps
from .scaled_matmul import within

KINDS = {"bfloat16": "bf16", "float16": "f16"}
PER_BYTE = {"int4": 2}


def _shape(values: Layout, form: str) -> tuple[int, int]:
    """(out, in) of the weight."""
    return values.shape[0], values.shape[1] * PER_BYTE.get(form, 1)


def gemv_words(depth: int, form: str, group: int) -> int:
    """32-bit words of a row of w that a thread of `gemv` reads at a time: 4, or 2 where groups are
    small; 0: not for it."""
    per_word = 4 * PER_BYTE.get(form, 1)
    for words in (4, 2) if group else (4,):
        if depth % (words * per_word) == 0 and group % (4 * words * per_word) == 0:
            return words
    return 0


def linear_quantized(
    x: Layout,
    values: Layout,
    scale: Layout,
    zero: Layout | None,
    bias: Layout | None,
    residual: Layout | None,
    *,
    form: str,
    group: int,
    activation: str,
    version: str | None = None,
) -> Plan:
    """Planner. x (.., in), values (out, in) or, int4, (out, in / 2), contiguous; scale, zero: (1,),
    (out,) or, with `group` numbers along in to a scale, (out, in / group), flat; bias (out,),
    residual as y.

    version: "gemv", which takes what suits, or "gemv WARPSxTILESxAHEAD", then "early" if wanted
    (9.0), see gemv.Gemv; or "steps".
    """
    places = iter(range(3, 6))
    at_zero, at_bias, at_residual = (
        None if layout is None else Input(next(places)) for layout in (zero, bias, residual)
    )
    out, depth = _shape(values, form)
    y = x.like((*x.shape[:-1], out))
    if version is None:
        version = "gemv" if _fits(x, values, form, group, (bias, residual)) else "steps"
    if version.startswith("gemv"):
        return Plan(
            [y],
            [
                _gemv(
                    x,
                    out,
                    depth,
                    form,
                    group,
                    activation,
                    (Input(1), Input(2), at_zero),
                    at_bias,
                    at_residual,
                    scale.size,
                    version,
                )
            ],
            why=f"{version}: few rows, weights read as packed",
        )
    weight = Layout.new((out, depth), x.dtype, x.device)
    steps: list[Any] = list(
        dequantize_steps(
            Input(1),
            values,
            Input(2),
            at_zero,
            Temp(0),
            x.dtype,
            form,
            group or (weight.size if scale.size == 1 else depth),
            scale.size,
        )
    )
    rest = plain.linear(x, weight, bias, residual, activation=activation)
    moves = {0: Input(0), 1: Temp(0)} | dict(
        enumerate([p for p in (at_bias, at_residual) if p is not None], 2)
    )
    steps += within(rest.steps, moves, Output(0), 1)
    return Plan(
        [y],
        steps,
        [weight, *rest.temps],
        why="dequantized first: many rows, or numbers that gemv does not take",
    )


def _fits(
    x: Layout, values: Layout, form: str, group: int, others: tuple[Layout | None, ...]
) -> bool:
    """Whether `gemv` can do it."""
    rows = x.size // max(x.shape[-1], 1)
    least = (
        (8, 9) if form == "float8_e4m3fn" and x.dtype.name == "float16" else (8, 0)
    )  # by an instruction
    return bool(
        not SIMULATOR
        and x.dtype.name in KINDS
        and 0 < rows <= matmul_dispatch.GEMV_ROWS
        and values.size
        and devices.capability(x.device) >= least
        and gemv_words(_shape(values, form)[1], form, group)
        and all(o.contiguous and o.aligned for o in (x, values))
        and all(o is None or o.contiguous for o in others)
    )


def gemv_choice(
    rows: int, out: int, chunks: int, multiprocessors: int, form: str
) -> tuple[int, int, int]:
    """(warps, tiles, chunks ahead) of a block, from measurements of one row on an H200, for 16-bit
    weights of 16 rows too.

    Where columns are many, small blocks come and go without leaving multiprocessors idle; where
    they are few, k is shared out among more warps, if there is enough of it. int4 takes twice the
    registers, hence half the warps.
    """
    tiles = -(-out // 16)
    if tiles >= 6 * multiprocessors:
        return 4, 2 if form == "int4" and rows <= 8 and tiles >= 16 * multiprocessors else 1, 2
    many = (
        chunks >= 12
        and (rows <= 8 or form == "same")
        and (tiles <= multiprocessors if form == "int4" else True)
    )
    return 16 if many and tiles <= 2 * multiprocessors else 8, 1, 2


def gemv_early(rows: int, form: str, capability: tuple[int, int]) -> bool:
    """Whether blocks begin early: with int4 weights one row took 0.74 to 1.0 of the time on an
    H200, and writing a token with GPT-2 (124M) 0.98. With weights of more bits, for which blocks
    wait longer and beside which the next ones then wait, what is gained for small layers (up to 12
    %) is lost for large ones (up to 20 %) and writing a token takes 1.06 to 1.11."""
    return form == "int4" and rows <= 8 and capability == (9, 0)


def gemv_same(
    x: Layout,
    weight: Layout,
    bias: Layout | None = None,
    residual: Layout | None = None,
    *,
    activation: str = "",
    version: str = "gemv",
) -> Plan:
    """Planner of the same with weights of x's own dtype: x (.., in) of up to 16 rows, in a multiple
    of 8, weight (out, in), both contiguous and aligned."""
    places = iter(range(2, 4))
    at_bias, at_residual = (
        None if layout is None else Input(next(places)) for layout in (bias, residual)
    )
    launch = _gemv(
        x,
        *weight.shape,
        "same",
        0,
        activation,
        (Input(1), Output(0), None),
        at_bias,
        at_residual,
        0,
        version,
    )
    return Plan([x.like((*x.shape[:-1], weight.shape[0]))], [launch])


def _gemv(
    x: Layout,
    out: int,
    depth: int,
    form: str,
    group: int,
    activation: str,
    weight: tuple[ArrayArg, ArrayArg, ArrayArg | None],
    bias: ArrayArg | None,
    residual: ArrayArg | None,
    scales: int,
    version: str,
) -> Launch:
    """The launch. weight: stored numbers, scales, zero points."""
    from ..matmul.gemv import COLUMNS, PER_WORD, Gemv, gemv

    rows = x.size // depth
    words = 4 if form == "same" else gemv_words(depth, form, group)
    chunk = 4 * words * PER_WORD[form]
    chunks = blocks(depth, chunk)
    early = (
        "early" in version
        or version == "gemv"
        and gemv_early(rows, form, devices.capability(x.device))
    )
    size = version.removeprefix("gemv").removesuffix("early").strip()
    found = (
        map(int, size.split("x"))
        if size
        else gemv_choice(rows, out, chunks, devices.multiprocessors(x.device), form)
    )
    warps, tiles, ahead = found
    values, scale, zero = weight
    kernel = gemv(
        Gemv(
            KINDS[x.dtype.name],
            form,
            words,
            warps,
            tiles,
            ahead,
            rows > 8,
            depth % chunk == 0,
            group // chunk,
            zero is not None,
            activation,
            bias is not None,
            residual is not None,
            early,
        )
    )
    nbytes = out * depth // PER_WORD[form] * 4
    each = depth // group if group else int(scales > 1)
    return Launch(
        kernel,
        blocks(out, tiles * COLUMNS),
        32 * warps,
        [
            Input(0).flat,
            values.view((nbytes,), dtype=np.uint8),
            scale.flat,
            (zero or scale).flat,
            (bias or Output(0)).flat,
            (residual or Output(0)).flat,
            Output(0).flat,
            *[np.int32(v) for v in (rows, out, depth, chunks, each)],
        ],
        early=early,
    )
