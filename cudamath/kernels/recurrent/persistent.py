"""One recurrent layer as one kernel forward and one for the gradient: the weights of the state stay
in shared memory for all steps.

The idea. Each step is a small product, of the state (batch, units) with W_hh^T, and cannot begin
before the step ahead has ended. A kernel a step reads the weights anew, and pays for its start.
Here a block keeps the rows of W_hh of 16 units for all steps and works on 16 sequences: `layer` is
launched once. A step of a block is

1. the product of the state of its 16 sequences, as the blocks left it in y, with its rows: the 8
   warps take every eighth vector of 4 numbers of the sum, a thread 4 sequences and every eighth
   row, so that 4 numbers of each operand serve 16 multiplications or more;
2. the sum of the 8 parts, and the gates: a thread has one unit of one sequence, and keeps its cell
   in a register;
3. its part of the next state is written, and a counter in memory is raised, for which all blocks of
   the same sequences wait. All blocks must run at the same time: the launch is cooperative, and the
   grid is no larger than the device has multiprocessors, each of which holds a block whatever
   registers it takes.

`layer_grad` does the same from the last step to the first, with the gradients of the gates (batch,
gates units) in the place of the state, and W_hh in that of its transpose. The products with inputs,
and the gradients of the weights, need no order: they are products of all steps, before and after.

Floor: of each step 2 batch gates units^2 operations (for 64 sequences and 512 units of an LSTM 134
million, 2 us at an H100's rate of float32), and about 2 us until the blocks know of one another's
results; the weights are read once. float32 numbers are multiplied as they are.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...core.dispatch.arguments import ArrayArg, Input, Output, Temp
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call, Launch
from ...core.layout import Layout
from ...core.specs.recurrent import GATES, Layers, tensors
from ...runtime.cudnn_recurrent import Problem
from ...runtime.device import SHARED_KIB, capability, multiprocessors
from ..compiler.generated import compiled
from ..compiler.lazy_numba import SIMULATOR, cuda, types
from ..copy.dispatch import copy_part
from ..copy.fill import fill_part
from ..copy.parts import Part, whole
from ..lib.integers import blocks
from ..lib.plan_edit import embed
from ..matmul.dispatch import matmul
from ..reduce.dispatch import plan as reduced

if not SIMULATOR:
    from ..ptx.lookback import load_relaxed
    from ..ptx.vector_access import load_vector

SIDE = 16  # sequences, and units, of a block
WARPS = 8
THREADS = WARPS * 32
FLOAT, WORD, BYTES = np.dtype(np.float32), np.dtype(np.uint32), np.dtype(np.uint8)


def pitch(depth: int) -> int:
    """Elements from one row of weights to the next in shared memory: the vectors that 8 lanes read
    at a time lie in different banks."""
    return depth + (4 - depth) % 32


def shared_bytes(columns: int, depth: int) -> int:
    """The weights and the parts of the sums of a block."""
    return 4 * (columns * pitch(depth) + WARPS * SIDE * columns)


def obstacle(p: Problem) -> str:
    """Why the kernels do not compute a problem; empty where they do."""
    grid, gates = math.prod(_grid(p)), GATES[p.kind]
    shared = max(shared_bytes(gates * SIDE, p.units), shared_bytes(SIDE, gates * p.units))
    held, most = multiprocessors(p.device), SHARED_KIB.get(capability(p.device), 48) << 10
    if p.dtype != FLOAT:
        return f"it computes float32, not {p.dtype}"
    if p.layers != 1 or p.directions != 1:
        return "it computes one layer in one direction"
    if p.out != p.units:
        return "it has no projection"
    if p.lengths is not None:
        return "it has no lengths of sequences"
    if p.units % 8:  # what a step reads must share no 32 bytes with what others write
        return f"{p.units} units are no multiple of 8"
    if shared > most:
        return f"a block needs {shared} bytes of shared memory, of {most}"
    if grid > held:
        return f"its {grid} blocks wait for one another, and {held} run at the same time"
    return ""


# -------------------- kernels


def _product(source: str, columns: int) -> list[str]:
    """Statements that leave the parts of the sums of 16 sequences and so many columns in shared
    memory. `source`: the array of the sequences; in scope: `at`, where the first one begins in it,
    `depth`, `pitch` and `parts`."""
    own = columns // 8
    accumulators = [(r, c) for r in range(4) for c in range(own)]
    lines = [f"a{r}_{c} = types.float32(0)" for r, c in accumulators]
    lines += [f"p{r} = at + min(row4 + {r}, rows - 1) * depth" for r in range(4)]
    lines += [f"w{c} = (column + {8 * c}) * pitch" for c in range(own)]

    def multiplied(vectors: int) -> list[str]:
        out = []
        for v in range(vectors):
            for r in range(4):
                names = ", ".join(f"x{v}_{r}_{j}" for j in range(4))
                out.append(f"    {names} = load4({source}, p{r} + k + {32 * v})")
        for v in range(vectors):
            for c in range(own):
                out.append(f"    v0, v1, v2, v3 = load4(shared, w{c} + k + {32 * v})")
                for j in range(4):
                    for r in range(4):
                        a = f"a{r}_{c}"
                        out.append(f"    {a} = cuda.fma(x{v}_{r}_{j}, v{j}, {a})")
        return out

    lines += ["k = 4 * warp", "while k + 32 < depth:", *multiplied(2), "    k += 64"]
    lines += ["if k < depth:", *multiplied(1)]
    lines += [
        f"shared[parts + (warp * 16 + row4 + {r}) * {columns} + column + {8 * c}] = a{r}_{c}"
        for r, c in accumulators
    ]
    return [*lines, "cuda.syncthreads()"]


def _sums(columns: int, count: int) -> list[str]:
    """Statements for s0, s1, ...: the sums of a thread's sequence and unit."""
    return [
        f"s{g} = "
        + " + ".join(
            f"shared[parts + {(w * 16) * columns + 16 * g} + b * {columns} + u]"
            for w in range(WARPS)
        )
        for g in range(count)
    ]


#: Statements that wait until all blocks of the same sequences have come here in this step.
_MEETING = [
    "cuda.threadfence()",
    "cuda.syncthreads()",
    "if tid == 0:",
    "    place = cuda.blockIdx.y * steps + step",
    "    cuda.atomic.add(counters, place, types.uint32(1))",
    "    while arrived(counters, place) < groups:",
    "        pass",
    "    cuda.threadfence()",
    "cuda.syncthreads()",
]

_BEGINNING = [
    "shared = cuda.shared.array(0, types.float32)",
    "tid = cuda.threadIdx.x",
    "warp, lane = tid // 32, tid % 32",
    "row4, column = lane // 8 * 4, lane % 8",
    "b, u = tid // 16, tid % 16",
    "first_row, first_unit = cuda.blockIdx.y * 16, cuda.blockIdx.x * 16",
    "rows = min(16, batch - first_row)",
    "row, unit = first_row + b, first_unit + u",
    "inside = row < batch and unit < units",
    "own = row * units + unit",
    "groups = types.uint32(cuda.gridDim.x)",
]


def _namespace() -> dict[str, Any]:
    one = types.float32

    @cuda.jit(device=True)
    def sigmoid(x):
        return one(1) / (one(1) + math.exp(-x))

    found = {"cuda": cuda, "types": types, "math": math, "sigmoid": sigmoid}
    if SIMULATOR:

        def load4(x, at):
            return x[at], x[at + 1], x[at + 2], x[at + 3]

        def arrived(x, at):
            return x[at]

        return {**found, "load4": load4, "arrived": arrived}

    @cuda.jit(device=True)
    def load4(x, at):
        return load_vector(x, at, 4)

    return {**found, "load4": load4, "arrived": load_relaxed}


def _kernel(name: str, parameters: str, lines: list[str]) -> Any:
    body = "".join(f"    {line}\n" for line in lines)
    return cuda.jit(compiled(f"def {name}({parameters}):\n{body}", name, _namespace()))


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


#: Statements from the products with inputs u0, .. and the state s0, .. (biases included) to the
#: gates g0, .., what is kept of the cell (`kept`), and the new state h and cell c.
_FORWARD = {
    "tanh": ["g0 = math.tanh(u0 + s0)", "h = g0"],
    "relu": ["g0 = max(u0 + s0, types.float32(0))", "h = g0"],
    "lstm": [
        "g0, g1, g3 = sigmoid(u0 + s0), sigmoid(u1 + s1), sigmoid(u3 + s3)",
        "g2 = math.tanh(u2 + s2)",
        "c = g1 * c + g0 * g2",
        "kept = c",
        "h = g3 * math.tanh(c)",
    ],
    "gru": [
        "g0, g1 = sigmoid(u0 + s0), sigmoid(u1 + s1)",
        "g2 = math.tanh(u2 + g0 * s2)",
        "kept = s2",
        "h = g2 + g1 * (h - g2)",
    ],
}

#: Statements from the gradients d of the new state and dc of the cell to those d0, .. of the
#: products with inputs, e0, .. of those with the state, and what the old state gets besides
#: (`passed`). before: the old state, or for an LSTM the old cell; kept: as above.
_BACKWARD = {
    "tanh": ["d0 = d * (one - g0 * g0)"],
    "relu": ["d0 = d if g0 > types.float32(0) else types.float32(0)"],
    "lstm": [
        "bent = math.tanh(kept)",
        "dc = dc + d * g3 * (one - bent * bent)",
        "d0 = dc * g2 * g0 * (one - g0)",
        "d1 = dc * before * g1 * (one - g1)",
        "d2 = dc * g0 * (one - g2 * g2)",
        "d3 = d * bent * g3 * (one - g3)",
        "dc = dc * g1",
    ],
    "gru": [
        "d2 = d * (one - g1) * (one - g2 * g2)",
        "d1 = d * (before - g2) * g1 * (one - g1)",
        "d0 = d2 * kept * g0 * (one - g0)",
        "e2 = d2 * g0",
        "passed = d * g1",
    ],
}


@functools.cache
def layer(kind: str, bias: bool, given: bool, training: bool) -> Any:
    """Arguments, float32 in one dimension: w, the vector of weights; inputs (steps, batch, gates
    units), x W_ih^T; h0, c0 (batch, units), if they are given; y (steps, batch, units); gates like
    inputs and cells like y, if `training`; last h and c; counters (groups of sequences, steps),
    uint32, 0; sizes, and where in w the matrix and the biases begin."""
    gates = GATES[kind]
    columns = gates * SIDE
    lines = [
        *_BEGINNING,
        "depth = units",
        f"pitch, parts = row_pitch, {columns} * row_pitch",
        f"for i in range(tid, {columns} * units, {THREADS}):",
        "    col, k = i // units, i % units",
        "    at_unit = first_unit + col % 16",
        "    value = types.float32(0)",
        "    if at_unit < units:",
        "        value = w[at_hh + (col // 16 * units + at_unit) * units + k]",
        "    shared[col * pitch + k] = value",
    ]
    zero = "types.float32(0)"
    for g in range(gates):
        lines += [f"bi{g} = {zero}", f"bh{g} = {zero}"]
        if bias:
            lines += [
                "if inside:",
                f"    bi{g} = w[at_bias_ih + {g} * units + unit]",
                f"    bh{g} = w[at_bias_hh + {g} * units + unit]",
            ]
    lines += [f"h = {zero}", f"c = {zero}", f"kept = {zero}"]
    if given:
        lines += ["if inside:", "    h = h0[own]"]
        lines += ["    c = c0[own]"] if kind == "lstm" else []
    lines.append("cuda.syncthreads()")
    step = ["place_of = (step * batch + row) * units + unit"]
    step += [f"place_in = (step * batch + row) * units * {gates} + unit"]
    for g in range(gates):
        step += [f"u{g} = bi{g}", "if inside:", f"    u{g} += inputs[place_in + {g} * units]"]
        step.append(f"s{g} = {zero}")
    step += ["if step > 0:", "    at = ((step - 1) * batch + first_row) * units"]
    step += _indented([*_product("y", columns), *_sums(columns, gates)])
    if given:
        step += ["else:", "    at = first_row * units"]
        step += _indented([*_product("h0", columns), *_sums(columns, gates)])
    step += [f"s{g} += bh{g}" for g in range(gates)]
    step += [*_FORWARD[kind], "if inside:", "    y[place_of] = h"]
    if training:
        step += [f"    gates[place_in + {g} * units] = g{g}" for g in range(gates)]
        step += ["    cells[place_of] = kept"] if kind in ("lstm", "gru") else []
    step += ["if step + 1 < steps:", *_indented(_MEETING)]
    lines += ["for step in range(steps):", *_indented(step)]
    lines += ["if inside:", "    last_h[own] = h"]
    lines += ["    last_c[own] = c"] if kind == "lstm" else []
    parameters = (
        "w, inputs, h0, c0, y, gates, cells, last_h, last_c, counters, steps, batch, units, "
        "row_pitch, at_hh, at_bias_ih, at_bias_hh"
    )
    return _kernel("recurrent_layer", parameters, lines)


@functools.cache
def layer_grad(kind: str, given: bool, of_h: bool, of_c: bool) -> Any:
    """Arguments as of `layer`, and: dy like y; dh, dc, the gradients of the last h and c, if they
    are there; du and dv, of the products with inputs and with the state (one array but for a GRU);
    dh0, dc0."""
    gates, one = GATES[kind], "types.float32(1)"
    zero = "types.float32(0)"
    lines = [
        *_BEGINNING,
        f"one = {one}",
        f"depth = {gates} * units",
        "pitch, parts = row_pitch, 16 * row_pitch",
        f"for i in range(tid, 16 * depth, {THREADS}):",
        "    j, at_unit = i // 16, first_unit + i % 16",
        "    value = types.float32(0)",
        "    if at_unit < units:",
        "        value = w[at_hh + j * units + at_unit]",
        "    shared[i % 16 * pitch + j] = value",
        *(f"g{g} = d{g} = e{g} = {zero}" for g in range(gates)),
        f"h = dc = passed = before = kept = {zero}",
    ]
    lines += ["if inside:", "    h = dh[own]"] if of_h else []
    lines += ["if inside:", "    dc = dc_last[own]"] if of_c else []
    lines.append("cuda.syncthreads()")
    step = [
        "t = steps - 1 - step",
        "place_of = (t * batch + row) * units + unit",
        f"place_in = (t * batch + row) * units * {gates} + unit",
        "d = h",
        "if inside:",
        "    d += dy[place_of]",
        *(f"    g{g} = gates[place_in + {g} * units]" for g in range(gates)),
    ]
    if kind in ("lstm", "gru"):
        states, first = ("cells", "c0") if kind == "lstm" else ("y", "h0")
        step += [
            "    kept = cells[place_of]",
            f"    before = {first + '[own]' if given else zero}",
            "    if t > 0:",
            f"        before = {states}[place_of - batch * units]",
        ]
    step += _BACKWARD[kind]
    others = range(gates - 1) if kind == "gru" else range(gates)
    step += [f"e{g} = d{g}" for g in others]
    step += ["if inside:"]
    step += [f"    dv[place_in + {g} * units] = e{g}" for g in range(gates)]
    if kind == "gru":
        step += [f"    du[place_in + {g} * units] = d{g}" for g in range(gates)]
    product = [
        *_MEETING,
        f"at = (t * batch + first_row) * units * {gates}",
        *_product("dv", SIDE),
        *_sums(SIDE, 1),
        "h = s0 + passed",
    ]
    step += product if given else ["if t > 0:", *_indented(product)]
    lines += ["for step in range(steps):", *_indented(step)]
    if given:
        lines += ["if inside:", "    dh0[own] = h"]
        lines += ["    dc0[own] = dc"] if kind == "lstm" else []
    parameters = (
        "w, h0, c0, y, gates, cells, dy, dh, dc_last, du, dv, dh0, dc0, counters, steps, batch, "
        "units, row_pitch, at_hh"
    )
    return _kernel("recurrent_layer_grad", parameters, lines)


# -------------------- planners


class _Steps:
    """The steps of a plan, and its scratch arrays."""

    def __init__(self) -> None:
        self.steps: list[Launch | Call] = []
        self.temps: list[Layout] = []

    def temp(self, layout: Layout) -> ArrayArg:
        """A new scratch array."""
        self.temps.append(layout)
        return Temp(len(self.temps) - 1)

    def copied(self, source: Part) -> ArrayArg:
        """A part in an array of its own."""
        layout = source.layout.like()
        out = self.temp(layout)
        self.steps += copy_part(source, whole(out, layout))
        return out

    def embedded(self, plan: Plan, inputs: list[ArrayArg], output: ArrayArg) -> None:
        """The steps of another plan."""
        count = len(self.temps)
        self.temps += plan.temps
        self.steps += embed(plan.steps, dict(enumerate(inputs)), output, count)

    def counters(self, p: Problem, like: Layout) -> ArrayArg:
        """The words by which blocks meet, zeros."""
        layout = Layout.new((blocks(p.batch, SIDE) * p.steps,), WORD, like.device)
        out = self.temp(layout)
        self.steps += fill_part(whole(out, layout), np.uint64(0), np.uint64(0), None)
        return out


def _turned(layout: Layout) -> Layout:
    rows, columns = layout.shape
    return Layout.of((columns, rows), layout.strides[::-1], layout.dtype, layout.device)


def _sizes(p: Problem) -> tuple[int, int, int]:
    """Elements of an array of all steps by gate, of one of all steps, of one of a step."""
    state = p.batch * p.units
    return p.steps * state * GATES[p.kind], p.steps * state, state


def _places(p: Problem) -> dict[str, int]:
    form = Layers(p.kind, p.features, p.units, p.out, 1, 1, p.bias)
    return {t.role: t.start for t in tensors(form)}


def _reserve(p: Problem, x: Layout) -> Layout:
    """Gates and cells of all steps."""
    by_gate, of_steps, _ = _sizes(p)
    return Layout.new((4 * (by_gate + of_steps) if p.training else 0,), BYTES, x.device)


def _grid(p: Problem) -> tuple[int, int]:
    return blocks(p.units, SIDE), blocks(p.batch, SIDE)


def _part(argument: ArrayArg, like: Layout, shape: tuple[int, ...], start: int) -> Part:
    """Elements of a vector of float32 from a place on, in C order."""
    return Part(argument, Layout.new(shape, FLOAT, like.device), 4 * start)


def layers(p: Problem, x: Layout, w: Layout, h: Layout | None, c: Layout | None) -> Plan:
    """See `cudnn.layers`."""
    gates, (by_gate, of_steps, state) = GATES[p.kind], _sizes(p)
    places, reserve, made = _places(p), _reserve(p, x), _Steps()
    rows = p.steps * p.batch
    outputs = [x.like((p.steps, p.batch, p.units)), reserve, x.like((1, p.batch, p.units))]
    if p.kind == "lstm":
        outputs.append(outputs[2])
    flat, matrix = x.like((rows, p.features)), x.like((gates * p.units, p.features))
    plan = matmul(flat, _turned(matrix), tf32=p.tf32)
    weights = made.copied(_part(Input(1), x, matrix.shape, places["ih"]))
    inputs = made.temp(plan.outputs[0])
    made.embedded(plan, [Input(0), weights], inputs)
    counters = made.counters(p, x)
    absent = Output(0).view((of_steps,))
    h0 = Input(2).view((state,)) if h is not None else absent
    c0 = Input(3).view((state,)) if c is not None else absent
    kept = [absent, absent]
    if p.training:
        kept = [
            Output(1).view((by_gate,), dtype=FLOAT),
            Output(1).view((of_steps,), dtype=FLOAT, offset=4 * by_gate),
        ]
    last_c = Output(3).view((state,)) if p.kind == "lstm" else absent
    arguments = [
        *(Input(1), inputs.view((by_gate,)), h0, c0, absent, *kept),
        *(Output(2).view((state,)), last_c, counters, p.steps, p.batch, p.units),
        *(pitch(p.units), places["hh"], places.get("bias_ih", 0), places.get("bias_hh", 0)),
    ]
    kernel = layer(p.kind, p.bias, h is not None, p.training)
    shared = shared_bytes(gates * SIDE, p.units)
    made.steps.append(Launch(kernel, _grid(p), THREADS, arguments, shared, cooperative=True))
    return Plan(outputs, made.steps, made.temps, "persistent: one kernel for all steps")


def layers_grad(
    p: Problem,
    x: Layout,
    w: Layout,
    y: Layout,
    reserve: Layout,
    dy: Layout,
    h: Layout | None,
    c: Layout | None,
    dh: Layout | None,
    dc: Layout | None,
) -> Plan:
    """See `cudnn.layers_grad`."""
    gates, (by_gate, of_steps, state) = GATES[p.kind], _sizes(p)
    places, made, rows = _places(p), _Steps(), p.steps * p.batch
    arguments_of = iter(range(5, 9))
    h_, c_, dh_, dc_ = [
        Input(next(arguments_of)).view((state,)) if a is not None else Input(2).view((of_steps,))
        for a in (h, c, dh, dc)
    ]
    outputs = [x.like(), w.like(), *[a.like() for a in (h, c) if a is not None]]
    width = gates * p.units
    du_layout = x.like((rows, width))
    dv = made.temp(du_layout)
    du = made.temp(du_layout) if p.kind == "gru" else dv
    counters = made.counters(p, x)
    flat_y = Input(2).view((of_steps,))
    ends = [
        Output(2 + i).view((state,)) if a is not None else dv.view((by_gate,))
        for i, a in enumerate((h, c))
    ]
    kernel = layer_grad(p.kind, h is not None, dh is not None, dc is not None)
    arguments = [
        *(Input(1), h_, c_, flat_y, Input(3).view((by_gate,), dtype=FLOAT)),
        Input(3).view((of_steps,), dtype=FLOAT, offset=4 * by_gate),
        *(Input(4).view((of_steps,)), dh_, dc_, du.view((by_gate,)), dv.view((by_gate,)), *ends),
        *(counters, p.steps, p.batch, p.units, pitch(width), places["hh"]),
    ]
    shared = shared_bytes(SIDE, width)
    made.steps.append(Launch(kernel, _grid(p), THREADS, arguments, shared, cooperative=True))

    def place(roles: tuple[str, ...], plan: Plan, inputs: list[ArrayArg]) -> None:
        """The result of a plan in its parts of the gradient of the weights."""
        (out,) = plan.outputs
        found = made.temp(out)
        made.embedded(plan, inputs, found)
        for role in roles:
            target = _part(Output(1), x, out.shape, places[role])
            made.steps.extend(copy_part(whole(found, out), target))

    flat_x = x.like((rows, p.features))
    matrix = x.like((width, p.features))
    weights = made.copied(_part(Input(1), x, matrix.shape, places["ih"]))
    made.embedded(matmul(du_layout, matrix, tf32=p.tf32), [du, weights], Output(0))
    place(("ih",), matmul(_turned(du_layout), flat_x, tf32=p.tf32), [du, Input(0)])
    # what the state was before each step
    before = x.like((rows, p.units))
    states = made.temp(before)
    first, rest = _part(states, x, (state,), 0), _part(states, x, (of_steps - state,), state)
    if h is None:
        made.steps += fill_part(first, np.uint64(0), np.uint64(0), None)
    else:
        made.steps += copy_part(_part(Input(5), x, (state,), 0), first)
    made.steps += copy_part(_part(Input(2), x, (of_steps - state,), 0), rest)
    place(("hh",), matmul(_turned(du_layout), before, tf32=p.tf32), [dv, states])
    if p.bias:
        total = functools.partial(reduced, kind="sum", axis=(0,), keepdims=False, dtype=FLOAT)
        place(("bias_ih",) if p.kind == "gru" else ("bias_ih", "bias_hh"), total(du_layout), [du])
        if p.kind == "gru":
            place(("bias_hh",), total(du_layout), [dv])
    return Plan(outputs, made.steps, made.temps, "persistent: one kernel for all steps")
