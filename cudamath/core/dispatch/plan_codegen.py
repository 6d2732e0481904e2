"""The Python source of a plan's run function: it allocates, fills argument blocks, launches."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime import kernel_errors, kernel_launch, memory, stream, tensormap
from ...runtime.device import capability
from ...runtime.dry import DryStream
from ...runtime.errors import user_place
from ...runtime.roofline import UNKNOWN, Work
from ...runtime.state import bounded_device_cache, runtime
from ..array import ndarray, without_memory
from ..layout import Layout
from .arguments import Addresses, ArrayArg, Flag, Scalar, TensorMap, Ticket
from .steps import Call, Launch


def array_words(layout: Layout) -> list[int]:
    """The words by which a Numba kernel receives an array; the fifth (index 4) is the address."""
    shape, strides = (layout.shape, layout.strides) if layout.ndim else ((1,), (layout.itemsize,))
    return [0, 0, layout.size, layout.itemsize, 0, *shape, *strides]


#: This number and the following ones stand in the source for numbers: sizes, places of arguments.
#: So plans that differ in them share the source, and the compiled code gets its own numbers.
_PLACE = 1 << 100

#: A plan of more arrays has them in a tuple: to compile their names takes longer than all else.
MOST_NAMED = 64

_HIGH, _MASK = 1 << 63, (1 << 64) - 1


class Elsewhere:
    """What a `run` does where its device is not the active one: it runs there. On a dry stream
    (runtime/dry.py) it returns results without memory."""

    def __init__(self, plan: Any, device: int):
        self.outputs, self.several, self.device = plan.outputs, plan.several, device

    def __call__(self, run: Callable, *args: Any) -> Any:
        current = runtime.local.stream
        if current.__class__ is DryStream:
            return self.dry(current)
        with stream.on_device(self.device):
            return run(*args)

    def dry(self, current: DryStream) -> Any:
        """Results without memory."""
        arrays = tuple([without_memory(layout, current) for layout in self.outputs])
        return arrays if self.several else arrays[0]


class Deferred(Elsewhere):
    """A plan that was bound on a dry stream: its kernels are compiled and loaded when `run` is
    called on another one, or by `load`.

    Until then no device is that of `run`, so each call comes here. Then the constants of `run` are
    set to those of the plan bound as usual, whose source is the same.

    Attributes
    ----------
    run : callable
        As `Plan.bind` returns it.
    """

    def __init__(self, plan: Any, name: str, inputs: list[Layout], scalars: int, device: int):
        super().__init__(plan, device)
        self.plan, self.arguments = plan, (name, inputs, scalars, device)
        self.run = _Writer(plan, *self.arguments, deferred=self).function()

    def __call__(self, run: Callable, *args: Any) -> Any:
        current = runtime.local.stream
        if current.__class__ is DryStream:
            if self.plan is not None:
                current.used[self] = None
            return self.dry(current)
        self.load()
        return super().__call__(run, *args)

    def kernels(self) -> dict[tuple, tuple[Any, list[Any]]]:
        """(kernel, signature) of the launches that wait for kernels, by what `load` finds them
        by."""
        plan, (_, inputs, _, device) = self.plan, self.arguments
        found: dict[tuple, tuple[Any, list[Any]]] = {}
        for step in () if plan is None else plan.steps:
            if isinstance(step, Launch):
                signature = plan.signature(step, inputs)
                key = _key(step, signature, device)
                if key not in runtime.kernel_functions:
                    found[key] = step.kernel, signature
        return found

    def load(self) -> None:
        """Compile and load the kernels."""
        plan = self.plan
        if plan is None:
            return
        constants, places = _constants(plan.bind(*self.arguments)), _constants(self.run)
        device = places.pop("device")
        for name, place in places.items():
            if name != "run":
                place.cell_contents = constants[name].cell_contents
        device.cell_contents = self.device  # last: from now on `run` does without this object
        self.plan = None


def _constants(run: Any) -> dict[str, Any]:
    """The cells of the constants of a `run`, by name."""
    return dict(zip(run.__code__.co_freevars, run.__closure__, strict=True))


class _Writer:
    """Writes the `run` function of one plan. deferred: what it calls, where the kernels wait."""

    def __init__(
        self,
        plan: Any,
        name: str,
        inputs: list[Layout],
        scalars: int,
        device: int,
        deferred: Deferred | None = None,
    ):
        self.plan, self.name, self.inputs, self.scalars, self.device = (
            plan,
            name,
            inputs,
            scalars,
            device,
        )
        self.deferred = deferred is not None
        self.many = len(inputs) > MOST_NAMED
        self.constants: dict[str, Any] = {
            "ndarray": ndarray,
            "device": None if self.deferred else device,
            "elsewhere": deferred or Elsewhere(plan, device),
        }
        self.lines: list[str] = []
        self.sizes: list[int] = []

    def function(self) -> Callable:
        scalars = [f"s{i}" for i in range(self.scalars)]
        arrays = [f"x{i}" for i in range(len(self.inputs))]
        parameters = ["*x"] if self.many else arrays + scalars
        self.emit("stream = local.stream")
        self.emit("if stream is None or stream.device != device:")
        self.emit(f"    return elsewhere({', '.join(['run', *parameters])})")
        if self.many:
            if scalars:
                self.emit(f"*x, {', '.join(scalars)} = x")
            self.emit("for each in x:")
            self.emit("    if each._owner.stream is not stream: each._owner.used_on(stream)")
        for x in () if self.many else arrays:
            self.emit(f"if {x}._owner.stream is not stream: {x}._owner.used_on(stream)")
        outputs = {f"y{i}": layout for i, layout in enumerate(self.plan.outputs)}
        owners = self.take_all(
            outputs | {f"t{i}": layout for i, layout in enumerate(self.plan.temps)}
        )
        for y, layout in outputs.items():
            self.constants[f"layout_{y}"] = layout
            self.emit(f"{y} = new(ndarray); {y}._layout = layout_{y}; {y}._data = {y}_address")
            self.emit(f"{y}._owner = {owners[y]}; {y}._node = {y}._base = None")
        if any(isinstance(arg, Ticket) for step in self.plan.steps for arg in step.args):
            self.constants |= {
                "next_ticket": kernel_errors.next_ticket,
                "calls": kernel_errors.calls,
                "user_place": user_place,
            }
            self.emit("call_ticket = next_ticket()")
            # 3 frames up: `run` and its caller belong to this package
            self.emit(
                f"calls[call_ticket % {kernel_errors.RING}] = call_ticket, {self.name!r}, "
                "user_place(3)"
            )
        works = self.plan.works or [UNKNOWN] * len(self.plan.steps)
        for number, (step, work) in enumerate(zip(self.plan.steps, works, strict=True)):
            if isinstance(step, Launch) and 0 in step.grid:
                continue  # no blocks: the driver refuses such a launch
            if isinstance(step, Launch):
                self.launch(number, step, work)
            else:
                self.call(number, step, work)
        results = ", ".join(outputs)
        if not self.plan.several:
            self.emit(f"return {results}")
        else:
            self.emit(f"return ({results}{',' if results else ''})")
        body = "\n        ".join(self.lines)
        names = sorted(self.constants)
        source = (
            f"def make({', '.join(names)}):\n    def run({', '.join(parameters)}):\n        "
            f"{body}\n    return run\n"
        )
        run = _factory(source)(**self.constants)
        if self.sizes:
            constants = [
                self.sizes[c - _PLACE] if type(c) is int and c >= _PLACE else c
                for c in run.__code__.co_consts
            ]
            run.__code__ = run.__code__.replace(co_consts=tuple(constants))
        return run

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def loaded(self, function: Callable, *args: Any) -> Any:
        """What a function of the device gives; None where that has to wait."""
        return None if self.deferred else function(*args)

    def size(self, value: int) -> str:
        """What stands in the source for a number."""
        self.sizes.append(value)
        return str(_PLACE + len(self.sizes) - 1)

    def take_all(self, arrays: dict[str, Layout]) -> dict[str, str]:
        """Memory for outputs and scratch arrays; returns the name of each one's buffer. Those that
        fit into the smallest block lie in one buffer, as do all that are used together: to take and
        return a block costs the host a tenth of a launch."""
        joint = [
            target
            for target, layout in arrays.items()
            if self.plan.together or layout.nbytes <= memory.SMALL
        ]
        if len(joint) < 2:
            joint = []
        else:
            *places, total = itertools.accumulate(
                (memory.rounded(arrays[target].nbytes) for target in joint), initial=0
            )
            self.take("joint", total)
            for place, target in zip(places, joint, strict=True):
                further = f" + {self.size(place)}" if place else ""
                self.emit(f"{target}_address = joint_address{further}")
        for target, layout in arrays.items():
            if target not in joint:
                self.take(target, layout.nbytes)
        return {target: f"{'joint' if target in joint else target}_buffer" for target in arrays}

    def take(self, target: str, nbytes: int) -> None:
        """A block of memory."""
        self.constants[f"{target}_size"] = memory.rounded(nbytes)
        self.lines += memory.buffer_code(target)

    def address(self, arg: ArrayArg) -> str:
        if arg.kind != "x":
            at = f"{arg.kind}{arg.index}_address"
        else:
            at = f"x[{self.size(arg.index)}]._data" if self.many else f"x{arg.index}._data"
        return f"{at} + {self.size(arg.offset)}" if arg.offset else at

    def launch(self, number: int, step: Launch, work: Work) -> None:
        signature = self.plan.signature(step, self.inputs)
        function = self.loaded(load, step, signature, self.device)
        words: list[int] = []
        writes: list[str] = []
        for arg, kind in zip(step.args, signature, strict=True):
            at = len(words)
            if isinstance(kind, Layout):
                words += array_words(kind)
                if isinstance(arg, ArrayArg):
                    writes.append(f"q[{self.size(at + 4)}] = {self.address(arg)}")
                elif isinstance(arg, Addresses):
                    self.constants["address_table"] = memory.address_table
                    values = f"({', '.join(f'x{i}._data' for i in arg)},)"
                    if self.many:
                        self.constants[f"order{number}_{at}"] = tuple(arg)
                        values = f"tuple([x[i]._data for i in order{number}_{at}])"
                    writes.append(f"q[{self.size(at + 4)}] = address_table({values}, stream)")
                else:
                    words[at + 4] = self.loaded(_data, arg, self.device)
            elif isinstance(arg, Scalar):
                words += [0, 0] if kind.kind == "c" else [0]  # real and imaginary part
                writes.append(self.scalar(arg, at))
            elif isinstance(arg, Ticket):
                words.append(0)
                writes.append(f"q[{at}] = call_ticket")
            elif isinstance(arg, TensorMap):
                words.append(0)
                layout = self.plan.layout(ArrayArg(arg.array.kind, arg.array.index), self.inputs)
                self.constants[f"map{number}_{at}"] = self.loaded(
                    tensormap.lookup, arg.template(layout.dtype), self.device
                )
                writes.append(f"q[{at}] = map{number}_{at}({self.address(arg.array)}, stream)")
            else:
                words.append(kernel_launch.word(arg))
        sizes = (*step.grid, *step.block, step.shared)
        attribute = "early" if step.early else "cooperative" if step.cooperative else None
        extended = (attribute, *sizes) if attribute else ()
        supply = self.loaded(_block_supply, tuple(words), extended, work) or (None,) * 3
        handle = None if function is None else function.handle
        for key, value in zip(
            ("take", "give", "fresh", "kernel", "handle"), (*supply, function, handle), strict=True
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
        extents = ["1" if n == 1 else self.size(n) for n in (*step.grid, *step.block)]
        shared = self.size(step.shared) if step.shared else "0"
        numbers = ", ".join([*extents, shared])
        launch = f"status, = launch(handle{number}, {numbers}, stream.handle, block.pointer, 0)"
        if attribute:
            indent = ""
            if step.early:
                self.emit(f"if in_order: {launch}")
                self.emit("else:")
                indent = "    "
            by_config = f"launch_extended(block.config, handle{number}, block.pointer, 0)"
            self.emit(f"{indent}block.config.hStream = stream.handle")
            self.emit(f"{indent}status, = {by_config}")
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


@bounded_device_cache(4096)
def _factory(source: str) -> Callable:
    """Plans that differ only in constants, such as sizes, share the compiled code."""
    namespace = kernel_launch.prepare_launcher()
    definitions: dict[str, Any] = {}
    exec(compile(source, "<cudamath plan>", "exec"), namespace, definitions)
    return definitions["make"]


def _data(arg: Any, device: int) -> int:
    """Address of what is on the device for all calls."""
    if isinstance(arg, Flag):
        return kernel_errors.address(device)
    return memory.constant(np.ascontiguousarray(arg.array).tobytes(), device)


def _block_supply(*arguments: Any) -> tuple[Callable, Callable, Callable]:
    """Argument blocks of one launch: a thread takes one for the duration of the driver's call
    (which drops the GIL). Returns functions that take one, give it back, and make another."""
    blocks = [kernel_launch.Block(*arguments)]
    return blocks.pop, blocks.append, functools.partial(kernel_launch.Block, *arguments)


def _key(step: Launch, signature: list[Any], device: int) -> tuple:
    """By what a loaded kernel is found."""
    return (
        step.kernel,
        device,
        step.shared > 32 << 10 and step.shared,
        step.cluster,
        *((k.dtype, k.ndim, k.contiguous) if isinstance(k, Layout) else k for k in signature),
    )


def load(step: Launch, signature: list[Any], device: int) -> kernel_launch.Function:
    """The loaded kernel of a launch, compiled at most once per kernel and signature."""
    if runtime.compiler is None:
        raise AssertionError("kernels/compiler/compile.py has not been imported")
    key = _key(step, signature, device)
    function = runtime.kernel_functions.get(key)
    if function is None:
        name = getattr(step.kernel, "__name__", "kernel")
        cubin = runtime.compiler(step.kernel, signature, capability(device))
        arguments = tuple([k.ndim or 1 if isinstance(k, Layout) else None for k in signature])
        function = runtime.kernel_functions[key] = kernel_launch.load(
            name, cubin, device, step.shared, arguments, step.cluster
        )
    return function
