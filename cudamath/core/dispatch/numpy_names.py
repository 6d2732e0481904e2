"""NumPy's names of the arrays that our functions take by position, which are keywords there.

`tests/numpy_parity/test_signatures.py` compares all public functions with NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import keyword_names

#: NumPy's name of the first parameter -> the functions of a namespace.
_FIRST: dict[str, str] = {
    "a": """all amax amin any argmax argmin argpartition argsort argwhere around asanyarray asarray
        asarray_chkfinite ascontiguousarray asfortranarray average choose clip copy count_nonzero
        cumprod cumsum diagonal diff expand_dims fill_diagonal flatnonzero full_like histogram
        histogram_bin_edges isfortran max may_share_memory mean median min moveaxis nanargmax
        nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod
        nanquantile nanstd nansum nanvar ndim nonzero ones_like partition percentile permute_dims
        prod ptp put quantile ravel real_if_close repeat require resize roll rollaxis round shape
        size sort sort_complex squeeze std sum swapaxes take trace transpose var zeros_like
        array2string array_str convolve correlate""",
    "arr": """append array_repr delete diag_indices_from insert place put_along_axis take_along_axis
        tril_indices_from triu_indices_from""",
    "ary": "array_split dsplit ediff1d hsplit split vsplit",
    "ar": "unique",
    "array": "broadcast_to pad",
    "object": "array",
    "m": "cov flip fliplr flipud rot90 tril triu",
    "v": "diag diagflat",
    "val": "imag real",
    "f": "gradient",
    "filt": "trim_zeros",
    "iter": "fromiter",
    "tup": "column_stack dstack hstack vstack",
    "element": "isscalar",
    "seq_of_zeros": "poly",
    "A": "tile",
    "M": "bartlett blackman hamming hanning kaiser",
    "x": """corrcoef digitize fix iscomplex iscomplexobj isneginf isposinf isreal isrealobj
        i0 nan_to_num sinc unique_all unique_counts unique_inverse unique_values vander""",
}
_LINALG: dict[str, str] = {
    "a": "det eig eigh eigvals eigvalsh inv pinv qr slogdet svd tensorinv",
    "x": "cond norm",
    "A": "matrix_rank",
    "arrays": "multi_dot",
}
_FFT: dict[str, str] = {
    "a": """fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2
            rfftn""",
    "x": "fftshift ifftshift",
}
#: Functions whose further parameters have other names in NumPy too.
_FURTHER = {
    "apply_along_axis": {"function": "func1d", "x": "arr"},
    "apply_over_axes": {"function": "func", "x": "a"},
    "issubdtype": {"dtype": "arg1", "kind": "arg2"},
    "mask_indices": {"mask": "mask_func"},
    "fromstring": {"text": "string"},
    "load": {"path": "file"},
    "save": {"path": "file", "tree": "arr"},
    "piecewise": {"conditions": "condlist", "functions": "funclist"},
}


#: Namespace -> the tables of its functions.
_TABLES: dict[str, tuple[dict[str, str], dict[str, dict[str, str]]]] = {
    "cudamath": (_FIRST, _FURTHER),
    "cudamath.linalg": (_LINALG, {}),
    "cudamath.fft": (_FFT, {}),
}


def install(space: ModuleType) -> None:
    """Let the functions of a namespace take NumPy's keywords."""
    table, further = _TABLES[space.__name__]
    for name, names in further.items():
        keyword_names.accept(getattr(space, name), names)
    done: set[int] = set()
    for theirs, functions in table.items():
        for name in functions.split():
            function = getattr(space, name)
            if id(function) not in done:  # one function may have several names
                done.add(id(function))
                keyword_names.accept(function, {_first(function): theirs})


def _first(function: Callable) -> str:
    """The name of a function's first parameter."""
    source: Any = function
    while hasattr(source, "__wrapped__"):
        source = source.__wrapped__
    return source.__code__.co_varnames[0]
