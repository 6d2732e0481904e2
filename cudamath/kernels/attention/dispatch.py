"""Attention: which kernel runs when, and its launch.

Versions, from simple to fast:

``plain``   (simt.py)   tiles in shared memory, ordinary arithmetic: any GPU, dtype,
            depth, mask, dropout
``mma``     (sm80.py)     the same for 16-bit numbers by mma.sync (8.0 on); depths that are
            multiples of 8
``decode``  (decode_split_kv.py)  few queries and many keys, 16-bit numbers: keys split over the
device, mma.sync (8.0 on)
``wgmma``   (forward_sm90.py)   16-bit numbers on the tensor cores of compute capability 9.0, fed
            by TMA; the gradient:
                                   backward_sm90.py, and for more than 128 numbers per head
                                   backward_sm90_large_heads_dkv.py

torch: the faster one of its back ends, cuDNN's and FlashAttention-2.

Measured (row versions_attention):
4 x 16 x 4,096 x 128, causal, bfloat16; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

             TFLOP/s      of torch
    plain        5.7          0.01
    mma          175          0.30
    wgmma        657          1.13
    torch        582          1.00

(end of what was measured)

Measured (row versions_attention_gradients):
4 x 16 x 4,096 x 128, causal, bfloat16, gradients; NVIDIA H200, commit 74447bcdd4c1, 2026-11-23

             TFLOP/s      of torch
    plain        4.6          0.01
    mma          114          0.23
    wgmma        498          1.01
    torch        492          1.00

(end of what was measured)
"""

import math
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import ArrayArg, Constant, Input, Output, Scalar, Temp, TensorMap
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16, compute_dtype
from ...core.layout import Layout
from ...runtime.device import capability, multiprocessors
from ..copy.strided import copy_part, whole
from ..lib.integers import blocks
from ..lib.philox import counter as drawing_counter
from .simt import (
    SIDE,
    Kind,
    attention_grad_keys,
    attention_grad_queries,
    attention_mean,
    attention_plain,
)

MEAN_THREADS = 128
#: Columns -> (not causal, causal): (blocks of the gradient whose heads are interleaved, heads at
#: least), up to HEADS. As measured: few wait for each other's dq, many have more of it than the L2
#: cache holds.
TOGETHER = {64: ((512, 1), (4096, 1)), 128: ((256, 8), (4096, 1))}
HEADS = 32
DECODED_ROWS = 16  # queries that share keys, up to which decode_split_kv.py is taken
CACHED = (
    24 << 20
)  # bytes of keys and values that blocks share in the L2 cache: about half of an H200's


class _Extras:
    """The optional operands: a mask seen as (B, H, Sq, Sk), lengths, and dropout's counter and
    scalars."""

    def __init__(self, q: Layout, k: Layout, rest: tuple, first: int, dropping: bool):
        self.mask, self.queries, self.keys, self.cell = (*rest, None, None, None, None)[:4]
        place = iter(range(first, first + 4))
        absent = Input(0)  # not looked at
        self.arguments: list[Any] = [
            absent if x is None else Input(next(place))
            for x in (self.mask, self.queries, self.keys)
        ]
        if self.mask is not None:
            scores = (*q.shape[:3], k.shape[2])
            strides = shapes.broadcast_strides(self.mask.shape, self.mask.strides, scores)
            self.arguments[0] = self.arguments[0].view(scores, strides)
        real = compute_dtype(q.dtype)
        self.scalars: list[Any] = [*[np.uint64(0)] * 4, real.type(0)]
        if dropping:
            self.scalars = [
                *drawing_counter(self.cell is not None, next(place)),
                Scalar(3, np.uint64),
                Scalar(4, real),
            ]

    def kind(self, q: Layout, v: Layout, causal: bool, dropping: bool) -> Kind:
        return Kind(
            q.dtype,
            q.shape[3],
            v.shape[3],
            None if self.mask is None else self.mask.dtype,
            self.queries is not None,
            self.keys is not None,
            causal,
            dropping,
            self.cell is not None,
        )

    def both_lengths(self, rows: int, keys: int) -> list[Any]:
        """Query and key lengths for a kernel that takes both or neither; a missing one of them says
        all."""
        batch = next((x.shape[0] for x in (self.queries, self.keys) if x is not None), None)
        return [
            argument if x is not None or batch is None else Constant(np.full(batch, most, np.int32))
            for x, argument, most in zip(
                (self.queries, self.keys), self.arguments[1:], (rows, keys), strict=True
            )
        ]


def attention(
    q: Layout,
    k: Layout,
    v: Layout,
    *rest: Layout | None,
    causal: bool,
    scale: float,
    dropping: bool,
    version: str | None = None,
) -> Plan:
    """Planner: q (B, H, Sq, D), k (B, Hkv, Sk, D), v (B, Hkv, Sk, Dv); perhaps mask, query lengths,
    key lengths -> y, lse.

    version: "plain", "mma", "decode" or "wgmma"; by default the fastest that can do it.
    """
    extras = _Extras(q, k, rest, 3, dropping)
    if version is None:
        version = "mma" if suits_mma(q, v) else "plain"
        if version == "mma" and not dropping and suits_exponents(q, k, scale):
            if extras.mask is None:
                version = "decode" if suits_decode(q, k, v) else suits_wgmma(q)
            elif suits_wgmma_mask(k, extras.mask):
                version = suits_wgmma(q)
    if version == "wgmma":
        return _wgmma(q, k, v, extras, causal, scale)
    if version == "decode":
        return _decode(q, k, v, extras, causal, scale)
    y, lse = q.like((*q.shape[:3], v.shape[3])), q.like(q.shape[:3], compute_dtype(q.dtype))
    kind = extras.kind(q, v, causal, dropping)
    rest_of_them = [
        *extras.arguments,
        Output(0),
        Output(1),
        compute_dtype(q.dtype).type(scale),
        *extras.scalars,
    ]
    heads = math.prod(q.shape[:2])
    if version == "mma":
        from . import sm80 as mma

        tiles = _Boxes()
        operands = [tiles.array(Input(i), x) for i, x in enumerate((q, k, v))]
        launch = Launch(
            mma.attention_mma(kind),
            blocks(q.shape[2], mma.OWN) * heads,
            mma.THREADS,
            [*operands, *rest_of_them],
            mma.shared_bytes(kind, False),
        )
        return Plan([y, lse], [*tiles.steps, launch], tiles.temps)
    return Plan(
        [y, lse],
        [
            Launch(
                attention_plain(kind),
                blocks(q.shape[2], kind.tile) * heads,
                (SIDE, SIDE),
                [Input(0), Input(1), Input(2), *rest_of_them],
            )
        ],
    )


def suits_mma(q: Layout, v: Layout) -> bool:
    """Whether tensor cores can do it: 16-bit numbers, rows of 16-byte units."""
    depth = q.shape[3]
    return (
        capability(q.device) >= (8, 0)
        and q.itemsize == 2
        and depth == v.shape[3]
        and depth % 8 == 0
    )


def suits_wgmma(q: Layout) -> str:
    """The faster of the two for tensor cores that this GPU has."""
    return "wgmma" if capability(q.device)[0] == 9 else "mma"


def suits_exponents(q: Layout, k: Layout, scale: float) -> bool:
    """Whether it can be done with a finite number for hidden scores: a scale that keeps them
    hidden, something to look at."""
    return (
        1e-6 <= scale <= 1e6
        and 0 not in q.shape
        and 0 < k.shape[2]
        and max(q.shape[2], k.shape[2]) < 1 << 30
    )


def suits_wgmma_mask(k: Layout, mask: Layout) -> bool:
    """Whether forward_sm90.py can read a mask: pairs of columns that lie next to each other, at
    multiples of their size."""
    outer = [s for n, s in zip(mask.shape[:3], mask.strides[:3], strict=True) if n > 1]
    return (
        mask.shape[3] == k.shape[2]
        and k.shape[2] % 2 == 0
        and mask.strides[3] == mask.itemsize
        and mask.aligned
        and all(s % (2 * mask.itemsize) == 0 for s in outer)
    )


def suits_decode(q: Layout, k: Layout, v: Layout) -> bool:
    """Whether decode_split_kv.py can do what tensor cores can: few queries, operands that need no
    copy, no deep heads."""
    rows = q.shape[1] // k.shape[1] * q.shape[2]
    return (
        rows <= DECODED_ROWS
        and q.shape[3] <= 128
        and _boxed(q) is not None
        and _boxed(k) is not None
        and _boxed(v) is not None
    )


def _boxed(x: Layout) -> tuple[int, ...] | None:
    """The strides of an array (B, H, S, D) whose rows are contiguous and lie at multiples of 16
    bytes, else None. Strides of axes of length 1 do not count."""
    dense = shapes.contiguous_strides(x.shape, x.itemsize)
    strides = tuple(d if n == 1 else s for n, s, d in zip(x.shape, x.strides, dense, strict=True))
    fits = (
        strides[3] == x.itemsize and x.aligned and all(s % 16 == 0 and s > 0 for s in strides[:3])
    )
    return strides if fits else None


class _Boxes:
    """Operands as TMA reads them: those whose rows do not lie in multiples of 16 bytes are copied
    to scratch memory first."""

    def __init__(self) -> None:
        self.temps: list[Layout] = []
        self.steps: list[Any] = []

    def array(self, argument: ArrayArg, x: Layout) -> ArrayArg:
        """The array (B, H, S, D), or a copy of it."""
        strides = _boxed(x)
        if strides is None:
            self.temps.append(x.like())
            copied = Temp(len(self.temps) - 1)
            self.steps += copy_part(whole(argument, x), whole(copied, x.like()))
            argument, strides = copied, x.like().strides
        return argument.view(x.shape, strides)

    def map(self, argument: ArrayArg, x: Layout, rows: int) -> TensorMap:
        """The tensor map of it for boxes of `rows` rows and 64 columns."""
        found = self.array(argument, x)
        return TensorMap(found, x.shape, found.strides, (1, 1, rows, 64))


def _together(q: Layout, k: Layout, causal: bool) -> int:
    """Heads whose tiles are walked together: those that share keys; if causal, as many as the L2
    cache has room for."""
    repeats = q.shape[1] // k.shape[1]
    if not causal:
        return repeats
    each = 2 * k.itemsize * k.shape[2] * k.shape[3]
    return min(math.prod(q.shape[:2]), max(1, CACHED // each) * repeats)


def _wgmma(q: Layout, k: Layout, v: Layout, extras: _Extras, causal: bool, scale: float) -> Plan:
    from .forward_sm90 import Tile, attention_begin, attention_wgmma

    batch, heads, rows, depth = q.shape
    limited = extras.queries is not None or extras.keys is not None
    wide = max(64, 64 * blocks(depth, 64))
    mask = "" if extras.mask is None else str(extras.mask.dtype)
    tile = Tile(
        "bf16" if q.dtype == bfloat16 else "f16", wide, wide != depth, causal, False, limited, mask
    )
    tile = tile._replace(tail=not limited and k.shape[2] % tile.keys != 0)
    maps = _Boxes()
    operands = [
        maps.map(Input(i), x, n)
        for i, (x, n) in enumerate(((q, tile.queries), (k, tile.keys), (v, tile.keys)))
    ]
    tiles = blocks(rows, tile.queries)
    numbers = [heads, heads // k.shape[1], rows, depth, k.shape[2], tiles, _together(q, k, causal)]
    counter = Input(0)  # not looked at
    if tile.uneven:
        counter = Temp(len(maps.temps))
        maps.temps.append(q.like((1,), np.dtype(np.int32)))
        maps.steps.append(Launch(attention_begin, 1, 1, [counter]))
    arguments = [
        *operands,
        Output(0),
        Output(1).flat,
        counter,
        extras.arguments[0],
        *extras.both_lengths(rows, k.shape[2]),
        *map(np.int32, numbers),
        np.float32(scale * math.log2(math.e)),
        np.float32(1 / scale),
        np.int32(batch * heads),
    ]
    grid = min(multiprocessors(q.device), tiles * batch * heads)
    launch = Launch(attention_wgmma(tile), grid, tile.threads, arguments, tile.shared)
    return Plan(
        [q.like(), q.like(q.shape[:3], np.dtype(np.float32))], [*maps.steps, launch], maps.temps
    )


def _decode(q: Layout, k: Layout, v: Layout, extras: _Extras, causal: bool, scale: float) -> Plan:
    from . import decode_split_kv as decode

    (batch, heads, rows, depth), (shares, keys) = q.shape, k.shape[1:3]
    limited = extras.queries is not None or extras.keys is not None
    wide = 64 * blocks(depth, 64)
    tma, resident, room = decode.queues(capability(q.device)[0] == 9, k.nbytes + v.nbytes)
    splits = decode.splits_of(batch * shares, keys, resident * multiprocessors(q.device))
    kind = decode.Kind(
        "bf16" if q.dtype == bfloat16 else "f16",
        wide,
        blocks(heads // shares * rows, 8),
        causal and rows > 1,
        limited,
        splits > 1,
        decode.stages_of(wide, room // resident),
        tma,
    )
    lines, single = math.prod(q.shape[:3]), np.dtype(np.float32)
    boxes = _Boxes()  # which copies nothing: suits_decode
    both = [
        boxes.map(Input(i), x, decode.STEP) if tma else boxes.array(Input(i), x)
        for i, x in ((1, k), (2, v))
    ]
    arguments = [
        boxes.array(Input(0), q),
        *both,
        *extras.both_lengths(rows, keys),
        *((Temp(0), Temp(1)) if splits > 1 else (Output(0).flat, Output(1).flat)),
        *map(np.int32, (shares, heads // shares, rows, depth, keys, splits)),
        np.float32(scale * math.log2(math.e)),
    ]
    steps = [
        Launch(
            decode.attention_decode(kind),
            batch * shares * splits,
            decode.THREADS,
            arguments,
            kind.shared,
        )
    ]
    temps: list[Layout] = []
    if splits > 1:
        temps = [q.like((splits * lines * depth,), single), q.like((splits * lines * 2,), single)]
        steps.append(
            Launch(
                decode.attention_decode_merge(kind.kind, tma),
                lines,
                decode.MERGE_THREADS,
                [
                    Temp(0),
                    Temp(1),
                    Output(0).flat,
                    Output(1).flat,
                    np.int32(splits),
                    np.int32(depth),
                ],
                early=tma,
            )
        )
    return Plan([q.like(), q.like(q.shape[:3], single)], steps, temps)


def attention_grad(
    g: Layout,
    q: Layout,
    k: Layout,
    v: Layout,
    y: Layout,
    lse: Layout,
    *rest: Layout | None,
    causal: bool,
    scale: float,
    dropping: bool,
    version: str | None = None,
) -> Plan:
    """Planner: g, y (B, H, Sq, Dv), lse (B, H, Sq), the rest as above -> dq, dk, dv. version: as
    above."""
    extras = _Extras(q, k, rest, 6, dropping)
    if version is None:
        version = "mma" if suits_mma(q, v) else "plain"
        if version == "mma" and capability(q.device)[0] == 9 and not dropping:
            if extras.mask is None and suits_exponents(q, k, scale):
                version = "wgmma"
    if version == "wgmma":
        return (_grad_wgmma if q.shape[3] <= 128 else _grad_wide)(g, q, k, v, extras, causal, scale)
    kind = extras.kind(q, v, causal, dropping)
    heads, shares = math.prod(q.shape[:2]), math.prod(k.shape[:2])
    after = [compute_dtype(q.dtype).type(scale), *extras.scalars]
    tiles = _Boxes()
    operands = [
        Input(i) if version == "plain" else tiles.array(Input(i), x)
        for i, x in enumerate((g, q, k, v))
    ]
    mean = Temp(len(tiles.temps))
    before = [*operands, Input(5), mean, *extras.arguments]
    steps = [
        *tiles.steps,
        Launch(
            attention_mean(q.dtype),
            blocks(lse.size, MEAN_THREADS),
            MEAN_THREADS,
            [Input(0), Input(4), mean],
        ),
    ]
    if version == "mma":
        from . import sm80 as mma

        nbytes = mma.shared_bytes(kind, True)
        steps.append(
            Launch(
                mma.attention_grad_mma_queries(kind),
                blocks(q.shape[2], mma.OWN) * heads,
                mma.THREADS,
                [*before, Output(0), *after],
                nbytes,
            )
        )
        for wanted in ("both",) if q.shape[3] <= mma.DEEP else ("dk", "dv"):
            steps.append(
                Launch(
                    mma.attention_grad_mma_keys(kind, wanted),
                    blocks(k.shape[2], mma.OWN) * shares,
                    mma.THREADS,
                    [*before, Output(1), Output(2), *after],
                    nbytes,
                )
            )
    else:
        square = (SIDE, SIDE)
        steps += [
            Launch(
                attention_grad_queries(kind),
                blocks(q.shape[2], kind.tile) * heads,
                square,
                [*before, Output(0), *after],
            ),
            Launch(
                attention_grad_keys(kind),
                blocks(k.shape[2], kind.tile) * shares,
                square,
                [*before, Output(1), Output(2), *after],
            ),
        ]
    return Plan([q.like(), k.like(), v.like()], steps, [*tiles.temps, lse.like()])


def _prepare(q: Layout, g: ArrayArg, padded: int, *made: Temp, lengths: Any = None) -> Launch:
    """What the gradients' kernels of 9.0 want of each query; made: lse2, mean, turns; lengths: of
    queries."""
    from . import backward_sm90 as grad

    batch, heads, rows, depth = q.shape
    wide = (
        64 * 2 ** (blocks(depth, 64) - 1).bit_length()
    )  # a row is read by a power of two of lanes
    lines = 32 // (wide // 8) * grad.ROUNDS * (grad.PREPARE_THREADS // 32)
    return Launch(
        grad.attention_grad_prepare(
            "bf16" if q.dtype == bfloat16 else "f16", wide, lengths is not None
        ),
        blocks(batch * heads * padded, lines),
        grad.PREPARE_THREADS,
        [
            g,
            Input(4),
            Input(5).flat,
            Input(0) if lengths is None else lengths,
            *made,
            *map(np.int32, (heads, rows, padded, depth)),
        ],
    )


def _grad_wgmma(
    g: Layout, q: Layout, k: Layout, v: Layout, extras: _Extras, causal: bool, scale: float
) -> Plan:
    from . import backward_sm90 as grad

    (batch, heads, rows, depth), (shares, keys) = q.shape, k.shape[1:3]
    kind, wide = "bf16" if q.dtype == bfloat16 else "f16", 64 * blocks(depth, 64)
    limited, lengths = (
        extras.queries is not None or extras.keys is not None,
        extras.both_lengths(rows, keys),
    )
    tile = grad.Tile(
        kind, wide, wide != depth, causal, not limited and keys % grad.KEYS != 0, limited
    )
    maps = _Boxes()
    boxes = (g, tile.queries), (q, tile.queries), (k, grad.KEYS), (v, grad.KEYS)
    operands = [maps.map(Input(i), x, n) for i, (x, n) in enumerate(boxes)]
    tiles_q, tiles_k, padded = (
        blocks(rows, tile.queries),
        blocks(keys, grad.KEYS),
        grad.PAD * blocks(rows, grad.PAD),
    )
    first = len(maps.temps)
    single = np.dtype(np.float32)
    parts = batch * heads * tiles_q * grad.PART  # of 64 x 128 or 128 x 64 numbers
    sizes = [
        ((batch * heads * padded,), single),
        ((batch * heads * padded,), single),
        ((batch * heads * tiles_q * 2,), np.dtype(np.int32)),
        ((parts,), single),
    ]
    lse2, mean, turns, sums = (Temp(first + i) for i in range(4))
    prepare = _prepare(
        q, operands[0].array, padded, lse2, mean, turns, lengths=lengths[0] if limited else None
    )
    at_a_time, least = TOGETHER[wide][causal]
    together = min(HEADS, max(least, at_a_time // tiles_k))
    numbers = [
        shares,
        heads // shares,
        rows,
        keys,
        padded,
        tiles_k,
        tiles_q,
        together,
        batch * shares,
    ]
    main = Launch(
        grad.attention_grad_wgmma(tile),
        tiles_k * batch * shares,
        grad.THREADS,
        [
            *operands,
            *lengths,
            lse2,
            mean,
            turns,
            sums,
            Output(1),
            Output(2),
            *map(np.int32, numbers),
            np.float32(scale * math.log2(math.e)),
            np.float32(scale),
        ],
        tile.shared,
    )
    finish = Launch(
        grad.attention_grad_finish(kind, wide, tile.ragged, limited),
        tiles_q * batch * heads,
        grad.FINISH_THREADS,
        [
            sums,
            *lengths,
            Output(0),
            *map(np.int32, (rows, keys, depth, tiles_q, 0 if causal else rows)),
            np.float32(scale),
        ],
    )
    return Plan(
        [q.like(), k.like(), v.like()],
        [*maps.steps, prepare, main, finish],
        [*maps.temps, *(q.like(shape, dtype) for shape, dtype in sizes)],
    )


def _grad_wide(
    g: Layout, q: Layout, k: Layout, v: Layout, extras: _Extras, causal: bool, scale: float
) -> Plan:
    from . import backward_sm90 as grad
    from . import backward_sm90_large_heads_dkv as wide
    from .backward_sm90_large_heads_dq import attention_grad_wide_queries

    (batch, heads, rows, depth), (shares, keys) = q.shape, k.shape[1:3]
    columns, single = 64 * blocks(depth, 64), np.dtype(np.float32)
    limited, lengths = (
        extras.queries is not None or extras.keys is not None,
        extras.both_lengths(rows, keys),
    )
    tile = wide.Tile(
        "bf16" if q.dtype == bfloat16 else "f16", columns, columns != depth, causal, limited
    )
    maps = _Boxes()
    operands = [maps.map(Input(i), x, wide.ROWS) for i, x in enumerate((g, q, k, v))]
    tiles_k, tiles_q, padded = (
        blocks(keys, wide.ROWS),
        blocks(rows, wide.OWNED),
        grad.PAD * blocks(rows, grad.PAD),
    )
    sizes = [
        ((batch * heads * padded,), single),
        ((batch * heads * padded,), single),
        ((1,), np.dtype(np.int32)),
    ]
    lse2, mean, turns = (Temp(len(maps.temps) + i) for i in range(3))  # nobody waits for a turn
    prepare = _prepare(
        q, operands[0].array, padded, lse2, mean, turns, lengths=lengths[0] if limited else None
    )
    real = np.float32(scale * math.log2(math.e)), np.float32(scale)
    together = max(
        1, multiprocessors(q.device) // tiles_k
    )  # heads whose blocks run at the same time: by turns
    numbers = [
        shares,
        heads // shares,
        rows,
        keys,
        padded,
        tiles_k,
        blocks(rows, wide.ROWS),
        together,
        batch * shares,
    ]
    of_keys = Launch(
        wide.attention_grad_wide_keys(tile),
        tiles_k * batch * shares,
        wide.THREADS,
        [*operands, *lengths, lse2, mean, Output(1), Output(2), *map(np.int32, numbers), *real],
        tile.shared_keys,
    )
    numbers = [
        heads,
        heads // shares,
        rows,
        keys,
        padded,
        tiles_q,
        _together(q, k, causal),
        batch * heads,
    ]
    of_queries = Launch(
        attention_grad_wide_queries(tile._replace(tail=not limited and keys % wide.ROWS != 0)),
        tiles_q * batch * heads,
        wide.THREADS,
        [*operands, *lengths, lse2, mean, Output(0), *map(np.int32, numbers), *real],
        tile.shared_queries,
    )
    return Plan(
        [q.like(), k.like(), v.like()],
        [*maps.steps, prepare, of_keys, of_queries],
        [*maps.temps, *(q.like(shape, dtype) for shape, dtype in sizes)],
    )
