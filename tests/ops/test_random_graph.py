"""Random numbers in CUDA graphs: every replay goes on with the sequence, as the function would
without a graph."""

import gc

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch.arguments import Output
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.cpu import random as cpu
from cudamath.kernels.lib.philox import counter
from cudamath.ops.random.bit_stream import drawn
from cudamath.runtime import stream
from cudamath.runtime.memory import pool_of

N = 8  # words per draw: two blocks


def _told(out, key, stream, first):
    cpu.fill_words(out, np.uint64(first), np.uint64(stream), np.uint64(key))


def _held(out, cell, stream, first):
    assert stream == 0
    cpu.fill_words(out, cell[2] + np.uint64(first), cell[1], cell[0])


class Words:
    """A card that draws N words on the fake device."""

    def __init__(self):
        out, cell = (
            Layout.new((N,), np.dtype(np.uint32), 0),
            Layout.new((3,), np.dtype(np.uint64), 0),
        )
        self.runs = [
            Plan([out], [Launch(kernel, 1, 32, [Output(0), *counter(held)])]).bind(
                "words", [cell] * held, 3, 0
            )
            for held, kernel in ((False, _told), (True, _held))
        ]

    def __call__(self, *cell, scalars):
        return self.runs[len(cell)](*cell, *scalars)


@pytest.fixture
def draw(fake):
    card = Words()

    def draw(rng):
        return drawn(card, rng.take("words", N // 4, 0), ())

    draw.fake = fake
    return draw


def compared(function, turns):
    """The results of `turns` calls of function(run), run = as it is and graphed, from equally
    seeded generators."""
    found = []
    for wrap in (lambda fn: fn, cm.cuda.graph):
        rngs = [cm.random.default_rng(seed) for seed in (1, 2)]
        results = function(wrap, *rngs, turns)
        found.append(([r.tolist() for r in results], [rng.state for rng in rngs]))
    assert found[0] == found[1]
    return found[0][0]


def test_replays_are_the_eager_sequence(draw):
    def several(wrap, rng, _, turns):
        step = wrap(lambda: (draw(rng), draw(rng)))
        return [x for _ in range(turns) for x in step()]

    results = compared(several, 6)
    assert len({tuple(r) for r in results}) == 12  # and no two draws are the same
    assert draw.fake.calls["cuGraphLaunch"] == 5


def test_draws_outside_come_between(draw):
    def between(wrap, rng, _, turns):
        step = wrap(lambda: draw(rng))
        out = []
        for turn in range(turns):
            out.append(step())
            out += [draw(rng) for _ in range(turn % 3)]
        return out

    compared(between, 8)


def test_two_generators_and_two_graphs(draw):
    def both(wrap, a, b, turns):
        first, second = wrap(lambda: (draw(a), draw(b), draw(a))), wrap(lambda: (draw(b), draw(a)))
        out = []
        for turn in range(turns):
            out += first()
            if turn % 2:
                out += second()
                out += second()
        return out

    compared(both, 7)


def test_seeding_between_replays_is_obeyed(draw):
    def seeded(wrap, rng, _, turns):
        step = wrap(lambda: draw(rng))
        out = []
        for turn in range(turns):
            if turn % 3 == 2:
                rng.state = {"key": turn, "stream": 5, "offset": 1 << 40, "children": 0}
            out.append(step())
        return out

    compared(seeded, 8)


def test_a_generator_made_inside_begins_anew(draw):
    def inside(wrap, rng, _, turns):
        def fn():
            own = cm.random.default_rng(77)
            return draw(own), draw(rng), draw(own)

        step = wrap(fn)
        return [x for _ in range(turns) for x in step()]

    results = compared(inside, 5)
    assert results[0] == results[3] != results[2]


def test_on_several_streams(draw):
    def streams(wrap, rng, _, turns):
        step, lanes, out = wrap(lambda: draw(rng)), [cm.cuda.Stream() for _ in range(3)], []
        for turn in range(turns):
            with lanes[turn % 3] as lane:
                out.append(step())
            lane.synchronize()
        return out

    compared(streams, 7)


def test_captures_by_hand(draw):
    rng, same = cm.random.default_rng(3), cm.random.default_rng(3)
    with cm.cuda.capture() as recorded:
        y = draw(rng)
    assert rng.state["offset"] == 0  # nothing was drawn yet
    for _ in range(4):
        recorded.replay()
        assert y.tolist() == draw(same).tolist()
        assert draw(rng).tolist() == draw(same).tolist()


def test_a_failed_capture_draws_nothing(draw):
    rng, calls = cm.random.default_rng(3), []

    def fn():
        calls.append(draw(rng))
        if len(calls) == 2:
            raise KeyError("mine")

    step = cm.cuda.graph(fn)
    step()
    before, used = rng.state, pool_of(0).used
    with pytest.raises(KeyError):
        step()
    assert rng.state == before and not stream.current_stream().feeds
    calls.pop()
    gc.collect()
    assert pool_of(0).used == used


def test_cells_are_given_back(draw):
    rng = cm.random.default_rng(3)
    draw(rng).tolist()
    cm.cuda.empty_cache()
    before = pool_of(0).used, pool_of(0).reserved, len(draw.fake.blocks)
    step = cm.cuda.graph(lambda: draw(rng))
    for _ in range(4):
        step()
    step.clear()
    gc.collect()
    cm.cuda.empty_cache()
    cm.cuda.synchronize()
    assert (pool_of(0).used, pool_of(0).reserved, len(draw.fake.blocks)) == before


def test_a_used_up_generator_says_so_before_a_replay(draw):
    rng = cm.random.default_rng(3)
    step = cm.cuda.graph(lambda: draw(rng))
    step(), step()
    rng.state = {**rng.state, "offset": (1 << 56) - 1}
    launches = draw.fake.calls["cuGraphLaunch"]
    with pytest.raises(OverflowError, match="graph: the generator is used up"):
        step()
    assert draw.fake.calls["cuGraphLaunch"] == launches


def test_host_arrays_are_checked_before_they_go_to_a_gpu(fake):
    rng = cm.random.default_rng(0)
    for bad in (
        lambda: rng.uniform([0.0, 3.0], [1.0, 2.0], device="cuda"),
        lambda: rng.triangular(0.0, [1.0, 5.0], [2.0, 4.0], device="cuda"),
        lambda: rng.poisson([1.0, -1.0], device="cuda"),
        lambda: rng.integers([1, 2], [3, 2], device="cuda"),
    ):
        with pytest.raises(ValueError, match="^random"):
            bad()
    assert rng.state["offset"] == 0 and not fake.calls["cuLaunchKernel"]


# -------------------- the kernels that read a cell, in the simulator

COUNTER = (0x0123456789ABCDEF, 0xFEDCBA9876543210, (1 << 40) + 3)


@pytest.mark.simulator
@pytest.mark.filterwarnings("ignore:.*overflow encountered")
def test_kernels_read_their_cell():
    from cudamath.kernels.random import bernoulli_array, distributions, dropout, rejection_samplers

    cell = np.array([*COUNTER[:2], COUNTER[2] - 7], np.uint64)
    given = cm.testing.layout_of(cell)
    x = np.arange(1, 31, dtype=np.float32)
    place = dict(device=0)
    cases = [
        (
            distributions.uniform,
            (),
            dict(shape=(30,), dtype=np.dtype("f4"), version="each", **place),
            (0.0, 1.0, 0.0),
        ),
        (
            distributions.normal,
            (),
            dict(shape=(30,), dtype=np.dtype("f8"), version="each", **place),
            (0.0, 1.0, 0.0),
        ),
        (
            distributions.integers,
            (),
            dict(shape=(30,), dtype=np.dtype("i8"), wide=False, version="each", **place),
            (0, 11, 2**32 % 11),
        ),
        (distributions.bernoulli, (), dict(shape=(30,), version="each", **place), (1 << 31, 0, 0)),
        (bernoulli_array.chances, (x / 31,), dict(version="each"), ()),
        (
            distributions.geometric,
            (),
            dict(shape=(30,), dtype=np.dtype("i8"), version="each", **place),
            (0.3, 0.0, 0.0),
        ),
        (distributions.permutation, (), dict(count=30, ranked=True, bits=5, **place), (30,)),
        (distributions.permutation, (), dict(count=30, ranked=False, bits=12, **place), (4000,)),
        (
            distributions.choice,
            (np.array([1 << 51, 1 << 52, 1 << 53], np.uint64),),
            dict(shape=(30,)),
            (),
        ),
        (dropout.dropout, (x,), dict(version="each"), (1 << 30, 1.5)),
        (
            distributions.tail,
            (),
            dict(shape=(30,), dtype=np.dtype("f4"), kind="gumbel", version="each", **place),
            (0.0, 1.0, 0.0),
        ),
        (
            rejection_samplers.gamma,
            (x,),
            dict(shape=(30,), dtype=np.dtype("f4"), given=(True, False), log=False, **place),
            (0.0, 0.0),
        ),
        (
            rejection_samplers.poisson,
            (),
            dict(shape=(30,), dtype=np.dtype("i8"), given=(False, False), **place),
            (20.0, 0.0),
        ),
        (
            rejection_samplers.binomial,
            (x.astype("f8"),),
            dict(shape=(30,), dtype=np.dtype("i8"), given=(True, False), **place),
            (0.0, 0.3),
        ),
    ]
    for planner, arrays, params, rest in cases:
        layouts = [cm.testing.layout_of(a) for a in arrays]
        told = cm.testing.simulate(planner(*layouts, **params), *arrays, scalars=(*COUNTER, *rest))
        held = cm.testing.simulate(
            planner(*layouts, given, **params), *arrays, cell, scalars=(0, 0, 7, *rest)
        )
        np.testing.assert_array_equal(held, told, err_msg=planner.__name__)


# -------------------- on a GPU


def every_draw(rng):
    """A draw of each kind."""
    p = np.array([0.1, 0.2, 0.3, 0.4])
    return (
        rng.uniform(size=1000, dtype="float32"),
        rng.normal(size=999),
        rng.normal(size=(3, 5), dtype="float16"),
        rng.integers(0, 100, 1001),
        rng.integers(0, 1 << 40, 77),
        rng.bernoulli(0.3, 500),
        rng.geometric(0.2, 77),
        rng.permutation(100),
        rng.permutation(5000),
        rng.choice(10, 20),
        rng.choice(4, 50, p=p),
        rng.bernoulli(p),
        rng.bernoulli(cm.full((70, 30), 0.25)),
    )


@pytest.mark.gpu
def test_replays_are_the_eager_sequence_on_a_gpu():
    with cm.device("cuda"):

        def run(wrap):
            rng, other = cm.random.default_rng(1), cm.random.default_rng(2)
            step, second = (
                wrap(lambda: every_draw(rng)),
                wrap(lambda: (other.random(10), rng.random(10))),
            )
            out = []
            for turn in range(6):
                out += step()
                out += [rng.random(3) for _ in range(turn % 3)]
                if turn % 2:
                    out += second()
            return [x.to_numpy().tobytes() for x in out], rng.state, other.state

        eager, graphed = run(lambda fn: fn), run(cm.cuda.graph)
        assert eager == graphed
        with cm.device("cpu"):
            assert run(lambda fn: fn)[1:] == eager[1:]


@pytest.mark.gpu
def test_a_training_step_with_dropout_on_a_gpu():
    host = np.random.default_rng(0)
    x, start = host.normal(size=(64, 40)).astype("f4"), host.normal(size=(40, 8)).astype("f4")

    def run(wrap):
        rng = cm.random.default_rng(4)
        w, xs = cm.asarray(start, device="cuda", copy=True), cm.asarray(x, device="cuda")

        def step(w, x):
            def loss_of(w):
                y = (cm.ml.dropout(x, 0.3, rng=rng)[:, :, None] * w).sum(1)
                return (cm.ml.dropout(y, 0.5, rng=rng) ** 2).mean()

            loss, g = cm.value_and_grad(loss_of)(w)
            w -= 0.05 * g
            return loss

        step = wrap(step)
        losses = [float(step(w, xs)) for _ in range(8)]
        return losses, w.to_numpy().tobytes(), rng.state

    eager = run(lambda fn: fn)
    assert eager == run(cm.cuda.graph)
    assert len(set(eager[0])) == 8
