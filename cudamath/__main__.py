"""python -m cudamath info | demo | bench"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m cudamath", description="NumPy on your GPU: see what it does here.")
    commands = top.add_subparsers(dest="command", required=True, metavar="info | demo | bench")

    commands.add_parser("info", help="devices, libraries and versions; what is missing and what brings it")

    demo = commands.add_parser("demo", help="compare operations with NumPy and train a small network")
    demo.add_argument("--device", help="cpu, cuda, cuda:1, ... (default: the first GPU, else the CPU)")
    demo.add_argument("--epochs", type=int, default=20, help="passes over the training images (default: 20)")
    demo.add_argument("--out", default="demo-output", help="folder for the picture (default: demo-output)")
    demo.add_argument("--json", help="write the figures to this file")

    bench = commands.add_parser("bench", help="time operations beside the libraries installed here")
    bench.add_argument("names", nargs="*", metavar="NAME",
                       help="rows whose name contains one of these, e.g. matmul conv2d; none: list them")
    bench.add_argument("--plot", help="write a chart to this PNG file")
    bench.add_argument("--json", help="write the figures to this file")
    return top


def info() -> int:
    """Print the tables of cudamath/info.py."""
    from rich.console import Console

    from cudamath.info import device_sentence, tables

    console = Console(highlight=False)
    console.print(f"cudamath uses  {device_sentence()}", markup=False)
    for table in tables():
        console.print()
        console.print(table)
    return 0


def demo(arguments: argparse.Namespace) -> int:
    """Run the demo."""
    from cudamath.demo import run

    good = run(device=arguments.device, epochs=arguments.epochs, out=arguments.out, json=arguments.json)
    return 0 if good else 1


def bench(arguments: argparse.Namespace) -> int:
    """Run rows of benchmarks/, which lies beside the package in a source tree."""
    tree = pathlib.Path(__file__).resolve().parents[1]
    if not (tree / "benchmarks" / "run.py").is_file():
        raise FileNotFoundError(f"bench: {tree / 'benchmarks'} is not there; it comes with the source tree, "
                                "not with the installed package")
    sys.path.insert(0, str(tree))
    from benchmarks.run import command

    return command(arguments.names, plot=arguments.plot, json=arguments.json)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0 for success, 1 for a result that is not good, 2 for wrong use."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.command == "info":
            return info()
        return demo(arguments) if arguments.command == "demo" else bench(arguments)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"cudamath: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
