"""The problems that the planners of quantized numbers solve."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input
from ...core.dtypes import float8_e4m3, float8_e5m2
from ...core.layout import Layout
from ...runtime import cublas
from ...runtime import device as devices
from ..compiler.lazy_numba import SIMULATOR
from ..lib.row_layout import Rows, spread
from ..lib.widths import vector_width
from ..matmul.gemv_plan import PER_BYTE

#: form -> (dtype it is stored in, lowest and highest stored number)
FORMS: dict[str, tuple[np.dtype, float, float]] = {
    "int8": (np.dtype(np.int8), -128, 127),
    "int4": (np.dtype(np.uint8), 0, 15),
    "float8_e4m3fn": (float8_e4m3, -448, 448),
    "float8_e5m2": (float8_e5m2, -57344, 57344),
}

WIDTH = 8  # neighbours that a thread quantizes or dequantizes
# Numbers of a row in a thread of `quantize_rows`: 32 bits each. Twice as many of 16 bits, two to a
# register, up to FEW_THREADS threads (more have too few registers) and not for float8, whose
# rounding is too long to be unrolled so often.
HELD = 32
FEW_THREADS = 256
TOGETHER = 4  # threads that share a row at least


@dataclass(frozen=True)
class QuantizeProblem:
    """Numbers to quantize or dequantize: from memory `x` to `y`. `inner` numbers next to each other
    share one of `channels` scales."""

    size: int
    source: Layout
    x: ArrayArg
    scale: ArrayArg
    zero: ArrayArg | None
    y: ArrayArg
    dtype: np.dtype  # of the numbers that are not quantized
    form: str
    inner: int
    channels: int

    @property
    def stored(self) -> int:
        """Stored elements: bytes."""
        return self.size // (2 if self.form == "int4" else 1)

    @property
    def arguments(self) -> list[Any]:
        """Those of all kernels behind the first."""
        return [self.scale.flat, (self.zero or self.scale).flat, self.y.flat, self.inner]


class RowsProblem(NamedTuple):
    """A contiguous (m, n) whose rows are quantized."""

    x: Layout
    form: str

    @property
    def width(self) -> int:
        """Numbers of an access."""
        return vector_width(self.x.shape[1], self.x)

    @property
    def outputs(self) -> list[Layout]:
        """Stored numbers and the rows' scales."""
        m, n = self.x.shape
        shape = (m, n // 2) if self.form == "int4" else (m, n)
        return [
            Layout.new(shape, FORMS[self.form][0], self.x.device),
            Layout.new((m,), np.dtype(np.float32), self.x.device),
        ]

    @property
    def rows(self) -> Rows | None:
        """How threads share the rows; None where registers cannot hold them."""
        x, n = self.x, self.x.shape[1]
        rows = None
        if x.itemsize == 2 and self.form.startswith("int"):
            rows = spread(n, self.width, 2 * HELD, FEW_THREADS, TOGETHER)
        return rows or spread(n, self.width, HELD * 4 // max(x.itemsize, 4), together=TOGETHER)


@dataclass(frozen=True)
class LinearProblem:
    """y = activation(x dequantize(weight)^T + bias) + residual; see `linear_quantized`."""

    x: Layout
    values: Layout
    scale: Layout
    zero: Layout | None
    bias: Layout | None
    residual: Layout | None
    form: str
    group: int
    activation: str
    tile: str = ""

    @property
    def shape(self) -> tuple[int, int]:
        """(out, in) of the weight."""
        return self.values.shape[0], self.values.shape[1] * PER_BYTE.get(self.form, 1)

    @property
    def out(self) -> Layout:
        return self.x.like((*self.x.shape[:-1], self.shape[0]))

    @functools.cached_property
    def places(self) -> tuple[ArrayArg | None, ArrayArg | None, ArrayArg | None]:
        """Zero points, bias and residual as inputs of the plan."""
        numbers = iter(range(3, 6))
        zero, bias, residual = (
            None if layout is None else Input(next(numbers))
            for layout in (self.zero, self.bias, self.residual)
        )
        return zero, bias, residual


@dataclass
class ScaledMatmulProblem:
    """C = (a b) scale_a scale_b + bias of `dtype`. tile: of the sm90 version."""

    a: Layout
    b: Layout
    scale_a: Layout
    scale_b: Layout
    bias: Layout | None
    dtype: np.dtype
    tile: str = ""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, k, n."""
        return self.a.shape[0], self.a.shape[1], self.b.shape[1]

    @functools.cached_property
    def out(self) -> Layout:
        m, _, n = self.sizes
        return Layout.new((m, n), self.dtype, self.a.device)

    @functools.cached_property
    def matrices(self) -> list[Any]:
        """A and B as cuBLAS reads them; None for one that it cannot read as it lies."""
        return [
            cublas.matrix(*x.shape, *[s // x.itemsize for s in x.strides]) for x in (self.a, self.b)
        ]

    @functools.cached_property
    def wgmma(self) -> bool:
        """Whether the sums are of wgmma: 16-bit results on compute capability 9.0."""
        return (
            not SIMULATOR
            and devices.capability(self.a.device) == (9, 0)
            and self.dtype.itemsize == 2
            and 0 not in self.sizes
        )

    @functools.cached_property
    def fused(self) -> bool:
        """Whether the epilogue can read scales and bias; it adds a bias by 16 bytes."""
        operands = [x for x in (self.scale_a, self.scale_b, self.bias) if x is not None]
        return (
            self.wgmma
            and (self.sizes[2] % 8 == 0 or self.bias is None)
            and all(x.contiguous and x.aligned for x in operands)
        )

    @functools.cached_property
    def cublaslt(self) -> bool:
        """Whether cuBLASLt multiplies it: float8_e4m3, both operands contiguous along k, in rows of
        whole 16 bytes, with scales of one kind."""
        (_, k, n), outer = self.sizes, self.scale_a.size > 1
        return (
            self.fused
            and self.a.dtype == float8_e4m3
            and all(
                x.aligned and matrix is not None and matrix.ld % 16 == 0
                for x, matrix in zip((self.a, self.b), self.matrices, strict=True)
            )
            and k % 16 == n % 16 == 0
            and outer == (self.scale_b.size > 1)
            and [matrix.transposed for matrix in self.matrices] == [0, 1]
            and cublas.multiplies_float8(outer)
        )

    @property
    def multiprocessors(self) -> int:
        return devices.multiprocessors(self.a.device)
