"""Sites that decide each other, against sums and quadrature; and which are taken for such."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats import ess
from gibbsite.errors import ScheduleError
from gibbsite.plans.schedule.schedule import make_schedule
from helpers.truths.geweke import joint_distribution_test
from scipy import stats

N = 4000


def sample(name, fn, obs=None):
    return numpyro.sample(name, fn, obs=obs)


def moving(y):
    z = sample("z", dist.Bernoulli(0.1))
    x = sample("x", dist.Uniform(2.0 * z, 2.0 * z + 1))
    sample("y", dist.Normal(x, 10.0), obs=y)


def hard_factor(y):
    z = sample("z", dist.Bernoulli(0.2))
    x = sample("x", dist.Uniform(0, 1))
    numpyro.factor("agree", jnp.where((x > 0.5) == (z == 1), 0.0, -jnp.inf))
    sample("y", dist.Normal(x, 0.5), obs=y)


def probability(y):
    x = sample("x", dist.Normal(0, 1))
    z = sample("z", dist.Bernoulli(jnp.where(x > 0, 1.0, 0.0)))
    sample("y", dist.Normal(x + z, 1.0), obs=y)


def three_values(y):
    z = sample("z", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
    x = sample("x", dist.Uniform(jnp.array([0.0, 5.0, 5.5])[z], jnp.array([1.0, 7.0, 6.0])[z]))
    sample("y", dist.Normal(x, 3.0), obs=y)


def truth(density, values, low, high, points=400_001):
    """Moments of `z` and `x` under `density(z, x)`, the sum over `values` of integrals by midpoints."""
    x = low + (np.arange(points) + 0.5) * (high - low) / points
    w = np.stack([density(v, x) for v in values])
    w /= w.sum()
    mean = (w.sum(0) * x).sum()
    return [(w.sum(1) * values).sum(), mean, (w.sum(0) * (x - mean) ** 2).sum()]


def between(x, low, high):
    return ((x > low) & (x < high)) / (high - low)


FAMILY = {
    "a support that moves": (
        moving,
        1.5,
        lambda z, x: [0.9, 0.1][z] * between(x, 2 * z, 2 * z + 1) * stats.norm.pdf(1.5, x, 10),
        (0, 1),
        (0, 3),
    ),
    "a hard factor": (
        hard_factor,
        0.3,
        lambda z, x: [0.8, 0.2][z] * ((x > 0.5) == z) * stats.norm.pdf(0.3, x, 0.5),
        (0, 1),
        (0, 1),
    ),
    "a probability of 0 or 1": (
        probability,
        0.5,
        lambda z, x: stats.norm.pdf(x) * ((x > 0) == z) * stats.norm.pdf(0.5, x + z, 1),
        (0, 1),
        (-6, 6),
    ),
    "three intervals": (
        three_values,
        3.0,
        lambda z, x: (
            [0.2, 0.3, 0.5][z] * between(x, [0, 5, 5.5][z], [1, 7, 6][z]) * stats.norm.pdf(3.0, x, 3.0)
        ),
        (0, 1, 2),
        (0, 7),
    ),
}


SLOW = {"a hard factor", "three intervals", "as a whole"}  # one of each way of updating is run by each commit


def cases(of):
    return [pytest.param(c, marks=pytest.mark.slow if c in SLOW else ()) for c in of]


@pytest.mark.share(4)
@pytest.mark.parametrize("case", cases(FAMILY))
def test_what_decides_each_other_is_drawn_right(case):
    model, y, density, values, (low, high) = FAMILY[case]
    found = gb.model(model, y)
    sites = [n for n in found.sites if found.sites[n].role == "latent"]
    assert found.schedule().text == f"Crossing [{' '.join(sites)}]"
    run = found.sample(draws=N, warmup=300, seed=1)
    z, x = (np.asarray(run.draws[n], float) for n in ("z", "x"))
    want = truth(density, np.array(values), low, high)
    from_draws = {"z": z, "x": x, "x²": (x - want[1]) ** 2}
    for (name, v), mean in zip(from_draws.items(), want, strict=True):
        ess = np.clip(_ess(v), 50, v.size)
        assert abs(v.mean() - mean) < 4.5 * v.std() / np.sqrt(ess), (case, name, v.mean(), mean, ess)
    assert _ess(z) > 1000


def coupled(y):
    z = sample("z", dist.Bernoulli(0.3).expand([3]).to_event(1))
    x = sample("x", dist.Uniform(3.0 * z, 3.0 * z + 1).to_event(1))
    numpyro.factor("like", 1.5 * (z[0] == z[1]) + 1.5 * (z[1] == z[2]))
    sample("y", dist.Normal(x, 2.0).to_event(1), obs=y)


def several(y):
    """One bit that decides three numbers, all of its values summed over."""
    z = sample("z", dist.Bernoulli(0.3))
    x = sample("x", dist.Uniform(3.0 * z, 3.0 * z + 1).expand([3]).to_event(1))
    sample("y", dist.Normal(x, 2.0).to_event(1), obs=y)


def _likelihoods(y):
    """Of `z = 0` and `z = 1` for each datum, with its number integrated out."""
    return np.stack([stats.norm.cdf(3 * z + 1, y, 2) - stats.norm.cdf(3 * z, y, 2) for z in (0, 1)])


def _exact(y, prior):
    """P(z = 1) by element over all combinations of bits."""
    like, total, ones = _likelihoods(y), 0.0, np.zeros(len(y))
    for bits in np.ndindex(*(2,) * len(y)):
        p = prior(bits) * np.prod([like[b, i] for i, b in enumerate(bits)])
        total, ones = total + p, ones + p * np.array(bits)
    return ones / total


Y = np.array([0.2, 2.0, 2.6])
COUPLED = {
    "pair by pair": (
        coupled,
        lambda b: np.prod([[0.7, 0.3][i] for i in b]) * np.exp(1.5 * (b[0] == b[1]) + 1.5 * (b[1] == b[2])),
    ),
    "as a whole": (several, lambda b: [0.7, 0.3][b[0]] if len(set(b)) == 1 else 0.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", cases(COUPLED))
def test_what_hangs_together_is_drawn_right(way):
    model, prior = COUPLED[way]
    found = gb.model(model, Y)
    assert found.schedule().text == "Crossing [z x]"
    assert found.schedule().rows[0].reason.endswith(way)
    z = np.asarray(found.sample(draws=N, warmup=300, seed=2).draws["z"], float)
    z = np.broadcast_to(z.reshape(*z.shape[:2], -1), (*z.shape[:2], 3))
    for i, p in enumerate(_exact(Y, prior)):
        error = np.sqrt(p * (1 - p) / np.clip(_ess(z[..., i]), 50, None))
        assert abs(z[..., i].mean() - p) < 4.5 * error, (way, i, z[..., i].mean(), p)


def plated(y=None):
    w = sample("w", dist.Beta(2.0, 2.0))
    with numpyro.plate("n", 4):
        z = sample("z", dist.Bernoulli(w))
        x = sample("x", dist.Uniform(2.0 * z, 2.0 * z + 1 + w))
        sample("y", dist.Normal(x, 1.0), obs=y)


@pytest.mark.slow
def test_the_prior_survives():
    found = gb.model(plated, np.zeros(4))
    assert "Crossing [z x]" in found.schedule().text
    plan = make_schedule(found.execution, None).plan()
    inputs = lambda data: {"_gibbsite_inputs": {"data": (data["y"],)}}  # noqa: E731
    scores = joint_distribution_test(plated, plan.kernel, {"y": "y"}, inputs=inputs)
    assert max(float(np.abs(z).max()) for z in scores.values()) < 4.5


def free(y):
    """The intervals overlap: z moves where both hold x, and so does x."""
    z = sample("z", dist.Bernoulli(0.3))
    x = sample("x", dist.Uniform(0.0, 1.0 + z))
    sample("y", dist.Normal(x, 1.0), obs=y)


def known(y):
    """Some labels are known, whatever the rest is."""
    m = sample("m", dist.Normal(0.0, 1.0))
    with numpyro.plate("n", 3):
        z = sample("z", dist.Bernoulli(jnp.array([0.5, 0.5, 0.5])))
        numpyro.factor("seen", jnp.where((z == 1) | jnp.array([True, False, True]), 0.0, -jnp.inf))
        sample("y", dist.Normal(m * z, 1.0), obs=y)


def apart(y):
    mu = sample("mu", dist.Normal(0.0, 100.0).expand([2]).to_event(1))
    with numpyro.plate("n", 3):
        z = sample("z", dist.Bernoulli(0.5))
        sample("y", dist.Normal(mu[z], 1.0), obs=y)


def spammers(y):
    """Labels and honesty decide each other; what is said without honesty is only in their terms."""
    said = sample("said", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("annotator", y.shape[1]):
        honest = sample("honest", dist.Beta(0.5, 0.5))
    with numpyro.plate("item", len(y), dim=-2):
        label = sample("label", dist.DiscreteUniform(0, 2))
        with numpyro.plate("position", y.shape[1]):
            dishonest = sample("dishonest", dist.Bernoulli(1.0 - honest))
            honestly = jnp.where(label[..., None] == jnp.arange(3), 1.0, 0.0)
            sample("y", dist.Categorical(jnp.where(dishonest[..., None] == 0, honestly, said)), obs=y)


LABELS = np.array([[0, 0, 0, 0, 0, 0], [2, 2, 1, 2, 1, 2], [1, 1, 1, 0, 1, 0], [2, 1, 1, 1, 2, 2]] * 3)


@pytest.mark.parametrize(
    ("model", "y"),
    [(free, 0.5), (known, Y), (apart, Y), pytest.param(spammers, LABELS, marks=pytest.mark.slow)],
)
def test_what_may_move_is_left_alone(model, y):
    assert "Crossing" not in gb.model(model, y).schedule().text


def test_what_cannot_be_drawn_together_is_refused_with_the_reason():
    def many(y):
        z = sample("z", dist.Bernoulli(0.3).expand([8]).to_event(1))
        x = sample("x", dist.Uniform(3.0 * z[0], 3.0 * z[0] + 1))
        numpyro.factor("like", jnp.where(z[1:] == z[:-1], 0.5, 0.0).sum() + jnp.prod(1.0 + z))
        sample("y", dist.Normal(x, 2.0), obs=y)

    found = gb.model(many, 1.0)
    with pytest.raises(ScheduleError, match=r"'z' and 'x' decide each other: .* 256 combinations .* Soften"):
        found.schedule()
    told = found.schedule("Gibbs z (*) Slice x").rows[0].reason
    assert "decide each other" in told


def test_a_schedule_that_draws_them_in_turn_says_so():
    found = gb.model(moving, 1.5)
    assert "use Crossing [z x]" in found.schedule("Gibbs z (*) Slice x").rows[0].reason
    assert "use Crossing" not in found.schedule("Crossing [z x]").rows[0].reason
    with pytest.raises(ScheduleError, match="discrete sites and continuous ones"):
        found.schedule("Crossing z (*) Slice x")


def _ess(x):
    return float(ess(x))


def test_elements_that_each_decide_one_are_found_beside_impossible_ones():
    """Of six ties nearly every draw from the prior breaks one: what an element may be is asked of its own."""

    def tied(y):
        with numpyro.plate("n", len(y)):
            s = numpyro.sample("s", dist.Bernoulli(0.3))
            x = numpyro.sample("x", dist.Normal(0.0, 1.0))
            numpyro.factor("tie", jnp.where((s == 1) == (x > 0), 0.0, -jnp.inf))
            numpyro.sample("y", dist.Normal(x, 1.0), obs=y)

    assert gb.model(tied, np.linspace(-2.0, 2.0, 6)).schedule().text == "Crossing [s x]"


@pytest.mark.slow
def test_a_count_without_end_that_bounds_a_site_is_summed_out():
    """In turn neither moves: of six seeds none led from one count to another."""

    def between(y):
        count = sample("M", dist.Poisson(3.0))
        a = sample("a", dist.Uniform(1.0 * count, count + 1.0))
        sample("y", dist.Normal(a, 0.5), obs=y)

    found = gb.model(between, 2.5)
    assert found.schedule().text == "Eliminate M > Slice a"
    run = found.sample(draws=1000, chains=4, seed=1)
    assert run.verdict.ok, run.verdict
    counts = np.arange(40)
    normal = stats.norm(2.5, 0.5)
    exact = stats.poisson.pmf(counts, 3) * (normal.cdf(counts + 1) - normal.cdf(counts))
    exact /= exact.sum()
    for k in (1, 2, 3):
        at = (np.asarray(run.draws["M"]) == k).astype(float)
        assert abs(at.mean() - exact[k]) < 4.5 * at.std() / np.sqrt(_ess(at)), k
    a = np.asarray(run.draws["a"])
    assert np.all((a >= run.draws["M"]) & (a <= run.draws["M"] + 1))
