"""Tables and a chart of host_costs.json, cold_start.json and sweep.json, for report.py."""

from __future__ import annotations

import json
import pathlib
import statistics
from collections.abc import Callable
from typing import Any

LIBRARIES = {"cudamath": "cudamath", "torch": "PyTorch", "cupy": "CuPy", "numpy": "NumPy"}
STEPS = {
    "import": "imported",
    "matmul": "first matmul",
    "conv2d": "first conv2d",
    "softmax": "first softmax",
    "short": "first softmax, no convolution before it",
}


def section(
    folder: pathlib.Path, duration: Callable[[float], str], short: bool = False
) -> list[str]:
    """The Markdown of the records in a folder; empty where there are none. short: without the table
    of all host costs and the times of compilation."""
    lines: list[str] = []
    for name, show in (("host_costs", host_costs), ("cold_start", cold_start), ("sweep", sweep)):
        file = folder / f"{name}.json"
        if file.is_file():
            lines += ["", *show(json.loads(file.read_text()), duration, folder, short)]
    return lines


def beside_torch(record: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """The calls that PyTorch has too, the slowest relative to it first; how many of them take no
    longer than PyTorch's."""
    calls = sorted(
        (each for each in record["calls"] if "torch" in each),
        key=lambda each: each["torch"] / each["cudamath"],
    )
    return calls, sum(each["cudamath"] <= each["torch"] for each in calls)


def highlights(folder: pathlib.Path) -> list[str]:
    """One line on the calls of a results folder; nothing where there are none."""
    file = folder / "host_costs.json"
    if not file.is_file():
        return []
    calls, cheaper = beside_torch(json.loads(file.read_text()))
    mean = statistics.geometric_mean([each["torch"] / each["cudamath"] for each in calls])
    return [
        f"- **{len(calls):,} calls of public functions vs PyTorch**, time on the host: {mean:.2f}, "
        f"the geometric mean; {cheaper:,} take no longer."
    ]


def host_costs(
    record: dict[str, Any], duration: Callable[[float], str], _folder: pathlib.Path, short: bool
) -> list[str]:
    """The calls, the slowest relative to PyTorch's first."""
    calls, cheaper = beside_torch(record)
    lines = [
        f"**Host time per call, {len(calls):,} calls of public functions** on arrays of at most "
        "4,096 elements: "
        f"{cheaper:,} take no longer than PyTorch's. Commit `{record['commit']}`, {record['date']}."
    ]
    if short:
        return lines
    return [
        *lines,
        "",
        "<details><summary>all of them, the slowest relative to PyTorch's first</summary>",
        "",
        "| call | cudamath | PyTorch | time / PyTorch's |",
        "|---|---:|---:|---:|",
        *(
            f"| `{each['title']}` | {duration(each['cudamath'])} | {duration(each['torch'])} "
            f"| {each['cudamath'] / each['torch']:.2f} |"
            for each in calls
        ),
        "",
        "</details>",
    ]


def cold_start(
    record: dict[str, Any], duration: Callable[[float], str], _folder: pathlib.Path, short: bool
) -> list[str]:
    """One row per library; then how long the kernels take to compile."""
    first = record["first"]
    steps = [step for step in STEPS if any(step in each for each in first.values())]
    lines = [
        "**Cold start**: from the start of the interpreter to each first result on the host, "
        "including the creation of "
        "the CUDA context, with warm disk caches (median of interleaved processes). CuPy has no "
        "convolution: its "
        "softmax follows its product, as the others' do in the last column. "
        f"Commit `{record['commit']}`, {record['date']}.",
        "",
        "| library | " + " | ".join(STEPS[step] for step in steps) + " |",
        "|---" + "|---:" * len(steps) + "|",
    ]
    lines += [
        f"| {LIBRARIES[name]} | "
        + " | ".join(duration(each[step]) if step in each else "" for step in steps)
        + " |"
        for name, each in first.items()
    ]
    if record.get("compile") and not short:
        times = sorted(record["compile"].items(), key=lambda item: item[1])
        lines += [
            "",
            "Time to compile, once, before the kernel is cached on disk: "
            + ", ".join(f"`{name}` {duration(seconds)}" for name, seconds in times)
            + ".",
        ]
    return lines


def sweep(
    record: dict[str, Any], _duration: Callable[[float], str], folder: pathlib.Path, _short: bool
) -> list[str]:
    """The chart that `sweep_chart` drew."""
    largest = max(each["size"] for each in record["sizes"])
    return [
        f"**Time against size**, 1,024 to {largest:,} float32 elements: on the host (public call "
        "to return) and on the "
        f"device. Commit `{record['commit']}`, {record['date']}.",
        "",
        f"![Host and device time against size](benchmarks/results/{folder.name}/sweep.png)",
    ]


def sweep_chart(record: dict[str, Any], path: pathlib.Path) -> None:
    """One panel per operation: device time (or the CPU's) as lines, host time dashed, against
    size."""
    from matplotlib.figure import Figure

    operations = list(dict.fromkeys(each["operation"] for each in record["sizes"]))
    figure = Figure(figsize=(4 * max(len(operations), 1), 4), layout="constrained")
    panels = figure.subplots(1, max(len(operations), 1), squeeze=False)[0]
    for axes, operation in zip(panels, operations, strict=False):
        rows = [each for each in record["sizes"] if each["operation"] == operation]
        for color, name in enumerate(LIBRARIES):
            for where, style in (("device", "-"), ("host", "--")):
                points = [
                    (row["size"], row[where][name] * 1e6)
                    for row in rows
                    if name in row.get(where, {})
                ]
                if points:
                    axes.plot(
                        *zip(*points, strict=True),
                        style,
                        color=f"C{color}",
                        marker=".",
                        label=f"{LIBRARIES[name]}, {where}",
                    )
        axes.set(
            xscale="log", yscale="log", xlabel="elements", ylabel="microseconds", title=operation
        )
        axes.grid(alpha=0.3)
    if operations:
        panels[0].legend(fontsize="x-small")
    figure.savefig(path, dpi=100)
