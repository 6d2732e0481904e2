"""The Llama-style language model in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def rotated(x: Any) -> Any:
    """Rows of (..., S, D), turned by their positions."""
    length, half = x.shape[-2], x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(length, device=x.device)[:, None] * rates
    cos, sin = angles.cos(), angles.sin()
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.c, kv = c, c.width // c.heads * c.groups
        self.norm1, self.norm2 = nn.RMSNorm(c.width, 1e-5), nn.RMSNorm(c.width, 1e-5)
        self.q = nn.Linear(c.width, c.width, bias=False)
        self.k = nn.Linear(c.width, kv, bias=False)
        self.v = nn.Linear(c.width, kv, bias=False)
        self.o = nn.Linear(c.width, c.width, bias=False)
        self.gate = nn.Linear(c.width, c.hidden, bias=False)
        self.up = nn.Linear(c.width, c.hidden, bias=False)
        self.down = nn.Linear(c.hidden, c.width, bias=False)

    def attention(self, x: Any) -> Any:
        b, s, _ = x.shape
        c = self.c
        depth = c.width // c.heads
        q = rotated(self.q(x).view(b, s, c.heads, depth).transpose(1, 2))
        k = rotated(self.k(x).view(b, s, c.groups, depth).transpose(1, 2))
        v = self.v(x).view(b, s, c.groups, depth).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(b, s, c.width))

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.embedding = nn.Embedding(c.vocabulary, c.width)
        self.blocks = nn.ModuleList([Block(c) for _ in range(c.layers)])
        self.norm = nn.RMSNorm(c.width, 1e-5)
        self.head = nn.Linear(c.width, c.vocabulary, bias=False)

    def forward(self, tokens: Any, targets: Any) -> Any:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


model = Llama
