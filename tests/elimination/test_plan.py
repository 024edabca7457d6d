"""Plans: how sites are summed out, what it costs, orders of a person's own, and what is refused before it
runs."""

import time

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.tables.factor import TooLarge
from gibbsite.elimination.tabled import written
from gibbsite.errors import GibbsiteError, ModelError, UnknownNameError
from helpers.models.elimination import MODELS, MORE
from helpers.models.zoo import ZOO
from numpyro.contrib.control_flow import scan

CASES = {**ZOO, **MODELS, **MORE}


def marginal(name, *sites, **options):
    case = CASES[name]
    return gb.model(case.fn, *case.args, **case.kwargs).marginal(*sites, **options)


def equations(m, state):
    data = tuple(m.density.arguments.arrays)
    closed = jax.make_jaxpr(jax.value_and_grad(lambda s: m.logdensity_at(s, data)))(state)

    def count(jaxpr):
        inner = [v for e in jaxpr.eqns for v in e.params.values() if hasattr(v, "jaxpr")]
        return len(jaxpr.eqns) + sum(count(v.jaxpr) for v in inner)

    return count(closed.jaxpr)


PLANS = {
    "gmm": "sum out z: 6 elements at once, tables 3 × 6",
    "nested_switch": "sum out cell given row, g: 6 elements at once, tables 2 × 2 × 3 × 6",
    "mixture_of_experts": "sum out u given gate: 3 elements at once, tables 2 × 2 × 3",
    "own_experts": "sum out v given kind: 2 elements at once, tables 2 × 3 × 2",
    "hmm_scan": "filter z along 6 steps",
    "hmm_factorial": "filter a, b along 6 steps",
    "second_order_max": "state 3 × 3",
    "classes_of_chains": "steps given c: state 2 × 2, 2 chains side by side",
    "tree": "eliminate z element by element: 7 elements",
}


@pytest.mark.parametrize("name", PLANS)
def test_the_plan_says_what_is_done(name):
    m = marginal(name)
    assert PLANS[name] in str(m)
    assert "table entries per evaluation" in m.cost and m.cost in str(m)
    assert sorted(m.order) == sorted(m.sites)


def test_a_person_s_order_is_kept_to_and_the_same_density():
    first = marginal("nested_switch", "g", "row", "cell")
    assert first.order == ("cell", "row", "g")
    other = marginal("nested_switch", "g", "row", "cell", order=["row", "g", "cell"])
    assert other.order == ("row", "g", "cell")
    states = [{"m": np.array(m, np.float32)} for m in ([0.1, -0.4, 1.0], [1.0, 0.0, 0.3])]
    found = [[float(m.logdensity(s)) for s in states] for m in (first, other)]
    assert found[0][0] - found[0][1] == pytest.approx(found[1][0] - found[1][1], abs=1e-4)


def test_a_wrong_order_is_refused():
    with pytest.raises(ModelError, match="leaves out 'cell'"):
        marginal("nested_switch", "g", "row", "cell", order=["row", "g"])
    with pytest.raises(ModelError, match="names 'g' twice"):
        marginal("nested_switch", "g", "row", order=["row", "g", "g"])


def grid(n):
    j = numpyro.sample("j", dist.Normal(0, 1))
    with numpyro.plate("rows", n, dim=-2), numpyro.plate("columns", n, dim=-1):
        z = numpyro.sample("z", dist.Bernoulli(0.5))
    numpyro.factor("down", j * (z[1:] == z[:-1]))
    numpyro.factor("right", j * (z[:, 1:] == z[:, :-1]))


def test_a_large_grid_is_refused_at_once_with_its_widest_table():
    model = gb.model(grid, 40)
    start = time.process_time()
    with pytest.raises(TooLarge, match=r"67,108,864 entries over 26 elements that \[down, right\]"):
        model.marginal("z")
    assert time.process_time() - start < 10  # a tenth of a second; it must not grow by orders


def test_a_long_strip_is_one_program_of_any_length():
    def strip(columns):
        def model():
            b = numpyro.sample("b", dist.Normal(0, 1))
            z = numpyro.sample("z", dist.Bernoulli(0.5).expand([3, columns]))
            numpyro.factor("e", b * ((z[1:] == z[:-1]).sum() + (z[:, 1:] == z[:, :-1]).sum()))

        return gb.model(model).marginal("z")

    short, long = strip(20), strip(400)
    assert "filter z along 400 steps, 3 rows at a time: state 8" in str(long)
    at = {"b": jnp.asarray(0.3)}
    assert equations(short, at) == equations(long, at)
    # per column the transfer matrix over 8 states
    states = (np.arange(8)[:, None] >> np.arange(3)) & 1
    alike = (states[:, None] == states[None]).sum(-1)
    inside = (states[:, 1:] == states[:, :-1]).sum(-1)
    message = 0.3 * inside
    for _ in range(399):
        message = np.logaddexp.reduce(message[:, None] + 0.3 * alike, axis=0) + 0.3 * inside
    expected = np.logaddexp.reduce(message) - 1200 * np.log(2) - 0.5 * 0.09
    moved = long.logdensity({"b": 0.3}) - long.logdensity({"b": 0.0})
    np.testing.assert_allclose(moved, expected, rtol=1e-5)


def test_what_cannot_be_summed_out_says_why():
    def model(n=30):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        k = numpyro.sample("k", dist.Poisson(1.0))
        with numpyro.plate("n", n):
            z = numpyro.sample("z", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(mu + z.sum() + k, 1.0), obs=3.0)

    m = gb.model(model)
    told = {"z k": "infinite support", "y": "observed", "z": r"all 30 elements.*2\^30"}
    for sites, words in told.items():
        with pytest.raises(ModelError, match=words):
            m.marginal(*sites.split())
    with pytest.raises(UnknownNameError):
        m.marginal("zz")
    with pytest.raises(GibbsiteError, match="twice"):
        m.marginal("z", "z")


def mixture(x):
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(jnp.array([0.2, 0.3, 0.5])))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)


def chain(x):
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([3]).to_event(1))
    p = jnp.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(3) / 3))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)
    numpyro.factor("steps", jnp.log(p)[z[:-1], z[1:]])


@pytest.mark.parametrize("fn", [mixture, chain], ids=lambda f: f.__name__)
def test_the_program_does_not_grow_with_the_data(fn):
    state = {"mu": jnp.array([-1.0, 0.0, 1.0])}
    small, large = (equations(gb.model(fn, np.linspace(-1, 1, n)).marginal("z"), state) for n in (50, 500))
    assert small == large < 1000


def test_methods_are_pure_under_jit_and_vmap():
    m = gb.model(mixture, np.array([0.3, -1.0, 2.0])).marginal("z")
    states = {"mu": jnp.array([[-1.0, 0.0, 1.0], [0.5, 0.1, -2.0]])}
    both = jax.jit(jax.vmap(m.logdensity))(states)
    assert both.shape == (2,) and float(both[1]) == pytest.approx(
        float(m.logdensity({"mu": states["mu"][1]}))
    )
    keys = jax.random.split(jax.random.key(0), 2)
    assert jax.vmap(m.sample)(keys, states)["z"].shape == (2, 3)
    assert m.probs({"mu": states["mu"][0]})["z"].shape == (3, 3)
    assert m.best({"mu": states["mu"][0]})["z"].tolist() == [2, 0, 2]


@pytest.mark.slow
def test_steps_can_be_read_one_by_one():
    """The tables of the sprinkler, by hand: P(sprinkler, rain), P(wet = 1, rain), P(wet = 1)."""
    steps = marginal("sprinkler", "cloudy", "sprinkler", "rain").steps({})
    assert [s.text.split(" given")[0].split(":")[0] for s in steps] == [
        "sum out cloudy",
        "sum out sprinkler",
        "sum out rain",
    ]
    (pair,), (rain,), last = (list(s.made.values()) for s in steps)
    np.testing.assert_allclose(pair, [[0.29, 0.21], [0.41, 0.09]], rtol=1e-5)
    wet = np.array([[0.01, 0.9], [0.9, 0.99]])  # [sprinkler, rain]
    np.testing.assert_allclose(rain, (wet.T * pair).sum(1), rtol=1e-5)
    assert not last and "uses" in str(steps[0])
    told = str(steps[0]).split("makes ")[1].splitlines()
    assert [line.split() for line in told[1:]] == [
        ["sprinkler=0", "sprinkler=1"],
        ["rain=0", "0.29", "0.21"],
        ["rain=1", "0.41", "0.09"],
    ]


def test_tables_in_words_are_cut_and_say_so():
    text = written(np.arange(60.0).reshape(2, 30), [("z", ["0", "1"])])
    head, *rows = text.splitlines()
    assert head.split()[:2] == ["[0]", "[1]"] and head.endswith("… 22 more")
    assert [row.split()[:3] for row in rows] == [["z=0", "0", "1"], ["z=1", "30", "31"]]
    tall = written(np.ones((30, 2, 1)), [("a", [str(i) for i in range(30)]), ("b", ["-1", "1"])])
    assert tall.splitlines()[-1] == "… 36 rows more" and "a=11  b=1" in tall
    assert written(np.array([0.25, 0.75]), [("a", ["x", "y"])]).split() == ["a=x", "a=y", "0.25", "0.75"]
    assert written(np.array([1.2e-38, 0.9]), [("a", ["x", "y"])]).split()[2:] == ["0", "0.9"]


@pytest.mark.slow
def test_occupancy_that_changes_has_a_schedule():
    """Choices by the first season's states and by later ones meet in one conditional."""

    def seasons(y):
        psi, gain, loss, p = (numpyro.sample(n, dist.Beta(1, 1)) for n in ("psi", "gain", "loss", "p"))
        with numpyro.plate("sites", y.shape[1]):
            z = numpyro.sample("first", dist.Bernoulli(psi))

        def step(z, now):
            with numpyro.plate("sites", y.shape[1]):
                z = numpyro.sample("z", dist.Bernoulli(z * (1 - loss) + (1 - z) * gain))
                numpyro.sample("y", dist.Binomial(3, p * z), obs=now)
            return z, None

        scan(step, z, y)

    model = gb.model(seasons, np.array([[2, 0, 1], [1, 0, 0]]))
    assert model.schedule().rows and model.eliminate().summed_out == ("first", "z")
