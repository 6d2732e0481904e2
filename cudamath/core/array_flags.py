"""`x.flags`: how an array lies in memory, by NumPy's names."""

from __future__ import annotations

from typing import NamedTuple

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
_DERIVED = "contiguous fnc forc fortran behaved carray farray writebackifcopy".split()


class Flags(NamedTuple):
    """Read-only facts; also by key: `x.flags["C_CONTIGUOUS"]`, `x.flags["F"]`.

    >>> import cudamath as cm
    >>> flags = cm.zeros((2, 3)).T.flags
    >>> flags.c_contiguous, flags["F_CONTIGUOUS"], flags.writeable
    (False, True, True)
    """

    c_contiguous: bool  # elements in C order without gaps
    f_contiguous: bool  # the same in Fortran's order
    owndata: bool  # not a view of another array's memory
    # assignments are allowed: no two elements share memory, and the memory is not read-only
    writeable: bool
    aligned: bool

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

    def __getitem__(self, key: object) -> bool:  # type: ignore[override]
        if isinstance(key, str):
            name = _SHORT.get(key, key.lower())
            if name in (*self._fields, *_DERIVED):
                return bool(getattr(self, name))
        raise KeyError(
            f"flags: no flag {key!r}; there are {', '.join(f.upper() for f in self._fields)}"
        )
