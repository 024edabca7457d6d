"""Discrete sites that determine each other are drawn jointly or refused, never moved one by one."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.reads.support import finite_support
from gibbsite.errors import ScheduleError
from gibbsite.plans.schedule.irreducible import connected
from numpyro.contrib.control_flow import scan
from scipy.stats import chi2


def never(condition):
    numpyro.factor("never", jnp.where(condition, -jnp.inf, 0.0))


def xor():
    a, b = numpyro.sample("a", dist.Bernoulli(0.5)), numpyro.sample("b", dist.Bernoulli(0.3))
    never(a == b)


def one_hot():
    with numpyro.plate("k", 4):
        z = numpyro.sample("z", dist.Bernoulli(jnp.array([0.1, 0.2, 0.3, 0.4])))
    never(z.sum() != 1)


def fixed_sum():
    p = numpyro.sample("p", dist.Beta(2, 2))
    z = [numpyro.sample(f"die{i}", dist.Categorical(jnp.ones(6) / 6)) for i in range(2)]
    numpyro.sample("q", dist.Bernoulli(p), obs=1)
    never(z[0] + z[1] != 7)


def larger():
    """max of two dice observed, through an observed site of no width."""
    a, b = (numpyro.sample(n, dist.DiscreteUniform(1, 6)) for n in "ab")
    numpyro.sample("seen", dist.Delta(jnp.maximum(a, b)), obs=4)


def indicator(n=20):
    """Rows that take the state of their group: the group's switch and its rows move together."""
    g = np.arange(n) % 2
    with numpyro.plate("groups", 2):
        s = numpyro.sample("s", dist.Bernoulli(0.5))
    with numpyro.plate("rows", n):
        z = numpyro.sample("z", dist.Bernoulli(jnp.array([0.0, 1.0])[s[g]]))
        numpyro.sample("x", dist.Normal(0.3 * z, 1.0), obs=0.1 * np.arange(n))


def network():
    smoking = numpyro.sample("smoking", dist.Bernoulli(0.5))
    tub = numpyro.sample("tub", dist.Bernoulli(0.01))
    lung = numpyro.sample("lung", dist.Bernoulli(jnp.where(smoking == 1, 0.1, 0.01)))
    either = jnp.maximum(tub, lung)
    numpyro.sample("xray", dist.Bernoulli(jnp.where(either == 1, 0.98, 0.05)), obs=1)


JOINT = {
    xor: "Gibbs [a b]",
    one_hot: "Gibbs(joint=True) z",
    fixed_sum: "Gibbs [die0 die1] (*) Conjugate p",
    larger: "Gibbs [a b]",
    indicator: "Gibbs [s z]",
    network: "Gibbs [smoking tub lung]",
}


@pytest.mark.parametrize("fn", JOINT, ids=lambda f: f.__name__)
def test_the_default_draws_them_jointly(fn):
    assert gb.model(fn).schedule().text == JOINT[fn]


def xor_of_a_vector():
    z = numpyro.sample("xv", dist.Bernoulli(jnp.array([0.5, 0.3])).to_event(1))
    numpyro.sample("xv seen", dist.Delta(z[0] ^ z[1]), obs=1)


def xor_in_a_plate():
    with numpyro.plate("rows", 3):
        a, b = (numpyro.sample(n, dist.Bernoulli(p)) for n, p in (("xa", 0.5), ("xb", 0.3)))
        numpyro.sample("xs", dist.Bernoulli(1.0 * (a != b)), obs=np.array([1, 0, 1]))


def sums_in_a_plate():
    with numpyro.plate("pairs", 2):
        a = numpyro.sample("sa", dist.Categorical(jnp.array([0.1, 0.2, 0.3, 0.4])))
        b = numpyro.sample("sb", dist.Categorical(jnp.array([0.4, 0.3, 0.2, 0.1])))
        numpyro.sample("ss", dist.Delta(a + b), obs=np.array([3, 2]))


def one_hot_rows():
    with numpyro.plate("members", 2, dim=-2), numpyro.plate("choices", 3, dim=-1):
        z = numpyro.sample("oh", dist.Bernoulli(jnp.array([0.2, 0.3, 0.4])))
    never(jnp.any(z.sum(-1) != 1))


def exactly_one_of_scalars():
    z = [numpyro.sample(f"one{i}", dist.Bernoulli(p)) for i, p in enumerate((0.2, 0.5, 0.6))]
    numpyro.sample("one seen", dist.Bernoulli(jnp.where(sum(z) == 1, 1.0, 0.0)), obs=1)


def largest_of_a_vector():
    d = numpyro.sample("dice", dist.DiscreteUniform(1, 4).expand([3]).to_event(1))
    numpyro.sample("largest", dist.Delta(d.max()), obs=3)


def past_a_threshold():
    a, b = (numpyro.sample(n, dist.DiscreteUniform(0, 5)) for n in ("ta", "tb"))
    never(jnp.abs(a - b) < 4)


def parity_of_three():
    z = [numpyro.sample(f"bit{i}", dist.Bernoulli(p)) for i, p in enumerate((0.2, 0.3, 0.4))]
    numpyro.sample("parity", dist.Delta(sum(z) % 2), obs=1)


def matching():
    s = numpyro.sample("seat", dist.Categorical(jnp.array([0.2, 0.3, 0.5])).expand([3]).to_event(1))
    never(jnp.any(jnp.sort(s) != jnp.arange(3)))


PUZZLES = (
    xor_of_a_vector, xor_in_a_plate, sums_in_a_plate, one_hot_rows, exactly_one_of_scalars,
    largest_of_a_vector, past_a_threshold, parity_of_three, matching,
)  # fmt: skip


@pytest.fixture(scope="module")
def solved():
    """All puzzles in one model under the default schedule: text, draws by site."""

    def puzzles():
        for i, puzzle in enumerate(PUZZLES):
            with numpyro.handlers.scope(prefix=f"p{i}", hide_types=["plate"]):
                puzzle()

    model = gb.model(puzzles)
    return model.schedule().text, model.sample(draws=1000, warmup=0, chains=2, seed=0).draws


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PUZZLES)), ids=[p.__name__ for p in PUZZLES])
def test_the_default_draws_are_those_of_the_list_of_all_solutions(solved, number):
    """Every update is one independent draw: counts of joint values against their exact probabilities."""
    _, draws = solved
    density = gb.model(PUZZLES[number]).density
    names = list(density.latents)
    supports = [np.asarray(finite_support(density, n).values) for n in names]
    shapes = [density.sites[n].shape for n in names]
    counts = [int(np.prod(s, dtype=int)) for s in shapes]
    each = [v for v, n in zip(supports, counts, strict=True) for _ in range(n)]
    flat = np.array(list(itertools.product(*each)))
    parts = np.split(flat, np.cumsum(counts)[:-1], axis=1)
    values = {n: jnp.asarray(p.reshape(-1, *s)) for n, p, s in zip(names, parts, shapes, strict=True)}
    weight = np.exp(np.asarray(jax.jit(jax.vmap(density.log_joint))(values), float))
    weight /= weight.sum()
    seen = np.concatenate([draws[f"p{number}/{n}"].reshape(2000, -1) for n in names], axis=1)
    index = {tuple(row): i for i, row in enumerate(flat.tolist())}
    found = np.bincount([index[tuple(row)] for row in seen.tolist()], minlength=len(flat))
    assert (weight > 0).sum() > 1 and not found[weight == 0].any()
    common = weight * 2000 >= 5
    expected, found = weight[common] * 2000, found[common]
    assert np.sum((found - expected) ** 2 / expected) < chi2.ppf(1 - 1e-5, common.sum())


TEXTS = (
    "Gibbs xv",  # two elements in a row are a chain
    "Gibbs [xa xb]",
    "Gibbs [sa sb]",
    "Gibbs(joint=True) oh",
    "Gibbs(joint=True) [one0 one1 one2]",
    "Gibbs(joint=True) dice",
    "Gibbs [ta tb]",
    "Gibbs(joint=True) [bit0 bit1 bit2]",
    "Gibbs(joint=True) seat",
)


@pytest.mark.parametrize(
    ("puzzle", "text"), list(zip(PUZZLES, TEXTS, strict=True)), ids=lambda x: getattr(x, "__name__", None)
)
def test_the_default_draws_puzzles_jointly(puzzle, text):
    assert gb.model(puzzle).schedule().text == text


def test_probabilities_of_zero_that_numpyro_softens_are_zeros():
    draws = gb.model(exactly_one_of_scalars).sample(draws=400, warmup=0, chains=2, seed=0).draws
    seen = np.stack([draws[f"one{i}"].ravel() for i in range(3)], axis=1)
    odds = np.array([0.2 / 0.8, 1.0, 0.6 / 0.4])
    p = odds / odds.sum()
    assert (seen.sum(1) == 1).all()
    assert (np.abs(seen.mean(0) - p) < 5 * np.sqrt(p * (1 - p) / 800)).all()


@pytest.mark.slow
def test_a_schedule_that_gets_stuck_is_not_taken_for_done():
    """Asked for by name: single moves, of which none is possible. The schedule and the run tell."""
    apart = gb.model(xor).schedule("Gibbs a (*) Gibbs b")
    told = "it and a determine each other: drawn one by one they may never move; use Gibbs [a b]"
    assert apart.rows[1].reason.startswith(told)
    (row,) = gb.model(one_hot).schedule("Gibbs z").rows
    assert "its elements determine each other" in row.reason and "Gibbs(joint=True) z" in row.reason
    assert "one by one they may" not in str(gb.model(network).schedule("Gibbs smoking (*) Gibbs [tub lung]"))
    assert not any("one by one they may" in str(gb.model(fn).schedule()) for fn in (xor, one_hot))
    run = gb.model(xor).sample(schedule="Gibbs a (*) Gibbs b", draws=200, warmup=0, chains=4, seed=1)
    assert not run.verdict.ok


@pytest.mark.slow
def test_what_is_too_large_to_draw_jointly_is_refused():
    def parity():
        with numpyro.plate("n", 60):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
        never(z.sum() % 2 == 1)

    def fixed_sum():
        """A sum that hardly any draw of the prior has."""
        z = numpyro.sample("z", dist.Bernoulli(0.3).expand([40]).to_event(1))
        numpyro.sample("total", dist.Delta(z.sum()), obs=2)

    def seats():
        z = numpyro.sample("z", dist.Categorical(jnp.ones(12) / 12).expand([12]).to_event(1))
        never(jnp.any(jnp.sort(z) != jnp.arange(12)))

    for fn, table in ((parity, r"2\^60"), (fixed_sum, r"2\^40"), (seats, r"12\^12")):
        with pytest.raises(ScheduleError, match=rf"determine each other.*{table}") as told:
            gb.model(fn).schedule()
        assert "still works" not in str(told.value)


def test_sites_that_are_alike_are_named_as_the_model_does():
    """They are one array within, `k`, of which the model says nothing."""

    def counts(count, name):
        k = [numpyro.sample(name.format(i), dist.Poisson(3.0)) for i in range(count)]
        numpyro.factor("c", jnp.where(sum(k) == 10, 0.0, -jnp.inf))

    for count, name, told in (
        (3, "k{}", "^'k0', 'k1' and 'k2' determine each other through 'c'"),
        (5, "k{}", "^'k0', 'k1', … and 'k4' determine"),
        (3, "k[{}]", "^elements of 'k' determine each other through 'c'"),
    ):
        with pytest.raises(ScheduleError, match=told):
            gb.model(counts, count, name).schedule()


@pytest.mark.slow
def test_integers_without_end_that_determine_each_other_are_refused():
    def poissons():
        a, b = (numpyro.sample(n, dist.Poisson(50.0)) for n in "ab")
        numpyro.sample("total", dist.Delta(a + b), obs=100)

    def vector():
        a = numpyro.sample("a", dist.Poisson(2.0).expand([3]).to_event(1))
        numpyro.sample("total", dist.Delta(a.sum()), obs=4)

    def indicator():
        k, b = numpyro.sample("k", dist.Poisson(1.5)), numpyro.sample("b", dist.Bernoulli(0.5))
        never((k > 0) != (b == 1))

    for fn in (poissons, vector, indicator):
        with pytest.raises(ScheduleError, match=r"determine each other through '\w+'.*Truncate") as told:
            gb.model(fn).schedule()
        assert ("`Eliminate a > RandomWalk b`" in str(told.value)) == (fn is poissons)
    assert gb.model(poissons).schedule("Eliminate a > RandomWalk b").text == "Eliminate a > RandomWalk b"

    def soft():
        a, b = (numpyro.sample(n, dist.Poisson(2.0)) for n in "ab")
        numpyro.sample("total", dist.Poisson(a + b + 0.1), obs=4)

    assert gb.model(soft).schedule().text == "Window a (*) Window b"


def test_constraints_that_single_moves_get_around_are_left_alone():
    def hard_core(n=30):
        """No two neighbours: every configuration leads to the empty one, element by element."""
        with numpyro.plate("n", n):
            z = numpyro.sample("z", dist.Bernoulli(0.3))
        numpyro.factor("apart", jnp.where(z[1:] * z[:-1] == 1, -jnp.inf, 0.0))

    def soft_sum():
        with numpyro.plate("n", 60):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(z.sum(), 1.0), obs=25.0)

    def left_to_right(y):
        """Transitions of probability zero inside one chain, which is drawn as a whole anyway."""

        def step(before, now):
            z = numpyro.sample(
                "z", dist.Categorical(jnp.array([[0.9, 0.1, 0], [0, 0.8, 0.2], [0, 0, 1]])[before])
            )
            numpyro.sample("y", dist.Normal(1.0 * z, 1.0), obs=now)
            return z, None

        scan(step, 0, y)

    assert gb.model(hard_core).schedule().text == "Gibbs z"
    assert gb.model(soft_sum).schedule().text == "Gibbs z"
    assert gb.model(left_to_right, np.arange(5.0)).schedule().text == "Gibbs z"


def test_connected_sees_what_single_moves_reach():
    rows = np.array([[1, 1, 1, 1], [0, 1, 1, 0], [1, 0, 0, 1], [1, 1, 1, 0]], bool).T.reshape(2, 2, 4)
    assert [connected(rows[..., [i]]) for i in range(4)] == [True, False, False, True]
    assert not connected(rows)


def causes(seen):
    """Rare causes that explain each other away: all four are likely given what is seen, one at a time."""
    with numpyro.plate("cause", 4):
        d = numpyro.sample("d", dist.Bernoulli(jnp.array([0.001, 0.002, 0.001, 0.0005])))
    with numpyro.plate("s", len(seen)):
        numpyro.sample("y", dist.Bernoulli(1 - (1 - 1e-4) * jnp.prod(1 - 0.99 * d)), obs=seen)


def test_few_elements_that_meet_are_drawn_at_once():
    """One by one a chain keeps its cause: no element is 0 where all are, and two are hardly ever 1."""
    model = gb.model(causes, np.ones(3, int))
    assert model.schedule().text == "Gibbs(joint=True) d"
    every = np.array(list(itertools.product([0, 1], repeat=4)))
    prior = np.array([0.001, 0.002, 0.001, 0.0005])
    weight = np.prod(np.where(every, prior, 1 - prior), 1)
    weight *= (1 - (1 - 1e-4) * np.prod(1 - 0.99 * every, 1)) ** 3
    expected = weight @ every / weight.sum()
    run = model.sample(draws=1000, chains=4, seed=0)
    assert run.verdict.state == "converged", run.verdict
    found = np.asarray(run.draws["d"]).mean((0, 1))
    assert np.abs(found - expected).max() < 4 * np.sqrt(0.25 / 4000)


def indicators(x, y):
    with numpyro.plate("p", x.shape[1]):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
        b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(x @ (z * b), 1.0).to_event(1), obs=y)


@pytest.mark.slow
def test_elements_of_which_each_value_is_as_much_work_as_all_are_swept():
    """All 2^8 values of eight indicators take the data as often, and know no more than a sweep that is tied
    to coefficients anyway."""
    rng = np.random.default_rng(0)
    x = np.float32(rng.normal(size=(100, 8)))
    y = np.float32(x[:, 0] + rng.normal(size=100))
    assert "joint" not in gb.model(indicators, x, y).schedule().text
