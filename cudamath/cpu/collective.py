"""Collectives on the CPU: a world carries bytes, and what is added is added here, in the order of
the ranks, 16-bit numbers in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.dtypes import compute_dtype

_FOLD = {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum}
_FEW = 1 << 14  # bytes that each member sends to all others at once, instead of by parts


def all_reduce(*arrays: np.ndarray, op: str, about: Any, world: Any) -> tuple[np.ndarray, ...]:
    """Arrays of any shapes -> the same, reduced over all members; those of one dtype together.
    about: what else is the same for all members."""
    what = _about(f"all_reduce, {op}", arrays, about)
    found: list[Any] = [None] * len(arrays)
    for dtype in dict.fromkeys(x.dtype for x in arrays):
        chosen = [i for i, x in enumerate(arrays) if x.dtype == dtype]
        whole = _reduced(np.concatenate([arrays[i].ravel() for i in chosen]), op, world, what)
        at = 0
        for i in chosen:
            size = arrays[i].size
            found[i] = whole[at : at + size].reshape(arrays[i].shape).copy()
            at += size
    return tuple(found)


def _reduced(vector: np.ndarray, op: str, world: Any, what: str) -> np.ndarray:
    if vector.nbytes <= _FEW:
        return _folded(world.gather(_bytes(vector), what).view(vector.dtype), op)
    parts = np.zeros((world.size, -(-vector.size // world.size)), vector.dtype)
    parts.reshape(-1)[: vector.size] = vector
    own = _own_row(parts, op, world, what)
    return world.gather(_bytes(own), what).view(vector.dtype).reshape(-1)[: vector.size]


def _own_row(parts: np.ndarray, op: str, world: Any, what: str) -> np.ndarray:
    """(size, n): row i for member i -> (n,), row `rank` of all members, reduced."""
    sent = _bytes(parts).reshape(world.size, -1)
    received = world.exchange(sent, what).view(parts.dtype)
    return _folded(received, op)


def _folded(rows: np.ndarray, op: str) -> np.ndarray:
    """The rows of all members -> one, in their order."""
    total = rows[0].astype(compute_dtype(rows.dtype))
    for row in rows[1:]:
        total = _FOLD[op](total, row.astype(total.dtype, copy=False))
    if op == "mean":
        total = total / len(rows)
    return total.astype(rows.dtype, copy=False)


def reduce_scatter(*arrays: np.ndarray, op: str, world: Any) -> tuple[np.ndarray, ...]:
    """(size, ...) -> (...), this member's row of the reduction."""
    what = _about(f"reduce_scatter, {op}", arrays)
    return tuple(
        [
            _own_row(x.reshape(world.size, -1), op, world, what).reshape(x.shape[1:])
            if x.size
            else np.empty(x.shape[1:], x.dtype)
            for x in _agreed(arrays, world, what)
        ]
    )


def all_gather(*arrays: np.ndarray, world: Any) -> tuple[np.ndarray, ...]:
    """(...) -> (size, ...)."""
    what = _about("all_gather", arrays)
    return tuple(
        [
            world.gather(_bytes(x), what).view(x.dtype).reshape(world.size, *x.shape)
            if x.size
            else np.empty((world.size, *x.shape), x.dtype)
            for x in _agreed(arrays, world, what)
        ]
    )


def broadcast(*arrays: np.ndarray, root: int, about: Any, world: Any) -> tuple[np.ndarray, ...]:
    """x of the member `root`."""
    what = _about(f"broadcast, {root}", arrays, about)
    copies = [x.copy() for x in _agreed(arrays, world, what)]
    for x in copies:
        if x.size:
            world.broadcast(_bytes(x), root, what)
    return tuple(copies)


def all_to_all(*arrays: np.ndarray, world: Any) -> tuple[np.ndarray, ...]:
    """(size, ...) -> (size, ...): row i to and from member i."""
    what = _about("all_to_all", arrays)
    return tuple(
        [
            world.exchange(_bytes(x).reshape(world.size, -1), what).view(x.dtype).reshape(x.shape)
            if x.size
            else x.copy()
            for x in _agreed(arrays, world, what)
        ]
    )


def send(x: np.ndarray, *, to: int, world: Any) -> np.ndarray:
    """x -> a receipt, a number that is 0."""
    world.send(_bytes(x), to, _about("an array", (x,)))
    return np.zeros((), x.dtype)


def receive(x: np.ndarray, *, source: int, world: Any) -> np.ndarray:
    """An array like x."""
    data = world.receive(source, _about("an array", (x,)))
    return data.view(x.dtype).reshape(x.shape)


def _about(what: str, arrays: tuple[np.ndarray, ...], about: Any = "") -> str:
    return f"{what} of {', '.join([f'{x.dtype}{x.shape}' for x in arrays])} {about}".rstrip()


def _agreed(arrays: tuple[np.ndarray, ...], world: Any, what: str) -> tuple[np.ndarray, ...]:
    """The arrays. If none of them has bytes to send, the members compare here what they do."""
    if not any([x.size for x in arrays]):
        world.agree(what)
    return arrays


def _bytes(x: np.ndarray) -> np.ndarray:
    """The bytes of a C-ordered array; the same memory."""
    return x.reshape(-1).view(np.uint8)
