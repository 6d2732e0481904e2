"""Beside libraries of kernels: the cases, the summary, and where PyTorch is installed, that ours is
what float64 says."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import pytest

from benchmarks import kernel_libraries

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated"
)
ATTENTION = {"depth": 16, "causal": True, "shared": 2, "length": 9, "heads": 4, "batch": 2}
SMALL: list[tuple[str, dict[str, Any]]] = [
    ("attention", {**ATTENTION, "gradient": False, "dtype": "bfloat16"}),
    ("attention", {**ATTENTION, "gradient": True, "dtype": "bfloat16"}),
    *[
        (family, {"kind": kind, "shape": (6, 24), "dtype": dtype})
        for family, kind in (
            ("rms_norm", "rms_norm"),
            ("rms_norm", "rms_norm gradient"),
            ("softmax", "softmax"),
            ("softmax", "softmax gradient"),
            ("cross_entropy", "loss and gradient"),
        )
        for dtype in ("bfloat16", "float32")
    ],
    *[
        ("float8", {"m": 16, "k": 32, "n": 48, "scales": scales, "dtype": "bfloat16"})
        for scales in ("tensor", "rows")
    ],
]


def test_cases() -> None:
    """Every family has some, of rows to 262,144 columns and of attention to 16,384 tokens."""
    cases = {name: [*family[0]()] for name, family in kernel_libraries.FAMILIES.items()}
    json.dumps(cases)
    assert min(map(len, cases.values())) >= 8
    assert max(case["shape"][1] for case in cases["softmax"]) == 262_144
    assert {case["length"] for case in cases["attention"]} == {2**n for n in range(10, 15)}
    assert {name for name, _ in SMALL} == {*kernel_libraries.FAMILIES}


@pytest.mark.parametrize(("family", "case"), SMALL)
def test_ours_is_right(family: str, case: dict[str, Any]) -> None:
    torch: Any = pytest.importorskip("torch")
    torch.manual_seed(0)
    row = kernel_libraries.run(family, case, torch, "cpu")
    assert not row["wrong"] and row["error"] < 0.05, row


def test_the_fastest_other_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What refuses is named; what is wrong is marked."""
    torch: Any = pytest.importorskip("torch")
    times = {"ours": 10.0, "flash": 12.0, "flash, deterministic": 14.0}
    monkeypatch.setattr(kernel_libraries, "clocked", lambda _torch, calls: times)

    def work(case: Any, torch: Any, _device: str) -> Any:
        def refuses() -> Any:
            raise RuntimeError("not here")

        ones, twos = torch.ones(3), torch.full((3,), 2.0)
        ways = {"flash": lambda: lambda: ones, "flash, deterministic": lambda: lambda: ones}
        others, refused = kernel_libraries.attempts(torch, {**ways, "cudnn": refuses})
        ours = twos if case["kind"] == "wrong" else ones
        return kernel_libraries.Beside(lambda: ours, others, lambda: ones), refused

    monkeypatch.setitem(kernel_libraries.FAMILIES, "test", (lambda: iter(()), work))
    row = kernel_libraries.run("test", {"kind": "right", "dtype": "float32"}, torch, "cuda")
    assert (row["ratio"], row["wrong"]) == (1.2, False)
    assert row["missing"] == {"cudnn": "RuntimeError: not here"}
    assert "1.20 us: ours 10.0, flash 12.0" in kernel_libraries.line(row)
    assert "cudnn: RuntimeError: not here" in kernel_libraries.line(row)
    row = kernel_libraries.run("test", {"kind": "wrong", "dtype": "float32"}, torch, "cuda")
    assert row["wrong"] and math.isclose(row["error"], 1) and "WRONG" in kernel_libraries.line(row)


def test_the_command_lists_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert kernel_libraries.main(["float8", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 8
    with pytest.raises(SystemExit):
        kernel_libraries.main(["nothing"])
    assert "no family nothing; there are attention" in capsys.readouterr().err
