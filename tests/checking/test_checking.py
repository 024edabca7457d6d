"""What `Model.check` asks: right models pass, planted faults are found by the test that is meant for them."""

from dataclasses import replace

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.checking.calibration import calibration
from gibbsite.checking.check import Check
from gibbsite.checking.conditionals import conditionals
from gibbsite.checking.dependence import dependence
from gibbsite.checking.distributions import distributions
from gibbsite.checking.finding import Finding
from gibbsite.checking.invariance import invariance
from gibbsite.checking.marginals import marginals
from gibbsite.checking.reach import reach
from gibbsite.checking.replicates import NotReplicated, replicated
from gibbsite.checking.truth import places, states
from gibbsite.conditional.conjugate.certify import ConjugateConditional
from gibbsite.conditional.reads.reduce import reduce_onto
from gibbsite.density.density import Density
from gibbsite.elimination.marginal import Marginal
from gibbsite.errors import OptionError
from gibbsite.ground import opaque
from gibbsite.kernels.blocks import metropolis
from gibbsite.kernels.learnt.coordinates import Coordinates
from gibbsite.programs.maps import index_maps
from gibbsite.programs.maps.rules import Arg, shape_of
from gibbsite.sampling import engines
from helpers.executors import Here
from scipy import stats

Y = np.array([0.3, -1.2, 2.0, 0.7])


def always():
    return True


def levels(y):
    tau = numpyro.sample("tau", dist.Gamma(3.0, 2.0))
    with numpyro.plate("n", len(y)):
        mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
        numpyro.sample("y", dist.Normal(mu, tau**-0.5), obs=y)


def mixture(y):
    w = numpyro.sample("w", dist.Beta(2.0, 2.0))
    with numpyro.plate("n", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(w))
        numpyro.sample("y", dist.Normal(2.0 * z - 1.0, 1.0), obs=y)


def scales(y):
    s = numpyro.sample("s", dist.HalfNormal(2.0))
    m = numpyro.sample("m", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.StudentT(5.0, m, s).expand([len(y)]).to_event(1), obs=y)


def coins(y):
    a = numpyro.sample("a", dist.Bernoulli(0.4))
    b = numpyro.sample("b", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Bernoulli(jnp.where(a != b, 1.0, 0.0)), obs=y)


def effects(y):
    tau = numpyro.sample("tau", dist.HalfNormal(2.0))
    with numpyro.plate("n", len(y)):
        theta = numpyro.sample("theta", dist.Normal(0.0, tau))
        numpyro.sample("y", dist.Normal(theta, 1.0), obs=y)


def rates(y):
    rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
    with numpyro.plate("n", len(y)):
        each = numpyro.sample("each", dist.Gamma(2.0, rate))
        numpyro.sample("y", dist.Poisson(each), obs=jnp.abs(jnp.round(3 * y)).astype(int))


class Bent(dist.Distribution):
    """Draws that its density does not have."""

    support = dist.constraints.real

    def __init__(self):
        super().__init__(())

    def sample(self, key, sample_shape=()):
        return jax.random.normal(key, sample_shape)

    def log_prob(self, x):
        return -0.5 * ((x - 3.0) / 0.5) ** 2


def bent(y):
    x = numpyro.sample("x", Bent())
    numpyro.sample("y", dist.Normal(x, 1.0), obs=y)


@pytest.fixture(autouse=True)
def compiled_anew():
    """Programs are of kernels as they are now, faults included."""
    engines._ENGINES.clear()
    yield
    engines._ENGINES.clear()


def state_of(test, fn, y=Y):
    model = gb.model(fn, y)
    at = places(model, states(model, 2))
    if test is dependence:
        return dependence(model, at)
    if test is marginals:
        return marginals(model, at, 0)
    return test(model, at, 0, always)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fn", "text", "gone"),
    [
        (mixture, "Eliminate z > NUTS w", "z"),
        (effects, "Eliminate theta > NUTS tau", "theta"),
        (rates, "Eliminate each > NUTS rate", "each"),
    ],
)
def test_what_a_schedule_eliminates_is_summed_and_integrated_another_way(fn, text, gone, monkeypatch):
    model = gb.model(fn, Y).with_schedule(text)
    at = places(model, states(model, 2))
    found = marginals(model, at, 0)
    assert found.state == "right" and f"over {gone} " in found.text, found
    logdensity = Marginal.logdensity
    monkeypatch.setattr(Marginal, "logdensity", lambda self, s, **k: 0.5 * logdensity(self, s, **k))
    assert marginals(model, at, 0).state == "wrong"


def test_a_test_that_fails_unforeseen_is_open_for_users(monkeypatch):
    def falls(*_):
        raise ZeroDivisionError("no")

    def stops(*_):
        check.stop()
        return Finding("sums and integrals", "right", "")

    monkeypatch.setattr("gibbsite.checking.check.conditionals", falls)
    monkeypatch.setattr("gibbsite.checking.check.marginals", stops)
    check = Check(gb.model(mixture, Y), 60.0, 0)
    with opaque.strict(False):
        check.start().wait()
    assert "the test itself failed: ZeroDivisionError: no" in repr(check)


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("test", "fn"),
    [(conditionals, levels), (conditionals, mixture), (marginals, mixture), (dependence, mixture)],
)
def test_what_is_right_passes(test, fn):
    found = state_of(test, fn)
    assert found.state == "right", found


def switching(y):
    """Where `m` is 0, `k` is drawn; where it is 1, a slice moves it."""
    m = numpyro.sample("m", dist.Bernoulli(0.5))
    a, k = numpyro.sample("a", dist.Normal(0, 2)), numpyro.sample("k", dist.HalfNormal(2))
    x = jnp.arange(1.0, 1 + len(y))
    numpyro.sample("y", dist.Normal(jnp.where(m == 0, a, jnp.exp(-k * x)), 1.0).to_event(1), obs=y)


def test_a_slice_of_some_branch_is_no_wrong_draw():
    """It was held to be one: "its draws do not follow the joint density (p = 0)"."""
    model = gb.model(switching, Y)
    at = states(model, 6)
    assert {model.conditional("k").exact_at({n: jnp.asarray(v) for n, v in s.items()}) for s in at} == {
        True,
        False,
    }
    for order in (at, at[::-1]):
        found = conditionals(model, places(model, order), 0, always)
        assert found.state == "right" and "k" in found.text, found


def test_a_wrong_variance_is_found(monkeypatch):
    update = ConjugateConditional.update

    def wider(self, key, latents, data):
        x = update(self, key, latents, data)
        return 1.15 * x if self.family.name == "Normal" else x

    monkeypatch.setattr(ConjugateConditional, "update", wider)
    found = state_of(conditionals, levels)
    assert found.state == "wrong" and "mu (conjugate): its draws" in found.text, found


def test_a_dropped_term_is_found(monkeypatch):
    terms_of = Density.terms_of
    monkeypatch.setattr(Density, "terms_of", lambda self, site: terms_of(self, site)[:1])
    found = state_of(conditionals, levels)
    assert found.state == "wrong" and "ratios" in found.text, found


def test_a_neighbours_data_are_found(monkeypatch):
    def neighbours(*args):
        return jnp.roll(reduce_onto(*args), 1)

    monkeypatch.setattr("gibbsite.conditional.forms.walk.reduce_onto", neighbours)
    found = state_of(conditionals, levels)
    assert found.state == "wrong" and "mu" in found.text, found


@pytest.mark.slow
def test_wrong_tables_are_found(monkeypatch):
    def neighbours(*args):
        return jnp.roll(reduce_onto(*args), 1, 0)

    monkeypatch.setattr("gibbsite.conditional.reads.reduce.reduce_onto", neighbours)
    monkeypatch.setattr("gibbsite.conditional.finite.finite.reduce_onto", neighbours)
    found = state_of(conditionals, mixture)
    assert found.state == "wrong" and "z (finite)" in found.text, found


def test_a_wrong_sum_is_found(monkeypatch):
    smooth = Marginal._smooth
    monkeypatch.setattr(Marginal, "_smooth", lambda self, *a: 0.9 * smooth(self, *a))
    assert state_of(marginals, mixture).state == "wrong"


def test_a_wrong_index_map_is_found(monkeypatch):
    def nothing(eqn, args, p):
        return [Arg(shape_of(eqn, i), {}) for i in range(len(eqn.outvars))]

    monkeypatch.setitem(index_maps.RULES, "convert_element_type", nothing)
    assert state_of(dependence, mixture).state == "wrong"


def test_a_class_that_draws_something_else_is_found():
    found = state_of(distributions, bent)
    assert found.state == "wrong" and "Bent" in found.text and "x" in found.text, found


def whole(fn, y, text=None, count=2048):
    """What the tests of the whole schedule find."""
    model = gb.model(fn, y)
    model = model if text is None else model.with_schedule(text)
    check = Check(model, 600.0, 0)
    check._replicates = replicated(model, count, 0)
    return check


def swept(check):
    replicates, sweeps = check._made()
    return invariance(sweeps, replicates, float("inf"), always)


@pytest.mark.slow
def test_a_right_schedule_keeps_what_belongs_together():
    found = swept(whole(scales, Y))
    assert found.state == "right", found


@pytest.mark.slow
def test_a_wrong_determinant_is_found(monkeypatch):
    constrained = Coordinates.constrained

    def without(self, v):
        values, total = constrained(self, v)
        return values, 0.0 * total

    monkeypatch.setattr(Coordinates, "constrained", without)
    found = swept(whole(scales, Y))
    assert found.state == "wrong", found


@pytest.mark.slow
def test_a_wrong_ratio_is_found(monkeypatch):
    decide = metropolis._decide
    monkeypatch.setattr(metropolis, "_decide", lambda k, z, there, r: decide(k, z, there, 0.5 * r))
    found = swept(whole(scales, Y, "Independence s (*) Independence m"))
    assert found.state == "wrong", found


@pytest.mark.slow
def test_a_schedule_that_cannot_cross_is_found():
    check = whole(coins, np.array(1), "Gibbs a (*) Gibbs b", count=64)
    replicates, sweeps = check._made()
    found = reach(sweeps, replicates, check.model, always)
    assert found.state == "wrong" and "a, b" in found.text, found
    # each of its steps is right, and what belongs together stays so
    assert swept(check).state != "wrong"


@pytest.mark.slow
@pytest.mark.parametrize("tied", [False, True])
def test_names_of_components_are_no_part_that_is_not_reached(tied):
    """Of parts far apart each chain keeps the names that it began with, and README's mixture was "wrong"; two
    coins beside it that must differ still are."""

    def mixture(x):
        mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]).to_event(1))
        if tied:
            coins(np.array(1))
        with numpyro.plate("n", len(x)):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
            numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)

    x = np.array([-8.0, -8.5, -7.9, 8.2, 7.7], np.float32)
    check = whole(mixture, x, "Gibbs z (*) Conjugate mu" + " (*) Gibbs a (*) Gibbs b" * tied, count=64)
    replicates, sweeps = check._made()
    found = reach(sweeps, replicates, check.model, always)
    assert found.state == ("wrong" if tied else "right"), found
    assert ("moves a, b" if tied else "but for the names of z") in found.text


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [pytest.param(False, marks=pytest.mark.slow), True])
def test_workers_calibrate(wrong):
    """Also that they fit the data that each truth has made: with another's, ranks are far from uniform."""
    made = replicated(gb.model(levels, Y), 40, 1)
    if wrong:
        made = replace(made, data={n: v[::-1] for n, v in made.data.items()})
    pool, told = Here(), []
    found = calibration(made, 1, 0.0, always, True, told.append, pool)
    assert pool.calls and "40 data sets" in found.text and told
    assert found.state == ("doubtful" if wrong else "right")
    with pytest.raises(OptionError, match="no submit"):
        gb.model(levels, Y).check(on=3)


def test_what_cannot_be_replicated_is_told():
    def with_factor(y):
        numpyro.factor("f", -(numpyro.sample("x", dist.Normal()) ** 2))
        numpyro.sample("y", dist.Normal(0, 1), obs=y)

    with pytest.raises(NotReplicated, match="factor 'f'"):
        replicated(gb.model(with_factor, Y), 8, 0)


def in_part(x, y, w=1.0, read=False):
    a, b = numpyro.sample("a", dist.Normal(0, 1)), numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("n", len(x)), numpyro.handlers.scale(scale=w):
        seen = numpyro.sample("y", dist.Normal(a + b * x, 1), obs=y)
    if read:
        numpyro.sample("z", dist.Normal(seen.sum(), 1), obs=1.0)


X = np.linspace(-1, 1, 7)
GAPS = np.where(np.arange(7) == 2, np.nan, X)


@pytest.mark.parametrize("missing", ["mask", "impute"])
def test_data_that_are_masked_are_drawn_as_others(missing):
    """What is drawn where nothing counts is as good as anything: the rest follows the joint density."""
    made = replicated(gb.model(in_part, X, GAPS, missing=missing), 3, 0)
    means = made.truth["a"][:, None] + made.truth["b"][:, None] * X
    expected = np.delete(stats.norm(means, 1).logpdf(made.data["y"]), 2, axis=1).sum(1)
    expected += sum(stats.norm.logpdf(made.truth[n]) for n in "ab")
    if missing == "impute":
        expected += stats.norm(means[:, 2], 1).logpdf(made.truth["y_missing"][:, 0])
    for i in range(3):
        data, values = ({n: v[i] for n, v in of.items()} for of in (made.data, made.truth))
        np.testing.assert_allclose(made.height(values, made.inputs(data)), expected[i], rtol=1e-4)


def test_masks_and_weights_that_leave_no_distribution_are_told():
    masked = gb.model(in_part, X, GAPS, read=True, missing="mask")
    with pytest.raises(NotReplicated, match="'y' is masked in part, and other statements read what was obs"):
        replicated(masked, 100, 0)
    with pytest.raises(NotReplicated, match="'y' is weighted: it has no distribution to be drawn from"):
        replicated(gb.model(in_part, X, X, w=2.0), 100, 0)


def test_distributions_have_time_where_other_tests_took_more():
    check = Check(gb.model(in_part, X, X), 20.0, 0)
    assert check._for_a_while()()
    check._began -= 12.0  # as if conditionals and sums had taken more than their share
    check._until -= 12.0
    going = check._for_a_while()
    assert not check._early() and going()
    check._until -= 9.0
    assert not going()


def test_a_check_of_no_time_says_so(tmp_path):
    check = gb.model(mixture, Y).check(seconds=0)
    assert not check.ok and {f.state for f in check.findings} == {"open"}
    assert "not reached within 0 seconds" in repr(check)
    assert check.status == "finished" and "Schedule" in check.report(tmp_path / "c.html").read_text()
    with pytest.raises(gb.GibbsiteError, match="seconds"):
        gb.model(mixture, Y).check(seconds="soon")


def test_a_distribution_that_nothing_was_asked_of_is_not_called_right():
    at = places(model := gb.model(scales, Y), states(model, 2))
    found = distributions(model, at, 0, lambda: False)
    assert found is not None and (found.state, found.text) == ("open", "no time was left")


@pytest.mark.slow
def test_places_are_where_chains_get_to_when_no_draw_of_the_statements_is_possible():
    """Forty counts of which any that is not zero needs its indicator: all at once hardly any draw has."""
    seen = np.array([0, 3, 1, 4, 2] * 8)

    def inflated(seen):
        share = numpyro.sample("share", dist.Beta(2, 2))
        with numpyro.plate("n", len(seen)):
            z = numpyro.sample("z", dist.Bernoulli(share))
            numpyro.sample("y", dist.Poisson(2.0 * z), obs=seen)

    model = gb.model(inflated, seen)
    assert not states(model, 3)
    check = model.check(seconds=3600, wait=False)
    check.subscribe(lambda c: c.stop() if c.findings[0].state != "open" else None)
    check.wait()
    assert check.findings[0].test == "conditionals" and check.findings[0].state == "right", check


def test_what_has_nothing_to_ask_is_left_out():
    model = gb.model(scales, Y)
    assert "reach" not in {f.test for f in model.check(seconds=0).findings}
    assert conditionals(model, [], 0, always) is None and marginals(model, [], 0) is None


@pytest.mark.slow
def test_all_of_it(tmp_path):
    """All tests to the end, stopped in the last."""
    check = gb.model(mixture, Y).check(seconds=1e6, wait=False)
    check.subscribe(lambda c: c.stop() if c.findings[-1].test == "calibration" else None)
    check.wait(600)
    assert check.ok and check.status == "stopped", check
    states = {f.test: f.state for f in check.findings}
    assert states["the whole schedule"] == states["calibration"] == "right", check
    assert "<svg" in check.report(tmp_path / "check.html").read_text()
    assert all(check.model is not run.model for run in gb.runs())
