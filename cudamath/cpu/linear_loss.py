"""Cross entropy of a linear layer whose scores are not returned. The gradient overwrites the
scores."""

import numpy as np

from .lib.float32_sums import widen
from .loss import _checked


def linear_loss(x, targets, count, *, classes, ignore_index):
    """Scores x (rows, columns), changed; targets (rows,); count () -> losses (rows,), see
    kernels/loss/linear_cross_entropy.py."""
    counted, picks = _checked("linear_cross_entropy", targets, classes, ignore_index)
    e, picks = widen(x[:, :classes]), picks[:, None]
    # A row of -inf gives NaN; `count` may be 0.
    with np.errstate(invalid="ignore", divide="ignore"):
        e = e - e.max(1, keepdims=True, initial=-np.inf)
        target_scores = np.take_along_axis(e, picks, 1)
        np.exp(e, out=e)
        total = e.sum(1, keepdims=True)
        losses = np.where(counted, (np.log(total) - target_scores)[:, 0], 0).astype(e.dtype)
        e /= total
        np.put_along_axis(e, picks, np.take_along_axis(e, picks, 1) - 1, 1)
        e /= count
    e[~counted] = 0
    x[:, :classes] = e
    x[:, classes:] = 0
    return losses
