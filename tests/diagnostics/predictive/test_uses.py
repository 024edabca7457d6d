"""One table: what can be done to a model × what is done with it, against densities written by hand.

The model: `m ~ N(0, 1)`, `loc[2] ~ N(m, 1)`, labels `z[4] ~ Bernoulli(.3)`, data `y ~ N(loc[z], 1)`, and
`new ~ N(loc[0], 1)`, which no data see. A row says what of it is there, at which weight, and what is held.
"""

import itertools
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.sampling.derived.deriving import DRAWS, prior_draws
from numpyro import handlers
from scipy.special import logsumexp
from scipy.stats import norm

Y = np.array([-0.6, 0.3, 2.1, 1.4], np.float32)
GONE = np.where([False, True, False, False], np.nan, Y).astype(np.float32)
HELD = np.array([0.2, 1.7], np.float32)
LABELS = np.array([0, 0, 1, 1])
KEEP, WEIGHTS = np.array([True, True, False, True]), np.array([0.5, 1.0, 2.0, 1.5], np.float32)
DONE = {"draws": 400, "warmup": 100, "chains": 2, "seed": 0}


@dataclass(frozen=True)
class Row:
    """`of` makes the model; `counted` is the weight of each datum, `spread` the sd that `new` then has."""

    of: Any
    counted: np.ndarray = field(default_factory=lambda: np.ones(4))
    scored: np.ndarray = field(default_factory=lambda: np.ones(4, bool))
    prefix: str = ""
    y: np.ndarray = field(default_factory=lambda: Y)
    loc: np.ndarray | None = None
    z: np.ndarray | None = None
    prior_of_loc: bool = True
    ordered: bool = False
    spread: float = 1.0
    imputed: bool = False


def written(y, around=None, around_new=None):
    m = numpyro.sample("m", dist.Normal(0, 1))
    with numpyro.plate("two", 2):
        loc = numpyro.sample("loc", dist.Normal(m, 1))
    with numpyro.plate("n", 4):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
        with handlers.scale(scale=1.0) if around is None else around():
            numpyro.sample("y", dist.Normal(loc[z], 1), obs=y)
    numpyro.deterministic("gap", loc[1] - loc[0])
    with handlers.scale(scale=1.0) if around_new is None else around_new():
        numpyro.sample("new", dist.Normal(loc[0], 1))


def scoped(y):
    with handlers.scope(prefix="a", divider="."):
        written(y)


ROWS = {
    "none": Row(lambda: gb.model(written, Y)),
    "condition": Row(lambda: gb.model(written, Y).condition(loc=HELD), loc=HELD),
    "condition labels": Row(lambda: gb.model(written, Y).condition(z=LABELS), z=LABELS),
    "do": Row(lambda: gb.model(written, Y).do(loc=HELD), loc=HELD, prior_of_loc=False),
    "mask": Row(
        lambda: gb.model(written, Y, lambda: handlers.mask(mask=KEEP)), counted=KEEP * 1.0, scored=KEEP
    ),
    "scale": Row(lambda: gb.model(written, Y, lambda: handlers.scale(scale=WEIGHTS)), counted=WEIGHTS),
    "scale of the unseen": Row(
        lambda: gb.model(written, Y, None, lambda: handlers.scale(scale=0.25)), spread=2.0
    ),
    "scope": Row(lambda: gb.model(scoped, Y), prefix="a."),
    "order": Row(lambda: gb.model(written, Y).ordered("loc"), ordered=True),
    "impute": Row(
        lambda: gb.model(written, GONE, missing="impute"),
        counted=1.0 - np.isnan(GONE), scored=~np.isnan(GONE), y=GONE, imputed=True,
    ),
    "missing mask": Row(
        lambda: gb.model(written, GONE, missing="mask"),
        counted=1.0 - np.isnan(GONE), scored=~np.isnan(GONE), y=GONE,
    ),
}  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore:written.ordered")  # a prior tells the labels apart
EVERY = pytest.mark.parametrize("name", ROWS)


@cache
def model_of(name):
    return ROWS[name].of()


@cache
def run_of(name):
    return model_of(name).sample(**DONE)


def state_of(row, seed):
    """Values of all latents by the hand-written names, at random."""
    rng = np.random.default_rng(seed)
    loc = np.sort(rng.normal(0.5, 1, 2)) if row.loc is None else row.loc
    z = rng.integers(0, 2, 4) if row.z is None else row.z
    return {"m": rng.normal(), "loc": loc, "z": z, "new": rng.normal(), "y_missing": rng.normal(size=1)}


def named(row, state, model):
    """A state under the names of a model, of its latents."""
    full = {f"{row.prefix}{n}": np.asarray(v) for n, v in state.items()}
    return {n: full[n] for n in model.density.latents}


def each_datum(row, loc, z):
    """The weighted log density of each datum, `[…, 4]`."""
    at = norm.logpdf(np.nan_to_num(row.y), np.take_along_axis(loc, z, -1), 1)
    return row.counted * at


def log_joint(row, v):
    """By hand; up to a constant."""
    total = norm.logpdf(v["m"]) + each_datum(row, v["loc"], v["z"]).sum()
    total += norm.logpdf(v["loc"], v["m"]).sum() * row.prior_of_loc
    total += np.where(v["z"] == 1, np.log(0.3), np.log(0.7)).sum() * (row.z is None)
    if row.imputed:
        total += norm.logpdf(v["y_missing"][0], v["loc"][v["z"][1]])
    return total + norm.logpdf(v["new"], v["loc"][0]) / row.spread**2


@pytest.mark.share(3)
@EVERY
def test_the_density_that_kernels_have(name):
    row, model = ROWS[name], model_of(name)
    states = [state_of(row, i) for i in range(4)]
    found = np.array([model.density.log_joint(named(row, v, model)) for v in states])
    truth = np.array([log_joint(row, v) for v in states])
    np.testing.assert_allclose(found - found[0], truth - truth[0], atol=2e-4)


@pytest.mark.share(3)
@EVERY
def test_conditionals(name):
    row, model, v = ROWS[name], model_of(name), state_of(ROWS[name], 7)
    if row.z is not None:
        return
    found = model.conditional(f"{row.prefix}z").logits(named(row, v, model))
    truth = []
    for i, k in itertools.product(range(4), range(2)):
        z = v["z"].copy()
        z[i] = k
        truth.append(log_joint(row, v | {"z": z}))
    truth = np.reshape(truth, (4, 2))
    np.testing.assert_allclose(found, truth - logsumexp(truth, 1, keepdims=True), atol=2e-4)


@pytest.mark.share(3)
@EVERY
def test_marginals(name):
    row, model = ROWS[name], model_of(name)
    if row.z is not None:
        return
    marginal, found, truth = model.marginal(f"{row.prefix}z"), [], []
    for i in range(2):
        v = state_of(row, i)
        found.append(float(marginal.logdensity(named(row, v, model))))
        every = (np.array(z) for z in itertools.product(range(2), repeat=4))
        truth.append(logsumexp([log_joint(row, v | {"z": z}) for z in every]))
    np.testing.assert_allclose(found[1] - found[0], truth[1] - truth[0], atol=2e-4)


# what is done with a run


def drawn(name):
    """Draws under the hand-written names, with what is held."""
    row, run = ROWS[name], run_of(name)
    found = {n.removeprefix(row.prefix): v for n, v in run.draws.items()}
    chains = (DONE["chains"], DONE["draws"])
    for n in ("loc", "z"):
        if getattr(row, n) is not None:
            found[n] = np.broadcast_to(getattr(row, n), (*chains, *getattr(row, n).shape))
    return found


def only(tree, group):
    """The variables of a group by the names that the model has without a scope."""
    return {n.rpartition(".")[2]: v.values for n, v in tree[group].data_vars.items()}


@pytest.mark.slow
@EVERY
def test_new_data_and_likelihoods(name):
    row, v = ROWS[name], drawn(name)
    tree = run_of(name).to_datatree(posterior_predictive=True, log_likelihood=True)
    for group in ("posterior_predictive", "log_likelihood", "observed_data"):
        assert list(only(tree, group)) == ["y"], group
    np.testing.assert_array_equal(only(tree, "observed_data")["y"], row.y)
    z = v["z"].astype(int)
    truth = each_datum(row, v["loc"], z)
    there = (truth != 0).any((0, 1))  # what is masked or missing is no datum
    np.testing.assert_allclose(only(tree, "log_likelihood")["y"], truth[:, :, there], atol=1e-4)
    noise = (only(tree, "posterior_predictive")["y"] - np.take_along_axis(v["loc"], z, -1)).ravel()
    assert abs(noise.mean()) < 4.5 / np.sqrt(noise.size)
    assert abs(noise.var() - 1) < 4.5 * np.sqrt(2 / noise.size)


@pytest.mark.slow
@EVERY
def test_elpd(name):
    row, v, found = ROWS[name], drawn(name), run_of(name).elpd()
    shape = (*v["m"].shape, 4)
    if row.z is None:
        each = [each_datum(row, v["loc"], np.full(shape, k)) for k in (0, 1)]
        each = np.logaddexp(np.log(0.7) + each[0], np.log(0.3) + each[1])
    else:
        each = each_datum(row, v["loc"], np.broadcast_to(row.z, shape))
    each = each.reshape(-1, 4)[:, row.scored]
    plain = np.log(len(each)) - logsumexp(-each, 0)
    assert found.n_data_points == row.scored.sum() and found.given == ()
    assert found.summed == (() if row.z is not None else (f"{row.prefix}z",))
    np.testing.assert_allclose(found.elpd_i, plain, atol=0.15)  # smoothing moves the largest ratios
    np.testing.assert_allclose(found.elpd, plain.sum(), atol=0.2)


@pytest.mark.slow
@EVERY
def test_forward_draws(name):
    row, v = ROWS[name], drawn(name)
    for value, mean, sd in (
        (v["new"], v["loc"][..., 0], row.spread),
        *([(v["y_missing"][..., 0], np.take_along_axis(v["loc"], v["z"][..., [1]], -1)[..., 0], 1.0)]
          if row.imputed else []),
    ):  # fmt: skip
        noise = (value - mean).ravel() / sd
        assert abs(noise.mean()) < 4.5 / np.sqrt(noise.size)
        assert abs(noise.var() - 1) < 4.5 * np.sqrt(2 / noise.size)


@pytest.mark.slow
@EVERY
def test_what_is_derived_and_computed(name):
    row, v, run = ROWS[name], drawn(name), run_of(name)
    gap = v["loc"][..., 1] - v["loc"][..., 0]
    np.testing.assert_allclose(v["gap"], gap, atol=1e-6)
    if not row.prefix:
        run.derive("twice = 2 * m")
        np.testing.assert_allclose(run.derived["twice"], 2 * v["m"], rtol=1e-6)


@pytest.mark.slow
@EVERY
def test_draws_of_the_prior(name):
    row, plan = ROWS[name], run_of(name).plan
    names = [n for n in plan.sites if n.rpartition(".")[2] in ("m", "loc", "new")]
    found = {n.removeprefix(row.prefix): np.asarray(v, float) for n, v in prior_draws(plan, names).items()}
    if row.spread != 1:
        assert not found  # no draw of it is from a weighted prior
        return
    for n, sd in (("m", 1.0), ("loc", np.sqrt(2)), ("new", np.sqrt(3))):
        if n not in found or row.ordered:
            continue
        mean, spread = (0.0, sd) if row.loc is None or n == "m" else (HELD, 0.0)
        mean, spread = (HELD[0], 1.0) if n == "new" and row.loc is not None else (mean, spread)
        error = max(4.5 * spread / np.sqrt(DRAWS), 1e-4)  # at least what single precision adds up to
        assert np.all(np.abs(found[n].mean(0) - mean) < error), n
        np.testing.assert_allclose(found[n].std(0), spread, atol=error)
    if row.ordered:
        assert np.all(np.diff(found["loc"]) > 0)


@pytest.mark.slow
@EVERY
def test_resuming(name):
    model = model_of(name)
    whole = model.sample(**DONE | {"draws": 30, "warmup": 20})
    parts = model.sample(**DONE | {"draws": 20, "warmup": 20})
    parts.resume(draws=10)
    parts.wait()
    for n, v in whole.draws.items():
        np.testing.assert_array_equal(parts.draws[n], v)
