"""Arrays and comparisons of the tests of NumPy's habits."""

from __future__ import annotations

from typing import Any

import numpy as np
from strategies import eps

import cudamath as cm
from cudamath.core.scalar import Scalar

RNG = np.random.default_rng(7)
CUBE = RNG.integers(-40, 40, (3, 4, 5)) / 8
MATRIX, VECTOR, LINE = CUBE[0], CUBE[0, :, 0], np.array([0.0, 0.5, 0.5, 2.0, 3.5, 7.0])
HOLES = np.where(RNG.random(CUBE.shape) < 0.3, np.nan, CUBE)
HOLES[:, 1, 1] = np.nan
WHOLE = RNG.integers(0, 3, (3, 4))
WILD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5])
COMPLEX = MATRIX + 1j * MATRIX[::-1]


def agree(ours: Any, theirs: Any, error: float = 64.0) -> None:
    """Equal structure, shape and dtype, values within `error` epsilons of the largest."""
    if isinstance(theirs, (list, tuple)):
        assert isinstance(ours, (list, tuple)) and len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            agree(one, other, error)
        return
    if isinstance(theirs, bool):
        assert ours is theirs
        return
    if isinstance(theirs, np.generic | float | int | complex):
        assert isinstance(ours, np.generic | Scalar), f"{type(ours)} is no scalar"
    else:
        assert type(ours) is cm.ndarray, f"{type(ours)} is no array of this package"
    theirs = np.asarray(theirs)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    if theirs.dtype.kind in "fc":
        size = np.max(np.abs(theirs), where=np.isfinite(theirs), initial=1.0)
        allowed = error * eps(theirs.dtype)
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=allowed, atol=allowed * size)
    else:
        np.testing.assert_array_equal(np.asarray(ours), theirs)


def narrow(x: Any) -> Any:
    """A NumPy array in 32 bits."""
    x = np.asarray(x)
    return x.astype({"f": np.float32, "c": np.complex64, "i": np.int32}.get(x.dtype.kind, x.dtype))
