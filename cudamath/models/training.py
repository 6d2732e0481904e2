"""Training a language model: one step is one CUDA graph, and a run that was stopped goes on with
the same bits."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import optree

import cudamath as cm
from cudamath import ml

__all__ = ["Trainer"]

Tree = dict[str, cm.ndarray]

SHOWN = 4  # things that do not fit, in an error


class Trainer:
    """Parameters, what AdamW remembers of them, and the step that improves both.

        trainer = Trainer(gpt2.loss, gpt2.create(config), config, schedule=ml.schedules.cosine(6e-4,
        steps=1000)) loss, norm = trainer.step(tokens, targets)

    Parameters
    ----------
    loss : function
        `loss(params, tokens, targets, config, dropout=, rng=)` gives a number.
    params : dict of float32 arrays
        Updated in place.
    config : object
        Handed to `loss`.
    schedule : function of the step, or float
        The learning rate: one of `ml.schedules`, or a number.
    dtype : "bfloat16" or "float32"
        What the loss is computed in. With 16 bits it sees copies of the parameters, which the
        optimizer's launch writes along with the float32 ones.
    weight_decay : float
        Acts on matrices alone, not on biases and the scales of normalisations, as in GPT-2's
        training.
    clip : float
        The most that the norm of all gradients may be. A step whose norm is not finite changes
        nothing.
    dropout : float
    seed : int
        Of dropout's random numbers.

    A step on a GPU is one CUDA graph: forward, backward, clipping, the learning rate, AdamW.
    """

    def __init__(
        self,
        loss: Callable,
        params: Tree,
        config: Any,
        *,
        schedule: Any = 6e-4,
        dtype: str = "bfloat16",
        weight_decay: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.95),
        clip: float = 1.0,
        dropout: float = 0.0,
        seed: int = 0,
    ):
        if dtype not in ("bfloat16", "float32"):
            raise ValueError(f"Trainer: dtype is 'bfloat16' or 'float32', got {dtype!r}")
        self.params, self.config, self.dtype = params, config, dtype
        self.rate = schedule if callable(schedule) else ml.schedules.constant(schedule)
        self.rng = cm.random.default_rng(seed)
        self.state = ml.adam_init(params)
        self.copies = ml.amp.cast(params, dtype)
        self.device = next(iter(params.values())).device
        mixed = dtype != "float32"

        def step(
            params: Tree, copies: Tree, state: dict, tokens: cm.ndarray, targets: cm.ndarray
        ) -> tuple:
            value, grads = cm.value_and_grad(loss)(
                copies if mixed else params, tokens, targets, config, dropout=dropout, rng=self.rng
            )
            factor, norm = ml.clip_factor(grads, clip)
            ml.adamw_update(
                params,
                grads,
                state,
                lr=self.rate(state["step"]),
                betas=betas,
                weight_decay=weight_decay,
                decay=lambda p: p.ndim > 1,
                factor=factor,
                copies=copies if mixed else None,
            )
            return value, norm

        def measure(params: Tree, tokens: cm.ndarray, targets: cm.ndarray) -> cm.ndarray:
            return loss(params, tokens, targets, config)

        self._step = cm.cuda.graph(step) if self.device != "cpu" else step
        self._measure = cm.cuda.graph(measure) if self.device != "cpu" else measure

    @property
    def steps(self) -> int:
        """How many steps have been made. (Waits for the device.)"""
        return int(self.state["step"])

    def step(self, tokens: Any, targets: Any) -> tuple[cm.ndarray, cm.ndarray]:
        """One step on tokens and targets (batch, length) of integers: the loss before it and the
        norm of its gradients, as 0-d arrays that nobody has waited for."""
        return self._step(self.params, self.copies, self.state, *self._placed(tokens, targets))

    def evaluate(self, batches: Iterable[tuple[Any, Any]]) -> float:
        """The mean loss over batches of tokens and targets, without dropout. ValueError if there
        are none."""
        losses = [
            self._measure(self.copies, *self._placed(tokens, targets))
            for tokens, targets in batches
        ]
        if not losses:
            raise ValueError("evaluate: no batches")
        return float(np.mean([float(loss) for loss in losses]))

    def _placed(self, *arrays: Any) -> list[cm.ndarray]:
        return [cm.asarray(x, device=self.device) for x in arrays]

    def save(self, path: str | os.PathLike, **more: Any) -> None:
        """Write all that a resumed run needs to a safetensors file, and whatever tree is given
        besides."""
        cm.save(path, {"params": self.params, "state": self.state, "rng": self.rng.state, **more})

    def load(self, path: str | os.PathLike) -> dict[str, Any]:
        """Take up what `save` wrote, in place; returns the file's tree. ValueError if it is of
        another model or damaged: nothing has changed then."""
        tree = cm.load(path, device=self.device)
        ours: dict[str, Any] = {"params": self.params, "state": self.state, "rng": self.rng.state}
        theirs: dict[str, Any] = (
            {name: tree.get(name) for name in ours} if isinstance(tree, dict) else {}
        )
        wanted, found = _described(ours), _described(theirs)
        wrong = [
            f"{name} is {found.get(name, 'missing')}, wanted {what}"
            for name, what in wanted.items()
            if found.get(name) != what
        ] + [f"{name} is not wanted" for name in found if name not in wanted]
        if wrong:
            more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
            raise ValueError(
                f"load: {os.fspath(path)} does not fit {self.config}: "
                f"{'; '.join(wrong[:SHOWN])}{more}"
            )
        for name in ("params", "state"):
            for own, new in zip(
                optree.tree_leaves(ours[name]), optree.tree_leaves(theirs[name]), strict=True
            ):
                own[...] = new
        self.rng.state = theirs["rng"]
        for copy, p in zip(self.copies.values(), self.params.values(), strict=True):
            if copy is not p:
                copy[...] = p.astype(self.dtype)
        return tree


def _described(tree: Any) -> dict[str, str]:
    """Name -> what lies there: dtype and shape, or the type of what is not an array."""
    names = [".".join(map(str, path)) for path in optree.tree_paths(tree)]
    return {
        name: f"{x.dtype} {x.shape}" if hasattr(x, "shape") else type(x).__name__
        for name, x in zip(names, optree.tree_leaves(tree), strict=True)
    }
