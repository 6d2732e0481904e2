"""Training a language model: one step is one CUDA graph, and a run that was stopped goes on with
the same bits."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import optree

import cudamath as cm
from cudamath import distributed, ml

__all__ = ["Trainer"]

Tree = dict[str, cm.ndarray]

#: How several processes share the work; see `Trainer`.
PARALLEL = (None, "data", "zero1", "zero2", "zero3")
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
    parallel : None, "data", "zero1", "zero2" or "zero3"
        Several processes, each of which hands its share of the batch to `step`. "data": all have
        everything, and gradients are averaged during the backward pass. "zero1": each keeps a piece
        of the float32 parameters and of what AdamW remembers, and all have copies in `dtype`;
        "zero2": also whole gradients go as soon as they are there; "zero3": parameters are put
        together where the loss reads them, and again for their gradients. The losses are those of
        one process with the whole batch. Parameters begin as those of process 0.

    A step on a GPU is one CUDA graph: forward, backward, clipping, the learning rate, AdamW. Where
    processes reach each other through the memory of the host (`distributed.transport`), it is none.
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
        parallel: str | None = None,
        deterministic: bool = False,
        bucket: int = 25 << 20,
        recompute: bool = False,
    ):
        if parallel not in PARALLEL:
            raise ValueError(f"Trainer: parallel is one of {PARALLEL}, got {parallel!r}")
        if dtype not in ("bfloat16", "float32"):
            raise ValueError(f"Trainer: dtype is 'bfloat16' or 'float32', got {dtype!r}")
        self.config, self.dtype, self.parallel = config, dtype, parallel
        self.rate = schedule if callable(schedule) else ml.schedules.constant(schedule)
        self.rng = cm.random.default_rng(seed)
        self.device = next(iter(params.values())).device
        if parallel is not None:
            first = distributed.broadcast(params)
            for name, p in params.items():
                p[...] = first[name]
        options = {"betas": betas, "weight_decay": weight_decay}
        self._held: Any
        if parallel in (None, "data"):
            self._held = _Whole(loss, params, dtype, parallel is not None, deterministic, bucket)
        else:
            self._held = _Pieces(loss, params, dtype, int(parallel[-1]), deterministic, bucket)
        held = self._held
        more: dict[str, Any] = {"dropout": dropout, "rng": self.rng}
        if recompute:
            more["recompute"] = True

        def step(own: Any, tokens: cm.ndarray, targets: cm.ndarray) -> tuple:
            value, grads = held.gradients(own, tokens, targets, config, **more)
            factor, norm = held.clip_factor(grads, clip)
            held.update(own, grads, lr=self.rate(own["state"]["step"]), factor=factor, **options)
            return value, norm

        def measure(own: Any, tokens: cm.ndarray, targets: cm.ndarray) -> cm.ndarray:
            return loss(held.readable(own), tokens, targets, config)

        captured = self.device != "cpu"
        if captured and parallel is not None:
            with cm.device(self.device):
                captured = distributed.transport() == "nccl"
        self._step = cm.cuda.graph(step) if captured else step
        self._measure = cm.cuda.graph(measure) if captured else measure

    @property
    def params(self) -> Tree:
        """The parameters in float32. In pieces they are put together for it: all processes ask."""
        return self._held.whole()

    @property
    def state(self) -> dict[str, Any]:
        """What AdamW remembers; of this process's pieces, if there are such."""
        return self._held.own["state"]

    @property
    def copies(self) -> Tree:
        """The parameters as the loss sees them."""
        return self._held.readable(self._held.own)

    @property
    def steps(self) -> int:
        """How many steps have been made. (Waits for the device.)"""
        return int(self.state["step"])

    def step(self, tokens: Any, targets: Any) -> tuple[cm.ndarray, cm.ndarray]:
        """One step on tokens and targets (batch, length) of integers, of which each process has its
        share: the loss before it and the norm of its gradients, as 0-d arrays that nobody has
        waited for."""
        return self._step(self._held.own, *self._placed(tokens, targets))

    def evaluate(self, batches: Iterable[tuple[Any, Any]]) -> float:
        """The mean loss over batches of tokens and targets, without dropout; over all processes,
        each with its share. ValueError if there are none."""
        losses = [
            self._measure(self._held.own, *self._placed(tokens, targets))
            for tokens, targets in batches
        ]
        if not losses:
            raise ValueError("evaluate: no batches")
        mean = float(np.mean([float(loss) for loss in losses]))
        if self.parallel is None:
            return mean
        return float(distributed.all_reduce(cm.asarray(mean, dtype="float64"), "mean"))

    def _placed(self, *arrays: Any) -> list[cm.ndarray]:
        return [cm.asarray(x, device=self.device) for x in arrays]

    def save(self, path: str | os.PathLike, **more: Any) -> None:
        """Write all that a resumed run needs to a safetensors file, and whatever tree is given
        besides. Pieces go to a folder (`distributed.save_shards`), which any number of processes
        can load."""
        whole = {"rng": self.rng.state, **more}
        if self.parallel in (None, "data"):
            if self.parallel is None or distributed.rank() == 0:
                cm.save(path, {"params": self.params, "state": self.state, **whole})
            if self.parallel:
                distributed.barrier()
            return
        shards, like = self._held.kept()
        whole["step"] = self.state["step"]
        distributed.save_shards(path, shards, like, whole=whole)

    def load(self, path: str | os.PathLike) -> dict[str, Any]:
        """Take up what `save` wrote, in place; returns the file's tree. ValueError if it is of
        another model or damaged: nothing has changed then."""
        if self.parallel in (None, "data"):
            tree = cm.load(path, device=self.device)
            ours: dict[str, Any] = {
                "params": self.params,
                "state": self.state,
                "rng": self.rng.state,
            }
        else:
            ours, like = self._held.kept()
            shards, tree = distributed.load_shards(path, like, device=self.device)
            tree |= shards
            ours |= {"rng": self.rng.state, "step": self.state["step"]}
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
        self.rng.state = theirs.pop("rng")
        ours.pop("rng")
        targets: list[Any] = optree.tree_leaves(ours)  # type: ignore[arg-type]
        sources: list[Any] = optree.tree_leaves(theirs)  # type: ignore[arg-type]
        for own, new in zip(targets, sources, strict=True):
            own[...] = new
        self._held.refresh()
        return tree


class _Whole:
    """All parameters in float32, AdamW's memory, and copies in the dtype of the loss."""

    def __init__(
        self,
        loss: Callable,
        params: Tree,
        dtype: str,
        several: bool,
        deterministic: bool,
        bucket: int,
    ):
        self.mixed = dtype != "float32"
        self.dtype = dtype
        self.own = {
            "params": params,
            "copies": ml.amp.cast(params, dtype),
            "state": ml.adam_init(params),
        }
        if several:
            self._gradients = distributed.value_and_grad(
                loss, deterministic=deterministic, bucket=bucket
            )
        else:
            self._gradients = cm.value_and_grad(loss)
        self.clip_factor = ml.clip_factor

    def readable(self, own: Any) -> Tree:
        return own["copies"]

    def whole(self) -> Tree:
        return self.own["params"]

    def gradients(self, own: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
        return self._gradients(own["copies" if self.mixed else "params"], *args, **options)

    def update(self, own: Any, grads: Any, **options: Any) -> None:
        copies = own["copies"] if self.mixed else None
        ml.adamw_update(
            own["params"], grads, own["state"], decay=_is_matrix, copies=copies, **options
        )

    def refresh(self) -> None:
        """The copies follow the parameters."""
        for copy, p in zip(self.own["copies"].values(), self.own["params"].values(), strict=True):
            if copy is not p:
                copy[...] = p.astype(self.dtype)


class _Pieces:
    """Pieces of the parameters in float32 and of AdamW's memory; whole copies in the dtype of the
    loss, but for stage 3 of ZeRO."""

    def __init__(
        self,
        loss: Callable,
        params: Tree,
        dtype: str,
        stage: int,
        deterministic: bool,
        bucket: int,
    ):
        self.stage, self.dtype = stage, dtype
        self.like = distributed.outline(params)
        self.decay = {name: _is_matrix(p) for name, p in params.items()}
        shards = distributed.to_shards(params)
        self.own = {"shards": shards, "state": ml.adam_init(shards)}
        if stage < 3:
            self.own["copies"] = {name: p.astype(dtype) for name, p in params.items()}
        self.clip_factor = functools.partial(
            distributed.shards_clip_factor, deterministic=deterministic
        )
        self._gradients = distributed.value_and_grad(
            loss,
            sharded=stage == 2,
            like=_rounded(self.like, dtype) if stage == 3 else None,
            deterministic=deterministic,
            bucket=bucket,
        )

    def readable(self, own: Any) -> Any:
        if self.stage < 3:
            return own["copies"]
        return distributed.lazily_whole(ml.amp.cast(own["shards"], self.dtype), self.like)

    def whole(self) -> Tree:
        return distributed.from_shards(self.own["shards"], self.like)

    def gradients(self, own: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
        if self.stage == 3:
            return self._gradients(own["shards"], *args, **options)
        value, grads = self._gradients(own["copies"], *args, **options)
        return value, grads if self.stage == 2 else distributed.to_shards(grads)

    def update(self, own: Any, grads: Any, **options: Any) -> None:
        ml.adamw_update(own["shards"], grads, own["state"], decay=self.decay, **options)
        if self.stage < 3:
            distributed.update_from_shards(own["copies"], own["shards"])

    def kept(self) -> tuple[Any, Any]:
        """What a checkpoint has pieces of, and their outlines."""
        state = self.own["state"]
        shards = {"params": self.own["shards"], "m": state["m"], "v": state["v"]}
        return shards, dict.fromkeys(shards, self.like)

    def refresh(self) -> None:
        """The copies follow the pieces."""
        if self.stage < 3:
            distributed.update_from_shards(self.own["copies"], self.own["shards"])


def _rounded(like: Any, dtype: str) -> Any:
    """An outline in another dtype."""
    one = np.zeros((), getattr(cm, dtype))
    return {name: np.broadcast_to(one, x.shape) for name, x in like.items()}


def _is_matrix(p: cm.ndarray) -> bool:
    return p.ndim > 1


def _described(tree: Any) -> dict[str, str]:
    """Name -> what lies there: dtype and shape, or the type of what is not an array."""
    names = [".".join(map(str, path)) for path in optree.tree_paths(tree)]
    return {
        name: f"{x.dtype} {x.shape}" if hasattr(x, "shape") else type(x).__name__
        for name, x in zip(names, optree.tree_leaves(tree), strict=True)
    }
