"""Plans are forgotten when there are too many: meanwhile, from other threads, and never piled
up."""

import sys
from concurrent.futures import ThreadPoolExecutor

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
