"""Indexing: gathers, scatters, sums of rows by index, embeddings; the choice among their versions.

    operation         computes                            versions              files
    gather            out[b, j, a] = x[b, i[j], a]        GATHER                gather
    take_along        an index for each element           TAKE_ALONG            take_along_axis
    scatter           x[b, i[j], a] = values; the last    SCATTER               scatter
                      of equal positions wins
    scatter_add       x[b, i[j], a] += values in place    SCATTER_ADD           scatter_add_*
    index_add         the same into a copy                INDEX_ADD             scatter_add_*
    gather_grad       the same into zeros                 GATHER_GRADIENT       scatter_add_*
    take_along_grad   zeros, an index for each element    TAKE_ALONG_GRADIENT   take_along_gradient
    embedding         rows of a table                     EMBEDDING             embedding

Positions and boxes (before, rows, after): positions.py. One version each: `scatter_number`
(scatter.py), `put_along` (put_along_axis.py), `one_hot` (embedding.py), `where` (where.py).
Selection by masks, stream_compaction.py, has two: by votes of a warp, and without for the
simulator.

Sums are made in the order of the sources, never by float atomics: the same bits on every run.

Measured (row embedding_gradient):
embedding and gradient, 8192 of 50257x768; NVIDIA H200, commit 52457ee46004, 2026-11-23

                   GB/s     of a copy
    cudamath      3,257          0.77
    torch           819          0.19

(end of what was measured)
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...runtime.device import multiprocessors
from ..compiler.lazy_numba import SIMULATOR
from ..lib.versions import Version, choose
from . import work
from .owners import MOST_OWNERS, aligned_rows, owners_of
from .positions import flat_positions
from .problem import (
    FEW_SOURCES,
    EmbeddingProblem,
    GatherProblem,
    ScatterAddProblem,
    ScatterProblem,
    TakeAlongGradientProblem,
    TakeAlongProblem,
)

# -------------------- gather

PAIRED = 1 << 16  # elements of a result up to which each finds its row by two index arrays itself


def has_two_indices(p: GatherProblem) -> bool:
    return p.count == 2


def has_vectors(p: GatherProblem) -> bool:
    """Contiguous rows of whole accesses of 16 bytes."""
    row_bytes = p.box.shape[2] * p.x.itemsize
    return not SIMULATOR and p.box.contiguous and p.box.aligned and row_bytes % 16 == 0


def has_contiguous_rows(p: GatherProblem) -> bool:
    return p.box.contiguous


def prefers_pairs(p: GatherProblem) -> bool:
    """Single elements, or few of them: a list of positions would be as large as the result."""
    return p.out.size <= max(p.m, PAIRED)


GATHER = (
    Version(
        "pairs",
        "index.gather.by_pairs",
        has_two_indices,
        prefers_pairs,
        "few elements by two index arrays: each merges its two positions itself",
    ),
    Version(
        "long_rows",
        "index.gather.by_long_rows",
        has_vectors,
        reason="rows of half a kilobyte or more: a warp moves a piece of a row",
    ),
    Version(
        "vectors",
        "index.gather.by_vectors",
        has_vectors,
        reason="contiguous rows: accesses of 16 bytes",
    ),
    Version(
        "words",
        "index.gather.by_words",
        has_contiguous_rows,
        reason="contiguous rows of any length: a warp moves a piece of a row",
    ),
    Version("rows", "index.gather.by_rows", reason="any strides: one thread per word"),
)


def gather(x: Layout, *indices: Layout, axis: int, version: str | None = None) -> Plan:
    """x indexed along ``len(indices)`` axes from ``axis`` on by arrays of one shape. version: a
    name in GATHER; by default the preferred one."""
    p = GatherProblem(x, indices, axis)
    if not (p.out.size and x.size):  # nothing to move, but positions out of range are an error
        temps: list[Layout] = []
        return Plan([p.out], flat_positions(indices, p.sizes, 1, temps)[0], temps)
    return choose("gather", GATHER, p, version)


# -------------------- take_along_axis

ROW = 48 << 10  # bytes of a row in shared memory
SECTOR = 32  # bytes that an element picked from memory costs


def rows_fit_block(p: TakeAlongProblem) -> bool:
    """Rows that lie together, and indices of them, in whole accesses of 16 bytes."""
    (_, n, after), width = p.box.shape, min(16 // p.x.itemsize, 8)
    return (
        not SIMULATOR
        and p.x.itemsize < 16
        and width > 1
        and after == 1
        and p.box.contiguous
        and p.box.aligned
        and p.dense_index.aligned
        and n % width == p.m % width == 0
        and n * p.x.itemsize <= ROW
    )


def prefers_rows_in_block(p: TakeAlongProblem) -> bool:
    """About as much is picked as is loaded, and there is a row for every multiprocessor, twice."""
    before, n, _ = p.box.shape
    picks_enough = SECTOR * p.m >= 2 * n * p.x.itemsize
    return picks_enough and before >= 2 * multiprocessors(p.x.device)


TAKE_ALONG = (
    Version(
        "shared_memory",
        "index.take_along_axis.in_shared_memory",
        rows_fit_block,
        prefers_rows_in_block,
        "a block loads its row into shared memory and picks there",
    ),
    Version(
        "elements",
        "index.take_along_axis.by_elements",
        reason="any axis and strides: four elements per thread",
    ),
)


def take_along(x: Layout, index: Layout, *, axis: int, version: str | None = None) -> Plan:
    """out[..., j, ...] = x[..., index[..., j, ...], ...]; the other axes are of equal size.
    version: a name in TAKE_ALONG; by default the preferred one."""
    p = TakeAlongProblem(x, index, axis)
    return choose("take_along", TAKE_ALONG, p, version) if p.out.size else Plan([p.out], [])


# -------------------- scatter

FEW = 4096  # words, and positions, that one block assigns
BIDDERS = 1 << 17  # positions from which on three launches that meet less of the cache are faster
BIDS = 1 << 25  # bytes of bids, 8 a row, that the second-level cache holds
SPARSE_BIDS = 4  # rows for each position, up to which bids pay
MANY = 1 << 19  # positions from which on a long array is worth three launches
# Bytes of claims and of the array, from which on they displace each other in the second-level cache
CACHE = 1 << 24
SPARSE = 64  # rows for each position, up to which a table of bits pays: it grows with the array


def fits_one_block(p: ScatterProblem) -> bool:
    return max(p.m, p.size) <= FEW


def fits_bids(p: ScatterProblem) -> bool:
    """Single elements of at most 4 bytes: with their number in front they fit into 8."""
    return p.size == p.m < 2**30 and p.words.dtype.itemsize <= 4


def is_single(p: ScatterProblem) -> bool:
    """Single elements."""
    return p.size == p.m


def prefers_bids(p: ScatterProblem) -> bool:
    return p.m >= BIDDERS and 8 * p.rows <= BIDS and p.rows <= SPARSE_BIDS * p.m


def prefers_bit_table(p: ScatterProblem) -> bool:
    held = p.rows * (p.claim.itemsize + p.words.dtype.itemsize)
    return p.m >= MANY and CACHE < held and p.rows <= SPARSE * p.m


SCATTER = (
    Version("one_block", "index.scatter.by_one_block", fits_one_block, reason="few words"),
    Version(
        "bids",
        "index.scatter.by_bids",
        fits_bids,
        prefers_bids,
        "many small elements, not many more rows: each bids for its row by one atomic",
    ),
    Version(
        "bit_table",
        "index.scatter.by_bit_table",
        is_single,
        prefers_bit_table,
        "single elements of a long array: a bit for each row",
    ),
    Version("claims", "index.scatter.by_claims", reason="each row holds the claim of a position"),
)


def scatter(
    x: Layout, values: Layout, *indices: Layout, axis: int, version: str | None = None
) -> Plan:
    """``x[..., indices, ...] = values`` in place; values broadcast to the shape that gather gives;
    the last of equal positions wins. version: a name in SCATTER; by default the preferred one."""
    p = ScatterProblem(x, indices, axis, values)
    if 0 in p.shape or not x.size:  # nothing to move, but positions out of range are an error
        temps: list[Layout] = []
        return Plan([], flat_positions(indices, p.sizes, 2, temps)[0], temps)
    return choose("scatter", SCATTER, p, version)


# -------------------- sums of rows by index

HASHED_ROW = 1024  # bytes of a row: slots take an eighth of the result's memory at most
HASHED_SIZE = 1 << 23  # bytes of the result, below which three launches cost what they save
HASHED_CROWD = 16  # sources for each row, at most
# Sources, at most: those of a text are summed faster up to 65,536 at least, but all of one row
# would take longer then.
HASHED_SOURCES = 1 << 14
FIRST = 1 << 60  # the rank of what was measured to be the fastest where it is preferred


def has_few_sources(p: ScatterAddProblem) -> bool:
    return 0 < p.m <= FEW_SOURCES


def fits_owners(p: ScatterAddProblem) -> bool:
    """One box of long, aligned rows of real numbers, for up to MOST_OWNERS blocks."""
    return aligned_rows(p.box) and p.m > 0 and owners_of(p.box.shape[1]) <= MOST_OWNERS


def fits_slices(p: ScatterAddProblem) -> bool:
    return 0 < p.m < 2**30 and p.box.size > 0 and work.slice_threads(p) > 0


def sooner(microseconds: Callable[[ScatterAddProblem], float]) -> Callable:
    """The rank of a version by its predicted time. The simulator has no clock: the order in the
    table decides there."""
    return lambda p: SIMULATOR or int(1e9 / microseconds(p))


def fits_hash(p: ScatterAddProblem) -> bool:
    _, rows, after = p.box.shape
    return aligned_rows(p.box) and p.m > 0 and rows < 2**31 and after < 2**30


def prefers_hash(p: ScatterAddProblem) -> int:
    _, rows, after = p.box.shape
    return FIRST * (
        after * p.x.itemsize >= HASHED_ROW
        and p.box.size * p.x.itemsize >= HASHED_SIZE
        and p.m <= min(HASHED_SOURCES, HASHED_CROWD * rows)
    )


HASHED = "each source claims a slot of its row"
OWNED = "each block looks for the sources of its rows"
SORTED = "sorted by their destinations"
FOLDED = "few sources: each looks for those of its row"

SLICED = "many sources of few rows: slices of them keep a sum of each row"


def _versions(base: str, *ahead: Version) -> tuple[Version, ...]:
    """The versions of sums by index into `base`: what their files call their planners."""
    few = {"place": "in_place", "copy": "into_copy", "zeros": "into_zeros"}[base]
    return (
        *ahead,
        Version(
            "compare" if base == "place" else "fold",
            f"index.scatter_add_few.{few}",
            has_few_sources,
            sooner(work.fold_microseconds),
            FOLDED,
        ),
        Version(
            "by_owner",
            f"index.scatter_add_by_owner.in_{base}",
            fits_owners,
            sooner(work.owner_microseconds),
            OWNED,
        ),
        Version(
            "sorted",
            f"index.scatter_add_sorted.in_{base}",
            prefers=sooner(work.sort_microseconds),
            reason=SORTED,
        ),
        Version(
            "slices",
            f"index.scatter_add_slices.in_{base}",
            fits_slices,
            sooner(work.slice_microseconds),
            SLICED,
        ),
    )


SCATTER_ADD = _versions("place")
INDEX_ADD = _versions(
    "copy",
    Version(
        "compare",
        "index.scatter_add_few.in_copy",
        has_few_sources,
        sooner(work.compare_microseconds),
        "few sources: each element looks through all indices",
    ),
)
GATHER_GRADIENT = _versions(
    "zeros", Version("hashed", "index.scatter_add_hashed.in_zeros", fits_hash, prefers_hash, HASHED)
)


def scatter_add(
    x: Layout,
    values: Layout,
    *indices: Layout,
    axis: int,
    kind: str = "add",
    version: str | None = None,
) -> Plan:
    """``x[..., indices, ...] += values`` in place, equal indices added in their order; values are
    broadcast. kind: what is done instead of adding, see folding.py. version: a name in SCATTER_ADD;
    by default the preferred one."""
    p = ScatterAddProblem("place", x, values, indices, axis, kind)
    if 0 in p.shape or not x.size:
        temps: list[Layout] = []
        return Plan([], flat_positions(indices, p.sizes, 2, temps)[0], temps)
    return choose("scatter_add", SCATTER_ADD, p, version)


def index_add(
    x: Layout, index: Layout, values: Layout, *, axis: int, version: str | None = None
) -> Plan:
    """``x`` with values[..., j, ...] added at index[j] along an axis; values in the shape that this
    makes. version: a name in INDEX_ADD; by default the preferred one."""
    p = ScatterAddProblem("copy", x, values, (index,), axis)
    return choose("index_add", INDEX_ADD, p, version) if x.size else Plan([x.like()], [])


def gather_grad(
    g: Layout, *indices: Layout, shape: tuple[int, ...], axis: int, version: str | None = None
) -> Plan:
    """Zeros of ``shape`` with g added at the indices: the gradient of ``gather``. version: a name
    in GATHER_GRADIENT; by default the preferred one."""
    p = ScatterAddProblem("zeros", g.like(shape), g, indices, axis)
    return choose("gather_grad", GATHER_GRADIENT, p, version) if p.x.size else Plan([p.x], [])


def sorts(
    name: str, values: Layout, index: Layout, *, shape: tuple[int, ...], sums: int = 1
) -> bool:
    """Whether ``gather_grad`` or ``index_add``, the name, sorts an index of the first axis, or
    would if so many sums shared the sort."""
    base, versions = ("copy", INDEX_ADD) if name == "index_add" else ("zeros", GATHER_GRADIENT)
    p = ScatterAddProblem(base, values.like(shape), values, (index,), 0)
    why = choose(name, versions, p, None).why or ""
    owned = why.endswith(OWNED)
    return why.endswith(SORTED) or (
        owned and work.sorted_sum_microseconds(p, sums) < work.owner_microseconds(p)
    )


# -------------------- the gradient of take_along_axis

FEW_STEPS = 64  # along an axis, that a thread may make one after another


def prefers_columns(p: TakeAlongGradientProblem) -> bool:
    return p.m <= FEW_STEPS


TAKE_ALONG_GRADIENT = (
    Version(
        "columns",
        "index.take_along_gradient.by_columns",
        prefers=prefers_columns,
        reason="short lines: a thread makes all additions of a column",
    ),
    Version("sorted", "index.take_along_gradient.by_sort", reason=SORTED),
)


def take_along_grad(
    g: Layout, index: Layout, *, size: int, axis: int, version: str | None = None
) -> Plan:
    """Zeros of ``size`` along ``axis`` with g[..., j, ...] added at index[..., j, ...], in the
    order of j. version: a name in TAKE_ALONG_GRADIENT; by default the preferred one."""
    p = TakeAlongGradientProblem(g, index, size, axis)
    if not p.out.size:
        return Plan([p.out], [])
    return choose("take_along_grad", TAKE_ALONG_GRADIENT, p, version)


# -------------------- embedding


def has_aligned_rows(p: EmbeddingProblem) -> bool:
    """Rows of whole accesses of 16 bytes."""
    return p.weight.aligned and p.row_bytes % 16 == 0 and not SIMULATOR


EMBEDDING = (
    Version(
        "long_rows",
        "index.embedding.by_long_rows",
        has_aligned_rows,
        reason="rows of half a kilobyte or more: a warp moves a piece of a row",
    ),
    Version("rows", "index.embedding.by_rows", reason="a group of threads per row"),
    Version("plain", "index.embedding.by_elements", reason="a thread per element"),
)


def embedding(
    indices: Layout, weight: Layout, *, classes: int | None = None, version: str | None = None
) -> Plan:
    """indices: (n,) integers below `classes` (None: rows), weight: (rows, columns), C order -> (n,
    columns). version: a name in EMBEDDING; by default the preferred one."""
    rows = weight.shape[0] if classes is None else classes
    return choose("embedding", EMBEDDING, EmbeddingProblem(indices, weight, rows), version)
