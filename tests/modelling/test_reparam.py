"""The same model in other coordinates: density, graph, schedule and draws of what comes out."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.contrib.control_flow import scan
from numpyro.infer.reparam import LocScaleReparam

Y = np.array([2.8, 0.8, -0.3], np.float32)


def schools(y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.LogNormal(0, 1))
    with numpyro.plate("school", len(y)):
        theta = numpyro.sample("theta", dist.StudentT(4.0, mu, tau))
        numpyro.sample("y", dist.Normal(theta, 1), obs=y)


def looped(y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    for i in range(len(y)):
        theta = numpyro.sample(f"theta[{i}]", dist.Normal(mu, tau))
        numpyro.sample(f"y[{i}]", dist.Normal(theta, 1), obs=y[i])


@pytest.fixture(scope="module")
def model():
    return gb.model(schools, Y)


@pytest.mark.parametrize(
    ("choice", "centred"), [("non-centred", 0.0), (0.3, 0.3), (LocScaleReparam(0.3, ["df"]), 0.3)]
)
def test_the_density_is_that_of_the_old_model_times_the_jacobian(model, choice, centred):
    other = model.reparam(theta=choice)
    mu, tau, drawn = 1.5, 0.7, np.array([0.2, -1.0, 3.0])
    theta = mu + tau ** (1 - centred) * (drawn - centred * mu)
    old = model.density.log_joint({"mu": mu, "tau": tau, "theta": theta})
    new = other.density.log_joint({"mu": mu, "tau": tau, "theta_decentered": drawn})
    np.testing.assert_allclose(new, old + 3 * (1 - centred) * np.log(tau), rtol=1e-5)


def test_a_base_distribution_takes_the_place_of_a_transformed_one(model):
    other = model.reparam(tau="base")
    old = model.density.log_joint({"mu": 0.5, "tau": 2.0, "theta": Y})
    new = other.density.log_joint({"mu": 0.5, "tau_base": np.log(2.0), "theta": Y})
    np.testing.assert_allclose(new, old + np.log(2.0), rtol=1e-5)


def test_graph_and_schedule_of_the_changed_model(model):
    other = model.with_schedule("Slice mu (*) NUTS [tau theta]").reparam(theta="non-centred")
    graph = other.graph
    assert graph.nodes["theta"].kind == "deterministic" and graph.nodes["theta"].plates == ("school",)
    assert graph.nodes["theta"].distribution == "mu + tau * theta_decentered[s]"
    assert set(graph.parents("theta")) == {"mu", "tau", "theta_decentered"}
    assert graph.nodes["theta_decentered"].distribution == "StudentT(4, 0, 1)"
    assert graph.parents("theta_decentered") == () and graph.plates["school"].size == 3
    assert other.schedule().text == "Slice mu (*) NUTS [tau theta_decentered]"
    assert other.reparam_choices("theta_decentered") == ("non-centred",)
    assert other.condition(theta_decentered=0.0).schedule().text == "Slice mu (*) NUTS tau"


@pytest.mark.slow
@pytest.mark.parametrize("fn", [schools, pytest.param(looped, marks=pytest.mark.slow)])
def test_draws_keep_the_user_s_name(fn):
    run = gb.model(fn, Y).reparam(theta="non-centred").sample(draws=40, warmup=40, chains=2, seed=1)
    draws = run.draws
    assert draws["theta"].shape == draws["theta_decentered"].shape == (2, 40, 3)
    expected = draws["mu"][..., None] + draws["tau"][..., None] * draws["theta_decentered"]
    np.testing.assert_allclose(draws["theta"], expected, rtol=1e-4, atol=1e-5)


def test_which_parameterisations_fit(model):
    assert model.reparam_choices("theta") == model.reparam_choices("mu") == ("non-centred",)
    assert model.reparam_choices("tau") == ("base",)
    assert model.reparam_choices("y") == model.reparam_choices("nothing") == ()
    assert gb.model(looped, Y).reparam_choices("theta") == ("non-centred",)
    assert gb.model(looped, Y).reparam_choices("tau") == ()


def walk(y):
    def step(z, y_t):
        z = numpyro.sample("z", dist.Normal(z, 1))
        numpyro.sample("y", dist.Normal(z, 1), obs=y_t)
        return z, None

    scan(step, jnp.zeros(()), y)


@pytest.mark.parametrize(
    ("fn", "choices", "words"),
    [
        (schools, {}, "which site"),
        (schools, {"y": "non-centred"}, "'y' is observed"),
        (schools, {"tau": "non-centred"}, "no location and scale on the real line; it has 'base'"),
        (schools, {"mu": "base"}, "not a transformed one; it has 'non-centred'"),
        (schools, {"theta": 2.0}, "between 0"),
        (schools, {"theta": "sideways"}, "got 'sideways'"),
        (schools, {"thetta": "non-centred"}, "did you mean 'theta'"),
        (walk, {"z": "non-centred"}, "inside `scan`"),
    ],
)
def test_what_does_not_fit_is_refused(fn, choices, words):
    with pytest.raises(gb.GibbsiteError, match=words):
        gb.model(fn, Y).reparam(choices)


def test_degrees_that_are_learnt_leave_the_model_as_it_is(model):
    for other in (model.reparam("auto"), model.reparam(theta="auto")):
        assert list(other.sites) == list(model.sites)
    rows = model.schedule("NUTS [mu tau theta]").rows
    assert "theta: location reads mu, scale reads tau: centring learnt per element" in rows[0].reason


def test_a_degree_for_every_element(model):
    degrees = np.array([0.0, 0.3, 1.0])
    other = model.reparam(theta=degrees)
    mu, tau, drawn = 1.5, 0.7, np.array([0.2, -1.0, 3.0])
    theta = mu + tau ** (1 - degrees) * (drawn - degrees * mu)
    old = model.density.log_joint({"mu": mu, "tau": tau, "theta": theta})
    new = other.density.log_joint({"mu": mu, "tau": tau, "theta_decentered": drawn})
    np.testing.assert_allclose(new, old + np.sum(1 - degrees) * np.log(tau), rtol=1e-5)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"theta": np.array([0.5, 0.5])}, "shape"),
        ({"theta": np.array([0.5, np.nan, 0.5])}, "between 0 and 1"),
        ({"theta": np.array([0.5, 1.5, 0.5])}, "between 0 and 1"),
        ({"mu": "auto"}, "change nothing"),
        ({"y": "auto"}, "observed"),
        ({"thetta": "auto"}, "theta"),
        ({}, "which site"),
    ],
)
def test_degrees_that_make_no_sense(model, choice, message):
    with pytest.raises(gb.GibbsiteError, match=message):
        model.reparam(choice)


def test_a_site_without_degrees_is_told_why():
    def bounded(y):
        mu, tau = numpyro.sample("mu", dist.Normal(0, 1)), numpyro.sample("tau", dist.HalfNormal(1))
        t = numpyro.sample("t", dist.TruncatedNormal(mu, tau, low=0.0))
        k = numpyro.sample("k", dist.Bernoulli(0.4).expand([len(y)]))
        numpyro.sample("y", dist.Normal(t * k, 1), obs=y)

    other = gb.model(bounded, Y)
    for site, words in (("t", "within bounds"), ("k", "discrete"), ("tau", "change nothing")):
        with pytest.raises(gb.GibbsiteError, match=f"'{site}' .*{words}"):
            other.reparam({site: "auto"})
