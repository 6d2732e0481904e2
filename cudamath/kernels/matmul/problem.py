"""A (batched, broadcast) matrix product as planners see it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from ...core import shapes
from ...core.layout import Layout
from ...runtime import cublas

MOST_BATCH = 65535  # blocks along the second grid dimension; larger batches take several launches


def transpose(x: Layout) -> Layout:
    """The transpose of a matrix: a view."""
    return x.view(x.shape[::-1], x.strides[::-1])


class Product:
    """One (batched) product as a planner sees it.

    batch, m, k, n: sizes. strides_a, strides_b, strides_c: bytes from one matrix, row and column to
    the next. parts: byte offsets (in A, in B, in C) of the launches or library calls it takes. One,
    unless broadcasting makes the batch dimensions of A and B impossible to walk with a single
    stride each.
    """

    def __init__(self, a: Layout, b: Layout):
        shape_a, strides_a = (
            (a.shape, a.strides) if a.ndim > 1 else ((1, *a.shape), (0, *a.strides))
        )
        shape_b, strides_b = (
            (b.shape, b.strides) if b.ndim > 1 else ((*b.shape, 1), (*b.strides, 0))
        )
        lead = shapes.broadcast_shapes("matmul", shape_a[:-2], shape_b[:-2])
        m, self.k, n = shape_a[-2], shape_a[-1], shape_b[-1]
        self.out = a.like(lead + ((m,) if a.ndim > 1 else ()) + ((n,) if b.ndim > 1 else ()))
        batch_a = shapes.broadcast_strides(shape_a[:-2], strides_a[:-2], lead)
        batch_b = shapes.broadcast_strides(shape_b[:-2], strides_b[:-2], lead)
        *batch_c, row_c, column_c = shapes.contiguous_strides((*lead, m, n), a.itemsize)
        row_a, column_a = strides_a[-2:]
        if lead and not any(batch_b):
            # one B for all: the rows of all A's form one tall matrix if they are evenly spaced
            # across the batch
            tall, along_a, along_c = shapes.collapse(
                (*lead, m), (*batch_a, row_a), (*batch_c, row_c)
            )
            if len(tall) == 1:
                (m,), (row_a,), (row_c,) = tall, along_a, along_c
                lead, batch_a, batch_b, batch_c = (), (), (), []
        self.m, self.n = m, n
        sizes, *walks = shapes.collapse(lead, batch_a, batch_b, tuple(batch_c))
        inner = sizes.index(max(sizes)) if sizes else -1
        self.batch = sizes[inner] if sizes else 1
        step_a, step_b, step_c = (walk[inner] if sizes else 0 for walk in walks)
        self.strides_a = (step_a, row_a, column_a)
        self.strides_b = (step_b, *strides_b[-2:])
        self.strides_c = (step_c, row_c, column_c)
        self.parts = [(0, 0, 0)]
        for i, (size, x, y, z) in enumerate(zip(sizes, *walks, strict=True)):
            if i != inner:
                self.parts = [
                    (p + j * x, q + j * y, r + j * z) for p, q, r in self.parts for j in range(size)
                ]

    def launches(self) -> Iterator[tuple[tuple[int, int, int], int]]:
        """(byte offsets, matrices) of the launches of a kernel whose grid holds up to MOST_BATCH
        matrices."""
        steps = (self.strides_a[0], self.strides_b[0], self.strides_c[0])
        for x, y, z in self.parts:
            for first in range(0, self.batch, MOST_BATCH):
                offsets = (x + first * steps[0], y + first * steps[1], z + first * steps[2])
                yield offsets, min(self.batch - first, MOST_BATCH)


@dataclasses.dataclass
class Problem:
    """The product a @ b of two layouts of one dtype.

    Parameters
    ----------
    tf32 : bool
        Whether operands of float32 may be rounded to 10 bits.
    tile : str
        The tile of a version that has several, as in its name: "128x256 pingpong". By default the
        version chooses it.
    """

    a: Layout
    b: Layout
    tf32: bool = False
    tile: str = ""

    @functools.cached_property
    def product(self) -> Product:
        return Product(self.a, self.b)

    @functools.cached_property
    def cublas(self) -> bool:
        """Whether cuBLAS can be loaded and has the dtype."""
        return self.a.dtype in cublas.DTYPES and cublas.available()

    @property
    def device(self) -> int:
        return self.a.device

    @property
    def inputs(self) -> tuple[Layout, Layout]:
        return self.a, self.b

    @property
    def key(self) -> str:
        """All that a plan depends on, in words; "" where a tile is asked for."""
        sides = [f"{x.shape} strides {x.strides} aligned {x.aligned}" for x in self.inputs]
        return "" if self.tile else f"{self.a.dtype} {' @ '.join(sides)}, tf32 {self.tf32}"

    @property
    def multiply_adds(self) -> int:
        """Of one matrix of the batch."""
        p = self.product
        return p.m * p.n * p.k
