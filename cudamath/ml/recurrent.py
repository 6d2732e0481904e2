"""Recurrent layers: `rnn`, `lstm`, `gru`, with PyTorch's names and order of weights and gates.

On a GPU they are one op where a library has them (kernels/recurrent/dispatch.py). Otherwise, and
for gradients beyond the first order, they are public operations: the products with the inputs of
all steps are one product; a step is a product with the state, which adds these, and a kernel for
all gates, which `fuse` makes (and that of its gradient). The steps are a `scan`: in a function that
`jit` traces, one node of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..autodiff.transforms import vjp
from ..core import dtypes
from ..core.array import ndarray
from ..core.asarray import asarray, same_device
from ..core.dispatch.checks import require
from ..core.dispatch.lazy_import import lazy
from ..core.dispatch.op import Op
from ..core.dtypes import FLOATING, INTEGER
from ..core.specs.recurrent import Layers, Tensor, tensors
from ..core.typing import ArrayLike
from ..fuse import fuse
from ..ops.creation import zeros, zeros_like
from ..ops.elementwise import maximum, tanh
from ..ops.join import concat, stack
from ..ops.linalg.products import tf32_allowed
from ..ops.ranges import arange
from ..ops.shape import expand_dims, moveaxis, squeeze
from ..ops.where import where
from ..programs import scan
from ..runtime.interrupts import context_manager
from .activation import sigmoid
from .linear import linear
from .softmax import in_order

__all__ = ["gru", "lstm", "rnn"]

Weights = Mapping[str, ArrayLike]


# -------------------- gates


@fuse
def _lstm_cell(i: Any, f: Any, g: Any, o: Any, c: Any) -> tuple:
    """(h, c) of the next step."""
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


@fuse
def _gru_cell(xr: Any, xz: Any, xn: Any, hr: Any, hz: Any, hn: Any, h: Any) -> Any:
    """h of the next step. x*: what the inputs give to the gates, h*: what the state gives."""
    z = sigmoid(xz + hz)
    n = tanh(xn + sigmoid(xr + hr) * hn)
    return n + z * (h - n)


def _parts(x: ndarray, count: int) -> list[ndarray]:
    """The parts of the last axis, one for each gate."""
    size = x.shape[-1] // count
    return [x[..., k * size : (k + 1) * size] for k in range(count)]


class _Cell(NamedTuple):
    """A kind of layer. gates: how many parts its weights have; states: how many arrays its state
    has; apart: whether the bias of the state goes through a gate of its own; step:
    `step(state, inputs, weights) -> state`, where inputs are the products with x."""

    gates: int
    states: int
    apart: bool
    step: Callable[[tuple, ndarray, _Direction], tuple]


def _lstm_step(state: tuple, inputs: ndarray, w: _Direction) -> tuple:
    h, c = state
    h, c = _lstm_cell(*_parts(linear(h, w.hh, residual=inputs), 4), c)
    return (h if w.hr is None else linear(h, w.hr)), c


def _gru_step(state: tuple, inputs: ndarray, w: _Direction) -> tuple:
    (h,) = state
    return (_gru_cell(*_parts(inputs, 3), *_parts(linear(h, w.hh, w.bias_hh), 3), h),)


def _tanh_step(state: tuple, inputs: ndarray, w: _Direction) -> tuple:
    return (tanh(linear(state[0], w.hh, residual=inputs)),)


def _relu_step(state: tuple, inputs: ndarray, w: _Direction) -> tuple:
    return (maximum(linear(state[0], w.hh, residual=inputs), 0),)


_LSTM = _Cell(4, 2, False, _lstm_step)
_CELLS = {
    "lstm": _LSTM,
    "gru": _Cell(3, 1, True, _gru_step),
    "tanh": _Cell(1, 1, False, _tanh_step),
    "relu": _Cell(1, 1, False, _relu_step),
}


# -------------------- weights


class _Direction(NamedTuple):
    """The weights of a layer in one direction; None for missing ones."""

    ih: ndarray
    hh: ndarray
    bias_ih: ndarray | None
    bias_hh: ndarray | None
    hr: ndarray | None

    @property
    def units(self) -> int:
        """The size of what the gates give."""
        return self.hh.shape[1] if self.hr is None else self.hr.shape[1]


def _checked(name: str, cell: _Cell, weights: Any, x: ndarray) -> list[list[_Direction]]:
    """The weights by layer and direction, of the promoted dtype of all operands; ValueError for
    missing, unknown or misshapen ones."""
    if not isinstance(weights, Mapping):
        raise TypeError(
            f"{name}: wants weights as a dict with PyTorch's names (weight_ih_l0, ...), got "
            f"{type(weights).__name__}"
        )
    left = {key: require(name, w, FLOATING, key) for key, w in weights.items()}
    same_device(name, [x, *left.values()])
    dtype = dtypes.result_type(x, *left.values())
    both = "weight_ih_l0_reverse" in left
    layers: list[list[_Direction]] = []
    features = x.shape[-1]
    while f"weight_ih_l{len(layers)}" in left or not layers:
        layer = []
        for end in (f"l{len(layers)}", f"l{len(layers)}_reverse")[: 1 + both]:
            parts: list[Any] = [
                left.pop(f"{what}_{end}", None)
                for what in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
            ]
            parts = [p if p is None else p.astype(dtype, copy=False) for p in parts]
            w = _Direction(*parts)
            _check_shapes(name, cell, w, end, features)
            layer.append(w)
        features = sum([w.hh.shape[1] for w in layer])
        layers.append(layer)
    if left:
        raise ValueError(f"{name}: unknown weights {sorted(left)}")
    return layers


def _check_shapes(name: str, cell: _Cell, w: _Direction, end: str, features: int) -> None:
    for what, weight in (("weight_ih", w.ih), ("weight_hh", w.hh)):
        if weight is None or weight.ndim != 2:
            actual = "nothing" if weight is None else f"shape {weight.shape}"
            raise ValueError(f"{name}: wants {what}_{end} as a matrix, got {actual}")
    if w.hr is not None and cell is not _LSTM:
        raise ValueError(f"{name}: only lstm has a projection, weight_hr_{end}")
    if w.hr is not None and w.hr.ndim != 2:
        raise ValueError(f"{name}: wants weight_hr_{end} as a matrix, got shape {w.hr.shape}")
    if (w.bias_ih is None) != (w.bias_hh is None):
        raise ValueError(f"{name}: wants bias_ih_{end} and bias_hh_{end}, or neither")
    rows, out = cell.gates * w.units, w.hh.shape[1] if w.hr is None else w.hr.shape[0]
    for what, part, shape in (
        ("weight_ih", w.ih, (rows, features)),
        ("weight_hh", w.hh, (rows, out)),
        ("bias_ih", w.bias_ih, (rows,)),
        ("bias_hh", w.bias_hh, (rows,)),
        ("weight_hr", w.hr, (out, w.units)),
    ):
        if part is not None and part.shape != shape:
            raise ValueError(f"{name}: wants {what}_{end} of shape {shape}, got {part.shape}")


def _states(
    name: str, cell: _Cell, state: Any, layers: list[list[_Direction]], batch: int, x: ndarray
) -> tuple[ndarray, ...]:
    """The arrays of the state in the dtype of x; none of them if it is None."""
    if state is None:
        return ()
    flat = [w for layer in layers for w in layer]
    sizes = [flat[0].hh.shape[1], flat[0].units][: cell.states]
    arrays = tuple(state) if cell.states > 1 and isinstance(state, (tuple, list)) else (state,)
    if len(arrays) != cell.states:
        raise ValueError(f"{name}: wants the state as a pair (h, c), got {len(arrays)} arrays")
    out = []
    for a, size in zip(arrays, sizes, strict=True):
        a = require(name, a, FLOATING, "a state")
        if a.shape != (len(flat), batch, size):
            raise ValueError(
                f"{name}: wants a state of shape {(len(flat), batch, size)} (layers and "
                f"directions, batch, units), got {a.shape}"
            )
        out.append(a.astype(x.dtype, copy=False))
    return tuple(out)


# -------------------- layers


def _run(
    name: str,
    kind: str,
    x: Any,
    weights: Any,
    state: Any,
    lengths: Any,
    batch_first: bool,
) -> tuple[ndarray, tuple]:
    """The outputs of the last layer, and the last states."""
    cell = _CELLS[kind]
    x = require(name, x, FLOATING, "x")
    if x.ndim not in (2, 3) or not x.size:
        raise ValueError(
            f"{name}: wants x of shape (steps, batch, features) or (steps, features), not empty, "
            f"got {x.shape}"
        )
    alone = x.ndim == 2
    if alone:
        x = expand_dims(x, axis=1)
        if state is not None:
            state = (
                tuple([expand_dims(require(name, s), axis=1) for s in state])
                if isinstance(state, (tuple, list))
                else expand_dims(require(name, state), axis=1)
            )
    elif batch_first:
        x = moveaxis(x, 0, 1)
    layers = _checked(name, cell, weights, x)
    x = x.astype(layers[0][0].ih.dtype, copy=False)
    states = _states(name, cell, state, layers, x.shape[1], x)
    x, ends = _chosen(name, kind, x, layers, states, lengths)
    if alone:
        return squeeze(x, axis=1), tuple([squeeze(s, axis=1) for s in ends])
    return (moveaxis(x, 0, 1) if batch_first else x), ends


def _chosen(
    name: str,
    kind: str,
    x: ndarray,
    layers: list[list[_Direction]],
    states: tuple[ndarray, ...],
    lengths: Any,
) -> tuple[ndarray, tuple]:
    """All layers by the version that computes them sooner, or by the one that is asked for."""
    counts = None if lengths is None else _lengths(name, lengths, x)
    known = lengths is None or not isinstance(lengths, ndarray)  # on the host
    given = [
        x,
        *states,
        *[each for layer in layers for w in layer for each in w if each is not None],
    ]
    form = _form(kind, layers)
    at = {each._layout.device for each in given}
    if known and form is not None and (min(at) >= 0 or _asked.version == "numpy"):
        params = {
            **form,
            "lengths": None if counts is None else _clipped(lengths, x.shape[0]),
            "tf32": tf32_allowed(),
            "training": any([each._node is not None for each in given]),
        }
        version = _version(name, x, params)
        if version != "steps":
            return _by_one_op(x, layers, states, version=version, **params)
    return _by_steps(kind, x, layers, states, counts)


def _lengths(name: str, lengths: Any, x: ndarray) -> ndarray:
    n = require(name, lengths, INTEGER, "lengths").to(x.device)
    if n.shape != x.shape[1:2]:
        raise ValueError(f"{name}: wants lengths of shape {x.shape[1:2]}, got {n.shape}")
    return n


def _clipped(lengths: Any, steps: int) -> tuple[int, ...]:
    """Lengths that the host knows, as the outputs have them."""
    return tuple(np.asarray(lengths).clip(0, steps).tolist())


# -------------------- all layers a step at a time


def _by_steps(
    kind: str,
    x: ndarray,
    layers: list[list[_Direction]],
    states: tuple[ndarray, ...],
    lengths: ndarray | None,
) -> tuple[ndarray, tuple]:
    """The version of public operations: differentiable to any order."""
    cell = _CELLS[kind]
    mask = None if lengths is None else _mask(lengths, x)
    last: list[tuple] = []
    for layer in layers:
        outputs = []
        for w, reverse in zip(layer, (False, True), strict=False):
            first = tuple([each[len(last)] for each in states])
            if not first:
                sizes = (w.hh.shape[1], w.units)[: cell.states]
                first = tuple(
                    [zeros((x.shape[1], n), dtype=x.dtype, device=x.device) for n in sizes]
                )
            y, end = _layer(cell, w, x, first, mask, reverse)
            outputs.append(y)
            last.append(end)
        x = outputs[0] if len(outputs) == 1 else concat(outputs, axis=-1)
    return x, tuple([stack(list(each)) for each in zip(*last, strict=True)])


def _layer(
    cell: _Cell, w: _Direction, x: ndarray, first: tuple, mask: ndarray | None, reverse: bool
) -> tuple[ndarray, tuple]:
    """The outputs and the last state of one layer in one direction."""
    bias = w.bias_ih
    if bias is not None and not cell.apart:
        bias = bias + w.bias_hh
    inputs = linear(x, w.ih, bias)

    def step(state: tuple, row: Any) -> tuple[tuple, ndarray]:
        if mask is None:
            new = cell.step(state, row, w)
            return new, new[0]
        values, valid = row
        new = cell.step(state, values, w)
        y = where(valid, new[0], 0)
        return tuple([where(valid, b, a) for a, b in zip(state, new, strict=True)]), y

    end, y = scan(step, first, inputs if mask is None else (inputs, mask), reverse=reverse)
    return y, end


def _mask(lengths: ndarray, x: ndarray) -> ndarray:
    """Whether a step is part of its sequence, (steps, batch, 1)."""
    number = arange(x.shape[0], dtype="int64", device=x.device)
    return expand_dims(expand_dims(number, axis=1) < lengths, axis=2)


# -------------------- all layers in one op


class _Asked:
    """Which version `by_version` asks for; None: the one that is sooner."""

    version: str | None = None


_asked = _Asked()


@context_manager
def by_version(name: str) -> Iterator[None]:
    """Context: recurrent layers on a GPU are computed by the version of this name
    (kernels/recurrent/dispatch.py), ValueError at a call that it does not support; those on the CPU
    by "numpy", which is sooner for some gradients outside of programs, or "steps"."""
    before, _asked.version = _asked.version, name
    try:
        yield
    finally:
        _asked.version = before


def _version(name: str, x: ndarray, params: dict) -> str:
    if x._layout.device < 0:
        return "numpy"
    try:
        return lazy("kernels", "recurrent.dispatch.chosen")(x._layout, _asked.version, **params)
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from None


def _form(kind: str, layers: list[list[_Direction]]) -> dict[str, Any] | None:
    """The parameters that are common to all layers; None if some differ."""
    first = layers[0][0]
    units, out, bias = first.units, first.hh.shape[1], first.bias_ih is not None
    for w in [w for layer in layers for w in layer]:
        if (w.units, w.hh.shape[1], w.bias_ih is not None) != (units, out, bias):
            return None
        if (w.hr is None) != (units == out):  # a square projection
            return None
    return {
        "kind": kind,
        "units": units,
        "out": out,
        "layers": len(layers),
        "directions": len(layers[0]),
        "bias": bias,
    }


def _tensors(x: ndarray, params: dict) -> tuple[Tensor, ...]:
    return tensors(
        Layers(params["kind"], x.shape[2], *[params[field] for field in Layers._fields[2:]])
    )


def _by_one_op(
    x: ndarray, weights: list[list[_Direction]], states: tuple[ndarray, ...], /, **params: Any
) -> tuple[ndarray, tuple]:
    """The version of one op, whose weights lie in one vector."""
    flat = [w for layer in weights for w in layer]
    parts = [getattr(flat[t.end], t.role).reshape(-1) for t in _tensors(x, params)]
    h, c = (*[in_order(each) for each in states], None, None)[:2]
    y, _, *ends = _layers(in_order(x), concat(parts), h, c, **params)
    return y, tuple(ends)


def _unpacked(w: ndarray, x: ndarray, params: dict) -> list[list[_Direction]]:
    """The weights by layer and direction, views of the vector."""
    found: list[dict[str, Any]] = [{} for _ in range(params["layers"] * params["directions"])]
    for t in _tensors(x, params):
        found[t.end][t.role] = w[t.part].reshape(t.shape)
    missing: dict[str, Any] = dict.fromkeys(_Direction._fields)
    flat = [_Direction(**{**missing, **each}) for each in found]
    count = params["directions"]
    return [flat[i : i + count] for i in range(0, len(flat), count)]


def _rule(
    g: tuple,
    y: tuple,
    x: ndarray,
    w: ndarray,
    h: ndarray | None,
    c: ndarray | None,
    **params: Any,
) -> tuple:
    dy = zeros_like(y[0]) if g[0] is None else in_order(g[0])
    dh, dc = [None if each is None else in_order(each) for each in (*g[2:], None)[:2]]
    found = _layers_grad(x, w, y[0], y[1], dy, h, c, dh, dc, **params)
    return *found, *[None] * (4 - len(found))


def _grad_rule(
    to: tuple,
    _first: None,
    x: ndarray,
    w: ndarray,
    _y: None,
    _reserve: None,
    dy: ndarray,
    h: ndarray | None,
    c: ndarray | None,
    dh: ndarray | None,
    dc: ndarray | None,
    **params: Any,
) -> tuple:
    """y and the reserve count as functions of x, w, h and c."""
    operands = {"x": x, "w": w, "dy": dy, "h": h, "c": c, "dh": dh, "dc": dc}
    given = {name: each for name, each in operands.items() if each is not None}
    leading = [name for name in ("x", "w", "h", "c") if name in given]

    def first(*arrays: ndarray) -> tuple:
        now = dict(zip(given, arrays, strict=True))
        ends, pull = vjp(lambda *a: stored(*a, **params), *[now[name] for name in leading])
        slopes = [now.get(name) for name in ("dy", "dh", "dc")][: len(ends)]
        return pull(
            tuple([zeros_like(y) if g is None else g for y, g in zip(ends, slopes, strict=True)])
        )

    results, pull = vjp(first, *given.values())
    found = dict(
        zip(
            given,
            pull(
                tuple([zeros_like(r) if g is None else g for r, g in zip(results, to, strict=True)])
            ),
            strict=True,
        )
    )
    x_, w_, *rest = [found.get(name) for name in operands]
    return x_, w_, None, None, *rest


def stored(x: ndarray, w: ndarray, *states: ndarray, lengths: Any, **params: Any) -> tuple:
    """What `_layers` gives but for its reserve, out of public operations."""
    counts = None if lengths is None else asarray(np.array(lengths), device=x.device)
    y, ends = _by_steps(params["kind"], x, _unpacked(w, x, params), states, counts)
    return y, *ends


_layers = Op(
    "recurrent_layers",
    cpu="recurrent.layers",
    cuda="recurrent.dispatch.layers",
    outputs=3,
    vjp=_rule,
)
_layers_grad = Op(
    "recurrent_layers_grad",
    cpu="recurrent.layers_grad",
    cuda="recurrent.dispatch.layers_grad",
    outputs=2,
    vjp=_grad_rule,
)


# -------------------- public functions


def rnn(
    x: ArrayLike,
    weights: Weights,
    state: ArrayLike | None = None,
    *,
    nonlinearity: str = "tanh",
    lengths: ArrayLike | None = None,
    batch_first: bool = False,
) -> tuple[ndarray, ndarray]:
    """Recurrent layers of one gate.

    h' = f(x W_ih^T + b_ih + h W_hh^T + b_hh).

    Parameters
    ----------
    x : array (steps, batch, features) or (steps, features)
        The sequences.
    weights : dict of arrays
        With PyTorch's names: weight_ih_l0 (units, features), weight_hh_l0 (units, units), and
        bias_ih_l0, bias_hh_l0 (units,) or neither; _l1 and so on for further layers, whose
        features are the outputs of the layer before; with _reverse at the end for the second
        direction. So a `state_dict` of torch.nn.RNN is such a dict.
    state : array (layers and directions, batch, units), optional
        The first state. The default is zeros.
    nonlinearity : "tanh" or "relu", default "tanh"
        F.
    lengths : array of int (batch,), optional
        The number of steps of each sequence. Later outputs are 0, states are those of the last
        step, and the second direction begins there.
    batch_first : bool, default False
        Whether x and the outputs are (batch, steps, features).

    Returns
    -------
    (y, state)
        The outputs of the last layer, (steps, batch, units) or for two directions (steps, batch,
        2 units); the last states, as `state`.

    Raises
    ------
    TypeError
        Operands are not floating-point; `weights` is no dict.
    ValueError
        Weights that are missing, unknown, or do not fit; shapes that do not fit.

    Notes
    -----
    Gradient: by x, weights and state, of any order.

    On a GPU with cuDNN all layers and steps are one call of it, where lengths, if any, are numbers
    of the host (a list, a NumPy array) and not 0. Otherwise the steps are a `scan`.

    Examples
    --------
    >>> import cudamath as cm
    >>> one = cm.ones((1, 1))
    >>> y, h = cm.ml.rnn(cm.ones((3, 1)), {"weight_ih_l0": one, "weight_hh_l0": one},
    ...                  nonlinearity="relu")
    >>> y.tolist(), h.tolist()
    ([[1.0], [2.0], [3.0]], [[3.0]])
    """
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"rnn: wants nonlinearity 'tanh' or 'relu', got {nonlinearity!r:.60}")
    y, (h,) = _run("rnn", nonlinearity, x, weights, state, lengths, batch_first)
    return y, h


def lstm(
    x: ArrayLike,
    weights: Weights,
    state: tuple[ArrayLike, ArrayLike] | None = None,
    *,
    lengths: ArrayLike | None = None,
    batch_first: bool = False,
) -> tuple[ndarray, tuple[ndarray, ndarray]]:
    """Long short-term memory: recurrent layers with a cell and three gates.

    i, f, g, o = x W_ih^T + b_ih + h W_hh^T + b_hh;
    c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c'), times W_hr^T if there is one.

    Parameters
    ----------
    x : array (steps, batch, features) or (steps, features)
        The sequences.
    weights : dict of arrays
        With PyTorch's names: weight_ih_l0 (4 units, features), weight_hh_l0 (4 units, out), and
        bias_ih_l0, bias_hh_l0 (4 units,) or neither; weight_hr_l0 (out, units) for a projection,
        without which out is units. _l1 and _reverse as in `rnn`.
    state : pair of arrays, optional
        H (layers and directions, batch, out) and c (layers and directions, batch, units). The
        default is zeros.
    lengths : array of int (batch,), optional
        The number of steps of each sequence, as in `rnn`.
    batch_first : bool, default False
        Whether x and the outputs are (batch, steps, features).

    Returns
    -------
    (y, (h, c))
        The outputs of the last layer and the last states, as in `rnn`.

    Raises
    ------
    TypeError
        Operands are not floating-point; `weights` is no dict.
    ValueError
        Weights that are missing, unknown, or do not fit; shapes that do not fit.

    Notes
    -----
    Gradient: by x, weights and state, of any order. By cuDNN where `rnn` is; otherwise a step is a
    product and one kernel for the gates.

    References
    ----------
    .. [1] Hochreiter and Schmidhuber, "Long short-term memory", 1997.

    Examples
    --------
    >>> import cudamath as cm
    >>> weights = {"weight_ih_l0": cm.ones((8, 3)), "weight_hh_l0": cm.zeros((8, 2))}
    >>> y, (h, c) = cm.ml.lstm(cm.zeros((5, 4, 3)), weights)
    >>> y.shape, h.shape, c.shape
    ((5, 4, 2), (1, 4, 2), (1, 4, 2))
    """
    y, (h, c) = _run("lstm", "lstm", x, weights, state, lengths, batch_first)
    return y, (h, c)


def gru(
    x: ArrayLike,
    weights: Weights,
    state: ArrayLike | None = None,
    *,
    lengths: ArrayLike | None = None,
    batch_first: bool = False,
) -> tuple[ndarray, ndarray]:
    """Gated recurrent units: recurrent layers with two gates.

    With xr, xz, xn = x W_ih^T + b_ih and hr, hz, hn = h W_hh^T + b_hh:
    r = sigmoid(xr + hr); z = sigmoid(xz + hz); n = tanh(xn + r hn); h' = (1 - z) n + z h.

    Parameters
    ----------
    x : array (steps, batch, features) or (steps, features)
        The sequences.
    weights : dict of arrays
        With PyTorch's names: weight_ih_l0 (3 units, features), weight_hh_l0 (3 units, units), and
        bias_ih_l0, bias_hh_l0 (3 units,) or neither. _l1 and _reverse as in `rnn`.
    state : array (layers and directions, batch, units), optional
        The first state. The default is zeros.
    lengths : array of int (batch,), optional
        The number of steps of each sequence, as in `rnn`.
    batch_first : bool, default False
        Whether x and the outputs are (batch, steps, features).

    Returns
    -------
    (y, state)
        The outputs of the last layer and the last states, as in `rnn`.

    Raises
    ------
    TypeError
        Operands are not floating-point; `weights` is no dict.
    ValueError
        Weights that are missing, unknown, or do not fit; shapes that do not fit.

    Notes
    -----
    Gradient: by x, weights and state, of any order. By cuDNN where `rnn` is.

    References
    ----------
    .. [1] Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014.

    Examples
    --------
    >>> import cudamath as cm
    >>> weights = {"weight_ih_l0": cm.ones((6, 3)), "weight_hh_l0": cm.zeros((6, 2))}
    >>> y, h = cm.ml.gru(cm.zeros((5, 4, 3)), weights, lengths=cm.array([5, 2, 1, 3]))
    >>> y.shape, h.shape
    ((5, 4, 2), (1, 4, 2))
    """
    y, (h,) = _run("gru", "gru", x, weights, state, lengths, batch_first)
    return y, h
