"""Every kernel that a call can reach compiles for every architecture, without a GPU, without
spills, with registers for all threads of its block, and a kernel of float32 does no float64
arithmetic.

The calls are made for real, on the fake driver of tests/support/fake_driver.py: planners see a
device of the wanted capability, launches do nothing, and what would be compiled is written down.
Then one kernel of each name is compiled for every architecture. With CUDAMATH_COMPILE_ALL=1
variants of it (dtypes, ranks, options) are for 9.0, which otherwise tests run on a GPU. What has
not changed since it was compiled is not compiled again (tests/support/compiled_facts.py).
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import functools
import inspect
import math
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import fake_driver
import numpy as np
import pytest
from compile_calls import CALLS, F32, F64, by_name
from compiled_facts import computes_in_float64, facts_of

import cudamath as cm
from benchmarks import sanitize_cases
from benchmarks.sanitize import EXPLAINED
from cudamath.core.dispatch import fast_path, plan_codegen
from cudamath.core.dispatch import steps as dispatch_steps
from cudamath.core.dispatch.op import registry
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import cache_key, lazy_numba, portable, storage_types, target
from cudamath.kernels.compiler import compile as compiler_compile
from cudamath.runtime import cublas, cudnn, device, kernel_launch
from cudamath.runtime.state import runtime

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile"),
]

#: Numba reads byte code, and each Python has its own: kernels are held to these limits, which 3.11
#: keeps, and may spill some bytes more elsewhere (seen: linear_loss_rows 8, cross_entropy_rows 24).
BYTE_CODE = 0 if sys.version_info[:2] == (3, 11) else 24
#: Kernels that spill, and why that is accepted: name -> (bytes, reason).
MAY_SPILL: dict[str, tuple[int, str]] = {
    "matmul_register": (
        56,
        "held to 128 registers a thread, for two blocks a multiprocessor; 56 on 12.0, 4 to 8 "
        "elsewhere",
    ),
    "matmul_async": (16, "on 8.0 alone, of one order of operands; none on 9.0"),
    "conv2d_implicit_gemm": (24, "held to the registers of two or three blocks a multiprocessor"),
    "conv2d_few_input": (60, "96 sums, held to the registers of three blocks; none on 9.0"),
    "conv2d_few_weight": (24, "98 sums, held to the registers of two blocks; none on 9.0"),
    "attention_grad_mma_keys": (
        56,
        "wide heads: sums of 128 or 256 columns; test_attention.py pins each",
    ),
    "attention_grad_mma_queries": (56, "the same"),
    "attention_grad_wgmma": (32, "64 columns: held to the registers of three warpgroups"),
    "onesweep": (
        44,
        "held to the registers of several blocks a multiprocessor: 44 on 10.0 and 12.0, 4 on 9.0",
    ),
    "divide": (96, "the same; on 7.5 as well"),
    "divide_line": (84, "on 12.0 alone: blocks of 1,024 threads"),
    "batch_columns_moments": (
        8,
        "held to the registers of three blocks; 8 on 10.0, 4 on 9.0 for odd numbers of channels",
    ),
    "conv2d_depthwise_last": (
        8,
        "two channels of 4 x 4 results of stride 2, held to the registers of four blocks",
    ),
    "conv2d_depthwise_last_weight": (
        28,
        "the same of float32, nine columns of which are under way, and the registers of three",
    ),
    "scan_tiles_early": (16, "int32 summed as int64, held to the registers of three blocks"),
    "norm_shifted_rows_grad": (
        104,
        "on 10.0 and 12.0: 16 numbers of 16 bits a thread of both arrays, and of both sums",
    ),
    "scan_columns": (
        92,
        "9.0's variant on 10.0 and 12.0, where plans hold half as much and nothing spills",
    ),
    "scan_ring": (
        8,
        "largest of int8 alone: 24 of them a thread, held to the registers of two blocks; and of "
        "complex128",
    ),
    "scan_tiles": (
        44,
        "held to the registers of three blocks a multiprocessor: 28 for int64 on 9.0, 44 of int32 "
        "on 8.0, 32 for float64 on 12.0",
    ),
}

#: Capabilities between which planners choose, and the shared memory of a block there, in KiB. 10.0
#: plans as 8.0, 12.0 as 8.9.
PLANNED = {c: device.SHARED_KIB[c] for c in ((7, 5), (8, 0), (8, 9), (9, 0))}

#: Kernels made of instructions that some architectures lack: name -> those that have them. What
#: attention_decode is before 9.0, test_attention.py compiles, and what quantize_rows is before 8.0,
#: test_quantize_kernels.py.
SINCE_8 = tuple(c for c in target.CAPABILITIES if c >= (8, 0))
ONLY_FOR: dict[str, tuple[tuple[int, int], ...]] = {
    "matmul_wgmma": ((9, 0),),
    "matmul_mma": SINCE_8,
    "matmul_async": SINCE_8,
    "matmul_async_small": SINCE_8,
    "linear_loss_packed": SINCE_8,
    "matmul_mma_double": SINCE_8,
    "matmul_mma_double_whole": SINCE_8[2:],
    "conv2d_wgmma": ((9, 0),),
    "conv2d_weight_wgmma": ((9, 0),),
    "conv2d_weight_wgmma_taps": ((9, 0),),
    "add_splits_early": ((9, 0),),
    "conv2d_weight_pairs": ((9, 0),),
    "conv2d_wgmma_kept": ((9, 0),),
    "scan_ring": ((9, 0),),
    "scan_tiles_cluster": SINCE_8[2:],
    "scan_tiles_early": SINCE_8[2:],
    "conv2d_mma": SINCE_8,
    "conv2d_weight_mma": SINCE_8,
    "attention_wgmma": ((9, 0),),
    "attention_grad_wgmma": ((9, 0),),
    "attention_grad_wide_keys": ((9, 0),),
    "attention_grad_wide_queries": ((9, 0),),
    "attention_grad_prepare": SINCE_8,
    "attention_grad_finish": SINCE_8,
    "attention_decode": ((9, 0),),
    "attention_decode_merge": ((9, 0),),
    "attention_mma": SINCE_8,
    "attention_grad_mma_queries": SINCE_8,
    "attention_grad_mma_keys": SINCE_8,
    "gemv": SINCE_8,
    "gemv_e4m3": SINCE_8[1:],
    "gemv_early": ((9, 0),),
    "grouped_wgmma": ((9, 0),),
    "softmax_turns": SINCE_8,
    "outer_wgmma": ((9, 0),),
    "softmax_cluster": SINCE_8[2:],
    "softmax_cluster_grad": SINCE_8[2:],
    "norm_shared": SINCE_8[2:],
    "norm_group_shared": SINCE_8[2:],
    "norm_ring_grad": ((9, 0), (10, 0)),
    "norm_cluster_grad": ((9, 0), (10, 0)),
    "reduce_partials_early": SINCE_8[2:],
    "quantize_rows": SINCE_8,
    "add_often_early": SINCE_8[2:],
    "pool_pairs": SINCE_8[2:],
    "clear_claims_early": SINCE_8[2:],
    "claim_slots_early": SINCE_8[2:],
    "sum_claimed_early": SINCE_8[2:],
}

#: libdevice reduces large arguments of these in float64; the fast path does not. Special functions
#: compute in float64 whatever they are given, by their names or where they are defined.
REDUCES_IN_FLOAT64 = re.compile(r"^(sin|cos|tan|special_\w+)$")
SPECIAL = "/core/specs/special/"
#: Probabilities become thresholds of 53 bits, added up as on the CPU. Elements of helmert, dft and
#: hilbert are rounded once.
WANTS_FLOAT64 = {"thresholds_of", "formula_rows"}


class Kernel(NamedTuple):
    """A kernel, the types of its arguments, and the threads of the largest block it is launched
    with."""

    function: Any
    arguments: Any
    threads: int = 0

    def __str__(self) -> str:
        return f"{self.function.py_func.__name__}{self.arguments}"


def only_for(kernel: Any) -> tuple[tuple[int, int], ...]:
    """The capabilities a kernel is made for."""
    return ONLY_FOR.get(kernel.py_func.__name__, target.CAPABILITIES)


# -------------------- what calls reach


class Reached(NamedTuple):
    """What the calls would compile, what went wrong on the way, and which cards took part."""

    kernels: list[Kernel]
    errors: list[str]
    cards: set[str]


# thousands of launches of some hundred kernels
fingerprint = functools.cache(cache_key.fingerprint)


@functools.cache
def arguments_of(signature: tuple[Any, ...]) -> tuple[Any, str]:
    """The types of a launch's arguments, and how they are written."""
    arguments = storage_types.arguments_type(list(signature))
    return arguments, str(arguments)


@contextlib.contextmanager
def observed(
    capability: tuple[int, int],
) -> Iterator[tuple[Callable, dict[tuple[str, str], Kernel], list[str]]]:
    """A fake device of this capability on which public calls are planned and launch nothing: (note,
    found, errors).

    note(launch, signature) adds to `found`, the distinct kernels, as calls do."""
    found: dict[tuple[str, str], Kernel] = {}
    errors: list[str] = []
    real_load = plan_codegen.load

    def note(step: dispatch_steps.Launch, signature: list[Any]) -> None:
        arguments, said = arguments_of(tuple(signature))
        key, threads = (fingerprint(step.kernel), said), math.prod(step.block)
        found[key] = Kernel(
            step.kernel, arguments, max(threads, found[key].threads if key in found else 0)
        )
        if capability in only_for(step.kernel) and step.shared > PLANNED[capability] << 10:
            errors.append(f"{found[key]} for {capability}: {step.shared} bytes of shared memory")

    def load(
        step: dispatch_steps.Launch, signature: list[Any], index: int
    ) -> kernel_launch.Function:
        if not hasattr(step.kernel, "dispatcher"):  # a user's
            note(step, signature)
        return real_load(step, signature, index)

    with (
        pytest.MonkeyPatch.context() as patch,
        fake_driver.installed(patch, limit=1 << 34) as fake,
        device.assume(capability),
        remembered_nothing(),
    ):

        def compiler(kernel: Any, signature: list[Any], cc: tuple[int, int]) -> bytes:
            return fake.compiler(lambda *_: None, signature, cc)

        def download(host: int, address: int, nbytes: int, stream: Any) -> None:
            ctypes.memmove(
                host, np.full(-(-nbytes // 8), 3, np.int64).tobytes(), nbytes
            )  # counts of what was found

        fake.poisons = False
        patch.setattr(
            cudnn, "available", lambda: False
        )  # it plans at once, on a device that is there
        patch.setattr(
            cublas, "multiplies_float8", lambda outer: False
        )  # it asks the library, which asks the driver
        runtime.compiler = compiler
        patch.setattr(plan_codegen, "load", load)
        patch.setattr(fake, "cuMemcpyDtoHAsync", download)
        patch.setattr(fake, "cuLaunchKernel", lambda *_: None)
        kernel_launch.prepare_launcher()["observe_call"] = lambda *_: None  # library calls
        with cm.device("cuda:0"):
            yield note, found, errors


@functools.cache
def reached(capability: tuple[int, int]) -> Reached:
    """Every distinct kernel that the calls above need on a device of this capability."""
    with observed(capability) as (note, found, errors):
        for name, call in CALLS:
            try:
                call()
            except Exception as error:
                errors.append(f"{name}: {type(error).__name__}: {error}")
        for made_plan, inputs in by_name():
            for step in made_plan.steps:
                if isinstance(step, dispatch_steps.Launch):
                    note(step, made_plan.signature(step, inputs))
        cards = {
            name
            for name, card in registry.items()
            if getattr(card, "plans", None) or getattr(card, "views", None)
        }
    return Reached(list(found.values()), errors, cards)


class remembered_nothing:
    """Plans made for the fake device are forgotten afterwards, and none is known before."""

    def __enter__(self) -> None:
        self.forget()

    def __exit__(self, *_: object) -> None:
        self.forget()

    def forget(self) -> None:
        for card in registry.values():
            for name in ("plans", "views", "known"):
                getattr(card, name, {}).clear()
        fast_path.forget()


# -------------------- machine code


def has_no_float64(kernel: Kernel) -> bool:
    """Whether a kernel's arguments, or the kinds in which it has numbers of any dtype, give it no
    reason to compute in float64."""
    given = f"{kernel.arguments} {kinds(kernel.function)}"
    return "float64" not in given and "complex128" not in given


def kinds(function: Any) -> set[str]:
    """Of a kernel whose dtypes are arguments (ptx/coded_access.py): in which it has the numbers."""
    named = getattr(function.py_func, "__globals__", {})
    intrinsics = [v for v in named.values() if getattr(v, "__name__", "").endswith("_coded")]
    return {inspect.getclosurevars(v.generator).nonlocals["kind"].name for v in intrinsics}


def check(
    kernels: list[Kernel], *capabilities: tuple[int, int], only: set[Kernel] | None = None
) -> None:
    """Compile kernels for the first capability, and those in `only` for the others too: no spills,
    registers for all threads of a block, no stray float64, no wgmma that is waited for at once."""
    wrong = []
    for kernel in kernels:
        wanted = capabilities if only is None or kernel in only else capabilities[:1]
        wanted = [c for c in wanted if c in only_for(kernel.function)]
        if not wanted:
            continue
        try:
            found = facts_of(kernel.function, kernel.arguments, wanted)
        except Exception as error:
            wrong.append(f"{kernel} for {wanted}: {type(error).__name__}: {str(error)[-400:]}")
            continue
        name = kernel.function.py_func.__name__
        for capability, facts in found.items():
            allowed, _ = MAY_SPILL.get(name, (0, ""))
            if facts.spills > allowed + BYTE_CODE:
                wrong.append(f"{kernel} for {capability}: spills {facts.spills} bytes")
            if "mma" in name and facts.stack > facts.spills + 16:  # a loop that was not unrolled
                wrong.append(
                    f"{kernel} for {capability}: keeps {facts.stack} bytes of its sums in memory"
                )
            if facts.serialised:  # wgmma is waited for at once, a tenth to a half of its speed
                wrong.append(f"{kernel} for {capability}: its products are serialised, says ptxas")
            if -(-facts.registers // 8) * 8 * kernel.threads > 65_536:  # handed out eight at a time
                wrong.append(
                    f"{kernel} for {capability}: {facts.registers} registers for each of "
                    f"{kernel.threads} threads"
                )
            if facts.float64 and has_no_float64(kernel) and not may_use_float64(kernel):
                wrong.append(f"{kernel} for {capability}: computes in float64")
    assert not wrong, f"{len(wrong)} of {len(kernels)} kernels:\n" + "\n".join(wrong)


def may_use_float64(kernel: Kernel) -> bool:
    """Sine, cosine and tangent: of large float32 numbers the remainder is found in float64. Special
    functions. And what is made for it."""
    return kernel.function.py_func.__name__ in WANTS_FLOAT64 or uses(
        kernel.function, REDUCES_IN_FLOAT64, SPECIAL
    )


def uses(function: Any, names: re.Pattern[str], folder: str) -> bool:
    """Whether a kernel's code, or that of the device functions it closes over, has one of these
    names or lies in this folder."""
    seen: set[int] = set()

    def look(value: Any) -> bool:
        value = getattr(value, "py_func", value)
        if not hasattr(value, "__code__") or id(value) in seen:
            return False
        seen.add(id(value))
        if folder in pathlib.Path(value.__code__.co_filename).as_posix():
            return True
        if any(names.search(n) for n in (*value.__code__.co_names, *value.__code__.co_freevars)):
            return True
        cells = [c.cell_contents for c in value.__closure__ or ()]
        return any(
            map(look, [*cells, *[value.__globals__.get(n) for n in value.__code__.co_names]])
        )

    return look(function)


# -------------------- tests

SHARDS = 24


def representatives(kernels: list[Kernel]) -> list[Kernel]:
    """One kernel of each name: in float32 where there is one."""
    chosen: dict[str, Kernel] = {}
    for kernel in kernels:
        name = kernel.function.py_func.__name__
        if (
            name not in chosen
            or "float32" in str(kernel.arguments)
            and "float32" not in str(chosen[name].arguments)
        ):
            chosen[name] = kernel
    return list(chosen.values())


def generated_from(function: Any) -> set[tuple[str, str]]:
    """What is peculiar to a kernel made of generated source: that source; the sources of the device
    functions it calls, each with the type it computes in; the device functions that load, convert
    and store."""
    found: set[tuple[str, str]] = set()

    def look(value: Any) -> None:
        function = getattr(value, "py_func", value)
        code = getattr(function, "__code__", None)
        if code is None:
            return
        generated = code.co_filename.startswith("<")
        compute = str(function.__globals__.get("T")) if generated else ""
        closed = [c.cell_contents for c in function.__closure__ or ()]
        said = str([c for c in closed if not callable(c)])
        what = (f"{code.co_filename}:{function.__qualname__}{said}", compute)
        if what not in found:
            found.add(what)
            named = [function.__globals__.get(n) for n in code.co_names] if generated else []
            for other in (*closed, *named):
                look(other)

    look(function)
    return found


def variants(kernels: list[Kernel]) -> list[Kernel]:
    """Kernels made of generated source until every source, expression (in each type it computes
    in), load and store has been met; all kernels on demand."""
    if "CUDAMATH_COMPILE_ALL" in os.environ:
        return kernels
    generated = [k for k in kernels if k.function.py_func.__code__.co_filename.startswith("<")]
    peculiar = [generated_from(kernel.function) for kernel in generated]
    compiled = set(representatives(kernels))
    left = set().union(*peculiar) - set().union(
        *[p for k, p in zip(generated, peculiar, strict=True) if k in compiled]
    )
    chosen = []
    while left:  # the one that has most of what is left
        most = max(range(len(generated)), key=lambda i: len(peculiar[i] & left))
        chosen.append(generated[most])
        left -= peculiar[most]
    return chosen


def shards(kernels: list[Kernel], chosen: set[Kernel]) -> list[list[Kernel]]:
    """Parts that take about as long: those compiled for one architecture alone are the largest
    kernels and the smallest. Those for the same oldest architecture are neighbours: Numba compiles
    the device functions they share once for each."""
    kernels = sorted(kernels, key=lambda k: min(only_for(k.function)) if k in chosen else (9, 0))
    ends = np.cumsum([len(target.CAPABILITIES) if kernel in chosen else 1 for kernel in kernels])
    parts: list[list[Kernel]] = [[] for _ in range(SHARDS)]
    for kernel, end in zip(kernels, ends, strict=True):
        parts[(end - 1) * SHARDS // ends[-1]].append(kernel)
    return parts


@pytest.mark.compiles
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_kernel_compiles(shard):
    """One kernel of each name for every architecture; variants of it for 9.0 (as 9.0a), the one
    that is measured."""
    kernels = reached((9, 0)).kernels
    others = [c for c in target.CAPABILITIES if c != (9, 0)]
    chosen = set(representatives(kernels))
    parts = shards(list(dict.fromkeys([*representatives(kernels), *variants(kernels)])), chosen)
    check(parts[shard], (9, 0), *others, only=chosen)


@pytest.mark.compiles
@pytest.mark.parametrize("capability", [c for c in PLANNED if c != (9, 0)], ids=str)
def test_what_only_another_architecture_gets(capability):
    """Kernels that planners choose there and not on 9.0, for 8.0 all of them, else one of each
    name; and that every call can be planned there."""
    assert reached(capability).errors == []
    known = {(fingerprint(k.function), str(k.arguments)) for k in reached((9, 0)).kernels}
    others = [
        k
        for k in reached(capability).kernels
        if (fingerprint(k.function), str(k.arguments)) not in known
    ]
    names = {
        kernel.function.py_func.__name__ for kernel in reached((9, 0)).kernels
    }  # compiled for every architecture
    if "CUDAMATH_COMPILE_ALL" not in os.environ:
        others = [k for k in others if k.function.py_func.__name__ not in names]
        others = others if capability == (8, 0) else representatives(others)
    check(others, capability)


def test_every_call_could_be_planned():  # elsewhere: above, where all others are made anyway
    assert reached((9, 0)).errors == []


def test_every_kernel_can_be_sent_to_a_worker():
    """By value: what another process makes of the bytes has the same key."""
    functions = {fingerprint(k.function): k.function for k in reached((9, 0)).kernels}
    assert len(functions) > 1000
    changed = [
        function.py_func.__name__
        for said, function in functions.items()
        if cache_key.fingerprint(portable.loads(portable.dumps(function))) != said
    ]
    assert changed == []


def test_every_kernel_was_reached():
    """No `@cuda.jit` kernel of the package is missing from what the calls and `by_name` reach."""
    folder = pathlib.Path(cm.__file__).parent / "kernels"
    written = set()
    for path in folder.rglob("*.py"):
        if path.parent.name == "compiler":  # a kernel there is compiled to warm up
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                marks = [ast.unparse(mark) for mark in node.decorator_list]
                if any(mark.startswith("cuda.jit") and "device=True" not in mark for mark in marks):
                    written.add(node.name)
    assert len(written) > 50
    assert (
        written - {kernel.function.py_func.__name__ for kernel in reached((9, 0)).kernels} == set()
    )


def test_every_kernel_is_sanitized():
    """The cases of benchmarks.sanitize launch each kernel that is compiled here; whose reports are
    explained are among them."""
    with observed((9, 0)) as (_, found, errors):
        cases = sanitize_cases.cases()
        for call in cases.values():
            with contextlib.suppress(
                ValueError
            ):  # all that is read back is 3: no range for a histogram
                call()
    assert errors == []
    wanted = {kernel.function.py_func.__name__ for kernel in reached((9, 0)).kernels}
    assert wanted - {kernel.function.py_func.__name__ for kernel in found.values()} == set()
    for one in EXPLAINED:
        assert any(re.match(one.case, name) for name in cases), one


def test_every_card_was_planned():
    """But for collectives, which need further processes: tests/distributed/test_nccl.py."""
    missing = {
        name
        for name, card in registry.items()
        if (hasattr(card, "cuda") or hasattr(card, "expressions"))
        and not (getattr(card, "cuda", None) or "").startswith("collective.")
    } - reached((9, 0)).cards
    assert missing == set()


@pytest.mark.compiles
def test_losses_of_float64(monkeypatch):
    """Exponentials of float64 in every shape of a row: between borders and on them, of a thread, of
    a warp, of a block. Many rows spill up to 72 bytes, for seven blocks on a multiprocessor of 9.0
    (without: four; not timed); one block for all: 0."""
    with observed((9, 0)) as (_, found, errors):
        for count, classes, smoothing in (
            (600, 1001, 0.0),
            (600, 1000, 0.1),
            (20_000, 251, 0.0),
            (9000, 7, 0.1),
            (300, 10, 0.0),
            (50, 50_257, 0.0),
            (600, 1000, 0.0),
        ):
            cm.ml.cross_entropy(
                cm.zeros((count, classes)), cm.zeros(count, "int32"), label_smoothing=smoothing
            )
    kernels = [
        k
        for k in found.values()
        if k.function.py_func.__name__ in ("cross_entropy_rows", "cross_entropy_few")
    ]
    assert errors == [] and len(kernels) == 7
    monkeypatch.setitem(MAY_SPILL, "cross_entropy_rows", (72, "see above"))
    check(kernels, *target.CAPABILITIES)


def test_float64_is_seen():
    """The detector of float64 arithmetic finds it in a float64 kernel and not in a float32 one."""
    from cudamath.kernels.elementwise.dispatch import elementwise

    capabilities = ((7, 5), (9, 0), (12, 0))
    for dtype in (F32, F64):
        for expression in ("x * y", "x + y", "x * y + x", "x if x < y else y"):
            x = Layout.new((64,), dtype, 0)
            made_plan = elementwise(
                x, x, expression=expression, compute=dtype, output=dtype, version="vector"
            )
            launch = made_plan.steps[0]
            arguments = storage_types.arguments_type(made_plan.signature(launch, [x, x]))
            found = compiler_compile.compile_each(
                launch.kernel, arguments, [target.target(c) for c in capabilities]
            )
            for (cubin, _), capability in zip(found, capabilities, strict=True):
                assert computes_in_float64(cubin) == (dtype == F64), (dtype, expression, capability)
