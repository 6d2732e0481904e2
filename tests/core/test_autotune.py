"""Measurements that choose: the files, the nearest entry, what planners make of it; `explain`."""

import functools
import json
import re

import numpy as np
import pytest
from fake_driver import gpu

import cudamath as cm
from cudamath import tuning
from cudamath.core.dispatch import autotune
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import lazy_numba
from cudamath.runtime import device


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


@pytest.fixture(autouse=True)
def assumed():
    with device.assume((9, 0)):
        yield


def test_what_was_measured_is_found_again(file):
    assert autotune.lookup("matmul", 0, "float32 nn", (1, 64, 64, 64)) is None
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
    found = autotune.lookup("matmul", 0, "float32 nn", (1, 64, 64, 64))
    assert (
        found.choice == "tiled"
        and "measured at 1x64x64x64: tiled 3 us, cublas 5" in found.why
        and "assumed" in found.why
    )
    # near: up to one factor of two in all; the nearer entry wins
    assert autotune.lookup("matmul", 0, "float32 nn", (1, 64, 64, 128)).choice == "tiled"
    assert autotune.lookup("matmul", 0, "float32 nn", (1, 400, 512, 512)).choice == "cublas"
    assert autotune.lookup("matmul", 0, "float32 nn", (1, 128, 64, 128)) is None
    assert autotune.lookup("matmul", 0, "float32 nn", (64, 64, 64)) is None
    assert autotune.lookup("matmul", 0, "float64 nn", (1, 64, 64, 64)) is None
    assert (
        autotune.lookup("matmul", 0, "float32 nn", (1, 64, 64, 64), ["cublas", "naive"]).choice
        == "cublas"
    )
    assert autotune.lookup("matmul", 0, "float32 nn", (1, 64, 64, 64), ["sm90"]) is None
    autotune.save("assumed", "matmul", "bfloat16 nt", (1, 32768, 768, 768), {"sm90 128x256": 5.0})
    assert (
        autotune.lookup("matmul", 0, "bfloat16 nt", (1, 1 << 20, 768, 768)).choice == "sm90 128x256"
    )  # large is large
    assert autotune.lookup("matmul", 0, "bfloat16 nt", (1, 8192, 768, 768)) is not None
    assert autotune.lookup("matmul", 0, "bfloat16 nt", (1, 4096, 768, 768)) is None


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
    assert (
        autotune.lookup("op", 0, "k", (8,)).choice == "a"
        and "shipped" in autotune.lookup("op", 0, "k", (8,)).why
    )
    autotune.save("assumed", "op", "k", (8,), {"a": 3.0, "b": 2.0})
    assert (
        autotune.lookup("op", 0, "k", (8,)).choice == "b"
        and "this machine" in autotune.lookup("op", 0, "k", (8,)).why
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_damaged_file_counts_as_empty(file, text):
    file.parent.mkdir()
    file.write_text(text)
    assert autotune.lookup("op", 0, "k", (8,)) is None
    autotune.save("assumed", "op", "k", (8,), {"a": 3.0})
    assert autotune.lookup("op", 0, "k", (8,)).choice == "a"


def test_shipped_tables_that_are_not_there_are_an_error(tmp_path, monkeypatch):
    """Else each planner would follow its own rule, in silence."""
    monkeypatch.setattr(autotune.importlib.resources, "files", lambda package: tmp_path)
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
    from cudamath.kernels.matmul.tensor_core_dispatch import Choice
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

    monkeypatch.setattr(tuning, "Event", Mark)
    monkeypatch.setattr(tuning, "synchronize", lambda: None)

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
