"""Gradients of cudamath.linalg against central differences in float64 and complex128, first and
second order, and where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_driver import gpu
from gradient_checks import note_rules, rules
from matrices import pairing, rand, slope_matches
from records import ELSEWHERE

import cudamath as cm
from cudamath.core.dispatch.op import registry
from cudamath.testing import assert_close

la = cm.linalg
LinAlgError = np.linalg.LinAlgError


GRADIENTS: dict[str, Any] = {
    "solve": lambda a, b: la.solve(a, b),
    "solve vector": lambda a, b: la.solve(a, b[..., 0]) if a.ndim == 2 else la.solve(a, b),
    **{
        f"solve {kind}": lambda a, b, kind=kind: la.solve(a, b, assume_a=kind, lower=True)
        for kind in ("diagonal", "tridiagonal", "upper triangular", "sym", "her")
    },
    "solve pos": lambda a, b: la.solve(a @ cm.conj(a).mT, b, assume_a="pos"),
    "solve transposed": lambda a, b: la.solve(a, b, transposed=True),
    "inv": lambda a, b: la.inv(a),
    "det": lambda a, b: la.det(a),
    "slogdet": lambda a, b: tuple(la.slogdet(a)),
    "lu": lambda a, b: la.lu(a)[1:],
    "lu tall": lambda a, b: la.lu(a[..., :3])[1:],
    "lu wide": lambda a, b: la.lu(a[..., :3, :])[1:],
    "lower": lambda a, b: la.solve_triangular(a, b, lower=True),
    "upper": lambda a, b: la.solve_triangular(a, b),
    "unit": lambda a, b: la.solve_triangular(a, b, lower=True, unit_diagonal=True),
    "lu_solve": lambda a, b: la.lu_solve(la.lu_factor(a), b),
    "lu_solve transposed": lambda a, b: la.lu_solve(la.lu_factor(a), b, trans=2),
    "lower transposed": lambda a, b: la.solve_triangular(a, b, "T", lower=True),
    "cholesky": lambda a, b: la.cholesky(a @ cm.conj(a).mT),
    "cholesky upper": lambda a, b: la.cholesky(a @ cm.conj(a).mT, upper=True),
    "qr": lambda a, b: tuple(la.qr(a)),
    "qr tall": lambda a, b: tuple(la.qr(a[..., :3])),
    "qr wide": lambda a, b: tuple(la.qr(a[..., :3, :])),
    "qr r": lambda a, b: la.qr(a[..., :3], "r"),
    "qr complete": lambda a, b: tuple(la.qr(a[..., :3, :], "complete")),
    "qr pivoting": lambda a, b: la.qr(a[..., :3], pivoting=True)[:2],
    "eigvalsh of a pair": lambda a, b: la.eigvalsh(a + cm.conj(a).mT, b=a @ cm.conj(a).mT),
    "left vectors": lambda a, b: (lambda w, u, v: cm.exp(w)[..., None] * (cm.conj(u).mT @ v))(
        *la.eig(a, left=True)
    ),
    "eigvalsh": lambda a, b: la.eigvalsh(a + cm.conj(a).mT),
    "eigh projector": lambda a, b: (lambda w, v: (w, v[..., :2] @ cm.conj(v[..., :2]).mT))(
        *la.eigh(a + cm.conj(a).mT, "U")
    ),
    "svdvals": lambda a, b: la.svdvals(a[..., :3]),
    "svd polar": lambda a, b: (lambda u, s, vh: u @ vh)(*la.svd(a, full_matrices=False)),
    "svd tall": lambda a, b: (lambda u, s, vh: (u[..., :2] @ vh[..., :2, :], s))(
        *la.svd(a[..., :3], full_matrices=False)
    ),
    "svd wide": lambda a, b: (lambda u, s, vh: (u[..., :2] @ vh[..., :2, :], s))(
        *la.svd(a[..., :3, :], full_matrices=False)
    ),
    "svd full": lambda a, b: la.svd(a[..., :3])[1],
    "eigvals": lambda a, b: la.eigvals(a) ** 3 @ cm.ones(4, "complex128"),
    "eig projector": lambda a, b: (lambda w, v: v @ (cm.exp(w)[..., None] * la.inv(v)))(*la.eig(a)),
    "pinv tall": lambda a, b: la.pinv(a[..., :3]),
    "pinv wide": lambda a, b: la.pinv(a[..., :3, :]),
    "pinv deficient": lambda a, b: la.pinv(a[..., :2] @ a[..., :2, :], rtol=1e-8),
    "lstsq": lambda a, b: la.lstsq(a[..., :3], b)[:2],
    "expm": lambda a, b: la.expm(a),
    "matrix_power": lambda a, b: la.matrix_power(a, -3),
    "cond": lambda a, b: la.cond(a, 1),
    "norm": lambda a, b: la.matrix_norm(a, ord=2) + la.matrix_norm(a, ord="nuc"),
    "multi_dot": lambda a, b: la.multi_dot([a, a, b]) if a.ndim == 2 else a @ (a @ b),
    "cross": lambda a, b: la.cross(a[..., :3], b),
    "trace": lambda a, b: la.trace(a, offset=1),
    "vecdot": lambda a, b: (
        la.vecdot(a[..., :3], b),
        la.vecdot(a[..., :1], b, axis=-2),
        la.vecdot(b, b),
    ),
}


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(device, name, dtype):
    for lead in ((), (2,)):
        rng = np.random.default_rng(3)
        a, b = rand(rng, (*lead, 4, 4), dtype), rand(rng, (*lead, 4, 3), dtype)
        if name in ("lower", "upper", "unit", "expm"):
            a = a / 2 + np.eye(4)
        slope_matches(lambda a, b: pairing(GRADIENTS[name](a, b), 5), a, b)


@pytest.mark.parametrize("dtype", ["f8", "c16"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_second_order(device, name, dtype):
    """By both arguments, of the gradients by both."""
    rng = np.random.default_rng(3)
    a, b = rand(rng, (4, 4), dtype), rand(rng, (4, 3), dtype)
    if name in ("lower", "upper", "unit", "expm"):
        a = a / 2 + np.eye(4)

    def slope(a: cm.ndarray, b: cm.ndarray) -> cm.ndarray:
        return pairing(cm.grad(lambda a, b: pairing(GRADIENTS[name](a, b), 5), (0, 1))(a, b), 9)

    slope_matches(slope, a, b, tolerance=1e-5)


def test_every_gradient_has_a_case(monkeypatch):
    """Each card of linear algebra that has a gradient, for each input: a case above reaches it."""
    files = ("ops/test_linalg.py", "ops/test_lu.py")
    names = [name for file in files for name in ELSEWHERE[file] if name in registry]
    wanted, reached = note_rules(monkeypatch, [registry[n] for n in names if rules(registry[n])])
    assert len(wanted) > 8
    rng = np.random.default_rng(3)
    a, b = (cm.asarray(rand(rng, shape) + np.eye(*shape)) for shape in ((4, 4), (4, 3)))
    for case in GRADIENTS.values():
        cm.grad(lambda a, b, case=case: pairing(case(a, b), 5), (0, 1))(a, b)
    assert wanted - reached == set()


def test_gradients_of_vecdot_are_products_of_elements(fake):
    a, b = (gpu(np.ones(64, np.float32)) for _ in range(2))
    fake.launches.clear()
    with cm.device("cuda"):
        _, pull = cm.vjp(la.vecdot, a, b)
        pull(gpu(np.float32(2)))
    assert len(fake.launches) == 3  # the product itself, and one for each gradient


def test_gradients_of_vectors(device):
    """Of eigenvectors and singular vectors themselves, signs held: along a path on which they move
    continuously."""
    rng = np.random.default_rng(0)
    a = rand(rng, (4, 4))

    def eigenvectors(a: cm.ndarray) -> cm.ndarray:
        v = la.eigh(a + a.mT).eigenvectors
        return pairing(v * cm.sign(v[:1]), 1)

    def singular(a: cm.ndarray) -> cm.ndarray:
        u, _, vh = la.svd(a[:, :3], full_matrices=False)
        return pairing((u * cm.sign(u[:1]), vh * cm.sign(u[:1]).mT), 1)

    slope_matches(eigenvectors, a)
    slope_matches(singular, a)


def test_gradients_where_singular_values_are_equal(device):
    """pinv has one there, and values alone have one."""
    g = cm.grad(lambda a: (la.pinv(a) * cm.asarray([[1.0, 2.0], [3.0, 4.0]])).sum())(cm.eye(2))
    assert_close(g, -np.array([[1.0, 2.0], [3.0, 4.0]]), rtol=1e-12, atol=1e-12)
    assert_close(
        cm.grad(lambda a: la.svdvals(a).sum())(cm.eye(3)), np.eye(3), rtol=1e-12, atol=1e-12
    )
    assert_close(
        cm.grad(lambda a: la.eigvalsh(a).sum())(cm.eye(3)), np.eye(3), rtol=1e-12, atol=1e-12
    )


def test_gradients_that_do_not_exist(device):
    a = cm.asarray(rand(np.random.default_rng(0), (4, 3)))
    with pytest.raises(ValueError, match="^qr: mode 'complete'.*no gradient"):
        cm.grad(lambda a: la.qr(a, "complete").Q.sum())(a)
    with pytest.raises(ValueError, match="^svd: full_matrices=True.*no gradient"):
        cm.grad(lambda a: la.svd(a).U.sum())(a)
    with pytest.raises(LinAlgError, match="^inv: Singular"):
        cm.grad(lambda a: la.det(a))(cm.zeros((2, 2))).to_numpy()
