"""Every finite conditional against the original model's joint, evaluated by NumPyro one value at a time."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.checking.perturbation import QUICK
from gibbsite.conditional.finite.discrete import ChainTables, sample_chain
from gibbsite.conditional.tables import fill
from helpers.models.zoo import ZOO
from numpyro.infer.util import log_density

DISCRETE = [(name, site) for name, case in ZOO.items() for site in case.structure]


@pytest.fixture(scope="module")
def models():
    return {name: gb.model(case.fn, *case.args, **case.kwargs) for name, case in ZOO.items()}


def joint(case, state):
    """The original model's log joint density, by NumPyro alone."""
    state = {name: jnp.asarray(value) for name, value in state.items()}
    return log_density(case.fn, case.args, case.kwargs, state)[0]


def joints(name, site):
    """Log joints of many values of a site, to be compiled once for all states of a model."""

    def one(state, z):
        return joint(ZOO[name], {**state, site: z})

    return jax.jit(jax.vmap(one, in_axes=(None, 0)), compiler_options=QUICK)


def brute_force(run, conditional, site, state):
    """`log p(element = value | rest)` for every element and value, from the whole joint."""
    values = np.asarray(conditional.support)
    base = np.asarray(state[site])
    flat = base.reshape(-1)
    moved = np.repeat(flat[None, None], flat.size, 0).repeat(len(values), 1)
    for i in range(flat.size):
        moved[i, :, i] = values
    moved = moved.reshape(-1, *base.shape).astype(base.dtype)
    table = run(jax.tree.map(jnp.asarray, state), jnp.asarray(moved))
    table = np.array(table, np.float64).reshape(flat.size, len(values))
    valid = conditional.structure.support.valid
    if valid is not None:
        table = np.where(np.moveaxis(valid, 0, -1).reshape(table.shape), table, -np.inf)
    table -= np.logaddexp.reduce(table, axis=1, keepdims=True)
    return table.reshape(*base.shape, len(values))


def structure(conditional):
    s = conditional.structure
    if conditional.kind == "chain":
        return "chain"
    if s.independent:
        return "independent"
    return "one by one" if s.colours is None else f"{s.n_colours} colours"


@pytest.mark.share(56)
@pytest.mark.parametrize(("name", "site"), DISCRETE)
def test_logits_are_the_normalised_joint(models, name, site):
    case, conditional = ZOO[name], models[name].conditional(site)
    run, compared = joints(name, site), 0
    logits = jax.jit(conditional.logits, compiler_options=QUICK)
    for seed in range(3):
        state = case.state(seed)
        truth = brute_force(run, conditional, site, state)
        ours = np.asarray(logits(state))
        assert ours.shape == (*state[site].shape, len(conditional.support))
        assert not np.isnan(ours).any() and not np.isnan(truth).any()
        # probabilities compare where logarithms of tiny ones would only compare rounding
        np.testing.assert_allclose(np.exp(ours), np.exp(truth), atol=1e-5)
        likely = truth > -12
        np.testing.assert_allclose(ours[likely], truth[likely], atol=2e-4)
        compared += int((likely & (np.abs(truth) > 1e-3)).sum())
    assert compared >= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, case in ZOO.items() if case.structure])
def test_logits_in_double_precision(name):
    """Rounding hides no mistake: in float64 the logits are the normalised joint to 1e-10."""
    case = ZOO[name]
    compared = 0
    with jax.enable_x64(True):
        model = gb.model(case.fn, *case.args, **case.kwargs)
        state = case.state(0)
        for site in case.structure:
            conditional = model.conditional(site)
            truth = brute_force(joints(name, site), conditional, site, state)
            ours = np.asarray(conditional.logits(state))
            assert ours.dtype == np.float64
            assert not np.isnan(ours).any() and not np.isnan(truth).any()
            likely = truth > -1e4
            np.testing.assert_allclose(ours[likely], truth[likely], rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(np.exp(ours), np.exp(truth), atol=1e-10)
            compared += int((likely & (np.abs(truth) > 1e-3)).sum())
    assert compared >= 2


@pytest.mark.parametrize(("name", "site"), DISCRETE)
def test_the_structure_that_was_found(models, name, site):
    """Regression values: a lost index map shows as more colours, or as one element after another."""
    assert structure(models[name].conditional(site)) == ZOO[name].structure[site]


@pytest.mark.share(50)
@pytest.mark.parametrize(("name", "site"), DISCRETE)
def test_samples_are_in_the_support_and_pure(models, name, site):
    conditional, state = models[name].conditional(site), ZOO[name].state(0)
    key = jax.random.key(5)
    once = conditional.sample(key, state)
    many = jax.jit(jax.vmap(conditional.sample, (0, None)), compiler_options=QUICK)
    again = many(jnp.stack([key, *jax.random.split(key, 2)]), state)
    np.testing.assert_array_equal(once, again[0])
    assert once.shape == state[site].shape and once.dtype == state[site].dtype
    assert np.isin(again, conditional.support).all() and again.shape == (3, *once.shape)


def enumerate_site(case, conditional, site, state):
    """All joint values of a small site, and their probabilities given the rest."""
    values, shape = np.asarray(conditional.support), np.asarray(state[site]).shape
    n = int(np.prod(shape, dtype=int))
    grid = np.stack(np.meshgrid(*[values] * n, indexing="ij"), -1).reshape(-1, n)
    points = grid.reshape(-1, *shape).astype(state[site].dtype)
    lp = jax.jit(jax.vmap(lambda z: joint(case, {**state, site: z})))(jnp.asarray(points))
    lp = np.asarray(lp, np.float64)
    return grid, np.exp(lp - np.logaddexp.reduce(lp))


SMALL = [("hmm_slices", "z"), ("hmm_scan", "z"), ("hmm_factorial", "b"), ("gmm", "z"), ("groups", "s")]


@pytest.mark.share(3)
@pytest.mark.parametrize(("name", "site"), SMALL)
def test_independent_and_chain_draws_follow_the_exact_joint(models, name, site):
    """The frequencies of whole paths, by a chi-square test that chance passes 999 times in 1000."""
    from scipy.stats import chi2

    case, conditional = ZOO[name], models[name].conditional(site)
    state = case.state(4)
    grid, p = enumerate_site(case, conditional, site, state)
    n = 40_000
    draws = jax.vmap(lambda k: conditional.sample(k, state))(jax.random.split(jax.random.key(0), n))
    place = {tuple(row): i for i, row in enumerate(grid.tolist())}
    counts = np.bincount([place[tuple(row)] for row in np.asarray(draws).reshape(n, -1).tolist()],
                         minlength=len(p))  # fmt: skip
    big = p * n >= 5
    statistic = ((counts - n * p)[big] ** 2 / (n * p)[big]).sum()
    rest = (counts[~big].sum() - n * p[~big].sum()) ** 2 / max(n * p[~big].sum(), 1e-9)
    statistic += rest if p[~big].sum() * n >= 5 else 0
    assert big.sum() >= 4
    assert statistic < chi2.ppf(0.999, big.sum())


SWEPT = [
    (n, "z") for n in ("ising", "ring", "edges", "total", "sorted_sum", "run_length", "hmm_second_order")
]


@pytest.mark.share(6)
@pytest.mark.parametrize(("name", "site"), SWEPT)
def test_a_sweep_leaves_the_exact_joint_invariant(models, name, site):
    """Start at exact draws, sweep once: the expectation of every element and pair must not move."""
    case, conditional = ZOO[name], models[name].conditional(site)
    state = case.state(2)
    grid, p = enumerate_site(case, conditional, site, state)
    n, rng = 40_000, np.random.default_rng(0)
    start = grid[rng.choice(len(p), size=n, p=p / p.sum())].reshape(n, *state[site].shape)
    start = jnp.asarray(start.astype(state[site].dtype))
    keys = jax.random.split(jax.random.key(1), n)
    after = jax.vmap(lambda k, z: conditional.sample(k, {**state, site: z}))(keys, start)
    after = np.asarray(after).reshape(n, -1).astype(float)
    assert (after != np.asarray(start).reshape(n, -1)).mean() > 0.05
    exact = p @ grid.astype(float)
    sd = np.sqrt(p @ (grid - exact) ** 2) + 1e-12
    assert np.all(np.abs(after.mean(0) - exact) < 4.5 * sd / np.sqrt(n) + 1e-9)
    products = grid[:, :, None] * grid[:, None, :]
    second = np.einsum("i,ijk->jk", p, products)
    spread = np.sqrt(np.maximum(np.einsum("i,ijk->jk", p, (products - second) ** 2), 0)) + 1e-9
    ours = np.einsum("ij,ik->jk", after, after) / n
    assert np.all(np.abs(ours - second) < 5 * spread / np.sqrt(n) + 1e-9)


@pytest.mark.slow
def test_the_parallel_filter_draws_the_same_law():
    rng = np.random.default_rng(3)
    unary, pair = jnp.asarray(rng.normal(size=(5, 3))), jnp.asarray(rng.normal(size=(4, 3, 3)))
    paths = np.stack(np.meshgrid(*[np.arange(3)] * 5, indexing="ij"), -1).reshape(-1, 5)
    lp = sum(np.asarray(unary)[t, paths[:, t]] for t in range(5))
    lp = lp + sum(np.asarray(pair)[t, paths[:, t], paths[:, t + 1]] for t in range(4))
    p = np.exp(lp - np.logaddexp.reduce(lp))
    keys = jax.random.split(jax.random.key(0), 30_000)
    code = 3 ** np.arange(5)[::-1]
    for parallel in (False, True, None):
        draws = jax.vmap(lambda k, parallel=parallel: sample_chain(k, unary, pair, parallel))(keys)
        counts = np.bincount(np.asarray(draws) @ code, minlength=243)
        expected = p * len(keys)
        big = expected >= 5
        assert ((counts - expected)[big] ** 2 / expected[big]).sum() < big.sum() + 4 * np.sqrt(2 * big.sum())


@pytest.mark.share(2)
@pytest.mark.parametrize("parallel", [False, True])
def test_filters_of_long_chains_keep_their_figures(parallel):
    """Steps that hardly know of each other, each a thousand below zero: what a message of them adds up to has
    no digits left for which value it is."""
    rng, steps, draws = np.random.default_rng(4), 5000, 400
    odds = rng.normal(size=steps)
    unary = jnp.asarray(np.stack([np.zeros(steps), odds], 1) - 1000.0, jnp.float32)
    p = 1 / (1 + np.exp(-np.diff(np.asarray(unary, float))[:, 0]))
    drawn = jax.jit(jax.vmap(lambda k: sample_chain(k, unary, jnp.zeros((1, 2, 2)), parallel)))
    share = np.asarray(drawn(jax.random.split(jax.random.key(2), draws))).mean(0)
    off = np.mean((share - p)[-1000:] ** 2 / (p * (1 - p))[-1000:]) * draws
    assert abs(off - 1) < 5 * np.sqrt(2 / 1000)


CHAINS = [("hmm_slices", "z"), ("hmm_scan", "z"), ("hmm_factorial", "a"), ("hmm_factorial", "b")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "site"), CHAINS)
def test_filling_copies_gives_the_tables_of_filling_the_site(models, name, site, monkeypatch):
    """A chain's pairs from copies of the site, one value each, and from two values in turn along the site."""
    chain = models[name].conditional(site).chain
    pairs = [source.tables.__self__.fills for source in chain._coupling if len(source.factors[0].sites) == 2]
    assert pairs and all(f.copies for fills in pairs for f in fills if site == f.site)
    monkeypatch.setattr(fill, "copies_to_fill", lambda *args: None)
    in_turn = ChainTables(chain.tables, chain.axis)
    assert any(f.colours is not None for source in in_turn._coupling for f in source.tables.__self__.fills)
    density = chain.tables.density
    for seed in range(3):
        latents = density.state_values(ZOO[name].state(seed))
        for one, two in zip(*(c(latents, density.arguments.arrays) for c in (chain, in_turn)), strict=True):
            assert np.ptp(two) > 0
            np.testing.assert_allclose(np.broadcast_to(one, two.shape), two, atol=1e-5)


def test_the_platform_decides_how_a_chain_is_filtered():
    """Compiled for a CPU a loop over times, for a GPU none."""
    unary, pair = jnp.zeros((50, 3)), jnp.zeros((1, 3, 3))
    for platform, loops in (("cpu", True), ("cuda", False)):
        traced = jax.jit(sample_chain).trace(jax.random.key(0), unary, pair)
        text = traced.lower(lowering_platforms=(platform,)).as_text()
        assert ("stablehlo.while" in text) == loops, platform


def impossible(x):
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.5, 0.5, 0.0])))
        numpyro.factor("f", jnp.where((z == 2) | (x < 0), jnp.where(x < -1, jnp.nan, 0.0), -jnp.inf))


def impossible_chain(x):
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Bernoulli(0.5))
    numpyro.factor("steps", jnp.where((z[1:] != z[:-1]) & (x[1:] < 0), 0.0, -jnp.inf))


@pytest.mark.parametrize(
    ("fn", "x", "who"), [(impossible, 1, r"z\[2\]"), (impossible, -2, r"z\[2\]"), (impossible_chain, 1, "z")]
)
def test_a_table_of_zeros_is_told(fn, x, who):
    """Not drawn from in silence: with the element, and what its probabilities are made of."""
    x = np.array([-0.5, -0.5, x], np.float32)
    conditional = gb.model(fn, x, check_values=False).conditional("z")
    state, told = {"z": np.array([1, 0, 0])}, f"^{who}.* has no possible value.*density of z or"
    for use in (conditional.logits, lambda s: conditional.sample(jax.random.key(0), s)):
        with pytest.raises(gb.GibbsiteError, match=told):
            use(state)
    many = jax.vmap(lambda k: conditional.sample(k, state))(jax.random.split(jax.random.key(0), 2))
    assert many.shape == (2, 3)
