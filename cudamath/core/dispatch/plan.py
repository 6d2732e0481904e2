"""Plans: what a call does, worked out once per combination of layouts.

A planner (in `kernels/`) turns layouts and parameters into a Plan: the output layouts, scratch, and
the steps. `Plan.bind` compiles and loads the kernels and writes a small Python function, `run`, in
which everything known is a constant. What is left at each call: take blocks for the outputs, write
a few addresses into a prepared argument block, call the driver. That is why the function is
generated: straight-line code costs about 1 us beside the driver's 2.7, and a loop over a
description of the same work costs twice that.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...runtime import kernel_errors, kernel_launch, memory, stream, tensormap
from ...runtime.device import capability
from ...runtime.errors import user_place
from ...runtime.roofline import UNKNOWN, Work
from ...runtime.state import device_cache, runtime
from .. import shapes
from ..array import ndarray
from ..layout import Layout

# -------------------- arguments of a step


@dataclasses.dataclass(frozen=True)
class ArrayArg:
    """An array argument: the plan's i-th input (kind "x"), output ("y") or scratch array ("t"),
    perhaps reshaped."""

    kind: str
    index: int
    shape: tuple[int, ...] | None = None  # None: the array's own
    strides: tuple[int, ...] | None = None
    dtype: np.dtype | None = None
    offset: int = 0
    flattened: bool = False

    @property
    def flat(self) -> ArrayArg:
        """The same memory as one dimension; the array must be contiguous."""
        return dataclasses.replace(self, flattened=True)

    def view(
        self,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        dtype: Any = None,
        offset: int = 0,
    ) -> ArrayArg:
        """The same memory in another shape. Strides and offset in bytes; C order by default."""
        return ArrayArg(
            self.kind,
            self.index,
            tuple(shape),
            None if strides is None else tuple(strides),
            None if dtype is None else np.dtype(dtype),
            self.offset + offset,
        )

    def resolve(self, layout: Layout) -> Layout:
        """The layout that the kernel sees."""
        if self.flattened:
            if not layout.contiguous:
                raise AssertionError(f"a flat view wants a contiguous array, got {layout}")
            return Layout.new((layout.size,), layout.dtype, layout.device)
        if self.shape is None:
            return layout
        dtype = layout.dtype if self.dtype is None else self.dtype
        strides = (
            shapes.contiguous_strides(self.shape, dtype.itemsize)
            if self.strides is None
            else self.strides
        )
        return Layout.of(
            self.shape, strides, dtype, layout.device, layout.aligned and self.offset % 16 == 0
        )


def Input(index: int) -> ArrayArg:
    """The op's i-th input."""
    return ArrayArg("x", index)


def Output(index: int) -> ArrayArg:
    """The plan's i-th output."""
    return ArrayArg("y", index)


def Temp(index: int) -> ArrayArg:
    """The plan's i-th scratch array."""
    return ArrayArg("t", index)


@dataclasses.dataclass(frozen=True)
class Scalar:
    """The i-th run-time scalar of the call, as this dtype: a value that is not part of the plan's
    key."""

    index: int
    dtype: Any


class Addresses(tuple):
    """A device array (int64) of the addresses of these inputs: `Addresses(0, 1, 2)`."""

    def __new__(cls, *inputs: int) -> Addresses:
        return super().__new__(cls, inputs)


@dataclasses.dataclass(frozen=True, eq=False)
class Constant:
    """A NumPy array that the kernel reads, uploaded once."""

    array: np.ndarray


@dataclasses.dataclass(frozen=True)
class TensorMap:
    """The address (int64) of a tensor map, by which TMA loads and stores boxes of an array (compute
    capability 9.0).

    shape, strides, box, swizzle, steps, lower, upper: see runtime/tensormap.py's Template; sizes
    are in NumPy's order, strides in bytes, C order by default. kind: the array's dtype unless given
    ("tf32": float32 rounded on its way). The array's offset (`Input(0).view(..., offset=..)`)
    counts; address and strides are multiples of 16.
    """

    array: ArrayArg
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    box: tuple[int, ...]
    swizzle: int = 128
    steps: tuple[int, ...] | None = None
    lower: tuple[int, ...] | None = None
    upper: tuple[int, ...] | None = None
    kind: str | None = None

    def template(self, dtype: np.dtype) -> tensormap.Template:
        """What the runtime encodes, for an array of this dtype."""
        dtype = dtype if self.array.dtype is None else self.array.dtype
        strides = (
            shapes.contiguous_strides(self.shape, dtype.itemsize)
            if self.strides is None
            else self.strides
        )
        if strides[-1] != dtype.itemsize or any(n % 16 for n in (*strides[:-1], self.array.offset)):
            raise AssertionError(
                "a tensor map wants contiguous rows and other strides and offset in multiples of "
                "16 bytes, "
                f"got strides {strides}, offset {self.array.offset} for {dtype}"
            )
        return tensormap.Template(
            tuple(self.shape),
            tuple(strides),
            tuple(self.box),
            self.kind or dtype.name,
            self.swizzle,
            self.steps,
            self.lower,
            self.upper,
        )


@dataclasses.dataclass(frozen=True)
class Flag:
    """The device's error flag, int64 (1,): a kernel that meets a bad index writes its Ticket
    there."""


@dataclasses.dataclass(frozen=True)
class Ticket:
    """An int64 that stands for this call in the error flag; IndexError with the user's line follows
    at the next sync."""


# -------------------- steps


def triple(size: int | Sequence[int]) -> tuple[int, int, int]:
    """A grid or block as three dimensions."""
    sizes = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    return tuple(int(n) for n in (*sizes, 1, 1)[:3])  # type: ignore[return-value]


class Launch:
    """A kernel launch: `kernel` is a `@cuda.jit` function; grid, block: int or tuple; shared:
    dynamic bytes; cluster: how many neighbouring blocks share their shared memory (compute
    capability 9.0; divides the grid's first dimension); early: whether it may begin before what is
    ahead of it has ended, for which the kernel itself waits
    (runtime/kernel_launch.early_config)."""

    __slots__ = ("kernel", "grid", "block", "args", "shared", "cluster", "early")

    def __init__(
        self,
        kernel: Any,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        shared: int = 0,
        cluster: int = 1,
        early: bool = False,
    ):
        self.kernel = kernel
        self.grid, self.block = triple(grid), triple(block)
        self.args = tuple(args)
        self.shared, self.cluster, self.early = shared, cluster, early

    def with_args(self, args: Sequence[Any]) -> Launch:
        """The same launch on other arguments."""
        return Launch(
            self.kernel, self.grid, self.block, args, self.shared, self.cluster, self.early
        )

    def __repr__(self) -> str:
        return (
            f"Launch({getattr(self.kernel, '__name__', self.kernel)}, grid={self.grid}, "
            f"block={self.block})"
        )


class Call:
    """A library call: `fn(stream, *values)`; arrays arrive as addresses (int), scalars as they
    are."""

    __slots__ = ("fn", "args")

    def __init__(self, fn: Callable, args: Sequence[Any]):
        self.fn = fn
        self.args = tuple(args)

    def __repr__(self) -> str:
        return f"Call({getattr(self.fn, '__name__', self.fn)})"


class Plan:
    """Outputs, scratch and steps of a call on given layouts. Pure description until `bind`. why:
    the reason for this implementation, in words, where there were several. several: the result is a
    tuple even of one output. together: the outputs are used together, and lie in one block of
    memory. works: what each step has to do, for the profiler, where somebody counted
    (kernels/lib/flop_counts.py)."""

    def __init__(
        self,
        outputs: Sequence[Layout],
        steps: Sequence[Launch | Call],
        temps: Sequence[Layout] = (),
        why: str = "",
        several: bool = False,
        together: bool = False,
    ):
        self.several, self.together = several or len(outputs) != 1, together
        self.outputs = list(outputs)
        self.temps = list(temps)
        self.why = why
        self.steps = [
            s for s in steps if not (isinstance(s, Launch) and 0 in s.grid)
        ]  # nothing to do: no launch
        self.works: list[Work] = []

    def only(self, wanted: tuple[int, ...]) -> Plan:
        """The same steps where only these outputs are wanted: the others become scratch, and no
        arrays are made of them."""
        others = [i for i in range(len(self.outputs)) if i not in wanted]

        def moved(arg: Any) -> Any:
            if isinstance(arg, TensorMap):
                return dataclasses.replace(arg, array=moved(arg.array))
            if not isinstance(arg, ArrayArg) or arg.kind != "y":
                return arg
            kind, index = (
                ("y", wanted.index(arg.index))
                if arg.index in wanted
                else ("t", len(self.temps) + others.index(arg.index))
            )
            return dataclasses.replace(arg, kind=kind, index=index)

        steps = [
            Call(step.fn, [*map(moved, step.args)])
            if isinstance(step, Call)
            else step.with_args([*map(moved, step.args)])
            for step in self.steps
        ]
        plan = Plan(
            [self.outputs[i] for i in wanted],
            steps,
            [*self.temps, *(self.outputs[i] for i in others)],
            self.why,
        )
        plan.works = self.works
        return plan

    def into(self, index: int) -> Plan:
        """The same steps where the one output is an array that is given, as input number `index`,
        behind all others."""

        def moved(arg: Any) -> Any:
            if isinstance(arg, TensorMap):
                return dataclasses.replace(arg, array=moved(arg.array))
            return (
                dataclasses.replace(arg, kind="x", index=index)
                if isinstance(arg, ArrayArg) and arg.kind == "y"
                else arg
            )

        steps = [
            Call(step.fn, [*map(moved, step.args)])
            if isinstance(step, Call)
            else step.with_args([*map(moved, step.args)])
            for step in self.steps
        ]
        plan = Plan([], steps, self.temps, self.why)
        plan.works = self.works
        return plan

    def layout(self, arg: ArrayArg, inputs: Sequence[Layout]) -> Layout:
        """What a step sees of an array argument."""
        table = {"x": inputs, "y": self.outputs, "t": self.temps}[arg.kind]
        return arg.resolve(table[arg.index])

    def signature(self, launch: Launch, inputs: Sequence[Layout]) -> list[Any]:
        """The types of a launch's arguments: a Layout for an array, a NumPy dtype for a scalar."""
        kinds: list[Any] = []
        device = inputs[0].device if inputs else self.outputs[0].device
        for arg in launch.args:
            if isinstance(arg, ArrayArg):
                kinds.append(self.layout(arg, inputs))
            elif isinstance(arg, Scalar):
                kinds.append(np.dtype(arg.dtype))
            elif isinstance(arg, Constant):
                kinds.append(Layout.new(arg.array.shape, arg.array.dtype, device))
            elif isinstance(arg, Addresses):
                kinds.append(Layout.new((len(arg),), np.dtype(np.int64), device))
            elif isinstance(arg, Flag):
                kinds.append(Layout.new((1,), np.dtype(np.int64), device))
            else:
                kinds.append(
                    np.dtype(np.int64) if isinstance(arg, (int, Ticket, TensorMap)) else arg.dtype
                )
        return kinds

    def bind(
        self, name: str, inputs: Sequence[Layout], scalars: int = 0, device: int | None = None
    ) -> Callable:
        """Compile and load the kernels; return `run(*input arrays, *scalars) -> output
        array(s)`."""
        if device is None:
            device = inputs[0].device if inputs else self.outputs[0].device
        return _Writer(self, name, list(inputs), scalars, device).function()


def array_words(layout: Layout) -> list[int]:
    """The words by which a Numba kernel receives an array; the fifth (index 4) is the address."""
    shape, strides = (layout.shape, layout.strides) if layout.ndim else ((1,), (layout.itemsize,))
    return [0, 0, layout.size, layout.itemsize, 0, *shape, *strides]


_HIGH, _MASK = 1 << 63, (1 << 64) - 1


class _Writer:
    """Writes the `run` function of one plan."""

    def __init__(self, plan: Plan, name: str, inputs: list[Layout], scalars: int, device: int):
        self.plan, self.name, self.inputs, self.scalars, self.device = (
            plan,
            name,
            inputs,
            scalars,
            device,
        )
        self.constants: dict[str, Any] = {
            "ndarray": ndarray,
            "device": device,
            "on_device": stream.on_device,
        }
        self.lines: list[str] = []

    def function(self) -> Callable:
        arrays = [f"x{i}" for i in range(len(self.inputs))]
        parameters = arrays + [f"s{i}" for i in range(self.scalars)]
        self.emit("stream = local.stream")
        self.emit("if stream is None or stream.device != device:")
        self.emit(f"    with on_device(device): return run({', '.join(parameters)})")
        for x in arrays:
            self.emit(f"if {x}._owner.stream is not stream: {x}._owner.used_on(stream)")
        wanted = {f"y{i}": layout for i, layout in enumerate(self.plan.outputs)}
        owners = self.take_all(
            wanted | {f"t{i}": layout for i, layout in enumerate(self.plan.temps)}
        )
        for y, layout in wanted.items():
            self.constants[f"layout_{y}"] = layout
            self.emit(f"{y} = new(ndarray); {y}._layout = layout_{y}; {y}._data = {y}_address")
            self.emit(f"{y}._owner = {owners[y]}; {y}._node = None")
        if any(isinstance(arg, Ticket) for step in self.plan.steps for arg in step.args):
            self.constants |= {
                "next_ticket": kernel_errors.next_ticket,
                "calls": kernel_errors.calls,
                "user_place": user_place,
            }
            self.emit(
                "call_ticket = next_ticket()"
            )  # below: `run` and what calls it are ours, whoever asks in whatever way
            self.emit(
                f"calls[call_ticket % {kernel_errors.RING}] = call_ticket, {self.name!r}, "
                "user_place(3)"
            )
        works = self.plan.works or [UNKNOWN] * len(self.plan.steps)
        for number, (step, work) in enumerate(zip(self.plan.steps, works, strict=True)):
            if isinstance(step, Launch):
                self.launch(number, step, work)
            else:
                self.call(number, step, work)
        outputs = ", ".join(f"y{i}" for i in range(len(self.plan.outputs)))
        if not self.plan.several:
            self.emit(f"return {outputs}")
        else:
            self.emit(f"return ({outputs}{',' if outputs else ''})")
        body = "\n        ".join(self.lines)
        names = sorted(self.constants)
        source = (
            f"def make({', '.join(names)}):\n    def run({', '.join(parameters)}):\n        "
            f"{body}\n    return run\n"
        )
        return _factory(source)(**self.constants)

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def take_all(self, wanted: dict[str, Layout]) -> dict[str, str]:
        """Memory for outputs and scratch arrays; returns the name of each one's buffer. Those that
        fit into the smallest block lie in one buffer, as do all that are used together: to take and
        return a block costs the host a tenth of a launch."""
        joint = [
            target
            for target, layout in wanted.items()
            if self.plan.together or layout.nbytes <= memory.SMALL
        ]
        if len(joint) < 2:
            joint = []
        else:
            *places, total = itertools.accumulate(
                (memory.rounded(wanted[target].nbytes) for target in joint), initial=0
            )
            self.take("joint", total)
            for place, target in zip(places, joint, strict=True):
                self.emit(f"{target}_address = joint_address" + (f" + {place}" if place else ""))
        for target, layout in wanted.items():
            if target not in joint:
                self.take(target, layout.nbytes)
        return {target: f"{'joint' if target in joint else target}_buffer" for target in wanted}

    def take(self, target: str, nbytes: int) -> None:
        """A block of memory."""
        self.constants[f"{target}_size"] = memory.rounded(nbytes)
        self.lines += memory.buffer_code(target)

    def address(self, arg: ArrayArg) -> str:
        at = f"x{arg.index}._data" if arg.kind == "x" else f"{arg.kind}{arg.index}_address"
        return f"{at} + {arg.offset}" if arg.offset else at

    def launch(self, number: int, step: Launch, work: Work) -> None:
        signature = self.plan.signature(step, self.inputs)
        function = load(step, signature, self.device)
        words: list[int] = []
        writes: list[str] = []
        for arg, kind in zip(step.args, signature, strict=True):
            at = len(words)
            if isinstance(kind, Layout):
                words += array_words(kind)
                if isinstance(arg, ArrayArg):
                    writes.append(f"q[{at + 4}] = {self.address(arg)}")
                elif isinstance(arg, Addresses):
                    self.constants["address_table"] = memory.address_table
                    values = ", ".join(f"x{i}._data" for i in arg)
                    writes.append(f"q[{at + 4}] = address_table(({values},), stream)")
                else:
                    data = (
                        kernel_errors.address(self.device)
                        if isinstance(arg, Flag)
                        else memory.constant(np.ascontiguousarray(arg.array).tobytes(), self.device)
                    )
                    words[at + 4] = data
            elif isinstance(arg, Scalar):
                words += [0, 0] if kind.kind == "c" else [0]  # real and imaginary part
                writes.append(self.scalar(arg, at))
            elif isinstance(arg, Ticket):
                words.append(0)
                writes.append(f"q[{at}] = call_ticket")
            elif isinstance(arg, TensorMap):
                words.append(0)
                layout = self.plan.layout(ArrayArg(arg.array.kind, arg.array.index), self.inputs)
                self.constants[f"map{number}_{at}"] = tensormap.lookup(
                    arg.template(layout.dtype), self.device
                )
                writes.append(f"q[{at}] = map{number}_{at}({self.address(arg.array)}, stream)")
            else:
                words.append(kernel_launch.word(arg))
        sizes = (*step.grid, *step.block, step.shared)
        blocks, fresh = _block_supply(tuple(words), sizes if step.early else (), work)
        for key, value in (
            ("take", blocks.pop),
            ("give", blocks.append),
            ("fresh", fresh),
            ("kernel", function),
            ("handle", function.handle),
        ):
            self.constants[f"{key}{number}"] = value
        self.emit(f"try: block = take{number}()")
        self.emit(f"except IndexError: block = fresh{number}()")
        self.emit("q = block.q")
        if any("f[" in w for w in writes):
            self.emit("f = block.f")
        if any("d[" in w for w in writes):
            self.emit("d = block.d")
        if any("u[" in w for w in writes):
            self.emit("u = block.u")
        for line in writes:
            self.emit(line)
        launch = (
            f"status, = launch(handle{number}, {', '.join(map(str, sizes))}, stream.handle, "
            "block.pointer, 0)"
        )
        if step.early:
            self.emit(f"if in_order: {launch}")
            self.emit("else:")
            self.emit("    block.config.hStream = stream.handle")
            self.emit(f"    status, = launch_early(block.config, handle{number}, block.pointer, 0)")
        else:
            self.emit(launch)
        self.emit(f"give{number}(block)")
        self.emit(f"recent(kernel{number})")
        self.emit(f"if status: fail(status, kernel{number})")

    def scalar(self, arg: Scalar, at: int) -> str:
        """Write a run-time scalar into word `at`; a complex one into the next one too."""
        dtype = np.dtype(arg.dtype)
        if dtype in (np.float32, np.float64, np.complex64, np.complex128):
            view, step = ("f", 2) if dtype in (np.float32, np.complex64) else ("d", 1)
            value = f"s{arg.index}"
            write = (
                f"{view}[{step * at}] = {value}"
                if dtype.kind == "f"
                else (
                    f"{view}[{step * at}] = {value}.real; {view}[{step * (at + 1)}] = {value}.imag"
                )
            )
            self.constants["too_large"] = f"{self.name}: int too large to convert to float"
            return (
                f"try: {write}\n        except ValueError: raise OverflowError(too_large) from None"
            )
        if dtype.kind in "iu":
            # any number, modulo 2^64
            word = f"q[{at}] = ((int(s{arg.index}) & {_MASK}) ^ {_HIGH}) - {_HIGH}"
            view = "u" if dtype.kind == "u" else "q"  # most are within 64 bits
            return (
                f"try: {view}[{at}] = s{arg.index}\n        except (TypeError, ValueError): {word}"
            )
        raise AssertionError(
            f"run-time scalars are float32, float64, complex or integers, not {dtype}"
        )

    def call(self, number: int, step: Call, work: Work) -> None:
        values = ["stream"]
        for position, arg in enumerate(step.args):
            if isinstance(arg, ArrayArg):
                values.append(self.address(arg))
            elif isinstance(arg, Scalar):
                values.append(f"s{arg.index}")
            else:
                self.constants[f"value{number}_{position}"] = arg
                values.append(f"value{number}_{position}")
        self.constants[f"call{number}"], self.constants[f"work{number}"] = step.fn, work
        self.emit(f"if observe_call is None: call{number}({', '.join(values)})")
        self.emit(
            f"else: observe_call({self.name!r}, work{number}, call{number}, {', '.join(values)})"
        )


@device_cache
def _factory(source: str) -> Callable:
    """Plans that differ only in constants share the compiled code."""
    namespace = kernel_launch.prepare_launcher()
    made: dict[str, Any] = {}
    exec(compile(source, "<cudamath plan>", "exec"), namespace, made)
    return made["make"]


def _block_supply(
    *given: Any,
) -> tuple[list[kernel_launch.Block], Callable[[], kernel_launch.Block]]:
    """Argument blocks of one launch: a thread takes one for the duration of the driver's call
    (which drops the GIL)."""
    return [kernel_launch.Block(*given)], functools.partial(kernel_launch.Block, *given)


def load(step: Launch, signature: list[Any], device: int) -> kernel_launch.Function:
    """The loaded kernel of a launch, compiled at most once per kernel and signature.

    A kernel with a method `cubin(signature, capability)` compiles itself (a user's:
    kernels/generated/user_kernels.py).
    """
    if runtime.compiler is None:
        raise AssertionError("kernels/compiler/compile.py has not been imported")
    key = (
        step.kernel,
        device,
        step.shared > 32 << 10 and step.shared,
        step.cluster,
        *((k.dtype, k.ndim, k.contiguous) if isinstance(k, Layout) else k for k in signature),
    )
    function = runtime.kernel_functions.get(key)
    if function is None:
        name = getattr(step.kernel, "__name__", "kernel")
        own = getattr(step.kernel, "cubin", None)
        cubin = (
            own(signature, capability(device))
            if own
            else runtime.compiler(step.kernel, signature, capability(device))
        )
        arguments = tuple([k.ndim or 1 if isinstance(k, Layout) else None for k in signature])
        function = runtime.kernel_functions[key] = kernel_launch.load(
            name, cubin, device, step.shared, arguments, step.cluster
        )
    return function
