"""`jit`: a function becomes a program at its first call, and runs as one from then on."""

from __future__ import annotations

import functools
import gc
import operator
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core import dtypes, recording, trees
from ..core.array import ndarray, refuse_read_only
from ..core.asarray import asarray, same_device
from ..core.autograd import mutation
from ..core.batched import frames
from ..core.bounded_cache import store
from ..core.devices import CPU, TRACED, default_index, device_of
from ..core.dispatch.call_record import current, open_records
from ..core.dispatch.checks import require_function
from ..core.dispatch.fast_path import exact
from ..core.elements import lent, settle_all
from ..core.overlap import overlaps
from ..core.scalar import NUMPY_SCALARS, Scalar, is_numpys, scalar
from ..cuda.graphs import Graphed
from ..runtime.dry import DryStream, Gone
from ..runtime.interrupts import context_manager
from ..runtime.state import register_tables
from ..runtime.stream import stream_of
from .description import described
from .donation import donated
from .draws import Rehearsal
from .fusion import fused, joined_in_place
from .hidden_state import PLAIN, HiddenState, host_randoms
from .in_place import in_place
from .kernel_loading import load_kernels
from .program import Program, View
from .run import lying, most_copied, on_one_device, straight_line
from .schedule import less_at_a_time
from .simplify import simplify
from .trace import Trace, TraceError, trace

__all__ = ["TraceError", "jit"]

MOST = 256  # programs that a function keeps
MANY = 8  # traces, after which a warning says what keeps changing

_functions: weakref.WeakSet[Jitted] = weakref.WeakSet()
register_tables(lambda: iter([function.plans for function in _functions]))


def jit(
    fn: Callable,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
) -> Jitted:
    """Compile a function of arrays to one program: traced once, simplified, and replayed.

    The first call with arguments of given structure, shapes and dtypes runs the Python code of the
    function and records its operations, those of gradients and optimizer steps inside included.
    Later calls run the recorded program without that code: fewer operations, and one CUDA graph on
    a GPU (but for few operations of large results or arguments that move, which a graph would
    copy). So does the first call on a GPU: nothing runs there before the program is made.

    Parameters
    ----------
    fn : callable
        Takes trees of arrays and other values, and returns such. It may take gradients, update
        arrays in place, and draw random numbers; all of it happens at each call, as without `jit`.
    static_argnums : int or sequence of int, default ()
        Positions of arguments that are constants of the program. They must be hashable, and another
        value is traced anew. Numbers, strings and other leaves that are not arrays are constants
        anyhow.
    static_argnames : str or sequence of str, default ()
        Names of such keyword arguments.
    donate_argnums : int or sequence of int, default ()
        Positions of arguments that the caller does not use again: their memory may become that of
        results. The values of the results do not depend on it.

    Returns
    -------
    Jitted
        Called like `fn`. `.traces` counts how often it was traced.

    Raises
    ------
    TypeError
        `fn` is not callable, or a value that is neither array nor hashable is passed.
    TraceError
        At the first call: the function does what a program cannot hold. The message names the line:
        reading values (`float(x)`, `if x`, `item`, printing), results whose shape depends on values
        (boolean masks, `nonzero`), kernels of the user.

    Warns
    -----
    RuntimeWarning
        The function has been traced again and again; the message says what changes.

    Notes
    -----
    Gradient: take it inside the function. Where a gradient is being recorded outside, the function
    runs as it is.

    Bits. On the CPU the program gives what the function gives, bit for bit; but gradients through
    the carry of `scan`, in which a program adds the same terms in another order. On a GPU fused
    operations round less often than the function's own. All calls give the same bits for the same
    arguments.

    The first call. While a GPU's operations are recorded, their results have shapes, dtypes and
    strides, but no memory: the first call takes the memory of the program, and compiles its kernels
    (and those of constants that are computed beforehand) alone. What needs more than that (other
    streams, a second GPU, arrays on the CPU that the function changes) is a reason to run the
    function as it is at the first call; `cm.explain` says so. On the CPU the first call is the
    function itself.

    Arguments. What the function puts into lists and dicts among its arguments (`p[k] = p[k] - g`)
    is put there at each call. It must not add or remove entries.

    Hidden state. Arrays that the function finds outside (globals, attributes, closures) are read
    and written by reference at each call. Other values that it finds there (numbers, lists, dicts,
    attributes of the user's objects, NumPy arrays) are looked at before each call, and the function
    is traced anew where one has changed; of containers of more than 1,000 elements the length alone
    is. What the function itself changes there is an error, and so are numbers drawn on the host and
    clocks. Printing, warnings and files happen in the first call only.

    Examples
    --------
    >>> import cudamath as cm
    >>> @cm.jit
    ... def step(w, x, y):
    ...     loss, g = cm.value_and_grad(lambda w: ((x @ w - y) ** 2).mean())(w)
    ...     w -= 0.1 * g
    ...     return loss
    >>> w, x, y = cm.zeros(2), cm.array([[1.0, 0.0], [0.0, 2.0]]), cm.array([1.0, 1.0])
    >>> [round(float(step(w, x, y)), 4) for _ in range(3)], step.traces
    ([1.0, 0.585, 0.3929], 1)
    """
    require_function("jit", fn)
    return Jitted(
        fn,
        _positions("static_argnums", static_argnums),
        _names(static_argnames),
        _positions("donate_argnums", donate_argnums),
    )


def _positions(what: str, value: Any) -> tuple[int, ...]:
    """Positions of arguments."""
    try:
        return tuple([operator.index(i) for i in (value if np.iterable(value) else [value])])
    except TypeError:
        raise TypeError(f"jit: wants {what} as a position or several, got {value!r}") from None


def _names(value: Any) -> frozenset[str]:
    """Names of arguments."""
    names = [value] if isinstance(value, str) else list(value)
    if not all([isinstance(name, str) for name in names]):
        raise TypeError(f"jit: wants static_argnames as a name or several, got {value!r}")
    return frozenset(names)


class _Compiled:
    """A program that is ready to run.

    Attributes
    ----------
    program : Program
        What runs.
    run : callable
        `run(*arrays)` -> the arrays that span the blocks that the program makes. On a GPU it
        replays a CUDA graph, unless copies into and out of that would take longer than it saves.
    plain : callable
        `run` without a graph.
    structure : PyTreeSpec
        Of what the function returns, and what it puts into its arguments.
    leaves : list
        For each leaf of it: how it is made (`_Leaf`), or the constant itself.
    state : HiddenState or None
        What the function found in Python.
    written : list of int
        Arguments that the program may write into.
    captured : list of ndarray
        Arrays outside that it may write into.
    """

    def __init__(
        self, program: Program, structure: Any, leaves: list[Any], state: HiddenState | None = None
    ):
        self.program, self.structure, self.leaves = program, structure, leaves
        self.state = state
        groups = program.written()
        self.written = [b.index for b in program.arguments if b.group in groups]
        self.captured: list[ndarray] = [
            b.array  # type: ignore[misc]
            for b in program.constants()
            if b.outside and b.group in groups
        ]
        self.plain = self.run = straight_line(program)
        if program.device >= 0 and on_one_device(program) and not program.reads:
            most = most_copied(program)
            if most >= 0:
                graphed = Graphed(self.plain, frozenset(self.written), most)
                self.run = lambda *arrays: graphed.alike([*arrays])
        made = {block: i for i, block in enumerate(program.made())}
        for leaf, result in zip(leaves, program.results, strict=True):
            if isinstance(result, View):
                leaf.view, leaf.made = result, made.get(result.block)

    def __call__(self, arrays: list[ndarray], passed: list[Any]) -> Any:
        """Run the program on the array arguments. passed: these, as the caller passed them."""
        for i in self.written:
            refuse_read_only("jit", arrays[i])
        if lent and (self.written or self.captured):
            settle_all()
        made = self.run(*arrays)
        if mutation.holders:
            for x in (*[arrays[i] for i in self.written], *self.captured):
                mutation.wrote(x)

        def array(leaf: _Leaf) -> Any:
            return lying(leaf.view, leaf.made, made, arrays)

        return assembled(self.structure, self.leaves, array, passed)


class _Leaf:
    """An array among the results.

    argument: the number of the argument that it is, or None; same: a number that is equal for
    leaves that are one object; kind: the class of a scalar, or None for an array; view: where it
    lies; made: the number of the array that the program makes, of which it is a view, or None.
    """

    __slots__ = ("argument", "same", "kind", "view", "made")

    view: View
    made: int | None

    def __init__(self, argument: int | None, same: int, kind: type | None):
        self.argument, self.same, self.kind = argument, same, kind


def leaves_of(results: list[Any], arguments: list[ndarray]) -> list[Any]:
    """How the leaves of what a function returned are made: a `_Leaf` for an array, and anything
    else as it is."""
    positions = {id(x): i for i, x in enumerate(arguments)}
    same: dict[int, int] = {}
    return [
        _Leaf(
            positions.get(id(y)),
            same.setdefault(id(y), len(same)),
            None if type(y) is ndarray else type(y),
        )
        if isinstance(y, ndarray)
        else y
        for y in results
    ]


def forget_kept(dry: DryStream) -> None:
    """After a trace: whoever has kept an array of it gets an error that says so when he uses it."""
    kept = dry.kept()
    for x in gc.get_objects() if kept else ():
        if issubclass(type(x), ndarray) and id(x._owner) in kept:
            x._data = Gone(dry.name)


@context_manager
def _collector_waits() -> Iterator[None]:
    """A context without garbage collection: of the many objects that a program is made of few are
    garbage, and to look through all that there is takes a tenth of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _is_leaf(x: Any) -> bool:
    return x.__class__ is _Leaf


def assembled(
    structure: Any, leaves: list[Any], array: Callable[[_Leaf], ndarray], passed: list[Any]
) -> Any:
    """What a call returns. array: of a leaf; passed: the array arguments as the caller passed
    them."""
    made: dict[int, Any] = {}
    out = []
    for leaf in leaves:
        if not _is_leaf(leaf):
            out.append(leaf.copy() if type(leaf) is np.ndarray else leaf)
        elif leaf.argument is not None:
            out.append(passed[leaf.argument])
        else:
            if leaf.same not in made:
                y = array(leaf)
                made[leaf.same] = y if leaf.kind is None else _in_class(y, leaf.kind)
            out.append(made[leaf.same])
    return structure.unflatten(out)


def _in_class(y: ndarray, kind: type) -> Any:
    """A new array in the class that it had in the trace: a scalar as the user gets it."""
    if issubclass(kind, Scalar) and is_numpys(y._layout):
        return y._data[()]
    y.__class__ = kind
    return y


class Jitted:
    """A function that runs as a program, returned by `jit`.

    Call it like the function.

    Parameters
    ----------
    fn : callable
        Function of arrays.
    static_argnums, donate_argnums : tuple of int
        Positions of constants, and of arguments whose memory may be reused.
    static_argnames : frozenset of str
        Names of constants.
    """

    broadcasts = False  # a profile measures the ops that it runs

    def __init__(
        self,
        fn: Callable,
        static_argnums: tuple[int, ...],
        static_argnames: frozenset[str],
        donate_argnums: tuple[int, ...],
    ):
        self.fn = fn
        self.static_argnums, self.static_argnames = static_argnums, static_argnames
        self.donate_argnums = donate_argnums
        self.plans: dict[Any, _Compiled] = {}
        self.traces = 0
        self._keys: list[tuple] = []  # of the last traces
        self._name = getattr(fn, "__name__", "function")
        _functions.add(self)
        dtypes.planned.add(self)
        functools.update_wrapper(self, fn)

    def clear(self) -> None:
        """Drop all programs and their memory."""
        self.plans.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if recording.state.depth or open_records and current() is not None:
            return self.fn(*args, **kwargs)  # what surrounds it records its operations
        call = _Call(self, args, kwargs)
        if call.device <= TRACED or any([x._node is not None for x in call.arrays]):
            return self.fn(*args, **kwargs)
        try:
            compiled = self.plans.get(call.key)
        except TypeError:
            raise TypeError(
                f"jit: arguments of {self._name} must be arrays or hashable values, got "
                f"{sorted({type(x).__name__ for x in call.constants})}"
            ) from None
        if compiled is None:
            return self._first(call)
        if compiled.state is not None and not compiled.state.unchanged():
            name, line = compiled.state.difference() or ("", "")
            return self._first(call, f"{name}, which it reads at {line}, changes")
        with device_of(call.device):
            return call.returned(compiled(call.arrays, call.passed))

    def _first(self, call: _Call, why: str = "") -> Any:
        """Run the function and make the program of later calls. why: it is traced anew."""
        if frames():  # it may close over what belongs to a call of vmap
            return self.fn(*call.given[0], **call.given[1])
        with device_of(call.device):
            if call.device != CPU:
                settle_all()
                compiled, reason = self._before_it_runs(call)
                if compiled is not None:
                    self._count(call, why)
                    return call.returned(compiled(call.arrays, call.passed))
            program, structure, leaves, state, results = self._traced(call, Trace(self._name))
            if call.device != CPU:
                program.notes.append(f"the first call ran the function as it is: {reason}")
            if not program.ambiguous:
                store(self.plans, call.key, _Compiled(program, structure, leaves, state), MOST)
        self._count(call, why)
        arrays = {leaf.same: y for leaf, y in zip(leaves, results, strict=True) if _is_leaf(leaf)}
        return call.returned(
            assembled(structure, leaves, lambda leaf: arrays[leaf.same], call.passed)
        )

    def _before_it_runs(self, call: _Call) -> tuple[_Compiled | None, str]:
        """The program of a call on a GPU, made before anything runs there: the function is recorded
        on a dry stream. Or None, and why that cannot be done."""
        standing = stream_of(call.device)
        if standing.capturing:
            return None, "a graph is being captured"
        dry = DryStream(standing, self._name)
        try:
            with _collector_waits():
                compiled = self._recorded_dry(call, dry)
            return compiled, dry.reason or "an argument lies in another array"
        except Exception:
            if not dry.reason:
                raise
            return None, dry.reason
        finally:
            forget_kept(dry)

    def _recorded_dry(self, call: _Call, dry: DryStream) -> _Compiled | None:
        """The program, recorded on a dry stream."""
        record = Trace(self._name)
        with dry, Rehearsal():
            program, structure, leaves, state, _ = self._traced(call, record)
        if dry.reason or program.ambiguous:
            return None
        compiled = _Compiled(program, structure, leaves, state)
        load_kernels(compiled.plain, call.arrays, call.device, self._name)
        return store(self.plans, call.key, compiled, MOST)

    def _traced(self, call: _Call, record: Trace) -> tuple:
        """Run the function and make a program of its record.

        Returns
        -------
        tuple
            (the program, the structure of what the function returned and what it put into its
            arguments, how its leaves are made, what the function found in Python, the leaves).
        """
        args, kwargs, twins = call.twins()
        state = HiddenState(self.fn, call.objects())
        if clock := state.clock():
            raise TraceError(
                f"jit: {self._name} may call {clock[0]} at {clock[1]}: a program would have the "
                "value of the first call for ever. Call it outside, and pass what it gives"
            )
        drawn = host_randoms()
        with record:
            result = self.fn(*args, **kwargs)
        self._check(record, state, drawn)
        results, structure = trees.flatten("jit", (result, call.put(args, kwargs, twins)))
        for leaf in results:
            self._check_returned(leaf, call, state)
        program = trace(record, twins, results, call.device)
        leaves = leaves_of(results, twins)
        if not program.ambiguous:
            program = donated(simplify(program), call.donated(self.donate_argnums), leaves)
            if program.device >= 0:
                program = in_place(less_at_a_time(joined_in_place(fused(program))))
        return program, structure, leaves, state, results

    def _check(self, record: Trace, state: HiddenState, drawn: tuple) -> None:
        """Raise TraceError for what the function did beside its operations."""
        if record.refused:  # the function caught it, and went on in another way
            raise TraceError(record.refused)
        if (now := host_randoms()) != drawn:
            which = ["random", "numpy.random"][now[0] == drawn[0]]
            raise TraceError(
                f"jit: {self._name} draws from {which}, on the host: a program would have the "
                "numbers of the first call for ever. Draw by cm.random, or outside, and pass them"
            )
        if changed := state.difference():
            name, line = changed
            raise TraceError(
                f"jit: {self._name} changes {name} at {line}: a program does not run the Python "
                "code again, so this would happen in the first call only. Return what is new, and "
                "take it as an argument; an array may be changed in place (x += 1, x[...] = y)"
            )

    def _check_returned(self, leaf: Any, call: _Call, state: HiddenState) -> None:
        """Raise TraceError for a result that would be the same object at each call."""
        if isinstance(leaf, (ndarray, np.ndarray, *PLAIN, type)) or callable(leaf):
            return
        if id(leaf) in state.seen or any([leaf is x for x in call.constants]):
            return  # it was there before
        raise TraceError(
            f"jit: {self._name} returns a {type(leaf).__name__}, which would be the same object at "
            "each call. Return arrays and plain values, in dicts, lists and tuples"
        )

    def _count(self, call: _Call, why: str) -> None:
        """Count a trace; a warning where they repeat."""
        self.traces += 1
        self._keys = [*self._keys[-1:], call.key]
        if self.traces % MANY:
            return
        before, now = self._keys
        changes = why or call.difference(before, now)
        warnings.warn(
            f"jit: {self._name} was traced {self.traces} times, because {changes}",
            RuntimeWarning,
            stacklevel=4,
        )

    def describe(self) -> str:
        """What `cm.explain` prints: the programs that it holds.

        Returns
        -------
        str
            A paragraph for each program.
        """
        texts = [described(self._name, program) for program in self.programs()]
        return "\n".join(texts) or f"{self._name} has no program yet: call it first"

    def programs(self) -> list[Program]:
        """The programs that it holds, in the order in which they were made."""
        return [compiled.program for compiled in list(self.plans.values())]


class _Call:
    """The arguments of a call, taken apart.

    Attributes
    ----------
    arrays : list of ndarray
        The array arguments. NumPy's arrays and scalars have become arrays.
    passed : list
        These, as the caller passed them.
    constants : list
        The other leaves.
    device : int
        Where the call runs.
    key : tuple
        What decides which program runs.
    """

    def __init__(self, jitted: Jitted, args: tuple, kwargs: dict):
        count = len(args)
        places = {i % count for i in jitted.static_argnums if -count <= i < count}
        static = [args[i] for i in sorted(places)]
        static += [kwargs[n] for n in sorted(jitted.static_argnames & kwargs.keys())]
        self.args = [None if i in places else x for i, x in enumerate(args)]
        self.kwargs = {n: None if n in jitted.static_argnames else x for n, x in kwargs.items()}
        self.given, self.places, self.names = (args, kwargs), places, jitted.static_argnames
        self.name = jitted._name
        self.leaves, self.structure = trees.flatten("jit", (self.args, self.kwargs))
        self.positions: list[int] = []
        self.arrays: list[ndarray] = []
        self.passed: list[Any] = []
        self.constants: list[Any] = []
        parts: list[Any] = []
        alike = all([leaf.__class__ is ndarray for leaf in self.leaves])
        if alike:  # hundreds of weights: without the loop below
            self.positions = [*range(len(self.leaves))]
            self.arrays, self.passed = [*self.leaves], [*self.leaves]
            parts = [(x._layout, ndarray) for x in self.arrays]
        for i, leaf in enumerate(() if alike else self.leaves):
            if isinstance(leaf, ndarray):
                x = leaf
            elif isinstance(leaf, np.ndarray) or type(leaf) in NUMPY_SCALARS:
                x = asarray(leaf, name="jit")
                x = scalar(x, recorded=True) if not isinstance(leaf, np.ndarray) else x
            else:
                self.constants.append(leaf)
                parts.append(exact(leaf))
                continue
            self.positions.append(i)
            self.arrays.append(x)
            self.passed.append(leaf)
            parts.append((x._layout, x.__class__))
        self.constants += static
        self.device = same_device("jit", self.arrays) if self.arrays else default_index()
        self.key = (
            self.structure,
            self.device,
            default_index(),
            overlaps(self.arrays),
            tuple(map(exact, static)),
            *parts,
        )

    def twins(self) -> tuple[list[Any], dict[str, Any], list[ndarray]]:
        """The arguments with other objects in place of the arrays, which are none that the function
        could have found elsewhere; and these."""
        leaves = list(self.leaves)
        twins = [x._alias() for x in self.arrays]
        for i, twin in zip(self.positions, twins, strict=True):
            leaves[i] = twin
        args, kwargs = self.structure.unflatten(leaves)
        given, named = self.given
        args = [given[i] if i in self.places else x for i, x in enumerate(args)]
        kwargs = {n: named[n] if n in self.names else x for n, x in kwargs.items()}
        return args, kwargs, twins

    def put(self, args: list[Any], kwargs: dict[str, Any], twins: list[ndarray]) -> dict[int, Any]:
        """Which leaves of the twins the function has put others in the place of, in lists and dicts
        (`p[k] = p[k] - g`), and these. TraceError where it has added or removed some."""
        dynamic = [None if i in self.places else x for i, x in enumerate(args)]
        named = {n: None if n in self.names else x for n, x in kwargs.items()}
        leaves, structure = trees.flatten("jit", (dynamic, named))
        if structure != self.structure:
            raise TraceError(
                f"jit: {self.name} adds or removes entries of an argument: {self.structure} became "
                f"{structure}. Return what is new, in a list or dict of its own"
            )
        before = list(self.leaves)
        for i, twin in zip(self.positions, twins, strict=True):
            before[i] = twin
        return {i: x for i, (x, old) in enumerate(zip(leaves, before, strict=True)) if x is not old}

    def returned(self, out: tuple[Any, dict[int, Any]]) -> Any:
        """What a call returns; what it puts into its arguments is put there. out: both."""
        result, put = out
        if put:
            for place, leaf in zip(trees.places(self.structure, [*put]), put.values(), strict=True):
                trees.put((self.args, self.kwargs), place, leaf)
        return result

    def objects(self) -> tuple:
        """The arguments that are objects of the user's, or functions."""
        return tuple([x for x in self.constants if not isinstance(x, PLAIN)])

    def donated(self, positions: tuple[int, ...]) -> set[int]:
        """The numbers of the arrays in the arguments at these positions."""
        count = len(self.args)
        chosen = {i % count for i in positions if -count <= i < count}
        owner: list[int] = []  # of each leaf: the position of its argument
        for i, x in enumerate(self.args):
            owner += [i] * len(trees.flatten("jit", x)[0])
        return {
            k
            for k, at in enumerate(self.positions)
            if at < len(owner) and owner[at] in chosen and self.arrays[k] is self.passed[k]
        }

    def difference(self, before: tuple, now: tuple) -> str:
        """What differs between two keys, in words."""
        if before[0] != now[0]:
            return f"the structure of its arguments changes, {before[0]} to {now[0]}"
        if before[4] != now[4]:
            return f"a static argument changes: {before[4]} to {now[4]}"
        for i, (a, b) in enumerate(zip(before[5:], now[5:], strict=True)):
            if a == b:
                continue
            leaf = self.leaves[i]
            if isinstance(leaf, ndarray | np.ndarray | np.generic):
                return (
                    f"the layout of an array changes: {a[0]} to {b[0]}; pad it to one of few shapes"
                )
            return (
                f"a value that is no array changes, now {leaf!r}; pass a number that changes as a "
                "0-d array, cm.asarray(value)"
            )
        return "devices, or arguments that share memory, change"
