"""Transforms, convolutions and differences. Each operation has one planner:

fft                 c2c, r2c, c2r: cuFFT's plans, and the kernels that scale, mirror and copy
convolve            one-dimensional convolution, in shared memory
finite_differences  gradients of lines
frexp               mantissas and exponents
"""
