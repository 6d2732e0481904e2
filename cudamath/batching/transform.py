"""`vmap`: what a function computes for one example, for a whole batch at once."""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from ..core import batched, trees
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.dispatch.checks import require_function
from ..core.shapes import normalize_axis
from ..ops.shape import broadcast_to, moveaxis
from ..runtime.errors import shown_as

__all__ = ["vmap"]

#: The files of rules. A program without vmap does not import them.
_FILES = (
    "compositions indexing layers losses products sampling sparse table training vectors".split()
)


def vmap(
    fn: Callable, in_axes: Any = 0, out_axes: Any = 0, *, axis_size: int | None = None
) -> Callable:
    """Return a function that maps `fn` over an axis of its arguments: `fn` for a whole batch.

    What it returns is ``stack([fn(x[0]), fn(x[1]), ...])``, but `fn` is called once, with arrays
    that stand for one example, and each operation runs once for all examples.

    Parameters
    ----------
    fn : callable
        Function of arrays or trees of arrays, that returns such.
    in_axes : int, None or a tree of these, default 0
        The axis of the arguments that is the batch; None for an argument that all calls share. A
        tuple has an entry for each argument; an entry may be a tree like the beginning of the
        argument. Negative axes count from the end. Keyword arguments are mapped over axis 0.
    out_axes : int, None or a tree of these, default 0
        Where the batch goes in the results; None for a result that is the same for all calls,
        which is then returned once.
    axis_size : int, optional
        The length of the batch. Needed where no argument is mapped.

    Returns
    -------
    callable
        Function with fn's arguments, whose arrays have an axis more.

    Raises
    ------
    TypeError
        `fn` is not a function, a mapped argument or a result is no array, or `fn` asks for values
        that differ from call to call (`if x > 0`, `float(x)`): write `cm.where`.
    ValueError
        The batches of the arguments differ in length, an axis does not exist, `in_axes` or
        `out_axes` does not fit, or a result that differs from call to call has None in `out_axes`.

    Notes
    -----
    It composes with `grad`, `vjp`, `jvp`, `jit`, `fuse` and itself. `vmap(grad(loss), (None, 0))`
    gives the gradient of each sample.

    - Arrays that `fn` makes (`zeros`, `arange`) are the same for all calls until elements that
      differ are written into them. Writing such into an array from outside raises ValueError.
    - Random numbers differ from call to call. A draw of shape `s` inside is one draw of shape
      ``(batch, *s)``.
    - A jitted or fused function inside becomes a part of what surrounds it; ``jit(vmap(fn))`` is
      one program. `cond` with a condition that differs computes both branches.
    - Where the shape of a result depends on values (`nonzero`, ``x[mask]``, `unique`), the calls'
      results have no common shape: TypeError.

    The gradient follows from those of the operations inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> a, b = cm.arange(6.0).reshape(2, 3), cm.ones((2, 3))
    >>> cm.vmap(cm.dot)(a, b).tolist()
    [3.0, 12.0]
    >>> cm.vmap(cm.grad(lambda w, x: (w * x).sum() ** 2), (None, 0))(cm.ones(3), a).shape
    (2, 3)
    """
    require_function("vmap", fn)
    if axis_size is not None:
        axis_size = operator.index(axis_size)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        load_rules()
        leaves, structure = _flatten((args, kwargs))
        axes = _axes_of_arguments(in_axes, args, kwargs)
        arrays = [
            x if axis is None else _mapped(x, axis, path)
            for x, axis, path in zip(leaves, axes, structure.paths(), strict=True)
        ]
        size = _size(arrays, axes, structure.paths(), axis_size)
        with batched.Frame(size) as frame:
            inputs: list[Any] = []
            for x, axis in zip(arrays, axes, strict=True):
                if axis is None:
                    inputs.append(x)
                    continue
                with batched.Outside(frame):
                    front = moveaxis(x, normalize_axis("vmap", axis, x.ndim), 0)
                inputs.append(frame.mapped(front))
            given, options = structure.unflatten(inputs)
            result = fn(*given, **options)
        outputs, form = _flatten(result)
        places = _spread("out_axes", out_axes, result)
        taken = [x for x in arrays if isinstance(x, ndarray)]
        return form.unflatten(
            [
                _outward(frame, y, axis, path, taken)
                for y, axis, path in zip(outputs, places, form.paths(), strict=True)
            ]
        )

    return functools.update_wrapper(shown_as("vmap", mapped), fn)


@functools.cache
def load_rules() -> None:
    """Import the rules, once: they enter themselves in a table."""
    for name in _FILES:
        importlib.import_module(f"cudamath.batching.{name}")


def _flatten(tree: Any) -> tuple[list[Any], Any]:
    try:
        return optree.tree_flatten(tree, none_is_leaf=True)
    except RecursionError:
        raise trees.too_deep("vmap") from None


def _spread(what: str, axes: Any, tree: Any) -> list[int | None]:
    """An axis for each leaf of a tree, by a tree of axes that is like its beginning."""
    try:
        spread = optree.broadcast_prefix(axes, tree, none_is_leaf=True)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"vmap: {what} {axes!r} does not fit the structure of the "
            f"{'arguments' if what == 'in_axes' else 'result'}: {error}"
        ) from None
    return [None if axis is None else _axis(what, axis) for axis in spread]


def _axis(what: str, axis: Any) -> int:
    if isinstance(axis, (bool, np.bool_)):
        axis = None
    try:
        return operator.index(axis)
    except TypeError:
        raise TypeError(f"vmap: {what} wants integers and None, got {axis!r}") from None


def _axes_of_arguments(in_axes: Any, args: tuple, kwargs: dict) -> list[int | None]:
    if isinstance(in_axes, tuple) and len(in_axes) != len(args):
        raise ValueError(
            f"vmap: in_axes has {len(in_axes)} entries, but the function was called with "
            f"{len(args)} arguments"
        )
    return _spread("in_axes", in_axes, args) + _spread("in_axes", 0, kwargs)


def _named(path: tuple) -> str:
    """An argument in words: its place in (args, kwargs)."""
    kind, which, *rest = path
    name = f"argument {which}" if kind == 0 else f"{which}="
    return name + "".join([f"[{part!r}]" for part in rest])


def _mapped(x: Any, axis: int, path: tuple) -> ndarray:
    if not isinstance(x, ndarray):
        try:
            x = asarray(x, name="vmap")
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"vmap: {_named(path)} is mapped over axis {axis} but is no array: {error}; give "
                "it None in in_axes if all calls share it"
            ) from None
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(
            f"vmap: {_named(path)} of shape {x.shape} has no axis {axis}; give it None in in_axes "
            "if all calls share it"
        )
    return x


def _size(arrays: list[Any], axes: list[int | None], paths: list, wanted: int | None) -> int:
    found = [
        (x.shape[axis], x, axis, path)
        for x, axis, path in zip(arrays, axes, paths, strict=True)
        if axis is not None
    ]
    sizes = {n for n, *_ in found} | ({wanted} if wanted is not None else set())
    if len(sizes) == 1:
        return sizes.pop()
    if not sizes:
        raise ValueError(
            "vmap: nothing is mapped, so the length of the batch is unknown; give axis_size"
        )
    told = ", ".join(
        [f"{_named(path)} of shape {x.shape}: {n} along axis {axis}" for n, x, axis, path in found]
    )
    raise ValueError(
        f"vmap: the batches differ in length: {told}"
        + ("" if wanted is None else f", axis_size: {wanted}")
    )


def _outward(frame: batched.Frame, y: Any, axis: int | None, path: tuple, taken: list) -> Any:
    """A result of the mapped function as its caller gets it. It shares no memory with arguments,
    as `stack` would not."""
    if not isinstance(y, ndarray):
        try:
            y = asarray(y, name="vmap")
        except (TypeError, ValueError):
            place = "".join([f"[{part!r}]" for part in path])
            raise TypeError(
                f"vmap: the function must return arrays, got {type(y).__name__}"
                + (f" at {place}" if place else "")
            ) from None
    differs = frame.differs(y)
    if axis is None:
        if differs:
            raise ValueError(
                f"vmap: out_axes is None for a result of shape {y.shape} that differs from call to "
                "call"
            )
        return frame.one(y)
    if not -y.ndim - 1 <= axis <= y.ndim:
        raise ValueError(
            f"vmap: out_axes {axis} is out of bounds for a result of shape {y.shape}, which has "
            f"{y.ndim + 1} axes with the batch"
        )
    axis %= y.ndim + 1
    if differs:
        whole = frame.all(y)
        fresh = whole._base is None and not any([whole._data is x._data for x in taken])
        if whole._node is None and fresh or whole._node is not None and whole._layout.separate:
            return moveaxis(whole, 0, axis)
        return moveaxis(whole, 0, axis).copy()
    own = frame.one(y)
    wide = own.reshape(*y.shape[:axis], 1, *y.shape[axis:])
    return broadcast_to(wide, (*y.shape[:axis], frame.size, *y.shape[axis:])).copy()
