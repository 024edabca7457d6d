"""Continuous sites integrated out of a density exactly, beside discrete ones that are summed out."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.choose import coupled
from gibbsite.conditional.reads.support import FiniteSupport, finite_support
from gibbsite.density import Density
from gibbsite.density.hierarchy.residuals import at_distances
from gibbsite.elimination.integrals.conjugate import Latents, Message, Moments
from gibbsite.elimination.integrals.improper import check_finite
from gibbsite.elimination.integrals.parts import messages_of
from gibbsite.elimination.marginal import Marginal, summed_terms
from gibbsite.elimination.plan import count
from gibbsite.elimination.tabled import TableMarginal, of_values
from gibbsite.elimination.tables.safe import guarded
from gibbsite.errors import ModelError

# joint values of discrete sites that the continuous ones of a block are integrated out for one by one
MOST_VALUES = 256
# of these, how many at a time
_AT_ONCE = 16


class IntegralMarginal(Marginal):
    """Continuous sites integrated out, by `messages`; discrete ones beside them summed out: by tables
    (`tables`) where they share no term with these, else value by value (`listed`), where their joint values
    are few."""

    def __init__(self, density: Density, sites: Sequence[str], order: Sequence[str] | None = None):
        super().__init__(density, sites)
        density = self.density
        discrete = self._summed = [u for u in self._units if density.sites[u].discrete]
        smooth = [u for u in self._units if u not in discrete]
        if order is not None:
            raise ModelError(
                f"an order is one of discrete sites; {' and '.join(smooth)} are integrated out first, in the "
                f"order of their dependence"
            )
        for name in self._units:
            if not density.sites[name].latent:
                role = density.sites[name].role
                raise ModelError(f"{name!r} is {role}, not latent: there is nothing to integrate out")
        met = {n for part in coupled(density, [*self._units]) if set(part) & set(smooth) for n in part}
        self.listed = _listed(density, [u for u in discrete if u in met], smooth)
        rest = [u for u in discrete if u not in met]
        self.tables = TableMarginal(density, rest) if rest else None
        self.gone = "summed and integrated out" if discrete else "integrated out"
        try:
            found = messages_of(density, smooth)
            self.messages: tuple[Message, ...] = tuple(m.whole() for m in found) if self.tables else found
        except Refused as why:
            raise ModelError(str(why)) from why
        values = list(itertools.product(*(range(self._count(u)) for u in self.listed)))
        self._joint = len(values)
        # of each joint value of the listed sites, the number of every element's value: `[values, elements]`
        self._numbers = {
            u: np.stack([_digits(v[i], s) for v in values]) for i, (u, s) in enumerate(self.listed.items())
        }
        check_finite(density, smooth, self.messages)

    def _count(self, unit: str) -> int:
        support = self.listed[unit]
        return support.size ** int(np.prod(support.elements, dtype=np.int64))

    @property
    def near(self) -> tuple[str, ...]:
        """Those that are integrated out: what they were says where their means are looked for."""
        return tuple(m for u in self._units if u not in self._summed for m in self._units[u])

    @property
    def order(self) -> tuple[str, ...]:
        units = [s for m in self.messages for s in m.sites]
        units += [*self.listed, *(self.tables.order if self.tables else ())]
        return tuple(m for u in units for m in self._units[u])

    @property
    def cost(self) -> str:
        each = "; ".join(m.cost for m in self.messages)
        if self.listed:
            each = f"{self._joint} × ({each})"
        return f"{each}; {self.tables.cost}" if self.tables else each

    @property
    def signature(self) -> str:
        supports = [(n, s.values.tolist(), s.valid) for n, s in self.listed.items()]
        tables = self.tables.signature if self.tables else ""
        return repr(([m.signature for m in self.messages], supports, tables))

    @property
    def read(self) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], str]]:
        for message in self.messages:
            terms = [t for n in message.sites for t, _ in self.density.terms_of(n)]
            near = {n for t in terms for n in (t.origin, *self.density.maps.latents(t.atom))}
            sites = self.names_of(message.sites)
            left = [n for n in self.density.sites if n in near and n not in message.sites]
            given = f", given {', '.join(n for n in left if n in self.density.latent_vars)}"
            known = given if given != ", given " else ""
            text = f"integrate out {' and '.join(message.sites)}{known}: {message.reason}"
            yield sites, tuple(left), text
        for unit in self.listed:
            text = f"sum out {unit}, of {self._count(unit)} joint values: what is left of each is added up"
            yield self.names_of((unit,)), (), text
        if self.tables:
            yield from self.tables.read

    def __str__(self) -> str:
        lines = [f"{i}. {text}" for i, (_, _, text) in enumerate(self.read, 1)]
        left, gone = (", ".join(names) for names in (self.others, self.order))
        formula = f"log p({left}) = log p({left}, {gone}) − log p({gone} | {left}), at a likely {gone}"
        told = [f"what is left: {formula}"] if left else []
        return "\n".join([*lines, *(f"   {t}" for t in (*told, f"cost: {self.cost}"))])

    # values

    def logdensity_at(
        self, latents: Latents, data: Any, apart: Latents | None = None, held: bool = True
    ) -> Any:
        rest = self.left(latents, self._summed)  # with what is known of where those of `near` are
        if not self.listed:
            return self._one(rest, data, apart, held)
        return jax.nn.logsumexp(self._of_each(rest, data, apart, held))

    def _one(self, rest: Latents, data: Any, apart: Latents | None, held: bool) -> Any:
        """The log density with the continuous sites integrated out, at values of all discrete ones but those
        in tables."""
        places, total = dict(rest), jnp.zeros(())
        for message in self.messages:
            place, log_prob = message.settled(rest, data, held)
            places.update(place)
            total = total + log_prob
        if self.tables is not None:
            found = self.tables.logdensity_at(places, data, apart, held) - total
        else:
            # an exposure of zero adds log 0 times no count, whose slope would not be a number
            density = guarded(self.density)
            given, without = at_distances(self.density, apart or {}), self._closed
            found = summed_terms(density, places, data, given, without) - total
        return _possible(found)

    @property
    def _closed(self) -> frozenset[str]:
        return frozenset(n for m in self.messages for n in m.closed)

    def _with_constants(self, latents: Latents, data: Any) -> Any:
        place = jax.lax.stop_gradient({**self.left(latents), **self.settled_at(latents, data)})
        known = sum((m.counted(place, data) for m in self.messages), start=jnp.zeros(()))
        return super()._with_constants(latents, data) - jax.lax.stop_gradient(known)

    def _of_each(self, rest: Latents, data: Any, apart: Latents | None = None, held: bool = True) -> Any:
        """Of all joint values of the listed sites, `[values]`."""
        found = jax.lax.map(
            lambda values: self._one({**rest, **values}, data, apart, held),
            self._all_values(),
            batch_size=min(_AT_ONCE, self._joint),
        )
        return jnp.where(jnp.asarray(self._valid()), found, -jnp.inf)

    def _all_values(self) -> dict[str, Any]:
        """Joint values of the listed sites, `[values, *shape]` by site."""
        sites, numbers = self.density.sites, self._numbers
        return {
            u: jnp.asarray(s.values[numbers[u]].reshape(-1, *sites[u].shape), sites[u].dtype)
            for u, s in self.listed.items()
        }

    def _valid(self) -> np.ndarray:
        out = np.ones(self._joint, bool)
        for unit, support in self.listed.items():
            if support.valid is not None:
                allowed = support.valid.reshape(support.size, -1)
                out &= allowed[self._numbers[unit], np.arange(allowed.shape[1])].all(axis=1)
        return out

    def _chosen(self, index: Any) -> dict[str, Any]:
        return {n: v[index] for n, v in self._all_values().items()}

    def settled_at(self, latents: Latents, data: Any) -> dict[str, Any]:
        rest = self.left(latents)
        values = self._chosen(jnp.argmax(self._of_each(rest, data))) if self.listed else {}
        out = dict(values)
        for message in self.messages:
            out.update(message.settled({**rest, **values}, data, True)[0])
        return out if self.tables is None else {**out, **self.tables.settled_at({**rest, **out}, data)}

    def draw_at(self, key: Any, latents: Latents, data: Any) -> dict[str, Any]:
        rest = self.left(latents, self._summed)
        key, key_listed, key_tables = jax.random.split(key, 3)
        values = {}
        if self.listed:
            values = self._chosen(jax.random.categorical(key_listed, self._of_each(rest, data)))
        drawn = dict(values)
        for message, k in zip(self.messages, jax.random.split(key, len(self.messages)), strict=True):
            drawn.update(message.draw(k, {**rest, **values}, data))
        if self.tables is not None:
            drawn.update(self.tables.draw_at(key_tables, {**latents, **drawn}, data))
        return self._by_name(drawn)

    def best(self, state: Mapping[str, Any]) -> dict[str, Any]:
        raise ModelError(
            f"{' and '.join(self.sites)}: the best joint values are found of discrete sites alone; `moments` "
            f"has the means of continuous ones"
        )

    def moments_at(self, latents: Latents, data: Any) -> dict[str, Moments]:
        rest = self.left(latents)
        out: dict[str, Moments] = {}
        if self.listed:
            weight = jax.nn.softmax(self._of_each(rest, data))

            def of(values: Any) -> dict[str, Moments]:
                return self._inner_moments({**rest, **values}, data)

            each = jax.lax.map(of, self._all_values(), batch_size=min(_AT_ONCE, self._joint))
            out = {n: _mixed(weight, m) for n, m in each.items()}
            for unit, support in self.listed.items():
                out.update(of_values(self, unit, support, self._weights(unit, weight)))
        else:
            out = self._inner_moments(rest, data)
        found = dict(out)
        for unit in [s for m in self.messages for s in m.sites]:
            found.pop(unit)
            found.update(self._named(unit, out[unit]))
        return found if self.tables is None else {**found, **self.tables.moments_at(latents, data)}

    def _inner_moments(self, rest: Latents, data: Any) -> dict[str, Moments]:
        return {n: m for message in self.messages for n, m in message.moments(rest, data).items()}

    def _weights(self, unit: str, weight: Any) -> Any:
        """`P(element = value)` `[K, elements]` of a listed site, from the weights of all joint values."""
        chosen = self._numbers[unit][..., None] == np.arange(self.listed[unit].size)
        return jnp.einsum("v,vek->ke", weight, jnp.asarray(chosen, float))

    def probs_at(self, latents: Latents, data: Any) -> dict[str, Any]:
        if not self.listed and self.tables is None:
            return super().probs_at(latents, data)
        out = {} if self.tables is None else self.tables.probs_at(latents, data)
        if self.listed:
            weight = jax.nn.softmax(self._of_each(self.left(latents), data))
            for unit, support in self.listed.items():
                p = jnp.moveaxis(self._weights(unit, weight), 0, -1)
                out.update(self._unpacked(unit, p.reshape((*support.elements, -1))))
        return out


@jax.custom_jvp
def _possible(log_density: Any) -> Any:
    """−inf for what is undefined."""
    return jnp.where(jnp.isnan(log_density), -jnp.inf, log_density)


# a slope that asked whether the value is a number would compute the value again, in every fused loop
_possible.defjvp(lambda primals, tangents: (_possible(*primals), *tangents))


def _digits(number: int, support: FiniteSupport) -> np.ndarray:
    """The numbers of the values of every element, of a joint value of a site by its number."""
    elements = int(np.prod(support.elements, dtype=np.int64))
    return np.array([number // support.size**e % support.size for e in range(elements)], np.int64)


def _mixed(weight: Any, each: Moments) -> Moments:
    mean = jnp.tensordot(weight, each.mean, 1)
    spread = jnp.tensordot(weight, each.variance + (each.mean - mean) ** 2, 1)
    return Moments(mean, spread)


def _listed(density: Density, names: Sequence[str], smooth: Sequence[str]) -> Mapping[str, FiniteSupport]:
    """The supports of discrete sites that continuous ones of the block depend on; `ModelError` where their
    joint values are too many to be gone through."""
    found: dict[str, FiniteSupport] = {}
    total = 1.0
    for name in names:
        support = finite_support(density, name)
        if support is None:
            raise ModelError(f"{name!r} has no list of values: it cannot be summed out")
        elements = int(np.prod(support.elements, dtype=np.int64))
        found[name] = support
        total *= float(support.size) ** min(elements, 10_000) if support.size > 1 else 1.0
        if total > MOST_VALUES:
            met = [s for s in smooth if len(coupled(density, (s, name))) == 1]
            both = " and ".join(met or smooth)
            values = f"{support.size}^{elements:,}" if elements > 1 else count(total)
            raise ModelError(
                f"{name!r} cannot be summed out in one block with {both}, integrated out: the conditional of "
                f"{both} would be one for each of its {values} joint values, and the limit is {MOST_VALUES}. "
                f"Eliminate {name!r} alone, given {both}; or {both} alone, given {name!r}"
            )
    return found
