"""Linear algebra with sparse arrays and operators, with SciPy's names: `scipy.sparse.linalg`.

Iterations and solutions with factors run on the device of their arrays.
"""

from numpy.linalg import LinAlgError

from ...core.public_names import public_dir as _public_dir
from ...ops.linalg.lobpcg import lobpcg
from .direct import SuperLU, factorized, inv, matrix_power, splu, spsolve, spsolve_triangular
from .eigen import ArpackNoConvergence, eigsh, svds
from .iterative import bicg, bicgstab, cg, cgs, gmres, minres
from .least_squares import lsmr, lsqr
from .norms import norm
from .operators import LinearOperator, aslinearoperator

__dir__ = _public_dir(__name__)
