"""The accuracy of the functions: `python -m benchmarks.accuracy [--device cuda]`.

Every function of the tests' records is computed in every floating-point dtype, on random numbers
that are first rounded to that dtype. The reference is NumPy's result in float64 (long double for
float64). The record holds the largest error:

- elementwise functions: in units in the last place (ulp) of the exact result, over COUNT numbers;
- all others: in epsilons of the dtype, relative to the largest element of the result, over SEEDS
  draws;
- gradients: likewise, against the gradient in float64, which the tests compare with central
  differences.

(For float64 beyond elementwise functions the error includes NumPy's own rounding.)

The records' arrays are small. `LARGE` has the sizes at which sums are long. Results go to
results/<device>/accuracy.json; results/accuracy.md is generated from all of them (`--table` writes
it again, `--check` reports whether it is up to date). A record that lacks functions is outdated
(outdated.py).

Special functions have a record of their own, results/<device>/special.json (`--special`): their
errors in ulp of the exact result, which mpmath computed, in the regions of their domains where the
tests look (tests/support/special_domains.py), ours and SciPy's.

`--only special.dawsn special.erfi` measures these and puts them into the record that is there.

To measure in parts, perhaps in parallel on several GPUs, and merge into
results/<device>/ and the table:

    python -m benchmarks.accuracy --part 1/2 --jobs 14 --out a
    python -m benchmarks.accuracy --part 2/2 --jobs 14 --out b
    python -m benchmarks.accuracy --take a/accuracy.json b/accuracy.json
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import multiprocessing
import pathlib
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from rich.progress import track

import cudamath as cm
from benchmarks.run import RESULTS, environment, folder
from benchmarks.support import (
    ELEMENTWISE,
    FLOATS,
    REGIONS,
    ROWS,
    Array,
    Elementwise,
    Row,
    Whole,
    attention,
    eps,
    kind,
    numbers,
    of_special,
    softmax,
    standard,
)

COUNT, SEEDS = 20_000, 3
A, W = Array, Whole
N = 1 << 20


def convolution(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """3 x 3, without padding, as a product."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    return np.moveaxis(np.tensordot(windows, w, ((1, 4, 5), (1, 2, 3))), -1, 1)


#: Long sums and many channels.
LARGE = [
    Row("sum, 2^20 numbers", lambda xp, x: xp.sum(x), (A((N,), 0, 0.1),), np.sum),
    Row(
        "sum along columns of 4,096 x 256",
        lambda xp, x: xp.sum(x, axis=0),
        (A((4096, 256)),),
        lambda x: x.sum(0),
    ),
    Row("var, 2^20 numbers around 100", lambda xp, x: xp.var(x), (A((N,), 99, 101),), np.var),
    Row(
        "linalg.vector_norm, 2^20 numbers",
        lambda xp, x: xp.linalg.vector_norm(x),
        (A((N,), 0, 0.1),),
        np.linalg.norm,
    ),
    Row("cumsum, 2^16 numbers", lambda xp, x: xp.cumsum(x), (A((1 << 16,), 0, 0.5),), np.cumsum),
    Row(
        "matmul, 512 x 512 x 512", lambda xp, a, b: a @ b, (A((512, 512)), A((512, 512))), np.matmul
    ),
    Row(
        "ml.conv2d, 64 channels, 28 x 28, 3 x 3",
        lambda xp, x, w: xp.ml.conv2d(x, w),
        (A((4, 64, 28, 28)), A((64, 64, 3, 3))),
        convolution,
    ),
    Row(
        "ml.softmax, rows of 50,257",
        lambda xp, x: xp.ml.softmax(x),
        (A((16, 50_257), -8, 8),),
        softmax,
    ),
    Row(
        "ml.cross_entropy, rows of 50,257",
        lambda xp, x, t: xp.ml.cross_entropy(x, t),
        (A((64, 50_257), -8, 8), W((64,), 50_257)),
        lambda x, t: -np.log(np.take_along_axis(softmax(x), t[:, None], 1)).mean(),
    ),
    Row(
        "ml.layer_norm, rows of 4,096",
        lambda xp, x: xp.ml.layer_norm(x, 4096),
        (A((64, 4096), 1, 5),),
        lambda x: standard(x, 1),
    ),
    Row(
        "ml.batch_norm, 32 x 64 x 14 x 14",
        lambda xp, x: xp.ml.batch_norm(x, training=True)[0],
        (A((32, 64, 14, 14), 1, 5),),
        lambda x: standard(x, (0, 2, 3)),
    ),
    Row(
        "ml.scaled_dot_product_attention, causal, 256 x 64",
        lambda xp, q, k, v: xp.ml.scaled_dot_product_attention(q, k, v, causal=True),
        (A((1, 4, 256, 64)),) * 3,
        attention,
    ),
    Row(
        "ml.mse_loss, 2^20 numbers",
        lambda xp, x, t: xp.ml.mse_loss(x, t),
        (A((N,)), A((N,))),
        lambda x, t: ((x - t) ** 2).mean(),
    ),
    Row(
        "ml.upsample, bilinear, 32 x 32 to 64 x 64",
        lambda xp, x: xp.ml.upsample(x, 64, mode="bilinear"),
        (A((4, 8, 32, 32)),),
        lambda x: doubled(doubled(x, 2), 3),
    ),
    Row("fft.fft, 2^16 numbers", lambda xp, x: xp.fft.fft(x), (A((1 << 16,)),), np.fft.fft),
    Row(
        "linalg.solve, 256 x 256",
        lambda xp, a, b: xp.linalg.solve(a + 32 * xp.eye(256, dtype=a.dtype), b),
        (A((256, 256)), A((256, 8))),
        lambda a, b: np.linalg.solve(a + 32 * np.eye(256), b),
    ),
    Row(
        "linalg.inv, 256 x 256",
        lambda xp, a: xp.linalg.inv(a + 32 * xp.eye(256, dtype=a.dtype)),
        (A((256, 256)),),
        lambda a: np.linalg.inv(a + 32 * np.eye(256)),
    ),
    Row(
        "linalg.cholesky, 256 x 256",
        lambda xp, a: xp.linalg.cholesky(a @ a.T + xp.eye(256, dtype=a.dtype)),
        (A((256, 300)),),
        lambda a: np.linalg.cholesky(a @ a.T + np.eye(256)),
    ),
    Row(
        "linalg.eigvalsh, 128 x 128",
        lambda xp, a: xp.linalg.eigvalsh(a + a.T),
        (A((128, 128)),),
        lambda a: np.linalg.eigvalsh(a + a.T),
    ),
    Row(
        "linalg.svdvals, 128 x 100",
        lambda xp, a: xp.linalg.svdvals(a),
        (A((128, 100)),),
        lambda a: np.linalg.svd(a, compute_uv=False),
    ),
]


def doubled(x: np.ndarray, axis: int) -> np.ndarray:
    """Twice as many elements along an axis, between their neighbours."""
    n = x.shape[axis]
    place = np.clip((np.arange(2 * n) + 0.5) / 2 - 0.5, 0, n - 1)
    first = place.astype(int)
    share = (place - first).reshape(-1, *(1,) * (x.ndim - 1 - axis))
    return x.take(first, axis) * (1 - share) + x.take(np.minimum(first + 1, n - 1), axis) * share


# -------------------- measuring


def ulps(result: np.ndarray, exact: np.ndarray, dtype: np.dtype) -> float:
    """The largest error in units in the last place of the exact result."""
    wide = exact.dtype
    least = (
        -133
        if dtype == cm.bfloat16
        else math.frexp(float(np.finfo(dtype).smallest_subnormal))[1] - 1
    )
    exponent = np.floor(np.log2(np.maximum(np.abs(exact), np.finfo(np.float64).tiny)))
    unit = np.exp2(np.maximum(exponent + math.log2(eps(dtype)), least)).astype(wide)
    return worst(np.abs(result.astype(wide) - exact) / unit, result, exact)


def epsilons(results: Sequence[np.ndarray], exact: Sequence[np.ndarray], dtype: np.dtype) -> float:
    """The largest error in epsilons, relative to the largest number of its array."""
    errors = [0.0]
    for a, b in zip(results, exact, strict=True):
        size = float(np.max(np.abs(b), initial=0, where=np.isfinite(b)))
        with np.errstate(all="ignore"):
            wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
            errors.append(worst(np.abs(a.astype(wide) - b) / (eps(dtype) * (size or 1.0)), a, b))
    return max(errors)


def worst(errors: np.ndarray, result: np.ndarray, exact: np.ndarray) -> float:
    """The largest; where the exact answer is not a number or infinite, the same is wanted
    (infinity: it is not)."""
    odd = ~np.isfinite(exact)
    if odd.any() and not np.array_equal(
        result[odd].astype(exact.dtype), exact[odd], equal_nan=True
    ):
        return math.inf
    largest = float(np.max(errors, initial=0, where=~odd))
    return largest if largest == largest else math.inf


def gradients(
    run: Callable[..., Any], arrays: Sequence[np.ndarray], which: Sequence[int], device: str
) -> list[np.ndarray]:
    """Gradients of the weighted sum of what `run` returns, by the arrays at `which`."""
    there = [cm.asarray(a, device=device) for a in arrays]

    def total(*xs: Any) -> Any:
        full = list(there)
        for i, x in zip(which, xs, strict=True):
            full[i] = x
        outputs = run(*full)
        result: Any = 0
        for y in outputs if isinstance(outputs, (tuple, list)) else [outputs]:
            weights = np.random.default_rng(1).uniform(0.5, 1, y.shape)
            result = result + cm.real((y * cm.asarray(weights, dtype=y.dtype, device=device)).sum())
        return result

    return [
        g.to_numpy() for g in cm.grad(total, tuple(range(len(which))))(*[there[i] for i in which])
    ]


def of_function(row: Elementwise, dtype: np.dtype, device: str) -> dict[str, Any] | None:
    """A function element by element; None if it does not take or return such numbers."""
    if "f" not in row.kinds and not ("p" in row.kinds and dtype.itemsize > 2):
        return None
    rng = np.random.default_rng(0)
    arrays = [numbers(rng, COUNT, dtype, row.low, row.high) for _ in range(row.inputs)]
    output = row.function(*[cm.asarray(a, device=device) for a in arrays]).to_numpy()
    if kind(output.dtype) != "f" or row.name == "nextafter":
        return None
    wide = np.longdouble if dtype == np.float64 else np.float64
    with np.errstate(all="ignore"):
        exact = row.numpy(*[a.astype(wide) for a in arrays])
    result = {
        "op": row.name,
        "dtype": dtype.name,
        "unit": "ulp",
        "value": ulps(output, exact, dtype),
    }
    which = [i for i, has in enumerate(row.grad) if has]
    if which and dtype != np.float64:
        result["gradient"] = gradient_error(row.function, arrays, which, dtype, device)
    return result


def gradient_error(
    run: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    which: Sequence[int],
    dtype: np.dtype,
    device: str,
) -> float:
    full = [a.astype(np.float64) if kind(a.dtype) == "f" else a for a in arrays]
    return epsilons(
        gradients(run, arrays, which, device), gradients(run, full, which, device), dtype
    )


def of_row(row: Row, dtype: np.dtype, device: str) -> dict[str, Any] | None:
    """Any other function; None if it returns no floating-point numbers, or takes none of 16 bits
    (linalg, fft)."""
    value, gradient, large = 0.0, None, row in LARGE
    which = [i for i, a in enumerate(row.inputs) if isinstance(a, Array) and not a.constant]
    for seed in range(1 if large else SEEDS):
        arrays = row.arrays(dtype, seed)
        try:
            output = row.run(cm, *[cm.asarray(a, device=device) for a in arrays])
        except TypeError:
            if large and dtype.itemsize == 2:
                return None
            raise
        outputs = [
            np.asarray(y) if isinstance(y, np.generic) else y.to_numpy()
            for y in (output if isinstance(output, (tuple, list)) else [output])
        ]
        if all(kind(y.dtype) not in "fc" for y in outputs):
            return None
        value = max(value, epsilons(outputs, row.expected(arrays), dtype))
        if row.grad and dtype != np.float64:
            error = gradient_error(lambda *a: row.run(cm, *a), arrays, which, dtype, device)
            gradient = max(gradient or 0.0, error)
    return {
        "op": row.name,
        "dtype": dtype.name,
        "unit": "epsilon",
        "value": value,
        "gradient": gradient,
        "large": large,
    }


WORK: list[tuple[Callable[..., Any], Any]] = [
    *[(of_function, row) for row in ELEMENTWISE],
    *[(of_row, row) for row in [*ROWS, *LARGE]],
]


def of_work(index: int, device: str) -> list[dict[str, Any]]:
    """One function in all dtypes."""
    how, row = WORK[index]
    with cm.device(device):
        results = [how(row, dtype, device) for dtype in FLOATS]
    return [result for result in results if result is not None]


def measure(device: str, jobs: int, chosen: Iterable[int]) -> list[dict[str, Any]]:
    """These functions, by so many processes: on a GPU most of the time goes into compiling kernels.
    Those of large arrays, which take longest, are begun first."""
    run = functools.partial(of_work, device=device)
    chosen = sorted(chosen, reverse=True)
    if jobs == 1:
        return [result for i in track(chosen, "accuracy") for result in run(i)]
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        lists = track(pool.map(run, chosen), "accuracy", len(chosen))
        return [result for results in lists for result in results]


def ordered(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in the order of the functions."""
    place = {name: i for i, name in reversed(list(enumerate(row.name for _, row in WORK)))}
    return sorted(rows, key=lambda row: place[row["op"]])


def taken(files: Sequence[pathlib.Path]) -> dict[str, Any]:
    """One record of the parts in these files. ValueError unless all are of one device and commit,
    and together complete."""
    records = [json.loads(file.read_text()) for file in files]
    for what in ("device", "commit", "parts"):
        if len({record[what] for record in records}) > 1:
            raise ValueError(f"take: {what} differs: {[record[what] for record in records]}")
    parts, complete = (
        sorted(record["part"] for record in records),
        list(range(1, records[0]["parts"] + 1)),
    )
    if parts != complete:
        raise ValueError(f"take: wants parts {complete}, got {parts}")
    return {
        **records[0],
        "part": 1,
        "parts": 1,
        "rows": [row for record in records for row in record["rows"]],
    }


def added(record: dict[str, Any], names: Sequence[str], device: str, jobs: int) -> dict[str, Any]:
    """A record with these functions measured now: their rows tell of which commit and date they
    are. ValueError for a name of no function, and for the record of another device."""
    known = {row.name for _, row in WORK}
    if unknown := sorted({*names} - known):
        raise ValueError(f"only: no such functions: {', '.join(unknown)}")
    here = environment(device)
    if record["device"] != here["device"]:
        raise ValueError(f"only: the record is of {record['device']}, this is {here['device']}")
    rows = measure(device, jobs, [i for i, (_, row) in enumerate(WORK) if row.name in names])
    own = {key: here[key] for key in ("commit", "date")}
    kept = [row for row in record["rows"] if row["op"] not in names]
    return {**record, "rows": [*kept, *[row | own for row in rows]]}


def expected_functions() -> set[str]:
    """The functions that a complete record holds: those of the tests' records with a gradient."""
    return {row.name for row in ROWS if row.grad} | {
        row.name for row in ELEMENTWISE if any(row.grad)
    }


def write(record: dict[str, Any], out: pathlib.Path) -> None:
    """accuracy.json, one row per line."""
    out.mkdir(parents=True, exist_ok=True)
    lines = [
        row | {what: round(row[what], 4) for what in ("value", "gradient") if row.get(what)}
        for row in ordered(record["rows"])
    ]
    head = json.dumps({key: value for key, value in record.items() if key != "rows"}, indent=1)[:-2]
    text = ",\n  ".join(map(json.dumps, lines))
    (out / "accuracy.json").write_text(f'{head},\n "rows": [\n  {text}\n ]\n}}\n')


def beside_mpmath(name: str, device: str) -> list[dict[str, Any]]:
    """A special function in both dtypes that SciPy has."""
    rows = []
    for dtype in ("float32", "float64"):
        ours, theirs = of_special(name, dtype, device)
        errors = {"value": round(ours, 4), "scipy": round(theirs, 4)}
        rows.append({"op": f"special.{name}", "dtype": dtype, **errors})
    return rows


def measure_special(device: str, jobs: int) -> dict[str, Any]:
    """The record of the special functions, by so many processes."""
    run, names = functools.partial(beside_mpmath, device=device), list(REGIONS)
    if jobs == 1:
        lists = [run(name) for name in track(names, "special functions")]
    else:
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
            lists = list(track(pool.map(run, names), "special functions", len(names)))
    return {**environment(device), "rows": [row for rows in lists for row in rows]}


def write_special(record: dict[str, Any], out: pathlib.Path) -> None:
    """special.json, one row per line."""
    out.mkdir(parents=True, exist_ok=True)
    head = json.dumps({key: value for key, value in record.items() if key != "rows"}, indent=1)[:-2]
    text = ",\n  ".join(map(json.dumps, record["rows"]))
    (out / "special.json").write_text(f'{head},\n "rows": [\n  {text}\n ]\n}}\n')


# -------------------- the table


def figure(error: float | None) -> str:
    """An error, two digits.

    >>> figure(0.0), figure(0.5012), figure(13.7), figure(None)
    ('0', '0.5', '14', '')
    """
    return (
        ""
        if error is None
        else "0"
        if error == 0
        else f"{error:.2g}"
        if error < 9.95
        else f"{error:.0f}"
    )


def cells(results: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Lines of a table: function, and for each dtype value and gradient; of several records of a
    function the worst."""
    lines: dict[str, dict[str, list[Any]]] = {}
    for result in results:
        both = lines.setdefault(result["op"], {}).setdefault(result["dtype"], [None, None])
        for i, what in enumerate(("value", "gradient")):
            if result.get(what) is not None:
                both[i] = max(result[what], both[i] or 0.0)
    names = [dtype.name for dtype in FLOATS]
    return [
        [
            f"`{op}`" if " " not in op else op,
            *[" / ".join(filter(None, map(figure, by_dtype.get(name, [None])))) for name in names],
        ]
        for op, by_dtype in lines.items()
    ]


def special_cells(results: Iterable[dict[str, Any]]) -> list[list[str]]:
    """Lines of a table: function, and for float32 and float64 ours and SciPy's."""
    lines: dict[str, dict[str, str]] = {}
    for row in results:
        both = f"{figure(row['value'])} / {figure(row['scipy'])}"
        lines.setdefault(row["op"], {})[row["dtype"]] = both
    names = ("float32", "float64")
    return [[f"`{op}`", *[both.get(name, "") for name in names]] for op, both in lines.items()]


def markdown(results: pathlib.Path) -> str:
    """results/accuracy.md."""
    lines = [
        "# Accuracy",
        "",
        "The largest error found: value / gradient. Elementwise functions: in units in the last "
        "place of the exact "
        "result; their gradients and all other functions: in epsilons of the dtype (float16 "
        "2^-10, bfloat16 2^-7, float32 "
        "2^-23, float64 2^-52), relative to the largest number of the result. A result that is "
        "only rounded is off by at "
        "most 0.5. Truth: NumPy in float64 (long double for elementwise functions of float64; "
        "otherwise NumPy's own "
        "rounding is in the figures of float64); gradients: in float64. Generated by `python -m "
        "benchmarks.accuracy`.",
    ]
    heading = [
        "| function | " + " | ".join(dtype.name for dtype in FLOATS) + " |",
        "|---" + "|---:" * len(FLOATS) + "|",
    ]
    for path in sorted(results.glob("*/accuracy.json")):
        record = json.loads(path.read_text())
        rows = record["rows"]
        lines += [
            "",
            f"## {record['device']}",
            "",
            f"Commit `{record['commit']}`, {record['date']}.",
        ]
        for title, chosen in (
            ("Elementwise functions", [r for r in rows if r["unit"] == "ulp"]),
            ("Other functions", [r for r in rows if r["unit"] == "epsilon" and not r["large"]]),
            ("Large arrays", [r for r in rows if r.get("large")]),
        ):
            lines += [
                "",
                f"**{title}**",
                "",
                *heading,
                *["| " + " | ".join(line) + " |" for line in cells(chosen)],
            ]
    for path in sorted(results.glob("*/special.json")):
        record = json.loads(path.read_text())
        lines += [
            "",
            f"## Special functions beside mpmath: {record['device']}",
            "",
            f"Commit `{record['commit']}`, {record['date']}. The largest error in units in the "
            "last place over the regions of tests/support/special_domains.py, ours / SciPy's.",
            "",
            "| function | float32 | float64 |",
            "|---|---:|---:|",
            *["| " + " | ".join(line) + " |" for line in special_cells(record["rows"])],
        ]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and write, or make or check the table alone."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--device", default="cuda" if cm.cuda.device_count() else "cpu")
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        help="folder for accuracy.json; by default results/<device>, and the table is written",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the work")
    parser.add_argument(
        "--part", default="1/1", help="of the functions, such as 2/3: they are dealt out in turn"
    )
    parser.add_argument(
        "--take",
        type=pathlib.Path,
        nargs="+",
        help="measure nothing: put these records into results/<device>",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="FUNCTION",
        help="measure these functions, and put them into the record that is there",
    )
    parser.add_argument(
        "--special", action="store_true", help="measure the special functions alone, beside mpmath"
    )
    parser.add_argument("--table", action="store_true", help="only write accuracy.md anew")
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit 1 if accuracy.md is not up to date",
    )
    arguments = parser.parse_args(argv)
    table = RESULTS / "accuracy.md"
    if arguments.check:
        return 0 if table.read_text(encoding="utf-8") == markdown(RESULTS) else 1
    if arguments.special:
        record = measure_special(arguments.device, arguments.jobs)
        write_special(record, arguments.out or RESULTS / folder(arguments.device))
    elif arguments.take:
        record = taken(arguments.take)
        write(record, RESULTS / record["folder"])
    elif arguments.only:
        place = arguments.out or RESULTS / folder(arguments.device)
        record = json.loads((place / "accuracy.json").read_text())
        write(added(record, arguments.only, arguments.device, arguments.jobs), place)
    elif not arguments.table:
        part, parts = map(int, arguments.part.split("/"))
        chosen = range(part - 1, len(WORK), parts)
        rows = measure(arguments.device, arguments.jobs, chosen)
        place = folder(arguments.device)
        record = {
            **environment(arguments.device),
            "folder": place,
            "part": part,
            "parts": parts,
            "rows": rows,
        }
        write(record, arguments.out or RESULTS / place)
    if not arguments.out:
        table.write_text(markdown(RESULTS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
