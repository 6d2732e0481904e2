"""Predicted times: what tiles cost, what a device's properties change, and that a version which is
predicted to be slower does not run."""

import dataclasses

import numpy as np
import pytest

from cudamath.kernels.lib import prediction
from cudamath.kernels.lib.prediction import Machine, Rates, Tiles, Work, microseconds, tiled
from cudamath.kernels.lib.versions import Version, explained, ordered
from cudamath.runtime.device import assume

H100 = Machine(132, 2e9, 3e12, 50 << 20, (9, 0))
EXACT = Rates(3.0, 1.0, 1.0, 0.0)


def test_a_wave_more_costs_a_tile_more():
    """Products of 10 tiles each, on 10 multiprocessors: one wave, and two for a row more."""
    tiles = Tiles([(64, 64)], depth=32, latency=0, end=0, store=64)
    step = 64 * 64 * 32 / 1024
    ten = H100._replace(multiprocessors=10)
    one = tiled(tiles, 64, 640, 320, 1, ten, 1024.0)
    assert one == (10 * step + 64, 1)
    assert tiled(tiles, 65, 640, 320, 1, ten, 1024.0) == (2 * one[0], 1)
    assert tiled(tiles, 64, 640, 321, 1, ten, 1024.0)[0] == one[0] + step


def test_sums_are_split_where_tiles_are_few():
    tiles = Tiles([(64, 64)], splits=(1, 2, 4, 8))
    alone, splits = tiled(tiles, 64, 64, 1 << 16, 1, H100, 1024.0)
    assert splits == 8
    assert alone < tiled(tiles._replace(splits=(1,)), 64, 64, 1 << 16, 1, H100, 1024.0)[0] / 7
    assert tiled(tiles, 6400, 6400, 64, 1, H100, 1024.0)[1] == 1


def test_sums_are_not_split_where_their_parts_take_longer():
    """Two parts of a product of a megabyte take half the arithmetic, and 2 us of another launch
    besides a microsecond to write and read 4 MB; of slow memory, longer."""
    tiles = Tiles([(128, 128)], depth=64, latency=0, end=0, store=1e9, splits=(1, 2))
    shape = 512, 512, 64 * 400, 1
    cycles, splits = tiled(tiles, *shape, H100, 1024.0)
    assert (cycles, splits) == (pytest.approx(400 * 1024 / 2), 2)  # 102 us less
    assert tiled(tiles, *shape[:2], 64 * 8, 1, H100, 1024.0)[1] == 1  # 2 us less
    assert tiled(tiles, *shape, H100._replace(bandwidth=3e10), 1024.0)[1] == 1


def test_blocks_of_a_multiprocessor_share_its_arithmetic():
    """Two of them take as long as one after the other, but for what a step waits."""
    one = Tiles([(64, 64)], latency=0, end=0, store=1e9)
    two = one._replace(resident=2)
    shape = (64, 64 * 40, 3200, 1, H100._replace(multiprocessors=20), 1024.0)
    assert tiled(one, *shape)[0] == pytest.approx(tiled(two, *shape)[0])
    waiting = [tiled(each._replace(latency=500), *shape)[0] for each in (one, two)]
    assert waiting[1] < waiting[0]


def test_time_follows_the_device():
    """Arithmetic by its clock, memory by its bandwidth, but for what the cache holds."""
    busy, wide = Work("", 2e6, 0), Work("", 0, 3e9)
    assert microseconds(busy, H100, EXACT) == pytest.approx(3 + 1000)
    assert microseconds(busy, H100._replace(clock=1e9), EXACT) == pytest.approx(3 + 2000)
    held = 0.6 * (25 << 20)
    assert microseconds(wide, H100, EXACT) == pytest.approx(3 + 1000 - held / 3e6)
    faster = microseconds(wide, H100._replace(bandwidth=6e12), EXACT) - 3
    assert faster == pytest.approx((microseconds(wide, H100, EXACT) - 3) / 2)
    both = microseconds(Work("", 2e6, 3e9, 2), H100, EXACT)
    assert 1006 < both < 6 + 1000 * 2**0.25


def test_what_spreads_is_expected_to_take_longer():
    work = Work("", 2e6, 0)
    assert microseconds(work, H100, Rates(3, 1, 1, 0.5)) > microseconds(work, H100, EXACT)


def test_rates_of_the_words_before(monkeypatch):
    monkeypatch.setattr(prediction, "_fitted", lambda: {"a": Rates(1.0), "a b": Rates(2.0)})
    found = [prediction.rates_of(name).launch for name in ("a b c", "a c", "a", "c")]
    assert found == [2.0, 1.0, 1.0, Rates().launch]


@dataclasses.dataclass
class Problem:
    size: int
    device: int = 0
    measured: str = ""


@pytest.mark.parametrize(("size", "first"), [(1, "small"), (1 << 30, "large")])
def test_the_least_expected_time_runs(size, first):
    """And a measurement goes before; `explained` says so."""
    versions = (
        Version("small", "", reason="one launch", work=lambda p: Work("none", 40.0 * p.size, 0)),
        Version("large", "", reason="tiles", work=lambda p: Work("none", 1e4 + p.size, 0)),
    )
    with assume((9, 0)):
        order = ordered(versions, Problem(size))
        assert order[0].name == first
        times = [version.microseconds(Problem(size)) for version in order]
        assert times == sorted(times)
        assert explained(order[0], Problem(size), order[1:]).startswith(f"{first}: ")
        assert f"{order[1].name} {times[1]:.3g}" in explained(order[0], Problem(size), order[1:])
        assert ordered(versions, Problem(size, measured="large"))[0].name == "large"


def test_rates_of_arithmetic():
    """Multiply-adds of a multiprocessor in a cycle, from data sheets: an H100's 989 TFLOP/s of 16
    bits are 2,048 x 2 x 132 x 1.83 GHz."""
    half, single, double = (np.dtype(name) for name in ("float16", "float32", "float64"))
    assert H100.rate(half, True) == 2048 and H100.rate(single, True) == 1024
    assert H100.rate(single, False) == 128 and H100.rate(double, False) == 64
    assert H100._replace(capability=(8, 0)).rate(half, True) == 1024
    assert H100._replace(capability=(7, 5)).rate(single, False) == 64
    with assume((8, 6), 28, clock=1.8e9, memory_bandwidth=3.6e11):
        assert Machine.of(0) == Machine(28, 1.8e9, 3.6e11, 50 << 20, (8, 6))
