"""Conditionals in HTML: as their LaTeX looks, wrapped by the page, and no tag but its own."""

import re

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.printing.statements.formula import conditional_html, conditional_latex, name_html, name_latex
from helpers.models.graph_models import hmm, lda, looped, mixture, ratings


def test_a_conditional_is_typeset_as_its_latex_is():
    model = gb.model(mixture, np.zeros(4, np.float32))
    assert model.conditional("mu").html == (
        "<i>p</i>(<i>μ</i><sub><i>i</i></sub> | <i>z</i>, <i>x</i>) ∝ "
        "Normal(<i>μ</i><sub><i>i</i></sub> | 0, 5) · "
        "∏<sub><i>n</i></sub>\u202fNormal(<i>x</i><sub><i>n</i></sub> | "
        "<i>μ</i><sub><i>z</i><sub><i>n</i></sub></sub>, 1)"
    )
    plain = re.sub(r"<[^>]+>", "", model.conditional("z").html)
    assert plain == "p(zn | w, μ, x) ∝ Categorical(zn | w) · Normal(xn | μzn, 1)"


@pytest.mark.parametrize(
    "model",
    [
        lambda: gb.model(hmm, np.zeros(6, np.float32)),
        lambda: gb.model(lda, np.arange(6) % 3, np.arange(6) // 3),
        lambda: gb.model(looped, np.zeros(3, np.float32)),
        lambda: gb.model(ratings, np.zeros((2, 3), np.int32)),
    ],
)
def test_every_name_and_number_of_the_text_is_in_it(model):
    model = model()
    for site in model.density.latents:
        conditional = model.conditional(site)
        assert set(re.findall(r"</?(\w+)", conditional.html)) <= {"sub", "sup", "i"}
        words = re.sub(r"<[^>]+>", " ", conditional.html)
        for word in set(re.findall(r"[A-Z]\w{3,}", conditional.text)):
            assert word in words


def test_names_cannot_bring_tags():
    def odd():
        a = numpyro.sample("<img src=x>", dist.Normal(0, 1))
        numpyro.sample("b_&", dist.Normal(a, 1))

    found = gb.model(odd).conditional("<img src=x>").html
    assert "<img" not in found and "&lt;img" in found
    assert name_html("lambda_0") == "<i>λ</i><sub>0</sub>" and name_html("Omega") == "<i>Ω</i>"
    assert (
        name_html("b_age_sex") == "<i>b</i><sub>age, sex</sub>" and name_html("mean_1") == "mean<sub>1</sub>"
    )
    assert name_html("seen_if_there") == "seen_if_there" and name_latex("log_sigma") == r"\mathrm{log\_sigma}"


def test_what_expressions_are_made_of():
    text = "p(a) ∝ Normal(a | -b**2 / (c - 1e-05), sqrt(b)) · "
    text += "∏[n] F(x[n] | 1 if b < 0 else abs(c), scale=[1, 2])**w"
    assert conditional_html(text, "abcxw") == (
        "<i>p</i>(<i>a</i>) ∝ Normal(<i>a</i> | (−<i>b</i><sup>2</sup>) / (<i>c</i> − 1e−05), √(<i>b</i>)) · "
        "∏<sub><i>n</i></sub>\u202fF(<i>x</i><sub><i>n</i></sub> | 1 if <i>b</i> &lt; 0 else |<i>c</i>|, "
        "scale = [1, 2])<sup><i>w</i></sup>"
    )


def test_what_is_not_shown_may_follow_a_named_argument():
    found = "p(L) ∝ LKJCholesky(L | concentration=2, …) · f(g(1, 2))"
    assert conditional_html(found, "L").endswith("| concentration = 2, …) · f(g(1, 2))")
    assert r"\mathrm{concentration} = 2, \ldots\right)" in conditional_latex(found, "L")


def test_how_a_gather_treats_what_is_out_of_range_is_not_lost():
    def model(x):
        mu = numpyro.sample("mu", dist.Normal(0, 1).expand([3]).to_event(1))
        at = mu.at[np.array([0, 5])].get(mode="fill", fill_value=2.0)
        numpyro.sample("x", dist.Normal(at, 1.0), obs=x)

    found = gb.model(model, np.zeros(2, np.float32)).conditional("mu")
    assert "fill" in found.text and re.search(r"<sup>[^<]*fill[^<]*</sup>", found.html), found.html
