"""upsample and pad: against NumPy, PyTorch and central differences; orders in memory; errors; the
kernels by themselves."""

import numpy as np
import pytest
from gradient_checks import (
    DTYPES,
    TOLERANCE,
    check_gradient,
    check_resources,
    check_second_order,
    numbers,
    run_version,
    versions,
    wide,
)
from hypothesis import given
from hypothesis import strategies as st
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.core.specs import resample
from cudamath.kernels.compiler.lazy_numba import SIMULATOR
from cudamath.testing import assert_close

upsample = cm.ml.upsample
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("old, new", [(9, 31), (40_000, 70_000), (70_000, 40_000)])
def test_who_needs_an_old_element(old, new, mode):
    """Also of lines beyond 16 bits: of h those new elements that lie at it or one beside it."""
    taps = resample.taps(old, new, mode, old / new)
    start, end, order = (table.astype(np.int64) for table in taps.users(old))
    needs = np.zeros((2, old), int)
    for i, places in enumerate((taps.first, taps.second)[: 1 + (mode == "linear")]):
        np.add.at(needs[i], places[(places != taps.first) | (i == 0)], 1)
    np.testing.assert_array_equal(end - start, needs.sum(0))
    for h in {0, 1, old // 2, old - 2, old - 1}:
        near = np.flatnonzero((taps.first == h) | (taps.second == h))
        np.testing.assert_array_equal(np.sort(order[start[h] : end[h]]), near)


def matrix(old, new, mode, corners=False, factor=None):
    """The shares of the old elements (columns) in the new ones (rows)."""
    step = old / new if factor is None else 1 / factor
    shares = np.zeros((new, old))
    for i in range(new):
        if mode.startswith("nearest"):
            place = (i + 0.5) * step if mode == "nearest-exact" else i * step
            shares[i, min(int(place + 1e-9), old - 1)] = 1
            continue
        place = i * (old - 1) / max(new - 1, 1) if corners else max((i + 0.5) * step - 0.5, 0)
        first = min(int(place), old - 1)
        shares[i, first] += 1 - (place - first)
        shares[i, min(first + 1, old - 1)] += place - first
    return shares


def reference(x, size, mode, corners=False):
    for axis, new in enumerate(size, 2):
        x = np.moveaxis(
            np.tensordot(matrix(x.shape[axis], new, mode, corners), x, (1, axis)), 0, axis
        )
    return x


CASES = [
    ((2, 3, 7), (10,)),
    ((1, 2, 5), (2,)),
    ((2, 3, 4, 6), (8, 12)),
    ((1, 2, 7, 5), (3, 9)),
    ((2, 1, 3, 3), (1, 1)),
    ((1, 1, 1, 1), (4, 3)),
    ((2, 2, 3, 4, 2), (5, 4, 6)),
    ((3, 0, 4, 4), (2, 2)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, size", CASES)
def test_values(device, shape, size, dtype):
    x = numbers(shape, dtype)
    for mode, corners in (
        ("nearest", False),
        ("nearest-exact", False),
        (LINEAR[len(size)], False),
        (LINEAR[len(size)], True),
    ):
        y = upsample(cm.asarray(x), size, mode=mode, align_corners=corners)
        assert y.dtype == x.dtype and y.shape == (*shape[:2], *size)
        expected = reference(wide(x), size, mode, corners)
        exact = mode.startswith("nearest")
        assert_close(
            y,
            expected,
            rtol=0 if exact else TOLERANCE[dtype],
            atol=0 if exact else TOLERANCE[dtype],
            what=mode,
        )


@pytest.mark.parametrize("shape, size", CASES[:-1])
def test_gradients(device, shape, size):
    x = numbers(shape)
    for mode, corners in (
        ("nearest", False),
        (LINEAR[len(size)], False),
        (LINEAR[len(size)], True),
    ):
        fn = lambda a: upsample(a, size, mode=mode, align_corners=corners)  # noqa: B023, E731
        check_gradient(fn, lambda a: reference(a, size, mode, corners), x)  # noqa: B023
        check_second_order(fn, x)


@given(data=st.data())
def test_agrees_with_torch(data):
    """Any number of axes, sizes and factors, larger and smaller."""
    torch = pytest.importorskip("torch")
    rank = data.draw(st.integers(1, 3))
    shape = data.draw(st.tuples(st.integers(1, 2), st.integers(1, 3), *[st.integers(1, 7)] * rank))
    mode = data.draw(st.sampled_from(["nearest", "nearest-exact", LINEAR[rank]]))
    options = {"mode": mode} | (
        {"align_corners": data.draw(st.booleans())} if mode == LINEAR[rank] else {}
    )
    if data.draw(st.booleans()):
        options["size"] = data.draw(st.tuples(*[st.integers(1, 12)] * rank))
    else:
        factors = [st.floats(1 / n, 3).filter(lambda f, n=n: n * f >= 1) for n in shape[2:]]
        options["scale_factor"] = data.draw(st.tuples(*factors))
    x = numbers(shape)
    there = torch.tensor(x, requires_grad=True)
    expected = torch.nn.functional.interpolate(there, **options)
    y, pull = cm.vjp(lambda a: upsample(a, **options), cm.asarray(x))
    rtol = (
        1e-12 if "size" in options else 1e-6
    )  # PyTorch rounds 1 / factor to float32 here and there
    assert_close(y, expected.detach().numpy(), rtol=rtol, atol=rtol)
    g = numbers(y.shape, seed=1)
    assert_close(
        pull(cm.asarray(g))[0],
        torch.autograd.grad(expected, there, torch.tensor(g))[0].numpy(),
        rtol=rtol * 10,
        atol=rtol * 10,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [3, 8, 64])
def test_orders_in_memory(device, channels, dtype):
    """C order, channels last, sliced and turned: the same numbers, in the images' order on a
    GPU."""
    base = numbers((2, 6, 5, channels), dtype)
    for view in (
        lambda a: a.transpose((0, 3, 1, 2)),
        lambda a: a[:, ::2].transpose((0, 3, 2, 1)),
        lambda a: a[:, :, ::-1],
    ):
        for mode in ("nearest", "bilinear"):
            x = view(cm.asarray(base))
            y, pull = cm.vjp(lambda a, mode=mode: upsample(a, (9, 8), mode=mode), x)
            shape = y.shape
            assert_close(
                y,
                reference(wide(view(base)), (9, 8), mode),
                rtol=TOLERANCE[dtype],
                atol=TOLERANCE[dtype],
            )
            g = numbers((2, 9, 8, shape[1]), dtype, 1).transpose(0, 3, 1, 2)
            expected = np.einsum(
                "pr,qs,ncpq->ncrs",
                matrix(x.shape[2], 9, mode),
                matrix(x.shape[3], 8, mode),
                wide(g),
            )
            for there in (cm.asarray(g), cm.asarray(np.ascontiguousarray(g))):
                assert_close(
                    pull(there)[0], expected, rtol=TOLERANCE[dtype] * 2, atol=TOLERANCE[dtype] * 4
                )


PADS = [
    ((2, 3, 7), (2, 1)),
    ((2, 3, 4, 6), (1, 2, 0, 3)),
    ((2, 3, 4, 6), (2, 2)),
    ((1, 2, 4, 3, 5), (1, 2, 2, 1, 0, 3)),
    ((6,), (3, 2)),
    ((2, 3, 4, 6), (-1, 2, 1, -2)),
    ((3, 4, 5), (1, 1, 2, 0, 1, 2)),
    ((2, 3, 5, 8), 2),
]
WORDS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def padded(x, padding, mode):
    """By NumPy, what is cut off first."""
    given = [padding] * 2 * (x.ndim - 2) if isinstance(padding, int) else list(padding)
    widths = [(0, 0)] * (x.ndim - len(given) // 2) + list(
        zip(given[::2], given[1::2], strict=True)
    )[::-1]
    x = x[
        tuple(slice(max(-a, 0), n + min(b, 0)) for n, (a, b) in zip(x.shape, widths, strict=True))
    ]
    return np.pad(x, [(max(a, 0), max(b, 0)) for a, b in widths], WORDS[mode])


@pytest.mark.parametrize("dtype", [*DTYPES, "int32", "bool"])
@pytest.mark.parametrize("mode", WORDS)
def test_pad(device, mode, dtype):
    for shape, padding in PADS:
        x = numbers(shape, dtype)
        y = cm.ml.pad(cm.asarray(x), padding, mode)
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(
            y.to_numpy(), padded(x, padding, mode), err_msg=f"{shape} {padding}"
        )


@pytest.mark.parametrize("mode", WORDS)
@pytest.mark.parametrize("shape, padding", PADS)
def test_gradients_of_pad(device, shape, padding, mode):
    x = numbers(shape)
    fn = lambda a: cm.ml.pad(a, padding, mode)  # noqa: E731
    check_gradient(fn, lambda a: padded(a, padding, mode), x)
    check_second_order(fn, x)
    last = cm.moveaxis(
        cm.asarray(np.ascontiguousarray(np.moveaxis(x, min(1, x.ndim - 1), -1))),
        -1,
        min(1, x.ndim - 1),
    )
    g = numbers(padded(x, padding, mode).shape, seed=4)
    first, second = (cm.vjp(fn, a)[1](cm.asarray(g))[0] for a in (cm.asarray(x), last))
    assert_close(second, first.to_numpy(), rtol=1e-13)


def test_pad_agrees_with_torch(device):
    torch = pytest.importorskip("torch")
    for shape, padding in PADS[:2] + PADS[3:4]:
        for mode in WORDS:
            there = torch.tensor(numbers(shape), requires_grad=True)
            expected = torch.nn.functional.pad(there, padding, mode)
            y, pull = cm.vjp(lambda a: cm.ml.pad(a, padding, mode), numbers(shape))  # noqa: B023
            g = numbers(y.shape, seed=1)
            np.testing.assert_array_equal(y.to_numpy(), expected.detach().numpy())
            (slope,) = torch.autograd.grad(expected, there, torch.tensor(g))
            assert_close(pull(cm.asarray(g))[0], slope.numpy(), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_only_moves_stays_as_it_is(device, dtype):
    """Infinities and signs of zeros, which shares of 1 and 0 would change; in gradients too."""
    x = np.array([1, np.inf, -0.0, -np.inf, 3, 5, 7, 9], dtype).reshape(1, 1, 2, 4)
    widths = [(0, 0), (0, 0), (1, 1), (1, 2)]
    cases = [
        (lambda x, m=ours: cm.ml.pad(x, (1, 2, 1, 1), m), lambda x, m=numpys: np.pad(x, widths, m))
        for ours, numpys in (("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap"))
    ]
    cases += [
        (lambda x: cm.ml.upsample(x, scale_factor=2), lambda x: x.repeat(2, 2).repeat(2, 3)),
        (lambda x: cm.ml.upsample(x, (2, 6)), lambda x: x[..., [0, 0, 1, 2, 2, 3]]),
        (lambda x: cm.ml.upsample(x, (1, 2)), lambda x: x[..., :1, ::2]),
    ]
    for ours, reference in cases:
        y, pull = cm.vjp(ours, cm.asarray(x))
        assert y.to_numpy().tobytes() == reference(x).tobytes()
        (dx,) = pull(cm.full_like(y, np.inf))
        taken = reference(np.arange(8.0).reshape(x.shape))
        assert_close(
            dx, np.where(np.isin(np.arange(8.0), taken), np.inf, 0).reshape(x.shape), rtol=0
        )


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("corners", [False, True])
def test_infinities_reach_only_who_takes_from_them(device, corners, last):
    """1-D images have an axis that stays, places that coincide a neighbour of share 0: 0 times
    infinity would be NaN."""
    cases = (
        ((5,), (5, 10, 15, 9, 4, 3, 1)),
        ((5, 5), ((5, 5), (9, 5), (15, 10), (3, 4))),
        ((3, 5, 5), ((3, 9, 5),)),
    )
    for shape, sizes in cases:
        x = numbers((1, 4, *shape), "float32")
        x[(0, slice(None), *(n // 2 for n in shape))] = np.inf
        x[0, 1] *= -1
        given = cm.asarray(x)
        if last:
            given = cm.moveaxis(cm.copy(cm.moveaxis(given, 1, -1)), -1, 1)
        for size in sizes:
            size, expected = (size,) if isinstance(size, int) else size, x.astype(float)
            for axis, new in enumerate(size, 2):
                shares = matrix(x.shape[axis], new, "linear", corners)
                taken = np.where(shares > 1e-9, np.moveaxis(expected, axis, -1)[..., None, :], 0)
                expected = np.moveaxis((shares * taken).sum(-1), -1, axis)
            assert not np.isnan(expected).any()
            assert_close(
                upsample(given, size, mode=LINEAR[len(shape)], align_corners=corners),
                expected,
                rtol=2e-5,
                atol=1e-5,
            )


def test_numpys_numbers_as_sizes(device):
    x = cm.asarray(numbers((1, 2, 4, 6)))
    for ours in (
        upsample(x, scale_factor=np.float32(1.5)),
        upsample(x, scale_factor=np.array([1.5, 1.5])),
    ):
        assert_close(ours, upsample(x, scale_factor=1.5).to_numpy(), rtol=0)
    assert_close(
        cm.ml.pad(x, np.array([1, 0, 0, 2])),
        np.pad(x.to_numpy(), [(0, 0), (0, 0), (0, 2), (1, 0)]),
        rtol=0,
    )


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_pad_where_other_axes_are_empty(device, mode):
    """Only a padded axis must have something to take from."""
    words = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    for shape, padding in (
        ((0, 2, 5), (1, 1)),
        ((2, 0, 5), (2, 1)),
        ((0, 2, 4, 5), (1, 2, 0, 1)),
        ((2, 3, 0, 5), (1, 1)),
        ((0, 2, 3, 4, 5), (1,) * 6),
        ((2, 5, 0), (0, 0, 1, 1)),
    ):
        pairs = [*zip(padding[::2], padding[1::2], strict=True)][::-1]
        expected = np.pad(
            np.zeros(shape), [(0, 0)] * (len(shape) - len(pairs)) + pairs, words[mode]
        ).shape
        for _ in range(2):  # the second time by what is remembered
            x = cm.zeros(shape, "float32")
            y, pull = cm.vjp(lambda x, padding=padding: cm.ml.pad(x, padding, mode), x)
            assert y.shape == expected and pull(cm.ones_like(y))[0].shape == shape
            assert cm.ml.pad(x, padding, mode).shape == expected
    with pytest.raises(
        ValueError,
        match=r"^pad: .* at most 0 elements on a side of an axis of 0, got .* \(x \(2, 3, 0\)",
    ):
        cm.ml.pad(cm.zeros((2, 3, 0)), (0, 1), mode)


def test_errors_of_pad(device):
    x = cm.zeros((2, 3, 4))
    for call, error, message in [
        (lambda: cm.ml.pad(x, (1, 2, 3)), ValueError, r"pad: .*\(2, 3, 4\), got \(1, 2, 3\)"),
        (lambda: cm.ml.pad(x, (1,) * 8), ValueError, "pad: .*up to 3 axes"),
        (lambda: cm.ml.pad(x, (1, 1), "edge"), ValueError, "pad: mode is .*'edge'"),
        (lambda: cm.ml.pad(x, (1.5, 1)), TypeError, "pad: .*integers"),
        (
            lambda: cm.ml.pad(x, (4, 0), "reflect"),
            ValueError,
            r"pad: mode 'reflect' .*3 .*axis of 4.*\(4, 0\)",
        ),
        (lambda: cm.ml.pad(x, (0, 5), "circular"), ValueError, "pad: mode 'circular'"),
        (
            lambda: cm.ml.pad(cm.zeros((2, 0)), (1, 0), "replicate"),
            ValueError,
            "pad: mode 'replicate'",
        ),
        (lambda: cm.ml.pad(x, (-3, -2)), ValueError, "pad: .*cuts off more"),
    ]:
        with pytest.raises(error, match=message):
            call()


def check_one_row_and_column(large):
    """Images of one row and column lie in C order and with their channels last at once: what they
    are made of, or have the gradient of, says which is meant."""
    x, small = numbers((2, 4, *large), "float32"), cm.asarray(numbers((2, 4, 1, 1), "float32"))
    last = cm.moveaxis(cm.copy(cm.moveaxis(cm.asarray(x), 1, -1)), -1, 1)
    less, more = (0, 1 - large[1], 0, 1 - large[0]), (1, large[1] - 2, 0, large[0] - 1)
    for make, back in (
        (lambda a: upsample(a, 1, mode="bilinear"), lambda a: upsample(a, large, mode="bilinear")),
        (lambda a: upsample(a, (1, 1)), lambda a: upsample(a, large)),
        (lambda a: cm.ml.pad(a, less), lambda a: cm.ml.pad(a, more, "replicate")),
    ):
        assert_close(make(last), make(cm.asarray(x)), rtol=0)
        assert_close(
            cm.vjp(make, last)[1](small)[0], cm.vjp(make, cm.asarray(x))[1](small)[0], rtol=0
        )
        assert_close(
            cm.vjp(back, small)[1](last)[0], x.sum((2, 3), keepdims=True), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("large", [(5, 4), (1, 3)])
def test_one_row_and_column_in_either_order(device, large):
    check_one_row_and_column(large)


@pytest.mark.simulator
def test_one_row_and_column_in_the_simulator(monkeypatch):
    with simulated_gpu(monkeypatch):
        check_one_row_and_column((2, 3))


def test_deterministic(device):
    x = cm.asarray(numbers((2, 3, 40, 50), "float32"))
    g = cm.asarray(numbers((2, 3, 90, 70), "float32", seed=1))
    first, second = (
        cm.vjp(lambda a: upsample(a, (90, 70), mode="bilinear"), x)[1](g)[0].tobytes()
        for _ in range(2)
    )
    assert first == second


def test_errors(device):
    x = cm.zeros((1, 2, 4, 4))
    for call, error, message in [
        (lambda: upsample(cm.zeros((2, 3)), 4), ValueError, r"upsample: .*\(2, 3\)"),
        (lambda: upsample(x), ValueError, "upsample: .*neither"),
        (lambda: upsample(x, 8, 2), ValueError, "upsample: .*both"),
        (lambda: upsample(x, 8, mode="linear"), ValueError, "upsample: .*'bilinear', got 'linear'"),
        (lambda: upsample(x, 8, align_corners=True), ValueError, "upsample: align_corners"),
        (lambda: upsample(x, (8, 8, 8)), ValueError, "upsample: wants size"),
        (lambda: upsample(x, 0), ValueError, "upsample: wants size"),
        (lambda: upsample(x, scale_factor=-1), ValueError, "upsample: wants scale_factor"),
        (
            lambda: upsample(x, scale_factor=0.1),
            ValueError,
            r"upsample: scale_factor 0.1 makes \(0, 0\)",
        ),
        (lambda: upsample(cm.zeros((1, 2, 0, 4)), 3), ValueError, r"upsample: .*\(1, 2, 0, 4\)"),
        (lambda: upsample(cm.zeros((1, 2, 4, 4), "int64"), 3), TypeError, "upsample: .*int64"),
    ]:
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("machine, version", versions("plain"))
def test_kernels(machine, version, mode, dtype):
    """The kernels of any size; in the simulator a thread owns one element."""
    from cudamath.kernels.image import dispatch as image_dispatch

    name = {"linear": "bilinear"}.get(mode, mode)
    small, large = [((3, 4), (5, 8)), ((5, 4), (2, 4))], [((30, 64), (61, 128)), ((65, 24), (8, 8))]
    for old, new in small if machine == "simulator" else large:
        where = {"axes": tuple((mode, a / b) for a, b in zip(old, new, strict=True))}
        x, g = numbers((1, 2, *old), dtype), numbers((1, 2, *new), dtype, 1)
        y = run_version(machine, lambda a: image_dispatch.resize(a, size=new, **where), x)  # noqa: B023
        assert_close(y, reference(wide(x), new, name), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        dx = run_version(machine, lambda a: image_dispatch.resize_grad(a, size=old, **where), g)  # noqa: B023
        expected = np.einsum(
            "pr,qs,ncpq->ncrs", matrix(old[0], new[0], name), matrix(old[1], new[1], name), wide(g)
        )
        assert_close(dx, expected, rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 4)


#: Shapes and (before, after) of rows and columns: one axis alone; images smaller than a step of a
#: thread, and larger; several blocks; groups of 4, 2 and 1 columns.
MOVED = [
    ((1, 2, 4, 6), (1, 2), (2, 3)),
    ((1, 7, 5, 6), (2, 0), (0, 3)),
    ((1, 4, 3, 20), (0, 0), (1, 15)),
    ((1, 40, 9, 8), (1, 1), (1, 1)),
]
LARGE_MOVED = [
    ((2, 17, 30, 258), (1, 1), (1, 1)),
    ((3, 16, 64, 64), (4, 4), (8, 8)),
    ((2, 8, 7, 7), (6, 6), (6, 5)),
    ((1, 40, 1, 9001), (0, 0), (300, 17)),
    ((2, 1, 100, 130), (99, 0), (0, 129)),
    ((500, 2, 3, 3), (0, 1), (1, 0)),
    ((2, 3, 700, 37), (5, 0), (0, 0)),
    ((1, 6, 33, 40), (1, 2), (0, 3)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("machine, version", versions("plain"))
def test_padding_kernel(monkeypatch, machine, version, mode, dtype):
    """C order and channels last; the sign of zero is kept."""
    from cudamath.kernels.image import dispatch as image_dispatch
    from cudamath.kernels.image import pad as image_pad

    monkeypatch.setattr(image_pad, "INSIDE", dict.fromkeys(image_pad.INSIDE, 0))  # however little

    def made(plan, size):
        def make(layout):
            found = plan(layout, size=size, axes=axes)
            assert [step.kernel.__name__ for step in found.steps] == ["padding"]
            return found

        return make

    for shape, rows, columns in MOVED if machine == "simulator" else LARGE_MOVED:
        axes = tuple(
            (mode if sum(width) else "replicate", float(width[0])) for width in (rows, columns)
        )
        x = numbers(shape, dtype)
        x[0, 0, 0, :2] = -0.0
        widths = ((0, 0), (0, 0), rows, columns)
        expected = np.pad(x, widths, WORDS[mode])
        g = numbers(expected.shape, dtype, 1)
        places = np.pad(np.arange(x.size).reshape(shape), widths, WORDS[mode])
        summed = np.bincount(places.ravel(), wide(g).ravel(), x.size).reshape(shape)
        for order in ((0, 1, 2, 3), (0, 2, 3, 1)):
            if (
                machine == "simulator"
                and (dtype, mode, order[1]) != ("float32", "reflect", 1)
                and shape != MOVED[0][0]
            ):
                continue  # nothing new for its time
            lie = lambda a, order=order: np.ascontiguousarray(a.transpose(order)).transpose(  # noqa: E731
                np.argsort(order)
            )  # noqa: E731
            y = run_version(machine, made(image_dispatch.resize, expected.shape[2:]), lie(x))
            np.testing.assert_array_equal(y, expected)
            np.testing.assert_array_equal(np.signbit(wide(y)), np.signbit(wide(expected)))
            dx = run_version(machine, made(image_dispatch.resize_grad, shape[2:]), lie(g))
            assert_close(dx, summed, rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 8)


#: Shapes, widths and whether one kernel does it: one axis, two neighbouring ones with others behind
#: them; two that are none, or three; nothing at all.
SURROUNDED = [
    ((2, 4, 6), ((0, 0), (1, 2), (2, 3)), True),
    ((7,), ((2, 3),), True),
    ((3, 4, 5), ((1, 0), (2, 3), (0, 0)), True),
    ((3, 4, 5), ((0, 0), (2, 1), (0, 0)), True),
    ((3, 4, 5), ((1, 0), (0, 0), (0, 0)), True),
    ((3, 4, 5), ((1, 0), (0, 0), (1, 0)), False),
    ((2, 3, 4), ((1, 0), (1, 0), (1, 0)), False),
    ((2, 3), ((0, 0), (0, 0)), False),
]
LARGE_SURROUNDED = [
    ((5, 30, 258), ((0, 0), (1, 1), (1, 1)), True),
    ((3, 64, 40, 16), ((0, 0), (2, 1), (1, 0), (0, 0)), True),
    ((100_000,), ((7, 9),), True),
    ((5, 3, 700), ((0, 0), (0, 0), (0, 1)), True),
]


@pytest.mark.parametrize(
    "dtype", ["float32", "bool", "bfloat16", "float64", "complex64", "complex128"]
)
@pytest.mark.parametrize("machine, version", versions("plain"))
def test_constant_padding_kernel(monkeypatch, machine, version, dtype):
    from cudamath.kernels.image import dispatch as image_dispatch
    from cudamath.kernels.image import pad as image_pad
    from cudamath.ops.shape import bits

    monkeypatch.setattr(image_pad, "INSIDE", dict.fromkeys(image_pad.INSIDE, 0))

    def made(layout, widths, at_once):
        plan = image_dispatch.pad(layout, widths=widths)
        assert ([step.kernel.__name__ for step in plan.steps] == ["padding"]) == (
            at_once and dtype != "complex128"
        )
        return plan

    for shape, *how in SURROUNDED + (LARGE_SURROUNDED if machine == "gpu" else []):
        x = numbers(shape, dtype)
        value = np.asarray(3.5).astype(x.dtype)
        pattern = (
            tuple(np.uint64(v) for v in bits(value, x.dtype))
            if machine == "simulator"
            else bits(value, x.dtype)
        )
        y = run_version(machine, lambda a: made(a, *how), x, scalars=pattern)  # noqa: B023
        np.testing.assert_array_equal(y, np.pad(x, how[0], constant_values=value))


@pytest.mark.parametrize("dtype", ["float32", "bool", "bfloat16", "float64", "complex64"])
@pytest.mark.parametrize("machine, version", versions("plain"))
def test_padding_along_any_axes(machine, version, dtype):
    """One to four axes that do not merge, groups that end beyond the array, rows of one element."""
    from cudamath.kernels.image import dispatch as image_dispatch
    from cudamath.ops.shape import bits

    cases = [
        ((5, 4), ((1, 2), (1, 2))),
        ((5, 4, 3, 2), ((1, 2),) * 4),
        ((3, 4, 5), ((0, 0), (2, 1), (0, 0))),
        ((7,), ((3, 2),)),
        ((3, 4, 5), ((1, 0), (0, 0), (0, 3))),
        ((40, 1), ((0, 1), (1, 0))),
    ]
    if machine == "gpu":
        cases += [((331, 4, 4, 9), ((1, 2),) * 4), ((1000, 333), ((0, 3), (2, 2)))]
    for shape, widths in cases:
        x = numbers(shape, dtype)
        value = np.asarray(3.5).astype(x.dtype)
        scalars = tuple(map(np.uint64, bits(value, x.dtype)))
        if machine == "gpu":
            scalars = bits(value, x.dtype)
        y = run_version(
            machine,
            lambda a: image_dispatch.pad(a, widths=widths, version="axes"),  # noqa: B023
            x,
            scalars=scalars,
        )
        np.testing.assert_array_equal(y, np.pad(x, widths, constant_values=value))


@pytest.mark.skipif(SIMULATOR, reason="plans of a GPU")
def test_which_version_pads():
    from cudamath.kernels.image import dispatch as image_dispatch

    for shape, widths, name in (
        ((33_129, 4, 4, 9), ((1, 2),) * 4, "surround"),
        ((8, 3, 256, 256), ((0, 0), (0, 0), (1, 1), (1, 1)), "padding"),
        ((5, 4, 3, 2, 6), ((1, 2),) * 5, "fill_line"),
    ):
        x = Layout.new(shape, np.dtype(np.float32), 0)
        assert image_dispatch.pad(x, widths=widths).steps[0].kernel.__name__ == name


#: Old sizes and factors for the kernels of whole factors: columns in groups of 1, 2, 4 and 8; rows
#: of several runs.
WHOLE = [
    ((3, 4), (2, 2)),
    ((1, 1), (2, 3)),
    ((9, 2), (1, 2)),
    ((2, 8), (3, 3)),
    ((1, 5), (1, 4)),
    ((2, 2), (8, 5)),
]
LARGE_WHOLE = [
    ((19, 64), (2, 2)),
    ((16, 31), (2, 2)),
    ((1, 1000), (1, 4)),
    ((9, 40), (3, 3)),
    ((3, 6), (8, 8)),
    ((5, 1), (7, 6)),
]


@pytest.mark.parametrize("run", [1, 8])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
@pytest.mark.parametrize("machine, version", versions("plain"))
def test_whole_factors(monkeypatch, machine, version, mode, dtype, run):
    """enlarge and enlarge_grad, where a thread owns one row and where it owns several."""
    from cudamath.kernels.image import dispatch as image_dispatch
    from cudamath.kernels.image import upsample_integer

    monkeypatch.setattr(upsample_integer, "RUN", run)
    monkeypatch.setattr(upsample_integer, "ENOUGH", 1)
    name = {"linear": "bilinear"}.get(mode, mode)
    for old, times in WHOLE if machine == "simulator" else LARGE_WHOLE:
        new = tuple(a * b for a, b in zip(old, times, strict=True))
        where = {"axes": tuple((mode, a / b) for a, b in zip(old, new, strict=True))}
        x, g = numbers((1, 2, *old), dtype), numbers((1, 2, *new), dtype, 1)
        rows, columns = (matrix(a, b, name) for a, b in zip(old, new, strict=True))

        def made(plan, kernel, at):
            def make(layout):
                found = plan(layout, size=at, **where)  # noqa: B023
                assert [step.kernel.__name__ for step in found.steps] == [kernel]
                return found

            return make

        y = run_version(machine, made(image_dispatch.resize, "enlarge", new), x)
        assert_close(
            y,
            np.einsum("pr,qs,ncrs->ncpq", rows, columns, wide(x)),
            rtol=TOLERANCE[dtype],
            atol=TOLERANCE[dtype],
        )
        dx = run_version(machine, made(image_dispatch.resize_grad, "enlarge_grad", old), g)
        scale = max(np.prod(times), 4)
        assert_close(
            dx,
            np.einsum("pr,qs,ncpq->ncrs", rows, columns, wide(g)),
            rtol=TOLERANCE[dtype] * 4,
            atol=TOLERANCE[dtype] * scale,
        )


def test_which_factors_are_whole():
    """Others keep the kernels of any size: corners aligned, factors that are not whole or as given
    not quite, padding."""
    from cudamath.kernels.image.upsample_integer import factor

    for axis, times, mixed in (
        (("linear", 0.5), 2, True),
        (("linear", 1 / 3), 3, True),
        (("nearest", 0.25), 4, False),
        (("nearest-exact", 0.5), 2, False),
        (("linear", 1.0), 1, False),
        (("replicate", 0.0), 1, False),
    ):
        assert factor(7, 7 * times, axis) == (times, mixed)
    for count, axis in (
        (14, ("corners", 0.0)),
        (15, ("linear", 7 / 15)),
        (14, ("linear", 1 / 2.1)),
        (14, ("nearest", 1 / 2.1)),
        (14, ("circular", 7.0)),
        (6, ("linear", 7 / 6)),
        (7 * 9, ("linear", 1 / 9)),
    ):
        assert factor(7, count, axis) is None, (count, axis)


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.skipif(SIMULATOR, reason="the simulator does not compile")
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_spills(dtype, mode):
    from cudamath.kernels.image import dispatch as image_dispatch

    kind = numbers((), dtype).dtype
    # accesses hold most numbers, and kernels most registers, in 16 bits
    for times in (2, 3, 8) if kind.itemsize == 2 else (3,):
        x, y = (
            Layout.new((8, 64, 32, 32), kind, 0),
            Layout.new((8, 64, 32 * times, 32 * times), kind, 0),
        )
        where = {"axes": ((mode, 1 / times),) * 2}
        check_resources(image_dispatch.resize(x, size=y.shape[2:], **where), [x], (9, 0))
        check_resources(image_dispatch.resize_grad(y, size=(32, 32), **where), [y], (9, 0))
    x, y = Layout.new((8, 64, 32, 32), kind, 0), Layout.new((8, 64, 48, 64), kind, 0)
    last = [
        Layout.of(
            a.shape,
            (a.size // 8 * a.itemsize, a.itemsize, a.shape[3] * 64 * a.itemsize, 64 * a.itemsize),
            kind,
            0,
        )
        for a in (x, y)
    ]
    for a, b in ((x, y), last):
        where = {"axes": ((mode, 2 / 3), (mode, 0.5))}
        check_resources(image_dispatch.resize(a, size=(48, 64), **where), [a], (9, 0))
        check_resources(image_dispatch.resize_grad(b, size=(32, 32), **where), [b], (9, 0))


@pytest.mark.skipif(SIMULATOR, reason="the simulator's groups are of one element")
def test_which_padding_kernel():
    """Images of which little stays as it is are left to others, where these are faster; what is
    empty needs none."""
    from cudamath.kernels.image import dispatch as image_dispatch

    def names(planner, shape, **how):
        return [
            step.kernel.__name__
            for step in planner(Layout.new(shape, np.dtype(np.float32), 0), **how).steps
        ]

    for side, by, forward, backward in (
        (256, 1, True, True),
        (64, 4, False, True),
        (16, 2, False, True),
        (6, 5, False, False),
    ):
        axes, new = (("reflect", float(by)),) * 2, side + 2 * by
        assert (
            names(image_dispatch.resize, (2, 3, side, side), size=(new, new), axes=axes)
            == ["padding"]
        ) == forward
        assert (
            names(image_dispatch.resize_grad, (2, 3, new, new), size=(side, side), axes=axes)
            == ["padding"]
        ) == backward
        widths = ((0, 0), (0, 0), (by, by), (by, by))
        assert (names(image_dispatch.pad, (2, 3, side, side), widths=widths) == ["padding"]) == (
            side == 256
        )
    axes = (("replicate", 1.0),) * 2
    assert names(image_dispatch.resize, (0, 3, 4, 4), size=(6, 6), axes=axes) == []
    assert names(image_dispatch.resize_grad, (0, 3, 6, 6), size=(4, 4), axes=axes) == []


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.skipif(SIMULATOR, reason="the simulator does not compile")
@pytest.mark.parametrize("dtype", ["float32", "float64"])  # the others are narrower
def test_padding_does_not_spill(dtype):
    from cudamath.kernels.image import dispatch as image_dispatch

    kind, axes = numbers((), dtype).dtype, (("reflect", 1.0), ("reflect", 1.0))
    for shape, size in (((8, 64, 128, 128), (130, 130)), ((8, 3, 128, 125), (130, 127))):
        x, y = Layout.new(shape, kind, 0), Layout.new((*shape[:2], *size), kind, 0)
        for order in ((0, 1, 2, 3), (0, 2, 3, 1)):
            a, b = (Layout.new(tuple(v.shape[i] for i in order), kind, 0) for v in (x, y))
            a, b = (
                Layout.of(v.shape, tuple(w.strides[order.index(i)] for i in range(4)), kind, 0)
                for v, w in ((x, a), (y, b))
            )
            check_resources(image_dispatch.resize(a, size=size, axes=axes), [a], (9, 0))
            check_resources(image_dispatch.resize_grad(b, size=shape[2:], axes=axes), [b], (9, 0))


def test_nearest_places_of_long_axes():
    """Where an element of a long axis comes from is computed in float32, as in PyTorch; in 16 bits
    places beyond 2048 would be neighbours'."""
    x = np.arange(5000.0)
    for size in (7001, 2999):
        for mode, shift in (("nearest", 0.0), ("nearest-exact", 0.5)):
            scale = np.float32(len(x) / size)
            place = np.floor((np.arange(size, dtype=np.float32) + np.float32(shift)) * scale)
            expected = x[np.minimum(place, len(x) - 1).astype(int)]
            y = cm.ml.interpolate(cm.asarray(x[None, None], device="cpu"), size, mode=mode)
            np.testing.assert_array_equal(y.to_numpy()[0, 0], expected)
