"""README's tables of whole models in training, and writing, from the records of train_gpt2.py, decode_gpt2.py and
train_resnet.py."""

from __future__ import annotations

import json
import pathlib
from typing import Any


def section(folder: pathlib.Path) -> list[str]:
    """The Markdown of the records in a folder; empty where there are none."""
    lines: list[str] = []
    for name, said in (("gpt2", gpt2), ("gpt2_losses", losses), ("gpt2_decode", decode), ("resnet", resnet)):
        file = folder / f"{name}.json"
        lines += ["", *said(json.loads(file.read_text()))] if file.is_file() else []
    return lines


def gpt2(record: dict[str, Any]) -> list[str]:
    """A row for each batch size: tokens a second and memory of everybody, and ours as a multiple of the best other's."""
    rows: dict[int, dict[str, dict[str, Any]]] = {}
    for row in record["rows"]:
        rows.setdefault(row["batch"], {})[row["peer"]] = row
    names = list(dict.fromkeys(row["peer"] for row in record["rows"]))
    length = record["rows"][0]["length"]
    best = {name: max((row for row in record["rows"] if row["peer"] == name), key=lambda r: r["tokens_per_second"])
            for name in names}
    ours, others = best["cudamath"], [row for name, row in best.items() if name != "cudamath"]
    other = max(others, key=lambda r: r["tokens_per_second"])
    titles = [*(f"{name}, tokens/s" for name in names), *(f"{name}, peak (reserved)" for name in names)]
    lines = [f"**Training GPT-2 ({record['size']}), {length:,} tokens a sequence, bfloat16 with float32 weights behind, "
             f"AdamW**: {ours['tokens_per_second']:,.0f} tokens a second at the batch size best for us ({ours['batch']}), "
             f"{other['tokens_per_second']:,.0f} at the one best for {other['peer']} ({other['batch']}): "
             f"{ours['tokens_per_second'] / other['tokens_per_second']:.2f}. MFU {ours['mfu']:.0%} of "
             f"{record['nominal'] / 1e12:.0f} TFLOP/s. Commit {record['commit']}, {record['date']}; "
             f"torch {record['versions'].get('torch')}.", "",
             f"| sequences | {' | '.join(titles)} |", "|---:|" + "---:|" * len(titles)]
    for batch, found in sorted(rows.items()):
        rate = [f"{found[n]['tokens_per_second']:,.0f}" if n in found else "" for n in names]
        peak = [memory(found[n]["peak_bytes"], found[n].get("reserved_bytes")) if n in found else "" for n in names]
        lines.append(f"| {batch} | {' | '.join(rate)} | {' | '.join(peak)} |")
    return lines


def memory(peak: int, reserved: int | None) -> str:
    """Bytes in use at the peak and, where it was measured, held from the driver.

    >>> memory(8_549_203_456, None), memory(8_549_203_456, 9_000_000_000)
    ('8.5 GB', '8.5 GB (9.0)')
    """
    return f"{peak / 1e9:.1f} GB" + (f" ({reserved / 1e9:.1f})" if reserved else "")


def losses(record: dict[str, Any]) -> list[str]:
    """How near the losses are to PyTorch's."""
    said = [f"Losses from the same weights on the same sequences as PyTorch's ({record['size']}, {record['batch']} x "
            f"{record['length']} bytes of tinyshakespeare a step, learning rate {record['learning_rate']:g} after "
            f"{record['warmup']} steps of warm-up), relative differences:"]
    found = {dtype: record[dtype] for dtype in ("float32", "bfloat16") if "good" in record.get(dtype, {})}
    for dtype, of in found.items():
        means = f", means of {record['averaged']} within {of['means']:.2%}" if dtype == "bfloat16" else (
            f", the first 20 within {of['first_20']:.0e}")
        said.append(f"{dtype}, {of['steps']} steps: within {of['largest']:.1g}{means} (PyTorch's own, from weights off by one "
                    f"last bit: {of['noise']:.1g}); a second run of ours, stopped half-way and resumed, has "
                    f"{'the same losses bit for bit' if of['same_bits'] else 'OTHER BITS'}.")
    return [" ".join([*said, f"Commit {record['commit']}, {record['date']}."])]


def decode(record: dict[str, Any]) -> list[str]:
    """Tokens a second and losses of each kind of weights."""
    base = record["rows"][0]
    lines = [f"**GPT-2 ({record['size']}) writing** for one reader, activations in bfloat16, trained for {record['steps']} "
             f"steps on bytes first. Commit {record['commit']}, {record['date']}.", "",
             "| weights | MB | tokens/s | times as fast | loss | change |", "|---|---:|---:|---:|---:|---:|"]
    return lines + [f"| {row['weights']} | {row['bytes'] / 1e6:.0f} | {row['tokens_per_second']:,.0f} | "
                    f"{row['tokens_per_second'] / base['tokens_per_second']:.2f} | {row['loss']:.4f} | {row['change']:+.3%} |"
                    for row in record["rows"]]


def resnet(record: dict[str, Any]) -> list[str]:
    """Images a second and memory of everybody at each batch size."""
    rows: dict[int, dict[str, dict[str, Any]]] = {}
    for row in record["rows"]:
        rows.setdefault(row["batch"], {})[row["name"]] = row
    names = list(dict.fromkeys(row["name"] for row in record["rows"]))
    titles = [*(f"{name}, images/s" for name in names), *(f"{name}, peak" for name in names)]
    size = record["rows"][0]["size"]
    lines = [f"**Training {record['model']}**, {size} x {size} random images, channels last, bfloat16 with float32 weights "
             f"behind, SGD with momentum. Commit {record['commit']}, {record['date']}; torch "
             f"{record['versions'].get('torch')}.", "", f"| images | {' | '.join(titles)} |",
             "|---:|" + "---:|" * len(titles)]
    for batch, found in sorted(rows.items()):
        rate = [f"{found[n]['images_per_second']:,.0f}" if n in found else "" for n in names]
        peak = [memory(found[n]["peak"], None) if n in found else "" for n in names]
        lines.append(f"| {batch} | {' | '.join(rate)} | {' | '.join(peak)} |")
    return lines
