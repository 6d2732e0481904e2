"""Trees of arrays in files: `save` and `load`, in the safetensors format that other libraries read
and write too.

A safetensors file is a JSON header (name -> dtype, shape, place; and metadata of strings) and then
the arrays' bytes. The name of an array is its path in the tree, joined with dots: `{"layer":
[{"weight": w}]}` gives "layer.0.weight". What the format has no place for, the tree's own shape and
its Python scalars, is written into the metadata, so that `load` gives back what was saved.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import optree

from .core import dtypes
from .core.array import ndarray
from .core.asarray import asarray, upload
from .core.devices import CPU, index_of
from .core.typing import DeviceLike, Tree
from .numpy_files import on_host, open_regular, path_of, read, without_objects, write_array
from .runtime.files import naming, whole_file
from .tree_description import Description, Header, is_scalar

__all__ = ["load", "load_metadata", "save"]

Path = str | os.PathLike[str]

_OURS = "cudamath"  # the entry of the metadata that describes the tree
_MOST_AXES, _MOST_NUMBERS = 64, 1 << 59  # of an array: NumPy's; and 2^63 bytes of 16 each
_SHOWN = 8  # complaints listed in one message
_SCALARS = (bool, int, float, complex, str)
_DTYPES = {
    "BOOL": np.dtype(np.bool_),
    "I8": np.dtype(np.int8),
    "I16": np.dtype(np.int16),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "U8": np.dtype(np.uint8),
    "U16": np.dtype(np.uint16),
    "U32": np.dtype(np.uint32),
    "U64": np.dtype(np.uint64),
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
    "C64": np.dtype(np.complex64),
    "F8_E4M3": dtypes.float8_e4m3,
    "F8_E5M2": dtypes.float8_e5m2,
}


def _library() -> Any:
    try:
        import safetensors
    except ImportError as error:
        raise ImportError(
            f"save, load: {error}; pip install 'cudamath[io]' brings what they need"
        ) from error
    return safetensors


# -------------------- trees

# The forms of a description are those of tree_description.py.


def _describe(node: Any, path: str, found: dict[str, np.ndarray]) -> list:
    """The description of a tree; puts its arrays, on the host and in C order, into `found`."""
    if node is None:
        return ["none"]
    if isinstance(node, (ndarray, np.ndarray, np.generic)):
        return _describe_array(node, path, found)
    if type(node) is complex:
        return ["complex", node.real, node.imag]
    if type(node) in _SCALARS:
        return ["value", node]

    def inside(items: Iterable[tuple[Any, Any]]) -> list:
        return [
            _describe(child, f"{path}.{key}" if path else str(key), found) for key, child in items
        ]

    if isinstance(node, dict):  # an OrderedDict too, which becomes a dict
        for key in node:
            if type(key) not in (str, int):
                raise TypeError(
                    f"save: wants dict keys that are strings or integers, got {key!r} at "
                    f"{path or 'the top'}"
                )
        return ["dict", [list(pair) for pair in zip(node, inside(node.items()), strict=True)]]
    if type(node) in (list, tuple):
        return [type(node).__name__, inside(enumerate(node))]
    if optree.tree_is_leaf(node):
        raise TypeError(
            f"save: wants a tree of arrays and Python scalars, got {type(node).__name__} at "
            f"{path or 'the top'}" + ("; save its .state" if hasattr(node, "state") else "")
        )
    children, _, entries, _ = optree.tree_flatten_one_level(node)
    described = [
        list(pair)
        for pair in zip(entries, inside(zip(entries, children, strict=True)), strict=True)
    ]
    from .ml.quantize import Quantized  # ml is imported when it is needed

    if type(node) is Quantized:
        return ["quantized", [node.dtype, node.axis, node.group, node.shape], described]
    return ["other", type(node).__name__, described]


def _describe_array(x: Any, path: str, found: dict[str, np.ndarray]) -> list:
    name = path or "array"
    if name == "__metadata__":
        raise ValueError(f"save: {name!r} is the format's own name, of no array")
    if name in found:
        raise ValueError(
            f"save: two arrays of the tree have the same name {name!r} (a key with a dot in it?)"
        )
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"save: a mask would be lost of {x.dtype} of shape {x.shape} at {name}: give "
            "x.filled(value)"
        )
    host = np.asarray(x._alias().to_numpy() if isinstance(x, ndarray) else x, order="C")
    if not host.dtype.isnative:
        host = host.astype(host.dtype.newbyteorder("="))
    described: list = ["array" if isinstance(x, ndarray) else "numpy", name]
    if host.dtype == np.complex128:  # the format has only complex64: pairs of (real, imaginary)
        described = ["complex128", described]
        host = host[..., None].view(np.float64)
    if host.dtype not in _DTYPES.values():
        raise TypeError(
            f"save: arrays of {host.dtype} are not supported, got shape {host.shape} at {name}"
        )
    found[name] = host
    return described


def _rebuild(node: list, take: Callable[[str, str], Any], path: str = "the top") -> Any:
    """The tree of a description that was checked; `take(kind, name)` gives its arrays."""
    kind, *rest = node
    if kind == "dict":
        return {key: _rebuild(child, take, f"{path} {key}") for key, child in rest[0]}
    if kind in ("list", "tuple"):
        children = [_rebuild(child, take, f"{path} {i}") for i, child in enumerate(rest[0])]
        return children if kind == "list" else tuple(children)
    if kind == "quantized":
        values, scale, zero_point = [
            _rebuild(child, take, f"{path} {key}") for key, child in rest[1]
        ]
        from .ml.quantize import Quantized

        dtype, axis, group, shape = rest[0]
        return Quantized(values, scale, zero_point, dtype, axis, group, tuple(shape))
    if kind == "other":
        raise ValueError(
            f"load: the tree that was saved has a {rest[0]} at {path}; pass like= a tree of the "
            "same structure"
        )
    if kind == "complex128":
        return _paired(take(*rest[0]))
    if kind in ("value", "complex"):
        return _value(node)
    return None if kind == "none" else take(kind, rest[0])


def _value(leaf: list) -> Any:
    return leaf[1] if leaf[0] == "value" else complex(*leaf[1:])


def _paired(x: Any) -> Any:
    """Complex numbers from their (real, imaginary) pairs."""
    if isinstance(x, np.ndarray):
        return x.view(np.complex128)[..., 0]
    layout = x._layout
    return x._view(layout.view(layout.shape[:-1], layout.strides[:-1], 0, np.dtype(np.complex128)))


# -------------------- save


def save(
    path: Path, tree: Tree, *, metadata: Mapping[str, str] | None = None, allow_pickle: bool = False
) -> None:
    """Write a tree of arrays and Python scalars to a safetensors file.

    One array, or an object that becomes one (a number, a nested list of numbers), goes to a file
    that is open for writing or whose name ends with .npy.

    The file appears whole or not at all: it is written under another name beside its place and
    renamed. The previous file is replaced at that moment, and stays if writing fails.

    Parameters
    ----------
    path : path
        Of the file; its folder must exist.
    tree : tree
        Any nesting of dicts (keys: strings or integers; an OrderedDict comes back as a dict),
        lists, tuples, None, quantized arrays (`ml.quantize`) and classes registered with optree;
        its leaves are arrays on any device or NumPy arrays, of any shape and any dtype of cudamath,
        and Python scalars (bool, int, float, complex, str). The state of a random generator
        (`rng.state`) and of an optimizer are such trees: a run that saves these with its parameters
        goes on bit for bit.
    metadata : mapping of str to str, optional
        Put into the header; `load_metadata` reads it.
    allow_pickle : bool, optional
        NumPy's, and False: Python objects are not written.

    Raises
    ------
    ImportError
        Safetensors is missing (`pip install 'cudamath[io]'`).
    TypeError
        A leaf or a key that a file cannot hold, or metadata that are not strings.
    ValueError
        Two arrays whose paths, joined with dots, are the same, or one that is "__metadata__";
        metadata with the key "cudamath"; allow_pickle that is True.
    OSError
        The file cannot be written.

    Notes
    -----
    Arrays on a GPU are copied to the host first, all of them: it needs that much memory.
    complex128, which the format lacks, is stored as pairs of float64.

    References
    ----------
    .. [1] The safetensors format, https://huggingface.co/docs/safetensors.

    Examples
    --------
    >>> import cudamath as cm, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> cm.save(path, {"w": cm.ones((2, 3)), "step": 7}, metadata={"made": "for an example"})
    >>> tree = cm.load(path)
    >>> tree["w"].shape, tree["step"], cm.load_metadata(path)
    ((2, 3), 7, {'made': 'for an example'})
    """
    without_objects("save", allow_pickle)
    opened = hasattr(path, "write")
    target = "" if opened else path_of("save", path)
    if opened or target.endswith(".npy"):
        if isinstance(tree, (list, tuple, bool, int, float, complex, np.generic)):
            tree = asarray(tree, device="cpu", name="save")
        if not isinstance(tree, (ndarray, np.ndarray)) or metadata:
            raise TypeError(
                f"save: an .npy file holds one array and no metadata, got {type(tree).__name__} "
                f"and {metadata!r}"
            )
        host = on_host("save", tree)
        if opened:
            with naming("save", path):
                write_array(path, host)
            return
        with whole_file("save", target) as beside, open(beside, "wb") as file:
            write_array(file, host)
        return
    library = _library()
    try:
        entries = dict(metadata or {})
    except (TypeError, ValueError):
        raise TypeError(
            f"save: wants metadata as a mapping of strings, got {type(metadata).__name__}"
        ) from None
    for key, value in entries.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"save: wants metadata of strings, got {key!r}: {value!r}")
    if _OURS in entries:
        raise ValueError(f"save: the metadata key {_OURS!r} is the package's own")
    found: dict[str, np.ndarray] = {}
    try:
        entries[_OURS] = json.dumps(_describe(tree, "", found))
    except RecursionError:
        raise ValueError("save: the tree is nested too deeply, or holds itself") from None
    specs = {
        name: library.TensorSpec(
            dtype=host.dtype.name, shape=host.shape, data_ptr=host.ctypes.data, data_len=host.nbytes
        )
        for name, host in found.items()
    }
    try:
        with whole_file("save", target) as beside:
            library.serialize_file(specs, beside, metadata=entries)
    except UnicodeEncodeError as error:
        raise ValueError(f"save: wants names and metadata that UTF-8 can hold: {error}") from None
    except library.SafetensorError as error:
        raise OSError(f"save: cannot write {target}: {error}") from error


# -------------------- load


class _File:
    """An open safetensors file, found whole: header, metadata and arrays as they lie in it."""

    def __init__(self, path: Path):
        library = _library()
        name = path_of("load", path)
        with open_regular(name) as file:
            try:
                with library.safe_open(
                    name, framework="np"
                ):  # checks the header and that the arrays cover the file
                    pass
            except library.SafetensorError as error:
                raise ValueError(
                    f"load: {name} is not a whole safetensors file: {error}"
                ) from error
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        begin = 8 + int.from_bytes(self.bytes[:8], "little")
        header = json.loads(self.bytes[8:begin])
        self.metadata: dict[str, str] = header.pop("__metadata__", {})
        self.entries: dict[str, dict[str, Any]] = header
        self.begin = begin
        for entry in header:
            self._check_entry(name, entry)
        described = self.metadata.pop(_OURS, None)
        try:
            self.description = Description(
                ["none"] if described is None else json.loads(described), self.header
            )
        except RecursionError:
            raise ValueError(
                f"load: {name} describes its tree by lists nested too deeply"
            ) from None
        except ValueError as error:
            raise ValueError(
                f"load: {name} is damaged where it describes its tree: {error}"
            ) from error
        self.described = described is not None

    def _check_entry(self, name: str, entry: str) -> None:
        about = self.entries[entry]
        shape = tuple(about["shape"])
        if about["dtype"] not in _DTYPES:
            raise TypeError(
                f"load: {name} holds {entry!r} of {about['dtype']}, shape {shape}; that is "
                f"no dtype of arrays here ({', '.join(_DTYPES)})"
            )
        # an array of no numbers may have long axes besides the empty one
        if len(shape) > _MOST_AXES or math.prod(filter(None, shape)) >= _MOST_NUMBERS:
            raise ValueError(
                f"load: {name} holds {entry!r} of {about['dtype']}, which no array can be: shape "
                f"{shape!s:.100}"
            )

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.entries[name]["shape"])

    def dtype(self, name: str) -> np.dtype:
        return _DTYPES[self.entries[name]["dtype"]]

    def header(self, name: str) -> Header | None:
        """What the header says of an array, None where it has none of that name."""
        return Header(self.shape(name), self.dtype(name)) if name in self.entries else None

    def read(self, name: str, index: int | None) -> Any:
        """An array of the file on a device number; None: a NumPy array."""
        shape, dtype = self.shape(name), self.dtype(name)
        at = self.begin + self.entries[name]["data_offsets"][0]
        seen = np.frombuffer(self.bytes, dtype, math.prod(shape), at).reshape(shape)
        if index is None:
            return seen.copy()
        return upload(
            seen.copy() if index == CPU else seen, index
        )  # the copy is writeable, and not the file's


def load(
    path: Path,
    like: Tree | None = None,
    *,
    device: DeviceLike | None = None,
    mmap_mode: str | None = None,
    allow_pickle: bool = False,
) -> Any:
    """Read a tree of arrays from a safetensors file, or from NumPy's .npy and .npz files.

    The whole file is checked, and with `like` every array of it, before the first array is made:
    nothing is half loaded.

    Parameters
    ----------
    path : path
        A file that `save` wrote, or any other safetensors file: one with the weights of a model,
        say; or NumPy's, told by its first bytes: an .npz file gives a dict, name -> array, that
        also has NumPy's `files`. NumPy's may be open files.
    like : tree, optional
        A tree of the structure wanted, with arrays (or anything that has `shape` and `dtype`) and
        scalars as its leaves. The file must hold exactly these: the same names, shapes, dtypes and
        types of scalars.
    device : device, optional
        Where the arrays go: by default to the default device, or, with `like`, where the arrays of
        `like` are.
    mmap_mode : None, "r" or "c", optional
        NumPy's: the file is read, and no change of an array goes back to it.
    allow_pickle : bool, optional
        NumPy's, and False: Python objects are not read.

    Returns
    -------
    tree
        With `like`, of its structure. Without, what was saved: NumPy arrays come back as NumPy
        arrays, on the host. A file of another library gives a flat dict, name -> array.

    Raises
    ------
    ImportError
        Safetensors is missing (`pip install 'cudamath[io]'`).
    FileNotFoundError
        There is no such file.
    OSError
        It is a folder, a pipe or a device, or cannot be read.
    ValueError
        The file is damaged or cut off, or it says of itself what cannot be; it does not hold what
        `like` asks for (every array that is missing, superfluous, of another shape or quantized by
        other rules is named); or it holds a named tuple or a registered class other than
        `Quantized`, and there is no `like`; mmap_mode that writes into the file; allow_pickle that
        is True.
    TypeError
        Arrays of dtypes other than those of `like`, or of dtypes that are not supported.
    MemoryError
        Not enough memory. An .npz archive is read whole, and may hold much more than its own size.
    DeviceError, OutOfMemoryError
        There is no such device, or not enough memory on it.

    Examples
    --------
    >>> import cudamath as cm, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> params = {"w": cm.ones((2, 3)), "b": cm.zeros(2)}
    >>> cm.save(path, params)
    >>> cm.load(path, like=params)["w"].shape
    (2, 3)
    >>> cm.load(path, like={"w": cm.ones((3, 2))})
    Traceback (most recent call last):
    ...
    ValueError: load: ... does not fit: w is float64 of shape (2, 3), wanted (3, 2); b is not wanted
    """
    without_objects("load", allow_pickle)
    if mmap_mode not in (None, "r", "c"):
        raise ValueError(
            "load: mmap_mode is None, 'r' or 'c', as arrays do not write into their file; got "
            f"{mmap_mode!r}"
        )
    path = path if hasattr(path, "read") else path_of("load", path)
    found = read(path, device) if like is None else None
    if found is not None:
        return found
    file = _File(path)
    if like is not None:
        return _load_like(path, file, like, device)
    index = index_of(device)
    if not file.described:
        return {name: file.read(name, index) for name in file.entries}
    leaves = file.description.leaves
    unlike = set(file.entries) ^ {name for name, leaf in leaves if not is_scalar(leaf)}
    if unlike:
        raise ValueError(
            f"load: {os.fspath(path)} does not hold the arrays that it describes: "
            f"{_listed(sorted(unlike))}"
        )
    return _rebuild(
        file.description.tree,
        lambda kind, name: file.read(name, index if kind == "array" else None),
    )


def _load_like(path: Path, file: _File, like: Any, device: Any) -> Any:
    try:
        leaves, structure = optree.tree_flatten(like)
        names = [".".join(map(str, entries)) or "array" for entries in optree.tree_paths(like)]
    except RecursionError:
        raise ValueError("load: like is nested too deeply, or holds itself") from None
    described = file.description.leaves
    for what, held in (("like", names), (os.fspath(path), [name for name, _ in described])):
        twice = next((name for name, count in Counter(held).items() if count > 1), None)
        if twice is not None:
            raise ValueError(
                f"load: two leaves of {what} have the same name {twice!r} (a key with a dot in it?)"
            )
    scalars = {name: _value(leaf) for name, leaf in described if is_scalar(leaf)}
    problems, types = _misfits(file, names, leaves, scalars)
    problems += _quantized_otherwise(file, like)
    if problems or types:
        error = ValueError if problems else TypeError
        raise error(f"load: {os.fspath(path)} does not fit: {_listed(problems + types)}")
    chosen = None if device is None else index_of(device)
    results = []
    for name, leaf in zip(names, leaves, strict=True):
        if name in scalars:
            results.append(scalars[name])
            continue
        place: int | None
        if isinstance(leaf, (np.ndarray, np.generic)):
            place = None
        elif chosen is not None:
            place = chosen
        else:
            place = leaf._layout.device if isinstance(leaf, ndarray) else index_of(None)
        x = file.read(name, place)
        results.append(_paired(x) if leaf.dtype == np.complex128 else x)
    return structure.unflatten(results)


def _misfits(
    file: _File, names: list[str], leaves: list[Any], scalars: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """What a file has otherwise than is wanted: (what is missing, of another shape or too many;
    what is of another type)."""
    problems, types = [], []
    for name, leaf in zip(names, leaves, strict=True):
        if type(leaf) in _SCALARS:
            if name not in scalars:
                problems.append(
                    f"the scalar {name} is " + ("an array" if name in file.entries else "missing")
                )
            elif type(scalars[name]) is not type(leaf):
                types.append(
                    f"{name} is the {type(scalars[name]).__name__} {scalars[name]!r}, wanted "
                    f"{type(leaf).__name__}"
                )
        elif not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise TypeError(
                f"load: wants arrays and Python scalars in like, got {type(leaf).__name__} at "
                f"{name}"
            )
        elif name not in file.entries:
            problems.append(f"{name} is " + ("a scalar" if name in scalars else "missing"))
        else:
            paired = leaf.dtype == np.complex128
            shape, dtype = (
                (*leaf.shape, 2) if paired else tuple(leaf.shape),
                dtypes.float64 if paired else leaf.dtype,
            )
            if file.shape(name) != shape:
                problems.append(
                    f"{name} is {file.dtype(name)} of shape {file.shape(name)}, wanted {shape}"
                )
            elif file.dtype(name) != dtype:
                types.append(f"{name} is {file.dtype(name)} of shape {shape}, wanted {dtype}")
    known = set(names)
    problems += [f"{name} is not wanted" for name in [*file.entries, *scalars] if name not in known]
    return problems, types


def _quantized_otherwise(file: _File, like: Any) -> list[str]:
    """Quantized arrays of `like` that the file has by other rules, or that are none: their parts do
    not fit each other."""
    from .ml.quantize import Quantized, complaint

    problems = []
    paths, nodes, _ = optree.tree_flatten_with_path(
        like, is_leaf=lambda node: type(node) is Quantized
    )
    for entries, q in zip(paths, nodes, strict=True):
        if type(q) is not Quantized:
            continue
        name = ".".join(map(str, entries))
        wanted = [q.dtype, q.axis, q.group, list(q.shape)]
        present = file.description.quantized.get(name, wanted)
        problem = complaint(
            q.values, q.scale, q.zero_point, q.dtype, q.axis, q.group, tuple(q.shape)
        )
        if present != wanted:
            problems.append(
                f"{name or 'the array'} is quantized by (dtype, axis, group, shape) = {present}, "
                f"wanted {wanted}"
            )
        elif problem:
            problems.append(f"{name or 'the array'} is wanted as a quantized array, but {problem}")
    return problems


def _listed(problems: list[str]) -> str:
    more = len(problems) - _SHOWN
    return "; ".join(problems[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def load_metadata(path: Path) -> dict[str, str]:
    """Read the metadata in the header of a safetensors file, as passed to `save`.

    Raises as `load`.

    Parameters
    ----------
    path : path
        A file that `save` wrote, or any other safetensors file: one with the weights of a model,
        say; or NumPy's, told by its first bytes: an .npz file gives a dict, name -> array, that
        also has NumPy's `files`. NumPy's may be open files.

    Returns
    -------
    dict
        The metadata.

    Raises
    ------
    ImportError
        Safetensors is missing (`pip install 'cudamath[io]'`).
    FileNotFoundError
        There is no such file.
    ValueError
        The file is damaged or cut off; it does not hold what `like` asks for (every array that is
        missing, superfluous or of another shape is named); or it holds a named tuple or a
        registered class other than `Quantized`, and there is no `like`; mmap_mode that writes into
        the file; allow_pickle that is True.
    TypeError
        Arrays of dtypes other than those of `like`, or of dtypes that are not supported.
    DeviceError, OutOfMemoryError
        There is no such device, or not enough memory on it.

    Examples
    --------
    >>> import cudamath as cm, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> cm.save(path, [cm.zeros(3)], metadata={"loss": "1.25"})
    >>> cm.load_metadata(path)
    {'loss': '1.25'}
    """
    return _File(path).metadata
