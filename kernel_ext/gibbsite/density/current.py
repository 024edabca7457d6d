"""The model as it is now, for every use of it: what is data, what is given, what is drawn, what is scored.

| a statement | kernels | draws of the prior | new data at a draw | likelihood, LOO | `observed_data` |
|---|---|---|---|---|---|
| latent | drawn | drawn forward, unless weighted | as drawn | as drawn | – |
| latent that nothing observed depends on | drawn forward, unless weighted | same | same | same | – |
| `obs=` (or the user's `handlers.condition`) | held | drawn anew | drawn anew | scored | its value |
| `Model.condition(…)`, and others read it | held, its density counts | held | held | – | – |
| `Model.condition(…)` of what nothing reads | as `obs=` | | | | |
| `Model.do(…)` | a value, no density | a value | a value | – | – |
| observed value that a latent enters; `factor` | its density counts | – | held | – | – |

Weights and masks (`handlers.scale`, `handlers.mask`, `.mask`) count in every density: in that of kernels,
and in the likelihood, of which an element is a datum where its weight is not 0. Draws know no weight: data
are drawn from their distribution, whatever they weigh, and a latent that has one (or is masked) has no
distribution to be drawn from forward, so that kernels draw it. A missing observation weighs 0; imputed, it
is a latent (`y_missing`) beside that. Scopes and orders rename and restrict latents, and are nothing else.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from numpyro.distributions import Distribution, Independent, biject_to, constraints
from numpyro.distributions.transforms import ComposeTransform, OrderedTransform, SigmoidTransform
from numpyro.primitives import Messenger

from gibbsite.density.density import Density
from gibbsite.density.handlers.scopes import under
from gibbsite.density.hierarchy.exchangeability import Unchanged, ways
from gibbsite.density.known_elements import constant_value
from gibbsite.density.model.bounds import base_constraint
from gibbsite.errors import ModelError
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.walker import reached


@dataclass(frozen=True)
class Current:
    """`data` names the observed sites that are data; `given` those that `Model.condition` holds fixed for
    others; `weighted` the latents whose density is not that of their distribution (a weight, a mask), so
    that they cannot be drawn forward. Each in program order."""

    data: tuple[str, ...]
    given: tuple[str, ...]
    weighted: tuple[str, ...]


@once
def current(density: Density) -> Current:
    """What the statements of a model are; of the whole model, with what is drawn forward from it."""
    observed = [n for n, s in density.sites.items() if s.role == "observed"]
    given = tuple(n for n in observed if density.sites[n].given and _read_by_others(density, n))
    known = density.outputs["observed"]
    data = tuple(n for n in observed if n not in given and not density.maps.latents(known[n]))
    return Current(data, given, weighted_latents(density))


@once
def weighted_latents(density: Density) -> tuple[str, ...]:
    """The latents whose log density is weighted or masked anywhere, in program order."""
    return tuple(n for n in density.latents if _is_weighted(density, n))


def scored_elements(density: Density, name: str) -> np.ndarray:
    """Which elements of an observed site's log density, `[*batch_shape]`, are data: those whose weight is
    not 0 whatever the latents are. Of an event some of whose elements are masked, the others remain."""
    return element_weights(density, name) != 0


def element_weights(density: Density, name: str) -> np.ndarray:
    """The weights of an observed site's elements, `[*batch_shape]`, as far as no latent enters them; of an
    event that of which most counts."""
    shape = tuple(density.outputs["log_prob"][name].aval.shape)
    site = density.sites[name]
    found = np.ones(site.shape[: site.element_rank])
    for weight in density.outputs["weights"].get(name, ()):
        if not density.maps.latents(weight):
            found = found * constant_value(density, weight)
    events = found.ndim - len(site.batch_shape)
    whole = found.max(axis=tuple(range(found.ndim - events, found.ndim))) if events else found
    return np.broadcast_to(whole, shape).copy()


def _read_by_others(density: Density, name: str) -> bool:
    """Whether another statement's density depends on the value that a site is conditioned on, or nothing
    that is latent enters its own: then it is a value to others, and predicts or is predicted by nothing."""
    names = density.arguments.names
    if density.sites[name].given not in names or not density.maps.latents(density.outputs["log_prob"][name]):
        return True
    given = density.data_vars[names.index(density.sites[name].given or "")]
    found = reached(density.closed.jaxpr, [given])
    kinds = ("log_prob", "inside", "parameters")
    others = (v for kind in kinds for n, v in density.outputs[kind].items() if n != name)
    return any(a in found for a in jax.tree.leaves(list(others)) if not isinstance(a, Literal))


def _is_weighted(density: Density, name: str) -> bool:
    weights = density.outputs["weights"].get(name, ())
    return any(density.maps.latents(w) or bool(np.any(constant_value(density, w) != 1)) for w in weights)


@once
def generated_latents(density: Density) -> tuple[str, ...]:
    """The latents that neither an observed site nor a factor depends on, directly or through others, in
    program order (the generated quantities of Gorinova 2022, thesis §3.4, read off the terms). A prior that
    is improper in name, such as a flat one on an interval, cannot be drawn from, nor one that is weighted
    or masked, and what a distribution of the user's draws may not be what its log density says: none of these
    is one of them, nor is what it depends on."""
    sources = [(t.origin, density.maps.latents(t.atom)) for t in (*density.terms, *density.bounds)]
    latent = set(density.latents)
    seen: set[str] = set()
    more = {n for origin, near in sources if origin not in latent for n in near}
    more |= {n for n in latent if density.sites[n].fn_name == "ImproperUniform"}
    more |= set(weighted_latents(density))
    more |= set(density.doubted)
    while more:
        seen |= more
        more = {n for origin, near in sources if origin in seen for n in near} - seen
    return tuple(n for n in density.latents if n not in seen)


# The same model with the elements of a site in order: of all ways to number its components one is left.
#
# A mixture whose components can be renamed has as many copies of one posterior as there are orders, and
# chains that settle in different ones disagree about labels alone. In order, the elements of an exchangeable
# site have the law of the order statistics of its prior (David and Nagaraja 2003, §2.2), and the posterior
# of all that does not depend on labels stays as it is (Stephens 2000).


class _OrderedShares(constraints.Constraint):
    """Vectors of numbers between 0 and 1 in ascending order."""

    event_dim = 1

    def __call__(self, x: Any) -> Any:
        inside = jnp.all((x > 0) & (x < 1), axis=-1)
        return inside & jnp.all(x[..., 1:] > x[..., :-1], axis=-1)

    def feasible_like(self, prototype: Any) -> Any:
        """Such a vector of the same shape."""
        size = prototype.shape[-1]
        return jnp.broadcast_to((jnp.arange(size) + 1.0) / (size + 1.0), prototype.shape)

    def tree_flatten(self) -> Any:
        return (), ((), {})


@biject_to.register(_OrderedShares)
def _to_ordered_shares(constraint: Any) -> Any:
    return ComposeTransform([OrderedTransform(), SigmoidTransform()])


_ORDERED = {
    type(constraints.real): constraints.ordered_vector,
    type(constraints.positive): constraints.positive_ordered_vector,
    type(constraints.unit_interval): _OrderedShares(),
}


class Ordered(Distribution):
    """The elements of `base_dist`, of batch shape `[K]`, in ascending order: a vector of K."""

    arg_constraints = {}  # noqa: RUF012
    pytree_data_fields = ("base_dist",)

    def __init__(self, base_dist: Distribution, *, validate_args: bool | None = None):
        self.base_dist = base_dist
        super().__init__((), base_dist.batch_shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        """Vectors in ascending order, above zero, or between 0 and 1, where the base is."""
        own: Any = self.base_dist.support
        return _ORDERED.get(type(base_constraint(own)))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draws of the base, sorted."""
        return jnp.sort(self.base_dist.sample(key, sample_shape), axis=-1)

    def log_prob(self, value: Any) -> Any:
        """K! times the base's density: each of the K! orders of the same values counts once."""
        count = self.event_shape[0]
        return jnp.sum(self.base_dist.log_prob(value), -1) + gammaln(count + 1.0)


class _InOrder(Messenger):
    """Samples the sites `names` in ascending order, each as a vector of its own, out of its plate."""

    def __init__(self, fn: Any, names: Collection[str]):
        super().__init__(fn)
        self._names = frozenset(names)

    def process_message(self, msg: dict[str, Any]) -> None:
        """Put the statement in order."""
        if msg["type"] == "sample" and msg["name"] in self._names:
            fn = msg["fn"]
            msg["fn"] = Ordered(fn.base_dist if isinstance(fn, Independent) else fn)
            msg["cond_indep_stack"] = []


def put_in_order(fn: Callable, density: Density, site: str) -> Callable:
    """`fn` with the elements of `site` in ascending order.

    Raises `UnknownNameError` for a name, `ModelError` for a site that is no vector of real or positive
    numbers, or of shares, drawn element by element.
    """
    problem = why_not(density, site)
    if problem:
        raise ModelError(f"ordered: {site!r} {problem}")

    return under(fn, lambda: _InOrder(None, [site]))


def why_not(density: Density, name: str) -> str:
    """Why the elements of a site cannot be put in order; empty where they can."""
    site = density.site(name)
    if not site.latent or site.discrete:
        return f"is {'discrete' if site.latent else site.role}: only continuous latents can be put in order"
    if site.in_scan:
        return "is drawn inside `scan`, where it cannot be replaced"
    if len(site.shape) != 1 or site.shape[0] < 2:
        return f"has the shape {site.shape}: only the elements of a vector can be put in order"
    if site.element_rank != 1 or site.fn_name == "ImproperUniform":
        return f"({site.fn_name}) is not drawn element by element"
    if type(base_constraint(site.support)) not in _ORDERED:
        return f"({site.fn_name}) takes neither all real nor all positive numbers, nor those between 0 and 1"
    return ""


def exchangeable(density: Density, site: str) -> bool:
    """Whether the model stays the same when the components that `site` has an element for are renamed.

    Then an order among them changes nothing but their names: see
    `gibbsite.density.hierarchy.exchangeability`. Where something else has that length by chance, or the
    site's elements belong to data, the answer is no.
    """
    k = density.site(site).shape[0]
    around, swapped = np.roll(range(k), 1), np.array([1, 0, *range(2, k)])  # all orders are made of these
    unchanged = Unchanged(density)
    return all(
        any(0 in way.axes.get(site, ()) and unchanged.by(way) for way in ways(density, order.tolist()))
        for order in (swapped, around)[: k - 1]
    )
