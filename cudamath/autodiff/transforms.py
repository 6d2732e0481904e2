"""Transforms of functions: `grad`, `value_and_grad`, `vjp`, `jvp`, `linearize`, `stop_gradient`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from ..core import recording, trees
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.autograd import backward as autograd_backward
from ..core.autograd import constants, mutation, tape
from ..core.devices import CPU, TRACED
from ..core.dispatch.checks import require_function
from ..core.dtypes import FLOATING, INEXACT
from ..core.levels import work
from ..core.scalar import NUMPY_SCALARS, Scalar, as_arrays, inside, scalar, to_user
from ..core.typing import Tree
from ..runtime.errors import shown_as
from ..runtime.interrupts import uninterrupted

__all__ = ["grad", "jvp", "linearize", "stop_gradient", "value_and_grad", "vjp"]


def _leaves(name: str, tree: Any) -> tuple[list[Any], Any]:
    """Array leaves of an argument, and its structure. NumPy arrays become ndarrays, and numbers
    scalars."""
    leaves, structure = trees.flatten(name, tree)
    arrays = []
    for leaf in leaves:
        x = leaf if isinstance(leaf, ndarray) else _as_array(leaf, name)
        if x.dtype not in INEXACT:
            raise TypeError(
                f"{name}: gradients are taken with respect to floating-point or complex arrays, "
                f"got {x.dtype} of shape {x.shape}"
            )
        arrays.append(x)
    return arrays, structure


def _as_array(leaf: Any, name: str) -> ndarray:
    """A number or a NumPy array as an ndarray."""
    try:
        x = asarray(leaf, name=name)
    except TypeError as error:
        raise TypeError(
            f"{error}; lists, tuples and dicts of arrays are taken apart, and so are classes that "
            "optree knows"
        ) from None
    return scalar(x, recorded=True) if isinstance(leaf, Number) else x


def _for_user(g: ndarray, x: ndarray) -> Any:
    """A gradient with respect to x as the user gets it: of a scalar it is a scalar."""
    return to_user(g) if isinstance(x, Scalar) else g


def _with_aux(name: str, result: Any) -> tuple[Any, Any]:
    """The value and the rest of what a function with has_aux returned."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError(
            f"{name}: with has_aux the function must return a pair (value, aux), got "
            f"{type(result).__name__}"
            + (f" of {len(result)}" if isinstance(result, (tuple, list)) else "")
        )
    return result[0], result[1]


class Level:
    """Context in which all ops are recorded. Levels are counted, because only the outermost
    gradient runs without being recorded. `writes`: the in-place changes up to the end of the
    context."""

    def __enter__(self) -> Level:
        state = recording.state
        self.before = state.depth, state.paused, state.inside
        self.state = {"open": True}
        mutation.changes.hold(self)
        # the function is the user's, hence not inside of this package
        state.depth, state.paused, state.inside = self.before[0] + 1, False, False
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        state = recording.state
        state.depth, state.paused, state.inside = self.before
        self.state["open"] = False
        self.writes = mutation.changes.writes
        del mutation.holders[id(self)]

    def leaf(self, x: ndarray) -> ndarray:
        """An argument with respect to which a gradient is taken."""
        return tape.leaf(x, self.state)


def _pull(
    roots: list, leaves: list, writes: dict, *, release: bool, ready: Callable | None = None
) -> list:
    """The gradients at the leaves. They are recorded too if an outer gradient is being taken.
    ready: see `backward`."""
    state = recording.state
    if state.depth:
        with inside():
            return autograd_backward.backward(roots, leaves, writes, release=False, ready=ready)
    before, state.paused = state.paused, True
    try:
        with inside():
            return autograd_backward.backward(roots, leaves, writes, release=release, ready=ready)
    finally:
        state.paused = before


def _seed(y: ndarray) -> ndarray:
    """The gradient of a number with respect to itself: 1. On a GPU it is a constant that all
    gradients share; see `owned`."""
    layout = y._layout
    if layout.device < 0:
        return constants.full_like(y._alias(), 1)
    one = constants.number(1.0, layout if layout.contiguous and layout.aligned else layout.like())
    return constants.full_like(y._alias(), 1) if one is None else one


def owned(g: ndarray) -> ndarray:
    """A gradient that the caller may change in place. If it is a view of a shared constant, the
    result is a view of a number of its own."""
    if type(g._owner) is not constants.Lasting:
        return g
    own = constants.full_like(g._owner.whole, g._owner.value)
    out = g._alias()
    out._data, out._owner, out._node = own._data, own._owner, g._node
    return out


def _apart(gradients: list, inputs: Sequence[ndarray] = ()) -> list:
    """The gradients, of which no two share memory with each other or with an input, so that the
    caller can change each in place. Broadcast views may share memory: they cannot be changed in
    place."""
    if len(gradients) + len(inputs) == 1:
        return gradients
    owners: dict[int, list[ndarray]] = {}
    for x in inputs:
        owners.setdefault(_memory(x), []).append(x)
    for i, g in enumerate(gradients):
        if (
            g is None
            or g._node is not None
            or g._layout.device == TRACED
            or (0 in g._layout.strides and not g._layout.contiguous)
        ):
            continue
        others = owners.get(_memory(g))
        if others is None:
            owners[_memory(g)] = [g]
        elif any([x._address == g._address for x in others]):
            gradients[i] = g.copy()
        else:
            others.append(g)
    return gradients


def _memory(x: ndarray) -> int:
    """A number that is equal for arrays at one address: the address, or on the CPU, where the
    address takes long to compute, the id of the object that owns the memory."""
    if x._layout.device != CPU:
        return x._data
    return id(x._data if x._data.base is None else x._data.base)


def _zeros(g: Any, x: ndarray) -> ndarray:
    return constants.full_like(x, 0) if g is None else g


def value_and_grad(
    fn: Callable, argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable:
    """A function that returns `(fn(...), gradient)`.

    Parameters
    ----------
    fn : callable
        Returns one real floating-point number (shape ()); with `has_aux`, a pair of it and anything
        else.
    argnums : int or sequence of int, default 0
        Positions of the arguments to differentiate: trees of floating-point arrays. A sequence
        gives a tuple.
    has_aux : bool, default False
        `fn` returns `(value, aux)`; so then does the result: `((value, aux), gradient)`.

    Returns
    -------
    callable
        Gradients have the structure, shapes and dtypes of the arguments.

    Raises
    ------
    TypeError
        `fn` is not a function, its result no single floating-point number, or an argument holds
        integers.

    Examples
    --------
    >>> import cudamath as cm
    >>> w = {"a": cm.array([1.0, 2.0])}
    >>> value, gradient = cm.value_and_grad(lambda w: (w["a"] ** 2).sum())(w)
    >>> float(value), gradient["a"].tolist()
    (5.0, [2.0, 4.0])
    """
    require_function("value_and_grad", fn)
    return _differentiated("value_and_grad", fn, argnums, has_aux)


def positions_of(name: str, argnums: Any) -> tuple[tuple[int, ...], bool]:
    """The positions of the arguments, and whether `argnums` was a sequence."""
    if type(argnums) is int:
        return (argnums,), False
    several = (
        not hasattr(argnums, "__index__") or isinstance(argnums, np.ndarray) and argnums.ndim > 0
    )
    try:
        indices: list[Any] = list(argnums) if several else [argnums]
        positions = tuple([operator.index(position) for position in indices])
    except TypeError:
        indices, positions = [True], ()
    if bool in map(type, indices):
        raise TypeError(f"{name}: argnums must be a position or several, got {argnums!r}")
    return positions, several


def value_and_grad_into(
    fn: Callable, collector: Callable[[list[ndarray]], Any], *, has_aux: bool
) -> Callable:
    """`value_and_grad` that hands each gradient over as soon as it is complete.

    `collector(arrays)` is called before the backward pass, with the differentiated arrays. Its
    `ready(i, g)` gets the gradient of array i, during the pass, or None if there is none; its
    `collected()` returns what takes the place of the gradients, a list.
    """
    return _differentiated("value_and_grad", fn, 0, has_aux, collector)


def _differentiated(
    name: str,
    fn: Callable,
    argnums: int | Sequence[int],
    has_aux: bool,
    collector: Callable[[list[ndarray]], Any] | None = None,
) -> Callable:
    """What the function `name` returns: "value_and_grad", or "grad", without the value. collector:
    see `value_and_grad_into`."""
    positions, several = positions_of(name, argnums)
    both = name == "value_and_grad"

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        count, state = len(args), recording.state
        flattened: dict[int, tuple] = {}
        for position in positions:
            if not -count <= position < count:
                raise ValueError(
                    f"{name}: argnums {position} but the function was called with {count} arguments"
                )
            if position % count in flattened:
                raise ValueError(f"{name}: argnums {argnums} name an argument of {count} twice")
            x = args[position]
            alone = (
                isinstance(x, ndarray) and x._layout.dtype in INEXACT
            )  # the common case: no tree
            flattened[position % count] = ([x], None) if alone else _leaves(name, x)
        marked, new = [], list(args)
        with Level() as level:
            for position, (arrays, structure) in flattened.items():
                leaves = [level.leaf(x) for x in arrays]
                marked += leaves
                new[position] = leaves[0] if structure is None else structure.unflatten(leaves)
            result = fn(*new, **kwargs)
        value, aux = _with_aux(name, result) if has_aux else (result, None)
        if type(value) in NUMPY_SCALARS:
            (value,) = as_arrays(f"{name}: the function", [value])
        if (
            not isinstance(value, ndarray)
            or value._layout.size != 1
            or value._layout.dtype not in FLOATING
        ):
            raise TypeError(
                f"{name}: the function must return one real floating-point number, got "
                f"{_described(value)}"
            )
        nodes = [leaf._node for leaf in marked]
        gradients: list = [None] * len(nodes)
        if collector is not None:
            roots = [] if value._node is None else [(value._node, _seed(value))]
            gradients = _collected(collector([x._alias() for x in marked]), roots, nodes, level)
        elif value._node is not None and nodes:
            gradients = _apart(
                [
                    None if g is None else owned(g)
                    for g in _pull([(value._node, _seed(value))], nodes, level.writes, release=True)
                ]
            )
        trees, at = [], 0
        for arrays, structure in flattened.values():
            end = at + len(arrays)
            part = [
                _for_user(_zeros(g, x), x) for g, x in zip(gradients[at:end], arrays, strict=True)
            ]
            trees.append(part[0] if structure is None else structure.unflatten(part))
            at = end
        inner = state.depth > 0
        if has_aux and not inner:
            aux = stop_gradient(aux)
        gradient = tuple(trees) if several else trees[0]
        if not both:
            return (gradient, aux) if has_aux else gradient
        value = value if inner else to_user(value._alias())
        return ((value, aux) if has_aux else value), gradient

    return functools.update_wrapper(shown_as(name, wrapped), fn)


def _collected(collect: Any, roots: list, nodes: list, level: Level) -> list:
    """The backward pass, whose gradients go to a collector."""

    def ready(i: int, g: ndarray | None) -> None:
        collect.ready(i, None if g is None else owned(g))

    if roots and nodes:
        _pull(roots, nodes, level.writes, release=True, ready=ready)
    else:
        for i in range(len(nodes)):
            ready(i, None)
    return collect.collected()


def grad(fn: Callable, argnums: int | Sequence[int] = 0, *, has_aux: bool = False) -> Callable:
    """Return a function that computes the gradient of `fn`.

    See `value_and_grad`. With `has_aux` it returns `(gradient, aux)`.

    Parameters
    ----------
    fn : callable
        Function of arrays or trees that returns one real floating-point number (0-d).
    argnums : int or sequence of int, default 0
        Positions of the arguments that are differentiated.
    has_aux : bool, default False
        Whether `fn` returns a pair: the number, and anything else.

    Returns
    -------
    callable
        Function with fn's arguments. The gradient has the structure of the argument.

    Raises
    ------
    TypeError
        `fn` is not a function, its result no single floating-point number, or an argument holds
        integers.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.grad(lambda x: x ** 3)(2.0).item()
    12.0
    >>> cm.grad(cm.grad(lambda x: x ** 3))(2.0).item()
    12.0
    """
    require_function("grad", fn)
    return _differentiated("grad", fn, argnums, has_aux)


def vjp(fn: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """Return `(fn(*primals), pull)`, where `pull(g)` computes gradients by the primals.

    `pull(g)` gives the gradients of <g, fn(*primals)> by the primals, any number of times.

    Parameters
    ----------
    fn : callable
        Returns an array or a tree of arrays; with `has_aux`, a pair of that and anything else.
    *primals : trees of floating-point or complex arrays
        Where the function is evaluated and linearised.
    has_aux : bool, default False
        `fn` returns `(result, aux)`; so `vjp` gives `(result, pull, aux)`.

    Returns
    -------
    tuple
        The result and `pull`: a function of a tree with the structure, shapes and dtypes of the
        result, that returns a tuple with one gradient per primal. What `pull` needs lives as long
        as `pull`; where it was changed in place meanwhile, `pull` raises RuntimeError.

    Raises
    ------
    TypeError
        `fn` is not a function; primals that are not floating-point or complex, results that are not
        arrays.
    ValueError
        From `pull`: a gradient that does not fit the result.

    Examples
    --------
    >>> import cudamath as cm
    >>> y, pull = cm.vjp(lambda x: x * x, cm.array([1.0, 2.0]))
    >>> pull(cm.array([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    require_function("vjp", fn)
    flattened = [_leaves("vjp", primal) for primal in primals]
    with Level() as level:
        marked = [[level.leaf(x) for x in arrays] for arrays, _ in flattened]
        result = fn(
            *[s.unflatten(leaves) for (_, s), leaves in zip(flattened, marked, strict=True)]
        )
        watch = mutation.Kept(level)
    result, aux = _with_aux("vjp", result) if has_aux else (result, None)
    outputs, structure = trees.flatten("vjp", result)
    outputs = as_arrays("vjp: the function", outputs)

    def pull(g: Any) -> tuple:
        cotangents, shape_of_g = trees.flatten("vjp", g)
        if shape_of_g != structure:
            raise ValueError(
                f"vjp: the gradient has structure {shape_of_g}, the result {structure}"
            )
        roots = []
        for y, each in zip(outputs, cotangents, strict=True):
            each = (
                each
                if isinstance(each, ndarray)
                else asarray(each, dtype=y.dtype, device=y.device, name="vjp")
            )
            if each.shape != y.shape or each.dtype != y.dtype:
                raise ValueError(
                    f"vjp: the gradient must be {y.dtype} of shape {y.shape} like the result, got "
                    f"{_described(each)}"
                )
            if y._node is not None and y.dtype in INEXACT:
                roots.append((y._node, each))
        nodes = [leaf._node for leaves in marked for leaf in leaves]
        gradients = [None] * len(nodes)
        if roots and nodes:
            gradients = _apart(
                _pull(roots, nodes, mutation.changes.writes, release=False),
                [each for _, each in roots],
            )
        out, at = [], 0
        for arrays, s in flattened:
            out.append(
                s.unflatten(
                    [
                        _for_user(_zeros(d, x), x)
                        for d, x in zip(gradients[at : at + len(arrays)], arrays, strict=True)
                    ]
                )
            )
            at += len(arrays)
        return tuple(out)

    pull.kept = watch  # type: ignore[attr-defined]
    if recording.state.depth == 0:
        aux = stop_gradient(aux)
    values = structure.unflatten(
        outputs if recording.state.depth > 0 else [to_user(y._alias()) for y in outputs]
    )
    return (values, pull, aux) if has_aux else (values, pull)


def jvp(fn: Callable, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Return `(fn(*primals), derivative)`, the derivative in the direction of the tangents.

    The result changes by `derivative` eps, to first order, where the primals change by tangents
    eps. A Hessian times a vector is `jvp(grad(f), (x,), (v,))[1]`.

    Parameters
    ----------
    fn : callable
        Returns an array or a tree of arrays.
    primals : sequence of trees
        The arguments. Integer and bool arrays, numbers and anything that is not an array are
        constants.
    tangents : sequence of trees
        For each primal a tree of its structure, with arrays of its shapes and dtypes; None for a
        constant.

    Returns
    -------
    (result, derivative)
        `derivative` has the structure, shapes and dtypes of the result; None for results that are
        integers or bool.

    Raises
    ------
    ValueError
        Tangents that do not fit the primals.
    TypeError
        `fn` is not a function; primals or tangents are not sequences; a result is not an array; a
        constant has a tangent.

    Notes
    -----
    Costs about three times the function: the gradient u -> J^T u is linear in u, so its own
    gradient, at any u, is v -> J v. Hence it exists for whatever has a second derivative here, and
    composes with `grad`, `vjp` and itself.

    References
    ----------
    .. [1] Townsend, "A new trick for calculating Jacobian vector products", 2017.

    Examples
    --------
    >>> import cudamath as cm
    >>> x, dx = cm.array([1.0, 2.0]), cm.array([1.0, 10.0])
    >>> y, dy = cm.jvp(lambda x, n: x ** n, (x, 3), (dx, None))
    >>> y.tolist(), dy.tolist()
    ([1.0, 8.0], [3.0, 120.0])
    >>> f = lambda x: (x ** 3).sum()
    >>> cm.jvp(cm.grad(f), (cm.array([1.0, 2.0]),), (cm.array([1.0, 0.5]),))[1].tolist()
    [6.0, 6.0]
    """
    require_function("jvp", fn)
    for what, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)):
            raise TypeError(
                f"jvp: wants {what} as a tuple or list, one an argument of the function, got "
                f"{type(value).__name__}"
            )
    line = _Linear("jvp", fn, tuple(primals))
    directions = line.directions(tuple(tangents))
    return line.form.unflatten(line.outputs), line.push(directions)


class _Linear:
    """A function at a point: its value, and its derivative, which is linear.

    The gradient u -> J^T u is linear in u, so its own gradient, at any u, is v -> J v. name: the
    public function's.
    """

    def __init__(self, name: str, fn: Callable, primals: tuple):
        self.name = name
        self.leaves, self.structure = trees.flatten(name, primals)
        #: The leaves that are differentiated: their places, and their arrays.
        self.places: list[int] = []
        self.arrays: list[ndarray] = []
        for i, leaf in enumerate(self.leaves):
            x = leaf if isinstance(leaf, ndarray) else _array_or_none(leaf)
            if x is not None and x.dtype in INEXACT:
                self.places.append(i)
                self.arrays.append(x)
        forms: list = []

        def of(*arrays: ndarray) -> list[ndarray]:
            full = list(self.leaves)
            for i, x in zip(self.places, arrays, strict=True):
                full[i] = x
            outputs, form = trees.flatten(name, fn(*self.structure.unflatten(full)))
            forms[:] = [form]
            return as_arrays(f"{name}: the function", outputs)

        outputs, pull = vjp(of, *self.arrays)
        self.outputs = as_arrays(f"{name}: the function", outputs)
        self.form = forms[0]
        self.smooth = [i for i, y in enumerate(self.outputs) if y.dtype in INEXACT]
        rest = [_zeros(None, y) for y in self.outputs]

        def gradient(*us: ndarray) -> tuple:
            full = list(rest)
            for i, u in zip(self.smooth, us, strict=True):
                full[i] = u
            return pull(full)

        _, self._push = vjp(gradient, *[rest[i] for i in self.smooth])

    def directions(self, tangents: tuple) -> list[ndarray]:
        """The tangents of the leaves that are differentiated."""
        name = self.name
        try:
            directions: list[Any] = self.structure.flatten_up_to(tangents)
        except ValueError:
            _, form = trees.flatten(name, tangents)
            raise ValueError(
                f"{name}: the tangents have structure {form}, the primals {self.structure}"
            ) from None
        arrays = dict(zip(self.places, self.arrays, strict=True))
        vs = []
        for i, (leaf, v) in enumerate(zip(self.leaves, directions, strict=True)):
            x = arrays.get(i)
            if x is None:
                if v is not None:
                    constant = leaf if isinstance(leaf, ndarray) else _array_or_none(leaf)
                    raise TypeError(
                        f"{name}: wants None as the tangent of a constant "
                        f"({_described(leaf if constant is None else constant)}), "
                        f"got {type(v).__name__}"
                    )
                continue
            if not isinstance(v, ndarray):
                v = asarray(v, dtype=x.dtype, device=x.device, name=name)
            if v.shape != x.shape or v.dtype != x.dtype:
                raise ValueError(
                    f"{name}: the tangent must be {x.dtype} of shape {x.shape} like the primal, "
                    f"got {_described(v)}"
                )
            vs.append(v)
        return vs

    def push(self, directions: Sequence[ndarray]) -> Any:
        """The derivative in these directions, as a tree like the result."""
        derivative: list[Any] = [None] * len(self.outputs)
        for i, d in zip(self.smooth, self._push(tuple(directions)), strict=True):
            derivative[i] = d
        return self.form.unflatten(derivative)


def linearize(fn: Callable, *primals: Any) -> tuple[Any, Callable]:
    """Return `(fn(*primals), push)`, where `push(*tangents)` is the derivative in a direction.

    What `jvp` gives for one direction, for any number of them: the function runs once.

    Parameters
    ----------
    fn : callable
        Returns an array or a tree of arrays.
    *primals : trees
        The arguments. Integer and bool arrays, numbers and anything that is not an array are
        constants.

    Returns
    -------
    (result, push)
        `push` takes for each primal a tree of its structure, with arrays of its shapes and dtypes,
        or None for a constant. It returns a tree like the result, with None for results that are
        integers or bool.

    Raises
    ------
    ValueError
        From `push`: tangents that do not fit the primals.
    TypeError
        `fn` is not a function; a result is not an array. From `push`: a constant has a tangent.

    Notes
    -----
    The arrays that the derivative needs live as long as `push`. It composes with `grad`, `vjp`,
    `jvp` and itself.

    Examples
    --------
    >>> import cudamath as cm
    >>> y, push = cm.linearize(lambda x: x ** 2, cm.array([1.0, 3.0]))
    >>> push(cm.array([1.0, 0.0])).tolist(), push(cm.array([0.0, 0.5])).tolist()
    ([2.0, 0.0], [0.0, 3.0])
    """
    require_function("linearize", fn)
    line = _Linear("linearize", fn, primals)

    def push(*tangents: Any) -> Any:
        if len(tangents) != len(primals):
            raise TypeError(
                f"linearize: wants {len(primals)} tangents, one a primal, got {len(tangents)}"
            )
        return line.push(line.directions(tangents))

    return line.form.unflatten(line.outputs), push


def _described(value: Any) -> str:
    """For error messages: dtype and shape of an array, the type of anything else."""
    if isinstance(value, ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return type(value).__name__


def _array_or_none(leaf: Any) -> ndarray | None:
    """A NumPy array or a number as an ndarray; None for what is neither."""
    try:
        return _as_array(leaf, "jvp")
    except TypeError:
        return None


def stop_gradient(x: Tree) -> Any:
    """The same values as constants: nothing is differentiated through them.

    Parameters
    ----------
    x : tree
        An array, or a tree of which all arrays become constants.

    Returns
    -------
    tree
        Arrays over the same memory. Leaves that are not arrays stay as they are.

    Notes
    -----
    The result is a constant and has no gradient.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.grad(lambda x: x * cm.stop_gradient(x))(3.0).item()
    3.0
    """
    if isinstance(x, ndarray):
        return _constant(x)
    return trees.map_leaves(
        "stop_gradient", lambda a: _constant(a) if isinstance(a, ndarray) else a, x
    )


def _constant(x: ndarray) -> Any:
    out = x._alias() if x._layout.device >= TRACED else work.constant(x)
    return to_user(out) if isinstance(x, Scalar) else out
