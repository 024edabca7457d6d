"""Values that cannot be: each said in one sentence, and nothing said of what can be."""

import re

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.intervals import range_of
from gibbsite.density.known_elements import known_numbers
from gibbsite.errors import DataError, ModelError
from gibbsite.validation import check
from gibbsite.validation.limits import undecided
from helpers.models.zoo import ZOO

RNG = np.random.default_rng(3)
X = RNG.normal(size=(30, 3)).astype(np.float32)
Y = RNG.normal(size=30).astype(np.float32)
LABEL = (Y > 0).astype(np.int32)
NAN = np.where(np.arange(30) == 7, np.nan, Y).astype(np.float32)


site = numpyro.sample


def without_logits(x, y):
    b = site("b", dist.Normal(0, 1).expand([3]).to_event(1))
    site("y", dist.Bernoulli(x @ b), y)


def negative_scale(y):
    site("y", dist.Normal(0, site("sigma", dist.Normal(0, 1))), y)


def no_rate(y):
    site("y", dist.Normal(0, site("sigma", dist.Gamma(1.0, 0.0))), y)


def ends_swapped(y):
    site("y", dist.Normal(site("a", dist.Uniform(1, 0)), 1.0), y)


def unnormalised(y):
    site("w", dist.Normal(0, 1))
    site("y", dist.Categorical(jnp.array([0.5, 0.5, 0.5])), y)


def as_logits(y):
    w = site("w", dist.Normal(0, 1).expand([3]).to_event(1))
    site("y", dist.Categorical(probs=w), y)


def indefinite(y):
    w = site("w", dist.Normal(0, 1))
    site("y", dist.MultivariateNormal(jnp.zeros(2) + w, jnp.array([[1.0, 2.0], [2.0, 1.0]])), y)


def singular(y):
    """Rows that sum to 0, as those of an intrinsic autoregression."""
    x = site("x", dist.MultivariateNormal(jnp.zeros(4), precision_matrix=np.eye(4) - 0.25))
    site("y", dist.Normal(x, 1.0), y)


def indefinite_by_latents(y):
    r = site("r", dist.Normal(5, 1))
    site("y", dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2) + r * (1 - jnp.eye(2))), y)


def unordered(y):
    c = site("c", dist.Normal(0, 1).expand([4]).to_event(1))
    site("y", dist.OrderedLogistic(0.0, c), y)


PARAMETERS = [
    (without_logits, (X, LABEL), r"'probs' of 'y' \(line \d+: `site\(\"y\", dist.Bernoulli\(x @ b\), y\)`\) "
     r"is (-|[1-9]).* at \[\d+\] on every draw.*takes a number between 0 and 1; did you mean `logits=`"),
    (negative_scale, (Y,), r"'scale' of 'y' .* is -.* on \d+% of the draws.*above 0.*HalfNormal"),
    (no_rate, (Y,), r"'rate' of 'sigma' .* is 0, and Gamma takes a number above 0"),
    (ends_swapped, (Y,), r"'low' of 'a' .* is 1, .*right order"),
    (unnormalised, (LABEL,), r"'probs' of 'y' .* is \[0.5 0.5 0.5\].*sum to 1 \(these sum to 1.5\); divide"),
    (as_logits, (LABEL,), r"'probs' of 'y' .*every draw.*did you mean `logits=`"),
    (indefinite, (Y[:2],), r"'covariance_matrix' of 'y' .*positive-definite.*1e-6"),
    (singular, (Y[:4],), r"'precision_matrix' of 'x' .*positive-definite.*1e-6"),
    (indefinite_by_latents, (Y[:2],), r"'(covariance_matrix|scale_tril)' of 'y' .*draw"),
    (unordered, (LABEL,), r"'cutpoints' of 'y' .*numbers that rise.*OrderedTransform"),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "args", "told"), PARAMETERS, ids=lambda v: getattr(v, "__name__", ""))
def test_parameters_that_cannot_be(fn, args, told):
    with pytest.raises((ModelError, DataError), match=re.compile(told, re.DOTALL)) as caught:
        gb.model(fn, *args)
    assert caught.value.entry == "impossible-parameter"
    assert caught.value.place[0] == __file__
    gb.model(fn, *args, check_values=False)


def counts(y):
    site("y", dist.Poisson(site("rate", dist.Gamma(2.0, 1.0))), y)


def trials(k, n):
    site("k", dist.Binomial(n, site("p", dist.Beta(1, 1))), k)


def outcomes(y):
    site("y", dist.Bernoulli(site("p", dist.Beta(1, 1))), y)


def classes(y):
    site("y", dist.Categorical(site("w", dist.Dirichlet(jnp.ones(3)))), y)


def amounts(y):
    site("y", dist.Gamma(2.0, site("rate", dist.Gamma(2.0, 1.0))), y)


def masked_amounts(y):
    with numpyro.handlers.mask(mask=y > 0):
        amounts(y)


DATA = [
    (counts, (np.array([1.0, 3.5, -1.0]),), r"'y' .*hold 3.5 at \[1\] \(2 such values\).*Poisson.*whole"),
    (trials, (7, 5), r"'k' .*hold 7, which Binomial never draws.*between 0 and 5; are trials"),
    (trials, (np.array([3, 4]), np.array([5, 3])), r"'k' .*hold 4 at \[1\].*its own total"),
    (outcomes, (np.array([1, 2, 1]),), r"'y' .*hold 2 at \[1\].*0 or 1; code the two outcomes"),
    (classes, (np.array([1, 3, 2]),), r"'y' .*hold 3 at \[1\].*counted from 0"),
    (amounts, (np.array([1.0, 0.0]),), r"'y' .*hold 0 at \[1\].*hurdle"),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "args", "told"), DATA)
def test_data_that_cannot_be(fn, args, told):
    with pytest.raises(DataError, match=told) as caught:
        gb.model(fn, *args)
    assert caught.value.entry == "outside-the-support"


def test_masked_elements_may_be_anything():
    gb.model(masked_amounts, np.array([1.0, 0.0, 2.0]))


def effects(y, g, n):
    with numpyro.plate("county", n):
        a = site("a", dist.Normal(0, 1))
    site("y", dist.Normal(a[g], 1.0), y)


def test_indices_beyond_an_axis():
    g = np.tile([0, 1, 2], 10)
    gb.model(effects, Y, g, 3)
    gb.model(effects, Y, g - 1, 3)  # from the end, as Python counts
    with pytest.raises(
        DataError, match=r"'g' runs from 1 to 3 .*3 elements \(plate 'county'\).*counts from 1"
    ):
        gb.model(effects, Y, g + 1, 3)
    with pytest.raises(DataError, match=r"'g' runs from 0 to 2 .*2 elements.*make the axis 3 long"):
        gb.model(effects, Y, g, 2)
    with pytest.raises(DataError, match=r"'g' runs from -7 to 2"):
        gb.model(effects, Y, np.where(g == 0, -7, g), 3)


def padded(y, g, n, read):
    with numpyro.plate("county", n):
        a = site("a", dist.Normal(0, 1))
    with numpyro.handlers.mask(mask=(g < n) if read == "masked" else True):
        kept = {"chosen": jnp.where(g < n, a[g], 0.5), "weighed": a[g] * (g < n) + 1.0}
        site("y", dist.Normal(kept.get(read, a[g]), 1.0), y)


@pytest.mark.parametrize("read", ["chosen", "weighed", "masked"])
def test_padding_may_hold_any_index(read):
    g = np.array([0, 1, 2, 3, 9])
    assert gb.model(padded, Y[:5], g, 3, read).sites["a"].latent
    with pytest.raises(DataError, match="'g' runs from 0 to 9"):
        gb.model(padded, Y[:5], g, 3, "plain")


def line(y, x):
    site("y", dist.Normal(site("a", dist.Normal(0, 1)) * x, 1.0), y)


def filled(y, x):
    line(y, jnp.where(jnp.isnan(x), 0.0, x))


def left_out(y, x):
    with numpyro.handlers.mask(mask=~jnp.isnan(x)):
        line(y, x)


def test_nan_in_a_covariate_is_named_unless_the_model_deals_with_it():
    with pytest.raises(
        DataError, match=r"'x' holds 1 NaN \(the first at \[7\]\), and 'loc' of 'y' .*`x ~ …`"
    ):
        gb.model(line, Y, NAN)
    gb.model(filled, Y, NAN)
    gb.model(left_out, Y, NAN)
    with pytest.raises(DataError, match=r"'y' .*hold 1 NaN .*1 of 30 in 'y'.*impute.*mask.*drop"):
        gb.model(line, NAN, Y)


def regression(x, y):
    b = site("b", dist.Normal(0, 1).expand([3]).to_event(1))
    site("y", dist.Normal(x @ b, 1.0), y)


def test_notes_on_scales():
    (far,) = gb.model(line, Y, np.arange(1990.0, 2020.0)).notes
    assert re.match(r"'x' lies far from zero \(\d+ times", far) and far.endswith('; `.centred("x")` does so')
    (apart,) = gb.model(regression, X * [1, 1, 5e4], Y).notes
    assert re.match(r"the columns of 'x' differ [\d,]+-fold", apart) and '.centred("x", scaled=True)' in apart
    assert not gb.model(regression, X, Y).notes
    assert not gb.model(regression, X * [1, 1, 5e4], Y, check_values=False).notes


def sometimes(y):
    site("y", dist.Normal(0, site("sigma", dist.Normal(1.6, 1.0))), y)


def test_a_prior_that_seldom_reaches_there_is_a_note():
    (note,) = gb.model(sometimes, Y).notes
    assert re.match(r"'scale' of 'y' .* is -.* on \d+% of the draws", note)


def test_improper_priors_are_not_drawn_from():
    """However they are wrapped, parameters that they may put out of bounds are looked at."""

    def flat(y):
        s = site("s", dist.ImproperUniform(dist.constraints.real, (), ()).expand([2]).to_event(1))
        site("y", dist.Normal(0.0, s[0] ** 3 + s[1] - 1.0), y)

    with pytest.raises(ModelError, match="'scale' of 'y'"):
        gb.model(flat, Y)


@pytest.mark.slow
def test_starts_are_looked_at():
    model = gb.model(sometimes, Y)
    with pytest.raises(ModelError, match=r"init: .* chain 1 starts where 'scale' of 'y' .* is -1"):
        model.sample(draws=5, warmup=0, chains=2, init={"sigma": np.array([1.0, -1.0])})


def test_models_in_which_all_can_be_compile_nothing(monkeypatch):
    """Every model of the zoo passes, by ranges and a few points alone."""

    def compiled(*_):
        raise AssertionError("something was compiled")

    monkeypatch.setattr(check, "impossible_on_draws", compiled)
    proved = 0
    for case in ZOO.values():
        model = gb.model(case.fn, *case.args, **case.kwargs)
        proved += not undecided(model.density)[1]
    assert proved >= len(ZOO) - 1


def many(y):
    a = site("a", dist.Normal(0, 1).expand([4]).to_event(1))
    b = site("b", dist.Gamma(1, 1).expand([4]).to_event(1))
    c = site("c", dist.Beta(2, 2))
    m = jnp.outer(a, b)
    for i, x in enumerate([
        a * b, a - b, a / b, -a, jnp.exp(a), jnp.log(b), jnp.log1p(b), jnp.expm1(a), jnp.sqrt(b), 1 / b, b**c,
        b**-2, a**2, a**3, jnp.abs(a), jnp.maximum(a, 0.5), jnp.minimum(a, b), jnp.clip(a, -1, 1),
        jnp.tanh(a),
        jnp.where(a > 0, a, b), jnp.sum(m, 0), jnp.prod(b), jnp.max(m, 1), jnp.cumsum(a), jnp.cumprod(b),
        m @ b, jnp.concatenate([a, b]), a[jnp.array([3, 0])], a[::-1], m.T[1:3], 1 / (1 + jnp.exp(-a)),
        b / jnp.sum(b), jnp.stack([a, b]), jnp.sin(a), jnp.sign(a), jnp.floor(a),
        jnp.linalg.cholesky(m @ m.T + jnp.eye(4)),
        c * (1 - c), jnp.exp(-b) * c, a[None, :] - a[:, None], b @ b, jnp.sum(a * a), 2.0**a,
        jnp.mean(b),
    ]):  # fmt: skip
        numpyro.deterministic(f"d{i}", x)
    site("y", dist.Normal(a.sum() * c, b.sum()), y)


@pytest.mark.slow
def test_ranges_hold_and_numpy_computes_what_jax_does():
    """Against JAX, at draws from the prior."""
    density = gb.model(many, Y).density
    atoms = density.outputs["deterministic"]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        state = {"a": rng.normal(size=4) * 3, "b": rng.gamma(1, 1, 4), "c": rng.beta(2, 2)}
        state = {n: jnp.asarray(v, jnp.float32) for n, v in state.items()}
        read, numbers = density.evaluator(state).full, known_numbers(density, state)
        for name, atom in atoms.items():
            exact, found = np.asarray(read(atom)), numbers.value(atom)
            low, high = range_of(density, atom)
            assert (exact >= low - 1e-3 - 1e-5 * abs(low)).all(), name
            assert (exact <= high + 1e-3 + 1e-5 * abs(high)).all(), name
            assert found is not None, name
            np.testing.assert_allclose(found, exact, rtol=2e-4, atol=2e-5, err_msg=name)
    surely = sum(np.isfinite(range_of(density, a)).any() for a in atoms.values())
    assert surely > 15


def test_equal_weights_are_a_note():
    def model(y):
        z = site("z", dist.Categorical(jnp.ones((4, 3))).to_event(1))
        site("y", dist.Normal(z * 1.0, 1.0).to_event(1), y)

    (note,) = gb.model(model, Y[:4]).notes
    assert "sum to 3" in note and note.endswith("Equal weights mean equal probabilities")


def test_columns_that_single_precision_cannot_hold_are_named_with_the_cure():
    def line(x, y):
        a = numpyro.sample("a", dist.Normal(0, 10.0))
        b = numpyro.sample("b", dist.Normal(0, 10.0))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.Normal(a + b * x, 0.1), obs=y)

    steps = np.arange(10.0)
    assert not any("single precision" in n for n in gb.model(line, 2018 + steps, steps).notes)
    (far,) = gb.model(line, 1e6 + steps, steps).notes
    assert far.startswith("'x' lies far from zero (") and "hand over `x - x.mean(0)`" in far
    lost = gb.model(line, 1e9 + steps, steps).notes
    assert any(n.startswith("'x' loses its figures in single precision") for n in lost)
    assert any(n.startswith("'y' loses its figures") for n in gb.model(line, steps, 1e9 + steps).notes)
    assert not gb.model(line, steps, steps).notes
    assert not gb.model(
        line, np.full(80, 0.1), np.arange(80.0)
    ).notes  # one value, which a mean is off by a bit


def test_scales_and_weights_that_hardly_differ_are_not_to_be_centred():
    """Weights of .1 were told to lose their figures, and to be handed over less their mean: as zeros."""

    def model(sd, w, y):
        b = numpyro.sample("b", dist.Normal(0, 1))
        with numpyro.plate("n", len(y)), numpyro.handlers.scale(scale=w):
            numpyro.sample("y", dist.Normal(b, sd), obs=y)

    y = np.random.default_rng(0).normal(size=80)
    for value in (0.1, 0.3, 0.1 + 1e-9 * y):
        assert not gb.model(model, np.broadcast_to(value, 80), np.broadcast_to(value, 80), y).notes


def with_slope(year, y=None):
    a, b = site("a", dist.Normal(0, 1000.0)), site("b", dist.Normal(0, 1.0))
    with numpyro.plate("n", len(year)):
        site("y", dist.Normal(a + b * year, 0.1), y)


def test_covariates_are_centred_and_scaled_as_the_notes_say():
    """The same posterior of slopes, by least squares; new data are given as they are."""
    year = np.repeat(np.arange(1990.0, 2020.0), 2)
    y = 3 + 0.2 * (year - 2005) + 0.1 * np.random.default_rng(0).normal(size=60)
    model = gb.model(with_slope, year, y)
    for scaled in (False, True):
        changed = model.centred(scaled=scaled)
        assert model.notes and not changed.notes and changed.source.startswith("# year stands for (year - ")
        unit = year.std() if scaled else 1.0
        run = changed.sample(draws=500, seed=0)
        sd = 0.1 / np.sqrt(np.sum((year - year.mean()) ** 2))
        slope, level = np.polyfit(year - year.mean(), y, 1)
        assert abs(run.draws["b"].mean() / unit - slope) < 5 * sd / np.sqrt(2000) + 1e-3 * sd * unit
        assert abs(run.draws["a"].mean() - level) < 5 * 0.1 / np.sqrt(60 * 2000) + 1e-5
    found = run.predict(year=np.array([2030.0]), y=None)
    assert abs(found.draws["y"].mean() - level - slope * (2030 - year.mean())) < 0.02
    for other in ("y", "nobody"):
        with pytest.raises(ModelError, match=f"'{other}' is no covariate.*name one of year"):
            model.centred(other)
    with pytest.raises(ModelError, match="no covariate lies far from zero; name one of x"):
        gb.model(line, Y, X[:, 0]).centred()


def _note_of(fn, *args):
    return " ".join(gb.model(fn, *args).notes)


def test_a_plate_longer_than_its_groups_and_levels_twice_are_told():
    group, y = np.arange(20) % 5, np.linspace(0, 1, 20).astype(np.float32)
    matrix = np.column_stack([np.ones(20), y]).astype(np.float32)

    def groups(g, y, size):
        with numpyro.plate("g", size):
            a = numpyro.sample("a", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(a[g], 1), obs=y)

    def walk(g, y, size):
        a = numpyro.sample("a", dist.GaussianRandomWalk(1.0, size))
        numpyro.sample("y", dist.Normal(a[g], 1), obs=y)

    def twice(x, y, other):
        a, b = (numpyro.sample(n, dist.Normal(0, 1)) for n in "ab")
        numpyro.sample("y", dist.Normal(a + (b if other else b * x), 1), obs=y)

    def shifted(x, y):
        z, b = numpyro.sample("z", dist.Bernoulli(0.3)), numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b + z, 1), obs=y)

    def beside(x, y):
        a, b = numpyro.sample("a", dist.Normal(0, 1)), numpyro.sample("b", dist.Normal(0, 1).expand([2]))
        numpyro.sample("y", dist.Normal(a + x @ b, 1), obs=y)

    assert "plate 'g' has 50 elements, and nothing reads 45 of those of 'a'" in _note_of(groups, group, y, 50)
    assert "nothing reads" not in _note_of(groups, group, y, 5) + _note_of(walk, group, y, 8)
    assert "2 levels that are the same for all rows, 'a' and 'b'" in _note_of(twice, y, y, 1)
    assert "`x[:, 0]`" in _note_of(beside, matrix, y)
    assert "levels" not in _note_of(shifted, y, y)
    assert "levels" not in _note_of(twice, y, y, 0) + _note_of(beside, matrix[:, [1, 1]] ** [1, 2], y)


def test_numbers_that_were_read_as_texts_are_no_covariate():
    def model(x, y):
        numpyro.sample("y", dist.Normal(numpyro.sample("b", dist.Normal(0, 1)) * x, 1), obs=y)

    y = np.zeros(20, np.float32)
    with pytest.raises(gb.GibbsiteError, match=r"holds 20 .*pd.to_numeric\(x.str.replace\(',', '.'\)\)"):
        gb.model(model, np.array([f"{i},5" for i in range(20)]), y)
    with pytest.raises(gb.GibbsiteError, match="holds 3 categories"):
        gb.model(model, np.array(list("abc" * 6 + "ab")), y)

    def tries(n, y):
        numpyro.sample("y", dist.Binomial(n, numpyro.sample("p", dist.Beta(1, 1))), obs=y)

    with pytest.raises(gb.GibbsiteError, match=r"n holds 10 .*`pd.to_numeric\(n\)`"):
        gb.model(tries, np.array([str(30 + k % 10) for k in range(20)]), np.arange(20))


def picks(how):
    def model(g, y):
        with numpyro.plate("k", 3):
            a = numpyro.sample("a", dist.Normal(0, 1).expand([2]).to_event(1))
        with numpyro.plate("n", len(y)):
            numpyro.sample("y", dist.Normal(how(a, g), 1.0), obs=y)

    return model


def test_codes_below_zero_are_told():
    y = np.arange(5.0, dtype=np.float32)
    told = {
        "directly": lambda a, g: a[g, 0],
        "a row": lambda a, g: a[g].sum(-1),
        "among others": lambda a, g: a[g[:, None], 1].sum(1),
    }
    for how in told.values():
        (note,) = gb.model(picks(how), np.array([0, 1, -1, 2, 1]), y).notes
        assert "'g' holds -1 at [2], and picks from the end of 3 elements" in note
        assert gb.model(picks(how), np.array([0, 1, 0, 2, 1]), y).notes == ()
    left_out = gb.model(picks(lambda a, g: jnp.where(g < 0, 0.0, a[g, 0])), np.array([0, 1, -1, 2, 1]), y)
    assert not any("from the end" in note for note in left_out.notes)
    lagged = gb.model(picks(lambda a, g: a[g - 1, 0]), np.array([0, 1, 1, 2, 1]), y)
    assert lagged.notes == (
        "an index that is computed from 'g' is -1 at [0], and picks from the end of 3 elements there",
    )
