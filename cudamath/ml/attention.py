"""Scaled dot-product attention: the card, its gradient, and the gradient of that."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..autodiff.transforms import stop_gradient, vjp
from ..core.array import ndarray
from ..core.devices import TRACED
from ..core.dispatch.checks import coerce, require
from ..core.dispatch.keyword_hints import with_hints
from ..core.dispatch.op import Op
from ..core.dtypes import BOOLEAN, FLOATING, INTEGER, compute_dtype
from ..core.layout import Layout
from ..core.shapes import broadcast_shapes
from ..core.typing import ArrayLike
from ..ops.creation import ones_like, zeros, zeros_like
from ..ops.elementwise import clip, exp, logical_and
from ..ops.random.bit_stream import drawn, number, probability
from ..ops.random.generator import Generator
from ..ops.random.module import default_generator
from ..ops.ranges import arange
from ..ops.where import where
from .dropout import masked

__all__ = ["scaled_dot_product_attention"]

NAME = "scaled_dot_product_attention"
MOST_DEPTH = 256  # numbers a head has


@with_hints
def scaled_dot_product_attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    rng: Generator | None = None,
    query_lengths: ArrayLike | None = None,
    key_lengths: ArrayLike | None = None,
) -> ndarray:
    """Attention: every query's mean of the values, weighted by how well their keys fit.

    y[b, h, i] = sum over j of p[i, j] v[b, h', j],   p = softmax over j of (scale q[b, h, i] . k[b,
        h', j] + mask[b, h, i, j])

    where h' = h // (H / Hkv): grouped queries share keys and values. The Sq x Sk scores are never
    stored.

    Parameters
    ----------
    q : array (B, H, Sq, D) of float16, bfloat16, float32 or float64
        Queries; also (H, Sq, D) or (Sq, D), for which k and v lack the same axes. D from 1 to 256.
    k : array (B, Hkv, Sk, D), dtype of `q`
        Keys. Hkv divides H.
    v : array (B, Hkv, Sk, Dv), dtype of `q`
        Values; Dv from 1 to 256.
    mask : array that broadcasts to (B, H, Sq, Sk), optional
        Bool: True where the query sees the key. Else in the dtype of `q`, or in float32 for 16-bit
        `q`: added to the scores.
    causal : bool, default False
        Query i sees keys 0 .. i + Sk - Sq: the last query sees the last key (aligned at the bottom
        right, as in FlashAttention; PyTorch's `is_causal` aligns at the top left, which is the same
        for Sq = Sk). With lengths, those of the batch element take the place of Sq and Sk.
    scale : float, optional
        By default 1 / sqrt(D).
    dropout : float, default 0.0
        Probability with which a weight p is dropped, the others being scaled by 1 / (1 - dropout):
        `ml.dropout` of p.
    rng : Generator, optional
        Where dropout's mask comes from; by default the generator of `cm.random`.
    query_lengths, key_lengths : int arrays (B,), optional
        How many queries and keys of each batch element are there; what follows them is ignored. By
        default all. Held within 0 .. Sq and 0 .. Sk. With a cache of keys and values, `key_lengths`
        says how far it is filled.

    Returns
    -------
    ndarray
        (B, H, Sq, Dv), dtype of `q`. A query that sees no key, or lies beyond its length, gives
        zeros.

    Raises
    ------
    TypeError
        Arrays that are not floating-point, differ in dtype, or a mask or lengths of another kind
        than said above.
    ValueError
        Shapes that do not fit; D or Dv beyond 256; a scale that is not finite; dropout outside [0,
        1].

    Notes
    -----
    Gradient: with respect to q, k, v and an additive mask, of any order. The first one of q, k and
    v stores no scores either; the mask's, and those of higher orders, do. 16-bit numbers are summed
    in float32. Every sum is taken in a fixed order: the same inputs give the same bits.

    Sources: Vaswani et al., "Attention is all you need", 2017; Dao et al., "FlashAttention", 2022;
    Dao, "FlashAttention-2", 2023.

    Examples
    --------
    >>> import cudamath as cm
    >>> q, k = cm.array([[1.0, 0.0]]), cm.array([[50.0, 0.0], [0.0, 50.0]])
    >>> v = cm.array([[1.0, 2.0], [3.0, 4.0]])
    >>> cm.ml.scaled_dot_product_attention(q, k, v).round(3).tolist()
    [[1.0, 2.0]]
    >>> x = cm.ones((2, 8, 5, 16))
    >>> cm.ml.scaled_dot_product_attention(x, x[:, :2], x[:, :2], causal=True).shape
    (2, 8, 5, 16)
    """
    if not (isinstance(q, ndarray) and isinstance(k, ndarray) and isinstance(v, ndarray)):
        q, k, v = coerce(NAME, (q, k, v), FLOATING)
    usual = checked(q._layout, k._layout, v._layout)
    if scale is None:
        scale = usual
    elif type(scale) not in (int, float) or not math.isfinite(scale):
        scale = number(NAME, "scale", scale)
    if q.ndim != 4:
        lead = (1,) * (4 - q.ndim)
        four = [x.reshape((*lead, *x.shape)) for x in (q, k, v)]
        y = scaled_dot_product_attention(
            *four,
            mask=mask,
            causal=causal,
            scale=scale,
            dropout=dropout,
            rng=rng,
            query_lengths=query_lengths,
            key_lengths=key_lengths,
        )
        return y.reshape(y.shape[4 - q.ndim :])
    params: dict[str, Any] = {
        "causal": bool(causal),
        "scale": float(scale),
        "dropping": bool(dropout != 0),
    }
    if mask is None and query_lengths is None and key_lengths is None:
        arrays: tuple[Any, ...] = (q, k, v)
    else:
        arrays = (
            q,
            k,
            v,
            None if mask is None else _mask(q, k, mask),
            _lengths(q, "query_lengths", query_lengths, q.shape[2]),
            _lengths(q, "key_lengths", key_lengths, k.shape[2]),
        )
    if dropout == 0:
        return _attention(*arrays, **params)[0]
    arrays = (*arrays, None, None, None)[:6]
    if rng is not None and not isinstance(rng, Generator):
        raise TypeError(
            f"{NAME}: wants rng as a cudamath.random.Generator, got {type(rng).__name__}"
        )
    generator = default_generator() if rng is None else rng
    start = generator._offset
    try:
        return drawn(_attention, *_dropping(q, k, dropout, generator), *arrays, **params)[0]
    except BaseException:
        generator.return_to(start)
        raise


# -------------------- checks


@functools.lru_cache(4096)
def checked(q: Layout, k: Layout, v: Layout) -> float:
    """The usual scale, if the shapes, dtypes and devices of these fit together."""
    shapes = f"q {q.shape}, k {k.shape}, v {v.shape}"
    if q.dtype not in FLOATING or not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"{NAME}: wants q, k and v in one floating-point dtype, got {q.dtype}, {k.dtype}, "
            f"{v.dtype}"
        )
    places = {q.device, k.device, v.device}
    if len(places) > 1 and min(places) >= TRACED:  # those of a call of vmap may be anywhere there
        raise ValueError(f"{NAME}: wants q, k and v on one device, got {q}, {k}, {v}")
    if not 2 <= q.ndim <= 4 or not q.ndim == k.ndim == v.ndim:
        raise ValueError(
            f"{NAME}: wants q (B, H, Sq, D), k (B, Hkv, Sk, D) and v (B, Hkv, Sk, Dv), got {shapes}"
        )
    batch, heads = ((1, 1) + q.shape)[-4:-2]
    batch_k, shared = ((1, 1) + k.shape)[-4:-2]
    if k.shape[:-1] != v.shape[:-1] or q.shape[-1] != k.shape[-1] or batch != batch_k:
        raise ValueError(
            f"{NAME}: wants q (B, H, Sq, D), k (B, Hkv, Sk, D) and v (B, Hkv, Sk, Dv), got {shapes}"
        )
    if heads != shared and (shared == 0 or heads % shared):
        raise ValueError(
            f"{NAME}: the {shared} heads of k and v must divide the {heads} of q, got {shapes}"
        )
    if not (1 <= q.shape[-1] <= MOST_DEPTH and 1 <= v.shape[-1] <= MOST_DEPTH):
        raise ValueError(f"{NAME}: wants D and Dv from 1 to {MOST_DEPTH}, got {shapes}")
    return 1 / math.sqrt(q.shape[-1])


def _mask(q: ndarray, k: ndarray, mask: Any) -> ndarray:
    """The mask as an array of four axes that broadcasts to the scores."""
    mask = coerce(NAME, (q, mask))[1]
    if mask.dtype not in BOOLEAN and mask.dtype not in (q.dtype, compute_dtype(q.dtype)):
        raise TypeError(
            f"{NAME}: q of dtype {q.dtype} wants a mask of bool or {q.dtype}"
            f"{' or float32' if q.dtype.itemsize == 2 else ''}, got {mask.dtype} of shape "
            f"{mask.shape}"
        )
    scores = (*q.shape[:3], k.shape[2])
    try:
        fits = broadcast_shapes(NAME, mask.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{NAME}: wants a mask that broadcasts to the scores {scores}, got shape {mask.shape}"
        )
    return mask if mask.ndim == 4 else mask.reshape((1,) * (4 - mask.ndim) + mask.shape)


def _lengths(q: ndarray, what: str, lengths: Any, most: int) -> ndarray | None:
    """Lengths as int32 (B,). Those of wider dtypes are held within 0 .. most first: int32 could not
    tell 2^32 from 0."""
    if lengths is None:
        return None
    lengths = require(NAME, coerce(NAME, (q, lengths))[1], INTEGER, what)
    if lengths.shape != q.shape[:1]:
        raise ValueError(
            f"{NAME}: wants {what} of shape {q.shape[:1]} for q {q.shape}, got {lengths.shape}"
        )
    if not np.can_cast(lengths.dtype, np.int32):
        lengths = clip(lengths, 0, most)
    return lengths.astype(np.int32, copy=False)


def _dropping(q: ndarray, k: ndarray, dropout: float, rng: Generator) -> tuple[tuple, tuple]:
    """Counter and scalars that say which weights are dropped: those of `ml.dropout` of the (B, H,
    Sq, Sk) weights."""
    p = probability(NAME, dropout)
    words = math.prod(q.shape[:3]) * k.shape[2]
    counter = rng.take(NAME, -(-words // 4), q._layout.device)
    return counter, (round(p * (1 << 32)), 1 / (1 - p) if p < 1 else 0.0)


# -------------------- gradients


def _rule(
    g: tuple, y: tuple, q: ndarray, k: ndarray, v: ndarray, *rest: ndarray | None, **params: Any
) -> tuple:
    if g[0] is None:  # pragma: no cover - nothing else of it is ever used
        return (None,) * (3 + len(rest))
    first = _attention_grad(g[0], q, k, v, y[0], y[1], *rest, **params)
    if not rest or rest[0] is None or rest[0]._node is None:
        return *first, *[None] * len(rest)
    _, pull = vjp(lambda mask: stored(q, k, v, mask, *rest[1:], **params), rest[0])
    return *first, *pull(g[0]), *[None] * (len(rest) - 1)


def _grad_rule(
    h: tuple,
    _first: None,
    g: ndarray,
    q: ndarray,
    k: ndarray,
    v: ndarray,
    _y: None,
    _lse: None,
    *rest: ndarray | None,
    **params: Any,
) -> tuple:
    """y and lse count as functions of q, k and v."""
    mask = rest[0] if rest and rest[0] is not None and rest[0].dtype in FLOATING else None

    def first(g: ndarray, q: ndarray, k: ndarray, v: ndarray, *added: ndarray) -> tuple:
        others = (*added, *rest[1:]) if added else rest
        _, pull = vjp(lambda q, k, v: stored(q, k, v, *others, **params), q, k, v)
        return pull(g)

    operands = (g, q, k, v) if mask is None else (g, q, k, v, mask)
    _, pull = vjp(first, *operands)
    given = tuple(
        [zeros_like(x) if each is None else each for each, x in zip(h, (q, k, v), strict=True)]
    )
    found = pull(given)
    return (
        *found[:4],
        None,
        None,
        *[found[4] if mask is not None and i == 0 else None for i in range(len(rest))],
    )


def stored(
    q: ndarray,
    k: ndarray,
    v: ndarray,
    mask: ndarray | None = None,
    query_lengths: ndarray | None = None,
    key_lengths: ndarray | None = None,
    cell: ndarray | None = None,
    *,
    causal: bool,
    scale: float,
    dropping: bool,
    scalars: tuple = (),
) -> ndarray:
    """The same function out of public operations, with all scores stored: differentiable to any
    order.

    cell: where dropout's counter is, if it is not in the scalars (ops/random/bit_stream.py)."""
    (batch, heads, queries, depth), (shared, keys) = q.shape, k.shape[1:3]
    kind = compute_dtype(q.dtype)
    grouped = q.astype(kind).reshape((batch, shared, heads // max(shared, 1) * queries, depth))
    scores = (grouped @ k.astype(kind).mT * scale).reshape((batch, heads, queries, keys))
    if mask is not None:
        scores = (
            where(mask, scores, -math.inf) if mask.dtype in BOOLEAN else scores + mask.astype(kind)
        )
    if causal or query_lengths is not None or key_lengths is not None:

        def length(given: ndarray | None, most: int) -> Any:
            return most if given is None else clip(given, 0, most).reshape((batch, 1, 1, 1))

        i = arange(queries, device=q.device).reshape((queries, 1))
        j = arange(keys, device=q.device)
        present, filled = length(query_lengths, queries), length(key_lengths, keys)
        seen = logical_and(i < present, j < filled)
        if causal:
            seen = logical_and(seen, j <= i + (filled - present))
        scores = where(seen, scores, -math.inf)
    if keys == 0:
        return zeros((batch, heads, queries, v.shape[3]), q.dtype, device=q.device)
    top = stop_gradient(scores.max(axis=-1, keepdims=True))
    e = exp(scores - where(top == -math.inf, zeros_like(top), top))
    total = e.sum(axis=-1, keepdims=True)
    p = e / where(total == 0, ones_like(total), total)
    if dropping:
        p = masked(p, scalars if cell is None else (cell, *scalars[1:]))
    y = p.reshape((batch, shared, heads // max(shared, 1) * queries, keys)) @ v.astype(kind)
    return y.reshape((batch, heads, queries, v.shape[3])).astype(q.dtype)


_attention = Op(
    NAME, cpu="attention.attention", cuda="attention.dispatch.attention", outputs=2, vjp=_rule
)
_attention_grad = Op(
    "attention_grad",
    cpu="attention.attention_grad",
    cuda="attention.dispatch.attention_grad",
    outputs=3,
    vjp=_grad_rule,
)
