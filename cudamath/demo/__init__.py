"""The demo: operations beside NumPy, then a small network trained on real images. `python -m
cudamath demo`.

`compare.py` has the operations, `train.py` the training loop, `plot.py` the picture. The network,
to read and to change, is `cudamath/models/cnn.py`.
"""

from __future__ import annotations

import dataclasses
import json as json_module
import os
import pathlib
from typing import TYPE_CHECKING

import cudamath as cm
from cudamath.info import device_sentence, versions
from cudamath.models import cnn
from cudamath.runtime import kernel_launch

from ..preflight import require_packages, require_writable_file, require_writable_folder
from ..runtime import cubin_cache
from . import compare, plot, train

if TYPE_CHECKING:
    from rich.console import Console

ACCURACY = 0.98  # what the full training has to reach on the held-out images

__all__ = ["run"]


def run(
    *,
    device: str | None = None,
    epochs: int = train.EPOCHS,
    out: str | os.PathLike[str] = "demo-output",
    json: str | os.PathLike[str] | None = None,
) -> bool:
    """Run the demo and print what it finds.

    Args:
        device: "cpu", "cuda", "cuda:1", ...; None: the default device.
        epochs: passes over the training images.
        out: folder for the picture, made if need be.
        json: file for the figures, if wanted.

    Returns:
        True if every operation was within tolerance of float64 and, after the full training (20
        epochs or more), the network classified at least 98 % of the held-out images.

    Raises:
        DeviceError: there is no such device.
        ValueError: epochs is less than 1.
        ImportError: matplotlib or scikit-learn is missing (`pip install 'cudamath[demo]'`).
    """
    with cm.device(cm.default_device() if device is None else device):
        return _run(epochs, pathlib.Path(out), json)


def _run(epochs: int, out: pathlib.Path, json: str | os.PathLike[str] | None) -> bool:
    """`run` on the default device: what is missing or wrong is said first, then comparison,
    training, picture, figures."""
    from rich.console import Console

    if epochs < 1:
        raise ValueError(f"demo: epochs must be at least 1, got {epochs}")
    require_packages("demo", "demo", "matplotlib", "sklearn")
    require_writable_file("demo", json)
    require_writable_folder("demo", out)
    digits = train.load()
    console = Console(highlight=False)
    console.print(f"Device  {device_sentence()}", markup=False, soft_wrap=True)
    comparisons = _compare(console)
    result = _train(console, digits, epochs)
    console.print(
        f"Kernels  {cubin_cache.statistics['compiled']} compiled, "
        f"{cubin_cache.statistics['loaded_from_disk']} loaded from "
        f"{cubin_cache.cache_directory()}",
        markup=False,
        soft_wrap=True,
    )

    picture = out / "demo.png"
    plot.save(plot.draw(digits, result, comparisons, str(cm.default_device())), picture)
    console.print(f"Picture  {picture}", markup=False, soft_wrap=True)
    if json is not None:
        record = {
            "device": device_sentence(),
            "versions": versions(),
            "operations": [dataclasses.asdict(comparison) for comparison in comparisons],
            "training": {
                "epochs": epochs,
                "seconds": result.seconds,
                "losses": result.losses,
                "accuracies": result.accuracies,
                "accuracy": result.accuracy,
            },
            "kernels": dict(cubin_cache.statistics),
        }
        pathlib.Path(json).write_text(json_module.dumps(record, indent=1) + "\n")
    trained = epochs < train.EPOCHS or result.accuracy >= ACCURACY
    return trained and all(comparison.passed for comparison in comparisons)


def _compare(console: Console) -> list[compare.Comparison]:
    """Run every case beside NumPy and print the table of errors and times."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title="Operations, float32: largest error against float64, and time, beside NumPy",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for heading in ("operation", "arguments"):
        table.add_column(heading, no_wrap=True)
    for heading in ("error", "NumPy", "ms", "NumPy", "faster"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    comparisons = []
    with console.status("comparing with NumPy"):
        for case in compare.cases():
            comparison = compare.compare(case)
            comparisons.append(comparison)
            time, numpy_time = comparison.time.median, comparison.numpy_time.median
            table.add_row(
                comparison.name,
                comparison.shapes,
                f"{comparison.error:.0e}",
                f"{comparison.numpy_error:.0e}",
                f"{1e3 * time:.2f}",
                f"{1e3 * numpy_time:.2f}",
                f"{numpy_time / time:.1f}x",
                "[green]ok" if comparison.passed else "[red]WRONG",
            )
    console.print(table)
    return comparisons


def _train(console: Console, digits: train.Digits, epochs: int) -> train.Result:
    """Train the network with a progress bar and print the held-out accuracy."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console.print(
        f"Training  {len(digits.images)} images of digits, {len(digits.held_out_images)} held out, "
        f"{epochs} epochs; the network is in {pathlib.Path(cnn.__file__)}",
        markup=False,
        soft_wrap=True,
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("first step", total=epochs * train.steps_per_epoch(digits))
        result = train.train(
            digits,
            epochs=epochs,
            after_step=lambda: progress.advance(task),
            after_epoch=lambda loss, accuracy: progress.update(
                task, description=f"loss {loss:.4f}, held-out accuracy {accuracy:.2%}"
            ),
        )
    mistakes = round((1 - result.accuracy) * len(digits.held_out_labels))
    console.print(
        f"Held-out accuracy  {result.accuracy:.2%} ({mistakes} of {len(digits.held_out_labels)} "
        "wrong), "
        f"after {result.seconds:.1f} s of training",
        style="bold green" if result.accuracy >= ACCURACY else "bold red",
    )
    return result
