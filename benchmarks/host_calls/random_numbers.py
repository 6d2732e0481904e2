"""Random numbers."""

from __future__ import annotations

import cudamath as cm

from .arguments import Pair, same

CALLS: dict[str, Pair] = {
    "random((64, 64))": (lambda lib, x: lib.random.random((64, 64), dtype="float32"),
                         lambda lib, x: lib.rand((64, 64), device=x.a.device)),
    "standard_normal((64, 64))": (lambda lib, x: lib.random.standard_normal((64, 64), dtype="float32"),
                                  lambda lib, x: lib.randn((64, 64), device=x.a.device)),
    "uniform(0, 1, (64, 64))": (lambda lib, x: lib.random.uniform(0.0, 1.0, (64, 64), dtype="float32"),
                                lambda lib, x: lib.empty((64, 64), device=x.a.device).uniform_(0.0, 1.0)),
    "normal(1, 2, (64, 64))": (lambda lib, x: lib.random.normal(1.0, 2.0, (64, 64), dtype="float32"),
                               lambda lib, x: lib.normal(1.0, 2.0, (64, 64), device=x.a.device)),
    "exponential(2, (64, 64))": (lambda lib, x: lib.random.exponential(2.0, (64, 64), dtype="float32"),
                                 lambda lib, x: lib.empty((64, 64), device=x.a.device).exponential_(0.5)),
    "lognormal(0, 1, (64, 64))": (lambda lib, x: lib.random.lognormal(0.0, 1.0, (64, 64), dtype="float32"),
                                  lambda lib, x: lib.empty((64, 64), device=x.a.device).log_normal_(0.0, 1.0)),
    "poisson(a)": same(lambda lib, x: (lib.random if lib is cm else lib).poisson(x.a)),
    "bernoulli(0.3, (64, 64))": (lambda lib, x: lib.random.bernoulli(0.3, (64, 64)),
                                 lambda lib, x: lib.empty((64, 64), device=x.a.device).bernoulli_(0.3)),
    "integers(0, 10, (64, 64))": (lambda lib, x: lib.random.integers(0, 10, (64, 64)),
                                  lambda lib, x: lib.randint(0, 10, (64, 64), device=x.a.device)),
    "permutation(64)": (lambda lib, x: lib.random.permutation(64), lambda lib, x: lib.randperm(64, device=x.a.device)),
    "standard_exponential((64, 64))": (lambda lib, x: lib.random.standard_exponential((64, 64), dtype="float32"),
                                       lambda lib, x: lib.empty((64, 64), device=x.a.device).exponential_()),
    "cauchy((64, 64))": (lambda lib, x: lib.random.standard_cauchy((64, 64), dtype="float32"),
                         lambda lib, x: lib.empty((64, 64), device=x.a.device).cauchy_()),
    "geometric(0.3, (64, 64))": (lambda lib, x: lib.random.geometric(0.3, (64, 64)),
                                 lambda lib, x: lib.empty((64, 64), device=x.a.device).geometric_(0.3)),
    "choice(64, (32,))": (lambda lib, x: lib.random.choice(64, (32,)),
                          lambda lib, x: lib.randint(0, 64, (32,), device=x.a.device)),
    "binomial(10, 0.3, (64, 64))": (
        lambda lib, x: lib.random.binomial(10, 0.3, (64, 64)),
        lambda lib, x: lib.binomial(lib.full((64, 64), 10.0, device=x.a.device), lib.full((64, 64), 0.3, device=x.a.device))),
    "poisson(3.0, (64, 64))": (lambda lib, x: lib.random.poisson(3.0, (64, 64)),
                               lambda lib, x: lib.poisson(lib.full((64, 64), 3.0, device=x.a.device))),
    "standard_gamma(a)": (lambda lib, x: lib.random.standard_gamma(x.a), lambda lib, x: lib._standard_gamma(x.a)),
}
