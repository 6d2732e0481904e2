"""Gradients of functions of arrays.

`grad` and `value_and_grad` differentiate a function that returns one number; `vjp` gives the function that turns a
gradient of the result into gradients of the arguments. Arguments may be trees (dicts, lists, tuples) of arrays, and
all three compose: `grad(grad(f))` is a second derivative.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, cast

import optree

from .core import tape
from .core.array import asarray, ndarray
from .core.dtypes import FLOATING, INEXACT

__all__ = ["grad", "stop_gradient", "value_and_grad", "vjp"]


def _leaves(name: str, tree: Any) -> tuple[list[Any], Any]:
    """Array leaves of an argument, and its structure. Numbers and NumPy arrays become ndarrays."""
    leaves, structure = optree.tree_flatten(tree)
    arrays = []
    for leaf in leaves:
        x = leaf if isinstance(leaf, ndarray) else asarray(leaf, name=name)
        if x.dtype not in INEXACT:
            raise TypeError(f"{name}: gradients are taken with respect to floating-point or complex arrays, got {x.dtype} "
                            f"of shape {x.shape}")
        arrays.append(x)
    return arrays, structure


class _Level:
    """Everything inside is recorded; nested levels are counted so that only the outermost gradient runs unrecorded."""

    def __enter__(self) -> None:
        self.paused = tape.state.paused
        tape.state.depth += 1
        tape.state.paused = False

    def __exit__(self, *exc: object) -> None:
        tape.state.depth -= 1
        tape.state.paused = self.paused


def _pull(roots: list, wanted: list, *, release: bool) -> list:
    """Gradients at the wanted leaves; recorded themselves if a gradient around this one is being taken."""
    outermost = tape.state.depth == 0
    if outermost:
        with tape.paused():
            return tape.backward(roots, wanted, release=release)
    return tape.backward(roots, wanted, release=False)


def _zeros(g: Any, x: ndarray) -> ndarray:
    from .ops.creation import zeros_like

    return zeros_like(x) if g is None else g


def value_and_grad(fn: Callable, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable:
    """A function that returns `(fn(...), gradient)`.

    Parameters
    ----------
    fn : callable
        Returns one real floating-point number (shape ()); with `has_aux`, a pair of it and anything else.
    argnums : int or sequence of int
        Positions of the arguments to differentiate: trees of floating-point arrays. A sequence gives a tuple.
    has_aux : bool
        `fn` returns `(value, aux)`; so then does the result: `((value, aux), gradient)`.

    Returns
    -------
    callable
        Gradients have the structure, shapes and dtypes of the arguments.

    Raises
    ------
    TypeError
        The result is no single floating-point number, or an argument holds integers.

    Examples
    --------
    >>> import cudamath as cm
    >>> value, gradient = cm.value_and_grad(lambda w: (w["a"] ** 2).sum())({"a": cm.array([1.0, 2.0])})
    >>> float(value), gradient["a"].tolist()
    (5.0, [2.0, 4.0])
    """
    several = not isinstance(argnums, int)
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        flattened = {}
        for position in positions:
            if not -len(args) <= position < len(args):
                raise ValueError(f"grad: argnums {position} but the function was called with {len(args)} arguments")
            flattened[position % len(args)] = _leaves("grad", args[position])
        marked, new = [], list(args)
        with _Level():
            for position, (arrays, structure) in flattened.items():
                leaves = [tape.leaf(x) for x in arrays]
                marked.append(leaves)
                new[position] = structure.unflatten(leaves)
            result = fn(*new, **kwargs)
        value, aux = result if has_aux else (result, None)
        if not isinstance(value, ndarray) or value.size != 1 or value.dtype not in FLOATING:
            seen = f"{value.dtype} of shape {value.shape}" if isinstance(value, ndarray) else type(value).__name__
            raise TypeError(f"grad: the function must return one real floating-point number, got {seen}")
        wanted = [leaf._node for leaves in marked for leaf in leaves]
        gradients: list = [None] * len(wanted)
        if value._node is not None and wanted:
            from .ops.creation import ones_like

            gradients = _pull([(value._node, ones_like(value._alias()))], wanted, release=True)
        trees, at = [], 0
        for (arrays, structure), leaves in zip(flattened.values(), marked, strict=True):
            part = gradients[at:at + len(leaves)]
            at += len(leaves)
            trees.append(structure.unflatten([_zeros(g, x) for g, x in zip(part, arrays, strict=True)]))
        inner = tape.state.depth > 0
        value = value if inner else value._alias()
        if has_aux and not inner:
            aux = optree.tree_map(lambda a: a._alias() if isinstance(a, ndarray) else a, cast(Any, aux))
        return ((value, aux) if has_aux else value), (tuple(trees) if several else trees[0])

    return wrapped


def grad(fn: Callable, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable:
    """A function that returns the gradient of `fn` (see `value_and_grad`); with `has_aux`, `(gradient, aux)`.

    >>> import cudamath as cm
    >>> cm.grad(lambda x: x ** 3)(2.0).item()
    12.0
    >>> cm.grad(cm.grad(lambda x: x ** 3))(2.0).item()
    12.0
    """
    both = value_and_grad(fn, argnums, has_aux=has_aux)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def vjp(fn: Callable, *primals: Any) -> tuple[Any, Callable]:
    """`(fn(*primals), pull)`: `pull(g)` gives the gradients of <g, fn(*primals)> by the primals, as often as called.

    `fn` may return any tree of arrays; `g` has its structure, shapes and dtypes. Primals are trees of floating-point
    arrays. ValueError where g does not fit the result.

    >>> import cudamath as cm
    >>> y, pull = cm.vjp(lambda x: x * x, cm.array([1.0, 2.0]))
    >>> pull(cm.array([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    flattened = [_leaves("vjp", primal) for primal in primals]
    with _Level():
        marked = [[tape.leaf(x) for x in arrays] for arrays, _ in flattened]
        result = fn(*[s.unflatten(leaves) for (_, s), leaves in zip(flattened, marked, strict=True)])
    outputs, structure = optree.tree_flatten(result)
    for y in outputs:
        if not isinstance(y, ndarray):
            raise TypeError(f"vjp: the function must return arrays, got {type(y).__name__}")

    def pull(g: Any) -> tuple:
        given, shape_of_g = optree.tree_flatten(g)
        if shape_of_g != structure:
            raise ValueError(f"vjp: the gradient has structure {shape_of_g}, the result {structure}")
        roots = []
        for y, each in zip(outputs, given, strict=True):
            each = each if isinstance(each, ndarray) else asarray(each, dtype=y.dtype, device=y.device, name="vjp")
            if each.shape != y.shape or each.dtype != y.dtype:
                raise ValueError(f"vjp: the gradient must be {y.dtype} of shape {y.shape} like the result, got {each.dtype} "
                                 f"of shape {each.shape}")
            if y._node is not None:
                roots.append((y._node, each))
        wanted = [leaf._node for leaves in marked for leaf in leaves]
        gradients = _pull(roots, wanted, release=False) if roots and wanted else [None] * len(wanted)
        out, at = [], 0
        for arrays, s in flattened:
            out.append(s.unflatten([_zeros(d, x) for d, x in zip(gradients[at:at + len(arrays)], arrays, strict=True)]))
            at += len(arrays)
        return tuple(out)

    values = outputs if tape.state.depth > 0 else [y._alias() for y in outputs]
    return structure.unflatten(values), pull


def stop_gradient(x: ndarray) -> ndarray:
    """The same values as a constant: nothing is differentiated through it.

    >>> import cudamath as cm
    >>> cm.grad(lambda x: x * cm.stop_gradient(x))(3.0).item()
    3.0
    """
    return x._alias()
