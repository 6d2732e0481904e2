"""Numbers that are drawn ahead are those that would be drawn, and leave the generator where it
would be."""

import copy
import pickle
import random

import numpy as np
import pytest

import cudamath as cm

DRAWS = [
    ("random", ()),
    ("uniform", (-1, 1.5)),
    ("normal", ()),
    ("normal", (1.0, 2.0)),
    ("standard_normal", ()),
    ("exponential", (2.0,)),
    ("standard_exponential", ()),
    ("lognormal", (0.0, 0.5)),
    ("integers", (4,)),
    ("integers", (-5, 100)),
    ("integers", (1 << 40,)),
]


@pytest.fixture(autouse=True)
def on_the_cpu():
    with cm.device("cpu"):
        yield


@pytest.mark.parametrize("name, parameters", DRAWS)
def test_the_same_numbers_and_the_same_state(name, parameters):
    """A tuple as size is never drawn ahead."""
    ahead, plain = cm.random.default_rng(3), cm.random.default_rng(3)
    choice = random.Random(1)
    for _ in range(800):
        n = choice.choice([None, None, None, 1, 2, 3, 7, 200, 256, 257])
        ours = getattr(ahead, name)(*parameters, **({} if n is None else {"size": n}))
        wanted = getattr(plain, name)(*parameters, size=() if n is None else (n,))
        assert np.array_equal(ours, wanted) and np.shape(ours) == np.shape(wanted)
        assert type(ours) is type(wanted) and ours.dtype == wanted.dtype
        assert ahead.state == plain.state


def test_copies_and_jumps():
    rng = cm.random.default_rng(5)
    first = [rng.normal() for _ in range(50)]
    state = rng.state
    further = [rng.normal() for _ in range(50)]
    for other in (pickle.loads(pickle.dumps(rng)), copy.deepcopy(rng)):
        other.state = state
        assert [other.normal() for _ in range(50)] == further
    rng.state = state | {"offset": 0}
    assert [rng.normal() for _ in range(50)] == first
    rng.state = cm.random.default_rng(6).state
    assert rng.normal() == cm.random.default_rng(6).normal(size=())


def test_other_draws_between():
    a, b = cm.random.default_rng(7), cm.random.default_rng(7)
    for k in range(100):
        one = a.random(), a.integers(10), a.normal(0.0, float(k)), a.permutation(3), a.random(500)
        two = (
            b.random(size=()),
            b.integers(10, size=()),
            b.normal(0.0, float(k), size=()),
            b.permutation(3),
            b.random((500,)),
        )
        assert all(np.array_equal(x, y) for x, y in zip(one, two, strict=True))
    assert a.state == b.state


def test_distributions_of_the_same_parameters():
    a, b = cm.random.default_rng(7), cm.random.default_rng(7)
    for _ in range(20):
        for name in ("normal", "uniform", "lognormal"):
            assert getattr(a, name)(0.5, 1.5) == getattr(b, name)(0.5, 1.5, size=())
    assert a.state == b.state


def test_a_result_is_an_array_of_its_own():
    rng, again = cm.random.default_rng(1), cm.random.default_rng(1)
    for _ in range(20):
        x = rng.random(3)
        x[...] = 0.0
        assert np.array_equal(rng.random(3), [again.random((3,)), again.random((3,))][1])


def test_the_default_dtype_and_device():
    rng = cm.random.default_rng(1)
    assert {rng.random().dtype for _ in range(20)} == {np.dtype("f8")}
    cm.set_default_dtype("float32")
    try:
        assert {rng.random().dtype for _ in range(20)} == {np.dtype("f4")}
    finally:
        cm.set_default_dtype("float64")


def test_errors_stay():
    rng = cm.random.default_rng(1)
    for _ in range(3):
        with pytest.raises(ValueError, match="random.normal: "):
            rng.normal(0.0, -1.0)
        with pytest.raises(TypeError, match="random.integers: "):
            rng.integers(5.5)
        assert rng.integers(4) < 4  # is kept, but not for a float64 of that value
        with pytest.raises(TypeError, match="random.integers: "):
            rng.integers(4.0)
        with pytest.raises(ValueError, match="negative size"):
            rng.random(-1)
