"""Scales of rows and columns that bring the elements of a matrix to like sizes.

With d = 2^u, the matrix diag(d)^-1 a diag(d) has the elements a_ij 2^(u_j - u_i), and its functions
are those of a, scaled alike. No scale changes the product of the elements along a cycle, so
elements can become as small as the largest geometric mean of a cycle, and no smaller. Elements of
no cycle, as those of triangular matrices, can become as small as one likes.
"""

from __future__ import annotations

import numpy as np

from ...core import dtypes
from ...core.array import ndarray
from ...core.asarray import asarray

#: Only elements larger than this are worth the search.
LARGE = 2.0**16
_ROUNDS = 50  # of one search; it begins anew with a larger bound
_HALVINGS = 8


def exponents(a: np.ndarray) -> np.ndarray:
    """a: (n, n) -> (n,) whole numbers u for which the largest |a_ij| 2^(u_j - u_i) is nearly as
    small as can be, but not below the diagonal or 1."""
    with np.errstate(divide="ignore"):
        sizes = np.log2(np.abs(a))
    least, most = max(float(sizes.diagonal().max()), 0.0), float(sizes.max())
    best = np.zeros(len(a))
    bound = least
    for _ in range(_HALVINGS):
        if most - least < 4:
            break
        found = _potentials(sizes - bound)
        if found is None:
            least = bound
        else:
            best, most = found, bound
        bound = (least + most) / 2
    most = np.finfo(a.dtype).maxexp - 8
    return np.clip(np.rint(best - (best.max() + best.min()) / 2), -most, most)


def _potentials(weights: np.ndarray) -> np.ndarray | None:
    """u with weights_ij <= u_i - u_j: the longest paths (Bellman 1958); None where they do not end,
    or not soon."""
    u = np.zeros(len(weights))
    for _ in range(_ROUNDS):
        longer = np.maximum((weights + u).max(axis=1), u)
        if (longer - u).max() < 0.5:
            return u
        u = longer
    return None


def factors(u: np.ndarray, like: ndarray) -> tuple[ndarray, ndarray]:
    """u: (..., n) -> two arrays (..., n, n) with the product 2^(u_j - u_i): neither overflows,
    and no product with the first does where that with both does not."""
    whole = u[..., None, :] - u[..., None]
    half = np.trunc(whole / 2)
    real = dtypes.real_dtype(like.dtype)
    return (
        asarray(np.exp2(half).astype(real), device=like.device),
        asarray(np.exp2(whole - half).astype(real), device=like.device),
    )
