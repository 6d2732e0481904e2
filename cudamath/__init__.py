"""cudamath: NumPy on your GPU, with every kernel in Python you can read.

Functions take NumPy-like arguments and return `ndarray`s on the default device: the first GPU if
there is one, else the CPU. Importing this package creates no CUDA context and imports no CUDA
library.

>>> import cudamath as cm
>>> float(cm.sum(cm.array([1.0, 2.0, 3.0]) ** 2))
14.0
"""

import importlib as _importlib
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _sys.version_info >= (3, 15):
    raise ImportError(
        "cudamath runs on Python 3.11 to 3.14, and this is "
        f"{_sys.version.split()[0]}: Numba, which compiles its kernels, has no release for it"
    )

from numpy import (
    False_,
    ScalarType,
    True_,
    base_repr,
    binary_repr,
    bool_,
    byte,
    bytes_,
    cdouble,
    character,
    clongdouble,
    complex64,
    complex128,
    csingle,
    datetime64,
    double,
    dtype,
    e,
    euler_gamma,
    flexible,
    float16,
    float32,
    float64,
    format_float_positional,
    format_float_scientific,
    geterr,
    half,
    index_exp,
    inf,
    int8,
    int16,
    int32,
    int64,
    int_,
    intc,
    intp,
    iterable,
    long,
    longdouble,
    longlong,
    mintypecode,
    nan,
    ndindex,
    newaxis,
    object_,
    pi,
    s_,
    seterr,
    short,
    single,
    str_,
    timedelta64,
    typename,
    ubyte,
    uint,
    uint8,
    uint16,
    uint32,
    uint64,
    uintc,
    uintp,
    ulong,
    ulonglong,
    ushort,
    void,
)

from . import cuda, exceptions, linalg, random
from . import einops_backend as _einops_backend
from . import ufunc_facts as _ufunc_facts
from .autodiff import *  # noqa: F403
from .batching import *  # noqa: F403
from .checkpoints import *  # noqa: F403
from .core.array import ndarray
from .core.devices import default_device, device, set_default_device
from .core.dispatch import numpy_names as _numpy_names
from .core.dispatch.explain import *  # noqa: F403
from .core.dtypes import result_type, set_default_dtype
from .core.number_classes import *  # noqa: F403
from .core.other_names import refuse_function as _refuse_function
from .core.public_names import public_dir as _public_dir
from .custom import *  # noqa: F403
from .fuse import *  # noqa: F403
from .jacobians import *  # noqa: F403
from .numpy_files import *  # noqa: F403
from .ops import methods as _methods
from .ops.bessel import *  # noqa: F403
from .ops.broadcast import *  # noqa: F403
from .ops.compare import *  # noqa: F403
from .ops.conversion import *  # noqa: F403
from .ops.creation import *  # noqa: F403
from .ops.differences import *  # noqa: F403
from .ops.dtype_info import *  # noqa: F403
from .ops.elementwise import *  # noqa: F403
from .ops.elementwise_numpy import *  # noqa: F403
from .ops.error_state import *  # noqa: F403
from .ops.histogram import *  # noqa: F403
from .ops.index import *  # noqa: F403
from .ops.index_grids import *  # noqa: F403
from .ops.integers import *  # noqa: F403
from .ops.interpolate import *  # noqa: F403
from .ops.join import *  # noqa: F403
from .ops.join_numpy import *  # noqa: F403
from .ops.linalg.einsum import *  # noqa: F403
from .ops.linalg.norms import *  # noqa: F403
from .ops.linalg.products import *  # noqa: F403
from .ops.masks import *  # noqa: F403
from .ops.memory_map import *  # noqa: F403
from .ops.nan_reductions import *  # noqa: F403
from .ops.padding import *  # noqa: F403
from .ops.polynomials import *  # noqa: F403
from .ops.ranges import *  # noqa: F403
from .ops.reduce import *  # noqa: F403
from .ops.scan import *  # noqa: F403
from .ops.search import *  # noqa: F403
from .ops.select import *  # noqa: F403
from .ops.sets import *  # noqa: F403
from .ops.shape import *  # noqa: F403
from .ops.sort import *  # noqa: F403
from .ops.statistics import *  # noqa: F403
from .ops.stride_tricks import *  # noqa: F403
from .ops.text_io import *  # noqa: F403
from .ops.transfer import *  # noqa: F403
from .ops.ufunc_at import *  # noqa: F403
from .ops.where import *  # noqa: F403
from .programs import *  # noqa: F403
from .ufunc_facts import *  # noqa: F403

from ml_dtypes import bfloat16, float8_e4m3fn as float8_e4m3, float8_e5m2  # isort: skip

bool = bool_
__version__ = "0.2.0"
__array_api_version__ = "2025.12"


if _TYPE_CHECKING:
    from . import (
        data,
        distributed,
        emath,
        fft,
        lib,
        math,
        ml,
        polynomial,
        sparse,
        special,
        testing,
        tree,
    )

#: Modules that nothing else needs: they are imported when they are named for the first time, as in
#: `cm.ml`. With them `import cudamath` would take a third longer.
_LATER = frozenset(
    "data distributed emath fft lib math ml polynomial sparse special testing tree".split()
)


def __getattr__(name: str) -> object:
    if name in _LATER:
        return _importlib.import_module(f".{name}", __name__)
    _refuse_function(__name__, name)


__dir__ = _public_dir(__name__, "cuda", "exceptions", "linalg", "random", *_LATER)


_methods.install(_sys.modules[__name__])
_ufunc_facts.install(_sys.modules[__name__])
_numpy_names.install(_sys.modules[__name__])
_numpy_names.install(linalg)
_einops_backend.install()
