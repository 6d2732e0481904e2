"""What a process may use of its host: files of Linux, as containers have them."""

from __future__ import annotations

import os

import pytest

from cudamath.runtime import host


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Writes files of the control group; the machine has 64 cores and 8 GiB free."""
    monkeypatch.setattr(host, "GROUPS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    8388608 kB\n")
    monkeypatch.setattr(host, "MEMORY", tmp_path / "meminfo")

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_max", ".max")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)

    return write


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("max 100000", 64),
        ("250000 100000", 3),
        ("10000 100000", 1),
        ("9900000 100000", 64),
        ("", 64),
    ],
)
def test_cores_within_a_quota(groups, text, cores):
    assert host.cores() == 64
    groups(cpu_max=text)
    assert host.cores() == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", 64), ("200000", 2), ("x", 64)])
def test_cores_within_a_quota_of_the_first_version(groups, tmp_path, quota, cores):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert host.cores() == cores


def test_memory_within_a_limit(groups, tmp_path):
    assert host.memory() == 8 << 30
    groups(memory_max="max")
    assert host.memory() == 8 << 30
    (tmp_path / "memory.max").write_text(str(3 << 30))
    (tmp_path / "memory.current").write_text(str(2 << 30))
    assert host.memory() == 1 << 30
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {1 << 30}\nslab 1\n")
    assert host.memory() == 2 << 30
    (tmp_path / "memory.current").write_text(str(9 << 30))
    assert host.memory() == 0
    (tmp_path / "memory.max").unlink()
    (tmp_path / "meminfo").unlink()
    assert host.memory() is None
