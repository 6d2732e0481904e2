"""Writes the figures of README, of docs/benchmarks.md and of the headers of kernel files from
benchmarks/results/: `python -m benchmarks.report`.

README gets a few figures and a summary of compatibility.py's page, docs/benchmarks.md a summary of
each folder of records, between two markers each. Ratios are speedups everywhere: above 1, cudamath
is faster. The folder gets a page with all of its records, and kernel files
get the tables of headers.py. With --check nothing is written, and the exit status says whether
everything is up to date. Without records there is no table. Records that lack functions or rows are
listed (outdated.py).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks import (
    beside_numpy,
    charts,
    compatibility,
    distributed,
    headers,
    headlines,
    latency,
    limits,
    models,
    numpy_programs,
    random_cases,
    rows_grid,
)
from benchmarks import families as beside_cupy
from benchmarks.programs import page as programs
from benchmarks.rows import AGAIN

from .format import WRITTEN, duration

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
START, END = "<!-- measured: start -->", "<!-- measured: end -->"
HIGHLIGHTS = "<!-- highlights: start -->", "<!-- highlights: end -->"
SEVERAL = ROOT / "docs" / "guide" / "several-gpus.md"
COMPATIBILITY = "<!-- compatibility: start -->", "<!-- compatibility: end -->"
KINDS = {
    "host": "Host time per call (public call to return, output allocated), float32",
    "device": "Time on the GPU, float32",
    "cpu": "Time on the CPU, float32",
}
#: Families of rows by how their names begin; the last takes the rest.
FAMILIES = {
    "matrix products, fused layers": ("matmul", "linear_"),
    "convolution": ("conv",),
    "attention": ("attention", "host_attention"),
    "linear algebra": (
        "inv_",
        "det_",
        "cholesky",
        "qr_",
        "eigh",
        "solve",
        "svd",
        "host_inv",
        "host_cholesky",
    ),
    "FFT": ("fft", "ifft", "rfft", "irfft", "host_fft", "host_rfft"),
    "sorting, scans, searching": (
        "sort_",
        "argsort",
        "cumsum",
        "searchsorted",
        "bincount",
        "histogram",
        "unique",
        "nonzero",
        "host_sort",
        "host_cumsum",
        "host_searchsorted",
    ),
    "random numbers": (
        "random_",
        "dropout",
        "host_uniform",
        "host_normal",
        "host_integers",
        "host_permutation",
        "host_dropout",
    ),
    "elementwise, reductions, normalisation, losses, pools, optimizers": ("",),
}
#: Rows that docs/benchmarks.md shows; all are on the folder's page.
HEADLINES = (
    "host_add",
    "host_sum",
    "host_softmax",
    "host_matmul",
    "add",
    "sum_all",
    "softmax",
    "layer_norm_gradients_768",
    "cross_entropy_bf16",
    "batch_norm_gradients",
    "max_pool2d",
    "adamw",
    "fuse_gelu",
    "matmul",
    "matmul_bfloat16_2048",
    "matmul_bfloat16_8192",
    "linear_gelu",
    "conv_bf16_large_forward",
    "conv_bf16_28_3x3_forward",
    "conv_bf16_28_3x3_input",
    "conv_bf16_28_3x3_weight",
    "attention_128_4096_causal",
    "attention_128_4096_causal_gradients",
    "attention_decode_64",
    "sort_float32",
    "cumsum_float32",
    "fft2",
    "random_normal_f4_26",
)
LIBRARIES = {
    "cudamath": "cudamath",
    "torch": "PyTorch",
    "cupy": "CuPy",
    "jax": "JAX",
    "numpy": "NumPy",
}


def records(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The benchmark rows recorded in a folder; those of headers (headers.py) apart."""
    file = folder / "rows.json"
    rows = json.loads(file.read_text()) if file.is_file() else []
    return [row for row in rows if not row["name"].startswith("versions_")]


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A Markdown table of rows of one kind: the libraries, and cudamath beside the best of the
    others."""
    names = [name for name in LIBRARIES if any(name in row["results"] for row in rows)]
    shared = any("of_ceiling" in row["results"]["cudamath"] for row in rows)
    heading = ["operation", *(LIBRARIES[name] for name in names), "speedup"]
    if shared:
        heading.append("of the ceiling")
    lines = ["| " + " | ".join(heading) + " |", "|---" + "|---:" * (len(heading) - 1) + "|"]
    for row in rows:
        results = row["results"]
        cells = [row["title"].replace("|", "\\|")]
        cells += [duration(results[name]["median"]) if name in results else "" for name in names]
        peers = [
            results[name]["median"] for name in names if name in results and name != "cudamath"
        ]
        cells.append(f"{min(peers) / results['cudamath']['median']:.2f}" if peers else "")
        if shared:
            share = results["cudamath"].get("of_ceiling")
            cells.append(f"{share:.0%}" if share is not None else "")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def kernels(rows: Iterable[dict[str, Any]]) -> list[str]:
    """A Markdown table of the kernels that were timed by name."""
    lines = []
    for row in rows:
        fastest = min(result["median"] for result in row["results"].values())
        for name, result in row["results"].items():
            if name not in (*LIBRARIES, AGAIN):
                lines.append(
                    f"| `{name}` | {row['title']} | {duration(result['median'])} "
                    f"| {fastest / result['median']:.2f} |"
                )
    head = ["| kernel | operation | time | speed, fastest in the row = 1 |", "|---|---|---:|---:|"]
    return head + lines if lines else []


def where(rows: Sequence[dict[str, Any]]) -> str:
    """The line under a heading: commits, dates and versions."""
    record, dates = rows[0], sorted({row["date"] for row in rows})
    commits = ", ".join(f"`{commit}`" for commit in dict.fromkeys(row["commit"] for row in rows))
    versions = ", ".join(
        f"{name} {version}"
        for name, version in record["versions"].items()
        if version and name in ("numpy", "torch", "cupy", "cupy-cuda13x", "jax", "numba-cuda")
    )
    return (
        f"Commit{'s' if ', ' in commits else ''} {commits}, "
        f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))}; {versions}."
    )


def speedups(rows: Sequence[dict[str, Any]]) -> dict[str, list[tuple[float, str]]]:
    """Family -> (best peer's time over ours, title) of each of its rows that has a peer."""
    ratios: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        peers = [
            result["median"]
            for name, result in row["results"].items()
            if name in LIBRARIES and name != "cudamath"
        ]
        if peers and "cudamath" in row["results"]:
            family = next(f for f, starts in FAMILIES.items() if row["name"].startswith(starts))
            ratios.setdefault(family, []).append(
                (min(peers) / row["results"]["cudamath"]["median"], row["title"])
            )
    return {family: ratios[family] for family in FAMILIES if family in ratios}


def mean(ratios: Iterable[tuple[float, str]]) -> float:
    """The geometric mean of a family's speedups."""
    return statistics.geometric_mean(ratio for ratio, _ in ratios)


def families(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A Markdown table: the speedup over the best peer in each family, in the geometric mean and in
    the worst row."""
    by_family = speedups(rows)
    lines = [
        "| family | rows | speedup over the best peer, geometric mean | worst row |",
        "|---|---:|---:|---|",
    ]
    for family, ratios in by_family.items():
        least, title = min(ratios)
        title = title.replace("|", "\\|")
        lines.append(f"| {family} | {len(ratios)} | {mean(ratios):.2f} | {least:.2f}: {title} |")
    return lines if by_family else []


def heading(rows: Sequence[dict[str, Any]]) -> str:
    """The line under the device's name."""
    return (
        f"{where(rows)} Ceilings, measured in each run: copy {ceilings(rows, 'B', 1e9, ',.0f')} "
        "GB/s (read and written), "
        f"float32 product {ceilings(rows, 'FLOP', 1e12, '.3g')} TFLOP/s."
    )


def ceilings(rows: Sequence[dict[str, Any]], unit: str, scale: float, form: str) -> str:
    """A ceiling in the runs that rows are from: "4,229 to 4,253", or the one number that it was in
    all of them."""
    values = [row["ceilings"][unit] / scale for row in rows]
    return " to ".join(dict.fromkeys(format(each, form) for each in (min(values), max(values))))


def tests_and_demo(folder: pathlib.Path) -> list[str]:
    """What tests and demo did on that machine."""
    lines = []
    for path in sorted(folder.glob("tests*.json")):
        tests = json.loads(path.read_text())
        lines += [
            "",
            f"Tests marked `{tests['marks']}` on {tests['devices']} GPU(s) ({tests['device']}): "
            f"{tests['passed']} passed, {tests['failed'] + tests['error']} failed, "
            f"{tests['skipped']} skipped; "
            f"commit `{tests['commit']}`, {tests['date']}.",
        ]
    demo = folder / "demo.json"
    if demo.is_file():
        ran = json.loads(demo.read_text())
        training = ran["training"]
        lines += [
            "",
            f"The demo there: {training['accuracy']:.2%} held-out accuracy after "
            f"{training['epochs']} "
            f"epochs, {training['seconds']:.1f} s.",
        ]
    return lines


def tables(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A table for each kind of row, and the kernels by name."""
    lines: list[str] = []
    for kind, title in KINDS.items():
        chosen = [
            row for row in rows if row["kind"] == kind and not row["name"].startswith("grid_")
        ]
        if chosen:
            lines += ["", f"**{title}**", "", *table(chosen)]
            lines += ["", *kernels(chosen)] if kernels(chosen) else []
    return lines + rows_grid.section(rows)


def summary(folder: pathlib.Path) -> list[str]:
    """What docs/benchmarks.md says of a folder."""
    rows = records(folder)
    lines: list[str] = []
    if rows:
        lines += [f"## {rows[0]['device']}", "", heading(rows), "", *families(rows)]
        lines += tables(
            [row for row in rows if row["name"] in HEADLINES or row["name"].startswith("grid_")]
        )
        lines += [
            "",
            f"All {len(rows)} rows: [{folder.name}](benchmarks/results/{folder.name}/README.md).",
        ]
    lines += (
        latency.section(folder, duration, short=True)
        + beside_cupy.section(folder)
        + random_cases.section(folder)
        + models.section(folder)
        + programs.section(folder)
    )
    lines += beside_numpy.section(rows)
    return (
        lines
        + charts.section(folder, ("headlines", "speedups", "roofline"))
        + tests_and_demo(folder)
    )


def page(folder: pathlib.Path) -> str:
    """The folder's own page: all of it."""
    rows = records(folder)
    if not rows:
        return numpy_programs.page(folder)
    lines = [
        f"# {rows[0]['device']}",
        "",
        WRITTEN,
        "",
        heading(rows),
        "",
        *families(rows),
        *limits.section(rows, tuple(LIBRARIES), duration),
        *limits.targets_section(rows, tuple(LIBRARIES), duration),
        *tables(rows),
        *charts.section(folder),
        *latency.section(folder, duration),
        *models.section(folder),
        *headlines.section(folder, duration),
        *random_cases.section(folder),
        *beside_cupy.section(folder),
        *beside_numpy.section(rows),
        *numpy_programs.section(folder),
        *programs.section(folder),
        *tests_and_demo(folder),
    ]
    return "\n".join(lines).replace(f"benchmarks/results/{folder.name}/", "") + "\n"


def folders(results: pathlib.Path) -> list[pathlib.Path]:
    """Of records, those of GPUs first."""
    paths = sorted(path for path in results.iterdir() if path.is_dir()) if results.is_dir() else []
    return sorted(paths, key=lambda folder: all(row["kind"] != "device" for row in records(folder)))


def markdown(results: pathlib.Path) -> str:
    """Everything between the markers of docs/benchmarks.md."""
    blocks = ["\n".join(summary(folder)).strip() for folder in folders(results)]
    text = "\n\n".join(block for block in blocks if block)
    text = re.sub(r"\]\(benchmarks/results/([\w-]+)/README\.md\)", r"](benchmarks/\1.md)", text)
    return text.replace("](benchmarks/results/", "](../benchmarks/results/")


def highlights(results: pathlib.Path) -> str:
    """What README says first: the speedups in the records of the first GPU, in a few lines."""
    for folder in folders(results):
        rows = records(folder)
        if any(row["kind"] == "device" for row in rows):
            by_family = speedups(rows)
            behind = len(limits.behind(rows, tuple(LIBRARIES)))
            peers = ", ".join(
                label
                for name, label in LIBRARIES.items()
                if name != "cudamath" and any(name in row["results"] for row in rows)
            )
            count = sum(map(len, by_family.values()))
            lines = [
                f"Speedup on {rows[0]['device'].split(',')[0]} vs the fastest of the libraries "
                f"measured beside it ({peers}); above 1, cudamath is faster.",
                "",
                f"- **{count} operations**: {mean(sum(by_family.values(), [])):.2f}, the geometric "
                f"mean of all; a peer is more than {1 - limits.NOISE:.0%} faster in {behind}.",
            ]
            more = (models, latency)
            lines += [line for each in more for line in each.highlights(folder)]
            lines += [line for each in folders(results) for line in random_cases.highlights(each)]
            return "\n".join(lines)
    return ""


def replaced(readme: str, text: str, markers: tuple[str, str] = (START, END)) -> str:
    """A page, README say, with the text between two markers replaced."""
    start, end = markers
    before, opening, rest = readme.partition(start)
    _, ended, after = rest.partition(end)
    if not opening or not ended:
        raise ValueError(f"report: the page has no {start} ... {end}")
    return before + start + "\n" + (text + "\n" if text else "") + end + after


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite the pages, or check them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a page is not up to date"
    )
    arguments = parser.parse_args(argv)
    results = ROOT / "benchmarks" / "results"
    with contextlib.suppress(ImportError):  # it reads the tests' records, which want Hypothesis
        from benchmarks import outdated

        for line in outdated.lines(results):
            print(line)
    if not arguments.check:
        for folder in folders(results):
            rows = records(folder)
            gpu = [row for row in rows if row["kind"] == "device"]
            charts.draw(rows, folder, HEADLINES, speedups(gpu))
            if (folder / "sweep.json").is_file():
                latency.sweep_chart(
                    json.loads((folder / "sweep.json").read_text()), folder / "sweep.png"
                )
    readme = ROOT / "README.md"
    texts = headers.rewritten(ROOT / "cudamath", results)
    texts[PAGE] = replaced(PAGE.read_text(encoding="utf-8"), markdown(results))
    names = json.loads(compatibility.RECORD.read_text(encoding="utf-8"))
    compared = replaced(
        readme.read_text(encoding="utf-8"), compatibility.highlight(names), COMPATIBILITY
    )
    together = sorted(results.glob("*/distributed.json"))
    tables = [distributed.table(json.loads(path.read_text())) for path in together]
    texts[SEVERAL] = replaced(SEVERAL.read_text(encoding="utf-8"), "\n\n".join(tables))
    texts[readme] = replaced(compared, highlights(results), HIGHLIGHTS)
    texts[compatibility.PAGE] = compatibility.page(names)
    texts |= {folder / "README.md": page(folder) for folder in folders(results) if page(folder)}
    changed = {
        path: text
        for path, text in texts.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }
    if arguments.check:
        for path in changed:
            print(
                f"not what the records say: {path.relative_to(ROOT)}; run python -m "
                "benchmarks.report"
            )
        return 1 if changed else 0
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
