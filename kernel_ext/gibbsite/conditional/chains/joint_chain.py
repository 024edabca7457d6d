"""Several chains drawn jointly: one chain over the product of their supports.

The chains of a factorial hidden Markov model move each by itself and meet in what is observed (Ghahramani and
Jordan, 1997, "Factorial hidden Markov models", §3.1): the transition of the product is the product of theirs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.chains.chain import sample_chain
from gibbsite.conditional.chains.discrete import FiniteConditional
from gibbsite.conditional.reads.reduce import reduce_onto
from gibbsite.conditional.reads.touch import Touch
from gibbsite.density import Density

MAX_PAIRS = 2**25
"""Entries of the largest table of pairs of values that a joint chain may need."""


def meeting_terms(conditionals: Sequence[FiniteConditional]) -> tuple[Touch, ...] | str:
    """The terms that touch one element of each chain that they touch, or why the chains cannot be drawn
    jointly.

    All conditionals must be chains of one density.
    """
    names = [c.site for c in conditionals]
    shapes = {(c.structure.elements, c.chain.chain.axis) for c in conditionals}  # type: ignore[union-attr]
    if len(shapes) != 1:
        return f"the chains {' and '.join(map(repr, names))} do not run along each other"
    found: dict[int, Touch] = {}
    for c in conditionals:
        for touch in c.structure.joint:
            others = c.tables.density.maps.latents(touch.term.atom) & set(names) - {c.site}
            if others:
                return f"the steps of {c.site!r} depend on {', '.join(map(repr, sorted(others)))}"
        for touch in c.structure.single:
            if any(a.latents() & set(names) for a in touch.accesses):
                return f"which element of {c.site!r} is read depends on another site of the block"
            before = found.setdefault(id(touch.term), touch)
            if before.accesses != touch.accesses:
                return f"the elements of {' and '.join(map(repr, names))} do not meet one to one"
    sizes = int(np.prod([c.structure.support.size for c in conditionals]))
    entries = sizes**2 * int(np.prod(conditionals[0].structure.elements))
    if entries > MAX_PAIRS:
        return f"its table of pairs would have {entries:,} entries; the limit is {MAX_PAIRS:,}"
    return tuple(found.values())


class JointChain:
    """The joint conditional of chains that meet element by element; they are drawn together, exactly."""

    def __init__(self, density: Density, conditionals: Sequence[FiniteConditional], terms: tuple[Touch, ...]):
        self.density = density
        self._conditionals = tuple(conditionals)
        self._terms = terms
        self._sizes = tuple(c.structure.support.size for c in conditionals)
        self._elements = conditionals[0].structure.elements
        self._axis = conditionals[0].chain.chain.axis  # type: ignore[union-attr]

    @property
    def sites(self) -> tuple[str, ...]:
        """The chains, as they were named."""
        return tuple(c.site for c in self._conditionals)

    @property
    def reason(self) -> str:
        """Why and how, in words."""
        sizes = " × ".join(map(str, self._sizes))
        return f"{' and '.join(self.sites)} are drawn jointly, as one chain over {sizes} values"

    def _met(self, latents: Mapping[str, Any], data: Any) -> Any:
        """Logits `(K_1, …, K_m, *elements)` of the terms that touch single elements."""

        def at(*values: Any) -> Any:
            one = (1,) * len(self._elements)
            filled = {
                c.site: jnp.reshape(v, one + v.shape) for c, v in zip(self._conditionals, values, strict=True)
            }
            ev = self.density.evaluator({**latents, **filled}, data)
            total: Any = jnp.zeros(self._elements)
            for touch in self._terms:
                part = touch.term.contribution(ev.lazy(touch.term.atom), ev.full)
                for access in touch.accesses:
                    total = total + reduce_onto(part, touch.term.shape, access, self._elements, ev.full)
            return total

        fn: Any = at
        count = len(self._conditionals)
        for i in reversed(range(count)):
            fn = jax.vmap(fn, in_axes=tuple(0 if j == i else None for j in range(count)))
        return fn(*[jnp.asarray(c.support) for c in self._conditionals])

    def draw(self, key: Any, latents: Mapping[str, Any], data: Any) -> dict[str, Any]:
        """One exact joint draw: values by site."""
        others = {n: v for n, v in latents.items() if n not in self.sites}
        count = len(self._conditionals)
        unary, pair = self._met(others, data), jnp.zeros((1,) * (2 * count + len(self._elements)))
        for i, c in enumerate(self._conditionals):
            single, steps = c.chain.coupling(others, data)  # type: ignore[union-attr]
            k = self._sizes[i]
            own = tuple(k if j == i else 1 for j in range(count))
            unary = unary + single.reshape(own + single.shape[1:])
            pair = pair + steps.reshape(own + own + steps.shape[2:])
        product = int(np.prod(self._sizes))
        unary = jnp.moveaxis(unary.reshape(product, *self._elements), 0, -1)
        pair = jnp.moveaxis(pair.reshape(product, product, *pair.shape[2 * count :]), (0, 1), (-2, -1))
        unary, pair = (jnp.moveaxis(x, self._axis, 0) for x in (unary, pair))
        pair = pair if pair.shape[0] == 1 else pair[: unary.shape[0] - 1]
        found = jnp.moveaxis(sample_chain(key, unary, pair), 0, self._axis)
        indices = jnp.unravel_index(jnp.maximum(found, 0), self._sizes)
        out = {}
        for c, index in zip(self._conditionals, indices, strict=True):
            shape = self._elements + c.support.shape[1:]
            now = latents.get(c.site, jnp.broadcast_to(jnp.asarray(c.support[0]), shape))
            out[c.site] = c.tables.chosen(jnp.where(found < 0, found, index), now)
        return out


def joint_chain(density: Density, conditionals: Sequence[FiniteConditional]) -> JointChain | str:
    """The joint conditional of several chains of `density`, or why there is none."""
    terms = meeting_terms(conditionals)
    return terms if isinstance(terms, str) else JointChain(density, conditionals, terms)
