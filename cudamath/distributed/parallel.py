"""Data parallel training: each GPU, or process, takes a share of the batch, and gradients are
averaged."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..autodiff import value_and_grad as alone
from ..autodiff.transforms import value_and_grad_into
from ..core import recording, trees
from ..core.array import ndarray
from ..core.asarray import asarray
from ..core.devices import CPU
from ..core.devices import device as place
from ..core.dispatch.call_record import open_records, traced
from ..core.dispatch.checks import members, require_function
from ..core.dtypes import INEXACT, compute_dtype
from ..core.typing import Tree
from ..runtime.communication import nccl
from ..runtime.communication.environment import world
from ..runtime.communication.world import World
from . import buckets
from .collectives import all_reduce, ordered, part
from .gatherer import Gatherer, gathering
from .sharding import fitting, from_shards, to_shards

__all__ = ["value_and_grad"]


def value_and_grad(
    fn: Callable,
    *,
    has_aux: bool = False,
    devices: Sequence[Any] | None = None,
    split: int | Sequence[int] | None = None,
    sharded: bool = False,
    like: Tree = None,
    deterministic: bool = False,
    bucket: int = buckets.BYTES,
) -> Callable:
    """Return `cm.value_and_grad` for training on shares of a batch.

    Value and gradient are averaged over all processes and devices.

    Every process calls it with its own share of the batch (`share`). Gradients are averaged while
    the backward pass goes on: as soon as those of a bucket are complete, they travel, between GPUs
    by NCCL on a stream of its own.

    With `devices`, the share is divided once more: each device computes on its part, all of them at
    the same time, and gradients are copied to the first one, from GPU to GPU directly where the
    machine can. A loss that is a mean over the batch has then the value and gradient of the whole
    batch.

    Parameters
    ----------
    fn : callable
        Of a tree of floating-point or complex arrays, with respect to which gradients are taken,
        and more; see `cm.value_and_grad`.
    has_aux : bool, default False
        `fn` returns `(value, aux)`. Such arrays in `aux` (running statistics) are averaged too;
        what else is in it is the first device's.
    devices : sequence of devices, optional
        Where this process computes, e.g. ["cuda:0", "cuda:1"]; arguments may be anywhere, results
        come to the first one. Left out: where the arguments are.
    split : position or positions of arguments, optional
        Trees of arrays that are divided among the devices along their first axis; by default all
        but the first. The others are copied to each device.
    sharded : bool, default False
        Of each gradient keep this process's piece alone, as `to_shards` cuts it (ZeRO, stage 2).
    like : tree, optional
        Arrays of the shapes of the parameters (an `outline`), in the dtypes in which `fn` wants
        them. The first argument is then this process's pieces of them, as `to_shards` cuts them,
        and so are the gradients, in these dtypes (ZeRO, stage 3). `fn` gets a tree that is read
        like `like`, by keys and numbers: a parameter is put together where it is read, and again
        for its gradient, while `fn` computes with the one before. Its memory is free in between.
        The order of the first call is kept.
    deterministic : bool, default False
        Add in the order of the ranks, also between GPUs (`all_reduce`).
    bucket : int, default 26214400
        Bytes of gradients that travel together.

    Returns
    -------
    callable
        Returns `(value, gradients)`, with `has_aux` `((value, aux), gradients)`: the same bits in
        every process.

    Raises
    ------
    ValueError
        No devices; no such argument to divide; a batch that cannot be divided evenly; processes
        with different trees; a bucket of less than one byte; pieces that are not those of `like`,
        or several devices for them.
    DeviceError
        No such device.
    CommunicationError
        A process failed, or did not come in time.

    Notes
    -----
    Gradient: inside of another gradient the means are part of it. On the CPU, and with
    `deterministic`, means are taken in the order of devices and ranks, of 16-bit numbers in
    float32.

    Examples
    --------
    >>> import cudamath as cm
    >>> loss = lambda w, x: ((x * w) ** 2).mean()
    >>> step = cm.distributed.value_and_grad(loss, devices=["cpu", "cpu"])
    >>> value, gradient = step(cm.array(2.0), cm.array([1.0, 3.0]))
    >>> float(value), float(gradient)
    (20.0, 20.0)
    """
    require_function("distributed.value_and_grad", fn)
    if not isinstance(bucket, int) or bucket < 1:
        raise ValueError(
            f"distributed.value_and_grad: wants a bucket of at least 1 byte, got {bucket!r}"
        )
    inner = alone(fn, has_aux=has_aux)
    if like is not None and devices is not None:
        raise ValueError("distributed.value_and_grad: pieces (like=) want one device, got devices=")
    if devices is None:
        averages = functools.partial(
            buckets.averages,
            sharded=sharded or like is not None,
            deterministic=deterministic,
            nbytes=bucket,
        )
        if like is not None:
            return _of_pieces(fn, inner, averages, has_aux, like, deterministic, bucket)
        return _during(fn, inner, averages, has_aux, sharded, deterministic)
    places = [place(each) for each in members("distributed.value_and_grad", devices, "devices")]
    if not places:
        raise ValueError("distributed.value_and_grad: wants at least one device, got none")
    chosen = (
        None
        if split is None
        else (split,)
        if isinstance(split, int)
        else members("distributed.value_and_grad", split, "positions of arguments to split")
    )

    @functools.wraps(fn)
    def divided(*args: Any, **options: Any) -> Any:
        cut = set(
            range(1, len(args)) if chosen is None else [i + len(args) * (i < 0) for i in chosen]
        )
        if not cut <= set(range(1, len(args))):
            raise ValueError(
                f"distributed.value_and_grad: split {split} but the function was called with "
                f"{len(args)} "
                "arguments, the first of which all devices get whole"
            )
        found = []
        for number, where in enumerate(places):  # launches return at once: GPUs work side by side
            mine = [
                _placed(arg, where, number if i in cut else None, len(places))
                for i, arg in enumerate(args)
            ]
            with where:
                found.append(inner(*mine, **options))
        return _mean(found)

    return _afterwards(divided, sharded, deterministic)


def _placed(tree: Any, where: Any, number: int | None, count: int) -> Any:
    """A tree on a device, or one of `count` parts of it; what is not an array stays what it is."""

    def moved(x: Any) -> Any:
        if number is not None:
            x = part("distributed.value_and_grad", x, number, count)
        if isinstance(x, ndarray):
            return x.to(where)
        return asarray(x, device=where) if hasattr(x, "__array__") else x

    return trees.map_leaves("distributed.value_and_grad", moved, tree)


def _averaged(leaf: Any) -> bool:
    return isinstance(leaf, ndarray | np.inexact) and leaf.dtype in INEXACT


def _mean(found: list[Any]) -> Any:
    """Results of several devices, averaged on the first one."""

    def mean(first: Any, *others: Any) -> Any:
        if not _averaged(first):
            return first
        if not isinstance(first, ndarray):  # scalars of NumPy
            wide = compute_dtype(first.dtype)
            return first.dtype.type(np.mean([first, *others], dtype=wide))
        total = first.astype(compute_dtype(first.dtype))
        for other in others:
            total = total + other.to(first.device).astype(total.dtype)
        return (total / len(found)).astype(first.dtype)

    return optree.tree_map(mean, *found)


def _during(
    fn: Callable,
    inner: Callable,
    averages: Callable,
    has_aux: bool,
    sharded: bool,
    deterministic: bool,
) -> Callable:
    """`inner`, the gradient of `fn`, which is averaged over all processes during the backward
    pass."""

    @functools.wraps(fn)
    def step(*args: Any, **options: Any) -> Any:
        here = world()
        if here.size == 1:
            value, grads = inner(*args, **options)
            return value, to_shards(grads) if sharded else grads
        together = value_and_grad_into(fn, averages(here), has_aux=has_aux)
        value, grads = together(*args, **options)
        return _means(value, deterministic), grads

    return step


def _of_pieces(
    fn: Callable,
    inner: Callable,
    averages: Callable,
    has_aux: bool,
    like: Any,
    deterministic: bool,
    nbytes: int,
) -> Callable:
    """`inner`, the gradient of `fn`, of parameters of which each process has pieces."""

    @functools.wraps(fn)
    def step(shards: Any, *args: Any, **options: Any) -> Any:
        here = world()
        pieces, shapes, structure = fitting("distributed.value_and_grad", shards, like, here.size)
        kinds = [np.dtype(x.dtype) for x in trees.flatten("distributed.value_and_grad", like)[0]]
        together = functools.partial(value_and_grad_into, has_aux=has_aux)
        if pieces and _may_come_and_go(pieces, here):
            gatherer = Gatherer(
                [ordered(x) for x in pieces],
                [x._layout.like(*each) for x, *each in zip(pieces, shapes, kinds, strict=True)],
                here,
                nbytes=nbytes,
                beside=not deterministic,
            )
            run = gathering(fn, together, averages(here), gatherer, structure)
            value, grads = run(*args, **options)
            return _means(value, deterministic), grads
        rounded = [x.astype(kind, copy=False) for x, kind in zip(pieces, kinds, strict=True)]
        whole = from_shards(structure.unflatten(rounded), like)
        if here.size == 1:
            value, grads = inner(whole, *args, **options)
            return value, to_shards(grads)
        value, grads = together(fn, averages(here))(whole, *args, **options)
        return _means(value, deterministic), grads

    return step


def _may_come_and_go(pieces: list[ndarray], here: World) -> bool:
    """Whether memory of parameters may be given up and come again: on one device, where nothing
    records addresses or nodes for later, and no copies through the host are needed."""
    devices = {x._layout.device for x in pieces}
    if len(devices) > 1 or (open_records and traced()) or recording.state.depth:
        return False
    (device,) = devices
    return device == CPU or not nccl.why_not(here, device)


def _afterwards(inner: Callable, sharded: bool, deterministic: bool) -> Callable:
    """`inner`, whose results are averaged over all processes when they are there."""

    @functools.wraps(inner)
    def step(*args: Any, **options: Any) -> Any:
        value, grads = _means(inner(*args, **options), deterministic)
        return value, to_shards(grads) if sharded else grads

    return step


def _means(tree: Any, deterministic: bool = False) -> Any:
    """The floating-point arrays of a tree, averaged over all processes."""
    if world().size == 1:
        return tree
    leaves, structure = optree.tree_flatten(tree)
    chosen = [leaf for leaf in leaves if _averaged(leaf)]
    means = iter(all_reduce(chosen, "mean", deterministic=deterministic))
    return structure.unflatten([next(means) if _averaged(leaf) else leaf for leaf in leaves])
