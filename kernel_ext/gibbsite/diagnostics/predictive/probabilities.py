"""Probabilities of discrete sites from the draws of the others: means of exact ones, not counts.

At every draw the probability of each value is known given the rest, and its mean over the draws is the
Rao-Blackwell estimate of the posterior probability (Gelfand and Smith 1990): never further from it than the
share of draws with that value, and finer where a value is rare.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional import conditional_of
from gibbsite.conditional.reads.support import finite_support
from gibbsite.density import Density
from gibbsite.diagnostics.predictive.predict import ungrouped
from gibbsite.elimination import Marginal, SeriesMarginal, marginal_of
from gibbsite.errors import ModelError, UnknownNameError
from gibbsite.ground.arguments import a_name
from gibbsite.ground.lazy_import import DataFrame, later
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.passes.for_cpu import jitted
from gibbsite.storage.draws import label_of

pd = later("pandas")


class Probabilities(dict[str, np.ndarray]):
    """`P(site = value)` by site, `[*shape, K]`, its values in the order of the support. Printed, and as a
    table (`to_frame("z")`), elements and values have the labels that the data have; `named` is told the
    names of a site's elements and of its values."""

    PREFIX = "probabilities of "
    _most = 12  # elements that are printed

    def named(self, names: Callable[[str], tuple[Sequence[str], Sequence[str]]]) -> "Probabilities":
        """The same, with names."""
        self._names = names
        return self

    def to_frame(self, site: str) -> "DataFrame":
        """A pandas table of one site: a row for each element, a column for each value. Raises
        `UnknownNameError` for a site that has no probabilities."""
        a_name("site", site, self)
        if site not in self:
            raise UnknownNameError("site", site, self)
        p = self[site]
        known = getattr(self, "_names", lambda name: ((), ()))
        rows, values = known(site)
        flat = p.reshape(-1, p.shape[-1])
        if p.ndim == 1:
            rows = (site,)
        rows = rows if len(rows) == len(flat) else [label_of(site, i) for i in np.ndindex(p.shape[:-1])]
        values = values if len(values) == p.shape[-1] else range(p.shape[-1])
        return pd.DataFrame(flat, index=pd.Index(rows), columns=pd.Index(values, name=f"P({site} = …)"))

    def __repr__(self) -> str:
        parts = []
        for site in self:
            table = self.to_frame(site)
            more = len(table) - self._most
            told = table.head(self._most).to_string(float_format="{:.3f}".format)
            parts.append(told + (f"\n… and {more} more elements of {site}" if more > 0 else ""))
        return "\n\n".join(parts)

    def pack(self) -> dict[str, np.ndarray]:
        """As arrays for a checkpoint."""
        return {f"{self.PREFIX}{n}": v for n, v in self.items()}

    @classmethod
    def unpack(cls, arrays: Mapping[str, np.ndarray]) -> "Probabilities":
        """What `pack` made."""
        found = {n: v for n, v in arrays.items() if n.startswith(cls.PREFIX)}
        return cls({n.removeprefix(cls.PREFIX): v for n, v in found.items()})


def summed_out(plan: Plan) -> list[tuple[str, ...]]:
    """The sites that blocks sum out, by block."""
    return [b.eliminated for b in plan.blocks if b.eliminated]


def probabilities(plan: Plan, draws: Mapping[str, np.ndarray]) -> Probabilities:
    """The probabilities of all discrete sites with listed values, and of counts without end, from 0 to the
    largest that was drawn: what is missing of 1 is beyond that.

    Those that a block sums out have them with one another summed out too; others given all the rest. Raises
    `ModelError` where the run has no model, or lacks draws of a site that is read.
    """
    density = density_of(plan)
    groups = [m for m in (marginal_of(density, names) for names in summed_out(plan)) if _has_discrete(m)]
    gone = {n for marginal in groups for n in marginal.sites}
    found: list[Callable[[dict[str, Any]], dict[str, Any]]] = []
    for name in density.latents:
        if name not in gone and density.sites[name].discrete:
            conditional = conditional_of(density, name)
            if conditional.kind in ("finite", "chain"):
                found.append(lambda state, c=conditional, n=name: {n: jnp.exp(c.logits(state))})
            elif finite_support(density, name) is None:
                with suppress(ModelError):  # a site without probabilities is left out
                    groups.append(marginal_of(density, (name,)))
    found += [_of_marginal(m, plan, draws) for m in groups]
    if not found:
        raise ModelError("the model has no discrete latent whose values can be listed")

    def at(state: Any) -> dict[str, Any]:
        return {n: p for f in found for n, p in f(state).items()}

    def total(states: Any) -> dict[str, Any]:
        first = jax.tree.map(lambda v: v[0], states)
        rest = jax.tree.map(lambda v: v[1:], states)
        return jax.lax.scan(lambda sums, s: (jax.tree.map(jnp.add, sums, at(s)), None), at(first), rest)[0]

    states = {n: jnp.asarray(v) for n, v in all_latents(plan, draws).items()}
    count = len(next(iter(states.values())))
    summed = {n: np.asarray(v) / count for n, v in jitted(total)(states).items()}
    members = {n: ms for n, ms in density_of(plan).members.items() if n in summed and n not in draws}
    each = [{n: p} if n not in members else dict(zip(members[n], p, strict=True)) for n, p in summed.items()]
    return Probabilities({n: p for some in each for n, p in some.items()})


def all_latents(plan: Plan, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws of all latents, one after another. Raises `ModelError` where some were not kept."""
    states = ungrouped(plan, draws)
    packed = density_of(plan).packed(states, 1)
    missing = [n for n in density_of(plan).latents if n not in packed]
    if missing or not len(next(iter(draws.values()))[0]):
        what = f"draws of {', '.join(missing)} were not kept" if missing else "there are no draws yet"
        raise ModelError(f"probabilities are computed from draws of every latent site, and {what}")
    return states


def _has_discrete(marginal: Marginal) -> bool:
    """Whether it sums values out, and does not only integrate."""
    return marginal.gone != "integrated out" and not _below_0(marginal)


def _below_0(marginal: Marginal) -> bool:
    return isinstance(marginal, SeriesMarginal) and any(s.low < 0 for s in marginal.series.values())


def _of_marginal(
    marginal: Marginal, plan: Plan, draws: Mapping[str, np.ndarray]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    data = tuple(plan.inputs["data"])
    if not isinstance(marginal, SeriesMarginal):
        return lambda state: marginal.probs_at(state, data)
    drawn = ungrouped(plan, draws)
    count = 1 + max(int(drawn[n].max(initial=0)) for n in marginal.sites if n in drawn)
    return lambda state: marginal.probs_below(count, state, data)


def density_of(plan: Plan) -> Density:
    """What the kernel was derived from. Raises `ModelError` for a run without its model."""
    if plan.density is None:
        raise ModelError("this run was loaded without its model; give it: gibbsite.load(path, model=…)")
    return plan.density
