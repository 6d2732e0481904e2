"""Files that the package writes: whole or not at all, whatever lies in their place, whoever asks
meanwhile; their modes; a full disk; and what is read of caches."""

import abc
import errno
import gc
import json
import os
import pickle
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch import autotune
from cudamath.runtime import cubin_cache, files, profiler

posix = pytest.mark.skipif(os.name == "nt", reason="modes, owners and pipes of POSIX")
ROOT = os.geteuid() == 0 if os.name != "nt" else False


def tensors(path, n):
    pytest.importorskip("safetensors")
    cm.save(path, {"x": cm.full(n, n, device="cpu")})


def array(path, n):
    cm.save(path, cm.full(n, n, device="cpu"))


def archive(path, n):
    cm.savez(path, x=cm.full(n, n, device="cpu"))


def packed_archive(path, n):
    cm.savez_compressed(path, x=cm.full(n, n, device="cpu"))


def trace(path, n):
    profiler.Profile(nvtx=False).export(path)


def text(path, n):
    cm.savetxt(path, cm.full(n, n, device="cpu"))


def packed_text(path, n):
    cm.savetxt(path, cm.full(n, n, device="cpu"))


def raw(path, n):
    cm.full(n, n, dtype="int64", device="cpu").tofile(path)


def pickled(path, n):
    cm.full(n, n, dtype="int64", device="cpu").dump(path)


WRITERS = {
    "x.safetensors": tensors,
    "x.npy": array,
    "x.npz": archive,
    "y.npz": packed_archive,
    "x.json": trace,
    "x.txt": text,
    "x.txt.gz": packed_text,
    "x.bin": raw,
    "x.pkl": pickled,
}
#: What errors begin with.
NAME = "(save|savez|savez_compressed|export|savetxt|tofile|dump)"


@pytest.fixture(params=WRITERS)
def target(request, tmp_path):
    """A path to write, and what writes there: (path, number) -> None."""
    return tmp_path / request.param, WRITERS[request.param]


def content(path):
    """The number that was written; None for a trace, which must be whole JSON."""
    if path.suffix == ".json":
        json.loads(path.read_text())
        return None
    if path.suffix in (".txt", ".gz"):
        found = cm.loadtxt(path, ndmin=1)
    elif path.suffix == ".bin":
        found = cm.fromfile(path, "int64")
    elif path.suffix == ".pkl":
        found = pickle.loads(path.read_bytes())
    else:
        found = cm.load(path)
    x = found if isinstance(found, cm.ndarray) else found["x"]
    assert (x == x.size).all()
    return x.size


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


@posix
def test_new_files_have_the_mode_of_the_umask(target, umask):
    path, write = target
    write(path, 3)
    assert mode_of(path) == 0o666 & ~umask


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666])
def test_files_keep_their_mode(target, umask, mode):
    path, write = target
    write(path, 3)
    os.chmod(path, mode)
    write(path, 4)
    assert mode_of(path) == mode and content(path) in (4, None)


@posix
def test_a_private_file_is_never_open_to_others(target, monkeypatch):
    """Not even while it is being written, under its other name."""
    path, write = target
    write(path, 3)
    os.chmod(path, 0o600)
    seen = []

    def watched(descriptor):
        seen.extend(mode_of(each) for each in path.parent.iterdir())

    monkeypatch.setattr(os, "fsync", watched)
    write(path, 4)
    assert seen and set(seen) == {0o600}


@posix
def test_links_in_the_place_are_kept(target):
    path, write = target
    real = path.with_name(f"real{path.suffix}")
    write(real, 2)
    path.symlink_to(real.name)
    write(path, 5)
    assert path.is_symlink() and content(real) in (5, None)


@posix
def test_nobody_can_lay_a_link_under_the_other_name(target, monkeypatch):
    """The name cannot be foreseen; and if it were, the link would not be followed."""
    path, write = target
    precious = path.with_name("precious")
    precious.write_text("precious")
    names = []
    make = files._make_file

    def laid(beside, private):
        names.append(os.path.basename(beside))
        os.symlink(precious, beside)
        make(beside, private)

    monkeypatch.setattr(files, "_make_file", laid)
    for _ in range(2):
        with pytest.raises(FileExistsError, match=f"^{NAME}: "):
            write(path, 3)
    assert precious.read_text() == "precious" and not path.exists()
    assert len(set(names)) == 2 and str(os.getpid()) not in names[0]


@posix
@pytest.mark.parametrize("kind", ["folder", "pipe", "socket"])
def test_only_files_are_replaced_and_read(target, kind):
    path, write = target
    if write in (text, packed_text, raw, pickled) and kind != "folder":
        pytest.skip("NumPy's users write into pipes and devices")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        name = os.path.relpath(path)  # names of sockets are short
        socket.socket(socket.AF_UNIX).bind(name if len(name) < 100 else pytest.skip("a long path"))
    before = os.lstat(path)
    name = NAME
    with pytest.raises(OSError, match=f"^{name}: cannot write .*it is a {kind}") as caught:
        write(path, 3)
    assert isinstance(caught.value, IsADirectoryError) == (kind == "folder")
    if path.suffix != ".json":
        with pytest.raises(OSError, match=f"^load: cannot read .*it is a {kind}"):
            cm.load(path)  # at once: a pipe would wait for a writer
    assert os.lstat(path).st_ino == before.st_ino and os.listdir(path.parent) == [path.name]


def test_the_folder_is_synchronized_after_the_file(target, monkeypatch):
    """Else a power cut undoes the renaming."""
    path, write = target
    done, replace, fsync = [], os.replace, os.fsync

    def synchronize(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synchronize)
    monkeypatch.setattr(os, "replace", lambda *args: (done.append("rename"), replace(*args)))
    write(path, 3)
    assert done == ["file", "rename", *["folder"] * (os.name != "nt")]


@posix
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO])
def test_folders_that_cannot_be_synchronized(target, monkeypatch, number):
    """Some file systems do not know how; a disk that fails is an error."""
    path, write = target
    fsync = os.fsync

    def failing(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    if number == errno.EIO:
        with pytest.raises(OSError, match=f"{NAME}: cannot write"):
            write(path, 3)
    else:
        write(path, 3)
    assert content(path) in (3, None) and os.listdir(path.parent) == [path.name]


@posix
def test_a_signal_handler_saves_while_saving(target):
    """ "Save on SIGTERM": both write whole files, and the last one stays."""
    path, write = target
    numbers = iter(range(2, 1000))
    handled, caught = [], []

    def handler(*_):
        handled.append(1)
        write(path, 7)
        caught.append(content(path))

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for delay in np.geomspace(2e-5, 5e-3, 60):
            signal.setitimer(signal.ITIMER_REAL, delay)
            n = next(numbers)
            for _ in range(3):
                write(path, n)
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert content(path) in (n, 7, None)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(handled) > 5 and set(caught) <= {7, None}
    assert os.listdir(path.parent) == [path.name]


@posix
def test_a_handler_that_saves_at_every_step(target, monkeypatch):
    """The same at each place where the outer call may be: not by chance."""
    path, write = target
    inside = []

    def between(function):
        def wrapped(*args, **kwargs):
            if not inside:
                inside.append(1)
                write(path, 7)
                inside.pop()
                assert content(path) in (7, None)
            return function(*args, **kwargs)

        return wrapped

    for name in ("fsync", "replace", "chmod"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, between(getattr(os, name)))
            write(path, 3)
        last = 7 if name == "fsync" else 3  # of the folder, after the renaming
        assert content(path) in (last, None) and os.listdir(path.parent) == [path.name]


# -------------------- interrupts: tests/attacks/interrupts.py has them everywhere


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("write", [archive, packed_archive])
def test_an_interrupt_inside_an_archive_comes_out_as_itself(tmp_path, monkeypatch, write):
    """zipfile cannot close an archive in the midst of a member, and raises an error of its own."""
    path = tmp_path / "x.npz"
    write(path, 3)
    begin = zipfile.ZipFile.open

    def interrupted(*args, **kwargs):
        member = begin(*args, **kwargs)
        members.append(member)
        raise KeyboardInterrupt

    members = []
    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "open", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write(path, 4)
        with pytest.raises(KeyboardInterrupt):
            cm.load(path)
    del members[:]
    gc.collect()  # which finds what zipfile could not close
    assert content(path) == 3 and os.listdir(tmp_path) == [path.name]
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:  # saving after an interrupt has errors of its own
        with pytest.raises(FileNotFoundError, match="^savez"):
            write(tmp_path / "missing" / "x.npz", 5)


def test_an_interrupt_inside_an_array_file_comes_out_as_itself(tmp_path, monkeypatch):
    """NumPy would ask whether the file is a path, and take the interrupt for a yes."""
    path = tmp_path / "x.npy"
    asked = []

    def ask(cls, instance):
        if cls is os.PathLike:
            asked.append(instance)
            raise KeyboardInterrupt
        return type.__instancecheck__(cls, instance)

    with open(tmp_path / "other", "wb") as file, monkeypatch.context() as patch:
        patch.setattr(abc.ABCMeta, "__instancecheck__", ask)
        with pytest.raises(TypeError):  # where NumPy has mended this, `_Bytes` can go
            np.asarray(5).tofile(file)
    assert asked
    del asked[:]
    with monkeypatch.context() as patch:
        patch.setattr(abc.ABCMeta, "__instancecheck__", ask)
        array(path, 4)
        content(path)
    assert not asked and content(path) == 4


# -------------------- full disks


@posix
def test_a_full_disk_keeps_the_old_file(target):
    """The limit on file sizes stands for the disk: writing fails in the middle."""
    path, write = target
    write(path, 3)
    if path.suffix == ".json":
        path.write_bytes(path.read_bytes())
    old = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, limits[1]))
    try:
        with pytest.raises(OSError, match=f"^{NAME}: "):
            write(path, 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == old and os.listdir(path.parent) == [path.name]


@posix
@pytest.mark.parametrize(
    "call",
    [
        lambda file: cm.save(file, cm.ones(10_000)),
        lambda file: cm.savez(file, cm.ones(10_000)),
        lambda file: cm.savez_compressed(file, cm.random.normal(size=10_000)),
        lambda file: cm.ones(10_000).tofile(file),
        lambda file: cm.savetxt(file, cm.ones(10_000)),
        lambda file: cm.ones(10_000).dump(file),
    ],
    ids=["save", "savez", "savez_compressed", "tofile", "savetxt", "dump"],
)
def test_a_full_disk_behind_an_open_file(call, request):
    if not os.path.exists("/dev/full"):
        pytest.skip("a device that is always full")
    name = request.node.callspec.id
    with pytest.raises(OSError, match=f"^{name}: cannot write /dev/full: "):
        with open("/dev/full", "wb", buffering=0) as file:
            call(file)


@posix
@pytest.mark.parametrize("write", [text, raw, pickled])
def test_devices_are_written_into(write):
    """As NumPy does; and what they answer is told by name."""
    if not os.path.exists("/dev/full"):
        pytest.skip("a device that is always full")
    write("/dev/null", 3)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OSError, match="^(savetxt|tofile|dump): cannot write /dev/full: "):
        write("/dev/full", 10_000)


@posix
@pytest.mark.slow
def test_a_full_disk_costs_only_warm_starts(tmp_path, monkeypatch):
    """The caches of kernels, of the CPU's functions, and the CPU's functions themselves."""
    program = textwrap.dedent("""
        import os, resource, sys
        import cudamath as cm
        from cudamath.runtime import cubin_cache
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        assert cubin_cache.cached_cubin("key", lambda: b"code" * 100) == b"code" * 100
        x = cm.zeros((64, 64), dtype="float32")
        cm.ml.max_pool2d(x[None, None], 2)
        print(cm.ml.gelu(x).sum().item(), cm.ml.dropout(x, 0.5, training=True).sum().item())
        """)
    environment = {
        **os.environ,
        "CUDAMATH_CACHE_DIR": str(tmp_path / "kernels"),
        "CUDAMATH_DEVICE": "cpu",
    }
    said = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    assert said.stdout.strip() == "0.0 0.0"
    # nothing half written is left
    left = [name for _, _, names in os.walk(tmp_path) for name in names]
    assert not [name for name in left if name.endswith((".cubin", ".tmp"))]


# -------------------- caches


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "cache" / "kernels"))
    monkeypatch.setenv("CUDAMATH_TUNE_CACHE", str(tmp_path / "cache" / "tune.json"))
    autotune.forget()
    yield tmp_path / "cache"
    autotune.forget()


def compiled(code=b"\x7fELF fresh", key="key"):
    """(the code that the cache gives, whether it was compiled)."""
    made = []
    found = cubin_cache.cached_cubin(key, lambda: made.append(1) or code)
    return found, bool(made)


def entry(cache):
    (path,) = (cache / "kernels").glob("*.cubin")
    return path


@posix
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077], ids=oct)
def test_folders_of_caches_are_private(cache, umask):
    before = os.umask(umask)
    try:
        compiled()
        autotune.save("assumed", "op", "k", (8,), {"a": 1.0})
    finally:
        os.umask(before)
    for path in (cache, cache / "kernels"):
        assert mode_of(path) == 0o700, path
    for path in (entry(cache), cache / "tune.json"):
        assert mode_of(path) == 0o600, path


@posix
@pytest.mark.parametrize("what", ["kernels", "tune.json"])
def test_files_of_other_users_are_not_read(cache, monkeypatch, what):
    compiled(b"\x7fELF theirs")
    autotune.save("assumed", "op", "k", (8,), {"a": 1.0})
    autotune.forget()

    def read():
        if what == "kernels":
            return compiled(b"\x7fELF theirs")[1]
        autotune.forget()
        return autotune._own(autotune.path()) == {}

    assert not read()
    me = os.geteuid()
    if ROOT:
        os.chown(entry(cache) if what == "kernels" else cache / what, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    assert read()
    if what == "kernels":
        assert ROOT is False or not read()  # replaced by one of our own


@posix
def test_files_that_everybody_may_write_are_not_read(cache):
    compiled(b"\x7fELF theirs")
    os.chmod(entry(cache), 0o666)
    assert compiled() == (b"\x7fELF fresh", True) and mode_of(entry(cache)) == 0o600
    assert compiled() == (b"\x7fELF fresh", False)


@posix
def test_a_kernel_of_another_key_is_not_read(cache):
    """A file with a true digest, renamed or linked to another kernel's name."""
    compiled(b"\x7fELF one", "one")
    one = entry(cache)
    compiled(b"\x7fELF two", "two")
    (two,) = set((cache / "kernels").glob("*.cubin")) - {one}
    two.write_bytes(one.read_bytes())
    assert compiled(b"\x7fELF two", "two") == (b"\x7fELF two", True)
    two.unlink()
    two.symlink_to(one)
    assert compiled(b"\x7fELF two", "two") == (b"\x7fELF two", True)
    assert not two.is_symlink() and compiled(b"\x7fELF one", "one") == (b"\x7fELF one", False)


@posix
@pytest.mark.parametrize("kind", ["pipe", "folder", "loop of links", "dangling link", "link"])
@pytest.mark.parametrize("what", ["kernels", "tune.json"])
def test_what_lies_in_the_place_of_a_cached_file(cache, kind, what):
    compiled()
    autotune.save("assumed", "op", "k", (8,), {"a": 1.0})
    path = entry(cache) if what == "kernels" else cache / what
    elsewhere = cache / "elsewhere"
    path.rename(elsewhere)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(
            {"link": elsewhere, "dangling link": cache / "none"}.get(kind, path),
        )
    autotune.forget()
    if what == "kernels":
        assert compiled() == (b"\x7fELF fresh", True)
        assert compiled() == (b"\x7fELF fresh", kind == "folder")
        return
    assert autotune._own(autotune.path()) == {}
    if kind == "folder":
        with pytest.raises(OSError, match="^tune: cannot write .*[Ii]s a (folder|directory)"):
            autotune.save("assumed", "op", "k", (8,), {"b": 2.0})
    else:
        autotune.save("assumed", "op", "k", (8,), {"b": 2.0})
        assert list(json.loads(path.read_text())["assumed"]["op"]["k"]["8"]) == ["b"]
        assert not path.is_symlink()
    assert re.search('"a"', elsewhere.read_text())


def test_a_file_where_the_folder_should_be(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    assert compiled()[1] and compiled()[1]
