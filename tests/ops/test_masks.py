"""Selection by masks: kernels/index/stream_compaction.py in both versions, alone and counted, and
the functions made of them."""

from __future__ import annotations

import numpy as np
import pytest
from strategies import BF16

import cudamath as cm
from cudamath.core.dispatch.plan import Plan
from cudamath.core.layout import Layout
from cudamath.kernels.index import stream_compaction
from cudamath.ops import masks as selection
from cudamath.testing import simulate

SHAPES = [(0,), (1,), (31,), (4095,), (4097,), (3, 1400), (2, 3, 2000)]


def layouts(*arrays: np.ndarray) -> list[Layout]:
    return [Layout.new(a.shape, a.dtype, 0) for a in arrays]


def some(shape: tuple[int, ...], dtype: object = "f2") -> np.ndarray:
    """An array of which three in seven are not zero."""
    return (np.arange(int(np.prod(shape))).reshape(shape) * 5 % 7 < 3).astype(dtype)


def whole(run, x: np.ndarray, mine: np.ndarray, version: str | None) -> None:
    """Every plan of kernels/index/stream_compaction.py on x, of which `run(plan, *arrays)` gives
    the result; mine: what a mask chooses from."""
    places, n = np.nonzero(x), int(np.count_nonzero(x))
    counts = run(stream_compaction.count_true(*layouts(x), version=version), x)
    assert counts.sum() == n
    mask = x != 0
    for counted in ((), (counts,)):
        room = n + n % 2 + 2 if counted else x.size + x.size % 2

        def first(plan: Plan, *arrays: np.ndarray, counted: tuple = counted) -> np.ndarray:
            """The result, whose second output has been compared."""
            if counted:
                return run(plan, *arrays, *counted)
            found, total = run(plan, *arrays)
            assert total.tolist() == [n]
            return found

        found = first(
            stream_compaction.nonzero(
                *layouts(x, *counted), capacity=room, rows=False, version=version
            ),
            x,
        )
        assert [line[:n].tolist() for line in found] == [p.tolist() for p in places]
        found = first(
            stream_compaction.nonzero(
                *layouts(x, *counted), capacity=room, rows=True, version=version
            ),
            x,
        )
        np.testing.assert_array_equal(found[:n], np.argwhere(x))
        bits = np.arange(x.size).reshape(x.shape) % 2 == 0  # of the mask's own layout
        for numbers in (mine,) if counted else (mine, bits):
            found = first(
                stream_compaction.chosen(
                    *layouts(mask, numbers, *counted), capacity=room, version=version
                ),
                mask,
                numbers,
            )
            np.testing.assert_array_equal(found[:n], numbers[mask])


def new_ones(run, x: np.ndarray, equal_nan: bool, version: str | None) -> None:
    """Distinct elements of a sorted x."""
    seen = x.astype("f4") if x.dtype == BF16 else x
    expected = x[np.unique(seen, return_index=True, equal_nan=equal_nan)[1]]
    counts = run(stream_compaction.count_new(*layouts(x), equal_nan=equal_nan, version=version), x)
    assert counts.sum() == expected.size
    found, total = run(
        stream_compaction.distinct(
            *layouts(x), capacity=x.size, equal_nan=equal_nan, version=version
        ),
        x,
    )
    assert total.tolist() == [expected.size]
    assert found[: expected.size].tobytes() == expected.tobytes()
    found = run(
        stream_compaction.distinct(
            *layouts(x, counts), capacity=expected.size, equal_nan=equal_nan, version=version
        ),
        x,
        counts,
    )
    assert found.tobytes() == expected.tobytes()


def ordered(n: int, dtype: object) -> np.ndarray:
    """A sorted vector with repetitions, and NaNs if it can have them."""
    x = np.sort(np.arange(n) * 7919 % max(n // 3, 1) % 100).astype(dtype)
    if x.dtype.kind in "fV" and n > 9:
        x[-4:] = np.nan
    return x


@pytest.mark.simulator
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 1400)])
def test_masks_simulated(shape):
    whole(simulate, some(shape), np.arange(np.prod(shape), dtype="f8").reshape(shape), None)


@pytest.mark.simulator
@pytest.mark.parametrize("equal_nan", [True, False])
def test_distinct_simulated(equal_nan):
    for n in (1, 4500):
        new_ones(simulate, ordered(n, "f4"), equal_nan, None)


def on_gpu(plan: Plan, *arrays: np.ndarray):
    """What a plan gives on a GPU, on the host."""
    there = [cm.asarray(a, device="cuda") for a in arrays]
    found = plan.bind("masks", [a._layout for a in there])(*there)
    return [y.to_numpy() for y in found] if isinstance(found, tuple) else found.to_numpy()


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["plain", "votes"])
@pytest.mark.parametrize("dtype", ["?", "i1", "f2", "f4", "f8", "c8", BF16], ids=str)
def test_masks_on_gpu(version, dtype):
    for shape in (*SHAPES, (300, 1001), (70_001,), *([(5_000_011,)] if version == "votes" else [])):
        x = some(shape, dtype)
        mine = (
            np.random.default_rng(0)
            .integers(0, 255, x.shape)
            .astype("i8" if x.dtype.itemsize == 8 else "u1")
        )
        if x.size < 1 << 17 or dtype == "?":
            whole(on_gpu, x, mine, version)


@pytest.mark.gpu
@pytest.mark.parametrize("version", ["plain", "votes"])
@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "i8", "f2", "f4", "f8", BF16], ids=str)
def test_distinct_on_gpu(version, dtype):
    for n in (1, 31, 4097, 100_001):
        for equal_nan in (True, False):
            new_ones(on_gpu, ordered(n, dtype), equal_nan, version)


@pytest.mark.gpu
def test_masks_that_begin_between_borders_on_gpu():
    """A mask whose bytes no access of 16 of them can read."""
    x = some((70_003,), "?")
    there = cm.asarray(x, device="cuda")
    for begin in (1, 3, 16):
        np.testing.assert_array_equal(
            cm.flatnonzero(there[begin:]).to_numpy(), np.flatnonzero(x[begin:])
        )
    np.testing.assert_array_equal(cm.flatnonzero(there[::3]).to_numpy(), np.flatnonzero(x[::3]))


@pytest.mark.parametrize("n", [3, 1000, selection._FEW, selection._FEW + 1, 100_000])
def test_functions(device, n):
    rng = np.random.default_rng(n)
    for share in (0.0, 0.0001, 0.4, 1.0):
        mask, values = rng.random(n) < share, rng.standard_normal(n).astype("f4")
        with cm.device(device):
            ours, theirs = cm.asarray(mask), cm.asarray(values)
            np.testing.assert_array_equal(cm.nonzero(ours)[0].to_numpy(), np.nonzero(mask)[0])
            np.testing.assert_array_equal(theirs[ours].to_numpy(), values[mask])
            bits = np.arange(n) % 3 == 1  # whose layout is the mask's
            np.testing.assert_array_equal(cm.asarray(bits)[ours].to_numpy(), bits[mask])
            square, box = (a[: n // 2 * 2].reshape(2, -1) for a in (ours, theirs))
            for a, b in zip(
                cm.nonzero(square), np.nonzero(mask[: n // 2 * 2].reshape(2, -1)), strict=True
            ):
                np.testing.assert_array_equal(a.to_numpy(), b)
            np.testing.assert_array_equal(
                cm.argwhere(square).to_numpy(), np.argwhere(mask[: n // 2 * 2].reshape(2, -1))
            )
            np.testing.assert_array_equal(
                box[square].to_numpy(), values[: n // 2 * 2][mask[: n // 2 * 2]]
            )


@pytest.mark.gpu
def test_a_few_of_many_lie_in_little_memory():
    with cm.device("cuda"):
        mask = cm.zeros(selection._FEW, "bool")
        mask[7] = True
        (found,) = cm.nonzero(mask)
        assert found.tolist() == [7] and found._owner.size == 512


def test_the_gradient_of_what_a_mask_chooses(device):
    with cm.device(device):
        x = cm.asarray([1.0, 2.0, 3.0])
        assert cm.grad(lambda x: (x[x > 1.5] ** 2).sum())(x).tolist() == [0.0, 4.0, 6.0]


def test_assigned_where_a_mask_is_true(device):
    rng = np.random.default_rng(0)
    mask, other = rng.random((6, 9)) < 0.4, rng.standard_normal((6, 9)).astype("f4")
    values = rng.standard_normal((6, 9)).astype("f4")
    with cm.device(device):
        for chosen in (mask, mask.T.copy().T, np.zeros_like(mask), np.ones_like(mask)):
            for dtype in ("f4", "f8", "i4"):  # cast on the way
                for turned in (False, True):
                    theirs, ours = values.copy(), cm.asarray(values.copy())
                    there, here = (theirs.T, ours.T) if turned else (theirs, ours)
                    at = chosen.T if turned else chosen
                    there[at] = (other.T if turned else other)[at].astype(dtype)
                    here[cm.asarray(at)] = cm.asarray(
                        (other.T if turned else other)[at].astype(dtype)
                    )
                    np.testing.assert_array_equal(ours.to_numpy(), theirs)
        x = cm.asarray(values.copy())
        x[cm.asarray(mask)] = cm.asarray([7.0])  # broadcast
        x[cm.asarray(mask)] = cm.asarray(other)[cm.asarray(mask)]
        np.testing.assert_array_equal(x.to_numpy(), np.where(mask, other, values))
        bits = cm.asarray(mask.copy())
        bits[bits] = ~cm.asarray(mask)[bits]  # which is the mask itself
        assert not bits.to_numpy().any()
        with pytest.raises(ValueError, match="^setitem: "):
            x[cm.asarray(mask)] = cm.zeros(int(mask.sum()) + 1, "f4")
        empty = cm.zeros((0, 3))
        empty[cm.zeros((0, 3), "bool")] = cm.zeros(0)
        assert empty.shape == (0, 3)
