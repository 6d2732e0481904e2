"""Prices of European options by Black and Scholes, with the Greeks by differentiation."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

import cudamath as cm
from cudamath import special

TRAINS = False


@dataclasses.dataclass(frozen=True)
class Config:
    options: int = 4_000_000
    dtype: str = "float32"


SIZES = {"options": Config()}
SMALL = {"options": Config(50)}


def shapes(c: Config) -> dict[str, tuple[int, ...]]:
    return {}


def inputs(c: Config, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Spot, strike, years, rate and volatility of each option."""
    ranges = (80, 120), (80, 120), (0.2, 2), (0.01, 0.05), (0.1, 0.5)
    return tuple(rng.uniform(low, high, c.options).astype(np.float32) for low, high in ranges)


def normal_cdf(x: Any) -> Any:
    return 0.5 * (1 + special.erf(x / math.sqrt(2)))


def price(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    deviation = volatility * cm.sqrt(years)
    d1 = (cm.log(spot / strike) + (rate + volatility**2 / 2) * years) / deviation
    d2 = d1 - deviation
    return spot * normal_cdf(d1) - strike * cm.exp(-rate * years) * normal_cdf(d2)


def total(*market: Any) -> Any:
    prices = price(*market)
    return prices.sum(), prices


def step(c: Config, params: dict, state: None, *market: Any) -> Any:
    greeks, prices = cm.grad(total, argnums=(0, 2, 3, 4), has_aux=True)(*market)
    delta, theta, rho, vega = greeks
    gamma = cm.grad(lambda s: cm.grad(lambda s: price(s, *market[1:]).sum())(s).sum())(market[0])
    return cm.stack([prices, delta, gamma, -theta, rho, vega])
