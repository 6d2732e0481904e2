"""One argument of a working call made wrong at a time: the error says whose it is, and nothing was
lost or changed."""

import enum
import io
import zipfile

import numpy as np
import pytest

import cudamath as cm

# -------------------- files


@pytest.mark.parametrize("save", [cm.savez, cm.savez_compressed])
def test_archives_are_written_whole_or_not_at_all(save, tmp_path):
    """Also where what cannot be saved comes last, and is only found out while the file is being
    written."""
    name, path = save.__name__, tmp_path / "a.npz"
    save(path, x=cm.ones(3))
    before = path.read_bytes()

    calls = [
        (
            lambda: save(path, cm.ones(3), lambda: 1),
            TypeError,
            "Python objects are neither written nor read, got function",
        ),
        (
            lambda: save(path, x=cm.ones(3), y={"z": cm.ones(3)}),
            TypeError,
            "Python objects .* got dict",
        ),
        (
            lambda: save(path, x=np.array([1, None])),
            TypeError,
            r"Python objects .* got ndarray \(dtype object, shape \(2,\)\)",
        ),
        (
            lambda: save(path, np.zeros(2, [("a", "f4"), ("b", object)])),
            TypeError,
            "Python objects",
        ),
        (
            lambda: save(path, [cm.ones(2, "bfloat16")]),
            TypeError,
            r"NumPy's files do not know bfloat16, got shape \(1, 2\)",
        ),
        (lambda: save(path, [[1], [1, 2]]), ValueError, "list cannot become an array"),
        (
            lambda: save(path, 1, arr_0=2),
            ValueError,
            "arr_0 is the name of an array without a keyword, and a keyword too",
        ),
        (
            lambda: save(path, 1, allow_pickle=True),
            ValueError,
            "Python objects .* allow_pickle must be False",
        ),
        (lambda: save(None, 1), TypeError, "wants a path, got NoneType None"),
    ]
    for call, error, words in calls:
        with pytest.raises(error, match=f"^{name}: {words}"):
            call()
        assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]
    save(
        tmp_path / "a", 2, y=["b", "c"], z=np.zeros(2, "M8[s]")
    )  # the name gets its ending; strings and dates are kept
    assert cm.load(path).files == ["y", "z", "arr_0"]


@pytest.mark.parametrize("save", [cm.savez, cm.savez_compressed])
def test_a_disk_that_fills_up_keeps_the_archive(save, tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    save(path, x=cm.ones(3))
    before = path.read_bytes()

    def fails(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", fails)
    with pytest.raises(OSError, match="disk full"):
        save(path, x=cm.zeros(5))
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == ["a.npz"]


def test_damaged_archives_are_said_to_be_that(tmp_path):
    """zlib, tokenize and zipfile have errors of their own; NumPy gives bytes for what is no
    array."""
    path = tmp_path / "a"
    cm.savez_compressed(path.with_suffix(".npz"), x=np.arange(1000))
    data = bytearray(path.with_suffix(".npz").read_bytes())
    data[60] ^= 255
    buffer = io.BytesIO()
    cm.save(buffer, cm.ones(3))
    for content in (data, buffer.getvalue().replace(b"(3,), }", b"(3,), (")):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"^load: {path}: "):
            cm.load(path)
    for held in (b"hello", b""):
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("x.npy", held)
        with pytest.raises(ValueError, match=f"^load: {path}: 'x' in it is no array"):
            cm.load(path)


def test_paths_and_metadata_that_are_none(tmp_path):
    path = tmp_path / "a"
    for wrong in (None, 1.5, [1], io.StringIO("text")):
        calls = [cm.load, cm.load_metadata] + [lambda path: cm.save(path, cm.ones(1))] * (
            not hasattr(wrong, "write")
        )
        for call in calls:
            with pytest.raises(
                TypeError, match=rf"^(load|save): wants a path, got {type(wrong).__name__}"
            ):
                call(wrong)
    for wrong in (3, "ab"):
        with pytest.raises(TypeError, match="^save: wants metadata as a mapping of strings, got"):
            cm.save(path, cm.ones(1), metadata=wrong)
    for call in (
        lambda: cm.save(path, {"\ud800": cm.ones(1)}),
        lambda: cm.save(path, 1, metadata={"a": "\ud800"}),
    ):
        with pytest.raises(ValueError, match="^save: wants names and metadata that UTF-8 can hold"):
            call()
    with (
        pytest.raises(TypeError, match="^save: Python objects are neither written nor read"),
        open(path, "wb") as file,
    ):
        cm.save(file, np.array([None]))
    name = str(path).encode() + b".npy"  # paths may be bytes
    cm.save(name, cm.ones(2))
    assert cm.load(name).tolist() == [1, 1]


# -------------------- optimizers


OPTIMIZERS = {
    "sgd_update": lambda p: (),
    "adam_update": lambda p: (cm.ml.adam_init(p),),
    "adamw_update": lambda p: ({**cm.ml.adam_init(p), "step": 3},),
    **dict.fromkeys(
        ["adagrad_update", "lion_update", "rmsprop_update"], lambda p: (cm.ml.sgd_init(p),)
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"decay": [3]},
        {"decay": {"a": True}},
        {"factor": "a"},
        {"factor": [1.0, 2.0]},
        {"copies": [1.0]},
        {"copies": [np.ones(2)]},
        {"lr": "a"},
        {"lr": float("nan")},
    ],
    ids=str,
)
def test_a_step_that_is_refused_is_not_noted_as_one(device, name, wrong):
    """What may still be differentiated by the parameters stays so."""
    p, update = [cm.asarray([1.0, 2.0])], getattr(cm.ml, name)
    state = OPTIMIZERS[name](p)
    if "copies" in wrong:  # of the parameters' dtype, but other arrays
        wrong = {"copies": [cm.asarray(x) for x in wrong["copies"]]}
    _, pull = cm.vjp(lambda x: (x * x * p[0]).sum(), cm.ones(2))
    with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
        update(p, [cm.ones(2)], *state, **{"lr": 0.1, **wrong})
    assert pull(cm.asarray(1.0))[0].tolist() == [2, 4] and p[0].tolist() == [1, 2]
    update(p, [cm.ones(2)], *state, lr=0.1)
    with pytest.raises(RuntimeError, match="changed in place"):
        pull(cm.asarray(1.0))


@pytest.mark.parametrize("name", ["adam_update", "adamw_update"])
def test_steps_that_are_none(device, name):
    """Not one of them changes anything."""
    update = getattr(cm.ml, name)
    wrong = [
        *[
            (step, TypeError, f"step in state must be an integer, got {step!r}")
            for step in (None, 2.5, "1")
        ],
        (-1, ValueError, "wants a step >= 0 in state, got -1"),
    ]
    if device == "cpu":  # a GPU's arrays are not read-only, and looking there would wait
        host = np.zeros((), np.int64)
        host.flags.writeable = False
        wrong.append(
            (cm.asarray(host, copy=False), ValueError, "assignment destination is read-only: int64")
        )
        wrong.append((cm.asarray(-7), ValueError, "wants a step >= 0 in state, got -7"))
    for step, error, words in wrong:
        p = [cm.asarray([1.0, 2.0])]
        state = {**cm.ml.adam_init(p), "step": step}
        with pytest.raises(
            error, match=f"^{'adam_update' if 'got -7' in words else name}: {words}"
        ):
            update(p, [cm.ones(2)], state, lr=0.1)
        assert (
            p[0].tolist() == [1, 2] and state["m"][0].tolist() == [0, 0] and state["step"] is step
        )
    assert device != "cpu" or [int(step) for step, *_ in wrong[-2:]] == [0, -7]


# -------------------- layers

IMAGES, SEQUENCES, WEIGHT = np.ones((1, 2, 6, 6)), np.ones((1, 2, 6)), np.ones((1, 2, 3, 3))


@pytest.mark.parametrize(
    "call, error, words",
    [
        *[
            (
                lambda f=f, x=x, n=n: f(x, n),
                ValueError,
                f"{f.__name__}: wants output_size of at most 2147483647, got .?{n}",
            )
            for f, x in (
                (cm.ml.adaptive_avg_pool2d, IMAGES),
                (cm.ml.adaptive_max_pool2d, IMAGES),
                (cm.ml.adaptive_avg_pool1d, SEQUENCES),
                (cm.ml.adaptive_max_pool1d, SEQUENCES),
                (cm.ml.adaptive_avg_pool3d, IMAGES[:, :, None]),
                (cm.ml.adaptive_max_pool3d, IMAGES[:, :, None]),
            )
            for n in (2**40, 2**70)
        ],
        (
            lambda: cm.ml.max_pool2d(IMAGES, 2, stride=2**70),
            ValueError,
            "max_pool2d: wants stride of at most",
        ),
        (
            lambda: cm.ml.avg_pool1d(SEQUENCES, 2, 2**70),
            ValueError,
            "avg_pool1d: wants stride of at most",
        ),
        *[
            (
                lambda more=more: cm.ml.conv2d(IMAGES, WEIGHT, **more),
                ValueError,
                f"conv2d: wants {next(iter(more))} of at most",
            )
            for more in ({"stride": 2**70}, {"padding": 2**40}, {"dilation": (1, 2**31)})
        ],
        (
            lambda: cm.ml.conv_transpose2d(IMAGES, np.ones((2, 1, 3, 3)), stride=2**70),
            ValueError,
            "conv_transpose2d: wants stride",
        ),
        (
            lambda: cm.ml.pad(np.ones((1, 3)), 5),
            ValueError,
            r"pad: one integer is for the axes after the first two, which x \(1",
        ),
        (
            lambda: cm.ml.rotary_tables(-5, 4),
            ValueError,
            "rotary_tables: positions must be at least 0, got -5",
        ),
        *[
            (
                lambda s=s: cm.ml.cross_entropy(WEIGHT[0, 0], [0, 1, 2], label_smoothing=s),
                TypeError,
                "cross_entropy: wants label_smoothing as a real number, got",
            )
            for s in (None, "a", [0.5], 1j)
        ],
        (
            lambda: cm.ml.amp.cast({"a": np.ones(2)}, "float16", keep=3),
            TypeError,
            "cast: wants a function of an array as keep",
        ),
        (
            lambda: cm.ml.amp.unscale([cm.ones(1)], cm.ml.amp.loss_scale(), growth=None),
            TypeError,
            "unscale: wants growth",
        ),
        *[
            (lambda d=d: cm.ml.quantize(IMAGES, d), TypeError, "quantize: dtype is one of int8")
            for d in (b"ab", [1], {"a": 1}, 3)
        ],
        (lambda: cm.ml.init.xavier_normal((2, 2), gain=None), TypeError, "xavier_normal: "),
        (
            lambda: cm.ml.init.xavier_uniform((2, 2), gain=-1),
            ValueError,
            "xavier_uniform: wants low <= high",
        ),
        (lambda: cm.ml.init.kaiming_normal((2, 2), nonlinearity=[]), TypeError, "kaiming_normal: "),
        (
            lambda: cm.ml.init.kaiming_uniform((2, 2), dtype="x"),
            TypeError,
            "kaiming_uniform: 'x' is not a dtype",
        ),
        (lambda: cm.ml.init.normal((2, 2), std=-1), ValueError, "normal: wants scale >= 0"),
        (lambda: cm.ml.init.trunc_normal((2, 2), std=None), TypeError, "trunc_normal: "),
        (
            lambda: cm.ml.init.orthogonal((2, 2), gain=[1, 2, 3]),
            ValueError,
            r"orthogonal: shapes \(2, 2\) and \(3,\)",
        ),
        (lambda: cm.ml.init.constant(2, [1, 2, 3]), ValueError, "constant: "),
    ],
)
def test_layers(device, call, error, words):
    with pytest.raises(error, match=f"^{words}"):
        call()


def test_the_probability_of_attention_may_be_an_array(device):
    q = cm.ones((1, 1, 4, 8))
    y = [
        cm.ml.scaled_dot_product_attention(
            q, q, q, dropout=p, rng=cm.random.default_rng(1)
        ).tolist()
        for p in (0.5, cm.asarray(0.5), np.array(0.5))
    ]
    assert y[0] == y[1] == y[2]
    assert cm.ml.pad(np.ones((1, 3)), 0).shape == (1, 3)


# -------------------- NumPy's functions

X, THREE = np.ones((2, 3)), np.arange(3.0)
PATH = "ij,jk,kl->il", np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 2))


def on_the_cpu(x: np.ndarray) -> cm.ndarray:
    return cm.asarray(x, device="cpu", copy=True)


@pytest.mark.parametrize(
    "call, error, words",
    [
        *[
            (lambda w=w: cm.add(X, X, where=w), TypeError, "add: where: wants numbers")
            for w in (None, "a", {"a": 1})
        ],
        (lambda: cm.sin(X, where=2**70), OverflowError, "sin: where: Python integer"),
        (lambda: cm.pow(X, 2, out=3), TypeError, "pow: out must be an ndarray"),
        (lambda: cm.pow(X, 2, out=cm.ones(3)), ValueError, r"pow: the result of shape \(2, 3\)"),
        (lambda: cm.average(X, axis=2, weights=X), ValueError, "average: axis 2 is out of bounds"),
        (lambda: cm.average(X, weights=X, keepdims=None), TypeError, "average: wants keepdims"),
        (lambda: cm.diagflat(X, 0.5), TypeError, "diagflat: k must be an integer, got 0.5"),
        *[
            (lambda a=a: cm.copyto(on_the_cpu(THREE), *a), ValueError, rf"copyto: .*{words}")
            for a, words in (
                ((np.ones((2, 3)), "unsafe", True), r"\(2, 3\)"),
                ((1.0, "same_kind", [True, False]), r"\(2,\)"),
                (([1.0, 2.0], "same_kind", [True, False, True]), r"\(2,\)"),
                ((np.ones((2, 3)), "same_kind", [[True], [False]]), r"\(2, 1\)"),
            )
        ],
        (lambda: cm.fill_diagonal(on_the_cpu(X), 1j), TypeError, "fill_diagonal: 1j as float64"),
        *[
            (
                lambda o=o: cm.einsum(*PATH, optimize=o),
                ValueError,
                "einsum: optimize=.* is no order of contractions of ij,jk,kl->il",
            )
            for o in ("fast", ["einsum_path", (0, 1)], [(0, 1), (0, 5)], [("a", 1)], [(0, [1])])
        ],
        *[
            (lambda o=o: cm.einsum_path(*PATH, optimize=o), error, "einsum_path: ")
            for o, error in (
                ("fast", ValueError),
                (5, TypeError),
                ([1], TypeError),
                (slice(1), TypeError),
            )
        ],
        (
            lambda: cm.partition(THREE, np.array([True])),
            ValueError,
            "partition: wants integers as kth, got bool",
        ),
        (
            lambda: cm.argpartition(THREE, np.array(1.5)),
            TypeError,
            r"argpartition: kth must be an integer, got 1.5",
        ),
        (
            lambda: cm.argpartition(THREE, np.array([[1]])),
            ValueError,
            "argpartition: wants integers as kth, got int64",
        ),
        (
            lambda: cm.elementwise(abs, gradients=5),
            TypeError,
            "elementwise: wants a sequence of functions of scalars as gradients",
        ),
        (
            lambda: cm.can_cast("f4", "f8", "maybe"),
            ValueError,
            "can_cast: casting is 'no'.* got 'maybe'",
        ),
        (
            lambda: cm.astype(X, "f4", casting="maybe"),
            ValueError,
            "astype: casting is 'no'.* got 'maybe'",
        ),
        (lambda: cm.fromstring(None, sep=","), TypeError, "fromstring: "),
        (lambda: cm.linalg.cond(np.eye(2), "x"), ValueError, "cond: wants ord"),
        (lambda: cm.real_if_close(1j, None), TypeError, "real_if_close: "),
        (lambda: cm.polyint(THREE, k="a"), TypeError, "polyint: "),
        (lambda: cm.polyint(THREE, k={1: 2}), TypeError, "polyint: "),
        *[
            (
                lambda i=i: cm.reduction(max, i),
                TypeError,
                "reduction: wants a real number as identity",
            )
            for i in (None, "a", 1j)
        ],
        (
            lambda: list(cm.data.batches(THREE, 2).steps("a")),
            ValueError,
            "batches: wants count as an integer >= 0, got 'a'",
        ),
        (
            lambda: cm.data.ByteTokenizer().encode(3),
            TypeError,
            "ByteTokenizer: wants a text, got int 3",
        ),
        (lambda: cm.data.CharTokenizer(3), TypeError, "CharTokenizer: wants a text, got int 3"),
        (
            lambda: cm.data.CharTokenizer("abc").encode(None),
            TypeError,
            "CharTokenizer: wants a text, got NoneType None",
        ),
        (
            lambda: cm.distributed.value_and_grad(abs, devices=5),
            TypeError,
            "distributed.value_and_grad: wants a sequence",
        ),
        (
            lambda: cm.distributed.value_and_grad(abs, devices=["cpu"], split=1.5),
            TypeError,
            "distributed.value_and_grad: wants",
        ),
        *[
            (lambda p=p: cm.data.tokens(p, 2), TypeError, "tokens: wants a path")
            for p in (None, 1.5, ["a"])
        ],
        *[
            (
                lambda s=s: cm.zeros(s),
                TypeError,
                "zeros: shape must be an integer or a sequence of integers, got",
            )
            for s in (True, "", b"ab", {}, {2: 3}, {2, 3})
        ],
        (
            lambda: cm.reshape(np.ones(1), {}),
            TypeError,
            "reshape: shape must be an integer or a sequence of integers, got {}",
        ),
        (
            lambda: cm.broadcast_to(1.0, b"ab"),
            TypeError,
            "broadcast_to: shape must be an integer or a sequence",
        ),
    ],
)
def test_functions(device, call, error, words):
    with pytest.raises(error, match=f"^{words}"):
        call()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 4


class Metres(float):
    pass


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.linspace(Level.LOW, Level.HIGH, 4),
        lambda m: m.logspace(Level.LOW, Metres(2.5), 3),
        lambda m: m.select([m.asarray([True, False])], [m.asarray([7, 8])], Level.HIGH),
        lambda m: m.partition(m.asarray([3.0, 1.0, 2.0]), np.array(1)),
        lambda m: m.partition(m.asarray([3.0, 1.0, 2.0]), m.asarray([0, 1])),
        lambda m: m.argpartition(m.asarray([3.0, 1.0, 2.0]), np.array(0))[:1],
        lambda m: m.nan_to_num(
            m.asarray([np.nan, -np.inf, np.inf, 1.0]), nan=2.0, neginf=np.nan, posinf=5.0
        ),
        lambda m: m.nan_to_num(
            m.asarray([np.nan, -np.inf, np.inf, 1.0]), neginf=np.inf, posinf=-np.inf
        ),
        lambda m: m.polyder(m.asarray([1.0, 2.0, 3.0]), 10**12),
    ],
)
def test_as_numpy(device, call):
    """What is unusual, but right."""
    mine, theirs = (
        call(cm).to_numpy(),
        call(np) if call.__code__.co_names[0] != "polyder" else np.zeros(0),
    )
    assert mine.dtype == theirs.dtype
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_gradients_of_scalar_functions_may_be_any_sequence(device):
    """A generator was used up by the check of what is in it."""
    double = cm.elementwise(lambda v: v * v, gradients=(g for g in [lambda v: 2 * v]))
    assert cm.grad(lambda x: double(x).sum())(cm.asarray([1.0, 3.0])).tolist() == [2, 6]


def test_gradient_of_numbers_instead_of_infinities(device):
    x = cm.asarray([np.nan, -np.inf, np.inf, 3.0])
    assert cm.grad(lambda x: (cm.nan_to_num(x, 1.0, 2.0, -np.inf) * x.shape[0]).sum())(
        x
    ).tolist() == [0, 0, 0, 4]
    assert cm.grad(lambda x: cm.nan_to_num(x, True, 1.0, 2.0, -3.0).sum())(x).tolist() == [
        0,
        0,
        0,
        1,
    ]


# -------------------- random numbers


def _recorded(rng):
    cm.grad(lambda x: (rng.shuffle(x), x.sum())[1])(cm.ones(3))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda rng: rng.negative_binomial(5, 0.5, 3, "float32"),
            TypeError,
            "random.negative_binomial: wants ",
        ),
        (
            lambda rng: rng.negative_binomial(5, 0.5, 3, "x"),
            TypeError,
            "random.negative_binomial: 'x' is not a dtype",
        ),
        (
            lambda rng: rng.permuted(cm.ones(3), out="a"),
            TypeError,
            "random.permuted: out must be an ndarray",
        ),
        (
            lambda rng: rng.permuted(cm.ones(3), out=cm.ones(4)),
            ValueError,
            r"random.permuted: the result of shape \(3,\)",
        ),
        (
            lambda rng: rng.permuted(cm.ones((2, 3)), axis=1, out=cm.ones((2, 3), "int32")),
            TypeError,
            "random.permuted: a result",
        ),
        (
            lambda rng: rng.shuffle(cm.broadcast_to(cm.ones(1), (3,))),
            ValueError,
            "random.shuffle: ",
        ),
        (_recorded, RuntimeError, "random.shuffle: .* while a gradient is recorded"),
        *[
            (
                lambda rng, n=n: getattr(rng, n)(size=(1,) * 65),
                ValueError,
                f"random.{n}: a shape of 65 axes is too large",
            )
            for n in ("normal", "uniform", "exponential", "poisson")
        ],
        (
            lambda rng: rng.integers(3, size=(1,) * 70),
            ValueError,
            "random.integers: a shape of 70 axes is too large",
        ),
    ],
)
def test_what_is_refused_draws_nothing(device, call, error, words):
    rng = cm.random.default_rng(3)
    before = str(rng.state)
    with pytest.raises(error, match=f"^{words}"):
        call(rng)
    assert str(rng.state) == before


# -------------------- results


@pytest.mark.parametrize("name", ["divmod", "modf", "frexp"])
@pytest.mark.parametrize("wrong", ["shape", "axes", "dtype", "kind", "casting", "read-only"])
def test_of_two_results_none_is_written_where_one_cannot_be(device, name, wrong):
    x, first, function = cm.asarray([1.5, -2.5, 4.0]), cm.zeros(3), getattr(cm, name)
    operands = (x, 2.0) if name == "divmod" else (x,)
    host = np.zeros(3)
    host.flags.writeable = False  # a NumPy array is on the CPU, whatever the device
    second = {
        "shape": cm.zeros(2),
        "axes": cm.zeros(()),
        "dtype": cm.zeros(3, "bool"),
        "kind": [0.0] * 3,
        "read-only": cm.asarray(host, device="cpu", copy=False),
    }.get(wrong, cm.zeros(3))
    with pytest.raises((TypeError, ValueError), match=rf"^{name}(: |\(\) got an unexpected)"):
        function(
            *operands, out=(first, second), **{"casting": "maybe"} if wrong == "casting" else {}
        )
    assert first.tolist() == [0, 0, 0]
    wide = cm.zeros((2, 3)), cm.zeros((2, 3))
    assert function(*operands, out=wide)[0] is wide[0]  # results are broadcast, as by NumPy
    truth = getattr(np, name)(*(a.to_numpy() if type(a) is cm.ndarray else a for a in operands))
    for found, expected in zip(wide, truth, strict=True):
        np.testing.assert_array_equal(found.to_numpy(), np.broadcast_to(expected, (2, 3)))
