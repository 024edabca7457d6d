"""Exchanges of labels on a stick: an involution with its volume, under which the joint stays as it is."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats
from gibbsite.density.hierarchy.stick_labels import stick_labels
from gibbsite.density.hierarchy.sticks import reordered, weights_of
from gibbsite.errors import ScheduleError
from gibbsite.kernels.blocks.label_switching import LabelSwitching
from gibbsite.kernels.blocks.target import Target
from gibbsite.plans.candidates.rewrites import labels_switched
from gibbsite.plans.schedule.parse import parse_schedule
from numpyro import handlers, plate, sample
from scipy.special import betaln

Y = np.array([-1.2, -0.9, 1.1, 1.4], np.float32)
ALPHA = 1.5


def broken(v):
    one = jnp.ones(1)
    return jnp.concatenate([v, one]) * jnp.concatenate([one, jnp.cumprod(1 - v)])


def process(y, K=3, alpha=ALPHA):
    v = sample("v", dist.Beta(1.0, alpha).expand([K - 1]))
    with plate("components", K):
        mu = sample("mu", dist.Normal(0.0, 1.5))
    with plate("n", len(y)):
        z = sample("z", dist.Categorical(broken(v)))
        sample("y", dist.Normal(mu[z], 0.5), obs=y)


ORDERS = [(1, 0, 2, 3, 4), (0, 3, 2, 1, 4), (3, 1, 2, 0, 4), (4, 1, 2, 3, 0)]


# of four components what is left at the end is none
@pytest.mark.slow
@pytest.mark.parametrize(("count", "order"), [*((5, o) for o in ORDERS), *((4, o) for o in ORDERS[:3])])
def test_sticks_are_broken_anew_with_their_volume(count, order):
    with jax.enable_x64():
        v = jnp.asarray([0.3, 0.6, 0.2, 0.5])
        new, log = reordered(v, order[:count])
        np.testing.assert_allclose(weights_of(new), weights_of(v)[jnp.asarray(order)], rtol=1e-12)
        slope = jax.jacfwd(lambda v: reordered(v, order[:count])[0])(v)
        np.testing.assert_allclose(log, np.linalg.slogdet(slope)[1], rtol=1e-10, atol=1e-12)
        back, other = reordered(new, order[:count])
        np.testing.assert_allclose(back, v, rtol=1e-12)
        assert abs(float(log + other)) < 1e-10
    by_numpy, log_there = reordered(np.asarray(v), order[:count])
    np.testing.assert_allclose(by_numpy, new, rtol=1e-12)
    np.testing.assert_allclose(log_there, log, rtol=1e-9, atol=1e-12)


def test_what_rounding_leaves_nothing_of_stays():
    v = jnp.asarray([0.999999, 0.5], jnp.float32)
    same, log = reordered(v, (1, 0, 2))
    assert jnp.array_equal(same, v) and log == -jnp.inf


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("summed", [False, True], ids=["indicators", "without"])
def test_the_joint_stays_as_it_is(summed):
    """Of draws of everything from the model, those with labels exchanged are draws of it, too."""
    K, n, draws = 4, 3, 40_000

    def model(y=None):
        alpha = sample("alpha", dist.Gamma(3.0, 2.0))
        v = sample("v", dist.Beta(1.0, alpha).expand([K - 1]))
        mu = sample("mu", dist.Normal(0.0, 1.5).expand([K]))
        with plate("n", n):
            if summed:
                mixed = dist.MixtureSameFamily(dist.Categorical(broken(v)), dist.Normal(mu, 0.5))
                sample("y", mixed, obs=y)
            else:
                z = sample("z", dist.Categorical(broken(v)))
                sample("y", dist.Normal(mu[z], 0.5), obs=y)

    found = stick_labels(gb.model(model, np.zeros(n, np.float32)).analysis.density)
    names = ("v", "mu") if summed else ("v", "mu", "z")
    kernel = LabelSwitching(model, found, times=3)

    def one(key):
        sites = handlers.trace(handlers.seed(model, key)).get_trace()
        here = {k: s["value"] for k, s in sites.items() if s["type"] == "sample"}
        held = handlers.condition(model, {"alpha": here["alpha"]})
        target = Target(held, (here["y"],), {}, frozenset(here))
        values = {k: here[k] for k in names}
        new, _, _ = kernel.step(jax.random.fold_in(key, 7), values, (), target, jnp.asarray(False))
        return {**here, **new}, here

    after, before = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), draws))
    moved = np.mean(np.any(np.asarray(after["mu"]) != np.asarray(before["mu"]), axis=1))
    assert 0.2 < moved < 0.99

    def statistics(s):
        v, mu, y = (np.asarray(s[k], float) for k in ("v", "mu", "y"))
        alpha = np.asarray(s["alpha"], float)[:, None]
        out = [v, v**2, v * alpha, v[:, :1] * v[:, 1:], mu, mu**2, mu * y[:, :1], v * mu[:, :3] ** 2]
        if not summed:
            z = np.asarray(s["z"])
            at = np.take_along_axis(mu, z, axis=1)
            out += [z == 0, z == 3, at * y, (z[:, :1] == 1) * v[:, :2]]
        return np.concatenate(out, axis=1)

    gap = statistics(after) - statistics(before)
    error = gap.std(axis=0) / np.sqrt(draws)
    z = gap.mean(axis=0) / np.where(error > 0, error, 1.0)
    assert np.abs(z).max() < 4.2, z


def test_what_is_recognised():
    assert stick_labels(gb.model(process, Y).analysis.density).axes == {"mu": (0,)}

    def told_apart(y, K=3):
        v = sample("v", dist.Beta(1.0, 2.0).expand([K - 1]))
        mu = sample("mu", dist.Normal(jnp.arange(K) * 1.0, 1.0))
        with plate("n", len(y)):
            sample("y", dist.Normal(mu[sample("z", dist.Categorical(broken(v)))], 0.5), obs=y)

    def shares(y, K=3):
        w = sample("w", dist.Dirichlet(jnp.ones(K)))
        v = sample("v", dist.Beta(1.0, 1.0).expand([K - 1]))  # of nothing
        mu = sample("mu", dist.Normal(0.0, 1.0).expand([K]))
        with plate("n", len(y)):
            sample("y", dist.Normal(mu[sample("z", dist.Categorical(w))] + v.sum(), 0.5), obs=y)

    def first_differs(y, K=3):
        v = sample("v", dist.Beta(1.0, 2.0).expand([K - 1]))
        mu = sample("mu", dist.Normal(0.0, 1.0).expand([K]))
        with plate("n", len(y)):
            z = sample("z", dist.Categorical(broken(v)))
            sample("y", dist.Normal(mu[z] + 0.5 * (z == 0), 0.5), obs=y)

    for fn in (told_apart, shares, first_differs):
        assert stick_labels(gb.model(fn, Y).analysis.density) is None, fn.__name__


def test_a_schedule_of_updates_or_of_one_without_the_indicators():
    facts = gb.model(process, Y).execution
    by_hand = labels_switched(facts, parse_schedule("Gibbs z (*) Conjugate v (*) Conjugate mu"))
    assert str(by_hand) == "Interleave(Gibbs z, Conjugate v, Conjugate mu, SwitchLabels [v mu z])"
    summed = labels_switched(facts, parse_schedule("Eliminate z > NUTS [v mu]"))
    assert str(summed) == "Eliminate z > Interleave(NUTS [v mu], SwitchLabels [v mu])"
    for spec in (by_hand, summed):
        assert parse_schedule(str(spec)) == spec
        assert facts.schedule(str(spec)).text == str(spec)
    assert labels_switched(facts, parse_schedule("Gibbs z (*) Conjugate mu (*) 2 x Conjugate v")) is None
    with pytest.raises(ScheduleError, match="Conjugate needs more of the model than its log density"):
        facts.schedule("Eliminate z > Interleave(Conjugate v, SwitchLabels [v mu])")
    with pytest.raises(ScheduleError, match="labels change places in mu as well"):
        facts.schedule("Interleave(Gibbs z, Conjugate v, SwitchLabels v) (*) Conjugate mu")


def _exact(y, K=3, alpha=ALPHA):
    """The mean of each weight, and the probabilities of the numbers of components in use."""
    weights, in_use, total = np.zeros(K), np.zeros(K + 1), 0.0
    for z in itertools.product(range(K), repeat=len(y)):
        n = np.bincount(z, minlength=K)
        after = np.array([n[k + 1 :].sum() for k in range(K - 1)])
        log = (betaln(1 + n[:-1], alpha + after) - betaln(1, alpha)).sum()
        for k in range(K):
            own = y[np.array(z) == k]
            cov = 0.25 * np.eye(len(own)) + 2.25
            log += -0.5 * own @ np.linalg.solve(cov, own) - 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
        v = (1 + n[:-1]) / (1 + n[:-1] + alpha + after)
        p = np.exp(log)
        weights += p * np.append(v, 1.0) * np.append(1.0, np.cumprod(1 - v))
        in_use[(n > 0).sum()] += p
        total += p
    return weights / total, in_use / total


@pytest.mark.share(2)
@pytest.mark.parametrize(
    "schedule", [None, "Interleave(Gibbs z, Conjugate v, Conjugate mu, SwitchLabels [v mu z])"]
)
def test_what_is_drawn_is_what_all_assignments_say(schedule):
    model = gb.model(process, Y)
    assert "SwitchLabels" in model.schedule(schedule).text
    run = model.sample(draws=2000, chains=4, seed=0, schedule=schedule)
    assert run.verdict.ok, run.verdict
    weights, in_use = _exact(Y.astype(float))
    v = run.draws["v"]
    one = np.ones((*v.shape[:2], 1))
    drawn = np.concatenate([v, one], -1) * np.concatenate([one, np.cumprod(1 - v, -1)], -1)
    used = (np.diff(np.sort(run.draws["z"], -1), axis=-1) != 0).sum(-1) + 1
    pairs = [(drawn[..., k], weights[k]) for k in range(3)] + [(used == k, in_use[k]) for k in (2, 3)]
    for draws, truth in pairs:
        x = np.asarray(draws, float)
        assert abs(x.mean() - truth) < 4 * x.std() / np.sqrt(array_stats.ess(x, chain_axis=0, draw_axis=1)), (
            truth
        )
