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

    mpiexec -n 4 python -m mpi4py program.py             # so: an exception in one process ends all
        of them

Without mpiexec the same program is a process of its own, to which nobody has anything to send. In
one process, `value_and_grad(loss, devices=["cuda:0", "cuda:1"])` divides the batch among GPUs and
copies between them directly.

Whatever is added up is added in the order of the ranks (or devices), 16-bit numbers in float32:
every process has the same bits, and gets them again in the next run. Between processes arrays
travel through host memory, by MPI.
"""

from ..core.public_names import public_dir as _public_dir
from .collectives import *  # noqa: F403
from .owners import *  # noqa: F403
from .parallel import *  # noqa: F403

__dir__ = _public_dir(__name__)
