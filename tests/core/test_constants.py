"""Numbers that lie on a GPU for good, where gradients begin: nobody can change them, whatever is
done with a gradient. And what such gradients cost: launches, on the fake driver."""

from __future__ import annotations

import numpy as np
import pytest
from fake_driver import FakeDriver, gpu
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.core.autograd import constants
from cudamath.core.layout import Layout


def doubled(x, seen):
    """A function whose gradient rule changes the gradient that it is given in place."""

    @cm.custom_vjp
    def same(x):
        return x * 1.0

    def backward(_, g):
        seen.append(g.tolist())
        g *= 2.0
        return (g,)

    same.defvjp(lambda x: (x * 1.0, None), backward)
    return same(x)


def changed_in_place():
    """Gradients that are nothing but views of where they begin, each changed as soon as it is
    there; what they were."""
    number, row, seen = cm.asarray(np.float32(3)), cm.ones((1, 1), dtype="float32"), []
    functions = [
        (lambda x: x, number),
        (lambda x: x.reshape(()), row),
        (lambda x: x.sum(), row),
        (lambda x: x.mean(), row),
        (lambda x: x[0, 0], row),
        (lambda x: x.T.sum(0).mean(), row),
        (lambda x: doubled(x, seen), number),
    ]
    found = []
    for _ in range(2):
        for function, x in functions:
            g = cm.grad(function)(x)
            found.append(g.item())
            g += 5.0
        first, second = cm.grad(lambda x, y: x + y, (0, 1))(number, number)
        first += 7.0
        found += [first.item(), second.item()]
    return found, seen


WANTED = [1, 1, 1, 1, 1, 1, 2, 8, 1] * 2, [1.0, 1.0]


def test_gradients_are_changed_alone(device):
    assert changed_in_place() == WANTED


@pytest.mark.simulator
def test_gradients_are_changed_alone_simulated(monkeypatch):
    with simulated_gpu(monkeypatch):
        assert changed_in_place() == WANTED


#: Means of (3, 5) elements, of all elements and (ALONG) of lines, and the gradient by x in words.
MEANS = [
    (lambda x: x.mean(), lambda x: 1 / 15),
    (lambda x: (x * 2.0).mean((0, 1)), lambda x: 2 / 15),
    (lambda x: (cm.grad(lambda x: (x**3).mean())(x) ** 2).mean(), lambda x: 36 * x**3 / 15**3),
]
ALONG = [
    (lambda x: x.mean(1).mean(), lambda x: 1 / 15),
    (lambda x: x.sum(1).mean(), lambda x: 1 / 3),
    (lambda x: (x.mean(1) * 2.0).sum(), lambda x: 2 / 5),
    (lambda x: x.mean(0).sum(), lambda x: 1 / 3),
    (lambda x: x.sum(0).mean(), lambda x: 1 / 5),
]


def check_means(dtype, those):
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(dtype)
    for function, slope in those:
        found = cm.grad(function)(cm.asarray(x))
        assert found.dtype == dtype and found.shape == (3, 5)
        np.testing.assert_allclose(
            found.to_numpy(),
            np.broadcast_to(slope(x.astype("f8")), (3, 5)),
            atol=1e-5,
            rtol=4e-3 if dtype == "float16" else 2e-6,
        )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_means(device, dtype):
    check_means(dtype, MEANS + ALONG)


def test_divided(fake):
    """What means begin with; 16-bit numbers are divided on the device, as any others."""
    for dtype, rtol in (("f4", 6e-8), ("f8", 2e-16)):
        x = constants.number(1.0, Layout.new((), np.dtype(dtype), 0))
        found = constants.divided(constants.divided(cm.broadcast_to(x, (3, 5)), 3), 5)
        assert found.shape == (3, 5) and found.strides == (0, 0) and found.dtype == dtype
        np.testing.assert_allclose(cm.reshape(found[:1, :1], ()).tolist(), 1 / 15, rtol=rtol)
        assert constants.divided(x, 0) is constants.divided(gpu(np.ones((), dtype)), 3) is None
    assert constants.divided(constants.number(1.0, Layout.new((), np.dtype("f2"), 0)), 3) is None


def test_one_number_of_each_layout(fake):
    layouts = [
        Layout.new(shape, np.dtype(dtype), index)
        for shape in ((), (1,))
        for dtype in ("f4", "f8")
        for index in (0, 1)
    ]
    for layout in layouts:
        for value in (1.0, 0.25):
            first, second = constants.number(value, layout), constants.number(value, layout)
            assert first is not second and first._data == second._data and first._layout is layout
            assert first.tolist() == np.full(layout.shape, value).tolist()
    assert len(constants.made) == 16


def test_not_too_many_numbers(fake, monkeypatch):
    monkeypatch.setattr(constants, "_MOST", 3)
    monkeypatch.setattr(FakeDriver, "finish", lambda self, target: None)  # kernels do not run
    for n in range(1, 6):
        cm.grad(lambda x: x.mean())(gpu(np.ones(n, "f4")))
    assert len(constants.made) == 3  # 1 itself, its half and its third


def launches(fake, function, *arrays, argnums=0):
    """How many the second call takes."""
    for _ in range(2):
        fake.launches.clear()
        cm.grad(function, argnums)(*arrays)
    return len(fake.launches)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: x.sum(), 2),
        (lambda x: x.mean(), 2),
        (lambda x: cm.exp(x).mean(), 3),
        (lambda x: cm.sin(x).sum(0).sum(), 5),
    ],
)
def test_launches(fake, monkeypatch, function, wanted):
    """The value, the gradient: nothing to begin with."""
    monkeypatch.setattr(FakeDriver, "finish", lambda self, target: None)
    assert launches(fake, function, gpu(np.ones((4, 6), "f4"))) == wanted
