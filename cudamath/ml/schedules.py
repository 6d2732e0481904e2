"""Learning rates that change as training goes: functions of the number of the step.

    rate = ml.schedules.cosine(6e-4, steps=5000, warmup=200)
    for t in range(5000):
        ... ml.adamw_update(params, grads, state, lr=rate(t))

A schedule takes the number of the step, from 0, as a Python number and returns a float; or as a 0-d
array (the "step" of an Adam state) and returns a 0-d float32 array on the same device, computed by
one kernel. Since nothing waits for the device, that works inside a CUDA graph:
`lr=rate(state["step"])`.

Each begins, if asked, with a linear warm-up: peak (t + 1) / (warmup + 1) for t < warmup.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array import ndarray
from ..core.dtypes import REAL
from ..core.public_names import public_dir
from ..fuse import fuse
from ..ops import elementwise
from ..ops.where import where

__all__ = ["constant", "cosine", "exponential", "linear", "one_cycle", "step_decay"]

__dir__ = public_dir(__name__)

Schedule = Callable[[Any], Any]

#: What formulas of rates use of a namespace: NumPy has these, too.
_FUNCTIONS = types.SimpleNamespace(
    clip=elementwise.clip, cos=elementwise.cos, floor=elementwise.floor, where=where
)


def _positive(name: str, **values: float) -> None:
    for what, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise TypeError(f"{name}: wants {what} as a number, got {type(value).__name__}")
        if not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name}: wants a finite {what} >= 0, got {value}")


def _schedule(name: str, peak: float, warmup: int, formula: Callable[[Any, Any], Any]) -> Schedule:
    """The function of the step: after the warm-up, formula(namespace, t). The namespace is NumPy's
    or ours."""

    def rate(xp: Any, t: Any) -> Any:
        after = formula(xp, t)
        return xp.where(t < warmup, peak * (t + 1.0) / (warmup + 1.0), after) if warmup else after

    @functools.cache
    def fused() -> Callable:
        return fuse(lambda step: rate(_FUNCTIONS, step.astype("float32")))

    def schedule(step: Any) -> Any:
        if not isinstance(step, ndarray):
            if isinstance(step, bool) or not isinstance(step, (int, float, np.number)):
                raise TypeError(
                    f"{name}: wants the step as a number or a 0-d array, got {type(step).__name__}"
                )
            return float(rate(np, float(step)))
        if step.shape != () or step.dtype not in REAL:
            raise TypeError(
                f"{name}: wants the step as a number or a 0-d array, got {step.dtype} of shape "
                f"{step.shape}"
            )
        return fused()(step)

    schedule.__name__ = schedule.__qualname__ = name
    return schedule


def constant(peak: float, *, warmup: int = 0) -> Schedule:
    """Make a schedule that stays at `peak` after the warm-up.

    Parameters
    ----------
    peak : float
        Not negative.
    warmup : int, default 0
        Counted from the beginning of training; steps > warmup.

    Returns
    -------
    callable
        The number of the step (int or 0-d array) -> the learning rate (float, or 0-d float32
        array).

    Raises
    ------
    ValueError, TypeError
        Negative numbers, no step after the warm-up, other things than numbers.

    Examples
    --------
    >>> import cudamath as cm
    >>> [cm.ml.schedules.constant(1.0, warmup=3)(t) for t in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    _positive("constant", peak=peak, warmup=warmup)
    return _schedule("constant", peak, warmup, lambda xp, t: peak + 0.0 * t)


def _progress(xp: Any, t: Any, steps: int, warmup: int) -> Any:
    """From 0 at the end of the warm-up to 1 at `steps`, and 1 from there on."""
    return xp.clip((t - float(warmup)) * (1.0 / (steps - warmup)), 0.0, 1.0)


def _steps(name: str, peak: float, steps: int, warmup: int, end: float) -> None:
    _positive(name, peak=peak, steps=steps, warmup=warmup, end=end)
    if steps <= warmup:
        raise ValueError(
            f"{name}: wants more steps than those of the warm-up, got steps={steps}, "
            f"warmup={warmup}"
        )


def linear(peak: float, *, steps: int, warmup: int = 0, end: float = 0.0) -> Schedule:
    """Make a schedule from `peak` in a straight line to `end`.

    It begins after the warm-up and stays at `end` from step `steps` on.

    Parameters
    ----------
    peak : float
        Not negative.
    steps : int
        Counted from the beginning of training; steps > warmup.
    warmup : int, default 0
        Counted from the beginning of training; steps > warmup.
    end : float, default 0.0
        Not negative.

    Returns
    -------
    callable
        The number of the step (int or 0-d array) -> the learning rate (float, or 0-d float32
        array).

    Raises
    ------
    ValueError, TypeError
        Negative numbers, no step after the warm-up, other things than numbers.

    Examples
    --------
    >>> import cudamath as cm
    >>> [cm.ml.schedules.linear(1.0, steps=4, end=0.2)(t) for t in (0, 2, 4, 9)]
    [1.0, 0.6, 0.2, 0.2]
    """
    _steps("linear", peak, steps, warmup, end)

    def formula(xp: Any, t: Any) -> Any:
        share = _progress(xp, t, steps, warmup)
        return peak * (1.0 - share) + end * share

    return _schedule("linear", peak, warmup, formula)


def cosine(peak: float, *, steps: int, warmup: int = 0, end: float = 0.0) -> Schedule:
    """Make a schedule from `peak` along half a cosine to `end`.

    It begins after the warm-up and stays at `end` from step `steps` on.

    lr = end + (peak - end) (1 + cos(pi r)) / 2, r = (t - warmup) / (steps - warmup)

    Parameters
    ----------
    peak : float
        Not negative.
    steps : int
        Counted from the beginning of training; steps > warmup.
    warmup : int, default 0
        Counted from the beginning of training; steps > warmup.
    end : float, default 0.0
        Not negative.

    Returns
    -------
    callable
        The number of the step (int or 0-d array) -> the learning rate (float, or 0-d float32
        array).

    Raises
    ------
    ValueError, TypeError
        Negative numbers, no step after the warm-up, other things than numbers.

    References
    ----------
    .. [1] Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2016.

    Examples
    --------
    >>> import cudamath as cm
    >>> rate = cm.ml.schedules.cosine(1.0, steps=100, warmup=10, end=0.1)
    >>> [round(rate(t), 3) for t in (0, 9, 10, 55, 100)]
    [0.091, 0.909, 1.0, 0.55, 0.1]
    >>> rate(cm.asarray(55)).dtype
    dtype('float32')
    """
    _steps("cosine", peak, steps, warmup, end)
    return _schedule(
        "cosine",
        peak,
        warmup,
        lambda xp, t: (
            end + (0.5 * (peak - end)) * (1.0 + xp.cos(math.pi * _progress(xp, t, steps, warmup)))
        ),
    )


def step_decay(peak: float, *, every: int, gamma: float = 0.1, warmup: int = 0) -> Schedule:
    """Make a schedule of `peak` gamma^k after k times `every` steps, as torch's StepLR.

    The warm-up counts: k is floor(t / every) of all steps t.

    Parameters
    ----------
    peak : float
        Learning rate after the warm-up, not negative.
    every : int
        Number of steps between two factors, >= 1.
    gamma : float, default 0.1
        Factor after `every` steps, not negative.
    warmup : int, default 0
        Counted from the beginning of training; steps > warmup.

    Returns
    -------
    callable
        The number of the step (int or 0-d array) -> the learning rate (float, or 0-d float32
        array).

    Raises
    ------
    ValueError, TypeError
        Negative numbers, no step after the warm-up, other things than numbers.

    Examples
    --------
    >>> import cudamath as cm
    >>> [cm.ml.schedules.step_decay(1.0, every=2, gamma=0.5)(t) for t in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """
    _positive("step_decay", peak=peak, gamma=gamma, warmup=warmup, every=every)
    if every < 1:
        raise ValueError(f"step_decay: wants every >= 1, got {every}")
    # (t + 1/2) / every never rounds up to a whole number
    return _schedule(
        "step_decay", peak, warmup, lambda xp, t: peak * gamma ** xp.floor((t + 0.5) / float(every))
    )


def exponential(peak: float, *, gamma: float, warmup: int = 0) -> Schedule:
    """Make a schedule of `peak` gamma^t, as torch's ExponentialLR.

    T counts from the beginning of training.

    Parameters
    ----------
    peak : float
        Learning rate after the warm-up, not negative.
    gamma : float
        Factor of each step, not negative.
    warmup : int, default 0
        Counted from the beginning of training; steps > warmup.

    Returns
    -------
    callable
        The number of the step (int or 0-d array) -> the learning rate (float, or 0-d float32
        array).

    Raises
    ------
    ValueError, TypeError
        Negative numbers, no step after the warm-up, other things than numbers.

    Examples
    --------
    >>> import cudamath as cm
    >>> [cm.ml.schedules.exponential(1.0, gamma=0.5)(t) for t in range(3)]
    [1.0, 0.5, 0.25]
    """
    _positive("exponential", peak=peak, gamma=gamma, warmup=warmup)
    return _schedule("exponential", peak, warmup, lambda xp, t: peak * gamma**t)


def one_cycle(
    peak: float,
    *,
    steps: int,
    rising: float = 0.3,
    start_factor: float = 25.0,
    end_factor: float = 1e4,
) -> Schedule:
    """Make a schedule up to `peak` and down to nearly 0, along half cosines.

    It rises from peak / start_factor to `peak` during the share `rising` of all steps, and then
    falls to peak / (start_factor end_factor), as torch's OneCycleLR.

    Parameters
    ----------
    peak : float
        Largest learning rate, not negative.
    steps : int
        Number of steps of the whole training.
    rising : float, default 0.3
        Share of the steps before the peak, with at least one step on either side.
    start_factor : float, default 25.0
        Ratio of the peak to the first rate, positive.
    end_factor : float, default 1e4
        Ratio of the first rate to the last one, positive.

    Returns
    -------
    callable
        The number of the step (int or 0-d array) -> the learning rate (float, or 0-d float32
        array).

    Raises
    ------
    ValueError, TypeError
        Negative numbers, no step after the warm-up, other things than numbers.

    References
    ----------
    .. [1] Smith and Topin, "Super-convergence: very fast training of neural networks using large
       learning rates", 2017.

    Examples
    --------
    >>> import cudamath as cm
    >>> rate = cm.ml.schedules.one_cycle(1.0, steps=11, rising=0.5)
    >>> [round(rate(t), 3) for t in (0, 2, 5, 10)]
    [0.04, 0.437, 0.98, 0.0]
    """
    name = "one_cycle"
    _positive(
        name,
        peak=peak,
        steps=steps,
        rising=rising,
        start_factor=start_factor,
        end_factor=end_factor,
    )
    top, last = rising * steps - 1.0, steps - 1.0
    if not (0 < top < last and start_factor and end_factor):
        raise ValueError(
            f"{name}: wants at least one step up and one down and positive factors, got "
            f"steps={steps}, "
            f"rising={rising}, factors {start_factor} and {end_factor}"
        )
    low = peak / start_factor
    lowest = low / end_factor

    def formula(xp: Any, t: Any) -> Any:
        up = peak + (low - peak) / 2 * (1.0 + xp.cos(math.pi * xp.clip(t / top, 0.0, 1.0)))
        down = lowest + (peak - lowest) / 2 * (
            1.0 + xp.cos(math.pi * xp.clip((t - top) / (last - top), 0.0, 1.0))
        )
        return xp.where(t <= top, up, down)

    return _schedule(name, peak, 0, formula)
