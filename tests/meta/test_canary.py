"""`.ci/canary` asks for every requirement of the package and its tests, without upper bounds."""

from __future__ import annotations

import configparser
import pathlib
import subprocess
import sys

from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_canary_lifts_every_upper_bound():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    texts = setup["options"]["install_requires"] + setup["options.extras_require"]["test"]
    lines = [line.strip() for line in texts.splitlines()]
    held = [Requirement(line) for line in lines if line and not line.startswith("#")]
    command = [sys.executable, str(ROOT / ".ci" / "canary"), "--list"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    asked = [Requirement(line) for line in printed.splitlines()]
    assert [(r.name, r.extras, str(r.marker)) for r in asked] == [
        (r.name, r.extras, str(r.marker)) for r in held
    ]
    assert any("<" in str(r.specifier) for r in held)
    assert not any("<" in str(r.specifier) for r in asked)
    lower = {r.name: {str(s) for s in r.specifier if s.operator == ">="} for r in held}
    assert all({str(s) for s in r.specifier} >= lower[r.name] for r in asked)
