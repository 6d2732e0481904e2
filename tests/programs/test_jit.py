"""`cm.jit`: what it promises about arguments, results, state, errors and repeated traces."""

from __future__ import annotations

import gc
import tracemalloc
import warnings
from typing import Any

import numpy as np
import pytest
from in_place_writes import WRITES

import cudamath as cm
from cudamath.core import recording, tracing
from cudamath.core.array import ndarray
from cudamath.core.devices import TRACED, device_of
from cudamath.core.dispatch.call_record import unrecorded
from cudamath.core.dispatch.op import registry
from cudamath.core.layout import Layout
from cudamath.core.scalar import inside
from cudamath.core.specs.reductions import REDUCTIONS
from cudamath.fuse import kernels_of
from cudamath.ops.ufunc import Elementwise
from cudamath.programs import fusion
from cudamath.programs.memory_plan import memory_plan
from cudamath.programs.program import RESULT, Block, Node, Program, View


@pytest.fixture(autouse=True)
def cpu():
    with cm.device("cpu"):
        yield


def test_a_function_runs_once_for_each_layout_and_constant(capsys):
    @cm.jit
    def f(x, n, flag=False):
        print(repr(n))
        return x * n + flag

    x = cm.ones(3)
    for n in (2, 2.0, True, 2, 2.0, True):
        assert f(x, n).tolist() == [n + 0.0] * 3
    assert capsys.readouterr().out.split() == ["2", "2.0", "True"]
    f(cm.ones(4), 2), f(cm.ones(3, dtype="float32"), 2), f(x, 2, flag=True)
    assert f.traces == 6


def test_zero_and_minus_zero_are_two_constants():
    f = cm.jit(lambda x, c: cm.copysign(x, c))
    x = cm.ones(1)
    assert [f(x, c).tolist() for c in (0.0, -0.0, 0.0, -0.0)] == [[1.0], [-1.0]] * 2


def test_static_arguments():
    f = cm.jit(
        lambda x, how, *, axis: getattr(x, how)(axis), static_argnums=1, static_argnames="axis"
    )
    x = cm.arange(6.0).reshape(2, 3)
    for _ in range(2):
        assert f(x, "sum", axis=0).tolist() == [3, 5, 7]
        assert f(x, "max", axis=1).tolist() == [2, 5]
    assert f.traces == 2
    with pytest.raises(TypeError, match=r"jit: arguments of .* must be arrays or hashable .*'set'"):
        f(x, {1}, axis=0)


def test_trees_and_other_leaves_return():
    f = cm.jit(lambda p: {"w": [p["w"] * 2, None], "name": "model", "n": (p["n"], 3)})
    for k in range(3):
        out = f({"w": cm.full(2, float(k)), "n": 7})
        assert out["w"][0].tolist() == [2.0 * k] * 2 and out["w"][1] is None
        assert out["name"] == "model" and out["n"] == (7, 3)


def test_numpy_arguments_are_read_at_each_call():
    f, x = cm.jit(lambda x, s: x * s), np.ones(2)
    for k in range(3):
        x[:] = k
        assert f(x, np.float64(k)).tolist() == [k * k] * 2
    assert f.traces == 1


def test_scalars_are_numpys_on_the_cpu_and_do_not_change():
    @cm.jit
    def f(x):
        total = x.sum()
        before = total
        total += 1
        return before, total, x[0], cm.zeros(())

    for k in range(3):
        before, total, element, array = f(cm.full(2, float(k)))
        assert (before, total, element) == (2 * k, 2 * k + 1, k)
        assert [type(v) for v in (before, total, element)] == [np.float64] * 3
        assert type(array) is type(cm.zeros(()))


def test_arguments_return_as_themselves_and_views_share_memory():
    f = cm.jit(lambda x: (x, x[1:], x + 1))
    for _ in range(3):
        x = cm.zeros(3)
        same, part, new = f(x)
        assert same is x
        part[...] = 5
        new[...] = 9
        assert x.tolist() == [0, 5, 5]


def test_results_that_share_memory_share_it_at_each_call():
    def f(x):
        y = x * 2
        return y, y[::-1], y

    jitted = cm.jit(f)
    for _ in range(3):
        y, turned, again = jitted(cm.ones(3))
        y[0] = 7
        assert again is y and turned.tolist() == [2, 2, 7]


def test_empty_parts_have_the_order_of_their_array():
    """The order of a result, and so of the sums over it, may follow an empty operand."""

    def f(x):
        return cm.concat([x[:, :4] * 2, x[:, 4:] * 3, x[:, 8:]], axis=1)

    jitted = cm.jit(f)
    for k in range(3):
        x = cm.full((8, 2), float(k)).T
        assert jitted(x).strides == f(x).strides


def test_the_same_array_twice():
    f = cm.jit(lambda x, y: x - 2 * y)
    x, y = cm.full(2, 3.0), cm.full(2, 5.0)
    for _ in range(2):
        assert f(x, x).tolist() == [-3, -3]
        assert f(x, y).tolist() == [-7, -7]
        assert f(y, x).tolist() == [-1, -1]
    assert f.traces == 2


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_writes_into_arguments_that_overlap(shift: int):
    def f(x, y):
        x += 1
        y *= 2
        return x + 1

    jitted = cm.jit(f)
    for _ in range(3):
        ours, plain = cm.arange(4.0), cm.arange(4.0)
        a = jitted(ours[:2], ours[shift : shift + 2])
        b = f(plain[:2], plain[shift : shift + 2])
        assert a.tolist() == b.tolist() and ours.tolist() == plain.tolist()


def test_a_captured_array_is_read_and_written_by_reference():
    state, table = cm.zeros(2), cm.arange(3.0)

    @cm.jit
    def f(x):
        state.__iadd__(x)
        return table[1:] + x

    for k in range(1, 4):
        table[...] = k
        assert f(cm.ones(2)).tolist() == [k + 1, k + 1]
        assert state.tolist() == [k, k]


def test_a_captured_array_that_is_an_argument_once():
    w = cm.ones(2)
    f = cm.jit(lambda x: x * 10 + w)
    assert f(w).tolist() == [11, 11]
    assert f(cm.zeros(2)).tolist() == [1, 1] and f(w).tolist() == [11, 11]


def test_arrays_made_inside_begin_anew_at_each_call():
    def f(x):
        made = cm.array([1.0, 2.0])
        zeros = cm.zeros(2)
        numpys = cm.asarray(np.ones(2, np.float32), dtype="float64")
        for a in (made, zeros, numpys):
            a += x
        return made, zeros, numpys, cm.array([4.0])

    jitted = cm.jit(f)
    for k in range(4):
        out = jitted(cm.full(2, float(k)))
        assert [y.tolist() for y in out] == [[1 + k, 2 + k], [k, k], [1 + k, 1 + k], [4]]
        out[3][...] = -1


@pytest.mark.parametrize("name", WRITES)
def test_every_way_to_write(name: str):
    def f(x, y):
        before = x * 1
        WRITES[name](x)
        return before, x + y

    jitted = cm.jit(f)
    try:
        jitted(cm.arange(3.0), cm.ones(3))
    except cm.TraceError as error:
        assert "in_place_writes.py" in str(error)
        assert name in ("mask", "place", "copy_to", "random"), error
        return
    for k in range(3):
        ours, plain = cm.arange(3.0) + k, cm.arange(3.0) + k
        for a, b in zip(jitted(ours, cm.ones(3)), f(plain, cm.ones(3)), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        assert ours.tolist() == plain.tolist()


def test_a_read_only_argument_is_refused_at_each_call():
    f = cm.jit(lambda x: x.__setitem__(0, 1.0))
    f(cm.zeros(2))
    locked = np.zeros(2)
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        f(cm.asarray(locked))
    assert locked.tolist() == [0, 0]


def test_training_steps_and_state():
    def step(params, state, x, y):
        def loss(p):
            return ((cm.tanh(x @ p["a"]) @ p["b"] - y) ** 2).mean()

        value, grads = cm.value_and_grad(loss)(params)
        params, state = cm.ml.adamw_update(params, grads, state, lr=0.05)
        return value, params, state

    def train(step):
        rng = np.random.default_rng(0)
        params = {"a": cm.array(rng.normal(size=(3, 4))), "b": cm.array(rng.normal(size=4))}
        state, losses = cm.ml.adam_init(params), []
        for _ in range(6):
            x, y = cm.array(rng.normal(size=(5, 3))), cm.array(rng.normal(size=5))
            value, params, state = step(params, state, x, y)
            losses.append(float(value))
        return losses, params["a"].tolist(), state["step"].tolist()

    jitted = cm.jit(step, donate_argnums=(0, 1))
    assert train(jitted) == train(step) and jitted.traces == 1


def test_draws_go_on_with_the_sequence_and_checkpoints_repeat_them():
    def f(x, rng):
        noisy = cm.checkpoint(lambda x: cm.ml.dropout(cm.sin(x), 0.5, rng=rng))
        return cm.value_and_grad(lambda x: (noisy(x) ** 2).sum())(x), rng.uniform(size=2)

    one, other = cm.random.default_rng(5), cm.random.default_rng(5)
    jitted, x = cm.jit(f), cm.arange(8.0)
    for _ in range(3):
        (a, da), u = jitted(x, one)
        (b, db), v = f(x, other)
        assert a == b and da.tolist() == db.tolist() and u.tolist() == v.tolist()
    assert jitted.traces == 1


def test_the_default_generator_and_its_seed():
    f = cm.jit(lambda x: x + cm.random.normal(size=2))
    cm.random.seed(1)
    f(cm.zeros(2))
    again = []
    for function in (f, f.fn):
        cm.random.seed(7)
        again.append([function(cm.zeros(2)).tolist() for _ in range(2)])
    assert again[0] == again[1] and again[0][0] != again[0][1]


def test_gradients_outside_and_nested_functions():
    inner = cm.jit(lambda x: cm.sin(x).sum())
    outer = cm.jit(lambda x: inner(x * 2) + inner(x))
    x = cm.array([0.5, 1.0])
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(cm.grad(inner)(x)), np.cos([0.5, 1.0]), 1e-15)
        expected = np.sin([1.0, 2.0]).sum() + np.sin([0.5, 1.0]).sum()
        np.testing.assert_allclose(outer(x), expected, 1e-15)
    assert inner.traces == 0 and outer.traces == 1


READS = {
    "float": lambda x: float(x.sum()),
    "if": lambda x: x if x.sum() > 0 else -x,
    "item": lambda x: x[0].item(),
    "int": lambda x: range(int(x[0])),
    "to_numpy": lambda x: np.sin(x.to_numpy()),
    "print": lambda x: print(x),
    "format": lambda x: f"{x.sum():.3f}",
    "tolist": lambda x: x.tolist(),
    "any": lambda x: any(x > 0),
    "mask": lambda x: x[x > 0],
    "nonzero": lambda x: cm.nonzero(x),
    "unique": lambda x: cm.unique(x),
    "copy_to": lambda x: (x * 2).copy_to(cm.zeros(3)),
}


@pytest.mark.parametrize("name", READS)
def test_errors_name_the_line(name: str):
    line = READS[name].__code__.co_firstlineno
    with pytest.raises(cm.TraceError, match=rf"^jit: <lambda> .* at .*test_jit.py:{line}: "):
        cm.jit(READS[name])(cm.ones(3))


def test_what_no_op_has_made_is_refused():
    with pytest.raises(cm.TraceError, match="no operation of cudamath made"):
        cm.jit(lambda x: cm.packbits(x > 0) + 1)(cm.ones(8))


def test_a_function_works_again_after_an_error():
    f = cm.jit(lambda x, flag: float(x.sum()) if flag else x.sum())
    with pytest.raises(cm.TraceError):
        f(cm.ones(2), True)
    assert [f(cm.ones(2), False) for _ in range(2)] == [2, 2]


def test_repeated_traces_are_reported():
    f = cm.jit(lambda x, lr: x * lr)
    with pytest.warns(RuntimeWarning, match=r"traced 8 times, because a value .* 0-d array"):
        for k in range(8):
            f(cm.ones(2), 0.1 * k)
    g = cm.jit(lambda x: x * 2)
    with pytest.warns(RuntimeWarning, match=r"traced 8 times, because the layout of an array"):
        for k in range(8):
            g(cm.ones(k + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(20):
            f(cm.ones(2), cm.asarray(0.1 * k))


def test_settings_that_results_depend_on():
    f = cm.jit(lambda x: cm.zeros(2) + x)
    try:
        assert f(cm.ones(2, dtype="float32")).dtype == np.float64
        cm.set_default_dtype("float32")
        assert f(cm.ones(2, dtype="float32")).dtype == np.float32
    finally:
        cm.set_default_dtype("float64")


# -------------------- simplification


def operations(f, *arrays) -> list[str]:
    jitted = cm.jit(f)
    jitted(*arrays)
    (program,) = jitted.programs()
    return [node.name for node in program.nodes]


def test_programs_are_simplified():
    x, i = cm.ones(3, dtype="float32"), cm.arange(3)
    sin = ["sin", "add"]
    assert operations(lambda x: cm.sin(x) + cm.sin(x), x) == sin
    assert operations(lambda x: (cm.cos(x), cm.sin(x) + 1)[1], x) == sin
    assert operations(lambda x: cm.sin(x.astype("float64").astype("float32")) + 1, x) == sin
    assert operations(lambda x: cm.sin(x.copy()) + 1, x) == sin
    assert operations(lambda x: cm.sin(x) + cm.full(3, 2.0, dtype="float32") * 3, x) == sin

    def layer(x, k):
        return x * k + cm.cos(cm.arange(20_000, dtype="float64"))  # a table, too large to keep

    wide = cm.ones(20_000)
    assert operations(lambda x: layer(layer(x, 2), 3), wide).count("cos") == 1
    # these round, are seen, or change
    assert operations(lambda x: x.astype("float16").astype("float32") + 1, x)[:2] == ["astype"] * 2
    assert operations(lambda i: i.astype("float32").astype("int64") + 1, i)[:2] == ["astype"] * 2
    assert operations(lambda x: x.copy(), x) == ["copy"]
    assert operations(lambda x: (cm.sin(x), cm.sin(x)), x) == ["sin"] * 2
    assert operations(lambda x: (y := x.copy(), x.__iadd__(1), y + 1)[2], x)[0] == "copy"


def overwritten(x, y):
    """A result is overwritten by another one, and read before and after that."""
    z = cm.sin(x)
    before = z * 2
    z[...] = cm.cos(y)
    return before + z.reshape(-1)


def overwritten_and_more(x, y):
    z = overwritten(x, y)
    z[:] = cm.exp(z)
    z[0] += 1  # a part, of what is new
    return z


def read_from_an_argument(x, y):
    z = cm.sin(x)
    z[...] = y
    y += 1
    return z * 2


def by_what_lies_across(x, y):
    z = (cm.outer(x, y) + 1).copy()
    z[...] = cm.outer(y, x).T * 2
    return z.sum(1), z.reshape(-1) * 3


def returned_twice(x, y):
    z, new = cm.sin(x), cm.cos(x)
    z[...] = new
    return z, new


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        (overwritten, 0),
        (overwritten_and_more, 2),
        (by_what_lies_across, 1),
        (read_from_an_argument, 2),
        (returned_twice, 1),
    ],
)
def test_what_is_overwritten_is_something_new(function, copies):
    """Later operations read what was written; where others can tell, the copy is made."""
    data = [np.linspace(0, 1, 4), np.linspace(3, 4, 4)]
    wanted = function(*map(cm.array, data))
    jitted = cm.jit(function)
    for _ in range(3):
        found = jitted(*map(cm.array, data))
        for a, b in zip(cm.tree.leaves(found), cm.tree.leaves(wanted), strict=True):
            np.testing.assert_array_equal(a.to_numpy(), b.to_numpy())
    assert [node.name for node in jitted.programs()[0].nodes].count("copy_into") == copies
    first, *rest = cm.tree.leaves(found)
    first += 1
    for other, exact in zip(rest, cm.tree.leaves(wanted)[1:], strict=True):
        np.testing.assert_array_equal(other.to_numpy(), exact.to_numpy())


def every_card() -> dict:
    """All cards, those of modules that are loaded when they are named included."""
    for module in (cm, cm.ml):
        for name in dir(module):
            getattr(module, name)
    return dict(registry)


@pytest.mark.parametrize(
    "dtype, way, value",
    [
        ("int64", "float64", (1 << 53) + 1),
        ("int32", "float32", (1 << 24) + 1),
        ("float64", "int64", 1.5),
        ("float64", "float32", 1 + 2.0**-40),
        ("int64", "int32", (1 << 32) + 5),
    ],
)
def test_casts_there_and_back_that_lose_digits_are_made(dtype, way, value):
    x = np.array([value, 3], dtype)
    there_and_back = cm.jit(lambda x: x.astype(way).astype(dtype) + 0)
    for _ in range(2):  # as it is traced, and its program
        back = there_and_back(cm.asarray(x)).to_numpy()
        np.testing.assert_array_equal(back, x.astype(way).astype(dtype))
        assert back[0] != x[0]


def test_every_card_has_a_rule():
    """What is fused needs no reason; what stands alone, or is refused, has one of its own or that
    of its family."""
    cards = every_card()
    for name, op in cards.items():
        kind, why = fusion.rule(op)
        assert kind in ("view", "fused") and not why or kind in ("alone", "refused") and why, name
    assert {*fusion.REFUSED} <= {*cards}
    families = {op.cuda.partition(".")[0] for op in cards.values() if hasattr(op, "cuda")}
    assert {*fusion.FAMILIES} <= families


SHAPES = [(3, 8), (3, 8), (3, 1), (8,), (3, 8), (1, 1)]


def _made(op: Any, dtype: Any) -> ndarray:
    """The result of a card on traced arrays."""
    if isinstance(op, Elementwise):
        return op(*[tracing.argument(SHAPES[i], dtype, i) for i in range(op.nin)])
    x, y = (tracing.argument(SHAPES[i], dtype, i) for i in range(2))
    if op.name == "where":
        return cm.where(x > 0, x, y)
    if op.name == "where_number":
        return cm.where(x > 0, x, 2.0)
    if op.name in ("copy", "astype"):
        return x.copy() * 2 if op.name == "copy" else x.astype("float64")
    if op.name == "roll":
        return cm.roll(x, 3, axis=1)
    kind = next(r for r in REDUCTIONS.values() if r.op == op.name)
    return getattr(cm if hasattr(cm, kind.name) else cm.special, kind.name)(x, axis=-1)


def test_what_is_said_to_be_fused_is():
    """Each such card becomes a symbol, and kernels are made of it and its neighbour."""
    fused = [op for op in every_card().values() if fusion.rule(op)[0] == "fused"]
    assert len(fused) > 150
    for op in fused:
        errors = []
        for dtype in map(np.dtype, ("float32", "int32", "bool", "complex64", "uint32", "float64")):
            with (
                unrecorded(),
                recording.paused(),
                inside(),
                cm.device("cpu"),
                device_of(TRACED),
            ):
                try:
                    y = _made(op, dtype)
                    layouts = [Layout.new(s, dtype, 0) for s in SHAPES]
                    kernels_of([cm.where(y == y, y, 0)], layouts)
                    break
                except (TypeError, ValueError) as error:
                    errors.append(f"{dtype}: {error}")
        else:
            raise AssertionError((op.name, errors))


def test_what_is_said_to_be_alone_is_not_fused():
    """The passes ask the same question: no card that stands alone may join a region."""
    layout = Layout.new((4, 8), np.dtype("float32"), 0)
    x = View(Block("argument", layout), layout, 0)
    for name, op in every_card().items():
        node = Node(op, (x,), (), {}, None, (Block(RESULT, layout),), False)
        kind = fusion.rule(op)[0]
        if kind in ("alone", "refused"):
            assert fusion.fusible(node), name
        elif isinstance(op, Elementwise):
            assert not fusion.fusible(node), name


# -------------------- memory


def test_blocks_that_live_together_lie_apart():
    rng = np.random.default_rng(0)
    for _ in range(200):
        argument = Block("argument", Layout.new((4,), np.dtype("f8"), -1))
        blocks, nodes = [argument], []
        for _ in range(int(rng.integers(1, 30))):
            made = tuple(
                Block(RESULT, Layout.new((int(rng.integers(1, 400)),), np.dtype("f8"), -1), j)
                for j in range(int(rng.integers(1, 3)))
            )
            reads = [blocks[i] for i in rng.integers(0, len(blocks), 2)]
            operands = tuple(View(b, b.layout, 0) for b in reads)
            nodes.append(Node(registry["copy"], operands, (), {}, None, made, True))
            blocks += made
        returned = [View(blocks[i], blocks[i].layout, 0) for i in rng.integers(0, len(blocks), 2)]
        program = Program([argument], nodes, returned, -1)
        plan = memory_plan(program)
        for a, one in plan.lifetimes.items():
            assert plan.offsets[a] + a.layout.nbytes <= plan.total
            for b, other in plan.lifetimes.items():
                together = one.first <= other.last and other.first <= one.last
                if a is not b and together:
                    low, high = plan.offsets[a], plan.offsets[b]
                    assert low + a.layout.nbytes <= high or high + b.layout.nbytes <= low
        assert plan.peak <= plan.total


def test_a_program_holds_what_its_plan_says():
    def chain(x):
        for _ in range(12):
            x = cm.cumsum(x * 1.5) - 1
        return x

    jitted, x = cm.jit(chain), cm.ones(1 << 16)
    jitted(x), jitted(x)
    gc.collect()
    plan = memory_plan(jitted.programs()[0])
    assert plan.total == plan.peak == 2 * x.nbytes
    tracemalloc.start()
    try:
        jitted(x)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= plan.peak + (64 << 10)


def test_explain_tells_the_program(capsys):
    f = cm.jit(lambda x: (cm.sin(x) + cm.sin(x)).sum())
    text = cm.explain(f, cm.ones((2, 3)))
    assert text in capsys.readouterr().out and "simplified: 4 operations became 3" in text
    assert "sin(float64 (2, 3)) -> float64 (2, 3) at" in text and "memory: " in text


def test_a_profile_is_taken_beside_programs():
    jitted = cm.jit(lambda x: cm.exp(x) + 1)
    x = cm.ones(3, device="cpu")
    jitted(x)
    with cm.device("cpu"), cm.cuda.profile() as report:
        cm.exp(x)
    assert "exp" in str(report)
    assert jitted(x).tolist() == (np.exp(np.ones(3)) + 1).tolist()
