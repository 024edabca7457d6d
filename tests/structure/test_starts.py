"""Where chains over structures start: never where the data are impossible, however seldom the prior draws
another structure, and they never stay there."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import DataError, ModelError


def switches(count, chance):
    return [numpyro.sample(f"on{i}", dist.Bernoulli(chance)) for i in range(count)]


def by_a_factor(y):
    first, second = switches(2, 0.03)
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    if first and second:
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
    else:
        numpyro.factor("none", -jnp.inf)


def of_two(y):
    """How many of two are on, and a mean of the data."""
    alive = sum(1 for on in switches(2, 0.05) if on)
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)
    return alive, mu


def by_a_support(y):
    alive, _ = of_two(y)
    numpyro.sample("both", dist.Binomial(alive, 0.5), obs=2)


def by_a_draw(y):
    """Impossible by what is drawn there, too."""
    alive, mu = of_two(y)
    numpyro.factor("both", jnp.where(jnp.abs(mu) * (alive - 2) < 0, -jnp.inf, 0.0))


@pytest.mark.parametrize("model", [by_a_factor, by_a_support, by_a_draw])
def test_chains_start_where_the_data_are_possible(model):
    """They stayed in structures without a density, "converged": minus infinity was a finite number."""
    run = gb.model(model, 1.0).sample(draws=400, warmup=50, chains=4, seed=2)
    assert all((run.draws[n] == 1).all() for n in ("on0", "on1"))
    mu = run.draws["mu"]
    assert abs(mu.mean() - 0.5) < 4 * np.sqrt(0.5 / 200)  # an eighth of the draws would do
    assert [s.name for s in run.structures] == ["on0 = 1, on1 = 1"]


def test_structures_that_a_look_rules_out_are_passed_by():
    """More than there is room for, and none is compiled or counted."""

    def places(y):
        where = numpyro.sample("where", dist.Poisson(60.0))
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        if int(where) % 30 > 1:
            numpyro.factor("none", -jnp.inf)
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    run = gb.model(places, 1.0).sample(draws=50, warmup=0, chains=2, seed=1)
    assert {*np.unique(run.draws["where"] % 30)} <= {0, 1}
    assert len(run.plan.kernel.known) < 8


def test_where_no_structure_is_possible_that_is_told():
    def never(y):
        on = switches(1, 0.5)[0]
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        if on:
            numpyro.factor("none", -jnp.inf)
        else:
            numpyro.factor("nowhere", jnp.where(mu * 0 == 0, -jnp.inf, 0.0))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    with pytest.raises(ModelError, match=r"no start: where \(on0 = 0\).*nor was another.*init="):
        gb.model(never, 1.0).sample(draws=5, chains=2)

    def barred(y):
        if switches(1, 0.5)[0]:
            numpyro.factor("none", -jnp.inf)
        else:
            numpyro.sample("y", dist.Gamma(numpyro.sample("a", dist.HalfNormal(1)), 1.0), obs=y)

    with pytest.raises(DataError, match="impossible in every structure"):
        gb.model(barred, -1.0).sample(draws=5, chains=2)


def test_a_structure_without_the_data_is_none_of_a_program():
    """Of categories that a smaller simplex has not, its constant was looked for while all was traced."""

    def model(y):
        count = numpyro.sample("K", dist.Categorical(jnp.ones(2) / 2)) + 2
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(count)))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.Categorical(w), obs=y)

    run = gb.model(model, np.array([0, 1, 2])).sample(draws=20, warmup=10, chains=2)
    assert (run.draws["K"] == 1).all()
