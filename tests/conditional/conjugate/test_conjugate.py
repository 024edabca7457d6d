"""Conjugate conditionals against closed forms and against the model's own joint; near-misses are refused."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.checking.perturbation import QUICK
from gibbsite.conditional.conjugate.dynamic import DynamicConditional
from gibbsite.errors import ModelError
from helpers.truths.conjugate_pairs import NEAR_MISSES, PAIRS
from helpers.truths.conjugate_table import NIMBLE
from helpers.truths.matrix_pairs import MATRIX_PAIRS
from helpers.truths.targets import TARGETS, check_moments, run_chains
from numpyro.infer.util import log_density

IDS = [f"{p.name}-{p.site}" for p in PAIRS]
# in single precision the formulas are the same: rounding is looked at on every fifth pair, elsewhere slowly
SINGLE = [p if i % 5 == 0 else pytest.param(p, marks=pytest.mark.slow) for i, p in enumerate(PAIRS)]


def compare(p, c, rtol):
    assert c.kind == "conjugate", c.reason
    found = c.natural(p.state)
    expected = {k: np.asarray(v) for k, v in p.expected(p.state).items() if np.any(np.asarray(v) != 0)}
    live = {k for k, v in found.items() if np.any(np.asarray(v) != 0)}
    assert live == set(expected), c.reason
    for key, value in expected.items():
        np.testing.assert_allclose(
            found[key], np.broadcast_to(value, found[key].shape), rtol=rtol, err_msg=key
        )
    return len(expected)


@pytest.mark.share(6)
@pytest.mark.parametrize("p", SINGLE, ids=IDS)
def test_natural_parameters_in_single_precision(p):
    assert compare(p, gb.model(p.model).conditional(p.site), 1e-4) >= 1


@pytest.mark.share(54)
@pytest.mark.parametrize("p", PAIRS, ids=IDS)
def test_natural_parameters_in_double_precision(p):
    """Also: joint differences over draws of the site equal those of the distribution that is drawn from."""
    with jax.enable_x64(True):
        c = gb.model(p.model).conditional(p.site)
        assert compare(p, c, 1e-9) >= 1
        keys = jax.random.split(jax.random.key(0), 4)
        draws = jax.jit(jax.vmap(lambda key: c.sample(key, p.state)), compiler_options=QUICK)(keys)
        d = c.distribution(p.state)

        def both(x):
            state = jax.tree.map(jnp.asarray, {**p.state, p.site: x})
            return jnp.sum(d.log_prob(x)), log_density(p.model, (), {}, state)[0]

        own, full = map(np.asarray, jax.jit(jax.vmap(both), compiler_options=QUICK)(draws))
        np.testing.assert_allclose(own[1:] - own[0], full[1:] - full[0], rtol=1e-6, atol=1e-8)
        assert np.ptp(full) > 1e-3


def test_every_row_of_the_table_is_checked():
    checked = {p.name for p in PAIRS} | set(MATRIX_PAIRS)
    assert {row for row, name in NIMBLE.items() if name not in checked} == set()
    assert len(NIMBLE) == 29


@pytest.mark.parametrize(("name", "model", "site", "told"), NEAR_MISSES, ids=[n for n, *_ in NEAR_MISSES])
def test_near_misses_are_refused_with_the_expression(name, model, site, told):
    c = gb.model(model).conditional(site)
    assert c.kind == "none"
    assert c.reason.startswith("not conjugate: ")
    assert told in c.reason


def test_there_are_enough_near_misses():
    assert len(NEAR_MISSES) >= 30


def regression(x, y):
    b = numpyro.sample("b", dist.Normal(jnp.array([1.0, 0.0, -1.0]), 2.0).to_event(1))
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(x @ b + a, 0.5), obs=y)


@pytest.mark.slow
def test_a_regression_is_drawn_as_a_vector():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 3)).astype(np.float32), rng.normal(size=12).astype(np.float32)
    c = gb.model(regression, x, y).conditional("b")
    found = c.natural({"a": 0.3})
    precision = np.eye(3) / 4 + x.T @ x / 0.25
    np.testing.assert_allclose(found["precision"][0], precision, rtol=1e-4)
    vector = np.array([1, 0, -1]) / 4 + x.T @ (y - 0.3) / 0.25
    np.testing.assert_allclose(found["information"][0], vector, rtol=1e-4)
    draws = jax.vmap(lambda k: c.sample(k, {"a": 0.3}))(jax.random.split(jax.random.key(1), 20_000))
    cov = np.linalg.inv(precision)
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=4 * np.abs(cov).max() / np.sqrt(5000))
    se = np.sqrt(np.diag(cov) / 20_000)
    assert np.all(np.abs(draws.mean(0) - cov @ vector) < 4 * se)


def coupled_elements():
    m = numpyro.sample("m", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(m[0] + m[1], 0.1), obs=2.0)


def test_coupled_elements_are_never_updated_one_by_one():
    c = gb.model(coupled_elements).conditional("m")
    assert "MultivariateNormal" in c.reason
    np.testing.assert_allclose(c.natural({})["precision"][0], np.eye(2) + 100, rtol=1e-4)


def chain(y):
    x = numpyro.sample("x", dist.GaussianRandomWalk(0.7, len(y)))
    numpyro.sample("y", dist.Normal(x, 0.5).to_event(1), obs=y)


@pytest.mark.slow
def test_a_gaussian_chain_is_drawn_jointly():
    y = np.array([0.2, 0.9, 1.0, 0.1], np.float32)
    found = gb.model(chain, y).conditional("x").natural({})
    steps = np.tril(np.ones((4, 4)))
    precision = np.linalg.inv(0.49 * steps @ steps.T) + np.eye(4) / 0.25
    np.testing.assert_allclose(found["precision"][0], precision, rtol=1e-3, atol=1e-4)


def gaussian_groups(y):
    with numpyro.plate("k", 2):
        m = numpyro.sample("m", dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3) + 0.3))
    z = numpyro.sample("z", dist.Categorical(jnp.array([0.5, 0.5])).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.MultivariateNormal(m[z], jnp.eye(3)).to_event(1), obs=y)


@pytest.mark.slow
def test_multivariate_means_are_separate_blocks():
    y = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    c = gb.model(gaussian_groups, y).conditional("m")
    z = np.array([0, 1, 1, 1, 0])
    found = c.natural({"z": z})
    assert found["precision"].shape == (2, 3, 3)
    for k in range(2):
        precision = np.linalg.inv(np.eye(3) + 0.3) + np.eye(3) * (z == k).sum()
        np.testing.assert_allclose(found["precision"][k], precision, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(found["information"][k], y[z == k].sum(0), rtol=1e-3, atol=1e-4)


def figure_two(x):
    """The workshop paper's example: the law of the mean is Normal or Gamma, as a coin decides."""
    p = numpyro.sample("p", dist.Beta(2.0, 3.0))
    c = numpyro.sample("c", dist.Bernoulli(p))
    m1 = numpyro.sample("m1", dist.Normal(0.0, 1.0))
    m2 = numpyro.sample("m2", dist.Gamma(2.0, 1.0))
    m0 = numpyro.sample("m0", dist.Normal(jnp.where(c == 1, m1, m2) + 2.0, 1.5))
    with numpyro.plate("n", len(x)):
        numpyro.sample("x", dist.Normal(m0, 1.0), obs=x)


def test_conjugacy_is_seen_through_a_branch_and_a_shift():
    m = gb.model(figure_two, np.array([2.0, 3.5], np.float32))
    kinds = {n: m.conditional(n).kind for n in ("p", "c", "m1", "m2", "m0")}
    assert kinds == {"p": "conjugate", "c": "finite", "m1": "conjugate", "m2": "conjugate", "m0": "conjugate"}
    for coin in (0, 1):
        found = m.conditional("m1").natural({"p": 0.4, "c": coin, "m2": 1.0, "m0": 3.0})
        np.testing.assert_allclose(found["m1^2"], -0.5 * (1 + coin / 2.25), rtol=1e-5)


def test_the_family_is_chosen_by_the_coin():
    c = gb.model(figure_two, np.array([2.0, 3.5], np.float32)).conditional("m2")
    assert isinstance(c, DynamicConditional)
    state = {"p": 0.4, "m1": 1.0, "m2": 1.5, "m0": 3.0}
    exact = c.chosen({**state, "c": 1}).exact
    assert exact is not None
    assert exact.family.name == "Gamma"
    np.testing.assert_allclose(c.natural({**state, "c": 1})["m2"], -1.0)
    assert c.chosen({**state, "c": 0}).exact is None
    assert "m2^2" in c.reason
    with pytest.raises(ModelError, match="a slice at this state"):
        c.natural({**state, "c": 0})


def decided_by_a_switch():
    c = numpyro.sample("c", dist.Categorical(jnp.ones(3) / 3))
    m = numpyro.sample("m", dist.Uniform(0.5, 2.0))
    rate = jax.lax.switch(c, [lambda x: x, lambda x: 3 + 0 * x, lambda x: x + 1 / x], m)
    numpyro.sample("y", dist.Poisson(rate).expand([4]).to_event(1), obs=jnp.array([2, 0, 3, 1]))


def decided_by_a_place():
    c = numpyro.sample("c", dist.Bernoulli(0.4))
    m = numpyro.sample("m", dist.Gamma(2.0, 1.0))
    numpyro.sample("y", dist.Normal(0.0, jnp.stack([m**-0.5, m])[c]), obs=0.7)


def decided_by_a_product():
    c = numpyro.sample("c", dist.Bernoulli(0.4))
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(c * m + (1 - c) * jnp.sin(m), 0.5), obs=0.7)


# the family in each branch, None for a slice, and the range over which the slice is checked
DECIDED = [
    pytest.param(
        decided_by_a_switch, ["truncated Gamma", "Uniform", None], (0.5, 2.0), marks=pytest.mark.slow
    ),
    (decided_by_a_place, ["Gamma", None], (0.0, 20.0)),
    (decided_by_a_product, [None, "Normal"], (-8.0, 8.0)),
]


@pytest.mark.share(2)
@pytest.mark.parametrize(("model", "families", "ends"), DECIDED, ids=["switch", "place", "product"])
def test_every_branch_is_drawn_by_its_own_kernel(model, families, ends):
    m = gb.model(model)
    c = m.conditional("m")
    assert isinstance(c, DynamicConditional), c.reason
    assert [b.exact.family.name if b.exact else None for b in c.branches] == families
    grid = np.linspace(*ends, 4001)[1:-1]
    for value in range(len(families)):
        joint = np.asarray(jax.vmap(lambda x, k=value: m.density.log_joint({"m": x, "c": k}))(grid))
        weight = np.exp(joint - joint.max())
        mean = (grid * weight).sum() / weight.sum()
        variance = (grid**2 * weight).sum() / weight.sum() - mean**2

        @jax.jit
        def run(key, value=value):
            def step(x, key):
                x = c.update(key, {"m": x, "c": jnp.asarray(value)}, ())
                return x, x

            return jax.lax.scan(step, jnp.asarray(1.0), jax.random.split(key, 2000))[1]

        draws = {"m": np.asarray(jax.vmap(run)(jax.random.split(jax.random.key(value), 4)))}
        assert check_moments(draws, {"m": mean}, {"m": variance}) == 2


def no_branch_is_conjugate():
    c = numpyro.sample("c", dist.Bernoulli(0.4))
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(jnp.where(c == 1, jnp.cos(m), jnp.exp(m)), 1.0), obs=0.3)


def too_many_to_slice():
    c = numpyro.sample("c", dist.Bernoulli(0.4))
    m = numpyro.sample("m", dist.Normal(0.0, 1.0).expand([50]).to_event(1))
    numpyro.sample("y", dist.Normal(jnp.where(c == 1, m, jnp.exp(m)), 1.0).to_event(1), obs=jnp.ones(50))


def decided_element_by_element():
    with numpyro.plate("n", 3):
        c = numpyro.sample("c", dist.Bernoulli(0.4))
        m = numpyro.sample("m", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(jnp.where(c == 1, m, jnp.exp(m)), 1.0), obs=jnp.ones(3))


@pytest.mark.parametrize("model", [no_branch_is_conjugate, too_many_to_slice, decided_element_by_element])
def test_without_an_exact_branch_the_obstacle_is_told(model):
    c = gb.model(model).conditional("m")
    assert c.kind == "none"
    assert "exponential" in c.reason or "cos" in c.reason


@pytest.mark.slow
def test_the_kernel_reaches_the_posterior():
    x = np.array([2.0, 3.5], np.float32)
    plan = gb.model(figure_two, x).schedule().plan()
    draws = run_chains(plan.kernel, warmup=500, draws=4000, kwargs={"_gibbsite_inputs": plan.inputs})
    # m0 | x by integrating the location of its prior out on a grid, under each value of the coin
    grid = np.linspace(-12, 30, 2101)
    normal = np.exp(-0.5 * ((grid - 2) ** 2) / (1 + 2.25)) / np.sqrt(1 + 2.25)
    m = np.linspace(0, 30, 1501)
    gamma = m * np.exp(-m) * (m[1] - m[0])
    kernel = np.exp(-0.5 * (grid[:, None] - 2 - m[None, :]) ** 2 / 2.25) / 1.5
    likelihood = np.exp(-0.5 * ((x[:, None] - grid) ** 2).sum(0))
    one, two = normal * likelihood * 0.4, (kernel @ gamma) * likelihood * 0.6
    post = one + two
    chance = one.sum() / post.sum()
    post = post / post.sum()
    mean = (grid * post).sum()
    variance = (grid**2 * post).sum() - mean**2
    # m2 keeps its Gamma prior while the coin shows one
    both = (kernel * gamma) * likelihood[:, None] * 0.6
    total = one.sum() + two.sum()
    first = ((both * m).sum() + 2 * one.sum()) / total
    second = ((both * m**2).sum() + 6 * one.sum()) / total
    means = {"m0": mean, "c": chance, "m2": first}
    variances = {"m0": variance, "c": chance * (1 - chance), "m2": second - first**2}
    assert check_moments(draws, means, variances) == 6


@pytest.mark.slow
def test_sites_that_bound_each_other_reach_their_moments():
    row = TARGETS["moving_bound"]
    m = gb.model(row.model)
    schedule = m.schedule(" (*) ".join(f"Conjugate {n}" for n in m.density.latents))
    plan = schedule.plan()
    kwargs = {"_gibbsite_inputs": plan.inputs}
    draws = run_chains(plan.kernel, warmup=200, draws=4000, kwargs=kwargs)
    assert check_moments(draws, row.mean, row.variance) == 4


def test_a_join_with_nothing_changes_nothing():
    """`jnp.roll(a, 0)` joins a part of no elements, and the analysis of it failed."""
    y = np.linspace(-1, 1, 12)

    def model(roll):
        a = numpyro.sample("a", dist.Normal(0, 1).expand([4]).to_event(1))
        a = jnp.roll(a, 0) if roll else a
        numpyro.sample("y", dist.Normal(a[np.arange(12) % 4], 1.0), obs=y)

    state = {"a": jnp.zeros(4)}
    found = [gb.model(model, roll).conditional("a") for roll in (True, False)]
    assert found[0].kind == found[1].kind == "conjugate"
    one, other = (f.sample(jax.random.key(0), state) for f in found)
    np.testing.assert_allclose(one, other, rtol=1e-5)
