"""The fast path: a repeated call of a public function goes straight to its plans.

A public function is written for its reader: it checks its arguments and calls its ops.
`@fast_path("x", "weight", "bias")` puts a wrapper in front of it, generated from its signature.

1. The wrapper looks the call up. The key holds all that decides which ops run: the layouts of the
   arrays, which of them carry a node, and the other arguments with their classes (1, 1.0 and True
   would be equal without them).
2. At a miss the function runs, and its ops report their steps (`call_record`).
3. The steps become the *replay*, a straight-line function of the arrays (`make_replay`). It has no
   checks and computes no unused outputs. It records the gradient of each step as the function did.
   This is possible if each input of each step is an argument, a view of an argument, or the output
   of an earlier step.
4. The next call with this key runs the replay.

A decorated function must not branch on values in its arrays. It may depend only on its arguments,
and on settings whose change calls `forget`. A function that reads values from a GPU, or writes into
an argument, reports that (`call_record.obstruct`) and is not replayed.

    path                         host time of a call, without the launch
    the function as written      10 to 40 us
    replay                       about 1 us: one key, one lookup, the bound plan

The file in order: the decorator, the wrapper and its key, the calls of one function, the replay.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Callable
from math import copysign
from numbers import Number
from typing import Any, NoReturn, TypeVar

import numpy as np

from ...runtime.errors import of_host
from ...runtime.state import register_tables
from .. import dtypes
from ..array import ndarray, wrap
from ..autograd import tape
from ..bounded_cache import store
from ..devices import CPU, default_index
from ..layout import Layout
from ..recording import state
from ..scalar import (
    NUMPY_SCALARS,
    arrays_to_user,
    as_array,
    inside,
    is_numpys,
    is_outermost,
    own_memory,
    result_of,
    scalar_class,
    to_user,
)
from .call_record import CallRecord, Step, current, open_records
from .checks import as_of
from .deferred_code import deferred
from .keyword_hints import has_counterparts, refuse_keywords
from .keyword_names import renamed

Function = TypeVar("Function", bound=Callable[..., Any])

_tables: list[dict] = []  # of all decorated functions


def forget() -> None:
    """Drop all replays. Called when a setting changes that plans depend on: the default dtype,
    TF32, tuning."""
    for table in (*_tables, *[function.plans for function in dtypes.planned]):
        table.clear()


dtypes.forget.append(forget)
register_tables(lambda: iter(_tables))


def fast_path(
    *arrays: str,
    source: str = "",
    rare: tuple[str, ...] = (),
    scalars: bool = True,
    numbers: bool | None = None,
) -> Callable[[Function], Function]:
    """Decorate a public function whose calls can be replayed.

    Parameters
    ----------
    *arrays : str
        Names of the parameters that are arrays or None. "*name": a sequence of arrays. "name?": an
        array or a number; a number becomes part of the key. All other parameters are options, and
        part of the key.
    source : str
        Name of the parameter that is the bit stream of random numbers.
    rare : tuple of str
        Names of options that hardly any call has. A call in which one is not its default runs the
        function itself, so that they cost the other calls no part of a key.
    scalars : bool, default True
        Whether results without dimensions are scalars (see scalar.py). False for views and for
        functions that create arrays.
    numbers : bool, optional
        Whether one of NumPy's scalars in the place of an array means what an array without
        dimensions means; by default `scalars` says it, because of a number `real` and the like give
        a number.

    Notes
    -----
    The wrapper is generated at the first call. That takes 0.2 ms, and the import of the package
    decorates several hundred functions.
    """

    def decorate(function: Function) -> Function:
        alike = scalars if numbers is None else numbers
        wrapper = deferred(function.__name__, _bind, function, arrays, source, rare, scalars, alike)
        wrapper.__globals__["keyword_names"] = {}  # filled by keyword_names.accept
        return functools.update_wrapper(wrapper, function)  # type: ignore[return-value]

    return decorate


# -------------------- the wrapper

_WRAPPER = """
def call({signature}):
    {refused}{written}if records:
        return first({everything})
    try:
        if {unrecorded}:
            replay = replays[{key}]
        else:
            replay = recorded[{key}, {nodes}]
        return replay({values})
    except mistakes:  # no replay; or an error of a step, which the function raises in its own words
        pass
    return first({everything})
"""

#: The same for a function that draws random numbers: where it fails, the generator is put back.
_DRAWING_WRAPPER = """
def call({signature}):
    start = None
    try:
        start = {source}._offset
        {refused}{written}if records:
            return first({everything})
        try:
            if {unrecorded}:
                replay = replays[{key}]
            else:
                replay = recorded[{key}, {nodes}]
            return replay({values})
        except mistakes:
            {source}.return_to(start)
        return first({everything})
    except BaseException:
        if start is not None:
            {source}.return_to(start)
        raise
"""


#: Classes of options that cannot stand in a key as they are: (1,) equals (1.0,) and (True,), 0.0
#: equals -0.0, and a list has no hash.
MISTAKABLE = frozenset([tuple, list, slice, float, complex, *[t.type for t in dtypes.INEXACT]])
LONGEST = 64  # elements of a list that may stand in a key
#: How a message begins that names a function.
_NAMED = re.compile(r"[A-Za-z_][\w.]*(: |\(\) (got|missing|takes) )")
_NUMBERS = ndarray, Number, np.generic, types.NoneType  # classes of an argument "name?"
FAILURES = 4  # attempts to make a replay for one key


def exact(value: Any) -> Any:
    """A part of a key that distinguishes 1, 1.0 and True, also inside a tuple, list or slice, and
    0.0 from -0.0."""
    kind = value.__class__
    if kind is tuple:
        kinds = tuple(map(type, value))
        return (value, kinds) if MISTAKABLE.isdisjoint(kinds) else (tuple, *map(exact, value))
    if kind is list and len(value) <= LONGEST:
        return (list, *map(exact, value))
    if kind is slice:
        return slice, exact(value.start), exact(value.stop), exact(value.step)
    if kind not in MISTAKABLE or kind is list or value and kind is float:
        return value, kind
    if kind is float:
        return value, kind, copysign(1.0, value)
    return value, kind, repr(value)


def is_hint(name: str) -> bool:
    """Whether a parameter of this name changes no result: it is no part of a key."""
    return name.startswith("overwrite_") or name in ("lwork", "workers")


def layouts_of(arrays: Any) -> tuple:
    """The layouts of a list or tuple of arrays."""
    return tuple([x._layout for x in arrays])


def nodes_of(arrays: Any) -> tuple:
    """Which arrays of a sequence carry a node."""
    return tuple([x._node is not None for x in arrays])


def unrecorded_all(arrays: Any) -> bool:
    """Whether no array of a list or tuple carries a node; AttributeError for anything else, of
    which an iterator would be used up. A wrapper asks this first."""
    if arrays.__class__ is not list and arrays.__class__ is not tuple:
        raise AttributeError
    return all([x._node is None for x in arrays])


class _Parameters:
    """The parameters of a decorated function, and the source of its wrapper.

    Parameters
    ----------
    function : callable
        The decorated function.
    arrays, source, rare
        As in `fast_path`.

    Attributes
    ----------
    names, required, arrays, options : list of str
        All parameters; those without a default; those that are arrays; the rest without the
        source.
    sequences, numbers, optional : set of str
        Of the arrays: sequences of arrays; arrays or numbers; those whose default is None.
    placeless : bool
        Whether the default device decides where the call runs, because no argument has to be an
        array, or because there is a parameter "device". It is part of the key then.
    """

    def __init__(
        self, function: Callable, arrays: tuple[str, ...], source: str, rare: tuple[str, ...] = ()
    ):
        self.signature = inspect.signature(function)
        parameters = self.signature.parameters
        kind = inspect.Parameter
        self.names = [n for n, p in parameters.items() if p.kind is not kind.VAR_KEYWORD]
        self.keywords = [n for n in parameters if n not in self.names]  # **keywords, rare too
        # functions that PyTorch has under the same names tell what they call its keywords; of
        # NumPy's those along an axis alone, as **unknown costs some 20 ns a call
        named = function.__module__.startswith("cudamath.ml.") or {"axis", "axes"} & {*self.names}
        self.hints = bool(named) and not self.keywords and has_counterparts(self.names)
        stars = kind.VAR_POSITIONAL, kind.VAR_KEYWORD
        self.required = [
            n for n, p in parameters.items() if p.default is p.empty and p.kind not in stars
        ]
        self.sequences = {n.removeprefix("*") for n in arrays if n.startswith("*")}
        self.numbers = {n.removesuffix("?") for n in arrays if n.endswith("?")}  # or arrays
        self.arrays = [n.strip("*?") for n in arrays]
        unknown = {*self.arrays, *([source] if source else []), *rare} - {*self.names}
        assert not unknown, f"{function.__name__}: no parameters {unknown}"
        self.source = source
        self.optional = {n for n in self.arrays if parameters[n].default is None}
        # a call with out= runs the function: a replay does not write into arguments, nor check them
        self.rare = [n for n in self.names if n in rare or n in ("out", "check_finite")]
        apart = {*self.arrays, *self.rare, source}
        self.options = [n for n in self.names if n not in apart and not is_hint(n)]
        self.placeless = "device" in self.names or self.optional | self.numbers >= {*self.arrays}

    def text(self) -> str:
        """The wrapper's source."""
        signature: list[str] = []
        kind = inspect.Parameter
        before: Any = None
        # a call that gives a required one by another library's name lacks it; it is told both
        required = [n for n in self.required if self.hints]
        stars: dict[Any, str] = {kind.VAR_POSITIONAL: "*", kind.VAR_KEYWORD: "**"}
        for n, p in self.signature.parameters.items():
            if before is kind.POSITIONAL_ONLY and p.kind is not kind.POSITIONAL_ONLY:
                signature.append("/")
            if p.kind is kind.KEYWORD_ONLY and before not in (
                kind.KEYWORD_ONLY,
                kind.VAR_POSITIONAL,
            ):
                signature.append("*")
            star = stars.get(p.kind, "")
            default = f"=default_{n}" if n in required or p.default is not p.empty else ""
            signature.append(star + n + default)
            before = p.kind
        if before is kind.POSITIONAL_ONLY:
            signature.append("/")
        key, unrecorded, nodes, values = [], [], [], [self.source] if self.source else []
        for n in self.arrays:
            if n in self.sequences:
                key.append(f"layouts({n})")
                unrecorded.append(f"unrecorded_all({n})")
                nodes.append(f"nodes({n})")
                values.append(f"*{n}")
                continue
            if n in self.numbers:
                key.append(f"{n}._layout if isinstance({n}, ndarray) else exact({n})")
                unrecorded.append(f"(not isinstance({n}, ndarray) or {n}._node is None)")
                nodes.append(f"isinstance({n}, ndarray) and {n}._node is not None")
                values.append(n)
                continue
            absent = f"{n} is None or " if n in self.optional else ""
            key.append(f"None if {n} is None else {n}._layout" if absent else f"{n}._layout")
            unrecorded.append(f"({absent}{n}._node is None)")
            nodes.append(f"{n} is not None and {n}._node is not None")
            values.append(n)
        for n in self.options:
            key.append(f"{n} if {n}.__class__ not in mistakable else exact({n}), {n}.__class__")
        if self.placeless:
            key.append("default_index()")
        indent = "    " * (2 if self.source else 1)
        refused = ""
        if self.hints:
            signature.append("**unknown")
            wrong = " or ".join(["unknown", *[f"{n} is default_{n}" for n in required]])
            refused = f"if {wrong}: refuse(unknown, {self.tuple_of(required)})\n{indent}"
        unusual = " or ".join([*[f"{n} is not default_{n}" for n in self.rare], *self.keywords])
        written = f"if {unusual}: return direct({self.passed()})\n{indent}"
        return (
            (_DRAWING_WRAPPER if self.source else _WRAPPER)
            .format(
                source=self.source,
                signature=", ".join(signature),
                refused=refused,
                written=written if unusual else "",
                everything=", ".join(self.names),
                # of several sequences each is asked
                unrecorded=(" & " if len(self.sequences) > 1 else " and ").join(unrecorded)
                or "True",
                key=", ".join(key) + ",",
                nodes=", ".join(nodes) or "()",
                values=", ".join(values),
            )
            .replace(",,", ",")
        )

    @staticmethod
    def tuple_of(names: list[str]) -> str:
        """The source of a tuple."""
        return f"({''.join(f'{n}, ' for n in names)})"

    def passed(self) -> str:
        """The arguments of a call of the function itself."""
        kind = inspect.Parameter
        form: dict[Any, str] = {
            kind.KEYWORD_ONLY: "{0}={0}",
            kind.VAR_POSITIONAL: "*{0}",
            kind.VAR_KEYWORD: "**{0}",
        }
        order = self.signature.parameters.values()
        return ", ".join([form.get(p.kind, "{0}").format(p.name) for p in order])


def refuse_call(
    wrapper: types.FunctionType,
    parameters: _Parameters,
    unknown: dict[str, Any],
    required: tuple[Any, ...],
) -> NoReturn:
    """TypeError for a call with unknown keywords, or without a required argument."""
    name, given = wrapper.__qualname__, zip(parameters.required, required, strict=True)
    if unknown:
        refuse_keywords(name, unknown, parameters.names)
    absent = [repr(n) for n, x in given if x is inspect.Parameter.empty]
    raise TypeError(f"{name}() missing required arguments: {', '.join(absent)}")


def _bind(
    wrapper: types.FunctionType,
    function: Callable,
    arrays: tuple[str, ...],
    source: str,
    rare: tuple[str, ...],
    scalars: bool,
    numbers: bool,
) -> Callable:
    """Give a wrapper its code, and return it."""
    parameters = _Parameters(function, arrays, source, rare)
    calls = _Calls(wrapper, function, parameters, scalars, numbers)
    namespace = wrapper.__globals__
    namespace.update(
        replays=calls.replays,
        recorded=calls.recorded,
        first=calls.first,
        direct=calls.direct,
        records=open_records,
        ndarray=ndarray,
        exact=exact,
        mistakable=MISTAKABLE,
        mistakes=(AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError),
        layouts=layouts_of,
        nodes=nodes_of,
        unrecorded_all=unrecorded_all,
        default_index=default_index,
        refuse=functools.partial(refuse_call, wrapper, parameters),
        **{f"default_{n}": p.default for n, p in parameters.signature.parameters.items()},
    )
    definitions: dict[str, Any] = {}
    exec(_compiled(parameters.text()), namespace, definitions)
    template = definitions["call"]
    # the code last: from then on another thread may call the wrapper
    wrapper.__defaults__, wrapper.__kwdefaults__ = template.__defaults__, template.__kwdefaults__
    code = template.__code__.replace(co_name=function.__name__)
    names = namespace["keyword_names"]
    wrapper.__code__ = renamed(code, names) if names else code
    return wrapper


@functools.lru_cache(1024)
def _compiled(source: str) -> types.CodeType:
    return compile(source, "<cudamath call>", "exec")


class _Calls:
    """The calls of one decorated function.

    Attributes
    ----------
    replays, recorded : dict
        Key -> replay: of calls without a gradient, and of calls whose gradient is recorded.
    failures : dict
        Key -> how often no replay could be made.
    """

    def __init__(
        self,
        wrapper: Callable,
        function: Callable,
        parameters: _Parameters,
        scalars: bool,
        numbers: bool,
    ):
        self.wrapper = wrapper
        self.function, self.parameters, self.scalars = function, parameters, scalars
        self.replays: dict[tuple, Callable] = {}
        self.recorded: dict[tuple, Callable] = {}
        self.failures: dict[tuple, int] = {}
        _tables.extend([self.replays, self.recorded, self.failures])
        order = parameters.signature.parameters.values()
        kind = inspect.Parameter
        self.keywords = [p.name for p in order if p.kind is kind.KEYWORD_ONLY]
        self.starred = next((p.name for p in order if p.kind is kind.VAR_POSITIONAL), None)
        arrays = {*parameters.arrays} - {*parameters.sequences} - {*parameters.numbers}
        self.places = [  # of arrays that may be scalars
            i
            for i, n in enumerate(parameters.names)
            if n in arrays and not self.starred and numbers
        ]

    def call(self, values: dict[str, Any]) -> Any:
        """Run the function itself."""
        positional = [v for n, v in values.items() if n not in self.keywords and n != self.starred]
        return self.function(
            *positional,
            *(values[self.starred] if self.starred else ()),
            **{n: values[n] for n in self.keywords},
        )

    def outermost(self, run: Callable, *args: Any, **kwargs: Any) -> Any:
        """What `run` gives to a call of the user's. Errors of Python and NumPy, which do not know
        the call, get its name."""
        try:
            with inside():
                return run(*args, **kwargs)
        except MemoryError as error:
            raise of_host(error) from error.__cause__
        except (TypeError, ValueError) as error:
            if type(error) not in (TypeError, ValueError) or _NAMED.match(str(error)):
                raise
            space = "random." if self.parameters.source == "self" else ""
            raise as_of(f"{space}{self.function.__name__}", error) from error

    def direct(self, *args: Any, **kwargs: Any) -> Any:
        """A call with rare arguments, `out` for example: run the function."""
        if kwargs.get("out") is ...:
            return as_array(self.function, args, kwargs)
        if not is_outermost():
            return self.function(*args, **kwargs)
        result = self.outermost(self.function, *args, **kwargs)
        arguments = (*args, *kwargs.values())
        own_memory(result, arguments)
        if any([result is a for a in arguments]):
            return result
        return (to_user if self.scalars else arrays_to_user)(result, arguments)

    def first(self, *arguments: Any) -> Any:
        """A call for which there is no replay: run the function, and make a replay if possible."""
        if not is_outermost():
            return self.run(arguments)
        if self.places and not NUMPY_SCALARS.isdisjoint(map(type, arguments)):
            arrays = self.scalars_as_arrays(arguments)
            if arrays is not None:
                return self.call_wrapper(arrays)
        result = self.outermost(self.run, arguments)
        own_memory(result, arguments)
        return (to_user if self.scalars else arrays_to_user)(result, arguments)

    def scalars_as_arrays(self, arguments: tuple) -> list | None:
        """The arguments of a call, with NumPy's scalars as arrays on the CPU, where an element of
        an array there would be the same; None where no argument is one, or they are elsewhere."""
        values = list(arguments)
        converted = beside = False
        for i in self.places:
            value = values[i]
            if value.__class__ in NUMPY_SCALARS:
                values[i] = wrap(np.asarray(value))
                converted = True
            elif isinstance(value, ndarray):
                if value._layout.device != CPU:
                    return None
                beside = True
        return values if converted and (beside or default_index() == CPU) else None

    def call_wrapper(self, values: list) -> Any:
        """Call the wrapper with values in the order of the parameters."""
        if not self.keywords:
            return self.wrapper(*values)
        named = dict(zip(self.parameters.names, values, strict=True))
        keywords = {n: named.pop(n) for n in self.keywords}
        return self.wrapper(*named.values(), **keywords)

    def run(self, arguments: tuple) -> Any:
        """Run the function, and make a replay if possible."""
        parameters = self.parameters
        values = dict(zip(parameters.names, arguments, strict=True))
        if any([values[n].__class__ not in (list, tuple) for n in parameters.sequences]):
            return self.call(values)
        required = {*parameters.arrays} - parameters.optional - parameters.numbers
        if any([values[n] is None for n in required]):
            return self.call(values)
        arrays = _flat(values, parameters)
        if current() is not None or not self.replayable(arrays, values):
            return self.call(values)  # an outer record takes the steps of this call
        key = self.key(values)
        recorded = any([x is not None and x._node is not None for x in arrays])
        if recorded:
            key = (*key, *_nested(values, parameters))
        table = self.recorded if recorded else self.replays
        if key in table or self.failures.get(key, 0) >= FAILURES:
            return self.call(values)
        distinct = _distinct(values, parameters, arrays)
        with CallRecord() as record:
            result = self.call(distinct)
        own_memory(result, distinct.values())
        replay = None
        if not record.obstacle:
            sources = (values[parameters.source],) if parameters.source else ()
            arrays = _flat(distinct, parameters)
            replay = make_replay(arrays, sources, record.steps, result, recorded, self.scalars)
        if replay is not None:
            store(table, key, replay)
        else:
            store(self.failures, key, self.failures.get(key, 0) + 1)
        return result

    def replayable(self, arrays: list[Any], values: dict[str, Any]) -> bool:
        """Whether a call with these arguments may be replayed: all arrays are ndarrays of one
        device, none is empty, and a key can hold the options."""
        devices = set()
        for x in arrays:
            if x is None:
                continue
            if not isinstance(x, ndarray) or not x._layout.size or x._layout.device < CPU:
                return False
            devices.add(x._layout.device)
        if len(devices) > 1:
            return False
        if not all([isinstance(values[n], _NUMBERS) for n in self.parameters.numbers]):
            return False
        if any([x is None for n in self.parameters.sequences for x in values[n]]):
            return False  # the function says so
        try:
            hash(tuple([exact(values[n]) for n in self.parameters.options]))
        except TypeError:  # a list, an array
            return False
        return True

    def key(self, values: dict[str, Any]) -> tuple:
        """The key of a call, as the wrapper writes it."""
        key: list[Any] = []
        for n in self.parameters.arrays:
            x = values[n]
            if n in self.parameters.sequences:
                key.append(layouts_of(x))
            elif n in self.parameters.numbers and not isinstance(x, ndarray):
                key.append(exact(x))
            else:
                key.append(None if x is None else x._layout)
        for n in self.parameters.options:
            value = values[n]
            key += [
                value if value.__class__ not in MISTAKABLE else exact(value),
                value.__class__,
            ]
        if self.parameters.placeless:
            key.append(default_index())
        return tuple(key)


def _nested(values: dict[str, Any], parameters: _Parameters) -> list[Any]:
    """Which arrays carry a node, in the form in which the wrapper writes it into a key."""
    return [
        nodes_of(values[n])
        if n in parameters.sequences
        else isinstance(values[n], ndarray) and values[n]._node is not None
        for n in parameters.arrays
    ]


def _flat(values: dict[str, Any], parameters: _Parameters) -> list[Any]:
    """All arrays in one list; None for a number in the place of an array."""
    arrays: list[Any] = []
    for n in parameters.arrays:
        x = values[n]
        if n in parameters.sequences:
            arrays.extend(x)
        else:
            arrays.append(None if n in parameters.numbers and not isinstance(x, ndarray) else x)
    return arrays


def _distinct(values: dict[str, Any], parameters: _Parameters, arrays: list[Any]) -> dict[str, Any]:
    """The arguments, with a second object for an array that occurs twice. Otherwise the steps of
    f(x, x) would not tell which argument each of them used."""
    there = [id(x) for x in arrays if x is not None]
    if len({*there}) == len(there):
        return values
    identities: set[int] = set()

    def another(x: Any) -> Any:
        if not isinstance(x, ndarray) or id(x) not in identities:
            identities.add(id(x))
            return x
        twin = x._alias()
        twin._node = x._node
        return twin

    values = dict(values)
    for n in parameters.arrays:
        x = values[n]
        values[n] = type(x)(map(another, x)) if n in parameters.sequences else another(x)
    return values


# -------------------- the replay


def make_replay(
    arrays: list[Any],
    sources: tuple,
    steps: list[Step],
    result: Any,
    recorded: bool,
    scalars: bool,
) -> Callable | None:
    """The steps of a call as a function of its sources and arrays; None if the steps do not explain
    the result."""
    try:
        return _Writer(arrays, sources, steps, recorded, scalars).function(result)
    except _Unexplained:
        return None


class _Unexplained(Exception):
    """An array that is neither an argument, nor a view of one, nor the output of a step."""


class _Value:
    """An array of the call: its name in the replay, the step whose output it is (-1: an argument),
    and the number of its uses."""

    __slots__ = ("array", "name", "step", "uses")

    def __init__(self, array: ndarray, name: str, step: int = -1):
        self.array, self.name, self.step, self.uses = array, name, step, 0


class _Writer:
    """Writer of the replay of one call.

    The source depends on the structure of the call alone, so it is compiled once for all layouts.
    Plans, layouts and parameters are constants, the arguments of the generated function `make`.

    Parameters
    ----------
    arrays : list of ndarray or None
        The array arguments of the call.
    sources : tuple
        The bit stream, if the function has one.
    steps : list of Step
        What the call did.
    recorded : bool
        Whether the call recorded a gradient.
    scalars : bool
        Whether results without dimensions are scalars.
    """

    def __init__(
        self,
        arrays: list[Any],
        sources: tuple,
        steps: list[Step],
        recorded: bool,
        scalars: bool,
    ):
        self.arrays, self.sources, self.steps = arrays, sources, steps
        self.recorded, self.scalars = recorded, scalars
        self.values: dict[int, _Value] = {}  # by the identity of the array
        self.arguments = [f"x{i}" for i in range(len(arrays))]
        for i, x in enumerate(arrays):
            if x is not None:
                self.values[id(x)] = _Value(x, f"x{i}")
        for k, step in enumerate(steps):
            for j, y in enumerate(step.outputs):
                if isinstance(y, ndarray) and id(y) not in self.values:
                    self.values[id(y)] = _Value(y, f"y{k}_{j}", k)
        self.constants: dict[str, Any] = {}
        self.lines: list[str] = []
        self.views: dict[int, str] = {}

    # ---- where an array comes from

    def origin(self, x: ndarray, before: int) -> tuple[_Value, int | None]:
        """The value that an array is (offset None), or the value that it is a view of and the
        offset in bytes. before: the number of the step that uses the array."""
        value = self.values.get(id(x))
        if value is not None and value.step < before:
            step = self.steps[value.step] if value.step >= 0 else None
            if step is None or step.run is not None or self.recorded:
                return value, None
            value, _ = self.origin(step.inputs[0], value.step)  # the base of the view
            return value, x._address - value.array._address
        if self.recorded or x._node is not None or x._layout.device < 0:
            raise _Unexplained  # a view outside the record, or one made by NumPy
        candidates = [
            v
            for v in self.values.values()
            if v.step < before and v.array._owner is x._owner and v.array._layout.device >= 0
        ]
        arguments = [v for v in candidates if v.step < 0]
        if len({v.array._data for v in arguments}) > 1 or len(arguments) > 1:
            raise _Unexplained  # several arguments share this memory
        if arguments:
            return arguments[0], x._data - arguments[0].array._data
        holding = [
            v for v in candidates if v.array._data <= x._data < v.array._data + _span(v.array)
        ]
        if not holding:
            raise _Unexplained
        value = holding[0]  # the first one; the others are views of it
        return value, x._data - value.array._data

    # ---- which steps are needed

    def needed(self, result: list[ndarray]) -> list[set[int]]:
        """For each step, the outputs that are used."""
        used: list[set[int]] = [set() for _ in self.steps]

        def use(x: ndarray, before: int) -> None:
            value, _ = self.origin(x, before)
            value.uses += 1
            if value.step >= 0:
                outputs = self.steps[value.step].outputs
                used[value.step].add([y is value.array for y in outputs].index(True))

        for y in result:
            use(y, len(self.steps))
        for k in reversed(range(len(self.steps))):
            step = self.steps[k]
            if used[k] or self.acts(step):
                for x in step.inputs:
                    if isinstance(x, ndarray):
                        use(x, k)
        return used

    @staticmethod
    def acts(step: Step) -> bool:
        """Whether a step has side effects: it writes into an input, or draws random numbers."""
        return not step.outputs or step.draw is not None or getattr(step.op, "writes", False)

    # ---- the source

    def function(self, result: Any) -> Callable:
        kind = type(result)
        several = isinstance(result, (tuple, list))
        results = list(result) if several else [result]
        if result is None:
            results = []
        if not all(isinstance(y, ndarray) for y in results):
            raise _Unexplained
        used = self.needed(results)
        if self.recorded:
            self.check_nodes(results)
        alone = self.single(results, several, used)
        if alone is not None:
            return alone
        for k, step in enumerate(self.steps):
            if used[k] or self.acts(step):
                self.write(k, step, used[k])
        names = [self.result(y) for y in results]
        if result is None:
            self.lines.append("return None")
        elif not several:
            self.lines.append(f"return {names[0]}")
        elif kind is tuple:
            self.lines.append(f"return ({''.join([f'{n}, ' for n in names])})")
        elif kind is list:
            self.lines.append(f"return [{', '.join(names)}]")
        else:
            self.constants["kind"] = kind
            self.lines.append(f"return kind({', '.join(names)})")
        parameters = [*(f"s{i}" for i in range(len(self.sources))), *self.arguments]
        body = "\n        ".join(self.lines)
        source = (
            f"def make({', '.join(self.constants)}):\n"
            f"    def replay({', '.join(parameters)}):\n        {body}\n    return replay\n"
        )
        return _maker(source)(**self.constants)

    def single(
        self, results: list[ndarray], several: bool, used: list[set[int]]
    ) -> Callable | None:
        """The bound plan itself, if the call is one step that takes all arrays in order and returns
        the result."""
        if self.recorded or several or self.sources or len(results) != 1 or not results[0].ndim:
            return None
        steps = [k for k, step in enumerate(self.steps) if used[k] or self.acts(step)]
        if len(steps) != 1 or type(self.steps[steps[0]].output) is tuple:
            return None
        step = self.steps[steps[0]]
        if step.run is None or step.scalars or step.draw:
            return None
        if len(step.inputs) != len(self.arrays) or not all(
            [self.same(step, *pair) for pair in zip(step.inputs, self.arrays, strict=True)]
        ):
            return None
        return step.run if step.output is results[0] else None

    def same(self, step: Step, x: Any, argument: Any) -> bool:
        """Whether an input of a step is an argument, or a view from its beginning where the step
        uses only the address."""
        if x is argument or not isinstance(x, ndarray) or not isinstance(argument, ndarray):
            return x is argument
        value, offset = self.origin(x, len(self.steps))
        return value.array is argument and offset == 0 and self.by_address(step)

    def by_address(self, step: Step) -> bool:
        """Whether a step reads only the addresses of its inputs. So do plans of a GPU: their
        layouts are constants."""
        return (
            step.run is not None
            and not self.recorded
            and hasattr(step.op, "bound")
            and all([x._layout.device >= 0 for x in step.inputs if isinstance(x, ndarray)])
        )

    def result(self, y: ndarray) -> str:
        """The expression of a result. One without dimensions becomes a scalar."""
        value, _ = self.origin(y, len(self.steps))
        while value.step >= 0 and self.steps[value.step].run is None:
            value, _ = self.origin(self.steps[value.step].inputs[0], value.step)
        if value.step < 0 and not value.array._layout.ndim:
            raise _Unexplained  # memory of an argument that may be a scalar
        if y._layout.ndim:
            return self.name(y, len(self.steps), last=True)
        name = self.name(y, len(self.steps), last=True)
        if not self.scalars:
            return name
        self.constants["state"] = state
        if any([x is not None and not x._layout.ndim for x in self.arrays]):
            self.constants["result_of"] = result_of  # one may be an array of the standard
            arguments = "".join([f"{n}, " for n in self.arguments])
            return f"{name} if state.inside else result_of({name}, ({arguments}))"
        if is_numpys(y._layout) and y._node is None:
            return f"{name} if state.inside else {name}._data[()]"
        self.constants[f"class_{name}"] = scalar_class(y._layout.dtype)
        self.lines.append(f"if not state.inside: {name}.__class__ = class_{name}")
        return name

    def constant(self, kind: str, value: Any) -> str:
        name = f"{kind}{len(self.constants)}"
        self.constants[name] = value
        return name

    def name(self, x: ndarray, before: int, last: bool = False, by_address: bool = False) -> str:
        """The name of an array in the replay. If it is a view, lines that make the view come first.
        last: the array is a result. by_address: only its address is used."""
        value, offset = self.origin(x, before)
        if offset is None or by_address and not offset:
            return value.name
        if id(x) in self.views:
            return self.views[id(x)]
        layout = self.constant("layout", x._layout)
        whole = value.step >= 0 and not offset and value.uses == 1 and x._layout.device >= 0
        if last and whole and x._layout.size == value.array._layout.size:
            self.lines.append(
                f"{value.name}._layout = {layout}"
            )  # a new array: only its layout differs
            return value.name
        name = f"v{len(self.views)}"
        self.views[id(x)] = name
        self.write_view(name, value.name, layout, offset, x._layout.device, value.array._layout)
        if last and value.step >= 0:  # for the caller it is no view: he has no other array there
            self.lines.append(f"{name}._base = None")
        return name

    def write_view(
        self, name: str, base: str, layout: str, offset: int, device: int, source: Layout | None
    ) -> None:
        """Write the lines that make a view. source: the layout of the array that is viewed."""
        self.constants.setdefault("new", object.__new__)
        self.constants.setdefault("ndarray", ndarray)
        if device == CPU:
            view = "" if source is None else _numpys_view(source, self.constants[layout], offset)
            if not view:
                start = self.constant("offset", offset)
                self.lines.append(f"{name} = {base}._view({layout}, {start})")
                return
            self.lines += [
                f"{name} = new(ndarray)",
                f"{name}._layout, {name}._owner, {name}._node = {layout}, None, None",
                f"{name}._data = {base}._data{view}",
                f"{name}._base = {base}._root()",
            ]
            return
        further = f" + {self.constant('offset', offset)}" if offset else ""
        self.lines += [
            f"{name} = new(ndarray)",
            f"{name}._layout, {name}._owner, {name}._node = {layout}, {base}._owner, None",
            f"{name}._data = {base}._data{further}",
            f"{name}._base = {base} if {base}._base is None else {base}._base",
        ]

    def write(self, k: int, step: Step, used: set[int]) -> None:
        """Write one step."""
        inputs = []
        if step.run is None and not self.recorded:
            return  # views are made where they are used
        by_address = self.by_address(step)
        for x in step.inputs:
            if isinstance(x, ndarray):
                inputs.append(self.name(x, k, by_address=by_address))
            else:
                inputs.append("None" if x is None else self.constant("number", x))
        if step.run is None:
            y = self.values[id(step.output)].name
            layout = self.constant("layout", step.output._layout)
            offset = step.output._address - step.inputs[0]._address
            base = step.inputs[0]._layout
            self.write_view(y, inputs[0], layout, offset, step.output._layout.device, base)
        else:
            self.write_run(k, step, used, inputs)
        # nodes begin at arguments: a call that is not recorded has none (see `origin`)
        if any([isinstance(x, ndarray) and x._node is not None for x in step.inputs]):
            self.write_record(k, step, inputs)

    def write_run(self, k: int, step: Step, used: set[int], inputs: list[str]) -> None:
        scalars = [self.constant("scalar", s) for s in step.scalars]
        run: Any = step.run
        if getattr(step.op, "writes", False) and self.origin(step.inputs[0], k)[0].step < 0:
            raise _Unexplained  # changes an argument, which may overlap another one
        outputs = [self.values[id(y)].name for y in step.outputs]
        tuple_of = type(step.output) is tuple
        if tuple_of and not self.recorded and 0 < len(used) < len(outputs):
            narrower = _narrowed(step, tuple(sorted(used)))
            if narrower is not None:
                run, outputs = narrower, [outputs[j] for j in sorted(used)]
                tuple_of = len(outputs) > 1
        plain = getattr(run, "without_none", None)
        if plain is not None:
            run, inputs = plain, [x for x in inputs if x != "None"]
        if step.scalars and step.draw is None and hasattr(run, "with_numbers"):
            leaner = run.with_numbers(step.scalars)
            if leaner is not None:
                run, scalars = leaner, []
        name = self.constant("run", run)
        if step.draw is None:
            call = f"{name}({', '.join([*inputs, *scalars])})"
        else:
            call = self.write_draw(k, step, name, inputs, scalars)
        if not outputs:
            self.lines.append(call)
        elif tuple_of:
            self.lines.append(f"{', '.join(outputs)}, = {call}")
        else:
            self.lines.append(f"{outputs[0]} = {call}")

    def write_draw(
        self, k: int, step: Step, run: str, inputs: list[str], scalars: list[str]
    ) -> str:
        """Write the line that takes a position in the random sequence, and return the call that
        draws from there. During the capture of a CUDA graph the position lies in an array."""
        source, *taken = step.draw  # type: ignore[misc]
        at = [i for i, s in enumerate(self.sources) if s is source]
        if not at:
            raise _Unexplained
        words = [self.constant("taken", value) for value in taken]
        self.constants.setdefault("ndarray", ndarray)
        self.constants.setdefault("draw_in_graph", draw_in_graph)
        self.lines.append(f"place{k} = s{at[0]}.take({', '.join(words)})")
        rest = ", ".join(scalars[3:])
        op, params = self.constant("op", step.op), self.constant("params", step.params)
        return (
            f"{run}({', '.join([*inputs, f'*place{k}', *scalars[3:]])}) "
            f"if not isinstance(place{k}[0], ndarray) else "
            f"draw_in_graph({op}, place{k}, ({rest}{',' if rest else ''}), "
            f"({', '.join(inputs)}{',' if inputs else ''}), {params})"
        )

    # ---- gradients

    def write_record(self, k: int, step: Step, inputs: list[str]) -> None:
        """Write the line that records the step's node, as the op did."""
        self.constants.setdefault("record", tape.record)
        params = {**step.params, "scalars": step.scalars} if step.scalars else step.params
        outputs = [self.values[id(y)].name for y in step.outputs]
        out = f"({', '.join(outputs)},)" if type(step.output) is tuple else outputs[0]
        op, parameters = self.constant("op", step.op), self.constant("params", params)
        if step.draw is not None:
            rest = self.constant("rest", step.scalars[3:])
            parameters = f"{{**{parameters}, 'scalars': (*place{k}, *{rest})}}"
        self.lines.append(f"record({op}, ({', '.join(inputs)},), {out}, {parameters})")

    def check_nodes(self, results: list[ndarray]) -> None:
        """Check that each node of the results was recorded by a step, or belongs to an argument."""
        argument_nodes = {
            id(_owner(x._node)) for x in self.arrays if x is not None and x._node is not None
        }
        step_nodes = set()
        for step in self.steps:
            for y in step.outputs:
                node = y._node
                leads = any([isinstance(x, ndarray) and x._node is not None for x in step.inputs])
                if node is None:
                    if leads and getattr(step.op, "vjp", None) is not None:
                        raise _Unexplained  # the recording was paused
                    continue
                node = _owner(node)
                if id(node) in argument_nodes:
                    continue
                if node.op is not step.op and node.op is not getattr(step.op, "twice", step.op):
                    raise _Unexplained
                step_nodes.add(id(node))
        for y in results:
            if y._node is not None and id(_owner(y._node)) not in step_nodes | argument_nodes:
                raise _Unexplained


def _numpys_view(base: Layout, view: Layout, offset: int) -> str:
    """The end of an expression that makes a view of an array of NumPy, if there is one that takes
    less time than to describe the view."""
    if offset or not base.size or base.dtype != view.dtype:
        return ""
    if base.shape[::-1] == view.shape and base.strides[::-1] == view.strides:
        return ".T"
    if base.contiguous and view.contiguous and base.size == view.size:
        return f".reshape({view.shape})"
    return ""


def draw_in_graph(op: Any, place: tuple, rest: tuple, inputs: tuple, params: dict) -> Any:
    """A draw during the capture of a CUDA graph. The kernel reads the position in the random
    sequence from the generator's cell, an array, whenever the graph is replayed."""
    cell, stream, first = place
    return op(*inputs, cell, scalars=(0, stream, first, *rest), **params)


def _owner(node: Any) -> Any:
    """The node itself, of one output of an op with several outputs."""
    return node.node if type(node) is tape.Part else node


def _span(x: ndarray) -> int:
    """Bytes of a new array, at least 1."""
    return max(x._layout.nbytes, 1)


def _narrowed(step: Step, outputs: tuple[int, ...]) -> Callable | None:
    """`run` of an op on a GPU that returns only these of its several outputs."""
    arrays = [x for x in step.inputs if isinstance(x, ndarray)]
    if not arrays or arrays[0]._layout.device < 0 or not hasattr(step.op, "bound"):
        return None
    layouts = tuple([None if x is None else x._layout for x in step.inputs])
    return step.op.bound(layouts, step.params, len(step.scalars), arrays[0]._layout.device, outputs)


@functools.lru_cache(4096)
def _maker(source: str) -> Callable:
    namespace: dict[str, Any] = {}
    exec(compile(source, "<cudamath call>", "exec"), namespace)
    return namespace["make"]
