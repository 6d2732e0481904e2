"""Attention of 16-bit numbers by mma.sync, on compute capability 8.0 and later: masks, dropout,
lengths, any depth that is a multiple of 8.

The idea is that of simt.py, on tensor cores. A block of four warps owns 64 rows, 16 per warp, and
walks over tiles of the other side. Tiles come by cp.async into shared memory as rows whose 16-byte
chunks are permuted (chunk c of row r lies at c xor r % 8), so that ldmatrix, which reads eight rows
of one chunk at a time, hits all banks.

    scores       s = own rows x other rows, both contiguous along the depth: ldmatrix gives both
                 fragments as they are
    weights      a result's registers, rounded and packed by pairs, are the next product's left
                 operand: no memory between
    sums         weights x other rows, now summed over the rows: ldmatrix transposes on the way

    attention_mma                own q; others k, v: y, lse
    attention_grad_mma_queries   own q, g; others k, v: dq += ds k
    attention_grad_mma_keys      own k, v; others q, g: dv += p g, dk += ds q (for depths beyond 128
                                 one of the two at a time: registers)

While scores are computed the next tile of values is in flight, and the next keys while values are
multiplied. Sums are taken by one warp in a fixed order.

The floor: 4 Sq Sk D operations (gradients 14: scores and slopes are made twice) at the speed of
mma.sync, which on an H200 is about 60 % of that of wgmma. These kernels stay below it: each 512
bytes that ldmatrix reads serve two instructions only, so shared memory is as busy as the tensor
cores.

Source: Dao, "FlashAttention-2", 2023.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from ...core.dispatch.arguments import Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.dtypes import bfloat16
from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..lib import tma_pipeline  # the alignment of swizzled tiles
from ..lib.integers import blocks
from ..ptx.sm80 import (
    copy_16_or_zero,
    copy_commit,
    copy_wait,
    exp2,
    global_address,
    load_matrix_4,
    load_matrix_4_transposed,
    mma,
    pack_bf16,
    pack_f16,
    shuffle_xor_float,
    store_global,
)
from .problem import Operands, Problem, result_like
from .simt import Kind, kind_of, mean_launch, outputs, scale_and_dropout, steps

i32, i64, f32 = types.int32, types.int64, types.float32

WARPS = 4
THREADS = 32 * WARPS
OWN = 16 * WARPS  # rows of a block
LOG2E, LN2 = math.log2(math.e), math.log(2)
DEEP = 128  # depth beyond which dk and dv are computed apart


def padded(kind: Kind) -> int:
    """Columns of a tile in shared memory: 64, 128, 192 or 256."""
    return 64 * -(-kind.depth // 64)


def others(kind: Kind, gradient: bool) -> int:
    """Rows of a tile of the other side: as many as registers (and 99 KiB of shared memory) have
    room for."""
    return 32 if padded(kind) > (64 if gradient else 192) else 64


def shared_bytes(kind: Kind, gradient: bool) -> int:
    """One own tile and two others; two own in a gradient."""
    rows = (2 if gradient else 1) * OWN + 2 * others(kind, gradient)
    return rows * 2 * padded(kind) + tma_pipeline.ALIGNMENT


@functools.cache
def moves(kind: Kind, tile: int) -> tuple[Any, Any, Any, Any]:
    """Device functions on tiles of `tile` other rows: bring, products, weighted, and pack."""
    depth = padded(kind)
    chunks, row_bytes, scores, sums = depth // 8, 2 * depth, tile // 2, depth // 2
    name = "bf16" if kind.dtype == bfloat16 else "f16"
    multiply = mma(name)
    pack = pack_bf16 if name == "bf16" else pack_f16

    @device_function
    def bring(x, batch, head, row, rows, count, at, thread):
        """`count` rows of x (B, H, S, D) from `row` on to shared memory; zeros from row `rows` on
        and beyond D."""
        start = global_address(x) + i64(batch) * x.strides[0] + i64(head) * x.strides[1]
        columns = i32(x.shape[3])
        for n in range(thread, count * chunks, THREADS):
            r = i32(n // chunks)
            c = i32(n - r * chunks)
            there = row + r < rows and 8 * c < columns
            source = start + i64(row + r) * x.strides[2] + 16 * c if there else start
            copy_16_or_zero(
                i32(at + r * row_bytes + ((c ^ (r & 7)) << 4)), source, i32(16) if there else i32(0)
            )

    @device_function
    def products(own, other, s, a, b, warp, lane):
        """s = the warp's 16 rows of a tile x the rows of another; own, other: shared addresses."""
        row_a = i32(16 * warp + (lane & 15))
        at_a = i32(own + row_a * row_bytes)
        row_b = i32((lane & 7) + ((lane >> 4) << 3))
        at_b = i32(other + row_b * row_bytes)
        for n in range(scores):
            s[n] = f32(0)
        for step in range(depth // 16):
            a[0], a[1], a[2], a[3] = load_matrix_4(
                i32(at_a + (((2 * step + (lane >> 4)) ^ (row_a & 7)) << 4))
            )
            for n in range(tile // 16):
                b[0], b[1], b[2], b[3] = load_matrix_4(
                    i32(
                        at_b
                        + n * (16 * row_bytes)
                        + (((2 * step + ((lane >> 3) & 1)) ^ (row_b & 7)) << 4)
                    )
                )
                multiply(s, 8 * n, a, 0, b, 0)
                multiply(s, 8 * n + 4, a, 0, b, 2)

    @device_function
    def weighted(w, other, out, a, b, lane):
        """out += weights x the rows of a tile; w: a warp's 16 x tile weights, as `products` leaves
        scores."""
        row = i32(lane & 15)
        at = i32(other + row * row_bytes)
        for step in range(tile // 16):
            a[0], a[1] = pack(w[8 * step], w[8 * step + 1]), pack(w[8 * step + 2], w[8 * step + 3])
            a[2], a[3] = (
                pack(w[8 * step + 4], w[8 * step + 5]),
                pack(w[8 * step + 6], w[8 * step + 7]),
            )
            for n in range(depth // 16):
                b[0], b[1], b[2], b[3] = load_matrix_4_transposed(
                    i32(at + step * (16 * row_bytes) + (((2 * n + (lane >> 4)) ^ (row & 7)) << 4))
                )
                multiply(out, 8 * n, a, 0, b, 0)
                multiply(out, 8 * n + 4, a, 0, b, 2)

    @device_function
    def store(out, at, step, row, rows, columns, scale0, scale1, lane):
        """The warp's sums, rounded, to two rows of 16-bit numbers: at is the address of row 0 of
        all, step the bytes from a row to the next, row the thread's."""
        column = i32(2 * (lane & 3))
        for n in range(sums // 4):
            if 8 * n + column < columns:
                if row < rows:
                    store_global(
                        at + i64(row) * step + 2 * (8 * n + column),
                        pack(out[4 * n] * scale0, out[4 * n + 1] * scale0),
                    )
                if row + 8 < rows:
                    store_global(
                        at + i64(row + 8) * step + 2 * (8 * n + column),
                        pack(out[4 * n + 2] * scale1, out[4 * n + 3] * scale1),
                    )

    return bring, products, weighted, store


@functools.cache
def masking(kind: Kind, tile: int, transposed: bool) -> Any:
    """A device function that turns products into exponents of 2: s = (scale s + mask) log2 e, -inf
    where a query does not see a key. s: the thread's share of 16 x tile products whose rows are
    queries, or keys if transposed."""
    _, _, _, score, _, _ = steps(kind)
    causal, masked = kind.causal, kind.mask is not None

    @device_function
    def mask_scores(s, scale, mask, batch, head, row, column, shift, lane, present, filled):
        """row, column: of the thread's first product, all told; `shift`: first row of the block's
        tile of queries."""
        first = i32(row)
        other = i32(column)
        if transposed:
            first, other = i32(column), i32(row)
        whole = True
        if masked:
            whole = False
        elif transposed:
            whole = (
                shift + tile <= present
                and other + 8 < filled
                and (not causal or other + 8 <= shift + filled - present)
            )
        else:
            whole = (
                first + 8 < present
                and shift + tile <= filled
                and (not causal or shift + tile - 1 <= first + filled - present)
            )
        if whole:
            for n in range(tile // 2):
                s[n] *= scale * f32(LOG2E)
        else:
            for n in range(tile // 8):
                for half in range(2):
                    for e in range(2):
                        i, j = i32(row + 8 * half), i32(column + 8 * n + e)
                        if transposed:
                            i, j = i32(column + 8 * n + e), i32(row + 8 * half)
                        s[4 * n + 2 * half + e] = score(
                            s[4 * n + 2 * half + e], scale, mask, batch, head, i, j, present, filled
                        ) * f32(LOG2E)

    return mask_scores


@functools.cache
def attention_mma(kind: Kind) -> Any:
    """y and lse of a tile of queries."""
    tile, depth = others(kind, False), padded(kind)
    bring, products, weighted, store = moves(kind, tile)
    _, _, _, _, keep_factor, lengths = steps(kind)
    mask_scores = masking(kind, tile, False)
    causal, dropping = kind.causal, kind.dropping
    own_bytes, other_bytes, scores, sums = OWN * 2 * depth, tile * 2 * depth, tile // 2, depth // 2
    arrived = copy_wait(0)

    @cuda.jit(launch_bounds=(THREADS, 1), fastmath={"contract"})
    def attention_mma(
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
        """Arguments of attention_plain; rows of q, k, v contiguous and at multiples of 16 bytes."""
        shared = cuda.shared.array(0, types.uint8)
        at_q = tma_pipeline.first_tile(shared)
        at_k = i32(at_q + own_bytes)
        at_v = i32(at_k + other_bytes)
        thread = i32(cuda.threadIdx.x)
        warp, lane = i32(thread >> 5), i32(thread & 31)
        heads, rows, keys = i32(q.shape[1]), i32(q.shape[2]), i32(k.shape[2])
        tiles = i32((rows + OWN - 1) // OWN)
        head = i32(cuda.blockIdx.x // tiles)
        row = i32(
            (tiles - 1 - (cuda.blockIdx.x - head * tiles)) * OWN
        )  # with `causal` the last tile has most to do
        batch = i32(head // heads)
        head = i32(head - batch * heads)
        shares = i32(head // (heads // k.shape[1]))
        counts = lengths(query_lengths, key_lengths, batch, rows, keys)
        present, filled = i32(counts[0]), i32(counts[1])
        end = filled
        if causal:
            end = i32(min(filled, min(row + OWN, present) + filled - present))
        line = i32(row + 16 * warp + (lane >> 2))  # the thread's first row
        s, o = cuda.local.array(scores, f32), cuda.local.array(sums, f32)
        a, b = cuda.local.array(4, i32), cuda.local.array(4, i32)
        for n in range(sums):
            o[n] = f32(0)
        top0, top1, total0, total1 = f32(-math.inf), f32(-math.inf), f32(0), f32(0)
        bring(q, batch, head, row, present, OWN, at_q, thread)
        bring(k, batch, shares, 0, filled, tile, at_k, thread)
        copy_commit()
        column = i32(0)
        while column < end:
            arrived()
            cuda.syncthreads()
            bring(v, batch, shares, column, filled, tile, at_v, thread)
            copy_commit()
            products(at_q, at_k, s, a, b, warp, lane)
            mask_scores(
                s,
                scale,
                mask,
                batch,
                head,
                line,
                i32(column + 2 * (lane & 3)),
                column,
                lane,
                present,
                filled,
            )
            high0, high1 = top0, top1
            for n in range(scores // 4):
                high0 = max(high0, max(s[4 * n], s[4 * n + 1]))
                high1 = max(high1, max(s[4 * n + 2], s[4 * n + 3]))
            high0 = max(high0, shuffle_xor_float(high0, 1))
            high1 = max(high1, shuffle_xor_float(high1, 1))
            high0 = max(high0, shuffle_xor_float(high0, 2))
            high1 = max(high1, shuffle_xor_float(high1, 2))
            base0 = high0 if high0 > f32(-math.inf) else f32(0)
            base1 = high1 if high1 > f32(-math.inf) else f32(0)
            shrink0, shrink1 = exp2(top0 - base0), exp2(top1 - base1)
            top0, top1 = high0, high1
            total0 *= shrink0
            total1 *= shrink1
            for n in range(scores // 4):
                s[4 * n], s[4 * n + 1] = exp2(s[4 * n] - base0), exp2(s[4 * n + 1] - base0)
                s[4 * n + 2], s[4 * n + 3] = exp2(s[4 * n + 2] - base1), exp2(s[4 * n + 3] - base1)
                total0 += s[4 * n] + s[4 * n + 1]
                total1 += s[4 * n + 2] + s[4 * n + 3]
                if dropping:
                    for e in range(4):
                        s[4 * n + e] *= keep_factor(
                            i64(batch),
                            head,
                            line + 8 * (e >> 1),
                            column + 8 * n + 2 * (lane & 3) + (e & 1),
                            heads,
                            rows,
                            keys,
                            key,
                            stream,
                            first,
                            threshold,
                            gain,
                        )
            for n in range(sums // 4):
                o[4 * n] *= shrink0
                o[4 * n + 1] *= shrink0
                o[4 * n + 2] *= shrink1
                o[4 * n + 3] *= shrink1
            arrived()
            cuda.syncthreads()
            if column + tile < end:
                bring(k, batch, shares, i32(column + tile), filled, tile, at_k, thread)
            copy_commit()
            weighted(s, at_v, o, a, b, lane)
            column = i32(column + tile)
        arrived()
        total0 += shuffle_xor_float(total0, 1)
        total1 += shuffle_xor_float(total1, 1)
        total0 += shuffle_xor_float(total0, 2)
        total1 += shuffle_xor_float(total1, 2)
        if lane & 3 == 0:
            if line < rows:
                lse[batch, head, line] = (
                    (top0 * f32(LN2) + math.log(total0)) if total0 != f32(0) else f32(math.inf)
                )
            if line + 8 < rows:
                lse[batch, head, line + 8] = (
                    (top1 * f32(LN2) + math.log(total1)) if total1 != f32(0) else f32(math.inf)
                )
        columns = i32(v.shape[3])
        at = global_address(y) + i64(batch) * y.strides[0] + i64(head) * y.strides[1]
        store(
            o,
            at,
            y.strides[2],
            line,
            rows,
            columns,
            f32(1) / total0 if total0 != f32(0) else f32(0),
            f32(1) / total1 if total1 != f32(0) else f32(0),
            lane,
        )

    return attention_mma


@functools.cache
def attention_grad_mma_queries(kind: Kind) -> Any:
    """dq of a tile of queries."""
    tile, depth = others(kind, True), padded(kind)
    bring, products, weighted, store = moves(kind, tile)
    _, _, _, _, keep_factor, lengths = steps(kind)
    mask_scores = masking(kind, tile, False)
    causal, dropping = kind.causal, kind.dropping
    own_bytes, other_bytes, scores, sums = OWN * 2 * depth, tile * 2 * depth, tile // 2, depth // 2
    arrived = copy_wait(0)

    @cuda.jit(launch_bounds=(THREADS, 1), fastmath={"contract"})
    def attention_grad_mma_queries(
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
        """Arguments of attention_grad_queries; rows of g, q, k, v contiguous and at multiples of 16
        bytes."""
        shared = cuda.shared.array(0, types.uint8)
        at_q = tma_pipeline.first_tile(shared)
        at_g = i32(at_q + own_bytes)
        at_k = i32(at_g + own_bytes)
        at_v = i32(at_k + other_bytes)
        thread = i32(cuda.threadIdx.x)
        warp, lane = i32(thread >> 5), i32(thread & 31)
        heads, rows, keys = i32(q.shape[1]), i32(q.shape[2]), i32(k.shape[2])
        tiles = i32((rows + OWN - 1) // OWN)
        head = i32(cuda.blockIdx.x // tiles)
        row = i32((tiles - 1 - (cuda.blockIdx.x - head * tiles)) * OWN)
        batch = i32(head // heads)
        head = i32(head - batch * heads)
        shares = i32(head // (heads // k.shape[1]))
        counts = lengths(query_lengths, key_lengths, batch, rows, keys)
        present, filled = i32(counts[0]), i32(counts[1])
        end = filled
        if causal:
            end = i32(min(filled, min(row + OWN, present) + filled - present))
        line = i32(row + 16 * warp + (lane >> 2))
        s, d = cuda.local.array(scores, f32), cuda.local.array(scores, f32)
        o = cuda.local.array(sums, f32)
        a, b = cuda.local.array(4, i32), cuda.local.array(4, i32)
        for n in range(sums):
            o[n] = f32(0)
        lse0, lse1, mean0, mean1 = f32(math.inf), f32(math.inf), f32(0), f32(0)
        if line < present:
            lse0, mean0 = lse[batch, head, line] * f32(LOG2E), mean[batch, head, line]
        if line + 8 < present:
            lse1, mean1 = lse[batch, head, line + 8] * f32(LOG2E), mean[batch, head, line + 8]
        bring(q, batch, head, row, present, OWN, at_q, thread)
        bring(g, batch, head, row, present, OWN, at_g, thread)
        bring(k, batch, shares, 0, filled, tile, at_k, thread)
        copy_commit()
        column = i32(0)
        while column < end:
            arrived()
            cuda.syncthreads()
            bring(v, batch, shares, column, filled, tile, at_v, thread)
            copy_commit()
            products(at_q, at_k, s, a, b, warp, lane)
            mask_scores(
                s,
                scale,
                mask,
                batch,
                head,
                line,
                i32(column + 2 * (lane & 3)),
                column,
                lane,
                present,
                filled,
            )
            arrived()
            cuda.syncthreads()
            products(at_g, at_v, d, a, b, warp, lane)
            for n in range(scores // 4):
                for e in range(4):
                    slope = d[4 * n + e]
                    if dropping:
                        slope *= keep_factor(
                            i64(batch),
                            head,
                            line + 8 * (e >> 1),
                            column + 8 * n + 2 * (lane & 3) + (e & 1),
                            heads,
                            rows,
                            keys,
                            key,
                            stream,
                            first,
                            threshold,
                            gain,
                        )
                    s[4 * n + e] = exp2(s[4 * n + e] - (lse0 if e < 2 else lse1)) * (
                        slope - (mean0 if e < 2 else mean1)
                    )
            weighted(s, at_k, o, a, b, lane)
            cuda.syncthreads()  # all threads are done with the keys
            column = i32(column + tile)
            if column < end:
                bring(k, batch, shares, column, filled, tile, at_k, thread)
            copy_commit()
        arrived()
        columns = i32(q.shape[3])
        at = global_address(dq) + i64(batch) * dq.strides[0] + i64(head) * dq.strides[1]
        store(o, at, dq.strides[2], line, rows, columns, scale, scale, lane)

    return attention_grad_mma_queries


@functools.cache
def attention_grad_mma_keys(kind: Kind, which: str) -> Any:
    """dk, dv or "both" of a tile of keys."""
    tile, depth = others(kind, True), padded(kind)
    bring, products, weighted, store = moves(kind, tile)
    _, _, _, _, keep_factor, lengths = steps(kind)
    mask_scores = masking(kind, tile, True)
    causal, dropping, to_keys, to_values = (
        kind.causal,
        kind.dropping,
        which != "dv",
        which != "dk",
    )
    own_bytes, other_bytes, scores = OWN * 2 * depth, tile * 2 * depth, tile // 2
    sums_k, sums_v = depth // 2 if to_keys else 1, depth // 2 if to_values else 1
    arrived = copy_wait(0)

    @cuda.jit(launch_bounds=(THREADS, 1), fastmath={"contract"})
    def attention_grad_mma_keys(
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
        """Arguments of attention_grad_keys; rows of g, q, k, v contiguous and at multiples of 16
        bytes."""
        shared = cuda.shared.array(0, types.uint8)
        at_k = tma_pipeline.first_tile(shared)
        at_v = i32(at_k + own_bytes)
        at_q = i32(at_v + own_bytes)
        at_g = i32(at_q + other_bytes)
        thread = i32(cuda.threadIdx.x)
        warp, lane = i32(thread >> 5), i32(thread & 31)
        heads, rows, keys = i32(q.shape[1]), i32(q.shape[2]), i32(k.shape[2])
        repeats = i32(heads // k.shape[1])
        tiles = i32((keys + OWN - 1) // OWN)
        shares = i32(cuda.blockIdx.x // tiles)
        column = i32((cuda.blockIdx.x - shares * tiles) * OWN)  # the block's first key
        batch = i32(shares // k.shape[1])
        shares = i32(shares - batch * k.shape[1])
        counts = lengths(query_lengths, key_lengths, batch, rows, keys)
        present, filled = i32(counts[0]), i32(counts[1])
        begin = i32(0)
        if causal:
            begin = i32(max(column - (filled - present), 0) // tile * tile)
        if column >= filled:
            begin = present
        line = i32(column + 16 * warp + (lane >> 2))  # the thread's first key
        s, d = cuda.local.array(scores, f32), cuda.local.array(scores, f32)
        out_k, out_v = cuda.local.array(sums_k, f32), cuda.local.array(sums_v, f32)
        a, b = cuda.local.array(4, i32), cuda.local.array(4, i32)
        for n in range(sums_k):
            out_k[n] = f32(0)
        for n in range(sums_v):
            out_v[n] = f32(0)
        bring(k, batch, shares, column, filled, OWN, at_k, thread)
        bring(v, batch, shares, column, filled, OWN, at_v, thread)
        for repeat in range(repeats):
            head = i32(shares * repeats + repeat)
            row = begin
            while row < present:
                bring(q, batch, head, row, present, tile, at_q, thread)
                copy_commit()
                bring(g, batch, head, row, present, tile, at_g, thread)
                copy_commit()
                arrived()
                cuda.syncthreads()
                products(at_k, at_q, s, a, b, warp, lane)
                mask_scores(
                    s,
                    scale,
                    mask,
                    batch,
                    head,
                    line,
                    i32(row + 2 * (lane & 3)),
                    row,
                    lane,
                    present,
                    filled,
                )
                if to_keys:
                    products(at_v, at_g, d, a, b, warp, lane)
                for n in range(scores // 4):
                    for e in range(2):
                        i = i32(row + 8 * n + 2 * (lane & 3) + e)
                        exponent, average = f32(math.inf), f32(0)
                        if i < present:
                            exponent, average = (
                                lse[batch, head, i] * f32(LOG2E),
                                mean[batch, head, i],
                            )
                        for half in range(2):
                            m = 4 * n + 2 * half + e
                            p = exp2(s[m] - exponent)
                            gate = f32(1)
                            if dropping:
                                gate = keep_factor(
                                    i64(batch),
                                    head,
                                    i,
                                    line + 8 * half,
                                    heads,
                                    rows,
                                    keys,
                                    key,
                                    stream,
                                    first,
                                    threshold,
                                    gain,
                                )
                            if to_keys:
                                d[m] = p * (d[m] * gate - average)
                            s[m] = p * gate
                if to_values:
                    weighted(s, at_g, out_v, a, b, lane)
                if to_keys:
                    weighted(d, at_q, out_k, a, b, lane)
                cuda.syncthreads()  # all threads are done with this tile
                row = i32(row + tile)
        arrived()
        columns = i32(k.shape[3])
        if to_keys:
            at = global_address(dk) + i64(batch) * dk.strides[0] + i64(shares) * dk.strides[1]
            store(out_k, at, dk.strides[2], line, keys, columns, scale, scale, lane)
        if to_values:
            at = global_address(dv) + i64(batch) * dv.strides[0] + i64(shares) * dv.strides[1]
            store(out_v, at, dv.strides[2], line, keys, columns, f32(1), f32(1), lane)

    return attention_grad_mma_keys


# -------------------- planners


def forward(p: Problem) -> Plan:
    """Plan of y and lse."""
    kind, operands = kind_of(p), Operands()
    arrays = [operands.array(Input(i), x) for i, x in enumerate((p.q, p.k, p.v))]
    launch = Launch(
        attention_mma(kind),
        blocks(p.rows, OWN) * p.batch * p.heads,
        THREADS,
        [*arrays, *p.optional[0], Output(0), Output(1), *scale_and_dropout(p)],
        shared_bytes(kind, False),
    )
    return Plan(outputs(p), [*operands.steps, launch], operands.temps)


def backward(p: Problem) -> Plan:
    """Plan of dq, dk and dv."""
    if p.g is None or p.lse is None:
        raise AssertionError("attention_grad: no gradient")
    kind, operands, after = kind_of(p), Operands(), scale_and_dropout(p)
    arrays = [operands.array(Input(i), x) for i, x in enumerate((p.g, p.q, p.k, p.v))]
    mean, nbytes = Temp(len(operands.temps)), shared_bytes(kind, True)
    before = [*arrays, Input(5), mean, *p.optional[0]]
    launches = [
        mean_launch(p.lse, p.q.dtype, mean),
        Launch(
            attention_grad_mma_queries(kind),
            blocks(p.rows, OWN) * p.batch * p.heads,
            THREADS,
            [*before, Output(0), *after],
            nbytes,
        ),
    ]
    for gradients in ("both",) if p.depth <= DEEP else ("dk", "dv"):
        launches.append(
            Launch(
                attention_grad_mma_keys(kind, gradients),
                blocks(p.keys, OWN) * p.batch * p.shares,
                THREADS,
                [*before, Output(1), Output(2), *after],
                nbytes,
            )
        )
    return Plan(
        [result_like(x) for x in (p.q, p.k, p.v)],
        [*operands.steps, *launches],
        [*operands.temps, p.lse.like()],
    )
