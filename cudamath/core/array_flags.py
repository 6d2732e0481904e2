"""`x.flags`: how an array lies in memory, by NumPy's names."""

from __future__ import annotations

from typing import Any

_SHORT = {
    "C": "c_contiguous",
    "F": "f_contiguous",
    "O": "owndata",
    "W": "writeable",
    "A": "aligned",
    "X": "writebackifcopy",
    "B": "behaved",
    "CA": "carray",
    "FA": "farray",
}
_SHOWN = "c_contiguous f_contiguous owndata writeable aligned writebackifcopy".split()
_FACTS = "_array", "c_contiguous", "f_contiguous", "owndata", "_writeable", "aligned"
_DERIVED = "contiguous fnc forc fortran behaved carray farray".split()
_BITS = {"c_contiguous": 1, "f_contiguous": 2, "owndata": 4, "aligned": 0x100, "writeable": 0x400}


class Flags:
    """Facts by name and by key: `x.flags["C_CONTIGUOUS"]`, `x.flags["F"]`. Only `writeable` can be
    set, on the CPU.

    >>> import cudamath as cm
    >>> flags = cm.zeros((2, 3)).T.flags
    >>> flags.c_contiguous, flags["F_CONTIGUOUS"], flags.writeable
    (False, True, True)
    """

    __slots__ = _FACTS

    c_contiguous: bool  #: elements in C order without gaps
    f_contiguous: bool  #: the same in Fortran's order
    owndata: bool  #: not a view of another array's memory
    aligned: bool
    _writeable: bool
    _array: Any

    def __init__(
        self,
        array: Any,
        c_contiguous: bool,
        f_contiguous: bool,
        owndata: bool,
        writeable: bool,
        aligned: bool,
    ):
        facts = array, c_contiguous, f_contiguous, owndata, writeable, aligned
        for name, value in zip(_FACTS, facts, strict=True):
            object.__setattr__(self, name, value)

    @property
    def writeable(self) -> bool:
        """Assignments are allowed: no two elements share memory, and the memory is not
        read-only."""
        return self._writeable

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "writeable":
            raise AttributeError(f"flags: {name} cannot be set, only writeable")
        self._array.setflags(write=value)
        object.__setattr__(self, "_writeable", bool(value))

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"flags: {name} cannot be deleted")

    @property
    def contiguous(self) -> bool:
        """NumPy's other name of `c_contiguous`."""
        return self.c_contiguous

    @property
    def fnc(self) -> bool:
        """Fortran's order and not C's."""
        return self.f_contiguous and not self.c_contiguous

    @property
    def fortran(self) -> bool:
        """NumPy's other name of `f_contiguous`."""
        return self.f_contiguous

    @property
    def behaved(self) -> bool:
        """Aligned, and assignments are allowed."""
        return self.aligned and self.writeable

    @property
    def carray(self) -> bool:
        """Behaved, in C order."""
        return self.behaved and self.c_contiguous

    @property
    def farray(self) -> bool:
        """Behaved, in Fortran's order and not C's."""
        return self.behaved and self.fnc

    @property
    def writebackifcopy(self) -> bool:
        """Whether changes would be copied back into another array: never here."""
        return False

    @property
    def forc(self) -> bool:
        """Either order."""
        return self.f_contiguous or self.c_contiguous

    @property
    def num(self) -> int:
        """The facts as the bits of NumPy's C interface."""
        return sum([bit for name, bit in _BITS.items() if getattr(self, name)])

    def __getitem__(self, key: object) -> bool:
        return bool(getattr(self, _name_of(key)))

    def __setitem__(self, key: object, value: Any) -> None:
        name = _name_of(key)
        if name != "writeable":
            raise ValueError(f"flags: {name.upper()} cannot be set, only WRITEABLE")
        self.__setattr__("writeable", value)

    def __eq__(self, other: object) -> bool:
        return self.num == other.num if isinstance(other, Flags) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "".join([f"  {name.upper()} : {getattr(self, name)}\n" for name in _SHOWN])


def _name_of(key: object) -> str:
    """The attribute that a key means."""
    if isinstance(key, str):
        name = _SHORT.get(key, key.lower())
        if name in (*_SHOWN, *_DERIVED):
            return name
    raise KeyError(f"flags: no flag {key!r}; there are {', '.join(f.upper() for f in _SHOWN)}")
