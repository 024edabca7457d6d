"""What the model says at given draws: new data, and how likely the observed ones are."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from numpyro import handlers
from numpyro.primitives import Messenger

from gibbsite.density.handlers.scopes import Redrawn
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.tails import in_tails
from gibbsite.errors import ModelError
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.evaluation.pieces import in_pieces
from gibbsite.storage.draws import empty_like
from gibbsite.validation.unchanged import check_unchanged

_AT_ONCE = 64


def ungrouped(plan: Plan, draws: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Draws of latent sites by the model's own names, leading axis chain × draw; those of one structure of a
    run over structures have these names already."""
    flat = {}
    for name, v in draws.items():
        v = v.reshape(v.shape[0] * v.shape[1], *v.shape[2:])
        if name in _members(plan):
            flat[name] = v
        elif _latent(plan, name):
            members = plan.groups.get(name, ()) or plan.members.get(name)
            flat.update({name: v} if members is None else {m: v[:, i] for i, m in enumerate(members)})
    return flat


def _members(plan: Plan) -> set[str]:
    """What the kernel's array sites stack."""
    return {m for names in plan.members.values() for m in names}


def _latent(plan: Plan, name: str) -> bool:
    members = plan.groups.get(name, (name,))
    return plan.sites[members[0]].role == "latent"


def _at_draws(
    plan: Plan, kwargs: Mapping[str, Any], draws: Mapping[str, np.ndarray], fn: Any, seed: int, what: str
) -> dict[str, np.ndarray]:
    """`fn(key, values, kwargs)` at every draw; data are an argument of the program, which is that of all data
    of their shapes."""
    if plan.model is None:
        raise ModelError("this run was loaded without its model; give it: gibbsite.load(path, model=…)")
    own = {n: plan.members.get(n, (n,)) for n in empty_like(plan, 1) if _latent(plan, n)}
    missing = [n for n, ms in own.items() if n not in draws and not draws.keys() >= {*ms}]
    if missing:
        raise ModelError(
            f"this takes draws of every latent site, and {', '.join(missing)} {'was' * (len(missing) == 1)}"
            f"{'were' * (len(missing) > 1)} not kept; sample with keep= naming them, too"
        )
    if plan.origin is not None:
        check_unchanged(plan.origin.fn, plan.origin.density)
    flat = ungrouped(plan, draws)
    shape = next(iter(draws.values())).shape[:2]
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1), shape[0] * shape[1])

    numbers = len(keys) * sum(np.size(v) for v in plan.observed.values())

    def one(row: Any, given: Any) -> Any:
        key, values = row
        return fn(jax.random.wrap_key_data(key), values, given)

    out = in_pieces(one, (jax.random.key_data(keys), flat), kwargs, _AT_ONCE, what, numbers, handlers_alone)
    return {n: v.reshape(*shape, *v.shape[1:]) for n, v in out.items()}


class _as_observed(Messenger):
    """Draws observed sites in the shape of their data: without a plate, `sample("y", Normal(mu, 1), obs=y)`
    says the same of every element of `y`, and NumPyro would draw one."""

    def __init__(self, fn: Any, shapes: Mapping[str, tuple[int, ...]]):
        super().__init__(fn)
        self._shapes = shapes

    def process_message(self, msg: Any) -> None:
        """Expands the distribution."""
        shape = self._shapes.get(msg["name"]) if msg["type"] == "sample" else None
        if shape is not None and msg["value"] is None:
            fn = msg["fn"]
            batch = np.broadcast_shapes(fn.batch_shape, shape[: len(shape) - fn.event_dim])
            msg["fn"] = fn if batch == fn.batch_shape else fn.expand(batch)


def posterior_predictive(
    plan: Plan, kwargs: Mapping[str, Any], draws: Mapping[str, np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """One data set drawn at every draw: `[chain, draw, *shape of the data]` by site that is data; what the
    model is conditioned on stays (`gibbsite.density.current`)."""
    shapes = {n: np.shape(v) for n, v in plan.observed.items()}

    def one(key: Any, values: Any, given: Any) -> Any:
        model = _as_observed(Redrawn(handlers.substitute(plan.model, data=values), shapes), shapes)
        traced = handlers.trace(handlers.seed(model, key)).get_trace(**given)
        return {n: traced[n]["value"] for n in plan.observed if n in traced}

    return _at_draws(plan, kwargs, draws, one, seed, "replicates")


def log_likelihood(
    plan: Plan, kwargs: Mapping[str, Any], draws: Mapping[str, np.ndarray], seed: int
) -> dict[str, np.ndarray]:
    """What every datum adds to the log density at every draw, weights and masks included: `[chain, draw,
    *batch_shape]` by site."""

    def one(key: Any, values: Any, given: Any) -> Any:
        model = handlers.seed(handlers.substitute(plan.model, data=values), key)
        with in_tails():
            traced = handlers.trace(model).get_trace(**given)
        sites = ((n, traced[n]) for n in plan.observed if n in traced)
        return {n: (1 if s["scale"] is None else s["scale"]) * s["fn"].log_prob(s["value"]) for n, s in sites}

    return _at_draws(plan, kwargs, draws, one, seed, "likelihoods")
