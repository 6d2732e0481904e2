"""cuBLAS and cuBLASLt on raw addresses: one handle per stream, products of row-major matrices.

cuBLAS is column-major: it reads a row-major m x n matrix as an n x m one. So C = A B is computed as
C^T = B^T A^T, with the operands swapped and no copy. Only `gemm` and `_light` do that.

Creating a handle takes milliseconds and 32 MiB of workspace, so each stream keeps one. The
workspace is allocated in advance: a product then allocates nothing, and can be captured into a
graph.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from . import device as devices
from . import fork, library_paths
from . import stream as streams
from .errors import CudaError, DeviceError, check, library_error, named
from .library_handles import Handles
from .memory import pool_of, relaxed
from .state import device_cache

WORKSPACE = 32 << 20  # what cuBLAS itself takes on compute capability 9.0


class _Kind(NamedTuple):
    """cuBLAS's numbers for a dtype: of the data, of the computation; and the type that alpha and
    beta have."""

    data: int  # cudaDataType
    compute: (
        int  # cublasComputeType_t: float32 is computed as float32, never as TF32 unless requested
    )
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
# CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: partial sums of 16-bit products stay float32
_KEEP_PRECISION = 16
_DEFAULT_ALGORITHM = -1


class Matrix(NamedTuple):
    """The form of an operand: `transposed` if its columns, not its rows, are contiguous; strides in
    elements."""

    transposed: int
    ld: int  # from one row (column) to the next
    batch: int = 0  # from one matrix of a batch to the next; 0: the same one for all


def matrix(
    rows: int, columns: int, row_stride: int, column_stride: int, batch_stride: int = 0
) -> Matrix | None:
    """Describe a rows x columns operand with these strides (in elements), or None if cuBLAS cannot
    read it without a copy."""
    if (
        (column_stride == 1 or columns == 1)
        and (row_stride >= columns or rows == 1)
        and batch_stride >= 0
    ):
        return Matrix(0, max(columns if rows == 1 else row_stride, 1), batch_stride)
    if (
        (row_stride == 1 or rows == 1)
        and (column_stride >= rows or columns == 1)
        and batch_stride >= 0
    ):
        return Matrix(1, max(rows if columns == 1 else column_stride, 1), batch_stride)
    return None


@device_cache
def available() -> bool:
    """Whether products can go to cuBLAS: a device, the library, and its bindings."""
    if not devices.device_count():
        return False
    try:
        _bindings()
    except ImportError:
        return False
    return library_paths.find("cublas").path is not None


_bindings = functools.partial(library_paths.bindings, "cublas")
_lt_bindings = functools.partial(library_paths.bindings, "cublasLt")


class _Handle:
    """cuBLAS and cuBLASLt handles of one stream, and a workspace for each.

    cuBLAS sees to it that threads take turns, as its documentation says; cuBLASLt leaves its
    workspace to the caller. A product that is split in parts is several launches, and those of
    another thread on the same stream may come between them: they must not use the same workspace.
    So whoever calls it with `light` holds `lock`.
    """

    __slots__ = (
        *("cublas", "light", "workspace", "light_workspace", "lock", "device", "raw"),
        "__weakref__",
    )

    def __init__(self, stream: streams.Stream):
        if library_paths.find("cublas").path is None:
            library = library_paths.find("cublas")
            raise DeviceError(
                f"matmul: cuBLAS was not found ({library.looked}). Install it: {library.remedy}"
            )
        cublas, cu = _bindings(), devices.driver()
        self.device, self.raw = stream.device, stream.handle
        self.lock, self.light_workspace = fork.new_lock(), 0
        pool = pool_of(stream.device)

        def make(side: Any) -> tuple[int, int]:
            workspace = int(check(cu.cuMemAllocAsync(WORKSPACE, side)))
            try:
                return workspace, cublas.create()
            except cublas.cuBLASError:
                check(cu.cuMemFreeAsync(workspace, side))
                raise

        try:
            self.workspace, self.cublas = pool.beside_capture(make)
            self.light = (
                self.cublas
            )  # a cuBLAS handle contains, and may be used as, a cuBLASLt handle
            cublas.set_stream(self.cublas, stream.ptr)
            cublas.set_workspace(self.cublas, self.workspace, WORKSPACE)
            cublas.set_math_mode(self.cublas, _KEEP_PRECISION)
        except cublas.cuBLASError as error:
            raise library_error(error, "cublasCreate") from None

    def take_light_workspace(self) -> int:
        """The address of cuBLASLt's workspace, which the first product takes."""
        cu = devices.driver()
        self.light_workspace = pool_of(self.device).beside_capture(
            lambda side: int(check(cu.cuMemAllocAsync(WORKSPACE, side)))
        )
        return self.light_workspace

    def close(self) -> None:
        """Destroy the handle and return the workspaces."""
        cu = devices.driver()
        with streams.in_context(self.device), relaxed():
            _bindings().destroy(self.cublas)
            check(cu.cuMemFree(self.workspace))
            if self.light_workspace:
                check(cu.cuMemFree(self.light_workspace))


_handles = Handles(_Handle)
handle = _handles.of


# -------------------- products


@functools.cache
def _scalars(scalar: type, alpha: complex, beta: complex) -> tuple[np.ndarray, int, int]:
    """(array that keeps them alive, address of alpha, address of beta)."""
    pair: np.ndarray = np.array([alpha, beta], dtype=scalar)
    return pair, pair.ctypes.data, pair.ctypes.data + pair.itemsize


def gemm(
    dtype: np.dtype,
    m: int,
    n: int,
    k: int,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    count: int = 1,
    *,
    alpha: complex = 1,
    beta: complex = 0,
    tf32: bool = False,
    out: np.dtype | None = None,
) -> Callable[[Any, int, int, int], None]:
    """A function (stream, address of A, of B, of C) that computes C = alpha A B + beta C for
    row-major matrices.

    A: m x k, B: k x n, C: m x n (not transposed); `count` of them, `Matrix.batch` elements apart.
    out: the dtype of C, by default that of A and B; float32 where those have 16 bits.
    The function holds all that does not change from call to call. A call is a dictionary look-up
    and one library call.
    """
    kind = DTYPES[dtype]
    compute = _COMPUTE_TF32 if tf32 and dtype == np.float32 else kind.compute
    keep, at_alpha, at_beta = _scalars(kind.scalar, alpha, beta)
    handles, first = _handles, handle
    data, ta, lda, tb, ldb, ldc = kind.data, a.transposed, a.ld, b.transposed, b.ld, c.ld
    result = data if out is None else DTYPES[out].data
    cublas = _bindings()
    error = cublas.cuBLASError
    if count == 1:
        plain = cublas.gemm_ex_64

        def product(stream: Any, x: int, y: int, z: int) -> None:
            one = handles.get(id(stream)) or first(stream)
            try:
                plain(
                    one.cublas,
                    tb,
                    ta,
                    n,
                    m,
                    k,
                    at_alpha,
                    y,
                    data,
                    ldb,
                    x,
                    data,
                    lda,
                    at_beta,
                    z,
                    result,
                    ldc,
                    compute,
                    _DEFAULT_ALGORITHM,
                )
            except error as problem:
                raise library_error(
                    problem, f"cublasGemmEx ({m}, {k}) @ ({k}, {n}) {dtype}"
                ) from None

    else:
        batched = cublas.gemm_strided_batched_ex_64
        step_a, step_b, step_c = a.batch, b.batch, c.batch

        def product(stream: Any, x: int, y: int, z: int) -> None:
            one = handles.get(id(stream)) or first(stream)
            try:
                batched(
                    one.cublas,
                    tb,
                    ta,
                    n,
                    m,
                    k,
                    at_alpha,
                    y,
                    data,
                    ldb,
                    step_b,
                    x,
                    data,
                    lda,
                    step_a,
                    at_beta,
                    z,
                    result,
                    ldc,
                    step_c,
                    count,
                    compute,
                    _DEFAULT_ALGORITHM,
                )
            except error as problem:
                raise library_error(
                    problem, f"cublasGemmStridedBatchedEx {count} x ({m}, {k}) @ ({k}, {n}) {dtype}"
                ) from None

    product.keep = keep  # type: ignore[attr-defined]
    return product


_EPILOGUE, _EPILOGUE_BIAS = (
    1,
    4,
)  # cublasLtEpilogue_t: none, or a bias added to C


#: cublasLtReductionScheme_t, as a mask: any, and in the compute type, which keeps its precision and
#: one order.
_ANY_REDUCTION, _EXACT_REDUCTION = 7, 2


class _Side(NamedTuple):
    """A row-major operand of cuBLASLt: its dtype's number, its sizes and strides."""

    data: int  # cudaDataType
    rows: int
    columns: int
    form: Matrix


def _light(
    what: str,
    kind: _Kind,
    a: _Side,
    b: _Side,
    c: _Side,
    fixed: dict[str, Any],
    pointers: Sequence[str] = (),
    reductions: int = _ANY_REDUCTION,
) -> Callable[..., None]:
    """A function (stream, address of A, of B, of C, *addresses) for C = A B by cuBLASLt.

    fixed: attributes of the product, as ctypes values; pointers: attributes that the addresses set;
    reductions: how parts of sums may be added.
    The first call creates the descriptors and chooses the algorithm, the first of cuBLASLt's
    suggestions.
    """
    lt = _lt_bindings()
    keep, at_alpha, at_beta = _scalars(kind.scalar, 1, 0)
    cells = [(int(getattr(lt.MatmulDescAttribute, name)), ctypes.c_uint64(0)) for name in pointers]
    spots = [ctypes.addressof(cell) for _, cell in cells]
    description = side_a = side_b = side_c = algorithm = 0
    result: np.ndarray = np.zeros(1, lt.matmul_heuristic_result_dtype)
    lock = fork.new_lock()  # the addresses are part of the description: one call at a time

    def describe() -> None:
        nonlocal description, side_a, side_b, side_c
        descriptor = lt.matmul_desc_create(kind.compute, kind.scale)
        turns = {
            "TRANSA": ctypes.c_int32(b.form.transposed),
            "TRANSB": ctypes.c_int32(a.form.transposed),
        }
        for name, value in (turns | fixed).items():
            lt.matmul_desc_set_attribute(
                descriptor,
                int(getattr(lt.MatmulDescAttribute, name)),
                ctypes.addressof(value),
                ctypes.sizeof(value),
            )
        side_a, side_b, side_c = [
            lt.matrix_layout_create(
                side.data,
                *((side.rows, side.columns) if side.form.transposed else (side.columns, side.rows)),
                side.form.ld,
            )
            for side in (a, b, c)
        ]
        description = descriptor

    def choose(light: int) -> None:
        nonlocal algorithm
        preference, limit, count = (
            lt.matmul_preference_create(),
            ctypes.c_uint64(WORKSPACE),
            ctypes.c_int32(),
        )
        lt.matmul_preference_set_attribute(
            preference,
            int(lt.MatmulPreferenceAttribute.MAX_WORKSPACE_BYTES),
            ctypes.addressof(limit),
            8,
        )
        mask = ctypes.c_uint32(reductions)
        lt.matmul_preference_set_attribute(
            preference,
            int(lt.MatmulPreferenceAttribute.REDUCTION_SCHEME_MASK),
            ctypes.addressof(mask),
            4,
        )
        lt.matmul_algo_get_heuristic(
            light,
            description,
            side_b,
            side_a,
            side_c,
            side_c,
            preference,
            1,
            result.ctypes.data,
            ctypes.addressof(count),
        )
        lt.matmul_preference_destroy(preference)
        if not count.value:
            raise CudaError(named(f"{what}: cuBLASLt has no algorithm for this"))
        algorithm = result.ctypes.data

    def product(stream: Any, x: int, y: int, z: int, *addresses: int) -> None:
        one = _handles.get(id(stream)) or handle(stream)
        try:
            with one.lock, lock:
                if not description:
                    describe()
                for (number, cell), spot, address in zip(cells, spots, addresses, strict=True):
                    if cell.value != address:
                        cell.value = address
                        lt.matmul_desc_set_attribute(description, number, spot, 8)
                if not algorithm:
                    choose(one.light)
                lt.matmul(
                    one.light,
                    description,
                    at_alpha,
                    y,
                    side_b,
                    x,
                    side_a,
                    at_beta,
                    z,
                    side_c,
                    z,
                    side_c,
                    algorithm,
                    one.light_workspace or one.take_light_workspace(),
                    WORKSPACE,
                    stream.ptr,
                )
        except lt.cuBLASLtError as problem:
            raise library_error(problem, what) from None

    product.keep = keep  # type: ignore[attr-defined]
    return product


def gemm_biased(
    dtype: np.dtype, m: int, n: int, k: int, a: Matrix, b: Matrix, c: Matrix
) -> Callable[..., None]:
    """A function (stream, address of A, of B, of C, of bias) for C = A B + bias by cuBLASLt, of
    16-bit floats or float32. Row-major: A (m, k), B (k, n), C (m, n), bias (n,)."""
    data = DTYPES[dtype].data
    fixed: dict[str, Any] = {
        "EPILOGUE": ctypes.c_uint32(_EPILOGUE_BIAS),
        "BIAS_DATA_TYPE": ctypes.c_int32(data),
    }
    return _light(
        f"cublasLtMatmul ({m}, {k}) @ ({k}, {n}) + ({n},) {dtype}",
        DTYPES[dtype],
        _Side(data, m, k, a),
        _Side(data, k, n, b),
        _Side(data, m, n, c),
        fixed,
        ["BIAS_POINTER"],
        _EXACT_REDUCTION,
    )


_E4M3 = 28  # cudaDataType
_OUTER = ctypes.c_int32(
    3
)  # cublasLtMatmulMatrixScale_t: a scale for each row of A and for each column of B


@device_cache
def multiplies_float8(outer: bool) -> bool:
    """Whether cuBLASLt supports products of float8; outer: with scales of rows and columns, not of
    whole matrices."""
    return available() and _lt_bindings().get_version() >= (120900 if outer else 120000)


def gemm_float8(
    m: int, n: int, k: int, a: Matrix, b: Matrix, out: np.dtype, *, outer: bool, bias: bool
) -> Callable[..., None]:
    """A function (stream, address of A, of B, of C, of A's scales, of B's[, of bias]) for C = (A B)
    scale_a scale_b + bias.

    A (m, k) and B (k, n) of float8_e4m3, both contiguous along k, sizes k and n multiples of 16; C
    (m, n) and bias (n,) of float16 or bfloat16. Scales float32: (m,) and (n,) if `outer`, else one
    number each. Sums stay in the accumulators of the tensor cores
    (CUBLASLT_MATMUL_DESC_FAST_ACCUM); they are not moved into float32 registers every 128 elements.
    """
    fixed: dict[str, Any] = {
        "FAST_ACCUM": ctypes.c_int8(1),
        "EPILOGUE": ctypes.c_uint32(_EPILOGUE_BIAS if bias else _EPILOGUE),
    }
    data = DTYPES[out].data
    if outer:
        fixed |= {"A_SCALE_MODE": _OUTER, "B_SCALE_MODE": _OUTER}
    if bias:
        fixed["BIAS_DATA_TYPE"] = ctypes.c_int32(data)
    return _light(
        f"cublasLtMatmul ({m}, {k}) @ ({k}, {n}) float8_e4m3 to {out}",
        DTYPES[np.dtype(np.float32)],
        _Side(_E4M3, m, k, a),
        _Side(_E4M3, k, n, b),
        _Side(data, m, n, Matrix(0, n)),
        fixed,
        ["B_SCALE_POINTER", "A_SCALE_POINTER", *["BIAS_POINTER"] * bias],
    )  # A and B are swapped
