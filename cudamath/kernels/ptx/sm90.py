"""PTX of SM 9.0: barriers in shared memory, the tensor memory accelerator (TMA),
wgmma.

TMA. One thread requests a box of a tensor; the hardware computes addresses, fills what lies outside
with zeros, swizzles, and counts the bytes at a barrier. The tensor is described by a *tensor map*
in global memory (core/dispatch/plan.py's `TensorMap`), of which a kernel receives the address.
Coordinates are in elements, innermost dimension first. A store is a box on its way back; what lies
outside is dropped.

Barriers (mbarrier). A 64-bit word in shared memory that counts arrivals and bytes. Each completion
flips its phase: to wait for the first completion wait for parity 0, for the second for parity 1,
and so on in turn. A wait can tell a phase only from the next one: no thread may be two phases
ahead.

wgmma. A *warpgroup* (4 warps, 128 threads) multiplies a 64 x k tile of A by a k x n tile of B, both
read from shared memory through descriptors (kernels/lib/tma_pipeline.py makes them), or A from
registers. Thread t holds of the 64 x n result, in registers 4 j .. 4 j + 3, columns 8 j + 2 (t %
4), + 1 of row r = 16 (t / 32) + t % 32 / 4, and the same of row r + 8. It runs asynchronously:
fence, a group of instructions, commit, wait. The intrinsics carry the accumulators through, so that
neither compiler moves a use of them above the wait.

All shared addresses are 32-bit ones (`shared_address` in sm80.py).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..compiler.lazy_numba import types
from .intrinsics import Registers, array_instruction, instruction

i32, i64, f32 = types.int32, types.int64, types.float32


def _action(name: str, assembly: str, arguments: tuple, doc: str, convergent: bool = False) -> Any:
    """An instruction with effects and no result."""
    return instruction(name, assembly, None, arguments, doc, pure=False, convergent=convergent)


# -------------------- barriers

barrier_init = _action(
    "barrier_init",
    "mbarrier.init.shared::cta.b64 [$0], $1;",
    (i32, i32),
    "A barrier that completes after this many arrivals (and the bytes expected).",
)
barrier_expect = _action(
    "barrier_expect",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;",
    (i32, i32),
    "Arrive, and let the barrier's phase wait for this many bytes as well.",
)
barrier_arrive = _action(
    "barrier_arrive", "mbarrier.arrive.shared::cta.b64 _, [$0];", (i32,), "Arrive."
)
barrier_arrive_at = _action(
    "barrier_arrive_at",
    "{ .reg .b32 a; mapa.shared::cluster.u32 a, $0, $1; "
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [a]; }",
    (i32, i32),
    "Arrive at the barrier that lies at this address in the block of that rank of the cluster.",
)
barrier_wait = _action(
    "barrier_wait",
    "{\n.reg .pred p;\nagain: mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;\n@p bra done;\n"
    "bra again;\ndone:\n}",
    (i32, i32),
    "Wait until the phase of this parity (0, 1) is complete.",
)
barrier_wait_cluster = _action(
    "barrier_wait_cluster",
    "{\n.reg .pred p;\nagain: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [$0], "
    "$1;\n"
    "@p bra done;\nbra again;\ndone:\n}",
    (i32, i32),
    "As barrier_wait, where other blocks of the cluster arrive.",
)
fence_barrier_init = _action(
    "fence_barrier_init",
    "fence.mbarrier_init.release.cluster;",
    (),
    "Barriers just initialised are seen by the cluster and by TMA.",
)
fence_async_shared = _action(
    "fence_async_shared",
    "fence.proxy.async.shared::cta;",
    (),
    "What this thread wrote to shared memory is seen by TMA and wgmma.",
)
fence_async = _action(
    "fence_async",
    "fence.proxy.async;",
    (),
    "What this thread wrote anywhere is seen by TMA and wgmma.",
)
named_sync = _action(
    "named_sync",
    "bar.sync $0, $1;",
    (i32, i32),
    "Wait at named barrier `id` (1 to 15) for `threads` threads in all.",
    convergent=True,
)
named_arrive = _action(
    "named_arrive",
    "bar.arrive $0, $1;",
    (i32, i32),
    "Count at named barrier `id` without waiting.",
    convergent=True,
)
cluster_rank = instruction(
    "cluster_rank",
    "mov.u32 $0, %cluster_ctarank;",
    i32,
    (),
    "Rank of this block in its cluster.",
    pure=False,
)
load_cluster_float_4 = instruction(
    "load_cluster_float_4",
    "{ .reg .b32 a; mapa.shared::cluster.u32 a, $4, $5; ld.shared::cluster.v4.f32 {$0, $1, $2, "
    "$3}, "
    "[a]; }",
    (f32,) * 4,
    (i32, i32),
    "Four float32 at this shared address in the block of that rank of the cluster.",
    pure=False,
)
copy_cluster_word = _action(
    "copy_cluster_word",
    "{ .reg .b32 a, v; mapa.shared::cluster.u32 a, $1, $2; ld.shared::cluster.u32 v, [a]; "
    "st.shared.u32 [$0], v; }",
    (i32, i32, i32),
    "(shared address, shared address, rank): 32 bits at the second one in the block of that rank "
    "of the cluster go to the first one here.",
)
cluster_sync = _action(
    "cluster_sync",
    "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;",
    (),
    "All threads of the cluster meet.",
    convergent=True,
)


@functools.cache
def registers_up(count: int) -> Any:
    """An intrinsic: this warpgroup takes `count` registers a thread (a multiple of 8). The sum over
    all threads of the block must stay within 65,536, or the kernel hangs."""
    return _action(
        f"registers_up_{count}",
        f"setmaxnreg.inc.sync.aligned.u32 {count};",
        (),
        f"{count} registers a thread from here on.",
        convergent=True,
    )


@functools.cache
def registers_down(count: int) -> Any:
    """An intrinsic: this warpgroup gives back all but `count` registers a thread (a multiple of 8,
    at least 24)."""
    return _action(
        f"registers_down_{count}",
        f"setmaxnreg.dec.sync.aligned.u32 {count};",
        (),
        f"{count} registers a thread from here on.",
        convergent=True,
    )


# -------------------- kernels that follow each other

let_next_begin = _action(
    "let_next_begin",
    "griddepcontrol.launch_dependents;",
    (),
    "The next kernel of the stream may be given the multiprocessors that this one leaves, once "
    "all blocks "
    "have said so; if it is launched early, else nothing happens.",
)
wait_for_previous = _action(
    "wait_for_previous",
    "griddepcontrol.wait;",
    (),
    "Wait until the kernels ahead have ended and what they wrote is seen. A kernel that is "
    "launched "
    "early (core/dispatch/plan.py) does so in all its threads, before it touches global memory.",
)


# -------------------- TMA


def _coordinates(first: int, rank: int) -> str:
    return "{" + ", ".join(f"${first + i}" for i in range(rank)) + "}"


def _tma_load(rank: int) -> Any:
    return _action(
        f"tma_load_{rank}d",
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[$0], [$1, {_coordinates(2, rank)}], [${2 + rank}];",
        (i32, i64, *[i32] * rank, i32),
        f"(shared address, map, {rank} coordinates, barrier): a box of a {rank}-d tensor into "
        "shared memory.",
    )


def _tma_load_multicast(rank: int) -> Any:
    return _action(
        f"tma_load_{rank}d_multicast",
        f"{{ .reg .b16 m; cvt.u16.u32 m, ${3 + rank}; cp.async.bulk.tensor.{rank}d"
        ".shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        f"[$0], [$1, {_coordinates(2, rank)}], [${2 + rank}], m; }}",
        (i32, i64, *[i32] * rank, i32, i32),
        f"(shared address, map, {rank} coordinates, barrier, mask): a box into every block of the "
        "cluster whose "
        "bit is set, at the same address; each block's own barrier counts the bytes.",
    )


def _tma_load_im2col(rank: int) -> Any:
    offsets = rank - 2
    names = [f"o{i}" for i in range(offsets)]
    convert = " ".join(f"cvt.u16.u32 {name}, ${3 + rank + i};" for i, name in enumerate(names))
    return _action(
        f"tma_load_im2col_{rank}d",
        f"{{ .reg .b16 {', '.join(names)}; {convert}\ncp.async.bulk.tensor.{rank}d"
        ".shared::cluster.global.im2col.mbarrier::complete_tx::bytes [$0], [$1, "
        f"{_coordinates(2, rank)}], "
        f"[${2 + rank}], {{{', '.join(names)}}}; }}",
        (i32, i64, *[i32] * rank, i32, *[i32] * offsets),
        f"(shared address, map, {rank} coordinates, barrier, {offsets} offsets): channels of "
        "consecutive pixels; "
        "coordinates (channel, .. w, h, .. image) are absolute, offsets are the filter's, "
        "innermost first.",
    )


def _tma_store(rank: int, add: bool) -> Any:
    verb, how = ("reduce", ".add") if add else ("async", "")
    text = "cp.reduce.async.bulk" if add else "cp.async.bulk"
    return _action(
        f"tma_{'add' if add else 'store'}_{rank}d",
        f"{text}.tensor.{rank}d.global.shared::cta{how}.tile.bulk_group [$0, "
        f"{_coordinates(1, rank)}], "
        f"[${1 + rank}];",
        (i64, *[i32] * rank, i32),
        f"(map, {rank} coordinates, shared address): a box of shared memory "
        f"{'added to' if add else 'into'} a "
        f"{rank}-d tensor ({verb}); bulk_commit and bulk_wait follow.",
    )


tma_load_2d, tma_load_3d, tma_load_4d, tma_load_5d = map(_tma_load, (2, 3, 4, 5))
tma_load_2d_multicast, tma_load_3d_multicast = map(_tma_load_multicast, (2, 3))
tma_load_im2col_3d, tma_load_im2col_4d, tma_load_im2col_5d = map(_tma_load_im2col, (3, 4, 5))
tma_store_2d, tma_store_3d, tma_store_4d, tma_store_5d = (
    _tma_store(rank, False) for rank in (2, 3, 4, 5)
)
tma_add_2d, tma_add_3d, tma_add_4d, tma_add_5d = (_tma_store(rank, True) for rank in (2, 3, 4, 5))
prefetch_map = _action(
    "prefetch_map",
    "prefetch.tensormap [$0];",
    (i64,),
    "Bring a tensor map near, before its first use.",
)
bulk_load = _action(
    "bulk_load",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];",
    (i32, i64, i32, i32),
    "(shared address, global address, bytes, barrier): a run of bytes (multiple of 16).",
)
bulk_store = _action(
    "bulk_store",
    "cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;",
    (i64, i32, i32),
    "(global address, shared address, bytes): a run of bytes (multiple of 16).",
)
bulk_add_float = _action(
    "bulk_add_float",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [$0], [$1], $2;",
    (i64, i32, i32),
    "(global address, shared address, bytes): float32 numbers added, in no fixed order "
    "among blocks.",
)
bulk_commit = _action(
    "bulk_commit", "cp.async.bulk.commit_group;", (), "This thread's stores so far form a group."
)


@functools.cache
def bulk_wait(pending: int, *, read: bool = False) -> Any:
    """An intrinsic: wait until at most `pending` of this thread's groups of stores are under way;
    with `read`, until all but those have at least been read from shared memory, which may then be
    written again."""
    how = ".read" if read else ""
    return _action(
        f"bulk_wait_{'read_' if read else ''}{pending}",
        f"cp.async.bulk.wait_group{how} {pending};",
        (),
        f"Wait until at most {pending} groups of stores are under way.",
    )


# -------------------- wgmma

#: kind -> (numbers along k of one instruction, type of A and B, type of the result, whether
#: operands may be transposed)
KINDS = {
    "bf16": (16, "bf16", "f32", True),
    "f16": (16, "f16", "f32", True),
    "tf32": (8, "tf32", "f32", False),
    "s8": (32, "s8", "s32", False),
    "u8": (32, "u8", "s32", False),
    "e4m3": (32, "e4m3", "f32", False),
    "e5m2": (32, "e5m2", "f32", False),
}


def _wgmma_tail(kind: str, scale: int, trans: Sequence[bool]) -> str:
    """What follows the operands: whether to add to the result (0: overwrite it), signs,
    transpositions."""
    _, _, result, may_transpose = KINDS[kind]
    if any(trans) and not may_transpose:
        raise AssertionError(f"wgmma reads {kind} operands along k only")
    signs = "" if result == "s32" else ", 1, 1"
    return f"{scale}{signs}" + ("".join(f", {int(t)}" for t in trans) if may_transpose else "")


def _accumulators(kind: str, n: int, zero: bool) -> Registers:
    return Registers(i32 if KINDS[kind][2] == "s32" else f32, n // 2, "write" if zero else "update")


@functools.cache
def wgmma(
    kind: str,
    n: int,
    steps_a: tuple[int, ...],
    steps_b: tuple[int, ...],
    *,
    zero: bool = False,
    trans_a: bool = False,
    trans_b: bool = False,
    commit: bool = True,
) -> Any:
    """An intrinsic (c, i, descriptor of A, descriptor of B): c[i : i + n / 2] += A B, both tiles in
    shared memory.

    A fence, one instruction for each pair of steps (what to add to the descriptors, in their units
    of 16 bytes) and, with `commit`, the end of the group. kind: see KINDS; n: 8, 16, .. 256. zero:
    the first instruction overwrites c, which need not hold anything. trans_a, trans_b: the operand
    is contiguous along m or n instead of k (16-bit kinds only).
    """
    k, of, to, _ = KINDS[kind]
    lines = ["{", ".reg .b64 a, b;", "wgmma.fence.sync.aligned;"]
    for number, (step_a, step_b) in enumerate(zip(steps_a, steps_b, strict=True)):
        lines += [
            f"add.s64 a, <1>, {step_a};",
            f"add.s64 b, <2>, {step_b};",
            f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{to}.{of}.{of} <0>, a, b, "
            f"{_wgmma_tail(kind, int(not (zero and number == 0)), (trans_a, trans_b))};",
        ]
    lines += ["wgmma.commit_group.sync.aligned;", "}"] if commit else ["}"]
    marks = "_".join(
        map(str, (*steps_a, "by", *steps_b, int(zero), int(trans_a), int(trans_b), int(commit)))
    )
    return array_instruction(
        f"wgmma_{kind}_{n}_{marks}",
        "\n".join(lines),
        (_accumulators(kind, n, zero), i64, i64),
        f"{len(steps_a)} wgmma m64n{n}k{k} of {kind}, A and B in shared memory.",
    )


@functools.cache
def wgmma_registers(
    kind: str,
    n: int,
    steps_b: tuple[int, ...],
    *,
    zero: bool = False,
    trans_b: bool = False,
    commit: bool = True,
) -> Any:
    """As `wgmma`, A in registers: (c, i, a, j, descriptor of B), a: int32, four registers for each
    step from j on.

    A's registers hold, for rows r and r + 8 of the header, the numbers along k that a 16-byte-wide
    fragment has: 16-bit kinds (r: k 2 q, 2 q + 1), (r + 8: the same), (r: 2 q + 8, + 9), (r + 8:
    the same), where q = thread % 4. This is how a result's registers come, packed by pairs.
    """
    k, of, to, _ = KINDS[kind]
    trans = [trans_b] if KINDS[kind][3] else []
    lines = ["{", ".reg .b64 b;", "wgmma.fence.sync.aligned;"]
    for number, step in enumerate(steps_b):
        scale = int(not (zero and number == 0))
        lines += [
            f"add.s64 b, <2>, {step};",
            f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{to}.{of}.{of} <0>, "
            f"<1:{4 * number}:{4 * number + 4}>, b, "
            f"{_wgmma_tail(kind, scale, trans)};",
        ]
    lines += ["wgmma.commit_group.sync.aligned;", "}"] if commit else ["}"]
    marks = "_".join(map(str, (*steps_b, int(zero), int(trans_b), int(commit))))
    return array_instruction(
        f"wgmma_registers_{kind}_{n}_{marks}",
        "\n".join(lines),
        (_accumulators(kind, n, zero), Registers(i32, 4 * len(steps_b), "read"), i64),
        f"{len(steps_b)} wgmma m64n{n}k{k} of {kind}, A in registers, B in shared memory.",
    )


@functools.cache
def wgmma_wait(pending: int, count: int = 0, kind: Any = f32) -> Any:
    """An intrinsic: wait until at most `pending` groups are under way.

    With a count it takes (array, index): those registers, float32 or int32, pass through it, so
    that no use of them can move above the wait. Without: only where they are not used before
    another wait.
    """
    assembly = f"wgmma.wait_group.sync.aligned {pending};"
    doc = f"Wait until at most {pending} groups of wgmma are under way."
    if not count:
        return _action(f"wgmma_wait_{pending}", assembly, (), doc, convergent=True)
    return array_instruction(
        f"wgmma_wait_{pending}_{kind}_{count}", assembly, (Registers(kind, count, "update"),), doc
    )


@functools.cache
def hold(count: int, kind: Any = i32) -> Any:
    """An intrinsic (array, index): nothing; but these registers are kept, unmoved, up to here."""
    return array_instruction(
        f"hold_{kind}_{count}",
        "",
        (Registers(kind, count, "update"),),
        "Keep registers up to here.",
    )


wgmma_fence = _action(
    "wgmma_fence",
    "wgmma.fence.sync.aligned;",
    (),
    "Registers just written are seen by wgmma.",
    True,
)
wgmma_commit = _action(
    "wgmma_commit",
    "wgmma.commit_group.sync.aligned;",
    (),
    "The instructions so far form a group.",
    True,
)
