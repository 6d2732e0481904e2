"""A thread per line, or per segment of a line. Any strides, any GPU, and the simulator."""

import functools
from typing import Any

import numpy as np

from ...core.dispatch.arguments import Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Launch
from ...core.layout import Layout
from ..compiler.decorators import bounded
from ..compiler.lazy_numba import cuda, dtype_of, types
from ..lib.codec import codec
from ..lib.integers import blocks
from .decoupled_lookback import scan_functions
from .problem import LINE_STEP, LINE_THREADS, Problem, lines_shape, short_blocks

# elements that it combines one after another before it starts a new part: rounding errors of a
# float sum grow with the number of parts, not of elements
LINE_RUN = 64


@functools.cache
def line_totals(kind: str, source: np.dtype, target: np.dtype) -> Any:
    """totals[s, line] = all of segment s of a line combined, in order."""
    lift, combine, identity, A = scan_functions(kind, source, target)

    @cuda.jit
    def line_totals(
        x, totals, length
    ):  # x: (before, n, after); totals: (segments, before * after); length: of one
        i = cuda.grid(1)
        lines = totals.shape[1]
        s = i // lines
        if s < totals.shape[0]:
            line = i - s * lines
            b = line // x.shape[2]
            a = line - b * x.shape[2]
            total = identity
            part = identity
            first = s * length
            j = first
            stop = min(j + length, x.shape[1])
            ahead = cuda.local.array(LINE_STEP, A)
            while j + LINE_STEP <= stop:  # all loads go out before the first is waited for
                for k in range(LINE_STEP):
                    ahead[k] = lift(x[b, j + k, a])
                for k in range(LINE_STEP):
                    part = combine(part, ahead[k])
                j += LINE_STEP
                if (j - first) % LINE_RUN == 0:
                    total = combine(total, part)
                    part = identity
            while j < stop:
                part = combine(part, lift(x[b, j, a]))
                j += 1
            total = combine(total, part)
            totals[s, line] = total

    return line_totals


@functools.cache
def scan_lines(kind: str, source: np.dtype, target: np.dtype) -> Any:
    """y[b, j, a] = x[b, 0, a] combine ... combine x[b, j, a]; a thread a segment of a line, after
    ``line_totals``."""
    lift, combine, identity, A = scan_functions(kind, source, target)
    store = codec(target)[1]

    @cuda.jit
    def scan_lines(x, y, totals, length, segments):
        # x, y: (before, n, after), totals: (segments, before * after), not read if there is 1
        # segment
        i = cuda.grid(1)
        lines = x.shape[0] * x.shape[2]
        s = i // lines if segments > 1 or i >= lines else 0
        if s < segments:
            line = i - s * lines
            b = line // x.shape[2] if x.shape[0] > 1 else 0
            a = line - b * x.shape[2]
            n = x.shape[1]
            total = identity
            for p in range(s):
                total = combine(total, totals[p, line])
            part = identity
            begin = s * length
            j = begin
            stop = min(j + length, n)
            ahead = cuda.local.array(LINE_STEP, A)
            while j + LINE_STEP <= stop:  # all loads go out before the first store waits for one
                for k in range(LINE_STEP):
                    ahead[k] = lift(x[b, j + k, a])
                for k in range(LINE_STEP):
                    part = combine(part, ahead[k])
                    y[b, j + k, a] = store(combine(total, part))
                j += LINE_STEP
                if (j - begin) % LINE_RUN == 0:
                    total = combine(total, part)
                    part = identity
            for k in range(LINE_STEP):  # of the last ones, too
                if j + k < stop:
                    ahead[k] = lift(x[b, j + k, a])
            for k in range(LINE_STEP):
                if j + k < stop:
                    part = combine(part, ahead[k])
                    y[b, j + k, a] = store(combine(total, part))

    return scan_lines


@functools.cache
def scan_short(
    kind: str, source: np.dtype, target: np.dtype, n: int, held: int, narrow: bool
) -> Any:
    """As ``scan_lines``, of short lines, whose length is known: a thread has few registers, so that
    many of them run at once, `held` blocks. narrow: fewer than 2**31 lines."""
    lift, combine, identity, A = scan_functions(kind, source, target)
    store, number = codec(target)[1], types.uint32 if narrow else types.int64

    @bounded((LINE_THREADS, held))
    def scan_short_lines(x, y, lines):  # x, y: (before, n, after); lines: before * after
        ahead = cuda.local.array(n, A)
        i = number(number(cuda.blockIdx.x) * number(LINE_THREADS) + number(cuda.threadIdx.x))
        after = number(x.shape[2])
        if i < lines:
            b = number(i // after) if x.shape[0] > 1 else number(0)
            a = number(i - b * after)
            for k in range(n):
                ahead[k] = lift(x[b, k, a])
            total = identity
            for k in range(n):
                total = combine(total, ahead[k])
                y[b, k, a] = store(total)

    return scan_short_lines


def plan(problem: Problem) -> Plan:
    """Planner."""
    steps, source, layout, copies = problem.boxed
    kinds, (before, _, after) = problem.kinds, layout.shape
    lines = before * after
    segments, length = lines_shape(problem)
    if held := short_blocks(problem):
        kernel = scan_short(*kinds, problem.n, held, lines + LINE_THREADS < 1 << 31)
        arguments = [source, Output(0).view(layout.shape), lines]
        last = Launch(kernel, blocks(lines, LINE_THREADS), LINE_THREADS, arguments)
        return Plan([problem.out], [*steps, last], copies)
    total = Layout.new((segments, lines), dtype_of(scan_functions(*kinds).A), layout.device)
    totals, target = Temp(len(copies)), Output(0).view(layout.shape)
    grid = blocks(segments * lines, LINE_THREADS)
    if segments > 1:
        launch = Launch(line_totals(*kinds), grid, LINE_THREADS, [source, totals, length])
        steps = [*steps, launch]
    arguments = [source, target, totals, length, segments]
    last = Launch(scan_lines(*kinds), grid, LINE_THREADS, arguments)
    return Plan([problem.out], [*steps, last], [*copies, total])
