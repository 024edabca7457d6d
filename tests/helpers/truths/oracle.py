"""What a conditional is drawn from, against the original model's joint as NumPyro evaluates it.

`against_joint` takes any model function: it asks no part of the analysis for anything but the conditional.
"""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
from gibbsite.conditional.gaussian.joint import GaussianChain, GaussianConditional
from numpyro.infer.util import log_density


def joint(fn, args, state):
    """The original model's log joint density, by NumPyro alone."""
    return log_density(fn, args, {}, {n: jnp.asarray(v) for n, v in state.items()})[0]


def against_joint(fn, args, site, states, points=()):
    """The kind of `site`'s conditional, after comparing it with the joint at every state.

    Discrete sites are compared value by value, with their other elements as in the state; continuous ones by
    the differences of their log density between `points`, whole values of the site. Values that cannot be,
    such as indices beyond an axis, are part of what is compared.
    """
    conditional = gb.model(fn, *args, check_values=False).conditional(site)
    for state in states:
        if conditional.kind in ("finite", "chain"):
            _finite(fn, args, conditional, site, state)
        elif conditional.kind == "conjugate":
            _continuous(fn, args, conditional, site, state, points)
    return conditional.kind


def _finite(fn, args, conditional, site, state):
    values, base = np.asarray(conditional.support), np.asarray(state[site])
    flat = base.reshape(-1)
    moved = np.repeat(flat[None, None], flat.size, 0).repeat(len(values), 1)
    for i in range(flat.size):
        moved[i, :, i] = values
    moved = jnp.asarray(moved.reshape(-1, *base.shape).astype(base.dtype))
    table = np.asarray(jax.vmap(lambda z: joint(fn, args, {**state, site: z}))(moved), np.float64)
    table = table.reshape(flat.size, len(values))
    table = (table - np.logaddexp.reduce(table, axis=1, keepdims=True)).reshape(*base.shape, len(values))
    ours = np.asarray(conditional.logits(state))
    assert not np.isnan(table).any(), "the model itself has no density there"
    np.testing.assert_allclose(np.exp(ours), np.exp(table), atol=2e-5)


def _continuous(fn, args, conditional, site, state, points):
    truth = np.array([joint(fn, args, {**state, site: x}) for x in points], np.float64)
    ours = np.array([_logdensity(conditional, state, x) for x in points], np.float64)
    assert len(points) > 2 and np.isfinite(truth).all() and np.ptp(truth) > 0.1
    np.testing.assert_allclose(ours - ours[0], truth - truth[0], rtol=2e-4, atol=2e-3)


def _logdensity(conditional, state, x):
    x = jnp.asarray(x)
    if isinstance(conditional, GaussianChain):
        found = conditional.natural(state)
        v = conditional.part.split(x)
        before = jnp.concatenate([jnp.zeros_like(v[:1]), v[:-1]])
        across = jnp.einsum("sbi,sbij,sbj->", v, found["below"], before)
        square = jnp.einsum("sbi,sbij,sbj->", v, found["diagonal"], v)
        return jnp.sum(found["information"] * v) - 0.5 * square - across
    if isinstance(conditional, GaussianConditional):
        found, v = conditional.natural(state), conditional.part.split(x)
        return jnp.sum(found["information"] * v) - 0.5 * jnp.einsum("bi,bij,bj->", v, found["precision"], v)
    return jnp.sum(conditional.distribution(state).log_prob(x))
