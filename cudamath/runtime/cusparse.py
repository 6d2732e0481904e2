"""cuSPARSE on raw addresses: one handle per stream, products of a CSR matrix and a dense one, and
elements of a product of dense ones.

The library may add in an order that changes from run to run. CUSPARSE_SPMV_CSR_ALG2,
CUSPARSE_SPMM_CSR_ALG3 and CUSPARSE_SDDMM_ALG_DEFAULT run, and no others, as the ones that should
keep it. On an H100 CUSPARSE_SPMM_CSR_ALG3 gave other last bits of rows with 200,000 elements in the
next run, so no rule may choose it.

A descriptor holds addresses, and what the library learns of a matrix's structure under them. So
each call makes its own: they are small objects of the host, and no call can meet the structure of
another matrix. Workspace comes from the pool for the duration of a call. Graphs refuse these calls:
a product of float32 broke its capture on an H100, and which call of the library did it is unknown.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from . import device as devices
from . import library_paths
from . import stream as streams
from .errors import DeviceError, library_error
from .library_handles import Handles
from .memory import Buffer, pool_of, relaxed
from .state import device_cache

#: dtype -> (cudaDataType of the elements, of the computation, type of alpha and beta)
DTYPES: dict[np.dtype, tuple[int, int, type]] = {
    np.dtype(np.float16): (2, 0, np.float32),
    np.dtype(ml_dtypes.bfloat16): (14, 0, np.float32),
    np.dtype(np.float32): (0, 0, np.float32),
    np.dtype(np.float64): (1, 1, np.float64),
    np.dtype(np.complex64): (4, 4, np.complex64),
    np.dtype(np.complex128): (5, 5, np.complex128),
}
INDICES = {np.dtype(np.int32): 2, np.dtype(np.int64): 3}  # cusparseIndexType_t
_AS_IT_IS, _TRANSPOSED = 0, 1  # cusparseOperation_t
_FROM_ZERO, _ROW_MAJOR = 0, 2  # index base, order
_VECTOR, _MATRIX, _SAMPLED = 3, 12, 0  # CUSPARSE_SPMV_CSR_ALG2, SPMM_CSR_ALG3, SDDMM_ALG_DEFAULT

Descriptor = tuple[int, Callable[[int], None]]  # and what destroys it

_bindings = functools.partial(library_paths.bindings, "cusparse")


@device_cache
def available() -> bool:
    """Whether products can go to cuSPARSE: a device, the library, and its bindings."""
    if not devices.device_count():
        return False
    try:
        _bindings()
    except ImportError:
        return False
    return library_paths.find("cusparse").path is not None


class _Handle:
    """cuSPARSE's handle of one stream."""

    __slots__ = ("address", "device", "__weakref__")

    def __init__(self, stream: streams.Stream):
        library = library_paths.find("cusparse")
        if library.path is None:
            raise DeviceError(
                f"matmul: cuSPARSE was not found ({library.looked}). Install it: {library.remedy}"
            )
        cusparse = _bindings()
        self.device = stream.device
        try:
            self.address = pool_of(stream.device).beside_capture(lambda _side: cusparse.create())
            cusparse.set_stream(self.address, stream.ptr)
        except cusparse.cuSPARSEError as error:
            raise library_error(error, "cusparseCreate") from None

    def close(self) -> None:
        """Destroy the handle."""
        with streams.in_context(self.device), relaxed():
            _bindings().destroy(self.address)


_handles = Handles(_Handle)
handle = _handles.of


class _Library:
    """Makers of descriptors, each with the function that destroys them, for matrices of one dtype
    and one type of indices."""

    def __init__(self, dtype: np.dtype, index: np.dtype):
        self.library = _bindings()
        self.kind, self.compute, scalar = DTYPES[dtype]
        self.index = INDICES[index]
        self.factors: np.ndarray = np.array([1, 0], dtype=scalar)
        self.alpha = self.factors.ctypes.data
        self.beta = self.alpha + self.factors.itemsize

    def csr(
        self, rows: int, inner: int, stored: int, data: int, indices: int, indptr: int
    ) -> Descriptor:
        index, kind, library = self.index, self.kind, self.library
        made = library.create_csr(
            rows, inner, stored, indptr, indices, data, index, index, _FROM_ZERO, kind
        )
        return made, library.destroy_sp_mat

    def vector(self, length: int, address: int) -> Descriptor:
        return self.library.create_dn_vec(length, address, self.kind), self.library.destroy_dn_vec

    def matrix(self, rows: int, columns: int, address: int) -> Descriptor:
        made = self.library.create_dn_mat(rows, columns, columns, address, self.kind, _ROW_MAJOR)
        return made, self.library.destroy_dn_mat

    def routine(
        self,
        name: str,
        what: str,
        parts: Callable[..., Iterator[Descriptor]],
        operations: tuple[int, ...],
        algorithm: int,
    ) -> Callable[..., None]:
        """A function (stream, *addresses) that queues a routine. parts: makes the descriptors of
        its three matrices of the addresses, the result's last."""
        library = self.library
        run, ask = getattr(library, name), getattr(library, f"{name}_buffer_size")
        sizes: list[int] = []

        def call(stream: Any, *addresses: int) -> None:
            stream.refuse_capture(what, "cuSPARSE may wait for the device")
            one = _handles.get(id(stream)) or handle(stream)
            made: list[Descriptor] = []
            try:
                for part in parts(*addresses):
                    made.append(part)
                a, b, c = [descriptor for descriptor, _ in made]
                arguments = (*operations, self.alpha, a, b, self.beta, c, self.compute, algorithm)
                if not sizes:
                    sizes.append(_size(ask, one.address, *arguments))
                work = Buffer(sizes[0], stream) if sizes[0] else None
                run(one.address, *arguments, work.address if work else 0)
            except library.cuSPARSEError as problem:
                raise library_error(problem, what) from None
            finally:
                for descriptor, destroy in made:
                    destroy(descriptor)

        return call


def _size(ask: Callable[..., Any], *arguments: Any) -> int:
    """The size of a workspace: what the binding returns, or writes where it is told."""
    size = ctypes.c_size_t()
    if "buffer_size)" in (ask.__doc__ or "").partition("\n")[0]:
        ask(*arguments, ctypes.addressof(size))
        return size.value
    return ask(*arguments)


def csr_product(
    dtype: np.dtype, index: np.dtype, rows: int, inner: int, stored: int, columns: int
) -> Callable[..., None]:
    """A function (stream, addresses of data, indices, indptr, b, out) that computes A b, of A (rows
    x inner) with so many stored elements and b (inner x columns), contiguous."""
    make = _Library(dtype, index)

    def parts(data: int, indices: int, indptr: int, b: int, out: int) -> Iterator[Descriptor]:
        yield make.csr(rows, inner, stored, data, indices, indptr)
        for length, address in ((inner, b), (rows, out)):
            if columns == 1:
                yield make.vector(length, address)
            else:
                yield make.matrix(length, columns, address)

    shapes = f"({rows}, {inner}) @ ({inner}, {columns}) {dtype}"
    if columns == 1:
        return make.routine("sp_mv", f"cusparseSpMV {shapes}", parts, (_AS_IT_IS,), _VECTOR)
    return make.routine("sp_mm", f"cusparseSpMM {shapes}", parts, (_AS_IT_IS,) * 2, _MATRIX)


def sampled_product(
    dtype: np.dtype, index: np.dtype, rows: int, columns: int, inner: int, stored: int
) -> Callable[..., None]:
    """A function (stream, addresses of indices, indptr, a, b, out) that computes the elements of a
    b^T, of a (rows x inner) and b (columns x inner), contiguous, at so many places."""
    make = _Library(dtype, index)

    def parts(indices: int, indptr: int, a: int, b: int, out: int) -> Iterator[Descriptor]:
        yield make.matrix(rows, inner, a)
        yield make.matrix(columns, inner, b)
        yield make.csr(rows, columns, stored, out, indices, indptr)

    what = f"cusparseSDDMM ({rows}, {inner}) @ ({inner}, {columns}) {dtype}"
    return make.routine("sddmm", what, parts, (_AS_IT_IS, _TRANSPOSED), _SAMPLED)
