"""Random problems of SciPy's functions, for benchmarks/scipy_libraries.py.

A problem is one expression, which is written once and runs in every library that has SciPy's names
(`module` is cudamath, cupyx.scipy, jax.scipy, or SciPy itself), and its arguments. SciPy in float64
tells the truth: where the problem is large, of a part of it.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from benchmarks import sparse
from benchmarks.planner_cases import Case, pick
from benchmarks.support import REGIONS, linear, powers, special_regions

SMALL, LARGE = 1 << 10, 1 << 26  # elements of a problem
BLOCK = 1 << 18  # random numbers drawn for it: more elements repeat them
POINTS = 4096  # of an elementwise result, that SciPy computes
CHECKED = 1 << 22  # elements of other results, that SciPy computes
DTYPES = ("float32", "float64")
COMPLEX = {"float32": "complex64", "float64": "complex128"}
Expression = Callable[..., Any]


def same(module: Any, *arrays: Any) -> tuple:
    return arrays


def itself(result: Any) -> Any:
    return result


class Work(NamedTuple):
    """One problem. `prepare(module, *arrays)` makes the expression's arguments of a library's
    arrays before anything is timed. `part` of every array and of the result is what is compared.
    `seen(result)` is compared, so that signs and orders that are free do not
    count; it should be `exact(*arrays)`, if that is there, not what SciPy finds. Errors are divided
    by the largest number, in `elementwise` work by each. They may be `resolution`, where that says
    more than the dtype."""

    expression: Expression
    arrays: tuple[np.ndarray, ...]
    part: Any = ...
    prepare: Expression = same
    seen: Callable[[Any], Any] = itself
    exact: Expression | None = None
    elementwise: bool = False
    resolution: float = 0.0


def elements(draw: random.Random, low: int, high: int) -> int:
    """A number whose logarithm lies evenly: a power of two, or one that nobody chose."""
    n = round(math.exp(draw.uniform(math.log(min(low, high)), math.log(high))))
    return pick(draw, (n, 2), (1 << (n.bit_length() - 1), 1))


def case_generator(case: Case) -> np.random.Generator:
    return np.random.default_rng(case["seed"])


def of_digits(x: Any, dtype: str) -> Any:
    """In that dtype, complex numbers in one of the same digits; whole numbers as they are."""
    kinds = {"f": dtype, "c": COMPLEX[dtype]}
    return x.astype(kinds.get(x.dtype.kind, x.dtype))


def wide(x: Any) -> Any:
    """In float64 or complex128; whole numbers as they are."""
    return of_digits(x, "float64")


# -------------------- special functions

U, P = linear, powers


#: Magnitudes of arguments: normal numbers of float32.
NORMAL = (1e-37, 1e37)


def orders(low: int, high: int) -> Callable:
    """Whole numbers, of a dtype of whole numbers."""
    return lambda rng, n: rng.integers(low, high + 1, n)


#: What tests/support/special_domains.py has no mpmath formulas of; a number is a number.
MORE: dict[str, list[tuple]] = {
    "cbrt": [(U(-5, 5),), (P(1e-30, 1e30),)],
    "exp2": [(U(-5, 5),)],
    "expm1": [(U(-5, 5),), (P(1e-30, 1),)],
    "log1p": [(U(-0.9, 5),), (P(1e-30, 1),)],
    "round": [(U(-50, 50),)],
    "sinc": [(U(-20, 20),)],
    "wofz": [(U(-6, 6),)],
    "gammasgn": [(U(-20, 20),)],
    "psi": [(U(0, 3),), (U(3, 60),)],
    "sici": [(U(-2, 2),), (U(2, 60),)],
    "shichi": [(U(-2, 2),), (U(2, 60),)],
    "ellipj": [(U(-5, 5), U(0, 1))],
    "polygamma": [(orders(1, 5), U(0.1, 5)), (orders(1, 5), P(5, 1e5))],
    "spherical_yn": [(orders(0, 20), U(0.5, 60))],
    "multigammaln": [(U(3, 30), 3)],
    "sph_harm_y": [(orders(0, 8), orders(-8, 8), U(0, 3.1), U(0, 6.2))],
}
ALONG = ("logsumexp", "softmax", "log_softmax")  # of rows
OURS_ALONE = ("jn",)  # SciPy's other name of jv, which no other library has
#: Functions of loops: a large problem would take seconds.
LOOPS = (
    "incinv|gammaincc?|betaincc?|bdtr|bdtri|nbdtr|chdtr|gdtr|pdtr|fdtr|stdtr|zeta|lpmv|sph_harm|"
    "expn|yn|ellip|sici|shichi|lambertw|polygamma|poch|binom"
).split("|")
SPECIAL = {
    **{name: regions for name, regions in REGIONS.items() if "[" not in name},
    **MORE,
}
for name in OURS_ALONE:
    del SPECIAL[name]


def special_cases(draw: random.Random, most: int) -> Iterator[Case]:
    """Every function in both dtypes, in random order; places in its domain from one region."""
    names = [(name, dtype) for name in (*SPECIAL, *ALONG) for dtype in DTYPES]
    draw.shuffle(names)
    for name, dtype in names:
        slow = any(part in name for part in LOOPS)
        case = {"name": name, "dtype": dtype, "seed": draw.randrange(1 << 30)}
        n = elements(draw, SMALL, most >> 4 if slow else most)
        if name in ALONG:
            width = min(pick(draw, (10, 1), (100, 1), (1000, 2), (32768, 1)), n)
            yield {**case, "shape": [n // width, width]}
        else:
            yield {**case, "n": n, "region": draw.randrange(len(SPECIAL[name]))}


def first_of(value: Any, *_: Any) -> Any:
    return value


def special(case: Case) -> Work:
    """Among the arguments are the points of which mpmath's values are known, if there are any: in
    places SciPy's lose half of their digits."""
    rng, name = case_generator(case), case["name"]
    if name in ALONG:
        m, n = case["shape"]
        x = np.resize(rng.standard_normal(min(m * n, BLOCK)).astype(case["dtype"]), (m, n))
        return Work(
            lambda module, x: getattr(module.special, name)(x, axis=1),
            (x,),
            slice(0, max(1, BLOCK // n)),
        )
    region, n = SPECIAL[name][case["region"]], case["n"]
    drawn: list[Any] = []
    for each in region:
        if callable(each):
            x = each(rng, min(n, BLOCK))
            drawn.append(
                x.astype(np.int32)
                if x.dtype.kind == "i"
                else np.copysign(np.clip(np.abs(x), *NORMAL), x).astype(case["dtype"])
            )
        elif each is None:  # beside the argument before
            spread = np.sqrt(drawn[-1]) * rng.uniform(-5, 5, len(drawn[-1]))
            drawn.append((drawn[-1] + spread).astype(case["dtype"]))
        else:
            drawn.append(each)
    numbers = [None if isinstance(each, np.ndarray) else each for each in drawn]

    def expression(module: Any, *arrays: Any) -> Any:
        given = iter(arrays)
        everything = [next(given) if number is None else number for number in numbers]
        return getattr(module.special, name)(*everything)

    arrays = tuple(np.resize(each, n) for each in drawn if isinstance(each, np.ndarray))
    for known in special_regions(name, case["dtype"]) if name not in MORE else ():
        if known.index == case["region"]:
            count = min(n, len(known.high))
            for array, points in zip(arrays, known.points, strict=True):
                array[:count] = points[:count]
            exact = functools.partial(first_of, known.high[:count])
            return Work(expression, arrays, slice(0, count), exact=exact, elementwise=True)
    part = np.unique(rng.integers(0, n, POINTS))
    return Work(expression, arrays, part, elementwise=True)


# -------------------- Fourier transforms

TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
REAL = ("dct", "idct", "dst", "idst")
SEVERAL = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "rfftn", "irfftn", "dctn", "dstn")
FROM_REAL = ("rfft", "ihfft", "rfft2", "rfftn", "dct", "idct", "dst", "idst", "dctn", "dstn", "fht")


def length(draw: random.Random, high: int) -> int:
    """Of a transform: a power of two, a product of small primes, or any number."""
    n = round(math.exp(draw.uniform(math.log(8), math.log(high))))
    smooth = 1
    while smooth * 2 <= n:
        smooth *= draw.choice([p for p in (2, 2, 3, 5, 7) if smooth * p <= n])
    return pick(draw, (1 << (n.bit_length() - 1), 4), (smooth, 3), (n, 2))


def fft_cases(draw: random.Random, most: int) -> Iterator[Case]:
    names = [*TRANSFORMS, *TRANSFORMS[:4], *REAL, *SEVERAL, "fht", "fftshift"]
    names = [(name, dtype) for name in names for dtype in DTYPES]
    draw.shuffle(names)
    for name, dtype in names:
        case = {"name": name, "dtype": dtype, "seed": draw.randrange(1 << 30)}
        if name in SEVERAL:
            count = 3 if name.endswith("n") and draw.random() < 0.5 else 2
            longest = 2048 if count == 2 else 160
        else:
            count, longest = 1, 1 << 20
        longest = max(9, min(longest, round(most ** (1 / count))))
        sides = [length(draw, longest) for _ in range(count)]
        batch = pick(draw, (1, 1), (elements(draw, 1, max(2, most // math.prod(sides))), 3))
        yield {**case, "shape": [batch, *sides], "axes": count}


def fft(case: Case) -> Work:
    rng, name, shape = case_generator(case), case["name"], case["shape"]
    size = math.prod(shape)
    real = name in FROM_REAL
    x = rng.standard_normal(min(size, BLOCK))
    if not real:
        x = x + 1j * rng.standard_normal(min(size, BLOCK))
    x = np.resize(of_digits(x, case["dtype"]), shape)
    part = slice(0, max(1, CHECKED // math.prod(shape[1:])))
    axes = tuple(range(-case["axes"], 0))
    more: dict[str, Any] = {"axes": axes}
    if name == "fht":
        more = {"dln": 0.01, "mu": 0.5}
    elif case["axes"] == 1:
        more = {"axes": -1} if name == "fftshift" else {"axis": -1}
    return Work(lambda module, x: getattr(module.fft, name)(x, **more), (x,), part)


# -------------------- linear algebra


def linalg_cases(draw: random.Random, most: int) -> Iterator[Case]:
    names = [(name, dtype) for name in LINALG for dtype in DTYPES for _ in range(2)]
    draw.shuffle(names)
    for name, dtype in names:
        low, high = LINALG[name][0]
        n = elements(draw, low, min(high, math.isqrt(most)))
        if name == "hadamard":
            n = 1 << (n.bit_length() - 1)
        yield {"name": name, "dtype": dtype, "n": n, "seed": draw.randrange(1 << 30)}


def linalg(case: Case) -> Work:
    return LINALG[case["name"]][1](case, case_generator(case), case["n"])


def normal(rng: np.random.Generator, case: Case, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(case["dtype"])


def of_vectors(name: str, count: int = 1) -> Callable:
    """A function of so many vectors."""

    def work(case: Case, rng: np.random.Generator, n: int) -> Work:
        vectors = [normal(rng, case, n - (name == "leslie") * i) for i in range(count)]
        vectors[0][0] = 2.0  # where it is a leading coefficient
        return Work(lambda module, *x: getattr(module.linalg, name)(*x), tuple(vectors))

    return work


def of_a_size(name: str) -> Callable:
    """A matrix that a number names."""

    def work(case: Case, rng: np.random.Generator, n: int) -> Work:
        more = {"dtype": case["dtype"]} if name == "hadamard" else {}
        return Work(lambda module: getattr(module.linalg, name)(n, **more), ())

    return work


def convolution_matrix(case: Case, rng: np.random.Generator, n: int) -> Work:
    x = normal(rng, case, max(1, n // 3))
    return Work(lambda module, x: module.linalg.convolution_matrix(x, n), (x,))


def exponential(case: Case, rng: np.random.Generator, n: int) -> Work:
    x = normal(rng, case, n, n) / np.asarray(math.sqrt(n), case["dtype"])
    return Work(lambda module, x: module.linalg.expm(x), (x,))


def khatri_rao(case: Case, rng: np.random.Generator, n: int) -> Work:
    x, y = normal(rng, case, n, 64), normal(rng, case, n // 2 + 1, 64)
    return Work(lambda module, x, y: module.linalg.khatri_rao(x, y), (x, y))


def block_diag(case: Case, rng: np.random.Generator, n: int) -> Work:
    blocks = tuple(normal(rng, case, n, n + i) for i in range(8))
    return Work(lambda module, *x: module.linalg.block_diag(*x), blocks)


def bandwidth(case: Case, rng: np.random.Generator, n: int) -> Work:
    x = np.triu(np.tril(normal(rng, case, n, n), n // 4), -n // 3)
    return Work(lambda module, x: module.linalg.bandwidth(x), (x,))


def triangular(case: Case, rng: np.random.Generator, n: int) -> Work:
    x = np.tril(normal(rng, case, n, n)) / np.asarray(n, case["dtype"])
    x += np.eye(n, dtype=case["dtype"])
    b = normal(rng, case, n, int(rng.choice([1, 8, 64])))
    return Work(lambda module, x, b: module.linalg.solve_triangular(x, b, lower=True), (x, b))


def factors(case: Case, rng: np.random.Generator, n: int) -> Work:
    """What is compared are the factors' products: pivots of equal size may be chosen at will."""

    def seen(result: Any) -> Any:
        p, lower, upper = (np.asarray(host(each), np.float64) for each in result)
        return p @ lower @ upper

    return Work(
        lambda module, x: module.linalg.lu(x),
        (normal(rng, case, n, n),),
        seen=seen,
        exact=lambda x: x,
    )


def packed_factors(case: Case, rng: np.random.Generator, n: int) -> Work:
    def seen(result: Any) -> Any:
        packed, pivots = np.asarray(host(result[0]), np.float64), host(result[1])
        product = (np.tril(packed, -1) + np.eye(n)) @ np.triu(packed)
        for i in reversed(range(n)):
            product[[i, pivots[i]]] = product[[pivots[i], i]]
        return product

    return Work(
        lambda module, x: module.linalg.lu_factor(x),
        (normal(rng, case, n, n),),
        seen=seen,
        exact=lambda x: x,
    )


def by_factors(case: Case, rng: np.random.Generator, n: int) -> Work:
    x = normal(rng, case, n, n) + np.asarray(2 * math.sqrt(n), case["dtype"]) * np.eye(
        n, dtype=case["dtype"]
    )
    b = normal(rng, case, n, int(rng.choice([1, 8, 64])))
    return Work(
        lambda module, factored, b: module.linalg.lu_solve(factored, b),
        (x, b),
        prepare=lambda module, x, b: (module.linalg.lu_factor(x), b),
    )


#: Function -> (sizes, its work)
LINALG: dict[str, tuple[tuple[int, int], Callable]] = {
    "toeplitz": ((32, 4096), of_vectors("toeplitz", 2)),
    "hankel": ((32, 4096), of_vectors("hankel")),
    "circulant": ((32, 4096), of_vectors("circulant")),
    "companion": ((32, 4096), of_vectors("companion")),
    "fiedler": ((32, 4096), of_vectors("fiedler")),
    "fiedler_companion": ((32, 4096), of_vectors("fiedler_companion")),
    "leslie": ((32, 4096), of_vectors("leslie", 2)),
    "dft": ((32, 2048), of_a_size("dft")),
    "hadamard": ((32, 4096), of_a_size("hadamard")),
    "helmert": ((32, 4096), of_a_size("helmert")),
    "hilbert": ((32, 4096), of_a_size("hilbert")),
    "convolution_matrix": ((32, 4096), convolution_matrix),
    "khatri_rao": ((16, 1024), khatri_rao),
    "block_diag": ((8, 512), block_diag),
    "bandwidth": ((32, 4096), bandwidth),
    "expm": ((4, 1024), exponential),
    "solve_triangular": ((32, 4096), triangular),
    "lu": ((32, 2048), factors),
    "lu_factor": ((32, 2048), packed_factors),
    "lu_solve": ((32, 4096), by_factors),
}

# -------------------- sparse arrays

#: Structures of benchmarks/sparse.py, with fewer elements, so that SciPy checks them soon.
STRUCTURES: dict[str, Callable[[int], scipy.sparse.csr_array]] = {
    "stencil": lambda n: sparse.stencil(math.isqrt(n), math.isqrt(n)),
    "line": lambda n: sparse.stencil(n),
    "band": lambda n: sparse.band(n, 9),
    "blocks": lambda n: sparse.blocks(n - n % 8, 8, 3),
    "uniform": lambda n: sparse.of_lengths(np.full(n, 8), n),
    "power law": lambda n: sparse.power_law(n, 8, 0.6),
}
SOLVERS = ("cg", "gmres", "bicgstab", "cgs", "minres", "spsolve", "spsolve_triangular")


def sparse_cases(draw: random.Random, most: int) -> Iterator[Case]:
    names = [(name, dtype) for name in SPARSE for dtype in DTYPES]
    draw.shuffle(names)
    for name, dtype in names:
        structure = draw.choice([*STRUCTURES])
        n = elements(draw, SMALL, min(most, 1 << 20))
        if name in ("toarray", "A @ A", "eigsh", "svds", "spsolve", "kron"):
            n = min(n, 1 << 12)
        if name in ("eigsh", "svds", *SOLVERS):
            structure = draw.choice(("stencil", "line", "band"))
        yield {
            **{"name": name, "dtype": dtype, "n": n, "structure": structure},
            "seed": draw.randrange(1 << 30),
        }


def sparse_work(case: Case) -> Work:
    """The matrix as its three arrays, and two vectors; of sparse results a product with a vector is
    compared."""
    rng, name = case_generator(case), case["name"]
    a = STRUCTURES[case["structure"]](case["n"])
    n = a.shape[0]
    if name in ("eigsh", *SOLVERS):  # symmetric, positive definite; triangular ones take its half
        a = scipy.sparse.csr_array(a + a.T)
        a.data[:] = -1.0
        a = scipy.sparse.csr_array(a - scipy.sparse.diags_array(a.diagonal()))
        degrees = np.bincount(np.repeat(np.arange(n), np.diff(a.indptr)), minlength=n)
        a = scipy.sparse.csr_array(a + scipy.sparse.diags_array(degrees + rng.uniform(0.5, 2, n)))
        if name == "spsolve_triangular":
            a = scipy.sparse.csr_array(scipy.sparse.tril(a))
    else:
        a.data = rng.standard_normal(a.nnz)
    a.sort_indices()
    parts = a.data.astype(case["dtype"]), a.indices.astype(np.int32), a.indptr.astype(np.int32)
    v = rng.standard_normal(n).astype(case["dtype"])
    rows = np.sort(rng.choice(n, n // 2, replace=False)).astype(np.int32)
    probe = rng.standard_normal(4 * max(a.shape))

    def prepare(module: Any, data: Any, indices: Any, indptr: Any, v: Any, rows: Any) -> tuple:
        matrix = module.sparse.csr_matrix((data, indices, indptr), shape=a.shape)
        if name == "tocsr":
            matrix = matrix.tocoo()
        return matrix, v, rows

    def seen(result: Any) -> Any:
        if hasattr(result, "tocoo"):
            entries = result.tocoo()
            row, column, value = (host(getattr(entries, what)) for what in ("row", "col", "data"))
            weights = np.asarray(value, np.float64) * probe[: result.shape[1]][column]
            return np.bincount(row, weights, minlength=result.shape[0])
        if name in ("eigsh", "svds"):
            return np.sort(np.asarray(host(result)))
        return result[0] if isinstance(result, tuple) else result  # a solution, without its status

    resolution = 1e-4 if name in ("eigsh", "svds", "gmres", "minres") else 0.0  # what they stop at
    arrays = (*parts, v, rows)
    return Work(SPARSE[name], arrays, prepare=prepare, seen=seen, resolution=resolution)


def solver(name: str, **how: Any) -> Expression:
    return lambda module, a, v, rows: getattr(module.sparse.linalg, name)(a, v, **how)


SPARSE: dict[str, Expression] = {
    "A @ x": lambda module, a, v, rows: a @ v,
    "A.T @ x": lambda module, a, v, rows: a.T @ v,
    "A @ A": lambda module, a, v, rows: a @ a,
    "A + A.T": lambda module, a, v, rows: a + a.T,
    "A.multiply(A)": lambda module, a, v, rows: a.multiply(a),
    "2 A": lambda module, a, v, rows: a * 2.0,
    "abs(A)": lambda module, a, v, rows: abs(a),
    "tocsc": lambda module, a, v, rows: a.tocsc(),
    "tocsr": lambda module, a, v, rows: a.tocsr(),
    "toarray": lambda module, a, v, rows: a.toarray(),
    "sum(axis=0)": lambda module, a, v, rows: a.sum(axis=0),
    "sum(axis=1)": lambda module, a, v, rows: a.sum(axis=1),
    "max(axis=1)": lambda module, a, v, rows: a.max(axis=1),
    "diagonal": lambda module, a, v, rows: a.diagonal(),
    "A[i:j]": lambda module, a, v, rows: a[a.shape[0] // 4 : a.shape[0] // 2],
    "A[rows]": lambda module, a, v, rows: a[rows],
    "tril": lambda module, a, v, rows: module.sparse.tril(a),
    "vstack": lambda module, a, v, rows: module.sparse.vstack([a, a]),
    "kron": lambda module, a, v, rows: module.sparse.kron(module.sparse.identity(4), a),
    "norm": lambda module, a, v, rows: module.sparse.linalg.norm(a),
    "cg": solver("cg", rtol=0.0, maxiter=20),
    "gmres": solver("gmres", restart=20),
    "bicgstab": solver("bicgstab", rtol=0.0, maxiter=10),
    "cgs": solver("cgs", rtol=0.0, maxiter=10),
    "minres": solver("minres", maxiter=20),
    "spsolve": solver("spsolve"),
    "spsolve_triangular": solver("spsolve_triangular", lower=True),
    "eigsh": lambda module, a, v, rows: module.sparse.linalg.eigsh(
        a, k=4, return_eigenvectors=False
    ),
    "svds": lambda module, a, v, rows: module.sparse.linalg.svds(
        a, k=4, return_singular_vectors=False
    ),
}


def host(x: Any) -> Any:
    """An array of some library as NumPy's."""
    if isinstance(x, (np.ndarray, np.generic)) or not hasattr(x, "dtype"):
        return np.asarray(x)
    return x.__array__() if type(x).__module__.startswith("jax") else sparse.host(x)


FAMILIES: dict[
    str, tuple[Callable[[random.Random, int], Iterator[Case]], Callable[[Case], Work]]
] = {
    "special": (special_cases, special),
    "fft": (fft_cases, fft),
    "linalg": (linalg_cases, linalg),
    "sparse": (sparse_cases, sparse_work),
}
