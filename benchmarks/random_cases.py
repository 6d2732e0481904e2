"""Random shapes, this package beside PyTorch on one GPU: what no row of a table was made for.

    python -m benchmarks.random_cases [FAMILY ...] [--seed 1] [--count 12] [--seconds 240]
                                      [--record FILE] [--list]

Each family draws cases of sizes that programs have, and of sizes that nobody chose. A seed gives
the same cases everywhere. Printed are device times (medians of turns in random order, queued behind
a pause so that the host is not seen), their ratio (above 1: ours is faster), and for each family
the geometric mean, quantiles and how many are behind by more than 3 and 10 percent. Results are
compared in float64: an error that exceeds four times the peer's is named. A record in
results/<device>/random_cases.json is what README and the device's page show. How far the planner's
choice is from the best version: `python -m benchmarks.planner --measure`, then --judge.

PyTorch runs as its users tune it: cudnn.benchmark, fused attention, no TF32.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import pathlib
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import cudamath as cm
from benchmarks.planner import quantile
from benchmarks.planner_cases import (
    Case,
    any_shape,
    columns,
    draw_attention,
    draw_conv,
    draw_matmul,
    pick,
    rows,
)
from benchmarks.run import environment

NOISE = 0.3  # microseconds by which nobody is behind
TOLERANCE = {"bfloat16": 2**-7, "float16": 2**-10, "float32": 2e-6, "float64": 1e-14}


class Calls(NamedTuple):
    """The same work by us and by PyTorch; exact: in float64, or None where results are exact."""

    ours: Callable[[], Any]
    peer: Callable[[], Any]
    exact: Callable[[], Any] | None = None


def new(torch: Any, shape: Sequence[int], dtype: str, device: str) -> Any:
    """A random tensor."""
    if "int" in dtype:
        return torch.randint(0, 100, tuple(shape), device=device, dtype=getattr(torch, dtype))
    return torch.randn(tuple(shape), device=device).to(getattr(torch, dtype))


def wide(x: Any) -> Any:
    """In float64, complex numbers in complex128."""
    return x.cdouble() if x.is_complex() else x.double()


# -------------------- families: how a case is drawn, and its calls


def product(case: Case, torch: Any, device: str) -> Calls:
    lead = (case["batch"],) * (case["batch"] > 1)
    m, k, n = case["m"], case["k"], case["n"]
    a = new(torch, (*lead, *((k, m) if case["ta"] else (m, k))), case["dtype"], device)
    b = new(torch, (*lead, *((n, k) if case["tb"] else (k, n))), case["dtype"], device)
    a, b = a.mT if case["ta"] else a, b.mT if case["tb"] else b
    x, y = cm.from_dlpack(a), cm.from_dlpack(b)
    return Calls(lambda: x @ y, lambda: a @ b, lambda: wide(a) @ wide(b))


def convolution(case: Case, torch: Any, device: str) -> Calls:
    order = torch.channels_last if case["last"] else torch.contiguous_format
    shape = (case["co"], case["ci"] // case["groups"], case["kernel"], case["kernel"])
    x = new(torch, (case["n"], case["ci"], *case["size"]), case["dtype"], device)
    w = new(torch, shape, case["dtype"], device) * math.prod(shape[1:]) ** -0.5
    x, w = x.contiguous(memory_format=order), w.contiguous(memory_format=order)
    how = {name: case[name] for name in ("stride", "padding", "dilation", "groups")}
    forward = functools.partial(torch.nn.functional.conv2d, **how)
    ours = functools.partial(cm.ml.conv2d, **how)
    u, v = cm.from_dlpack(x), cm.from_dlpack(w)
    if case["role"] == "forward":
        return Calls(
            lambda: ours(u, v), lambda: forward(x, w), lambda: forward(x.double(), w.double())
        )
    weight = case["role"] == "weight"
    g = torch.randn_like(forward(x, w))
    pull = cm.vjp((lambda v: ours(u, v)) if weight else (lambda u: ours(u, v)), v if weight else u)[
        1
    ]
    h = cm.from_dlpack(g)

    def back(x: Any, w: Any, g: Any) -> Any:
        pairs = ([case[name]] * 2 for name in ("stride", "padding", "dilation"))
        mask = [not weight, weight, False]
        gradients = torch.ops.aten.convolution_backward(
            g, x, w, None, *pairs, False, [0, 0], case["groups"], mask
        )
        return gradients[int(weight)]

    return Calls(
        lambda: pull(h),
        lambda: back(x, w, g),
        lambda: back(x.double(), w.double(), g.double()),
    )


def attention(case: Case, torch: Any, device: str) -> Calls:
    few = case["heads"] // case["shared"]
    q = new(
        torch, (case["batch"], case["heads"], case["queries"], case["depth"]), case["dtype"], device
    )
    k, v = (
        new(torch, (case["batch"], few, case["keys"], case["depth"]), case["dtype"], device)
        for _ in "kv"
    )
    how = {"is_causal": case["causal"], "enable_gqa": case["shared"] > 1}
    forward = functools.partial(torch.nn.functional.scaled_dot_product_attention, **how)
    mine = [cm.from_dlpack(each) for each in (q, k, v)]
    ours = functools.partial(cm.ml.scaled_dot_product_attention, causal=case["causal"])
    if not case["gradient"]:
        return Calls(
            lambda: ours(*mine),
            lambda: forward(q, k, v),
            lambda: forward(q.double(), k.double(), v.double()),
        )
    g = torch.randn_like(q)
    pull, h = cm.vjp(ours, *mine)[1], cm.from_dlpack(g)

    def back(*tensors: Any) -> Callable[[], Any]:
        leaves = [each.detach().requires_grad_() for each in tensors]
        y = forward(*leaves)
        return lambda: torch.autograd.grad(y, leaves, g.to(y.dtype), retain_graph=True)

    return Calls(lambda: pull(h), back(q, k, v), lambda: back(q.double(), k.double(), v.double())())


def draw_norm(draw: random.Random) -> Case:
    n = columns(draw)
    return {
        "kind": draw.choice(("layer_norm", "rms_norm")),
        "shape": (max(1, min(rows(draw), 2**27 // n)), n),
        "dtype": pick(draw, ("bfloat16", 3), ("float32", 2)),
    }


def norm(case: Case, torch: Any, device: str) -> Calls:
    n = case["shape"][1]
    x, w = (new(torch, shape, case["dtype"], device) for shape in (case["shape"], (n,)))
    u, v = cm.from_dlpack(x), cm.from_dlpack(w)
    theirs, ours = getattr(torch.nn.functional, case["kind"]), getattr(cm.ml, case["kind"])
    return Calls(
        lambda: ours(u, (n,), v, eps=1e-5),
        lambda: theirs(x, (n,), w, eps=1e-5),
        lambda: theirs(x.double(), (n,), w.double(), eps=1e-5),
    )


def draw_softmax(draw: random.Random) -> Case:
    n = pick(draw, (draw.choice((10, 50, 198, 1000, 32000, 50257, 128000)), 2), (columns(draw), 3))
    return {
        "kind": pick(draw, ("softmax", 2), ("log_softmax", 1)),
        "shape": (max(1, min(rows(draw), 2**27 // n)), n),
        "axis": pick(draw, (-1, 4), (0, 1)),
        "dtype": pick(draw, ("bfloat16", 1), ("float32", 1)),
    }


def softmax(case: Case, torch: Any, device: str) -> Calls:
    x = new(torch, case["shape"], case["dtype"], device)
    u, axis = cm.from_dlpack(x), case["axis"]
    theirs, ours = getattr(torch, case["kind"]), getattr(cm.ml, case["kind"])
    return Calls(
        lambda: ours(u, axis=axis), lambda: theirs(x, axis), lambda: theirs(x.double(), axis)
    )


REDUCTIONS = {"sum": "sum", "max": "amax", "mean": "mean", "std": "std", "prod": "prod"}


def draw_reduction(draw: random.Random) -> Case:
    shape = any_shape(draw, 14, 26)
    axes = sorted(draw.sample(range(len(shape)), draw.randint(1, len(shape))))
    return {
        "kind": draw.choice([*REDUCTIONS]),
        **{"shape": shape, "axes": axes},
        "dtype": pick(draw, ("float32", 3), ("bfloat16", 2)),
    }


def reduction(case: Case, torch: Any, device: str) -> Calls:
    x = new(torch, case["shape"], case["dtype"], device)
    axes, u = tuple(case["axes"]), cm.from_dlpack(x)

    def theirs(x: Any) -> Any:
        if case["kind"] == "prod":
            for axis in reversed(axes):
                x = x.prod(axis)
            return x
        more = {"correction": 0} if case["kind"] == "std" else {}
        return getattr(x, REDUCTIONS[case["kind"]])(axes, **more)

    ours = getattr(cm, case["kind"])
    return Calls(lambda: ours(u, axis=axes), lambda: theirs(x), lambda: theirs(x.double()))


def draw_scan(draw: random.Random) -> Case:
    shape = any_shape(draw, 12, 24)
    return {
        "kind": draw.choice(("cumsum", "cumsum", "cumprod")),
        **{"shape": shape, "axis": draw.randrange(len(shape))},
        "dtype": pick(draw, ("float32", 3), ("int64", 1), ("int32", 1)),
    }


def scan(case: Case, torch: Any, device: str) -> Calls:
    x, axis = new(torch, case["shape"], case["dtype"], device), case["axis"]
    if case["kind"] == "cumprod":
        x = x * 0 + 1
    u, ours = cm.from_dlpack(x), getattr(cm, case["kind"])
    exact = None if "int" in case["dtype"] else lambda: getattr(x.double(), case["kind"])(axis)
    return Calls(lambda: ours(u, axis=axis), lambda: getattr(x, case["kind"])(axis), exact)


def draw_copy(draw: random.Random) -> Case:
    shape = any_shape(draw, 14, 25)
    order = list(range(len(shape)))
    draw.shuffle(order)
    return {
        "kind": draw.choice(("permute", "flip", "roll", "join", "take")),
        **{"shape": shape, "order": order, "axis": draw.randrange(len(shape))},
        "dtype": pick(draw, ("float32", 2), ("bfloat16", 2), ("int64", 1), ("uint8", 1)),
    }


def copy(case: Case, torch: Any, device: str) -> Calls:
    x, axis, order = new(torch, case["shape"], case["dtype"], device), case["axis"], case["order"]
    index = torch.randint(0, x.shape[axis], (max(1, x.shape[axis] // 2),), device=device)
    u, i = cm.from_dlpack(x), cm.from_dlpack(index)
    ours: dict[str, Callable[[], Any]] = {
        "permute": lambda: cm.ascontiguousarray(u.transpose(order)),
        "flip": lambda: cm.flip(u, axis).copy(),
        "roll": lambda: cm.roll(u, 5, axis),
        "join": lambda: cm.concatenate([u, u], axis),
        "take": lambda: cm.take(u, i, axis=axis),
    }
    theirs: dict[str, Callable[[], Any]] = {
        "permute": lambda: x.permute(order).contiguous(),
        "flip": lambda: x.flip(axis),
        "roll": lambda: x.roll(5, axis),
        "join": lambda: torch.cat([x, x], axis),
        "take": lambda: torch.index_select(x, axis, index),
    }
    return Calls(ours[case["kind"]], theirs[case["kind"]])


FAMILIES: dict[str, tuple[Callable[[random.Random], Case], Callable[[Case, Any, str], Calls]]] = {
    "product": (draw_matmul, product),
    "convolution": (draw_conv, convolution),
    "attention": (draw_attention, attention),
    "norm": (draw_norm, norm),
    "softmax": (draw_softmax, softmax),
    "reduction": (draw_reduction, reduction),
    "scan": (draw_scan, scan),
    "copy": (draw_copy, copy),
}


# -------------------- comparing and timing


def tensors(torch: Any, result: Any) -> list[Any]:
    """What a call returned, as PyTorch's tensors."""
    if isinstance(result, (tuple, list)):
        return [each for part in result for each in tensors(torch, part)]
    if isinstance(result, torch.Tensor):
        return [result.detach()]
    return [torch.from_dlpack(cm.asarray(result))]  # scalars, too


def error(torch: Any, result: Any, other: Any) -> float:
    """The largest difference, by the largest number."""
    worst = 0.0
    for x, y in zip(tensors(torch, result), tensors(torch, other), strict=True):
        if x.shape != y.shape:
            return math.inf
        if x.numel():
            x, y = wide(x), wide(y)
            worst = max(worst, ((x - y).abs().max() / (y.abs().max() + 1e-300)).item())
    return math.inf if math.isnan(worst) else worst


def clocked(
    torch: Any,
    calls: Mapping[str, Callable[[], Any]],
    rounds: int = 7,
    *,
    seconds: float = math.inf,
    own: Mapping[str, Callable[[Callable[[], Any], float], float]] = MappingProxyType({}),
) -> dict[str, float]:
    """Microseconds of device time of each call, medians over turns in random order.

    After so many seconds there are three turns at least. own: how a library is timed that does not
    work in CUDA's default stream: of a call, which takes about so long, the seconds.
    """
    end = time.monotonic() + seconds
    guess: dict[str, float] = {}
    found: dict[str, list[float]] = {name: [] for name in calls}
    for name, call in calls.items():
        call()
        torch.cuda.synchronize()
        began = time.perf_counter()
        call()
        torch.cuda.synchronize()
        guess[name] = time.perf_counter() - began
    for number in range(rounds):
        if number >= 3 and time.monotonic() > end:
            break
        for name in random.Random(number).sample([*calls], len(calls)):
            if name in own:
                found[name].append(1e6 * own[name](calls[name], guess[name]))
                continue
            count = max(2, min(30, round(5e-3 / guess[name])))
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(round(min(6e6, 3e5 + 9e4 * count)))
            start.record()
            for _ in range(count):
                calls[name]()
            stop.record()
            torch.cuda.synchronize()
            found[name].append(1e3 * start.elapsed_time(stop) / count)
    return {name: statistics.median(times) for name, times in found.items()}


def run(family: str, case: Case, torch: Any, device: str = "cuda") -> dict[str, Any]:
    """A case: times where there is a GPU, errors, whether the result is wrong."""
    calls = FAMILIES[family][1](case, torch, device)
    row: dict[str, Any] = {"family": family, "case": case}
    began = time.perf_counter()
    ours = calls.ours()
    cm.cuda.synchronize()
    row["first"] = time.perf_counter() - began
    peer = calls.peer()
    exact = calls.exact() if calls.exact else peer
    row["error"], row["peer_error"] = error(torch, ours, exact), error(torch, peer, exact)
    resolution = TOLERANCE.get(case["dtype"], 2e-6 if calls.exact else 0.0)
    row["wrong"] = row["error"] > 4 * max(row["peer_error"], resolution)
    del ours, peer, exact
    if device != "cpu":
        times = clocked(torch, {"ours": calls.ours, "peer": calls.peer})
        row.update(times, ratio=times["peer"] / times["ours"])
    return row


def behind(row: Mapping[str, Any], share: float) -> bool:
    """Whether ours takes more time than that share of the peer's speed allows, and not by noise."""
    return row["ratio"] < share and row["ours"] - row["peer"] > NOISE


class Standing(NamedTuple):
    """How the cases of a family went: how many, the geometric mean and the quantiles (5, 25, 50,
    75 %) of their ratios, how many are behind by more than 3 and 10 percent, are wrong, failed."""

    cases: int
    mean: float
    quantiles: tuple[float, ...]
    behind_3: int
    behind_10: int
    wrong: int
    failed: int

    @classmethod
    def of(cls, found: Sequence[Mapping[str, Any]]) -> Standing:
        done = [row for row in found if "ratio" in row]
        ratios = [row["ratio"] for row in done]
        return cls(
            len(done),
            math.exp(statistics.fmean(map(math.log, ratios))) if ratios else math.nan,
            tuple(quantile(ratios, q) for q in (0.05, 0.25, 0.5, 0.75)) if ratios else (),
            sum(behind(row, 0.97) for row in done),
            sum(behind(row, 0.9) for row in done),
            sum(row["wrong"] for row in done),
            sum("failed" in row for row in found),
        )


def standings(found: Sequence[Mapping[str, Any]]) -> dict[str, Standing]:
    """Of each family."""
    families = dict.fromkeys(row["family"] for row in found)
    return {f: Standing.of([row for row in found if row["family"] == f]) for f in families}


def summary(found: Sequence[Mapping[str, Any]]) -> str:
    """A line for each family."""
    lines = []
    for family, one in standings(found).items():
        if one.cases:
            quantiles = " ".join(f"{q:.2f}" for q in one.quantiles)
            lines.append(
                f"{family:12s} {one.cases:3d} cases, geometric mean {one.mean:.3f}, "
                f"quantiles 5 25 50 75 %: {quantiles}; behind by 3 %: {one.behind_3}, by 10 %: "
                f"{one.behind_10}; wrong {one.wrong}, failed {one.failed}"
            )
        elif one.failed:
            lines.append(f"{family:12s} failed {one.failed}")
    return "\n".join(lines)


# -------------------- pages


def record(folder: pathlib.Path) -> dict[str, Any] | None:
    """A device's record, if there is one."""
    file = folder / "random_cases.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def highlights(folder: pathlib.Path) -> list[str]:
    """README's line of a device."""
    found = record(folder)
    if not found:
        return []
    whole = Standing.of(found["rows"])
    return [
        f"- **{whole.cases} random cases** of {len(standings(found['rows']))} families, sizes that "
        f"nobody chose, on {found['device'].split(',')[0]} vs PyTorch: {whole.mean:.2f}, the "
        f"geometric mean; {whole.quantiles[0]:.2f} at the 5% quantile; PyTorch is more than 3% "
        f"faster in {whole.behind_3}, more than 10% in {whole.behind_10}."
    ]


def section(folder: pathlib.Path) -> list[str]:
    """The table of a device's page."""
    found = record(folder)
    if not found:
        return []
    lines = [
        "",
        "## Random cases",
        "",
        f"Seed {found['seed']} of `python -m benchmarks.random_cases`, commit "
        f"`{found['commit'][:12]}`, {found['date']}. Speedup on the device vs PyTorch; above 1, "
        "cudamath is faster.",
        "",
        "| family | cases | mean | 5% | 25% | 50% | 75% | behind by 3% | by 10% | wrong |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for family, one in standings(found["rows"]).items():
        if one.cases:
            numbers = [f"{number:.2f}" for number in (one.mean, *one.quantiles)]
            counts = map(str, (one.behind_3, one.behind_10, one.wrong))
            lines.append(f"| {family} | {one.cases} | {' | '.join([*numbers, *counts])} |")
    return lines


def drawn(families: Sequence[str], count: int, seed: int) -> list[tuple[str, Case]]:
    """`count` cases of each family, one of each in turn."""
    draws = {name: random.Random(f"{seed} {name}") for name in families}
    return [(name, FAMILIES[name][0](draws[name])) for _ in range(count) for name in families]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="random shapes beside PyTorch")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=12, help="cases of each family")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    options = parser.parse_args(arguments)
    unknown = {*options.families} - {*FAMILIES}
    if unknown:
        parser.error(f"no family {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    cases = drawn(options.families or [*FAMILIES], options.count, options.seed)
    if options.list:
        for family, case in cases:
            print(family, json.dumps(case))
        return 0
    if not cm.cuda.device_count():
        print("random_cases: no CUDA device", file=sys.stderr)
        return 1
    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    end, found = time.monotonic() + options.seconds, []
    for family, case in cases:
        if time.monotonic() > end:
            break
        torch.manual_seed(0)
        allowed = "tf32" if case.get("tf32") else "highest"
        cm.set_matmul_precision(allowed)
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = allowed == "tf32"
        try:
            row = run(family, case, torch)
            mark = " WRONG" if row["wrong"] else " <" if behind(row, 0.97) else ""
            print(
                f"{row['ratio']:6.2f} {row['ours']:9.1f} us{mark} {family} {json.dumps(case)}",
                flush=True,
            )
        except Exception as problem:
            row = {
                "family": family,
                "case": case,
                "failed": f"{type(problem).__name__}: {problem}"[:300],
            }
            print(f"FAILED {row['failed'][:150]} {family} {json.dumps(case)}", flush=True)
        found.append(row)
        if options.record:
            head = {**environment("cuda:0"), "seed": options.seed}
            rows = ",\n".join(json.dumps(each) for each in found)
            options.record.write_text(f'{json.dumps(head)[:-1]}, "rows": [\n{rows}\n]}}\n')
        cm.cuda.empty_cache()
        torch.cuda.empty_cache()
    print(summary(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
