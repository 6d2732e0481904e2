"""Gives ndarray its operators and methods: the functions of this room, by the names NumPy users
expect."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from math import prod
from types import ModuleType
from typing import Any

import numpy as np
import optree

from ..core import asarray as core_asarray
from ..core.array import ReadOnly, ndarray, refuse_read_only, when_often, wrap_plainly, wrap_with
from ..core.autograd import mutation
from ..core.bounded_cache import store
from ..core.cpu_pool import SMALLEST
from ..core.devices import CPU
from ..core.dispatch import replanning
from ..core.dispatch.call_record import open_records
from ..core.dispatch.checks import members
from ..core.dispatch.fast_path import fast_path
from ..core.dispatch.lazy_import import lazy
from ..core.dtypes import COMPLEX, forget
from ..core.elements import lent, settle
from ..core.fp_errors import quiet
from ..core.interop import methods as interop_methods
from ..core.interop.array_api_namespace import Namespace
from ..core.layout import Layout
from ..core.other_names import METHODS, Elsewhere
from ..core.recording import insiders
from ..core.scalar import NUMPY_SCALARS
from ..core.shapes import as_integer, normalize_axis
from ..core.typing import ArrayLike, File
from ..runtime.errors import shown_as
from ..runtime.files import naming, whole_file
from ..runtime.interrupts import context_manager
from ..runtime.memory import Buffer
from . import (
    array_methods,
    elementwise,
    elementwise_numpy,
    index,
    integers,
    join_numpy,
    masks,
    reduce,
    scan,
    search,
    select,
    shape,
    sort,
    subscript,
    transfer,
    ufunc_methods,
    ufunc_options,
)
from .creation import full
from .flat import Flat
from .join import repeat, stack
from .linalg import products as linalg_products
from .out_argument import deliver, target_of
from .ufunc import use_runs
from .updates import At

_package: ModuleType  # the public namespace
_standard: Namespace  # and that of the array API
_NUMBERS = (bool, int, float, complex, np.ndarray, np.generic, list, tuple, range, np.poly1d)


def _takes(other: Any) -> bool:
    """Whether an operator accepts this operand; what it does not know, or what claims a higher
    priority (as NumPy's protocol has it), gets its own turn (NotImplemented)."""
    return (
        isinstance(other, _NUMBERS)
        or hasattr(other, "__dlpack__")
        or hasattr(other, "__cuda_array_interface__")
        or (
            getattr(type(other), "__array_ufunc__", None) is not None  # it computes itself
            and not getattr(other, "__array_priority__", 0) > ndarray.__array_priority__
        )
    )


def _not_taken(x: ndarray, y: Any) -> Any:
    """What an operator returns for an operand that is not its own."""
    return NotImplemented


def _operator(function: Callable, otherwise: Callable = _not_taken) -> tuple[Callable, Callable]:
    """(x op y, y op x) from a two-input function whose first operand is an ndarray. otherwise: the
    result of (x, y) for a y that the function does not take."""
    if not hasattr(function, "card"):
        squares = function is elementwise.pow

        def forward(
            x: ndarray, y: Any, modulus: Any = None
        ) -> Any:  # the third argument is of Python's pow
            if y.__class__ is int and y == 2 and squares and modulus is None:
                if x._layout.dtype.kind in "fiuc":
                    return elementwise.square(x)
            if modulus is not None:
                raise TypeError(
                    f"{function.__name__}: no power of arrays is taken modulo a number, got "
                    f"{modulus!r:.60} for "
                    f"{x.dtype} of shape {x.shape}"
                )
            if isinstance(y, ndarray):
                if x._layout.device == CPU and function is linalg_products.matmul:
                    _Product.learn(x, y)
                return function(x, y)
            return function(x, y) if _takes(y) else NotImplemented

        def reflected(x: ndarray, y: Any) -> Any:
            return function(y, x) if _takes(y) else NotImplemented
    else:
        card = function.card
        plans, record = card.plans, elementwise.ufunc.tape.record

        def forward(x: ndarray, y: Any) -> Any:  # type: ignore[misc]  # the public function, one frame less
            if open_records:
                return card.call((x, y)) if isinstance(y, ndarray) or _takes(y) else otherwise(x, y)
            try:
                if isinstance(y, ndarray):
                    layout = x._layout
                    run = plans[layout] if layout is y._layout else plans[layout, y._layout]
                else:
                    out = plans[x._layout, type(y)](x, y)
                    if x._node is not None:
                        record(card, (x, y), out, {})
                    return out
            except KeyError:
                return card.call((x, y)) if isinstance(y, ndarray) or _takes(y) else otherwise(x, y)
            out = run(x, y)
            if x._node is not None or y._node is not None:
                record(card, (x, y), out, {})
            return out

        def reflected(x: ndarray, y: Any) -> Any:
            if open_records:
                return function(y, x) if _takes(y) else NotImplemented
            try:
                out = plans[type(y), x._layout](y, x)
            except KeyError:
                return function(y, x) if _takes(y) else NotImplemented
            if x._node is not None:
                record(card, (y, x), out, {})
            return out

    return shown_as(function.__name__, forward), shown_as(function.__name__, reflected)


def _same_everywhere(answer: bool) -> Callable:
    """`x == y` or `x != y` for a y that equals no number (None, a text, an object without an
    equality of its own): the answer for each element."""

    def compare(x: ndarray, y: Any) -> Any:
        kind = type(y)
        if kind.__module__ != "builtins" and kind.__eq__ is not object.__eq__:
            return NotImplemented
        return full(x.shape, answer, np.bool_, device=x.device)

    return compare


def _inplace(function: Callable, symbol: str) -> Callable:
    def assign(x: ndarray, y: Any) -> Any:
        if x._node is not None or getattr(y, "_node", None) is not None:
            raise RuntimeError(
                f"{function.__name__}: `{symbol}=` on an array whose gradient is being recorded "
                "would change "
                f"a value the gradient needs; write x = x {symbol} y"
            )
        if x._owner.__class__ is ReadOnly:
            refuse_read_only(function.__name__, x)
        if plans is None:
            return function(x, y, out=x)
        if open_records:  # the result is reported before it is written
            return function(x, y, out=x)
        try:
            if open_records:
                raise KeyError
            if not isinstance(y, ndarray):
                run = plans[x._layout, type(y), True]
            elif (
                x._layout.device == CPU
                or (x._owner is not y._owner and type(x._owner) is type(y._owner) is Buffer)
                or (x._layout is y._layout and x._data == y._data)
            ):
                run = plans[x._layout, y._layout, True]
            else:
                raise KeyError
        except (
            KeyError
        ):  # also operands on a GPU that may overlap, and records: `call` sees to them
            x = function.card.call((x, y), target=x)  # type: ignore[attr-defined]
        else:
            if lent:
                settle(x)
            run(x, y)
        if holders:  # not before: what is refused has changed nothing
            mutation.wrote(x)
        return x

    plans, holders = function.card.plans if hasattr(function, "card") else None, mutation.holders

    return shown_as(function.__name__, assign)


_ARITHMETIC = {
    "add": (elementwise.add, "+"),
    "sub": (elementwise.subtract, "-"),
    "mul": (elementwise.multiply, "*"),
    "truediv": (elementwise.divide, "/"),
    "floordiv": (elementwise.floor_divide, "//"),
    "mod": (elementwise.remainder, "%"),
    "pow": (elementwise.pow, "**"),
    "matmul": (linalg_products.matmul, "@"),
    "and": (elementwise.bitwise_and, "&"),
    "or": (elementwise.bitwise_or, "|"),
    "xor": (elementwise.bitwise_xor, "^"),
    "lshift": (elementwise.bitwise_left_shift, "<<"),
    "rshift": (elementwise.bitwise_right_shift, ">>"),
}
_COMPARISONS = {
    "eq": elementwise.equal,
    "ne": elementwise.not_equal,
    "lt": elementwise.less,
    "le": elementwise.less_equal,
    "gt": elementwise.greater,
    "ge": elementwise.greater_equal,
}


def _array_ufunc(
    self: ndarray, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any
) -> Any:
    """np.sin(x), np.add(x, y), np.add.reduce(x) on our arrays: our function of that name, on the
    device. Where NumPy's array is to be written (`a += x`), NumPy computes, if x is on the CPU."""
    if out is not None and all(isinstance(y, np.ndarray) for y in out):
        given = (*inputs, *kwargs.values())
        if all(x._layout.device == CPU for x in given if isinstance(x, ndarray)):
            inputs = tuple([np.asarray(x) if isinstance(x, ndarray) else x for x in inputs])
            named = {k: np.asarray(x) if isinstance(x, ndarray) else x for k, x in kwargs.items()}
            return getattr(ufunc, method)(*inputs, out=out, **named)
    function = _BY_UFUNC.get(ufunc)
    if function is not None and method == "__call__" and out is None and not kwargs:
        if len(inputs) == 2 and inputs[1] is self and inputs[0].__class__ in NUMPY_SCALARS:
            plans = function.card.plans if hasattr(function, "card") else {}
            run = plans.get((inputs[0].__class__, self._layout))
            if run is not None and self._node is None and not open_records:
                return run(*inputs)  # an element times an array
        return function(*inputs)
    if function is None or kwargs.pop("order", "K") not in ("K", "C"):
        return NotImplemented
    if out is not None:
        for y in out:
            if isinstance(y, np.ndarray):
                target_of(function.__name__, y)  # says that it cannot be written into
            if y is not None and not isinstance(y, ndarray):
                return NotImplemented
        kwargs["out"] = out[0] if len(out) == 1 else out
    if method != "__call__":
        function = getattr(function, method, None)
        return NotImplemented if function is None else function(*inputs, **kwargs)
    if kwargs.get("casting") == "same_kind":
        del kwargs["casting"]
    if not hasattr(function, "card") and "out" in kwargs and function not in _WITH_OUT:
        return (
            deliver(ufunc.__name__, function(*inputs), kwargs["out"])
            if len(kwargs) == 1
            else NotImplemented
        )
    return function(*inputs, **kwargs)


def _array_function(self: ndarray, func: Callable, types: Any, args: Any, kwargs: Any) -> Any:
    """np.concatenate([x, y]), np.sum(x), ...: our function of that name, on the device. What only
    looks at values (np.save, np.array2string) gets them on the host; for all else NumPy raises
    TypeError."""
    if func in _ABOUT:
        return _ABOUT[func](*args, **kwargs)
    if func in _LOOKING:
        args, kwargs = optree.tree_map(
            lambda a: a._alias().to_numpy() if isinstance(a, ndarray) else a,
            (args, kwargs),  # type: ignore
        )
        return func(*args, **kwargs)
    space: Any = _package
    for part in func.__module__.split(".")[1:]:
        space = getattr(space, part, None)
    function = getattr(space, func.__name__, None)
    return NotImplemented if function is None else function(*args, **kwargs)


def _broadcast_arrays(*arrays: Any, subok: bool = False) -> tuple[Any, ...]:
    """np.broadcast_arrays, in which matplotlib's bars have None and names beside numbers: those
    stay NumPy's."""
    together = np.broadcast_shapes(*map(np.shape, arrays))
    out: list[Any] = []
    for a in arrays:
        try:
            out.append(shape.broadcast_to(a, together))
        except TypeError:
            out.append(np.broadcast_to(a, together))
    return tuple(out)


def _namespace(self: ndarray, *, api_version: str | None = None) -> Any:
    """The array API namespace: this package, with arrays as results."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise ValueError(f"__array_namespace__: unknown version {api_version!r} of the array API")
    return _standard


_BY_UFUNC: dict[np.ufunc, Callable] = {
    f.card.ufunc: f
    for space in (elementwise, integers, elementwise_numpy)
    for f in vars(space).values()
    if hasattr(f, "card") and not isinstance(f.card.cpu, str)
}
_WITH_OUT = {
    elementwise.pow,
    elementwise.conj,
    elementwise_numpy.fabs,
    elementwise_numpy.float_power,
    elementwise_numpy.divmod,
    elementwise_numpy.modf,
    elementwise_numpy.ldexp,
    elementwise_numpy.frexp,
    elementwise_numpy.spacing,
}
_ABOUT: dict[Callable, Callable] = {
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.size: lambda x, axis=None: x.size if axis is None else x.shape[axis],
    np.broadcast_arrays: _broadcast_arrays,
}
_LOOKING = {
    np.save,
    np.savez,
    np.savez_compressed,
    np.savetxt,
    np.array2string,
    np.array_repr,
    np.array_str,
}
_BY_UFUNC |= {
    np.power: elementwise.pow,
    np.conjugate: elementwise.conj,
    np.matmul: linalg_products.matmul,
    np.vecdot: linalg_products.vecdot,
    np.fabs: elementwise_numpy.fabs,
    np.float_power: elementwise_numpy.float_power,
    np.divmod: elementwise_numpy.divmod,
    np.modf: elementwise_numpy.modf,
    np.ldexp: elementwise_numpy.ldexp,
    np.frexp: elementwise_numpy.frexp,
    np.spacing: elementwise_numpy.spacing,
    np.matvec: linalg_products.matvec,
    np.vecmat: linalg_products.vecmat,
    np.deg2rad: elementwise_numpy.radians,
    np.rad2deg: elementwise_numpy.degrees,
}


def install(package: ModuleType) -> None:
    """Put operators and methods on the class. package: the public namespace, which arrays name as
    theirs."""
    global _package, _standard
    _package, _standard = package, Namespace(package)
    for name, (function, symbol) in _ARITHMETIC.items():
        forward, reflected = _operator(function)
        _install_operator(f"__{name}__", "forward", function, forward)
        _install_operator(f"__r{name}__", "reflected", function, reflected)
        _install_operator(f"__i{name}__", "inplace", function, _inplace(function, symbol))
    for name, method in zip(
        ("__divmod__", "__rdivmod__"), _operator(elementwise_numpy.divmod), strict=True
    ):
        setattr(ndarray, name, method)
    answers = {"eq": _same_everywhere(False), "ne": _same_everywhere(True)}
    for name, function in _COMPARISONS.items():
        operator = _operator(function, answers.get(name, _not_taken))
        _install_operator(f"__{name}__", "forward", function, operator[0])
    unary = {
        "neg": elementwise.negative,
        "pos": elementwise.positive,
        "abs": elementwise.abs,
        "invert": elementwise.bitwise_invert,
    }
    for name, one in unary.items():
        _install_operator(f"__{name}__", "unary", one, one)
    methods = {
        **{
            name: getattr(reduce, name)
            for name in (
                "sum",
                "prod",
                "mean",
                "var",
                "std",
                "min",
                "max",
                "argmin",
                "argmax",
                "any",
                "all",
            )
        },
        **{
            name: getattr(shape, name)
            for name in ("ravel", "flatten", "swapaxes", "squeeze", "astype")
        },
        "reshape": shape.reshaped,
        "copy": shape.copied,
        "byteswap": array_methods.byteswap,
        "resize": array_methods.resize,
        "setflags": array_methods.setflags,
        "dump": array_methods.dump,
        "dumps": array_methods.dumps,
        "_construct": staticmethod(array_methods.construct),
        "transpose": _transpose,
        "take": index.take,
        "nonzero": masks.nonzero,
        "fill": transfer.fill,
        "clip": array_methods.clipped,
        "round": elementwise.round,
        "conj": array_methods.conjugated,
        "dot": linalg_products.dot,
        "argsort": sort.argsort,
        "argpartition": sort.argpartition,
        "sort": _sort,
        "partition": _partition,
        "cumsum": scan.cumsum,
        "cumprod": scan.cumprod,
        "searchsorted": search.searchsorted,
        "put": index.put,
        "repeat": repeat,
        "compress": _compress,
        "choose": _choose,
        "diagonal": shape.diagonal,
        "trace": join_numpy.trace,
        "conjugate": array_methods.conjugated,
        "view": shape.view,
        "tofile": _tofile,
        "__bytes__": ndarray.tobytes,
        "__getitem__": subscript.getitem,
        "__setitem__": subscript.setitem,
        "__delitem__": subscript.delitem,
        "__iter__": subscript.elements,
        "_to": transfer.to_device,
        "_stack": staticmethod(stack),
        "copy_to": transfer.copy_to,
        "__array_ufunc__": _array_ufunc,
        "__array_function__": _array_function,
        "__array_namespace__": _namespace,
    }
    for name, method in methods.items():
        # Python's own errors tell which method was called
        if method.__name__.startswith("_") or method.__module__ == subscript.__name__:
            method.__name__, method.__qualname__ = name, f"ndarray.{name}"
            shown_as(name, method)
        setattr(ndarray, name, method)
    views = {"T": shape.turned, "mT": shape.matrix_transpose}
    for name, getter in views.items():
        setattr(ndarray, name, property(getter, doc=(getter.__doc__ or " ").splitlines()[0]))
    for name, part in (("real", transfer.real), ("imag", transfer.imag)):
        setattr(
            ndarray,
            name,
            property(
                part, functools.partial(_set_part, part), doc=(part.__doc__ or " ").splitlines()[0]
            ),
        )
    ndarray.shape = ndarray.shape.setter(_set_shape)  # type: ignore[attr-defined, method-assign]
    ndarray.flat = property(  # type: ignore[attr-defined]
        Flat,
        lambda x, value: Flat(x).__setitem__(..., value),
        doc="The elements in C order: iterate, index with one number, slice or array, assign.",
    )
    ndarray.at = property(  # type: ignore[attr-defined]
        At,
        doc="Updates that return a new array: `x.at[key].set(values)`, `.add`, `.subtract`, "
        "`.multiply`, `.divide`, `.power`, `.min`, `.max`; `x.at[key].get()` is `x[key]`.",
    )
    ndarray.data = property(array_methods.data, doc=array_methods.data.__doc__)  # type: ignore[attr-defined]
    for name, instead in METHODS.items():
        setattr(ndarray, name, Elsewhere(name, instead))
    ufunc_methods.install()
    ufunc_options.install()
    interop_methods.install()
    core_asarray.install()


#: Operators that can be machine code: name of the method; form, "forward", "reflected", "inplace"
#: or "unary"; an object with a `ufunc` and the operands for which the method is that ufunc, in
#: `direct`; the method in Python.
_operators: list[tuple[str, str, Any, Callable]] = []


class _Product:
    """Small products of matrices, as an operator in machine code."""

    ufunc = np.matmul
    direct: dict[Any, bool] = {}

    @classmethod
    def learn(cls, x: ndarray, y: ndarray) -> None:
        """Note layouts of which NumPy's product is the one of this package."""
        one, other = x._layout, y._layout
        if (
            one.device == other.device == CPU
            and one.dtype is other.dtype
            and one.dtype.char in "fdlFD"
            and 0 < one.ndim < 3
            and 0 < other.ndim < 3
            and one.size
            and other.size
            and prod(one.shape[:-1] + other.shape[1:]) * one.itemsize < SMALLEST
        ):
            store(cls.direct, one if one is other else (one, other), True)


def _install_operator(name: str, form: str, function: Callable, method: Callable) -> None:
    """Put an operator on the class; `compile_methods` may put machine code in its place."""
    setattr(ndarray, name, method)
    if hasattr(function, "card") and function.card.cpu is None:
        _operators.append((name, form, function.card, method))
    elif function is linalg_products.matmul and form == "forward":
        _operators.append((name, form, _Product, method))


@functools.cache
def compile_methods() -> None:
    """Put methods in machine code in the place of Python's, where that is possible: once, when a
    process has made some thousand small operations on the CPU (core/array.py). It takes a tenth of
    a second."""
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
        run=_silently,
        forget=forget,
    )
    if native is not None:
        wrap, runs, methods = native
        wrap_with(wrap)
        use_runs(runs)
        _in_python.update({name: vars(ndarray)[name] for name in methods})
        _in_machine_code.update(methods)
        if not _observers:
            _put(_in_machine_code)


_in_python: dict[str, Any] = {}  # the methods of which there is machine code
_in_machine_code: dict[str, Any] = {}
_observers: list[None] = []  # of plans: one for each context below


def _put(methods: dict[str, Any]) -> None:
    for name, method in methods.items():
        setattr(ndarray, name, method)


@context_manager
def _without_machine_code() -> Iterator[None]:
    """Context: operators run the plans of their ops, which are timed or described."""
    _observers.append(None)
    _put(_in_python)
    try:
        yield
    finally:
        _observers.pop()
        if not _observers:
            _put(_in_machine_code)


replanning.contexts.append(_without_machine_code)


def _silently(function: Callable, *arguments: Any) -> Any:
    return quiet().run(function, *arguments)


def _first(kinds: Any, *common: type) -> list[type]:
    """Classes, the commonest first."""
    return [*common, *[kind for kind in kinds if kind not in common]]


when_often.append(compile_methods)


def _set_part(part: Callable, x: ndarray, value: Any) -> None:
    """`x.real = value`, `x.imag = value`: changes that part in place."""
    if part is transfer.imag and x.dtype not in COMPLEX:
        raise TypeError(f"imag: {x.dtype} of shape {x.shape} has no imaginary part to set")
    part(x)[...] = value


def _set_shape(x: ndarray, wanted: int | tuple[int, ...]) -> None:
    """NumPy's old way to reshape in place; AttributeError where that would take a copy."""
    if x._node is not None:
        raise RuntimeError(
            f"shape: a gradient is being recorded for this array of shape {x.shape}; use reshape"
        )
    try:
        view = shape.reshape(x, wanted, copy=False)
    except ValueError:
        shape.reshape(x, wanted)  # says what is wrong with the shape, if something is
        raise AttributeError(
            f"shape: an array of shape {x.shape} and strides {x.strides} cannot become {wanted} "
            "in place; "
            "use reshape"
        ) from None
    x._layout, x._data = view._layout, view._data


@fast_path("x", scalars=False)
def _transpose(x: ndarray, *axes: Any) -> ndarray:
    """Return the array with its axes permuted: reversed, or in a given order.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    *axes : object
        Order of the axes, as integers or one sequence.

    Returns
    -------
    ndarray
        View of the elements.
    """
    if len(axes) == 1 and (np.ndim(axes[0]) or not hasattr(axes[0], "__index__")):
        (given,) = axes
        axes = (
            given
            if given.__class__ is tuple
            else ()
            if given is None
            else members("transpose", given, "axes")
        )
    return (
        shape.permute_dims(x, tuple([as_integer("transpose", "an axis", a) for a in axes]))
        if axes
        else shape.transpose(x)
    )


def _choose(
    x: ndarray,
    /,
    *arguments: Any,
    choices: Any = None,
    out: ndarray | None = None,
    mode: str = "raise",
) -> ndarray:
    """Return elements of the choice that each element numbers: `cm.choose`.

    Parameters
    ----------
    x : ndarray
        Integers from 0 to the number of choices less one.
    *arguments : object
        The choices, each an argument or all in one sequence.
    choices : sequence of array_like, optional
        The same by keyword.
    out : ndarray, optional
        Array that receives the result.
    mode : str, default "raise"
        What a number without a choice means: "raise", "wrap" or "clip".

    Returns
    -------
    ndarray
        The elements.
    """
    if choices is None:
        choices = arguments[0] if len(arguments) == 1 else arguments
    return select.choose(x, choices, out, mode)


def _sort(
    x: ndarray,
    axis: int = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> None:
    """Sort the elements along an axis in place; `cm.sort` returns a new array.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    axis : int, default -1
        Axis of the operation.
    kind : str, optional
        Accepted for compatibility with NumPy.
    order : None, optional
        Names of fields in NumPy. Arrays have no fields.
    stable : bool, optional
        Accepted for compatibility with NumPy. The sort is always stable.
    descending : bool, default False
        Whether the order is descending. Equal elements keep their order then, too.
    """
    axis = normalize_axis("sort", axis, x.ndim)
    x[...] = sort.sort(x, axis, kind, order, stable=stable, descending=descending)


def _partition(
    x: ndarray,
    kth: int | Sequence[int],
    axis: int = -1,
    kind: str = "introselect",
    order: None = None,
) -> None:
    """Rearrange the elements in place as `cm.partition` does.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    kth : int or sequence of int
        Rank or ranks. Negative ones count from the end.
    axis : int, default -1
        Axis of the operation.
    kind : str, default "introselect"
        Accepted for compatibility with NumPy.
    order : None, optional
        Names of fields in NumPy. Arrays have no fields.
    """
    x[...] = sort.partition(x, kth, normalize_axis("partition", axis, x.ndim), kind, order)


def _compress(
    x: ndarray, condition: ArrayLike, axis: int | None = None, out: ndarray | None = None
) -> ndarray:
    """Return the slices along an axis where a condition holds: `cm.compress`.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    condition : array_like
        Bool vector, at most as long as the axis.
    axis : int, optional
        Axis of the operation. None flattens the array first.
    out : ndarray, optional
        Array that receives the result.

    Returns
    -------
    ndarray
        Array of the slices.
    """
    return select.compress(condition, x, axis, out)


def _tofile(x: ndarray, file: File, sep: str = "", format: str = "%s") -> None:
    """Write the elements to a file, in C order, as NumPy does.

    A file given by its path appears whole or not at all.

    Parameters
    ----------
    x : ndarray
        Array of any shape and dtype.
    file : path_like or file
        Path or open file.
    sep : str, default ""
        Text between the elements. "" writes bytes.
    format : str, default "%s"
        Format of an element in a text, as in NumPy.
    """
    host = x._alias().to_numpy()
    if not isinstance(file, str | bytes | os.PathLike):
        with naming("tofile", file):
            host.tofile(file, sep, format)
        return
    with whole_file("tofile", os.fsdecode(file), special=True) as beside:
        host.tofile(beside, sep, format)
