"""Bugs that were once planted by hand and that no test saw; each is killed by the test it names, in
the simulator where that is said. `make mutate` plants them again before any other."""

from __future__ import annotations

from typing import NamedTuple


class Planted(NamedTuple):
    """In `path`, `before` becomes `after`; `tests` are arguments of pytest."""

    path: str
    before: str
    after: str
    tests: tuple[str, ...]
    simulator: bool = False


_ALIGNMENT = "tests/kernels/lib/test_vector_alignment.py"
_BARRIER = "                cuda.syncthreads()\n"
_PUT = "                    put(shared, (y - height) * across + x, a)\n"
_GET = "                    a = pairs(a, get(shared, y * across + x))\n"

PLANTED = [
    Planted(
        "cudamath/ops/scan.py",
        "hit = equal(x, y) | (isnan(x) & isnan(y))",
        "hit = equal(x, y)",
        ("tests/ops/test_scan.py", "-k", "behind_a_nan"),
    ),
    Planted(
        "cudamath/ops/sort.py",
        "x.dtype in INTEGER and x.dtype.itemsize <= 2",
        "x.dtype in INTEGER and x.dtype.itemsize < 2",
        ("tests/ops/test_sort.py", "-k", "sort_complex"),
    ),
    Planted(
        "cudamath/ops/linalg/einsum.py",
        "reduce.sum(x, axis=alone, dtype=x.dtype)",
        "reduce.sum(x, axis=alone)",
        ("tests/numpy_parity/test_result_dtypes.py", "-k", "einsum"),
    ),
    Planted(
        "cudamath/ops/differences.py",
        "        if before or after:\n            a = pad",
        "        if before and after:\n            a = pad",
        ("tests/ops/test_convolve.py", "-k", "central"),
    ),
    Planted(
        "cudamath/ml/attention.py",
        "else clip(given, 0, most).reshape",
        "else clip(given, 0, None).reshape",
        ("tests/ml/test_attention_lengths.py", "-k", "second_order"),
    ),
    Planted(
        "cudamath/ml/attention.py",
        "rng.take(NAME, -(-words // 4)",
        "rng.take(NAME, words // 4",
        ("tests/ml/test_attention.py", "-k", "draws_and_limits"),
    ),
    Planted(
        "cudamath/cpu/pool.py",
        "    wide = x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)\n    how",
        "    wide = x\n    how",
        ("tests/ml/test_pool_nd.py", "-k", "rounded_once"),
    ),
    Planted(
        "cudamath/kernels/reduce/block_reduce.py",
        _PUT + _BARRIER,
        _PUT,
        ("tests/ops/test_reduce.py", "-k", "versions_in_the"),
        simulator=True,
    ),
    Planted(
        "cudamath/kernels/reduce/block_reduce.py",
        _GET + _BARRIER,
        _GET,
        ("tests/ops/test_reduce.py", "-k", "versions_in_the"),
        simulator=True,
    ),
    Planted(
        "cudamath/kernels/reduce/problem.py",
        "if self.single.kinds[0] in (types.float32, types.complex64) else np.float64",
        "",
        ("tests/ops/test_reduce.py", "-k", "as_exact"),
    ),
    Planted(
        "cudamath/kernels/lib/windows.py",
        "(min(h + rows, H + top) - h)",
        "rows",
        ("tests/ml/test_pool.py", "-k", "beyond_the_image"),
        simulator=True,
    ),
    Planted(
        "cudamath/kernels/shape/roll.py",
        "aligned = temps or x.aligned",
        "aligned = True",
        (_ALIGNMENT, "-k", "roll"),
    ),
    Planted(
        "cudamath/kernels/copy/dispatch.py",
        "        or not (source.aligned and target.aligned)\n",
        "",
        (_ALIGNMENT, "-k", "write or copy"),
    ),
    Planted(
        "cudamath/kernels/optim/steps.py",
        "wide = all(layout.aligned for layout in p.layouts[i::count])",
        "wide = True",
        (_ALIGNMENT, "-k", "table"),
    ),
    Planted(
        "cudamath/kernels/lib/widths.py",
        "if columns % width == 0 and all(layout.aligned for layout in layouts) else 1",
        "if columns % width == 0 else 1",
        (_ALIGNMENT, "-k", "layer_norm or rms_norm or softmax"),
    ),
    Planted(
        "cudamath/kernels/copy/fill.py",
        "min(count, MOST_LINES)",
        "count",
        ("tests/kernels/lib/test_launch_limits.py", "-k", "many_lines"),
    ),
    Planted(
        "cudamath/core/dispatch/op.py",
        'key = ("into", target._layout, *layouts, *params.values())',
        'key = ("into", target.shape, target.strides, *layouts, *params.values())',
        (f"{_ALIGNMENT}::test_accesses_of_a_call[out=]",),
    ),
    Planted(
        "cudamath/runtime/kernel_errors.py",
        "runtime.graph_calls.get(number) or calls[number % RING]",
        "runtime.graph_calls.get(value) or calls[number % RING]",
        ("tests/dispatch/test_launch.py", "-k", "replayed"),
    ),
]
