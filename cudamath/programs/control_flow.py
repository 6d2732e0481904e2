"""Control flow by values: `scan`, `cond`, `while_loop`, `fori_loop`.

Called as they are, they are Python's loops and conditions, and gradients go through their steps as
through any others. In a function that `jit` traces, the function that they are given is traced
once, whatever the number of steps, and each call is one node of the program (loops.py).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from ..autodiff.transforms import stop_gradient
from ..core import trees
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.batched import frames
from ..core.dispatch.call_record import open_records, traced
from ..core.dispatch.checks import require_function
from ..core.scalar import NUMPY_SCALARS, Scalar, inside, scalar
from ..core.typing import Tree
from ..ops.ranges import arange
from .batches import any_call, branched, chosen, differs, looped, one_by_one, repeated
from .loops import branch

__all__ = ["cond", "fori_loop", "scan", "while_loop"]


def scan(
    f: Callable, init: Tree, xs: Tree = None, *, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Apply a function to one row after the other, and carry a state from each to the next.

    It is this loop:

        carry, ys = init, []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, stack(ys)

    Parameters
    ----------
    f : callable
        `f(carry, x) -> (carry, y)`. The carry keeps its structure, shapes and dtypes; `y` is any
        tree of arrays, None too.
    init : tree
        The first carry. Numbers become arrays.
    xs : tree, optional
        Arrays of equally many rows (x[0], x[1], ...), of which each step gets one. None if `length`
        says how many steps there are.
    length : int, optional
        Number of steps. The default is the number of rows.
    reverse : bool, default False
        Whether the last row comes first. `ys` are in the order of `xs` all the same.

    Returns
    -------
    (carry, ys)
        The last carry, and what the steps gave, stacked along a new first axis.

    Raises
    ------
    TypeError
        `f` is not a function or does not return a pair; the carry changes its dtype; a leaf is no
        array.
    ValueError
        There are no steps, or not as many rows in each array; the carry changes its structure or a
        shape.
    TraceError
        Inside of `jit`: `f` writes into arrays that it did not make, or draws random numbers while
        a gradient is recorded.

    Notes
    -----
    Gradient: of any order, with respect to `init`, `xs`, and what `f` closes over; `jvp` too.

    Values without dimensions reach `f` as scalars. Inside of `jit` all arrays that it gets and
    returns are in C order.

    Inside of `jit`, `f` is traced once, and its program runs so many times. It is simplified and
    fused as any program, and all steps are part of one CUDA graph: one launch by the host. Each
    step launches the kernels of its own, though; steps do not become one kernel. On a GPU, products
    of a row with a matrix that all steps share are one product before the loop, and the gradient of
    such a matrix is one product after it. For a gradient the program keeps what went into each
    step, and runs the step once more.

    Examples
    --------
    >>> import cudamath as cm
    >>> total, sums = cm.scan(lambda c, x: (c + x, c + x), 0.0, cm.array([1.0, 2.0, 3.0]))
    >>> float(total), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    >>> cm.grad(lambda a: cm.scan(lambda c, _: (a * c, None), 1.0, length=3)[0])(2.0).item()
    12.0
    """
    require_function("scan", f)
    return _scan("scan", f, init, xs, length, reverse)


def _scan(
    name: str, f: Callable, init: Any, xs: Any, length: int | None, reverse: bool
) -> tuple[Any, Any]:
    """`scan` for the function of this name."""
    (carry, structure), (rows, form) = _arrays(name, init, xs)
    steps, count = _length(name, rows, length), len(carry)
    of_ys: list[Any] = [None]

    def step(arrays: list[ndarray]) -> list[ndarray]:
        result = f(
            structure.unflatten(list(map(_for_user, arrays[:count]))),
            form.unflatten(list(map(_for_user, arrays[count:]))),
        )
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(
                f"{name}: the function must return a pair (carry, y), got "
                f"{type(result).__name__}"
                + (f" of {len(result)}" if isinstance(result, tuple) else "")
            )
        ys, of_ys[0] = _results(name, result[1])
        return [*_next(name, result[0], structure, carry), *ys]

    if open_records and traced():
        out = looped(name, step, carry, rows, steps, bool(reverse))
    else:
        out = one_by_one(step, carry, rows, steps, bool(reverse))
    return (
        structure.unflatten(list(map(_for_user, out[:count]))),
        of_ys[0].unflatten(out[count:]),
    )


def cond(pred: Any, true_fn: Callable, false_fn: Callable, *operands: Any) -> Any:
    """Call one of two functions, by a truth value.

    Parameters
    ----------
    pred : bool, number or array of shape ()
        Which of them.
    true_fn, false_fn : callable
        Functions of the operands that return trees of arrays. Inside of `jit` both must return the
        same structure, shapes and dtypes.
    *operands : trees
        The arguments.

    Returns
    -------
    tree
        What the function returned. Numbers in it become scalars.

    Raises
    ------
    TypeError
        A function is not callable or returns something other than arrays; inside of `jit`, the two
        return other dtypes or shapes.
    ValueError
        `pred` has more than one element; inside of `jit`, the two return other structures.
    TraceError
        Inside of `jit`: a function writes into arrays that it did not make, or draws random
        numbers.

    Notes
    -----
    Gradient: that of the function that was called, of any order, with respect to the operands and
    what the function closes over. What the other one would give does not matter, not even an
    infinity.

    Outside of `jit` a GPU's truth value is read, which waits. Inside, a GPU runs both functions and
    chooses from their results, because a CUDA graph always runs the same kernels; a CPU runs one.
    The results are in C order then.

    Examples
    --------
    >>> import cudamath as cm
    >>> root = cm.jit(lambda x: cm.cond(x > 0, cm.sqrt, lambda x: 0 * x, x))
    >>> float(root(cm.asarray(4.0))), float(root(cm.asarray(-4.0)))
    (2.0, -0.0)
    """
    for what, function in (("true_fn", true_fn), ("false_fn", false_fn)):
        require_function("cond", function, f"a function as {what}")
    if isinstance(pred, ndarray) and (differs(pred) or open_records and traced() and frames()):
        return _chosen("cond", _condition("cond", pred), true_fn, false_fn, operands)
    if not (open_records and traced() and isinstance(pred, ndarray)):
        chosen_fn = true_fn if _truth("cond", pred) else false_fn
        results, form = _results("cond", chosen_fn(*operands))
        return form.unflatten(list(map(_for_user, results)))
    return _cond("cond", _condition("cond", pred), true_fn, false_fn, operands)


def _chosen(
    name: str, pred: ndarray, true_fn: Callable, false_fn: Callable, operands: tuple
) -> Any:
    """`cond` where the condition differs from call to call of `vmap`, for the function of this
    name."""
    (one, form), (other, form_of_other) = (
        _results(name, function(*operands)) for function in (true_fn, false_fn)
    )
    _alike(name, form, form_of_other)
    return form.unflatten(list(map(_for_user, chosen(pred, one, other))))


def _alike(name: str, one: Any, other: Any) -> None:
    if one != other:
        raise ValueError(
            f"{name}: both functions must return the same structure, got {one} and {other}"
        )


def _cond(name: str, pred: ndarray, true_fn: Callable, false_fn: Callable, operands: tuple) -> Any:
    """`cond` inside of `jit`, for the function of this name."""
    leaves, structure = trees.flatten(name, operands)
    places = [i for i, x in enumerate(leaves) if isinstance(x, ndarray)]
    forms: dict[Callable, Any] = {}

    def flat(function: Callable) -> Callable[[list[ndarray]], list[ndarray]]:
        def called(arrays: list[ndarray]) -> list[ndarray]:
            full = list(leaves)
            for i, x in zip(places, arrays, strict=True):
                full[i] = _for_user(x) if isinstance(leaves[i], Scalar) else x
            results, forms[called] = _results(name, function(*structure.unflatten(full)))
            return results

        return called

    true, false = flat(true_fn), flat(false_fn)
    out = branch(name, pred, true, false, [leaves[i] for i in places])
    _alike(name, forms[true], forms[false])
    return forms[true].unflatten(list(map(_for_user, out)))


def while_loop(
    cond_fun: Callable, body_fun: Callable, init: Tree, *, max_steps: int | None = None
) -> Any:
    """Repeat a function while a condition holds.

    It is this loop:

        while cond_fun(carry):
            carry = body_fun(carry)
        return carry

    Parameters
    ----------
    cond_fun : callable
        `cond_fun(carry)` -> a truth value.
    body_fun : callable
        `body_fun(carry)` -> the next carry, of the same structure, shapes and dtypes.
    init : tree
        The first carry. Numbers become arrays.
    max_steps : int, optional
        The loop ends after so many steps at the latest. The default is no bound.

    Returns
    -------
    tree
        The last carry.

    Raises
    ------
    TypeError
        A function is not callable; the carry changes its dtype; a leaf is no array.
    ValueError
        The carry changes its structure or a shape; `max_steps` is negative.
    TraceError
        Inside of `jit`: a gradient is recorded and `max_steps` is missing, or a function writes
        into arrays that it did not make.

    Notes
    -----
    Gradient: that of the steps that were taken, of any order, with respect to `init` and what the
    functions close over. Inside of `jit` it needs `max_steps`.

    Outside of `jit` the truth value is read at each step, which waits for a GPU. So it is inside,
    too, without `max_steps`: the program of a GPU is no CUDA graph then. With it the program takes
    `max_steps` steps of `cond`: on a GPU all of them run, and those after the last are not used.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.while_loop(lambda x: x < 100, lambda x: x * 3, 1.0))
    243.0
    >>> f = lambda x: cm.while_loop(lambda x: x < 100, lambda x: x * 3, x, max_steps=9)
    >>> cm.grad(cm.jit(f))(1.0).item()
    243.0
    """
    for what, function in (("cond_fun", cond_fun), ("body_fun", body_fun)):
        require_function("while_loop", function, f"a function as {what}")
    if max_steps is not None and operator.index(max_steps) < 0:
        raise ValueError(f"while_loop: max_steps must not be negative, got {max_steps}")
    return _while("while_loop", cond_fun, body_fun, init, max_steps)


def _while(
    name: str, cond_fun: Callable, body_fun: Callable, init: Any, max_steps: int | None
) -> Any:
    """`while_loop` for the function of this name."""
    ((carry, structure),) = _arrays(name, init)

    def for_user(arrays: list[ndarray]) -> Any:
        return structure.unflatten(list(map(_for_user, arrays)))

    def step(arrays: list[ndarray]) -> list[ndarray]:
        return _next(name, body_fun(for_user(arrays)), structure, carry)

    if not (open_records and traced()):
        steps = 0
        while steps != max_steps:
            condition = cond_fun(for_user(carry))
            if not _truth(name, any_call(condition)):
                break
            following, steps = step(carry), steps + 1
            if differs(condition):  # the calls that have ended keep their carry
                following = chosen(_condition(name, condition), following, carry)
            carry = following
        return for_user(carry)
    if max_steps is None:
        return for_user(
            repeated(
                name,
                lambda arrays: [_condition(name, cond_fun(for_user(arrays)))],
                step,
                carry,
            )
        )
    if max_steps == 0:
        return for_user(carry)

    def bounded(arrays: list[ndarray]) -> list[ndarray]:
        condition = _condition(name, cond_fun(for_user(arrays)))
        return branched(name, condition, step, lambda arrays: arrays, arrays)

    return for_user(looped(name, bounded, carry, [], max_steps, False))


def fori_loop(lower: Any, upper: Any, body_fun: Callable, init: Tree) -> Any:
    """Repeat a function for the numbers from `lower` up to, but not including, `upper`.

    It is this loop:

        for i in range(lower, upper):
            carry = body_fun(i, carry)
        return carry

    Parameters
    ----------
    lower, upper : int or ndarray
        The range. An array is of integers, and of shape ().
    body_fun : callable
        `body_fun(i, carry)` -> the next carry, of the same structure, shapes and dtypes. `i` is an
        integer scalar.
    init : tree
        The first carry. Numbers become arrays.

    Returns
    -------
    tree
        The last carry.

    Raises
    ------
    TypeError
        `body_fun` is not callable, a bound is no integer, the carry changes its dtype, or a leaf is
        no array.
    ValueError
        The carry changes its structure or a shape.
    TraceError
        Inside of `jit`, as `scan` and `while_loop`.

    Notes
    -----
    Gradient: of any order, with respect to `init` and what the function closes over. With bounds
    that are Python integers it is `scan`; with arrays `while_loop`, which has no gradient inside of
    `jit`.

    Examples
    --------
    >>> import cudamath as cm
    >>> float(cm.fori_loop(1, 6, lambda i, c: c * i, 1.0))
    120.0
    """
    require_function("fori_loop", body_fun)
    bounds = [_bound(what, x) for what, x in (("lower", lower), ("upper", upper))]
    if not any([isinstance(x, ndarray) for x in bounds]):
        ((carry, structure),) = _arrays("fori_loop", init)
        if bounds[0] >= bounds[1]:
            return structure.unflatten(list(map(_for_user, carry)))
        device = carry[0].device if carry else None
        rows = arange(bounds[0], bounds[1], dtype="int64", device=device)
        return _scan(
            "fori_loop", lambda c, i: (body_fun(i, c), None), init, rows, len(rows), False
        )[0]
    begin, end = bounds
    return _while(
        "fori_loop",
        lambda state: state[0] < end,
        lambda state: (state[0] + 1, body_fun(*state)),
        (
            asarray(
                begin, dtype="int64", device=None if isinstance(begin, ndarray) else end.device
            ),
            init,
        ),
        None,
    )[1]


# -------------------- arguments and results


def _arrays(name: str, *arguments: Any) -> list[tuple[list[ndarray], Any]]:
    """Of each tree its leaves as arrays, all on the device of the first array, and its
    structure."""
    flat = [trees.flatten(name, tree) for tree in arguments]
    device = next((x.device for leaves, _ in flat for x in leaves if isinstance(x, ndarray)), None)
    return [([_array(name, x, device) for x in leaves], form) for leaves, form in flat]


def _array(name: str, leaf: Any, device: Any = None) -> ndarray:
    """A leaf as an array."""
    if isinstance(leaf, ndarray):
        return leaf
    if not isinstance(leaf, (Number, np.ndarray)) and type(leaf) not in NUMPY_SCALARS:
        raise TypeError(f"{name}: wants arrays and numbers, got {type(leaf).__name__}")
    return asarray(leaf, device=device, name=name)


def _results(name: str, tree: Any) -> tuple[list[ndarray], Any]:
    """The leaves of what a function returned, as arrays, and its structure."""
    leaves, form = trees.flatten(name, tree)
    return [_array(f"{name}: the function's result", y) for y in leaves], form


def _next(name: str, tree: Any, structure: Any, carry: list[ndarray]) -> list[ndarray]:
    """The leaves of the next carry, which must be like those of the first."""
    leaves, form = trees.flatten(name, tree)
    if form != structure:
        raise ValueError(
            f"{name}: the carry must keep its structure {structure}, the function returned {form}"
        )
    device = carry[0].device if carry else None
    arrays = [_array(f"{name}: the carry", y, device) for y in leaves]
    for x, y in zip(carry, arrays, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            raise (ValueError if x.dtype == y.dtype else TypeError)(
                f"{name}: the carry must stay {x.dtype} of shape {x.shape}, the function returned "
                f"{y.dtype} of shape {y.shape}"
            )
    return arrays


def _length(name: str, rows: list[ndarray], length: int | None) -> int:
    """The number of steps."""
    counts = {x.shape[0] if x.ndim else 0 for x in rows}
    if length is not None:
        counts.add(operator.index(length))
    if len(counts) != 1 or min(counts) < 1:
        shapes = ", ".join([str(x.shape) for x in rows])
        raise ValueError(
            f"{name}: wants one number of rows, at least 1, got xs of shapes [{shapes}] and length "
            f"{length}"
        )
    return counts.pop()


def _bound(what: str, value: Any) -> Any:
    """A bound of a range: a Python integer or an array."""
    if isinstance(value, ndarray):
        if value.dtype.kind not in "iu" or value.ndim:
            raise TypeError(
                f"fori_loop: wants an integer as {what}, got {value.dtype} of shape {value.shape}"
            )
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"fori_loop: wants an integer as {what}, got {value!r:.60}") from None


def _for_user(x: ndarray) -> Any:
    """An array as the function gets it: one without dimensions as a scalar."""
    if x._layout.ndim:
        return x
    out = x._alias()
    out._node = x._node
    return scalar(out)


def _truth(name: str, value: Any) -> bool:
    """A truth value, read."""
    if getattr(value, "ndim", 0):
        raise ValueError(f"{name}: wants one truth value, got shape {value.shape}")
    return bool(stop_gradient(value) if isinstance(value, ndarray) else value)


def _condition(name: str, value: Any) -> ndarray:
    """A truth value as an array without dimensions."""
    x = stop_gradient(_array(name, value))
    if x.ndim:
        raise ValueError(f"{name}: wants one truth value, got shape {x.shape}")
    with inside():
        return x.astype("bool")
