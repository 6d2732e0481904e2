"""Magics for Jupyter and IPython: `%load_ext cudamath.magics`, then

%gpu_timeit a @ b        # how long a call takes until the device has finished, and how long the
                         host
%%roofline               # what the cell ran on the GPU: times, GB/s, TFLOP/s, share of the
                         roofline, what limits each; without a GPU the times on the CPU

"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from . import cuda
from .timing import Spread, interleave, nothing

# calls in a row when the host alone is timed: with more it waits for room in the queue of launches
_QUEUE = 200


def load_ipython_extension(shell: Any) -> None:
    """Register the magics with a shell: what `%load_ext cudamath.magics` calls."""

    def gpu_timeit(line: str, cell: str | None = None) -> None:
        """%gpu_timeit STATEMENT: median time of a call, with 20 and 80 % quantiles, after warming
        up. %%gpu_timeit SETUP: of the cell, after the setup. What they assign stays inside."""
        setup, body = ("", line) if cell is None else (line, cell)
        print(timed(_function(setup, body, shell.transform_cell, shell.user_ns)))

    def roofline(line: str, cell: str) -> None:
        """%%roofline: run the cell, then a row for each kernel, library call and copy, the longest
        first; without a GPU for each operation on the CPU."""
        with cuda.profile() as taken:
            shell.run_cell(cell)
        print(taken)

    shell.register_magic_function(gpu_timeit, "line_cell")
    shell.register_magic_function(roofline, "cell")


def timed(call: Callable[[], object]) -> str:
    """How long a call takes, as a sentence: until the device has finished, and, where there is a
    GPU, the host alone.

    >>> timed(lambda: sum(range(1000))).split("(")[0].split()[1] in ("ns", "us", "ms")
    True
    """
    if not cuda.is_available():
        return _said(interleave({"call": call}, synchronize=nothing)["call"])
    whole = interleave({"call": call}, synchronize=cuda.synchronize)["call"]
    host = interleave({"call": call}, synchronize=cuda.synchronize, wait=False, most=_QUEUE)["call"]
    return f"{_said(whole)}; host {_said(host)}"


def _function(
    setup: str, body: str, transformed: Callable[[str], str], names: dict[str, Any]
) -> Callable[[], object]:
    """A function without arguments of a body, which sees the user's names and those of the setup,
    and leaves none behind."""
    tree = ast.parse("def make():\n    def call():\n        pass\n    return call")
    make: Any = tree.body[0]
    inside = ast.parse(transformed(body)).body
    if not inside:
        raise ValueError("gpu_timeit: wants a statement to time")
    make.body[0].body = inside
    make.body[:0] = ast.parse(transformed(setup)).body
    made: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), "<gpu_timeit>", "exec"), names, made)  # noqa: S102
    return made["make"]()


def _said(spread: Spread) -> str:
    unit, scale = next(
        (
            (unit, scale)
            for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6))
            if spread.median * scale >= 1
        ),
        ("ns", 1e9),
    )
    median, low, high = (
        f"{seconds * scale:.3g}" for seconds in (spread.median, spread.low, spread.high)
    )
    return f"{median} {unit} ({low} to {high})"
