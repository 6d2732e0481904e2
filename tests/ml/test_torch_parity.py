"""Layers against PyTorch over their options: values, gradients of all arrays, and gradients of
gradients."""

import itertools

import numpy as np
import pytest
from gradient_checks import numbers
from torch_comparison import agree, theirs, torch

import cudamath as cm
from cudamath.testing import assert_close

f, ml = torch.nn.functional, cm.ml


RANKS = [1, 2, 3, "3, made of images"]


def axes(rank, monkeypatch):
    """How many axes there are; of volumes also as if there were much to do."""
    if rank in (1, 2, 3):
        return rank
    monkeypatch.setattr("cudamath.ml.conv3d_cards.LITTLE", -1)
    return 3


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions(device, rank, groups, monkeypatch):
    rank = axes(rank, monkeypatch)
    sizes = (7, 6, 5)[:rank]
    for kernel, options in [
        (3, {"padding": "same"}),
        (2, {"padding": "same"}),
        (2, {"padding": "same", "dilation": 2}),
        (3, {"stride": 2, "padding": 1}),
        (2, {"dilation": 2, "padding": 1}),
        (1, {"padding": "valid"}),
    ]:
        x, w, b = (
            numbers((2, 4, *sizes)),
            numbers((6, 4 // groups, *(kernel,) * rank), seed=2),
            numbers((6,), seed=3),
        )
        ours, there = getattr(ml, f"conv{rank}d"), getattr(f, f"conv{rank}d")
        agree(
            lambda x, w, b: ours(x, w, b, groups=groups, **options),  # noqa: B023
            lambda x, w, b: there(x, w, b, groups=groups, **options),  # noqa: B023
            x,
            w,
            b,
            second=kernel == 3,
        )  # noqa: B023


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions(device, rank, groups, monkeypatch):
    rank = axes(rank, monkeypatch)
    sizes = (4, 3, 2)[-rank:]
    for kernel, options in [
        (3, {}),
        (2, {"stride": 2}),
        (3, {"stride": 2, "padding": 1, "output_padding": 1}),
        (2, {"dilation": 2, "output_padding": 1}),
        (3, {"stride": 3, "output_padding": 2}),
        (1, {"stride": 2}),
    ]:
        x, w, b = (
            numbers((2, 4, *sizes)),
            numbers((4, 6 // groups, *(kernel,) * rank), seed=2),
            numbers((6,), seed=3),
        )
        ours, there = getattr(ml, f"conv_transpose{rank}d"), getattr(f, f"conv_transpose{rank}d")
        agree(
            lambda x, w, b: ours(x, w, b, groups=groups, **options),  # noqa: B023
            lambda x, w, b: there(x, w, b, groups=groups, **options),  # noqa: B023
            x,
            w,
            b,
            second=kernel == 3,
        )  # noqa: B023


@pytest.mark.parametrize("rank", RANKS[2:])
@pytest.mark.parametrize(
    "depth, taps, options",
    [
        (
            1,
            2,
            {"padding": (2, 0, 0), "dilation": (5, 1, 1)},
        ),  # no tap reaches what is left of the depth
        (1, 3, {"padding": (2, 1, 0), "dilation": (3, 1, 1)}),  # one of three does
        (
            2,
            3,
            {"padding": (3, 0, 1), "dilation": 3, "stride": (2, 1, 1), "output_padding": (1, 0, 0)},
        ),
    ],
)
def test_taps_that_padding_cuts_off(device, depth, taps, options, rank, monkeypatch):
    axes(rank, monkeypatch)
    x, w, b = (
        numbers((2, 2, depth, 3, 3)),
        numbers((2, 3, taps, 2, 2), seed=2),
        numbers((3,), seed=3),
    )
    agree(
        lambda x, w, b: ml.conv_transpose3d(x, w, b, **options),
        lambda x, w, b: f.conv_transpose3d(x, w, b, **options),
        x,
        w,
        b,
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_transposed_convolutions_in_other_dtypes(device, dtype, monkeypatch):
    for rank in (1, *RANKS[2:]):
        rank = axes(rank, monkeypatch)
        x, w = (
            numbers((2, 3, 4, 3, 5)[: 2 + rank], dtype),
            numbers((3, 4, *(2,) * rank), dtype, seed=2),
        )
        y = getattr(ml, f"conv_transpose{rank}d")(cm.asarray(x), cm.asarray(w), stride=2)
        function = getattr(f, f"conv_transpose{rank}d")
        wide = torch.tensor(x.astype(float)), torch.tensor(w.astype(float))
        expected = theirs(lambda: function(*wide, stride=2))  # noqa: B023
        assert y.dtype == x.dtype
        assert_close(y, expected, rtol=2e-2 if dtype == "bfloat16" else 3e-3, atol=2e-2)


def test_errors_of_transposed_convolutions(device):
    x, w = cm.zeros((1, 2, 3)), cm.zeros((2, 2, 2))
    for call, message in [
        (
            lambda: ml.conv_transpose1d(x, w, output_padding=1),
            r"conv_transpose1d: .*output_padding \(1,\)",
        ),
        (lambda: ml.conv_transpose1d(x, w, padding=3), r"conv_transpose1d: nothing is left"),
        (
            lambda: ml.conv_transpose1d(x, cm.zeros((3, 2, 2))),
            r"conv_transpose1d: .*\(1, 2, 3\).*\(3, 2, 2\)",
        ),
        (lambda: ml.conv_transpose3d(x, w), r"conv_transpose3d: .*\(1, 2, 3\)"),
        (
            lambda: ml.conv_transpose3d(
                cm.zeros((1, 2, 3, 3, 3)), cm.zeros((2, 2, 2, 2, 2)), padding=(0, 3, 0)
            ),
            "conv_transpose3d: nothing is left",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 5), (2, 4, 3, 5), (2, 4, 2, 3, 2)])
def test_batch_norm(device, shape):
    x, w, b, m = numbers(shape), numbers((4,), seed=2), numbers((4,), seed=3), numbers((4,), seed=4)
    v = np.abs(numbers((4,), seed=5)) + 0.5
    agree(
        lambda x, w, b: ml.batch_norm(x, m, v, w, b, eps=1e-3),
        lambda x, w, b: f.batch_norm(x, torch.tensor(m), torch.tensor(v), w, b, eps=1e-3),
        x,
        w,
        b,
    )
    agree(
        lambda x, w, b: ml.batch_norm(x, None, None, w, b, training=True)[0],
        lambda x, w, b: f.batch_norm(x, None, None, w, b, training=True),
        x,
        w,
        b,
        rtol=1e-8,
    )
    agree(
        lambda x: ml.batch_norm(x, training=True)[0],
        lambda x: f.batch_norm(x, None, None, training=True),
        x,
        rtol=1e-8,
    )
    mean, var = torch.tensor(m), torch.tensor(v)
    new_mean, new_var = cm.asarray(m), cm.asarray(v)
    for step, momentum in enumerate((0.1, 0.3, 0.0, 1.0)):
        batch = numbers(shape, seed=step)
        f.batch_norm(torch.tensor(batch), mean, var, training=True, momentum=momentum)
        _, new_mean, new_var = ml.batch_norm(
            batch, new_mean, new_var, training=True, momentum=momentum
        )
    assert_close(new_mean, theirs(lambda: mean), rtol=1e-12)
    assert_close(new_var, theirs(lambda: var), rtol=1e-12)


def test_running_statistics_as_plain_means(device):
    """What PyTorch's modules do with momentum=None: a mean over all batches, momentum = 1 /
    (batches so far)."""
    module, mean, var = (
        torch.nn.BatchNorm1d(3, momentum=None, dtype=torch.float64),
        cm.zeros(3),
        cm.ones(3),
    )
    for step in range(4):
        batch = numbers((5, 3), seed=step)
        module(torch.tensor(batch))
        _, mean, var = ml.batch_norm(batch, mean, var, training=True, momentum=1 / (step + 1))
    assert_close(mean, theirs(lambda: module.running_mean), rtol=1e-12)
    assert_close(var, theirs(lambda: module.running_var), rtol=1e-12)


def test_other_norms(device):
    x, w, b = numbers((3, 4, 5, 2)), numbers((4,), seed=2), numbers((4,), seed=3)
    wide, shift = numbers((5, 2), seed=4), numbers((5, 2), seed=5)
    agree(
        lambda x, w, b: ml.layer_norm(x, (5, 2), w, b, eps=1e-3),
        lambda x, w, b: f.layer_norm(x, (5, 2), w, b, 1e-3),
        x,
        wide,
        shift,
        rtol=1e-8,
    )
    agree(lambda x: ml.layer_norm(x, 2), lambda x: f.layer_norm(x, (2,)), x * 3, rtol=1e-6)
    agree(
        lambda x, w: ml.rms_norm(x, (5, 2), w, eps=1e-3),
        lambda x, w: f.rms_norm(x, (5, 2), w, 1e-3),
        x,
        wide,
        rtol=1e-8,
    )
    for groups in (1, 2, 4):
        agree(
            lambda x, w, b: ml.group_norm(x, groups, w, b),  # noqa: B023
            lambda x, w, b: f.group_norm(x, groups, w, b),  # noqa: B023
            x,
            w,
            b,  # noqa: B023
            rtol=1e-8,
        )
    agree(
        lambda x, w, b: ml.instance_norm(x, w, b),
        lambda x, w, b: f.instance_norm(x, weight=w, bias=b),
        x,
        w,
        b,
        rtol=1e-8,
    )


def test_attention(device):
    q, k, v = (numbers((2, 4, 5, 6), seed=i) for i in range(3))
    mask = numbers((5, 5), seed=4)
    allowed = np.tri(5, dtype=bool)
    attend, there = ml.scaled_dot_product_attention, f.scaled_dot_product_attention
    agree(attend, there, q, k, v, second=False)
    agree(
        lambda *a: attend(*a, causal=True, scale=0.3),
        lambda *a: there(*a, is_causal=True, scale=0.3),
        q,
        k,
        v,
        second=False,
    )
    agree(
        lambda q, k, v, m: attend(q, k, v, mask=m),
        lambda q, k, v, m: there(q, k, v, m),
        q,
        k,
        v,
        mask,
        second=False,
    )
    agree(
        lambda *a: attend(*a, mask=allowed),
        lambda *a: there(*a, torch.tensor(allowed)),
        q,
        k,
        v,
        second=False,
    )
    agree(
        attend,
        lambda q, k, v: there(q, k, v, enable_gqa=True),
        q,
        k[:, :2],
        v[:, :2],
        second=False,
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_rows_of_attention_that_see_nothing(device, dtype):
    """Zeros, and no NaN in any gradient, whether by a mask, by -inf added or by lengths."""
    q, k, v = (cm.asarray(numbers((2, 2, 3, 8), dtype, seed=i)) for i in range(3))
    seen = np.array([[True, True, False], [False, False, False], [True, False, True]])
    added = np.where(seen, 0, -np.inf).astype(numbers((), dtype).dtype)
    for options in (
        {"mask": seen},
        {"mask": added},
        {"key_lengths": np.array([3, 0])},
        {"query_lengths": np.array([1, 2])},
    ):
        y, pull = cm.vjp(lambda *a: ml.scaled_dot_product_attention(*a, **options), q, k, v)  # noqa: B023
        gradients = pull(cm.ones_like(y))
        assert all(np.isfinite(a.to_numpy().astype(float)).all() for a in (y, *gradients)), options
        empty = (
            y[:, :, 1] if "mask" in options else y[1] if "key_lengths" in options else y[0, :, 1:]
        )
        assert not empty.to_numpy().astype(float).any()


def test_losses_over_options(device):
    x, targets, w = (
        numbers((5, 4, 3)),
        np.random.default_rng(1).integers(0, 4, (5, 3)),
        np.array([0.5, 2.0, 0.0, 1.5]),
    )
    targets[0, 0] = targets[3] = 2
    soft = np.abs(numbers((5, 4, 3), seed=2))
    soft /= soft.sum(1, keepdims=True)
    for reduction, smoothing, ignored, weight in itertools.product(
        ("mean", "sum", "none"), (0.0, 0.2), (-100, 2), (None, w)
    ):
        there = None if weight is None else torch.tensor(weight)
        options = {"reduction": reduction, "label_smoothing": smoothing}
        agree(
            lambda x: ml.cross_entropy(x, targets, weight=weight, ignore_index=ignored, **options),  # noqa: B023
            lambda x: f.cross_entropy(
                x,
                torch.tensor(targets),
                there,
                ignore_index=ignored,
                **options,  # noqa: B023
            ),
            x,
        )  # noqa: B023
        agree(
            lambda x: ml.nll_loss(
                x,
                targets,
                weight=weight,
                ignore_index=ignored,
                reduction=reduction,  # noqa: B023
            ),  # noqa: B023
            lambda x: f.nll_loss(
                x,
                torch.tensor(targets),
                there,
                ignore_index=ignored,
                reduction=reduction,  # noqa: B023
            ),  # noqa: B023
            x,
            second=False,
        )
        agree(
            lambda x, q: ml.cross_entropy(x, q, weight=weight, **options),  # noqa: B023
            lambda x, q: f.cross_entropy(x, q, there, **options),  # noqa: B023
            x,
            soft,
        )  # noqa: B023
    agree(
        lambda x: ml.cross_entropy(x, 1, weight=w),
        lambda x: f.cross_entropy(x, torch.tensor(1), torch.tensor(w)),
        numbers((4,)),
    )
