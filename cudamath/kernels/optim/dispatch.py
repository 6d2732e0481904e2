"""Optimizer steps and the norm of all gradients: the versions, and the choice among them.

Tables: STEP (steps.py), FACTOR and CLIP (gradient_norm.py). `many` takes all arrays at once and is
always preferred. `one`, a launch per array, is for the simulator and for tests.
"""

from __future__ import annotations

from ...core.dispatch.plan import Plan
from ...core.layout import Layout
from ...core.specs.optimizer import PLAIN, Form
from ..lib.versions import Version, choose, never
from .problem import Clip, Factor, Step
from .rules import adam_rule, lion_rule, momentum_rule, nesterov_rule, rmsprop_rule, sgd_rule

STEP = (
    Version("many", "optim.steps.plan_many", reason="one launch for all arrays of a dtype"),
    Version("one", "optim.steps.plan_one", prefers=never),
)
FACTOR = (
    Version(
        "many", "optim.gradient_norm.plan_factor", reason="one launch for all arrays of a dtype"
    ),
    Version("one", "optim.gradient_norm.plan_factor_one", prefers=never),
)
CLIP = (
    Version("many", "optim.gradient_norm.plan_clip", reason="one launch for all arrays of a dtype"),
    Version("one", "optim.gradient_norm.plan_clip_one", prefers=never),
)


def sgd(*layouts: Layout, version: str | None = None, form: Form = PLAIN) -> Plan:
    """Planner: parameters, gradients. Scalars: lr, weight_decay, 0 ..."""
    return choose("sgd", STEP, Step(sgd_rule, 0, layouts, form), version)


def momentum(
    *layouts: Layout, nesterov: bool, version: str | None = None, form: Form = PLAIN
) -> Plan:
    """Planner: parameters, gradients, velocities. Scalars: lr, weight_decay, momentum, 0 ..."""
    rule = nesterov_rule if nesterov else momentum_rule
    return choose("momentum", STEP, Step(rule, 1, layouts, form), version)


def adam(*layouts: Layout, version: str | None = None, form: Form = PLAIN) -> Plan:
    """Planner: parameters, gradients, first and second moments. Scalars: the eight of the rule."""
    return choose("adam", STEP, Step(adam_rule, 2, layouts, form, "adam"), version)


def rmsprop(*layouts: Layout, version: str | None = None, form: Form = PLAIN) -> Plan:
    """Planner: parameters, gradients, mean squares. Scalars: lr, weight_decay, alpha, rest, eps, 0
    ..."""
    return choose("rmsprop", STEP, Step(rmsprop_rule, 1, layouts, form), version)


def lion(*layouts: Layout, version: str | None = None, form: Form = PLAIN) -> Plan:
    """Planner: parameters, gradients, moments. Scalars: lr, keep (with extra arrays: weight decay),
    beta1, rest1, beta2, rest2, 0 0"""
    return choose("lion", STEP, Step(lion_rule, 1, layouts, form, "lion"), version)


def factor(
    *layouts: Layout, scaling: bool = False, strict: bool = False, version: str | None = None
) -> Plan:
    """Planner: gradients (contiguous) -> norm and factor, both (). Scalar 0: the largest norm.

    scaling: scale, good and skipped come after them, and are changed in place; scalars 1 to 3:
    growth, backoff, interval. strict: a norm that is not finite raises the error flag.
    """
    problem = Factor(layouts[: len(layouts) - 3 * scaling], scaling, strict)
    return choose("clip_factor", FACTOR, problem, version)


def clip(*layouts: Layout, version: str | None = None) -> Plan:
    """Planner: gradients (contiguous) -> the norm (), and one array (length,) for each dtype, see
    `gradient_norm.places`. Scalar: the largest norm."""
    return choose("clip_grad_norm", CLIP, Clip(layouts), version)
