"""cuDNN's recurrent layers on raw addresses, by its C interface: its front end has none of them.

Descriptors are made once for sizes and lengths, and kept. They state how much memory a call takes:
a workspace for its duration, and a reserve from the forward pass to the gradient, both passed by
the caller. So a call allocates nothing and can be captured into a graph.

The library says where each matrix and each bias begins in its vector of weights. Where that is not
the order of `core/specs/recurrent.py`, it is not used: its caller packs in that order.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from . import cudnn, library_paths
from . import device as devices
from . import stream as streams
from .errors import CudaError, check, named
from .memory import copy
from .state import bounded_device_cache, device_cache

_P, _I, _N = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t

#: The functions and the types of their arguments; each returns a status.
_FUNCTIONS: dict[str, list[Any]] = {
    "cudnnCreateRNNDescriptor": [_P],
    "cudnnDestroyRNNDescriptor": [_P],
    "cudnnCreateRNNDataDescriptor": [_P],
    "cudnnDestroyRNNDataDescriptor": [_P],
    "cudnnCreateTensorDescriptor": [_P],
    "cudnnDestroyTensorDescriptor": [_P],
    "cudnnCreateDropoutDescriptor": [_P],
    "cudnnDestroyDropoutDescriptor": [_P],
    # descriptor, handle, probability, states, their size, seed
    "cudnnSetDropoutDescriptor": [_P, _P, ctypes.c_float, _P, _N, ctypes.c_ulonglong],
    # descriptor, dtype, dimensions, sizes, strides
    "cudnnSetTensorNdDescriptor": [_P, _I, _I, _P, _P],
    # descriptor, algorithm, cell, bias, directions, input, dtype, precision, mathematics, features,
    # units, projection, layers, dropout, flags
    "cudnnSetRNNDescriptor_v8": [_P, *[_I] * 12, _P, ctypes.c_uint32],
    # descriptor, dtype, layout, steps, batch, features, lengths, what fills the rest
    "cudnnSetRNNDataDescriptor": [_P, *[_I] * 5, _P, _P],
    # handle, layers, size
    "cudnnGetRNNWeightSpaceSize": [_P, _P, _P],
    # handle, layers, mode, x, workspace, reserve
    "cudnnGetRNNTempSpaceSizes": [_P, _P, _I, _P, _P, _P],
    # handle, layers, end, size, weights, which, matrix, its address, bias, its address
    "cudnnGetRNNWeightParams": [_P, _P, ctypes.c_int32, _N, _P, ctypes.c_int32, _P, _P, _P, _P],
    # handle, layers, mode, lengths, x, y, h, c (each a descriptor, and addresses), weights,
    # workspace, reserve (each a size and an address)
    "cudnnRNNForward": [_P, _P, _I, _P, *[_P] * 4, *[_P] * 6, _N, _P, _N, _P, _N, _P],
    # the same; y, dy; dx; hx, dhy, dhx; cx, dcy, dcx
    "cudnnRNNBackwardData_v8": [_P, _P, _P, *[_P] * 5, *[_P] * 8, _N, _P, _N, _P, _N, _P],
    # handle, layers, mode, lengths; x; hx; y; dweights
    "cudnnRNNBackwardWeights_v8": [_P, _P, _I, _P, *[_P] * 6, _N, _P, _N, _P, _N, _P],
}

_DTYPES = {
    np.dtype(np.float32): 0,
    np.dtype(np.float64): 1,
    np.dtype(np.float16): 2,
    np.dtype(ml_dtypes.bfloat16): 9,
}
_CELLS = {"relu": 0, "tanh": 1, "lstm": 2, "gru": 3}
_STANDARD, _PERSISTENT, _PERSISTENT_SMALL = 0, 1, 3  # cudnnRNNAlgo_t
#: Ways of the library by our names of them.
ALGORITHMS = {
    "cudnn": _STANDARD,
    "cudnn_persistent": _PERSISTENT,
    "cudnn_persistent_small": _PERSISTENT_SMALL,
}
_DEFAULT_MATH, _TENSOR_OPERATIONS, _FMA = 0, 1, 3  # cudnnMathType_t
_TWO_BIASES = 2  # CUDNN_RNN_DOUBLE_BIAS
_TIME_FIRST = 0  # CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED
_PADDED = 1  # CUDNN_RNN_PADDED_IO_ENABLED: the layout may have rows behind a sequence's end
_INFERENCE, _TRAINING = 0, 1
_ADD = 0  # CUDNN_WGRAD_MODE_ADD, the only one there is
_NOT_SUPPORTED = 3000  # and the codes up to 3999


@device_cache
def available() -> bool:
    """Whether recurrent layers can go to cuDNN."""
    if not cudnn.available():
        return False
    try:
        _library()
    except AttributeError:  # built without them
        return False
    return True


@functools.cache
def _library() -> Any:
    library = ctypes.CDLL(library_paths.find("cudnn").path)
    for name, types in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = types, _I
    library.cudnnGetErrorString.restype = ctypes.c_char_p
    return library


class NotSupportedError(CudaError):
    """What cuDNN does not support."""


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_library(), name)(*arguments)
    if status:
        words = _library().cudnnGetErrorString(status).decode()
        kind = NotSupportedError if status // 1000 == _NOT_SUPPORTED // 1000 else CudaError
        raise kind(named(f"{name}: {words} ({status})"), status)


#: Where weights begin in their vector, in bytes: for each layer and direction, and in these for
#: each of the library's products, (the matrix, the bias); -1 for what there is not.
Starts = tuple[tuple[int, int], ...]


class Problem(NamedTuple):
    """Recurrent layers on sequences of given sizes.

    Parameters
    ----------
    kind : str
        "tanh", "relu", "lstm" or "gru".
    dtype : numpy.dtype
        Of all arrays.
    steps, batch, features : int
        Sizes of x.
    units, out, layers, directions : int
        As in `core.specs.recurrent.Layers`.
    bias : bool
        Whether products have biases.
    lengths : tuple of int, optional
        Of the sequences; None if each has all steps.
    tf32 : bool
        Whether float32 numbers may be rounded to 10 bits of mantissa.
    training : bool
        Whether a gradient will be taken.
    version : str
        A name of ALGORITHMS.
    device : int
        The GPU.
    """

    kind: str
    dtype: np.dtype
    steps: int
    batch: int
    features: int
    units: int
    out: int
    layers: int
    directions: int
    bias: bool
    lengths: tuple[int, ...] | None
    tf32: bool
    training: bool
    version: str
    device: int


class _Descriptors:
    """The descriptors of a problem, destroyed with this object."""

    def __init__(self) -> None:
        made: list[tuple[Any, int]] = []  # what destroys it, and a descriptor
        self._made = made
        weakref.finalize(self, _destroy, made).atexit = False

    def new(self, kind: str) -> ctypes.c_void_p:
        """An empty descriptor: of the kind "RNN", "RNNData", "Tensor" or "Dropout"."""
        one = ctypes.c_void_p()
        _call(f"cudnnCreate{kind}Descriptor", ctypes.byref(one))
        destroy = getattr(_library(), f"cudnnDestroy{kind}Descriptor")
        self._made.append((destroy, one.value))  # type: ignore[arg-type]
        return one

    def data(self, p: Problem, size: int) -> ctypes.c_void_p:
        """Of sequences of so many numbers a step."""
        one, dtype = self.new("RNNData"), _DTYPES[p.dtype]
        lengths = (ctypes.c_int * p.batch)(*(p.lengths or [p.steps] * p.batch))
        zero = ctypes.c_double(0)  # fills what lies behind a sequence's end, in any dtype
        _call(
            "cudnnSetRNNDataDescriptor",
            *(one, dtype, _TIME_FIRST, p.steps, p.batch, size, lengths, ctypes.byref(zero)),
        )
        return one

    def state(self, p: Problem, size: int) -> ctypes.c_void_p:
        """Of a state (layers and directions, batch, size)."""
        one, ends = self.new("Tensor"), p.layers * p.directions
        sizes = (ctypes.c_int * 3)(ends, p.batch, size)
        strides = (ctypes.c_int * 3)(p.batch * size, size, 1)
        _call("cudnnSetTensorNdDescriptor", one, _DTYPES[p.dtype], 3, sizes, strides)
        return one


def _destroy(made: list[tuple[Any, int]]) -> None:
    for destroy, one in made:
        destroy(one)


class Recurrent:
    """Recurrent layers that cuDNN can compute.

    Attributes
    ----------
    workspace, reserve : int
        Bytes that a call takes for its duration, and from the forward pass to the gradient.
    """

    def __init__(self, p: Problem, starts: Starts, handle: int, side: Any):
        """Raises NotSupportedError for a problem that cuDNN does not support. handle, side: cuDNN's
        handle, and a stream beside all captures."""
        self.descriptors = made = _Descriptors()
        self.mode = _TRAINING if p.training else _INFERENCE
        dropout = made.new("Dropout")
        _call("cudnnSetDropoutDescriptor", dropout, handle, 0.0, None, 0, 0)
        self.layers = made.new("RNN")
        wide = p.dtype == np.float64
        if p.dtype.itemsize == 2:
            mathematics = _TENSOR_OPERATIONS
        else:
            mathematics = _DEFAULT_MATH if p.tf32 or wide else _FMA
        _call(
            "cudnnSetRNNDescriptor_v8",
            *(self.layers, ALGORITHMS[p.version], _CELLS[p.kind]),
            *(_TWO_BIASES if p.bias else 0, int(p.directions == 2), 0),  # 0: inputs are multiplied
            *(_DTYPES[p.dtype], int(wide), mathematics),
            *(p.features, p.units, p.out, p.layers, dropout, _PADDED),
        )
        self.x = made.data(p, p.features)
        self.y = made.data(p, p.out * p.directions)
        self.h = made.state(p, p.out)
        self.c = made.state(p, p.units) if p.kind == "lstm" else None
        sizes = [ctypes.c_size_t() for _ in range(3)]
        _call("cudnnGetRNNWeightSpaceSize", handle, self.layers, ctypes.byref(sizes[0]))
        _call(
            "cudnnGetRNNTempSpaceSizes",
            *(handle, self.layers, self.mode, self.x),
            *(ctypes.byref(sizes[1]), ctypes.byref(sizes[2])),
        )
        self.weights, self.workspace, self.reserve = [each.value for each in sizes]
        # the library computes addresses from this one, and reads nothing there
        cu = devices.driver()
        base = int(check(cu.cuMemAllocAsync(self.weights, side)))
        try:
            if self._starts(handle, base, len(starts), p.layers * p.directions) != [*starts]:
                raise NotSupportedError("weights lie in another order", None)
        finally:
            check(cu.cuMemFreeAsync(base, side))

    def _starts(self, handle: int, base: int, count: int, ends: int) -> list[tuple[int, int]]:
        """Where the matrix and the bias of each product begin, in bytes."""
        made, found = self.descriptors, []
        matrix, bias = made.new("Tensor"), made.new("Tensor")
        for end in range(ends):
            for product in range(count // ends):
                places = [ctypes.c_void_p(), ctypes.c_void_p()]
                _call(
                    "cudnnGetRNNWeightParams",
                    *(handle, self.layers, end, self.weights, base, product),
                    *(matrix, ctypes.byref(places[0]), bias, ctypes.byref(places[1])),
                )
                m, b = [-1 if each.value is None else each.value - base for each in places]
                found.append((m, b))
        return found

    # -------------------- calls

    def _spaces(self, weights: Any, workspace: Any, reserve: Any) -> tuple:
        return self.weights, weights, self.workspace, workspace, self.reserve, reserve

    def forward(self, stream: streams.Stream, *addresses: int) -> None:
        """x, weights, hx, cx, y, reserve, hy, cy, workspace; 0 for what is missing."""
        x, weights, hx, cx, y, reserve, hy, cy, workspace = [a or None for a in addresses]
        handle = cudnn.handle(stream)
        with handle.lock:
            _call(
                "cudnnRNNForward",
                *(handle.raw, self.layers, self.mode, None, self.x, x, self.y, y),
                *(self.h, hx, hy, self.c, cx, cy, *self._spaces(weights, workspace, reserve)),
            )

    def backward(self, stream: streams.Stream, *addresses: int) -> None:
        """x, weights, y, reserve, dy, hx, cx, dhy, dcy, dx, dweights, dhx, dcx, workspace, a place
        for a copy of the reserve: the library overwrites it."""
        x, weights, y, reserve, dy, hx, cx, dhy, dcy, dx, dw, dhx, dcx, workspace, own = [
            a or None for a in addresses
        ]
        handle = cudnn.handle(stream)
        copy(own, reserve, self.reserve, stream)  # type: ignore[arg-type]
        check(devices.driver().cuMemsetD8Async(dw, 0, self.weights, stream.handle))  # added to
        with handle.lock:
            _call(
                "cudnnRNNBackwardData_v8",
                *(handle.raw, self.layers, None, self.y, y, dy, self.x, dx, self.h, hx, dhy, dhx),
                *(self.c, cx, dcy, dcx, *self._spaces(weights, workspace, own)),
            )
            _call(
                "cudnnRNNBackwardWeights_v8",
                *(handle.raw, self.layers, _ADD, None, self.x, x, self.h, hx, self.y, y),
                *self._spaces(dw, workspace, own),
            )


@bounded_device_cache(256)
def recurrent(p: Problem, starts: Starts) -> Recurrent | None:
    """The layers of a problem; None if cuDNN does not support them, or has its weights elsewhere
    than at `starts`."""
    try:
        return cudnn.beside_capture(
            p.device, lambda handle, side: Recurrent(p, starts, handle, side)
        )
    except NotSupportedError:
        return None
