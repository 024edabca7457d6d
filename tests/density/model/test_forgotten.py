"""Data that were given and are not used, at the door of plain functions."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import DataError

Y = np.linspace(-1.0, 1.0, 5).astype(np.float32)


def sample(name, fn, obs=None):
    return numpyro.sample(name, fn, obs=obs)


def never(y):
    mu = sample("mu", dist.Normal(0, 1))
    sample("y", dist.Normal(mu, 1).expand([5]))


def length_alone(x, y):
    b = sample("b", dist.Normal(0, 1))
    with numpyro.plate("n", len(y)):
        sample("y", dist.Normal(b * x, 1))
    sample("other", dist.Normal(b, 1), obs=1.0)


def looped(y):
    mu = sample("mu", dist.Normal(0, 1))
    for i in range(3):
        sample(f"y[{i}]", dist.Normal(mu, 1))


def another_name(data):
    mu = sample("mu", dist.Normal(0, 1))
    sample("obs", dist.Normal(mu, 1).expand([5]))


def a_number(y):
    mu = sample("mu", dist.Normal(0, 1))
    sample("y", dist.Normal(mu, 1))


CASES = [
    (never, (Y,), r"'never' was given 'y', and nothing reads its values: .*sample\('y', …, obs=y\)`"),
    (length_alone, (Y, Y), "nothing reads its values"),
    (looped, (Y[:3],), "nothing reads its values"),
    (a_number, (1.5,), "nothing reads its values"),
    (
        another_name,
        (Y,),
        r"observes nothing, and nothing in it reads its argument 'data'.*'obs', …, obs=data",
    ),
    (another_name, (Y.tolist(),), "observes nothing"),
]


@pytest.mark.parametrize(("model", "args", "says"), CASES)
def test_forgotten_data_are_an_error(model, args, says):
    with pytest.raises(DataError, match=says) as told:
        gb.model(model, *args)
    assert told.value.entry == "forgotten-data"


def optional(x, y=None, scale=1.0, unused=None):
    b = sample("b", dist.Normal(0, scale))
    with numpyro.plate("n", len(x)):
        sample("y", dist.Normal(b * x, 1), obs=y)


def sized(rows):
    with numpyro.plate("n", len(rows)):
        sample("x", dist.Normal(0, 1))


def shared(x, sex):
    """A signature that several models share."""
    b = sample("b", dist.Normal(0, 1))
    sample("y", dist.Normal(b, 1), obs=x)


def factored(y):
    b = sample("b", dist.Normal(0, 1))
    numpyro.factor("f", -0.5 * jnp.sum((y - b) ** 2))


def started(mu, y):
    sample("mu", dist.Normal(mu, 1))
    sample("y", dist.Normal(0, 1), obs=y)


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (optional, (Y,)),
        (optional, (Y, Y)),
        (optional, (Y, None, 2.0, np.ones(3))),
        (sized, (Y,)),
        (shared, (Y, Y)),
        (factored, (Y,)),
        (started, (np.ones(()), Y)),
    ],
)
def test_what_is_used_or_not_given_is_none(model, args):
    if model is optional and len(args) == 4:  # nothing observed, and data for nothing
        with pytest.raises(DataError, match="'unused'"):
            gb.model(model, *args)
        return
    found = gb.model(model, *args)
    assert ("nothing in shared reads its argument 'sex'" in found.notes) == (model is shared)


def test_the_prior_of_a_model_is_drawn_by_leaving_the_data_out():
    run = gb.model(optional, Y).sample(draws=300, warmup=0, seed=0, chains=2)
    assert run.verdict.state == "prior" and run.verdict.ok and str(run.verdict).startswith("prior: ")
    assert "converged" not in repr(run) and run.schedule_text.startswith("Ancestral")
    b = run.draws["b"].ravel()
    assert abs(np.corrcoef(b[1:], b[:-1])[0, 1]) < 4.5 / np.sqrt(b.size)
