"""Conditionals of discrete sites with finite support: independent, in a chain, or swept."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.chains.chain import ChainTables, chain_axis, sample_chain
from gibbsite.conditional.conditional import Conditional
from gibbsite.conditional.finite.finite import (
    FiniteStructure,
    FiniteTables,
    element_logits,
    finite_structure,
    sweep,
)
from gibbsite.conditional.reads.support import finite_support
from gibbsite.conditional.reads.term_access import Touch
from gibbsite.density import Density
from gibbsite.density.explain import widenings
from gibbsite.errors import DataError
from gibbsite.ground.arguments import random_key
from gibbsite.programs.jaxpr.compat import is_traced
from gibbsite.programs.maps.access import Component, Table
from gibbsite.programs.passes.for_cpu import jitted

_MOST_ORDER = 3
"""Of what is called a chain: further back reads what is coupled far apart."""


class FiniteConditional(Conditional):
    """The conditional of a discrete site with finite support."""

    def __init__(self, density: Density, site: str):
        support = finite_support(density, site)
        assert support is not None
        structure = finite_structure(density, site, support)
        self.structure = structure
        self.tables = FiniteTables(density, structure)
        chain = None if structure.independent else chain_axis(structure)
        self.chain = None if chain is None else ChainTables(self.tables, chain)
        self.kind = "finite" if chain is None else "chain"
        super().__init__(density, site, _reason(self), _cost(self))

    @property
    def support(self) -> np.ndarray:
        """The K values that each element may take."""
        return self.structure.support.values

    def update(self, key: Any, latents: Mapping[str, Any], data: Any) -> Any:
        """One application of the kernel, pure in complete latent values and data arrays."""
        return self._told(key, latents, data)[0]

    def _told(self, key: Any, latents: Mapping[str, Any], data: Any) -> tuple[Any, Any]:
        """Values, and whether each element had a table to be drawn from."""
        if self.chain is None:
            return sweep(self.tables, key, latents, data)
        s = self.structure
        unary, pair = self.chain(latents, data)
        index = jnp.moveaxis(sample_chain(key, unary, pair), 0, self.chain.axis)
        shape = s.elements + s.support.values.shape[1:]
        now = latents.get(self.site, jnp.broadcast_to(jnp.asarray(s.support.values[0]), shape))
        return self.tables.chosen(index, now), index >= 0

    def sample(self, key: Any, state: Mapping[str, Any]) -> Any:
        """One application of the kernel, shape `site.shape`.

        An exact joint draw of the site for independent elements and chains; one full sweep over the elements
        where they are coupled otherwise. Raises `DataError` for an element that has no possible value given
        the rest; under `jit` and `vmap`, where that cannot be told, it stays as it is.
        """
        value, drawn = self._sample(random_key(key), self._latents(state), self._data)
        self._refuse(drawn)
        return value

    def logits(self, state: Mapping[str, Any]) -> Any:
        """Normalised log probabilities, shape `elements + (K,)`: each element given all the rest of `state`,
        the site's other elements included.

        Raises `DataError` for an element that has no possible value; under `jit` and `vmap`, where that
        cannot be told, its logits are NaN.
        """
        free = self.sites if self.structure.independent or not self.structure.elements else ()
        found = self._logits(self.density.state_values(state, without=free), self._data)
        if not is_traced(found):
            self._refuse(~np.isnan(np.asarray(found)).any(axis=-1))
        return found

    def _refuse(self, drawn: Any) -> None:
        """Raise where some element had no table to be drawn from."""
        if is_traced(drawn) or np.all(drawn):
            return
        at = np.argwhere(~np.asarray(drawn).reshape(self.structure.elements))
        label = self.site + (f"[{', '.join(map(str, at[0]))}]" if at.shape[1] else "")
        others = f" (and {len(at) - 1} more)" if len(at) > 1 else ""
        raise DataError(
            f"{label}{others} has no possible value given the rest of the state: each has probability zero, "
            f"or one that is undefined, in the density of {' or '.join(self.origins)}. Look at the data and "
            f"the values of {', '.join(self.blanket) or 'its prior'} there"
        )

    @property
    def signature(self) -> str:
        s = self.structure
        touches = [
            (
                t.kind,
                t.term.origin,
                t.term.shape,
                [(a.window, list(map(_fixed, a.index))) for a in t.accesses],
            )
            for t in s.single + s.joint
        ]
        arrays = [
            np.asarray(a).tobytes() for a in (s.support.values, s.support.valid, s.colours) if a is not None
        ]
        return repr((self.kind, s.elements, s.n_colours, sorted(s.offsets), s.explicit, touches, arrays))

    @property
    def fresh(self) -> tuple[str, ...]:
        """None where elements are swept, each given the others."""
        alone = self.structure.independent or not self.structure.elements
        return self.sites if alone or self.kind == "chain" else ()

    @cached_property
    def _sample(self) -> Any:
        return jitted(self._told)

    @cached_property
    def _logits(self) -> Any:
        def normalised(latents: Mapping[str, Any], data: Any) -> Any:
            shape = self.structure.elements + self.support.shape[1:]
            start = {self.site: jnp.broadcast_to(jnp.asarray(self.support[0]), shape)}
            table = element_logits(self.tables, {**start, **latents}, data)
            return jnp.moveaxis(jax.nn.log_softmax(table, axis=0), 0, -1)

        return jax.jit(normalised)


def _fixed(component: Component) -> Any:
    """What of an index is fixed when the program is compiled; tables are read from the data at run time."""
    return ("table", component.shape) if isinstance(component, Table) else component


def _reason(c: FiniteConditional) -> str:
    s = c.structure
    k = s.support.size
    if s.independent:
        return f"finite support of {k} values; its elements are independent given the other sites"
    origins = ", ".join(dict.fromkeys(t.term.origin for t in s.joint))
    if c.kind == "chain":
        return f"finite support of {k} values; neighbours are coupled in a chain by {origins}"
    if not s.elements or int(np.prod(s.elements)) == 1:
        return f"finite support of {k} values; one element"
    if s.colours is not None:
        sweep = f"updated in {s.n_colours} colours"
        if (order := _order(s)) is not None:
            return (
                f"finite support of {k} values; coupled by {origins} in a chain of order {order}, {sweep}; "
                f"`model.marginal({s.site!r})` says what drawing it jointly takes"
            )
        return f"finite support of {k} values; coupled by {origins}, {sweep}"
    dense = [w for t in s.joint for w in widenings(c.tables.density, s.site, t.term.atom)]
    because = ", because of " + " and ".join(dict.fromkeys(map(str, dense))) if dense else ""
    return (
        f"finite support of {k} values; elements are updated one after another, coupled by {origins}{because}"
    )


def _order(s: FiniteStructure) -> int | None:
    """How many elements back a chain that is not of first order reads; None where elements far apart are
    coupled, as around a ring, or along several axes."""
    axes = {a for d in s.offsets for a, x in enumerate(d) if x}
    if s.explicit or len(axes) != 1:
        return None
    (axis,) = axes
    order = max(abs(d[axis]) for d in s.offsets)
    return order if 1 < order <= _MOST_ORDER and 2 * order <= s.elements[axis] else None


def _cost(c: FiniteConditional) -> str:
    s = c.structure
    n = _term_elements(c.tables.filled + s.joint)
    k = s.support.size
    if c.kind == "chain":
        return f"{k}² × {n} term elements, then a filter of {c.chain.length} steps"  # type: ignore[union-attr]
    if c.tables.sums is not None:
        return f"{k} × {n} term elements, then a scan with {len(c.tables.sums.sums)} running sums"
    times = 1 if s.independent else (s.n_colours or int(np.prod(s.elements, dtype=np.int64)))
    compared = _term_elements([t for found in c.tables.thresholds for t in found.touches])
    parts = [f"{k} × {n} term elements" + (f" × {times} passes" if times > 1 else "")] if n else []
    parts += [f"{compared} term elements once, compared with thresholds"] if compared else []
    return ", and ".join(parts)


def _term_elements(touches: Sequence[Touch]) -> int:
    return sum(int(np.prod(t.term.shape, dtype=np.int64)) for t in touches)
