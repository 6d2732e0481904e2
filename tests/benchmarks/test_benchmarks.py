"""The measuring itself is tested: the timer on calls of known cost, the report on records of known
content."""

from __future__ import annotations

import fnmatch
import json
import os
import pathlib
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks import (
    accuracy,
    beside_numpy,
    charts,
    format,
    headers,
    limits,
    outdated,
    report,
    rows,
    rows_grid,
    run,
    sanitize,
    sanitize_cases,
    timer,
)
from cudamath.testing import layout_of
from cudamath.timing import Spread, interleave

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated"
)


def test_spread_is_numpys_quantiles() -> None:
    samples = list(np.random.default_rng(0).random(51))
    spread = Spread.of(samples)
    quantiles = np.quantile(samples, [0.2, 0.5, 0.8])
    np.testing.assert_allclose([spread.low, spread.median, spread.high], quantiles, rtol=1e-12)


def test_interleave_measures_what_a_call_takes(clock: Any) -> None:
    ran: list[str] = []

    def call(name: str, seconds: float) -> None:
        ran.append(name)
        clock.sleep(seconds)

    spreads = interleave(
        {"long": lambda: call("long", 0.02), "short": lambda: call("short", 0.005)},
        rounds=5,
        seconds=0.02,
        warm=0,
    )
    assert spreads["long"].rounds == 5
    assert (spreads["long"].median, spreads["short"].median) == pytest.approx((0.02, 0.005))
    assert (
        ran.count("short") - 3 == 4 * (ran.count("long") - 3) == 20
    )  # three to learn how long a call takes


def test_interleave_times_the_host_alone_on_request(clock: Any) -> None:
    waiting: list[float] = []

    def synchronize() -> None:  # stands for a device that takes 10 ms a call
        clock.sleep(0.01 * len(waiting))
        waiting.clear()

    calls = {"launch": lambda: waiting.append(0)}
    arguments = {"rounds": 3, "seconds": 0.01, "warm": 0, "synchronize": synchronize, "most": 3}
    assert interleave(calls, wait=False, **arguments)["launch"].median == 0
    assert interleave(calls, wait=True, **arguments)["launch"].median == pytest.approx(0.01)


@pytest.mark.parametrize("arguments", [{"calls": {}}, {"calls": {"a": int}, "rounds": 0}])
def test_interleave_refuses_nothing_to_do(arguments: dict) -> None:
    with pytest.raises(ValueError, match="interleave: needs at least one call and one round"):
        interleave(**arguments)


def test_turns_walks_through_the_copies() -> None:
    seen: list[int] = []
    call = timer.turns([lambda i=i: seen.append(i) for i in range(3)])  # type: ignore[misc]
    for _ in range(7):
        call()
    assert seen == [0, 1, 2, 0, 1, 2, 0]


def test_absent_peers_are_named() -> None:
    there, absent = timer.peers("cpu")
    assert [peer.name for peer in there][:2] == ["cudamath", "numpy"]
    assert set(absent) | {peer.name for peer in there} == {
        "cudamath",
        "numpy",
        "torch",
        "cupy",
        "jax",
    }
    assert absent["cupy"]
    there, absent = timer.peers("cpu", "numpy", "cupy")
    assert [peer.name for peer in there] == ["numpy"] and list(absent) == ["cupy"]


@pytest.mark.parametrize(
    "name", [name for name, row in rows.ROWS.items() if row.kind == "cpu" or (row.kind == "host")]
)
def test_libraries_agree_on_a_row(name: str) -> None:
    """What is timed side by side is the same computation: results agree with NumPy's or torch's."""
    row = rows.ROWS[name]
    if (
        row.work > 1e9
        or sum(np.prod(a.shape) for a in row.arguments(np.random.default_rng(0))) > 2e6
    ):
        pytest.skip("large; the smaller rows of its family are compared")
    there, _ = timer.peers("cpu")
    results = {}
    for peer in there:
        if peer.name in row.calls and peer.name != "jax":
            arguments = [peer.array(a) for a in row.arguments(np.random.default_rng(0))]
            results[peer.name] = flat(row.calls[peer.name](peer.library, *arguments)())
    if len(results) < 2:
        pytest.skip("no peer installed")
    reference = results.pop("torch" if "torch" in results else "numpy")
    for other in results.values():
        if row.title.startswith(("random.", "dropout")):  # other numbers, of the same distribution
            assert other.size == reference.size
            assert abs(other.mean() - reference.mean()) < 8 * reference.std() / np.sqrt(
                reference.size
            )
            continue
        np.testing.assert_allclose(other, reference, rtol=2e-4, atol=2e-4 * np.abs(reference).max())


def flat(result: object) -> np.ndarray:
    """Arrays of any library, nested in tuples, as one vector. A gradient row of torch has no value,
    ours has one."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], tuple):
        result = result[1]  # (value, gradients)
    if isinstance(result, (tuple, list)):
        return np.concatenate([flat(part) for part in result])
    detach = getattr(result, "detach", None)
    host = np.asarray(detach() if detach else result)
    return (
        np.stack([host.real, host.imag] if host.dtype.kind == "c" else [host])
        .astype(np.float64)
        .ravel()
    )


@pytest.mark.parametrize(("name", "kind"), rows_grid.KINDS)
def test_libraries_agree_on_the_grid(name: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    import cudamath as cm

    drawn = rows_grid.draw(rows_grid.EXPRESSIONS[name][1])(np.random.default_rng(0))
    call = rows_grid.bound(name, kind, 1 << 14)
    ours = call(cm, *[cm.asarray(x, device="cpu") for x in drawn])()
    theirs = call(torch, *map(torch.from_numpy, drawn))()
    kept = "int64" if name == "reduce_argmax" else kind
    assert (
        str(theirs.dtype) == f"torch.{kept}"
        and ours.dtype == kept
        and ours.shape == tuple(theirs.shape)
    )
    assert name not in rows_grid.ELEMENTWISE or ours.size == (1 << 14) // (1 + (name == "strided"))
    theirs = theirs.float().numpy()
    np.testing.assert_allclose(
        ours.astype("float32").to_numpy(), theirs, rtol=8e-3, atol=8e-3 * np.abs(theirs).max()
    )


def test_the_grid_is_a_table_of_its_own() -> None:
    records = [sample(name="grid_exp_float32_16"), sample(name="grid_exp_float16_4096")]
    lines = rows_grid.section(records)
    assert lines[-2:] == [
        "| exp(a), float32 |  | 2.00 (50%) |  |  |",
        "| exp(a), float16 |  |  |  | 2.00 (50%) |",
    ]
    assert lines[-4] == "| expression | 1 MB | 16 MB | 256 MB | 4 GB |"
    assert rows_grid.section([sample()]) == []
    assert "grid" not in "".join(report.tables(records)[:2]) and report.tables(records) == lines


def sample(**changes: object) -> dict:
    spread = {"low": 1e-6, "high": 3e-6, "rounds": 5}
    return {
        "name": "add",
        "kind": "device",
        "title": "a + b",
        "work": 4e6,
        "unit": "B",
        "results": {
            "cudamath": {"median": 2e-6, "rate": 2e12, "of_ceiling": 0.5, **spread},
            "torch": {"median": 4e-6, "rate": 1e12, "of_ceiling": 0.25, **spread},
            "add_naive": {"median": 8e-6, "rate": 5e11, "of_ceiling": 0.125, **spread},
        },
        "ceilings": {"B": 4e12, "FLOP": 5e13},
        "device": "A GPU",
        "processor": "A CPU",
        "commit": "abc",
        "date": "2026-01-01",
        "versions": {"numpy": "2.4", "torch": None},
    } | changes


def test_report_shows_the_records(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a-gpu"
    folder.mkdir()
    (folder / "rows.json").write_text(json.dumps([sample()]))
    (folder / "tests.json").write_text(
        json.dumps(
            {
                "marks": "gpu",
                "devices": 1,
                "device": "A GPU",
                "passed": 7,
                "failed": 1,
                "error": 1,
                "skipped": 3,
                "commit": "abc",
                "date": "2026-01-01",
            }
        )
    )
    text = report.markdown(tmp_path)
    assert "## A GPU" in text and "copy 4,000 GB/s" in text and "50 TFLOP/s" in text
    assert "| a + b | 2 us | 4 us | 2.00 | 50% |" in text
    assert "| `add_naive` | a + b | 8 us | 0.25 |" in text
    assert "7 passed, 2 failed, 3 skipped" in text


def test_rows_of_several_runs_have_the_ceilings_of_each() -> None:
    other = sample(commit="def", date="2026-01-03", ceilings={"B": 4.1e12, "FLOP": 5e13})
    line = report.heading([sample(), other])
    assert "Commits `abc`, `def`, 2026-01-01 to 2026-01-03;" in line
    assert "copy 4,000 to 4,100 GB/s" in line and "product 50 TFLOP/s" in line


def test_rows_behind_say_what_limits_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, behind = sample(), sample(name="sort_x", title="sort")
    behind["results"]["torch"]["median"] = 1e-6
    assert [
        (ratio, row["name"], best)
        for ratio, row, best in limits.behind([ahead, behind], ["cudamath", "torch"])
    ] == [(0.5, "sort_x", "torch")]
    monkeypatch.setattr(limits, "REASONS", {"sort": "Slow.", "sort_x": "Slower."})
    lines = limits.section([ahead, behind], ["cudamath", "torch"], format.duration)
    assert (
        "1 of 2 rows" in lines[1] and lines[-1] == "| sort | 0.50 | 2 us | torch 1 us | Slower. |"
    )
    assert limits.section([ahead], ["cudamath", "torch"], format.duration) == []


def test_numpy_beside_itself_is_what_a_run_cannot_tell() -> None:
    def timed(title: str, **microseconds: float) -> dict:
        return {
            "title": title,
            "results": {
                name.replace("_", " "): {"median": 1e-6 * t} for name, t in microseconds.items()
            },
        }

    alike, slower = (
        timed("exp", cudamath=10.4, numpy=10, numpy_again=11),
        timed("sum", cudamath=12, numpy=10, numpy_again=10),
    )
    lines = beside_numpy.section([alike, slower, timed("conv", cudamath=5, torch=4)])
    assert "2 rows" in lines[3] and "worst 0.83, below 1 in 1 rows" in lines[3]
    assert "0.91 to 1.00" in lines[3] and lines[4:] == [
        "- sum: 0.83"
    ]  # 12 / 10 is more than 11 / 10
    assert beside_numpy.section([timed("conv", cudamath=5, torch=4)]) == []


def test_numpy_takes_part_twice_on_the_cpu() -> None:
    row = rows.ROWS["cpu_add_float32_1e5"]
    found = run.measure(
        row, "cpu", [timer.Cudamath("cpu"), timer.NumPy("cpu")], run.Settings(rounds=1, warm=0)
    )
    assert set(found) == {"cudamath", "numpy", rows.AGAIN}


def test_outdated_records_are_reported() -> None:
    """Not refused: only who has a device can measure it anew."""
    for line in outdated.lines(run.RESULTS):
        warnings.warn(line, stacklevel=1)


def test_what_is_outdated_about_a_record(tmp_path: pathlib.Path) -> None:
    functions, names = (
        accuracy.expected_functions(),
        [r.name for r in rows.ROWS.values() if r.kind != "cpu"],
    )
    for folder, ops, kept in (
        ("complete", functions, names),
        ("a-gpu", functions - {"exp", "ml.softmax"}, [*names[:-2], "a_row_of_old"]),
        ("b-gpu", functions | {"expo"}, names),
    ):
        (tmp_path / folder).mkdir()
        held = {"accuracy.json": {"rows": [{"op": op} for op in ops]}}
        held["rows.json"] = [{"name": name, "kind": "device"} for name in kept]
        for file, record in held.items():
            (tmp_path / folder / file).write_text(json.dumps(record))
    lacking = ", ".join(sorted(names[-2:]))
    assert outdated.lines(tmp_path) == [
        "outdated: benchmarks/results/a-gpu/accuracy.json lacks exp, ml.softmax",
        f"outdated: benchmarks/results/a-gpu/rows.json lacks {lacking}; still holds a_row_of_old",
        "outdated: benchmarks/results/b-gpu/accuracy.json still holds expo",
    ]


def test_each_row_behind_has_a_reason() -> None:
    for folder in report.folders(report.ROOT / "benchmarks" / "results"):
        recorded = [row for row in report.records(folder) if row["name"] in rows.ROWS]
        for _, row, _ in limits.behind(recorded, list(report.LIBRARIES)):
            assert limits.reason(row["name"]), f"limits.toml says nothing of {row['name']}"
        for _, row, _, _ in limits.below(recorded, list(report.LIBRARIES)):
            assert limits.missed(row["name"]), f"targets.toml says nothing of {row['name']}"
    for start in [*limits.REASONS, *limits.MISSED]:
        assert any(name.startswith(start) for name in rows.ROWS), (
            f"limits.toml, targets.toml: no row begins with {start}"
        )
    for wanted in limits.TARGETS:
        assert wanted.of in ("ceiling", "peer")
        for pattern in wanted.rows:
            assert fnmatch.filter(rows.ROWS, pattern), f"targets.toml: no row is called {pattern}"


def test_kernels_below_their_target_say_what_limits_them(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = ["cudamath", "torch"]
    monkeypatch.setattr(
        limits,
        "TARGETS",
        [
            limits.Target("additions", "ceiling", 0.6, ["add*"], bytes=100),
            limits.Target(
                "sorts by hand", "peer", 0.9, ["sort_*"], mean=1.0, kernels=["radix", "merge"]
            ),
        ],
    )
    small, fine, slow = (
        sample(work=99),
        sample(name="add_x", work=100),
        sample(name="add_y", title="a - b", work=100),
    )
    fine["results"]["cudamath"]["of_ceiling"] = 0.597  # two digits are what the table shows
    sort = sample(
        name="sort_x",
        title="sort",
        commit="def",
        results={
            "cudamath": {"median": 1e-6},
            "torch": {"median": 4e-6},
            "merge": {"median": 8e-6},
            "radix": {"median": 5e-6},
        },
    )
    alone = sample(
        name="sort_y", results={"cudamath": {"median": 1e-6}, "radix": {"median": 5e-6}}
    )  # beside no peer
    host = sample(name="add_z", kind="host", work=100)
    found = limits.below([small, fine, slow, sort, alone, host], libraries)
    assert [
        (round(share, 6), row["name"], kernel, wanted.family)
        for share, row, kernel, wanted in found
    ] == [(0.5, "add_y", "cudamath", "additions"), (0.8, "sort_x", "radix", "sorts by hand")]
    monkeypatch.setattr(limits, "MISSED", {"sort": "Comparisons."})
    monkeypatch.setattr(limits, "REASONS", {"add": "Memory.", "sort": "Slower than another."})
    lines = limits.targets_section([small, fine, slow, sort], libraries, format.duration)
    assert "| additions | the ceiling | 0.60 | 0.55 | 0.50 | 2 | 1 |" in lines
    assert "| sorts by hand | the best peer | 0.90, mean 1.00 | 0.80 | 0.80 | 1 | 1 |" in lines
    assert lines[-2:] == [
        "| a - b | 0.60 | 0.50 | 2 us | `abc` | Memory. |",
        "| sort (`radix`) | 0.90 | 0.80 | 5 us | `def` | Comparisons. |",
    ]
    assert limits.targets_section([fine], libraries, format.duration)[-1].endswith("| 1 | 0 |")
    assert limits.targets_section([host, small], libraries, format.duration) == []


def test_headers_hold_the_records(tmp_path: pathlib.Path) -> None:
    results, package = tmp_path / "results" / "a-gpu", tmp_path / "package"
    results.mkdir(parents=True)
    package.mkdir()
    timed = {
        "naive": {"rate": 2.5e12, "of_ceiling": 0.1},
        "cuBLAS": {"rate": 5e13, "of_ceiling": 1.0},
    }
    operations = sample(
        name="versions_product", title="a @ b", unit="FLOP", results=timed, device="A GPU, 80 GiB"
    )
    (results / "rows.json").write_text(json.dumps([operations, sample()]))
    header = (
        '"""Idea.\n\nMeasured (row {}):\nold\n(end of what was '
        'measured)\n\nFloor.\n"""\nmeasured = 1\n'
    )
    for name in ("versions_product", "add", "absent"):
        (package / f"{name}.py").write_text(header.format(name))
    changed = headers.rewritten(package, tmp_path / "results")
    texts = {file.stem: text.split("\n") for file, text in changed.items()}
    assert "\n".join(texts["versions_product"][2:10]) == (
        "Measured (row versions_product):\na @ b; A GPU, commit abc, 2026-01-01\n\n"
        f"{'':13} TFLOP/s     of cuBLAS\n    naive    {'2.5':>8}{'0.05':>14}\n    cuBLAS   "
        f"{'50.0':>8}{'1.00':>14}\n\n"
        "(end of what was measured)"
    )
    assert f"    torch       {'1,000':>8}{'0.25':>14}" in texts[
        "add"
    ] and "GB/s     of a copy" in "\n".join(texts["add"])
    assert texts["absent"][2:4] == ["Measured (row absent):", "(end of what was measured)"]
    for file, text in changed.items():
        assert headers.filled(text, headers.records(tmp_path / "results")) == text
        assert text.endswith('Floor.\n"""\nmeasured = 1\n')
        file.write_text(text)
    assert not headers.rewritten(package, tmp_path / "results")


def test_charts_show_the_records(tmp_path: pathlib.Path) -> None:
    product = sample(name="product", title="8x8 @ 8x8", unit="FLOP", traffic=2e6)
    records = [sample(), product, sample(kind="host")]
    assert charts.speedups(records) == [("a + b", 2.0, "B"), ("8x8 @ 8x8", 2.0, "FLOP")]
    assert charts.points(records) == [("8x8 @ 8x8", 2.0, 2e12)]
    titles = "8x8 @ 8x8 nn, float16", "conv2d, bf16, 3x3", "8x8 nn, float64", "8x8 @ 8x8", "a, tf32"
    dtypes = ["float16", "bfloat16", "float64", "float32", "tf32"]
    assert [charts.dtype_of(title) for title in titles] == dtypes
    pytest.importorskip("matplotlib")
    assert charts.section(tmp_path) == []
    charts.draw(records, tmp_path, ["product"], report.speedups(records))
    assert (tmp_path / "headlines.png").read_bytes().startswith(b"\x89PNG")
    assert [line.split("/")[-1] for line in charts.section(tmp_path) if line] == [
        "speedups.png)",
        "roofline.png)",
    ]


def test_headers_and_readme_are_what_the_records_say() -> None:
    assert report.main(["--check"]) == 0
    kernels = pathlib.Path(headers.__file__).parents[1] / "cudamath"
    named = {
        name for file in kernels.rglob("*.py") for name in headers.BLOCK.findall(file.read_text())
    }
    assert (
        named <= set(rows.ROWS)
        and {name for name in rows.ROWS if name.startswith("versions_")} <= named
    )


def test_a_folder_has_a_page_and_readme_its_summary(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a-gpu"
    folder.mkdir()
    twice = sample(name="sort_x", title="sort")
    twice["results"]["torch"]["median"] = 1e-6
    (folder / "rows.json").write_text(
        json.dumps([sample(), sample(name="unheard", title="a + c"), twice])
    )
    text, page = report.markdown(tmp_path), report.page(folder)
    assert "| sorting, scans, searching | 1 | 0.50 | 0.50: sort |" in text
    assert (
        "| elementwise, reductions, normalisation, losses, pools, optimizers | 2 | 2.00 | 2.00: a "
        "+ b |" in text
    )
    assert "a + c" not in text and "[a-gpu](benchmarks/a-gpu.md)" in text
    assert page.startswith("# A GPU\n") and "| a + c | 2 us |" in page
    first = report.highlights(tmp_path)
    assert "(PyTorch); above 1" in first
    assert "- **3 operations**: 1.26, the geometric mean of all" in first  # of 2, 2 and 0.5
    assert "a peer is more than 2% faster in 1." in first
    assert set(report.HEADLINES) <= set(rows.ROWS)


def test_a_folder_with_programs_alone_has_a_page(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "a-processor"
    folder.mkdir()
    assert report.page(folder) == ""
    measured = [
        {"title": "k_means", "numpy": 2e-3, "cudamath": 3e-3},
        {"title": "newton", "numpy": 3e-3, "cudamath": 2e-3},
    ]
    record = {"programs": measured, "device": "A processor", "commit": "abc", "date": "today"}
    (folder / "numpy_programs.json").write_text(json.dumps(record))
    page = report.page(folder)
    assert page.startswith("# A processor\n") and "time over NumPy's 1.00. Commit `abc`" in page
    assert "| k means | 3 ms | 2 ms | 1.50 |" in page
    assert report.markdown(tmp_path) == ""


def test_report_without_records_is_empty(tmp_path: pathlib.Path) -> None:
    assert (
        report.markdown(tmp_path)
        == ""
        == report.markdown(tmp_path / "absent")
        == report.highlights(tmp_path)
    )
    readme = f"a\n{report.START}\nold\n{report.END}\nb\n"
    assert report.replaced(readme, "") == f"a\n{report.START}\n{report.END}\nb\n"
    with pytest.raises(ValueError, match="the page has no"):
        report.replaced("no markers", "text")


def test_run_keeps_rows_it_did_not_measure(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([sample(name="host_exp"), sample(name="gone")]))

    def one(
        names: object, device: str, quick: bool, keep: Callable[[dict], None]
    ) -> tuple[list, list]:
        keep(sample(name="host_add"))
        return [sample(name="host_add")], ["host_sum"]

    monkeypatch.setattr(run, "run", one)
    assert run.main(["--device", "cpu", "--out", str(tmp_path)]) == 1  # a row failed
    assert [row["name"] for row in json.loads((tmp_path / "rows.json").read_text())] == [
        "host_add",
        "host_exp",
    ]


def test_a_failing_row_does_not_cost_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def measure(row: rows.Row, *args: object) -> dict[str, Spread]:
        if row.name == "host_add":
            raise MemoryError("too large")
        return {"cudamath": Spread(1e-6, 1e-6, 1e-6, 1)}

    monkeypatch.setattr(run, "measure", measure)
    monkeypatch.setattr(run, "ceilings", lambda device: {"B": 1e9, "FLOP": 1e9})
    records, failed = run.run(["host_add", "host_exp"], "cpu")
    assert [each["name"] for each in records] == ["host_exp"] and failed == ["host_add"]
    assert "host_add failed: MemoryError: too large" in capsys.readouterr().out


def test_rows_of_several_runs_become_one_record(tmp_path: pathlib.Path) -> None:
    for number, names in enumerate((["host_add", "host_exp"], ["host_exp", "add"])):
        (tmp_path / f"{number}.json").write_text(
            json.dumps([{"name": name, "run": number} for name in names])
        )
    assert (
        run.main(
            ["--out", str(tmp_path), "--merge", str(tmp_path / "0.json"), str(tmp_path / "1.json")]
        )
        == 0
    )
    found = json.loads((tmp_path / "rows.json").read_text())
    assert found == [
        {"name": "host_add", "run": 0},
        {"name": "host_exp", "run": 1},
        {"name": "add", "run": 1},
    ]


def test_a_sanitizers_log_is_counted_for_the_case_that_ran() -> None:
    log = (
        "case: add\n========= Invalid __global__ read of size 4 bytes\n=========     at add+0x10\n"
        "========= Invalid __global__ read of size 4 bytes\ncase: sort\ncase: matmul\ndid not "
        "run: ValueError: no\n"
    )
    found = sanitize.summary(log)
    assert found == {
        "cases": 2,
        "stopped_at": ["matmul"],
        "did_not_run": {"matmul": "ValueError: no"},
        "reports": {
            "add": {"count": 2, "first": "Invalid __global__ read of size 4 bytes at add+0x10"}
        },
        "explained": {},
    }
    race = (
        "========= Error: Race reported between Read access at "
        "a::k::_3clocals_3e::k[abi:v1,cw](Array<float, 1>)+0x70"
    )
    other = (
        "=========     and Write access at a::k::_3clocals_3e::k[abi:v1,cw](Array<float, "
        "1>)+0xb0 [2 hazards]"
    )
    assert sanitize.summary(f"case: k\n{race}\n{other}\n")["reports"]["k"] == {
        "count": 1,
        "first": "Error: Race reported between Read access at k+0x70 and Write access at k+0xb0 "
        "[2 hazards]",
    }
    both = sanitize.together([found, sanitize.summary("case: exp\ncase: end\n")])
    assert both == {**found, "cases": 3}
    about = "NVIDIA (R) Compute Sanitizer\nVersion 2026.4.0.0 (build 39022338) (public-release)\n"
    assert sanitize.version(about) == "2026.4.0.0"


def test_a_sanitizer_that_takes_too_long_is_stopped_with_what_it_runs(
    tmp_path: pathlib.Path,
) -> None:
    import sys

    slow = (
        "import subprocess, sys, time; print('case: slow', flush=True); "
        "subprocess.run(['sleep', '60'])"
    )
    began = time.monotonic()
    texts = sanitize.side_by_side([sys.executable, "-c", slow], "", 2, 1.0, tmp_path, "memcheck")
    assert (
        time.monotonic() - began < 20
        and [sanitize.summary(text)["stopped_at"] for text in texts] == [["slow"]] * 2
    )


def test_sanitized_cases_go_on_behind_one_that_ends_its_process(tmp_path: pathlib.Path) -> None:
    import sys

    program = """if True:
        import os, sys
        for name in ["c0", "c1", "lost", "c3", "crash", "c5", "c6"]:
            try:
                os.close(os.open(os.path.join(sys.argv[-3], name), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            print("case: " + name, flush=True)
            if name == "lost":
                print("did not run: CudaError: its device is lost", flush=True)
                sys.exit()
            if name == "crash":
                os._exit(9)
        print("case: end", flush=True)"""
    texts = sanitize.side_by_side([sys.executable, "-c", program], "", 2, 20, tmp_path, "memcheck")
    assert sanitize.together([sanitize.summary(text) for text in texts]) == {
        "cases": 5,
        "stopped_at": [],
        "reports": {},
        "did_not_run": {"lost": "CudaError: its device is lost", "crash": "its process ended"},
        "explained": {},
    }


def test_reports_that_are_no_faults_are_kept_apart_with_the_reason() -> None:
    """By tool, case, kernel and version of the sanitizer; what else is reported is a fault."""
    known = "Uninitialized __global__ memory read of size 16 bytes"
    log = (
        f"case: attention forward_sm90, bfloat16, 64\n========= {known}\n"
        "=========     at attention_grad_finish+0x420 in grad.py:1\n"
        f"========= {known}\n=========     at attention_grad_wgmma+0x10 in grad.py:1\ncase: end\n"
    )
    found = sanitize.summary(log, "initcheck", "2025.3.1.0")
    (fault,), (kept,) = found["reports"].values(), found["explained"].values()
    assert fault["count"] == kept["count"] == 1
    assert "attention_grad_wgmma" in fault["first"] and "attention_grad_finish" in kept["first"]
    assert "cp.reduce.async.bulk" in kept["why"]
    for tool, version in (("initcheck", "2025.4.0.0"), ("memcheck", "2025.3.1.0")):
        found = sanitize.summary(log, tool, version)
        assert not found["explained"]
        assert found["reports"]["attention forward_sm90, bfloat16, 64"]["count"] == 2
    kernel = "sm90_xmma_syr2k_l_f32f32_execute_kernel__5x_cublas"
    race = (
        f"Race reported between Write access at {kernel}+0x7f70 and Read access at {kernel}+0x6420"
    )
    log = f"case: eigh, large\n========= Error: {race} [128 hazards]\ncase: end\n"
    found = sanitize.summary(log, "racecheck", "2025.3.1.0")
    assert not found["reports"] and "cuBLAS" in found["explained"]["eigh, large"]["why"]


@pytest.mark.parametrize(
    "name, call",
    {**sanitize_cases.families(), **sanitize_cases.large(), **sanitize_cases.more()}.items(),
)
def test_what_is_sanitized_runs(name: str, call: object) -> None:
    call()  # type: ignore[operator]


@pytest.mark.parametrize("family", ["products", "convolutions", "attentions", "packed", "versions"])
def test_what_is_sanitized_by_name_has_a_plan(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    """On a device with every instruction that a version wants, without one: does the version take
    these operands?"""
    import cudamath as cm
    from cudamath.runtime import cudnn
    from cudamath.runtime.device import assume

    def planned(planner: Callable, *arrays: cm.ndarray, **options: object) -> list[cm.ndarray]:
        with assume((9, 0)):
            plan = planner(*(layout_of(a.to_numpy()) for a in arrays), **options)
        assert plan.steps
        return [cm.zeros(y.shape, dtype=y.dtype) for y in plan.outputs]

    monkeypatch.setattr(cudnn, "available", lambda: False)
    monkeypatch.setattr(sanitize_cases, "planned", planned)
    calls = getattr(sanitize_cases, family)()
    for call in calls.values():
        call()


@pytest.mark.gpu
def test_events_measure_the_device() -> None:
    import cudamath as cm

    x = cm.ones((1 << 26,), dtype="float32", device="cuda")
    once, twice = lambda: x + x, lambda: (x + x, x + x)
    for _ in range(20):  # other processes may use the same GPU meanwhile
        spreads = timer.on_device({"once": once, "twice": twice}, rounds=5)
        ratio = spreads["twice"].median / spreads["once"].median
        if 1.7 < ratio < 2.3:
            break
    assert 1.7 < ratio < 2.3
    assert (
        1e11 < 12 * 2**26 / spreads["once"].median < 2e13
    )  # bytes per second: between a laptop's and no GPU's
    small = cm.ones((1 << 10,), dtype="float32", device="cuda")
    calls = {"small": lambda: small + small, "slow host": lambda: (small + small, time.sleep(3e-4))}
    for _ in range(20):
        shown = timer.on_device(calls, rounds=5)
        hidden = timer.on_device(calls, rounds=5, hide_host=True)
        if (
            shown["slow host"].median > 2e-4
            and hidden["slow host"].median < 2 * hidden["small"].median < 2e-5
        ):
            break
    assert shown["slow host"].median > 2e-4  # the device waits for the host
    assert hidden["slow host"].median < 2 * hidden["small"].median < 2e-5


def test_latency_records_are_shown(tmp_path: pathlib.Path) -> None:
    from benchmarks import latency

    where = {"commit": "abc", "date": "2026-01-01"}
    (tmp_path / "host_costs.json").write_text(
        json.dumps(
            {
                "calls": [
                    {"title": "a + b", "cudamath": 2e-6, "torch": 4e-6},
                    {"title": "take", "cudamath": 9e-6, "torch": 3e-6},
                    {"title": "alone", "cudamath": 1e-6},
                ],
                **where,
            }
        )
    )
    (tmp_path / "cold_start.json").write_text(
        json.dumps(
            {
                "first": {
                    "cudamath": {"import": 0.5, "matmul": 1.5, "short": 2.5},
                    "cupy": {"import": 0.7},
                },
                "compile": {"line": 0.25},
                **where,
            }
        )
    )
    sizes = [
        {
            "operation": "add",
            "size": 1024,
            "host": {"cudamath": 4e-6},
            "device": {"cudamath": 2e-6, "torch": 3e-6},
        }
    ]
    (tmp_path / "sweep.json").write_text(json.dumps({"sizes": sizes, **where}))
    lines = latency.section(tmp_path, format.duration)
    assert "| `take` | 9 us | 3 us | 3.00 |" in lines and lines.index(
        "| `take` | 9 us | 3 us | 3.00 |"
    ) < lines.index("| `a + b` | 2 us | 4 us | 0.50 |")
    heading = next(
        line
        for line in lines
        if line.startswith("**Host time per call, 2 calls of public functions**")
    )
    assert ": 1 take no longer than" in heading and heading.endswith(" Commit `abc`, 2026-01-01.")
    assert "| cudamath | 500 ms | 1.5 s | 2.5 s |" in lines and "| CuPy | 700 ms |  |  |" in lines
    assert "Time to compile, once, before the kernel is cached on disk: `line` 250 ms." in lines
    assert (
        f"![Host and device time against size](benchmarks/results/{tmp_path.name}/sweep.png)"
        in lines
    )
    short = latency.section(tmp_path, format.duration, short=True)
    assert set(short) < set(lines) and not any(
        "<details>" in line or "Time to compile" in line for line in short
    )
    pytest.importorskip("matplotlib")
    latency.sweep_chart({"sizes": sizes}, tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_cold_start_runs_the_programs_and_those_without_the_convolution(monkeypatch) -> None:
    from benchmarks import cold_start

    programs = dict(cold_start.PROGRAMS)
    monkeypatch.setattr(cold_start, "APART", 0)
    monkeypatch.setattr(cold_start, "PROGRAMS", {"cudamath": cold_start.PROGRAMS["cudamath"]})
    (steps,) = cold_start.measure("cpu", 1).values()
    assert (
        list(steps) == list(cold_start.STEPS)
        and 0 < steps["import"] < steps["matmul"] < steps["conv2d"] < steps["softmax"]
    )
    for program in cold_start.PROGRAMS.values():
        short = cold_start.shorter(program)
        assert (
            "conv2d" not in short
            and 'done("matmul")' in short
            and 'done("short")' in short
            and "x = " not in short
        )
        compile(short, "program", "exec")
    for program in (*programs.values(), cold_start.COMPILES, cold_start.VERSIONS % (0, 1)):
        compile(program, "program", "exec")


def test_host_costs_times_the_same_calls() -> None:
    from benchmarks import host_costs

    for pair in host_costs.CALLS.values():
        assert len(pair) == 2 and all(callable(function) for function in pair)
    peer = timer.peers("cpu")[0][0]
    arguments = host_costs.Arguments(peer)
    assert host_costs.CALLS["a + b"][0](peer.library, arguments).shape == (64, 64)


@pytest.mark.parametrize(
    ("theirs", "turns"), [(1.05, [9, 45]), (0.95, [9, 45]), (1.2, [9]), (0.8, [9, 45])]
)
def test_host_costs_times_calls_that_are_close_or_dearer_again_and_longer(
    monkeypatch, theirs, turns
) -> None:
    from benchmarks import host_costs

    peers = timer.peers("cpu")[0][:1]
    other = timer.Cudamath("cpu")
    other.name = "torch"
    asked = []

    def interleave(calls: dict, *, rounds: int, **settings: object) -> dict:
        asked.append(rounds)
        return {
            name: Spread(seconds, seconds, seconds, rounds)
            for name, seconds in zip(calls, (1.0 if rounds == 9 else 2.0, theirs), strict=True)
        }

    monkeypatch.setattr(host_costs, "interleave", interleave)
    monkeypatch.setattr(host_costs, "Arguments", lambda peer: None)
    monkeypatch.setattr(timer, "peers", lambda device, *names: ([*peers, other], {}))
    monkeypatch.setattr(host_costs, "CALLS", {"a + b": host_costs.CALLS["a + b"]})
    (found,) = host_costs.measure("cpu")
    assert asked == turns and found["cudamath"] == len(turns) and found["torch"] == theirs


def test_sweep_ends_where_memory_does() -> None:
    from benchmarks import sweep

    assert (
        sweep.sizes("add", 20 << 12) == [1 << 10, 1 << 12]
        and sweep.sizes("matmul", 1 << 40)[-1] == sweep.SIDE**2
    )
    assert sweep.shape("softmax", 1 << 12) == (4, 1024) and sweep.shape("matmul", 1 << 12) == (
        64,
        64,
    )


def test_results_are_compared_before_they_are_timed(capsys: pytest.CaptureFixture[str]) -> None:
    import cudamath as cm
    from benchmarks import verify
    from benchmarks.rows import ROWS, normal, row

    a = np.linspace(-4, 4, 3 * verify.MOST, dtype=np.float32)
    assert verify.compare({"numpy": a, "cudamath": cm.asarray(a, device="cpu")}) == {"numpy": 0}
    assert (
        verify.compare(
            {"cudamath": (a, a.size), "numpy": (a + np.float32(4e-4), a.size), "torch": None}
        )["numpy"]
        < 2e-4
    )
    for wrong in (a + np.float32(0.1), np.where(a > 3.9, np.nan, a)):
        with pytest.raises(verify.Disagreement, match="numpy by"):
            verify.compare({"cudamath": a, "numpy": wrong})
    with pytest.raises(verify.Disagreement, match="more than 0 apart: numpy"):
        verify.compare({"cudamath": a, "numpy": a + np.float32(1e-3)}, threshold=0.0)
    before = dict(ROWS)
    row(
        "wrong_row",
        "cpu",
        "a + 1, wrongly",
        normal((8,)),
        {"cudamath": lambda lib, x: lambda: x + 1, "numpy": lambda lib, x: lambda: x - 1},
    )
    try:
        records, failed = run.run(["wrong_row"], "cpu", run.Settings(verify=True))
        assert (records, failed) == (
            [],
            ["wrong_row"],
        ) and "Disagreement" in capsys.readouterr().out
        records, failed = run.run(["wrong_row"], "cpu", run.Settings(rounds=1, warm=0.0))
        assert len(records) == 1 and not failed and "numpy: 1 rows" in run.summary(records, failed)
    finally:
        ROWS.clear()
        ROWS.update(before)
