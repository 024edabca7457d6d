"""What loops are told to take, against what they take."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.conditional.draws import concave_convex as bent
from gibbsite.conditional.draws import gamma, logconcave, passes
from gibbsite.conditional.draws import slice as slices
from gibbsite.conditional.draws.passes import looped, passes_of, rounds
from gibbsite.conditional.draws.truncated import TruncatedBeta, TruncatedGaussian, TruncatedPowerGamma

DRAWS = 3000


def test_rounds_are_the_mean_of_the_greatest_of_geometric_variates():
    rng = np.random.default_rng(0)
    for accepted, elements in ((0.95, 1), (0.5, 7), (0.89, 200), (0.05, 3)):
        greatest = rng.geometric(accepted, (20_000, elements)).max(axis=1)
        assert abs(rounds(accepted, elements) - greatest.mean()) < 4.5 * greatest.std() / 20_000**0.5 + 0.002
    assert rounds(0.5, 0) == 0 and rounds(1.0, 9) == 1


def test_what_is_told_is_read_under_maps_and_within_other_loops():
    def inner(x):
        return looped(2.25, lambda c: c < 3, lambda c: c + 1, x)

    def outer(x):
        return looped(7, lambda c: c < 9, inner, x), jax.lax.while_loop(lambda c: c < 1, lambda c: c + 1, x)

    program = jax.make_jaxpr(lambda x: jax.vmap(jax.vmap(outer))(x))(jnp.zeros((2, 3))).jaxpr
    loops = [e for e in program.eqns if e.primitive.name == "while"]
    assert [passes_of(e) for e in loops] == [7, None]
    (within,) = [e for e in loops[0].params["body_jaxpr"].eqns if e.primitive.name == "while"]
    assert passes_of(within) == 2.25


def log_gammas(a):
    return lambda key, n: gamma.log_gamma(key, jnp.full(n, a))


def drawn(family, *parameters):
    return lambda key, n: family(*parameters).sample(key, (n,))


def sliced(sd, known):
    def one(key, n):
        first, second = jax.random.split(key)
        x = sd * jax.random.normal(first, (n,))

        def at(x):
            return -((x / sd) ** 2) / 2

        return slices.slice_element(second, at, x, at(x) if known else None, jnp.float32(2.0), 16)[0]

    return one


# what is drawn, by which loop, and the least and the most that it takes of what is told
KINDS = {
    "gamma 1": (log_gammas(1.0), gamma, 0.96, 1.04),
    "gamma 0.3": (log_gammas(0.3), gamma, 0.85, 1.04),
    "gamma 100": (log_gammas(100.0), gamma, 0.45, 1.04),
    "nearly Normal": (drawn(TruncatedPowerGamma, 30.0, 30.0), logconcave, 0.96, 1.04),
    "spread of three": (drawn(TruncatedPowerGamma, -3.0, 3.0, -2.0, 0.0, 1.0), logconcave, 0.9, 1.15),
    "spread at its end": (drawn(TruncatedPowerGamma, -20.0, 90.0, -2.0, 0.0, 1.0), logconcave, 0.45, 1.04),
    "Normal": (drawn(TruncatedGaussian, 0.3, 2.0, -1.0, 1.0), logconcave, 0.8, 1.04),
    "Beta": (drawn(TruncatedBeta, 0.3, 2.0, 0.1, 1.0), logconcave, 0.9, 1.04),
    "bent": (drawn(TruncatedPowerGamma, 3.0, -1.0, 1.0, 0.0, 5.0), bent, 0.85, 1.1),
    "slice": (sliced(0.5, False), slices, 0.8, 1.1),
    "slice, narrow": (sliced(0.2, True), slices, 0.8, 1.2),
    "slice, wide": (sliced(1.0, True), slices, 0.8, 1.1),
}


@pytest.mark.share(12)
@pytest.mark.parametrize("kind", KINDS)
def test_samplers_take_as_many_passes_as_they_are_told_to(kind, monkeypatch):
    """Means of some thousand draws, of one element and of fifty that wait for the last: told are those of the
    parameters with which most proposals are rejected."""
    draw, module, least, most = KINDS[kind]
    seen = []

    def counting(told, going, body, start):
        if told == 0:  # here it is what is wanted, and runs once
            return body(start)
        taken, end = jax.lax.while_loop(
            lambda c: going(c[1]), lambda c: (c[0] + 1, body(c[1])), (jnp.zeros(()), start)
        )
        seen.append((told, taken))
        return end

    def counted(*given, accepted=passes.accepted):
        with monkeypatch.context() as within:
            within.setattr(passes, "looped", counting)
            return accepted(*given)

    for name, stand_in in (("looped", counting), ("accepted", counted)):  # its loops, and no other module's
        if hasattr(module, name):
            monkeypatch.setattr(module, name, stand_in)

    for n in (1, 50):

        def took(key, n=n):
            seen.clear()
            draw(key, n)
            ((told, taken),) = seen
            return jnp.asarray(told), taken

        keys = jax.random.split(jax.random.key(1), 300 if module is bent else DRAWS)
        told, taken = jax.jit(lambda keys, took=took: jax.lax.map(took, keys))(keys)
        assert least < float(taken.mean() / told[0]) < most, (n, float(told[0]), float(taken.mean()))
