"""A small fake of cuDNN's recurrent layers, behind the types of the C interface: arguments arrive
converted as the library's would, and what does not fit one another, or two threads in one handle,
is an AssertionError, which the context raises at its end.

Its weights lie as NVIDIA's documentation has them: of each layer and direction the matrices, gate
by gate, inputs first, then the projection; behind all matrices the biases in the same order. It
computes when the stream comes to it, by the CPU functions of the package (which tests/ml compare
with loops over single sequences), on the memory of the fake device. Like the library it overwrites
its reserve in the backward pass, adds to the gradient of the weights, and leaves in a workspace
whatever was computed there.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
import time
from typing import Any

import ml_dtypes
import numpy as np

from cudamath.core.specs.recurrent import Layers
from cudamath.cpu import recurrent as computed
from cudamath.runtime import cudnn, cudnn_recurrent

SUCCESS, BAD_PARAM, NOT_SUPPORTED = 0, 2000, 3000
DTYPES = {0: np.float32, 1: np.float64, 2: np.float16, 9: ml_dtypes.bfloat16}
KINDS = ["relu", "tanh", "lstm", "gru"]
GATES = {"relu": 1, "tanh": 1, "lstm": 4, "gru": 3}


class Handle:
    def __init__(self, stream: Any):
        self.raw, self.stream, self.lock = id(stream) & 0xFFFFFFFF, stream, threading.Lock()
        self.used = threading.Lock()  # by a function of the library


class FakeCudnn:
    """Its methods are the functions of the library.

    Attributes
    ----------
    shifted : bool
        Biases begin 256 bytes later than they are documented to.
    calls : list of str
        Names of the functions that computed.
    live : dict
        Descriptors that were not destroyed.
    """

    def __init__(self, driver: Any, shifted: bool = False):
        self.driver, self.shifted = driver, shifted
        self.live: dict[int, dict] = {}
        self.handles: dict[int, Handle] = {}
        self.calls: list[str] = []
        self.errors: list[Exception] = []  # of functions, which C has no use for
        self.numbers = itertools.count(1 << 32)
        self.pending: dict[int, tuple] = {}  # of the gradient of weights, by reserve
        for name, types in cudnn_recurrent._FUNCTIONS.items():
            kind = ctypes.CFUNCTYPE(ctypes.c_int, *types)
            setattr(self, name, kind(self._checked(self._function(name))))

    def cudnnGetErrorString(self, status: int) -> bytes:
        return b"CUDNN_STATUS_BAD_PARAM"

    def _checked(self, function: Any) -> Any:
        """A function that notes its errors, and that a handle is used by one thread at a time."""

        def checked(*arguments: Any) -> int:
            used = [self.handles[a].used for a in arguments if a in self.handles]
            try:
                assert all([one.acquire(blocking=False) for one in used]), "two threads in a handle"
            except AssertionError as error:
                self.errors.append(error)
                return BAD_PARAM
            try:
                time.sleep(0)  # others may come: the library's functions hold no lock of Python's
                return function(*arguments)
            except Exception as error:
                self.errors.append(error)
                return BAD_PARAM
            finally:
                for one in used:
                    one.release()

        return checked

    def _function(self, name: str) -> Any:
        for start in ("Create", "Destroy"):
            if name.startswith(f"cudnn{start}"):
                return getattr(self, f"_{start.lower()}")
        return getattr(self, f"_{name}")

    def handle(self, stream: Any) -> Handle:
        one = Handle(stream)
        return self.handles.setdefault(one.raw, one)

    # -------------------- descriptors

    def _create(self, place: int) -> int:
        number = next(self.numbers)
        self.live[number] = {}
        ctypes.c_void_p.from_address(place).value = number
        return SUCCESS

    def _destroy(self, number: int) -> int:
        del self.live[number]
        return SUCCESS

    def _cudnnSetDropoutDescriptor(
        self, one: int, handle: int, p: float, states: Any, size: int, seed: int
    ) -> int:
        assert handle in self.handles and p == 0 and states is None and size == 0
        self.live[one].update(p=p)
        return SUCCESS

    def _cudnnSetTensorNdDescriptor(
        self, one: int, dtype: int, ndim: int, sizes: int, strides: int
    ) -> int:
        shape, steps = [
            tuple((ctypes.c_int * ndim).from_address(place)) for place in (sizes, strides)
        ]
        assert steps == (shape[1] * shape[2], shape[2], 1)
        self.live[one].update(dtype=DTYPES[dtype], shape=shape)
        return SUCCESS

    def _cudnnSetRNNDescriptor_v8(self, one: int, *values: Any) -> int:
        names = "algorithm kind bias both input dtype precision math features units out layers"
        found = dict(zip([*names.split(), "dropout", "flags"], values, strict=True))
        assert self.live[found["dropout"]] == {"p": 0}
        assert found["bias"] in (0, 2) and found["input"] == 0 and found["flags"] == 1
        assert found["precision"] == (1 if found["dtype"] == 1 else 0)
        if found["algorithm"] != 0 and found["dtype"] == 1:
            return NOT_SUPPORTED
        if found["out"] > found["units"]:
            return BAD_PARAM
        self.live[one].update(found)
        return SUCCESS

    def _cudnnSetRNNDataDescriptor(
        self, one: int, dtype: int, form: int, steps: int, batch: int, size: int, lengths: int,
        fill: int,
    ) -> int:  # fmt: skip
        counts = tuple((ctypes.c_int * batch).from_address(lengths))
        assert form == 0 and all([0 < n <= steps for n in counts])
        assert bytes((ctypes.c_char * 8).from_address(fill)) == bytes(8)
        self.live[one].update(
            dtype=DTYPES[dtype], steps=steps, batch=batch, size=size, lengths=counts
        )
        return SUCCESS

    # -------------------- sizes

    def _form(self, layers: int) -> Layers:
        d = self.live[layers]
        kind, both = KINDS[d["kind"]], 1 + d["both"]
        sizes = d["features"], d["units"], d["out"], d["layers"], both
        return Layers(kind, *sizes, d["bias"] == 2)

    def _places(self, layers: int) -> tuple[dict, int]:
        """Element at which each gate's matrix (end, product) and bias (end, product, "b") begins,
        and how many there are."""
        form, at, found = self._form(layers), 0, {}
        gates = GATES[form.kind]
        for end in range(form.ends):
            inner = form.features if end < form.directions else form.out * form.directions
            for product in range(2 * gates):
                found[end, product] = at
                at += form.units * (inner if product < gates else form.out)
            if form.out != form.units:
                found[end, 2 * gates] = at
                at += form.out * form.units
        if self.shifted:
            at += 64
        for end in range(form.ends if form.bias else 0):
            for product in range(2 * gates):
                found[end, product, "b"] = at
                at += form.units
        return found, at

    def _cudnnGetRNNWeightSpaceSize(self, handle: int, layers: int, place: int) -> int:
        assert handle in self.handles
        size = np.dtype(DTYPES[self.live[layers]["dtype"]]).itemsize
        ctypes.c_size_t.from_address(place).value = self._places(layers)[1] * size
        return SUCCESS

    def _reserve(self, layers: int, x: int, mode: int) -> int:
        d = self.live[x]
        form = self._form(layers)
        return computed.reserved_bytes(
            form, d["steps"], d["batch"], np.dtype(d["dtype"]), mode == 1
        )

    def _cudnnGetRNNTempSpaceSizes(
        self, handle: int, layers: int, mode: int, x: int, workspace: int, reserve: int
    ) -> int:
        assert handle in self.handles and self.live[x]["size"] == self.live[layers]["features"]
        ctypes.c_size_t.from_address(workspace).value = 640
        ctypes.c_size_t.from_address(reserve).value = self._reserve(layers, x, mode)
        return SUCCESS

    def _cudnnGetRNNWeightParams(
        self, handle: int, layers: int, end: int, size: int, base: int, product: int, matrix: int,
        matrix_place: int, bias: int, bias_place: int,
    ) -> int:  # fmt: skip
        assert matrix in self.live and bias in self.live and handle in self.handles
        found, count = self._places(layers)
        itemsize = np.dtype(DTYPES[self.live[layers]["dtype"]]).itemsize
        assert size == count * itemsize
        for place, key in ((matrix_place, (end, product)), (bias_place, (end, product, "b"))):
            at = base + found[key] * itemsize if key in found else None
            ctypes.c_void_p.from_address(place).value = at
        return SUCCESS

    # -------------------- computation

    def _array(self, address: int | None, shape: tuple[int, ...], dtype: Any) -> Any:
        if address is None:
            return None
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if not nbytes:
            return np.empty(shape, dtype)
        self.driver.check(address, nbytes, 0)
        memory = (ctypes.c_char * nbytes).from_address(address)
        return np.ndarray(shape, dtype, memory)

    def _problem(self, layers: int, x: int, y: int, h: int, c: int | None) -> tuple[Layers, dict]:
        """The form, and parameters of the CPU functions, of descriptors that must agree."""
        form, of_x, of_y = self._form(layers), self.live[x], self.live[y]
        assert of_x["size"] == form.features and of_y["size"] == form.out * form.directions
        assert {**of_x, "size": 0} == {**of_y, "size": 0}
        ends, batch = form.ends, of_x["batch"]
        assert self.live[h] == {"dtype": of_x["dtype"], "shape": (ends, batch, form.out)}
        assert (c is not None) == (form.kind == "lstm")
        if c is not None:
            assert self.live[c] == {"dtype": of_x["dtype"], "shape": (ends, batch, form.units)}
        params = {name: getattr(form, name) for name in Layers._fields if name != "features"}
        every = of_x["lengths"] == (of_x["steps"],) * batch
        return form, {
            **params, "lengths": None if every else of_x["lengths"], "tf32": False, "version": "",
        }  # fmt: skip

    def _shapes(self, form: Layers, x: int) -> tuple:
        d = self.live[x]
        ends, batch = form.ends, d["batch"]
        return (
            (d["steps"], batch, form.features),
            (d["steps"], batch, form.out * form.directions),
            (ends, batch, form.out),
            (ends, batch, form.units),
            d["dtype"],
        )

    def _enqueue(self, handle: int, name: str, run: Any) -> int:
        self.calls.append(name)
        with self.driver.lock:
            (status,) = self.driver.enqueue(self.handles[handle].stream.handle, run)
        return int(bool(status))

    def _cudnnRNNForward(
        self, handle: int, layers: int, mode: int, lengths: Any, x: int, x_: int, y: int, y_: int,
        h: int, hx: Any, hy: Any, c: Any, cx: Any, cy: Any, weights: int, w: int, work: int,
        w_: int, reserve: int, r_: Any,
    ) -> int:  # fmt: skip
        form, params = self._problem(layers, x, y, h, c)
        of_x, of_y, of_h, of_c, dtype = self._shapes(form, x)
        assert lengths is None and work == 640 and reserve == self._reserve(layers, x, mode)
        count = weights // np.dtype(dtype).itemsize

        def run() -> None:
            a = self._array
            a(w_, (work,), np.uint8)[...] = 170
            given = (
                a(x_, of_x, dtype),
                a(w, (count,), dtype),
                a(hx, of_h, dtype),
                a(cx, of_c, dtype),
            )
            found = computed.layers(*given, training=mode == 1, **params)
            a(y_, of_y, dtype)[...] = found[0]
            a(r_ if reserve else 0, (reserve,), np.uint8)[...] = found[1]
            a(hy, of_h, dtype)[...] = found[2]
            if cy is not None:
                a(cy, of_c, dtype)[...] = found[3]

        return self._enqueue(handle, "cudnnRNNForward", run)

    def _cudnnRNNBackwardData_v8(
        self, handle: int, layers: int, lengths: Any, y: int, y_: int, dy: int, x: int, dx: int,
        h: int, hx: Any, dhy: Any, dhx: Any, c: Any, cx: Any, dcy: Any, dcx: Any, weights: int,
        w: int, work: int, w_: int, reserve: int, r_: int,
    ) -> int:  # fmt: skip
        form, params = self._problem(layers, x, y, h, c)
        of_x, of_y, of_h, of_c, dtype = self._shapes(form, x)
        assert lengths is None and work == 640 and reserve == self._reserve(layers, x, 1) > 0
        count = weights // np.dtype(dtype).itemsize

        def run() -> None:
            a = self._array
            a(w_, (work,), np.uint8)[...] = 170
            held = a(r_, (reserve,), np.uint8)
            ours = (a(y_, of_y, dtype), held, a(dy, of_y, dtype))
            places = (hx, of_h), (cx, of_c), (dhy, of_h), (dcy, of_c)
            states = [a(place, shape, dtype) for place, shape in places]
            if states[0] is None:
                states[:2] = np.zeros(of_h, dtype), np.zeros(of_c, dtype)
            own = a(w, (count,), dtype).copy()
            zeros = np.zeros(of_x, dtype)  # the gradients of x and of states do not use x
            slopes = computed.layers_grad(zeros, own, *ours, *states, training=True, **params)
            a(dx, of_x, dtype)[...] = slopes[0]
            if dhx is not None:
                a(dhx, of_h, dtype)[...] = slopes[2]
            if dcx is not None:
                a(dcx, of_c, dtype)[...] = slopes[3]
            self.pending[r_] = params, own, (ours[0], held.copy(), ours[2]), states
            held[...] = 85

        return self._enqueue(handle, "cudnnRNNBackwardData_v8", run)

    def _cudnnRNNBackwardWeights_v8(
        self, handle: int, layers: int, mode: int, lengths: Any, x: int, x_: int, h: int, hx: Any,
        y: int, y_: int, weights: int, dw: int, work: int, w_: int, reserve: int, r_: int,
    ) -> int:  # fmt: skip
        assert lengths is None and mode == 0 and work == 640
        of_x, *_, dtype = self._shapes(self._form(layers), x)

        def run() -> None:
            params, own, ours, states = self.pending.pop(r_)
            given = self._array(x_, of_x, dtype), own
            slopes = computed.layers_grad(*given, *ours, *states, training=True, **params)
            self._array(dw, own.shape, dtype)[...] += slopes[1]

        return self._enqueue(handle, "cudnnRNNBackwardWeights_v8", run)


@contextlib.contextmanager
def fake_cudnn(monkeypatch: Any, driver: Any, **options: Any) -> Any:
    """cuDNN is there, and it is this one."""
    fake = FakeCudnn(driver, **options)
    with monkeypatch.context() as patch:
        patch.setattr(cudnn, "available", lambda: True)
        patch.setattr(cudnn, "handle", fake.handle)
        patch.setattr(cudnn_recurrent, "_library", lambda: fake)
        yield fake
    for error in fake.errors:
        raise error
