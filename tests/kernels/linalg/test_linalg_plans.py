"""Decompositions below the arrays: the kernels of kernels/linalg/lapack_helpers.py by name, what
its plans ask of cuSOLVER and cuBLAS, handles, workspace, and failures that the device reports."""

from __future__ import annotations

import ctypes
import itertools
import types
import warnings
from typing import Any

import numpy as np
import pytest
from compiled_facts import compile_plan
from fake_driver import gpu
from gradient_checks import MACHINES, run_version
from host_plans import host_run
from matrices import near, rand
from simulated_gpu import give_vectors_and_warps

import cudamath as cm
from cudamath.core.dispatch.arguments import Flag, Input, Output, Ticket
from cudamath.core.dispatch.plan import Plan
from cudamath.core.dispatch.steps import Call, Launch
from cudamath.core.layout import Layout
from cudamath.cpu import decompose as host
from cudamath.kernels.linalg import dispatch, plan_builder, svd_products
from cudamath.kernels.linalg import lapack_helpers as small
from cudamath.kernels.linalg import lapack_plans as planners
from cudamath.runtime import cusolver, kernel_errors, stream
from cudamath.testing import assert_close, simulate

LinAlgError = np.linalg.LinAlgError


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_kernels(machine, dtype):
    """triangle, identity, zero_based, one_based, row_order, factors, paired, reflected,
    log_determinant by name."""
    rng = np.random.default_rng(0)
    a = rand(rng, (2, 4, 5), dtype)

    def cube(kernel: Any) -> Any:
        return lambda x: Plan([x.like()], [Launch(kernel, 1, 128, [Input(0), Output(0)])])

    np.testing.assert_array_equal(
        run_version(machine, cube(small.triangle(a.dtype, True)), a), np.triu(a)
    )
    np.testing.assert_array_equal(
        run_version(machine, cube(small.triangle(a.dtype, False)), a), np.tril(a)
    )
    square = np.ascontiguousarray(a[:, :, :4])
    made = run_version(
        machine,
        lambda x: Plan([x.like()], [Launch(small.identity(x.dtype), 1, 128, [Output(0)])]),
        square,
    )
    np.testing.assert_array_equal(made, np.broadcast_to(np.eye(4, dtype=dtype), (2, 4, 4)))
    pivots = rng.integers(1, 9, 20)
    out = run_version(
        machine,
        lambda p: Plan(
            [p.like(dtype="int32")], [Launch(small.zero_based, 1, 128, [Input(0), Output(0)])]
        ),
        pivots,
    )
    np.testing.assert_array_equal(out, pivots - 1)
    for kind in ("i4", "i8"):
        again = run_version(
            machine,
            lambda p, kind=kind: Plan(
                [p.like(dtype=kind)],
                [Launch(small.one_based, 1, 128, [Input(0), Output(0), 8, Flag(), Ticket()])],
            ),
            out,
        )
        np.testing.assert_array_equal(again, pivots)
    for shape in ((3, 5), (1,), (2, 2, 4)):
        exchanges = rng.integers(0, shape[-1], shape).astype("i4")
        for m in (shape[-1], shape[-1] + 2):
            order = run_version(machine, lambda p, m=m: planners.exchanged(p, m=m), exchanges)
            np.testing.assert_array_equal(order, host.exchanged(exchanges, m=m))
    for shape in ((2, 4, 5), (2, 5, 4), (3, 3, 3), (1, 1, 1)):
        count, m, n = shape
        k = min(m, n)
        packed, order = (
            rand(rng, shape, dtype),
            np.stack([rng.permutation(m) for _ in range(count)]),
        )

        def parted(x: Layout, order: Layout, count=count, m=m, n=n, k=k) -> Plan:
            outs = [x.like((count, *s)) for s in ((m, m), (m, k), (k, n))]
            return Plan(
                outs,
                [
                    Launch(
                        small.factors(x.dtype), 1, 128, [Input(0), Input(1), *map(Output, range(3))]
                    )
                ],
            )

        p, low, up = run_version(machine, parted, packed, order)
        np.testing.assert_array_equal(p, np.eye(m, dtype=dtype)[order].mT)
        np.testing.assert_array_equal(low, np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=dtype))
        np.testing.assert_array_equal(up, np.triu(packed[:, :k]))
    scipy = pytest.importorskip("scipy.linalg")
    for shape, columns in (((4, 7, 3), 3), ((4, 7, 3), 7), ((3, 2, 5), 2)):
        tall = rand(rng, shape, dtype)
        ((packed, tau),) = [
            tuple(
                np.stack(x) for x in zip(*[scipy.qr(m, mode="raw")[0] for m in tall], strict=True)
            )
        ]
        q = run_version(
            machine,
            lambda x, t, columns=columns: Plan(
                [x.like((*x.shape[:2], columns))],
                [Launch(small.reflected(x.dtype), 1, 128, [Input(0), Input(1), Output(0)])],
            ),
            np.ascontiguousarray(packed.astype(dtype)),
            tau.astype(dtype),
        )
        near(q, np.stack([scipy.qr(m)[0][:, :columns] for m in tall]).astype(dtype))
    if a.dtype.kind == "f":
        general = rand(rng, (2, 5, 5), dtype)
        w, v = np.linalg.eig(general)
        w, v = w.astype("c8"), v.astype("c8")
        packed = np.where(
            w.imag[:, None] < 0, np.roll(v.imag, 1, -1), v.real
        )  # the second of a pair: the first's y
        found = run_version(
            machine,
            lambda w, x: Plan(
                [w.like(x.shape)],
                [Launch(small.paired(w.dtype), 1, 128, [Input(0), Input(1), Output(0)])],
            ),
            w,
            packed,
        )
        np.testing.assert_array_equal(found, v)
    full = rand(rng, (3, 5, 5), dtype)
    full[2, :, 0] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # SciPy's, of a singular matrix
        packed = [scipy.lu_factor(m) for m in full]
    lu, exchanges = (
        np.stack([p[0] for p in packed]).astype(dtype),
        np.stack([p[1] for p in packed]).astype(np.int64) + 1,
    )

    def log_determinant(lu: Layout, pivots: Layout) -> Plan:
        return Plan(
            [lu.like((3,)), plan_builder.real_like(lu, (3,))],
            [
                Launch(
                    small.log_determinant(lu.dtype),
                    3,
                    small.THREADS,
                    [Input(0), Input(1), Output(0), Output(1)],
                )
            ],
        )

    sign, logdet = run_version(machine, log_determinant, lu, exchanges)
    with np.errstate(divide="ignore"):
        expected = np.linalg.slogdet(full)
    near(sign, expected.sign)
    assert_close(logdet, expected.logabsdet, rtol=0, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("version", ["gesvd", "jacobi"])
def test_versions_of_svd(version, dtype):
    for shape, full in itertools.product(
        [(3, 7, 4), (2, 4, 7), (1, 30, 30), (2, 1, 5)], (True, False)
    ):
        a = rand(np.random.default_rng(0), shape, dtype)
        u, s, vh = run_version(
            "gpu", lambda x, full=full: dispatch.svd(x, full=full, version=version), a
        )
        theirs = np.linalg.svd(a, full_matrices=full)
        assert (u.shape, vh.shape) == (theirs.U.shape, theirs.Vh.shape)
        near(s, theirs.S)
        k = min(shape[1:])
        near((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a)
        for q in (u, vh.mT.conj()):
            near(
                q.mT.conj() @ q,
                np.broadcast_to(
                    np.eye(q.shape[-1], dtype=dtype), (shape[0], q.shape[-1], q.shape[-1])
                ),
            )
        near(run_version("gpu", lambda x: dispatch.svdvals(x, version=version), a), theirs.S)


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("count", "n", "look"),
    [
        *[
            (*size, look)
            for size in ((1, 5), (3, 4))
            for look in ("rows", "columns", "strided", "reversed", "broadcast")
        ],
        (1, planners.TURNED + 1, "rows"),
    ],
)
@pytest.mark.parametrize("lower", [True, False])
def test_triangular_plans_in_the_simulator(fake, monkeypatch, lower, count, n, look):
    """What cuBLAS is asked for solves the system, whichever way the matrix lies: a stand-in reads
    it as cuBLAS would."""

    def seen(address: int, rows: int, columns: int, ld: int) -> np.ndarray:
        assert ld >= rows
        holder = types.SimpleNamespace(
            __array_interface__={
                "data": (address, False),
                "shape": (rows, columns),
                "version": 3,
                "typestr": "<f8",
                "strides": (8, 8 * ld),
            }
        )
        return np.asarray(holder)

    def stand_in(name: str, what: str) -> Any:
        def trsm(_stream: Any, arguments: tuple) -> None:
            side, triangle, transpose, unit, m, k, _alpha, a, lda, b, ldb, *many = arguments
            assert (side, unit, m, k) == (cusolver.LEFT, 0, n, 3)
            tables = [
                np.ctypeslib.as_array((ctypes.c_int64 * many[0]).from_address(p)) if many else [p]
                for p in (a, b)
            ]
            for one, other in zip(*tables, strict=True):
                matrix, right = seen(int(one), n, n, lda), seen(int(other), n, 3, ldb)
                matrix = np.tril(matrix) if triangle == cusolver.LOWER else np.triu(matrix)
                right[...] = np.linalg.solve(matrix.T if transpose else matrix, right)

        return trsm

    monkeypatch.setattr(cusolver, "_cublas", stand_in)
    rng = np.random.default_rng(0)
    a, b = rand(rng, (count, n, n)) + 3 * n**0.5 * np.eye(n), rand(rng, (count, n, 3))
    if look == "columns":
        a = np.ascontiguousarray(a.mT).mT
    elif look == "strided":
        a = np.repeat(a, 2, axis=2)[:, :, ::2]
    elif look == "reversed":
        a = a[:, ::-1][:, :, ::-1]
    elif look == "broadcast":
        a = np.broadcast_to(a[:1], a.shape)
    layouts = [Layout.of(x.shape, x.strides, x.dtype, 0) for x in (a, b)]
    plan = dispatch.solve_triangular(*layouts, lower=lower, unit=False, version="cublas")
    plan.steps = [
        step
        for step in plan.steps
        if not (isinstance(step, Launch) and step.kernel is small.check_diagonal(np.dtype("f8")))
    ]
    before = a.copy()
    (x,) = host_run(plan, a, b, table=small.addresses)
    near(x, np.linalg.solve(np.tril(a) if lower else np.triu(a), b))
    np.testing.assert_array_equal(a, before)


@pytest.mark.filterwarnings("ignore:invalid value")  # of lanes whose result is not taken
@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 17), (33, 1)])
def test_small_triangular_systems_in_the_simulator(monkeypatch, dtype, n, k):
    give_vectors_and_warps(monkeypatch)
    rng = np.random.default_rng(0)
    a, b = (
        rand(rng, (2, n, n), dtype) + np.asarray(3 * n, dtype) * np.eye(n, dtype=dtype),
        rand(rng, (2, n, k), dtype),
    )
    for lower, unit, turned in itertools.product((True, False), repeat=3):
        clean = np.tril(a) if lower else np.triu(a)
        if unit:
            clean = clean / np.asarray(3 * n, dtype)
            clean[:, range(n), range(n)] = 1
        poisoned = np.where(
            np.tri(n, k=-unit, dtype=bool) if lower else np.tri(n, k=-unit, dtype=bool).T,
            clean,
            np.nan,
        )
        given = np.ascontiguousarray(poisoned.mT).mT if turned else poisoned
        layouts = [Layout.of(x.shape, x.strides, x.dtype, 0) for x in (given, b)]
        plan = dispatch.solve_triangular(*layouts, lower=lower, unit=unit)
        assert kernels(plan) == ["solve_small"]
        near(simulate(plan, given, b), np.linalg.solve(clean, b))
    a[1, 0, 0] = 0
    with pytest.raises(IndexError):  # what the simulator makes of any flag
        simulate(
            dispatch.solve_triangular(
                *(Layout.of(x.shape, x.strides, x.dtype, 0) for x in (a, b)), lower=True, unit=False
            ),
            a,
            b,
        )


@pytest.mark.filterwarnings("ignore:invalid value")  # of lanes whose result is not taken
@pytest.mark.simulator
@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 17), (33, 1)])
def test_small_systems_of_factors_in_the_simulator(monkeypatch, dtype, n, k):
    """Exchanges in any order, also in vain; a zero on the diagonal and what is no row are
    flagged."""
    give_vectors_and_warps(monkeypatch)
    rng = np.random.default_rng(0)
    a, b = (
        rand(rng, (2, n, n), dtype) / np.asarray(n, dtype) + 3 * np.eye(n, dtype=dtype),
        rand(rng, (2, n, k), dtype),
    )
    pivots = rng.integers(0, n, (2, n))
    want = np.linalg.solve(
        (np.tril(a, -1) + np.eye(n)) @ np.triu(a),
        np.take_along_axis(b, host.exchanged(pivots, m=n)[..., None], -2),
    ).astype(dtype)

    def found(packed: np.ndarray, exchanges: np.ndarray) -> Any:
        plan = dispatch.lu_solve(
            *(Layout.of(x.shape, x.strides, x.dtype, 0) for x in (packed, b, exchanges))
        )
        assert kernels(plan) == ["solve_factored"]
        return simulate(plan, packed, b, exchanges)

    for kind in ("i4", "i8", "u1"):
        near(found(a, pivots.astype(kind)), want)
    near(found(np.ascontiguousarray(a.mT).mT, pivots), want)
    for wrong in (n, -1):
        other = pivots.copy()
        other[1, n - 1] = wrong
        with pytest.raises(IndexError):
            found(a, other)
    a[1, n - 1, n - 1] = 0
    with pytest.raises(IndexError):  # what the simulator makes of any flag
        found(a, pivots)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", ["f4", "c16"])
def test_factors_of_small_rectangles(machine, dtype):
    """lu_small: as LAPACK's, also of columns without a pivot and of equal candidates; for lu_factor
    and for lu."""
    rng = np.random.default_rng(0)
    for shape in ((2, 5, 3), (3, 3, 5), (2, 1, 4), (2, 7, 1), (2, 2, 18, 11)):
        a = rand(rng, shape, dtype)
        a.reshape(-1, *shape[-2:])[1, :, 0] = 0
        if min(shape[-2:]) > 2:
            a.reshape(-1, *shape[-2:])[0, :, 1] = 2
        for given in (a, np.ascontiguousarray(a.mT).mT):
            packed, pivots = run_version(machine, dispatch.lu_factor, given)
            want, exchanges = host.lu_factor(a)
            near(packed, want, scale=8)
            np.testing.assert_array_equal(pivots, exchanges)
            p, low, up = run_version(machine, dispatch.lu, given)
            near(p @ low @ up, a, scale=8)
            np.testing.assert_array_equal(p, host.lu(a)[0])
    layout = Layout.new((2, 5, 3), np.dtype(dtype), 0)
    assert kernels(dispatch.lu_factor(layout)) == ["lu_small"]
    assert kernels(dispatch.lu(layout)) == ["lu_small", "row_order", "factors"]
    assert "library" in kernels(dispatch.lu_factor(Layout.new((2, 5, 65), np.dtype(dtype), 0)))


@pytest.mark.simulator
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("in_columns", [True, False])
def test_systems_of_factors_in_the_simulator(fake, monkeypatch, count, in_columns):
    """What the libraries are asked for: factors in columns, exchanges that count from 1, the
    right-hand side in columns."""
    n, k = 5, 3
    rng = np.random.default_rng(0)
    a, b = rand(rng, (count, n, n)) + 3 * n**0.5 * np.eye(n), rand(rng, (count, n, k))
    pivots = rng.integers(0, n, (count, n)).astype(np.int32)

    def seen(address: int, rows: int, columns: int, dtype: str) -> np.ndarray:
        size = np.dtype(dtype).itemsize
        return np.asarray(
            types.SimpleNamespace(
                __array_interface__={
                    "data": (address, False),
                    "shape": (rows, columns),
                    "version": 3,
                    "typestr": dtype,
                    "strides": (size, size * rows),
                }
            )
        )

    def stand_in(*, batched: bool) -> Any:
        def make(dtype: np.dtype, *sizes: int) -> Any:
            assert (dtype, sizes) == (a.dtype, (n, k, cusolver.NO_TRANSPOSE, count))

            def getrs(_stream: Any, lu: int, rows: int, x: int, *_info: int) -> None:
                exchanges = seen(rows, n, count, "<i4" if batched else "<i8").T - 1
                for i in range(count):
                    places = [
                        (ctypes.c_int64 * count).from_address(p)[i]
                        if batched
                        else p + 8 * i * n * m
                        for p, m in ((lu, n), (x, k))
                    ]
                    packed, right = seen(places[0], n, n, "<f8"), seen(places[1], n, k, "<f8")
                    rows_of = right[host.exchanged(exchanges[i], m=n)]
                    right[...] = np.linalg.solve(
                        (np.tril(packed, -1) + np.eye(n)) @ np.triu(packed), rows_of
                    )

            return getrs

        return make

    monkeypatch.setattr(cusolver, "getrs", stand_in(batched=False))
    monkeypatch.setattr(cusolver, "getrs_batched", stand_in(batched=True))
    given = np.ascontiguousarray(a.mT).mT if in_columns else a
    layouts = [Layout.of(x.shape, x.strides, x.dtype, 0) for x in (given, b, pivots)]
    plan = dispatch.lu_solve(*layouts, version="cusolver")
    assert len(plan.temps) - 2 == (not in_columns) + (
        count > 1
    )  # rows; info or the table of x; a copy; the table of a
    flagging = {small.check_diagonal(np.dtype("f8")), small.one_based}
    counts = [step for step in plan.steps if isinstance(step, Launch) and step.kernel in flagging]
    assert len(counts) == 2
    for step in counts:  # the simulator's flag is another one: without it
        plan.steps.remove(step)
    rows = next(arg for arg in counts[1].args if getattr(arg, "kind", "") == "t")
    made = (pivots + 1).astype(plan.temps[rows.index].dtype).ravel()
    first = Call(
        lambda _stream, place: ctypes.memmove(place, made.ctypes.data, made.nbytes), [rows]
    )
    plan.steps.insert(0, first)
    before = given.copy()
    (x,) = host_run(plan, given, b, pivots, table=small.addresses)
    near(
        x,
        np.linalg.solve(
            (np.tril(a, -1) + np.eye(n)) @ np.triu(a),
            np.take_along_axis(b, host.exchanged(pivots, m=n)[..., None], -2),
        ),
    )
    np.testing.assert_array_equal(given, before)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("version", [None, "cusolver"])
def test_versions_of_lu_solve(version, dtype):
    rng = np.random.default_rng(0)
    for count, n, k in ((1, 1, 1), (1, 32, 40), (3, 20, 3), (2, 5, 17)):
        a, b = rand(rng, (count, n, n), dtype), rand(rng, (count, n, k), dtype)
        packed, pivots = host.lu_factor(a + np.asarray(n**0.5, dtype) * np.eye(n, dtype=dtype))
        for given in (packed, np.ascontiguousarray(packed.mT).mT):
            near(
                run_version(
                    "gpu", lambda *x: dispatch.lu_solve(*x, version=version), given, b, pivots
                ),
                host.lu_solve(packed, b, pivots),
            )


@pytest.mark.simulator
def test_flagging_kernels_in_the_simulator():
    def flagged(kernel: Any, x: np.ndarray) -> bool:
        try:
            simulate(Plan([], [Launch(kernel, 1, 128, [Input(0), Flag(), Ticket()])]), x)
        except IndexError:  # what the simulator makes of any flag
            return True
        return False

    assert flagged(small.check_info, np.array([0, 0, 3], np.int32))
    assert not flagged(small.check_info, np.zeros(4, np.int32))
    triangles = np.stack([np.eye(3), np.eye(3)])
    assert not flagged(small.check_diagonal(triangles.dtype), triangles)
    triangles[1, 2, 2] = 0
    assert flagged(small.check_diagonal(triangles.dtype), triangles)
    for rows, wrong in (([0, 2], False), ([0, 3], True), ([-1, 1], True)):
        plan = Plan(
            [Layout.new((2,), np.dtype("i4"), 0)],
            [Launch(small.one_based, 1, 128, [Input(0), Output(0), 3, Flag(), Ticket()])],
        )
        if wrong:
            with pytest.raises(IndexError):
                simulate(plan, np.array(rows))
        else:
            assert simulate(plan, np.array(rows)).tolist() == [1, 3]


@pytest.mark.compiles
def test_plans_compile_without_spills():
    a, b, t = (Layout.new((7, 9, k), np.dtype("c16"), 0) for k in (9, 3, 5))
    wide, single = (
        Layout.new((7, 90, 90), np.dtype("f8"), 0),
        Layout.new((500, 300), np.dtype("c8"), 0),
    )
    big = Layout.new((2, 300, 300), np.dtype("c16"), 0)
    rows = Layout.new((7, 9), np.dtype("i4"), 0)
    plans = [
        (planners.inv(big), [big]),
        (planners.inv_and_sign(a), [a]),
        (planners.slogdet(a), [a]),
        (dispatch.lu_factor(t), [t]),
        (dispatch.lu(t), [t]),
        (planners.eig(wide), [wide]),
        (dispatch.lu_solve(a, b, rows, version="cusolver"), [a, b, rows]),
        (dispatch.solve_triangular(a, b, lower=True, unit=False, version="cublas"), [a, b]),
        (planners.cholesky(a, upper=False), [a]),
        (dispatch.qr(t, complete=True, version="cusolver"), [t]),
        (dispatch.svd(single, full=True), [single]),
        (dispatch.svdvals(single), [single]),
    ]
    for plan, inputs in plans:
        plan.steps = [
            step
            for step in plan.steps
            if isinstance(step, Launch) and step.kernel.py_func.__module__ == small.__name__
        ]  # copies are compiled elsewhere
        for found in compile_plan(plan, inputs, (9, 0)):
            assert found.spills == 0 and found.registers <= 64, found


def kernels(plan: Plan) -> list[str]:
    return [step.kernel.__name__ if isinstance(step, Launch) else "library" for step in plan.steps]


@pytest.mark.parametrize("count", [1, 100_000])
@pytest.mark.parametrize("dtype", ["f4", "c16"])
@pytest.mark.parametrize("n", [33, 100])
def test_every_failure_is_looked_for(n, dtype, count, monkeypatch):
    """What a routine says of each matrix is read by `check_info` behind it, wherever an error is
    promised; where none is, of singular matrices, nobody looks."""

    def looks(plan: Plan) -> list[int]:
        return [
            step.args[0].index
            for step in plan.steps
            if isinstance(step, Launch) and step.kernel is small.check_info
        ]

    def told(plan: Plan) -> list[int]:
        """Temporary arrays of as many int32 as there are matrices."""
        return [i for i, t in enumerate(plan.temps) if (t.shape, t.dtype) == ((count,), "int32")]

    a = Layout.new((count, n, n), np.dtype(dtype), 0)
    wide = Layout.new((count, n, n + 1), np.dtype(dtype), 0)
    checked = {
        "solve": planners.solve(a, a),
        "inv": planners.inv(a),
        "cholesky": planners.cholesky(a, upper=False),
        "eigh": dispatch.eigh(a, upper=False, version="cusolver"),
        "eigvalsh": dispatch.eigvalsh(a, upper=True, version="cusolver"),
        "svd": dispatch.svd(wide, full=False, version="gesvd"),
        "svdvals": dispatch.svdvals(a, version="gesvd"),
    }
    if n > max(*planners.ON_HOST.values(), planners.VALUES_ON_HOST):
        checked |= {"eig": planners.eig(a), "eigvals": planners.eigvals(a)}
    for name, plan in checked.items():
        assert looks(plan) and looks(plan) == told(plan), name
    for plan in (planners.slogdet(a), planners.inv_and_sign(a)):
        assert not looks(plan)
    asked = []  # iterations; what says no more than that arguments fit lies by them
    for module, name in ((svd_products, "symmetric"), (cusolver, "gesvdj")):
        routine = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *how, routine=routine: asked.append(how) or routine(*how)
        )
    for how in ({"full": True}, {"full": False}, None):
        asked.clear()
        if how is None:
            plan = dispatch.svdvals(wide, version="products")
        else:
            plan = dispatch.svd(wide, version="products", **how)
        assert len(looks(plan)) == len(asked) > 0 and {*looks(plan)} <= {*told(plan)}


def test_nothing_is_moved_twice():
    """One straight copy of each input, whichever way it lies; results come out as they are."""
    rows = Layout.new((9, 9), np.dtype("f8"), 0)
    columns = Layout.of((9, 9), (8, 72), np.dtype("f8"), 0)
    vector = Layout.new((9, 1), np.dtype("f8"), 0)
    for a in (rows, columns):
        assert len(kernels(planners.solve(a, vector))) == 5
        found = kernels(planners.inv(a))
        assert len(found) == 5 and "strided" not in found, found
        assert kernels(dispatch.solve_triangular(a, vector, lower=True, unit=True)) == [
            "solve_small"
        ]
        found = kernels(
            dispatch.solve_triangular(a, vector, lower=True, unit=True, version="cublas")
        )
        assert len(found) == 2 and found[-1] == "library"
    assert (
        kernels(
            dispatch.solve_triangular(
                Layout.new((129, 129), np.dtype("f8"), 0),
                Layout.new((129, 1), np.dtype("f8"), 0),
                lower=True,
                unit=True,
            )
        )[-1]
        == "library"
    )
    assert kernels(dispatch.svd(Layout.new((4, 9), np.dtype("f8"), 0), full=False)) == ["svd_small"]
    found = kernels(
        dispatch.svd(Layout.new((4, 9), np.dtype("f8"), 0), full=False, version="gesvd")
    )
    assert found[1:] == ["library", "check_info"]


# -------------------- failures and handles, without a GPU


def test_a_flagged_failure_is_raised_at_the_next_synchronisation(fake):
    """Negative: LinAlgError of the call; positive: IndexError; a ticket long forgotten still tells
    which of the two."""
    here = stream.current_stream(0)
    flag = kernel_errors.view(0)
    flag[0] = -kernel_errors.ticket("cholesky")
    with pytest.raises(
        LinAlgError,
        match=r"^cholesky: Matrix is not positive definite, called at .*test_linalg_plans.py:\d+ ",
    ):
        here.synchronize()
    here.synchronize()  # raised once
    old = kernel_errors.ticket("inv")
    for _ in range(5000):
        kernel_errors.ticket("take")
    flag[0] = -old
    with pytest.raises(LinAlgError, match="^linalg: a decomposition failed"):
        here.synchronize()
    flag[0] = kernel_errors.ticket("take")
    with pytest.raises(IndexError, match="^take: "):
        here.synchronize()


class FakeSolver:
    """A stand-in for cuSOLVER that counts, and answers size queries."""

    class cuSOLVERError(Exception):
        pass

    def __init__(self) -> None:
        self.calls: list[tuple] = []
        self.handles = itertools.count(1)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("create"):
            return lambda: next(self.handles)
        if name.endswith("buffer_size"):
            return lambda *a: (
                self.calls.append((name, *a)),
                3000 if name[0] != "x" else (3000, 10),
            )[1]
        return lambda *a: self.calls.append((name, *a))


@pytest.fixture
def fake_solver(monkeypatch, fake):
    library = FakeSolver()
    monkeypatch.setattr(cusolver, "_bindings", lambda: library)
    monkeypatch.setattr(cusolver, "_errors", lambda: (FakeSolver.cuSOLVERError,))
    cusolver._handles.clear()
    monkeypatch.setattr(
        cusolver.library_paths,
        "find",
        lambda name: types.SimpleNamespace(path="there", looked="", remedy=""),
    )
    yield library
    cusolver._handles.clear()


def test_handles_and_workspace(fake_solver):
    """One handle a stream, gone with it; sizes are asked for once; workspace is the pool's, for the
    call."""
    here, other = stream.current_stream(0), stream.Stream(0)
    assert cusolver.handle(here) is cusolver.handle(here) is not cusolver.handle(other)
    assert ("set_stream", 5, other.ptr) in fake_solver.calls
    del other
    assert len(cusolver._handles) == 1
    assert [c[0] for c in fake_solver.calls[-4:]] == [
        "destroy_syevj_info",
        "destroy_gesvdj_info",
        "destroy_params",
        "destroy",
    ]
    fake_solver.calls.clear()
    a, pivots, info = (
        gpu(np.ones((2, 3, 3))),
        gpu(np.zeros((2, 3), np.int64)),
        gpu(np.zeros(2, np.int32)),
    )
    run = cusolver.getrf(np.dtype("f8"), 3, 3, 2)
    before = here.pool.used
    run(here, a._data, pivots._data, info._data)
    run(here, a._data, pivots._data, info._data)
    assert here.pool.used == before and here.pool.peak >= before + 3000
    names = [c[0] for c in fake_solver.calls]
    assert names == ["xgetrf_buffer_size", *["xgetrf"] * 4]
    first, second = fake_solver.calls[1:3]
    assert (
        second[6] - first[6] == 72 and second[8] - first[8] == 24 and second[-1] - first[-1] == 4
    )  # a, pivots, info
    assert first[11] == 3000 and first[13] == 10


def test_refusals_and_errors_of_the_library(fake_solver, monkeypatch):
    run = cusolver.syevd(np.dtype("f8"), 3, cusolver.LOWER, True, 1)
    here = stream.current_stream(0)
    monkeypatch.setattr(here, "capturing", True)
    with pytest.raises(RuntimeError, match="^cusolverDnXsyevd.*CUDA graph"):
        run(here, 0, 0, 0)
    monkeypatch.setattr(here, "capturing", False)

    def broken(*_: Any) -> None:
        raise FakeSolver.cuSOLVERError("CUSOLVER_STATUS_ALLOC_FAILED")

    monkeypatch.setattr(fake_solver, "xsyevd", broken, raising=False)
    with pytest.raises(cm.cuda.OutOfMemoryError, match=r"^cusolverDnXsyevd \(3, 3\) float64: "):
        run(here, 0, 0, 0)
    cusolver._handles.clear()
    monkeypatch.setattr(
        cusolver.library_paths,
        "find",
        lambda name: types.SimpleNamespace(path=None, looked="no libcusolver", remedy=""),
    )
    with pytest.raises(
        cm.cuda.DeviceError, match="^linalg: cuSOLVER was not found .*no libcusolver"
    ):
        run(here, 0, 0, 0)


def test_what_cublas_says_of_batched_arguments(monkeypatch):
    """The number of a wrong one, which it writes as an int of C."""

    def says(number):
        def routine(*arguments):
            address = arguments[-2]
            assert ctypes.c_int.from_address(address).value == 0
            ctypes.c_int.from_address(address).value = number

        return lambda name, what: lambda stream, arguments: routine(*arguments)

    for number in (0, -3):
        monkeypatch.setattr(cusolver, "_cublas", says(number))
        kind = np.dtype("f8")
        for name, run, count in (
            ("cublasGetrsBatched", cusolver.getrs_batched(kind, 4, 2, 0, 3), 3),
            ("cublasGeqrfBatched", cusolver.geqrf_batched(kind, 5, 4, 3), 2),
        ):
            if number:
                with pytest.raises(cm.cuda.CudaError, match=f"^{name}: argument 3 is wrong"):
                    run(None, *[0] * count)
            else:
                run(None, *[0] * count)


def test_library_calls_are_what_the_planners_say():
    """Which routine for which batch: one matrix or large ones one by one, small ones together."""

    def library(plan: Plan) -> list[str]:
        return [step.fn.__qualname__.split(".")[0] for step in plan.steps if isinstance(step, Call)]

    many_large = Layout.new((9, 300, 300), np.dtype("f4"), 0)
    one, many, large = (
        Layout.new(s, np.dtype("f4"), 0) for s in ((9, 9), (5, 9, 9), (2, 600, 600))
    )
    assert (
        library(planners.solve(one, one))
        == library(planners.solve(large, large))
        == ["getrf", "getrs"]
    )
    assert library(planners.solve(many, many)) == ["getrf_batched", "getrs_batched"]
    for factor in (dispatch.lu_factor, dispatch.lu):
        assert library(factor(many)) == ["getrf_batched"] and library(factor(one)) == ["getrf"]
    for inverse in (planners.inv, planners.inv_and_sign):  # one factorisation
        assert library(inverse(many)) == ["getrf_batched", "getri_batched"] and library(
            inverse(one)
        ) == ["getrf", "getrs"]
    assert library(planners.cholesky(one, upper=True)) == ["potrf"]
    assert library(planners.cholesky(many, upper=True)) == ["potrf_batched"]
    assert not library(dispatch.svd(many, full=True)) + library(
        dispatch.svdvals(one)
    )  # by svd_small, values_small
    assert not library(dispatch.qr(many, complete=False)) + library(
        dispatch.qr_r(one)
    )  # by qr_small, r_small
    assert library(dispatch.qr(large, complete=False)) == ["geqrf", "orgqr"]
    assert library(dispatch.qr(many, complete=False, version="cusolver")) == ["geqrf_batched"]
    assert library(dispatch.qr_r(many, version="cusolver")) == ["geqrf_batched"]
    assert not library(dispatch.eigh(many, upper=False)) + library(
        dispatch.eigvalsh(one, upper=True)
    )  # by eigh_small
    assert library(dispatch.eigh(many, upper=False, version="cusolver")) == ["syevj_batched"]
    assert library(dispatch.eigh(many_large, upper=False)) == ["syev_batched"]
    assert library(planners.solve(many_large, many_large)) == ["getrf_batched", "getrs_batched"]
    assert library(dispatch.eigh(large, upper=False)) == ["syevd"]
    assert library(dispatch.eigvalsh(one, upper=True, version="cusolver")) == ["syevd"]
    assert library(planners.eig(one)) == library(planners.eigvals(many)) == ["geev_on_host"]
    assert library(planners.eig(large)) == library(planners.eigvals(many_large)) == ["geev"]
