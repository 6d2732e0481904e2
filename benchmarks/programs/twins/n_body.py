"""The attracting bodies in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def acceleration(place: Any, mass: Any) -> Any:
    apart = place[None, :, :] - place[:, None, :]
    square = (apart**2).sum(-1) + 0.01
    return (apart * (mass / (square * torch.sqrt(square)))[:, :, None]).sum(1)


class Bodies(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.steps = c.steps

    def forward(self, place: Any, velocity: Any, mass: Any) -> Any:
        for _ in range(self.steps):
            velocity = velocity + 0.005 * acceleration(place, mass)
            place = place + 0.01 * velocity
            velocity = velocity + 0.005 * acceleration(place, mass)
        return torch.cat([place, velocity])


model = Bodies
