"""Kernel files do not import Numba: stand-ins, what Numba makes of them, and processes that never
need it."""

import collections
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import threading

import numba
import numpy as np
import pytest
from fake_status import OK

from cudamath.core.layout import Layout
from cudamath.kernels.compiler import cache_key, lazy_numba
from cudamath.kernels.compiler import compile as compiler
from cudamath.runtime import background_init, device, library_paths
from cudamath.runtime.state import runtime

ROOT = pathlib.Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    lazy_numba.SIMULATOR, reason="in the simulator all names are Numba's own"
)


def python(source: str, **environment: str) -> str:
    """What a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        cwd=ROOT / "tests" / "support",
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_few_programs_need_is_imported_when_it_is_needed():
    source = """
        import sys
        import cudamath as cm
        from cudamath.kernels.elementwise.generator import scalar_function
        cm.random.default_rng(0)
        few = "numpy.random", "cudamath.kernels.elementwise.special_functions"
        print(*(name in sys.modules for name in few))
        import numpy as np
        cm.random.default_rng(np.random.default_rng(0))
        double = (np.dtype(np.float64),)
        scalar_function("special_gammaln(x)", double, *2 * double)
        print(*(name in sys.modules for name in few))
    """
    assert python(source).split("\n") == ["False False", "True True"]


def test_what_python_asks_of_any_object_imports_nothing():
    """`inspect`, `copy` and doctest look for names with two underscores; no stand-in has them by
    importing what it stands for."""
    said = python(
        """
        import copy, inspect, sys
        from cudamath.kernels.compiler.lazy_numba import cuda, types, libdevice
        for module in (cuda, types, libdevice):
            assert not hasattr(module, "__wrapped__") and inspect.unwrap(module) is module
            assert not hasattr(module, "__array_interface__")
        print([m for m in ("numba", "llvmlite") if m in sys.modules])
        """
    )
    assert said == "[]"


def test_types_of_numbers_have_the_parts_of_numbas():
    for name in ("complex64", "complex128", "float32", "float64", "int64", "uint8"):
        ours, numbas = getattr(lazy_numba.types, name), getattr(numba.types, name)
        part = getattr(numbas, "underlying_float", None)
        assert getattr(ours, "underlying_float", None) is (
            part if part is None else getattr(lazy_numba.types, part.name)
        )


def heavy() -> str:
    return "[m for m in ('numba', 'llvmlite', 'cuda.core', 'nvmath') if m in sys.modules]"


FIRST_CALLS = f"""
    import json, sys
    import ml_dtypes, numpy as np, pytest
    import fake_driver
    import cudamath as cm
    from cudamath.kernels.compiler import compile as build
    from cudamath.runtime import cublas as blas, cudnn as dnn, kernel_launch as module, cubin_cache
    from cudamath.runtime.state import runtime

    FILL = len(sys.argv) > 1
    with pytest.MonkeyPatch.context() as patch, fake_driver.installed(patch) as fake:
        patch.setattr(blas, "available", lambda: False)
        patch.setattr(dnn, "available", lambda: False)
        runtime.compiler = build.compile_cubin
        fake.libraries.append((lambda *arguments: None, []))  # "machine code" that does nothing
        if FILL:
            build.compile_now = lambda *what: (b"\\x7fELF0", "")
        a = fake_driver.gpu(np.ones((512, 512), np.float32))
        x, w = (fake_driver.gpu(np.ones(s, np.float32)) for s in ((8, 16, 32, 32), (32, 16, 3, 3)))
        h = fake_driver.gpu(np.ones((512, 512), ml_dtypes.bfloat16))
        q = h.reshape((2, 16, 128, 64))
        for result in (a @ a, cm.ml.conv2d(x, w, padding=1), cm.ml.softmax(a), a + a, cm.exp(h),
                       a.sum(), cm.var(h, axis=0), h @ h,
                       cm.ml.scaled_dot_product_attention(q, q, q),
                       cm.ml.layer_norm(h, 512, h[0], h[0]), cm.sort(a), cm.cumulative_sum(a[0]),
                       cm.random.normal(size=(100,), device="cuda:0")):
            result.to_numpy()
        cm.vjp(cm.ml.gelu, a)[1](a)
        print(json.dumps([cubin_cache.statistics, {heavy()}]))
    """


def test_no_numba_when_every_kernel_is_on_disk(tmp_path):
    # processes that help would write real machine code, which the fake driver cannot load
    cache = {"CUDAMATH_CACHE_DIR": str(tmp_path), "CUDAMATH_COMPILE_WORKERS": "0"}
    filled, imported = json.loads(python(FIRST_CALLS.replace("len(sys.argv) > 1", "True"), **cache))
    assert filled["compiled"] > 15 and "numba" in imported  # a kernel's arguments are Numba's types
    again, imported = json.loads(python(FIRST_CALLS, **cache))
    assert again == {
        "compiled": 0,
        "loaded_from_disk": filled["compiled"] + filled["loaded_from_disk"],
    }
    assert imported == []


def test_keys_are_those_of_a_process_that_has_numba():
    source = """
        import sys
        {before}
        import numpy as np
        from cudamath.core.layout import Layout
        from cudamath.core.dispatch.steps import Launch
        from cudamath.kernels.compiler import compile as build
        from cudamath.kernels.softmax import dispatch as softmax
        from cudamath.kernels.sort import dispatch as sort
        from cudamath.kernels.matmul import sm90 as matmul_wgmma
        from cudamath.kernels.elementwise import generator as elementwise
        from cudamath.kernels.scan import dispatch as scan
        from cudamath.runtime.device import assume
        from cudamath.kernels.matmul.dispatch import matmul
        import ml_dtypes
        with assume((9, 0)):
            for dtype in (np.float32, ml_dtypes.bfloat16):
                x = Layout.new((512, 512), np.dtype(dtype), 0)
                for plan, inputs in ((softmax.softmax(x, axis=1), [x]), (matmul(x, x), [x, x])):
                    for step in plan.steps:
                        if isinstance(step, Launch):
                            arguments = plan.signature(step, inputs)
                            print(build.cache_key(step.kernel, arguments, (9, 0, "a")))
        """
    without, having = (
        python(source.replace("{before}", line)) for line in ("", "from numba import cuda, types")
    )
    assert without.count("\n") >= 3 and without == having


def test_numbers_are_scalars_names_and_types():
    from numba import types

    for name in ("int8", "int32", "uint64", "float16", "float32", "float64", "complex64"):
        T, real = getattr(lazy_numba.types, name), getattr(types, name)
        assert T.real is real and str(T) == str(real) == T.name and T.bitwidth == real.bitwidth
        assert lazy_numba.dtype_of(T) == lazy_numba.dtype_of(real) == np.dtype(name) == T(1).dtype
        if np.dtype(name).kind in "iu":
            assert T.signed == real.signed and T(3) == real(3) and type(T(3)) is type(real(3))
    assert lazy_numba.types.complex64.underlying_float is lazy_numba.types.float32
    for name in ("boolean", "int64", "uint8", "float16", "float32", "float64"):
        assert not hasattr(getattr(lazy_numba.types, name), "underlying_float"), name
    assert (
        lazy_numba.dtype_of(lazy_numba.types.boolean) == np.bool_
        and lazy_numba.types.boolean(3) is True
    )
    assert lazy_numba.types.int32(lazy_numba.types.float32, types.int64) == types.int32(
        types.float32, types.int64
    )
    assert lazy_numba.types.Array is types.Array  # what has no stand-in is Numba's own


def test_what_python_asks_of_any_object_is_no_name_of_numbas():
    """Libraries that look at objects (copy, pickle, doctest) ask for names with underscores."""
    before = set(sys.modules)
    for module in (lazy_numba.cuda, lazy_numba.libdevice, lazy_numba.types):
        for name in ("__wrapped__", "__deepcopy__", "__array_interface__"):
            assert not hasattr(module, name), module
    assert not hasattr(lazy_numba.libdevice, "_private")
    assert set(sys.modules) == before


def test_a_kernel_of_stand_ins_is_compiled_as_with_numbas_own():
    from numba import cuda, types

    from cudamath.kernels.ptx.conversions import half_to_float

    def text(cuda, types, root):
        @cuda.jit(device=True)
        def twice(a):
            return a * types.float32(2)

        @cuda.jit
        def kernel(x, y):
            shared = cuda.shared.array(64, types.float32)
            i = cuda.grid(1)
            shared[cuda.threadIdx.x] = root(twice(half_to_float(x[i])))
            cuda.syncthreads()
            y[i] = shared[63 - cuda.threadIdx.x]

        layouts = [Layout.new((64,), np.dtype(dtype), 0) for dtype in (np.float16, np.float32)]
        return compiler.ptx_of(kernel, layouts, (8, 0)).partition(".visible")[2].partition("{")[2]

    def stripped(ptx):  # shared arrays, functions and labels are numbered through the process
        return [
            line.split("//")[0].partition("_smem_")[0].strip()
            for line in ptx.splitlines()
            if "$L" not in line and "_Z" not in line
        ]

    ours = text(lazy_numba.cuda, lazy_numba.types, lazy_numba.libdevice.cbrtf)
    numbas = text(cuda, types, __import__("numba.cuda.libdevice", fromlist=["cbrtf"]).cbrtf)
    assert "cvt.f32.f16" in ours and len(stripped(ours)) > 30 and stripped(ours) == stripped(numbas)


def test_bindings_come_without_the_rest_of_nvmath():
    source = f"""
        import sys
        from cudamath.runtime.library_paths import bindings
        found = [bindings(name) for name in ("cublas", "cublasLt", "cusolverDn", "cufft")]
        print({heavy()}, "nvmath.bindings" in sys.modules)
        import nvmath
        print(nvmath.bindings.cublas is found[0], nvmath.bindings.cufft is found[3],
              callable(nvmath.fft.fft))
        """
    assert python(source).splitlines() == ["[] False", "True True True"]
    assert library_paths.bindings("cublas").cuBLASError
    with pytest.raises(ImportError):
        library_paths.bindings("no_such_library")


def test_versions_of_what_is_installed_are_those_that_the_packages_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path / "gone"), *sys.path])
    found = cache_key.installed()
    for name in ("numba", "numba-cuda", "llvmlite", "cuda-core", "numpy", "ml-dtypes"):
        assert found[name] == importlib.metadata.version(name)
    assert (
        f"numba={found['numba']}" in cache_key._toolchain()
        and "nvidia-nvvm=" in cache_key._toolchain()
    )


class Driver:
    """A driver that is at work until it is told to go on (a minute at the most)."""

    def __init__(self):
        self.go_on = threading.Event()

    def cuInit(self, flags):
        assert self.go_on.wait(60)
        return (OK,)

    def cuDeviceGetCount(self):
        return OK, 3


@pytest.fixture
def waking(monkeypatch):
    """A driver that nobody has called yet, and nothing to do meanwhile."""
    driver = Driver()
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    monkeypatch.setattr(background_init, "items", collections.deque())
    with runtime.replaced(driver):
        yield driver


def test_while_the_driver_wakes_up_a_thread_does_what_is_next(waking):
    did = []

    def item(name, then=lambda: None):
        def do():
            did.append((name, threading.current_thread() is threading.main_thread()))
            then()

        return do

    def fail():
        raise ImportError("not installed")

    background_init.items.extend(
        [item("first"), item("fails", fail), item("last", waking.go_on.set)]
    )
    assert device._probe.__wrapped__()[0] == 3
    assert (
        did == [("first", False), ("fails", False), ("last", False)] and not background_init.items
    )
    assert not any(thread.name == "cudamath meanwhile" for thread in threading.enumerate())


def test_it_stops_behind_the_item_at_hand_when_the_driver_is_done(waking):
    did, done = [], threading.Event()
    background_init.items.extend(
        [lambda: did.append("one"), done.set, lambda: did.append("too late")]
    )
    background_init._work(done)
    assert did == ["one"] and len(background_init.items) == 1


def test_a_driver_that_answers_at_once_has_no_thread_at_work_beside_it(waking, monkeypatch):
    monkeypatch.setattr(background_init, "MOMENT", 60)
    background_init.items.append(lambda: 1 / 0)
    waking.go_on.set()
    assert device._probe.__wrapped__()[0] == 3 and len(background_init.items) == 1


def test_what_is_done_meanwhile_is_there_and_waits_for_nobody():
    source = """
        import contextlib, sys, threading
        import cudamath
        from cudamath.runtime import device, background_init as meanwhile

        def refuse(*args):
            print("asked for a device")

        def work():
            for item in meanwhile.items:
                with contextlib.suppress(ImportError):  # cuDNN's front end need not be there
                    item()

        device._probe, device.context, device.info = refuse, refuse, refuse
        thread = threading.Thread(target=work, daemon=True)
        with device.lock:  # whoever waits for the context may hold it
            thread.start()
            thread.join(60)
        names = ("nvmath.bindings.cublas", "cudamath.kernels.matmul.dispatch",
                 "cudamath.kernels.conv.dispatch")
        print(*[name in sys.modules for name in names], thread.is_alive())
        """
    assert python(source) == "True True True False"
