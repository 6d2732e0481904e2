"""What each version of a scan does on a problem (lib/prediction.py): from that its time is
predicted."""

from __future__ import annotations

from ..compiler.decorators import WARP
from ..lib.integers import blocks
from ..lib.prediction import Machine, Work
from ..lib.streams import SECTOR, sectors_of, sized, streamed
from .decoupled_lookback import THREADS, WARPS
from .problem import (
    TILE_BYTES,
    Problem,
    column_shape,
    lines_shape,
    ring_widths,
    row_shape,
    tile_shape,
)

TILE = 2500  # cycles in which a tile is loaded, scanned and stored
# times as many in ``scan_ring`` where numbers have fewer than four bytes: running maxima of 5 M
# bytes take 22.9 us (tiles 14.0), of 16-bit integers 19.1 (13.8), of 1 M 10.1 and 9.3 (6.2; H100)
NARROW = 3


def _bytes(p: Problem) -> float:
    return float(p.x.nbytes + p.out.nbytes)


def _turned(p: Problem) -> tuple[float, int]:
    """(bytes, launches) of the copies by which lines become rows of neighbours, and back."""
    if 1 in (p.after, p.n) and p.x.contiguous:
        return 0.0, 0
    return 2 * _bytes(p), 2


def _lying(copies: int) -> str:
    """Of rows of neighbours, or of such that are copied to be that."""
    return "turned" if copies else "straight"


def lines(p: Problem) -> Work:
    """lines.py."""
    segments, length = lines_shape(p)
    passes = 2 if segments > 1 else 1
    alone = p.after * p.x.itemsize < SECTOR
    sectors = sectors_of(p.after * p.x.itemsize, p.x.itemsize)
    cycles = passes * streamed(
        Machine.of(p.device), segments * p.lines, length, 12, 8, sectors=sectors
    )
    cycles += segments * 20
    waste = SECTOR / (p.after * p.x.itemsize) if alone else 1.0
    moved = (_bytes(p) + (passes - 1) * p.x.nbytes) * waste**0.5
    copied = 0 if p.x.contiguous else 1
    kind = "scan_lines rows" if alone else "scan_lines columns"
    return sized(Work(kind, cycles, moved, passes + copied), Machine.of(p.device))


def columns(p: Problem) -> Work:
    """strided.py: a block goes down a strip of columns, tile by tile."""
    layout, machine = p.boxed[2], Machine.of(p.device)
    width, held = column_shape(p.kinds, layout)
    strips = layout.shape[0] * blocks(layout.shape[2], WARP * width)
    each = max(held // (max(p.size_of_total, 4) * width), 2)
    tiles = blocks(p.n, WARPS * each)
    cycles = blocks(strips, 2 * machine.multiprocessors) * (tiles * TILE + 1000)
    filled = layout.shape[2] / (WARP * width * blocks(layout.shape[2], WARP * width))
    return sized(
        Work("scan_columns", cycles, _bytes(p) / max(filled, 0.25) ** 0.5, 1), Machine.of(p.device)
    )


def rows(p: Problem) -> Work:
    """rows.py."""
    width, vectors, lanes = row_shape(p.kinds, p.n, p.x)
    steps = blocks(p.n, width * vectors * lanes)
    held = width * vectors
    cycles = streamed(
        Machine.of(p.device), p.lines * lanes, steps * vectors, 6 + 8 * width, vectors, 300 * steps
    )
    moved, launches = _turned(p)
    kind = f"scan_rows {_lying(launches)} {'single' if width == 1 and held > 1 else 'wide'}"
    return sized(Work(kind, cycles, _bytes(p) + moved, 1 + launches), Machine.of(p.device))


def tiles(p: Problem) -> Work:
    """tiles.py."""
    body, machine = p.body, Machine.of(p.device)
    width, vectors, ranks = tile_shape(body)
    per_row = max(blocks(body.n, THREADS * width * vectors), ranks)
    waves = blocks(p.lines * per_row, 3 * machine.multiprocessors)
    tile = max(1.5, vectors * width * p.held / TILE_BYTES) * TILE
    moved, launches = _turned(p)
    more = per_row > 1 and ranks == 1
    kind = f"scan_tiles {_lying(launches)} {'single' if width == 1 else 'wide'}"
    return sized(
        Work(kind, waves * tile, _bytes(p) + moved, 1 + more + launches), Machine.of(p.device)
    )


def ring(p: Problem) -> Work:
    """sm90.py."""
    body, machine = p.body, Machine.of(p.device)
    width, shape = ring_widths(p.kinds, body.n, body.x)
    per_row = blocks(body.n, THREADS * width * shape.vectors)
    each = blocks(p.lines * per_row, shape.blocks * machine.multiprocessors)
    tile = TILE * (NARROW if body.x.itemsize < 4 else 1)
    cycles = (each + shape.stages) * tile * shape.blocks / 2 * shape.vectors / 3
    moved, launches = _turned(p)
    return sized(
        Work("scan_ring", cycles, _bytes(p) + moved, 2 + launches),
        Machine.of(p.device),
    )
