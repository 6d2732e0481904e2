"""The gradient of group norm: each version by name against float64, which runs when, and what a
block takes."""

import numpy as np
import pytest
from gradient_checks import TOLERANCE, check_resources, numbers, run_version, versions, wide

from cudamath.core.dtypes import bfloat16
from cudamath.core.layout import Layout
from cudamath.kernels.lib.versions import ordered
from cudamath.kernels.norm.row_parts import Channels
from cudamath.runtime.device import assume
from cudamath.testing import assert_close
from tests.ml.test_norm import channels

SMALL = [((2, 6, 5), 3), ((3, 4, 1, 2), 1), ((2, 6), 2)]
SHAPES = [
    ((2, 6, 5), 3),
    ((64, 12), 3),
    ((3, 32, 16, 16), 4),
    ((3, 6, 4, 25), 2),
    ((2, 8, 8), 1),
    ((9, 64, 14, 14), 64),
    ((3, 320, 8, 8), 32),
    ((2, 8, 9, 9), 8),
]
WIDE = [
    ((2, 64, 64, 64), 2),
    ((5, 12, 100, 80), 3),
    ((5, 48, 56, 56), 6),
    ((2, 2048), 1),
]  # of float64 more than a block holds
LONG = [((2, 6, 5), 3), ((2, 6, 200, 100), 2), ((3, 4, 111, 151), 1), ((2, 300, 7), 1)]
DTYPES = [
    ("float32", "float32"),
    ("bfloat16", "float32"),
    ("float16", "float16"),
    ("float64", "float64"),
]


def reference(g, x, w, groups):
    """dx, dweight, dbias in and the statistics, in float64."""
    g, x, w = wide(g), wide(x), wide(w)
    rows = x.reshape(len(x), groups, -1)
    mean, rstd = rows.mean(2), 1 / np.sqrt(rows.var(2) + 1e-5)
    xhat = (rows - mean[:, :, None]) * rstd[:, :, None]
    gw = (g * channels(w, g)).reshape(rows.shape)
    dx = rstd[:, :, None] * (
        gw - gw.mean(2, keepdims=True) - xhat * (gw * xhat).mean(2, keepdims=True)
    )
    axes = (0, *range(2, x.ndim))
    return (
        dx.reshape(x.shape),
        (g * xhat.reshape(x.shape)).sum(axes),
        g.sum(axes),
        mean.ravel(),
        rstd.ravel(),
    )


@pytest.mark.parametrize("dtype, param", DTYPES)
@pytest.mark.parametrize("machine, version", versions("plain", "cluster", "long_groups"))
def test_versions(machine, version, dtype, param):
    from cudamath.kernels.norm import dispatch as norm_dispatch

    shapes = (
        SMALL if machine == "simulator" else LONG if version == "long_groups" else SHAPES + WIDE
    )
    if version == "cluster" and dtype == "float64":  # no cluster
        shapes = SHAPES
    for shape, groups in shapes:
        what = f"{shape} in {groups}"
        x, g = numbers(shape, dtype, scale=2, shift=1), numbers(shape, dtype, 1)
        w = numbers(shape[1:2], param, 2)
        dx, dweight, dbias, mean, rstd = reference(g, x, w, groups)
        mean, rstd = (
            v.astype("float64" if dtype == "float64" else "float32") for v in (mean, rstd)
        )
        loose = dict(rtol=TOLERANCE[dtype] * 4, atol=TOLERANCE[dtype] * 6, what=what)
        fine = TOLERANCE["float64" if dtype == "float64" else "float32"]
        summed = dict(
            rtol=TOLERANCE[param] * 4, atol=fine * 12 * (x.size // shape[1]) ** 0.5, what=what
        )
        runs = [
            run_version(
                machine,
                lambda g, x, w, m, s, groups=groups: norm_dispatch.group_norm_grad(
                    g, x, w, m, s, groups=groups, biased=True, version=version
                ),
                g,
                x,
                w,
                mean,
                rstd,
            )
            for _ in range(2)
        ]
        for one, again in zip(*runs, strict=True):
            np.testing.assert_array_equal(one, again)
        for found, expected, limits in zip(
            runs[0], (dx, dweight, dbias), (loose, summed, summed), strict=True
        ):
            assert_close(found, expected, **limits)
        dx, _, dbias, _, _ = reference(
            g, x, np.ones_like(w), groups
        )  # without weights; parameters' gradients in rstd's dtype
        found = run_version(
            machine,
            lambda g, x, m, s, groups=groups: norm_dispatch.group_norm_grad(
                g, x, None, m, s, groups=groups, biased=True, version=version
            ),
            g,
            x,
            mean,
            rstd,
        )
        assert_close(found[0], dx, **loose)
        assert_close(found[1], dbias, rtol=fine * 4, atol=summed["atol"], what=what)
        assert found[1].dtype == mean.dtype


def test_pieces():
    """Every access of a channel is in one thread's hands, and no thread holds more than it may."""
    from cudamath.kernels.norm import group_norm_parts

    for dtype, width in (
        (np.float32, 4),
        (np.float32, 1),
        (bfloat16, 8),
        (np.float64, 2),
        (np.float64, 1),
    ):
        dtype = np.dtype(dtype)
        for run in (width, 4 * width, 6 * width, 24 * width, 49 * width, 784, 3136, 4096, 100_000):
            if run % width:
                continue
            pieces, part, lanes, vectors = group_norm_parts.pieces_of(dtype, width, run)
            assert (pieces - 1) * part < run // width <= pieces * part <= pieces * lanes * vectors
            assert lanes & lanes - 1 == 0 and lanes <= 32
            assert (
                vectors * width * dtype.itemsize <= group_norm_parts.HELD
                if width > 1
                else vectors <= group_norm_parts.SINGLE
            )
            x = Layout.new((2, 8, run), dtype, 0)
            for capability in ((8, 0), (9, 0)):
                with assume(capability):
                    ranks, threads, most = group_norm_parts.spread(x, width, Channels(1, 8, run))
                assert ranks == 1 or capability == (9, 0)
                assert ranks * most >= 8 * pieces and threads >= most * lanes


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0)])
def test_which_version(capability):
    """A group is held where a block, or from 9.0 on a cluster, has room for it."""
    from cudamath.kernels.norm import dispatch as norm_dispatch
    from cudamath.kernels.norm.problem import GroupBackward

    def best(channels_, dtype=np.float32):
        groups, share, run = channels_
        x = Layout.new((1, groups * share, run), np.dtype(dtype), 0)
        rstd = Layout.new((groups,), np.dtype(np.float32), 0)
        problem = GroupBackward(x, x, None, rstd, rstd, groups, False)
        return ordered(norm_dispatch.GROUP_NORM_BACKWARD, problem)[0].name

    with assume(capability):
        assert (
            best((32, 4, 64)) == best((32, 4, 1024)) == best((32, 8, 4096), bfloat16) == "cluster"
        )
        assert best((32, 4, 1024), np.float64) == "cluster"
        cluster = "cluster" if capability >= (9, 0) else "long_groups"
        assert (
            best((4, 8, 4096)) == best((4, 8, 16_384)) == best((4, 8, 16_384), bfloat16) == cluster
        )
        assert best((1, 16, 16_384)) == best((4, 8, 4096), np.float64) == "long_groups"


def test_what_no_block_holds():
    """The wide shapes, in float64, are refused by name and go to `long_groups`; the others are
    not."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    for shape, groups in SHAPES + WIDE:
        x, c, s = (
            Layout.new(v, np.dtype(np.float64), 0)
            for v in (shape, shape[1:2], (shape[0] * groups,))
        )
        with assume((9, 0)):
            if (shape, groups) in SHAPES:
                norm_dispatch.group_norm_grad(
                    x, x, c, s, s, groups=groups, biased=True, version="cluster"
                )
                continue
            with pytest.raises(
                ValueError,
                match="^group norm gradient: version 'cluster' does not support .*float64",
            ):
                norm_dispatch.group_norm_grad(
                    x, x, c, s, s, groups=groups, biased=True, version="cluster"
                )
            plan = norm_dispatch.group_norm_grad(x, x, c, s, s, groups=groups, biased=True)
        assert [step.kernel.__name__ for step in plan.steps] == [
            "group_piece_sums",
            "group_means",
            "group_long_grad",
            "norm_finish",
        ]


@pytest.mark.compiles
@pytest.mark.slow
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0), (10, 0)])
@pytest.mark.parametrize("dtype", [np.float32, bfloat16, np.float64])
def test_registers(capability, dtype):
    """Nothing spills; the blocks of a group that all their registers hold."""
    from cudamath.kernels.norm import dispatch as norm_dispatch

    x, c, s = (
        Layout.new(
            shape, np.dtype(dtype if shape != (32,) or dtype == np.float64 else np.float32), 0
        )
        for shape in ((4, 64, 64, 64), (64,), (32,))
    )
    for version in (
        ("cluster", "long_groups")
        if capability >= (9, 0) and dtype != np.float64
        else ("long_groups",)
    ):
        with assume(capability):
            plan = norm_dispatch.group_norm_grad(
                x, x, c, s, s, groups=8, biased=True, version=version
            )
        if version == "cluster":
            assert plan.steps[0].cluster == 8 // (4 // x.dtype.itemsize)
        check_resources(plan, [x, x, c, s, s], capability)
    x, s = x.like((4, 64, 8, 8)), s.like((32,))
    with assume(capability):
        check_resources(
            norm_dispatch.group_norm_grad(x, x, c, s, s, groups=8, biased=True, version="cluster"),
            [x, x, c, s, s],
            capability,
        )
