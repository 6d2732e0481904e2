"""The CUDA layer: devices, streams, memory, kernels and libraries, on raw pointers and bytes. It
contains no arrays and no ops.

The modules form layers. A module imports only from lower layers, anywhere in its text, so there are
no import cycles (tests/meta/test_imports.py). Where a lower module needs an upper one, the upper
one registers a function there: `errors.on_lost_context`, `stream.pool_of`,
`stream.after_synchronize`, `stream.without_gpu`.

    1  fork, host, interrupts, communication, communication.rendezvous
    2  state, files, library_paths
    3  errors, cubin_cache, kernel_packs, dry
    4  background_init, communication.mailbox
    5  device, communication.world
    6  stream, roofline, communication.tcp, communication.groups
    7  memory, library_handles, host_stream, communication.environment, communication.threads
    8  kernel_errors, tensormap, kernel_launch
    9  graph, profiler, cublas, cudnn, cufft, cusparse, communication.nccl
   10  cusolver, cudnn_recurrent
   11  rehearsal
"""
