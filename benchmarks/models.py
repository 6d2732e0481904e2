"""README's tables of training and generating with whole models, from the records of train_gpt2.py,
decode_gpt2.py and train_resnet.py."""

from __future__ import annotations

import json
import pathlib
from typing import Any


def section(folder: pathlib.Path) -> list[str]:
    """The Markdown of the records in a folder; empty where there are none."""
    lines: list[str] = []
    for name, said in (
        ("gpt2", gpt2),
        ("gpt2_losses", losses),
        ("gpt2_decode", decode),
        ("resnet", resnet),
    ):
        file = folder / f"{name}.json"
        lines += ["", *said(json.loads(file.read_text()))] if file.is_file() else []
    return lines


def fastest(record: dict[str, Any], who: str, rate: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(our row, the peers' row) of the highest rate each; `who` and `rate` are keys of a row."""
    ours = [row for row in record["rows"] if row[who] == "cudamath"]
    peers = [row for row in record["rows"] if row[who] != "cudamath"]
    return max(ours, key=lambda row: row[rate]), max(peers, key=lambda row: row[rate])


def batches(record: dict[str, Any], ours: dict[str, Any], peer: dict[str, Any]) -> str:
    """Which batch sizes are compared: the only one measured, or the fastest of several."""
    if len({row["batch"] for row in record["rows"]}) == 1:
        return f"batches of {ours['batch']}"
    return f"each library at the fastest batch size measured ({ours['batch']} and {peer['batch']})"


def highlights(folder: pathlib.Path) -> list[str]:
    """A line for each model whose training was measured: the rate, and the speedup over the fastest
    peer."""
    lines = []
    for name, who, unit in (("gpt2", "peer", "tokens"), ("resnet", "name", "images")):
        file = folder / f"{name}.json"
        if file.is_file():
            record = json.loads(file.read_text())
            ours, peer = (
                row | {"rate": row[f"{unit}_per_second"]}
                for row in fastest(record, who, f"{unit}_per_second")
            )
            title = f"GPT-2 ({record['size']})" if name == "gpt2" else record["model"]
            lines.append(
                f"- **Training {title}** in bfloat16, {batches(record, ours, peer)}: "
                f"{ours['rate'] / peer['rate']:.2f}; {ours['rate']:,.0f} {unit} per second vs "
                f"{peer['rate']:,.0f} of {peer[who]}."
            )
    return lines


def gpt2(record: dict[str, Any]) -> list[str]:
    """A row for each batch size: tokens/s and memory of each library, and our speedup over the
    fastest peer."""
    rows: dict[int, dict[str, dict[str, Any]]] = {}
    for row in record["rows"]:
        rows.setdefault(row["batch"], {})[row["peer"]] = row
    names = list(dict.fromkeys(row["peer"] for row in record["rows"]))
    length = record["rows"][0]["length"]
    ours, other = fastest(record, "peer", "tokens_per_second")
    titles = [
        *(f"{name}, tokens/s" for name in names),
        *(f"{name}, peak (reserved)" for name in names),
    ]
    lines = [
        f"**Training GPT-2 ({record['size']}), {length:,} tokens per sequence, bfloat16 with "
        "float32 master weights, "
        f"AdamW**, {batches(record, ours, other)}: {ours['tokens_per_second']:,.0f} tokens/s, "
        f"{other['peer']} "
        f"{other['tokens_per_second']:,.0f}: speedup "
        f"{ours['tokens_per_second'] / other['tokens_per_second']:.2f}. Model FLOPs utilisation "
        f"{ours['mfu']:.0%} of "
        f"{record['nominal'] / 1e12:.0f} TFLOP/s. Commit {record['commit']}, {record['date']}; "
        f"torch {record['versions'].get('torch')}.",
        "",
        f"| sequences | {' | '.join(titles)} |",
        "|---:|" + "---:|" * len(titles),
    ]
    for batch, results in sorted(rows.items()):
        rate = [f"{results[n]['tokens_per_second']:,.0f}" if n in results else "" for n in names]
        peak = [
            memory(results[n]["peak_bytes"], results[n].get("reserved_bytes"))
            if n in results
            else ""
            for n in names
        ]
        lines.append(f"| {batch} | {' | '.join(rate)} | {' | '.join(peak)} |")
    return lines


def memory(peak: int, reserved: int | None) -> str:
    """Bytes in use at the peak and, where it was measured, held from the driver.

    >>> memory(8_549_203_456, None), memory(8_549_203_456, 9_000_000_000)
    ('8.5 GB', '8.5 GB (9.0)')
    """
    return f"{peak / 1e9:.1f} GB" + (f" ({reserved / 1e9:.1f})" if reserved else "")


def losses(record: dict[str, Any]) -> list[str]:
    """How close the losses are to PyTorch's."""
    said = [
        "Training losses against PyTorch's, from the same initial weights on the same sequences "
        f"({record['size']}, "
        f"{record['batch']} x {record['length']} bytes of tinyshakespeare per step, learning rate "
        f"{record['learning_rate']:g} after {record['warmup']} steps of warm-up), relative "
        "differences:"
    ]
    curves = {
        dtype: record[dtype] for dtype in ("float32", "bfloat16") if "good" in record.get(dtype, {})
    }
    for dtype, of in curves.items():
        means = (
            f", means of {record['averaged']} within {of['means']:.2%}"
            if dtype == "bfloat16"
            else (f", the first 20 within {of['first_20']:.0e}")
        )
        said.append(
            f"{dtype}, {of['steps']} steps: within {of['largest']:.1g}{means} (PyTorch against "
            f"itself, with one unit in the last place added to its weights: {of['noise']:.1g}); a "
            "second run of ours, "
            "stopped half-way and resumed, has "
            f"{'bitwise equal losses' if of['same_bits'] else 'OTHER BITS'}."
        )
    return [" ".join([*said, f"Commit {record['commit']}, {record['date']}."])]


def decode(record: dict[str, Any]) -> list[str]:
    """Tokens/s and loss with weights of each type."""
    base = record["rows"][0]
    lines = [
        f"**Generating with GPT-2 ({record['size']})**, batch size 1, bfloat16 activations, after "
        f"{record['steps']} "
        f"training steps on bytes. Commit {record['commit']}, {record['date']}.",
        "",
        "| weights | MB | tokens/s | speedup | loss | change |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    return lines + [
        f"| {row['weights']} | {row['bytes'] / 1e6:.0f} | {row['tokens_per_second']:,.0f} | "
        f"{row['tokens_per_second'] / base['tokens_per_second']:.2f} | {row['loss']:.4f} | "
        f"{row['change']:+.3%} |"
        for row in record["rows"]
    ]


def resnet(record: dict[str, Any]) -> list[str]:
    """Images/s and peak memory of each library at each batch size."""
    rows: dict[int, dict[str, dict[str, Any]]] = {}
    for row in record["rows"]:
        rows.setdefault(row["batch"], {})[row["name"]] = row
    names = list(dict.fromkeys(row["name"] for row in record["rows"]))
    titles = [*(f"{name}, images/s" for name in names), *(f"{name}, peak" for name in names)]
    size = record["rows"][0]["size"]
    lines = [
        f"**Training {record['model']}**, {size} x {size} random images, channels last, bfloat16 "
        "with float32 master "
        f"weights, SGD with momentum. Commit {record['commit']}, {record['date']}; torch "
        f"{record['versions'].get('torch')}.",
        "",
        f"| images | {' | '.join(titles)} |",
        "|---:|" + "---:|" * len(titles),
    ]
    for batch, results in sorted(rows.items()):
        rate = [f"{results[n]['images_per_second']:,.0f}" if n in results else "" for n in names]
        peak = [memory(results[n]["peak"], None) if n in results else "" for n in names]
        lines.append(f"| {batch} | {' | '.join(rate)} | {' | '.join(peak)} |")
    return lines
