"""Masked latents: padding that nothing reads has its prior; the rest has the posterior without padding."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.liveness import flat_elements, needed_elements
from gibbsite.errors import ModelError
from numpyro import handlers
from numpyro.contrib.control_flow import scan

Y = np.array([1.0, 2.0, -1.0, 0.5], np.float32)
KEEP = np.array([True, True, False, False])


def effects(y, keep, prior):
    with numpyro.plate("n", len(y)), handlers.mask(mask=keep):
        x = numpyro.sample("x", prior)
        numpyro.sample("y", dist.Normal(x, 1.0), obs=y)


def weighted(y, keep):
    with handlers.mask(mask=keep):
        x = numpyro.sample("x", dist.Normal(0.0, 2.0).expand([4]))
    numpyro.sample(
        "y", dist.Normal((x * keep) @ jnp.ones(4) + (x @ jnp.diag(1.0 * keep)).sum(), 1.0), obs=1.0
    )


def walk(y, keep):
    def step(x, at):
        with handlers.mask(mask=at[1]):
            x = numpyro.sample("x", dist.Normal(0.9 * x, 1.0))
            numpyro.sample("y", dist.Normal(x, 1.0), obs=at[0])
        return x, None

    scan(step, 0.0, (y, keep))


@pytest.mark.slow
def test_padding_has_its_prior_and_the_rest_its_posterior():
    found = gb.model(effects, Y, KEEP, dist.Normal(0.0, 2.0)).conditional("x").distribution({})
    np.testing.assert_allclose(found.variance, [0.8, 0.8, 4.0, 4.0], rtol=1e-5)
    np.testing.assert_allclose(found.mean, [0.8, 1.6, 0.0, 0.0], atol=1e-6)
    precision = np.asarray(gb.model(weighted, Y, KEEP).conditional("x").natural({})["precision"])
    variance = np.diagonal(np.linalg.inv(precision)[0])
    np.testing.assert_allclose(variance[2:], 4.0, rtol=1e-4)
    assert (variance[:2] < 3.9).all()


def test_padding_of_what_all_rows_share():
    """No row is as long as the third effect; rows repeat the effects along an axis of size 1."""

    def ragged(y, lengths):
        with handlers.mask(mask=jnp.arange(3) < 2):
            x = numpyro.sample("x", dist.Normal(0.0, 2.0).expand([3]))
        long_enough = handlers.mask(mask=jnp.arange(3) < lengths[:, None])
        with numpyro.plate("rows", 4, dim=-2), numpyro.plate("columns", 3, dim=-1), long_enough:
            numpyro.sample("y", dist.Normal(x, 1.0), obs=y)

    density = gb.model(ragged, np.zeros((4, 3)), np.array([2, 1, 0, 2])).density
    assert needed_elements(density)["x"].all()  # its prior was let in again
    found = gb.model(ragged, np.zeros((4, 3)), np.array([2, 1, 0, 2])).conditional("x").distribution({})
    np.testing.assert_allclose(found.variance, [1 / 3.25, 1 / 2.25, 4.0], rtol=1e-5)


@pytest.mark.slow
def test_a_padded_sequence_continues_by_its_transition():
    padded, whole = gb.model(walk, Y, KEEP), gb.model(walk, Y[:2], KEEP[:2])
    cov, short = (np.linalg.inv(m.conditional("x").natural({})["precision"])[0] for m in (padded, whole))
    np.testing.assert_allclose(cov[:2, :2], short, rtol=1e-5)
    np.testing.assert_allclose(cov[2, 2], 0.81 * short[1, 1] + 1.0, rtol=1e-5)


@pytest.mark.slow
def test_gradients_know_the_prior_of_padding():
    run = gb.model(effects, Y, KEEP, dist.StudentT(30.0, 0.0, 2.0)).sample(
        schedule="NUTS x", draws=400, warmup=200, chains=2, seed=0
    )
    assert 1.6 < run.draws["x"][..., 2:].std() < 2.7  # 2.07


@pytest.mark.slow
def test_what_others_read_keeps_its_mask():
    """In the middle of a sequence a masked state is informed by the next: its own prior stays out. That of
    the last, which nothing reads, comes in."""
    inner = np.array([True, False, True, False])
    model = gb.model(walk, Y, inner)
    precision = np.asarray(model.conditional("x").natural({})["precision"])[0]
    np.testing.assert_allclose(np.diag(precision), [2.0, 0.81, 2.81, 1.0], rtol=1e-5)


def test_a_bounded_support_is_no_flat_direction():
    """Uniform on its support, as NumPyro defines the density of what is masked."""
    found = gb.model(effects, Y, KEEP, dist.Beta(2.0, 3.0))
    assert not needed_elements(found.density)["x"][2:].any() and not flat_elements(found.density)


def test_an_improper_prior_of_padding_is_refused():
    improper = dist.ImproperUniform(dist.constraints.real, (), ())
    with pytest.raises(ModelError, match=r"2 of its elements \(the first: \[2\]\)"):
        gb.model(effects, Y, KEEP, improper)


@pytest.mark.parametrize("masked", [False, True], ids=["improper", "masked"])
@pytest.mark.parametrize("at", [lambda mu, z: mu[z], lambda mu, z: jnp.where(z == 1, mu[1], mu[0])])
def test_an_element_that_perhaps_nothing_chooses_is_refused(masked, at):
    """Where all observations belong to the other component, its posterior is as improper as its prior."""

    def model(y, proper):
        prior = (
            dist.Normal(0.0, 2.0) if proper or masked else dist.ImproperUniform(dist.constraints.real, (), ())
        )
        with numpyro.handlers.mask(mask=jnp.array([True, proper or not masked])):
            mu = numpyro.sample("mu", prior.expand([2]))
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Categorical(jnp.array([0.4, 0.6])))
            numpyro.sample("y", dist.Normal(at(mu, z), 1.0), obs=y)

    with pytest.raises(ModelError, match="at some values of z nothing else says anything of 1"):
        gb.model(model, Y[:2], False)
    assert gb.model(model, Y[:2], True).conditional("mu").kind == "conjugate"


def test_an_element_that_something_surely_chooses_is_not_refused():
    """Which observation is of which component is known, by logits without end."""

    def known(y):
        prior = dist.ImproperUniform(dist.constraints.real, (), ()).expand([2]).to_event(1)
        mu = numpyro.sample("mu", prior)
        with numpyro.plate("n", 2):
            z = numpyro.sample("z", dist.Categorical(logits=jnp.log(jnp.eye(2))))
            numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)

    assert gb.model(known, Y[:2]).conditional("mu").kind == "conjugate"


@pytest.mark.parametrize("index", [[5, 1], [-7, 1], [2, 0]])
def test_an_index_out_of_range_reads_where_the_gather_puts_it(index):
    """`mu[g]` promises that `g` is in range; where it is not, the nearest element is what is read."""

    def model(x, g):
        with handlers.mask(mask=jnp.array([False, True, False])):
            mu = numpyro.sample("mu", dist.Normal(0.3, 2.0).expand([3]))
        numpyro.sample("x", dist.Normal(mu[g], 1.5), obs=x)

    m = gb.model(model, Y[:2], np.array(index, np.int8), check_values=False)
    reads = np.bincount(np.asarray(jnp.arange(3)[np.array(index)]), minlength=3)
    own = np.array([False, True, False]) | (reads == 0)
    sample, start = m.conditional("mu").sample, {"mu": jnp.zeros(3)}
    draws = jax.vmap(lambda key: sample(key, start))(jax.random.split(jax.random.key(0), 4000))
    np.testing.assert_allclose(draws.std(0) ** -2, own / 4 + reads / 1.5**2, rtol=0.12)  # 5 standard errors
