"""What is claimed of a random model, against NumPyro's own joint density: conditionals and texts.

Finite conditionals are compared value by value; conjugate ones by their log density and by draws, element by
element, over a grid; printed statements as numbers. NumPyro's joint is evaluated once per model, at all the
values of all sites together. Numbers are made by NumPy, and draws by one program for each family: XLA would
spend seconds on the shapes of every new model.
"""

import re
import warnings
from collections.abc import Mapping
from typing import Any

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from gibbsite.conditional.gaussian.joint import GaussianConditional
from gibbsite.printing.statements.statement import Statement
from numpyro.distributions import biject_to
from numpyro.infer.util import log_density
from scipy import stats

from helpers.models.grammar import Program
from helpers.readers.in_numpy import in_numpy
from helpers.readers.printed import Reader

CLAIMS_NOTHING = re.compile(r"\bf\(|…")
GRID = 401
DRAWS = 400


def built(program: Program, check_values: bool = False):
    """The model, or None where it is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return gb.model(program.model(), *program.args, check_values=check_values)
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


def joint(
    program: Program, state: Mapping[str, Any], moved: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """NumPyro's log joint density at many values of each of some sites, the others as in `state`."""
    model, parts, at = program.model(), {}, 0
    for name, values in moved.items():
        parts[name] = slice(at, at := at + len(values))
    rows = {n: np.repeat(np.asarray(v)[None], at, 0) for n, v in state.items()}
    for name, values in moved.items():
        rows[name][parts[name]] = values

    def logs(values: Any) -> Any:
        return log_density(model, program.args, {}, values)[0]

    found = in_numpy(jax.vmap(logs), rows).astype(float)
    return {n: found[p] for n, p in parts.items()}


def one_by_one(base: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`base` with element `i` at each value of `columns[:, i]` in turn, `[values * elements, *shape]`."""
    n = max(base.size, 1)
    moved = np.tile(base.reshape(1, 1, -1), (len(columns), n, 1)).astype(columns.dtype)
    for i in range(n):
        moved[:, i, i] = columns[:, i]
    return moved.reshape(-1, *base.shape)


def check_finite(conditional, state, values: np.ndarray, table: np.ndarray) -> None:
    """Every element's log probabilities against the joint, one value at a time.

    Where the joint allows none, because another element has an impossible value, it tells nothing.
    """
    told = in_numpy(conditional.logits, state).reshape(-1, len(values))
    table = table.reshape(len(values), -1).T
    possible = np.isfinite(table).any(axis=1)
    told, table = told[possible], table[possible]
    table = table - np.logaddexp.reduce(table, axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(told), np.exp(table), rtol=1e-3, atol=1e-4)


@jax.jit
def drawn(keys: Any, distribution: Any) -> Any:
    """A draw for each key: compiled once for each family and shape."""
    return jax.vmap(distribution.sample)(keys)


def draws_of(program: Program, model, conditional, state, site: str) -> np.ndarray:
    """Draws of each element, `[draws, elements]`, inside the support."""
    keys = jax.random.split(jax.random.key(3), DRAWS)
    if isinstance(conditional, GaussianConditional):
        latents, data = conditional.density.state_values(state), tuple(conditional.density.arguments.arrays)
        draws = np.asarray(jax.jit(jax.vmap(lambda k: conditional.update(k, latents, data)))(keys))
    else:
        with numpyro.validation_enabled(False):
            distribution = in_numpy(conditional.distribution, state)
            shape = model.sites[site].shape[: len(model.sites[site].shape) - distribution.event_dim]
            draws = np.asarray(drawn(keys, distribution.expand(shape)))
    assert np.isfinite(draws).all(), "draws are not finite"
    assert np.asarray(model.sites[site].support(jnp.asarray(draws))).all(), "draws outside of the support"
    return draws.reshape(DRAWS, -1)


def grid_of(draws: np.ndarray) -> np.ndarray:
    """Places around the draws of each element."""
    reach = 0.7 * np.ptp(draws, 0) + 1e-3
    return np.linspace(draws.min(0) - reach, draws.max(0) + reach, GRID, dtype=np.float32)


def inside_of(model, site: str, moved: np.ndarray) -> np.ndarray:
    """Which whole values of a site lie in its support."""
    found = np.asarray(model.sites[site].support(jnp.asarray(moved)))
    return found.reshape(len(moved), -1).all(1)


def check_draws(
    program: Program, conditional, state, draws: np.ndarray, grid: np.ndarray, table: np.ndarray
) -> None:
    """The log density of each element, and its draws, against the joint on a grid; `table` is minus infinity
    outside of the support."""
    logs = np.where(np.isnan(table), -np.inf, table).reshape(GRID, -1)
    gaussian = isinstance(conditional, GaussianConditional)
    told = gaussian_logs(conditional, state, grid) if gaussian else natural_logs(conditional, state, grid)
    for i in range(draws.shape[1]):
        here = np.isfinite(logs[:, i])
        if not here.any():
            continue  # impossible whatever its value: by data, or by another element's value
        if np.ptp(logs[here, i]) < 1e-6 and "mask" in program.source:
            continue  # padding that nothing reads: it has its prior, which the joint masks out
        apart = (told[here, i] - logs[here, i]) - (told[here, i] - logs[here, i])[logs[here, i].argmax()]
        room = 2e-3 + 1e-4 * (logs[here, i].max() - logs[here, i])
        assert (np.abs(apart) < room).all(), f"element {i} of {conditional.site}: {np.abs(apart).max():.2g}"
        weight = np.exp(logs[:, i] - logs[here, i].max())
        cdf = np.concatenate([[0], np.cumsum((weight[1:] + weight[:-1]) / 2)])
        p = stats.kstest(draws[:, i], lambda v, i=i, cdf=cdf: np.interp(v, grid[:, i], cdf / cdf[-1])).pvalue
        assert p > 1e-7, f"element {i} of {conditional.site}: p = {p:.1e}"


def natural_logs(conditional, state, grid: np.ndarray) -> np.ndarray:
    """The log density that the coefficients of its statistics make, less a constant, over a grid."""
    found = in_numpy(conditional.natural, state)
    x, total = grid.astype(float), np.zeros(grid.shape)
    with np.errstate(all="ignore"):
        for (p, q, log, log1m), c in zip(conditional.keys, found.values(), strict=True):
            part = x**p if p else 1.0
            for power, base in ((q, 1 - x), (log, np.log(x)), (log1m, np.log1p(-x))):
                part = part * (base**power if power else 1.0)
            total = total + np.asarray(c, float).reshape(1, -1) * part
    return total


def gaussian_logs(conditional, state, grid: np.ndarray) -> np.ndarray:
    """The same of a quadratic form of the whole site, each element moved by itself. Draws of elements are
    compared with the joint at the others' values, so that the form must not couple them."""
    found = in_numpy(conditional.natural, state)
    precision = np.asarray(found["precision"], float)
    assert np.allclose(precision, precision * np.eye(precision.shape[-1]), atol=1e-6), "elements are coupled"
    slope = np.asarray(found["information"], float).reshape(-1)
    return slope * grid - 0.5 * np.diagonal(precision, 0, -2, -1).reshape(-1) * grid.astype(float) ** 2


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
    conditionals = {n: model.conditional(n) for n in model.density.latents}
    finite = {n: np.asarray(c.support) for n, c in conditionals.items() if c.kind in ("finite", "chain")}
    draws = {
        n: draws_of(program, model, c, state, n) for n, c in conditionals.items() if c.kind == "conjugate"
    }
    columns = {n: np.repeat(v[:, None], max(np.size(state[n]), 1), 1) for n, v in finite.items()}
    columns |= {n: grid_of(d) for n, d in draws.items()}
    moved = {n: one_by_one(np.asarray(state[n]), c) for n, c in columns.items()}
    tables = joint(program, state, moved) if moved else {}
    for n, values in finite.items():
        check_finite(conditionals[n], state, values, tables[n])
    for n, d in draws.items():
        if "Delta" in program.source:
            np.testing.assert_allclose(d, 0.7, rtol=1e-6)
            continue
        table = np.where(inside_of(model, n, moved[n]), tables[n], -np.inf)
        check_draws(program, conditionals[n], state, d, columns[n], table)
    return " ".join(c.kind for c in conditionals.values())
