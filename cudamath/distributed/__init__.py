"""`cudamath.distributed`: one program on several GPUs of a process, or in several processes, on one
machine or many.

    import cudamath as cm
    from cudamath import distributed

    distributed.use_own_device()                         # rank 1 of a machine takes its second GPU
    step = distributed.value_and_grad(loss)              # of this process's share, averaged over
        all processes
    for x, y in loader:                                  # the same batches everywhere
        value, grads = step(params, *distributed.share((x, y)))
        cm.ml.adam_update(params, grads, state, lr=1e-3)
    if distributed.rank() == 0:
        cm.save("params.safetensors", params)            # all have the same

    python -m cudamath launch -n 4 program.py            # or torchrun, mpiexec, srun

Without a launcher the same program is a process of its own, to which nobody has anything to send.
In one process, `value_and_grad(loss, devices=["cuda:0", "cuda:1"])` divides the batch among GPUs
and copies between them directly.

members.py: who computes together. collectives.py: what they tell each other; between GPUs by NCCL,
else by TCP. When one fails, all others raise an error that names it. docs/guide/several-gpus.md
tells the rest.
"""

from ..core.public_names import public_dir as _public_dir
from .array import *  # noqa: F403
from .checkpoints import *  # noqa: F403
from .collectives import *  # noqa: F403
from .lazy import *  # noqa: F403
from .members import *  # noqa: F403
from .owners import *  # noqa: F403
from .parallel import *  # noqa: F403
from .sharding import *  # noqa: F403
from .tensor_parallel import *  # noqa: F403

__dir__ = _public_dir(__name__)
