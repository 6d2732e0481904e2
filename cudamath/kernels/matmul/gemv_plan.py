"""Plans of products with few rows: which matrix-vector kernel runs, and its arguments."""

from __future__ import annotations

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16, float16
from ...core.layout import Layout
from ...runtime import device as devices
from ..compiler.lazy_numba import SIMULATOR
from ..lib.integers import blocks
from .problem import Problem, transpose

GEMV_ROWS = 16  # up to this many rows of A, gemv.py is faster


def few_rows(x: Layout, weight: Layout) -> bool:
    """Whether gemv.py can multiply x (.., in) by weight (out, in): 1 to 16 rows of 16-bit numbers,
    all in C order."""
    whole = weight.ndim == 2 and all(o.contiguous and o.aligned for o in (x, weight))
    return bool(
        not SIMULATOR
        and x.dtype in (float16, bfloat16)
        and whole
        and x.size
        and weight.size
        and x.shape[-1] % 8 == 0
        and x.size <= GEMV_ROWS * x.shape[-1]
        and devices.capability(x.device) >= (8, 0)
    )


KINDS = {"bfloat16": "bf16", "float16": "f16"}
PER_BYTE = {"int4": 2}


def gemv_words(depth: int, form: str, group: int) -> int:
    """32-bit words of a row of w that a thread of `gemv` reads at a time: 4, or 2 where groups are
    small; 0: not for it."""
    per_word = 4 * PER_BYTE.get(form, 1)
    for words in (4, 2) if group else (4,):
        if depth % (words * per_word) == 0 and group % (4 * words * per_word) == 0:
            return words
    return 0


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


def plan(problem: Problem) -> Plan:
    """Plan of a product of few rows, of two operands of one dtype."""
    return gemv_same(problem.a, transpose(problem.b), version=f"gemv {problem.tile}".strip())


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
    launch = gemv_launch(
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


def gemv_launch(
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
    from .gemv import COLUMNS, PER_WORD, Gemv, gemv

    rows = x.size // x.shape[-1]  # and not by `depth`: y has a row for each of x
    words = 4 if form == "same" else gemv_words(depth, form, group)
    chunk = 4 * words * PER_WORD[form]
    chunks = blocks(depth, chunk)
    early = (
        "early" in version
        or version == "gemv"
        and gemv_early(rows, form, devices.capability(x.device))
    )
    size = version.removeprefix("gemv").removesuffix("early").strip()
    numbers = (
        map(int, size.split("x"))
        if size
        else gemv_choice(rows, out, chunks, devices.multiprocessors(x.device), form)
    )
    warps, tiles, ahead = numbers
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
