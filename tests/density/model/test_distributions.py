"""Each distribution of NumPyro as a site, latent and observed: the density is NumPyro's own."""

import inspect

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.checking.perturbation import QUICK
from helpers.models.distributions import LEFT_OUT, MAKERS
from helpers.startup.arrays import array
from numpyro.distributions import constraints
from numpyro.infer.util import log_density
from scipy import stats
from scipy.sparse import csr_matrix

A = array([0.5, 1.0, 1.7])


def latent_site(a, make):
    numpyro.sample("x", make(a))


def observed_site(x, make):
    a = numpyro.sample("a", dist.Uniform(0.3, 2.0).expand([3]))
    numpyro.sample("x", make(a), obs=x)


def drawn(make, a):
    """A value with a finite density, which one drawn at the edge of a support may not have."""

    def once(key):
        d = make(a)
        value = d.sample(key)
        return value, d.log_prob(value)

    draw = jax.jit(once, compiler_options=QUICK)
    for seed in range(20):
        value, lp = draw(jax.random.key(seed))
        if jnp.all(jnp.isfinite(lp)):
            return value
    raise AssertionError("no value with a finite density")


def same(model, args, states):
    """NumPyro's log density of the original model, which the density of `model` must equal, per state."""

    def both(state):
        theirs = log_density(model.fn, args, {}, state)[0]
        return model.density.log_joint(state), theirs

    compiled = jax.jit(both, compiler_options=QUICK)
    pairs = np.array([compiled(state) for state in states])
    assert np.isfinite(pairs).all()
    np.testing.assert_allclose(pairs[:, 0], pairs[:, 1], rtol=2e-5, atol=2e-4)
    return pairs[:, 1]


@pytest.mark.share(45)
@pytest.mark.parametrize("name", MAKERS)
def test_latent_and_observed(name):
    make = MAKERS[name]
    with numpyro.validation_enabled(False):
        value = drawn(make, A)
        refused = {"Delta": r"'x'.*Delta.*single point", "ProjectedNormal": r"'x'.*drawn on a sphere"}
        if name in refused:
            with pytest.raises(gb.GibbsiteError, match=refused[name]):
                gb.model(latent_site, A, make)
        else:
            model = gb.model(latent_site, A, make)
            site = model.sites["x"]
            assert site.role == "latent" and site.shape == value.shape and site.batch_shape == (3,)
            same(model, (A, make), [{"x": value}])

        observed = gb.model(observed_site, value, make)
        assert observed.sites["x"].role == "observed" and observed.sites["x"].shape == value.shape
        other = A if name == "Delta" else 0.9 * A + 0.05  # a point mass has no density elsewhere
        found = same(observed, (value, make), [{"a": A}, {"a": other}])
    independent = name in ("BernoulliProbs", "DiscreteUniform", "Uniform", "LogUniform")
    assert independent or name == "Delta" or found[0] != found[1]
    for term, accesses in observed.density.terms_of("a"):
        # an element of a batch is an element of a term, or conditionals would be slow
        apart = term.origin != "x" or all(access.single for access in accesses)
        assert apart or name in ("ExpandedDistribution", "ZeroSumNormal")  # these share one parameter


def test_the_table_is_complete():
    every = {
        n
        for n in dist.__all__
        if inspect.isclass(getattr(dist, n)) and issubclass(getattr(dist, n), dist.Distribution)
    }
    assert every - set(MAKERS) <= set(LEFT_OUT)


def improper(y=None):
    x = numpyro.sample("x", dist.ImproperUniform(constraints.real_vector, (3,), (2,)))
    if y is not None:
        numpyro.sample("y", dist.Normal(x, 1.0), obs=y)


def censored_to_intervals(x):
    loc = numpyro.sample("loc", dist.Normal(0, 1).expand([3]))
    base = dist.Normal(loc, 1.0)
    ends = jnp.array([True, False, False]), jnp.array([False, True, False])
    numpyro.sample("x", dist.IntervalCensoredDistribution(base, *ends), obs=x)


def polya_gamma():
    numpyro.sample("x", dist.TruncatedPolyaGamma((3,)))


def test_distributions_by_name():
    with numpyro.validation_enabled(False):
        y = jnp.ones((3, 2))
        same(gb.model(improper, y), (y,), [{"x": jnp.arange(6.0).reshape(3, 2)}])
        with pytest.raises(gb.GibbsiteError, match="prior of 'x' is improper"):
            gb.model(improper)
        same(gb.model(polya_gamma), (), [{"x": jnp.array([0.2, 0.5, 1.1])}])
        x = jnp.array([[0.1, 0.4], [0.3, 0.9], [-0.2, 0.5]])
        same(gb.model(censored_to_intervals, x), (x,), [{"loc": jnp.array([0.1, -0.4, 0.8])}])


@pytest.mark.parametrize("given", ["array", "sparse"])
def test_neighbours_by_a_sparse_matrix_are_those_of_a_dense_one(given):
    """NumPyro takes the adjacency of a sparse CAR as an array of NumPy or a matrix of SciPy, and no other."""
    near = np.diag(np.ones(4), 1) + np.diag(np.ones(4), -1)

    def m(adjacency, y, sparse=False):
        rho = numpyro.sample("rho", dist.Beta(2, 2))
        phi = numpyro.sample("phi", dist.CAR(0.0, rho, 1.5, adjacency, is_sparse=sparse))
        numpyro.sample("y", dist.Normal(phi, 0.5), obs=y)

    y, adjacency = np.linspace(-1, 1, 5), near if given == "array" else csr_matrix(near)
    state = {"rho": 0.6, "phi": np.array([0.3, 0.1, -0.2, 0.5, 1.0])}
    found = float(gb.model(m, adjacency, y, sparse=True).density.log_joint(state))
    precision = 1.5 * (np.diag(near.sum(1)) - 0.6 * near)
    expected = stats.multivariate_normal.logpdf(state["phi"], np.zeros(5), np.linalg.inv(precision))
    expected += stats.beta.logpdf(0.6, 2, 2) + stats.norm.logpdf(y, state["phi"], 0.5).sum()
    assert found == pytest.approx(expected, abs=1e-4)
