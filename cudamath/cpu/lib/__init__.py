"""What CPU functions are built on: loops and vectors in LLVM, Numba functions without dispatch."""
