"""`density.explain()` names what every term reads and the operation, with its line, that reads too much."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import UnknownNameError

X = np.array([0.3, 1.2, -0.4, 2.0], np.float32)


def ordered(x):
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([3]).to_event(1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)
    top = jnp.sort(z)[-1]
    numpyro.sample("seen", dist.Normal(top, 1.0), obs=1.0)


def ring(n=5):
    with numpyro.plate("n", n):
        z = numpyro.sample("z", dist.Bernoulli(0.5))
    numpyro.factor("pairs", z[1:] * z[:-1])


def test_the_operation_and_its_line_are_named():
    model = gb.model(ordered, X)
    readings = {r.term.origin: r for r in model.density.explain("z")["z"]}
    assert readings["x"].what == "its own element" and not readings["x"].because
    (widening,) = readings["seen"].because
    assert widening.operation == "sort"
    assert widening.line is not None and "jnp.sort(z)[-1]" in widening.line.text
    assert "`sort` at test_explain.py" in model.conditional("z").reason
    assert "one after another" in model.conditional("z").reason


def test_gathers_and_neighbours_are_told_in_words():
    text = str(gb.model(ordered, X).density.explain("mu"))
    assert "mu[an index by z]" in text and "because" not in text
    text = str(gb.model(ring).density.explain())
    assert "z[its own +1] and its own element" in text


def test_members_of_a_loop_are_explained_by_group():
    def looped(x):
        for i in range(len(x)):
            z = numpyro.sample(f"z[{i}]", dist.Bernoulli(0.4))
            numpyro.sample(f"x[{i}]", dist.Normal(z, 1.0), obs=x[i])

    density = gb.model(looped, X).density
    assert list(density.explain("z[2]").sites) == ["z"]
    with pytest.raises(UnknownNameError, match="mu"):
        gb.model(ordered, X).density.explain("my")
