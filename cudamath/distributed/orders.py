"""Orders that all processes share: in which a function reads its parameters, and in which their
gradients are complete.

What travels together, and when, must be the same in all processes. So process 0 observes its first
call and tells the others; all keep to that order from then on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..core.layout import Layout
from ..runtime.communication.world import World

Key = tuple[Layout, ...]


def known(what: str, layouts: Key, world: World) -> tuple[int, ...] | None:
    """The order of arrays of these layouts; None before the first call has ended."""
    found: dict = world.__dict__.setdefault("orders", {})
    return found.get((what, layouts))


def agreed(what: str, layouts: Key, observed: Sequence[int], world: World) -> None:
    """The order that process 0 observed is known from now on. All processes call it."""
    told = world.texts(f"the order of {what}", json.dumps(list(observed)))
    world.__dict__["orders"][what, layouts] = tuple(json.loads(told[0]))
