"""Discrete supports that are finite, however the distribution writes them, against the original joint."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from helpers.startup.arrays import array
from helpers.truths.oracle import against_joint
from scipy.special import logsumexp
from scipy.stats import beta, binom

Y = array([2.0, 3.0, 1.0])


def latent_count(y):
    with numpyro.plate("i", 3):
        n = numpyro.sample("n", dist.DiscreteUniform(5, 8))
        m = numpyro.sample("m", dist.Binomial(n, 0.4))
        numpyro.sample("y", dist.Normal(m * 1.0, 1.0), obs=y)


def counted_by_one(y):
    """A scalar bounds the elements of a vector, which bound what is observed."""
    n = numpyro.sample("n", dist.Categorical(jnp.ones(4) / 4))
    with numpyro.plate("i", 3):
        m = numpyro.sample("m", dist.Binomial(n + 2, 0.4))
        numpyro.sample("y", dist.Binomial(m, 0.7), obs=jnp.array([1, 0, 2]))


def two_bounds(y):
    a = numpyro.sample("a", dist.DiscreteUniform(0, 2))
    b = numpyro.sample("b", dist.Categorical(jnp.ones(3) / 3))
    m = numpyro.sample("m", dist.DiscreteUniform(a, a + b + 1))
    numpyro.sample("y", dist.Normal(m * 1.0, 1.0), obs=y[0])


def betabinomial(y):
    n = numpyro.sample("n", dist.DiscreteUniform(1, 4))
    m = numpyro.sample("m", dist.BetaBinomial(2.0, 3.0, n))
    numpyro.sample("y", dist.Normal(m * 1.0, 1.0), obs=y[0])


def mixture_of_booleans(y):
    with numpyro.plate("n", 3):
        parts = dist.Bernoulli(jnp.array([0.2, 0.9]))
        z = numpyro.sample("z", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.3, 0.7])), parts))
        numpyro.sample("y", dist.Normal(z * 1.0, 1.0), obs=y)


def vectors_of_booleans(y):
    """The three elements of a draw are coupled by the component that they share."""
    parts = dist.Bernoulli(jnp.array([[0.2, 0.9, 0.5], [0.8, 0.3, 0.1]])).to_event(1)
    z = numpyro.sample("z", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.3, 0.7])), parts))
    numpyro.sample("y", dist.Normal(z * 1.0, 1.0).to_event(1), obs=y)


def multinomial(y):
    p = jnp.array([0.2, 0.5, 0.3])
    with numpyro.plate("g", 2):
        z = numpyro.sample("z", dist.Multinomial(4, p))
    numpyro.sample("y", dist.Normal(z.sum(0) * 1.0, 1.0).to_event(1), obs=y)


CASES = {
    "binomial of counts": (latent_count, {"n": [5, 8, 6], "m": [2, 5, 6]}, ("n", "m")),
    "binomials of one count": (counted_by_one, {"n": 1, "m": [1, 2, 3]}, ("n", "m")),
    "both ends": (two_bounds, {"a": 1, "b": 2, "m": 3}, ("a", "b", "m")),
    "beta-binomial": (betabinomial, {"n": 3, "m": 2}, ("n", "m")),
    "mixture of Booleans": (mixture_of_booleans, {"z": [0, 1, 1]}, ("z",)),
    "vectors of Booleans": (vectors_of_booleans, {"z": [0, 1, 1]}, ("z",)),
}


@pytest.mark.share(6)
@pytest.mark.parametrize(
    ("name", "site"), [(name, site) for name, (_, _, sites) in CASES.items() for site in sites]
)
def test_against_the_joint(name, site):
    model, state, _ = CASES[name]
    state = {n: np.array(v) for n, v in state.items()}
    assert against_joint(model, (Y,), site, [state]) == "finite"


def test_counts_dealt_out_to_categories():
    conditional = gb.model(multinomial, Y).conditional("z")
    assert conditional.kind == "finite" and conditional.support.shape == (15, 3)
    assert (conditional.support.sum(1) == 4).all() and len(np.unique(conditional.support, axis=0)) == 15
    z = np.array([[1, 2, 1], [0, 4, 0]])
    ours = np.exp(np.asarray(conditional.logits({"z": z})))
    for i in range(2):
        lp = [
            float(
                dist.Multinomial(4, jnp.array([0.2, 0.5, 0.3])).log_prob(v)
                + dist.Normal(v + z[1 - i] * 1.0, 1.0).log_prob(Y).sum()
            )
            for v in conditional.support
        ]
        p = np.exp(np.array(lp) - max(lp))
        np.testing.assert_allclose(ours[i], p / p.sum(), atol=1e-5)


@pytest.mark.slow
def test_a_latent_count_that_no_other_value_fits():
    """A run moves both, though neither can leave the other behind."""
    run = gb.model(latent_count, Y).sample(draws=50, warmup=10, chains=2, seed=0)
    assert (run.draws["m"] <= run.draws["n"]).all() and np.ptp(run.draws["n"]) == 3


def pairs(y):
    w = numpyro.sample("w", dist.Dirichlet(jnp.array([2.0, 3.0])).expand([3]))
    with numpyro.plate("n", 3):
        numpyro.sample("y", dist.Bernoulli(w[:, 0]), obs=y)


@pytest.mark.slow
def test_a_simplex_of_two_read_as_a_probability():
    points = np.array([[[p, 1 - p]] * 3 for p in (0.2, 0.5, 0.7)], np.float32)
    points[1, 2] = 0.9, 0.1
    assert against_joint(pairs, (jnp.array([1, 0, 1]),), "w", [{}], points) == "conjugate"


def survivors(y):
    """Counts out of counts of the step before, in a loop: their support is bounded by themselves."""
    p, n = numpyro.sample("p", dist.Beta(2, 2)), 9
    for t in range(len(y)):
        n = numpyro.sample(f"n{t}", dist.Binomial(n, p))
        numpyro.sample(f"y{t}", dist.Binomial(n, 0.5), obs=y[t])


def in_turn(y):
    """Two sites that bound each other."""
    p, n = numpyro.sample("p", dist.Beta(2, 2)), 9
    for t in range(len(y)):
        m = numpyro.sample(f"m{t}", dist.Binomial(n, p))
        n = numpyro.sample(f"n{t}", dist.Binomial(m, p))
        numpyro.sample(f"y{t}", dist.Binomial(n, 0.5), obs=y[t])


@pytest.mark.slow
def test_counts_out_of_each_other_are_listed():
    """The widest range of one was asked for by its own, without end."""
    model = gb.model(survivors, np.array([4, 2, 1]))
    assert model.schedule().text == "Eliminate [n0 n1 n2] > NUTS p"
    marginal = model.marginal("n0", "n1", "n2")
    p = np.linspace(0.2, 0.9, 5)
    first, then = np.arange(10)[:, None, None], np.arange(10)[None, :, None]
    third = np.arange(10)[None, None, :]
    each = [
        binom.logpmf(first, 9, q)
        + binom.logpmf(then, first, q)
        + binom.logpmf(third, then, q)
        + binom.logpmf(4, first, 0.5)
        + binom.logpmf(2, then, 0.5)
        + binom.logpmf(1, third, 0.5)
        + beta.logpdf(q, 2, 2)
        for q in p
    ]
    truth = logsumexp(np.stack(each), axis=(1, 2, 3))
    found = np.array([marginal.logdensity({"p": q}) for q in p])
    np.testing.assert_allclose(np.diff(found), np.diff(truth), rtol=1e-4)


@pytest.mark.slow
def test_sites_that_bound_each_other_in_turn_are_drawn():
    run = gb.model(in_turn, np.array([4, 2])).sample(draws=50, warmup=50, chains=2, seed=0)
    m, n = (np.stack([run.draws[f"{name}{t}"] for t in (0, 1)]) for name in "mn")
    assert (n <= m).all() and (m[1] <= n[0]).all() and (m[0] <= 9).all()


def neighbours(y):
    with numpyro.plate("i", 4):
        n = numpyro.sample("n", dist.Binomial(6, 0.3))
    numpyro.sample("y", dist.Binomial(8 - n[:-1] - n[1:], 0.4), obs=y)


def all_before(y):
    with numpyro.plate("i", 4):
        n = numpyro.sample("n", dist.Binomial(6, 0.3))
    numpyro.sample("y", dist.Binomial(12 - jnp.cumsum(n), 0.4), obs=y)


@pytest.mark.parametrize(("fn", "y"), [(neighbours, [2, 1, 3]), (all_before, [4, 2, 1, 0])])
def test_totals_that_several_counts_leave_nothing_of(fn, y):
    """Beyond them a log density is not a number, which is none of the values that can be."""
    y, state = np.array(y), np.array([2, 1, 3, 1])
    ours = np.exp(np.asarray(gb.model(fn, y).conditional("n").logits({"n": state})))

    def weight(i, k):
        n = np.where(np.arange(4) == i, k, state)
        left = 8 - n[:-1] - n[1:] if fn is neighbours else 12 - np.cumsum(n)
        return binom.pmf(k, 6, 0.3) * (binom.pmf(y, left.clip(0), 0.4) * (left >= 0)).prod()

    table = np.array([[weight(i, k) for k in range(7)] for i in range(4)])
    np.testing.assert_allclose(ours, table / table.sum(1, keepdims=True), atol=1e-5)


def neighbours_of_a_share(y):
    p = numpyro.sample("p", dist.Beta(2, 2))
    with numpyro.plate("i", 4):
        n = numpyro.sample("n", dist.Binomial(6, p))
    numpyro.sample("y", dist.Binomial(8 - n[:-1] - n[1:], 0.4), obs=y)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [int, float])
def test_counts_with_a_neighbour_are_summed_out_and_drawn_as_they_are(dtype):
    """A sum over all their values; they are drawn as a chain, by tables of pairs some of which cannot be."""
    y, shares = np.array([2, 1, 3]), np.array([0.2, 0.4, 0.6])
    values = np.array(list(itertools.product(range(7), repeat=4)))
    left = 8 - values[:, :-1] - values[:, 1:]
    beside = (np.where(left >= 0, binom.pmf(y, left.clip(0), 0.4), 0)).prod(1)
    weights = np.array([beside * binom.pmf(values, 6, p).prod(1) for p in shares])
    model = gb.model(neighbours_of_a_share, y.astype(dtype))
    found = [model.marginal("n").logdensity({"p": p}) for p in shares]
    truth = np.log(weights.sum(1)) + beta.logpdf(shares, 2, 2)
    np.testing.assert_allclose(np.diff(found), np.diff(truth), rtol=1e-4)

    conditional = model.conditional("n")
    drawn = np.stack([conditional.sample(jax.random.key(k), {"p": 0.4}) for k in range(400)])
    means = weights[1] @ values / weights[1].sum()
    spread = np.sqrt(weights[1] @ (values - means) ** 2 / weights[1].sum())
    assert (np.abs(drawn.mean(0) - means) < 4.5 * spread / 20).all()


def epidemic(y, people=9):
    """Counts of infections and recoveries, each out of what those before it left."""
    well, ill = jnp.array(people - 2), jnp.array(2)
    for t in range(len(y)):
        n = numpyro.sample(f"n{t}", dist.Binomial(well, 1 - jnp.exp(-1.5 * ill / people)))
        r = numpyro.sample(f"r{t}", dist.Binomial(ill, 0.4))
        well, ill = well - n, ill + n - r
        numpyro.sample(f"y{t}", dist.Binomial(n, 0.7), obs=y[t])


@pytest.mark.slow
def test_an_epidemic_by_chance_moves_to_all_that_it_can_be():
    """Against a sum over all of its courses; the counts of each kind are drawn in colours."""
    y, means, total = np.array([1, 2, 1]), np.zeros(3), 0.0
    for n0, n1, n2 in itertools.product(range(8), repeat=3):
        for r0, r1 in itertools.product(range(3), range(8)):
            well, ill, weight = 7, 2, 1.0
            for t, (n, r) in enumerate([(n0, r0), (n1, r1), (n2, None)]):
                weight *= binom.pmf(n, well, 1 - np.exp(-1.5 * ill / 9)) * binom.pmf(y[t], n, 0.7)
                weight *= 1.0 if r is None else binom.pmf(r, ill, 0.4)
                well, ill = well - n, ill + n - (r or 0)
                if well < 0 or ill < 0 or not weight > 0:
                    weight = 0.0
                    break
            means, total = means + weight * np.array([n0, n1, n2]), total + weight
    model = gb.model(epidemic, y)
    text = "Gibbs [n0 n1 n2] (*) Gibbs r0 (*) Gibbs r1 (*) Gibbs r2"
    run = model.sample(schedule=text, draws=2000, warmup=200, chains=4, seed=0)
    found = np.stack([np.asarray(run.draws[f"n{t}"]) for t in range(3)], -1).astype(float)
    error = found.mean(1).std(0, ddof=1) / 2
    assert (np.abs(found.mean((0, 1)) - means / total) < 5 * error + 0.01).all()
    assert run.summary()["r_hat"].max() < 1.02
