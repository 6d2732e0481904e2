"""Arrays that leave for NumPy or another library while a gradient is being recorded through
them."""

import copy
import pickle

import numpy as np
import pytest

import cudamath as cm
from cudamath.autodiff.transforms import Level
from cudamath.core.asarray import upload
from cudamath.core.autograd import tape

X = np.array([3.0, 1.0, 2.0])


def put(x):
    np.zeros(3)[:] = x


def from_dlpack(x):
    return pytest.importorskip("torch").from_dlpack(x)


@pytest.mark.parametrize(
    ("protocol", "leave"),
    [
        ("__array__", np.asarray),
        ("__array__", lambda x: np.array([x, x])),
        ("__array__", put),
        ("__array__", lambda x: np.random.default_rng(1).normal(x)),
        ("__array__", lambda x: np.asarray(x[1:] * 2, "float32")),
        ("__dlpack__", from_dlpack),
        ("__dlpack__", lambda x: x.__dlpack__()),
    ],
)
def test_a_gradient_is_not_lost_without_a_word(device, protocol, leave):
    x = cm.asarray(X)
    message = (
        rf"^{protocol}: the gradient of float64 of shape \([23],\) .* "
        r"cm.stop_gradient\(x\).* x.to_numpy\(\)"
    )
    leave(x)
    for record in (
        cm.grad(lambda x: leave(x) or x.sum()),
        lambda x: cm.vjp(lambda x: leave(x) or x, x),
        lambda x: cm.jvp(lambda x: leave(x) or x, (x,), (x,)),
        cm.grad(lambda x: cm.grad(lambda y: (y * x).sum() + 0 * (leave(x) or 0))(x).sum()),
    ):
        with pytest.raises(TypeError, match=message):
            record(x)
    assert cm.grad(lambda x: (leave(cm.stop_gradient(x)), x.sum())[1])(x).tolist() == [1.0] * 3


def test_what_says_that_a_constant_is_meant_may_leave(device):
    """And what has no gradient: integers, comparisons, arrays kept from a recording that has ended,
    what a rule of one's own computes in NumPy."""
    seen = []

    def loss(x):
        for leave in (
            lambda x: x.to_numpy(),
            lambda x: np.asarray(x.tolist()),
            lambda x: np.float64([float(v) for v in x]),
            lambda x: np.float64([v.item() for v in x]),
            lambda x: np.frombuffer(x.tobytes()),
            lambda x: pickle.loads(pickle.dumps(x)).to_numpy(),
            lambda x: copy.deepcopy(x).to_numpy(),
            lambda x: np.asarray(x.astype("int64")),
            lambda x: X * np.asarray(x > 0),
        ):
            np.testing.assert_array_equal(leave(x), X)
        assert repr(X)[6:-1] in repr(x) and str(x) == str(X) and f"{x[0]:.1f}" == "3.0"
        seen.append(x)
        return (np.sin(x) * np.ones(3) + np.where(x > 2, x, X)).sum()

    np.testing.assert_allclose(cm.grad(loss)(cm.asarray(X)).to_numpy(), np.cos(X) + (X > 2))
    np.testing.assert_array_equal(np.asarray(seen[0]), X)

    @cm.custom_vjp
    def sine(x):
        return cm.asarray(np.sin(np.asarray(x)))

    sine.defvjp(
        lambda x: (sine(x), np.cos(np.asarray(x))),
        lambda slope, g: (cm.asarray(slope * np.asarray(g)),),
    )
    np.testing.assert_allclose(
        cm.grad(lambda x: sine(x).sum())(cm.asarray(X)).to_numpy(), np.cos(X)
    )
    with pytest.raises(
        TypeError, match="^__array__: the gradient of float64"
    ):  # which NumPy computes: no second derivative
        cm.grad(lambda x: cm.grad(lambda x: sine(x).sum())(x).sum())(cm.asarray(X))


def test_memory_of_a_gpu_does_not_leave_either(fake):
    x = upload(X, 0)
    with Level():
        recorded = tape.leaf(x)
        with pytest.raises(TypeError, match="^__cuda_array_interface__: the gradient of float64"):
            recorded.__cuda_array_interface__  # noqa: B018
        with pytest.raises(TypeError, match="^__dlpack__: the gradient of float64"):
            recorded.__dlpack__()
        assert cm.stop_gradient(recorded).__cuda_array_interface__ == x.__cuda_array_interface__
    assert recorded.__cuda_array_interface__ == x.__cuda_array_interface__
