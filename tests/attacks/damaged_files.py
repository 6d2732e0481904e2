"""Files of every format that is read, cut off, changed, spliced and made by hand: an error that
begins with "load:", or arrays; never another class of error, and never a value where the file's own
library refuses. Of the tuning file and the kernel cache: as if they were empty."""

from __future__ import annotations

import json
import pathlib
import tempfile
import warnings

import numpy as np

import cudamath as cm
from cudamath.core.dispatch import autotune
from cudamath.runtime import cubin_cache

_ALLOWED = ValueError, TypeError, OSError, MemoryError
_NUMPY_BEGINS = b"\x93NUMPY", b"PK"  # an array; an archive of arrays


def originals(folder):
    """Name -> the bytes of a file that `load` reads."""
    x = np.arange(12, dtype="f4").reshape(3, 4)
    trees = {
        "tree.safetensors": {
            "w": cm.asarray(x),
            "n": [1, 2.5, None, "text"],
            "b": (cm.asarray(x[0]),),
        },
        "quantized.safetensors": {"q": cm.ml.quantize(cm.asarray(np.ones((8, 64), "f4")), "int8")},
        "state.safetensors": cm.random.default_rng(0).state,
    }
    for name, tree in trees.items():
        cm.save(folder / name, tree)
    cm.save(folder / "x.npy", cm.asarray(x))
    cm.savez(folder / "x.npz", a=cm.asarray(x), b=cm.asarray(x[0]))
    cm.savez_compressed(folder / "y.npz", a=cm.asarray(x))
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def damaged(chance, content, others):
    """One of the ways in which bytes go wrong."""
    content = bytearray(content)
    way = chance.randrange(7)
    if way == 0:
        return bytes(content[: chance.randrange(len(content))])
    if way == 1:
        for _ in range(chance.choice([1, 1, 2, 8])):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif way == 2:
        content[chance.randrange(min(200, len(content)))] = chance.randrange(256)
    elif way == 3:
        at = chance.randrange(len(content))
        content[at:at] = chance.randbytes(chance.choice([1, 2, 8, 100]))
    elif way == 4:
        other = chance.choice(others)
        at = chance.randrange(min(len(content), len(other)))
        content[at:] = other[at:]
    elif way == 5:  # a digit: lengths and shapes
        digits = [i for i, c in enumerate(content[:2000]) if chr(c).isdigit()]
        if digits:
            content[chance.choice(digits)] = ord(chance.choice("0123456789-e."))
    else:
        at, n = chance.randrange(len(content)), chance.choice([1, 4, 8, 64])
        content[at : at + n] = bytes([chance.choice([0, 255])]) * len(content[at : at + n])
    return bytes(content)


def load_one(under, folder, name, content):
    path = folder / f"damaged-{name}"
    path.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cm.load(path)
    except _ALLOWED as error:
        if not str(error).startswith("load:"):
            under.violation(f"{name}: {type(error).__name__} without load: {error}")
    except BaseException as error:
        under.violation(f"{name}: {type(error).__name__}: {error}")
    else:
        if words := refused(path):
            under.violation(f"{name}: arrays, where its own library says {words}")


def refused(path):
    """What a file's own library, NumPy or safetensors, says against it; empty if nothing. Its first
    bytes tell which, as a damaged file may have become another's kind, whatever its name."""
    from safetensors.numpy import load_file

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.read_bytes().startswith(_NUMPY_BEGINS):
                found = np.load(path, allow_pickle=False)
                if not isinstance(found, np.ndarray):
                    with found:
                        list(found.values())
            else:
                load_file(path)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def tuning_one(under, chance, folder, content):
    """A tuning file that is damaged, or of another form, decides nothing it does not say."""
    path = pathlib.Path(folder / "tune.json")
    path.write_bytes(content)
    path.chmod(0o600)
    autotune.forget()
    try:
        found = autotune._read(path)
        for ops in found.values():
            for kinds in ops.values():
                for sizes in kinds.values():
                    for entry in sizes.values():
                        if not all(
                            isinstance(k, str) and 0 < v < float("inf") for k, v in entry.items()
                        ):
                            under.violation(f"a tuning file is believed: {entry}")
    except BaseException as error:
        under.violation(f"tuning: {type(error).__name__}: {error}")


def tree(chance, depth=0):
    """JSON of any form."""
    kind = chance.randrange(9 if depth < 4 else 6)
    if kind < 6:
        return chance.choice(
            [None, True, 0, -1, 2.5, 1e400, "", "x", "1x2", "float32", 10**30, "value"]
        )
    items = [tree(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 6:
        return items
    names = ["dict", "list", "array", "quantized", "shape", "version", "1x2x3", "matmul", "0"]
    return {chance.choice(names): item for item in items}


def crafted(chance):
    """A whole safetensors file, with a description of any form."""
    from safetensors.numpy import save

    arrays = {
        chance.choice(["w", "q.values", "q.scale", "0", ""]): np.ones(
            chance.choice([(), (0,), (3,), (2, 4)]), chance.choice(["f4", "i1", "u1", "f8"])
        )
        for _ in range(chance.randrange(3))
    }
    return save(arrays, {"cudamath": json.dumps(tree(chance))})


def kernels_one(under, chance, number):
    """A kernel cache that is damaged compiles again."""
    content = b"\x7fELF" + bytes([number % 256]) * 100
    key = f"kernel {number}"
    cubin_cache.cached_cubin(key, lambda: content)
    path = cubin_cache.place(key)
    path.write_bytes(damaged(chance, path.read_bytes(), [content]))
    got = cubin_cache.cached_cubin(key, lambda: content)
    if got != content:
        under.violation("a damaged kernel is loaded")
    path.unlink()


def attack(under, monkeypatch):
    chance = under.chance
    with tempfile.TemporaryDirectory() as name, cm.device(under.device):
        folder = pathlib.Path(name)
        (folder / "good").mkdir()
        monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(folder / "kernels"))
        files = originals(folder / "good")
        contents = list(files.values())
        form = {"version": 1, "H100": {"matmul": {"float16": {"1x256x128x512": {"sm90": 1.0}}}}}
        tuning = json.dumps(form).encode()
        while under.goes_on:
            for name, content in files.items():
                load_one(under, folder, name, damaged(chance, content, contents))
                under.tried += 1
            load_one(under, folder, "crafted.safetensors", crafted(chance))
            tuning_one(under, chance, folder, damaged(chance, tuning, contents))
            tuning_one(under, chance, folder, json.dumps(tree(chance)).encode())
            kernels_one(under, chance, under.tried)
            under.tried += 4
    autotune.forget()
