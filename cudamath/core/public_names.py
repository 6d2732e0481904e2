"""What `dir` shows of a public module, and so what an editor offers after its dot: the names that
are meant for users, without the imports that the module needs itself."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable


def public_dir(module: str, *modules: str) -> Callable[[], list[str]]:
    """The `__dir__` of a module.

    Its names are those of `__all__`. Without `__all__` they are all names that do not begin with an
    underscore and are no modules. The submodules that are public are given as `modules`. Python's
    own names (`__doc__`, `__version__`) stay.
    """

    def names() -> list[str]:
        space = vars(sys.modules[module])
        own = {name for name in space if name.startswith("__") and name.endswith("__")}
        public = space.get("__all__") or [
            name
            for name, value in space.items()
            if not name.startswith("_") and not isinstance(value, types.ModuleType)
        ]
        return sorted({*own, *public, *modules})

    return names
