"""All collectives, in each of several processes, beside NumPy."""

import functools
import sys

import numpy as np

import cudamath as cm
from cudamath import distributed as d

d.use_own_device()
rank, size = d.rank(), d.size()
parts = [np.random.default_rng(i).normal(size=(4 * size, 3)) for i in range(size)]
x = cm.asarray(parts[rank])
total = parts[0]
for part in parts[1:]:
    total = total + part
same = np.testing.assert_array_equal
near = functools.partial(np.testing.assert_allclose, rtol=1e-13, atol=1e-13)
if d.transport() != "nccl":  # the order of the ranks, to the last bit
    near = same
for many in (1, 5000):  # in one message, and in parts
    found = d.all_reduce({"a": cm.tile(x, (many, 1)), "n": rank})
    near(np.asarray(found["a"]), np.tile(total, (many, 1)))
    assert int(found["n"]) == size * (size - 1) // 2
same(np.asarray(d.all_reduce(x, "max")), np.max(parts, 0))
same(np.asarray(d.all_gather(x, axis=1)), np.concatenate(parts, 1))
near(np.asarray(d.reduce_scatter(x)), np.split(total, size)[rank])
same(np.asarray(d.broadcast(x, size - 1)), parts[-1])
same(np.asarray(d.all_to_all(x)), np.concatenate([np.split(p, size)[rank] for p in parts]))
if size > 1:
    with d.group():
        d.send(x, (rank + 1) % size)
        received = d.recv(x, (rank - 1) % size)
    same(np.asarray(received), parts[rank - 1])
weight = float(rank + 1)
g = cm.grad(lambda x: (weight * d.all_reduce(x) ** 2).sum())(x)
np.testing.assert_allclose(np.asarray(g), size * (size + 1) * total, rtol=1e-12)
d.barrier()
same(np.asarray(d.all_reduce(x, deterministic=True)), total)

(line,) = d.mesh(size)
whole = np.concatenate(parts)[: 4 * size - 1]  # of a length that cannot be divided equally
a = d.shard(whole, (line, None))
products = (a.T @ a).to_numpy(), (a @ a.reshard((None, None)).T).to_numpy()
np.testing.assert_allclose(products[0], whole.T @ whole, rtol=1e-12)
np.testing.assert_allclose(products[1], whole @ whole.T, rtol=1e-12, atol=1e-14)
np.testing.assert_allclose(float(cm.exp(a - 1.0).mean()), np.exp(whole - 1).mean(), rtol=1e-13)
same(a.reshard((None, line)).max(0).to_numpy(), whole.max(0))
g = cm.grad(lambda a: ((a.reshard((None, line)) * 2.0).sum(1) ** 2).sum())(a)
np.testing.assert_allclose(g.to_numpy(), np.tile(8 * whole.sum(1)[:, None], 3), rtol=1e-12)
sys.stdout.write(f"good {rank} {size} {d.local_rank()}\n")  # in one piece
