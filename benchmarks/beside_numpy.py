"""The CPU rows beside NumPy, which is measured twice in each of them.

Most elementwise rows spend all but a microsecond in the same NumPy loops, so their ratios are close
to 1. The ratio of NumPy's two measurements shows which deviations from 1 are significant.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.rows import AGAIN


def section(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A paragraph, and the rows in which cudamath is slower than NumPy by more than the noise;
    empty where no row has NumPy twice."""
    ours, itself = {}, []
    for row in rows:
        times = {name: result["median"] for name, result in row["results"].items()}
        if AGAIN in times and "cudamath" in times:
            ours[row["title"]] = (
                statistics.geometric_mean((times["numpy"], times[AGAIN])) / times["cudamath"]
            )
            itself.append(times["numpy"] / times[AGAIN])
    if not ours:
        return []
    noise = max(max(ratio, 1 / ratio) for ratio in itself)
    slower = sorted((ratio, title) for title, ratio in ours.items() if ratio * noise < 1)
    lines = [
        "",
        "**Beside NumPy, arrays of 100,000 elements or more**",
        "",
        f"{len(ours)} rows, each with NumPy measured twice. Speedup over NumPy: geometric mean "
        f"{statistics.geometric_mean(ours.values()):.2f}, worst {min(ours.values()):.2f}, below 1 "
        "in "
        f"{sum(ratio < 1 for ratio in ours.values())} rows. NumPy against itself: "
        f"{min(itself):.2f} to "
        f"{max(itself):.2f}, so a difference of up to {noise - 1:.0%} is noise. Rows slower than "
        f"that: {len(slower)}.",
    ]
    return lines + [f"- {title}: {ratio:.2f}" for ratio, title in slower]
