"""Optimizers: functions of (parameters, gradients, state) over trees of arrays, updating in place.

    state = ml.adam_init(params)
    loss, grads = cm.value_and_grad(loss_fn)(params, batch)
    params, state = ml.adam_update(params, grads, state, lr=1e-3)

A tree is any nesting of dicts, lists, tuples and registered classes with arrays as leaves. All
arrays of a tree are updated by one kernel launch. Everything is checked before it: a call that
raises has changed nothing.

Mixed precision (see `ml.amp`): `params` are float32, the model computes with 16-bit `copies` and
has 16-bit gradients, and the same launch clips or unscales the gradients by `factor` and writes the
new copies.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..core import trees
from ..core.array import ndarray, read_only, refuse_read_only
from ..core.asarray import asarray, upload
from ..core.autograd import mutation, tape
from ..core.devices import default_index
from ..core.dispatch.op import Op
from ..core.dtypes import FLOATING, bfloat16, compute_dtype, float16, float32
from ..core.elements import lent, settle_all
from ..core.layout import Layout
from ..core.levels import place_of
from ..core.shapes import as_integer, axes_by_stride
from ..core.specs.optimizer import PLAIN, Form
from ..ops.shape import in_memory_order, permute_dims

__all__ = [
    "adagrad_update",
    "adam_init",
    "adam_update",
    "adamw_update",
    "lion_update",
    "rmsprop_update",
    "sgd_init",
    "sgd_update",
]

Tree = Any


def _written(states: int) -> Callable[[int, dict], list[int]]:
    """The inputs that a step writes: all but the gradients, which come after the parameters."""

    def written(inputs: int, params: dict) -> list[int]:
        form: Form = params.get("form", PLAIN)
        count = (inputs - form.extra) // (2 + states + form.copies)
        step = [inputs - form.extra] if form.step else []
        return [*range(count), *range(2 * count, inputs - form.extra), *step]

    return written


_sgd = Op("sgd_update", cpu="optim.sgd", cuda="optim.dispatch.sgd", writes=_written(0))
_momentum = Op(
    "sgd_update (momentum)",
    cpu="optim.momentum",
    cuda="optim.dispatch.momentum",
    writes=_written(1),
)
_adam = Op("adam_update", cpu="optim.adam", cuda="optim.dispatch.adam", writes=_written(2))
_rmsprop = Op(
    "rmsprop_update", cpu="optim.rmsprop", cuda="optim.dispatch.rmsprop", writes=_written(1)
)
_lion = Op("lion_update", cpu="optim.lion", cuda="optim.dispatch.lion", writes=_written(1))

_sound: set[tuple] = set()  # (leaves of a tree, layouts) that have passed `_check`


# -------------------- checks


def _paths(tree: Tree) -> list[str]:
    """How to get at each leaf, for messages: "['layer']['weight']"."""
    return [
        "".join(f"[{part!r}]" for part in path) or "the array" for path in optree.tree_paths(tree)
    ]


def _arrays(name: str, params: Tree, copies: Tree | None, **others: Tree) -> list[ndarray]:
    """All parameters, then the leaves of each other tree (gradients, states, copies), checked
    against them. Those of a parameter in another order than C's, such as channels-last filters, are
    views with its axes from the widest stride to the narrowest: contiguous, as the kernels want
    them."""
    leaves, structure = trees.flatten(name, params)
    arrays = list(leaves)
    if copies is not None:
        others["copies"] = copies
    for what, tree in others.items():
        more, other = trees.flatten(name, tree)
        if other != structure:
            raise ValueError(
                f"{name}: wants {what} of the structure of params, "
                f"{trees.shown(structure)}, got {trees.shown(other)}"
            )
        arrays += more
    for i, x in enumerate(arrays):
        if not isinstance(x, ndarray):
            what = ["params", *others][i // len(leaves)]
            path = _paths(params)[i % len(leaves)]
            raise TypeError(
                f"{name}: wants cudamath arrays in {what}, got {type(x).__name__} at {path}"
            )
    count = len(leaves)
    for i, p in enumerate(leaves):
        if not p._layout.contiguous:
            _in_order_of(p, arrays, range(i, len(arrays), count))
    for i in range(count, min(2 * count, len(arrays))):
        if not arrays[i]._layout.contiguous:
            arrays[i] = arrays[i].copy()
    key = (count, copies is not None, *[x._layout for x in arrays])
    if key not in _sound or len(set(map(id, leaves))) < count:
        _check(name, params, ["params", *others], arrays, count)
        if len(_sound) >= 4096:
            _sound.clear()
        _sound.add(key)
    for i, x in enumerate(arrays):
        if i // count == 1:  # gradients are only read
            if x._node is not None:
                _constant(name, f"grads at {_paths(params)[i % count]}", x)
            continue
        if x._node is not None:
            raise ValueError(
                f"{name}: updates in place, but a gradient is being recorded for "
                f"{_paths(params)[i % count]}; call it outside the differentiated function"
            )
        if read_only(x):  # of hundreds: no call for each on a GPU
            raise ValueError(
                f"{name}: updates in place, but the memory of {_paths(params)[i % count]} is "
                "read-only"
            )
    if copies is not None:
        for i, (p, copy) in enumerate(zip(leaves, arrays[-count:], strict=True)):
            if copy.dtype == p.dtype and copy._address != p._address:
                raise ValueError(
                    f"{name}: wants each of copies in another dtype than its parameter, or the "
                    "parameter itself, "
                    f"got another array of {copy.dtype} at {_paths(params)[i]}"
                )
    return arrays


def _in_order_of(p: ndarray, arrays: list[ndarray], places: range) -> None:
    """Permute the axes of the arrays at these places so that those of `p` come from the widest
    stride to the narrowest. Arrays of another shape stay; `_check` refuses them."""
    order = axes_by_stride(p.strides)
    if all([arrays[i].shape == p.shape for i in places]):
        for i in places:
            arrays[i] = permute_dims(arrays[i], order)


def _constant(name: str, what: str, x: ndarray) -> None:
    """ValueError where a gradient by what a step only reads is wanted, which would be lost."""
    if tape.depends(x):
        raise ValueError(
            f"{name}: not differentiable, but a gradient is being recorded for {what}; call it "
            "outside the "
            "differentiated function, or give stop_gradient(x) if it is meant as a constant"
        )


def _check(
    name: str, params: Tree, trees: Sequence[str], arrays: list[ndarray], count: int
) -> None:
    """Dtypes, shapes, layouts and devices."""
    paths = _paths(params)
    for i, x in enumerate(arrays):
        p: Layout = arrays[i % count]._layout
        tree, path = trees[i // count], paths[i % count]
        if p.dtype not in FLOATING:
            raise TypeError(
                f"{name}: wants floating-point parameters, got {p.dtype} of shape {p.shape} at "
                f"{path}"
            )
        narrow = [float16, bfloat16] if p.dtype == float32 else []
        if tree in ("grads", "copies"):
            wanted = [p.dtype, *narrow]
        else:
            wanted = [p.dtype if tree == "params" else compute_dtype(p.dtype)]
        if x.dtype not in wanted:
            raise TypeError(
                f"{name}: wants {tree} of {' or '.join(map(str, wanted))} at {path}, got "
                f"{x.dtype} of shape "
                f"{x.shape}"
            )
        if x.shape != p.shape:
            raise ValueError(f"{name}: wants {tree} of shape {p.shape} at {path}, got {x.shape}")
        if place_of(x._layout.device) != place_of(arrays[0]._layout.device):
            raise ValueError(
                f"{name}: wants all arrays on one device, got {tree} at {path} on {x.device} and "
                "others "
                f"on {arrays[0].device}"
            )
        if not x._layout.contiguous:
            raise ValueError(
                f"{name}: updates in place and wants arrays without gaps in memory, states and "
                f"copies in the order of their parameters; got {tree} of shape {x.shape} and "
                f"strides {x.strides} at {path}, with the axes in the parameter's order"
            )
    order = sorted((x._address, x.nbytes, i) for i, x in enumerate(arrays[:count]) if x.size)
    for (at, nbytes, i), (other, _, j) in itertools.pairwise(order):
        if at + nbytes > other:  # a kernel would step it twice at the same time
            i, j = sorted((i, j))
            raise ValueError(
                f"{name}: wants every parameter once in the tree, got the same memory at "
                f"{paths[i]} and "
                f"{paths[j]}"
            )


def _number(name: str, what: str, value: ndarray, like: ndarray) -> ndarray:
    """A 0-d array (the learning rate, the factor) in the dtype that `like` computes in, where
    `like` is."""
    if value.shape != () or value.dtype not in FLOATING:
        raise TypeError(
            f"{name}: wants {what} as a number or a 0-d floating-point array, got {value.dtype} "
            "of shape "
            f"{value.shape}"
        )
    if value._layout.device != like._layout.device:
        raise ValueError(
            f"{name}: wants {what} on {like.device}, where the parameters are, got {value.device}"
        )
    _constant(name, what, value)
    kind = compute_dtype(like.dtype)
    return value if value.dtype == kind else asarray(value, kind)


def _decays(name: str, params: Tree, decay: Any) -> tuple[bool, ...] | None:
    """Which parameters' weights decay; None: all."""
    if decay is None:
        return None
    if callable(decay):
        chosen = [bool(decay(p)) for p in optree.tree_leaves(params)]
    else:
        chosen, structure = trees.flatten(name, decay)
        wanted = optree.tree_structure(params)
        if structure != wanted:
            raise ValueError(
                f"{name}: wants decay of the structure of params, "
                f"{trees.shown(wanted)}, got {trees.shown(structure)}"
            )
        for value in chosen:
            if not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"{name}: wants True or False in decay, got {type(value).__name__}")
    return None if all(chosen) else tuple(map(bool, chosen))


def _extras(
    name: str,
    params: Tree,
    arrays: list[ndarray],
    lr: Any,
    factor: Any,
    copies: Any,
    decay: Any,
    step: ndarray | None = None,
) -> tuple[float, list[ndarray], Form]:
    """The learning rate as a run-time scalar, the 0-d arrays of the call, and its form."""
    extra = [] if step is None else [step]
    rated, factored = isinstance(lr, ndarray), factor is not None
    if rated:
        extra.append(_number(name, "lr", lr, arrays[0]))
    if factored:
        try:
            factor = (
                factor
                if isinstance(factor, ndarray)
                else asarray(float(factor), device=arrays[0].device)
            )
        except (TypeError, ValueError):
            raise TypeError(
                f"{name}: wants factor as a number or a 0-d array, got {type(factor).__name__}"
            ) from None
        extra.append(_number(name, "factor", factor, arrays[0]))
    form = Form(step is not None, rated, factored, copies is not None, _decays(name, params, decay))
    if lent:
        settle_all()
    if mutation.holders:  # now that nothing can be refused any more
        count = optree.tree_structure(params).num_leaves
        for x in (*arrays[:count], *arrays[2 * count :], *extra[: form.step]):
            mutation.wrote(x)
    return 0.0 if rated else float(lr), extra, form


def _at_least_zero(name: str, **values: float) -> None:
    for what, value in values.items():
        if what == "lr" and isinstance(value, ndarray):
            continue
        if not (isinstance(value, (int, float, np.number)) and not isinstance(value, bool)):
            if not (
                what == "lr"
                and isinstance(value, np.ndarray)
                and value.shape == ()
                and value.dtype in FLOATING
            ):
                raise TypeError(f"{name}: wants {what} as a number, got {type(value).__name__}")
        if not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name}: wants a finite {what} >= 0, got {value}")


def _fraction(name: str, **values: float) -> None:
    for what, value in values.items():
        try:
            inside = 0 <= value < 1
        except TypeError:
            raise TypeError(
                f"{name}: wants {what} as a number, got {type(value).__name__}"
            ) from None
        if not inside:
            raise ValueError(f"{name}: wants {what} in [0, 1), got {value}")


def _two_fractions(name: str, betas: Sequence[float]) -> tuple[float, float]:
    try:
        sound = isinstance(betas, Sequence) and len(betas) == 2 and all(0 <= b < 1 for b in betas)
    except TypeError:  # text, None
        sound = False
    if not sound:
        raise ValueError(f"{name}: wants two betas in [0, 1), got {betas}")
    return float(betas[0]), float(betas[1])


def _zeros(params: Tree, name: str) -> Tree:
    """Zeros in the shapes and memory orders of a tree, of the dtype that its arrays compute in."""

    def like(p: Any) -> ndarray:
        if not isinstance(p, ndarray):
            raise TypeError(f"{name}: wants cudamath arrays in params, got {type(p).__name__}")
        if p.dtype not in FLOATING:
            raise TypeError(
                f"{name}: wants floating-point parameters, got {p.dtype} of shape {p.shape}"
            )
        return in_memory_order(
            lambda p: upload(np.zeros(p.shape, compute_dtype(p.dtype)), p._layout.device), p
        )

    return trees.map_leaves(name, like, params)


# -------------------- stochastic gradient descent


def sgd_init(params: Tree) -> Tree:
    """Return the velocities with which `sgd_update` with momentum starts.

    They are zeros like the parameters. float16 and bfloat16 parameters get float32 velocities.

    Parameters
    ----------
    params : tree
        Tree of parameters.

    Returns
    -------
    tree
        Tree of zeros.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.sgd_init({"w": cm.ones(2)})
    {'w': array([0., 0.], device='cpu')}
    """
    return _zeros(params, "sgd_init")


def sgd_update(
    params: Tree,
    grads: Tree,
    state: Tree | None = None,
    *,
    lr: Any,
    momentum: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    decay: Tree | None = None,
    factor: float | ndarray | None = None,
    copies: Tree | None = None,
) -> tuple[Tree, Tree | None]:
    """One step of stochastic gradient descent, in place.

    The formulas of torch.optim.SGD (dampening 0).

    d = g + weight_decay p;  p -= lr d.
    With momentum: u = momentum u + d;  p -= lr u, or lr (d + momentum u) for Nesterov.

    Parameters
    ----------
    params : tree of arrays without gaps, float16, bfloat16, float32 or float64
        Overwritten with the new values. Their axes may lie in memory in any order (channels last,
        say); states and copies have the same order. 16-bit ones are widened to float32, stepped
        and rounded.
    grads : tree of the same structure and shapes
        Only read. Of the parameters' dtypes; those of float32 parameters may be float16 or
        bfloat16.
    state : tree of velocities, optional
        From `sgd_init` or the last call; overwritten. None with momentum starts from zeros.
    lr : float or 0-d floating-point array
        Not negative. An array (as for `adam_update`) may change between replays of a CUDA graph.
    momentum : float, default 0.0
        Not negative.
    nesterov : bool, default False
        Look ahead along the velocity; needs momentum > 0.
    weight_decay : float, default 0.0
        Not negative.
    decay : function of a parameter, or tree of bool, optional
        Which parameters `weight_decay` applies to: `decay=lambda p: p.ndim > 1` spares biases.
        None: to all.
    factor : float or 0-d floating-point array, optional
        Gradients are multiplied by it as they are read: that of `clip_factor` or `amp.unscale`. NaN
        leaves the step out, on the device: nothing is written.
    copies : tree of the structure of params, optional
        Copies of float32 parameters in float16 or bfloat16, from `amp.cast`, that get the new
        values in the same pass. A leaf may be the parameter itself.

    Returns
    -------
    (params, state)
        The arrays that were passed. `state` is None without momentum (and is not looked at).

    Raises
    ------
    ValueError
        Trees of different structure or shapes, arrays with gaps or read-only ones, a parameter that
        is there twice, several devices, negative numbers, Nesterov without momentum, or an array
        whose gradient is being recorded. Nothing has been changed then.
    TypeError
        Leaves that are not arrays, integer parameters, gradients or velocities of another dtype.

    Notes
    -----
    The function is not differentiable.

    Examples
    --------
    >>> import cudamath as cm
    >>> params = {"w": cm.array([1.0, 2.0])}
    >>> params, state = cm.ml.sgd_update(params, {"w": cm.array([1.0, 1.0])}, lr=0.5)
    >>> params["w"]
    array([0.5, 1.5], device='cpu')
    """
    name = "sgd_update"
    _at_least_zero(name, lr=lr, momentum=momentum, weight_decay=weight_decay)
    if not momentum:
        if nesterov:
            raise ValueError(f"{name}: nesterov wants momentum > 0, got {momentum}")
        arrays = _arrays(name, params, copies, grads=grads)
        if arrays:
            rate, extra, form = _extras(name, params, arrays, lr, factor, copies, decay)
            _sgd(*arrays, *extra, scalars=(rate, float(weight_decay), *[0.0] * 6), form=form)
        return params, None
    if state is None:
        state = _zeros(params, name)
    arrays = _arrays(name, params, copies, grads=grads, state=state)
    if arrays:
        rate, extra, form = _extras(name, params, arrays, lr, factor, copies, decay)
        scalars = (rate, float(weight_decay), float(momentum), *[0.0] * 5)
        _momentum(*arrays, *extra, scalars=scalars, nesterov=bool(nesterov), form=form)
    return params, state


# -------------------- Adam


def adam_init(params: Tree) -> dict[str, Any]:
    """Return the state with which `adam_update` and `adamw_update` start.

    The state is {"step": 0, "m": zeros, "v": zeros}. `step` is a 0-d int64 array on the device of
    the parameters, so that a CUDA graph of a training step continues to count. `m` and `v`, the
    first and second moments, are trees like `params`, in float32 for float16 and bfloat16
    parameters.

    Parameters
    ----------
    params : tree
        Tree of parameters.

    Returns
    -------
    dict
        The state.

    Examples
    --------
    >>> import cudamath as cm
    >>> state = cm.ml.adam_init([cm.ones(1)])
    >>> state["step"].item(), state["m"], state["v"]
    (0, [array([0.], device='cpu')], [array([0.], device='cpu')])
    """
    moments = {"m": _zeros(params, "adam_init"), "v": _zeros(params, "adam_init")}
    first = next(iter(optree.tree_leaves(params)), None)
    place = default_index() if first is None else first._layout.device
    return {"step": upload(np.zeros((), np.int64), place), **moments}


def _adam_step(
    name: str,
    params: Tree,
    grads: Tree,
    state: dict[str, Any],
    lr: Any,
    betas: Sequence[float],
    eps: float,
    decoupled: float,
    l2: float,
    decay: Any,
    factor: Any,
    copies: Tree | None,
) -> tuple[Tree, dict[str, Any]]:
    if not isinstance(state, dict) or set(state) != {"step", "m", "v"}:
        raise ValueError(
            f"{name}: wants a state of adam_init, with step, m and v, got {type(state).__name__}"
            + (f" with {', '.join(map(str, state))}" if isinstance(state, dict) else "")
        )
    beta1, beta2 = _two_fractions(name, betas)
    step = state["step"]
    arrays = _arrays(name, params, copies, grads=grads, m=state["m"], v=state["v"])
    if isinstance(step, ndarray):
        if step.shape != () or step.dtype != np.int64:
            raise TypeError(
                f"{name}: wants step in state as a 0-d int64 array, got {step.dtype} of shape "
                f"{step.shape}"
            )
        refuse_read_only(name, step)
        if arrays:
            if step._layout.device != arrays[0]._layout.device:
                raise ValueError(
                    f"{name}: wants step on {arrays[0].device}, where the parameters are, got "
                    f"{step.device}"
                )
            rate, extra, form = _extras(name, params, arrays, lr, factor, copies, decay, step)
            _adam(
                *arrays,
                *extra,
                form=form,
                scalars=(rate, decoupled, l2, 1 - beta1, beta2, 1 - beta2, 0.0, float(eps)),
            )
        else:
            step += 1
        return params, state
    if isinstance(lr, ndarray) or factor is not None:
        raise TypeError(
            f"{name}: wants step in state as an array where "
            f"{'lr' if factor is None else 'factor'} is one (as from "
            f"adam_init), got {step!r}"
        )
    step = as_integer(name, "step in state", step) + 1
    if step < 1:
        raise ValueError(f"{name}: wants a step >= 0 in state, got {step - 1}")
    if arrays:
        rate, _, form = _extras(name, params, arrays, lr, None, copies, decay)
        _adam(
            *arrays,
            scalars=(
                rate / (1 - beta1**step),
                1 - rate * decoupled,
                l2,
                1 - beta1,
                beta2,
                1 - beta2,
                1 / math.sqrt(1 - beta2**step),
                float(eps),
            ),
            form=form,
        )
    state["step"] = step
    return params, state


def adam_update(
    params: Tree,
    grads: Tree,
    state: dict[str, Any],
    *,
    lr: Any = 1e-3,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decay: Tree | None = None,
    factor: float | ndarray | None = None,
    copies: Tree | None = None,
) -> tuple[Tree, dict[str, Any]]:
    """One step of Adam, in place.

    The formulas of torch.optim.Adam.

    With d = g + weight_decay p and t the number of the step (from 1):

    m = beta1 m + (1 - beta1) d;  v = beta2 v + (1 - beta2) d^2;
    p -= lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + eps)

    Parameters
    ----------
    params : tree of arrays without gaps, float16, bfloat16, float32 or float64
        Overwritten with the new values. Their axes may lie in memory in any order (channels last,
        say); states and copies have the same order. 16-bit ones are widened to float32, stepped
        and rounded.
    grads : tree of the same structure and shapes
        Only read. Of the parameters' dtypes; those of float32 parameters may be float16 or
        bfloat16.
    state : dict
        From `adam_init` or the last call; its arrays are overwritten, the step too (an int there is
        replaced).
    lr : float or 0-d floating-point array, default 1e-3
        Not negative. An array is read where it is, on its device; NumPy's is a number like any
        other.
    betas : (float, float), default (0.9, 0.999)
        Each in [0, 1).
    eps : float, default 1e-8
        Not negative.
    weight_decay : float, default 0.0
        Not negative.
    decay : function of a parameter, or tree of bool, optional
        Which parameters `weight_decay` applies to: `decay=lambda p: p.ndim > 1` spares biases.
        None: to all. A step whose factor is NaN does not count.
    factor : float or 0-d floating-point array, optional
        Gradients are multiplied by it as they are read: that of `clip_factor` or `amp.unscale`. NaN
        leaves the step out, on the device: nothing is written. A step whose factor is NaN does not
        count.
    copies : tree of the structure of params, optional
        Copies of float32 parameters in float16 or bfloat16, from `amp.cast`, that get the new
        values in the same pass. A leaf may be the parameter itself. A step whose factor is NaN does
        not count.

    Returns
    -------
    (params, state)
        The objects that were passed.

    Raises
    ------
    ValueError
        Trees of different structure or shapes, arrays with gaps or read-only ones, several devices,
        numbers out of range, a state of another form, or an array whose gradient is being recorded.
        Nothing has been changed then.
    TypeError
        Leaves that are not arrays, integer parameters, gradients or moments of another dtype.

    Notes
    -----
    The function is not differentiable. The same bits in every run on one device; CPU and GPU agree
    to rounding.

    In a CUDA graph the step counts on, since it is an array. An lr that changes must be an array
    too (0-d): a float is part of what the graph was made for.

    References
    ----------
    .. [1] Kingma and Ba, "Adam: a method for stochastic optimization", 2014.

    Examples
    --------
    >>> import cudamath as cm
    >>> params = {"w": cm.array([1.0, -1.0])}
    >>> state = cm.ml.adam_init(params)
    >>> for _ in range(3):
    ...     params, state = cm.ml.adam_update(params, {"w": params["w"] * 2}, state, lr=0.1)
    >>> [round(v, 4) for v in params["w"].tolist()], state["step"]
    ([0.7016, -0.7016], array(3, device='cpu'))
    """
    _at_least_zero("adam_update", lr=lr, eps=eps, weight_decay=weight_decay)
    return _adam_step(
        "adam_update",
        params,
        grads,
        state,
        lr,
        betas,
        eps,
        0.0,
        float(weight_decay),
        decay,
        factor,
        copies,
    )


def adamw_update(
    params: Tree,
    grads: Tree,
    state: dict[str, Any],
    *,
    lr: Any = 1e-3,
    betas: Sequence[float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    decay: Tree | None = None,
    factor: float | ndarray | None = None,
    copies: Tree | None = None,
) -> tuple[Tree, dict[str, Any]]:
    """Take one step of AdamW, in place: Adam whose weight decay acts on the parameter itself.

    P *= 1 - lr weight_decay, then the step of `adam_update` without weight decay. The formulas are
    those of torch.optim.AdamW.

    Parameters
    ----------
    params : tree of arrays without gaps, float16, bfloat16, float32 or float64
        Overwritten with the new values. Their axes may lie in memory in any order (channels last,
        say); states and copies have the same order. 16-bit ones are widened to float32, stepped
        and rounded.
    grads : tree of the same structure and shapes
        Only read. Of the parameters' dtypes; those of float32 parameters may be float16 or
        bfloat16.
    state : dict
        From `adam_init` or the last call; its arrays are overwritten, the step too (an int there is
        replaced).
    lr : float or 0-d floating-point array, default 1e-3
        Not negative. An array is read where it is, on its device; NumPy's is a number like any
        other.
    betas : (float, float), default (0.9, 0.999)
        Each in [0, 1).
    eps : float, default 1e-8
        Not negative.
    weight_decay : float, default 0.01
        Not negative.
    decay : function of a parameter, or tree of bool, optional
        Which parameters `weight_decay` applies to: `decay=lambda p: p.ndim > 1` spares biases.
        None: to all. A step whose factor is NaN does not count.
    factor : float or 0-d floating-point array, optional
        Gradients are multiplied by it as they are read: that of `clip_factor` or `amp.unscale`. NaN
        leaves the step out, on the device: nothing is written. A step whose factor is NaN does not
        count.
    copies : tree of the structure of params, optional
        Copies of float32 parameters in float16 or bfloat16, from `amp.cast`, that get the new
        values in the same pass. A leaf may be the parameter itself. A step whose factor is NaN does
        not count.

    Returns
    -------
    (params, state)
        The objects that were passed.

    Raises
    ------
    ValueError
        Trees of different structure or shapes, arrays with gaps or read-only ones, several devices,
        numbers out of range, a state of another form, or an array whose gradient is being recorded.
        Nothing has been changed then.
    TypeError
        Leaves that are not arrays, integer parameters, gradients or moments of another dtype.

    References
    ----------
    .. [1] Loshchilov and Hutter, "Decoupled weight decay regularization", 2017.

    Examples
    --------
    >>> import cudamath as cm
    >>> params = [cm.array([1.0])]
    >>> grads, state = [cm.array([0.0])], cm.ml.adam_init(params)
    >>> params, state = cm.ml.adamw_update(params, grads, state, lr=0.1, weight_decay=0.5)
    >>> params
    [array([0.95], device='cpu')]
    """
    _at_least_zero("adamw_update", lr=lr, eps=eps, weight_decay=weight_decay)
    return _adam_step(
        "adamw_update",
        params,
        grads,
        state,
        lr,
        betas,
        eps,
        float(weight_decay),
        0.0,
        decay,
        factor,
        copies,
    )


# -------------------- RMSprop, Adagrad, Lion


def _one_state(
    name: str,
    card: Op,
    params: Tree,
    grads: Tree,
    state: Tree,
    lr: Any,
    decay: Any,
    factor: Any,
    copies: Tree | None,
    *scalars: float,
) -> tuple[Tree, Tree]:
    """A step of an optimizer with one state an array; no state: zeros. scalars: weight decay
    first."""
    if state is None:
        state = _zeros(params, name)
    arrays = _arrays(name, params, copies, grads=grads, state=state)
    if arrays:
        rate, extra, form = _extras(name, params, arrays, lr, factor, copies, decay)
        first = 1 - rate * scalars[0] if card is _lion and not extra else scalars[0]
        values = (rate, float(first), *map(float, scalars[1:]), *[0.0] * (7 - len(scalars)))
        card(*arrays, *extra, scalars=values, form=form)
    return params, state


def rmsprop_update(
    params: Tree,
    grads: Tree,
    state: Tree | None = None,
    *,
    lr: Any = 0.01,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decay: Tree | None = None,
    factor: float | ndarray | None = None,
    copies: Tree | None = None,
) -> tuple[Tree, Tree]:
    """One step of RMSprop, in place.

    The formulas of torch.optim.RMSprop (not centered, no momentum).

    d = g + weight_decay p; v = alpha v + (1 - alpha) d^2; p -= lr d / (sqrt(v) + eps)

    Parameters
    ----------
    params : tree of arrays without gaps, float16, bfloat16, float32 or float64
        Overwritten with the new values. Their axes may lie in memory in any order (channels last,
        say); states and copies have the same order. 16-bit ones are widened to float32, stepped
        and rounded.
    grads : tree of the same structure and shapes
        Only read. Of the parameters' dtypes; those of float32 parameters may be float16 or
        bfloat16.
    state : tree of mean squares, optional
        From the last call; overwritten. None starts from zeros. float32 for float16 and bfloat16
        parameters.
    lr : float, default 0.01
        Not negative.
    alpha : float in [0, 1), default 0.99
        How much of the mean square a step keeps.
    eps : float, default 1e-8
        Not negative.
    weight_decay : float, default 0.0
        Not negative.
    decay : function of a parameter, or tree of bool, optional
        Which parameters `weight_decay` applies to: `decay=lambda p: p.ndim > 1` spares biases.
        None: to all.
    factor : float or 0-d floating-point array, optional
        Gradients are multiplied by it as they are read: that of `clip_factor` or `amp.unscale`. NaN
        leaves the step out, on the device: nothing is written.
    copies : tree of the structure of params, optional
        Copies of float32 parameters in float16 or bfloat16, from `amp.cast`, that get the new
        values in the same pass. A leaf may be the parameter itself.

    Returns
    -------
    (params, state)
        The arrays that were passed.

    Raises
    ------
    ValueError
        Trees of different structure or shapes, arrays with gaps or read-only ones, a parameter that
        is there twice, several devices, negative numbers, Nesterov without momentum, or an array
        whose gradient is being recorded. Nothing has been changed then.
    TypeError
        Leaves that are not arrays, integer parameters, gradients or velocities of another dtype.

    Notes
    -----
    The function is not differentiable.

    References
    ----------
    .. [1] Hinton, "Lecture 6e: rmsprop", 2012.

    Examples
    --------
    >>> import cudamath as cm
    >>> params, state = cm.ml.rmsprop_update([cm.array([1.0])], [cm.array([2.0])], lr=0.1)
    >>> params[0].round(4).item(), state[0].round(4).item()
    (0.0, 0.04)
    """
    name = "rmsprop_update"
    _at_least_zero(name, lr=lr, eps=eps, weight_decay=weight_decay)
    _fraction(name, alpha=alpha)
    return _one_state(
        name,
        _rmsprop,
        params,
        grads,
        state,
        lr,
        decay,
        factor,
        copies,
        weight_decay,
        alpha,
        1 - alpha,
        eps,
    )


def adagrad_update(
    params: Tree,
    grads: Tree,
    state: Tree | None = None,
    *,
    lr: Any = 0.01,
    eps: float = 1e-10,
    weight_decay: float = 0.0,
    decay: Tree | None = None,
    factor: float | ndarray | None = None,
    copies: Tree | None = None,
) -> tuple[Tree, Tree]:
    """Take one step of Adagrad, in place.

    The formulas are those of torch.optim.Adagrad (without decay of the learning rate):

    d = g + weight_decay p; v += d^2; p -= lr d / (sqrt(v) + eps)

    Parameters
    ----------
    params : tree of arrays without gaps, float16, bfloat16, float32 or float64
        Overwritten with the new values. Their axes may lie in memory in any order (channels last,
        say); states and copies have the same order. 16-bit ones are widened to float32, stepped
        and rounded.
    grads : tree of the same structure and shapes
        Only read. Of the parameters' dtypes; those of float32 parameters may be float16 or
        bfloat16.
    state : tree of mean squares, optional
        Tree of the sums of squares, from the last call. It is overwritten. None starts from zeros.
        The sums are float32 for float16 and bfloat16 parameters.
    lr : float, default 0.01
        Not negative.
    eps : float, default 1e-10
        Not negative.
    weight_decay : float, default 0.0
        Not negative.
    decay : function of a parameter, or tree of bool, optional
        Which parameters `weight_decay` applies to: `decay=lambda p: p.ndim > 1` spares biases.
        None: to all.
    factor : float or 0-d floating-point array, optional
        Gradients are multiplied by it as they are read: that of `clip_factor` or `amp.unscale`. NaN
        leaves the step out, on the device: nothing is written.
    copies : tree of the structure of params, optional
        Copies of float32 parameters in float16 or bfloat16, from `amp.cast`, that get the new
        values in the same pass. A leaf may be the parameter itself.

    Returns
    -------
    (params, state)
        The arrays that were passed.

    Raises
    ------
    ValueError
        Trees of different structure or shapes, arrays with gaps or read-only ones, a parameter that
        is there twice, several devices, negative numbers, Nesterov without momentum, or an array
        whose gradient is being recorded. Nothing has been changed then.
    TypeError
        Leaves that are not arrays, integer parameters, gradients or velocities of another dtype.

    Notes
    -----
    The function is not differentiable.

    References
    ----------
    .. [1] Duchi, Hazan and Singer, "Adaptive subgradient methods", 2011.

    Examples
    --------
    >>> import cudamath as cm
    >>> params, state = cm.ml.adagrad_update([cm.array([1.0])], [cm.array([2.0])], lr=0.1)
    >>> params[0].round(4).item(), state[0].item()
    (0.9, 4.0)
    """
    name = "adagrad_update"
    _at_least_zero(name, lr=lr, eps=eps, weight_decay=weight_decay)
    return _one_state(
        name, _rmsprop, params, grads, state, lr, decay, factor, copies, weight_decay, 1.0, 1.0, eps
    )


def lion_update(
    params: Tree,
    grads: Tree,
    state: Tree | None = None,
    *,
    lr: Any = 1e-4,
    betas: Sequence[float] = (0.9, 0.99),
    weight_decay: float = 0.0,
    decay: Tree | None = None,
    factor: float | ndarray | None = None,
    copies: Tree | None = None,
) -> tuple[Tree, Tree]:
    """Take one step of Lion, in place: every element moves by lr, in the direction of its sign.

    P = (1 - lr weight_decay) p - lr sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g.

    Parameters
    ----------
    params : tree of arrays without gaps, float16, bfloat16, float32 or float64
        Overwritten with the new values. Their axes may lie in memory in any order (channels last,
        say); states and copies have the same order. 16-bit ones are widened to float32, stepped
        and rounded.
    grads : tree of the same structure and shapes
        Only read. Of the parameters' dtypes; those of float32 parameters may be float16 or
        bfloat16.
    state : tree of mean squares, optional
        Tree of the moments m, from the last call. It is overwritten. None starts from zeros. The
        moments are float32 for float16 and bfloat16 parameters.
    lr : float, default 1e-4
        Not negative.
    betas : (float, float), default (0.9, 0.99)
        Each in [0, 1).
    weight_decay : float, default 0.0
        Not negative.
    decay : function of a parameter, or tree of bool, optional
        Which parameters `weight_decay` applies to: `decay=lambda p: p.ndim > 1` spares biases.
        None: to all.
    factor : float or 0-d floating-point array, optional
        Gradients are multiplied by it as they are read: that of `clip_factor` or `amp.unscale`. NaN
        leaves the step out, on the device: nothing is written.
    copies : tree of the structure of params, optional
        Copies of float32 parameters in float16 or bfloat16, from `amp.cast`, that get the new
        values in the same pass. A leaf may be the parameter itself.

    Returns
    -------
    (params, state)
        The arrays that were passed.

    Raises
    ------
    ValueError
        Trees of different structure or shapes, arrays with gaps or read-only ones, a parameter that
        is there twice, several devices, negative numbers, Nesterov without momentum, or an array
        whose gradient is being recorded. Nothing has been changed then.
    TypeError
        Leaves that are not arrays, integer parameters, gradients or velocities of another dtype.

    Notes
    -----
    The function is not differentiable.

    References
    ----------
    .. [1] Chen et al., "Symbolic discovery of optimization algorithms", 2023.

    Examples
    --------
    >>> import cudamath as cm
    >>> params, state = cm.ml.lion_update([cm.array([1.0, 1.0])], [cm.array([2.0, -3.0])], lr=0.1)
    >>> params[0].round(4).tolist(), state[0].round(4).tolist()
    ([0.9, 1.1], [0.02, -0.03])
    """
    name = "lion_update"
    _at_least_zero(name, lr=lr, weight_decay=weight_decay)
    beta1, beta2 = _two_fractions(name, betas)
    return _one_state(
        name,
        _lion,
        params,
        grads,
        state,
        lr,
        decay,
        factor,
        copies,
        weight_decay,
        beta1,
        1 - beta1,
        beta2,
        1 - beta2,
    )
