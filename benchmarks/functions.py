"""Every family of array functions that CuPy has too, for `python -m benchmarks.versus_cupy`.

A case is one expression whose arguments grow with n, the number of elements; SIZES lists the
measured n. The expression is written once and runs in cudamath, CuPy and (in the tests, as the
reference) NumPy. A case states CuPy's name of the function where it differs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Elements: a call's cost; something that fits the second-level cache; something that does not.
SIZES = {"small": 1 << 12, "medium": 1 << 20, "large": 1 << 24}
#: Sides of the matrices of linear algebra, and of the decompositions that take long.
SIDES = {"small": 32, "medium": 256, "large": 1024}
SHORT_SIDES = {"small": 16, "medium": 128, "large": 512}

Maker = Callable[[np.random.Generator, int], np.ndarray]
Expression = Callable[..., object]  # (library, *arrays)


@functools.lru_cache(maxsize=64)
def drawn(make: Maker, place: int, n: int) -> np.ndarray:
    """The array of n elements that stands at a place among the arguments: drawing 2^24 numbers anew
    for every case would take longer than measuring it."""
    return make(np.random.default_rng(place), n)


@dataclasses.dataclass(frozen=True)
class Case:
    """One expression of a family; `sizes` gives n, `library` of the expression is cudamath's or the
    peer's module."""

    family: str
    title: str
    expression: Expression
    makers: tuple[Maker, ...]
    sizes: dict[str, int]
    otherwise: dict[str, Expression] = dataclasses.field(
        default_factory=dict
    )  # by a library that says it in another way
    random: bool = False  # results are other numbers of the same distribution

    def arguments(self, size: str) -> tuple[np.ndarray, ...]:
        """The arguments at a size, always the same ones; whoever changes them copies them first."""
        return tuple(drawn(make, place, self.sizes[size]) for place, make in enumerate(self.makers))

    def bind(self, name: str, library: Any, arrays: Sequence[Any]) -> Callable[[], object]:
        """A call without arguments in one library."""
        expression = self.otherwise.get(name, self.expression)
        return lambda: expression(library, *arrays)


CASES: list[Case] = []


def case(
    family: str,
    title: str,
    expression: Expression,
    *makers: Maker,
    sizes: dict[str, int] = SIZES,
    **more: Any,
) -> None:
    """Register a case."""
    if any((family, title) == (other.family, other.title) for other in CASES):
        raise ValueError(f"case: {family} has {title} twice")
    CASES.append(Case(family, title, expression, makers, sizes, **more))


def named(family: str, names: str, *makers: Maker, **more: Any) -> None:
    """Register functions of the top namespace by name, one case each."""
    for name in names.split():
        case(
            family,
            name,
            lambda lib, *arrays, name=name: getattr(lib, name)(*arrays),
            *makers,
            **more,
        )


# -------------------- arguments


def side(n: int) -> int:
    """Side of a square of n elements."""
    return math.isqrt(n)


def x(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) float32, standard normal."""
    return rng.standard_normal(n, dtype=np.float32)


def unit(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) float32 between 0.1 and 0.9: in the domain of every function here."""
    return rng.random(n, dtype=np.float32) * np.float32(0.8) + np.float32(0.1)


def above(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) float32 between 1 and 2."""
    return rng.random(n, dtype=np.float32) + np.float32(1)


def square(rng: np.random.Generator, n: int) -> np.ndarray:
    """A square float32 matrix of n elements."""
    return x(rng, side(n) ** 2).reshape(side(n), side(n))


def line(rng: np.random.Generator, n: int) -> np.ndarray:
    """One row of such a square."""
    return x(rng, side(n))


def holes(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) float32, a tenth of them NaN."""
    values = x(rng, n)
    values[rng.random(n, dtype=np.float32) < 0.1] = np.nan
    return values


def integers(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) int32 below 1,000."""
    return rng.integers(0, 1000, n, dtype=np.int32)


def few(rng: np.random.Generator, n: int) -> np.ndarray:
    """(64,) int32 below 1,000."""
    return rng.integers(0, 1000, 64, dtype=np.int32)


def shifts(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) int32 below 8."""
    return rng.integers(0, 8, n, dtype=np.int32)


def mask(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) bool, half of them true."""
    return rng.random(n, dtype=np.float32) < 0.5


def places(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) int64 positions among n."""
    return rng.integers(0, n, n)


def some_rows(rng: np.random.Generator, n: int) -> np.ndarray:
    """(side,) int64 positions of rows of the square."""
    return rng.integers(0, side(n), side(n))


def order(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) int64, every position once."""
    return rng.permutation(n)


def ordered(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) float32, sorted."""
    return np.sort(x(rng, n))


def complexes(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n,) complex64."""
    return x(rng, 2 * n).view(np.complex64)


def complex_square(rng: np.random.Generator, n: int) -> np.ndarray:
    """A square complex64 matrix of n elements."""
    return complexes(rng, side(n) ** 2).reshape(side(n), side(n))


def of(dtype: str) -> Maker:
    """(n,) of a dtype, its whole range where that is finite."""

    def make(rng: np.random.Generator, n: int) -> np.ndarray:
        kind = np.dtype(dtype)
        if kind.kind in "iu":
            return rng.integers(
                np.iinfo(kind).min, np.iinfo(kind).max, n, dtype=kind, endpoint=True
            )
        return rng.standard_normal(n).astype(kind)

    return make


def matrix(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, n) float32, far from singular."""
    return (rng.standard_normal((n, n)) + 2 * n**0.5 * np.eye(n)).astype(np.float32)


def positive(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, n) float32, symmetric positive definite."""
    a = rng.standard_normal((n, n))
    return (a @ a.T / n + np.eye(n)).astype(np.float32)


def lower(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, n) float32, lower triangular."""
    return np.tril(matrix(rng, n))


def sides(rng: np.random.Generator, n: int) -> np.ndarray:
    """(n, 8) float32: right sides."""
    return rng.standard_normal((n, 8)).astype(np.float32)


# -------------------- creation and elementwise

case("creation", "zeros", lambda lib, a: lib.zeros(a.shape, dtype="float32"), x)
case("creation", "full", lambda lib, a: lib.full(a.shape, 3.5, dtype="float32"), x)
case("creation", "empty", lambda lib, a: lib.empty(a.shape, dtype="float32").shape, x)
case("creation", "arange", lambda lib, a: lib.arange(a.size, dtype="float32"), x)
case("creation", "linspace", lambda lib, a: lib.linspace(0, 1, a.size, dtype="float32"), x)
case("creation", "eye", lambda lib, a: lib.eye(a.shape[0], dtype="float32"), square)
case("creation", "tri", lambda lib, a: lib.tri(a.shape[0], dtype="float32"), square)
case("creation", "ones_like", lambda lib, a: lib.ones_like(a), x)
case("creation", "meshgrid", lambda lib, a: lib.meshgrid(a, a), line)
case("creation", "diag", lambda lib, a: lib.diag(a), line)
case("creation", "copy", lambda lib, a: a.copy(), x)
case("creation", "astype float64", lambda lib, a: a.astype("float64"), x)

named(
    "unary",
    "negative absolute sign sqrt square exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin "
    "arccos arctan sinh "
    "cosh tanh arcsinh arctanh floor ceil trunc rint reciprocal cbrt isnan isfinite isinf signbit "
    "logical_not degrees",
    unit,
)
named("unary", "arccosh", above)
named("unary", "invert", integers)
named("unary", "conj angle", complexes)
named(
    "binary",
    "add subtract multiply divide power maximum minimum fmod floor_divide remainder hypot arctan2 "
    "copysign "
    "logaddexp nextafter less equal logical_and",
    unit,
    above,
)
named("binary", "bitwise_and bitwise_xor left_shift gcd", shifts, integers)
case("binary", "a + 2.5", lambda lib, a: a + 2.5, x)
case("binary", "a ** 2", lambda lib, a: a**2, x)
case("binary", "a + row", lambda lib, a, b: a + b, square, line)
case("binary", "a + a.T", lambda lib, a: a + a.T, square)
case("binary", "complex a * b", lambda lib, a, b: a * b, complexes, complexes)
case("selection", "where", lambda lib, m, a, b: lib.where(m, a, b), mask, x, x)
case("selection", "clip", lambda lib, a: lib.clip(a, -0.5, 0.5), x)
case("selection", "nan_to_num", lambda lib, a: lib.nan_to_num(a), holes)
case("selection", "select", lambda lib, m, a, b: lib.select([m], [a], 0.0), mask, x, x)

# -------------------- reductions, statistics, scans

named("reductions", "sum mean prod max min var std argmax argmin ptp count_nonzero", unit)
named("reductions", "any all", mask)
for _axis in (0, 1):
    for _name in ("sum", "max", "argmax", "var"):
        case(
            "reductions",
            f"{_name}, axis {_axis}",
            lambda lib, a, f=_name, axis=_axis: getattr(lib, f)(a, axis=axis),
            square,
        )
named("statistics", "nansum nanmean nanmax nanvar", holes)
named("statistics", "median average", x)
case("statistics", "percentile", lambda lib, a: lib.percentile(a, 30), x)
case("statistics", "quantile", lambda lib, a: lib.quantile(a, 0.9), x)
case("statistics", "cov", lambda lib, a: lib.cov(a), lambda rng, n: x(rng, n).reshape(16, -1))
case(
    "statistics",
    "corrcoef",
    lambda lib, a: lib.corrcoef(a),
    lambda rng, n: x(rng, n).reshape(16, -1),
)
named("scans", "cumsum nancumsum diff ediff1d gradient", x)
named("scans", "cumprod", above, sizes={"small": 64, "medium": 96, "large": 112})  # stays finite
for _axis in (0, 1):
    case(
        "scans",
        f"cumsum, axis {_axis}",
        lambda lib, a, axis=_axis: lib.cumsum(a, axis=axis),
        square,
    )
case("scans", "trapezoid", lambda lib, a: lib.trapezoid(a), x)
case("scans", "interp", lambda lib, a, b: lib.interp(a, b, b), x, ordered)
case("scans", "convolve", lambda lib, a: lib.convolve(a, a[:31]), x)

# -------------------- manipulation and indexing

case("manipulation", "concatenate", lambda lib, a, b: lib.concatenate([a, b]), x, x)
case("manipulation", "stack", lambda lib, a, b: lib.stack([a, b]), x, x)
case("manipulation", "vstack", lambda lib, a, b: lib.vstack([a, b]), x, x)
case("manipulation", "hstack", lambda lib, a, b: lib.hstack([a, b]), square, square)
case("manipulation", "tile", lambda lib, a: lib.tile(a, 3), x)
case("manipulation", "repeat", lambda lib, a: lib.repeat(a, 3), x)
case("manipulation", "roll", lambda lib, a: lib.roll(a, 5), x)
case("manipulation", "roll, axis 1", lambda lib, a: lib.roll(a, 5, axis=1), square)
case("manipulation", "pad", lambda lib, a: lib.pad(a, 3), square)
case("manipulation", "pad, edge", lambda lib, a: lib.pad(a, 3, mode="edge"), square)
case("manipulation", "flip, copied", lambda lib, a: lib.flip(a).copy(), x)
case("manipulation", "transposed, copied", lambda lib, a: lib.ascontiguousarray(a.T), square)
case("manipulation", "rot90, copied", lambda lib, a: lib.ascontiguousarray(lib.rot90(a)), square)
case("manipulation", "tril", lambda lib, a: lib.tril(a), square)
case("manipulation", "a.reshape", lambda lib, a: a.reshape(2, -1), x)
case("manipulation", "a.T", lambda lib, a: a.T, square)
case("manipulation", "split", lambda lib, a: lib.split(a, 4), x)
case("manipulation", "broadcast_to", lambda lib, a: lib.broadcast_to(a, (4, a.size)), x)
case("manipulation", "delete", lambda lib, a: lib.delete(a, 5), x)
case("manipulation", "append", lambda lib, a: lib.append(a, a), x)
case("indexing", "a[1:]", lambda lib, a: a[1:], x)
case("indexing", "a[5]", lambda lib, a: a[5], x)
case("indexing", "take", lambda lib, a, i: lib.take(a, i), x, places)
case("indexing", "a[i]", lambda lib, a, i: a[i], x, places)
case("indexing", "a[rows]", lambda lib, a, i: a[i], square, some_rows)
case("indexing", "take, axis 1", lambda lib, a, i: lib.take(a, i, axis=1), square, some_rows)
case("indexing", "a[i, j]", lambda lib, a, i: a[i, i], square, some_rows)
case("indexing", "a[mask]", lambda lib, a, m: a[m], x, mask)
case("indexing", "compress", lambda lib, m, a: lib.compress(m, a), mask, x)
case("indexing", "take_along_axis", lambda lib, a, i: lib.take_along_axis(a, i, axis=0), x, places)
case(
    "indexing",
    "choose",
    lambda lib, m, a, b: lib.choose(m.astype("int32"), lib.stack([a, b])),
    mask,
    x,
    x,
)


def assigned(lib: Any, a: Any, i: Any, value: Any) -> Any:
    """a[i] = value."""
    a[i] = value
    return a


case("indexing", "a[i] = b", assigned, x, order, x)
case("indexing", "a[mask] = 0", lambda lib, a, m: assigned(lib, a, m, 0.0), x, mask)
case("indexing", "a[::2] = 0", lambda lib, a: assigned(lib, a, slice(None, None, 2), 0.0), x)
case("indexing", "a[:] = b", lambda lib, a, b: assigned(lib, a, slice(None), b), x, x)
case("indexing", "diagonal, copied", lambda lib, a: lib.diagonal(a).copy(), square)

# -------------------- sorting, searching, sets, histograms

for _dtype in ("uint8", "int16", "float16", "int32", "float32", "int64", "float64"):
    case("sorting", f"sort {_dtype}", lambda lib, a: lib.sort(a), of(_dtype))
case("sorting", "argsort", lambda lib, a: lib.argsort(a), x)
case("sorting", "sort, axis 1", lambda lib, a: lib.sort(a, axis=1), square)
case("sorting", "sort, axis 0", lambda lib, a: lib.sort(a, axis=0), square)
case("sorting", "partition", lambda lib, a: lib.partition(a, a.size // 2), x)
case("sorting", "lexsort", lambda lib, a, b: lib.lexsort(lib.stack([a, b])), x, x)
case("searching", "nonzero", lambda lib, m: lib.nonzero(m), mask)
case("searching", "flatnonzero", lambda lib, m: lib.flatnonzero(m), mask)
case("searching", "argwhere", lambda lib, m: lib.argwhere(m), mask)
case("searching", "searchsorted", lambda lib, a, v: lib.searchsorted(a, v), ordered, x)
case(
    "searching",
    "digitize",
    lambda lib, v, a: lib.digitize(v, a[:: max(1, a.size // 64)]),
    x,
    ordered,
)
case("sets", "unique", lambda lib, i: lib.unique(i), integers)
case("sets", "unique, all distinct", lambda lib, a: lib.unique(a), x)
case(
    "sets",
    "unique, inverse",
    lambda lib, i: lib.unique(i, return_inverse=True)[1].ravel(),
    integers,
)
case("sets", "isin", lambda lib, i, j: lib.isin(i, j), integers, few)
case("sets", "isin, many", lambda lib, a, b: lib.isin(a, b), x, x)
case("sets", "intersect1d", lambda lib, i, j: lib.intersect1d(i, j), integers, few)
case("sets", "union1d", lambda lib, i, j: lib.union1d(i, j), integers, few)
case("sets", "setdiff1d", lambda lib, i, j: lib.setdiff1d(i, j), integers, few)
case("histograms", "bincount", lambda lib, i: lib.bincount(i), integers)
case("histograms", "bincount, weights", lambda lib, i, w: lib.bincount(i, w), integers, unit)
case("histograms", "histogram", lambda lib, a: lib.histogram(a, 100)[0], x)
case("histograms", "histogram2d", lambda lib, a, b: lib.histogram2d(a, b, 16)[0], x, x)

# -------------------- products, linear algebra, transforms

case("products", "matmul", lambda lib, a, b: a @ b, square, square)
case(
    "products",
    "matmul, batch",
    lambda lib, a, b: a @ b,
    *(lambda rng, n: x(rng, n).reshape(-1, 16, 16),) * 2,
)
case("products", "a @ v", lambda lib, a, v: a @ v, square, line)
case("products", "dot", lambda lib, a, b: lib.dot(a, b), x, x)
case("products", "inner", lambda lib, a, b: lib.inner(a, b), line, line)
case("products", "outer", lambda lib, a, b: lib.outer(a, b), line, line)
case("products", "kron", lambda lib, a, b: lib.kron(a, b[:4]), x, x)
case(
    "products",
    "tensordot",
    lambda lib, a, b: lib.tensordot(a, b, 2),
    *(lambda rng, n: x(rng, n).reshape(-1, 16, 16),) * 1,
    lambda rng, n: x(rng, 256 * 16).reshape(16, 16, 16),
)
case("products", "einsum ij,jk", lambda lib, a, b: lib.einsum("ij,jk->ik", a, b), square, square)
case("products", "einsum ij,ij->i", lambda lib, a, b: lib.einsum("ij,ij->i", a, b), square, square)
case("products", "einsum ii", lambda lib, a: lib.einsum("ii", a), square)
case("products", "trace", lambda lib, a: lib.trace(a), square)
case(
    "products",
    "cross",
    lambda lib, a, b: lib.linalg.cross(a, b),
    *(lambda rng, n: x(rng, n // 3 * 3).reshape(-1, 3),) * 2,
    otherwise={"cupy": lambda lib, a, b: lib.cross(a, b)},
)


def linear(names: str, *makers: Maker, sizes: dict[str, int] = SIDES) -> None:
    """Register functions of linalg by name."""
    for name in names.split():
        case(
            "linalg",
            name,
            lambda lib, *arrays, name=name: getattr(lib.linalg, name)(*arrays),
            *makers,
            sizes=sizes,
        )


def triangular_of_cupy(lib: Any, a: Any, b: Any) -> Any:
    """CuPy keeps it with SciPy's."""
    from cupyx.scipy.linalg import solve_triangular

    return solve_triangular(a, b, lower=True)


linear("inv det slogdet", matrix)
linear("cholesky", positive)
linear("solve", matrix, sides)
linear("norm", matrix)
case(
    "linalg",
    "solve_triangular",
    lambda lib, a, b: lib.linalg.solve_triangular(a, b, lower=True),
    lower,
    sides,
    sizes=SIDES,
    otherwise={"cupy": triangular_of_cupy, "numpy": lambda lib, a, b: lib.linalg.solve(a, b)},
)
case(
    "linalg",
    "matrix_power",
    lambda lib, a: lib.linalg.matrix_power(a / 100, 5),
    matrix,
    sizes=SIDES,
)
case("linalg", "qr", lambda lib, a: lib.linalg.qr(a), matrix, sizes=SIDES)
case("linalg", "eigh", lambda lib, a: lib.linalg.eigh(a), positive, sizes=SHORT_SIDES)
case("linalg", "eigvalsh", lambda lib, a: lib.linalg.eigvalsh(a), positive, sizes=SHORT_SIDES)
case("linalg", "svd", lambda lib, a: lib.linalg.svd(a), matrix, sizes=SHORT_SIDES)
linear("pinv matrix_rank", matrix, sizes=SHORT_SIDES)
case(
    "linalg",
    "lstsq",
    lambda lib, a, b: lib.linalg.lstsq(a, b)[0],
    matrix,
    sides,
    sizes=SHORT_SIDES,
    otherwise={"cupy": lambda lib, a, b: lib.linalg.lstsq(a, b, rcond=None)[0]},
)

for _name, _maker in (
    ("fft", complexes),
    ("ifft", complexes),
    ("rfft", x),
    ("irfft", complexes),
    ("fft2", complex_square),
    ("fftn", complex_square),
    ("rfft2", square),
):
    case("fft", _name, lambda lib, a, name=_name: getattr(lib.fft, name)(a), _maker)
case("fft", "fft of rows", lambda lib, a: lib.fft.fft(a), complex_square)
case("fft", "fft, axis 0", lambda lib, a: lib.fft.fft(a, axis=0), complex_square)
case("fft", "fftshift", lambda lib, a: lib.fft.fftshift(a), complexes)

# -------------------- random numbers

_generators: dict[Any, Any] = {}


def generator(lib: Any) -> Any:
    """One generator a library."""
    if lib not in _generators:
        _generators[lib] = lib.random.default_rng(0)
    return _generators[lib]


for _title, _draw in {
    "random": lambda rng, n: rng.random(n, dtype="float32"),
    "standard_normal": lambda rng, n: rng.standard_normal(n, dtype="float32"),
    "integers": lambda rng, n: rng.integers(0, 1000, n),
    "exponential": lambda rng, n: rng.exponential(1.5, n),
    "gamma": lambda rng, n: rng.gamma(2.5, 1.0, n),
    "beta": lambda rng, n: rng.beta(2.0, 3.0, n),
    "poisson": lambda rng, n: rng.poisson(4.0, n),
    "binomial": lambda rng, n: rng.binomial(10, 0.3, n),
}.items():
    case("random", _title, lambda lib, a, draw=_draw: draw(generator(lib), a.size), x, random=True)
case(
    "random",
    "permutation",
    lambda lib, a: generator(lib).permutation(a.size),
    x,
    random=True,
    otherwise={"cupy": lambda lib, a: lib.random.permutation(a.size)},
)
