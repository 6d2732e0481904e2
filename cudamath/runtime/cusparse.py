"""cuSPARSE on raw addresses: one handle per stream, products of a CSR matrix and a dense one.

The library may add in an order that changes from run to run. Its documentation promises the same
bits for CUSPARSE_SPMV_CSR_ALG2 and CUSPARSE_SPMM_CSR_ALG3, of a matrix that is not transposed; so
these two run and no others.

A descriptor holds addresses, and what the library learns of a matrix's structure under them. So
each call makes its own: they are small objects of the host, and no call can meet the structure of
another matrix. Workspace comes from the pool for the duration of a call; nothing waits for the
device, and a graph may capture a call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
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
_AS_IT_IS, _FROM_ZERO, _ROW_MAJOR = 0, 0, 2  # operation, index base, order
_VECTOR, _MATRIX = 3, 12  # CUSPARSE_SPMV_CSR_ALG2, CUSPARSE_SPMM_CSR_ALG3

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


def csr_product(
    dtype: np.dtype, index: np.dtype, rows: int, inner: int, stored: int, columns: int
) -> Callable[[Any, int, int, int, int, int], None]:
    """A function (stream, addresses of data, indices, indptr, b, out) that computes A b, of A (rows
    x inner) with so many stored elements and b (inner x columns), contiguous."""
    kind, compute, scalar = DTYPES[dtype]
    offset = INDICES[index]
    factors: np.ndarray = np.array([1, 0], dtype=scalar)  # alpha and beta
    alpha, beta = factors.ctypes.data, factors.ctypes.data + factors.itemsize
    cusparse = _bindings()
    vector = columns == 1
    what = f"cusparseSp{'MV' if vector else 'MM'} ({rows}, {inner}) @ ({inner}, {columns}) {dtype}"
    operations = (_AS_IT_IS,) if vector else (_AS_IT_IS, _AS_IT_IS)
    run = cusparse.sp_mv if vector else cusparse.sp_mm
    ask = cusparse.sp_mv_buffer_size if vector else cusparse.sp_mm_buffer_size
    algorithm = _VECTOR if vector else _MATRIX
    destroy = cusparse.destroy_dn_vec if vector else cusparse.destroy_dn_mat
    sizes: list[int] = []

    def dense(length: int, address: int, constant: bool) -> int:
        if vector:
            make = cusparse.create_const_dn_vec if constant else cusparse.create_dn_vec
            return make(length, address, kind)
        make = cusparse.create_const_dn_mat if constant else cusparse.create_dn_mat
        return make(length, columns, columns, address, kind, _ROW_MAJOR)

    def product(stream: Any, data: int, indices: int, indptr: int, b: int, out: int) -> None:
        one = _handles.get(id(stream)) or handle(stream)
        matrix = left = right = 0
        try:
            matrix = cusparse.create_const_csr(
                rows, inner, stored, indptr, indices, data, offset, offset, _FROM_ZERO, kind
            )
            left, right = dense(inner, b, True), dense(rows, out, False)
            arguments = (*operations, alpha, matrix, left, beta, right, compute, algorithm)
            if not sizes:
                sizes.append(ask(one.address, *arguments))
            work = Buffer(sizes[0], stream) if sizes[0] else None
            run(one.address, *arguments, work.address if work else 0)
        except cusparse.cuSPARSEError as problem:
            raise library_error(problem, what) from None
        finally:
            if matrix:
                cusparse.destroy_sp_mat(matrix)
            for descriptor in (left, right):
                if descriptor:
                    destroy(descriptor)

    product.keep = factors  # type: ignore[attr-defined]
    return product
