"""GPT-2 in PyTorch."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        w, self.heads = c.width, c.heads
        self.norm1, self.norm2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.qkv, self.out = nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.up, self.down = nn.Linear(w, 4 * w), nn.Linear(4 * w, w)

    def forward(self, x: Any) -> Any:
        b, s, w = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, w))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.token_embedding = nn.Embedding(c.vocabulary, c.width)
        self.position_embedding = nn.Embedding(c.length, c.width)
        self.blocks = nn.ModuleList([Block(c) for _ in range(c.layers)])
        self.norm = nn.LayerNorm(c.width)

    def forward(self, tokens: Any, targets: Any) -> Any:
        x = self.token_embedding(tokens) + self.position_embedding.weight
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token_embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


model = GPT2
