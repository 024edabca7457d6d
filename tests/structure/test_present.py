"""What is judged of a run over structures does not change when components are numbered anew."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import ExpressionError
from gibbsite.sampling.derived.expression import Shape, parse
from gibbsite.structure.present import Entry, InStructures, judged_in_all

CHAINS, DRAWS, ROWS = 2, 50, 7


def drawn(seed=0):
    """Draws of mixtures of one to three components, with room for three."""
    rng = np.random.default_rng(seed)
    entries = [
        Entry((("K", k),), {"mu": (k + 1,), "s": (), "z": (ROWS,), "side": (2,)}, {"z": k + 1, "side": 2})
        for k in range(3)
    ]
    index = rng.integers(0, 3, (CHAINS, DRAWS))
    raw = {
        "mu": rng.normal(size=(CHAINS, DRAWS, 3)),
        "s": rng.normal(size=(CHAINS, DRAWS)),
        "z": rng.integers(0, index[..., None] + 1, (CHAINS, DRAWS, ROWS)),
        "side": rng.integers(0, 2, (CHAINS, DRAWS, 2)),
    }
    return index, raw, entries


def numbered_anew(index, raw, seed=1):
    """The same draws, each under another order of its components."""
    rng = np.random.default_rng(seed)
    mu, z = raw["mu"].copy(), raw["z"].copy()
    for c, d in np.ndindex(index.shape):
        order = rng.permutation(index[c, d] + 1)
        mu[c, d, order] = raw["mu"][c, d, : len(order)]
        z[c, d] = order[raw["z"][c, d]]
    return {**raw, "mu": mu, "z": z}


def test_names_of_components_are_not_judged():
    index, raw, entries = drawn()
    before = judged_in_all(index, raw, entries)
    after = judged_in_all(index, numbered_anew(index, raw), entries)
    symmetric = {"mean of mu", "spread of mu", "pairs alike in z", "largest share in z"}
    assert set(before) == set(after) == symmetric | {"K", "s", "side"}
    for name, values in before.items():
        np.testing.assert_allclose(values, after[name], rtol=1e-12)
    np.testing.assert_allclose(before["mean of mu"][index == 0], raw["mu"][index == 0][:, 0])
    pairs = (raw["z"][..., :, None] == raw["z"][..., None, :]).mean((-1, -2))
    np.testing.assert_allclose(before["pairs alike in z"], pairs)


def test_what_never_changes_is_left_out():
    """The mean of weights that sum to one is the number of them once more, or nothing."""
    index, raw, entries = drawn()
    w = np.where(np.arange(3) <= index[..., None], 1 / (index[..., None] + 1), 0.0).astype(np.float32)
    entries = [Entry(e.way, {**e.shapes, "w": e.shapes["mu"]}, e.values) for e in entries]
    found = judged_in_all(index, {**raw, "w": w}, entries)
    assert "spread of w" not in found and "mean of w" in found
    same = np.ones_like(index)
    assert not {n for n in judged_in_all(same, {**raw, "w": w * 0 + 0.5}, entries) if " of w" in n}


def test_entries_are_read_as_they_were_written():
    """And those of before `values` were kept."""
    entry = drawn()[2][1]
    assert Entry.from_json(entry.as_json()) == entry
    old = {k: v for k, v in entry.as_json().items() if k != "values"}
    assert Entry.from_json(old) == Entry(entry.way, entry.shapes)


@pytest.mark.slow
def test_a_known_number_of_components_converges():
    """Two groups far apart: chains number them as they like, and the verdict does not mind."""
    y = np.concatenate([np.linspace(-9, -7, 12), np.linspace(7, 9, 12)]).astype(np.float32)

    def mixture(y):
        k = int(numpyro.sample("K", dist.Categorical(jnp.array([0.3, 0.7])))) + 1
        with numpyro.plate("component", k):
            mu = numpyro.sample("mu", dist.Normal(0, 8))
        with numpyro.plate("n", len(y)):
            z = numpyro.sample("z", dist.Categorical(jnp.ones(k) / k))
            numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)

    run = gb.model(mixture, y).sample(draws=600, seed=3)
    assert run.structures["K = 1"].probability == 1
    first = run.draws["mu"][..., 0].mean(axis=1)
    judged = {s.label for s in run._monitor.worst(run.kept)}
    assert run.verdict.ok and judged >= {"mean of mu", "spread of mu"}
    assert np.ptp(first) > 10  # some chains have the groups the other way round
    assert np.ptp(run.values("mean of mu").mean(axis=1)) < 0.5


@pytest.mark.slow
def test_what_is_derived_is_of_what_is_there():
    """Sums over a plate of drawn size, elements that a structure lacks, and what is derived of these."""

    def m(y):
        k = numpyro.sample("k", dist.Categorical(jnp.array([0.2, 0.3, 0.3, 0.2])))
        with numpyro.plate("n", int(k) + 1):
            a = numpyro.sample("a", dist.Normal(0, 3))
        b = numpyro.sample("b", dist.Normal(0, 1))
        if k > 1:
            numpyro.sample("c", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(jnp.sum(a) + b, 1), obs=y)

    run = gb.model(m, jnp.array(3.0)).sample(draws=200, chains=2, seed=0)
    a, b = (np.asarray(run.draws[n], float) for n in ("a", "b"))
    np.testing.assert_allclose(run.derive("total = sum(a)").values, np.nansum(a, -1), atol=1e-5)
    np.testing.assert_allclose(run.derive("d = a - b").values, a - b[..., None], atol=1e-5)
    np.testing.assert_allclose(run.derive("sum(d)").values, np.nansum(a - b[..., None], -1), atol=1e-5)
    last = np.take_along_axis(a, np.asarray(run.draws["k"], int)[..., None], -1)[..., 0]
    np.testing.assert_allclose(run.derive("a[-1]").values, last, atol=1e-6)
    third = run.derive("third = a[2]")
    np.testing.assert_array_equal(np.isnan(third.values), np.asarray(run.draws["k"]) < 2)
    assert "absent in" in repr(third)
    guarded = run.derive("where(k > 1, c, 0)").values
    np.testing.assert_array_equal(guarded, np.nan_to_num(run.draws["c"]))
    assert run.derive("max(a) > 4").values.dtype == bool
    for summary in (run.summary(), run.summary("total"), run.summary(["b", "total"])):
        assert float(summary.loc["total", "mean"]) == pytest.approx(np.nansum(a, -1).mean(), abs=1e-4)
    with pytest.raises(gb.GibbsiteError, match=r"no variable named 'totl'.*'total'"):
        run.summary("totl")


def test_an_element_that_is_not_there_compares_with_nothing():
    """A comparison with what a smaller structure lacks was false in its draws."""
    index, raw, entries = drawn()
    raw = {**raw, "index": index}
    mu, there = raw["mu"][..., 2], index == 2
    shapes = {"mu": Shape((3,), (None,))}

    def value(text):
        return InStructures(parse(text, shapes), "index", lambda: entries).of(raw)

    for text, own in (("mu[2] > 0", mu > 0), ("not (mu[2] > 0)", mu <= 0), ("mu[2] != 0", mu != 0)):
        np.testing.assert_array_equal(value(text), np.where(there, own, np.nan))
    first = raw["mu"][..., 0]
    decided = value("mu[0] > 0 or mu[2] > 0")
    np.testing.assert_array_equal(decided, np.where(there | (first > 0), (first > 0) | (mu > 0), np.nan))
    np.testing.assert_array_equal(value("mu[0] > 0"), first > 0)


def test_indexed_names_stand_as_they_are():
    sites = {"b[0]": Shape((), ()), "b[1]": Shape((), ()), "c": Shape((2,), (None,))}
    draws = {"b[0]": np.ones((1, 3)), "b[1]": np.full((1, 3), 2.0), "c": np.full((1, 3, 2), 5.0)}
    for text in ("b[0] + b[1] * c[0]", "`b[0]` + `b[1]` * c[0]"):
        np.testing.assert_array_equal(parse(text, sites).of(draws), np.full((1, 3), 11.0))
    with pytest.raises(ExpressionError, match="no site is called 'b'"):
        parse("b[2] + 1", sites)


def test_elements_of_plates_that_stay_have_their_labels():
    """Levels were told by numbers; of components that come and go, labels of as many would be wrong."""
    frame = pd.DataFrame({"g": ["u", "v"] * 5, "y": np.linspace(0, 1, 10)})

    def model(d):
        count = int(numpyro.sample("K", dist.Categorical(jnp.ones(2) / 2))) + 1
        with numpyro.plate("k", count):
            mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("G", d.g):
            e = numpyro.sample("e", dist.Normal(0, 0.3))
        with numpyro.plate("n", len(d)):
            numpyro.sample("y", dist.Normal(e[d.g] + mu.sum(), 1.0), obs=d.y)

    run = gb.model(model, frame).sample(draws=60, warmup=10, chains=2)
    assert list(run.summary().index) == ["K", "mu[0]", "mu[1]", "e[u]", "e[v]"]
    assert list(run.to_datatree().posterior.e.coords["G"].values) == ["u", "v"]
