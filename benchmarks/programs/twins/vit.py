"""The vision transformer in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
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
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.patches = nn.Conv2d(3, c.width, c.patch, c.patch)
        self.class_embedding = nn.Parameter(torch.empty(1, 1, c.width))
        self.position_embedding = nn.Parameter(torch.empty(1, c.patches + 1, c.width))
        self.blocks = nn.ModuleList([Block(c) for _ in range(c.layers)])
        self.norm, self.head = nn.LayerNorm(c.width), nn.Linear(c.width, c.classes)

    def forward(self, images: Any, labels: Any) -> Any:
        x = self.patches(images).flatten(2).transpose(1, 2)
        first = self.class_embedding.expand(len(images), 1, -1)
        x = torch.cat([first, x], 1) + self.position_embedding
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x[:, 0])), labels)


model = ViT
