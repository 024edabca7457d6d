"""Carry `Form`s through a density: coefficients of a site's statistics, or the expression that has none."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.forms.branches import (
    Branches,
    Gates,
    apply_rule,
    branch_values,
    branched,
    depends,
    merged,
)
from gibbsite.conditional.forms.forms import ONE, Form, Key, Unfit, is_number, site_form
from gibbsite.conditional.forms.products import of_products
from gibbsite.conditional.forms.rules import Domain, Operands, rule_of
from gibbsite.conditional.reads.reduce import reduce_onto
from gibbsite.density import Density
from gibbsite.density.terms import Term
from gibbsite.printing.elements.expression import Expression
from gibbsite.programs.evaluation.evaluate import Evaluator, evaluate_lazily
from gibbsite.programs.jaxpr.compat import equation_frames
from gibbsite.programs.jaxpr.primitives import ADDS, BRANCHES, MULTIPLIES, SELECTS, of_kind
from gibbsite.programs.jaxpr.source_line import is_foreign
from gibbsite.programs.jaxpr.values import FEW, Values
from gibbsite.programs.jaxpr.walker import OnDemand
from gibbsite.programs.maps.access import Accesses, disjoint

_LETTERS = "ijklmnop"


class Refused(Exception):
    """A conjugate form was not certified; the text names the expression and its line, `origin` the site or
    factor in whose density it is. Most are caught and forgotten: a text may be a function that writes
    it."""

    def __init__(self, text: str | Callable[[], str], origin: str | None = None):
        super().__init__(text)
        self._text, self.origin = text, origin

    def __str__(self) -> str:
        if not isinstance(self._text, str):
            self._text = self._text()
        return self._text


class Coupled(Refused):
    """Elements of the site meet, which an update of the whole site might allow."""


def refusal(density: Density, eqn: Any, origin: str, why: str) -> Refused:
    """An error that names the expression that `eqn` computes, its line, and what is wrong with it."""
    atom = eqn.outvars[0]

    def text() -> str:
        said = Expression(density).definition(atom, list(_LETTERS[: len(atom.aval.shape)]))
        return f"`{said}`{_place(density, eqn, origin)} {why}"

    return Refused(text, origin)


def _place(density: Density, eqn: Any, origin: str) -> str:
    """` (line N, in the density of y)`, as far as it is known."""
    lines = [n for file, n in equation_frames(eqn) if not is_foreign(file)]
    site = density.sites.get(origin)
    if not lines and site is not None and site.line is not None:
        lines = [site.line[1]]
    at = f"line {lines[0]}, " if lines else ""
    return f" ({at}in the density of {origin})"


Assumed = Mapping[str, Any]
"""Values that other sites are taken to have: a certificate for one branch of a model."""


def known_value(density: Density, atom: Any, assumed: Assumed | None = None) -> Any:
    """The value of an atom that depends on neither latents (but those `assumed`) nor data, if it is small,
    as a NumPy array; else None."""
    key = tuple((n, np.asarray(v).tobytes()) for n, v in sorted((assumed or {}).items()))
    if ("known", key) not in density.cache:
        consts = zip(density.closed.jaxpr.constvars, density.closed.consts, strict=True)
        given = {v: value if value.size <= FEW else None for v, value in consts}
        for site, value in (assumed or {}).items():
            aval = density.latent_vars[site].aval
            given[density.latent_vars[site]] = np.broadcast_to(np.asarray(value, aval.dtype), aval.shape)
        density.cache["known", key] = Values(density.producer, given, by_jax=True, most=FEW)
    return density.cache["known", key].value(atom)


def one_element(accesses: Accesses) -> bool:
    """Whether each element of an array reads one element of the site (accesses with disjoint windows)."""
    return all(a.single for a in accesses) and disjoint(accesses)


class FormEvaluator:
    """Forms in one site of a density's arrays, at given values of everything else.

    Where the values of some sites are `assumed`, only the branches that they choose are walked. Raises
    `Refused` at the first operation that leaves the linear combinations of statistics.
    """

    def __init__(
        self, density: Density, site: str, domain: Domain, others: Evaluator, assumed: Assumed | None = None
    ):
        self._density, self._site, self._domain, self._others = density, site, domain, others
        self._assumed = assumed or {}
        self._scalar = int(np.prod(density.sites[site].shape, dtype=np.int64)) == 1
        self._origin, start = "", {density.latent_vars[site]: site_form()}
        self._forms = OnDemand(density.producer, self._leaf, self._rule, start, self._needed)
        self._gates = Gates(density, self._forms)

    def value(self, atom: Any, origin: str) -> Any:
        """A `Form`, a decided `bool`, or an array where `atom` is free of the site."""
        self._origin = origin
        return merged(self._forms(atom))

    def _leaf(self, atom: Any) -> Any:
        return self._others.lazy(atom) if self._free(atom) else None

    def _needed(self, eqn: Any) -> list[Any]:
        """The operands that the value of an equation is made of: one of them where it is a choice that is
        known, none where it is a product with a known zero."""
        if not self._assumed:
            return eqn.invars
        if of_kind(eqn, SELECTS) and self._free(eqn.invars[0]):
            which = self._known(eqn.invars[0])
            if which is not None and which.size and np.all(which == which.flat[0]):
                return [eqn.invars[1 + int(which.flat[0])]]
        if of_kind(eqn, MULTIPLIES):
            for a in eqn.invars:
                value = self._known(a) if self._free(a) else None
                if value is not None and value.size and np.all(value == 0):
                    return []
        return eqn.invars

    def _known(self, atom: Any) -> Any:
        return known_value(self._density, atom, self._assumed)

    def _free(self, atom: Any) -> bool:
        return self._site not in self._density.maps.latents(atom)

    def _rule(self, eqn: Any, values: list[Any]) -> list[Any]:
        if len(values) < len(eqn.invars):
            return values or [Form({ONE: 0.0})]
        if not any(map(depends, values)):
            # all that depended on the site was decided away: compute as usual
            return evaluate_lazily(eqn, values)
        density, origin = self._density, self._origin
        if rule_of(eqn) is None and not of_kind(eqn, BRANCHES):
            raise refusal(density, eqn, origin, f"is no linear combination of statistics of {self._site}")
        try:
            if of_kind(eqn, BRANCHES):
                outs = self._cond(eqn, values)
            else:
                operands = Operands(eqn, values, self._domain, self._known)
                outs = [self._gated(eqn, values) or apply_rule(operands)]
        except Unfit as why:
            raise refusal(density, eqn, origin, str(why)) from None
        for var, out in zip(eqn.outvars, outs, strict=True):
            with_keys = (
                out.has_statistics if isinstance(out, Branches) else isinstance(out, Form) and out.keys
            )
            mixed = not self._scalar and with_keys
            if mixed and not one_element(density.maps[var][self._site]):
                why = refusal(density, eqn, origin, f"mixes several elements of {self._site}")
                raise Coupled(str(why), origin)
        return outs

    def _gated(self, eqn: Any, values: list[Any]) -> Branches | None:
        """Probabilities times zeros and ones, as the choices that they are."""
        if not self._domain.unit:
            return None
        if of_kind(eqn, MULTIPLIES):
            return self._gates.product(eqn, values)
        return self._gates.total(eqn, values) if of_kind(eqn, ADDS) else None

    def _cond(self, eqn: Any, values: list[Any]) -> list[Any]:
        """Every output as its branches; of the one branch where the choice is known."""
        index, *operands = values
        if depends(index):
            raise Unfit("branches on it")
        branches = eqn.params["branches"]
        known = self._known(eqn.invars[0])
        if known is not None:
            branch = branches[int(np.clip(known, 0, len(branches) - 1))]
            return branch_values(branch, operands, self._domain)
        cases = [branch_values(b, operands, self._domain) for b in branches]
        which = jnp.clip(jnp.asarray(index, jnp.int32), 0, len(branches) - 1)
        return [branched(which, list(outs)) for outs in zip(*cases, strict=True)]


def statistics(
    density: Density,
    site: str,
    domain: Domain,
    latents: Mapping[str, Any],
    data: Any,
    assumed: Assumed | None = None,
    owed: Callable[[str], bool] = lambda origin: True,
) -> dict[Key, Any]:
    """Coefficient of each statistic of `site` in the log density, summed onto the site's elements: of the
    terms that are `owed` to such origins.

    Arrays broadcast against the site's shape. Pure; raises `Refused`.
    """
    fixed = {n: jnp.asarray(v, density.sites[n].dtype) for n, v in (assumed or {}).items()}
    # arrays are read beside the site that do not depend on it, but are cut out of what does
    unread = density.sites[site]
    nothing = np.nan if jnp.issubdtype(unread.dtype, jnp.inexact) else 0
    given = {**latents, **fixed, site: np.full(unread.shape, nothing, unread.dtype)}
    others = density.evaluator(given, data)
    forms = FormEvaluator(density, site, domain, others, assumed)
    totals: dict[Key, Any] = {}
    for term, accesses in density.terms_of(site):
        if not owed(term.origin):
            continue
        found = None
        try:
            form = forms.value(term.atom, term.origin)
            found = (
                _onto_elements(density, site, term, accesses, form, others) if isinstance(form, Form) else {}
            )
        except Refused:
            if not domain.unit or unread.event_shape or assumed:
                raise
            with suppress(Unfit):  # what stood in the way before is what is told
                found = of_products(density, site, term, others, partial(known_value, density))
            if found is None:
                raise
        for key, part in found.items():
            totals[key] = totals[key] + part if key in totals else part
    return totals


def _onto_elements(
    density: Density, site: str, term: Term, accesses: Accesses, form: Form, others: Evaluator
) -> dict[Key, Any]:
    shape = density.sites[site].shape
    rank = len(term.shape)
    parts: dict[Key, Any] = {}
    for key, c in form.parts.items():
        if key == ONE or (is_number(c) and c == 0.0):
            continue
        c = jnp.asarray(c, density.sites[site].dtype)
        c = jnp.reshape(c, (1,) * rank) if c.ndim == 0 else c
        weighted = term.contribution(c, others.full)
        weighted = jnp.reshape(weighted, (1,) * rank) if jnp.ndim(weighted) == 0 else weighted
        if int(np.prod(shape, dtype=np.int64)) == 1:
            # one element: whatever the maps say, all of the term is about it
            copies = int(np.prod([n for n, m in zip(term.shape, weighted.shape, strict=True) if m == 1]))
            parts[key] = jnp.reshape(jnp.sum(weighted) * copies, (1,) * len(shape))
            continue
        if not one_element(accesses):
            raise Coupled(f"the density of {term.origin} mixes several elements of {site}")
        for access in accesses:
            part = reduce_onto(weighted, term.shape, access, shape, others.full)
            parts[key] = parts[key] + part if key in parts else part
    return parts
