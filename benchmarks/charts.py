"""Charts of a results folder, drawn by `python -m benchmarks.report` from its rows.json.

`speedups.png`: a line for each family, with a dot for each row and the geometric mean, printed;
right of 1 cudamath is faster. `headlines.png`: a bar for each of the rows of docs/benchmarks.md,
from 0, with its speedup. `roofline.png`: products and convolutions, a panel for each dtype, by
their operations per byte of operands and result, under the bounds of memory and arithmetic: the
rate of a copy and of the fastest product of that dtype in the same records.
"""

from __future__ import annotations

import math
import pathlib
import re
import statistics
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

PEERS = ("torch", "cupy", "jax", "numpy")


def speedups(rows: Sequence[dict[str, Any]]) -> list[tuple[str, float, str]]:
    """(title, best peer's time / cudamath's, unit of the work) of each row on the GPU, in the
    records' order."""
    ratios = []
    for row in rows:
        peers = [row["results"][name]["median"] for name in PEERS if name in row["results"]]
        if row["kind"] == "device" and peers and "cudamath" in row["results"]:
            ratios.append(
                (row["title"], min(peers) / row["results"]["cudamath"]["median"], row["unit"])
            )
    return ratios


def points(rows: Sequence[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """(title, operations per byte, operations per second) of each row whose record has both."""
    return [
        (
            row["title"],
            row["work"] / row["traffic"],
            row["work"] / row["results"]["cudamath"]["median"],
        )
        for row in rows
        if row["unit"] == "FLOP" and row.get("traffic") and "cudamath" in row["results"]
    ]


def _save(figure: Any, file: pathlib.Path) -> None:
    """With 64 colours: a third of the bytes, and nobody sees it."""
    from PIL import Image

    figure.savefig(file, dpi=110)
    with Image.open(file) as image:
        image.convert("RGB").quantize(64).save(file, optimize=True)


def draw_families(families: dict[str, list[tuple[float, str]]], file: pathlib.Path) -> None:
    """The dots of each family: (speedup, title) of its rows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1 + 0.5 * len(families)), layout="constrained")
    axes = figure.subplots()
    for place, ratios in enumerate(families.values()):
        values = sorted(ratio for ratio, _ in ratios)
        spread = [place + 0.28 * math.sin(7 * i) for i in range(len(values))]  # dots side by side
        axes.plot(values, spread, ".", markersize=4, alpha=0.4, color="tab:blue")
        mean = statistics.geometric_mean(values)
        axes.plot([mean, mean], [place - 0.4, place + 0.4], color="tab:orange", linewidth=2)
        axes.annotate(f"{mean:.2f}", (mean, place - 0.4), ha="center", va="bottom", fontsize=8)
    names = [f"{family} ({len(ratios)})" for family, ratios in families.items()]
    axes.set_yticks(range(len(names)), ["\n".join(textwrap.wrap(n, 34)) for n in names], fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.8)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    low, high = axes.get_xlim()
    ticks = [tick for tick in (0.25, 0.5, 1, 2, 4, 8, 16, 32) if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel("speedup over the best peer (a dot: one row; the line: geometric mean)")
    _save(figure, file)


def draw_speedups(rows: Sequence[dict[str, Any]], file: pathlib.Path) -> None:
    """A bar for each row, with its value."""
    from matplotlib.figure import Figure

    bars = speedups(rows)
    figure = Figure(figsize=(9, 0.9 + 0.24 * len(bars)), layout="constrained")
    axes = figure.subplots()
    drawn = axes.barh(
        range(len(bars)),
        [ratio for _, ratio, _ in bars],
        color=["tab:orange" if ratio >= 1 else "tab:grey" for _, ratio, _ in bars],
    )
    axes.bar_label(drawn, [f"{ratio:.2f}" for _, ratio, _ in bars], padding=3, fontsize=8)
    axes.set_yticks(range(len(bars)), [title for title, *_ in bars], fontsize=8)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, 1.1 * max(ratio for _, ratio, _ in bars))
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("speedup over the best peer")
    axes.set_title(rows[0]["device"].split(",")[0], fontsize=9)
    _save(figure, file)


#: How titles name the dtype that is multiplied; float32 is not always named.
DTYPES = {
    "bfloat16": r"bfloat16|bf16",
    "float16": r"\bfloat16|\bf16",
    "float64": r"float64|f64",
    "8 bits": r"float8|int8|e4m3",
    "tf32": r"tf32",
    "float32": r"",
}


def dtype_of(title: str) -> str:
    """The dtype that a row multiplies."""
    return next(dtype for dtype, words in DTYPES.items() if re.search(words, title))


def draw_roofline(rows: Sequence[dict[str, Any]], file: pathlib.Path) -> None:
    """The points under their roofs."""
    from matplotlib.figure import Figure

    dots: dict[str, list[tuple[str, float, float]]] = {}
    for title, x, y in points(rows):
        dots.setdefault(dtype_of(title), []).append((title, x, y))
    kinds = [dtype for dtype in DTYPES if dtype in dots]
    copy = rows[0]["ceilings"]["B"]
    columns = min(len(kinds), 3)
    lines = -(-len(kinds) // columns)
    figure = Figure(figsize=(3.6 * columns, 3.2 * lines), layout="constrained")
    figure.suptitle(rows[0]["device"].split(",")[0], fontsize=10)
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True)
    for axes in panels.flat[len(kinds) :]:
        axes.set_visible(False)
    for axes, dtype in zip(panels.flat, kinds, strict=False):
        chosen = dots[dtype]
        top = max(y for *_, y in chosen)
        across = [min(x for _, x, _ in chosen) / 2, top / copy, 2 * max(x for _, x, _ in chosen)]
        axes.plot(across, [min(copy * x, top) / 1e12 for x in across], color="black", linewidth=0.8)
        for family, colour in (("conv", "tab:green"), ("linear", "tab:red"), ("", "tab:orange")):
            places = [
                (x, y / 1e12)
                for title, x, y in chosen
                if title.startswith(family) and (family or title[0].isdigit())
            ]
            if places:
                name = family or "matmul"
                axes.plot(*zip(*places, strict=True), "o", markersize=3, color=colour, label=name)
        axes.set(xscale="log", yscale="log", title=f"{dtype}, at most {top / 1e12:.3g} TFLOP/s")
        axes.title.set_fontsize(9)
        axes.legend(fontsize=7)
    figure.supxlabel("operations per byte of operands and result", fontsize=9)
    figure.supylabel("TFLOP/s", fontsize=9)
    _save(figure, file)


def draw(
    rows: Sequence[dict[str, Any]],
    folder: pathlib.Path,
    headlines: Sequence[str] = (),
    families: dict[str, list[tuple[float, str]]] | None = None,
) -> None:
    """The charts, where the records have what they show. headlines: names of the rows of
    docs/benchmarks.md; families: (speedup, title) of the rows of each family."""
    if families:
        draw_families(families, folder / "speedups.png")
    chosen = [row for row in rows if row["name"] in headlines]
    if speedups(chosen):
        draw_speedups(chosen, folder / "headlines.png")
    if points(rows):
        draw_roofline(rows, folder / "roofline.png")


TITLES = {
    "speedups": "Speedup over the best peer, by family",
    "headlines": "Speedup over the best peer",
    "roofline": "Products and convolutions under the roof",
}


def section(folder: pathlib.Path, names: Iterable[str] = ("speedups", "roofline")) -> list[str]:
    """The Markdown of the charts that a folder has, of these."""
    return [
        line
        for name in names
        if (folder / f"{name}.png").is_file()
        for line in ("", f"![{TITLES[name]}](benchmarks/results/{folder.name}/{name}.png)")
    ]
