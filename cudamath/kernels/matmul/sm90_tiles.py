"""The tiles of products by wgmma (sm90.py): which there are, how they are written in tables of
measurements, what they cost, and which of them suit the sizes."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...runtime import device as devices
from ..lib.integers import blocks
from .problem import Product

_TEXT = re.compile(r"(\d{1,4})x(\d{1,4})( pingpong)?(?: split (\d{1,4}))?(?: share (\d{1,4}))?")


class Choice(NamedTuple):
    """A choice for `wgmma`: the tile of C, whether warpgroups take turns, the parts of k, or how
    many blocks of a cluster share the k of one tile."""

    m: int
    n: int
    pingpong: bool = False
    splits: int = 1
    share: int = 1

    @classmethod
    def parse(cls, text: str) -> Choice:
        """From text: "128x256", which "pingpong", "split 4" and "share 4" may follow. ValueError
        for any other."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(
                f"matmul: a tile is written like 128x256 pingpong split 2, got {text!r:.60}"
            )
        m, n, pingpong, splits, share = match.groups()
        return cls(int(m), int(n), pingpong is not None, int(splits or 1), int(share or 1))

    @property
    def exists(self) -> bool:
        """Whether the kernel has such a tile."""
        return (
            (self.m, self.n, self.pingpong) in {*COSTS, *LOW}
            and self.splits in SPLITS
            and 1 <= self.share <= MOST_SHARE
            and (self.share == 1 or self.splits == 1 and not self.pingpong)
        )

    def __str__(self) -> str:
        words = [
            f"{self.m}x{self.n}",
            "pingpong" * self.pingpong,
            f"split {self.splits}" * (self.splits > 1),
            f"share {self.share}" * (self.share > 1),
        ]
        return " ".join(w for w in words if w)


#: What a slab of k and the rest of a tile cost on an H200, in microseconds under steady load, by
#: tile; "pingpong" hides the rest behind the other warpgroup's tile. From measurements of 2,048 to
#: 8,192: enough to rank tiles, not to foretell times.
COSTS: dict[tuple[int, int, bool], tuple[float, float]] = {
    (128, 256, False): (0.75, 2.5),
    (64, 256, True): (0.41, 0.2),
    (128, 192, False): (0.58, 2.0),
    (128, 128, False): (0.41, 1.2),
    (128, 128, True): (0.43, 0.3),
    (128, 64, False): (0.29, 0.8),
    (64, 128, False): (0.29, 0.7),
    (64, 64, False): (0.2, 0.5),
    (256, 128, False): (0.76, 2.5),
    (192, 128, False): (0.6, 2.0),
    (192, 192, False): (0.88, 3.0),
}
#: Tiles for products whose sums are short: memory limits them.
LOW: tuple[tuple[int, int, bool], ...] = (
    (256, 64, False),
    (128, 64, True),
    (64, 128, True),
    (256, 128, False),
    (192, 128, False),
)
SPLITS = (1, 2, 4, 8)  # parts of k
MOST_SHARE = 8  # blocks of a cluster, on any device
SHARES = (2, 4)  # of which every group of multiprocessors holds whole ones
GATHERED = (1.5, 0.2)  # microseconds until a tile's sums are together, and more for each block
MOST_PARTS = 4  # matrices B that are arrays of their own
PARTS = 2.5  # microseconds of a second kernel that sums parts


def choices(
    m: int, k: int, n: int, batch: int, multiprocessors: int, whole: bool = False, itemsize: int = 2
) -> list[Choice]:
    """Tiles and splits, those that should be fastest first; `whole`: without splits, but perhaps
    with clusters that share k. A slab has 128 bytes of k, and takes the same time whatever numbers
    these are."""
    slabs = blocks(k * itemsize, 128)
    ranked = []
    for (tile_m, tile_n, pingpong), (slab, rest) in COSTS.items():
        for splits in (1,) if whole else SPLITS:
            tiles = blocks(m, tile_m) * blocks(n, tile_n) * batch * splits
            if splits > 1 and (tiles > 2 * multiprocessors or slabs < 4 * splits):
                continue
            time = blocks(tiles, multiprocessors) * (slab * blocks(slabs, splits) + rest)
            if splits > 1:
                time += (
                    PARTS + batch * m * n * 4e-6 * splits / 2
                )  # parts are written and read at some 4 TB/s
            ranked.append((time, Choice(tile_m, tile_n, pingpong, splits)))
        tiles = blocks(m, tile_m) * blocks(n, tile_n) * batch
        for share in SHARES if whole and itemsize > 1 and not pingpong else ():
            if tiles * share <= multiprocessors and slabs >= 4 * share:
                time = slab * blocks(slabs, share) + rest + GATHERED[0] + GATHERED[1] * (share - 1)
                ranked.append((time, Choice(tile_m, tile_n, False, 1, share)))
    return [choice for _, choice in sorted(ranked)]


def contenders(
    m: int, k: int, n: int, batch: int, multiprocessors: int, itemsize: int = 2
) -> list[Choice]:
    """The choices to be timed: the best ranked, and where tiles are few, those with as many blocks
    that share k as there is room for."""
    ranked = choices(m, k, n, batch, multiprocessors, False, itemsize)
    best = ranked[:7]
    for choice in ranked:
        tiles = blocks(m, choice.m) * blocks(n, choice.n) * batch
        share = min(multiprocessors // tiles, k * itemsize // (4 * 128), MOST_SHARE)
        if (
            itemsize > 1
            and share > 1
            and choice.splits == 1
            and not choice.pingpong  # sums in float32
            and tiles * share >= 0.7 * multiprocessors
        ):
            best.append(choice._replace(share=share))
    return best


def choose(p: Product, device: int, whole: bool = False, itemsize: int = 2) -> Choice:
    """The tile that suits the sizes, and the splits unless `whole`."""
    return choices(p.m, p.k, p.n, p.batch, devices.multiprocessors(device), whole, itemsize)[0]


def is_tile(text: str, whole: bool = False) -> bool:
    """Whether a text names a tile; `whole`: one whose sums come together in the kernel."""
    try:
        choice = Choice.parse(text)
    except ValueError:
        return False
    return choice.exists and not (whole and choice.splits > 1)
