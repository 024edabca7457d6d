"""Every pass, alone and after the others, leaves the log density and its gradient as they are."""

import dataclasses

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.contrib.control_flow
import numpyro.distributions as dist
import pytest
from gibbsite.density.passes.pipeline import PASSES, analysable
from gibbsite.density.passes.reroll import latent_groups
from gibbsite.programs.jaxpr.compat import jaxpr_as_fun
from gibbsite.programs.jaxpr.compiling import once
from helpers.models.zoo import ZOO, Case

BY_NAME = {p.name: p for p in PASSES}


def written(y):
    """Values written into arrays, padded and stacked, and a barrier between."""
    a = numpyro.sample("a", dist.Normal(0, 1).expand([3]))
    s = numpyro.sample("s", dist.Gamma(2, 2))
    a, s = jax.lax.optimization_barrier((a, s))
    mean = jnp.zeros(6).at[jnp.array([0, 2, 5])].set(a) + jnp.pad(a, (1, 2))
    numpyro.sample("y", dist.Normal(jnp.stack([mean, -mean]), s), obs=jnp.stack([y, y]))


def multiplied():
    b = numpyro.sample("b", dist.Normal(0, 1))
    z = numpyro.sample("z", dist.Bernoulli(0.4).expand([5]))
    numpyro.factor("alike", b * (z[1:] == z[:-1]).sum())


def matrices(y, which):
    """A factorisation of a batch, rows picked from a few, and a row written where a latent says."""
    scale = numpyro.sample("scale", dist.Gamma(2, 2).expand([2]))
    at = numpyro.sample("at", dist.DiscreteUniform(0, 2))
    cov = jnp.eye(2) * scale[:, None, None] + 0.1
    mu = jnp.arange(3.0)[:, None] + jnp.zeros(2).at[0].set(1.0)
    mu = mu.at[at].set(jnp.ones(2))
    numpyro.factor("roots", jnp.linalg.cholesky(cov)[which, 0, 0].sum())
    numpyro.sample("y", dist.MultivariateNormal(mu[:2], cov).to_event(1), obs=y)


def counted(y):
    rate = numpyro.sample("rate", dist.Gamma(2, 2))
    numpyro.factor("rows", jax.scipy.special.xlogy(y, rate * (1 + jnp.arange(len(y)))).sum())


def branched(y):
    """One datum in both branches of a `cond`."""
    a = numpyro.sample("a", dist.Normal(0, 1))
    z = numpyro.sample("z", dist.Bernoulli(0.3))
    numpyro.contrib.control_flow.cond(
        z == 1,
        lambda _: numpyro.sample("y", dist.Normal(a, 1.0), obs=y),
        lambda _: numpyro.sample("y", dist.Normal(-1.0, 0.5), obs=y),
        None,
    )


RNG = np.random.default_rng(0)
MODELS = {
    **ZOO,
    "written": Case(written, (RNG.normal(size=6),)),
    "multiplied": Case(multiplied),
    "matrices": Case(matrices, (RNG.normal(size=(2, 2)), RNG.integers(0, 2, 80))),
    "counted": Case(counted, (np.array([0.0, 1.0, 3.0]),)),
    "branched": Case(branched, (0.2,)),
}
FAST = (
    "hmm_scan",
    "gmm_loop",
    "conditional_branch",
    "written",
    "multiplied",
    "matrices",
    "counted",
    "branched",
)
PENALTY = 1e6


def case(name):
    """The density, its program as it was traced, with its groups, and two states of the model."""
    model = MODELS[name]
    density = gb.model(model.fn, *model.args, **model.kwargs).density
    program = dataclasses.replace(density.traced, groups=latent_groups(density))
    return density, program, [model.state(seed) for seed in (0, 1)]


def log_density(program, density):
    """The sum of all log probabilities as a function of what is real, and of what is not."""
    data = [jnp.asarray(a) for a in density.arguments.arrays]
    if len(program.data_vars) > len(data):
        data.append(jnp.float32(PENALTY))
    run, names = jaxpr_as_fun(program.closed), list(program.latents)

    def total(real, other):
        state = {**real, **other}
        groups = {g: jnp.stack([state[m] for m in members]) for g, members in latent_groups(density).items()}
        state |= {g: v for g, v in groups.items() if g in names}
        out = program.arranged(run(*[state[n] for n in names], *data))
        return sum(jnp.sum(v, dtype=float) for v in out["log_prob"].values())

    return jax.value_and_grad(total)


def variants(program):
    """What every pass makes of a program, alone and, where it expects others, after these."""
    found = {}
    for p in PASSES:
        before = program
        while not all(BY_NAME[n].leaves(before) for n in p.expects):
            for n in p.expects:
                before = BY_NAME[n].run(before)
        after = p.run(before)
        if after is not before:
            found[p.name] = after
            assert not p.idempotent or p.leaves(after), p.name
    whole = analysable(program, [])
    assert all(p.leaves(whole) for p in PASSES if p.when == "traced")
    for p in PASSES:
        whole = p.run(whole)
    return {**found, "all": whole}


@pytest.mark.share(8)
@pytest.mark.parametrize(
    "name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in MODELS]
)
def test_log_densities_and_gradients_stay(name):
    density, program, states = case(name)
    programs = {"as traced": program, **variants(program)}

    def run(real, other):
        return {n: log_density(p, density)(real, other) for n, p in programs.items()}

    for state in states:
        state = {n: jnp.asarray(v, density.sites[n].dtype) for n, v in state.items()}
        real = {n: v for n, v in state.items() if jnp.issubdtype(v.dtype, jnp.floating)}
        found = once(run, real, {n: v for n, v in state.items() if n not in real})
        value, slopes = found.pop("as traced")
        for by, (other, others) in found.items():
            np.testing.assert_allclose(other, value, rtol=1e-5, atol=2e-5, err_msg=by)
            for n, slope in slopes.items():
                np.testing.assert_allclose(others[n], slope, rtol=1e-4, atol=1e-5, err_msg=f"{by} {n}")


def test_the_models_reach_every_pass():
    reached = {name for model in FAST for name in variants(case(model)[1])}
    assert {p.name for p in PASSES} <= reached


def test_a_pass_that_computes_otherwise_is_seen(monkeypatch):
    """The comparison itself: a concatenation that is turned around is another density."""
    real = jax.lax.concatenate
    monkeypatch.setattr(jax.lax, "concatenate", lambda xs, axis: real(xs[::-1], axis))
    with pytest.raises(AssertionError):
        test_log_densities_and_gradients_stay("written")


def test_the_way_through_the_passes_can_be_read():
    density, *_ = case("gmm_loop")
    way = density.explain(passes=True)
    assert [s.by.name for s in way][:2] == ["inline", "fill"]
    text = str(way)
    assert "inline: calls become what they run" in text
    assert "zoo.py" in text and "`" not in text.splitlines()[0]
    (reroll,) = [s for s in way if s.by.name == "reroll"]
    assert list(reroll.after.latents) == ["mu", "z"]
    assert [line for line in way.full().splitlines() if line in (f"{n}:" for n in ("traced", *BY_NAME))] == [
        "traced:",
        *(f"{s.by.name}:" for s in way),
    ]
