"""Several processes, several devices: what they tell each other, and training on shares of a batch.

The processes are threads here, with a world of bytes between them, so that one body runs on every
device; at the end MPI's own processes, where it is installed.
"""

from __future__ import annotations

import functools
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import cudamath as cm
from cudamath import distributed
from cudamath.distributed import collectives, owners, parallel
from cudamath.runtime.mpi import World

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="arrays are on real devices"
)


class Bytes:
    """What MPI's communicator does, between threads: each puts what it has where all can see it,
    and waits for the others."""

    def __init__(self, size, rank, board, meeting):
        self.size, self.rank, self.board, self.meeting = size, rank, board, meeting

    def _seen(self, mine):
        self.board[self.rank] = np.array(mine)
        self.meeting.wait()
        seen = list(self.board)
        self.meeting.wait()
        return seen

    def Alltoall(self, sent, received):
        received[...] = [each[self.rank] for each in self._seen(sent)]

    def Allgather(self, sent, received):
        received[...] = self._seen(sent)

    def Bcast(self, data, root):
        data[...] = self._seen(data)[root]

    def Barrier(self):
        self._seen(np.zeros(0))


@pytest.fixture
def processes(monkeypatch):
    """processes(count, fn): what fn(rank) returns, or raises, in each of `count` threads that take
    themselves for processes."""
    here = threading.local()
    for module in (collectives, owners, parallel):
        monkeypatch.setattr(module, "world", lambda: getattr(here, "world", None) or World())

    def run(count, fn):
        board, meeting, found = [None] * count, threading.Barrier(count, timeout=60), [None] * count

        def one(rank):
            here.world = World(Bytes(count, rank, board, meeting), rank)
            try:
                found[rank] = fn(rank)
            except Exception as problem:
                found[rank] = problem

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    return run


def values(rank, shape, dtype):
    return (np.random.default_rng(rank).normal(size=shape) * 10).astype(dtype)


@pytest.mark.parametrize(
    "dtype", ["float16", cm.bfloat16, "float32", "float64", "int32", "uint8", "complex64"]
)
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min"])
def test_all_reduce(device, processes, monkeypatch, op, dtype):
    """In the order of the ranks, 16-bit numbers in float32: to the last bit. Also in several
    messages."""
    kind = np.dtype(dtype).kind
    if (op == "mean" and kind in "iu") or (op in ("max", "min") and kind == "c"):
        with pytest.raises(TypeError, match="all_reduce: wants"):
            distributed.all_reduce(cm.ones(2, dtype=dtype), op)
        return
    shapes = {"a": (5, 3), "b": (), "c": (0, 2), "d": (7,)}
    monkeypatch.setattr(collectives, "MOST", 32)
    trees = [
        {
            name: values(10 * rank + i, shape, dtype)
            for i, (name, shape) in enumerate(shapes.items())
        }
        for rank in range(3)
    ]
    results = processes(
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


def test_all_reduce_of_several_dtypes_and_layouts(device, processes):
    def one(rank):
        x = cm.asarray(values(rank, (4, 6), "float32"), device=device)
        return distributed.all_reduce([x.T[::2], (cm.arange(3, device=device) + rank, x[1])])

    a, b = values(0, (4, 6), "float32"), values(1, (4, 6), "float32")
    for y, (n, z) in processes(2, one):
        np.testing.assert_array_equal(np.asarray(y), a.T[::2] + b.T[::2])
        np.testing.assert_array_equal(np.asarray(z), a[1] + b[1])
        assert n.tolist() == [1, 3, 5]


def test_broadcast_and_gather(device, processes, monkeypatch):
    monkeypatch.setattr(collectives, "MOST", 16)

    def one(rank):
        x = cm.asarray(values(rank, (2, 3), cm.bfloat16), device=device)
        return (
            distributed.broadcast({"x": x, "n": rank}, root=1),
            distributed.all_gather(x, axis=1),
            distributed.all_gather(cm.asarray(rank > 0, device=device)),
            distributed.all_gather(x[:0]),
        )

    parts = [values(rank, (2, 3), cm.bfloat16) for rank in range(3)]
    for told, wide, flags, empty in processes(3, one):
        np.testing.assert_array_equal(np.asarray(told["x"]), parts[1])
        assert (
            int(told["n"]) == 1 and flags.tolist() == [False, True, True] and empty.shape == (0, 3)
        )
        np.testing.assert_array_equal(np.asarray(wide), np.concatenate(parts, 1))


def test_quantized_parameters_travel(device, processes):
    def one(rank):
        weights = cm.ml.quantize(
            cm.asarray(values(rank, (8, 4), "float32"), device=device), "float8_e4m3"
        )
        return cm.ml.dequantize(distributed.broadcast({"w": weights}, root=1)["w"])

    expected = cm.ml.dequantize(
        cm.ml.quantize(cm.asarray(values(1, (8, 4), "float32"), device=device), "float8_e4m3")
    )
    for found in processes(2, one):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_shares(device, processes, monkeypatch):
    monkeypatch.setattr(collectives, "MOST", 16)

    def one(rank):
        x = cm.asarray(values(rank, (6, 2), "float32"), device=device)
        return distributed.reduce_scatter(x), distributed.share([np.arange(9), x])

    total = functools.reduce(np.add, [values(rank, (6, 2), "float32") for rank in range(3)])
    for rank, (sums, (numbers, rows)) in enumerate(processes(3, one)):
        np.testing.assert_array_equal(np.asarray(sums), total[2 * rank : 2 * rank + 2])
        assert isinstance(numbers, np.ndarray) and numbers.tolist() == [
            3 * rank,
            3 * rank + 1,
            3 * rank + 2,
        ]
        np.testing.assert_array_equal(
            np.asarray(rows), values(rank, (6, 2), "float32")[2 * rank : 2 * rank + 2]
        )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda rank: distributed.all_reduce(cm.ones(2 + rank)),
            r"all_reduce: .* rank 0 brought float64\(2,\), sum.* rank 1 float64\(3,\)",
        ),
        (lambda rank: distributed.all_reduce({"ab"[rank]: cm.ones(2)}), "'a'.*'b'"),
        (lambda rank: distributed.all_reduce(cm.ones(2), ["sum", "max"][rank]), "sum.*max"),
        (
            lambda rank: distributed.broadcast(cm.ones(2), rank),
            "broadcast: all processes must bring the same",
        ),
        (
            lambda rank: distributed.all_gather(cm.ones((2, 2)), rank),
            "all_gather: all processes must bring the same",
        ),
        (
            lambda rank: distributed.take_from_owners([cm.ones(2)] * (rank + 1)),
            "take_from_owners: all processes must bring",
        ),
        (
            lambda rank: distributed.reduce_scatter(cm.ones(3)),
            r"reduce_scatter: wants a first axis that 2 processes .*\(3,\)",
        ),
        (
            lambda rank: distributed.share(cm.ones(3)),
            r"share: wants arrays whose first axis divides into 2 .*\(3,\)",
        ),
        (lambda rank: distributed.share(2.0), r"share: .*\(\)"),
    ],
    ids=range(9),
)
def test_processes_that_differ_are_told_so(processes, call, words):
    for problem in processes(2, call):
        assert isinstance(problem, ValueError)
        with pytest.raises(ValueError, match=words):
            raise problem


def test_wrong_use():
    with pytest.raises(
        ValueError, match="all_reduce: op must be one of sum, mean, max, min, got 'prod'"
    ):
        distributed.all_reduce(cm.ones(2), "prod")
    with pytest.raises(ValueError, match="broadcast: wants a root from 0 to 0, got 1"):
        distributed.broadcast(cm.ones(2), 1)
    with pytest.raises(
        TypeError, match="all_reduce: gradients do not pass between processes.*carries one"
    ):
        cm.grad(lambda x: distributed.all_reduce(x).sum())(cm.ones(2))
    with pytest.raises(ValueError, match="wants at least one device, got none"):
        distributed.value_and_grad(lambda x: x, devices=[])
    with pytest.raises(TypeError, match="distributed.value_and_grad"):
        distributed.value_and_grad(3)
    with pytest.raises(cm.cuda.DeviceError, match="'gpu' is not a device"):
        distributed.value_and_grad(lambda x: x, devices=["gpu"])
    for split in (0, 2, (1, -3)):
        step = distributed.value_and_grad(
            lambda w, x: (w * x).sum(), devices=["cpu", "cpu"], split=split
        )
        with pytest.raises(ValueError, match="but the function was called with 2 arguments"):
            step(cm.ones(()), cm.ones(4))
    assert (
        distributed.value_and_grad(lambda w, x: (w * x).mean(), devices=["cpu", "cpu"], split=-1)(
            cm.ones(()), np.ones(4)
        )[1]
        == 1
    )
    step = distributed.value_and_grad(lambda w, x: (w * x).sum(), devices=["cpu", "cpu"])
    with pytest.raises(ValueError, match=r"divides into 2 equal parts, got shape \(3,\)"):
        step(cm.ones(()), cm.ones(3))


def loss(params, x, y, scale, training=True):
    """Cross entropy of a small network; aux: a running mean, a count, and words."""
    h = cm.tanh(x @ params["w"] + params["b"])
    value = cm.ml.cross_entropy(h @ params["v"], y) * scale["s"]
    return value, {"mean": h.mean(0), "count": cm.asarray(3), "training": training}


def network(device, dtype="float32"):
    rng = np.random.default_rng(0)
    params = {
        name: cm.asarray(rng.normal(size=shape), dtype=dtype, device=device)
        for name, shape in (("w", (5, 8)), ("b", (8,)), ("v", (8, 4)))
    }
    return params, rng.normal(size=(12, 5)).astype(dtype), rng.integers(0, 4, 12)


def check(results, device, tolerance=1e-5):
    """Each as of the whole batch; all of the same bits."""
    params, x, y = network(device)
    scale = {"s": cm.asarray(np.float32(2), device=device)}
    batch = cm.asarray(x, device=device), cm.asarray(y, device=device)
    (value, aux), grads = cm.value_and_grad(loss, has_aux=True)(
        params, *batch, scale, training=False
    )
    for (v, a), g in results:
        np.testing.assert_allclose(float(v), float(value), rtol=tolerance)
        np.testing.assert_allclose(
            np.asarray(a["mean"]), np.asarray(aux["mean"]), rtol=tolerance, atol=tolerance
        )
        assert int(a["count"]) == 3 and a["training"] is False
        for name, each in grads.items():
            assert g[name].device == each.device
            np.testing.assert_allclose(
                np.asarray(g[name]), np.asarray(each), rtol=tolerance, atol=tolerance
            )
            assert np.asarray(g[name]).tobytes() == np.asarray(results[0][1][name]).tobytes()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_devices_share_a_batch(device, count):
    params, x, y = network(device)
    step = distributed.value_and_grad(loss, has_aux=True, devices=[device] * count, split=(1, 2))
    check([step(params, x, y, {"s": np.float32(2)}, training=False) for _ in range(2)], device)


def test_complex_gradients_are_averaged(device, processes):
    """They were those of the first device, or process."""
    rng = np.random.default_rng(0)
    w, x = (
        cm.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape), device=device)
        for shape in (3, (8, 3))
    )

    def power(w, x):
        y = x @ w
        return (y.real**2 + y.imag**2).mean()

    _, expected = cm.value_and_grad(power)(w, x)
    both, each = (
        distributed.value_and_grad(power, devices=[device] * 2),
        distributed.value_and_grad(power),
    )
    for found in (both(w, x), *processes(2, lambda rank: each(w, distributed.share(x)))):
        np.testing.assert_allclose(np.asarray(found[1]), np.asarray(expected), rtol=1e-13)


@pytest.mark.parametrize("devices", [1, 2])
def test_processes_share_a_batch(device, processes, devices):
    def one(rank):
        params, x, y = network(device)
        params = distributed.broadcast(
            params if rank == 0 else {name: 0 * p for name, p in params.items()}
        )
        places = None if devices == 1 else [device] * devices
        step = distributed.value_and_grad(loss, has_aux=True, devices=places, split=(1, 2))
        x, y = (cm.asarray(each, device=device) for each in distributed.share((x, y)))
        return step(params, x, y, {"s": cm.asarray(np.float32(2), device=device)}, training=False)

    check(processes(3, one), device)


def test_each_process_keeps_a_share_of_the_optimizer(device, processes):
    """The same bits as where each process updates everything; the moments of all processes together
    are those of one."""
    x, y = network(device)[1:]

    def one(rank, divided):
        params = network(device)[0]
        mine = distributed.owned(params) if divided else params
        state = cm.ml.adam_init(mine)
        step = distributed.value_and_grad(lambda p, x, y: loss(p, x, y, {"s": 1.0})[0])
        for _ in range(3):
            _, grads = step(
                params, *(cm.asarray(each, device=device) for each in distributed.share((x, y)))
            )
            cm.ml.adamw_update(mine, distributed.owned(grads) if divided else grads, state, lr=1e-2)
            if divided:
                distributed.take_from_owners(params)
        return {name: np.asarray(p) for name, p in params.items()}, [
            m.shape for m in state["m"]
        ] if divided else None

    whole = processes(2, lambda rank: one(rank, False))
    parts = processes(2, lambda rank: one(rank, True))
    assert [shapes for _, shapes in parts] == [[(5, 8)], [(8,), (8, 4)]]  # 160 bytes, and 32 + 128
    for params, _ in [*whole, *parts]:
        for name, p in params.items():
            np.testing.assert_array_equal(p, whole[0][0][name])


def test_two_gpus_of_a_fake_driver(fake):
    """Launches on both, results on the first; the default device is what it was."""
    step = distributed.value_and_grad(
        lambda w, x: ((x @ w) ** 2).mean(), devices=["cuda:0", "cuda:1"]
    )
    value, gradient = step(
        cm.asarray(np.ones((5, 3), "f4"), device="cuda:1"), np.ones((8, 5), "f4")
    )
    assert (value.device, gradient.device, gradient.shape) == ("cuda:0", "cuda:0", (5, 3))
    used = [cm.cuda.memory_stats(index)["allocations"] for index in (0, 1)]
    assert min(used) > 0 and cm.default_device() == "cuda:0"


@pytest.mark.multigpu
def test_two_gpus_share_a_batch():
    params, x, y = network("cuda:0")
    step = distributed.value_and_grad(
        loss, has_aux=True, devices=["cuda:0", "cuda:1"], split=(1, 2)
    )
    check([step(params, x, y, {"s": np.float32(2)}, training=False) for _ in range(2)], "cuda:0")


# -------------------- MPI itself


#: All on this machine, by whatever user, more processes than cores: for MPICH and for Open MPI.
LOCAL = {
    "HYDRA_LAUNCHER": "fork",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def launched(count, source, **environment):
    """A program in `count` processes of MPI, on the CPU; its output."""
    pytest.importorskip("mpi4py")
    launcher = pathlib.Path(sys.executable).parent / "mpiexec"
    found = str(launcher) if launcher.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("there is no mpiexec here")
    environment = {
        **os.environ,
        **LOCAL,
        "CUDAMATH_DEVICE": "cpu",
        "OPENBLAS_NUM_THREADS": "1",
        **environment,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    return subprocess.run(
        [found, "-n", str(count), sys.executable, "-m", "mpi4py", "-c", source],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


TRAINING = """
import numpy as np, cudamath as cm
from cudamath import distributed
distributed.use_own_device()
rng = np.random.default_rng(0)
x, y = rng.normal(size=(12, 5)), rng.normal(size=12)
sizes = {"w": (5, 8), "b": 8, "v": 8}
params = {name: rng.normal(size=n) * (distributed.rank() == 0) for name, n in sizes.items()}
params = distributed.broadcast(params)
layer = lambda p, x: cm.tanh(x @ p["w"] + p["b"]) @ p["v"]
step = distributed.value_and_grad(lambda p, x, y: ((layer(p, x) - y) ** 2).mean())
for _ in range(5):
    value, grads = step(params, *map(cm.asarray, distributed.share((x, y))))
    params = {name: p - 0.1 * grads[name] for name, p in params.items()}
distributed.barrier()
ranks = distributed.all_gather(cm.asarray(distributed.rank())).tolist()
assert ranks == list(range(distributed.size()))
bits = distributed.all_gather(params["w"][None])
assert (bits == bits[0]).all()
if not distributed.rank():
    print(distributed.size(), distributed.local_rank(), *params["w"].ravel().tolist())
"""


def test_training_in_processes_of_mpi():
    """The same program alone and in two processes: the same parameters, but for the order of
    additions."""
    found = {}
    for count in (1, 2):
        done = launched(count, TRAINING)
        assert done.returncode == 0, done.stderr[-3000:]
        size, local, *numbers = done.stdout.split()
        assert (int(size), int(local)) == (count, 0)
        found[count] = np.array(numbers, float)
    np.testing.assert_allclose(found[2], found[1], rtol=1e-12)


def test_an_error_in_one_process_ends_all():
    done = launched(
        2,
        "from cudamath import distributed as d\nif d.rank(): raise ValueError('here')\nd.barrier()",
    )
    assert done.returncode != 0 and "ValueError: here" in done.stderr


def test_a_launched_process_without_mpi4py_is_told_what_is_missing():
    code = (
        "import sys; sys.modules['mpi4py'] = None; import cudamath as cm\n"
        "try: cm.distributed.size()\nexcept ImportError as problem: print(problem)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PMI_SIZE": "2"},
        capture_output=True,
        text=True,
    )
    assert "pip install 'cudamath[distributed]'" in done.stdout, done.stderr
