"""Elements that come out of others and go into them, along axes of plates, of vectors and of weights: moves
leave the prior as it is, and structures have their probabilities."""

import itertools

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.density.model.alone import handlers_alone
from gibbsite.programs.passes.for_cpu import jitted
from gibbsite.structure.automaton import Inside, Loop
from gibbsite.structure.moves import splitting
from gibbsite.structure.moves.splitting import Splitting
from numpyro import plate, sample
from scipy import stats
from scipy.special import gammaln, logsumexp

SHARES = np.array([0.4, 0.35, 0.25])


def prior(sites):
    """One to three elements; data that say next to nothing, and that nothing can be integrated out of."""
    count = sample("K", dist.Categorical(probs=SHARES)) + 1
    total = 0.0
    with plate("k", count):
        if "mu" in sites:
            total += sample("mu", dist.Normal(1.0, 2.0)).sum()
        if "tau" in sites:
            total += sample("tau", dist.Gamma(2.0, 1.5)).sum()
    if "h" in sites:
        total += sample("h", dist.Uniform(-2.0, 3.0).expand([count]).to_event(1)).sum()
    if "w" in sites:
        total += (sample("w", dist.Dirichlet(1.5 + jnp.arange(count))) ** 3).sum()
    if "rows" in sites:
        total += (sample("rows", dist.Dirichlet(jnp.full(count, 2.0)).expand([count]).to_event(1)) ** 3).sum()
    sample("y", dist.Normal(jnp.sin(total), 3000.0), obs=0.0)


DRAWN = {
    "mu": lambda r, k, n: r.normal(1, 2, (n, k)),
    "tau": lambda r, k, n: r.gamma(2, 1 / 1.5, (n, k)),
    "h": lambda r, k, n: r.uniform(-2, 3, (n, k)),
    "w": lambda r, k, n: r.dirichlet(1.5 + np.arange(k), n),
    "rows": lambda r, k, n: r.dirichlet(np.full(k, 2.0), (n, k)),
}


def features(count: np.ndarray, z: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What is compared: moments of elements in each structure, and products of two."""
    out = {}
    for k in (1, 2, 3):
        there = count == k
        out[f"P({k})"] = there * 1.0
        flat = {}
        for name in sorted(z):
            v = z[name]
            own = v[:, :k, :k] if v.ndim == 3 else v[:, :k]
            flat.update({f"{name}{i}": x for i, x in enumerate(own.reshape(len(v), -1).T)})
        for a, b in itertools.combinations_with_replacement(flat, 2):
            out[f"{k}: {a} {b}"] = there * flat[a] * flat[b]
        out.update({f"{k}: {a}": there * x for a, x in flat.items()})
        out.update(
            {f"{k}: log {a}": there * np.log(np.where(there, x, 1.0)) for a, x in flat.items() if "w" in a}
        )
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sites", "share"),
    [
        pytest.param("mu w", 0.7, id="plates and weights"),
        pytest.param("mu tau", 0.9, id="plates", marks=pytest.mark.slow),
        pytest.param("mu tau h w rows", 0.5, id="all", marks=pytest.mark.slow),
        pytest.param("h w", 0.0, id="births", marks=pytest.mark.slow),
        pytest.param("tau", 1.0, id="shares", marks=pytest.mark.slow),
    ],
)
def test_moves_leave_the_prior_as_it_is(sites, share, monkeypatch):
    """Many draws from it, each moved once: paired differences of what is said of them vanish."""
    monkeypatch.setattr(splitting, "SPLITS", share)
    names = sites.split()
    n = 300_000 if len(names) != 2 else 100_000
    structured = gibbsite.model(prior, names).structured
    known = [structured.straight((("K", k),)) for k in range(3)]
    assert all(set(s.left) == set(names) for s in known)
    for s in known:
        s.looked_at()
    loop = Loop(structured.ways, known)
    monkeypatch.setattr(loop, "_sweep", lambda i, key, z, inputs: (z, jnp.zeros((), bool)))
    rng = np.random.default_rng(5)
    index = rng.choice(3, size=n, p=SHARES).astype(np.int32)
    z = {name: np.zeros((n, *room.shape), room.dtype) for name, room in loop.latents.items()}
    for k, name in itertools.product((1, 2, 3), names):
        own = DRAWN[name](rng, k, int((index == k - 1).sum()))
        z[name][(index == k - 1, *(slice(k),) * (own.ndim - 1))] = own

    def moved(key, i, z):
        no, zero = jnp.zeros((), bool), jnp.zeros(())
        out = loop.step(Inside(i, z, key, zero, no, no, jnp.zeros((), jnp.uint32)), [None] * 3)
        return out.index, out.z

    with handlers_alone:
        to, there = jitted(jax.vmap(moved))(jax.random.split(jax.random.key(3), n), index, z)
    to, there = np.asarray(to), {name: np.asarray(v) for name, v in there.items()}
    assert (to != index).mean() > 0.15
    before, after = features(index + 1, z), features(to + 1, there)
    worst = {}
    for name, b in before.items():
        change = (after[name] - b).astype(float)
        error = change.std() / np.sqrt(n) + 1e-6
        worst[name] = abs(change.mean()) / error
    assert max(worst.values()) < 4.2, sorted(worst.items(), key=lambda x: -x[1])[:5]


@pytest.mark.slow
@pytest.mark.parametrize("sites", ["mu tau h w", pytest.param("tau", marks=pytest.mark.slow)])
def test_what_comes_out_of_one_goes_into_it(sites, monkeypatch):
    """The two that one makes make that one again, at the same cost."""
    monkeypatch.setattr(splitting, "SPLITS", 1.0)
    straight = gibbsite.model(prior, sites.split()).structured.straight((("K", 2),))
    kept, lots = jnp.array([True, False, True]), jnp.array([9, 1, 3], jnp.uint32)  # 1 is new, out of 2
    axes = {n: [splitting.along_of(kept, lots)] for n in straight.left}
    whole = {
        "mu": jnp.array([0.3, 0.0, -1.2]),
        "tau": jnp.array([0.5, 1.0, 2.5]),
        "h": jnp.array([1.0, 0.0, 2.2]),
        "w": jnp.array([0.3, 0.0, 0.7]),
    }
    whole = {n: whole[n] for n in straight.left}

    def moved(key, values, draw):
        of_move, fresh = jax.random.split(key)
        s = Splitting(of_move, straight.left, straight.widths, axes, values, jnp.asarray(draw), fresh)
        return {n: s.element(n, values[n]) for n in values}

    for key in jax.random.split(jax.random.key(0), 8):
        come = moved(key, whole, True)
        gone = moved(key, {n: two for n, (two, _, _) in come.items()}, False)
        for n, (two, _, cost) in come.items():
            assert not np.allclose(two[1], two[2]) and two[0] == whole[n][0]
            np.testing.assert_allclose(gone[n][1][kept], whole[n][kept], rtol=2e-5)
            np.testing.assert_allclose(gone[n][2], cost, rtol=2e-3, atol=2e-3)


Y = np.array([-1.48, -1.16, -1.02, 0.51, 0.78])


def mixture(y):
    """One to three components, as people write them: vectors and weights."""
    count = sample("K", dist.Categorical(probs=SHARES)) + 1
    w = sample("w", dist.Dirichlet(jnp.ones(count)))
    mu = sample("mu", dist.Normal(0.0, 1.0).expand([count]).to_event(1))
    with plate("n", len(y)):
        z = sample("z", dist.Categorical(w))
        sample("y", dist.StudentT(30.0, mu[z], 0.5), obs=y)


def evidence(k: int) -> float:
    """The log of the sum over all labellings, each location on a grid."""
    grid = np.linspace(-6, 6, 1201)
    each = stats.t.logpdf(Y[:, None], 30, grid, 0.5)
    prior_here = stats.norm.logpdf(grid) + np.log(grid[1] - grid[0])
    found = []
    for labels in itertools.product(range(k), repeat=len(Y)):
        sizes = np.bincount(labels, minlength=k)
        total = gammaln(k) + gammaln(sizes + 1).sum() - gammaln(len(Y) + k)
        for j in range(k):
            total += logsumexp(prior_here + each[np.array(labels) == j].sum(axis=0))
        found.append(total)
    return float(logsumexp(found))


@pytest.mark.slow
def test_numbers_of_components_written_as_vectors():
    logs = np.log(SHARES) + np.array([evidence(k) for k in (1, 2, 3)])
    exact = np.exp(logs - logsumexp(logs))
    run = gibbsite.model(mixture, Y).sample(draws=8000, warmup=500, chains=2, seed=5)
    for s in run.structures:
        assert abs(s.probability - exact[s.given["K"]]) < 4 * s.error, (s, exact)
    w, k = run.draws["w"], run.draws["K"]
    assert np.allclose(np.nansum(w, axis=-1), 1.0, atol=1e-5)
    assert np.isnan(w[k == 1][:, 2]).all() and np.isfinite(w[k == 1][:, :2]).all()


def conversions():
    """One rate for both, or two: of a million trials each."""
    two, p = sample("two", dist.Bernoulli(0.5)), sample("p", dist.Beta(1.0, 1.0))
    q = sample("q", dist.Beta(1.0, 1.0)) if two else p
    sample("a", dist.Binomial(1_000_000, p), obs=50_000)
    sample("b", dist.Binomial(1_200_000, q), obs=60_900)


@pytest.mark.slow
def test_structures_of_large_counts_have_their_constants():
    def log_beta(a, b):
        return gammaln(a + 1) + gammaln(b + 1) - gammaln(a + b + 2)

    a, b = (50_000, 950_000), (60_900, 1_139_100)
    odds = np.exp(log_beta(*a) + log_beta(*b) - log_beta(a[0] + b[0], a[1] + b[1]))
    run = gibbsite.model(conversions).sample(draws=4000, warmup=100, chains=2, seed=0)
    found = run.structures["two = 1"]
    assert abs(found.probability - odds / (1 + odds)) < 4 * found.error + 1e-4
