"""Data left out in earnest, by refits side by side, against what the others say of them on a grid or in
closed form."""

import itertools

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import DataError, OptionError, UnknownNameError
from gibbsite.prediction import kept
from gibbsite.prediction.batched import folds
from helpers.left_out import left_out
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from scipy import stats
from scipy.special import logsumexp

RNG = np.random.default_rng(11)
ASKED = {"draws": 2000, "warmup": 300, "chains": 2}
GRID = np.linspace(-8, 8, 4001)
Y = np.array([-0.3, 0.2, 1.9, 2.4, 0.7], np.float32)


@pytest.mark.slow
def test_single_data_of_a_mixture_with_weights_and_masks():
    weights, there = np.array([1.5, 0.5, 1.0, 2.0, 1.0]), np.array([True, True, False, True, True])

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Bernoulli(0.3))
            with handlers.scale(scale=weights), handlers.mask(mask=there):
                numpyro.sample("y", dist.Normal(mu + 3.0 * z, 1.0), obs=y)

    run = gb.model(model, Y).sample(**ASKED)
    found = run.elpd(kfold=4)
    each = [stats.norm.logpdf(Y, GRID[:, None] + 3 * z, 1) * weights for z in (0, 1)]
    each = np.logaddexp(np.log(0.7) + each[0], np.log(0.3) + each[1])[:, there]
    truth = left_out(stats.norm.logpdf(GRID), each)
    np.testing.assert_allclose(found.elpd_i, truth, atol=0.08)
    assert found.n_folds == found.n_data_points == 4
    assert list(found.elpd_i["datum"].values) == ["y[0]", "y[1]", "y[3]", "y[4]"]
    assert not found.doubtful
    # folds of several data: each is predicted by the data of other folds
    halves = run.elpd(kfold=2)
    fold = np.random.default_rng(0).permutation(np.arange(4) % 2)
    posterior = [stats.norm.logpdf(GRID) + each[:, fold != fold[i]].sum(1) for i in range(4)]
    truth = [logsumexp(p + each[:, i]) - logsumexp(p) for i, p in enumerate(posterior)]
    np.testing.assert_allclose(halves.elpd_i, truth, atol=0.12)


@pytest.mark.slow
def test_a_vector_without_a_plate_is_one_datum():
    def curve(y):
        near = numpyro.sample("l", dist.HalfNormal(1)) ** jnp.abs(jnp.arange(6.0)[:, None] - jnp.arange(6.0))
        numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(6), near + jnp.eye(6)), obs=y)

    run = gb.model(curve, np.sin(np.arange(6.0))).sample(draws=100, chains=2, seed=0)
    found = run.elpd()
    told = "y is one datum, a vector of 6 numbers, which are not left out one by one"
    assert told in str(found) and "1 observation log" in str(found) and "There has been" not in str(found)
    with pytest.raises(OptionError, match=f"kfold=10: there is 1 datum; {told}.*Normal.f, s."):
        run.elpd(kfold=10)
    made, arrays = kept.packed(found)
    assert told in str(kept.unpacked(made, arrays))


def test_a_group_is_left_out_with_its_effect():
    frame = pd.DataFrame({"town": np.repeat(["Ada", "Box", "Cob"], 4), "y": RNG.normal(size=12)})
    frame["y"] += np.repeat([1.0, -0.5, 0.3], 4)

    def model(df):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("town", 3):
            a = numpyro.sample("a", dist.Normal(mu, 1.0))
        numpyro.sample("y", dist.Normal(a[df["town"]], 1.0), obs=df["y"])

    run = gb.model(model, frame).sample(draws=3000, warmup=300, chains=2)
    found = run.elpd(by="town")
    assert "p_kfold" not in str(found) and "elpd_kfold" in str(found)
    covariance = 1.0 + np.equal.outer(frame.town.values, frame.town.values) + np.eye(12)
    truth = []
    for town in ("Ada", "Box", "Cob"):
        rest = (frame.town != town).values
        truth.append(
            stats.multivariate_normal.logpdf(frame.y, cov=covariance)
            - stats.multivariate_normal.logpdf(frame.y[rest], cov=covariance[np.ix_(rest, rest)])
        )
    np.testing.assert_allclose(found.elpd_i, truth, atol=0.15)
    assert list(found.elpd_i["datum"].values) == ["Ada", "Box", "Cob"]
    codes = run.elpd(by=frame.town.map({"Ada": 0, "Box": 1, "Cob": 2}).values)
    np.testing.assert_array_equal(codes.elpd_i, found.elpd_i)
    with pytest.raises(UnknownNameError):
        run.elpd(by="village")
    with pytest.raises(DataError, match="every row"):
        run.elpd(by=[1, 2])
    with pytest.raises(OptionError, match="12 data"):
        run.elpd(kfold=13)
    with pytest.raises(OptionError, match=r"write by='town'"):
        run.elpd(kfold="town")
    with pytest.raises(OptionError, match="one of"):
        run.elpd(kfold=2, by="town")


@pytest.mark.slow
def test_a_column_of_two_tables_is_read_where_the_data_are():
    """Persons and what they did are two tables, whose column of persons counts for the data of each."""
    people = pd.DataFrame({"who": ["Ada", "Bob", "Cyd"], "weight": RNG.normal(size=3)})
    trials = pd.DataFrame({"who": ["Cyd", "Ada", "Bob", "Ada", "Bob"], "y": RNG.normal(size=5)})

    def model(people, trials):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("people", len(people)):
            numpyro.sample("weight", dist.Normal(mu, 1.0), obs=people["weight"])
        with numpyro.plate("trials", len(trials)):
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=trials["y"])

    run = gb.model(model, people, trials).sample(draws=3000, warmup=300, chains=2)
    found = run.elpd(by="who")
    assert sorted(found.elpd_i["datum"].values) == ["Ada", "Bob", "Cyd"]
    who, values = np.append(people.who, trials.who), np.append(people.weight, trials.y)
    truth = []
    for name in found.elpd_i["datum"].values:
        rest = who != name
        truth.append(
            stats.multivariate_normal.logpdf(values, cov=1.0 + np.eye(8))
            - stats.multivariate_normal.logpdf(values[rest], cov=1.0 + np.eye(rest.sum()))
        )
    np.testing.assert_allclose(found.elpd_i, truth, atol=0.1)


@pytest.mark.slow
def test_data_of_bad_pareto_k_are_left_out_in_earnest():
    noise = np.array([0.04, 0.5])  # without the first of a group, little is known of it
    y = (3 * RNG.normal(size=(5, 1)) + noise * RNG.normal(size=(5, 2))).astype(np.float32)

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 10))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    def loose(y):
        with numpyro.plate("n", len(y), dim=-2):
            a = numpyro.sample("a", dist.Normal(0, 3))
            with numpyro.plate("twice", 2):
                numpyro.sample("y", dist.Normal(a, noise), obs=y)

    run = gb.model(loose, y).sample(**ASKED)
    smoothed, found = run.elpd(), run.elpd(refit=True)
    assert found.refitted
    assert (np.asarray(found.pareto_k) <= found.good_k).all()
    known = 1 / (1 / 9 + 1 / noise[::-1] ** 2)
    mean = known * y[:, ::-1] / noise[::-1] ** 2
    truth = stats.norm.logpdf(y, mean, np.sqrt(known + noise**2))
    np.testing.assert_allclose(found.elpd, truth.sum(), atol=0.6)
    assert abs(found.elpd - truth.sum()) < abs(smoothed.elpd - truth.sum())
    other = gb.model(model, y).sample(**ASKED)
    told = repr(gb.compare(run, other))
    assert "run.elpd(refit=True)" in told
    assert "y[" in told
    exact = gb.compare(run, other, kfold=10)
    assert "10-fold" in repr(exact)
    assert exact.entries[0].name == "loose"
    # the mean's posterior without each datum is normal
    precision = 9 + 1 / 100
    mean = (y.sum() - y) / precision
    each = stats.norm.logpdf(y, mean, np.sqrt(1 + 1 / precision))
    np.testing.assert_allclose(exact.entries[1].elpd, each.sum(), atol=0.35)
    apart = each - truth
    np.testing.assert_allclose(exact.entries[1].dse, np.sqrt(10 * apart.var()), rtol=0.05)
    with pytest.raises(DataError, match="different data"):
        gb.compare(run, gb.model(model, y + 1).sample(draws=50, warmup=50, chains=2))


@pytest.mark.slow
def test_single_data_of_a_loop_are_left_out():
    """Of a walk seen with noise, written by `scan`: the missing one is integrated out with its state."""

    def walk(y):
        def step(x, v):
            x = numpyro.sample("x", dist.Normal(x, 1.0))
            numpyro.sample("y", dist.Normal(x, 1.0), obs=v)
            return x, None

        scan(step, 0.0, y)

    run = gb.model(walk, Y).sample(draws=1000, warmup=100, chains=2)
    steps = np.arange(1, 6)
    covariance = np.minimum.outer(steps, steps) + np.eye(5)
    whole = stats.multivariate_normal.logpdf(Y, cov=covariance)
    rest = [np.delete(np.arange(5), i) for i in range(5)]
    truth = [whole - stats.multivariate_normal.logpdf(Y[r], cov=covariance[np.ix_(r, r)]) for r in rest]
    np.testing.assert_allclose(run.elpd().elpd_i, truth, atol=0.12)
    np.testing.assert_allclose(run.elpd(kfold=5).elpd_i, truth, atol=0.12)
    assert "the first 3 of 5 steps" in run.predict(y=Y[:3]).note  # and no forecast
    pair = run.elpd(by=np.array([0, 1, 1, 2, 2]))  # two that follow each other, jointly
    two = [0, 3, 4]
    joint = whole - stats.multivariate_normal.logpdf(Y[two], cov=covariance[np.ix_(two, two)])
    np.testing.assert_allclose(pair.elpd_i[1], joint, atol=0.15)


@pytest.mark.slow
def test_states_of_a_hidden_chain_are_summed_with_the_datum_left_out():
    go = np.array([[0.8, 0.2], [0.3, 0.7]])

    def hidden(y):
        m = numpyro.sample("m", dist.Normal(1.0, 0.7))

        def step(before, now):
            z = numpyro.sample("z", dist.Categorical(jnp.asarray(go)[before]))
            numpyro.sample("y", dist.Normal(m * (2 * z - 1), 0.8), obs=now)
            return z, None

        scan(step, 0, y)

    def likelihood(kept):
        """By every path of states, at every point of the grid."""
        total = np.zeros((len(GRID), 32))
        for p, path in enumerate(itertools.product((0, 1), repeat=5)):
            total[:, p] = np.log([go[a, b] for a, b in itertools.pairwise((0, *path))]).sum()
            for t in kept:
                total[:, p] += stats.norm.logpdf(Y[t], GRID * (2 * path[t] - 1), 0.8)
        return logsumexp(stats.norm.logpdf(GRID, 1, 0.7)[:, None] + total)

    run = gb.model(hidden, Y).sample(draws=1000, warmup=200, chains=2)
    truth = [likelihood(range(5)) - likelihood(set(range(5)) - {t}) for t in range(5)]
    np.testing.assert_allclose(run.elpd().elpd_i, truth, atol=0.1)
    np.testing.assert_allclose(run.elpd(kfold=5).elpd_i, truth, atol=0.1)


@pytest.mark.share(2)
@pytest.mark.parametrize("how", [{"kfold": 9}, {"refit": True}])
def test_errors_are_those_of_the_draws_and_few_are_told(how):
    """Leave-one-out of a normal mean, in closed form, with a datum far out: the mean of its likelihood rests
    on the few draws that are nearest."""
    y = np.array([-0.3, 0.2, 1.1, 0.4, 0.7, -0.8, 0.1, 0.5, 6.0])

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 3))
        numpyro.sample("y", dist.Normal(mu, 0.5), obs=y)

    run = gb.model(model, y).sample(draws=400, warmup=200, chains=2, seed=1)
    found = run.elpd(**how)
    exact = []
    for i in range(len(y)):
        rest = np.delete(y, i)
        v = 1 / (1 / 9 + len(rest) / 0.25)
        exact.append(stats.norm(v * rest.sum() / 0.25, np.sqrt(v + 0.25)).logpdf(y[i]))
    off = np.asarray(found.elpd_i) - exact
    assert (np.abs(off[:-1]) < 5 * found.mcse_i[:-1] + 1e-3).all()
    apart = "refit" not in how  # what data share they vary by together
    assert found.mcse == pytest.approx(np.sqrt(np.sum(found.mcse_i**2)), rel=1e-6 if apart else 0.5)
    assert found.mcse_i[-1] > 0.3 and np.argmax(found.mcse_i) == 8
    assert any("y[8]: its prediction rests on few of the draws" in told for told in found.doubtful)
    assert found.warning


def measured_twice(y, of):
    """Classes, and in each a true value around its own, measured once or several times."""
    w = numpyro.sample("w", dist.Beta(1, 1))
    with numpyro.plate("units", 4):
        z = numpyro.sample("z", dist.Bernoulli(w))
        m = numpyro.sample("m", dist.Normal(4.0 * z, 0.5))
    numpyro.sample("y", dist.Normal(m if of is None else m[of], 0.5), obs=y)


def exactly_without(y: np.ndarray, of: np.ndarray) -> np.ndarray:
    """The log density of the data of each unit, the others known: all classes, values integrated out."""
    each = np.empty((4, 2))
    for unit, z in itertools.product(range(4), (0, 1)):
        own = y[of == unit]
        cov = 0.25 * np.eye(len(own)) + 0.25
        each[unit, z] = stats.multivariate_normal(np.full(len(own), 4.0 * z), cov).logpdf(own)
    w = (np.arange(2000) + 0.5) / 2000
    of_unit = np.logaddexp(np.log(w)[:, None] + each[:, 1], np.log1p(-w)[:, None] + each[:, 0])
    whole = of_unit.sum(axis=1, keepdims=True) - of_unit
    return logsumexp(whole + of_unit, axis=0) - logsumexp(whole, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_units_that_are_left_out_are_of_any_class(times):
    """Their prior has two modes, which draws of class and value in turn do not cross."""
    y = np.array([0.1, 0.4, 4.3, 3.8, 0.2, -0.1, 4.1, 3.9], np.float32)
    of = np.repeat(np.arange(4), 2)
    y, of = (y[:4], np.arange(4)) if times == 1 else (y, of)
    run = gb.model(measured_twice, y, None if times == 1 else of).sample(**ASKED, seed=0)
    found = run.elpd(kfold=4) if times == 1 else run.elpd(by=of)
    np.testing.assert_allclose(np.asarray(found.elpd_i), exactly_without(y, of), atol=0.12)
    assert not found.doubtful
    fits = folds.refits(run, [{"y": of != k} for k in range(2)], ["0", "1"])
    assert {f._plan.schedule_text for f in fits.values()} == {
        "Interleave(Gibbs z, Conjugate m, Independence [z m]) (*) Conjugate w"
    }
    found.doubtful = ("fold 0: not converged",)
    assert "not to be relied on: fold 0: not converged" in str(found)


@pytest.mark.slow
def test_refits_are_drawn_by_the_schedule_of_the_run():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    run = gb.model(model, Y).sample(draws=500, chains=2, schedule="Slice mu", seed=0)
    fits = folds.refits(run, [{"y": np.arange(5) != k} for k in range(2)], ["0", "1"])
    assert {f._plan.schedule_text for f in fits.values()} == {"Slice mu"}
