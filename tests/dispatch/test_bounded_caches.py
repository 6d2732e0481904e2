"""Plans are forgotten when there are too many: meanwhile, from other threads, and never piled
up."""

import functools
import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cudamath as cm
from cudamath.core import bounded_cache


@pytest.mark.parametrize("most", [1, 2, 3])
def test_plans_that_are_forgotten_meanwhile(device, monkeypatch, most):
    """Remembering a call may be what makes too many plans: all are forgotten then, the call's own
    among them."""
    monkeypatch.setattr(bounded_cache, "MOST", most)
    for dtype in ("float32", "float64", "int64", "int8"):
        x = cm.ones((2, most), dtype)
        for wanted in ("float16", "float32", "float64", dtype) * 2:
            assert cm.astype(x, wanted).tolist() == x.astype(wanted).tolist() == cm.copy(x).tolist()
        assert (
            (x + x).sum(0).tolist()
            == (2 * x).sum(axis=0).tolist()
            == cm.cumulative_sum(x + x, axis=0)[-1].tolist()
        )
        assert cm.random.default_rng(3).random(most).shape == cm.full(most, 2).shape == x[0].shape


def test_threads_forget_plans_of_each_other(monkeypatch):
    monkeypatch.setattr(bounded_cache, "MOST", 1)
    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def conversions(kind):
        with cm.device("cpu"):
            for i in range(500):
                x = cm.ones((1 + i % 3, 1 + i % 5), kind)
                assert x.astype(kind).astype("int16").astype(kind).sum() == x.size
        return True

    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(conversions, ("float32", "float64", "int32", "int64")))
    finally:
        sys.setswitchinterval(pause)


def test_plans_do_not_pile_up(fake, monkeypatch):
    """However many layouts and options there are, so many plans and replays are kept at most."""
    from cudamath.ops.reduce import _sum

    monkeypatch.setattr(bounded_cache, "MOST", 4)
    with cm.device("cuda"):
        for k in range(1, 20):
            x = cm.zeros((k, 3), dtype="float32")
            for axis in (0, 1):
                cm.sum(x, axis)
                cm.vjp(lambda x, axis=axis: cm.sum(x, axis), x)
    replays, recorded = (cm.sum.__globals__[table] for table in ("replays", "recorded"))
    for table in (_sum.plans, replays, recorded):
        assert 0 < len(table) <= 4


def test_plans_of_other_sizes_share_their_source(fake):
    """The code of a plan names no size: a new grid, offset or amount of shared memory compiles
    nothing."""
    from cudamath.core.dispatch.plan_codegen import _factory

    def calls(n):
        x, images = cm.ones(n, "float32"), cm.ones((1, 2, n >> 10, 9), "float32")
        table = cm.ones((n >> 10, 100), "float32")
        weight = cm.ones((3, 2, 3, 3), "float32")
        results = x + x, x[1:] * 2, cm.cumulative_sum(x), cm.sort(x), cm.concat([x, x])
        results += cm.ml.softmax(table), table.sum(1), table.T.copy(), cm.ml.conv2d(images, weight)
        return results, cm.sum(x), cm.random.default_rng(1).normal(size=n)

    with cm.device("cuda"):
        for n in range(1 << 15, 1 << 16, 1 << 11):  # every kind of alignment and of kernel
            calls(n + n // (1 << 11) % 4)
        before = _factory.cache_info().currsize
        for n in range(1 << 16, 5 << 15, 1 << 11):
            calls(n + n // (1 << 11) % 4)
    assert _factory.cache_info().currsize - before <= 2  # other kernels for longer rows


def test_no_cache_without_a_limit_grows_with_the_shapes(fake, monkeypatch):
    """Only what is compiled for a kernel's own tile sizes is kept for good."""
    monkeypatch.setattr(bounded_cache, "MOST", 8)
    fake.idle = True

    def sizes():
        return {
            f"{cache.__module__}.{cache.__qualname__}": cache.cache_info().currsize
            for cache in gc.get_objects()
            if type(cache) is functools._lru_cache_wrapper
            and (cache.__module__ or "").startswith("cudamath")
            and cache.cache_info().maxsize is None
        }

    def calls(number):
        k = number << 7
        x, v = cm.ones((k + 2, 5), "float32"), cm.ones(k + 5, "float32")
        images = cm.ones((1, 2, number + 6, 7), "float32")
        x + x, x.sum(0), x[1:, 1:].copy(), cm.roll(x, k), cm.pad(x, ((1, 2), (0, 1)))
        cm.ml.conv2d(images, cm.ones((3, 2, 3, 3), "float32")), cm.ml.max_pool2d(images, 2)
        cm.sort(v), cm.cumulative_sum(v), cm.einsum("ij,ik->jk", x, x), cm.tile(v, (2, 3))
        cm.random.default_rng(1).permutation(k + 3), cm.quantile(v, 0.3), cm.ml.softmax(x)
        cm.grad(lambda x: (x * cm.exp(x)).sum())(x)

    for device in ("cpu", "cuda"):
        with cm.device(device):
            for k in range(12):
                calls(k)
            before = sizes()
            for k in range(12, 52):
                calls(k)
            grown = {name: n - before.get(name, 0) for name, n in sizes().items()}
        kept = {name for name, n in grown.items() if n > 20 and ".kernels." not in name}
        assert kept <= {"cudamath.runtime.kernel_launch._library"}, kept


def test_a_table_that_another_thread_empties_meanwhile(monkeypatch):
    """Between the call that filled it and the look at what it holds."""
    card = cm.exp.card
    of_numbers = type(card)._of_numbers

    def emptied(self, operands):
        out = of_numbers(self, operands)
        self.plans.clear()
        return out

    card.plans.clear()
    with cm.device("cpu"), monkeypatch.context() as patch:
        patch.setattr(type(card), "_of_numbers", emptied)
        assert cm.exp(1.5) == np.exp(1.5)
    with cm.device("cpu"):
        assert cm.exp(1.5) == np.exp(1.5)
        assert float in card.plans
