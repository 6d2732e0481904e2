"""Who runs the programs: cudamath eagerly and by `cm.jit`; PyTorch eagerly and compiled.

Each runs in a process of its own, which `main` is: it builds the program, takes some steps, whose
results are kept for comparison, and times others.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.programs import values
from benchmarks.programs.turns import alone

STEPS = 4  # whose results are compared
ROUND = 0.05  # seconds of a timed round, at least
MODULES = (
    "n_body",  # torch.compile takes minutes for it: it begins first
    "llama",
    "gpt2",
    "bert",
    "vit",
    "convnext",
    "unet",
    "moe",
    "recurrent_by_hand",
    "recurrent",
    "vae",
    "graph_network",
    "dlrm",
    "pinn",
    "kalman",
    "options",
    "ensemble",
)


def ours(module: str) -> Any:
    """A program of cudamath's."""
    return importlib.import_module(f"benchmarks.programs.ours.{module}")


def cases() -> dict[str, tuple[str, Any]]:
    """Name -> module and configuration, of the sizes for a GPU."""
    return {name: (module, c) for module in MODULES for name, c in ours(module).SIZES.items()}


def small() -> dict[str, tuple[str, Any]]:
    """Name -> module and configuration, of the sizes for a CPU."""
    return {name: (module, c) for module in MODULES for name, c in ours(module).SMALL.items()}


def data(module: str, c: Any) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, ...]]:
    """Weights and inputs."""
    program = ours(module)
    return values.weights(program.shapes(c)), program.inputs(c, np.random.default_rng(1))


class Eager:
    """cudamath, each operation when it is called."""

    def __init__(self, module: str, c: Any, device: str):
        import cudamath as cm

        self.cm, self.device, program = cm, device, ours(module)
        weights, inputs = data(module, c)
        dtype = "float32" if program.TRAINS else c.dtype
        # each is cast before the next is there, as in PyTorch's `model.to`
        params = {n: cm.asarray(w, device=device).astype(dtype) for n, w in weights.items()}
        state = cm.ml.adam_init(params) if program.TRAINS else None
        self.arguments = c, params, state, *[cm.asarray(x, device=device) for x in inputs]
        self.run = self.function(program.step)

    def function(self, step: Callable) -> Callable:
        return step

    def step(self) -> Any:
        with self.cm.device(self.device):
            return self.run(*self.arguments)

    def numpy(self, result: Any) -> np.ndarray:
        return np.asarray(self.cm.asarray(result).astype("float32", copy=False).to_numpy())

    def wait(self) -> None:
        if self.device != "cpu":
            self.cm.cuda.synchronize()

    def forget_peak(self) -> None:
        if self.device != "cpu":
            self.cm.cuda.reset_peak_memory_stats()

    def memory(self) -> dict[str, int]:
        if self.device == "cpu":
            return {}
        cuda = self.cm.cuda
        return {"peak": cuda.max_memory_allocated(), "reserved": cuda.memory_reserved()}


class Jit(Eager):
    """cudamath, by `cm.jit`."""

    def function(self, step: Callable) -> Callable:
        return self.cm.jit(step, static_argnums=0)


class Torch:
    """PyTorch, eager: autocast, fused AdamW."""

    def __init__(self, module: str, c: Any, device: str):
        import torch

        self.torch, self.device = torch, device
        self.trains = ours(module).TRAINS
        twin = importlib.import_module(f"benchmarks.programs.twins.{module}")
        weights, inputs = data(module, c)
        model = twin.model(c)
        model.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
        model.to(device)
        if self.trains:
            self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
        else:
            model.to(getattr(torch, c.dtype))
        self.half = self.trains and c.dtype == "bfloat16"
        self.inputs = [torch.from_numpy(np.ascontiguousarray(x)).to(device) for x in inputs]
        self.model = self.function(model)

    def function(self, model: Any) -> Any:
        return model

    def step(self) -> Any:
        if not self.trains:
            with self.torch.no_grad():
                return self.model(*self.inputs)
        with self.torch.autocast(self.device, self.torch.bfloat16, enabled=self.half):
            loss = self.model(*self.inputs)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def numpy(self, result: Any) -> np.ndarray:
        return result.float().cpu().numpy()

    def wait(self) -> None:
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def forget_peak(self) -> None:
        if self.device != "cpu":
            self.torch.cuda.reset_peak_memory_stats()

    def memory(self) -> dict[str, int]:
        if self.device == "cpu":
            return {}
        cuda = self.torch.cuda
        return {"peak": cuda.max_memory_allocated(), "reserved": cuda.memory_reserved()}


class Compiled(Torch):
    """PyTorch, by `torch.compile`; the optimizer runs fused, beside it."""

    def function(self, model: Any) -> Any:
        return self.torch.compile(model, dynamic=False)


class Reduced(Torch):
    """PyTorch, by `torch.compile(mode="reduce-overhead")`: with CUDA graphs."""

    def function(self, model: Any) -> Any:
        return self.torch.compile(model, dynamic=False, mode="reduce-overhead")

    def step(self) -> Any:
        self.torch.compiler.cudagraph_mark_step_begin()
        return super().step()


PEERS: dict[str, type] = {
    "eager": Eager,
    "jit": Jit,
    "torch": Torch,
    "compile": Compiled,
    "reduce-overhead": Reduced,
}


def results(peer: Any) -> np.ndarray:
    """What the first steps give: losses, or a sample of the last result."""
    taken = [peer.numpy(peer.step()).ravel() for _ in range(STEPS)]
    return (
        np.concatenate(taken) if taken[0].size == 1 else taken[-1][:: 1 + taken[-1].size // 65536]
    )


def timed(peer: Any, rounds: int) -> dict[str, float]:
    """Seconds of a step: the host's clock over rounds of many steps, from one wait to the next."""

    def spent(steps: int) -> float:
        peer.wait()
        begun = time.perf_counter()
        for _ in range(steps):
            peer.step()
        peer.wait()
        return time.perf_counter() - begun

    spent(2)
    steps = max(2, math.ceil(ROUND / spent(3) * 3))
    each = [spent(steps) / steps for _ in range(rounds)]
    return {"seconds": statistics.median(each), "least": min(each), "most": max(each)}


def main(argv: list[str] | None = None) -> int:
    """One program by one peer; the record goes to `--out`, the results beside it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs.peers")
    parser.add_argument("name")
    parser.add_argument("peer", choices=list(PEERS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--rounds", type=int, default=0, help="0: without timing")
    parser.add_argument("--turn", help="how to wait for others (turns.py)")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    chosen = parser.parse_args(argv)
    module, c = (small() if chosen.small else cases())[chosen.name]
    peer = PEERS[chosen.peer](module, c, chosen.device)
    peer.wait()
    peer.forget_peak()  # that of the weights' conversion, before the first step
    begun = time.perf_counter()
    first = peer.numpy(peer.step())
    record: dict[str, Any] = {"began": begun, "first_call": time.perf_counter() - begun}
    np.save(chosen.out.with_suffix(".npy"), np.concatenate([first.ravel()[:65536], results(peer)]))
    if chosen.rounds:
        with alone(chosen.turn):
            record |= timed(peer, chosen.rounds)
    record |= peer.memory()
    chosen.out.write_text(json.dumps(record))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
