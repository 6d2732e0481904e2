"""How special functions are defined: a card whose scalar expression is one call of a scalar
function of core/specs/special, a gradient by a formula, and a docstring.

In the gradient expressions g is the gradient of the result `out`, and x, y, z, x3 are the inputs.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.dispatch.op import ANY, REAL_OR_BOOL
from ..ops import ufunc
from ..ops.where import where as choose
from ..runtime.errors import shown_as

#: The ufuncs whose dtype rules the cards follow, by the number of inputs.
_RULES = {1: np.exp, 2: np.multiply, 3: np.multiply, 4: np.multiply}


class SpecialFunction(ufunc.Elementwise):
    """Floating-point numbers keep their dtype, others give the default one. Either is computed in
    float64."""

    def resolved(self, operands: tuple, common: np.dtype) -> tuple[np.dtype, np.dtype]:
        dtype = common if common in dtypes.INEXACT else dtypes.default_float()
        return dtype, dtype


def card(
    name: str, count: int, gradients: Sequence[str] | None, namespace: Mapping[str, Any]
) -> SpecialFunction:
    """A card without a public function: what gradients are made of."""
    return SpecialFunction(
        name,
        _RULES[count],
        _call(name, count),
        None if gradients is None else tuple(gradients),
        REAL_OR_BOOL,
        f"special.{name}",
        namespace,
        nin=count,
    )


def complex_card(
    name: str, gradients: Sequence[str], namespace: Mapping[str, Any]
) -> SpecialFunction:
    """A card of complex numbers alone, of the scalar functions NAME_real and NAME_imaginary."""
    cpu = {"c": f"complex_special.{name}"}
    return SpecialFunction(
        name, np.exp, _of_complex(name), tuple(gradients), dtypes.COMPLEX, cpu, namespace, nin=1
    )


def _of_complex(name: str) -> dict[str, str]:
    parts = [f"special_{name}_{part}(x.real, x.imag)" for part in ("real", "imaginary")]
    return {"c": f"make({', '.join(parts)})"}


def no_gradient(name: str, by: str) -> ndarray:
    """In the place of a gradient that there is no formula of."""
    raise TypeError(f"{name}: has no gradient with respect to {by}")


def define(
    name: str,
    inputs: str,
    gradients: Sequence[str] | None,
    summary: str,
    example: str,
    value: str,
    *,
    namespace: Mapping[str, Any],
    formula: str = "",
    gradient: str = "",
    domain: str = "",
    complex: bool = False,
) -> Callable[..., ndarray]:
    """A public function. inputs: the names of its arguments in SciPy, with spaces between.

    summary: the first line of its docstring; formula: a line below; gradient: the derivative in
    words; domain: what holds outside of it; example: a call whose result is `value`.
    """
    names = tuple(inputs.split())
    count = len(names)
    options: dict[str, Any] = {
        "category": REAL_OR_BOOL,
        "cpu": f"special.{name}",
        "doc": "",
        "namespace": namespace,
        "kind": SpecialFunction,
    }
    expressions = None if gradients is None else tuple(gradients)
    function: Any
    if count == 1:
        only = None if expressions is None else expressions[0]
        expression: Any = _call(name, 1)
        if complex:
            expression = {"": expression, **_of_complex(name)}
            options["category"] = ANY
            options["cpu"] = {"f": options["cpu"], "c": f"complex_special.{name}"}
        function = ufunc.unary(name, np.exp, expression, only, **options)
    elif count == 2:
        function = ufunc.binary(name, np.multiply, _call(name, 2), expressions, **options)  # type: ignore[arg-type]
    else:
        function = _of_several(card(name, count, expressions, namespace), count)
    parameters = inspect.signature(function).parameters.values()
    kinds = inspect.Parameter
    own = [kinds(n, kinds.POSITIONAL_ONLY, annotation="ArrayLike") for n in names]
    function.__signature__ = inspect.Signature(
        [*own, *list(parameters)[count:]], return_annotation="ndarray"
    )
    function.__annotations__ = {
        **dict.fromkeys(names, "ArrayLike"),
        **{n: a for n, a in function.__annotations__.items() if n not in "xyz"},
    }
    rest = (
        "The result has no gradient."
        if gradients is None
        else f"Gradient: {gradient or ', '.join(f'``{e}``' for e in expressions or ())}."
    )
    notes = textwrap.fill(f"{rest} The function is deterministic.", 96)
    text = [summary, ""]
    if formula:
        text += [formula, ""]
    text += ["Parameters", "----------", f"{', '.join(names)} : array_like"]
    which = "Real array" if not complex else "Array of real or complex numbers"
    text += [f"    {which}{'s whose shapes broadcast' if count > 1 else ' of any shape'}."]
    text += _OPTIONS if count < 3 else _OPTIONS[:5]
    text += ["", "Returns", "-------", "ndarray"]
    told = "Array of the dtype of the arguments together, of the default one for whole numbers. "
    told += f"It is computed in float64. {domain}"
    text += textwrap.wrap(told, 92, initial_indent="    ", subsequent_indent="    ")
    text += [
        "",
        "Raises",
        "------",
        "TypeError",
        f"    An argument is {'' if complex else 'complex or '}no array of numbers.",
    ]
    if count > 1:
        text += ["ValueError", "    The shapes do not broadcast."]
    text += ["", "Notes", "-----", notes, "", "Examples", "--------"]
    text += [">>> import cudamath as cm", f">>> {example}", value, ""]
    function.__doc__ = "\n".join(text)
    return function


_OPTIONS = """out : ndarray, optional
    Array that receives the result.
where : array_like, default True
    Bool array that broadcasts and selects the elements to compute. The others keep the values of
    `out`, or are 0 without `out`.
dtype : dtype_like, optional
    Dtype of the computation.
casting : str, default "same_kind"
    NumPy's rule for the conversions between the operands, the computation and the result.
order : str, default "K"
    Order of the result in memory: "F", or "A" for Fortran's order if all operands have it.
    Otherwise C order.
subok : bool, default True
    Accepted for compatibility with NumPy. There are no subclasses.
signature : str or tuple of dtype_like, optional
    Dtypes of the operands and the result, such as "dd->d".""".splitlines()


def _call(name: str, count: int) -> str:
    return f"special_{name}({', '.join(('x', 'y', 'z', 'x3')[:count])})"


def _of_several(made: SpecialFunction, count: int) -> Callable[..., ndarray]:
    """The function of a card of three or four inputs."""

    def of_three(x: Any, y: Any, z: Any, /, out: Any = None, *, where: Any = True) -> ndarray:
        if out is None and where is True:
            return made(x, y, z)
        return made.call_with((x, y, z), out, where)

    def of_four(
        x: Any, y: Any, z: Any, w: Any, /, out: Any = None, *, where: Any = True
    ) -> ndarray:
        if out is None and where is True:
            return made(x, y, z, w)
        return made.call_with((x, y, z, w), out, where)

    function: Any = of_three if count == 3 else of_four
    function.__name__ = function.__qualname__ = made.name
    shown_as(made.name, function)
    function.__module__ = made.namespace["__name__"]
    function.card = made
    return function


def unless_zero(x: ndarray) -> ndarray:
    """x, and 1 where it is 0: a divisor in gradients that choose another value there."""
    return choose(x == 0, 1, x)
