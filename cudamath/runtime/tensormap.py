"""Tensor maps: what the tensor memory accelerator (TMA, compute capability 9.0) must know of a
tensor.

A map is 128 opaque bytes that the driver encodes from address, sizes, strides, box and swizzle. A
kernel needs its address.

Where maps live. CUDA C++ passes them as kernel arguments; Numba's arguments are 8-byte words
without that alignment, so ours lie in device memory. They depend on the tensor's address, which
differs from call to call; but our pools hand out the same blocks again and again. Hence each
template (everything but the address) keeps a dictionary: tensor address -> address of its map. A
call pays the look-up; only an address never seen before pays for encoding and an upload.

Why this is safe. A slot of the table is written once, before any launch knows its address: the
upload runs on a stream of its own and is waited for, so every stream may use the map from then on.
Slots are never rewritten while anything may still read them: when one half of the table is full,
all dictionaries are emptied, the streams of the device are waited for, and the other half, whose
maps nobody has looked up since the last such turn, is filled anew. A graph under capture gets maps
of its own, which live as long as the graph (`memory.graph_constant`). Each device has a table and
dictionaries of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from . import device as devices
from . import memory
from . import stream as streams
from .errors import check
from .state import runtime

BYTES = 128  # of a map, and its alignment
CHUNK = 512  # maps a block of the table holds
HALF = 1 << 15  # maps in half a table (4 MiB); a multiple of CHUNK

_TYPES = {
    "uint8": "UINT8",
    "int8": "UINT8",
    "uint16": "UINT16",
    "int16": "UINT16",
    "int32": "INT32",
    "uint32": "UINT32",
    "int64": "INT64",
    "uint64": "UINT64",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "float32": "FLOAT32",
    "float64": "FLOAT64",
    "float8_e4m3fn": "UINT8",
    "float8_e5m2": "UINT8",
    "bool": "UINT8",
    "tf32": "TFLOAT32",
}
_SWIZZLES = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}


@dataclasses.dataclass(frozen=True)
class Template:
    """All of a tensor map but the address. Sizes are in NumPy's order, outermost first; strides in
    bytes.

    shape, strides: of the tensor; the innermost stride is the size of an element, the others are
    multiples of 16. box: what one load or store moves. swizzle: 0, 32, 64 or 128 bytes, at least as
    wide as the box's innermost row. kind: name of the dtype; "tf32" for float32 numbers to be
    rounded to TF32 on their way. steps: along each axis, the distance in elements between those
    that are taken (None: all are). lower, upper: for im2col loads, the corners of the window in
    pixels ((.., h, w) as in shape, without images and channels); box is then (pixels, channels).
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    kind: str
    swizzle: int = 128
    steps: tuple[int, ...] | None = None
    lower: tuple[int, ...] | None = None
    upper: tuple[int, ...] | None = None

    def encode(self, address: int) -> bytes:
        """The 128 bytes for a tensor at this address, which is a multiple of 16."""
        cu = devices.driver()
        rank = len(self.shape)
        kind = getattr(cu.CUtensorMapDataType, "CU_TENSOR_MAP_DATA_TYPE_" + _TYPES[self.kind])
        shape = [cu.cuuint64_t(n) for n in reversed(self.shape)]
        strides = [cu.cuuint64_t(n) for n in reversed(self.strides[:-1])]
        box = [cu.cuuint32_t(n) for n in reversed(self.box)]
        steps = [cu.cuuint32_t(n) for n in reversed(self.steps or (1,) * rank)]
        swizzle = getattr(cu.CUtensorMapSwizzle, "CU_TENSOR_MAP_SWIZZLE_" + _SWIZZLES[self.swizzle])
        rest = (
            cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        if self.lower is None or self.upper is None:
            tensor_map = check(
                cu.cuTensorMapEncodeTiled(kind, rank, address, shape, strides, box, steps, *rest)
            )
        else:
            tensor_map = check(
                cu.cuTensorMapEncodeIm2col(
                    kind,
                    rank,
                    address,
                    shape,
                    strides,
                    list(reversed(self.lower)),
                    list(reversed(self.upper)),
                    self.box[1],
                    self.box[0],
                    steps,
                    *rest,
                )
            )
        return np.array([int(word) for word in tensor_map.opaque], np.uint64).tobytes()


class _Table:
    """The maps of one device: blocks of slots, filled one after the other, round and round."""

    def __init__(self, index: int):
        self.device = index
        self.blocks: list[int] = []
        self.used = 0
        self.dictionaries: list[dict[int, int]] = []

    def put(self, data: bytes) -> int:
        """Address of a slot that holds `data`, readable by every stream."""
        if self.used and self.used % HALF == 0:
            self.turn()
        block, slot = divmod(self.used % (2 * HALF), CHUNK)
        pool = memory.pool_of(self.device)

        def work(side: Any) -> int:
            cu = devices.driver()
            if block == len(self.blocks):
                self.blocks.append(int(check(cu.cuMemAllocAsync(CHUNK * BYTES, side))))
            check(cu.cuMemcpyHtoDAsync(self.blocks[block] + slot * BYTES, data, BYTES, side))
            return self.blocks[block] + slot * BYTES

        address = pool.beside_capture(work)
        self.used += 1
        return address

    def turn(self) -> None:
        """Forget all maps, and wait until no launch can need one of those forgotten at the turn
        before."""
        with streams.in_context(self.device), memory.relaxed():
            for stream in [
                s
                for s in memory.pool_of(self.device).streams
                if not s.graph_only and not s.capturing
            ]:
                check(devices.driver().cuStreamSynchronize(stream.standing().handle))
        for maps in self.dictionaries:
            maps.clear()


def lookup(template: Template, index: int) -> Callable[[int, streams.Stream], int]:
    """The function (tensor address, stream) -> address of its map on device `index`."""
    with devices.lock:
        function = runtime.tensor_map_lookups.get((template, index))
        if function is None:
            function = _lookup(template, index)
            runtime.tensor_map_lookups[template, index] = function
        return function


def _lookup(template: Template, index: int) -> Callable[[int, streams.Stream], int]:
    table = runtime.tensor_maps.setdefault(index, _Table(index))
    maps: dict[int, int] = {}  # address of a tensor -> address of its map
    table.dictionaries.append(maps)

    def at(address: int, stream: streams.Stream) -> int:
        if stream.capturing:
            return memory.graph_constant(template.encode(address), stream)
        map_address = maps.get(address)
        return miss(address) if map_address is None else map_address

    def miss(address: int) -> int:
        with devices.lock:
            map_address = maps.get(address)
            if map_address is None:
                map_address = maps[address] = table.put(template.encode(address))
            return map_address

    return at
