"""conv1d, conv3d and conv_transpose2d: against loops in float64 and PyTorch, with gradients of
gradients and errors."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cudamath as cm
from cudamath.testing import assert_close

TOLERANCE = {
    np.dtype(np.float64): 1e-13,
    np.dtype(np.float32): 3e-6,
    np.dtype(np.float16): 2e-3,
    np.dtype(ml_dtypes.bfloat16): 1.6e-2,
}  # of the sum of absolute products


def numbers(shape, dtype=np.float64, seed=0):
    return (
        np.random.default_rng(seed + 31 * len(shape) + sum(shape))
        .standard_normal(shape)
        .astype(dtype)
    )


def each(value, rank):
    return value if isinstance(value, tuple) else (value,) * rank


def convolution(x, w, stride=1, padding=0, dilation=1, groups=1):
    """In float64, for any number of spatial axes: one strided slice of the padded x a tap."""
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    rank, kernel = x.ndim - 2, w.shape[2:]
    stride, dilation = each(stride, rank), each(dilation, rank)
    if padding == "same":
        ends = [
            (d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2)
            for d, k in zip(dilation, kernel, strict=True)
        ]
    else:
        ends = [(p, p) for p in each(0 if padding == "valid" else padding, rank)]
    x = np.pad(x, ((0, 0), (0, 0), *ends))
    size = [
        (x.shape[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(rank)
    ]
    n, out = x.shape[0], w.shape[0] // groups
    y = np.zeros((n, groups, out, int(np.prod(size))))
    for tap in itertools.product(*map(range, kernel)):
        where = tuple(
            slice(t * d, t * d + (m - 1) * s + 1, s)
            for t, d, m, s in zip(tap, dilation, size, stride, strict=True)
        )
        window = x[(slice(None), slice(None), *where)].reshape(
            n, groups, w.shape[1], int(np.prod(size))
        )
        y += np.einsum("ngcp,gkc->ngkp", window, w[(..., *tap)].reshape(groups, out, w.shape[1]))
    return y.reshape(n, w.shape[0], *size)


def transposed(x, w, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
    """In float64: every pixel adds its filter."""
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    s, p, o, d = (each(v, 2) for v in (stride, padding, output_padding, dilation))
    full = [(x.shape[2 + i] - 1) * s[i] + d[i] * (w.shape[2 + i] - 1) + 1 for i in (0, 1)]
    n, c, k = x.shape[0], x.shape[1] // groups, w.shape[1]
    y = np.zeros((n, groups * k, *[f + m for f, m in zip(full, o, strict=True)]))
    for g, i, j in itertools.product(range(groups), range(x.shape[2]), range(x.shape[3])):
        add = np.einsum("nc,ckrs->nkrs", x[:, g * c : (g + 1) * c, i, j], w[g * c : (g + 1) * c])
        rows, columns = (
            slice(a * s[t], a * s[t] + d[t] * (w.shape[2 + t] - 1) + 1, d[t])
            for t, a in ((0, i), (1, j))
        )
        y[:, g * k : (g + 1) * k, rows, columns] += add
    return y[:, :, p[0] : full[0] - p[0] + o[0], p[1] : full[1] - p[1] + o[1]]


CASES = [  # function, x, weight, options
    ("conv1d", (2, 4, 11), (6, 4, 3), {}),
    ("conv1d", (2, 4, 11), (6, 2, 3), dict(stride=2, padding=2, dilation=2, groups=2)),
    ("conv1d", (3, 8, 20), (8, 1, 5), dict(padding="same", groups=8)),
    ("conv1d", (3, 3, 7), (4, 3, 1), dict(padding="valid")),
    ("conv3d", (2, 3, 5, 6, 7), (4, 3, 3, 3, 3), dict(padding=1)),
    (
        "conv3d",
        (1, 4, 6, 5, 7),
        (6, 2, 2, 3, 1),
        dict(stride=(2, 1, 2), padding=(1, 0, 1), dilation=(2, 1, 1), groups=2),
    ),
    ("conv3d", (2, 3, 4, 5, 5), (4, 3, 1, 3, 3), dict(padding="same")),
    ("conv_transpose2d", (2, 3, 4, 5), (3, 4, 3, 3), {}),
    (
        "conv_transpose2d",
        (2, 4, 5, 4),
        (4, 3, 3, 2),
        dict(stride=(2, 3), padding=1, output_padding=(1, 2), groups=2),
    ),
    (
        "conv_transpose2d",
        (1, 6, 4, 4),
        (6, 1, 3, 3),
        dict(stride=2, padding=1, output_padding=1, groups=6),
    ),
    (
        "conv_transpose2d",
        (2, 3, 4, 4),
        (3, 5, 2, 3),
        dict(stride=1, dilation=(2, 3), output_padding=1),
    ),
]


CASES += [(f"{name}, made of images", *rest) for name, *rest in CASES if name == "conv3d"]


def truth(name):
    return transposed if name == "conv_transpose2d" else convolution


def named(name, monkeypatch):
    """The public function's name; of volumes also as if there were much to do."""
    name, *images = name.split(", ")
    if images:
        monkeypatch.setattr("cudamath.ml.conv3d_cards.LITTLE", -1)
    return name


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("name", "x", "w", "options"), CASES, ids=lambda v: str(v))
def test_values(device, name, x, w, options, dtype, monkeypatch):
    name = named(name, monkeypatch)
    x, w = numbers(x, dtype), numbers(w, dtype, 1)
    expected, size = truth(name)(x, w, **options), truth(name)(np.abs(x), np.abs(w), **options)
    bias = numbers(expected.shape[1:2], dtype, 2)
    along = (slice(None),) + (None,) * (x.ndim - 2)
    for extra, add in (((), 0), ((bias,), bias.astype(np.float64)[along])):
        y = getattr(cm.ml, name)(x, w, *extra, **options)
        assert y.dtype == dtype and y.shape == expected.shape
        assert np.all(
            np.abs(y.to_numpy().astype(np.float64) - expected - add)
            <= TOLERANCE[np.dtype(dtype)] * (size + np.abs(add))
        )


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(("name", "x", "w", "options"), CASES, ids=lambda v: str(v))
def test_gradients_against_torch(device, name, x, w, options, monkeypatch):
    torch, name = pytest.importorskip("torch"), named(name, monkeypatch)
    x, w = numbers(x), numbers(w, seed=1)
    b = numbers(truth(name)(x, w, **options).shape[1:2], seed=2)
    inputs = [torch.tensor(a, requires_grad=True) for a in (x, w, b)]
    expected = getattr(torch.nn.functional, name)(*inputs, **options)
    weights = numbers(tuple(expected.shape), seed=3)
    first = torch.autograd.grad(
        (expected**2 * torch.tensor(weights)).sum(), inputs, create_graph=True
    )
    second = torch.autograd.grad(sum((g**2).sum() for g in first), inputs)

    def loss(*a):
        return (getattr(cm.ml, name)(*a, **options) ** 2 * weights).sum()

    def slope(*a):
        return sum((g**2).sum() for g in cm.grad(loss, (0, 1, 2))(*a))

    for actual, wanted in (
        (cm.grad(loss, (0, 1, 2))(x, w, b), first),
        (cm.grad(slope, (0, 1, 2))(x, w, b), second),
    ):
        for a, e in zip(actual, wanted, strict=True):
            e = e.detach().numpy()
            assert_close(a, e, rtol=1e-9, atol=1e-10 * np.abs(e).max())


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_geometry(data):
    draw = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    rank, groups = draw(1, 3), draw(1, 2)
    if rank == 2:
        s, d = (draw(1, 3), draw(1, 3)), (draw(1, 3), draw(1, 3))
        more = tuple(draw(0, max(a, b) - 1) for a, b in zip(s, d, strict=True))
        kernel = (draw(1, 3), draw(1, 3))
        x = numbers((draw(0, 2), groups * draw(1, 3), *(draw(3, 6) for _ in range(2))))
        pad = tuple(min(draw(0, 2), (3 - 1) * a // 2) for a in s)
        w = numbers((x.shape[1], draw(1, 3), *kernel), seed=1)
        options = dict(stride=s, padding=pad, output_padding=more, dilation=d, groups=groups)
        assert_close(
            cm.ml.conv_transpose2d(x, w, **options),
            transposed(x, w, **options),
            rtol=1e-11,
            atol=1e-11,
        )
        return
    kernel, dilation, padding = (
        tuple(draw(*r) for _ in range(rank)) for r in ((1, 3), (1, 2), (0, 2))
    )
    least = [
        max(1, d * (k - 1) + 1 - 2 * p) for d, k, p in zip(dilation, kernel, padding, strict=True)
    ]
    x = numbers((draw(0, 2), groups * draw(1, 3), *(n + draw(0, 4) for n in least)))
    w = numbers((groups * draw(1, 3), x.shape[1] // groups, *kernel), seed=1)
    options = dict(
        stride=tuple(draw(1, 3) for _ in range(rank)),
        padding=padding,
        dilation=dilation,
        groups=groups,
    )
    function = cm.ml.conv1d if rank == 1 else cm.ml.conv3d
    assert_close(function(x, w, **options), convolution(x, w, **options), rtol=1e-11, atol=1e-11)


ONES = lambda *shape: np.ones(shape, np.float32)  # noqa: E731


@pytest.mark.parametrize(
    ("name", "x", "w", "options", "error", "says"),
    [
        ("conv1d", ONES(2, 3), ONES(4, 3, 2), {}, ValueError, r"\(N, C, L\).*\(2, 3\)"),
        ("conv1d", ONES(2, 3, 5), ONES(4, 2, 2), {}, ValueError, r"3 channels.*\(4, 2, 2\)"),
        (
            "conv1d",
            ONES(2, 3, 5),
            ONES(4, 3, 6),
            {},
            ValueError,
            "window of 6 columns.*larger than the 5",
        ),
        (
            "conv1d",
            ONES(2, 3, 5),
            ONES(4, 3, 2),
            {"stride": (1, 2)},
            ValueError,
            r"stride.*\(1, 2\)",
        ),
        ("conv1d", ONES(2, 3, 5), ONES(4, 3, 2).astype(int), {}, TypeError, "int64"),
        ("conv3d", ONES(2, 3, 5, 5), ONES(4, 3, 2, 2, 2), {}, ValueError, r"\(N, C, D, H, W\)"),
        (
            "conv3d",
            ONES(2, 3, 2, 5, 5),
            ONES(4, 3, 3, 2, 2),
            {},
            ValueError,
            "window of 3 planes.*larger than the 2",
        ),
        (
            "conv3d",
            ONES(2, 3, 5, 5, 5),
            ONES(4, 3, 2, 2, 2),
            {"padding": (1, 1)},
            ValueError,
            r"\(1, 1\)",
        ),
        ("conv3d", ONES(2, 4, 5, 5, 5), ONES(4, 2, 2, 2, 2), {"groups": 3}, ValueError, "groups=3"),
        (
            "conv_transpose2d",
            ONES(2, 3, 5, 5),
            ONES(4, 3, 2, 2),
            {},
            ValueError,
            r"wants 3 in its first axis.*\(4, 3, 2, 2\)",
        ),
        (
            "conv_transpose2d",
            ONES(2, 3, 5, 5),
            ONES(3, 3, 2, 2),
            {"output_padding": 1},
            ValueError,
            "output_padding",
        ),
        (
            "conv_transpose2d",
            ONES(2, 3, 1, 1),
            ONES(3, 3, 2, 2),
            {"padding": 1},
            ValueError,
            r"\(0, 0\)",
        ),
        (
            "conv_transpose2d",
            ONES(2, 3, 5, 5),
            ONES(3, 4, 2, 2),
            {"bias": ONES(3)},
            ValueError,
            r"\(4,\).*\(3,\)",
        ),
        (
            "conv_transpose2d",
            ONES(2, 3, 5, 5),
            ONES(3, 4, 2, 2).astype(float),
            {},
            TypeError,
            "float32, float64",
        ),
    ],
)
def test_errors(device, name, x, w, options, error, says):
    with pytest.raises(error, match=says) as raised:
        getattr(cm.ml, name)(x, w, **options)
    assert str(raised.value).startswith(name + ": ")
