"""QR of small matrices by our own kernels, qr_small and r_small by name, beside LAPACK's factors
and signs: layouts, ranks, numbers at the ends of the range, NaN; in Numba's simulator and on a GPU.
What the public functions do: test_linalg.py."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fake_driver import gpu as on_gpu
from gradient_checks import MACHINES, check_everywhere, run_version
from matrices import SMALL, H, rand
from strategies import eps

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.linalg import dispatch, qr_small
from cudamath.runtime import device as devices

CASES = {
    **SMALL,
    "upper": lambda rng: np.triu(rng.standard_normal((5, 5))),
    "negative": lambda rng: -np.eye(4),
    "large": lambda rng: rng.standard_normal((4, 4)) * 1e37,
    "small": lambda rng: rng.standard_normal((4, 4)) * 1e-37,
    "graded": lambda rng: rng.standard_normal((5, 5)) * 10.0 ** np.arange(0, -30, -6),
}
LARGER = {
    "lanes 16": (100, 20),
    "lanes 32": (250, 9),
    "square": (64, 64),
    "more columns than threads have": (64, 130),
    "wide": (3, 256),
    "batch": (300, 17, 17),
}


def check(q: np.ndarray, r: np.ndarray, a: np.ndarray, complete: bool) -> None:
    """Q orthonormal, R triangular, A again, and the signs on the diagonal LAPACK's."""
    theirs = np.linalg.qr(a, "complete" if complete else "reduced")
    assert q.shape == theirs.Q.shape and r.shape == theirs.R.shape and q.dtype == r.dtype == a.dtype
    wide = np.promote_types(a.dtype, np.float64)
    bound = 8 * eps(a.dtype) * max(a.shape[-2:]) ** 0.5
    assert np.abs(H(q).astype(wide) @ q - np.eye(q.shape[-1])).max() <= bound
    size = float(np.abs(a).max(initial=0.0))
    assert (
        np.abs(q.astype(wide) @ r - a).max() <= bound * max(size, 1e-300) * max(a.shape[-2:]) ** 0.5
    )
    assert (np.tril(r, -1) == 0).all()
    ours, expected = (np.diagonal(x, axis1=-2, axis2=-1) for x in (r, theirs.R))
    clear = np.abs(expected) > 1e-3 * size
    np.testing.assert_array_equal(np.sign(ours.real)[clear], np.sign(expected.real)[clear])


def planned(planner, layout, **how):
    plan = planner(layout, version="shared_memory", **how)
    assert names(plan)[-1] == {"qr": "qr_small", "qr_r": "r_small"}[planner.__name__]
    return plan


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("case", CASES)
def test_small_factors(machine, dtype, case):
    rng = np.random.default_rng(0)
    a = CASES[case](rng)
    a = (a * (1 - 2j) if dtype[0] == "c" else a).astype(dtype, copy=False)
    for complete in (False, True):
        q, r = run_version(
            machine, lambda x, complete=complete: planned(dispatch.qr, x, complete=complete), a
        )
        check(q, r, a, complete)
    only = run_version(machine, lambda x: planned(dispatch.qr_r, x), a)
    np.testing.assert_array_equal(only, r[..., : min(a.shape[-2:]), :])


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("case", "dtype"),
    [  # of complex128, 250 rows are more than the lanes of a column hold
        fits
        for fits in itertools.product(LARGER, ["f4", "f8", "c8", "c16"])
        if fits != ("lanes 32", "c16")
    ],
)
def test_larger_factors(case, dtype):
    a = rand(np.random.default_rng(0), LARGER[case], dtype)
    for complete in (False, True):
        q, r = run_version(
            "gpu", lambda x, complete=complete: planned(dispatch.qr, x, complete=complete), a
        )
        check(q, r, a, complete)
    only = run_version("gpu", lambda x: planned(dispatch.qr_r, x), a)
    np.testing.assert_array_equal(only, r[..., : min(a.shape[-2:]), :])


@pytest.mark.gpu
def test_the_library_by_name():
    a = rand(np.random.default_rng(0), (20, 12), "f8")
    q, r = run_version("gpu", lambda x: dispatch.qr(x, complete=False, version="cusolver"), a)
    check(q, r, a, False)
    np.testing.assert_allclose(
        run_version("gpu", lambda x: dispatch.qr_r(x, version="cusolver"), a), r, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_not_finite_stays_beside_the_rest(machine):
    """NaN and infinity make NaN of what they touch, as in NumPy, and nothing waits for ever."""
    for value in (np.nan, np.inf):
        a = rand(np.random.default_rng(0), (2, 4, 4), "f4")
        a[1, 2, 1] = value
        q, r = run_version(
            machine, lambda x: dispatch.qr(x, complete=False, version="shared_memory"), a
        )
        check(q[0], r[0], a[0], False)
        assert np.isnan(q[1]).any() and np.isnan(r[1]).any()


@pytest.mark.gpu
def test_small_factors_can_be_captured():
    a = rand(np.random.default_rng(0), (3, 9, 9), "f4")
    found = cm.cuda.graph(lambda x: cm.linalg.qr(x))(cm.asarray(a, device="cuda"))
    check(found[0].to_numpy(), found[1].to_numpy(), a, False)


def names(plan) -> list[str]:
    return [getattr(getattr(step, "kernel", None), "__name__", "library") for step in plan.steps]


def test_which_matrices_are_small():
    def small(shape, dtype="f4", complete=False, capability=(9, 0)):
        with devices.assume(capability):
            a = Layout.new(shape, np.dtype(dtype), 0)
            return (names(dispatch.qr(a, complete=complete)), names(dispatch.qr_r(a))) == (
                ["qr_small"],
                ["r_small"],
            )

    assert (
        small((64, 64))
        and small((64, 64), "f8")
        and small((3, 256))
        and small((256, 20), "c8", complete=True)
    )
    assert small((128, 20), "c16") and not small((129, 20), "c16")
    assert small((128, 128), "f8") and small((9, 9), capability=(7, 5)) and small((5, 1))
    assert (
        not small((128, 128), "c16") and not small((257, 2)) and not small((2, qr_small.MOST + 1))
    )
    assert not small((128, 128), "f8", capability=(7, 5))


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
def test_one_launch(fake, mode):
    a = on_gpu(np.ones((2, 16, 8), np.float32))
    fake.launches.clear()
    cm.linalg.qr(a, mode)
    assert len(fake.launches) == 1, [launch[0] for launch in fake.launches]


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_no_spills(dtype):
    a = Layout.new((60, 20), np.dtype(dtype), 0)
    check_everywhere(lambda: dispatch.qr(a, complete=True), [a])
