"""The planner measured and fitted: random problems by every version that supports them.

    python -m benchmarks.planner --measure --record FILE [--seconds 240] [--families conv]
    python -m benchmarks.planner --fit [FILE ...] [--write]
    python -m benchmarks.planner --tiles [FILE ...] [--write]
    python -m benchmarks.planner --judge FILE ...
    python -m benchmarks.planner --ask 1000 [--capability 9.0]

``--measure`` (a GPU) draws problems (planner_cases.py), compiles what their versions need on all
cores, times each version, and writes a record after every problem; it stops when the seconds are
over. A version that fails is noted and left out; "apart" says how far results are from those of the
last version, which is the plainest. ``--fit`` reads the records (by default those in
benchmarks/results/*/planner*.json), fits the rates of each kind of version (planner_fit.py), moves
them where choices lose (planner_choices.py), and prints how far predictions are from what was
measured, and the *regret*: the time of the version with the least prediction over that of the
fastest one, of these problems and by rates fitted to others. With --write it replaces the rates
that the package ships. ``--tiles`` does the same for the tiles of cuDNN's plans (planner_tiles.py;
minutes): it takes those with which predictions are closest to the times, of the kinds of problems
in which they choose better than the library does on problems that were held out. ``--judge`` prints
the regret of what the package ships on records it was not fitted to, problem by problem where it is
large. ``--ask`` asks without a GPU which versions random problems get.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import functools
import json
import math
import pathlib
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import cudamath as cm
from benchmarks.planner_cases import FAMILIES, Case, drawn
from benchmarks.planner_fit import (
    fitted,
    libraries,
    machine_of,
    plan_that_runs,
    plans_that_run,
    seen,
    supporting,
    using,
    work_of,
)
from benchmarks.planner_tiles import FOLDS, held_out, judgement, tiles_that_help
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Launch
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.conv import work as conv_work
from cudamath.kernels.conv.work import PlanTiles, tiles_of_cudnn
from cudamath.kernels.lib.prediction import Machine, Rates, microseconds
from cudamath.kernels.lib.versions import Version, never
from cudamath.runtime import device as devices
from cudamath.runtime.device import assume
from cudamath.runtime.stream import Event, synchronize

RESULTS = pathlib.Path(__file__).parent / "results"
SHIPPED = pathlib.Path(cm.__file__).parent / "kernels" / "rates.json"
SHIPPED_TILES = SHIPPED.parent / "conv" / "cudnn_plans.json"
Record = dict[str, Any]
BATCH = 16  # problems whose kernels are compiled together
SLOW = 4.0  # times the fastest version's time: slower ones are timed once
HOPELESS = 8.0  # times the least expected time: such versions are neither compiled nor timed


# -------------------- measuring


def device_record(index: int) -> Record:
    """What predictions know of a device."""
    found = devices.properties(index)
    names = ("name", "multiprocessors", "l2_cache", "memory_bandwidth", "clock")
    return {"capability": list(found.capability), **{n: getattr(found, n) for n in names}}


def plans_of(family: str, case: Case) -> tuple[Any, dict[str, Plan], dict[str, str]]:
    """The problem, the plan of each version that supports it and is not hopeless, all plans of a
    library that offers several ("cudnn NAME"), and what went wrong with others."""
    problem, able = supporting(family, case)
    plans, failed = {}, {}
    expected = {n: v.microseconds(problem) for n, v in able.items() if v.work is not None}
    for name, version in able.items():
        if expected.get(name, 0.0) > HOPELESS * min(expected.values(), default=0.0):
            continue
        try:
            plan = version.plan(problem)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"[:200]
            continue
        if plan is None:
            continue
        if name in FAMILIES[family].within:
            several = FAMILIES[family].within[name](problem)
            plans.update({f"{name} {each}": one for each, one in several.items()})
        plans[name] = plan
    return problem, plans, failed


def compile_ahead(work: Sequence[tuple[Sequence[Any], Plan]]) -> None:
    """Let the compiler's workers begin with what these plans (behind the layouts of their inputs)
    launch."""
    requests = [
        (step.kernel, plan.signature(step, layouts))
        for layouts, plan in work
        for step in plan.steps
        if isinstance(step, Launch)
    ]
    with contextlib.suppress(Exception):  # what fails here fails again, by name, when it is bound
        compiler.compile_ahead(requests, devices.capability(0))


@functools.cache
def factor() -> cm.ndarray:
    """A matrix whose square keeps the device busy for a millisecond or two."""
    return cm.ones((8192, 8192), dtype="bfloat16", device="cuda:0")


def turn(call: Callable[[], object], count: int) -> float:
    """Microseconds of device time of a call. The calls wait behind large products until the host
    has issued all of them. If it was late, because it compiled or slept, they wait behind more."""
    products, late = 2, True
    while late and products <= 128:
        for _ in range(products):
            factor() @ factor()
        start = Event().record()
        for _ in range(count):
            call()
        stop = Event().record()
        late, products = start.query(), 4 * products
        synchronize()
    return 1e3 * start.elapsed(stop) / count


def clocked(run: Callable[..., object], inputs: Sequence[Any]) -> Callable[[], float]:
    """A function that times a call once more. A graph holds several, so that the host is not seen;
    what takes milliseconds is called as it is."""
    call = functools.partial(run, *inputs)
    turn(call, 1)
    guess = max(turn(call, 1), 1.0)
    repeats = max(1, min(16, round(400 / guess)))
    if guess > 2000:
        return functools.partial(turn, call, 2)

    def several() -> None:
        for _ in range(repeats):
            call()

    graph = cm.cuda.graph(several)
    graph()
    return lambda: turn(graph, max(2, min(20, round(1500 / guess / repeats)))) / repeats


def timed(again: Mapping[str, Callable[[], float]], rounds: int = 5) -> dict[str, float]:
    """Microseconds of each version: medians of turns one after the other; slow ones take one."""
    first = {name: once() for name, once in again.items()}
    near = [name for name in first if first[name] <= SLOW * min(first.values())]
    turns: dict[str, list[float]] = {name: [first[name]] for name in first}
    for _ in range(rounds - 1):
        for name in near:
            turns[name].append(again[name]())
    return {name: statistics.median(times) for name, times in turns.items()}


def apart(result: Any, other: Any) -> float:
    """The largest difference of two results, by the largest number in them."""
    if isinstance(result, tuple):
        return max(apart(x, y) for x, y in zip(result, other, strict=True))
    x, y = (
        each.astype("complex128" if each.dtype.kind == "c" else "float64")
        for each in (result, other)
    )
    return float(f"{float(abs(x - y).max()) / max(float(abs(y).max()), 1e-30):.2g}")


def measured(
    family: str,
    case: Case,
    inputs: Sequence[Any],
    plans: Mapping[str, Plan],
    failed: dict[str, str],
    clock: Callable[..., Callable[[], float]],
) -> Record:
    """The record of a problem. What fails is noted by its version; DeviceLost if the device does
    not answer after that."""
    record: Record = {"family": family, "case": case, "times": {}, "apart": {}}
    again, results = {}, {}
    name = "arrays"
    try:
        arrays = [random_like(layout) for layout in inputs]
        for name, plan in plans.items():
            try:
                run = plan.bind("planner", inputs)
                results[name] = run(*arrays)
                synchronize()
                again[name] = clock(run, arrays)
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}"[:200]
                is_alive()
        name = "turns"
        for version, us in timed(again).items():
            record["times"][version] = float(f"{us:.4g}")
            record["apart"][version] = apart(results[version], [*results.values()][-1])
    except DeviceLost:
        raise
    except Exception as error:
        failed[name] = f"{type(error).__name__}: {error}"[:200]
        is_alive()
    if failed:
        record["failed"] = failed
    return record


class DeviceLost(RuntimeError):
    """An error after which a process has to end: a kernel read where it must not."""


def is_alive() -> None:
    """DeviceLost if the device does not answer any more."""
    try:
        synchronize()
    except Exception as error:
        raise DeviceLost(str(error)) from error


def measure(
    families: Sequence[str],
    seconds: float,
    file: pathlib.Path,
    seed: int = 1,
    *,
    count: int = 4000,
    say: Callable[[str], None] = print,
    clock: Callable[..., Callable[[], float]] = clocked,
    now: Callable[[], float] = time.monotonic,
) -> list[Record]:
    """Time random problems by all their versions until the seconds are over; see the module.

    clock, now: how calls are timed, and the time; tests put others there.
    """
    end, device, found = now() + seconds, device_record(0), []
    cases = drawn(families, count, seed)

    def prepared(at: int) -> list[tuple[str, Case, Sequence[Any], dict[str, Plan], dict[str, str]]]:
        """Some problems with their plans, whose compilation begins."""
        batch = []
        for family, case in cases[at : at + BATCH]:
            problem, plans, failed = plans_of(family, case)
            batch.append((family, case, FAMILIES[family].inputs(problem), plans, failed))
        compile_ahead([(inputs, plan) for *_, inputs, plans, _ in batch for plan in plans.values()])
        return batch

    batch = prepared(0)
    with cm.device("cuda:0"):
        for at in range(BATCH, count + BATCH, BATCH):
            following = prepared(at)
            for family, case, inputs, plans, failed in batch:
                if now() > end:
                    return found
                try:
                    record = measured(family, case, inputs, plans, failed, clock)
                except DeviceLost as error:
                    say(f"the device is lost, after {family} {json.dumps(case)}: {error}")
                    return found
                found.append(record)
                write(file, device, found)
                failures = "".join(f"; {name} FAILED" for name in failed)
                say(f"{len(found)} {family} {line_of(record['times'])}{failures}")
                cm.cuda.empty_cache()
            batch = following
    return found


def line_of(times: Mapping[str, float]) -> str:
    """Versions and times, fastest first."""
    return ", ".join(f"{n} {times[n]:.4g}" for n in sorted(times, key=times.__getitem__)[:4])


def random_like(layout: Any) -> Any:
    """A random array of a layout."""
    from cudamath.random import default_rng

    rng, dtype = default_rng(0), layout.dtype
    values = rng.normal(size=layout.shape, dtype="float32").astype(dtype)
    if values._layout is layout:
        return values
    axes = sorted(range(len(layout.shape)), key=lambda axis: -layout.strides[axis])
    straight = cm.ascontiguousarray(values.transpose(axes))
    return straight.transpose([axes.index(axis) for axis in range(len(axes))])


def write(file: pathlib.Path, device: Record, records: Sequence[Record]) -> None:
    """The records of a device, one to a line; the file is whole at any moment."""
    rows = ",\n".join(json.dumps(record) for record in records)
    beside = file.with_name(f"{file.name}.part")
    beside.write_text(f'{{"device": {json.dumps(device)},\n"records": [\n{rows}\n]}}\n')
    beside.replace(file)


def read(files: Iterable[pathlib.Path]) -> list[Record]:
    """The records of files, each with its device."""
    found = []
    for file in files:
        content = json.loads(file.read_text())
        shared = {"device": content["device"], "cold": content.get("cold", False)}
        found += [{**shared, **record} for record in content["records"]]
    return [record for record in found if record["times"]]


# -------------------- fitting


def chosen(
    problem: Any, able: Mapping[str, Version], times: Mapping[str, float], machine: Machine
) -> tuple[str, list[str]]:
    """The fastest by prediction of what was measured of a problem, and all that could have been. If
    plans of a library were measured, its version is the one of them that runs."""
    known = [name for name in times if name.split()[0] in able]
    several, predicted = plans_that_run(known), {}
    for name in {each.split()[0]: each for each in known}:
        version, does = able[name], work_of(name, problem, able)
        if several and name == "cudnn":
            does = conv_work.cudnn(problem)
        if version.work is None or version.prefers is never:
            predicted[name] = version.order(problem)[1]
        elif does:
            predicted[name] = microseconds(does, machine) / version.favour
    choice = min(predicted, key=predicted.__getitem__, default=known[0])
    if several and choice == "cudnn":
        choice = plan_that_runs(problem, times)
    return choice, known


def regrets(records: Sequence[Record], rates: Mapping[str, Rates]) -> dict[str, list[float]]:
    """Per family: the time of the version predicted to be fastest, of those measured, over the
    least time, for each problem of which two versions were measured or more. One that states no
    work runs where it is preferred, and nowhere else."""
    found: dict[str, list[float]] = {}
    with libraries():
        for record in records:
            times = record["times"]
            with machine_of(record["device"]), using(rates):
                problem, able = supporting(record["family"], record["case"])
                choice, known = chosen(problem, able, times, seen(record))
            if len(known) > 1:
                least = min(times[name] for name in known)
                found.setdefault(record["family"], []).append(times[choice] / least)
    return found


def unseen(records: Sequence[Record], folds: int = FOLDS) -> dict[str, list[float]]:
    """The regrets of records by rates fitted to others: of each part to the other parts."""
    shuffled = random.Random(1).sample(records, len(records))
    found: dict[str, list[float]] = {}
    for fold in range(folds):
        rates, _ = fitted([r for i, r in enumerate(shuffled) if i % folds != fold])
        for family, values in regrets(shuffled[fold::folds], rates).items():
            found.setdefault(family, []).extend(values)
    return found


def shipped() -> dict[str, Rates]:
    """The rates of the package."""
    return {name: Rates(*numbers) for name, numbers in json.loads(SHIPPED.read_text()).items()}


def judged(records: Sequence[Record], least: float = 1.15) -> str:
    """What --judge prints: regrets by family, and the problems of which they are large."""
    lines = []
    for record in records:
        values = regrets([record], shipped()).get(record["family"], [])
        if values and values[0] > least:
            lines.append(f"{values[0]:.2f} {record['case']} {line_of(record['times'])}")
    return "\n".join([*lines, *regret_lines(regrets(records, shipped()))])


def regret_lines(found: Mapping[str, Sequence[float]]) -> list[str]:
    """A line for each family."""
    return [
        f"{family}: {len(values)} problems, regret mean {statistics.mean(values):.3f}, "
        f"median {quantile(values, 0.5):.3f}, 95 % {quantile(values, 0.95):.3f}, "
        f"worst {max(values):.2f}"
        for family, values in found.items()
    ]


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    return sorted(values)[min(len(values) - 1, math.ceil(share * len(values)) - 1)]


def report(records: Sequence[Record], rates: Mapping[str, Rates], left: Mapping[str, Any]) -> str:
    """What --fit prints."""
    lines = [f"{'kind of version':44s}    n  launch   cycle    byte    bias  spread"]
    for name, (count, mean) in left.items():
        launch, cycle, byte, spread = rates[name]
        lines.append(
            f"{name:44s} {count:4d} {launch:7.2f} {cycle:7.2f} {byte:7.2f} {mean:+7.2f} "
            f"{spread:7.2f}"
        )
    held_back = ["of problems held out:", *regret_lines(unseen(records))]
    return "\n".join([*lines, *regret_lines(regrets(records, rates)), *held_back])


def tiles_text(tiles: Mapping[str, Mapping[str, PlanTiles]]) -> str:
    """cudnn_plans.json, a plan to a line."""
    kinds = []
    for kind, plans in sorted(tiles.items()):
        rows = ",\n".join(
            f"  {json.dumps(n)}: {json.dumps([*t])}" for n, t in sorted(plans.items())
        )
        kinds.append(f" {json.dumps(kind)}: {{\n{rows}\n }}")
    return "{\n" + ",\n".join(kinds) + "\n}\n"


def rates_text(rates: Mapping[str, Rates]) -> str:
    """rates.json, a kind to a line."""
    rows = ",\n".join(f" {json.dumps(n)}: {json.dumps([*r])}" for n, r in sorted(rates.items()))
    return f"{{\n{rows}\n}}\n"


# -------------------- asking


@dataclasses.dataclass
class Answer:
    """How often a version could run, and how often it is the first to be tried."""

    able: int = 0
    first: int = 0


def ask(
    count: int, families: Sequence[str], machine: assume, seed: int = 7, library: bool = True
) -> dict[str, dict[str, Answer]]:
    """Family -> version -> how often random problems get it on a device; no GPU is needed."""
    found: dict[str, dict[str, Answer]] = {family: {} for family in families}
    with machine, libraries(library):
        for family, case in drawn(families, count, seed):
            problem, able = supporting(family, case)
            for version in FAMILIES[family].versions(problem):
                found[family].setdefault(version.name, Answer())
            order = sorted(able.values(), key=lambda version: version.order(problem))
            for version in order:
                found[family][version.name].able += 1
            if order:
                found[family][order[0].name].first += 1
    return found


def table_of(answers: Mapping[str, Mapping[str, Answer]]) -> str:
    """What --ask prints."""
    lines = []
    for family, versions in answers.items():
        for name in sorted(versions, key=lambda name: -versions[name].first):
            answer = versions[name]
            never = "" if answer.first else "   NEVER CHOSEN"
            lines.append(
                f"{family} {name:32s} able {answer.able:5d}, first {answer.first:5d}{never}"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="measure, fit and ask the planner")
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="records, for --fit")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--tiles", action="store_true")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument(
        "--write", action="store_true", help="with --fit: replace the shipped rates"
    )
    parser.add_argument("--ask", type=int, metavar="N")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--record", type=pathlib.Path, default=pathlib.Path("planner.json"))
    parser.add_argument("--families", nargs="*", choices=[*FAMILIES], default=[*FAMILIES])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--capability", default="9.0", help="of the device that is asked for")
    options = parser.parse_args(arguments)
    if options.measure:
        if not cm.cuda.device_count():
            print("planner: no CUDA device", file=sys.stderr)
            return 1
        say = functools.partial(print, flush=True)
        measure(options.families, options.seconds, options.record, options.seed, say=say)
    if options.fit or options.tiles:
        files = options.files or sorted(RESULTS.glob("*/planner*.json"))
        records = read(files)
    if options.tiles:
        judged_tiles = held_out(records)
        text = tiles_text(tiles_that_help(records, judged_tiles))
        print(text, judgement(judged_tiles), sep="\n")
        if options.write:
            SHIPPED_TILES.write_text(text)
            tiles_of_cudnn.cache_clear()
    if options.fit:
        rates, left = fitted(records)
        print(report(records, rates, left))
        if options.write:
            SHIPPED.write_text(rates_text(rates))
    if options.judge:
        print(judged(read(options.files)))
    if options.ask:
        capability = tuple(int(n) for n in options.capability.split("."))
        machine = assume((capability[0], capability[1]))
        answers: dict[str, collections.OrderedDict[str, Answer]] = {}
        answers.update(ask(options.ask, options.families, machine))
        print(table_of(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
