"""Chains that all have one labelling of components that can be renamed say so; where labels mean something,
they do not."""

import itertools

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.current import exchangeable
from gibbsite.density.hierarchy.exchangeability import Unchanged, ways
from gibbsite.diagnostics.modes.renamed import one_labelling, renamed_chains, renamed_modes
from gibbsite.diagnostics.verdict.cures import cures

RNG = np.random.default_rng
Y = np.r_[RNG(0).normal(-2, 1, 12), RNG(1).normal(2, 1, 12)].astype(np.float32)


def sample(name, fn, obs=None):
    return numpyro.sample(name, fn, obs=obs)


def rows(w, mu, sd=(1.0, 1.0, 1.0), y=Y):
    with numpyro.plate("n", len(y)):
        z = sample("z", dist.Bernoulli(w) if jnp.ndim(w) == 0 else dist.Categorical(w))
        sample("y", dist.Normal(mu[z], jnp.array(sd)[z]), obs=y)


def beta(a=2.0, b=2.0, loc=(0.0, 0.0), sd=(1.0, 1.0), y=Y):
    rows(sample("w", dist.Beta(a, b)), sample("mu", dist.Normal(jnp.array(loc), 5.0)), sd, y)


def simplex(weights=(1.0, 1.0), places=0.0):
    w = sample("w", dist.Dirichlet(jnp.array(weights)))
    rows(w, sample("mu", dist.Normal(places * jnp.arange(len(weights)), 5.0)))


def log_odds(centre=0.0):
    odds = sample("w", dist.Normal(centre, 1.5))
    mu = sample("mu", dist.Normal(0, 5.0).expand([2]))
    with numpyro.plate("n", len(Y)):
        z = sample("z", dist.Bernoulli(logits=odds))
        sample("y", dist.Normal(mu[z], 1.0), obs=Y)


def apart(wide=5.0):
    """The same with a site per component, and labels summed out by hand."""
    w = sample("w", dist.Beta(2.0, 2.0))
    mu = jnp.stack([sample("low", dist.Normal(0, 5.0)), sample("high", dist.Normal(0, wide))])
    parts = dist.Categorical(jnp.array([1 - w, w])), dist.Normal(mu, 1.0)
    with numpyro.plate("n", len(Y)):
        sample("y", dist.MixtureSameFamily(*parts), obs=Y)


def planes():
    """Two components in two dimensions: an axis of each, both of length two."""
    w = sample("w", dist.Beta(2.0, 2.0))
    mu = sample("mu", dist.Normal(0, 5.0).expand([2, 2]).to_event(2))
    with numpyro.plate("n", 12):
        z = sample("z", dist.Bernoulli(w))
        sample("y", dist.Normal(mu[z], jnp.array([1.0, 2.0])).to_event(1), obs=Y.reshape(12, 2))


def decays(sd=1.0):
    """A sum of two decays: no label is drawn at all."""
    rate = sample("mu", dist.Normal(0.0, 5.0).expand([2]))
    times = jnp.linspace(0, 1, len(Y))
    sample("y", dist.Normal(jnp.exp(-rate[:, None] * times).sum(0), sd), obs=Y)


def regression(glm=False):
    b = sample("mu", dist.Normal(0.0, 1.0).expand([2]))
    x = RNG(2).normal(size=(len(Y), 2)).astype(np.float32)
    sample("y", dist.Poisson(jnp.exp(x @ b)) if glm else dist.Normal(x @ b, 1.0), obs=jnp.floor(jnp.abs(Y)))


def effects():
    """Of two groups, whose data tell them apart."""
    with numpyro.plate("groups", 2):
        mu = sample("mu", dist.Normal(0.0, 1.0))
        sample("y", dist.Normal(mu, 1.0), obs=Y[:2])


def one_is_known():
    """One of the data says which component is its own."""
    w = sample("w", dist.Beta(2.0, 2.0))
    mu = sample("mu", dist.Normal(0, 5.0).expand([2]))
    known = jnp.arange(len(Y)) == 0
    with numpyro.plate("n", len(Y)):
        z = sample("z", dist.Bernoulli(w))
        sample("y", dist.Normal(mu[jnp.where(known, 0, z)], 1.0), obs=Y)


def kept(model, both=False):
    """Draws `[chain, draw, *shape]` around -2 and 2, which stay there, or change places all the time."""
    rng, out = RNG(3), {}
    turned = rng.uniform(size=(4, 200)) < 0.5 * both
    for n in model.density.latents:
        shape = model.sites[n].shape
        x = 0.1 * rng.normal(size=(4, 200, *shape))
        if n == "mu":
            at = np.linspace(-2, 2, shape[0]).reshape(-1, *(1,) * (len(shape) - 1))
            turn = turned.reshape(4, 200, *(1,) * len(shape))
            x = x + np.where(turn, at[::-1], at)
        elif n in ("low", "high"):
            x = x + np.where(turned, -2, 2) * (1 if n == "low" else -1)
        elif n == "w" and shape:
            x = np.full((4, 200, *shape), 1 / shape[0])
        elif n == "w":
            x = 0.1 * x + 0.5 * (model.sites[n].fn_name == "Beta")
        out[n] = x.astype(int) if model.sites[n].discrete else x.astype(np.float32)
    return out


TOLD = {
    "a share as one number": (beta, (), {"w", "mu"}),
    "a simplex": (simplex, (), {"w", "mu"}),
    "a simplex of three": (simplex, ((1.0, 1.0, 1.0),), {"w", "mu"}),
    "two of three alike": (simplex, ((2.0, 1.0, 1.0),), {"w", "mu"}),
    "log odds": (log_odds, (), {"w", "mu"}),
    "a site per component, summed out": (apart, (), {"w", "low", "high"}),
    "two dimensions": (planes, (), {"w", "mu"}),
    "no labels at all": (decays, (), {"mu"}),
}


@pytest.mark.share(9)
@pytest.mark.parametrize("case", TOLD)
def test_one_labelling_of_several_is_told(case):
    fn, args, sites = TOLD[case]
    model = gb.model(fn, *args)
    (notice,) = one_labelling(model.plan(), kept(model))
    assert notice.topic == "renamed" and set(notice.sites) == sites
    assert ("ordered" in notice.hint) == (fn not in (apart, planes))
    assert one_labelling(model.plan(), kept(model, both=True)) == []


OTHERS = {
    "shares that differ": (beta, (2.0, 3.0)),
    "places that differ": (beta, (2.0, 2.0, (0.0, 1.0))),
    "widths that differ": (beta, (2.0, 2.0, (0.0, 0.0), (1.0, 1.2))),
    "weights that differ": (simplex, ((1.0, 2.0),)),
    "weights that differ, three": (simplex, ((1.0, 2.0, 3.0),)),
    "places that differ, three": (simplex, ((1.0, 1.0, 1.0), 1.0)),
    "log odds off zero": (log_odds, (0.5,)),
    "sites of other priors": (apart, (4.0,)),
    "a regression": (regression, ()),
    "counts": (regression, (True,)),
    "effects of groups": (effects, ()),
    "a datum that knows": (one_is_known, ()),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("case", OTHERS)
def test_what_tells_components_apart_is_no_labelling(case):
    fn, args = OTHERS[case]
    model = gb.model(fn, *args)
    assert one_labelling(model.plan(), kept(model)) == []
    assert "mu" not in model.sites or not exchangeable(model.density, "mu")


def switches():
    """Two groups that are on or off, with data of their own."""
    mu = sample("s", dist.Bernoulli(0.4).expand([3]))
    sample("y", dist.Normal(2.0 * mu[jnp.arange(24) % 3], 1.0), obs=Y)


def test_bits_that_are_equal_by_chance_show_nothing():
    unchanged = Unchanged(gb.model(switches).density)
    orders = itertools.permutations(range(3))
    found = [w for order in orders for w in ways(gb.model(switches).density, order) if unchanged.by(w)]
    assert found == []


def levels():
    """The level after each change, of which the last is reached where everything changed."""
    change = sample("z", dist.Bernoulli(0.3).expand([6]))
    mu = sample("mu", dist.Normal(0.0, 3.0).expand([7]))
    sample("y", dist.Normal(mu[jnp.cumsum(change)], 0.7), obs=Y[:6])


def test_levels_in_the_order_of_changes_are_no_labels():
    unchanged = Unchanged(gb.model(levels).density)
    for i, j in itertools.combinations(range(7), 2):
        order = list(range(7))
        order[i], order[j] = j, i
        assert not any(unchanged.by(w) for w in ways(gb.model(levels).density, order)), (i, j)


def test_priors_that_differ_far_from_zero():
    """At random places the log density is of a size at which single precision has no figures left."""

    def far(off=1e5):
        w = sample("w", dist.Beta(1.0, 1.0))
        rows(w, sample("mu", dist.Normal(jnp.array([0.0, 4.0]) + off, 2.0)), y=Y + np.float32(off))

    model = gb.model(far)
    draws = kept(model)
    draws["mu"] = draws["mu"] + np.float32(1e5)
    assert one_labelling(model.plan(), draws) == []


def test_priors_of_components_that_are_masked():
    def masked():
        w = sample("w", dist.Dirichlet(jnp.ones(2)))
        with numpyro.plate("k", 2), numpyro.handlers.mask(mask=jnp.array([True, True])):
            mu = sample("mu", dist.Normal(0, 5.0))
        rows(w, mu)

    density = gb.model(masked).density
    assert any(Unchanged(density).by(w) for w in ways(density, (1, 0)))


def test_components_in_order_have_no_other_labelling():
    model = gb.model(beta).ordered("mu")
    assert model.posterior and one_labelling(model.plan(), kept(model)) == []


@pytest.mark.slow
def test_a_run_in_one_labelling_says_so_and_what_helps():
    start = {"mu": np.tile(np.float32([-2.0, 2.0]), (4, 1))}
    model = gb.model(beta, y=Y[:15])
    run = model.sample(draws=300, warmup=100, seed=0, init=start)
    (note,) = run.verdict.notes
    assert "one labelling of components that can be renamed (mu and w)" in note and note in str(run.verdict)
    assert "one labelling" in run.advice()
    (cure,) = [c for c in cures(run) if c.method == "ordered"]
    assert cure.value == "mu" and "keeps its posterior" in cure.expects
    other = model.sample(draws=300, warmup=100, seed=1, init={"mu": start["mu"][:, ::-1]})
    assert abs(run.draws["w"].mean() - other.draws["w"].mean()) > 0.3 and run.compare(other).agree
    named = gb.model(beta, 2.0, 2.0, (-2.0, 2.0)).sample(draws=300, warmup=100, seed=0, init=start)
    assert named.verdict.notes == ()


@pytest.mark.parametrize("priors", ["alike", "apart"])
def test_modes_that_are_one_under_other_names_are_told_so(priors):
    """Components of several numbers, along other axes of other sites: none agrees once it is sorted alone."""
    r = np.random.default_rng(0)
    y = np.concatenate([r.normal([-2, 1], 0.5, (30, 2)), r.normal([2, -1], 1.0, (30, 2))])
    sides = 3.0 * np.eye(2) if priors == "alike" else np.array([[-2.0, 0.0], [2.0, 0.0]])

    def m(y):
        w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
        mu = numpyro.sample("mu", dist.Normal(0 * sides if priors == "alike" else sides, 3.0).to_event(2))
        sd = numpyro.sample("sd", dist.HalfNormal(2.0).expand([2, 2]))  # by number, then component
        parts = dist.Normal(mu, sd.T).to_event(1)
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(w), parts), obs=y)

    one = {
        "w": np.array([0.5, 0.5]),
        "mu": np.array([[-2.0, 1.0], [2.0, -1.0]]),
        "sd": np.array([[0.5, 1.0]] * 2),
    }
    two = {"w": one["w"], "mu": one["mu"][::-1], "sd": one["sd"][:, ::-1]}
    draws = {}
    for n in one:
        each = np.stack([(one, two)[c in (1, 3)][n] for c in range(4)])[:, None]
        draws[n] = (each + r.normal(0, 0.02, (4, 50, *one[n].shape))).astype(np.float32)
    draws["w"] /= draws["w"].sum(-1, keepdims=True)
    found = renamed_modes(gb.model(m, y).plan(), draws, ((0, 2), (1, 3)))
    assert set(found) == ({"w", "mu", "sd"} if priors == "alike" else set())


@pytest.mark.slow
@pytest.mark.parametrize("case", ["alike", "apart", "another partition"])
def test_chains_with_names_of_their_own_are_told_by_who_bears_them(case):
    """Groups of a network: shares and densities of links of four chains, each under other names."""
    r, (i, j) = np.random.default_rng(1), np.triu_indices(12, 1)
    truth = np.arange(12) % 3
    links = np.array([[0.9, 0.1, 0.2], [0.1, 0.8, 0.3], [0.2, 0.3, 0.7]])
    tied = (r.random(len(i)) < links[truth[i], truth[j]]).astype(int)
    weight = np.ones(3) if case != "apart" else np.array([1.0, 5.0, 1.0])

    def network(tied):
        pi = numpyro.sample("pi", dist.Dirichlet(weight))
        B = numpyro.sample("B", dist.Beta(1, 1).expand([3, 3]).to_event(2))
        with numpyro.plate("N", 12):
            z = numpyro.sample("z", dist.Categorical(pi))
        with numpyro.plate("pairs", len(i)):
            numpyro.sample("tied", dist.Bernoulli(B[z[i], z[j]]), obs=tied)

    draws = {"pi": [], "B": [], "z": []}
    for chain, order in enumerate(([0, 1, 2], [1, 2, 0], [2, 1, 0], [0, 2, 1])):
        z = truth.copy()
        if case == "another partition" and chain == 2:
            z[:3] = 0
        draws["pi"].append(np.full((50, 3), 1 / 3) + r.normal(0, 0.01, (50, 3)))
        noise = r.normal(0, 0.01, (50, 3, 3))
        draws["B"].append(links[np.ix_(order, order)] + noise)
        draws["z"].append(np.tile(np.argsort(order)[z], (50, 1)))
    draws = {n: np.stack(v) for n, v in draws.items()}
    draws["pi"] /= draws["pi"].sum(-1, keepdims=True)
    draws = {n: v.astype(int if n == "z" else np.float32) for n, v in draws.items()}
    plan = gb.model(network, tied).plan()
    assert set(renamed_chains(plan, draws, {"B", "z"})) == ({"pi", "B"} if case == "alike" else set())
    assert renamed_chains(plan, draws, {"B", "z", "other"}) == ()
