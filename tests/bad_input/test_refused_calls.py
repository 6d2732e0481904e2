"""Calls that cannot be answered are refused by name, each with its own words.

A table for every chapter, and one test for each: a check that is lost shows as an answer, or as
another error.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import cudamath as cm

ml, random, linalg = cm.ml, cm.random, cm.linalg
V, M, T = np.arange(4.0), np.arange(12.0).reshape(3, 4), np.arange(24.0).reshape(2, 3, 4)
I = np.arange(4)  # noqa: E741
S = np.eye(3)


def v():
    return cm.asarray(V)


def m():
    return cm.asarray(M)


def refuse(rows):
    for number, (call, kind, words) in enumerate(rows):
        try:
            answer = call()
        except Exception as error:
            assert isinstance(error, kind), f"row {number}, {words!r}: {error!r}"
            assert re.match(words, str(error)), f"row {number}, {words!r}: {error}"
        else:
            pytest.fail(f"row {number} was answered: {words!r}: {str(answer)[:200]}")


def recorded(function):
    """A call of `function` on an array of which a gradient is recorded."""
    return lambda: cm.grad(lambda x: (function(x), x.sum())[1])(v())


def test_selections(device):
    refuse(
        [
            (lambda: cm.choose(I, []), ValueError, "choose: .*choice"),
            (lambda: cm.compress(M > 1, M), ValueError, "compress: the condition must be a vector"),
            (lambda: cm.place(v(), V > 0, []), ValueError, "place: there are no values for 3"),
            (lambda: cm.place(v(), M > 0, [1]), ValueError, r"place: a mask of shape \(3, 4\)"),
            (lambda: cm.piecewise(V, [V > 1], [1, 2, 3]), ValueError, "piecewise: 1 conditions"),
            (
                lambda: cm.apply_over_axes(lambda x, _: x.sum(), M, 0),
                ValueError,
                "apply_over_axes: ",
            ),
            (lambda: cm.select([V > 1], [V, V]), ValueError, "select: wants as many choices"),
            (lambda: cm.select([], []), ValueError, "select: wants as many choices"),
            (lambda: cm.select([I], [V]), TypeError, "select: conditions must be bool"),
            (lambda: cm.digitize(V, M), ValueError, "digitize: bins must have 1 dimension"),
            (lambda: cm.searchsorted(V, 1, side="up"), ValueError, "searchsorted: side must be"),
            (
                lambda: cm.searchsorted(V, 1, sorter=[0]),
                ValueError,
                r"searchsorted: sorter of shape \(1,\)",
            ),
            (
                lambda: cm.take_along_axis(np.zeros((0, 2)), np.zeros((1, 2), int), 0),
                IndexError,
                "take_along_axis: axis 0 .* is empty",
            ),
            (
                lambda: cm.apply_along_axis(lambda v: v.sum(), 0, np.zeros((3, 0))),
                ValueError,
                "apply_along_axis: no lines along axis 0",
            ),
            (
                lambda: cm.ravel_multi_index(([0, 1], [0, 1]), (9, 9), mode="round"),
                ValueError,
                "ravel_multi_index: mode must be",
            ),
            (lambda: cm.diag_indices_from(V), ValueError, "diag_indices_from: input array must be"),
            (lambda: cm.diag_indices_from(M), ValueError, "diag_indices_from: "),
            (lambda: cm.tril_indices_from(V), ValueError, "tril_indices_from: wants a matrix"),
        ]
    )


def test_order(device):
    refuse(
        [
            (lambda: cm.sort(V, kind="bubble"), ValueError, "sort: kind must be None"),
            (lambda: cm.lexsort([]), ValueError, "lexsort: wants at least one key"),
            (lambda: cm.lexsort([V, V[:3]]), ValueError, "lexsort: keys must have one shape"),
            (lambda: cm.sort(V, order="x"), ValueError, "sort: order names fields"),
            (lambda: cm.partition(V, 4), ValueError, "partition: kth 4 is out of bounds"),
            (lambda: cm.partition(V, -5), ValueError, "partition: kth -5 is out of bounds"),
            (lambda: cm.topk(v(), 5), ValueError, "topk: k = 5 is out of bounds"),
            (lambda: cm.topk(v(), -1), ValueError, "topk: k = -1 is out of bounds"),
        ]
    )


def test_counts(device):
    refuse(
        [
            (lambda: cm.bincount([1, -1]), ValueError, "bincount: .*negative"),
            (lambda: cm.bincount(np.array([5, -1] * 5000)), ValueError, "bincount: .*negative"),
            (lambda: cm.bincount(I, weights=[1.0]), ValueError, r"bincount: weights of shape \(1,"),
            (lambda: cm.histogram(V, range=(2, 1)), ValueError, "histogram: range must ascend"),
            (
                lambda: cm.histogram(V, range=(0, np.inf)),
                ValueError,
                "histogram: range must be finite",
            ),
            (lambda: cm.histogram(V, "best"), ValueError, "histogram: bins must be a number"),
            (
                lambda: cm.histogram(V, "auto", weights=V),
                TypeError,
                "histogram: the number of bins cannot be estimated",
            ),
            (lambda: cm.histogram(V, M), ValueError, "histogram: bins must have 1 dimension"),
            (lambda: cm.histogram(V, [2.0, 1.0]), ValueError, "histogram: the edges .* ascend"),
            (lambda: cm.histogramdd(T), ValueError, "histogramdd: wants a sample of shape"),
            (lambda: cm.histogramdd([V, V[:2]]), ValueError, "histogramdd: "),
            (lambda: cm.histogramdd(M.T, [2, 2]), ValueError, "histogramdd: got bins for 2"),
            (
                lambda: cm.histogramdd(M.T, range=[(0, 1)]),
                ValueError,
                "histogramdd: got ranges for 1 dimensions",
            ),
            (lambda: cm.histogramdd(M.T, [[1.0], 2, 2]), ValueError, "histogramdd: "),
        ]
    )


def test_statistics(device):
    refuse(
        [
            (lambda: cm.cov(V, ddof=0.5), ValueError, "cov: ddof must be an integer"),
            (lambda: cm.cov(V, fweights=[1]), RuntimeError, r"cov: fweights of shape \(1,\)"),
            (lambda: cm.cov(V, fweights=V), TypeError, "cov: fweights must be integers"),
            (lambda: cm.cov(V, fweights=-I), ValueError, "cov: fweights cannot be negative"),
            (lambda: cm.cov(V, aweights=-V), ValueError, "cov: aweights cannot be negative"),
            (
                lambda: cm.quantile(M, 0.5, axis=0, weights=V, method="inverted_cdf"),
                ValueError,
                "quantile: weights of shape",
            ),
            (
                lambda: cm.quantile(M, 0.5, weights=V, method="inverted_cdf"),
                ValueError,
                "quantile: weights of shape",
            ),
            (
                lambda: cm.quantile(M, 0.5, axis=1, weights=M[:2], method="inverted_cdf"),
                ValueError,
                "quantile: weights of shape",
            ),
            (lambda: cm.quantile(V, 0.5, weights=V), ValueError, "quantile: Only method"),
            (lambda: cm.quantile(V, 0.5, method="best"), ValueError, "quantile: method must be"),
            (lambda: cm.quantile(V[:0], 0.5), IndexError, "quantile: no elements along axes"),
            (lambda: cm.nanquantile(V, 0.5, method="x"), ValueError, "nanquantile: method must"),
            (lambda: cm.average(M, weights=V), TypeError, "average: weights of shape .* want an"),
            (lambda: cm.average(M, 0, V), ValueError, r"average: weights of shape \(4,\) do not"),
        ]
    )


def test_differences(device):
    refuse(
        [
            (lambda: cm.ediff1d(I, to_end=0.5), TypeError, "ediff1d: values of dtype"),
            (lambda: cm.gradient(V, edge_order=3), ValueError, "gradient: edge_order must be"),
            (lambda: cm.gradient(M, 1.0, 2.0, 3.0), TypeError, "gradient: 3 spacings do not fit"),
            (lambda: cm.gradient(V[:1]), ValueError, "gradient: wants at least 2 elements"),
            (lambda: cm.gradient(V[:2], edge_order=2), ValueError, "gradient: wants at least 3"),
            (lambda: cm.gradient(V, V[:3]), ValueError, r"gradient: coordinates of shape \(3,\)"),
            (lambda: cm.trapezoid(1.0), ValueError, "trapezoid: wants at least 1 dimension"),
            (lambda: cm.trapezoid(V, V[:3]), ValueError, "trapezoid: coordinates of shape"),
            (lambda: cm.convolve(V, V, "all"), ValueError, "convolve: mode must be"),
            (lambda: cm.diff(1.0), ValueError, "diff: wants at least 1 dimension"),
        ]
    )


def test_numbers(device):
    refuse(
        [
            (lambda: cm.round(V > 1, 1), TypeError, "round: bool of shape"),
            (lambda: cm.clip(V, 0, 1, min=0), ValueError, "clip: a_min, a_max and min, max"),
            (lambda: cm.signbit(V, dtype="i4"), TypeError, "signbit"),
            (lambda: cm.modf(V, out=v()), TypeError, "modf: out must be a tuple"),
            (lambda: cm.float_power(V, 2, dtype="f4"), TypeError, "float_power: is computed in"),
            (lambda: cm.ldexp(V, V), TypeError, "ldexp: the exponents are integers"),
            (lambda: cm.isdtype(np.dtype("f4"), "real"), ValueError, "isdtype: no kind 'real'"),
            (lambda: cm.arange(3, dtype="float8_e4m3fn"), TypeError, "arange: wants a numeric"),
            (lambda: cm.array(T, ndmax=2), ValueError, "array: wants at most 2 axes"),
            (lambda: cm.zeros(3, like=V), TypeError, "zeros: like must be an ndarray of this"),
            (lambda: cm.add(V, V, dtype="i4", casting="no"), TypeError, "add: "),
            (lambda: cm.add(V, V, signature="dd->d", dtype="f8"), TypeError, "add: cannot specify"),
            (lambda: cm.add(V, V, signature="d->d"), (TypeError, ValueError), "add: "),
            (
                lambda: cm.subtract.reduce(np.zeros((0, 2))),
                ValueError,
                "subtract.reduce: nothing to reduce",
            ),
            (
                lambda: cm.add.reduce(V, where=np.ones((2, 4), bool)),
                ValueError,
                r"(sum|add.reduce): where of shape \(2, 4\)",
            ),
            (lambda: cm.rot90(M, axes=(0,)), ValueError, "rot90: axes must be two"),
            (lambda: cm.rot90(T, axes=(0, 1, 2)), ValueError, "rot90: axes must be two"),
            (
                lambda: cm.sliding_window_view(M, (2,), (0, 1)),
                ValueError,
                "sliding_window_view: a window",
            ),
        ]
    )


def test_shapes_and_memory(device):
    refuse(
        [
            (recorded(lambda x: x.view("i8")), RuntimeError, "view: the gradient of an array"),
            (recorded(lambda x: x.byteswap()), RuntimeError, "byteswap: the gradient of an array"),
            (recorded(lambda x: x.copy_to(v())), RuntimeError, "copy_to: a gradient is recorded"),
            (
                recorded(lambda x: cm.lib.stride_tricks.as_strided(x, (2,), (8,))),
                RuntimeError,
                "as_strided: has no gradient",
            ),
            (lambda: m().T.view("i2"), ValueError, "view: "),
            (lambda: v().copy_to(m()), ValueError, "copy_to: target must be float64"),
            (lambda: cm.ndarray((2,), buffer=m().T), ValueError, "ndarray: wants a buffer without"),
            (recorded(lambda x: cm.ndarray((2,), buffer=x)), RuntimeError, "ndarray: a gradient"),
            (lambda: cm.pad(V, 1, "edge", stat_length=2), ValueError, "pad: unsupported keyword"),
            (
                lambda: cm.pad(V, 1, "reflect", reflect_type="none"),
                ValueError,
                "pad: reflect_type must be",
            ),
            (lambda: cm.pad(V, 1, "mean", stat_length=-1), ValueError, "pad: index can't contain"),
            (lambda: cm.pad(V, 1, "maximum", stat_length=0), ValueError, "pad: stat_length of 0"),
            (lambda: cm.pad(V[:0], 1, "edge"), ValueError, "pad: can't extend empty axis 0"),
        ]
    )


def test_polynomials(device):
    refuse(
        [
            (lambda: cm.polyder(M), ValueError, "polyder: wants a vector"),
            (lambda: cm.polyint(M), ValueError, "polyint: wants a vector"),
            (lambda: cm.polyint(V, 3, [1.0, 2.0]), ValueError, "polyint: wants one constant k"),
        ]
    )


def test_draws(device):
    rng = random.default_rng(0)
    state = rng.state
    refuse(
        [
            (lambda: setattr(rng, "state", {}), ValueError, "Generator.state: wants a dict"),
            (
                lambda: setattr(rng, "state", {**state, next(iter(state)): -1}),
                (ValueError, TypeError),
                "Generator.state: wants",
            ),
            (lambda: rng.spawn(-1), ValueError, "Generator.spawn: wants n_children >= 0"),
            (lambda: rng.logseries(1.0), ValueError, "random.logseries: wants p < 1"),
            (lambda: rng.hypergeometric(1, 2, 4), ValueError, "random.hypergeometric: "),
            (lambda: rng.uniform(-1e308, 1e308), ValueError, "random.uniform: wants a finite"),
            (
                lambda: rng.standard_exponential(method="x"),
                ValueError,
                "random.standard_exponential: method is",
            ),
            (lambda: rng.integers(V), TypeError, "random.integers: wants .* as integers"),
            (lambda: rng.multinomial(3, []), ValueError, "random.multinomial: wants pvals"),
            (lambda: rng.dirichlet(1.0), ValueError, "random.dirichlet: wants alpha"),
            (
                lambda: rng.multivariate_normal(V, np.eye(4), check_valid="x"),
                ValueError,
                "random.multivariate_normal: wants check_valid",
            ),
            (
                lambda: rng.multivariate_normal(V, np.eye(4), method="x"),
                ValueError,
                "random.multivariate_normal: wants method",
            ),
            (
                lambda: rng.multivariate_normal(V, S),
                ValueError,
                "random.multivariate_normal: wants mean of shape",
            ),
            (
                lambda: rng.multivariate_normal(V, -np.eye(4), check_valid="raise"),
                ValueError,
                "random.multivariate_normal: wants a symmetric cov",
            ),
            (lambda: rng.permutation(np.array(1.5)), (ValueError, TypeError), "random.permutation"),
            (lambda: rng.permutation(-1), ValueError, "random.permutation: wants an integer >= 0"),
            (lambda: rng.permuted(1.0), ValueError, "random.permuted: wants an array"),
            (lambda: rng.shuffle((1, 2)), TypeError, "random.shuffle: wants a cudamath array"),
            (lambda: rng.choice(np.array(1.5)), (ValueError, TypeError), "random.choice: wants"),
            (lambda: rng.choice(0, 2), ValueError, "random.choice: wants something to draw from"),
            (
                lambda: rng.choice(3, 4, replace=False),
                ValueError,
                "random.choice: wants at most the 3 elements",
            ),
            (lambda: rng.choice(3, p=[0.5, 0.5]), ValueError, "random.choice: wants p of shape"),
            (
                lambda: rng.choice(3, 2, replace=False, p=[1.0, 0.0, 0.0]),
                ValueError,
                "random.choice: wants at least 2 elements with p > 0",
            ),
        ]
    )


def test_layers(device):
    x, w = np.ones((2, 4, 6, 6)), np.ones((3, 4, 3, 3))
    refuse(
        [
            (lambda: ml.conv2d(x, w[0]), ValueError, "conv2d: wants weight of shape"),
            (lambda: ml.conv2d(x, w, np.ones(4)), ValueError, r"conv2d: wants bias of shape \(3,"),
            (
                lambda: ml.conv2d(x, w, padding="same", stride=2),
                ValueError,
                "conv2d: padding 'same' wants stride 1",
            ),
            (
                lambda: ml.conv_transpose2d(x, np.ones((4, 3, 3, 3)), output_padding=1),
                ValueError,
                "conv_transpose2d: wants output_padding less than stride",
            ),
            (
                lambda: ml.conv_transpose2d(x, np.ones((4, 3, 3, 3)), padding=9),
                ValueError,
                "conv_transpose2d: nothing is left of y",
            ),
            (lambda: ml.embedding(I, M, padding_idx=3), ValueError, "embedding: wants padding_idx"),
            (lambda: ml.embedding(I, M, padding_idx=-4), ValueError, "embedding: wants padding_id"),
            (
                lambda: ml.cross_entropy(M, [0, 1, 2], weight=V[:3]),
                ValueError,
                r"cross_entropy: logits of shape \(3, 4\) want weight of shape \(4,\)",
            ),
            (lambda: ml.group_norm(V, 2), ValueError, r"group_norm: wants x \(N, C, ...\)"),
            (
                lambda: ml.global_max_pool2d(np.ones((2, 3, 0, 4))),
                ValueError,
                "global_max_pool2d: wants images with at least one place",
            ),
            (lambda: ml.amp.cast(m(), "int32"), TypeError, "cast: wants a floating-point dtype"),
            (lambda: ml.amp.loss_scale(0.0), ValueError, "loss_scale: wants a finite initial"),
            (lambda: ml.amp.loss_scale(np.inf), ValueError, "loss_scale: wants a finite initial"),
            (lambda: ml.clip_grad_norm({"w": m()}, "1"), TypeError, "clip_grad_norm: wants max_n"),
            (lambda: ml.clip_grad_norm({"w": m()}, -1.0), ValueError, "clip_grad_norm: wants a m"),
            (lambda: ml.clip_grad_norm({}, 1.0), ValueError, "clip_grad_norm: wants a tree of"),
        ]
    )


def test_recurrent_layers(device):
    x = np.ones((5, 3, 4))
    given = {"weight_ih_l0": np.ones((2, 4)), "weight_hh_l0": np.ones((2, 2))}
    four = {"weight_ih_l0": np.ones((8, 4)), "weight_hh_l0": np.ones((8, 2))}
    hr = {"weight_hr_l0": np.ones((2, 2))}
    refuse(
        [
            (lambda: ml.rnn(x, {**given, "bias": V}), ValueError, "rnn: unknown weights"),
            (lambda: ml.rnn(x, given | hr), ValueError, "rnn: only lstm has a projection"),
            (
                lambda: ml.lstm(x, four | {"weight_hr_l0": V}),
                ValueError,
                "lstm: wants weight_hr_l0 as a matrix",
            ),
            (
                lambda: ml.rnn(x, {**given, "weight_hh_l0": np.ones((2, 3))}),
                ValueError,
                r"rnn: wants weight_ih_l0 of shape \(3, 4\)",
            ),
            (
                lambda: ml.lstm(x, four, (np.ones((1, 3, 2)),)),
                ValueError,
                r"lstm: wants the state as a pair",
            ),
            (lambda: ml.rnn(x, given, np.ones((1, 2, 2))), ValueError, "rnn: wants a state of sh"),
            (lambda: ml.rnn(V, given), ValueError, "rnn: wants x of shape"),
            (lambda: ml.rnn(x[:0], given), ValueError, "rnn: wants x of shape"),
            (lambda: ml.rnn(x, given, lengths=[1]), ValueError, r"rnn: wants lengths of shape"),
        ]
    )


def test_optimizers(device):
    p, g = {"w": v()}, {"w": v()}
    state = ml.sgd_init(p)
    refuse(
        [
            (lambda: ml.sgd_init({"w": cm.asarray(I)}), TypeError, "sgd_init: wants floating-po"),
            (lambda: ml.sgd_init({"w": V}), TypeError, "sgd_init: wants cudamath arrays"),
            (
                lambda: ml.sgd_update(p, g, state, lr=0.1, nesterov=True),
                ValueError,
                "sgd_update: nesterov wants momentum > 0",
            ),
            (
                lambda: ml.sgd_update(p, {"w": v().astype("i4")}, state, lr=0.1),
                TypeError,
                "sgd_update: wants grads of",
            ),
            (
                lambda: ml.adam_update(p, g, ml.adam_init(p), lr=0.1, betas=(1.0, 0.9)),
                ValueError,
                "adam_update: wants .* in \\[0, 1\\)",
            ),
            (
                lambda: cm.grad(
                    lambda x: (ml.sgd_update({"w": v()}, {"w": x}, state, lr=0.1), x.sum())[1]
                )(v()),
                ValueError,
                "sgd_update: not differentiable",
            ),
        ]
    )


def test_decompositions(device):
    refuse(
        [
            (lambda: linalg.eigh(S, UPLO="X"), ValueError, "eigh: UPLO argument must be"),
            (lambda: linalg.eigvalsh(S, UPLO="X"), ValueError, "eigvalsh: UPLO argument must be"),
            (lambda: linalg.qr(S, mode="x"), ValueError, "qr: "),
        ]
    )


def test_indices(device):
    refuse(
        [
            (lambda: cm.put(cm.zeros((0,)), 0, 1.0), IndexError, "put: an array of shape"),
            (lambda: cm.ix_(M), ValueError, "ix_: wants vectors"),
            (lambda: cm.mgrid[1:, 2:3], TypeError, "m?grid: wants slices with an end"),
            (lambda: cm.tril_indices(-1), ValueError, "tril_indices: negative size"),
            (lambda: cm.fill_diagonal(v(), 1), ValueError, "fill_diagonal: array must be at"),
            (lambda: cm.fill_diagonal(cm.asarray(T), 1), ValueError, "fill_diagonal: all dimens"),
            (lambda: cm.unravel_index(1, (2**40, 2**40)), ValueError, "unravel_index: dimensions"),
            (lambda: cm.unravel_index([12], (3, 4)), ValueError, "unravel_index: an index is out"),
            (lambda: cm.ravel_multi_index((I,), (3, 4)), ValueError, "ravel_multi_index: 1 index"),
            (
                lambda: cm.ravel_multi_index(([3], [0]), (3, 4)),
                ValueError,
                "ravel_multi_index: an index is out",
            ),
            (lambda: cm.geomspace(0, 1), ValueError, "geomspace: wants ends that are not 0"),
            (lambda: cm.geomspace(1.0, 0.0), ValueError, "geomspace: wants ends that are not 0"),
            (
                lambda: cm.geomspace(cm.asarray([1.0]), cm.asarray([0.0])),
                ValueError,
                "geomspace: wants ends that are not 0",
            ),
            (lambda: cm.vander(M), ValueError, "vander: wants a vector"),
            (lambda: cm.unpackbits(I), TypeError, "unpackbits: wants uint8 arrays"),
            (
                lambda: cm.take_along_axis(M, M[:, :1] > 1, 1),
                IndexError,
                "take_along_axis: wants inte",
            ),
            (lambda: cm.interp(V, V, V[:2]), ValueError, "interp: w"),
            (lambda: cm.interp(V, M, M), ValueError, "interp: w"),
            (lambda: cm.interp(V, [], []), ValueError, "interp: w"),
            (lambda: cm.packbits(V > 1, bitorder="x"), ValueError, "packbits: bitorder is"),
            (lambda: cm.interp(V, V, V, period=0), ValueError, "interp: the period must be"),
            (lambda: cm.interp(V, V, V[:2]), ValueError, "interp: wants two vectors of points"),
            (lambda: cm.interp(V, [], []), ValueError, "interp: wants two vectors of points"),
        ]
    )


def test_joining(device):
    refuse(
        [
            (lambda: cm.stack(iter([V, V])), TypeError, "stack: arrays to stack must be passed"),
            (
                lambda: cm.concatenate([V, V], out=cm.zeros(8), dtype="f8"),
                TypeError,
                "concatenate: takes out or dtype, not both",
            ),
            (lambda: cm.roll(M, (1, 2, 3), (0, 1)), ValueError, "roll: 3 shifts do not match 2"),
            (lambda: cm.vsplit(V, 2), ValueError, "vsplit: wants at least 2 dimensions"),
            (lambda: cm.dsplit(M, 2), ValueError, "dsplit: wants at least 3 dimensions"),
            (lambda: cm.block([]), ValueError, "block: a list is empty"),
            (lambda: cm.block([[V], V]), ValueError, "block: lists are nested"),
            (lambda: cm.delete(V, [0.5]), IndexError, "delete: wants integers"),
            (lambda: cm.delete(V, [4]), IndexError, "delete: an index is out of bounds"),
            (lambda: cm.delete(V, [-5]), IndexError, "delete: an index is out of bounds"),
            (lambda: cm.insert(V, [5, 1], 0), IndexError, "insert: index .* is out of bounds"),
            (lambda: cm.fliplr(V), ValueError, "fliplr: wants at least 2 dimensions"),
            (lambda: cm.flipud(1.0), ValueError, "flipud: wants at least 1 dimension"),
        ]
    )


def test_products(device):
    refuse(
        [
            (lambda: cm.einsum(), ValueError, "einsum: wants subscripts and arrays"),
            (lambda: cm.einsum("ij"), ValueError, "einsum: "),
            (lambda: cm.einsum("i,i", V), ValueError, "einsum: Number of einsum subscripts"),
            (lambda: cm.einsum("i->ii", V), ValueError, "einsum: "),
            (lambda: cm.einsum("i->j", V), ValueError, "einsum: "),
            (lambda: cm.einsum(V, [60]), ValueError, "einsum: subscript is not within"),
            (lambda: cm.einsum("i", V, dtype="i4"), TypeError, "einsum: float64 cannot become"),
            (lambda: cm.matmul(V, V, dtype="i4"), TypeError, "matmul: "),
            (lambda: cm.vecdot(1.0, V), ValueError, "vecdot: wants arrays of at least one"),
            (lambda: cm.matvec(V, V), ValueError, "matvec: .*, got shape"),
            (lambda: cm.matvec(M, V[:3]), ValueError, "matvec: the last axes of shapes"),
            (lambda: cm.vecmat(V, M), ValueError, "vecmat: the last axis of shape"),
            (lambda: cm.vdot(V, V[:3]), ValueError, "vdot: wants equally many elements"),
            (lambda: cm.dot(M, M), ValueError, "dot: the last axis of a must be"),
            (lambda: cm.trace(V), ValueError, "trace: wants at least 2 dimensions"),
            (lambda: linalg.multi_dot([M]), ValueError, "multi_dot: Expecting at least two"),
            (lambda: linalg.multi_dot([M, T, M]), linalg.LinAlgError, "multi_dot: wants matrices"),
            (lambda: linalg.multi_dot([M, M]), ValueError, "multi_dot: matrix 1 of shape"),
            (lambda: linalg.pinv(S, rcond=1.0, rtol=1.0), ValueError, "pinv: `rtol` and `rcond`"),
            (
                lambda: linalg.matrix_rank(S, tol=1.0, rtol=1.0),
                ValueError,
                "matrix_rank: `tol` and `rtol`",
            ),
            (lambda: linalg.lstsq(S, V), linalg.LinAlgError, "lstsq: Incompatible dimensions"),
            (lambda: linalg.cond(M[:0]), linalg.LinAlgError, "cond: cond is not defined"),
            (lambda: linalg.matrix_power(M, 2), linalg.LinAlgError, "matrix_power: Last 2 dim"),
            (lambda: linalg.norm(V, "fro"), ValueError, "norm: wants a number as the order"),
            (lambda: linalg.norm(M[:0], -2), ValueError, "(matrix_)?norm: "),
            (
                lambda: cm.grad(lambda a: linalg.qr(a, mode="raw")[1].sum())(cm.asarray(S)),
                TypeError,
                "qr: mode 'raw' .* has no gradient",
            ),
        ]
    )


def test_transforms_and_conversions(device):
    refuse(
        [
            (lambda: cm.fft.fft(V, norm="x"), ValueError, "fft: norm must be"),
            (lambda: cm.fft.fftfreq(4, dtype="i4"), TypeError, "fftfreq: wants a floating-point"),
            (lambda: cm.fft.fftn(V, s=(2, 2)), (ValueError, IndexError), "fftn: "),
            (lambda: cm.fft.irfftn(M, axes=()), ValueError, "irfftn: "),
            (lambda: v().to_device("cpu", stream=1), ValueError, "to_device: wants stream=None"),
            (
                lambda: cm.asarray(V, dtype="f4", copy=False),
                ValueError,
                "asarray: float64 cannot become float32 without a copy",
            ),
            (lambda: cm.asarray(V, copy="no"), ValueError, "asarray: copy must be True, False"),
            (lambda: v()[[0.5]], IndexError, "index: arrays used as indices must be of integer"),
            (lambda: v().reshape(-2, 2), ValueError, "reshape: negative size in shape"),
            (
                lambda: cm.grad(lambda x, y: x.sum(), (0, 0))(v(), v()),
                ValueError,
                r"grad: argnums \(0, 0\) name an argument",
            ),
            (lambda: cm.jit(len, static_argnames=(1,)), TypeError, "jit: wants static_argnames"),
        ]
    )
