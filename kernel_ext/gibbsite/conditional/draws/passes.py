"""Loops that end by chance → how many passes they are expected to take, told where each loop stands.

A program does not say how often a `while` loop runs. Whoever writes the loop knows: a sampler by rejection
accepts with a known probability, what mends a bad precision runs seldom. What is told here changes nothing
but the name of the loop's place in the program; those who count a program's work read it there.
"""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gibbsite.programs.jaxpr.compat import JaxprEqn, scope_of

_ROUNDS = 1000
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


def accepted(
    key: Any, propose: Callable[[Any], tuple[Any, Any]], like: Any, lost: Any, probability: float
) -> Any:
    """Of proposals `(values, accepted)` of `propose(key)`, arrays like `like`, the first that is accepted of
    each element, with at least that `probability`; NaN for those that are `lost`, and after many rounds."""

    def going(carry: Any) -> Any:
        _, _, done, times = carry
        return ~jnp.all(done) & (times < _ROUNDS)

    def body(carry: Any) -> Any:
        key, t, done, times = carry
        key, key_now = jax.random.split(key)
        new, fits = propose(key_now)
        return key, jnp.where(done, t, new), done | fits, times + 1

    first = (key, jnp.full_like(like, jnp.nan), lost, jnp.zeros((), jnp.int32))
    _, t, done, _ = looped(rounds(probability, like.size), going, body, first)
    return jnp.where(done & ~lost, t, jnp.nan)
