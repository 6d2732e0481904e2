"""Sparse arrays, with SciPy's names and conventions: `scipy.sparse` on CPU and GPU, with gradients.

`csr_array` and the other formats hold values and arrays of integers, all of them ndarrays on one
device; what they do is made of operations on these, and of a few products with kernels of their own
(products.py). Values carry gradients.
"""

from ..core.public_names import public_dir as _public_dir
from . import csgraph, linalg
from .base import SparseEfficiencyWarning, SparseWarning, issparse, sparray
from .bsr import bsr_array
from .construct import *  # noqa: F403
from .coo import coo_array
from .csc import csc_array
from .csr import csr_array
from .dia import dia_array
from .files import load_npz, save_npz
from .matrix import bsr_matrix, coo_matrix, csc_matrix, csr_matrix, dia_matrix, spmatrix
from .sampled import sampled_product

__dir__ = _public_dir(__name__, "csgraph", "linalg")
