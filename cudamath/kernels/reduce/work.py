"""What each version of a reduction does on a problem (lib/prediction.py): from that its time is
predicted."""

from __future__ import annotations

from ..lib.integers import blocks
from ..lib.prediction import Machine, Work
from ..lib.streams import SECTOR, sectors_of, sized, streamed
from .problem import THREADS, Cut, Problem, Walk

LOAD, DIVISION = 6, 14  # instructions of a load, and to find its place along an axis more
NUMBERS = {1: 2, 2: 8, 3: 14}  # of an element, by the numbers of an accumulator


def _instructions(p: Problem, walk: Walk, axes: int, packed: bool = False) -> float:
    """Of a load: of its elements, and of the division by which its place is found."""
    numbers = len(p.single.kinds)
    each = NUMBERS[numbers] * ((4 if numbers == 3 else 2) if p.x.itemsize == 8 else 1)
    each += 0 if packed or p.x.itemsize > 2 else 2 + 2 * numbers  # what widens a number
    return LOAD + walk.width * each + DIVISION * (axes - 1) * (1 if walk.narrow else 4)


def _named(p: Problem, method: str, walk: Walk) -> str:
    """The kind of rates: by the numbers of an accumulator, their bits, of single elements or
    several."""
    bits = 8 * p.x.itemsize
    loads = "single" if walk.width == 1 else "wide"
    return f"reduce_{method} {len(p.single.kinds)} {bits}-bit {loads}"


def _wasted(p: Problem, run: float) -> float:
    """Bytes of memory for one that is read, where so many follow each other."""
    return max(1.0, SECTOR / max(run, 1)) ** 0.5


def _combined(p: Problem, cut: Cut, results: int) -> tuple[float, float]:
    """(cycles, bytes) of the second launch."""
    if cut.parts == 1:
        return 0.0, 0.0
    nbytes = results * cut.parts * sum(kind.bitwidth // 8 for kind in p.single.kinds)
    threads = min(cut.parts, THREADS) * p.out.size
    steps = max(results * cut.parts / max(threads, 1), 1)
    return streamed(Machine.of(p.device), threads, steps, 20, 2), 2.0 * nbytes


def _along_rows(p: Problem, method: str, cut: Cut) -> Work:
    walk, view = p.walk(True), p.view
    threads = cut.groups * cut.parts * cut.block[0] * cut.block[1]
    loads = blocks(cut.segment, cut.block[0]) + (p.count % walk.width > 0) + walk.between
    follow = view.reduced_strides[-1] == p.x.itemsize
    run = p.x.itemsize * (view.reduced[-1] if follow else 1)
    cycles = streamed(
        Machine.of(p.device),
        threads,
        loads,
        _instructions(p, walk, len(view.reduced), p.accumulator_of_rows is p.packed),
        end=900,
        groups=cut.groups * cut.parts,
        sectors=sectors_of(run, walk.width * p.x.itemsize),
    )
    more, nbytes = _combined(p, cut, p.out.size)
    moved = p.x.nbytes * _wasted(p, run) + p.out.nbytes + nbytes
    return sized(
        Work(_named(p, method, walk), cycles + more, moved, 1 + (cut.parts > 1)),
        Machine.of(p.device),
    )


def rows(p: Problem) -> Work:
    """rows.py, each row as a whole."""
    return _along_rows(p, "rows", p.cut_rows(split=False))


def rows_split(p: Problem) -> Work:
    """rows.py by segments of rows."""
    return _along_rows(p, "rows", p.cut_rows(split=True))


def _down_columns(p: Problem, stage: Problem, method: str, cut: Cut) -> Work:
    walk, view = stage.walk(False), stage.view
    across, down = cut.block
    threads = cut.groups * cut.parts * across * down
    loads = blocks(cut.segment, down)
    follow = view.kept_strides[-1] == p.x.itemsize
    run = p.x.itemsize * (min(across * walk.width, view.kept[-1]) if follow else 1)
    cycles = streamed(
        Machine.of(p.device),
        threads,
        loads,
        _instructions(p, walk, len(view.reduced)),
        end=900,
        groups=cut.groups * cut.parts,
        sectors=sectors_of(run, walk.width * p.x.itemsize),
    )
    more, nbytes = _combined(p, cut, stage.out.size)
    moved = p.x.nbytes * _wasted(p, run) + p.out.nbytes + nbytes
    launches = 2 if cut.parts > 1 or stage is not p else 1
    return sized(
        Work(_named(p, method, walk), cycles + more, moved, launches), Machine.of(p.device)
    )


def columns(p: Problem) -> Work:
    """columns.py, each column as a whole."""
    return _down_columns(p, p, "columns", p.cut_columns(split=False))


def columns_split(p: Problem) -> Work:
    """columns.py by segments of columns."""
    return _down_columns(p, p, "columns", p.cut_columns(split=True))


def columns_nested(p: Problem) -> Work:
    """columns.py, along the outer axes first."""
    return _down_columns(p, p.outer, "columns", p.outer.cut_columns(split=True))


def plain(p: Problem) -> Work:
    """plain.py: a thread per result, which waits for each of its elements."""
    cycles = streamed(Machine.of(p.device), p.out.size, max(p.count, 1), 60, 1)
    near = p.reduced_are_nearest
    moved = p.x.nbytes * (SECTOR / p.x.itemsize if near else 1.0) + p.out.nbytes
    return sized(Work("reduce_plain", cycles, moved, 1), Machine.of(p.device))
