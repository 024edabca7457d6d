"""Derived conditionals against the joint density: log densities by ratios, draws by Stein's identity.

The ratio of a conditional's density at two values is that of the joint density there, whatever the constant;
draws of a conditional have means of Stein's operator of 0, with the gradient of the *joint* density. For
discrete sites the identity is that of single-site Gibbs draws: given the other elements each element has, on
average over the draws, the probabilities of its own conditional.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to

from gibbsite.checking.finding import NO_PLACE, Finding
from gibbsite.checking.truth import Place, arrays, ratio
from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.conjugate.certify import ConjugateConditional
from gibbsite.conditional.gaussian.joint import GaussianConditional
from gibbsite.density.forward.agrees import stein
from gibbsite.diagnostics.measures.series import spaced
from gibbsite.ground.lazy_import import later
from gibbsite.programs.jaxpr.compiling import Quick

stats = later("scipy.stats")

TEST = "conditionals"
_LEVEL = 1e-6
"""Of one site's draws with all that is compared: statistics that are only nearly normal stay above."""
_ELEMENTS = 12
_VALUES = 8
_DRAWS = 2000
_AT_ONCE = 50
_MOST_WORK = 20_000_000
"""Numbers that the log density of a site's draws is made of: more takes minutes, and is left to others."""
_OFF = 5e-3
_BLIND = "how sites follow each other, and blocks that draw several sites at once: see the whole schedule"


def conditionals(model: Any, at: Sequence[Place], seed: int, going: Callable[[], bool]) -> Finding | None:
    """Every latent with a conditional that is drawn from directly, at some places, until `going` says no;
    None where there is no such latent."""
    latents = [n for n in model.density.latents if model.conditional(n).kind != "none"]
    if not latents:
        return None
    if not at:
        return Finding(TEST, "open", NO_PLACE)
    wrong, looked = [], []
    for name in latents:
        if not going():
            break
        c = model.conditional(name)
        look = _finite if c.kind in ("finite", "chain") else _continuous
        exact = [p for p in at if c.exact_at(arrays(p.values))]
        if not exact:  # a step from where it is, of which this test knows nothing
            continue
        why = look(model, c, name, exact, seed)
        looked.append(name)
        wrong += [f"{name} ({c.kind}): {why}"] if why else []
    if wrong:
        return Finding(TEST, "wrong", "; ".join(wrong), _BLIND)
    if not looked:
        return Finding(TEST, "open", "no time was left", _BLIND)
    few = ", ".join(looked[:8]) + " …" * (len(looked) > 8)
    sites = f"{len(latents)} site{'s' * (len(latents) > 1)}"
    text = f"{few}: ratios and draws agree with the joint density ({len(looked)} of {sites})"
    return Finding(TEST, "right", text, _BLIND)


def _draws(model: Any, name: str, at: Sequence[Place]) -> int:
    """How many draws are looked at."""
    size = int(np.prod(model.density.sites[name].shape, dtype=np.int64)) + at[0].terms.size
    return int(np.clip(_MOST_WORK // max(size, 1), _VALUES, _DRAWS))


def _finite(model: Any, c: Any, name: str, at: Sequence[Place], seed: int) -> str:
    """Every value of some elements against the joint; and draws against the probabilities of each element
    given the others in the same draw, where one application is an exact draw of all."""
    site, support = model.density.sites[name], np.asarray(c.support)
    size, inner = int(np.prod(c.structure.elements, dtype=np.int64)), support.shape[1:]
    elements, exact = spaced(size, _ELEMENTS), c.kind == "chain" or size == 1 or c.structure.independent
    count = _draws(model, name, at) if exact else 1

    def look(state: Any, base: Any, rows: Any, keys: Any) -> Any:
        def one(v: Any) -> Any:
            return ratio(model, base, {**state, name: v})

        def draw(key: Any) -> Any:
            drawn = c.sample(key, state)
            return drawn, jnp.exp(c.logits({**state, name: drawn}))

        heights = jax.lax.map(one, rows, batch_size=_AT_ONCE)
        return c.logits(state), heights, jax.lax.map(draw, keys, batch_size=_AT_ONCE)

    run = Quick(look)
    keys = jax.random.split(jax.random.key(seed), count)
    for k, place in enumerate(at):
        now = np.asarray(place.values[name]).reshape(size, *inner)
        moved = np.tile(now, (len(elements), len(support), *(1,) * now.ndim))
        for i, element in enumerate(elements):
            moved[i, :, element] = support
        rows = jnp.asarray(moved.reshape(-1, *site.shape), site.dtype)
        told, (heights, rounding), (drawn, probs) = run(arrays(place.values), place.terms, rows, keys)
        told = np.asarray(told, float).reshape(-1, len(support))[elements]
        table = np.asarray(heights, float).reshape(len(elements), len(support))
        room = _OFF + np.asarray(rounding, float).reshape(table.shape).max(1)
        if why := _values(told, np.where(np.isnan(table), -np.inf, table), room):
            return why
        if k == 0 and count > 1 and (why := _frequencies(np.asarray(drawn), np.asarray(probs), support)):
            return why
    return ""


def _values(told: np.ndarray, table: np.ndarray, room: np.ndarray) -> str:
    possible = np.isfinite(table).any(1) & ~np.isposinf(table).any(1)
    for log, row, off in zip(told[possible], table[possible], room[possible], strict=True):
        apart = np.abs(np.exp(log) - np.exp(row - np.logaddexp.reduce(row))).max()
        if not apart < off:
            return f"its probabilities are off by {apart:.2g} from those of the joint density"
    return ""


def _frequencies(drawn: np.ndarray, probs: np.ndarray, support: np.ndarray) -> str:
    count = len(drawn)
    seen = drawn.reshape(count, -1, 1, *support.shape[1:]) == support
    seen = seen.all(axis=tuple(range(3, seen.ndim)))
    expected = probs.astype(float).reshape(seen.shape)
    if not seen.any(2).all():
        return "its draws are outside of its support"
    variance = (expected * (1 - expected)).sum(0)
    often = variance > 10  # seldom values are Poisson, and normal tails say too much of them
    if not often.any():
        return ""
    z = np.abs((seen - expected).sum(0))[often] / np.sqrt(variance[often])
    p = 2 * float(stats.norm.sf(z.max())) * int(often.sum())
    return "" if p > _LEVEL else f"its draws have other frequencies (p = {p:.1g})"


def _log_density(c: Conditional) -> Callable[[Any, Mapping[str, Any]], Any] | None:
    """The log density that a conditional draws from, up to a constant; None where it does not tell."""
    if isinstance(c, ConjugateConditional):
        return lambda x, state: jnp.sum(c.distribution(state).log_prob(x))
    if type(c) is GaussianConditional:
        return lambda x, state: c.height(x, state)
    return None


def _continuous(model: Any, c: Conditional, name: str, at: Sequence[Place], seed: int) -> str:
    """Draws and their densities, and gradients of the joint density there."""
    through, log_q = biject_to(model.density.sites[name].support), _log_density(c)

    def look(state: Any, base: Any, keys: Any) -> Any:
        def height(u: Any) -> Any:
            value = through(u)
            jacobian = jnp.sum(through.log_abs_det_jacobian(u, value))
            joint, rounding = ratio(model, base, {**state, name: value})
            return joint + jacobian, (joint, rounding)

        def one(key: Any) -> Any:
            x = c.sample(key, state)
            u = through.inv(x)
            slope, (joint, rounding) = jax.grad(height, has_aux=True)(u)
            return x, joint, rounding, jnp.zeros(()) if log_q is None else log_q(x, state), u, slope

        return jax.lax.map(one, keys, batch_size=_AT_ONCE)

    run = Quick(look)
    keys = jax.random.split(jax.random.key(seed), count := _draws(model, name, at))
    for k, place in enumerate(at):
        x, joint, rounding, told, u, slope = (
            np.asarray(a, np.float64) for a in run(arrays(place.values), place.terms, keys)
        )
        if why := _heights(x, joint, rounding, told, log_q is not None):
            return why
        if k == 0 and count > 100 and (why := _slopes(u.reshape(count, -1), slope.reshape(count, -1))):
            return why
    return ""


def _heights(x: np.ndarray, joint: np.ndarray, rounding: np.ndarray, told: np.ndarray, tells: bool) -> str:
    """Ratios of the density that is drawn from against those of the joint, at some of its own draws."""
    if not np.isfinite(x).all():
        return "its draws are not finite"
    inside = np.isfinite(joint)
    if inside.mean() < 0.99:
        return "it draws values that the joint density excludes"
    if not tells:
        return ""
    a, b = (v[inside][:_VALUES] - v[inside][0] for v in (joint, told))
    eps = float(jnp.finfo(jnp.result_type(float)).eps)
    room = 2e-3 + 1e-3 * np.abs(a) + 2 * rounding[inside][:_VALUES].max()
    room += 64 * eps * (1 + np.abs(told[inside][:_VALUES]).max())
    if (np.abs(a - b) < room).all():
        return ""
    worst = float(np.abs(a - b).max())
    return f"the ratios of its density are off by up to {worst:.2g} from those of the joint density"


def _slopes(u: np.ndarray, slope: np.ndarray) -> str:
    """Stein's identity, of some coordinates."""
    columns = spaced(u.shape[1], 2 * _ELEMENTS)
    u, slope = u[:, columns], slope[:, columns]
    whole = np.isfinite(u).all(1) & np.isfinite(slope).all(1)
    if whole.mean() < 0.99:  # rounded to the edge of a support
        return ""
    u, slope = u[whole], slope[whole]
    moving = np.ptp(u, axis=0) > 0
    if not moving.any():
        return "all of its draws are the same"
    p, tests = stein(u[:, moving], slope[:, moving])
    return "" if p * tests > _LEVEL else f"its draws do not follow the joint density (p = {p * tests:.1g})"
