"""The summary of a run, whatever its draws are like."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest


def still(y):
    kind = numpyro.sample("kind", dist.Categorical(np.array([0.0, 1.0])))
    mu = numpyro.sample("mu", dist.Normal(kind * 1.0, 1.0))
    numpyro.deterministic("one", mu * 0.0 + 1.0)
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


@pytest.mark.slow
def test_of_what_never_moves_there_is_no_r_hat_and_no_warning():
    """Variances of 0 are divided by: NumPy's warnings, which are errors here, are no news to anybody."""
    run = gb.model(still, np.ones(3, np.float32), check_values=False).sample(draws=20, warmup=5, chains=2)
    with np.errstate(all="raise", under="ignore"):
        table = run.summary(kind="diagnostics")
        whole = run.summary()
    assert {"kind", "mu", "one"} <= {*table.index} and np.isnan(float(table.loc["kind", "r_hat"]))
    assert float(whole.loc["kind", "mean"]) == 1 and np.isfinite(float(whole.loc["mu", "r_hat"]))


def mixture(y, names):
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]))
    with numpyro.plate("row", 40):
        z = numpyro.sample("z", dist.Categorical(np.array([0.5, 0.5])))
        numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)
    with numpyro.plate("name", len(names)):
        e = numpyro.sample("e", dist.Normal(0, 1e-4))
    numpyro.sample("t", dist.Normal(e[names], 1e-4), obs=np.zeros(len(names)))


@pytest.mark.slow
def test_digits_go_by_the_error_many_indicators_are_cut_and_labels_are_everywhere():
    y = np.where(np.arange(40) % 2, 4.0, -4.0)
    model = gb.model(mixture, y, pd.Series(["Ada", "Ben", "Cy"])).condition(mu=np.array([-4.0, 4.0]))
    run = model.sample(draws=60, warmup=20, chains=2)
    table = run.summary()
    assert sum(n.startswith("z[") for n in table.index) == 10
    assert len(run.summary(var_names=["z"])) == 40
    printed = repr(table)
    assert "… and 30 more of z" in printed and "z[" in table._repr_html_()
    row = next(line for line in printed.splitlines() if line.startswith("e[Ada]"))
    error = float(table.loc["e[Ada]", "mcse_mean"])
    assert table.loc["e[Ada]", "sd"] > 1e-5  # in full
    assert row.split()[-2] == f"{error:.{1 - int(np.floor(np.log10(error)))}f}"
    # what tells of elements tells of them by name
    few = run.verdict.reasons or (str(run.snapshot().scalars),)
    assert "e[0]" not in " ".join(few)
    assert run.dashboard().content.called.get("e[0]", "e[Ada]") == "e[Ada]"
    probs = run.probs
    assert probs["z"].shape == (40, 2) and list(probs.to_frame("z").columns) == [0, 1]
    assert "and 28 more elements of z" in repr(probs)
    with pytest.raises(KeyError, match="'zz'"):
        probs.to_frame("zz")


def test_what_never_moves_has_no_standard_deviation():
    """In single precision the mean of thousands of equal draws is another number."""

    def m(y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.deterministic("c", jnp.array([8.289, 3.7]) + 0 * b)
        numpyro.sample("y", dist.Normal(b, 1), obs=y)

    table = gb.model(m, np.array(0.3)).sample(draws=1000, chains=4, seed=0).summary()
    assert (table.loc[["c[0]", "c[1]"], "sd"] == 0).all()
    assert table.loc["c[1]", "mean"] == float(np.float32(3.7))


@pytest.mark.slow
def test_of_thousands_of_elements_some_are_listed():
    """A line each takes ArviZ minutes, and nobody reads 10,000 lines."""

    def m(y):
        a = numpyro.sample("a", dist.Normal(0, 1).expand([2500]).to_event(1))
        numpyro.deterministic("big", jnp.outer(a[:100], a[100:200]))
        numpyro.sample("y", dist.Normal(a[0], 1), obs=y)

    table = gb.model(m, np.array(0.3)).sample(draws=60, warmup=60, chains=2, seed=0).summary()
    assert len(table) == 20 and "… and 9,990 more of big" in repr(table) and "big" in repr(table)


def test_numbers_that_say_that_nothing_has_met_are_short():
    from gibbsite.sampling.watch.summary import _cell

    assert _cell("r_hat", 6490083274802455.0, 1.0) == "6.5e+15" and _cell("r_hat", 1.0101, 1.0) == "1.010"
