"""NumPy's options of a ufunc: out, where, dtype, casting. `install` puts them on the card's
class."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtypes
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.autograd import mutation
from ..core.dispatch.call_record import open_records
from ..core.dispatch.checks import coerce
from ..core.dispatch.keyword_hints import refuse_keywords
from ..core.dispatch.op import apart
from ..core.dtypes import bfloat16, float16
from ..core.scalar import as_array
from ..core.shapes import order_letter
from .out_argument import allow, casting_rule, deliver, target_of
from .shape import in_order
from .ufunc import LOGICAL, SCALARS, Elementwise


def _call_with(
    self: Elementwise,
    operands: tuple,
    out: Any,
    where: Any,
    dtype: Any = None,
    casting: Any = "same_kind",
    order: Any = "K",
    subok: bool = True,
    signature: Any = None,
    **more: Any,
) -> ndarray:
    """The op with NumPy's options."""
    if out is ...:
        options = {"dtype": dtype, "casting": casting, "order": order, "signature": signature}
        return as_array(_call_with, (self, operands, None, where), {**options, **more})
    signature = more.pop("sig", signature)
    if more:
        refuse_keywords(self.name, more, ("x", "y"))
    letter = order_letter(self.name, order, "K")
    if letter in "CFA" and out is None:
        result = _call_with(self, operands, out, where, dtype, casting, "K", subok, signature)
        arrays = [
            x if isinstance(x, ndarray) else np.asarray(x)
            for x in operands
            if type(x) not in SCALARS
        ]
        columns = letter == "F" or letter == "A" and all([x.flags.f_contiguous for x in arrays])
        return in_order(self.name, result, "F" if columns else "C")
    if (
        dtype is not None
        or signature is not None
        or casting_rule(self.name, casting) != "same_kind"
    ):
        operands = self._in_dtype(operands, dtype, casting, signature)
    if out is None:
        if (
            where is not True
            # a gradient rule may give NaN at what is left out, 0 / 0 for log(0): this choice
            # drops it
        ):
            operands = tuple(
                [
                    x if getattr(x, "_node", None) is None else self._choose(where, x, 0)
                    for x in operands
                ]
            )
        result = self(*operands)
        if where is True:
            return result
        base: Any = False  # a zero of any dtype
    else:
        target = base = target_of(self.name, out)
        if any([getattr(x, "_node", None) is not None for x in (*operands, target)]):
            raise RuntimeError(
                f"{self.name}: out= would write into an array where a gradient is being "
                "recorded; take the "
                "result instead"
            )
        if where is True and operands[0] is target and casting == "same_kind" and not open_records:
            result = self.call(operands, target=target)
            mutation.wrote(target)
            return result
        result = self(*operands)
        if not isinstance(result, ndarray):  # of numbers alone: NumPy's number
            result = asarray(result, device=target.device)
        allow(self.name, result, target, casting)  # before the shapes, as NumPy
        if result.ndim <= target.ndim and result.shape != target.shape:
            from .shape import _broadcast_as

            result = _broadcast_as(self.name, result, target.shape)
    if where is not True:
        from .where import _where_into

        if (
            out is not None
            and isinstance(where, ndarray)
            and result._layout.dtype is target._layout.dtype
            and (
                result._layout.device == where._layout.device == target._layout.device >= 0
                and target._layout.size
                and where._layout.dtype == np.bool_
                and result.shape == where.shape == target.shape
                and apart(target, where)
            )
        ):
            mutation.wrote(target)  # written where it lies
            _where_into(target, where, result)
            return target
        if (
            out is not None and result.dtype != target.dtype
        ):  # judged as it is, before the choice promotes it
            allow(self.name, result, target, casting)
            result = result.astype(target.dtype)
        result = self._choose(where, result, base)
    return result if out is None else deliver(self.name, result, target, casting)


def _choose(self: Elementwise, where: Any, x: Any, y: Any) -> ndarray:
    """`where(where, x, y)` in this op's name."""
    from .where import where as choose

    try:
        return choose(where, x, y)
    except (
        TypeError,
        ValueError,
        OverflowError,
    ) as error:  # what is no array, shapes, integers beyond 64 bits
        raise type(error)(f"{self.name}: {error}") from None


def loop_dtypes(name: str, count: int, dtype: Any, signature: Any) -> tuple[np.dtype | None, ...]:
    """The dtypes of so many operands and of the result that are wanted by NumPy's `dtype` and
    `signature`; None where any will do."""
    if signature is None:
        return (*[None] * count, None if dtype is None else dtypes.as_dtype(dtype, name))
    if dtype is not None:
        raise TypeError(f"{name}: cannot specify both signature and dtype")
    if isinstance(signature, str) and "->" in signature:
        kinds = [*signature.replace("->", "")]
    else:
        kinds = [*signature] if isinstance(signature, tuple | list) else [signature]
        kinds = [*[None] * count, *kinds] if len(kinds) == 1 else kinds
    if len(kinds) != count + 1:
        raise ValueError(
            f"{name}: a signature has {count + 1} dtypes, got {len(kinds)} in {signature!r}"
        )
    return tuple([None if kind is None else dtypes.as_dtype(kind, name) for kind in kinds])


def _in_dtype(
    self: Elementwise, operands: tuple, dtype: Any, casting: Any, signature: Any
) -> tuple:
    """The operands cast, where NumPy's rule allows it, to what the op takes, to return a given
    dtype."""
    from .shape import converted

    def seen(d: np.dtype) -> np.dtype:
        return float16 if d == bfloat16 else d

    def kind_of(x: Any) -> np.dtype:
        """The dtype of an operand, for a Python number the one it is converted to: NumPy 2.4's
        resolve_dtypes may end the process where it refuses a Python number."""
        if isinstance(x, ndarray):
            return seen(x.dtype)
        if type(x) is bool:
            return np.dtype(bool)
        if wanted is not None and dtypes.result_type(wanted, x) == wanted:
            return seen(wanted)
        return seen(common)

    loop = loop_dtypes(self.name, len(operands), dtype, signature)
    wanted = loop[-1] or next((kind for kind in loop if kind is not None), None)
    if self.ufunc in LOGICAL:  # 256 is no uint8 0
        operands = tuple([bool(x) if type(x) in SCALARS else x for x in operands])
    arrays = [x if type(x) in SCALARS else coerce(self.name, (x,))[0] for x in operands]
    common = dtypes.result_type(*arrays)
    try:
        *inputs, _ = self.ufunc.resolve_dtypes(
            (*map(kind_of, arrays), None),
            casting=casting,
            signature=tuple([None if kind is None else seen(kind) for kind in loop]),
        )
    except TypeError:
        asked = "" if wanted is None else f" in dtype {wanted}"
        raise TypeError(
            f"{self.name}: cannot compute{asked} by the rule {casting!r} on operands of "
            + " and ".join(str(getattr(x, "dtype", type(x).__name__)) for x in arrays)
        ) from None
    if wanted is None:
        return operands
    inputs = [wanted if d == float16 and wanted == bfloat16 else d for d in inputs]
    alone = all([type(x) in SCALARS for x in arrays])

    def cast(x: Any, d: np.dtype) -> Any:
        if (
            type(x) in SCALARS and dtypes.result_type(d, x) == d
        ):  # stays a number beside an array, which must hold it
            return asarray(x, d, name=self.name) if alone else x
        return converted(coerce(self.name, (x,))[0], d)

    return tuple(map(cast, arrays, inputs))


def install() -> None:
    """Put the methods of this file on the card's class."""
    methods = {"call_with": _call_with, "_choose": _choose, "_in_dtype": _in_dtype}
    for name, method in methods.items():
        setattr(Elementwise, name, method)
