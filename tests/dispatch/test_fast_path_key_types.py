"""Keys of replays distinguish equal numbers of different classes: 1, 1.0, True and np.True_."""

import numpy as np
import pytest
from fake_driver import gpu

import cudamath as cm

M, V = np.arange(24.0).reshape(2, 3, 4).astype("f4"), np.arange(6.0)

#: A call of arrays m (2, 3, 4) and v (6,) with a number that is good, and the same number as others
#: that are not.
CALLS = {
    "reshape": (lambda m, v, n: cm.reshape(m, (n, 6)), 4, [4.0, np.float64(4), 4j / 1j]),
    "reshape of a copy": (lambda m, v, n: cm.reshape(m.T, (n, 6)), 4, [4.0, np.float64(4)]),
    "method": (lambda m, v, n: m.reshape(n, 6), 4, [4.0, np.float64(4)]),
    "method of a tuple": (lambda m, v, n: m.reshape((n, 24)), 1, [1.0, np.True_]),
    "broadcast_to": (lambda m, v, n: cm.broadcast_to(v, (n, 6)), 2, [2.0, np.float64(2)]),
    "zeros": (lambda m, v, n: cm.zeros((n, 3)), 1, [1.0, np.True_]),
    "zeros of a number": (lambda m, v, n: cm.zeros(n), 3, [3.0, np.float64(3)]),
    "full": (lambda m, v, n: cm.full((n, 3), 2), 1, [1.0, np.True_]),
    "zeros_like": (lambda m, v, n: cm.zeros_like(m, shape=(n, 3)), 1, [1.0, np.True_]),
    "eye": (lambda m, v, n: cm.eye(n, 3), 1, [1.0, np.True_]),
    "tile": (lambda m, v, n: cm.tile(v, (n, 2)), 1, [1.0, np.True_]),
    "tile by a number": (lambda m, v, n: cm.tile(v, n), 2, [2.0, np.float64(2)]),
    "permute_dims": (lambda m, v, n: cm.permute_dims(m, (2, n, 0)), 1, [1.0, True, np.True_]),
    "transpose": (lambda m, v, n: cm.transpose(m, axes=(2, n, 0)), 1, [1.0, True]),
    "moveaxis": (lambda m, v, n: cm.moveaxis(m, (n, 2), (0, 1)), 1, [1.0, True]),
    "expand_dims": (lambda m, v, n: cm.expand_dims(m, (n, 0)), 1, [1.0, True]),
    "flip": (lambda m, v, n: cm.flip(m, axis=(n, 0)), 1, [1.0, True]),
    "rot90": (lambda m, v, n: cm.rot90(m, 1, (0, n)), 1, [1.0, True]),
    "sum": (lambda m, v, n: cm.sum(m, axis=(0, n)), 1, [1.0, True, np.True_]),
    "keepdims": (lambda m, v, n: m.mean(axis=1, keepdims=n), True, [1.0, np.True_]),
    "vector_norm": (lambda m, v, n: cm.linalg.vector_norm(m, axis=(0, n)), 1, [1.0, True]),
    "keepdims of a norm": (
        lambda m, v, n: cm.linalg.vector_norm(m, keepdims=n),
        True,
        [1.0, np.True_],
    ),
    "split": (lambda m, v, n: cm.split(m, 3, n)[1], 1, [1.0, True]),
    "diagonal": (lambda m, v, n: cm.diagonal(m, n), 1, [1.0, np.float64(1)]),
    "diag": (lambda m, v, n: cm.diag(v, n), 1, [1.0, np.float64(1)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_after_a_valid_call_of_an_equal_key(device, name):
    refused_after_a_good_one(name, cm.asarray(M), cm.asarray(V))


@pytest.mark.parametrize("name", CALLS)
def test_errors_after_a_valid_call_of_an_equal_key_on_a_gpu(fake, name):
    with cm.device("cuda"):
        refused_after_a_good_one(name, gpu(M), gpu(V))


def refused_after_a_good_one(name, m, v):
    call, good, others = CALLS[name]
    for other in others:
        shape = call(m, v, good).shape
        assert call(m, v, good).shape == shape
        with pytest.raises(TypeError, match=r"^\w+: "):
            call(m, v, other)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint8])
def test_numpy_integers_as_indices(device, kind):
    """An address that np.int8(1) is added to does not fit into 8 bits."""
    for m, x in ((np, M), (cm, cm.asarray(M))):
        assert m.diagonal(x, kind(1)).shape == (4, 2)
    for k in (kind(1), kind(0)):
        np.testing.assert_array_equal(np.asarray(cm.diagonal(cm.asarray(M), k)), np.diagonal(M, k))
        np.testing.assert_array_equal(np.asarray(cm.diag(cm.asarray(V), k)), np.diag(V, int(k)))
        np.testing.assert_array_equal(
            np.asarray(cm.diagflat(cm.asarray(M), k)), np.diagflat(M, int(k))
        )
        np.testing.assert_array_equal(np.asarray(cm.trace(cm.asarray(M), k)), np.trace(M, k))


@pytest.mark.parametrize(
    "ends",
    [
        (np.float32(0), np.float32(1)),
        (np.float32(0), 1),
        (np.float16(1), np.float16(9)),
        (np.int8(0), np.float32(2)),
        (np.int8(0), np.int8(1)),
        (0, np.complex64(1j)),
        (0, 1),
    ],
    ids=str,
)
def test_linspace_of_numpy_numbers(device, ends):
    for module in (np, cm):
        got, step = module.linspace(*ends, 5, retstep=True)
        got = got if module is np else np.asarray(got)
        expected, apart = np.linspace(*ends, 5, retstep=True)
        assert got.dtype == expected.dtype and abs(step - apart) < 1e-6
        np.testing.assert_allclose(got, expected, rtol=1e-3 if got.dtype == np.float16 else 1e-6)
    for array in (cm.asarray(ends[0]), np.asarray(ends[0])):
        assert (
            cm.linspace(array, ends[1], 5).dtype
            == np.linspace(np.asarray(ends[0]), ends[1], 5).dtype
        )
    for bad in ("a", None):
        with pytest.raises(TypeError, match="^linspace: wants numbers, got "):
            cm.linspace(bad, 1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "order", [np.int64(1), np.float32(-1), np.int8(2), np.float64(np.inf)], ids=repr
)
def test_norms_of_numpy_orders(device, order):
    for x in (M[0], M[0].astype("f8"), M[0, 0]):
        got, expected = np.asarray(cm.linalg.norm(cm.asarray(x), order)), np.linalg.norm(x, order)
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-5)
