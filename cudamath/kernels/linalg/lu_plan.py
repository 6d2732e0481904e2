"""Plans of LU decompositions: packed factors and pivots, or P, L and U made of them."""

from collections.abc import Callable
from typing import Any

from ...core.dispatch.arguments import Output
from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from .lapack_helpers import factors, row_order, zero_based
from .plan_builder import INT64, Work, batch, in_columns, new_cube
from .problem import LUProblem

#: (work, a, target, its layout, pivots or None) -> (pivots, the number that they count from). Adds
#: the steps for the LU factors of the input `a` in the argument `target`, column-major matrices.
#: The pivots, min(m, n) a matrix, lie in scratch, or in the argument `pivots` and then count from
#: 0.
Factoriser = Callable[[Work, Layout, Any, Layout, Any], tuple[Any, int]]


def lu_plan(p: LUProblem, factorise: Factoriser) -> Plan:
    """The plan whose factors `factorise` makes."""
    a, work = p.a, Work(*p.outputs)
    if p.packed:
        packed, pivots = p.outputs
        found, first = factorise(work, a, Output(0), packed, Output(1))
        if first:
            work.launch(
                zero_based, pivots.size, found.view((pivots.size,)), Output(1).view((pivots.size,))
            )
        return work.plan()
    (m, n), count, inner = a.shape[-2:], batch(a), in_columns(a)
    orders = a.like((count, m), INT64)
    target, order = work.temp(inner), work.temp(orders)
    found, first = factorise(work, a, target, inner, None)
    work.launch(row_order, count * m, found, order, first)
    cubes = [new_cube(Output(i), y) for i, y in enumerate(p.outputs)]
    work.launch(factors(a.dtype), count * m * max(m, n), new_cube(target, inner), order, *cubes)
    return work.plan()
