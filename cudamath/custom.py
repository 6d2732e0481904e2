"""User-defined elementwise functions and reductions, from scalar Python functions.

Numba compiles the scalar function. For a GPU it becomes part of the kernels of
kernels/elementwise/dispatch.py and kernels/reduce/dispatch.py, in all their versions; for the CPU
it becomes a NumPy ufunc or a compiled loop.
"""

from __future__ import annotations

import cmath
import contextlib
import functools
import inspect
import math
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .core import batched, dtypes, shapes
from .core.array import ndarray, wrap
from .core.asarray import asarray, same_device
from .core.autograd import tape
from .core.bounded_cache import store
from .core.devices import CPU, TRACED
from .core.dispatch.call_record import open_records, report
from .core.dispatch.checks import as_numbers, coerce, members, require, require_function
from .core.dispatch.lazy_import import lazy
from .core.dispatch.op import ANY
from .core.fp_errors import silence
from .core.layout import Layout
from .core.scalar import to_user
from .core.typing import DTypeLike, Scalar

__all__ = ["elementwise", "reduction", "vectorize"]

_SCALARS = (bool, int, float, complex)


@contextlib.contextmanager
def _compiling(card: str, name: str, kinds: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Around what compiles a user's function: TypeError for what Numba raises, and for exceptions
    of these kinds."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, kinds) and not type(error).__module__.startswith("numba"):
            raise
        raise TypeError(
            f"{card}: Numba cannot compile {name}: {str(error) or type(error).__name__}"
        ) from error


class _Elementwise:
    """The card of a user's scalar function."""

    several = False
    broadcasts = True

    def __init__(self, function: Callable, dtype: Any, gradients: Sequence[Callable] | None):
        self.function, self.name = _spelled_out(function), getattr(function, "__name__", "function")
        self.dtype = None if dtype is None else dtypes.as_dtype(dtype, "elementwise")
        self.gradients = None if gradients is None else [elementwise(g) for g in gradients]
        self.plans: dict[tuple, Callable] = {}
        dtypes.planned.add(self)
        self.defaults = _defaults(function)

    def saves(self, count: int) -> tuple[bool, tuple[bool, ...]]:
        """Gradients are computed from the inputs."""
        return False, (True,) * count

    def vjp(self, g: ndarray, _y: None, *inputs: Any) -> tuple:
        """g times the derivative by each input."""
        if self.gradients is None:
            raise TypeError(
                f"elementwise: {self.name} has no gradient; give its derivatives as gradients="
            )
        return tuple(
            [
                g * slope(*inputs) if isinstance(x, ndarray) else None
                for slope, x in zip(self.gradients, inputs, strict=True)
            ]
        )

    def __call__(self, *operands: Any) -> ndarray:
        if not operands:
            raise TypeError(f"elementwise: {self.name} wants at least one operand")
        if (
            len(operands) < len(self.defaults)
            and self.defaults[len(operands)] is not inspect.Parameter.empty
        ):
            operands += self.defaults[len(operands) :]
        if self.gradients is not None and len(self.gradients) != len(operands):
            raise TypeError(
                f"elementwise: {self.name} has {len(self.gradients)} gradients, got "
                f"{len(operands)} operands"
            )
        scalars = [type(x) in _SCALARS for x in operands]
        if all(scalars):
            operands, scalars = tuple(map(asarray, operands)), [False] * len(operands)
        arrays = iter(
            coerce(
                self.name,
                tuple([x for x, s in zip(operands, scalars, strict=True) if not s]),
                ANY,
            )
        )
        operands = tuple([x if s else next(arrays) for x, s in zip(operands, scalars, strict=True)])
        key = tuple([type(x) if s else x._layout for x, s in zip(operands, scalars, strict=True)])
        run = self.plans.get(key)
        if run is None:
            run = self.plan(operands, scalars)
            store(self.plans, key, run)
        out = run(*operands)
        if any([isinstance(x, ndarray) and x._node is not None for x in operands]):
            tape.record(self, operands, out, {})
        if open_records:
            report(self, operands, (), {}, run, out)
        return to_user(out)

    def plan(self, operands: tuple, scalars: Sequence[bool]) -> Callable:
        """`run(*operands)` for these layouts and kinds of scalars."""
        try:
            inspect.signature(self.function).bind(*operands)
        except TypeError as error:
            raise TypeError(
                f"elementwise: {self.name} got {len(operands)} operands: {error}"
            ) from None
        arrays = [x for x, s in zip(operands, scalars, strict=True) if not s]
        shapes.broadcast_shapes(self.name, *[x.shape for x in arrays])
        common = dtypes.result_type(*operands)
        output = common if self.dtype is None else self.dtype
        wide = dtypes.compute_dtype(common)
        device = same_device(self.name, arrays)
        if device < TRACED:
            return batched.elementwise(self, operands, False)
        if device == TRACED:
            raise TypeError(
                f"fuse: {self.name} is a compiled function; write it as a function of arrays "
                "instead"
            )
        if device == CPU:
            empty = [np.empty(0, wide)] * len(operands)
            with _compiling("elementwise", self.name, (Exception,)):
                ufunc = lazy("cpu", "lib.user_functions.ufunc")(self.function, wide)
                result = ufunc(*empty).dtype
            if result.kind == "c" and output.kind != "c":
                raise TypeError(
                    f"elementwise: {self.name} gives {result}, which {output} cannot hold; give "
                    "dtype="
                )

            def on_cpu(*values: Any) -> ndarray:
                data = [
                    np.asarray(v, wide) if s else v._data.astype(wide, copy=False)
                    for v, s in zip(values, scalars, strict=True)
                ]
                with silence():
                    return wrap(np.asarray(ufunc(*data)).astype(output, copy=False))

            return on_cpu
        boxed = wide.kind in "cb"
        kinds = [
            (Layout.new((), wide, device) if boxed else wide) if s else x._layout
            for x, s in zip(operands, scalars, strict=True)
        ]
        layouts = [k for k in kinds if isinstance(k, Layout)]
        with _compiling("elementwise", self.name):
            kernel_plan = lazy("kernels", "generated.user_kernels.elementwise")(
                *kinds, function=self.function, compute=wide, output=output
            )
            bound = kernel_plan.bind(self.name, layouts, len(kinds) - len(layouts), device)
        if boxed:
            return lambda *values: bound(
                *[
                    asarray(v, wide, device=arrays[0].device) if s else v
                    for v, s in zip(values, scalars, strict=True)
                ]
            )
        order = sorted(
            range(len(scalars)), key=scalars.__getitem__
        )  # arrays first, then the values
        return lambda *values: bound(*[values[i] for i in order])


def _spelled_out(function: Callable) -> Callable:
    """A builtin function, like math.erf or abs, as a Python function that calls it: Numba wants one
    to begin with."""
    if not inspect.isbuiltin(function) or function.__module__ not in ("math", "cmath", "builtins"):
        return function
    try:
        parameters = ", ".join(inspect.signature(function).parameters)
    except ValueError:  # it does not say what it takes, and Numba will refuse it
        return function
    where = "" if function.__module__ == "builtins" else f"{function.__module__}."
    namespace = {"math": math, "cmath": cmath}
    exec(
        f"def spelled({parameters}):\n    return {where}{function.__name__}({parameters})\n",
        namespace,
    )
    return namespace["spelled"]  # type: ignore[return-value]


def _require_scalar(card: str, function: Any, what: str) -> None:
    """TypeError unless it is a function of so and so many numbers: with *args Numba's ufuncs read
    what is not there."""
    require_function(card, function, what)
    if isinstance(function, np.ufunc):
        raise TypeError(
            f"{card}: wants {what}, got NumPy's {function.__name__}, one of arrays, which it may "
            "call"
        )
    with contextlib.suppress(ValueError):  # a builtin function that does not say what it takes
        for p in inspect.signature(function).parameters.values():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise TypeError(
                    f"{card}: wants {what} with a fixed number of parameters, got {p} of "
                    f"{getattr(function, '__name__', 'a function')}"
                )


def _defaults(function: Callable) -> tuple:
    """The default of each parameter by position, `inspect.Parameter.empty` where it has none."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a builtin function, which Numba will refuse
        return ()
    return tuple(
        [p.default for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    )


def elementwise(
    function: Callable | None = None,
    /,
    *,
    dtype: DTypeLike | None = None,
    gradients: Sequence[Callable] | None = None,
) -> Callable:
    """An elementwise function of arrays from a scalar Python function.

    Parameters
    ----------
    function : callable, optional
        Takes and returns numbers; parameters may have defaults. Whatever Numba compiles: `if`,
        loops, the math module, functions made by `numba.njit` (not plain ones of Python).
    dtype : dtype, optional
        Of the results; by default that of the operands together. 16-bit floats are computed in
        float32.
    gradients : sequence of callables, optional
        For each operand the derivative by it, a scalar function of all operands.

    Returns
    -------
    callable
        F(*operands): arrays, array-likes or Python scalars (which never widen an array), numeric;
        their shapes broadcast. May be used as a decorator.

    Raises
    ------
    TypeError
        `function` or a gradient is not a function; Numba cannot compile it; operands that are not
        numeric; complex results where the dtype is real; a gradient is wanted and `gradients` was
        not given.
    ValueError
        Shapes that do not broadcast.

    Notes
    -----
    Gradient: through `gradients`; one order. Float literals in `function` take the type that is
    computed in, so that float32 stays float32; an integer next to a float32 makes a float64, as
    always in Numba.

    Examples
    --------
    >>> import math, cudamath as cm
    >>> dx, dy = lambda x, y: y * math.cos(x * y), lambda x, y: x * math.cos(x * y)
    >>> @cm.elementwise(gradients=[dx, dy])
    ... def wave(x, y):
    ...     return math.sin(x * y) if x > 0.0 else 0.0
    >>> wave(cm.array([-1.0, 1.0]), 2.0).round(4).tolist()
    [0.0, 0.9093]
    """
    if function is None:
        return functools.partial(elementwise, dtype=dtype, gradients=gradients)
    _require_scalar("elementwise", function, "a function of scalars")
    gradients = (
        None
        if gradients is None
        else members("elementwise", gradients, "functions of scalars as gradients")
    )
    for each in gradients or ():
        _require_scalar("elementwise", each, "functions of scalars as gradients")
    card = _Elementwise(function, dtype, gradients)

    @functools.wraps(function)
    def call(*operands: Any) -> ndarray:
        return card(*operands)

    return call


def reduction(
    combine: Callable,
    identity: Scalar,
    *,
    each: Callable | None = None,
    last: Callable | None = None,
    dtype: DTypeLike | None = None,
) -> Callable:
    """A reduction of arrays from scalar Python functions.

    y = last(combine(... combine(each(x_0), each(x_1)) ...)), in an order that is fixed by the
    shape.

    Parameters
    ----------
    combine : callable
        (a, b) -> number; associative and commutative.
    identity : number
        Combine(identity, a) = a; the result (before `last`) where there are no elements.
    each, last : callable, optional
        What is done with each element before, and with the result after.
    dtype : dtype, optional
        Of the results, and of what is combined; by default that of the array (16-bit floats:
        combined in float32).

    Returns
    -------
    callable
        F(x, axis=None, *, keepdims=False): x of any shape, real numbers; axis: int, tuple of ints,
        or None for all.

    Raises
    ------
    TypeError
        `combine`, `each` or `last` is not a function, or Numba cannot compile it; `x` is complex or
        not numeric; a gradient of the result is taken (reductions have none).
    ValueError
        An axis out of range or repeated.

    Notes
    -----
    The function is deterministic.

    Examples
    --------
    >>> import math, cudamath as cm
    >>> log_product = cm.reduction(lambda a, b: a + b, 0.0, each=lambda x: math.log(x))
    >>> cm.exp(log_product(cm.array([[1.0, 2.0], [3.0, 4.0]]), axis=1)).round(4).tolist()
    [2.0, 12.0]
    """
    for what, function in (("combine", combine), ("each", each), ("last", last)):
        if function is not None or what == "combine":
            _require_scalar("reduction", function, f"a function of scalars as {what}")
    as_numbers("reduction", "a real number as identity", identity)
    name = getattr(combine, "__name__", "reduction")
    functions = (combine, identity, each, last)
    accumulator = None if dtype is None else dtypes.as_dtype(dtype, "reduction")
    plans: dict[tuple, Callable] = {}

    def reduce(
        x: Any, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
    ) -> ndarray:
        x = require("reduction", x, dtypes.REAL_OR_BOOL)
        if x._node is not None:
            raise TypeError(
                f"reduction: {name} has no gradient; use stop_gradient or the reductions of this "
                "package"
            )
        axes = tuple(sorted(shapes.normalize_axes("reduction", axis, x.ndim)))
        if x._layout.device < TRACED:
            return batched.reduction(reduce, x, axes, bool(keepdims))
        key = (x._layout, axes, bool(keepdims))
        run = plans.get(key)
        if run is None:
            target = accumulator if accumulator is not None else x.dtype
            if x._layout.device == TRACED:
                raise TypeError(
                    f"fuse: {name} is a compiled reduction; use the reductions of this package "
                    "instead"
                )
            if x._layout.device == CPU:
                wide = dtypes.compute_dtype(target)
                with _compiling("reduction", name, (Exception,)):
                    lines = lazy("cpu", "lib.user_functions.reduction")(functions, wide)
                    lines(np.empty((0, 0), dtypes.compute_dtype(x.dtype)))
                run = functools.partial(_on_cpu, lines, axes, bool(keepdims), target)
            else:
                with _compiling("reduction", name):
                    kernel_plan = lazy("kernels", "generated.user_kernels.reduction")(
                        x._layout,
                        functions=functions,
                        axis=axes,
                        keepdims=bool(keepdims),
                        dtype=target,
                    )
                    run = kernel_plan.bind("reduction", [x._layout])
            store(plans, key, run)
        return run(x)

    return reduce


def _on_cpu(
    function: Callable, axes: tuple[int, ...], keepdims: bool, target: np.dtype, x: ndarray
) -> ndarray:
    """The compiled loop over lines, one for each result."""
    data = x._data
    rest = tuple([i for i in range(data.ndim) if i not in axes])
    kept = tuple([data.shape[i] for i in rest])
    wide = data.astype(dtypes.compute_dtype(data.dtype), copy=False)
    lines = (
        np.ascontiguousarray(wide.transpose(*rest, *axes)).reshape(int(np.prod(kept)), -1)
        if data.size
        else np.zeros((int(np.prod(kept)), 0), wide.dtype)
    )
    out = function(lines).astype(target, copy=False)
    return wrap(
        out.reshape(
            tuple([1 if i in axes else n for i, n in enumerate(data.shape)]) if keepdims else kept
        )
    )


class vectorize:  # noqa: N801  NumPy's name
    """Vectorize a scalar Python function: NumPy's `vectorize` over `elementwise`.

    The function becomes one of arrays. It is compiled, and not called in a loop.

    Parameters
    ----------
    pyfunc : callable, optional
        Takes and returns numbers; whatever Numba compiles. Left out, the result decorates a
        function.
    otypes : str, dtype or sequence of dtype, optional
        Of the results. By default, as in NumPy, that of pyfunc's result for the first elements, for
        which pyfunc is called once for each combination of dtypes (on a GPU that waits for them).
    doc : str, optional
        The docstring; by default pyfunc's.
    excluded : set of str or int, optional
        Names or places of parameters that are passed as they are.
    cache : bool, default False
        Whether the result of the first call, which tells the dtypes, is kept.
    signature : str, optional
        Signature of a function of vectors or matrices, such as "(n),(n)->()".

    Raises
    ------
    TypeError
        Operands that are not numeric; a list as the result.
    ValueError
        Shapes that do not broadcast; arrays without elements, unless `otypes` is given.

    Notes
    -----
    Not differentiable: see `elementwise` for that. With `excluded`, `signature` or several
    results, in calls with keywords or strings, and where it is a method or a partial function,
    pyfunc is called for each element on the host, as NumPy does it: no kernel takes these.

    Examples
    --------
    >>> import cudamath as cm
    >>> @cm.vectorize
    ... def step(x, y):
    ...     return x - y if x > y else x + y
    >>> step(cm.array([1, 2, 3, 4]), 2)
    array([3, 4, 1, 2], device='cpu')
    """

    def __init__(
        self,
        pyfunc: Callable | None = None,
        otypes: Any = None,
        doc: str | None = None,
        excluded: Any = None,
        cache: bool = False,
        signature: Any = None,
    ):
        kinds = (
            []
            if otypes is None
            else list(otypes)
            if isinstance(otypes, (str, list, tuple))
            else [otypes]
        )
        found = [
            dtypes.as_dtype(np.dtype(kind) if isinstance(kind, str) else kind, "vectorize")
            for kind in kinds
        ]
        self.otypes = otypes
        self.signature, self.excluded = signature, set(excluded or ())
        self._dtype = found[0] if found else None
        self._options = {"otypes": found or None, "excluded": excluded, "cache": cache}
        #: Whether pyfunc is called in a loop.
        self._loops = bool(excluded) or signature is not None or len(found) > 1
        self._functions: dict[Any, _Elementwise] = {}
        self._doc = doc
        self.pyfunc: Callable | None = None
        if pyfunc is not None:
            self._take(pyfunc)

    def _take(self, pyfunc: Callable) -> vectorize:
        require_function("vectorize", pyfunc, "a function of scalars")
        self.pyfunc = pyfunc
        ours = str(getattr(pyfunc, "__module__", "")).partition(".")[0] == __package__
        self._loops |= ours or isinstance(pyfunc, types.MethodType | functools.partial)
        self.__name__ = getattr(pyfunc, "__name__", "function")
        self.__doc__ = self._doc or pyfunc.__doc__
        return self

    def __call__(self, *operands: Any, **keywords: Any) -> Any:
        if self.pyfunc is None:  # @vectorize(otypes=...)
            return self._take(*operands, **keywords)
        if not operands and not keywords:
            return self.pyfunc()
        if any([getattr(x, "_node", None) is not None for x in (*operands, *keywords.values())]):
            raise TypeError(
                f"vectorize: {self.__name__} has no gradient; make it by elementwise(gradients=...)"
            )
        if self._loops or keywords or any([isinstance(x, str) for x in operands]):
            return self._in_a_loop(operands, keywords)
        key = self._dtype or tuple(
            [type(x) if type(x) in _SCALARS else getattr(x, "dtype", None) for x in operands]
        )
        function = self._functions.get(key)
        if function is None or (isinstance(key, tuple) and None in key):
            dtype = self._dtype or self._result(operands)
            if dtype is None:
                self._loops = True
                return self._in_a_loop(operands, keywords)
            function = self._functions[key] = _Elementwise(self.pyfunc, dtype, None)
        return function(*operands)

    def _in_a_loop(self, operands: tuple, keywords: dict[str, Any]) -> Any:
        """What pyfunc returns for each element, or for each vector, on the host."""
        assert self.pyfunc is not None
        each = np.vectorize(self.pyfunc, signature=self.signature, **self._options)
        given = [*operands, *keywords.values()]
        device = next((x.device for x in given if isinstance(x, ndarray)), None)
        results = each(
            *[x.to_numpy() if isinstance(x, ndarray) else x for x in operands],
            **{name: x.to_numpy() if isinstance(x, ndarray) else x for name, x in keywords.items()},
        )
        if isinstance(results, tuple):
            return tuple([asarray(y, device=device) for y in results])
        return asarray(results, device=device)

    def _result(self, operands: tuple) -> np.dtype | None:
        """The dtype of pyfunc's result for the first elements; None where there are several."""
        first = []
        for x in operands:
            x = x if isinstance(x, ndarray) else np.asarray(x)
            if not x.size:
                raise ValueError(
                    f"vectorize: {self.__name__} wants otypes for arrays without elements"
                )
            first.append(np.asarray(x[(0,) * x.ndim])[()])
        assert self.pyfunc is not None
        result = self.pyfunc(*first)
        if isinstance(result, tuple):
            return None
        if isinstance(result, list):
            raise TypeError(f"vectorize: {self.__name__} gives a list; several results are a tuple")
        return dtypes.as_dtype(np.asarray(result).dtype, "vectorize")
