"""Digits of keys that a block counts in shared memory, a byte at a time from the top: with which
digit does the key at a rank go on? Blocks that select (select_few.py) and find medians
(rank_sort.py) ask so. For any GPU and the simulator.
"""

from ..compiler.decorators import WARP, device_function
from ..compiler.lazy_numba import cuda, types

DIGITS = 256
OWN = DIGITS // WARP  # digits that a thread of the first warp adds
# A thread's digits begin where no other's do: OWN + 1 counters from one thread to the next.
COUNTERS = WARP * (OWN + 1)

i32 = types.int32


@device_function
def clear_digits(counts, t, threads):
    """counts: (COUNTERS,) int32. The block waits before it counts, for the digit before too."""
    for d in range(t, COUNTERS, threads):
        counts[d] = 0
    cuda.syncthreads()


@device_function
def count_digit(counts, digit, run):
    """So many more keys have this digit. A thread adds a run of equal digits at once: of equal
    elements, and of small integers, which begin alike, all would wait for each other."""
    cuda.atomic.add(counts, digit + digit // i32(OWN), run)


@device_function
def count_next(counts, digit, last, run):
    """(last digit, its run so far) after one more digit; a run that ends is counted. The last one
    is left to the caller."""
    if run > i32(0) and digit != last:
        count_digit(counts, last, run)
        run = i32(0)
    return digit, i32(run + i32(1))


@device_function
def pick_digit(counts, sums, found, t, rank):
    """found[0] = the digit that the key of this rank has, [1] = its rank among those that have it,
    [2] = how many have it; the block waits for all counts before, and for `found` after. sums:
    (WARP,) int32. A block has a warp at least."""
    cuda.syncthreads()
    own = i32(0)
    if t < WARP:
        for j in range(OWN):
            own += counts[t * i32(OWN + 1) + i32(j)]
        sums[t] = own
    cuda.syncthreads()
    if t < WARP:
        before = i32(0)
        for j in range(WARP):
            if j < t:
                before += sums[j]
        if before <= rank < before + own:
            digit = t * i32(OWN)
            while rank - before >= counts[digit + digit // i32(OWN)]:
                before += counts[digit + digit // i32(OWN)]
                digit += i32(1)
            found[0] = digit
            found[1] = rank - before
            found[2] = counts[digit + digit // i32(OWN)]
    cuda.syncthreads()
