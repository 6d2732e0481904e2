"""What each version of attention does on a problem (lib/prediction.py): from that its time is
predicted.

A block owns rows of queries, or of keys, and walks over all others; if causal, over half of them.
"""

from __future__ import annotations

import math

from ...core.dtypes import compute_dtype
from ..lib.integers import blocks
from ..lib.prediction import Machine, Work
from .problem import Problem, box_strides
from .tiles_sm90 import (
    MULTIPLY_ADDS,
    OWN,
    cycles_of,
    head_splits,
    outputs_of,
    splits_of,
    terms_of,
    tiles_of,
)

ROWS = 64  # of a block of sm80.py
LEAST = 256  # keys of a part of decode_split_kv.py
WIDE, WIDE_QUERIES = 64, 128  # rows of blocks of backward_sm90_large_heads.py
STEP, ENDS = 300, 1000  # cycles of a step besides its arithmetic, and of a block
CACHED = 0.2  # bytes of memory that one costs which goes to the second-level cache
SHARED = 3  # how many times longer two reads from shared memory take than their multiply-add


def _moved(p: Problem) -> tuple[float, int]:
    """(bytes read and written once, copies of operands that kernels cannot read)."""
    operands = (p.q, p.k, p.v) if p.g is None else (p.g, p.q, p.k, p.v)
    outer = [p.q] if p.g is None else [p.q, p.q, p.k, p.v]
    masks = [p.mask] if p.mask is not None else []
    copied = [x for x in operands if box_strides(x) is None]
    nbytes = sum(x.nbytes for x in (*operands, *outer, *masks))
    return nbytes + 2.0 * sum(x.nbytes for x in copied), len(copied)


def _numbers(p: Problem) -> int:
    """Columns by which kinds of rates are told apart."""
    return 64 * blocks(max(p.depth, p.v.shape[3]), 64)


def _walked(
    p: Problem, own: int, heads: int, rows: int, others: int, step: float, resident: int
) -> float:
    """Cycles of the busiest multiprocessor of blocks that own `own` rows each, and take `step` for
    each of `others` in turn; so many blocks run together."""
    number = blocks(rows, own) * heads
    each = others * step / (2 if p.causal else 1)
    longest = others * step
    whole = blocks(number, p.multiprocessors * resident)
    together = min(resident, blocks(number, p.multiprocessors))
    busy = whole * (each * together + ENDS)
    return max(busy, longest / resident) if p.causal else busy


def forward(p: Problem) -> Work:
    """forward_sm90.py."""
    tile = min(tiles_of(p), key=lambda tile: cycles_of(p, tile))
    moved, copies = _moved(p)
    cycles = cycles_of(p, tile)
    return Work(f"attention_sm90 {_numbers(p)}", cycles, moved, 1 + tile.uneven + copies)


def forward_split(p: Problem) -> Work:
    """forward_sm90.py by parts of the keys."""
    tile, splits = splits_of(p)
    moved, copies = _moved(p)
    cycles = cycles_of(p, tile, splits)
    parts = 8.0 * splits * p.q.size
    launches = 2 + tile.uneven + copies
    return Work(f"attention_sm90_split {_numbers(p)}", cycles, moved + parts, launches)


def decode(p: Problem) -> Work:
    """decode_split_kv.py: the few queries fill a column of tiles."""
    machine, heads = Machine.of(p.device), p.batch * p.shares
    room = 2 * machine.multiprocessors  # blocks
    splits = max(1, min(room // heads, p.keys // LEAST))
    columns = 8 * blocks(p.repeats * p.rows, 8)
    of_keys = 2 * _numbers(p) * columns * blocks(p.keys, splits)
    cycles = blocks(heads * splits, room) * (2 * of_keys / machine.rate(p.q.dtype, True) + ENDS)
    parts = 8.0 * splits * p.q.size if splits > 1 else 0.0
    return Work("attention_decode", cycles, _moved(p)[0] + parts, 1 + (splits > 1))


def _mma(p: Problem, products: int, own: int, heads: int, rows: int, others: int) -> float:
    """Cycles of mma.sync, of which a multiprocessor holds three blocks of a step of 64."""
    rate = Machine.of(p.device).rate(p.q.dtype, True)
    step = products * own * 64 * _numbers(p) / rate + STEP
    return _walked(p, own, heads, rows, blocks(others, 64), step, 3 if p.depth <= 64 else 2)


def sm80(p: Problem) -> Work:
    """sm80.py: by mma.sync."""
    moved, copies = _moved(p)
    heads = p.batch * p.heads
    if p.g is None:
        cycles = _mma(p, 2, ROWS, heads, p.rows, p.keys)
        return Work(f"attention_sm80 {_numbers(p)}", cycles, moved, 1 + copies)
    deep = p.depth > 128
    cycles = _mma(p, 3, ROWS, heads, p.rows, p.keys)
    passes, products = (2, 3) if deep else (1, 4)
    of_keys = _mma(p, products, ROWS, p.batch * p.shares, p.keys, p.rows * p.repeats)
    work = Work("", cycles + passes * of_keys, moved, 3 + deep + copies)
    return work._replace(rates=f"attention_sm80_gradient {_numbers(p)}")


def simt(p: Problem) -> Work:
    """simt.py: each multiply-add reads two numbers from shared memory."""
    machine, products = Machine.of(p.device), 2 if p.g is None else 7
    scores = p.batch * p.heads * p.rows * p.keys / (2 if p.causal else 1)
    rate = machine.rate(compute_dtype(p.q.dtype), False) * machine.multiprocessors
    cycles = SHARED * products * scores * (p.depth + p.v.shape[3]) / 2 / rate
    few = max(blocks(p.rows, ROWS) * p.batch * p.heads / machine.multiprocessors, 1e-3)
    method = "attention_simt" if p.g is None else "attention_simt_gradient"
    idle = max(1.0, math.ceil(few) / few)
    return Work(method, cycles * idle, _moved(p)[0], 1 if p.g is None else 3)


def backward(p: Problem, splits: int = 1) -> Work:
    """backward_sm90.py: parts of the gradient of queries are added up in memory."""
    columns, shares = _numbers(p), p.batch * p.shares * splits
    queries = 128 if columns == 64 else 64
    terms, width = terms_of(p.depth), outputs_of(p.depth)
    step = OWN * queries * (2 * terms + 2 * width + columns) / MULTIPLY_ADDS + STEP
    tiles_q, tiles_k = blocks(p.rows, queries), blocks(p.keys, OWN)
    steps = p.repeats // splits * tiles_q
    cycles = _walked(p, OWN, shares, p.keys, steps, step, 1)
    moved, copies = _moved(p)
    sums = 8.0 * tiles_k * p.q.size / (2 if p.causal else 1)
    return Work(f"attention_sm90_gradient {columns}", cycles, moved + CACHED * sums, 3 + copies)


def backward_split(p: Problem) -> Work:
    """backward_sm90.py by parts of the heads that share keys."""
    splits = head_splits(p)
    work = backward(p, splits)
    parts = 16.0 * splits * p.k.size
    return work._replace(moved=work.moved + parts, launches=work.launches + 2)


def backward_large_heads(p: Problem) -> Work:
    """backward_sm90_large_heads.py: scores are computed twice."""
    rate, columns = MULTIPLY_ADDS, _numbers(p)
    rows = WIDE
    step = rows * rows * columns / rate
    steps = p.repeats * blocks(p.rows, rows)
    of_keys = _walked(p, rows, p.batch * p.shares, p.keys, steps, 4 * step + STEP, 1)
    own = WIDE_QUERIES
    tiles = blocks(p.keys, rows)
    of_rows = _walked(p, own, p.batch * p.heads, p.rows, tiles, 6 * step + STEP, 1)
    moved, copies = _moved(p)
    cycles = of_keys + of_rows
    return Work(f"attention_sm90_gradient {columns}", cycles, moved, 3 + copies)
