"""The fully connected layer as one kernel: y = f(x w^T + bias) + residual.

The product costs 2 rows x in x out operations; bias, activation and residual read and write each
number of y once or more when they are kernels of their own. On compute capability 9.0 they are part
of the product's epilogue (sm90.py), where the numbers still are in registers, in float32: y
is rounded once. With tiles that two warpgroups take in turn, one finishes its tile while the other
multiplies. cuBLASLt's epilogue adds a bias as well. Elsewhere one elementwise kernel does the rest
in place, after the product. What each costs is what its product costs (work.py), and what it reads
and writes besides.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from ...core.dispatch.arguments import Addresses, ArrayArg, Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call
from ...core.layout import Layout
from ...runtime import cublas
from ...runtime import device as devices
from ..compiler.lazy_numba import SIMULATOR
from ..elementwise.dispatch import launch
from ..elementwise.generator import scalar_function
from ..lib.plan_edit import renumber
from ..lib.prediction import Machine, Work, microseconds
from ..lib.versions import Version, choose, ordered
from . import work
from .cublas_gemm import matrices
from .dispatch import FAVOUR, matmul
from .dispatch import VERSIONS as MATMUL_VERSIONS
from .gemv_plan import few_rows, gemv_same
from .problem import Problem as MatmulProblem
from .problem import Product, transpose
from .sm90_tiles import MOST_PARTS

#: The activations, of the number v; as in ml/activation.py.
FORMULAS = {
    "": "{v}",
    "relu": "maximum({v}, 0)",
    "silu": "{v} * sigmoid({v})",
    "gelu": "gelu({v})",
    "gelu_tanh": "{v} * sigmoid({v} * ({v} * {v} * 0.07135481627260025 + 1.5957691216057308))",
}


@dataclasses.dataclass(frozen=True)
class Problem:
    """y = activation(x weight^T + bias) + residual. tile: of a version that has several."""

    x: Layout
    weight: Layout
    bias: Layout | None
    residual: Layout | None
    activation: str
    tf32: bool = False
    tile: str = ""

    @property
    def device(self) -> int:
        return self.x.device

    @functools.cached_property
    def product(self) -> MatmulProblem:
        return MatmulProblem(self.x, transpose(self.weight), self.tf32)

    @functools.cached_property
    def operands(self) -> list[Layout]:
        """Bias and residual, as far as there are."""
        return [layout for layout in (self.bias, self.residual) if layout is not None]

    @functools.cached_property
    def places(self) -> tuple[ArrayArg | None, ArrayArg | None]:
        """Bias and residual as inputs of the plan."""
        residual = Input(2 if self.bias is None else 3)
        return (
            None if self.bias is None else Input(2),
            None if self.residual is None else residual,
        )


def plan_gemv(p: Problem) -> Plan:
    """One kernel that reads each weight once."""
    return gemv_same(
        p.x,
        p.weight,
        p.bias,
        p.residual,
        activation=p.activation,
        version=f"gemv {p.tile}".strip(),
    )


def plan_sm90(p: Problem) -> Plan:
    """One kernel: the product's epilogue does the rest."""
    from .tensor_core_dispatch import Epilogue, wgmma  # the simulator cannot import it

    bias, residual = (place and place.flat for place in p.places)
    extra = Epilogue(p.activation, bias, residual)
    return wgmma(p.x, transpose(p.weight), p.tile, epilogue=extra)


def plan_cublas(p: Problem) -> Plan:
    """cuBLASLt: its epilogue adds the bias."""
    product = p.product.product
    sides = matrices(product, p.x.itemsize)
    call = cublas.gemm_biased(p.x.dtype, product.m, product.n, product.k, *sides)
    return Plan([product.out], [Call(call, [Input(0), Input(1), Output(0), Input(2)])])


def plan_unfused(p: Problem) -> Plan:
    """The product, and one elementwise kernel in place."""
    plan = matmul(p.x, transpose(p.weight), tf32=p.tf32)
    y = plan.outputs[0]
    if p.operands or p.activation:
        value = "(x + y)" if p.bias is not None else "x"
        expression = FORMULAS[p.activation].format(v=value)
        if p.residual is not None:
            expression += f" + {'z' if p.bias is not None else 'y'}"
        function = scalar_function(
            expression, (y.dtype, *[x.dtype for x in p.operands]), y.dtype, y.dtype
        )
        step = launch(function, [y, *p.operands], y, Output(0))
        arrays = {Input(i): Input(i + 1) for i in range(1, 1 + len(p.operands))}
        plan.steps += renumber([step], {Input(0): Output(0), **arrays})
    return plan


def fuses(x: Layout, weight: Layout, operands: Sequence[Layout]) -> bool:
    """Whether the epilogue of sm90.py can do all that follows the product x weight^T."""
    if (
        SIMULATOR
        or devices.capability(x.device) != (9, 0)
        or x.dtype.itemsize != 2
        or not x.size
        or not weight.size
    ):
        return False
    p = Product(x, transpose(weight))
    return (
        p.n % 8 == 0
        and p.parts == [(0, 0, 0)]
        and p.batch == 1
        and all(o.contiguous and o.aligned for o in operands)
    )


def has_epilogue(x: Layout, weight: Layout, operands: Sequence[Layout]) -> bool:
    """Whether one kernel multiplies and does what follows."""
    few = few_rows(x, weight) and all(o.contiguous for o in operands)
    return few or fuses(x, weight, operands)


def adds_bias_by_cublas(p: Problem) -> bool:
    """A bias alone, one product that cuBLAS reads as it lies, of 16-bit numbers or float32."""
    if p.bias is None or p.residual is not None or p.activation or not p.product.cublas:
        return False
    if p.x.itemsize not in (2, 4) or p.tf32 or not p.x.size or not p.weight.size:
        return False
    product = p.product.product
    return (
        product.batch == 1
        and product.parts == [(0, 0, 0)]
        and p.bias.contiguous
        and p.bias.aligned
        and None not in matrices(product, p.x.itemsize)
    )


# -------------------- versions


def _with(p: Problem, product: Work, passes: int = 0) -> Work:
    """The work of the product and of what follows it. passes: over y in memory, by a kernel of
    their own."""
    numbers = sum(layout.size for layout in p.operands) + passes * p.product.product.out.size
    return product._replace(
        moved=product.moved + p.x.itemsize * numbers, launches=product.launches + bool(passes)
    )


def _work_unfused(p: Problem) -> Work:
    best = ordered(MATMUL_VERSIONS, p.product)[0]
    return _with(p, best.work(p.product), 2 * bool(p.operands or p.activation))


VERSIONS = (
    Version(
        "gemv",
        "matmul.linear.plan_gemv",
        supports=lambda p: few_rows(p.x, p.weight) and all(o.contiguous for o in p.operands),
        reason="few rows: each weight is read once",
        work=lambda p: _with(p, work.gemv(p.product)),
    ),
    Version(
        "sm90",
        "matmul.linear.plan_sm90",
        supports=lambda p: fuses(p.x, p.weight, p.operands),
        reason="tensor cores: bias, activation and residual in the epilogue",
        work=lambda p: _with(p, work.sm90(p.product)),
    ),
    Version(
        "cublas",
        "matmul.linear.plan_cublas",
        supports=adds_bias_by_cublas,
        reason="cuBLASLt adds the bias",
        work=lambda p: _with(p, work.cublas(p.product)),
        favour=FAVOUR,
    ),
    Version(
        "unfused",
        "matmul.linear.plan_unfused",
        reason="the product by its fastest version, then one kernel for the rest",
        work=_work_unfused,
    ),
)


def linear(
    x: Layout,
    weight: Layout,
    bias: Layout | None = None,
    residual: Layout | None = None,
    *,
    activation: str,
    tf32: bool = False,
    version: str | None = None,
) -> Plan:
    """Planner of y = activation(x weight^T + bias) + residual: x (.., in), weight (out, in), bias
    (out,), residual as y.

    version: a name of `VERSIONS`; a tile may follow (sm90_tiles.Choice, gemv.Gemv).
    """
    if version is None and not activation and bias is None and residual is None:
        return matmul(x, transpose(weight), tf32=tf32)
    name, _, tile = (version or "").partition(" ")
    problem = Problem(x, weight, bias, residual, activation, tf32, tile)
    return choose("linear", VERSIONS, problem, name or None)


# -------------------- several layers of one input


def _stacked(weight: Layout, count: int) -> Layout:
    """Several weights (out, in) that lie alike, transposed, as a batch would hold them."""
    weight = transpose(weight)
    step = max([n * s for n, s in zip(weight.shape, weight.strides, strict=True)])
    strides = (step, *weight.strides)
    return Layout.of((count, *weight.shape), strides, weight.dtype, weight.device, weight.aligned)


def _rows(x: Layout) -> Layout:
    """x (.., in), in C order, as a matrix."""
    return x.like((x.size // x.shape[-1], x.shape[-1]))


def saved(x: Layout, weight: Layout, bias: Layout | None, activation: str, count: int) -> float:
    """How much faster, in predicted microseconds, one kernel does several layers of one input,
    whose weights and biases lie alike, than one after another; not above 0 where none can."""
    operands = [] if bias is None else [bias]
    one = Problem(x, weight, bias, None, activation)
    if (
        not 1 < count <= MOST_PARTS
        or not x.contiguous
        or few_rows(x, weight)
        or not fuses(x, weight, operands)
        or work.is_odd(_rows(x))
        or work.is_odd(weight)
        or not x.aligned
    ):
        return 0.0
    together = _with(one, work.sm90(MatmulProblem(_rows(x), _stacked(weight, count))))
    machine = Machine.of(x.device)
    alone = ordered(VERSIONS, one)[0].microseconds(one)
    return count * alone - microseconds(together, machine)


def linears(x: Layout, *operands: Layout, activation: str, count: int) -> Plan:
    """Planner of y[i] = activation(x weight_i^T + bias_i): x (.., in); `count` weights (out, in)
    and as many biases (out,), or none; y (count, .., out). One kernel, where `saved` is above 0."""
    from .tensor_core_dispatch import Epilogue, wgmma  # the simulator cannot import it

    biases = Addresses(*range(1 + count, 1 + len(operands))) if len(operands) > count else None
    plan = wgmma(
        _rows(x), _stacked(operands[0], count), epilogue=Epilogue(activation, biases), parts=count
    )
    shape = (count, *x.shape[:-1], operands[0].shape[0])
    plan.outputs = [x.like(shape)]
    return plan
