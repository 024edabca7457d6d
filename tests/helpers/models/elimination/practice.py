"""Small models as people write them in ecology, annotation, genetics and puzzles, whose discrete sites are
summed out: of each another structure than those in `structures` and the zoo."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan

from helpers.models.zoo import Case

RNG = np.random.default_rng(23)
X = RNG.normal(size=6)


def bern(name, p):
    return numpyro.sample(name, dist.Bernoulli(p))


def never(name, condition):
    numpyro.factor(name, jnp.where(condition, -jnp.inf, 0.0))


def leaky_noisy_or(y, parents, there):
    """Findings with ragged lists of causes, padded and masked."""
    q = numpyro.sample("q", dist.Beta(2, 3).expand([len(y)]))
    with numpyro.plate("causes", 5):
        d = bern("d", 0.25)
    off = jnp.prod(jnp.where(there, 1 - q[:, None] * d[parents], 1.0), axis=1)
    numpyro.sample("y", dist.Bernoulli(1 - 0.9 * off), obs=y)


def ring(y):
    """A loop of six, written with `roll`."""
    j = numpyro.sample("j", dist.Normal(0, 1))
    with numpyro.plate("t", len(y)):
        z = bern("z", 0.4)
        numpyro.sample("y", dist.Normal(j * z, 1.0), obs=y)
    numpyro.factor("round", j * (z == jnp.roll(z, 1)))


def potts_grid(y):
    """A grid of three colours: both kinds of neighbours in one expression."""
    j = numpyro.sample("j", dist.Normal(0, 1))
    with numpyro.plate("rows", y.shape[0], dim=-2), numpyro.plate("columns", y.shape[1], dim=-1):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))
        numpyro.sample("y", dist.Normal(1.0 * z, 0.8), obs=y)
    numpyro.factor("alike", j * (jnp.sum(z[1:] == z[:-1]) + jnp.sum(z[:, 1:] == z[:, :-1])))


def second_order_table(y):
    """An order-2 chain through a table of all three values."""
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(2)).expand([2, 2]).to_event(2))
    with numpyro.plate("t", len(y)):
        z = bern("z", 0.5)
        numpyro.sample("y", dist.Normal(2.0 * z, 1.0), obs=y)
    numpyro.factor("steps", jnp.sum(jnp.log(p)[z[:-2], z[1:-1], z[2:]]))


def skip_chain(y):
    """Lags one and three."""
    a, b = (numpyro.sample(n, dist.Normal(0, 1)) for n in "ab")
    with numpyro.plate("t", len(y)):
        z = bern("z", 0.4)
        numpyro.sample("y", dist.Normal(1.0 * z, 1.0), obs=y)
    numpyro.factor("near", a * (z[1:] == z[:-1]))
    numpyro.factor("far", b * z[3:] * z[:-3])


def three_factors(y):
    """A factorial chain of three, observed through their sum."""
    w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))

    def step(before, now):
        out = [bern(n, jnp.array([0.2, 0.7])[b]) for n, b in zip("abc", before, strict=True)]
        numpyro.sample("y", dist.Normal(sum(u * v for u, v in zip(w, out, strict=True)), 1.0), obs=now)
        return tuple(out), None

    scan(step, (0, 0, 1), y)


def plate_of_chains(y):
    """A factorial chain whose chains are a plate, observed through a weighted sum of their states."""
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    on = bern("on", 0.4)

    def step(before, now):
        with numpyro.plate("chains", 2):
            z = bern("z", jnp.array([[0.2, 0.7], [0.4, 0.9]])[jnp.arange(2), before])
        numpyro.sample("y", dist.Normal((w * z).sum() + on, 1.0), obs=now)
        return z, None

    scan(step, jnp.zeros(2, int), y)


def switching_regression(y):
    """A regime that moves, and within it an outlier flag per step; the data feed back on themselves."""
    phi = numpyro.sample("phi", dist.Normal(0, 0.5).expand([2]).to_event(1))

    def step(carry, now):
        regime, before = carry
        regime = bern("regime", jnp.where(regime == 1, 0.9, 0.2))
        odd = bern("odd", 0.1 + 0.2 * regime)
        numpyro.sample("y", dist.Normal(phi[regime] * before, 1.0 + 2.0 * odd), obs=now)
        return (regime, now), None

    scan(step, (0, 0.0), y)


def classes_and_switch(y):
    """Chains of classes under one switch for all: three levels, the lowest of them moving."""
    m = numpyro.sample("m", dist.Normal(0, 1))
    s = bern("s", 0.5)
    with numpyro.plate("chains", y.shape[1]):
        c = bern("c", jnp.where(s == 1, 0.8, 0.3))
        z = bern("start", 0.5)

    def step(before, now):
        with numpyro.plate("chains", y.shape[1]):
            z = bern("z", jnp.where(before == c, 0.7, 0.2))
            numpyro.sample("y", dist.Normal(m * z + s, 1.0), obs=now)
        return z, None

    scan(step, z, y)


def plates_in_plates(y):
    """Pupils in classes in schools, each level read by the next and by the data."""
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("schools", y.shape[0], dim=-3):
        school = numpyro.sample("school", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
        with numpyro.plate("classes", y.shape[1], dim=-2):
            room = bern("room", jnp.array([0.2, 0.5, 0.8])[school])
            with numpyro.plate("pupils", y.shape[2], dim=-1):
                pupil = bern("pupil", 0.3 + 0.4 * room)
                numpyro.sample("y", dist.Normal(mu[school] + room * pupil, 1.0), obs=y)


def gated_parents(y):
    """Which of two causes acts is itself unknown (`cond`)."""
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    which = bern("which", 0.4)
    with numpyro.plate("n", len(y)):
        a, b = bern("a", 0.3), bern("b", 0.6)
        mean = jax.lax.cond(which == 1, lambda: w[0] * a, lambda: w[1] * b)
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def zero_inflated_regression(y, x):
    """Zeros of two kinds, each with its own regression."""
    a = numpyro.sample("a", dist.Normal(0, 1).expand([2]).to_event(1))
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("n", len(y)):
        on = numpyro.sample("on", dist.Bernoulli(logits=a[0] + a[1] * x))
        rate = jnp.exp(b[0] + b[1] * x)
        numpyro.sample("y", dist.NegativeBinomial2(jnp.where(on == 1, rate, 1e-9), 2.0), obs=y)


def multistate(seen):
    """Animals that move between two places and die; capture differs by place (Arnason and Schwarz)."""
    phi = numpyro.sample("phi", dist.Beta(3, 1).expand([2]).to_event(1))
    p = numpyro.sample("p", dist.Beta(1, 1).expand([2]).to_event(1))
    zero = jnp.zeros(())
    moves = jnp.stack(
        [
            jnp.stack([0.7 * phi[0], 0.3 * phi[0], 1 - phi[0]]),
            jnp.stack([0.4 * phi[1], 0.6 * phi[1], 1 - phi[1]]),
            jnp.stack([zero, zero, zero + 1]),
        ]
    )
    shown = jnp.stack(
        [
            jnp.stack([1 - p[0], p[0], zero]),
            jnp.stack([1 - p[1], zero, p[1]]),
            jnp.stack([zero + 1, zero, zero]),
        ]
    )

    def step(before, now):
        with numpyro.plate("animals", seen.shape[1]):
            place = numpyro.sample("place", dist.Categorical(moves[before]))
            numpyro.sample("y", dist.Categorical(shown[place]), obs=now)
        return place, None

    scan(step, jnp.zeros(seen.shape[1], int), seen)


def dynamic_occupancy(y):
    """Patches that are colonised and lost over seasons, visited several times in each."""
    gain, loss, p = (numpyro.sample(n, dist.Beta(1, 1)) for n in ("gain", "loss", "p"))
    psi = numpyro.sample("psi", dist.Beta(1, 1))

    def step(before, now):
        with numpyro.plate("patches", y.shape[1], dim=-2):
            z = bern("z", jnp.where(before < 0, psi, jnp.where(before == 1, 1 - loss, gain)))
            with numpyro.plate("visits", y.shape[2], dim=-1):
                numpyro.sample("y", dist.Bernoulli(p * z), obs=now)
        return z, None

    scan(step, -jnp.ones((y.shape[1], 1), int), y)


def long_votes(item, rater, y):
    """Dawid and Skene's model on a long table: not everybody rates everything."""
    theta = numpyro.sample("theta", dist.Dirichlet(jnp.ones(2)).expand([3, 2]).to_event(2))
    pi = numpyro.sample("pi", dist.Beta(1, 1))
    with numpyro.plate("items", 4):
        z = bern("z", pi)
    with numpyro.plate("votes", len(y)):
        numpyro.sample("y", dist.Categorical(theta[rater, z[item]]), obs=y)


def ordered_scores(y):
    """An ordinal answer whose predictor has a hidden trait of three levels per person."""
    b = numpyro.sample("b", dist.Normal(1, 1))
    with numpyro.plate("people", y.shape[0], dim=-2):
        trait = numpyro.sample("trait", dist.Categorical(jnp.array([0.3, 0.4, 0.3])))
        with numpyro.plate("items", y.shape[1], dim=-1):
            numpyro.sample("y", dist.OrderedLogistic(b * trait, jnp.array([0.0, 1.5])), obs=y)


def ordered_labels(y):
    """Labels that may not decrease: a hard order between neighbours."""
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("t", len(y)):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.4, 0.3, 0.3])))
        numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)
    never("order", jnp.any(z[1:] < z[:-1]))


def largest_of_dice(p0):
    """The largest of three dice is seen, exactly."""
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(4)))
    with numpyro.plate("dice", 3):
        d = numpyro.sample("d", dist.Categorical(p))
    numpyro.sample("seen", dist.Delta(jnp.max(d)), obs=p0)


def past_a_threshold(y):
    """Only whether two counts together pass a bound is seen."""
    rate = numpyro.sample("rate", dist.Beta(2, 2))
    with numpyro.plate("n", len(y)):
        a = numpyro.sample("a", dist.Binomial(3, rate))
        b = numpyro.sample("b", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))
        numpyro.sample("y", dist.Bernoulli(jnp.where(a + b >= 3, 0.95, 0.02)), obs=y)


def ragged_mixture(y, there):
    """Rows of unequal length, padded; the mask says what counts."""
    mu = numpyro.sample("mu", dist.Normal(0, 2).expand([2]).to_event(1))
    with numpyro.plate("rows", y.shape[0], dim=-2):
        z = bern("z", 0.4)
        with numpyro.plate("columns", y.shape[1], dim=-1), numpyro.handlers.mask(mask=there):
            numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)


def ragged_chains(y, lengths):
    """Chains of unequal lengths, masked past their ends."""
    stay = numpyro.sample("stay", dist.Beta(2, 1))

    def step(carry, now):
        before, t = carry
        with numpyro.plate("chains", y.shape[1]), numpyro.handlers.mask(mask=t < lengths):
            z = bern("z", jnp.where(before == 1, stay, 1 - stay))
            numpyro.sample("y", dist.Normal(2.0 * z, 1.0), obs=now)
        return (z, t + 1), None

    scan(step, (jnp.zeros(y.shape[1], int), 0), y)


def xor_rows(y):
    """In every row the exclusive or of two switches is seen."""
    p, q = numpyro.sample("p", dist.Beta(1, 1)), numpyro.sample("q", dist.Beta(2, 1))
    with numpyro.plate("n", len(y)):
        a, b = bern("a", p), bern("b", q)
        numpyro.sample("y", dist.Delta(jnp.bitwise_xor(a, b)), obs=y)


def one_hot_rows(y):
    """Every row has exactly one member that is on."""
    w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("rows", len(y), dim=-2), numpyro.plate("members", 3, dim=-1):
        z = numpyro.sample("z", dist.Bernoulli(logits=w))
    never("one", z.sum(-1) != 1)
    numpyro.sample("y", dist.Normal(z @ jnp.arange(3.0), 1.0), obs=y)


def sums_of_rows(total):
    """Two counts per row of which the data give the sum."""
    p = numpyro.sample("p", dist.Dirichlet(jnp.ones(4)))
    with numpyro.plate("rows", len(total), dim=-2), numpyro.plate("pair", 2, dim=-1):
        d = numpyro.sample("d", dist.Categorical(p))
    numpyro.sample("total", dist.Delta(d.sum(-1)).to_event(1), obs=total)


def seating(y):
    """Three guests on three seats, none shared: a matching."""
    w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    seats = [numpyro.sample(f"seat{i}", dist.Categorical(logits=w)) for i in range(3)]
    never("shared", (seats[0] == seats[1]) | (seats[1] == seats[2]) | (seats[0] == seats[2]))
    numpyro.sample("y", dist.Normal(jnp.stack(seats) * 1.0, 1.0).to_event(1), obs=y)


def two_cuts(y):
    """Two change points in order."""
    level = numpyro.sample("level", dist.Normal(0, 1).expand([3]).to_event(1))
    first, second = (numpyro.sample(n, dist.DiscreteUniform(0, len(y))) for n in ("first", "second"))
    never("order", second < first)
    t = jnp.arange(len(y))
    part = jnp.where(t < first, 0, jnp.where(t < second, 1, 2))
    numpyro.sample("y", dist.Normal(level[part], 1.0).to_event(1), obs=y)


def missing_covariate(y, x, unknown):
    """A binary covariate, missing in some rows, that enters a logistic regression."""
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
    rate = numpyro.sample("rate", dist.Beta(1, 1))
    with numpyro.plate("missing", int(unknown.sum())):
        z = bern("z", rate)
    full = jnp.asarray(x).at[np.flatnonzero(unknown)].set(z)
    numpyro.sample("x", dist.Bernoulli(rate).mask(~unknown), obs=x)
    numpyro.sample("y", dist.Bernoulli(logits=b[0] + b[1] * full), obs=y)


def blocks_of_nodes(links):
    """A stochastic block model: every pair of nodes meets."""
    p = numpyro.sample("p", dist.Beta(1, 1).expand([2, 2]).to_event(2))
    with numpyro.plate("nodes", len(links)):
        z = bern("z", 0.4)
    i, j = np.triu_indices(len(links), 1)
    numpyro.sample("links", dist.Bernoulli(p[z[i], z[j]]).to_event(1), obs=links[i, j])


def counts_of_animals(y):
    """Abundance unknown per place, seen with error (an N-mixture, truncated)."""
    lam, p = numpyro.sample("lam", dist.Gamma(2, 1)), numpyro.sample("p", dist.Beta(1, 1))
    log_prior = jax.nn.log_softmax(
        jnp.arange(6) * jnp.log(lam) - jax.scipy.special.gammaln(jnp.arange(6) + 1.0)
    )
    with numpyro.plate("places", y.shape[0], dim=-2):
        n = numpyro.sample("n", dist.Categorical(logits=log_prior))
        with numpyro.plate("visits", y.shape[1], dim=-1):
            numpyro.sample("y", dist.Binomial(n, p), obs=jnp.asarray(y))


def mixture_of_experts(y, x):
    """One switch for all decides which of two hidden labels counts, each with its own regression."""
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
    gate = bern("gate", 0.4)
    with numpyro.plate("n", len(y)):
        u, v = bern("u", 0.3), numpyro.sample("v", dist.Categorical(jnp.array([0.2, 0.5, 0.3])))
        numpyro.sample("y", dist.Normal(jnp.where(gate == 0, b[0] * u, b[1] * v * x), 1.0), obs=y)


def own_experts(y):
    """In every row another label counts, by a label of its own (`switch` over three)."""
    b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("n", len(y)):
        kind = numpyro.sample("kind", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))
        labels = [bern(name, p) for name, p in (("u", 0.3), ("v", 0.6), ("w", 0.5))]
        mean = jnp.select([kind == i for i in range(3)], [c * z for c, z in zip(b, labels, strict=True)])
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


SEEN = np.array([[0, 1, 2], [1, 0, 0], [2, 0, 1]])
THERE = np.array([[True, True, False], [True, False, False], [True, True, True]])

MORE = {
    "leaky_noisy_or": Case(
        leaky_noisy_or, (np.array([1, 0, 1]), np.array([[0, 1, 0], [2, 0, 0], [1, 3, 4]]), THERE)
    ),
    "ring": Case(ring, (X,)),
    "potts_grid": Case(potts_grid, (RNG.normal(size=(2, 3)),)),
    "second_order_table": Case(second_order_table, (X,)),
    "skip_chain": Case(skip_chain, (X,)),
    "three_factors": Case(three_factors, (X[:3],)),
    "plate_of_chains": Case(plate_of_chains, (X[:4],)),
    "switching_regression": Case(switching_regression, (X[:5],)),
    "classes_and_switch": Case(classes_and_switch, (RNG.normal(size=(3, 2)),)),
    "plates_in_plates": Case(plates_in_plates, (RNG.normal(size=(2, 1, 2)),)),
    "gated_parents": Case(gated_parents, (X[:4],)),
    "zero_inflated_regression": Case(zero_inflated_regression, (np.array([0, 3, 0, 1]), X[:4])),
    "multistate": Case(multistate, (SEEN[:, :2],)),
    "dynamic_occupancy": Case(dynamic_occupancy, (RNG.integers(0, 2, (3, 2, 2)),)),
    "long_votes": Case(
        long_votes,
        (np.array([0, 0, 1, 3, 3, 2, 0]), np.array([0, 1, 1, 2, 0, 2, 2]), np.array([0, 1, 1, 0, 0, 1, 0])),
    ),
    "ordered_scores": Case(ordered_scores, (np.array([[0, 2], [1, 1], [2, 2]]),)),
    "ordered_labels": Case(ordered_labels, (np.sort(X)[:5],)),
    "largest_of_dice": Case(largest_of_dice, (2,)),
    "past_a_threshold": Case(past_a_threshold, (np.array([1, 0, 1]),)),
    "ragged_mixture": Case(ragged_mixture, (RNG.normal(size=(3, 3)), THERE)),
    "ragged_chains": Case(ragged_chains, (RNG.normal(size=(4, 2)), np.array([4, 2]))),
    "xor_rows": Case(xor_rows, (np.array([0, 1, 1]),)),
    "one_hot_rows": Case(one_hot_rows, (np.array([0.3, 1.7]),)),
    "sums_of_rows": Case(sums_of_rows, (np.array([2, 5]),)),
    "seating": Case(seating, (np.array([0.2, 1.5, 1.1]),)),
    "two_cuts": Case(two_cuts, (X,)),
    "mixture_of_experts": Case(mixture_of_experts, (X[:3], X[3:])),
    "own_experts": Case(own_experts, (X[:2],)),
    "missing_covariate": Case(
        missing_covariate,
        (np.array([0, 1, 1, 0]), np.array([1, 0, 0, 1]), np.array([False, True, True, False])),
    ),
    "blocks_of_nodes": Case(blocks_of_nodes, ((RNG.uniform(size=(5, 5)) < 0.4).astype(int),)),
    "counts_of_animals": Case(counts_of_animals, (np.array([[1, 2], [0, 1], [3, 2]]),)),
}
