"""Self-attention on queries, keys and values that lie side by side."""

from __future__ import annotations

import math
from typing import Any

from ..autodiff.transforms import vjp
from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import Op
from ..core.dtypes import FLOATING
from ..core.shapes import as_integer
from ..core.typing import ArrayLike
from ..ops.random.bit_stream import number
from ..ops.shape import moveaxis
from .attention import MOST_DEPTH, stored
from .softmax import in_order

__all__ = ["self_attention"]

NAME = "self_attention"


@fast_path("qkv")
def self_attention(
    qkv: ArrayLike, heads: int, *, causal: bool = True, scale: float | None = None
) -> ndarray:
    """Attention of a sequence to itself, from one array that holds queries, keys and values.

    As in a transformer's layer.

    With q, k, v = the three thirds of qkv's last axis, each (B, S, heads, D):
    y[b, i, h] = sum over j of p[i, j] v[b, j, h],   p = softmax over j of scale q[b, i, h] . k[b,
        j, h]

    The same as `scaled_dot_product_attention` after taking `qkv` apart and moving the heads in
    front, but nothing is copied on the way: it takes the result of one `linear` layer and returns
    the input of the next; so do the gradients.

    Parameters
    ----------
    qkv : array (B, S, 3 heads D) of float16, bfloat16, float32 or float64
        Queries of all heads, then keys of all heads, then values. D from 1 to 256.
    heads : int
        Number of heads.
    causal : bool, default True
        Query i sees keys 0 .. i alone.
    scale : float, optional
        By default 1 / sqrt(D).

    Returns
    -------
    ndarray
        (B, S, heads D), dtype of `qkv`.

    Raises
    ------
    TypeError
        Qkv is not floating-point.
    ValueError
        Qkv has not three axes, or the last one is not a multiple of 3 heads; D beyond 256; a scale
        that is not finite.

    Notes
    -----
    Gradient: with respect to qkv, of any order; the first one stores no scores. 16-bit numbers are
    summed in float32. Every sum is taken in a fixed order: the same inputs give the same bits.

    Sources: those of `scaled_dot_product_attention`.

    Examples
    --------
    >>> import cudamath as cm
    >>> qkv = cm.array([[[0.0, 0.0, 2.0], [0.0, 0.0, 4.0]]])
    >>> cm.ml.self_attention(qkv, 1).tolist()
    [[[2.0], [3.0]]]
    """
    qkv = require(NAME, qkv, FLOATING, "qkv")
    heads = as_integer(NAME, "heads", heads, 1)
    if qkv.ndim != 3 or qkv.shape[2] % (3 * heads):
        raise ValueError(
            f"{NAME}: wants qkv (B, S, 3 heads D), got shape {qkv.shape} with {heads} heads"
        )
    depth = qkv.shape[2] // (3 * heads)
    if not 1 <= depth <= MOST_DEPTH:
        raise ValueError(
            f"{NAME}: wants D from 1 to {MOST_DEPTH}, got {depth} in qkv of shape {qkv.shape} "
            f"with {heads} heads"
        )
    scale = 1 / math.sqrt(depth) if scale is None else number(NAME, "scale", scale)
    return _self_attention(in_order(qkv), heads=heads, causal=bool(causal), scale=scale)[0]


def _composed(qkv: ndarray, heads: int, causal: bool, scale: float) -> ndarray:
    """The same function out of public operations: differentiable to any order."""
    batch, length, width = qkv.shape
    parts = moveaxis(qkv.reshape((batch, length, 3, heads, width // 3 // heads)), (2, 3), (0, 2))
    y = stored(parts[0], parts[1], parts[2], causal=causal, scale=scale, dropping=False)
    return moveaxis(y, 1, 2).reshape((batch, length, width // 3))


def _rule(g: tuple, y: tuple, qkv: ndarray, **params: Any) -> tuple:
    return (_self_attention_grad(in_order(g[0]), qkv, y[0], y[1], **params),)


def _grad_rule(
    h: ndarray, _first: None, g: ndarray, qkv: ndarray, _y: None, _lse: None, **params: Any
) -> tuple:
    """y and lse count as functions of qkv."""

    def first(g: ndarray, qkv: ndarray) -> ndarray:
        return vjp(lambda x: _composed(x, **params), qkv)[1](g)[0]

    return *vjp(first, g, qkv)[1](h), None, None


_self_attention = Op(
    NAME,
    cpu="self_attention.self_attention",
    cuda="attention.packed_qkv.self_attention",
    outputs=2,
    vjp=_rule,
)
_self_attention_grad = Op(
    "self_attention_grad",
    cpu="self_attention.self_attention_grad",
    cuda="attention.packed_qkv.self_attention_grad",
    vjp=_grad_rule,
)
