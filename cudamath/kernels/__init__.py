"""What the GPU executes: plain @cuda.jit kernels, and the planners that say how to launch them on
given layouts."""

from .compiler import compile as _compile  # tells the runtime of the compiler
