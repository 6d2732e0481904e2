"""Memory of the host runs out: the error begins with the name of the function that was called, as
the device's does (tests/attacks/faults.py)."""

import pytest

import cudamath as cm

FAR = 1 << 47  # elements: more than a process can have addresses for
CALLS = {
    "zeros": lambda x: cm.zeros(FAR),
    "empty": lambda x: cm.empty(FAR),
    "full": lambda x: cm.full(FAR, 3),
    "arange": lambda x: cm.arange(FAR),
    "eye": lambda x: cm.eye(1 << 24),
    "exp": lambda x: cm.exp(x),
    "add": lambda x: x + x,
    "greater": lambda x: x > 0,
    "cumsum": lambda x: cm.cumsum(x),
    "sort": lambda x: cm.sort(x),
    "concatenate": lambda x: cm.concatenate([x, x]),
    "copy": lambda x: x.copy(),
    "astype": lambda x: x.astype("float64"),
    "tile": lambda x: cm.tile(cm.ones(1 << 10), 1 << 38),
    "repeat": lambda x: cm.repeat(cm.ones(1 << 10), 1 << 38),
    "pad": lambda x: cm.pad(cm.ones(3), (FAR, 0)),
    "outer": lambda x: cm.linalg.outer(x[: 1 << 24], x[: 1 << 24]),
    "einsum": lambda x: cm.einsum("i,j->ij", x[: 1 << 24], x[: 1 << 24]),
    "softmax": lambda x: cm.ml.softmax(x),
    "multiply": lambda x: cm.grad(lambda v: (cm.broadcast_to(v, (FAR,)) * 2).sum())(cm.ones(1)),
    "normal": lambda x: cm.random.default_rng(0).normal(size=FAR),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_function_is_named(name):
    with cm.device("cpu"):
        x = cm.broadcast_to(cm.ones(1, dtype="float32"), (FAR,))
        for _ in range(2):  # the second time, too
            with pytest.raises(MemoryError, match=f"^{name}: .*(a|A)llocate .*shape") as caught:
                CALLS[name](x)
            assert f"{name}: {name}" not in str(caught.value)


def test_the_array_is_named():
    """The shape and dtype that were wanted, not those of the memory for them."""
    with cm.device("cpu"), pytest.raises(MemoryError) as caught:
        cm.broadcast_to(cm.ones(1, dtype="float32"), (FAR,)).copy()
    told = f"copy: cannot allocate {4 * FAR:,} bytes for an array of shape ({FAR},) and dtype"
    assert str(caught.value) == f"{told} float32"
