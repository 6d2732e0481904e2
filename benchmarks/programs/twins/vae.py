"""The variational autoencoder in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class VAE(nn.Module):
    def __init__(self, c: Any):
        super().__init__()
        self.encoder1, self.encoder2 = nn.Linear(c.pixels, c.hidden), nn.Linear(c.hidden, c.hidden)
        self.mean, self.logvar = nn.Linear(c.hidden, c.latent), nn.Linear(c.hidden, c.latent)
        self.decoder1, self.decoder2 = nn.Linear(c.latent, c.hidden), nn.Linear(c.hidden, c.hidden)
        self.decoder3 = nn.Linear(c.hidden, c.pixels)

    def forward(self, images: Any, noise: Any) -> Any:
        x = F.relu(self.encoder2(F.relu(self.encoder1(images))))
        mean, logvar = self.mean(x), self.logvar(x)
        z = mean + torch.exp(0.5 * logvar) * noise
        y = self.decoder3(F.relu(self.decoder2(F.relu(self.decoder1(z)))))
        likelihood = F.binary_cross_entropy_with_logits(y, images, reduction="sum")
        divergence = -0.5 * torch.sum(1 + logvar - mean**2 - logvar.exp())
        return (likelihood + divergence) / len(images)


model = VAE
