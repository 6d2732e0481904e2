"""`cudamath train gpt2` and `cudamath sample gpt2`: a language model of the bytes of a text.

Training never loses its run: what it needs is looked at before it begins, Ctrl-C ends it after the
step in hand with a checkpoint, and a checkpoint that cannot be written (a full disk) ends nothing
while there is more to train; the last one then goes to the folder for temporary files.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import pathlib
import sys
import tempfile
import time
from typing import Any

import numpy as np

import cudamath as cm
from cudamath import ml

from ..preflight import (
    require_file,
    require_packages,
    require_writable_file,
    stop_requested,
)
from . import gpt2, sampling, training

__all__ = ["Text", "add_commands", "sample", "train"]

HELD_OUT = 0.1  # share of the text, its end, that is never trained on
EVALUATED = 8  # batches of it for an evaluation


class Text:
    """The bytes of a file as tokens: batches to train on, and some of its end to evaluate with, on
    the default device.

    Sequences begin an eighth of their length apart, so that a short text is seen from several
    places. ValueError for a text too short for one sequence of `length` in both parts, or for one
    batch.

    Attributes
    ----------
    training : cm.data.Batches
        Pairs of tokens and targets, int32 (batch, length), in random order, epoch after epoch:
        `training.steps(count)`.
    held_out : list of such pairs
        The same ones every time.
    """

    def __init__(self, path: str | pathlib.Path, batch: int, length: int, seed: int):
        data = np.fromfile(path, np.uint8)
        cut = round(len(data) * (1 - HELD_OUT))
        if len(data) - cut <= length:
            raise ValueError(
                f"train: {path} has {len(data)} bytes, too few for sequences of {length} and a "
                "held-out tenth"
            )
        seen = cm.data.tokens(data[:cut], length, step=max(1, length // 8))
        self.training = cm.data.batches(seen, batch, shuffle=True, seed=seed, drop_last=True)
        rest = cm.data.tokens(data[cut:], length)
        held_out = cm.data.batches(
            rest, min(batch, len(rest)), shuffle=True, seed=seed, drop_last=True, prefetch=0
        )
        self.held_out = list(held_out.steps(min(EVALUATED, len(held_out))))


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Add `train` and `sample` to the command line."""
    teach = commands.add_parser("train", help="train a byte-level language model on a text")
    teach.add_argument("model", choices=["gpt2"], help="which kind of model")
    teach.add_argument("--text", required=True, help="text file; its last tenth is held out")
    teach.add_argument("--size", default="tiny", choices=[*gpt2.SIZES], help="default: tiny")
    teach.add_argument(
        "--steps", type=int, default=1000, help="training steps in all (default: 1000)"
    )
    teach.add_argument("--batch", type=int, default=16, help="sequences per step (default: 16)")
    teach.add_argument(
        "--length", type=int, help="tokens per sequence (default: the model's context)"
    )
    teach.add_argument("--lr", type=float, default=1e-3, help="peak learning rate (default: 1e-3)")
    teach.add_argument(
        "--dropout", type=float, default=0.0, help="dropout probability (default: 0)"
    )
    teach.add_argument(
        "--dtype",
        choices=["bfloat16", "float32"],
        help="default: bfloat16 on a GPU, float32 on the CPU",
    )
    teach.add_argument(
        "--every",
        type=int,
        default=250,
        help="steps between evaluations and checkpoints (default: 250)",
    )
    teach.add_argument(
        "--out", default="gpt2.safetensors", help="checkpoint to write (default: gpt2.safetensors)"
    )
    teach.add_argument(
        "--resume", action="store_true", help="resume from the checkpoint named by --out"
    )
    teach.add_argument(
        "--overwrite", action="store_true", help="replace a checkpoint that lies at --out"
    )
    write = commands.add_parser("sample", help="generate text with a trained language model")
    write.add_argument("model", choices=["gpt2"], help="which kind of model")
    write.add_argument(
        "--checkpoint",
        default="gpt2.safetensors",
        help="written by train (default: gpt2.safetensors)",
    )
    write.add_argument("--prompt", default="\n", help="text to continue")
    write.add_argument("--count", type=int, default=200, help="bytes to generate (default: 200)")
    write.add_argument(
        "--temperature",
        type=float,
        default=0.8,
        help="0: always the most likely byte (default: 0.8)",
    )
    write.add_argument("--top-k", type=int, help="sample from the k most likely bytes")
    write.add_argument(
        "--top-p", type=float, help="sample from the most likely bytes up to this total probability"
    )
    for command in (teach, write):
        command.add_argument(
            "--device", help="cpu, cuda, cuda:1, ... (default: the first GPU, else the CPU)"
        )
        command.add_argument(
            "--seed", type=int, default=0, help="seed of the random numbers (default: 0)"
        )


def train(arguments: argparse.Namespace) -> int:
    """Train; print losses, write checkpoints."""
    for name in ("steps", "batch", "length", "every"):
        if (count := getattr(arguments, name)) is not None and count < 1:
            raise ValueError(f"train: {name} must be at least 1, got {count}")
    if not 0 <= arguments.dropout <= 1:
        raise ValueError(f"train: dropout must be in [0, 1], got {arguments.dropout}")
    if arguments.length is not None and arguments.length > (
        context := gpt2.SIZES[arguments.size].context
    ):
        raise ValueError(
            f"train: length must be at most {context}, the context of {arguments.size}, got "
            f"{arguments.length}"
        )
    if arguments.out.endswith(".npy"):
        raise ValueError(f"train: cannot write {arguments.out}: a checkpoint is a safetensors file")
    require_packages("train", "io", "safetensors")
    require_file("train", arguments.text)
    if arguments.resume:
        require_file("train", arguments.out)
    elif os.path.lexists(arguments.out) and not arguments.overwrite:
        raise FileExistsError(
            f"train: {arguments.out} exists; --resume goes on with it, --overwrite replaces it, "
            "--out names another file"
        )
    require_writable_file("train", arguments.out)
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with cm.device(arguments.device) if arguments.device else contextlib.nullcontext():
        config = gpt2.SIZES[arguments.size]
        params = gpt2.create(config, rng=cm.random.default_rng(arguments.seed))
        device = params["wte.weight"].device
        steps, dtype = (
            arguments.steps,
            arguments.dtype or ("float32" if device == "cpu" else "bfloat16"),
        )
        warmup = min(100, steps // 10)
        trainer = training.Trainer(
            gpt2.loss,
            params,
            config,
            dtype=dtype,
            dropout=arguments.dropout,
            seed=arguments.seed,
            schedule=ml.schedules.cosine(
                arguments.lr, steps=max(steps, warmup + 1), warmup=warmup, end=arguments.lr / 10
            ),
        )
        length = arguments.length or config.context
        text = Text(arguments.text, arguments.batch, length, arguments.seed)
        if arguments.resume:
            tree = trainer.load(arguments.out)
            if "data" not in tree:
                raise ValueError(
                    f"train: {arguments.out} does not say where in its text it stopped; it was "
                    "written otherwise"
                )
            text.training.state = tree["data"]
        begin = trainer.steps
        if begin >= steps:
            raise ValueError(
                f"train: {arguments.out} has seen {begin} steps already; ask for more than that "
                "with --steps"
            )
        console = Console(highlight=False)
        count = sum(p.size for name, p in params.items() if name != "wpe.weight")
        console.print(
            f"{arguments.size}: {count / 1e6:.1f} M parameters in {dtype} on {device}, steps "
            f"{begin} to {steps}"
        )
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[loss]}"),
        )
        checkpoint = _Checkpoint(
            console, trainer, text, arguments.out, config=dataclasses.asdict(config)
        )
        since, done, number = time.perf_counter(), begin, begin
        with (
            Progress(*columns, console=console) as progress,
            text.training,
            stop_requested() as stop,
        ):
            task = progress.add_task("training", total=steps, completed=begin, loss="")
            for number, (tokens, targets) in enumerate(
                text.training.steps(steps - begin), begin + 1
            ):
                loss, _ = trainer.step(tokens, targets)
                progress.advance(task)
                last = number == steps
                if number % 10 == 0 or last:  # reading the loss waits for the device
                    progress.update(task, loss=f"loss {float(loss):.3f}")
                if stop():
                    break
                if number % arguments.every == 0 or last:
                    rate = (
                        (number - done) * arguments.batch * length / (time.perf_counter() - since)
                    )
                    held_out = trainer.evaluate(text.held_out)
                    console.print(
                        f"step {number:6}  loss {float(loss):.4f}  held out {held_out:.4f}  "
                        f"{rate:,.0f} tokens/s"
                    )
                    if not last:
                        checkpoint.write()
                    since, done = time.perf_counter(), number
            written = checkpoint.write_last()
        if number < steps:
            print(
                f"cudamath: stopped after step {number} of {steps}; {written} holds it, and the "
                "same command with --resume goes on from there",
                file=sys.stderr,
            )
            return 130
        console.print(f"written: {written}", markup=False)
    return 0


class _Checkpoint:
    """Where a run of `train` is kept, on disk."""

    def __init__(self, console: Any, trainer: training.Trainer, text: Text, path: str, **more: Any):
        self.console, self.trainer, self.text = console, trainer, text
        self.path, self.more = path, more

    def _write(self, path: str) -> None:
        self.trainer.save(path, data=self.text.training.state, **self.more)

    def write(self) -> None:
        """The run so far. If it cannot be written, the one before remains, and the run goes on."""
        try:
            self._write(self.path)
        except OSError as error:
            self.console.print(
                f"no checkpoint of this step: {error}; training goes on and tries again",
                markup=False,
                style="red",
            )

    def write_last(self) -> str:
        """The end of the run; returns the path. Where it cannot be written, a folder for temporary
        files takes it."""
        try:
            self._write(self.path)
            return self.path
        except OSError as error:
            name = pathlib.Path(self.path).name
            other = os.path.join(tempfile.mkdtemp(prefix="cudamath-"), name)
            try:
                self._write(other)
            except OSError as second:
                raise OSError(
                    f"{error}; {second}; the run is lost but for an earlier checkpoint"
                ) from error
            print(
                f"cudamath: {error}; the checkpoint is in {other}: move it to {self.path}",
                file=sys.stderr,
            )
            return other


def _model(path: str) -> tuple[dict[str, cm.ndarray], gpt2.Config]:
    """Parameters and configuration from a checkpoint that `train` wrote. ValueError if it is none,
    or its parts do not fit."""
    tree = cm.load(path)
    try:
        params, config = tree["params"], gpt2.Config(**tree["config"])
        found = {name: x.shape for name, x in params.items()}
    except (AttributeError, LookupError, TypeError):
        raise ValueError(f"sample: {path} is no checkpoint of `cudamath train gpt2`") from None
    wanted = gpt2.shapes(config)
    for name in wanted | found:
        if found.get(name) != wanted.get(name):
            raise ValueError(
                f"sample: {path} does not fit {config}: {name} is {found.get(name, 'missing')}, "
                "wanted "
                f"{wanted.get(name, 'not at all')}"
            )
    return params, config


def sample(arguments: argparse.Namespace) -> int:
    """Print the prompt and what the model writes after it."""
    if arguments.count < 1:
        raise ValueError(f"sample: count must be at least 1, got {arguments.count}")
    if not arguments.prompt:
        raise ValueError("sample: the prompt must have at least one character")
    require_packages("sample", "io", "safetensors")
    require_file("sample", arguments.checkpoint)
    with cm.device(arguments.device) if arguments.device else contextlib.nullcontext():
        params, config = _model(arguments.checkpoint)
        if params["wte.weight"].device != "cpu":
            params = ml.amp.cast(params, "bfloat16")
        prompt = np.frombuffer(arguments.prompt.encode(), np.uint8)[None].astype(np.int64)
        tokens = sampling.generate(
            params,
            prompt,
            arguments.count,
            config,
            rng=cm.random.default_rng(arguments.seed),
            temperature=arguments.temperature,
            top_k=arguments.top_k,
            top_p=arguments.top_p,
        )
        written = bytes(int(t) & 255 for t in tokens.to_numpy()[0])
        print(arguments.prompt + written.decode(errors="replace"))
    return 0
