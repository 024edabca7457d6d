"""Marginals against the sum over all joint values of their discrete sites."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to
from scipy.stats import chi2

from helpers.truths.brute import continuous, quick, table

DRAWS = 4_000


def eliminated(case):
    """A case's density and the marginal without all its discrete sites."""
    model = gb.model(case.fn, *case.args, **case.kwargs)
    sites = [n for n in model.density.latents if model.conditional(n).kind in ("finite", "chain")]
    return model.density, model.marginal(*sites)


def two_states(case, marginal):
    """Values of the other latents, twice: `[2, *shape]` by site, and whether a site is real."""
    density = marginal.density
    sites = {n: density.sites[n] for n in marginal.others if n in density.sites}
    if len(sites) < len(marginal.others) or any(s.discrete or s.support is None for s in sites.values()):
        both = [continuous(case.state(seed), marginal.sites) for seed in (1, 2)]
        return {n: np.stack([s[n] for s in both]) for n in both[0]}
    rng = np.random.default_rng(8)
    transforms = {n: biject_to(s.support) for n, s in sites.items()}
    free = {n: rng.normal(size=(2, *t.inverse_shape(sites[n].shape))) for n, t in transforms.items()}
    return jax.tree.map(np.asarray, quick(lambda f: {n: transforms[n](x) for n, x in f.items()})(free))


def check_marginal(case, draws=DRAWS):
    """Whether a case's marginal is the sum over all joint values of its discrete sites, in double precision:
    density and gradient at two states; probabilities, best values and draws at one. False where they are too
    many to list."""
    with jax.enable_x64(True):
        density, marginal = eliminated(case)
        truth = table(case, marginal, density)
        if truth is None:
            return False
        data = tuple(density.arguments.arrays)
        states = two_states(case, marginal)
        rest = {n: v for n, v in states.items() if v.dtype.kind != "f"}
        real = {n: v for n, v in states.items() if n not in rest}

        def ours(real, rest, _):
            return marginal.logdensity_at({**real, **rest}, data)

        def theirs(real, rest, _):
            log_joint = truth.log_joint({**real, **rest})
            return jax.scipy.special.logsumexp(log_joint), log_joint

        at = (real, rest, np.arange(2))  # there may be nothing but the number of the state
        value, gradient = quick(jax.vmap(jax.value_and_grad(ours)))(*at)
        exact = quick(jax.vmap(jax.value_and_grad(theirs, has_aux=True)))
        (true_value, log_joint), true_gradient = exact(*at)
        assert np.isfinite(value).all() and np.isfinite(true_value).all()
        moved = float(true_value[0] - true_value[1])
        assert abs(float(value[0] - value[1]) - moved) < 1e-10 * (1 + abs(moved))
        for n, g in gradient.items():
            expected, tolerance = np.asarray(true_gradient[n]), 1e-9
            if np.isnan(expected).any():  # a structural zero, which NumPyro's own derivative cannot pass
                alone, tolerance = quick(lambda real, rest: theirs(real, rest, 0)[0]), 1e-5
                both = [[{k: v[i] for k, v in s.items()} for s in (real, rest)] for i in (0, 1)]
                expected = np.stack([differences(alone, *one, n) for one in both])
            scale = 1 + np.abs(expected).max(initial=0.0)
            np.testing.assert_allclose(np.asarray(g), expected, atol=tolerance * scale, err_msg=n)
        first = {n: jnp.asarray(v[0]) for n, v in states.items()}
        check_readings(marginal, truth, first, np.asarray(log_joint[0]), data, draws)
        return True


def differences(fn, real, rest, name, step=1e-6):
    """The gradient by one site, by central differences."""
    x = np.asarray(real[name])
    out = np.zeros(x.size)
    for i in range(x.size):
        moved = np.zeros(x.size)
        moved[i] = step
        up, down = ({**real, name: jnp.asarray(x + s * moved.reshape(x.shape))} for s in (1, -1))
        out[i] = (fn(up, rest) - fn(down, rest)) / (2 * step)
    return out.reshape(x.shape)


def check_readings(marginal, truth, state, log_joint, data, many=DRAWS):
    """Probabilities, best values and draws at one state."""
    weight = np.exp(log_joint - log_joint.max())
    weight /= weight.sum()

    def readings(state, keys):
        draws = jax.vmap(lambda k: marginal.draw_at(k, state, data))(keys)
        best = marginal._by_name(marginal.settled_at(state, data))
        return marginal.probs_at(state, data), best, draws

    probs, best, drawn = quick(readings)(state, jax.random.split(jax.random.key(3), many))
    for site, values in truth.values.items():
        expected = [np.tensordot(weight, values == v, 1) for v in marginal.support(site)]
        assert probs[site].shape == (*values.shape[1:], len(expected))
        np.testing.assert_allclose(probs[site], np.stack(expected, -1), atol=1e-10)
    number = {_key(truth.values, i): i for i in range(truth.size)}
    at = number[_key({s: np.asarray(v)[None] for s, v in best.items()}, 0)]
    assert log_joint[at] > log_joint.max() - 1e-9
    drawn = {s: np.asarray(v) for s, v in drawn.items()}
    counts = np.bincount([number[_key(drawn, i)] for i in range(many)], minlength=truth.size)
    assert not counts[weight == 0].any()
    likely = weight * many >= 5
    observed, expected = counts[likely], weight[likely] * many
    left = (many - observed.sum(), many - expected.sum())
    statistic = np.sum((observed - expected) ** 2 / expected) + (left[0] - left[1]) ** 2 / max(left[1], 5)
    assert statistic < chi2.ppf(1 - 1e-5, max(likely.sum(), 1)), (statistic, likely.sum())


def _key(values, i):
    return tuple(np.asarray(v[i]).tobytes() for _, v in sorted(values.items()))
