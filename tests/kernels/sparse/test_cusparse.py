"""Products by cuSPARSE: what is asked of the library, and what is left of it afterwards."""

from __future__ import annotations

import ctypes
import itertools
import types
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from fake_driver import gpu

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.sparse import dispatch
from cudamath.runtime import cusparse, graph, stream

KINDS = {0: np.float32, 1: np.float64, 2: np.float16, 4: np.complex64, 5: np.complex128}


def memory(address: int, count: int, dtype: Any) -> np.ndarray:
    """What lies at an address of the fake driver's."""
    kind = np.dtype(dtype)
    return np.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(address), kind)


class FakeSparse:
    """A stand-in for cuSPARSE that multiplies by SciPy."""

    class cuSPARSEError(Exception):
        pass

    def __init__(self) -> None:
        self.numbers = itertools.count(1)
        self.live: dict[int, tuple] = {}
        self.calls: list[tuple] = []
        self.handles: dict[int, int] = {}

    def create(self) -> int:
        self.handles[number := next(self.numbers)] = 0
        return number

    def destroy(self, handle: int) -> None:
        del self.handles[handle]

    def set_stream(self, handle: int, on: int) -> None:
        self.handles[handle] = on

    def _make(self, *given: Any) -> int:
        self.live[number := next(self.numbers)] = given
        return number

    create_csr = create_dn_vec = create_dn_mat = _make

    def destroy_dn_vec(self, number: int) -> None:
        del self.live[number]

    destroy_dn_mat = destroy_sp_mat = destroy_dn_vec

    def sp_mv_buffer_size(self, handle: int, *given: Any) -> int:
        self.calls.append(("size", *given))
        return 3000

    def sp_mm_buffer_size(self, handle: int, *given: Any) -> int:
        self.calls.append(("size", *given))
        return 0

    sddmm_buffer_size = sp_mm_buffer_size

    def _run(self, alpha: int, matrix: int, b: int, beta: int, out: int, compute: int) -> None:
        cm.cuda.synchronize()
        rows, inner, stored, starts, indices, data, offset, place, base, kind = self.live[matrix]
        scalar = {0: "f4", 1: "f8", 4: "c8", 5: "c16"}[compute]
        assert (memory(alpha, 1, scalar), memory(beta, 1, scalar)) == (1, 0) and base == 0
        assert offset == place
        index = {2: np.int32, 3: np.int64}[offset]
        a = sp.csr_array(
            (
                memory(data, stored, KINDS[kind]).astype(scalar),
                memory(indices, stored, index),
                memory(starts, rows + 1, index),
            ),
            shape=(rows, inner),
        )
        self._dense(out, rows, kind)[...] = a @ self._dense(b, inner, kind).astype(scalar)

    def _dense(self, number: int, length: int, kind: int) -> np.ndarray:
        if len(self.live[number]) == 3:
            size, address, same = self.live[number]
            columns = 1
        else:
            size, columns, ld, address, same, order = self.live[number]
            assert (ld, order) == (columns, 2)  # row-major
        assert (size, same) == (length, kind)
        return memory(address, size * columns, KINDS[kind]).reshape(size, columns)

    def sp_mv(self, handle: int, *given: Any) -> None:
        self.calls.append(("sp_mv", *given))
        operation, *rest, algorithm, workspace = given
        assert (operation, algorithm) == (0, 3) and workspace
        self._run(*rest)

    def sp_mm(self, handle: int, *given: Any) -> None:
        self.calls.append(("sp_mm", *given))
        left, right, *rest, algorithm, workspace = given
        assert (left, right, algorithm, workspace) == (0, 0, 12, 0)
        self._run(*rest)

    def sddmm(self, handle: int, *given: Any) -> None:
        self.calls.append(("sddmm", *given))
        left, right, _alpha, a, b, _beta, out, compute, algorithm, workspace = given
        assert (left, right, algorithm, workspace) == (0, 1, 0, 0)
        cm.cuda.synchronize()
        rows, inner, stored, starts, indices, data, offset, place, base, kind = self.live[out]
        index = {2: np.int32, 3: np.int64}[offset]
        assert (offset, base) == (place, 0) and KINDS[compute] == KINDS[kind]
        whole = self._dense(a, rows, kind) @ self._dense(b, inner, kind).T
        each = np.repeat(np.arange(rows), np.diff(memory(starts, rows + 1, index)))
        memory(data, stored, KINDS[kind])[...] = whole[each, memory(indices, stored, index)]


@pytest.fixture
def library(monkeypatch, fake):
    library = FakeSparse()
    monkeypatch.setattr(cusparse, "_bindings", lambda: library)
    monkeypatch.setattr(
        cusparse.library_paths,
        "find",
        lambda name: types.SimpleNamespace(path="there", looked="", remedy=""),
    )
    cusparse._handles.clear()
    yield library
    cusparse._handles.clear()


@pytest.mark.parametrize("index", [np.int32, np.int64], ids=str)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("columns", [1, 3])
def test_products(library, dtype, index, columns):
    rng = np.random.default_rng(0)
    x = sp.random_array((5, 7), density=0.4, rng=rng, format="csr")
    data = np.arange(1, x.nnz + 1).astype(dtype)
    x = sp.csr_array((data.astype("c16"), x.indices, x.indptr), shape=x.shape)
    b = rng.integers(-3, 4, (7, columns)).astype(dtype)
    given = [gpu(part) for part in (data, x.indices.astype(index), x.indptr.astype(index), b)]
    layouts = [part._layout for part in given]
    plan = dispatch.csr_product(*layouts, version="cusparse")
    run = plan.bind("csr_product", layouts)
    before = stream.current_stream(0).pool.used
    first, second = run(*given), run(*given)
    for out in (first, second):
        np.testing.assert_array_equal(out.to_numpy(), x @ b.astype("c16"))
    names = [call[0] for call in library.calls]
    assert names == ["size", *(["sp_mv", "sp_mv"] if columns == 1 else ["sp_mm", "sp_mm"])]
    assert not library.live  # each call has destroyed its descriptors
    del first, second, out
    assert stream.current_stream(0).pool.used == before


@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_samples(library, dtype):
    rng = np.random.default_rng(0)
    x = sp.random_array((5, 7), density=0.4, rng=rng, format="csr")
    rows = np.repeat(np.arange(5), np.diff(x.indptr)).astype(np.int32)
    a, b = (rng.integers(-3, 4, (n, 3)).astype(dtype) for n in (5, 7))
    parts = rows, x.indices.astype(np.int32), x.indptr.astype(np.int32), a, b
    given = [gpu(part) for part in parts]
    layouts = [part._layout for part in given]
    run = dispatch.sampled_product(*layouts, version="cusparse").bind("sampled_product", layouts)
    np.testing.assert_array_equal(run(*given).to_numpy(), (a @ b.T)[rows, x.indices])
    assert [call[0] for call in library.calls] == ["size", "sddmm"] and not library.live
    half = [Layout.new(x.shape, np.dtype("f2"), 0) for x in layouts[3:]]
    with pytest.raises(ValueError, match="does not support"):
        dispatch.sampled_product(*layouts[:3], *half, version="cusparse")


def test_what_it_supports(library, monkeypatch):
    def works(dtype: Any, index: Any, starts: Any, stored: int = 9) -> bool:
        shapes = ((stored,), dtype), ((stored,), index), ((6,), starts), ((7, 2), dtype)
        layouts = [Layout.new(shape, np.dtype(kind), 0) for shape, kind in shapes]
        try:
            dispatch.csr_product(*layouts, version="cusparse")
        except ValueError as error:
            assert "does not support" in str(error)
            return False
        return True

    monkeypatch.setattr(cusparse, "available", lambda: True)
    assert works("f4", "i4", "i4") and works("c16", "i8", "i8")
    assert not works("i4", "i4", "i4") and not works("f4", "i4", "i8")
    assert not works("f4", "i4", "i4", stored=0)
    monkeypatch.setattr(cusparse, "available", lambda: False)
    assert not works("f4", "i4", "i4")


def test_handles_and_errors(library, monkeypatch):
    """One handle a stream, gone with it; no descriptor outlives a call that fails."""
    here, other = stream.current_stream(0), stream.Stream(0)
    assert cusparse.handle(here) is cusparse.handle(here) is not cusparse.handle(other)
    assert set(library.handles.values()) == {here.ptr, other.ptr}
    del other
    assert list(library.handles.values()) == [here.ptr]

    def broken(*_: Any) -> None:
        raise FakeSparse.cuSPARSEError("CUSPARSE_STATUS_INSUFFICIENT_RESOURCES")

    monkeypatch.setattr(library, "sp_mv", broken, raising=False)
    run = cusparse.csr_product(np.dtype("f4"), np.dtype("i4"), 5, 7, 9, 1)
    with pytest.raises(cm.cuda.CudaError, match=r"^cusparseSpMV \(5, 7\) @ \(7, 1\) float32: "):
        run(here, 0, 0, 0, 0, 0)
    assert not library.live
    asked = len(library.calls)
    with graph.Capture(0), pytest.raises(RuntimeError, match=r"^cusparseSpMV .*CUDA graph"):
        run(stream.current_stream(0), 0, 0, 0, 0, 0)
    assert len(library.calls) == asked and not library.live
    cusparse._handles.clear()
    monkeypatch.setattr(
        cusparse.library_paths,
        "find",
        lambda name: types.SimpleNamespace(path=None, looked="no libcusparse", remedy=""),
    )
    with pytest.raises(cm.cuda.DeviceError, match="^matmul: cuSPARSE was not found .*libcusparse"):
        run(here, 0, 0, 0, 0, 0)
