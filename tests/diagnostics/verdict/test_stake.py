"""What R-hat cannot see is told: discrete sites of one value in all draws of all chains, where their prior
lets them vary, and scales whose posterior has no end at zero."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.diagnostics.verdict.cures import cures
from gibbsite.diagnostics.verdict.stake import never_at_stake
from gibbsite.plans.schedule.parse import update


def sample(name, fn, obs=None):
    return numpyro.sample(name, fn, obs=obs)


def model(y):
    """The bit decides where the number is."""
    z = sample("z", dist.Bernoulli(0.1))
    x = sample("x", dist.Uniform(2.0 * z, 2.0 * z + 1))
    sample("y", dist.Normal(x, 10.0), obs=y)


def certain(y):
    """A bit whose prior leaves it one value, and one that moves."""
    sample("one", dist.Bernoulli(1.0))
    z = sample("z", dist.Bernoulli(0.3))
    m = sample("m", dist.Normal(0.0, 1.0))
    numpyro.factor("f", 0.5 * z)
    sample("y", dist.Normal(m, 1.0), obs=y)


def test_a_model_in_double_precision_is_judged_in_the_thread_of_its_run():
    """JAX's context holds in the thread that made the model: what judges the run asks the model, too."""
    with jax.enable_x64(True):
        m = gb.model(certain, 1.5)
        run = m.sample(draws=50, warmup=50, seed=0)
    assert run.verdict.notes == ()


@pytest.mark.slow
def test_a_bit_that_no_chain_ever_moved_is_told():
    m = gb.model(model, 1.5)
    init = {"z": np.zeros(4, int), "x": np.full(4, 0.5, np.float32)}
    run = m.sample(draws=600, warmup=50, seed=0, schedule="Gibbs z (*) Slice x", init=init)
    assert run.verdict.notes == ("z was never at stake: it is 0 in all draws of all chains",)
    assert "but z was never at stake" in str(run.verdict) or not run.verdict.ok
    (notice,) = [n for n in run.snapshot().warnings if n.topic == "stake"]
    assert notice.sites == ("z",) and "never at stake" in run.advice().lower()


def test_what_moves_or_cannot_is_not_told():
    run = gb.model(certain, 0.5).sample(draws=300, warmup=50, seed=0)
    assert np.ptp(run.draws["one"]) == 0 and np.ptp(run.draws["z"]) == 1
    assert run.verdict.notes == ()


SQUARE = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])


def test_a_few_draws_of_another_value_are_no_share():
    """Summed out beside the parameters of one form, the other has a draw now and then: "converged", and the
    other weighed as much as it may."""
    x = np.linspace(0, 3, 25).astype(np.float32)
    y = (1.3 - 0.38 * x + 0.25 * np.random.default_rng(0).normal(size=25)).astype(np.float32)

    def either():
        m = numpyro.sample("m", dist.Categorical(jnp.array([0.5, 0.5])))
        a, b = numpyro.sample("a", dist.Normal(0, 2)), numpyro.sample("b", dist.Normal(0, 2))
        k, rise = numpyro.sample("k", dist.LogNormal(0, 0.5)), numpyro.sample("rise", dist.Normal(0, 2))
        numpyro.sample("y", dist.Normal(jnp.where(m == 0, a + b * x, rise * jnp.exp(-k * x)), 0.25), obs=y)

    model = gb.model(either)
    start = {"rise": np.full(4, 1.4, np.float32), "k": np.full(4, 0.5, np.float32)}
    run = model.sample(draws=500, chains=4, seed=3, schedule="Eliminate m > NUTS *", init=start)
    few = int((run.draws["m"] == 0).sum())
    told = [n for n in run.verdict.reasons if "at stake" in n]
    assert len(told) == (few <= 3) and (not few or not told or f"in all draws but {few}" in told[0])
    assert not run.verdict.ok and cures(run)[0].value == "Structure m"
    near = {**{n: v.copy() for n, v in run.draws.items()}, "m": np.ones((4, 500), np.int32)}
    for count, words in {
        0: "never at stake",
        3: "hardly at stake: it is 1 in all draws but 3",
        4: "",
    }.items():
        near["m"][0, :count] = 0
        found = never_at_stake(run.plan, run._monitor.moments, near)
        assert bool(found) == bool(words) and all(words in n.text for n in found)
        if found:
            assert found[0].topic == "forms" and "the schedule Structure m" in found[0].hint


def latin():
    """Rows and columns of a square have each number once; one element beside it is free."""
    x = sample("x", dist.Categorical(jnp.full(4, 0.25)).expand([17]).to_event(1))
    q = x[:16].reshape(4, 4)
    twice = sum(jnp.sum(q[i] == q[j]) + jnp.sum(q[:, i] == q[:, j]) for i in range(4) for j in range(i))
    numpyro.factor("square", jnp.where(twice > 0, -jnp.inf, 0.0))
    sample("y", dist.Normal(1.0 * q[0, 0] + 0.5 * x[16], 1.0), 0.0)


def known_margins():
    with numpyro.plate("row", 3, dim=-2), numpyro.plate("column", 3, dim=-1):
        x = sample("x", dist.Poisson(3.0))
    right = (x.sum(0) == jnp.array([7, 8, 9])).all() & (x.sum(1) == 8).all()
    numpyro.factor("margins", jnp.where(right, 0.0, -jnp.inf))
    sample("y", dist.Normal(1.0 * x[0, 0], 1.0), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fn", "init", "told"),
    [
        (latin, np.append(SQUARE.ravel(), 1), "16 of 17 elements of x"),
        (known_margins, np.array([[2, 3, 3], [2, 3, 3], [3, 2, 3]]), "9 of 9 elements of x"),
    ],
)
def test_elements_that_hold_each_other_are_told(fn, init, told):
    """One at a time they never leave where they started, though hundreds of other squares are as likely."""
    run = gb.model(fn).sample(draws=200, warmup=50, seed=0, init={"x": init})
    assert not run.verdict.ok and not run.verdict.notes
    assert run.verdict.reasons[0].startswith(f"{told} never moved")
    assert "cannot change together" in str(run.verdict) and "Gibbs(joint=True)" in run.advice()


@pytest.mark.slow
def test_counts_that_hold_each_other_are_told_in_one_chain_too():
    def total():
        a, b = (sample(n, dist.Poisson(10.0)) for n in "ab")
        sample("y", dist.Normal(1.0 * (a + b), 0.01), 25.0)

    run = gb.model(total).sample(draws=100, warmup=50, chains=1, seed=0)
    assert "a, b never moved" in str(run.verdict) and not run.verdict.ok
    free = gb.model(total).sample(draws=1000, chains=4, seed=0, schedule="Eliminate a > RandomWalk b")
    assert free.verdict.ok and abs(free.draws["a"].mean() - 12.5) < 0.6


def seen_once(y):
    """What was seen was there: data decide these, each its own."""
    p = sample("p", dist.Beta(1.0, 1.0))
    with numpyro.plate("n", len(y)):
        z = sample("z", dist.Bernoulli(p))
        sample("y", dist.Bernoulli(0.6 * z), y)


def pinned_lattice():
    """One spin that the data decide beside others that it draws along."""
    with numpyro.plate("row", 5, dim=-2), numpyro.plate("column", 5, dim=-1):
        x = sample("x", dist.Bernoulli(0.5))
    numpyro.factor("alike", 0.3 * jnp.sum(x[1:] == x[:-1]) + 0.3 * jnp.sum(x[:, 1:] == x[:, :-1]))
    sample("y", dist.Normal(1.0 * x[0, 0], 0.01), 1.0)


def door():
    """Two sites that decide each other, which are drawn as one."""
    prize = sample("prize", dist.Categorical(jnp.full(3, 1 / 3)))
    pick = sample("pick", dist.Categorical(jnp.full(3, 1 / 3)))
    numpyro.factor("host", jnp.where((prize == pick) & (prize < 2), 0.0, -jnp.inf))


@pytest.mark.slow
def test_what_is_drawn_as_one_is_not_told_as_held():
    model = gb.model(door)
    assert model.schedule().text == "Gibbs [prize pick]"
    run = model.sample(draws=200, warmup=20, seed=0)
    assert run.verdict.ok and "never moved" not in str(run.verdict)
    apart = model.sample(draws=50, chains=1, seed=0, schedule="Gibbs(joint=False) [prize pick]")
    assert "never moved" in str(apart.verdict) and not apart.verdict.ok


def seen_alive(y):
    """Who is seen later was alive before: data decide what is drawn beside each other, one after another."""
    phi, alive = sample("phi", dist.Beta(2.0, 2.0)), 1
    for t in range(1, y.shape[1]):
        with numpyro.plate(f"animals {t}", len(y)):
            alive = sample(f"z{t}", dist.Bernoulli(alive * phi))
            sample(f"y{t}", dist.Bernoulli(alive * 0.5), y[:, t])


def rounded(y):
    """Some numbers were told to the next 5; 7 is told as it was."""
    with numpyro.plate("n", len(y)):
        x = sample("x", dist.Poisson(8.0))
        z = sample("z", dist.Bernoulli(0.4))
        sample("y", dist.Normal(jnp.where(z == 1, 5 * jnp.round(x / 5.0), x), 0.05), y)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fn", "y"),
    [(seen_alive, np.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]])), (rounded, np.array([10.0, 7.0]))],
)
def test_what_data_decide_through_others_is_not_told_as_held(fn, y):
    run = gb.model(fn, y).sample(draws=500, warmup=50, seed=0)
    assert "never moved" not in str(run.verdict), run.verdict


@pytest.mark.parametrize("fn", [seen_once, pinned_lattice])
def test_what_data_decide_is_not_told_as_held(fn):
    args = (np.array([1, 0, 1, 1, 0, 0]),) if fn is seen_once else ()
    schedule = "Gibbs z (*) Conjugate p" if fn is seen_once else "Gibbs x"
    run = gb.model(fn, *args).sample(draws=400, warmup=50, seed=0, schedule=schedule)
    assert "never moved" not in str(run.verdict)


def still(y):
    x = sample("x", dist.Normal(0.0, 1.0))
    sample("y", dist.Normal(x, 1.0), obs=y)
    sample("late", dist.Normal(x, 1.0), obs=jnp.zeros(2))


def test_a_number_that_never_moved_is_no_convergence():
    m = gb.model(still, 1.0)
    stay = lambda state: dist.Normal(1e6, 1e-3)  # noqa: E731
    run = m.sample(
        draws=100, warmup=10, seed=0, chains=2, schedule=[update("Metropolis", "x", proposal=stay)]
    )
    assert run.verdict.state == "not yet" and "have not moved for 99 draws: x" in str(run.verdict)


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 0.0])
def test_a_scale_whose_posterior_has_no_end_at_zero_is_told(power):
    """Effects under `tau^-1` have infinite mass at zero, under a flat scale a proper posterior."""

    def effects(y):
        tau = sample("tau", dist.ImproperUniform(dist.constraints.positive, (), ()))
        numpyro.factor("prior", -power * jnp.log(tau))
        with numpyro.plate("J", 4):
            t = sample("t", dist.Normal(0.0, tau))
            sample("y", dist.Normal(t, 1.0), obs=y)

    run = gb.model(effects, np.float32([0.1, -0.2, 0.05, 0.3])).sample(draws=500, seed=0)
    told = [n for n in run.snapshot().warnings if n.topic == "improper"]
    assert len(told) == power and all(n.sites == ("tau",) for n in told)
    assert not power or (not run.verdict.ok and "has no end at zero" in str(run.verdict))


@pytest.mark.share(3)
@pytest.mark.parametrize("data", [1, 2, 4])
def test_a_scale_whose_posterior_has_no_end_at_infinity_is_told(data):
    """With a flat mean one datum says nothing of a scale, two leave 1 / s; of four there is a posterior."""

    def flat(y):
        m = sample("m", dist.ImproperUniform(dist.constraints.real, (), ()))
        s = sample("s", dist.ImproperUniform(dist.constraints.positive, (), ()))
        sample("y", dist.Normal(m, s), obs=y)

    model = gb.model(flat, np.float32([1.0, 2.0, 0.3, 1.7][:data]))
    if data == 1:  # that is seen without a draw: so it is wherever the mean is
        with pytest.raises(gb.GibbsiteError, match="there is no posterior: s has a flat prior"):
            model.sample(draws=1000, seed=1)
        return
    run = model.sample(draws=1000, seed=1)
    told = [n for n in run.snapshot().warnings if n.topic == "improper"]
    assert ("s",) in [n.sites for n in told] if data < 4 else not told
    assert data == 4 or (not run.verdict.ok and "s has no end at infinity" in str(run.verdict))


@pytest.mark.slow
def test_a_slope_that_separates_has_no_end():
    def separated(x, y):
        b = sample("b", dist.ImproperUniform(dist.constraints.real, (), ()))
        with numpyro.plate("n", len(y)):
            sample("y", dist.Bernoulli(logits=b * x), obs=y)

    run = gb.model(separated, np.float32([-1, -2, 1, 3]), np.array([0, 0, 1, 1])).sample(draws=300, seed=1)
    assert "not converged: the posterior of b has no end at infinity" in str(run.verdict)
    assert "different modes" not in str(run.verdict) and "have not moved" not in str(run.verdict)
