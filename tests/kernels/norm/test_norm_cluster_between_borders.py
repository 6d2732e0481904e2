"""Gradients of norms by clusters of blocks, of rows that begin between the borders of accesses.

The simulator has no clusters: its blocks run one after the other. What a block tells the others
does not depend on what it hears, so each block runs twice, and hears in its second run what all
have told in their first.
"""

import ctypes
import importlib
import sys
from unittest.mock import MagicMock

import numpy as np
import pytest
from gradient_checks import TOLERANCE, numbers, run_version, wide
from simulated_gpu import give_row_accesses

from cudamath.runtime.device import assume
from cudamath.testing import assert_close
from tests.ml.test_norm import row_gradients

THREADS = 64  # of a block in the simulator
KINDS = [
    ("float32", "float32", 4),
    ("bfloat16", "bfloat16", 8),
    ("bfloat16", "float32", 8),
    ("float16", "float16", 8),
]


def _pointer(array):
    return getattr(array, "_ary", array).__array_interface__["data"][0]


class Cluster:
    """What the blocks of a cluster tell each other, and memory that comes at once."""

    def __init__(self):
        self.told, self.shared, self.memory = {}, 0, set()

    def tables(self, ranks):
        import greenlet

        def tell(_, turn, a, b):
            cluster, rank = divmod(greenlet.getcurrent().blockIdx.x, ranks)
            self.told[cluster, int(turn), rank] = a, b

        def hear(_, turn):
            thread = greenlet.getcurrent()
            place = thread.blockIdx.x // ranks, int(turn), thread.threadIdx.x % ranks
            return self.told.get(place, (np.float32(0), np.float32(0)))

        self.ranks = ranks
        return (lambda: 0), tell, hear

    def rank(self):
        import greenlet

        return greenlet.getcurrent().blockIdx.x % self.ranks

    def shared_address(self, array):
        """0 at the ring, the first that is asked for; barriers need none."""
        if getattr(array, "_ary", array).dtype == np.int64:
            return 0
        self.shared = _pointer(array)
        return 0

    def global_address(self, array):
        there = _pointer(array)
        self.memory.add((there, there + array.size * getattr(array, "_ary", array).itemsize))
        return there

    def bulk_load(self, target, source, count, _):
        target, source, count = int(target), int(source), int(count)
        assert source % 16 == 0 and count % 16 == 0 and target % 16 == 0 and count > 0
        assert any(low <= source and source + count <= high for low, high in self.memory)
        ctypes.memmove(self.shared + target, source, count)


@pytest.fixture
def cluster(monkeypatch):
    """The version's module in the simulator, with stand-ins for what this lacks."""
    from cudamath.kernels.norm import backward, backward_parts, dispatch, problem

    found = Cluster()
    for name in ("ptx.sm80", "ptx.sm90", "lib.cluster_exchange"):  # which it cannot import
        monkeypatch.setitem(sys.modules, f"cudamath.kernels.{name}", MagicMock())
    give_row_accesses(monkeypatch)
    backward_cluster = importlib.import_module("cudamath.kernels.norm.backward_cluster")

    nothing = lambda *_: None  # noqa: E731
    stand_ins = dict.fromkeys(
        [n for n in vars(backward_cluster) if n.startswith(("barrier_", "fence_"))], nothing
    )
    stand_ins |= dict(
        tables=found.tables,
        cluster_rank=found.rank,
        cluster_wait=nothing,
        shared_address=found.shared_address,
        global_address=found.global_address,
        bulk_load=found.bulk_load,
        THREADS=THREADS,
        multiprocessors=lambda _: 18,
    )
    for name, value in stand_ins.items():
        monkeypatch.setattr(backward_cluster, name, value)
    monkeypatch.setattr(backward_parts, "THREADS", THREADS)
    monkeypatch.setattr(backward, "LAST", 4)  # of 32 threads that add up eight clusters, 24 do not
    found.dispatch, found.problem = dispatch, problem
    yield found
    del sys.modules[backward_cluster.__name__]


def check(run, rows, columns, dtype, param, center):
    """dx, dweight, dbias of `run(g, x, w, mean, rstd)` against float64."""
    x, g = numbers((rows, columns), dtype, scale=2, shift=1), numbers((rows, columns), dtype, 1)
    w = numbers((columns,), param, 2)
    mean = wide(x).mean(1) if center else np.zeros(rows)
    rstd = 1 / np.sqrt(((wide(x) - mean[:, None]) ** 2).mean(1) + 1e-5)
    single = [a.astype(np.float32) for a in (mean, rstd)]
    found = run(g, x, w, *single)
    expected = row_gradients(g, x, w, center)
    what = f"{rows} x {columns}"
    assert_close(
        found[0], expected[0], rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6, what=what
    )
    summed = dict(rtol=TOLERANCE[param] * 4, atol=TOLERANCE["float32"] * 40 * rows**0.5)
    for i in range(1, 2 + center):
        assert_close(found[i], expected[i], **summed, what=what)


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize(
    "dtype, param, width, center",
    [(*kind, True) for kind in KINDS[:3]] + [(*kind, False) for kind in KINDS[3:]],
)
def test_simulated(cluster, center, dtype, param, width, monkeypatch):
    """Each distance from the borders; more rows than clusters, and fewer; two and four blocks."""
    monkeypatch.setattr(cluster.problem.Backward, "long_access", (width, True))
    longest = THREADS * width * (3 if param != dtype else 4)
    for rows, columns in ((19, longest // 2 + 3), (3, 77), (9, 2 * longest + 3)):
        cluster.told, cluster.memory = {}, set()

        def run(g, x, w, mean, rstd, rows=rows, columns=columns):
            given = [g, x, w, mean, rstd] if center else [g, x, w, rstd]

            def make(*inputs):
                g, x, w, *statistics = inputs
                mean = statistics[0] if center else None
                with assume((9, 0)):
                    return cluster.dispatch.backward(
                        g, x, w, mean, statistics[-1], None, columns, center, version="cluster"
                    )

            for _ in range(2):
                found = run_version("simulator", make, *given)
            return found

        check(run, rows, columns, dtype, param, center)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype, param, width", KINDS)
@pytest.mark.parametrize("center", [True, False])
def test_on_the_gpu(center, dtype, param, width):
    """Two, four and eight blocks to a row; rows fewer than clusters, than stages, many."""
    from cudamath.kernels.norm import backward_parts, dispatch
    from cudamath.runtime.device import capability

    if capability(0) not in backward_parts.TMA_DEVICES:
        pytest.skip("no cluster whose shared memory holds rows")
    for rows, columns in ((300, 14_511), (2, 8195), (67, 20_009), (131, 40_003), (5, 65_001)):
        if columns * (4 if dtype == "float32" else 2) > 256_000:
            columns //= 2

        def run(g, x, w, mean, rstd, columns=columns):
            given = [g, x, w, mean, rstd] if center else [g, x, w, rstd]

            def make(*inputs):
                g, x, w, *statistics = inputs
                mean = statistics[0] if center else None
                return dispatch.backward(
                    g, x, w, mean, statistics[-1], None, columns, center, version="cluster"
                )

            return run_version("gpu", make, *given)

        check(run, rows, columns, dtype, param, center)
