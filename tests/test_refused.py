"""One argument of a working call made wrong at a time: the error says whose it is, and nothing was lost or changed."""

import io
import zipfile

import numpy as np
import pytest

import cudamath as cm

# ---------------------------------------------------------------- files


@pytest.mark.parametrize("save", [cm.savez, cm.savez_compressed])
def test_archives_are_written_whole_or_not_at_all(save, tmp_path):
    """Also where what cannot be saved comes last, and is only found out while the file is being written."""
    name, path = save.__name__, tmp_path / "a.npz"
    save(path, x=cm.ones(3))
    before = path.read_bytes()

    calls = [
        (lambda: save(path, cm.ones(3), lambda: 1), TypeError, "Python objects are neither written nor read, got function"),
        (lambda: save(path, x=cm.ones(3), y={"z": cm.ones(3)}), TypeError, "Python objects .* got dict"),
        (lambda: save(path, x=np.array([1, None])), TypeError, r"Python objects .* got ndarray \(dtype object, shape \(2,\)\)"),
        (lambda: save(path, np.zeros(2, [("a", "f4"), ("b", object)])), TypeError, "Python objects"),
        (lambda: save(path, [cm.ones(2, "bfloat16")]), TypeError, r"NumPy's files do not know bfloat16, got shape \(1, 2\)"),
        (lambda: save(path, [[1], [1, 2]]), ValueError, "list cannot become an array"),
        (lambda: save(path, 1, arr_0=2), ValueError, "arr_0 is the name of an array without a keyword, and a keyword too"),
        (lambda: save(path, 1, allow_pickle=True), ValueError, "Python objects .* allow_pickle must be False"),
        (lambda: save(None, 1), TypeError, "wants a path, got NoneType None"),
    ]
    for call, error, words in calls:
        with pytest.raises(error, match=f"^{name}: {words}"):
            call()
        assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]
    save(tmp_path / "a", 2, y=["b", "c"], z=np.zeros(2, "M8[s]"))  # the name gets its ending; strings and dates are kept
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
    """zlib, tokenize and zipfile have errors of their own; NumPy gives bytes for what is no array."""
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
        calls = [cm.load, cm.load_metadata] + [lambda path: cm.save(path, cm.ones(1))] * (not hasattr(wrong, "write"))
        for call in calls:
            with pytest.raises(TypeError, match=rf"^(load|save): wants a path, got {type(wrong).__name__}"):
                call(wrong)
    for wrong in (3, "ab"):
        with pytest.raises(TypeError, match="^save: wants metadata as a mapping of strings, got"):
            cm.save(path, cm.ones(1), metadata=wrong)
    for call in (lambda: cm.save(path, {"\ud800": cm.ones(1)}), lambda: cm.save(path, 1, metadata={"a": "\ud800"})):
        with pytest.raises(ValueError, match="^save: wants names and metadata that UTF-8 can hold"):
            call()
    with pytest.raises(TypeError, match="^save: Python objects are neither written nor read"), open(path, "wb") as file:
        cm.save(file, np.array([None]))
    name = str(path).encode() + b".npy"  # paths may be bytes
    cm.save(name, cm.ones(2))
    assert cm.load(name).tolist() == [1, 1]
