"""Missing observations: imputed models against ones written by hand, masks and drops against fewer rows."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from gibbsite.errors import DataError, OptionError
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from scipy import stats

RNG = np.random.default_rng(5)
N = 12
X = RNG.normal(size=N).astype(np.float32)
Y = (X + RNG.normal(size=N)).astype(np.float32)
K = RNG.poisson(3, N).astype(np.float32)
GAPS, OTHER = np.array([2, 7]), np.array([0, 7, 11])
X_GAPS, Y_GAPS, K_GAPS = (v.copy() for v in (X, Y, K))
X_GAPS[GAPS], Y_GAPS[OTHER], K_GAPS[GAPS] = np.nan, np.nan, np.nan


def chain(x, y, k):
    b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("n", len(y)):
        x = numpyro.sample("x", dist.Normal(1.0, 2.0), obs=x)
        k = numpyro.sample("k", dist.Poisson(jnp.exp(0.3 * x)), obs=k)
        numpyro.sample("y", dist.Normal(b * x + 0.1 * k, 1.5), obs=y)


def by_hand(x, y, k):
    b = numpyro.sample("b", dist.Normal(0, 1))
    x_new = numpyro.sample("x_missing", dist.Normal(1.0, 2.0).expand([2]))
    x = jnp.asarray(x).at[GAPS].set(x_new)
    rate = jnp.exp(0.3 * x)
    k_new = numpyro.sample("k_missing", dist.Poisson(rate[GAPS]))
    there = np.setdiff1d(np.arange(N), GAPS)
    numpyro.sample("k", dist.Poisson(rate[there]), obs=k[there])
    numpyro.sample("x", dist.Normal(1.0, 2.0), obs=x[there])
    loc = b * x + 0.1 * jnp.asarray(k).at[GAPS].set(k_new)
    numpyro.sample("y_missing", dist.Normal(loc[OTHER], 1.5))
    seen = np.setdiff1d(np.arange(N), OTHER)
    numpyro.sample("y", dist.Normal(loc[seen], 1.5), obs=y[seen])


@pytest.fixture(scope="module")
def imputed():
    return gb.model(chain, X_GAPS, Y_GAPS, K_GAPS, missing="impute")


def states():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        yield {
            "b": jnp.float32(rng.normal()),
            "x_missing": jnp.asarray(rng.normal(size=2), jnp.float32),
            "k_missing": jnp.asarray(rng.poisson(3, 2), jnp.int32),
            "y_missing": jnp.asarray(rng.normal(size=3), jnp.float32),
        }


@pytest.mark.slow
def test_the_joint_density_is_that_of_the_model_by_hand(imputed):
    hand = gb.model(by_hand, X_GAPS, Y_GAPS, K_GAPS, check_values=False, missing="mask")
    roles = {n: s.role for n, s in imputed.sites.items()}
    assert {n for n, r in roles.items() if r == "latent"} == {"b", "x_missing", "k_missing", "y_missing"}
    for state in states():
        np.testing.assert_allclose(imputed.density.log_joint(state), hand.density.log_joint(state), rtol=2e-5)


def test_imputed_sites_are_as_good_as_any(imputed):
    assert imputed.sites["x_missing"].fn_name == "Normal"
    assert imputed.sites["k_missing"].discrete
    assert imputed.conditional("b").kind == "conjugate"
    assert imputed.generated == ("y_missing",)  # nothing depends on it: drawn forward
    assert {"x_missing", "y_missing"} <= set(map(str, imputed.graph.nodes))


def classes(z, y):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(3)))
    mu = numpyro.sample("mu", dist.Normal(0, 3).expand([3]).to_event(1))
    z = numpyro.sample("z", dist.Categorical(w).expand([len(y)]).to_event(1), obs=z)
    numpyro.sample("y", dist.Normal(mu[z], 1.0).to_event(1), obs=y)


def test_a_missing_category_is_drawn_by_enumeration():
    z = np.array([0.0, 1, 2, np.nan, 0, 1, 2, 2, 1, np.nan, 0, 0])
    model = gb.model(classes, z, Y, missing="impute")
    conditional = model.conditional("z_missing")
    assert conditional.kind == "finite"
    w, mu = np.array([0.2, 0.3, 0.5]), np.array([-1.0, 0.0, 1.0])
    state = {"w": jnp.asarray(w, jnp.float32), "mu": jnp.asarray(mu, jnp.float32)}
    exact = np.log(w) - 0.5 * (Y[[3, 9], None] - mu) ** 2
    exact -= np.log(np.exp(exact).sum(-1, keepdims=True))
    np.testing.assert_allclose(conditional.logits(state), exact, rtol=1e-4, atol=1e-5)


def line(y, x):
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(a * x, 1.0), obs=y)


@pytest.mark.parametrize("way", ["mask", "drop", "impute"])
def test_what_is_missing_at_the_end_tells_nothing_of_the_rest(way):
    seen = np.setdiff1d(np.arange(N), OTHER)
    model, fewer = gb.model(line, Y_GAPS, X, missing=way), gb.model(line, Y[seen], X[seen])
    at = [model.density.log_joint({"a": jnp.float32(a), "y_missing": jnp.zeros(3)}) for a in (0.3, -0.8)]
    if way == "impute":
        at = [
            v - float(np.sum(dist.Normal(a * X[OTHER], 1.0).log_prob(0.0)))
            for v, a in zip(at, (0.3, -0.8), strict=True)
        ]
    exact = [fewer.density.log_joint({"a": jnp.float32(a)}) for a in (0.3, -0.8)]
    np.testing.assert_allclose(at, exact, rtol=1e-4)
    assert len(model.observed["y"]) == (N - 3 if way == "drop" else N)


def test_nullable_columns_and_masked_arrays():
    frame = pd.DataFrame({"y": pd.array([1, None, 3, 0] * 3, dtype="Int64"), "x": X})

    def table(df):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 1.0))
        numpyro.sample("k", dist.Poisson(rate), obs=df.y)

    assert gb.model(table, frame, missing="impute").sites["k_missing"].shape == (3,)
    masked = np.ma.masked_array(Y, mask=np.isnan(Y_GAPS))
    assert gb.model(line, masked, X, missing="impute").sites["y_missing"].shape == (3,)


def pairs(y):
    m = numpyro.sample("m", dist.Normal(0, 1))
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(2) + m, jnp.eye(2)), obs=y)


def tailed_pairs(y):
    m = numpyro.sample("m", dist.Normal(0, 1))
    numpyro.sample("y", dist.MultivariateStudentT(4.0, jnp.zeros(2) + m, jnp.eye(2)), obs=y)


def test_events_that_are_drawn_as_a_whole():
    y = np.zeros((4, 2), np.float32)
    y[1] = np.nan
    assert gb.model(pairs, y, missing="impute").sites["y_missing"].shape == (1, 2)
    y[2, 0] = np.nan
    with pytest.raises(DataError, match=r"only some elements are missing; MultivariateStudentT.*mask"):
        gb.model(tailed_pairs, y, missing="impute")
    gb.model(pairs, y, missing="mask")
    with pytest.raises(DataError, match="each of the 2 rows has something missing"):
        gb.model(pairs, y[1:3], missing="drop")
    with pytest.raises(OptionError, match=r"impute, mask, drop"):
        gb.model(pairs, y, missing="guess")


def test_a_run_of_an_imputed_model():
    run = gb.model(line, Y_GAPS, X, missing="impute").sample(draws=20, warmup=20, chains=2)
    assert run.draws["y_missing"].shape == (2, 20, 3)
    assert run.to_datatree()["observed_data"]["y"].shape == (N,)


@pytest.mark.share(3)
@pytest.mark.parametrize("gone", [[1], [1, 3], [0, 1, 3]])
@pytest.mark.parametrize("what", ["mask", "scale", "scope", "events"])
def test_imputation_under_handlers_of_the_model(what, gone):
    keep, weights = np.array([True, True, False, True]), np.array([1.0, 2.0, 3.0, 0.5])

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        within = {
            "mask": lambda: handlers.mask(mask=keep),
            "scale": lambda: handlers.scale(scale=weights),
            "scope": lambda: handlers.scope(prefix="a"),
            "events": lambda: handlers.scale(scale=weights),
        }[what]
        fn = dist.Normal(mu, jnp.ones((4, 2))).to_event(1) if what == "events" else dist.Normal(mu, 1.0)
        with numpyro.plate("n", 4), within():
            numpyro.sample("y", fn, obs=y)

    y = np.linspace(-1, 1, 8 if what == "events" else 4).astype(np.float32)
    y = y.reshape(4, 2) if what == "events" else y
    full = y + 0.25
    y[gone] = np.nan
    prefix = "a/" if what == "scope" else ""
    density = gb.model(model, y, missing="impute").density
    lost = np.isnan(y)
    assert density.sites[f"{prefix}y_missing"].shape == (int(lost.sum()),)
    found = density.log_joint({"mu": 0.3, f"{prefix}y_missing": full[lost]})
    each = stats.norm.logpdf(np.where(lost, full, y), 0.3, 1)
    each = each.sum(1) if what == "events" else each
    counted = keep if what == "mask" else weights if what in ("scale", "events") else np.ones(4)
    np.testing.assert_allclose(found, stats.norm.logpdf(0.3) + (counted * each).sum(), rtol=1e-5)


def test_dropped_rows_take_their_labels_with_them():
    def units(d):
        with numpyro.plate("rows", len(d["y"])):
            u = numpyro.sample("u", dist.Normal(0, 1))
            numpyro.sample("y", dist.Normal(u, 1), obs=d["y"])

    d = pd.DataFrame({"y": [1.0, np.nan, 3.0, 4.0]}, index=list("pqrs"))
    run = gb.model(units, d=d, missing="drop").sample(draws=20, chains=1)
    assert list(run.predict().to_frame("y").index) == ["p", "r", "s"]
    assert "u[r]" in run.summary().index
    assert "3 rows known, 1 new" in run.predict(d).note
    numbered = gb.model(units, d=d.reset_index(drop=True), missing="drop")
    assert numbered.labels["index of d"] == ("0", "2", "3")


def _observed(mean, y):
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def by_number(y, x):
    _observed(numpyro.sample("b", dist.Normal(0, 1)) * jnp.arange(len(y)), y)


def by_the_row_before(y, x):
    _observed(numpyro.sample("b", dist.Normal(0, 1)) * jnp.concatenate([jnp.zeros(1), x[:-1]]), y)


def by_steps(y, x):
    with numpyro.plate("steps", len(y)):
        e = numpyro.sample("e", dist.Normal(0, 1))
    _observed(jnp.cumsum(e), y)


def by_a_walk(y, x):
    _observed(numpyro.sample("w", dist.GaussianRandomWalk(1.0, len(y))), y)


def by_an_observed_walk(y, x):
    numpyro.sample("y", dist.GaussianRandomWalk(numpyro.sample("s", dist.HalfNormal(1)), len(y)), obs=y)


def by_a_loop(y, x):
    def step(level, seen):
        level = numpyro.sample("level", dist.Normal(level, 0.3))
        return level, numpyro.sample("y", dist.Normal(level, 1.0), obs=seen)

    scan(step, 0.0, y)


def jointly(y, places):
    apart = places[:, None] - places
    around = dist.MultivariateNormal(
        0.0, scale_tril=jnp.linalg.cholesky(jnp.exp(-(apart**2) / 9) + 0.1 * jnp.eye(len(y)))
    )
    numpyro.sample("y", around, obs=y - numpyro.sample("m", dist.Normal(0, 1)))


def by_numbers_of_a_process(y, x):
    jointly(y, 1.0 * jnp.arange(len(y)))


def by_times_of_a_process(y, x):
    jointly(y, 9.0 * x)


def by_itself(y, x):
    """Centred by all rows, with an effect for each and one for its group: it goes by no place."""
    with numpyro.plate("groups", 2):
        u = numpyro.sample("u", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        e = numpyro.sample("e", dist.Normal(0, 1))
    _observed((x - x.mean()) / x.std() + u[(x > 0).astype(int)] + e, y)


@pytest.mark.parametrize(
    "of",
    [
        by_number,
        by_the_row_before,
        by_steps,
        by_a_walk,
        by_an_observed_walk,
        by_a_loop,
        by_numbers_of_a_process,
    ],
)
def test_rows_are_not_dropped_from_before_others_where_places_mean_something(of):
    """A slope of 1 a day was 4 where 14 of 20 days were missing, "converged"."""
    with pytest.raises(DataError, match=r"before others \(2, the first is 2\).*missing='mask'"):
        gb.model(of, np.where(np.isin(np.arange(N), GAPS), np.nan, Y), X, missing="drop")
    behind = np.where(np.arange(N) > 8, np.nan, Y)
    assert gb.model(of, behind, X, missing="drop").sites["y"].shape == (9,)


@pytest.mark.parametrize("of", [by_itself, by_times_of_a_process])
def test_rows_that_stand_for_themselves_are_dropped(of):
    gaps = np.where(np.isin(np.arange(N), GAPS), np.nan, Y)
    assert gb.model(of, gaps, X, missing="drop").sites["y"].shape == (N - 2,)


def test_a_mask_is_refused_where_others_read_what_is_missing():
    def measured(d):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("rows", len(d)):
            x = numpyro.sample("x", dist.Normal(0, 1), obs=d["x"])
            numpyro.sample("y", dist.Normal(b * x, 1), obs=d["y"])

    d = pd.DataFrame({"x": [1.0, np.nan, 2.0, 0.5], "y": [1.0, 2.0, 3.0, 0.0]})
    with pytest.raises(DataError, match=r"'x'.* is missing at \[1\], and 'y' reads it there.*'impute' draws"):
        gb.model(measured, d=d, missing="mask")
    d.loc[1, "y"] = np.nan  # nobody reads it now that counts
    assert gb.model(measured, d=d, missing="mask").sample(draws=20, chains=1).draws["b"].shape == (1, 20)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["mask", "drop", "impute"])
@pytest.mark.parametrize("family", ["categorical", "poisson", "ordered"])
def test_missing_codes_and_counts_are_dealt_with_whatever_type_they_have_become(family, way):
    def model(y, x):
        a = numpyro.sample("a", dist.Normal(0, 1))
        drawn = {
            "categorical": lambda m: dist.Categorical(logits=jnp.stack([m, 0 * m, -m], -1)),
            "poisson": lambda m: dist.Poisson(jnp.exp(m)),
            "ordered": lambda m: dist.OrderedLogistic(m, jnp.array([-1.0, 1.0])),
        }[family]
        numpyro.sample("y", drawn(a * x), obs=y)

    y = pd.Series([0, 1, 2, None, 1, 2])
    x = np.array([0.1, 0.5, -0.2, 0.7, 1.0, -1.0])
    model_ = gb.model(model, y=y, x=x, missing=way)
    assert len(model_.observed["y"]) == (5 if way == "drop" else 6)
    run = model_.sample(draws=30, chains=1, seed=1)
    assert np.isfinite(run.draws["a"]).all()
    with pytest.raises(DataError, match=r"missing=['\"]impute"):
        gb.model(model, y=y, x=x)


def three_at_once(y):
    m = numpyro.sample("m", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.MultivariateStudentT(5.0, m, jnp.eye(3)), obs=y)


def test_events_that_are_masked_though_known_in_part_are_told():
    y = np.random.default_rng(3).normal(size=(6, 3))
    y[1, 0] = y[4] = np.nan
    (note,) = gb.model(three_at_once, y, missing="mask").notes
    assert note.startswith("1 of 6 events of y are missing in part") and "2 numbers" in note
    y[1] = np.nan
    assert gb.model(three_at_once, y, missing="mask").notes == ()


def level(y):
    m = numpyro.sample("m", dist.Normal(0, 3))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(m, 1.0), obs=y)


@pytest.mark.parametrize("way", ["mask", "impute"])
def test_log_likelihoods_for_others_are_of_data_alone(way):
    """Zeros stood where there was no datum, which ArviZ counted as data."""
    y = np.random.default_rng(3).normal(size=12)
    y[[2, 7]] = np.nan
    run = gb.model(level, y, missing=way).sample(draws=60, warmup=30, chains=2)
    tree = run.to_datatree(log_likelihood=True)
    values, there = tree["log_likelihood"]["y"].values, np.isfinite(y)
    assert values.shape == (2, 60, 10) and tree["log_likelihood"]["y"].dims[2] == "y_datum"
    exact = -0.5 * (y[there] - run.draws["m"][..., None]) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(values, exact, rtol=1e-4, atol=1e-5)
    whole = gb.model(level, y[there]).sample(draws=20, warmup=30, chains=2)
    assert whole.to_datatree(log_likelihood=True)["log_likelihood"]["y"].dims[2] == "row"


def changing(y, x):
    k = numpyro.sample("k", dist.Bernoulli(0.5))
    m = numpyro.sample("m", dist.Normal(0, 1)) if k == 1 else 0.0
    numpyro.sample("y", dist.Normal(m + x, 1.0), obs=y)


def test_missing_values_of_a_changing_structure_are_told_as_such():
    """The sentence was about `if`; and NaN in a covariate were taken."""
    y, gone = np.arange(4.0), np.array([0.0, np.nan, 1.0, 2.0])
    for way in (None, "mask", "drop"):
        with pytest.raises(DataError, match=r"'y' .*1 NaN .*Leave their rows out.* of one structure alone"):
            gb.model(changing, gone, y, missing=way)
        assert "changes with k" in repr(gb.model(changing, y, y, missing=way))
    with pytest.raises(DataError, match=r"'x' holds 1 NaN .*covariate"):
        gb.model(changing, y, gone)


def test_a_datum_alone_is_imputed():
    def model(y):
        a = numpyro.sample("a", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(a, 0.5), obs=y)

    draws = gb.model(model, np.nan, missing="impute").sample(draws=2000, chains=2, seed=0).draws
    assert draws["y_missing"].shape == (2, 2000, 1)
    assert abs(np.corrcoef(draws["a"].ravel(), draws["y_missing"].ravel())[0, 1] - 1 / np.sqrt(1.25)) < 0.03
