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
from gibbsite.conditional.reads.reduce import reduce_onto
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
        if np.ptp(logs[:, i]) < 1e-6 and "mask" in program.source:
            continue  # padding that nothing reads: it has its prior, which the joint masks out
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


def check_run(program: Program) -> None:
    """A short run of the default schedule: its draws are finite, or it says that it failed."""
    try:
        model = gb.model(program.model(), *program.args)
    except gb.GibbsiteError:
        return
    run = model.sample(draws=4, warmup=4, chains=2, seed=1)
    for name, draws in run.draws.items():
        assert np.isfinite(draws).all(), name


def program(*lines: str, x=(0.94, 1.03), g=(2, 0), keep=(True, False), dtype="uint8") -> Program:
    source = "def model(x, g, keep):\n" + "".join(f"    {line}\n" for line in lines)
    return Program(source, np.array(x), np.array(g, dtype), np.array(keep))


WRAPPED = program(
    "mu = numpyro.sample('mu', dist.Normal(0.3, 2.0).expand([3]).to_event(1))",
    "with numpyro.plate('n', 2):",
    "    read = mu.at[g - 1].get(mode='fill', fill_value=0.5)",
    "    numpyro.sample('x', dist.Normal(2.0 * read - 1.0, 1.5), obs=x)",
)
PADDED = program(
    "with handlers.mask(mask=jnp.array([True, True, False])):",
    "    mu = numpyro.sample('mu', dist.Normal(0.3, 2.0).expand([3]))",
    "with handlers.mask(mask=keep), numpyro.plate('n', 2):",
    "    numpyro.sample('x', dist.Normal(mu[g // 2], 1.5), obs=x)",
)
POINT = program(
    "mu = numpyro.sample('mu', dist.Delta(0.7))",
    "numpyro.sample('x', dist.Normal(mu, 1.0).to_event(0), obs=x)",
)
IMPROPER = program(
    "mu = numpyro.sample('mu', dist.ImproperUniform(dist.constraints.real, (), ()).expand([3]).to_event(1))",
    "with numpyro.plate('n', 2):",
    "    numpyro.sample('x', dist.Normal(mu[g], 1.5), obs=x)",
)
SWITCHED = program(
    "mu = jnp.array([-1.0, 0.5, 2.0])",
    "with numpyro.plate('n', 2):",
    "    z = numpyro.sample('z', dist.Categorical(jnp.array([0.2, 0.3, 0.5])))",
    "    numpyro.sample('x', dist.Normal(mu[(z + g) % 3], 1.5), obs=x)",
    dtype="int32",
)


def unweighted(term, value, read):
    return value


def neighbours(*args):
    return jnp.roll(reduce_onto(*args), 1)


PLANTED = {
    "out of range": (WRAPPED, "gibbsite.density.writing.values._held", lambda ends, atom: ends),
    "masks forgotten": (PADDED, "gibbsite.density.terms.Term.contribution", unweighted),
    "padding": (PADDED, "gibbsite.padding.flat_elements", lambda density: {}),
    "point masses": (POINT, "gibbsite.density.model.collect.check_atoms", lambda *args: None),
    "improper": (IMPROPER, "gibbsite.facade.check_proper", lambda density: None),
    "a neighbour's data": (WRAPPED, "gibbsite.conditional.forms.walk.reduce_onto", neighbours),
    "a neighbour's table": (SWITCHED, "gibbsite.conditional.finite.finite.reduce_onto", neighbours),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_planted_faults_are_found(fault, monkeypatch):
    """What the fuzzer asks of a model fails with the fault, and is met without."""
    case, where, broken = PLANTED[fault]
    monkeypatch.setattr(where, broken)
    with pytest.raises((AssertionError, IndexError, OverflowError)):
        check(case)


@pytest.mark.parametrize("case", [WRAPPED, PADDED, POINT, IMPROPER, SWITCHED], ids=range(5))
def test_what_faults_were_planted_in_is_right(case):
    check(case)


@pytest.mark.slow
@settings(max_examples=60, phases=FIND_AND_SHRINK, **CALM)
@given(programs())
def test_short_runs_are_finite(program):
    check_run(program)


@settings(max_examples=8, phases=FIND_AND_SHRINK, **CALM)
@given(programs())
def test_a_few_random_models(program):
    check(program)


@pytest.mark.slow
@settings(max_examples=10_000, phases=FIND_AND_SHRINK, **CALM)
@given(programs())
def test_many_random_models(program):
    check(program)
