"""The same model with the elements of a site in order: of all ways to number its components one is left.

A mixture whose components can be renamed has as many copies of one posterior as there are orders, and chains
that settle in different ones disagree about labels alone. In order, the elements of an exchangeable site have
the law of the order statistics of its prior (David and Nagaraja 2003, §2.2), and the posterior of all that
does not depend on labels stays as it is (Stephens 2000).
"""

import functools
from collections.abc import Callable, Collection
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from numpyro.distributions import Distribution, Independent, constraints
from numpyro.primitives import Messenger

from gibbsite.density.density import Density
from gibbsite.density.hierarchy.exchangeability import Unchanged, ways
from gibbsite.errors import ModelError

_ORDERED = {
    type(constraints.real): constraints.ordered_vector,
    type(constraints.positive): constraints.positive_ordered_vector,
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
        """Vectors in ascending order, above zero where the base is."""
        return _of_vectors(self.base_dist.support)

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
            msg["fn"] = Ordered(_by_element(msg["fn"]))
            msg["cond_indep_stack"] = []


def _by_element(fn: Any) -> Any:
    return fn.base_dist if isinstance(fn, Independent) else fn


def _of_vectors(support: Any) -> Any:
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return _ORDERED.get(type(support))


def put_in_order(fn: Callable, density: Density, site: str) -> Callable:
    """`fn` with the elements of `site` in ascending order.

    Raises `UnknownNameError` for a name, `ModelError` for a site that is no vector of real or positive
    numbers drawn element by element.
    """
    problem = why_not(density, site)
    if problem:
        raise ModelError(f"ordered: {site!r} {problem}")

    @functools.wraps(fn)
    def ordered(*args: Any, **kwargs: Any) -> Any:
        with _InOrder(None, [site]):
            return fn(*args, **kwargs)

    return ordered


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
    if _of_vectors(site.support) is None:
        return f"({site.fn_name}) takes neither all real nor all positive numbers"
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
