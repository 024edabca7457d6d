"""What a run is called when it has ended, and that what it advises exists."""

from dataclasses import replace

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.diagnostics.measures.convergence import all_stats
from gibbsite.diagnostics.verdict.notices import disagreement, run_away
from gibbsite.diagnostics.verdict.verdict import judged

RNG = np.random.default_rng
GOOD = {"x": RNG(0).normal(size=(4, 1000))}
DIVERGED = (5, 4000)


def verdict(values, status="finished", message=None, divergences=(0, 4000), lost=(), chains=4):
    stats = all_stats(values)
    notices = disagreement(stats, values)
    return judged(status, message, stats, notices, divergences, chains, lost)


def test_a_good_run_is_converged():
    v = verdict(GOOD)
    assert v.ok and v and v.state == "converged" and v.reasons == () and str(v) == "converged"


@pytest.mark.parametrize(
    ("values", "options", "state", "reason"),
    [
        ({"x": GOOD["x"] + np.arange(4.0)[:, None]}, {}, "not yet", "R-hat 1.5"),
        ({"x": GOOD["x"][:, :50]}, {}, "not yet", "ESS"),
        ({"x": GOOD["x"][:, :5]}, {}, "not yet", "too few draws to tell"),
        ({"x": GOOD["x"][:1]}, {"chains": 1}, "not yet", "one chain alone cannot be compared"),
        (GOOD, {"divergences": DIVERGED}, "not yet", "5 divergent transitions"),
        (GOOD, {"status": "sampling"}, "not yet", "still sampling"),
        (GOOD, {"status": "failed", "message": "no memory"}, "failed", "no memory"),
        (GOOD, {"lost": ["x"]}, "failed", "draws of x are not finite"),
        ({}, {"status": "stopped"}, "not yet", "there are no draws"),
        ({"z": np.repeat(np.arange(4)[:, None], 200, axis=1)}, {}, "not yet", "z never moves, and differs"),
    ],
)
def test_a_run_that_cannot_be_used_says_why(values, options, state, reason):
    v = verdict(values, **options)
    assert not v.ok and v.state == state
    assert any(reason in r.replace("differ between", "differs between") for r in v.reasons), v.reasons


def test_counts_that_ran_away_are_told_as_that():
    """Their chains had "different modes" with weights that cannot be told."""
    most = np.iinfo(np.int32).max
    n = np.array([[3, 7, most], [5, 4, 4]], np.int32)[..., None]
    (notice,) = run_away({"n": n, "few": np.minimum(n, 9), "x": n.astype(np.float32)})
    assert notice.text == "n has run away to the largest whole number there is, 2,147,483,647"
    stats = all_stats({"n": n[..., 0]})
    assert notice.text in judged("finished", None, stats, [notice], (0, 6), 2, ()).reasons
    assert run_away({"few": np.minimum(n, 9)}) == []


def test_poor_mixing_of_what_data_tell_apart_is_no_switch_of_labels():
    """Components with orders of their own, of which one chain is off: sorted, they nearly agree."""
    x = np.array([-6.0, 0, 6]) + RNG(1).normal(size=(4, 800, 3))
    off = x.copy()
    off[2] += 1.5
    (notice,) = disagreement(all_stats({"x": off}), {"x": off})
    assert notice.topic == "rhat"
    swapped = x.copy()
    swapped[2] = x[2][:, [1, 0, 2]]
    (notice,) = disagreement(all_stats({"x": swapped}), {"x": swapped})
    assert notice.topic == "labels"
    close = RNG(2).normal(size=(4, 800, 3)) + 0.25 * RNG(3).normal(size=(4, 1, 3))
    assert {n.topic for n in disagreement(all_stats({"x": close}), {"x": close})} <= {"rhat"}


def xor(y):
    """Two coins of which the data see only whether they agree."""
    a = numpyro.sample("a", dist.Categorical(jnp.ones(2) / 2))
    b = numpyro.sample("b", dist.Categorical(jnp.ones(2) / 2))
    new = numpyro.sample("new", dist.Normal(100.0 * a, 1.0))
    numpyro.deterministic("twice", 2 * new)
    numpyro.sample("y", dist.Normal(10.0 * (a ^ b), 0.1), obs=y)


@pytest.mark.slow
def test_sites_that_cannot_cross_are_told_with_advice_that_helps():
    m = gb.model(xor, np.full(20, 10.0, np.float32))
    init = {"a": np.array([0, 1, 0, 1]), "b": np.array([1, 0, 1, 0])}
    options = {"draws": 400, "warmup": 10, "chains": 4, "seed": 0}
    run = m.sample(schedule="Gibbs a (*) Gibbs b (*) NUTS new", init=init, **options)
    (notice,) = [n for n in run.snapshot().warnings if n.topic == "stuck"]
    assert notice.text.startswith("a, b never move, and differ between chains")
    assert notice.hint == "draw them together: Gibbs [a b]"
    assert not run.verdict.ok and run.verdict.reasons[0] == notice.text
    assert "not converged: a, b never move" in repr(run)
    # the prediction is as far apart as its parent, and is no reason for anything
    assert not any("new" in r or "twice" in r for r in run.verdict.reasons)
    # as a latent of the schedule the prediction holds its parent: nothing moves, and that is told
    held = m.sample(schedule="Gibbs [a b] (*) NUTS new", **options)
    assert "a, b were never at stake" in str(held.verdict)
    helped = m.sample(schedule="Gibbs [a b]", **options)
    assert helped.verdict.ok and "; converged>" in repr(helped)
    assert abs(helped.draws["a"].mean() - 0.5) < 0.06


@pytest.mark.slow
def test_a_verdict_is_kept_with_the_run(model, whole, tmp_path):
    whole.save(tmp_path / "run")
    assert gb.load(tmp_path / "run").verdict == whole.verdict
    assert replace(whole.verdict) == whole.snapshot().verdict


@pytest.mark.parametrize(("weight", "told"), [(0.5, "directions switched"), (0.8, "2 different modes")])
def test_other_signs_are_directions_where_the_model_has_none(weight, told):
    def two(y):
        x = numpyro.sample("x", dist.Normal(0, 8))
        numpyro.factor("weights", jnp.where(x < 0, jnp.log(weight), jnp.log(1 - weight)))
        numpyro.sample("y", dist.Normal(jnp.abs(x), 0.3), obs=y)

    run = gb.model(two, np.full(3, 8.0)).sample(draws=200, chains=4, seed=0)
    signs = np.sign(run.draws["x"].mean(1))
    assert len({*signs.tolist()}) == 2
    assert told in str(run.verdict)
