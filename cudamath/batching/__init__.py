"""`cm.vmap`: a function of one example becomes a function of a batch."""

from . import (  # noqa: F401
    compositions,
    indexing,
    layers,
    losses,
    products,
    sampling,
    sparse,
    table,
    training,
    vectors,
)
from .transform import vmap

__all__ = ["vmap"]
