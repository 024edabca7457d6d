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


@pytest.mark.share(2)
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


def test_a_draw_within_a_name_is_told():
    def model(y):
        z = sample("z", dist.Categorical(jnp.array(SHARES)))
        sample("y", dist.Normal(sample(f"mu_{z}", dist.Normal(0.0, 1.0)), 1.0), obs=y)

    with pytest.raises(ModelError, match=r"a draw's value is written into it.*`\{int\(z\)\}`"):
        gb.model(model, 1.0)


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
