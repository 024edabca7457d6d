"""Chains in different modes are told as that, with the weights of the modes."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.diagnostics.measures.convergence import all_stats
from gibbsite.diagnostics.modes.found import groups_of_chains, mode_weights, modes_found
from gibbsite.diagnostics.modes.space import space_of
from gibbsite.errors import ModelError
from gibbsite.sampling.engine.starting import Starting
from numpyro import handlers
from numpyro.infer.reparam import CircularReparam

RNG = np.random.default_rng
SHARES, PLACES = np.array([0.15, 0.25, 0.6]), np.array([-8.0, 0.0, 9.0])


def three(size):
    """Normals of different widths in different places, with correlations, and a positive number beside."""
    cov = jnp.stack([s**2 * (0.6 + 0.4 * jnp.eye(size)) for s in (0.3, 1.0, 0.5)])
    loc = jnp.asarray(PLACES)[:, None] * jnp.ones(size)
    parts = dist.MultivariateNormal(loc, cov)
    x = numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(jnp.asarray(SHARES)), parts))
    numpyro.sample("g", dist.Gamma(3.0, 1.0))
    numpyro.factor("pull", -0.5 * (x[0] / 100) ** 2)


def in_mode(k, size, chains, draws, rng):
    cov = [0.3, 1.0, 0.5][k] ** 2 * (0.6 + 0.4 * np.eye(size))
    x = rng.multivariate_normal(np.full(size, PLACES[k]), cov, (chains, draws))
    return {"x": x.astype(np.float32), "g": rng.gamma(3.0, 1.0, (chains, draws)).astype(np.float32)}


@pytest.mark.parametrize("size", [1, 8])
def test_weights_are_those_of_the_mixture(size):
    space = space_of(gb.model(three, size).plan(), ("x", "g"))
    pull = np.exp(-0.5 * (PLACES / 100) ** 2)
    exact = SHARES * pull / (SHARES * pull).sum()
    for seed in range(3):
        rng = RNG(10 * size + seed)
        found = mode_weights(space, [in_mode(k, size, 1 + k, 400, rng) for k in range(3)], seed)
        assert (found.error < 0.05).all()
        assert (np.abs(found.share - exact) < 4 * found.error + 1e-4).all()


def test_errors_are_as_large_as_the_weights_are_off():
    space = space_of(gb.model(three, 4).plan(), ("x", "g"))
    off = []
    for seed in range(20):
        rng = RNG(seed)
        found = mode_weights(space, [in_mode(k, 4, 1, 150, rng) for k in range(3)], seed)
        off.append((found.share - SHARES) / found.error)
    assert 0.5 < np.sqrt(np.mean(np.square(off))) < 1.6  # 40 numbers that are free: 1 ± .11


def test_no_weights_from_few_draws_of_many_numbers():
    space = space_of(gb.model(three, 8).plan(), ("x", "g"))
    rng = RNG(0)
    assert mode_weights(space, [in_mode(k, 8, 1, 16, rng) for k in range(3)]) is None


def test_chains_fall_into_groups():
    rng = RNG(1)
    x = rng.standard_normal((5, 200))
    assert groups_of_chains(all_stats({"x": x}), {"x": x}) is None
    moved = x + np.array([0, 9, 0, -9, 9])[:, None]
    found = groups_of_chains(all_stats({"x": moved}), {"x": moved})
    assert found.groups == ((0, 2), (1, 4), (3,)) and found.label == "x"
    assert np.allclose(found.means, [0, 9, -9], atol=0.3)
    wide = 20 * x * np.array([1, 0.001, 1, 0.001, 1])[:, None]
    wide = np.where(np.abs(wide) < 1, wide + np.array([9, 0, 9, 0, 9])[:, None], wide)  # around a narrow one
    assert groups_of_chains(all_stats({"x": wide}), {"x": wide}).groups == ((0, 2, 4), (1, 3))
    drifting = x + np.linspace(0, 40, 200) * np.array([1, -1, 1, -1, 1])[:, None]
    assert groups_of_chains(all_stats({"x": drifting}), {"x": drifting}) is None
    bridged = np.concatenate([x[:2], x[2:3] + 9 * (np.arange(200) % 2), x[3:] + 9])  # one goes to and fro
    assert groups_of_chains(all_stats({"x": bridged}), {"x": bridged}) is None


def two_widths(y):
    parts = dist.Normal(jnp.array([-2.0, 2.0]), 0.3)
    s = numpyro.sample("s", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.1, 0.9])), parts))
    with numpyro.plate("n", len(y)):
        x = numpyro.sample("x", dist.Normal(0, 100.0))
        numpyro.sample("y", dist.Normal(x, jnp.exp(2 * jnp.tanh(2 * s) - 2)), obs=y)


def two_tails(y):
    """The same with noise that nobody integrates out."""
    parts = dist.Normal(jnp.array([-2.0, 2.0]), 0.3)
    s = numpyro.sample("s", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.1, 0.9])), parts))
    with numpyro.plate("n", len(y)):
        x = numpyro.sample("x", dist.Normal(0, 100.0))
        numpyro.sample("y", dist.StudentT(5.0, x, jnp.exp(2 * jnp.tanh(2 * s) - 2)), obs=y)


@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("fn", "told"), [pytest.param(two_widths, "NUTS [s x]", marks=pytest.mark.slow), (two_tails, None)]
)
def test_a_mode_that_is_narrow_where_a_mixture_says_so_is_found(fn, told):
    """No start comes near it; every chain was in the other one, and that was called converged."""
    run = gb.model(fn, RNG(0).normal(0, 1, 10).astype(np.float32)).sample(draws=400, seed=0, schedule=told)
    assert "beyond a valley" in run.starts and not run.verdict.ok
    (lower,) = [k for k, g in enumerate(run.modes.groups) if run.draws["s"][g[0]].mean() < 0]
    assert abs(run.modes.weights[lower] - 0.1) < 4 * run.modes.errors[lower] < 0.08


@pytest.mark.slow
def test_what_a_mixture_might_say_and_data_do_not_moves_no_chain(monkeypatch):
    y = RNG(1).normal(2.5, 1, 40).astype(np.float32)

    def strong(y):
        parts = dist.Normal(jnp.array([-3.0, 3.0]), 1.0)
        m = numpyro.sample("m", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.5, 0.5])), parts))
        s = numpyro.sample("s", dist.HalfNormal(2.0))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.StudentT(5.0, m, s), obs=y)

    looked = []
    monkeypatch.setattr(Starting, "_held", lambda *a, f=Starting._held: looked.append(f(*a)) or looked[-1])
    run = gb.model(strong, y).sample(draws=400, seed=0)
    assert run.verdict.ok and "beyond a valley" not in run.starts
    (held,) = looked[0]  # m far from where chains are, and s as large as makes up for it
    assert (np.abs(held["m"] - 2.5) > 1).any() and held["s"].max() > 2 * np.asarray(run.draws["s"]).mean()


@pytest.mark.slow
def test_a_run_says_what_modes_there_are_and_what_they_weigh(tmp_path):
    m = gb.model(two_widths, RNG(0).normal(0, 1, 10).astype(np.float32))
    init, told = {"s": np.float32([-2, 2, -2, 2])}, "Conjugate x (*) NUTS s"
    run = m.sample(draws=400, seed=0, init=init, schedule=told)
    assert run.modes.groups == ((0, 2), (1, 3))
    assert abs(run.modes.weights[0] - 0.1) < 4 * run.modes.errors[0] < 0.05
    assert "chains are in 2 different modes: s is about" in str(run.verdict) and not run.verdict.ok
    notice = next(w for w in run.snapshot().warnings if w.topic == "modes")
    assert notice.sites == ("s",) and "Tempered(NUTS [s x])" in notice.hint
    assert "bridge" in run.advice() and "different modes" in run.report(tmp_path / "r.html").read_text()
    share = (run.modes.draws()["s"] < 0).mean()
    assert abs(share - run.modes.weights[0]) < 4 * np.sqrt(0.09 / 1600)
    run.save(tmp_path / "run")
    loaded = gb.load(tmp_path / "run")  # without its model nothing is weighed
    assert loaded.modes.groups == run.modes.groups and loaded.modes.weights is None
    with pytest.raises(ModelError, match="could not be told"):
        loaded.modes.draws()
    assert modes_found(run.plan, (), run.draws) is None


@pytest.mark.slow
def test_turns_of_an_angle_are_no_modes():
    """`CircularReparam` lets an angle go around; data about ±π put chains into any turn."""

    @handlers.reparam(config={"mu": CircularReparam()})
    def m(y):
        kappa = numpyro.sample("kappa", dist.Gamma(20.0, 0.2))
        mu = numpyro.sample("mu", dist.VonMises(0.0, 0.4))
        numpyro.sample("y", dist.VonMises(mu, kappa), obs=y)

    y = np.random.default_rng(24).vonmises(np.pi, 100, 60)
    run = gb.model(m, y).sample(draws=600, chains=4, seed=0)
    assert np.abs(run.draws["mu_unwrapped"]).max() <= np.pi + 1e-5
    np.testing.assert_allclose(np.cos(run.draws["mu_unwrapped"]), np.cos(run.draws["mu"]), atol=1e-5)
    assert "modes" not in str(run.verdict)


@pytest.mark.slow
def test_modes_of_discrete_sites_alone_are_told_without_weights():
    """No coordinates are left to measure a mass by."""

    def denoised(y):
        z = numpyro.sample("z", dist.Bernoulli(0.5).expand([6, 6]).to_event(2))
        s = 2.0 * z - 1
        numpyro.factor("alike", 0.8 * (jnp.sum(s[1:] * s[:-1]) + jnp.sum(s[:, 1:] * s[:, :-1])))
        numpyro.sample("y", dist.Normal(0.15 * s, 1.0).to_event(2), obs=y)

    y = np.random.default_rng(0).normal(0.0, 1.0, (6, 6)).astype(np.float32)
    model = gb.model(denoised, y)
    for seed in range(3):
        run = model.sample(draws=300, chains=4, seed=seed, schedule="Gibbs z")
        assert not run.verdict.ok
    # by default a lattice of few rows is drawn as one, as its sweep takes hardly longer for it
    assert model.schedule().text == "Gibbs(joint=True) z"
