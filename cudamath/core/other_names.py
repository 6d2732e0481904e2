"""Names of other libraries that are not here: the error says what to write instead.

`x.unsqueeze(0)` and `cm.cat(...)` are AttributeErrors, as they must be for `hasattr`; their texts
name `cm.expand_dims` and `cm.concatenate`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

_GRADIENTS = "cm.grad(f)(x) or cm.value_and_grad(f)(x); nothing is recorded outside of them"
_LAYERS = "functions of arrays, in cm.ml; a model is a function of a dict of parameters"
_SEED = "cm.random.default_rng(seed), whose methods draw"

#: Methods and attributes of PyTorch's tensors and JAX's and CuPy's arrays.
METHODS = {
    **dict.fromkeys(("backward", "grad", "requires_grad", "requires_grad_"), _GRADIENTS),
    "detach": "cm.stop_gradient(x)",
    **dict.fromkeys(("numpy", "asnumpy"), "x.to_numpy()"),
    "cpu": 'x.to_device("cpu")',
    "cuda": 'x.to_device("cuda")',
    "is_cuda": "x.device",
    "block_until_ready": "cm.cuda.synchronize()",
    "clone": "x.copy()",
    "contiguous": "cm.ascontiguousarray(x)",
    "permute": "x.transpose(axes)",
    "t": "x.T",
    **dict.fromkeys(("unsqueeze", "unsqueeze_"), "cm.expand_dims(x, axis)"),
    **dict.fromkeys(("expand", "expand_as"), "cm.broadcast_to(x, shape)"),
    "view_as": "x.reshape(y.shape)",
    "numel": "x.size",
    "dim": "x.ndim",
    "float": 'x.astype("float32")',
    "double": 'x.astype("float64")',
    "half": 'x.astype("float16")',
    "bfloat16": 'x.astype("bfloat16")',
    "long": 'x.astype("int64")',
    "int": 'x.astype("int32")',
    "bool": 'x.astype("bool")',
    **dict.fromkeys(("type", "type_as"), "x.astype(dtype)"),
    **dict.fromkeys(("mm", "bmm", "matmul", "mv"), "x @ y"),
    "masked_fill": "cm.where(mask, value, x)",
    "masked_fill_": "x[mask] = value",
    **dict.fromkeys(("fill_", "zero_"), "x.fill(value)"),
    "copy_": "x[...] = y",
    "add_": "x += y",
    "sub_": "x -= y",
    "mul_": "x *= y",
    "div_": "x /= y",
    "clamp": "x.clip(low, high)",
    "flush": "nothing: what is written into a memmap is in its file",
    **{name: f"cm.{name}(x)" for name in "abs exp log sqrt sin cos tanh isnan square".split()},
    **{name: f"cm.ml.{name}(x)" for name in "relu sigmoid softmax log_softmax".split()},
}

#: Functions of other libraries' main modules.
FUNCTIONS = {
    **dict.fromkeys(("tensor", "Tensor", "FloatTensor", "LongTensor"), "cm.array"),
    **dict.fromkeys(("as_tensor", "from_numpy"), "cm.asarray"),
    **dict.fromkeys(("no_grad", "inference_mode", "enable_grad", "autograd"), _GRADIENTS),
    "manual_seed": _SEED,
    **{name: f"cm.random.{name}" for name in ("rand", "randn", "randint")},
    "randperm": "cm.random.permutation",
    "nn": _LAYERS,
    "Module": _LAYERS,
    "optim": "cm.ml.adam_init and cm.ml.adam_update, or another of cm.ml",
    "cat": "cm.concatenate",
    "row_stack": "cm.vstack",
    "clamp": "cm.clip",
    **dict.fromkeys(("mm", "bmm"), "cm.matmul"),
    "permute": "cm.permute_dims",
    "unsqueeze": "cm.expand_dims",
    "compile": "cm.jit",
    "asnumpy": "x.to_numpy()",
    "numpy": "cudamath itself, which has NumPy's functions",
    **{
        name: f"cm.ml.{name}"
        for name in "relu sigmoid softmax log_softmax gelu dropout cross_entropy".split()
    },
}

_TRAINING = {
    **dict.fromkeys(("Module", "Sequential", "ModuleList", "Parameter"), _LAYERS),
    "functional": "cm.ml itself",
    **dict.fromkeys(("Flatten", "flatten"), "x.reshape(len(x), -1)"),
    **dict.fromkeys(("MultiheadAttention", "multi_head_attention"), "cm.ml.self_attention"),
    **dict.fromkeys(("autocast", "GradScaler"), "cm.ml.amp"),
}


class Elsewhere:
    """The attribute of a class for a name that it does not have: an AttributeError that says what
    is there instead. A `__getattr__` would make every other attribute slower."""

    def __init__(self, name: str, instead: str):
        self.message = f"'ndarray' object has no attribute {name!r}; here it is {instead}"

    def __get__(self, instance: Any, owner: Any = None) -> NoReturn:
        raise AttributeError(self.message)


def refuse_function(module: str, name: str) -> NoReturn:
    """AttributeError for a name that the package does not have."""
    hint = f"; here it is {FUNCTIONS[name]}" if name in FUNCTIONS else ""
    if not hint and not name.startswith("_") and hasattr(np, name):  # records, texts, nditer
        hint = f"; numpy.{name} is NumPy's own and takes x.to_numpy()"
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def refuse_layer(module: str, name: str, functions: Iterable[str]) -> NoReturn:
    """AttributeError for a name that `cm.ml` does not have. PyTorch's classes are functions here:
    Conv2d conv2d, CrossEntropyLoss cross_entropy, Adam adam_init and adam_update."""
    plain = {_plain(function): function for function in functions}
    key = _plain(name)
    ours = plain.get(key) or plain.get(key.removesuffix("loss"))
    steps = plain.get(f"{key}update")
    instead = _TRAINING.get(name)
    if instead is None and steps:
        instead = f"the function cm.ml.{steps}(params, grads, state, ...)"
    elif instead is None and ours:
        instead = f"the function cm.ml.{ours}"
    hint = f"; here it is {instead}" if instead else ""
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
