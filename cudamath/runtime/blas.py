"""cuBLAS and cuBLASLt on raw addresses: one handle per stream, products of row-major matrices.

cuBLAS thinks in columns: a row-major m x n matrix is, to it, an n x m one. So C = A B is asked for as C^T = B^T A^T,
with the operands swapped and nothing moved. That is done here, in `gemm` and `gemm_epilogue`, and nowhere else.

A handle costs milliseconds and 32 MiB of workspace to make, so each stream keeps one. The workspace is given to cuBLAS
in advance: a product then allocates nothing, and can be captured into a graph.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from . import device as devices
from . import libraries
from . import stream as streams
from .errors import CudaError, DeviceError, check, library_error
from .handles import Handles
from .memory import pool_of, relaxed

WORKSPACE = 32 << 20  # what cuBLAS itself takes on compute capability 9.0


class _Kind(NamedTuple):
    """cuBLAS's numbers for a dtype: of the data, of the computation; and the type that alpha and beta have."""

    data: int  # cudaDataType
    compute: int  # cublasComputeType_t: float32 is computed as float32, never as TF32 unless asked
    scale: int  # cudaDataType of alpha and beta
    scalar: type


#: dtype -> its numbers. These are the dtypes cuBLAS multiplies.
DTYPES: dict[np.dtype, _Kind] = {
    np.dtype(np.float16): _Kind(2, 68, 0, np.float32),
    np.dtype(ml_dtypes.bfloat16): _Kind(14, 68, 0, np.float32),
    np.dtype(np.float32): _Kind(0, 68, 0, np.float32),
    np.dtype(np.float64): _Kind(1, 70, 1, np.float64),
    np.dtype(np.complex64): _Kind(4, 68, 4, np.complex64),
    np.dtype(np.complex128): _Kind(5, 70, 5, np.complex128),
}
_COMPUTE_TF32 = 77
_KEEP_PRECISION = 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: partial sums of 16-bit products stay float32
_DEFAULT_ALGORITHM = -1


class Matrix(NamedTuple):
    """How cuBLAS reads an operand: `transposed` if columns, not rows, are contiguous; distances in elements."""

    transposed: int
    ld: int  # from one row (column) to the next
    batch: int = 0  # from one matrix of a batch to the next; 0: the same one for all


def matrix(rows: int, columns: int, row_stride: int, column_stride: int, batch_stride: int = 0) -> Matrix | None:
    """Describe a rows x columns operand with these strides (in elements), or None if cuBLAS cannot read it as it lies."""
    if (column_stride == 1 or columns == 1) and (row_stride >= columns or rows == 1) and batch_stride >= 0:
        return Matrix(0, max(columns if rows == 1 else row_stride, 1), batch_stride)
    if (row_stride == 1 or rows == 1) and (column_stride >= rows or columns == 1) and batch_stride >= 0:
        return Matrix(1, max(rows if columns == 1 else column_stride, 1), batch_stride)
    return None


@functools.cache
def available() -> bool:
    """Whether products can go to cuBLAS: a device, the library, and its bindings."""
    if not devices.device_count():
        return False
    try:
        _bindings()
    except ImportError:
        return False
    return libraries.find("cublas").path is not None


_bindings = functools.partial(libraries.bindings, "cublas")
_lt_bindings = functools.partial(libraries.bindings, "cublasLt")


class _Handle:
    """cuBLAS and cuBLASLt handles of one stream, and the workspace they share."""

    __slots__ = ("cublas", "light", "workspace", "device", "raw", "__weakref__")

    def __init__(self, stream: streams.Stream):
        if libraries.find("cublas").path is None:
            found = libraries.find("cublas")
            raise DeviceError(f"matmul: cuBLAS was not found ({found.looked}). Install it: {found.remedy}")
        cublas, cu = _bindings(), devices.driver()
        self.device, self.raw = stream.device, stream.handle
        pool = pool_of(stream.device)

        def make(side: Any) -> tuple[int, int]:
            return int(check(cu.cuMemAllocAsync(WORKSPACE, side))), cublas.create()

        try:
            self.workspace, self.cublas = pool.beside_capture(make)
            self.light = self.cublas  # a cuBLAS handle contains, and may be used as, a cuBLASLt handle
            cublas.set_stream(self.cublas, stream.ptr)
            cublas.set_workspace(self.cublas, self.workspace, WORKSPACE)
            cublas.set_math_mode(self.cublas, _KEEP_PRECISION)
        except cublas.cuBLASError as error:
            raise library_error(error, "cublasCreate") from None

    def close(self) -> None:
        """Destroy the handle and return the workspace."""
        cu = devices.driver()
        with streams.in_context(self.device), relaxed():
            _bindings().destroy(self.cublas)
            check(cu.cuMemFree(self.workspace))


_handles = Handles(_Handle)
handle = _handles.of


# ------------------------------------------------------------------------------------------------ products


@functools.cache
def _scalars(scalar: type, alpha: complex, beta: complex) -> tuple[np.ndarray, int, int]:
    """(array that keeps them alive, address of alpha, address of beta)."""
    pair: np.ndarray = np.array([alpha, beta], dtype=scalar)
    return pair, pair.ctypes.data, pair.ctypes.data + pair.itemsize


def gemm(dtype: np.dtype, m: int, n: int, k: int, a: Matrix, b: Matrix, c: Matrix, count: int = 1, *,
         alpha: complex = 1, beta: complex = 0, tf32: bool = False) -> Callable[[Any, int, int, int], None]:
    """A function (stream, address of A, of B, of C) that computes C = alpha A B + beta C for row-major matrices.

    A: m x k, B: k x n, C: m x n (not transposed); `count` of them, `Matrix.batch` elements apart. All that does not
    change from call to call is fixed here; a call is a dictionary look-up and one call of the library.
    """
    kind = DTYPES[dtype]
    compute = _COMPUTE_TF32 if tf32 and dtype == np.float32 else kind.compute
    keep, at_alpha, at_beta = _scalars(kind.scalar, alpha, beta)
    found, first = _handles, handle
    data, ta, lda, tb, ldb, ldc = kind.data, a.transposed, a.ld, b.transposed, b.ld, c.ld
    cublas = _bindings()
    error = cublas.cuBLASError
    if count == 1:
        plain = cublas.gemm_ex_64

        def product(stream: Any, x: int, y: int, z: int) -> None:
            one = found.get(id(stream)) or first(stream)
            try:
                plain(one.cublas, tb, ta, n, m, k, at_alpha, y, data, ldb, x, data, lda, at_beta, z, data, ldc, compute,
                      _DEFAULT_ALGORITHM)
            except error as problem:
                raise library_error(problem, f"cublasGemmEx ({m}, {k}) @ ({k}, {n}) {dtype}") from None

    else:
        batched = cublas.gemm_strided_batched_ex_64
        step_a, step_b, step_c = a.batch, b.batch, c.batch

        def product(stream: Any, x: int, y: int, z: int) -> None:
            one = found.get(id(stream)) or first(stream)
            try:
                batched(one.cublas, tb, ta, n, m, k, at_alpha, y, data, ldb, step_b, x, data, lda, step_a, at_beta, z,
                        data, ldc, step_c, count, compute, _DEFAULT_ALGORITHM)
            except error as problem:
                raise library_error(problem, f"cublasGemmStridedBatchedEx {count} x ({m}, {k}) @ ({k}, {n}) {dtype}") from None

    product.keep = keep  # type: ignore[attr-defined]
    return product


#: What gemm_epilogue can do to C on its way out -> cublasLtEpilogue_t.
EPILOGUES = {"": 1, "bias": 4, "relu": 2, "relu_bias": 6, "gelu": 32, "gelu_bias": 36}


def gemm_epilogue(dtype: np.dtype, m: int, n: int, k: int, a: Matrix, b: Matrix, c: Matrix, epilogue: str = "bias", *,
                  tf32: bool = False) -> Callable[..., None]:
    """A function (stream, address of A, of B, of C[, of bias]) for C = f(A B + bias) by cuBLASLt, bias: (n,) of dtype.

    f is the identity, relu or gelu (its tanh form): see EPILOGUES. The algorithm is the first of cuBLASLt's
    suggestions, asked for at the first call.
    """
    lt, kind = _lt_bindings(), DTYPES[dtype]
    compute = _COMPUTE_TF32 if tf32 and dtype == np.float32 else kind.compute
    keep, at_alpha, at_beta = _scalars(kind.scalar, 1, 0)
    with_bias = epilogue.endswith("bias")
    what = f"cublasLtMatmul ({m}, {k}) @ ({k}, {n}) {dtype} {epilogue}"
    made: dict[str, Any] = {}
    lock = threading.Lock()  # the bias pointer is part of the description: one call at a time

    def attribute(description: int, name: str, value: Any) -> None:
        lt.matmul_desc_set_attribute(description, int(getattr(lt.MatmulDescAttribute, name)), ctypes.addressof(value),
                                     ctypes.sizeof(value))

    def describe(light: int) -> dict[str, Any]:
        description = lt.matmul_desc_create(compute, kind.scale)
        attribute(description, "TRANSA", ctypes.c_int32(b.transposed))
        attribute(description, "TRANSB", ctypes.c_int32(a.transposed))
        attribute(description, "EPILOGUE", ctypes.c_uint32(EPILOGUES[epilogue]))
        sides = []
        for rows, columns, form in ((k, n, b), (m, k, a), (m, n, c)):  # row-major rows x columns: to cuBLAS, transposed
            shape = (rows, columns) if form.transposed else (columns, rows)
            sides.append(lt.matrix_layout_create(kind.data, *shape, form.ld))
        preference = lt.matmul_preference_create()
        limit = ctypes.c_uint64(WORKSPACE)
        lt.matmul_preference_set_attribute(preference, int(lt.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES),
                                           ctypes.addressof(limit), 8)
        result = np.zeros(1, lt.matmul_heuristic_result_dtype)
        count = ctypes.c_int32()
        lt.matmul_algo_get_heuristic(light, description, *sides, sides[2], preference, 1, result.ctypes.data,
                                     ctypes.addressof(count))
        lt.matmul_preference_destroy(preference)
        if not count.value:
            raise CudaError(f"{what}: cuBLASLt has no algorithm for this")
        return {"description": description, "sides": sides, "result": result}

    def product(stream: Any, x: int, y: int, z: int, bias: int = 0) -> None:
        one = handle(stream)
        try:
            with lock:
                if not made:
                    made.update(describe(one.light))
                if with_bias:
                    attribute(made["description"], "BIAS_POINTER", ctypes.c_uint64(bias))
                side_b, side_a, side_c = made["sides"]
                lt.matmul(one.light, made["description"], at_alpha, y, side_b, x, side_a, at_beta, z, side_c, z, side_c,
                          made["result"].ctypes.data, one.workspace, WORKSPACE, stream.ptr)
        except lt.cuBLASLtError as problem:
            raise library_error(problem, what) from None

    product.keep = keep  # type: ignore[attr-defined]
    return product
