"""Random models: every conditional against the original joint density, every text against the numbers.

Finite conditionals are compared value by value with NumPyro's own joint; draws of continuous ones, element
by element, with that joint integrated on a grid. A failure is shrunk by Hypothesis to the shortest program.
"""

import re
import warnings

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gibbsite.density.notation.statement import Statement
from helpers.models.grammar import Program, programs
from helpers.truths.perturbation import QUICK
from helpers.truths.printed import Reader
from hypothesis import HealthCheck, Phase, given, settings
from numpyro.infer.util import log_density
from scipy import stats

CLAIMS_NOTHING = re.compile(r"\bf\(|…")
GRID = 801
DRAWS = 400
CALM = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None, "derandomize": True}
FIND_AND_SHRINK = (Phase.explicit, Phase.generate, Phase.shrink)


def state_of(program: Program, model, number: int) -> dict[str, np.ndarray]:
    """Values inside the supports: uniform between −2 and 2, above 0, or between 0 and 1."""
    rng = np.random.default_rng(number)
    out = {}
    for name, site in model.sites.items():
        if site.latent:
            if site.discrete:
                out[name] = rng.integers(0, 3, site.shape)
            else:
                low, high = _ends(program)
                out[name] = rng.uniform(low, high, site.shape).astype(np.float32)
            if "Delta" in program.source and name == "mu":
                out[name] = np.full(site.shape, 0.7, np.float32)
    return out


def _ends(program: Program) -> tuple[float, float]:
    if "TruncatedNormal" in program.source:
        return -0.9, 2.0
    if any(p in program.source for p in ("Gamma", "Exponential", "HalfNormal")):
        return 0.2, 2.0
    return (0.1, 0.9) if "Beta" in program.source or "Uniform(0.0, 1.0)" in program.source else (-1.8, 2.0)


def check_finite(program: Program, conditional, state, site: str) -> None:
    """Every element's log probabilities against the joint, one value at a time."""
    values = np.asarray(conditional.support)
    base = np.asarray(state[site])
    told = np.asarray(conditional.logits(state)).reshape(max(base.size, 1), len(values))
    moved = np.repeat(base.reshape(1, 1, -1), max(base.size, 1), 0).repeat(len(values), 1)
    for i in range(max(base.size, 1)):
        moved[i, :, i] = values
    rest = {k: jnp.asarray(v) for k, v in state.items() if k != site}
    run = jax.vmap(lambda v: log_density(program.model(), program.args, {}, {**rest, site: v})[0])
    joint = jax.jit(run, compiler_options=QUICK)(jnp.asarray(moved.reshape(-1, *base.shape)))
    table = np.asarray(joint, float).reshape(told.shape)
    table = table - np.logaddexp.reduce(table, axis=1, keepdims=True)
    np.testing.assert_allclose(told, table, rtol=1e-3, atol=1e-3)


def check_draws(program: Program, conditional, state, site: str) -> None:
    """Draws of each element against the joint on a grid; where elements do not move each other."""
    keys = jax.random.split(jax.random.key(3), DRAWS)
    draws = np.asarray(jax.jit(jax.vmap(lambda k: conditional.sample(k, state)))(keys))
    assert np.isfinite(draws).all(), "draws are not finite"
    if "Delta" in program.source:
        np.testing.assert_allclose(draws, 0.7, rtol=1e-6)
        return
    rest = {k: jnp.asarray(v) for k, v in state.items() if k != site}
    flat = draws.reshape(DRAWS, -1)
    low = flat.min(0) - 0.7 * np.ptp(flat, 0) - 1e-3
    high = flat.max(0) + 0.7 * np.ptp(flat, 0) + 1e-3
    if _ends(program)[0] > -0.9:
        low = np.maximum(low, 1e-5)
    if _ends(program)[1] < 1:
        high = np.minimum(high, 1 - 1e-5)
    if "Uniform(-2.0" in program.source:
        low, high = np.maximum(low, -2 + 1e-5), np.minimum(high, 2.5 - 1e-5)
    if "TruncatedNormal" in program.source:
        low = np.maximum(low, -1 + 1e-5)
    grids = np.linspace(low, high, GRID)
    base = np.asarray(state[site], np.float32)
    moved = np.repeat(base.reshape(1, 1, -1), GRID, 0).repeat(base.size, 1)
    for i in range(base.size):
        moved[:, i, i] = grids[:, i]
    run = jax.vmap(lambda v: log_density(program.model(), program.args, {}, {**rest, site: v})[0])
    joint = jax.jit(run, compiler_options=QUICK)(jnp.asarray(moved.reshape(-1, *base.shape)))
    logs = np.asarray(joint, float).reshape(GRID, base.size)
    for i in range(base.size):
        weight = np.exp(logs[:, i] - logs[:, i].max())
        cdf = np.concatenate([[0], np.cumsum((weight[1:] + weight[:-1]) / 2 * np.diff(grids[:, i]))])
        p = stats.kstest(flat[:, i], lambda v, i=i, cdf=cdf: np.interp(v, grids[:, i], cdf / cdf[-1])).pvalue
        assert p > 1e-7, f"element {i} of {site}: p = {p:.1e}"


def check(program: Program) -> str:
    """All that is claimed of one model; returns what kinds of conditionals it had."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = gb.model(program.model(), *program.args)
        except gb.GibbsiteError:
            return "refused"
    state = state_of(program, model, 5)
    reader = Reader(model.density, state)
    for name, site in model.sites.items():
        statement = Statement(model.density, name)
        text = statement.factor()
        if CLAIMS_NOTHING.search(text) or "Improper" in text or "Delta" in text:
            continue
        shape = site.shape[: site.element_rank]
        places = [dict(zip(statement.letters, p, strict=True)) for p in np.ndindex(*shape)]
        found = reader.log_factors(text, places).reshape(shape)
        expected = reader.log_prob[name]
        found = found.sum(tuple(range(expected.ndim, found.ndim)))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3, err_msg=text)
    kinds = []
    for name in model.density.latents:
        conditional = model.conditional(name)
        kinds.append(conditional.kind)
        if conditional.kind in ("finite", "chain"):
            check_finite(program, conditional, state, name)
        elif conditional.kind == "conjugate":
            check_draws(program, conditional, state, name)
    return " ".join(kinds)


@settings(max_examples=8, phases=FIND_AND_SHRINK, **CALM)
@given(programs())
def test_a_few_random_models(program):
    check(program)


@pytest.mark.slow
@settings(max_examples=10_000, phases=FIND_AND_SHRINK, **CALM)
@given(programs())
def test_many_random_models(program):
    check(program)
