"""Mixed precision: the model computes in 16 bits, its parameters stay float32.

    params = ...                                        # float32, what is trained
    copies = ml.amp.cast(params, "bfloat16")            # what the model computes with
    state = ml.adam_init(params)

    loss, grads = cm.value_and_grad(loss_fn)(copies, batch)             # gradients of 16 bits
    factor, norm = ml.clip_factor(grads, 1.0)
    ml.adamw_update(params, grads, state, lr=lr, factor=factor, copies=copies)

The last call is one launch: it reads the gradients (times the factor), steps the float32 parameters
and moments, and writes the 16-bit copies for the next step. So mixed precision costs no pass over
the parameters of its own. What is 16-bit is plain to see in the dtypes of the arrays: there is no
mode in which functions compute in another dtype than their arguments have (as torch's autocast),
because such a mode casts every weight once per step and hides where precision is lost. Products,
sums, norms and softmax of 16-bit arrays are accumulated in float32 in any case.

float16 has a narrow range: gradients below 6e-8 vanish. So the loss is multiplied by a scale before
it is differentiated, as large as gradients allow without overflow, and found as training goes:

    scale = ml.amp.loss_scale()
    loss, grads = cm.value_and_grad(lambda p: loss_fn(p, batch) * scale["scale"])(copies)
    factor, norm = ml.amp.unscale(grads, scale, max_norm=1.0)           # 1 / scale, clipped; NaN
        after an overflow
    ml.adamw_update(params, grads, state, lr=lr, factor=factor, copies=copies)

A step with an overflow is left out on the device, without the host's knowing: the whole is one CUDA
graph. A loss that is NaN for another reason (bad data, a diverged model) leaves its step out too,
and halves the scale again and again; `scale["skipped"]` counts such steps, and
`error_if_nonfinite=True` raises FloatingPointError instead.

Source: Micikevicius et al., "Mixed precision training", 2017.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import trees
from ..core.array import ndarray
from ..core.asarray import upload
from ..core.devices import default_index, index_of
from ..core.dispatch.checks import as_numbers, require_function
from ..core.dispatch.op import Op
from ..core.dtypes import FLOATING, as_dtype, float32
from ..core.public_names import public_dir
from ..core.typing import DeviceLike, DTypeLike
from ..ops.shape import in_memory_order
from .gradient_clipping import norm_and_factor

__all__ = ["cast", "computing_in", "loss_scale", "unscale"]

__dir__ = public_dir(__name__)

Tree = Any

_unscale = Op("unscale", cpu="optim.clip_factor", cuda="optim.dispatch.factor", outputs=2)


def cast(tree: Tree, dtype: DTypeLike, *, keep: Callable[[ndarray], bool] | None = None) -> Tree:
    """The floating-point arrays of a tree in another dtype; everything else as it is.

    Parameters
    ----------
    tree : tree
        Arrays, numbers, strings, ...
    dtype : dtype
        Dtype float16, bfloat16, float32 or float64.
    keep : function of an array, optional
        Arrays for which it is true stay as they are (the very same objects). The weights of norms
        can stay in float32: norms take them beside a 16-bit x. Biases cannot: with a float32 bias
        `linear` and `mlp` give float32, by the rules of `x + bias`, and convolutions and
        `linear_quantized` refuse it. Shapes do not tell the two apart (`p.ndim < 2` is true of
        both); names do, see the second example.

    Returns
    -------
    tree
        New arrays, except those that have the dtype already.

    Raises
    ------
    TypeError
        A dtype that is not floating-point.

    Notes
    -----
    Gradient: of the dtype of what was cast, so a loss computed with `cast(params, "bfloat16")` has
    float32 gradients with respect to float32 params. Rounded to nearest, ties to even.

    Examples
    --------
    >>> import cudamath as cm
    >>> copies = cm.ml.amp.cast({"w": cm.ones((2, 2), dtype="float32"), "steps": 3}, "bfloat16")
    >>> copies["w"].dtype, copies["steps"]
    (dtype(bfloat16), 3)
    >>> shapes = {"w": (2, 2), "b": 2, "norm": 2}
    >>> params = {name: cm.ones(shape, "float32") for name, shape in shapes.items()}
    >>> copies = {name: cm.ml.amp.cast(params[name], "bfloat16") for name in ("w", "b")}
    >>> y = cm.ml.linear(cm.ones((1, 2), "bfloat16"), copies["w"], copies["b"])
    >>> cm.ml.rms_norm(y, 2, params["norm"]).dtype
    dtype(bfloat16)
    >>> cm.grad(lambda w: cm.ml.amp.cast(w, "float16").sum())(cm.ones(2, dtype="float32")).dtype
    dtype('float32')
    """
    wanted = as_dtype(dtype, "cast")
    if wanted not in FLOATING:
        raise TypeError(f"cast: wants a floating-point dtype, got {wanted}")
    if keep is not None:
        require_function("cast", keep, "a function of an array as keep")

    def one(x: Any) -> Any:
        if (
            not isinstance(x, ndarray)
            or x.dtype not in FLOATING
            or x.dtype == wanted
            or (keep is not None and keep(x))
        ):
            return x
        return in_memory_order(lambda x: x.astype(wanted), x)

    return trees.map_leaves("cast", one, tree)


def computing_in(
    dtype: DTypeLike, *, result: DTypeLike = "float32"
) -> Callable[[Callable], Callable]:
    """Make a decorator that sets the dtypes of arguments and results.

    The floating-point arguments of the function arrive in `dtype`, and its results leave in
    `result`.

    For what is not trained step by step (evaluation, a part of a model): arguments are trees, cast
    with `cast` at every call, gradients come back in the arguments' own dtypes.

    Parameters
    ----------
    dtype : dtype
        What to compute in.
    result : dtype, default "float32"
        What floating-point results are cast to.

    Returns
    -------
    callable
        The function.

    Raises
    ------
    TypeError
        Dtypes that are not floating-point.

    Examples
    --------
    >>> import cudamath as cm
    >>> @cm.ml.amp.computing_in("bfloat16")
    ... def product(x, w):
    ...     assert x.dtype == w.dtype == cm.bfloat16
    ...     return x @ w
    >>> product(cm.ones((2, 3), dtype="float32"), cm.ones((3, 1), dtype="float32")).dtype
    dtype('float32')
    """
    inside, outside = as_dtype(dtype, "computing_in"), as_dtype(result, "computing_in")
    for each in (inside, outside):
        if each not in FLOATING:
            raise TypeError(f"computing_in: wants floating-point dtypes, got {each}")

    def decorate(fn: Callable) -> Callable:
        require_function("computing_in", fn)

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = cast((args, kwargs), inside)
            return cast(fn(*args, **kwargs), outside)

        return wrapped

    return decorate


def loss_scale(initial: float = 65536.0, *, device: DeviceLike | None = None) -> dict[str, ndarray]:
    """Return the state of dynamic loss scaling.

    The state is {"scale": float32, "good": int64, "skipped": int64}, all 0-d arrays.

    scale is what the loss is multiplied by, good counts the steps since it changed, skipped counts
    the steps skipped so far. Save it in checkpoints, with the optimizer's state.

    Parameters
    ----------
    initial : float, default 65536.0
        First scale, positive.
    device : device_like, optional
        Where the parameters are; the default device unless given.

    Returns
    -------
    dict
        The state.

    Raises
    ------
    ValueError
        An initial scale that is not positive.
    DeviceError
        There is no such device.

    Examples
    --------
    >>> import cudamath as cm
    >>> cm.ml.amp.loss_scale(1024.0)["scale"].item()
    1024.0
    """
    if not (isinstance(initial, (int, float, np.number)) and 0 < initial < math.inf):
        raise ValueError(f"loss_scale: wants a finite initial scale > 0, got {initial!r}")
    place = default_index() if device is None else index_of(device)
    return {
        "scale": upload(np.full((), initial, np.float32), place),
        "good": upload(np.zeros((), np.int64), place),
        "skipped": upload(np.zeros((), np.int64), place),
    }


def unscale(
    grads: Tree,
    state: dict[str, ndarray],
    *,
    max_norm: float = math.inf,
    growth: float = 2.0,
    backoff: float = 0.5,
    interval: int = 2000,
    error_if_nonfinite: bool = False,
) -> tuple[ndarray, ndarray]:
    """Return the factor for gradients of a scaled loss, and adapt the scale.

    Pass the result to an optimizer as `factor`.

    norm = sqrt(sum of all squares) / scale;  factor = min(1, max_norm / (norm + 1e-6)) / scale, NaN
    where the norm is not finite: that step is skipped. Then, as torch's GradScaler: scale *=
    backoff after such a step, scale *= growth after `interval` steps in a row without one.

    Parameters
    ----------
    grads : tree of arrays, float16, bfloat16, float32 or float64
        Gradients of loss * state["scale"]. Only read.
    state : dict
        Of `loss_scale`; its arrays are overwritten.
    max_norm : float, default math.inf
        Clips the unscaled gradients by their norm. Not negative.
    growth : float, default 2.0
        Growth > 1, backoff in (0, 1).
    backoff : float, default 0.5
        Growth > 1, backoff in (0, 1).
    interval : int, default 2000
        Positive.
    error_if_nonfinite : bool, default False
        Raise FloatingPointError for a norm that is not finite: at once on the CPU, at the next
        synchronising call for a GPU.

    Returns
    -------
    (ndarray, ndarray)
        Factor and norm (of the unscaled gradients), 0-d, float32 (float64 if a gradient is). Three
        launches, however many arrays there are; nothing waits for the GPU.

    Raises
    ------
    ValueError
        Numbers out of range, a state of another form, a tree without arrays, or arrays for which a
        gradient is recorded.
    TypeError
        Leaves that are not floating-point.
    FloatingPointError
        See `error_if_nonfinite`.

    Notes
    -----
    The function is not differentiable. The function is deterministic.

    Examples
    --------
    >>> import cudamath as cm
    >>> scale, w = cm.ml.amp.loss_scale(1024.0), cm.array([1.0, 2.0], dtype="float32")
    >>> grads = cm.grad(lambda w: (w * w).sum() * scale["scale"])(w)
    >>> factor, norm = cm.ml.amp.unscale(grads, scale)
    >>> (grads * factor).tolist(), int(scale["good"])
    ([2.0, 4.0], 1)
    >>> factor, norm = cm.ml.amp.unscale(cm.array([cm.inf]), scale)
    >>> float(factor), float(scale["scale"]), int(scale["skipped"])
    (nan, 512.0, 1)
    """
    name = "unscale"
    wanted = {"scale": float32, "good": np.dtype(np.int64), "skipped": np.dtype(np.int64)}
    if not isinstance(state, dict) or set(state) != set(wanted):
        raise ValueError(
            f"{name}: wants a state of loss_scale, with scale, good and skipped, got "
            f"{type(state).__name__}"
            + (f" with {', '.join(map(str, state))}" if isinstance(state, dict) else "")
        )
    for key, dtype in wanted.items():
        x = state[key]
        if not isinstance(x, ndarray) or x.shape != () or x.dtype != dtype:
            seen = f"{x.dtype} of shape {x.shape}" if isinstance(x, ndarray) else type(x).__name__
            raise TypeError(f"{name}: wants {key} in state as a 0-d {dtype} array, got {seen}")
    growth, backoff = as_numbers(name, "growth and backoff as real numbers", growth, backoff)
    if not (growth > 1 and 0 < backoff < 1 and math.isfinite(growth)):
        raise ValueError(
            f"{name}: wants growth > 1 and backoff between 0 and 1, got {growth} and {backoff}"
        )
    if isinstance(interval, bool) or not isinstance(interval, (int, np.integer)) or interval < 1:
        raise ValueError(f"{name}: wants a positive whole interval, got {interval!r}")
    return norm_and_factor(
        _unscale,
        grads,
        max_norm,
        error_if_nonfinite,
        (state["scale"], state["good"], state["skipped"]),
        (float(growth), float(backoff), int(interval)),
    )
