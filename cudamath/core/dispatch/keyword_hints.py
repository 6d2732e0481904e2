"""Errors for keywords that other libraries use: `ml.softmax(x, dim=0)` is told that it is `axis`
here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

#: PyTorch's keywords, and our functions' names for them, of which the first that is there counts.
_OURS = {
    "dim": ("axis", "axes"),
    "dims": ("axes", "axis"),
    "keepdim": ("keepdims",),
    "is_causal": ("causal",),
    "attn_mask": ("mask",),
    "dropout_p": ("dropout", "p"),
    "input": ("x", "logits", "log_probabilities", "indices", "arrays"),
    "tensors": ("arrays",),
    "query": ("q",),
    "key": ("k",),
    "value": ("v",),
    "other": ("y",),
    "target": ("targets", "labels", "target"),
    "weight": ("weight", "weights"),
    "num_groups": ("groups",),
    "normalized_shape": ("axis",),
    "approximate": ("approximate",),
    "inplace": ("out",),
    "scale_factor": ("scale", "size"),
    "kernel_size": ("window", "kernel"),
    "num_classes": ("classes",),
    "reduction": ("reduction",),
    "label_smoothing": ("smoothing",),
    "ignore_index": ("ignore",),
    "max_norm": ("max_norm",),
    "batch_size": ("size",),
    "training": ("training",),
    "generator": ("rng",),
}


def with_hints(function: Function) -> Function:
    """Decorate a function without a fast path: its errors for unknown keywords have hints too."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        unknown = {name: value for name, value in kwargs.items() if name not in parameters}
        if unknown:
            refuse_keywords(function.__name__, unknown, parameters)
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def counterpart(keyword: str, parameters: Iterable[str]) -> str | None:
    """What a function with these parameters calls a keyword of another library."""
    names = set(parameters)
    return next((name for name in _OURS.get(keyword, ()) if name in names), None)


def has_counterparts(parameters: Iterable[str]) -> bool:
    """Whether another library has other names for some of these parameters."""
    names = [*parameters]
    return any([counterpart(keyword, names) not in (None, keyword) for keyword in _OURS])


def refuse_keywords(
    function: str, unknown: Mapping[str, Any], parameters: Iterable[str]
) -> NoReturn:
    """TypeError for keywords that a function does not have."""
    keyword = next(iter(unknown))
    ours = counterpart(keyword, parameters)
    value = unknown[keyword]
    shown = f"={value!r}" if isinstance(value, bool | int | float | str) else ""
    hint = f"; here it is {ours}{shown}" if ours else ""
    raise TypeError(f"{function}() got an unexpected keyword argument {keyword!r}{hint}")
