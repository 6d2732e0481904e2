"""Rotary position embedding."""

from __future__ import annotations

from ..core.array import ndarray
from ..core.dispatch.checks import coerce, require
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.op import FLOATING, NUMERIC, Op
from ..core.dtypes import compute_dtype
from ..core.shapes import as_integer, broadcast_shapes
from ..core.typing import ArrayLike, DTypeLike
from ..ops import elementwise
from ..ops.random.bit_stream import number
from ..ops.ranges import arange
from ..ops.shape import expand_dims

__all__ = ["rotary_embedding", "rotary_tables"]


def rotary_tables(
    positions: ArrayLike, dim: int, *, base: float = 10000.0, dtype: DTypeLike = "float32"
) -> tuple[ndarray, ndarray]:
    """Return cosines and sines for `rotary_embedding`.

    cos[..., s, i] = cos(positions[..., s] * base^(-2 i / dim)), i < dim / 2; sin alike. Computed in
    float64, then rounded.

    Parameters
    ----------
    positions : array (..., S), or int
        Where the rows of a sequence stand; an integer n means 0 .. n - 1.
    dim : int
        How many numbers of a row are turned; even.
    base : float, default 10000.0
        The slowest pair turns by one radian in about `base` positions.
    dtype : dtype_like, default "float32"
        In float32 (also for 16-bit rows) or float64.

    Returns
    -------
    (ndarray, ndarray)
        Each (..., S, dim / 2).

    Raises
    ------
    TypeError, ValueError
        Positions that are not numbers; an odd or negative `dim`; a base that is not positive.

    Examples
    --------
    >>> import cudamath as cm
    >>> cos, sin = cm.ml.rotary_tables(3, 2)
    >>> sin.round(3).tolist()
    [[0.0], [0.8410000205039978], [0.9089999794960022]]
    """
    dim, base = as_integer("rotary_tables", "dim", dim), number("rotary_tables", "base", base)
    if dim < 0 or dim % 2:
        raise ValueError(f"rotary_tables: wants an even dim >= 0, got {dim}")
    if base <= 0:
        raise ValueError(f"rotary_tables: wants base > 0, got {base}")
    if (
        isinstance(positions, int)
        or getattr(positions, "ndim", None) == 0
        and hasattr(positions, "__index__")
    ):
        positions = arange(as_integer("rotary_tables", "positions", positions, 0))
    where = require("rotary_tables", positions, NUMERIC, "positions").astype("float64")
    if not where.ndim:
        raise ValueError("rotary_tables: wants positions of at least one axis, or an integer")
    speed = base ** (arange(0, dim, 2, dtype="float64", device=where.device) / -max(dim, 1))
    angle = expand_dims(where, -1) * speed
    return elementwise.cos(angle).astype(dtype), elementwise.sin(angle).astype(dtype)


@fast_path("x", "cos", "sin")
def rotary_embedding(
    x: ArrayLike, cos: ArrayLike, sin: ArrayLike, *, interleaved: bool = False
) -> ndarray:
    """Rotate pairs of numbers of each row by the angle of its position.

    y[a] = x[a] cos[i] - x[b] sin[i],  y[b] = x[a] sin[i] + x[b] cos[i], where pair i is (a, b) =
    (i, i + R / 2), as in Llama, or, if interleaved, (2 i, 2 i + 1), as in RoFormer. The scores of
    attention then depend on distances only.

    Parameters
    ----------
    x : array (..., S, D) of float16, bfloat16, float32 or float64, at most four axes
        Queries or keys. 16-bit numbers are computed in float32.
    cos, sin : arrays that broadcast to (..., S, R / 2)
        From `rotary_tables`; R <= D numbers of each row are rotated, the others copied. float32;
        float64 for float64 `x`.
    interleaved : bool, default False
        Which numbers form a pair.

    Returns
    -------
    ndarray
        Shape and dtype of `x`.

    Raises
    ------
    TypeError
        Arrays of other dtypes.
    ValueError
        Shapes that do not fit.

    Notes
    -----
    Gradient: with respect to x, cos and sin, of any order.

    References
    ----------
    .. [1] Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021.

    Examples
    --------
    >>> import cudamath as cm
    >>> cos, sin = cm.ml.rotary_tables(2, 2)
    >>> cm.ml.rotary_embedding(cm.ones((2, 2), dtype="float32"), cos, sin).round(3).tolist()
    [[1.0, 1.0], [-0.3009999990463257, 1.3819999694824219]]
    """
    x, cos, sin = coerce("rotary_embedding", (x, cos, sin), FLOATING)
    kind = compute_dtype(x.dtype)
    if cos.dtype != kind or sin.dtype != kind:
        raise TypeError(
            f"rotary_embedding: x of dtype {x.dtype} wants cos and sin in {kind}, got {cos.dtype} "
            f"and {sin.dtype}"
        )
    if not 2 <= x.ndim <= 4:
        raise ValueError(
            f"rotary_embedding: wants x (..., S, D) of two to four axes, got shape {x.shape}"
        )
    half = cos.shape[-1] if cos.ndim else 0
    rows = (*x.shape[:-1], half)
    try:
        fits = (
            cos.shape == sin.shape and broadcast_shapes("rotary_embedding", cos.shape, rows) == rows
        )
    except ValueError:
        fits = False
    if not fits or not cos.ndim or 2 * half > x.shape[-1]:
        raise ValueError(
            "rotary_embedding: wants cos and sin that broadcast to (..., S, R / 2) with R <= D "
            f"for x {x.shape}, "
            f"got {cos.shape} and {sin.shape}"
        )
    if x.ndim == 4:
        return _rotary(x, cos, sin, interleaved=bool(interleaved), inverse=False)
    y = _rotary(
        x.reshape((1,) * (4 - x.ndim) + x.shape),
        cos,
        sin,
        interleaved=bool(interleaved),
        inverse=False,
    )
    return y.reshape(x.shape)


def _rule(
    g: ndarray, _y: None, _x: None, cos: ndarray, sin: ndarray, *, interleaved: bool, inverse: bool
) -> ndarray:
    return _rotary(g, cos, sin, interleaved=interleaved, inverse=not inverse)


def _pairs(x: ndarray, like: ndarray, interleaved: bool) -> tuple[ndarray, ndarray]:
    """The two numbers of each pair that is turned, each (..., S, R / 2), in the dtype of the
    tables."""
    half = like.shape[-1]
    one, other = (
        (x[..., : 2 * half : 2], x[..., 1 : 2 * half : 2])
        if interleaved
        else (x[..., :half], x[..., half : 2 * half])
    )
    return one.astype(like.dtype), other.astype(like.dtype)


def _cos_rule(
    g: ndarray, _y: None, x: ndarray, cos: ndarray, _sin: None, *, interleaved: bool, inverse: bool
) -> ndarray:
    (a, b), (ga, gb) = _pairs(x, cos, interleaved), _pairs(g, cos, interleaved)
    return ga * a + gb * b


def _sin_rule(
    g: ndarray, _y: None, x: ndarray, _cos: None, sin: ndarray, *, interleaved: bool, inverse: bool
) -> ndarray:
    (a, b), (ga, gb) = _pairs(x, sin, interleaved), _pairs(g, sin, interleaved)
    return ga * b - gb * a if inverse else gb * a - ga * b


_rotary = Op(
    "rotary_embedding",
    cpu="rotary.rotary",
    cuda="attention.rotary.plan",
    vjp=(_rule, _cos_rule, _sin_rule),
    broadcasts=True,
)
