"""Ratios of gamma functions of large arguments, and the densities and marginals that have them: beside double
precision by SciPy, in single precision as people run models."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.ground.rising import log_beta, log_beta_ratio, log_rising
from scipy import special, stats
from scipy.special import betaln, gammaln

S = numpyro.sample
R = np.random.default_rng(0)
COUNTS, HITS, SHARES = R.poisson(7, 50), R.binomial(20, 0.3, 50), R.multinomial(30, [0.2, 0.3, 0.5], 20)
NEAR, REALS = np.float32(0.3 + 0.02 * R.normal(size=20)), np.float32(R.normal(1, 2, 50))
SPREAD = np.float32(3 * R.gamma(1e3, 1e-3, 50))
PARTS = np.array([0.2, 0.3, 0.5])
CONCENTRATIONS = (0.02, 2.0, 9.0, 11.0, 1e2, 1e4, 1e6, 1e8)
# by family: the density of all data at a concentration, by NumPyro's class and by SciPy
DENSITIES = {
    "NegativeBinomial2": (
        lambda c: S("y", dist.NegativeBinomial2(7.0, c), obs=COUNTS),
        lambda c: stats.nbinom.logpmf(COUNTS, c, c / (c + 7)),
    ),
    "GammaPoisson": (
        lambda c: S("y", dist.GammaPoisson(c, c / 7), obs=COUNTS),
        lambda c: stats.nbinom.logpmf(COUNTS, c, c / (c + 7)),
    ),
    "NegativeBinomialLogits": (
        lambda c: S("y", dist.NegativeBinomialLogits(c, jnp.log(7.0 / c)), obs=COUNTS),
        lambda c: stats.nbinom.logpmf(COUNTS, c, c / (c + 7)),
    ),
    "ZeroInflated": (
        lambda c: S("y", dist.ZeroInflatedDistribution(dist.NegativeBinomial2(7.0, c), gate=0.1), obs=COUNTS),
        lambda c: np.log(0.9 * stats.nbinom.pmf(COUNTS, c, c / (c + 7)) + 0.1 * (COUNTS == 0)),
    ),
    "BetaBinomial": (
        lambda c: S("y", dist.BetaBinomial(0.3 * c, 0.7 * c, 20), obs=HITS),
        lambda c: stats.betabinom.logpmf(HITS, 20, 0.3 * c, 0.7 * c),
    ),
    "BetaBinomial, of one side": (
        lambda c: S("y", dist.BetaBinomial(2.0, c, 20), obs=HITS),
        lambda c: stats.betabinom.logpmf(HITS, 20, 2.0, c),
    ),
    "BetaNegativeBinomial": (
        lambda c: S("y", dist.BetaNegativeBinomial(0.3 * c, 0.7 * c, 5.0), obs=COUNTS),
        lambda c: stats.betanbinom.logpmf(COUNTS, 5, 0.7 * c, 0.3 * c),
    ),
    "DirichletMultinomial": (
        lambda c: S("y", dist.DirichletMultinomial(c * jnp.asarray(PARTS, jnp.float32), 30), obs=SHARES),
        lambda c: stats.dirichlet_multinomial.logpmf(SHARES, c * PARTS, 30),
    ),
    "Gamma": (
        lambda c: S("y", dist.Gamma(c, c / 3), obs=SPREAD),
        lambda c: stats.gamma.logpdf(SPREAD.astype(float), c, scale=3 / c),
    ),
    "StudentT": (
        lambda c: S("y", dist.StudentT(c, 1.0, 2.0), obs=REALS),
        lambda c: stats.t.logpdf(REALS.astype(float), c, 1, 2),
    ),
    "Beta": (
        lambda c: S("y", dist.Beta(0.3 * c, 0.7 * c), obs=NEAR),
        lambda c: stats.beta.logpdf(NEAR.astype(float), 0.3 * c, 0.7 * c),
    ),
}


def test_ratios_and_slopes_are_those_of_products():
    """For whole k the ratio is a product: its logarithm is a sum without anything that cancels."""
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            eps = np.finfo(dtype).eps
            both = jax.jit(jax.value_and_grad(log_rising))
            for x in (1e-6, 0.3, 4.0, 9.99, 10.01, 37.0, 1e3, 1e5, 1e7):
                for k in (0, 1, 2, 9, 40, 900):
                    x = dtype(x)
                    each = float(x) + np.arange(k)
                    value, slope = map(float, both(x, dtype(k)))
                    assert abs(value - np.log(each).sum()) < 20 * eps * (1 + np.abs(np.log(each)).sum())
                    assert abs(slope - (1 / each).sum()) < 100 * eps * ((1 / each).sum() + 1 / x)


def test_beta_functions_keep_their_digits():
    ratio = jax.jit(log_beta_ratio)
    for _ in range(200):
        x = np.float32(10 ** R.uniform(-3, 7, 3))
        wide, k = x.astype(float), R.integers(0, 60, 3)
        truth = special.gammaln(wide).sum() - special.gammaln(wide.sum())
        assert abs(float(log_beta(jnp.asarray(x))) - truth) < 5e-6 * (1 + abs(truth))
        more = special.gammaln(wide + k).sum() - special.gammaln((wide + k).sum()) - truth
        assert abs(float(ratio(x, np.float32(k))) - more) < 2e-5 * (1 + abs(more))


@pytest.mark.share(3)
@pytest.mark.parametrize("name", DENSITIES)
def test_densities_hold_at_large_concentrations(name):
    statement, of = DENSITIES[name]

    def model():
        c = S("c", dist.LogNormal(0.0, 1.0))
        with numpyro.plate("n", 20 if name in ("Beta", "DirichletMultinomial") else 50):
            statement(c)

    density = gb.model(model).density
    both = jax.jit(
        jax.value_and_grad(lambda c: density.log_joint({"c": c}) - dist.LogNormal(0.0, 1.0).log_prob(c))
    )
    for c in CONCENTRATIONS:
        c = float(np.float32(c))
        value, slope = map(float, both(jnp.float32(c)))
        truth, lost = of(c).sum(), 2e-6 * np.abs(of(c)).sum()
        # values of betas and gammas are rounded, and their exponents are as large as the concentration
        assert abs(value - truth) < 2e-3 + lost + (20 * c * 1e-7 if name in ("Beta", "Gamma") else 0)
        if c < 1e4:  # beyond, differences of doubles tell too little
            expected = (of(c * 1.001).sum() - of(c * 0.999).sum()) / (0.002 * c)
            assert slope == pytest.approx(expected, rel=5e-3, abs=1e-4)


def rates(n, y):
    m, kappa = S("m", dist.Uniform(0, 1)), S("kappa", dist.Pareto(1.0, 1.5))
    with numpyro.plate("N", len(n)):
        phi = S("phi", dist.Beta(m * kappa, (1 - m) * kappa))
        S("y", dist.Binomial(n, phi), obs=y)


def exposures(t, y):
    a, b = S("a", dist.HalfCauchy(10.0)), S("b", dist.HalfCauchy(10.0))
    with numpyro.plate("N", len(t)):
        rate = S("rate", dist.Gamma(a, b))
        S("y", dist.Poisson(rate * t), obs=y)


def shares(x):
    c = S("c", dist.HalfCauchy(10.0))
    with numpyro.plate("N", len(x)):
        p = S("p", dist.Dirichlet(c * jnp.asarray(PARTS, jnp.float32)))
        S("x", dist.Multinomial(30, p), obs=x)


def noises(y):
    a = S("a", dist.HalfCauchy(10.0))
    with numpyro.plate("N", len(y)):
        v = S("v", dist.InverseGamma(a, 4 * a))
        S("y", dist.Normal(0.0, jnp.sqrt(v)), obs=y)


HIT = np.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7])
EXPOSURES = np.float32(R.gamma(2, 3, 30))
CAUGHT = R.poisson(2.0 * EXPOSURES)
STEPS = np.float32(2 * R.normal(size=30))
# by model: its data, what is integrated out, a place far away by a scale, and the truth there
MARGINALS = {
    "rates": (
        (rates, (np.full(18, 45), HIT), "phi"),
        lambda s: {"m": 0.265, "kappa": s},
        lambda m, kappa: (
            stats.betabinom.logpmf(HIT, 45, m * kappa, (1 - m) * kappa).sum()
            + stats.pareto.logpdf(kappa, 1.5)
        ),
    ),
    "exposures": (
        (exposures, (EXPOSURES, CAUGHT), "rate"),
        lambda s: {"a": 2 * s, "b": s},
        lambda a, b: (
            stats.nbinom.logpmf(CAUGHT, a, b / (b + EXPOSURES.astype(float))).sum()
            + stats.halfcauchy.logpdf([a, b], scale=10).sum()
        ),
    ),
    "shares": (
        (shares, (SHARES,), "p"),
        lambda s: {"c": s},
        lambda c: (
            stats.dirichlet_multinomial.logpmf(SHARES, c * PARTS, 30).sum()
            + stats.halfcauchy.logpdf(c, scale=10)
        ),
    ),
    "noises": (
        (noises, (STEPS,), "v"),
        lambda s: {"a": s},
        lambda a: (
            stats.t.logpdf(STEPS.astype(float), 2 * a, scale=2).sum() + stats.halfcauchy.logpdf(a, scale=10)
        ),
    ),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("name", MARGINALS)
def test_what_is_integrated_out_leaves_a_density_that_holds(name):
    (fn, args, site), place, of = MARGINALS[name]
    marginal = gb.model(fn, *args).marginal(site)
    data = tuple(marginal.density.arguments.arrays)
    kernels = jax.jit(jax.value_and_grad(lambda state: marginal.logdensity_at(state, data)))
    near = {n: jnp.float32(v) for n, v in place(2.0).items()}
    constants = marginal.logdensity(near, constants=True) - marginal.logdensity(near)
    for s in (1.5, 9.0, 1e2, 1e4, 1e6, 1e8):
        state = {n: jnp.float32(v) for n, v in place(s).items()}
        wide = {n: float(v) for n, v in state.items()}
        truth = of(**wide)
        value, slopes = kernels(state)
        assert abs(float(value + constants) - truth) < 2e-3 + 2e-6 * abs(truth)
        if s < 1e4:
            for n, v in wide.items():
                up, down = (of(**{**wide, n: v * f}) for f in (1.001, 0.999))
                assert float(slopes[n]) == pytest.approx((up - down) / (0.002 * v), rel=5e-3, abs=1e-3)


@pytest.mark.slow
def test_values_that_cannot_be_have_no_density():
    """More hits than throws, fewer than none, and nothing at all where something must be."""

    def model(value):
        c = S("c", dist.LogNormal(0.0, 1.0))
        with numpyro.plate("n", 3):
            S("y", dist.BetaBinomial(c, 2.0, 9), obs=value)
            S("k", dist.NegativeBinomial2(7.0, c), obs=value)
            S("g", dist.Gamma(c, 1.0), obs=jnp.abs(1.0 * value))

    for value, wrong in ((10, {"y"}), (-1, {"y", "k"}), (0, {"g"}), (3, set())):
        density = gb.model(model, jnp.full(3, value), check_values=False).density
        ev = density.evaluator({"c": jnp.float32(2.5)})
        for name in ("y", "k", "g"):
            found = ev.full(density.outputs["log_prob"][name])
            assert bool(jnp.all(found == -jnp.inf)) is (name in wrong), (value, name, found)


FLAT = {
    "Dirichlet": (lambda: dist.Dirichlet(jnp.ones(3)), lambda p: dist.Multinomial(30, p), SHARES[:1]),
    "Beta": (lambda: dist.Beta(1.0, 1.0), lambda p: dist.Binomial(20, p), HITS[0]),
    "Exponential": (lambda: dist.Exponential(0.5), dist.Poisson, COUNTS[0]),
}


@pytest.mark.parametrize("name", FLAT)
def test_flat_priors_have_their_constants(name):
    prior, likelihood, seen = FLAT[name]

    def model():
        p = S("p", prior())
        S("y", likelihood(p), obs=seen)

    truth = {
        "Dirichlet": stats.dirichlet_multinomial.logpmf(SHARES[0], np.ones(3), 30),
        "Beta": -np.log(21),
        "Exponential": stats.nbinom.logpmf(COUNTS[0], 1, 0.5 / 1.5),
    }[name]
    found = gb.model(model).marginal("p").logdensity({}, constants=True)
    assert float(found) == pytest.approx(truth, abs=1e-4)


def hits_of(n, hits):
    p = S("p", dist.Beta(1.0, 1.0))
    with numpyro.plate("n", len(n)):
        S("y", dist.Binomial(n, p), obs=hits)


def counts_of(y):
    rate = S("rate", dist.Gamma(2.0, 1e-3))
    with numpyro.plate("n", len(y)):
        S("y", dist.Poisson(rate), obs=y)


@pytest.mark.share(2)
@pytest.mark.parametrize("size", [1000, pytest.param(100_000, marks=pytest.mark.slow), 10_000_000])
def test_evidences_of_large_counts(size):
    """A logarithm of ten millions' factorial is known to 16 in single precision."""
    n, hits = np.array([size, 2 * size]), np.array([size // 20, size // 10 + int(size**0.5)])
    found = gb.model(hits_of, n, hits).marginal("p").logdensity({}, constants=True)
    some, none = hits.sum(), (n - hits).sum()
    ways = gammaln(n + 1) - gammaln(hits + 1) - gammaln(n - hits + 1)
    assert float(found) == pytest.approx(ways.sum() + betaln(1 + some, 1 + none), abs=2e-3)
    found = gb.model(counts_of, hits).marginal("rate").logdensity({}, constants=True)
    exact = 2 * np.log(1e-3) + gammaln(2 + some) - (2 + some) * np.log(1e-3 + 2) - gammaln(hits + 1).sum()
    assert float(found) == pytest.approx(exact, abs=2e-2)


def change_point(n, y):
    t = S("t", dist.DiscreteUniform(1, 7))
    p = S("p", dist.Beta(1.0, 1.0).expand([2]))
    S("y", dist.Binomial(n, p[(jnp.arange(8) >= t).astype(int)]), obs=y)


@pytest.mark.slow
def test_odds_of_large_counts():
    n, y = 1_000_000, np.random.default_rng(0).binomial(1_000_000, 0.05, 8)
    model = gb.model(change_point, n, y)
    exact = np.array(
        [
            betaln(1 + y[:t].sum(), 1 + t * n - y[:t].sum())
            + betaln(1 + y[t:].sum(), 1 + (8 - t) * n - y[t:].sum())
            for t in range(1, 8)
        ]
    )
    exact = np.exp(exact - exact.max())
    np.testing.assert_allclose(model.marginal("t", "p").probs({})["t"], exact / exact.sum(), atol=1e-4)
    with jax.enable_x64(True):
        assert gb.model(change_point, n, y).marginal("t", "p").in_double is None


@pytest.mark.slow
def test_batters_who_may_be_alike_have_the_tail_of_quadrature():
    """Efron and Morris's batters: the concentration may be anything from ten on. One chain in twelve had gone
    to eight million, where rounding was 750 nats above the posterior's mode."""
    log_kappa, m = np.linspace(0, 14, 600), np.linspace(0.15, 0.45, 200)
    kappa = np.exp(log_kappa)[:, None, None]
    heights = stats.betabinom.logpmf(HIT, 45, m[:, None] * kappa, (1 - m[:, None]) * kappa).sum(-1)
    heights = heights - 1.5 * log_kappa[:, None]  # Pareto's density, by the logarithm
    weight = np.exp(heights - heights.max()).sum(1)
    beyond = weight[log_kappa > np.log(300)].sum() / weight.sum()
    run = gb.model(rates, np.full(18, 45), HIT).sample(draws=1000, chains=4, seed=0)
    assert run.verdict.state == "converged", run.verdict
    far = np.asarray(run.draws["kappa"]) > 300
    ess = next(s for s in run.diagnostics() if s.label == "kappa").ess_tail
    assert abs(far.mean() - beyond) < 4 * np.sqrt(beyond * (1 - beyond) / ess)
    assert np.asarray(run.draws["kappa"]).max() < 1e7


FAMILIES = {
    "Poisson": (lambda m: dist.Poisson(m), lambda k, m: stats.poisson.logpmf(k, m)),
    "Binomial": (
        lambda m: dist.Binomial(100_000, m / 100_000),
        lambda k, m: stats.binom.logpmf(k, 100_000, m / 100_000),
    ),
    "NegativeBinomial2": (
        lambda m: dist.NegativeBinomial2(m, 50_000.0),
        lambda k, m: stats.nbinom.logpmf(k, 50_000, 50_000 / (50_000 + m)),
    ),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", FAMILIES)
def test_components_of_large_counts_are_told_apart(name):
    """`k log m - m` of counts of forty thousand is off by a fiftieth of a nat a datum in single precision,
    and a mixture summed out of sixty of them by a nat: no step of NUTS is small enough."""
    family, of = FAMILIES[name]
    k = R.poisson(np.array([40_000.0, 40_300.0])[R.integers(0, 2, 60)])

    def mixture(k):
        mu = S("mu", dist.Normal(40_000.0, 500.0).expand([2]))
        w = S("w", dist.Dirichlet(jnp.ones(2)))
        with numpyro.plate("n", 60):
            z = S("z", dist.Categorical(w))
            S("k", family(mu[z]), obs=k)

    model = gb.model(mixture, k)
    mu, w = np.array([39_990.0, 40_310.0]), np.array([0.4, 0.6])
    state = {"mu": jnp.asarray(mu, jnp.float32), "w": jnp.asarray(w, jnp.float32), "z": jnp.zeros(60, int)}
    each = np.log(w) + of(k[:, None], mu)
    truth = each - special.logsumexp(each, axis=1, keepdims=True)
    np.testing.assert_allclose(model.conditional("z").logits(state), truth, atol=2e-4)

    def whole(mu):
        prior = stats.norm.logpdf(mu, 40_000, 500).sum()
        return prior + special.logsumexp(np.log(w) + of(k[:, None], mu), axis=1).sum()

    marginal = model.marginal("z").logdensity
    for step in (0.5, 3.0, 100.0):
        moved = mu + np.array([step, -step])
        found = float(marginal({**state, "mu": jnp.asarray(moved, jnp.float32)}) - marginal(state))
        assert found == pytest.approx(whole(moved) - whole(mu), abs=3e-3)


@pytest.mark.slow
def test_large_counts_that_a_loop_writes_are_drawn():
    """Sites with numbered names are drawn as one array, of another density than the model's own."""
    k = R.poisson(np.array([40_000.0, 40_300.0])[np.arange(8) % 2])

    def loop(k):
        mu = S("mu", dist.Normal(40_000.0, 500.0).expand([2]))
        for i in range(8):
            z = S(f"z[{i}]", dist.Bernoulli(0.5))
            S(f"k[{i}]", dist.Poisson(mu[z]), obs=k[i])

    model, mu = gb.model(loop, k), np.array([39_990.0, 40_310.0])
    for schedule in (None, "Gibbs z (*) NUTS mu"):
        run = model.sample(draws=20, warmup=20, chains=1, seed=0, schedule=schedule)
        assert run.draws["z"].shape == (1, 20, 8)
    each = stats.poisson.logpmf(k[0], mu)
    state = {"mu": jnp.asarray(mu, jnp.float32), **{f"z[{i}]": 0 for i in range(8)}}
    truth = each - special.logsumexp(each)
    np.testing.assert_allclose(model.conditional("z[0]").logits(state), truth, atol=2e-4)
