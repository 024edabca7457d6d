"""Posteriors with several modes: how often runs are right, told as not converged, or silently wrong.

    python benchmarks/modes.py                 # 20 seeds of every target
    python benchmarks/modes.py --seeds 2 --draws 200 --targets mirrored

Every target has an exact share of its mass on one side. A run is right where its share is within `WITHIN`
of that, told where its verdict is not "converged", or names modes of the same weight that no chain visited
(of NumPyro and nutpie: R-hat above 1.01, or fewer than 400 effective draws), and silently wrong where neither
holds. The defaults, `Tempered(NUTS …)`, and the NUTS of NumPyro and of nutpie where that can be imported.
"""

import argparse
from collections import Counter

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from default_sides import by_nutpie, nutpie
from gibbsite.diagnostics.measures.convergence import scalar_stat
from modes_of_data import OF_DATA
from numpyro.infer import MCMC, NUTS
from scipy import stats

WITHIN = 0.15
HERE = np.random.default_rng(0)


def mirrored():
    """x and −x in three numbers."""
    x = numpyro.sample("x", dist.Normal(0, 3.0).expand([3]))
    numpyro.sample("y", dist.Normal(jnp.abs(x.sum()), 0.3), obs=4.0)


def two_widths():
    """Sd .02 and 1 in ten numbers, 10 % and 90 %."""
    parts = dist.Normal(jnp.array([-2.0, 2.0]), 0.3)
    s = numpyro.sample("s", dist.MixtureSameFamily(dist.Categorical(jnp.array([0.1, 0.9])), parts))
    with numpyro.plate("n", 10):
        x = numpyro.sample("x", dist.Normal(0, 100.0))
        numpyro.sample("y", dist.Normal(x, jnp.exp(2 * jnp.tanh(2 * s) - 2)), obs=TEN)


TEN = HERE.normal(0, 1, 10).astype(np.float32)
MIXED = np.r_[HERE.normal(-2, 1, 20), HERE.normal(2, 1, 20)].astype(np.float32)


def labels():
    """Two components whose labels may be exchanged."""
    w = numpyro.sample("w", dist.Beta(2.0, 2.0))
    mu = numpyro.sample("mu", dist.Normal(0, 5.0).expand([2]))
    with numpyro.plate("n", len(MIXED)):
        z = numpyro.sample("z", dist.Bernoulli(w))
        numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=MIXED)


def banana():
    """One mode, bent: half of it on either side."""
    a = numpyro.sample("a", dist.Normal(0, 2.0))
    numpyro.sample("b", dist.Normal(a**2, 0.2))
    numpyro.sample("y", dist.Normal(a, 10.0), obs=0.0)


def grid():
    """25 normals in two numbers: two fifths on the left."""
    at = jnp.stack(jnp.meshgrid(jnp.arange(5.0), jnp.arange(5.0)), -1).reshape(25, 2) * 5 - 10
    parts = dist.Normal(at, 0.3).to_event(1)
    x = numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(jnp.ones(25) / 25), parts))
    numpyro.sample("y", dist.Normal(x.sum(), 1000.0), obs=0.0)


ROOT = HERE.normal(size=(50, 1))
COLUMNS = (ROOT + 0.1 * HERE.normal(size=(50, 10))).astype(np.float32)
ANSWER = (COLUMNS[:, 0] + 0.5 * HERE.normal(size=50)).astype(np.float32)


def spikes():
    """Ten columns that are nearly the same, of which few count: a spike of sd .05 or a slab of 1."""
    parts = dist.Normal(0.0, jnp.array([0.05, 1.0]))
    which = dist.Categorical(jnp.array([0.8, 0.2]))
    b = numpyro.sample("b", dist.MixtureSameFamily(which, parts).expand([10]))
    numpyro.sample("y", dist.Normal(COLUMNS @ b, 0.5), obs=ANSWER)


def product():
    """Two quadrants, bent like hyperbolas."""
    a = numpyro.sample("a", dist.Normal(0, 3.0))
    b = numpyro.sample("b", dist.Normal(0, 3.0))
    numpyro.sample("y", dist.Normal(a * b, 0.3), obs=3.0)


FAR = np.float32([-6.2, -6.0, -5.7, 5.6, 5.9, 6.1, 6.4])


def far_data():
    """A Cauchy's location among data in two places."""
    m = numpyro.sample("m", dist.Normal(0, 10.0))
    with numpyro.plate("n", len(FAR)):
        numpyro.sample("y", dist.Cauchy(m, 0.5), obs=FAR)


def far_share():
    """P(m < 0), by quadrature."""
    m = np.linspace(-60, 60, 120_001)
    p = stats.norm.pdf(m, 0, 10) * stats.cauchy.pdf(FAR.astype(float)[:, None], m, 0.5).prod(0)
    return float(p[m < 0].sum() / p.sum())


def two_far():
    """Two normals of different width in ten numbers, one third and two thirds, twenty apart."""
    at, sd = jnp.array([[-3.0] * 10, [3.0] * 10]), jnp.array([[0.5], [1.0]])
    parts = dist.Normal(at, sd).to_event(1)
    x = numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(jnp.array([1.0, 2.0]) / 3), parts))
    numpyro.sample("y", dist.Normal(x.sum(), 1000.0), obs=0.0)


def spike_share():
    """P(b[0] < .25), by summing over all 1024 choices and drawing exactly given each."""
    rng, n = np.random.default_rng(1), 4000
    x, y = COLUMNS.astype(float), ANSWER.astype(float)
    logs, means, factors = [], [], []
    for bits in range(1024):
        slab = np.array([(bits >> k) & 1 for k in range(10)])
        sd = np.where(slab, 1.0, 0.05)
        precision = np.diag(1 / sd**2) + x.T @ x / 0.25
        mean = np.linalg.solve(precision, x.T @ y / 0.25)
        log = 0.5 * mean @ precision @ mean - 0.5 * np.linalg.slogdet(precision)[1] - np.log(sd).sum()
        logs.append(log + (np.where(slab, np.log(0.2), np.log(0.8))).sum())
        means.append(mean[0])
        factors.append(np.sqrt(np.linalg.inv(precision)[0, 0]))
    p = np.exp(np.array(logs) - np.max(logs))
    k = rng.choice(1024, n, p=p / p.sum())
    return float((np.array(means)[k] + np.array(factors)[k] * rng.standard_normal(n) < 0.25).mean())


def left(name, at=0.0):
    def share(draws):
        x = np.asarray(draws[name])
        return (x if x.ndim == 2 else x.reshape(*x.shape[:2], -1)[..., 0]) < at

    return share


TARGETS = {
    "mirrored": (mirrored, lambda d: np.asarray(d["x"]).sum(-1) < 0, 0.5, None),
    "two widths": (two_widths, left("s"), 0.1, None),
    "two widths, init=": (two_widths, left("s"), 0.1, {"s": np.float32([-2, -2, 2, 2])}),
    "switched labels": (
        labels,
        lambda d: np.asarray(d["mu"])[..., 0] < np.asarray(d["mu"])[..., 1],
        0.5,
        None,
    ),
    "banana": (banana, left("a"), 0.5, None),
    "25 normals": (grid, left("x", -2.5), 0.4, None),
    "spike and slab": (spikes, left("b", 0.25), spike_share, None),
    "a product": (product, left("a"), 0.5, None),
    "far data": (far_data, left("m"), far_share, None),
    "two in ten numbers": (two_far, left("x"), 1 / 3, None),
    **OF_DATA,
}


def tempered(model):
    """The schedule of one tempered block, labels summed out."""
    density = model.density
    gone = [n for n in density.latents if density.sites[n].discrete]
    rest = [n for n in density.latents if n not in gone]
    return (f"Eliminate [{' '.join(gone)}] > " if gone else "") + f"Tempered(NUTS [{' '.join(rest)}])"


def ours(model, share, exact, draws, seed, init, schedule):
    run = model.sample(draws=draws, seed=seed, init=init, schedule=schedule)
    unvisited = any(n.topic == "renamed" for n in run.snapshot(limit=1).warnings)
    return outcome(np.mean(share(run.draws)), exact, run.verdict.ok and not unvisited)


def by_numpyro(fn, draws):
    """NumPyro's NUTS at its defaults: from a seed to its own object and the draws `[chain, draw, …]`."""
    mcmc = MCMC(
        NUTS(fn), num_warmup=1000, num_samples=draws, num_chains=4,
        chain_method="vectorized", progress_bar=False,
    )  # fmt: skip

    def drawn(seed):
        mcmc.run(jax.random.key(seed))
        return mcmc, mcmc.get_samples(group_by_chain=True)

    return drawn


def judged(draws, share, exact):
    """What one would be told who looks at R-hat and effective draws of every number."""
    draws = {n: np.asarray(v) for n, v in draws.items()}
    flat = {n: v.reshape(*v.shape[:2], -1) for n, v in draws.items()}
    each = [scalar_stat(n, n, (), v[..., k]) for n, v in flat.items() for k in range(v.shape[-1])]
    ok = all(s.rhat <= 1.01 and s.ess_bulk >= 400 for s in each)
    return outcome(np.mean(share(draws)), exact, ok)


def outcome(found, exact, ok):
    if abs(found - exact) <= WITHIN:
        return "right" if ok else "right, told"
    return "SILENTLY WRONG" if ok else "told"


def summed_out(fn):
    """NumPyro's own form of the mixture: it has no Gibbs step for labels by default."""
    if fn is not labels:
        return fn

    def marginal():
        w = numpyro.sample("w", dist.Beta(2.0, 2.0))
        mu = numpyro.sample("mu", dist.Normal(0, 5.0).expand([2]))
        which = dist.Categorical(jnp.array([1 - w, w]))
        with numpyro.plate("n", len(MIXED)):
            numpyro.sample("y", dist.MixtureSameFamily(which, dist.Normal(mu, 1.0)), obs=MIXED)

    return marginal


def main():
    """Print a row for every target and way of sampling."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--targets", nargs="*", default=list(TARGETS))
    parser.add_argument("--ways", nargs="*", default=["default", "Tempered", "NumPyro", "nutpie"])
    asked = parser.parse_args()
    print("| target | exact | way | seeds | right | right, told | told | silently wrong |", flush=True)
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in asked.targets:
        fn, share, exact, init = TARGETS[name]
        exact = exact() if callable(exact) else exact
        model = gb.model(fn)
        for way in asked.ways:
            found = Counter()
            others = way in ("NumPyro", "nutpie")
            if (others and init is not None) or (way == "nutpie" and nutpie is None):
                continue
            if others:
                plain = summed_out(fn)
                drawn = by_numpyro(plain, asked.draws) if way == "NumPyro" else by_nutpie(plain)
            for seed in range(asked.seeds):
                if others:
                    found[judged(drawn(seed)[-1], share, exact)] += 1
                else:
                    schedule = tempered(model) if way == "Tempered" else None
                    found[ours(model, share, exact, asked.draws, seed, init, schedule)] += 1
            counts = [str(found[k]) for k in ("right", "right, told", "told", "SILENTLY WRONG")]
            print(f"| {name} | {exact:.2f} | {way} | {asked.seeds} | {' | '.join(counts)} |", flush=True)


if __name__ == "__main__":
    main()
