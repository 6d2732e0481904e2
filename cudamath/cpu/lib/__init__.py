"""Compilers of CPU functions: loops and vectors in LLVM, Numba functions without dispatch."""
