"""Supports that move with other sites of a block of gradients, against quadrature."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats import ess
from gibbsite.kernels.learnt.moving import Between, moving_supports
from numpyro.distributions import constraints
from scipy import stats


def sample(name, fn, obs=None):
    return numpyro.sample(name, fn, obs=obs)


def interval(y):
    """Both ends move, and the data lean on one of them."""
    a = sample("a", dist.Gamma(3.0, 2.0))
    b = sample("b", dist.Uniform(-a, a**2))
    sample("y", dist.StudentT(3.0, a + b, 0.7), obs=y)


def interval_density(a, b, y):
    p = stats.gamma.pdf(a, 3, scale=0.5) * ((b > -a) & (b < a**2)) / (a + a**2)
    return p * stats.t.pdf(y, 3, a + b, 0.7)


class Above(dist.Distribution):
    """A normal density above a bound, of the user's own class."""

    def __init__(self, low):
        self.low = low
        super().__init__(jnp.shape(low))

    @property
    def support(self):
        return constraints.greater_than(self.low)

    def sample(self, key, sample_shape=()):
        return self.low + jnp.abs(jax.random.normal(key, sample_shape + self.batch_shape))

    def log_prob(self, value):
        return dist.Normal(0, 1).log_prob(value - self.low) + jnp.log(2.0)


def half_line(y):
    a = sample("a", dist.StudentT(5.0, 0.0, 1.0))
    b = sample("b", Above(a))
    sample("y", dist.StudentT(3.0, b, 0.5), obs=y)


def half_line_density(a, b, y):
    return stats.t.pdf(a, 5) * 2 * stats.norm.pdf(b - a) * (b > a) * stats.t.pdf(y, 3, b, 0.5)


class Below(dist.Distribution):
    """A normal density below a bound, of the user's own class, whose other parameter bounds nothing."""

    arg_constraints = {"loc": constraints.real, "high": constraints.real}  # noqa: RUF012

    def __init__(self, loc, high):
        self.loc, self.high = loc, high
        super().__init__(jnp.shape(loc))

    @property
    def support(self):
        return constraints.less_than(self.high)

    def sample(self, key, sample_shape=()):
        return self.high - jnp.abs(jax.random.normal(key, sample_shape + self.batch_shape))

    def log_prob(self, value):
        return dist.Normal(self.loc, 1).log_prob(value) - jax.scipy.stats.norm.logcdf(self.high - self.loc)


def own_class(y):
    a = sample("a", dist.StudentT(5.0, 0.0, 1.0))
    b = sample("b", Below(a, 1.0))
    sample("y", dist.StudentT(3.0, b, 0.5), obs=y)


def own_class_density(a, b, y):
    normal = stats.norm.pdf(b - a) / stats.norm.cdf(1 - a) * (b < 1)
    return stats.t.pdf(a, 5) * normal * stats.t.pdf(y, 3, b, 0.5)


def log_uniform(y):
    a = sample("a", dist.Gamma(3.0, 2.0))
    b = sample("b", dist.LogUniform(0.1, 0.2 + a))
    sample("y", dist.StudentT(3.0, a + b, 0.7), obs=y)


def log_uniform_density(a, b, y):
    p = stats.gamma.pdf(a, 3, scale=0.5) * ((b > 0.1) & (b < 0.2 + a)) / (b * np.log((0.2 + a) / 0.1))
    return p * stats.t.pdf(y, 3, a + b, 0.7)


def vector(y):
    """Elements of one site, each between ends of its own."""
    a = sample("a", dist.Gamma(3.0, 2.0))
    b = sample("b", dist.Uniform(-a * jnp.array([1.0, 2.0]), a).to_event(1))
    sample("y", dist.StudentT(3.0, a + b, 0.7).to_event(1), obs=y)


CASES = {
    "interval": (interval, 1.4, interval_density, (1e-3, 12), (-12, 60)),
    "log uniform": (log_uniform, 1.4, log_uniform_density, (1e-3, 12), (0.1, 12)),
    "own class": (own_class, 1.2, own_class_density, (-25, 15), (-25, 1)),
    "half line": (half_line, 0.3, half_line_density, (-25, 15), (-25, 25)),
}


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("case", CASES)
def test_draws_agree_with_quadrature(case):
    model, y, density, (low_a, high_a), (low_b, high_b) = CASES[case]
    m = gb.model(model, y)
    assert m.schedule().text == "NUTS [a b]"
    run = m.sample(draws=2500, seed=0, warmup=500)
    a, b = np.linspace(low_a, high_a, 1501)[:, None], np.linspace(low_b, high_b, 6001)[None]
    w = density(a, b, y)
    w /= w.sum()
    for name, x in (("a", a), ("b", b)):
        draws = run.draws[name].astype(float)
        for power in (1, 2):
            mean = (w * x**power).sum()
            v = draws**power
            error = v.std() / np.sqrt(max(float(ess(v)), 100.0))
            assert abs(v.mean() - mean) < 4.5 * error, (name, power, v.mean(), mean)
    b_draws, a_draws = run.draws["b"], run.draws["a"]
    if case == "interval":
        assert np.all((b_draws >= -a_draws) & (b_draws <= a_draws**2))


@pytest.mark.slow
def test_elements_have_ends_of_their_own():
    m = gb.model(vector, np.array([0.5, 1.0]))
    assert m.schedule().text == "NUTS [a b]"
    run = m.sample(draws=600, seed=0)
    a, b = run.draws["a"][..., None], run.draws["b"]
    assert np.all((b >= -a * np.array([1, 2]) - 1e-5) & (b <= a + 1e-5)) and run.verdict.ok
    sliced = m.sample(draws=1500, seed=1, schedule="Slice a (*) Slice b")
    for n in ("a", "b"):
        x, v = run.draws[n].astype(float), sliced.draws[n].astype(float)
        for i in np.ndindex(x.shape[2:]):
            s, t = x[(..., *i)], v[(..., *i)]
            error = np.hypot(s.std() / np.sqrt(float(ess(s))), t.std() / np.sqrt(float(ess(t))))
            assert abs(s.mean() - t.mean()) < 4.5 * error


def observed_bound(y):
    a = sample("a", dist.Gamma(3.0, 2.0))
    sample("y", dist.Uniform(0, a), obs=y)


def exact(y):
    a = sample("a", dist.Normal(0.0, 1.0))
    x = sample("x", dist.Uniform(a - 1.0, a + 1.0))
    sample("y", dist.Normal(x, 1.0), obs=y)


def integers(y):
    n = sample("n", dist.Poisson(4.0))
    x = sample("x", dist.Uniform(0.0, n + 1.0))
    sample("y", dist.Normal(x, 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "y"), [(observed_bound, np.array([0.3, 0.5])), (exact, 0.5), (integers, 1.0)]
)
def test_what_gradients_cannot_follow_or_is_drawn_exactly_stays(model, y):
    assert "NUTS" not in gb.model(model, y).schedule().text


def test_the_ends_are_those_that_the_data_and_latents_give():
    m = gb.model(interval, 1.4)
    (found,) = moving_supports(m.density).values()
    assert found.site == "b" and found.reads == ("a",) and found.interval is constraints.interval
    with pytest.raises(gb.GibbsiteError, match="bounds the support of y"):
        gb.model(observed_bound, np.array([0.3, 0.5])).schedule("NUTS a")


@pytest.mark.slow
def test_a_flat_prior_is_normal_between_two_ends():
    to = Between(jnp.array(-1.0), jnp.array(3.0))
    u = jnp.linspace(-5, 5, 41)
    x = to(u)
    slope = jax.vmap(jax.grad(lambda u: to(u)))(u)
    assert np.allclose(to.inv(x)[4:-4], u[4:-4], atol=1e-3)
    assert np.allclose(np.log(slope), to.log_abs_det_jacobian(u, x), atol=1e-4)
    assert np.isnan(to.inv(jnp.array([-1.1, 3.1]))).all() and np.isfinite(to(jnp.array([-40.0, 40.0]))).all()
