"""Replays of calls with options, of several launches, and of views: results, launches and skipped
checks."""

import importlib
import itertools

import numpy as np
import pytest
from simulated_gpu import simulated_gpu

import cudamath as cm
from cudamath.core.dispatch.checks import require
from cudamath.kernels.elementwise import average as elementwise_average
from cudamath.testing import assert_close, layout_of, simulate

IMAGES = (2, 2, 4, 5)


def masked(m, x):
    """Numbers written where a mask holds, of the array's shape and broadcast."""
    y, z = x.astype("float16"), x.astype("bfloat16")
    y[y > 0], z[:, x[0] > 0] = float("inf"), -2.5
    z[x < -1] = float("nan")
    return m.where(m.isnan(z), 7, y.astype("float32") - z.astype("float32"))


def into(m, function, x, *others):
    """The result of a function that writes it into an array of x's shape."""
    out = m.ones_like(x)
    found = function(x, *others, out=out)
    assert found is out
    return out + 0.0


def shifted(m, x):
    """Each element and its predecessor's old value."""
    y = x.copy()
    m.add(y[1:], y[:-1], out=y[1:])
    return y


def filled(m, x, value):
    """With another diagonal."""
    y = x.copy()
    m.fill_diagonal(y, value)
    return y


def put(m, x, mask, values):
    """With other elements where the mask holds."""
    y = x.copy()
    m.putmask(y, mask, values)
    return y


def listed(x, column=0):
    """With numbers written by lists, or with a column doubled."""
    y = x.copy()
    if column:
        y[:, column] *= 2
        y[1:] += y[:1]
    else:
        y[[0, -1]] = 1.5
        y[[1]] = x[:1]
    return y


def copied(m, x):
    """With what another array has where it is larger."""
    y, z = x.copy(), x.copy()
    m.copyto(y, x + 1, where=x > 0)
    m.copyto(z, y)
    z[...] = z * 2
    y.fill(3)
    return y * z


def masked_copy(m, x, source, mask):
    """Another array's elements where a mask holds, which may be a part of what is written."""
    y = x.copy()
    for _ in range(2):
        m.copyto(y, source, where=mask)
    m.copyto(y, y[::-1], where=mask)
    if y.dtype == "bool":
        m.copyto(y, source, where=y[:, ::-1])
    return y.astype("float64")


def by_itself(x):
    """A mask changed where its own transpose holds."""
    y = x > 0
    y[y.T] = True
    return y.astype("float64")


def listed_flat(m, x, places, values):
    """With other elements, counted through."""
    y = x.copy()
    m.put(y, m.asarray(places, device=x.device), values)
    return y


def own_places(m, x):
    """Written at places that are the array's own elements, by `put` twice and by a ufunc where a
    mask holds."""
    numbers = m.argsort(x)
    m.put(numbers, numbers, m.arange(40, device=x.device) % 7)
    m.put(numbers, numbers[:9], m.arange(9, device=x.device))
    total = x.copy()
    for _ in range(2):
        assert m.add(total, x, where=x > 0, out=total) is total
        assert m.multiply(total, 0.5, out=total, where=total < 1) is total
    return total + numbers


def at(m, function, x, places, values):
    """With rows folded into, some of them twice."""
    y = x.copy()
    function(y, m.asarray(places, device=x.device), values)
    return y


def reduced(m, function, x, axis, keepdims=False):
    """Reductions into rows and columns of an array that is there, and from them."""
    out = m.zeros((5, 9), dtype=x.dtype, device=x.device)
    for i in range(3):
        row = out[i, : x.shape[1]]
        assert function(x + i, axis, out=row, keepdims=keepdims) is row
    function(x, axis, out=out[:, 5][: x.shape[1]])
    function(out[:, :4].T, 0, out=out[0, :5])  # which it reads
    return out


def chosen(m, x, places):
    """By positions and basic parts, where what is indexed begins with the array and where it does
    not."""
    places = m.asarray(places, device=x.device)
    return (
        x[places, 0]
        + x[2, places]
        + x[None, places][0, :, 1]
        + x[1:, places][0] * x[places - 1, 1:][:, 0]
        + (x[places, places, None][:, 0] + x[-1, places[::-1]])
    )


def filled_with(m, x, *numbers):
    """With one number after another, signs of zeros and all."""
    y, total = x.copy(), 0
    for number in numbers:
        y.fill(number)
        total = total * 2 + m.copysign(1.0, y) + y
        y[1:].fill(-number)
        total = total - 3 * m.copysign(1.0, y)
    return total


#: name -> function of the module and of arrays, shapes of these
CALLS = {
    "diagonals": (
        lambda m, x: m.diag(x) + 2 * m.diag(x.T[::-1]) + m.diag(x, 1)[0] - m.diag(x[1:], -1)[0],
        [(4, 4)],
    ),
    "diagonals filled": (
        lambda m, x: (
            m.diag(x[0]) + m.diag(x[:, 1]) - m.diag(x[2, 1:], -1) + m.diagflat(x[:1, 1:], 1)
        ),
        [(4, 4)],
    ),
    "frequencies shifted": (
        lambda m, x: m.fft.fftshift(x) + 2 * m.fft.fftshift(x[::-1]) + m.fft.ifftshift(x),
        [(7,)],
    ),
    "positions and parts": (lambda m, x: chosen(m, x, [2, 0, -1, 1]), [(4, 4)]),
    "filled with numbers": (
        lambda m, x: filled_with(m, x, 2, 2.0, True, 0.0, -0.0, 0, 1e-3),
        [(3, 4)],
    ),
    "roll": (lambda m, x: m.roll(x, (1, -2), (0, 2)), [(3, 4, 5)]),
    "roll an axis twice": (
        lambda m, x: m.roll(x.swapaxes(0, 2), (2, 0, 2), (1, 0, 1)),
        [(3, 4, 5)],
    ),
    "roll a view": (lambda m, x: m.roll(x[:, 1:, ::2], (1, 1), (-1, -2)), [(3, 4, 5)]),
    "roll by nothing": (lambda m, x: m.roll(x, (3, -4), (0, 1)), [(3, 4, 5)]),
    "reflect": (lambda m, x: m.ml.pad(x, (1, 2, 0, 1), "reflect"), [IMAGES]),
    "reflect one side": (lambda m, x: m.ml.pad(x, 1, "reflect"), [IMAGES]),
    "replicate": (lambda m, x: m.ml.pad(x, (1, 2), "replicate"), [(3, 5)]),
    "replicate channels": (lambda m, x: m.ml.pad(x, (0, 0, 0, 0, 1, 1), "replicate"), [IMAGES]),
    "circular": (lambda m, x: m.ml.pad(x, (2, -1, 1, 0), "circular"), [IMAGES]),
    "circular volumes": (lambda m, x: m.ml.pad(x, 1, "circular"), [(1, 2, 2, 3, 4)]),
    "circular, channels last": (
        lambda m, x: m.ml.pad(m.moveaxis(x, -1, 1), (2, 1, 1, 0), "circular"),
        [IMAGES],
    ),
    "resized": (lambda m, x: m.ml.upsample(x, (8, 7), mode="bilinear"), [IMAGES]),
    "resized sequences": (lambda m, x: m.ml.upsample(x, 9), [(2, 3, 7)]),
    "resized sequences by a factor": (
        lambda m, x: m.ml.upsample(x, scale_factor=2, mode="linear"),
        [(2, 3, 7)],
    ),
    "where, 16 bits": (
        lambda m, x: m.where(x > 0, x.astype("f2"), 0) + m.where(x > 1, -0.5, x.astype("f2")),
        [(7, 9)],
    ),
    "where, bfloat16": (
        lambda m, x: m.where(x[0] > 0, 3, x.astype("bfloat16").T[:, None]).astype("float32"),
        [(5, 5)],
    ),
    "masked, 16 bits": (masked, [(5, 7)]),
    "pad, edge": (lambda m, x: m.pad(x, 2, mode="edge"), [(3, 4)]),
    "pad, reflect": (lambda m, x: m.pad(x.T, ((1, 2), (0, 3)), mode="reflect"), [(5, 4)]),
    "pad, edge, three axes": (
        lambda m, x: m.pad(x.swapaxes(0, 1), ((1, 0), (0, 2), (1, 1)), mode="edge"),
        [(3, 4, 2)],
    ),
    "pad, wrap, the first axis": (
        lambda m, x: m.pad(x, ((1, 2), (0, 0), (0, 0)), mode="wrap"),
        [(3, 4, 2)],
    ),
    "pad, symmetric": (lambda m, x: m.pad(x[1:, ::-2], (2, 0), mode="symmetric"), [(3, 9)]),
    "pad, wrap, far": (lambda m, x: m.pad(x, (5, 7), mode="wrap"), [(3,)]),
    "pad, pairs": (lambda m, x: m.pad(x, ((1, 2), (0, 3)), constant_values=1.5), [(3, 4)]),
    "add into": (lambda m, x: into(m, m.add, x, x + 1), [(3, 4)]),
    "add into an operand": (
        lambda m, x: into(m, lambda y, out: m.add(y, out, out=out), x),
        [(3, 4)],
    ),
    "add into what it reads shifted": (lambda m, x: shifted(m, x), [(9,)]),
    "multiply into, a number": (lambda m, x: into(m, m.multiply, x, 0.5), [(3, 4)]),
    "exp into": (lambda m, x: into(m, m.exp, x), [(3, 4)]),
    "clip into": (lambda m, x: into(m, m.clip, x, -0.5, 0.5), [(3, 4)]),
    "greater into": (lambda m, x: m.greater(x, 0, out=x > 1).astype("float32"), [(3, 4)]),
    "add into another dtype": (lambda m, x: m.add(x, x, out=x.astype("float32")), [(3, 4)]),
    "add into another order": (lambda m, x: into(m, m.add, x.T, x.T[:, :1]), [(3, 4)]),
    "matmul into": (lambda m, x: into(m, m.matmul, x, m.ones_like(x.T @ x)), [(3, 4)]),
    "matmul into an operand": (
        lambda m, x: into(m, lambda y, out: m.matmul(out, y, out=out), x),
        [(4, 4)],
    ),
    "gemm": (
        lambda m, x, c: m.gemm(x, x.T, 2, c, -0.5) - m.gemm(x, x.T, 1, c[0], 1.0),
        [(3, 4), (3, 3)],
    ),
    "gemm of batches": (
        lambda m, x, c: m.gemm(x, x.swapaxes(1, 2), 1, c, 1) + m.gemm(x, x, 3),
        [(2, 3, 3), (3, 3)],
    ),
    "gemm by zeros": (
        lambda m, x: m.copysign(
            1.0, m.gemm(x, x, -0.0, x * 0.0, 1) * m.gemm(x, x, 0.0, x * 0.0, 1)
        ),
        [(3, 3)],
    ),
    "gemv": (lambda m, x, v: m.gemv(x, v, 2, v, 3) * m.gemv(x.T, v, 1, v, 1), [(3, 3), (3,)]),
    "linear alone": (lambda m, x: m.ml.linear(x, x + 1), [(3, 4)]),
    "where a row": (lambda m, x: m.where(x > 0, x, x[0]), [(3, 4)]),
    "a diagonal filled": (lambda m, x: filled(m, x, 2.5), [(3, 4)]),
    "a diagonal of three axes filled": (lambda m, x: filled(m, x, x[0, 0] + 1), [(3, 3, 3)]),
    "put where a mask holds": (lambda m, x: put(m, x, x > 0, 2), [(3, 4)]),
    "put numbers where a mask holds": (lambda m, x: put(m, x, x > 0, x * 3), [(3, 4)]),
    "running sums of columns": (lambda m, x: m.cumsum(x, 0) + m.cumsum(x.T, 1).T, [(9, 4)]),
    "fractions": (lambda m, x: m.modf(x * 3)[0] + 10 * m.modf(x * 3)[1], [(3, 4)]),
    "weights of classes, some left out": (
        lambda m, x: m.ml.cross_entropy(
            x, (x[:, 0] > 0).astype("int64"), weight=m.exp(x[0]), reduction="none", ignore_index=0
        ),
        [(5, 4)],
    ),
    "rows in a list": (
        lambda m, x: x[[0, 2, -1]] + x[:, :, [1, -2, 0]][..., :1] * x[[-3, 1, 1]],
        [(3, 4, 5)],
    ),
    "written by a list": (lambda m, x: listed(x), [(3, 4)]),
    "in place, a column": (lambda m, x: listed(x, 1), [(3, 4)]),
    "parts": (lambda m, x: m.split(x, [1, 3])[1] + m.split(x, (2, 4))[1], [(5, 2)]),
    "windows": (lambda m, x: m.sliding_window_view(x, 3, 1) * 2, [(3, 9)]),
    "copied where": (lambda m, x: copied(m, x), [(3, 4)]),
    "copied where, from a view": (lambda m, x: masked_copy(m, x, x.T[::-1], x > 0), [(4, 4)]),
    "copied where a part of it holds": (
        lambda m, x: masked_copy(m, x > 0, x < 1, (x > 0)[:, ::-1]),
        [(3, 4)],
    ),
    "written where its own transpose holds": (lambda m, x: by_itself(x), [(40, 40)]),
    "where, two numbers": (
        lambda m, x: m.where(x > 0, 1.0, 0) + m.where(x.T > 1, -0.5, 2.5).T,
        [(3, 4)],
    ),
    "where, two integers": (
        lambda m, x: m.where(x > 0, 7, -1 << 40) + m.where(x < 0, 0, 1),
        [(3, 4)],
    ),
    "normalised lines of a view": (
        lambda m, x: m.ml.layer_norm(x.T, 3) + m.ml.layer_norm(x.T, 3, x[:, 0], x[:, 1]),
        [(3, 4)],
    ),
    "normalised sums": (
        lambda m, x, y: m.ml.layer_norm(x, 3, residual=y)[0] * m.ml.rms_norm(x, 3, residual=y)[1],
        [(4, 3), (4, 3)],
    ),
    "normalised lines of a view, weights": (
        lambda m, x, w: m.ml.layer_norm(x.T, (3,), w, eps=1e-3),
        [(3, 4), (3,)],
    ),
    "read as integers": (
        lambda m, x: x.view("int64").view("float64")[..., 1:] + x.view(m.int32)[:, :1],
        [(3, 4)],
    ),
    "a polynomial": (
        lambda m, p, x: m.polyval(p, x) + m.polyval(p[::-2], x.astype("float32")),
        [(4,), (3, 5)],
    ),
    "a polynomial of integers": (
        lambda m, p, x: m.polyval([3, -2, 1], x) * m.polyval(p, m.arange(5, device=x.device)),
        [(4,), (3, 5)],
    ),
    "put by places": (lambda m, x: listed_flat(m, x, [3, -1, 0, 3], x[1]), [(3, 4)]),
    "put by its own places": (lambda m, x: own_places(m, x), [(40,)]),
    "put by places, one number": (
        lambda m, x: listed_flat(m, x[0], [3, -1, 0], x[1, :1]),
        [(3, 4)],
    ),
    "added at places": (lambda m, x: at(m, m.add_at, x, [2, 0, 2], x * 2), [(3, 4)]),
    "largest at places": (lambda m, x: at(m, m.maximum_at, x, [-1, -1], x[:1]), [(3, 4)]),
    "blocks": (lambda m, x: m.block([[x, x[:, :1] + 1], [x[:2] * 2, x[1:, 1:2]]]), [(3, 4)]),
    "blocks, rows of one": (lambda m, x: m.block([[x, x], [m.concat([x, x], 1)]]), [(3, 4)]),
    "blocks, three lists deep": (lambda m, x: m.block([[[x, x]], [[x, x]]]), [(3, 4)]),
    "means of bins": (lambda m, x: m.ml.adaptive_avg_pool1d(x, 3), [(2, 3, 7)]),
    "maxima of bins": (lambda m, x: m.ml.adaptive_max_pool1d(x[:, ::2], 3), [(2, 3, 7)]),
}
#: Reductions, whose shuffles the simulator has not, and what takes the logarithm of no number
#: there.
REDUCED = {
    "softmax of views": (
        lambda m, x: m.ml.softmax(x.T) + m.ml.softmax(x[:, ::-1], 0).T * m.ml.log_softmax(x.T, 0),
        [(3, 4)],
    ),
    "average": (lambda m, x: m.average(x, weights=x * x), [(5, 7)]),
    "average of columns": (
        lambda m, x: m.average(x.T, 0, x.T * x.T, True, keepdims=True)[0],
        [(5, 7)],
    ),
    "average of a view, 16 bits": (
        lambda m, x: m.average((x.astype("f2"))[::2, 1:], 1, m.exp(x[0, 1:])),
        [(5, 7)],
    ),
    "choice": (
        lambda m, x: m.random.default_rng(3).choice(9, (4, 5), p=m.exp(x) / m.exp(x).sum()),
        [(9,)],
    ),
    "choice, float32, strides": (
        lambda m, x: m.random.default_rng(3).choice(
            m.exp(x), 50, p=m.stack([m.abs(x) / m.abs(x).sum(), x], 1).astype("f4")[:, 0]
        ),
        [(9,)],
    ),
    "sums into": (lambda m, x: reduced(m, m.sum, x, 0), [(3, 4)]),
    "largest into": (lambda m, x: reduced(m, m.max, x, (0,)), [(3, 4)]),
    "means into": (lambda m, x: reduced(m, m.mean, x, -2), [(3, 4)]),
    "variances into": (lambda m, x: reduced(m, m.var, x, 0), [(3, 4)]),
}
_CONVOLUTIONS = {
    "conv3d": [
        {},
        {"padding": 1, "stride": (2, 1, 1)},
        {"padding": (1, 0, 1), "dilation": (1, 1, 2)},
        {"padding": "same"},
    ],
    "conv_transpose3d": [{}, {"padding": (1, 0, 1), "stride": 2}],
    "conv2d": [{"padding": "same"}, {"stride": (2, 1)}],
    "conv_transpose2d": [{"stride": (2, 1), "padding": 1}],
    "conv_transpose1d": [{}, {"padding": (1,)}],
}
_CONVOLUTIONS |= {
    f"{name}, made of images": _CONVOLUTIONS[name] for name in ("conv3d", "conv_transpose3d")
}


def convolved(m, arrays, name, options):
    """The public function; of volumes also as if there were much to do."""
    name, *images = name.split(", ")
    with pytest.MonkeyPatch.context() as patch:
        if images:
            patch.setattr("cudamath.ml.conv3d_cards.LITTLE", -1)
        return getattr(m.ml, name)(*arrays, **options)


for _name, _cases in _CONVOLUTIONS.items():
    _rank = int(_name.split("d")[0][-1])
    _shapes = [
        (2, 2, *(3, 4, 4 if "made" in _name else 3)[:_rank]),
        (2, 2, *(2, 3, 1)[:_rank]),
        (2,),
    ]
    for _options, _count in itertools.product(_cases, (2, 3)):  # without a bias and with one
        CALLS[f"{_name}, {_options}, {_count} arrays"] = (
            lambda m, *arrays, name=_name, options=_options: convolved(m, arrays, name, options),
            _shapes[:_count],
        )


def arrays_of(name, seed):
    return [
        np.random.default_rng(seed + i).standard_normal(shape)
        for i, shape in enumerate((CALLS | REDUCED)[name][1])
    ]


@pytest.mark.simulator
def test_replays_equal_the_cpu(monkeypatch):
    """On a GPU in the simulator: what the second call launches finds its numbers."""
    with simulated_gpu(monkeypatch):
        for name, (function, _) in CALLS.items():
            for seed in range(2):
                wanted = function(cm, *[cm.asarray(a, device="cpu") for a in arrays_of(name, seed)])
                found = function(cm, *map(cm.asarray, arrays_of(name, seed)))
                assert found.shape == wanted.shape, name
                assert_close(found, np.asarray(wanted), rtol=1e-12, atol=1e-12)


@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8"])
def test_average_divides_and_looks_for_zero_simulated(dtype):
    sums, totals = (
        np.random.default_rng(seed).standard_normal((3, 5)).astype(dtype) for seed in range(2)
    )
    planned = elementwise_average.average(layout_of(sums), layout_of(totals))
    found, real = simulate(planned, sums, totals), sums.real.dtype
    np.testing.assert_array_max_ulp(found.view(real), (sums / totals).view(real), 4)
    totals[1, 2] = np.nan
    assert np.isnan(simulate(planned, sums, totals)[1, 2])  # which is no zero
    totals[2, 4] = 0
    with (
        pytest.raises(IndexError),
        np.errstate(all="ignore"),
    ):  # the flag, which is a ZeroDivisionError on a GPU
        simulate(planned, sums, totals)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CALLS | REDUCED)
def test_replays_on_a_gpu_equal_the_cpu(name):
    function = (CALLS | REDUCED)[name][0]
    for seed in range(3):
        wanted = function(cm, *[cm.asarray(a, device="cpu") for a in arrays_of(name, seed)])
        found = function(cm, *[cm.asarray(a, device="cuda") for a in arrays_of(name, seed)])
        assert_close(found, np.asarray(wanted), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", CALLS)
def test_replays_skip_the_checks(fake, monkeypatch, name):
    """At the second call: what would check the arguments is not there."""
    from cudamath.kernels.compiler import lazy_numba
    from cudamath.ml import conv, conv_transpose, norm, pool_nd, resize
    from cudamath.ops import join, padding
    from cudamath.ops.linalg import products as linalg_products
    from cudamath.runtime import cudnn

    if lazy_numba.SIMULATOR:
        pytest.skip("plans as on compute capability 9.0")
    monkeypatch.setattr(cudnn, "available", lambda: False)
    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    # a copy; a slice of the array; weights are copied; zeros have two signs; a number times a
    # product
    several = (
        "roll by nothing",
        "circular",
        "normalised lines of a view",
        "gemm by zeros",
        "gemm of batches",
    )
    with cm.device("cuda:0"):
        given = list(map(cm.asarray, arrays_of(name, 0)))
        wanted = CALLS[name][0](cm, *given)._layout
        for module, checks in (
            (conv, "_operands"),
            (conv_transpose, "_operands"),
            (pool_nd, "images"),
            (resize, "_widths"),
            (resize, "_sizes"),
            (join, "span"),
            (padding, "padded"),
            (padding, "span"),
            (norm, "_row_operands"),
            (linalg_products, "_scaled"),
        ):
            if name not in several:
                monkeypatch.setattr(module, checks, None)
        assert CALLS[name][0](cm, *given)._layout is wanted


@pytest.mark.parametrize(
    "function",
    ["sum", "prod", "mean", "max", "min", "var", "std", "any", "all", "argmax", "count_nonzero"],
)
def test_reductions_write_into_out(fake, monkeypatch, function):
    """Where it has the layout of the result and lies apart, no second launch copies."""
    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        x = cm.asarray(np.ones((4, 4)))
        result = getattr(cm, function)(x, 1)
        out, other = cm.zeros_like(result), cm.zeros(8, dtype=result.dtype)[::2]
        places = function == "argmax"  # NumPy writes them into integers alone
        for target, launches in ((out, 1), (other, 2), (other if places else x[0], 2)):
            fake.launches.clear()
            assert getattr(cm, function)(x, 1, out=target) is target
            assert len(fake.launches) == launches or target.dtype != result.dtype
            words = [
                word
                for launch in fake.launches[-1:]
                for arg in launch[-1]
                if isinstance(arg, tuple)
                for word in arg[1]
            ]
            assert target._data in words


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_softmax_of_a_view_goes_straight_to_a_copy(fake, monkeypatch, function):
    """And to the kernel behind it: the second call launches what the first did, and checks
    nothing."""
    softmax = importlib.import_module("cudamath.ml.softmax")  # the function hides its module
    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        x = cm.asarray(np.ones((4, 6)))
        for axis, view in itertools.product((-1, 0), (x.T, x[:, ::2])):
            run, launched = getattr(cm.ml, function), []
            for check in (softmax.require, None):
                monkeypatch.setattr(softmax, "require", check)
                fake.launches.clear()
                out = run(view, axis)
                launched.append([launch[0] for launch in fake.launches])
                assert (
                    out.shape == view.shape
                    and out.is_contiguous
                    and out._data not in (view._data, x._data)
                )
            monkeypatch.setattr(softmax, "require", require)
            assert launched[0] == launched[1] and len(launched[0]) == 2


def test_repeated_fills_are_recorded_as_writes(fake):
    """By a replay, too: what a gradient would read was overwritten."""
    with cm.device("cuda:0"):

        def of(w):
            y = cm.ones(3)
            y.fill(2)
            y.fill(2)
            z = w * y
            y.fill(2)
            return z.sum()

        with pytest.raises(RuntimeError, match="changed in place|overwritten|written"):
            cm.grad(of)(cm.asarray(np.ones(3)))


def test_copyto_writes_where_it_lies(fake, monkeypatch):
    """By a mask: one launch, two where the source may be the array itself."""
    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        x, y = cm.asarray(np.ones((4, 4))), cm.asarray(np.zeros((4, 4)))
        mask = x > y
        for source, launches in ((y, 1), (x, 2)):
            for _ in range(2):
                fake.launches.clear()
                cm.copyto(x, source, where=mask)
                assert len(fake.launches) == launches
        with pytest.raises(ValueError, match="copyto: casting"):
            cm.copyto(x, y, "any", where=mask)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_repeated_dtype_limits(kind):
    """However a dtype was named, before or after another way."""
    for given in (
        kind,
        np.dtype(kind),
        np.dtype(kind).name,
        np.ones(2, kind),
        cm.ones(2, dtype=kind),
        kind(1),
    ) * 2:
        limits, wanted = cm.finfo(given), np.finfo(kind)
        assert limits.dtype == wanted.dtype
        assert (limits.max, limits.eps, limits.tiny) == (wanted.max, wanted.eps, wanted.tiny)
    with pytest.raises(TypeError, match="finfo"):
        cm.finfo(np.int32)


def test_result_types_of_two_arrays():
    """As NumPy's, and as of their dtypes."""
    kinds = [np.bool_, np.uint8, np.int64, np.float16, np.float32, np.complex64]
    for a, b in itertools.product(kinds, kinds):
        found = cm.result_type(
            cm.ones(2, dtype=a, device="cpu"), cm.ones((), dtype=b, device="cpu")
        )
        assert found == cm.result_type(np.dtype(a), np.dtype(b)) == np.result_type(a, b)


@pytest.mark.parametrize(
    "name, call, launches",
    [
        ("copyto", lambda m, x, mask: m.copyto(x, x.T.copy(), where=mask), 2),
        ("where, two numbers", lambda m, x, mask: m.where(mask, 1.0, 0.0), 1),
        ("layer_norm", lambda m, x, mask: m.ml.layer_norm(x.T, 4), 2),
        ("modf", lambda m, x, mask: m.modf(x), 2),
        ("polyval", lambda m, x, mask: m.polyval(x[0], x), 5),
    ],
)
def test_launches(fake, monkeypatch, name, call, launches):
    """A call and its repetition launch no more than this."""
    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        x = cm.asarray(np.ones((4, 4)))
        mask = x > 0
        for _ in range(3):
            fake.launches.clear()
            call(cm, x, mask)
            assert len(fake.launches) == launches


@pytest.mark.parametrize(
    "name, call, returned",
    [
        ("layer_norm", lambda m, x, w: m.ml.layer_norm(x, 4, w), 1),
        ("rms_norm", lambda m, x, w: m.ml.rms_norm(x, 4, w), 1),
        ("layer_norm, residual", lambda m, x, w: m.ml.layer_norm(x, 4, w, w, residual=x), 2),
        ("rms_norm, residual", lambda m, x, w: m.ml.rms_norm(x, 4, residual=x), 2),
        ("group_norm", lambda m, x, w: m.ml.group_norm(x, 2, w), 1),
        ("instance_norm", lambda m, x, w: m.ml.instance_norm(x), 1),
    ],
)
def test_replayed_norms_keep_no_unused_statistics(fake, monkeypatch, name, call, returned):
    """From the second call on, unless a gradient is recorded: what the kernel gets in their place
    has no elements."""
    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        x, w = cm.asarray(np.ones((6, 4, 4), "f4")), cm.asarray(np.ones(4, "f4"))
        sizes = []
        for given in (x, x, None, x):
            fake.launches.clear()
            if given is None:
                cm.vjp(lambda v: call(cm, v, w), x)
            else:
                y = call(cm, x, w)
            assert len(fake.launches) == 1
            sizes.append({arg[1][2] for arg in fake.launches[0][-1] if isinstance(arg, tuple)})
        assert [0 in seen for seen in sizes] == [False, True, False, True]
        assert len(y) == returned if returned > 1 else y.shape == x.shape
        assert [v.shape for v in (y if returned > 1 else [y])] == [x.shape] * returned


def test_assignments_by_index_and_mask_are_one_launch(fake, monkeypatch):
    """The second call as the first; places that are the array itself are copied first, since what
    is written is not read."""
    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        x, y = cm.asarray(np.ones((4, 4))), cm.asarray(np.zeros((4, 4)))
        mask, places, values = x > y, cm.asarray(np.array([3, 1, 3])), cm.asarray(np.zeros(3))
        numbers, ones = cm.asarray(np.arange(9)), cm.asarray(np.ones(9, np.int64))
        for write, launches in (
            (lambda: cm.fill_diagonal(x, 2.0), 1),
            (lambda: cm.putmask(x, mask, 3.0), 1),
            (lambda: cm.put(x, places, values), 1),
            (lambda: cm.put(numbers, numbers, ones), 2),
            (lambda: cm.add(x, y, where=mask, out=x), 2),
            (lambda: cm.add(x, y, where=x > y, out=y), 3),
            (lambda: cm.greater(x, y, where=mask, out=mask), 3),
        ):
            for _ in range(2):
                fake.launches.clear()
                write()
                assert len(fake.launches) == launches, [launch[0] for launch in fake.launches]
        for wrong in (
            lambda: cm.putmask(x, mask[:2], 3.0),
            lambda: cm.add(x, y, where=mask, out=x[:2]),
            lambda: cm.fill_diagonal(x[0], 2.0),
        ):
            with pytest.raises(ValueError):
                wrong()


def test_folded_at_its_own_elements(fake, monkeypatch):
    """Places that are the array itself are copied first: one launch more."""
    monkeypatch.setattr(type(fake), "finish", lambda self, target: None)  # kernels do not run
    with cm.device("cuda:0"):
        numbers, places, ones = (
            cm.asarray(a) for a in (np.arange(9), np.arange(9), np.ones(9, np.int64))
        )
        for function in (cm.add_at, cm.maximum_at):
            seen = []
            for key in (places, numbers, places, numbers):
                fake.launches.clear()
                function(numbers, key, ones)
                seen.append(len(fake.launches))
            assert seen[1] == seen[3] == seen[0] + 1 == seen[2] + 1


def test_all_of_an_array_set_to_a_number(device):
    """The second time it is looked up: every kind of number, signs of zero, and errors as of the
    first."""
    for dtype in ("float32", "float64", "int8", "bool", "complex64", "bfloat16"):
        for shape in ((), (3, 4), (0, 2)):
            x = cm.ones(shape, dtype)
            for value in (2, 0, 2.5, 0.0, -0.0, 7):
                if dtype == "int8" and value == 2.5:
                    continue
                want = np.full(shape, value, x.dtype)
                for write in (
                    lambda v: x.fill(v),  # noqa: B023
                    lambda v: x.__setitem__(..., v),  # noqa: B023
                    *((lambda v: x.__setitem__(slice(None), v),) if shape else ()),  # noqa: B023
                ):  # noqa: B023
                    x[...] = True
                    write(value)
                    np.testing.assert_array_equal(np.asarray(x), want)
                    signs, wanted = (np.signbit(a.astype("c8").real) for a in (np.asarray(x), want))
                    np.testing.assert_array_equal(signs, wanted)
    number, small = cm.zeros(()), cm.zeros(3, "int8")
    for _ in range(2):
        with pytest.raises(IndexError):
            number[:] = 1.0
        with pytest.raises(OverflowError, match="^setitem: 300 as int8"):
            small[:] = 300
        small[:] = 3


@pytest.mark.parametrize(
    "write",
    [
        lambda c: c.fill(0.0),
        lambda c: c.__setitem__(slice(None), 0.0),
        lambda c: c.__setitem__(..., 0),
    ],
)
def test_numbers_written_over_what_a_gradient_needs(fake, write):
    def overwritten(x):
        y = x * c
        write(c)
        return y.sum()

    with cm.device("cuda"):
        x, c = cm.ones(4), cm.ones(4)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="changed in place"):
                cm.grad(overwritten)(x)


def test_joins_whose_gradient_is_recorded(device):
    """Checked once for layouts: the next ones are joined as they should be, others checked."""
    rng = np.random.default_rng(5)
    for axis in (0, 1, -1):
        for _ in range(2):
            a, b = (rng.standard_normal((2, 3)) for _ in range(2))
            w = rng.standard_normal(np.concatenate([a, b, a], axis).shape)
            slope = cm.grad(lambda a, b: (cm.concat([a, b, a], axis) * w).sum(), (0, 1))  # noqa: B023
            first, second, third = np.split(w, 3, axis)
            for found, want in zip(
                slope(cm.asarray(a), cm.asarray(b)), (first + third, second), strict=True
            ):
                np.testing.assert_allclose(np.asarray(found), want, rtol=1e-15)
        with pytest.raises(ValueError, match="^concat: shapes must be equal"):
            cm.grad(lambda a: cm.concat([a, cm.zeros((4, 4))], axis).sum())(cm.asarray(a))  # noqa: B023
    mixed = cm.grad(lambda a: cm.concat([a, cm.ones((2, 3), "float64")]).sum())
    for _ in range(2):
        assert mixed(cm.ones((2, 3), "float32")).dtype == np.float32


def test_promotion_of_dtype_pairs_is_cached():
    """By any names; what is no dtype is an error each time, also what a dict takes for a dtype's
    equal."""
    for _ in range(2):
        for a, b in (
            ("f4", np.int32),
            (np.float16, "float32"),
            (int, np.dtype("u1")),
            ("c8", "f8"),
            (bool, "i1"),
        ):
            assert cm.promote_types(a, b) == np.promote_types(a, b)
        assert (
            cm.promote_types(cm.bfloat16, "float16")
            == cm.promote_types("float16", "bfloat16")
            == np.float32
        )
        for bad in ([1], 1, "nope", object):
            with pytest.raises(TypeError, match="^promote_types: "):
                cm.promote_types(bad, "f4")
