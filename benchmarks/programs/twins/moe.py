"""The mixture of experts in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.c, self.norm = c, nn.RMSNorm(c.width, 1e-5)
        self.gate = nn.Linear(c.width, c.experts, bias=False)
        self.up = nn.Parameter(torch.empty(c.experts, c.width, c.hidden))
        self.down = nn.Parameter(torch.empty(c.experts, c.hidden, c.width))

    def forward(self, x: Any) -> Any:
        c, kind = self.c, getattr(torch, self.c.dtype)
        y = self.norm(x).to(kind)
        best, which = F.softmax(self.gate(y).float(), -1).topk(c.chosen)
        best = best / best.sum(-1, keepdim=True)
        which = which.flatten()
        order = which.argsort(stable=True)
        ends = F.one_hot(which, c.experts).sum(0).cumsum(0).to(torch.int32)
        rows = y[order // c.chosen]
        rows = F.gelu(F.grouped_mm(rows, self.up.to(kind), offs=ends))
        rows = F.grouped_mm(rows, self.down.to(kind), offs=ends)
        rows = rows * best.flatten()[order][:, None].to(kind)
        return x + torch.zeros_like(y).index_add(0, order // c.chosen, rows)


class Experts(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.layers = nn.ModuleList([Layer(c) for _ in range(c.layers)])
        self.head, self.kind = nn.Linear(c.width, c.classes, bias=False), c.dtype

    def forward(self, x: Any, labels: Any) -> Any:
        x = x.to(getattr(torch, self.kind))
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x), labels)


model = Experts
