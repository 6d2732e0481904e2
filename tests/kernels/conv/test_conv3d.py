"""Convolutions of volumes that go to cuDNN: which these are, and what they give; on a stand-in that
computes in float64."""

import ctypes
import itertools
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.core.dispatch import fast_path
from cudamath.core.layout import Layout, is_channels_last
from cudamath.kernels.compiler import lazy_numba
from cudamath.kernels.conv import conv3d
from cudamath.kernels.copy import channels_last
from cudamath.ml import conv
from cudamath.ml import conv3d_cards as cards
from cudamath.runtime import cudnn
from cudamath.runtime.device import assume

BF16 = np.dtype(ml_dtypes.bfloat16)
KINDS = ("forward", "input", "weight")


class StandIn:
    """A plan of cuDNN's: sums in float64, one tap after another, on host memory in the strides it
    was told."""

    workspace, transformed, __name__ = 16, False, "stand_in"

    def __init__(
        self,
        calls,
        kind,
        dtype,
        *tensors,
        stride,
        before,
        after,
        dilation,
        bias,
        tf32,
        device,
        plan,
        fourier,
        predicted,
    ):
        assert not tf32 and not plan and not fourier and not predicted and device == 0
        self.calls, self.kind, self.dtype, self.tensors, self.bias = (
            calls,
            kind,
            dtype,
            tensors,
            bias,
        )
        self.where = stride, before, after, dilation

    def __call__(self, _stream, *addresses):
        self.calls.append(self.kind)
        cm.cuda.synchronize()  # what was queued before
        x, w, y = (
            np.lib.stride_tricks.as_strided(
                np.frombuffer(
                    (ctypes.c_char * self.dtype.itemsize).from_address(address), self.dtype
                ),
                tensor.shape,
                [n * self.dtype.itemsize for n in tensor.strides],
            )
            for address, tensor in zip(addresses[:3], self.tensors, strict=True)
        )
        stride, before, after, dilation = self.where
        sizes = [n + a + b for n, a, b in zip(x.shape[2:], before, after, strict=True)]
        middle = (..., *[slice(a, a + n) for a, n in zip(before, x.shape[2:], strict=True)])
        wide, total = (
            np.zeros((*x.shape[:2], *sizes)),
            {"forward": y, "input": x, "weight": w}[self.kind],
        )
        wide[middle] = x if self.kind != "input" else 0
        result = np.zeros(total.shape)
        for tap in itertools.product(*map(range, w.shape[2:])):
            seen = (
                ...,
                *[
                    slice(t * d, t * d + (n - 1) * s + 1, s)
                    for t, d, n, s in zip(tap, dilation, y.shape[2:], stride, strict=True)
                ],
            )
            if self.kind == "forward":
                result += np.einsum("nc...,kc->nk...", wide[seen], w[(..., *tap)].astype(float))
            elif self.kind == "input":
                wide[seen] += np.einsum(
                    "nk...,kc->nc...", y.astype(float), w[(..., *tap)].astype(float)
                )
            else:
                result[(..., *tap)] = np.einsum("nkdhw,ncdhw->kc", y.astype(float), wide[seen])
        if self.bias:
            result += np.frombuffer(
                (ctypes.c_char * (y.shape[1] * self.dtype.itemsize)).from_address(addresses[3]),
                self.dtype,
            ).astype(float)[:, None, None, None]
        total[...] = wide[middle] if self.kind == "input" else result


@pytest.fixture
def library(monkeypatch):
    """cuDNN's stand-in: what it ran, and what it does not have; little is what has fewer
    multiply-adds than these tests."""
    calls, lacks = [], set()
    monkeypatch.setattr(cudnn, "available", lambda: True)
    monkeypatch.setattr(
        cudnn,
        "convolution",
        lambda kind, *tensors, bias=False, **where: (
            None
            if (kind in lacks or bias and "bias" in lacks)
            else StandIn(calls, kind, *tensors, bias=bias, **where)
        ),
    )
    monkeypatch.setattr(cards, "LITTLE", 1 << 10)
    return calls, lacks


CASES = [  # function, x, weight, options
    ("conv3d", (2, 8, 3, 4, 3), (9, 8, 2, 3, 1), {"padding": (1, 0, 1)}),
    (
        "conv3d",
        (1, 9, 5, 4, 5),
        (8, 9, 3, 1, 2),
        {"stride": (2, 1, 2), "dilation": (1, 2, 3), "padding": (0, 0, 1)},
    ),
    ("conv3d", (1, 8, 2, 4, 3), (8, 8, 2, 2, 2), {"padding": "same"}),
    ("conv_transpose3d", (1, 8, 2, 3, 2), (8, 9, 2, 1, 3), {"padding": (1, 0, 1)}),
    (
        "conv_transpose3d",
        (1, 9, 2, 2, 3),
        (9, 8, 3, 3, 2),
        {"stride": (2, 1, 2), "padding": (1, 1, 0), "output_padding": (1, 0, 1)},
    ),
]


def drawn(shape, seed, dtype):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def on_the_cpu(work):
    with cm.device("cpu"):
        return [y.to_numpy() for y in work()]


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16], ids=str)
@pytest.mark.parametrize(("name", "x", "w", "options"), CASES, ids=str)
def test_values(monkeypatch, library, name, x, w, options, dtype):
    """In C order, channels last, and from reversed operands; with and without a bias, which cuDNN
    may not know to add."""
    calls, lacks = library
    outputs = w[0] if name == "conv3d" else w[1]
    x, w, b = drawn(x, 0, dtype), drawn(w, 1, dtype), drawn(outputs, 2, dtype)
    function = getattr(cm.ml, name)
    (exact,), (size,) = (
        on_the_cpu(
            lambda f=f: [function(*[cm.asarray(f(a.astype("f8"))) for a in (x, w)], **options)]
        )
        for f in (np.asarray, np.abs)
    )
    along = b.astype("f8")[:, None, None, None]
    with simulated_gpu(monkeypatch):
        for lies in ("C", "last", "reversed"):
            for biases in ((), (b,)):
                arrays = [cm.asarray(a) for a in (x, w, *biases)]
                if lies == "last":
                    arrays[0] = cm.asarray(x.transpose(0, 2, 3, 4, 1).copy()).transpose(
                        0, 4, 1, 2, 3
                    )
                if lies == "reversed":
                    arrays[0] = cm.asarray(x[:, ::-1].copy())[:, ::-1]
                for _ in range(2):  # the second time by the plan alone
                    calls.clear()
                    y = getattr(cm.ml, name)(*arrays, **options)
                    assert calls == ["forward" if name == "conv3d" else "input"]
                    error = np.abs(y.to_numpy().astype("f8") - exact - (along if biases else 0))
                    assert np.all(
                        error <= (size + np.abs(along)) * 2 * float(ml_dtypes.finfo(dtype).eps)
                    ), (lies, len(biases))
                    assert y.dtype == dtype and is_channels_last(y._layout) == (
                        lies == "last" and dtype.itemsize == 2
                    )
        if name == "conv3d":
            lacks.add("bias")
            cards._conv3d.plans.clear()
            y = getattr(cm.ml, name)(*map(cm.asarray, (x, w, b)), **options)
            assert np.all(
                np.abs(y.to_numpy().astype("f8") - exact - along)
                <= (size + np.abs(along)) * 3 * float(ml_dtypes.finfo(dtype).eps)
            )


@pytest.mark.simulator
@pytest.mark.parametrize(("name", "x", "w", "options"), CASES, ids=str)
def test_gradients(monkeypatch, library, name, x, w, options):
    """Of the first and second order, all by the library."""
    calls, _ = library
    result = on_the_cpu(lambda: [getattr(cm.ml, name)(cm.zeros(x), cm.zeros(w), **options)])[
        0
    ].shape
    arrays = [drawn(shape, seed, np.dtype("f4")) for seed, shape in enumerate((x, w, result, x, w))]

    def work(dtype):
        volumes, filters, g, *directions = [cm.asarray(a.astype(dtype)) for a in arrays]

        def slopes(*given):
            return cm.vjp(lambda *a: getattr(cm.ml, name)(*a, **options), *given[:2])[1](given[2])

        return [
            *slopes(volumes, filters, g),
            *cm.vjp(slopes, volumes, filters, g)[1](tuple(directions)),
        ]

    wanted = on_the_cpu(lambda: work("f8"))
    with simulated_gpu(monkeypatch):
        found = work("f4")
        assert set(calls) == set(KINDS)
        for got, exact in zip(found, wanted, strict=True):
            np.testing.assert_allclose(
                got.to_numpy(), exact, rtol=0, atol=3e-5 * np.abs(exact).max()
            )


@pytest.mark.parametrize(
    ("x", "w", "groups", "dtype", "expected"),
    [
        ((2, 16, 8, 8, 8), (16, 16, 3, 3, 3), 1, "f4", True),
        ((2, 16, 8, 8, 8), (16, 16, 3, 3, 3), 1, "f2", True),
        ((2, 16, 8, 8, 8), (16, 16, 3, 3, 3), 1, "f8", False),
        ((2, 16, 8, 8, 8), (16, 8, 3, 3, 3), 2, "f4", False),
        ((2, 4, 16, 16, 16), (16, 4, 3, 3, 3), 1, "f4", False),  # few channels
        ((2, 16, 16, 16, 16), (4, 16, 3, 3, 3), 1, "f4", False),  # few outputs
        ((2, 8, 4, 8, 8), (8, 8, 3, 3, 3), 1, "f4", False),  # little
        ((1, 128, 2, 2, 2), (128, 128, 3, 3, 3), 1, "f4", True),  # little, but long sums
        ((8, 64, 8, 16, 16), (64, 64, 3, 3, 3), 1, "f4", False),  # much
        ((0, 16, 8, 8, 8), (16, 16, 3, 3, 3), 1, "f4", False),
    ],
)
def test_which_volumes_go_to_the_library(fake, monkeypatch, x, w, groups, dtype, expected):
    """Where a gradient may be asked for, only if it has all three; those that it has run there
    alone."""
    if lazy_numba.SIMULATOR:
        pytest.skip("plans as on compute capability 9.0")
    ran, lacks = [], set()

    class Found:
        workspace, transformed, __name__ = 16, False, "found"

        def __init__(self, kind):
            self.kind = kind

        def __call__(self, *_):
            ran.append(self.kind)

    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    monkeypatch.setattr(
        cudnn,
        "convolution",
        lambda kind, *tensors, **_: (
            None if (kind in lacks or len(tensors[1].shape) == 4) else Found(kind)
        ),
    )
    with cm.device("cuda:0"):
        arrays = cm.zeros(x, dtype), cm.zeros(w, dtype)

        def convolved(arrays=arrays):
            ran.clear()
            return cm.ml.conv3d(*arrays, padding=1, groups=groups)

        for there, lack, alone, recorded in (
            (False, (), [], []),
            (True, (), ["forward"], ["forward", "input", "weight"]),
            (True, ("weight",), ["forward"], []),
            (True, ("forward",), [], []),
        ):
            monkeypatch.setattr(cudnn, "available", lambda there=there: there)
            lacks.clear(), lacks.update(lack)
            fast_path.forget()
            for card in (
                cards._conv3d,
                cards._conv3d_input_grad,
                cards._conv3d_weight_grad,
                conv._conv2d,
            ):
                card.plans.clear()
            for _ in range(2):
                fake.launches.clear()
                y = convolved()
                assert ran == (alone if expected else [])
                assert not fake.launches or not ran or dtype == "f2"
            ran.clear()
            _, pull = cm.vjp(lambda *a: cm.ml.conv3d(*a, padding=1, groups=groups), *arrays)
            pull(y)
            assert sorted(ran) == (recorded if expected else [])


@pytest.mark.parametrize(
    ("x", "w", "dtype", "alone", "recorded"),
    [
        ((2, 48, 32, 32, 32), (16, 48, 3, 3, 3), "f2", False, True),
        ((2, 48, 32, 32, 32), (16, 48, 3, 3, 3), "f4", False, False),
        ((1, 256, 8, 8, 8), (320, 256, 5, 5, 5), "f2", False, False),  # sums of 32,000 terms
        ((2, 16, 8, 8, 8), (16, 16, 3, 3, 3), "f2", True, True),
    ],
)
def test_much_work_goes_to_the_library_where_gradients_follow(
    fake, monkeypatch, x, w, dtype, alone, recorded
):
    """Of 16-bit numbers, but for long sums of few results."""
    monkeypatch.setattr(cudnn, "available", lambda: True)
    found_plan = SimpleNamespace(workspace=16, transformed=False)
    monkeypatch.setattr(cudnn, "convolution", lambda *_, **__: found_plan)
    shape, found = (x[0], w[0], *x[2:]), []
    where = dict(stride=(1,) * 3, padding=(1,) * 6, dilation=(1,) * 3, groups=1)

    def asked(*arrays):
        found.append(cards.by_library("forward", np.prod(shape), [*arrays], shape, **where))
        return arrays[0]

    with cm.device("cuda:0"):
        arrays = cm.zeros(x, dtype), cm.zeros(w, dtype)
        asked(*arrays)
        cm.vjp(asked, *arrays)
    assert found == [alone, recorded]


def test_the_library_is_told_what_lies_how(monkeypatch):
    """16-bit numbers channels last, others in C order, copied there if need be. The planner asks
    what `served` has asked, which is then known (runtime/cudnn.py)."""
    asked = []

    class Found:
        workspace, transformed, __name__ = 16, False, "found"

    def convolution(kind, dtype, *tensors, bias, **where):
        asked.append(
            (kind, [tensor.strides for tensor in tensors], where["before"], where["after"], bias)
        )
        return Found()

    monkeypatch.setattr(cudnn, "available", lambda: True)
    monkeypatch.setattr(cudnn, "convolution", convolution)
    where = dict(stride=(1, 1, 1), padding=(0, 1, 1, 1, 0, 0), dilation=(1, 1, 1))
    for dtype, images, filters in (
        (np.dtype("f4"), (480, 60, 20, 5, 1), (120, 12, 6, 3, 1)),
        (BF16, (480, 1, 160, 40, 8), (96, 1, 48, 24, 8)),
    ):
        shapes = (2, 8, 3, 4, 5), (10, 8, 1, 2, 3), (2, 10, 4, 5, 3)
        x, w, y = (Layout.new(shape, dtype, 0) for shape in shapes)
        filters = (
            channels_last.channels_last_strides(shapes[1], 1) if dtype == BF16 else (48, 6, 6, 3, 1)
        )
        asked.clear()
        with assume((9, 0)):
            assert conv3d.served(KINDS, x, w, None, shapes[2], *where.values())
        assert [kind for kind, *_ in asked] == list(KINDS)
        for _, strides, before, after, bias in asked:
            assert strides[:2] == [images, filters] and (before, after, bias) == (
                (0, 1, 0),
                (1, 1, 0),
                False,
            )
        options = dict(where, groups=1, library=True)
        with assume((9, 0)):
            plans = [
                conv3d.conv3d(x, w, **options),
                conv3d.conv3d_input_grad(y, w, size=(3, 4, 5), **options),
                conv3d.conv3d_weight_grad(y, x, kernel=(1, 2, 3), **options),
            ]
        assert asked[:3] == asked[3:] and all("cudnn" in plan.why for plan in plans)
        assert [plan.outputs[0].shape for plan in plans] == [shapes[2], shapes[0], shapes[1]]
        assert [len(plan.steps) for plan in plans] == (
            [1] * 3 if dtype != BF16 else [4] * 3
        )  # turned there and back
