"""Products of CSR matrices and dense ones, and elements of products of dense ones, by cuSPARSE."""

from __future__ import annotations

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call
from ...runtime import cusparse
from .problem import ProductProblem, SampledProblem


def plan(p: ProductProblem) -> Plan:
    """Version "cusparse"."""
    product = cusparse.csr_product(
        p.b.dtype, p.indptr.dtype, p.rows, p.b.shape[0], p.stored, p.columns
    )
    return Plan([p.out], [Call(product, [Input(0), Input(1), Input(2), Input(3), Output(0)])])


def sampled(p: SampledProblem) -> Plan:
    """Version "cusparse" of elements of a b^T."""
    (rows, inner), columns = p.a.shape, p.b.shape[0]
    product = cusparse.sampled_product(p.a.dtype, p.columns.dtype, rows, columns, inner, p.out.size)
    return Plan([p.out], [Call(product, [Input(1), Input(2), Input(3), Input(4), Output(0)])])
