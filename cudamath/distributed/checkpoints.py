"""Checkpoints of trees in pieces: each process writes its own, and any number of processes reads
them.

A checkpoint is a folder. Its files have a name of their own each time, and an index names those
that belong together. The index is replaced last, when all processes have written: until then the
previous checkpoint is whole, whatever fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import secrets
from typing import Any

import numpy as np

from ..checkpoints import load, save
from ..core import trees
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.devices import default_device
from ..core.dtypes import as_dtype
from ..core.typing import DeviceLike, PathLike, Tree
from ..runtime.communication.environment import world
from ..runtime.files import whole_file
from .sharding import fitting, width

__all__ = ["load_shards", "save_shards"]

_INDEX, _WHOLE = "index.json", "whole.safetensors"


def save_shards(path: PathLike, shards: Tree, like: Tree, *, whole: Tree = None) -> None:
    """Write a tree of which each process has a piece of every array.

    Every process writes its own pieces into one folder, which all can reach. Process 0 also writes
    what is whole everywhere. If a process fails before all have written, the folder holds the
    previous checkpoint.

    Parameters
    ----------
    path : path
        A folder; it is made, and what an earlier call wrote there is replaced.
    shards : tree
        This process's pieces, as `to_shards` makes them.
    like : tree
        The whole arrays, or their `outline`, in the same structure.
    whole : tree, optional
        What else belongs to the checkpoint and is the same in all processes; see `cm.save`.

    Raises
    ------
    ImportError
        Safetensors is missing (`pip install 'cudamath[io]'`).
    ValueError
        The trees do not fit each other.
    OSError
        A file cannot be written.
    CommunicationError
        A process failed, or did not come in time.

    Examples
    --------
    >>> import cudamath as cm, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "run")
    >>> w = cm.array([1.0, 2.0, 3.0])
    >>> cm.distributed.save_shards(path, cm.distributed.to_shards(w), w, whole={"step": 7})
    >>> shards, whole = cm.distributed.load_shards(path, w)
    >>> shards.tolist(), whole
    ([1.0, 2.0, 3.0], {'step': 7})
    """
    here, folder = world(), pathlib.Path(path)
    pieces, shapes, _ = fitting("save_shards", shards, like, here.size)
    folder.mkdir(exist_ok=True)
    name = here.texts("save_shards", secrets.token_hex(8))[0]
    save(folder / _piece(name, here.rank), {str(i): x for i, x in enumerate(pieces)})
    if here.rank == 0:
        save(folder / f"{name}-{_WHOLE}", {"whole": whole})
    here.barrier("save_shards, the pieces")
    if here.rank == 0:
        index = {
            "name": name,
            "size": here.size,
            "arrays": [[list(s), str(x.dtype)] for s, x in zip(shapes, pieces, strict=True)],
        }
        with whole_file("save_shards", folder / _INDEX) as beside:
            pathlib.Path(beside).write_text(json.dumps(index), encoding="utf-8")
        for old in folder.glob("*.safetensors"):
            if not old.name.startswith(name):
                with contextlib.suppress(FileNotFoundError):
                    old.unlink()
    here.barrier("save_shards, the index")


def _piece(name: str, rank: int) -> str:
    return f"{name}-{rank}.safetensors"


def load_shards(path: PathLike, like: Tree, *, device: DeviceLike | None = None) -> Any:
    """Read this process's pieces of a checkpoint that any number of processes wrote.

    Parameters
    ----------
    path : path
        A folder that `save_shards` wrote.
    like : tree
        The whole arrays, or their `outline`: structure and shapes.
    device : device, optional
        Where the arrays go; by default the default device.

    Returns
    -------
    shards : tree
        This process's pieces, for the present number of processes.
    whole : tree
        What was whole everywhere.

    Raises
    ------
    ImportError
        Safetensors is missing (`pip install 'cudamath[io]'`).
    FileNotFoundError
        There is no checkpoint, or a file of it is missing.
    ValueError
        It is of other arrays, or damaged.

    Examples
    --------
    >>> import cudamath as cm, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "run")
    >>> w = cm.array([1.0, 2.0, 3.0])
    >>> cm.distributed.save_shards(path, cm.distributed.to_shards(w), w)
    >>> cm.distributed.load_shards(path, w)[0].tolist()
    [1.0, 2.0, 3.0]
    """
    here, folder = world(), pathlib.Path(path)
    index = _index(folder)
    leaves, structure = trees.flatten("load_shards", like)
    shapes = [np.shape(x) for x in leaves]
    found = [tuple(shape) for shape, _ in index["arrays"]]
    if shapes != found:
        other = next(
            (f"{a} in place of {b}" for a, b in zip(found, shapes, strict=False) if a != b),
            f"{len(found)} arrays in place of {len(shapes)}",
        )
        raise ValueError(f"load_shards: {os.fspath(folder)} has other arrays: {other}")
    dtypes = [as_dtype(dtype, "load_shards") for _, dtype in index["arrays"]]
    pieces = [
        np.zeros(width(shape, here.size), dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    for rank in range(index["size"]):
        spans = [_common(shape, here.rank, here.size, rank, index["size"]) for shape in shapes]
        if any(spans):
            theirs = load(folder / _piece(index["name"], rank), device="cpu")
            for i, span in enumerate(spans):
                if span:
                    own, its = span
                    pieces[i][own] = theirs[str(i)].to_numpy()[its]
    whole = load(folder / f"{index['name']}-{_WHOLE}", device=device)["whole"]
    place = default_device() if device is None else device
    arrays: list[ndarray] = [asarray(x, device=place) for x in pieces]
    return structure.unflatten(arrays), whole


def _index(folder: pathlib.Path) -> dict[str, Any]:
    path = folder / _INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        good = {"name", "size", "arrays"} <= set(index)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"load_shards: {os.fspath(folder)} is no checkpoint: it has no {_INDEX}"
        ) from None
    except (ValueError, TypeError):
        good = False
    if not good:
        raise ValueError(f"load_shards: {path} is damaged")
    return index


def _common(
    shape: tuple[int, ...], rank: int, size: int, other: int, others: int
) -> tuple[slice, slice] | None:
    """What a piece of one division has in common with a piece of another one, as a slice of
    each."""
    mine, theirs = width(shape, size), width(shape, others)
    begin = max(rank * mine, other * theirs)
    end = min((rank + 1) * mine, (other + 1) * theirs)
    if begin >= end:
        return None
    return (
        slice(begin - rank * mine, end - rank * mine),
        slice(begin - other * theirs, end - other * theirs),
    )
