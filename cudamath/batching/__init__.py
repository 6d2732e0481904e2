"""`cm.vmap`: a function of one example becomes a function of a batch."""

from . import compositions, indexing, layers, losses, products, sampling, table, vectors  # noqa: F401
from .transform import vmap

__all__ = ["vmap"]
