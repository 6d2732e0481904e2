"""The command `cudamath`, also as `python -m cudamath`: info, demo, bench, tune, warm-up, train,
sample and launch."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence

from cudamath import __version__


def parser() -> argparse.ArgumentParser:
    """The command line."""
    started = pathlib.Path(sys.argv[0]).name
    top = argparse.ArgumentParser(
        prog="cudamath" if started.startswith("cudamath") else "python -m cudamath",
        description="NumPy on your GPU: check, demonstrate, measure and tune it here.",
    )
    top.add_argument("--version", action="version", version=f"cudamath {__version__}")
    commands = top.add_subparsers(
        dest="command",
        required=True,
        metavar="info | demo | bench | tune | warm-up | train | sample | launch",
    )

    commands.add_parser(
        "info", help="devices, libraries and versions; what is missing and what brings it"
    )

    demo = commands.add_parser(
        "demo", help="compare operations with NumPy and train a small network"
    )
    demo.add_argument(
        "--device", help="cpu, cuda, cuda:1, ... (default: the first GPU, else the CPU)"
    )
    demo.add_argument(
        "--epochs", type=int, default=20, help="passes over the training images (default: 20)"
    )
    demo.add_argument(
        "--out", default="demo-output", help="folder for the picture (default: demo-output)"
    )
    demo.add_argument("--json", help="write the figures to this file")

    bench = commands.add_parser("bench", help="time operations beside the libraries installed here")
    bench.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="rows whose name contains one of these, e.g. matmul conv2d; none: list them",
    )
    bench.add_argument("--plot", help="write a chart to this PNG file")
    bench.add_argument("--json", help="write the figures to this file")
    bench.add_argument(
        "--all",
        action="store_true",
        help="every row that runs on the default device; there are hundreds",
    )
    bench.add_argument(
        "--verify",
        action="store_true",
        help="compare the libraries' results before they are timed; rows in "
        "which they differ by more than the threshold fail",
    )
    bench.add_argument(
        "--threshold",
        type=float,
        help="largest accepted difference, relative to the largest value (default: "
        "0.03 for 16-bit results, 0.003 for float32, 1e-6 for float64)",
    )
    bench.add_argument("--warmup", type=float, help="seconds of load before a row is timed")
    bench.add_argument("--iterations", type=int, help="rounds per library; the median is reported")
    bench.add_argument(
        "--plots", action="store_true", help="write charts of all rows into the folder of --save"
    )
    bench.add_argument(
        "--save",
        nargs="?",
        const="bench-output",
        metavar="FOLDER",
        help="write figures and the summary into this folder (default: bench-output)",
    )

    tune = commands.add_parser(
        "tune",
        help="time the candidate kernels of matrix products or convolutions on this "
        "machine; the fastest are used from then on",
    )
    tune.add_argument(
        "sizes",
        nargs="*",
        metavar="[Bx]MxKxN | conv2d",
        help="sizes of a @ b, e.g. 4096x4096x4096 (default: squares, batches and usual layers), "
        "or conv2d",
    )
    tune.add_argument(
        "--dtype",
        default="bfloat16",
        help="comma-separated: bfloat16, float16, float32, tf32, float64, float8_e4m3 (layout nt "
        "alone)",
    )
    tune.add_argument(
        "--layout",
        default="nn,nt,tn,tt",
        help="comma-separated; n: row-major, t: transposed, for each operand",
    )
    tune.add_argument("--device", default="cuda:0", help="cuda:0 (default), cuda:1, ...")
    tune.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop after this many seconds"
    )
    tune.add_argument(
        "--file",
        help="results file (default: CUDAMATH_TUNE_CACHE, or one in the user's cache folder)",
    )

    warm = commands.add_parser(
        "warm-up",
        help="compile on all cores, and keep on disk, what functions or a program need",
    )
    warm.add_argument(
        "functions", nargs="*", metavar="FUNCTION", help="matmul softmax ... (default: all)"
    )
    warm.add_argument(
        "--from-program",
        nargs=argparse.REMAINDER,
        metavar=("FILE", "ARGUMENT"),
        help="a Python program, rehearsed on the host to see what it needs; its arguments follow",
    )
    warm.add_argument(
        "--device", help="cpu, cuda, cuda:1, ... (default: the first GPU, else the CPU)"
    )
    warm.add_argument("--capability", help="of a GPU that need not be here, e.g. 9.0")
    warm.add_argument(
        "--workers", type=int, default=0, help="processes (default: one for each core)"
    )

    from .distributed.launch import add_command
    from .models.command import add_commands

    add_commands(commands)
    add_command(commands)
    return top


def info() -> int:
    """Print a sentence and the tables of cudamath/info.py, also where the device that was requested
    is not there."""
    from rich.console import Console

    from cudamath.info import tables, verdict

    console = Console(highlight=False)
    sentence, ready = verdict()
    console.print(sentence, markup=False, soft_wrap=True, style="green" if ready else "red")
    for table in tables():
        console.print()
        console.print(table)
    return 0 if ready else 1


def demo(arguments: argparse.Namespace) -> int:
    """Run the demo."""
    from cudamath.demo import run

    good = run(
        device=arguments.device, epochs=arguments.epochs, out=arguments.out, json=arguments.json
    )
    return 0 if good else 1


def bench(arguments: argparse.Namespace) -> int:
    """Run rows of benchmarks/, which lies beside the package in a source tree, and in a folder of
    an installed package (setup.py puts it there)."""
    package = pathlib.Path(__file__).resolve().parent
    for tree in (package.parent, package / "bench_tree"):
        if (tree / "benchmarks" / "run.py").is_file():
            break
    else:
        raise FileNotFoundError(f"bench: {tree / 'benchmarks'} is not there; install cudamath anew")
    sys.path.insert(0, str(tree))
    from benchmarks.run import Settings, command

    from .preflight import require_packages, require_writable_file, require_writable_folder

    if arguments.iterations is not None and arguments.iterations < 1:
        raise ValueError(f"bench: iterations must be at least 1, got {arguments.iterations}")
    for name in ("warmup", "threshold"):
        if (given := getattr(arguments, name)) is not None and not given >= 0:
            raise ValueError(f"bench: {name} must be at least 0, got {given}")
    if arguments.plot or arguments.plots:
        require_packages("bench", "demo", "matplotlib")
    for path in (arguments.plot, arguments.json):
        require_writable_file("bench", path)
    if arguments.save or arguments.plots:
        require_writable_folder("bench", arguments.save or "bench-output")
    settings = Settings(
        rounds=arguments.iterations,
        warm=arguments.warmup,
        verify=arguments.verify,
        threshold=arguments.threshold,
    )
    return command(
        arguments.names,
        plot=arguments.plot,
        json=arguments.json,
        everything=arguments.all,
        settings=settings,
        plots=arguments.plots,
        save=arguments.save,
    )


def tune(arguments: argparse.Namespace) -> int:
    """Time candidates, see cudamath/tuning.py."""
    from cudamath.tuning import DTYPES, SIZES, convolutions, products

    from .preflight import require_writable_file

    if arguments.device == "cpu":
        raise ValueError("tune: only a GPU has something to tune; got device cpu")
    require_writable_file("tune", arguments.file)
    if arguments.sizes == ["conv2d"]:
        return (
            0
            if convolutions(device=arguments.device, file=arguments.file, seconds=arguments.seconds)
            else 1
        )
    sizes = [
        tuple([int(n) if n.isdecimal() else 0 for n in text.lower().split("x")])
        for text in arguments.sizes
    ]
    dtypes, layouts = arguments.dtype.split(","), arguments.layout.split(",")
    if any(len(size) not in (3, 4) or min(size) < 1 for size in sizes):
        raise ValueError(
            "tune: wants sizes like 4096x4096x4096 or, in a batch, 64x256x256x256, got "
            + " ".join(arguments.sizes)
        )
    if not set(dtypes) <= set(DTYPES) or not set(layouts) <= {"nn", "nt", "tn", "tt"}:
        raise ValueError(
            f"tune: dtypes are {', '.join(DTYPES)} and layouts nn, nt, tn, tt; got "
            f"{arguments.dtype} and "
            f"{arguments.layout}"
        )
    whole = [(1, *size)[-4:] for size in sizes]
    count = products(
        whole or SIZES,  # type: ignore[arg-type]
        dtypes,
        layouts,
        device=arguments.device,
        file=arguments.file,
        seconds=arguments.seconds,
    )
    return 0 if count else 1


def warm_up(arguments: argparse.Namespace) -> int:
    """Compile kernels, see cudamath/warm_up.py."""
    from cudamath import warm_up as warming
    from cudamath.runtime import cubin_cache
    from cudamath.runtime import device as devices

    from .preflight import require_file

    if arguments.workers < 0:
        raise ValueError(f"warm-up: workers must be at least 0, got {arguments.workers}")
    if arguments.functions and arguments.from_program is not None:
        raise ValueError("warm-up: name functions, or a program, not both")
    on_cpu = arguments.device == "cpu" or not (
        arguments.device or arguments.capability or devices.device_count()
    )
    if on_cpu:
        if arguments.from_program is not None:
            raise ValueError(
                "warm-up: programs are rehearsed for a GPU; name one by --capability 9.0, say"
            )
        with warming.progress("compiling for the CPU") as done:
            errors = warming.compile_cpu(arguments.functions, arguments.workers, done)
    else:
        capability = warming.capability_of(arguments.capability, arguments.device)
        if arguments.from_program is None:
            requests = warming.functions(arguments.functions, capability)
        elif arguments.from_program:
            path, *rest = arguments.from_program
            require_file("warm-up", path)
            requests = warming.program(path, rest, capability)
        else:
            raise ValueError("warm-up: --from-program needs the file of a program")
        with warming.progress("compiling kernels") as done:
            errors = warming.compile_all(requests, capability, arguments.workers, done)
    for error in errors:
        print(f"cudamath: warm-up: not compiled: {error}", file=sys.stderr)
    print(f"What was compiled is kept in {cubin_cache.cache_directory()}")
    return 1 if errors else 0


def launch(arguments: argparse.Namespace) -> int:
    """Run a program in several processes, see cudamath/distributed/launch.py."""
    from .distributed import launch as launching
    from .runtime import device as devices

    count = arguments.processes
    if count is None:
        count = max(devices.device_count(), 1)
    what = ["-m", arguments.program] if arguments.module else [arguments.program]
    command = [sys.executable, *what, *arguments.arguments]
    return launching.launch(count, command, port=arguments.port, timeout=arguments.timeout)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0 for success, 1 for a result that is not good, 2 for wrong
    use, 130 if interrupted."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.command == "info":
            return info()
        from .models.command import sample, train

        called = {
            "demo": demo,
            "bench": bench,
            "tune": tune,
            "warm-up": warm_up,
            "train": train,
            "sample": sample,
            "launch": launch,
        }[arguments.command]
        return called(arguments)
    except KeyboardInterrupt:
        print("cudamath: stopped", file=sys.stderr)
        return 130
    except (ImportError, MemoryError, OSError, RuntimeError, ValueError) as error:
        print(f"cudamath: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
