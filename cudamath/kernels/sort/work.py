"""What sorts of long rows take: from that their times are predicted (lib/prediction.py).

The rates give three measurements again within 6 %: a network sorted 16,384 rows of 1,024 float32 in
506 us (H200), a radix sort 2^24 float32 in 401 (H200) and 4,330 rows of 2,091 int64 in 941 (H100).
That of wide keys in a network is by its instructions, not measured.
"""

from __future__ import annotations

import math

from ..compiler.decorators import WARP
from ..lib.integers import blocks, power_of_two
from ..lib.prediction import Machine
from .problem import SortProblem, block_shape

COMPARED, COMPARED_WIDE = 0.14, 0.2  # cycles of an element in a round; of keys beside positions
LAUNCH, SHARE = 2.5, 0.55  # microseconds of a launch; of the bandwidth that a digit's pass reaches
DIGIT, POSITION = 8, 4  # bits; bytes
BESIDES = 3  # launches of a radix sort beside those of the digits
# ``sort_block``: instructions of a warp for 32 keys and a digit, and of wide keys; those that a
# multiprocessor begins in a cycle; cycles of a key that waits for the one before, and of a digit
# besides
INSTRUCTIONS, INSTRUCTIONS_WIDE, SCHEDULERS, WAITING, ENDS = 75, 95, 4, 90, 900
# times what is counted of a block's sort, before it displaces the others: of 17 measured problems
# the choice loses in one (1,000 rows of 10,000 bytes: 106 us, 73; H100)
BLOCK_MORE = 1.4


def network_microseconds(p: SortProblem) -> float:
    """A bitonic network: rounds of the next power of two."""
    machine, size = Machine.of(p.x.device), power_of_two(p.n)
    steps = size.bit_length() - 1
    rounds = steps * (steps + 1) // 2
    each = size * rounds * (COMPARED if p.coding.bits <= 32 else COMPARED_WIDE)
    waves = blocks(p.rows, machine.multiprocessors)  # a block of 4,096 has a multiprocessor busy
    return LAUNCH + 1e6 * waves * each / machine.clock


def radix_microseconds(p: SortProblem) -> float:
    """A radix sort: keys and positions are read and written for each digit."""
    machine, digits = Machine.of(p.x.device), blocks(p.coding.bits, DIGIT)
    moved = 2 * p.rows * p.n * digits * (p.x.itemsize + POSITION)
    return (BESIDES + digits) * LAUNCH + 1e6 * moved / (SHARE * machine.bandwidth)


def block_microseconds(p: SortProblem) -> float:
    """A radix sort of each row in a block, all of whose digits differ."""
    machine, shape = Machine.of(p.x.device), block_shape(p)
    if shape is None:
        return math.inf
    threads, items, held, _ = shape
    wide = p.coding.bits > 32
    warps = min(held, blocks(p.rows, machine.multiprocessors)) * threads // WARP
    busy = warps * items * (INSTRUCTIONS_WIDE if wide else INSTRUCTIONS) / SCHEDULERS
    turn = max(busy, items * WAITING + ENDS) * blocks(p.coding.bits, DIGIT)
    cycles = blocks(p.rows, machine.multiprocessors * held) * turn
    moved = p.x.nbytes + p.out.nbytes
    return BLOCK_MORE * (LAUNCH + 1e6 * (cycles / machine.clock + moved / machine.bandwidth))
