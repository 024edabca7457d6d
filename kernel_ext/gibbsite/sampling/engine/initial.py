"""Where chains start: values that were asked for, and why a start is impossible."""

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.distributions import Unit, constraints
from numpyro.distributions.transforms import biject_to
from numpyro.infer import HMC
from numpyro.infer.gibbs import conditioned
from numpyro.infer.initialization import init_to_sample, init_to_uniform
from numpyro.infer.util import log_density

from gibbsite.conditional.draws.gamma import own_gammas
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.model.tails import in_tails
from gibbsite.diagnostics.verdict.cause import cause_of
from gibbsite.errors import ModelError, OptionError, UnknownNameError
from gibbsite.kernels.base import angles_of
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.draws import Chunk, label_of


def checked_starts(plan: Plan, chains: int, init: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Starting values `[chain, *shape]` by latent site, from values of shape `shape` or `[chain, *shape]`.

    A group's value has its members on the first site axis. Raises `UnknownNameError` for a name that is no
    latent, `OptionError` for a wrong shape or a value outside the support (with site, index and value).
    """
    latents = {n: s for n, s in plan.sites.items() if s.role == "latent"}
    flat: dict[str, Any] = {}
    for name, value in init.items():
        if name in plan.groups:
            members = plan.groups[name]
            value = np.asarray(value)
            by_chain = value.ndim > 1 + len(latents[members[0]].shape)
            if value.ndim < 1 or value.shape[1 if by_chain else 0] != len(members):
                raise OptionError(f"init: {name!r} has {len(members)} members; got shape {value.shape}")
            flat.update({m: value[:, i] if by_chain else value[i] for i, m in enumerate(members)})
        elif name in latents:
            flat[name] = value
        else:
            raise UnknownNameError("latent site", name, [*latents, *plan.groups])
    return {n: _checked(n, latents[n], chains, v) for n, v in flat.items()}


_MANY, _GROUPS = 16, 4
"""Chains from which on those with a common start are judged together, and groups of them at least."""


def superchains(plan: Plan, given: Mapping[str, np.ndarray] | None) -> np.ndarray | None:
    """The number of the superchain of each chain: of chains that start at the same values of all latents
    (Margossian and others 2024, "Nested R-hat"). None unless these are many, in groups of one size."""
    moved = {n for n, s in plan.sites.items() if s.role == "latent"} - {*plan.generated, *plan.hidden}
    if not given or not moved <= set(given):
        return None
    chains = len(next(iter(given.values())))
    starts = np.concatenate([np.asarray(given[n], np.float64).reshape(chains, -1) for n in sorted(moved)], 1)
    _, number, sizes = np.unique(starts, axis=0, return_inverse=True, return_counts=True)
    alike = len(set(sizes.tolist())) == 1 and sizes[0] > 1
    return number.reshape(-1) if chains >= _MANY and len(sizes) >= _GROUPS and alike else None


def _checked(name: str, site: Any, chains: int, value: Any) -> np.ndarray:
    value = np.asarray(value)
    if value.shape not in (site.shape, (chains, *site.shape)):
        raise OptionError(
            f"init: {name!r} has shape {site.shape}; got {value.shape}. Give one value for all chains, or "
            f"one per chain: {(chains, *site.shape)}"
        )
    if site.discrete and not np.array_equal(value, np.round(value)):
        raise OptionError(
            f"init: {name!r} holds whole numbers; got {value.ravel()[value.ravel() % 1 != 0][0]}"
        )
    out = np.broadcast_to(value, (chains, *site.shape)).astype(site.dtype)
    if site.support is not None:
        inside = _inside(site.support, out)
        if not inside.all():
            at = tuple(int(i) for i in np.argwhere(~inside)[0])
            raise OptionError(
                f"init: {name!r} is outside its support {site.support} in chain {at[0]}, "
                f"at index {list(at[1:])}: {out[at]}"
            )
    return out


def _inside(support: Any, value: np.ndarray) -> np.ndarray:
    """Which elements of the batch lie in a support; shares may miss a sum of 1 by what rounding makes of it,
    as thousands of them do."""
    if base_constraint(support) is not constraints.simplex:
        return np.asarray(support(jnp.asarray(value)))
    off = np.abs(value.sum(axis=-1, dtype=np.float64) - 1)
    return (value >= 0).all(axis=-1) & (off <= max(1e-6, value.shape[-1] * np.finfo(np.float32).eps))


RADIUS = 2.0
"""Half the interval of unconstrained coordinates that Stan and NumPyro draw starts from."""
# unconstrained coordinates of values that lie on the edge of their support by rounding
_HIGH, _LOW = 15.0, -80.0


class Asked(NamedTuple):
    """Which starts are wanted in a chain: `values` where `use` says so, and within which `radius` others."""

    values: dict[str, Any]
    use: dict[str, Any]
    radius: Any


def first_values(
    kernel: Any, key: Any, kwargs: Mapping[str, Any], asked: Asked | None, prior: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where one chain starts: constrained values by site, and the same as the blocks of `kernel` want them
    (unconstrained for HMC).

    Continuous sites are uniform in unconstrained space, as NUTS starts them: a draw from a vague prior such
    as Gamma(0.001, 0.001) is 0 or 1e-150, from where no kernel comes back. Discrete sites are drawn from
    their priors given the others, as are all sites under `prior`.
    """
    radius: Any = RADIUS if asked is None else asked.radius
    drawer: Any = init_to_sample if prior else init_to_uniform(radius=radius)

    def chosen(site: Any) -> Any:
        if site["type"] != "sample" or site["is_observed"]:
            return None
        fn, name = site["fn"], site["name"]
        drawn = drawer(site)
        if drawn is None:  # discrete
            drawn = fn(rng_key=site["kwargs"]["rng_key"], sample_shape=site["kwargs"]["sample_shape"])
        return drawn if asked is None else jnp.where(asked.use[name], asked.values[name], drawn)

    model = handlers.seed(conditioned(own_gammas(kernel.model)), key)
    traced = handlers.trace(handlers.substitute(model, substitute_fn=chosen)).get_trace(**kwargs)
    latent = {n: s for n, s in traced.items() if s["type"] == "sample" and not s["is_observed"]}
    values = {n: jnp.asarray(s["value"]) for n, s in latent.items()}
    native = dict(values)
    for block, names in named_blocks(kernel, latent):
        for n in names if isinstance(block, HMC) else ():
            if n in angles_of(block):
                continue
            free = biject_to(latent[n]["fn"].support).inv(values[n])
            native[n] = jnp.nan_to_num(free, nan=jnp.nan, posinf=_HIGH, neginf=_LOW)
    return values, native


def named_blocks(kernel: Any, latents: Iterable[str]) -> list[tuple[Any, list[str]]]:
    """The blocks of a composite, each with the names of its sites."""
    named = [None if sites is None or callable(sites) else list(sites) for _, sites in kernel.blocks]
    owned = {n for sites in named if sites is not None for n in sites}
    rest = [n for n in latents if n not in owned]
    blocks = [block for block, _ in kernel.blocks]
    return [(b, rest if s is None else s) for b, s in zip(blocks, named, strict=True)]


def logdensity_at_start(kernel: Any, state: Any, kwargs: Mapping[str, Any]) -> Any:
    """Joint logdensity of the starting values, or None where an HMC block's energy tells it."""
    if any(hasattr(s, "potential_energy") for s in state.block_states):
        return None
    model = handlers.seed(kernel.model, jax.random.key(0))
    with in_tails():
        return log_density(model, (), dict(kwargs), state.z)[0]


def bad_chains(state: Any, logdensity: Any) -> np.ndarray:
    """Which chains start at a point of non-finite density."""
    found = [] if logdensity is None else [np.asarray(logdensity)]
    energies = (getattr(block, "potential_energy", None) for block in state.block_states)
    found += [np.asarray(e) for e in energies if e is not None]
    return np.any([~np.isfinite(x) for x in found], axis=0)


def check_start(
    kernel: Any,
    plan: Plan,
    kwargs: Mapping[str, Any],
    state: Any,
    logdensity: Any,
    given: Collection[str] = (),
    tried: str = "",
    impossible: str | None = None,
) -> None:
    """Refuse chains that start at a point of non-finite density: `ModelError` with the chain, the site, the
    element and its value, the sites that were `given` with `init=`, and what else was `tried`. `impossible`
    tells of a parameter that cannot be there, where that is known."""
    bad = bad_chains(state, logdensity)
    if not bad.any():
        return
    chain = int(np.argmax(bad))
    z = jax.tree.map(lambda v: v[chain], state.z)
    values = kernel.postprocess_fn((), dict(kwargs))(z)
    for group, members in plan.members.items():
        values.update(zip(members, values.pop(group), strict=True))
    reason = impossible or blame(plan.model or kernel.model, kwargs, values)
    reason = reason or "no single site explains it"
    where = f"{int(bad.sum())} of {bad.size} chains start where the density is zero or undefined: {reason}"
    if given:
        asked = ", ".join(map(repr, given))
        raise ModelError(
            f"init: the values given for {asked} contradict the data or each other. {where} (chain {chain}). "
            f"Change them, or leave sites out of init= so that their starts are found"
        )
    raise ModelError(
        f"{where} (chain {chain}{'; ' * bool(tried)}{tried}). "
        f"Give other starting values with init={{…}}, or look at the data there"
    )


def check_terms(sums: Mapping[str, Any]) -> None:
    """Refuse to draw from terms that are no numbers where the density is one: `ModelError` with the sites
    whose they are, of the `sums` by statement, `[chain]`, at a start of finite density."""
    wrong = [n for n, each in sums.items() if not np.isfinite(np.asarray(each)).all()]
    if wrong:
        raise ModelError(
            f"the log density of {', '.join(wrong)} is a number where chains start, and the terms that "
            "updates are derived from are not: a fault of Gibbsite's analysis. Please report the model; in "
            "other words, such as `probs=` for `logits=`, it may be read rightly"
        )


def blame(model: Any, kwargs: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    """Which site has a non-finite log-probability at `values`, at which element, and for which value."""
    seeded = handlers.seed(handlers.substitute(model, data=dict(values)), jax.random.key(0))
    with handlers_alone, numpyro.validation_enabled(False), in_tails():
        traced = handlers.trace(seeded).get_trace(**kwargs)
    # with validation, what lies outside a support has no density; NumPyro also warns of it
    with handlers_alone, numpyro.validation_enabled(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name, site in traced.items():
            if site["type"] != "sample":
                continue
            kind = "observed site" if site["is_observed"] else "site"
            try:
                terms = np.asarray(site["fn"].log_prob(site["value"]))
            except ValueError as problem:  # a parameter that cannot be
                return f"{kind} {name!r}: {problem}"
            wrong = np.argwhere(~np.isfinite(terms))
            if not len(wrong):
                continue
            at = tuple(int(i) for i in wrong[0])
            where = f", at index {list(at)} ({len(wrong)} such elements)" if at else ""
            if isinstance(site["fn"], Unit):
                return f"factor {name!r}{where} is {terms[at]}: what it asks of the draws does not hold there"
            value = np.asarray(site["value"])[at]
            edge = _EDGE if site["is_observed"] and _at_edge(site["fn"], value) else ""
            return f"{kind} {name!r}{where} has log-probability {terms[at]} for the value {value}{edge}"
    return None


_EDGE = (
    ", the edge of what can be, where a density is 0 or without end: move such data inside (of n shares, "
    "(y * (n - 1) + 0.5) / n; Smithson and Verkuilen 2006), or give them a statement of their own"
)


def _at_edge(fn: Any, value: Any) -> bool:
    """Whether a value is one of the bounds of a continuous support."""
    own = base_constraint(fn.support)
    ends = (getattr(own, n, None) for n in ("lower_bound", "upper_bound"))
    return not own.is_discrete and any(np.any(np.equal(value, b)) for b in ends if b is not None)


FAR, FAR_PER_ELEMENT = 10.0, 2.0
"""How far below the others the logdensity of a chain lies that may be lost: more than any two draws of one
mode differ by, scales that vary included. Whether it is, masses tell: a wide mode is low."""


def far_below(level: np.ndarray, best: float | np.ndarray, elements: int) -> np.ndarray:
    """Which chains have no density, or lie far below the best that was seen."""
    return ~np.isfinite(level) | (level < best - FAR - FAR_PER_ELEMENT * elements)


def level_of(state: Any, logdensity: Any) -> np.ndarray:
    """The logdensity of the chains of a fresh state, up to a constant; −∞ where there is none."""
    energies = (getattr(block, "potential_energy", None) for block in state.block_states)
    found = -np.asarray(next(e for e in energies if e is not None)) if logdensity is None else logdensity
    return np.where(bad_chains(state, logdensity), -np.inf, np.asarray(found, np.float64))


def slopeless(state: Any) -> np.ndarray:
    """In which chains a gradient is not finite: no trajectory leaves such a point."""
    slopes = [np.asarray(b.w_grad) for b in state.block_states if getattr(b, "w_grad", None) is not None]
    return np.any([~np.isfinite(g).reshape(len(g), -1).all(1) for g in slopes] or [[False]], axis=0)


def _finite(x: np.ndarray) -> bool:
    """Without an array of answers: NaN and infinities are in the largest or the smallest."""
    if x.dtype.kind not in "fc" or not x.size:
        return True
    return bool(np.isfinite(x.max()) and np.isfinite(x.min()))


def first_undefined(plan: Plan, chunk: Chunk) -> int | None:
    """The first step of a chunk at which some latent value is NaN or infinite; None where all are finite."""
    steps = [
        int(np.argmin(np.isfinite(x).reshape(len(x), -1).all(axis=1)))
        for name, x in chunk.values.items()
        if plan.sites[name].role == "latent" and not _finite(x)
    ]
    return min(steps) if steps else None


def undefined_error(plan: Plan, chunk: Chunk, step: int, done: int, warmup: int) -> ModelError:
    """What became undefined at `step` of a chunk before which `done` steps were made: site, chain, draw,
    and the first block of the sweep that made it."""
    bad = {
        name: np.argwhere(~np.isfinite(x[step]))
        for name, x in chunk.values.items()
        if plan.sites[name].role == "latent" and x.dtype.kind in "fc" and not np.isfinite(x[step]).all()
    }
    owner = {m: b for b in plan.blocks for s in b.sites for m in (s, *plan.members.get(s, ()))}
    order = {id(b): i for i, b in enumerate(plan.blocks)}

    def place(name: str) -> int:
        return order[id(owner[name])] if name in owner else len(order)

    name = min(bad, key=place)
    chain, *index = (int(i) for i in bad[name][0])
    value = chunk.values[name][(step, chain, *index)]
    at = done + step
    when = f"draw {at - warmup}" if at >= warmup else f"step {at} of warm-up"
    others = f" ({len(bad[name])} of its elements in all chains)" if len(bad[name]) > 1 else ""
    b = owner.get(name)
    block = f"{b.kernel} {b.label}" if b else "no block of the schedule"
    turn = place(name)
    state = {  # what the block drew from: the sweep's own draws before it, and those of the last one after it
        n: x[step - (step > 0 and place(n) >= turn), chain]
        for n, x in chunk.values.items()
        if plan.sites[n].role == "latent"
    }
    why = cause_of(plan.density, b.sites if b else (name,), state, float(value))
    return ModelError(
        f"the run has failed: {label_of(name, tuple(index))} is {value} in chain {chain}, {when}{others}, "
        f"drawn by the block {block}. The cause: {why}"
    )
