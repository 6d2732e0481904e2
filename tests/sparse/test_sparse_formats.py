"""The formats of what operations on sparse arrays return, and files, beside SciPy's."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import cudamath as cm

FORMATS = ["coo", "csr", "csc", "bsr", "dia"]
D = np.array([[1.0, 0, 2, 0, 0, 3], [0, 0, 0, 4, 0, 0], [5, 0, 6, 0, 0, 0], [0, 7, 0, 0, 8, 9]])
E = np.array([[0.0, 0, 1, 0, 2, 0], [0, 3, 0, 0, 0, 0], [4, 0, 5, 0, 0, 6], [0, 0, 0, 0, 7, 0]])
Q = D[:, :4] + 10 * np.eye(4)

OF_ONE: dict[str, Callable[[Any, Any], Any]] = {
    "reshape": lambda S, a: a.reshape(6, 4),
    "reshape by columns": lambda S, a: a.reshape((6, 4), order="F"),
    "reshape to one axis": lambda S, a: a.reshape(24),
    "transpose": lambda S, a: a.T,
    "negative": lambda S, a: -a,
    "times number": lambda S, a: a * 2.0,
    "power": lambda S, a: a.power(2),
    "astype": lambda S, a: a.astype(np.float32),
    "sqrt": lambda S, a: a.sqrt(),
    "tril": lambda S, a: S.tril(a),
    "block_array of one": lambda S, a: S.block_array([[a]]),
    "vstack of one": lambda S, a: S.vstack([a]),
    "hstack with a dense one": lambda S, a: S.hstack([a, np.ones((4, 2))]),
    "unequal to 0": lambda S, a: a != 0,
    "maximum with 0": lambda S, a: a.maximum(0),
    "times a row": lambda S, a: a.multiply(np.ones(6)),
    "times dense": lambda S, a: a * np.ones((4, 6)),
    "over dense": lambda S, a: a / np.ones((4, 6)),
    "kron with a dense block": lambda S, a: S.kron(a, S.eye_array(2)),
    "kron with a sparse block": lambda S, a: S.kron(S.eye_array(2), a),
    "block_diag": lambda S, a: S.block_diag([a, a]),
}
OF_TWO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda S, a, b: a + b,
    "subtract": lambda S, a, b: a - b,
    "multiply": lambda S, a, b: a * b,
    "maximum": lambda S, a, b: a.maximum(b),
    "vstack": lambda S, a, b: S.vstack([a, b]),
    "vstack as csr": lambda S, a, b: S.vstack([a, b], format="csr"),
    "hstack": lambda S, a, b: S.hstack([a, b]),
    "block_array": lambda S, a, b: S.block_array([[a, None], [None, b]]),
    "matmul": lambda S, a, b: a @ b.T,
    "kron": lambda S, a, b: S.kron(a, b),
    "less": lambda S, a, b: a < b,
}
OF_SQUARES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "inv": lambda S, a, b: S.linalg.inv(a),
    "matrix_power": lambda S, a, b: S.linalg.matrix_power(a, 3),
    "matrix_power 5": lambda S, a, b: S.linalg.matrix_power(a, 5),
    "matrix_power 1": lambda S, a, b: S.linalg.matrix_power(a, 1),
    "matrix_power 0": lambda S, a, b: S.linalg.matrix_power(a, 0),
    "spsolve": lambda S, a, b: S.linalg.spsolve(a, b),
    "kronsum": lambda S, a, b: S.kronsum(a, b),
}


def pair(format: str, d: np.ndarray) -> tuple[Any, Any]:
    return tuple(getattr(S, f"{format}_array")(d) for S in (sp, cm.sparse))  # type: ignore[return-value]


def agree(ours: Any, theirs: Any) -> None:
    assert ours.format == theirs.format and ours.shape == theirs.shape
    np.testing.assert_allclose(ours.toarray().to_numpy(), theirs.toarray(), rtol=1e-12, atol=1e-12)
    if ours.format == "bsr":
        assert ours.blocksize == theirs.blocksize


@pytest.mark.filterwarnings("ignore")  # SciPy's remarks on efficiency
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", OF_ONE)
def test_of_one_array(name, format):
    theirs, ours = pair(format, D)
    agree(OF_ONE[name](cm.sparse, ours), OF_ONE[name](sp, theirs))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("second", FORMATS)
@pytest.mark.parametrize("first", FORMATS)
@pytest.mark.parametrize("name", [*OF_TWO, *OF_SQUARES])
def test_of_two_arrays(name, first, second):
    function = OF_TWO.get(name) or OF_SQUARES[name]
    one, other = (D, E) if name in OF_TWO else (Q, Q.T.copy())
    (their_a, our_a), (their_b, our_b) = pair(first, one), pair(second, other)
    agree(function(cm.sparse, our_a, our_b), function(sp, their_a, their_b))


def test_blocks_stay_blocks():
    d = np.kron(D, np.ones((2, 3)))
    (their_a, our_a), (their_b, our_b) = (
        tuple(S.bsr_array(x, blocksize=(2, 3)) for S in (sp, cm.sparse)) for x in (d, d + 1)
    )
    for function in (
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: a @ b.T,
        lambda a, b: a.maximum(b),
    ):
        agree(function(our_a, our_b), function(their_a, their_b))


@pytest.mark.parametrize("shape", [(3, 3), (6, 8), (4, 2), (1, 7)])
@pytest.mark.parametrize("format", FORMATS)
def test_resize(format, shape):
    theirs, ours = pair(format, D)
    whole = ours.copy()
    for resized in (theirs, ours):
        assert resized.resize(*shape) is None
    whole.resize(shape)
    assert ours.shape == whole.shape == shape
    agree(ours, theirs)
    agree(whole, theirs)
    line = cm.sparse.coo_array(D[0])
    line.resize(3)
    assert line.toarray().tolist() == [1.0, 0.0, 2.0]
    with pytest.raises(ValueError, match="^resize: wants 2 axes"):
        ours.resize(4)


def test_powers_are_refused():
    a = cm.sparse.csr_array(Q)
    with pytest.raises(ValueError, match="^matrix_power: "):
        cm.sparse.linalg.matrix_power(a, -1)
    with pytest.raises(ValueError, match="^matrix_power: wants a square A"):
        cm.sparse.linalg.matrix_power(cm.sparse.csr_array(D), 2)
    with pytest.raises(TypeError, match="^matrix_power: wants a sparse array, got ndarray"):
        cm.sparse.linalg.matrix_power(Q, 2)


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("compressed", [False, True])
def test_files_are_scipys(format, kind, compressed, device):
    theirs, ours = (getattr(S, f"{format}_{kind}")(D.astype(np.float32)) for S in (sp, cm.sparse))
    from_us, from_scipy = io.BytesIO(), io.BytesIO()
    cm.sparse.save_npz(from_us, ours, compressed=compressed)
    sp.save_npz(from_scipy, theirs, compressed=compressed)
    for file in (from_us, from_scipy):
        file.seek(0)
        read = cm.sparse.load_npz(file)
        assert type(read) is type(ours) and read.dtype == np.float32
        agree(read, theirs)
        file.seek(0)
        assert type(sp.load_npz(file)) is type(theirs)


def test_files_of_one_axis_and_names(tmp_path):
    line = cm.sparse.coo_array(D[0])
    cm.sparse.save_npz(tmp_path / "line", line)
    assert cm.sparse.load_npz(tmp_path / "line.npz").toarray().tolist() == D[0].tolist()
    assert sp.load_npz(tmp_path / "line.npz").toarray().tolist() == D[0].tolist()
    np.savez(tmp_path / "other.npz", a=D)
    with pytest.raises(ValueError, match="^load_npz: wants a file of a sparse array"):
        cm.sparse.load_npz(tmp_path / "other.npz")
    with pytest.raises(TypeError, match="^save_npz: wants a sparse array, got ndarray"):
        cm.sparse.save_npz(tmp_path / "dense.npz", D)
