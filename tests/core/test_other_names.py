"""Names of other libraries: the AttributeError says what to write instead, and that exists."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.fft

import cudamath as cm
from cudamath.core import other_names


def named(text: str) -> list[str]:
    """The names of this package in a hint: `cm.ml.relu(x)` -> ml.relu."""
    return re.findall(r"\bcm\.([a-z_]+(?:\.[a-z_]+)*)", text)


def found(path: str) -> object:
    space: object = cm
    for name in path.split("."):
        space = getattr(space, name)
    return space


@pytest.mark.parametrize(
    "table", [other_names.METHODS, other_names.FUNCTIONS, other_names._TRAINING]
)
def test_hints_name_what_exists(table):
    for text in table.values():
        for path in named(text):
            found(path)


@pytest.mark.parametrize("name", sorted(other_names.METHODS))
def test_methods_of_tensors_are_no_attributes_and_say_what_is(name):
    x = cm.ones((2, 3))
    assert not hasattr(x, name) and not hasattr(cm.ndarray, name) and name not in dir(x)
    with pytest.raises(AttributeError) as caught:
        getattr(x, name)
    assert str(caught.value) == (
        f"'ndarray' object has no attribute {name!r}; here it is {other_names.METHODS[name]}"
    )


@pytest.mark.parametrize(
    "space, name, words",
    [
        *[(cm, name, f"here it is {text}") for name, text in other_names.FUNCTIONS.items()],
        (cm, "nditer", r"numpy\.nditer is NumPy's own and takes x\.to_numpy\(\)"),
        (cm, "no_such_name", "no attribute 'no_such_name'$"),
        *[(cm.ml, name, f"here it is {text}") for name, text in other_names._TRAINING.items()],
        (cm.ml, "Linear", r"the function cm\.ml\.linear$"),
        (cm.ml, "Conv2d", r"the function cm\.ml\.conv2d$"),
        (cm.ml, "CrossEntropyLoss", r"the function cm\.ml\.cross_entropy$"),
        (cm.ml, "MSELoss", r"the function cm\.ml\.mse_loss$"),
        (cm.ml, "clip_grad_norm_", r"the function cm\.ml\.clip_grad_norm$"),
        (cm.ml, "AdamW", r"the function cm\.ml\.adamw_update\(params, grads, state, \.\.\.\)$"),
        (cm.ml, "no_such_name", "no attribute 'no_such_name'$"),
    ],
)
def test_names_of_modules_say_what_is_there_instead(space, name, words):
    assert not hasattr(space, name)
    escaped = words if "\\" in words or words.endswith("$") else re.escape(words)
    with pytest.raises(AttributeError, match=escaped):
        getattr(space, name)


@pytest.mark.parametrize("shape", [(3, 2), (-1,), ((6,),)])
def test_view_is_told_from_reshape(shape):
    with pytest.raises(TypeError, match=r"^view: .* float64 of shape \(2, 3\) can be read"):
        cm.ones((2, 3)).view(*shape)


def test_testing_has_what_numpys_has():
    for name in np.testing.__all__:
        assert getattr(cm.testing, name) is getattr(np.testing, name)
    assert not hasattr(cm.testing, "no_such_name")


def test_layer_norm_names_its_parameter():
    with pytest.raises(TypeError, match="^layer_norm: normalized_shape must be an integer"):
        cm.ml.layer_norm(cm.ones((2, 3)), cm.ones(3), cm.zeros(3))


def test_an_optimizer_shows_structures_without_the_library_that_describes_them():
    params = {"w": cm.ones(2)}
    with pytest.raises(ValueError, match=r"of params, \{'w': \*\}, got \{'b': \*\}$"):
        cm.ml.adam_update(params, {"b": cm.ones(2)}, cm.ml.adam_init(params))


X, LINE = cm.ones((2, 3)), cm.ones(3)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: cm.max(X, X), r"max: axis must be an integer, got an array of float64 and shape"),
        (lambda: cm.max(cm.array(True), X), "max: only 0-d integer arrays"),
        (
            lambda: cm.zeros(X),
            r"zeros: shape must be .* got an array of float64 and shape \(2, 3\)",
        ),
        (lambda: cm.argmin(X, keepdims=X), "argmin: the truth value of an array of shape"),
        (lambda: cm.nan_to_num(X, X), "nan_to_num: the truth value"),
        (lambda: cm.sin(X, signature=2.5), "sin: 2.5 is not a dtype"),
        (lambda: cm.sin(X, signature=object()), "sin: "),
        (lambda: cm.pad(LINE, 2, X), "pad: unhashable type"),
        (lambda: cm.sparse.linalg.cg(LINE, LINE), r"cg: wants a matrix, got shape \(3,\)"),
        (lambda: cm.where("abc"), "where: wants numbers, got texts"),
        (lambda: cm.where(cm.array(True)), "where: wants at least 1 dimension"),
        (lambda: cm.special.sph_harm_y(0, LINE, LINE, X[:, :2]), "sph_harm_y: shapes .* cannot"),
        (lambda: cm.linalg.lobpcg(X, "abc"), "lobpcg: wants numbers, got texts"),
        (lambda: cm.sparse.hstack(None), "hstack: "),
        (lambda: cm.sparse.vstack([cm.ones((2, 2, 2))]), "vstack: wants a 1-D or 2-D shape"),
        (lambda: cm.sparse.kron(cm.ones((2, 2, 2)), 2), "kron: wants a 1-D or 2-D shape"),
        (lambda: cm.sparse.tril("abc"), "tril: wants numbers, got texts"),
        (lambda: cm.sparse.diags_array({}), "diags_array: wants numbers"),
        (lambda: cm.sparse.block_diag(3), "block_diag: "),
        (lambda: cm.sparse.linalg.factorized(X), "factorized: wants a square A"),
        (lambda: cm.sparse.linalg.aslinearoperator("abc"), "aslinearoperator: wants numbers"),
        (lambda: cm.sparse.linalg.lsqr(2, LINE), r"lsqr: wants a matrix, got shape \(\)"),
        (lambda: cm.sparse.linalg.eigsh(None), "eigsh: wants numbers"),
        (lambda: cm.sparse.linalg.svds(LINE), "svds: wants a matrix"),
        (lambda: cm.sparse.linalg.splu(LINE), "splu: wants two axes"),
        (lambda: cm.sparse.csgraph.laplacian(None), "laplacian: wants numbers"),
        (lambda: cm.sparse.csgraph.shortest_path(LINE), "shortest_path: wants two axes"),
        (
            lambda: cm.ml.cross_entropy(X, [0.0, 1.0]),
            "cross_entropy: .* class indices are",
        ),
        (lambda: cm.grad(lambda n: 1.0)(object()), "grad: .* lists, tuples and dicts of arrays"),
        (lambda: cm.data.batches(X, batch_size=2), r"batches\(\) got .*; here it is size=2"),
    ],
)
def test_errors_name_the_function_that_was_called(call, words):
    with pytest.raises((TypeError, ValueError), match=f"^{words}"):
        call()


def test_one_length_is_that_of_the_last_axis():
    """As SciPy takes it, by all transforms along several axes."""
    x = np.random.default_rng(5).normal(size=(4, 6)) + 0j
    for name in ("fftn", "ifftn", "irfftn"):
        with pytest.warns(DeprecationWarning):
            ours = getattr(cm.fft, name)(cm.asarray(x), 4)
        np.testing.assert_allclose(ours.to_numpy(), getattr(scipy.fft, name)(x, 4), atol=1e-12)
