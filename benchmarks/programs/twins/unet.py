"""The U-Net with attention in PyTorch."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, a: int, b: int, time: int, groups: int):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, a), nn.GroupNorm(groups, b)
        self.conv1 = nn.Conv2d(a, b, 3, padding=1)
        self.conv2 = nn.Conv2d(b, b, 3, padding=1)
        self.time = nn.Linear(time, b)
        self.skip = nn.Conv2d(a, b, 1) if a != b else None

    def forward(self, x: Any, time: Any) -> Any:
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        y = self.conv2(F.silu(self.norm2(y)))
        return y + (x if self.skip is None else self.skip(x))


class Attention(nn.Module):
    def __init__(self, w: int, heads: int, groups: int):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(groups, w)
        self.qkv, self.out = nn.Conv2d(w, 3 * w, 1), nn.Conv2d(w, w, 1)

    def forward(self, x: Any) -> Any:
        b, w, h, _ = x.shape
        qkv = self.qkv(self.norm(x)).view(b, 3, self.heads, w // self.heads, h * h)
        q, k, v = qkv.permute(1, 0, 2, 4, 3)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(2, 3).reshape(b, w, h, h))


class UNet(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        first = c.widths[0]
        self.count, self.half = len(c.widths), first // 2
        self.time1, self.time2 = nn.Linear(first, first * 4), nn.Linear(first * 4, first * 4)
        self.first = nn.Conv2d(3, first, 3, padding=1)
        for name, (a, b) in c.blocks.items():
            setattr(self, name, Block(a, b, first * 4, c.groups))
        self.attention = Attention(c.widths[-1], c.heads, c.groups)
        self.norm = nn.GroupNorm(c.groups, first)
        self.last = nn.Conv2d(first, 3, 3, padding=1)

    def predicted(self, x: Any, times: Any) -> Any:
        steps = torch.arange(self.half, device=times.device)
        angles = times[:, None] * torch.exp(-math.log(10000) / self.half * steps)
        time = torch.cat([angles.sin(), angles.cos()], -1)
        time = self.time2(F.silu(self.time1(time)))
        x, skips = self.first(x), []
        for i in range(self.count):
            x = getattr(self, f"down{i}")(x, time)
            skips.append(x)
            if i < self.count - 1:
                x = F.avg_pool2d(x, 2)
        x = self.middle1(self.attention(self.middle0(x, time)), time)
        for i in reversed(range(self.count)):
            x = getattr(self, f"up{i}")(torch.cat([x, skips[i]], 1), time)
            if i:
                x = F.interpolate(x, scale_factor=2)
        return self.last(F.silu(self.norm(x)))

    def forward(self, noisy: Any, times: Any, noise: Any) -> Any:
        return F.mse_loss(self.predicted(noisy, times).float(), noise)


model = UNet
