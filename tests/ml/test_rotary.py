"""Rotary embedding: values against complex numbers, gradients, what it is for, errors, and its
kernel."""

import numpy as np
import pytest
from gradient_checks import (
    DTYPES,
    TOLERANCE,
    check_gradient,
    check_second_order,
    numbers,
    run_version,
    versions,
    wide,
)

import cudamath as cm
from cudamath.testing import assert_close

turn, tables = cm.ml.rotary_embedding, cm.ml.rotary_tables


def reference(x, positions, dim, interleaved, base=10000.0):
    """A pair is a complex number, turned by multiplying it with e^(i angle)."""
    x, half = wide(x), dim // 2
    angle = np.asarray(positions, np.float64)[..., None] * base ** (-np.arange(half) / max(half, 1))
    pairs = (
        x[..., 0:dim:2] + 1j * x[..., 1:dim:2]
        if interleaved
        else x[..., :half] + 1j * x[..., half:dim]
    )
    pairs = pairs * np.exp(1j * angle)
    y = x.copy()
    if interleaved:
        y[..., 0:dim:2], y[..., 1:dim:2] = pairs.real, pairs.imag
    else:
        y[..., :half], y[..., half:dim] = pairs.real, pairs.imag
    return y


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    "shape, dim",
    [((2, 3, 7, 8), 8), ((3, 7, 10), 6), ((5, 4), 4), ((2, 1, 3, 5), 0), ((0, 2, 3, 4), 4)],
)
def test_values(device, shape, dim, interleaved, dtype):
    x = numbers(shape, dtype)
    cos, sin = tables(shape[-2], dim, dtype="float64" if dtype == "float64" else "float32")
    y = turn(x, cos, sin, interleaved=interleaved)
    assert y.shape == shape and y.dtype == x.dtype
    assert_close(
        y,
        reference(x, np.arange(shape[-2]), dim, interleaved),
        rtol=TOLERANCE[dtype],
        atol=2 * TOLERANCE[dtype],
    )


def test_positions_and_strides(device):
    x = numbers((2, 5, 3, 8), "float32")
    positions = np.array([[3, 4, 5, 6, 7], [100, 7, 5, 0, 2]])
    cos, sin = tables(positions, 8, base=500.0)
    y = turn(
        cm.asarray(x).transpose((0, 2, 1, 3)), cos.reshape((2, 1, 5, 4)), sin.reshape((2, 1, 5, 4))
    )
    assert_close(
        y,
        reference(x.transpose(0, 2, 1, 3), positions[:, None], 8, False, 500.0),
        rtol=1e-5,
        atol=1e-5,
    )


def test_scores_depend_on_distances(device):
    q, k = numbers((1, 6)), numbers((1, 6), seed=1)

    def score(i, j):
        a, b = (turn(x, *tables([n], 6, dtype="float64")) for x, n in ((q, i), (k, j)))
        return (a * b).sum().item()

    assert (
        score(3, 1) == pytest.approx(score(103, 101), rel=1e-10)
        and abs(score(3, 1) - score(3, 2)) > 1e-3
    )


@pytest.mark.parametrize("interleaved", [False, True])
def test_gradients(device, interleaved):
    x, (cos, sin) = numbers((2, 3, 4, 7)), tables(4, 6, dtype="float64")
    check_gradient(
        lambda a: turn(a, cos, sin, interleaved=interleaved),
        lambda a: reference(a, np.arange(4), 6, interleaved),
        x,
    )
    check_second_order(lambda a: turn(a, cos, sin, interleaved=interleaved), x)
    angles = [
        numbers((4, 3), seed=1),
        numbers((3, 4, 3), seed=2),
    ]  # the tables have gradients too, summed where they broadcast

    def written(a, c, s):
        one, other = (slice(0, 6, 2), slice(1, 6, 2)) if interleaved else (slice(0, 3), slice(3, 6))
        y = a.copy()
        y[..., one], y[..., other] = (
            a[..., one] * c - a[..., other] * s,
            a[..., one] * s + a[..., other] * c,
        )
        return y

    for table in angles:
        check_gradient(
            lambda a, c, s: turn(a, c, s, interleaved=interleaved),
            written,
            x,
            np.cos(table),
            np.sin(table),
        )
        check_second_order(
            lambda a, c, s: turn(a, c, s, interleaved=interleaved), x, np.cos(table), np.sin(table)
        )
    narrow = x.astype(cm.bfloat16)
    one, other = (
        cm.grad(
            lambda c, y=y: (
                turn(y, c, sin.astype("float32"), interleaved=interleaved).astype("float32").sum()
            )
        )(cos.astype("float32"))
        for y in (narrow, narrow.astype("float32"))
    )
    assert one.dtype == "float32" and np.abs(one.to_numpy() - other.to_numpy()).max() < 0.1


def test_errors(device):
    x, (cos, sin) = cm.ones((3, 4), "float32"), tables(3, 4)
    for error, words, call in [
        (
            TypeError,
            "wants cos and sin in float32, got float64",
            lambda: turn(x, cos.astype("float64"), sin),
        ),
        (TypeError, "floating-point", lambda: turn([[1, 2]], cos, sin)),
        (ValueError, r"two to four axes, got shape \(4,\)", lambda: turn(x[0], cos, sin)),
        (ValueError, r"R <= D for x \(3, 2\), got \(3, 2\)", lambda: turn(x[:, :2], cos, sin)),
        (ValueError, r"got \(3, 2\) and \(2, 2\)", lambda: turn(x, cos, sin[1:])),
        (ValueError, r"for x \(2, 4\)", lambda: turn(x[1:], cos, sin)),
    ]:
        with pytest.raises(error, match="rotary_embedding: .*" + words):
            call()
    for error, words, call in [
        (ValueError, "even dim", lambda: tables(3, 5)),
        (ValueError, "base > 0", lambda: tables(3, 4, base=0)),
        (TypeError, "dim must be an integer", lambda: tables(3, 4.5)),
        (ValueError, "at least one axis", lambda: tables(np.float32(3), 4)),
    ]:
        with pytest.raises(error, match="rotary_tables: .*" + words):
            call()


@pytest.mark.simulator
def test_result_lies_as_the_operand_simulated():
    from cudamath.kernels.attention import rotary as kernels

    x, angle = numbers((2, 5, 3, 8), "float64").transpose(0, 2, 1, 3), numbers((5, 4), "float64", 1)
    y, plain = (
        run_version(
            "simulator",
            lambda *a: kernels.plan(*a, interleaved=False, inverse=False),
            each,
            np.cos(angle),
            np.sin(angle),
        )
        for each in (x, np.ascontiguousarray(x))
    )
    np.testing.assert_array_equal(y, plain)
    assert y.transpose(0, 2, 1, 3).flags.c_contiguous and plain.flags.c_contiguous


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("machine, version", versions("plain"))
def test_versions(machine, version, inverse, dtype):
    from cudamath.kernels.attention import rotary as kernels

    x = numbers((1, 2, 3, 7), dtype)
    kind = "float64" if dtype == "float64" else "float32"
    angle = numbers((3, 3), kind, 1)
    y = run_version(
        machine,
        lambda *a: kernels.plan(*a, interleaved=inverse, inverse=inverse),
        x,
        np.cos(angle),
        np.sin(angle),
    )
    a, b = (
        (wide(x)[..., 0:6:2], wide(x)[..., 1:6:2])
        if inverse
        else (wide(x)[..., :3], wide(x)[..., 3:6])
    )
    z = (a + 1j * b) * np.exp((-1j if inverse else 1j) * wide(angle))
    expected = np.concatenate([z.real, z.imag], -1)
    found = wide(y)[..., [0, 2, 4, 1, 3, 5]] if inverse else wide(y)[..., :6]
    assert_close(found, expected, rtol=TOLERANCE[dtype], atol=2 * TOLERANCE[dtype])
    assert np.array_equal(y[..., 6], x[..., 6])
