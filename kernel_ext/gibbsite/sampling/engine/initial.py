"""Where chains start: values that were asked for, and why a start is impossible."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.distributions.transforms import biject_to
from numpyro.infer import HMC
from numpyro.infer.gibbs import conditioned, prototype_trace
from numpyro.infer.util import log_density

from gibbsite.errors import ModelError, OptionError, UnknownNameError
from gibbsite.kernels.scheduling.plan import Plan


def model_of(kernel: Any) -> Any:
    """The NumPyro model of a composite kernel."""
    return kernel.model


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
        inside = np.asarray(site.support(jnp.asarray(out)))
        if not inside.all():
            at = tuple(int(i) for i in np.argwhere(~inside)[0])
            raise OptionError(
                f"init: {name!r} is outside its support {site.support} in chain {at[0]}, "
                f"at index {list(at[1:])}: {out[at]}"
            )
    return out


def native_values(kernel: Any, key: Any, kwargs: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """Starting values as the blocks of `kernel` want them: unconstrained for HMC, complete per block.

    Sites of a block that were not given are drawn from the prior.
    """
    traced = prototype_trace(conditioned(kernel.model), key, (), dict(kwargs))
    latent = [n for n, s in traced.items() if s["type"] == "sample" and not s["is_observed"]]
    owned = {n for _, sites in kernel.blocks if sites is not None and not callable(sites) for n in sites}
    out = {}
    for block, sites in kernel.blocks:
        names = [n for n in latent if n not in owned] if sites is None or callable(sites) else sites
        if not any(n in values for n in names):
            continue
        for n in names:
            v = values.get(n, traced[n]["value"])
            out[n] = biject_to(traced[n]["fn"].support).inv(v) if isinstance(block, HMC) else v
    return out


def logdensity_at_start(kernel: Any, state: Any, kwargs: Mapping[str, Any]) -> Any:
    """Joint logdensity of the starting values, or None where an HMC block's energy tells it."""
    if any(hasattr(s, "potential_energy") for s in state.block_states):
        return None
    model = handlers.seed(kernel.model, jax.random.key(0))
    return log_density(model, (), dict(kwargs), state.z)[0]


TRIES = 100
"""How often a chain's start is drawn anew, as often as NumPyro's `find_valid_initial_params` does."""


def bad_chains(state: Any, logdensity: Any) -> np.ndarray:
    """Which chains start at a point of non-finite density."""
    found = [] if logdensity is None else [np.asarray(logdensity)]
    energies = (getattr(block, "potential_energy", None) for block in state.block_states)
    found += [np.asarray(e) for e in energies if e is not None]
    return np.any([~np.isfinite(x) for x in found], axis=0)


def possible_start(draw: Callable[[Any], tuple[Any, Any]], key: Any, tries: int) -> tuple[Any, Any]:
    """State and logdensity of all chains from `draw(key)`; chains whose start is impossible are drawn again.

    The others keep theirs. After `tries` draws what is there is returned, possible or not.
    """
    state, logdensity = draw(key)
    for attempt in range(1, tries):
        bad = bad_chains(state, logdensity)
        if not bad.any():
            break
        again = draw(jax.random.fold_in(key, attempt))

        def chosen(old: Any, new: Any, bad: Any = bad) -> Any:
            return jnp.where(bad.reshape(-1, *(1,) * (jnp.ndim(old) - 1)), new, old)

        state, logdensity = jax.tree.map(chosen, (state, logdensity), again)
    return state, logdensity


def check_start(kernel: Any, plan: Plan, kwargs: Mapping[str, Any], state: Any, logdensity: Any) -> None:
    """Refuse chains that start at a point of non-finite density: `ModelError` with the chain, the site, the
    element and its value."""
    bad = bad_chains(state, logdensity)
    if not bad.any():
        return
    chain = int(np.argmax(bad))
    z = jax.tree.map(lambda v: v[chain], state.z)
    values = kernel.postprocess_fn((), dict(kwargs))(z)
    for group, members in plan.members.items():
        values.update(zip(members, values.pop(group), strict=True))
    reason = blame(plan.model or model_of(kernel), kwargs, values) or "no single site explains it"
    raise ModelError(
        f"{int(bad.sum())} of {bad.size} chains start where the density is zero or undefined: "
        f"{reason} (chain {chain}). "
        f"Give other starting values with init={{…}}, or look at the data there"
    )


def blame(model: Any, kwargs: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    """Which site has a non-finite log-probability at `values`, at which element, and for which value."""
    seeded = handlers.seed(handlers.substitute(model, data=dict(values)), jax.random.key(0))
    with numpyro.validation_enabled(False):
        traced = handlers.trace(seeded).get_trace(**kwargs)
    # with validation, what lies outside a support has no density; NumPyro also warns of it
    with numpyro.validation_enabled(True), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name, site in traced.items():
            if site["type"] != "sample":
                continue
            terms = np.asarray(site["fn"].log_prob(site["value"]))
            wrong = np.argwhere(~np.isfinite(terms))
            if not len(wrong):
                continue
            at = tuple(int(i) for i in wrong[0])
            value = np.asarray(site["value"])[at]
            kind = "observed site" if site["is_observed"] else "site"
            where = f", at index {list(at)} ({len(wrong)} such elements)" if at else ""
            return f"{kind} {name!r}{where} has log-probability {terms[at]} for the value {value}"
    return None
