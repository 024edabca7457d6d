"""`%check` in a real JupyterLab: of a sound model, and of one whose class draws what its density is not."""

import os

import pytest
from helpers.pages.lab import prepare

SECONDS = os.environ.get("GIBBSITE_CHECK_SECONDS", "60")
"""That `%check` may take; a busy machine is told to take more where the screenshots are what is wanted."""
SOUND = """%%model levels(y)
precision ~ Gamma(3.0, 2.0)
mu ~ Normal(0.0, 2.0)
y ~ Normal(mu, precision**-0.5).expand([len(y)]).to_event(1)
"""
BENT = """import gibbsite as gb, jax, jax.numpy as jnp, numpy as np, numpyro, numpyro.distributions as dist
class Bent(dist.Distribution):
    support = dist.constraints.real
    def __init__(self):
        super().__init__(())
    def sample(self, key, sample_shape=()):
        return jax.random.normal(key, sample_shape)
    def log_prob(self, x):
        return -0.5 * ((x - 3.0) / 0.5) ** 2
def bent(y):
    x = numpyro.sample("x", Bent())
    numpyro.sample("y", dist.Normal(x, 1.0), obs=y)
faulty = gb.model(bent, np.array([1.0, 2.0, 2.5]))
"""


@pytest.mark.slow
def test_checks_of_a_sound_and_of_a_faulty_model_are_read_in_the_cell(lab):
    cells = SOUND, f"sound = %check levels --seconds {SECONDS}", BENT
    cells = *cells, f"found = %check faulty --seconds {SECONDS}", "#" + 60 * "\n#"
    prepare(lab, "check.ipynb", *cells)
    lab.python("import numpy as np; y = np.array([1.2, -0.4, 2.2, 0.9, 1.4, 3.1])")
    for i in range(4):
        lab.run_cell(i, timeout=4 * float(SECONDS) + 60)
        if i % 2 == 0:
            continue
        name, box = "sound" if i == 1 else "faulty", lab.page.locator(".gibbsite-check").last
        lab.page.wait_for_timeout(2000)
        assert "going on" not in box.inner_text()  # the cell has ended, and so has what it shows
        for width in (1400, 700):
            lab.page.set_viewport_size({"width": width, "height": 1000})
            for theme in ("Light", "Dark"):
                lab.command("apputils:change-theme", {"theme": f"JupyterLab {theme}"})
                lab.page.wait_for_function(
                    "dark => (document.body.dataset.jpThemeLight === 'false') === dark", arg=theme == "Dark"
                )
                lab.scroll_to(i)
                lab.page.wait_for_timeout(500)
                lab.shot(f"check_{name}_{theme.lower()}_{width}")
                wide, room = box.evaluate("e => [e.scrollWidth, e.clientWidth]")
                assert wide <= room + 1, f"{name} is {wide} wide in {room}"
        lab.command("apputils:change-theme", {"theme": "JupyterLab Light"})
        lab.page.set_viewport_size({"width": 1280, "height": 1000})
    states = "print({f.test: f.state for f in %s.findings})"
    assert "wrong" not in lab.python(states % "sound")
    assert "'distributions': 'wrong'" in lab.python(states % "found")
    lab.assert_quiet()
