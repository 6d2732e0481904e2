"""Errors of sparse arrays name the function, and show shapes and dtypes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cudamath as cm

S = cm.sparse
A = S.csr_array([[1.0, 0, 2], [0, 3, 0]])

CASES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: S.csr_array((1, 2, 3)), ValueError, "csr_array: wants a 2-D shape"),
    (lambda: S.coo_array(0), ValueError, "coo_array: wants an array with axes"),
    (lambda: S.eye_array(2, 3, k=4), ValueError, r"eye_array: .*(2, 3) has no diagonal 4"),
    (lambda: S.eye(2, 3, k=-3), ValueError, r"eye: .*(2, 3) has no diagonal -3"),
    (lambda: S.diags_array([[1.0, 2.0]], offsets=0), ValueError, "write offsets=[0]"),
    (
        lambda: S.bsr_array((np.ones((1, 2, 2)), [0], [0, 1]), blocksize=(1, 1)),
        ValueError,
        r"blocks of size (1, 1), got data of shape (1, 2, 2)",
    ),
    (lambda: S.coo_array([1, 2]).transpose((0, 1)), ValueError, r"transpose: .*(2,), got (0, 1)"),
    (lambda: A.copy().__setitem__((0, 0), 3j), TypeError, "setitem: complex128 .*float64"),
    (lambda: S.csr_matrix(A) ** 2, TypeError, r"pow: wants a square matrix, got shape (2, 3)"),
    (lambda: S.csr_matrix(np.eye(2)) ** -1, ValueError, "pow: wants an integer n >= 0, got -1"),
    (lambda: A.sum(axis=()), ValueError, "sum: wants one of 2 axes or all, got ()"),
    (lambda: S.coo_array((-1, 2)), ValueError, "coo_array: wants a 1-D or 2-D shape"),
    (lambda: S.csr_array(np.ones((2, 2, 2))), ValueError, r"coo_array: .*(2, 2, 2)"),
    (lambda: S.csr_array(([1.0], [0, 1], [0, 1])), ValueError, r"csr_array: .*(1,), (2,), (2,)"),
    (
        lambda: S.csr_array(([1.0], [5], [0, 1]), shape=(1, 3)),
        ValueError,
        "csr_array: index 5 of axis 1",
    ),
    (lambda: S.csr_array(([1.0], [-1], [0, 1]), shape=(1, 3)), ValueError, "csr_array: index -1"),
    (lambda: S.csr_array(([1.0], [0], [1, 1]), shape=(1, 3)), ValueError, "from 1 to 1"),
    (lambda: S.csr_array(([1.0, 2], [0, 0], [0, 2, 1, 2])), ValueError, "least step of -1"),
    (lambda: S.csr_array(([1.0], [0], [0, 1]), shape=(2, 3)), ValueError, "indptr of 3 numbers"),
    (lambda: S.csr_array(([1.0], [0.5], [0, 1])), TypeError, "csr_array: wants integers .*float64"),
    (lambda: S.coo_array(([1.0], ([0], [4])), shape=(2, 3)), ValueError, "index 4 of axis 1"),
    (lambda: S.coo_array(([1.0], ([0, 1], [1]))), ValueError, r"(1,) and coordinates (2,), (1,)"),
    (lambda: S.coo_array(([1.0], ([0.5], [1]))), TypeError, "wants integers .*float64"),
    (lambda: S.coo_array(([], ([], []))), ValueError, "wants a shape"),
    (lambda: S.csr_array(A, shape=(3, 3)), ValueError, r"wants shape (3, 3), .*(2, 3)"),
    (lambda: S.bsr_array(A, blocksize=(2, 2)), ValueError, r"blocks of 2 x 2 .*(2, 3)"),
    (lambda: S.bsr_array((np.ones((1, 2)), [0], [0, 1])), ValueError, r"bsr_array: .*(1, 2)"),
    (lambda: S.dia_array(([1.0], [0])), ValueError, "dia_array: wants a shape"),
    (lambda: S.dia_array(([[1.0], [2]], [0, 0]), shape=(1, 1)), ValueError, "each offset once"),
    (lambda: A + 1, NotImplementedError, r"add: .*(2, 3)"),
    (lambda: A - 2.5, NotImplementedError, r"subtract: .*(2, 3)"),
    (lambda: A + S.csr_array((3, 3)), ValueError, r"add: .*(2, 3) and (3, 3)"),
    (lambda: A * S.csr_array((3, 2)), ValueError, r"multiply: shapes (2, 3) and (3, 2)"),
    (lambda: A * np.ones((3, 2)), ValueError, r"multiply: shapes (2, 3) and (3, 2)"),
    (lambda: A @ A, ValueError, r"matmul: shapes (2, 3) and (2, 3)"),
    (lambda: A @ np.ones(2), ValueError, r"matmul: shapes (2, 3) and (2,)"),
    (lambda: np.ones(3) @ A, ValueError, r"matmul: shapes (3,) and (2, 3)"),
    (lambda: A @ 2, ValueError, "matmul: wants an array"),
    (lambda: A / S.csr_array((3, 3)), ValueError, r"divide: .*(2, 3) and (3, 3)"),
    (lambda: 1 / A, TypeError, "unsupported operand"),
    (lambda: A**0, NotImplementedError, "power: the power 0"),
    (lambda: A.power(-1), ValueError, "power: negative"),
    (lambda: A.maximum(S.csr_array((3, 3))), ValueError, r"maximum: .*(2, 3) and (3, 3)"),
    (lambda: A + "a", TypeError, "add: .*str"),
    (lambda: A[5], IndexError, "getitem: index 5 is out of bounds for axis 0 with size 2"),
    (lambda: A[0, -4], IndexError, "index -4 is out of bounds for axis 1"),
    (lambda: A[0, 0, 0], IndexError, r"too many indices for shape (2, 3)"),
    (lambda: A[..., ...], IndexError, "one ellipsis"),
    (lambda: A[[0.5]], IndexError, "wants integers, slices or masks, got float64"),
    (lambda: A["foo"], IndexError, "wants integers, slices or masks, got 'foo'"),
    (lambda: A[{1: 2}], IndexError, "wants integers, slices or masks, got {1: 2}"),
    (lambda: A[np.ones((3, 3), bool)], IndexError, r"mask of shape (3, 3) does not fit (2, 3)"),
    (lambda: A[[0, 1], [0, 1, 2]], IndexError, r"(2,) and (3,)"),
    (lambda: A.sum(axis=2), (ValueError, IndexError), "sum: "),
    (lambda: A.sum(axis=0, out=cm.zeros(2)), ValueError, r"sum: wants out of shape (3,)"),
    (lambda: A.max(axis=0, out=cm.zeros(3)), ValueError, "max: "),
    (lambda: S.csr_array((0, 3)).max(), ValueError, r"max: .*(0, 3)"),
    (lambda: A.asformat("lil"), ValueError, "asformat: there is no format 'lil'"),
    (lambda: A.reshape(4, 4), ValueError, "reshape: "),
    (lambda: A.reshape(6, order="A"), ValueError, "reshape: wants order"),
    (lambda: A.transpose((0, 0)), ValueError, "transpose: "),
    (lambda: A.toarray(out=cm.zeros((3, 3))), ValueError, r"toarray: .*(2, 3)"),
    (lambda: A.setdiag(1, k=5), ValueError, r"setdiag: .*(2, 3) has no diagonal 5"),
    (lambda: bool(A), ValueError, r"bool: .*(2, 3)"),
    (lambda: len(A), TypeError, r"len: .*(2, 3)"),
    (lambda: A.tocoo().__setitem__((0, 0), 1), TypeError, "setitem: coo_array"),
    (lambda: S.random_array((3, 3), density=2), ValueError, "random_array: wants a density"),
    (
        lambda: S.hstack([A, S.csr_array((3, 3))]),
        ValueError,
        r"hstack: block (0, 1) of shape (3, 3)",
    ),
    (lambda: S.block_array([[A], [A, A]]), ValueError, "block_array: wants rows"),
    (lambda: S.block_diag([]), ValueError, "block_diag: wants at least one"),
    (
        lambda: S.sampled_product(np.eye(2), np.eye(2), np.eye(2)),
        TypeError,
        "sampled_product: .*ndarray",
    ),
    (
        lambda: S.sampled_product(A, np.eye(2), np.eye(2)),
        ValueError,
        r"sampled_product: .*(2, 3), (2, 2) and (2, 2)",
    ),
    (lambda: S.permute_dims(np.eye(2)), TypeError, "permute_dims: wants a sparse array"),
    (lambda: S.expand_dims(A), ValueError, "expand_dims: "),
    (lambda: S.csr_array(S.coo_array((3,))), ValueError, "csr_array: wants two axes"),
    (lambda: S.coo_array((3,)).tocsr(), ValueError, "tocsr: wants two axes"),
    (lambda: S.coo_array((3,)).todia(), ValueError, "todia: wants two axes"),
    (lambda: S.coo_array(([1.0], 5)), TypeError, "coo_array: wants (data, (row, col))"),
    (lambda: S.coo_array(([1.0], ([0],)), shape=(2, 3)), ValueError, r"per axis of shape (2, 3)"),
    (lambda: S.csr_array([5.5], shape=7), TypeError, "coo_array: wants a shape, got 7"),
    (lambda: S.csr_array((2**40, 2**40)), ValueError, "more positions than 64-bit integers"),
    (lambda: S.coo_array(A, shape=(3, 3)), ValueError, r"wants shape (3, 3), .*(2, 3)"),
    (lambda: S.bsr_array(A, shape=(3, 3)), ValueError, r"wants shape (3, 3), .*(2, 3)"),
    (lambda: S.dia_array(A, shape=(3, 3)), ValueError, r"wants shape (3, 3), .*(2, 3)"),
    (
        lambda: S.bsr_array((np.ones((1, 2, 2)), [0], [0, 1]), shape=(4, 4)),
        ValueError,
        "bsr_array: wants an indptr of 3 numbers",
    ),
    (lambda: S.dia_array(([1.0], [0], [1])), TypeError, "dia_array: wants (data, offsets)"),
    (lambda: S.dia_array(([[1.0]], [0, 1]), shape=(2, 2)), ValueError, "a row of data per offset"),
    (lambda: S.dia_array(([[1.0]], [0.5]), shape=(2, 2)), ValueError, "a row of data per offset"),
    (lambda: S.diags_array([[1.0]], offsets=[0, 1]), ValueError, "a diagonal per offset"),
    (
        lambda: S.diags_array([[1.0]], offsets=[-4], shape=(3, 3)),
        ValueError,
        r"diags_array: an array of shape (3, 3) has no diagonal -4",
    ),
    (
        lambda: S.diags_array([[1.0]], offsets=[4], shape=(3, 3)),
        ValueError,
        r"diags_array: an array of shape (3, 3) has no diagonal 4",
    ),
    (lambda: S.swapaxes(A, 0, 2), ValueError, r"swapaxes: shape (2, 3) has no axes 0, 2"),
    (lambda: A[S.csr_array((2, 3), dtype=float)], IndexError, "wants a sparse mask .*float64"),
    (lambda: A[S.csr_array((3, 3), dtype=bool)], IndexError, r"sparse mask of shape (2, 3)"),
    (lambda: A[np.zeros((1, 1, 1), int), np.zeros(1, int)], IndexError, "one or two axes"),
    (lambda: A[np.zeros((1, 1), int), :], IndexError, "more than two axes"),
    (lambda: A[0, np.zeros((1, 1, 1), int)], IndexError, "more than two axes"),
    (lambda: A[np.zeros((1, 1, 1), int), 0], IndexError, "more than two axes"),
    (lambda: A[None, :, :], IndexError, "more than two axes"),
    (lambda: A.copy().__setitem__(([0, 1], [0, 1, 2]), 1), IndexError, "setitem: index arrays"),
    (lambda: A.copy().__setitem__((0, [0, 1]), [1, 2, 3]), ValueError, "setitem: values of shape"),
    (lambda: A.sum(axis=(0, 0)), ValueError, "sum: wants each axis once"),
    (lambda: S.csr_array((2, 3)).argmax(0, explicit=True), ValueError, "argmax: "),
    (lambda: S.csr_array((2, 3)).argmin(1, explicit=True), ValueError, "argmin: "),
    (lambda: 2 @ A, ValueError, r"matmul: wants an array beside one of shape (2, 3)"),
    (
        lambda: S.csgraph.shortest_path(S.eye_array(2), return_predecessors=True),
        NotImplementedError,
        "shortest_path: finds no predecessors",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), CASES, ids=[c[2][:40] for c in CASES])
def test_errors(call, error, message):
    pattern = ".*".join(re.escape(part) for part in message.split(".*"))
    with pytest.raises(error, match=pattern.replace(r"\.\*", ".*")):
        call()
