"""Rows that the blocks of a cluster share (SM 9.0 and later): the exchange of their partial results
through distributed shared memory.

Each of `ranks` neighbouring blocks reduces its part of a row to two numbers and sends these to
every block, itself included, into a table in the receiver's shared memory. The table's mbarrier
counts the bytes that arrive. So a block waits for these numbers alone, not for all other memory
traffic, as it would at the cluster's barrier, and may end once it has received them. Only the first
number must not be sent before all blocks have begun: for this they arrive at the cluster's barrier
at the start, and wait there before they send.
"""

import functools

from ..compiler.decorators import device_function
from ..compiler.lazy_numba import cuda, types
from ..ptx.intrinsics import instruction
from ..ptx.sm80 import shared_address
from ..ptx.sm90 import (
    barrier_expect,
    barrier_init,
    barrier_wait_cluster,
    cluster_rank,
    fence_barrier_init,
)

TURNS = 4  # tables of exchanges that follow each other
i32, i64, f32 = types.int32, types.int64, types.float32

cluster_arrive = instruction(
    "cluster_arrive",
    "barrier.cluster.arrive.relaxed.aligned;",
    None,
    (),
    "Count at the cluster's barrier; orders no memory.",
    pure=False,
    convergent=True,
)
cluster_wait = instruction(
    "cluster_wait",
    "barrier.cluster.wait.acquire.aligned;",
    None,
    (),
    "Wait until all threads of the cluster have arrived.",
    pure=False,
    convergent=True,
)
send_pair = instruction(
    "send_pair",
    "{ .reg .b32 a, b; mapa.shared::cluster.u32 a, $0, $4; mapa.shared::cluster.u32 b, $1, $4; "
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [a], {$2, $3}, [b]; }",
    None,
    (i32, i32, f32, f32, i32),
    "(shared address, barrier, a, b, rank): two float32 to this address in that block of the "
    "cluster, counted by its barrier.",
    pure=False,
)
send_quad = instruction(
    "send_quad",
    "{ .reg .b32 a, b; mapa.shared::cluster.u32 a, $0, $6; mapa.shared::cluster.u32 b, $1, $6; "
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [a], {$2, $3, $4, $5}, "
    "[b]; }",
    None,
    (i32, i32, f32, f32, f32, f32, i32),
    "(shared address, barrier, four float32, rank): as send_pair.",
    pure=False,
)
load_pair = instruction(
    "load_pair",
    "ld.shared.v2.f32 {$0, $1}, [$2];",
    (f32,) * 2,
    (i32,),
    "Two float32 at a shared address.",
    pure=False,
)


@functools.cache
def table(ranks):
    """Device functions for `ranks` blocks, a power of two: meet() -> the table, at a kernel's
    start; tell(table, a, b), once: the a and b, float32, that all threads of the block of rank
    threadIdx.x % ranks have. So each group of `ranks` threads has those of the whole cluster."""
    words = ranks + 1  # a pair of each block, and the barrier

    @device_function
    def meet():
        at = i32(shared_address(cuda.shared.array(words, i64)))
        if cuda.threadIdx.x == 0:
            barrier_init(i32(at + 8 * ranks), i32(1))
            fence_barrier_init()
        cluster_arrive()
        return at

    @device_function
    def tell(at, a, b):
        cluster_wait()
        barrier = i32(at + 8 * ranks)
        if cuda.threadIdx.x == 0:
            barrier_expect(barrier, i32(8 * ranks))
        if cuda.threadIdx.x < ranks:
            send_pair(i32(at + 8 * cluster_rank()), barrier, a, b, i32(cuda.threadIdx.x))
        barrier_wait_cluster(barrier, i32(0))
        return load_pair(i32(at + 8 * (cuda.threadIdx.x % ranks)))

    return meet, tell


@functools.cache
def tables(ranks):
    """As `table`, for rows that follow each other: meet() -> the tables, at a kernel's start;
    tell(tables, turn, a, b), by the block's first warp, whose threads all have these a and b;
    hear(tables, turn), by all: the a and b that the block of rank threadIdx.x % ranks told.

    turn = 0, 1, 2, ...: a block hears of a turn before it tells for the next but one. Who tells for
    turn t has thus heard of t - 2: so every block has told for that, and before it has heard of t -
    4, whose table is free. The kernel waits (cluster_wait) between meet and the first tell, and
    lets its threads meet between hear(t - 4) and tell(t - 2)."""
    words = ranks + 1  # a pair of each block, and the barrier
    all_words = TURNS * words

    @device_function
    def meet():
        at = i32(shared_address(cuda.shared.array(all_words, i64)))
        if cuda.threadIdx.x == 0:
            for turn in range(TURNS):
                barrier_init(i32(at + 8 * (turn * words + ranks)), i32(1))
            fence_barrier_init()
        cluster_arrive()
        return at

    @device_function
    def tell(at, turn, a, b):
        mine = i32(at + 8 * words * (turn % TURNS))
        barrier = i32(mine + 8 * ranks)
        if cuda.threadIdx.x == 0:
            barrier_expect(barrier, i32(8 * ranks))
        if cuda.threadIdx.x < ranks:
            send_pair(i32(mine + 8 * cluster_rank()), barrier, a, b, i32(cuda.threadIdx.x))

    @device_function
    def hear(at, turn):
        mine = i32(at + 8 * words * (turn % TURNS))
        barrier_wait_cluster(i32(mine + 8 * ranks), i32(turn // TURNS % 2))
        return load_pair(i32(mine + 8 * (cuda.threadIdx.x % ranks)))

    return meet, tell, hear
