"""Errors begin with the name of the function that was called, not with that of a part of it, nor
with Python's own words."""

import numpy as np
import pytest
from fake_driver import installed

import cudamath as cm

A, V, I = np.ones((4, 5)), np.arange(4.0), np.eye(3)  # noqa: E741
IMAGES, THING, RAGGED = np.ones((1, 2, 4, 4)), object(), [[1, 2], [3]]
TWO, NAN = np.asarray(2), np.asarray([[np.nan, 1.0], [1.0, 2.0]])


def draw(name, *args, **kwargs):
    return getattr(cm.random.default_rng(0), name)(*args, **kwargs)


#: (the call, the error, how its message begins)
CALLS = [
    # one thing where there must be several, or no sequence at all
    (
        lambda: cm.einsum("ij,jk", A, A.T, optimize=5),
        TypeError,
        "einsum: wants a sequence of pairs of operands",
    ),
    (
        lambda: cm.einsum("ij,jk,kl", A, A.T, A, optimize=[1]),
        TypeError,
        "einsum: wants a sequence of operands, got int 1",
    ),
    (
        lambda: cm.require(A, requirements=(0, 0)),
        TypeError,
        "require: wants requirements as letters",
    ),
    (
        lambda: cm.require(A, requirements=5),
        TypeError,
        "require: wants a sequence of letters, got int 5",
    ),
    (lambda: cm.fft.fft2(A, THING), TypeError, "fft2: wants a sequence of lengths, got object"),
    (
        lambda: cm.histogram(A, 3, 5),
        TypeError,
        "histogram: wants a sequence of two numbers as range, got int 5",
    ),
    (
        lambda: cm.histogram(A, 3, (1, 2, 3)),
        ValueError,
        r"histogram: wants two numbers as range, got \(1, 2, 3\)",
    ),
    (
        lambda: cm.histogram(A, 3, "ab"),
        TypeError,
        "histogram: wants real numbers as range, got str 'a'",
    ),
    (
        lambda: cm.histogram_bin_edges(A, "auto", 5),
        TypeError,
        "histogram_bin_edges: wants a sequence of two numbers",
    ),
    (
        lambda: cm.histogramdd(A, 3, 5),
        TypeError,
        "histogramdd: wants a sequence of ranges, got int 5",
    ),
    (
        lambda: cm.histogramdd(A, THING),
        TypeError,
        "histogramdd: wants a sequence of bins, got object",
    ),
    (
        lambda: cm.histogram2d(V, V, THING),
        TypeError,
        "histogram2d: wants a sequence of bins, got object",
    ),
    (
        lambda: cm.histogram2d(V, V, 3, (1, 2)),
        TypeError,
        "histogram2d: wants a sequence of two numbers as range, got int 1",
    ),
    (lambda: cm.rot90(A, 1, 5), TypeError, "rot90: wants a sequence of two axes, got int 5"),
    (lambda: cm.fromiter(5, float), TypeError, "fromiter: 'int' object is not iterable"),
    (
        lambda: cm.asarray(A).transpose(THING),
        TypeError,
        "transpose: wants a sequence of axes, got object",
    ),
    (
        lambda: cm.tensordot(A, A, (0, 1, 1)),
        ValueError,
        "tensordot: wants axes as a number or two sequences",
    ),
    # an array, or something else, where there must be one of a few words
    (
        lambda: cm.ml.linear(A, A, activation=cm.asarray(A)),
        ValueError,
        "linear: activation is one of 'relu', .* got array",
    ),
    (
        lambda: cm.ml.mlp(A, A, None, A.T, None, activation=cm.asarray(A)),
        ValueError,
        "mlp: activation is one of 'relu'",
    ),
    (
        lambda: cm.ml.pad(IMAGES, (1, 1), cm.asarray(A)),
        ValueError,
        "pad: mode is 'constant', .* got array",
    ),
    (lambda: cm.asarray(A).tobytes("Q"), ValueError, "tobytes: order must be one of 'C'"),
    (lambda: cm.asarray(A).tobytes(5), TypeError, "tobytes: order must be str, not int"),
    # 0, or nothing, to divide by
    (
        lambda: cm.ml.instance_norm(np.ones((2, 0))),
        ValueError,
        r"instance_norm: groups without elements, x has shape \(2, 0\)",
    ),
    (
        lambda: cm.fft.fftfreq(4, 0),
        ValueError,
        "fftfreq: d, the time between two samples, must not be 0",
    ),
    (
        lambda: cm.fft.rfftfreq(4, 0.0),
        ValueError,
        "rfftfreq: d, the time between two samples, must not be 0",
    ),
    (
        lambda: cm.ml.init.kaiming_normal((3, 3), a=1j),
        TypeError,
        "kaiming_normal: wants a as a real number, got complex 1j",
    ),
    (
        lambda: cm.ml.init.kaiming_uniform((3, 3), a="b"),
        TypeError,
        "kaiming_uniform: wants a as a real number, got str 'b'",
    ),
    # of another type
    *[
        (
            lambda name=name: getattr(cm.ml.init, name)((3, 3), rng="abc"),
            TypeError,
            f"{name}: wants rng as a cm.random.Generator",
        )
        for name in (
            "kaiming_normal",
            "kaiming_uniform",
            "xavier_normal",
            "xavier_uniform",
            "normal",
            "uniform",
            "orthogonal",
            "trunc_normal",
        )
    ],
    (
        lambda: cm.cuda.set_cache_size(THING),
        TypeError,
        "set_cache_size: wants a size such as '2GB'",
    ),
    (
        lambda: cm.cuda.configure_pool(cache=THING),
        TypeError,
        "configure_pool: wants a size such as '2GB'",
    ),
    (
        lambda: cm.cuda.configure_pool(initial="many"),
        ValueError,
        "configure_pool: cannot read 'many'",
    ),
    (lambda: cm.cuda.elapsed(1, 2), TypeError, "elapsed: wants two events, got int 1"),
    # axes, indices, sizes
    (lambda: cm.expand_dims(A, None), TypeError, "expand_dims: axis must be an integer, got None"),
    (
        lambda: cm.quantile(5.0, 0.5, axis=0, weights=[1.0], method="inverted_cdf"),
        ValueError,
        "quantile: axis 0 is out of",
    ),
    (
        lambda: cm.percentile(A, 5, axis=7, weights=V, method="inverted_cdf"),
        ValueError,
        "percentile: axis 7 is out of bounds",
    ),
    (lambda: cm.asarray(A)[int], IndexError, "index: only integers, .* got <class 'int'>"),
    (
        lambda: cm.asarray(A)[0, np.int64],
        IndexError,
        "index: only integers, .* got <class 'numpy.int64'>",
    ),
    (
        lambda: cm.asarray(A).__setitem__(int, 1),
        IndexError,
        "index: only integers, .* got <class 'int'>",
    ),
    (
        lambda: cm.resize(A, (2**63,)),
        ValueError,
        "resize: an array of float64 of shape .* is too large",
    ),
    # lists that are no arrays
    *[
        (
            lambda name=name, args=args: draw(name, *args),
            ValueError,
            rf"random\.{name}: wants {what} as a number or an array of",
        )
        for name, what, args in (
            ("normal", "loc", (RAGGED,)),
            ("uniform", "high", (0, RAGGED)),
            ("poisson", "lam", (RAGGED,)),
            ("binomial", "p", (3, RAGGED)),
            ("integers", "high", (0, RAGGED)),
            ("dirichlet", "alpha", (RAGGED,)),
            ("multinomial", "pvals", (3, RAGGED)),
            ("multivariate_normal", "cov", (V, RAGGED)),
            ("choice", "p", (3, 2, True, RAGGED)),
        )
    ],
    (
        lambda: cm.linalg.matrix_rank(A, RAGGED),
        ValueError,
        "matrix_rank: list cannot become an array",
    ),
    (
        lambda: cm.linalg.matrix_rank(A, rtol=RAGGED),
        ValueError,
        "matrix_rank: list cannot become an array",
    ),
    (lambda: cm.linalg.pinv(A, RAGGED), ValueError, "pinv: list cannot become an array"),
    (lambda: cm.gradient(A, RAGGED), ValueError, "gradient: list cannot become an array"),
    (
        lambda: cm.pad(A, 1, constant_values=RAGGED),
        ValueError,
        "pad: constant_values .* does not fit an array of shape",
    ),
    (
        lambda: cm.pad(A, 1, "maximum", stat_length=RAGGED),
        ValueError,
        "pad: stat_length .* does not fit an array of shape",
    ),
    # no number
    (
        lambda: cm.linalg.lstsq(A, V, "a"),
        TypeError,
        "lstsq: wants rcond as a real number, got str 'a'",
    ),
    (
        lambda: cm.polyfit(V, V, 1, rcond=[1, 2]),
        TypeError,
        r"polyfit: wants rcond as a real number, got list \[1, 2\]",
    ),
    (
        lambda: cm.linalg.matrix_rank(A, "a"),
        TypeError,
        "matrix_rank: wants tol as real numbers, got str 'a'",
    ),
    (
        lambda: cm.linalg.matrix_rank(A, 1j),
        TypeError,
        "matrix_rank: wants tol as real numbers, got complex 1j",
    ),
    (
        lambda: cm.linalg.matrix_rank(A, rtol=THING),
        TypeError,
        "matrix_rank: wants rtol as real numbers, got object",
    ),
    (lambda: cm.linalg.pinv(A, "a"), TypeError, "pinv: wants rcond as real numbers, got str 'a'"),
    (
        lambda: cm.linalg.pinv(A, rtol=1j),
        TypeError,
        "pinv: wants rtol as real numbers, got complex 1j",
    ),
    (lambda: draw("multinomial", 3, THING), TypeError, r"random\.multinomial: wants pvals as"),
    (lambda: draw("choice", 3, 2, True, "a"), ValueError, r"random\.choice: wants p as"),
    (
        lambda: draw("multivariate_normal", V[:3], cm.asarray(I * 1j)),
        TypeError,
        r"random\.multivariate_normal: wants cov as",
    ),
    (
        lambda: draw("multivariate_normal", V[:3], I, tol="a"),
        TypeError,
        r"random\.multivariate_normal: wants tol as a real",
    ),
    (
        lambda: cm.ml.scaled_dot_product_attention(A, A, A, scale="a"),
        TypeError,
        "scaled_dot_product_attention: wants scale as",
    ),
    (
        lambda: cm.ml.self_attention(np.ones((1, 4, 12)), 2, scale=V),
        TypeError,
        "self_attention: wants scale as one number",
    ),
    (
        lambda: cm.ml.huber_loss(V, V, delta="a"),
        TypeError,
        "huber_loss: wants delta as one number, got str",
    ),
    (
        lambda: cm.ml.smooth_l1_loss(V, V, beta=V),
        TypeError,
        "smooth_l1_loss: wants beta as one number, got ndarray",
    ),
    (lambda: cm.ml.pad(IMAGES, (1, 1), value="a"), TypeError, "pad: wants numbers, got str 'a'"),
    (
        lambda: cm.pad(A, 1, constant_values=V),
        ValueError,
        "pad: constant_values .* does not fit an array of shape",
    ),
    (
        lambda: cm.pad(A, 1, "linear_ramp", end_values="a"),
        TypeError,
        "pad: wants numbers, got str 'a'",
    ),
    (lambda: cm.isclose(A, A, "a"), TypeError, "isclose: wants numbers, got texts: str"),
    (
        lambda: cm.isclose(A, A, 1j),
        TypeError,
        "isclose: wants real numeric or bool tolerances, got complex128",
    ),
    (lambda: cm.allclose(A, A, atol=THING), TypeError, "allclose: wants numbers .* got object"),
    (
        lambda: cm.interp(V, V, V, period="a"),
        TypeError,
        "interp: wants the period as a real number, got str 'a'",
    ),
    (lambda: cm.gradient(A, "a"), TypeError, "gradient: wants numbers, got str 'a'"),
    (
        lambda: cm.roll(A, [cm.asarray(V), 1], (0, 1)),
        TypeError,
        "roll: shifts must be integers, got",
    ),
    (lambda: cm.roll(A, float("nan"), 0), TypeError, "roll: shifts must be integers, got nan"),
    (lambda: cm.unwrap(V, "a"), TypeError, "unwrap: wants discont as a real number, got str 'a'"),
    (
        lambda: cm.unwrap(V, period=THING),
        TypeError,
        "unwrap: wants period as a real number, got object",
    ),
    (lambda: cm.trapezoid(A, dx="a"), TypeError, "trapezoid: wants numbers, got texts: str"),
    # what a part of the function says
    (lambda: cm.linalg.norm(A, [2]), ValueError, "norm: wants ord 'fro'"),
    (
        lambda: cm.trapezoid(A, dx=[1, 2, 3]),
        ValueError,
        r"trapezoid: shapes \(4, 4\) and \(3,\) cannot be broadcast",
    ),
    (
        lambda: cm.unwrap(V, period=np.ones(7)),
        ValueError,
        r"unwrap: shapes \(3,\) and \(7,\) cannot be broadcast",
    ),
    (lambda: cm.diag(A, 1.5), TypeError, "diag: k must be an integer, got 1.5"),
    (
        lambda: cm.tril_indices_from(A, 1.5),
        TypeError,
        "tril_indices_from: k must be an integer, got 1.5",
    ),
    (
        lambda: cm.triu_indices_from(A, "a"),
        TypeError,
        "triu_indices_from: k must be an integer, got 'a'",
    ),
    (
        lambda: cm.searchsorted(cm.asarray(V, device="cpu"), 2.0, sorter=[0, 1, 2, 9]),
        IndexError,
        "searchsorted: index 9",
    ),
    (
        lambda: cm.poly(cm.asarray(NAN, device="cpu")),
        np.linalg.LinAlgError,
        "poly: Array must not contain infs or NaNs",
    ),
    (
        lambda: cm.roots(cm.asarray(NAN[0], device="cpu")),
        np.linalg.LinAlgError,
        "roots: Array must not contain infs or NaNs",
    ),
    # methods by their own names
    (
        lambda: cm.asarray(A).sort(falling=True),
        TypeError,
        r"ndarray\.sort\(\) got an unexpected keyword",
    ),
    (
        lambda: cm.asarray(A).partition(1, descending=True),
        TypeError,
        r"ndarray\.partition\(\) got an unexpected keyword",
    ),
    (
        lambda: cm.asarray(A).compress([1], where=1),
        TypeError,
        r"ndarray\.compress\(\) got an unexpected keyword",
    ),
    (
        lambda: cm.asarray(A).transpose(axes=None),
        TypeError,
        r"ndarray\.transpose\(\) got an unexpected keyword",
    ),
    (
        lambda: cm.asarray(A).__setitem__(1),
        TypeError,
        r"ndarray\.__setitem__\(\) missing 1 required",
    ),
]


@pytest.mark.parametrize("call, error, words", CALLS)
def test_errors_are_named(device, call, error, words):
    with pytest.raises(error, match=f"^{words}"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda m, two: m.linalg.norm(m.asarray(A), two, 0),
        lambda m, two: m.linalg.norm(m.asarray(A), two),
        lambda m, two: m.fft.ihfft(m.asarray(V), 3, two - 2),
    ],
)
def test_arrays_of_one_number_are_numbers(device, call):
    np.testing.assert_allclose(np.asarray(call(cm, cm.asarray(TWO))), call(np, TWO), rtol=1e-12)


def test_more_arrays_of_one_number(device):
    two = cm.asarray(TWO)
    assert cm.fft.fftn(cm.asarray(A), two).shape == (4, 2)
    assert (
        cm.ml.upsample(IMAGES, scale_factor=two).shape
        == cm.ml.upsample(IMAGES, scale_factor=TWO).shape
        == (1, 2, 8, 8)
    )
    assert cm.ml.huber_loss(V, V + 1, delta=two).item() == 0.5
    x = cm.asarray(IMAGES)
    np.testing.assert_array_equal(
        np.asarray(cm.ml.scaled_dot_product_attention(x, x, x, scale=two)), IMAGES
    )


@pytest.mark.parametrize("axis", [0, 1])
def test_distinct_complex_rows(device, axis):
    x = np.asarray([[1 + 2j, 0, 1 + 2j], [1 + 1j, 5, 1 + 1j], [1 + 2j, 0, 1 + 2j], [0, 1j, 0]])
    for mine, theirs in zip(
        cm.unique(cm.asarray(x), True, True, True, axis=axis),
        np.unique(x, True, True, True, axis=axis),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(mine), theirs)


def test_the_order_of_contractions_may_be_none(device):
    np.testing.assert_allclose(
        np.asarray(cm.einsum("ij,kj,kl->il", A, A, A, optimize=None)), A @ A.T @ A
    )


def test_sorters_go_where_their_array_is(monkeypatch):
    """A list went to the default device, a GPU, and met an array in host memory."""
    with installed(monkeypatch), cm.device("cuda"):
        x = cm.asarray(V[::-1].copy(), device="cpu")
        assert cm.searchsorted(x, 2.0, sorter=[3, 2, 1, 0]).item() == np.searchsorted(V, 2.0)


def deep(leaf):
    """20,000 lists around something."""
    for _ in range(20_000):
        leaf = [leaf]
    return leaf


def endless():
    tree = []
    tree.append(tree)
    return tree


TREES = {
    "grad": lambda x: cm.grad(lambda p: 1.0 * cm.ones(()))(x),
    "value_and_grad": lambda x: cm.value_and_grad(lambda p: 1.0 * cm.ones(()))(x),
    "vjp": lambda x: cm.vjp(lambda p: cm.ones(()), x),
    "jvp": lambda x: cm.jvp(lambda p: cm.ones(()), (x,), (x,)),
    "stop_gradient": cm.stop_gradient,
    "custom_vjp": lambda x: cm.custom_vjp(lambda p: cm.ones(()))(x),
    "adam_init": cm.ml.adam_init,
    "sgd_init": cm.ml.sgd_init,
    "clip_grad_norm": lambda x: cm.ml.clip_grad_norm(x, 1.0),
    "cast": lambda x: cm.ml.amp.cast(x, "float16"),
    "batches": lambda x: cm.data.batches(x, 2),
    "share": cm.distributed.share,
    "save": lambda x: cm.save("never.safetensors", x),
    "f": lambda x: cm.fuse(f)(x),
    "jit": lambda x: cm.jit(f)(x),
    "scan": lambda x: cm.scan(lambda c, i: (c, i), x, cm.ones(2)),
    "graph": lambda x: cm.cuda.graph(f)(x),
    # what the user's function returns
    "vjp of results": lambda x: cm.vjp(lambda p: x, cm.ones(())),
    "jvp of results": lambda x: cm.jvp(lambda p: x, (cm.ones(()),), (cm.ones(()),)),
    "checkpoint of results": lambda x: cm.checkpoint(lambda p: x)(cm.ones(())),
    "f of results": lambda x: cm.fuse(named(lambda p: x))(cm.ones(())),
    "jit of results": lambda x: cm.jit(lambda p: x)(cm.ones(())),
    "graph of results": lambda x: replayed(lambda p: x),
    "custom_vjp of results": lambda x: cm.grad(custom(lambda p: (x, p), None))(cm.ones(())),
    "custom_vjp of residuals": lambda x: cm.grad(custom(lambda p: (p, x), None))(cm.ones(())),
    "custom_vjp of gradients": lambda x: cm.grad(custom(lambda p: (p * 1, p), lambda p, g: (x,)))(
        cm.ones(())
    ),
}


def f(tree):
    return cm.ones(())


def named(function):
    function.__name__ = "f"
    return function


def replayed(function):
    step = cm.cuda.graph(function)
    for _ in range(3):
        step(cm.ones(()))


def custom(forward, backward):
    function = cm.custom_vjp(lambda p: p * 1)
    function.defvjp(forward, backward or (lambda p, g: (g,)))
    return function


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("tree", [lambda: deep(cm.ones(2)), endless], ids=["deep", "endless"])
def test_trees_nested_too_deeply(name, tree):
    """And not Python's RecursionError, without a name."""
    function, _, _ = name.partition(" of ")
    with pytest.raises(ValueError, match=f"^{function}: (the tree|a list) is nested too deeply"):
        TREES[name](tree())


@pytest.mark.parametrize("name", ["asarray", "array", "add", "stack", "zeros_like"])
@pytest.mark.parametrize(
    "items",
    [lambda: deep(1.0), lambda: deep(cm.ones(2)), endless],
    ids=["deep", "arrays", "endless"],
)
def test_lists_nested_too_deeply(name, items):
    arguments = (items(), 1) if name == "add" else (items(),)
    with pytest.raises(ValueError, match=f"^{name}: "):
        getattr(cm, name)(*arguments)
