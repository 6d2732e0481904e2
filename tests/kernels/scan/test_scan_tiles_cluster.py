"""Scans whose tiles are the blocks of a cluster: they exchange totals of every width as words.

The simulator has no clusters: its blocks run one after the other. What a block tells the others
does not depend on what it hears, so each block runs twice, and hears in its second run what all
have told in their first.
"""

import numpy as np
import pytest

from cudamath.kernels.compiler.storage_types import storage

RANKS, WARPS = 8, 2


class Cluster:
    """The shared memory of the blocks: arrays by addresses that are multiples of 4,096."""

    def __init__(self):
        self.arrays, self.told = [], {}

    def sync(self):
        import greenlet

        greenlet.getcurrent().wait(None)

    def shared_address(self, array):
        known = [number for number, x in enumerate(self.arrays) if x is array]
        if not known:
            self.arrays.append(array)
        return 4096 * (known[0] if known else len(self.arrays) - 1)

    def word(self, address):
        assert address % 4 == 0, "a word lies at a multiple of four bytes"
        array, place = divmod(int(address), 4096)
        return self.arrays[array].view(np.uint32)[place // 4 : place // 4 + 1]

    def copy_word(self, to, source, rank):
        import greenlet

        cluster, own = divmod(greenlet.getcurrent().blockIdx.x, RANKS)
        place = int(source) % 4096
        if own == rank:
            self.told[cluster, own, place] = self.word(source).copy()
        self.word(to)[:] = self.told.get((cluster, int(rank), place), 0)


@pytest.fixture
def cluster(monkeypatch):
    from simulated_gpu import give_vectors_and_warps

    from cudamath.kernels.scan import decoupled_lookback, tiles

    found = Cluster()
    give_vectors_and_warps(monkeypatch)
    for name, value in dict(
        WARPS=WARPS,
        THREADS=32 * WARPS,
        cluster_sync=found.sync,
        cluster_arrive=lambda: None,
        cluster_wait=lambda: None,
        shared_address=found.shared_address,
        copy_cluster_word=found.copy_word,
    ).items():
        monkeypatch.setattr(tiles, name, value, raising=False)
    decoupled_lookback.row_scan.cache_clear()
    yield found
    for factory in (tiles.scan_tiles, decoupled_lookback.row_scan):
        factory.cache_clear()


@pytest.mark.simulator
@pytest.mark.parametrize(
    "kind, dtype",
    [
        ("max", "bool"),
        ("max", "int8"),
        ("min", "uint8"),
        ("max", "int16"),
        ("min", "uint16"),
        ("max", "float16"),
        ("sum", "float32"),
        ("sum", "int64"),
        ("sum", "complex64"),
        ("sum", "complex128"),
    ],
)
def test_totals_of_every_width(cluster, kind, dtype):
    from cudamath.kernels.scan import tiles

    dtype, rows, vectors = np.dtype(dtype), 2, 2
    tile = 32 * WARPS * vectors
    n = RANKS * tile - 37
    rng = np.random.default_rng(3)
    x = rng.integers(0, 2 if dtype.kind == "b" else 100, (rows, n)).astype(dtype)
    if kind != "sum":  # the extremes so far change in each tile
        x = np.sort(x, 1)[:, :: 1 if kind == "max" else -1]
    y = np.empty((rows, n), dtype)
    kernel = tiles.scan_tiles(kind, dtype, dtype, 1, vectors, RANKS)
    words = np.zeros(1, np.uint64)
    flat = [np.ascontiguousarray(a).reshape(-1).view(storage(dtype)) for a in (x, y)]
    for _ in range(2):
        kernel[rows * RANKS, 32 * WARPS](*flat, words, words, n, RANKS, 1)
    run = {"max": np.maximum.accumulate, "min": np.minimum.accumulate, "sum": np.cumsum}[kind]
    np.testing.assert_array_equal(flat[1].view(dtype).reshape(rows, n), run(x, 1))
