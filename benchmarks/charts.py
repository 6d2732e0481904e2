"""Charts of a results folder, drawn by `python -m benchmarks.report` from its rows.json.

`speedups.png`, and `headlines.png` of README's rows: one bar per row, the time of the best peer as
a multiple of cudamath's, on a logarithmic axis; right of 1 cudamath is faster. `roofline.png`:
products and convolutions by their operations per byte of operands and result, under the bounds of
memory and arithmetic: the rate of a copy and of the fastest product in the same records.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

PEERS = ("torch", "cupy", "jax", "numpy")
COLOURS = {"B": "tab:blue", "FLOP": "tab:orange"}


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


def draw_speedups(rows: Sequence[dict[str, Any]], file: pathlib.Path) -> None:
    """The bars."""
    from matplotlib.figure import Figure

    bars = speedups(rows)
    figure = Figure(figsize=(9, 0.6 + 0.16 * len(bars)), layout="constrained")
    axes = figure.subplots()
    places = range(len(bars))
    axes.barh(
        places,
        [ratio - 1 for _, ratio, _ in bars],
        left=1,
        color=[COLOURS.get(unit, "grey") for *_, unit in bars],
    )
    axes.set_yticks(places, [title for title, *_ in bars], fontsize=6 if len(bars) > 50 else 7)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    ticks = [0.5, 1, 2, 4, 8]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel(
        "time of the best peer / time of cudamath (blue: bytes limit, orange: operations, grey: "
        "neither)",
        fontsize=8,
    )
    axes.set_title(rows[0]["device"].split(",")[0], fontsize=9)
    _save(figure, file)


def draw_roofline(rows: Sequence[dict[str, Any]], file: pathlib.Path) -> None:
    """The points under their roof."""
    from matplotlib.figure import Figure

    dots = points(rows)
    copy = rows[0]["ceilings"]["B"]
    top = max(rate for *_, rate in dots)
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    across = [min(x for _, x, _ in dots) / 2, top / copy, 2 * max(x for _, x, _ in dots)]
    axes.plot(across, [min(copy * x, top) / 1e12 for x in across], color="black", linewidth=0.8)
    for family, colour in (("conv", "tab:green"), ("linear", "tab:red"), ("", "tab:orange")):
        chosen = [
            (x, y / 1e12)
            for title, x, y in dots
            if title.startswith(family) and (family or title[0].isdigit())
        ]
        if chosen:
            axes.plot(
                *zip(*chosen, strict=True),
                "o",
                markersize=3,
                color=colour,
                label=family or "matmul",
            )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="operations a byte of operands and result",
        ylabel="TFLOP/s",
        title=rows[0]["device"].split(",")[0],
    )
    axes.legend(fontsize=8)
    _save(figure, file)


def draw(
    rows: Sequence[dict[str, Any]], folder: pathlib.Path, headlines: Sequence[str] = ()
) -> None:
    """The charts, where the records have what they show; headlines: names of README's rows."""
    chosen = [row for row in rows if row["name"] in headlines]
    for name, some in (("speedups", rows), ("headlines", chosen)):
        if speedups(some):
            draw_speedups(some, folder / f"{name}.png")
    if points(rows):
        draw_roofline(rows, folder / "roofline.png")


RATIO = "Time of the best peer as a multiple of cudamath's"
TITLES = {
    "speedups": RATIO,
    "headlines": RATIO,
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
