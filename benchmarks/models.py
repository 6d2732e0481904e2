"""README's tables of whole models in training, from the records of train_gpt2.py."""

from __future__ import annotations

import json
import pathlib
from typing import Any


def section(folder: pathlib.Path) -> list[str]:
    """The Markdown of the records in a folder; empty where there are none."""
    file = folder / "gpt2.json"
    return ["", *gpt2(json.loads(file.read_text()))] if file.is_file() else []


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
    titles = [*(f"{name}, tokens/s" for name in names), *(f"{name}, peak" for name in names)]
    lines = [f"**Training GPT-2 ({record['size']}), {length:,} tokens a sequence, bfloat16 with float32 weights behind, "
             f"AdamW**: {ours['tokens_per_second']:,.0f} tokens a second at the batch size best for us ({ours['batch']}), "
             f"{other['tokens_per_second']:,.0f} at the one best for {other['peer']} ({other['batch']}): "
             f"{ours['tokens_per_second'] / other['tokens_per_second']:.2f}. MFU {ours['mfu']:.0%} of "
             f"{record['nominal'] / 1e12:.0f} TFLOP/s. Commit {record['commit']}, {record['date']}; "
             f"torch {record['versions'].get('torch')}.", "",
             f"| sequences | {' | '.join(titles)} |", "|---:|" + "---:|" * len(titles)]
    for batch, found in sorted(rows.items()):
        rate = [f"{found[n]['tokens_per_second']:,.0f}" if n in found else "" for n in names]
        peak = [f"{found[n]['peak_bytes'] / 1e9:.1f} GB" if n in found else "" for n in names]
        lines.append(f"| {batch} | {' | '.join(rate)} | {' | '.join(peak)} |")
    return lines
