"""Sums without end against sums by hand, closed forms and quadrature."""

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ModelError
from numpyro import factor, plate, sample
from scipy import stats
from scipy.special import logsumexp

Y = np.array([[2, 1, 2], [6, 7, 5], [3, 5, 5], [8, 8, 6], [0, 0, 1], [4, 6, 3]])
N = np.arange(30_000)
FAR = np.array([100.0, 10.0, -30.0, 140.0])


def animals(y):
    """The N-mixture of ecology (Royle 2004): animals per place, of which each visit sees some."""
    lam, p = sample("lam", dist.Gamma(2.0, 0.2)), sample("p", dist.Beta(1.0, 1.0))
    with plate("places", len(y), dim=-2):
        n = sample("n", dist.Poisson(lam))
        with plate("visits", y.shape[1], dim=-1):
            sample("y", dist.Binomial(n, p), obs=y)


def overdispersed(y):
    r, q = sample("r", dist.Gamma(2.0, 1.0)), sample("q", dist.Normal(0.0, 1.0))
    with plate("places", len(y)):
        n = sample("n", dist.NegativeBinomial2(6.0, r))
        sample("y", dist.Normal(n + q, 1.5), obs=y)


def waiting(y):
    g, s = sample("g", dist.Beta(1.0, 1.0)), sample("s", dist.HalfNormal(2.0))
    k = sample("k", dist.Geometric(g))
    sample("y", dist.Normal(k, s), obs=y)


def two_rates(y):
    """Nothing to speak of between 2 and 900, where most of the posterior is."""
    far, p = sample("far", dist.Normal(900.0, 20.0)), sample("p", dist.Beta(4.0, 4.0))
    rates = dist.Poisson(jnp.stack([2.0, far]))
    k = sample("k", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.7, 0.3])), rates))
    sample("y", dist.Normal(k * p, 20.0), obs=y)


def mostly_nothing(y):
    rate, p = sample("rate", dist.Gamma(90.0, 0.3)), sample("p", dist.Beta(4.0, 4.0))
    with plate("places", len(y)):
        k = sample("k", dist.ZeroInflatedPoisson(0.4, rate))
        sample("y", dist.StudentT(3.0, k * p, 40.0), obs=y)


def waves(y):
    """Of a count that falls slowly, data that say it is one of many."""
    a, n = sample("a", dist.Normal(0.0, 1.0)), sample("n", dist.Geometric(0.003))
    sample("y", dist.Normal(10 * jnp.sin(0.05 * n) + a, 0.5), obs=y)


def terms_of_waves(a):
    own = np.log(0.003) + N * np.log1p(-0.003) + stats.norm(10 * np.sin(0.05 * N) + a, 0.5).logpdf(9.0)
    return own[:, None], stats.norm.logpdf(a)


def terms_of_two_rates(far, p):
    prior = np.logaddexp(np.log(0.7) + stats.poisson(2).logpmf(N), np.log(0.3) + stats.poisson(far).logpmf(N))
    own = prior + stats.norm(N * p, 20).logpdf(450.0)
    return own[:, None], stats.norm(900, 20).logpdf(far) + stats.beta(4, 4).logpdf(p)


def terms_of_mostly_nothing(rate, p):
    with np.errstate(divide="ignore"):
        prior = np.log(0.4 * (N == 0) + 0.6 * stats.poisson(rate).pmf(N))[:, None]
    rest = stats.gamma(90, scale=1 / 0.3).logpdf(rate) + stats.beta(4, 4).logpdf(p)
    return prior + stats.t(3, N[:, None] * p, 40).logpdf(FAR), rest


def terms_of_animals(lam, p):
    seen = stats.binom(N[:, None, None], p).logpmf(Y).sum(-1)
    return seen + stats.poisson(lam).logpmf(N)[:, None], stats.gamma(2, scale=5).logpdf(lam)


def terms_overdispersed(r, q):
    prior = stats.nbinom(r, r / (r + 6.0)).logpmf(N)[:, None]
    rest = stats.gamma(2).logpdf(r) + stats.norm.logpdf(q)
    return prior + stats.norm(N[:, None] + q, 1.5).logpdf(Y[:, 0]), rest


def terms_of_waiting(g, s):
    own = np.log(g) + N * np.log1p(-g) + stats.norm(N, s).logpdf(2.5)
    return own[:, None], stats.halfnorm(scale=2.0).logpdf(s)


CASES = {
    "one block": (animals, Y, "n", terms_of_animals, {"lam": 6.0, "p": 0.6}),
    "rates that grow": (animals, Y, "n", terms_of_animals, {"lam": 3000.0, "p": 0.002}),
    "a long tail": (overdispersed, Y[:, 0] + 0.0, "n", terms_overdispersed, {"r": 0.2, "q": 0.3}),
    "a gap": (two_rates, 450.0, "k", terms_of_two_rates, {"far": 905.0, "p": 0.48}),
    "data with many modes": (waves, 9.0, "n", terms_of_waves, {"a": 0.3}),
    "a gap after nothing": (mostly_nothing, FAR, "k", terms_of_mostly_nothing, {"rate": 310.0, "p": 0.4}),
    "a geometric tail": (waiting, 2.5, "k", terms_of_waiting, {"g": 0.002, "s": 300.0}),
}


@pytest.mark.share(8)
@pytest.mark.parametrize("case", CASES)
def test_sums_derivatives_moments_and_draws(case):
    model, data, site, terms, at = CASES[case]
    marginal = gibbsite.model(model, data).marginal(site)
    names = list(at)

    def exact(values):
        t, rest = terms(*values)
        return logsumexp(t, axis=0).sum() + rest

    here = np.array([at[n] for n in names])
    value = marginal.logdensity(at, constants=True)
    # logarithms of factorials of 900 have a last digit of .0003
    assert value == pytest.approx(exact(here), rel=3e-5 if case != "a gap" else 1e-4)

    def density(x):
        return marginal.logdensity(dict(zip(names, x, strict=True)))

    found = jax.grad(density)(jnp.asarray(here))
    curved = jax.hessian(density)(jnp.asarray(here))
    for i, step in enumerate(1e-4 * np.diag(np.abs(here))):
        slope = (exact(here + step) - exact(here - step)) / (2 * step[i])
        assert found[i] == pytest.approx(slope, rel=2e-3, abs=1e-3)
        if case == "a long tail":
            continue  # JAX's second derivative of the logarithm of a gamma function fails above some hundred
        bend = (exact(here + 10 * step) - 2 * exact(here) + exact(here - 10 * step)) / (10 * step[i]) ** 2
        assert curved[i, i] == pytest.approx(bend, rel=2e-2, abs=2e-2 / here[i] ** 2)
    log_terms = terms(*here)[0]
    weights = np.exp(log_terms - logsumexp(log_terms, axis=0))
    mean = (weights * N[:, None]).sum(0)
    variance = (weights * (N[:, None] - mean) ** 2).sum(0)
    moments = marginal.moments(at)[site]
    np.testing.assert_allclose(np.ravel(moments.mean), mean, rtol=2e-4)
    np.testing.assert_allclose(np.ravel(moments.variance), variance, rtol=2e-3)
    assert log_terms[np.ravel(marginal.best(at)[site]).astype(int), np.arange(len(mean))] == pytest.approx(
        log_terms.max(0),
        abs=3e-3,  # the last digit of what terms are made of, at 24,000
    )
    many = 4000
    draws = jax.vmap(lambda k: marginal.sample(k, at)[site])(jax.random.split(jax.random.key(0), many))
    draws = np.asarray(draws).reshape(many, -1)
    assert (np.abs(draws.mean(0) - mean) < 4 * np.sqrt(variance / many)).all()
    third = (weights * np.abs(N[:, None] - mean) ** 4).sum(0)
    assert (np.abs(draws.var(0) - variance) < 4.5 * np.sqrt((third - variance**2) / many)).all()


def test_thinned_counts_have_a_closed_form():
    """One visit: counts thinned by `p` are Poisson of `lam * p`."""
    marginal = gibbsite.model(animals, Y[:, :1]).marginal("n")
    rates = np.array([[3.0, 0.3], [40.0, 0.1]])
    found = [marginal.logdensity({"lam": a, "p": p}, constants=True) for a, p in rates]
    exact = [stats.poisson(a * p).logpmf(Y[:, 0]).sum() + stats.gamma(2, scale=5).logpdf(a) for a, p in rates]
    np.testing.assert_allclose(found, exact, rtol=2e-5)


@pytest.mark.slow
def test_animals_are_summed_out_by_default():
    assert gibbsite.model(animals, Y).schedule().text == "Eliminate n > NUTS [lam p]"


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize("schedule", ["Eliminate n > NUTS [lam p]", "Window n (*) NUTS [lam p]"])
def test_probabilities_of_counts_reach_to_the_largest_that_was_drawn(schedule):
    run = gibbsite.model(animals, Y).sample(draws=30, warmup=20, chains=1, seed=0, schedule=schedule)
    lam, p = (run.draws[n].reshape(-1, 1, 1).astype(float) for n in ("lam", "p"))
    n = np.arange(400)
    logs = stats.poisson(lam).logpmf(n) + stats.binom(n, p[..., None]).logpmf(Y[..., None]).sum(2)
    weights = np.exp(logs - logsumexp(logs, axis=-1, keepdims=True)).mean(0)
    found = run.probs["n"][:, 0]
    assert found.shape == (len(Y), run.draws["n"].max() + 1)
    np.testing.assert_allclose(found, weights[:, : found.shape[-1]], atol=2e-5)
    assert (found.sum(-1) <= 1 + 1e-5).all() and run.probs.to_frame("n").columns[0] == 0


@pytest.mark.slow
def test_a_run_without_the_animals_reaches_their_posterior():
    run = gibbsite.model(animals, Y).sample(draws=600, warmup=300, chains=2, seed=0)
    lam, p = np.linspace(0.2, 60, 240), np.linspace(0.01, 0.99, 99)
    n = np.arange(250)
    prior = stats.poisson(lam[:, None]).logpmf(n) + 0.0
    seen = stats.binom(n[:, None, None, None], p).logpmf(Y[..., None]).sum(2)
    logs = [logsumexp(prior[:, :, None, None] + seen[None, :, [i]], axis=1)[:, 0] for i in range(len(Y))]
    total = sum(logs) + stats.gamma(2, scale=5).logpdf(lam)[:, None]
    weights = np.exp(total - logsumexp(total))
    exact = {"lam": weights.sum(1) @ lam, "p": weights.sum(0) @ p}
    table = run.summary().loc[["lam", "p"]]
    for name, mean in exact.items():
        assert abs(table.loc[name, "mean"] - mean) < 4 * table.loc[name, "mcse_mean"] + 0.002 * mean
    assert table["ess_bulk"].min() > 300
    # counts come back with every draw, as many as were seen at least
    assert (run.draws["n"][..., 0] >= Y.max(1)).all()


def test_what_has_no_sum_without_end_says_why():
    def walk(y):
        first = sample("a", dist.Poisson(4.0))
        second = sample("b", dist.Poisson(first + 1.0))
        sample("y", dist.Normal(first + second, sample("s", dist.HalfNormal(1.0))), obs=y)

    model = gibbsite.model(walk, 5.0)
    with pytest.raises(ModelError, match="'a' and 'b' meet in"):
        model.marginal("a", "b")
    given = {"b": 3, "s": 1.0}
    exact = stats.poisson(4).logpmf(N) + stats.poisson(N + 1.0).logpmf(3) + stats.norm(N + 3.0).logpdf(5.0)
    found = model.marginal("a").logdensity(given, constants=True) - stats.halfnorm.logpdf(1.0)
    assert found == pytest.approx(logsumexp(exact), rel=1e-5)

    def coupled():
        with plate("n", 3):
            k = sample("k", dist.Poisson(1.0))
        sample("y", dist.Normal(k.sum() * sample("c", dist.Normal(0, 1)), 1.0), obs=2.0)

    with pytest.raises(ModelError, match=r"the elements of k meet in one term.*Window k"):
        gibbsite.model(coupled).marginal("k")


def test_several_at_once_that_may_rise_again_are_not_cut():
    def model():
        mixture = dist.MixtureSameFamily(
            dist.Categorical(jnp.array([0.7, 0.3])), dist.Poisson(jnp.array([2.0, 900.0]))
        )
        k = sample("k", mixture.expand([3]).to_event(1))
        sample("y", dist.Normal(k * sample("p", dist.Beta(4.0, 4.0)), 20.0).to_event(1), obs=jnp.zeros(3))

    with pytest.raises(ModelError, match="may rise again"):
        gibbsite.model(model).marginal("k")


def test_a_sum_that_does_not_end_is_no_number():
    """Never a sum that was cut: there is none, and draws stay."""

    def heavy():
        sample("k", dist.Poisson(sample("rate", dist.LogNormal(0.0, 9.0))))
        factor("any", 0.0)

    marginal = gibbsite.model(heavy).marginal("k")
    assert marginal.logdensity({"rate": 50.0}, constants=True) == pytest.approx(
        stats.lognorm(9.0).logpdf(50.0), rel=1e-4
    )
    assert np.isnan(marginal.logdensity({"rate": 1e7}))
