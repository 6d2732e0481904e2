"""Processes of this machine, which several launchers start: how they meet, what they tell each
other, and what the others hear when one of them fails."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import pytest
from processes import alone, by_launcher, by_mpi, environment, run

from cudamath.runtime.communication import rendezvous
from cudamath.runtime.communication.tcp import TcpWorld

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="arrays are on real devices"
)

COLLECTIVES = pathlib.Path(__file__).parent / "programs" / "collectives.py"

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
bits = distributed.all_gather(params["w"][None])
assert (bits == bits[0]).all()
if not distributed.rank():
    print(distributed.size(), distributed.local_rank(), *params["w"].ravel().tolist())
"""


@pytest.fixture
def program(tmp_path):
    """program(source): a file."""

    def write(source):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(source))
        return path

    return write


def check_output(text, count):
    assert sorted(text.split("\n")) == ["", *[f"good {i} {count} {i}" for i in range(count)]]


@pytest.mark.parametrize("launcher", [by_launcher, by_mpi])
def test_collectives_of_four_processes(launcher):
    done = launcher(4, COLLECTIVES)
    assert done.returncode == 0, done.stderr[-3000:]
    check_output(done.stdout, 4)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return str(probe.getsockname()[1])


@pytest.mark.parametrize("how", ["file", "slurm", "torchrun"])
def test_processes_that_nobody_introduced(tmp_path, how):
    """They meet by a file; by the numbers of srun and an address; behind torchrun's own port."""
    port = free_port()

    def own(rank):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        if how == "slurm":
            return {
                "SLURM_PROCID": str(rank),
                "SLURM_NTASKS": "2",
                "SLURM_LOCALID": str(rank),
                **place,
            }
        numbers = {"RANK": str(rank), "WORLD_SIZE": "2"}
        if how == "file":
            return numbers | {"CUDAMATH_RENDEZVOUS": str(tmp_path / "meeting")}
        return numbers | place | {"LOCAL_RANK": str(rank), "TORCHELASTIC_USE_AGENT_STORE": "True"}

    agent = socket.create_server(("127.0.0.1", int(port))) if how == "torchrun" else None
    processes = alone(2, COLLECTIVES, own)
    outputs = [process.communicate(timeout=60) for process in processes]
    if agent:
        agent.close()
    assert [process.returncode for process in processes] == [0, 0], outputs
    check_output("".join(out for out, _ in outputs), 2)
    assert not (tmp_path / "meeting").exists()


def test_training_gives_the_parameters_of_one_process(program):
    """But for the order of additions."""
    found = {}
    for count in (1, 2):
        done = by_mpi(count, program(TRAINING))
        assert done.returncode == 0, done.stderr[-3000:]
        size, local, *numbers = done.stdout.split()
        assert (int(size), int(local)) == (count, 0)
        found[count] = np.array(numbers, float)
    np.testing.assert_allclose(found[2], found[1], rtol=1e-12)


@pytest.mark.multigpu
@pytest.mark.parametrize("program", ["collectives", "training"])
def test_programs_on_two_gpus(program):
    done = by_launcher(2, COLLECTIVES.with_name(f"{program}.py"), CUDAMATH_DEVICE="cuda")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.count("good") == 2
    if program == "training":
        assert done.stdout.count("nccl") == 2


# -------------------- meeting


def test_a_launched_process_without_mpi4py_is_told_what_is_missing():
    code = (
        "import sys; sys.modules['mpi4py'] = None; import cudamath as cm\n"
        "try: cm.distributed.size()\nexcept ImportError as problem: print(problem)"
    )
    done = run(sys.executable, "-c", code, PMI_SIZE="2")
    assert "pip install 'cudamath[distributed]'" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "need a place to meet: MASTER_ADDR and MASTER_PORT"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK is a whole number, got 'x'"),
        ({"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}, "rank 2 of 2"),
        ({"CUDAMATH_DISTRIBUTED_TIMEOUT": "soon"}, "a positive number of seconds, got 'soon'"),
    ],
    ids=range(4),
)
def test_an_environment_that_says_half_is_refused(monkeypatch, variables, words):
    from cudamath.runtime.communication import environment, world

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=re.escape(words)):
        environment.joined(environment.from_environment(), world.default_timeout())


def test_who_does_not_come_is_named():
    listener = rendezvous.listening("127.0.0.1", 0)
    port = listener.getsockname()[1]
    begun = time.monotonic()
    with pytest.raises(rendezvous.Absent, match=r"ranks 1, 2 did not come within 0.3 s"):
        rendezvous.connected(0, 3, rendezvous.Meeting("127.0.0.1", port, None, listener), 0.3)
    with pytest.raises(rendezvous.Absent, match=r"rank 0 did not come within 0.3 s"):
        rendezvous.connected(1, 3, rendezvous.Meeting("127.0.0.1", port), 0.3)
    assert time.monotonic() - begun < 5


def test_who_comes_to_the_first_but_not_to_the_others_is_named():
    """Rank 2 says hello to rank 0, and then is silent: rank 1 waits for it in vain."""
    listener = rendezvous.listening("127.0.0.1", 0)
    port = listener.getsockname()[1]
    silent = socket.create_connection(("127.0.0.1", port))
    rendezvous._say(
        silent,
        {"word": rendezvous._WORD, "rank": 2, "size": 3, "host": rendezvous.host(), "port": 1},
    )
    first = threading.Thread(
        target=rendezvous.connected,
        args=(0, 3, rendezvous.Meeting("127.0.0.1", port, None, listener), 20),
    )
    first.start()
    with pytest.raises(rendezvous.Absent, match="^rank 2 did not come within 1 s") as problem:
        rendezvous.connected(1, 3, rendezvous.Meeting("127.0.0.1", port), 1)
    first.join()
    silent.close()
    assert problem.value.rank == 2


@pytest.mark.parametrize(
    "said",
    [
        {"word": rendezvous._WORD, "rank": 7, "size": 9},
        {"word": "another program's", "rank": 1, "size": 2},
        {"word": rendezvous._WORD, "rank": 1, "size": 3},
        {"word": rendezvous._WORD, "rank": 0, "size": 2},
        {"word": rendezvous._WORD, "rank": -1, "size": 2},
        {"word": rendezvous._WORD, "rank": 2, "size": 2},
    ],
)
def test_strangers_are_sent_away(said):
    """Whoever says something else, or nothing, neither joins nor keeps the members from meeting."""
    listener = rendezvous.listening("127.0.0.1", 0)
    port = listener.getsockname()[1]
    stranger = socket.create_connection(("127.0.0.1", port))
    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
    other = socket.create_connection(("127.0.0.1", port))
    rendezvous._say(other, {**said, "host": "x", "port": 1})
    found = {}

    def join(rank, meeting):
        found[rank] = rendezvous.connected(rank, 2, meeting, 20)

    threads = [
        threading.Thread(target=join, args=(rank, meeting))
        for rank, meeting in enumerate(
            [
                rendezvous.Meeting("127.0.0.1", port, None, listener),
                rendezvous.Meeting("127.0.0.1", port),
            ]
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = f"rank {said['rank']} of {said['size']} is not wanted among 2"
    assert refused in rendezvous._heard(other)["problem"]
    assert [list(found[rank][0]) for rank in (0, 1)] == [[1], [0]]
    for connections, _ in found.values():
        for connection in connections.values():
            connection.close()
    stranger.close()
    other.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_says_nothing_to_the_others():
    """It has the connections of its parent, and neither leaves nor fails for it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ends = socket.create_connection(listener.getsockname()), listener.accept()[0]
    one, other = (
        TcpWorld(rank, 2, 0, {1 - rank: end}, timeout=10) for rank, end in enumerate(ends)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's, about forks beside threads
        child = os.fork()
    if not child:
        try:
            one.fail(0, "ended")
            one.close()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    one.send(np.zeros(3, np.uint8), 1, "three")
    assert other.receive(0, "three").size == 3
    assert other.mailbox.failure is None and not other.mailbox._departed
    one.close()
    other.close()


def worlds_of_two() -> list[TcpWorld]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ends = socket.create_connection(listener.getsockname()), listener.accept()[0]
    return [TcpWorld(rank, 2, 0, {1 - rank: end}, timeout=10) for rank, end in enumerate(ends)]


def test_a_world_says_goodbye_once(monkeypatch):
    """Whoever closes it again, as the end of the process does, says nothing more."""
    one, other = worlds_of_two()
    said, write = [], one._write
    monkeypatch.setattr(one, "_write", lambda *words: (said.append(words), write(*words)))
    one.close()
    one.close()
    assert len(said) == 1
    other.close()


def test_no_connection_between_gpus_ends_while_another_member_waits_for_its_own():
    """What is under way there may write into this member's memory."""
    order = []

    class Connection:
        def __init__(self, rank):
            self.rank = rank

        def wait(self):
            time.sleep(0.3 * self.rank)
            order.append("waited")

        def close(self):
            order.append("closed")

    worlds = worlds_of_two()
    for rank, world in enumerate(worlds):
        world.connections.append(Connection(rank))
    ends = [threading.Thread(target=world.close) for world in worlds]
    for end in ends:
        end.start()
    for end in ends:
        end.join()
    assert order == ["waited"] * 2 + ["closed"] * 2


# -------------------- failures

FAULTS = pathlib.Path(__file__).parent / "programs" / "faults.py"


@pytest.mark.parametrize(
    ("how", "timeout", "words"),
    [
        ("killed", "60", "CommunicationError 1 True all_reduce: rank 1 was killed"),
        ("stopped", "2", "CommunicationError 1 True all_reduce: rank 1 did not come to all_reduce"),
        (
            "memory",
            "60",
            "CommunicationError 1 True all_reduce: rank 1 ended with MemoryError: no room for 8 Gi",
        ),
        ("ends", "60", "CommunicationError 1 True all_reduce: rank 1 has ended, and rank"),
        ("shape", "60", r"ValueError - True all_reduce: .*rank 0 brought.*\(3,\).*rank 1.*\(4,\)"),
    ],
)
def test_what_befalls_one_process_is_told_to_all(how, timeout, words):
    """In far less than the timeout, unless it is about time; nobody hangs."""
    begun = time.monotonic()
    done = by_launcher(3, FAULTS, how, CUDAMATH_DISTRIBUTED_TIMEOUT=timeout)
    assert time.monotonic() - begun < 40
    lines = done.stdout.splitlines()
    assert done.returncode and len(lines) == (3 if how == "shape" else 2), done.stdout + done.stderr
    for line in lines:
        assert re.match(words, line), line
    if how == "killed":
        assert "launch: rank 1 ended" in done.stderr
    if how == "memory":
        assert "MemoryError: no room for 8 GiB" in done.stderr


def test_the_launcher_refuses_what_it_cannot_do():
    done = subprocess.run(
        [sys.executable, "-m", "cudamath", "launch", "-n", "0", "x.py"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and "launch: wants at least 1 process, got 0" in done.stderr


def test_processes_end_with_their_launcher(program, tmp_path):
    """Whoever ends a job ends the launcher alone."""
    code = """
        import os, pathlib, sys, time
        pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(str(os.getpid()))
        time.sleep(60)
    """
    command = (sys.executable, "-m", "cudamath", "launch", "-n", "2", str(program(code)))
    launcher = subprocess.Popen([*command, str(tmp_path)], env=environment())
    files = [tmp_path / "0", tmp_path / "1"]
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not all(x.exists() and x.read_text() for x in files):
        time.sleep(0.05)
    launcher.terminate()
    assert launcher.wait(20) == 128 + signal.SIGTERM
    for file in files:
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)
