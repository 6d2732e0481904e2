"""`custom_vjp` and `custom_jvp`: functions with a user-defined gradient rule."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from ..core import batched, recording, trees
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.autograd import constants, tape
from ..core.autograd.backward import memory_owner
from ..core.devices import TRACED
from ..core.dispatch.checks import require_function
from ..core.dtypes import INEXACT
from ..core.levels import work
from ..core.scalar import NUMPY_SCALARS, as_arrays
from .recompute import closed_over
from .transforms import owned, stop_gradient, vjp

__all__ = ["custom_jvp", "custom_vjp"]


class _Call:
    """One call of a function with a rule: the residuals, the structures of the arguments, and which
    of their leaves are differentiated (`places`)."""

    __slots__ = ("rule", "residuals", "structures", "layouts", "places", "form", "outputs")

    def __init__(
        self,
        rule: custom_vjp,
        residuals: Any,
        structures: list,
        layouts: list,
        places: list[int],
        form: Any,
        outputs: list,
    ):
        self.rule, self.residuals, self.outputs = rule, residuals, outputs
        self.structures, self.layouts = structures, layouts
        self.places, self.form = places, form

    def arrays(self) -> list[Any]:
        """The residuals, which the rule will read."""
        return trees.flatten(self.rule.kind, self.residuals)[0]


class _Custom:
    """The op of these calls. Its only input is the call; its parents are the nodes of the
    arguments' arrays."""

    name = "custom_vjp"
    several = True
    broadcasts = False
    foreign = True  # its rule is the user's

    @staticmethod
    def vjp(g: list[ndarray | None], _y: Any, call: _Call) -> list[Any]:
        """Gradients at the parents, by the user's rule."""
        name = f"{call.rule.kind}: {call.rule.name}"
        full = [
            constants.full(layout.shape, 0, dtype=layout.dtype, device=layout_device)
            if each is None
            else owned(each)
            for each, (layout, layout_device) in zip(g, call.outputs, strict=True)
        ]
        returned = call.rule.backward(call.residuals, call.form.unflatten(full))  # type: ignore[misc]
        if not isinstance(returned, (tuple, list)) or len(returned) != len(call.structures):
            several = isinstance(returned, (tuple, list))
            result = f"{len(returned)}" if several else type(returned).__name__
            raise TypeError(
                f"{name}: the backward function must return a tuple of "
                f"{len(call.structures)} gradients, one an argument, got {result}"
            )
        leaves: list[Any] = []
        for number, (structure, each) in enumerate(zip(call.structures, returned, strict=True)):
            if each is None:
                leaves += [None] * structure.num_leaves
                continue
            try:
                leaves += structure.flatten_up_to(each)
            except ValueError:
                _, form = trees.flatten(call.rule.kind, each)
                raise ValueError(
                    f"{name}: the gradient of argument {number} has structure "
                    f"{form}, the argument {structure}"
                ) from None
        kept = {memory_owner(x) for x in call.arrays() if isinstance(x, ndarray)}
        gradients = []
        for place, layout in zip(call.places, call.layouts, strict=True):
            each = leaves[place]
            if each is not None and not isinstance(each, ndarray):
                each = asarray(each, layout.dtype, name=call.rule.kind)
            if each is not None and each.shape != layout.shape:
                raise ValueError(
                    f"{name}: a gradient must be {layout.dtype} of shape "
                    f"{layout.shape} like its argument, got {each.dtype} of shape {each.shape}"
                )
            if (
                isinstance(each, ndarray)
                and each._layout.device != TRACED
                and memory_owner(each) in kept
            ):
                each = each.copy()  # an argument, perhaps: who gets the gradient may change it
            gradients.append(each)
        return gradients


class custom_vjp:
    """A function of arrays whose gradient is computed by a rule of one's own; a decorator.

        @cm.custom_vjp
        def f(x, y): ...

        def forward(x, y): ...        -> (f(x, y), residuals)       residuals: any tree, what
                                      `backward` needs
        def backward(residuals, g): ...   -> (gradient of x, gradient of y)

        f.defvjp(forward, backward)

    Parameters
    ----------
    fn : callable
        Takes trees of arrays (and anything else, which is constant), by position, and returns a
        tree of arrays.

    Raises
    ------
    TypeError
        `fn`, `forward` or `backward` is not a function; a gradient is taken and no rule was set;
        `forward` or `backward` returns something of the wrong form; `fn` or `forward` closes over
        an array whose gradient is being recorded.
    ValueError
        Gradients whose structure or shapes differ from those of the arguments.

    Notes
    -----
    The rule is differentiated itself for higher orders: residuals depend on the arguments as
    `forward` computes them. Only arguments are differentiated: arrays that `fn` closes over are
    constants, and must be (`stop_gradient`).

    Examples
    --------
    >>> import cudamath as cm
    >>> @cm.custom_vjp
    ... def clipped(x, limit):
    ...     return x * 1.0
    >>> def forward(x, limit):
    ...     return clipped(x, limit), limit
    >>> def backward(limit, g):
    ...     return g.clip(-limit, limit), None
    >>> clipped.defvjp(forward, backward)
    >>> cm.grad(lambda x: (clipped(x, 1.0) ** 2).sum())(cm.array([0.25, 3.0])).tolist()
    [0.5, 1.0]
    """

    #: The public function that errors name.
    kind = "custom_vjp"

    def __init__(self, fn: Callable):
        require_function(self.kind, fn)
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = getattr(fn, "__name__", "the function")
        self.local = threading.local()
        self.forward: Callable | None = None
        self.backward: Callable | None = None

    def defvjp(self, forward: Callable, backward: Callable) -> None:
        """Set the rule of the gradient.

        Parameters
        ----------
        forward : callable
            Function ``forward(*args) -> (result, residuals)``.
        backward : callable
            Function ``backward(residuals, g) -> gradients``, which returns one gradient for each
            argument.
        """
        for what, rule in (("forward", forward), ("backward", backward)):
            require_function("custom_vjp", rule, f"a function as {what}")
        self.forward, self.backward = forward, backward

    def __call__(self, *args: Any) -> Any:
        leaves, _ = trees.flatten(self.kind, args)
        places = [i for i, x in enumerate(leaves) if isinstance(x, ndarray) and x._node is not None]
        if recording.state.paused or not (places or self.forward):
            return self.fn(*args)
        outside, _ = trees.flatten(self.kind, closed_over(self.fn) + closed_over(self.forward))
        for x in outside:
            if isinstance(x, ndarray) and x._node is not None:
                raise TypeError(
                    f"{self.kind}: {self.name} closes over {x.dtype} of shape {x.shape}, whose "
                    "gradient is being recorded and would be lost; make it an argument, or give "
                    "stop_gradient(x) if it is meant as a constant"
                )
        if not places:
            return self.fn(*args)
        if self.forward is None:
            raise TypeError(
                f"{self.kind}: {self.name} has no gradient rule; set one by "
                f"{self.name}.defvjp(forward, backward)"
            )
        replaced = None
        if batched.recorded(leaves):  # vmap: the physical arrays have gradients
            replaced = work.custom(self, args)
            if not any([tape.depends(leaves[i]) for i in places]):
                return replaced
        within = getattr(self.local, "within", 0)
        if recording.state.depth - within > 1:
            # The rule may be differentiated, so `forward` is recorded: the residuals depend on the
            # arguments. `forward` may call the function itself; that call is of one order less.
            self.local.within = within + 1
            try:
                pair = self.forward(*args)
            finally:
                self.local.within = within
        else:
            with recording.paused():
                pair = self.forward(*stop_gradient(args))
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(
                f"{self.kind}: {self.name}: the forward function must return a pair (result, "
                f"residuals), got {type(pair).__name__}"
            )
        result, residuals = pair
        result = result if replaced is None else replaced
        outputs, form = trees.flatten(self.kind, result)
        outputs = as_arrays(f"{self.kind}: {self.name}", outputs)
        call = _Call(
            self,
            residuals,
            [trees.flatten(self.kind, arg)[1] for arg in args],
            [leaves[i]._layout for i in places],
            places,
            form,
            [(y._layout, y.device) for y in outputs],
        )
        node = tape.node_of(
            _Custom,
            tuple([leaves[i]._node for i in places]),
            (call,),
            None,
            {},
            tuple([y._layout for y in outputs]),
        )
        results = []
        for index, y in enumerate(outputs):
            y = y._alias()  # a residual may be the result itself: it must not carry this node
            y._node = tape.Part(node, index) if y.dtype in INEXACT else None
            results.append(y)
        return form.unflatten(results)


class _Transposed(custom_vjp):
    """The gradient of a function with a rule for tangents."""

    kind = "custom_jvp"


class custom_jvp:
    """A function of arrays whose derivative is computed by a rule of one's own; a decorator.

        @cm.custom_jvp
        def f(x, y): ...

        def rule(primals, tangents): ...      -> (f(*primals), derivative in this direction)

        f.defjvp(rule)

    The derivative must be linear in the tangents: gradients are its transpose.

    Parameters
    ----------
    fn : callable
        Takes trees of arrays (and anything else, which is constant), by position, and returns a
        tree of arrays.

    Raises
    ------
    TypeError
        `fn` or `rule` is not a function; a derivative is taken and no rule was set; `rule` returns
        something of the wrong form; `fn` closes over an array whose gradient is being recorded.
    ValueError
        A derivative whose structure, shape or dtype differs from that of the result.

    Notes
    -----
    Tangents of constants are None; those of the others have their shapes and dtypes. The rule is
    differentiated itself for higher orders. Only arguments are differentiated: arrays that `fn`
    closes over are constants, and must be (`stop_gradient`).

    Examples
    --------
    >>> import cudamath as cm
    >>> @cm.custom_jvp
    ... def softplus(x):
    ...     return cm.log1p(cm.exp(x))
    >>> def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return softplus(x), t / (1 + cm.exp(-x))
    >>> softplus.defjvp(rule)
    >>> cm.grad(softplus)(0.0).item()
    0.5
    >>> cm.jvp(softplus, (cm.array(0.0),), (cm.array(2.0),))[1].item()
    1.0
    """

    def __init__(self, fn: Callable):
        require_function("custom_jvp", fn)
        functools.update_wrapper(self, fn)
        self._with_gradient = _Transposed(fn)
        self.rule: Callable | None = None

    def defjvp(self, rule: Callable) -> None:
        """Set the rule of the derivative.

        Parameters
        ----------
        rule : callable
            Function ``rule(primals, tangents) -> (result, derivative)`` of two tuples with one
            item for each argument.
        """
        require_function("custom_jvp", rule, "a function as rule")
        self.rule = rule
        fn = self._with_gradient.fn
        self._with_gradient.defvjp(lambda *args: (fn(*args), args), self._transpose)

    def __call__(self, *args: Any) -> Any:
        if self.rule is None and any(
            [getattr(x, "_node", None) is not None for x in trees.flatten("custom_jvp", args)[0]]
        ):
            name = self._with_gradient.name
            raise TypeError(
                f"custom_jvp: {name} has no rule of its derivative; set one by {name}.defjvp(rule)"
            )
        return self._with_gradient(*args)

    def _transpose(self, args: tuple, g: Any) -> tuple:
        """The gradients of the arguments: the transpose of the rule's derivative."""
        name = f"custom_jvp: {self._with_gradient.name}"
        assert self.rule is not None
        leaves, structure = trees.flatten("custom_jvp", args)
        # values without dimensions come as NumPy's
        leaves = [asarray(x, name="custom_jvp") if type(x) in NUMPY_SCALARS else x for x in leaves]
        places = [i for i, x in enumerate(leaves) if isinstance(x, ndarray) and x.dtype in INEXACT]
        cotangents, form = trees.flatten("custom_jvp", g)
        which = [i for i, y in enumerate(cotangents) if y.dtype in INEXACT]

        def derivative(*tangents: ndarray) -> list[ndarray]:
            full: list[Any] = [None] * len(leaves)
            for i, t in zip(places, tangents, strict=True):
                full[i] = t
            assert self.rule is not None
            pair = self.rule(structure.unflatten(leaves), structure.unflatten(full))
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(
                    f"{name}: the rule must return a pair (result, derivative), got "
                    f"{type(pair).__name__}"
                )
            try:
                parts: list[Any] = form.flatten_up_to(pair[1])
            except ValueError:
                _, other = trees.flatten("custom_jvp", pair[1])
                raise ValueError(
                    f"{name}: the derivative has structure {other}, the result {form}"
                ) from None
            outputs = as_arrays(name, [parts[i] for i in which])
            for i, y in zip(which, outputs, strict=True):
                if y.shape != cotangents[i].shape or y.dtype != cotangents[i].dtype:
                    raise ValueError(
                        f"{name}: the derivative must be {cotangents[i].dtype} of shape "
                        f"{cotangents[i].shape} like the result, got {y.dtype} of shape {y.shape}"
                    )
            return outputs

        zeros = [constants.full_like(leaves[i]._alias(), 0) for i in places]
        _, pull = vjp(derivative, *zeros)
        full: list[Any] = [None] * len(leaves)
        for i, each in zip(places, pull([cotangents[i] for i in which]), strict=True):
            full[i] = each
        return structure.unflatten(full)
