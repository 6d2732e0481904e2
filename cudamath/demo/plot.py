"""One picture of a demo run: how the training went, what the network says, how long operations
take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .compare import Comparison
from .train import Digits, Result

SAMPLES = 32


def draw(digits: Digits, result: Result, comparisons: Sequence[Comparison], device: str) -> Any:
    """A matplotlib Figure of loss and accuracy, sample predictions, and a bar chart of times."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(15, 5), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, width_ratios=[1, 1, 1.1])

    axes = left.subplots()
    axes.plot(result.losses, color="tab:blue", linewidth=0.8)
    axes.set(xlabel="step", yscale="log", title=f"training on {device}: {result.seconds:.1f} s")
    axes.set_ylabel("loss", color="tab:blue")
    accuracy = axes.twinx()
    steps = len(result.losses) // len(result.accuracies)
    ends = steps * (1 + np.arange(len(result.accuracies)))
    accuracy.plot(ends, 100 * np.array(result.accuracies), color="tab:orange", marker=".")
    accuracy.set_ylabel(
        f"held-out accuracy, % (last: {100 * result.accuracy:.2f})", color="tab:orange"
    )

    # All mistakes first (there are few), then the first images that were right.
    right_or_wrong = result.predictions == digits.held_out_labels
    chosen = np.argsort(right_or_wrong, kind="stable")[:SAMPLES]
    middle.suptitle("held-out digits and answers (mistakes in red)")
    for cell, index in zip(middle.subplots(4, SAMPLES // 4).flat, chosen, strict=True):
        cell.imshow(digits.held_out_images[index, 0], cmap="gray_r")
        cell.set_title(
            str(result.predictions[index]), color="black" if right_or_wrong[index] else "red"
        )
        cell.set_axis_off()

    axes = right.subplots()
    rows = np.arange(len(comparisons))
    axes.barh(
        rows - 0.2, [1e3 * c.time.median for c in comparisons], 0.4, label=f"cudamath on {device}"
    )
    axes.barh(
        rows + 0.2,
        [1e3 * c.numpy_time.median for c in comparisons],
        0.4,
        label="NumPy",
        color="lightgray",
    )
    axes.set_yticks(rows, [c.name for c in comparisons])
    axes.set(xscale="log", xlabel="milliseconds a call (median)", title="time beside NumPy")
    axes.invert_yaxis()
    axes.legend()
    return figure


def save(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write the picture as PNG."""
    figure.savefig(path, dpi=100)
