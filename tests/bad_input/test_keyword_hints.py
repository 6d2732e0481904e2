"""PyTorch's keywords are refused by errors that say what they are called here."""

import inspect

import numpy as np
import pytest

import cudamath as cm
from cudamath import ml

X = np.ones((2, 3))
IMAGES = np.ones((1, 2, 4, 4))
CLASSES = np.array([0, 1])
CALLS = {
    "softmax, dim": (lambda: ml.softmax(X, dim=1), "axis=1"),
    "softmax, all": (lambda: ml.softmax(input=X, dim=1), "x"),
    "log_softmax": (lambda: ml.log_softmax(X, dim=-1), "axis=-1"),
    "cross_entropy, target": (lambda: ml.cross_entropy(X, target=CLASSES), "targets"),
    "cross_entropy, all": (lambda: ml.cross_entropy(input=X, target=CLASSES), "logits"),
    "nll_loss": (lambda: ml.nll_loss(input=X, target=CLASSES), "log_probabilities"),
    "mse_loss": (lambda: ml.mse_loss(input=X, target=X), "x"),
    "conv2d": (lambda: ml.conv2d(input=IMAGES, weight=IMAGES), "x"),
    "embedding": (lambda: ml.embedding(input=CLASSES, weight=X), "indices"),
    "attention, causal": (
        lambda: ml.scaled_dot_product_attention(X, X, X, is_causal=True),
        "causal=True",
    ),
    "attention, mask": (lambda: ml.scaled_dot_product_attention(X, X, X, attn_mask=X), "mask"),
    "attention, dropout": (
        lambda: ml.scaled_dot_product_attention(X, X, X, dropout_p=0.5),
        "dropout=0.5",
    ),
    "attention, query": (lambda: ml.scaled_dot_product_attention(query=X, key=X, value=X), "q"),
    "sum, dim": (lambda: cm.sum(X, dim=0), "axis=0"),
    "sum, input": (lambda: cm.sum(input=X), "x"),
    "mean": (lambda: cm.mean(X, keepdim=True), "keepdims=True"),
    "argmax": (lambda: cm.argmax(X, dim=1), "axis=1"),
    "cumsum": (lambda: cm.cumsum(X, dim=1), "axis=1"),
    "sort": (lambda: cm.sort(X, dim=1), "axis=1"),
    "concat": (lambda: cm.concat([X, X], dim=1), "axis=1"),
    "stack": (lambda: cm.stack(tensors=[X, X]), "arrays"),
    "topk": (lambda: cm.topk(X, 2, dim=1), "axis=1"),
    "linalg.norm": (lambda: cm.linalg.norm(X, dim=1), "axis=1"),
    "method": (lambda: cm.asarray(X).sum(dim=0), "axis=0"),
    "add": (lambda: cm.add(X, X, other=X), "y"),
}


@pytest.mark.parametrize("name", CALLS)
def test_errors_say_our_name(device, name):
    call, ours = CALLS[name]
    with pytest.raises(TypeError) as seen:
        call()
    assert str(seen.value).endswith(f"; here it is {ours}")
    assert "\n" not in str(seen.value)


@pytest.mark.parametrize(
    "call, absent",
    [
        (lambda: ml.softmax(), "'x'"),
        (lambda: ml.softmax(axis=0), "'x'"),
        (lambda: ml.cross_entropy(X), "'targets'"),
        (lambda: ml.cross_entropy(), "'logits', 'targets'"),
        (lambda: cm.sum(), "'x'"),
        (lambda: cm.sum(axis=0), "'x'"),
    ],
)
def test_what_is_missing_is_named(device, call, absent):
    with pytest.raises(TypeError, match=f"missing required arguments: {absent}$"):
        call()


def test_unknown_keywords_of_no_library_have_no_hint(device):
    with pytest.raises(TypeError, match=r"^softmax\(\) got an unexpected keyword argument 'what'$"):
        ml.softmax(X, what=1)


def test_signatures_and_positional_calls_are_what_they_were(device):
    assert str(inspect.signature(ml.softmax)).startswith("(x: ")
    assert str(inspect.signature(cm.sum)).startswith("(x: ")
    assert cm.sum(X, 0).tolist() == cm.sum(X, axis=0).tolist() == [2.0, 2.0, 2.0]
