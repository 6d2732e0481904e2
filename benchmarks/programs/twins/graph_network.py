"""The graph network in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, w: int):
        super().__init__()
        self.message, self.update = nn.Linear(2 * w, w), nn.Linear(2 * w, w)
        self.norm = nn.LayerNorm(w)

    def forward(self, x: Any, source: Any, target: Any) -> Any:
        messages = F.relu(self.message(torch.cat([x[source], x[target]], -1)))
        gathered = torch.zeros_like(x).index_add(0, target, messages)
        return x + F.relu(self.norm(self.update(torch.cat([x, gathered], -1))))


class GraphNetwork(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.layers = nn.ModuleList([Layer(c.width) for _ in range(c.layers)])
        self.head = nn.Linear(c.width, c.classes)

    def forward(self, x: Any, source: Any, target: Any, labels: Any) -> Any:
        for layer in self.layers:
            x = layer(x, source, target)
        return F.cross_entropy(self.head(x), labels)


model = GraphNetwork
