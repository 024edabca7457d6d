"""Joint Gaussian draws against dense algebra on derivatives of the log joint, and against closed forms."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear import layout
from gibbsite.conditional.linear.choose import gaussian_blocks
from gibbsite.conditional.linear.joint import joint_gaussian
from jax.flatten_util import ravel_pytree
from numpyro.handlers import mask

RNG = np.random.default_rng(0)
TIMES = np.array([-14.0, -7.0, 0.0, 7.0, 14.0], np.float32)
GROWTH = RNG.normal(240, 30, (9, 5)).astype(np.float32)
SEEN = GROWTH.copy()
SEEN[RNG.random(SEEN.shape) < 0.3] = np.nan
SUBJECT, ITEM = (RNG.integers(n, size=60).astype(np.int32) for n in (11, 7))
CLASS = np.repeat(np.arange(12, dtype=np.int32), 5)
SCHOOL = np.arange(12) // 3
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = RNG.normal(size=60).astype(np.float32)


def rats(y=GROWTH):
    centre = numpyro.sample("centre", dist.Normal(0, 100.0))
    trend = numpyro.sample("trend", dist.Normal(0, 100.0))
    tau = numpyro.sample("tau", dist.Gamma(2.0, 2.0).expand([3]))
    with numpyro.plate("rats", len(y)):
        alpha = numpyro.sample("alpha", dist.Normal(centre, tau[0] ** -0.5))
        beta = numpyro.sample("beta", dist.Normal(trend, tau[1] ** -0.5))
    numpyro.sample("y", dist.Normal(alpha[:, None] + beta[:, None] * TIMES, tau[2] ** -0.5), obs=y)


def birats(y=GROWTH):
    mu = numpyro.sample("mu", dist.Normal(0, 100.0).expand([2]).to_event(1))
    omega = numpyro.sample("omega", dist.Wishart(4.0, rate_matrix=jnp.eye(2)))
    tau = numpyro.sample("tau", dist.Gamma(2.0, 2.0))
    with numpyro.plate("rats", len(y)):
        beta = numpyro.sample("beta", dist.MultivariateNormal(mu, precision_matrix=omega))
    numpyro.sample("y", dist.Normal(beta[:, :1] + beta[:, 1:] * TIMES, tau**-0.5), obs=y)


def dyes(y=GROWTH):
    theta = numpyro.sample("theta", dist.Normal(0, 1e5))
    tau = numpyro.sample("tau", dist.Gamma(2.0, 2.0).expand([2]))
    with numpyro.plate("batches", len(y), dim=-2):
        mu = numpyro.sample("mu", dist.Normal(theta, tau[0] ** -0.5))
        with numpyro.plate("samples", y.shape[1], dim=-1):
            numpyro.sample("y", dist.Normal(mu, tau[1] ** -0.5), obs=y)


def hepatitis(y=SEEN):
    """A covariate before treatment that is measured with error, and visits that were missed."""
    centre = numpyro.sample("centre", dist.Normal(0, 100.0).expand([2]))
    gamma = numpyro.sample("gamma", dist.Normal(0, 100.0))
    tau = numpyro.sample("tau", dist.Gamma(2.0, 2.0).expand([3]))
    with numpyro.plate("people", len(y)):
        alpha = numpyro.sample("alpha", dist.Normal(centre[0], tau[0] ** -0.5))
        beta = numpyro.sample("beta", dist.Normal(centre[1], tau[1] ** -0.5))
    mean = alpha[:, None] + beta[:, None] * (TIMES - 3.0) + gamma * (X[: len(y), :1] - 0.5)
    with mask(mask=~np.isnan(y)):
        numpyro.sample("y", dist.Normal(mean, tau[2] ** -0.5), obs=y)


def crossed(y=Y):
    intercept = numpyro.sample("intercept", dist.Normal(0, 10.0))
    b = numpyro.sample("b", dist.Normal(0, 5.0).expand([3]).to_event(1))
    tau = numpyro.sample("tau", dist.Gamma(2.0, 2.0).expand([4]))
    with numpyro.plate("subjects", 11):
        u = numpyro.sample("u", dist.Normal(intercept, tau[0] ** -0.5))
        slope = numpyro.sample("slope", dist.Normal(0, tau[3] ** -0.5))
    with numpyro.plate("items", 7):
        v = numpyro.sample("v", dist.Normal(b[0], tau[1] ** -0.5))
    mean = u[SUBJECT] + slope[SUBJECT] * X[:, 1] + v[ITEM] + X @ b
    numpyro.sample("y", dist.Normal(mean, tau[2] ** -0.5), obs=y)


def nested(y=Y):
    mean = numpyro.sample("mean", dist.Normal(0, 10.0))
    tau = numpyro.sample("tau", dist.Gamma(2.0, 2.0).expand([3]))
    school = numpyro.sample("school", dist.Normal(mean, tau[0] ** -0.5).expand([4]))
    lessons = numpyro.sample("lessons", dist.Normal(school[SCHOOL], tau[1] ** -0.5))
    numpyro.sample("y", dist.Normal(lessons[CLASS], tau[2] ** -0.5), obs=y)


def mixed(y=Y):
    centre = numpyro.sample("centre", dist.Normal(0, 10.0))
    mu = numpyro.sample("mu", dist.Normal(centre, 1.0).expand([3]))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
        numpyro.sample("y", dist.Normal(2 * mu[z] - 1, 0.7), obs=y)


def odd(y=Y):
    """Terms that are no products of affine functions, products of two different ones, and joined arrays."""
    a = numpyro.sample("a", dist.Normal(0, 1.0).expand([3]).to_event(1))
    c = numpyro.sample("c", dist.Normal(a[0], 1.0).expand([5]))
    matrix = jnp.array([[1.0, 0.3, 0.0], [0.3, 2.0, -0.5], [0.0, -0.5, 0.7]])
    numpyro.factor("f", -0.1 * a @ matrix @ a)
    numpyro.factor("g", -(c - 1.0) * (2 * c - a[1]) / 4)
    joined = jnp.concatenate([c, jnp.zeros(2)])
    numpyro.sample("y", dist.Normal(joined, 1.0), obs=y[:7])


CASES = {
    "rats": (rats, ("centre", "trend", "alpha", "beta"), "9 groups of 2, then 2 together"),
    "birats": (birats, ("mu", "beta"), "9 groups of 2, then 2 together"),
    "dyes": (dyes, ("theta", "mu"), "9 groups of 1, then 1 together"),
    "hepatitis": (hepatitis, ("centre", "gamma", "alpha", "beta"), "9 groups of 2, then 3 together"),
    "crossed": (crossed, ("intercept", "b", "u", "slope", "v"), "11 groups of 2, then 11 together"),
    "nested": (nested, ("mean", "school", "lessons"), "12 groups of 1, then 5 together"),
    "mixed": (mixed, ("centre", "mu"), "3 groups of 1, then 1 together"),
    "odd": (odd, ("a", "c"), "5 groups of 1, then 3 together"),
}


def some_state(model, rng):
    out = {}
    for name, s in model.sites.items():
        if s.role != "latent":
            continue
        value = rng.gamma(3.0, 0.3, s.shape)
        if s.discrete:
            value = rng.integers(3, size=s.shape)
        elif s.fn_name == "Wishart":
            value = np.array([[1.5, 0.3], [0.3, 0.8]])
        out[name] = value
    return out


def dense(model, sites, state):
    """Mean and covariance by derivatives of the log joint, in one matrix."""
    zero = {s: jnp.zeros(model.sites[s].shape) for s in sites}
    flat, unravel = ravel_pytree(zero)

    def logdensity(x):
        return model.density.log_joint({**state, **unravel(x)})

    precision = -np.asarray(jax.jit(jax.hessian(logdensity))(flat))
    return np.linalg.solve(precision, jax.grad(logdensity)(flat)), np.linalg.inv(precision)


def arrow(model, sites, state):
    """Mean and covariance of the joint draw, and half the log determinant of its precision."""
    joint = joint_gaussian(model.density, sites)
    latents = model.density.state_values(state, without=sites)

    @jax.jit
    def found(latents):
        mean, factor, _ = joint.solved(latents, tuple(model.density.arguments.arrays))
        z = joint.noise(jax.random.key(0))
        spread = jax.jacfwd(lambda z: ravel_pytree(joint.values(factor.noise(z)))[0])(z)
        return ravel_pytree(joint.values(mean))[0], spread, factor.half_log_det

    mean, spread, half = found(latents)
    root = np.concatenate([np.asarray(s, np.float64).reshape(len(mean), -1) for s in spread], 1)
    return np.asarray(mean, np.float64), root @ root.T, float(half)


@pytest.mark.share(12)
@pytest.mark.parametrize("name", CASES)
def test_a_joint_draw_has_the_moments_of_dense_algebra(name):
    fn, sites, told = CASES[name]
    with jax.enable_x64(True):
        model = gb.model(fn)
        state = some_state(model, np.random.default_rng(1))
        mean, cov = dense(model, sites, state)
        got, spread, half = arrow(model, sites, state)
        assert str(joint_gaussian(model.density, sites).layout) == told
    sd = np.sqrt(np.diag(cov))
    assert np.max(np.abs(got - mean) / sd) < 1e-9
    assert np.max(np.abs(spread - cov) / np.outer(sd, sd)) < 1e-9
    assert half == pytest.approx(-np.linalg.slogdet(cov)[1] / 2, abs=1e-8)


@pytest.mark.slow
def test_a_second_crossed_effect_that_is_large_is_summed_directly(monkeypatch):
    """The path for many items, whose slopes along every row would not fit in memory."""
    monkeypatch.setattr(layout, "_MOST_ROWS", 0)
    for name in ("crossed", "nested"):
        fn, sites, _ = CASES[name]
        with jax.enable_x64(True):
            model = gb.model(fn)
            state = some_state(model, np.random.default_rng(1))
            mean, cov = dense(model, sites, state)
            got, spread, _ = arrow(model, sites, state)
            assert joint_gaussian(model.density, sites).layout.rest > 0
        sd = np.sqrt(np.diag(cov))
        assert np.max(np.abs(got - mean) / sd) < 1e-9
        assert np.max(np.abs(spread - cov) / np.outer(sd, sd)) < 1e-9


@pytest.mark.parametrize("between", [1e6, 1.0, 1e-7])
def test_single_precision_keeps_what_a_mean_and_its_effects_share(between):
    """In the Schur complement of the effects all figures of the mean's precision would cancel."""
    model, within = gb.model(dyes), np.float32(3e-4)
    between = float(np.float32(between))
    within = float(within)
    state = {"tau": np.array([between, within], np.float32)}
    mean, cov, _ = arrow(model, ("theta", "mu"), state)  # mu before theta: by name
    k, a = between * 5 * within / (between + 5 * within), between + 5 * within
    precision, rows = 9 * k + 1e-10, GROWTH.astype(np.float64).mean(1)
    centre = k * rows.sum() / precision
    expected = np.append((between * centre + 5 * within * rows) / a, centre)
    variance = np.append(np.full(9, 1 / a + (between / a) ** 2 / precision), 1 / precision)
    np.testing.assert_allclose(np.diag(cov), variance, rtol=1e-4)
    assert np.max(np.abs(mean - expected) / np.sqrt(variance)) < 1e-3


def test_draws_have_the_mean_and_the_covariance():
    model, sites = gb.model(crossed), CASES["crossed"][1]
    state = some_state(model, np.random.default_rng(2))
    mean, cov, _ = arrow(model, sites, state)
    keys = jax.random.split(jax.random.key(0), 4000)
    joint = joint_gaussian(model.density, sites)
    draws = jax.jit(jax.vmap(lambda k: ravel_pytree(joint.sample(k, state))[0]))(keys)
    white = np.linalg.solve(np.linalg.cholesky(cov), (np.asarray(draws, np.float64) - mean).T)
    assert np.max(np.abs(white.mean(1))) * np.sqrt(4000) < 4.5
    assert np.max(np.abs(np.cov(white) - np.eye(len(cov)))) * np.sqrt(4000 / 2) < 5


def factors(y=GROWTH):
    """Scores and loadings are Gaussian in turn, never together."""
    mean = numpyro.sample("mean", dist.Normal(0, 10.0).expand([5]))
    loading = numpyro.sample("loading", dist.Normal(0, 1.0).expand([5]))
    score = numpyro.sample("score", dist.Normal(0, 1.0).expand([9]))
    numpyro.sample("y", dist.Normal(mean + score[:, None] * loading, 1.0), obs=y)


def test_what_is_not_gaussian_together_is_refused_with_the_reason():
    model = gb.model(factors)
    with pytest.raises(Refused, match="degree 4 in loading and score"):
        joint_gaussian(model.density, ("loading", "score"))
    with pytest.raises(
        gb.GibbsiteError, match=r"cannot be drawn jointly: .*degree 4.*in turn: Conjugate loading"
    ):
        model.schedule("Conjugate [loading score] (*) Conjugate mean")
    assert "Conjugate(joint=False)" in model.schedule("Conjugate(joint=False) [loading score mean]").text


def test_the_default_joins_what_is_coupled_and_gaussian_together():
    # measured: the precisions' 6263 effective draws of 8000 in .53 processor seconds, in turn 1209 in .20
    assert gb.model(rats).schedule().text == "Collapsed [tau centre trend alpha beta]"
    assert gaussian_blocks(gb.model(factors).density, ["mean", "loading", "score"]) == {
        "mean": ("mean", "loading"),
        "loading": ("mean", "loading"),
    }


def test_sites_that_meet_in_no_term_are_drawn_one_by_one():
    def apart():
        numpyro.sample("a", dist.Normal(0, 1))
        numpyro.sample("b", dist.Gamma(2.0, 1.0))

    run = gb.model(apart).sample(schedule="Conjugate [a b]", draws=500, warmup=0, chains=2, seed=0)
    assert abs(run.draws["a"].mean()) < 5 / np.sqrt(1000)
    assert abs(run.draws["b"].mean() - 2) < 5 * np.sqrt(2 / 1000)
