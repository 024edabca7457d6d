"""Every marginal against the sum over all joint values, in double precision: density, gradient,
probabilities, best values and draws."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.models.elimination import MODELS
from helpers.models.zoo import ZOO
from helpers.truths.brute import continuous, quick, table
from helpers.truths.perturbation import QUICK
from scipy.stats import chi2

CASES = {**ZOO, **MODELS}
# one per way of eliminating; the others run in the slow suite
CORE = (
    "gmm trial hmm_scan hmm_factorial ising edges noisy_or repeated_parent capture_recapture"
    " classes_of_chains coupled_chains second_order_max group_over_elements parity masked_pairs"
).split()
SLOW = [n for n in CASES if n not in CORE]
DRAWS = 4_000


def eliminated(name):
    case = CASES[name]
    model = gb.model(case.fn, *case.args, **case.kwargs)
    sites = [n for n in model.density.latents if model.conditional(n).kind in ("finite", "chain")]
    return case, model.density, model.marginal(*sites)


def check(name):
    with jax.enable_x64(True):
        case, density, marginal = eliminated(name)
        truth = table(case, marginal, density)
        if truth is None:
            pytest.skip("too many joint values to list")
        data = tuple(density.arguments.arrays)
        states = [continuous(case.state(seed), marginal.sites) for seed in (1, 2)]
        smooth = {n for n, v in states[0].items() if v.dtype.kind == "f"}

        def ours(real, rest):
            return marginal.logdensity_at({**real, **rest}, data)

        def theirs(real, rest):
            return jax.scipy.special.logsumexp(truth.log_joint({**real, **rest}))

        found = []
        for state in states:
            real = {n: jnp.asarray(v) for n, v in state.items() if n in smooth}
            rest = {n: v for n, v in state.items() if n not in smooth}
            value, gradient = quick(jax.value_and_grad(ours))(real, rest)
            true_value, true_gradient = quick(jax.value_and_grad(theirs))(real, rest)
            found.append((float(value), float(true_value)))
            for n, g in gradient.items():
                expected, tolerance = np.asarray(true_gradient[n]), 1e-9
                if np.isnan(expected).any():  # a structural zero, which NumPyro's own derivative cannot pass
                    expected, tolerance = differences(quick(theirs), real, rest, n), 1e-5
                scale = 1 + np.abs(expected).max(initial=0.0)
                np.testing.assert_allclose(np.asarray(g), expected, atol=tolerance * scale, err_msg=n)
        (a, true_a), (b, true_b) = found
        assert np.isfinite([a, b]).all()
        assert abs((a - b) - (true_a - true_b)) < 1e-10 * (1 + abs(true_a - true_b))
        check_readings(marginal, truth, states[0], data)


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


def check_readings(marginal, truth, state, data):
    log_joint = np.asarray(quick(truth.log_joint)(state))
    weight = np.exp(log_joint - log_joint.max())
    weight /= weight.sum()
    probs = quick(lambda s: marginal.probs_at(s, data))(state)
    for site, values in truth.values.items():
        expected = [np.tensordot(weight, values == v, 1) for v in marginal.support(site)]
        assert probs[site].shape == (*values.shape[1:], len(expected))
        np.testing.assert_allclose(probs[site], np.stack(expected, -1), atol=1e-10)
    number = {_key(truth.values, i): i for i in range(truth.size)}
    best = quick(lambda s: marginal.best_at(s, data))(state)
    at = number[_key({s: np.asarray(v)[None] for s, v in best.items()}, 0)]
    assert log_joint[at] > log_joint.max() - 1e-9
    keys = jax.random.split(jax.random.key(3), DRAWS)
    draw = jax.jit(jax.vmap(lambda k: marginal.draw_at(k, state, data)), compiler_options=QUICK)
    drawn = {s: np.asarray(v) for s, v in draw(keys).items()}
    counts = np.zeros(truth.size)
    for i in range(DRAWS):
        counts[number[_key(drawn, i)]] += 1
    assert not counts[weight == 0].any()
    likely = weight * DRAWS >= 5
    observed, expected = counts[likely], weight[likely] * DRAWS
    left = (DRAWS - observed.sum(), DRAWS - expected.sum())
    statistic = np.sum((observed - expected) ** 2 / expected) + (left[0] - left[1]) ** 2 / max(left[1], 5)
    assert statistic < chi2.ppf(1 - 1e-5, max(likely.sum(), 1)), (statistic, likely.sum())


def _key(values, i):
    return tuple(np.asarray(v[i]).tobytes() for _, v in sorted(values.items()))


@pytest.mark.parametrize("name", CORE)
def test_marginal_is_the_sum_over_all_values(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_other_marginals_are_the_sums_over_all_values(name):
    check(name)
