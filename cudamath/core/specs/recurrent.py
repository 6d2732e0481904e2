"""What the CPU functions and the library calls of recurrent layers agree on: how the weights of all
layers lie in one vector."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

#: Parts of the weights by the kind of layer.
GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}


class Tensor(NamedTuple):
    """A matrix or a bias in the vector of weights: of which layer and direction (`end`), which
    (`role`: "ih", "hh", "hr", "bias_ih" or "bias_hh"), its shape, and its first element."""

    end: int
    role: str
    shape: tuple[int, ...]
    start: int

    @property
    def part(self) -> slice:
        """Its elements."""
        return slice(self.start, self.start + math.prod(self.shape))


class Layers(NamedTuple):
    """Recurrent layers.

    Parameters
    ----------
    kind : str
        "tanh", "relu", "lstm" or "gru".
    features : int
        Numbers of an input.
    units : int
        Numbers that the gates give.
    out : int
        Numbers of an output in one direction: units, without a projection.
    layers, directions : int
        How many there are.
    bias : bool
        Whether each product has a bias.
    """

    kind: str
    features: int
    units: int
    out: int
    layers: int
    directions: int
    bias: bool

    @property
    def gates(self) -> int:
        return GATES[self.kind]

    @property
    def ends(self) -> int:
        """Layers and directions together."""
        return self.layers * self.directions

    @property
    def projected(self) -> bool:
        return self.out != self.units


@functools.cache
def tensors(layers: Layers) -> tuple[Tensor, ...]:
    """All weights in their order: the matrices of all layers and directions, then all biases."""
    rows, found, start = layers.gates * layers.units, [], 0

    def add(end: int, role: str, *shape: int) -> None:
        nonlocal start
        found.append(Tensor(end, role, shape, start))
        start = found[-1].part.stop

    for end in range(layers.ends):
        first = end < layers.directions
        add(end, "ih", rows, layers.features if first else layers.out * layers.directions)
        add(end, "hh", rows, layers.out)
        if layers.projected:
            add(end, "hr", layers.out, layers.units)
    for end in range(layers.ends if layers.bias else 0):
        add(end, "bias_ih", rows)
        add(end, "bias_hh", rows)
    return tuple(found)


def count(layers: Layers) -> int:
    """Elements of the vector of weights."""
    return tensors(layers)[-1].part.stop
