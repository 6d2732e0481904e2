"""Rows of Fourier transforms and linear algebra. cuFFT and cuSOLVER do the work for cudamath, CuPy
and torch alike. The differences are host time, copies around the library, and the choice of
routine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rows import PEERS, Bind, everywhere, row

Arguments = Callable[[np.random.Generator], tuple[np.ndarray, ...]]


def complexes(*shape: int) -> Arguments:
    """One array of complex standard normals, complex64."""
    return lambda rng: (
        rng.standard_normal((*shape, 2), dtype=np.float32).view(np.complex64)[..., 0],
    )


def reals(*shape: int) -> Arguments:
    """One array of standard normals, float32."""
    return lambda rng: (rng.standard_normal(shape, dtype=np.float32),)


def regular(*shape: int, dtype: Any = np.float32) -> Arguments:
    """Square matrices far from singular."""
    return lambda rng: (
        (rng.standard_normal(shape) + 2 * shape[-1] ** 0.5 * np.eye(shape[-1])).astype(dtype),
    )


def positive(*shape: int) -> Arguments:
    """Symmetric positive definite matrices, float32."""

    def make(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        x = rng.standard_normal(shape, dtype=np.float32)
        return (x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1], dtype=np.float32),)

    return make


def transform(name: str, **how: Any) -> Bind:
    """A function of `fft`; torch says dim where the others say axis."""

    def bind(lib: Any, x: Any) -> Callable[[], object]:
        function = getattr(lib.fft, name)
        options = {
            "dim" if lib.__name__ == "torch" and k == "axis" else k: v for k, v in how.items()
        }
        return lambda: function(x, **options)

    return bind


def solver(name: str) -> Bind:
    """A function of `linalg` on one argument."""

    def bind(lib: Any, x: Any) -> Callable[[], object]:
        function = getattr(lib.linalg, name)
        return lambda: function(x)

    return bind


N = 4096
for _name, _title, _make, _how, _bytes in (
    ("fft", "fft, 4096x4096 complex64", complexes(N, N), {}, 16 * N * N),
    (
        "fft_axis0",
        "fft along axis 0, 4096x4096 complex64",
        complexes(N, N),
        {"axis": 0},
        16 * N * N,
    ),
    ("ifft", "ifft, 4096x4096 complex64", complexes(N, N), {}, 16 * N * N),
    ("fft2", "fft2, 4096x4096 complex64", complexes(N, N), {}, 16 * N * N),
    ("fftn", "fftn, 256x256x256 complex64", complexes(256, 256, 256), {}, 16 * N * N),
    ("rfft", "rfft, 4096x4096 float32", reals(N, N), {}, 8 * N * N),
    ("irfft", "irfft, 4096x2049 complex64", complexes(N, N // 2 + 1), {}, 8 * N * N),
):
    row(
        _name,
        "device",
        _title,
        _make,
        everywhere(transform(_name.partition("_")[0], **_how), *PEERS),
        work=_bytes,
        unit="B",
    )
row(
    "host_fft",
    "host",
    "fft, 1,024 complex64",
    complexes(1024),
    everywhere(transform("fft"), *PEERS),
)
row("host_rfft", "host", "rfft, 1,024 float32", reals(1024), everywhere(transform("rfft"), *PEERS))

for _n in (512, 2048):
    row(
        f"inv_{_n}",
        "device",
        f"inv, {_n}x{_n}",
        regular(_n, _n),
        everywhere(solver("inv"), *PEERS),
        work=2 * _n**3,
        unit="FLOP",
    )
    row(
        f"det_{_n}",
        "device",
        f"det, {_n}x{_n}",
        regular(_n, _n),
        everywhere(solver("det"), *PEERS),
        work=2 * _n**3 / 3,
        unit="FLOP",
    )
    row(
        f"cholesky_{_n}",
        "device",
        f"cholesky, {_n}x{_n}",
        positive(_n, _n),
        everywhere(solver("cholesky"), *PEERS),
        work=_n**3 / 3,
        unit="FLOP",
    )
    row(
        f"qr_{_n}",
        "device",
        f"qr, {_n}x{_n}",
        regular(_n, _n),
        everywhere(solver("qr"), *PEERS),
        work=8 * _n**3 / 3,
        unit="FLOP",
    )
    row(
        f"eigh_{_n}",
        "device",
        f"eigh, {_n}x{_n}",
        positive(_n, _n),
        everywhere(solver("eigh"), *PEERS),
        work=9 * _n**3,
        unit="FLOP",
    )
    row(
        f"solve_{_n}",
        "device",
        f"solve, {_n}x{_n}, 8 right sides",
        lambda rng, n=_n: (*regular(n, n)(rng), rng.standard_normal((n, 8), dtype=np.float32)),
        everywhere(lambda lib, a, b: lambda: lib.linalg.solve(a, b), *PEERS),
        work=2 * _n**3 / 3,
        unit="FLOP",
    )
row("qr_64", "device", "qr, 64x64", regular(64, 64), everywhere(solver("qr"), *PEERS))
row("eigh_64", "device", "eigh, 64x64", positive(64, 64), everywhere(solver("eigh"), *PEERS))
row("svd_64", "device", "svd, 64x64", regular(64, 64), everywhere(solver("svd"), *PEERS))
row("svd_128", "device", "svd, 128x128", regular(128, 128), everywhere(solver("svd"), *PEERS))
for _n in (512, 2048):
    row(
        f"svd_{_n}",
        "device",
        f"svd, {_n}x{_n}",
        regular(_n, _n),
        everywhere(solver("svd"), *PEERS),
        work=21 * _n**3,
        unit="FLOP",
    )
row(
    "svd_512_float64",
    "device",
    "svd, 512x512 float64",
    regular(512, 512, dtype=np.float64),
    everywhere(solver("svd"), *PEERS),
    work=21 * 512**3,
    unit="FLOP",
)
row(
    "eig_64",
    "device",
    "eig, 64x64",
    regular(64, 64),
    everywhere(solver("eig"), "cudamath", "torch"),
)
for _name, _matrices in (
    ("inv", regular),
    ("cholesky", positive),
    ("eigh", positive),
    ("qr", regular),
    ("svd", positive),
):
    row(
        f"{_name}_batch",
        "device",
        f"{_name}, 1,000 of 16x16",
        _matrices(1000, 16, 16),
        everywhere(solver(_name), *PEERS),
    )
row("host_inv", "host", "inv, 16x16", regular(16, 16), everywhere(solver("inv"), *PEERS))
row(
    "host_cholesky",
    "host",
    "cholesky, 16x16",
    positive(16, 16),
    everywhere(solver("cholesky"), *PEERS),
)
