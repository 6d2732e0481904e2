"""The CUDA layer: devices, streams, memory, kernels and libraries, on raw pointers and bytes. It
contains no arrays and no ops.

The modules form layers. A module imports only from lower layers, anywhere in its text, so there are
no import cycles (tests/meta/test_imports.py). Where a lower module needs an upper one, the upper
one registers a function there: `errors.on_lost_context`, `stream.pool_of`,
`stream.after_synchronize`, `stream.without_gpu`.

    1  fork, interrupts, state, files, library_paths, mpi
    2  errors, cubin_cache, kernel_packs, compile_notice
    3  background_init
    4  device
    5  stream, roofline
    6  memory, library_handles, host_stream
    7  kernel_errors, tensormap, kernel_launch
    8  graph, profiler, cublas, cudnn, cufft
    9  cusolver, rehearsal
"""
