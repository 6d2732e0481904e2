"""The source of random numbers: key, stream and offset of Philox4x32-10, and how draws divide the
sequence among them.

A draw reserves a range of the sequence on the host, and its kernel computes the numbers of that
range. While a CUDA graph is being captured nothing is reserved. Instead the kernel gets its offset
within the *graph's* range, and reads the beginning of that range from a small device array, the
generator's *cell*. Before each replay the generator reserves a range for the whole graph and writes
its beginning into the cell, in stream order. So replays and draws outside, in any order, give the
numbers that the same calls give without a graph.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from ...autodiff.transforms import stop_gradient
from ...core import dtypes, recording
from ...core.array import ndarray, over
from ...core.asarray import asarray, same_device
from ...core.devices import CPU, device_of, index_of
from ...core.dispatch.call_record import (
    SEEDED,
    obstruct,
    open_records,
    report_draw,
    report_source,
    report_taken,
)
from ...core.dispatch.lazy_import import lazy
from ...core.dispatch.op import FLOATING, REAL, Op
from ...core.layout import Layout
from ...core.scalar import scalar_results
from ...core.shapes import as_integer, normalize_shape
from ...runtime import fork, memory
from ...runtime.errors import shown_as
from ...runtime.state import runtime
from ...runtime.stream import Stream, refuse_capture
from ..shape import broadcast_to

Size = int | Sequence[int] | None

MASK = (1 << 64) - 1
_LAST_BLOCK = (
    1 << 56
)  # the upper byte of a block number counts the attempts of rejection samplers ...
_SPAWN = 255 << 56  # ... and 255 there is where children come from
_HOST = "its result would be the same at every replay; do it outside"


# -------------------- arguments


def shape_of(name: str, size: Size) -> tuple[int, ...]:
    """The shape that `size` stands for."""
    return () if size is None else normalize_shape(name, size)


def wanted_dtype(name: str, dtype: Any, category: dtypes.Category, default: np.dtype) -> np.dtype:
    """`dtype`, or the default, which must be of a category."""
    found = default if dtype is None else dtypes.as_dtype(dtype, name)
    if found not in category:
        raise TypeError(f"{name}: wants a {category.name} dtype, got {found}")
    return found


def number(name: str, what: str, value: Any) -> float:
    """`value` as a finite float."""
    if isinstance(value, ndarray) and value.size == 1:
        value = value.item()  # its error, that a gradient would be lost, stays as it is
    try:
        value = float(value)
    except OverflowError:
        raise ValueError(f"{name}: wants a finite {what}, got an integer beyond float64") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name}: wants {what} as one number, got {type(value).__name__}") from None
    if not math.isfinite(value):
        raise ValueError(f"{name}: wants a finite {what}, got {value}")
    return value


def on_host(name: str, what: str, values: Any, dtype: Any = None) -> np.ndarray:
    """Real numbers as a NumPy array, read from a GPU if they are there; with a dtype also bools,
    and fractions as objects."""
    if isinstance(values, ndarray):  # which says itself that a recorded one would be lost
        values = np.asarray(values)
    try:
        host = np.asarray(values)
        host = host if dtype is None or host.dtype.kind == "c" else host.astype(dtype, copy=False)
    except (TypeError, ValueError) as error:  # lists of different lengths
        raise type(error)(
            f"{name}: wants {what} as a number or an array of numbers: {error}"
        ) from None
    if host.dtype.kind not in "iuf" and host.dtype not in FLOATING:
        raise TypeError(
            f"{name}: wants {what} as a number or an array of numbers, got "
            f"{type(values).__name__} of {host.dtype}"
        )
    return host


def probability(name: str, p: Any) -> float:
    """`p` as a float in [0, 1]."""
    value = number(name, "probability p", p)
    if not 0 <= value <= 1:
        raise ValueError(f"{name}: wants a probability p in [0, 1], got {value}")
    return value


#: What a parameter must be, in words and as a test of a float or of a NumPy array.
RANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "any": ("finite", lambda v: v == v),
    "positive": ("> 0", lambda v: v > 0),
    "not negative": (">= 0", lambda v: v >= 0),
    "probability": ("in [0, 1]", lambda v: (v >= 0) & (v <= 1)),
    "chance": ("in (0, 1]", lambda v: (v > 0) & (v <= 1)),
    "a mean": ("in [0, 9e18]", lambda v: (v >= 0) & (v <= 9e18)),
    "a count": ("whole and in [0, 2^53]", lambda v: (v >= 0) & (v <= 2.0**53) & (np.floor(v) == v)),
}


class Parameters:
    """The parameters of a draw, checked: floats, or arrays on the device of the draw; its shape,
    dtype and device.

    ranges: name -> what its value must be (see RANGES). Arrays that are on a GPU already are not
    read, so not checked. composed: the draw goes on in further operations; it is made in the
    compute type and `rounded` at the end.
    """

    def __init__(
        self,
        name: str,
        size: Size,
        dtype: Any,
        device: Any,
        ranges: dict[str, str],
        *values: Any,
        category: dtypes.Category = FLOATING,
        default: np.dtype | None = None,
        composed: bool = False,
    ):
        self.name = name
        found: list[float | ndarray | np.ndarray] = [
            _checked(name, what, kind, value)
            for (what, kind), value in zip(ranges.items(), values, strict=True)
        ]
        self.known = {what: _on_host(x) for what, x in zip(ranges, found, strict=True)}
        ours = [x for x in found if isinstance(x, ndarray)]
        self.place = index_of(device) if device is not None or not ours else ours[0]._layout.device
        if ours and same_device(name, ours) != self.place:
            raise ValueError(
                f"{name}: wants parameters on {device_of(self.place)}, got one on {ours[0].device}"
            )
        if dtype is None and default is None and ours:
            kinds = [x.dtype for x in ours if x.dtype in FLOATING]
            dtype = functools.reduce(dtypes.promote, kinds) if kinds else None
        self.result = wanted_dtype(name, dtype, category, default or dtypes.default_float())
        self.dtype = dtypes.compute_dtype(self.result) if composed else self.result
        self.arrays = any(not isinstance(x, float) for x in found)
        kind = (
            self.dtype if default is None else np.dtype(np.float64)
        )  # whole numbers come from float64 parameters
        self.values: list[Any] = [
            x if isinstance(x, float) else asarray(x, kind, device_of(self.place), name=name)
            for x in found
        ]
        self.shape = shape_for(name, size, [x.shape for x in self.values if isinstance(x, ndarray)])

    def constants(self) -> list[Any]:
        """The values without what is recorded of them: of a draw that is not differentiable in
        them, what a formula that names them beside it passed on would be a part of a gradient,
        which is wrong alone."""
        return [stop_gradient(x) if isinstance(x, ndarray) else x for x in self.values]

    def rounded(self, x: ndarray) -> ndarray:
        """The result of a composition in the dtype requested."""
        return x if x.dtype == self.result else asarray(x, self.result)

    def ordered(self, a: str, b: str, strictly: bool = False) -> None:
        """ValueError unless parameter a <= b (strictly: a < b) in every element, as far as both are
        known on the host."""
        x, y = self.known[a], self.known[b]
        if x is not None and y is not None and not np.all(x < y if strictly else x <= y):
            raise ValueError(
                f"{self.name}: wants {a} {'<' if strictly else '<='} {b}, got {x} and {y}"
            )

    def full(self, index: int, dtype: np.dtype) -> Any:
        """A parameter as a contiguous array of the draw's shape, or as the float it is."""
        x = self.values[index]
        if isinstance(x, float):
            return x
        return filled(asarray(x, dtype), self.shape)


def filled(x: ndarray, shape: tuple[int, ...]) -> ndarray:
    """`x` broadcast to a shape, contiguous."""
    x = x if x.shape == shape else broadcast_to(x, shape)
    return x if x._layout.contiguous else x.copy()


def _on_host(x: Any) -> Any:
    """The values of a parameter as given, to be checked; None if they are on a GPU."""
    if not isinstance(x, ndarray):
        return x
    return x._alias().to_numpy() if x._layout.device == CPU else None


def _checked(name: str, what: str, kind: str, value: Any) -> Any:
    """A parameter: a float, a NumPy array or an ndarray."""
    words, test = RANGES[kind]
    if isinstance(value, (int, float, np.number)):
        value = number(name, what, value)
        if not test(value):
            raise ValueError(f"{name}: wants {what} {words}, got {value}")
        return value
    if not isinstance(value, ndarray) and (
        hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray)
    ):
        value = asarray(value, name=name)
    host = on_host(name, what, value) if not isinstance(value, ndarray) else None
    if host is None and value.dtype not in REAL:
        raise TypeError(
            f"{name}: wants {what} as real numbers, got {value.dtype} of shape {value.shape}"
        )
    seen = _on_host(value if host is None else host)
    if seen is not None and seen.dtype in FLOATING and seen.dtype.itemsize < 4:
        seen = seen.astype(np.float32)  # to which the bounds of ranges are no infinities
    if seen is not None and not np.all(test(seen)):
        raise ValueError(
            f"{name}: wants {what} {words}, got {seen[~test(seen)].flat[0]} in an array of shape "
            f"{seen.shape}"
        )
    return value if host is None else host


def shape_for(name: str, size: Size, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of a draw: `size`, to which the parameters' shapes must broadcast, or what they
    broadcast to."""
    try:
        common = np.broadcast_shapes(*shapes)
        shape = common if size is None else shape_of(name, size)
        if size is not None and shapes and np.broadcast_shapes(common, shape) != shape:
            raise ValueError
    except ValueError:
        if size is not None:
            shape_of(name, size)
        raise ValueError(
            f"{name}: wants parameters that broadcast to "
            f"{'one shape' if size is None else f'size {size}'}, "
            f"got shapes {', '.join(map(str, shapes))}"
        ) from None
    return shape


# -------------------- the sequence


class _Feed:
    """A generator in a graph: its cell, and how many blocks the graph draws."""

    def __init__(self, source: Source, stream: Stream):
        owner = memory.graph_buffer(24, stream)
        self.source, self.blocks = source, 0
        self.cell = over(Layout.new((3,), np.dtype(np.uint64), stream.device), owner.address, owner)
        self.host = (ctypes.c_uint64 * 3)()

    def __call__(self, stream: Stream) -> None:
        """Before a replay: take its stretch of the sequence and write where that is into the
        cell."""
        for i, value in enumerate(self.source.take("graph", self.blocks)):
            self.host[i] = value
        # The driver has copied pageable memory before this returns; the write itself is ordered by
        # the stream.
        memory.upload(self.cell._data, ctypes.addressof(self.host), 24, stream, wait=False)


def drawn(op: Op, counter: tuple, rest: tuple, *arrays: ndarray, **params: Any) -> ndarray:
    """Call a card that draws: counter is what `take` gave, rest are its further run-time
    scalars."""
    key, stream, first = counter
    if isinstance(key, ndarray):  # a cell
        out = op(*arrays, key, scalars=(0, stream, first, *rest), **params)
    else:
        out = op(*arrays, scalars=(*counter, *rest), **params)
    if open_records:
        report_draw()
    return out


def whole_draw(method: Callable) -> Callable:
    """Decorator of a method that draws: where it fails, the generator is put back, and one number
    is a scalar. `fast_path` does that for the methods that it decorates."""
    drawn = scalar_results(method)

    @functools.wraps(method)
    def draw(self: Source, *args: Any, **kwargs: Any) -> Any:
        start = self._offset
        try:
            return drawn(self, *args, **kwargs)
        except BaseException:
            self.return_to(start)
            raise

    return shown_as(method.__name__, draw)


#: One for all generators: it is held for a moment. Reentrant, since a signal handler may draw.
lock = fork.new_reentrant_lock()


class Source:
    """Key, stream, offset and number of children; see `Generator`."""

    __slots__ = ("_key", "_stream", "_offset", "_children", "_taker", "_since", "_within", "_ahead")

    def __init__(self, key: int, stream: int = 0):
        self._key, self._stream = key, stream
        self._offset = self._children = 0
        #: The thread that took the newest part of the sequence, and where its parts begin that no
        #: other thread's part follows.
        self._taker, self._since = 0, 0
        self._ahead: dict[Any, Any] = {}  # see ahead.py
        # What is made inside a graph begins anew at each run of the function, and so at each
        # replay.
        now = runtime.local.stream
        self._within = now.feeds if now is not None and now.capturing else None
        if open_records:
            report_source(self)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(key={self._key:#x}, stream={self._stream:#x}, "
            f"offset={self._offset})"
        )

    def __reduce__(self) -> tuple:
        return _restored, (type(self), self.state)

    def _captured(self) -> Stream | None:
        """The stream of the graph that this thread captures, unless the generator was made
        inside."""
        stream = runtime.local.stream
        return (
            stream
            if stream is not None and stream.capturing and self._within is not stream.feeds
            else None
        )

    @property
    def state(self) -> dict[str, int]:
        """Where the generator stands."""
        if self._captured():
            refuse_capture("Generator.state", _HOST)
        if open_records:
            obstruct(SEEDED)
        with lock:
            return {
                "key": self._key,
                "stream": self._stream,
                "offset": self._offset,
                "children": self._children,
            }

    @state.setter
    def state(self, state: dict[str, int]) -> None:
        limits = {"key": MASK, "stream": MASK, "offset": _LAST_BLOCK, "children": _LAST_BLOCK}
        if not isinstance(state, dict) or set(state) != set(limits):
            raise ValueError(
                f"Generator.state: wants a dict with {', '.join(limits)}, got {state!r}"
            )
        values = {name: as_integer("Generator.state", name, state[name]) for name in limits}
        for name, most in limits.items():
            if not 0 <= values[name] <= most:
                raise ValueError(
                    f"Generator.state: wants {name} in [0, {most}], got {values[name]}"
                )
        if self._captured():
            refuse_capture("Generator.state", _HOST)
        if open_records:
            obstruct(SEEDED)
        with lock:
            self._taker = 0
            self._key, self._stream, self._ahead = values["key"], values["stream"], {}
            self._offset, self._children = values["offset"], values["children"]

    def take(self, name: str, blocks: int, device: int | None = None) -> tuple:
        """Reserve Philox blocks for a function that draws in its own kernels.

        While a graph is captured, the result is (cell, 0, first block in the graph's stretch),
        where cell is an array (3,) uint64 of the key, the stream and the first block of the
        stretch. `drawn` passes either form to a card.

        Parameters
        ----------
        name : str
            Name of the function in error messages.
        blocks : int
            Number of blocks.
        device : int, optional
            Device of the draw. The default is the active GPU. A draw on the CPU cannot be part of a
            graph.

        Returns
        -------
        tuple
            The tuple (key, stream, first block).
        """
        if open_records:
            report_taken(self, name, blocks, device)
        if (
            recording.state.draws is not None
        ):  # draws that will be, or are being, repeated (cm.checkpoint)
            return recording.state.draws.take(self, name, blocks, device)
        return self.take_next(name, blocks, device)

    def take_next(self, name: str, blocks: int, device: int | None = None) -> tuple:
        """Reserve Philox blocks as `take`, without recording or repeating them.

        Parameters
        ----------
        name : str
            Name of the function in error messages.
        blocks : int
            Number of blocks.
        device : int, optional
            Device of the draw.

        Returns
        -------
        tuple
            The tuple (key, stream, first block).
        """
        stream = runtime.local.stream
        if stream is not None and stream.capturing and self._within is not stream.feeds:
            if device == CPU:
                refuse_capture(
                    name,
                    "its random numbers, drawn on the CPU, would be the same at every replay; "
                    "draw on "
                    "the GPU",
                )
            feed = stream.feeds.get(id(self))
            if feed is None:
                feed = stream.feeds[id(self)] = _Feed(self, stream)
            first = feed.blocks
            feed.blocks += blocks
            return feed.cell, 0, first
        with lock:
            first = self._offset
            if first + blocks > _LAST_BLOCK:
                raise OverflowError(
                    f"{name}: the generator is used up after 2^58 words; spawn a new one"
                )
            if self._taker != (thread := get_ident()):
                self._taker, self._since = thread, first
            self._offset = first + blocks
            return self._key, self._stream, first

    def return_to(self, start: int) -> None:
        """Put the generator back, after a draw that failed.

        The same draw then gives the numbers that it would have given. Parts of the sequence that
        other threads have taken since are not touched.

        Parameters
        ----------
        start : int
            The offset at the beginning of the draw.
        """
        with lock:
            if self._taker == get_ident() and start < self._offset:
                self._offset = max(start, self._since)

    def spawn(self, n_children: int) -> list[Any]:
        """Return new generators, independent of this one and of each other.

        The draws of this generator do not change. A child's key and stream are 128 bits of Philox
        from a part of the parent's sequence that draws never reach.

        Parameters
        ----------
        n_children : int
            Number of generators.

        Returns
        -------
        list of object
            The generators.

        Examples
        --------
        >>> import cudamath as cm
        >>> a, b = cm.random.default_rng(7).spawn(2)
        >>> bool((a.integers(0, 10, 8) == b.integers(0, 10, 8)).all())
        False
        """
        n = as_integer("Generator.spawn", "n_children", n_children)
        if n < 0:
            raise ValueError(f"Generator.spawn: wants n_children >= 0, got {n}")
        if self._captured():
            refuse_capture("Generator.spawn", _HOST)
        with lock:
            first = self._children
            self._children += n
        fill_words = lazy("cpu", "random.fill_words")
        stream, key = np.uint64(self._stream), np.uint64(self._key)
        words = []
        for i in range(first, first + n):
            block = np.empty(4, np.uint32)
            fill_words(block, np.uint64(_SPAWN + i), stream, key)
            words.append(block.tolist())
        return [
            _restored(
                type(self),
                {"key": w[0] | w[1] << 32, "stream": w[2] | w[3] << 32, "offset": 0, "children": 0},
            )
            for w in words
        ]


def _restored(kind: type[Source], state: dict[str, int]) -> Source:
    source = kind(0)
    source.state = state
    return source
