"""Cures fit the model at hand, in its own names; two runs are compared by their errors."""

import threading
from types import SimpleNamespace

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.diagnostics.measures.snapshot import BlockStat, Efficiency, Notice, ScalarStat
from gibbsite.diagnostics.verdict.compare import compare
from gibbsite.diagnostics.verdict.cure import Cure
from gibbsite.diagnostics.verdict.cures import cures
from gibbsite.diagnostics.verdict.hints import _measured, for_divergences
from gibbsite.plans.schedule.edits import with_block
from gibbsite.sampling import Settings
from gibbsite.views.run.clinic import Clinic

Y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
S = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def eight(y, s):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("J", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, s), obs=y)


def mixture(x):
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.5, 0.5])))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)


def either(y):
    a = numpyro.sample("a", dist.Bernoulli(0.5))
    b = numpyro.sample("b", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Normal(jnp.where(a == b, 5.0, 0.0), 0.1), obs=y)


@pytest.fixture(scope="module")
def hierarchy():
    return gb.model(eight, Y, S)


def ended(model, schedule, bad, topics=(), rhat=1.05, ess=50.0, draws=1000, status="finished", aim=None):
    """What `cures` asks of a run that has ended with these sites in trouble."""
    stats = [ScalarStat(n, n, (), 0, 1, 0.1, rhat, ess, ess, False) for n in bad]
    stats += [ScalarStat("fine", "fine", (), 0, 1, 0.1, 1.0, 4000.0, 4000.0, False)]
    notices = tuple(Notice(t, "", t, tuple(bad)) for t in topics)
    shot = SimpleNamespace(scalars=stats, warnings=notices, chains=4, draws_done=draws)
    shot.blocks = (BlockStat("all", "NUTS", (), target=aim),)
    return SimpleNamespace(
        model=model,
        status=status,
        settings=SimpleNamespace(draws=draws, asked_warmup="auto"),
        schedule_text=schedule,
        snapshot=lambda limit=0: shot,
        verdict=SimpleNamespace(ok=not bad and not topics),
        kept=SimpleNamespace(sampled=SimpleNamespace(steps=draws)),
    )


def effects(y, noise):
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    v = numpyro.sample("v", dist.InverseGamma(1.0, 1.0))
    with numpyro.plate("J", len(y)):
        t = numpyro.sample("t", dist.Normal(mu, jnp.sqrt(v)))
        numpyro.sample("y", dist.Normal(t, noise), obs=y)


def test_what_was_weighed_is_weighed_again_by_how_long_a_run_remembers():
    r = np.random.default_rng(3)
    model = gb.model(effects, (r.normal(0, 1, 26) + r.normal(0, 8, 26)).astype("f4"), 8.0)
    in_turn, without = "Conjugate [mu t] (*) Conjugate v", "Collapsed [v mu t]"
    first, *_ = cures(ended(model, in_turn, ["v"], ess=130.0))  # of 4000
    assert first.value == without and first.expects.startswith("v remembers 31 steps, where ")
    found = cures(ended(model, in_turn, ["v"], ess=2000.0))  # two steps: nothing does better for the work
    assert without not in [c.value for c in found]
    first, *_ = cures(ended(model, without, ["v"], ess=40.0))  # far longer than predicted
    assert first.value == "NUTS [mu v t]" and first.expects.startswith(
        "v remembers 100 steps, where 1 were predicted"
    )
    found = cures(ended(model, without, ["v"], ess=1900.0))  # about as predicted
    assert not any(c.words.startswith("the schedule") for c in found)


def test_gradients_of_more_sites_are_no_cure_for_slow_ones_of_fewer():
    def litters(r, n):
        a, b = (numpyro.sample(k, dist.Gamma(1.0, 0.001)) for k in "ab")
        p = numpyro.sample("p", dist.Beta(a, b).expand([len(r)]).to_event(1))
        numpyro.sample("r", dist.Binomial(n, p), obs=r)

    model = gb.model(litters, np.arange(8), np.full(8, 9))
    own, wider = "Eliminate p > NUTS [a b]", "NUTS [a b p]"
    assert wider in [c.text for c in model.schedule().candidates]
    assert wider not in [c.value for c in cures(ended(model, own, ["a"], ess=50.0))]


def codes(found):
    return [c.code("m") for c in found]


def test_a_centred_hierarchy_is_offered_other_coordinates_then_smaller_steps(hierarchy):
    text = "NUTS(centring='as written') [mu tau theta]"
    found = cures(ended(hierarchy, text, ["tau", "mu"], ["divergences"]))
    assert codes(found) == [
        'run = %sample m --schedule "NUTS [mu tau theta]"',
        'm = m.reparam(theta="non-centred")\nrun = %sample m',
        "run = %sample m --schedule \"NUTS(centring='as written', target_accept_prob=0.95) [mu tau theta]\"",
        "run.resume(draws=7000)",
    ]
    assert all(c.expects for c in found)
    assert found[1].applied(hierarchy).sites["theta_decentered"].latent
    assert found[2].applied(hierarchy).schedule().text.startswith("NUTS(centring='as written', target")


def test_what_nuts_learns_already_is_not_offered(hierarchy):
    found = cures(ended(hierarchy, "NUTS [mu tau theta]", ["tau"], ["divergences"]))
    # gradients remember longer than predicted: the effects integrated out; smaller steps; more draws
    assert [c.method for c in found] == ["with_schedule", "with_schedule", ""]
    assert found[0].value == "Collapsed [tau mu theta]" and "NUTS(" in found[1].value
    (only,) = cures(ended(hierarchy, "NUTS [mu tau theta]", ["tau"], rhat=2.5))  # chains that never met
    assert only.value == "Collapsed [tau mu theta]"


@pytest.mark.parametrize(
    ("aim", "words"), [(None, "0.8 to 0.95"), (0.9, "0.9 to 0.95"), (0.95, "0.95 to 0.99")]
)
def test_smaller_steps_are_smaller_than_those_that_warm_up_came_to(hierarchy, aim, words):
    found = cures(ended(hierarchy, "NUTS [mu tau theta]", ["tau"], ["divergences"], aim=aim))
    assert f"raise the acceptance target from {words}" in [c.words for c in found]
    for text in (
        "NUTS [mu tau theta]",
        "Eliminate theta > NUTS [mu tau]",
        "NUTS [tau theta] (*) Slice mu",
    ):
        plan = hierarchy.schedule(text).plan()
        hint = for_divergences(plan, {} if aim is None else {0: aim}).partition(", or ")[0]
        assert hint == text.replace("NUTS", f"NUTS(target_accept_prob={words[-4:]})")
        hierarchy.schedule(hint)  # it can be read
        assert "target_accept" not in for_divergences(plan, {0: 0.99})


def over_years(year, y):
    a, b = numpyro.sample("a", dist.Normal(0, 100.0)), numpyro.sample("b", dist.Normal(0, 1.0))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(a + b * year, 1.0), obs=y)


@pytest.mark.parametrize(("asked", "offered"), [(50, True), ("auto", False), (1000, False)])
def test_a_warm_up_that_is_too_short_is_the_first_thing_to_mend(hierarchy, asked, offered):
    run = ended(hierarchy, "NUTS [mu tau theta]", ["tau"], ["divergences"])
    run.settings = SimpleNamespace(draws=1000, asked_warmup=asked, chains=4, seed=0)
    first = cures(run)[0]
    assert (first.warmup == "auto") is offered
    if offered:
        clinic = Clinic(run, lambda: None)
        clinic.work()
        told = clinic.told()["cures"][0]["code"]
        assert "-w" not in told and '--schedule "NUTS [mu tau theta]"' in told


def test_columns_far_from_zero_are_centred_first():
    model = gb.model(over_years, np.arange(2000.0, 2020.0), np.arange(20.0))
    for topics, bad in ((["precision"], []), ([], ["a"])):
        found = cures(ended(model, "Conjugate [a b]", bad, topics))
        assert codes(found)[0] == 'm = m.centred("year")\nrun = %sample m'
        changed = found[0].applied(model)
        assert "year - 2009.5" in changed.source and not changed.notes
        assert not [c for c in cures(ended(changed, "Conjugate [a b]", bad, topics)) if c.method == "centred"]


def test_sites_in_turn_are_offered_one_block_once(hierarchy):
    found = cures(ended(hierarchy, "Conjugate mu (*) Conjugate theta (*) Slice tau", ["tau", "mu"]))
    assert codes(found).count('run = %sample m --schedule "NUTS [mu tau theta]"') == 1


def test_discrete_sites_are_drawn_together_or_summed_out():
    model = gb.model(either, jnp.array(5.0))
    found = cures(ended(model, "Gibbs a (*) Gibbs b", ["a", "b"], ["stuck"]))
    assert codes(found) == ['run = %sample m --schedule "Gibbs [a b]"']
    model = gb.model(mixture, np.array([-3.0, 3.0, 2.5]))
    found = cures(ended(model, "Gibbs z (*) NUTS mu", ["mu"]))
    assert 'm = m.eliminate("z")\nrun = %sample m' in codes(found)


def test_switched_labels_are_put_in_order():
    model = gb.model(mixture, np.array([-3.0, 3.0, 2.5]))
    found = cures(ended(model, "Gibbs z (*) NUTS mu", ["mu"], ["labels"], rhat=1.8))
    assert found[0].words == "order the components by mu" and "keeps its posterior" in found[0].expects
    assert found[0].code("m") == 'm = m.ordered("mu")\nrun = %sample m'
    assert found[0].applied(model).sites["mu"].fn_name == "Ordered"
    assert all(not c.draws for c in found)
    assert not any(c.method == "ordered" for c in cures(ended(model, "Gibbs z (*) NUTS mu", ["mu"])))


@pytest.fixture(scope="module")
def switched():
    """A run in which both chains found the components, in different orders."""
    rng = np.random.default_rng(0)
    x = np.where(np.arange(60) < 20, -2.0, 2.0) + rng.normal(size=60)
    start = {"mu": np.array([[-2.0, 2.0], [2.0, -2.0]], np.float32)}
    return gb.model(mixture, x.astype(np.float32)).sample(draws=400, warmup=50, chains=2, seed=0, init=start)


@pytest.mark.slow
def test_an_order_is_tried_beside_the_run_and_agrees_with_it_but_for_labels(switched):
    assert [n.topic for n in switched.snapshot(5).warnings if n.topic == "labels"]
    heard = threading.Event()
    clinic = Clinic(switched, heard.set)
    clinic.ask("try", 0)
    clinic.work()
    clinic.trials[0].run.wait()
    clinic.work()
    trial, run = clinic.told()["cures"][0]["trial"], clinic.trials[0].run
    assert trial["state"] == "done" and "same estimates" in trial["agreement"], trial
    assert not [n for n in run.snapshot(5).warnings if n.topic == "labels"]
    assert (run.draws["mu"][..., 0] < run.draws["mu"][..., 1]).all()
    # against the run itself with its labels undone by hand
    mine, theirs = np.sort(switched.draws["mu"], -1), run.draws["mu"]
    error = np.hypot(mine.std((0, 1)), theirs.std((0, 1))) / np.sqrt(60)  # 60 is far below the ESS of either
    assert (np.abs(mine.mean((0, 1)) - theirs.mean((0, 1))) < 4 * error).all()


@pytest.mark.parametrize(
    "change", [{"status": "failed"}, {"status": "sampling"}, {"model": None}, {"bad": []}, {"draws": 0}]
)
def test_no_cure_where_there_is_nothing_to_cure_or_to_go_by(hierarchy, change):
    given = {"model": hierarchy, "schedule": "NUTS [mu tau theta]", "bad": ["mu"]} | change
    assert cures(ended(**given)) == ()


def test_code_has_the_notebooks_names_and_options():
    cure = Cure("", "", "reparam", {"theta[0]": "non-centred"})
    assert cure.code("schools", "fit", " -n 300") == (
        "schools = schools.reparam({'theta[0]': 'non-centred'})\nfit = %sample schools -n 300"
    )
    assert Cure("", "", draws=500).code("schools", "fit") == "fit.resume(draws=500)"


def test_a_block_is_taken_out_of_others(hierarchy):
    schedule = hierarchy.schedule("NUTS [mu tau] (*) Slice theta")
    assert with_block(schedule, ["theta", "tau"], "NUTS") == "NUTS mu (*) NUTS [theta tau]"


def test_runs_whose_labels_switched_are_compared_without_them():
    rng = np.random.default_rng(3)
    drawn = rng.normal([-3.0, 3.0], 1.0, (4, 300, 2))
    mixed = np.where(np.arange(4)[:, None, None] < 2, drawn, drawn[..., ::-1])
    first, second = Said(0.0, 1), Said(0.0, 2)
    first.draws["mu"] = mixed
    first.draws["z"] = second.draws["z"] = np.zeros((4, 300, 2), int)
    second.draws["mu"] = np.sort(mixed, -1) + 0.3  # far less than the switching hides
    assert compare(first, second).agree
    first.warnings = (Notice("", "", "labels", ("mu",)),)
    assert compare(first, second).apart[0][0].startswith("mu")
    second.draws["mu"] = rng.normal([-3.0, 3.0], 1.0, (4, 300, 2))
    found = compare(first, second)
    assert found.agree and found.compared == 35


class Said:
    """A run of normal draws around a mean."""

    warnings = ()
    model, fingerprint = None, "one"  # of one program, as far as is known

    def __init__(self, mean, seed, draws=500, ess=10.0):
        rng = np.random.default_rng(seed)
        self.draws = {"a": rng.normal(mean, 1, (4, draws)), "b": rng.normal(0, 1, (4, draws, 40))}
        self.elapsed, self._ess = 1.0, ess

    def snapshot(self, limit=0):
        stat = ScalarStat("a", "a", (), 0, 1, 0.1, 1.001, self._ess, self._ess, False)
        efficiency = Efficiency(self._ess)
        return SimpleNamespace(
            scalars=[stat],
            efficiency=efficiency,
            divergences=(0, 1),
            warnings=self.warnings,
            compile_seconds=0.5,
        )


def test_equal_runs_agree_and_unlike_ones_are_told_apart():
    same = compare(Said(0.0, 1), Said(0.0, 2, ess=40.0))
    assert same.agree and same.compared == 33 and "same estimates" in str(same)
    better = {row.name: row.better for row in same.rows}
    assert better == {"ESS/s": 1, "lowest ESS": 1} | dict.fromkeys(
        ("highest R-hat", "divergences", "seconds, compiling apart"), 0
    )
    unlike = compare(Said(0.0, 1), Said(0.5, 2))
    assert not unlike.agree and unlike.apart[0][0] == "a" and "estimates differ: a by" in str(unlike)
    none = compare(Said(0.0, 1, draws=2), Said(0.0, 2, draws=2))
    assert not none.agree and "cannot be compared" in str(none)


def test_equal_runs_are_seldom_called_different():
    wrong = sum(not compare(Said(0.0, 2 * k, 200), Said(0.0, 2 * k + 1, 200)).agree for k in range(6))
    assert wrong <= 1


def test_cures_are_looked_for_again_where_warnings_are_told_late(hierarchy):
    """A run is told to have ended before its last measures are made."""
    run = ended(hierarchy, "NUTS [mu tau theta]", ["tau"])
    run.settings = Settings(1000, 100, 4, 0)
    clinic = Clinic(run, lambda: None)
    assert clinic.work() and not clinic.work()
    early = [c["words"] for c in clinic.told()["cures"]]
    late = ended(hierarchy, "NUTS [mu tau theta]", ["tau"], ["divergences"])
    run.snapshot = late.snapshot
    assert clinic.work() and [c["words"] for c in clinic.told()["cures"]] != early


def apart():
    """A narrow and a wide mode in two numbers."""
    parts = dist.Normal(jnp.array([[-2.0] * 2, [2.0] * 2]), jnp.array([[0.05] * 2, [0.5] * 2])).to_event(1)
    x = numpyro.sample("x", dist.Normal(0, 100.0).expand([2]))
    both = dist.MixtureSameFamily(dist.Categorical(jnp.array([0.3, 0.7])), parts)
    numpyro.factor("modes", both.log_prob(x))
    numpyro.sample("y", dist.Normal(x[0], 50.0), obs=0.0)


@pytest.mark.slow
def test_chains_in_different_modes_are_offered_replicas_that_cross():
    m = gb.model(apart)
    init = {"x": np.repeat(np.float32([-2, 2, -2, 2])[:, None], 2, axis=1)}
    run = m.sample(draws=200, warmup=200, seed=0, init=init)
    first = cures(run)[0]
    assert (first.method, first.value) == ("with_schedule", "Tempered(NUTS x)")
    cured = first.applied(m).sample(draws=500, warmup=200, seed=0, init=init)
    share = (cured.draws["x"][..., 0] < 0).mean(1)
    assert np.abs(share - 0.3).max() < 0.15 and cured.modes is None


def test_a_short_run_of_one_exact_draw_is_cured_by_draws_alone():
    """All that there is is drawn together: no coordinates do better."""

    def groups(y):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        with numpyro.plate("group", 4):
            alpha = numpyro.sample("alpha", dist.Normal(mu, 1))
            numpyro.sample("y", dist.Normal(alpha, 1.0), obs=y)

    model = gb.model(groups, np.arange(4.0))
    found = cures(ended(model, "Conjugate [mu alpha]", ["alpha"], ("ess",), rhat=1.0, ess=79.0, draws=40))
    assert found and {c.draws is not None for c in found} == {True}, found


def pools(found, members):
    p = numpyro.sample("p", dist.Beta(1, 15))
    with numpyro.plate("n", members.shape[1]):
        z = numpyro.sample("z", dist.Bernoulli(p))
    with numpyro.plate("pool", len(found)):
        numpyro.sample("t", dist.Bernoulli(jnp.where(members @ z > 0, 0.95, 0.02)), obs=found)


@pytest.mark.slow
@pytest.mark.share(2)
@pytest.mark.parametrize(("count", "looked_at"), [(8, True), (20, False)])
def test_no_hint_sums_out_what_a_run_could_not(count, looked_at):
    """A measure of what 2^24 joint values hide took longer than any run."""
    rng = np.random.default_rng(0)
    members = np.float32(rng.random((8, count)) < 0.4)
    model = gb.model(pools, rng.integers(0, 2, 8), members).with_schedule("Gibbs z (*) NUTS p")
    plan = model.sample(draws=10, warmup=10, chains=2, seed=0).plan
    assert (_measured(plan, plan.density, ["z"]) is not None) is looked_at
