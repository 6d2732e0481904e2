"""The CUDA layer: devices, streams, memory, kernels and libraries, on raw pointers and bytes. Knows
no arrays and no ops.

The modules stand on floors. A module imports only from the floors below its own, anywhere in its
text, so no circle of imports can arise (tests/test_imports.py). Where a lower module needs an upper
one, the upper one registers a function there: `errors.on_lost_context`, `stream.pool_of`,
`stream.after_synchronize`.

    1  state, libraries, comm
    2  errors, meanwhile
    3  device
    4  stream, work
    5  memory, handles
    6  flags, tensormap, module
    7  graph, profile, blas, dnn, fft
    8  solver
"""
