"""GPT-2: the language model of Radford et al., as functions of a tree of parameters.

    params = gpt2.create(gpt2.SIZES["124m"], rng=cm.random.default_rng(0))
    loss = gpt2.loss(params, tokens, targets, gpt2.SIZES["124m"])

The embeddings of a token and of its position are added: the residual stream. Each of `layers`
blocks adds to it, first by attention to the tokens before, then by two fully connected layers. The
final state of a token, normalised, is multiplied by every row of the token embedding: these are the
logits of the next token.

The parameters are a dict with the names of the published weights ("h.0.attn.c_attn.weight"), so
that a checkpoint can be read by eye. Weights are (out, in) as `ml.linear` wants them; the published
ones are transposed (see `pretrained`). The token embedding is padded beyond the vocabulary to a
multiple of 128 rows: products of such sizes run at the full rate. The padding rows are zero, count
in no loss, and stay zero.

Source: Radford, Wu, Child, Luan, Amodei, Sutskever, "Language models are unsupervised multitask
learners", 2019.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable
from typing import Any

import cudamath as cm
from cudamath import ml

__all__ = [
    "SIZES",
    "Config",
    "create",
    "flops_per_token",
    "forward",
    "logits",
    "loss",
    "pretrained",
]

Tree = dict[str, cm.ndarray]

PADDING = 128  # the token embedding has a multiple of this many rows


@dataclasses.dataclass(frozen=True)
class Config:
    """The sizes of a model.

    vocabulary: how many tokens there are; context: the longest sequence; layers: blocks; heads: of
    the attention; width: numbers in a token's state.
    """

    vocabulary: int = 50257
    context: int = 1024
    layers: int = 12
    heads: int = 12
    width: int = 768

    def __post_init__(self) -> None:
        if min(dataclasses.astuple(self)) < 1 or self.width % self.heads:
            raise ValueError(
                "gpt2.Config: wants sizes of at least 1, and heads that divide the width, got "
                f"{self}"
            )

    @property
    def rows(self) -> int:
        """Rows of the token embedding: the vocabulary, padded."""
        return -(-self.vocabulary // PADDING) * PADDING


#: The published sizes, and one small enough for a CPU.
SIZES = {
    "tiny": Config(vocabulary=256, context=128, layers=3, heads=4, width=128),
    "124m": Config(),
    "355m": Config(layers=24, heads=16, width=1024),
    "774m": Config(layers=36, heads=20, width=1280),
    "1558m": Config(layers=48, heads=25, width=1600),
}


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every parameter."""
    e = config.width
    out: dict[str, tuple[int, ...]] = {
        "wte.weight": (config.rows, e),
        "wpe.weight": (config.context, e),
    }
    for i in range(config.layers):
        h = f"h.{i}."
        for norm in ("ln_1", "ln_2"):
            out[f"{h}{norm}.weight"], out[f"{h}{norm}.bias"] = (e,), (e,)
        for name, size in (
            ("attn.c_attn", (3 * e, e)),
            ("attn.c_proj", (e, e)),
            ("mlp.c_fc", (4 * e, e)),
            ("mlp.c_proj", (e, 4 * e)),
        ):
            out[f"{h}{name}.weight"], out[f"{h}{name}.bias"] = size, size[:1]
    out["ln_f.weight"], out["ln_f.bias"] = (e,), (e,)
    return out


def create(config: Config, *, rng: cm.random.Generator | None = None, device: Any = None) -> Tree:
    """Fresh parameters, float32, drawn as GPT-2's were.

    Weights are normal with standard deviation 0.02; those that write into the residual stream, two
    per layer, have 0.02 / sqrt(2 layers), so that the stream's variance does not grow with the
    depth. Biases are 0, the scales of the normalisations 1.

    >>> import cudamath as cm
    >>> from cudamath.models import gpt2
    >>> params = gpt2.create(gpt2.SIZES["tiny"], rng=cm.random.default_rng(0))
    >>> params["h.0.attn.c_attn.weight"].shape
    (384, 128)
    """
    rng = cm.random.default_rng(0) if rng is None else rng
    params: Tree = {}
    for name, shape in shapes(config).items():
        if len(shape) == 2:
            deviation = (
                0.02 / math.sqrt(2 * config.layers) if name.endswith("c_proj.weight") else 0.02
            )
            params[name] = ml.init.normal(shape, std=deviation, rng=rng, device=device)
        else:
            params[name] = (ml.init.zeros if name.endswith("bias") else ml.init.ones)(
                shape, device=device
            )
    params["wte.weight"][config.vocabulary :] = 0
    return params


def forward(
    params: Tree,
    tokens: cm.ndarray,
    config: Config,
    *,
    dropout: float = 0.0,
    rng: cm.random.Generator | None = None,
    attend: Callable | None = None,
    places: cm.ndarray | None = None,
    recompute: bool = False,
) -> cm.ndarray:
    """Tokens (batch, length) of integers -> final states (batch, length, width), in the dtype of
    the parameters.

    dropout: probability of dropping a number where it enters the residual stream, in training.
    attend: the attention, (layer, qkv (batch, length, 3 width)) -> (batch, length, width); by
    default causal attention among the tokens. places: positions of the tokens in their sequence,
    (length,); by default 0, 1, ... recompute: see `ml.mlp`. TypeError for tokens that are not
    integers, ValueError for sequences longer than the context, IndexError for tokens outside the
    vocabulary; on a GPU at the next synchronisation.
    """
    where = params["wpe.weight"]
    if type(tokens) is not cm.ndarray:
        tokens = cm.asarray(tokens, device=where.device)
    if tokens.dtype.kind not in "iu":
        raise TypeError(
            f"gpt2.forward: wants tokens as integers, got {tokens.dtype} of shape {tokens.shape}"
        )
    if tokens.ndim != 2 or tokens.shape[1] > config.context:
        raise ValueError(
            "gpt2.forward: wants tokens (batch, length) with a length of at most "
            f"{config.context}, got shape "
            f"{tokens.shape}"
        )
    where = where[: tokens.shape[1]] if places is None else ml.embedding(places, where)
    x = ml.dropout(
        ml.embedding(tokens, params["wte.weight"], classes=config.vocabulary) + where,
        dropout,
        rng=rng,
    )
    more = None
    for i in range(config.layers):
        own = None if attend is None else functools.partial(attend, i)
        options: dict[str, Any] = {
            "dropout": dropout,
            "rng": rng,
            "attend": own,
            "recompute": recompute,
        }
        x, more = block(params, f"h.{i}.", x, more, config, **options)
    return ml.layer_norm(
        x, config.width, params["ln_f.weight"], params["ln_f.bias"], residual=more
    )[0]


def block(
    params: Tree,
    h: str,
    x: cm.ndarray,
    more: cm.ndarray | None,
    config: Config,
    *,
    dropout: float = 0.0,
    rng: cm.random.Generator | None = None,
    attend: Callable | None = None,
    recompute: bool = False,
) -> tuple[cm.ndarray, cm.ndarray]:
    """One layer, whose parameters' names begin with `h`: attention, then two linear layers.

    The residual stream (B, S, width) is x + more, where `more` is the output of the layer before:
    the normalisations add it in the same pass over memory, and so do their gradients. Returns the
    next (x, more).
    """

    def linear(x: cm.ndarray, name: str) -> cm.ndarray:
        return ml.linear(x, params[f"{h}{name}.weight"], params[f"{h}{name}.bias"])

    def norm(x: cm.ndarray, more: cm.ndarray | None, name: str) -> tuple[cm.ndarray, cm.ndarray]:
        weight, bias = params[f"{h}{name}.weight"], params[f"{h}{name}.bias"]
        if more is None:
            return ml.layer_norm(x, config.width, weight, bias), x
        return ml.layer_norm(x, config.width, weight, bias, residual=more)

    y, x = norm(x, more, "ln_1")
    qkv = linear(y, "attn.c_attn")
    y = ml.self_attention(qkv, config.heads) if attend is None else attend(qkv)
    y, x = norm(x, ml.dropout(linear(y, "attn.c_proj"), dropout, rng=rng), "ln_2")
    two = [
        params[f"{h}mlp.{name}"]
        for name in ("c_fc.weight", "c_fc.bias", "c_proj.weight", "c_proj.bias")
    ]
    y = ml.mlp(y, *two, activation="gelu_tanh", recompute=recompute)
    return x, ml.dropout(y, dropout, rng=rng)


def logits(params: Tree, states: cm.ndarray, config: Config) -> cm.ndarray:
    """Final states (..., width) -> logits (..., vocabulary) of the next token.

    They are products with the token embedding, or with "lm_head.weight" if there is one: an
    embedding, whose rows are looked up, cannot be quantized; that copy of it can.
    """
    return ml.linear(states, params.get("lm_head.weight", params["wte.weight"]))[
        ..., : config.vocabulary
    ]


def loss(
    params: Tree,
    tokens: cm.ndarray,
    targets: cm.ndarray,
    config: Config,
    *,
    dropout: float = 0.0,
    rng: cm.random.Generator | None = None,
    recompute: bool = False,
) -> cm.ndarray:
    """Mean cross entropy of the next tokens: tokens, targets (batch, length) -> () in float32 for
    16-bit parameters. recompute: a quarter of a layer's memory is computed again for its gradient
    (`ml.mlp`)."""
    states = forward(params, tokens, config, dropout=dropout, rng=rng, recompute=recompute)
    return ml.linear_cross_entropy(states, params["wte.weight"], targets, classes=config.vocabulary)


def flops_per_token(config: Config, length: int) -> float:
    """Floating-point operations that a token of a training step takes: 6 for each parameter of a
    product (2 forward, 4 backward), and causal attention over sequences of `length`. Recomputing
    counts as nothing: the usual measure (MFU)."""
    products = sum(
        math.prod(s) for name, s in shapes(config).items() if len(s) == 2 and name != "wpe.weight"
    )
    return 6 * products + 6 * config.layers * config.width * length


def pretrained(path: str | os.PathLike, config: Config, *, device: Any = None) -> Tree:
    """GPT-2's weights from a safetensors file with the names that Hugging Face gives them, as
    float32 parameters.

    The names may begin with "transformer."; the masks and the tied head that such files may also
    hold are left out. The four weights of a layer's products are stored (in, out) there and are
    transposed.

    ValueError if a name is missing or a shape does not fit `config`.
    """
    found = {
        name.removeprefix("transformer."): x for name, x in cm.load(path, device=device).items()
    }
    params: Tree = {}
    for name, shape in shapes(config).items():
        x = found.get(name)
        if x is None:
            raise ValueError(f"pretrained: {os.fspath(path)} holds no {name}")
        x = x.astype("float32")
        if name.startswith("h.") and x.ndim == 2:
            x = x.mT
        if name == "wte.weight":
            shape = (config.vocabulary, config.width)
        if x.shape != shape:
            raise ValueError(
                f"pretrained: {name} in {os.fspath(path)} has shape {x.shape}, {config} wants "
                f"{shape}"
            )
        params[name] = (
            cm.copy(x)
            if name != "wte.weight"
            else cm.concat(
                [
                    x,
                    cm.zeros(
                        (config.rows - config.vocabulary, config.width), "float32", device=x.device
                    ),
                ]
            )
        )
    return params
