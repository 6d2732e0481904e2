"""The description of a tree in the metadata of a safetensors file (`checkpoints.py`): nested lists,
which JSON can hold.

    ["dict", [[key, node], ...]]             keys are strings or integers
    ["list", [node, ...]]                    and ["tuple", [node, ...]]
    ["none"]
    ["array", name]                          an array of the file, and ["numpy", name]
    ["complex128", ["array", name]]          its numbers lie there as pairs of float64
    ["value", x]                             bool, int, float or str
    ["complex", re, im]
    ["quantized", [dtype, axis, group, shape], [["values", node], ["scale", node],
                                                ["zero_point", node]]]
    ["other", class, [[entry, node], ...]]   other registered classes, and named tuples

Whoever wrote the file may have written anything, so a description is checked as a whole before it
is followed: the form of every node, and whether quantized arrays fit their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .core import dtypes

__all__ = ["Description", "Header"]

_PARTS = ("values", "scale", "zero_point")


class Header(NamedTuple):
    """What the header of a file says of an array."""

    shape: tuple[int, ...]
    dtype: Any


class Description:
    """A description that was checked; ValueError for any other.

    Parameters
    ----------
    tree : object
        The outermost node, as JSON gave it.
    header : callable
        What the file's header says of the array of a name; None where there is none, which is for
        `load` to say.

    Attributes
    ----------
    leaves : list of (str, list)
        Name and node of each array and scalar. The name of an array is its path in the tree.
    quantized : dict of str to list
        [dtype, axis, group, shape] of each quantized array, by name.
    """

    def __init__(self, tree: Any, header: Callable[[str], Header | None]):
        self.tree: list = tree
        self.leaves: list[tuple[str, list]] = []
        self.quantized: dict[str, list] = {}
        self._header = header
        self._check(tree, "")
        names = [name for name, leaf in self.leaves if not is_scalar(leaf)]
        if len(set(names)) < len(names):
            raise ValueError("two arrays have the same name")

    def _check(self, node: Any, path: str) -> None:
        kind = node[0] if isinstance(node, list) and node else None
        check = self._CHECKS.get(kind) if isinstance(kind, str) else None
        if check is None:
            raise ValueError(f"{kind!r:.60} at {path or 'the top'} is nothing that a tree holds")
        if not check(self, path, *node[1:]):
            raise ValueError(
                f"the {kind} at {path or 'the top'} has another form: {node[1:]!r:.80}"
            )

    # Each of these checks what follows the kind of a node, and says whether it has the form above.

    def _dict(self, path: str, *rest: Any) -> bool:
        if not (_is_form(rest, list) and _are_pairs(rest[0])):
            return False
        keys = [key for key, _ in rest[0]]
        if any(type(key) not in (str, int) for key in keys) or len(set(keys)) < len(keys):
            return False
        return self._children(path, rest[0])

    def _sequence(self, path: str, *rest: Any) -> bool:
        return _is_form(rest, list) and self._children(path, list(enumerate(rest[0])))

    def _none(self, path: str, *rest: Any) -> bool:
        return not rest

    def _array(self, path: str, *rest: Any) -> bool:
        self.leaves.append((path or "array", [None, *rest]))
        return _is_form(rest, str) and rest[0] == (path or "array")

    def _complex128(self, path: str, *rest: Any) -> bool:
        if not (_is_form(rest, list) and len(rest[0]) == 2 and rest[0][0] in ("array", "numpy")):
            return False
        about = self._header(rest[0][1]) if isinstance(rest[0][1], str) else None
        paired = about is None or about.shape[-1:] == (2,) and about.dtype == dtypes.float64
        return self._array(path, rest[0][1]) and paired

    def _value(self, path: str, *rest: Any) -> bool:
        self.leaves.append((path or "array", ["value", *rest]))
        return len(rest) == 1 and type(rest[0]) in (bool, int, float, str)

    def _complex(self, path: str, *rest: Any) -> bool:
        self.leaves.append((path or "array", ["complex", *rest]))
        return [type(part) for part in rest] == [float, float]

    def _quantized(self, path: str, *rest: Any) -> bool:
        if not (_is_form(rest, list, list) and len(rest[0]) == 4 and _are_pairs(rest[1])):
            return False
        if tuple(key for key, _ in rest[1]) != _PARTS:
            return False
        kinds = [node[0] if isinstance(node, list) and node else None for _, node in rest[1]]
        if kinds not in (["array"] * 3, ["array", "array", "none"]):
            return False
        dtype, axis, group, shape = rest[0]
        if not isinstance(shape, list) or not self._children(path, rest[1]):
            return False
        self.quantized[path] = rest[0]
        values, scale, zero_point = [
            None if node[0] == "none" else self._header(node[1]) for _, node in rest[1]
        ]
        if values is None or scale is None or (zero_point is None) != (kinds[2] == "none"):
            return True  # an array that the file does not have, which `load` says
        from .ml.quantize import complaint  # ml is imported when it is needed

        problem = complaint(values, scale, zero_point, dtype, axis, group, tuple(shape))
        if problem:
            raise ValueError(f"the quantized array at {path or 'the top'} is none: {problem}")
        return True

    def _other(self, path: str, *rest: Any) -> bool:
        return _is_form(rest, str, list) and _are_pairs(rest[1]) and self._children(path, rest[1])

    def _children(self, path: str, pairs: Sequence[Any]) -> bool:
        for key, child in pairs:
            self._check(child, f"{path}.{key}" if path else str(key))
        return True

    _CHECKS = {
        "dict": _dict,
        "list": _sequence,
        "tuple": _sequence,
        "none": _none,
        "array": _array,
        "numpy": _array,
        "complex128": _complex128,
        "value": _value,
        "complex": _complex,
        "quantized": _quantized,
        "other": _other,
    }


def is_scalar(leaf: list) -> bool:
    """Whether a leaf is a Python scalar, and not an array."""
    return leaf[0] in ("value", "complex")


def _is_form(rest: Sequence[Any], *kinds: type) -> bool:
    return [type(each) for each in rest] == list(kinds)


def _are_pairs(children: list) -> bool:
    return all(isinstance(each, list) and len(each) == 2 for each in children)
