"""Truncated normals far from where their normals are, beside double precision by SciPy."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.model.tails import held_in_tails
from scipy import stats

BOUNDS = {"left": (0.0, None), "right": (None, 0.0), "both": (0.0, 3.0), "all": (-np.inf, 0.5)}
DRAWN = np.array([0.2, 0.7, 1.1], np.float32)


def model(low, high, wrapped):
    loc, scale = numpyro.sample("loc", dist.Normal(0, 100.0)), numpyro.sample("scale", dist.HalfCauchy(25.0))
    mirrored = jnp.asarray(DRAWN if high != 0.0 else -DRAWN)
    if high == 0.5:
        mirrored = mirrored - 0.8
    fn = dist.TruncatedNormal(loc, scale, low=low, high=high)
    if wrapped:
        fn = fn.expand([3]).mask(jnp.array([True, True, True])).to_event(1)
    numpyro.sample("x", fn, obs=mirrored)


@pytest.mark.share(5)
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_densities_and_slopes_hold_in_tails(bounds, wrapped):
    low, high = BOUNDS[bounds]
    density = gb.model(model, low, high, wrapped).density
    value = DRAWN if high != 0.0 else -DRAWN
    value = value - 0.8 if high == 0.5 else value

    def of(state):
        return density.log_joint(state) - stats_free(state)

    def stats_free(state):
        return dist.Normal(0, 100.0).log_prob(state["loc"]) + dist.HalfCauchy(25.0).log_prob(state["scale"])

    def truth(loc, scale):
        ends = [
            (b - loc) / scale for b in (-np.inf if low is None else low, np.inf if high is None else high)
        ]
        return stats.truncnorm(*ends, loc, scale).logpdf(value.astype(float)).sum()

    for away in (0.5, 3.0, 9.0, 12.5, 14.0, 20.0, 60.0):
        for sign in (-1, 1):
            loc, scale = sign * away * 1.5, 1.5
            state = {"loc": jnp.float32(loc), "scale": jnp.float32(scale)}
            slope, h = jax.grad(of)(state), 1e-4
            by_loc = (truth(loc + h, scale) - truth(loc - h, scale)) / (2 * h)
            by_scale = (truth(loc, scale + h) - truth(loc, scale - h)) / (2 * h)
            rounded = 3e-6 * away**2  # as sums of squares are
            assert float(of(state)) == pytest.approx(truth(loc, scale), rel=1e-4, abs=1e-4 + rounded)
            assert float(slope["loc"]) == pytest.approx(by_loc, rel=1e-3, abs=1e-3 + rounded / away)
            assert float(slope["scale"]) == pytest.approx(by_scale, rel=1e-3, abs=1e-3 + rounded)


@pytest.mark.share(2)
@pytest.mark.parametrize("schedule", ["NUTS loc", "Slice loc"])
def test_chains_walk_through_tails(schedule):
    """A location that is known to be 20 to 60 scales away: its mean by quadrature in double precision."""

    def far(x):
        loc = numpyro.sample("loc", dist.Uniform(-60.0, -20.0))
        with numpyro.plate("n", len(x)):
            numpyro.sample("x", dist.TruncatedNormal(loc, 1.0, low=0.0), obs=x)

    x = np.array([0.02, 0.04, 0.03], np.float32)
    grid = np.linspace(-60, -20, 4001)
    heights = stats.truncnorm(-grid[:, None], np.inf, grid[:, None], 1.0).logpdf(x.astype(float)).sum(1)
    weights = np.exp(heights - heights.max()) / np.exp(heights - heights.max()).sum()
    mean = weights @ grid
    sd = np.sqrt(weights @ (grid - mean) ** 2)
    run = gb.model(far, x).sample(draws=1000, warmup=500, chains=4, seed=0, schedule=schedule)
    (loc,) = [s for s in run.diagnostics() if s.label == "loc"]
    assert sum(run.snapshot(limit=1).divergences) < 20
    assert abs(run.draws["loc"].mean() - mean) < 4 * sd / np.sqrt(loc.ess_bulk)
    kept = run.to_datatree(log_likelihood=True).log_likelihood["x"].to_numpy()
    told = stats.truncnorm(-run.draws["loc"][..., None], np.inf, run.draws["loc"][..., None], 1.0).logpdf(x)
    np.testing.assert_allclose(kept, told, rtol=1e-4, atol=1e-3)


def _counts():
    """Distributions of counts near their means by kind, with SciPy's log probability of the same."""
    k = np.array([0, 1, 2, 6, 7, 45, 5030, 100_300, 2_999_000])
    mean = np.array([0.3, 1.0, 2.7, 7.0, 6.5, 40.0, 5e3, 1e5, 3e6], np.float32)
    n = np.array([0, 1, 5, 6, 9, 60, 20_000, 100_400, 9_000_000])
    p = np.array([0.3, 0.4, 0.51, 0.9, 0.6, 0.7, 0.25, 0.999, 0.333], np.float32)
    k_of_n = np.minimum(k, n)
    logits = np.float32(np.log(p.astype(float)) - np.log1p(-p.astype(float)))
    rows = np.array([[3, 0, 7], [5000, 4900, 90_000]])
    shares = np.array([0.3, 0.1, 0.6]), np.array([0.05, 0.05, 0.9])
    yield dist.Poisson, {"rate": mean}, k, stats.poisson.logpmf(k, mean.astype(float))
    of = stats.binom.logpmf(k_of_n, n, p.astype(float))
    yield lambda probs: dist.Binomial(n, probs), {"probs": p}, k_of_n, of
    of = stats.binom.logpmf(k_of_n, n, 1 / (1 + np.exp(-logits.astype(float))))
    yield lambda logits: dist.Binomial(n, logits=logits), {"logits": logits}, k_of_n, of
    of = np.array([stats.multinomial.logpmf(r, r.sum(), q) for r, q in zip(rows, shares, strict=True)])
    shares = np.float32(shares)
    yield lambda probs: dist.Multinomial(rows.sum(1), probs), {"probs": shares}, rows, of
    zero = np.log(0.2) + np.where(k == 0, 0, -np.inf)
    mixed = np.logaddexp(zero, np.log(0.8) + stats.poisson.logpmf(k, mean.astype(float)))
    yield lambda rate: dist.ZeroInflatedPoisson(0.2, rate), {"rate": mean}, k, mixed
    a = np.array([0.05, 0.7, 3.0, 7.9, 8.1, 60.0, 2.5, 1e4, 3e5], np.float32)
    q = 1 / (1 + mean.astype(float) / a)
    of = stats.nbinom.logpmf(k, a.astype(float), q)
    yield dist.NegativeBinomial2, {"mean": mean, "concentration": a}, k, of
    logits = np.float32(np.log(mean.astype(float) / a))
    of = stats.nbinom.logpmf(k, a.astype(float), 1 / (1 + np.exp(logits.astype(float))))
    named = {"total_count": a, "logits": logits}
    yield lambda total_count, logits: dist.NegativeBinomialLogits(total_count, logits), named, k, of


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "case",
    range(7),
    ids=["poisson", "probs", "logits", "multinomial", "inflated", "negative binomial", "by failures"],
)
def test_large_counts_have_their_densities(case):
    build, parameter, value, exact = list(_counts())[case]
    held = jax.jit(lambda p: held_in_tails(build(**p), counts=True).log_prob(jnp.asarray(value)))(parameter)
    # of what the rounding of a mean does, at ten standard deviations from it
    np.testing.assert_allclose(held, exact, rtol=3e-4, atol=3e-3)
    with jax.enable_x64():
        point = {n: jnp.asarray(v, float) for n, v in parameter.items()}
        ours = jax.grad(lambda p: held_in_tails(build(**p), counts=True).log_prob(value).sum())(point)
        theirs = jax.grad(lambda p: build(**p).log_prob(value).sum())(point)
    for name in point:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6, atol=2e-6)


def test_counts_that_cannot_be_are_impossible():
    log_prob = jax.jit(lambda p: held_in_tails(dist.Binomial(3, p), counts=True).log_prob(jnp.array([4, -1])))
    assert np.all(np.asarray(log_prob(0.5)) == -np.inf)


@pytest.mark.slow
def test_days_of_a_hundred_thousand_visits():
    """NumPyro's density is off by tens of nats there, and no step of a trajectory is accepted."""
    rng, n = np.random.default_rng(0), 365
    x = rng.normal(size=n).astype(np.float32)
    k = rng.poisson(1e5 * np.exp(0.05 * x))

    def visits(x, k):
        a, b = numpyro.sample("a", dist.Normal(0, 10)), numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("n", n):
            numpyro.sample("k", dist.Poisson(jnp.exp(a + b * x)), obs=k)

    design, at = np.c_[np.ones(n), x.astype(float)], np.r_[np.log(1e5), 0.05]
    for _ in range(20):
        rate = np.exp(design @ at)
        precision = design.T @ (rate[:, None] * design)
        at = at + np.linalg.solve(precision, design.T @ (k - rate))
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    run = gb.model(visits, x, k).sample(draws=500, warmup=500, chains=4, seed=0)
    assert run.verdict.ok, run.verdict
    for name, mean, spread in zip("ab", at, sd, strict=True):
        draws = run.draws[name].astype(float)
        assert abs(draws.mean() - mean) < 5 * spread / np.sqrt(500)
        assert abs(draws.std() / spread - 1) < 0.12


RARE = [
    (lambda r: dist.Poisson(r), lambda r: stats.poisson(r), [1e-30, 1e-8, 1e-3, 0.5, 1e4]),
    (lambda p: dist.Binomial(50, p), lambda p: stats.binom(50, p), [1e-7, 1e-4, 0.3, 0.999]),
    (
        lambda x: dist.Binomial(50, logits=x),
        lambda x: stats.binom(50, 1 / (1 + np.exp(-x))),
        [-30.0, -17.0, 9.0],
    ),
    (lambda r: dist.GammaPoisson(3.0, r), lambda r: stats.nbinom(3, r / (1 + r)), [1e-4, 1.0, 1e6]),
]


@pytest.mark.parametrize("case", range(len(RARE)))
def test_counts_far_above_their_means_are_possible(case):
    """A rate of 1e-8, which is added so that none is 0, is no rate of 0: what was seen there is unlikely."""
    made, true, values = RARE[case]
    for x in values:
        for k in (0, 1, 2, 7, 30, 50):
            exact = true(np.float64(np.float32(x))).logpmf(k)
            value, slope = jax.value_and_grad(lambda x, k=k: held_in_tails(made(x), True).log_prob(k))(x)
            assert float(value) == pytest.approx(exact, rel=1e-4, abs=1e-4)
            assert np.isfinite(slope)
