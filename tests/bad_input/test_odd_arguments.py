"""What a stranger tries: arguments nobody meant, beside what NumPy makes of them. No answer may be
wrong without a word."""

import pickle
from contextlib import nullcontext

import numpy as np
import pytest

import cudamath as cm

A, V, F = (
    np.random.default_rng(0).normal(size=(4, 5)),
    np.arange(10),
    np.random.default_rng(1).normal(size=10),
)


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.sum(x, True),
        lambda m, x: m.max(x, axis=False),
        lambda m, x: m.cumsum(x, True),
        lambda m, x: m.mean(x, axis=(0, True)),
        lambda m, x: m.argmax(x, True),
    ],
)
def test_a_bool_is_no_axis(device, call):
    with pytest.raises(TypeError):
        call(np, A)
    with pytest.raises(
        TypeError,
        match=r"^\w+: axis must be an integer, got (True|False) for an array of 2 dimensions",
    ):
        call(cm, cm.asarray(A))


def test_differences_taken_more_often_than_there_are_numbers(device):
    assert cm.diff(cm.asarray(A), 10**30, 0).shape == (0, 5)  # and it comes to an end
    x = cm.asarray([[1.0, 2.0], [3.0, 5.0]])
    np.testing.assert_array_equal(
        np.asarray(cm.ml.group_norm(x, np.int64(2))), np.asarray(cm.ml.group_norm(x, 2))
    )


def test_contains(device):
    x = cm.asarray(V)
    assert 3 in x and 11 not in x and None not in x and "a" not in x


@pytest.mark.parametrize(
    "into, value, error",
    [
        ("i8", 1.5, TypeError),
        ("f8", 1j, TypeError),
        ("?", 5, TypeError),
        ("i8", 7, None),
        ("i8", True, None),
        ("u1", 5, None),
        ("f4", 2.5, None),
        ("f8", 3, None),
        ("c8", 1.5, None),
        ("?", True, None),
    ],
)
def test_copyto_loses_nothing(device, into, value, error):
    mine, theirs = cm.zeros(3, dtype=into), np.zeros(3, into)
    if error is None:
        (
            cm.copyto(mine, value, where=[True, False, True]),
            np.copyto(theirs, value, where=[True, False, True]),
        )
    else:
        for where in (True, [True, False, True]):
            with pytest.raises(error, match="^copyto: .* cannot become .* of shape"):
                cm.copyto(mine, value, where=where)
        with pytest.raises(error):
            np.copyto(theirs, value)
        if value != 1j:
            cm.copyto(mine, value, "unsafe"), np.copyto(theirs, value, "unsafe")
    assert np.array_equal(np.asarray(mine), theirs)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: cm.round(F, 2.5),
            TypeError,
            r"round: decimals must be an integer, got 2\.5 for float64 of shape \(10,\)",
        ),
        (lambda: cm.arange("a"), TypeError, "arange: wants numbers, got str 'a'"),
        (
            lambda: cm.arange(3 + 3j, dtype="f4"),
            TypeError,
            "arange: complex numbers do not fit into float32",
        ),
        (lambda: cm.arange(0, None, [3]), TypeError, "arange: wants numbers, got list"),
        (
            lambda: cm.bincount([1], minlength=2.5),
            TypeError,
            "bincount: minlength must be an integer, got 2.5",
        ),
        (
            lambda: cm.var(V, dtype=int),
            TypeError,
            r"var: wants a floating-point or complex dtype, got int64 for int64 of",
        ),
        (lambda: cm.std(F, dtype="u1"), TypeError, "std: wants a floating-point"),
        (lambda: cm.nanvar(F, dtype=int), TypeError, "nanvar: wants a floating-point"),
        (lambda: cm.nanstd(F, dtype=int), TypeError, "nanstd: wants a floating-point"),
        (lambda: cm.nanmean(F, dtype=int), TypeError, "nanmean: wants a floating-point"),
        (
            lambda: cm.where(V > 3, V.astype("u1"), 300),
            OverflowError,
            "where: 300 as uint8: Python integer 300 out of bounds",
        ),
        (
            lambda: cm.where(V > 3, "a", 2),
            TypeError,
            "where: wants numbers, got texts: str",
        ),
        (
            lambda: cm.sum(A, where=np.ones(3, bool)),
            ValueError,
            r"sum: shapes \(3,\) and \(4, 5\) cannot be broadcast",
        ),
        (
            lambda: cm.vecmat(np.ones((2, 3)), np.ones((4, 3, 5))),
            ValueError,
            r"vecmat: the .* shapes \(2, 3\) and \(4, 3, 5\)",
        ),
        (
            lambda: cm.matvec(np.ones((4, 5, 3)), np.ones((2, 3))),
            ValueError,
            r"matvec: the .* shapes \(4, 5, 3\) and \(2, 3\)",
        ),
        (lambda: cm.isclose(V[:3], F), ValueError, r"isclose: shapes \(3,\) and \(10,\)"),
        (
            lambda: cm.ml.group_norm(np.ones((2, 4)), [2]),
            TypeError,
            r"group_norm: num_groups must be an integer, got \[2\]",
        ),
        (
            lambda: [cm.ml.group_norm(cm.asarray(A), n) for n in (1, 1.0)],
            TypeError,
            "group_norm: num_groups must be an integer",
        ),
        (
            lambda: float(cm.ml.one_hot([-1, -2])[0, 0]),
            IndexError,
            "one_hot: (index -[12] at|an index is out of range)",
        ),
        (
            lambda: cm.mean(A, where=np.ones(3, bool)),
            ValueError,
            r"mean: shapes \(3,\) and \(4, 5\)",
        ),
        (
            lambda: cm.sum(V, where=np.ones((3, 10), bool)),
            ValueError,
            r"sum: where of shape \(3, 10\) does not fit an array of",
        ),
    ],
)
def test_errors(device, call, error, words):
    with pytest.raises(error, match=f"^{words}"):
        call()


#: Half a number where there must be a whole one: (name, the call, the argument).
HALVES = [
    ("tril", lambda: cm.tril(A, 0.5), "k"),
    ("tri", lambda: cm.tri(3, 3, 0.5), "k"),
    ("eye", lambda: cm.eye(3, k=0.5), "k"),
    ("array", lambda: cm.array([1], ndmin=1.5), "ndmin"),
    ("diag_indices", lambda: cm.diag_indices(3, 1.5), "ndim"),
    ("tensordot", lambda: cm.tensordot(A, A, 1.5), "axes"),
    ("transpose", lambda: cm.asarray(A).transpose(0.5, 1), "an axis"),
    ("trace", lambda: cm.trace(A, 0.5), "offset"),
    ("trace", lambda: cm.linalg.trace(A, offset=0.5), "offset"),
    ("diff", lambda: cm.diff(F, n=1.5), "n"),
    ("unpackbits", lambda: cm.unpackbits(np.ones(3, "u1"), count=1.5), "count"),
    ("polyder", lambda: cm.polyder(F, 1.5), "m"),
    ("polyint", lambda: cm.polyint(F, 1.5), "m"),
    ("vander", lambda: cm.vander(F, 2.5), "N"),
    ("geomspace", lambda: cm.geomspace(1, 2, 2.5), "num"),
    ("linspace", lambda: cm.linspace(1, 2, 2.5), "num"),
    ("partition", lambda: cm.partition(F, [1, 1.5]), "kth"),
    ("topk", lambda: cm.topk(F, 1.5), "k"),
    ("histogram", lambda: cm.histogram(F, 2.5), "bins"),
    ("matrix_power", lambda: cm.linalg.matrix_power(np.eye(3), 1.5), "exponent"),
    ("random.integers", lambda: cm.random.default_rng(1).integers(0.5, 3), "low"),
    ("one_hot", lambda: cm.ml.one_hot([1], 2.5), "num_classes"),
    ("embedding", lambda: cm.ml.embedding([0], A, classes=2.5), "classes"),
    ("embedding", lambda: cm.ml.embedding([0], A, padding_idx=0.5), "padding_idx"),
    ("cross_entropy", lambda: cm.ml.cross_entropy(A, [0] * 4, ignore_index=0.5), "ignore_index"),
    ("nll_loss", lambda: cm.ml.nll_loss(A, [0] * 4, ignore_index=0.5), "ignore_index"),
    (
        "linear_cross_entropy",
        lambda: cm.ml.linear_cross_entropy(A, A, [0] * 4, ignore_index=0.5),
        "ignore_index",
    ),
    (
        "linear_cross_entropy",
        lambda: cm.ml.linear_cross_entropy(A, A, [0] * 4, classes=0.5),
        "classes",
    ),
    ("linear_cross_entropy", lambda: cm.ml.linear_cross_entropy(A, A, [0] * 4, rows=0.5), "rows"),
]


@pytest.mark.parametrize("name, call, what", HALVES)
def test_half_numbers(device, name, call, what):
    with pytest.raises(TypeError, match=rf"^{name}: {what} must be an integer, got \d\.5"):
        call()


@pytest.mark.parametrize(
    "name, call, least",
    [
        ("diff", lambda: cm.diff(F, n=-1), 0),
        ("polyder", lambda: cm.polyder(F, -1), 0),
        ("linspace", lambda: cm.linspace(0, 1, -1), 0),
        ("geomspace", lambda: cm.geomspace(1, 2, -1), 0),
        ("vander", lambda: cm.vander(F, -1), 0),
        ("bincount", lambda: cm.bincount([1], minlength=-1), 0),
        ("histogram", lambda: cm.histogram(F, 0), 1),
        ("one_hot", lambda: cm.ml.one_hot([0], 0), 1),
        ("linear_cross_entropy", lambda: cm.ml.linear_cross_entropy(A, A, [0] * 4, rows=0), 1),
    ],
)
def test_too_few(device, name, call, least):
    with pytest.raises(
        ValueError, match=rf"^{name}: \w+ must be at least {least}, got {least - 1}$"
    ):
        call()


def test_a_trace_has_two_axes(device):
    with pytest.raises(ValueError, match=r"^trace: wants at least 2 dimensions, got shape \(10,\)"):
        cm.trace(F)
    with pytest.raises(ValueError, match="^trace: axis 2 is out of bounds"):
        cm.trace(A, axis1=2)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("n", [-1, 0, -3])
def test_a_transform_has_a_length(device, name, n):
    for module, words in ((np, "Invalid number"), (cm, f"{name}: Invalid number")):
        with pytest.raises(ValueError, match=rf"^{words} of FFT data points \({n}\)"):
            getattr(module.fft, name)(module.asarray(F), n)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.fft.irfftn(m.asarray(A), s=(-1, -1), axes=(0, 1)),
        lambda m: m.fft.irfft2(m.asarray(A), s=(3, -1)),
        lambda m: m.fft.fftn(m.asarray(A), s=(-1, 7), axes=(0, 1)),
        lambda m: m.fft.irfft2(m.asarray(A)),
        lambda m: m.mean(m.asarray(V), dtype=int),
        lambda m: m.mean(m.asarray(A * 9), dtype="i4", axis=0, keepdims=True),
        lambda m: m.cov(m.asarray(A), ddof=9),
        lambda m: m.cov(m.asarray(A), ddof=5),
        lambda m: m.cov(m.asarray(A), ddof=9, aweights=m.asarray([1.0, 2, 3, 4, 5])),
        lambda m: m.cov(m.asarray(A[:, :1])),
        lambda m: m.round(m.asarray(F), np.int64(2)),
        lambda m: m.sum(m.asarray(A), where=m.asarray(A[:1] > 0), axis=0),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_numpy(device, call):
    mine, theirs = np.asarray(call(cm)), call(np)
    assert mine.dtype == theirs.dtype
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


X = np.random.default_rng(2).normal(size=(2, 3, 8, 8)).astype(np.float32)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: cm.ml.adaptive_max_pool2d(X, 2.5),
            ValueError,
            "adaptive_max_pool2d: wants output_size",
        ),
        (
            lambda: cm.ml.adaptive_avg_pool3d(X[:, :, None], 2.5),
            ValueError,
            "adaptive_avg_pool3d: wants output_size",
        ),
        (
            lambda: cm.ml.layer_norm(X, 8.0),
            TypeError,
            "layer_norm: normalized_shape must be an integer or a sequence of integers, got 8.0",
        ),
        (
            lambda: cm.ml.layer_norm(X, 8, eps="a"),
            TypeError,
            "layer_norm: wants eps as one number, got str",
        ),
        (
            lambda: cm.ml.rms_norm(X, 8, eps="a"),
            TypeError,
            "rms_norm: wants eps as one number, got str",
        ),
        (
            lambda: cm.ml.group_norm(X, 3, eps=None),
            TypeError,
            "group_norm: wants eps as one number, got NoneType",
        ),
        (
            lambda: cm.ml.batch_norm(
                X, cm.zeros(3, dtype="f4"), cm.ones(3, dtype="f4"), momentum=None, training=True
            ),
            TypeError,
            "batch_norm: wants momentum as one number, got NoneType",
        ),
        (
            lambda: cm.ml.adam_update(
                [cm.ones(3)], [cm.ones(3)], cm.ml.adam_init([cm.ones(3)]), betas=0.9
            ),
            ValueError,
            "adam_update: wants two betas in",
        ),
        (
            lambda: cm.ml.amp.computing_in("bfloat16")(3),
            TypeError,
            "computing_in: wants a function, got int 3",
        ),
        (
            lambda: cm.data.batches(np.ma.masked_array(F, F > 0), 2),
            TypeError,
            "batches: a mask would be lost of float64 of shape",
        ),
        (
            lambda: cm.data.batches(np.array(["a", "b"]), 2),
            TypeError,
            "batches: arrays of <U1 are not supported, got shape",
        ),
    ],
)
def test_layers_and_loaders_say_what_they_want(device, call, error, words):
    with pytest.raises(error, match=f"^{words}"):
        call()


def test_files(device, tmp_path):
    """Masks are not lost; folders and files of half a token are said to be that; nothing is left
    beside them."""
    masked, path = np.ma.masked_array([1.0, 2.0], [0, 1]), tmp_path / "x.safetensors"
    for save in (
        lambda: cm.save(path, {"a": masked}),
        lambda: cm.save(tmp_path / "x.npy", masked),
        lambda: cm.savez(tmp_path / "x.npz", masked),
    ):
        with pytest.raises(
            TypeError,
            match=r"^savez?: a mask would be lost of float64 of shape \(2,\).*x.filled\(value\)",
        ):
            save()
    for call in (
        lambda: cm.save(tmp_path, {}),
        lambda: cm.load(tmp_path),
        lambda: cm.load_metadata(tmp_path),
    ):
        with pytest.raises(IsADirectoryError, match="^(save|load): .* is a folder"):
            call()
    for content in (b"", b"abc"):
        (tmp_path / "tokens").write_bytes(content)
        with pytest.raises(
            ValueError,
            match=f"^tokens: wants a file of whole tokens of uint16, got {len(content)} bytes of",
        ):
            cm.data.tokens(tmp_path / "tokens", 1)
    assert [file.name for file in tmp_path.iterdir()] == ["tokens"]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("dtype", [">f4", ">i8", ">c16", ">f2"])
def test_batches_of_the_other_byte_order(device, dtype, shuffle):
    rows = np.arange(12).reshape(6, 2).astype(dtype)
    found = list(cm.data.batches(rows, 4, shuffle=shuffle, seed=1))
    assert all(x.dtype == rows.dtype.newbyteorder("=") and x.dtype.isnative for x in found)
    together = np.concatenate([np.asarray(x) for x in found])
    assert np.array_equal(together[np.argsort(together[:, 0].real)], rows)
    assert np.array_equal((found[0] + 1).to_numpy(), np.asarray(found[0]) + 1)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: cm.elementwise(f),
        lambda f: cm.elementwise(lambda x: x, gradients=[f]),
        lambda f: cm.reduction(f, 0.0),
        lambda f: cm.reduction(max, 0.0, each=f),
    ],
)
@pytest.mark.parametrize("function", [lambda *a: a[0], lambda x, *a: x, lambda x, **more: x])
def test_scalar_functions_have_so_many_parameters(call, function):
    """Numba's ufunc of a function of *args ended the process."""
    with pytest.raises(
        TypeError,
        match=r"^(elementwise|reduction): wants .* a fixed number of parameters, got \*\*?\w+ of",
    ):
        call(function)


def test_a_ufunc_is_no_scalar_function(device):
    with pytest.raises(
        TypeError, match="^elementwise: wants a function of scalars, got NumPy's sin, one of arrays"
    ):
        cm.elementwise(np.sin)
    np.testing.assert_allclose(
        np.asarray(cm.elementwise(lambda x: np.sin(x))(cm.asarray(F))), np.sin(F), rtol=1e-12
    )


def test_prompts(device):
    from cudamath.models import gpt2, sampling

    config = gpt2.Config(vocabulary=9, context=8, layers=1, heads=2, width=16)
    params = gpt2.create(config, rng=cm.random.default_rng(0))
    for prompt, count, error, words in (
        (
            [1, 2],
            3,
            ValueError,
            r"a prompt \(rows, n\) of integers, at least one a row, got int64 of shape \(2,\)",
        ),
        ([[1.5]], 3, TypeError, "a prompt .* got float64"),
        ([[]], 3, TypeError, "a prompt"),
        ([[1]], 0, ValueError, "count"),
        ([[1]], 2.0, ValueError, "count"),
        (np.zeros((2, 0), int), 1, ValueError, "a prompt"),
    ):
        with pytest.raises(error, match=f"^generate: wants {words}"):
            sampling.generate(params, prompt, count, config)
    with pytest.raises(
        TypeError, match=r"^feed: wants tokens as integers, got float64 of shape \(1, 1\)"
    ):
        sampling.Writer(params, config).feed([[1.0]])
    assert sampling.generate(params, [[1, 2]], 3, config, temperature=0.0).shape == (1, 3)


def test_parameters_that_share_memory(device):
    """A kernel would step what they share twice at the same time; one array twice, also where such
    trees have been seen."""
    whole, other = cm.zeros(7, dtype="f4"), cm.zeros(5, dtype="f4")
    for params in ([whole[:5], whole[2:]], [whole[2:], whole[:5]]):
        with pytest.raises(
            ValueError,
            match=r"^sgd_update: wants every parameter once .* same memory at \[0\] and \[1\]",
        ):
            cm.ml.sgd_update(params, [other, other], lr=0.1)
    cm.ml.sgd_update([whole[:2], whole[2:4]], [other[:2], other[2:4]], lr=0.1)
    a, b = cm.zeros(5, dtype="f4"), cm.zeros(5, dtype="f4")
    cm.ml.sgd_update([a, b], [other, other], lr=0.1)
    with pytest.raises(ValueError, match="^sgd_update: wants every parameter once"):
        cm.ml.sgd_update([a, a], [other, other], lr=0.1)


@pytest.mark.parametrize(
    "name, by_hand",
    [
        ("add", lambda x: [x[0] + x[1] + x[2], x[3], x[1] + x[2] + x[3]]),
        ("multiply", lambda x: [x[0] * x[1] * x[2], x[3], x[1] * x[2] * x[3]]),
        ("maximum", lambda x: [max(x[:3]), x[3], max(x[1:])]),
    ],
)
def test_gradient_of_reduceat(device, name, by_hand):
    x, weights = A[:, 0], np.array([1.0, -2.0, 0.5])
    mine = cm.grad(
        lambda x: (getattr(cm, name).reduceat(x, [0, 3, 1]) * cm.asarray(weights)).sum()
    )(cm.asarray(x))
    steps = 1e-6 * np.eye(4)
    theirs = [
        (np.dot(weights, by_hand(x + h)) - np.dot(weights, by_hand(x - h))) / 2e-6 for h in steps
    ]
    np.testing.assert_allclose(np.asarray(mine), theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "x",
    [
        np.arange(2000),
        np.zeros((30, 40), np.float32),
        np.zeros((0, 3)),
        np.zeros(0),
        np.arange(1000),
    ],
)
def test_repr(x):
    """As NumPy's, which says the shape where the numbers do not show it, and the device; NumPy may
    break the line before that."""
    with cm.device("cpu"):
        mine = repr(cm.asarray(x))
    assert mine.endswith(", device='cpu')")
    mine = mine.replace(", device='cpu'", "")
    assert mine.replace("\n", "").replace(" ", "") == repr(x).replace("\n", "").replace(" ", "")


@pytest.mark.parametrize("shape", [(), (0,), (6,), (3, 0), (4, 5), (2, 3, 4)])
@pytest.mark.parametrize(
    "more", [{}, {"trim": "f"}, {"trim": "B"}, {"axis": 0}, {"axis": (0, -1)}], ids=str
)
def test_trim_zeros(device, shape, more):
    x = np.zeros(shape)
    for fill in (lambda: None, lambda: x[tuple(slice(1, n - 1) for n in shape)].fill(7)):
        fill()
        if "axis" in more and not shape or more.get("axis") == (0, -1) and len(shape) < 2:
            with pytest.raises(ValueError, match="^trim_zeros: "):
                cm.trim_zeros(cm.asarray(x), **more)
        else:
            assert np.array_equal(
                np.asarray(cm.trim_zeros(cm.asarray(x), **more)), np.trim_zeros(x, **more)
            )
    with pytest.raises(ValueError, match="^trim_zeros: trim is"):
        cm.trim_zeros(cm.asarray(x), "x")


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "prod", "any", "all"])
def test_masks_of_numbers_are_asked_whether_they_are_0(device, name):
    """A mean was divided by their sum."""
    mask = np.array([[2], [0], [-1], [7]])
    for axis in (None, 0, 1):
        got = np.asarray(getattr(cm, name)(cm.asarray(A), axis=axis, where=cm.asarray(mask)))
        kept = mask != 0
        with (
            np.errstate(all="ignore"),
            pytest.warns() if axis == 1 and name in ("mean", "var", "std") else nullcontext(),
        ):
            np.testing.assert_allclose(got, getattr(np, name)(A, axis=axis, where=kept), rtol=1e-13)


@pytest.mark.parametrize("first", [np.float64(1.0), np.int64(1), np.bool_(True), 1, True])
def test_numbers_are_no_dtypes(first):
    """They are equal and find one another's dtype in a dict: zeros(2, dtype=1) was what it last was
    for another one."""
    for dtype in (first, np.float64(1.0), np.int64(1), 1, True):
        with pytest.raises(TypeError, match="^zeros: .* is not a dtype"):
            cm.zeros(2, dtype=dtype)
    with pytest.raises(TypeError, match="^(sum|astype): .* is not a dtype"):
        cm.sum(cm.asarray(F), dtype=first)


@pytest.mark.parametrize(
    "dtype, kappa", [("f8", 1e12), ("f8", 1e200), ("f8", 1.7e308), ("f4", 1e20), ("f4", 3e38)]
)
def test_directions_of_any_concentration(device, dtype, kappa):
    """kappa^2 overflowed, and no direction was ever accepted. Then they are normal, of variance 1 /
    kappa."""
    x = (
        cm.random.default_rng(5)
        .vonmises(0.0, cm.full(20_000, kappa, dtype), dtype=dtype)
        .to_numpy()
        .astype("f8")
    )
    scale = np.sqrt(
        min(kappa, float(np.finfo(dtype).max) / 16)
    )  # beyond, directions differ by less than anything
    assert abs((x * scale).std() - 1) < 0.02 and abs((x * scale).mean()) < 0.03


def test_conditions_on_rows(device):
    for rows in (np.array([True, False, True, False]), A > 0):
        got = np.asarray(cm.piecewise(cm.asarray(A), [rows], [lambda v: -v, 2.0]))
        np.testing.assert_array_equal(got, np.piecewise(A, [rows], [lambda v: -v, 2.0]))


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.partition(x, 1, kind="stable"),
        lambda m, x: m.argpartition(x, 1, kind=None),
        lambda m, x: m.isin(x, x, kind="hash"),
        lambda m, x: m.cov(x, dtype=int),
    ],
)
def test_options_that_are_none(device, call):
    with pytest.raises((TypeError, ValueError)):
        call(np, A)
    with pytest.raises(
        (TypeError, ValueError),
        match=r"^(argpartition|partition|isin|cov): (kind must|wants a floating)",
    ):
        call(cm, cm.asarray(A))


def test_broadcasting_beside_what_is_no_number(device):
    """What matplotlib's bars do with their heights."""
    x, names = cm.asarray(F), ["a"] * 10
    heights, none, words, row = np.broadcast_arrays(x[:, None], None, names, 2.0, subok=True)
    assert type(heights) is type(
        row
    ) is cm.ndarray and heights.shape == row.shape == none.shape == words.shape == (10, 10)
    np.testing.assert_array_equal(np.asarray(heights), np.broadcast_to(F[:, None], (10, 10)))
    assert none.dtype == object and words[3].tolist() == names
    with pytest.raises(ValueError, match="broadcast"):
        np.broadcast_arrays(x, names[:3])


@pytest.mark.parametrize("name", ["normal", "randint", "seed", "permutation"])
def test_functions_of_the_modules_generator_go_to_other_processes(name):
    function = getattr(cm.random, name)
    assert pickle.loads(pickle.dumps(function)) is function
    with pytest.raises(TypeError, match=rf"^{name}\(\) takes"):
        function(1, 2, 3, 4, 5, 6, 7, 8)


class Column:
    """As pandas' Series: an array by `__array__`, without `reshape`."""

    def __init__(self, values):
        self.values, self.dtype = values, values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values


@pytest.mark.parametrize("wrap", [Column, lambda a: pytest.importorskip("torch").from_numpy(a)])
def test_indices_of_other_libraries(device, wrap):
    x, places, mask, table = cm.asarray(A), np.array([0, 2]), A > 0, cm.asarray(A.copy())
    for mine, theirs in (
        (x[wrap(places)], A[places]),
        (x[:, wrap(places)], A[:, places]),
        (x[wrap(mask)], A[mask]),
        (x[1, wrap(places)], A[1, places]),
        (x[wrap(np.array(2))], A[2]),
    ):
        np.testing.assert_array_equal(np.asarray(mine), theirs)
    table[wrap(mask)] = 7
    table[wrap(places), 0] = [8, 9]
    cm.add.at(table, wrap(places), 1)
    wanted = np.where(mask, 7, A)
    wanted[places, 0] = [8, 9]
    np.add.at(wanted, places, 1)
    np.testing.assert_array_equal(np.asarray(table), wanted)
    with pytest.raises(IndexError, match="must be of integer .or boolean. type, got float64"):
        x[wrap(A[0])]
    with pytest.raises(IndexError, match="only integers"):
        x[Column]
