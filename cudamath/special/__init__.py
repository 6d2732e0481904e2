"""Special functions, with SciPy's names and conventions: `scipy.special` on CPU and GPU, with
gradients.

Each function of numbers is a scalar function of core/specs/special, which is readable Python; the
GPU's kernel and the CPU's loop are made of it. They compute in float64.
"""

from ..core.public_names import public_dir as _public_dir
from ..ops.elementwise import exp2, expm1, log1p
from ..ops.elementwise import rint as round
from ..ops.elementwise_numpy import cbrt, sinc
from .angles import *  # noqa: F403
from .bessel_functions import *  # noqa: F403
from .distributions import *  # noqa: F403
from .entropies import *  # noqa: F403
from .error_functions import *  # noqa: F403
from .factorials import *  # noqa: F403
from .gamma_functions import *  # noqa: F403
from .incomplete_functions import *  # noqa: F403
from .integrals import *  # noqa: F403
from .log_sums import *  # noqa: F403
from .wave_integrals import *  # noqa: F403

__dir__ = _public_dir(__name__)
