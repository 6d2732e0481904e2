"""The norm of all gradients together: clipping by it, and the factor by which optimizers clip as
they go."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import optree

from ..core import trees
from ..core.array import ndarray
from ..core.asarray import same_device
from ..core.autograd import mutation
from ..core.devices import CPU
from ..core.dispatch.checks import require
from ..core.dispatch.op import Op
from ..core.dtypes import FLOATING, float64
from ..core.elements import settle
from ..core.layout import Layout
from ..core.scalar import scalar_results
from .softmax import in_order

__all__ = ["clip_factor", "clip_grad_norm"]

Tree = Any

_clip = Op("clip_grad_norm", cpu="optim.clip", cuda="optim.dispatch.clip", outputs=2)
_factor = Op("clip_factor", cpu="optim.clip_factor", cuda="optim.dispatch.factor", outputs=2)


def _leaves(name: str, grads: Tree, max_norm: float) -> tuple[list[ndarray], Any]:
    """The gradients, checked, and their structure."""
    if not isinstance(max_norm, (int, float, np.number)) or isinstance(max_norm, bool):
        raise TypeError(f"{name}: wants max_norm as a number, got {type(max_norm).__name__}")
    if not max_norm >= 0:
        raise ValueError(f"{name}: wants a max_norm >= 0, got {max_norm}")
    leaves, structure = trees.flatten(name, grads)
    if not leaves:
        raise ValueError(f"{name}: wants a tree of arrays, got one without any")
    return [require(name, g, FLOATING) for g in leaves], structure


def norm_and_factor(
    card: Op,
    grads: Tree,
    max_norm: float,
    strict: bool,
    state: tuple[ndarray, ...] = (),
    numbers: tuple[float, ...] = (),
) -> tuple[ndarray, ndarray]:
    """What `clip_factor` returns, or `amp.unscale` (whose state the launch changes)."""
    leaves, _ = _leaves(card.name, grads, max_norm)
    if any(g._node is not None for g in (*leaves, *state)):
        raise ValueError(
            f"{card.name}: not differentiable, but a gradient is being recorded for one of the "
            "arrays; call it "
            "outside the differentiated function, or clip_grad_norm inside"
        )
    leaves = [in_order(g) for g in leaves]
    same_device(card.name, [*leaves, *state])
    for x in state:
        settle(x)
        mutation.wrote(x)
    norm, factor = card(
        *leaves,
        *state,
        scalars=(float(max_norm), *numbers),
        scaling=bool(state),
        strict=bool(strict),
    )
    if strict and norm._layout.device == CPU and not math.isfinite(norm):
        raise FloatingPointError(
            f"{card.name}: the norm of the gradients is not finite (the step was left out), got "
            f"{norm}"
        )
    return factor, norm


@scalar_results
def clip_factor(
    grads: Tree, max_norm: float = math.inf, *, error_if_nonfinite: bool = False
) -> tuple[ndarray, ndarray]:
    """Return the factor that limits the norm of all gradients together, and that norm.

    The product of the factor and the gradients has a norm of at most `max_norm`.

    norm = sqrt(sum of all squares);  factor = min(1, max_norm / (norm + 1e-6)), or NaN where the
    norm is not finite.

    Optimizers take it as `factor=` and multiply as they read the gradients, so that clipping costs
    one pass that reads them, where `clip_grad_norm` reads, scales and writes them.

    Parameters
    ----------
    grads : tree of arrays, float16, bfloat16, float32 or float64
        Only read.
    max_norm : float, default math.inf
        Not negative. Infinite (the default): nothing is clipped, but a step with a gradient that is
        not finite (or whose sum of squares is not) will be skipped.
    error_if_nonfinite : bool, default False
        Raise FloatingPointError in that case: at once on the CPU, at the next synchronising call
        for a GPU.

    Returns
    -------
    (ndarray, ndarray)
        Factor and norm, 0-d, float32 (float64 if a gradient is). Nothing waits for the GPU; two
        launches. Deterministic.

    Raises
    ------
    ValueError
        A negative max_norm, a tree without arrays, or arrays for which a gradient is being
        recorded.
    TypeError
        Leaves that are not floating-point.
    FloatingPointError
        See `error_if_nonfinite`.

    Notes
    -----
    The function is not differentiable.

    Examples
    --------
    >>> import cudamath as cm
    >>> params, grads = [cm.array([1.0, 1.0])], [cm.array([3.0, 4.0])]
    >>> factor, norm = cm.ml.clip_factor(grads, 1.0)
    >>> params, _ = cm.ml.sgd_update(params, grads, lr=1.0, factor=factor)
    >>> float(norm), params[0].round(4).tolist()
    (5.0, [0.4, 0.2])
    """
    return norm_and_factor(_factor, grads, max_norm, error_if_nonfinite)


@scalar_results
def clip_grad_norm(grads: Tree, max_norm: float) -> tuple[Tree, ndarray]:
    """Scale gradients down so that the norm of all of them together is at most `max_norm`.

    norm = sqrt(sum of all squares);  each g *= min(1, max_norm / (norm + 1e-6)), as
    torch.nn.utils.clip_grad_norm_.

    Parameters
    ----------
    grads : tree of arrays, float16, bfloat16, float32 or float64
        Not changed.
    max_norm : float
        Not negative.

    Returns
    -------
    (tree, ndarray)
        The scaled gradients, in new arrays of the same dtypes, and the norm before scaling: 0-d,
        float32 (float64 if a gradient is). Nothing waits for the GPU. A norm that is not finite
        makes every gradient so. Three launches, however many arrays there are. Deterministic. The
        scaled gradients of one dtype share one block of memory.

    Raises
    ------
    ValueError
        A negative max_norm, or a tree without arrays.
    TypeError
        Leaves that are not floating-point.

    Notes
    -----
    Gradient: through the norm as well, of any order; by its parts.

    Examples
    --------
    >>> import cudamath as cm
    >>> clipped, norm = cm.ml.clip_grad_norm([cm.array([3.0]), cm.array([4.0])], 1.0)
    >>> float(norm), [round(float(g[0]), 4) for g in clipped]
    (5.0, [0.6, 0.8])
    """
    name = "clip_grad_norm"
    leaves, structure = _leaves(name, grads, max_norm)
    if any(g._node is not None for g in leaves):
        return _clip_composed(leaves, structure, max_norm)
    leaves = [in_order(g) for g in leaves]
    same_device(name, leaves)
    norm, *results = _clip(*leaves, scalars=(float(max_norm),))
    begins, clipped = dict.fromkeys((r.dtype for r in results), 0), []
    where = {r.dtype: r for r in results}
    for g in leaves:
        layout, result, begin = g._layout, where[g.dtype], begins[g.dtype]
        clipped.append(
            result._view(
                Layout.new(layout.shape, layout.dtype, result._layout.device),
                begin * layout.itemsize,
            )
        )
        begins[g.dtype] = begin + -(-layout.size // 8) * 8
    return optree.tree_unflatten(structure, clipped), norm


def _clip_composed(leaves: list[ndarray], structure: Any, max_norm: float) -> tuple[Tree, ndarray]:
    """The same of public operations, where a gradient is being recorded."""
    compute = "float64" if any(g.dtype == float64 for g in leaves) else "float32"
    total: Any = 0.0
    for g in leaves:
        wide = g.astype(compute)
        total = (wide * wide).sum() + total
    norm = total**0.5
    scale = (max_norm / (norm + 1e-6)).clip(None, 1.0)
    return optree.tree_unflatten(structure, [(g * scale).astype(g.dtype) for g in leaves]), norm
