"""The protocols by which other libraries take an ndarray. `install` puts them on the class."""

from __future__ import annotations

from typing import Any

from ..array import ndarray
from ..devices import CPU
from ..dispatch.call_record import LENT, obstruct, open_records
from ..elements import expose
from ..export_guard import refuse_to_leave


def _dlpack(
    self: ndarray,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    from . import dlpack

    if self._node is not None:
        refuse_to_leave(self, "__dlpack__")
    if open_records:
        obstruct(LENT)
    return dlpack.export(self, stream, max_version, dl_device, copy)


def _dlpack_device(self: ndarray) -> tuple[int, int]:
    index = self._layout.device
    return (1, 0) if index == CPU else (2, index)


def _cuda_array_interface(self: ndarray) -> dict[str, Any]:
    from . import cuda_array_interface

    if open_records:
        obstruct(LENT)
    return cuda_array_interface.describe(self)


def _ptr(self: ndarray) -> int:
    """Address of the first element (host or device)."""
    if open_records:
        obstruct(LENT)
    if self._layout.device >= 0:
        expose(self)
    return self._address


def install() -> None:
    """Put the protocols on the class."""
    methods = {
        "__dlpack__": _dlpack,
        "__dlpack_device__": _dlpack_device,
        "__cuda_array_interface__": property(_cuda_array_interface),
        "ptr": property(_ptr),
    }
    for name, method in methods.items():
        setattr(ndarray, name, method)
