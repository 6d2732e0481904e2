"""A call of attention as its planners see it, and its operands as kernels read them."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from ...core import shapes
from ...core.dispatch.arguments import ArrayArg, Constant, Input, Scalar, Temp, TensorMap
from ...core.dtypes import bfloat16, compute_dtype
from ...core.layout import Layout
from ...runtime.device import capability, multiprocessors
from ..copy.dispatch import copy_part
from ..copy.parts import whole
from ..lib.integers import blocks
from ..lib.philox import counter as drawing_counter

#: Keys of a tile of forward_sm90.py by columns: as many as shared memory holds twice beside the
#: values and the queries.
KEYS = {64: 128, 128: 128, 192: 112, 256: 80}
HIDDEN = -1.0e30  # score of a key that is not seen
CACHED = 24 << 20  # bytes of keys and values that blocks share in the L2 cache: half of an H200's


@dataclasses.dataclass(frozen=True)
class Problem:
    """Attention of queries (B, H, Sq, D), keys (B, Hkv, Sk, D) and values (B, Hkv, Sk, Dv), or its
    gradient.

    Parameters
    ----------
    mask, query_lengths, key_lengths, cell : Layout, optional
        The optional operands; `cell` is the state of a generator, from which dropout draws.
    g, lse : Layout, optional
        Of a gradient: the outputs' gradient, and the logarithms of the forward pass.
    packed : bool
        Whether queries, keys and values are parts of one array (packed_qkv.py).
    """

    q: Layout
    k: Layout
    v: Layout
    mask: Layout | None
    query_lengths: Layout | None
    key_lengths: Layout | None
    cell: Layout | None
    causal: bool
    scale: float
    dropping: bool
    g: Layout | None = None
    lse: Layout | None = None
    packed: bool = False

    # -------------------- sizes

    @property
    def batch(self) -> int:
        return self.q.shape[0]

    @property
    def heads(self) -> int:
        return self.q.shape[1]

    @property
    def rows(self) -> int:
        """Queries of a head."""
        return self.q.shape[2]

    @property
    def depth(self) -> int:
        return self.q.shape[3]

    @property
    def shares(self) -> int:
        """Heads of keys and values, each of which `repeats` heads of queries share."""
        return self.k.shape[1]

    @property
    def repeats(self) -> int:
        return self.heads // self.shares

    @property
    def keys(self) -> int:
        return self.k.shape[2]

    @property
    def columns(self) -> int:
        """The depth, in whole boxes of TMA."""
        return 64 * blocks(self.depth, 64)

    @property
    def number(self) -> str:
        """The kind of 16-bit numbers."""
        return "bf16" if self.q.dtype == bfloat16 else "f16"

    @property
    def limited(self) -> bool:
        """Whether there are lengths."""
        return self.query_lengths is not None or self.key_lengths is not None

    @property
    def device(self) -> int:
        return self.q.device

    @property
    def capability(self) -> tuple[int, int]:
        return capability(self.q.device)

    @property
    def multiprocessors(self) -> int:
        return multiprocessors(self.q.device)

    @property
    def heads_together(self) -> int:
        """Heads whose tiles are walked together: those that share keys; if causal, as many as the
        L2 cache has room for."""
        if not self.causal:
            return self.repeats
        nbytes = 2 * self.k.itemsize * self.keys * self.k.shape[3]
        return min(self.batch * self.heads, max(1, CACHED // nbytes) * self.repeats)

    @property
    def factors(self) -> tuple[np.float32, np.float32]:
        """scale log2 e, by which exponents become powers of two, and the scale."""
        return np.float32(self.scale * math.log2(math.e)), np.float32(self.scale)

    # -------------------- what versions ask

    @functools.cached_property
    def tensor_cores(self) -> bool:
        """Whether tensor cores multiply it: 16-bit numbers, rows of whole 16 bytes."""
        return (
            self.capability >= (8, 0)
            and self.q.itemsize == 2
            and self.depth == self.v.shape[3]
            and self.depth % 8 == 0
        )

    @functools.cached_property
    def finite_scores(self) -> bool:
        """Whether a finite number can stand for hidden scores: the scale keeps them hidden, and
        there are keys."""
        return (
            1e-6 <= self.scale <= 1e6
            and 0 not in self.q.shape
            and 0 < self.keys
            and max(self.rows, self.keys) < 1 << 30
        )

    # -------------------- arguments

    @functools.cached_property
    def optional(self) -> tuple[list[Any], list[Any]]:
        """Mask and lengths as arguments, the mask as (B, H, Sq, Sk); dropout's counter and
        scalars."""
        first = 3 if self.g is None else 6
        place = iter(range(first, first + 4))
        absent = Input(0)  # no kernel reads it
        arguments: list[Any] = [
            absent if x is None else Input(next(place))
            for x in (self.mask, self.query_lengths, self.key_lengths)
        ]
        if self.mask is not None:
            scores = (*self.q.shape[:3], self.keys)
            strides = shapes.broadcast_strides(self.mask.shape, self.mask.strides, scores)
            arguments[0] = arguments[0].view(scores, strides)
        real = compute_dtype(self.q.dtype)
        if not self.dropping:
            return arguments, [*[np.uint64(0)] * 4, real.type(0)]
        counter = drawing_counter(self.cell is not None, next(place))
        return arguments, [*counter, Scalar(3, np.uint64), Scalar(4, real)]

    def both_lengths(self) -> list[Any]:
        """Query and key lengths for a kernel that takes both or neither; all, in the place of one
        that is missing."""
        lengths = (self.query_lengths, self.key_lengths)
        batch = next((x.shape[0] for x in lengths if x is not None), None)
        return [
            argument if x is not None or batch is None else Constant(np.full(batch, most, np.int32))
            for x, argument, most in zip(
                lengths, self.optional[0][1:], (self.rows, self.keys), strict=True
            )
        ]


def box_strides(x: Layout) -> tuple[int, ...] | None:
    """The strides of an array (B, H, S, D) whose rows are contiguous and begin at multiples of 16
    bytes, else None. Strides of axes of length 1 do not count."""
    dense = shapes.contiguous_strides(x.shape, x.itemsize)
    strides = tuple(d if n == 1 else s for n, s, d in zip(x.shape, x.strides, dense, strict=True))
    aligned = x.aligned and all(s % 16 == 0 and s > 0 for s in strides[:3])
    return strides if aligned and strides[3] == x.itemsize else None


def result_like(x: Layout, columns: int | None = None) -> Layout:
    """The layout of a new array (B, H, S, columns) whose rows follow one another in memory in the
    order of those of x (B, H, S, D). Where x came out of a product, the heads of a position lie
    side by side, and the product that reads the result wants them so."""
    shape = (*x.shape[:3], x.shape[3] if columns is None else columns)
    wide = [i for i in range(3) if x.shape[i] > 1]
    order = sorted(wide, key=lambda i: -x.strides[i])
    overlap = any([x.strides[i] < x.shape[3] * x.itemsize for i in wide])
    if order == wide or overlap or x.strides[3] != x.itemsize:
        return x.like(shape)
    order = [*[i for i in range(3) if i not in wide], *order, 3]
    dense = shapes.contiguous_strides(tuple([shape[i] for i in order]), x.itemsize)
    return x.like(shape).view(shape, tuple([dense[order.index(i)] for i in range(4)]))


class Operands:
    """Operands that kernels read by 16 bytes or by TMA. Those whose rows do not begin at multiples
    of 16 bytes are copied to scratch memory first."""

    def __init__(self) -> None:
        self.temps: list[Layout] = []
        self.steps: list[Any] = []

    def array(self, argument: ArrayArg, x: Layout) -> ArrayArg:
        """The array (B, H, S, D), or a copy of it."""
        strides = box_strides(x)
        if strides is None:
            self.temps.append(x.like())
            copy = Temp(len(self.temps) - 1)
            self.steps += copy_part(whole(argument, x), whole(copy, x.like()))
            argument, strides = copy, x.like().strides
        return argument.view(x.shape, strides)

    def map(self, argument: ArrayArg, x: Layout, rows: int) -> TensorMap:
        """The tensor map of it for boxes of `rows` rows and 64 columns."""
        array = self.array(argument, x)
        return TensorMap(array, x.shape, array.strides, (1, 1, rows, 64))
