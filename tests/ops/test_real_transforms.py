"""Cosine, sine and Hankel transforms, n-dimensional Hermitian transforms and next_fast_len beside
SciPy's; the gradients of linear maps are their transposes."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
import scipy.fft

import cudamath as cm

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
    for options in ({}, {"axes": (0, 2)}, {"s": (6, 3)}, {"norm": "ortho"}, {"axes": -2}):
        ours = getattr(cm.fft, name)(cm.asarray(x), type, **options)
        close(ours, getattr(scipy.fft, name)(x, type, **options))


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
