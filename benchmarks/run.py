"""Measures rows and records the figures: `python -m benchmarks.run [NAMES...] [--device D] [--out
DIR]`.

Records go to benchmarks/results/<processor>/rows.json, each with its environment: commit, versions,
device, and the ceilings (device copy, large matrix product) measured in the same run. An older
record of a row is replaced. `python -m benchmarks.report` generates README's tables from these
files.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json as json_module
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import benchmarks.rows_attention  # noqa: F401  registers its rows
import benchmarks.rows_bandwidth  # noqa: F401  registers its rows
import benchmarks.rows_conv  # noqa: F401  registers its rows
import benchmarks.rows_elementwise  # noqa: F401  registers its rows
import benchmarks.rows_grid  # noqa: F401  registers its rows
import benchmarks.rows_halves  # noqa: F401  registers its rows
import benchmarks.rows_layers  # noqa: F401  registers its rows
import benchmarks.rows_linalg  # noqa: F401  registers its rows
import benchmarks.rows_norms  # noqa: F401  registers its rows
import benchmarks.rows_quantized  # noqa: F401  registers its rows
import benchmarks.rows_random  # noqa: F401  registers its rows
import benchmarks.rows_sort  # noqa: F401  registers its rows
import benchmarks.rows_transformations  # noqa: F401  registers its rows
import benchmarks.rows_versions  # noqa: F401  registers its rows
import benchmarks.rows_versions_layers  # noqa: F401  registers its rows
import benchmarks.rows_versions_memory  # noqa: F401  registers its rows
import benchmarks.rows_versions_sort  # noqa: F401  registers its rows
import cudamath as cm
from benchmarks import timer
from benchmarks.format import duration
from benchmarks.rows import AGAIN, BIG, ROWS, Row
from benchmarks.rows_matmul import product
from benchmarks.verify import compare
from cudamath.info import describe, processor, versions
from cudamath.runtime import device as devices
from cudamath.timing import Spread, interleave, nothing

RESULTS = pathlib.Path(__file__).parent / "results"
CHART_ROWS = 40
PEERS = ("torch", "cupy", "cupy-cuda13x", "jax", "scikit-learn")
LIBRARIES = {"numpy", "torch", "cupy", "jax"}  # the other results of a row are kernels of cudamath


def commit() -> str:
    """The commit that is measured, "+" for changes on top; from CUDAMATH_COMMIT where the tree came
    without git."""
    name = os.environ.get("CUDAMATH_COMMIT")
    if name:
        return name
    root = pathlib.Path(__file__).parents[1]
    git = ["git", "-C", str(root)]
    try:
        head = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        )
        paths = ["--", "cudamath", "benchmarks/*.py", "tests"]
        changes = subprocess.run(
            [*git, "status", "--porcelain", *paths], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+" if changes.stdout.strip() else "")


def environment(device: str) -> dict[str, Any]:
    """What a record says about where it was made."""
    packages = versions()
    for name in PEERS:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "device": describe(cm.device(device).index),
        "processor": processor(),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": packages,
    }


def folder(device: str) -> str:
    """Name of the results folder: the GPU's, or the CPU's with its number of cores."""
    name = processor() if device == "cpu" else devices.info(cm.device(device).index).name
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((R|TM)\)|CPU|Processor", " ", name).lower()).strip(
        "-"
    )


def ceilings(device: str) -> dict[str, float]:
    """What this device can do today: bytes per second of a copy (read and written), flops per
    second of a large product, in float32 and on a GPU that has tensor cores for them also in
    bfloat16 (FLOP16) and in TF32.

    On a GPU: our copy of contiguous arrays, as fast as the driver's (kernels/copy/strided.py), and
    cuBLAS.
    """
    side = 8192 if device != "cpu" else 1024
    length = BIG if device != "cpu" else 16_000_000
    ours = timer.Cudamath(device)
    source = ours.array(np.ones(length, np.float32))
    rng = np.random.default_rng(0)
    a = rng.standard_normal((side, side), dtype=np.float32)
    if device == "cpu":
        host = np.ones(length, np.float32)
        target = np.empty_like(host)
        spread = interleave({"B": lambda: np.copyto(target, host), "FLOP": lambda: a @ a}, rounds=7)
    else:
        b = ours.array(a)
        calls = {"B": lambda: cm.copy(source), "FLOP": product("float32", "nn", "cublas")(cm, b, b)}
        if devices.capability(cm.device(device).index) >= (8, 0):
            calls["FLOP16"] = product("bfloat16", "nn", "cublas")(cm, b, b)
            calls["TF32"] = product("float32", "nn", "cublas", tf32=True)(cm, b, b)
        spread = timer.on_device(calls, rounds=9)
    return {
        name: (8 * length if name == "B" else 2 * side**3) / each.median
        for name, each in spread.items()
    }


@dataclasses.dataclass(frozen=True)
class Settings:
    """How rows are measured. quick: fewer rounds; rounds, warm: turns of each library and seconds
    of load before, by default what the kind of row wants; verify: compare the libraries' results
    first, `threshold` apart at most (verify.py)."""

    quick: bool = False
    rounds: int | None = None
    warm: float | None = None
    verify: bool = False
    threshold: float | None = None


def measure(
    row: Row,
    device: str,
    libraries: Sequence[timer.Peer],
    settings: Settings = Settings(),
    errors: dict[str, float] | None = None,
) -> dict[str, Spread]:
    """Time one row in each library that takes part; name -> Spread, cudamath's kernels by name
    included. errors: is given how far from cudamath's result the others' are, where they are
    compared."""
    values = row.arguments(np.random.default_rng(0))
    calls = {}
    binds = row.calls | (
        {AGAIN: row.calls["numpy"]} if row.kind == "cpu" and "numpy" in row.calls else {}
    )
    for name, bind in binds.items():
        library = next(
            (peer for peer in libraries if peer.name == ("numpy" if name == AGAIN else name)), None
        )
        if library is None and name in ("numpy", AGAIN, "torch", "cupy", "jax"):
            continue  # not installed, or not on this device
        library = library or libraries[0]  # a kernel of cudamath, by name
        if row.kind == "device" and not library.default_stream:
            continue
        copies = [tuple(library.array(value) for value in values) for _ in range(row.copies)]
        bound = [bind(library.library, *arrays) for arrays in copies]
        try:
            if library.name != name:
                bound[0]()
        except ValueError as error:  # a version that is not for these arguments
            print(f"{row.name} without {name}: {error}")
            continue
        calls[name] = bound[0] if len(bound) == 1 else timer.turns(bound)
    if settings.verify and not row.random and errors is not None:
        errors |= compare({name: call() for name, call in calls.items()}, settings.threshold)
    quick = settings.quick
    chosen = (("rounds", settings.rounds), ("warm", settings.warm))
    options: dict[str, Any] = {key: value for key, value in chosen if value is not None}
    synchronize = cm.cuda.synchronize if device != "cpu" else nothing
    if row.kind == "device":
        usual: dict[str, Any] = {"rounds": 5 if quick else 15, "warm": 0.2 if quick else 0.5}
        return timer.on_device(calls, hide_host=row.hide_host, **(usual | options))
    if (
        row.kind == "host"
    ):  # at most 500 launches a turn: a full launch queue would time the GPU instead
        return interleave(
            calls,
            most=500,
            synchronize=synchronize,
            wait=False,
            **({"rounds": 7 if quick else 51} | options),
        )
    return interleave(calls, **({"rounds": 5 if quick else 21} | options))


def record(
    row: Row,
    spreads: dict[str, Spread],
    ceiling: dict[str, float],
    where: dict[str, Any],
    errors: dict[str, float] | None = None,
) -> dict[str, Any]:
    """The JSON of a row: seconds a call, what share of the ceiling that is, and the environment."""
    results = {}
    for name, spread in spreads.items():
        results[name] = dataclasses.asdict(spread)
        if row.unit:
            results[name]["rate"] = row.work / spread.median
        if (
            row.kind == "device" and (row.ceiling or row.unit) in ceiling
        ):  # the CPU's rows run from its caches: no one ceiling
            results[name]["of_ceiling"] = (
                row.work / spread.median / ceiling[row.ceiling or row.unit]
            )
        if errors and name in errors:
            results[name]["error"] = errors[name]
    return {
        "name": row.name,
        "kind": row.kind,
        "title": row.title,
        "work": row.work,
        "unit": row.unit,
        "traffic": row.traffic,
        "results": results,
        "ceilings": ceiling,
        **where,
    }


def run(
    names: Sequence[str],
    device: str,
    settings: Settings = Settings(),
    keep: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure the rows whose names contain one of `names` (all rows, if there are none) and that
    fit the device.

    Args:
        names: parts of names of rows, those to be measured first first.
        device: "cpu", "cuda:0", ... : CPU rows run for "cpu", device rows for a GPU, host rows for
        both. settings: how. keep: is given each record as soon as it is there.

    Returns:
        (records, printed as a table; names of the rows that failed, each printed with its error).

    Raises:
        ValueError: no row fits.
    """
    from rich.console import Console
    from rich.progress import track

    fitting = ("host", "cpu") if device == "cpu" else ("host", "device")
    chosen = list(
        {
            row.name: row
            for name in names or [""]
            for row in ROWS.values()
            if row.kind in fitting and name in row.name
        }.values()
    )
    if not chosen:
        raise ValueError(
            f"bench: no row on {device} has a name with {' or '.join(names)}; there are "
            + " ".join(row.name for row in ROWS.values() if row.kind in fitting)
        )
    console = Console(highlight=False)
    libraries, absent = timer.peers(device)
    console.print(
        f"{device}: {describe(cm.device(device).index)}; beside cudamath: "
        + (", ".join(peer.name for peer in libraries[1:]) or "nobody"),
        markup=False,
    )
    for name, why in absent.items():
        console.print(f"  without {name}: {why}", markup=False, style="dim")
    records, failed = [], []
    with cm.device(device):
        where, ceiling = environment(device), ceilings(device)
        for row in track(chosen, description="rows", console=console):
            try:
                errors: dict[str, float] = {}
                spreads = measure(row, device, libraries, settings, errors)
                records.append(record(row, spreads, ceiling, where, errors))
                if keep:
                    keep(records[-1])
            except (
                Exception
            ) as error:  # one row out of memory, say, must not cost the others' figures
                failed.append(row.name)
                console.print(
                    f"{row.name} failed: {type(error).__name__}: {error}", markup=False, style="red"
                )
    if records:
        console.print(table(records))
    return records, failed


def table(records: Sequence[dict[str, Any]]) -> Any:
    """A rich table of records."""
    from rich.table import Table

    names = list(dict.fromkeys(name for each in records for name in each["results"]))
    listing = Table(
        title="a call takes (median; in brackets the share of the ceiling)", title_justify="left"
    )
    listing.add_column("row")
    for name in names:
        listing.add_column(name, justify="right")
    for each in records:
        cells = []
        for name in names:
            result = each["results"].get(name)
            share = f" ({result['of_ceiling']:.0%})" if result and "of_ceiling" in result else ""
            cells.append(duration(result["median"]) + share if result else "-")
        listing.add_row(each["title"], *cells)
    return listing


def chart(records: Sequence[dict[str, Any]], path: str | os.PathLike[str]) -> None:
    """A PNG with a panel for each row: bars of the time of a call, from 0, each with its value.
    Where another library took part, its speed beside cudamath's is printed too (above 1 cudamath is
    faster)."""
    from matplotlib.figure import Figure

    bars = [len(each["results"]) for each in records]
    figure = Figure(figsize=(9, 0.6 + sum(0.35 + 0.22 * n for n in bars)), layout="constrained")
    figure.suptitle(records[0]["device"], fontsize="medium")
    heights = [0.35 + 0.22 * n for n in bars]
    panels = figure.subplots(len(records), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, each in zip(panels, records, strict=True):
        names = list(each["results"])
        times = [each["results"][name]["median"] for name in names]
        colours = ["tab:orange" if name == "cudamath" else "tab:gray" for name in names]
        drawn = axes.barh(names, times, 0.75, color=colours)
        axes.bar_label(drawn, labels(each), padding=3, fontsize="small")
        axes.set_xlim(0, 1.3 * max(times))
        axes.set_title(each["title"], loc="left", fontsize="small")
        axes.invert_yaxis()
        axes.set_xticks([])
        axes.tick_params(labelsize="small", length=0)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    figure.savefig(path, dpi=100)


def labels(record: dict[str, Any]) -> list[str]:
    """What is printed beside the bars of a row: the times, and for other libraries than cudamath
    the speedup of cudamath over them."""
    ours = record["results"].get("cudamath", {}).get("median")
    printed = []
    for name, result in record["results"].items():
        speedup = f"  ({result['median'] / ours:.2f}x)" if ours and name in LIBRARIES else ""
        printed.append(duration(result["median"]) + speedup)
    return printed


def summary(records: Sequence[dict[str, Any]], failed: Sequence[str]) -> str:
    """What many records say together: how cudamath stands beside each library, where it is behind,
    and how far apart the results were where they were compared."""
    lines = [
        f"{len(records)} rows measured"
        + (f", {len(failed)} failed: {', '.join(failed)}" if failed else "")
        + "."
    ]
    ratios: dict[str, dict[str, float]] = {}
    for each in records:
        results = each["results"]
        for name in set(results) & LIBRARIES if "cudamath" in results else ():
            ratios.setdefault(name, {})[each["title"]] = (
                results[name]["median"] / results["cudamath"]["median"]
            )
    for name, by_title in sorted(ratios.items()):
        mean = float(np.exp(np.mean(np.log(list(by_title.values())))))
        behind = sorted((ratio, title) for title, ratio in by_title.items() if ratio < 1)
        lines.append(
            f"{name}: {len(by_title)} rows, speedup of cudamath {mean:.2f} (geometric mean); "
            f"behind in {len(behind)}"
            + "".join(f"\n  {ratio:.2f}  {title}" for ratio, title in behind[:10])
        )
    errors = [
        (result["error"], name, each["title"])
        for each in records
        for name, result in each["results"].items()
        if "error" in result
    ]
    if errors:
        value, name, title = max(errors)
        lines.append(
            f"{len(errors)} results compared with cudamath's; the largest error is {value:.2g}, "
            f"{name}'s in {title}"
        )
    return "\n".join(lines)


def command(
    names: Sequence[str],
    *,
    plot: str | None = None,
    json: str | None = None,
    everything: bool = False,
    settings: Settings = Settings(),
    plots: bool = False,
    save: str | None = None,
) -> int:
    """`cudamath bench`: run rows on the default device, print them, keep them only where asked.
    After Ctrl-C, those that were measured.

    names: parts of rows' names; everything: all rows; plot, json: files for a chart and the
    figures; plots, save: charts of CHART_ROWS rows each, and figures and summary, into the folder
    `save` (for plots alone "bench-output").
    """
    if not names and not everything:
        print("rows: " + " ".join(ROWS))
        return 0
    records: list[dict[str, Any]] = []
    chosen: Sequence[str] = [] if everything else names
    try:
        _, failed = run(chosen, str(cm.default_device()), settings, records.append)
        stopped = False
    except KeyboardInterrupt:
        print("cudamath: stopped; what follows is of the rows measured so far", file=sys.stderr)
        failed, stopped = [], True
    text = summary(records, failed)
    print(text)
    if plots or save:
        folder = pathlib.Path(save or "bench-output")
        folder.mkdir(parents=True, exist_ok=True)
        if save:
            (folder / "rows.json").write_text(json_module.dumps(records, indent=1) + "\n")
            (folder / "summary.txt").write_text(text + "\n")
        for start in range(0, len(records) if plots else 0, CHART_ROWS):
            chart(
                records[start : start + CHART_ROWS], folder / f"rows-{start // CHART_ROWS + 1}.png"
            )
        print(f"saved: {folder}")
    if plot and records:
        chart(records, plot)
        print(f"chart: {plot}")
    if json:
        pathlib.Path(json).write_text(json_module.dumps(records, indent=1) + "\n")
        print(f"figures: {json}")
    return 130 if stopped else 1 if failed else 0


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m benchmarks.run`: run rows and keep each as a JSON file."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "names", nargs="*", help="rows whose name contains one of these (default: all)"
    )
    parser.add_argument("--device", default=str(cm.default_device()))
    parser.add_argument(
        "--out", type=pathlib.Path, help="folder for rows.json (default: benchmarks/results/...)"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--plot", help="also write a chart to this PNG file")
    parser.add_argument(
        "--merge",
        nargs="+",
        type=pathlib.Path,
        default=[],
        help="measure nothing; take these files' rows",
    )
    arguments = parser.parse_args(argv)
    if arguments.merge and not arguments.out:
        parser.error("--merge wants --out, the folder of the rows.json that takes the rows")
    out = arguments.out or RESULTS / folder(arguments.device)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "rows.json"
    kept = {
        each["name"]: each
        for each in (json_module.loads(file.read_text()) if file.exists() else [])
    }

    def keep(record: dict[str, Any]) -> None:
        kept[record["name"]] = record
        ordered = [
            kept[name] for name in ROWS if name in kept
        ]  # rows that no longer exist are dropped
        file.write_text(json_module.dumps(ordered, indent=1) + "\n")

    for each in arguments.merge:
        for record in json_module.loads(each.read_text()):
            keep(record)
    if arguments.merge:
        return 0
    records, failed = run(arguments.names, arguments.device, Settings(quick=arguments.quick), keep)
    print(f"{len(records)} rows measured; {file} holds {len(kept)}")
    if arguments.plot and records:
        chart(records, arguments.plot)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
