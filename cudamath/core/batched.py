"""Arrays of a function that `cm.vmap` calls once in the place of many calls.

A batched array is an ndarray whose layout is that of one call; its device number, below TRACED,
stands for (the level of `vmap`, the device of the arrays behind). Its `_data` is a Place: the
physical array behind it, which has the batch as an axis more, and an offset. Everything before the
launch (checks, promotion, broadcasting, views, recording of gradients) works on it as on any other
array, because it only needs layouts. Where a plan would be bound, a rule computes with the physical
arrays (`runner`); the package `cudamath.batching` has the rules.

What all calls share (`cm.zeros(3)`, and what is computed of such) is behind a Memory without an
axis of the batch, until elements that differ from call to call are written into it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..runtime import fork
from ..runtime.interrupts import uninterrupted
from ..runtime.state import runtime
from . import recording, shapes
from .array import allocate as allocate_array
from .array import ndarray, wrap
from .asarray import upload as upload_array
from .autograd import tape
from .devices import CPU, default_index
from .dispatch.call_record import current, report_taken
from .layout import Layout
from .levels import batched_index, level_of, under, work
from .recording import insiders

#: Card -> its rule, `rule(call)` -> physical results with the batch as their first axis. Filled by
#: `cudamath.batching`.
rules: dict[str, Callable[[Call], Any]] = {}
#: Names of the cards that draw random numbers: they have something to do without arrays as well.
drawing: set[str] = set()


class _Local(threading.local):
    frames: tuple[Frame, ...] = ()


_local = _Local()


@fork.in_child
def _forget_frames() -> None:
    """A forked process goes on inside the calls of its own thread alone."""


class Memory:
    """The physical array behind arrays of one frame that share memory.

    Attributes
    ----------
    frame : Frame
        The call of `vmap`.
    array : ndarray
        The physical array; its first axis is the batch if `mapped`.
    mapped : bool
        Whether elements differ from call to call.
    """

    __slots__ = ("frame", "array", "mapped")

    def __init__(self, frame: Frame, array: ndarray, mapped: bool):
        self.frame, self.array, self.mapped = frame, array, mapped

    def differ(self) -> None:
        """Give each call elements of its own, because such are about to be written."""
        if self.mapped:
            return
        shared = self.array
        layout = shared._layout
        if shared._node is not None:
            raise RuntimeError(
                f"vmap: an array of shape {layout.shape} cannot be changed in place while a "
                "gradient is recorded for it; make a new one (where, index_add, concat)"
            )
        if not _dense(layout):
            raise ValueError(
                f"vmap: a view of shape {layout.shape} with gaps, which all calls share, cannot "
                "take elements that differ from call to call; copy it first"
            )
        order, size = shapes.axes_by_stride(layout.strides), self.frame.size
        shape = tuple([layout.shape[i] for i in order])
        repeated = layout.view((size, *shape), (0, *[layout.strides[i] for i in order]))
        whole = shared._view(repeated).copy("C")
        strides = [0] * layout.ndim
        for i, step in zip(order, whole._layout.strides[1:], strict=True):
            strides[i] = step
        own = whole._view(
            whole._layout.view((size, *layout.shape), (whole._layout.strides[0], *strides))
        )
        self.array, self.mapped = own, True


class Place(int):
    """Where a batched array begins: an offset from the beginning of a Memory. As a number it is the
    address of the first call's first element."""

    memory: Memory
    offset: int

    @staticmethod
    def of(memory: Memory, offset: int = 0) -> Place:
        """A place in a memory."""
        address = memory.array._address
        out = Place((int(address) if isinstance(address, int) else 0) + offset)
        out.memory, out.offset = memory, offset
        return out

    def __add__(self, offset: int) -> Place:
        out = Place(int(self) + offset)
        out.memory, out.offset = self.memory, self.offset + offset
        return out


class Frame:
    """A call of a function for a batch: a context.

    Parameters
    ----------
    size : int
        How many calls it stands for.
    """

    def __init__(self, size: int):
        self.size = size
        self.frames = _local.frames
        self.level = len(self.frames) + 1
        local = runtime.local
        self.device_stack = local.device_stack
        state = recording.state
        self.draws, self.inside = state.draws, state.inside
        self.gradients = state.depth  # how many are being taken around it

    def __enter__(self) -> Frame:
        number = batched_index(self.level, default_index())
        state = recording.state
        _local.frames = (*self.frames, self)
        runtime.local.device_stack = (*self.device_stack, (number, None))
        state.draws, state.inside = _Draws(self), False
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        _local.frames = self.frames
        runtime.local.device_stack = self.device_stack
        state = recording.state
        state.draws, state.inside = self.draws, self.inside

    # -------------------- from physical arrays to those of a call, and back

    def mapped(self, x: ndarray) -> ndarray:
        """An array of a call, of a physical one whose first axis is the batch."""
        layout = x._layout
        return self._over(Memory(self, x, True), layout.shape[1:], layout.strides[1:])

    def shared(self, x: ndarray) -> ndarray:
        """An array of a call, of a physical one that all calls share."""
        return self._over(Memory(self, x, False), x._layout.shape, x._layout.strides)

    def _over(self, memory: Memory, shape: tuple, strides: tuple) -> ndarray:
        layout = memory.array._layout
        if memory.array._node is not None and not _dense(layout):
            memory.array = memory.array.copy()  # views of it are recorded as windows of its memory
            layout = memory.array._layout
            strides = layout.strides[int(memory.mapped) :]
        out = object.__new__(ndarray)
        out._layout = Layout.of(
            shape, strides, layout.dtype, batched_index(self.level, layout.device)
        )
        out._data, out._owner, out._node, out._base = Place.of(memory), None, None, None
        # Many functions ask whether a gradient is recorded, and call other cards then.
        return out if memory.array._node is None else tape.leaf(out)

    def owns(self, x: Any) -> bool:
        """Whether an array belongs to this call of `vmap`; RuntimeError for one of a call that has
        ended."""
        if not isinstance(x, ndarray) or level_of(x._layout.device) != self.level:
            return False
        if x._data.memory.frame is not self:
            raise RuntimeError(
                f"vmap: an array of shape {x.shape} belongs to a call of a mapped function that "
                "has ended; return it from that function"
            )
        return True

    def differs(self, x: Any) -> bool:
        """Whether the elements of an array differ from call to call."""
        return self.owns(x) and x._data.memory.mapped

    def one(self, x: ndarray) -> ndarray:
        """The physical array behind one that all calls share."""
        return self._behind(x, ()) if self.owns(x) else x

    def all(self, x: ndarray) -> ndarray:
        """The physical array of all calls, whose first axis is the batch: a view."""
        if self.differs(x):
            return self._behind(x, (self.size,))
        x = self.one(x)
        layout = x._layout
        whole = layout.view((self.size, *layout.shape), (0, *layout.strides))
        return x._view(whole) if x._node is None else work.recorded_view(x, whole, 0)

    def _behind(self, x: ndarray, batch: tuple) -> ndarray:
        place, layout = x._data, x._layout
        array = place.memory.array
        seen = Layout.of(
            (*batch, *layout.shape),
            (*array._layout.strides[: len(batch)], *layout.strides),
            layout.dtype,
            array._layout.device,
            array._layout.device < 0 or array._layout.aligned and place.offset % 16 == 0,
        )
        if seen is array._layout and not place.offset:
            return array
        if array._node is None:
            return array._view(seen, place.offset)
        return work.recorded_view(array, seen, place.offset)

    def written(self, x: ndarray, values: Sequence[Any], name: str) -> ndarray:
        """The physical array to write into, where values that are written into `x` may differ from
        call to call."""
        if not any([self.differs(value) for value in values]) and not self.differs(x):
            return self.one(x)
        if not self.owns(x):
            raise ValueError(
                f"{name}: vmap: values that differ from call to call cannot be written into an "
                f"array of {x.dtype} and shape {x.shape} that all calls share; make the array "
                "inside of the mapped function, map it too, or make a new one (x.at[i].set(v))"
            )
        x._data.memory.differ()
        return self.all(x)

    def result(self, x: Any, mapped: bool = True) -> Any:
        """What a rule returned, as arrays of a call."""
        if isinstance(x, (tuple, list)):
            return type(x)([self.result(y, mapped) for y in x])
        if not isinstance(x, ndarray):
            x = wrap(np.asarray(x))
        return self.mapped(x) if mapped else self.shared(x)


class Outside:
    """Context: what runs inside does not belong to the calls of a frame, nor to those within it.
    Physical arrays are computed there."""

    def __init__(self, frame: Frame):
        self.frame = frame

    def __enter__(self) -> None:
        local, state, frame = runtime.local, recording.state, self.frame
        self.before = _local.frames, local.device_stack, state.draws, state.inside
        insiders.append(self)
        _local.frames, local.device_stack = frame.frames, frame.device_stack
        state.draws, state.inside = frame.draws, True

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        state = recording.state
        _local.frames, runtime.local.device_stack, state.draws, state.inside = self.before
        del insiders[-1]


class Inside:
    """Context: what runs inside belongs to the calls of a frame again, from `Outside`."""

    def __init__(self, frame: Frame):
        self.frame = frame

    def __enter__(self) -> None:
        local, state, frame = runtime.local, recording.state, self.frame
        self.before = _local.frames, local.device_stack, state.draws, state.inside
        number = batched_index(frame.level, default_index())
        _local.frames = (*frame.frames, frame)
        local.device_stack = (*local.device_stack, (number, None))
        state.draws, state.inside = _Draws(frame), False

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        state = recording.state
        _local.frames, runtime.local.device_stack, state.draws, state.inside = self.before


class _Draws(recording.Draws):
    """Takes random numbers for all calls of a frame."""

    def __init__(self, frame: Frame):
        self.frame = frame

    def take(self, source: Any, name: str, blocks: int, device: int | None) -> tuple:
        """`Source.take`: a draw on a batched device takes the numbers of all calls."""
        frame = self.frame
        if device is not None and level_of(device) == frame.level:
            blocks, device = blocks * frame.size, under(device)
        record = current()
        if record is not None:
            record.drawn = None
            report_taken(source, name, blocks, device)
        if frame.draws is not None:
            return frame.draws.take(source, name, blocks, device)
        return source.take_next(name, blocks, device)


# -------------------- frames


def frame_of(device: int) -> Frame:
    """The frame of this thread that a batched device number belongs to."""
    level = level_of(device)
    if len(_local.frames) < level:
        raise RuntimeError(
            "vmap: an array belongs to a call of a mapped function that has ended; return it from "
            "that function"
        )
    return _local.frames[level - 1]


def frames() -> tuple[Frame, ...]:
    """The calls of `vmap` that this thread is in, the innermost last."""
    return _local.frames


# -------------------- what core needs


def allocate(layout: Layout) -> ndarray:
    """A new array of a call, its elements undefined; all calls share it at first."""
    frame = frame_of(layout.device)
    with Outside(frame):
        return frame.shared(allocate_array(_beneath(layout)))


def upload(host: np.ndarray, device: int) -> ndarray:
    """A NumPy array as an array that all calls share."""
    frame = frame_of(device)
    with Outside(frame):
        return frame.shared(
            upload_array(host.copy() if under(device) == CPU else host, under(device))
        )


def _dense(layout: Layout) -> bool:
    """Whether the elements lie without gaps, in whatever order of the axes."""
    if layout.contiguous:
        return True
    order = shapes.axes_by_stride(layout.strides)
    return shapes.is_contiguous(
        tuple([layout.shape[i] for i in order]),
        tuple([layout.strides[i] for i in order]),
        layout.itemsize,
    )


def _beneath(layout: Layout) -> Layout:
    return Layout.of(layout.shape, layout.strides, layout.dtype, under(layout.device))


def to_numpy(x: ndarray) -> np.ndarray:
    """The elements of an array that all calls share; TypeError where they differ."""
    frame = frame_of(x._layout.device)
    if frame.differs(x):
        raise TypeError(
            f"vmap: the mapped function asked for the values of an array of {x.dtype} and shape "
            f"{x.shape}, which differ from call to call; write cm.where for an `if`, cm.cond or "
            "cm.while_loop for what depends on values, and arrays instead of numbers"
        )
    with Outside(frame):
        return frame.one(x).to_numpy()


def describe(x: ndarray) -> str:
    """`repr` of a batched array."""
    frame = x._data.memory.frame
    how = f"one of {frame.size} calls" if x._data.memory.mapped else f"shared by {frame.size} calls"
    return f"<vmap: {x.dtype} of shape {x.shape}, {how}>"


def constant(x: ndarray) -> ndarray:
    """The same elements, through which no gradient goes at any level."""
    out, memory = x._alias(), x._data.memory
    array = memory.array
    under_it = constant(array) if level_of(array._layout.device) else array._alias()
    out._data = Place.of(Memory(memory.frame, under_it, memory.mapped), x._data.offset)
    return out


def recorded(leaves: Sequence[Any]) -> bool:
    """Whether a gradient is being recorded of one of the physical arrays behind arrays of which
    some belong to a call."""
    arrays = [x for x in leaves if isinstance(x, ndarray)]
    levels = [level_of(x._layout.device) for x in arrays]
    return any(levels) and any(
        [
            (x._data.memory.array if level else x)._node is not None
            for x, level in zip(arrays, levels, strict=True)
        ]
    )


def transferred(x: ndarray, index: int) -> ndarray:
    """A batched array moved to another device."""
    frame = frame_of(x._layout.device)
    with Outside(frame):
        if frame.differs(x):
            return frame.mapped(frame.all(x).to(index))
        return frame.shared(frame.one(x).to(index))


# -------------------- ops


class Call:
    """An op's call, as its rule sees it.

    Attributes
    ----------
    frame : Frame
        The call of `vmap`.
    op : Op
        The card.
    arrays : tuple of (ndarray or None)
        Its inputs, of one call.
    scalars : tuple
        Run-time scalars.
    params : dict
        Parameters of the plan.
    size : int
        Length of the batch.
    """

    __slots__ = ("frame", "op", "arrays", "scalars", "params", "size")

    def __init__(self, frame: Frame, op: Any, arrays: tuple, scalars: tuple, params: dict):
        self.frame, self.op, self.arrays, self.scalars = frame, op, arrays, scalars
        self.params, self.size = params, frame.size

    def differs(self, i: int) -> bool:
        """Whether an input differs from call to call."""
        return i < len(self.arrays) and self.frame.differs(self.arrays[i])

    def all(self, i: int) -> Any:
        """An input with the batch as its first axis; None for a missing one."""
        x = self.arrays[i]
        return None if x is None else self.frame.all(x)

    def one(self, i: int) -> Any:
        """An input that all calls share; None for a missing one."""
        x = self.arrays[i]
        return None if x is None else self.frame.one(x)

    def shape(self, i: int) -> tuple[int, ...]:
        """The shape of an input in one call."""
        return self.arrays[i]._layout.shape

    def run(self, *arrays: ndarray | None, **params: Any) -> Any:
        """The op on physical arrays, with some parameters changed."""
        return self.op(*arrays, scalars=self.scalars, **{**self.params, **params})


def runner(op: Any, layouts: tuple, params: dict) -> Callable:
    """What an op runs on batched arrays."""
    device = max([x.device for x in layouts if x is not None] or [params["device"]], key=level_of)
    rule = rules.get(op.name)
    if rule is None:
        rule = rules["*"](op)
    count = len(layouts)
    draws = op.name in drawing

    def run(*operands: Any) -> Any:
        frame = frame_of(device)
        arrays, scalars = operands[:count], operands[count:]
        with Outside(frame):
            if draws or any([frame.differs(x) for x in arrays]):
                return frame.result(rule(Call(frame, op, arrays, scalars, params)))
            own = [None if x is None else frame.one(x) for x in arrays]
            changed = dict(params)
            if "device" in params:
                changed["device"] = under(params["device"])
            if isinstance(params.get("layout"), Layout):
                changed["layout"] = _beneath(params["layout"])
            out = op(*own, scalars=scalars, **changed)
            return None if out is None else frame.result(out, mapped=False)

    return run


def elementwise(card: Any, operands: tuple, inplace: bool) -> Callable:
    """What an elementwise card runs on batched arrays: the batch is an axis more, in front of as
    many as the operand with the most axes has."""
    device = max([x._layout.device for x in operands if isinstance(x, ndarray)], key=level_of)

    def run(*operands: Any) -> Any:
        frame = frame_of(device)
        with Outside(frame):
            if inplace:
                target = frame.written(operands[0], operands[1:], card.name)
                rest = (
                    aligned(frame, operands[1:], operands[0]._layout.ndim)
                    if frame.differs(operands[0])
                    else [frame.one(x) if isinstance(x, ndarray) else x for x in operands[1:]]
                )
                card.call((target, *rest), target)
                return operands[0]
            if any([frame.differs(x) for x in operands]):
                ndim = max([x._layout.ndim for x in operands if isinstance(x, ndarray)])
                return frame.result(card(*aligned(frame, operands, ndim)))
            own = [frame.one(x) if isinstance(x, ndarray) else x for x in operands]
            return frame.result(card(*own), mapped=False)

    return run


def reduction(function: Callable, x: ndarray, axes: tuple[int, ...], keepdims: bool) -> ndarray:
    """What a reduction of the user's, `function(x, axis, keepdims=)`, is on a batched array."""
    frame = frame_of(x._layout.device)
    with Outside(frame):
        if not frame.differs(x):
            return frame.shared(function(frame.one(x), axes, keepdims=keepdims))
        further = tuple([i + 1 for i in axes])
        return frame.mapped(function(frame.all(x), further, keepdims=keepdims))


def aligned(frame: Frame, operands: Sequence[Any], ndim: int) -> list[Any]:
    """Operands that broadcast to `ndim` axes, as physical arrays that do: those that differ have
    the batch in front."""
    out = []
    for x in operands:
        if isinstance(x, ndarray) and frame.differs(x):
            missing = ndim - x._layout.ndim
            x = frame.all(x)
            if missing:
                x = x[(slice(None), *[None] * missing)]
        elif isinstance(x, ndarray):
            x = frame.one(x)
        out.append(x)
    return out


work.allocate, work.upload, work.to_numpy = allocate, upload, to_numpy
work.describe, work.runner, work.constant = describe, runner, constant
