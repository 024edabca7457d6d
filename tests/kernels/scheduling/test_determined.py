"""Discrete sites that determine each other are drawn jointly or refused, never moved one by one."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ScheduleError
from gibbsite.kernels.scheduling.moves import connected
from numpyro.contrib.control_flow import scan


def never(condition):
    numpyro.factor("never", jnp.where(condition, -jnp.inf, 0.0))


def xor():
    a, b = numpyro.sample("a", dist.Bernoulli(0.5)), numpyro.sample("b", dist.Bernoulli(0.3))
    never(a == b)


def one_hot():
    with numpyro.plate("k", 4):
        z = numpyro.sample("z", dist.Bernoulli(jnp.array([0.1, 0.2, 0.3, 0.4])))
    never(z.sum() != 1)


def fixed_sum():
    p = numpyro.sample("p", dist.Beta(2, 2))
    z = [numpyro.sample(f"die{i}", dist.Categorical(jnp.ones(6) / 6)) for i in range(2)]
    numpyro.sample("q", dist.Bernoulli(p), obs=1)
    never(z[0] + z[1] != 7)


def larger():
    """max of two dice observed, through an observed site of no width."""
    a, b = (numpyro.sample(n, dist.DiscreteUniform(1, 6)) for n in "ab")
    numpyro.sample("seen", dist.Delta(jnp.maximum(a, b)), obs=4)


def indicator(n=20):
    """Rows that take the state of their group: the group's switch and its rows move together."""
    g = np.arange(n) % 2
    with numpyro.plate("groups", 2):
        s = numpyro.sample("s", dist.Bernoulli(0.5))
    with numpyro.plate("rows", n):
        z = numpyro.sample("z", dist.Bernoulli(jnp.array([0.0, 1.0])[s[g]]))
        numpyro.sample("x", dist.Normal(0.3 * z, 1.0), obs=0.1 * np.arange(n))


def network():
    smoking = numpyro.sample("smoking", dist.Bernoulli(0.5))
    tub = numpyro.sample("tub", dist.Bernoulli(0.01))
    lung = numpyro.sample("lung", dist.Bernoulli(jnp.where(smoking == 1, 0.1, 0.01)))
    either = jnp.maximum(tub, lung)
    numpyro.sample("xray", dist.Bernoulli(jnp.where(either == 1, 0.98, 0.05)), obs=1)


JOINT = {
    xor: "Gibbs [a b]",
    one_hot: "Gibbs(joint=True) z",
    fixed_sum: "Gibbs [die0 die1] (*) Conjugate p",
    larger: "Gibbs [a b]",
    indicator: "Gibbs [s z]",
    network: "Gibbs [smoking tub lung]",
}


@pytest.mark.parametrize("fn", JOINT, ids=lambda f: f.__name__)
def test_the_default_draws_them_jointly(fn):
    assert gb.model(fn).schedule().text == JOINT[fn]


def test_a_parity_is_sampled_right():
    draws = gb.model(xor).sample(draws=400, warmup=0, chains=4, seed=0).draws
    assert (draws["a"] + draws["b"] == 1).all()
    assert (np.abs(draws["a"].mean(1) - 0.7) < 5 * np.sqrt(0.21 / 400)).all()


def test_a_one_hot_site_is_sampled_right():
    draws = gb.model(one_hot).sample(draws=400, warmup=0, chains=4, seed=0).draws["z"]
    odds = np.array([1 / 9, 2 / 8, 3 / 7, 4 / 6])
    p = odds / odds.sum()
    assert (draws.sum(-1) == 1).all()
    assert (np.abs(draws.mean((0, 1)) - p) < 5 * np.sqrt(p * (1 - p) / 1600)).all()


def test_what_is_too_large_to_draw_jointly_is_refused():
    def parity():
        with numpyro.plate("n", 60):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
        never(z.sum() % 2 == 1)

    with pytest.raises(ScheduleError, match=r"determine each other.*2\^60"):
        gb.model(parity).schedule()


def test_constraints_that_single_moves_get_around_are_left_alone():
    def hard_core(n=30):
        """No two neighbours: every configuration leads to the empty one, element by element."""
        with numpyro.plate("n", n):
            z = numpyro.sample("z", dist.Bernoulli(0.3))
        numpyro.factor("apart", jnp.where(z[1:] * z[:-1] == 1, -jnp.inf, 0.0))

    def soft_sum():
        with numpyro.plate("n", 60):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(z.sum(), 1.0), obs=25.0)

    def left_to_right(y):
        """Transitions of probability zero inside one chain, which is drawn as a whole anyway."""

        def step(before, now):
            z = numpyro.sample(
                "z", dist.Categorical(jnp.array([[0.9, 0.1, 0], [0, 0.8, 0.2], [0, 0, 1]])[before])
            )
            numpyro.sample("y", dist.Normal(1.0 * z, 1.0), obs=now)
            return z, None

        scan(step, 0, y)

    assert gb.model(hard_core).schedule().text == "Gibbs z"
    assert gb.model(soft_sum).schedule().text == "Gibbs z"
    assert gb.model(left_to_right, np.arange(5.0)).schedule().text == "Gibbs z"


def test_connected_sees_what_single_moves_reach():
    rows = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 1, 0]], bool).T.reshape(2, 2, 4)
    assert [connected(rows[..., [i]]) for i in range(4)] == [True, False, False, True]
    assert not connected(rows)
