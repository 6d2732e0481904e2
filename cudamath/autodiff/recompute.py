"""`checkpoint`: intermediate results are recomputed for the gradient instead of being stored.

The function runs and is recorded as usual. Then one node replaces all nodes between its results and
its inputs (arguments, and arrays in its closure), and the values that they saved are freed. The
rule of the new node runs the function again, recorded, and takes the gradient through that record.

Random draws must give the same numbers in the second run. So the positions in the random sequence
(key, stream, counter) are stored during the first run and reused in order during the second, while
the generator itself does not advance.

In the second run the variables around the function (closure and globals) have the values of the
first: layers are often functions made in a loop, whose loop variable has its last value by then.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

from ..core import recording, trees
from ..core.array import ndarray
from ..core.autograd import backward as autograd_backward
from ..core.autograd import tape
from ..core.dispatch.checks import require_function
from .transforms import Level

__all__ = ["checkpoint"]


class _DrawRecorder(recording.Draws):
    """Context that passes random draws on and records them."""

    def __init__(self) -> None:
        self.draws: list[tuple[str, int, tuple]] = []

    def take(self, generator: Any, name: str, blocks: int, device: Any) -> tuple:
        """The next part of the generator's sequence, or of the draws that an outer context
        repeats."""
        place = (
            generator.take_next
            if self.before is None
            else functools.partial(self.before.take, generator)
        )(name, blocks, device)
        self.draws.append((name, blocks, place))
        return place


class _DrawRepeater(recording.Draws):
    """Context that repeats recorded draws."""

    def __init__(self, draws: list[tuple[str, int, tuple]], function: str):
        self.draws, self.function, self.next = draws, function, 0

    def take(self, generator: Any, name: str, blocks: int, device: Any) -> tuple:
        """The position in the sequence that this draw had in the first run."""
        if self.next == len(self.draws) or self.draws[self.next][:2] != (name, blocks):
            raise RuntimeError(
                f"checkpoint: {self.function} drew other random numbers when it was computed again "
                f"({name}, {blocks} blocks); it must do the same each time"
            )
        self.next += 1
        return self.draws[self.next - 1][2]


class _Segment:
    """One checkpointed call, with everything that its second run needs."""

    __slots__ = ("fn", "args", "kwargs", "draws", "places", "outside")

    def __init__(
        self,
        fn: Callable,
        args: tuple,
        kwargs: dict,
        draws: list,
        places: list[int],
        outside: tuple,
    ):
        self.fn, self.args, self.kwargs = fn, args, kwargs
        self.draws, self.places, self.outside = draws, places, outside

    def arrays(self) -> list[Any]:
        """The arguments and the variables that the function reads: they must not change before the
        second run."""
        found = self.args, self.kwargs, list(_named(self.fn))
        return trees.flatten("checkpoint", found)[0]


def _as_now(fn: Callable) -> Callable:
    """A copy of `fn` whose outer variables keep their present values."""
    if type(fn) is not types.FunctionType:
        return fn
    cells = [types.CellType(value) for value in closed_over(fn)]
    if len(cells) < len(fn.__closure__ or ()):  # one of them has no value yet
        return fn
    same = types.FunctionType(
        fn.__code__, dict(fn.__globals__), fn.__name__, fn.__defaults__, tuple(cells)
    )
    same.__kwdefaults__ = fn.__kwdefaults__
    return same


def closed_over(fn: Any) -> list[Any]:
    """The values of the variables that a plain function closes over. Variables without a value are
    left out; so is everything that is no plain function."""
    values = []
    for cell in getattr(fn, "__closure__", None) or ():
        with contextlib.suppress(ValueError):
            values.append(cell.cell_contents)
    return values


def _named(fn: Any) -> Iterator[Any]:
    """What `fn` reads besides its arguments: outer variables, and the arguments that a
    `functools.partial` holds."""
    while isinstance(fn, functools.partial):
        yield fn.args, fn.keywords
        fn = fn.func
    if type(fn) is types.FunctionType:
        yield from closed_over(fn)
        yield from [
            fn.__globals__[name] for name in _globals_of(fn.__code__) if name in fn.__globals__
        ]


@functools.lru_cache(1024)
def _globals_of(code: types.CodeType) -> frozenset[str]:
    """The names of the global variables that this code reads itself. They depend on the code alone,
    so they can be cached; their values cannot."""
    return frozenset(
        each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"
    )


class _Checkpoint:
    """The op of these calls. Its only input is the segment; its parents are the older nodes on
    which the results depend."""

    name = "checkpoint"
    several = True
    broadcasts = False

    @staticmethod
    def vjp(g: list[ndarray | None], _y: Any, segment: _Segment) -> list[ndarray | None]:
        """Gradients at the parents, through a second run."""
        name = getattr(segment.fn, "__name__", "the function")
        with Level() as level, _DrawRepeater(segment.draws, name):
            leaves, _ = trees.flatten("checkpoint", segment.fn(*segment.args, **segment.kwargs))
        roots = []
        for place, each in zip(segment.places, g, strict=True):
            if each is not None:
                y = leaves[place] if place < len(leaves) else None
                if not isinstance(y, ndarray) or y._node is None or y.shape != each.shape:
                    raise RuntimeError(
                        f"checkpoint: {name} returned something else when it was computed again; "
                        "it must do the same each time"
                    )
                roots.append((y._node, each))
        leaves = []
        return autograd_backward.backward(
            roots, segment.outside, level.writes, release=recording.state.paused
        )


def checkpoint(fn: Callable) -> Callable:
    """Make a function whose intermediate results are computed again for the gradient.

    They are not stored. The memory of a deep model then grows with the number of its checkpointed
    parts and the size of one of them, instead of with all intermediate results. The cost is a
    second forward pass.

    Parameters
    ----------
    fn : callable
        Arguments and results are trees; arrays among them may be differentiated, arrays that it
        closes over too. It must do the same when it is called again: not depend on what changes in
        between, nor change anything itself (counts, running statistics). The variables around it
        are taken as they were at the first call, though. Random draws, dropout for instance, are
        repeated bit for bit, whatever the generator.

    Returns
    -------
    callable
        May be used as a decorator. Without a gradient being recorded it only calls `fn`.

    Raises
    ------
    TypeError
        `fn` is not a function.
    RuntimeError
        While the gradient is taken: `fn` drew other random numbers or returned something else than
        the first time, or an array that it was given, closes over or knows as a global was changed
        in place in between.

    Notes
    -----
    Gradient: the same as without, of any order; bit for bit, except that contributions to the
    gradient of an array that is used several times are added part by part. Works inside
    `cm.cuda.graph`.

    References
    ----------
    .. [1] Chen et al., "Training deep nets with sublinear memory cost", 2016.

    Examples
    --------
    >>> import cudamath as cm
    >>> layer = cm.checkpoint(lambda x, w: cm.tanh(x @ w))
    >>> x, w = cm.ones((2, 3)), cm.zeros((3, 3))
    >>> cm.grad(lambda w: layer(layer(x, w), w).sum())(w).tolist() == cm.grad(
    ...     lambda w: cm.tanh(cm.tanh(x @ w) @ w).sum())(w).tolist()
    True
    """
    require_function("checkpoint", fn)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if recording.state.paused:
            return fn(*args, **kwargs)
        start, again = tape.now(), _as_now(fn)
        with _DrawRecorder() as recorder:
            result = fn(*args, **kwargs)
        leaves, structure = trees.flatten("checkpoint", result)
        places = [
            i
            for i, y in enumerate(leaves)
            if isinstance(y, ndarray) and y._node is not None and tape.owner(y._node).order >= start
        ]
        outside = outside_nodes([leaves[i]._node for i in places], start)
        segment = _Segment(again, args, kwargs, recorder.draws, places, outside)
        node = tape.node_of(
            _Checkpoint, outside, (segment,), None, {}, tuple([leaves[i]._layout for i in places])
        )
        for index, i in enumerate(places):
            leaves[i] = leaves[i]._alias()
            leaves[i]._node = tape.Part(node, index) if outside else None
        return structure.unflatten(leaves)

    return wrapped


def outside_nodes(nodes: list, start: int) -> tuple:
    """The nodes older than `start` (or parts of such) on which newer ones depend."""
    outside: dict[tuple, Any] = {}
    visited = {tape.owner(node) for node in nodes}
    stack = list(visited)
    while stack:
        for parent in stack.pop().parents:
            if parent is None:
                continue
            node = tape.owner(parent)
            if node.order < start:
                outside[node, parent.index if type(parent) is tape.Part else None] = parent
            elif node not in visited:
                visited.add(node)
                stack.append(node)
    return tuple(outside.values())
