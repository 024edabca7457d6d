"""Chains that learn from each other: the same draws however the run is cut, stopped, saved and resumed."""

import gibbsite as gb
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from helpers.models.hierarchies import EFFECT, ERROR, eight_schools

OPTIONS = {"draws": 30, "warmup": 100, "chains": 2, "seed": 3, "keep_warmup": True}
FAR = dist.Normal(np.array([-30.0, 30.0]), 1.0)
SCHEDULE = "Conjugate mu (*) NUTS [tau theta]"


@pytest.fixture(scope="module")
def model():
    return gb.model(eight_schools, ERROR, EFFECT)


@pytest.fixture(scope="module")
def whole(model):
    return model.sample(**OPTIONS, schedule=SCHEDULE)


def same(a, b):
    for part in ("warm", "warm_stats", "sampled", "sampled_stats"):
        left, right = getattr(a.kept, part).read(), getattr(b.kept, part).read()
        assert left.keys() == right.keys()
        for name, v in left.items():
            np.testing.assert_array_equal(v, right[name], err_msg=f"{part} {name}")


def block(run):
    return run._state.block_states[1]


@pytest.mark.slow
def test_all_chains_share_what_was_learnt(whole):
    tuning = block(whole).tuning
    assert tuning.lam.shape == (2, 8)
    for leaf in jax.tree.leaves((tuning, block(whole).step_size)):
        np.testing.assert_array_equal(leaf[0], leaf[1])
    assert not np.allclose(tuning.metric.scale[0], 1.0)
    assert float(tuning.lam[0].max()) < 0.5  # one school says little about its own effect
    sizes = whole.kept.sampled_stats.read()["1.step_size"]
    assert len(np.unique(sizes)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_change_nothing(model, whole, chunk):
    same(model.sample(**OPTIONS, schedule=SCHEDULE, chunk=chunk), whole)


def gone_on_with(model, folder, moment, **options):
    """A run that was stopped after so many steps, saved, loaded and resumed."""
    stop = lambda r: r.stop() if r.kept.steps >= moment else None  # noqa: E731
    run = model.sample(**options, chunk=5, on_start=lambda r: r.subscribe(stop))
    assert run.status == "stopped"
    run.save(folder)
    loaded = gb.load(folder, model=model)
    loaded.resume()
    return loaded


@pytest.mark.share(4)
@pytest.mark.parametrize("moment", [10, 33, 50, 100])
def test_stopped_saved_and_resumed(model, whole, tmp_path, moment):
    """At the end of a window, within one, at the last end, and between the phases."""
    same(gone_on_with(model, tmp_path / "run", moment, **OPTIONS, schedule=SCHEDULE), whole)


@pytest.mark.slow
def test_the_order_of_chains_is_nothing_to_learn_from(model):
    run = model.sample(**{**OPTIONS, "draws": 1}, schedule="NUTS [mu tau theta]")
    kernel, inputs = run._engine.kernel, {"_gibbsite_inputs": run._plan.inputs}
    state = run._state
    turned = jax.tree.map(lambda a: a[::-1], state)
    ahead, behind = (kernel.pool(s, (), inputs).block_states[0] for s in (state, turned))
    for a, b in zip(
        jax.tree.leaves(ahead.tuning.metric.scale), jax.tree.leaves(behind.tuning.metric.scale), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-4)
    np.testing.assert_allclose(ahead.tuning.lam, behind.tuning.lam, atol=0.05)
    np.testing.assert_allclose(ahead.potential_energy, behind.potential_energy[::-1], rtol=1e-4)


@pytest.mark.slow
def test_chains_that_do_not_pool_differ(model):
    run = model.sample(**{**OPTIONS, "draws": 1}, schedule="NUTS(pooled=False) [mu tau theta]")
    tuning = run._state.block_states[0].tuning
    assert not np.array_equal(tuning.metric.scale[0], tuning.metric.scale[1])


def test_what_was_learnt_is_told_and_saved(whole, tmp_path):
    found = whole.centring
    assert set(found) == {"theta"} and found["theta"].shape == (8,)
    assert "as written" in str(found) and not found.notices
    whole.save(tmp_path / "run")
    back = gb.load(tmp_path / "run")
    np.testing.assert_array_equal(back.centring["theta"], found["theta"])
    assert str(back.centring) == str(found)
    for shot in (whole.snapshot(), back.snapshot()):
        np.testing.assert_array_equal(shot.centring["theta"], found["theta"])
        assert [b.target is not None for b in shot.blocks] == [b.kernel == "NUTS" for b in shot.blocks]


AUTO = {"draws": 20, "chains": 4, "seed": 3, "keep_warmup": True, "schedule": SCHEDULE}


@pytest.fixture(scope="module")
def settled(model):
    return model.sample(**AUTO)


@pytest.mark.slow
def test_a_warm_up_ends_when_what_it_learns_has_settled(model, settled):
    steps = settled.kept.warm.steps
    assert steps in {e + 50 for e in (160, 220, 300, 406, 547, 735)} and settled.draws["mu"].shape[1] == 20
    assert settled.snapshot().warmup_total == steps
    # the last window is judged like that of a warm-up of a known length: it may keep the model as written
    assert np.asarray(block(settled).num_warmup).tolist() == [steps] * 4
    assert float(block(settled).i[0]) == steps + 20


@pytest.mark.share(2)
@pytest.mark.parametrize("chunk", [7, 64])
def test_its_end_does_not_depend_on_chunks(model, settled, chunk):
    same(model.sample(**AUTO, chunk=chunk), settled)


@pytest.mark.parametrize("before", [80, 50, 20, -5])
def test_its_end_does_not_depend_on_stops(model, settled, tmp_path, before):
    """Stopped before the last window's end, at it, after it and while sampling; saved, and gone on with."""
    moment = settled.kept.warm.steps - before
    same(gone_on_with(model, tmp_path / "run", moment, **AUTO), settled)


@pytest.mark.slow
def test_what_has_not_settled_is_told():
    def apart(y):
        both = dist.MixtureSameFamily(dist.Categorical(np.ones(2) / 2), FAR)
        # behind a transform, so that NUTS does not cross between the components by itself
        x = numpyro.sample("x", dist.TransformedDistribution(both, dist.transforms.AffineTransform(0.0, 1.0)))
        numpyro.sample("y", dist.Normal(x, 10.0), obs=y)

    far = gb.model(apart, 0.0)
    start = {"x": np.array([-30.0, 30.0, 30.0])}
    run = far.sample(draws=20, warmup="auto", chains=3, seed=0, init=start)
    assert run.kept.warm_stats.steps == 1000
    (told,) = [n for n in run.snapshot().warnings if n.topic == "warmup"]
    assert "R-hat is " in told.text and "for x" in told.text and "warm up longer" in told.hint
    # also of a warm-up whose length was given, and by a run that was saved
    run = far.sample(draws=20, warmup=300, chains=3, seed=0, init=start)
    assert "R-hat" in next(n for n in run.snapshot().warnings if n.topic == "warmup").text
    assert "--warmup auto" in run.advice()


@pytest.mark.slow
def test_too_short_a_warm_up_is_told(model):
    run = model.sample(draws=20, warmup=30, chains=2, seed=0, schedule=SCHEDULE)
    assert "A warm-up of 30 steps learns a step size and nothing else" in run.advice()


@pytest.mark.slow
def test_exact_updates_and_adapting_ones_end_by_agreement():
    """Nothing is learnt in windows; what adapts in every step is frozen at the end."""

    def plain(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
        sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y)

    run = gb.model(plain, np.linspace(-1.0, 1.0, 30)).sample(draws=5, schedule="Conjugate mu (*) Slice sigma")
    assert run.kept.warm_stats.steps == 210
    assert np.asarray(run._state.block_states[1].num_warmup).tolist() == [210] * 4


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "asked",
    [
        {"schedule": "HMC [mu tau theta]"},
        {"schedule": "random: Conjugate mu (*) Slice tau (*) Conjugate theta"},
        {"chains": 1, "schedule": "Conjugate [mu theta] (*) Slice tau"},
    ],
)
def test_what_cannot_end_early_takes_a_thousand_steps(model, asked):
    run = model.sample(**{"draws": 5, "chains": 2, "seed": 3, **asked})
    assert run.kept.warm_stats.steps == 1000


def test_a_number_of_steps_is_what_happens(model, whole):
    assert whole.kept.warm.steps == OPTIONS["warmup"] and not whole.settings.auto_warmup
    with pytest.raises(gb.GibbsiteError, match="'auto', not 'long'"):
        model.sample(warmup="long")
