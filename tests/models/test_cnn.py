"""The small convolutional network: what it computes, beside torch. (tests/models/test_demo.py
trains it.)"""

import numpy as np
import pytest

import cudamath as cm
from cudamath.models import cnn


def test_agrees_with_torch(device):
    torch = pytest.importorskip("torch")
    f = torch.nn.functional
    params, stats = cnn.create(cm.random.default_rng(0))
    params = {name: p.astype("float64") for name, p in params.items()}
    stats = {name: s.astype("float64") + 0.25 for name, s in stats.items()}
    rng = np.random.default_rng(0)
    images, labels = rng.standard_normal((6, 1, 8, 8)), rng.integers(0, 10, 6)
    there = {name: torch.tensor(p.to_numpy()).requires_grad_() for name, p in params.items()}
    theirs = {name: torch.tensor(s.to_numpy()) for name, s in stats.items()}

    def forward(training, keep=1.0):
        x = torch.tensor(images)
        for name in cnn.LAYERS:
            x = f.conv2d(x, there[name + ".kernel"], padding=1)
            x = f.relu(
                f.batch_norm(
                    x,
                    theirs[name + ".mean"],
                    theirs[name + ".var"],
                    there[name + ".scale"],
                    there[name + ".shift"],
                    training=training,
                )
            )
            x = f.max_pool2d(x, 2) if name == "b" else x
        return f.linear(x.reshape(len(x), -1) * keep, there["out.weight"], there["out.bias"])

    logits, same = cnn.forward(params, stats, cm.asarray(images))
    assert same is stats
    np.testing.assert_allclose(
        logits.to_numpy(), forward(False).detach().numpy(), rtol=1e-9, atol=1e-10
    )

    # In training half of the features are dropped: the same ones for torch, found by dropping ones.
    mask = cm.ml.dropout(
        cm.ones((6, 1024)), 0.5, training=True, rng=cm.random.default_rng(7)
    ).to_numpy()
    loss = f.cross_entropy(forward(True, torch.tensor(mask)), torch.tensor(labels))
    loss.backward()
    (value, new), grads = cm.value_and_grad(cnn.loss, has_aux=True)(
        params, stats, cm.asarray(images), cm.asarray(labels), cm.random.default_rng(7)
    )
    assert abs(float(value) - loss.item()) < 1e-9
    for name, p in there.items():
        np.testing.assert_allclose(grads[name].to_numpy(), p.grad.numpy(), rtol=1e-7, atol=1e-9)
    for name, s in theirs.items():
        np.testing.assert_allclose(new[name].to_numpy(), s.numpy(), rtol=1e-9)
