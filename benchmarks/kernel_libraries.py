"""This package beside libraries of kernels for one purpose: FlashAttention 4 and cuDNN
(attention), QuACK (norms, softmax, losses), cuBLASLt (products of float8), in one process.

    python -m benchmarks.kernel_libraries [FAMILY ...] [--seconds 300] [--record FILE] [--list]

Printed are device times (medians of turns in random order, see random_cases.py), and the ratio of
the fastest other library to ours (above 1: ours is faster). FlashAttention's gradient has two
modes, and only one gives the same bits every time, as ours does: both are there, the faster one
counts. A library that is not installed, or refuses a case, is named and left out. Errors are those
beside float64, where that fits into memory, else beside the fastest other library.
"""

from __future__ import annotations

import argparse
import functools
import json
import pathlib
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import cudamath as cm
from benchmarks.random_cases import TOLERANCE, behind, clocked, error, summary, wide

Case = dict[str, Any]
Call = Callable[[], Any]
TOKENS, WIDTH = 16384, 2048
ELEMENTS = 2**27  # of a matrix of rows
EXACT = 4096  # queries of which float64 is computed


class Beside(NamedTuple):
    """The same work by us and by others, by name. `part` of a result is compared with `exact`;
    `views` bring results of others into our order of axes."""

    ours: Call
    others: dict[str, Call]
    exact: Call | None
    part: Callable[[Any], Any] = lambda result: result
    views: Mapping[str, Callable[[Any], Any]] = {}


def gradients(torch: Any, function: Callable, leaves: Sequence[Any], upstream: Any) -> Call:
    """The gradients of a function of PyTorch's, whose forward pass has run."""
    leaves = [each.detach().requires_grad_() for each in leaves]
    y = function(*leaves)
    y = y[0] if isinstance(y, tuple) else y
    return lambda: torch.autograd.grad(y, leaves, upstream.to(y.dtype), retain_graph=True)


def attempts(torch: Any, calls: Mapping[str, Callable[[], Call]]) -> tuple[dict[str, Call], dict]:
    """(the calls that can be made and run, what the others say)."""
    able, refused = {}, {}
    for name, prepare in calls.items():
        try:
            call = prepare()
            call()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            able[name] = call
        except Exception as problem:
            refused[name] = f"{type(problem).__name__}: {problem}"[:200]
    return able, refused


# -------------------- attention


def attention_cases() -> Iterator[Case]:
    for depth in (64, 128):
        for causal in (False, True):
            for shared in (1, 4):
                for gradient in (False, True):
                    for length in (1024, 2048, 4096, 8192, 16384):
                        yield {
                            **{"depth": depth, "causal": causal, "shared": shared},
                            **{"gradient": gradient, "length": length, "dtype": "bfloat16"},
                        }


def attention(case: Case, torch: Any, device: str) -> tuple[Beside, dict]:
    """16,384 tokens of 2,048 numbers. Each library reads the order of axes that it prefers."""
    length, depth, shared = case["length"], case["depth"], case["shared"]
    heads, batch = max(WIDTH // depth, shared), max(TOKENS // length, 1)
    heads, batch = case.get("heads", heads), case.get("batch", batch)
    dtype = getattr(torch, case["dtype"])
    q, k, v, g = (
        torch.randn(batch, n, length, depth, device=device).to(dtype)
        for n in (heads, heads // shared, heads // shared, heads)
    )
    mine = [cm.from_dlpack(each) for each in (q, k, v)]
    ours = functools.partial(cm.ml.scaled_dot_product_attention, causal=case["causal"])
    if case["gradient"]:
        pull, upstream = cm.vjp(ours, *mine)[1], cm.from_dlpack(g)
        run = functools.partial(pull, upstream)
    else:
        run = functools.partial(ours, *mine)

    def flash(deterministic: bool) -> Call:
        from flash_attn.cute import flash_attn_func

        rows = [each.transpose(1, 2).contiguous() for each in (q, k, v, g)]
        how = {"causal": case["causal"], "deterministic": deterministic}
        forward = functools.partial(flash_attn_func, **how)
        if case["gradient"]:
            return gradients(torch, forward, rows[:3], rows[3])
        return lambda: forward(*rows[:3])

    def by_heads(result: Any) -> Any:
        found = result if case["gradient"] else result[0] if isinstance(result, tuple) else result
        many = found if isinstance(found, (tuple, list)) else [found]
        return [each.transpose(1, 2) for each in many]

    ways: dict[str, Callable[[], Call]] = {"flash": lambda: flash(False)}
    if case["gradient"]:
        ways["flash, deterministic"] = lambda: flash(True)
    ways["cudnn"] = lambda: cudnn_attention(case, torch, q, k, v, g)
    others, refused = attempts(torch, ways)
    views = {name: by_heads for name in others if name.startswith("flash")}

    def part(result: Any) -> Any:
        """Of the first group of heads."""
        many = result if isinstance(result, (tuple, list)) else [result]
        counts = (shared, 1, 1) if case["gradient"] else (shared,)
        return [each[:1, :n] for each, n in zip(many, counts, strict=True)]

    def exact() -> Any:
        few = [wide(each[:1, :n]) for each, n in ((q, shared), (k, 1), (v, 1), (g, shared))]
        forward = functools.partial(
            torch.nn.functional.scaled_dot_product_attention,
            is_causal=case["causal"],
            enable_gqa=shared > 1,
        )
        return (
            gradients(torch, forward, few[:3], few[3])() if case["gradient"] else forward(*few[:3])
        )

    return Beside(run, others, exact if length <= EXACT else None, part, views), refused


def cudnn_attention(case: Case, torch: Any, q: Any, k: Any, v: Any, g: Any) -> Call:
    """cuDNN's own graph of attention, its gradient by the deterministic algorithm."""
    import cudnn

    kind = {torch.bfloat16: cudnn.data_type.BFLOAT16, torch.float16: cudnn.data_type.HALF}[q.dtype]
    scale = q.shape[-1] ** -0.5
    handle = cudnn.create_handle()
    cudnn.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)

    def graph() -> Any:
        return cudnn.pygraph(
            io_data_type=kind,
            intermediate_data_type=cudnn.data_type.FLOAT,
            compute_data_type=cudnn.data_type.FLOAT,
            handle=handle,
        )

    def built(made: Any, tensors: dict, results: list) -> Call:
        made.build([cudnn.heur_mode.A])
        space = torch.empty(max(made.get_workspace_size(), 1), device=q.device, dtype=torch.uint8)
        return lambda: (made.execute(tensors, space, handle=handle), results)[1]

    forward = graph()
    a, b, c = (forward.tensor_like(each) for each in (q, k, v))
    y, stats = forward.sdpa(
        name="attention",
        **{"q": a, "k": b, "v": c, "attn_scale": scale, "use_causal_mask": case["causal"]},
        is_inference=not case["gradient"],
    )
    out = torch.empty_like(q)
    y.set_output(True).set_dim(q.shape).set_stride(out.stride())
    held = {a: q, b: k, c: v, y: out}
    if not case["gradient"]:
        return built(forward, held, [out])
    sums = torch.empty(*q.shape[:3], 1, device=q.device, dtype=torch.float32)
    stats.set_output(True).set_data_type(cudnn.data_type.FLOAT)
    stats.set_dim(sums.shape).set_stride(sums.stride())
    built(forward, {**held, stats: sums}, [])()
    backward = graph()
    names = {"q": q, "k": k, "v": v, "o": out, "dO": g, "stats": sums}
    given = {name: backward.tensor_like(each) for name, each in names.items()}
    found = backward.sdpa_backward(
        name="gradient",
        **{**given, "attn_scale": scale, "use_causal_mask": case["causal"]},
        use_deterministic_algorithm=True,
    )
    held = {given[name]: each for name, each in names.items()}
    results = [torch.empty_like(each) for each in (q, k, v)]
    for result, tensor in zip(found, results, strict=True):
        held[result] = tensor
        result.set_output(True).set_dim(tensor.shape).set_stride(tensor.stride())
    return built(backward, held, results)


# -------------------- rows


def rows_cases(*kinds: str) -> Callable[[], Iterator[Case]]:
    def cases() -> Iterator[Case]:
        for kind in kinds:
            for power in range(10, 19):
                n = 2**power
                for dtype in ("bfloat16", "float32") if "gradient" not in kind else ("bfloat16",):
                    yield {"kind": kind, "shape": (ELEMENTS // n, n), "dtype": dtype}

    return cases


def rms_norm(case: Case, torch: Any, device: str) -> tuple[Beside, dict]:
    n = case["shape"][1]
    x, g = (
        torch.randn(case["shape"], device=device).to(getattr(torch, case["dtype"])) for _ in "xg"
    )
    weight = torch.randn(n, device=device)
    u, w, upstream = (cm.from_dlpack(each) for each in (x, weight, g))
    ours = lambda u, w: cm.ml.rms_norm(u, (n,), w.astype(u.dtype), eps=1e-6)  # noqa: E731

    def theirs(x: Any, weight: Any) -> Any:
        return torch.nn.functional.rms_norm(x, (n,), weight, eps=1e-6)

    def quack() -> Callable:
        from quack import rmsnorm

        return lambda x, weight: rmsnorm(x, weight, eps=1e-6)

    def doubled() -> tuple:
        return x.double(), weight.to(x.dtype).double()

    if "gradient" in case["kind"]:
        pull = cm.vjp(ours, u, w)[1]
        ways = {"quack": lambda: gradients(torch, quack(), (x, weight), g)}
        others, refused = attempts(torch, ways)
        exact = lambda: gradients(torch, theirs, doubled(), g.double())()  # noqa: E731
        return Beside(lambda: pull(upstream), others, exact), refused
    others, refused = attempts(torch, {"quack": lambda: functools.partial(quack(), x, weight)})
    return Beside(lambda: ours(u, w), others, lambda: theirs(*doubled())), refused


def softmax(case: Case, torch: Any, device: str) -> tuple[Beside, dict]:
    x, g = (
        torch.randn(case["shape"], device=device).to(getattr(torch, case["dtype"])) for _ in "xg"
    )
    u, upstream = cm.from_dlpack(x), cm.from_dlpack(g)

    def theirs(x: Any) -> Any:
        return torch.softmax(x, -1)

    def quack() -> Callable:
        from quack import softmax

        return softmax

    if "gradient" in case["kind"]:
        pull = cm.vjp(cm.ml.softmax, u)[1]
        ways = {"quack": lambda: gradients(torch, quack(), (x,), g)}
        others, refused = attempts(torch, ways)
        exact = lambda: gradients(torch, theirs, (x.double(),), g.double())()  # noqa: E731
        return Beside(lambda: pull(upstream), others, exact), refused
    others, refused = attempts(torch, {"quack": lambda: functools.partial(quack(), x)})
    return Beside(lambda: cm.ml.softmax(u), others, lambda: theirs(x.double())), refused


def cross_entropy(case: Case, torch: Any, device: str) -> tuple[Beside, dict]:
    """The loss and its gradient, in one call."""
    m, n = case["shape"]
    x = torch.randn(m, n, device=device).to(getattr(torch, case["dtype"]))
    target = torch.randint(0, n, (m,), device=device)
    u, t = cm.from_dlpack(x), cm.from_dlpack(target)
    step = cm.value_and_grad(lambda u: cm.ml.cross_entropy(u, t))

    def both(function: Callable, x: Any) -> Call:
        leaf = x.detach().requires_grad_()

        def call() -> Any:
            loss = function(leaf, target)
            return [loss.detach(), *torch.autograd.grad(loss, leaf)]

        return call

    def quack() -> Call:
        from quack import cross_entropy

        return both(functools.partial(cross_entropy, reduction="mean"), x)

    others, refused = attempts(torch, {"quack": quack})
    exact = both(torch.nn.functional.cross_entropy, x.double())
    return Beside(lambda: list(step(u)), others, exact), refused


# -------------------- products of float8


def float8_cases() -> Iterator[Case]:
    for m, k, n in ((8192, 8192, 8192), (4096, 4096, 4096), (8192, 4096, 14336), (128, 8192, 8192)):
        for scales in ("tensor", "rows"):
            yield {"m": m, "k": k, "n": n, "scales": scales, "dtype": "bfloat16"}


def float8(case: Case, torch: Any, device: str) -> tuple[Beside, dict]:
    m, k, n = (case[name] for name in "mkn")
    kind = torch.float8_e4m3fn
    a, b = torch.randn(m, k, device=device).to(kind), torch.randn(n, k, device=device).to(kind)
    rows = case["scales"] == "rows"
    s, t = (torch.rand((size, 1) if rows else (), device=device) + 0.5 for size in (m, n))
    u, v = (cm.from_dlpack(each.view(torch.uint8)).view("float8_e4m3") for each in (a, b))
    mine = [cm.from_dlpack(each.reshape(-1) if rows else each) for each in (s, t)]

    def lt() -> Call:
        how = {
            "scale_a": s,
            "scale_b": t.reshape(1, -1) if rows else t,
            "out_dtype": torch.bfloat16,
        }
        return lambda: torch._scaled_mm(a, b.t(), **how)

    others, refused = attempts(torch, {"cublaslt": lt})

    def exact() -> Any:
        product = a.float().double() @ b.float().double().t()
        return product * s.double() * (t.double().reshape(1, -1) if rows else t.double())

    run = functools.partial(cm.ml.scaled_matmul, u, v.T, *mine)
    return Beside(run, others, exact), refused


Family = tuple[Callable[[], Iterator[Case]], Callable[[Case, Any, str], tuple[Beside, dict]]]
FAMILIES: dict[str, Family] = {
    "attention": (attention_cases, attention),
    "rms_norm": (rows_cases("rms_norm", "rms_norm gradient"), rms_norm),
    "softmax": (rows_cases("softmax", "softmax gradient"), softmax),
    "cross_entropy": (rows_cases("loss and gradient"), cross_entropy),
    "float8": (float8_cases, float8),
}


def run(family: str, case: Case, torch: Any, device: str = "cuda") -> dict[str, Any]:
    """A case: times where there is a GPU, errors, whether the result is wrong, who is missing."""
    beside, refused = FAMILIES[family][1](case, torch, device)
    row: dict[str, Any] = {"family": family, "case": case, "missing": refused}
    theirs = {
        name: beside.part(beside.views.get(name, lambda result: result)(call()))
        for name, call in beside.others.items()
    }
    if beside.exact is None and not theirs:
        raise ValueError(f"{family}: nothing to compare with; missing: {refused}")
    ours = beside.part(beside.ours())
    exact = beside.exact() if beside.exact else next(iter(theirs.values()))
    row["error"] = error(torch, ours, exact)
    row["peer_errors"] = {name: error(torch, found, exact) for name, found in theirs.items()}
    resolution = TOLERANCE[case["dtype"]]
    row["wrong"] = row["error"] > 4 * max([resolution, *row["peer_errors"].values()])
    del ours, theirs, exact
    if device != "cpu" and beside.others:
        times = clocked(torch, {"ours": beside.ours, **beside.others})
        row["times"] = times
        row["ours"], row["peer"] = times["ours"], min(times[name] for name in beside.others)
        row["ratio"] = row["peer"] / row["ours"]
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="beside FlashAttention 4, cuDNN, QuACK, cuBLASLt")
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    options = parser.parse_args(arguments)
    unknown = {*options.families} - {*FAMILIES}
    if unknown:
        parser.error(f"no family {', '.join(sorted(unknown))}; there are {', '.join(FAMILIES)}")
    cases = [(name, case) for name in options.families or FAMILIES for case in FAMILIES[name][0]()]
    random.Random(0).shuffle(cases)  # what there is time for is a sample of all
    if options.list:
        for family, case in cases:
            print(family, json.dumps(case))
        return 0
    if not cm.cuda.device_count():
        print("kernel_libraries: no CUDA device", file=sys.stderr)
        return 1
    import torch

    end, found = time.monotonic() + options.seconds, []
    for family, case in cases:
        if time.monotonic() > end:
            print(f"stopped after {len(found)} of {len(cases)} cases: no time is left")
            break
        torch.manual_seed(0)
        try:
            row = run(family, case, torch)
        except Exception as problem:
            words = f"{type(problem).__name__}: {problem}"[:300]
            row = {"family": family, "case": case, "failed": words}
        print(line(row), flush=True)
        found.append(row)
        if options.record:
            options.record.write_text(json.dumps(found, indent=0) + "\n")
        cm.cuda.empty_cache()
        torch.cuda.empty_cache()
    print(summary(found))
    return 0


def line(row: Mapping[str, Any]) -> str:
    """What is printed of a case."""
    what = f"{row['family']} {json.dumps(row['case'])}"
    if "failed" in row:
        return f"FAILED {row['failed'][:150]} {what}"
    missing = "".join(f"; {name}: {words[:80]}" for name, words in row["missing"].items())
    if "ratio" not in row:
        return f"  none {what}{missing}"
    mark = " WRONG" if row["wrong"] else " <" if behind(row, 0.97) else ""
    times = ", ".join(f"{name} {time:.1f}" for name, time in row["times"].items())
    return f"{row['ratio']:6.2f}{mark} us: {times} {what}{missing}"


if __name__ == "__main__":
    sys.exit(main())
