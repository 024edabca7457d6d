"""NumPy and Python on the data of a model: what they touch stays as it is, the rest is an input."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from helpers.startup.arrays import array

X, G = np.array([0.1, 0.2, 0.3]), np.array([0, 1, 1])


def observed(mean, x):
    with numpyro.plate("n", 3):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=x)


def size_from_data(x, g):
    observed(numpyro.sample("mu", dist.Normal(0, 1).expand([int(np.max(g)) + 1]))[g], x)


def logarithm(x, g):
    observed(numpyro.sample("mu", dist.Normal(0, 1)) * np.log(x + 1), g)


def joined(x, g):
    observed(numpyro.sample("mu", dist.Normal(0, 1)) + np.concatenate([x[:1], x[1:]]), g)


def loop(x, g):
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([2]))
    for i in range(3):
        numpyro.sample(f"y{i}", dist.Normal(mu[int(g[i])], 1.0), obs=x[i])


def branch(x, g):
    mu = numpyro.sample("mu", dist.Normal(0, 1 if x[0] > 0 else 2))
    observed(mu, g)


def selected(x, g):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("n", int(np.sum(g))):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=x[g > 0])


def keyword_levels(x, g):
    levels, place = np.unique(g, return_inverse=True)
    observed(numpyro.sample("mu", dist.Normal(0, 1).expand([len(levels)]))[place], x)


def by_column(x, g):
    """A dictionary of columns, as NumPyro's examples have them."""
    table = {"g": np.asarray(g), "x": x}
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([table["g"].max() + 1]))
    observed(mu[table["g"]] + table["x"], table["x"])


def slices(x, g):
    """Numbers of thresholds that differ by item, as in an ordinal regression."""
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([3]))
    for i in range(3):
        numpyro.sample(f"y{i}", dist.Normal(mu[: g[i] + 1].sum(), 1.0), obs=x[i])


CASES = {
    size_from_data: {"x"},
    logarithm: {"g"},
    joined: {"g"},
    loop: {"x"},
    slices: {"x"},
    branch: {"g"},
    selected: {"x", "g"},
    keyword_levels: {"x"},
    by_column: {"x"},
}


@pytest.mark.share(3)
@pytest.mark.parametrize("model", CASES)
def test_only_what_was_touched_is_fixed(model):
    x = X.astype(np.float32)
    m = gb.model(model, x, g=G)
    names = set(m.density.arguments.names)
    assert names <= CASES[model] and (names == CASES[model] or model is selected)
    assert m.conditional("mu").kind == "conjugate"
    state = {"mu": np.full(m.sites["mu"].shape, 0.3, np.float32)}
    run = m.sample(draws=3, warmup=0, chains=1, seed=0)
    assert np.isfinite(run.draws["mu"]).all() and np.isfinite(m.density.log_joint(state))


@pytest.mark.parametrize("model", [size_from_data, loop, slices, branch, keyword_levels])
def test_arrays_of_jax_serve_as_numpys(model):
    m = gb.model(model, jnp.asarray(X), g=jnp.asarray(G))
    assert m.conditional("mu").kind == "conjugate"


@pytest.mark.parametrize("n", [3, np.int64(3), np.array(3), array(3)])
def test_a_size_may_be_any_kind_of_whole_number(n):
    def sized(x, n):
        mu = numpyro.sample("mu", dist.Normal(0, 1).expand([n]).to_event(1))
        with numpyro.plate("n", n):
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=x)

    assert gb.model(sized, X, n).sites["mu"].shape == (3,)


@pytest.mark.parametrize(
    "taken",
    [
        lambda t: t["x"].values,
        lambda t: t.x.to_numpy(),
        lambda t: t.x.to_numpy(dtype=float),
        lambda t: t[["x"]].values[:, 0],
        lambda t: t.x[np.argsort(-t.g)[::-1]],
        lambda t: np.take(t.x.values, t.g),
        lambda t: jnp.asarray(np.sort(t.x)) + t.x.values - t.x.to_numpy(),
        lambda t: (np.sort(t["x"].values) + 1 - t.x).values * np.max(t.g.values),
        lambda t: np.asarray(t[["g", "x"]])[:, 1],
        lambda t: np.array([0.5, 2.0])[pd.factorize(t.g)[0]] * len(t.g.unique()),
    ],
)  # fmt: skip
def test_columns_answer_as_in_pandas_and_to_numpy(taken):
    table = pd.DataFrame({"x": X.astype(np.float32), "g": G})

    def model(t):
        observed(numpyro.sample("b", dist.Normal(0, 1)) * taken(t), t.g.values)

    found = gb.model(model, table).density.log_joint({"b": jnp.float32(0.7)})
    wanted = dist.Normal(0.7 * np.asarray(taken(table)), 1.0).log_prob(G).sum()
    np.testing.assert_allclose(found, wanted + dist.Normal(0, 1).log_prob(0.7), rtol=1e-5)
    assert not hasattr(jnp.ones(2), "values")
    assert "values" not in dir(jnp.ones(2))


def test_columns_tell_how_many_values_they_have_and_their_codes():
    table = pd.DataFrame({"x": X, "g": G, "k": pd.Categorical(["u", "v", "u"])})

    def model(t):
        a = numpyro.sample("a", dist.Normal(0, 1).expand([t.g.nunique()]).to_event(1))
        b = numpyro.sample("b", dist.Normal(0, 1).expand([t["k"].nunique()]).to_event(1))
        observed(a[t.g] + b[t.k.cat.codes.values], t.x.to_numpy())

    made = gb.model(model, table)
    sites = made.sites
    assert "observed(" in str(made.tape)  # other ways that call the function
    with numpyro.handlers.seed(rng_seed=0):
        made()
    assert sites["a"].shape == sites["b"].shape == (2,)

    def wrong(t):
        observed(numpyro.sample("b", dist.Normal(0, 1)) * t.x.cat.codes, t.x)

    with pytest.raises(gb.GibbsiteError, match=r"'cat'.*done before the cell"):
        gb.model(wrong, table)


def test_what_needs_a_latent_is_still_said_to():
    def model(x, g):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        observed(np.log(mu + x), g)

    with pytest.raises(gb.GibbsiteError, match=r"needs the value of .*random variable"):
        gb.model(model, jnp.asarray(X), g=G)
