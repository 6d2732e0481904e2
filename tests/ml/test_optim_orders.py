"""Optimizers step parameters in any order of their axes in memory, as NumPy's formulas do."""

import numpy as np
import pytest

import cudamath as cm

ORDERS = [(0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 2, 3)]
SHAPE = (4, 3, 5, 2)


def laid_out(values, order):
    """An array of these values whose axes lie in memory in this order."""
    x = cm.asarray(np.ascontiguousarray(values.transpose(order)))
    return cm.permute_dims(x, np.argsort(order).tolist())


def momentum(p, g, state):
    state["u"] = 0.9 * state.get("u", 0) + g
    return p - 0.1 * state["u"]


def adam(p, g, state):
    state["t"] = state.get("t", 0) + 1
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
    m, v = state["m"] / (1 - 0.9 ** state["t"]), state["v"] / (1 - 0.999 ** state["t"])
    return p - 0.01 * m / (np.sqrt(v) + 1e-8)


def plain(p, g, state):
    return p - 0.1 * g


STEPS = {
    "sgd": (plain, lambda p: None, lambda *a: cm.ml.sgd_update(*a, lr=0.1)),
    "momentum": (
        momentum,
        cm.ml.sgd_init,
        lambda *a: cm.ml.sgd_update(*a, lr=0.1, momentum=0.9),
    ),
    "adam": (adam, cm.ml.adam_init, lambda *a: cm.ml.adam_update(*a, lr=0.01)),
}


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("method", STEPS)
def test_steps_of_parameters_in_any_order(device, method, order):
    formula, begin, step = STEPS[method]
    rng, memory = np.random.default_rng(3), {}
    expected, bias = rng.normal(size=SHAPE), rng.normal(size=7)
    params = {"w": laid_out(expected, order), "b": cm.asarray(bias)}
    strides, address = params["w"].strides, params["w"]._address
    state, bias_memory = begin(params), {}
    for number in range(3):
        g, h = rng.normal(size=SHAPE), rng.normal(size=7)
        expected, bias = formula(expected, g, memory), formula(bias, h, bias_memory)
        grads = {"w": laid_out(g, order if number else (0, 1, 2, 3)), "b": cm.asarray(h)}
        params, state = step(params, grads, state)
        np.testing.assert_allclose(params["w"].to_numpy(), expected, rtol=1e-12)
        np.testing.assert_allclose(params["b"].to_numpy(), bias, rtol=1e-12)
    assert params["w"].strides == strides and params["w"]._address == address


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_copies_in_the_order_of_their_parameters(device, order):
    values = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    params = {"w": laid_out(values, order)}
    copies = cm.ml.amp.cast(params, "bfloat16")
    cm.ml.sgd_update(params, params, lr=0.5, copies=copies)
    np.testing.assert_array_equal(params["w"].to_numpy(), values * np.float32(0.5))
    np.testing.assert_allclose(copies["w"].astype("float32").to_numpy(), values / 2, rtol=2**-8)


def test_what_lies_otherwise_is_refused_and_nothing_is_changed(device):
    values = np.arange(120.0).reshape(SHAPE)
    params, grads = [laid_out(values, ORDERS[0])], [cm.ones(SHAPE)]
    for wrong in (
        lambda: cm.ml.sgd_update(params, grads, [cm.zeros(SHAPE)], lr=1.0, momentum=0.9),
        lambda: cm.ml.sgd_update([params[0][:, ::2]], [grads[0][:, ::2]], lr=1.0),
    ):
        with pytest.raises(ValueError, match="^sgd_update: .*without gaps.*strides"):
            wrong()
    np.testing.assert_array_equal(params[0].to_numpy(), values)


def test_a_step_inside_of_a_gradient_is_noticed(device):
    w = laid_out(np.ones(SHAPE), ORDERS[0])

    def loss(x):
        y = (x * w).sum()
        cm.ml.sgd_update([w], [cm.ones(SHAPE)], lr=1.0)
        return y

    with pytest.raises(RuntimeError):
        cm.grad(loss)(cm.ones(SHAPE))
