"""GPT-2 in PyTorch as its users write it: modules, DistributedDataParallel, FSDP2, torch.compile.

The parameters have the names and numbers of `models.gpt2`; the table of tokens is padded as there.

    Single        one process of its own, the module compiled whole
    Replicated    DistributedDataParallel, the module compiled whole
    Layered       the same, each layer compiled for itself: one compilation for all layers
    Eager         the same, not compiled
    Sharded       FSDP2 (`fully_shard`), each layer compiled and sharded for itself

The first four have float32 parameters and autocast; FSDP2 casts what it gathers to bfloat16 and
adds gradients in bfloat16, as `Trainer(parallel="zero3")` does. All use fused AdamW and
scaled_dot_product_attention, and clip the gradients' norm to 1.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as f
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from cudamath.models import gpt2

__all__ = ["KINDS", "Single"]


class Layer(nn.Module):
    """Attention, then two linear layers."""

    def __init__(self, config: gpt2.Config, device: str):
        super().__init__()
        width = config.width
        self.heads, self.width = config.heads, width
        self.ln_1 = nn.LayerNorm(width, device=device)
        self.c_attn = nn.Linear(width, 3 * width, device=device)
        self.attn_c_proj = nn.Linear(width, width, device=device)
        self.ln_2 = nn.LayerNorm(width, device=device)
        self.c_fc = nn.Linear(width, 4 * width, device=device)
        self.mlp_c_proj = nn.Linear(4 * width, width, device=device)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.c_attn(self.ln_1(x)).split(self.width, 2)
        )
        y = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_c_proj(y.transpose(1, 2).reshape(batch, length, self.width))
        y = f.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.mlp_c_proj(y)


class Net(nn.Module):
    """Tokens and targets -> the mean cross entropy."""

    def __init__(self, config: gpt2.Config, device: str):
        super().__init__()
        self.wte = nn.Embedding(config.rows, config.width, device=device)
        self.wpe = nn.Embedding(config.context, config.width, device=device)
        self.layers = nn.ModuleList([Layer(config, device) for _ in range(config.layers)])
        self.ln_f = nn.LayerNorm(config.width, device=device)
        self.head: Callable = head

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln_f(x), self.wte.weight, targets)


def head(x: torch.Tensor, table: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of final states. The table's padding takes part: leaving it out costs a copy."""
    scores = f.linear(x, table)
    return f.cross_entropy(scores.view(-1, scores.shape[-1]).float(), targets.view(-1))


def ours(name: str) -> str:
    """A parameter's name in `models.gpt2`."""
    parts = name.split(".")
    if parts[0] != "layers":
        return name
    group = {"c_attn": "attn.c_attn", "attn_c_proj": "attn.c_proj"} | {
        "c_fc": "mlp.c_fc",
        "mlp_c_proj": "mlp.c_proj",
    }
    return f"h.{parts[1]}.{group.get(parts[2], parts[2])}.{parts[3]}"


class Single:
    """A process of its own. start: name -> parameter of cudamath, on the same device."""

    replicated = sharded = False
    compiled = "whole"

    def __init__(
        self, start: dict[str, Any], config: gpt2.Config, device: str, rate: float, decay: float
    ):
        torch.set_float32_matmul_precision("high")
        self.place_at, self.kind = device, device.partition(":")[0]
        net = Net(config, device)
        with torch.no_grad():
            for name, p in net.named_parameters():
                p.copy_(torch.from_dlpack(start[ours(name)]))
        run: Any = net
        if self.compiled == "layers":
            for layer in net.layers:
                layer.compile(dynamic=False)
            net.head = torch.compile(head, dynamic=False)
        if self.replicated:
            index = torch.device(device).index
            run = nn.parallel.DistributedDataParallel(
                net, device_ids=None if index is None else [index], gradient_as_bucket_view=True
            )
        if self.sharded:
            mesh = init_device_mesh(self.kind, (torch.distributed.get_world_size(),))
            policy = MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16)
            for layer in net.layers:
                fully_shard(layer, mesh=mesh, mp_policy=policy)
            fully_shard(net, mesh=mesh, mp_policy=policy)
        self.run = torch.compile(run, dynamic=False) if self.compiled == "whole" else run
        self.params = list(net.parameters())
        groups = [[p for p in self.params if (p.ndim > 1) is matrix] for matrix in (True, False)]
        self.optimizer = torch.optim.AdamW(
            [{"params": groups[0], "weight_decay": decay}, {"params": groups[1]}],
            lr=rate,
            betas=(0.9, 0.95),
            weight_decay=0.0,
            fused=True,
        )

    def place(self, batch: Any) -> tuple:
        """Tokens and targets in the integers that PyTorch wants."""
        return tuple(torch.tensor(x, dtype=torch.int64, device=self.place_at) for x in batch)

    def step(self, tokens: Any, targets: Any) -> Any:
        """One step; the loss before it, for which nobody has waited."""
        mixed = (
            contextlib.nullcontext() if self.sharded else torch.autocast(self.kind, torch.bfloat16)
        )
        with mixed:
            loss = self.run(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        loss = loss.detach()
        return loss.to_local() if isinstance(loss, DTensor) else loss

    def reset(self) -> None:
        """Begin to look for the peak."""
        gc.collect()
        if self.kind == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def memory(self) -> tuple[int, int]:
        """Bytes in use at the peak, and held from the driver."""
        if self.kind != "cuda":
            return 0, 0
        return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()

    def close(self) -> None:
        """Give all memory back."""
        del self.run, self.params, self.optimizer
        gc.collect()
        torch._dynamo.reset()
        if self.kind == "cuda":
            torch.cuda.empty_cache()


class Replicated(Single):
    """DistributedDataParallel."""

    replicated = True


class Layered(Replicated):
    """The same; each layer is compiled for itself."""

    compiled = "layers"


class Eager(Replicated):
    """The same without torch.compile."""

    compiled = ""


class Sharded(Single):
    """FSDP2."""

    sharded = True
    compiled = "layers"


KINDS: dict[str, type[Single]] = {
    "torch.alone": Single,
    "ddp": Replicated,
    "ddp.layers": Layered,
    "ddp.eager": Eager,
    "fsdp2": Sharded,
}
