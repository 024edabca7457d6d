"""Schedules: read, checked before anything runs, explained, and compiled."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.errors import ScheduleError
from gibbsite.plans.schedule.parse import Spec, parse_schedule, update
from gibbsite.plans.schedule.schedule import make_schedule
from helpers.truths.targets import check_moments, run_chains


def mixture(x, K=3):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(K)))
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([K]).to_event(1))
    numpyro.deterministic("centre", mu.mean())
    with numpyro.plate("n", len(x)):
        z = numpyro.sample("z", dist.Categorical(w))
        numpyro.sample("x", dist.Normal(mu[z], 1.0), obs=x)


@pytest.fixture(scope="module")
def model():
    return gb.model(mixture, np.array([-3.0, -2.5, 0.1, 0.3, 4.0, 3.5]))


@pytest.mark.parametrize(
    "text",
    [
        "Gibbs z (*) NUTS [w mu]",
        "random: 3 x Gibbs z (*) ESlice mu (*) HMC(step_size=0.05, num_steps=10) w",
        "Slice 'odd name' (*) RandomWalk s[0] (*) NUTS *",
        "Gibbs z (*) 2 x Interleave(Slice w, NUTS(centring='centred') [w mu], HMC(num_steps=10) mu)",
    ],
)
def test_text_survives_a_round_trip(text):
    spec = parse_schedule(text)
    assert str(spec) == text
    assert parse_schedule(str(spec)) == spec


def test_forms_that_mean_the_same_are_equal(model):
    one = make_schedule(model.execution, "DiscGibbs [z](*)hmc( step_size = .05,num_steps=10 )[w, mu]")
    two = make_schedule(
        model.execution, [update("Gibbs", "z"), update("HMC", "w", "mu", step_size=0.05, num_steps=10)]
    )
    assert one == two
    assert one.text == "Gibbs z (*) HMC(step_size=0.05, num_steps=10) [w mu]"
    assert make_schedule(model.execution, one) == one
    assert one != make_schedule(model.execution, "Gibbs z (*) NUTS *")


def test_a_star_takes_what_is_left(model):
    assert make_schedule(model.execution, "Gibbs z (*) NUTS *").updates[1].sites == ("w", "mu")


MISTAKES = [
    ("", "empty"),
    ("Gibs z (*) NUTS *", "did you mean 'Gibbs'", "^^^^"),
    ("Gibbs z (*) NUTS [w mo]", "no site named 'mo'; did you mean 'mu'", "^^"),
    ("Gibbs z (*) NUTS [z w mu]", "updated twice, by Gibbs and by NUTS", "^"),
    ("Gibbs z (*) NUTS [w w mu]", "updated twice, in one block"),
    ("Gibbs z (*) NUTS w", "leaves out the latent site 'mu'. 'mu' can be updated by"),
    (
        "Gibbs z (*) ESlice w (*) NUTS mu",
        "is Dirichlet, not Gaussian. It can be updated by Conjugate",
        "^",
    ),
    ("Gibbs mu (*) NUTS *", "'mu' is continuous"),
    ("Gibbs z (*) NUTS [w mu centre]", "'centre' is deterministic", "^^^^^^"),
    ("Gibbs [z x] (*) NUTS *", "'x' is observed"),
    ("Gibbs z (*) NUTS(step_siz=.1) *", "no option 'step_siz'; did you mean 'step_size'", "^"),
    ("Gibbs z (*) NUTS(step_size='a') *", "step_size must be a number, got 'a'", "^"),
    ("Gibbs z (*) HMC(num_steps=2.5) *", "num_steps must be a whole number"),
    ("Gibbs z (*) HMC(num_steps=True) *", "num_steps must be a whole number"),
    ("Gibbs z (*) NUTS(.1) *", "written name=value", "^"),
    ("Gibbs z (*) HMC(step_size=.1 w", "never closed", "^"),
    ("Gibbs z NUTS [w mu]", "expected '(*)'", "^"),
    ("0 x Gibbs z (*) NUTS *", "positive whole number", "^"),
    ("Gibbs z (*) NUTS", "which site does NUTS update"),
    ("Gibbs z (*) Metropolis(proposal=mine) [w mu]", "'mine' is not defined", "^^^^"),
    ("Gibbs z (*) Metropolis [w mu]", "needs the option 'proposal'"),
    ("Gibbs * (*) NUTS [z w mu]", "nothing left"),
    ("Gibbs z (*) Conjugate mu (*) NUTS [w mu]", "put both into one: Interleave(Conjugate mu, NUTS [w mu])"),
    ("Gibbs z (*) Interleave(NUTS centred) [w mu]", "takes two updates or more", "^"),
    ("Gibbs z (*) Interleave(NUTS w, NUTS mu", "expected ',' or ')'", "^"),
    ("Gibbs z (*) Interleave(Slice, NUTS)", "which site does Interleave update"),
    ("Gibbs z (*) Interleave(Slice w, NUTS w) [w mu]", "no update within Interleave moves mu", "^"),
    ("Gibbs z (*) Interleave(Slice w, Gibs mu)", "did you mean 'Gibbs'", "^^^^"),
    ("Gibbs z (*) Interleave(Slice w, Gibbs mu)", "'mu' is continuous"),
    ("Gibbs z (*) Interleave(Eliminate z > NUTS w, NUTS mu)", "cannot stand within Interleave"),
    ("Gibbs z (*) Interleave NUTS w", "expected the updates"),
    ("Gibbs z (*) Interleave(NUTS decentred w, NUTS mu)", "brackets for a block: [decentred w]"),
]


@pytest.mark.parametrize(("text", "expected"), [pytest.param(t, e, id=t or "empty") for t, *e in MISTAKES])
def test_mistakes_are_told_before_anything_runs(model, text, expected):
    with pytest.raises(ScheduleError) as caught:
        make_schedule(model.execution, text)
    for part in expected:
        assert part in str(caught.value)


def test_the_caret_stands_under_the_mistake(model):
    with pytest.raises(ScheduleError) as caught:
        make_schedule(model.execution, "Gibbs z (*) NUTS [w mo]")
    line, caret = str(caught.value).splitlines()[-2:]
    assert line[caret.index("^") :].startswith("mo")


def test_the_default_is_explained(model):
    s = make_schedule(model.execution)
    assert {n for row in s.rows for n in row.sites} - {"|"} == {"mu", "w", "z"}
    assert all(row.reason and row.cost for row in s.rows)
    assert "cost per sweep" in str(s)
    assert "<table>" in s._repr_html_()


def crowded(x, y):
    several = [numpyro.sample(name, dist.HalfCauchy(1.0)) for name in "abcdef"]
    numpyro.sample("seen", dist.Normal(sum(several), 1.0), obs=x)
    s = numpyro.sample("s", dist.Gamma(2.0, 1.0))
    t = numpyro.sample("t", dist.Gumbel(0.0, 1.0))
    m = numpyro.sample("m", dist.Normal(0.0, s))
    numpyro.sample("y", dist.Bernoulli(logits=x * m + jnp.sin(t)), obs=y)


def test_what_stands_in_the_way_of_many_sites_is_short():
    m = gb.model(crowded, 0.5, 1)
    (row,) = m.schedule("NUTS *").rows
    lines = row.blocked.splitlines()
    assert len(lines) == 4
    assert lines[0] == "· a, b, c, d and 2 more: a HalfCauchy prior is conjugate to no likelihood"
    assert lines[-1] == "· and 1 more: see model.conditional('m').reason"
    assert all(len(line) < 160 for line in lines), lines
    details = row.detail.splitlines()
    assert details[0].startswith("· a, b, c, d and 2 more: `log1p(it**2)`")
    shown = m.schedule("NUTS *")._repr_html_()
    assert "<br>· s: " in shown and "<details><summary>· a, b" in shown
    alone = m.schedule("NUTS [a b c d e f s m] (*) Slice t").rows[1]
    assert alone.blocked == "a Gumbel prior is conjugate to no likelihood"
    assert alone.detail == m.conditional("t").reason.removeprefix("not conjugate: ")


OBSTACLES = {
    "a Bernoulli likelihood with logits has no conjugate prior": lambda a: dist.Bernoulli(logits=a),
    "the rate of y ~ Poisson depends on a through a function": lambda a: dist.Poisson(jnp.exp(a)),
    "a StudentT likelihood has no conjugate prior for its loc": lambda a: dist.StudentT(3.0, a, 1.0),
    "the scale of y ~ Normal depends on a through": lambda a: dist.Normal(0.0, jnp.exp(a)),
    "an Exponential prior and the Normal likelihood of y combine": None,
}


@pytest.mark.parametrize("words", OBSTACLES)
def test_obstacles_are_told_in_the_model_s_words(words):
    def fn(y):
        if OBSTACLES[words] is None:
            y_of = dist.Normal(0.0, numpyro.sample("a", dist.Exponential(1.0)))
        else:
            y_of = OBSTACLES[words](numpyro.sample("a", dist.Normal(0.0, 1.0)))
        numpyro.sample("y", y_of, obs=y)

    (row,) = gb.model(fn, 1).schedule("NUTS *").rows
    assert row.blocked.startswith(words) and "`" not in row.blocked
    assert row.detail in gb.model(fn, 1).conditional("a").reason


def test_sites_that_could_be_exact_share_a_line(model):
    (_, row) = model.schedule("Gibbs z (*) NUTS *").rows
    assert row.blocked == "· w, mu: Conjugate fits too"


def bounded(y):
    top = numpyro.sample("top", dist.Gamma(3.0, 1.0))
    numpyro.sample("x", dist.Uniform(0.0, top))
    numpyro.sample("far", dist.Normal(0.0, 1.0))
    numpyro.sample("k", dist.Poisson(3.0))
    numpyro.sample("y", dist.Uniform(0.0, top), obs=y)


def test_moving_supports_keep_gradients_away():
    m = gb.model(bounded, np.float32(2.0))
    s = make_schedule(m.execution)
    kernel = {n: u.kernel for u in s.updates for n in u.sites}
    assert kernel["top"] == kernel["x"] == "Conjugate"
    assert kernel["k"] == "Window"
    for kernel in ("NUTS", "HMC"):
        with pytest.raises(ScheduleError, match="bounds the support of x, y"):
            make_schedule(m.execution, f"{kernel} top (*) Slice [x far] (*) RandomWalk k")


@pytest.mark.slow
def test_compiled_schedules_reach_the_posterior():
    """top | y=2 has density ∝ t e^-t on t > 2 (prior t² e^-t, and 1/t for y; x integrates out)."""
    m = gb.model(bounded, np.float32(2.0))
    t = np.linspace(2, 60, 400_000)
    p = t * np.exp(-t)
    p /= p.sum()
    mean = (t * p).sum()
    for text in (None, "random: Slice [top x] (*) ESlice far (*) 2 x RandomWalk k"):
        plan = make_schedule(m.execution, text).plan()
        draws = run_chains(plan.kernel, warmup=500, draws=4000, kwargs={"_gibbsite_inputs": plan.inputs})
        moments = (
            {"top": mean, "far": 0.0, "k": 3.0},
            {"top": (t**2 * p).sum() - mean**2, "far": 1.0, "k": 3.0},
        )
        assert check_moments(draws, *moments) == 6


def test_plans_know_what_they_are(model):
    plan = make_schedule(model.execution, "2 x Gibbs z (*) NUTS *").plan()
    assert [b.label for b in plan.blocks] == ["z", "[w mu]"]
    assert set(plan.sites) == {"w", "mu", "centre", "z"}
    other = gb.model(mixture, np.arange(6.0, dtype=np.float32) + 1)
    assert make_schedule(other.execution, "2 x Gibbs z (*) NUTS *").plan().cache_key == plan.cache_key
    assert make_schedule(other.execution, "Gibbs z (*) NUTS *").plan().cache_key != plan.cache_key


def moved():
    numpyro.sample(
        "a", dist.TransformedDistribution(dist.Normal(), dist.transforms.AffineTransform(1.0, 2.0))
    )
    numpyro.sample("b", dist.TransformedDistribution(dist.Normal(), dist.transforms.ExpTransform()))


def test_only_affine_transforms_of_a_gaussian_are_gaussian():
    m = gb.model(moved)
    assert m.schedule("ESlice a (*) Slice b").text == "ESlice a (*) Slice b"
    with pytest.raises(ScheduleError, match="'b' is TransformedDistribution, not Gaussian") as caught:
        m.schedule("NUTS a (*) ESlice b")
    assert str(caught.value).splitlines()[-1].index("^") == str(caught.value).splitlines()[-2].index("b")


def test_a_schedule_of_the_wrong_kind_is_refused(model):
    with pytest.raises(ScheduleError, match="a schedule is text"):
        make_schedule(model.execution, 3)
    with pytest.raises(ScheduleError, match="which sites"):
        update("NUTS")
    assert make_schedule(model.execution, Spec((update("Gibbs", "z"), update("NUTS", "*")))).text
