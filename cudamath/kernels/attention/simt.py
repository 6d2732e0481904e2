"""Attention on any GPU: tiles of scores in registers, softmax on the way, gradients from the scores
computed again.

The idea. Softmax needs a row's maximum and sum before its first weight is known; but both can be
kept *so far*:

    m' = max(m, max of the new scores)
    l' = l exp(m - m') + sum exp(s - m')
    o' = o exp(m - m') + exp(s - m') v

so keys and values pass by once, a tile at a time, and no row of scores is ever whole (Milakov &
Gimelshein, 2018). The gradients need lse = m + log l alone: they compute p = exp(s - lse) again,
tile by tile.

A block owns a tile of queries (of keys in `attention_grad_keys`) and walks over the tiles of the
other side. SIDE x SIDE threads share the tile of scores: thread (y, x) holds rows y, y + SIDE, ...
and columns x, x + SIDE, ..., PER of each. Both factors pass through shared memory SIDE numbers of
the depth at a time, so a thread does PER^2 multiply-adds for 2 PER numbers read. Weights go through
shared memory to meet the values, PER * SIDE columns at a time.

    attention_plain            y and lse: 2 products, 4 Sq Sk D operations
    attention_mean             sum over the depth of g y, one thread per row
    attention_grad_queries     dq: a tile of queries, all keys; 3 products
    attention_grad_keys        dk and dv: a tile of keys, all queries of the heads that share them;
                               4 products

Each sum is taken by one thread in a fixed order, so results are reproducible bit for bit. The price
of two gradient kernels is that scores and their gradients are computed twice: 7 products
instead of 5.

The floor is 2 operations a multiply-add at the speed of the float32 (float64) units: 60 TFLOP/s on
an H200. Two shared reads for each PER / 2 multiply-adds keep these kernels at perhaps a third of
it: they are for float32 and float64, for masks, dropout, odd depths and old GPUs; 16-bit numbers
have tensor cores (dispatch.py).
"""

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import compute_dtype
from ...core.layout import Layout
from ..compiler.decorators import bounded, device_function
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..lib.codec import codec
from ..lib.integers import blocks
from ..lib.philox import beginning, philox
from .problem import Problem, result_like

SIDE = 4 if SIMULATOR else 16  # threads along each side of a tile
THREADS = SIDE * SIDE
LANES = 4  # weights that one Philox block decides
MEAN_THREADS = 128


class Kind(NamedTuple):
    """What a kernel is compiled for. mask: its dtype or None; queries, keys: lengths are given;
    held: dropout's counter is a generator's cell (lib/philox.py)."""

    dtype: np.dtype
    depth: int
    value_depth: int
    mask: np.dtype | None
    queries: bool
    keys: bool
    causal: bool
    dropping: bool
    held: bool

    @property
    def per(self) -> int:
        """Rows and columns of a tile that a thread holds."""
        return 2 if compute_dtype(self.dtype) == np.float64 else 4

    @property
    def tile(self) -> int:
        return self.per * SIDE

    def slabs(self, depth: int) -> int:
        """How often a thread's PER columns of a depth go into it."""
        return -(-depth // self.tile)


@functools.cache
def steps(kind: Kind) -> Any:
    """The device functions that the kernels below share."""
    load, _, T = codec(kind.dtype)
    PER, TILE = kind.per, kind.tile
    EACH = PER * PER
    causal, limited_queries, limited_keys = kind.causal, kind.queries, kind.keys
    read_mask = codec(kind.mask)[0] if kind.mask is not None else None
    boolean = kind.mask == np.bool_
    begin = beginning(kind.held)
    masked = kind.mask is not None
    low = T(-math.inf)

    @device_function
    def bring(x, batch, head, row, rows, column, tile, width, thread):
        """tile[r, c] = x[batch, head, row + r, column + c], 0 from row `rows` on and beyond x;
        tile: (TILE, width + 1)."""
        for n in range(thread, TILE * width, THREADS):
            r = n // width
            c = n - r * width
            inside = row + r < rows and column + c < x.shape[3]
            tile[r, c] = load(x[batch, head, row + r, column + c]) if inside else T(0)

    @device_function
    def products(
        a, batch, head_a, row_a, rows_a, b, head_b, row_b, rows_b, tile_a, tile_b, s, y, x
    ):
        """s[r, c] = a[row_a + r] . b[row_b + c] for the rows and columns of this thread; a has
        rows_a rows, b rows_b."""
        for n in range(EACH):
            s[n] = T(0)
        for start in range(0, a.shape[3], SIDE):
            cuda.syncthreads()  # all threads are done with what the tiles held
            bring(a, batch, head_a, row_a, rows_a, start, tile_a, SIDE, y * SIDE + x)
            bring(b, batch, head_b, row_b, rows_b, start, tile_b, SIDE, y * SIDE + x)
            cuda.syncthreads()
            for d in range(SIDE):
                for c in range(PER):
                    v = tile_b[x + SIDE * c, d]
                    for r in range(PER):
                        s[r * PER + c] += tile_a[y + SIDE * r, d] * v

    @device_function
    def weighted(w, a, batch, head, row, rows, slab, tile, part, y, x):
        """part[r, c] = sum over j of w[r, j] a[row + j, slab * TILE + c]; w (TILE, TILE + 1) is in
        shared memory."""
        cuda.syncthreads()
        bring(a, batch, head, row, rows, slab * TILE, tile, TILE, y * SIDE + x)
        cuda.syncthreads()
        for n in range(EACH):
            part[n] = T(0)
        for j in range(TILE):
            for c in range(PER):
                v = tile[j, x + SIDE * c]
                for r in range(PER):
                    part[r * PER + c] += w[y + SIDE * r, j] * v

    @device_function
    def score(product, scale, mask, batch, head, i, j, present, filled):
        """What query i thinks of key j; -inf if it does not see it."""
        if i >= present or j >= filled or (causal and j > i + filled - present):
            return low
        s = product * scale
        if masked:
            m = read_mask(mask[batch, head, i, j])
            if boolean:
                s = s if m != 0 else low
            else:
                s += m
        return s

    @device_function
    def keep_factor(batch, head, i, j, heads, rows, keys, key, stream, first, threshold, gain):
        """What dropout multiplies weight (i, j) with: the word of `ml.dropout` of the (B, H, rows,
        keys) weights."""
        at = ((batch * heads + head) * rows + i) * keys + j
        key, stream, first = begin(key, stream, first)
        w0, w1, w2, w3 = philox(first + types.uint64(at // LANES), stream, key)
        lane = at % LANES
        w = (w0 if lane == 0 else w1) if lane < 2 else (w2 if lane == 2 else w3)
        return gain if types.uint64(w) >= threshold else T(0)

    @device_function
    def lengths(query_lengths, key_lengths, batch, rows, keys):
        """How many queries and keys of a batch element are there."""
        present, filled = rows, keys
        if limited_queries:
            present = min(max(types.int64(query_lengths[batch]), 0), rows)
        if limited_keys:
            filled = min(max(types.int64(key_lengths[batch]), 0), keys)
        return present, filled

    return bring, products, weighted, score, keep_factor, lengths


@functools.cache
def attention_plain(kind: Kind) -> Any:
    """y and lse of a tile of queries."""
    _, store, T = codec(kind.dtype)
    _, products, weighted, score, keep_factor, lengths = steps(kind)
    PER, TILE, SLABS = kind.per, kind.tile, kind.slabs(kind.value_depth)
    EACH, ALL = PER * PER, SLABS * PER * PER
    causal, dropping = kind.causal, kind.dropping
    low, infinite = T(-math.inf), T(math.inf)
    narrow, square, thin = (TILE, SIDE + 1), (TILE, TILE + 1), (TILE, SIDE + 1)

    @bounded(THREADS)
    def attention_plain(
        q,
        k,
        v,
        mask,
        query_lengths,
        key_lengths,
        y,
        lse,
        scale,
        key,
        stream,
        first,
        threshold,
        gain,
    ):
        """q (B, H, Sq, D), k (B, Hkv, Sk, D), v (B, Hkv, Sk, Dv), mask (B, H, Sq, Sk), lengths (B,)
        int32: any strides; y (B, H, Sq, Dv), lse (B, H, Sq). A block of SIDE x SIDE threads a tile
        of queries."""
        heads, rows, keys = q.shape[1], q.shape[2], k.shape[2]
        tile_q = cuda.shared.array(narrow, T)
        tile_k = cuda.shared.array(narrow, T)
        w = cuda.shared.array(square, T)
        values = cuda.shared.array(square, T)
        meet = cuda.shared.array(thin, T)
        s, part = cuda.local.array(EACH, T), cuda.local.array(EACH, T)
        out = cuda.local.array(ALL, T)
        top, total, shrink = (
            cuda.local.array(PER, T),
            cuda.local.array(PER, T),
            cuda.local.array(PER, T),
        )
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        tiles = (rows + TILE - 1) // TILE
        head = cuda.blockIdx.x // tiles
        row = (
            tiles - 1 - (cuda.blockIdx.x - head * tiles)
        ) * TILE  # with `causal` the last tile has most to do
        batch = head // heads
        head -= batch * heads
        shared = head // (heads // k.shape[1])
        present, filled = lengths(query_lengths, key_lengths, batch, rows, keys)
        end = filled
        if causal:
            end = min(filled, min(row + TILE, present) + filled - present)
        for n in range(ALL):
            out[n] = T(0)
        for r in range(PER):
            top[r] = low
            total[r] = T(0)
        for column in range(0, end, TILE):
            products(
                q, batch, head, row, present, k, shared, column, filled, tile_q, tile_k, s, ty, tx
            )
            for r in range(PER):
                i = row + ty + SIDE * r
                most = low
                for c in range(PER):
                    j = column + tx + SIDE * c
                    s[r * PER + c] = score(
                        s[r * PER + c], scale, mask, batch, head, i, j, present, filled
                    )
                    most = max(most, s[r * PER + c])
                meet[ty + SIDE * r, tx] = most
            cuda.syncthreads()
            for r in range(PER):
                most = top[r]
                for n in range(SIDE):
                    most = max(most, meet[ty + SIDE * r, n])
                base = most if most > low else T(0)
                shrink[r] = math.exp(top[r] - base)
                top[r] = most
                total[r] *= shrink[r]
                for c in range(PER):
                    p = math.exp(s[r * PER + c] - base)
                    total[r] += p
                    if dropping:
                        p *= keep_factor(
                            batch,
                            head,
                            row + ty + SIDE * r,
                            column + tx + SIDE * c,
                            heads,
                            rows,
                            keys,
                            key,
                            stream,
                            first,
                            threshold,
                            gain,
                        )
                    w[ty + SIDE * r, tx + SIDE * c] = p
            for slab in range(SLABS):
                weighted(w, v, batch, shared, column, filled, slab, values, part, ty, tx)
                for r in range(PER):
                    for c in range(PER):
                        n = (slab * PER + r) * PER + c
                        out[n] = out[n] * shrink[r] + part[r * PER + c]
        cuda.syncthreads()
        for r in range(PER):
            meet[ty + SIDE * r, tx] = total[r]
        cuda.syncthreads()
        for r in range(PER):
            i = row + ty + SIDE * r
            if i < rows:
                amount = T(0)
                for n in range(SIDE):
                    amount += meet[ty + SIDE * r, n]
                empty = amount == T(0)
                if tx == 0:
                    lse[batch, head, i] = infinite if empty else top[r] + math.log(amount)
                for slab in range(SLABS):
                    for c in range(PER):
                        d = slab * TILE + tx + SIDE * c
                        if d < v.shape[3]:
                            y[batch, head, i, d] = store(
                                T(0) if empty else out[(slab * PER + r) * PER + c] / amount
                            )

    return attention_plain


@functools.cache
def attention_mean(dtype: np.dtype) -> Any:
    """sum over the depth of g y, which is also the mean over the keys of the weights' gradients."""
    load, _, T = codec(dtype)

    @cuda.jit
    def attention_mean(g, y, mean):
        """g, y (B, H, Sq, Dv), any strides; mean (B, H, Sq). A thread a row."""
        n = cuda.grid(1)
        if n < mean.size:
            line = n // mean.shape[2]
            i = n - line * mean.shape[2]
            batch = line // mean.shape[1]
            head = line - batch * mean.shape[1]
            total = T(0)
            for d in range(g.shape[3]):
                total += load(g[batch, head, i, d]) * load(y[batch, head, i, d])
            mean[batch, head, i] = total

    return attention_mean


@functools.cache
def attention_grad_queries(kind: Kind) -> Any:
    """dq of a tile of queries."""
    _, store, T = codec(kind.dtype)
    _, products, weighted, score, keep_factor, lengths = steps(kind)
    PER, TILE, SLABS = kind.per, kind.tile, kind.slabs(kind.depth)
    EACH, ALL = PER * PER, SLABS * PER * PER
    causal, dropping = kind.causal, kind.dropping
    narrow, square = (TILE, SIDE + 1), (TILE, TILE + 1)

    @bounded(THREADS)
    def attention_grad_queries(
        g,
        q,
        k,
        v,
        lse,
        mean,
        mask,
        query_lengths,
        key_lengths,
        dq,
        scale,
        key,
        stream,
        first,
        threshold,
        gain,
    ):
        """g (B, H, Sq, Dv), lse, mean (B, H, Sq), dq (B, H, Sq, D), the rest as in
        attention_plain."""
        heads, rows, keys = q.shape[1], q.shape[2], k.shape[2]
        tile_a = cuda.shared.array(narrow, T)
        tile_b = cuda.shared.array(narrow, T)
        w = cuda.shared.array(square, T)
        values = cuda.shared.array(square, T)
        s, slope = cuda.local.array(EACH, T), cuda.local.array(EACH, T)
        part, out = cuda.local.array(EACH, T), cuda.local.array(ALL, T)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        tiles = (rows + TILE - 1) // TILE
        head = cuda.blockIdx.x // tiles
        row = (tiles - 1 - (cuda.blockIdx.x - head * tiles)) * TILE
        batch = head // heads
        head -= batch * heads
        shared = head // (heads // k.shape[1])
        present, filled = lengths(query_lengths, key_lengths, batch, rows, keys)
        end = filled
        if causal:
            end = min(filled, min(row + TILE, present) + filled - present)
        for n in range(ALL):
            out[n] = T(0)
        for column in range(0, end, TILE):
            products(
                q, batch, head, row, present, k, shared, column, filled, tile_a, tile_b, s, ty, tx
            )
            products(
                g,
                batch,
                head,
                row,
                present,
                v,
                shared,
                column,
                filled,
                tile_a,
                tile_b,
                slope,
                ty,
                tx,
            )
            for r in range(PER):
                i = row + ty + SIDE * r
                for c in range(PER):
                    j = column + tx + SIDE * c
                    e = T(0)
                    if i < present:
                        p = math.exp(
                            score(s[r * PER + c], scale, mask, batch, head, i, j, present, filled)
                            - lse[batch, head, i]
                        )
                        e = slope[r * PER + c]
                        if dropping:
                            e *= keep_factor(
                                batch,
                                head,
                                i,
                                j,
                                heads,
                                rows,
                                keys,
                                key,
                                stream,
                                first,
                                threshold,
                                gain,
                            )
                        e = p * (e - mean[batch, head, i])
                    w[ty + SIDE * r, tx + SIDE * c] = e
            for slab in range(SLABS):
                weighted(w, k, batch, shared, column, filled, slab, values, part, ty, tx)
                for n in range(EACH):
                    out[slab * EACH + n] += part[n]
        for r in range(PER):
            i = row + ty + SIDE * r
            for slab in range(SLABS):
                for c in range(PER):
                    d = slab * TILE + tx + SIDE * c
                    if i < rows and d < q.shape[3]:
                        dq[batch, head, i, d] = store(out[(slab * PER + r) * PER + c] * scale)

    return attention_grad_queries


@functools.cache
def attention_grad_keys(kind: Kind) -> Any:
    """dk and dv of a tile of keys."""
    _, store, T = codec(kind.dtype)
    _, products, weighted, score, keep_factor, lengths = steps(kind)
    PER, TILE, SLABS_K, SLABS_V = (
        kind.per,
        kind.tile,
        kind.slabs(kind.depth),
        kind.slabs(kind.value_depth),
    )
    EACH, ALL_K, ALL_V = PER * PER, SLABS_K * PER * PER, SLABS_V * PER * PER
    causal, dropping = kind.causal, kind.dropping
    narrow, square = (TILE, SIDE + 1), (TILE, TILE + 1)

    @bounded(THREADS)
    def attention_grad_keys(
        g,
        q,
        k,
        v,
        lse,
        mean,
        mask,
        query_lengths,
        key_lengths,
        dk,
        dv,
        scale,
        key,
        stream,
        first,
        threshold,
        gain,
    ):
        """dk (B, Hkv, Sk, D), dv (B, Hkv, Sk, Dv), the rest as in attention_grad_queries."""
        heads, rows, keys, repeats = q.shape[1], q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
        tile_a = cuda.shared.array(narrow, T)
        tile_b = cuda.shared.array(narrow, T)
        w = cuda.shared.array(square, T)
        values = cuda.shared.array(square, T)
        s, slope = cuda.local.array(EACH, T), cuda.local.array(EACH, T)
        part = cuda.local.array(EACH, T)
        out_k, out_v = cuda.local.array(ALL_K, T), cuda.local.array(ALL_V, T)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        tiles = (keys + TILE - 1) // TILE
        shared = cuda.blockIdx.x // tiles
        column = (
            cuda.blockIdx.x - shared * tiles
        ) * TILE  # with `causal` the first tile has most to do
        batch = shared // k.shape[1]
        shared -= batch * k.shape[1]
        present, filled = lengths(query_lengths, key_lengths, batch, rows, keys)
        begin = 0
        if causal:
            begin = max(column - (filled - present), 0) // TILE * TILE
        if column >= filled:
            begin = present
        for n in range(ALL_K):
            out_k[n] = T(0)
        for n in range(ALL_V):
            out_v[n] = T(0)
        for head in range(shared * repeats, (shared + 1) * repeats):
            for row in range(begin, present, TILE):
                products(
                    k,
                    batch,
                    shared,
                    column,
                    filled,
                    q,
                    head,
                    row,
                    present,
                    tile_a,
                    tile_b,
                    s,
                    ty,
                    tx,
                )
                products(
                    v,
                    batch,
                    shared,
                    column,
                    filled,
                    g,
                    head,
                    row,
                    present,
                    tile_a,
                    tile_b,
                    slope,
                    ty,
                    tx,
                )
                for r in range(PER):
                    j = column + ty + SIDE * r
                    for c in range(PER):
                        i = row + tx + SIDE * c
                        p, e = T(0), T(0)
                        if i < present:
                            p = math.exp(
                                score(
                                    s[r * PER + c], scale, mask, batch, head, i, j, present, filled
                                )
                                - lse[batch, head, i]
                            )
                            e = slope[r * PER + c]
                            if dropping:
                                gate = keep_factor(
                                    batch,
                                    head,
                                    i,
                                    j,
                                    heads,
                                    rows,
                                    keys,
                                    key,
                                    stream,
                                    first,
                                    threshold,
                                    gain,
                                )
                                e = p * (e * gate - mean[batch, head, i])
                                p *= gate
                            else:
                                e = p * (e - mean[batch, head, i])
                        w[ty + SIDE * r, tx + SIDE * c] = p
                        slope[r * PER + c] = e
                for slab in range(SLABS_V):
                    weighted(w, g, batch, head, row, present, slab, values, part, ty, tx)
                    for n in range(EACH):
                        out_v[slab * EACH + n] += part[n]
                cuda.syncthreads()  # all threads have read the weights
                for r in range(PER):
                    for c in range(PER):
                        w[ty + SIDE * r, tx + SIDE * c] = slope[r * PER + c]
                for slab in range(SLABS_K):
                    weighted(w, q, batch, head, row, present, slab, values, part, ty, tx)
                    for n in range(EACH):
                        out_k[slab * EACH + n] += part[n]
        for r in range(PER):
            j = column + ty + SIDE * r
            if j < keys:
                for slab in range(SLABS_K):
                    for c in range(PER):
                        d = slab * TILE + tx + SIDE * c
                        if d < k.shape[3]:
                            dk[batch, shared, j, d] = store(
                                out_k[(slab * PER + r) * PER + c] * scale
                            )
                for slab in range(SLABS_V):
                    for c in range(PER):
                        d = slab * TILE + tx + SIDE * c
                        if d < v.shape[3]:
                            dv[batch, shared, j, d] = store(out_v[(slab * PER + r) * PER + c])

    return attention_grad_keys


# -------------------- planners


def kind_of(p: Problem) -> Kind:
    """What kernels are compiled for."""
    return Kind(
        p.q.dtype,
        p.depth,
        p.v.shape[3],
        None if p.mask is None else p.mask.dtype,
        p.query_lengths is not None,
        p.key_lengths is not None,
        p.causal,
        p.dropping,
        p.cell is not None,
    )


def outputs(p: Problem) -> list[Layout]:
    """y and lse."""
    q = p.q
    return [result_like(q, p.v.shape[3]), q.like(q.shape[:3], compute_dtype(q.dtype))]


def scale_and_dropout(p: Problem) -> list[Any]:
    """The last arguments of all kernels."""
    return [compute_dtype(p.q.dtype).type(p.scale), *p.optional[1]]


def mean_launch(lse: Layout, dtype: np.dtype, mean: ArrayArg) -> Launch:
    """The launch of attention_mean: for each query the mean of its gradient, weighted by y."""
    grid = blocks(lse.size, MEAN_THREADS)
    return Launch(attention_mean(dtype), grid, MEAN_THREADS, [Input(0), Input(4), mean])


def forward(p: Problem) -> Plan:
    """Plan of y and lse."""
    kind = kind_of(p)
    arguments = [Input(0), Input(1), Input(2), *p.optional[0], Output(0), Output(1)]
    launch = Launch(
        attention_plain(kind),
        blocks(p.rows, kind.tile) * p.batch * p.heads,
        (SIDE, SIDE),
        [*arguments, *scale_and_dropout(p)],
    )
    return Plan(outputs(p), [launch])


def backward(p: Problem) -> Plan:
    """Plan of dq, dk and dv."""
    kind, mean, after = kind_of(p), Temp(0), scale_and_dropout(p)
    if p.lse is None:
        raise AssertionError("attention_grad: no lse")
    before = [Input(0), Input(1), Input(2), Input(3), Input(5), mean, *p.optional[0]]
    steps = [
        mean_launch(p.lse, p.q.dtype, mean),
        Launch(
            attention_grad_queries(kind),
            blocks(p.rows, kind.tile) * p.batch * p.heads,
            (SIDE, SIDE),
            [*before, Output(0), *after],
        ),
        Launch(
            attention_grad_keys(kind),
            blocks(p.keys, kind.tile) * p.batch * p.shares,
            (SIDE, SIDE),
            [*before, Output(1), Output(2), *after],
        ),
    ]
    return Plan([result_like(x) for x in (p.q, p.k, p.v)], steps, [p.lse.like()])
