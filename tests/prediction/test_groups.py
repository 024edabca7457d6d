"""New tables of groups: rows of the groups that are new, some of the model's own, in any order."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

SCHOOLS = pd.DataFrame({"name": list("abcd"), "size": [1.0, 2.0, 3.0, 4.0]})
PUPILS = pd.DataFrame({"school": np.repeat(list("abcd"), 30)})
PUPILS["y"] = PUPILS.school.map(dict(zip("abcd", [1.0, 2.0, 3.0, 4.0], strict=True)))
PUPILS["y"] += 0.3 * np.random.default_rng(0).normal(size=120)


def by_column(schools, pupils):
    b = numpyro.sample("b", dist.Normal(0, 3))
    with numpyro.plate("school", schools.name):
        u = numpyro.sample("u", dist.Normal(b * schools["size"], 0.1))
    with numpyro.plate("pupil", len(pupils)):
        numpyro.sample("y", dist.Normal(u[pupils.school], 0.3), obs=pupils.y)


def by_length(schools, pupils):
    b = numpyro.sample("b", dist.Normal(0, 3))
    with numpyro.plate("school", len(schools)):
        u = numpyro.sample("u", dist.Normal(b * schools["size"], 0.1))
    with numpyro.plate("pupil", len(pupils)):
        numpyro.sample("y", dist.Normal(u[pupils.school], 0.3), obs=pupils.y)


WAYS = {"column": (by_column, False), "length": (by_length, False), "index": (by_length, True)}


@pytest.fixture(scope="module", params=WAYS)
def asked(request):
    fn, indexed = WAYS[request.param]

    def as_given(names, sizes):
        schools = pd.DataFrame({"name": [*names], "size": np.asarray(sizes, float)})
        return schools.set_index("name") if indexed else schools

    run = gb.model(fn, as_given(SCHOOLS.name, SCHOOLS["size"]), PUPILS).sample(draws=400, chains=2, seed=0)

    def predicted(names, sizes, of):
        return run.predict(schools=as_given(names, sizes), pupils=pd.DataFrame({"school": [*of]}))

    return run, as_given, predicted


@pytest.mark.share(15)
@pytest.mark.parametrize(
    ("names", "sizes", "of", "means"),
    [
        (["a", "aa", "b", "c", "d"], [1, 10, 2, 3, 4], ["aa", "a", "d"], [10, 1, 4]),  # in another order
        ("fe", [20, 10], "ef", [10, 20]),  # of the new ones alone
        ("fe", [20, 10], "fa", [20, 1]),  # of which not all are asked for
        ("db", [4, 2], "da", [4, 1]),  # some of the model's own
    ],
)
def test_rows_of_groups_are_found_by_their_names(asked, names, sizes, of, means):
    found = asked[2](names, sizes, of)
    # b is known to .03, which the size multiplies; u and the mean of 800 y to .06 and .02
    assert np.abs(found.draws["y"].mean((0, 1)) - means).max() < 4 * np.hypot(0.07, 0.03 * max(means))
    new = {*names} - set("abcd")
    assert (f"{len(new)} new: u drawn from" in str(found.note)) == bool(new)


def test_groups_that_are_known_have_their_effects_whatever_size_they_have_now(asked):
    told = "'size'] moved: u, drawn from .* stays as the run drew it"
    with pytest.warns(UserWarning, match=told):
        found = asked[2]("ad", [7, 9], "ad")
    assert np.abs(found.draws["y"].mean((0, 1)) - [1, 4]).max() < 0.3
    run, as_given, _ = asked
    given = {"schools": as_given("ade", [1, 4, 5]), "pupils": pd.DataFrame({"school": ["a", "e"]})}
    with pytest.warns(UserWarning, match=told):  # beside a new one
        found = run.predict(**given, do={"size": 2.0})
    assert np.abs(found.draws["y"].mean((0, 1)) - [1, 2]).max() < 0.3


def test_groups_alone(asked):
    run, as_given, _ = asked
    found = run.predict(schools=as_given("fe", [20, 10]))
    assert found.draws["y"].shape == (2, 400, 120) and "4 school known, 2 new" in str(found.note)


def test_rows_are_those_of_who_is_asked_for(asked):
    run, as_given, _ = asked
    pupils = pd.DataFrame({"school": ["e", "f"]}, index=["Ann", "Ben"])
    found = run.predict(schools=as_given("fe", [20, 10]), pupils=pupils)
    assert list(found.to_frame().index) == ["Ann", "Ben"]


def test_groups_without_a_row_or_with_two_are_refused(asked):
    with pytest.raises(gb.GibbsiteError, match=r"pupils\['school'\].* holds 'q', of which neither the model"):
        asked[2]("fe", [20, 10], "fq")
    if "name" in asked[1]("f", [1]).columns:
        with pytest.raises(gb.GibbsiteError, match="has 2 rows of 'f': a group has one row"):
            asked[2]("ff", [20, 10], "f")


@pytest.mark.slow
def test_groups_that_have_outcomes():
    """The new ones have them, too: `IndexError` of rows of another table."""
    rated = SCHOOLS.assign(rating=3 * SCHOOLS["size"] + [0.1, -0.1, 0.05, -0.05])

    def model(schools, pupils):
        b, c = numpyro.sample("b", dist.Normal(0, 3)), numpyro.sample("c", dist.Normal(0, 3))
        with numpyro.plate("school", schools.name):
            u = numpyro.sample("u", dist.Normal(b * schools["size"], 0.1))
            numpyro.sample("rating", dist.Normal(c * u, 0.2), obs=schools.rating)
        with numpyro.plate("pupil", len(pupils)):
            mean = u[pupils.school] + numpyro.sample("k", dist.Normal(0, 0.1)) * pupils.x
            numpyro.sample("y", dist.Normal(mean, 0.3), obs=pupils.y)

    rng = np.random.default_rng(1)
    run = gb.model(model, rated, PUPILS.assign(x=rng.normal(size=120))).sample(draws=400, chains=2, seed=0)
    new = pd.DataFrame({"name": ["f", "b", "e"], "size": [20.0, 2.0, 10.0]})
    found = run.predict(schools=new, pupils=pd.DataFrame({"school": ["e", "b"], "x": 0.0}))
    assert np.abs(found.draws["y"].mean((0, 1)) - [10, 2]).max() < 0.5
    assert list(found.to_frame("rating").index) == [*"abcdfe"]
    assert np.abs(found.draws["rating"].mean((0, 1)) / [3, 6, 9, 12, 60, 30] - 1).max() < 0.06
    one = {"schools": new.iloc[2:], "pupils": pd.DataFrame({"school": ["e"], "x": [0.0]})}
    with pytest.raises(gb.GibbsiteError, match=r"'rating' has shape \(5,\) there, and \(1,\) is given"):
        run.predict(**one, given={"rating": [30.0]})


@pytest.mark.slow
def test_two_tables_of_the_same_groups():
    def model(sizes, towns, pupils):
        b = numpyro.sample("b", dist.Normal(0, 3))
        with numpyro.plate("school", len(sizes)):
            u = numpyro.sample("u", dist.Normal(b * sizes["size"] + towns["rich"], 0.1))
        with numpyro.plate("pupil", len(pupils)):
            numpyro.sample("y", dist.Normal(u[pupils.school], 0.3), obs=pupils.y)

    towns = pd.DataFrame({"name": list("abcd"), "rich": 0.0})
    run = gb.model(model, SCHOOLS, towns, PUPILS).sample(draws=400, chains=2, seed=0)
    new = {
        "sizes": pd.DataFrame({"name": ["f", "e"], "size": [20.0, 10.0]}),
        "towns": pd.DataFrame({"name": ["e", "b", "f"], "rich": [1.0, 0.0, 2.0]}),
        "pupils": pd.DataFrame({"school": ["e", "f", "b"]}),
    }
    found = run.predict(**new).draws["y"].mean((0, 1))
    assert np.abs(found - [11, 22, 2]).max() < 4 * 0.6
    with pytest.raises(gb.GibbsiteError, match="'towns' lacks a row of 'f', and another has one"):
        run.predict(**new | {"towns": new["towns"].iloc[:2]})


@pytest.mark.slow
def test_groups_that_are_columns_of_outcomes():
    """Nothing picks by their names: they were those of the run, in its order, whatever the new table had."""
    table = pd.DataFrame({"name": list("abc"), "w": [1.0, 2.0, 3.0]})
    y = np.array([0.0, 3.0, -3.0]) + np.random.default_rng(0).normal(0, 0.4, (25, 3))

    def wide(groups, y):
        with numpyro.plate("group", groups.name):
            a = numpyro.sample("a", dist.Normal(0, 5))
        with numpyro.plate("time", y.shape[0], dim=-2), numpyro.plate("one", y.shape[1], dim=-1):
            numpyro.sample("y", dist.Normal(a, 0.4), obs=y)

    run = gb.model(wide, table, y).sample(draws=300, chains=2, seed=0)
    for names, mean in (("cba", [-3, 3, 0]), ("b", [3]), ("zb", [0, 3])):
        groups = pd.DataFrame({"name": [*names], "w": 2.0})
        found = run.predict(groups=groups, y=np.full((2, len(names)), np.nan))
        assert found.draws["y"].shape == (2, 300, 2, len(names))
        assert np.abs(found.draws["y"].mean((0, 1)) - mean).max() < 4 * 5 / 600**0.5
        known = [i for i, n in enumerate(names) if n != "z"]
        assert (found.draws["y"][..., known].std((0, 1)) < 0.6).all()


@pytest.mark.slow
def test_numbers_of_categories_grow_with_them():
    """`df.g.nunique()` was that of the run, where a plate over `df.g` had one more."""

    def model(df):
        with numpyro.plate("g", df.g):
            u = numpyro.sample("u", dist.Normal(jnp.zeros(df.g.nunique()), 3.0))
        hot = jax.nn.one_hot(df.g, len(df.g.cat.categories))
        numpyro.sample("y", dist.Normal(hot @ u, 0.5), obs=df.y)

    rows = pd.DataFrame({"g": np.repeat(list("abc"), 20), "y": np.repeat([1.0, 2.0, 3.0], 20)})
    run = gb.model(model, rows).sample(draws=300, chains=2, seed=0)
    found = run.predict(pd.DataFrame({"g": ["z", "c"]})).draws["y"]
    assert np.abs(found.mean((0, 1)) - [0, 3]).max() < 4 * 3 / 600**0.5 and found[..., 0].std() > 2


@pytest.mark.slow
def test_other_new_names_take_no_other_program():
    """Each of many predictions has a new name; what differs is told by the program, as where it asks them."""

    def model(df, words):
        with numpyro.plate("g", df.g):
            u = numpyro.sample("u", dist.Normal(0, 3.0))
        long = jnp.array([1.0 if words and len(t) > 1 else 0.0 for t in gb.levels(df.g)])
        numpyro.sample("y", dist.Normal((u + 100 * long)[df.g], 0.5), obs=df.y)

    rows = pd.DataFrame({"g": np.repeat(list("abc"), 5), "y": np.repeat([1.0, 2.0, 3.0], 5)})
    for words in (False, True):
        run = gb.model(model, rows, words).sample(draws=50, warmup=50, chains=1, seed=0)
        kept = run.model.density.cache.setdefault("predictions", {})
        found = {}
        for name in ("x", "yy", "zz"):
            found[name] = run.predict(df=pd.DataFrame({"g": [name]})).draws["y"].mean()
            assert (found[name] > 50) == (words and len(name) > 1)
        assert len(kept) == 1 + words


@pytest.mark.slow
def test_data_of_two_lengths():
    """Rows of one were looked for in the other: `IndexError`."""

    def joint(c, signal, x, y):
        a, b = (numpyro.sample(n, dist.Normal(0, 3)) for n in "ab")
        numpyro.sample("signal", dist.Normal(a + b * c, 0.3), obs=signal)
        numpyro.sample("y", dist.Normal(a + b * (1 + x), 0.3), obs=y)

    c, x = np.linspace(0, 1, 12), np.linspace(-1, 1, 40)
    run = gb.model(joint, c, 1 + 2 * c, x, 3 + 2 * x).sample(draws=300, chains=2, seed=0)
    np.testing.assert_allclose(
        run.predict(x=np.array([0.0, 1.0]), y=None).to_frame("y")["mean"], [3, 5], atol=0.15
    )
    assert abs(run.effects("x", site="y").to_frame()["mean"].iloc[-1]) > 0


def in_one_plate(table):
    b, tau = numpyro.sample("b", dist.Normal(0, 3)), numpyro.sample("tau", dist.HalfNormal(3))
    with numpyro.plate("s", table.name):
        u = numpyro.sample("u", dist.Normal(b * table["size"], tau))
        numpyro.sample("y", dist.Normal(u, 0.1), obs=table.y)


def picked_by_name(table):
    b, tau = numpyro.sample("b", dist.Normal(0, 3)), numpyro.sample("tau", dist.HalfNormal(3))
    with numpyro.plate("s", len(gb.levels(table.name))):
        u = numpyro.sample("u", dist.Normal(b, tau))
    with numpyro.plate("n", len(table)):
        numpyro.sample("y", dist.Normal(u[table.name], 0.1), obs=table.y)


@pytest.mark.share(3)
@pytest.mark.parametrize("model", [in_one_plate, picked_by_name])
def test_one_row_for_each_group(model):
    """Of eight schools a ninth had eight rows, with the numbers of the eight, and two were refused."""
    table = pd.DataFrame({"name": list("abcd"), "size": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, 8.0, 4.0]})
    run = gb.model(model, table).sample(draws=400, chains=2, seed=0)
    for names in ("z", "c", "cz", "czab", "dcba", "abcdz"):
        sizes = [dict(zip("abcdz", range(1, 6), strict=True))[n] for n in names]
        found = run.predict(pd.DataFrame({"name": [*names], "size": np.array(sizes, float)})).draws["y"]
        assert found.shape == (2, 400, len(names))
        for i, name in enumerate(names):
            if name == "z":
                assert found[..., i].std() > 1
            else:
                known = table.y[table.name == name].item()
                assert abs(found[..., i].mean() - known) < 0.1 and found[..., i].std() < 0.3


def test_what_is_looked_up_of_groups_that_have_no_latent():
    """Nothing is to be drawn of new ones: their table says all that the model asks for."""

    def looked_up(schools, pupils):
        b = numpyro.sample("b", dist.Normal(0, 3))
        with numpyro.plate("pupil", len(pupils)):
            numpyro.sample("y", dist.Normal(b * schools["size"][pupils.school], 0.3), obs=pupils.y)

    own = SCHOOLS.set_index("name")
    run = gb.model(looked_up, own, PUPILS).sample(draws=400, chains=2, seed=0)
    new = pd.DataFrame({"size": [10.0, 20.0]}, index=["e", "f"])
    p = run.predict(schools=new, pupils=pd.DataFrame({"school": ["f", "a", "e"]}))
    np.testing.assert_allclose(p.expected["y"].mean((0, 1)), [20, 1, 10], rtol=0.05)
    with pytest.raises(
        gb.GibbsiteError, match="of which neither the model's 'schools' nor the new one has a row"
    ):
        run.predict(schools=new, pupils=pd.DataFrame({"school": ["g"]}))


@pytest.mark.slow
def test_tables_in_the_order_of_the_arguments():
    run = gb.model(by_column, SCHOOLS, PUPILS).sample(draws=50, chains=2, seed=0)
    schools = pd.DataFrame({"name": ["e"], "size": [10.0]})
    pupils = pd.DataFrame({"school": ["e", "a"]})
    p = run.predict(schools, pupils, seed=1)
    assert (p.draws["y"] == run.predict(schools=schools, pupils=pupils, seed=1).draws["y"]).all()
    q = run.model.predict(SCHOOLS, PUPILS[:3], draws=20)
    assert q.draws["y"].shape[-1] == 3
    with pytest.raises(gb.GibbsiteError, match="3 values are given, and the model takes 2: schools, pupils"):
        run.predict(schools, pupils, 3)
    with pytest.raises(gb.GibbsiteError, match="'pupils' is given twice"):
        run.predict(schools, pupils, pupils=pupils)
