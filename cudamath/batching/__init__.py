"""`cm.vmap`: a function of one example becomes a function of a batch."""

from .transform import vmap

__all__ = ["vmap"]
