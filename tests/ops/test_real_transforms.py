"""Cosine, sine and Hankel transforms, n-dimensional Hermitian transforms and next_fast_len beside
SciPy's; the gradients of linear maps are their transposes; the card fft_cosines: the kernels of
kernels/numeric/cosine_transforms.py around a stand-in for cuFFT, and how many steps plans have."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
import scipy.fft
from compiled_facts import compile_plan
from fake_cufft import installed
from host_plans import host_run

import cudamath as cm
from cudamath.core.layout import Layout
from cudamath.kernels.numeric import cosine_transforms as planners

ONE = ["dct", "idct", "dst", "idst"]
NORMS = [None, "backward", "ortho", "forward"]


def close(ours, theirs, eps=1e-12):
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    size = np.abs(theirs).max(initial=1e-30)
    np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=0, atol=eps * size)


@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ONE)
def test_along_one_axis(name, type, device):
    rng = np.random.default_rng(0)
    for n, norm, orthogonalize in itertools.product((2, 3, 4, 5, 9), NORMS, (None, True, False)):
        x = rng.normal(size=(3, n))
        options = {"norm": norm, "orthogonalize": orthogonalize}
        for axis in (0, -1):
            ours = getattr(cm.fft, name)(cm.asarray(x), type, axis=axis, **options)
            close(ours, getattr(scipy.fft, name)(x, type, axis=axis, **options))


@pytest.mark.parametrize("n", [1, 7, 8, 12])
@pytest.mark.parametrize("name", ONE)
def test_lengths_dtypes_and_complex_numbers(name, n, device):
    rng = np.random.default_rng(1)
    for dtype, eps in (("f4", 3e-6), ("f8", 1e-13), ("c8", 3e-6), ("c16", 1e-13), ("i4", 1e-13)):
        x = (rng.normal(size=(2, 8)) * 9).astype(dtype)
        if dtype[0] == "c":
            x = x + x.dtype.type(1j) * x[:, ::-1]
        close(getattr(cm.fft, name)(cm.asarray(x), n=n), getattr(scipy.fft, name)(x, n=n), 10 * eps)
    narrow = getattr(cm.fft, name)(cm.ones(8, dtype="bfloat16"))
    assert narrow.dtype == cm.bfloat16


@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["dctn", "idctn", "dstn", "idstn"])
def test_along_several_axes(name, type, device):
    x = np.random.default_rng(2).normal(size=(3, 4, 5))
    theirs = getattr(scipy.fft, name)
    for options in ({}, {"axes": (0, 2)}, {"s": (6, 3)}, {"norm": "ortho"}, {"axes": -2}):
        close(getattr(cm.fft, name)(cm.asarray(x), type, **options), theirs(x, type, **options))
    twice = getattr(cm.fft, name)(cm.asarray(x), type, axes=(1, 1, 0))
    close(twice, theirs(theirs(x, type, axes=(1,)), type, axes=(1, 0)))
    more = x[:, :, None, :2, None] * np.ones((1, 1, 2, 1, 2))
    close(getattr(cm.fft, name)(cm.asarray(more), type), theirs(more, type))


@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ONE)
def test_gradients(name, type, device):
    """The transposed matrix, whose columns are SciPy's; and the map is linear: no second order."""
    weights = cm.asarray(np.random.default_rng(3).normal(size=6))
    matrix = getattr(scipy.fft, name)(np.eye(6), type, axis=0)

    def total(x):
        return (getattr(cm.fft, name)(x, type) * weights).sum()

    x = cm.asarray(np.arange(6.0))
    close(cm.grad(total)(x), matrix.T @ weights.to_numpy())
    curve = cm.grad(lambda x: (cm.grad(lambda x: total(x * x))(x)).sum())(x)
    close(curve, 2 * (matrix.T @ weights.to_numpy()))


def scipys(x, kind, axes, sines, scale, before, after):
    """The card's meaning by SciPy's transforms without factors."""
    for axis in axes:
        n = x.shape[axis]
        ends = [] if kind == 4 or kind == 1 and sines else [0, n - 1] if kind == 1 else [0]
        if sines and kind in (2, 3):
            ends = [n - 1]
        weights = np.ones((2, n))
        weights[0, ends], weights[1, ends] = before, after
        transform = scipy.fft.dst if sines else scipy.fft.dct
        x = np.moveaxis(x, axis, -1) * weights[0]
        x = np.moveaxis(transform(x, kind, norm="backward") * weights[1], -1, axis)
    return scale * x


@pytest.mark.simulator
@pytest.mark.parametrize("sines", [False, True])
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_plans_in_the_simulator(monkeypatch, fake, kind, sines):
    installed(monkeypatch)
    rng = np.random.default_rng(7)
    cases = [((2, 8), (1,)), ((2, 7), (1,)), ((3, 6, 2), (1,)), ((5, 2), (0,)), ((2, 18, 2), (1,))]
    if kind in (2, 3):
        cases += [((3, 4, 6), (1, 2)), ((2, 5, 4), (2, 0)), ((4, 3, 5), (0, 1)), ((1, 1), (0, 1))]
        cases += [((3, 4, 5), (0, 1, 2)), ((2, 3, 2, 4), (3, 0, 1)), ((2, 3, 2, 4), (0, 1, 3))]
    for (shape, axes), dtype in itertools.product(cases, ("f4", "f8")):
        x = rng.normal(size=shape).astype(dtype)
        edges = {"before": 1.0 if kind == 2 else 1.25, "after": 1.0 if kind == 3 else 0.75}
        if kind == 4 or kind == 1 and sines:
            edges = {"before": 1.0, "after": 1.0}
        options = {"kind": kind, "sines": sines, "scale": 0.5, **edges}
        plan = planners.cosines(Layout.new(shape, x.dtype, 0), axes=axes, **options)
        (y,) = host_run(plan, x)
        expected = scipys(x.astype("f8"), axes=axes, **options)
        size = np.abs(expected).max()
        np.testing.assert_allclose(
            y, expected, rtol=0, atol=size * (1e-6 if dtype == "f4" else 1e-14), err_msg=f"{shape}"
        )
    turned = rng.normal(size=(6, 4)).T
    layout = Layout.of(turned.shape, turned.strides, turned.dtype, 0, True)
    options = {"kind": kind, "sines": sines, "scale": 1.0, "before": 1.0, "after": 1.0}
    (y,) = host_run(planners.cosines(layout, axes=(1,), **options), turned)
    np.testing.assert_allclose(y, scipys(turned, axes=(1,), **options), rtol=0, atol=1e-13)


@pytest.mark.compiles
def test_a_transform_is_three_steps():
    """Also along the first axis, along several, and of an odd length."""
    for kind, axes in itertools.product((1, 2, 3, 4), ((1,), (0,), (1, 0))):
        if kind in (2, 3) or len(axes) == 1:
            for shape in ((64, 48), (31, 17)):
                layout = Layout.new(shape, np.dtype("f4"), 0)
                plan = planners.cosines(
                    layout, axes=axes, kind=kind, sines=False, scale=1.0, before=1.0, after=1.0
                )
                assert len(plan.steps) == 3
                for used in compile_plan(plan, [layout], (9, 0)):
                    assert not used.spills
    assert not planners.cosines(
        Layout.new((0, 4), np.dtype("f4"), 0),
        axes=(1,),
        kind=2,
        sines=False,
        scale=1.0,
        before=1.0,
        after=1.0,
    ).steps


@pytest.mark.parametrize("bias", [0.0, -0.4, 0.3])
@pytest.mark.parametrize("name", ["fht", "ifht"])
def test_hankel(name, bias, device):
    rng = np.random.default_rng(4)
    for mu, offset, n in itertools.product((0.0, 0.5, 2.0, -0.3), (0.0, 0.7), (1, 2, 7, 64)):
        a = rng.normal(size=(2, n))
        ours = getattr(cm.fft, name)(cm.asarray(a), 0.1, mu, offset, bias)
        close(ours, getattr(scipy.fft, name)(a, 0.1, mu, offset, bias), 1e-11)


@pytest.mark.parametrize("name", ["fht", "ifht"])
def test_gradients_of_hankel(name):
    matrix = getattr(scipy.fft, name)(np.eye(6), 0.2, 0.5, 0.1, 0.3).T
    weights = cm.asarray(np.random.default_rng(5).normal(size=6))

    def total(x):
        return (getattr(cm.fft, name)(x, 0.2, 0.5, 0.1, 0.3) * weights).sum()

    slope = cm.grad(total)(cm.asarray(np.arange(6.0)))
    np.testing.assert_allclose(slope.to_numpy(), matrix.T @ weights.to_numpy(), rtol=1e-10)


def test_singular_hankel_transforms(device):
    for name, mu, bias in (("fht", -3.0, 1.0), ("ifht", -2.0, -1.0), ("fht", -2.0, 1.0)):
        a = np.arange(1.0, 9)
        with warnings.catch_warnings(record=True) as theirs:
            warnings.simplefilter("always")
            expected = getattr(scipy.fft, name)(a, 0.1, mu, bias=bias)
        with warnings.catch_warnings(record=True) as ours:
            warnings.simplefilter("always")
            found = getattr(cm.fft, name)(cm.asarray(a), 0.1, mu, bias=bias)
        assert len(ours) == len(theirs)
        close(found, expected, 1e-11)


@pytest.mark.parametrize("name", ["hfft2", "hfftn", "ihfft2", "ihfftn"])
def test_hermitian_signals_of_several_axes(name, device):
    x = np.random.default_rng(6).normal(size=(3, 4, 5))
    x = x + 1j * x[::-1] if name[0] == "h" else x
    for options in ({}, {"norm": "ortho"}, {"norm": "forward"}, {"s": (3, 6), "axes": (0, 2)}):
        ours = getattr(cm.fft, name)(cm.asarray(x), **options)
        close(ours, getattr(scipy.fft, name)(x, **options))


def test_next_fast_len():
    for n in range(1, 3000):
        for real in (False, True):
            assert cm.fft.next_fast_len(n, real) == scipy.fft.next_fast_len(n, real)
    with pytest.raises(ValueError, match="^next_fast_len: target must be at least 1"):
        cm.fft.next_fast_len(0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cm.fft.dct(cm.ones(4), 5), ValueError, "dct: type must be 1, 2, 3 or 4, got 5"),
        (lambda: cm.fft.dct(cm.ones(4), 0), ValueError, "dct: type must be at least 1"),
        (lambda: cm.fft.dct(cm.ones(1), 1), ValueError, "dct: type 1 needs at least 2 numbers"),
        (lambda: cm.fft.idst(cm.ones(4), norm="x"), ValueError, 'idst: norm must be "backward"'),
        (lambda: cm.fft.dst(cm.ones(4), axis=1), ValueError, "dst: axis 1 is out of bounds"),
        (lambda: cm.fft.dctn(cm.ones(4), s=(2, 2)), ValueError, "dctn: "),
        (lambda: cm.fft.dct(cm.ones(4), n=0), ValueError, "dct: Invalid number of FFT data points"),
        (lambda: cm.fft.fht(cm.ones(0), 0.1, 0), ValueError, "fht: wants numbers along"),
        (lambda: cm.fft.ifht(cm.ones(2) + 1j, 0.1, 0), TypeError, "ifht: wants"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()


def test_names_of_cupyx():
    """What cupyx.scipy.fft has (its __init__.py at 6b6d9563), but for plans of cuFFT."""
    names = """dct dctn dst dstn fft fft2 fftfreq fftn fftshift fht hfft hfft2 hfftn idct idctn
        idst idstn ifft ifft2 ifftn ifftshift ifht ihfft ihfft2 ihfftn irfft irfft2 irfftn
        next_fast_len rfft rfft2 rfftfreq rfftn""".split()
    assert len(names) == 33 and set(names) <= set(dir(cm.fft))


def test_power_of_two_as_in_the_formula():
    """Type 2 by its definition."""
    x = np.arange(4.0)
    k, j = np.ogrid[:4, :4]
    formula = 2 * (x * np.cos(math.pi * k * (2 * j + 1) / 8)).sum(1)
    np.testing.assert_allclose(cm.fft.dct(cm.asarray(x)).to_numpy(), formula, atol=1e-14)
