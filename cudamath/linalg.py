"""`cudamath.linalg`: products, norms, decompositions, systems and functions of matrices, as
`numpy.linalg` has them, and special matrices and factors as in `scipy.linalg`."""

from numpy.linalg import LinAlgError

from .core.array import ndarray
from .core.public_names import public_dir
from .core.typing import ArrayLike
from .ops import shape
from .ops.linalg.banded import cho_solve_banded, cholesky_banded, solve_banded, solveh_banded
from .ops.linalg.lobpcg import lobpcg
from .ops.linalg.matrix_functions import (
    cond,
    cross,
    expm,
    expm_frechet,
    lstsq,
    matrix_power,
    matrix_rank,
    multi_dot,
    outer,
    pinv,
    tensorinv,
    tensorsolve,
    trace,
)
from .ops.linalg.norms import matrix_norm, norm, vector_norm
from .ops.linalg.polar import polar
from .ops.linalg.products import dot, gemm, gemv, inner, matmul, tensordot, vdot, vecdot
from .ops.linalg.schur import (
    logm,
    rsf2csf,
    schur,
    solve_continuous_lyapunov,
    solve_sylvester,
    sqrtm,
)
from .ops.linalg.solve import (
    cho_factor,
    cho_solve,
    cholesky,
    det,
    lu,
    lu_factor,
    lu_solve,
    slogdet,
    solve_triangular,
)
from .ops.linalg.special_matrices import (
    bandwidth,
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    khatri_rao,
    leslie,
    toeplitz,
)
from .ops.linalg.spectral import eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from .ops.linalg.systems import inv, solve
from .ops.shape import matrix_transpose

__all__ = [
    "LinAlgError",
    "bandwidth",
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cho_solve_banded",
    "cholesky",
    "cholesky_banded",
    "circulant",
    "companion",
    "cond",
    "convolution_matrix",
    "cross",
    "det",
    "dft",
    "diagonal",
    "dot",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "expm_frechet",
    "fiedler",
    "fiedler_companion",
    "gemm",
    "gemv",
    "hadamard",
    "hankel",
    "helmert",
    "hilbert",
    "inner",
    "inv",
    "khatri_rao",
    "leslie",
    "lobpcg",
    "logm",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "polar",
    "qr",
    "rsf2csf",
    "schur",
    "slogdet",
    "solve",
    "solve_banded",
    "solve_continuous_lyapunov",
    "solve_sylvester",
    "solve_triangular",
    "solveh_banded",
    "sqrtm",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "toeplitz",
    "trace",
    "vdot",
    "vecdot",
    "vector_norm",
]

__dir__ = public_dir(__name__)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> ndarray:
    """A view of the diagonals of the matrices in the last two axes.

    `cm.diagonal`, as in NumPy, takes the first two axes.

    Parameters
    ----------
    x : array_like
        Array of at least.
    offset : int, default 0
        Number of the diagonal, > 0 above and < 0 below the main diagonal.

    Returns
    -------
    ndarray
        View of the diagonals.

    Raises
    ------
    ValueError
        `x` has fewer dimensions.

    Notes
    -----
    The gradient is 0 except on the diagonal, where it is g.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.linalg.diagonal(cm.arange(8).reshape(2, 2, 2)).tolist()
    [[0, 3], [4, 7]]
    """
    return shape.diagonal(x, offset, -2, -1)
