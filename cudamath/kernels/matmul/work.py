"""What each version of a matrix product does (lib/prediction.py): from that its time is predicted.

Kernels for tensor cores copy operands whose rows they cannot read. cuBLAS reads unaligned rows one
number at a time, which is another kind of version.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...core.layout import Layout
from ...runtime import device as devices
from ..lib.integers import blocks
from ..lib.prediction import Machine, Tiles, Work, tiled
from . import sm90_tiles
from .problem import Problem, Product

SIDE = 128  # of the tiles of simt.py
SPLITS = (1, 2, 4, 8)
BLAS_SIZES = (
    *((64, 64), (64, 128), (128, 64), (128, 128)),
    *((64, 256), (128, 192), (192, 128), (128, 256), (256, 128)),
)
TILES = {
    "sm90": Tiles([(128, 256)], 64, feed=40, store=30, splits=sm90_tiles.SPLITS),
    "sm80": Tiles([(128, 128), (128, 256)], 64, 300),
    "cublas": Tiles(BLAS_SIZES, 64, feed=40, store=30, splits=(*SPLITS, 16, 32)),
    "cublas beside": Tiles(BLAS_SIZES[:4], 8, 100, resident=2, splits=(*SPLITS, 16, 32)),
    "gemv": Tiles([(16, 16)], 64, 20, 500, store=16, resident=16, splits=SPLITS),
    "simt_async_copy": Tiles([(128, 128)], 8, 150, resident=2, splits=SPLITS),
    "simt_async_copy_small": Tiles([(64, 64)], 8, 150, resident=4),
    "simt": Tiles([(SIDE, SIDE)], 8, 150, resident=2),
    "simt_small": Tiles([(64, 64)], 8, 150, resident=4),
    "register_tiles": Tiles([(128, 128)], 8, 300, resident=2),
    "tiled": Tiles([(16, 16)], 16, 150, end=300, resident=8),
    "naive": Tiles([(16, 16)], 16, 600, end=300, resident=8),
}
EARLY = 0.5  # of a launch: one that is under way when the kernel before it ends
COMPLEX = 4  # multiply-adds of a product of complex numbers


def is_odd(x: Layout) -> bool:
    """Whether the rows of an operand, as they lie, do not all begin at multiples of 16 bytes."""
    flipped = x.ndim > 1 and x.strides[-1] != x.itemsize and x.strides[-2] == x.itemsize
    outer = x.strides[:-2] + x.strides[-1:] if flipped else x.strides[:-1]
    return not x.aligned or any(s % 16 for s in outer)


def _is_across(p: Problem, i: int) -> bool:
    """Whether an operand lies across the sums, which kernels for tensor cores read of 16-bit
    numbers alone."""
    x = (p.a, p.b)[i]
    inner = x.strides[-1 if i == 0 or x.ndim == 1 else -2]
    return p.a.itemsize != 2 and inner != x.itemsize


def _kind(p: Problem) -> str:
    """Numbers, as kinds of rates have them."""
    dtype = p.a.dtype
    if p.tf32 and dtype == np.float32:
        return "tf32"
    return f"{8 * dtype.itemsize}-bit{' complex' * (dtype.kind == 'c')}"


def parts_of(p: Product, device: int, step: int = 0) -> int:
    """Into how many parts simt.py splits k: as many as give every place on the device a tile, two
    to a multiprocessor. step: parts are multiples of it, without a rest."""
    tiles, room = blocks(p.m, SIDE) * blocks(p.n, SIDE), 2 * devices.multiprocessors(device)
    return next(
        (
            s
            for s in (8, 4, 2)
            if s * tiles <= room and (step == 0 or p.k % (step * s) == 0) and p.k >= 64 * s
        ),
        1,
    )


def _splits(method: str, p: Problem) -> Iterable[int]:
    """The parts into which a version may split sums: those beside tensor cores only of two
    matrices, simt.py of float32."""
    if not method.startswith("simt"):
        return TILES[method].splits
    if p.product.batch > 1 or len(p.product.parts) > 1 or not p.a.ndim == p.b.ndim == 2:
        return (1,)
    if method == "simt":
        return (parts_of(p.product, p.device, 4) if p.a.dtype == np.float32 else 1,)
    return TILES[method].splits


def _by_tiles(
    method: str, p: Problem, tensor: bool = False, copies: bool = False, slower: float = 1.0
) -> Work:
    """The work of a version that cuts C into tiles. copies: of operands that it cannot read;
    slower: how many times longer reads take than its multiply-adds."""
    machine, x, dtype = Machine.of(p.device), p.product, p.a.dtype
    tiles = TILES[method]._replace(splits=_splits(method, p))
    if method == "sm90":  # whose tile is known
        tile = sm90_tiles.choose(x, p.device, False, dtype.itemsize)
        tiles = tiles._replace(sizes=[tile[:2]], splits=(tile.splits,))
    rate = machine.rate(dtype, tensor) / (COMPLEX if dtype.kind == "c" else 1) / slower
    if tensor and p.tf32 and dtype == np.float32:
        rate /= 2
    count = x.batch * len(x.parts)
    cycles, splits = tiled(tiles, x.m, x.n, x.k, count, machine, rate)
    results = count * x.m * x.n
    moved = float(p.a.size + p.b.size + results)
    launches = float(len(x.parts))
    if splits > 1:
        moved += 2 * splits * results * 4 / dtype.itemsize
        launches += EARLY if method == "sm90" else 1
    odd = ""
    if copies:
        turned = [y.size for i, y in enumerate((p.a, p.b)) if is_odd(y) or _is_across(p, i)]
        moved, launches = moved + 2 * sum(turned), launches + bool(turned)
        odd = " odd" * (bool(turned) or x.n * dtype.itemsize % 16 > 0)
    return Work(f"matmul_{method} {_kind(p)}{odd}", cycles, moved * dtype.itemsize, launches)


def sm90(p: Problem) -> Work:
    """sm90.py."""
    return _by_tiles("sm90", p, True, copies=True)


def sm80(p: Problem) -> Work:
    """sm80.py."""
    return _by_tiles("sm80", p, True, copies=True)


def cublas(p: Problem) -> Work:
    """The library, on tensor cores or beside them."""
    dtype = p.a.dtype
    if dtype.itemsize == 2 or p.tf32 and dtype == np.float32:
        odd = " odd" * (is_odd(p.a) or is_odd(p.b))
        work = _by_tiles("cublas", p, True)
    else:
        odd = ""
        work = _by_tiles("cublas beside", p, dtype == np.float64)
    batched = " batched" * (p.product.batch > 1)
    return work._replace(rates=f"matmul_cublas {_kind(p)}{odd or batched}")


def gemv(p: Problem) -> Work:
    """gemv.py: each weight is read once, rows are multiplied by tensor cores."""
    return _by_tiles("gemv", p, True)._replace(launches=1)


def simt_async_copy(p: Problem) -> Work:
    """simt_async_copy.py."""
    return _by_tiles("simt_async_copy", p)


def simt_async_copy_small(p: Problem) -> Work:
    """The same by small tiles."""
    return _by_tiles("simt_async_copy_small", p)


def simt(p: Problem) -> Work:
    """simt.py."""
    return _by_tiles("simt", p)


def simt_small(p: Problem) -> Work:
    """The same by small tiles."""
    return _by_tiles("simt_small", p)


def register_tiles(p: Problem) -> Work:
    """register_tiles.py, 128 x 128."""
    return _by_tiles("register_tiles", p)


def tiled_16(p: Problem) -> Work:
    """register_tiles.py, 16 x 16: each multiply-add reads two numbers from shared memory."""
    return _by_tiles("tiled", p, slower=9)


def naive(p: Problem) -> Work:
    """register_tiles.py, an element to a thread: each multiply-add reads two numbers."""
    return _by_tiles("naive", p, slower=40)
