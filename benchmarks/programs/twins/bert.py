"""The BERT-style encoder in PyTorch."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        w, self.heads = c.width, c.heads
        self.q, self.k, self.v, self.out = (nn.Linear(w, w) for _ in range(4))
        self.up, self.down = nn.Linear(w, 4 * w), nn.Linear(4 * w, w)
        self.norm1, self.norm2 = nn.LayerNorm(w), nn.LayerNorm(w)

    def forward(self, x: Any, present: Any) -> Any:
        b, s, w = x.shape
        q, k, v = (
            f(x).view(b, s, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=present[:, None, None, :])
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(b, s, w)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.token_embedding = nn.Embedding(c.vocabulary, c.width)
        self.position_embedding = nn.Embedding(c.length, c.width)
        self.norm = nn.LayerNorm(c.width)
        self.blocks = nn.ModuleList([Block(c) for _ in range(c.layers)])

    def forward(self, tokens: Any, present: Any) -> Any:
        x = self.norm(self.token_embedding(tokens) + self.position_embedding.weight)
        for block in self.blocks:
            x = block(x, present)
        return x


model = Bert
