"""SciPy's own tests of its functions that cudamath has, with their imports changed:
`python tests/scipy_suite/scipy_suite.py`.

The machinery and the options are those of numpy_suite.py: arrays are cudamath's, and `scipy.fft`,
`scipy.linalg`, `scipy.sparse` and `scipy.special` are `cm.fft`, `cm.linalg`, `cm.sparse` and
`cm.special`. A test of a function that cudamath does not have does not count.
"""

from __future__ import annotations

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "numpy_suite"))

import numpy_suite  # noqa: E402
import scipy  # noqa: E402

FILES = tuple(
    f"{folder}/tests/test_{name}"
    for folder, names in {
        "fft": "basic fftlog helper real_transforms",
        "linalg": "basic decomp decomp_cholesky decomp_lu decomp_polar matfuncs solvers "
        "special_matrices",
        "special": "basic bdtr boxcox digamma erfinv exponential_integrals gamma "
        "gammainc lambertw log1mexp loggamma logit logsumexp ndtr pdtr round sici "
        "spfun_stats sph_harm trig zeta",
        "sparse": "arithmetic1d array_api base common1d construct coo csc csr dok extract "
        "indexing1d matrix_io minmax1d",
        "sparse/linalg": "expm_multiply interface matfuncs norm onenormest",
        "sparse/linalg/_dsolve": "linsolve",
        "sparse/linalg/_eigen": "svds",
        "sparse/linalg/_isolve": "iterative lsmr lsqr minres",
        "sparse/csgraph": "connected_components conversions flow graph_laplacian matching "
        "reordering shortest_path spanning_tree traversal",
    }.items()
    for name in names.split()
)
SUITE = numpy_suite.Suite(pathlib.Path(scipy.__file__).parent, scipy.__version__, FILES, HERE)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parents[1]))
    numpy_suite.main(SUITE)
