"""Packs of kernels: what is in them is found, and what others could have written is refused."""

from __future__ import annotations

import importlib
import os
import pathlib

import pytest

from cudamath.runtime import cubin_cache, kernel_packs

ARCH = "sm_90a"
CODE = {f"key {i}": bytes([i]) * 1000 * i + b"\x7fELF" for i in range(9)}
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
posix = pytest.mark.skipif(os.name == "nt", reason="owners and modes of POSIX")


@pytest.fixture
def pack(tmp_path, monkeypatch) -> pathlib.Path:
    path = tmp_path / f"{ARCH}{kernel_packs.SUFFIX}"
    kernel_packs.write(path, ARCH, CODE)
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", str(tmp_path))
    kernel_packs.packs.cache_clear()
    yield path
    kernel_packs.packs.cache_clear()


def refused(path: pathlib.Path, why: str) -> None:
    """The pack is left out, and a warning says why."""
    kernel_packs.packs.cache_clear()
    with pytest.warns(RuntimeWarning, match=f"kernel pack {path}: not used, {why}.*compiled"):
        assert kernel_packs.read(ARCH, "key 3") is None


def test_a_pack_gives_back_what_was_put_in(pack):
    assert {key: kernel_packs.read(ARCH, key) for key in CODE} == CODE
    assert kernel_packs.read(ARCH, "key 9") is None and len(kernel_packs.packs(ARCH)[0]) == 9
    assert kernel_packs.read("sm_80", "key 1") is None
    assert pack.stat().st_size < sum(map(len, CODE.values())) // 4


def test_a_pack_may_be_empty(pack):
    kernel_packs.write(pack, ARCH, {})
    kernel_packs.packs.cache_clear()
    assert kernel_packs.read(ARCH, "key 1") is None and len(kernel_packs.packs(ARCH)[0]) == 0


def test_a_pack_is_named_by_its_own_path_too(pack, monkeypatch):
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", str(pack))
    kernel_packs.packs.cache_clear()
    assert kernel_packs.read(ARCH, "key 1") == CODE["key 1"]
    assert kernel_packs.packs("sm_80") == []  # it is for another architecture


def test_a_package_brings_a_pack_and_none_of_it_is_imported(pack, tmp_path, monkeypatch):
    package = tmp_path / "site" / kernel_packs.package_name(ARCH)
    assert package.name == "cudamath_kernels_sm90"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    pack.rename(package / pack.name)
    monkeypatch.delenv("CUDAMATH_KERNEL_PACKS")
    monkeypatch.syspath_prepend(package.parent)
    importlib.invalidate_caches()
    kernel_packs.packs.cache_clear()
    assert kernel_packs.read(ARCH, "key 1") == CODE["key 1"]
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", "0")  # no packs
    kernel_packs.packs.cache_clear()
    assert kernel_packs.packs(ARCH) == []


def test_a_place_without_a_pack_is_reported(pack, monkeypatch):
    gone = pack.parent / "gone"
    monkeypatch.setenv("CUDAMATH_KERNEL_PACKS", f"{gone}{os.pathsep}{pack.parent}")
    kernel_packs.packs.cache_clear()
    with pytest.warns(RuntimeWarning, match=f"kernel pack {gone}: not used, No such file"):
        assert kernel_packs.read(ARCH, "key 1") == CODE["key 1"]


# -------------------- damaged and foreign packs


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data[:50], "it is no pack of this version"),
        (lambda data: b"", "it is no pack of this version"),
        (lambda data: b"cudamath pack 9\0" + data[16:], "it is no pack of this version"),
        (lambda data: data[:16] + b"sm_80".ljust(16, b"\0") + data[32:], "it is not for sm_90a"),
        (lambda data: data[:16] + b"\xff" * 16 + data[32:], "it is not for sm_90a"),
        (lambda data: data[:200] + b"?" + data[201:], "its index is damaged"),
        (lambda data: data[:200], "its index is damaged"),
        (lambda data: data[:32] + b"\xff" * 8 + data[40:], "its index is damaged"),
    ],
)
def test_a_damaged_pack_is_refused(pack, change, why):
    pack.write_bytes(change(pack.read_bytes()))
    refused(pack, why)


def test_a_damaged_kernel_is_refused_and_the_others_serve(pack):
    (wanted,) = kernel_packs.packs(ARCH)
    at, length = wanted._places[kernel_packs._hashed("key 3")]
    whole = pack.read_bytes()
    for damaged in (
        whole[: at + length // 2]
        + bytes([whole[at + length // 2] ^ 1])
        + whole[at + length // 2 + 1 :],
        whole[: at + 5],
    ):
        pack.write_bytes(damaged)
        refused(pack, "a kernel in it")
        assert kernel_packs.read(ARCH, "key 1") == CODE["key 1"]


def test_a_kernel_under_the_name_of_another_is_refused(pack):
    """Someone exchanged two entries of the index, and corrected its digest."""
    import hashlib

    data = bytearray(pack.read_bytes())
    head = kernel_packs._HEAD.size
    one, two = slice(head + 32, head + 48), slice(head + 80, head + 96)
    data[one], data[two] = data[two], data[one]
    data[40:72] = hashlib.sha256(data[head : head + 48 * len(CODE)]).digest()
    pack.write_bytes(data)
    kernel_packs.packs.cache_clear()
    with pytest.warns(RuntimeWarning, match="a kernel in it is damaged"):
        found = [kernel_packs.read(ARCH, key) for key in CODE]
    assert found.count(None) == 2 and set(found) - {None} <= set(CODE.values())


@posix
def test_a_pack_that_everybody_may_write_is_refused(pack):
    pack.chmod(0o666)
    refused(pack, "everybody may write it")


@posix
def test_a_pack_of_another_user_is_refused(pack, monkeypatch):
    if ROOT:
        os.chown(pack, 12345, -1)
    else:
        me = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    refused(pack, "it belongs to user")


@posix
def test_a_pack_that_is_exchanged_while_it_is_open_is_refused(pack):
    assert kernel_packs.read(ARCH, "key 3") == CODE["key 3"]
    pack.chmod(0o666)
    with pytest.warns(RuntimeWarning, match="a kernel in it cannot be read: .*everybody may write"):
        assert kernel_packs.read(ARCH, "key 3") is None


@posix
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_only_a_file_is_a_pack(pack, kind):
    other = pack.with_name("other")
    pack.rename(other)
    if kind == "link":
        pack.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(pack)
    else:
        pack.mkdir()
    refused(pack, "")


def test_writing_a_pack_leaves_no_half_file(pack, monkeypatch):
    before = pack.read_bytes()

    def fail(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        kernel_packs.write(pack, ARCH, {})
    assert pack.read_bytes() == before and list(pack.parent.iterdir()) == [pack]


def test_no_pack_is_asked_where_there_is_none(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDAMATH_KERNEL_PACKS", raising=False)
    kernel_packs.packs.cache_clear()
    assert kernel_packs.packs("sm_1") == [] and kernel_packs.read("sm_1", "key") is None
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path))
    assert cubin_cache.cached_cubin("key", lambda: b"code") == b"code"
