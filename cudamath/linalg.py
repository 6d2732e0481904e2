"""`cudamath.linalg`: products and norms of vectors and matrices."""

from typing import Any

from .core.array import ndarray
from .ops import shape
from .ops.linalg import matmul, matrix_norm, norm, outer, tensordot, vecdot, vector_norm
from .ops.shape import matrix_transpose

__all__ = ["diagonal", "matmul", "matrix_norm", "matrix_transpose", "norm", "outer", "tensordot", "vecdot", "vector_norm"]


def diagonal(x: Any, /, *, offset: int = 0) -> ndarray:
    """A view of the diagonals of the matrices in the last two axes. (`cm.diagonal`, as in NumPy, takes the first two.)

    Args: x: array of at least 2 dimensions; offset: > 0 above, < 0 below the main diagonal. Raises: ValueError if `x`
    has fewer dimensions. Gradient: zeros with the gradient on the diagonal.

    >>> import cudamath as cm
    >>> cm.linalg.diagonal(cm.arange(8).reshape(2, 2, 2)).tolist()
    [[0, 3], [4, 7]]
    """
    return shape.diagonal(x, offset, -2, -1)
