"""Arrays in files: `memmap`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.devices import CPU, index_of
from ..core.dispatch.checks import speaks_for
from ..core.dtypes import as_dtype
from ..core.typing import DeviceLike, DTypeLike, File
from ..runtime.files import naming

__all__ = ["memmap"]


@speaks_for("memmap")
def memmap(
    filename: File,
    dtype: DTypeLike = np.uint8,
    mode: str = "r+",
    offset: int = 0,
    shape: Any = None,
    order: str = "C",
    *,
    device: DeviceLike | None = None,
) -> ndarray:
    """Map a file into memory, or read it to a GPU.

    On the CPU the array's memory is the file: nothing is read before it is used, and what is
    written into the array goes to the file. On a GPU the array is a copy, for which the file is
    read once.

    Parameters
    ----------
    filename : path_like or file
        Path or open file.
    dtype : dtype_like, default uint8
        Dtype of the elements.
    mode : str, default "r+"
        "r": the array is read-only. "c": changes stay in memory. "r+": changes go to the file.
        "w+": the file is created or overwritten. A GPU takes "r" and "c".
    offset : int, default 0
        Number of bytes to skip.
    shape : int or sequence of int, optional
        Shape of the array. The default is a vector of all that is in the file.
    order : str, default "C"
        Order of the elements in the file, "C" or "F".
    device : device_like, optional
        Device of the result. The default is the default device.

    Returns
    -------
    ndarray
        The array.

    Raises
    ------
    ValueError
        The mode is unknown or would write to the file from a GPU, or the file is too short.
    OSError
        The file cannot be opened.

    Examples
    --------
    >>> import os, tempfile, cudamath as cm
    >>> path = os.path.join(tempfile.mkdtemp(), "x")
    >>> cm.asarray([1.0, 2.0]).tofile(path)
    >>> cm.memmap(path, "float64", "r").tolist()
    [1.0, 2.0]
    """
    place = index_of(device)
    if place != CPU and mode not in ("r", "c", "readonly", "copyonwrite"):
        raise ValueError(
            f"memmap: mode {mode!r} writes to a file, which an array on a GPU does not; give mode "
            "'r' or 'c', or device='cpu'"
        )
    # (a plain array: its base, the map, keeps the file open)
    options: Any = mode, offset, shape, order
    with naming("memmap", filename, "open"):
        mapped = np.memmap(filename, as_dtype(dtype, "memmap"), *options)
    return asarray(np.asarray(mapped), device=device, name="memmap")
