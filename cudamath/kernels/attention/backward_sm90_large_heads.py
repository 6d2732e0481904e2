"""Gradients of attention on compute capability 9.0 for heads of more than 128 numbers: the plan.

Two kernels after ``attention_grad_prepare`` of backward_sm90.py: dk and dv
(backward_sm90_large_heads_dkv.py), then dq (backward_sm90_large_heads_dq.py).
"""

from __future__ import annotations

import numpy as np

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ..lib.integers import blocks
from .backward_sm90 import PAD, prepare_launch
from .backward_sm90_large_heads_dkv import OWNED, ROWS, THREADS, Tile, attention_grad_wide_keys
from .backward_sm90_large_heads_dq import attention_grad_wide_queries
from .problem import Operands, Problem, result_like


def plan(p: Problem) -> Plan:
    """Plan of dq, dk and dv."""
    if p.g is None:
        raise AssertionError("attention_grad: no gradient")
    q, columns, lengths = p.q, p.columns, p.both_lengths()
    tile = Tile(p.number, columns, columns != p.depth, p.causal, p.limited)
    operands = Operands()
    maps = [operands.map(Input(i), x, ROWS) for i, x in enumerate((p.g, q, p.k, p.v))]
    tiles_k, tiles_q = blocks(p.keys, ROWS), blocks(p.rows, OWNED)
    padded, heads = PAD * blocks(p.rows, PAD), p.batch * p.heads
    single = np.dtype(np.float32)
    # the last one is of attention_grad_prepare alone: the dq of large heads is not summed in turns
    sizes = [(heads * padded, single), (heads * padded, single), (1, np.dtype(np.int32))]
    lse2, mean, turns = (Temp(len(operands.temps) + i) for i in range(3))
    # heads whose blocks run at the same time begin in turn
    together = max(1, p.multiprocessors // tiles_k)
    numbers = [
        p.shares,
        p.repeats,
        p.rows,
        p.keys,
        padded,
        tiles_k,
        blocks(p.rows, ROWS),
        together,
        p.batch * p.shares,
    ]
    before = [*maps, *lengths, lse2, mean]
    dkv = Launch(
        attention_grad_wide_keys(tile),
        tiles_k * p.batch * p.shares,
        THREADS,
        [*before, Output(1), Output(2), *map(np.int32, numbers), *p.factors],
        tile.shared_keys,
    )
    numbers = [
        p.heads,
        p.repeats,
        p.rows,
        p.keys,
        padded,
        tiles_q,
        p.heads_together,
        heads,
    ]
    dq = Launch(
        attention_grad_wide_queries(tile._replace(tail=not p.limited and p.keys % ROWS != 0)),
        tiles_q * heads,
        THREADS,
        [*before, Output(0), *map(np.int32, numbers), *p.factors],
        tile.shared_queries,
    )
    prepare = prepare_launch(p, maps[0].array, padded, lse2, mean, turns)
    return Plan(
        [result_like(x) for x in (q, p.k, p.v)],
        [*operands.steps, prepare, dkv, dq],
        [*operands.temps, *(q.like((size,), dtype) for size, dtype in sizes)],
    )
