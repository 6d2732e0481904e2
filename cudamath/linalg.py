"""`cudamath.linalg`: products and norms of vectors and matrices."""

from .ops.linalg import matmul, matrix_norm, norm, outer, tensordot, vecdot, vector_norm
from .ops.shape import diagonal, matrix_transpose

__all__ = ["diagonal", "matmul", "matrix_norm", "matrix_transpose", "norm", "outer", "tensordot", "vecdot", "vector_norm"]
