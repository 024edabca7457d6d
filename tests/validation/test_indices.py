"""Latents that pick elements: beyond an axis JAX reads the nearest one, and would say nothing."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import DataError
from numpyro import sample

MEANS, Y = np.array([0.0, 1.0, 2.0]), np.zeros(5)
EVEN = np.full(4, 0.25)


def picks(prior, index=lambda z: z, rows=True, of=lambda v, z: v):
    def model(y):
        means = jnp.asarray(MEANS)
        if rows:
            with numpyro.plate("n", 5):
                z = sample("z", prior())
                sample("y", dist.Normal(of(means[index(z)], z), 1.0), obs=y)
        else:
            z = sample("z", prior())
            sample("y", dist.Normal(of(means[index(z)], z), 1.0).expand([5]).to_event(1), obs=y)

    return model


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize(
    "prior, value",
    [
        (lambda: dist.Categorical(EVEN), 3),
        (lambda: dist.DiscreteUniform(1, 3), 3),
        (lambda: dist.Binomial(5, 0.5), 3),
    ],
)
def test_what_can_be_beyond_the_end_is_refused(prior, value, rows):
    told = (
        rf"with 'z' = {value}, which can be, element {value} is picked of an axis of 3 \(line \d+: .*less 1"
    )
    with pytest.raises(DataError, match=told):
        gb.model(picks(prior, rows=rows), Y)


def test_two_that_are_beyond_it_together_are_refused():
    def model(y, most):
        with numpyro.plate("n", 5):
            a, b = sample("a", dist.Categorical(np.ones(2) / 2)), sample("b", dist.Binomial(most, 0.5))
            sample("y", dist.Normal(jnp.asarray(MEANS)[a + b], 1.0), obs=y)

    gb.model(model, Y, 1)
    with pytest.raises(DataError, match="with 'a' = 1 and 'b' = 2, which can be, element 3"):
        gb.model(model, Y, 2)


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize(
    "model",
    [
        {"prior": lambda: dist.DiscreteUniform(1, 3), "index": lambda z: z - 1},
        {"prior": lambda: dist.Categorical(EVEN), "index": lambda z: jnp.minimum(z, 2)},
        {"prior": lambda: dist.Categorical(EVEN), "of": lambda v, z: jnp.where(z < 3, v, 9.0)},
        {"prior": lambda: dist.Categorical(np.array([0.5, 0.25, 0.25, 0.0]))},
        {"prior": lambda: dist.Poisson(2.0), "index": lambda z: jnp.clip(z, 0, 2)},
        {"prior": lambda: dist.DiscreteUniform(-1, 1)},  # as NumPy has it: from the end
    ],
    ids=["less one", "cut off", "chosen", "impossible", "without an end", "from the end"],
)
def test_what_stays_within_or_does_not_count_is_not(model, rows):
    assert not gb.model(picks(**model, rows=rows), Y).notes


def test_each_row_has_an_end_of_its_own():
    def model(y, n):
        with numpyro.plate("n", 5):
            z = sample("z", dist.Binomial(n, 0.5))
            sample("y", dist.Normal(jnp.asarray(MEANS)[z], 1.0), obs=y)

    gb.model(model, Y, np.array([1, 2, 2, 1, 2]))
    with pytest.raises(DataError, match="element 3 is picked"):
        gb.model(model, Y, np.array([1, 2, 3, 1, 2]))


@pytest.mark.parametrize("rows", [True, False])
def test_what_has_no_end_is_told(rows):
    (note,) = gb.model(picks(lambda: dist.Poisson(2.0), rows=rows), Y).notes
    assert "'z' has no upper end, and picks from 3 elements" in note
    assert "jnp.minimum(z, 2)" in note
