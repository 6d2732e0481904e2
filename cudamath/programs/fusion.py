"""Fusion: neighbouring elementwise operations and reductions become kernels of `cm.fuse`.

The nodes of a region are called once more, on traced arrays, and so become symbols; `cm.fuse`
makes stages of these (fuse.py), and kernels of the stages (kernels/generated/fusion.py). What is
rounded is what `cm.fuse` says: 16-bit arrays are computed in float32 without rounding between
operations. What a product can do in its epilogue becomes part of the product before (doors.py).
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Sequence
from typing import Any

from ..core import dtypes, recording, tracing
from ..core.array import allocate, ndarray
from ..core.bounded_cache import store
from ..core.devices import TRACED, device_of
from ..core.dispatch.call_record import unrecorded
from ..core.dispatch.fast_path import exact
from ..core.dispatch.op import ViewOp, registry
from ..core.dtypes import FLOATING
from ..core.layout import Layout
from ..core.scalar import inside
from ..core.specs.reductions import REDUCTIONS
from ..fuse import kernels_of
from ..ops.shape import reshape
from ..ops.ufunc import Elementwise
from ..runtime.state import device_table
from .biases import biases_apart
from .common_factors import common_factors
from .doors import PRODUCTS, Users, through_doors
from .gathered_products import gathered_products
from .indices import casts_after_indices, compared_indices
from .joined_parts import part_by_part, parts_added_last, rolled_side_by_side
from .optimizer_casts import without_casts
from .orders import LiesAcross, in_c_order
from .placed_parts import Placed, placed_parts
from .products_at_once import products_at_once
from .program import ARGUMENT, Block, Node, Program, View
from .recomputed import recomputed
from .regions import Region, regions
from .residual_doors import BACKWARD, FORWARD, with_residuals
from .row_products import row_products
from .shared_sorts import shared_sorts
from .simplify import edited
from .slices import joined, sliced
from .small_products import SmallProduct, written_out
from .sums_into_copies import sums_into_copies

MOST = 128  # nodes of a region
RUN = 32  # bytes: the shortest runs of memory that a kernel writes into a joined array: a sector


class Fused:
    """The op of a fused region.

    Parameters
    ----------
    nodes : list of Node
        What it computes.
    placed : tuple of Block, optional
        The results of these nodes that it writes into its last operands.
    turned : dict, optional
        Result that lies in another order -> result of these nodes, in C order (orders.py).
    """

    vjp = None
    several = True

    def __init__(
        self,
        nodes: list[Node],
        placed: tuple[Block, ...] = (),
        turned: dict[Block, Block] | None = None,
    ):
        self.name = f"fused({', '.join([node.name for node in nodes])})"
        self.nodes, self.placed, self.turned = nodes, placed, turned or {}

    def __repr__(self) -> str:
        return f"<{self.name}>"


def fusible(node: Node) -> str:
    """Why a node cannot be part of a region; "" if it can."""
    if node.targets or node.draw is not None or len(node.results) != 1 or node.several:
        return "it writes, draws, or has several results"
    if any([not view.layout.size for view in node.views]) or not node.views:
        return "it has no elements"
    layout = node.results[0].layout
    if layout.device < 0 or not layout.size:
        return "it has no elements on a GPU"
    known = (*tracing.FUSIBLE, *tracing.MOVING)
    if isinstance(node.op, (Elementwise, SmallProduct)) or node.name in known:
        return ""
    params = node.params
    if "kind" in params and "keepdims" in params and params["kind"] in REDUCTIONS:
        (x,) = node.views[:1]
        if len(node.views) == 1 and {x.layout.dtype, layout.dtype} <= {*FLOATING}:
            return ""
        return "a reduction of integers"
    return "it is neither elementwise, nor a reduction, nor a roll"


def elementwise(node: Node) -> bool:
    """Whether each element of a node's result depends on one element of each operand."""
    return not fusible(node) and (isinstance(node.op, Elementwise) or node.name in tracing.FUSIBLE)


#: Why products stand alone, whose kernels have doors (doors.py).
EPILOGUE = (
    "its epilogue takes a bias, an activation and a residual, of 16-bit numbers, where nobody else "
    "uses what lies between; one of few terms an element, of wider numbers, is written out"
)

#: Why norms over rows stand alone, which add in their pass (residual_doors.py).
SUM = "it adds a residual, or a gradient that comes along one, and has no other door"

#: Cards whose functions decide by values how many elements there are: refused while tracing.
REFUSED = {
    "chosen": "x[mask] has as many elements as the mask has ones",
    "count_true": "a number of elements, read on the host",
    "count_new": "a number of elements, read on the host",
    "distinct": "as many elements as there are different ones",
    "distinct_runs": "as many elements as there are different ones",
    "nonzero": "as many elements as there are ones that are not 0",
}


#: Why the other cards stand alone, by the folder of their kernels.
FAMILIES = {
    "attention": "its kernels keep the scores in registers; they have no door for what surrounds "
    "them yet",
    "conv": "its kernels have no door for a bias, an activation or a residual yet",
    "copy": "it fills memory, and computes nothing that others could join",
    "elementwise": "it sums weights and weighted elements in one pass of its own",
    "histogram": "where an element is counted depends on its value",
    "image": "an element is made of its neighbours, which a kernel of rows does not read",
    "index": "where an element lies depends on an index, which a kernel of rows does not read yet",
    "linalg": "its steps depend on one another, and a matrix is shared by a block",
    "loss": "its kernels reduce rows in passes of their own; they have no door yet",
    "matmul": "its kernel has no door beyond its own arguments",
    "norm": "its statistics run over more than rows; its kernels have no door yet",
    "numeric": "an element is made of others of its row",
    "optim": "it reads many arrays of any shapes at once",
    "pool": "an element is made of a window, which a kernel of rows does not read",
    "quantize": "its kernels unpack numbers of few bits; they have no door yet",
    "random": "its numbers are drawn in vectors, by their place in the sequence",
    "recurrent": "it is a call of a library that takes all steps",
    "reduce": "its kernel raises to a power as it adds",
    "scan": "an element depends on all before it",
    "shape": "it moves elements, and a kernel of rows reads each where its result stands",
    "softmax": "its kernels hold rows in registers; they have no door for what surrounds them yet",
    "sort": "where an element goes depends on all of its row",
    "sparse": "which elements it reads depends on the array's structure",
}


def rule(op: Any) -> tuple[str, str]:
    """How an op takes part in a program, and why not in a better way.

    Parameters
    ----------
    op : Op, Elementwise or ViewOp
        A card of the registry.

    Returns
    -------
    tuple of str
        "view": no work; "fused": with its neighbours; "alone": it runs as it is; "refused": it
        cannot be traced. And the reason, "" for the first two.
    """
    if isinstance(op, ViewOp):
        return "view", ""
    if isinstance(op, Elementwise) or op.name in (*tracing.FUSIBLE, *tracing.MOVING):
        return "fused", ""
    if any([op.name == reduction.op for reduction in REDUCTIONS.values()]):
        return "fused", ""
    if op.name in REFUSED:
        return "refused", REFUSED[op.name]
    if why := getattr(op, "alone", ""):
        return "alone", why
    if op.name == "to":
        return "alone", "it copies between devices"
    if getattr(op, "writes", False):
        return "alone", "it writes in place"
    if not hasattr(op, "cuda"):
        return "alone", "its kernel is the user's"
    if op.name in PRODUCTS:
        return "alone", EPILOGUE
    if op.name in FORWARD or op.name in BACKWARD:
        return "alone", SUM
    return "alone", FAMILIES.get(op.cuda.partition(".")[0], "")


def fused(program: Program) -> Program:
    """The program with one node in place of each region that can be fused."""
    program = common_factors(row_products(program))
    program = gathered_products(sums_into_copies(program))
    program = shared_sorts(through_doors(program))
    program = products_at_once(program)
    program = with_residuals(program, lambda node: not fusible(node))
    program = biases_apart(program, lambda node: not fusible(node))
    program = casts_after_indices(program, lambda node: not fusible(node))
    program = compared_indices(program, elementwise)
    program = joined(parts_added_last(without_casts(program)))
    program = part_by_part(program, elementwise, lambda node: not fusible(node))
    program = placed_parts(rolled_side_by_side(program), lambda node: not fusible(node))
    program = sliced(program, elementwise)
    program = recomputed(program, elementwise, lambda node: not fusible(node))
    program = written_out(program)
    nodes: list[Node] = []
    items = regions(program, lambda node: not fusible(node), MOST)
    made, users = 0, _users(program)
    for item in items:
        if not isinstance(item, Region):
            nodes.append(item)
        elif len(item.nodes) == 1:
            nodes += [_by_a_kernel(item.nodes[0])]
        else:
            replacement = _region(item.nodes, users, program)
            made += len(replacement) < len(item.nodes)
            nodes += replacement
    out = Program(program.arguments, nodes, program.results, program.device)
    out.notes, out.ambiguous = program.notes, program.ambiguous
    if made:
        out.notes.append(f"fused: {len(program.nodes)} operations became {len(nodes)}")
    return out


def _by_a_kernel(node: Node) -> Node:
    """A node that has no neighbours; parts among zeros are put together by one kernel."""
    with contextlib.suppress(TypeError):
        return alone(node) if isinstance(node.op, Placed) else node
    return node


def _users(program: Program) -> dict[Block, list[Node | None]]:
    """The nodes that use each block; None for the caller."""
    users: dict[Block, list[Node | None]] = {}
    for node in program.nodes:
        for block in node.used:
            users.setdefault(block, []).append(node)
    for view in program.returned():
        users.setdefault(view.block, []).append(None)
    return users


def _region(
    region: list[Node], users: dict[Block, list[Node | None]], program: Program
) -> list[Node]:
    """One node in place of these, or several where one will not do; the nodes themselves if
    nothing can be fused."""
    moving = [node.name in tracing.MOVING for node in region]
    if (
        len(region) < 2
        or sum(moving) < 2
        and all([moves or node.name == "copy" for moves, node in zip(moving, region, strict=True)])
    ):
        return region  # nothing is computed: kernels that only move elements do that better
    inside_nodes = {*map(id, region)}
    outputs = [
        node.results[0]
        for node in region
        if not all([id(user) in inside_nodes for user in users.get(node.results[0], ())])
    ]
    try:
        ordered, turned = in_c_order(region, elementwise)
        inside_blocks = {node.results[0] for node in ordered}
        views = [v for node in ordered for v in node.views if v.block not in inside_blocks]
        inputs = list(dict.fromkeys(views))
        if not outputs or not inputs:
            raise TypeError("no arrays go in or come out")
        run = _kernels(ordered, inputs, outputs, turned)
    except TypeError as error:
        if len(region) > 2:  # parts may have what it takes
            cut = (error.at if isinstance(error, LiesAcross) else 0) or len(region) // 2
            first, rest = _nearer(region[:cut], region[cut:], users)
            return [
                *_region(first, users, program),
                *_region(rest, users, program),
            ]
        names = ", ".join([node.name for node in region])
        program.notes.append(f"not fused: {names}: {error}")
        return region
    results = tuple(outputs)
    for k, block in enumerate(results):
        block.index = k
    op = Fused(ordered, (), turned)
    return [Node(op, tuple(inputs), (), {}, run, results, True, line=region[-1].line)]


def alone(node: Node) -> Node:
    """An elementwise node as a region of itself. TypeError where no kernel does it."""
    inputs, results = list(dict.fromkeys(node.views)), list(node.results)
    run = _kernels([node], inputs, results, {})
    return Node(Fused([node]), tuple(inputs), (), {}, run, node.results, True, line=node.line)


def _nearer(
    first: list[Node], rest: list[Node], users: dict[Block, list[Node | None]]
) -> tuple[list[Node], list[Node]]:
    """Two parts of a region, with what only the second one reads of parts among zeros in that."""
    after = {*map(id, rest)}
    moved = [
        node
        for node in first
        if isinstance(node.op, Placed)
        and all([id(user) in after for user in users.get(node.results[0], ())])
    ]
    if len(moved) == len(first):  # all that the second one reads
        return first, rest
    stay = [node for node in first if node not in moved]
    return stay, [*moved, *rest]


def _in_layout(y: ndarray, layout: Layout) -> ndarray:
    """The same elements in C order, where a kernel chose the order of its operands."""
    out = allocate(layout)
    copy_into: Any = registry["copy_into"]
    copy_into(out, y if y._layout.shape == layout.shape else reshape(y, layout.shape))
    return out


#: What makes two regions the same -> their kernels.
_known = device_table()
dtypes.forget.append(_known.clear)


def _kernels(
    region: list[Node],
    inputs: list[View],
    outputs: list[Block],
    turned: dict[Block, Block],
    places: Sequence[tuple[Block, View]] = (),
) -> Any:
    """`run(*inputs, *places)` -> the outputs, as arrays of the blocks' layouts. Further results are
    written into the places. turned: as in `Fused`. Regions that compute the same, as those of a
    model's layers do, share one."""
    key = _same(region, inputs, outputs, turned, places)
    with contextlib.suppress(KeyError, TypeError):  # a parameter may have no hash
        return _known[key]
    return store(_known, key, _kernels_of(region, inputs, outputs, turned, places))


def _same(
    region: list[Node],
    inputs: list[View],
    outputs: list[Block],
    turned: dict[Block, Block],
    places: Sequence[tuple[Block, View]],
) -> tuple:
    """What two regions have in common that compute the same: operations, and for each operand
    which input it is, or of which operation the result."""
    at = {view: i for i, view in enumerate(inputs)}
    made = {node.results[0]: i for i, node in enumerate(region)}

    def operand(x: Any) -> Any:
        if not isinstance(x, View):
            return exact(x)
        return at[x] if x in at else (made[x.block], *x[1:])

    def number(block: Block) -> tuple[int, Layout]:
        return made[turned.get(block, block)], block.layout

    return (
        tuple([view.layout for view in inputs]),
        tuple(
            [
                (
                    node.op,
                    tuple(map(operand, node.operands)),
                    tuple([(name, exact(value)) for name, value in node.params.items()]),
                    tuple(map(exact, node.scalars)),
                    node.results[0].layout,
                )
                for node in region
            ]
        ),
        tuple(map(number, outputs)),
        tuple([(number(block), view.layout) for block, view in places]),
    )


def _kernels_of(
    region: list[Node],
    inputs: list[View],
    outputs: list[Block],
    turned: dict[Block, Block],
    places: Sequence[tuple[Block, View]],
) -> Any:
    """`_kernels`, made now."""
    values: dict[Block, ndarray] = {}
    arguments = {
        view: tracing.argument(view.layout.shape, view.layout.dtype, i)
        for i, view in enumerate(inputs)
    }

    def operand(x: Any) -> Any:
        if not isinstance(x, View):
            return x
        if x in arguments:
            return arguments[x]
        base = values[x.block]
        if x.whole:
            return base
        return base._view(Layout.of(x.layout.shape, x.layout.strides, x.layout.dtype, TRACED))

    with unrecorded(), recording.paused(), inside(), device_of(TRACED):
        for node in region:
            (block,) = node.results
            extra = {"scalars": node.scalars} if node.scalars else {}
            values[block] = node.op(*map(operand, node.operands), **node.params, **extra)
            if values[block]._layout.dtype != block.layout.dtype:
                raise TypeError(f"{node.name} has another dtype in a kernel")
    layouts = [view.layout for view in inputs]
    made = [turned.get(block, block) for block in (*outputs, *[block for block, _ in places])]
    kernels = kernels_of(
        [values[block] for block in made], layouts, [view.layout for _, view in places]
    )
    targets = [(block.layout, result.layout) for block, result in zip(made, outputs, strict=False)]

    def run(*arrays: ndarray) -> list[ndarray]:
        out = []
        for y, (layout, seen) in zip(kernels(*arrays), targets, strict=True):
            y = y if y._layout is layout else _in_layout(y, layout)
            out.append(y if seen is layout else y._view(seen))
        return out

    run.over = kernels.over  # type: ignore[attr-defined]
    return run


# -------------------- results that are written where they are wanted


def joined_in_place(program: Program) -> Program:
    """The program in which a kernel writes its results side by side, where they would only be
    joined: into memory that is taken before."""
    users, nodes, gone = Users(program), list(program.nodes), set()
    taken: dict[int, list[Node]] = {}
    for k, node in enumerate(program.nodes):
        if node.name != "concat" or len(node.results) != 1:
            continue
        block = node.results[0]
        layout, axis = block.layout, node.params["axis"]
        places = _parts(node, users, View(block, layout, 0)) if layout.contiguous else []
        made = users.made[places[0][0]] if places else k
        short = any([_run(view.layout, axis) < RUN for view in node.views])
        alone = all([users.only(b) == k and not users.written.get(b.group) for b, _ in places])
        if not places or short or not alone or not isinstance(nodes[made].op, Fused):
            continue
        try:
            nodes[made] = placed(nodes[made], places, users, {k})
        except TypeError as error:
            program.notes.append(f"not in place: {error}")
            continue
        run = functools.partial(allocate, layout)
        taken.setdefault(made, []).append(Node(registry["full"], (), (), {}, run, (block,), False))
        gone.add(k)
    if not gone:
        return program
    program.notes.append(
        f"places: {len(gone)} arrays are joined by the kernels that make their parts"
    )
    kept = [n for i, node in enumerate(nodes) if i not in gone for n in [*taken.get(i, []), node]]
    return edited(program, kept, {})


def written_in_place(program: Program) -> Program:
    """The program in which a kernel writes its results into arguments, as they lie, that would
    otherwise be copied there: by themselves, or joined.

    `copy_into(argument, y)` of a result y of a region, or of a concatenation of such results, is
    left out; y is read from the argument by others.
    """
    count = 0
    for into in [node.targets[0].block for node in program.nodes if node.name == "copy_into"]:
        found = _one_in_place(program, into) if into.kind == ARGUMENT else None
        if found is not None:
            program, count = found, count + 1
    if count:
        program.notes.append(f"places: {count} results are written where they are wanted")
    return program


def _one_in_place(program: Program, into: Block) -> Program | None:
    """The program without the copy into an argument, if it can do without."""
    users, nodes = Users(program), list(program.nodes)
    copies = [i for i in users.written[into.group] if nodes[i].name == "copy_into"]
    if len(copies) != 1 or users.written[into.group] != copies:
        return None
    (at,) = copies
    target, source = nodes[at].views
    block, made = source.block, users.made.get(source.block)
    before = [i for i in users.of.get(target.block, []) if 0 <= i < at]
    if made is None or before or not source.whole:
        return None
    if target.layout is not source.layout or users.written.get(block):
        return None
    places, gone = [(block, target)], {at}
    if nodes[made].name == "concat":
        parts = _parts(nodes[made], users, target)
        if not parts:
            return None
        places, gone = parts, {at, made}
        made = users.made[parts[0][0]]
    if not isinstance(nodes[made].op, Fused):
        return None
    try:
        nodes[made] = placed(nodes[made], places, users, gone, frozenset([block]))
    except TypeError as error:
        program.notes.append(f"not in place: {error}")
        return None
    kept = [node for i, node in enumerate(nodes) if i not in gone]
    return edited(program, kept, {block: target})


def _run(layout: Layout, axis: int) -> float:
    """The bytes of a part that lie one behind the other where parts are joined along this axis."""
    several = math.prod(layout.shape[:axis]) > 1
    return math.prod(layout.shape[axis:]) * layout.itemsize if several else math.inf


def placed(
    node: Node,
    places: list[tuple[Block, View]],
    users: Users,
    gone: set[int],
    found: frozenset[Block] = frozenset(),
) -> Node:
    """A fused node that writes these results into places. TypeError where no kernel does.

    gone: nodes that need no results any more; found: the results that others find in the places."""
    places = [*zip(node.op.placed, node.targets, strict=True), *places]
    # what others use is a result still, but for what they find in the target
    used = {b for b in node.results if b not in found and {*users.of.get(b, ())} - gone}
    rest = tuple([b for b in node.results if b in used])
    inputs = [view for i, view in enumerate(node.operands) if i not in node.written]
    run = _kernels(node.op.nodes, inputs, list(rest), node.op.turned, places)
    for k, b in enumerate(rest):
        b.index = k
    op = Fused(node.op.nodes, tuple([b for b, _ in places]), node.op.turned)
    written = tuple(range(len(inputs), len(inputs) + len(places)))
    operands = (*inputs, *[view for _, view in places])
    return Node(op, operands, (), {}, run, rest, True, written, line=node.line)


def _parts(node: Node, users: Users, target: View) -> list[tuple[Block, View]]:
    """Where in the target the operands of a concatenation belong; empty if one of them is a part of
    an array, or is made elsewhere than the others."""
    found: list[tuple[Block, View]] = []
    start, axis, base = target.offset, node.params["axis"], target.layout
    for view in node.views:
        own, all_of = view.layout, view.block.layout
        if users.made.get(view.block) != users.made.get(node.views[0].block):
            return []
        if view.whole:
            layout = base.view(own.shape, base.strides, start - target.offset)
        elif (  # the same elements in another shape, which lie one behind the other in the target
            not view.offset
            and (own.size, own.dtype) == (all_of.size, all_of.dtype)
            and own.contiguous
            and all_of.contiguous
            and base.contiguous
            and math.prod(own.shape[:axis]) == 1
        ):
            layout = base.view(all_of.shape, all_of.strides, start - target.offset)
        else:
            return []
        found.append((view.block, View(target.block, layout, start)))
        start += view.layout.shape[axis] * base.strides[axis]
    return found if users.made.get(node.views[0].block) is not None else []
