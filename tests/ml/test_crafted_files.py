"""Files whose descriptions lie: `load` believes nothing of what a file says of its tree, and says
which part of it is none.

Each file is a whole safetensors file, as the format's own library writes it; only the description
of the tree in its metadata was made by hand.
"""

import io
import json
import os
import re
import struct
import zipfile

import ml_dtypes
import numpy as np
import pytest

import cudamath as cm

safetensors = pytest.importorskip("safetensors")
from safetensors.numpy import save_file  # noqa: E402

F8 = np.dtype(ml_dtypes.float8_e4m3fn)


def i8(*shape):
    return np.ones(shape, np.int8)


def u8(*shape):
    return np.ones(shape, np.uint8)


def f4(*shape):
    return np.ones(shape, np.float32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "crafted.safetensors"


@pytest.fixture(params=["cpu", "cuda:0"])
def where(request):
    """The CPU, and the host's part of the path to a GPU."""
    if request.param == "cuda:0":
        request.getfixturevalue("fake")
    with cm.device(request.param):
        yield request.param


def write(path, description, arrays):
    text = description if isinstance(description, str) else json.dumps(description)
    save_file(arrays, path, metadata={"cudamath": text})


def packed(about, values, scale, zero_point=None, name="q"):
    """The description of {name: a quantized array}, and its arrays."""
    arrays = {f"{name}.values": values, f"{name}.scale": scale}
    zero = ["none"]
    if zero_point is not None:
        arrays[f"{name}.zero_point"] = zero_point
        zero = ["array", f"{name}.zero_point"]
    parts = [
        ["values", ["array", f"{name}.values"]],
        ["scale", ["array", f"{name}.scale"]],
        ["zero_point", zero],
    ]
    return ["dict", [[name, ["quantized", about, parts]]]], arrays


# (dtype, axis, group, shape), values, scale, zero points
TRUE = {
    "whole": (["int8", None, None, [4, 6]], i8(4, 6), f4()),
    "axis": (["int8", 0, None, [4, 6]], i8(4, 6), f4(4), i8(4)),
    "groups": (["int4", None, 2, [4, 6]], u8(4, 3), f4(4, 3), u8(4, 3)),
    "float8": (["float8_e4m3", 1, None, [4, 6]], i8(4, 6).astype(F8), f4(6)),
    "vector": (["int4", None, None, [6]], u8(3), f4()),
}
LIES = {
    # the shape
    "longer than its values": (["int8", None, None, [4096, 4096]], i8(4096, 8), f4()),
    "shorter": (["int8", None, None, [2, 6]], i8(4, 6), f4()),
    "other axes": (["int8", None, None, [6, 4]], i8(4, 6), f4()),
    "fewer axes": (["int8", None, None, [24]], i8(4, 6), f4()),
    "more axes": (["int8", None, None, [1, 4, 6]], i8(4, 6), f4()),
    "no axes": (["int8", None, None, []], i8(4, 6), f4()),
    "negative lengths": (["int8", None, None, [-4, -6]], i8(4, 6), f4()),
    "empty": (["int8", 0, None, [0, 6]], i8(0, 6), f4(0)),
    "empty rows": (["int8", None, None, [4, 0]], i8(4, 0), f4()),
    "a length of float": (["int8", None, None, [4.0, 6]], i8(4, 6), f4()),
    "a length of bool": (["int8", None, None, [True, 6]], i8(1, 6), f4()),
    "a length of text": (["int8", None, None, ["4", 6]], i8(4, 6), f4()),
    "a shape of none": (["int8", None, None, None], i8(4, 6), f4()),
    "a shape of a number": (["int8", None, None, 24], i8(4, 6), f4()),
    "a huge length": (["int8", None, None, [10**30, 6]], i8(4, 6), f4()),
    # the dtype's name
    "no such dtype": (["int3", None, None, [4, 6]], i8(4, 6), f4()),
    "a dtype of none": ([None, None, None, [4, 6]], i8(4, 6), f4()),
    "a dtype of lists": ([["int8"], None, None, [4, 6]], i8(4, 6), f4()),
    "NumPy's name of a dtype": (["float8_e4m3fn", None, None, [4, 6]], i8(4, 6).astype(F8), f4()),
    "int4 of whole bytes": (["int4", None, None, [4, 6]], u8(4, 6), f4()),
    "int4 of an odd axis": (["int4", None, None, [4, 5]], u8(4, 3), f4()),
    "int4 of a number": (["int4", None, None, []], u8(), f4()),
    "int8 of half bytes": (["int8", None, None, [4, 6]], i8(4, 3), f4()),
    "int8 stored as uint8": (["int8", None, None, [4, 6]], u8(4, 6), f4()),
    "int4 stored as int8": (["int4", None, None, [4, 6]], i8(4, 3), f4()),
    "int8 stored as float32": (["int8", None, None, [4, 6]], f4(4, 6), f4()),
    "int8 stored as int64": (["int8", None, None, [4, 6]], np.ones((4, 6), np.int64), f4()),
    "float8 stored as int8": (["float8_e4m3", None, None, [4, 6]], i8(4, 6), f4()),
    "the other float8": (["float8_e5m2", None, None, [4, 6]], i8(4, 6).astype(F8), f4()),
    # the axis
    "an axis beyond": (["int8", 2, None, [4, 6]], i8(4, 6), f4(6)),
    "a negative axis": (["int8", -1, None, [4, 6]], i8(4, 6), f4(6)),
    "the other axis": (["int8", 1, None, [4, 6]], i8(4, 6), f4(4)),
    "an axis and one scale": (["int8", 0, None, [4, 6]], i8(4, 6), f4()),
    "an axis and no scale": (["int8", 0, None, [4, 6]], i8(4, 6), f4(0)),
    "an axis of float": (["int8", 0.0, None, [4, 6]], i8(4, 6), f4(4)),
    "an axis of bool": (["int8", False, None, [4, 6]], i8(4, 6), f4(4)),
    "an axis of text": (["int8", "0", None, [4, 6]], i8(4, 6), f4(4)),
    "an axis of lists": (["int8", [0], None, [4, 6]], i8(4, 6), f4(4)),
    "an axis and groups": (["int8", 0, 2, [4, 6]], i8(4, 6), f4(4, 3)),
    # the groups
    "groups that do not divide": (["int8", None, 4, [4, 6]], i8(4, 6), f4(4, 1)),
    "groups of none": (["int8", None, 0, [4, 6]], i8(4, 6), f4(4, 3)),
    "negative groups": (["int8", None, -1, [4, 6]], i8(4, 6), f4(4, 6)),
    "groups of others": (["int8", None, 3, [4, 6]], i8(4, 6), f4(4, 3)),
    "groups of a number": (["int8", None, 1, []], i8(), f4()),
    "groups of float": (["int8", None, 2.0, [4, 6]], i8(4, 6), f4(4, 3)),
    "groups of bool": (["int8", None, True, [4, 6]], i8(4, 6), f4(4, 6)),
    "huge groups": (["int8", None, 10**30, [4, 6]], i8(4, 6), f4(4, 0)),
    # the scale
    "too few scales": (["int8", 0, None, [4, 6]], i8(4, 6), f4(3)),
    "too many scales": (["int8", None, None, [4, 6]], i8(4, 6), f4(4)),
    "scales of more axes": (["int8", 0, None, [4, 6]], i8(4, 6), f4(4, 1)),
    "flat scales of groups": (["int4", None, 2, [4, 6]], u8(4, 3), f4(12)),
    "one scale of one axis": (["int8", None, None, [4, 6]], i8(4, 6), f4(1)),
    "scales of float64": (["int8", 0, None, [4, 6]], i8(4, 6), np.ones(4)),
    "scales of float16": (["int8", 0, None, [4, 6]], i8(4, 6), np.ones(4, np.float16)),
    "scales of int32": (["int8", 0, None, [4, 6]], i8(4, 6), np.ones(4, np.int32)),
    # the zero points
    "one zero point": (["int8", 0, None, [4, 6]], i8(4, 6), f4(4), i8(1)),
    "a zero point of no axes": (["int8", 0, None, [4, 6]], i8(4, 6), f4(4), i8()),
    "no zero points": (["int8", 0, None, [4, 6]], i8(4, 6), f4(4), i8(0)),
    "zero points of other groups": (["int4", None, 2, [4, 6]], u8(4, 3), f4(4, 3), u8(4, 2)),
    "zero points of uint8": (["int8", 0, None, [4, 6]], i8(4, 6), f4(4), u8(4)),
    "zero points of int8": (["int4", None, 2, [4, 6]], u8(4, 3), f4(4, 3), i8(4, 3)),
    "zero points of float32": (["int8", 0, None, [4, 6]], i8(4, 6), f4(4), f4(4)),
    "zero points of float8": (["float8_e4m3", None, None, [4, 6]], i8(4, 6).astype(F8), f4(), i8()),
}


def named(cases):
    return pytest.mark.parametrize("case", cases, ids=cases)


@named(TRUE)
def test_true_descriptions_are_taken(path, where, case):
    write(path, *packed(*TRUE[case]))
    q = cm.load(path)["q"]
    assert q.device == where and cm.load(path, like={"q": q})["q"].shape == q.shape
    x = q.dequantize()
    if where == "cpu":
        assert x.shape == q.shape and cm.isfinite(x).all()


@named(LIES)
def test_quantized_arrays_that_are_none(path, where, case):
    about, *arrays = LIES[case]
    write(path, *packed(about, *arrays))
    with pytest.raises(ValueError, match=f"^load: {re.escape(str(path))} is damaged where it"):
        cm.load(path)
    if not isinstance(about[3], list):
        return
    # the same by like=, and by hand
    values, scale, zero_point = [*map(cm.asarray, arrays), None][:3]
    q = cm.ml.Quantized(values, scale, zero_point, *about[:3], tuple(about[3]))
    save_file(packed(about, *arrays)[1], path)  # without a description
    with pytest.raises(ValueError, match="^load: .*does not fit: q is wanted as a quantized array"):
        cm.load(path, like={"q": q})
    with pytest.raises(ValueError, match="^dequantize: the quantized array is none: "):
        q.dequantize()
    if len(about[3]) == 2 and all(type(n) is int and n > 0 for n in about[3]):
        x = cm.ones((2, min(about[3][1], 1 << 12)), "float32")
        for call in (cm.ml.linear, cm.ml.linear_quantized):
            with pytest.raises((ValueError, TypeError), match=f"^{call.__name__}: "):
                call(x, q)


Q = packed(*TRUE["whole"])[0][1][0][1]  # the node of a quantized array
A = {"a": f4(2)}
FORMS = {
    # nodes
    "nothing": ([], {}),
    "a number": (3, {}),
    "a text": ("none", {}),
    "null": (None, {}),
    "an object": ({"dict": []}, {}),
    "no such kind": (["set", []], {}),
    "a kind that is a list": ([["dict"], []], {}),
    "a kind that is null": ([None], {}),
    "text": ('["none"', {}),
    "empty text": ("", {}),
    "constants": ("NaN", {}),
    # dicts and sequences
    "a dict of nothing": (["dict"], {}),
    "a dict of null": (["dict", None], {}),
    "a dict of more": (["dict", [], []], {}),
    "a dict of a node": (["dict", ["none"]], {}),
    "a pair of one": (["dict", [["a"]]], {}),
    "a pair of three": (["dict", [["a", ["none"], 1]]], {}),
    "a pair that is an object": (["dict", [{"a": ["none"]}]], {}),
    "a key that is null": (["dict", [[None, ["none"]]]], {}),
    "a key that is a float": (["dict", [[1.5, ["none"]]]], {}),
    "a key that is a bool": (["dict", [[True, ["none"]]]], {}),
    "a key that is a list": (["dict", [[["a"], ["none"]]]], {}),
    "a key twice": (["dict", [["a", ["none"]], ["a", ["value", 1]]]], {}),
    "a list of nothing": (["list"], {}),
    "a list of a number": (["list", 3], {}),
    "a list of numbers": (["list", [1, 2]], {}),
    "a list of pairs": (["list", [["a", ["none"]]]], {}),
    "a tuple of an object": (["tuple", {}], {}),
    "none of something": (["none", 1], {}),
    # scalars
    "no value": (["value"], {}),
    "two values": (["value", 1, 2], {}),
    "a value that is null": (["value", None], {}),
    "a value that is a list": (["value", [1]], {}),
    "a value that is an object": (["value", {"a": 1}], {}),
    "half a complex number": (["complex", 1.0], {}),
    "a complex number of ints": (["complex", 10**400, 0], {}),
    "a complex number of text": (["complex", "1", "2"], {}),
    "a complex number of null": (["complex", None, 1.0], {}),
    "an endless number": ('["value", ' + "9" * 5000 + "]", {}),
    # arrays
    "no name": (["array"], A),
    "a name that is null": (["array", None], A),
    "a name that is a list": (["array", ["a"]], A),
    "two names": (["array", "a", "a"], A),
    "a name of another": (["dict", [["b", ["array", "a"]]]], A),
    "an array twice": (["dict", [["a", ["array", "a"]], ["b", ["array", "a"]]]], A),
    "pairs of nothing": (["dict", [["a", ["complex128"]]]], A),
    "pairs of a name": (["dict", [["a", ["complex128", "a"]]]], A),
    "pairs of a value": (["dict", [["a", ["complex128", ["value", 1]]]]], A),
    "pairs of pairs": (
        ["dict", [["a", ["complex128", ["complex128", ["array", "a"]]]]]],
        {"a": np.ones((2, 2))},
    ),
    "pairs of float32": (["dict", [["a", ["complex128", ["array", "a"]]]]], A),
    "pairs of three": (
        ["dict", [["a", ["complex128", ["array", "a"]]]]],
        {"a": np.ones((2, 3))},
    ),
    "pairs of no axis": (["dict", [["a", ["complex128", ["array", "a"]]]]], {"a": np.ones(())}),
    # quantized arrays and others
    "a quantized nothing": (["quantized"], {}),
    "quantized by nothing": (["quantized", [], Q[2]], packed(*TRUE["whole"])[1]),
    "quantized by an object": (["quantized", {}, Q[2]], packed(*TRUE["whole"])[1]),
    "quantized without parts": (["quantized", Q[1], []], {}),
    "quantized with two parts": (["quantized", Q[1], Q[2][:2]], packed(*TRUE["whole"])[1]),
    "quantized in disorder": (["quantized", Q[1], Q[2][::-1]], packed(*TRUE["whole"])[1]),
    "quantized with NumPy's": (
        ["dict", [["q", ["quantized", Q[1], [["values", ["numpy", "q.values"]], *Q[2][1:]]]]]],
        packed(*TRUE["whole"])[1],
    ),
    "quantized values of none": (
        ["dict", [["q", ["quantized", Q[1], [["values", ["none"]], *Q[2][1:]]]]]],
        {"q.scale": f4()},
    ),
    "a quantized scale that is a list": (
        ["dict", [["q", ["quantized", Q[1], [Q[2][0], ["scale", ["list", []]], Q[2][2]]]]]],
        {"q.values": i8(4, 6)},
    ),
    "a quantized value": (
        ["dict", [["q", ["quantized", Q[1], [*Q[2][:2], ["zero_point", ["value", 0]]]]]]],
        packed(*TRUE["whole"])[1],
    ),
    "another of nothing": (["other"], {}),
    "another of no class": (["other", None, []], {}),
    "another of numbers": (["other", "Layer", [1, 2]], {}),
    # depth
    "deep lists": ('["list", [' * 5000 + '["none"]' + "]]" * 5000, {}),
    "deep dicts": ('["dict", [["a", ' * 3000 + '["none"]' + "]]]" * 3000, {}),
    "deep JSON": ("[" * 100_000 + "]" * 100_000, {}),
}


@named(FORMS)
def test_descriptions_of_another_form(path, case):
    description, arrays = FORMS[case]
    write(path, description, arrays)
    for read in (cm.load, lambda path: cm.load(path, like={}), cm.load_metadata):
        with pytest.raises(ValueError, match=f"^load: {re.escape(str(path))} (is damaged|descri)"):
            read(path)


def test_quantized_arrays_by_other_rules_than_wanted(path, where):
    """A square of numbers: nothing but the description says which scale is whose."""
    about = ["int8", 0, None, [4, 4]]
    write(path, *packed(about, i8(4, 4), f4(4)))
    q = cm.load(path)["q"]
    for axis, fits in ((0, True), (1, False)):
        like = {"q": cm.ml.Quantized(q.values, q.scale, None, "int8", axis, None, (4, 4))}
        if fits:
            assert cm.load(path, like=like)["q"].axis == 0
            continue
        with pytest.raises(ValueError, match="^load: .*q is quantized by .*'int8', 0.* wanted .*1"):
            cm.load(path, like=like)


def test_another_class_without_like(path):
    write(path, ["other", "Layer", [["weight", ["none"]]]], {})
    with pytest.raises(ValueError, match="^load: the tree that was saved has a Layer at the top"):
        cm.load(path)


@pytest.mark.parametrize(
    "shape", [(1,) * 65, (0, 1 << 62), (1 << 31, 0, 1 << 31), (0, 1 << 63)], ids=str
)
def test_shapes_that_no_array_has(path, shape):
    """The format's library lets these pass: none of them has more bytes than the file."""
    nbytes = 0 if 0 in shape else 8
    header = {"x": {"dtype": "F64", "shape": shape, "data_offsets": [0, nbytes]}}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(nbytes))
    with pytest.raises(ValueError, match=f"^load: {re.escape(str(path))} "):
        cm.load(path)


def test_like_that_is_nested_too_deeply(path):
    cm.save(path, [])
    tree = []
    for _ in range(20_000):
        tree = [tree]
    with pytest.raises(ValueError, match="^load: like is nested too deeply"):
        cm.load(path, like=tree)


def test_many_scalars_take_no_square_of_time(path):
    """200,000 of them took 2 to 6 seconds, nearly all of it to find names that occur twice."""
    from cudamath import checkpoints

    names = [str(i) for i in range(3000)]
    write(path, ["list", [["value", i] for i in range(len(names))]], {})

    class Counted(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            type(self).compared += 1
            return str.__eq__(self, other)

    like = {Counted(name): i for i, name in enumerate(names)}
    assert len(checkpoints.load(path, like=like)) == len(names)
    assert Counted.compared < 40 * len(names)


# -------------------- NumPy's files


def npy(shape, descr="<f8", data=b"", version=(1, 0), order="False"):
    """An .npy file of this header."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    form = "<H" if version == (1, 0) else "<I"
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack(form, len(text)) + text + data


def npz(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return file.getvalue()


EIGHT = np.arange(8.0).tobytes()
NPY_LIES = {
    "8 TiB": npy(f"({1 << 40},)", data=EIGHT),
    "one more": npy("(9,)", data=EIGHT),
    "more axes": npy("(8, 2)", data=EIGHT),
    "a negative length": npy("(-1,)", data=EIGHT),
    "two negative lengths": npy("(-2, -4)", data=EIGHT),
    "more than 64 bits": npy(f"({1 << 62}, {1 << 62})", data=EIGHT),
    "65 axes": npy("(" + "1," * 65 + ")", data=EIGHT),
    "a long empty axis": npy(f"(0, {1 << 62})"),
    "version 2": npy(f"({1 << 40},)", data=EIGHT, version=(2, 0)),
    "version 3": npy(f"({1 << 40},)", data=EIGHT, version=(3, 0)),
    "version 9": npy("(8,)", data=EIGHT, version=(9, 0)),
    "objects": npy("(1,)", "|O", data=EIGHT),
    "no dtype": npy("(8,)", "<q9", data=EIGHT),
    "large text": npy("(8,)", f"<U{1 << 28}", data=EIGHT),
    "code for a shape": npy("__import__('os')", data=EIGHT),
    "no order": npy("(8,)", data=EIGHT, order="None"),
}


@named(NPY_LIES)
@pytest.mark.parametrize("kind", ["npy", "npz", "opened npy", "opened npz"])
def test_arrays_of_numpy_that_lie(tmp_path, case, kind):
    """Said before memory is asked for."""
    file = tmp_path / f"x.{kind[-3:]}"
    data = NPY_LIES[case]
    file.write_bytes(npz(good=npy("(8,)", data=EIGHT), x=data) if kind.endswith("npz") else data)
    if kind.startswith("opened"):
        with open(file, "rb") as opened, pytest.raises(ValueError, match="^load: "):
            cm.load(opened)
        return
    with pytest.raises(ValueError, match=f"^load: {re.escape(str(file))}: "):
        cm.load(file)


def test_arrays_of_numpy_without_memory(tmp_path, monkeypatch):
    file = tmp_path / "x.npy"
    np.save(file, np.ones(4))

    def full(*_, **__):
        raise MemoryError("Unable to allocate 32 bytes")

    monkeypatch.setattr(np, "load", full)
    with pytest.raises(MemoryError, match="^load: .*Unable to allocate"):
        cm.load(file)


@named(NPY_LIES)
def test_tokens_that_lie(tmp_path, case):
    """Their file is mapped, after the same checks."""
    file = tmp_path / "x.npy"
    file.write_bytes(NPY_LIES[case])
    with pytest.raises(ValueError, match=f"^tokens: {re.escape(str(file))}: "):
        cm.data.tokens(file, 3)
    file.write_bytes(b"none")
    with pytest.raises(ValueError, match=f"^tokens: {re.escape(str(file))}: it is no .npy file"):
        cm.data.tokens(file, 3)


@pytest.mark.parametrize(
    "reader", ["tokens", "fromfile", "memmap", "loadtxt", "genfromtxt", "load"]
)
def test_readers_name_themselves(tmp_path, reader):
    """Where there is no file, a folder, or (of those that must not wait for it) a pipe; and where
    a text is none."""
    read = getattr(cm, reader, None) or (lambda path: cm.data.tokens(path, 3))
    with pytest.raises(FileNotFoundError, match=f"^{reader}: cannot (read|open) "):
        read(tmp_path / "none.npy")
    with pytest.raises(IsADirectoryError, match=f"^{reader}: cannot (read|open) "):
        read(tmp_path)
    if reader in ("tokens", "load") and hasattr(os, "mkfifo"):
        for name in ("x.npy", "x.bin"):
            os.mkfifo(tmp_path / name)
            with pytest.raises(OSError, match=f"^{reader}: cannot read .*it is a pipe"):
                read(tmp_path / name)
    if reader in ("loadtxt", "genfromtxt"):
        (tmp_path / "x.txt").write_bytes(b"\x93 1 2")
        with pytest.raises(ValueError, match=f"^{reader}: "):
            read(tmp_path / "x.txt")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_arrays_of_numpy_of_every_version(tmp_path, version):
    file = tmp_path / "x.npy"
    with open(file, "wb") as opened:
        np.lib.format.write_array(opened, np.arange(8.0), version)
        np.lib.format.write_array(opened, np.arange(3), version)  # NumPy's may follow each other
    with open(file, "rb") as opened:
        assert cm.load(opened).tolist() == list(range(8)) and cm.load(opened).tolist() == [0, 1, 2]
    file.write_bytes(npz(x=npy("(8,)", data=EIGHT, version=version)))
    assert cm.load(file)["x"].tolist() == list(range(8))


def test_archives_whose_headers_promise_less_than_they_hold(tmp_path):
    """Zeros shrink a thousandfold: a small file must say how much memory it wants."""
    file = tmp_path / "bomb.npz"
    file.write_bytes(npz(x=npy("(8,)", data=bytes(1 << 20))))
    with pytest.raises(ValueError, match=r"^load: .*'x.npy' promises 64 bytes, 1,048,576 follow"):
        cm.load(file)
