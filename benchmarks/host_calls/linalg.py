"""Linear algebra: decompositions, systems, norms and products, of a matrix of 64 rows and of four
matrices of 16.

PyTorch's `inv`, `solve`, `cholesky`, `eigh` and `lu_factor` wait for the device to report failures;
cudamath reports them at the next synchronisation.
"""

from __future__ import annotations

from typing import Any

from .arguments import Pair, named, same
from .gradients import gradient


def both(name: str, *arrays: str, **options: Any) -> Pair:
    """A function of `linalg` in both libraries, of these arrays and options."""
    return same(
        lambda lib, x: getattr(lib.linalg, name)(
            *[getattr(x, array) for array in arrays], **options
        )
    )


CALLS: dict[str, Pair] = {}
for _array in ("few_definite", "hermitian", "wider"):
    CALLS |= {
        f"linalg.{name}({_array})": both(name, _array)
        for name in (
            "cholesky",
            "inv",
            "det",
            "slogdet",
            "lu_factor",
            "lu",
            "qr",
            "eigh",
            "eigvalsh",
        )
    }
CALLS |= {
    f"linalg.{name}(definite)": both(name, "definite")
    for name in ("lu", "qr", "eigh", "eigvalsh", "eig", "eigvals")
}
CALLS |= {
    f"linalg.{name}({array})": both(name, array)
    for name in ("lu", "lu_factor", "qr")
    for array in ("tall", "wide", "few", "sides")
}
CALLS |= {
    f"linalg.{name}({array})": both(name, array)
    for name in ("eig", "eigvals")
    for array in ("few", "general", "waves")
}
# Singular values and what is made of them: PyTorch waits for the device there, and so does our
# lstsq of more rows than columns, for the rank.
CALLS |= {
    f"linalg.{name}({array})": both(name, array)
    for name in ("svd", "svdvals", "pinv", "matrix_rank", "cond")
    for array in ("definite", "tall", "wide", "few", "wider", "hermitian")
}
CALLS |= {
    f"linalg.lstsq({', '.join(arrays)})": both("lstsq", *arrays)
    for arrays in (("definite", "a"), ("tall", "a"), ("few", "sides"), ("wider", "wider"))
}
CALLS |= {
    f"linalg.norm(definite, {order})": both("norm", "definite", ord=order)
    for order in (2, -2, "nuc")
}
CALLS |= {
    f"linalg.solve({', '.join(arrays)})": both("solve", *arrays)
    for arrays in (
        ("definite", "v"),
        ("few_definite", "sides"),
        ("few", "few"),
        ("hermitian", "waves"),
        ("wider", "wider"),
    )
}
CALLS |= {
    f"matrix_norm({array}, {order})": both("matrix_norm", array, ord=order)
    for array in ("a", "few")
    for order in ("fro", 1, -1, float("inf"))
}
CALLS |= {
    f"vector_norm({array}, {order})": both("vector_norm", array, ord=order)
    for array in ("a", "v", "waves")
    for order in (0, 1, 2, 3, float("inf"), float("-inf"))
}
CALLS |= {
    f"linalg.{name}({', '.join(arrays)})": both(name, *arrays)
    for name, *arrays in (
        ("vecdot", "a", "a"),
        ("vecdot", "waves", "waves"),
        ("matmul", "few", "sides"),
        ("matmul", "few", "few"),
        ("matmul", "waves", "waves"),
        ("matmul", "a", "v"),
        ("matmul", "v", "a"),
        ("tensorinv", "tensor"),
        ("tensorsolve", "tensor", "grid"),
        ("diagonal", "few"),
    )
}
CALLS |= {
    f"linalg.expm({array})": named("expm", array, space="linalg", torch="matrix_exp")
    for array in ("general", "few")
}
CALLS |= {
    f"{ours}({', '.join(arrays)})": named(ours, *arrays, torch=torch)
    for ours, torch, *arrays in (
        ("inner", "", "v", "v"),
        ("dot", "mm", "a", "b"),
        ("dot", "mv", "a", "v"),
        ("trace", "", "wider"),
    )
}
CALLS |= {
    f"linalg.matrix_power({array}, {power})": named(
        "matrix_power", array, more=(power,), space="linalg"
    )
    for array, power in (
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("a", 5),
        ("definite", -1),
        ("definite", -2),
        ("few", 3),
    )
}
CALLS |= {
    "linalg.cholesky(definite, upper)": both("cholesky", "definite", upper=True),
    "linalg.qr(definite, r)": both("qr", "definite", mode="r"),
    "linalg.qr(tall, complete)": both("qr", "tall", mode="complete"),
    "linalg.qr(few, r)": both("qr", "few", mode="r"),
    "linalg.eigh(definite, U)": both("eigh", "definite", UPLO="U"),
    "norm(a, 1)": both("norm", "a", ord=1),
    "norm(a, inf)": both("norm", "a", ord=float("inf")),
    "norm(v, 1)": both("norm", "v", ord=1),
    "norm(v)": both("norm", "v"),
    "norm(a, 1 row)": (
        lambda lib, x: lib.linalg.norm(x.a, axis=1),
        lambda lib, x: lib.linalg.norm(x.a, dim=1),
    ),
    "norm(few, fro, (1, 2))": (
        lambda lib, x: lib.linalg.norm(x.few, axis=(1, 2)),
        lambda lib, x: lib.linalg.norm(x.few, dim=(1, 2)),
    ),
    "vector_norm(a, 1 row)": (
        lambda lib, x: lib.linalg.vector_norm(x.a, axis=1),
        lambda lib, x: lib.linalg.vector_norm(x.a, dim=1),
    ),
    "vector_norm(a, 1, 1 row)": (
        lambda lib, x: lib.linalg.vector_norm(x.a, axis=1, ord=1),
        lambda lib, x: lib.linalg.vector_norm(x.a, dim=1, ord=1),
    ),
    "solve_triangular(definite, v)": (
        lambda lib, x: lib.linalg.solve_triangular(x.definite, x.v, lower=True),
        lambda lib, x: lib.linalg.solve_triangular(x.definite, x.v[:, None], upper=False),
    ),
    "solve_triangular(few_definite, sides)": (
        lambda lib, x: lib.linalg.solve_triangular(x.few_definite, x.sides),
        lambda lib, x: lib.linalg.solve_triangular(x.few_definite, x.sides, upper=True),
    ),
    "solve_triangular(a.T, b, unit)": (
        lambda lib, x: lib.linalg.solve_triangular(x.definite.T, x.a, unit_diagonal=True),
        lambda lib, x: lib.linalg.solve_triangular(
            x.definite.T, x.a, upper=True, unitriangular=True
        ),
    ),
    "linalg.lu_solve(factors, a)": (
        lambda lib, x: lib.linalg.lu_solve((x.definite, x.exchanges), x.a),
        lambda lib, x: lib.linalg.lu_solve(x.definite, x.exchanges_from_1, x.a),
    ),
    "linalg.lu_solve(factors, v)": (
        lambda lib, x: lib.linalg.lu_solve((x.definite, x.exchanges), x.v),
        lambda lib, x: lib.linalg.lu_solve(x.definite, x.exchanges_from_1, x.v[:, None])[:, 0],
    ),
    "linalg.lu_solve(few)": (
        lambda lib, x: lib.linalg.lu_solve(lib.linalg.lu_factor(x.few), x.sides),
        lambda lib, x: lib.linalg.lu_solve(*lib.linalg.lu_factor(x.few), x.sides),
    ),
    "multi_dot([a, b, a, b])": same(lambda lib, x: lib.linalg.multi_dot([x.a, x.b, x.a, x.b])),
    "multi_dot([a, b])": same(lambda lib, x: lib.linalg.multi_dot([x.a, x.b])),
    "multi_dot([a, b, v])": same(lambda lib, x: lib.linalg.multi_dot([x.a, x.b, x.v])),
    "linalg.cond(definite, fro)": both("cond", "definite", p="fro"),
    "linalg.cond(few_definite, inf)": both("cond", "few_definite", p=float("inf")),
    "matrix_transpose(a)": (
        lambda lib, x: lib.linalg.matrix_transpose(x.a),
        lambda lib, x: lib.transpose(x.a, -2, -1),
    ),
    "tensordot(few, few, ((1,), (1,)))": (
        lambda lib, x: lib.linalg.tensordot(x.few, x.few, axes=((1,), (1,))),
        lambda lib, x: lib.tensordot(x.few, x.few, dims=((1,), (1,))),
    ),
    "trace(few)": (
        lambda lib, x: lib.linalg.trace(x.few),
        lambda lib, x: lib.diagonal(x.few, dim1=-2, dim2=-1).sum(-1),
    ),
    "gemm(a, b, c)": (
        lambda lib, x: lib.linalg.gemm(x.a, x.b, 2, x.definite, 3),
        lambda lib, x: lib.addmm(x.definite, x.a, x.b, beta=3, alpha=2),
    ),
    "gemm(a, b, c, plain)": (
        lambda lib, x: lib.linalg.gemm(x.a, x.b, 1, x.definite, 1),
        lambda lib, x: lib.addmm(x.definite, x.a, x.b),
    ),
    "linalg.gemm(few, few, few)": (
        lambda lib, x: lib.linalg.gemm(x.few, x.few, 1, x.few, 1),
        lambda lib, x: lib.baddbmm(x.few, x.few, x.few),
    ),
    "gemv(a, v, v)": (
        lambda lib, x: lib.linalg.gemv(x.a, x.v, 2, x.v, 3),
        lambda lib, x: lib.addmv(x.v, x.a, x.v, beta=3, alpha=2),
    ),
    "linalg.matvec(few, few_vectors)": (
        lambda lib, x: lib.matvec(x.few, x.few_vectors),
        lambda lib, x: (x.few @ x.few_vectors[..., None])[..., 0],
    ),
    "linalg.vecmat(few_vectors, few)": (
        lambda lib, x: lib.vecmat(x.few_vectors, x.few),
        lambda lib, x: (x.few_vectors[..., None, :] @ x.few)[..., 0, :],
    ),
    "kron(grid, grid)": same(lambda lib, x: lib.kron(x.grid, x.grid)),
    "vander(v)": same(lambda lib, x: lib.vander(x.v)),
    "tri(64)": (
        lambda lib, x: lib.tri(64, dtype="float32"),
        lambda lib, x: lib.ones((64, 64), device=x.a.device).tril(),
    ),
}


def slope(name: str, *arrays: str, part: int | None = None, **options: Any) -> Pair:
    """The gradient of the sum of what a function of `linalg` returns, or of one part of it."""

    def loss(lib: Any, _x: Any, *arguments: Any) -> Any:
        result = getattr(lib.linalg, name)(*arguments, **options)
        return (result if part is None else result[part]).sum()

    return gradient(*arrays, ours=loss)


CALLS |= {
    f"grad of linalg.{name}({', '.join(arrays)})": slope(name, *arrays)
    for name, *arrays in (
        ("solve", "positive", "w"),
        ("inv", "positive"),
        ("det", "positive"),
        ("cholesky", "positive"),
        ("eigvalsh", "positive"),
        ("vecdot", "w", "table"),
        ("vector_norm", "w"),
        ("matrix_norm", "w"),
    )
}
CALLS |= {
    f"grad of linalg.{name}({array}), {part}": slope(name, array, part=part)
    for name, array, part in (
        ("slogdet", "positive", 1),
        ("lu", "positive", 2),
        ("qr", "w", 1),
        ("eigh", "positive", 1),
    )
}
CALLS |= {
    f"grad of vector_norm(w, {order})": slope("vector_norm", "w", ord=order)
    for order in (1, 3, float("inf"))
}
CALLS |= {
    "grad of matrix_power(w, 3)": gradient(
        "w", ours=lambda lib, x, w: lib.linalg.matrix_power(w, 3).sum()
    ),
    "grad of multi_dot([w, table, w])": gradient(
        "w", "table", ours=lambda lib, x, w, table: lib.linalg.multi_dot([w, table, w]).sum()
    ),
    "grad of trace(w)": gradient("w", ours=lambda lib, x, w: lib.trace(w)),
    "grad of solve_triangular(positive, w)": gradient(
        "positive",
        "w",
        ours=lambda lib, x, a, b: lib.linalg.solve_triangular(a, b, lower=True).sum(),
        theirs=lambda lib, x, a, b: lib.linalg.solve_triangular(a, b, upper=False).sum(),
    ),
    "grad of linalg.expm(w)": gradient(
        "w",
        ours=lambda lib, x, w: lib.linalg.expm(w).sum(),
        theirs=lambda lib, x, w: lib.linalg.matrix_exp(w).sum(),
    ),
}
