"""The LSTM and GRU language models by hand, in PyTorch: a loop over the steps."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class ByHand(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.c, gates = c, c.gates * c.width
        self.embedding = nn.Embedding(c.vocabulary, c.width)
        self.inputs, self.states = nn.Linear(c.width, gates), nn.Linear(c.width, gates)
        self.head = nn.Linear(c.width, c.vocabulary)

    def lstm_step(self, h: Any, cell: Any, x: Any) -> tuple:
        i, f, g, o = (x + self.states(h)).chunk(4, -1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell

    def gru_step(self, h: Any, x: Any) -> Any:
        xr, xz, xn = x.chunk(3, -1)
        hr, hz, hn = self.states(h).chunk(3, -1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h

    def forward(self, tokens: Any, targets: Any) -> Any:
        x = self.inputs(self.embedding(tokens.T))
        h = cell = x.new_zeros(self.c.batch, self.c.width)
        states = []
        for row in x:
            if self.c.kind == "lstm":
                h, cell = self.lstm_step(h, cell, row)
            else:
                h = self.gru_step(h, row)
            states.append(h)
        logits = self.head(torch.stack(states).flatten(0, 1))
        return F.cross_entropy(logits, targets.T.flatten())


model = ByHand
