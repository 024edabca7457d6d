"""Geweke tests: every kernel on every model of AugurV2 and AutoGibbs that it fits, and of the test itself.

Each commit runs every kernel and every model at least once. All pairs:
`pytest -m "slow or not slow" tests/kernels/test_geweke.py`.
"""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.blocks.elliptical import EllipticalSlice
from gibbsite.kernels.blocks.metropolis import IndependenceMetropolis, RandomWalk
from gibbsite.kernels.blocks.slice import ReflectiveSlice, Slice
from gibbsite.plans.candidates.alone import each_alone
from gibbsite.plans.schedule.registry import find_kernel, kernels
from gibbsite.plans.schedule.schedule import make_schedule
from helpers.models.geweke_models import (
    DATA,
    bernoulli_mixture,
    bounded,
    changepoint,
    effects,
    hlr,
    hmm,
    logits,
    mixture,
    normal_gamma,
    regression,
    sticks,
    switched,
    thinned,
    topics,
)
from helpers.truths.geweke import joint_distribution_test
from numpyro.distributions import constraints
from numpyro.infer import Gibbs


def scheduled(model, text=None, namespace=None):
    """The kernel of a schedule, fed with the data as a compiled run is."""
    analysed = gb.model(model, DATA[model])
    plan = make_schedule(analysed.execution, text, namespace=namespace).plan()
    return plan.kernel, lambda data: {"_gibbsite_inputs": {"data": (data["y"],)}}


def survives(model, text, namespace=None):
    kernel, inputs = scheduled(model, text, namespace)
    scores = joint_distribution_test(model, kernel, {"y": "y"}, inputs=inputs)
    worst = max(float(np.abs(z).max()) for z in scores.values())
    assert worst < 4.5, (text, scores)
    assert sum(z.size for z in scores.values()) >= 3


# each kernel's options where nothing may be adapted, and where it needs some
OPTIONS = {
    "HMC": "(step_size=.2, num_steps=4, adapt_step_size=False, adapt_mass_matrix=False)",
    "NUTS": "(step_size=.2, max_tree_depth=4, adapt_step_size=False, adapt_mass_matrix=False)",
    "Metropolis": "(proposal=drift_of_{})",
}


def drifting(model):
    """A lopsided proposal for a site by its support, or None where there is none here."""
    sites = gb.model(model, DATA[model]).sites

    def around(name, x):
        support = sites[name].support
        while isinstance(support, constraints.independent):
            support = support.base_constraint
        if support is constraints.simplex:
            return dist.Dirichlet(3 * x + 1).to_event(x.ndim - 1)
        if isinstance(support, constraints.greater_than):
            return dist.Gamma(3.0, 3.0 / x).to_event(x.ndim)
        if support is constraints.real:
            return dist.Normal(0.8 * x + 0.1, 0.9).to_event(x.ndim)
        return None

    return around


def single(model, kernel):
    """The default schedule with every site that `kernel` fits updated by it; None where it fits none."""
    analysed = gb.model(model, DATA[model])
    row, around = find_kernel(kernel), drifting(model)
    latents = [n for n, s in analysed.sites.items() if s.role == "latent"]
    fits = [n for n in latents if row.fits(analysed, n) is None and row.together(analysed, (n,), {}) is None]
    if kernel == "Metropolis":
        fits = [n for n in fits if around(n, jnp.ones(analysed.sites[n].shape)) is not None]
    parts = [f"{kernel}{OPTIONS.get(kernel, '').format(n)} {n}" for n in fits]
    for u in each_alone(analysed.execution).updates:
        rest = [n for n in u.sites if n not in fits]
        if rest:
            parts.append(f"{u.kernel}{OPTIONS.get(u.kernel, '')} [{' '.join(rest)}]")
    proposals = {f"drift_of_{n}": lambda state, n=n: around(n, state[n]) for n in fits}
    return (" (*) ".join(parts), proposals) if fits else None


NOT_FITTING = {
    *(("Conjugate", m) for m in ("changepoint", "hlr", "bounded")),
    *(("Gibbs", m) for m in ("normal_gamma", "hlr", "regression", "effects", "logits", "bounded")),
    *(("ESlice", m) for m in ("bernoulli_mixture", "changepoint", "topics", "bounded")),
    ("HMC", "bounded"),
    ("NUTS", "bounded"),
    *((k, m.__name__) for m in DATA for k in ("Collapsed", "Crossing", "SwitchLabels", "Ancestral")),
    *(("PolyaGamma", m.__name__) for m in DATA if m not in (hlr, logits)),
    *(("Window", m.__name__) for m in DATA if m is not thinned),
    *((k, "thinned") for k in ("Gibbs", "ESlice")),
}

# one model for each kernel: what every commit runs
QUICK = {
    ("ESlice", sticks),
    ("Slice", bounded),
    ("ReflectiveSlice", normal_gamma),
    ("RandomWalk", changepoint),
    ("Independence", bernoulli_mixture),
    ("Metropolis", regression),
    ("HMC", hlr),
    ("NUTS", mixture),
    ("PolyaGamma", logits),
    ("Conjugate", switched),
    ("Gibbs", hmm),
    ("Window", thinned),
}
# updates that share sites are among the tests of `Interleave`
# replicas at other temperatures do not follow data that change with every step: Tempered has its own tests
PAIRS = [(k, model) for k in kernels() if k not in ("Interleave", "Tempered") for model in DATA]


@pytest.mark.share(10)
@pytest.mark.parametrize(
    ("kernel", "model"),
    [
        pytest.param(k, m, id=f"{k}-{m.__name__}", marks=() if (k, m) in QUICK else pytest.mark.slow)
        for k, m in PAIRS
    ],
)
def test_the_prior_survives(kernel, model):
    found = single(model, kernel)
    if found is None:  # each by name, so that a kernel that stops fitting is noticed
        assert (kernel, model.__name__) in NOT_FITTING
    else:
        survives(model, *found)


def test_every_kernel_is_run_by_each_commit():
    # two take sites of two kinds at once: among the compositions, and in tests/kernels/crossing; one wants a
    # model without data
    apart = {"Collapsed", "Crossing", "SwitchLabels", "Ancestral", "Interleave", "Tempered"}
    assert {k for k, _ in QUICK} == set(kernels()) - apart


COMPOSED = [
    pytest.param(normal_gamma, "RandomWalk tau (*) Independence m", marks=pytest.mark.slow),
    (normal_gamma, "random: 2 x Conjugate tau (*) HMC(step_size=.3, num_steps=4, adapt_step_size=False) m"),
    (effects, None),
    (switched, "Collapsed [k a b] (*) Conjugate tau"),
    pytest.param(logits, "PolyaGamma [tau mean u]", marks=pytest.mark.slow),
    pytest.param(effects, "Conjugate tau (*) Conjugate [u slope] (*) Slice mean", marks=pytest.mark.slow),
    (mixture, f"Eliminate z > NUTS{OPTIONS['NUTS'].replace('4', '2')} [w mu]"),
    pytest.param(hmm, f"Eliminate s > NUTS{OPTIONS['NUTS']} [P m]", marks=pytest.mark.slow),
    pytest.param(hmm, f"Conjugate P (*) Eliminate s > HMC{OPTIONS['HMC']} m", marks=pytest.mark.slow),
    pytest.param(bernoulli_mixture, "Eliminate p > Slice w", marks=pytest.mark.slow),
    pytest.param(topics, "Eliminate z > ReflectiveSlice [theta phi]", marks=pytest.mark.slow),
    pytest.param(mixture, "Slice w (*) NUTS(step_size=.2) mu (*) Gibbs z", marks=pytest.mark.slow),
    pytest.param(mixture, "Conjugate w (*) ESlice mu (*) Gibbs z", marks=pytest.mark.slow),
]


@pytest.mark.share(4)
@pytest.mark.parametrize(("model", "text"), COMPOSED)
def test_the_prior_survives_a_composition(model, text):
    survives(model, text)


BARE = [
    ("slice", Slice),
    ("reflective", ReflectiveSlice),
    ("random walk", RandomWalk),
    ("prior", IndependenceMetropolis),
    ("ellipse and slice", lambda m: Gibbs([(EllipticalSlice(m), ["m"]), (Slice(m), ["tau"])])),
]


# the composite holds two of them
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "build"),
    [pytest.param(n, b, id=n, marks=() if " and " in n else pytest.mark.slow) for n, b in BARE],
)
def test_kernels_without_gibbsite_around_them(name, build):
    scores = joint_distribution_test(normal_gamma, build(normal_gamma), {"y": "y"})
    assert max(float(np.abs(z).max()) for z in scores.values()) < 4.5, scores


class Biased(Slice):
    """A slice that shifts its draws a little: the test must notice."""

    def step(self, key, z, tuning, target, adapting):
        z, tuning, info = super().step(key, z, tuning, target, adapting)
        return {n: x + 0.1 for n, x in z.items()}, tuning, info


def test_a_wrong_kernel_is_noticed():
    scores = joint_distribution_test(normal_gamma, Biased(normal_gamma), {"y": "y"})
    assert max(float(np.abs(z).max()) for z in scores.values()) > 6
