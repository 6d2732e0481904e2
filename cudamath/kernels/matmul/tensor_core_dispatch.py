"""Plans of products on tensor cores: copies of operands, the tile, split-k.

The kernels: sm90.py (compute capability 9.0) and sm80.py (8.0 and later).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import (
    Addresses,
    ArrayArg,
    Input,
    Output,
    Temp,
    TensorMap,
)
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ...runtime import device as devices
from ..copy.dispatch import copy_part
from ..copy.parts import Part
from ..lib import split_k_reduce
from ..lib.integers import blocks
from . import aligned_copy, sm80
from .measured import fastest
from .problem import Problem, Product
from .sm90 import Tile, box_of, matmul_wgmma
from .sm90_tiles import MOST_PARTS, Choice, choose
from .split_k import sum_parts

KINDS = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "tf32",
    "int8": "s8",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}


# -------------------- operands


class _Operand(NamedTuple):
    """An operand as TMA reads it: "K" or "M" (contiguous along k, or along m or n), sizes, strides
    in bytes."""

    major: str
    shape: tuple[int, int, int]
    strides: tuple[int, int, int]
    both: int  # 1: one matrix for each of the batch


def _operand(
    layout: Layout,
    batch: int,
    rows: int,
    depth: int,
    strides: tuple[int, int, int],
    offsets: list[int],
    majors: str,
) -> _Operand | None:
    """(batch, rows, depth) with these strides as TMA reads it, or None if it cannot."""
    step, along_rows, along_k = strides
    both = int(batch > 1 and step != 0)
    if not layout.aligned or any(o % 16 for o in offsets) or both and (step % 16 or step < 0):
        return None
    size = layout.itemsize
    for major, inner, outer, width, count in (
        ("K", along_k, along_rows, depth, rows),
        ("M", along_rows, along_k, rows, depth),
    ):
        if major not in majors:
            continue
        if count == 1:
            outer = -(-width * size // 16) * 16
        if (inner == size or width == 1) and outer % 16 == 0 and outer >= width * size:
            return _Operand(
                major,
                (batch if both else 1, count, width),
                (step if both else outer * count, outer, size),
                both,
            )
    return None


def _padded(layout: Layout) -> Layout:
    """A layout whose last axis is contiguous and whose rows begin at multiples of 16 bytes."""
    if layout.ndim < 2:
        return layout.like()
    unit = 16 // layout.itemsize
    row = -(-layout.shape[-1] // unit) * unit
    strides = shapes.contiguous_strides((*layout.shape[:-1], row), layout.itemsize)
    return Layout.of(layout.shape, strides, layout.dtype, layout.device)


def _sides(
    p: Product, a: Layout, b: Layout, majors: str
) -> tuple[_Operand | None, _Operand | None]:
    flipped = (p.strides_b[0], p.strides_b[2], p.strides_b[1])
    return (
        _operand(a, p.batch, p.m, p.k, p.strides_a, [x for x, _, _ in p.parts], majors),
        _operand(b, p.batch, p.n, p.k, flipped, [y for _, y, _ in p.parts], majors),
    )


class _Prepared(NamedTuple):
    """A product whose operands TMA and cp.async can read: where they lie, and the copies that bring
    them there."""

    product: Product
    sides: tuple[_Operand, _Operand]
    arguments: list[ArrayArg]
    steps: list[Launch]
    temps: list[Layout]

    def launches(self, wider: int = 1) -> Iterator[tuple[tuple[int, int, int], int]]:
        """(byte offsets in A, B, C, matrices) of the launches of a kernel that finds C's matrices
        behind each other. wider: how many times as wide as the operands' C's numbers are."""
        p = self.product
        if p.batch == 1 or p.strides_c[0] == p.m * p.n * p.out.itemsize:
            yield from (((x, y, z * wider), count) for (x, y, z), count in p.launches())
        else:
            steps = (p.strides_a[0], p.strides_b[0], p.strides_c[0])
            for x, y, z in p.parts:
                for i in range(p.batch):
                    yield (x + i * steps[0], y + i * steps[1], (z + i * steps[2]) * wider), 1


def _prepared(a: Layout, b: Layout, majors: str) -> _Prepared:
    """Operands that cannot be read as they lie are copied to scratch, contiguous along their last
    axis. Those that differ only in where their rows begin are copied in one launch
    (aligned_copy.py)."""
    p = Product(a, b)
    operands, arguments = [a, b], [Input(0), Input(1)]
    temps: list[Layout] = []
    steps: list[Launch] = []
    matrices: list[aligned_copy.Rows] = []
    for i, side in enumerate(_sides(p, a, b, majors)):
        if side is not None:
            continue
        operand = operands[i]
        flip = majors == "K" and i == 1 and operand.ndim > 1  # B (k, n) is read as its transpose
        view = _transposed(operand) if flip else operand
        layout = _padded(view)
        arguments[i] = Temp(len(temps))
        whole_rows = layout.strides[0] * layout.shape[0] // layout.itemsize
        temps.append(Layout.new((whole_rows,), layout.dtype, layout.device))
        rows = aligned_copy.rows_of(Input(i), arguments[i], view)
        if rows is not None and aligned_copy.fits(rows, view.itemsize):
            matrices.append(rows)
        else:
            steps += copy_part(
                Part(Input(i).view(view.shape, view.strides), view),
                Part(arguments[i].view(layout.shape, layout.strides), layout),
            )
        operands[i] = _transposed(layout) if flip else layout
    if matrices:
        steps.append(aligned_copy.launch(matrices, a.itemsize))
    if temps:
        p = Product(*operands)
    side_a, side_b = _sides(p, *operands, majors)
    if side_a is None or side_b is None:
        raise AssertionError(f"matmul: {operands} cannot be read by 16 bytes")
    return _Prepared(p, (side_a, side_b), arguments, steps, temps)


def _transposed(layout: Layout) -> Layout:
    """The last two axes exchanged."""
    shape, strides = layout.shape, layout.strides
    return layout.view(
        (*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2])
    )


# -------------------- planners


def plan_sm90(problem: Problem) -> Plan:
    """Plan of a product by wgmma; the tile of the problem, or the fastest one."""
    p = problem
    return wgmma(p.a, p.b, p.tile, tf32=p.tf32 and p.a.dtype == np.float32)


def plan_sm90_int32(problem: Problem) -> Plan:
    """The same of int8, summed to int32."""
    return wgmma(problem.a, problem.b, problem.tile, out=np.dtype(np.int32))


def plan_sm80(problem: Problem) -> Plan:
    """Plan of a product by mma.sync."""
    p = problem
    return mma(p.a, p.b, tf32=p.tf32 and p.a.dtype == np.float32)


def plan_sm80_int32(problem: Problem) -> Plan:
    """The same of int8, summed to int32."""
    return mma(problem.a, problem.b, wide=True)


def mma(a: Layout, b: Layout, *, tf32: bool = False, wide: bool = False) -> Plan:
    """Plan of a @ b by mma.sync: 16-bit numbers, int8, float64, float32 rounded to TF32 (`tf32`);
    compute capability 8.0.

    wide: int8 is summed to int32.
    """
    if (a.dtype == np.float32) != tf32:
        raise AssertionError("mma: float32 is multiplied as TF32 or not at all")
    ready = _prepared(a, b, "KM" if a.itemsize == 2 else "K")
    p, (side_a, side_b) = ready.product, ready.sides
    columns = sm80.SIDE
    if a.dtype == np.float64:
        kernel = sm80.matmul_mma_double(devices.capability(a.device) >= (9, 0))
    else:
        kind = KINDS[a.dtype.name]
        store = "f32" if tf32 else "s32" if wide else kind
        columns = sm80.columns_for(p.n, devices.capability(a.device))
        kernel = sm80.matmul_mma(kind, side_a.major, side_b.major, store, a.itemsize, columns)
    tiles_m, tiles_n = blocks(p.m, sm80.SIDE), blocks(p.n, columns)
    steps = list(ready.steps)
    out = p.out.like(dtype=np.dtype(np.int32)) if wide else p.out
    for offsets, batch in ready.launches(4 if wide else 1):
        arrays = [
            ArrayArg(x.kind, x.index).view((size,), None, dtype, offset)
            for x, offset, size, dtype in zip(
                (*ready.arguments, Output(0)),
                offsets,
                (1, 1, batch * p.m * p.n),
                (a.dtype, a.dtype, out.dtype),
                strict=True,
            )
        ]
        numbers = [np.int32(x) for x in (p.m, p.n, p.k)]
        pitches = [np.int64(side.strides[1]) for side in ready.sides]
        strides = [np.int64(side.strides[0] * side.both) for side in ready.sides]
        steps.append(
            Launch(
                kernel,
                (tiles_m * tiles_n, batch),
                sm80.THREADS,
                [*arrays, *numbers, *pitches, *strides, np.int32(tiles_m), np.int32(tiles_n)],
                sm80.shared_bytes(columns),
            )
        )
    return Plan([out], steps, ready.temps)


class Epilogue(NamedTuple):
    """f(C scale_a scale_b + bias) + residual; see sm90.Tile, also for `scaled`, `keep` and `slope`.
    Inputs of the plan, or None. With `keep` the plan has a second output. bias: several where B has
    `parts`."""

    activation: str = ""
    bias: ArrayArg | Addresses | None = None
    residual: ArrayArg | None = None
    scaled: str = ""
    scale_a: ArrayArg | None = None
    scale_b: ArrayArg | None = None
    keep: bool = False
    slope: bool = False


def wgmma(
    a: Layout,
    b: Layout,
    tile: str = "",
    *,
    tf32: bool = False,
    out: np.dtype | None = None,
    epilogue: Epilogue | None = None,
    parts: int = 1,
) -> Plan:
    """Plan of a @ b by wgmma: 16-bit numbers, 8-bit ones, float32 rounded to TF32 (`tf32`); compute
    capability 9.0.

    tile: see Choice.parse; by default the fastest one measured, else the one that `choose` takes.
    out: C's dtype where it is not the operands': int32 for int8, float32 for float8, or with an
    epilogue a 16-bit one for both. epilogue: for C of 16-bit numbers. All but scales need rows that
    are `boxed`.
    """
    if (a.dtype == np.float32) != tf32:
        raise AssertionError("wgmma: float32 is multiplied as TF32 or not at all")
    ready = _prepared(a, b, "KM" if a.itemsize == 2 else "K")
    p = ready.product
    if parts > 1 and (ready.steps or p.batch != parts or len(p.parts) > 1 or parts > MOST_PARTS):
        raise AssertionError(f"wgmma: {a} and {parts} matrices {b} cannot be read as they lie")
    if not tile:
        # an epilogue needs whole sums: no tile that splits k
        decision = fastest(Problem(a, b, tf32), ["sm90"], whole=epilogue is not None)
        tile = decision.choice.removeprefix("sm90").strip() if decision else ""
    choice = Choice.parse(tile) if tile else choose(p, a.device, epilogue is not None, a.itemsize)
    if epilogue and choice.splits > 1:
        raise AssertionError(f"wgmma: an epilogue cannot follow parts of k, got {tile}")
    steps, temps = list(ready.steps), list(ready.temps)
    c = p.out if out is None else p.out.like(dtype=out)
    for offsets, batch in ready.launches(c.itemsize // p.out.itemsize):
        launches, scratch = _launches(
            ready, a, c, batch, offsets, choice, epilogue, len(temps), parts
        )
        steps += launches
        temps += scratch
    return Plan([c, c] if epilogue and epilogue.keep else [c], steps, temps)


def boxed(n: int, offset: int = 0) -> bool:
    """Whether TMA can store rows of n 16-bit numbers."""
    return n % 8 == 0 and offset % 16 == 0


def _launches(
    ready: _Prepared,
    a: Layout,
    c: Layout,
    batch: int,
    offsets: tuple[int, int, int],
    choice: Choice,
    epilogue: Epilogue | None,
    first_temp: int,
    parts: int,
) -> tuple[list[Launch], list[Layout]]:
    """The launches for one part of a product, and their scratch."""
    p = ready.product
    m, n, k = p.m, p.n, p.k
    kind = KINDS[a.dtype.name]
    depth = 128 // a.itemsize
    share = min(choice.share, blocks(k, depth))
    slabs = blocks(blocks(k, depth), min(choice.splits * share, blocks(k, depth)))
    splits = 1 if share > 1 else blocks(blocks(k, depth), slabs)
    if splits > 1 or c.itemsize == 4:
        store = "pairs" if n % 2 == 0 else "wide"
    elif c.dtype == np.int8:
        store = "s8"
    else:
        store = "box" if boxed(n, offsets[2]) else KINDS[c.dtype.name]
    extra = epilogue or Epilogue()
    if store != "box" and (extra.activation or extra.bias or extra.residual or extra.keep):
        raise AssertionError(f"wgmma: for rows of {n} numbers the epilogue has scales alone")
    tile = Tile(
        kind,
        ready.sides[0].major,
        ready.sides[1].major,
        choice.m,
        choice.n,
        choice.pingpong,
        store,
        extra.activation,
        extra.bias is not None,
        extra.residual is not None,
        share,
        KINDS[c.dtype.name] if c.itemsize == 2 * a.itemsize == 2 else "",
        extra.scaled,
        extra.keep,
        extra.slope,
        parts,
    )
    tiles_m, tiles_n = blocks(m, tile.m), blocks(n, tile.n)
    tiles = tiles_m * tiles_n * batch * splits
    maps: list[Any] = []
    for argument, side, offset, rows in zip(
        ready.arguments, ready.sides, offsets, (tile.m, tile.n), strict=False
    ):
        own = parts > 1 and side.both  # each matrix is an array
        shape = (batch if side.both and not own else 1, *side.shape[1:])
        for i in range(parts if own else 1):
            view = ArrayArg(argument.kind, argument.index + i, offset=offset, dtype=a.dtype)
            maps.append(
                TensorMap(
                    view,
                    shape,
                    side.strides,
                    box_of(tile, side.major, rows),
                    kind="tf32" if kind == "tf32" else None,
                )
            )
    maps += [np.int64(0)] * (1 + MOST_PARTS - len(maps))
    size = batch * m * n
    out = Output(0).view((size,), offset=offsets[2])
    temps: list[Layout] = []
    target: ArrayArg = out
    if splits > 1:
        temps = [
            Layout.new(
                (splits * size,), np.dtype(np.int32 if kind == "s8" else np.float32), a.device
            )
        ]
        target = Temp(first_temp)
    for i in range(2):
        stored = store == "box" and (extra.keep or i == 0)
        maps.append(
            TensorMap(ArrayArg("y", i, offset=offsets[2]), (batch, m, n), None, (1, 64, 64))
            if stored
            else np.int64(0)
        )
    beside = [
        array or target for array in (extra.bias, extra.residual, extra.scale_a, extra.scale_b)
    ]
    numbers = [
        np.int32(x)
        for x in (
            m,
            n,
            slabs,
            splits,
            tiles_m,
            tiles_n,
            tiles,
            *(side.both if parts == 1 else 0 for side in ready.sides),
        )
    ]
    grid = tiles * share if share > 1 else min(devices.multiprocessors(a.device), tiles)
    steps = [
        Launch(
            matmul_wgmma(tile),
            grid,
            tile.threads,
            [*maps, target, *beside, *numbers],
            tile.shared,
            share,
            early=True,
        )
    ]
    if splits > 1 and batch == 1 and kind != "s8" and size % 4 == offsets[2] % 16 == 0:
        steps.append(
            split_k_reduce.add(
                Layout.new((size,), c.dtype, c.device), splits, target, out, early=True
            )
        )
    elif splits > 1:
        steps.append(
            Launch(
                sum_parts(temps[0].dtype, c.dtype),
                blocks(size, 256),
                256,
                [target, out, np.int64(splits), np.int64(m * n)],
            )
        )
    return steps, temps
