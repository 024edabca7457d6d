"""Blocks of several discrete sites are drawn from their exact joint conditional."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.elimination import joint_marginal
from gibbsite.errors import OptionError, ScheduleError
from numpyro.contrib.control_flow import scan
from numpyro.infer.util import log_density
from scipy.stats import chisquare

X = np.array([0.4, -1.1, 2.0, 0.9, 1.7, -0.3], np.float32).reshape(3, 2)
DRAWS = 20_000


def same_plate(x):
    """Two switches per row that explain the same datum."""
    with numpyro.plate("n", len(x)):
        a = numpyro.sample("a", dist.Bernoulli(0.3))
        b = numpyro.sample("b", dist.Categorical(jnp.array([[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]])[a]))
        numpyro.sample("x", dist.Normal(a + 0.7 * b, 0.8), obs=x)


def one_for_all(x):
    """One switch for all rows, and one per row."""
    g = numpyro.sample("g", dist.Categorical(jnp.array([0.5, 0.3, 0.2])))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Bernoulli(jnp.array([0.2, 0.5, 0.9])[g]))
        numpyro.sample("x", dist.Normal(1.5 * z - 0.4 * g, 1.0), obs=x)


def three_levels(x):
    """A switch for all, one per row, one per cell: each reads the coarser ones."""
    top = numpyro.sample("top", dist.Bernoulli(0.4))
    with numpyro.plate("rows", x.shape[0], dim=-2):
        row = numpyro.sample("row", dist.Bernoulli(0.3 + 0.4 * top))
        with numpyro.plate("columns", x.shape[1], dim=-1):
            cell = numpyro.sample("cell", dist.Bernoulli(0.2 + 0.5 * row))
            numpyro.sample("x", dist.Normal(cell + 0.5 * row - 0.3 * top, 0.7), obs=x)


def looped(x):
    """The same-plate model as a loop over scalar sites."""
    for i in range(len(x)):
        a = numpyro.sample(f"a[{i}]", dist.Bernoulli(0.3))
        b = numpyro.sample(f"b[{i}]", dist.Bernoulli(0.2 + 0.6 * a))
        numpyro.sample(f"x[{i}]", dist.Normal(a + 0.7 * b, 0.8), obs=x[i])


A = np.array([[0.9, 0.1], [0.3, 0.7]], np.float32)
B = np.array([[0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]], np.float32)


def factorial(x):
    """Two chains, each with its own steps, observed together."""

    def step(before, y):
        a = numpyro.sample("a", dist.Categorical(jnp.asarray(A)[before[0]]))
        b = numpyro.sample("b", dist.Categorical(jnp.asarray(B)[before[1]]))
        numpyro.sample("x", dist.Normal(a - 0.6 * b, 0.5), obs=y)
        return (a, b), None

    scan(step, (0, 1), x)


def factorial_rows(x):
    """A factorial chain per column, with a term at the ends of one of them."""
    a = numpyro.sample("a", dist.Bernoulli(jnp.full(x.shape, 0.4)).to_event(2))
    b = numpyro.sample("b", dist.Bernoulli(jnp.full(x.shape, 0.3)).to_event(2))
    numpyro.factor("a steps", jnp.sum(0.8 * (a[1:] == a[:-1])))
    numpyro.factor("b steps", jnp.sum(-0.5 * b[1:] * b[:-1]) + 0.7 * b[0, 0] + 0.2 * b[-1, 1])
    numpyro.sample("x", dist.Normal(a * (1.0 - 2 * b), 0.8).to_event(2), obs=x)


def exact(fn, x, sites):
    """Every joint value of the sites and its probability, from NumPyro's own density."""
    names = list(sites)
    shapes = [sites[n][0] for n in names]
    grids = [list(itertools.product(range(k), repeat=int(np.prod(s)))) for s, k in sites.values()]
    values = list(itertools.product(*grids))
    arrays = {
        n: jnp.array([np.reshape(v[i], shapes[i]) for v in values], jnp.int32) for i, n in enumerate(names)
    }

    def one(v):
        return log_density(fn, (x,), {}, v)[0]

    logp = jax.jit(jax.vmap(one))(arrays)
    p = np.exp(np.asarray(logp, float) - float(jnp.max(logp)))
    return values, p / p.sum()


CASES = {
    "same plate": (same_plate, X.ravel()[:2], {"a": ((2,), 2), "b": ((2,), 3)}),
    "one for all": (one_for_all, X.ravel()[:3], {"g": ((), 3), "z": ((3,), 2)}),
    "factorial chain": (factorial, X.ravel()[:3], {"a": ((3,), 2), "b": ((3,), 3)}),
    "factorial chains": (factorial_rows, X[:2], {"a": ((2, 2), 2), "b": ((2, 2), 2)}),
    "three levels": (three_levels, X[:2], {"top": ((), 2), "row": ((2, 1), 2), "cell": ((2, 2), 2)}),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CASES)
def test_draws_are_exact(name):
    fn, x, sites = CASES[name]
    density = gb.model(fn, x).density
    joint = joint_marginal(density, list(sites))
    assert not isinstance(joint, str), joint
    draw = jax.jit(jax.vmap(lambda k: joint.draw_at(k, {}, tuple(density.arguments.arrays))))
    drawn = draw(jax.random.split(jax.random.key(5), DRAWS))
    values, p = exact(fn, x, sites)
    number = {v: i for i, v in enumerate(values)}
    flat = [np.asarray(drawn[n]).reshape(DRAWS, -1) for n in sites]
    counts = np.zeros(len(values))
    for row in zip(*flat, strict=True):
        counts[number[tuple(tuple(map(int, part)) for part in row)]] += 1
    assert counts.sum() == DRAWS
    common = p * DRAWS >= 8
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(p[common], p[~common].sum()) * DRAWS
    keep = expected > 0
    assert keep.sum() > 10
    assert chisquare(observed[keep], expected[keep]).pvalue > 1e-4


def test_the_order_in_which_sites_are_named_does_not_matter():
    fn, x, sites = CASES["three levels"]
    density = gb.model(fn, x).density
    for order in itertools.permutations(sites):
        joint = joint_marginal(density, order)
        assert not isinstance(joint, str) and joint.order == ("cell", "row", "top")


def test_a_block_in_a_schedule_is_joint_and_mixes_where_single_sites_do_not():
    def exclusive():
        """Both switches are on or both are off, nearly always."""
        a = numpyro.sample("a", dist.Bernoulli(0.5))
        b = numpyro.sample("b", dist.Bernoulli(0.5))
        numpyro.factor("same", jnp.where(a == b, 0.0, -12.0))

    model = gb.model(exclusive)
    (row,) = model.schedule("Gibbs [a b]").rows
    assert "a and b drawn jointly" in row.reason and "tables 2 × 2" in row.reason and not row.blocked
    options = dict(draws=400, warmup=0, chains=4, seed=2)
    joint = model.sample(schedule="Gibbs [a b]", **options).draws
    turns = model.sample(schedule="Gibbs(joint=False) [a b]", **options).draws
    assert abs(joint["a"].mean() - 0.5) < 4 * 0.5 / np.sqrt(1600)
    assert (joint["a"] == joint["b"]).mean() > 0.99
    switches = lambda v: (np.diff(v.astype(int), axis=1) != 0).mean()  # noqa: E731
    assert switches(joint["a"]) > 0.4 and switches(turns["a"]) < 0.05


def test_groups_of_a_loop_form_a_block():
    x = X.ravel()
    model = gb.model(looped, x)
    (row,) = model.schedule("Gibbs [a b]").rows
    assert "a and b drawn jointly" in row.reason
    draws = model.sample(schedule="Gibbs [a b]", draws=2000, warmup=0, chains=2, seed=1).draws
    for i, value in enumerate(x):
        p = np.array(
            [
                (0.3 if a else 0.7)
                * (0.2 + 0.6 * a if b else 0.8 - 0.6 * a)
                * np.exp(-0.5 * ((value - a - 0.7 * b) / 0.8) ** 2)
                for a in (0, 1)
                for b in (0, 1)
            ]
        )
        p /= p.sum()
        found = np.bincount((2 * draws["a"] + draws["b"])[..., i].ravel(), minlength=4) / 4000
        assert (np.abs(found - p) < 4 * np.sqrt(p * (1 - p) / 4000)).all()


@pytest.mark.slow
def test_what_cannot_be_joint_says_why_and_is_updated_in_turn():
    def summed(x):
        z = numpyro.sample("z", dist.Bernoulli(0.5).expand([40]).to_event(1))
        k = numpyro.sample("k", dist.Bernoulli(0.5))
        numpyro.sample("x", dist.Normal(z.sum() + k, 1.0).expand([len(x)]).to_event(1), obs=x)

    model = gb.model(summed, X.ravel())
    (row,) = model.schedule("Gibbs [z k]").rows
    assert "all 40 elements of 'z'" in row.blocked and "2^40" in row.blocked
    assert model.sample(schedule="Gibbs [z k]", draws=5, warmup=0, chains=1).draws["z"].shape == (1, 5, 40)
    with pytest.raises(ScheduleError, match=r"cannot be drawn jointly.*2\^40"):
        model.sample(schedule="Gibbs(joint=True) [z k]", draws=5, warmup=0, chains=1)
    with pytest.raises((OptionError, ScheduleError), match="joint"):
        model.schedule("Gibbs(joint=3) [z k]")


def test_chains_in_a_block_are_one_filter():
    (row,) = gb.model(factorial, X.ravel()).schedule("Gibbs [a b]").rows
    assert "filter a, b along 6 steps: state 2 × 3" in row.reason and not row.blocked


def cuts(y):
    """Two change points in one series, of which data read what lies before, between and after."""
    t = jnp.arange(len(y))
    rate = numpyro.sample("rate", dist.Gamma(2, 0.5).expand([3]).to_event(1))
    first = numpyro.sample("first", dist.DiscreteUniform(0, len(y)))
    last = numpyro.sample("last", dist.DiscreteUniform(0, len(y)))
    numpyro.factor("order", jnp.where(first < last, 0.0, -jnp.inf))
    piece = (t >= first).astype(int) + (t > last - 1).astype(int)
    with numpyro.plate("T", len(y)):
        numpyro.sample("y", dist.Poisson(rate[piece]), obs=y)


@pytest.mark.slow
def test_change_points_are_tabled_in_work_that_grows_with_the_data():
    y = np.array([1, 0, 2, 7, 9, 6, 8, 3, 2, 4])
    found, pairs = joint_marginal(gb.model(cuts, y).density, ("first", "last")), range(len(y) + 1)

    def whole(rate):
        each = [
            log_density(cuts, (y,), {}, {"rate": rate, "first": a, "last": b})[0]
            for a, b in itertools.product(pairs, repeat=2)
        ]
        return np.logaddexp.reduce(np.array(each, np.float64))

    rates = jnp.exp(jax.random.normal(jax.random.key(0), (6, 3)) + 1)
    ours = np.array([found.logdensity({"rate": r}) for r in rates])
    truth = np.array([whole(r) for r in rates])
    np.testing.assert_allclose(np.diff(ours), np.diff(truth), rtol=1e-4)  # constants are left out
    long = joint_marginal(gb.model(cuts, np.tile(y, 20)).density, ("first", "last"))
    assert long.plan.tables.evaluations < 10 * 201**2
