"""A small fake of nccl4py's bindings, on the memory and streams of the fake driver.

Members are threads. A call is work on a stream, which runs when something waits for that stream:
it brings what its member has, and waits until all others have brought theirs. A GPU would come to
their calls by itself, so threads run their streams up to them. Groups end with their calls; a
communicator that was aborted ends its work without writing anything.
"""

import contextlib
import ctypes
import functools
import itertools
import threading

import numpy as np

from cudamath.runtime.communication import nccl

DTYPES = {number: dtype for dtype, number in nccl.DTYPES.items()}
FOLD = {0: np.add, 2: np.maximum, 3: np.minimum, 4: np.add}


class Shared:
    """What the communicators of one world have in common."""

    def __init__(self):
        self.members = {}  # rank -> Comm
        self.brought = {}  # (number of the collective, rank) -> bytes
        self.sent = {}  # (sender, receiver) -> list of bytes


class Comm:
    def __init__(self, shared, size, rank):
        self.shared, self.size, self.rank = shared, size, rank
        self.numbers = itertools.count()
        self.aborted = self.destroyed = False
        self.status = 0
        shared.members[rank] = self


class FakeNccl:
    class NCCLError(Exception):
        pass

    def __init__(self, driver):
        self.driver = driver
        self.changed = driver.changed
        self.worlds, self.names = {}, itertools.count(1)
        self.local = threading.local()
        self.calls = []
        self.made = []  # communicators
        self.fetched = []  # streams that a thread runs because another waits for them
        self.strays = []  # (address, bytes) of memory that was free when work came to it
        self.fail = None  # an error of the next call

    def get_version(self):
        return 22800

    def get_unique_id(self):
        return next(self.names).to_bytes(128, "little")

    def comm_init_rank_scalable(self, size, rank, count, unique, config):
        with self.driver.lock:
            shared = self.worlds.setdefault(bytes(unique), Shared())
        made = Comm(shared, size, rank)
        self.made.append(made)
        return made

    def comm_abort(self, comm):
        with self.changed:
            comm.aborted = True
            self.changed.notify_all()

    def comm_destroy(self, comm):
        assert not comm.aborted and not comm.destroyed
        with self.driver.lock:
            streams = [*self.driver.streams.values(), *self.driver.ending]
            left = [getattr(work, "comm", None) for stream in streams for work in stream.queue]
        assert comm not in left, "its calls have not ended"
        comm.destroyed = True

    def comm_get_async_error(self, comm):
        return comm.status

    def get_error_string(self, status):
        return {6: "remote process exited or there was a network error"}[status]

    def group_start(self):
        self.local.group = []

    def group_end(self):
        group, self.local.group = self.local.group, None
        sends = [work for first, work in group if first]
        rest = [work for first, work in group if not first]
        if group:
            self.enqueue(*self.local.target, lambda: [work() for work in (*sends, *rest)])

    # -------------------- the calls

    def all_reduce(self, x, y, count, kind, op, comm, stream):
        def finish(rows):
            self.write(y, self.folded(rows, kind, op))

        self.collective("all_reduce", comm, stream, x, self.size(count, kind), finish)

    def reduce_scatter(self, x, y, count, kind, op, comm, stream):
        def finish(rows):
            whole = self.folded(rows, kind, op)
            self.write(y, whole[comm.rank * count : (comm.rank + 1) * count])

        self.collective(
            "reduce_scatter", comm, stream, x, self.size(count * comm.size, kind), finish
        )

    def all_gather(self, x, y, count, kind, comm, stream):
        def finish(rows):
            self.write(y, np.concatenate(rows))

        self.collective("all_gather", comm, stream, x, self.size(count, kind), finish)

    def broadcast(self, x, y, count, kind, root, comm, stream):
        def finish(rows):
            self.write(y, rows[root])

        self.collective("broadcast", comm, stream, x, self.size(count, kind), finish)

    def send(self, x, count, kind, peer, comm, stream):
        def work():
            way = comm.shared.sent.setdefault((comm.rank, peer), [])
            way.append(self.read(x, self.size(count, kind)))
            self.changed.notify_all()

        self.put("send", comm, stream, work, first=True)

    def recv(self, y, count, kind, peer, comm, stream):
        def work():
            way = comm.shared.sent.setdefault((peer, comm.rank), [])
            if self.wait(comm, lambda: way, peer):
                self.write(y, way.pop(0))

        self.put("recv", comm, stream, work)

    # -------------------- how they work

    @staticmethod
    def size(count, kind):
        return count * DTYPES[kind].itemsize

    @staticmethod
    def folded(rows, kind, op):
        rows = [row.view(DTYPES[kind]) for row in rows]
        total = functools.reduce(FOLD[op], rows)
        return (total / len(rows)).astype(total.dtype) if op == 4 else total

    def live(self, address, nbytes):
        """Whether the range lies in memory that is not free. What is freed too early would damage
        the process of the tests: it is noted in `strays`, and not touched."""
        inside = self.driver.blocks.around(address, max(nbytes, 1)) is not None
        if not inside and nbytes:
            self.strays.append((address, nbytes))
        return inside

    def read(self, address, nbytes):
        if not self.live(address, nbytes):
            return np.zeros(nbytes, np.uint8)
        return np.frombuffer(ctypes.string_at(address, nbytes), np.uint8).copy()

    def write(self, address, data):
        data = np.ascontiguousarray(data)
        if self.live(address, data.nbytes):
            ctypes.memmove(address, data.ctypes.data, data.nbytes)

    def wait(self, comm, ready, *ranks):
        """Until these members have come and it is so; False if the communicator was aborted."""
        others = [comm.shared.members.get(rank) for rank in ranks if rank != comm.rank]
        while not comm.aborted and not ready():
            for other in others:
                self.fetch(other)
            assert self.changed.wait(timeout=15), f"ranks {ranks} do not come"
        return not comm.aborted

    def fetch(self, comm):
        """Have a thread run the stream, if there is one, in which a call of this member waits, up
        to that call."""
        for stream in [*self.driver.streams.values(), *self.driver.ending]:
            if stream.runner is None and stream not in self.fetched:
                calls = [getattr(work, "comm", None) for work in stream.queue]
                if comm in calls and comm is not None:
                    position = stream.done + calls.index(comm) + 1
                    self.fetched.append(stream)
                    threading.Thread(target=self.run, args=(stream, position), daemon=True).start()

    def run(self, stream, position):
        with self.driver.lock:
            try:
                self.driver.run_until(stream, position)
            finally:
                self.fetched.remove(stream)
                self.changed.notify_all()

    def collective(self, name, comm, stream, x, nbytes, finish):
        def work():
            number, brought = next(comm.numbers), comm.shared.brought
            brought[number, comm.rank] = self.read(x, nbytes)
            self.changed.notify_all()
            members = [(number, rank) for rank in range(comm.size)]
            if self.wait(comm, lambda: all(each in brought for each in members), *range(comm.size)):
                finish([brought[each] for each in members])

        self.put(name, comm, stream, work)

    def put(self, name, comm, stream, work, first=False):
        if self.fail is not None:
            text, self.fail = self.fail, None
            raise self.NCCLError(text)
        self.calls.append(name)
        if getattr(self.local, "group", None) is not None:
            self.local.target = comm, stream
            self.local.group.append((first, work))
        else:
            self.enqueue(comm, stream, work)

    def enqueue(self, comm, stream, work):
        work.comm = comm
        with self.driver.lock:
            assert self.driver.enqueue(stream, work)[0] == 0


@contextlib.contextmanager
def installed(monkeypatch, driver):
    """The fake in the place of NCCL."""
    fake = FakeNccl(driver)
    monkeypatch.setattr(nccl, "_bindings", lambda: fake)
    yield fake
    assert not fake.strays, f"memory was free before NCCL came to it: {fake.strays[:4]}"
