"""Analyses fail one after another in ways that nobody foresaw: models are sampled, and notes say so."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.elimination.marginal import summed_terms
from gibbsite.ground import opaque
from gibbsite.programs.maps import index_maps
from jax.experimental.ode import odeint

Y = np.array([0.3, -1.2, 2.0])


def mixture(y):
    w = numpyro.sample("w", dist.Beta(2.0, 2.0))
    m = numpyro.sample("m", dist.Normal(0.0, 2.0))
    s = numpyro.sample("s", dist.Gamma(2.0, 2.0))
    top = numpyro.sample("top", dist.Uniform(0.0, s))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(w))
        numpyro.sample("y", dist.Normal(m + z, s + top), obs=y)


FAULTS = (
    *(f"gibbsite.density.passes.pipeline.{n}" for n in ("flatten", "distributed")),
    *(f"gibbsite.density.passes.program.{n}" for n in ("bound_terms", "Decomposition.terms")),
    "gibbsite.density.build.with_known_supports",
    *(
        f"gibbsite.modelling.analysis.{n}"
        for n in (
            *("kept_padding", "check_forgotten", "check_missing", "check_proper", "impossible_values"),
            *("check_categories", "order_notes", "unit_notes", "spelt_notes", "unused"),
        )
    ),
    "gibbsite.kernels.grouped.grouped_model",
    "gibbsite.conditional.conjugate.certify.statistics",
    "gibbsite.conditional.finite.discrete.finite_structure",
    *(f"gibbsite.plans.candidates.alone.{n}" for n in ("crossing_blocks", "joint_blocks", "stepped")),
    "gibbsite.plans.schedule.schedule.chosen",
)


class Unforeseen(RuntimeError):
    """Raised where nobody expects it."""


def fail(*args, **kwargs):
    raise Unforeseen("zip() argument 2 is shorter than argument 1")


@pytest.fixture(autouse=True)
def lenient():
    with opaque.strict(False):
        yield


def scheduled(fn, *args):
    model = gb.model(fn, *args)
    return model, model.schedule()


def told(model):
    return [n for n in model.notes if "Unforeseen" in n]


def test_nothing_is_noted_where_nothing_fails():
    model, _ = scheduled(mixture, Y)
    assert not [n for n in model.notes if "failed" in n]


@pytest.mark.share(9)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_analysis_is_a_note(fault, monkeypatch):
    monkeypatch.setattr(fault, fail)
    model, schedule = scheduled(mixture, Y)
    assert told(model), fault
    updated = [n for u in schedule.updates for n in u.everything]
    assert sorted(updated) == sorted(model.density.latents)
    state = {"w": 0.4, "m": 0.2, "s": 1.5, "top": 0.7, "z": np.array([1, 0, 1])}
    expected = dist.Beta(2, 2).log_prob(0.4) + dist.Normal(0, 2).log_prob(0.2)
    expected += dist.Gamma(2, 2).log_prob(1.5) - np.log(1.5) + 2 * np.log(0.4) + np.log(0.6)
    expected += dist.Normal(0.2 + state["z"], 2.2).log_prob(Y).sum()
    assert np.allclose(model.density.log_joint(state), expected, rtol=1e-4)


@pytest.mark.parametrize("primitive", ["mul", "gather", "reduce_sum", "log", "select_n"])
def test_a_failed_rule_reads_everything(primitive, monkeypatch):
    monkeypatch.setitem(index_maps.RULES, primitive, fail)

    def picked(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1).expand([3]).to_event(1))
        at = jnp.where(mu[jnp.array([2, 0, 1])] > 0, 1.5 * mu, jnp.log(1 + mu**2))
        numpyro.sample("y", dist.Normal(at, 1.0), obs=y)

    model, _ = scheduled(picked, Y)
    assert told(model) and primitive in told(model)[0]


def test_errors_on_purpose_pass(monkeypatch):
    def refuse(*_):
        raise gb.GibbsiteError("on purpose")

    monkeypatch.setattr("gibbsite.modelling.analysis.check_proper", refuse)
    with pytest.raises(gb.GibbsiteError, match="on purpose"):
        gb.model(mixture, Y)


def test_tests_see_what_fails(monkeypatch):
    monkeypatch.setattr("gibbsite.modelling.analysis.kept_padding", fail)
    with opaque.strict(), pytest.raises(Unforeseen):
        gb.model(mixture, Y)


@pytest.mark.slow
def test_a_solver_goes_to_nuts():
    """`odeint` is differentiated by a rule of its own: gradients there are, though its loops have no end."""

    def decay(y):
        k = numpyro.sample("k", dist.LogNormal(0, 1))
        z = odeint(lambda z, t: -k * z, jnp.ones(1), jnp.linspace(0.0, 2.0, 3))[:, 0]
        numpyro.sample("y", dist.Normal(z, 0.2), obs=y)

    y = np.exp(-0.7 * np.linspace(0, 2, 3))
    model, schedule = scheduled(decay, y)
    assert schedule.text == "NUTS k" and not model.notes
    density = model.density
    at = jax.grad(lambda k: summed_terms(density, {"k": k}, density.arguments.arrays))(0.5)
    by_hand = jax.grad(
        lambda k: (
            dist.LogNormal(0, 1).log_prob(k)
            + dist.Normal(jnp.exp(-k * jnp.linspace(0.0, 2.0, 3)), 0.2).log_prob(y).sum()
        )
    )(0.5)
    assert np.allclose(at, by_hand, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        "gibbsite.density.build.flatten",
        "gibbsite.density.build.Decomposition.terms",
        "gibbsite.conditional.finite.discrete.finite_structure",
        "gibbsite.conditional.conjugate.certify.statistics",
        "gibbsite.plans.schedule.schedule.chosen",
    ],
)
def test_what_is_opaque_is_sampled_rightly(fault, monkeypatch):
    """A switch and a mean, exact by a sum and quadrature."""

    def two(y):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
        m = numpyro.sample("m", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(m + 1.5 * z, 0.7).expand([len(y)]).to_event(1), obs=y)

    y = np.array([1.2, 0.6])
    grid = np.linspace(-6, 6, 4001)
    heights = np.stack(
        [
            p * np.exp(-0.5 * grid**2 - 0.5 * (((y[:, None] - grid - 1.5 * z) / 0.7) ** 2).sum(0))
            for z, p in ((0, 0.7), (1, 0.3))
        ]
    )
    weight = heights / heights.sum()
    monkeypatch.setattr(fault, fail)
    model = gb.model(two, y)
    run = model.sample(draws=3000, warmup=500, chains=2, seed=0)
    assert told(model)
    assert abs(run.draws["z"].mean() - weight[1].sum()) < 0.06
    assert abs(run.draws["m"].mean() - (weight.sum(0) * grid).sum()) < 0.09
