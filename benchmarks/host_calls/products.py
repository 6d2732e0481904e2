"""Products of matrices, linear algebra, Fourier transforms."""

from __future__ import annotations

from .arguments import Pair, named, same

CALLS: dict[str, Pair] = {
    "norm(a)": same(lambda lib, x: lib.linalg.norm(x.a)),
    "a @ b": same(lambda lib, x: x.a @ x.b),
    "vecdot(v, v)": (
        lambda lib, x: lib.vecdot(x.v, x.v),
        lambda lib, x: lib.linalg.vecdot(x.v, x.v),
    ),
    "outer(v, v)": same(lambda lib, x: lib.outer(x.v, x.v)),
    "einsum('ij,jk->ik', a, b)": same(lambda lib, x: lib.einsum("ij,jk->ik", x.a, x.b)),
    "tensordot(a, b, 1)": same(lambda lib, x: lib.tensordot(x.a, x.b, 1)),
    "trace(a)": same(lambda lib, x: lib.trace(x.a)),
    "fft(v)": same(lambda lib, x: lib.fft.fft(x.v)),
    "rfft(v)": same(lambda lib, x: lib.fft.rfft(x.v)),
    "kron(v, v)": same(lambda lib, x: lib.kron(x.v, x.v)),
    "a @ v": same(lambda lib, x: x.a @ x.v),
    "images @ images": same(lambda lib, x: x.images @ x.images),
    "inner(a, b)": same(lambda lib, x: lib.inner(x.a, x.b)),
    "vdot(v, v)": same(lambda lib, x: lib.vdot(x.v, x.v)),
    "cross(kernels, kernels)": same(lambda lib, x: lib.linalg.cross(x.kernels, x.kernels)),
    "einsum('i,j->ij', v, v)": same(lambda lib, x: lib.einsum("i,j->ij", x.v, x.v)),
    "matrix_norm(a)": same(lambda lib, x: lib.linalg.matrix_norm(x.a)),
    "fftshift(v)": same(lambda lib, x: lib.fft.fftshift(x.v)),
    "fftfreq(64)": (
        lambda lib, x: lib.fft.fftfreq(64),
        lambda lib, x: lib.fft.fftfreq(64, device=x.a.device),
    ),
    "a @ a.T": same(lambda lib, x: x.a @ x.a.T),
    "vander(v, 4)": same(lambda lib, x: lib.vander(x.v, 4)),
    "linalg.solve(definite, a)": same(lambda lib, x: lib.linalg.solve(x.definite, x.a)),
    "linalg.solve_triangular(definite, a)": (
        lambda lib, x: lib.linalg.solve_triangular(x.definite, x.a, lower=True),
        lambda lib, x: lib.linalg.solve_triangular(x.definite, x.a, upper=False),
    ),
    "linalg.matrix_power(a, 3)": same(lambda lib, x: lib.linalg.matrix_power(x.a, 3)),
    "linalg.multi_dot([a, b, a])": same(lambda lib, x: lib.linalg.multi_dot([x.a, x.b, x.a])),
    "fft.rfftfreq(64)": (
        lambda lib, x: lib.fft.rfftfreq(64),
        lambda lib, x: lib.fft.rfftfreq(64, device=x.a.device),
    ),
    "fft.rfft2(a)": same(lambda lib, x: lib.fft.rfft2(x.a)),
    "dot(v, v)": same(lambda lib, x: lib.dot(x.v, x.v)),
    "linalg.lu_solve": (
        lambda lib, x: lib.linalg.lu_solve(lib.linalg.lu_factor(x.definite), x.a),
        lambda lib, x: lib.linalg.lu_solve(*lib.linalg.lu_factor(x.definite), x.a),
    ),
    "linalg.cond(definite, 1)": same(lambda lib, x: lib.linalg.cond(x.definite, 1)),
    "einsum('ij,jk,k->i', a, b, v)": same(lambda lib, x: lib.einsum("ij,jk,k->i", x.a, x.b, x.v)),
    "einsum('ii', a)": same(lambda lib, x: lib.einsum("ii", x.a)),
    "einsum('ij,jk', a, b)": same(lambda lib, x: lib.einsum("ij,jk", x.a, x.b)),
}
CALLS |= {
    f"linalg.{name}(definite)": named(name, "definite", space="linalg")
    for name in ("cholesky", "inv", "det", "slogdet", "lu_factor", "vector_norm")
}
CALLS |= {
    f"fft.{name}(waves)": named(name, "waves", space="fft")
    for name in (
        "ifft",
        "irfft",
        "fft2",
        "ifft2",
        "irfft2",
        "fftn",
        "ifftn",
        "irfftn",
        "ifftshift",
        "hfft",
    )
}
CALLS |= {f"fft.{name}(a)": named(name, "a", space="fft") for name in ("rfftn", "ihfft")}
