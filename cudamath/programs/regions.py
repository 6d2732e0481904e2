"""Regions: which operations of a program may become kernels together, and when they run.

Neighbours in the program form a region. So do an operation and one that uses its result later, with
others in between: a region moves down, past what neither uses its results nor writes what it reads.
`silu(x @ a) * (x @ b)` is two products and then one kernel, not a kernel on both sides of the
second product. And an operation moves up to the region whose result it alone uses, if that result
need not be stored then, and what else it reads is there.

Where more neighbours follow one another than a region may have, as the steps of an optimizer for
each of a model's weights do, they are taken strand by strand: a *strand* is what results of the
size of its operations lead to and from, the step of one weight. So no region ends within a step,
whose results would be written for the next one to read. A strand that is longer than a region, as
the steps of a simulation, is cut where the fewest bytes go on: between its steps.

Neighbours that have neither operands nor shapes in common would be kernels of their own in a region
as well, and stay apart. So the sum of two gradients of a weight can move down to the next term, and
one kernel adds all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import prod

from .doors import Users
from .program import Block, Node, Program

FAR = 64  # how many items a region may pass


class Region:
    """Operations that may become kernels together, in order.

    Attributes
    ----------
    nodes : list of Node
        The operations.
    results, reads : set of Block
        What they make, and what they use, their own results included.
    domains : set of tuple of int
        The shapes of what they compute element by element, or reduce.
    closed : bool
        Whether a long strand is cut behind it: later nodes stay apart.
    """

    def __init__(self, nodes: list[Node], closed: bool = False):
        self.closed = closed
        self.nodes: list[Node] = []
        self.results: set[Block] = set()
        self.reads: set[Block] = set()
        self.domains: set[tuple[int, ...]] = set()
        for node in nodes:
            self.add(node)

    def add(self, node: Node) -> None:
        """One more at the end."""
        self.nodes.append(node)
        self.results.update(node.results)
        self.reads |= node.used
        layouts = [view.layout for view in node.views] + [block.layout for block in node.results]
        self.domains.add(max([layout.shape for layout in layouts], key=prod))

    def before(self, other: Region) -> Region:
        """The region of these and the other's, which come after them."""
        both = Region([], other.closed)
        both.nodes = self.nodes + other.nodes
        both.results, both.reads = self.results | other.results, self.reads | other.reads
        both.domains = self.domains | other.domains
        return both


def regions(program: Program, joins: Callable[[Node], bool], most: int) -> list[Region | Node]:
    """The program in the order in which it runs.

    Parameters
    ----------
    program : Program
        What is divided.
    joins : callable
        Whether a node can be part of a region; it has results and writes nothing.
    most : int
        Nodes of a region, at most.

    Returns
    -------
    list of Region or Node
        All nodes, each after those whose results it uses.
    """
    items: list[Region | Node] = []
    users = Users(program)
    number = {id(node): k for k, node in enumerate(program.nodes)}
    ordered = _by_strands(program.nodes, joins, most)
    cuts = _cuts([node for node, rest in ordered if rest is None], most)
    for node, rest in ordered:
        closed = id(node) in cuts
        if not joins(node):
            items.append(node)
        elif closed or not _moved_up(items, node, number[id(node)], users, most):
            items.append(_moved_down(items, Region([node], closed), most, rest or 0))
    return items


def _by_strands(
    nodes: list[Node], joins: Callable[[Node], bool], most: int
) -> list[tuple[Node, int | None]]:
    """The nodes, and how many of its strand follow each, None in a strand longer than a region;
    long runs of those that may be part of a region strand by strand."""
    ordered: list[tuple[Node, int | None]] = []
    run: list[Node] = []
    for node in [*nodes, None]:
        if node is not None and joins(node):
            run.append(node)
            continue
        ordered += _strands(run, most) if len(run) > most else [(each, 0) for each in run]
        run = []
        if node is not None:
            ordered.append((node, 0))
    return ordered


def _strands(run: list[Node], most: int) -> list[tuple[Node, int | None]]:
    """Nodes that follow one another strand by strand, each where its last node stood, or others
    need something of it; and how many follow each, with what they need. Strands that do not fit
    into a region stay as they are."""
    made = {block: k for k, node in enumerate(run) for block in node.results}
    strand = list(range(len(run)))

    def first(k: int) -> int:
        while strand[k] != k:
            strand[k] = k = strand[strand[k]]
        return k

    before = [sorted({made[block] for block in node.used if block in made}) for node in run]
    for k, node in enumerate(run):
        for i in before[k]:
            if run[i].results[0].layout.size == _domain(run[i]) == _domain(node):
                strand[first(k)] = first(i)
    members: dict[int, list[int]] = {}
    for k in range(len(run)):
        members.setdefault(first(k), []).append(k)
    out: list[tuple[Node, int | None]] = []
    there = [False] * len(run)
    for k in range(len(run)):
        whole = members[first(k)]
        if len(whole) > most:
            taken = _before(k, before, there)
        elif k == whole[-1]:
            taken = [i for each in whole for i in _before(each, before, there)]
        else:
            continue
        fits = len(taken) <= most
        long = None if len(whole) > most else 0
        out += [
            (run[i], len(taken) - 1 - at if fits and long == 0 else long)
            for at, i in enumerate(taken)
        ]
    return out


def _cuts(nodes: list[Node], most: int) -> set[int]:
    """Behind which of the nodes of long strands, by their ids, a region ends: where the fewest
    bytes go on, of the places that leave a region at least half full."""
    made = {block: k for k, node in enumerate(nodes) for block in node.results}
    last = {block: k for k, node in enumerate(nodes) for block in node.used if block in made}
    change = [0] * (len(nodes) + 1)  # of the bytes that go on, behind each node
    for block, k in last.items():
        change[made[block]] += block.layout.nbytes
        change[k] -= block.layout.nbytes
    wide = list(itertools.accumulate(change))
    found, start = set[int](), 0
    while len(nodes) - start > most:
        at = min(range(start + most // 2, start + most), key=lambda k: (wide[k], -k))
        found.add(id(nodes[at]))
        start = at + 1
    return found


def _before(k: int, before: list[list[int]], there: list[bool]) -> list[int]:
    """What must run for number k, itself included, that has not; it has then."""
    found, stack = [], [k]
    while stack:
        k = stack[-1]
        missing = [] if there[k] else [i for i in before[k] if not there[i]]
        stack += missing[::-1]
        if not missing:
            stack.pop()
            if not there[k]:
                there[k] = True
                found.append(k)
    return found


def _domain(node: Node) -> int:
    """Of how many elements an operation is."""
    layouts = [view.layout for view in node.views] + [block.layout for block in node.results]
    return max([layout.size for layout in layouts])


def _moved_up(items: list[Region | Node], node: Node, k: int, users: Users, most: int) -> bool:
    """Add node k to an earlier region, of which it alone uses a result that is not smaller than its
    own; whether that was possible."""
    ends = {
        view.block
        for view in node.views
        if users.only(view.block) == k and view.block.layout.nbytes >= node.results[0].layout.nbytes
    }
    reads = node.used
    if not ends:
        return False
    for item in reversed(items[-FAR:]):
        if isinstance(item, Region) and not ends.isdisjoint(item.results):
            fits = len(item.nodes) < most and not item.closed
            if fits:
                item.add(node)
            return fits
        nodes = item.nodes if isinstance(item, Region) else [item]
        if any([not reads.isdisjoint(other.results) for other in nodes]):
            return False  # it is made here
        groups = {view.block.group for other in nodes for view in other.targets}
        if not groups.isdisjoint([block.group for block in reads]):
            return False  # it is written here
    return False


def _leads_to(item: Region, region: Region) -> bool:
    """Whether a region uses a result of the size of its operations of an earlier one."""
    size = max(map(prod, region.domains))
    return any([block.layout.size == size for block in item.results & region.reads])


def _moved_down(items: list[Region | Node], region: Region, most: int, rest: int) -> Region:
    """The new region at the end, together with those before it that may as well run there; these
    are taken off the list. rest: how many operations of its strand come later: with another strand
    it shares a region that has room for all of them."""
    used: set[Block] = set()  # by the items that stay in between
    written: set[Block] = set()
    apart = False
    for i in reversed(range(max(len(items) - FAR, 0), len(items))):
        item = items[i]
        nodes = item.nodes if isinstance(item, Region) else [item]
        room = most - len(nodes) - len(region.nodes)
        if (
            isinstance(item, Region)
            and not item.closed
            and room >= (0 if _leads_to(item, region) else rest)
            and (
                not item.results.isdisjoint(region.reads)
                or not apart
                and not (
                    item.reads.isdisjoint(region.reads) and item.domains.isdisjoint(region.domains)
                )
            )
            and item.results.isdisjoint(used)
            and written.isdisjoint([block.group for block in item.reads])
        ):
            region = item.before(region)
            del items[i]
            continue
        if isinstance(item, Region):
            used |= item.reads
        else:
            apart = True
            used |= item.used
            written.update([view.block.group for view in item.targets])
    return region
