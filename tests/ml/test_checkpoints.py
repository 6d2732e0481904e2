"""Saving and loading trees: what comes back, what other libraries see in the file, what damaged or
unfit files raise."""

import collections
import os
import struct
import subprocess
import sys
from typing import NamedTuple

import ml_dtypes
import numpy as np
import optree
import pytest

import cudamath as cm

safetensors = pytest.importorskip("safetensors")

DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
]


def values(dtype, shape=(2, 3), seed=0):
    """Random bits, so that every pattern (NaNs, subnormals) may occur; bools are 0 and 1."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)


def same(x, y):
    x, y = (a.to_numpy() if isinstance(a, cm.ndarray) else a for a in (x, y))
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tree.safetensors"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4)])
def test_every_dtype_bit_for_bit(device, path, dtype, shape):
    x = cm.asarray(values(dtype, shape))
    cm.save(path, {"x": x})
    for y in (cm.load(path)["x"], cm.load(path, like={"x": x})["x"]):
        assert type(y) is cm.ndarray and same(x, y) and y.device == x.device
    assert same(cm.load(path, device="cpu")["x"], x)


def test_trees_come_back_as_they_were(device, path):
    tree = {
        "z": [cm.ones(2), (cm.zeros(()), None, [])],
        "a": {"b": {}, 3: cm.arange(3)},
        "numbers": [True, 7, 1.5, "text", 2 + 3j],
        "big": 3**90,
        "odd": [float("inf"), -0.0, 0.1],
        "numpy": np.arange(4)[::2],
    }
    cm.save(str(path), tree)
    back = cm.load(path)
    assert list(back) == list(tree)
    assert (
        type(back["z"]) is list and type(back["z"][1]) is tuple and back["z"][1][1:] == (None, [])
    )
    assert back["a"]["b"] == {} and same(back["a"][3], cm.arange(3))
    assert back["numbers"] == tree["numbers"] and [type(v) for v in back["numbers"]] == [
        bool,
        int,
        float,
        str,
        complex,
    ]
    assert back["big"] == 3**90 and str(back["odd"]) == "[inf, -0.0, 0.1]"
    assert type(back["numpy"]) is np.ndarray and back["numpy"].tolist() == [0, 2]
    like = cm.load(path, like=tree)
    assert (
        like["numbers"] == tree["numbers"]
        and same(like["z"][0], tree["z"][0])
        and like["numpy"].tolist() == [0, 2]
    )
    for x in (back["z"][0], back["numpy"], like["z"][0]):
        x[0] = 9  # what was loaded belongs to the reader
    assert cm.load(path)["z"][0].tolist() == [1, 1]


def test_complex_numbers_of_either_width_into_a_tree(path):
    """The format has one of the two alone: the other lies there as pairs."""
    rng = np.random.default_rng(1)
    tree = {
        f"{dtype}, {kind.__name__}": kind((rng.normal(size=6) + 1j).astype(dtype).reshape(2, 3))
        for dtype in ("complex64", "complex128")
        for kind in (np.asarray, cm.asarray)
    }
    cm.save(path, tree)
    back = cm.load(path, like=tree)
    for name, x in tree.items():
        assert type(back[name]) is type(x) and same(back[name], x)


def test_lone_arrays_and_scalars(path):
    cm.save(path, cm.arange(3))
    assert cm.load(path).tolist() == [0, 1, 2] and cm.load(path, like=cm.arange(3)).tolist() == [
        0,
        1,
        2,
    ]
    cm.save(path, 5)
    assert cm.load(path) == 5
    cm.save(path, {})
    assert cm.load(path) == {} and cm.load(path, like={}) == {}


def test_any_memory_layout(device, path):
    x = cm.asarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    tree = [
        x.transpose(2, 0, 1),
        x[:, ::2],
        x[:, :, ::-1],
        cm.broadcast_to(x[:1], (5, 3, 4)),
        np.arange(3, dtype=">i4"),
        np.float32(2),
    ]
    cm.save(path, tree)
    back = cm.load(path)
    for a, b in zip(tree, back, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert back[-2].dtype == np.dtype("=i4") and back[-1].shape == ()


class Layer(NamedTuple):
    weight: cm.ndarray
    rate: float


def test_classes_of_ones_own_need_like(path):
    tree = {"layer": Layer(cm.ones(2), 0.5)}
    cm.save(path, tree)
    back = cm.load(path, like={"layer": Layer(cm.zeros(2), 0.0)})["layer"]
    assert type(back) is Layer and back.weight.tolist() == [1, 1] and back.rate == 0.5
    with pytest.raises(
        ValueError, match="load: the tree that was saved has a Layer at the top layer; pass like="
    ):
        cm.load(path)


@pytest.mark.parametrize(
    "how",
    [{"dtype": "int4", "group": 2}, {"axis": 1, "symmetric": False}, {"dtype": "float8_e5m2"}],
)
def test_quantized_arrays(device, path, how):
    x = cm.arange(8.0).reshape(2, 4)
    tree = {"layers": [cm.ml.quantize(x, **how), 3], "w": cm.ml.quantize(x, **how)}
    cm.save(path, tree)
    for back in (cm.load(path), cm.load(path, like=tree)):
        assert repr(back) == repr(tree) and back["layers"][1] == 3
        for q in (back["layers"][0], back["w"]):
            assert (q.shape, q.axis, q.group, q.device) == (
                (2, 4),
                how.get("axis"),
                how.get("group"),
                x.device,
            )
            assert cm.array_equal(q.dequantize(), tree["w"].dequantize())


def test_metadata(path):
    cm.save(path, {"x": cm.ones(2)}, metadata={"format": "pt", "loss": "0.5"})
    assert cm.load_metadata(path) == {"format": "pt", "loss": "0.5"}
    with safetensors.safe_open(path, framework="np") as file:
        assert file.metadata()["loss"] == "0.5"
    with pytest.raises(TypeError, match="save: wants metadata of strings, got 'loss': 0.5"):
        cm.save(path, {}, metadata={"loss": 0.5})
    with pytest.raises(ValueError, match="save: the metadata key 'cudamath' is the package's own"):
        cm.save(path, {}, metadata={"cudamath": ""})


def test_others_read_our_files(path):
    from safetensors.numpy import load_file

    tree = {"layer": [{"weight": cm.asarray(values("bfloat16"))}], "bias": cm.arange(3)}
    cm.save(path, tree)
    seen = load_file(path)
    assert sorted(seen) == ["bias", "layer.0.weight"]
    assert same(seen["layer.0.weight"], tree["layer"][0]["weight"]) and same(
        seen["bias"], tree["bias"]
    )


def test_files_of_others_are_flat(device, path):
    from safetensors.numpy import save_file

    weights = {
        "h.0.attn.c_attn.weight": values("float32"),
        "h.0.attn.c_attn.bias": values("float16", (3,)),
        "wte.weight": values("bfloat16", (4, 3)),
    }
    save_file(weights, path, metadata={"format": "pt"})
    flat = cm.load(path)
    assert set(flat) == set(weights) and all(same(flat[name], weights[name]) for name in weights)
    nested = {
        "h": [
            {
                "attn": {
                    "c_attn": {
                        "weight": cm.zeros((2, 3), "float32"),
                        "bias": cm.zeros(3, "float16"),
                    }
                }
            }
        ],
        "wte": {"weight": cm.zeros((4, 3), "bfloat16")},
    }
    assert same(
        cm.load(path, like=nested)["h"][0]["attn"]["c_attn"]["weight"],
        weights["h.0.attn.c_attn.weight"],
    )


def test_files_of_torch(path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    weights = {
        "a.weight": torch.randn(3, 5).bfloat16(),
        "a.bias": torch.randn(3),
        "q": torch.randn(4).to(torch.float8_e4m3fn),
    }
    save_file(weights, path)
    flat = cm.load(path)
    for name, w in weights.items():
        assert flat[name].tobytes() == w.view(torch.uint8).numpy().tobytes() and flat[
            name
        ].shape == tuple(w.shape)
    cm.save(path, flat)
    back = load_file(path)
    assert all(
        torch.equal(back[name].view(torch.uint8), weights[name].view(torch.uint8))
        for name in weights
    )


# -------------------- unfit files


def test_what_does_not_fit_is_named(path):
    cm.save(path, {"w": cm.ones((2, 3)), "b": cm.ones(2), "steps": 3})

    def load(**like):
        return cm.load(path, like=like)

    w, b = cm.zeros((2, 3)), cm.zeros(2)
    with pytest.raises(ValueError, match=r"does not fit: c is missing$"):
        load(w=w, b=b, c=b, steps=0)
    with pytest.raises(ValueError, match=r"does not fit: b is not wanted$"):
        load(w=w, steps=0)
    with pytest.raises(
        ValueError, match=r"does not fit: w is float64 of shape \(2, 3\), wanted \(3, 2\)$"
    ):
        load(w=w.T, b=b, steps=0)
    with pytest.raises(
        TypeError, match=r"does not fit: b is float64 of shape \(2,\), wanted float32$"
    ):
        load(w=w, b=b.astype("float32"), steps=0)
    with pytest.raises(TypeError, match=r"does not fit: steps is the int 3, wanted float$"):
        load(w=w, b=b, steps=0.0)
    with pytest.raises(ValueError, match=r"the scalar b is an array; steps is not wanted$"):
        load(w=w, b=1.0)
    with pytest.raises(ValueError, match=r"does not fit: steps is a scalar$"):
        load(w=w, b=b, steps=b)
    with pytest.raises(
        TypeError, match="load: wants arrays and Python scalars in like, got object at b"
    ):
        load(w=w, b=object(), steps=0)
    with pytest.raises(ValueError, match=r"x0 is missing; .*x15 is missing; and 12 more$"):
        load(w=w, b=b, steps=0, **{f"x{i}": b for i in range(20)})
    assert load(w=w, b=b, steps=0)["steps"] == 3


@pytest.mark.parametrize(
    "tree", [{1: 2, "1": 3}, {"a.b": 1.5, "a": {"b": 2.5}}, {"a.b": np.ones(2), "a": {"b": 2.5}}]
)
def test_leaves_of_one_name_are_not_mixed_up(path, tree):
    cm.save(path, tree)
    again = cm.load(path)
    assert list(again) == list(tree) and str(again) == str(tree)
    with pytest.raises(ValueError, match=r"^load: two leaves of like have the same name '(1|a.b)'"):
        cm.load(path, like=tree)
    with pytest.raises(
        ValueError, match=r"^load: two leaves of .*tensors have the same name '(1|a.b)'"
    ):
        cm.load(path, like={"1": 0, "a": {"b": 0.5}})


def test_nothing_is_half_loaded(path, monkeypatch):
    from cudamath import checkpoints

    cm.save(path, {"a": cm.ones(2), "b": cm.ones(3)})
    made = []
    monkeypatch.setattr(checkpoints, "upload", lambda *args: made.append(args))
    with pytest.raises(ValueError, match="b is float64"):
        cm.load(path, like={"a": cm.zeros(2), "b": cm.zeros(4)})
    data = path.read_bytes()
    path.write_bytes(data[:-8])
    with pytest.raises(ValueError, match="is not a whole safetensors file"):
        cm.load(path)
    assert not made


@pytest.mark.parametrize("keep", [0, 5, 9, 40, -1])
def test_cut_files(path, keep):
    cm.save(path, {"w": cm.ones((2, 3))})
    path.write_bytes(path.read_bytes()[:keep])
    for read in (cm.load, cm.load_metadata):
        with pytest.raises(ValueError, match=f"load: {path} is not a whole safetensors file: "):
            read(path)


def test_damaged_files(path):
    cm.save(path, {"w": cm.ones((2, 3))})
    data = path.read_bytes()
    for broken in (
        data + b"more",
        b"\x93numpy" + data[6:],
        struct.pack("<Q", 1 << 62) + data[8:],
        data.replace(b'"F64"', b'"F32"'),
        data.replace(b"[2,3]", b"[3,3]"),
    ):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="is not a whole safetensors file"):
            cm.load(path)
    path.write_bytes(data.replace(b'"w":', b'"v":'))
    with pytest.raises(ValueError, match="does not hold the arrays that it describes: v; w"):
        cm.load(path)
    with pytest.raises(FileNotFoundError):
        cm.load(path.with_name("none"))
    with pytest.raises(OSError):
        cm.load(path.parent)


def test_dtypes_that_are_not_ours(path):
    x = np.zeros((2, 2), np.uint8)
    safetensors.serialize_file(
        {
            "s": safetensors.TensorSpec(
                dtype="float8_e8m0fnu", shape=(2, 2), data_ptr=x.ctypes.data, data_len=4
            )
        },
        path,
    )
    with pytest.raises(
        TypeError, match=r"holds 's' of F8_E8M0, shape \(2, 2\); that is no dtype of arrays here"
    ):
        cm.load(path)


def test_what_cannot_be_saved(path):
    for tree, message in [
        (
            {"a": {"f": object()}},
            "save: wants a tree of arrays and Python scalars, got object at a.f$",
        ),
        ([cm.random.default_rng(0)], "save: .* got Generator at 0; save its .state"),
        (
            {(1, 2): cm.ones(1)},
            r"save: wants dict keys that are strings or integers, got \(1, 2\) at the top",
        ),
        ({"a": np.array(["text"])}, "save: arrays of <U4 are not supported, got shape .* at a"),
    ]:
        with pytest.raises(TypeError, match=message):
            cm.save(path, tree)
    with pytest.raises(ValueError, match="save: two arrays of the tree have the same name 'a.b'"):
        cm.save(path, {"a.b": cm.ones(1), "a": {"b": cm.ones(1)}})
    with pytest.raises(ValueError, match="save: '__metadata__' is the format's own name"):
        cm.save(path, {"__metadata__": cm.ones(1)})  # which nobody could read
    assert not os.listdir(path.parent)


def test_dicts_of_other_classes(path):
    """The state of a model of PyTorch is an OrderedDict."""
    tree = collections.OrderedDict(b=cm.ones(2), a=collections.defaultdict(list, c=cm.zeros(3)))
    cm.save(path, tree)
    for back in (cm.load(path), cm.load(path, like=tree)):
        assert (
            list(back) == ["b", "a"]
            and back["b"].tolist() == [1, 1]
            and back["a"]["c"].shape == (3,)
        )


def test_writing_is_all_or_nothing(path, monkeypatch):
    cm.save(path, {"w": cm.ones(2)})
    before = path.read_bytes()
    with pytest.raises(TypeError):
        cm.save(path, {"w": cm.ones(3), "x": object()})

    def fails(*args):
        raise OSError("disk full")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fails)
            with pytest.raises(OSError, match="disk full"):
                cm.save(path, {"w": cm.ones(3)})
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]
    with pytest.raises(OSError, match="save: cannot write"):
        cm.save(path.parent / "missing" / "x", {"w": cm.ones(3)})
    link = path.with_name("link")
    link.symlink_to(path)
    cm.save(link, {"w": cm.ones(4)})
    assert link.is_symlink() and cm.load(path)["w"].size == 4


def test_missing_library_is_named():
    program = (
        "import sys; sys.modules['safetensors'] = None; import cudamath as cm\n"
        "for call in (lambda: cm.save('x', {}), lambda: cm.load('x')):\n"
        "    try: call()\n"
        "    except ImportError as error: assert \"pip install 'cudamath[io]'\" in str(error), "
        "error\n"
        "    else: raise SystemExit('no error')"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# -------------------- resuming


def test_training_resumes_bit_for_bit(device, path):
    data = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)

    def loss(params, x, rng):
        h = cm.ml.dropout(
            cm.ml.relu(cm.ml.linear(x, params["w"], params["b"])), 0.3, training=True, rng=rng
        )
        return ((h.sum(1) - x[:, 0]) ** 2).mean()

    def run(tree, steps):
        rng = cm.random.default_rng(0)
        rng.state = tree["rng"]
        params, state = tree["params"], tree["state"]
        for step in range(tree["step"], tree["step"] + steps):
            batch = cm.asarray(data[step % 4 * 16 :][:16])
            params, state = cm.ml.adamw_update(
                params, cm.grad(loss)(params, batch, rng), state, lr=0.01
            )
        return {"params": params, "state": state, "rng": rng.state, "step": tree["step"] + steps}

    def start():
        rng = cm.random.default_rng(3)
        params = {"w": rng.normal(0, 1, (5, 8), "float32"), "b": cm.zeros(5, "float32")}
        return {"params": params, "state": cm.ml.adam_init(params), "rng": rng.state, "step": 0}

    through = run(start(), 12)
    cm.save(path, run(start(), 5))
    for like in (None, start()):
        resumed = run(cm.load(path, like=like), 7)
        assert resumed["rng"] == through["rng"] and resumed["step"] == 12
        assert all(same(resumed["params"][key], through["params"][key]) for key in ("w", "b"))
        leaves = zip(
            optree.tree_leaves(resumed["state"]), optree.tree_leaves(through["state"]), strict=True
        )
        assert all(same(a, b) for a, b in leaves)
