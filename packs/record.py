"""Record what programs ask of the planners: `python -m packs.record [--add] [PROGRAM.py ...]`.

Every program of `packs/programs.py`, and those named here, is rehearsed for each architecture,
without a device. A call of a planner is written down if it launches a kernel that no call before it
does. The list is `cudamath/kernels/compiler/kernel_list.jsonl`; those calls in it whose kernels
a first session or several programs need, or that are typical, are in `common_calls.jsonl` beside
it.

--add keeps the list and adds what it lacks: minutes where --only names a few programs.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import runpy
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import cudamath as cm
from cudamath.core.dispatch import planner_calls
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.planner_calls import PlannerCall
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import kernel_list
from cudamath.kernels.compiler.target import target
from cudamath.runtime import rehearsal
from cudamath.runtime.device import assume

from . import programs

#: One wheel each.
CAPABILITIES = ((8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))


class Recorder:
    """Calls of planners that launch kernels, somewhere, which no call before them did."""

    def __init__(self) -> None:
        self.lines: dict[str, None] = {}
        self.unwritten: set[str] = set()
        self._keys: set[str] = set()
        self._seen: set[Any] = set()
        self._calls: set[Any] = set()

    def note(self, capability: tuple[int, int], call: PlannerCall, _plan: Plan) -> None:
        """An observer of `planner_calls`."""
        try:
            text = kernel_list.line(call)
        except TypeError as error:
            self.unwritten.add(f"{call.op}: {error}")
            return
        cc = target(capability)
        if (cc, text) in self._calls:
            return
        self._calls.add((cc, text))
        new = False
        for kernel, signature in kernel_list.everywhere(call, capability):
            quick = (cc, kernel, tuple(map(_shape_free, signature)))
            if quick in self._seen:
                continue
            self._seen.add(quick)
            key = compiler.cache_key(kernel, signature, cc)
            new |= key not in self._keys
            self._keys.add(key)
        if new:
            self.lines[text] = None

    def note_all(self, capability: tuple[int, int], calls: Iterable[PlannerCall]) -> None:
        """Calls that are in a list already; those that their planners do not take any more are
        left out."""
        for call in calls:
            with contextlib.suppress(Exception), assume(capability):
                self.note(capability, call, call.plan())


def _shape_free(kind: Any) -> Any:
    """What a kernel's key takes from the type of an argument."""
    return (
        (kind.dtype, kind.ndim, kind.contiguous)
        if hasattr(kind, "ndim") and hasattr(kind, "contiguous")
        else kind
    )


@contextmanager
def recording(
    recorder: Recorder | Counter,
    capability: tuple[int, int],
    there: tuple[str, ...] = rehearsal.LIBRARIES,
) -> Iterator[None]:
    """Context: programs are rehearsed for a device of this capability, beside these libraries, and
    recorded. (Which planners a program calls may depend on the libraries too.)"""
    note = functools.partial(recorder.note, capability)
    planner_calls.observers.append(note)
    try:
        with (
            rehearsal.rehearsing(capability, lambda *_: b"\x7fELF", there=there),
            cm.device("cuda:0"),
        ):
            yield
    finally:
        planner_calls.observers.remove(note)


class Counter:
    """Of each kernel: the programs that need it, and the first call that launches it."""

    def __init__(self) -> None:
        self.programs: dict[str, set[str]] = {}
        self.lines: dict[str, str] = {}
        self.program = ""

    def note(self, capability: tuple[int, int], call: PlannerCall, plan: Plan) -> None:
        """An observer of `planner_calls`."""
        for kernel, signature in kernel_list.launches(call, plan):
            key = compiler.cache_key(kernel, signature, target(capability))
            self.programs.setdefault(key, set()).add(self.program)
            self.lines.setdefault(key, kernel_list.line(call))

    def common(self) -> list[str]:
        """Calls whose kernels a first session needs, in its order; then those whose kernels several
        programs need, the most common first; then what is typical."""

        def rank(key: str) -> int:
            return -len(self.programs[key]) if not programs.FIRST & self.programs[key] else -1000

        def is_common(key: str) -> bool:
            return rank(key) < -1 or bool(programs.TYPICAL & self.programs[key])

        ranked = sorted(filter(is_common, self.programs), key=rank)
        return list(dict.fromkeys(self.lines[key] for key in ranked))


def count_common(chosen: list[tuple[str, Callable[[], object]]]) -> list[str]:
    """`Counter.common` of these programs, on a device of capability 9.0 with libraries."""
    counter = Counter()
    for name, run in chosen:
        counter.program = name
        with recording(counter, (9, 0)):
            run()
    return counter.common()


def main() -> int:
    """Record, and write the lists."""
    parser = argparse.ArgumentParser(prog="python -m packs.record", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="PROGRAM.py")
    parser.add_argument("--only", help="programs whose names begin so: demo,models,...")
    parser.add_argument("--add", action="store_true", help="keep what the list has")
    parser.add_argument(
        "--capabilities", default=",".join(f"{a}.{b}" for a, b in CAPABILITIES), help="8.0,9.0,..."
    )
    arguments = parser.parse_args()
    chosen: list[tuple[str, Callable[[], object]]] = [
        (name, run)
        for name, run in programs.programs()
        if not arguments.only or name.startswith(tuple(arguments.only.split(",")))
    ]
    chosen += [
        (f, functools.partial(runpy.run_path, f, run_name="__main__")) for f in arguments.files
    ]
    recorder, failed = Recorder(), []
    for text in arguments.capabilities.split(","):
        major, _, minor = text.partition(".")
        capability = int(major), int(minor)
        start = time.monotonic()
        if arguments.add:
            recorder.note_all(capability, kernel_list.calls())
        for (name, run), there in itertools.product(chosen, [rehearsal.LIBRARIES, ()]):
            with recording(recorder, capability, there):
                try:
                    run()
                except Exception:
                    failed.append(f"{name} for {text}")
                    traceback.print_exc()
        print(
            f"{text}: {len(recorder.lines)} calls, {len(recorder._keys)} kernels so far, "
            f"{time.monotonic() - start:.0f} s",
            flush=True,
        )
    before = kernel_list.PATH.read_text().splitlines() if arguments.add else []
    lines = sorted({*before, *recorder.lines})
    kernel_list.PATH.write_text("".join(f"{text}\n" for text in lines))
    named = [(n, run) for n, run in chosen if not n.startswith(programs.SAMPLES)]
    if named and not arguments.only:
        kernel_list.COMMON.write_text("".join(f"{text}\n" for text in count_common(named)))
    for problem in (*sorted(recorder.unwritten), *failed):
        print(f"not recorded: {problem}", file=sys.stderr)
    return 1 if failed or recorder.unwritten else 0


if __name__ == "__main__":
    sys.exit(main())
