"""Where Python asks, and which way is proposed from which."""

import gibbsite
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.errors import DataError, ModelError, ScheduleError, WordError
from gibbsite.sampling.start import settings_for
from gibbsite.structure.asking import first_asked
from gibbsite.structure.ways import ALL, Spread, Ways, moved_with
from numpyro import plate, sample


def sums(x):
    a = sample("a", dist.Bernoulli(0.5))
    unasked = sample("d", dist.Bernoulli(0.3))
    b = sample("b", dist.DiscreteUniform(0, 3))
    m = sample("m", dist.Normal(0.0, 1.0)) if a * 2 > b else 0.0
    sample("x", dist.Normal(m + unasked, 1.0), obs=x)


def tails(x, p=0.6):
    n = 0
    while sample(f"flip[{n}]", dist.Bernoulli(p)) == 0:
        n += 1
    sample("x", dist.Normal(1.0 * n, sample("s", dist.Gamma(3.0, 3.0))), obs=x)


def sizes(y):
    count = sample("K", dist.Poisson(2.0)) + 1
    with plate("k", count):
        mu = sample("mu", dist.Normal(0.0, 1.0))
    sample("y", dist.Normal(mu.sum(), 1.0), obs=y)


def switches(y):
    on = sample("on", dist.Bernoulli(0.4).expand([2]).to_event(1))
    total = 0.0
    for i in range(2):
        total = total + (sample(f"b[{i}]", dist.Normal(0.0, 1.0)) if on[i] else 0.0)
    sample("y", dist.Normal(total, 1.0), obs=y)


def test_what_is_asked_for_is_found_through_arithmetic():
    first = first_asked(sums, (1.0,), {}, {}, {})
    assert first is not None and first.site == "a"
    second = first_asked(sums, (1.0,), {}, {"a": np.int32(1)}, {})
    assert second is not None and (second.site, second.low, second.high) == ("b", 0, 3)
    assert first_asked(sums, (1.0,), {}, {"a": np.int32(1), "b": np.int32(0)}, {}) is None
    size = first_asked(sizes, (1.0,), {}, {}, {})
    assert size is not None and (size.site, size.low, size.high) == ("K", 0, None)
    array = first_asked(switches, (1.0,), {}, {}, {})
    assert array is not None and (array.site, array.shape, array.listed) == ("on", (2,), True)


def whole(ways, way):
    """Whether that is a way through the model, to its end."""
    nodes = [ways.node(way[:i]) for i in range(len(way) + 1)]
    return nodes[-1] is None and all(n.site == a and n.has(v) for n, (a, v) in zip(nodes, way, strict=False))


def test_a_recursion_is_asked_step_by_step():
    ways = Ways(tails, (1.0,), {})
    assert whole(ways, (("flip[0]", 0), ("flip[1]", 1)))
    assert not whole(ways, (("flip[0]", 0),))
    assert ways.all_of(10) is None
    assert len(Ways(sums, (1.0,), {}).all_of(10) or ()) == 8


def tables(y):
    """A restaurant of four guests, whose tables are numbered as they are opened."""
    count = [1.0]
    for i in range(1, 4):
        share = jnp.array([*count, 0.5])
        z = int(sample(f"z[{i}]", dist.Categorical(share / share.sum())))
        count[z : z + 1] = [count[z] + 1 if z < len(count) else 1.0]
    sample("y", dist.Normal(float(len(count)), 1.0), obs=y)


def test_what_becomes_another_choice_is_drawn_anew_in_some_moves():
    """A guest who leaves for a table of his own gives the tables of those who came later other numbers."""
    ways = Ways(tables, (1.0,), {})
    together, parted = ((("z[1]", a), ("z[2]", b), ("z[3]", b)) for a, b in ((0, 1), (1, 2)))
    kept = (("z[1]", 1), ("z[2]", 1), ("z[3]", 1))
    for a, b in ((together, parted), (parted, together), (together, kept), (kept, together)):
        assert ways.spans(a, b)
    assert len(ways.spans(together, kept)) == 2  # as numbers stay, and by chance
    assert sum(w for _, w in ways.spans(together, parted)) > ALL // 20
    assert sum(w for _, w in ways.spans(parted, together)) > ALL // 20
    free = Ways(sums, (1.0,), {})
    assert not free._other_choice((("a", 0), ("b", 1)), 0, 1)


def rows(y):
    """A vector that decides how many values a number has that is asked for later, and how long another is."""
    on = sample("on", dist.Bernoulli(0.5).expand([2]).to_event(1))
    several = 2 if on[0] else 3
    z = int(sample("z", dist.Categorical(jnp.ones(several) / several)))
    w = sample("w", dist.Bernoulli(0.5).expand([several]).to_event(1))
    sample("y", dist.Normal(float(z) + (1.0 if w[0] else 0.0), 1.0), obs=y)


@pytest.mark.share(3)
@pytest.mark.parametrize("fn", [sums, tails, sizes, switches, tables, rows])
def test_every_number_proposes_one_way_whose_interval_is_known(fn):
    """The intervals cover all numbers once, and `spans` say of each what `located` finds."""
    ways, numbers = Ways(fn, (1.0,), {}), np.random.default_rng(0)
    for _ in range(3):
        way, at, seen = ways.drawn(numbers), 0, set()
        for _ in range(60):
            low, width, other = ways.located(way, at)
            assert low == at and width > 0
            if other is not None:
                assert whole(ways, other)
                assert (low, width) in ways.spans(way, other)
                assert ways.spans(other, way) or fn in (tables, rows)
                seen.add((other, low))
            at = low + width
            if at == ALL:
                break
        assert seen
        assert at <= ALL


def test_chains_begin_one_in_each_part_of_the_prior():
    """What each is drawn from is the prior, and among all of them nothing is left out."""
    for total in (1, 2, 4, 7):
        first, second = np.array(
            [[spread.random() for _ in range(2)] for spread in (Spread(3, c, total) for c in range(total))]
        ).T
        assert sorted((first * total).astype(int)) == sorted((second * total).astype(int)) == [*range(total)]
    drawn = np.array([Spread(seed, 1, 4).random() for seed in range(400)])
    assert abs(drawn.mean() - 0.5) < 4 * 12**-0.5 / 20  # four standard errors


@pytest.mark.slow
def test_a_run_begins_in_structures_that_are_spread_over_the_prior():
    """Two sizes that are equally probable and far apart are both seen, whatever the seed."""

    def any_size(y):
        count = sample("K", dist.DiscreteUniform(1, 8))
        loc = sum(sample(f"b[{k}]", dist.Normal(0.0, 1.0)) for k in range(count))
        sample("y", dist.Normal(loc, 1.0), obs=y)

    structured = gibbsite.model(any_size, 1.0).structured
    for seed in range(4):
        starts = structured.starts(settings_for(draws=1, warmup=1, chains=4, seed=seed))
        assert sorted((dict(way)["K"] - 1) // 2 for way, _ in starts) == [0, 1, 2, 3]


def test_what_continuous_draws_decide_is_found_through_arithmetic():
    def twice(x):
        a, _ = sample("a", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        b = sample("b", dist.Gamma(1.0, 1.0))
        loc = 0.0
        if not 2.0 * a - np.float64(1.0) < b:
            loc = 1.0 if a > 3 else 2.0
        sample("x", dist.Normal(loc, abs(a) + b), obs=x)

    first = first_asked(twice, (1.0,), {}, {}, {})
    assert first is not None and (first.site, first.low, first.high) == ("a+b?", 0, 1)
    second = first_asked(twice, (1.0,), {}, {"a+b?": 0}, {})
    assert second is not None and second.site == "a?"
    assert first_asked(twice, (1.0,), {}, {"a+b?": 1}, {}) is None
    ways = Ways(twice, (1.0,), {})
    assert ways.all_of(6) == [(("a+b?", 0), ("a?", 0)), (("a+b?", 0), ("a?", 1)), (("a+b?", 1),)]
    # what is decided otherwise does not keep its value
    assert moved_with((("a+b?", 1),), (("a+b?", 0), ("a?", 1))) == {"a", "b"}
    assert moved_with((("a+b?", 0), ("a?", 0)), (("a+b?", 0), ("a?", 1))) == {"a"}


def test_functions_of_jax_take_what_decides_as_an_array():
    def gated(x, as_array):
        a, b = sample("a", dist.Normal(0.0, 1.0)), sample("b", dist.Normal(0.0, 1.0))
        rate = jax.nn.softplus(b)  # what does not decide may go anywhere
        loc = 1.0 if a > 0 else jax.nn.sigmoid(as_array(a))
        sample("x", dist.Normal(loc, rate), obs=x)

    assert Ways(gated, (1.0, jnp.asarray), {}).all_of(4) == [(("a?", 0),), (("a?", 1),)]
    with pytest.raises(ModelError, match=r"JAX does not take a, by which Python decides.*jnp.asarray"):
        Ways(gated, (1.0, lambda a: a), {}).all_of(4)


@pytest.mark.parametrize("ask", [float, np.exp, lambda a: bool(jnp.exp(a) > 1.0)])
def test_values_of_continuous_draws_are_refused(ask):
    def positive(x):
        a = sample("a", dist.Normal(0.0, 1.0))
        sample("x", dist.Normal(1.0 if ask(a) else 2.0, 1.0), obs=x)

    with pytest.raises(ModelError, match="jnp"):
        first_asked(positive, (1.0,), {}, {}, {})


def test_names_that_collide_are_told():
    """Where one way alone has a site twice; and where a plate is called as the site that is its size."""

    def twice(x):
        loc = sample("c", dist.Bernoulli(0.5))
        if loc == 1:
            loc = sample("c", dist.Normal(0.0, 1.0))
        sample("x", dist.Normal(loc, sample("s", dist.Gamma(2.0, 2.0))), obs=x)

    with pytest.raises(ModelError, match=r"where c = 1: 'c' is sampled in line \d+ already") as caught:
        gibbsite.model(twice, 0.5).sample(draws=1, warmup=0, chains=1)
    assert caught.value.entry == "sampled-twice" and caught.value.place is not None

    def size(x):
        count = sample("k", dist.Poisson(2.0))
        with plate("k", int(count) + 1):
            a = sample("a", dist.Normal(0.0, 1.0))
        sample("x", dist.Normal(a.sum(), 1.0), obs=x)

    with pytest.raises(ModelError, match="'k' is the name of a site and of a plate"):
        gibbsite.model(size, 0.5)


def test_what_is_one_structures_own_is_told():
    """A size is no site to sum out, and what belongs to one structure is not asked of all."""
    model = gibbsite.model(sizes, 1.0)
    for text in ("Eliminate [mu K] > NUTS", "Structure K > Eliminate [mu K] > NUTS"):
        with pytest.raises(
            ScheduleError, match=r"'K' decides how many.*Write 'Structure K > Eliminate mu > "
        ):
            model.schedule(text)
    with pytest.raises(ScheduleError, match=r"'K' decides.*Write 'Structure K > NUTS \*'"):
        model.sample(schedule="Gibbs K (*) NUTS mu")
    asked = (
        lambda: model.eliminate("mu", "K"),
        lambda: model.marginal("K"),
        lambda: model.conditional("mu"),
        lambda: model.observed,
        lambda: model.check(seconds=1),
        lambda: model.many([{"y": 1.0}]),
    )
    for ask in asked:
        with pytest.raises(ModelError, match=r"changes with K: model.structure\(…\)"):
            ask()


@pytest.mark.slow
def test_a_loop_that_does_not_end_is_told():
    def endless(x):
        n = 0
        while sample(f"c[{n}]", dist.Bernoulli(0.5)) >= 0:
            n += 1
        sample("x", dist.Normal(0.0, 1.0), obs=x)

    with pytest.raises(ModelError, match=r"more than 200 draws.*does not end"):
        Ways(endless, (1.0,), {}).drawn(np.random.default_rng(0))


def counted(y, wrong=False):
    n = sample("N", dist.Poisson(0.3))
    t = 0.0
    for i in range(n):
        t = t + sample(f"x{i}", dist.Normal(0, 1))
    sample("y", dist.Normal(t, dist.undefined if wrong else 0.5), obs=y)


@pytest.mark.slow
def test_a_structure_in_which_nothing_is_drawn_is_met_like_others():
    """Its density is a number, which was first asked for while moves to it were traced."""
    run = gibbsite.model(counted, np.float32(0.2)).sample(draws=200, chains=2, seed=0)
    assert {0, 1} <= set(np.unique(run.draws["N"]).tolist())


def test_what_is_misspelt_after_a_loop_is_told_and_not_the_loop():
    with pytest.raises(WordError, match="no distribution 'undefined'"):
        gibbsite.model(counted, np.float32(0.2), wrong=True)


def test_a_float_that_counts_is_told():
    def model(y):
        n = sample("N", dist.Geometric(0.4))
        for i in range(n):
            sample(f"x{i}", dist.Normal(0, 1))
        sample("y", dist.Normal(0.0, 1.0), obs=y)

    with pytest.raises(ModelError, match=r"write `int\(…\)` around it"):
        gibbsite.model(model, 0.2)


def test_a_plate_of_a_drawn_size_that_may_be_none_says_what_to_write():
    def model(y):
        K = sample("K", dist.Poisson(1.0))
        with plate("k", K):
            b = sample("b", dist.Normal(0, 1))
        sample("y", dist.Normal(b.sum(), 1.0), obs=y)

    with pytest.raises(DataError, match=r"where K = 0: a plate has no elements.*under `if K:`"):
        gibbsite.model(model, 1.0).structure(K=0)
