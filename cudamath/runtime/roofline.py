"""What a launch or a library call has to do, and how fast a device could at most: what the
profiler's roofline is made of.

Each launch's argument block (module.Block) ends with words that no kernel reads, its operations and
their unit. They are written once, with the block, so a launch costs the same whether somebody
profiles or not.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from . import device as devices


class Work(NamedTuple):
    """operations: multiplications and additions, where they are known; unit: the key of PER_CLOCK
    that does them, if it is one; nbytes: of the arrays that a library call reads and writes (those
    of a kernel are read from its arguments)."""

    operations: float | None = None
    unit: str = ""
    nbytes: int | None = None

    def words(self) -> tuple[int, int]:
        """Operations (0 where they are not known) as the bits of a float64, and the number of the
        unit (-1: none)."""
        bits = struct.unpack("<q", struct.pack("<d", self.operations or 0.0))
        return bits[0], UNITS.index(self.unit) if self.unit in UNITS else -1

    @classmethod
    def read(cls, bits: int, unit: int, nbytes: int) -> Work:
        """What such words say."""
        (operations,) = struct.unpack("<d", struct.pack("<q", bits))
        return cls(operations or None, "" if unit < 0 else UNITS[unit], nbytes)


UNKNOWN = Work()

#: Operations (a multiplication and an addition are two) of one multiprocessor in a clock, dense,
#: from NVIDIA's data sheets; on tensor cores where they take the type, sums in float32 or int32
#: (some consumer boards do half of that in 16 bits). A capability that is not here counts as the
#: newest before it.
PER_CLOCK: dict[tuple[int, int], dict[str, int]] = {
    (7, 5): {
        "float64": 4,
        "float32": 128,
        "tf32": 128,
        "float16": 1024,
        "bfloat16": 128,
        "int8": 2048,
        "float8": 128,
    },
    (8, 0): {
        "float64": 128,
        "float32": 128,
        "tf32": 1024,
        "float16": 2048,
        "bfloat16": 2048,
        "int8": 4096,
        "float8": 128,
    },
    (8, 6): {
        "float64": 4,
        "float32": 256,
        "tf32": 512,
        "float16": 1024,
        "bfloat16": 1024,
        "int8": 2048,
        "float8": 256,
    },
    (8, 9): {
        "float64": 4,
        "float32": 256,
        "tf32": 512,
        "float16": 1024,
        "bfloat16": 1024,
        "int8": 2048,
        "float8": 2048,
    },
    (9, 0): {
        "float64": 256,
        "float32": 256,
        "tf32": 2048,
        "float16": 4096,
        "bfloat16": 4096,
        "int8": 8192,
        "float8": 8192,
    },
    (10, 0): {
        "float64": 128,
        "float32": 256,
        "tf32": 4096,
        "float16": 8192,
        "bfloat16": 8192,
        "int8": 16384,
        "float8": 16384,
    },
    (12, 0): {
        "float64": 4,
        "float32": 256,
        "tf32": 512,
        "float16": 1024,
        "bfloat16": 1024,
        "int8": 2048,
        "float8": 2048,
    },
}
UNITS = tuple(PER_CLOCK[9, 0])


def peak(index: int, unit: str) -> float:
    """Operations per second that a device could do at its highest clock, 0 if unknown. Under a
    heavy load the clock falls below that: an H200 in bfloat16 is sold as 989 TFLOP/s, and comes to
    1,070 here."""
    about = devices.info(index)
    capabilities = [capability for capability in PER_CLOCK if capability <= about.capability]
    return (
        about.multiprocessors * about.clock * PER_CLOCK[max(capabilities)].get(unit, 0)
        if capabilities
        else 0.0
    )
