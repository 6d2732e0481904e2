"""Several GPUs beside PyTorch, in one call: bandwidth of all-reduce, tokens per second of GPT-2.

    python -m cudamath launch -n 4 -m benchmarks.distributed all_reduce
    python -m cudamath launch -n 4 -m benchmarks.distributed train --batch 16 --json several.json
    python -m cudamath launch -n 4 -m benchmarks.distributed losses
    python -m benchmarks.distributed merge A.json B.json --json distributed.json

One process for each GPU; each has cudamath's connections and PyTorch's process group. Without a GPU
all of it runs on the CPU, in small sizes: to try it. A record that exists gets further rows.

all_reduce: in turns with PyTorch's. Bandwidth is NCCL's "bus bandwidth": 2 (n - 1) / n bytes of the
array in the time of one all-reduce.

train: tokens per second and the peak memory of a step, of one process. `cudamath.alone` and
`torch.alone` are each process with its own batch and nobody to talk to, the measure of scaling: n
times its rate is what n GPUs could reach. `cudamath.data` to `.zero3` are the trainer's ways to
share (`Trainer(parallel=...)`; `cudamath.data@100` with buckets of 100 MiB, `cudamath.zero3.lean`
with `recompute=True`), `ddp` to `fsdp2` are PyTorch's (torch_gpt2.py). All have the same weights,
tokens and batches, one after the other.

losses: each way to share beside one process with the whole batch: how far the losses are apart,
relative to them; and whether two runs with `deterministic=True` have the same bits.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
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
from benchmarks.train_gpt2 import DECAY, LEARNING_RATE, batches
from cudamath import distributed
from cudamath.models import gpt2, training

MIB = 1 << 20
SIZES = (1, 8, 64, 256, 1024)  # MiB
PORT = 7  # behind the port of our own meeting: that of PyTorch's


def torch_group(device: str) -> Any:
    """torch.distributed with NCCL, on the CPU Gloo, among the same processes."""
    import torch
    import torch.distributed as dist

    gpu = device != "cpu"
    if gpu:
        torch.cuda.set_device(device)
    port = int(os.environ["MASTER_PORT"]) + PORT
    dist.init_process_group(
        "nccl" if gpu else "gloo",
        init_method=f"tcp://{os.environ['MASTER_ADDR']}:{port}",
        rank=distributed.rank(),
        world_size=distributed.size(),
        device_id=torch.device(device) if gpu else None,
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
    gpu = device != "cpu"
    ours, theirs = (cm.cuda.synchronize, torch.cuda.synchronize) if gpu else (int, int)
    told(f"transport: {distributed.transport()}; {n} processes, {dtype}")
    for mib in SIZES if gpu else SIZES[:2]:
        count = mib * MIB // np.dtype(cm.bfloat16 if dtype == "bfloat16" else dtype).itemsize
        x = cm.ones(count, dtype=dtype, device=device)
        y = torch.ones(count, dtype=getattr(torch, dtype), device=device)
        calls: dict[str, tuple] = {
            "cudamath": (lambda x=x: distributed.all_reduce(x), ours),
            "torch": (lambda y=y: dist.all_reduce(y), theirs),
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

    def __init__(
        self,
        start: dict[str, cm.ndarray],
        config: gpt2.Config,
        device: str,
        parallel: str | None,
        **options: Any,
    ):
        self.device = device
        self.trainer = training.Trainer(
            gpt2.loss,
            start,
            config,
            schedule=LEARNING_RATE,
            weight_decay=DECAY,
            parallel=parallel,
            **options,
        )

    def place(self, batch: Any) -> tuple:
        return tuple(cm.asarray(x, device=self.device) for x in batch)

    def step(self, tokens: Any, targets: Any) -> Any:
        return self.trainer.step(tokens, targets)[0]

    def reset(self) -> None:
        gc.collect()
        cm.cuda.empty_cache()
        cm.cuda.reset_peak_memory_stats()

    def memory(self) -> tuple[int, int]:
        """Bytes in use at the peak, and held from the driver."""
        return cm.cuda.max_memory_allocated(), cm.cuda.memory_reserved()

    def close(self) -> None:
        del self.trainer
        gc.collect()
        cm.cuda.empty_cache()


def beginning(config: gpt2.Config, device: str) -> dict[str, cm.ndarray]:
    """Initial weights, the same in all processes."""
    return gpt2.create(config, rng=cm.random.default_rng(0), device=device)


def peer_of(name: str, config: gpt2.Config, device: str) -> Any:
    """A trainer, of cudamath or PyTorch."""
    start = beginning(config, device)
    if name.startswith("cudamath."):
        way, _, mib = name.partition(".")[2].partition("@")
        options: dict[str, Any] = {"bucket": int(mib) * MIB} if mib else {}
        if way.endswith(".lean"):
            way, options["recompute"] = way.removesuffix(".lean"), True
        return Ours(start, config, device, None if way == "alone" else way, **options)
    from benchmarks import torch_gpt2

    return torch_gpt2.KINDS[name](start, config, device, LEARNING_RATE, DECAY)


def mean(value: float, op: str = "mean") -> float:
    """Of all processes."""
    with cm.device("cpu"):
        return float(distributed.all_reduce(cm.asarray(value, dtype="float64"), op))


def train_rows(
    size: str, batch: int, length: int, names: list[str], device: str, rounds: int, write: Any
) -> None:
    """One row for each peer: tokens per second of all processes together. rounds: 0 to compile
    alone. A peer that fails in all processes is told and left out."""
    config, n = gpt2.SIZES[size], distributed.size()
    rank = distributed.rank()
    data = [
        tuple(x[rank * batch : (rank + 1) * batch] for x in pair)
        for pair in batches(config, n * batch, length, 4)
    ]
    apart = ("cudamath.", "torch.")
    dist = torch_group(device) if any(not name.startswith(apart) for name in names) else None
    rates: dict[str, float] = {}
    for name in names:  # one after the other: memory is for one
        began, problem = time.perf_counter(), ""
        try:
            peer = peer_of(name, config, device)
            peer.reset()
            placed = [peer.place(pair) for pair in data]
            losses = [float(peer.step(*placed[i % 4])) for i in range(4)]
        except (MemoryError, RuntimeError) as error:  # no room: the others go on
            problem = f"{type(error).__name__}: {str(error).strip()[:300]}"
        if mean(bool(problem), "max"):
            told(f"{name:15} left out; rank 0: {problem or 'good'}")
            peer = placed = None
            gc.collect()
            continue
        ready = time.perf_counter() - began
        if name.startswith("cudamath."):
            peak, _ = peer.memory()  # of the step as it runs before its graph, which is the same
        else:
            peer.reset()  # without what compiling took
        samples = []
        for _ in range(rounds):
            distributed.barrier()
            began = time.perf_counter()
            for x, y in placed:
                last = peer.step(x, y)
            float(last)
            samples.append((time.perf_counter() - began) / len(placed))
        if not name.startswith("cudamath."):
            peak, _ = peer.memory()
        row: dict[str, Any] = {
            "what": "train",
            "size": size,
            "peer": name,
            "processes": n,
            "batch": batch,
            "length": length,
            "peak_bytes": int(mean(peak, "max")),
            "reserved_bytes": int(mean(peer.memory()[1], "max")),
            "losses": [mean(loss) for loss in losses],
            "ready_s": mean(ready, "max"),
        }
        if rounds:
            seconds = mean(statistics.median(samples), "max")
            rates[name] = n * batch * length / seconds
            row |= {"ms": 1e3 * seconds, "rounds": rounds, "tokens_per_second": rates[name]}
            kind = "cudamath" if name.startswith("cudamath.") else "torch"
            if f"{kind}.alone" in rates:  # all of them at once
                row["of_alone"] = rates[name] / rates[f"{kind}.alone"]
        write(row)
        told(
            f"{size} {name:15} {row.get('ms', 0):8.2f} ms a step {rates.get(name, 0):10.0f} "
            f"tokens/s, of alone {row.get('of_alone', 0):.3f}  peak {row['peak_bytes'] / 1e9:.2f} "
            f"GB, reserved {row['reserved_bytes'] / 1e9:.2f} GB  loss of step 4 "
            f"{row['losses'][-1]:.5f}  (ready after {row['ready_s']:.0f} s)"
        )
        peer.close()
        peer = placed = None
    if dist is not None:
        dist.destroy_process_group()


def losses_rows(
    size: str, batch: int, length: int, steps: int, dtype: str, device: str, write: Any
) -> None:
    """One row for each way to share."""
    config, n = gpt2.SIZES[size], distributed.size()
    data = batches(config, n * batch, length, steps)

    def curve(parallel: str | None, **options: Any) -> tuple[list[float], str]:
        peer = Ours(beginning(config, device), config, device, parallel, dtype=dtype, **options)
        own = distributed.share if parallel else lambda pair: pair
        found = [float(peer.step(*peer.place(own(pair)))) for pair in data]
        params = peer.trainer.params
        digest = hashlib.sha256(b"".join([p.to_numpy().tobytes() for p in params.values()]))
        peer.close()
        return found, digest.hexdigest()

    expected, _ = curve(None)
    for way in training.PARALLEL[1:]:
        found, _ = curve(way)
        first, second = (curve(way, deterministic=True) for _ in range(2))
        apart = np.abs(np.array([found, first[0]]) - expected) / expected
        row = {
            "what": "losses",
            "size": size,
            "way": way,
            "processes": n,
            "batch": batch,
            "length": length,
            "dtype": dtype,
            "losses": found,
            "one_process": expected,
            "apart": mean(apart[0].max(), "max"),
            "apart_deterministic": mean(apart[1].max(), "max"),
            "same_bits": bool(mean(first == second, "min")),
        }
        write(row)
        told(
            f"{size} {way}, {dtype}: loss {found[0]:.4f} -> {found[-1]:.4f} in {steps} steps; from "
            f"one process's {row['apart']:.1e}, deterministic {row['apart_deterministic']:.1e}; "
            f"two runs: {'the same bits' if row['same_bits'] else 'OTHER BITS'}"
        )


def merged(files: list[str]) -> dict[str, Any]:
    """One record of several. ValueError unless device and commit are the same."""
    records = [json.loads(pathlib.Path(file).read_text()) for file in files]
    for what in ("device", "commit"):
        if len({record[what] for record in records}) != 1:
            raise ValueError(f"merge: {what} differs: {[record[what] for record in records]}")
    return {**records[0], "rows": [row for record in records for row in record["rows"]]}


def table(record: dict[str, Any]) -> str:
    """What training rows say, in Markdown."""
    rows = [row for row in record["rows"] if row["what"] == "train" and "ms" in row]
    device, torch = record["device"].partition(",")[0], record["versions"].get("torch", "-")
    heads = "GPT-2, GPUs, sequences each, peer, ms a step, tokens/s, of as many alone, peak GB"
    lines = [
        f"{device}, commit `{record['commit']}`, {record['date']}, torch {torch}:",
        "",
        f"| {heads.replace(', ', ' | ')} |",
        "|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        share = f"{row['of_alone']:.3f}" if "of_alone" in row else ""
        lines.append(
            f"| {row['size']} | {row['processes']} | {row['batch']} | {row['peer']} | "
            f"{row['ms']:.1f} | {row['tokens_per_second']:,.0f} | {share} | "
            f"{row['peak_bytes'] / 1e9:.2f} |"
        )
    return "\n".join(lines)


class Record:
    """Rows in a file, written after each: a run that is cut off leaves what it has."""

    def __init__(self, path: str | None, device: str):
        self.path = pathlib.Path(path) if path and distributed.rank() == 0 else None
        if self.path is None:
            return
        self.record = {**environment(device.partition(":")[0]), "rows": []}
        if self.path.exists():
            before = json.loads(self.path.read_text())
            differs = [k for k in ("device", "commit") if before[k] != self.record[k]]
            if differs:
                raise SystemExit(f"benchmarks.distributed: {self.path} is of another {differs}")
            self.record["rows"] = before["rows"]

    def add(self, row: dict[str, Any]) -> None:
        if self.path is not None:
            self.record["rows"].append(row)
            self.path.write_text(json.dumps(self.record, indent=1) + "\n")


def main(argv: list[str] | None = None) -> int:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser(
        prog="python -m cudamath launch -m benchmarks.distributed",
        description="Several GPUs beside PyTorch.",
    )
    parser.add_argument("what", choices=["all_reduce", "train", "losses", "merge"])
    parser.add_argument("files", nargs="*", metavar="FILE", help="of merge: records")
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=["float32", "bfloat16"],
        help="of all_reduce and losses; train computes in bfloat16",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", default="124m", choices=[*gpt2.SIZES])
    parser.add_argument("--batch", type=int, default=16, help="sequences of each process")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10, help="of losses")
    parser.add_argument(
        "--peers",
        default="cudamath.alone,cudamath.data,cudamath.zero2,cudamath.zero3,torch.alone,ddp,fsdp2",
    )
    parser.add_argument("--json", help="write the figures there")
    arguments = parser.parse_args(argv)
    if arguments.what == "merge":
        text = json.dumps(merged(arguments.files), indent=1)
        pathlib.Path(arguments.json).write_text(text + "\n")
        return 0
    device = distributed.use_own_device()
    record = Record(arguments.json, device)
    size, batch, length = arguments.size, arguments.batch, arguments.length
    if arguments.what == "all_reduce":
        for row in all_reduce_rows(arguments.dtype, device, arguments.rounds):
            record.add({"what": "all_reduce", **row})
    elif arguments.what == "train":
        names, rounds = arguments.peers.split(","), arguments.rounds
        train_rows(size, batch, length, names, device, rounds, record.add)
    else:
        losses_rows(size, batch, length, arguments.steps, arguments.dtype, device, record.add)
    return 0


if __name__ == "__main__":
    sys.exit(main())
