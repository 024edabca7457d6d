"""Joint Gaussian draws in single precision against double precision, where columns nearly make up for each
other: years beside an intercept, powers, groups with lines of their own, priors that say next to nothing."""

import gibbsite as gb
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional import conditional_of
from gibbsite.conditional.linear.joint import joint_gaussian
from helpers.claims.in_double import (
    GROUP,
    around,
    energies_of_rows,
    line,
    lines,
    matrix,
    odds_of_a_switch,
    off,
)

RNG = np.random.default_rng(0)
YEARS = np.repeat([2018.0, 2019.0, 2020.0], 10)


def powers(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1e6))
    b = numpyro.sample("b", dist.Normal(0, 1e6))
    c = numpyro.sample("c", dist.Normal(0, 1e6))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(a + b * x + c * x**2, 0.1), obs=y)


def crossed(y, group):
    """An intercept and effects that only vague priors tell apart."""
    a = numpyro.sample("a", dist.Normal(0, 1000.0))
    u = numpyro.sample("u", dist.Normal(0, 1000.0).expand([12]))
    v = numpyro.sample("v", dist.Normal(0, 1000.0).expand([5]))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(a + u[group] + v[np.arange(60) // 12], 1.0), obs=y)


def right(found, spread=0.003, mean=0.02):
    assert found.mean < mean, found
    assert all(abs(r - 1) < spread for r in (*found.spread, *found.any_direction)), found
    assert found.rounding < 0.2, found


@pytest.mark.share(3)
@pytest.mark.parametrize("case", ["years", "two years", "after the intercept"])
def test_years_beside_an_intercept(case):
    x = YEARS if case != "two years" else np.repeat([2019.0, 2020.0], 20)
    y = 3 + 0.2 * (x - 2019) + 0.1 * RNG.normal(size=len(x))
    right(off(line, (x, y), ("b", "a") if case == "after the intercept" else ("a", "b")))


@pytest.mark.slow
def test_lines_of_groups_in_years():
    x = 2018 + np.repeat(np.arange(5.0), 12)
    y = 0.2 * (x - 2020) + 0.1 * RNG.normal(size=60)
    right(off(lines, (x, y, GROUP), ("m", "k", "a", "b")))


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e2, 1e3, 1e4, 1e5])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_covariate_far_from_zero_in_any_unit(offset, scale):
    x, y = around(RNG, offset * scale, scale)
    right(off(line, (x, y), ("a", "b")))
    if scale == 1.0:
        right(off(line, (x, y), ("a", "b"), near=False)._replace(rounding=0.0))


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 1e2, 1e5])
def test_lines_of_groups_far_from_zero(offset):
    x = offset + np.repeat(np.arange(5.0), 12)
    right(off(lines, (x, 0.2 * (x - offset) + 0.1 * RNG.normal(size=60), GROUP), ("m", "k", "a", "b")))


@pytest.mark.slow
def test_effects_that_only_vague_priors_tell_apart():
    right(off(crossed, (RNG.normal(size=60), GROUP), ("a", "u", "v")), mean=0.02)


@pytest.mark.slow
def test_powers():
    x = np.arange(1.0, 101.0)
    right(off(powers, (x, RNG.normal(size=100)), ("a", "b", "c")))


@pytest.mark.slow
def test_what_cannot_be_held_says_so():
    """At a million spreads from zero the figures of the slope are those that the level needs."""
    x, y = around(RNG, 1e6)
    found = off(line, (x, y), ("a", "b"))
    assert found.mean > 0.02 and found.rounding > 0.2


@pytest.mark.slow
def test_a_matrix_with_years_among_its_columns():
    """A site by itself, whose draw takes the other way only where columns make up for each other."""
    x = np.c_[np.ones(30), YEARS, RNG.normal(size=30)].astype(np.float32)
    y = (3 + 0.2 * (YEARS - 2019) + 0.1 * RNG.normal(size=30)).astype(np.float32)
    right(off(matrix, (x, y), ("b",)))
    model = gb.model(matrix, x, y)
    conditional = conditional_of(model.density, "b")
    draws = np.asarray(
        jax.vmap(lambda k: conditional.sample(k, {}))(jax.random.split(jax.random.key(0), 4000))
    ).astype(np.float64)
    wide = np.float64(x)
    variance = float(np.float32(0.1)) ** 2
    precision = wide.T @ wide / variance + 1e-6 * np.eye(3)
    mean, sd = np.linalg.solve(precision, wide.T @ y / variance), np.linalg.inv(precision).diagonal() ** 0.5
    assert np.max(np.abs(draws.mean(0) - mean) / sd) * np.sqrt(4000) < 4.5
    assert np.max(np.abs(draws.std(0) / sd - 1)) * np.sqrt(8000) < 4.5


def test_columns_that_are_apart_are_factorised_once():
    x, y = around(RNG, 0.0)
    model = gb.model(line, np.float32(x), np.float32(y))
    assert joint_gaussian(model.density, ("a", "b")).alike is False
    model = gb.model(line, np.float32(YEARS), np.float32(YEARS))
    assert joint_gaussian(model.density, ("a", "b")).alike is True


def noisy(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1000.0))
    b = numpyro.sample("b", dist.Normal(0, 1.0))
    tau = numpyro.sample("tau", dist.Gamma(2.0, 0.02))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(a + b * x, tau**-0.5), obs=y)


@pytest.mark.slow
def test_a_run_over_years_with_unknown_noise_agrees_with_quadrature():
    y = np.float32(3 + 0.2 * (YEARS - 2019) + 0.1 * RNG.normal(size=30))
    run = gb.model(noisy, np.float32(YEARS), y).sample(draws=2000, seed=0)
    assert run.schedule_text.startswith("Conjugate [a b") and run.verdict.ok, (run.schedule_text, run.verdict)
    columns, prior = np.c_[np.ones(30), YEARS], np.diag([1e-6, 1.0])
    taus = np.geomspace(5, 1000, 400)
    means, variances, weights = [], [], []
    for tau in taus:
        precision = tau * columns.T @ columns + prior
        mean = np.linalg.solve(precision, tau * columns.T @ y)
        left = tau * np.sum((y - columns @ mean) ** 2) + mean @ prior @ mean
        means.append(mean[1])
        variances.append(np.linalg.inv(precision)[1, 1])
        half = np.linalg.slogdet(precision)[1]
        # a grid of logarithms: one more power of tau
        weights.append(15 * np.log(tau) - left / 2 - half / 2 + np.log(tau) - 0.02 * tau + np.log(tau))
    weight = np.exp(np.array(weights) - max(weights))
    weight /= weight.sum()
    mean = weight @ means
    sd = np.sqrt(weight @ variances + weight @ (np.array(means) - mean) ** 2)
    b = np.asarray(run.draws["b"], np.float64)
    assert abs(b.mean() - mean) / sd * np.sqrt(b.size / 2) < 4.5
    assert abs(b.std() / sd - 1) * np.sqrt(b.size) < 5
    tau = np.asarray(run.draws["tau"], np.float64)
    assert abs(tau.mean() / (weight @ taus) - 1) < 0.03


def test_a_run_that_single_precision_cannot_hold_is_not_green():
    x, y = around(RNG, 3e6)
    run = gb.model(line, np.float32(x), np.float32(y)).sample(draws=500, warmup=100, seed=0)
    assert not run.verdict.ok and "single precision does not hold the draws of Conjugate" in str(run.verdict)
    assert "subtract from columns" in str(run.advice()) or "Centre" in str(run.advice())


@pytest.mark.slow
@pytest.mark.parametrize("rows", [10**4, 10**6])
def test_long_sums_keep_what_odds_and_energies_need(rows):
    """Twice the spacing of numbers of their size (.06 of a million rows), where it counts: in nats."""
    least = 2 * np.spacing(np.float32(1.4 * rows))
    assert max(odds_of_a_switch(rows, labels) for labels in (False, True)) < least
    spread, slope = energies_of_rows(rows)
    assert spread < least and slope < 1e-4
