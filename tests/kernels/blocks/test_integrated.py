"""NUTS on what is left when continuous sites are integrated out: against quadrature over what is left,
written by hand, and the exact conditional of what is drawn back."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ScheduleError
from jax.scipy.special import gammaln

S, plate = numpyro.sample, numpyro.plate
R = np.random.default_rng(11)


def walk(y):
    s, o = S("s", dist.InverseGamma(2.0, 0.3)), S("o", dist.InverseGamma(2.0, 1.0))
    x = S("x", dist.GaussianRandomWalk(jnp.sqrt(s), num_steps=len(y)))
    with plate("T", len(y)):
        S("y", dist.Normal(x, jnp.sqrt(o)), obs=y)


def effects(y, sd):
    mu, v = S("mu", dist.Normal(0, 10)), S("v", dist.InverseGamma(2.0, 2.0))
    with plate("J", len(y)):
        t = S("t", dist.Normal(mu, jnp.sqrt(v)))
        S("y", dist.Normal(t, sd), obs=y)


def rates(n, y):
    a, b = S("a", dist.Gamma(4.0, 1.0)), S("b", dist.Gamma(4.0, 1.0))
    with plate("J", len(n)):
        p = S("p", dist.Beta(a, b))
        S("y", dist.Binomial(n, p), obs=y)


def pumps(t, y):
    a, b = S("a", dist.Gamma(3.0, 2.0)), S("b", dist.Gamma(3.0, 2.0))
    with plate("J", len(t)):
        r = S("r", dist.Gamma(a, b))
        S("y", dist.Poisson(r * t), obs=y)


def groups(y):
    mu = S("mu", dist.Normal(0, 2))
    p, q = S("p", dist.Gamma(2.0, 2.0)), S("q", dist.Gamma(2.0, 2.0))
    with plate("G", 8):
        a = S("a", dist.Normal(mu, p**-0.5))
    with plate("N", len(y)):
        S("y", dist.Normal(a[jnp.arange(len(y)) % 8], q**-0.5), obs=y)


def _walk_left(y):
    n = np.arange(1.0, len(y) + 1)
    shared = np.minimum(n[:, None], n)

    def at(s, o):
        seen = dist.MultivariateNormal(0.0, s * shared + o * np.eye(len(y))).log_prob(y)
        back = s * shared @ jnp.linalg.solve(s * shared + o * np.eye(len(y)), y)
        return seen + dist.InverseGamma(2.0, 0.3).log_prob(s) + dist.InverseGamma(2.0, 1.0).log_prob(o), back

    return at


def _effects_left(y, sd):
    def at(mu, v):
        seen = dist.Normal(mu, jnp.sqrt(v + sd**2)).log_prob(y).sum()
        back = (y / sd**2 + mu / v) / (1 / sd**2 + 1 / v)
        return seen + dist.Normal(0, 10).log_prob(mu) + dist.InverseGamma(2.0, 2.0).log_prob(v), back

    return at


def _rates_left(n, y):
    def beta(a, b):
        return gammaln(a) + gammaln(b) - gammaln(a + b)

    def at(a, b):
        seen = (beta(y + a, n - y + b) - beta(a, b)).sum()
        return seen + sum(dist.Gamma(4.0, 1.0).log_prob(x) for x in (a, b)), (y + a) / (n + a + b)

    return at


def _pumps_left(t, y):
    def at(a, b):
        seen = (gammaln(a + y) - gammaln(a) + a * jnp.log(b) - (a + y) * jnp.log(b + t)).sum()
        return seen + sum(dist.Gamma(3.0, 2.0).log_prob(x) for x in (a, b)), (y + a) / (t + b)

    return at


def _groups_left(y):
    own = np.arange(len(y)) % 8
    z = (own[:, None] == np.arange(8)).astype(float)

    def at(p, q):
        k = z @ z.T / p + 4.0 * np.ones((len(y), len(y))) + np.eye(len(y)) / q
        mean = (z.T / p + 4.0) @ jnp.linalg.solve(k, y)
        seen = dist.MultivariateNormal(0.0, k).log_prob(y)
        return seen + sum(dist.Gamma(2.0, 2.0).log_prob(x) for x in (p, q)), mean

    return at


Y = np.float32(R.normal(0, 0.4, 24).cumsum() + R.normal(size=24))
N = R.integers(8, 30, 12)
T = np.float32(R.gamma(2.0, 5.0, 12))
CASES = {
    "a walk": (walk, (Y,), "Eliminate x > NUTS [s o]", _walk_left, {"s": (0.003, 6.0), "o": (0.02, 8.0)}),
    "effects": (
        *(effects, (np.float32(R.normal(0, 3, 15)), 2.0), "Eliminate t > NUTS [mu v]", _effects_left),
        {"mu": (-6.0, 6.0), "v": (0.05, 60.0)},
    ),
    "all effects": (
        *(effects, (np.float32(R.normal(0, 3, 15)), 2.0), "Eliminate [mu t] > NUTS v", _effects_left),
        {"mu": (-6.0, 6.0), "v": (0.05, 60.0)},
    ),
    "rates": (
        *(rates, (N, R.binomial(N, R.beta(3, 7, 12))), "Eliminate p > NUTS [a b]", _rates_left),
        {"a": (0.1, 16.0), "b": (0.1, 20.0)},
    ),
    "pumps": (
        *(pumps, (T, R.poisson(R.gamma(1, 1, 12) * T)), "Eliminate r > NUTS [a b]", _pumps_left),
        {"a": (0.02, 7.0), "b": (0.02, 7.0)},
    ),
    "groups": (
        *(groups, (np.float32(R.normal(size=24)),), "Eliminate [mu a] > NUTS [p q]", _groups_left),
        {"p": (0.02, 9.0), "q": (0.05, 6.0)},
    ),
}
FAST = []  # the truths are integrals over grids, half a minute each


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_draws_have_the_posterior(name):
    fn, args, text, left, ranges = CASES[name]
    model = gb.model(fn, *args)
    schedule = model.schedule(text)
    assert schedule.text == text and "integrated out" in schedule.rows[0].reason
    with jax.enable_x64(True):  # positive numbers by their logarithms
        logs = [low > 0 for low, _ in ranges.values()]
        axes = [
            np.linspace(*(np.log(r) if log else r), 161) for log, r in zip(logs, ranges.values(), strict=True)
        ]
        grid = [g.ravel() for g in np.meshgrid(*axes, indexing="ij")]
        values = [np.exp(g) if log else g for g, log in zip(grid, logs, strict=True)]
        wide = [np.asarray(a, np.float64) for a in args]
        level, back = jax.jit(lambda vs: jax.lax.map(lambda v: left(*wide)(*v), vs, batch_size=512))(
            tuple(values)
        )
        level = np.asarray(level) + sum(g for g, log in zip(grid, logs, strict=True) if log)
    weight = np.exp(level - level.max())
    weight /= weight.sum()
    run = model.sample(schedule=text, draws=1000, warmup=300, chains=4, seed=5)
    gone = text.split(" > ")[0].removeprefix("Eliminate ").strip("[]").split()[-1]
    expected = {n: weight @ v for n, v in zip(ranges, values, strict=True)} | {
        gone: weight @ np.asarray(back)
    }
    for site, mean in expected.items():
        draws = np.asarray(run.draws[site], np.float64).reshape(4000, -1)
        ess = min(s.ess_bulk for s in run.diagnostics() if s.site == site)
        assert ess > 400, (site, ess)
        assert (np.abs(draws.mean(0) - mean) < 5 * draws.std(0) / np.sqrt(ess)).all(), site


def test_eliminate_makes_the_schedule():
    model = gb.model(effects, *CASES["effects"][1])
    assert model.eliminate("t").schedule().text == "Eliminate t > NUTS [mu v]"
    assert model.eliminate().schedule().text == "Eliminate [mu t] > NUTS v"
    assert model.eliminate("t").summed_out == ("t",)
    steps = model.eliminate("t").eliminations[0].read
    assert [sites for sites, _, _ in steps] == [("t",)]
    for text, words in {
        "Eliminate t > NUTS [t mu v]": "both sides",
        "Eliminate [v t] > NUTS mu": "with t integrated out, v has no conditional in closed form",
        "Eliminate tt > NUTS *": "no site named 'tt'",
        "Eliminate y > NUTS *": "observed",
        "Eliminate t > Conjugate mu (*) NUTS v": "more of the model than its log density",
    }.items():
        with pytest.raises(ScheduleError, match=words):
            model.schedule(text)

    with pytest.raises(ScheduleError, match="nothing is left for NUTS"):
        gb.model(lambda y: S("y", dist.Normal(S("m", dist.Normal(0, 1)), 1.0), obs=y), 0.3).eliminate("m")
