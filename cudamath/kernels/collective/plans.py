"""Plans of collectives: one group of NCCL's calls each.

A plan is made when all members of the world make it, and they compare then what each wants to do:
arrays that differ are an error on all of them, before NCCL reads or writes beyond one's end.
"""

from ...core.dispatch.arguments import Input, Output
from ...core.dispatch.plan import Plan
from ...core.dispatch.steps import Call
from ...runtime.communication import nccl


def all_reduce(*layouts, op, about, world):
    """Sums, means and extremes, in the order that NCCL chooses."""
    outputs = [x.like() for x in layouts]
    return _plan(world, f"all_reduce, {op}", layouts, outputs, _added(op), about)


def reduce_scatter(*layouts, op, world):
    """(size, ...) -> (...), this member's row of the sums or means."""
    outputs = [x.like(x.shape[1:]) for x in layouts]
    number = nccl.SUMS[op]

    def calls(of, x, y, _, target):
        return [of.reduce_scatter(x, y, nccl.added(target.size, target.dtype), number)]

    return _plan(world, f"reduce_scatter, {op}", layouts, outputs, calls)


def all_gather(*layouts, world):
    """(...) -> (size, ...)."""
    outputs = [x.like((world.size, *x.shape)) for x in layouts]

    def calls(of, x, y, source, _):
        return [of.all_gather(x, y, nccl.moved(source.nbytes))]

    return _plan(world, "all_gather", layouts, outputs, calls)


def broadcast(*layouts, root, about, world):
    """x of the member `root`."""

    def calls(of, x, y, source, _):
        return [of.broadcast(x, y, nccl.moved(source.nbytes), root)]

    outputs = [x.like() for x in layouts]
    return _plan(world, f"broadcast, {root}", layouts, outputs, calls, about)


def all_to_all(*layouts, world):
    """(size, ...) -> (size, ...): row i to and from member i."""

    def calls(of, x, y, source, _):
        step = source.nbytes // world.size
        return of.all_to_all(x, y, nccl.moved(step), step)

    return _plan(world, "all_to_all", layouts, [x.like() for x in layouts], calls)


def send(x, *, to, world):
    """x -> a receipt, a number that is 0."""
    of = nccl.communicator(world, x.device)
    kind = nccl.moved(x.nbytes)

    def call(stream, source, _):
        of.call(stream, "send", [of.send(source, kind, to)])

    return Plan([x.like(())], [Call(call, [Input(0), Output(0)])])


def receive(x, *, source, world):
    """An array like x."""
    of = nccl.communicator(world, x.device)
    kind = nccl.moved(x.nbytes)

    def call(stream, target):
        of.call(stream, "recv", [of.receive(target, kind, source)])

    return Plan([x.like()], [Call(call, [Output(0)])])


def _added(op):
    number = nccl.SUMS[op]

    def calls(of, x, y, source, _):
        return [of.all_reduce(x, y, nccl.added(source.size, source.dtype), number)]

    return calls


def _plan(world, what, layouts, outputs, calls, about=""):
    """A group of calls: those of `calls(communicator, address, address, layout, layout)` for each
    input and its output. Arrays without elements have none."""
    text = ", ".join(f"{x.dtype}{x.shape}" for x in layouts)
    world.agree(f"{what} of {text} {about}".rstrip())
    of = nccl.communicator(world, layouts[0].device)
    pairs = list(zip(layouts, outputs, strict=True))
    name, count = what.partition(",")[0], len(pairs)

    def call(stream, *addresses):
        made = [
            each
            for (source, target), x, y in zip(
                pairs, addresses[:count], addresses[count:], strict=True
            )
            if source.size
            for each in calls(of, x, y, source, target)
        ]
        if made:
            of.call(stream, name, made)

    arguments = [*map(Input, range(count)), *map(Output, range(count))]
    return Plan(outputs, [Call(call, arguments)], several=True)
