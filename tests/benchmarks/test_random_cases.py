"""Random shapes beside PyTorch: the draws, the summary, and where PyTorch is installed, that both
do the same work."""

from __future__ import annotations

import json
import math
import os
import pathlib
from typing import Any

import pytest

from benchmarks import random_cases

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated"
)
SMALL = {
    "product": {"batch": 2, "m": 5, "k": 7, "n": 3, "dtype": "float32", "ta": True, "tb": False},
    "convolution": {
        **{"role": "weight", "n": 2, "ci": 4, "size": [7, 7], "co": 6, "kernel": 3, "stride": 2},
        **{"dilation": 1, "padding": 1, "groups": 2, "dtype": "float32", "last": True},
    },
    "attention": {
        **{"batch": 2, "heads": 4, "shared": 2, "queries": 9, "keys": 9, "depth": 16},
        **{"dtype": "bfloat16", "causal": True, "gradient": True},
    },
    "norm": {"kind": "rms_norm", "shape": (4, 24), "dtype": "float32"},
    "softmax": {"kind": "log_softmax", "shape": (6, 10), "axis": 0, "dtype": "bfloat16"},
    "reduction": {"kind": "std", "shape": (3, 4, 5), "axes": [0, 2], "dtype": "float32"},
    "scan": {"kind": "cumsum", "shape": (3, 9), "axis": 1, "dtype": "int32"},
    "copy": {
        **{"kind": "permute", "shape": (2, 3, 4), "order": [2, 0, 1], "axis": 1},
        "dtype": "uint8",
    },
}


def test_a_seed_gives_the_same_cases() -> None:
    """The first are the same for any count, families do not disturb each other, and none is empty
    or larger than a device."""
    names = [*random_cases.FAMILIES]
    all_of_them = random_cases.drawn(names, 30, 5)
    assert random_cases.drawn(names, 10, 5) == all_of_them[: 10 * len(names)]
    assert random_cases.drawn(["scan"], 30, 5) == [
        each for each in all_of_them if each[0] == "scan"
    ]
    assert random_cases.drawn(names, 30, 6) != all_of_them
    for family, case in all_of_them:
        json.dumps(case)
        if "shape" in case:
            assert 1 <= math.prod(case["shape"]) < 2**31, family


def test_the_summary_counts() -> None:
    rows = [
        {"family": "norm", "ours": 10.0, "peer": 10.0 * ratio, "ratio": ratio, "wrong": ratio > 3}
        for ratio in (0.5, 0.95, 1.0, 4.0)
    ]
    rows.append({"family": "norm", "ours": 1.0, "peer": 0.8, "ratio": 0.8, "wrong": False})  # noise
    rows.append({"family": "scan", "failed": "no memory"})
    text = random_cases.summary(rows)
    mean = math.exp(sum(math.log(row["ratio"]) for row in rows[:5]) / 5)
    assert f"geometric mean {mean:.3f}" in text and "5 cases" in text
    assert "behind by 3 %: 2, by 10 %: 1; wrong 1, failed 0" in text
    assert "scan" in text and "failed 1" in text


def test_the_pages_show_a_record(tmp_path: pathlib.Path) -> None:
    assert random_cases.highlights(tmp_path) == random_cases.section(tmp_path) == []
    ratios = (0.5, 0.95, 2.0, 4.0)
    rows = [
        {"family": name, "ours": 10.0, "peer": 10 * ratio, "ratio": ratio, "wrong": False}
        for name in ("norm", "scan")
        for ratio in ratios
    ]
    head = {"device": "NVIDIA X, 9.0", "commit": "a" * 40, "date": "2026-01-01", "seed": 7}
    (tmp_path / "random_cases.json").write_text(json.dumps({**head, "rows": rows}))
    (line,) = random_cases.highlights(tmp_path)
    mean = math.prod(ratios) ** 0.25
    assert "**8 random cases** of 2 families" in line and "on NVIDIA X vs PyTorch" in line
    assert f"{mean:.2f}, the geometric mean; 0.50 at" in line
    assert "3% faster in 4, more than 10% in 2." in line
    table = random_cases.section(tmp_path)
    assert f"| norm | 4 | {mean:.2f} | 0.50 | 0.50 | 0.95 | 2.00 | 2 | 1 | 0 |" in table


def test_every_family_has_a_small_case() -> None:
    assert {*SMALL} == {*random_cases.FAMILIES}


@pytest.mark.parametrize("family", random_cases.FAMILIES)
def test_both_do_the_same_work(family: str) -> None:
    torch: Any = pytest.importorskip("torch")
    torch.manual_seed(0)
    row = random_cases.run(family, SMALL[family], torch, "cpu")
    assert not row["wrong"], row


def test_the_command_lists_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert random_cases.main(["norm", "--count", "3", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    with pytest.raises(SystemExit):
        random_cases.main(["nothing"])
    assert "no family nothing; there are product" in capsys.readouterr().err
