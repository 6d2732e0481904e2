"""Writing text with a language model: one token after the other, with a cache of keys and values.

    tokens = sampling.generate(params, prompt, 100, config, temperature=0.8, top_k=40)

Keys and values of earlier tokens do not change, so they are kept; a new token is one row through
the model. On a GPU that step, the choice of the token included, is one CUDA graph: what it needs to
know of its place lies in arrays that it changes itself, so that nothing is left to do on the host
but to replay it.
"""

from __future__ import annotations

from typing import Any

import cudamath as cm
from cudamath import ml

from ..core.shapes import as_integer
from . import gpt2

__all__ = ["Writer", "choose", "generate"]


def choose(
    scores: cm.ndarray,
    rng: cm.random.Generator,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> cm.ndarray:
    """Draw a class for each row of scores (rows, classes): (rows,) int64.

    Probabilities are softmax(scores / temperature) of the `top_k` highest scores, and of those as
    many as it takes, from the highest on, to reach a probability of `top_p`. temperature 0: the
    highest score.

    ValueError for a negative temperature, top_k below 1, top_p outside (0, 1], or scores that are
    no matrix. Scores that are NaN, or of which none is finite, give no probabilities: ValueError on
    the CPU; a GPU is not waited for, there the class is -1, an IndexError where it is looked up
    (with temperature 0: the first NaN's place).

    >>> import cudamath as cm
    >>> from cudamath.models import sampling
    >>> logits, rng = cm.array([[1.0, 3.0, 2.0]]), cm.random.default_rng(0)
    >>> sampling.choose(logits, rng, temperature=0).tolist()
    [1]
    """
    top_k = None if top_k is None else as_integer("choose", "top_k", top_k, 1)
    if not temperature >= 0 or (top_p is not None and not 0 < top_p <= 1):
        raise ValueError(
            f"choose: wants a temperature >= 0 and top_p in (0, 1], got {temperature} and {top_p}"
        )
    if scores.ndim != 2 or not scores.shape[1]:
        raise ValueError(
            f"choose: wants scores (rows, classes) of at least one class, got shape {scores.shape}"
        )
    on_host = scores.device == "cpu"
    if temperature == 0:
        if on_host and cm.isnan(cm.max(scores, axis=-1)).any():
            raise ValueError(f"choose: scores of shape {scores.shape} hold NaN")
        return cm.argmax(scores, axis=-1)
    scores = scores.astype("float32") / temperature
    order = None
    if top_k is not None or top_p is not None:
        order = cm.argsort(scores, axis=-1, descending=True, stable=True)
        order = order if top_k is None else order[:, :top_k]
        scores = cm.take_along_axis(scores, order, axis=-1)
    p = ml.softmax(scores, -1)
    reached = cm.cumulative_sum(p, axis=-1)
    total = reached[:, -1:]
    if on_host and cm.isnan(total).any():
        raise ValueError(
            f"choose: scores of shape {scores.shape} hold NaN, or rows of which none is finite"
        )
    if top_p is not None:  # what lies before a class has not reached top_p yet
        p = cm.where(reached - p < top_p, p, 0)
        reached = cm.cumulative_sum(p, axis=-1)
    u = rng.random((scores.shape[0], 1), dtype="float32", device=scores.device) * reached[:, -1:]
    found = cm.minimum((reached <= u).sum(axis=-1, keepdims=True), scores.shape[1] - 1)
    found = found if order is None else cm.take_along_axis(order, found, axis=-1)
    return (found if on_host else cm.where(total == total, found, -1)).reshape((-1,))


class Writer:
    """A model with a cache of keys and values: `feed` it tokens, let it `write`.

    params: see gpt2.py, in any dtype, perhaps with quantized matrices; rows: sequences at a time;
    length: the most tokens of each, at most the context; options: of `choose`.
    """

    def __init__(
        self,
        params: dict[str, Any],
        config: gpt2.Config,
        *,
        rows: int = 1,
        length: int | None = None,
        rng: cm.random.Generator | None = None,
        **options: Any,
    ):
        length = config.context if length is None else length
        if not 1 <= length <= config.context or rows < 1:
            raise ValueError(
                f"Writer: wants rows of at least 1 and a length of 1 to {config.context}, got "
                f"{rows} and {length}"
            )
        self.params, self.config, self.rows, self.length = params, config, rows, length
        self.rng = cm.random.default_rng() if rng is None else rng
        self.options = options
        table = params["wte.weight"]
        place = {"dtype": table.dtype, "device": table.device}
        shape = (
            2,
            rows,
            config.heads,
            length,
            config.width // config.heads,
        )  # keys and values: one launch writes both
        self.cache: dict[str, Any] = {
            "layers": [cm.zeros(shape, **place) for _ in range(config.layers)],
            "filled": cm.zeros(1, "int64", device=table.device),
            "last": cm.zeros((rows, 1), "int64", device=table.device),
        }
        self.count = 0  # tokens fed or written, of which the last one is not in the cache yet
        self._graph: cm.cuda.Capture | None = None
        self._chosen: cm.ndarray | None = None

    def states(self, tokens: cm.ndarray) -> cm.ndarray:
        """Last states (rows, n, width) of n more tokens, whose keys and values go into the
        cache."""
        rows, count = tokens.shape
        cache, filled = self.cache, self.cache["filled"]
        places = filled + cm.arange(count, device=tokens.device) if count > 1 else filled
        lengths = cm.broadcast_to((filled + count).astype("int32"), (rows,))

        def attend(layer: int, qkv: cm.ndarray) -> cm.ndarray:
            parts = cm.moveaxis(
                qkv.reshape((rows, count, 3, self.config.heads, -1)), (2, 3), (0, 2)
            )  # (3, rows, heads, n, D)
            stored = cache["layers"][layer]
            stored[:, :, :, places] = parts[1:]
            y = ml.scaled_dot_product_attention(
                parts[0], stored[0], stored[1], causal=count > 1, key_lengths=lengths
            )
            return cm.moveaxis(y, 1, 2).reshape((rows, count, self.config.width))

        found = gpt2.forward(self.params, tokens, self.config, attend=attend, places=places)
        filled += count
        return found

    def _next(self) -> cm.ndarray:
        """The token after the last one, (rows,); it is the last one then."""
        states = self.states(self.cache["last"])
        chosen = choose(
            gpt2.logits(self.params, states[:, -1], self.config), self.rng, **self.options
        )
        self.cache["last"][...] = chosen.reshape((-1, 1))
        return chosen

    def _step(self) -> cm.ndarray:
        """`_next`: the first time as it is, which compiles its kernels, then recorded, then
        replayed."""
        if self._chosen is None or self.cache["last"].device == "cpu":
            self._chosen = self._next()
            return self._chosen
        if self._graph is None:
            with cm.cuda.capture() as self._graph:
                self._chosen = self._next()
        self._graph.replay()
        return cm.copy(self._chosen)

    def feed(self, tokens: Any) -> None:
        """Read tokens (rows, n), n >= 1, that someone else has written. ValueError where they do
        not fit."""
        tokens = cm.asarray(tokens, device=self.cache["filled"].device)
        if tokens.dtype.kind not in "iu":
            raise TypeError(
                f"feed: wants tokens as integers, got {tokens.dtype} of shape {tokens.shape}"
            )
        tokens = tokens.astype("int64")
        if tokens.ndim != 2 or tokens.shape[0] != self.rows or not tokens.shape[1]:
            raise ValueError(
                f"feed: wants tokens ({self.rows}, n) with at least one, got shape {tokens.shape}"
            )
        self._room(tokens.shape[1])
        if self.count:
            tokens = cm.concat([self.cache["last"], tokens], axis=1)
        if tokens.shape[1] > 1:
            self.states(tokens[:, :-1])
        self.cache["last"][...] = tokens[:, -1:]
        self.count += tokens.shape[1] - (self.count > 0)

    def write(self, count: int) -> cm.ndarray:
        """The next `count` tokens, (rows, count) int64. ValueError before anything was fed, or
        beyond the length."""
        if not self.count:
            raise ValueError("write: wants something to go on from; feed the writer first")
        self._room(count)
        self.count += count
        return cm.stack([self._step() for _ in range(count)], axis=1)

    def restart(self) -> None:
        """Forget all tokens, keep the memory and what was recorded of a step."""
        self.cache["filled"][...] = 0
        self.count = 0

    def _room(self, count: int) -> None:
        if self.count + count > self.length:
            raise ValueError(
                f"Writer: {self.count} tokens and {count} more are beyond the length of "
                f"{self.length}"
            )


def generate(
    params: dict[str, Any],
    prompt: Any,
    count: int,
    config: gpt2.Config,
    *,
    rng: cm.random.Generator | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> cm.ndarray:
    """`count` tokens that follow each row of prompt (rows, n): (rows, count) int64. The options are
    those of `choose`.

    The model sees at most its context. When that is full, its latter half begins a new window; of
    a prompt that fills it likewise.
    """
    prompt = cm.asarray(prompt)
    if prompt.ndim != 2 or not prompt.size or prompt.dtype.kind not in "iu":
        raise (TypeError if prompt.dtype.kind not in "iu" else ValueError)(
            "generate: wants a prompt (rows, n) of integers, at least one a row, got "
            f"{prompt.dtype} of shape {prompt.shape}"
        )
    if not isinstance(count, int) or count < 1:
        raise ValueError(f"generate: wants count as an integer >= 1, got {count!r}")
    writer = Writer(
        params,
        config,
        rows=prompt.shape[0],
        rng=rng,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
    )
    seen, written, kept = prompt, [], max(config.context // 2, 1)
    while count:
        if seen.shape[1] >= config.context:
            seen = seen[:, -kept:]
            writer.restart()
        if not writer.count:
            writer.feed(seen)
        more = writer.write(min(count, config.context - seen.shape[1]))
        written.append(more)
        seen, count = cm.concat([seen, more], axis=1), count - more.shape[1]
    return written[0] if len(written) == 1 else cm.concat(written, axis=1)
