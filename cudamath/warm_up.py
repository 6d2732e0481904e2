"""`python -m cudamath warm-up`: kernels compiled before a program needs them.

On the CPU, `compile_cpu` calls functions that Numba compiles, in several processes. For a GPU,
`functions` has the kernels that common programs need of the named functions, from the list of what
packs hold (`kernels/compiler/kernel_list.py`). `program` has those of a program, which it rehearses
without a device (`runtime/rehearsal.py`). `compile_all` compiles what is neither in a pack nor on
the disk, on all cores.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import io
import multiprocessing
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .core.devices import device as on_device
from .core.dispatch.lazy_import import lazy
from .core.dispatch.op import registry
from .kernels.compiler import compile as compiler
from .kernels.compiler import kernel_list, worker_pool
from .runtime import device as devices
from .runtime import rehearsal

#: A kernel and the types of its arguments.
Request = tuple[Any, list[Any]]


def functions(names: Sequence[str], capability: tuple[int, int]) -> list[Request]:
    """The kernels in the list that these functions need; of all functions if none is named.
    ValueError for a function that the list does not have."""
    calls = kernel_list.calls(names)
    absent = set(names) - {call.op.strip("_") for call in calls}
    if absent:
        raise ValueError(
            f"warm-up: the list of kernels has no function {', '.join(sorted(absent))}; "
            "name others, or use --from-program"
        )
    return [(each.kernel, each.signature) for each in kernel_list.wanted(calls, capability)]


def program(path: str, arguments: Sequence[str], capability: tuple[int, int]) -> list[Request]:
    """The kernels that a program needs on a device of this capability, user's kernels included. It
    runs on the host alone, without its output, up to its end or to the first error: results on the
    device are not there, and what depends on them may go astray."""
    requests: list[Request] = []
    name = "assumed"
    there: tuple[str, ...] = rehearsal.LIBRARIES
    if devices.device_count() and devices.capability(0) == capability:
        name, there = devices.name(0), rehearsal.found()

    def note(kernel: Any, signature: list[Any], _capability: tuple[int, int]) -> bytes:
        requests.append((kernel, list(signature)))
        return b"\x7fELF"

    argv, sys.argv = sys.argv, [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        with (
            rehearsal.rehearsing(capability, note, name=name, there=there),
            on_device("cuda:0"),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            try:
                runpy.run_path(path, run_name="__main__")
            except SystemExit:
                pass
            except Exception as error:
                print(
                    f"cudamath: warm-up: {path} was rehearsed up to an error, "
                    f"{type(error).__name__}: {error}",
                    file=sys.stderr,
                )
    finally:
        sys.argv = argv
        sys.path.pop(0)
    return requests


def capability_of(text: str | None, device: str | None = None) -> tuple[int, int]:
    """A compute capability written as 9.0; None: that of a GPU ("cuda:1"; None: the first)."""
    if text is None:
        return devices.capability(on_device(device or "cuda").index)
    major, _, minor = text.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise ValueError(f"warm-up: a compute capability is written as 9.0, got {text}")
    return int(major), int(minor)


def compile_all(
    requests: Sequence[Request],
    capability: tuple[int, int],
    workers: int = 0,
    done: Callable[[int, int], object] = lambda count, total: None,
) -> list[str]:
    """Compile in worker processes what is not stored yet, and return what went wrong. workers:
    their number (0: one for each core); done(count, total) is called as kernels are done."""
    pool = worker_pool.Pool(workers or os.cpu_count() or 1, keeps_free=False)
    jobs = list(dict.fromkeys(compiler.compile_ahead(requests, capability, pool)))
    errors = []
    done(0, len(jobs))
    for count, job in enumerate(worker_pool.finished(jobs), 1):
        pool.take(job.key)  # its machine code is on the disk
        if job.error:
            errors.append(job.error)
        done(count, len(jobs))
    return errors


# -------------------- the CPU


def _cpu_calls() -> dict[str, Callable[[Any], object]]:
    """{function: a call that compiles it for one dtype}."""
    import cudamath as cm
    from cudamath import ml

    def table(dtype: Any) -> Any:
        return cm.ones((48, 1024), dtype=dtype, device="cpu")

    def image(dtype: Any) -> Any:
        return cm.ones((2, 4, 12, 12), dtype=dtype, device="cpu")

    def taps(dtype: Any) -> Any:
        return cm.ones((8, 4, 3, 3), dtype=dtype, device="cpu")

    def conv2d(dtype: Any) -> None:
        def of(x: Any, w: Any, **options: Any) -> Any:
            return ml.conv2d(x, w, padding=1, **options).sum()

        cm.grad(of, argnums=(0, 1))(image(dtype), taps(dtype))
        cm.grad(of, argnums=(0, 1))(image(dtype), taps(dtype)[:4, :1], groups=4)

    def along(name: str) -> Callable[[Any], object]:
        return lambda dtype: [getattr(cm, name)(table(dtype), axis=axis) for axis in (0, 1)]

    def of_image(function: Callable, *options: Any, **named: Any) -> Callable[[Any], object]:
        return lambda dtype: cm.grad(lambda x: function(x, *options, **named).sum())(image(dtype))

    def drawn(name: str, *parameters: float, typed: bool = True) -> Callable[[Any], object]:
        def draw(dtype: Any) -> object:
            rng = cm.random.default_rng(0)
            with on_device("cpu"):
                options = {"dtype": dtype} if typed else {}
                return getattr(rng, name)(*parameters, size=(100,), **options)

        return draw

    def permutation(_: Any) -> object:
        with on_device("cpu"):
            return cm.random.default_rng(0).permutation(100)

    def upsample(dtype: Any) -> None:
        for mode in ("nearest", "bilinear"):
            of_image(ml.upsample, scale_factor=2, mode=mode)(dtype)

    def adam(dtype: Any) -> None:
        params = {"x": table(dtype)}
        ml.adam_update(params, params, ml.adam_init(params))

    def sgd(dtype: Any) -> None:
        params = {"x": table(dtype)}
        ml.sgd_update(params, params, lr=0.1)
        for nesterov in (False, True):
            state = ml.sgd_init(params)
            ml.sgd_update(params, params, state, lr=0.1, momentum=0.9, nesterov=nesterov)

    def step(name: str) -> Callable[[Any], object]:
        return lambda dtype: getattr(ml, name)({"x": table(dtype)}, {"x": table(dtype)})

    def convolved(function: Callable, taps: tuple, shape: tuple) -> Callable[[Any], object]:
        def of(x: Any, w: Any) -> Any:
            return function(x, w).sum()

        return lambda dtype: cm.grad(of, argnums=(0, 1))(
            cm.ones(shape, dtype=dtype, device="cpu"), cm.ones(taps, dtype=dtype, device="cpu")
        )

    names = ("sum", "mean", "std", "var", "max", "min", "argmax", "argmin", "any", "all")
    return (
        {name: along(name) for name in names}
        | _special_functions()
        | {
            "conv2d": conv2d,
            "conv1d": convolved(ml.conv1d, (8, 4, 3), (2, 4, 12)),
            "conv_transpose1d": convolved(ml.conv_transpose1d, (4, 8, 3), (2, 4, 12)),
            "conv_transpose2d": convolved(ml.conv_transpose2d, (4, 8, 3, 3), (2, 4, 12, 12)),
            "max_pool2d": of_image(ml.max_pool2d, 2),
            "avg_pool2d": of_image(ml.avg_pool2d, 2),
            "upsample": upsample,
            "gelu": lambda dtype: cm.grad(lambda x: ml.gelu(x).sum())(table(dtype)),
            "dropout": lambda dtype: ml.dropout(table(dtype), 0.5, training=True),
            "normal": drawn("normal", 0.0, 1.0),
            "uniform": drawn("uniform", 0.0, 1.0),
            "exponential": drawn("exponential", 1.0),
            "gamma": drawn("gamma", 2.0),
            "beta": drawn("beta", 2.0, 3.0),
            "integers": drawn("integers", 0, 10, typed=False),
            "poisson": drawn("poisson", 3.0, typed=False),
            "binomial": drawn("binomial", 10, 0.5, typed=False),
            "permutation": permutation,
            "adam_update": adam,
            "sgd_update": sgd,
            "rmsprop_update": step("rmsprop_update"),
            "lion_update": step("lion_update"),
        }
    )


def _special_functions() -> dict[str, Callable[[Any], object]]:
    """{"special.gamma": what compiles it, ...}: loops over float64, whatever they are given."""
    importlib.import_module("cudamath.special")  # which defines them
    paths = set()
    for op in registry.values():
        named = getattr(op, "cpu", "")
        for path in named.values() if isinstance(named, dict) else [named]:
            where, _, name = str(path).partition(".")
            ends = ("_real", "_imaginary") if where == "complex_special" else ("",)
            paths |= {f"{where.removeprefix('complex_')}.{name}{end}" for end in ends}
    return {
        path: lambda _dtype, path=path: lazy("cpu", path)  # type: ignore[misc]
        for path in sorted(paths)
        if path.startswith("special.")
    }


def _call_on_cpu(name: str, dtype: str) -> str:
    """Call a function, which compiles it; what went wrong."""
    try:
        _cpu_calls()[name](dtype)
    except Exception as error:
        return f"{name} of {dtype}: {type(error).__name__}: {error}"
    return ""


def compile_cpu(
    names: Sequence[str],
    workers: int = 0,
    done: Callable[[int, int], object] = lambda count, total: None,
) -> list[str]:
    """Compile the CPU's functions of these names (all, if none is named) for float32 and float64
    in worker processes, and return what went wrong."""
    absent = set(names) - set(_cpu_calls())
    if absent:
        raise ValueError(
            f"warm-up: on the CPU no function {', '.join(sorted(absent))} is compiled ahead; "
            f"those that are: {', '.join(sorted(_cpu_calls()))}"
        )
    tasks = [
        (n, t)
        for t in ("float64", "float32")
        for n in _cpu_calls()
        if (n in names or not names) and not (n.startswith("special.") and t == "float32")
    ]
    errors = []
    with concurrent.futures.ProcessPoolExecutor(
        workers or os.cpu_count(), multiprocessing.get_context("spawn")
    ) as processes:
        running = [processes.submit(_call_on_cpu, *task) for task in tasks]
        done(0, len(tasks))
        for count, each in enumerate(concurrent.futures.as_completed(running), 1):
            if error := each.result():
                errors.append(error)
            done(count, len(tasks))
    return errors


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, as the function `done` of `compile_all`."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=None)
        yield lambda count, total: bar.update(task, completed=count, total=total)
