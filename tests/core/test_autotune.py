"""Measurements that choose: the files, the nearest entry, what planners make of it; `explain`."""

import functools
import json
import math
import re
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest
from fake_driver import gpu

import cudamath as cm
from cudamath import tuning
from cudamath.core.dispatch import autotune
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.cuda import first_use
from cudamath.kernels.compiler import lazy_numba
from cudamath.kernels.matmul.problem import transpose
from cudamath.runtime import device

OP, KIND, SIZES = "matmul", "float16 nn", "1x256x128x512"  # of one entry


@pytest.fixture
def file(tmp_path, monkeypatch):
    """An empty file of measurements, and nothing shipped."""
    found = tmp_path / "deep" / "tune.json"
    monkeypatch.setenv("CUDAMATH_TUNE_CACHE", str(found))
    monkeypatch.setattr(autotune, "_shipped", lambda: {})
    monkeypatch.setattr(autotune, "forget", autotune._own.cache_clear)
    autotune._own.cache_clear()
    yield found
    autotune._own.cache_clear()


def lookup(op, index, kind, sizes, versions=None):
    """The decision of a planner that understands these candidates, or all."""
    return autotune.lookup(
        op, index, kind, sizes, lambda text: versions is None or text.split()[0] in versions
    )


@pytest.fixture(autouse=True)
def assumed():
    with device.assume((9, 0)):
        yield


def test_what_was_measured_is_found_again(file):
    assert lookup("matmul", 0, "float32 nn", (1, 64, 64, 64)) is None
    autotune.save(
        "assumed",
        "matmul",
        "float32 nn",
        (1, 64, 64, 64),
        {"cublas": 5.0, "tiled": 3.0, "naive": 9.0},
    )
    autotune.save(
        "assumed", "matmul", "float32 nn", (1, 512, 512, 512), {"cublas": 5.0, "tiled": 30.0}
    )
    autotune.save("another", "matmul", "float32 nn", (1, 64, 64, 64), {"naive": 1.0})
    assert (
        json.loads(file.read_text())["assumed"]["matmul"]["float32 nn"]["1x64x64x64"]["tiled"]
        == 3.0
    )
    found = lookup("matmul", 0, "float32 nn", (1, 64, 64, 64))
    assert (
        found.choice == "tiled"
        and "measured at 1x64x64x64: tiled 3 us, cublas 5" in found.why
        and "assumed" in found.why
    )
    # near: up to a factor of 1.4 in all; the nearer entry wins
    assert lookup("matmul", 0, "float32 nn", (1, 64, 64, 90)).choice == "tiled"
    assert lookup("matmul", 0, "float32 nn", (1, 400, 512, 512)).choice == "cublas"
    assert lookup("matmul", 0, "float32 nn", (1, 64, 64, 92)) is None
    assert lookup("matmul", 0, "float32 nn", (1, 80, 64, 80)) is None
    assert lookup("matmul", 0, "float32 nn", (64, 64, 64)) is None
    assert lookup("matmul", 0, "float64 nn", (1, 64, 64, 64)) is None
    assert (
        lookup("matmul", 0, "float32 nn", (1, 64, 64, 64), ["cublas", "naive"]).choice == "cublas"
    )
    assert lookup("matmul", 0, "float32 nn", (1, 64, 64, 64), ["sm90"]) is None
    autotune.save("assumed", "matmul", "bfloat16 nt", (1, 32768, 768, 768), {"sm90 128x256": 5.0})
    assert (
        lookup("matmul", 0, "bfloat16 nt", (1, 1 << 20, 768, 768)).choice == "sm90 128x256"
    )  # large is large
    assert lookup("matmul", 0, "bfloat16 nt", (1, 12000, 768, 768)) is not None
    assert lookup("matmul", 0, "bfloat16 nt", (1, 8192, 768, 768)) is None


@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="tensor cores have no simulator")
def test_float16_takes_what_was_measured_of_bfloat16(file):
    from cudamath.kernels.matmul import dispatch as matmul_dispatch

    autotune.save(
        "assumed", "matmul", "bfloat16 nn", (1, 512, 512, 512), {"sm90 64x64": 3.0, "cublas": 4.0}
    )
    a = Layout.new((512, 512), np.dtype(np.float16), 0)
    assert matmul_dispatch.matmul(a, a).why.startswith("measured at 1x512x512x512: sm90 64x64")


def test_this_machine_goes_before_the_shipped_table(file, monkeypatch):
    monkeypatch.setattr(
        autotune, "_shipped", lambda: {"assumed": {"op": {"k": {"8": {"a": 1.0, "b": 2.0}}}}}
    )
    assert lookup("op", 0, "k", (8,)).choice == "a" and "shipped" in lookup("op", 0, "k", (8,)).why
    autotune.save("assumed", "op", "k", (8,), {"a": 3.0, "b": 2.0})
    assert (
        lookup("op", 0, "k", (8,)).choice == "b"
        and "this machine" in lookup("op", 0, "k", (8,)).why
    )


#: Texts of files that are not what `save` writes: damage, and valid JSON of another form.
ODD_FILES = {
    "empty": "",
    "cut off": "{",
    "a list": "[]",
    "null": "null",
    "a number": "3",
    "a text": '"assumed"',
    "NaN": "NaN",
    "not UTF-8": b"\xff\xfe\x00",
    "nested deeply": "[" * 100_000 + "]" * 100_000,
    "objects nested deeply": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "an endless number": '{"assumed": ' + "9" * 5000 + "}",
    "a device of nothing": {"assumed": None},
    "a device that is a list": {"assumed": [1, 2]},
    "a device that is a text": {"assumed": "matmul"},
    "an op of nothing": {"assumed": {OP: None}},
    "an op that is a list": {"assumed": {OP: [KIND]}},
    "an op that is a number": {"assumed": {OP: 1}},
    "a kind of nothing": {"assumed": {OP: {KIND: None}}},
    "a kind that is a list": {"assumed": {OP: {KIND: ["1x256x128x512"]}}},
    "a kind that is a text": {"assumed": {OP: {KIND: "1x256x128x512"}}},
    "an entry of nothing": {"assumed": {OP: {KIND: {SIZES: None}}}},
    "an entry of no candidate": {"assumed": {OP: {KIND: {SIZES: {}}}}},
    "an entry that is a list": {"assumed": {OP: {KIND: {SIZES: ["tiled", 1.0]}}}},
    "an entry that is a number": {"assumed": {OP: {KIND: {SIZES: 1.0}}}},
    "sizes of letters": {"assumed": {OP: {KIND: {"axb": {"tiled": 1.0}}}}},
    "no sizes": {"assumed": {OP: {KIND: {"": {"tiled": 1.0}}}}},
    "sizes of nothing": {"assumed": {OP: {KIND: {"1x256x128x": {"tiled": 1.0}}}}},
    "negative sizes": {"assumed": {OP: {KIND: {"1x256x-128x512": {"tiled": 1.0}}}}},
    "sizes of floats": {"assumed": {OP: {KIND: {"1x256x128.0x512": {"tiled": 1.0}}}}},
    "endless sizes": {"assumed": {OP: {KIND: {"9" * 5000: {"tiled": 1.0}}}}},
    "other digits": {"assumed": {OP: {KIND: {"１x256x128x512": {"tiled": 1.0}}}}},
    "a time of nothing": {"assumed": {OP: {KIND: {SIZES: {"tiled": None}}}}},
    "a time that is a text": {"assumed": {OP: {KIND: {SIZES: {"tiled": "1.0"}}}}},
    "a time that is a list": {"assumed": {OP: {KIND: {SIZES: {"tiled": [1.0]}}}}},
    "a time that is a bool": {"assumed": {OP: {KIND: {SIZES: {"tiled": True}}}}},
    "a time of zero": {"assumed": {OP: {KIND: {SIZES: {"tiled": 0}}}}},
    "a negative time": {"assumed": {OP: {KIND: {SIZES: {"tiled": -1.0}}}}},
    "a time that is not a number": {"assumed": {OP: {KIND: {SIZES: {"tiled": math.nan}}}}},
    "an infinite time": {"assumed": {OP: {KIND: {SIZES: {"tiled": math.inf}}}}},
    "a time beyond floats": {"assumed": {OP: {KIND: {SIZES: {"tiled": 10**400}}}}},
    "another version": {"version": 2, "assumed": {OP: {KIND: {SIZES: {"naive": 1.0}}}}},
    "a version that is a text": {"version": "1", "assumed": {OP: {KIND: {SIZES: {"naive": 1.0}}}}},
    "a version of nothing": {"version": None, "assumed": {OP: {KIND: {SIZES: {"naive": 1.0}}}}},
    **{
        f"the candidate {text!r}": {"assumed": {OP: {KIND: {SIZES: {text: 1.0}}}}}
        for text in (
            "",
            " ",
            "-",
            "unknown",
            "mma 1 1 1",
            "wgmma 9999 7 3",
            "sm90 9999x7",
            "sm90 128x",
            "sm90 x",
            "sm90 128x256x64",
            "sm90 128x256 64",
            "sm90 128x256 split",
            "sm90 128x256 split 0",
            "sm90 128x256 split 1000",
            "sm90 128x256 split -1",
            "sm90 128x256 share 16",
            "sm90 128x256 pingpong",
            "sm90 64x256 pingpong share 2",
            "sm90 0x0",
            "sm90  128x256",
            "tiled 4",
            "naive naive",
        )
    },
}


def write(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(content, (str, bytes)):
        content = json.dumps(content)
    file.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize("case", ODD_FILES)
def test_files_of_another_form_decide_nothing(file, case):
    """Planners follow their own rules, `save` adds to what is understood, and nothing raises."""
    from cudamath.kernels.matmul.dispatch import matmul

    layouts = [Layout.new(shape, np.dtype(np.float16), 0) for shape in ((256, 128), (128, 512))]
    rule = matmul(*layouts).why
    write(file, ODD_FILES[case])
    autotune.forget()
    assert matmul(*layouts).why == rule
    autotune.save("assumed", OP, KIND, (1, 256, 128, 512), {"naive": 3.0})
    assert matmul(*layouts).why.startswith("measured at 1x256x128x512: naive 3 us (this machine")


@pytest.mark.parametrize("case", ODD_FILES)
def test_convolutions_and_scaled_products_bear_the_same_files(file, case, monkeypatch):
    from cudamath.kernels.conv import dispatch as conv_dispatch
    from cudamath.kernels.quantize import dispatch as quantize_dispatch
    from cudamath.runtime import cublas

    # as if there were cuBLASLt, which these measurements are about
    monkeypatch.setattr(cublas, "multiplies_float8", lambda outer: True)
    monkeypatch.setattr(cublas, "gemm_float8", lambda *sizes, **more: lambda *_: (sizes, more))
    x, w = (Layout.new(shape, np.dtype(np.float32), 0) for shape in ((64, 8, 9, 9), (16, 8, 3, 3)))
    eight = np.dtype(ml_dtypes.float8_e4m3fn)
    a, b = Layout.new((256, 128), eight, 0), Layout.new((512, 128), eight, 0)
    one = Layout.new((1,), np.dtype(np.float32), 0)

    def plans():
        how = {"stride": (1, 1), "padding": (1,) * 4, "dilation": (1, 1), "groups": 1}
        scaled = quantize_dispatch.scaled_matmul(
            a, transpose(b), one, one, dtype=np.dtype(ml_dtypes.bfloat16)
        )
        return conv_dispatch.conv2d(x, w, **how).why, scaled.why

    rules = plans()
    content = ODD_FILES[case]
    if isinstance(content, dict):
        text = json.dumps(content)
        conv = text.replace(OP, "conv2d").replace(KIND, "float32 forward 3x3 stride 1x1")
        conv = json.loads(conv.replace(SIZES, "64x8x81x16"))
        scaled = text.replace(OP, "scaled_matmul").replace(KIND, eight.name)
        scaled = json.loads(scaled.replace(SIZES, "256x128x512"))
        content = conv
        if all(isinstance(each.get("assumed"), dict) for each in (conv, scaled)):
            content = {**conv, "assumed": {**conv["assumed"], **scaled["assumed"]}}
    write(file, content)
    autotune.forget()
    assert plans() == rules


def test_what_is_understood_of_a_file_is_kept(file):
    good = {"assumed": {"op": {"k": {"8": {"a": 3.0, "b": 2}}}}}
    odd = {
        "other": 3,
        "assumed": {
            "op": {"k": {"8": {"a": 3.0, "b": 2, "c": "fast"}, "x": {"a": 1.0}}, "l": []},
            "conv": None,
        },
    }
    write(file, odd)
    autotune.forget()
    assert autotune._own(file) == good and lookup("op", 0, "k", (8,)).choice == "b"
    autotune.save("assumed", "op", "k", (16,), {"a": 1.0})
    good["assumed"]["op"]["k"]["16"] = {"a": 1.0}
    assert json.loads(file.read_text()) == {"version": autotune.VERSION, **good}


def test_a_candidate_that_cannot_run_leaves_the_next_one(file):
    autotune.save(
        "assumed", "matmul", "float16 nn", (1, 256, 128, 512), {"sm100 a": 1.0, "naive": 2.0}
    )
    from cudamath.kernels.matmul.dispatch import matmul

    layouts = [Layout.new(shape, np.dtype(np.float16), 0) for shape in ((256, 128), (128, 512))]
    assert matmul(*layouts).why.startswith("measured at 1x256x128x512: naive 2 us (")


def test_processes_lose_no_entries_of_each_other(file):
    """Four processes, and two threads of each, add to one file at a time."""
    program = textwrap.dedent("""
        import sys, threading
        from cudamath.core.dispatch import autotune
        def add(thread):
            for i in range(25):
                sizes = (int(sys.argv[1]), thread + 1, i + 1)
                autotune.save("device", "op", "k", sizes, {"a": 1.0})
        threads = [threading.Thread(target=add, args=(i,)) for i in range(2)]
        sys.stdin.readline()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """)
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(i + 1)], stdin=subprocess.PIPE)
        for i in range(4)
    ]
    for process in processes:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    assert [process.wait(120) for process in processes] == [0] * 4
    sizes = set(json.loads(file.read_text())["device"]["op"]["k"])
    assert sizes == {f"{p}x{t}x{i}" for p in range(1, 5) for t in (1, 2) for i in range(1, 26)}
    left = {path.name for path in file.parent.iterdir()}
    assert left == {"tune.json", "tune.json.lock"}


def test_shipped_tables_that_are_not_there_are_an_error(tmp_path, monkeypatch):
    """Else each planner would follow its own rule, in silence."""
    monkeypatch.setattr(autotune.tuned, "__path__", [f"{tmp_path}"])
    autotune.forget()
    try:
        with pytest.raises(
            FileNotFoundError, match="no table came along in cudamath.core.dispatch.tuned"
        ):
            autotune._shipped()
    finally:
        autotune.forget()


def test_the_shipped_tables_are_well_formed():
    from cudamath.kernels.matmul.dispatch import VERSIONS
    from cudamath.kernels.matmul.sm90_tiles import Choice
    from cudamath.kernels.quantize.dispatch import SCALED_MATMUL as SCALED

    assert "NVIDIA H200" in autotune._shipped()
    for name, ops in autotune._shipped().items():
        assert isinstance(name, str) and ops
        assert set(ops) <= {"matmul", "scaled_matmul", "conv2d"}
        for kind, entries in ops.get("conv2d", {}).items():
            assert re.fullmatch(
                r"(float32|bfloat16) (forward|input|weight) \dx\d stride \dx\d( dilation \dx\d)?( "
                r"groups \d+)?",
                kind,
            )
            for key, times in entries.items():
                assert len([int(n) for n in key.split("x")]) == 4 and min(times.values()) > 0
                for candidate in times:
                    first, _, tile = candidate.partition(" ")
                    assert re.fullmatch(
                        r"simt|sm90|pointwise_cublas|im2col_cublas|cudnn( \S+)?", candidate
                    ) or (
                        first == "pointwise_matmul"
                        and str(Choice.parse(tile)) == tile
                        and " 1x1 stride 1x1" in kind
                    )
        for op, sizes, versions in (
            ("matmul", 4, " ".join(v.name for v in VERSIONS)),
            ("scaled_matmul", 3, " ".join(v.name for v in SCALED)),
        ):
            for entries in ops.get(op, {}).values():
                for key, times in entries.items():
                    assert len([int(n) for n in key.split("x")]) == sizes
                    for candidate, time in times.items():
                        first, _, rest = candidate.partition(" ")
                        assert time > 0 and first in versions.split()
                        assert not rest or str(Choice.parse(rest)) == rest


@pytest.mark.skipif(lazy_numba.SIMULATOR, reason="tensor cores have no simulator")
def test_a_planner_follows_the_table(file):
    from cudamath.kernels.matmul.dispatch import matmul
    from cudamath.kernels.matmul.measured import kind

    a, b = (
        Layout.new((256, 128), np.dtype(np.float16), 0),
        Layout.new((128, 512), np.dtype(np.float16), 0),
    )
    assert kind(a, b) == "float16 nn" and kind(a, a.view((128, 256), (2, 256))) == "float16 nt"
    for left, right in (((256, 127), (127, 512)), ((256, 128), (128, 511))):
        odd = [Layout.new(shape, np.dtype(np.float16), 0) for shape in (left, right)]
        assert kind(*odd) == "float16 nn odd"
    assert kind(a, b.view((128, 512), (1024, 2), 2)) == "float16 nn odd"
    assert [s.kernel.__name__ for s in matmul(a, b).steps if isinstance(s, Launch)] == [
        "matmul_wgmma"
    ]
    for choice, kernels in (
        ("naive", ["matmul_naive"]),
        ("sm90 128x128 split 2", ["matmul_wgmma", "add_splits_early"]),
    ):
        autotune.save(
            "assumed", "matmul", "float16 nn", (1, 256, 128, 512), {choice: 1.0, "tiled": 2.0}
        )
        plan = matmul(a, b)
        assert [s.kernel.__name__ for s in plan.steps if isinstance(s, Launch)] == kernels
        assert plan.why.startswith(f"measured at 1x256x128x512: {choice} 1 us, tiled 2")


def test_explain_on_the_cpu(capsys):
    with cm.device("cpu"):
        x = cm.ones((2, 3))
        text = cm.explain(lambda x: cm.ml.softmax(x @ x.T), x)
    assert text.splitlines() == [
        "matmul(float64 (2, 3), float64 (3, 2)) on the CPU: matmul in cpu/matmul.py",
        "softmax(float64 (2, 2)) on the CPU: softmax in cpu/softmax.py",
    ]
    assert capsys.readouterr().out == text + "\n"
    with cm.device("cpu"):
        text = cm.explain(lambda x: cm.floor_divide(cm.sin(x) * 2.0, x) + cm.arange(3), x)
    assert text.splitlines() == [
        "sin(float64 (2, 3)) on the CPU: numpy.sin",
        "multiply(float64 (2, 3), float) on the CPU: numpy.multiply",
        "floor_divide(float64 (2, 3), float64 (2, 3)) on the CPU: "
        "floor_divide in cpu/elementwise.py",
        "ramp(int64 (3,)) on the CPU: ramp in cpu/shape.py",
        "add(float64 (2, 3), int64 (3,)) on the CPU: numpy.add",
    ]
    assert cm.explain(lambda: x.T) == "nothing ran but views"
    with pytest.raises(ZeroDivisionError):
        cm.explain(lambda: 1 / 0)


def test_explain_names_kernels_and_reasons(fake, monkeypatch, file):
    monkeypatch.setattr(fake, "cuLaunchKernel", lambda *_: None)
    monkeypatch.setattr(
        "cudamath.runtime.cublas.available", lambda: False
    )  # whatever this machine has
    with cm.device("cuda:0"):
        x = gpu(np.zeros((40, 30), np.float32))
        y = x @ x.T
        text = cm.explain(lambda x: x @ x.T + 1, x)
        assert (
            "matmul(float32 (40, 30), float32 (30, 40)) on the GPU: matmul_tiled in "
            "kernels/matmul/register_tiles.py, " in text
        )
        assert "because: tiled: small" in text and "add(float32 (40, 40))" in text
        before = fake.calls["cuLibraryLoadData"]
        y = x @ x.T
        assert fake.calls["cuLibraryLoadData"] == before and y.shape == (
            40,
            40,
        )  # plans are known again


def test_the_command_refuses_what_it_cannot_time(capsys):
    from cudamath.__main__ import main

    for words, complaint in (
        (["64x64"], "tune: wants sizes like 4096x4096x4096"),
        (["1x2x3x4x5"], "tune: wants sizes"),
        (["64x64x0"], "tune: wants sizes"),
        (["--dtype", "int7"], "tune: dtypes are bfloat16"),
        (["--layout", "nx"], "tune: dtypes are .* layouts nn, nt, tn, tt"),
    ):
        assert main(["tune", *words]) == 2
        assert re.search(complaint, capsys.readouterr().err)


@pytest.fixture
def clock(monkeypatch):
    """Time that only `cost(milliseconds)` moves, for events as well."""
    now = [0.0]

    class Mark:
        def record(self):
            self.at = now[0]
            return self

        def elapsed(self, end):
            return end.at - self.at

    for module in (first_use, tuning):
        monkeypatch.setattr(module, "Event", Mark)
        monkeypatch.setattr(module, "synchronize", lambda: None)

    def cost(milliseconds):
        now[0] += milliseconds

    return cost


def test_turns_are_taken_in_rounds_and_medians_kept(clock):
    """What one call costs, whatever the order. Who is far behind drops out."""
    costs = {"a": 0.7, "b": 0.5, "slow": 2.0}
    found = tuning.interleaved(
        {name: functools.partial(clock, costs[name]) for name in costs}, rounds=3
    )
    assert found == pytest.approx({"a": 0.7, "b": 0.5})


def test_products_are_timed_between_other_work(clock):
    """The pass before each call is not counted, nor the first call of each, which compiles."""
    heard, spent = (
        [],
        {"a": iter([9, *[0.7] * 9]), "b": iter([0.1, *[0.5, 0.6] * 9]), "slow": iter([0.1, 2.0])},
    )

    def call(name):
        heard.append(name)
        clock(next(spent[name]))

    def between():
        heard.append("pass")
        clock(4)

    found = tuning.in_situ(
        {name: functools.partial(call, name) for name in spent}, between, rounds=5
    )
    assert found == {"a": pytest.approx(0.7), "b": pytest.approx(0.6)}
    assert (
        heard[::2] == ["pass"] * 16 and sorted(heard[1::2]) == ["a"] * 7 + ["b"] * 7 + ["slow"] * 2
    )


def test_the_command_tunes_convolutions(monkeypatch, file):
    from cudamath.__main__ import main

    asked = []
    monkeypatch.setattr(tuning, "convolutions", lambda **how: asked.append(how) or 2)
    assert main(["tune", "conv2d", "--seconds", "3", "--file", "f.json"]) == 0
    assert asked == [{"device": "cuda:0", "file": "f.json", "seconds": 3.0}]


@pytest.mark.gpu
def test_tuning_convolutions_on_the_gpu(file):
    from cudamath.kernels.conv import cudnn as conv_cudnn
    from cudamath.kernels.conv.problem import Problem
    from cudamath.runtime import cudnn

    device._assumed.pop()
    try:
        with cm.device("cuda:0"):
            heard = []
            assert (
                tuning.convolutions(
                    [(4, 16, 20, 24, 3, 2), (4, 16, 20, 24, 1, 1)], say=heard.append
                )
                == 12
                == len(heard)
            )
            x = cm.random.normal(size=(4, 16, 20, 20), dtype="float32")
            w = cm.random.normal(size=(24, 16, 3, 3), dtype="float32")
            y = cm.ml.conv2d(x, w, stride=2, padding=1)
            problem = Problem.forward(
                x._layout,
                w._layout,
                stride=(2, 2),
                padding=(1,) * 4,
                dilation=(1, 1),
                groups=1,
            )
            found = problem.measurement
            times = json.loads(file.read_text())[device.name(0)]["conv2d"][
                "float32 forward 3x3 stride 2x2"
            ]["4x16x400x24"]
            assert found.choice == min(times, key=times.__getitem__)
            exact = cm.ml.conv2d(x.astype("float64"), w.astype("float64"), stride=2, padding=1)
            most = cm.ml.conv2d(abs(x), abs(w), stride=2, padding=1).max()
            assert float(abs(y - exact).max()) <= tuning.EXACT * float(most)
            if cudnn.available():
                run = conv_cudnn.convolution(problem).bind("conv2d", [x._layout, w._layout])
                assert float(abs(run(x, w) - exact).max()) <= tuning.EXACT * float(most)
    finally:
        device._assumed.append(device.assume((9, 0)).info)


@pytest.mark.gpu
def test_tuning_on_the_gpu(file):
    """A small product is timed in every candidate; the next plan follows the fastest."""
    from cudamath.kernels.matmul.dispatch import matmul

    device._assumed.pop()
    try:
        with cm.device("cuda:0"):
            heard = []
            assert tuning.products([(1, 256, 128, 192)], ["float16"], ["nt"], say=heard.append) == 1
            a, b = cm.zeros((256, 128), "float16"), cm.zeros((192, 128), "float16").T
            times = json.loads(file.read_text())[device.name(0)]["matmul"]["float16 nt"][
                "1x256x128x192"
            ]
            assert (
                times
                and min(times.values()) > 0
                and heard[0].startswith("float16 nt 1x256x128x192: ")
            )
            plan = matmul(a._layout, b._layout)
            assert plan.why.startswith(
                f"measured at 1x256x128x192: {min(times, key=times.__getitem__)} "
            )
            text = cm.explain(lambda: a @ b)
            assert "because: measured at 1x256x128x192" in text
            if device.capability(0) == (9, 0):
                assert (
                    tuning.products(
                        [(1, 256, 128, 192), (2, 64, 64, 64)], ["float8_e4m3"], say=heard.append
                    )
                    == 1
                )
                times = json.loads(file.read_text())[device.name(0)]["scaled_matmul"][
                    "float8_e4m3fn"
                ]["256x128x192"]
                x, y, one = (cm.zeros(shape, "float32") for shape in ((256, 128), (192, 128), (1,)))
                x, y = x.astype("float8_e4m3"), y.astype("float8_e4m3").T
                text = cm.explain(lambda: cm.ml.scaled_matmul(x, y, one[0], one[0]))
                if "cublaslt" in times:
                    assert (
                        f"because: measured at 256x128x192: {min(times, key=times.__getitem__)} "
                        in text
                    )
    finally:
        device._assumed.append(device.assume((9, 0)).info)


# -------------------- measuring at first use


def conv_plan():
    """Of a small convolution in float32."""
    from cudamath.kernels.conv import dispatch as conv_dispatch

    x, w = (
        Layout.new(shape, np.dtype(np.float32), 0) for shape in ((8, 16, 32, 32), (32, 16, 3, 3))
    )
    where = dict(stride=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1), groups=1)
    return conv_dispatch.conv2d(x, w, **where)


def test_versions_are_timed_once_for_each_problem(file, monkeypatch):
    """The fastest of these times runs, then and later, whether measuring is on or off."""
    asked = []

    def measuring(name, plans, layouts):
        asked.append((name, sorted(plans), [layout.shape for layout in layouts]))
        return {version: 1.0 + (version != "fprop_direct") for version in plans}

    monkeypatch.setattr("cudamath.kernels.lib.versions.REACH", 1e9)
    before = conv_plan().why
    assert not before.startswith("fprop_direct") and "predicted" in before
    monkeypatch.setattr(autotune, "measuring", measuring)
    for _ in range(2):
        why = conv_plan().why
        assert why.startswith("fprop_direct: ") and "measured us: fprop_direct 1, " in why
    assert asked == [("conv2d", ["fprop_direct", "fprop_simt"], [(8, 16, 32, 32), (32, 16, 3, 3)])]
    monkeypatch.setattr(autotune, "measuring", None)
    autotune.forget()
    assert conv_plan().why.startswith("fprop_direct: ")
    content = json.loads(file.read_text())["assumed"]["conv2d versions"]
    assert [[*entry.values()] for entry in content.values()] == [
        [{"fprop_direct": 1.0, "fprop_simt": 2.0}]
    ]


def test_products_are_timed_before_what_is_near(file, monkeypatch):
    """A measurement of about this size, and the rule for small ones, come after."""
    from cudamath.kernels.matmul.dispatch import matmul

    a = Layout.new((32, 32), np.dtype(np.float32), 0)
    autotune.save("assumed", "matmul", "float32 nn", (1, 32, 32, 32), {"simt_small": 1.0})
    assert "measured at" in matmul(a, a).why
    monkeypatch.setattr("cudamath.kernels.lib.versions.REACH", 1e9)
    monkeypatch.setattr(autotune, "measuring", lambda name, plans, layouts: {"naive": 1.0})
    assert matmul(a, a).why.startswith("naive: ")
    assert matmul(a, a, version="tiled").why == "requested: tiled"


def test_versions_far_from_the_fastest_are_not_timed(file, monkeypatch):
    """And one that is left alone is not timed either."""
    asked = []
    measuring = lambda name, plans, layouts: asked.append(sorted(plans))  # noqa: E731
    monkeypatch.setattr(autotune, "measuring", measuring)
    monkeypatch.setattr("cudamath.kernels.lib.versions.REACH", 1.0)
    assert "predicted" in conv_plan().why and not asked
    monkeypatch.setattr("cudamath.kernels.lib.versions.REACH", 1e9)
    assert "predicted" in conv_plan().why and asked == [["fprop_direct", "fprop_simt"]]


def test_autotune_on_the_fake_driver(fake, file, monkeypatch):
    """As a context and as a function. Plans are made anew where the setting changes."""
    monkeypatch.setattr(fake, "cuLaunchKernel", lambda *_: None)
    monkeypatch.setattr("cudamath.runtime.cublas.available", lambda: False)
    monkeypatch.setattr(device, "_assumed", [])
    monkeypatch.setattr("cudamath.kernels.lib.versions.REACH", 1e9)
    with cm.device("cuda:0"):
        x = gpu(np.zeros((48, 48), np.float32))
        product = lambda: x @ x  # noqa: E731
        with cm.cuda.autotune() as on:
            assert on.enabled and autotune.measuring is not None
            product()
            assert "measured us: " in cm.explain(product)
        assert autotune.measuring is None
        content = json.loads(file.read_text())
        (table,) = [each for key, each in content.items() if key != "version"]
        ((problem, entry),) = table["matmul versions"].items()
        assert "(48, 48)" in problem and {"tiled", "simt"} <= {*entry["1"]}
        assert cm.cuda.autotune(True).enabled
        assert not cm.cuda.autotune(False).enabled and autotune.measuring is None


def test_autotune_wants_a_bool():
    with pytest.raises(TypeError, match="autotune: wants True or False, got int"):
        cm.cuda.autotune(1)
    assert autotune.measuring is None
