"""What processes tell each other. One file each: how they meet (`environment`, `rendezvous`), what
carries bytes in host memory (`tcp` between processes, `threads` within one; `world` has what both
share), and NCCL between GPUs (`nccl`)."""
