"""Probabilities of discrete sites, likelihoods without them, and what they hide: against closed forms."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.elimination import MissingFraction, Pointwise, marginal_of
from gibbsite.errors import OptionError
from scipy import stats

X = np.array([-1.3, -0.7, 1.9, 0.4], np.float32)
W = np.array([0.3, 0.7])


def mixture(x):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Bernoulli(0.7))
        numpyro.sample("x", dist.Normal(mu + 2.0 * z, 1.0), obs=x)


def raters(y):
    p = numpyro.sample("p", dist.Beta(2, 2))
    with numpyro.plate("items", 3, dim=-2):
        z = numpyro.sample("z", dist.Bernoulli(0.4))
        with numpyro.plate("raters", 2, dim=-1):
            numpyro.sample("y", dist.Bernoulli(jnp.where(z == 1, p, 0.2)), obs=y)


@pytest.fixture(scope="module")
def runs():
    model = gb.model(mixture, X)
    options = {"draws": 60, "warmup": 40, "chains": 2, "seed": 2}
    return model.eliminate("z").sample(keep_probs=True, **options), model.sample(**options)


def test_probabilities_are_means_of_exact_ones(runs):
    eliminated, gibbs = runs
    for run in (eliminated, gibbs):
        mu = run.draws["mu"].reshape(-1, 1).astype(float)
        p = W * stats.norm.pdf(X[:, None] - mu[..., None] - np.array([0.0, 2.0]))
        np.testing.assert_allclose(run.probs["z"], (p / p.sum(-1, keepdims=True)).mean(0), atol=1e-5)


def test_probabilities_are_saved_with_the_run(runs, tmp_path):
    runs[0].save(tmp_path / "run")
    found = gb.load(tmp_path / "run")
    np.testing.assert_array_equal(found.probs["z"], runs[0].probs["z"])
    runs[1].save(tmp_path / "without")
    model = gb.model(mixture, X)
    assert "mu" in gb.load(tmp_path / "without", model=model).draws
    with pytest.raises(OptionError, match="no discrete latent"):
        model.condition(z=1).sample(keep_probs=True)
    with pytest.raises(OptionError, match="leave keep="):
        model.sample(keep_probs=True, keep="mu")


def test_those_of_a_run_that_went_on_are_of_all_its_draws(tmp_path):
    """What was kept at an end is not what a run tells that was cut off later."""
    model = gb.model(mixture, X).eliminate("z")
    folder = tmp_path / "run"
    run = model.sample(keep_probs=True, draws=20, warmup=40, chains=2, seed=2, chunk=20, store=folder)
    run.continue_(10**6)
    while run.kept.sampled.steps < 60:
        pass
    run.leave()
    run.settle(60)
    found = gb.load(folder, model=model)
    mu = found.draws["mu"].reshape(-1, 1).astype(float)
    p = W * stats.norm.pdf(X[:, None] - mu[..., None] - np.array([0.0, 2.0]))
    np.testing.assert_allclose(found.probs["z"], (p / p.sum(-1, keepdims=True)).mean(0), atol=1e-5)


@pytest.mark.slow
def test_sites_of_a_loop_have_probabilities_and_likelihoods_of_their_own():
    """Values of `z_0`, `z_1`, … are stacked to one array for what is computed: after the axis of draws."""
    move, y = np.array([[0.8, 0.2], [0.3, 0.7]], np.float32), X[:3]

    def chain(y):
        m, z = numpyro.sample("m", dist.Normal(0, 1).expand([2]).to_event(1)), 0
        for t in range(len(y)):
            z = numpyro.sample(f"z_{t}", dist.Categorical(jnp.asarray(move)[z]))
            numpyro.sample(f"y_{t}", dist.Normal(m[z], 1.0), obs=y[t])

    run = gb.model(chain, y).sample(draws=60, warmup=40, chains=2, seed=2)
    m = run.draws["m"].reshape(-1, 2).astype(float)
    z0, z2 = (run.draws[f"z_{t}"].reshape(-1) for t in (0, 2))
    p = move[z0] * move[:, z2].T * stats.norm.pdf(y[1], m, 1.0)
    np.testing.assert_allclose(run.probs["z_1"], (p / p.sum(-1, keepdims=True)).mean(0), atol=1e-5)
    assert "z_1" in repr(run.probs) and np.isfinite(run.elpd().elpd)


def test_the_likelihood_of_each_point_without_its_label(runs):
    tree = runs[0].to_datatree(log_likelihood="marginal")
    mu = runs[0].draws["mu"][..., None, None].astype(float)
    expected = np.log((W * stats.norm.pdf(X[:, None] - mu - np.array([0.0, 2.0]))).sum(-1))
    np.testing.assert_allclose(tree["log_likelihood"]["x"], expected, atol=1e-5)
    assert "summed out" in tree.attrs["log_likelihood_given"]


@pytest.mark.slow
def test_of_several_observations_each_is_given_the_others():
    y = np.array([[1, 0], [1, 1], [0, 0]])
    density = gb.model(raters, y).density
    found = Pointwise(marginal_of(density, ["z"]), ["y"])
    found = found({"p": jnp.float32(0.8)}, tuple(density.arguments.arrays))["y"]
    of = np.array([0.2, 0.8])  # P(y = 1 | z)
    each = np.where(y[..., None] == 1, of, 1 - of)
    joint = (np.array([0.6, 0.4]) * each.prod(1)).sum(-1)
    other = (np.array([0.6, 0.4]) * each[:, ::-1]).sum(-1)
    np.testing.assert_allclose(found, np.log(joint[:, None] / other), rtol=1e-5)

    def pairs(y):
        z = numpyro.sample("z", dist.Bernoulli(0.4).expand([3]))
        numpyro.sample("y", dist.Normal(z[1:] - z[:-1], 1.0), obs=y)

    assert not Pointwise(marginal_of(gb.model(pairs, y[1:, 0]).density, ["z"]), ["y"]).unread


def test_the_missing_share_of_information():
    """One mean, known weights: 1 − observed / complete information, by quadrature-free closed forms."""
    x = np.random.default_rng(0).normal(0, 1, 400).astype(np.float32) + 2.0 * (np.arange(400) % 10 < 7)
    density = gb.model(mixture, x).density
    mode = 0.0
    for _ in range(60):  # EM
        p = W * stats.norm.pdf(x[:, None] - mode - np.array([0.0, 2.0]))
        r = p[:, 1] / p.sum(1)
        mode = (x - 2 * r).sum() / (len(x) + 1)
    expected = (4 * r * (1 - r)).sum() / (len(x) + 1)
    missing, data = MissingFraction(marginal_of(density, ["z"])), tuple(density.arguments.arrays)
    found = missing({"mu": jnp.float32(mode)}, jax.random.key(0), data)
    assert missing({"mu": jnp.float32(np.nan)}, jax.random.key(0), data) is None
    assert abs(found - expected) < 4.5 * expected * np.sqrt(2 / 256)
