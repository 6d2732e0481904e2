"""The recommender in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class DLRM(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.embedding = nn.ModuleList([nn.Embedding(c.rows, c.width) for _ in range(c.tables)])
        rows, columns = map(torch.from_numpy, c.pairs)
        self.register_buffer("rows", rows, persistent=False)
        self.register_buffer("columns", columns, persistent=False)
        self.bottom1, self.bottom2 = nn.Linear(c.dense, c.hidden), nn.Linear(c.hidden, c.width)
        self.top1 = nn.Linear(c.width + len(rows), c.hidden)
        self.top2, self.top3 = nn.Linear(c.hidden, c.hidden), nn.Linear(c.hidden, 1)

    def forward(self, dense: Any, categories: Any, clicks: Any) -> Any:
        x = F.relu(self.bottom2(F.relu(self.bottom1(dense))))
        looked_up = [table(row) for table, row in zip(self.embedding, categories, strict=True)]
        features = torch.stack([x, *looked_up], 1)
        products = features @ features.transpose(1, 2)
        x = torch.cat([x, products[:, self.rows, self.columns]], -1)
        x = F.relu(self.top2(F.relu(self.top1(x))))
        return F.binary_cross_entropy_with_logits(self.top3(x)[:, 0], clicks)


model = DLRM
