"""Numbers of change points and of components, by chains between structures and by reversible jumps by hand.

    python benchmarks/structures.py coal|neal|galaxies|dpmm [draws]
    python benchmarks/structures.py many [known ...]

`coal`: accidents in British coal mines by year (Jarrett 1979), an unknown number of steps in the rate (after
Green 1995), beside the exact answer: a sum over all segmentations (Fearnhead 2006). `neal`: Neal's nine
points (2000) and any number of components, beside the sum over all partitions. `galaxies`: velocities in
1000 km/s with the priors of Richardson and Green (1997), beside their table 1. Coal
and mixtures beside a reversible jump written for that one model. `dpmm`: a Dirichlet process's mixture (after
Escobar and West 1995) of the galaxies, whose stick is broken 30 times, beside a collapsed sampler of all
partitions: clusters in use; no structure changes. `many`: compiling, memory and time of a draw
as more structures are known. Seconds are of the processor; effective draws are p (1 - p) / error², the least
over structures of 5 % and more.
"""

import resource
import sys
import time
from functools import partial
from math import comb, factorial, perm

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from gibbsite.structure.found import indicator
from jax import lax, random
from jax.scipy.special import gammaln, logsumexp
from numpyro import plate, sample

COAL = np.array([int(c) for c in (
    "4541043406334026335453144155342522342132211113001011003103220111010100021000110233112111124200014000100"
    "000100101")])  # fmt: skip
GALAXIES = np.array([
    9172, 9350, 9483, 9558, 9775, 10227, 10406, 16084, 16170, 18419, 18552, 18600, 18927, 19052, 19070, 19330,
    19343, 19349, 19440, 19473, 19529, 19541, 19547, 19663, 19846, 19856, 19863, 19914, 19918, 19973, 19989,
    20166, 20175, 20179, 20196, 20215, 20221, 20415, 20629, 20795, 20821, 20846, 20875, 20986, 21137, 21492,
    21701, 21814, 21921, 21960, 22185, 22209, 22242, 22249, 22314, 22374, 22495, 22746, 22747, 22888, 22914,
    23206, 23241, 23263, 23484, 23538, 23542, 23666, 23706, 23711, 24129, 24285, 24289, 24366, 24717, 24990,
    25633, 26960, 26995, 32065, 32789, 34279]) / 1000  # fmt: skip
NEAL = np.array([-1.48, -1.40, -1.16, -1.08, -1.02, 0.14, 0.51, 0.53, 0.78])
PUBLISHED = dict(enumerate((0.061, 0.128, 0.182, 0.199, 0.160, 0.109, 0.071, 0.040, 0.023, 0.013), 3))
NOISE = 0.3  # of Neal's points
STEPS, SHAPE, RATE, MOST = 3.0, 1.0, 0.55, 30  # rates of Gamma(1, .55): 1.8 a year, as Green's


def coal(y):
    n, segment = len(y), np.zeros(len(y), int)
    k = sample("k", dist.Poisson(STEPS))
    if k:
        with plate("changes", k):
            at = sample("at", dist.DiscreteUniform(1, n - 1))
        segment = (at <= jnp.arange(n)[:, None]).sum(axis=1)
    with plate("segments", k + 1):
        rate = sample("rate", dist.Gamma(SHAPE, RATE))
    with plate("years", n):
        sample("y", dist.Poisson(rate[segment]), obs=y)


def mixture(y):
    span, middle = y.max() - y.min(), (y.max() + y.min()) / 2
    K = sample("K", dist.DiscreteUniform(1, MOST))
    beta = sample("beta", dist.Gamma(0.2, 10 / span**2))
    with plate("components", K):
        mu = sample("mu", dist.Normal(middle, span))
        tau = sample("tau", dist.Gamma(2.0, beta))
        g = sample("g", dist.Gamma(1.0, 1.0))
    with plate("n", len(y)):
        z = sample("z", dist.Categorical(g / g.sum()))
        sample("y", dist.Normal(mu[z], tau[z] ** -0.5), obs=y)


def neal(y):
    K = sample("K", dist.Poisson(2.0)) + 1
    with plate("components", K):
        mu = sample("mu", dist.Normal(0.0, 1.0))
        g = sample("g", dist.Gamma(1.0, 1.0))
    with plate("n", len(y)):
        z = sample("z", dist.Categorical(g / g.sum()))
        sample("y", dist.Normal(mu[z], NOISE), obs=y)


def neal_exactly(y, most=20):
    """P(K | y), K from 1: partitions of the points into t clusters, weighed by their evidences. The cluster
    of the first point that is left is any subset of the rest."""
    n = len(y)
    weight = np.zeros(1 << n)
    for mask in range(1, 1 << n):
        mine = y[[i for i in range(n) if mask >> i & 1]]
        cov = NOISE**2 * np.eye(len(mine)) + 1.0
        log = -0.5 * (np.linalg.slogdet(2 * np.pi * cov)[1] + mine @ np.linalg.solve(cov, mine))
        weight[mask] = factorial(len(mine)) * np.exp(log)
    ways = np.zeros((n + 1, 1 << n))
    ways[0, 0] = 1.0
    for mask in range(1, 1 << n):
        first = mask & -mask
        rest = part = mask ^ first
        while True:
            ways[1:, mask] += weight[first | part] * ways[:-1, mask ^ first ^ part]
            if not part:
                break
            part = (part - 1) & rest
    # the prior's 1 / (K - 1)! and the weights' (K - 1)! / (K + n - 1)!, of which the first cancels
    found = [
        2.0 ** (K - 1) / factorial(K + n - 1) * sum(perm(K, t) * ways[t, -1] for t in range(1, min(K, n) + 1))
        for K in range(1, most + 1)
    ]
    return np.array([0.0, *found]) / sum(found)


def segment_evidence(total, length):
    """The log evidence of counts of one rate, less the factorials of the counts."""
    shape = SHAPE + total
    return SHAPE * np.log(RATE) - gammaln(SHAPE) + gammaln(shape) - shape * jnp.log(RATE + length)


def coal_exactly(y, most=12):
    """P(k | y). Of k changes, which may fall together, as many hit d places as there are surjections."""
    n, before = len(y), np.concatenate([[0], np.cumsum(y)])
    i, j = np.arange(n + 1)[:, None], np.arange(n + 1)
    one = np.asarray(segment_evidence(np.maximum(before[j] - before[i], 0), np.maximum(j - i, 1)), np.float64)
    one = np.where(i < j, one, -np.inf)
    front, distinct = one[0], [one[0, n]]
    for _ in range(most):
        front = np.logaddexp.reduce(front[:, None] + one, axis=0)
        distinct.append(front[n])
    logs = []
    for k in range(most + 1):
        onto = [sum((-1) ** i * comb(d, i) * (d - i) ** k for i in range(d + 1)) for d in range(k + 1)]
        each = [distinct[d] + np.log(onto[d]) - k * np.log(n - 1) for d in range(k + 1) if onto[d]]
        logs.append(k * np.log(STEPS) - float(gammaln(k + 1.0)) + np.logaddexp.reduce(each))
    return np.exp(np.array(logs) - np.logaddexp.reduce(logs))


def coal_by_hand(y, steps, key):
    """Birth, death and move of one change, rates integrated out: `k` after each step."""
    n, before = len(y), jnp.concatenate([jnp.zeros(1), jnp.cumsum(jnp.asarray(y, float))])

    def evidence(at, k):
        edges = jnp.sort(jnp.where(jnp.arange(MOST) < k, at, n))
        edges = jnp.concatenate([jnp.zeros(1, int), edges, jnp.full(1, n)])
        length = edges[1:] - edges[:-1]
        return jnp.where(
            length > 0, segment_evidence(before[edges[1:]] - before[edges[:-1]], length), 0.0
        ).sum()

    def step(carry, key):
        at, k, level = carry
        kind, which, where, accept = random.split(key, 4)
        kind = random.randint(kind, (), 0, 3)  # birth, death, move
        one = jnp.floor(random.uniform(which) * jnp.maximum(k, 1)).astype(int)
        new = random.randint(where, (), 1, n)
        born, moved = at.at[k].set(new), at.at[one].set(new)
        dead = at.at[one].set(at[k - 1])
        to, size = jnp.stack([born, dead, moved])[kind], k + jnp.array([1, -1, 0])[kind]
        prior = jnp.stack([jnp.log(STEPS / (k + 1)), jnp.log(jnp.maximum(k, 1) / STEPS), 0.0])[kind]
        there = evidence(to, size)
        fits = (size >= 0) & (size < MOST) & ((kind != 2) | (k > 0))
        taken = fits & (jnp.log(random.uniform(accept)) < there - level + prior)
        carry = jax.tree.map(partial(jnp.where, taken), (to, size, there), carry)
        return carry, carry[1]

    start = jnp.ones(MOST, int), jnp.zeros((), int), evidence(jnp.ones(MOST, int), 0)
    return lax.scan(step, start, random.split(key, steps))[1]


def mixture_by_hand(y, steps, key):
    """Conjugate sweeps on padded plates, then birth or death of a component, labels summed out: `K` after
    each step."""
    y, here = jnp.asarray(y), jnp.arange(MOST)
    span, middle = y.max() - y.min(), (y.max() + y.min()) / 2

    def terms(mu, tau, g, K):
        log_w = jnp.where(here < K, jnp.log(g), -jnp.inf)
        normal = 0.5 * jnp.log(tau) - 0.5 * tau * (y[:, None] - mu) ** 2
        return normal + log_w - logsumexp(log_w)

    def step(carry, key):
        mu, tau, g, beta, K = carry
        keys = random.split(key, 9)
        z = random.categorical(keys[0], terms(mu, tau, g, K))
        mine = jax.nn.one_hot(z, MOST)
        count = mine.sum(axis=0)
        precision = count * tau + span**-2
        mean = (tau * (mine.T @ y) + middle * span**-2) / precision
        mu = mean + random.normal(keys[1], (MOST,)) / jnp.sqrt(precision)
        squares = (mine * (y[:, None] - mu) ** 2).sum(axis=0)
        tau = random.gamma(keys[2], 2.0 + count / 2) / (beta + squares / 2)
        # weights given labels are Dirichlet, their total is Gamma(K) whatever they are
        shares = jnp.where(here < K, random.gamma(keys[3], 1.0 + count), 0.0)
        g = shares / shares.sum() * random.gamma(keys[4], K.astype(float))
        beta = random.gamma(keys[5], 0.2 + 2.0 * K) / (10 / span**2 + jnp.where(here < K, tau, 0.0).sum())
        birth = random.bernoulli(keys[6])
        one = jnp.floor(random.uniform(keys[7]) * K).astype(int)
        a, b, c, d = random.split(keys[8], 4)
        fresh = middle + span * random.normal(a), random.gamma(b, 2.0) / beta, random.exponential(c)
        born = [v.at[K].set(x) for v, x in zip((mu, tau, g), fresh, strict=True)]
        dead = [v.at[one].set(v[K - 1]) for v in (mu, tau, g)]
        to = [jnp.where(birth, p, q) for p, q in zip(born, dead, strict=True)]
        size = jnp.where(birth, K + 1, K - 1)
        level, there = (logsumexp(terms(*at), axis=1).sum() for at in ((mu, tau, g, K), (*to, size)))
        taken = (size >= 1) & (size <= MOST) & (jnp.log(random.uniform(d)) < there - level)
        mu, tau, g = (jnp.where(taken, p, q) for p, q in zip(to, (mu, tau, g), strict=True))
        K = jnp.where(taken, size, K)
        return (mu, tau, g, beta, K), K

    start = (
        jnp.linspace(y.min(), y.max(), MOST),
        jnp.ones(MOST),
        jnp.ones(MOST),
        jnp.ones(()),
        jnp.full((), 6),
    )
    return lax.scan(step, start, random.split(key, steps))[1]


def dpmm(y, sticks=30):
    alpha = sample("alpha", dist.Gamma(2.0, 4.0))
    with plate("breaks", sticks - 1):
        v = sample("v", dist.Beta(1.0, alpha))
    with plate("components", sticks):
        tau = sample("tau", dist.Gamma(2.0, 1.0))
        mu = sample("mu", dist.Normal(20.0, 5.0 / jnp.sqrt(tau)))
    w = jnp.concatenate([v, jnp.ones(1)]) * jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - v)])
    with plate("n", len(y)):
        z = sample("z", dist.Categorical(w))
        sample("y", dist.Normal(mu[z], tau[z] ** -0.5), obs=y)


def dpmm_by_hand(y, sweeps, seed=0):
    """Each point's cluster given all others, means and precisions integrated out; then the concentration by
    Escobar and West's auxiliary variable: the number of clusters after each sweep."""
    rng, n = np.random.default_rng(seed), len(y)
    label, alpha, numbers = np.zeros(n, int), 1.0, []
    size, total, squares = np.zeros(n), np.zeros(n), np.zeros(n)
    size[0], total[0], squares[0] = n, (y - 20).sum(), ((y - 20) ** 2).sum()
    half = np.arange(n + 1) / 2
    constant = np.asarray(gammaln(2.5 + half) - gammaln(2.0 + half), np.float64)
    for _ in range(sweeps):
        for i in range(n):
            x, k = y[i] - 20, label[i]
            size[k], total[k], squares[k] = size[k] - 1, total[k] - x, squares[k] - x * x
            used = np.flatnonzero(size)
            seen = np.append(used, np.flatnonzero(size == 0)[0])
            m, s, q = size[seen], total[seen], squares[seen]
            m, s, q = (np.where(m == 0, 0.0, v) for v in (m, s, q))
            # Student's: mean given precision is Normal(20, 25 / precision), precision Gamma(2, 1)
            share = 1 / 25 + m
            rate = 1 + (q - s * s / share) / 2
            wide = rate * (1 + 1 / share)
            log = np.log(np.where(m == 0, alpha, m)) + constant[m.astype(int)] - 0.5 * np.log(2 * wide)
            log -= (2.5 + m / 2) * np.log1p((x - s / share) ** 2 / (2 * wide))
            p = np.exp(log - log.max())
            k = label[i] = seen[min(np.searchsorted(np.cumsum(p), rng.random() * p.sum()), len(p) - 1)]
            if size[k] == 0:
                total[k] = squares[k] = 0.0
            size[k], total[k], squares[k] = size[k] + 1, total[k] + x, squares[k] + x * x
        number = np.count_nonzero(size)
        log_eta = np.log(rng.beta(alpha + 1, n))
        odds = (2.0 + number - 1) / (n * (4.0 - log_eta))
        more = rng.random() < odds / (1 + odds)
        alpha = rng.gamma(2.0 + number - 1 + more) / (4.0 - log_eta)
        numbers.append(number)
    return np.array(numbers)


def told(name, sizes, seconds, exact=None):
    """A row per sampler, of the number `[chain, draw]` after each step."""
    found, least = [], np.inf
    for k in range(int(sizes.max()) + 1):
        stat = indicator(str(k), sizes == k)
        if (p := (sizes == k).mean()) > 0.0005:
            z = f" ({(p - exact[k]) / stat.mcse:+.1f})" if exact is not None and stat.mcse else ""
            found.append(f"{k}: {p:.4f} ± {stat.mcse:.4f}{z}")
        if p >= 0.05:
            least = min(least, p * (1 - p) / stat.mcse**2)
    changes = (np.diff(sizes, axis=1) != 0).mean()
    each = f"{seconds / sizes.size * 1e6:.0f} µs each, another K in {changes:.3f} of them"
    print(f"{name}: {sizes.size} draws, {each}, {least:.0f} effective, {least / seconds:.0f} a second")
    print(" ", "  ".join(found), flush=True)


def by_hand(fn, y, draws, exact=None):
    run = jax.jit(jax.vmap(lambda key: fn(y, draws + draws // 10, key)))
    keys = random.split(random.key(0), 2)
    jax.block_until_ready(run(keys))
    began = time.process_time()
    sizes = np.asarray(run(keys))[:, draws // 10 :]
    told("by hand", sizes, (time.process_time() - began) / 1.1, exact)


def by_gibbsite(fn, y, name, draws, known, exact=None, schedule=None, more=0):
    began = time.process_time()
    run = gibbsite.model(fn, y).sample(
        draws=50, warmup=500, chains=2, seed=1, structures=[{name: k} for k in known], schedule=schedule
    )
    count = len(run._plan.kernel.known)
    print(
        f"Gibbsite: {time.process_time() - began:.0f} s until {count} structures had learnt and were compiled"
    )
    began = time.process_time()
    run.resume(draws=draws)
    told("Gibbsite", more + np.asarray(run.draws[name], int), time.process_time() - began, exact)
    print(run.verdict)


def many(sizes):
    """A geometric recursion; `count` structures are known at once, and one loop."""

    def tails(x):
        n = 0
        while sample(f"flip[{n}]", dist.Bernoulli(0.08)) == 0:
            n += 1
        mu = sample("mu", dist.Normal(0.0, 2.0))
        sample("x", dist.Normal(0.3 * n + mu, 1.0), obs=x)

    for count in sizes:
        known = [{f"flip[{i}]": int(i == n) for i in range(n + 1)} for n in range(count)]
        began = time.process_time()
        run = gibbsite.model(tails, 3.0).sample(draws=10, warmup=0, chains=1, seed=0, structures=known)
        compiling = time.process_time() - began
        began = time.process_time()
        run.resume(draws=20_000)
        took, peak = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        ended = len(run._plan.kernel.known)
        told = f"{compiling:.0f} s, {took / 0.02:.0f} µs a draw, {peak:.1f} GiB"
        print(f"{count} known, {ended} at the end: {told}", flush=True)


def main(what, *given):
    if what == "many":
        return many([int(n) for n in given] or [5, 20])
    y = {"coal": COAL, "neal": NEAL, "galaxies": GALAXIES, "dpmm": GALAXIES}[what]
    draws = int(given[0]) if given else 20_000
    if what == "coal":
        truth = coal_exactly(y)
        print("exact", "  ".join(f"{k}: {p:.4f}" for k, p in enumerate(truth) if p > 0.0005))
        by_hand(coal_by_hand, y, 10 * draws, truth)
        by_gibbsite(coal, y, "k", draws, range(8), truth)
    elif what == "neal":
        truth = neal_exactly(y)
        print("exact", "  ".join(f"{k}: {p:.4f}" for k, p in enumerate(truth) if p > 0.0005))
        by_gibbsite(neal, y, "K", draws, range(7), truth, more=1)
    elif what == "dpmm":
        began = time.process_time()
        numbers = np.stack([dpmm_by_hand(y, draws // 4, seed)[draws // 40 :] for seed in range(2)])
        told("by hand", numbers, (time.process_time() - began) / 1.1)
        model = gibbsite.model(dpmm, y)
        print(model.schedule())
        run = model.sample(draws=50, warmup=500, chains=2, seed=1)
        began = time.process_time()
        run.resume(draws=draws)
        used = (np.diff(np.sort(run.draws["z"], axis=-1), axis=-1) != 0).sum(axis=-1) + 1
        told("Gibbsite", used, time.process_time() - began)
        print(run.verdict)
    else:
        print("published", "  ".join(f"{k}: {p:.3f}" for k, p in PUBLISHED.items()))
        by_hand(mixture_by_hand, y, 5 * draws)
        rest = "Gibbs z (*) Conjugate beta (*) Conjugate mu (*) Conjugate tau (*) NUTS g"
        known = [k for k, p in PUBLISHED.items() if p > 0.03]
        by_gibbsite(mixture, y, "K", draws, known, schedule=f"Structure K > {rest}")


if __name__ == "__main__":
    main(*sys.argv[1:])
