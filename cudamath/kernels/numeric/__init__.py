"""Fourier transforms, convolution of signals, finite differences, frexp."""
