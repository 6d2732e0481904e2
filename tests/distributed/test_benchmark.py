"""The benchmark of several GPUs, in small on the CPU, so that no slip waits for such a machine."""

from __future__ import annotations

import json
import os

import pytest
from processes import run_module

from benchmarks import distributed as benchmark

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="arrays are on real devices"
)

SMALL = ("--size", "tiny", "--batch", "1", "--length", "16")


def test_rates_losses_and_their_record(tmp_path):
    file, peers = tmp_path / "a.json", "cudamath.alone,cudamath.data@1,cudamath.zero3.lean"
    for what in (
        ("train", *SMALL, "--rounds", "1", "--peers", peers),
        ("losses", *SMALL, "--steps", "2"),
    ):
        done = run_module(2, "benchmarks.distributed", *what, "--json", str(file))
        assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads(file.read_text())
    rates = [row for row in record["rows"] if row["what"] == "train"]
    assert [row["peer"] for row in rates] == peers.split(",")
    assert all(row["tokens_per_second"] > 0 and row["processes"] == 2 for row in rates)
    assert rates[1]["losses"] == pytest.approx(rates[2]["losses"], rel=1e-2)  # bfloat16
    ways = [row for row in record["rows"] if row["what"] == "losses"]
    assert [row["way"] for row in ways] == ["data", "zero1", "zero2", "zero3"]
    assert all(row["apart"] < 1e-5 and row["same_bits"] for row in ways)
    other = tmp_path / "b.json"
    assert benchmark.main(["merge", str(file), str(file), "--json", str(other)]) == 0
    assert json.loads(other.read_text())["rows"] == 2 * record["rows"]
    lines = benchmark.table(record).splitlines()
    assert len(lines) == 4 + 3 and "| tiny | 2 | 1 | cudamath.data@1 |" in lines[5]
    record["commit"] = "another"
    other.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="merge: commit differs"):
        benchmark.merged([str(file), str(other)])
