"""Quantities derived from a run grow with it, and are kept with it."""

import gibbsite
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import ExpressionError, UnknownNameError
from gibbsite.ground.lock import Lock
from gibbsite.programs.jaxpr import compiling
from gibbsite.sampling.derived.deriving import prior_draws
from gibbsite.storage import checkpoint
from gibbsite.views.run.content import gather
from gibbsite.views.run.words import rows

RNG = np.random.default_rng(4)
GROUP = pd.Series(pd.Categorical(["low", "mid", "top"] * 8), name="g")
Y = RNG.normal(np.tile([0.0, 1.0, 3.0], 8), 0.3).astype(np.float32)


def groups(g, y):
    tau = numpyro.sample("tau", dist.HalfNormal(2))
    with numpyro.plate("g", 3):
        mu = numpyro.sample("mu", dist.Normal(0, 2))
    numpyro.sample("y", dist.Normal(mu[g], tau), obs=y)


@pytest.fixture(scope="module")
def model():
    return gibbsite.model(groups, GROUP, Y)


@pytest.fixture(scope="module")
def run(model):
    return model.sample(draws=150, warmup=150, chains=2, seed=1)


@pytest.mark.slow
def test_a_quantity_goes_where_parameters_go(run):
    lift = run.derive("lift = mu[top] - mu['low']")
    sure = run.derive("lift > 3")
    assert "top in 1" in repr(run.derive("best = argmax(mu)")) and "% of the draws" in repr(
        run.derived["best"]
    )
    assert list(run.summary("best").index) == ["best"]
    run.forget("best")
    mu = run.draws["mu"].astype(float)
    np.testing.assert_array_equal(lift.values, mu[..., 2] - mu[..., 0])
    np.testing.assert_array_equal(np.asarray(sure), lift.values > 3)
    assert list(run.derived) == ["lift", "lift > 3"] and set(run.draws) == {"tau", "mu"}
    assert "true in" in repr(sure) and "89 % ETI" in repr(lift)
    assert "not finite in 100 % of the draws" in repr(run.derive("gone = log(0 * tau - 1)"))
    run.forget("gone")
    table = run.summary()
    assert table.loc["lift", "mean"] == pytest.approx(lift.values.mean(), abs=0.01)
    assert {"lift", "lift > 3"} <= {s.label for s in run.snapshot(2).scalars}
    assert run.diagnostics("lift")[0].mean == pytest.approx(lift.values.mean())
    posterior = run.to_datatree()["posterior"]
    assert posterior["lift"].dims == ("chain", "draw") and posterior["lift > 3"].dtype.kind == "i"
    assert run.values("lift").shape == (2, 150) and run.trace("lift").draw.size == 150
    run.forget("lift")
    assert not run.derived  # what was derived from it goes, too
    with pytest.raises(UnknownNameError):
        run.forget("lift")


@pytest.mark.slow
def test_names_that_would_be_mistaken(run):
    with pytest.raises(ExpressionError, match="is a site"):
        run.derive("mu = tau + 1")
    run.derive("mu - mean(mu)")
    assert list(run.derived) == ["(mu - mean(mu))"]
    assert run.values("(mu - mean(mu))[1]").shape == (2, 150)
    run.derive("a = tau")
    run.derive("a = 2 * tau")  # a new meaning of a name
    np.testing.assert_allclose(run.derived["a"].values, 2 * run.draws["tau"], rtol=1e-6)
    for name in list(run.derived):
        run.forget(name)


def test_elements_and_prior_have_the_models_names(run):
    assert run.element_names("mu") == ["low", "mid", "top"]
    shown = {row["label"]: row["shown"] for row in rows(gather(run, None))}
    assert shown["mu[2]"] == "mu[top]" and shown["tau"] == "tau"
    prior = run.prior()
    assert prior["mu"].shape == (2000, 3) and prior["mu"].std() == pytest.approx(2, abs=0.1)
    assert prior["tau"].mean() == pytest.approx(2 * np.sqrt(2 / np.pi), abs=0.12)


@pytest.mark.slow
def test_it_grows_with_the_run_and_is_saved_with_it(model, tmp_path):
    run = model.sample(draws=40, warmup=40, chains=2, seed=2, store=tmp_path / "live")
    quantity = run.derive("top = mu[2]")
    assert quantity.values.shape == (2, 40)
    again = gibbsite.load(tmp_path / "live")
    assert list(again.derived) == ["top"]  # a run that is over is told at once
    run.resume(draws=20)
    np.testing.assert_allclose(run.derived["top"].values, run.draws["mu"][..., 2])
    run.save(tmp_path / "copy")
    again = gibbsite.load(tmp_path / "copy")
    np.testing.assert_array_equal(again.derived["top"].values, run.derived["top"].values)
    # a text that does not fit is told, and costs nothing else
    facts, state = checkpoint.read(tmp_path / "copy")
    facts["derived"] = [["evil", "mu.__class__"], ["fine", "tau * 2"], 3]
    checkpoint.write(tmp_path / "copy", facts, state)
    with pytest.warns(UserWarning, match="could not be taken up"):
        again = gibbsite.load(tmp_path / "copy")
    assert list(again.derived) == ["fine"]


def with_a_factor(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    numpyro.factor("pull", -(mu**2))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def improper(y):
    mu = numpyro.sample("mu", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


@pytest.mark.parametrize("fn", [with_a_factor, improper])
def test_a_prior_that_is_not_drawn_forward_is_none(fn):
    assert prior_draws(gibbsite.model(fn, np.float32(1.0)).plan(), ["mu"]) == {}


def test_groups_and_large_sites_of_the_prior():
    def looped(y):
        for i in range(3):
            numpyro.sample(f"a[{i}]", dist.Normal(10.0 * i, 1.0))
        many = numpyro.sample("many", dist.Normal(0.0, 1.0).expand([401]).to_event(1))
        numpyro.sample("y", dist.Normal(many[0], 1.0), obs=y)

    found = prior_draws(gibbsite.model(looped, np.float32(1.0)).plan(), ["a", "many"])
    assert set(found) == {"a"} and found["a"].shape == (2000, 3)
    np.testing.assert_allclose(found["a"].mean(0), [0, 10, 20], atol=4 / np.sqrt(2000))


@pytest.mark.slow
def test_the_prior_is_compiled_once_for_all_runs_of_a_model(model, run, monkeypatch):
    made, real = [], compiling.compiled
    monkeypatch.setattr(compiling, "compiled", lambda *a, **k: made.append(1) or real(*a, **k))
    found = [model.sample(draws=5, warmup=5, chains=2, seed=seed).prior()["mu"] for seed in (5, 6)]
    assert len(made) <= 1  # none, where another test has drawn it
    assert not np.array_equal(*found)  # each with its own seed


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "text", ["mu[0]/mu[1]", "mu[0]//2", "mu[0] /(1 + tau)", "(mu[0] + 1) / -tau", "mu/2"]
)
def test_whatever_it_was_called_it_is_there_when_loaded(model, tmp_path, text):
    run = model.sample(draws=20, warmup=20, chains=2, seed=1)
    run.derive(text)
    run.derive("named = mu[0]/tau")
    run.save(tmp_path / "run")
    back = gibbsite.load(tmp_path / "run")
    assert list(back.derived) == list(run.derived)
    for name, quantity in run.derived.items():
        np.testing.assert_array_equal(back.derived[name].values, quantity.values)


def test_what_may_only_be_read_has_quantities_too(model, tmp_path):
    """Another process goes on with the store; or another handle did."""
    run = model.sample(draws=20, warmup=20, chains=2, seed=1, store=tmp_path / "run")
    held = Lock(tmp_path / "run")
    held.take()
    for reader in (gibbsite.load(tmp_path / "run"), run):
        with pytest.warns(
            UserWarning,
            match=r"stays in memory: (store .* is being written to by process|a run that was loaded)",
        ):
            found = reader.derive("twice = 2 * tau")
        np.testing.assert_allclose(found.values, 2.0 * reader.draws["tau"], rtol=1e-6)
        with pytest.warns(UserWarning, match="stays in memory"):
            reader.forget("twice")
        assert not reader.derived
    held.release()
    gibbsite.load(tmp_path / "run", model=model).resume(5)
    with pytest.warns(UserWarning, match="stays in memory: .*gone on elsewhere"):
        run.derive("2 * tau")
    assert list(run.derived) == ["2 * tau"]


def test_what_cannot_be_derived_is_told_why(model, tmp_path):
    """Draws that were not kept, and a store that is only read."""
    run = model.sample(draws=20, warmup=20, chains=2, keep=["tau"], store=tmp_path / "run")
    with pytest.raises(ExpressionError, match="draws of 'mu' were not kept: sample with keep="):
        run.derive("mu[0]")
    with pytest.raises(ExpressionError, match="no site is called 'nu'"):
        run.derive("nu[0]")
    back = gibbsite.load(tmp_path / "run")
    with pytest.warns(UserWarning, match="stays in memory: a run that was loaded"):
        back.derive("double = 2 * tau")
