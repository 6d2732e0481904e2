"""Training the demo's network on the handwritten digits that scikit-learn ships (1,797 images of
8x8 pixels)."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable

import numpy as np

import cudamath as cm
from cudamath.models import cnn

EPOCHS = 20
BATCH = 64
LEARNING_RATE = 3e-3
HELD_OUT = 360  # images, stratified by class; the same ones every time


@dataclasses.dataclass(frozen=True)
class Digits:
    """Images (n, 1, 8, 8) float32 in [0, 1] with labels (n,) int64, for training and held out."""

    images: np.ndarray
    labels: np.ndarray
    held_out_images: np.ndarray
    held_out_labels: np.ndarray


@dataclasses.dataclass
class Result:
    """A trained network and how it got there: the loss of every step, the held-out accuracy of
    every epoch."""

    params: cnn.Tree
    stats: cnn.Tree
    predictions: np.ndarray  # (HELD_OUT,) classes of the held-out images
    losses: list[float]
    accuracies: list[float]
    seconds: float

    @property
    def accuracy(self) -> float:
        """Held-out accuracy after the last epoch."""
        return self.accuracies[-1]


def load() -> Digits:
    """The digits, split into 1,437 for training and 360 held out."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pixels, classes = load_digits(return_X_y=True)
    images = (pixels / pixels.max()).astype(np.float32).reshape(-1, 1, 8, 8)
    images, held_out, labels, held_out_labels = train_test_split(
        images, classes.astype(np.int64), test_size=HELD_OUT, stratify=classes, random_state=0
    )
    return Digits(images, labels, held_out, held_out_labels)


def shifted(images: np.ndarray, rng: np.random.Generator, share: float = 0.3) -> np.ndarray:
    """(n, 1, 8, 8) -> the same, a share of the images moved by up to one pixel: cheap new training
    examples."""
    count, _, height, width = images.shape
    corner = np.where(rng.random((count, 1)) < share, rng.integers(0, 3, (count, 2)), 1)
    rows = (corner[:, 0, None] + np.arange(height))[:, :, None]
    columns = (corner[:, 1, None] + np.arange(width))[:, None, :]
    padded = np.pad(images[:, 0], ((0, 0), (1, 1), (1, 1)))
    return padded[np.arange(count)[:, None, None], rows, columns][:, None]


def classify(params: cnn.Tree, stats: cnn.Tree, images: np.ndarray) -> np.ndarray:
    """Images (n, 1, 8, 8) -> the network's classes (n,), as a NumPy array."""
    logits, _ = cnn.forward(params, stats, cm.asarray(images))
    return cm.argmax(logits, axis=1).to_numpy()


def train(
    digits: Digits,
    *,
    epochs: int = EPOCHS,
    seed: int = 0,
    after_step: Callable[[], object] = lambda: None,
    after_epoch: Callable[[float, float], object] = lambda loss, accuracy: None,
) -> Result:
    """Train on the default device.

    Args:
        digits: see `load`.
        epochs: passes over the training images, at least 1.
        seed: of the initial parameters, the shuffling and the dropout. The same seed gives the same
        network. after_step: called after each step (a progress bar). after_epoch: called with the
        epoch's mean loss and the held-out accuracy.

    Returns:
        a Result.

    Raises:
        ValueError: epochs is less than 1.
    """
    if epochs < 1:
        raise ValueError(f"train: epochs must be at least 1, got {epochs}")
    start = time.perf_counter()
    shuffler, rng = np.random.default_rng(seed), cm.random.default_rng(seed)
    params, stats = cnn.create(rng)
    state = cm.ml.adam_init(params)
    gradient = cm.value_and_grad(cnn.loss, has_aux=True)
    steps = steps_per_epoch(digits)
    losses: list[float] = []
    accuracies: list[float] = []
    for epoch in range(epochs):
        order = shuffler.permutation(len(digits.images))
        images, labels = shifted(digits.images[order], shuffler), digits.labels[order]
        recent = []
        for step in range(steps):
            rows = slice(step * BATCH, (step + 1) * BATCH)
            x, y = cm.asarray(images[rows]), cm.asarray(labels[rows])
            (loss, stats), grads = gradient(params, stats, x, y, rng)
            decay = 0.5 + 0.5 * math.cos(math.pi * (epoch * steps + step) / (epochs * steps))
            params, state = cm.ml.adam_update(params, grads, state, lr=LEARNING_RATE * decay)
            recent.append(
                loss
            )  # read at the end of the epoch: a GPU need not wait for the host at every step
            after_step()
        losses += [float(loss) for loss in recent]
        predictions = classify(params, stats, digits.held_out_images)
        accuracies.append(float(np.mean(predictions == digits.held_out_labels)))
        after_epoch(float(np.mean(losses[-steps:])), accuracies[-1])
    return Result(params, stats, predictions, losses, accuracies, time.perf_counter() - start)


def steps_per_epoch(digits: Digits) -> int:
    """Whole batches in the training images."""
    return len(digits.images) // BATCH
