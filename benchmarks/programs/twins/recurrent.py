"""The LSTM and GRU language models of two layers in PyTorch (cuDNN)."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import nn


class Recurrent(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.embedding = nn.Embedding(c.vocabulary, c.width)
        kind = nn.LSTM if c.kind == "lstm" else nn.GRU
        self.layers = kind(c.width, c.width, c.layers)
        self.head = nn.Linear(c.width, c.vocabulary)

    def forward(self, tokens: Any, targets: Any) -> Any:
        states, _ = self.layers(self.embedding(tokens.T))
        return F.cross_entropy(self.head(states).flatten(0, 1), targets.T.flatten())


model = Recurrent
