"""What is claimed of a random model, against NumPyro's own joint density: conditionals, texts, short runs.

Finite conditionals are compared value by value; draws of continuous ones, element by element, with the joint
integrated on a grid; printed statements as numbers; runs of small discrete models with the enumerated joint.
Nothing is compiled as a whole: operations of a few shapes, met again in every model, are cheaper one by one.
"""

import itertools
import re
import warnings

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from gibbsite.conditional import FiniteConditional
from gibbsite.density.notation.statement import Statement
from numpyro.distributions import biject_to
from numpyro.infer.util import log_density
from scipy import stats

from helpers.models.grammar import Program
from helpers.readers.printed import Reader

CLAIMS_NOTHING = re.compile(r"\bf\(|…")
GRID = 401
DRAWS = 400
LARGEST = 256
"""Joint values of discrete models that are enumerated."""


def built(program: Program):
    """The model, or None where it is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return gb.model(program.model(), *program.args)
        except gb.GibbsiteError:
            return None


def state_of(model, number: int) -> dict[str, np.ndarray]:
    """Values inside the supports, no two of which are equal where they are real."""
    rng = np.random.default_rng(number)
    out = {}
    for name, site in model.sites.items():
        if site.latent and site.discrete:
            conditional = model.conditional(name)
            values = (
                np.asarray(conditional.support) if conditional.kind in ("finite", "chain") else np.arange(4)
            )
            out[name] = values[rng.integers(0, len(values), site.shape)].reshape(site.shape)
        elif site.latent:
            to = biject_to(site.support)
            out[name] = np.asarray(to(jnp.asarray(rng.uniform(-0.9, 0.9, to.inverse_shape(site.shape)))))
    return out


def joint(program: Program, rest, site: str, values) -> np.ndarray:
    """NumPyro's log joint density at many values of one site."""
    model = program.model()

    def at(value):
        return log_density(model, program.args, {}, {**rest, site: value})[0]

    return np.asarray(jax.vmap(at)(jnp.asarray(values)), float)


def one_by_one(base: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`base` with element `i` at each value of `columns[:, i]` in turn, `[values, elements, *shape]`."""
    n = max(base.size, 1)
    moved = np.tile(base.reshape(1, 1, -1), (len(columns), n, 1)).astype(columns.dtype)
    for i in range(n):
        moved[:, i, i] = columns[:, i]
    return moved.reshape(len(columns), n, *base.shape)


def check_finite(program: Program, conditional, state, site: str) -> None:
    """Every element's log probabilities against the joint, one value at a time."""
    values, base = np.asarray(conditional.support), np.asarray(state[site])
    n = max(base.size, 1)
    assert values.ndim == 1
    told = np.asarray(conditional.logits(state)).reshape(n, len(values))
    moved = one_by_one(base, np.repeat(values[:, None], n, 1))
    rest = {k: jnp.asarray(v) for k, v in state.items() if k != site}
    table = joint(program, rest, site, moved.reshape(-1, *base.shape)).reshape(len(values), n).T
    table = table - np.logaddexp.reduce(table, axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(told), np.exp(table), rtol=1e-3, atol=1e-4)


def check_draws(program: Program, model, conditional, state, site: str) -> None:
    """Draws of each element against the joint on a grid; where elements do not move each other."""
    density = conditional.density  # that of the sites of loops as arrays, where there are such
    latents = {n: v for n, v in density.state_values(state, without=(site,)).items() if n != site}
    data = tuple(density.arguments.arrays)
    keys = jax.random.split(jax.random.key(3), DRAWS)
    with numpyro.validation_enabled(False):
        draws = np.asarray(jax.vmap(lambda k: conditional.update(k, latents, data))(keys))
    loose = "Improper" in program.source or ".expand([3]))" in program.source  # no prior, or a masked one
    if loose and "z" in state and not np.isfinite(draws).all():
        return  # no observation has chosen some element, here: a run fails at the first such draw
    assert np.isfinite(draws).all(), "draws are not finite"
    base, support = np.asarray(state[site], np.float32), model.sites[site].support
    flat = draws.reshape(DRAWS, -1)
    if "Delta" in program.source:
        np.testing.assert_allclose(flat, 0.7, rtol=1e-6)
        return
    reach = 0.7 * np.ptp(flat, 0) + 1e-3
    grids = np.linspace(flat.min(0) - reach, flat.max(0) + reach, GRID, dtype=np.float32)
    moved = one_by_one(base, grids).reshape(-1, *base.shape)
    inside = np.asarray(jax.vmap(lambda v: jnp.all(support(v)))(jnp.asarray(moved))).reshape(GRID, -1)
    rest = {k: jnp.asarray(v) for k, v in state.items() if k != site}
    logs = joint(program, rest, site, moved).reshape(GRID, -1)
    logs = np.where(inside & ~np.isnan(logs), logs, -np.inf)
    for i in range(flat.shape[1]):
        here = logs[:, i]
        if np.ptp(here[np.isfinite(here)]) < 1e-6 and "mask" in program.source:
            continue  # padding that nothing reads: it has its prior, which the joint masks out
        weight = np.exp(here - here.max())
        cdf = np.concatenate([[0], np.cumsum((weight[1:] + weight[:-1]) / 2)])
        p = stats.kstest(flat[:, i], lambda v, i=i, cdf=cdf: np.interp(v, grids[:, i], cdf / cdf[-1])).pvalue
        assert p > 1e-7, f"element {i} of {site}: p = {p:.1e}"


def check_texts(model, state) -> None:
    """Statements turned back into numbers."""
    statements = {n: Statement(model.density, n) for n in model.sites}
    texts = {n: s.factor() for n, s in statements.items()}
    reader = Reader(model.density, state)
    for name, site in model.sites.items():
        text, statement = texts[name], statements[name]
        if CLAIMS_NOTHING.search(text) or "Improper" in text or "Delta" in text:
            continue
        shape = site.shape[: site.element_rank]
        places = [dict(zip(statement.letters, p, strict=True)) for p in np.ndindex(*shape)]
        found = reader.log_factors(text, places).reshape(shape)
        expected = reader.log_prob[name]
        found = found.sum(tuple(range(expected.ndim, found.ndim)))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3, err_msg=text)


def check(program: Program) -> str:
    """All that is claimed of one model; returns what kinds of conditionals it had."""
    model = built(program)
    if model is None:
        return "refused"
    state = state_of(model, 5)
    check_texts(model, state)
    kinds = []
    for name in model.density.latents:
        conditional = model.conditional(name)
        kinds.append(conditional.kind)
        if conditional.kind in ("finite", "chain"):
            check_finite(program, conditional, state, name)
        elif conditional.kind == "conjugate":
            check_draws(program, model, conditional, state, name)
    return " ".join(kinds)


def check_run(program: Program, draws: int = 4) -> str:
    """A short run of the default schedule: its draws are finite, or it says that it failed."""
    model = built(program)
    if model is None:
        return "refused"
    try:
        run = model.sample(draws=draws, warmup=4, chains=2, seed=1)
    except gb.GibbsiteError as why:
        return str(why)
    for name in model.density.latents:
        assert np.isfinite(run.draws[name]).all(), name
    return run.status


def check_reach(program: Program, draws: int = 300) -> None:
    """The default schedule's frequencies in each chain, against all joint values of a discrete model."""
    model = built(program)
    assert model is not None
    names = model.density.latents
    sizes = {n: int(np.prod(model.sites[n].shape)) for n in names}
    found = [model.conditional(n) for n in names for _ in range(sizes[n])]
    supports = [c.support for c in found if isinstance(c, FiniteConditional)]
    rows = np.array(list(itertools.product(*supports)))
    assert len(rows) <= LARGEST
    values, at = {}, 0
    for n in names:
        values[n] = rows[:, at : at + sizes[n]].reshape(-1, *model.sites[n].shape)
        at += sizes[n]
    fn = program.model()
    logs = jax.vmap(lambda v: log_density(fn, program.args, {}, v)[0])(
        {n: jnp.asarray(v) for n, v in values.items()}
    )
    weight = np.exp(np.asarray(logs, float) - np.max(logs))
    run = model.sample(draws=draws, warmup=5, chains=2, seed=1)
    for n in names:
        for k in np.unique(values[n]):
            p = np.tensordot(weight / weight.sum(), values[n] == k, 1)
            seen = (np.asarray(run.draws[n]) == k).mean(1)
            room = 5 * np.sqrt(p * (1 - p) / (draws / 3)) + 0.01  # a third as many as if independent
            assert (np.abs(seen - p) < room).all(), (
                f"{n} = {k}: {seen} of the draws of each chain, {p} expected"
            )
