"""Arrays of more than 2^31 elements: element numbers need 64 bits, in every family that memory
limits."""

import numpy as np
import pytest

import cudamath as cm

pytestmark = pytest.mark.gpu
N = (1 << 31) + 4096  # a multiple of 4096
FAR = (1 << 31) + 5


@pytest.fixture(scope="module")
def x():
    if cm.cuda.devices()[0].total_memory < 30 << 30:
        pytest.skip("a GPU with less than 30 GB")
    made = cm.zeros(N, dtype="int8", device="cuda")
    made[FAR] = 5
    made[-1] = 3
    yield made
    del made
    cm.cuda.empty_cache()


def test_elementwise(x):
    y = x + x
    assert (int(y[FAR]), int(y[-1]), int(y[FAR - 1])) == (10, 6, 0)
    chosen = cm.where(x > 2, x, cm.asarray(1, "int8", device="cuda"))
    assert (int(chosen[FAR]), int(chosen[FAR + 1]), int(chosen[0])) == (5, 1, 1)


def test_broadcast_and_crossed(x):
    square = x.reshape((N // 4096, 4096))
    row = cm.arange(4096, dtype="int8", device="cuda")
    y = (square + row).reshape((-1,))
    expected = (np.arange(4096) % 256).astype(np.int8)
    assert int(y[FAR]) == int(expected[FAR % 4096]) + 5 and int(y[-2]) == int(expected[-2])
    turned = cm.copy(square.T)
    assert int(turned[FAR % 4096, FAR // 4096]) == 5 and int(turned[-1, -1]) == 3


def test_reductions(x):
    assert int(x.sum(dtype="int64")) == 8 and int(x.max()) == 5 and int(cm.argmax(x)) == FAR
    assert int(cm.count_nonzero(x)) == 2
    square = x.reshape((N // 4096, 4096))
    assert int(square.sum(1, dtype="int64")[FAR // 4096]) == 8  # both are in the last row
    assert int(square.sum(0, dtype="int64")[FAR % 4096]) == 5


def test_moving(x):
    assert cm.take(x, cm.asarray([FAR, N - 1, 0], device="cuda")).tolist() == [5, 3, 0]
    assert x[FAR - 1 : FAR + 2].tolist() == [0, 5, 0]
    joined = cm.concat([x[: N // 2], x[N // 2 :]])
    assert int(joined[FAR]) == 5 and int(joined[-1]) == 3
    assert cm.nonzero(x)[0].tolist() == [FAR, N - 1]


def test_rows_of_float16(x):
    half = x.astype("float16").reshape((N // 1024, 1024))
    y = cm.ml.softmax(half)
    e = np.exp(np.float64(5))
    at = FAR // 1024, FAR % 1024
    np.testing.assert_allclose(float(y[at]), e / (e + 1023), rtol=2e-3)
    np.testing.assert_allclose(float(y[at[0], 0]), 1 / (e + 1023), rtol=2e-3)
    del y
    normed = cm.ml.layer_norm(half, 1024)
    line = np.zeros(1024)
    line[at[1]] = 5
    wanted = (line - line.mean()) / np.sqrt(line.var() + 1e-5)
    np.testing.assert_allclose(
        normed[at[0]].to_numpy().astype(np.float64), wanted, rtol=2e-3, atol=1e-3
    )


def test_sorting(x):
    y = cm.sort(x)
    assert y[-3:].tolist() == [0, 3, 5] and int(y[0]) == 0 and int(y[FAR]) == 0
    down = cm.sort(x, descending=True)
    assert down[:3].tolist() == [5, 3, 0]


def test_running_sums(x):
    sums = cm.cumsum(x, dtype="int32")
    assert (int(sums[FAR - 1]), int(sums[FAR]), int(sums[-2]), int(sums[-1])) == (0, 5, 5, 8)


def test_membership_and_masks(x):
    found = cm.isin(x, cm.asarray([5, 9], "int8", device="cuda"))
    assert bool(found[FAR]) and not bool(found[FAR + 1]) and int(cm.count_nonzero(found)) == 1
    y = x.copy()
    y[found] = 7
    assert (int(y[FAR]), int(y[-1]), int(y.sum(dtype="int64"))) == (7, 3, 10)
    assert x[found].tolist() == [5]
    assert cm.unique(x).tolist() == [0, 3, 5]
