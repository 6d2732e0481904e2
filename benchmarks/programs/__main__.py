"""Programs written the plain way, beside PyTorch: `python -m benchmarks.programs [names]`.

Each program runs eagerly, by `cm.jit`, and in PyTorch eagerly and by both modes of `torch.compile`,
each in a process of its own. `jit` and `compile` begin with an empty cache, and run once more with
the one that they left, which `eager` and `reduce-overhead` read as well. Where several run at a
time, those on a GPU stand still while one is timed there (turns.py); that does not count among the
seconds of their first calls, but they have fewer cores than alone. Results must agree. The record
goes to benchmarks/results/<device>/programs.json, after each process. What took longest in the
record before begins first.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import math
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.programs import peers
from benchmarks.programs.page import speedup
from benchmarks.programs.turns import Gpu, shares
from benchmarks.run import RESULTS, environment, folder

#: What runs one after the other: (peer, whether the cache is that of the one before). The longest
#: chain begins first.
CHAINS = {
    "compile": (("compile", False), ("reduce-overhead", True), ("compile", True)),
    "ours": (("jit", False), ("jit", True), ("eager", True)),
    "torch": (("torch", False),),
}
#: How far results may be from eager PyTorch's: relative to the largest, by dtype.
NEAR = {"float32": 2e-3, "bfloat16": 5e-2}


class Runs:
    """The processes of all programs: a queue for each GPU, which several share.

    Parameters
    ----------
    chosen : Namespace
        The command's options.
    scratch : Path
        A folder for caches and results.
    file : Path
        The file of the record.
    """

    def __init__(self, chosen: argparse.Namespace, scratch: pathlib.Path, file: pathlib.Path):
        self.chosen, self.scratch, self.file = chosen, scratch, file
        self.until = time.monotonic() + chosen.limit if chosen.limit else math.inf
        self.records: dict[str, dict[str, Any]] = {name: {} for name in chosen.names}
        self.results: dict[str, dict[str, np.ndarray]] = {name: {} for name in chosen.names}
        self.gpus = [Gpu(cores) for cores in shares(chosen.gpus)]
        self.environment = environment(chosen.device)
        self._lock = threading.Lock()  # held while the record changes, or is written

    @contextlib.contextmanager
    def queues(self) -> Iterator[list[concurrent.futures.ThreadPoolExecutor]]:
        """One for each GPU. When the body has failed, what runs is stopped and nothing more
        begins: it would look for files that are gone."""
        pools = [concurrent.futures.ThreadPoolExecutor(self.chosen.jobs) for _ in self.gpus]
        try:
            yield pools
        except BaseException:
            self.until = -math.inf
            for pool in pools:
                pool.shutdown(wait=False, cancel_futures=True)
            for gpu in self.gpus:
                gpu.stop()
            raise
        finally:
            for pool in pools:
                pool.shutdown()

    def chain(self, name: str, kind: str, gpu: int) -> None:
        """Run the peers of a chain."""
        cache = self.scratch / f"cache-{name}-{kind}"
        for peer, again in CHAINS[kind]:
            second = again and "seconds" in self.records[name].get(peer, {})
            if peer in self.chosen.peers and time.monotonic() < self.until:
                record = self.run(name, peer, gpu, cache, timing=not second)
                self.keep(name, peer, record, second)
        shutil.rmtree(cache, ignore_errors=True)

    def run(
        self, name: str, peer: str, gpu: int, cache: pathlib.Path, timing: bool
    ) -> dict[str, Any]:
        """The record of one process."""
        out = self.scratch / f"{name}-{peer}.json"
        out.unlink(missing_ok=True)
        command = [sys.executable, "-m", "benchmarks.programs.peers", name, peer, "--out", str(out)]
        command += ["--device", self.chosen.device]
        command += ["--rounds", str(self.chosen.rounds)] if timing else []
        command += ["--small"] if self.chosen.small else []
        folders = ("CUDAMATH_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
        own = {variable: str(cache / variable.lower()) for variable in folders}
        if self.chosen.device != "cpu":
            own["CUDA_VISIBLE_DEVICES"] = str(gpu)
        log, place = out.with_suffix(".log"), self.gpus[gpu]
        started = time.perf_counter()
        status = place.run(command, {**os.environ, **own}, log, self.until)
        if status is None:
            return {"failed": "cut off at the limit"}
        if status or not out.exists():
            said = log.read_text(errors="replace").strip().splitlines()
            return {"failed": "\n".join(said[-12:])[-1500:] or f"exit status {status}"}
        record = json.loads(out.read_text())
        began = record.pop("began")
        called = began + record["first_call"]
        record["first_call"] -= place.paused(began, called)
        record["ready"] = called - started - place.paused(started, called)
        return record

    def keep(self, name: str, peer: str, record: dict[str, Any], second: bool) -> None:
        """Add a record, say it, compare its results, and write all."""
        with self._lock:
            if second:
                self.records[name][peer]["second"] = record
            else:
                self.records[name][peer] = record
                if "seconds" in record:
                    self.results[name][peer] = np.load(self.scratch / f"{name}-{peer}.npy")
                self.compare(name)
            figures = {k: round(v, 6) if isinstance(v, float) else v for k, v in record.items()}
            print(name, peer, "again" if second else "", json.dumps(figures), flush=True)
            shared = {
                "gpus": self.chosen.gpus,
                "jobs": self.chosen.jobs,
                "cores": os.cpu_count(),
            }
            whole = {"programs": self.records, "shared": shared, **self.environment}
            new = self.file.with_suffix(".new")
            new.write_text(json.dumps(whole, indent=1) + "\n")
            new.replace(self.file)

    def compare(self, name: str) -> None:
        """Note how far a program's results are from eager PyTorch's, or ours without it: the
        largest difference over the largest number. Nothing where none of these has run."""
        kept = self.results[name]
        base = next((kept[peer] for peer in ("torch", "eager", "jit") if peer in kept), None)
        for peer, found in kept.items():
            if base is not None:
                differs = float(np.abs(found - base).max() / np.abs(base).max())
                self.records[name][peer]["differs"] = differs


def longest_first(names: list[str], file: pathlib.Path) -> dict[str, list[str]]:
    """For each chain the programs in the order in which they begin: those that took longest in the
    record of a file; before them those that have no whole record there."""
    known = json.loads(file.read_text())["programs"] if file.is_file() else {}

    def spent(name: str, chain: Iterable[tuple[str, bool]]) -> float:
        records = [known.get(name, {}).get(peer, {}) for peer, _ in chain]
        return sum([record.get("ready", math.inf) for record in records])

    return {
        kind: sorted(names, key=lambda name: -spent(name, chain)) for kind, chain in CHAINS.items()
    }


def summary(records: dict[str, dict[str, Any]], known: dict[str, Any]) -> list[str]:
    """A line for each program: our time over the fastest of PyTorch's, and what went wrong."""
    lines, ratios = [], []
    for name, record in records.items():
        line = f"{name:16}"
        for peer in peers.PEERS:
            figure = record.get(peer, {}).get("seconds")
            line += f" {peer} " + (f"{figure * 1e3:.3f} ms" if figure else "-")
        ratio = speedup(record)
        if ratio is not None:
            ratios.append(ratio)
            line += f"  {ratio:.2f}"
        lines.append(line)
        near = NEAR[known[name][1].dtype]
        for peer, one in record.items():
            if not one.get("differs", 0.0) <= near:
                lines.append(f"  {peer} differs by {one['differs']:.2g}, {near:g} allowed")
            if "failed" in one:
                lines.append(f"  {peer} failed: {one['failed'].splitlines()[-1]}")
    if ratios:
        lines.append(
            f"geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}"
        )
    return lines


def main(argv: Iterable[str] | None = None) -> int:
    """Run the programs, and keep the record."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.programs", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("names", nargs="*", help="programs; all by default")
    parser.add_argument("--peers", default=",".join(peers.PEERS), help="with commas between")
    parser.add_argument("--rounds", type=int, default=9, help="timed rounds of each")
    parser.add_argument("--small", action="store_true", help="the sizes for a CPU")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--gpus", type=int, default=1, help="the programs are spread over them")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time on each")
    parser.add_argument("--limit", type=float, help="seconds, after which nothing more runs")
    parser.add_argument("--out", type=pathlib.Path, help="folder for programs.json")
    chosen = parser.parse_args(None if argv is None else list(argv))
    known = peers.small() if chosen.small else peers.cases()
    chosen.names, chosen.peers = chosen.names or list(known), chosen.peers.split(",")
    unknown = [*{*chosen.names} - {*known}, *{*chosen.peers} - {*peers.PEERS}]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; programs: {', '.join(known)}")
    out = chosen.out or RESULTS / folder(chosen.device)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "programs.json"
    order = longest_first(chosen.names, file if file.is_file() else RESULTS / out.name / file.name)
    with tempfile.TemporaryDirectory() as scratch:
        runs = Runs(chosen, pathlib.Path(scratch), file)
        with runs.queues() as queues:
            waiting = [
                queues[i % chosen.gpus].submit(runs.chain, name, kind, i % chosen.gpus)
                for kind, names in order.items()
                for i, name in enumerate(names)
            ]
            for one in concurrent.futures.as_completed(waiting):
                one.result()
    lines = summary(runs.records, known)
    print("\n".join(lines))
    return any([line.startswith("  ") for line in lines])


if __name__ == "__main__":
    sys.exit(main())
