"""Which of Numba's functions takes which types, in less time: `install`.

Kernels ask for that thousands of times. Each question whether a type is of a class went through
Python's abstract classes, and the first one for each class and subclass through all subclasses of
that class; implementations were compared one after the other by what their arguments' hashes and
keys say; templates were put in the order of targets also where there is one; the loops of NumPy's
functions were searched for an operator's types each time.
"""

from __future__ import annotations

from typing import Any


def install(metaclass: type, base: Any, core: Any, context: Any, support: Any, *users: Any) -> None:
    """Let Numba's modules take it. metaclass: of types; users: of
    `support.ufunc_find_matching_loop`."""
    _ask_classes_plainly(metaclass)
    _select_quickly(base.OverloadSelector, base.types)
    _order_if_several(core, context)
    _remember_loops(support, *users)


def _ask_classes_plainly(metaclass: Any) -> None:
    """No class of types has other subclasses than those that name it as their base."""
    metaclass.__instancecheck__ = type.__instancecheck__
    metaclass.__subclasscheck__ = type.__subclasscheck__


def _select_quickly(selector: Any, types: Any) -> None:
    kind, anything, many = types.Type, types.Any, types.VarArg

    def takes(formal: Any, actual: Any) -> bool:
        """`OverloadSelector._match`."""
        if formal is actual:
            return True
        if not isinstance(formal, type):
            return formal == actual or formal == anything
        if not issubclass(formal, kind):
            return False
        return (
            issubclass(actual, formal) if isinstance(actual, type) else isinstance(actual, formal)
        )

    def match_all(self: Any, formal_args: tuple, actual_args: tuple) -> bool:
        count = len(actual_args)
        if formal_args and isinstance(formal_args[-1], many):
            more = count - len(formal_args) + 1
            formal_args = formal_args[:-1] + (formal_args[-1].dtype,) * more
        if len(formal_args) != count:
            return False
        for formal, actual in zip(formal_args, actual_args, strict=True):
            if not takes(formal, actual):
                return False
        return True

    selector._match_arglist = match_all


def _order_if_several(core: Any, context: Any) -> None:
    """A template for all targets that is alone is in order. core: `numba.core.utils`; context:
    `numba.cuda.typing.context`, which orders those of attributes by a function of its own."""
    order, order_attributes = core.order_by_target_specificity, context.order_by_target_specificity

    def is_in_order(templates: Any) -> bool:
        return len(templates) == 1 and "target" not in getattr(templates[0], "metadata", ())

    def ordered(target: Any, templates: Any, fnkey: Any = "") -> Any:
        return [*templates] if is_in_order(templates) else order(target, templates, fnkey)

    def ordered_attributes(templates: Any, fnkey: Any = "") -> Any:
        return templates if is_in_order(templates) else order_attributes(templates, fnkey)

    core.order_by_target_specificity = ordered
    context.order_by_target_specificity = ordered_attributes


def _remember_loops(support: Any, *users: Any) -> None:
    find = support.ufunc_find_matching_loop
    known: dict[tuple, Any] = {}

    def found(ufunc: Any, types: Any) -> Any:
        key = (ufunc, *types)
        if key not in known:
            known[key] = find(ufunc, types)
        return known[key]

    for module in (support, *users):
        module.ufunc_find_matching_loop = found
