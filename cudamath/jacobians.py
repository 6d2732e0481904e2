"""Matrices of derivatives: `jacrev`, `jacfwd`, `jacobian`, `hessian`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .autodiff import linearize, vjp
from .autodiff.transforms import positions_of
from .batching import vmap
from .core import trees
from .core.array import ndarray
from .core.asarray import asarray
from .core.dispatch.checks import require_function
from .core.dtypes import FLOATING
from .core.scalar import as_arrays
from .ops.creation import eye, zeros_like
from .ops.shape import reshape

__all__ = ["hessian", "jacfwd", "jacobian", "jacrev"]


class _Call:
    """A call of a function whose derivatives by some arguments are wanted."""

    def __init__(self, name: str, fn: Callable, argnums: Any, args: tuple, kwargs: dict):
        self.name, self.fn, self.args, self.kwargs = name, fn, args, kwargs
        positions, self.several = positions_of(name, argnums)
        count = len(args)
        for position in positions:
            if not -count <= position < count:
                raise ValueError(
                    f"{name}: argnums {position} but the function was called with {count} arguments"
                )
        self.positions = [position % count for position in positions]
        if len(set(self.positions)) < len(self.positions):
            raise ValueError(f"{name}: argnums {argnums} name an argument of {count} twice")
        leaves, self.structure = trees.flatten(name, tuple(args[i] for i in self.positions))
        self.leaves = [x if isinstance(x, ndarray) else asarray(x, name=name) for x in leaves]
        for x in self.leaves:
            self._require_real("an argument", x)

    def _require_real(self, what: str, x: ndarray) -> None:
        if x.dtype not in FLOATING:
            raise TypeError(
                f"{self.name}: wants real floating-point arrays, {what} is {x.dtype} of shape "
                f"{x.shape}"
            )

    def of(self, has_aux: bool) -> Callable:
        """The function of the leaves, which returns (leaves of the result, (their structure,
        aux))."""

        def of_leaves(*leaves: ndarray) -> Any:
            full = list(self.args)
            for i, arg in zip(self.positions, self.structure.unflatten(leaves), strict=True):
                full[i] = arg
            result, aux = self.fn(*full, **self.kwargs), None
            if has_aux:
                if not isinstance(result, tuple) or len(result) != 2:
                    raise TypeError(
                        f"{self.name}: with has_aux the function must return a pair (result, aux), "
                        f"got {type(result).__name__}"
                    )
                result, aux = result
            outputs, form = trees.flatten(self.name, result)
            outputs = as_arrays(f"{self.name}: the function", outputs)
            for y in outputs:
                self._require_real("a result", y)
            return outputs, (form, aux)

        return of_leaves

    def tree(self, form: Any, matrix: list[list[ndarray]]) -> Any:
        """The blocks, by result and argument, as a tree like the result of trees like the
        arguments."""
        rows = []
        for blocks in matrix:
            trees_of_args = self.structure.unflatten(blocks)
            rows.append(trees_of_args if self.several else trees_of_args[0])
        return form.unflatten(rows)


def _for_units(linear: Callable, given: list[ndarray], place: int, axis: int) -> list[Any]:
    """The results of a linear function of arrays like those that are given, for each element of
    one of them: 1 there and 0 elsewhere. All at once, along an axis of the results."""
    zeros = [zeros_like(x) for x in given]
    x = given[place]
    units = reshape(eye(x.size, dtype=x.dtype, device=x.device), (x.size, *x.shape))

    def of(unit: ndarray) -> list[ndarray]:
        return linear([*zeros[:place], unit, *zeros[place + 1 :]])

    return vmap(of, out_axes=axis)(units)


def jacrev(fn: Callable, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable:
    """Return a function that computes the Jacobian of `fn`, row by row.

    The block of a result y and an argument x has the shape y.shape + x.shape; its element
    [i, j] is the derivative of y[i] by x[j].

    Parameters
    ----------
    fn : callable
        Returns a real floating-point array, or a tree of such arrays.
    argnums : int or sequence of int, default 0
        Positions of the arguments by which is differentiated; real floating-point arrays or trees
        of such.
    has_aux : bool, default False
        Whether `fn` returns a pair: the result, and anything else.

    Returns
    -------
    callable
        Function with fn's arguments. The Jacobian is a tree like the result whose leaves are trees
        like the argument; with several `argnums`, tuples of these. With `has_aux` it returns
        `(jacobian, aux)`.

    Raises
    ------
    TypeError
        `fn` is not a function, or an argument or a result is no real floating-point array.
    ValueError
        `argnums` name no argument, or one twice.

    Notes
    -----
    One gradient is taken for each element of the result, of all of them at once (`vmap`): the way
    for functions of many numbers with few results. It composes with `grad`, `jvp`, `jacfwd` and
    itself. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.jacrev(lambda x: cm.stack([x.sum(), (x * x).sum()]))(cm.array([1.0, 2.0])).tolist()
    [[1.0, 1.0], [2.0, 4.0]]
    """
    return _jacrev("jacrev", fn, argnums, has_aux)


def _jacrev(name: str, fn: Callable, argnums: Any, has_aux: bool) -> Callable:
    require_function(name, fn)

    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        call = _Call(name, fn, argnums, args, kwargs)
        outputs, pull, (form, aux) = vjp(call.of(has_aux), *call.leaves, has_aux=True)
        outputs = as_arrays(name, outputs)
        matrix = [
            [
                reshape(rows, (*y.shape, *x.shape))
                for rows, x in zip(_for_units(pull, outputs, place, 0), call.leaves, strict=True)
            ]
            for place, y in enumerate(outputs)
        ]
        result = call.tree(form, matrix)
        return (result, aux) if has_aux else result

    return functools.update_wrapper(jacobian_of, fn)


def jacfwd(fn: Callable, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable:
    """Return a function that computes the Jacobian of `fn`, column by column.

    See `jacrev`, which gives the same and takes a gradient for each element of the result; here it
    is a derivative in the direction of each element of the arguments.

    Parameters
    ----------
    fn : callable
        Returns a real floating-point array, or a tree of such arrays.
    argnums : int or sequence of int, default 0
        Positions of the arguments by which is differentiated; real floating-point arrays or trees
        of such.
    has_aux : bool, default False
        Whether `fn` returns a pair: the result, and anything else.

    Returns
    -------
    callable
        Function with fn's arguments. The Jacobian is a tree like the result whose leaves are trees
        like the argument; with several `argnums`, tuples of these. With `has_aux` it returns
        `(jacobian, aux)`.

    Raises
    ------
    TypeError
        `fn` is not a function, or an argument or a result is no real floating-point array.
    ValueError
        `argnums` name no argument, or one twice.

    Notes
    -----
    The way for functions of few numbers with many results. It composes with `grad`, `jvp`,
    `jacrev` and itself. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.jacfwd(lambda t: cm.stack([t, t * t]))(cm.array(3.0)).tolist()
    [1.0, 6.0]
    """
    require_function("jacfwd", fn)

    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        call = _Call("jacfwd", fn, argnums, args, kwargs)
        of = call.of(has_aux)
        aside: list[tuple] = []

        def results(*leaves: ndarray) -> list[ndarray]:
            outputs, rest = of(*leaves)
            aside[:] = [rest]
            return outputs

        outputs, push = linearize(results, *call.leaves)
        outputs = as_arrays("jacfwd", outputs)
        columns = [  # by argument and result
            [
                reshape(column, (*y.shape, *x.shape))
                for column, y in zip(
                    _for_units(lambda units: push(*units), call.leaves, place, -1),
                    outputs,
                    strict=True,
                )
            ]
            for place, x in enumerate(call.leaves)
        ]
        form, aux = aside[0]
        result = call.tree(form, [[column[i] for column in columns] for i in range(len(outputs))])
        return (result, aux) if has_aux else result

    return functools.update_wrapper(jacobian_of, fn)


def jacobian(fn: Callable, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable:
    """Return a function that computes the Jacobian of `fn`: `jacrev`, by JAX's other name.

    Parameters
    ----------
    fn : callable
        Returns a real floating-point array, or a tree of such arrays.
    argnums : int or sequence of int, default 0
        Positions of the arguments by which is differentiated.
    has_aux : bool, default False
        Whether `fn` returns a pair: the result, and anything else.

    Returns
    -------
    callable
        Function with fn's arguments; see `jacrev`.

    Raises
    ------
    TypeError
        `fn` is not a function, or an argument or a result is no real floating-point array.
    ValueError
        `argnums` name no argument, or one twice.

    Notes
    -----
    One gradient is taken for each element of the result. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.jacobian(lambda x, a: a * x, 1)(cm.array([1.0, 2.0]), cm.array(3.0)).tolist()
    [1.0, 2.0]
    """
    return _jacrev("jacobian", fn, argnums, has_aux)


def hessian(fn: Callable, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable:
    """Return a function that computes the Hessian of `fn`, its second derivatives.

    The block of arguments x and z has the shape x.shape + z.shape, behind that of the result.

    Parameters
    ----------
    fn : callable
        Returns a real floating-point array, or a tree of such arrays; often one number.
    argnums : int or sequence of int, default 0
        Positions of the arguments by which is differentiated; real floating-point arrays or trees
        of such.
    has_aux : bool, default False
        Whether `fn` returns a pair: the result, and anything else.

    Returns
    -------
    callable
        Function with fn's arguments. The Hessian is a tree like the Jacobian whose leaves are
        trees like the argument. With `has_aux` it returns `(hessian, aux)`.

    Raises
    ------
    TypeError
        `fn` is not a function, or an argument or a result is no real floating-point array.
    ValueError
        `argnums` name no argument, or one twice.

    Notes
    -----
    The gradient is taken once, and differentiated in the directions of all elements of the
    arguments at once (`vmap`). The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.hessian(lambda x: (x ** 3).sum())(cm.array([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    require_function("hessian", fn)
    return jacfwd(_jacrev("hessian", fn, argnums, has_aux), argnums, has_aux=has_aux)
