"""Host time of calls of many public functions, beside PyTorch: `python -m benchmarks.host_costs`.

The arrays are so small that the device finishes before the host. The measured time covers checks,
planning, allocation and launch, from the public call to its return. The record goes to
benchmarks/results/<gpu>/host_costs.json; README's table is generated from it.

No other library is imported: some add an audit hook to Python (`sys.addaudithook`; JAX does, by
filelock). The hook costs half a microsecond in every call that inspects Python's frames, as calls
do whose errors name the user's line.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import cudamath as cm
from benchmarks import timer
from benchmarks.host_calls import CALLS, Arguments
from benchmarks.run import RESULTS, environment, folder
from cudamath.timing import Spread, interleave, nothing


def measure(device: str, quick: bool = False, named: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Seconds a call of every function in cudamath and, where it is installed, PyTorch; named: only
    calls whose titles hold one of these texts."""
    libraries, _ = timer.peers(device, "cudamath", "torch")
    synchronize = cm.cuda.synchronize if device != "cpu" else nothing
    measured: dict[str, dict[str, Spread]] = {}
    with cm.device(device):
        arguments = {peer.name: Arguments(peer) for peer in libraries}

        def time(title: str, rounds: int) -> None:
            calls = {
                peer.name: (
                    lambda function=function, peer=peer: function(
                        peer.library, arguments[peer.name]
                    )
                )
                for peer, function in zip(libraries, CALLS[title], strict=False)
            }
            try:
                spreads = interleave(
                    calls,
                    rounds=rounds,
                    seconds=0.004,
                    warm=0.01,
                    most=300,
                    synchronize=synchronize,
                    wait=False,
                )
            except Exception as error:  # the others' figures stand
                print(f"{title} failed: {type(error).__name__}: {error}", flush=True)
                return
            measured[title] = spreads
            print(
                f"{title:40s}"
                + "  ".join(f"{name} {s.median * 1e6:6.2f} us" for name, s in spreads.items()),
                flush=True,
            )

        for title in CALLS:
            if not named or any(text in title for text in named):
                time(title, 3 if quick else 9)
        for title in (
            [] if quick else [title for title, spreads in measured.items() if undecided(spreads)]
        ):
            time(title, 45)
    return [
        {"title": title, **{name: s.median for name, s in spreads.items()}}
        for title, spreads in measured.items()
    ]


def undecided(spreads: Mapping[str, Spread]) -> bool:
    """Whether the two libraries are within a tenth of each other, as far as two short runs differ,
    or ours seems the dearer: such a call is timed again, longer, after all others."""
    medians = [spread.median for spread in spreads.values()]
    return len(medians) > 1 and medians[1] < 1.1 * medians[0]


def main(argv: list[str] | None = None) -> int:
    """Measure, print, and keep the record."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.host_costs", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--device", default=str(cm.default_device()))
    parser.add_argument(
        "--out",
        type=pathlib.Path,
        help="folder for host_costs.json (default: benchmarks/results/...)",
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--calls",
        nargs="+",
        default=(),
        metavar="TEXT",
        help="only calls whose titles hold one of these texts; they are printed, and no record is "
        "kept",
    )
    chosen = parser.parse_args(argv)
    out = chosen.out or RESULTS / folder(chosen.device)
    out.mkdir(parents=True, exist_ok=True)
    calls = measure(chosen.device, chosen.quick, chosen.calls)
    if not chosen.calls:
        (out / "host_costs.json").write_text(
            json.dumps({"calls": calls, **environment(chosen.device)}, indent=1) + "\n"
        )
    behind = [
        each["title"] for each in calls if "torch" in each and each["cudamath"] > each["torch"]
    ]
    print(f"{len(calls)} calls; {len(behind)} dearer than torch's: {', '.join(behind)}")
    return 0 if chosen.calls or len(calls) == len(CALLS) else 1


if __name__ == "__main__":
    sys.exit(main())
