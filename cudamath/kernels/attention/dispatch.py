"""Attention: which kernel runs when, and its launch.

Versions, from simple to fast:

``simt``             tiles in shared memory, ordinary arithmetic: any GPU, dtype, depth, mask,
                     dropout
``sm80``             the same for 16-bit numbers by mma.sync, on compute capability 8.0 and later;
                     depths that are multiples of 8
``decode_split_kv``  few queries and many keys, 16-bit numbers: the keys are split over the device;
                     mma.sync
``forward_sm90``     16-bit numbers on the tensor cores of compute capability 9.0, fed by TMA;
                     ``forward_sm90_split`` by parts of the keys, where tiles of queries are few
``backward_sm90``    its gradient; for heads of more than 128 numbers
                     ``backward_sm90_large_heads``; ``backward_sm90_split`` by parts of the heads
                     that share keys

Each is the file of that name, by parts that of the whole; merge.py brings parts together. Which
runs when: by the times that work.py and its rates predict.

torch: the faster one of its back ends, cuDNN's and FlashAttention-2.

Measured (row versions_attention):
4 x 16 x 4,096 x 128, causal, bfloat16; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

             TFLOP/s      of torch
    simt         5.7          0.01
    sm80         175          0.30
    sm90         657          1.13
    torch        582          1.00

(end of what was measured)

Measured (row versions_attention_gradients):
4 x 16 x 4,096 x 128, causal, bfloat16, gradients; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

             TFLOP/s      of torch
    simt         4.6          0.01
    sm80         114          0.23
    sm90         498          1.01
    torch        492          1.00

(end of what was measured)
"""

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ..lib.versions import Version, choose
from . import work
from .problem import KEYS, Problem, box_strides

DECODED_ROWS = 16  # queries that share keys, up to which decode_split_kv.py can run


# -------------------- what a version supports


def _sm80(p: Problem) -> bool:
    return p.tensor_cores


def _fast_scores(p: Problem) -> bool:
    """For versions on tensor cores that have no dropout, and a finite number for hidden scores."""
    return p.tensor_cores and not p.dropping and p.finite_scores


def mask_in_pairs(p: Problem) -> bool:
    """Whether forward_sm90.py can read the mask: pairs of columns that lie next to each other, at
    multiples of their size."""
    mask = p.mask
    if mask is None:
        return True
    outer = [s for n, s in zip(mask.shape[:3], mask.strides[:3], strict=True) if n > 1]
    return (
        mask.shape[3] == p.keys
        and p.keys % 2 == 0
        and mask.strides[3] == mask.itemsize
        and mask.aligned
        and all(s % (2 * mask.itemsize) == 0 for s in outer)
    )


def _forward_sm90(p: Problem) -> bool:
    return p.capability[0] == 9 and _fast_scores(p) and mask_in_pairs(p)


def _forward_sm90_split(p: Problem) -> bool:
    """Two parts of two tiles of keys at least; results that lie as the kernel that merges parts
    writes them."""
    return _forward_sm90(p) and not p.packed and p.keys > 3 * KEYS[p.columns]


def _decode(p: Problem) -> bool:
    """Few queries, operands that need no copy, no mask."""
    return (
        _fast_scores(p)
        and p.mask is None
        and not p.packed
        and p.repeats * p.rows <= DECODED_ROWS
        and all(box_strides(x) is not None for x in (p.q, p.k, p.v))
    )


def _backward_sm90(p: Problem) -> bool:
    return p.capability[0] == 9 and _fast_scores(p) and p.mask is None


def _backward_sm90_split(p: Problem) -> bool:
    """Heads that share keys, and gradients that lie as the kernel that adds them writes them."""
    alone = p.limited or p.packed
    return _backward_sm90(p) and p.depth <= 128 and p.repeats > 1 and not alone


# -------------------- the versions


FORWARD = (
    Version(
        "decode_split_kv",
        "attention.decode_split_kv.plan",
        supports=_decode,
        reason="few queries: the keys are split over the device",
        work=work.decode,
    ),
    Version(
        "forward_sm90",
        "attention.forward_sm90.plan",
        supports=_forward_sm90,
        reason="wgmma, operands by TMA",
        work=work.forward,
    ),
    Version(
        "forward_sm90_split",
        "attention.forward_sm90.plan_split",
        supports=_forward_sm90_split,
        reason="wgmma, operands by TMA; few tiles of queries: keys are split",
        work=work.forward_split,
    ),
    Version("sm80", "attention.sm80.forward", supports=_sm80, reason="mma.sync", work=work.sm80),
    Version(
        "simt",
        "attention.simt.forward",
        reason="any dtype, depth, mask and dropout",
        work=work.simt,
    ),
)

BACKWARD = (
    Version(
        "backward_sm90",
        "attention.backward_sm90.plan",
        supports=lambda p: _backward_sm90(p) and p.depth <= 128,
        reason="wgmma, operands by TMA",
        work=work.backward,
    ),
    Version(
        "backward_sm90_split",
        "attention.backward_sm90.plan_split",
        supports=_backward_sm90_split,
        reason="wgmma, operands by TMA; heads that share few heads of keys are split",
        work=work.backward_split,
    ),
    Version(
        "backward_sm90_large_heads",
        "attention.backward_sm90_large_heads.plan",
        supports=lambda p: _backward_sm90(p) and p.depth > 128,
        reason="wgmma, operands by TMA, heads of more than 128 numbers",
        work=work.backward_large_heads,
    ),
    Version("sm80", "attention.sm80.backward", supports=_sm80, reason="mma.sync", work=work.sm80),
    Version(
        "simt",
        "attention.simt.backward",
        reason="any dtype, depth, mask and dropout",
        work=work.simt,
    ),
)


def attention(
    q: Layout,
    k: Layout,
    v: Layout,
    *optional: Layout | None,
    causal: bool,
    scale: float,
    dropping: bool,
    version: str | None = None,
) -> Plan:
    """Planner: q (B, H, Sq, D), k (B, Hkv, Sk, D), v (B, Hkv, Sk, Dv); optional: mask, query
    lengths, key lengths, a generator's cell -> y, lse.

    version: a name of `FORWARD`.
    """
    mask, queries, keys, cell = (*optional, None, None, None, None)[:4]
    problem = Problem(q, k, v, mask, queries, keys, cell, causal, scale, dropping)
    return choose("attention", FORWARD, problem, version)


def attention_grad(
    g: Layout,
    q: Layout,
    k: Layout,
    v: Layout,
    y: Layout,
    lse: Layout,
    *optional: Layout | None,
    causal: bool,
    scale: float,
    dropping: bool,
    version: str | None = None,
) -> Plan:
    """Planner: g, y (B, H, Sq, Dv), lse (B, H, Sq), the others as above -> dq, dk, dv. version: a
    name of `BACKWARD`."""
    mask, queries, keys, cell = (*optional, None, None, None, None)[:4]
    problem = Problem(q, k, v, mask, queries, keys, cell, causal, scale, dropping, g, lse)
    return choose("attention_grad", BACKWARD, problem, version)
