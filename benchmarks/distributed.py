"""Several GPUs beside PyTorch, in one call: bandwidth of all-reduce, tokens per second of GPT-2.

    python -m cudamath launch -n 2 -m benchmarks.distributed all_reduce
    python -m cudamath launch -n 2 -m benchmarks.distributed train --batch 16 --json several.json

One process for each GPU; each has cudamath's connections and PyTorch's NCCL process group, and they
work in turns. Bandwidth is NCCL's "bus bandwidth": 2 (n - 1) / n bytes of the array in the time of
one all-reduce.

train: `cudamath.alone` is each process with its own batch and nobody to talk to, the measure of
scaling: n times its rate is what n GPUs could reach. `cudamath.data` to `.zero3` are the trainer's
ways to share (`Trainer(parallel=...)`); `ddp` is PyTorch's DistributedDataParallel of a compiled
module, `ddp.eager` the same without torch.compile. Weights, tokens and batches are the same.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks.run import environment
from benchmarks.train_gpt2 import DECAY, LEARNING_RATE, Torch, batches, beginning
from cudamath import distributed
from cudamath.models import gpt2, training

MIB = 1 << 20
SIZES = (1, 8, 64, 256, 1024)  # MiB
PORT = 7  # behind the port of our own meeting: that of PyTorch's


def torch_group(device: str) -> Any:
    """torch.distributed with its NCCL, among the same processes."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(device)
    port = int(os.environ["MASTER_PORT"]) + PORT
    dist.init_process_group(
        "nccl",
        init_method=f"tcp://{os.environ['MASTER_ADDR']}:{port}",
        rank=distributed.rank(),
        world_size=distributed.size(),
        device_id=torch.device(device),
    )
    return dist


def told(text: str) -> None:
    """Printed by one process."""
    if distributed.rank() == 0:
        print(text, flush=True)


def seconds_of(call: Callable[[], Any], wait: Callable[[], Any], count: int, rounds: int) -> float:
    """The median of some rounds, of one call; of the slowest process."""
    samples = []
    for _ in range(rounds):
        call()
        wait()
        distributed.barrier()
        began = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        samples.append((time.perf_counter() - began) / count)
    median = statistics.median(samples)
    with cm.device("cpu"):
        return float(distributed.all_reduce(cm.asarray(median), "max"))


def all_reduce_rows(dtype: str, device: str, rounds: int) -> list[dict[str, Any]]:
    """One row for each size: GB/s of the bus, ours and PyTorch's."""
    import torch

    dist, n, rows = torch_group(device), distributed.size(), []
    told(f"transport: {distributed.transport()}; {n} processes, {dtype}")
    for mib in SIZES:
        count = mib * MIB // np.dtype(cm.bfloat16 if dtype == "bfloat16" else dtype).itemsize
        x = cm.ones(count, dtype=dtype, device=device)
        y = torch.ones(count, dtype=getattr(torch, dtype), device=device)
        calls: dict[str, tuple] = {
            "cudamath": (lambda x=x: distributed.all_reduce(x), cm.cuda.synchronize),
            "torch": (lambda y=y: dist.all_reduce(y), torch.cuda.synchronize),
        }
        found = {name: [] for name in calls}
        for _ in range(rounds):  # in turns
            for name, (call, wait) in calls.items():
                found[name].append(seconds_of(call, wait, 20 if mib < 256 else 5, 1))
        row: dict[str, Any] = {"mib": mib, "dtype": dtype, "processes": n}
        for name, samples in found.items():
            seconds = statistics.median(samples)
            row[f"{name}_us"] = 1e6 * seconds
            row[f"{name}_gbs"] = 2 * (n - 1) / n * mib * MIB / seconds / 1e9
        row["ratio"] = row["cudamath_gbs"] / row["torch_gbs"] if n > 1 else None
        rows.append(row)
        told(
            f"{mib:5} MiB  cudamath {row['cudamath_us']:9.1f} us {row['cudamath_gbs']:7.1f} GB/s   "
            f"torch {row['torch_us']:9.1f} us {row['torch_gbs']:7.1f} GB/s   ratio {row['ratio']}"
        )
        del x, y
    dist.destroy_process_group()
    return rows


class Ours:
    """cudamath's trainer; `parallel` as it takes it."""

    def __init__(self, start: dict, config: gpt2.Config, device: str, parallel: str | None):
        params = {name: cm.array(x, device=device) for name, x in start.items()}
        self.device = device
        cm.cuda.reset_peak_memory_stats()
        self.trainer = training.Trainer(
            gpt2.loss, params, config, schedule=LEARNING_RATE, weight_decay=DECAY, parallel=parallel
        )

    def place(self, batch: Any) -> tuple:
        return tuple(cm.asarray(x, device=self.device) for x in batch)

    def step(self, tokens: Any, targets: Any) -> Any:
        return self.trainer.step(tokens, targets)[0]

    def peak(self) -> int:
        return cm.cuda.max_memory_allocated()

    def close(self) -> None:
        del self.trainer
        gc.collect()
        cm.cuda.empty_cache()


class Replicated(Torch):
    """PyTorch's DistributedDataParallel."""

    compiled = True

    def __init__(self, start: dict, config: gpt2.Config, device: str):
        super().__init__(start, config, "bfloat16", device)
        torch = self.torch
        owner = self

        class Net(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                for name, p in owner.params.items():
                    self.register_parameter(name.replace(".", "/"), torch.nn.Parameter(p.detach()))

            def forward(self, tokens: Any, targets: Any) -> Any:
                named = {name.replace("/", "."): p for name, p in self.named_parameters()}
                return owner.loss(named, tokens, targets)

        net = Net()
        self.params = {name.replace("/", "."): p for name, p in net.named_parameters()}
        matrices = [p for p in self.params.values() if p.ndim > 1]
        rest = [p for p in self.params.values() if p.ndim == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}],
            lr=LEARNING_RATE,
            betas=(0.9, 0.95),
            fused=True,
        )
        module = torch.nn.parallel.DistributedDataParallel(
            net, device_ids=[torch.device(device).index], gradient_as_bucket_view=True
        )
        run = torch.compile(module, dynamic=False) if self.compiled else module
        self.function = lambda _, tokens, targets: run(tokens, targets)
        self.device = device.partition(":")[0]  # of autocast
        self.place_at = device
        torch.cuda.reset_peak_memory_stats()

    def place(self, batch: Any) -> tuple:
        return tuple(
            self.torch.tensor(x, dtype=self.torch.int64, device=self.place_at) for x in batch
        )

    def peak(self) -> int:
        return self.torch.cuda.max_memory_allocated()


class Eager(Replicated):
    """The same without torch.compile."""

    compiled = False


def peers(start: dict, config: gpt2.Config, device: str) -> dict[str, Callable[[], Any]]:
    """What can be measured, by name."""
    found: dict[str, Callable[[], Any]] = {
        "cudamath.alone": lambda: Ours(start, config, device, None),
        "ddp": lambda: Replicated(start, config, device),
        "ddp.eager": lambda: Eager(start, config, device),
    }
    for way in training.PARALLEL[1:]:
        found[f"cudamath.{way}"] = lambda way=way: Ours(start, config, device, way)
    return found


def train_rows(
    size: str, batch: int, length: int, names: list[str], device: str, rounds: int
) -> list[dict[str, Any]]:
    """One row for each peer: tokens per second of all processes together."""
    config, n = gpt2.SIZES[size], distributed.size()
    start, rank = beginning(config), distributed.rank()
    data = [
        tuple(x[rank * batch : (rank + 1) * batch] for x in pair)
        for pair in batches(config, n * batch, length, 4)
    ]
    dist = torch_group(device) if any(name.startswith("ddp") for name in names) else None
    rows: list[dict[str, Any]] = []
    known = peers(start, config, device)
    for name in names:  # one after the other: memory is for one
        began = time.perf_counter()
        peer = known[name]()
        placed = [peer.place(pair) for pair in data]
        losses = [float(peer.step(*placed[i % 4])) for i in range(4)]
        ready = time.perf_counter() - began
        samples = []
        for _ in range(rounds):
            distributed.barrier()
            began = time.perf_counter()
            for x, y in placed:
                last = peer.step(x, y)
            float(last)
            samples.append((time.perf_counter() - began) / len(placed))
        seconds = statistics.median(samples)
        with cm.device("cpu"):
            seconds = float(distributed.all_reduce(cm.asarray(seconds), "max"))
            loss = float(distributed.all_reduce(cm.asarray(losses[-1]), "mean"))
        row = {
            "peer": name,
            "processes": n,
            "batch": batch,
            "length": length,
            "ms": 1e3 * seconds,
            "tokens_per_second": n * batch * length / seconds,
            "peak_bytes": int(peer.peak()),
            "loss_4": loss,
        }
        rows.append(row)
        told(
            f"{name:15} {row['ms']:8.2f} ms a step {row['tokens_per_second']:10.0f} tokens/s  peak "
            f"{row['peak_bytes'] / 1e9:.2f} GB  loss of step 4 {loss:.5f}  (ready after "
            f"{ready:.0f} s)"
        )
        peer.close()
    alone = next((row for row in rows if row["peer"] == "cudamath.alone"), None)
    for row in rows:
        if alone is not None and row["peer"].startswith("cudamath.") and row is not alone:
            row["efficiency"] = row["tokens_per_second"] / alone["tokens_per_second"]
            told(f"{row['peer']:15} scaling efficiency {row['efficiency']:.3f}")
    if dist is not None:
        dist.destroy_process_group()
    return rows


def main(argv: list[str] | None = None) -> int:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser(
        prog="python -m cudamath launch -m benchmarks.distributed",
        description="Several GPUs beside PyTorch.",
    )
    parser.add_argument("what", choices=["all_reduce", "train"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", default="124m", choices=[*gpt2.SIZES])
    parser.add_argument("--batch", type=int, default=16, help="sequences of each process")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--peers", default="cudamath.alone,cudamath.data,cudamath.zero2,ddp")
    parser.add_argument("--json", help="write the figures there")
    arguments = parser.parse_args(argv)
    distributed.rank()
    device = distributed.use_own_device()
    if device == "cpu":
        raise SystemExit("benchmarks.distributed: wants a GPU for each process")
    if arguments.what == "all_reduce":
        rows = all_reduce_rows(arguments.dtype, device, arguments.rounds)
    else:
        names = arguments.peers.split(",")
        rows = train_rows(
            arguments.size, arguments.batch, arguments.length, names, device, arguments.rounds
        )
    if arguments.json and distributed.rank() == 0:
        record = {**environment("cuda"), "what": arguments.what, "rows": rows}
        pathlib.Path(arguments.json).write_text(json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
