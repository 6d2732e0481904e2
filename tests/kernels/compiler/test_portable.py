"""Kernels by value: another process makes the same kernel of the bytes, or there are no bytes."""

from __future__ import annotations

import pickle
import subprocess
import sys
import types as python_types

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch.steps import Launch
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import compile as compiler
from cudamath.kernels.compiler import generated, lazy_numba, origin, portable
from cudamath.kernels.compiler.lazy_numba import cuda, libdevice, types
from cudamath.kernels.generated.user_kernels import user_kernel
from cudamath.runtime.device import assume

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
F4 = np.dtype("f4")
X = Layout.new((64, 64), F4, 0)


def plans():
    """(plan, inputs) of kernels of several kinds: generated source, closures over device functions
    and named tuples, intrinsics."""
    from cudamath.kernels.conv import dispatch as conv
    from cudamath.kernels.elementwise.dispatch import elementwise
    from cudamath.kernels.matmul import dispatch as matmul
    from cudamath.kernels.reduce import dispatch as reduce
    from cudamath.kernels.softmax import dispatch as softmax

    half = Layout.new((256, 256), np.dtype("f2"), 0)
    image, taps = Layout.new((2, 8, 16, 16), F4, 0), Layout.new((16, 8, 3, 3), F4, 0)
    yield elementwise(X, X, expression="x * y + 1", compute=F4, output=F4), [X, X]
    yield softmax.softmax(X, axis=1), [X]
    for kind in ("sum", "argmax", "var"):
        yield reduce.plan(X, kind=kind, axis=(1,), keepdims=False, dtype=F4), [X]
    yield matmul.matmul(half, half), [half, half]
    where = {"stride": (1, 1), "padding": (1,) * 4, "dilation": (1, 1), "groups": 1}
    yield conv.conv2d(image, taps, **where), [image, taps]


def kernels():
    """(kernel, signature) of these plans."""
    for plan, inputs in plans():
        for step in plan.steps:
            if isinstance(step, Launch):
                yield step.kernel, plan.signature(step, inputs)


def test_the_family_of_a_kernel_is_the_folder_of_its_module():
    folders = set()
    with assume((9, 0)):
        for kernel, _ in kernels():
            folder = (kernel.py_func.__module__ or "").split(".")[2:3]
            if folder in (["conv"], ["matmul"], ["softmax"], ["reduce"]):
                found = portable.family(portable.dumps(("later", portable.dumps(kernel))))
                assert [found] == folder, kernel
                folders |= {found}
    assert len(folders) >= 2
    assert portable.family(portable.dumps(("common", (9, 0)))) == ""


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0)])
def test_a_kernel_by_value_has_the_key_of_the_kernel(capability):
    with assume(capability):
        count = 0
        for kernel, signature in kernels():
            again, types_again = portable.loads(portable.dumps((kernel, signature)))
            assert again is not kernel and types_again == signature
            for key in (compiler.cache_key(k, signature, capability) for k in (again,)):
                assert key == compiler.cache_key(kernel, signature, capability)
            count += 1
        assert count >= 6


def test_another_process_makes_the_same_kernels():
    """One that has imported nothing but this module's reader."""
    source = """
        import sys
        from cudamath.kernels.compiler import compile as compiler, portable
        for kernel, signature in portable.loads(sys.stdin.buffer.read()):
            print(compiler.cache_key(kernel, signature, (9, 0, "a")))
    """
    with assume((9, 0)):
        all_kernels = list(kernels())
    said = subprocess.run(
        [sys.executable, "-c", "\n".join(line[8:] for line in source.splitlines())],
        input=portable.dumps(all_kernels),
        env={"PYTHONPATH": origin.ROOT},
        capture_output=True,
        check=True,
        timeout=120,
    )
    expected = [compiler.cache_key(k, s, (9, 0, "a")) for k, s in all_kernels]
    assert said.stdout.decode().split("\n")[:-1] == expected


def test_a_function_that_refers_to_itself():
    source = "def rounds(x):\n    return x if x > other else rounds(x * 2)\n"
    rounds = generated.compiled(source, "rounds", {"other": 100})
    assert rounds(3) == portable.loads(portable.dumps(rounds))(3) == 192

    def outer(limit, step=[3]):  # noqa: B006
        def inner(x, *, scale=2):
            return x if x > limit else inner(x * scale + step[0])

        return inner

    inner = outer(50)
    again = portable.loads(portable.dumps(inner))
    assert again(1) == inner(1) and again(1, scale=9) == inner(1, scale=9)


class Theirs:
    """What another process cannot import: it has no tests."""


def test_what_is_the_users_has_no_bytes():
    """Modules and classes that are neither this package's nor of what it uses: another process
    would import something else by their names, or nothing."""
    theirs = python_types.ModuleType("theirs")
    for value, kind in ((Theirs, "class Theirs"), (theirs, "module theirs")):
        for held in (value, [value], {"x": value}):
            with pytest.raises(pickle.PicklingError, match=f"the {kind} is the user's"):
                portable.dumps(held)
    for value in (np, np.linalg, cm.core.layout, Layout, np.float32, int, type(cm.bfloat16)):
        assert portable.loads(portable.dumps(value)) is value


def test_numbas_names_are_those_of_the_other_process():
    for name in ("float32", "int64", "complex128", "boolean"):
        assert portable.loads(portable.dumps(getattr(types, name))) is getattr(types, name)
    assert portable.loads(portable.dumps(libdevice.cbrtf)) is libdevice.cbrtf
    assert portable.loads(portable.dumps([cuda, types, cuda.shfl_sync])) == [
        cuda,
        types,
        cuda.shfl_sync,
    ]


def test_a_users_kernel_by_value():
    half = 0.5

    def twice(x):
        return x * 2

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = twice(x[i]) + half

    own = user_kernel(kernel)
    again = portable.loads(portable.dumps(own.dispatcher))
    signature = [Layout.new((9,), F4, 0)] * 2
    assert compiler.cache_key(again, signature, (8, 0)) == compiler.cache_key(
        kernel, signature, (8, 0)
    )
    assert portable.loads(portable.dumps(own.seen)) is own.seen


def test_what_belongs_to_a_users_module_is_not_sent(tmp_path, monkeypatch):
    (tmp_path / "users_module.py").write_text(
        "class Thing:\n    size = 3\ndef helper(x):\n    return x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import users_module

    def by_module(x):
        return users_module.helper(x)

    def by_class(x):
        return Thing.size

    Thing = users_module.Thing
    for function in (by_module, by_class):
        with pytest.raises(pickle.PicklingError, match="is the user's"):
            portable.dumps(function)
    helper = users_module.helper
    assert portable.loads(portable.dumps(helper)) is not helper  # by value
    assert cm.__name__ == "cudamath"
