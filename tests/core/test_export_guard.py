"""Arrays that leave for NumPy or another library while a gradient is being recorded through
them."""

import copy
import math
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
        r"give cm.stop_gradient\(x\) if a constant is meant"
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


NUMBERS = {
    "float": [float, math.floor, math.sqrt, lambda x: "%f" % x],  # noqa: UP031
    "int": [int],
    "complex": [complex],
    "bool": [bool, lambda x: 1 if x else 2, lambda x: x and 1, lambda x: not x],
    "item": [lambda x: x.item()],
    "format": [lambda x: f"{x:.2f}", "{:e}".format],
    "round": [round, lambda x: round(x, 2)],
    "trunc": [math.trunc],
    "tolist": [lambda x: x.tolist()],
    "to_numpy": [lambda x: x.to_numpy(), cm.math.to_numpy],
    "tobytes": [lambda x: x.tobytes()],
    "copy_to": [lambda x: x.copy_to(np.empty(x.shape))],
}
ADVICE = {"bool": "cm.where", "round": "cm.round", "trunc": "cm.trunc", "int": "cm.floor"}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_do_not_drop_the_gradient_in_silence(device, name):
    for convert in NUMBERS[name]:
        convert(cm.asarray(0.5))

        def loss(x, convert=convert):
            y = x * x
            convert(y)
            return y

        for record in (
            cm.grad(loss),
            cm.value_and_grad(loss),
            lambda x: cm.vjp(loss, x),  # noqa: B023
            lambda x: cm.jvp(loss, (x,), (x,)),  # noqa: B023
            cm.grad(cm.grad(loss)),
            cm.grad(cm.checkpoint(loss)),
        ):
            with pytest.raises(
                TypeError,
                match=rf"^{name}: (the gradient of|wants a number where it got) float64 .*"
                r"would be lost; give cm.stop_gradient\(x\)",
            ) as caught:
                record(cm.asarray(0.5))
            assert ADVICE.get(name, "") in str(caught.value)
        constant = cm.grad(lambda x: x * (convert(cm.stop_gradient(x)) is not loss))  # noqa: B023
        assert float(constant(cm.asarray(0.5))) == 1.0


def test_numbers_of_recorded_arrays_of_a_gpu(fake):
    """On the fake driver, whose numbers can be read."""
    x = upload(np.asarray(0.5), 0)
    for calls in NUMBERS.values():
        for convert in calls:
            if convert in (cm.math.to_numpy,):
                continue
            convert(x)
            with Level():
                recorded = tape.leaf(x)
                with pytest.raises(TypeError, match="the gradient of float64 of shape .. is being"):
                    convert(recorded)
                convert(cm.stop_gradient(recorded))
            convert(recorded)  # the recording has ended


def test_decisions_by_comparison_are_allowed(device):
    """A comparison has no gradient, so none is lost."""

    def loss(x):
        if x > 2:
            return x * 3
        while (x < 1).any():
            x = x * 2
        return x.argmax() * 1.0 + x * (int(x > 0) + bool(x == 1) + float(x > 0.5))

    assert float(cm.grad(loss)(cm.asarray(3.0))) == 3
    assert float(cm.grad(loss)(cm.asarray(0.25))) == 4 * 3


def test_our_own_functions_decide_without_losing_anything(device):
    x = cm.asarray([[0.2, 0.1], [0.0, 0.3]])
    cm.grad(lambda x: cm.linalg.expm(x).sum())(x)
    line = cm.asarray([1.0, 3.0, 2.0])
    for loss in (
        lambda x: (cm.histogram(x, 4)[0] * 1.0).sum() + x.sum(),
        lambda x: (cm.histogram(x, "fd")[0] * 1.0).sum() + x.sum(),
        lambda x: cm.histogram(cm.stop_gradient(x), 3, weights=x)[0].sum(),
        lambda x: cm.testing.assert_close(x, [1, 3, 2], rtol=0) or x.sum(),
        lambda x: cm.polyval(cm.poly(x), 0.5),
        lambda x: cm.polydiv(x, cm.asarray([1.0, 2.0]))[0].sum(),
        lambda x: x.to("cpu").sum(),
        lambda x: (cm.array2string(x), cm.array_repr(x), cm.array_str(x), x.sum())[-1],
    ):
        assert cm.grad(loss)(line).shape == (3,)


def test_what_says_that_a_constant_is_meant_may_leave(device):
    """And what is printed or stored, and what has no gradient: integers, comparisons, arrays kept
    from a recording that has ended, what a rule of one's own computes in NumPy."""
    seen = []

    def loss(x):
        c = cm.stop_gradient(x)
        for left in (
            c.to_numpy(),
            np.asarray(c.tolist()),
            np.float64([float(v) for v in c]),
            np.float64([v.item() for v in c]),
            np.frombuffer(c.tobytes()),
            pickle.loads(pickle.dumps(x)).to_numpy(),
            copy.deepcopy(c).to_numpy(),
            np.asarray(x.astype("int64")),
            X * np.asarray(x > 0),
        ):
            np.testing.assert_array_equal(left, X)
        assert repr(X)[6:-1] in repr(x) and str(x) == str(X) and f"{x}" == str(X)
        assert f"{x[0]}" == "3.0" and str(x[0]) == "3.0"
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
