"""Random problems of the families that the planner measures, and what is asked of each: by
benchmarks/planner.py."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cudamath.core.dispatch.plan import Plan
from cudamath.core.dtypes import bfloat16
from cudamath.core.layout import Layout
from cudamath.kernels.attention import dispatch as attention_dispatch
from cudamath.kernels.attention.problem import Problem as AttentionProblem
from cudamath.kernels.conv import cudnn as conv_cudnn
from cudamath.kernels.conv import dispatch as conv_dispatch
from cudamath.kernels.conv.problem import Problem as ConvProblem
from cudamath.kernels.copy.channels_last import as_channels_last
from cudamath.kernels.lib.versions import Version
from cudamath.kernels.matmul import dispatch as matmul_dispatch
from cudamath.kernels.matmul.problem import Problem as MatmulProblem
from cudamath.kernels.reduce import dispatch as reduce_dispatch
from cudamath.kernels.scan import dispatch as scan_dispatch
from cudamath.kernels.scan.problem import Problem as ScanProblem
from cudamath.kernels.softmax import dispatch as softmax_dispatch
from cudamath.kernels.softmax.problem import Problem as SoftmaxProblem

Case = dict[str, Any]
DTYPES = {
    "bfloat16": np.dtype(bfloat16),
    **{name: np.dtype(name) for name in ("float16", "float32", "float64", "complex64", "int32")},
}


@dataclasses.dataclass(frozen=True)
class Family:
    """A family of problems: how a case is drawn, the problem of a case, the versions that may solve
    it, and the layouts that its plan reads. within: of versions by a library that offers several
    plans of a problem, all of these by name."""

    draw: Callable[[random.Random], Case]
    problem: Callable[[Case], Any]
    versions: Callable[[Any], Sequence[Version]]
    inputs: Callable[[Any], Sequence[Layout]]
    within: Mapping[str, Callable[[Any], Mapping[str, Plan]]] = dataclasses.field(
        default_factory=dict
    )


def pick(draw: random.Random, *weighted: tuple[Any, float]) -> Any:
    """One of the values, by weight."""
    values, weights = zip(*weighted, strict=True)
    return draw.choices(values, weights)[0]


# -------------------- convolutions

WIDTHS = (8, 16, 24, 32, 40, 48, 64, 72, 96, 128, 144, 160, 192, 256, 320, 384, 480, 512, 768, 1024)
SIDES = (5, 7, 8, 13, 14, 16, 19, 26, 28, 32, 38, 48, 56, 64, 75, 80, 112, 128, 150, 192, 224, 300)


def draw_conv(draw: random.Random) -> Case:
    """A convolution of images, or one of its gradients, of 10^7 to 10^11 multiply-adds."""
    while True:
        kind = pick(
            draw, ("dense", 6), ("pointwise", 2), ("grouped", 2), ("depthwise", 1), ("patch", 1)
        )
        images, side = 2 ** draw.randint(0, 7), draw.choice(SIDES)
        channels, outputs = (
            draw.choice(WIDTHS)
            if draw.random() < 0.88
            else draw.choice((1, 2, 3, 4, 9, 33, 65, 100))
            for _ in range(2)
        )
        kernel, stride = (
            pick(draw, (3, 6), (5, 2), (7, 1), (2, 1), (4, 1)),
            pick(draw, (1, 7), (2, 3)),
        )
        dilation, groups = pick(draw, (1, 9), (2, 1)), 1
        if kind == "pointwise":
            kernel = dilation = 1
        elif kind == "depthwise":
            groups = outputs = channels
        elif kind == "grouped":
            groups = 2 ** draw.randint(1, 6)
            channels, outputs = (groups * draw.choice((2, 4, 8, 12, 16, 32, 48)) for _ in range(2))
        elif kind == "patch":
            kernel = stride = draw.choice((2, 4, 7, 8, 14, 16))
            dilation = 1
        padding = 0 if kind == "patch" else dilation * (kernel - 1) // 2
        reach = dilation * (kernel - 1) + 1
        if side + 2 * padding < reach:
            continue
        after = (side + 2 * padding - reach) // stride + 1
        work = images * outputs * after**2 * (channels // groups) * kernel**2
        numbers = images * (channels * side**2 + outputs * after**2)
        if not 1e7 < work < 1e11 or not 1e4 < numbers < 3e8:
            continue
        dtype, last = pick(
            draw,
            (("bfloat16", True), 6),
            (("bfloat16", False), 1),
            (("float32", False), 3),
            (("float32", True), 1),
        )
        return {
            "role": draw.choice(("forward", "input", "weight")),
            "n": images,
            "ci": channels,
            "size": [side, side],
            "co": outputs,
            "kernel": kernel,
            "stride": stride,
            "dilation": dilation,
            "padding": padding,
            "groups": groups,
            "dtype": dtype,
            "last": last,
            "tf32": dtype == "float32" and last and draw.random() < 0.5,
        }


def conv_problem(case: Case) -> ConvProblem:
    """The problem of a case."""
    kernel, stride, dilation, padding = (
        case[key] for key in ("kernel", "stride", "dilation", "padding")
    )
    after = [(n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for n in case["size"]]

    def layout(*shape: int) -> Layout:
        straight = Layout.new(shape, DTYPES[case["dtype"]], 0)
        return as_channels_last(straight) if case["last"] else straight

    rank, (images, channels, outputs) = len(after), (case[key] for key in ("n", "ci", "co"))
    return ConvProblem(
        case["role"],
        layout(images, channels, *case["size"]),
        layout(outputs, channels // case["groups"], *[kernel] * rank),
        layout(images, outputs, *after),
        None,
        (stride,) * rank,
        (padding,) * (2 * rank),
        (dilation,) * rank,
        case["groups"],
        case["tf32"],
    )


def plans_of_cudnn(problem: ConvProblem) -> dict[str, Plan]:
    """All plans without a transform that cuDNN has for a problem, in its own order."""
    names = conv_cudnn.names_of_plans(problem, transforms=False)
    plans = {name: conv_cudnn.convolution(problem, name) for name in names}
    return {name: plan for name, plan in plans.items() if plan is not None}


# -------------------- products


def _side(draw: random.Random, top: int) -> int:
    """A side of a matrix, up to 2^top: a power of two, a multiple of 64, or any."""
    return pick(
        draw,
        (2 ** draw.randint(3, top), 3),
        (64 * draw.randint(1, 2 ** (top - 6)), 3),
        (draw.randint(1, 2**top), 2),
    )


def draw_matmul(draw: random.Random) -> Case:
    """A product, single or in a batch, of 10^5 to 10^12 multiply-adds."""
    while True:
        dtype = pick(
            draw,
            *(("bfloat16", 6), ("float16", 1), ("float32", 5), ("float64", 1), ("complex64", 1)),
        )
        batch = pick(draw, (1, 6), (2 ** draw.randint(1, 8), 2), (draw.randint(2, 200), 1))
        top = 13 if batch == 1 else 10

        m, k, n = (_side(draw, top) for _ in range(3))
        m = draw.randint(1, 16) if draw.random() < 0.15 else m
        if 1e5 < batch * m * k * n < 1e12 and batch * max(m * k, k * n, m * n) < 5e8:
            return {
                **{"batch": batch, "m": m, "k": k, "n": n, "dtype": dtype},
                "ta": draw.random() < 0.25,
                "tb": draw.random() < 0.4,
                "tf32": dtype == "float32" and draw.random() < 0.15,
            }


def matmul_problem(case: Case) -> MatmulProblem:
    """The problem of a case; an operand that is transposed lies with its last axes exchanged."""

    def operand(rows: int, columns: int, turned: bool) -> Layout:
        dtype, lead = DTYPES[case["dtype"]], (case["batch"],) * (case["batch"] > 1)
        size = dtype.itemsize
        row, column = (size, rows * size) if turned else (columns * size, size)
        strides = (rows * columns * size,) * len(lead)
        return Layout.of((*lead, rows, columns), (*strides, row, column), dtype, 0)

    a = operand(case["m"], case["k"], case["ta"])
    return MatmulProblem(a, operand(case["k"], case["n"], case["tb"]), case["tf32"])


# -------------------- sizes


def rows(draw: random.Random) -> int:
    """Rows of a batch: tokens of images and sentences, powers of two, any."""
    return pick(
        draw,
        (draw.choice((50, 196, 198, 256, 512, 1025)) * draw.choice((1, 3, 4, 16)), 2),
        (2 ** draw.randint(4, 14), 2),
        (draw.randint(20, 16000), 2),
    )


def columns(draw: random.Random) -> int:
    """Columns: widths of models, and any."""
    return pick(
        draw,
        (128 * draw.randint(1, 40), 3),
        (2 ** draw.randint(5, 15), 2),
        (draw.randint(10, 40000), 2),
    )


def any_shape(draw: random.Random, low: int, high: int) -> tuple[int, ...]:
    """Of 2^low to 2^high elements, in one to four dimensions."""
    left, sizes = draw.uniform(low, high), []
    for more in range(draw.randint(0, 3), 0, -1):
        part = draw.uniform(0, 2 * left / (more + 1))
        sizes.append(max(1, round(2**part)))
        left -= part
    return (*sizes, max(1, round(2**left)))


# -------------------- attention, reductions, scans, softmax


def draw_attention(draw: random.Random) -> Case:
    while True:
        shared = pick(draw, (1, 4), (2, 1), (4, 2), (8, 1))
        heads = shared * draw.choice((1, 2, 3, 4, 8))
        queries = pick(
            draw,
            (2 ** draw.randint(6, 13), 3),
            (draw.choice((50, 198, 256, 1025, 3000)), 2),
            (draw.randint(30, 6000), 2),
            (1, 1),
        )
        keys = queries if draw.random() < 0.7 and queries > 1 else draw.randint(64, 10000)
        case = {
            **{"batch": 2 ** draw.randint(0, 5), "heads": heads, "shared": shared},
            **{"queries": queries, "keys": keys},
            "depth": draw.choice((64, 64, 64, 128, 128, 128, 32, 48, 80, 96, 112, 192, 256)),
            "dtype": pick(draw, ("bfloat16", 3), ("float16", 1)),
            "causal": queries == keys and draw.random() < 0.5,
            "gradient": queries > 1 and draw.random() < 0.4,
        }
        work = math.prod(case[name] for name in ("batch", "heads", "queries", "keys", "depth"))
        if 1e7 < work < 5e11:
            return case


def attention_problem(case: Case) -> AttentionProblem:
    """The problem of a case, of arrays in C order."""
    dtype, depth, batch = DTYPES[case["dtype"]], case["depth"], case["batch"]
    few = case["heads"] // case["shared"]
    q = Layout.new((batch, case["heads"], case["queries"], depth), dtype, 0)
    k = Layout.new((batch, few, case["keys"], depth), dtype, 0)
    gradient = case["gradient"]
    lse = Layout.new(q.shape[:3], np.dtype(np.float32), 0) if gradient else None
    return AttentionProblem(
        *(q, k, k, None, None, None, None),
        *(case["causal"], depth**-0.5, False, q if gradient else None, lse),
    )


def attention_inputs(problem: AttentionProblem) -> tuple[Layout, ...]:
    """q, k, v; of a gradient g, q, k, v, y, lse."""
    q, k, v = problem.q, problem.k, problem.v
    if problem.g is None or problem.lse is None:
        return q, k, v
    return problem.g, q, k, v, problem.g, problem.lse


def draw_reduction(draw: random.Random) -> Case:
    shape = any_shape(draw, 14, 26)
    axes = sorted(draw.sample(range(len(shape)), draw.randint(1, len(shape))))
    return {
        "kind": draw.choice(("sum", "max", "mean", "std", "argmax")),
        **{"shape": list(shape), "axes": axes},
        "dtype": pick(draw, ("float32", 3), ("bfloat16", 2), ("float64", 1)),
    }


def reduction_problem(case: Case) -> Any:
    """The problem of a case, of an array in C order."""
    x = Layout.new(tuple(case["shape"]), DTYPES[case["dtype"]], 0)
    places = case["kind"] == "argmax"
    dtype = np.dtype(np.int64) if places else x.dtype
    return reduce_dispatch.problem_of(x, case["kind"], tuple(case["axes"]), False, dtype)


def draw_scan(draw: random.Random) -> Case:
    shape = any_shape(draw, 12, 25)
    return {
        "kind": draw.choice(("sum", "sum", "max")),
        **{"shape": list(shape), "axis": draw.randrange(len(shape))},
        "dtype": pick(draw, ("float32", 3), ("bfloat16", 1), ("float64", 1), ("int32", 1)),
    }


def scan_problem(case: Case) -> Any:
    """The problem of a case, of an array in C order."""
    x = Layout.new(tuple(case["shape"]), DTYPES[case["dtype"]], 0)
    wider = case["dtype"] == "int32" and case["kind"] == "sum"
    return ScanProblem(x, case["kind"], case["axis"], np.dtype(np.int64) if wider else x.dtype)


def draw_softmax(draw: random.Random) -> Case:
    n = columns(draw)
    return {
        "shape": [max(1, min(rows(draw), 2**27 // n)), n],
        "axis": pick(draw, (1, 4), (0, 1)),
        "dtype": pick(draw, ("bfloat16", 1), ("float32", 1)),
        "gradient": draw.random() < 0.3,
    }


def softmax_problem(case: Case) -> Any:
    """The problem of a case, of arrays in C order."""
    x = Layout.new(tuple(case["shape"]), DTYPES[case["dtype"]], 0)
    return SoftmaxProblem((x,) * (1 + case["gradient"]), case["axis"], False)


FAMILIES = {
    "conv": Family(
        draw_conv,
        conv_problem,
        lambda problem: conv_dispatch.TABLES[problem.kind],
        lambda problem: problem.operands,
        {"cudnn": plans_of_cudnn},
    ),
    "matmul": Family(
        draw_matmul,
        matmul_problem,
        lambda problem: matmul_dispatch.VERSIONS,
        lambda problem: (problem.a, problem.b),
    ),
    "attention": Family(
        draw_attention,
        attention_problem,
        lambda problem: (
            attention_dispatch.FORWARD if problem.g is None else attention_dispatch.BACKWARD
        ),
        attention_inputs,
    ),
    "reduction": Family(
        draw_reduction,
        reduction_problem,
        lambda problem: reduce_dispatch.VERSIONS,
        lambda problem: (problem.x,),
    ),
    "scan": Family(
        draw_scan,
        scan_problem,
        lambda problem: scan_dispatch.VERSIONS,
        lambda problem: (problem.x,),
    ),
    "softmax": Family(
        draw_softmax,
        softmax_problem,
        lambda problem: softmax_dispatch.VERSIONS,
        lambda problem: problem.inputs,
    ),
}


def drawn(names: Sequence[str], count: int, seed: int) -> list[tuple[str, Case]]:
    """`count` cases of the families in turn; the first of them are the same for any count."""
    draws = {name: random.Random(f"{seed} {name}") for name in names}
    order = [names[i % len(names)] for i in range(count)]
    return [(name, FAMILIES[name].draw(draws[name])) for name in order]


def multiply_adds(case: Case) -> float:
    """Of a convolution, for figures in print."""
    after = [
        (n + 2 * case["padding"] - case["dilation"] * (case["kernel"] - 1) - 1) // case["stride"]
        + 1
        for n in case["size"]
    ]
    each = case["ci"] // case["groups"] * case["kernel"] ** len(after)
    return case["n"] * case["co"] * math.prod(after) * each
