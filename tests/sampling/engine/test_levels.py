"""What no observation can see: out of everybody's conditional, drawn forward once per draw."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ScheduleError

Y = np.random.default_rng(1).normal(3.0, 1.0, 12).astype(np.float32)


def predicting(y, m=3):
    """Known noise; predictions of predictions, a missing outcome, and what is computed from both."""
    numpyro.deterministic("size", jnp.asarray(float(m)))
    mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
    numpyro.deterministic("double", 2 * mu)
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
    new = numpyro.sample("new", dist.Normal(mu, 2.0).expand([m]))
    high = numpyro.sample("high", dist.Bernoulli(logits=new[0]))
    child = numpyro.sample("child", dist.Gamma(jnp.exp(jnp.clip(new[1], -2, 2)), 1.0))
    numpyro.deterministic("both", child + high)


@pytest.fixture(scope="module")
def model():
    return gb.model(predicting, Y)


@pytest.fixture(scope="module")
def run(model):
    return model.sample(draws=2000, warmup=100, chains=4, seed=3)


def test_predictions_do_not_steer_what_they_are_predicted_from(model):
    assert model.generated == ("new", "high", "child")
    s = model.schedule()
    assert s.text == "Conjugate mu"
    assert "new" not in s.rows[0].reason and f"over {len(Y) + 1} term elements" in s.rows[0].cost
    assert s.levels == {
        "once": ("size",),
        "per step": ("mu",),
        "per draw": (
            "new (drawn forward)",
            "high (drawn forward)",
            "child (drawn forward)",
            "double (computed)",
            "both (computed)",
        ),
    }
    assert "per draw: new (drawn forward)" in str(s) and "once: size" in s._repr_html_()
    # the conditional of the model as written stays what it is
    assert "new" in model.conditional("mu").blanket


def test_forward_draws_have_their_closed_form(run):
    draws = {n: np.asarray(v) for n, v in run.draws.items()}
    assert set(draws) == {"size", "mu", "double", "new", "high", "child", "both"}
    precision = len(Y) + 0.01
    mean, variance = Y.sum() / precision, 1 / precision
    n = draws["mu"].size
    assert abs(draws["mu"].mean() - mean) < 4 * np.sqrt(variance / n)
    for k in range(3):
        x = draws["new"][..., k]
        assert abs(x.mean() - mean) < 4 * np.sqrt((variance + 4) / n)
        assert abs(x.var() - variance - 4) < 4 * (variance + 4) * np.sqrt(2 / n)
    # each depends on the mu, and the new, of its own draw
    slope = np.cov(draws["mu"].ravel(), draws["new"][..., 0].ravel())[0, 1] / draws["mu"].var()
    assert abs(slope - 1) < 4 * 2 / np.sqrt(n * variance)
    chance = 1 / (1 + np.exp(-draws["new"][..., 0]))
    assert abs((draws["high"] - chance).mean()) < 4 * 0.5 / np.sqrt(n)
    shape = np.exp(np.clip(draws["new"][..., 1], -2, 2))
    assert abs(((draws["child"] - shape) / np.sqrt(shape)).mean()) < 4 / np.sqrt(n)
    np.testing.assert_allclose(draws["both"], draws["child"] + draws["high"], rtol=1e-6)
    np.testing.assert_allclose(draws["double"], 2 * draws["mu"], rtol=1e-6)
    # and no two of them are alike
    assert np.abs(np.corrcoef(draws["new"][0, :-1, 0] - mean, draws["new"][0, 1:, 0] - mean)[0, 1]) < 0.1


def test_the_cut_of_a_run_does_not_change_its_predictions(model, run, tmp_path):
    again = model.sample(draws=700, warmup=100, chains=4, seed=3, chunk=37)
    again.save(tmp_path / "run")
    back = gb.load(tmp_path / "run", model=model)
    back.resume(draws=1300)
    for n, v in run.draws.items():
        np.testing.assert_array_equal(back.draws[n], v, err_msg=n)
    tree = run.to_datatree(posterior_predictive=True)
    assert tree["posterior_predictive"]["y"].shape == (4, 2000, len(Y))


def test_schedules_that_name_a_prediction_are_taken_at_their_word(model):
    s = model.schedule("Slice mu (*) NUTS [new child] (*) Gibbs high")
    assert s.plan().hidden == () and set(s.levels["per step"]) == {"mu", "new", "child", "high"}
    with pytest.raises(ScheduleError, match="'new' cannot be drawn forward alone: child, high depends on it"):
        model.schedule("NUTS mu (*) Ancestral new (*) Slice child (*) Gibbs high").plan()
    with pytest.raises(ScheduleError, match="Ancestral cannot update 'mu': observations or factors depend"):
        model.schedule("Ancestral [mu new child high]")


def looped(y):
    """A loop over array sites, with numbered and indexed predictions."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
    for i in range(len(y)):
        x = numpyro.sample(f"x[{i}]", dist.Normal(mu, 1.0))
        numpyro.sample(f"y[{i}]", dist.Normal(x, 1.0), obs=y[i])
        numpyro.deterministic(f"gap[{i}]", x - mu)
        numpyro.sample(f"p[{i}]", dist.Normal(10 * x, 0.1))


@pytest.mark.slow
def test_groups_of_predictions_are_stacked_in_order():
    run = gb.model(looped, Y[:4]).sample(draws=50, warmup=20, chains=2)
    draws = {n: np.asarray(v) for n, v in run.draws.items()}
    assert {n: v.shape[2:] for n, v in draws.items()} == {"mu": (), "x": (4,), "gap": (4,), "p": (4,)}
    assert np.abs(draws["p"] - 10 * draws["x"]).max() < 0.6
    np.testing.assert_allclose(draws["gap"], draws["x"] - draws["mu"][..., None], atol=1e-5)


def dataless():
    top = numpyro.sample("top", dist.Exponential(0.5))
    x = numpyro.sample("x", dist.Uniform(0.0, top))
    k = numpyro.sample("k", dist.Poisson(x))
    numpyro.deterministic("sum", x + k)


@pytest.mark.slow
def test_a_model_without_data_is_sampled_ancestrally():
    m = gb.model(dataless)
    assert m.schedule().text == "Ancestral [top x k]"
    run = m.sample(draws=2000, warmup=0, chains=2, seed=0)
    draws = {n: np.asarray(v) for n, v in run.draws.items()}
    n = draws["top"].size
    # top ~ Exponential(mean 2); x = top U; k ~ Poisson(x): means 2, 1, 1; E x² = 8/3
    for name, mean, variance in [("top", 2, 4), ("x", 1, 5 / 3), ("k", 1, 5 / 3 + 1)]:
        assert abs(draws[name].mean() - mean) < 4 * np.sqrt(variance / n)
    assert (draws["x"] < draws["top"]).all()
    assert run.verdict.ok
