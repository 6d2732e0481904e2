"""The physics-informed network in PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.func import grad


class Network(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        sizes = [2, *[c.width] * c.layers, 1]
        pairs = zip(sizes, sizes[1:], strict=False)
        self.layers = nn.ModuleList([nn.Linear(of, to) for of, to in pairs])

    def network(self, x: Any, t: Any) -> Any:
        y = torch.stack([x, t], -1)
        for layer in self.layers[:-1]:
            y = torch.tanh(layer(y))
        return self.layers[-1](y)[:, 0]

    def forward(self, x: Any, t: Any, start: Any, values: Any) -> Any:
        def by_x(x: Any) -> Any:
            return grad(lambda x: self.network(x, t).sum())(x)

        u = self.network(x, t)
        u_t = grad(lambda t: self.network(x, t).sum())(t)
        u_x, u_xx = by_x(x), grad(lambda x: by_x(x).sum())(x)
        residual = u_t + u * u_x - 0.01 / math.pi * u_xx
        there = self.network(start, torch.zeros_like(start))
        return torch.mean(residual**2) + torch.mean((there - values) ** 2)


model = Network
