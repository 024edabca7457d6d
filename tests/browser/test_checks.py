"""The view of predictive checks in a real JupyterLab: cards, one of them large, a statistic of one's own."""

import pytest
from helpers.pages.lab import prepare

RUN = """
import gibbsite as gb, numpy as np, numpyro, numpyro.distributions as dist
import jax.numpy as jnp
rng = np.random.default_rng(0)
x = rng.normal(size=80)
y = np.where(rng.random(80) < 0.2, 0, rng.poisson(np.exp(0.8 + 0.5 * x)))
def counts(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Poisson(jnp.exp(a + b * x)), obs=y)
run = gb.model(counts, x, y).sample(draws=500, chains=2)
run.dashboard()
"""
CARDS = ".gb-dash .gb-card"


@pytest.mark.slow
def test_checks_are_a_third_view(lab):
    prepare(lab, "checks.ipynb", RUN, "#" + 60 * "\n#")
    lab.run_cell(0)
    lab.page.wait_for_selector(".gb-dash .gb-tab[data-view='check']")
    lab.page.locator(".gb-tab[data-view='check']").click()
    lab.page.wait_for_selector(f"{CARDS} button[aria-label^='LOO-PIT']")
    for width in (1400, 700):
        lab.page.set_viewport_size({"width": width, "height": 1000})
        for theme in ("Light", "Dark"):
            lab.command("apputils:change-theme", {"theme": f"JupyterLab {theme}"})
            state = "attached" if theme == "Dark" else "detached"
            lab.page.wait_for_selector(".gb-view.gb-dark", state=state)
            lab.page.wait_for_timeout(500)
            lab.shot(f"checks_{theme.lower()}_{width}")
    lab.command("apputils:change-theme", {"theme": "JupyterLab Light"})
    lab.page.set_viewport_size({"width": 1280, "height": 1000})
    # a statistic that somebody writes, and one that cannot be
    box = lab.page.locator(".gb-expression input")
    assert "statistic" in box.get_attribute("placeholder")
    box.fill("mean(y == 0)")
    box.press("Enter")
    lab.page.wait_for_selector(f"{CARDS} button[aria-label^='mean(y == 0)']")
    box.fill("mean(q)")
    box.press("Enter")
    lab.page.wait_for_function("() => document.querySelector('.gb-refused').textContent.includes('q')")
    # Pareto k by name, under the pointer of the large plot
    lab.page.locator(f"{CARDS} button[aria-label^='Pareto']").click()
    lab.page.wait_for_function(
        "() => [...globalThis.__gibbsiteDocuments].some(d => d.get_model_by_name('plot check pareto'))"
    )
    lab.shot("checks_large")
    lab.page.locator(".gb-tab[data-view='posterior']").click()
    lab.page.wait_for_selector(f"{CARDS} button[aria-label^='a:']")
    lab.assert_quiet()
