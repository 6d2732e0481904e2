"""What kernels compiled to, as tests keep it (tests/support/compiled_facts.py)."""

from __future__ import annotations

import compiled_facts
import numpy as np
import pytest
from compiled_facts import Facts, facts_of

from cudamath.core.dispatch.plan import Plan
from cudamath.core.layout import Layout
from cudamath.kernels.compiler import compile as compiler_compile
from cudamath.kernels.compiler import lazy_numba
from cudamath.kernels.compiler.storage_types import arguments_type
from cudamath.kernels.elementwise.dispatch import elementwise
from cudamath.testing import Resources
from cudamath.testing import compile_plan as compile_plan_anew

pytestmark = pytest.mark.skipif(lazy_numba.SIMULATOR, reason="the simulator does not compile")
HERE, THERE = (9, 0), (8, 0)


def planned(expression: str, dtype: str = "f4") -> tuple[Plan, list[Layout]]:
    x = Layout.new((64,), np.dtype(dtype), 0)
    made = elementwise(x, x, expression=expression, compute=x.dtype, output=x.dtype)
    return made, [x, x]


def kernel_of(expression: str, dtype: str = "f4") -> tuple:
    plan, inputs = planned(expression, dtype)
    return plan.steps[0].kernel, arguments_type(plan.signature(plan.steps[0], inputs))


@pytest.fixture
def kept(monkeypatch):
    """What is kept, empty at first; no kernel belongs to the sample."""
    found: dict[str, Facts] = {}
    monkeypatch.setattr(compiled_facts, "_kept", lambda: found)
    monkeypatch.setattr(compiled_facts, "SAMPLE", 1 << 65)
    return found


@pytest.fixture
def compiled(monkeypatch):
    """The kernels that the compilers get."""
    seen = []
    real = compiler_compile.to_llvm
    monkeypatch.setattr(
        compiler_compile,
        "to_llvm",
        lambda kernel, *rest: seen.append(kernel) or real(kernel, *rest),
    )
    return seen


def keep(kept, monkeypatch, tmp_path, kernel, capabilities):
    """Compile a kernel and keep what a recording writes down."""
    file = tmp_path / "facts"
    monkeypatch.setenv(compiled_facts.RECORD, str(file))
    found = facts_of(*kernel, capabilities)
    monkeypatch.delenv(compiled_facts.RECORD)
    for line in file.read_text().splitlines():
        key, *numbers = line.split()
        kept[key] = Facts(*map(int, numbers))
    return found


def test_what_is_kept_is_not_compiled_again(kept, compiled, monkeypatch, tmp_path):
    kernel = kernel_of("x * y + 3")
    found = keep(kept, monkeypatch, tmp_path, kernel, [HERE, THERE])
    assert len(kept) == 2 and len(compiled) == 1
    assert facts_of(*kernel, [HERE, THERE]) == found and len(compiled) == 1


@pytest.mark.parametrize("other", [("x * y + 4",), ("x * y + 3", "f8")])
def test_what_has_changed_is_compiled(other, kept, compiled, monkeypatch, tmp_path):
    keep(kept, monkeypatch, tmp_path, kernel_of("x * y + 3"), [HERE])
    facts_of(*kernel_of(*other), [HERE])
    assert len(compiled) == 2


def test_other_architectures_and_compilers_are_other_facts(kept, compiled, monkeypatch, tmp_path):
    kernel = kernel_of("x * y + 3")
    keep(kept, monkeypatch, tmp_path, kernel, [HERE])
    facts_of(*kernel, [THERE])
    monkeypatch.setattr(compiled_facts.cache_key, "_toolchain", lambda: "numba=0.1")
    facts_of(*kernel, [HERE])
    assert len(compiled) == 3


def test_a_sample_is_compiled_and_compared(kept, monkeypatch, tmp_path):
    kernel = kernel_of("x * y + 3")
    keep(kept, monkeypatch, tmp_path, kernel, [HERE])
    monkeypatch.setattr(compiled_facts, "SAMPLE", 1)
    facts_of(*kernel, [HERE])
    (key,) = kept
    kept[key] = kept[key]._replace(spills=8)
    with pytest.raises(compiled_facts.NotAsKept, match=r"spills=8.* compilers Facts\(.*spills=0"):
        facts_of(*kernel, [HERE])


def test_they_are_what_the_package_says():
    plan, inputs = planned("x * y + 3")
    found = compiled_facts.compile_plan(plan, inputs, HERE)
    assert found == compile_plan_anew(plan, inputs, HERE)
    assert type(found[0]) is Resources and found[0].registers > 0
