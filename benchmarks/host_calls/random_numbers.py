"""Random numbers."""

from __future__ import annotations

import cudamath as cm

from .arguments import Pair, same


def initial(name: str) -> Pair:
    """Weights (64, 64) from one of the `init` functions."""
    return (
        (lambda lib, x: getattr(lib.ml.init, name)((64, 64))),
        (lambda lib, x: getattr(lib.nn.init, f"{name}_")(lib.empty((64, 64), device=x.a.device))),
    )


CALLS: dict[str, Pair] = {
    "random((64, 64))": (
        lambda lib, x: lib.random.random((64, 64), dtype="float32"),
        lambda lib, x: lib.rand((64, 64), device=x.a.device),
    ),
    "standard_normal((64, 64))": (
        lambda lib, x: lib.random.standard_normal((64, 64), dtype="float32"),
        lambda lib, x: lib.randn((64, 64), device=x.a.device),
    ),
    "uniform(0, 1, (64, 64))": (
        lambda lib, x: lib.random.uniform(0.0, 1.0, (64, 64), dtype="float32"),
        lambda lib, x: lib.empty((64, 64), device=x.a.device).uniform_(0.0, 1.0),
    ),
    "normal(1, 2, (64, 64))": (
        lambda lib, x: lib.random.normal(1.0, 2.0, (64, 64), dtype="float32"),
        lambda lib, x: lib.normal(1.0, 2.0, (64, 64), device=x.a.device),
    ),
    "exponential(2, (64, 64))": (
        lambda lib, x: lib.random.exponential(2.0, (64, 64), dtype="float32"),
        lambda lib, x: lib.empty((64, 64), device=x.a.device).exponential_(0.5),
    ),
    "lognormal(0, 1, (64, 64))": (
        lambda lib, x: lib.random.lognormal(0.0, 1.0, (64, 64), dtype="float32"),
        lambda lib, x: lib.empty((64, 64), device=x.a.device).log_normal_(0.0, 1.0),
    ),
    "poisson(a)": same(lambda lib, x: (lib.random if lib is cm else lib).poisson(x.a)),
    "bernoulli(0.3, (64, 64))": (
        lambda lib, x: lib.random.bernoulli(0.3, (64, 64)),
        lambda lib, x: lib.empty((64, 64), device=x.a.device).bernoulli_(0.3),
    ),
    "integers(0, 10, (64, 64))": (
        lambda lib, x: lib.random.integers(0, 10, (64, 64)),
        lambda lib, x: lib.randint(0, 10, (64, 64), device=x.a.device),
    ),
    "permutation(64)": (
        lambda lib, x: lib.random.permutation(64),
        lambda lib, x: lib.randperm(64, device=x.a.device),
    ),
    "standard_exponential((64, 64))": (
        lambda lib, x: lib.random.standard_exponential((64, 64), dtype="float32"),
        lambda lib, x: lib.empty((64, 64), device=x.a.device).exponential_(),
    ),
    "cauchy((64, 64))": (
        lambda lib, x: lib.random.standard_cauchy((64, 64), dtype="float32"),
        lambda lib, x: lib.empty((64, 64), device=x.a.device).cauchy_(),
    ),
    "geometric(0.3, (64, 64))": (
        lambda lib, x: lib.random.geometric(0.3, (64, 64)),
        lambda lib, x: lib.empty((64, 64), device=x.a.device).geometric_(0.3),
    ),
    "choice(64, (32,))": (
        lambda lib, x: lib.random.choice(64, (32,)),
        lambda lib, x: lib.randint(0, 64, (32,), device=x.a.device),
    ),
    "binomial(10, 0.3, (64, 64))": (
        lambda lib, x: lib.random.binomial(10, 0.3, (64, 64)),
        lambda lib, x: lib.binomial(
            lib.full((64, 64), 10.0, device=x.a.device), lib.full((64, 64), 0.3, device=x.a.device)
        ),
    ),
    "poisson(3.0, (64, 64))": (
        lambda lib, x: lib.random.poisson(3.0, (64, 64)),
        lambda lib, x: lib.poisson(lib.full((64, 64), 3.0, device=x.a.device)),
    ),
    "standard_gamma(a)": (
        lambda lib, x: lib.random.standard_gamma(x.a),
        lambda lib, x: lib._standard_gamma(x.a),
    ),
}

CALLS |= {
    "rand(64, 64)": (
        lambda lib, x: lib.random.rand(64, 64, dtype="float32"),
        lambda lib, x: lib.rand(64, 64, device=x.a.device),
    ),
    "randn(64, 64)": (
        lambda lib, x: lib.random.randn(64, 64, dtype="float32"),
        lambda lib, x: lib.randn(64, 64, device=x.a.device),
    ),
    "randint(0, 10, (64,))": (
        lambda lib, x: lib.random.randint(0, 10, (64,)),
        lambda lib, x: lib.randint(0, 10, (64,), device=x.a.device),
    ),
    "integers(0, 10, (64,), int32)": (
        lambda lib, x: lib.random.integers(0, 10, (64,), dtype="int32"),
        lambda lib, x: lib.randint(0, 10, (64,), dtype=lib.int32, device=x.a.device),
    ),
    "random((64, 64), float64)": (
        lambda lib, x: lib.random.random((64, 64), dtype="float64"),
        lambda lib, x: lib.rand((64, 64), dtype=lib.float64, device=x.a.device),
    ),
    "standard_normal((64, 64), float16)": (
        lambda lib, x: lib.random.standard_normal((64, 64), dtype="float16"),
        lambda lib, x: lib.randn((64, 64), dtype=lib.float16, device=x.a.device),
    ),
    "random()": (
        lambda lib, x: lib.random.random(),
        lambda lib, x: lib.rand((), device=x.a.device),
    ),
    "standard_normal(64)": (
        lambda lib, x: lib.random.standard_normal(64),
        lambda lib, x: lib.randn(64, device=x.a.device),
    ),
    "normal(a, chances)": (
        lambda lib, x: lib.random.normal(x.a, x.chances),
        lambda lib, x: lib.normal(x.a, x.chances),
    ),
    "bernoulli(chances)": (
        lambda lib, x: lib.random.bernoulli(x.chances),
        lambda lib, x: lib.bernoulli(x.chances),
    ),
    "gumbel(0, 1, (64, 64))": (
        lambda lib, x: lib.random.gumbel(0.0, 1.0, (64, 64), dtype="float32"),
        lambda lib, x: -lib.log(lib.empty((64, 64), device=x.a.device).exponential_()),
    ),
    "categorical(a)": (
        lambda lib, x: lib.random.categorical(x.chances),
        lambda lib, x: lib.multinomial(lib.softmax(x.chances, -1), 1),
    ),
    "choice(64, 32, p)": (
        lambda lib, x: lib.random.choice(64, (32,), p=x.v / x.v.sum()),
        lambda lib, x: lib.multinomial(x.v / x.v.sum(), 32, replacement=True),
    ),
    "choice(v, 32)": (
        lambda lib, x: lib.random.choice(x.v, (32,)),
        lambda lib, x: x.v[lib.randint(0, 64, (32,), device=x.a.device)],
    ),
    "choice(64, 32, without replacement)": (
        lambda lib, x: lib.random.choice(64, (32,), replace=False),
        lambda lib, x: lib.randperm(64, device=x.a.device)[:32],
    ),
    "permutation(v)": (
        lambda lib, x: lib.random.permutation(x.v),
        lambda lib, x: x.v[lib.randperm(64, device=x.a.device)],
    ),
    "permutation(a)": (
        lambda lib, x: lib.random.permutation(x.a),
        lambda lib, x: x.a[lib.randperm(64, device=x.a.device)],
    ),
    "shuffle(c), random order": (
        lambda lib, x: lib.random.shuffle(x.c),
        lambda lib, x: x.c.copy_(x.c[lib.randperm(64, device=x.a.device)]),
    ),
    "random, seed": (lambda lib, x: lib.random.seed(0), lambda lib, x: lib.manual_seed(0)),
    "gamma(2.0, 1.0, (64, 64))": (
        lambda lib, x: lib.random.gamma(2.0, 1.0, (64, 64), dtype="float32"),
        lambda lib, x: lib._standard_gamma(lib.full((64, 64), 2.0, device=x.a.device)),
    ),
    "laplace(0, 1, (64, 64))": (
        lambda lib, x: lib.random.laplace(0.0, 1.0, (64, 64), dtype="float32"),
        lambda lib, x: lib.distributions.Laplace(x.a, 1.0).sample(),
    ),
}
CALLS |= {
    f"init.{name}((64, 64)), random numbers": initial(name)
    for name in ("kaiming_uniform", "xavier_normal", "trunc_normal", "normal", "uniform")
}
