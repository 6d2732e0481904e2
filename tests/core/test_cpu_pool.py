"""Memory of results on the CPU: used again only when nobody can see it any more."""

import gc
import threading

import numpy as np
import pytest
from threads import together

import cudamath as cm
from cudamath.core import cpu_pool

LARGE = (cpu_pool.SMALLEST // 4,)  # float32


@pytest.fixture(autouse=True)
def forgotten():
    cpu_pool.release()
    yield
    cpu_pool.release()


@pytest.fixture
def numbers():
    values = np.random.default_rng(3).standard_normal(LARGE, dtype=np.float32)
    return values, cm.asarray(values, device="cpu")


def test_memory_is_used_again(numbers):
    _, x = numbers
    places = {(x + 1.0).ptr for _ in range(20)}
    assert len(places) == 1
    assert cpu_pool.remembered() == LARGE[0] * 4


def test_results_begin_with_a_page_and_own_their_memory(numbers):
    _, x = numbers
    held = [x + float(k) for k in range(2 * cpu_pool.EACH)]
    for y in (*held, x > 0.0, cm.concat([x, x]) * 2.0):
        assert y.flags.owndata and y.flags.writeable
        assert y.ptr % cpu_pool.PAGE == 0 or y.nbytes < cpu_pool.SMALLEST
        assert not y[1:].flags.owndata and not y.reshape(2, -1).flags.owndata


@pytest.mark.parametrize(
    "hold",
    [
        lambda y: y,
        lambda y: y[3:],
        lambda y: y.reshape(2, -1),
        lambda y: y.to_numpy(),
        lambda y: np.asarray(y)[::2],
        lambda y: memoryview(y.to_numpy()),
        lambda y: np.from_dlpack(y),
        lambda y: cm.asarray(y.to_numpy()),
        lambda y: y.to_numpy().view(np.int32),
        lambda y: y.to_numpy().view().view()[1:].T,
        lambda y: np.lib.stride_tricks.as_strided(y.to_numpy(), (7,), (8,)),
        lambda y: y.to_numpy().data.cast("B"),
        lambda y: y[::2][3:].to_numpy(),
    ],
    ids=[
        "array",
        "view",
        "reshaped",
        "numpy",
        "strided",
        "buffer",
        "dlpack",
        "again",
        "other dtype",
        "view of view",
        "as strided",
        "bytes",
        "view of our view",
    ],
)
def test_nothing_that_somebody_sees_is_overwritten(numbers, hold):
    values, x = numbers
    held = [hold(x * float(k)) for k in range(2 * cpu_pool.EACH)]
    for _ in range(3):
        x - 5.0
    gc.collect()
    for k, each in enumerate(held):
        seen = np.asarray(each)
        expected = np.asarray(hold(cm.asarray(values * np.float32(k), device="cpu")))
        np.testing.assert_array_equal(seen, expected)


def test_values_that_a_gradient_needs_are_kept(numbers):
    values, x = numbers
    gradient = cm.grad(lambda x: (cm.exp(x * 2.0) * x).sum())(x)
    exact = np.exp(2 * values.astype(np.float64)) * (1 + 2 * values.astype(np.float64))
    np.testing.assert_allclose(gradient.to_numpy(), exact, rtol=1e-5, atol=1e-6)


def test_changing_the_shape_of_what_to_numpy_gave_changes_no_array(numbers):
    values, x = numbers
    y = x + 1.0
    seen = y.to_numpy()
    seen.shape = (2, -1)
    seen.flags.writeable = False
    del seen, y
    np.testing.assert_array_equal((x + 1.0).to_numpy(), values + np.float32(1))


def test_what_is_remembered_is_limited(monkeypatch):
    monkeypatch.setattr(cpu_pool, "LIMIT", 8 * cpu_pool.SMALLEST)
    for n in range(1, 20):
        x = cm.zeros((n, *LARGE), dtype="float32", device="cpu")
        held = [x + 1.0 for _ in range(cpu_pool.EACH + 2)]
        assert cpu_pool.remembered() <= 8 * cpu_pool.SMALLEST
        del held
    monkeypatch.setattr(cpu_pool, "SHAPES", 3)
    for n in range(10):
        cm.zeros((LARGE[0] + n,), dtype="float32", device="cpu") + 1.0
    assert len(cpu_pool._kept) <= 3


def test_small_arrays_are_not_remembered():
    cm.zeros(100, device="cpu") + 1.0
    assert cpu_pool.remembered() == 0


def test_release_gives_memory_back(numbers):
    _, x = numbers
    y = x + 1.0
    cm.cuda.empty_cache()
    assert cpu_pool.remembered() == 0
    np.testing.assert_array_equal((y + 1.0).to_numpy(), y.to_numpy() + 1)


def test_threads_never_share_a_result(numbers):
    values, x = numbers
    wrong = []

    def work(k):
        for _ in range(200):
            y = x + float(k)
            z = y * 2.0
            if z.to_numpy()[0] != (values[0] + np.float32(k)) * 2 or y.to_numpy()[-1] != values[
                -1
            ] + np.float32(k):
                wrong.append(k)

    together(4, work)
    assert not wrong


def test_finalisers_may_compute_and_empty_the_cache_at_any_time(numbers):
    """A collection of garbage runs them wherever this package makes an object."""
    values, x = numbers
    sums = []

    class Finalised:
        def __init__(self):
            self.me = self

        def __del__(self):
            more = len(sums) + 1
            sums.append(
                (cm.asarray(np.ones(LARGE[0] + more, np.float32), device="cpu") + 1.0)
                .to_numpy()
                .sum()
                - 2 * more
            )
            if more % 50 == 0:
                cm.cuda.empty_cache()

    def work():
        for k in range(300):
            Finalised()
            part = cm.asarray(np.resize(values, LARGE[0] + k), device="cpu") + float(k)
            assert cpu_pool.remembered() <= cpu_pool.LIMIT
            np.testing.assert_array_equal(part.to_numpy()[: LARGE[0]], values + np.float32(k))
        done.append(True)

    done, before = [], gc.get_threshold()
    thread = threading.Thread(target=work, daemon=True)
    gc.set_threshold(7, 2, 1_000_000)
    try:
        thread.start()
        thread.join(60)
    finally:
        gc.set_threshold(*before)
    assert done and len(sums) > 100 and set(sums) == {2 * LARGE[0]}


def test_without_a_global_lock_nothing_is_used_again(numbers, monkeypatch):
    values, _ = numbers
    monkeypatch.setattr(cpu_pool, "FREE", -1)
    x = cm.asarray(np.concatenate([values, values]), device="cpu")  # a layout that has no plan yet
    first = x + 1.0
    place = first.ptr
    del first
    second, third = x + 1.0, x + 1.0
    assert second.ptr != third.ptr and place


@pytest.mark.filterwarnings("error")
def test_copies_and_casts_are_their_own(numbers):
    values, x = numbers
    held = [x.copy() for _ in range(2 * cpu_pool.EACH)] + [
        (x * 1e30).astype("int32"),
        x.astype("float64"),
        x[::-1].copy(),
    ]
    for each in held[: cpu_pool.EACH]:
        each += 1.0
    for k, each in enumerate(held[: 2 * cpu_pool.EACH]):
        np.testing.assert_array_equal(each.to_numpy(), values + np.float32(k < cpu_pool.EACH))
    np.testing.assert_array_equal(held[-2].to_numpy(), values.astype("f8"))
    np.testing.assert_array_equal(held[-1].to_numpy(), values[::-1])
    assert held[-1].flags.c_contiguous and held[-1].flags.owndata
    wide = (x + 1j * x).astype("complex64")
    np.testing.assert_array_equal(wide.copy().to_numpy(), wide.to_numpy())
    np.testing.assert_array_equal(cm.real(wide).to_numpy(), values)
    np.testing.assert_array_equal(
        x.astype(cm.bfloat16).copy().astype("float32").to_numpy(),
        values.astype(cm.bfloat16).astype("f4"),
    )
