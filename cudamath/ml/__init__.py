"""Machine-learning operations, functional as in torch.nn.functional: forward and gradient, on CPU
and GPU.

Functions have PyTorch's names; some keywords differ: `x` for `input`, `axis` for `dim`, `targets`
for `target`, and in attention `mask`, `causal` and `dropout` for `attn_mask`, `is_causal` and
`dropout_p`.
"""

from ..core.other_names import refuse_layer as _refuse_layer
from ..core.public_names import public_dir as _public_dir
from . import amp, init, schedules
from .activation import *  # noqa: F403
from .attention import *  # noqa: F403
from .conv import *  # noqa: F403
from .conv_transpose import *  # noqa: F403
from .dropout import *  # noqa: F403
from .embedding import *  # noqa: F403
from .gradient_clipping import *  # noqa: F403
from .grouped_matmul import *  # noqa: F403
from .linear import *  # noqa: F403
from .linear_loss import *  # noqa: F403
from .loss import *  # noqa: F403
from .loss_elementwise import *  # noqa: F403
from .mlp import *  # noqa: F403
from .norm import *  # noqa: F403
from .optim import *  # noqa: F403
from .pool import *  # noqa: F403
from .pool_nd import *  # noqa: F403
from .quantize import *  # noqa: F403
from .recurrent import *  # noqa: F403
from .resize import *  # noqa: F403
from .rotary import *  # noqa: F403
from .self_attention import *  # noqa: F403
from .softmax import *  # noqa: F403

__dir__ = _public_dir(__name__, "amp", "init", "schedules")


def __getattr__(name: str) -> object:
    _refuse_layer(__name__, name, __dir__())
