"""cuDNN on raw addresses: convolutions through its Python front end, one handle per stream.

An *execution plan* of cuDNN is one operation on tensors of given shapes and strides. Heuristics of
cuDNN rank kernels for it. Making a plan takes milliseconds, running it microseconds, so
`convolution` makes it once and returns a function of addresses. The plan states the size of its
workspace, and the caller passes the workspace: a call allocates nothing and can be captured into a
graph.

Kernels that add in no fixed order, or that round float32 to fewer bits, are excluded. Some float32
kernels use Winograd's or Fourier's transforms: their error is small relative to the largest element
of the result, not relative to each element, and one infinite pixel makes everything that was
transformed with it NaN. `Convolution.transformed` says so, and the caller repairs that
(kernels/conv/not_finite.py). Those by Fourier's are as exact as sums (3e-7 of the largest,
measured) and run where the caller asks for `fourier`. Those by Winograd's are run by name, names
from measurements that include errors (tuning.py); but one of weight gradients, which the library
does not announce, is the usual choice for 3 x 3 taps (2e-5), and refused for others (5e-3).
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import math
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import ml_dtypes
import numpy as np

from . import device as devices
from . import fork, library_paths
from . import stream as streams
from .errors import CudaError, named
from .library_handles import Handles
from .memory import pool_of, relaxed
from .state import bounded_device_cache, device_cache

T = TypeVar("T")

MOST_WORKSPACE = 1 << 30

#: dtype -> cuDNN's name of it. These are the dtypes it convolves; sums of the first three are
#: float32.
DTYPES = {
    np.dtype(np.float16): "HALF",
    np.dtype(ml_dtypes.bfloat16): "BFLOAT16",
    np.dtype(np.float32): "FLOAT",
    np.dtype(np.float64): "DOUBLE",
}
MODES = ("A", "FALLBACK")  # of the heuristics that are asked, in this order
REFUSED = ("NONDETERMINISTIC", "REDUCED_PRECISION_REDUCTION", "DOWN_CONVERT_INPUTS")
TRANSFORMS = ("FFT", "WINOGRAD", "WINOGRAD_TILE_4x4", "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13")
#: How names of plans begin that are by Fourier's transform. Whether one is, its notes tell.
FOURIER = {"forward": "eng3_", "input": "eng50", "weight": "eng18_"}
TILE_SIZE = "k2="  # its knob in names of plans
UNANNOUNCED = "eng17"  # weight gradients by Winograd's transform
CLEARLY = 1.1  # ratio of predicted times from which on the library's rank does not count


class Tensor(NamedTuple):
    """Sizes and strides, in elements: images (N, C, H, W), filters (K, C / groups, R, S); or with
    one dimension more."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]


@device_cache
def available() -> bool:
    """Whether convolutions can go to cuDNN: a device, the library, and its front end."""
    if not devices.device_count() or library_paths.find("cudnn").path is None:
        return False
    try:
        _bindings()
    except ImportError:
        return False
    return True


@functools.cache
def _bindings() -> Any:
    """The front end's compiled module, set to the cuDNN of `library_paths`. (The Python package
    around it takes longer to import than a first convolution. It only renames a graph's
    `_make_tensor` and a tensor's `_set_data_type`.)"""
    module = library_paths.alone(
        "cudnn.Release._compiled_module" if sys.platform == "win32" else "cudnn._compiled_module"
    )
    module._set_dlhandle_cudnn(ctypes.CDLL(library_paths.find("cudnn").path)._handle)
    return module


# -------------------- handles


class _Handle:
    """cuDNN's handle of one stream. Threads share streams, and the library forbids that two of them
    use a handle at the same time: whoever calls it with `raw` holds `lock`."""

    __slots__ = ("raw", "device", "lock", "__weakref__")

    def __init__(self, stream: streams.Stream):
        self.device, self.lock = stream.device, fork.new_lock()
        self.raw = pool_of(stream.device).beside_capture(lambda _side: _bindings().create_handle())
        _bindings()._raw_set_stream(self.raw, stream.ptr)

    def close(self) -> None:
        """Destroy the handle."""
        with streams.in_context(self.device), relaxed():
            _bindings()._raw_destroy_handle(self.raw)


_handles = Handles(_Handle)
handle = _handles.of


def beside_capture(device: int, work: Callable[[int, Any], T]) -> T:
    """Run work(handle, stream) outside any capture under way, with the handle of the current stream
    for nobody else."""
    one = handle(streams.stream_of(device))

    def alone(side: Any) -> T:
        with one.lock:
            return work(one.raw, side)

    return pool_of(device).beside_capture(alone)


# -------------------- convolutions

_convolutions: weakref.WeakSet[Convolution] = weakref.WeakSet()


@atexit.register
def _release_graphs() -> None:
    """Release cuDNN's graphs while the interpreter still runs. Plans live in tables until the
    process ends, and the front end prints a page about every object that outlives it."""
    for convolution in list(_convolutions):
        convolution.graph = None


class Convolution:
    """A plan of cuDNN, called with (stream, x, w, y[, bias], workspace), all addresses.
    `workspace`: its size in bytes; `transformed`: whether it is by Fourier's or Winograd's
    transform."""

    __slots__ = ("graph", "workspace", "what", "transformed", "__name__", "__weakref__")

    def __init__(self, graph: Any, what: str, transformed: bool = False):
        self.graph, self.what, self.transformed = graph, what, transformed
        self.workspace: int = graph.get_workspace_size()
        self.__name__ = "cudnn_convolution"
        _convolutions.add(self)

    def __call__(self, stream: Any, *addresses: int) -> None:
        one = _handles.get(id(stream)) or handle(stream)
        try:
            with one.lock:
                self.graph._execute(dict(enumerate(addresses[:-1], 1)), addresses[-1], one.raw)
        except RuntimeError as problem:
            raise CudaError(named(f"{self.what}: {problem}"), None) from None


@bounded_device_cache(1024)
def convolution(
    kind: str,
    dtype: np.dtype,
    x: Tensor,
    w: Tensor,
    y: Tensor,
    *,
    stride: tuple[int, ...],
    before: tuple[int, ...],
    after: tuple[int, ...],
    dilation: tuple[int, ...],
    bias: bool = False,
    tf32: bool = False,
    device: int = 0,
    plan: str = "",
    fourier: bool = False,
    predicted: tuple[tuple[str, float], ...] = (),
) -> Convolution | None:
    """A plan for y = x * w ("forward"), or for the gradient of x ("input", in place of x) or of w
    ("weight"). None if cuDNN has none. The library takes milliseconds to make it, and some are
    asked for twice: whether there is one, and to run it. So they are cached.

    before, after: padding at the two ends of each spatial axis. The groups follow from the channels
    of x and w. plan: the name of a plan, if this cuDNN has it; otherwise the best-ranked one, or
    one that is clearly faster by the predicted times of families, microseconds; neither of these is
    by a transform. fourier: the best-ranked one by Fourier's transform.
    """
    build = _builder(kind, dtype, x, w, y, stride, before, after, dilation, bias, tf32, device)
    hidden = hides_transforms(kind, dtype, x.shape, w.shape)

    def by_fourier() -> Any:
        graph = build(())
        for i, name in enumerate(_names(graph)):
            if name.startswith(FOURIER[kind]) and _builds(graph, i):
                plain = build(("FFT",))
                if not _builds(plain, _names(plain).index(name)):
                    return graph
        return None

    def chosen(_handle: int, _side: Any) -> tuple[Any, bool]:
        if fourier:
            return by_fourier(), True
        for notes in (TRANSFORMS, ()) if plan else ():  # the second by a transform alone
            graph = build(notes)
            if plan in (names := _names(graph)) and _builds(graph, names.index(plan)):
                return graph, not notes or is_unannounced(kind, dtype, plan)
        graph = build(TRANSFORMS)
        places = _places(graph, hidden)
        best = next((name for name, i in places.items() if _builds(graph, i)), None)
        if best is None:
            return None, False
        first = first_of_families(places)
        others = [first[f] for f in faster(family_of(best), first, dict(predicted))]
        taken = next((name for name in others if _builds(graph, places[name])), best)
        if others and taken == best:
            graph.build_plan_at_index(places[best])
        return graph, is_unannounced(kind, dtype, taken)

    try:
        graph, transformed = beside_capture(device, chosen)
    except _bindings().cudnnGraphNotSupportedError:
        return None
    return None if graph is None else Convolution(graph, _what(kind, dtype, x, w), transformed)


def is_unannounced(kind: str, dtype: np.dtype, name: str) -> bool:
    """Whether a plan, or a family of plans, is by a transform of which its notes say nothing."""
    return kind == "weight" and dtype == np.float32 and name.partition("_")[0] == UNANNOUNCED


def hides_transforms(
    kind: str, dtype: np.dtype, images: tuple[int, ...], filters: tuple[int, ...]
) -> bool:
    """Whether the library offers a plan by Winograd's transform without saying so (UNANNOUNCED)
    whose errors are large; images, filters: their shapes."""
    return (
        kind == "weight"
        and dtype == np.float32
        and (filters[2:] != (3, 3) or images[1] > filters[1])
    )


def plans(
    kind: str,
    dtype: np.dtype,
    x: Tensor,
    w: Tensor,
    y: Tensor,
    *,
    stride: tuple[int, ...],
    before: tuple[int, ...],
    after: tuple[int, ...],
    dilation: tuple[int, ...],
    tf32: bool = False,
    device: int = 0,
    transforms: bool = True,
) -> list[str]:
    """The names of all plans that `convolution` accepts, the best-ranked first. transforms: those
    by Fourier's and Winograd's, too."""
    build = _builder(kind, dtype, x, w, y, stride, before, after, dilation, False, tf32, device)

    def able(_handle: int, _side: Any) -> list[str]:
        graph = build(() if transforms else TRANSFORMS)
        hidden = not transforms and hides_transforms(kind, dtype, x.shape, w.shape)
        return [name for name, i in _places(graph, hidden).items() if _builds(graph, i)]

    try:
        return beside_capture(device, able)
    except _bindings().cudnnGraphNotSupportedError:
        return []


def _names(graph: Any) -> list[str]:
    """The names of a graph's plans, the best-ranked first, excluded ones too."""
    return [graph.get_plan_name_at_index(i) for i in range(graph.get_execution_plan_count())]


def _places(graph: Any, hidden: bool) -> dict[str, int]:
    """Where a graph's plans are, the best-ranked first. Some are there twice: the library ranks,
    then names what else it has. hidden: all but those by a transform that it does not announce."""
    places: dict[str, int] = {}
    for i, name in enumerate(_names(graph)):
        if not (hidden and name.partition("_")[0] == UNANNOUNCED):
            places.setdefault(name, i)
    return places


def family_of(name: str) -> str:
    """The engine and the tile of a plan: "eng67_k2=4" for "eng67_k2=4_k13=0_k18=1". Its other knobs
    matter less."""
    engine, *knobs = name.split("_")
    return "_".join([engine, *[knob for knob in knobs if knob.startswith(TILE_SIZE)]])


def first_of_families(names: Iterable[str]) -> dict[str, str]:
    """Family -> the plan of it that is ranked first."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(family_of(name), name)
    return found


def faster(best: str, families: Iterable[str], times: Mapping[str, float]) -> list[str]:
    """The families with predicted times clearly below that of the best-ranked one, fastest first.
    None if nobody knows that one's: the library has reasons that the others' times do not tell."""
    limit = times.get(best, 0.0) / CLEARLY
    return sorted((f for f in families if times.get(f, math.inf) < limit), key=times.__getitem__)


def _builds(graph: Any, index: int) -> bool:
    """Build a plan; False if it is excluded, or this device cannot run it."""
    try:
        graph.build_plan_at_index(index)
    except (RuntimeError, _bindings().cudnnGraphNotSupportedError):
        return False
    return True


def _what(kind: str, dtype: np.dtype, x: Tensor, w: Tensor) -> str:
    return f"cuDNN convolution ({kind}) {x.shape} * {w.shape} {dtype}"


def _builder(
    kind: str,
    dtype: np.dtype,
    x: Tensor,
    w: Tensor,
    y: Tensor,
    stride: tuple[int, ...],
    before: tuple[int, ...],
    after: tuple[int, ...],
    dilation: tuple[int, ...],
    bias: bool,
    tf32: bool,
    device: int,
) -> Callable[[tuple[str, ...]], Any]:
    """A function that builds the graph of a convolution with its admissible plans; its argument
    lists further reasons to exclude a plan."""
    cudnn = _bindings()
    kinds = cudnn.data_type
    computed = kinds.DOUBLE if dtype == np.float64 else kinds.FLOAT
    element = getattr(kinds, DTYPES[dtype])

    def build(further: tuple[str, ...]) -> Any:
        graph = cudnn.backend_graph(
            io_data_type=element,
            intermediate_data_type=computed,
            compute_data_type=computed,
            handle=handle(streams.stream_of(device)).raw,
        )
        named = {"x": x, "w": w, "y": y}

        def tensor(name: str) -> Any:
            return graph._make_tensor(
                dim=list(named[name].shape),
                stride=list(named[name].strides),
                data_type=element,
                name=name,
                uid=1 + "xwy".index(name),
            )

        where = {
            "pre_padding": list(before),
            "post_padding": list(after),
            "stride": list(stride),
            "dilation": list(dilation),
            "compute_data_type": computed,
        }
        if kind == "forward":
            result = graph.conv_fprop(tensor("x"), tensor("w"), **where)
            if bias:
                outputs = w.shape[0]
                ones = [1] * len(stride)
                added = graph._make_tensor(
                    dim=[1, outputs, *ones],
                    stride=[outputs, 1, *[outputs] * len(stride)],
                    data_type=element,
                    name="bias",
                    uid=4,
                )
                result = graph.bias(result, added, compute_data_type=computed)
            name = "y"
        elif kind == "input":
            result, name = graph.conv_dgrad(tensor("y"), tensor("w"), **where), "x"
        else:
            result, name = graph.conv_wgrad(tensor("x"), tensor("y"), **where), "w"
        result.set_output(True)._set_data_type(element).set_uid(1 + "xwy".index(name))
        result.set_dim(list(named[name].shape)).set_stride(list(named[name].strides))
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([getattr(cudnn.heur_mode, mode) for mode in MODES])
        refused = (
            (*REFUSED, *further)
            if tf32 or dtype != np.float32
            else (*REFUSED, *further, "TENSOR_CORE")
        )
        graph.deselect_numeric_notes([getattr(cudnn.numerical_note, note) for note in refused])
        graph.deselect_workspace_greater_than(MOST_WORKSPACE)
        graph.check_support()
        return graph

    return build
