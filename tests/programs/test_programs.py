"""Programs as they stand in tutorials and textbooks mean the same here as with NumPy.

Each program is a module whose `main(np)` takes the array module. Its results are compared:

- with this package and NumPy's random numbers: they are equal to rounding;
- with its own random numbers: what does not depend on them is equal, and the rest, named in the
  program's STATISTICS, within the tolerance given there;
- on the CPU with the methods in machine code, to which a long program is switched while it runs.
"""

import functools
import importlib
import pathlib

import numpy as np
import pytest

import cudamath as cm
from cudamath.ops import methods

NAMES = sorted(
    p.stem
    for p in pathlib.Path(__file__).parent.glob("*.py")
    if not p.stem.startswith(("test_", "__"))
)


def program(name):
    return importlib.import_module(f"tests.programs.{name}")


@functools.cache
def expected(name):
    return program(name).main(np)


class NumPysGenerator:
    """NumPy's generator, whose arrays are this package's."""

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def __getattr__(self, name):
        draw = getattr(self.generator, name)

        def drawn(*args, **kwargs):
            args = [np.asarray(a) if isinstance(a, cm.ndarray) else a for a in args]
            result = draw(*args, **kwargs)
            return cm.asarray(result) if isinstance(result, np.ndarray) else result

        return drawn


class NumPysRandom:
    default_rng = NumPysGenerator


class WithNumPysRandom:
    """This package with NumPy's random numbers."""

    random = NumPysRandom

    def __getattr__(self, name):
        return getattr(cm, name)


def compare(name, results, statistics):
    module, wanted = program(name), expected(name)
    absolute = getattr(module, "ABSOLUTE", {})
    assert set(results) == set(wanted)
    for key, value in wanted.items():
        got, want = np.asarray(results[key]), np.asarray(value)
        if key in statistics:
            assert got.shape == want.shape, key
            assert np.all(np.abs(got - want) <= statistics[key]), (key, got, want)
            continue
        assert got.shape == want.shape and got.dtype == want.dtype, (key, got.dtype, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=absolute.get(key, 1e-10), err_msg=key)


def test_there_are_twenty():
    assert len(NAMES) == 20


@pytest.mark.parametrize("name", NAMES)
def test_equal_results_with_numpys_random_numbers(device, name):
    compare(name, program(name).main(WithNumPysRandom()), {})


DRAWING = [name for name in NAMES if hasattr(program(name), "STATISTICS")]


@pytest.mark.parametrize("name", DRAWING)
def test_equal_statistics_with_own_random_numbers(device, name):
    compare(name, program(name).main(cm), program(name).STATISTICS)


@pytest.mark.parametrize("name", NAMES)
def test_equal_results_in_machine_code(name):
    methods.compile_methods()
    with cm.device("cpu"):
        compare(name, program(name).main(WithNumPysRandom()), {})
