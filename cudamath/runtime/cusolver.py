"""cuSOLVER, and the batched linear algebra of cuBLAS, on raw addresses: one handle per stream.

Both libraries are column-major: every matrix here is column-major, described by its address and
leading dimension; the planners (kernels/linalg/lapack_plans.py) arrange arrays accordingly. Each
function below holds what does not change from call to call, and returns a function of (stream,
addresses) that queues the work for `count` consecutive matrices.

Workspace comes from the pool for the duration of a call. `info`, one int32 per matrix, stays on the
device: a kernel reads it there, and a failure is raised at the next synchronisation (see
runtime/kernel_errors.py).

cuSOLVER may wait for the device or allocate inside a call, so its calls are refused during the
capture of a graph.
"""

from __future__ import annotations

import collections
import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from . import cublas, library_paths
from . import stream as streams
from .errors import CudaError, DeviceError, library_error
from .library_handles import Handles
from .memory import Buffer, download, pool_of, relaxed, upload

LOWER, UPPER = 0, 1  # cublasFillMode_t
NO_TRANSPOSE, TRANSPOSE = 0, 1  # cublasOperation_t
LEFT, RIGHT = 0, 1  # cublasSideMode_t

#: dtype -> (cudaDataType, letter of the typed functions, cudaDataType of real numbers of that
#: precision)
DTYPES: dict[np.dtype, tuple[int, str, int]] = {
    np.dtype(np.float32): (0, "s", 0),
    np.dtype(np.float64): (1, "d", 1),
    np.dtype(np.complex64): (4, "c", 0),
    np.dtype(np.complex128): (5, "z", 1),
}

Function = Callable[..., None]


_bindings = functools.partial(library_paths.bindings, "cusolverDn")


@functools.cache
def _errors() -> tuple[type[Exception], ...]:
    return library_paths.bindings("cusolver").cuSOLVERError, library_paths.bindings(
        "cublas"
    ).cuBLASError


class _Handle:
    """cuSOLVER's handle of one stream, its parameters, and the default settings of Jacobi's
    method."""

    __slots__ = ("solver", "params", "jacobi", "jacobi_svd", "device", "hosts", "__weakref__")

    def __init__(self, stream: streams.Stream):
        library = library_paths.find("cusolver")
        if library.path is None:
            raise DeviceError(
                f"linalg: cuSOLVER was not found ({library.looked}). Install it: {library.remedy}"
            )
        dn = _bindings()
        self.device = stream.device
        self.hosts: Any = collections.deque(
            maxlen=8
        )  # the latest host workspaces: the library may still read them

        def make(_side: Any) -> tuple[int, int, int, int]:
            solver = dn.create()
            dn.set_stream(solver, stream.ptr)
            return solver, dn.create_params(), dn.create_syevj_info(), dn.create_gesvdj_info()

        try:
            self.solver, self.params, self.jacobi, self.jacobi_svd = pool_of(
                stream.device
            ).beside_capture(make)
        except _errors() as error:
            raise library_error(error, "cusolverDnCreate") from None

    def host_workspace(self, nbytes: int) -> np.ndarray:
        """For one call. Threads share the handle of the default stream, and each may be inside the
        library."""
        space = np.empty(max(nbytes, 1), np.uint8)
        self.hosts.append(space)
        return space

    def close(self) -> None:
        """Destroy the handle and its parameters."""
        dn = _bindings()
        with streams.in_context(self.device), relaxed():
            dn.destroy_syevj_info(self.jacobi)
            dn.destroy_gesvdj_info(self.jacobi_svd)
            dn.destroy_params(self.params)
            dn.destroy(self.solver)


_handles = Handles(_Handle)
handle = _handles.of


# -------------------- cuSOLVER


def _routine(name: str, what: str) -> Function:
    """A routine of the 64-bit API: run(stream, arguments, address of info, arguments of the size
    query if they differ)."""
    sizes: list[tuple[int, int]] = []

    def run(stream: Any, arguments: tuple, info: int, query: tuple | None = None) -> None:
        stream.refuse_capture(what, "cuSOLVER may wait for the device")
        one, dn = handle(stream), _bindings()
        try:
            if not sizes:
                ask = getattr(dn, f"{name}_buffer_size")
                sizes.append(ask(one.solver, one.params, *(arguments if query is None else query)))
            device, host = sizes[0]
            work = Buffer(device, stream) if device else None
            space = one.host_workspace(host)
            getattr(dn, name)(
                one.solver,
                one.params,
                *arguments,
                work.address if work else 0,
                device,
                space.ctypes.data,
                host,
                info,
            )
        except _errors() as problem:
            raise library_error(problem, what) from None

    return run


def getrf(dtype: np.dtype, m: int, n: int, count: int) -> Function:
    """run(stream, a, pivots, info): P A = L U in place of A (m x n). pivots: int64, 1-based, min(m,
    n) a matrix."""
    kind, item = DTYPES[dtype][0], dtype.itemsize
    routine = _routine("xgetrf", f"cusolverDnXgetrf ({m}, {n}) {dtype}")

    def run(stream: Any, a: int, pivots: int, info: int) -> None:
        for i in range(count):
            at = a + i * m * n * item
            routine(
                stream,
                (m, n, kind, at, m, pivots + 8 * i * min(m, n), kind),
                info + 4 * i,
                (m, n, kind, at, m, kind),
            )

    return run


def getrs(dtype: np.dtype, n: int, k: int, transpose: int, count: int) -> Function:
    """run(stream, lu, pivots, b, info): B (n x k) replaced by the solution of A X = B, or of A^T X
    = B."""
    kind, item = DTYPES[dtype][0], dtype.itemsize
    what = f"cusolverDnXgetrs ({n}, {n}), ({n}, {k}) {dtype}"

    def run(stream: Any, lu: int, pivots: int, b: int, info: int) -> None:
        stream.refuse_capture(what, "cuSOLVER may wait for the device")
        one, dn = handle(stream), _bindings()
        try:
            for i in range(count):
                dn.xgetrs(
                    one.solver,
                    one.params,
                    transpose,
                    n,
                    k,
                    kind,
                    lu + i * n * n * item,
                    n,
                    pivots + 8 * i * n,
                    kind,
                    b + i * n * k * item,
                    n,
                    info + 4 * i,
                )
        except _errors() as problem:
            raise library_error(problem, what) from None

    return run


def potrf(dtype: np.dtype, n: int, triangle: int, count: int) -> Function:
    """run(stream, a, info): the Cholesky factor in place of that triangle of A."""
    kind, item = DTYPES[dtype][0], dtype.itemsize
    routine = _routine("xpotrf", f"cusolverDnXpotrf ({n}, {n}) {dtype}")

    def run(stream: Any, a: int, info: int) -> None:
        for i in range(count):
            routine(stream, (triangle, n, kind, a + i * n * n * item, n, kind), info + 4 * i)

    return run


def potrf_batched(dtype: np.dtype, n: int, triangle: int, count: int) -> Function:
    """run(stream, addresses, info): `potrf` of small matrices at these addresses, all at once."""
    name = f"{DTYPES[dtype][1]}potrf_batched"
    what = f"cusolverDn{name} {count} x ({n}, {n})"

    def run(stream: Any, addresses: int, info: int) -> None:
        stream.refuse_capture(what, "cuSOLVER may wait for the device")
        try:
            getattr(_bindings(), name)(
                handle(stream).solver, triangle, n, addresses, n, info, count
            )
        except _errors() as problem:
            raise library_error(problem, what) from None

    return run


def geqrf(dtype: np.dtype, m: int, n: int, step: int, count: int) -> Function:
    """run(stream, a, tau, info): R and the reflectors in place of A (m x n), `step` elements apart;
    tau: min(m, n) each."""
    kind, item = DTYPES[dtype][0], dtype.itemsize
    routine = _routine("xgeqrf", f"cusolverDnXgeqrf ({m}, {n}) {dtype}")

    def run(stream: Any, a: int, tau: int, info: int) -> None:
        for i in range(count):
            routine(
                stream,
                (m, n, kind, a + i * step * item, m, kind, tau + i * min(m, n) * item, kind),
                info + 4 * i,
            )

    return run


def orgqr(dtype: np.dtype, m: int, n: int, k: int, count: int) -> Function:
    """run(stream, a, tau, info): Q (m x n) in place of its k reflectors."""
    letter, item = DTYPES[dtype][1], dtype.itemsize
    name = f"{letter}{'orgqr' if letter in 'sd' else 'ungqr'}"
    what = f"cusolverDn{name} ({m}, {n})"
    sizes: list[int] = []

    def run(stream: Any, a: int, tau: int, info: int) -> None:
        stream.refuse_capture(what, "cuSOLVER may wait for the device")
        one, dn = handle(stream), _bindings()
        try:
            if not sizes:
                sizes.append(getattr(dn, f"{name}_buffer_size")(one.solver, m, n, k, a, m, tau))
            work = Buffer(max(sizes[0] * item, 1), stream)
            for i in range(count):
                getattr(dn, name)(
                    one.solver,
                    m,
                    n,
                    k,
                    a + i * m * n * item,
                    m,
                    tau + i * k * item,
                    work.address,
                    sizes[0],
                    info + 4 * i,
                )
        except _errors() as problem:
            raise library_error(problem, what) from None

    return run


def syevd(dtype: np.dtype, n: int, triangle: int, vectors: bool, count: int) -> Function:
    """run(stream, a, w, info): ascending eigenvalues of Hermitian A; its eigenvectors in place of A
    if requested."""
    kind, _, real = DTYPES[dtype]
    item, size = dtype.itemsize, 4 << real
    routine = _routine("xsyevd", f"cusolverDnXsyevd ({n}, {n}) {dtype}")

    def run(stream: Any, a: int, w: int, info: int) -> None:
        for i in range(count):
            routine(
                stream,
                (
                    int(vectors),
                    triangle,
                    n,
                    kind,
                    a + i * n * n * item,
                    n,
                    real,
                    w + i * n * size,
                    kind,
                ),
                info + 4 * i,
            )

    return run


def syev_batched(dtype: np.dtype, n: int, triangle: int, vectors: bool, count: int) -> Function:
    """run(stream, a, w, info): as `syevd`, all at once."""
    kind, _, real = DTYPES[dtype]
    what = f"cusolverDnXsyevBatched {count} x ({n}, {n}) {dtype}"
    sizes: list[tuple[int, int]] = []

    def run(stream: Any, a: int, w: int, info: int) -> None:
        stream.refuse_capture(what, "cuSOLVER may wait for the device")
        one, dn = handle(stream), _bindings()
        arguments = (int(vectors), triangle, n, kind, a, n, real, w, kind)
        try:
            if not sizes:
                sizes.append(
                    dn.xsyev_batched_buffer_size(one.solver, one.params, *arguments, count)
                )
            device, host = sizes[0]
            work = Buffer(device, stream) if device else None
            space = one.host_workspace(host)
            dn.xsyev_batched(
                one.solver,
                one.params,
                *arguments,
                work.address if work else 0,
                device,
                space.ctypes.data,
                host,
                info,
                count,
            )
        except _errors() as problem:
            raise library_error(problem, what) from None

    return run


def syevj_batched(dtype: np.dtype, n: int, triangle: int, vectors: bool, count: int) -> Function:
    """run(stream, a, w, info): as `syevd`, by Jacobi's method, n up to 32, all at once."""
    letter = DTYPES[dtype][1]
    name = f"{letter}{'sy' if letter in 'sd' else 'he'}evj_batched"
    what = f"cusolverDn{name} {count} x ({n}, {n})"
    item = dtype.itemsize
    sizes: list[int] = []

    def run(stream: Any, a: int, w: int, info: int) -> None:
        stream.refuse_capture(what, "cuSOLVER may wait for the device")
        one, dn = handle(stream), _bindings()
        arguments = (int(vectors), triangle, n, a, n, w)
        try:
            if not sizes:
                sizes.append(
                    getattr(dn, f"{name}_buffer_size")(one.solver, *arguments, one.jacobi, count)
                )
            work = Buffer(max(sizes[0] * item, 1), stream)
            getattr(dn, name)(
                one.solver, *arguments, work.address, sizes[0], info, one.jacobi, count
            )
        except _errors() as problem:
            raise library_error(problem, what) from None

    return run


def gesvd(dtype: np.dtype, m: int, n: int, job: str, count: int) -> Function:
    """run(stream, a, s, u, vt, info): A = U S V^H (m >= n), A destroyed. job: "A": U is m x m; "S":
    m x n; "N": neither U nor V^H. V^H is n x n."""
    kind, _, real = DTYPES[dtype]
    item, size, code = dtype.itemsize, np.dtype(dtype).type(0).real.itemsize, ord(job)
    columns = m if job == "A" else n
    routine = _routine("xgesvd", f"cusolverDnXgesvd ({m}, {n}) {dtype}")

    def run(stream: Any, a: int, s: int, u: int, vt: int, info: int) -> None:
        for i in range(count):
            routine(
                stream,
                (
                    code,
                    code,
                    m,
                    n,
                    kind,
                    a + i * m * n * item,
                    m,
                    real,
                    s + i * n * size,
                    kind,
                    u + i * m * columns * item if u else 0,
                    m,
                    kind,
                    vt + i * n * n * item if vt else 0,
                    n,
                    kind,
                ),
                info + 4 * i,
            )

    return run


def gesvdj(dtype: np.dtype, n: int, vectors: bool, count: int) -> Function:
    """run(stream, a, s, u, v, info): A = U S V^H (n x n) by Jacobi's method, A destroyed; s
    descending; V, not V^H."""
    name = f"{DTYPES[dtype][1]}gesvdj"
    what = f"cusolverDn{name} ({n}, {n})"
    item, size = dtype.itemsize, np.dtype(dtype).type(0).real.itemsize
    sizes: list[int] = []

    def run(stream: Any, a: int, s: int, u: int, v: int, info: int) -> None:
        stream.refuse_capture(what, "cuSOLVER may wait for the device")
        one, dn = handle(stream), _bindings()
        try:
            if not sizes:
                sizes.append(
                    getattr(dn, f"{name}_buffer_size")(
                        one.solver, int(vectors), 0, n, n, a, n, s, u, n, v, n, one.jacobi_svd
                    )
                )
            work = Buffer(max(sizes[0] * item, 1), stream)
            for i in range(count):
                at = i * n * n * item
                getattr(dn, name)(
                    one.solver,
                    int(vectors),
                    0,
                    n,
                    n,
                    a + at,
                    n,
                    s + i * n * size,
                    u and u + at,
                    n,
                    v and v + at,
                    n,
                    work.address,
                    sizes[0],
                    info + 4 * i,
                    one.jacobi_svd,
                )
        except _errors() as problem:
            raise library_error(problem, what) from None

    return run


def geev(dtype: np.dtype, n: int, vectors: bool, count: int) -> Function:
    """run(stream, a, w, v, info): eigenvalues (complex) and, if requested, right eigenvectors of A,
    which is destroyed. Those of a real A are real: a conjugate pair of vectors x + i y and x - i y
    takes two columns, x and y."""
    kind, _, real = DTYPES[dtype]
    item, values, wide = (
        dtype.itemsize,
        real + 4,
        8 << real,
    )  # a cudaDataType of complex numbers is the real one plus 4
    routine = _routine("xgeev", f"cusolverDnXgeev ({n}, {n}) {dtype}")

    def run(stream: Any, a: int, w: int, v: int, info: int) -> None:
        for i in range(count):
            routine(
                stream,
                (
                    0,
                    int(vectors),
                    n,
                    kind,
                    a + i * n * n * item,
                    n,
                    values,
                    w + i * n * wide,
                    kind,
                    0,
                    n,
                    kind,
                    v + i * n * n * item if v else 0,
                    n,
                    kind,
                ),
                info + 4 * i,
            )

    return run


def geev_on_host(dtype: np.dtype, n: int, vectors: bool, count: int) -> Function:
    """run(stream, a, w, v): as `geev`, by LAPACK on the host, which is done with small matrices
    when cuSOLVER, whose method works on the host in part, has hardly begun. Vectors are complex, of
    a real A too. LinAlgError of NaN or infinity."""
    kind, name = np.result_type(dtype, np.complex64), "eig" if vectors else "eigvals"

    def run(stream: Any, a: int, w: int, v: int) -> None:
        stream.refuse_capture(f"linalg.{name}", "small matrices are decomposed on the host")
        columns = np.empty((count, n, n), dtype)  # of each matrix, one after another
        download(columns.ctypes.data, a, columns.nbytes, stream)
        try:
            values, eigenvectors = (
                np.linalg.eig(columns.mT) if vectors else (np.linalg.eigvals(columns.mT), None)
            )
        except np.linalg.LinAlgError as problem:
            raise np.linalg.LinAlgError(f"{name}: {problem}") from None
        for address, part in ((w, values), (v, None if eigenvectors is None else eigenvectors.mT)):
            if part is not None:
                part = np.ascontiguousarray(part, kind)
                upload(address, part.ctypes.data, part.nbytes, stream)

    return run


# -------------------- cuBLAS


def _cublas(name: str, what: str) -> Callable[[Any, tuple], None]:
    """A function of cuBLAS as run(stream, arguments after the handle)."""

    def run(stream: Any, arguments: tuple) -> None:
        try:
            getattr(library_paths.bindings("cublas"), name)(
                cublas.handle(stream).cublas, *arguments
            )
        except _errors() as problem:
            raise library_error(problem, what) from None

    return run


def getrf_batched(dtype: np.dtype, n: int, count: int) -> Function:
    """run(stream, addresses, pivots, info): P A = L U of small matrices, all at once. pivots:
    int32, 1-based."""
    routine = _cublas(
        f"{DTYPES[dtype][1]}getrf_batched", f"cublasGetrfBatched {count} x ({n}, {n}) {dtype}"
    )
    return lambda stream, addresses, pivots, info: routine(
        stream, (n, addresses, n, pivots, info, count)
    )


def getrs_batched(dtype: np.dtype, n: int, k: int, transpose: int, count: int) -> Function:
    """run(stream, addresses of LU, pivots, addresses of B): B (n x k) replaced by the solutions."""
    routine = _cublas(
        f"{DTYPES[dtype][1]}getrs_batched",
        f"cublasGetrsBatched {count} x ({n}, {n}), ({n}, {k}) {dtype}",
    )

    def run(stream: Any, lu: int, pivots: int, b: int) -> None:
        status = ctypes.c_int()  # on the host: bad arguments only
        routine(stream, (transpose, n, k, lu, n, pivots, b, n, ctypes.addressof(status), count))
        if status.value:
            raise CudaError(f"cublasGetrsBatched: argument {-status.value} is wrong")

    return run


def geqrf_batched(dtype: np.dtype, m: int, n: int, count: int) -> Function:
    """run(stream, addresses of A, addresses of tau): `geqrf` of small matrices, all at once."""
    routine = _cublas(
        f"{DTYPES[dtype][1]}geqrf_batched", f"cublasGeqrfBatched {count} x ({m}, {n}) {dtype}"
    )

    def run(stream: Any, a: int, tau: int) -> None:
        status = ctypes.c_int()  # on the host: bad arguments only
        routine(stream, (m, n, a, m, tau, ctypes.addressof(status), count))
        if status.value:
            raise CudaError(f"cublasGeqrfBatched: argument {-status.value} is wrong")

    return run


def getri_batched(dtype: np.dtype, n: int, count: int) -> Function:
    """run(stream, addresses of LU, pivots, addresses of the inverses, info)."""
    routine = _cublas(
        f"{DTYPES[dtype][1]}getri_batched", f"cublasGetriBatched {count} x ({n}, {n}) {dtype}"
    )
    return lambda stream, lu, pivots, inverse, info: routine(
        stream, (n, lu, n, pivots, inverse, n, info, count)
    )


@functools.cache
def _one(dtype: np.dtype) -> np.ndarray:
    return np.ones(1, dtype)


def trsm(
    dtype: np.dtype,
    side: int,
    triangle: int,
    transpose: int,
    unit: bool,
    m: int,
    n: int,
    lda: int,
    ldb: int,
    count: int = 0,
) -> Function:
    """run(stream, a, b): B (m x n) replaced by the solution of op(A) X = B (LEFT) or X op(A) = B
    (RIGHT).

    count: 0: a and b are matrices; else: addresses of that many.
    """
    name = f"{DTYPES[dtype][1]}trsm{'_batched' if count else ''}_64"
    routine = _cublas(name, f"cublas {name} ({m}, {n}) {dtype}")
    alpha, tail = _one(dtype).ctypes.data, (count,) if count else ()

    def run(stream: Any, a: int, b: int) -> None:
        routine(stream, (side, triangle, transpose, int(unit), m, n, alpha, a, lda, b, ldb, *tail))

    return run
