"""Arrays in files: memmap and fromfile, on the CPU and to a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from fake_driver import installed

import cudamath as cm

NUMBERS = np.arange(12.0)


@pytest.fixture
def path(tmp_path):
    NUMBERS.tofile(tmp_path / "numbers")
    return tmp_path / "numbers"


def test_the_memory_is_the_file(path):
    x = cm.memmap(path, "f8", "r+", shape=(3, 4), device="cpu")
    np.testing.assert_array_equal(x.to_numpy(), NUMBERS.reshape(3, 4))
    x[1, 2] = -1
    assert np.fromfile(path)[6] == -1
    same = cm.memmap(path, "f8", "r", offset=16, shape=(2, 5), order="F", device="cpu")
    expected = np.memmap(path, "f8", "r", 16, (2, 5), "F")
    np.testing.assert_array_equal(same.to_numpy(), expected)
    assert same.strides == expected.strides


def test_modes(path):
    x = cm.memmap(path, "f8", "r", device="cpu")
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1
    x = cm.memmap(path, "f8", "c", device="cpu")
    x[0] = 7
    assert x[0].item() == 7 and np.fromfile(path)[0] == 0
    x = cm.memmap(path, "i4", "w+", shape=5, device="cpu")
    x[...] = cm.arange(5, dtype="i4", device="cpu")
    assert np.fromfile(path, "i4").tolist() == [0, 1, 2, 3, 4]


def test_to_a_gpu(path, monkeypatch):
    with installed(monkeypatch), cm.device("cuda"):
        x = cm.memmap(path, "f8", "r", shape=(3, 4))
        assert x.device == cm.empty(1).device
        np.testing.assert_array_equal(x.to_numpy(), NUMBERS.reshape(3, 4))
        np.testing.assert_array_equal(cm.fromfile(path).to_numpy(), NUMBERS)
        for mode in ("r+", "w+"):
            with pytest.raises(ValueError, match=f"^memmap: mode '{mode[0]}.' writes to a file"):
                cm.memmap(path, "f8", mode)
    assert np.fromfile(path).tolist() == NUMBERS.tolist()


def test_errors(path):
    with pytest.raises(ValueError, match="^memmap: "):
        cm.memmap(path, "f8", "x")
    with pytest.raises(ValueError, match="^memmap: "):
        cm.memmap(path, "f8", "r", shape=(9, 9), device="cpu")
    with pytest.raises(TypeError, match="^memmap: "):
        cm.memmap(path, "U3", "r")
    with pytest.raises(FileNotFoundError):
        cm.memmap(path.with_name("none"), "f8", "r")
