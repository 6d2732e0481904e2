"""Graphs as sparse arrays, with SciPy's names: `scipy.sparse.csgraph`. The element (i, j) is the
weight of
the edge from node i to node j."""

from ...core.public_names import public_dir as _public_dir
from .components import connected_components
from .laplacians import laplacian
from .orders import breadth_first_order, reverse_cuthill_mckee
from .paths import NegativeCycleError, bellman_ford, shortest_path

__dir__ = _public_dir(__name__)
