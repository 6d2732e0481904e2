"""CUDA graphs of functions of arrays: `graph(fn)`, and `capture()` for programs that manage their
own static arrays.
"""

from __future__ import annotations

import collections
import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import shapes, trees
from ..core.array import allocate, ndarray, over, refuse_read_only
from ..core.asarray import asarray, same_device
from ..core.devices import CPU, default_index, device_of
from ..core.dispatch.call_record import CHOSE, READ, CallRecord
from ..core.dispatch.checks import require_function
from ..core.elements import settle_all
from ..core.layout import Layout
from ..core.overlap import overlaps, span, together
from ..core.scalar import Scalar, scalar
from ..runtime import fork, host_stream, memory, stream
from ..runtime import graph as runtime
from ..runtime.interrupts import uninterrupted
from .devices import index_of

__all__ = ["Capture", "Graphed", "capture", "graph"]

NOTHING_REPLAYED = (
    8  # calls in a row, each with a number never seen before, after which a warning says so
)
ALIGNMENT = 256  # bytes; blocks of the pool begin at multiples
ALIKE = "calls of arrays that lie alike"  # the kind of calls of `Graphed.alike`
ONCE = 8 << 20  # bytes of arguments that move, which may do so once, as parameters that were loaded
MOST_GRAPHS = 32  # kinds of arguments a function remembers; the one used longest ago is forgotten


def graph(fn: Callable) -> Graphed:
    """Make a function that does the work of `fn` by replaying a CUDA graph.

    It takes one driver call instead of one per kernel.

        step = cm.cuda.graph(train_step)
        loss = step(parameters, state, images, labels)

    The first call with arguments of given structure, shapes and dtypes runs `fn` as it is (and so
    compiles its kernels), the second captures its work and replays it, later ones replay. Every
    call does the work exactly once, and returns arrays of its own.

    Arguments are trees (dicts, lists, tuples) of arrays and other values. An array that is the same
    at each call (same address: parameters, optimizer state) is used where it is, so `fn` may update
    it in place. Other arrays, NumPy arrays too, are copied into the graph's own before each replay;
    where `fn` changed such an array in the first replay, it is copied back after each. Values that
    are not arrays are part of what a graph is made for: a call with another value runs `fn` as it
    is, then has a graph of its own. So pass what changes at each call, like a learning rate from a
    schedule, as an array (the optimizers of `ml` take lr as one, and count their steps in one);
    where values change all the time, so that nothing is ever replayed, a RuntimeWarning says which.

    The gain: a chain of fifty additions of 4,096 numbers takes about half of its time on an H200
    (row graph_steps of the records; how much the host takes without a graph differs from run to
    run); large kernels gain nothing.

    What `fn` reads otherwise is frozen as it was at the capture: Python variables, host arrays,
    other arrays' addresses (their elements may change). Side effects of the Python code happen in
    the first two calls only. Arrays made inside and kept by `fn` elsewhere are overwritten by each
    replay.

    Arrays on the CPU, and a machine without a GPU: each call runs `fn`, and the second one refuses
    what a graph cannot hold, as on a GPU.

    Parameters
    ----------
    fn : callable
        Must not wait for the device or read results on the host (float(x), printing, boolean
        indexing), switch streams or use several devices. It may draw random numbers: each call goes
        on with the generator's sequence, exactly as `fn` itself would.

    Returns
    -------
    Graphed
        Called like `fn`; `.graphs` counts the graphs it holds, `.clear()` drops them and their
        memory.

    Raises
    ------
    DeviceError
        Arguments are on different devices. (At the call.).
    RuntimeError
        `fn` does what a graph cannot hold; the message names it. Nothing was done then on a GPU,
        and on the CPU what comes before it.
    TypeError
        An argument is neither an array nor hashable, or a gradient is being recorded through the
        graph.

    Notes
    -----
    Gradients: take them inside `fn`; a graph cannot be differentiated.

    Examples
    --------
    >>> import cudamath as cm
    >>> step = cm.cuda.graph(lambda x: cm.exp(x) + 1)
    >>> x = cm.zeros(2)
    >>> [step(x).tolist() for _ in range(3)]
    [[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]]
    """
    require_function("graph", fn)
    return Graphed(fn)


class _Replay:
    """A captured graph with its static inputs and what its function returned."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.graph: runtime.Graph
        self.inputs: list[Any] = []  # static arrays; the caller's own where persistent
        self.copied: list[int] = []  # positions of the inputs to copy in before each replay
        self.written: list[int] = []  # of those, the ones to copy back
        self.outputs: list[Any] = []
        self.arguments: list[int | None] = []  # of each output: the input that it is, if any
        self.structure: Any = None


class _Kind:
    """What is known of calls with arguments of one structure and layouts."""

    def __init__(self) -> None:
        self.addresses: list[int | None] | None = None  # of the array arguments at the last call
        self.moved: set[int] = set()  # positions of array arguments whose address has changed
        self.moving: set[int] = set()  # of those, the ones that a graph copies in
        self.replay: _Replay | None = None
        self.observed = False  # on the CPU: whether the function does only what a graph can hold


class Graphed:
    """A function that replays CUDA graphs, returned by `graph`.

    Call it like the function.

    Parameters
    ----------
    fn : callable
        Function of arrays.
    written : frozenset of int, optional
        Positions of the arrays that the function changes, for a function of arrays alone. By
        default the first replay tells.
    most_copied : int, optional
        Bytes of arguments that a replay may copy; where it would copy more, the function runs as it
        is, and so it does where much moves for the first time: it may stay there. By default there
        is no limit.
    """

    def __init__(
        self,
        fn: Callable,
        written: frozenset[int] | None = None,
        most_copied: int | None = None,
    ):
        self._fn = fn
        self._written = written
        self._most_copied = most_copied
        self._kinds: collections.OrderedDict[Any, _Kind] = collections.OrderedDict()
        self._lock = fork.new_reentrant_lock()  # replays share memory
        self._values: list[
            tuple
        ] = []  # of the arguments that are not arrays, in the calls since the last replay
        functools.update_wrapper(self, fn)

    @property
    def graphs(self) -> int:
        """Number of graphs that are held."""
        return sum(kind.replay is not None for kind in self._kinds.values())

    def clear(self) -> None:
        """Drop all graphs and release their memory."""
        with self._lock:
            self._kinds.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        stream.refuse_capture("graph", "graphs do not nest")
        host_stream.refuse_capture("graph", "graphs do not nest")
        leaves, structure = trees.flatten("graph", (args, kwargs))
        arrays = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (ndarray, np.ndarray))]
        hosted = {i for i in arrays if isinstance(leaves[i], np.ndarray)}
        ours = [leaves[i] for i in arrays if i not in hosted]
        for x in ours:
            _check_constant(x)
        if ours:
            device = same_device("graph", ours)
            if device < CPU:  # of a call of vmap, whose physical arrays a graph outside captures
                return self._fn(*args, **kwargs)
        else:
            device = CPU if default_index() == CPU else index_of(None, "graph")
        for i in hosted:
            leaves[i] = asarray(leaves[i], device=device_of(device), copy=True, name="graph")
        key = (
            structure,
            device,
            overlaps([leaves[i] for i in arrays]) if device != CPU else None,
            *[leaf._layout if isinstance(leaf, ndarray) else (type(leaf), leaf) for leaf in leaves],
        )
        with self._lock, device_of(device):
            try:
                kind = self._kinds.get(key)
            except TypeError:
                raise TypeError(
                    "graph: arguments must be arrays or hashable values, got "
                    f"{[type(x).__name__ for x in leaves if not isinstance(x, ndarray)]}"
                ) from None
            if kind is None:
                kind = self._kinds[key] = _Kind()
                if len(self._kinds) > MOST_GRAPHS:
                    self._kinds.popitem(last=False)
            self._kinds.move_to_end(key)
            if kind.addresses is not None:
                self._values.clear()
            else:
                self._values.append(
                    tuple([leaf for leaf in leaves if not isinstance(leaf, ndarray)])
                )
                if len(self._values) == NOTHING_REPLAYED:
                    self._warn()
            return self._run(kind, structure, leaves, arrays, hosted, device)

    def alike(self, arrays: list[ndarray]) -> Any:
        """Call the function with arrays on one GPU, as a caller does who calls it so alone.

        From call to call they differ in their addresses, and in nothing else.

        Parameters
        ----------
        arrays : list of ndarray
            The arguments.

        Returns
        -------
        object
            What the function returns.
        """
        if not arrays:
            return self()
        stream.refuse_capture("graph", "graphs do not nest")
        host_stream.refuse_capture("graph", "graphs do not nest")
        device = arrays[0]._layout.device
        with self._lock, device_of(device):
            kind = self._kinds.get(ALIKE)
            if kind is None:
                kind = self._kinds[ALIKE] = _Kind()
            if kind.replay is not None and kind.addresses == [x._data for x in arrays]:
                return self._replay(kind.replay, arrays, first=False)
            leaves, structure = trees.flatten("graph", (tuple(arrays), {}))
            return self._run(kind, structure, leaves, [*range(len(arrays))], set(), device)

    def _warn(self) -> None:
        """Say what keeps changing, if it is a number."""
        if len({len(values) for values in self._values}) > 1:
            return
        for column in zip(*self._values, strict=True):
            if isinstance(column[0], (int, float, complex)) and len(set(column)) == len(column):
                warnings.warn(
                    f"graph: {NOTHING_REPLAYED} calls in a row and nothing to replay, because a "
                    "number among the "
                    f"arguments changes at each ({column[-2]!r}, {column[-1]!r}); pass it as a "
                    "0-d array",
                    RuntimeWarning,
                    stacklevel=4,
                )
                return

    def _run(
        self,
        kind: _Kind,
        structure: Any,
        leaves: list,
        arrays: list[int],
        hosted: set[int],
        device: int,
    ) -> Any:
        before, now = kind.addresses, [None if i in hosted else leaves[i]._data for i in arrays]
        if before is None or kind.observed:
            args, kwargs = structure.unflatten(leaves)
            result = self._fn(*args, **kwargs)
            kind.addresses = now
            return result
        if device == CPU:
            args, kwargs = structure.unflatten(leaves)
            with host_stream.capturing(), _Observed():
                result = self._fn(*args, **kwargs)
            _check_results(trees.flatten("graph", result)[0])
            kind.observed = True
            return result
        kind.addresses = now
        changed = {
            i for i, old, new in zip(arrays, before, now, strict=True) if new is None or old != new
        }
        if kind.replay is None or not changed <= kind.moving:
            kind.replay = None  # its memory first
            if not self._is_worth_copying(kind, changed, leaves):
                args, kwargs = structure.unflatten(leaves)
                return self._fn(*args, **kwargs)
            kind.replay = self._capture(kind.moving, structure, leaves, device)
            return self._replay(kind.replay, leaves, first=True)
        return self._replay(kind.replay, leaves, first=False)

    def _is_worth_copying(self, kind: _Kind, changed: set[int], leaves: list) -> bool:
        """Note what has moved since the last call; whether a graph should copy in what moves."""
        most = self._most_copied
        fresh = sum([leaves[i].nbytes for i in changed - kind.moved])
        kind.moved |= changed
        if most is not None and fresh > ONCE:
            return False  # it may stay where it is now
        kind.moving |= changed
        return most is None or sum([leaves[i].nbytes for i in kind.moving]) <= most

    def _capture(self, moving: set[int], structure: Any, leaves: list, device: int) -> _Replay:
        replay = _Replay(device)
        recording = runtime.Capture(device)
        replay.copied = sorted(moving)
        replay.inputs = list(leaves)
        for i, static in zip(
            replay.copied, _like([leaves[i] for i in replay.copied], recording.stream), strict=True
        ):
            replay.inputs[i] = static
        args, kwargs = structure.unflatten(replay.inputs)
        settle_all()
        with recording:
            result = self._fn(*args, **kwargs)
        replay.graph = recording.graph
        replay.outputs, replay.structure = trees.flatten("graph", result)
        _check_results(replay.outputs)
        places = {id(x): i for i, x in enumerate(replay.inputs) if isinstance(x, ndarray)}
        replay.arguments = [places.get(id(leaf)) for leaf in replay.outputs]
        return replay

    def _replay(self, replay: _Replay, leaves: list, *, first: bool) -> Any:
        current = stream.stream_of(replay.device)
        settle_all()  # the graph writes where it wrote during the capture
        replay.graph.after_last(current)
        for i in replay.copied:
            _copy(replay.inputs[i], leaves[i])
        replay.graph.launch(current)
        if self._written is not None:
            replay.written = [i for i in replay.copied if i in self._written]
        elif first:  # which of the copies did the function change? Looked up once; this waits
            replay.written = [
                i for i in replay.copied if replay.inputs[i].tobytes() != leaves[i].tobytes()
            ]
        for i in replay.written:
            refuse_read_only("graph", leaves[i])
            _copy(leaves[i], replay.inputs[i])
        own = replay.graph.stream
        out = []
        for leaf, argument in zip(replay.outputs, replay.arguments, strict=True):
            if argument is not None:  # it is returned
                leaf = leaves[argument]
            elif isinstance(leaf, ndarray) and getattr(leaf._owner, "stream", None) is own:
                leaf = _copied(leaf)
            out.append(leaf)
        return replay.structure.unflatten(out)


class _Observed(CallRecord):
    """The record of a call on the CPU that must not read what a graph could not know."""

    of_user = unread = True

    def __init__(self) -> None:
        super().__init__(keep=False)

    def refuse(self, reason: str) -> None:
        """RuntimeError where a value is read, as a copy to the host raises on a GPU."""
        if reason in (READ, CHOSE):
            host_stream.refuse_capture("copy to the host")


def _check_results(leaves: list) -> None:
    for leaf in leaves:
        if isinstance(leaf, ndarray):
            _check_constant(leaf)


def _check_constant(x: ndarray) -> None:
    if x._node is not None:
        raise TypeError(
            "graph: a gradient is being recorded through the graph; take gradients inside the "
            "function"
        )


def _like(arrays: list[ndarray], own: stream.Stream) -> list[ndarray]:
    """Arrays in new memory of this stream that lie as these do: with their strides and alignment,
    and sharing memory where they share it, so that a function does with them what it would do with
    these."""
    out = list(arrays)
    for group in together(arrays):
        low, high = zip(*[span(arrays[i]) for i in group], strict=True)
        first = min(low) // ALIGNMENT * ALIGNMENT
        buffer = memory.Buffer(max(high) - first, own)
        for i in group:
            x = arrays[i]
            out[i] = over(x._layout, buffer.address + x._address - first, buffer)
    return out


def _distinct(x: ndarray) -> ndarray:
    """A view of the elements of which others are repetitions."""
    own = x._layout
    if 0 not in own.strides:
        return x
    shape = tuple([n if s else min(n, 1) for n, s in zip(own.shape, own.strides, strict=True)])
    return x._view(Layout.of(shape, own.strides, own.dtype, own.device, own.aligned))


def _copy(target: ndarray, source: ndarray) -> None:
    """Copy elements on the device, whatever the strides."""
    if not (target.is_contiguous and source.is_contiguous):
        _distinct(target)[...] = _distinct(source) if 0 in target._layout.strides else source
        return
    current = stream.stream_of(target._layout.device)
    for x in (target, source):
        if x._owner.stream is not current:
            x._owner.used_on(current)
    memory.copy(target._data, source._data, source.nbytes, current)


def _copied(x: ndarray) -> ndarray:
    """A copy, in the order in which the elements lie, as in a call of the function itself."""
    layout = x._layout
    if shapes.byte_bounds(layout.shape, layout.strides, layout.itemsize) == (0, layout.nbytes):
        current = stream.stream_of(layout.device)
        buffer = memory.Buffer(layout.nbytes, current)
        out = over(layout, buffer.address, buffer)
        x._owner.used_on(current)
        memory.copy(out._data, x._data, layout.nbytes, current)
    else:
        out = allocate(Layout.new(x.shape, x.dtype, layout.device))
        _copy(out, x)
    return scalar(out) if isinstance(x, Scalar) else out


class Capture:
    """A recorded sequence of work, returned by `capture`.

    `replay()` does the recorded work, and `nodes` counts its kernels and copies.

    Parameters
    ----------
    device : int
        Ordinal of the device.
    """

    def __init__(self, device: int):
        self._recording = runtime.Capture(device)
        self._lock = fork.new_lock()  # replays share memory

    @property
    def nodes(self) -> int:
        """Number of recorded kernels and copies."""
        return self._recording.graph.nodes

    def replay(self) -> None:
        """Queue the recorded work on the current stream, after its last replay."""
        settle_all()
        with self._lock:
            self._recording.graph.launch(stream.stream_of(self._recording.device))

    def __enter__(self) -> Capture:
        settle_all()
        self._recording.__enter__()
        return self

    @uninterrupted
    def __exit__(self, *exc: Any) -> None:
        self._recording.__exit__(*exc)


def capture(device: int | None = None) -> Capture:
    """Context: record the launches of this thread instead of running them.

    `replay()` of the result runs them, as often as it is called.

    Arrays made inside belong to the graph and hold results after a replay, until the next one. To
    use other inputs, write them into the arrays that were used inside (`x[...] = new`). What `fn`
    of `graph` must not do, must not be done here. Run the same work once before, so that its
    kernels are compiled.

    Parameters
    ----------
    device : int, optional
        Ordinal of the device. The default is the active one.

    Returns
    -------
    Capture
        The recorded work.

    Raises
    ------
    DeviceError
        There is no such device.
    RuntimeError
        Something that a graph cannot hold was done inside.

    Examples
    --------
    >>> import cudamath as cm
    >>> if cm.cuda.is_available():
    ...     x = cm.zeros(4)
    ...     y = x + 1
    ...     with cm.cuda.capture() as recorded:
    ...         y = x + 1
    ...     x[...] = 5
    ...     recorded.replay()
    ...     assert y.tolist() == [6.0] * 4
    """
    return Capture(index_of(device, "capture"))
