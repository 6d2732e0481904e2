"""No access of a kernel's machine code is wider than its arrays are aligned.

Public calls on a fake device of compute capability 9.0, with arrays that begin between the borders
of 16 bytes. What they launch is compiled, and at the launch the address of every array must be a
multiple of the kernel's widest access to it (tests/support/vector_alignment.py).
"""

import numpy as np
import pytest
from vector_alignment import alignments, demanded

import cudamath as cm
from cudamath.core.dispatch import fast_path
from cudamath.core.dispatch.op import registry
from cudamath.kernels.compiler.lazy_numba import SIMULATOR

pytestmark = pytest.mark.skipif(SIMULATOR, reason="the simulator does not compile")

SIZE = 1 << 15  # elements: of fewer, one kernel serves all dtypes, and accesses one at a time


def between(shape, dtype="float32", first=1):
    """An array that begins `first` elements after a border."""
    n = int(np.prod(shape))
    return cm.empty(n + first, dtype)[first:].reshape(shape)


def on_border(shape, dtype="float32"):
    return cm.empty(shape, dtype)


def into_other_alignments():
    """The same call, of which the second writes elsewhere."""
    half = on_border((64, 64), "float16")
    for out in (on_border((64, 64), "float16"), between((64, 64), "float16")):
        cm.matmul(half, half, out=out)
    x, y = on_border(SIZE), on_border(SIZE)
    for out in (on_border(SIZE), between(SIZE)):
        cm.add(x, y, out=out)
    x = on_border((16, SIZE))
    for out in (on_border((16, SIZE)), between((16, SIZE))):
        cm.clip(x, 0, 1, out=out)
        cm.cumsum(x, 1, out=out)


CALLS = {
    "copy": lambda: cm.copy(between(SIZE)),
    "copy of rows": lambda: cm.copy(between((64, 66), "uint8")[:, :64]),
    "copy of transposed": lambda: cm.copy(between((256, 256), "float16").T),
    "cast": lambda: between(SIZE, "float16").astype("float32"),
    "write": lambda: between(SIZE, "uint8").__setitem__(..., on_border(SIZE, "uint8")),
    "write a part": lambda: between((64, 128), "int16").__setitem__(
        (slice(None), slice(0, 64)), between((64, 64), "int16")
    ),
    "fill": lambda: between(SIZE, "uint8").__setitem__(..., 1),
    "fill a part": lambda: between((600, 700), "uint8")[:, :640].__setitem__(..., 1),
    "roll": lambda: cm.roll(between((64, 64), "uint8"), 16, 1),
    "roll of words": lambda: cm.roll(between(SIZE, "float32"), 4),
    "concat": lambda: cm.concat([between(SIZE, "float16"), between(SIZE, "float16", 3)]),
    "add": lambda: between(SIZE, "float16") + between(SIZE, "float16", 2),
    "exp in place": lambda: cm.exp(x := between(SIZE), out=x),
    "sum": lambda: cm.sum(between((64, SIZE), "float16"), 1),
    "sum of columns": lambda: cm.sum(between((SIZE, 64), "float16"), 0),
    "argmax": lambda: cm.argmax(between((64, SIZE), "float16"), 1),
    "cumsum": lambda: cm.cumsum(between((64, SIZE)), 1),
    "softmax": lambda: cm.ml.softmax(between((64, 1024), "float16"), -1),
    "layer_norm": lambda: cm.ml.layer_norm(between((64, 768)), 768, between(768), between(768)),
    "rms_norm": lambda: cm.ml.rms_norm(on_border((64, 768)), 768, between(768)),
    "cross_entropy": lambda: cm.ml.cross_entropy(
        between((64, 1000), "float16"), cm.zeros(64, "int32")
    ),
    "embedding": lambda: cm.ml.embedding(cm.zeros(64, "int32"), between((100, 768), "float16")),
    "take": lambda: cm.take(between((100, 64)), cm.zeros(64, "int32"), axis=0),
    "matmul": lambda: between((64, 64), "float16") @ between((64, 64), "float16"),
    "linear": lambda: cm.ml.linear(between((8, 256), "float16"), between((64, 256), "float16")),
    "conv2d": lambda: cm.ml.conv2d(between((4, 8, 16, 16)), between((8, 8, 3, 3)), padding=1),
    "max_pool2d": lambda: cm.ml.max_pool2d(between((4, 8, 16, 16), "float16"), 2),
    "where": lambda: cm.where(between(SIZE, "bool"), between(SIZE), between(SIZE)),
    "dropout": lambda: cm.ml.dropout(between(SIZE, "float16"), 0.5),
    "gelu gradient": lambda: cm.grad(lambda x: cm.ml.gelu(x).sum())(between(SIZE, "float16")),
    "out=": into_other_alignments,
}
#: In every run of the suite: the others take a second each.
OFTEN = {"copy of rows", "write a part", "roll", "fill", "add", "out="}


@pytest.fixture
def checked(fake, monkeypatch):
    """A fake device on which nothing is computed and every access's alignment is checked."""
    fake.poisons, fake.idle, fake.alignments = False, True, alignments
    forget()
    with cm.device("cuda"):
        yield fake
    forget()


def forget():
    for op in registry.values():
        for name in ("plans", "views"):
            getattr(op, name, {}).clear()
    fast_path.forget()


@pytest.mark.parametrize(
    "name",
    [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in CALLS],
)
def test_accesses_of_a_call(checked, name):
    CALLS[name]()
    cm.cuda.synchronize()
    assert checked.launches and any(checked.demands.values())


def test_accesses_through_a_table_of_addresses(checked):
    """Parameters that a step's one launch finds by their addresses."""
    p, g = [between((64, 64)), on_border(999)], [between((64, 64)), on_border(999)]
    cm.ml.sgd_update(p, g, None, lr=0.1)
    cm.cuda.synchronize()
    assert any(through for demand in checked.demands.values() for _, through in demand)


def test_a_wide_access_is_seen_through_computed_addresses():
    ptx = """
    ld.param.u64 %rd1, [kernel_param_4];
    ld.param.u32 %r1, [kernel_param_7];
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.s32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    @%p1 ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4+16];
    ld.global.u64 %rd5, [%rd2+8];
    st.global.v2.b32 [%rd5], {%r1, %r1};
    st.shared.v4.b32 [%rd4], {%r1, %r1, %r1, %r1};
    """
    assert demanded(ptx, {4: 0}) == {(0, False): 16, (0, True): 8}


def test_a_weaker_alignment_is_refused(checked):
    """What the other tests rely on: a launch as it must not be."""
    x = between(SIZE)
    cm.copy(x)
    place = next(iter(checked.demands))
    checked.demands[place] = {(0, False): 16}
    with pytest.raises(AssertionError, match="an access of 16 bytes to argument 0"):
        cm.copy(x)
