"""Sparse arrays in .npz files, in SciPy's form."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.typing import DeviceLike
from ..ops.creation import asarray
from .base import issparse
from .kinds import ARRAYS, MATRICES

__all__ = ["load_npz", "save_npz"]

#: What an array of a format is made of, beside its values.
_PARTS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "dia": ("offsets",),
    "coo": ("row", "col"),
}


def save_npz(file: Any, matrix: Any, compressed: bool = True) -> None:
    """Write a sparse array to a file that `scipy.sparse.load_npz` reads, too.

    Parameters
    ----------
    file : str, path or file object
        Where it is written; ".npz" is added to a name without it.
    matrix : sparse array
        Of any format.
    compressed : bool, default True
        Whether the file is compressed.

    Raises
    ------
    TypeError
        `matrix` is no sparse array.

    Examples
    --------
    >>> import io
    >>> import cudamath as cm
    >>> file = io.BytesIO()
    >>> cm.sparse.save_npz(file, cm.sparse.csr_array([[0.0, 2.0]]))
    >>> _ = file.seek(0)
    >>> cm.sparse.load_npz(file).toarray().tolist()
    [[0.0, 2.0]]
    """
    if not issparse(matrix):
        raise TypeError(f"save_npz: wants a sparse array, got {type(matrix).__name__}")
    parts = {name: getattr(matrix, name).to_numpy() for name in _PARTS[matrix.format]}
    if matrix.ndim == 1:
        parts = {"coords": np.stack([index.to_numpy() for index in matrix.coords])}
    if matrix.kinds is ARRAYS:
        parts["_is_array"] = np.array(True)
    save = np.savez_compressed if compressed else np.savez
    save(
        file,
        format=np.array(matrix.format.encode("ascii")),
        shape=np.array(matrix.shape),
        data=matrix.data.to_numpy(),
        **parts,
    )


def load_npz(file: Any, *, device: DeviceLike | None = None) -> Any:
    """Read a sparse array from a file that `save_npz` wrote, SciPy's or this one.

    Parameters
    ----------
    file : str, path or file object
        Where it is read from.
    device : device_like, optional
        Device of the array. The default is the default device.

    Returns
    -------
    sparse array or matrix
        Of the format and class that were written.

    Raises
    ------
    ValueError
        The file holds no sparse array.

    Examples
    --------
    >>> import io
    >>> import cudamath as cm
    >>> file = io.BytesIO()
    >>> cm.sparse.save_npz(file, cm.sparse.eye_array(2, format="csc"))
    >>> _ = file.seek(0)
    >>> cm.sparse.load_npz(file).format
    'csc'
    """
    with np.load(file, allow_pickle=False) as loaded:
        held = dict(loaded)
    if "format" not in held:
        raise ValueError(f"load_npz: wants a file of a sparse array, got one of {sorted(held)}")
    format = held["format"].item()
    format = format.decode("ascii") if isinstance(format, bytes) else format
    names = ("coords",) if "coords" in held else _PARTS.get(format, ())
    if format not in _PARTS or not {"data", "shape", *names} <= set(held):
        raise ValueError(f"load_npz: wants a known format with its arrays, got {format!r:.40}")
    kind = (ARRAYS if "_is_array" in held else MATRICES)[format]
    parts = [asarray(held[name], device=device) for name in names]
    data = asarray(held["data"], device=device)
    if format == "coo":
        coords = tuple(parts[0]) if "coords" in held else tuple(parts)
        return kind((data, coords), shape=tuple(held["shape"].tolist()))
    return kind((data, *parts), shape=tuple(held["shape"].tolist()))
