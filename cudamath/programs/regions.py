"""Regions: which operations of a program may become kernels together, and when they run.

Neighbours in the program form a region. So do an operation and one that uses its result later, with
others in between: a region moves down, past what neither uses its results nor writes what it reads.
`silu(x @ a) * (x @ b)` is two products and then one kernel, not a kernel on both sides of the
second product. And an operation moves up to the region whose result it alone uses, if that result
need not be stored then, and what else it reads is there.

Neighbours that have neither operands nor shapes in common would be kernels of their own in a region
as well, and stay apart. So the sum of two gradients of a weight can move down to the next term, and
one kernel adds all of them.
"""

from __future__ import annotations

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
    """

    def __init__(self, nodes: list[Node]):
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
        both = Region([])
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
    for k, node in enumerate(program.nodes):
        if not joins(node):
            items.append(node)
        elif not _moved_up(items, node, k, users, most):
            items.append(_moved_down(items, Region([node]), most))
    return items


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
            fits = len(item.nodes) < most
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


def _moved_down(items: list[Region | Node], region: Region, most: int) -> Region:
    """The new region at the end, together with those before it that may as well run there; these
    are taken off the list."""
    used: set[Block] = set()  # by the items that stay in between
    written: set[Block] = set()
    apart = False
    for i in reversed(range(max(len(items) - FAR, 0), len(items))):
        item = items[i]
        nodes = item.nodes if isinstance(item, Region) else [item]
        if (
            isinstance(item, Region)
            and len(nodes) + len(region.nodes) <= most
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
