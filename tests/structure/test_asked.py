"""Questions that Python asks of draws reach Gibbsite although the model catches the error that carries them,
and however they are put."""

import contextlib
import sys

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ModelError
from gibbsite.inputs.asks import asks_heard
from numpyro import sample
from numpyro.handlers import condition
from scipy import stats

SHARES, MEANS = np.array([0.2, 0.5, 0.3]), [0.0, 1.0, 3.0]


def catches_all(z):
    try:
        return MEANS[int(z)]
    except Exception:
        return 0.0


def catches_anything(z):
    try:
        return MEANS[z]
    except:  # noqa: E722
        return 0.0


def suppresses(z):
    with contextlib.suppress(TypeError):
        return MEANS[int(z)]
    return 0.0


def catches_another(z):
    try:
        return MEANS[int(z)]
    except KeyError:
        return 0.0


def counts(z):
    return MEANS[len([0.0] * z)]


def counts_texts(z):
    return MEANS[len(z * "a")]


@pytest.mark.share(6)
@pytest.mark.parametrize(
    "of", [catches_all, catches_anything, suppresses, catches_another, counts, counts_texts]
)
def test_a_question_is_heard(of):
    """Caught, it left the draw's posterior at its prior, "converged", and nobody was told."""

    def model(y):
        z = sample("z", dist.Categorical(jnp.array(SHARES)))
        sample("y", dist.Normal(of(z) + sample("s", dist.Normal(0.0, 0.01)), 1.0), obs=y)

    weights = SHARES * stats.norm.pdf(2.5, MEANS, np.sqrt(1.0001))
    exact = weights / weights.sum()
    run = gb.model(model, 2.5).sample(draws=1000, chains=4, seed=0)
    found = np.bincount(np.asarray(run.draws["z"]).ravel().astype(int), minlength=3) / 4000
    assert np.abs(found - exact).max() < 5 * np.sqrt(0.25 / 1000)


@pytest.mark.slow
def test_what_continuous_draws_decide_is_heard():
    def model(y):
        x = sample("x", dist.Normal(0.0, 1.0))
        try:
            mean = 2.0 if x > 0 else -1.0
        except Exception:
            mean = 0.0
        sample("y", dist.Normal(mean, 1.0), obs=y)

    run = gb.model(model, 1.0).sample(draws=1000, chains=4, seed=0)
    a, b = stats.norm.pdf(1.0, [2.0, -1.0], 1.0)
    assert abs((np.asarray(run.draws["x"]) > 0).mean() - a / (a + b)) < 5 * np.sqrt(0.25 / 1000)


def test_data_are_read_where_the_question_is_caught():
    def model(n, y):
        try:
            n = int(n)
        except TypeError:
            raise ValueError("n is a whole number") from None
        sample("y", dist.Normal(n * sample("a", dist.Normal(0.0, 1.0)), 1.0), obs=y)

    run = gb.model(model, np.float64(3.0), 0.5).sample(draws=500, chains=2, seed=0)
    assert abs(run.draws["a"].mean() - 0.15) < 5 * 0.32 / np.sqrt(500)


def test_whoever_names_jaxs_errors_knows_what_is_caught():
    def either(x):
        try:
            return 1.0 if x > 0 else 0.0
        except jax.errors.TracerBoolConversionError:
            return jnp.where(x > 0, 1.0, 0.0)

    def model(y):
        sample("y", dist.Normal(either(sample("x", dist.Normal(0.0, 1.0))), 1.0), obs=y)

    assert not gb.model(model, 1.0).notes


def test_a_tracing_function_of_somebody_else_stays():
    seen = []

    def somebodys(frame, event, arg):
        seen.append(event)

    before = sys.gettrace()
    sys.settrace(somebodys)
    try:
        with asks_heard(catches_all, lambda error: True):
            catches_all("z")
        assert sys.gettrace() is somebodys
    finally:
        sys.settrace(before)


TABLE = dict(zip("012", MEANS, strict=True))


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "of",
    [
        lambda z: TABLE.get(f"{z}", 9.0),
        lambda z: MEANS[0] if str(z) == "0" else MEANS[1] if str(z) == "1" else MEANS[2],
        lambda z: TABLE["%d" % z],  # noqa: UP031
        lambda z: TABLE[f"{z:d}"],
        lambda z: TABLE["".join(map(str, [z]))],
        lambda z: dict(enumerate(MEANS))[z],
        lambda z: sample(f"mean_{z}", dist.Normal(MEANS[int(z)], 1e-3)),
    ],
    ids=["f-string", "str", "percent", "format", "map", "dict", "name"],
)
def test_the_text_of_a_draw_is_its_value(of):
    """Python decided by `JitTracer(int32[])`: the draw's posterior was its prior, and nobody was told."""

    def model(y):
        z = sample("z", dist.Categorical(jnp.array(SHARES)))
        print(f"z is {z}", z)
        print(
            "over two lines",
            f"{z}",
        )
        sample("y", dist.Normal(of(z), 1.0), obs=y)

    weights = SHARES * stats.norm.pdf(2.5, MEANS, 1.0)
    run = gb.model(model, 2.5).sample(draws=1000, chains=4, seed=0)
    found = np.bincount(np.asarray(run.draws["z"]).ravel().astype(int), minlength=3) / 4000
    assert np.abs(found - weights / weights.sum()).max() < 5 * np.sqrt(0.25 / 1000)


def test_a_text_for_people_asks_for_nothing():
    def model(y):
        z, x = sample("z", dist.Categorical(jnp.array(SHARES))), sample("x", dist.Normal(0.0, 1.0))
        print(f"z is {z}", z)
        label = f"x is {x}"
        sample("y", dist.Normal(jnp.array(MEANS)[z] + x, 1.0), obs=y)
        assert label

    assert type(gb.model(model, 1.0)) is gb.Model


def test_texts_of_others_and_after_the_model_are_jaxs():
    z = []
    gb.model(lambda y: sample("y", dist.Normal(sample("a", dist.Normal(0.0, 1.0)), 1.0), obs=y), 1.0)
    jax.make_jaxpr(lambda k: z.append(f"{k} {k!r}") or k)(1)
    assert "Tracer" in z[0]


@pytest.mark.slow
def test_what_is_asked_for_in_some_structures_is_there_in_all():
    """Where nothing asked for it, it was said to be absent."""

    def model(y):
        a, b = sample("a", dist.Bernoulli(0.5)), sample("b", dist.Bernoulli(0.7))
        mean = 2.0 if a else 0.0 if b else 1.0
        sample("y", dist.Normal(mean, 0.7), obs=y)

    run = gb.model(model, 1.6).sample(draws=1000, chains=4, seed=0)
    each = {(i, j): 0.5 * (0.7 if j else 0.3) for i in (0, 1) for j in (0, 1)}
    each = {w: p * stats.norm.pdf(1.6, 2.0 if w[0] else 1.0 - w[1], 0.7) for w, p in each.items()}
    b, exact = np.asarray(run.draws["b"]), (each[0, 1] + each[1, 1]) / sum(each.values())
    assert b.dtype.kind == "i"
    assert abs(b.mean() - exact) < 5 * np.sqrt(0.25 / 1000)
    assert run.summary().loc["b", "present"] == 1.0


def test_improper_priors_of_some_structures_are_refused():
    """Their probabilities hung upon the scale of what has none."""

    def model(y, scale):
        mean = 0.0
        if sample("flip", dist.Bernoulli(0.5)):
            mean = scale * sample("mu", dist.ImproperUniform(dist.constraints.real, (), ()))
        sample("y", dist.Normal(mean, 1.0), obs=y)

    changing = gb.model(model, 0.9, 100.0)
    with pytest.raises(ModelError, match="the prior of 'mu' is improper, and structures differ in it"):
        changing.sample(draws=10)
    assert changing.structure(flip=1).sample(draws=200, chains=2, seed=0).draws["mu"].shape == (2, 200)


def optional(y, scale=2.0):
    sg = sample("sg", dist.HalfNormal(scale))
    mean = sample("mu", dist.Normal(0.0, 1.0)) if sample("z", dist.Bernoulli(0.5)) else 0.0
    sample("y", dist.Normal(mean, sg).expand(y.shape).to_event(1), obs=y)


@pytest.mark.slow
def test_chains_leave_starts_that_a_prior_has_far_out():
    """A chain that started where the scale is .006 stayed there, every step of it divergent."""
    y = np.random.default_rng(1).normal(size=20) + 0.1
    run = gb.model(optional, y).sample(draws=600, chains=4, seed=0)
    assert np.all(np.abs(np.asarray(run.draws["sg"]).mean(1) - 0.63) < 0.1)
    assert run.verdict.state == "converged"


@pytest.mark.slow
def test_a_flat_prior_of_all_structures_is_none_of_a_ratio():
    def model(y):
        mu = sample("mu", dist.ImproperUniform(dist.constraints.real, (), ()))
        sg = sample("sg", dist.HalfNormal(2.0)) if sample("z", dist.Bernoulli(0.5)) else 1.0
        sample("y", dist.Normal(mu, sg).expand([4]).to_event(1), obs=y)

    y = np.array([0.0, 1.5, 3.0, -2.0])

    def evidence(s):
        rest = np.exp(-np.square(y - y.mean()).sum() / (2 * s * s))
        return np.sqrt(2 * np.pi * s * s / 4) * rest / (2 * np.pi * s * s) ** 2

    grid = np.linspace(0.01, 20, 4000)
    with_scale = np.trapezoid(evidence(grid) * stats.halfnorm.pdf(grid, scale=2), grid)
    run = gb.model(model, y).sample(draws=1000, chains=4, seed=0)
    exact = with_scale / (with_scale + evidence(1.0))
    assert abs(np.asarray(run.draws["z"]).mean() - exact) < 5 * np.sqrt(0.25 / 1000)


@pytest.mark.slow
def test_numpys_sizes_are_asked_for():
    def model(y):
        count = sample("K", dist.DiscreteUniform(1, 3))
        z = sample("z", dist.Categorical(np.ones(count) / count))
        sample("y", dist.Normal(1.0 * z, 1.0), obs=y)

    run = gb.model(model, 2.4).sample(draws=1000, chains=4, seed=0)
    each = np.array([stats.norm.pdf(2.4, np.arange(k), 1).mean() for k in (1, 2, 3)])
    found = np.bincount(np.asarray(run.draws["K"]).ravel().astype(int), minlength=4)[1:] / 4000
    assert np.abs(found - each / each.sum()).max() < 5 * np.sqrt(0.25 / 700)


def test_random_numbers_of_python_are_told():
    def model(y):
        mean = sample("mu", dist.Normal(np.random.normal(), 0.1)) if sample("z", dist.Bernoulli(0.5)) else 0.0
        sample("y", dist.Normal(mean, 1.0), obs=y)

    assert any("np.random" in note for note in gb.model(model, 1.0).notes)


@pytest.mark.slow
def test_what_a_structure_lacks_compares_with_nothing():
    """It was false, and with `!=` true, in every draw without it."""

    def model(x, y):
        total = 0.0
        for i in range(2):
            if sample(f"on{i}", dist.Bernoulli(0.3)):
                total = total + sample(f"b{i}", dist.Normal(0.0, 1.0)) * x[:, i]
        sample("y", dist.Normal(total + jnp.zeros(6), 0.5).to_event(1), obs=y)

    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 2))
    run = gb.model(model, x, x[:, 0] + 0.5 * x[:, 1] + rng.normal(0, 0.5, 6)).sample(draws=500, seed=0)
    b1, there = np.asarray(run.draws["b1"]), np.asarray(run.draws["on1"]) == 1
    assert 0.05 < there.mean() < 0.95
    for text in ("b1 > 0", "b1 != 0", "not (b1 > 0)", "1 - (b1 > 0)", "abs(b1) < 0.1"):
        found = np.asarray(run.derive(f"q = {text}").values, float)
        np.testing.assert_array_equal(np.isnan(found), ~there)
    found = np.asarray(run.derive("q = b1 > 0").values, float)
    np.testing.assert_array_equal(found[there], b1[there] > 0)
    decided = np.asarray(run.derive("q = where(on1 == 1, b1, 0)").values, float)
    np.testing.assert_allclose(decided, np.where(there, b1, 0.0))
    both = np.asarray(run.derive("q = on1 == 1 and b1 > 0").values)
    np.testing.assert_array_equal(both.astype(bool), there & (b1 > 0))


@pytest.mark.parametrize("of", [np.asarray, jnp.asarray], ids=["NumPy", "JAX"])
def test_data_decide_beside_draws(of):
    """Of JAX's arrays all that is done while a model is looked at is traced, data's as well."""

    def model(y):
        z = sample("z", dist.Bernoulli(0.3))
        mean = 2.0 if z and y[0] > 1 else 0.0
        sample("y", dist.Normal(mean, 1.0), obs=y)

    asked = gb.model(model, of(np.array([1.5, 0.5], np.float32)))
    assert len(asked.structured.all) == 2


@pytest.mark.slow
def test_a_conditioned_site_decides():
    def model(y):
        z, w = sample("z", dist.Bernoulli(0.3)), sample("w", dist.Bernoulli(0.6))
        mean = sample("mean", dist.Normal(1.0, 1.0)) if z and w else 0.0
        sample("y", dist.Normal(mean, 0.5), obs=y)

    run = gb.model(condition(model, {"w": 1}), 1.5).sample(draws=1000, chains=4, seed=0)
    a, b = 0.3 * stats.norm.pdf(1.5, 1.0, np.sqrt(1.25)), 0.7 * stats.norm.pdf(1.5, 0.0, 0.5)
    assert abs((np.asarray(run.draws["z"]) == 1).mean() - a / (a + b)) < 5 * np.sqrt(0.06 / 1000)


def test_what_is_remembered_from_run_to_run_is_told():
    remembered = {}

    def model(y):
        z = sample("z", dist.Bernoulli(0.5))
        if z and "mean" not in remembered:
            remembered["mean"] = sample("mean", dist.Normal(0.0, 2.0))
        sample("y", dist.Normal(remembered["mean"] if z else 0.0, 0.5), obs=y)

    with pytest.raises(ModelError, match="changes from one run to the next: 'mean' is there in one run"):
        gb.model(model, 1.5)


def _twice(ask):
    def model():
        x, y = sample("x", dist.Normal(0.0, 1.0)), sample("y", dist.Normal(0.0, 1.0))
        mean = sum((1.0 if held else -1.0) for held in ask(x, y))
        sample("z", dist.Normal(mean, 2.0), obs=1.0)

    return model


@pytest.mark.parametrize(
    ("ask", "ways"),
    [
        (lambda x, y: (x > 0, x > 0), 2),
        (lambda x, y: (x > 0, 0 < x, x > 0.0), 2),  # noqa: SIM300
        (lambda x, y: (x > 0, x <= 0, 0 >= x), 2),  # noqa: SIM300
        (lambda x, y: (x == y, x != y), 2),
        (lambda x, y: (2 * x + y > 1, 2 * x + y <= 1), 2),
        (lambda x, y: (x > 0, x > 1), 4),
        (lambda x, y: (x > 0, y > 0), 4),
        (lambda x, y: (x > y, y > x), 4),
        (lambda x, y: (x - y > 0, y - x > 0), 4),
        (lambda x, y: (x**2 > 1, x**3 > 1), 4),
    ],
)
def test_a_question_that_is_asked_again_is_one_decision(ask, ways):
    """As two, chains stood in one structure for good: one decision cannot change without the other."""
    model = gb.model(_twice(lambda x, y: [bool(held) for held in ask(x, y)]))
    assert len(model.structured.all) == ways


def test_a_question_that_is_asked_again_keeps_its_answer():
    """What is below -1, between and above 1, asked in a chain of `if`s, against the normal distribution."""

    def model():
        x = sample("x", dist.Normal(0.0, 1.0))
        mean = 0.0 if -0.5 < x < 1 else 2.0 if x >= 1 else -1.0
        sample("y", dist.Normal(mean, 1.0), obs=1.0)

    run = gb.model(model).sample(draws=3000, chains=2, seed=1)
    low, high = stats.norm.cdf([-0.5, 1])
    weights = np.array([low, high - low, 1 - high]) * stats.norm.pdf(1.0, [-1, 0, 2])
    x = run.draws["x"]
    for inside, exact in zip((x <= -0.5, (x > -0.5) & (x < 1), x >= 1), weights / weights.sum(), strict=True):
        error = np.sqrt(exact * (1 - exact) / 400)  # the least ESS that two such runs had
        assert abs(inside.mean() - exact) < 4 * error
