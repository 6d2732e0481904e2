"""Rows that the blocks of a cluster share (9.0 on): what they tell each other.

Each of `ranks` neighbouring blocks reduces its part of a row to two numbers, and all of them read everybody's from
*distributed shared memory*. That takes two meetings of the cluster: before the reading, so that the numbers are there, and
after it, so that no block ends while its memory is still being read. The second is split: a block arrives when it has read,
and waits when it has written its results.
"""

import functools

from .lazy import cuda, types
from .ptx import instruction
from .ptx_hopper import cluster_sync
from .ptx_mma import shared_address
from .rows import device

i32, f32 = types.int32, types.float32

cluster_arrive = instruction("cluster_arrive", "barrier.cluster.arrive.release.aligned;", None, (),
                             "Count at the cluster's barrier without waiting.", pure=False, convergent=True)
cluster_wait = instruction("cluster_wait", "barrier.cluster.wait.acquire.aligned;", None, (),
                           "Wait until all threads of the cluster have arrived.", pure=False, convergent=True)
load_cluster_pair = instruction(
    "load_cluster_pair", "{ .reg .b32 a; mapa.shared::cluster.u32 a, $2, $3; ld.shared::cluster.f32 $0, [a]; "
    "ld.shared::cluster.f32 $1, [a+4]; }", (f32,) * 2, (i32, i32), "Two float32 at this shared address in the block of that rank of the cluster.", pure=False)


@functools.cache
def told(ranks):
    """Device function (a, b): the a and b, float32, that all threads of the block of rank threadIdx.x % ranks have.

    So each group of `ranks` threads, a power of two, has those of the whole cluster. Each thread calls `cluster_wait` once
    after it, at the latest at its end.
    """

    @device
    def tell(a, b):
        mine = cuda.shared.array(2, f32)
        if cuda.threadIdx.x == 0:
            mine[0] = a
            mine[1] = b
        cluster_sync()
        a, b = load_cluster_pair(shared_address(mine), i32(cuda.threadIdx.x % ranks))
        cluster_arrive()
        return a, b

    return tell
