"""Short programs of NumPy's documentation and of "100 NumPy exercises", with nothing but the
library changed."""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import cudamath as cm

PROGRAMS: list[Callable] = []


def program(function: Callable) -> Callable:
    """A generator of results, that takes the library; kept in PROGRAMS."""
    PROGRAMS.append(function)
    return function


@program
def shapes_and_stacks(np: Any) -> Iterator[Any]:
    a = np.floor(10 * np.sin(np.arange(12)).reshape(3, 4))
    yield from (a.ravel(), a.reshape(6, 2), a.T, a.reshape(3, -1))
    a.shape = (2, 6)
    yield a
    b = a + 1
    yield from (np.vstack((a, b)), np.hstack((a, b)), np.column_stack((a, b)), np.r_[1:4, 0, 4])
    yield from (*np.hsplit(a, 3), *np.hsplit(a, (3, 4)), a[:, np.newaxis], np.block([a, b]))


@program
def fancy_indices(np: Any) -> Iterator[Any]:
    data = np.sin(np.arange(20)).reshape(5, 4)
    best = data.argmax(axis=0)
    yield from (
        best,
        np.linspace(20, 145, 5)[best],
        data[best, range(data.shape[1])],
        data[range(2)],
    )
    a = np.arange(12).reshape(3, 4)
    i, j = np.array([[0, 1], [1, 2]]), np.array([[2, 1], [3, 3]])
    yield from (a[i, j], a[i, 2], a[:, j], a[(i, j)])
    a[a > 4] = 0
    yield from (
        a,
        a[np.array([False, True, True]), np.array([True, False, True, False])[2:].argmax()],
    )
    b = np.arange(5)
    b[[0, 0, 2]] = [1, 2, 3]
    yield b
    b[[0, 0, 2]] += 1
    yield b


def folded(np: Any, function: Any, *vectors: Any) -> Any:
    """The quickstart's ufunc_reduce."""
    result = function.identity
    for v in np.ix_(*vectors):
        result = function(result, v)
    return result


@program
def identities(np: Any) -> Iterator[Any]:
    a, b, c = np.array([2, 3, 4, 5]), np.array([8, 5, 4]), np.array([5, 4, 6, 8, 3])
    yield from (folded(np, np.add, a, b, c), folded(np, np.multiply, a, b))
    yield from ([f.nin, f.nout, f.nargs] for f in (np.add, np.sin, np.maximum))


@program
def mandelbrot(np: Any) -> Iterator[Any]:
    x, y = np.meshgrid(np.linspace(-2.5, 1.5, 33), np.linspace(-1.5, 1.5, 25))
    c = x + y * 1j
    z, divtime = np.zeros_like(c), 12 + np.zeros(c.shape, dtype=int)
    for i in range(12):
        z = z**2 + c
        diverge = abs(z) > 2
        divtime[diverge & (divtime == 12)] = i
        z[diverge] = 2
    yield divtime


@program
def game_of_life(np: Any) -> Iterator[Any]:
    cells = (np.arange(400) * 7 % 3 == 0).astype(int).reshape(20, 20)
    for _ in range(4):
        n = (
            cells[:-2, :-2]
            + cells[:-2, 1:-1]
            + cells[:-2, 2:]
            + cells[1:-1, :-2]
            + cells[1:-1, 2:]
            + cells[2:, :-2]
            + cells[2:, 1:-1]
            + cells[2:, 2:]
        )
        birth, survive = (
            (n == 3) & (cells[1:-1, 1:-1] == 0),
            ((n == 2) | (n == 3)) & (cells[1:-1, 1:-1] == 1),
        )
        cells[...] = 0
        cells[1:-1, 1:-1][birth | survive] = 1
        yield cells.copy()


@program
def blocks_and_windows(np: Any) -> Iterator[Any]:
    z = np.sin(np.arange(256.0)).reshape(16, 16)
    yield np.add.reduceat(
        np.add.reduceat(z, np.arange(0, 16, 4), axis=0), np.arange(0, 16, 4), axis=1
    )
    yield from (
        f.reduceat(np.arange(12) * 5 % 7, [0, 5, 3, 8])
        for f in (np.add, np.multiply, np.maximum, np.minimum)
    )
    grid = (np.arange(100) % 7).reshape(10, 10)
    yield from (
        np.lib.stride_tricks.as_strided(grid, shape=(8, 8, 3, 3), strides=grid.strides * 2),
        np.lib.stride_tricks.sliding_window_view(grid, (3, 3)),
    )


@program
def exercises(np: Any) -> Iterator[Any]:
    yield from (
        np.pad(np.ones((3, 3)), pad_width=1, mode="constant", constant_values=0),
        np.diag(1 + np.arange(4), k=-1),
    )
    yield from (
        np.array(np.unravel_index(99, (6, 7, 8))),
        np.tile(np.array([[0, 1], [1, 0]]), (4, 4)),
    )
    x = np.arange(8)
    yield np.linalg.det(1.0 / np.subtract.outer(x, x + 0.5))
    a, b = np.ones(3) * 1, np.ones(3) * 2
    np.add(a, b, out=b)
    np.divide(a, 2, out=a)
    np.negative(a, out=a)
    yield np.multiply(a, b, out=a)
    yield from (
        np.fromiter((i * i for i in range(6)), dtype=float),
        np.linspace(0, 1, 11, endpoint=False)[1:],
    )
    z = np.ones(10)
    z += np.bincount(np.array([1, 2, 2, 5]), minlength=len(z))
    np.add.at(z, [9, 9, 0], 1)
    yield from (z, (np.cos(np.arange(9.0)) * 10).astype(int).reshape(3, 3)[[0, 2]][:, [1, 0]])
    total = np.cumsum(np.arange(20), dtype=float)
    total[3:] = total[3:] - total[:-3]
    yield total[2:] / 3
    faces = np.roll(
        (np.arange(30) * 37 % 100).reshape(10, 3).repeat(2, axis=1), -1, axis=1
    ).reshape(30, 2)
    yield np.unique(np.sort(faces, axis=1), axis=0)
    bits = (np.array([0, 1, 2, 3, 15, 128]).reshape(-1, 1) & (2 ** np.arange(8))) != 0
    yield from (
        bits.astype(int)[:, ::-1],
        np.unpackbits(np.array([7, 130], dtype=np.uint8)[:, np.newaxis], axis=1),
    )
    phi = np.arange(0, 10 * np.pi, 0.1)
    x, y = phi * np.cos(phi), phi * np.sin(phi)
    length = np.zeros_like(x)
    length[1:] = np.cumsum((np.diff(x) ** 2 + np.diff(y) ** 2) ** 0.5)
    yield np.interp(np.linspace(0, length.max(), 50), length, x)


@program
def singular_values(np: Any) -> Iterator[Any]:
    image = np.sin(np.arange(24 * 16 * 3.0)).reshape(24, 16, 3)
    u, s, vt = np.linalg.svd(image @ [0.2126, 0.7152, 0.0722])
    sigma = np.zeros((u.shape[1], vt.shape[0]))
    np.fill_diagonal(sigma, s)
    yield from (s, u @ sigma @ vt, (u @ sigma[:, :10] @ vt[:10, :]).shape)
    planes = np.transpose(image, (2, 0, 1))
    u, s, vt = np.linalg.svd(planes)
    sigma = np.zeros((3, 24, 16))
    for j in range(3):
        np.fill_diagonal(sigma[j, :, :], s[j, :])
    yield np.transpose(u @ sigma @ vt, (1, 2, 0))


@program
def moores_law(np: Any) -> Iterator[Any]:
    year = np.arange(1971, 2020)
    logs = np.log(2250 * np.exp(0.34 * (year - 1971)) * (1 + 0.1 * np.sin(year)))
    fit = np.linalg.lstsq((year[:, np.newaxis] ** [1, 0]).astype(float), logs, rcond=None)[0]
    yield from (
        fit,
        np.polyfit(year, logs, 1),
        np.polyval(np.polyfit(year - 1995.0, logs, deg=2), 3.0),
    )


@program
def network(np: Any) -> Iterator[Any]:
    x, classes = np.sin(np.arange(40 * 16.0)).reshape(40, 16), np.arange(40) % 10
    labels = np.zeros((40, 10))
    labels[np.arange(classes.size), classes] = 1
    w1, w2 = (
        0.2 * np.cos(np.arange(192.0)).reshape(16, 12) - 0.1,
        0.2 * np.cos(np.arange(120.0)).reshape(12, 10) - 0.1,
    )
    loss = 0.0
    for i in range(10):
        hidden = np.dot(x[i], w1)
        hidden = (hidden >= 0) * hidden
        error = labels[i] - np.dot(hidden, w2)
        loss += np.sum(error**2)
        back = np.dot(w2, error) * (hidden >= 0)
        w2 += 0.005 * np.outer(hidden, error)
        w1 += 0.005 * np.outer(x[i], back)
    yield from (loss, w1, w2)


@program
def black_scholes(np: Any) -> Iterator[Any]:
    price, strike, years, rate, sigma = np.linspace(50, 150, 11), 100.0, 1.0, 0.05, 0.2
    d1 = (np.log(price / strike) + (rate + sigma**2 / 2) * years) / (sigma * np.sqrt(years))
    below = [
        0.5 * (1 + np.vectorize(math.erf)(z / np.sqrt(2)))
        for z in (d1, d1 - sigma * np.sqrt(years))
    ]
    yield price * below[0] - strike * np.exp(-rate * years) * below[1]


@program
def comparisons(np: Any) -> Iterator[Any]:
    x = np.sqrt(np.arange(5.0))
    np.testing.assert_allclose(x * x, [0, 1, 2, 3, 4], rtol=1e-12)
    np.testing.assert_array_equal(x, x.copy())
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 5"):
        np.testing.assert_array_less(x, [1, 2, 3, 4, 0])
    yield x


@program
def forces(np: Any) -> Iterator[Any]:
    """The tutorial on static equilibrium."""
    base, cord, end = np.array([0, 0, 0]), np.array([3, 0, 0]), np.array([0, 0, 2])
    direction = cord - end
    unit = direction / np.linalg.norm(direction)
    force = unit * 5
    moment = np.cross(force, end - base)
    x, y, z = base + force
    yield from (
        unit,
        force,
        moment,
        base - force,
        base - moment,
        x,
        y,
        z,
        np.cross(np.array([0, -3, 0]), unit),
    )


def newton(np: Any, mesh: Any, f: Any, df: Any, radius: float) -> Any:
    z, steps = mesh.copy(), np.zeros(mesh.shape)
    for _ in range(8):
        inside = np.abs(z) < radius
        pz, dp = f(z[inside]), df(z[inside])
        z[inside] = z[inside] - pz / dp
        steps[inside] += 1
    return steps


@program
def fractals(np: Any) -> Iterator[Any]:
    """The tutorial on plotting fractals."""
    x, y = np.meshgrid(np.linspace(-2, 2, 21), np.linspace(-2, 2, 20))
    mesh = x + (1j * y)
    for c, function in (
        (-1, np.square),
        (np.pi / 10, lambda z: np.power(z, 3)),
        (-0.75 + 0.4j, lambda z: np.tan(np.square(z))),
    ):
        z, steps = mesh.copy(), np.zeros(mesh.shape)
        for _ in range(8):
            inside = np.abs(z) < 2
            z[inside] = function(z[inside]) + c
            steps[inside] += 1
        yield steps
    p = np.polynomial.Polynomial([-16, 0, 0, 0, 15, 0, 0, 0, 1])
    yield from (newton(np, mesh, p, p.deriv(), 2), p.deriv().coef, p.roots().size)
    yield newton(
        np, mesh, lambda z: np.square(np.tan(z)), lambda z: 2 * np.tan(z) / np.square(np.cos(z)), 50
    )


@program
def moores_law_in_files(np: Any) -> Iterator[Any]:
    """The tutorials on Moore's law and on saving arrays."""
    year = np.arange(1971, 2020)
    transistors = 2250 * np.exp(0.34 * (year - 1971)) * (1 + 0.1 * np.sin(year))
    model = np.polynomial.Polynomial.fit(year, np.log(transistors), deg=1).convert()
    b, a = model
    fitted = np.exp(b) * np.exp(a * year)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(
            f"{folder}/fit.npz", notes="exponential", year=year, fitted=fitted, constants=(b, a)
        )
        found = np.load(f"{folder}/fit.npz")
        yield from (
            found["year"],
            found["fitted"],
            found["constants"][1],
            sorted(found.files) == sorted(["notes", "year", "fitted", "constants"]),
        )
        np.savetxt(
            f"{folder}/fit.csv",
            X=np.block([year[:, np.newaxis], fitted[:, np.newaxis]]),
            header="x, y",
            delimiter=",",
        )
        yield from (
            np.loadtxt(f"{folder}/fit.csv", delimiter=","),
            np.loadtxt(f"{folder}/fit.csv", delimiter=",", usecols=1),
        )
        np.save(f"{folder}/year.npy", year)
        np.savez_compressed(f"{folder}/two.npz", year, b)
        yield from (np.load(f"{folder}/year.npy"), np.load(f"{folder}/two.npz")["arr_0"])


@program
def air_quality(np: Any) -> Iterator[Any]:
    """The tutorial on air quality, its table made up."""
    data = 90 + 80 * np.sin(np.arange(400.0)).reshape(200, 2)
    breakpoints = {
        "PM2.5": np.array([0, 31, 61, 91, 121, 251]),
        "CO": np.array([0, 1.1, 2.1, 10.1, 17.1, 35]),
    }
    total = np.array([0, 51, 101, 201, 301, 401, 501])

    def index(pollutant: str, amount: float) -> float:
        steps, inc = breakpoints[pollutant], 0.1 if pollutant == "CO" else 1
        i = min(max(k for k in range(6) if steps[k] <= amount), 4)
        low, high = steps[i], steps[i + 1] - inc
        return float((total[i + 1] - inc - total[i]) / (high - low) * (amount - low) + total[i])

    sums = np.cumsum(data, dtype=float, axis=0)
    sums[24:] = sums[24:] - sums[:-24]
    means = sums[23:] / 24
    indices = np.vectorize(index)
    worst = np.max(
        np.stack((indices("PM2.5", means[..., 0]), indices("CO", means[..., 1])), axis=1), axis=1
    )
    before, after = worst[np.where(means[:, 0] >= 90)][-30:], worst[np.where(means[:, 0] < 90)][:30]
    change = after - before
    yield from (worst, np.divide(np.mean(change), np.sqrt(np.var(change, ddof=1) / len(before))))


@program
def polynomials(np: Any) -> Iterator[Any]:
    """NumPy's pages on polynomials, old and new."""
    p = np.poly1d([1, 2, 3])
    yield from (
        p(0.5),
        p(np.array([1.0, 2.0])),
        p.c,
        p.order,
        p[1],
        (p * p).c,
        (p**3 + 4).c,
        p.deriv().c,
        np.sort_complex(p.r),
    )
    yield from (
        *(q.c for q in p / np.poly1d([1.0, 1.0])),
        np.poly1d([1, 2], True).c,
        p(p).c,
        p.integ(k=2).c,
    )
    x = np.linspace(-1, 2, 9)
    for name in ("Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre"):
        series = getattr(np.polynomial, name)
        f = series.fit(x, np.sin(x), 4)
        yield from (
            f(x),
            f.coef,
            (f * f)(0.3),
            f.integ()(x),
            *f.linspace(5),
            f.convert(kind=np.polynomial.Polynomial).coef,
        )
        yield series([1, 2, 0.5])(x.astype("float32") * 1j)


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_the_results_are_numpys(run, device):
    found, expected = list(run(cm)), list(run(numpy))
    assert len(found) == len(expected) > 0
    for ours, theirs in zip(found, expected, strict=True):
        ours, theirs = numpy.asarray(ours), numpy.asarray(theirs)
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_a_shape_is_set_in_place_or_not_at_all(device):
    x = cm.arange(12)
    x.shape = 3, 4
    assert x.shape == (3, 4) and x[1, 2] == 6
    with pytest.raises(AttributeError, match="^shape: .* in place"):
        x.T.shape = 12
    with pytest.raises(ValueError, match="^reshape: "):
        x.shape = 5

    def changed(y: cm.ndarray) -> cm.ndarray:
        y.shape = 12
        return y.sum()

    with pytest.raises(RuntimeError, match="^shape: a gradient"):
        cm.grad(changed)(cm.ones((3, 4)))


@pytest.mark.parametrize("kind", [int, float, complex])
def test_only_one_element_is_a_number(kind, device):
    with pytest.raises(TypeError, match=r"^only arrays of no dimensions .* \(2,\)"):
        kind(cm.zeros(2))


@pytest.mark.parametrize(
    "shape, strides", [((7,), (8,)), ((2,), (-8,)), ((3,), (4,)), ((2, 2), (8,))]
)
def test_strides_stay_in_the_array(shape, strides, device):
    with pytest.raises(ValueError, match="^as_strided: "):
        cm.lib.stride_tricks.as_strided(cm.arange(6), shape, strides)


def test_sections_must_begin_inside(device):
    for wrong in ([6], [-1], [[0]], [0.0]):
        with pytest.raises(IndexError, match="^add.reduceat: "):
            cm.add.reduceat(cm.arange(6), wrong)
            cm.subtract.reduceat(cm.arange(6), wrong)


@pytest.mark.parametrize(
    "given", [[1, 2, 3], 3.5, (True, False), [[1.5, 2], [3, 4j]], numpy.float32(3)]
)
def test_numpys_files_of_what_becomes_an_array(tmp_path, device, given):
    """Lists and numbers were refused, and so were NumPy's keywords."""
    path = tmp_path / "x.npy"
    cm.save(path, given, allow_pickle=False)
    found, expected = numpy.load(path), numpy.asarray(given)
    assert found.dtype == expected.dtype and found.tolist() == expected.tolist()
    for keywords in (
        {"allow_pickle": False},
        {"mmap_mode": None},
        {"mmap_mode": "r"},
        {"mmap_mode": "c"},
    ):
        assert cm.load(path, **keywords).tolist() == expected.tolist()
    for call in (
        lambda: cm.save(path, given, allow_pickle=True),
        lambda: cm.load(path, allow_pickle=True),
    ):
        with pytest.raises(
            ValueError, match="^(save|load): Python objects are neither written nor read"
        ):
            call()
    with pytest.raises(ValueError, match="^load: mmap_mode is None, 'r' or 'c'.*'r\\+'"):
        cm.load(path, mmap_mode="r+")
    for wrong in ([1, [2, 3]], [{}], ["a"]):
        with pytest.raises((TypeError, ValueError), match="^save: "):
            cm.save(path, wrong)


def test_numpys_files_that_are_none(tmp_path, device):
    path = tmp_path / "x.npy"
    half = cm.ones(3, dtype="bfloat16")
    for name, call in (
        ("save", lambda: cm.save(path, half)),
        ("savez", lambda: cm.savez(path, a=half)),
        ("savez_compressed", lambda: cm.savez_compressed(path, half)),
    ):
        with pytest.raises(
            TypeError, match=rf"^{name}: NumPy's files do not know bfloat16, got shape \(3,\)"
        ):
            call()
    assert not path.exists()
    with pytest.raises(TypeError, match="^save: an .npy file holds one array"):
        cm.save(path, {"x": cm.ones(2)})
    assert not path.exists()
    cm.save(path, cm.arange(1000))
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match="^load: .*x.npy"):
        cm.load(path)
    archive = path.with_suffix(".npz")
    numpy.savez(archive, x=numpy.arange(100))
    archive.write_bytes(archive.read_bytes()[:-5])
    with pytest.raises(ValueError, match="^load: .*x.npz: File is not a zip file"):
        cm.load(archive)
    numpy.save(path, numpy.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="^load: .*x.npy.*Python objects"):
        cm.load(path)
    with io.BytesIO() as file:  # open files: one after the other, each from where it begins
        for value in (cm.arange(4.0), cm.ones((2, 3), dtype="int8")):
            cm.save(file, value)
        numpy.save(file, numpy.arange(5))
        file.seek(0)
        for expected in (numpy.arange(4.0), numpy.ones((2, 3), "i1"), numpy.arange(5)):
            found = cm.load(file)
            assert found.dtype == expected.dtype and found.tolist() == expected.tolist()
        with pytest.raises(ValueError, match="^load: an open file must be one of NumPy's"):
            cm.load(file)
        with pytest.raises(TypeError, match="^save: an .npy file holds one array"):
            cm.save(file, {"x": cm.ones(2)})
    with io.BytesIO() as file:
        cm.savez(file, x=cm.arange(3))
        file.seek(0)
        assert cm.load(file)["x"].tolist() == [0, 1, 2]
    numpy.save(path, numpy.arange(3, dtype=">i4"))
    assert cm.load(path).tolist() == [0, 1, 2] and cm.load(path).dtype == "int32"
