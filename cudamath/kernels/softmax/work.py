"""What each version of softmax does on a problem (lib/prediction.py): from that its time is
predicted."""

from __future__ import annotations

from ..lib.integers import blocks
from ..lib.prediction import Machine, Work
from ..lib.streams import sized, streamed
from .online import CACHE
from .problem import LANES, PARTS, Problem, cut_columns, spread_cluster

LONG, CACHED_THREADS = 1024, 512  # threads for a line: long_rows, shared_memory
REDUCTION = 600  # cycles in which the threads of a block meet twice
SECTOR = 32  # bytes that memory brings at least
AGAIN = 0.4  # of a byte that is read once more, from the second-level cache


def _bytes(p: Problem) -> float:
    return float((len(p.inputs) + 1) * p.x.nbytes)


def _named(p: Problem, method: str, width: int) -> str:
    gradient = " gradient" if p.gradient else " forward"
    return f"softmax_{method}{gradient}" + (" single" if width == 1 else " wide")


def _element(p: Problem) -> float:
    """Instructions of an element."""
    return (6 if p.gradient else 8) * (4 if p.x.itemsize == 8 else 1)


def rows(p: Problem) -> Work:
    """simt.py, a line in registers."""
    assert p.shape
    threads, together, width, vectors = p.shape
    resident = 2048 if width * vectors * len(p.inputs) <= 16 else 1024
    _, edges = p.access
    cycles = streamed(
        Machine.of(p.device),
        blocks(p.lines, together) * together * threads,
        vectors * len(p.inputs),
        8 + width * _element(p) + 6 * edges,
        vectors * len(p.inputs),
        REDUCTION * (1 + (threads > 32)) + 8 * width * vectors,
        resident,
    )
    # alone: no other block reads while this one waits
    beside = " alone" if threads == LONG else " beside others"
    kind = _named(p, "rows", width) + beside + (" edges" if edges else " whole")
    return sized(Work(kind, cycles, _bytes(p)), Machine.of(p.device))


def long_rows(p: Problem) -> Work:
    """simt.py: lines are read twice."""
    width, edges = p.access
    loads = 2 * len(p.inputs) * blocks(p.n, LONG * width)
    cycles = streamed(
        Machine.of(p.device), p.lines * LONG, loads, 8 + width * _element(p), 4, 2 * REDUCTION
    )
    kind = _named(p, "long_rows", width)
    return sized(
        Work(kind, cycles, _bytes(p) * (1 + AGAIN * len(p.inputs) / (len(p.inputs) + 1))),
        Machine.of(p.device),
    )


def shared_memory(p: Problem) -> Work:
    """shared_memory.py: two lines on a multiprocessor, or one."""
    machine, size = Machine.of(p.device), p.n * p.x.itemsize
    room = CACHE[machine.capability]
    loads = 2 * len(p.inputs) * blocks(p.n, CACHED_THREADS * p.widest)
    cycles = streamed(
        machine,
        p.lines * CACHED_THREADS,
        loads,
        10 + p.widest * _element(p),
        4,
        2 * REDUCTION,
        1024,
    )
    beyond = max(0.0, 1 - (2 if not p.gradient else 1) * room / size)
    again = AGAIN * beyond * len(p.inputs) * p.x.nbytes
    return sized(
        Work(_named(p, "shared_memory", p.widest), cycles, _bytes(p) + again), Machine.of(p.device)
    )


def cluster(p: Problem) -> Work:
    """cluster.py: a line in the registers of several blocks."""
    ranks, threads, vectors = spread_cluster(p.n, p.widest, len(p.inputs))
    cycles = streamed(
        Machine.of(p.device),
        p.lines * ranks * threads,
        vectors * len(p.inputs),
        10 + p.widest * _element(p),
        vectors * len(p.inputs),
        4 * REDUCTION,
        1024,
    )
    return sized(Work(_named(p, "cluster", p.widest), cycles, _bytes(p)), Machine.of(p.device))


def _wasted(p: Problem) -> float:
    return max(1.0, SECTOR / (p.inner * p.x.itemsize)) ** 0.5


def columns(p: Problem) -> Work:
    """columns.py, a block for LANES lines."""
    loads = 2 * len(p.inputs) * blocks(p.n, PARTS)
    threads = blocks(p.lines, LANES) * LANES * PARTS
    cycles = streamed(
        Machine.of(p.device),
        threads,
        loads,
        6 + _element(p),
        4 * len(p.inputs),
        2 * REDUCTION,
        1024,
    )
    again = AGAIN * len(p.inputs) * p.x.nbytes
    return sized(
        Work(_named(p, "columns", 0), cycles, (_bytes(p) + again) * _wasted(p)),
        Machine.of(p.device),
    )


def columns_split(p: Problem) -> Work:
    """columns.py by segments of lines."""
    segments, length = cut_columns(p)
    loads = len(p.inputs) * blocks(length, PARTS)
    threads = segments * blocks(p.lines, LANES) * LANES * PARTS
    ends = blocks(2 * segments, PARTS) * 100
    cycles = 2 * streamed(
        Machine.of(p.device),
        threads,
        loads,
        6 + _element(p),
        4 * len(p.inputs),
        2 * REDUCTION + ends,
        1024,
    )
    again = AGAIN * len(p.inputs) * p.x.nbytes
    return sized(
        Work(_named(p, "columns", 0), cycles, (_bytes(p) + again) * _wasted(p), 2),
        Machine.of(p.device),
    )


def plain(p: Problem) -> Work:
    """simt.py: a thread per line, which waits for each element three times."""
    passes = 2 if p.gradient else 3
    cycles = streamed(Machine.of(p.device), p.lines, passes * p.n * len(p.inputs), 40, 1)
    waste = SECTOR / p.x.itemsize if p.inner == 1 else _wasted(p)
    return sized(Work("softmax_plain", cycles, _bytes(p) * waste), Machine.of(p.device))
