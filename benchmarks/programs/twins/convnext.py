"""ConvNeXt in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, w: int):
        super().__init__()
        self.depthwise = nn.Conv2d(w, w, 7, padding=3, groups=w)
        self.norm = nn.LayerNorm(w, 1e-6)
        self.up, self.down = nn.Linear(w, 4 * w), nn.Linear(4 * w, w)
        self.scale = nn.Parameter(torch.empty(w))

    def forward(self, x: Any) -> Any:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(F.gelu(self.up(y))) * self.scale
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        befores = (3, *c.widths[:-1])
        self.downs, self.norms, self.stages = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for i, (depth, before, w) in enumerate(zip(c.depths, befores, c.widths, strict=True)):
            self.downs.append(nn.Conv2d(before, w, 2 if i else 4, 2 if i else 4))
            self.norms.append(nn.LayerNorm(before if i else w, 1e-6))
            self.stages.append(nn.Sequential(*[Block(w) for _ in range(depth)]))
        self.norm = nn.LayerNorm(c.widths[-1], 1e-6)
        self.head = nn.Linear(c.widths[-1], c.classes)

    def forward(self, images: Any, labels: Any) -> Any:
        x = images
        for i, stage in enumerate(self.stages):
            if i:
                x = self.norms[i](x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            x = self.downs[i](x)
            if not i:
                x = self.norms[0](x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            x = stage(x)
        return F.cross_entropy(self.head(self.norm(x.mean((2, 3)))), labels)


model = ConvNeXt
