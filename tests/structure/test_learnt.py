"""Moves that draw what a structure has learnt, and models that switch between forms."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.density.liveness import switched
from gibbsite.structure.moves.learnt import Learnt, Reals
from gibbsite.structure.moves.places import place_of
from numpyro import factor, plate, sample
from scipy import stats

X = np.linspace(0, 4, 40)
Y = 0.5 * np.exp(-0.8 * X) + 0.5 / (1 + 1.2 * X) + np.random.default_rng(1).normal(0, 0.03, 40)


def exact(x, y) -> float:
    """The probability of the second form, by quadrature over the one number that each has."""
    u = np.linspace(-12, 12, 20_001)
    a = np.exp(u)[:, None]
    logs = [
        stats.norm(0, 3).logpdf(u) + stats.norm.logpdf(y, mean, 0.06).sum(axis=1)
        for mean in (np.exp(-a * x), 1 / (1 + a * x))
    ]
    top = np.max(logs)
    areas = [np.trapezoid(np.exp(v - top), u) for v in logs]
    return areas[1] / sum(areas)


def by_python(x, y):
    m = sample("m", dist.Bernoulli(0.5))
    if m:
        mean = 1 / (1 + sample("b", dist.LogNormal(0, 3)) * x)
    else:
        mean = jnp.exp(-sample("a", dist.LogNormal(0, 3)) * x)
    sample("y", dist.Normal(mean, 0.06), obs=y)


def by_where(x, y):
    m = sample("m", dist.Bernoulli(0.5))
    a, b = sample("a", dist.LogNormal(0, 3)), sample("b", dist.LogNormal(0, 3))
    sample("y", dist.Normal(jnp.where(m == 0, jnp.exp(-a * x), 1 / (1 + b * x)), 0.06), obs=y)


@pytest.mark.parametrize("model", [by_python, by_where])
def test_chains_cross_between_forms_that_no_draw_of_a_prior_fits(model):
    run = gb.model(model, X, Y).sample(draws=500, seed=2)
    assert run.schedule_text == "Structure m" and run.verdict.ok
    row, truth = run.summary().loc["m"], exact(X, Y)
    assert row["ess_bulk"] > 300 and abs(row["mean"] - truth) < 4 * row["mcse_mean"]
    if model is by_where:  # what is not read has its prior
        for name, at in (("a", 1), ("b", 0)):
            here = np.log(run.draws[name][run.draws["m"] == at])
            ess = len(here) / 4
            assert abs(here.mean()) < 4 * 3 / ess**0.5 and abs(here.std() - 3) < 4 * 3 / (2 * ess) ** 0.5


def test_what_is_learnt_is_a_t_distribution_of_what_is_not_kept_given_the_rest():
    """Against scipy's density, and moments of the conditional one (Ding 2016, "On the conditional
    distribution of the multivariate t distribution")."""

    def model():
        sample("v", dist.Normal(jnp.zeros(3), 1.0).to_event(1))
        s = sample("s", dist.HalfNormal(1.0))
        sample("y", dist.Normal(0.0, s), obs=0.3)

    density = gb.model(model).density
    reals = Reals({n: place_of(density, n, None) for n in ("v", "s")})
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(4, 4))
    learnt = Learnt.of(reals, rng.normal(size=(500, 4)) @ mix + [1.0, -2.0, 0.5, 0.3])
    scale = learnt.correlation * np.outer(learnt.width, learnt.width)
    whole = stats.multivariate_t(learnt.location, scale, df=5)
    u = learnt.location + rng.normal(size=4)
    values, _ = reals.back(jnp.asarray(u))
    no, yes = jnp.zeros((), bool), jnp.ones((), bool)
    kept = {"v": no, "s": no}
    at = learnt.drawn(jax.random.key(0), yes, values, kept, no)
    np.testing.assert_allclose(at.cost, whole.logpdf(u) - u[3], rtol=1e-4)
    np.testing.assert_allclose(at.values["v"], values["v"], rtol=1e-5)
    # `s` is kept
    kept = {"v": no, "s": yes}
    one = stats.multivariate_t(learnt.location[3], scale[3, 3], df=5)
    at = learnt.drawn(jax.random.key(0), yes, values, kept, no)
    np.testing.assert_allclose(at.cost, whole.logpdf(u) - one.logpdf(u[3]), rtol=1e-4)
    keys = jax.random.split(jax.random.key(1), 40_000)
    drawn = jax.vmap(lambda k: learnt.drawn(k, yes, values, kept, yes).values)(keys)
    assert np.ptp(np.asarray(drawn["s"])) == 0
    v, apart = np.asarray(drawn["v"], float), u[3] - learnt.location[3]
    mean = learnt.location[:3] + scale[:3, 3] / scale[3, 3] * apart
    cov = scale[:3, :3] - np.outer(scale[:3, 3], scale[:3, 3]) / scale[3, 3]
    cov *= (5 + apart**2 / scale[3, 3]) / (6 - 2)
    error = np.sqrt(np.diag(cov) / len(v))
    assert (np.abs(v.mean(axis=0) - mean) < 4 * error).all()
    np.testing.assert_allclose(np.cov(v.T), cov, rtol=0.1, atol=0.03 * cov.max())


def _forms(kind):
    def model():
        m = sample("m", dist.Categorical(jnp.ones(3) / 3))
        a, b, c = (sample(n, dist.Normal(0.0, 1.0)) for n in "abc")
        own = sample("own", dist.Normal(c, 1.0))  # `c` counts by it alone
        both = sample("both", dist.Normal(0.0, 1.0))
        ways = jnp.stack([a, b, own])
        if kind == "where":
            at = jnp.where(m == 0, a, jnp.where(m == 1, b, own))
        elif kind == "factors":
            at = (m == 0) * a + (m == 1) * b + (m == 2) * own
        elif kind == "index":
            at = ways[m]
        elif kind == "one hot":
            at = jax.nn.one_hot(m, 3) @ ways
        else:
            at = jax.lax.switch(m, [lambda: a, lambda: b, lambda: own])
        sample("y", dist.Normal(at + both, 1.0), obs=0.5)

    return model


@pytest.mark.parametrize("kind", ["where", "factors", "index", "one hot", "switch"])
def test_what_a_value_switches_off_is_known(kind):
    """Whatever it is written by; and nothing that moves with the density is said to be off."""
    model = gb.model(_forms(kind))
    assert switched(model.density) == {"m": {"a", "b", "c", "own"}} and model.forms == ("m",)
    joint = jax.jit(model.density.log_joint)
    state = {n: np.float32(0.3) for n in ("a", "b", "c", "own", "both")}
    prior = {n: (lambda v: -0.5 * v**2) for n in ("a", "b")}
    for m in range(3):
        at = {**state, "m": np.int32(m)}
        for name in ("a", "b"):
            moved = {**at, name: np.float32(1.7)}
            apart = joint(moved) - joint(at) - (prior[name](1.7) - prior[name](0.3))
            assert (abs(apart) < 1e-5) == (m != "ab".index(name))


def one_form():
    m = sample("m", dist.Bernoulli(0.5))
    a = sample("a", dist.Normal(0.0, 1.0))
    sample("y", dist.Normal(jnp.where(m == 0, a, 2 * a), 1.0), obs=0.5)


def many_values():
    t = sample("t", dist.DiscreteUniform(0, 19))
    with plate("n", 20):
        a = sample("a", dist.Normal(0.0, 1.0))
    sample("y", dist.Normal(a[t], 1.0), obs=0.5)


def conjugate():
    """A spike beside a slab, whose two are drawn in one exact draw."""
    on, b = sample("on", dist.Bernoulli(0.5)), sample("b", dist.Normal(0.0, 1.0))
    sample("y", dist.Normal(on * b, 1.0), obs=0.5)


def test_other_models_are_sampled_as_before():
    for made in (one_form, many_values):
        model = gb.model(made)
        assert not model.forms and not model.switching
    model = gb.model(conjugate)
    assert model.forms == ("on",) and "switches between forms, with b in some" in model.notes[-1]
    assert not model.switching and "Structure" not in model.schedule().text


def test_a_schedule_of_structures_for_any_discrete_site(tmp_path):
    model = gb.model(one_form)
    schedule = model.schedule("Structure m > NUTS *")
    assert schedule.text == "Structure m > NUTS *" and "m = 1" in str(schedule)
    own = model.with_schedule("Structure m")
    assert own.schedule().text == "Structure m" and own.structure(m=1).density.latents == ("a",)
    run = model.sample(draws=300, schedule="Structure m", store=tmp_path / "run")
    plain = model.sample(draws=1000)
    share, row = run.structures["m = 1"], plain.summary().loc["m"]
    assert abs(share.probability - row["mean"]) < 4 * np.hypot(share.error, row["mcse_mean"])
    again = gb.load(tmp_path / "run", model)
    np.testing.assert_array_equal(again.draws["m"], run.draws["m"])
    factors = [r.structures.bayes_factor("m = 1", "m = 0") for r in (run, gb.load(tmp_path / "run"))]
    assert factors[0] == factors[1]
    assert again.resume(draws=50).draws["a"].shape == (4, 350)
    with pytest.raises(gb.GibbsiteError, match="'a' is no discrete latent"):
        model.sample(schedule="Structure a")
    with pytest.raises(gb.GibbsiteError, match="no discrete latent of 'one_form' switches others off"):
        model.fork()
    with pytest.raises(gb.GibbsiteError, match="this one's does not"):
        gb.load(tmp_path / "run", gb.model(no_switch))


def no_switch():
    sample("a", dist.Normal(0.0, 1.0))
    factor("f", 0.0)


def test_what_structures_do_not_take_leaves_the_model_one():
    model = gb.model(by_where, X, Y)
    assert model.switching == ("m",) and model.schedule().text == "Structure m"
    run = model.sample(draws=50, warmup=100, chains=2, keep_warmup=True)
    assert "Structure" not in run.schedule_text
    assert run.model.execution.schedule().text == run.schedule_text
    many = model.many([{"y": Y}, {"y": Y[::-1].copy()}], draws=50, warmup=100, chains=2)
    assert set(many.runs) == {0, 1} and not many.failures
