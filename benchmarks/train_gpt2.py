"""Training GPT-2 beside PyTorch: tokens per second, peak memory, share of the GPU's nominal rate.

    python -m benchmarks.train_gpt2 --size 124m --batches 16,32 --json gpt2.json
        timings
    python -m benchmarks.train_gpt2 --merge a.json b.json --json gpt2.json
        one record of several runs
    python -m benchmarks.train_gpt2 --check TEXT --json gpt2_losses.json
        compares losses
    python -m benchmarks.train_gpt2 --profile --batches 32
        time of each kernel, cudamath's and torch's

All work on the same weights and tokens in one process, in turns of a few steps in random order. A
step: forward and backward in bfloat16 with float32 master weights, gradients clipped to norm 1,
AdamW. PyTorch runs in its usual way: autocast, scaled_dot_product_attention (flash attention),
fused AdamW, the table of tokens padded as cudamath's.

--check trains from the same weights on the same sequences of a text, with a learning rate that
rises to CHECKED_RATE over WARMUP steps. Differences are relative to the loss. The noise of PyTorch
is the distance between two of its runs whose weights differ in the last bit.

    float32    the first 20 losses agree with PyTorch's to 1e-4, and the whole curve is no farther
               from PyTorch's than twice its noise
    bfloat16   the means of ten losses each agree with PyTorch's within 1 %, from the first to the
               last (PyTorch's autocast keeps the residual stream in float32, cudamath's is
               bfloat16)
    both       a second run of cudamath, stopped half-way and resumed from its checkpoint, is equal
               bit for bit

Where the time of a step goes: 124m, 16 sequences of 1,024, one H200, the two linear layers as one
`ml.mlp`; 26.6 ms of kernels (--profile), 28.5 with the gaps between 530 of them. In brackets the
time at the rate of the best kernel of its kind, or of a device copy (4.3 TB/s):

    products, 12.2 TFLOP                      17.6 ms   (14.5: 840 TFLOP/s, the head's)
    attention and its gradient, 1.1 TFLOP      4.1      (2.5: 430 TFLOP/s, long sequences')
    normalisations, residuals added in them    1.6      (1.1)
    sums of bias gradients                     1.0      (0.7)
    loss and the gradient of the scores        0.95     (0.78)
    norm of the gradients, AdamW               0.93     (0.87)
    looking up tokens, copies, the rest        0.4
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks.run import environment
from cudamath.models import gpt2, training

NOMINAL = 989.4e12  # dense bfloat16 operations per second of an H100 or H200, by its data sheet
LEARNING_RATE, DECAY = 6e-4, 0.1
CHECKED_RATE, WARMUP, MEANS = (
    3e-4,
    100,
    10,
)  # of --check: the learning rate, steps until it is reached; losses in a mean


# -------------------- who is measured


class Ours:
    """cudamath: one CUDA graph a step."""

    name = "cudamath"

    def __init__(
        self,
        start: dict[str, np.ndarray],
        config: gpt2.Config,
        dtype: str,
        device: str = "cuda",
        schedule: Any = LEARNING_RATE,
    ):
        params = {name: cm.array(x, device=device) for name, x in start.items()}
        self.device = device
        self.trainer = training.Trainer(
            gpt2.loss, params, config, schedule=schedule, dtype=dtype, weight_decay=DECAY, clip=1.0
        )

    def place(self, batch: tuple[np.ndarray, np.ndarray]) -> tuple:
        """Tokens and targets on the device."""
        return tuple(cm.asarray(x, device=self.device) for x in batch)

    def step(self, tokens: Any, targets: Any) -> Any:
        return self.trainer.step(tokens, targets)[0]

    @staticmethod
    def memory() -> np.ndarray:
        """Bytes in use at the peak, and held from the driver."""
        return np.array([cm.cuda.max_memory_allocated(), cm.cuda.memory_reserved()])

    @staticmethod
    def reset() -> np.ndarray:
        """Begin to look for the peak; what is in use and held now."""
        cm.cuda.empty_cache()
        cm.cuda.reset_peak_memory_stats()
        return np.array([cm.cuda.memory_allocated(), cm.cuda.memory_reserved()])

    def close(self) -> None:
        del self.trainer
        gc.collect()
        cm.cuda.empty_cache()


class Torch:
    """PyTorch, eager."""

    name = "torch"

    def __init__(
        self,
        start: dict[str, np.ndarray],
        config: gpt2.Config,
        dtype: str,
        device: str = "cuda",
        schedule: Callable[[int], float] | None = None,
    ):
        import torch

        self.torch, self.config, self.dtype, self.device, self.schedule = (
            torch,
            config,
            dtype,
            device,
            schedule,
        )
        self.steps = 0
        self.params = {
            name: torch.tensor(x, device=device, requires_grad=True) for name, x in start.items()
        }
        matrices = [p for p in self.params.values() if p.ndim > 1]
        rest = [p for p in self.params.values() if p.ndim == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}],
            lr=LEARNING_RATE,
            betas=(0.9, 0.95),
            fused=True,
        )
        self.function = self.loss_function()

    def loss_function(self) -> Callable:
        return self.loss

    def loss(self, params: dict, tokens: Any, targets: Any) -> Any:
        f, c = self.torch.nn.functional, self.config
        batch, length = tokens.shape
        x = f.embedding(tokens, params["wte.weight"]) + params["wpe.weight"][:length]
        for i in range(c.layers):
            p = {
                name.removeprefix(f"h.{i}."): value
                for name, value in params.items()
                if name.startswith(f"h.{i}.")
            }
            y = f.layer_norm(x, (c.width,), p["ln_1.weight"], p["ln_1.bias"])
            y = f.linear(y, p["attn.c_attn.weight"], p["attn.c_attn.bias"])
            q, k, v = (
                part.view(batch, length, c.heads, -1).transpose(1, 2)
                for part in y.split(c.width, 2)
            )
            y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = y.transpose(1, 2).reshape(batch, length, c.width)
            x = x + f.linear(y, p["attn.c_proj.weight"], p["attn.c_proj.bias"])
            y = f.layer_norm(x, (c.width,), p["ln_2.weight"], p["ln_2.bias"])
            y = f.gelu(f.linear(y, p["mlp.c_fc.weight"], p["mlp.c_fc.bias"]), approximate="tanh")
            x = x + f.linear(y, p["mlp.c_proj.weight"], p["mlp.c_proj.bias"])
        x = f.layer_norm(x, (c.width,), params["ln_f.weight"], params["ln_f.bias"])
        scores = f.linear(x, params["wte.weight"])
        if self.exact:
            scores = scores[..., : c.vocabulary]
        return f.cross_entropy(scores.reshape(batch * length, -1), targets.reshape(-1))

    # whether the table's padding is left out of the loss; it costs a copy, and nobody does it
    exact = False

    def place(self, batch: tuple[np.ndarray, np.ndarray]) -> tuple:
        """As ours, in the integers that PyTorch wants."""
        return tuple(
            self.torch.tensor(x, dtype=self.torch.int64, device=self.device) for x in batch
        )

    def step(self, tokens: Any, targets: Any) -> Any:
        torch = self.torch
        with torch.autocast(self.device, torch.bfloat16, enabled=self.dtype == "bfloat16"):
            loss = self.function(self.params, tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params.values(), 1.0)
        if self.schedule is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = self.schedule(self.steps)
            self.steps += 1
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    @staticmethod
    def memory() -> np.ndarray:
        """As ours."""
        import torch

        return np.array([torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved()])

    @staticmethod
    def reset() -> np.ndarray:
        """As ours."""
        import torch

        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        return np.array([torch.cuda.memory_allocated(), torch.cuda.memory_reserved()])

    def close(self) -> None:
        del self.params, self.optimizer, self.function
        gc.collect()
        self.torch.cuda.empty_cache()


class Compiled(Torch):
    """PyTorch, forward and backward by torch.compile."""

    name = "torch.compile"

    def loss_function(self) -> Callable:
        return self.torch.compile(self.loss, dynamic=False)


class Tuned(Torch):
    """The same with the longest search for kernels; minutes."""

    name = "torch.compile max-autotune"

    def loss_function(self) -> Callable:
        return self.torch.compile(self.loss, dynamic=False, mode="max-autotune-no-cudagraphs")


PEERS: dict[str, Any] = {kind.name: kind for kind in (Ours, Torch, Compiled, Tuned)}
USUAL = "cudamath,torch,torch.compile"


# -------------------- what is measured


def beginning(config: gpt2.Config) -> dict[str, np.ndarray]:
    """Initial weights."""
    with cm.device("cpu"):
        return {
            name: x.to_numpy()
            for name, x in gpt2.create(config, rng=cm.random.default_rng(0)).items()
        }


def batches(
    config: gpt2.Config, batch: int, length: int, count: int, text: str | None = None
) -> list:
    """(tokens, targets), int32 (batch, length): bytes of a text, or random."""
    rng = np.random.default_rng(1)
    if text is None:
        data = rng.integers(0, config.vocabulary, 4 * batch * length + 1).astype(np.int32)
    else:
        data = np.frombuffer(pathlib.Path(text).read_bytes(), np.uint8).astype(np.int32)
    out = []
    for _ in range(count):
        rows = [data[at : at + length + 1] for at in rng.integers(0, len(data) - length - 1, batch)]
        out.append((np.stack([row[:-1] for row in rows]), np.stack([row[1:] for row in rows])))
    return out


def compare(
    config: gpt2.Config, names: list[str], batch: int, length: int, rounds: int
) -> list[dict[str, Any]]:
    """One row for each peer at this batch size. A peer that fails is told and left out."""
    start, data, there, rows = beginning(config), batches(config, batch, length, 4), {}, []
    for name in names:
        began = time.perf_counter()
        try:
            before = PEERS[name].reset()
            peer = PEERS[name](start, config, "bfloat16")
            peer.data = [peer.place(pair) for pair in data]
            for x, y in peer.data[:3]:
                last = peer.step(x, y)
            float(last)
            peer.bytes = peer.memory() - before  # parameters, optimizer, and what a step takes
            there[name] = peer
            print(f"  {name}: ready after {time.perf_counter() - began:.0f} s", flush=True)
        except Exception as error:  # a benchmark goes on with the others
            print(f"  {name}: {type(error).__name__}: {error}", flush=True)
    samples: dict[str, list[float]] = {name: [] for name in there}
    order = list(there)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            peer = there[name]
            float(peer.step(*peer.data[0]))
            began = time.perf_counter()
            for x, y in peer.data:
                last = peer.step(x, y)
            float(last)
            samples[name].append((time.perf_counter() - began) / len(data))
    for name, peer in there.items():
        seconds = statistics.median(samples[name])
        rate = batch * length / seconds
        row: dict[str, Any] = {
            "peer": name,
            "batch": batch,
            "length": length,
            "ms": 1e3 * seconds,
            "tokens_per_second": rate,
            "mfu": rate * gpt2.flops_per_token(config, length) / NOMINAL,
            "peak_bytes": int(peer.bytes[0]),
            "reserved_bytes": int(peer.bytes[1]),
            "rounds": len(samples[name]),
        }
        rows.append(row)
        print(
            f"{name:14} batch {batch:3}: {row['ms']:8.2f} ms a step  {rate:9.0f} tokens/s  MFU "
            f"{100 * row['mfu']:.1f} %  "
            f"peak {row['peak_bytes'] / 1e9:.2f} GB, reserved {row['reserved_bytes'] / 1e9:.2f} GB",
            flush=True,
        )
    for peer in there.values():
        peer.close()
    return rows


def curve(peer: Any, data: list) -> list[float]:
    """The losses of a step on each of these batches."""
    return [float(loss) for loss in [peer.step(*peer.place(pair)) for pair in data]]


def curves(
    config: gpt2.Config, data: list, dtype: str, device: str
) -> Iterator[tuple[str, list[float]]]:
    """Losses: of "ours", "torch", "resumed" (ours after a stop half-way), and "nudged" (torch's
    from weights off by a last bit)."""
    start, rate, half = (
        beginning(config),
        cm.ml.schedules.constant(CHECKED_RATE, warmup=WARMUP),
        len(data) // 2,
    )

    def run(kind: Any, weights: dict[str, np.ndarray]) -> list[float]:
        peer = kind(weights, config, dtype, device, rate)
        peer.exact = True
        losses = curve(peer, data)
        peer.close()
        return losses

    yield "ours", run(Ours, start)
    yield "torch", run(Torch, start)
    with tempfile.TemporaryDirectory() as folder:
        file, first = (
            pathlib.Path(folder) / "half.safetensors",
            Ours(start, config, dtype, device, rate),
        )
        losses = curve(first, data[:half])
        first.trainer.save(file)
        first.close()
        second = Ours(
            {name: np.zeros_like(x) for name, x in start.items()}, config, dtype, device, rate
        )
        second.trainer.load(file)
        yield "resumed", losses + curve(second, data[half:])
        second.close()
    yield (
        "nudged",
        run(Torch, {name: np.nextafter(x, np.float32(np.inf)) for name, x in start.items()}),
    )


def verdict(dtype: str, curves: dict[str, list[float]]) -> dict[str, Any]:
    """How far the curves are apart, relative to the loss, and whether that is as the top of this
    file wants it."""

    def apart(one: Any, other: Any) -> np.ndarray:
        return np.abs(np.array(one) - other) / other

    ours, torch = np.array(curves["ours"]), np.array(curves["torch"])
    each, noise = apart(ours, torch), float(apart(curves["nudged"], torch).max())
    means = apart(*(np.convolve(x, np.full(MEANS, 1 / MEANS), "valid") for x in (ours, torch)))
    out = {
        "steps": len(ours),
        "same_bits": curves["ours"] == curves["resumed"],
        "first_20": float(each[:20].max()),
        "largest": float(each.max()),
        "means": float(means.max()),
        "noise": noise,
    }
    near = (
        out["means"] < 1e-2
        if dtype == "bfloat16"
        else out["first_20"] < 1e-4 and out["largest"] <= 2 * max(noise, 1e-5)
    )
    return {**out, "good": bool(out["same_bits"] and near)}


def check(
    config: gpt2.Config,
    text: str,
    steps: dict[str, int],
    device: str,
    record: dict[str, Any],
    write: Callable,
) -> bool:
    """Add to the record, for each dtype, its curves and what is found of them (see the top of this
    file). Written after each curve: a run that is cut off leaves what it has."""
    data = batches(config, record["batch"], record["length"], max(steps.values()), text)
    for dtype, count in steps.items():
        curve_of: dict[str, list[float]] = {}
        record[dtype] = {"curves": {}}
        for name, losses in curves(config, data[:count], dtype, device):
            curve_of[name] = losses
            record[dtype]["curves"][name] = [round(loss, 6) for loss in losses]
            write(record)
        result = verdict(dtype, curve_of)
        record[dtype] |= result
        write(record)
        print(
            f"{dtype}: {count} steps, loss {curve_of['ours'][0]:.4f} -> "
            f"{curve_of['ours'][-1]:.4f}, torch -> "
            f"{curve_of['torch'][-1]:.4f}; apart: first 20 {result['first_20']:.1e}, largest "
            f"{result['largest']:.1e}, means of "
            f"{MEANS} {result['means']:.1e}, noise {result['noise']:.1e}; stopped and resumed: "
            f"{'the same bits' if result['same_bits'] else 'OTHER BITS'}; "
            f"{'good' if result['good'] else 'NOT GOOD'}",
            flush=True,
        )
    return all(record[dtype]["good"] for dtype in steps)


def merged(files: list[str]) -> dict[str, Any]:
    """One record of runs with other batches or peers. ValueError unless device, commit and model
    are the same."""
    records = [json.loads(pathlib.Path(file).read_text()) for file in files]
    for what in ("device", "commit", "size", "nominal"):
        if len({record[what] for record in records}) > 1:
            raise ValueError(f"merge: {what} differs: {[record[what] for record in records]}")
    return {
        **records[0],
        "rows": sorted(
            (row for record in records for row in record["rows"]), key=lambda row: row["batch"]
        ),
    }


def profiled(config: gpt2.Config, names: list[str], batch: int, length: int) -> None:
    """Kernels of a step by total time, as CUPTI sees them."""
    from torch.profiler import ProfilerActivity, profile

    data = batches(config, batch, length, 4)
    for name in names:
        peer = PEERS[name](beginning(config), config, "bfloat16")
        placed = [peer.place(pair) for pair in data]
        for x, y in placed[:3]:
            float(peer.step(x, y))
        with profile(activities=[ProfilerActivity.CUDA]) as taken:
            for x, y in placed[:2]:
                last = peer.step(x, y)
            float(last)
        events = sorted(taken.key_averages(), key=lambda e: -e.self_device_time_total)
        total = sum(e.self_device_time_total for e in events) / 2e3
        print(f"-- {name}, batch {batch}: {total:.2f} ms of kernels a step")
        for event in events[:40]:
            time_us, count = event.self_device_time_total, event.count
            print(
                f"  {time_us / 2e3:8.3f} ms {count // 2:5} x {time_us / count:9.1f} us  "
                f"{event.key[:110]}"
            )
        sys.stdout.flush()
        peer.close()


def main(argv: list[str] | None = None) -> int:
    """The command line; see the top of this file."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.train_gpt2", description="Training GPT-2 beside PyTorch."
    )
    parser.add_argument("--size", default="124m", choices=[*gpt2.SIZES])
    parser.add_argument("--batches", default="16,32", help="sequences a step, comma-separated")
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", default=USUAL, help=f"of {', '.join(PEERS)}")
    parser.add_argument("--json", help="write the figures there")
    parser.add_argument("--merge", nargs="+", metavar="FILE", help="join these records instead")
    parser.add_argument("--profile", action="store_true", help="time a kernel instead")
    parser.add_argument(
        "--check", metavar="TEXT", help="compare losses on the bytes of this file instead"
    )
    parser.add_argument("--steps", default="200,200", help="of --check, in float32 and in bfloat16")
    parser.add_argument("--device", default="cuda", help="of --check")
    arguments = parser.parse_args(argv)
    config, names = gpt2.SIZES[arguments.size], arguments.peers.split(",")
    sizes = [int(b) for b in arguments.batches.split(",")]
    if arguments.profile:
        for batch in sizes:
            profiled(config, names, batch, arguments.length)
        return 0

    def write(record: dict[str, Any]) -> None:
        if arguments.json:
            text = json.dumps(record, indent=None if arguments.check else 1)
            pathlib.Path(arguments.json).write_text(text + "\n")

    if arguments.check:
        record = {
            **environment(arguments.device),
            "size": arguments.size,
            "batch": 8,
            "length": min(256, config.context),
            "learning_rate": CHECKED_RATE,
            "warmup": WARMUP,
            "averaged": MEANS,
        }
        steps = dict(
            zip(("float32", "bfloat16"), map(int, arguments.steps.split(",")), strict=True)
        )
        return 0 if check(config, arguments.check, steps, arguments.device, record, write) else 1
    if arguments.merge:
        write(merged(arguments.merge))
    else:
        record = {**environment("cuda"), "size": arguments.size, "nominal": NOMINAL, "rows": []}
        for batch in sizes:  # written after each: a run that is cut off leaves what it has
            record["rows"] += compare(config, names, batch, arguments.length, arguments.rounds)
            write(record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
