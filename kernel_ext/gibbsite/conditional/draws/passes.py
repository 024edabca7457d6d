"""Loops that end by chance → how many passes they are expected to take, told where each loop stands.

A program does not say how often a `while` loop runs. Whoever writes the loop knows: a sampler by rejection
accepts with a known probability, what mends a bad precision runs seldom. What is told here changes nothing
but the name of the loop's place in the program; those who count a program's work read it there.
"""

import re
from collections.abc import Callable
from typing import Any

import jax

from gibbsite.programs.jaxpr.compat import JaxprEqn, scope_of

_TOLD = re.compile(r"passes_(\d+)_hundredths")


def looped(passes: float, going: Callable[[Any], Any], body: Callable[[Any], Any], start: Any) -> Any:
    """`lax.while_loop(going, body, start)`, which is expected to take so many `passes`, to a hundredth."""
    with jax.named_scope(f"passes_{round(100 * passes)}_hundredths"):
        return jax.lax.while_loop(going, body, start)


def passes_of(eqn: JaxprEqn) -> float | None:
    """The passes that a `while` equation is expected to take; None where nobody told."""
    told = _TOLD.findall(scope_of(eqn))
    return int(told[-1]) / 100 if told else None


def rounds(accepted: float, elements: int) -> float:
    """Expected rounds until each of `elements` was accepted, each with probability `accepted` a round: the
    mean of the greatest of as many geometric variates, the sum over k of P(some are left after k)."""
    total, left = 0.0, 1.0
    while elements and (still := -((1 - left) ** elements - 1)) > 1e-3:
        total, left = total + still, left * (1 - accepted)
    return total
