"""The list of what packs hold: its lines, and that common programs need nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch import autotune
from cudamath.core.dispatch.op import registry
from cudamath.core.dispatch.planner_calls import PlannerCall
from cudamath.core.dispatch.small_arrays import as_if_large
from cudamath.core.dtypes import bfloat16
from cudamath.core.layout import Layout
from cudamath.core.specs.optimizer import Form
from cudamath.kernels.compiler import cache_key, kernel_list, lazy_numba
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.generated.fusion import Program
from cudamath.runtime import cudnn, rehearsal
from cudamath.runtime.device import assume
from packs import programs, record

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
F4 = np.dtype("f4")


@pytest.mark.parametrize(
    "value",
    [
        bfloat16,
        np.dtype("c16"),
        None,
        (1, -2.5, True, None, ("a", ())),
        float("inf"),
        2 + 3j,
        np.float32(0.1),
        np.int8(-3),
        np.complex64(1 - 1j),
        Form(step=True),
        Program((), (0, 1)),
    ],
    ids=str,
)
def test_arguments_of_planners_are_lines_of_text(value):
    same_as_its_line(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Layout.new((3, 4), F4, 0),
        lambda: Layout.of((3, 4), (4, 12), F4, 0, False),
        lambda: Layout.new((), bfloat16, 0),
    ],
)
def test_layouts_of_arguments_are_lines_of_text(make):
    """They are made here: the table of layouts forgets some, and is the same object no more."""
    same_as_its_line(make())


def same_as_its_line(value):
    call = PlannerCall("op", "family.file.planner", (value,), {"x": value, "y": (value,)})
    text = kernel_list.line(call)
    again = kernel_list.call_of(text)
    assert again == call and "\n" not in text
    assert type(again.params["x"]) is type(value) and kernel_list.line(again) == text
    if isinstance(value, Layout):
        assert again.params["x"] is value  # interned


@pytest.mark.parametrize(("op", "attribute"), [("softmax", ""), ("add", ""), ("softmax", ":alone")])
def test_an_ops_own_planner_is_looked_up_again(op, attribute, monkeypatch):
    own = registry[op].cuda
    text = kernel_list.line(PlannerCall(op, own + attribute, (), {}))
    assert own not in text
    monkeypatch.setattr(type(registry[op]), "cuda", "another.place", raising=False)
    monkeypatch.setattr(registry[op], "cuda", "another.place", raising=False)
    assert kernel_list.call_of(text).planner == "another.place" + attribute


@pytest.mark.parametrize("value", [object(), lambda x: x, np.ones(3), {1, 2}], ids=type)
def test_what_has_no_form_is_refused(value):
    with pytest.raises(TypeError, match="kernel list: no form for"):
        kernel_list.line(PlannerCall("op", "planner", (), {"x": value}))


def test_a_program_is_recorded_and_planned_again(tmp_path):
    """What a program launches on devices with libraries and without, and what the recorded calls
    launch, are the same, but for what these would launch on larger arrays."""
    from cudamath.runtime.state import runtime

    recorder, launched = record.Recorder(), []
    for there in (rehearsal.LIBRARIES, ()):
        with record.recording(recorder, (9, 0), there):
            cm.cuda.synchronize()
            runtime.compiler = lambda kernel, signature, _cc: (
                launched.append(compiler.cache_key(kernel, signature, (9, 0, "a"))) or b"\x7fELF"
            )
            x = cm.ones((100, 64))
            (cm.exp(x) @ x.T).sum(axis=0)
            cm.fuse(lambda a: cm.tanh(a) * 2 + 1)(x)
            cm.grad(lambda a: cm.ml.softmax(a).sum())(x)
    path = tmp_path / "list"
    path.write_text("\n".join(recorder.lines))
    calls = kernel_list.calls(path=path)
    errors = []
    again = [each.key for each in kernel_list.wanted(calls, (9, 0), errors)]
    with as_if_large():
        large = {each.key for each in kernel_list.wanted(calls, (9, 0), errors)}
    assert len(again) == len({*again}) >= 6 and not errors
    assert {*again} - {*launched} <= large and {*launched} <= {*again}
    only = kernel_list.calls(["exp"], path)
    assert {call.op for call in only} == {"exp"}


def test_a_call_is_planned_with_libraries_and_without(monkeypatch):
    """Whatever is installed here: a pack serves machines of all kinds."""
    images, filters = Layout.new((32, 16, 32, 32), F4, 0), Layout.new((32, 16, 3, 3), F4, 0)
    options = dict(stride=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1), groups=1)
    turned = Layout.new((16, 8, 4, 4, 4), bfloat16, 0), Layout.new((8, 8, 3, 3, 3), bfloat16, 0)
    of_volumes = dict(stride=(1,) * 3, padding=(1,) * 6, dilation=(1,) * 3, groups=1, library=True)
    before = cudnn.available
    for there in (False, True):
        monkeypatch.setattr(cudnn, "available", lambda: there)  # noqa: B023
        for call, expected in (
            # our own kernel where cuDNN is not
            (PlannerCall("conv2d", "conv.dispatch.conv2d", (images, filters), options), "gemm"),
            # the copies around cuDNN's where it is
            (PlannerCall("conv3d", "conv.conv3d.conv3d", turned, of_volumes), "strided"),
        ):
            names = {k.__name__ for k, _ in kernel_list.everywhere(call, (9, 0))}
            assert any(expected in name for name in names), (there, names)
    monkeypatch.undo()
    assert cudnn.available is before


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (
            PlannerCall(
                "add",
                "elementwise.dispatch.elementwise",
                (Layout.new((30,), np.dtype("f8"), 0), Layout.new((30,), np.dtype("i4"), 0)),
                {
                    "expression": "x + y",
                    "compute": np.dtype("f8"),
                    "output": np.dtype("f8"),
                    "inplace": False,
                },
            ),
            {"small", "vector"},
        ),
        (
            PlannerCall(
                "sum",
                "reduce.dispatch.plan",
                (Layout.new((20, 500), np.dtype("f8"), 0),),
                {"kind": "sum", "axis": (1,), "keepdims": False, "dtype": np.dtype("f8")},
            ),
            {"reduce_small", "reduce_rows"},
        ),
    ],
    ids=["elementwise", "reduction"],
)
def test_a_call_stands_for_small_arrays_and_for_large_ones(call, names):
    assert {k.__name__ for k, _ in kernel_list.everywhere(call, (9, 0))} == names
    with assume((9, 0)):
        assert {k.__name__ for k, _ in kernel_list.launches(call, call.plan())} < names


def test_measured_devices_are_planned_for():
    """Their plans differ from those of other devices, by the tables that the package ships."""
    assert set(autotune._shipped()) == {
        n for names in kernel_list._MEASURED.values() for n in names
    }


def test_a_call_that_a_planner_does_not_take_is_reported():
    calls = [PlannerCall("op", "softmax.dispatch.softmax", (Layout.new((9,), F4, 0),), {"size": 1})]
    errors = []
    assert list(kernel_list.wanted(calls, (8, 0), errors)) == []
    assert len(errors) == 1 and "TypeError" in errors[0] and "softmax" in errors[0]


def test_recording_ends_with_its_context():
    from cudamath.core.dispatch import planner_calls

    before = list(planner_calls.observers)
    with pytest.raises(KeyError), record.recording(record.Recorder(), (8, 0)):
        raise KeyError
    assert planner_calls.observers == before


# -------------------- the list itself


@pytest.fixture(scope="module")
def listed() -> Iterator[set[str]]:
    """The keys of all kernels in the list, for a device of capability 9.0. Many calls share a
    kernel, whose code is looked at once."""
    errors: list[str] = []
    with cache_key.unchanging():
        keys = {each.key for each in kernel_list.wanted(kernel_list.calls(), (9, 0), errors)}
        assert not errors
        yield keys


#: What `keys_of` found, by capability and line: programs make many calls often, and the same ones.
found_before: dict[tuple, dict[str, str]] = {}


def keys_of(call: PlannerCall, capability: tuple[int, int]) -> dict[str, str]:
    """The keys of the kernels of a call, for 9.0, each with what it belongs to."""
    where = (capability, kernel_list.line(call))
    if where not in found_before:
        found_before[where] = {
            compiler.cache_key(kernel, signature, (9, 0, "a")): f"{call.op}: {kernel.__name__}"
            for kernel, signature in kernel_list.everywhere(call, capability)
        }
    return found_before[where]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "run"),
    [(n, run) for n, run in programs.programs() if not n.startswith(("random", "sampled"))],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_kernel_of_a_common_program_is_in_the_list(name, run, listed):
    """The demo, the notebooks, the models, and the first calls of a session, whether libraries are
    there or not. A kernel that is not in the list: `make kernel-list`."""
    if name[:2].isdigit() or name == "demo":
        pytest.importorskip("matplotlib")
        pytest.importorskip("sklearn")
    needed: dict[str, str] = {}

    class Keys(record.Recorder):
        def note(self, capability, call, _plan):
            needed.update(keys_of(call, capability))

    for there in (rehearsal.LIBRARIES, ()):
        with record.recording(Keys(), (9, 0), there):
            run()
    assert needed or name.startswith("02")
    assert [said for key, said in needed.items() if key not in listed] == []
