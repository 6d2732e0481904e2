"""A stand-in for cuFFT, for what planners ask of it where there is no GPU."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

from cudamath.runtime import cufft, library_paths


class FakeFFT:
    """A stand-in for cuFFT: transforms host memory as a plan's embeds, steps and batch say. So what
    the planners ask for is checked where there is no GPU."""

    class cuFFTError(Exception):
        pass

    def __init__(self) -> None:
        self.plans: dict[int, tuple] = {}
        self.areas: dict[int, int] = {}
        self.streams: dict[int, int] = {}
        self.work = 0
        self.made = self.destroyed = 0

    def create(self) -> int:
        self.made += 1
        return self.made

    def destroy(self, handle: int) -> None:
        self.destroyed += 1
        self.plans.pop(handle, None)

    def set_auto_allocation(self, handle: int, on: int) -> None:
        assert on == 0

    def make_plan_many64(self, handle: int, rank: int, n: Any, *rest: Any) -> int:
        assert rank == len(n) <= 3
        if n == (666,):
            raise self.cuFFTError("CUFFT_ALLOC_FAILED")
        self.plans[handle] = (tuple(n), *rest)
        return self.work

    def set_stream(self, handle: int, ptr: int) -> None:
        self.streams[handle] = ptr

    def set_work_area(self, handle: int, address: int) -> None:
        self.areas[handle] = address

    def _run(
        self, handle: int, x: int, y: int, kinds: tuple[str, str], direction: int = -1
    ) -> None:
        n, embed_x, step_x, batch_x, embed_y, step_y, batch_y, _, batch = self.plans[handle]
        half = (*n[:-1], n[-1] // 2 + 1)
        shape_x = half if kinds[1][0] == "f" else n
        shape_y = half if kinds[0][0] == "f" else n

        def seen(
            address: int, dtype: str, shape: tuple, embed: tuple, step: int, between: int
        ) -> np.ndarray:
            assert all(e >= s for e, s in zip(embed[1:], shape[1:], strict=True))
            steps = [step]
            for e in embed[:0:-1]:
                steps.insert(0, steps[0] * e)
            item = np.dtype(dtype).itemsize
            assert address % (np.dtype(dtype).itemsize * (2 if dtype[0] == "f" else 1)) == 0, (
                "not aligned"
            )
            holder = types.SimpleNamespace(
                __array_interface__={
                    "data": (address, False),
                    "shape": (batch, *shape),
                    "typestr": np.dtype(dtype).str,
                    "version": 3,
                    "strides": (between * item, *(s * item for s in steps)),
                }
            )
            return np.asarray(holder)

        source = seen(x, kinds[0], shape_x, embed_x, step_x, batch_x).copy()
        target = seen(y, kinds[1], shape_y, embed_y, step_y, batch_y)
        axes = tuple(range(1, len(n) + 1))
        if kinds[0][0] == "f":
            target[...] = np.fft.rfftn(source, axes=axes)
        elif kinds[1][0] == "f":
            target[...] = np.fft.irfftn(source, n, axes, norm="forward")
            seen(x, kinds[0], shape_x, embed_x, step_x, batch_x)[...] = (
                np.nan
            )  # cuFFT destroys its input here
        else:
            target[...] = (
                np.fft.fftn(source, axes=axes)
                if direction < 0
                else np.fft.ifftn(source, axes=axes, norm="forward")
            )

    def __getattr__(self, name: str) -> Any:
        kinds = {
            "c2c": ("c8", "c8"),
            "r2c": ("f4", "c8"),
            "c2r": ("c8", "f4"),
            "z2z": ("c16", "c16"),
            "d2z": ("f8", "c16"),
            "z2d": ("c16", "f8"),
        }[name.removeprefix("exec_")]
        return lambda handle, x, y, *direction: self._run(handle, x, y, kinds, *direction)


def installed(monkeypatch: pytest.MonkeyPatch) -> FakeFFT:
    """The stand-in, in cuFFT's place."""
    library = FakeFFT()
    monkeypatch.setattr(cufft, "_bindings", lambda: library)
    monkeypatch.setattr(
        library_paths,
        "find",
        lambda name: types.SimpleNamespace(path="there", looked="", remedy=""),
    )
    return library
