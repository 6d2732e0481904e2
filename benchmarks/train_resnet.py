"""Training a ResNet-50 beside PyTorch: images per second and peak memory, on random images.

    python -m benchmarks.train_resnet --batches 64,128,256 --json resnet.json
        timings
    python -m benchmarks.train_resnet --check
        compares losses and gradients
    python -m benchmarks.train_resnet --profile --batches 128
        time of each kernel, cudamath's and torch's

All work on the same weights and images in one process, in turns of a few steps in random order. A
step: forward and backward in bfloat16 with float32 master weights, SGD with momentum and weight
decay; cudamath's is one CUDA graph. PyTorch runs in its usual way: autocast, channels last,
cudnn.benchmark, fused SGD; eagerly, and with forward and backward by torch.compile.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cudamath as cm
from benchmarks.run import environment
from cudamath import ml
from cudamath.models import resnet

RATE, MOMENTUM, DECAY = 0.1, 0.9, 5e-5
Tree = dict[str, Any]


# -------------------- who is measured


class Ours:
    """cudamath: one CUDA graph a step."""

    name = "cudamath"

    def __init__(
        self, start: tuple[Tree, Tree], config: resnet.Config, dtype: str, device: str = "cuda"
    ):
        self.config = config
        self.params, self.stats = (
            {name: cm.array(x, device=device) for name, x in tree.items()} for tree in start
        )
        self.copies = self.params
        if dtype != "float32":
            self.copies = ml.amp.cast(self.params, dtype, keep=lambda p: p.ndim < 2)
        self.momentum = ml.sgd_init(self.params)
        self.run = cm.cuda.graph(self.eager) if device != "cpu" else self.eager

    def gradient(self, copies: Tree, stats: Tree, images: Any, labels: Any) -> Any:
        return cm.value_and_grad(resnet.loss, has_aux=True)(
            copies, stats, images, labels, self.config
        )

    def eager(
        self, params: Tree, copies: Tree, stats: Tree, momentum: Tree, images: Any, labels: Any
    ) -> Any:
        (loss, new), grads = self.gradient(copies, stats, images, labels)
        for name, value in new.items():
            stats[name][...] = value
        more = {} if copies is params else {"copies": copies}
        ml.sgd_update(
            params, grads, momentum, lr=RATE, momentum=MOMENTUM, weight_decay=DECAY, **more
        )
        return loss

    def put(self, images: np.ndarray, labels: np.ndarray) -> tuple:
        """Images (N, H, W, C) as (N, C, H, W), channels last in memory."""
        place = self.params["conv1.weight"].device
        x = cm.asarray(images, device=place).astype(self.copies["conv1.weight"].dtype)
        return x.transpose(0, 3, 1, 2), cm.asarray(labels, device=place)

    def step(self, images: Any, labels: Any) -> Any:
        return self.run(self.params, self.copies, self.stats, self.momentum, images, labels)

    def peak(self) -> int:
        return cm.cuda.max_memory_allocated()

    def reset(self) -> None:
        cm.cuda.reset_peak_memory_stats()

    def profile(self, images: Any, labels: Any) -> str:
        args = self.params, self.copies, self.stats, self.momentum, images, labels
        self.eager(*args)
        with cm.cuda.profile() as taken:
            self.eager(*args)
        rows = sorted(taken.stats(), key=lambda row: -row["total_us"])
        total = sum(row["total_us"] for row in rows)
        lines = [f"{total / 1e3:9.3f} ms in {sum(row['count'] for row in rows)} launches"]
        lines += [
            f"{row['total_us'] / 1e3:9.3f} ms {row['total_us'] / total:6.1%} {row['count']:5} x "
            f"{row['mean_us']:8.1f} us "
            f"(max {row['max_us']:8.1f}) {row['gb_per_s'] or 0:7.0f} GB/s  {row['name']}"
            for row in rows[:48]
        ]
        return "\n".join(lines)

    def close(self) -> None:
        del self.run, self.params, self.copies, self.stats, self.momentum
        gc.collect()
        cm.cuda.empty_cache()


class Torch:
    """PyTorch, eager."""

    name = "torch"

    def __init__(
        self, start: tuple[Tree, Tree], config: resnet.Config, dtype: str, device: str = "cuda"
    ):
        import torch

        torch.backends.cudnn.benchmark = True
        self.torch, self.config, self.dtype, self.device = torch, config, dtype, device
        params, stats = start
        self.params = {name: self.weight(x).requires_grad_() for name, x in params.items()}
        self.stats = {name: torch.from_numpy(x.copy()).to(device) for name, x in stats.items()}
        self.optimizer = torch.optim.SGD(
            self.params.values(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY, fused=True
        )
        self.function = self.loss_function()

    def weight(self, x: np.ndarray) -> Any:
        tensor = self.torch.from_numpy(x.copy()).to(self.device)
        return tensor.permute(0, 3, 1, 2) if x.ndim == 4 else tensor

    def loss_function(self) -> Callable:
        return self.loss

    def normalized(self, x: Any, params: Tree, name: str) -> Any:
        return self.torch.nn.functional.batch_norm(
            x,
            self.stats[f"{name}.running_mean"],
            self.stats[f"{name}.running_var"],
            params[f"{name}.weight"],
            params[f"{name}.bias"],
            training=True,
        )

    def convolved(self, x: Any, params: Tree, name: str, stride: int = 1) -> Any:
        w = params[f"{name}.weight"]
        return self.torch.nn.functional.conv2d(x, w, stride=stride, padding=w.shape[-1] // 2)

    def loss(self, params: Tree, x: Any, labels: Any) -> Any:
        f, c = self.torch.nn.functional, self.config
        x = f.relu(
            self.normalized(self.convolved(x, params, "conv1", 1 if c.small else 2), params, "bn1")
        )
        if not c.small:
            x = f.max_pool2d(x, 3, 2, 1)
        for stage, count in enumerate(c.blocks):
            for i in range(count):
                at, skipped, stride = f"layer{stage + 1}.{i}", x, 2 if stage and not i else 1
                if f"{at}.downsample.0.weight" in params:
                    skipped = self.normalized(
                        self.convolved(x, params, f"{at}.downsample.0", stride),
                        params,
                        f"{at}.downsample.1",
                    )
                strides = (1, stride, 1) if c.bottleneck else (stride, 1)
                for k, step in enumerate(strides, 1):
                    x = self.normalized(
                        self.convolved(x, params, f"{at}.conv{k}", step), params, f"{at}.bn{k}"
                    )
                    x = f.relu(x + skipped if k == len(strides) else x)
        return f.cross_entropy(
            f.linear(x.mean((2, 3)), params["fc.weight"], params["fc.bias"]), labels
        )

    def put(self, images: np.ndarray, labels: np.ndarray) -> tuple:
        torch = self.torch
        x = torch.from_numpy(images).to(self.device).permute(0, 3, 1, 2)
        return x.to(getattr(torch, self.dtype)), torch.from_numpy(labels).to(self.device)

    def gradient(self, images: Any, labels: Any) -> Any:
        torch = self.torch
        with torch.autocast(self.device, torch.bfloat16, enabled=self.dtype == "bfloat16"):
            loss = self.function(self.params, images, labels)
        loss.backward()
        return loss.detach()

    def step(self, images: Any, labels: Any) -> Any:
        loss = self.gradient(images, labels)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def peak(self) -> int:
        return self.torch.cuda.max_memory_allocated()

    def reset(self) -> None:
        self.torch.cuda.reset_peak_memory_stats()

    def profile(self, images: Any, labels: Any) -> str:
        from torch.profiler import ProfilerActivity, profile

        for _ in range(3):
            self.step(images, labels)
        with profile(activities=[ProfilerActivity.CUDA]) as taken:
            self.step(images, labels)
            self.torch.cuda.synchronize()
        rows = sorted(taken.key_averages(), key=lambda row: -row.self_device_time_total)
        total = sum(row.self_device_time_total for row in rows)
        return "\n".join(
            [f"{total / 1e3:9.3f} ms"]
            + [
                f"{row.self_device_time_total / 1e3:9.3f} ms "
                f"{row.self_device_time_total / total:6.1%} {row.count:5} x  "
                f"{row.key[:130]}"
                for row in rows[:40]
            ]
        )

    def close(self) -> None:
        del self.params, self.stats, self.optimizer, self.function
        gc.collect()
        self.torch.cuda.empty_cache()


class Compiled(Torch):
    """PyTorch, forward and backward by torch.compile."""

    name = "torch.compile"

    def loss_function(self) -> Callable:
        return self.torch.compile(self.loss, dynamic=False)


PEERS: dict[str, type] = {kind.name: kind for kind in (Ours, Torch, Compiled)}


# -------------------- what is measured


def beginning(config: resnet.Config) -> tuple[Tree, Tree]:
    """Initial weights and statistics; the normalisations that begin at zero begin at 0.2, so that
    all weights matter."""
    with cm.device("cpu"):
        params, stats = (
            {name: x.to_numpy() for name, x in tree.items()}
            for tree in resnet.create(config, rng=cm.random.default_rng(0))
        )
    return {
        name: np.maximum(x, np.float32(0.2)) if ".bn" in name and name.endswith(".weight") else x
        for name, x in params.items()
    }, stats


def batch(config: resnet.Config, count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Random images (N, H, W, C) and labels."""
    rng = np.random.default_rng(1)
    return (
        rng.standard_normal((count, size, size, config.channels), dtype=np.float32),
        rng.integers(0, config.classes, count),
    )


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """|a - b| / |b|, in the 2-norm."""
    return float(
        np.linalg.norm(a.astype(np.float64) - b) / max(np.linalg.norm(b.astype(np.float64)), 1e-30)
    )


def check(config: resnet.Config, device: str, count: int = 16, size: int = 96) -> None:
    """Print how far losses and gradients are from torch's in float32, and both dtypes' losses over
    some steps."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    start, data = beginning(config), batch(config, count, size)
    ours, theirs = Ours(start, config, "float32", device), Torch(start, config, "float32", device)
    (loss, _), grads = ours.gradient(ours.params, ours.stats, *ours.put(*data))
    reference = theirs.gradient(*theirs.put(*data))
    print(f"float32 loss {float(loss):.7f}, torch {float(reference):.7f}")
    errors = {}
    for name, p in theirs.params.items():
        g = p.grad.permute(0, 2, 3, 1) if p.ndim == 4 else p.grad
        errors[name] = distance(grads[name].to_numpy(), g.cpu().numpy())
    worst = sorted(errors, key=errors.__getitem__, reverse=True)[:5]
    print(
        "float32 gradients, farthest from torch's:",
        ", ".join(f"{name} {errors[name]:.1e}" for name in worst),
    )
    for dtype in ("float32", "bfloat16"):
        curves = {}
        for kind in (Ours, Torch):
            who = kind(start, config, dtype, device)
            put = who.put(*data)
            curves[who.name] = [float(who.step(*put)) for _ in range(6)]
            print(
                f"{dtype} {who.name:9}",
                " ".join(f"{value:.5f}" for value in curves[who.name]),
                flush=True,
            )


def measure(
    kinds: list[type], config: resnet.Config, count: int, size: int, rounds: int, steps: int
) -> list[dict]:
    """Time steps of each, interleaved in random order."""
    start, data = beginning(config), batch(config, count, size)
    rows, there = [], []
    for kind in kinds:
        try:
            before = time.perf_counter()
            who = kind(start, config, "bfloat16")
            put = who.put(*data)
            who.reset()
            for _ in range(4):
                loss = float(who.step(*put))
            there.append((who, put))
            rows.append(
                {
                    "name": who.name,
                    "batch": count,
                    "size": size,
                    "loss": loss,
                    "peak": who.peak(),
                    "seconds": [],
                }
            )
            print(
                f"{who.name}: ready in {time.perf_counter() - before:.1f} s, loss after 4 steps "
                f"{loss:.4f}, "
                f"peak {rows[-1]['peak'] / 2**30:.2f} GiB",
                flush=True,
            )
        except Exception as error:  # one that cannot run must not cost the others their figures
            print(f"{kind.__name__}: {type(error).__name__}: {error}", flush=True)
    turns = [i for i in range(len(there)) for _ in range(rounds)]
    random.Random(0).shuffle(turns)
    for i in turns:
        who, put = there[i]
        who.step(*put)
        loss = who.step(*put)
        float(loss)
        begun = time.perf_counter()
        for _ in range(steps):
            loss = who.step(*put)
        float(loss)
        rows[i]["seconds"].append((time.perf_counter() - begun) / steps)
    for row in rows:
        row["images_per_second"] = count / statistics.median(row["seconds"])
        print(
            f"batch {count:4} {row['name']:14} {row['images_per_second']:8.0f} images/s  "
            f"{1e3 * statistics.median(row['seconds']):8.2f} ms "
            f"({1e3 * min(row['seconds']):.2f} to {1e3 * max(row['seconds']):.2f})  "
            f"{rows[0]['images_per_second'] / row['images_per_second']:6.3f} ours/it",
            flush=True,
        )
    for who, _ in there:
        who.close()
    return rows


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="resnet50", choices=list(resnet.SIZES))
    parser.add_argument("--batches", default="64,128,256")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args(arguments)
    config, kinds = resnet.SIZES[options.model], [PEERS[name] for name in options.peers.split(",")]
    counts = [int(count) for count in options.batches.split(",")]
    if options.check:
        check(config, options.device, size=8 if config.small else 96)
    elif options.profile:
        for kind in kinds:
            who = kind(beginning(config), config, "bfloat16")
            report = who.profile(*who.put(*batch(config, counts[0], options.size)))
            print(f"{who.name}, batch {counts[0]}\n{report}", flush=True)
            who.close()
    else:
        rows: list[dict] = []
        for count in counts:
            rows += measure(kinds, config, count, options.size, options.rounds, options.steps)
            if options.json:
                record = {**environment(options.device), "model": options.model, "rows": rows}
                pathlib.Path(options.json).write_text(json.dumps(record, indent=1) + "\n")
        best = {
            name: max(
                (row["images_per_second"] for row in rows if row["name"] == name), default=0.0
            )
            for name in PEERS
        }
        print("best: " + ", ".join(f"{name} {value:.0f} images/s" for name, value in best.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
