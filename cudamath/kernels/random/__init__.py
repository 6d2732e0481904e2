"""Random arrays. Each operation has one planner, and the planner one family of kernels:

    distributions       uniform, normal, tail, geometric, integers, bernoulli: one store per thread
                        and run of elements; permutation, choice, thresholds
    bernoulli_array     chances by element
    dropout             a mask and its scale, with the values
    rejection_samplers  gamma, beta, poisson, binomial, bounded: each thread draws until it accepts
    truncated_normal    the elementwise kernels, with an inverse distribution function
    reproducible_math   the functions of all of them, the same bits on CPU and GPU

Planners with a parameter `version` take "vectors"; "each", one thread per element, is for the
simulator and for comparison.
"""
