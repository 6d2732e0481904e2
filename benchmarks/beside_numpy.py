"""What the CPU's rows say of cudamath beside NumPy, which takes part in each of them twice.

Most elementwise rows spend all but a microsecond in the same loops of NumPy, so they come out as equal, more or less: by
how much more or less a row can differ without meaning anything is what NumPy shows beside itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.rows import AGAIN


def section(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A paragraph and the rows in which cudamath is slower than NumPy by more than NumPy ever is than itself; empty where no
    row has NumPy twice."""
    ours, itself = {}, []
    for row in rows:
        times = {name: result["median"] for name, result in row["results"].items()}
        if AGAIN in times and "cudamath" in times:
            ours[row["title"]] = statistics.geometric_mean((times["numpy"], times[AGAIN])) / times["cudamath"]
            itself.append(times["numpy"] / times[AGAIN])
    if not ours:
        return []
    noise = max(max(ratio, 1 / ratio) for ratio in itself)
    slower = sorted((ratio, title) for title, ratio in ours.items() if ratio * noise < 1)
    lines = ["", "**Beside NumPy, from 100,000 numbers on**", "",
             f"{len(ours)} rows, in each of which NumPy takes part twice. Its time over ours: geometric mean "
             f"{statistics.geometric_mean(ours.values()):.2f}, at the least {min(ours.values()):.2f}, less than 1 in "
             f"{sum(ratio < 1 for ratio in ours.values())}. Its time over its own: {min(itself):.2f} to {max(itself):.2f}. "
             f"Rows in which we are slower by more than NumPy is than itself: {len(slower)}."]
    return lines + [f"- {title}: {ratio:.2f}" for ratio, title in slower]
