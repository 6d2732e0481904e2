"""A draw that fails leaves its generator where it was, so that the second attempt gives the numbers
of the first: on both paths, whatever fails."""

import inspect
import threading

import numpy as np
import pytest

import cudamath as cm
from cudamath.core.dispatch.op import Op
from cudamath.cuda import OutOfMemoryError

P = [0.2, 0.3, 0.5]
CALLS = {
    "bernoulli": lambda r: r.bernoulli(0.3, 9),
    "beta": lambda r: r.beta(2.0, 3.0, 9),
    "binomial": lambda r: r.binomial(9, 0.3, 9),
    "categorical": lambda r: r.categorical(cm.zeros((4, 5), dtype="float32")),
    "cauchy": lambda r: r.cauchy(0.0, 1.0, 9),
    "chisquare": lambda r: r.chisquare(3.0, 9),
    "choice": lambda r: r.choice(9, 4),
    "dirichlet": lambda r: r.dirichlet(cm.ones(3, dtype="float32"), 4),
    "exponential": lambda r: r.exponential(1.0, 9),
    "f": lambda r: r.f(2.0, 3.0, 9),
    "gamma": lambda r: r.gamma(2.0, 1.0, 9),
    "geometric": lambda r: r.geometric(0.3, 9),
    "gumbel": lambda r: r.gumbel(0.0, 1.0, 9),
    "hypergeometric": lambda r: r.hypergeometric(5, 6, 4, 9),
    "integers": lambda r: r.integers(0, 9, 9),
    "laplace": lambda r: r.laplace(0.0, 1.0, 9),
    "logistic": lambda r: r.logistic(0.0, 1.0, 9),
    "lognormal": lambda r: r.lognormal(0.0, 1.0, 9),
    "logseries": lambda r: r.logseries(0.3, 9),
    "multinomial": lambda r: r.multinomial(9, P, 4),
    "multivariate_normal": lambda r: r.multivariate_normal([0.0, 1.0], np.eye(2), 4),
    "negative_binomial": lambda r: r.negative_binomial(3, 0.3, 9),
    "noncentral_chisquare": lambda r: r.noncentral_chisquare(3.0, 1.0, 9),
    "noncentral_f": lambda r: r.noncentral_f(2.0, 3.0, 1.0, 9),
    "normal": lambda r: r.normal(0.0, 1.0, 9),
    "pareto": lambda r: r.pareto(2.0, 9),
    "permutation": lambda r: r.permutation(9),
    "permuted": lambda r: r.permuted(cm.zeros((4, 5), dtype="float32"), axis=1),
    "poisson": lambda r: r.poisson(3.0, 9),
    "power": lambda r: r.power(2.0, 9),
    "random": lambda r: r.random(9),
    "rayleigh": lambda r: r.rayleigh(1.0, 9),
    "shuffle": lambda r: r.shuffle(cm.zeros(9, dtype="float32")),
    "standard_cauchy": lambda r: r.standard_cauchy(9),
    "standard_exponential": lambda r: r.standard_exponential(9),
    "standard_gamma": lambda r: r.standard_gamma(2.0, 9),
    "standard_normal": lambda r: r.standard_normal(9),
    "standard_t": lambda r: r.standard_t(3.0, 9),
    "student_t": lambda r: r.student_t(3.0, 0.0, 1.0, 9),
    "triangular": lambda r: r.triangular(0.0, 0.5, 1.0, 9),
    "uniform": lambda r: r.uniform(0.0, 1.0, 9),
    "vonmises": lambda r: r.vonmises(0.0, 1.0, 9),
    "wald": lambda r: r.wald(1.0, 1.0, 9),
    "weibull": lambda r: r.weibull(2.0, 9),
    "zipf": lambda r: r.zipf(2.0, 9),
}
OTHERS = {
    "dropout": lambda r: cm.ml.dropout(cm.ones(9, dtype="float32"), 0.5, rng=r),
    "attention": lambda r: cm.ml.scaled_dot_product_attention(
        *[cm.ones((1, 1, 4, 8), dtype="float32")] * 3, dropout=0.5, rng=r
    ),
    "trunc_normal": lambda r: cm.ml.init.trunc_normal((9,), rng=r),
    "orthogonal": lambda r: cm.ml.init.orthogonal((3, 3), rng=r),
    "kaiming_normal": lambda r: cm.ml.init.kaiming_normal((3, 3), rng=r),
}
EVERY = pytest.mark.parametrize("name", [*CALLS, *OTHERS])


def test_every_method_is_here():
    methods = {
        name
        for name, _ in inspect.getmembers(cm.random.Generator, inspect.isfunction)
        if not name.startswith("_")
    }
    assert methods == set(CALLS) | {"spawn", "take", "take_next", "return_to"}


@EVERY
def test_on_the_cpu(name, monkeypatch):
    """Each op of the call in turn has no memory."""
    call, rng = (CALLS | OTHERS)[name], cm.random.default_rng(5)
    run, failures = Op.__call__, 0
    with cm.device("cpu"):
        for k in range(40):
            numbers = iter(range(1000))

            def failing(self, *args, numbers=numbers, k=k, **kwargs):
                if next(numbers) == k:
                    raise MemoryError
                return run(self, *args, **kwargs)

            cm.core.dispatch.fast_path.forget()
            monkeypatch.setattr(Op, "__call__", failing)
            before = rng.state
            try:
                call(rng)
            except MemoryError:
                failures += 1
                assert rng.state == before
            else:
                assert rng.state["offset"] > before["offset"]
                break
    assert failures > 0


#: Calls that read values of a GPU, or want cuSOLVER.
NOT_ON_THE_FAKE = "multinomial", "hypergeometric", "multivariate_normal", "orthogonal", "vonmises"


@pytest.mark.parametrize("function", ["cuMemAllocAsync", "cuLaunchKernel"])
def test_on_a_gpu(fake, function):
    """The first call, and the second, which is replayed."""
    fake.idle, rng = True, cm.random.default_rng(5)
    with cm.device("cuda"):
        for name, call in (CALLS | OTHERS).items():
            for _ in range(0 if name in NOT_ON_THE_FAKE else 2):
                cm.cuda.empty_cache()
                before = rng.state
                with (
                    pytest.raises((OutOfMemoryError, cm.cuda.CudaError)),
                    _failing(fake, function),
                ):
                    call(rng)
                assert rng.state == before, name
                call(rng)
                assert rng.state["offset"] > before["offset"], name


class _failing:
    """A context in which a driver function always fails."""

    def __init__(self, fake, function):
        self.fake, self.function = fake, function

    def __enter__(self):
        kind = self.fake.CUresult
        status = {
            "cuMemAllocAsync": kind.CUDA_ERROR_OUT_OF_MEMORY,
            "cuLaunchKernel": kind.CUDA_ERROR_INVALID_VALUE,
        }[self.function]
        self.fake.fail = _Lasting({self.function: status})

    def __exit__(self, *_):
        self.fake.fail = {}


class _Lasting(dict):
    """A dict from which nothing is taken out."""

    def pop(self, key):
        return self[key]


def test_draws_of_other_threads_stay(monkeypatch):
    """What another thread has taken meanwhile is not given out again."""
    rng, run = cm.random.default_rng(5), Op.__call__

    def failing(self, *args, **kwargs):
        monkeypatch.setattr(Op, "__call__", run)
        thread = threading.Thread(target=draw)
        thread.start()
        thread.join()
        raise MemoryError

    def draw():
        with cm.device("cpu"):
            drawn.append(rng.random(3).tolist())

    drawn = []
    with cm.device("cpu"):
        monkeypatch.setattr(Op, "__call__", failing)
        with pytest.raises(MemoryError):
            rng.random(7)
        drawn.append(rng.random(3).tolist())
    assert drawn[0] != drawn[1]


def test_an_error_of_a_replay_draws_once(monkeypatch):
    """The function runs again to raise the error in its own words; the offset moves no further."""
    rng, state = cm.random.default_rng(5), None
    with cm.device("cpu"):
        for _ in range(3):
            rng.normal(0.0, 1.0, 4)
        state = rng.state
        with pytest.raises(TypeError):
            rng.normal(0.0, "much", 4)
    assert rng.state == state
