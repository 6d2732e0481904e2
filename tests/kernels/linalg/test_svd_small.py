"""Singular values of small matrices by our own kernels, svd_small and values_small by name: values,
vectors, matrices of deficient rank, graded ones, zeros, NaN; in Numba's simulator and on a GPU.
What the public functions do: test_linalg.py."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from fake_driver import gpu as on_gpu
from gradient_checks import MACHINES, check_everywhere, run_version
from matrices import SMALL, H, rand

import cudamath as cm
from cudamath.core.dtypes import real_dtype
from cudamath.core.layout import Layout
from cudamath.cpu import decompose as host
from cudamath.kernels.linalg import dispatch, svd_jacobi
from cudamath.kernels.linalg import lapack_plans as planners
from cudamath.runtime import device as devices
from cudamath.testing import layout_of, simulate


def names(plan) -> list[str]:
    return [step.kernel.__name__ for step in plan.steps]


def confined(rng: np.random.Generator) -> np.ndarray:
    """Rows of zeros: what rounding leaves of four columns has no direction of its own."""
    a = np.zeros((6, 6))
    a[:2] = rng.standard_normal((2, 6))
    return a


CASES = {
    **SMALL,
    "counted": lambda rng: np.arange(1.0, 10).reshape(3, 3),
    "confined to rows": confined,
    "confined to columns": lambda rng: confined(rng).T,
    "equal values": lambda rng: np.linalg.qr(rng.standard_normal((6, 6)))[0],
    "large": lambda rng: rng.standard_normal((4, 4)) * 1e37,
    "small": lambda rng: rng.standard_normal((4, 4)) * 1e-37,
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("case", CASES)
def test_small_decompositions(machine, dtype, case):
    """Within n eps: values of the largest, vectors of orthonormality, the product of the largest
    value."""
    rng = np.random.default_rng(1)
    a = CASES[case](rng).astype(dtype)
    if dtype in ("c8", "c16"):
        a = a * np.exp(2j * np.pi * rng.random(a.shape[-1:])).astype(dtype) + np.zeros_like(a)
        if "rank" not in case:
            a = a * np.exp(2j * np.pi * rng.random(a.shape)).astype(dtype)
    eps, k = float(np.finfo(a.dtype).eps), min(a.shape[-2:])
    exact = np.result_type(dtype, "f8")
    want = np.linalg.svd(a.astype(exact), compute_uv=False)
    bound = 4 * eps * max(a.shape)
    size = want.max(axis=-1, keepdims=True, initial=0)
    values = run_version(machine, lambda x: planned(dispatch.svdvals(x), "values_small"), a)
    assert values.dtype == real_dtype(a.dtype) and (abs(values - want) <= bound * size).all()
    for full in (True, False):
        u, s, vh = run_version(
            machine, lambda x, full=full: planned(dispatch.svd(x, full=full), "svd_small"), a
        )
        np.testing.assert_array_equal(s, values)
        m, n = a.shape[-2:]
        assert (u.shape[-2:], vh.shape[-2:]) == ((m, m if full else k), (n if full else k, n))
        for q in (u.astype(exact), H(vh.astype(exact))):
            assert abs(H(q) @ q - np.eye(q.shape[-1])).max() <= bound
        again = (u[..., :k].astype(exact) * s[..., None, :]) @ vh[..., :k, :]
        assert (abs(again - a) <= bound * size[..., None]).all()


def planned(plan, name):
    assert names(plan)[-1] == name
    return plan


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_small_singular_values_of_graded_matrices_keep_their_digits(machine, dtype):
    """Columns of lengths from 1 to 1e-12: LAPACK's values of these are wrong from eps on."""
    rng = np.random.default_rng(0)
    lengths = np.logspace(0, -12, 6)
    a = (rng.standard_normal((6, 6)) * lengths).astype(dtype)
    s = run_version(machine, dispatch.svdvals, a)
    want = (
        np.linalg.slogdet(a.astype("f8") / lengths)[1] + np.log(lengths).sum()
    )  # their product is that of the values
    assert abs(np.log(s.astype("f8")).sum() - want) <= 500 * np.finfo(dtype).eps
    diagonal = np.diag(np.logspace(0, -20, 6)).astype(dtype)
    np.testing.assert_array_equal(
        run_version(machine, dispatch.svdvals, diagonal), np.diag(diagonal)
    )


@pytest.mark.simulator
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_matrix_that_is_not_finite_raises_the_flag(bad):
    a = np.eye(4, 3, dtype="f4")
    a[2, 1] = bad
    for plan in (dispatch.svd(layout_of(a), full=True), dispatch.svdvals(layout_of(a))):
        with pytest.raises(IndexError):  # what the simulator makes of any flag
            simulate(plan, a)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_is_an_error(device, bad, shape):
    """Also where LAPACK's iteration would never end: infinity in a wide matrix."""
    a = cm.ones(shape)
    a[0, 1] = bad
    with pytest.raises(np.linalg.LinAlgError, match="^svd: SVD did not converge"):
        cm.linalg.svd(a).S.to_numpy()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.gpu
def test_values_of_a_matrix_that_is_not_finite(bad):
    a = cm.eye(4, 3, device="cuda")
    a[2, 1] = bad
    for call in (cm.linalg.svdvals, cm.linalg.svd, cm.linalg.pinv):
        out = call(a)
        who = "^(svd|svdvals|pinv)"
        with pytest.raises(np.linalg.LinAlgError, match=f"{who}: SVD did not converge"):
            cm.cuda.synchronize()
        assert np.isnan((out[1] if isinstance(out, tuple) else out).to_numpy()).all()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(
    "shape",
    [(16, 16), (3, 33, 20), (64, 64), (2, 100, 60), (60, 100), (128, 128), (200, 9), (500, 16, 16)],
)
def test_larger_ones(dtype, shape):
    """Those that fit, by the small version; the same bits in every run, alone and in a batch."""
    a = rand(np.random.default_rng(0), shape, dtype)
    gpu = cm.asarray(a, device="cuda")
    if names_or_none(dispatch.svd(gpu._layout, full=False)) == ["svd_small"]:
        first, second = (
            cm.linalg.svd(gpu, full_matrices=False),
            cm.linalg.svd(gpu[None], full_matrices=False),
        )
        for x, y in zip(first, second, strict=True):
            np.testing.assert_array_equal(x.to_numpy(), y.to_numpy()[0])
    exact = np.result_type(dtype, "f8")
    u, s, vh = (x.to_numpy().astype(exact) for x in cm.linalg.svd(gpu, full_matrices=False))
    want, eps = np.linalg.svd(a.astype(exact), compute_uv=False), np.finfo(dtype).eps
    bound = eps * max(shape[-2:])
    assert abs(s - want).max() <= bound * want.max()
    for q in (u, H(vh)):
        assert abs(H(q) @ q - np.eye(q.shape[-1])).max() <= 2 * bound
    assert abs((u * s[..., None, :]) @ vh - a).max() <= bound * want.max()


def names_or_none(plan):
    return (
        [step.kernel.__name__ for step in plan.steps]
        if all(hasattr(step, "kernel") for step in plan.steps)
        else None
    )


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_inverse_values(machine, dtype):
    """inverse_values, by name and as NumPy computes it: up to the bound is 0; none above it, all
    above it, NaN."""
    s = np.array([[4, 2, 1, 0.5], [4, 0, 0, 0], [0, 0, 0, 0], [8, 8, 8, 8], [np.nan] * 4], dtype)
    for ratio in (0.25, 0.0, 1.0):
        inverse, rank = run_version(
            machine, lambda x, ratio=ratio: planners.inverted(x, ratio=ratio), s
        )
        theirs = host.inverted(s, ratio=ratio)
        large = s > ratio * s[:, :1]
        np.testing.assert_array_equal(inverse, np.divide(1, s, where=large, out=np.zeros_like(s)))
        np.testing.assert_array_equal(rank, large.sum(-1))
        for ours, other in zip((inverse, rank), theirs, strict=True):
            np.testing.assert_array_equal(ours, other)
            assert ours.dtype == other.dtype
    assert names(planners.inverted(layout_of(s), ratio=0.5)) == ["inverse_values"]
    one = run_version(
        machine, lambda x: planners.inverted(x, ratio=0.1), np.array([2, 1, 0.1], dtype)
    )
    assert one[0].shape == (3,) and one[1].shape == () and one[1] == 2


def test_which_matrices_are_small():
    """Those that fit into shared memory, of at most MOST columns. One of float32 beyond SMALL has a
    faster way, and so have the values alone of any number of them."""

    def first(shape, dtype="f4", full=False, capability=(9, 0), planner=dispatch.svd):
        with devices.assume(capability):
            step = planner(
                Layout.new(shape, np.dtype(dtype), 0),
                **{"full": full} if planner is dispatch.svd else {},
            ).steps[0]
        return getattr(getattr(step, "kernel", None), "__name__", None)

    assert first((64, 64)) == first((64, 64), "f8") == first((2, 128, 128)) == "svd_small"
    assert first((5, 7, 9)) == first((400, 16)) == "svd_small"
    assert (
        first((80, 80), "f8")
        == "svd_small"
        not in (first((65, 65)), first((65, 70), "c8"), first((128, 128)))
    )
    values = functools.partial(first, planner=dispatch.svdvals)
    assert (
        values((64, 64))
        == values((9, 64, 70))
        == values((9, 65, 65), "f8")
        == "values_small"
        != values((9, 65, 65))
    )
    assert (
        first((64, 64), capability=(7, 5))
        == "svd_small"
        != first((64, 64), "f8", capability=(7, 5))
    )
    assert first((9, 9), "c8") == first((30, 64), "c16") == "svd_small"
    assert "svd_small" not in (
        first((svd_jacobi.MOST + 1,) * 2),
        first((128, 128), "f8"),
        first((2_000, 90)),
    )
    assert (
        first((svd_jacobi.ADDED, 9), full=True)
        == "svd_small"
        != first((svd_jacobi.ADDED + 1, 9), full=True)
    )


@pytest.mark.parametrize(
    ("call", "launches"),
    [
        (cm.linalg.svd, 1),
        (cm.linalg.svdvals, 1),
        (cm.linalg.matrix_rank, 2),
        (cm.linalg.pinv, 4),
        (lambda a: cm.linalg.norm(a, 2), 2),
        (lambda a: cm.linalg.norm(a, "nuc"), 2),
        # the last one makes the rank an int32, as NumPy has it
        (lambda a: cm.linalg.lstsq(a[None], a[None, :, :3]), 6),
        (lambda a: cm.linalg.lstsq(a, a[0]), 6),
        # where there are no residuals the rank stays on the device
        (lambda a: cm.linalg.lstsq(a[:9], a[:9]), 6),
    ],
)
def test_how_many_launches(fake, call, launches):
    a = on_gpu(np.ones((16, 16), np.float32))
    fake.launches.clear()
    call(a)
    assert len(fake.launches) == launches, [launch[0] for launch in fake.launches]


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_no_spills(dtype):
    """Of the larger of the two kernels, where a thread holds most."""
    a = Layout.new((40, 40), np.dtype(dtype), 0)
    check_everywhere(lambda: dispatch.svd(a, full=False), [a])


@pytest.mark.gpu
def test_small_ones_can_be_captured_in_a_graph():
    a = np.random.default_rng(0).standard_normal((2, 12, 9))
    graph = cm.cuda.graph(lambda x: tuple(cm.linalg.svd(x, full_matrices=False)))
    given = cm.asarray(a, device="cuda")
    for x in (given, given * 2):
        u, s, vh = graph(x)
        np.testing.assert_allclose(((u * s[:, None]) @ vh).to_numpy(), x.to_numpy(), atol=1e-12)
