"""What was changed in place after a gradient began to need it: noted by all threads, found without
a look at each change."""

import gc
import sys
import threading
import time

import numpy as np
import pytest
from threads import together

import cudamath as cm
from cudamath.core import shapes
from cudamath.core.autograd import mutation


def elsewhere(work):
    """What `work()` returns or raises, in another thread."""
    found = []

    def run():
        try:
            found.append(work())
        except RuntimeError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], RuntimeError):
        raise found[0]
    return found[0]


@pytest.mark.parametrize("through", [lambda work: work(), elsewhere], ids=["here", "elsewhere"])
def test_changes_in_another_thread(device, through):
    """They were noted in the thread that recorded the gradient alone."""
    x, one = cm.asarray([1.0, 2.0]), cm.asarray([1.0, 1.0])

    def begin():
        c = cm.asarray([3.0, 4.0])
        return c, *cm.vjp(lambda x: x * c, x)

    c, _, pull = begin()
    assert through(lambda: pull(one))[0].tolist() == [3, 4]
    through(lambda: c.__setitem__(0, 9.0))
    with pytest.raises(RuntimeError, match="^multiply: .*changed in place after it was used"):
        through(lambda: pull(one))
    c, _, pull_later = through(begin)
    c += 1
    with pytest.raises(RuntimeError, match="changed in place"):
        pull_later(one)
    with pytest.raises(RuntimeError, match="changed in place"):
        cm.grad(lambda x: ((x * c).sum(), through(lambda: c.__setitem__(0, 9.0)))[0])(x)


def test_gradients_of_many_threads(device):
    """The end of one thread's recording forgets nothing that another's needs; own arrays that
    change mean nothing to others."""
    x, before = cm.asarray([1.0, 2.0]), set(mutation.holders)

    def work(k):
        for i in range(60):
            table = cm.zeros((2, 3))

            def f(x, i=i, table=table):
                table[:, i % 3] = float(k)
                y = x * table[:, i % 3]
                table[:, (i + 1) % 3] = 7.0
                if i % 5 == 0:
                    time.sleep(1e-4)
                    table[0, i % 3] = -1.0
                return y.sum()

            if i % 5 == 0:
                with pytest.raises(RuntimeError, match="changed in place"):
                    cm.grad(f)(x)
            else:
                assert cm.grad(f)(x).tolist() == [k, k]

    together(4, work)
    assert set(mutation.holders) <= before


def test_tokens_end_while_old_changes_are_forgotten():
    """A change went through the tokens, and those of another thread ended meanwhile."""
    x, one = cm.asarray([1.0, 2.0], device="cpu"), cm.asarray([1.0, 1.0], device="cpu")

    def work(k):
        for i in range(2000 if k == 0 else 30):
            if k == 0:
                mutation.changes.most = 0  # time for a clean-up
                mutation.changes.note((1000 * k + i, (1,), (1,), 1))
            else:
                kept = [cm.vjp(lambda x: x * x, x)[1] for _ in range(60)]
                assert kept[0](one)[0].tolist() == [2, 4]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        together(4, work)
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    "places",
    [lambda i: i, lambda i: (slice(None), i), lambda i: (slice(None), slice(3 * i, 3 * i + 3))],
    ids=["rows", "columns", "blocks"],
)
def test_many_changes_beside_what_is_needed(device, monkeypatch, places):
    """Each kept array was compared with each change that followed."""
    met, count = [0], 120
    exactly = shapes.share_memory

    def counted(*given, **more):
        met[0] += 1
        return exactly(*given, **more)

    def loss(x, spoil=None):
        table, total = cm.zeros((3 * count, 3 * count)), x.sum() * 0
        for i in range(count):
            table[places(i)] = float(i)
            total = total + (x * table[places(i)]).sum()
        if spoil is not None:
            table[places(spoil)] = 1.0
        return total

    monkeypatch.setattr(shapes, "share_memory", counted)
    x = cm.ones(np.empty((3 * count, 3 * count))[places(0)].shape)
    got = cm.grad(loss)(x)
    assert (got.to_numpy() == np.arange(count).sum()).all() and met[0] <= count
    with pytest.raises(RuntimeError, match="changed in place"):
        cm.grad(loss)(x, 5)


def test_changes_are_forgotten_while_somebody_still_records(device, monkeypatch):
    """As long as anybody recorded anything, none was."""
    gc.collect()
    most = 50
    monkeypatch.setattr(mutation.changes, "most", most)
    x = cm.zeros(most + 10)
    pulls = [cm.vjp(lambda x: x * x, x[:2])[1]]
    for i in range(most + 2):
        pulls.append(cm.vjp(lambda x: x * x, x[:2])[1])
        del pulls[0]
        x[i + 2 :] = 1.0
    assert len(mutation.changes.writes) < 20
