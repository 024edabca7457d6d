"""Updates that share sites: read, explained, exact, and the same however a run is cut."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.interleaved import Interleaved, put
from gibbsite.plans.schedule.edits import with_kernel
from helpers.models.hierarchies import EFFECT, ERROR, eight_schools
from helpers.truths.geweke import joint_distribution_test
from numpyro.infer.gibbs import with_conditioning

N = 3


def effects(y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.LogNormal(0, 0.5))
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([N]))
    numpyro.sample("y", dist.Normal(theta, 0.7), obs=y)


def labels(y=None):
    w = numpyro.sample("w", dist.Beta(2, 2))
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    z = numpyro.sample("z", dist.Bernoulli(w).expand([N]))
    numpyro.sample("y", dist.Normal(mu + z, 0.7), obs=y)


def inputs(data):
    return {"_gibbsite_inputs": {"data": (data["y"],)}}


STEPS = "step_size=0.4, max_tree_depth=3"


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (effects, f"Interleave(NUTS({STEPS}) centred, NUTS({STEPS}) non-centred) [mu tau theta]"),
        pytest.param(
            effects,
            f"Slice mu (*) Interleave(Conjugate theta, NUTS({STEPS}) [tau theta])",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            labels,
            f"Interleave(Gibbs z, Conjugate mu, NUTS({STEPS}) [mu w], Slice w)",
            marks=pytest.mark.slow,
        ),
        (labels, f"Eliminate z > Interleave(NUTS({STEPS}) [mu w], Slice w)"),
    ],
)
def test_it_leaves_the_joint_distribution_as_it_is(fn, text):
    kernel = gb.model(fn, np.zeros(N)).plan(text).kernel
    scores = joint_distribution_test(fn, kernel, {"y": "y"}, inputs=inputs, chains=2000, steps=3)
    assert max(float(np.abs(z).max()) for z in scores.values()) < 4.5, scores


def test_other_values_are_those_of_every_part():
    """Gradients keep unconstrained values of their own, from which their next step begins."""
    plan = gb.model(effects, np.zeros(N)).plan(f"Interleave(Slice mu, NUTS({STEPS}) [mu tau theta])")
    ((kernel, _),), kwargs = plan.kernel.blocks, inputs({"y": jnp.zeros(N)})
    state = kernel.init(jax.random.key(0), 10, None, (), kwargs)
    there = {"mu": 0.3, "tau": 2.0, "theta": jnp.array([1.0, 2.0, 3.0])}
    moved = put(kernel, state, there, (), kwargs)
    for (part, sites), own in zip(kernel.parts, moved.inner, strict=True):
        around = with_conditioning(dict(kwargs), {n: v for n, v in there.items() if n not in sites})
        values = part.get_constrain_fn((), around)(getattr(own, part.sample_field))
        for n in sites:
            np.testing.assert_allclose(values[n], there[n], rtol=1e-6)


TEXT = "Interleave(NUTS centred, NUTS non-centred) [mu tau theta]"


@pytest.fixture(scope="module")
def model():
    return gb.model(eight_schools, ERROR, EFFECT)


def test_each_part_is_explained(model):
    (row,) = model.schedule(TEXT).rows
    assert row.sites == ("mu", "tau", "theta")
    assert "NUTS(centring='centred'): " in row.reason and "reads tau: non-centred" in row.reason
    assert row.cost.count("gradients") == 2 and "learnt" not in row.reason
    assert model.schedule(model.schedule(TEXT).text) == model.schedule(TEXT)


@pytest.fixture(scope="module")
def run(model):
    return model.sample(draws=30, warmup=100, chains=2, seed=3, schedule=TEXT)


@pytest.mark.slow
def test_both_forms_keep_their_degrees_and_learn_their_metrics(run):
    assert isinstance(run._engine.kernel.blocks[0][0], Interleaved)
    centred, other = run._state.block_states[0].inner
    assert (np.asarray(centred.tuning.lam) == 1).all() and (np.asarray(other.tuning.lam) == 0).all()
    assert not np.allclose(centred.tuning.metric.scale, other.tuning.metric.scale)
    assert not run.centring  # nothing was learnt of it
    stats = run.kept.sampled_stats.read()
    steps = np.asarray(centred.num_steps) + np.asarray(other.num_steps)
    np.testing.assert_array_equal(stats["0.n_steps"][:, -1], steps)
    assert {"0.diverging", "0.acceptance_rate"} <= set(stats)


@pytest.mark.slow
def test_stopped_and_resumed_it_is_the_same(model, run, tmp_path):
    stop = lambda r: r.stop() if r.kept.steps >= 65 else None  # noqa: E731
    asked = dict(draws=30, warmup=100, chains=2, seed=3, schedule=TEXT, chunk=7)
    cut = model.sample(**asked, on_start=lambda r: r.subscribe(stop))
    assert cut.status == "stopped"
    cut.save(tmp_path / "run")
    back = gb.load(tmp_path / "run", model=model)
    back.resume()
    for name, v in run.draws.items():
        np.testing.assert_array_equal(v, back.draws[name], err_msg=name)


def test_a_change_of_the_graph_keeps_what_is_left(model):
    shared = model.with_schedule("Interleave(Conjugate mu, NUTS [mu tau theta])")
    assert with_kernel(shared, "mu", "Slice") == "NUTS [tau theta] (*) Slice mu"
