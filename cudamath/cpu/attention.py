"""Attention in NumPy, tile by tile: the scores of a few rows at a time, never the whole Sq x Sk
matrix.

    s = scale q k^T + mask,   p = exp(s - lse),   y = p v          lse_i = log sum_j exp(s_ij)
    dv = p^T g,   ds = p (g v^T - sum_j g y),   dq = scale ds k,   dk = scale ds^T q

A tile is a few rows of queries (all heads of some batch elements) and all keys that any of them
sees; its scores fit into LIMIT numbers. Queries of heads that share keys are rows of one matrix
product. 16-bit numbers are widened to float32. A row that sees nothing has lse = +inf, so that p is
0 there, forward and backward.
"""

from collections.abc import Iterator

import numpy as np

from .lib.float32_sums import widen
from .lib.llvm_compiled import loop
from .random import keyed, word

LIMIT = 1 << 20  # scores held at a time: 4 MiB of float32


class _Problem:
    """q (B, H, Sq, D) as (B, Hkv, R, Sq, D), k (B, Hkv, Sk, D), v (B, Hkv, Sk, Dv), widened,
    the mask and the lengths."""

    def __init__(self, q, k, v, mask, query_lengths, key_lengths, causal, scale):
        batch, heads, queries, depth = q.shape
        shared = k.shape[1]
        self.shape = batch, heads, queries, k.shape[2]
        self.groups = batch, shared, heads // max(shared, 1), queries
        self.q = widen(q).reshape(*self.groups, depth)
        self.k, self.v = widen(k), widen(v)
        self.causal, self.scale = causal, scale
        self.mask = None if mask is None else np.broadcast_to(mask, self.shape)
        self.keys = _lengths(key_lengths, batch, self.shape[3])
        self.queries = _lengths(query_lengths, batch, queries)
        self.bounded = query_lengths is not None or key_lengths is not None

    def tiles(self) -> Iterator[tuple[slice, slice, int]]:
        """(batch elements, rows, keys) of each tile. The tiles cover all scores within the
        lengths, and no others."""
        batch, heads, queries, keys = self.shape
        if 0 in (batch, heads, queries):
            return
        rows = max(1, min(queries, LIMIT // max(heads * keys, 1)))
        at_once = (
            1 if self.bounded or rows < queries else max(1, LIMIT // max(heads * queries * keys, 1))
        )
        for b in range(0, batch, at_once):
            part = slice(b, min(b + at_once, batch))
            present, filled = int(self.queries[b]), int(self.keys[b])
            for i in range(0, present, rows):
                end = min(i + rows, present)
                visible = min(filled, end + filled - present) if self.causal else filled
                if visible > 0:
                    yield part, slice(i, end), visible

    def scores(self, part: slice, rows: slice, keys: int) -> np.ndarray:
        """(b, Hkv, R, rows, keys): scaled, masked; -inf where a query does not see a key."""
        q = self.q[part, :, :, rows] * q_type(self.q)(self.scale)
        b, shared, repeats, n, depth = q.shape
        s = _product(
            q.reshape(b, shared, repeats * n, depth), self.k[part, :, :keys].swapaxes(-1, -2)
        )
        flat = s.reshape(b, shared * repeats, n, keys)
        if self.mask is not None:
            mask = self.mask[part, :, rows, :keys]
            if mask.dtype == bool:
                flat[~mask] = -np.inf
            else:
                flat += widen(mask)
        if self.causal:
            last = np.arange(rows.start, rows.stop)[:, None] + (
                self.keys[part.start] - self.queries[part.start]
            )
            np.copyto(flat, -np.inf, where=np.arange(keys) > last)
        return s.reshape(b, shared, repeats, n, keys)

    def rows(self, x: np.ndarray, part: slice, rows: slice) -> np.ndarray:
        """Rows of an array like q, (B, Hkv, R, Sq, ...), as matrices (b, Hkv, R * rows, ...)."""
        x = x[part, :, :, rows]
        return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3], *x.shape[4:])


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b in C order, so that its reshapes are views to write into: NumPy keeps the order of the
    operands' batch axes."""
    return np.matmul(a, b, order="C")


def q_type(x):
    """The scalar type of an array."""
    return x.dtype.type


def _lengths(lengths: np.ndarray | None, batch: int, most: int) -> np.ndarray:
    """The length of each batch element: `most` without lengths, else the lengths clipped to
    0 .. most."""
    return np.full(batch, most) if lengths is None else np.clip(lengths.astype(np.int64), 0, most)


@loop
def drop(p, element, row, rows, keys, first, stream, key, threshold, scale):
    """p: (b, H, n, m). p[b, h, i, j] *= scale where the random word of this element reaches the
    threshold; the others become 0.

    Words are numbered as in ml.dropout of the whole (B, H, rows, keys) array, in which p begins at
    (element, 0, row, 0).
    """
    for b in range(p.shape[0]):
        for h in range(p.shape[1]):
            for i in range(p.shape[2]):
                line = (((element + b) * p.shape[1] + h) * rows + row + i) * keys
                for j in range(p.shape[3]):
                    at = line + j
                    w = word(first + np.uint64(at // 4), stream, key, at % 4)
                    p[b, h, i, j] = (
                        p[b, h, i, j] * scale if np.uint64(w) >= threshold else scale - scale
                    )


def _drop(p: np.ndarray, part: slice, rows: slice, shape: tuple, scalars: tuple) -> None:
    """Dropout in place on the probabilities (b, Hkv, R, rows, keys) of a tile."""
    counter, (threshold, scale) = keyed(scalars)
    b, shared, repeats, n, keys = p.shape
    drop(
        p.reshape(b, shared * repeats, n, keys),
        part.start,
        rows.start,
        *shape[2:],
        *counter,
        np.uint64(threshold),
        q_type(p)(scale),
    )


def attention(
    q, k, v, mask=None, query_lengths=None, key_lengths=None, *, causal, scale, dropping, scalars=()
):
    """q (B, H, Sq, D), k (B, Hkv, Sk, D), v (B, Hkv, Sk, Dv), mask broadcast to (B, H, Sq, Sk),
    lengths (B,) -> y (B, H, Sq, Dv) in q's dtype and lse (B, H, Sq) in the compute type."""
    p = _Problem(q, k, v, mask, query_lengths, key_lengths, causal, scale)
    y = np.zeros((*p.groups, v.shape[3]), p.q.dtype)
    lse = np.full(p.groups, np.inf, p.q.dtype)
    for part, rows, keys in p.tiles():
        s = p.scores(part, rows, keys)
        top = s.max(-1, keepdims=True)
        np.copyto(top, 0, where=top == -np.inf)
        with np.errstate(invalid="ignore"):
            s -= top
        np.exp(s, out=s)
        total = s.sum(-1)
        empty = total == 0
        np.copyto(total, 1, where=empty)
        lse[part, :, :, rows] = np.where(empty, np.inf, top[..., 0] + np.log(total))
        if dropping:
            _drop(s, part, rows, p.shape, scalars)
        b, shared, repeats, n, _ = s.shape
        weighted = s.reshape(b, shared, repeats * n, keys) @ p.v[part, :, :keys]
        y[part, :, :, rows] = weighted.reshape(b, shared, repeats, n, -1) / total[..., None]
    return y.reshape(*q.shape[:3], v.shape[3]).astype(q.dtype, copy=False), lse.reshape(q.shape[:3])


def attention_grad(
    g,
    q,
    k,
    v,
    y,
    lse,
    mask=None,
    query_lengths=None,
    key_lengths=None,
    *,
    causal,
    scale,
    dropping,
    scalars=(),
):
    """The gradients of <g, attention> by q, k and v. g, y (B, H, Sq, Dv), lse (B, H, Sq), the rest
    as above."""
    p = _Problem(q, k, v, mask, query_lengths, key_lengths, causal, scale)
    g, y = (widen(a).reshape(*p.groups, v.shape[3]) for a in (g, y))
    lse = lse.reshape(p.groups)
    dq, dk, dv = (
        np.zeros_like(p.q, order="C"),
        np.zeros(k.shape, p.q.dtype),
        np.zeros(v.shape, p.q.dtype),
    )
    mean = (g * y).sum(-1)
    for part, rows, keys in p.tiles():
        s = p.scores(part, rows, keys)
        with np.errstate(invalid="ignore"):
            s -= lse[part, :, :, rows, None]
        np.exp(s, out=s)
        b, shared, repeats, n, _ = s.shape
        matrix = b, shared, repeats * n, keys
        upstream = p.rows(g, part, rows)
        slope = _product(upstream, p.v[part, :, :keys].swapaxes(-1, -2)).reshape(s.shape)
        dropped = s
        if dropping:
            dropped = s.copy()
            _drop(dropped, part, rows, p.shape, scalars)
            _drop(slope, part, rows, p.shape, scalars)
        dv[part, :, :keys] += dropped.reshape(matrix).swapaxes(-1, -2) @ upstream
        slope -= mean[part, :, :, rows, None]
        slope *= s
        slope *= q_type(s)(scale)
        flat = slope.reshape(matrix)
        dq[part, :, :, rows] = (flat @ p.k[part, :, :keys]).reshape(b, shared, repeats, n, -1)
        dk[part, :, :keys] += flat.swapaxes(-1, -2) @ p.rows(p.q, part, rows)
    return tuple(
        a.reshape(like.shape).astype(like.dtype, copy=False)
        for a, like in ((dq, q), (dk, k), (dv, v))
    )
