"""Every option of every layer, loss and activation that has a gradient: value, first and second
derivatives as PyTorch's.

One row per call; the last test asks that no function and no option of `cm.ml` is missing here.
"""

import inspect
from typing import Any

import numpy as np
import pytest
from gradient_checks import numbers
from torch_comparison import agree, torch

import cudamath as cm

f, ml = torch.nn.functional, cm.ml

LINE, IMAGE, VOLUME = (2, 4, 7), (2, 4, 7, 6), (2, 4, 5, 4, 6)
ROWS = (5, 4)
CLASSES, SOFT = np.array([0, 3, 1, 3, 2]), np.exp(numbers(ROWS, seed=7))
SOFT /= SOFT.sum(1, keepdims=True)
TURNED = SOFT[::-1].copy()
WEIGHT = np.array([0.5, 2.0, 0.25, 1.5])

#: Function -> calls of it: (options, PyTorch's way of the same, shapes or values of its arrays).
#: PyTorch's way is a function, or None where it is torch.nn.functional's function of that name with
#: the same options.
CALLS: dict[str, list[tuple[dict[str, Any], Any, list]]] = {
    # activations
    **{
        name: [({}, None, [ROWS])]
        for name in (
            "relu",
            "relu6",
            "selu",
            "silu",
            "softsign",
            "mish",
            "tanh",
            "sigmoid",
            "hardswish",
            "hardsigmoid",
        )
    },
    "log_sigmoid": [({}, f.logsigmoid, [ROWS])],
    "elu": [({"alpha": 0.3}, None, [ROWS])],
    "celu": [({"alpha": 0.3}, None, [ROWS])],
    "gelu": [({"approximate": kind}, None, [ROWS]) for kind in ("none", "tanh")],
    "leaky_relu": [({"negative_slope": 0.3}, None, [ROWS])],
    "softplus": [({"beta": 3.0}, None, [ROWS])],
    "prelu": [({}, None, [ROWS, (4,)]), ({}, None, [IMAGE, (1,)])],
    "hardtanh": [
        ({"low": -0.5, "high": 0.7}, lambda x, low, high: f.hardtanh(x, low, high), [ROWS])
    ],
    "glu": [({"axis": a}, lambda x, axis: f.glu(x, axis), [(4, 6)]) for a in (0, -1)],
    "softmax": [({"axis": a}, lambda x, axis: f.softmax(x, axis), [LINE]) for a in (0, 1, -1)],
    "log_softmax": [
        ({"axis": a}, lambda x, axis: f.log_softmax(x, axis), [LINE]) for a in (0, 1, -1)
    ],
    "activation": [
        ({"kind": kind}, lambda x, kind: getattr(f, kind)(x), [ROWS])
        for kind in ("silu", "gelu", "tanh")
    ],
    # losses
    **{
        name: [({"reduction": r}, None, [ROWS, ROWS]) for r in ("mean", "sum", "none")]
        for name in ("mse_loss", "l1_loss")
    },
    "huber_loss": [
        ({"delta": 0.4, "reduction": r}, None, [ROWS, ROWS]) for r in ("mean", "sum", "none")
    ],
    "smooth_l1_loss": [
        ({"beta": b, "reduction": r}, None, [ROWS, ROWS])
        for r in ("mean", "sum", "none")
        for b in (0, 0.4)
    ],
    "kl_div": [
        ({"log_target": log, "reduction": r}, None, [ROWS, np.log(TURNED) if log else TURNED])
        for r in ("mean", "sum", "none", "batchmean")
        for log in (True, False)
    ],
    "bce_with_logits": [
        (
            {"weight": w, "pos_weight": p, "reduction": r},
            f.binary_cross_entropy_with_logits,
            [ROWS, SOFT],
        )
        for r in ("mean", "sum", "none")
        for w in (None, WEIGHT)
        for p in (None, WEIGHT)
    ],
    "binary_cross_entropy": [
        ({"weight": w, "reduction": r}, None, [SOFT, TURNED])
        for r in ("mean", "sum", "none")
        for w in (None, WEIGHT)
    ],
    "cross_entropy": [
        (
            {
                "targets": CLASSES,
                "weight": w,
                "reduction": r,
                "ignore_index": 3,
                "label_smoothing": s,
            },
            lambda x, targets, **how: f.cross_entropy(x, targets, **how),
            [ROWS],
        )
        for r in ("mean", "sum", "none")
        for w in (None, WEIGHT)
        for s in (0.0, 0.2)
    ],
    "nll_loss": [
        (
            {"targets": CLASSES, "weight": w, "reduction": r, "ignore_index": 3},
            lambda x, targets, **how: f.nll_loss(x, targets, **how),
            [ROWS],
        )
        for r in ("mean", "sum", "none")
        for w in (None, WEIGHT)
    ],
    "linear_cross_entropy": [
        (
            {"targets": CLASSES, "classes": 4, "ignore_index": 3, "rows": n},
            lambda x, w, targets, classes, ignore_index, rows: f.cross_entropy(
                x @ w[:classes].T, targets, ignore_index=ignore_index
            ),
            [(5, 3), (6, 3)],
        )
        for n in (None, 4)
    ],
    # layers
    **{
        f"conv{n}d": [
            (
                {"stride": 2, "padding": 1, "dilation": 2, "groups": 2},
                None,
                [shape, (6, 2, *(2,) * n), (6,)],
            ),
            ({"padding": "same"}, None, [shape, (3, 4, *(2,) * n)]),
        ]
        for n, shape in ((1, LINE), (2, IMAGE), (3, VOLUME))
    },
    **{
        f"conv_transpose{n}d": [
            (
                {"stride": 2, "padding": 1, "output_padding": 1, "dilation": 2, "groups": 2},
                None,
                [(2, 4, *(3,) * n), (4, 3, *(2,) * n), (6,)],
            )
        ]
        for n in (1, 2, 3)
    },
    **{
        f"max_pool{n}d": [
            (
                {"kernel_size": 3, "stride": 2, "padding": 1, "dilation": d, "ceil_mode": c},
                None,
                [shape],
            )
            for d in (1, 2)
            for c in (True, False)
            if min(shape[2:]) > 2 * d
        ]
        for n, shape in ((1, LINE), (2, IMAGE), (3, VOLUME))
    },
    **{
        f"avg_pool{n}d": [
            (
                {
                    "kernel_size": 3,
                    "stride": 2,
                    "padding": 1,
                    "ceil_mode": c,
                    "count_include_pad": i,
                }
                | ({} if n == 1 else {"divisor_override": d}),
                None,
                [shape],
            )
            for c in (True, False)
            for i in (True, False)
            for d in (None, 5)
        ]
        for n, shape in ((1, LINE), (2, IMAGE), (3, VOLUME))
    },
    **{
        f"adaptive_{kind}_pool{n}d": [({"output_size": size}, None, [shape])]
        for kind in ("avg", "max")
        for n, shape, size in ((1, LINE, 3), (2, IMAGE, (3, None)), (3, VOLUME, (2, None, 4)))
    },
    "global_avg_pool2d": [({}, lambda x: f.adaptive_avg_pool2d(x, 1), [IMAGE])],
    "global_max_pool2d": [({}, lambda x: f.adaptive_max_pool2d(x, 1), [IMAGE])],
    "instance_norm": [
        (
            {"eps": 1e-3},
            lambda x, w, b, eps: f.instance_norm(x, weight=w, bias=b, eps=eps),
            [IMAGE, (4,), (4,)],
        )
    ],
    "linear": [({}, None, [(2, 3, 5), (4, 5), (4,)])],
    "pad": [
        (
            {"padding": (1, 2, 0, 1), "mode": m, "value": 0.5 if m == "constant" else 0.0},
            lambda x, padding, mode, value: f.pad(x, padding, mode, value),
            [IMAGE],
        )
        for m in ("constant", "replicate", "circular", "reflect")
    ],
    **{
        name: [
            ({"size": (9, 4), "mode": "bilinear", "align_corners": a}, f.interpolate, [IMAGE])
            for a in (True, False)
        ]
        + [
            ({"scale_factor": 2.0, "mode": m}, f.interpolate, [IMAGE])
            for m in ("nearest", "nearest-exact")
        ]
        for name in ("upsample", "interpolate")
    },
}


def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    causal: bool = False,
    scale: float | None = None,
    query_lengths: Any = None,
    key_lengths: Any = None,
) -> Any:
    """softmax(q k' scale + mask) v, written out: PyTorch's has no lengths, and its masks and
    `is_causal` exclude each other."""
    k, v = (a.repeat_interleave(q.shape[1] // a.shape[1], 1) for a in (k, v))
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    rows, columns = torch.arange(scores.shape[2])[:, None], torch.arange(scores.shape[3])
    key_lengths = torch.full(q.shape[:1], scores.shape[3]) if key_lengths is None else key_lengths
    query_lengths = (
        torch.full(q.shape[:1], scores.shape[2]) if query_lengths is None else query_lengths
    )
    per = (-1, 1, 1, 1)
    seen = (columns < key_lengths.view(per)) & (rows < query_lengths.view(per))
    if causal:
        seen = seen & (columns <= rows + (key_lengths - query_lengths).view(per))
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    elif mask is not None:
        scores = scores + mask
    return (
        torch.softmax(scores.masked_fill(~seen, -1e300), -1).masked_fill(
            ~seen.any(-1, keepdim=True), 0
        )
        @ v
    )


QKV = [(2, 4, 5, 6), (2, 2, 7, 6), (2, 2, 7, 3)]
SEEN = np.random.default_rng(5).random((2, 4, 5, 7)) < 0.7
LENGTHS = {"query_lengths": np.array([5, 3]), "key_lengths": np.array([4, 7])}


def packed(qkv: Any, heads: int, causal: bool, scale: float | None) -> Any:
    q, k, v = qkv.view(*qkv.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
    return (
        attention(q, k, v, causal=causal, scale=scale).transpose(1, 2).reshape(*qkv.shape[:2], -1)
    )


def mlp(x: Any, w1: Any, b1: Any, w2: Any, b2: Any, residual: Any, activation: str) -> Any:
    hidden = x @ w1.T + b1
    hidden = (
        f.gelu(hidden, approximate="tanh")
        if activation == "gelu_tanh"
        else getattr(f, activation)(hidden)
    )
    return hidden @ w2.T + b2 + residual


def rotated(x: Any, cos: Any, sin: Any, interleaved: bool) -> Any:
    one, other = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = one * cos - other * sin, one * sin + other * cos
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


CALLS |= {
    "scaled_dot_product_attention": [
        (options, attention, QKV)
        for options in (
            {},
            {"causal": True, "scale": 0.3},
            {"mask": SEEN},
            {"mask": SEEN, "causal": True},
            LENGTHS,
            {**LENGTHS, "causal": True},
        )
    ],
    "self_attention": [
        ({"heads": 2, "causal": c, "scale": s}, packed, [(2, 5, 18)])
        for c, s in ((True, None), (False, 0.3))
    ],
    "rotary_embedding": [
        ({"interleaved": i}, rotated, [(2, 3, 5, 6), (5, 3), (5, 3)]) for i in (True, False)
    ],
}

#: As CALLS, of functions whose arrays are options too: ours is called by this function of the
#: arrays.
WRAPPED: dict[str, list[tuple[Any, Any, list]]] = {
    "group_norm": [
        (
            lambda x, w, b: ml.group_norm(x, 2, w, b, eps=1e-3),
            lambda x, w, b: f.group_norm(x, 2, w, b, 1e-3),
            [IMAGE, (4,), (4,)],
        )
    ],
    "embedding": [
        (
            lambda w, p=p: ml.embedding(CLASSES, w, padding_idx=p),
            lambda w, p=p: f.embedding(torch.tensor(CLASSES), w, p),
            [(4, 3)],
        )
        for p in (None, 3)
    ]
    + [
        (
            lambda w: ml.embedding(CLASSES, w, classes=5),
            lambda w: f.embedding(torch.tensor(CLASSES), w),
            [(7, 3)],
        )
    ],
    "scaled_dot_product_attention": [
        (
            lambda q, k, v, m: ml.scaled_dot_product_attention(q, k, v, mask=m),
            attention,
            [*QKV, (1, 4, 1, 7)],
        )
    ],
    "linear": [
        (
            lambda x, w, b, r, a=a: ml.linear(x, w, b, activation=a, residual=r),
            lambda x, w, b, r, a=a: getattr(f, a)(f.linear(x, w, b)) + r,
            [(2, 3, 5), (4, 5), (4,), (2, 3, 4)],
        )
        for a in ("silu", "gelu")
    ],
    "mlp": [
        (
            lambda *a, kind=kind: ml.mlp(*a[:5], residual=a[5], activation=kind),
            lambda *a, kind=kind: mlp(*a, kind),
            [(2, 3, 5), (4, 5), (4,), (6, 4), (6,), (2, 3, 6)],
        )
        for kind in ("silu", "gelu_tanh", "gelu")
    ],
    "layer_norm": [
        (
            lambda x, w, b: ml.layer_norm(x, (7, 6), w, b, eps=1e-3),
            lambda x, w, b: f.layer_norm(x, (7, 6), w, b, 1e-3),
            [IMAGE, (7, 6), (7, 6)],
        )
    ]
    + [
        (
            lambda x, r, w, b, i=i: ml.layer_norm(x, 6, w, b, residual=r)[i],
            lambda x, r, w, b, i=i: (f.layer_norm(x + r, (6,), w, b), x + r)[i],
            [(4, 6), (4, 6), (6,), (6,)],
        )
        for i in (0, 1)
    ],
    "rms_norm": [
        (
            lambda x, w: ml.rms_norm(x, (7, 6), w, eps=1e-3),
            lambda x, w: f.rms_norm(x, (7, 6), w, 1e-3),
            [IMAGE, (7, 6)],
        ),
        (
            lambda x, r, w: ml.rms_norm(x, 6, w, eps=1e-3, residual=r)[0],
            lambda x, r, w: f.rms_norm(x + r, (6,), w, 1e-3),
            [(4, 6), (4, 6), (6,)],
        ),
    ],
    "batch_norm": [
        (
            lambda x, w, b, r, a=a: ml.batch_norm(
                x, None, None, w, b, training=True, eps=1e-3, activation=a, residual=r
            )[0],
            lambda x, w, b, r, a=a: (f.relu if a else lambda v: v)(
                f.batch_norm(x, None, None, w, b, True, eps=1e-3) + r
            ),
            [IMAGE, (4,), (4,), IMAGE],
        )
        for a in (None, "relu")
    ]
    + [
        (
            lambda x, w, b: ml.batch_norm(x, WEIGHT, WEIGHT, w, b, eps=1e-3),
            lambda x, w, b: f.batch_norm(
                x, torch.tensor(WEIGHT), torch.tensor(WEIGHT), w, b, eps=1e-3
            ),
            [IMAGE, (4,), (4,)],
        )
    ],
}

NAMES = "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"
LENGTHS = np.array([5, 2, 4])


def layer(w):
    """The weights of a recurrent layer."""
    return dict(zip(NAMES, w, strict=True))


def recurrent(kind, x, state, w, lengths=None, **options):
    """The outputs of PyTorch's layer of this kind."""
    module = getattr(torch.nn, kind)(4, 2, dtype=torch.float64, **options)
    if lengths is not None:
        lengths = torch.tensor(lengths)
        first = options.get("batch_first", False)
        x = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, first, enforce_sorted=False)
    y = torch.func.functional_call(module, layer(w), (x, state))[0]
    return y if lengths is None else torch.nn.utils.rnn.pad_packed_sequence(y, first)[0]


def shapes_of(gates, *states, x=(5, 3, 4)):
    return [x, *states, (gates * 2, 4), (gates * 2, 2), (gates * 2,), (gates * 2,)]


STATE = (1, 3, 2)
WRAPPED |= {
    "rnn": [
        (
            lambda x, h, *w: ml.rnn(x, layer(w), state=h, nonlinearity="relu")[0],
            lambda x, h, *w: recurrent("RNN", x, h, w, nonlinearity="relu"),
            shapes_of(1, STATE),
        ),
        (
            lambda x, h, *w: ml.rnn(x, layer(w), h, lengths=LENGTHS, batch_first=True)[0],
            lambda x, h, *w: recurrent("RNN", x, h, w, LENGTHS, batch_first=True),
            shapes_of(1, STATE, x=(3, 5, 4)),
        ),
    ],
    "gru": [
        (
            lambda x, h, *w: ml.gru(x, layer(w), state=h, lengths=LENGTHS)[0],
            lambda x, h, *w: recurrent("GRU", x, h, w, LENGTHS),
            shapes_of(3, STATE),
        ),
        (
            lambda x, h, *w: ml.gru(x, layer(w), h, batch_first=True)[0],
            lambda x, h, *w: recurrent("GRU", x, h, w, batch_first=True),
            shapes_of(3, STATE, x=(3, 5, 4)),
        ),
    ],
    "lstm": [
        (
            lambda x, h, c, *w: ml.lstm(x, layer(w), state=(h, c), lengths=LENGTHS)[0],
            lambda x, h, c, *w: recurrent("LSTM", x, (h, c), w, LENGTHS),
            shapes_of(4, STATE, STATE),
        ),
        (
            lambda x, h, c, *w: ml.lstm(x, layer(w), (h, c), batch_first=True)[0],
            lambda x, h, c, *w: recurrent("LSTM", x, (h, c), w, batch_first=True),
            shapes_of(4, STATE, STATE, x=(3, 5, 4)),
        ),
    ],
}

#: PyTorch rounds a constant to float32 here, or has no second derivative there.
ROUNDED = ("celu", "hardsigmoid", "hardswish")
FIRST_ONLY = ("hardswish", "hardsigmoid")

#: Not here, with the reason: no floating-point result or no gradient; random; tables; trees
#: (tests/test_optim*.py); what PyTorch has no public function for (grouped_matmul).
ELSEWHERE = {
    "one_hot",
    "quantize",
    "dequantize",
    "linear_quantized",
    "scaled_matmul",
    "dropout",
    "rotary_tables",
    "clip_factor",
    "clip_grad_norm",
    "adam_init",
    "sgd_init",
    "adagrad_update",
    "adam_update",
    "adamw_update",
    "lion_update",
    "rmsprop_update",
    "sgd_update",
    "Quantized",
    "grouped_matmul",
    "binary_cross_entropy_with_logits",
}  # the last: another name

#: Options tested elsewhere: positions of maxima are integers (test_pool*.py); dropout is random
#: (test_attention.py); running statistics are not differentiated (test_torch_parity.py); `out`,
#: `where`, `dtype` and the rest are those of ufuncs.
OPTIONS_ELSEWHERE = {
    "recompute",
    "return_indices",
    "dropout",
    "rng",
    "running_mean",
    "running_var",
    "momentum",
    "out",
    "where",
    "dtype",
    "casting",
    "order",
    "subok",
    "signature",
}


def filled(shapes: list) -> list[np.ndarray]:
    """Arrays of these shapes; values as they are."""
    return [a if isinstance(a, np.ndarray) else numbers(a, seed=i) for i, a in enumerate(shapes)]


@pytest.mark.parametrize("name", CALLS)
def test_as_in_torch(device, name):
    ours = getattr(ml, name)
    for options, way, shapes in CALLS[name]:
        theirs = getattr(f, name) if way is None else way
        there = {
            key: torch.tensor(value) if isinstance(value, np.ndarray) else value
            for key, value in options.items()
        }
        agree(
            lambda *a: ours(*a, **options),  # noqa: B023
            lambda *a: theirs(*a, **there),  # noqa: B023
            *filled(shapes),  # noqa: B023
            second=name not in FIRST_ONLY,
            rtol=1e-6 if name in ROUNDED else 1e-8,
        )


@pytest.mark.parametrize("name", WRAPPED)
def test_arrays_that_are_options(device, name):
    for ours, theirs, shapes in WRAPPED[name]:
        agree(ours, theirs, *filled(shapes), rtol=1e-8)


def test_nothing_is_missing():
    functions = {
        name for name in dir(ml) if callable(getattr(ml, name)) and not name.startswith("_")
    }
    assert functions - set(CALLS) - set(WRAPPED) <= ELSEWHERE
    for name in sorted(set(CALLS) | set(WRAPPED)):
        tried = {key for options, *_ in CALLS.get(name, []) for key in options}
        source = "".join(inspect.getsource(ours) for ours, *_ in WRAPPED.get(name, []))
        wanted = {
            key
            for key, p in inspect.signature(getattr(ml, name)).parameters.items()
            if p.default is not p.empty
        }
        arrays = (
            {"weight", "bias", "b1", "b2"}
            if name in WRAPPED or len(CALLS[name][0][2]) > 1
            else set()
        )
        missing = {
            key for key in wanted - tried - OPTIONS_ELSEWHERE - arrays if f"{key}=" not in source
        }
        assert not missing, f"{name}: {missing}"


@pytest.mark.parametrize(
    "number", [np.int64, np.uint8, np.array, cm.asarray], ids=["int64", "uint8", "array", "ndarray"]
)
@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: cm.ml.group_norm(x, n(2)),
        lambda x, n: cm.ml.layer_norm(x, (n(4), n(6))),
        lambda x, n: cm.ml.rms_norm(x, (n(6),)),
        lambda x, n: cm.ml.self_attention(x, n(2)),
        lambda x, n: cm.ml.rotary_tables(n(3), n(4))[1],
        lambda x, n: cm.ml.quantize(x, "int4", group=n(2)).values,
    ],
)
def test_whole_numbers_of_any_kind(device, call, number):
    """What shapes and sums give: NumPy's integers and arrays without axes. They were errors, some
    of another name."""
    x = cm.asarray(np.random.default_rng(0).normal(size=(2, 4, 6)))
    for _ in range(2):
        assert call(x, number).tolist() == call(x, int).tolist()


def test_a_whole_pos_weight(device):
    x, t = cm.asarray([0.3, -2.0]), cm.asarray([1.0, 0.5])
    assert (
        ml.bce_with_logits(x, t, pos_weight=np.int64(2)).item()
        == ml.bce_with_logits(x, t, pos_weight=2).item()
    )
