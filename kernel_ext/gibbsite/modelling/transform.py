"""Models made from models: condition on a value, intervene. Plain NumPyro handlers around the function."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.primitives import Messenger

from gibbsite.density import Density
from gibbsite.density.handlers.scopes import Given, ScopedScans, under
from gibbsite.errors import DataError, ModelError
from gibbsite.plans.schedule.parse import REST, Spec, parse_schedule
from gibbsite.validation.covariates import columns, far_from_zero


class Intervene(Messenger):
    """Replaces statements by fixed values: nothing is drawn there and no density is added (Pearl's `do`).

    The values appear as deterministic ones; unlike `numpyro.handlers.do`, no copy of the site stays behind.
    """

    def __init__(self, fn: Any = None, data: Mapping[str, Any] | None = None):
        self.data = dict(data or {})
        super().__init__(fn)

    def process_message(self, msg: dict[str, Any]) -> None:
        """Turn the statement into a deterministic one."""
        if msg["type"] in ("sample", "deterministic") and msg.get("name") in self.data:
            msg["type"] = "deterministic"
            msg["value"] = self.data[msg["name"]]
            msg["stop"] = False


class unmarked(Messenger):
    """Drops the mark `infer={"enumerate": "parallel"}`, which asks NumPyro to sum a site out: here every
    latent site is drawn."""

    def process_message(self, msg: dict[str, Any]) -> None:
        """Drop it."""
        if msg["type"] == "sample" and "enumerate" in msg["infer"]:
            msg["infer"] = {k: v for k, v in msg["infer"].items() if k != "enumerate"}


class observed_arrays(Messenger):
    """Makes arrays of observed values: NumPyro tests Python's and NumPy's numbers by NumPy, which cannot read
    bounds that are traced (`Binomial(n, p)` with `n` latent). Python may ask for them, as where they were
    looked at first (`if w:` of a conditioned `w`)."""

    def process_message(self, msg: dict[str, Any]) -> None:
        """Convert the value."""
        if msg["type"] == "sample" and msg["is_observed"] and msg["value"] is not None:
            with jax.ensure_compile_time_eval():
                msg["value"] = jnp.asarray(msg["value"])


class _Hidden(Messenger):
    """Gives sites values of their supports and keeps them from everything outside: the function runs as if
    they were constants."""

    def __init__(self, fn: Any, sites: Mapping[str, Any]):
        super().__init__(fn)
        self._sites = sites

    def process_message(self, msg: dict[str, Any]) -> None:
        """Hide it."""
        if msg["type"] != "sample" or msg["name"] not in self._sites:
            return
        site = self._sites[msg["name"]]
        zeros = jnp.zeros(site.shape, site.dtype)
        msg["value"] = zeros if site.discrete else msg["fn"].support.feasible_like(zeros)
        msg["stop"] = True


def without(fn: Callable, sites: Mapping[str, Any]) -> Callable:
    """`fn` as the other sites see it: without the `sites`, which nothing that is observed depends on."""
    return under(fn, lambda: _Hidden(None, sites))


def conditioned(fn: Callable, kwargs: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[Callable, dict]:
    """`fn` with latent sites observed at `values`, and its keyword arguments, which now hold the values.

    As arguments the values are data: another value needs no new compilation, and the graph knows their names.
    """
    return _given(fn, kwargs, values, Given)


def intervened(fn: Callable, kwargs: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[Callable, dict]:
    """`fn` with statements replaced by `values`, and its keyword arguments, which now hold the values."""
    return _given(fn, kwargs, values, lambda fn, fixed, _: Intervene(fn, fixed))


def _given(
    fn: Callable, kwargs: Mapping[str, Any], values: Mapping[str, Any], handler: Any
) -> tuple[Callable, dict]:
    taken = {*kwargs, *inspect.signature(fn).parameters}
    keys = {}
    for name in values:  # an argument of the site's name where that is free
        key = name
        while key in taken:
            key += "′"
        keys[key] = name
        taken.add(key)
    arguments = {name: key for key, name in keys.items()}

    @functools.wraps(fn)
    def model(*args: Any, **named: Any) -> Any:
        fixed = {name: named.pop(key) for key, name in keys.items()}
        return handler(ScopedScans(fn), fixed, arguments)(*args, **named)

    return model, {**kwargs, **{key: values[name] for key, name in keys.items()}}


def shifted(fn: Callable, density: Density, names: Collection[str], scaled: bool) -> tuple[Callable, str]:
    """`fn` with covariates less their means, `scaled` by their standard deviations as well, whatever rows it
    is given; and in comments what was done. Columns that do not vary stay. See `Model.centred`."""
    known = columns(density)
    moves: dict[str, tuple[Any, Any]] = {}
    for asked in names or far_from_zero(density):
        found = [n for n in known if n == asked or n.endswith(f"[{asked!r}]")]
        if len(found) != 1:
            raise ModelError(
                f"centred: {asked!r} is no covariate, an argument or a column of at least 8 rows that a "
                f"latent is multiplied with; {_one_of(found or [*known])}"
            )
        (name,) = found
        value, middle, spread = known[name]
        varied = spread > 0
        by = np.where(varied & scaled, spread, 1.0), np.where(varied, middle, 0.0)
        unit, zero = (x.astype(np.float32) if value.ndim > 1 else np.float32(x[0]) for x in by)
        moves[name] = zero, unit
    if not moves:
        raise ModelError(f"centred: no covariate lies far from zero; {_one_of([*known])}")
    signature, heads = inspect.signature(fn), {n.partition("[")[0] for n in moves}

    def moved(name: str, value: Any) -> Any:
        if name not in moves:
            return value
        zero, unit = moves[name]
        return (value - zero) / unit

    @functools.wraps(fn)
    def centred(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        for head in heads & bound.arguments.keys():
            bound.arguments[head] = jax.tree_util.tree_map_with_path(
                lambda path, leaf, head=head: moved(head + jax.tree_util.keystr(path), leaf),
                bound.arguments[head],
            )
        return fn(*bound.args, **bound.kwargs)

    said = [f"# {n} stands for ({n} - {z.tolist()!r}) / {u.tolist()!r}\n" for n, (z, u) in moves.items()]
    return centred, "".join(said)


def _one_of(names: Collection[str]) -> str:
    return f"name one of {', '.join(names)}" if names else "this model has none"


def _standing_for(site: str) -> tuple[str, ...]:
    return site, f"{site}_decentered", f"{site}_base"


def carried_over(schedule: str, latents: Collection[str]) -> str | None:
    """A schedule's text for a changed model: what is no longer latent leaves its block, and what stands for
    a reparameterised site takes its place. None where nothing is left or new latents have no place."""
    updates, spec = [], parse_schedule(schedule)
    taken = {n for u in spec.updates for s in u.everything for n in _standing_for(s)}
    for u in spec.updates:
        own = [
            tuple(n for n in latents if n not in taken) if s == REST else _standing_for(s) for s in u.sites
        ]
        names = tuple(n for those in own for n in those if n in latents)
        updates += replace(u, sites=names).keeping(latents)
    named = {n for u in updates for n in u.everything}
    return str(Spec(tuple(updates), spec.random_scan)) if named and named == set(latents) else None


def checked_values(density: Density, values: Mapping[str, Any], action: str) -> dict[str, Any]:
    """Values by site, of the sites' shapes and types; a group's value is spread over its members.

    `action` is "condition" or "do". Raises `UnknownNameError` for a name, `DataError` for a shape or a value
    outside the support, `ModelError` where the action does not fit the site.
    """
    if not values:
        raise DataError(f"{action}: which site, at which value? For example {action}(z=0)")
    spread: dict[str, Any] = {}
    for name, value in values.items():
        names = density.groups.get(name)
        if names is None:
            spread[name] = value
            continue
        array = np.asarray(value)
        if array.ndim and len(array) not in (1, len(names)):
            raise DataError(f"{action}: {name!r} has {len(names)} members, the value {len(array)}")
        spread |= {n: array[i if len(array) > 1 else 0] if array.ndim else array for i, n in enumerate(names)}
    out = {}
    for name, value in spread.items():
        site = density.site(name)
        if action == "condition" and not site.latent:
            raise ModelError(f"condition: {name!r} is {site.role} already; `do` can replace it")
        if action == "do" and site.in_scan:
            raise ModelError(
                f"do: {name!r} is drawn inside `scan`, where it cannot be replaced; condition it"
            )
        try:
            array = jnp.broadcast_to(jnp.asarray(value, site.dtype), site.shape)
        except (TypeError, ValueError) as problem:
            raise DataError(f"{action}: {name!r} has shape {site.shape}; got {_short(value)}") from problem
        if site.support is not None and not bool(jnp.all(site.support(array))):
            raise DataError(
                f"{action}: {_short(value)} lies outside the support of {name!r} "
                f"({site.fn_name}: {site.support})"
            )
        if site.dtype is not None and not np.allclose(np.asarray(array, float), np.asarray(value, float)):
            raise DataError(f"{action}: {name!r} takes {np.dtype(site.dtype).name}, got {_short(value)}")
        out[name] = array
    return out


def _short(value: Any) -> str:
    words = str(value)
    return words if len(words) <= 40 else words[:39] + "…"
