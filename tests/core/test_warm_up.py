"""`python -m cudamath warm-up`: what it compiles, and how it is used."""

from __future__ import annotations

import pytest

import cudamath as cm
from cudamath import warm_up
from cudamath.__main__ import main
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import lazy_numba, worker_pool
from cudamath.runtime import rehearsal
from cudamath.runtime.state import runtime

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")

PROGRAM = """
import sys
import cudamath as cm
import beside
from numba import cuda

@cuda.jit
def twice(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = 2 * x[i]

assert __name__ == "__main__" and sys.argv[1:] == ["--big", "3"]
x = cm.ones((100, 64))
print("shown nowhere", x)
y = cm.exp(x).sum()
if float(y) > 0:
    cm.cuda.launch(twice, 1, 128, x[0], cm.zeros(64))
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "beside.py").touch()
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """The keys of kernels that workers were given, which compile nothing here."""
    monkeypatch.setenv("CUDAMATH_CACHE_DIR", str(tmp_path / "kernels"))
    keys = []

    class Pool(worker_pool.Pool):
        def submit(self, key, message, needed):
            keys.append(key)
            job = worker_pool.Job(key, message)
            job.done.set()
            return job

    monkeypatch.setattr(worker_pool, "Pool", Pool)
    return keys


def test_a_program_is_rehearsed(program, capsys):
    before = runtime.driver
    requests = warm_up.program(program, ["--big", "3"], (9, 0))
    names = {getattr(kernel, "__name__", "") for kernel, _ in requests}
    assert "twice" in names and len(requests) >= 3  # exp, sum, the user's
    assert capsys.readouterr() == ("", "") and runtime.driver is before


def test_a_program_that_fails_is_rehearsed_up_to_there(program, capsys):
    requests = warm_up.program(program, [], (8, 0))
    assert requests == [] and "up to an error, AssertionError" in capsys.readouterr().err


def test_the_command_compiles_what_is_missing(program, compiled, capsys):
    assert main(["warm-up", "--capability", "8.0", "--from-program", program, "--big", "3"]) == 0
    assert len(set(compiled)) == len(compiled) >= 3 and all("(8, 0)" in key for key in compiled)
    assert "kept in" in capsys.readouterr().out


def test_functions_are_named(compiled, capsys):
    assert main(["warm-up", "layer_norm", "--capability", "9.0"]) == 0
    few = len(set(compiled))
    assert few >= 2
    assert main(["warm-up", "layer_norm", "cumulative", "--capability", "9.0"]) == 0
    assert len(set(compiled)) > few


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing_such", "--capability", "9.0"], "no function nothing_such"),
        (["--capability", "nine"], "written as 9.0, got nine"),
        (["sum", "--capability", "9.0", "--from-program", "f.py"], "functions, or a program"),
        (["--capability", "9.0", "--from-program"], "needs the file"),
        (["--device", "cpu", "--from-program", "f.py"], "rehearsed for a GPU"),
        (["--device", "cpu", "nothing_such"], "no function nothing_such is compiled ahead"),
        (["--workers", "-1"], "workers must be at least 0"),
    ],
)
def test_wrong_use(arguments, message, capsys):
    if "sum" in arguments:  # what follows --from-program is the program's
        arguments = [*arguments[:3], "--from-program", "f.py"]
    assert main(["warm-up", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_what_went_wrong_is_told(program, monkeypatch, capsys):
    class Pool(worker_pool.Pool):
        def submit(self, key, message, needed):
            job = worker_pool.Job(key, message)
            job.fail("no")
            return job

    monkeypatch.setattr(worker_pool, "Pool", Pool)
    monkeypatch.setattr(compiler, "is_stored", lambda *_: False)
    assert main(["warm-up", "--capability", "8.0", "--from-program", program, "--big", "3"]) == 1
    assert "not compiled: no" in capsys.readouterr().err


def test_a_function_of_the_cpu_is_called_in_another_process():
    done = []
    assert warm_up.compile_cpu(["any"], 1, lambda *count: done.append(count)) == []
    assert done == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [n for n in warm_up._cpu_calls() if not n.startswith("special.")] + ["special.gamma"],
)
def test_every_call_of_the_cpu_works(name):
    assert warm_up._call_on_cpu(name, "float32") == ""


def test_every_special_function_is_compiled_ahead():
    """By the name of its scalar function, which the ops name as their CPU function."""
    from cudamath.core.specs.special.library import scalar

    names = [n.partition(".")[2] for n in warm_up._cpu_calls() if n.startswith("special.")]
    assert len(names) > 100 and {"gamma", "bdtri", "j0"} <= set(names)
    assert all(callable(scalar(name)) for name in names)


# -------------------- rehearsals


def test_a_rehearsal_reads_small_numbers_and_launches_nothing():
    seen = []
    with rehearsal.rehearsing((9, 0), lambda kernel, *_: seen.append(kernel) or b""):
        assert cm.cuda.device_count() == 1
        with cm.device("cuda:0"):
            x = cm.ones((2, 4), dtype="int64") + 1
            assert x.to_numpy().tolist() == [[3] * 4] * 2  # read, not computed
            assert 0 < float(cm.ones(3).sum()) < 1e-40
            stream = cm.cuda.Stream()
            with stream:
                cm.exp(cm.ones(9))
            stream.synchronize()
    assert len(seen) >= 3


def test_a_rehearsal_captures_graphs():
    with rehearsal.rehearsing((8, 0), lambda *_: b""), cm.device("cuda:0"):
        x = cm.ones(100)
        graph = cm.cuda.graph(lambda: cm.exp(x) + 1)
        graph()


def test_after_a_rehearsal_all_is_as_before():
    from cudamath.runtime import cublas, cudnn

    before = cudnn.available, cublas.multiplies_float8, runtime.driver, runtime.compiler
    with pytest.raises(KeyError), rehearsal.rehearsing((8, 0), lambda *_: b""):
        raise KeyError
    assert before == (cudnn.available, cublas.multiplies_float8, runtime.driver, runtime.compiler)
