"""Rows that the blocks of a cluster share (9.0 on): what they tell each other.

Each of `ranks` neighbouring blocks reduces its part of a row to two numbers, and each sends these to all of them, itself
included: into a table in the receiver's shared memory, whose barrier (mbarrier) counts the bytes. The numbers come with their
own news of arrival, so nobody waits for other memory traffic, as those who meet at the cluster's barrier do, and a block that
has received all may end. Only before the first number is sent must all blocks have begun: at that barrier they arrive at the
start and wait when there is something to send.
"""

import functools

from .lazy import cuda, types
from .ptx import instruction
from .ptx_hopper import barrier_expect, barrier_init, barrier_wait_cluster, cluster_rank, fence_barrier_init
from .ptx_mma import shared_address
from .rows import device

i32, i64, f32 = types.int32, types.int64, types.float32

cluster_arrive = instruction("cluster_arrive", "barrier.cluster.arrive.relaxed.aligned;", None, (),
                             "Count at the cluster's barrier; orders no memory.", pure=False, convergent=True)
cluster_wait = instruction("cluster_wait", "barrier.cluster.wait.acquire.aligned;", None, (),
                           "Wait until all threads of the cluster have arrived.", pure=False, convergent=True)
send_pair = instruction(
    "send_pair", "{ .reg .b32 a, b; mapa.shared::cluster.u32 a, $0, $4; mapa.shared::cluster.u32 b, $1, $4; "
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [a], {$2, $3}, [b]; }", None, (i32, i32, f32, f32, i32),
    "(shared address, barrier, a, b, rank): two float32 to this address in that block of the cluster, counted by its barrier.",
    pure=False)
send_quad = instruction(
    "send_quad", "{ .reg .b32 a, b; mapa.shared::cluster.u32 a, $0, $6; mapa.shared::cluster.u32 b, $1, $6; "
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [a], {$2, $3, $4, $5}, [b]; }", None,
    (i32, i32, f32, f32, f32, f32, i32), "(shared address, barrier, four float32, rank): as send_pair.", pure=False)
load_pair = instruction("load_pair", "ld.shared.v2.f32 {$0, $1}, [$2];", (f32,) * 2, (i32,), "Two float32 at a shared address.",
                        pure=False)


@functools.cache
def table(ranks):
    """Device functions for `ranks` blocks, a power of two: meet() -> the table, at a kernel's start; tell(table, a, b), once:
    the a and b, float32, that all threads of the block of rank threadIdx.x % ranks have. So each group of `ranks` threads has
    those of the whole cluster."""
    words = ranks + 1  # a pair of each block, and the barrier

    @device
    def meet():
        at = i32(shared_address(cuda.shared.array(words, i64)))
        if cuda.threadIdx.x == 0:
            barrier_init(i32(at + 8 * ranks), i32(1))
            fence_barrier_init()
        cluster_arrive()
        return at

    @device
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
