"""Matrix products by cuBLAS."""

from __future__ import annotations

from ...core.dispatch.arguments import Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...runtime import cublas
from .aligned_copy import dense
from .problem import Problem, Product


def matrices(p: Product, itemsize: int) -> list[cublas.Matrix | None]:
    """A, B and C as cuBLAS reads them; None for an operand that has to be copied first."""
    sizes = ((p.m, p.k), (p.k, p.n), (p.m, p.n))
    found = []
    for (rows, columns), (batch, row, column) in zip(
        sizes, (p.strides_a, p.strides_b, p.strides_c), strict=True
    ):
        found.append(
            cublas.matrix(rows, columns, row // itemsize, column // itemsize, batch // itemsize)
        )
    return found


def plan(problem: Problem) -> Plan:
    """Plan of a product by cuBLAS. Operands that are neither row-major nor column-major are copied
    to scratch memory first."""
    p, a, b = problem.product, problem.a, problem.b
    temps, copies, arguments, operands = dense(
        a, b, [matrix is not None for matrix in matrices(p, a.itemsize)]
    )
    steps: list[Launch | Call] = [*copies]
    if temps:
        p = Product(*operands)
    product = cublas.gemm(
        a.dtype, p.m, p.n, p.k, *matrices(p, a.itemsize), p.batch, tf32=problem.tf32
    )
    for part in p.parts:
        views = []
        for argument, layout, offset in zip(
            (*arguments, Output(0)), (*operands, p.out), part, strict=True
        ):
            views.append(
                argument.view(layout.shape, layout.strides, offset=offset) if offset else argument
            )
        steps.append(Call(product, views))
    return Plan([p.out], steps, temps)
