"""Overlap-add of planes along the depth (kernels/conv/overlap_add.py), by itself and within
conv_transpose3d."""

import functools
import itertools

import ml_dtypes
import numpy as np
import pytest
from gradient_checks import MACHINES, run_version

import cudamath as cm
from cudamath.testing import assert_close

F32, BF16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
CASES = [  # N, K, D, T, H, W, step, apart, before, Z
    (2, 3, 4, 3, 2, 5, 1, 1, 0, 6),
    (1, 2, 3, 2, 3, 2, 2, 1, 0, 6),
    (2, 2, 3, 3, 2, 3, 2, 3, 2, 8),  # some taps beyond both ends, and planes of y that none reaches
    (1, 3, 2, 2, 1, 3, 5, 2, 1, 9),
    (2, 1, 1, 2, 2, 2, 1, 5, 2, 2),  # no tap reaches what is left
    (1, 2, 0, 3, 2, 2, 1, 1, 0, 2),  # no planes: zeros
    (1, 2, 3, 1, 2, 3, 1, 1, 1, 1),
]


def numbers(*shape, dtype=np.float64):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def added(planes, n, k, d, t, step, apart, before, z):
    """In float64, plane by plane."""
    planes = planes.astype(np.float64).reshape(n, d, k, t, *planes.shape[2:])
    y = np.zeros((n, k, z, *planes.shape[4:]))
    for one, tap in itertools.product(range(d), range(t)):
        place = one * step + tap * apart - before
        if 0 <= place < z:
            y[:, :, place] += planes[:, one, :, tap]
    return y


def taken(y, n, k, d, t, step, apart, before):
    planes = np.zeros((n, d, k, t, *y.shape[3:]), y.dtype)
    for one, tap in itertools.product(range(d), range(t)):
        place = one * step + tap * apart - before
        if 0 <= place < y.shape[2]:
            planes[:, one, :, tap] = y[:, :, place]
    return planes.reshape(n * d, k * t, *y.shape[3:])


@pytest.mark.parametrize("n, k, d, t, h, w, step, apart, before, z", CASES)
def test_values_and_gradients(device, n, k, d, t, h, w, step, apart, before, z):
    from cudamath.ml.conv_transpose import _overlap_add, _overlap_take

    where = {"depth": d, "taps": t, "step": step, "apart": apart, "before": before}
    planes, y = numbers(n * d, k * t, h, w), numbers(n, k, z, h, w)
    full = {"shape": y.shape, **where}
    sums, back = (
        added(planes, n, k, d, t, step, apart, before, z),
        taken(y, n, k, d, t, step, apart, before),
    )
    assert_close(_overlap_add(cm.asarray(planes), **full), sums, rtol=1e-13, atol=1e-13)
    assert (_overlap_take(cm.asarray(y), **where).to_numpy() == back).all()
    last = cm.asarray(np.ascontiguousarray(np.moveaxis(planes, 1, -1))).transpose(
        (0, 3, 1, 2)
    )  # another memory order
    assert_close(_overlap_add(last, **full), sums, rtol=1e-13, atol=1e-13)
    turned = cm.asarray(np.ascontiguousarray(y.swapaxes(1, 2))).transpose((0, 2, 1, 3, 4))
    assert (_overlap_take(turned, **where).to_numpy() == back).all()
    _, pull = cm.vjp(lambda p: _overlap_add(p, **full) ** 2, cm.asarray(planes))
    slope = 2 * taken(sums, n, k, d, t, step, apart, before)
    assert_close(pull(cm.ones(y.shape, dtype="float64"))[0], slope, rtol=1e-13, atol=1e-13)
    second = cm.grad(
        lambda p: (cm.grad(lambda p: (_overlap_add(p, **full) ** 2).sum())(p) ** 2).sum()
    )(cm.asarray(planes))
    curve = taken(
        added(slope, n, k, d, t, step, apart, before, z), n, k, d, t, step, apart, before
    )  # twice the slope, times 2
    assert_close(second, 4 * curve, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n, k, d, t, h, w, step, apart, before, z", CASES)
@pytest.mark.parametrize("machine", MACHINES)
def test_overlap_kernels(machine, n, k, d, t, h, w, step, apart, before, z):
    from cudamath.kernels.conv import overlap_add

    where = {"depth": d, "taps": t, "step": step, "apart": apart, "before": before}
    for dtype, error in ((F32, 1e-6), (BF16, 8e-3)):
        planes, y = numbers(n * d, k * t, h, w, dtype=dtype), numbers(n, k, z, h, w, dtype=dtype)
        found = run_version(
            machine, lambda p, s=y.shape: overlap_add.overlap_add(p, shape=s, **where), planes
        )
        sums = added(planes, n, k, d, t, step, apart, before, z)
        bound = added(abs(planes), n, k, d, t, step, apart, before, z)
        assert (abs(np.asarray(found).astype(np.float64) - sums) <= error * bound).all()
        back = run_version(machine, lambda y: overlap_add.overlap_take(y, **where), y)
        assert (np.asarray(back) == taken(y, n, k, d, t, step, apart, before)).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_places_beyond_32_bits(machine):
    """One plane, a step and a padding of 2^32 and more: the kernels that count in 64 bits."""
    from cudamath.kernels.conv import overlap_add

    far = 1 << 32
    planes = numbers(1, 4, 2, 3)
    where = {"depth": 1, "taps": 2, "step": far + 1, "apart": 2 * far, "before": far}
    y = run_version(
        machine, lambda p: overlap_add.overlap_add(p, shape=(1, 2, 1, 2, 3), **where), planes
    )
    assert (np.asarray(y) == 0).all()
    where["before"] = 2 * far
    y = run_version(
        machine, lambda p: overlap_add.overlap_add(p, shape=(1, 2, 1, 2, 3), **where), planes
    )
    assert (np.asarray(y)[0, :, 0] == planes[0, 1::2]).all()
    back = run_version(machine, lambda y: overlap_add.overlap_take(y, **where), np.asarray(y))
    assert (np.asarray(back)[0, 1::2] == planes[0, 1::2]).all() and (
        np.asarray(back)[0, ::2] == 0
    ).all()


@pytest.mark.parametrize("little", [1 << 22, -1])
def test_numbers_that_are_not_added(device, little, monkeypatch):
    """Infinities and NaN reach only the planes of y that they belong to."""
    monkeypatch.setattr("cudamath.ml.conv3d_cards.LITTLE", little)
    x, w = np.ones((1, 1, 3, 2, 2)), np.ones((1, 1, 2, 1, 1))
    x[0, 0, 1] = np.nan
    y = cm.ml.conv_transpose3d(cm.asarray(x), cm.asarray(w), stride=(2, 1, 1)).to_numpy()
    assert np.isnan(y[0, 0]).any((1, 2)).tolist() == [False, False, True, True, False, False]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_bias_beside_what_was_seen_before(device, rank):
    """It is added with its gradient; one that does not fit is an error at every call."""
    rng, run = np.random.default_rng(rank), getattr(cm.ml, f"conv_transpose{rank}d")
    x, w, b = [
        rng.standard_normal(s) for s in ((2, 3, *(4, 3, 2)[:rank]), (3, 2, *(2, 2, 1)[:rank]), (2,))
    ]
    images, filters, bias = map(cm.asarray, (x, w, b))
    wanted = run(images, filters).to_numpy() + b.reshape(-1, *[1] * rank)
    for _ in range(3):
        assert_close(run(images, filters, bias), wanted, rtol=1e-14, atol=1e-14)
        assert_close(run(images, filters, list(b)), wanted, rtol=1e-14, atol=1e-14)
        assert_close(
            cm.grad(lambda b: (run(images, filters, b) ** 2).sum())(bias),
            2 * np.moveaxis(wanted, 1, 0).reshape(2, -1).sum(1),
            rtol=1e-12,
            atol=1e-12,
        )
        for wrong, error in (
            (cm.ones(1), ValueError),
            (cm.ones((2, 1)), ValueError),
            (cm.ones(2, dtype="float32"), TypeError),
            (cm.ones(2, dtype="int64"), TypeError),
        ):
            with pytest.raises(error, match=f"^conv_transpose{rank}d: "):
                run(images, filters, wrong)


@pytest.mark.parametrize(
    "name",
    ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"],
)
def test_numbers_that_equal_others_seen_before(device, name):
    """1.0 equals 1, but is no stride."""
    ones = (1,) * int(name[-2])
    x, w = cm.ones((1, 2, *[3 * n for n in ones])), cm.ones((2, 2, *ones))
    for one in (1, ones):
        for _ in range(2):
            getattr(cm.ml, name)(x, w, stride=one)
        for wrong in (1.0, (1.0, *ones[1:])):
            with pytest.raises(ValueError, match=f"^{name}: wants stride as"):
                getattr(cm.ml, name)(x, w, stride=wrong)


@pytest.mark.parametrize("images", [1, 2])
@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"dilation": 2, "groups": 2}]
)
def test_calls_seen_before(device, images, options):
    """The second call takes the short way; its arrays are others."""
    torch = pytest.importorskip("torch")
    ours, theirs = [
        functools.partial(f, **options)
        for f in (cm.ml.conv_transpose3d, torch.nn.functional.conv_transpose3d)
    ]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, w = rng.standard_normal((images, 4, 3, 4, 3)), rng.standard_normal((4, 3, 3, 2, 3))
        mine, those = (
            [cm.asarray(v) for v in (x, w)],
            [torch.tensor(v, requires_grad=True) for v in (x, w)],
        )
        wanted = theirs(*those)
        assert_close(ours(*mine), wanted.detach().numpy(), rtol=1e-11, atol=1e-11)
        slopes = cm.grad(lambda a, b: (ours(a, b) ** 2).sum(), (0, 1))(*mine)
        for slope, one in zip(slopes, torch.autograd.grad((wanted**2).sum(), those), strict=True):
            assert_close(slope, one.numpy(), rtol=1e-10, atol=1e-10)
