"""Concatenation and rolling in one launch (kernels/shape/concat.py, kernels/shape/roll.py):
versions by name, in the simulator and on a GPU."""

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.shape import dispatch as shape_dispatch
from cudamath.kernels.shape import roll


def sim(plan, *inputs):
    return cm.testing.simulate(plan, *inputs)


def layouts(*arrays):
    return [cm.testing.layout_of(x) for x in arrays]


def named(plan):
    return [step.kernel.__name__ for step in plan.steps]


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "c16"])
def test_join_simulated(dtype):
    x, y, z = (
        np.arange(n, dtype="f4").reshape(s).astype(dtype)
        for n, s in ((6, (2, 3)), (4, (2, 2)), (10, (2, 5)))
    )
    plan = shape_dispatch.concat(*layouts(x, y, z), axis=1, sizes=(3, 2, 5))
    assert named(plan) == ["join"]
    np.testing.assert_array_equal(sim(plan, x, y, z), np.concatenate([x, y, z], 1))
    plan = shape_dispatch.concat(*layouts(x, y), axis=1, sizes=(3, 2), version="copies")
    np.testing.assert_array_equal(sim(plan, x, y), np.concatenate([x, y], 1))


def views(dtype):
    """(arrays, axis): not all in C order, several axes around the one along which they are
    joined."""
    x = (np.arange(120).reshape(4, 5, 6) % 251).astype(dtype)
    return [
        ([x[0].T, x[1].T], 0),
        ([x[0].T, np.ascontiguousarray(x[1].T)], 1),
        ([x[:, 0], x[::-1, 1], x[:, :, 0]], 1),
        ([x[1:3], np.broadcast_to(x[0, 0], (2, 1, 6)), x[:2, ::2]], 1),
        ([x[:, 4, 2], x[3, 3, ::-1]], 0),
        ([x[:, :, :1], x[:, :, 5:2:-2]], 2),
    ]


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8"])
def test_join_strided_simulated(dtype):
    for arrays, axis in views(dtype):
        plan = shape_dispatch.concat(
            *layouts(*arrays),
            axis=axis,
            sizes=tuple([a.shape[axis] for a in arrays]),
            version="join_strided",
        )
        assert named(plan) == ["join_strided"]
        np.testing.assert_array_equal(sim(plan, *arrays), np.concatenate(arrays, axis))


def test_what_is_joined_in_strides():
    """Little, of whose axes one stride leads from step to step, and not all of it in C order; once
    in C order, by words."""

    def steps(*arrays, axis=0):
        return named(
            shape_dispatch.concat(
                *layouts(*arrays), axis=axis, sizes=tuple([a.shape[axis] for a in arrays])
            )
        )

    x, y = np.zeros((64, 64), "f4"), np.zeros((4, 5, 6), "f4")
    assert (
        steps(x.T, x)
        == steps(x[:, ::2], x[:, ::2], axis=1)
        == steps(*[x.T] * shape_dispatch.MOST)
        == ["join_strided"]
    )
    assert (
        steps(x, x) == ["join"]
        and len(steps(*[x.T] * (shape_dispatch.MOST + 1))) == shape_dispatch.MOST + 1
    )
    assert len(steps(y.T, y.T)) == 2  # whose last two axes are not one
    assert len(steps(np.zeros((256, 256), "f4").T, x[:, :1].repeat(256, 1))) == 2
    assert "join_strided" not in steps(x.astype("c16").T, x.astype("c16"))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["?", "u1", "f2", "f4", "f8", "c8", "c16"])
def test_join_strided_on_gpu(dtype):
    """As the public functions call it, twice, and its gradient."""
    for arrays, axis in views(dtype):
        want = np.concatenate(arrays, axis)
        ours = [cm.asarray(a.T.copy(), device="cuda").T for a in arrays]
        for _ in range(2):
            np.testing.assert_array_equal(cm.concat(ours, axis).to_numpy(), want)
            np.testing.assert_array_equal(
                cm.concat([*ours[:-1], cm.asarray(arrays[-1], device="cuda")], axis).to_numpy(),
                want,
            )
        if dtype == "f8":
            slope = cm.grad(
                lambda x, ours=ours, axis=axis: (cm.concat([x, *ours[1:]], axis) ** 2).sum()
            )(ours[0])
            np.testing.assert_array_equal(slope.to_numpy(), 2 * arrays[0])


def gathered(shape, cuts, axis, dtype):
    """Parts of an array that are joined to it by join_gathered, and the array."""
    whole = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)
    return [np.ascontiguousarray(part) for part in np.split(whole, cuts, axis)], whole


GATHERED = [
    ((25,), [5], 0),
    ((24,), [1, 2, 3, 20], 0),
    ((3, 8), [1], 1),
    ((2, 12), [3, 5, 10], 1),
    ((5, 3), [1], 0),
]


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["i4", "f8"])
@pytest.mark.parametrize("shape, cuts, axis", GATHERED, ids=str)
def test_join_gathered_simulated(shape, cuts, axis, dtype):
    parts, whole = gathered(shape, cuts, axis, dtype)
    plan = shape_dispatch.concat(
        *layouts(*parts),
        axis=axis,
        sizes=tuple([part.shape[axis] for part in parts]),
        version="join_gathered",
    )
    assert named(plan) == ["join_gathered"]
    np.testing.assert_array_equal(sim(plan, *parts), whole)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["i4", "f8"])
@pytest.mark.parametrize(
    "shape, cuts, axis",
    [*GATHERED, ((1_500_001,), [1, 7, 9000], 0), ((1024, 1200), [5], 1)],
    ids=str,
)
def test_join_gathered(shape, cuts, axis, dtype):
    parts, whole = gathered(shape, cuts, axis, dtype)
    given = [cm.asarray(part, device="cuda") for part in parts]
    sizes = tuple([part.shape[axis] for part in parts])
    plan = shape_dispatch.concat(
        *(x._layout for x in given), axis=axis, sizes=sizes, version="join_gathered"
    )
    assert named(plan) == ["join_gathered"]
    np.testing.assert_array_equal(
        plan.bind("concat", [x._layout for x in given])(*given).to_numpy(), whole
    )
    for shift in (1, -5):
        np.testing.assert_array_equal(
            cm.roll(cm.asarray(whole, device="cuda"), shift, axis=axis).to_numpy(),
            np.roll(whole, shift, axis),
        )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c16"])
def test_join(dtype):
    """Words of every width, rows that end in the middle of a thread's, many inputs, and one that is
    too many."""
    rng = np.random.default_rng(0)
    for axis, shapes in (
        (0, [(5,), (4096,)]),
        (1, [(300, 64), (300, 33)]),
        (1, [(7, 4096), (7, 8192)]),
        (0, [(1000, 3), (1, 3)]),
        (1, [(3, 2, 50), (3, 7, 50), (3, 1, 50)]),
        (1, [(4, n) for n in range(1, 9)]),
        (1, [(4, n) for n in range(1, 10)]),
    ):
        arrays = [rng.integers(0, 100, s).astype(dtype) for s in shapes]
        joined = cm.concat([cm.asarray(a, device="cuda") for a in arrays], axis=axis)
        np.testing.assert_array_equal(joined.to_numpy(), np.concatenate(arrays, axis))
    shifted = cm.asarray(arrays[0].repeat(9, 1), device="cuda")[:, 1:]
    np.testing.assert_array_equal(
        cm.concat([shifted, shifted], 0).to_numpy(), np.concatenate([shifted.to_numpy()] * 2)
    )


# -------------------- rolling several axes

#: shape, shifts: two to four axes of the kernel, words of 1 to 16 bytes, one that stays in front,
#: between and behind
ROLLED = [
    ((5, 7), (2, 3)),
    ((4, 8), (1, 4)),
    ((3, 5, 4), (1, 0, 2)),
    ((3, 5, 4), (0, 4, 1)),
    ((2, 3, 4, 6), (0, 2, 1, 4)),
    ((2, 3, 4, 2), (1, 1, 3, 0)),
    ((1, 37, 33), (0, 20, 32)),
]


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c16"])
@pytest.mark.parametrize("shape, shifts", ROLLED, ids=str)
def test_rolled_simulated(shape, shifts, dtype):
    x = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)
    for given in (x, np.asfortranarray(x)):
        plan = roll.roll(*layouts(given), shifts=shifts)
        assert named(plan)[-1] == "rolled"
        np.testing.assert_array_equal(sim(plan, given), np.roll(x, shifts, range(x.ndim)))


def test_axes_that_stay_are_merged():
    assert roll.merged((2, 3, 4, 5), (0, 1, 0, 2)) == [(2, 0), (12, 4), (5, 2)]
    assert roll.merged((2, 3, 4), (1, 0, 0)) == [(24, 12)]
    plan = roll.roll(Layout.new((2, 3, 4, 6), np.dtype("f4"), 0), shifts=(1, 0, 2, 2))
    assert [view.dtype for view in plan.steps[0].args[:2]] == [
        np.uint64
    ] * 2  # the widest that divide rows and shifts
    assert named(roll.roll(Layout.new((0, 3), np.dtype("f4"), 0), shifts=(0, 1))) == []


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c16"])
@pytest.mark.parametrize(
    "shape, shifts",
    [
        *ROLLED,
        ((1025, 1023), (1000, 1)),
        ((64, 1024, 16), (3, 1, 8)),
        ((7, 5, 3, 2, 3, 4), (1, 2, 1, 1, 2, 3)),
    ],
    ids=str,
)
def test_rolled(shape, shifts, dtype):
    x = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)
    turned = cm.asarray(x, device="cuda")[::-1].mT
    for given, whole in ((cm.asarray(x, device="cuda"), x), (turned, x[::-1].swapaxes(-1, -2))):
        for _ in range(2):
            found = cm.roll(given, shifts, tuple(range(x.ndim)))
            np.testing.assert_array_equal(found.to_numpy(), np.roll(whole, shifts, range(x.ndim)))
        if dtype == "f8":
            slope = cm.grad(
                lambda v, w=whole: (cm.roll(v, shifts, tuple(range(v.ndim))) * w).sum()
            )(given)
            np.testing.assert_array_equal(
                slope.to_numpy(), np.roll(whole, [-s for s in shifts], range(x.ndim))
            )


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c8"])
def test_what_a_thread_pads_is_one_access(dtype):
    """Its neighbours are stored at once: 16 bytes at most, and 8 elements."""
    from cudamath.kernels.image import pad_axes
    from cudamath.kernels.image.problem import Pad

    x = Layout.new((40, 50), np.dtype(dtype), 0)
    (step,) = pad_axes.plan(Pad(x, ((1, 2), (3, 4)))).steps
    of_block = step.block[0] * min(8, 16 // x.itemsize)
    assert step.grid[0] == -(-43 * 57 // of_block)
