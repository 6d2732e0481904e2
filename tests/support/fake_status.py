"""The fake driver's statuses and enumerations."""

from __future__ import annotations

import enum


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_INVALID_CONTEXT = 201
    CUDA_ERROR_INVALID_HANDLE = 400
    CUDA_ERROR_NOT_READY = 600
    CUDA_ERROR_ILLEGAL_ADDRESS = 700
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720
    CUDA_ERROR_NOT_SUPPORTED = 801
    CUDA_ERROR_INVALID_CONFIGURATION = 1000
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905


OK = CUresult.CUDA_SUCCESS
INVALID = CUresult.CUDA_ERROR_INVALID_VALUE


class Names:
    """An enumeration whose members are their names; only what the real one has exists."""

    def __init__(self, enumeration):
        try:
            from cuda.bindings import driver as real
        except ImportError:
            self._real = None
        else:
            self._real = getattr(real, enumeration)

    def __getattr__(self, name):
        if self._real is not None and not hasattr(self._real, name):
            raise AttributeError(name)
        return name
