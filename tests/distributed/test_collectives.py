"""Collectives between threads that take themselves for processes, so that one body runs on every
device: values, gradients, errors."""

from __future__ import annotations

import functools
import os
import re
import threading

import numpy as np
import pytest
from processes import each

import cudamath as cm
from cudamath import distributed
from cudamath.runtime.errors import CommunicationError

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="arrays are on real devices"
)


def values(rank, shape, dtype):
    return (np.random.default_rng(rank).normal(size=shape) * 10).astype(dtype)


@pytest.mark.parametrize(
    "dtype", ["float16", cm.bfloat16, "float32", "float64", "int32", "uint8", "complex64"]
)
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
def test_all_reduce(device, op, dtype, many):
    """In the order of the ranks, 16-bit numbers in float32: to the last bit. Few numbers travel in
    one message, many in parts."""
    kind = np.dtype(dtype).kind
    if (op == "mean" and kind in "iu") or (op in ("max", "min") and kind == "c"):
        with pytest.raises(TypeError, match="all_reduce: wants"):
            distributed.all_reduce(cm.ones(2, dtype=dtype), op)
        return
    shapes = {"a": (5, 3), "b": (), "c": (0, 2), "d": (7,)}
    if many:
        shapes["e"] = (101, 257)
    trees = [
        {
            name: values(10 * rank + i, shape, dtype)
            for i, (name, shape) in enumerate(shapes.items())
        }
        for rank in range(3)
    ]
    results = each(
        3,
        lambda rank: distributed.all_reduce(
            {name: cm.asarray(x, device=device) for name, x in trees[rank].items()}, op
        ),
    )
    wide = np.float32 if np.dtype(dtype).itemsize == 2 else np.dtype(dtype)
    for name in shapes:
        parts = [tree[name].astype(wide) for tree in trees]
        fold = {"max": np.maximum, "min": np.minimum}.get(op, np.add)
        expected = functools.reduce(fold, parts)
        expected = (expected / 3 if op == "mean" else expected).astype(dtype)
        for result in results:
            assert (
                result[name].dtype == np.dtype(dtype)
                and result[name].device == cm.zeros(1, device=device).device
            )
            np.testing.assert_array_equal(np.asarray(result[name]), expected)


def test_all_reduce_of_several_dtypes_and_layouts(device):
    def one(rank):
        x = cm.asarray(values(rank, (4, 6), "float32"), device=device)
        return distributed.all_reduce([x.T[::2], (cm.arange(3, device=device) + rank, x[1])])

    a, b = values(0, (4, 6), "float32"), values(1, (4, 6), "float32")
    for y, (n, z) in each(2, one):
        np.testing.assert_array_equal(np.asarray(y), a.T[::2] + b.T[::2])
        np.testing.assert_array_equal(np.asarray(z), a[1] + b[1])
        assert n.tolist() == [1, 3, 5]


def test_broadcast_and_gather(device):

    def one(rank):
        x = cm.asarray(values(rank, (2, 3), cm.bfloat16), device=device)
        return (
            distributed.broadcast({"x": x, "n": rank}, root=1),
            distributed.all_gather(x, axis=1),
            distributed.all_gather(cm.asarray(rank > 0, device=device)),
            distributed.all_gather(x[:0]),
        )

    parts = [values(rank, (2, 3), cm.bfloat16) for rank in range(3)]
    for told, wide, flags, empty in each(3, one):
        np.testing.assert_array_equal(np.asarray(told["x"]), parts[1])
        assert (
            int(told["n"]) == 1 and flags.tolist() == [False, True, True] and empty.shape == (0, 3)
        )
        np.testing.assert_array_equal(np.asarray(wide), np.concatenate(parts, 1))


def test_quantized_parameters_travel(device):
    def one(rank):
        weights = cm.ml.quantize(
            cm.asarray(values(rank, (8, 4), "float32"), device=device), "float8_e4m3"
        )
        return cm.ml.dequantize(distributed.broadcast({"w": weights}, root=1)["w"])

    expected = cm.ml.dequantize(
        cm.ml.quantize(cm.asarray(values(1, (8, 4), "float32"), device=device), "float8_e4m3")
    )
    for found in each(2, one):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_shares(device):

    def one(rank):
        x = cm.asarray(values(rank, (6, 2), "float32"), device=device)
        return distributed.reduce_scatter(x), distributed.share([np.arange(9), x])

    total = functools.reduce(np.add, [values(rank, (6, 2), "float32") for rank in range(3)])
    for rank, (sums, (numbers, rows)) in enumerate(each(3, one)):
        np.testing.assert_array_equal(np.asarray(sums), total[2 * rank : 2 * rank + 2])
        assert isinstance(numbers, np.ndarray) and numbers.tolist() == [
            3 * rank,
            3 * rank + 1,
            3 * rank + 2,
        ]
        np.testing.assert_array_equal(
            np.asarray(rows), values(rank, (6, 2), "float32")[2 * rank : 2 * rank + 2]
        )


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_reduce_scatter_along_axes(device, op, axis):
    parts = [values(rank, (6, 9, 3), "float64") for rank in range(3)]
    fold = {"max": np.max, "min": np.min, "sum": np.sum, "mean": np.mean}[op]
    whole = np.split(fold(parts, axis=0), 3, axis)
    found = each(
        3,
        lambda rank: distributed.reduce_scatter(
            cm.asarray(parts[rank], device=device), op, axis=axis
        ),
    )
    for y, expected in zip(found, whole, strict=True):
        np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-15)


@pytest.mark.parametrize(("split", "join"), [(0, None), (0, 1), (1, 0), (2, 1), (-1, -2)])
@pytest.mark.parametrize("dtype", ["float32", "int16", cm.bfloat16, "bool"])
def test_all_to_all(device, split, join, dtype):
    parts = [values(rank, (4, 6, 2), dtype) for rank in range(2)]
    found = each(
        2,
        lambda rank: distributed.all_to_all(cm.asarray(parts[rank], device=device), split, join),
    )
    for rank, y in enumerate(found):
        pieces = [np.split(x, 2, split)[rank] for x in parts]
        expected = np.concatenate(pieces, split if join is None else join)
        assert y.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(np.asarray(y), expected)


def test_send_and_recv(device):
    """Around a ring, in both directions, and several in a row."""

    def one(rank):
        x = cm.asarray(values(rank, (3, 2), "float32"), device=device)
        after, before = (rank + 1) % 3, (rank - 1) % 3
        distributed.send(x.T, after)
        distributed.send(cm.asarray(rank, device=device), after)
        first = distributed.recv(x.T, before)
        number = distributed.recv(cm.asarray(0, device=device), before)
        return first, int(number)

    for rank, (y, number) in enumerate(each(3, one)):
        np.testing.assert_array_equal(np.asarray(y), values((rank - 1) % 3, (3, 2), "float32").T)
        assert number == (rank - 1) % 3


# -------------------- gradients

N = 3
#: name -> (the collective of one member, the same of all members as a function of all arrays).
LINEAR = {
    "sum": (lambda x, rank: distributed.all_reduce(x), lambda xs: [sum(xs)] * N),
    "mean": (
        lambda x, rank: distributed.all_reduce({"x": [x]}, "mean")["x"][0],
        lambda xs: [sum(xs) / N] * N,
    ),
    "in order": (
        lambda x, rank: distributed.all_reduce(x, deterministic=True),
        lambda xs: [sum(xs)] * N,
    ),
    "max": (
        lambda x, rank: distributed.all_reduce(x, "max"),
        lambda xs: [functools.reduce(cm.maximum, xs)] * N,
    ),
    "min": (
        lambda x, rank: distributed.all_reduce(x, "min"),
        lambda xs: [functools.reduce(cm.minimum, xs)] * N,
    ),
    "gather": (
        lambda x, rank: distributed.all_gather(x, axis=1),
        lambda xs: [cm.concatenate(xs, axis=1)] * N,
    ),
    "scatter": (
        lambda x, rank: distributed.reduce_scatter(x),
        lambda xs: [sum(xs)[2 * i : 2 * i + 2] for i in range(N)],
    ),
    "scatter, mean": (
        lambda x, rank: distributed.reduce_scatter(x, "mean", axis=1),
        lambda xs: [sum(xs)[:, i : i + 1] / N for i in range(N)],
    ),
    "broadcast": (lambda x, rank: distributed.broadcast(x, 1), lambda xs: [xs[1]] * N),
    "exchange": (
        lambda x, rank: distributed.all_to_all(x, 0, 1),
        lambda xs: [cm.concatenate([x[2 * i : 2 * i + 2] for x in xs], axis=1) for i in range(N)],
    ),
}


@pytest.mark.parametrize("name", LINEAR)
def test_gradients(device, name):
    """Those of the sum of what all members compute, as one process computes it; also of
    gradients."""
    of_one, of_all = LINEAR[name]
    data = [values(rank, (6, 3), "float64") for rank in range(N)]
    weights = [1.0, -2.0, 0.5]

    def whole(*xs):
        return sum(w * (y**3).sum() for w, y in zip(weights, of_all(list(xs)), strict=True))

    def one(rank):
        def loss(x):
            return weights[rank] * (of_one(x, rank) ** 3).sum()

        x = cm.asarray(data[rank], device=device)
        return cm.grad(loss)(x), cm.grad(lambda x: (cm.grad(loss)(x) ** 2).sum())(x)

    xs = [cm.asarray(x, device=device) for x in data]
    every = tuple(range(N))
    expected = cm.grad(whole, every)(*xs)
    second = cm.grad(lambda *xs: sum((g**2).sum() for g in cm.grad(whole, every)(*xs)), every)(*xs)
    for (g, h), a, b in zip(each(N, one), expected, second, strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(a), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(np.asarray(h), np.asarray(b), rtol=1e-11, atol=1e-9)


def test_the_gradient_of_an_extreme_is_divided_among_those_who_have_it(device):
    found = each(
        3,
        lambda rank: cm.grad(lambda x: distributed.all_reduce(x, "max").sum())(
            cm.asarray([1.0, float(rank), 2.0 * (rank > 0)], device=device)
        ),
    )
    assert [g.tolist() for g in found] == [[1.0, 0, 0], [1.0, 0, 1.5], [1.0, 3.0, 1.5]]


def test_gradients_of_what_was_sent(device):
    """Two stages of a pipeline have the gradients of the whole."""
    x, w, v = values(0, 4, "float64"), values(1, (4, 4), "float64"), values(2, (4, 4), "float64")

    def one(rank):
        a = cm.asarray((w, v)[rank], device=device)
        first = cm.asarray(x, device=device)

        def loss(a):
            if rank == 0:
                return distributed.send(cm.tanh(first @ a), 1)
            middle = distributed.recv(first + 0 * a.sum(), 0)
            return ((middle @ a) ** 2).sum()

        return cm.grad(loss)(a)

    expected = cm.grad(lambda w, v: ((cm.tanh(cm.asarray(x) @ w) @ v) ** 2).sum(), (0, 1))(
        cm.asarray(w), cm.asarray(v)
    )
    for found, g in zip(each(2, one), expected, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(g), rtol=1e-12)


def test_in_a_program_and_in_graphs(device):
    """`cm.jit` and `cm.cuda.graph` record collectives like other ops."""

    def one(rank):
        def step(x):
            total, most = distributed.all_reduce(x * 2), distributed.all_reduce(x, "max")
            return cm.exp(total - most) + distributed.all_gather(x.sum()).sum()

        x = cm.asarray(values(rank, 5, "float64"), device=device)
        if device == "cuda" and distributed.transport() != "nccl":
            return [step(x)]
        program = cm.jit(step)
        captured = cm.cuda.graph(step)
        return [step(x), *[program(x) for _ in range(3)], *[captured(x) for _ in range(3)]]

    for found in each(2, one):
        for y in found[1:]:
            np.testing.assert_allclose(np.asarray(y), np.asarray(found[0]), rtol=1e-14)


def test_what_cannot_be_part_of_a_program_says_so():
    def one(rank):
        program = cm.jit(lambda x: distributed.send(x, 1 - rank))
        with pytest.raises(Exception, match="met other processes"):
            program(cm.ones(2))

    assert each(2, one) == [None, None]


# -------------------- errors


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda rank: distributed.all_reduce(cm.ones(2 + rank)),
            r"all_reduce: .* rank 0 brought all_reduce, sum of float64\(2,\).* rank 1 .*\(3,\)",
        ),
        (lambda rank: distributed.all_reduce({"ab"[rank]: cm.ones(2)}), "'a'.*'b'"),
        (lambda rank: distributed.all_reduce(cm.ones(2), ["sum", "max"][rank]), "sum.*max"),
        (lambda rank: distributed.all_reduce(cm.ones(2 * rank)), r"\(0,\).*\(2,\)"),
        (lambda rank: distributed.all_reduce(cm.ones(2, dtype=["f4", "f8"][rank])), "float32.*64"),
        (
            lambda rank: (distributed.all_gather if rank else distributed.all_to_all)(cm.ones(2)),
            "all_to_all of.*all_gather of",
        ),
        (
            lambda rank: distributed.barrier() if rank else distributed.all_gather(cm.ones(2)),
            "all processes must bring the same; rank 0 brought all_gather of.* rank 1 barrier",
        ),
        (
            lambda rank: distributed.broadcast(cm.ones(2), rank),
            "broadcast: all processes must bring the same",
        ),
        (
            lambda rank: distributed.all_gather(cm.ones((2, 3)), rank),
            "all_gather: all processes must bring the same",
        ),
        (
            lambda rank: distributed.take_from_owners([cm.ones(2)] * (rank + 1)),
            "all processes must bring",
        ),
        (
            lambda rank: distributed.reduce_scatter(cm.ones(3)),
            r"reduce_scatter: wants a first axis that 2 processes .*\(3,\)",
        ),
        (
            lambda rank: distributed.all_to_all(cm.ones((2, 3)), 1),
            r"all_to_all: wants an axis 1 that 2 processes .*\(2, 3\)",
        ),
        (
            lambda rank: distributed.share(cm.ones(3)),
            r"share: wants arrays whose first axis divides into 2 .*\(3,\)",
        ),
        (lambda rank: distributed.share(2.0), r"share: .*\(\)"),
        (lambda rank: distributed.send(2.0, rank), "send: wants another process, got rank"),
        (lambda rank: distributed.recv(2.0, 2), "recv: wants a rank from 0 to 1, got 2"),
    ],
    ids=range(16),
)
def test_processes_that_differ_are_told_so(call, words):
    for problem in each(2, call):
        assert isinstance(problem, ValueError), repr(problem)
        with pytest.raises(ValueError, match=words):
            raise problem


def test_a_received_array_is_of_the_expected_kind():
    def one(rank):
        return distributed.recv(cm.ones(3), 0) if rank else distributed.send(cm.ones(2), 1)

    assert re.search(r"recv: wants .*\(3,\) from rank 0, which sent .*\(2,\)", str(each(2, one)[1]))


def test_after_a_difference_the_processes_go_on():
    def one(rank):
        with pytest.raises(ValueError, match="all processes must bring the same"):
            distributed.all_reduce(cm.ones(2 + rank))
        return distributed.all_reduce(cm.ones(2)).tolist()

    assert each(2, one) == [[2.0, 2.0]] * 2


def test_wrong_use():
    with pytest.raises(
        ValueError, match="all_reduce: op must be one of sum, mean, max, min, got 'prod'"
    ):
        distributed.all_reduce(cm.ones(2), "prod")
    with pytest.raises(ValueError, match="broadcast: wants a root from 0 to 0, got 1"):
        distributed.broadcast(cm.ones(2), 1)
    with pytest.raises(TypeError, match="reduce_scatter: max has no gradient"):
        cm.grad(lambda x: distributed.reduce_scatter(x, "max").sum())(cm.ones(2))
    with pytest.raises(ValueError, match="in_threads: wants at least 1 thread, got 0"):
        distributed.in_threads(0, lambda rank: rank)
    with pytest.raises(TypeError, match="in_threads"):
        distributed.in_threads(2, 3)
    for arguments, words in (
        ({"rank": 0}, "wants rank and size, or neither, got 0 and None"),
        ({"address": "here:1"}, "an address or a file wants rank and size too"),
        ({"rank": 0, "size": 2}, "wants an address or a file where the processes meet"),
        ({"rank": 0, "size": 2, "address": "here"}, "an address is 'host:port', got 'here'"),
        ({"rank": 0, "size": 2, "address": "a:1", "file": "b"}, "an address or a file, got both"),
        ({"rank": 2, "size": 2, "address": "a:1"}, "a rank from 0 to size - 1, got rank 2 of 2"),
        ({"timeout": 0}, "timeout is a positive number of seconds, got 0"),
    ):
        with pytest.raises(ValueError, match=f"initialize: .*{words}"):
            distributed.initialize(**arguments)


# -------------------- failures of threads


def test_the_error_of_a_thread_is_raised_and_the_others_are_told():
    told = {}

    def one(rank):
        if rank == 1:
            raise MemoryError("no room")
        try:
            distributed.all_reduce(cm.ones(2))
        except CommunicationError as problem:
            told[rank] = problem
            raise

    with pytest.raises(MemoryError, match="no room"):
        distributed.in_threads(3, one, timeout=30)
    assert sorted(told) == [0, 2]
    for problem in told.values():
        assert problem.rank == 1
        assert str(problem) == "all_reduce: rank 1 ended with MemoryError: no room"


def test_a_late_thread_is_named():
    def one(rank):
        if rank == 2:
            done.wait(20)
            return None
        with pytest.raises(CommunicationError, match="rank 2 did not come to all_gather") as seen:
            distributed.all_gather(cm.ones(2))
        done.set()
        return seen.value.rank

    done = threading.Event()
    assert distributed.in_threads(3, one, timeout=0.3) == [2, 2, None]


def test_a_thread_that_has_ended_is_named():
    found = each(2, lambda rank: rank or distributed.all_gather(cm.ones(2)))
    assert isinstance(found[0], CommunicationError) and found[0].rank == 1
    assert "rank 1 has ended, and rank 0 waits for it" in str(found[0])
