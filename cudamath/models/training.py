"""Training a language model: one step is one CUDA graph, and a run that was stopped goes on with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import cudamath as cm
from cudamath import ml

__all__ = ["Trainer"]

Tree = dict[str, cm.ndarray]


class Trainer:
    """Parameters, what AdamW remembers of them, and the step that improves both.

        trainer = Trainer(gpt2.loss, gpt2.create(config), config)
        loss, norm = trainer.step(tokens, targets, 6e-4)

    loss: `loss(params, tokens, targets, config, dropout=, rng=)` gives a number; params: float32, updated in place;
    dtype: what the loss computes in. With 16 bits it sees copies of the parameters, which the optimizer's launch writes
    along with the float32 ones. clip: the most that the norm of all gradients may be. weight_decay acts on matrices alone,
    not on biases and the scales of normalisations, as in GPT-2's training.
    """

    def __init__(self, loss: Callable, params: Tree, config: Any, *, dtype: str = "bfloat16", weight_decay: float = 0.1,
                 betas: tuple[float, float] = (0.9, 0.95), clip: float = 1.0, dropout: float = 0.0, seed: int = 0):
        self.params, self.config = params, config
        self.rng = cm.random.default_rng(seed)
        first = next(iter(params.values()))
        matrices = {name: p for name, p in params.items() if p.ndim > 1}
        rest = {name: p for name, p in params.items() if p.ndim == 1}
        self.state = {"matrices": ml.adam_init(matrices), "rest": ml.adam_init(rest)}

        def step(params: Tree, state: dict, tokens: cm.ndarray, targets: cm.ndarray, lr: cm.ndarray) -> tuple:
            def computed(params: Tree) -> cm.ndarray:
                cast = {name: p.astype(dtype) for name, p in params.items()} if dtype != "float32" else params
                return loss(cast, tokens, targets, config, dropout=dropout, rng=self.rng)

            value, grads = cm.value_and_grad(computed)(params)
            grads, norm = ml.clip_grad_norm(grads, clip)
            for group, names, decay in (("matrices", matrices, weight_decay), ("rest", rest, 0.0)):
                ml.adamw_update({n: params[n] for n in names}, {n: grads[n] for n in names}, state[group], lr=lr, betas=betas,
                                weight_decay=decay)
            return value, norm

        self._step = step if first.device == "cpu" else cm.cuda.graph(step)

    def step(self, tokens: np.ndarray, targets: np.ndarray, lr: float) -> tuple[cm.ndarray, cm.ndarray]:
        """One step on tokens and targets (batch, length): the loss before it and the norm of its gradients, as 0-d arrays
        that nobody has waited for."""
        device = self.state["rest"]["step"].device
        arrays = [cm.asarray(x, device=device) for x in (tokens, targets, np.asarray(lr, np.float32))]
        return self._step(self.params, self.state, *arrays)
