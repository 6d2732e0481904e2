"""Methods of ndarray in machine code, for programs that work on single elements and small arrays on
the CPU. They are compiled, which takes a tenth of a second, when a process has made some thousand
small operations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array import ndarray, when_often, wrap_plainly, wrap_with
from ..core.autograd import mutation
from ..core.dispatch.call_record import open_records
from ..core.dispatch.lazy_import import lazy
from ..core.fp_errors import quiet
from ..core.layout import Layout
from ..core.recording import insiders
from ..core.scalar import NUMPY_SCALARS
from . import subscript, ufunc

#: Operators, as `add` gets them: name of the method, form, the card's public function, the method
#: in Python.
_operators: list[tuple[str, str, Any, Callable]] = []


def add(name: str, form: str, card: Any, method: Callable) -> None:
    """Register an operator. form: "forward", "reflected", "inplace" or "unary"; card: an object
    with a `ufunc` and the operands for which the method is that ufunc, in `direct`."""
    _operators.append((name, form, card, method))


@functools.cache
def compile_methods() -> None:
    """Put the methods in machine code in the place of Python's, where that is possible: once."""
    kind = lazy("cpu", "lib.llvm_methods.Operator")
    native = lazy("cpu", "lib.llvm_methods.methods")(
        ndarray,
        Layout,
        scalars=_first(NUMPY_SCALARS, np.float64, np.int64),
        numbers=_first(subscript.ASSIGNED, float, int, np.float64),
        open_records=open_records,
        holders=mutation.holders,
        insiders=insiders,
        wrap=wrap_plainly,
        getitem=subscript.getitem,
        setitem=subscript.setitem,
        operators=[
            kind(name, form, card.ufunc, card.direct, method)
            for name, form, card, method in _operators
        ],
        directs={card.ufunc: card.direct for _, form, card, _ in _operators if form == "reflected"},
        array_ufunc=vars(ndarray)["__array_ufunc__"],
        context=quiet(),
    )
    if native is not None:
        wrap, runs, methods = native
        wrap_with(wrap)
        ufunc.use_runs(runs)
        for name, method in methods.items():
            setattr(ndarray, name, method)


def _first(kinds: Any, *common: type) -> list[type]:
    """Classes, the commonest first."""
    return [*common, *[kind for kind in kinds if kind not in common]]


when_often.append(compile_methods)
