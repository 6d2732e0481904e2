"""Products by cuBLASLt (runtime/cublas.py), on a stand-in of the library."""

import ctypes
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from cudamath.runtime import cublas

F32 = np.dtype(np.float32)


class Library:
    """cuBLASLt, of which a product takes a while: as split sums do, in several launches."""

    class cuBLASLtError(Exception):
        pass

    matmul_heuristic_result_dtype = np.dtype([("algorithm", np.int64)])

    def __init__(self):
        self.under_way = self.most = 0
        self.workspaces = []

    def __getattr__(self, name):
        if name.endswith("Attribute"):
            return type(name, (), {"__getattr__": lambda self, name: 1})()
        return lambda *_: 1

    def matmul_algo_get_heuristic(self, *arguments):
        ctypes.c_int32.from_address(arguments[-1]).value = 1

    def matmul(self, *arguments):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.workspaces.append(arguments[-3])
        time.sleep(0.02)
        self.under_way -= 1


@pytest.fixture
def library(monkeypatch):
    found = Library()
    monkeypatch.setattr(cublas, "_lt_bindings", lambda: found)
    return found


def handle(workspace):
    return SimpleNamespace(light=1, workspace=5, light_workspace=workspace, lock=threading.Lock())


def products(count):
    sides = [cublas.Matrix(0, 4)] * 3
    return [cublas.gemm_biased(F32, 4 + i, 4, 4, *sides) for i in range(count)]


def test_threads_on_a_stream_take_turns_with_its_workspace(library, monkeypatch):
    """Different products, too: the launches of one may come between those of another."""
    one = handle(7)
    monkeypatch.setattr(cublas, "handle", lambda stream: one)
    stream = SimpleNamespace(ptr=0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda product: product(stream, 1, 2, 3, 4), products(4)))
    assert library.most == 1 and library.workspaces == [7] * 4


def test_streams_do_not_wait_for_each_other(library, monkeypatch):
    streams = [SimpleNamespace(ptr=i) for i in range(4)]
    handles = {id(stream): handle(10 + i) for i, stream in enumerate(streams)}
    monkeypatch.setattr(cublas, "handle", lambda stream: handles[id(stream)])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda p, s: p(s, 1, 2, 3, 4), products(4), streams))
    assert library.most > 1 and sorted(library.workspaces) == [10, 11, 12, 13]


def test_the_workspace_is_not_that_of_cublas(library, monkeypatch):
    """Which another thread may use meanwhile; it is taken with the first product, and kept."""
    one, taken = handle(0), []

    def take():
        taken.append(1)
        one.light_workspace = 9
        return 9

    one.take_light_workspace = take
    monkeypatch.setattr(cublas, "handle", lambda stream: one)
    for product in products(2):
        product(SimpleNamespace(ptr=0), 1, 2, 3, 4)
    assert library.workspaces == [9, 9] and taken == [1] and one.workspace not in library.workspaces
