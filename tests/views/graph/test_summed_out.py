"""Sites that the schedule sums out, in pictures and pages of the graph."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.graph.drawing.style import FILL, LINE, SUMMED
from gibbsite.views import graph_svg
from gibbsite.views.graph.steps import steps_of, summed_out
from gibbsite.views.graph.store import store_of


def classes(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([2]).to_event(1))
    top = numpyro.sample("top", dist.Bernoulli(0.4))
    with numpyro.plate("rows", len(y)):
        z = numpyro.sample("z", dist.Bernoulli(jnp.array([0.2, 0.7])[top]))
        numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=y)


def loop(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1).expand([2]).to_event(1))
    for i in range(len(y)):
        z = numpyro.sample(f"z[{i}]", dist.Bernoulli(0.3))
        numpyro.sample(f"y[{i}]", dist.Normal(mu[z], 1.0), obs=y[i])


Y = np.array([-1.0, 0.3, 2.0, 1.0], np.float32)


@pytest.fixture(scope="module")
def model():
    return gb.model(classes, Y)


def test_steps_name_what_goes_and_what_it_meets(model):
    assert steps_of(model) == [] and summed_out(model) == frozenset()
    changed = model.eliminate()
    assert summed_out(changed) == {"top", "z"}
    first, second = steps_of(changed)
    assert (first["sites"], second["sites"]) == (["z"], ["top"])
    assert set(first["near"]) == {"y", "top"} and first["text"].startswith("sum out z given top")
    assert model.summed_out == () and changed.condition(top=1).summed_out == ("z",)


def sprinkler(wet):
    cloudy = numpyro.sample("cloudy", dist.Bernoulli(0.5))
    on = numpyro.sample("on", dist.Bernoulli(jnp.where(cloudy == 1, 0.1, 0.5)))
    rain = numpyro.sample("rain", dist.Bernoulli(jnp.where(cloudy == 1, 0.8, 0.2)))
    numpyro.sample("wet", dist.Bernoulli(jnp.array([[0.0, 0.9], [0.9, 0.99]])[on, rain]), obs=wet)


def test_sites_that_are_drawn_jointly_have_steps_too():
    model = gb.model(sprinkler, 1).eliminate()
    told = store_of(model.graph, model)
    assert [s for step in steps_of(model) for s in step["sites"]] == list(model.marginal().order)
    assert len(told["steps"]) == 3 and {told["told"][s]["summed"] for s in model.marginal().sites} == {
        1,
        2,
        3,
    }
    assert steps_of(model.with_schedule("Gibbs cloudy (*) Gibbs on (*) Gibbs rain")) == []


def test_pages_carry_the_steps_and_who_takes_part(model):
    store = store_of(model.eliminate().graph, model.eliminate())
    told = store["told"]
    assert len(store["steps"]) == 2 and store["colours"]["dash"]["summed"]
    assert (told["z"]["summed"], told["top"]["summed"]) == (1, 2)
    assert told["y"]["near"] == [1] and "summed" not in told["mu"]
    assert store_of(model.graph, model)["steps"] == []


def test_pictures_show_them_with_a_legend(model):
    eliminated = model.eliminate("z")
    plain, changed = graph_svg(model.graph), graph_svg(eliminated.graph)
    assert SUMMED not in plain and LINE["summed"] not in plain
    assert changed.count(f'fill="{FILL["summed"]}"') == 2  # the node and the legend
    assert f"z: latent, {SUMMED}" in changed and changed.count(SUMMED) == 2


def test_a_group_of_sites_is_one_node_that_is_summed_out():
    changed = gb.model(loop, Y).eliminate("z")
    assert f"z[2]: latent, {SUMMED}" in graph_svg(changed.graph)
    told = store_of(changed.graph, changed)["told"]
    assert told["z"]["summed"] == 1 and told["z[2]"]["summed"] == 1
