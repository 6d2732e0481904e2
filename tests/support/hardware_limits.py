"""What a GPU of compute capability 9.0 demands of every launch: the numbers of NVIDIA's programming
guide, which the drivers of the tests check."""

from __future__ import annotations

import math

#: Blocks of a grid and threads of a block along x, y and z, and threads of a block in all.
MOST_BLOCKS = (1 << 31) - 1, 65_535, 65_535
MOST_THREADS = 1024, 1024, 64
MOST_IN_BLOCK = 1024
#: Shared memory of a block in bytes: without asking for it, and after that.
SHARED, MOST_SHARED = 48 << 10, 227 << 10
#: Blocks of a cluster; more must be asked for, which the package does not do.
MOST_IN_CLUSTER = 8


def refusal(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int = 0,
    allowed: int = SHARED,
    cluster: int = 1,
) -> str:
    """Why a device refuses a launch; empty where it does not.

    allowed: dynamic shared memory that the kernel may have; cluster: blocks of a cluster along x.
    """
    if min(*grid, *block) < 1:
        return f"a grid {grid} of blocks {block} is empty"
    if any(n > most for n, most in zip(grid, MOST_BLOCKS, strict=True)):
        return f"a grid {grid} is beyond {MOST_BLOCKS}"
    if any(n > most for n, most in zip(block, MOST_THREADS, strict=True)):
        return f"a block {block} is beyond {MOST_THREADS}"
    if math.prod(block) > MOST_IN_BLOCK:
        return f"a block {block} has more than {MOST_IN_BLOCK} threads"
    if shared > min(max(allowed, SHARED), MOST_SHARED):
        return f"{shared} bytes of shared memory, of {min(max(allowed, SHARED), MOST_SHARED)}"
    if cluster > MOST_IN_CLUSTER or grid[0] % cluster:
        return f"a grid {grid} does not consist of clusters of {cluster} blocks"
    return ""
