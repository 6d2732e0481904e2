"""The steps of a plan: kernel launches and library calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arguments import ArrayArg, TensorMap


def triple(size: int | Sequence[int]) -> tuple[int, int, int]:
    """A grid or block as three dimensions."""
    sizes = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    return tuple(int(n) for n in (*sizes, 1, 1)[:3])  # type: ignore[return-value]


class Launch:
    """A kernel launch: `kernel` is a `@cuda.jit` function; grid, block: int or tuple; shared:
    dynamic bytes; cluster: how many neighbouring blocks share their shared memory (compute
    capability 9.0; divides the grid's first dimension); early: whether it may begin before what is
    ahead of it has ended, for which the kernel itself waits; cooperative: whether its blocks wait
    for one another, so that the driver must run all of them at once or refuse the launch; not both
    (runtime/kernel_launch.extended_config)."""

    __slots__ = ("kernel", "grid", "block", "args", "shared", "cluster", "early", "cooperative")

    def __init__(
        self,
        kernel: Any,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        shared: int = 0,
        cluster: int = 1,
        early: bool = False,
        cooperative: bool = False,
    ):
        if early and cooperative:
            raise AssertionError("a cooperative launch may not begin early")
        self.kernel = kernel
        self.grid, self.block = triple(grid), triple(block)
        self.args = tuple(args)
        self.shared, self.cluster, self.early = shared, cluster, early
        self.cooperative = cooperative

    def with_args(self, args: Sequence[Any]) -> Launch:
        """The same launch on other arguments."""
        return Launch(
            self.kernel,
            self.grid,
            self.block,
            args,
            self.shared,
            self.cluster,
            self.early,
            self.cooperative,
        )

    def __repr__(self) -> str:
        return (
            f"Launch({getattr(self.kernel, '__name__', self.kernel)}, grid={self.grid}, "
            f"block={self.block})"
        )


class Call:
    """A library call: `fn(stream, *values)`; arrays arrive as addresses (int), scalars as they
    are."""

    __slots__ = ("fn", "args")

    def __init__(self, fn: Callable, args: Sequence[Any]):
        self.fn = fn
        self.args = tuple(args)

    def with_args(self, args: Sequence[Any]) -> Call:
        """The same call on other arguments."""
        return Call(self.fn, args)

    def __repr__(self) -> str:
        return f"Call({getattr(self.fn, '__name__', self.fn)})"


def with_arrays(
    steps: Sequence[Launch | Call], place: Callable[[ArrayArg], ArrayArg]
) -> list[Launch | Call]:
    """The steps on other arrays: `place` maps each array argument, also inside of a tensor map, to
    the one that stands in its place."""

    def other(arg: Any) -> Any:
        if isinstance(arg, TensorMap):
            return dataclasses.replace(arg, array=place(arg.array))
        return place(arg) if isinstance(arg, ArrayArg) else arg

    return [step.with_args([other(arg) for arg in step.args]) for step in steps]
