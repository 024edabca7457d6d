"""What values are called: where the model uses them as places, or names the column; else not at all."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

REGION = pd.Series(pd.Categorical(list("abc") * 4, categories=list("abc")), name="region")
SICK = pd.Series(pd.Categorical(["no", "yes"] * 6), name="sick")
Y = np.linspace(-1, 1, 12).astype(np.float32)


def model(region, sick, y, shift=0):
    with numpyro.plate("region", 3):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("n", 12):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
        two = numpyro.sample("two", dist.Bernoulli(0.5))
        last = numpyro.sample("last", dist.Categorical(jnp.ones(3) / 3))
        at = (z + shift) % 3
        numpyro.sample("y", dist.Normal(mu[region] + mu[at] + two + mu[2 - last] + sick, 1.0), obs=y)
    numpyro.sample("sick", dist.Bernoulli(0.5))


@pytest.mark.share(2)
@pytest.mark.parametrize("shift", [0, 1])
def test_labels_come_from_plates_that_values_are_places_in_and_from_columns_of_the_name(shift):
    """`mu[z]` names the values of z, `mu[(z + 1) % 3]` and `mu[2 - last]` do not; `two` has as many values as
    `sick` has labels, which is no reason."""
    m = gb.model(model, REGION, SICK, Y, shift)
    found = {"z": ("a", "b", "c")} if shift == 0 else {}
    assert m.plan().value_labels == {**found, "sick": ("no", "yes")}


@pytest.mark.slow
def test_a_run_keeps_them(tmp_path):
    run = gb.model(model, REGION, SICK, Y).sample(draws=3, warmup=2, chains=1)
    run.save(tmp_path / "kept")
    for one in (run, gb.load(tmp_path / "kept")):
        assert one.value_labels("z") == ("a", "b", "c") and one.value_labels("two") == ()
    assert "value_labels" not in dir(run)
    assert "sick: " in run.plot().svg and ">yes<" in run.plot().svg
