"""Dropout."""

from __future__ import annotations

from typing import Any

from ..core.array import ndarray
from ..core.dispatch.checks import require
from ..core.dispatch.op import FLOATING, Op
from ..core.typing import ArrayLike
from ..ops.random.bit_stream import drawn, probability
from ..ops.random.generator import Generator
from ..ops.random.module import default_generator

__all__ = ["dropout"]


def dropout(
    x: ArrayLike, p: float = 0.5, *, training: bool = True, rng: Generator | None = None
) -> ndarray:
    """Set elements to zero with probability `p` and scale the others to keep the mean.

    y = x / (1 - p) with probability 1 - p, else 0, for each element by itself. CudaML's `keep_prob`
    is 1 - p.

    The mask is not stored: the gradient computes it again from the generator's key and counter.
    Element i is kept when Philox word i reaches p 2^32, so the same generator state drops the same
    elements on every device.

    Parameters
    ----------
    x : array of float16, bfloat16, float32 or float64, any shape
        A dropped infinity or NaN becomes 0.
    p : float, default 0.5
        Probability of being dropped, in [0, 1]. 0 returns `x` itself and draws nothing.
    training : bool, default True
        False: returns `x` itself and draws nothing.
    rng : Generator, optional
        Where the mask comes from; by default the generator of `cm.random`. It moves on by one word
        per element.

    Returns
    -------
    ndarray
        Shape and dtype of `x`.

    Raises
    ------
    TypeError
        `x` is not floating-point; `rng` is not a Generator.
    ValueError
        P outside [0, 1].

    Notes
    -----
    Gradient: the same mask and scale on the incoming gradient, of any order.

    References
    ----------
    .. [1] Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting",
       JMLR 2014.

    Examples
    --------
    >>> import cudamath as cm
    >>> y = cm.ml.dropout(cm.ones(1000), 0.25, rng=cm.random.default_rng(1))
    >>> bool(((y == 0) | (abs(y - 4 / 3) < 1e-12)).all()), 200 < int((y == 0).sum()) < 300
    (True, True)
    """
    x = require("dropout", x, FLOATING)
    p = probability("dropout", p)
    if rng is not None and not isinstance(rng, Generator):
        raise TypeError(
            f"dropout: wants rng as a cudamath.random.Generator, got {type(rng).__name__}"
        )
    if not training or p == 0:
        return x
    generator = default_generator() if rng is None else rng
    start = generator._offset
    try:
        counter = generator.take("dropout", -(-x.size // 4), x._layout.device)
        return masked(x, (*counter, max(round(p * (1 << 32)), 1), 1 / (1 - p) if p < 1 else 0.0))
    except BaseException:
        generator.return_to(start)
        raise


def masked(x: ndarray, scalars: tuple) -> ndarray:
    """`x` dropped and scaled; scalars: what `Generator.take` gave (3), threshold, scale."""
    return drawn(_dropout, scalars[:3], scalars[3:], x if x._layout.contiguous else x.copy())


def _rule(g: ndarray, _y: Any, _x: Any, cell: ndarray | None = None, *, scalars: tuple) -> tuple:
    if cell is None:
        return (masked(g, scalars),)
    return masked(g, (cell, *scalars[1:])), None


_dropout = Op("dropout", cpu="dropout.dropout", cuda="random.dropout.dropout", vjp=_rule)
