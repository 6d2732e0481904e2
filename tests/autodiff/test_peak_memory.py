"""Memory while a gradient is taken: what no rule needs any more is gone, as early as in torch.

Bytes are counted on both sides: of arrays that somebody still holds, at the moment of the most; not
what an operation needs while it computes. Sizes lie below those of which the host keeps the memory
(core/cpu_pool.py).
"""

import functools
import gc
import sys
import weakref

import numpy as np
import pytest
from torch_comparison import theirs, torch

import cudamath as cm
from cudamath import ml
from cudamath.core.array import ndarray

f = torch.nn.functional


def ours(function, *args):
    """Bytes at the peak of `cm.grad(function)(*args)` on the CPU, beyond the arguments: whenever
    one of cudamath's functions returns, the arrays that anything refers to are looked up."""
    most = 0

    def owner(x):
        found = x._data
        while isinstance(found.base, np.ndarray):
            found = found.base
        return found

    known = {
        id(owner(x)) for tree in args for x in (tree.values() if isinstance(tree, dict) else [tree])
    }

    def look(frame, event, _arg):
        nonlocal most
        if event == "return" and "/cudamath/" in frame.f_code.co_filename:
            arrays = [x for x in gc.get_objects() if type(x) is ndarray and hasattr(x, "_data")]
            owners = {id(o): o.nbytes for o in map(owner, arrays)}
            most = max(most, sum(size for key, size in owners.items() if key not in known))

    cm.grad(function)(*args)  # plans are made
    gc.collect()
    gc.freeze()  # all that is there already is not looked at, now or later (see conftest.py)
    sys.setprofile(look)
    try:
        grads = cm.grad(function)(*args)
    finally:
        sys.setprofile(None)
    return most, grads


def in_torch(function, params, x):
    """The same of torch's autograd: what its operations return, counted once however many views it
    has."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    sizes, most = {}, 0

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal most
            given = {
                t.untyped_storage()._cdata
                for t in tree_leaves((args, kwargs or {}))
                if isinstance(t, torch.Tensor)
            }
            out = func(*args, **(kwargs or {}))
            for t in tree_leaves(out):
                if isinstance(t, torch.Tensor):
                    storage = t.untyped_storage()
                    key = storage._cdata
                    if key not in given and key not in sizes:
                        sizes[key] = storage.nbytes()
                        weakref.finalize(storage, sizes.pop, key)
            most = max(most, sum(sizes.values()))
            return out

    with Counting():
        loss = function(params, x)
        grads = torch.autograd.grad(loss, list(params.values()))
    return most, dict(zip(params, grads, strict=True))


WIDTH, ROWS = 32, 128  # 16 KiB per array of them


def transformer(params, x, layer_norm, linear, gelu):
    """Six blocks: normalised, widened fourfold, narrowed, added."""
    for i in range(6):
        h = layer_norm(x)
        x = x + linear(gelu(linear(h, params[f"{i}.a"], params[f"{i}.c"])), params[f"{i}.b"], None)
    return (x * x).mean()


def network(params, x, conv, norm, relu, pool):
    """Four blocks of convolutions with a way around them."""
    for i in range(4):
        h = relu(norm(conv(x, params[f"{i}.a"]), params[f"{i}.c"], params[f"{i}.d"]))
        x = relu(x + norm(conv(h, params[f"{i}.b"]), params[f"{i}.c"], params[f"{i}.d"]))
    return pool(x).sum()


def chain(params, x, exp):
    """Elementwise functions, constants, slices and broadcasts."""
    for i in range(6):
        h = exp(x * params[f"{i}.c"] * 0.1) * 0.01 + params[f"{i}.d"]
        x = exp(h)[:, :] * x + h.sum(1)[:, None] * 0.01
    return x.mean()


def weights(shapes):
    rng = np.random.default_rng(0)
    return {
        name: (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        for name, shape in shapes.items()
    }


CASES = {
    "transformer": (
        weights(
            {
                f"{i}.{n}": s
                for i in range(6)
                for n, s in (
                    ("a", (4 * WIDTH, WIDTH)),
                    ("b", (WIDTH, 4 * WIDTH)),
                    ("c", (4 * WIDTH,)),
                )
            }
        ),
        (ROWS, WIDTH),
        lambda p, x: transformer(p, x, lambda x: ml.layer_norm(x, WIDTH), ml.linear, ml.gelu),
        lambda p, x: transformer(p, x, lambda x: f.layer_norm(x, (WIDTH,)), f.linear, f.gelu),
    ),
    "network": (
        weights(
            {
                f"{i}.{n}": s
                for i in range(4)
                for n, s in (("a", (8, 8, 3, 3)), ("b", (8, 8, 3, 3)), ("c", (8,)), ("d", (8,)))
            }
        ),
        (4, 8, 10, 10),
        lambda p, x: network(
            p,
            x,
            lambda x, w: ml.conv2d(x, w, padding=1),
            lambda x, a, b: ml.batch_norm(x, weight=a, bias=b, training=True)[0],
            ml.relu,
            lambda x: ml.max_pool2d(x, 2),
        ),
        lambda p, x: network(
            p,
            x,
            lambda x, w: f.conv2d(x, w, padding=1),
            lambda x, a, b: f.batch_norm(x, None, None, a, b, training=True),
            f.relu,
            lambda x: f.max_pool2d(x, 2),
        ),
    ),
    "chain": (
        weights({f"{i}.{n}": (WIDTH,) for i in range(6) for n in "cd"}),
        (ROWS, WIDTH),
        lambda p, x: chain(p, x, cm.exp),
        lambda p, x: chain(p, x, torch.exp),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_no_more_memory_than_torch(name):
    params, shape, mine, other = CASES[name]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    with cm.device("cpu"):
        there = {n: cm.array(p) for n, p in params.items()}
        most, grads = ours(mine, there, cm.array(x))

    @functools.cache
    def there():
        leaves = {n: torch.tensor(p, requires_grad=True) for n, p in params.items()}
        return in_torch(other, leaves, torch.tensor(x))

    bound = theirs(lambda: there()[0])
    for n, g in grads.items():
        expected = theirs(lambda: there()[1][n])  # noqa: B023
        np.testing.assert_allclose(g.to_numpy(), expected, rtol=2e-4, atol=2e-5, err_msg=n)
    assert most <= 1.01 * bound, (
        most / x.nbytes,
        bound / x.nbytes,
    )  # 1 %: numbers per channel, which norms keep


def test_constants_keep_nothing():
    """Of x * c with a constant c the rule needs c, not x; of x @ c the same."""
    refs = []

    def loss(x):
        for c in (2.0, cm.full((3, 3), 0.5), cm.ones(3)):
            y = x + 1.0
            refs.append(weakref.ref(y._data))
            x = y * c
            y = x + 1.0
            refs.append(weakref.ref(y._data))
            x = y @ cm.ones((3, 3))
            del y
            gc.collect()
        alive.append([r() is not None for r in refs])
        return x.sum()

    alive: list = []
    with cm.device("cpu"):
        g = cm.grad(loss)(cm.ones((3, 3)))
    assert alive == [[False] * 6] and g.shape == (3, 3)
