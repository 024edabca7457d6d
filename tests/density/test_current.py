"""What the statements of a model are to every use of it."""

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.density.current import current, scored_elements
from numpyro import handlers
from numpyro.contrib.control_flow import scan

Y = np.array([0.1, 0.4, -0.3], np.float32)


def plain(y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    with numpyro.plate("n", 3):
        numpyro.sample("y", dist.Normal(mu, s), obs=y)


def test_a_condition_that_others_read_is_no_datum():
    found = current(gb.model(plain, Y).condition(mu=9.0).density)
    assert found.data == ("y",) and found.given == ("mu",)


def test_a_condition_that_nothing_reads_is_one():
    for model in (gb.model(plain).condition(y=Y), gb.model(handlers.condition(plain, {"y": Y}))):
        found = current(model.density)
        assert found.data == ("y",) and found.given == ()
        np.testing.assert_array_equal(model.observed["y"], Y)


def test_a_condition_that_nothing_latent_enters_is_none():
    def apart(y):
        plain(y)
        numpyro.sample("other", dist.Normal(0, 1))

    assert current(gb.model(apart, Y).condition(other=1.0).density).given == ("other",)


def test_a_path_of_a_scan():
    def path(y):
        def step(before, y):
            x = numpyro.sample("x", dist.Normal(before, 1.0))
            numpyro.sample("y", dist.Normal(x, numpyro.sample("t", dist.HalfNormal(1.0))), obs=y)
            return x, None

        scan(step, 0.0, y)

    found = current(gb.model(path, Y).condition(x=Y).density)
    assert found.data == ("y",) and found.given == ("x",)


def test_do_leaves_nothing_behind():
    found = current(gb.model(plain, Y).do(mu=9.0).density)
    assert found.data == ("y",) and found.given == ()


def test_an_observation_that_a_latent_enters_is_no_datum():
    def shifted(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("rest", dist.Normal(0, 1), obs=y[0] - mu)
        numpyro.sample("y", dist.Normal(mu, 1), obs=y)

    model = gb.model(shifted, Y)
    assert current(model.density).data == ("y",) and set(model.observed) == {"y"}


@pytest.mark.parametrize("way", ["mask", "impute"])
def test_what_is_missing_is_not_scored(way):
    model = gb.model(plain, np.array([0.1, np.nan, 0.5], np.float32), missing=way)
    np.testing.assert_array_equal(scored_elements(model.density, "y"), [True, False, True])
    np.testing.assert_array_equal(model.observed["y"], np.array([0.1, np.nan, 0.5], np.float32))


def test_weights_and_masks_say_what_is_scored():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("n", 3):
            with handlers.scale(scale=np.array([2.0, 0.5, 1.0])):
                numpyro.sample("weighted", dist.Normal(mu, 1), obs=y)
            with handlers.mask(mask=np.array([True, True, False])):
                numpyro.sample("masked", dist.Normal(mu, 1), obs=y)
            inside = dist.Normal(mu, 1).expand([3, 2]).mask(np.array([[1, 0], [0, 0], [1, 1]], bool))
            numpyro.sample("events", inside.to_event(1), obs=np.zeros((3, 2)))
        some = numpyro.sample("some", dist.Bernoulli(0.5))
        with handlers.mask(mask=some == 1):
            numpyro.sample("chosen", dist.Normal(mu, 1), obs=y)

    found = gb.model(model, Y).density
    scored = {n: scored_elements(found, n).tolist() for n in current(found).data}
    yes, no = True, False
    assert scored == {
        "weighted": [yes, yes, yes], "masked": [yes, yes, no], "events": [yes, no, yes],
        "chosen": [yes, yes, yes],
    }  # fmt: skip


def test_weighted_latents_are_not_drawn_forward():
    def model(y):
        plain(y)
        top = numpyro.sample("top", dist.Normal(0, 1))
        with handlers.scale(scale=0.25):
            below = numpyro.sample("below", dist.Normal(top, 1))
        with handlers.scale(scale=1.0):
            numpyro.sample("last", dist.Normal(below, 1))

    model = gb.model(model, Y)
    assert current(model.density).weighted == ("below",)
    assert model.generated == ("last",)  # of `top` the weighted prior of `below` says something
