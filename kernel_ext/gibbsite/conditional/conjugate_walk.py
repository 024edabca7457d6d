"""Carry `Form`s through a density: coefficients of a site's statistics, or the expression that has none."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.conjugate_forms import ONE, Form, Key, Unfit, is_number, site_form
from gibbsite.conditional.conjugate_rules import RULES, Domain, Operands
from gibbsite.conditional.reduce import reduce_onto
from gibbsite.density import Density
from gibbsite.density.access import Accesses
from gibbsite.density.evaluate import Evaluator, evaluate_lazily
from gibbsite.density.expression import Expression
from gibbsite.density.terms import Term
from gibbsite.trace.compat import Literal, bind_equation, equation_frames
from gibbsite.trace.source_line import is_foreign

_KNOWN_SIZE = 4096
_LETTERS = "ijklmnop"


class Refused(Exception):
    """A conjugate form was not certified; the text names the expression and its line."""


@dataclass(frozen=True)
class Blame:
    """Says where in the user's program an equation comes from."""

    density: Density

    def refuse(self, eqn: Any, origin: str, why: str) -> Refused:
        """An error that names the expression that `eqn` computes, its line, and what is wrong with it."""
        atom = eqn.outvars[0]
        text = Expression(self.density).definition(atom, list(_LETTERS[: len(atom.aval.shape)]))
        return Refused(f"`{text}`{self.place(eqn, origin)} {why}")

    def place(self, eqn: Any, origin: str) -> str:
        """` (line N, in the density of y)`, as far as it is known."""
        lines = [n for file, n in equation_frames(eqn) if not is_foreign(file)] if eqn is not None else []
        site = self.density.sites.get(origin)
        if not lines and site is not None and site.line is not None:
            lines = [site.line[1]]
        at = f"line {lines[0]}, " if lines else ""
        return f" ({at}in the density of {origin})"


def known_value(density: Density, atom: Any, depth: int = 0) -> np.ndarray | None:
    """The value of an atom that depends on neither latents nor data, if it is small."""
    if isinstance(atom, Literal):
        return np.asarray(atom.val)
    cache = density.cache.setdefault(("known",), {})
    if atom not in cache:
        cache[atom] = _known(density, atom, depth)
    return cache[atom]


def _known(density: Density, atom: Any, depth: int) -> np.ndarray | None:
    consts = dict(zip(density.closed.jaxpr.constvars, density.closed.consts, strict=True))
    if atom in consts:
        value = np.asarray(consts[atom])
        return value if value.size <= _KNOWN_SIZE else None
    eqn = density.producer.get(atom)
    if eqn is None or depth > 40 or any(v.aval.size > _KNOWN_SIZE for v in eqn.outvars):
        return None
    operands = [known_value(density, a, depth + 1) for a in eqn.invars]
    if any(v is None for v in operands):
        return None
    with jax.ensure_compile_time_eval():
        out = bind_equation(eqn, [jnp.asarray(v) for v in operands])
    return np.asarray(out[eqn.outvars.index(atom)])


def one_element(accesses: Accesses) -> bool:
    """Whether each element of an array reads one element of the site (accesses with disjoint windows)."""
    if not all(a.single for a in accesses):
        return False
    return all(
        any(
            high <= low2 or high2 <= low
            for (low, high), (low2, high2) in zip(a.window, b.window, strict=True)
        )
        for a, b in combinations(accesses, 2)
    )


class FormEvaluator:
    """Forms in one site of a density's arrays, at given values of everything else.

    Raises `Refused` at the first operation that leaves the linear combinations of statistics.
    """

    def __init__(self, density: Density, site: str, domain: Domain, others: Evaluator):
        self._density, self._site, self._domain, self._others = density, site, domain, others
        self._values: dict[Any, Any] = {density.latent_vars[site]: site_form()}
        self._scalar = int(np.prod(density.sites[site].shape, dtype=np.int64)) == 1

    def value(self, atom: Any, origin: str) -> Any:
        """A `Form`, a decided `bool`, or an array where `atom` is free of the site."""
        stack = [atom]
        while stack:
            var = stack[-1]
            if self._free(var) or var in self._values:
                stack.pop()
                continue
            eqn = self._density.producer[var]
            missing = [a for a in eqn.invars if not self._free(a) and a not in self._values]
            if missing:
                stack += missing
                continue
            self._values[var] = self._apply(eqn, var, origin)
            stack.pop()
        return self._read(atom)

    def _free(self, atom: Any) -> bool:
        return isinstance(atom, Literal) or self._site not in self._density.maps.latents(atom)

    def _read(self, atom: Any) -> Any:
        return self._others.lazy(atom) if self._free(atom) else self._values[atom]

    def _apply(self, eqn: Any, var: Any, origin: str) -> Any:
        values = [self._read(a) for a in eqn.invars]
        rule = RULES.get(eqn.primitive.name)
        if not any(isinstance(v, Form | bool) for v in values):
            # all that depended on the site was decided away: compute as usual
            return self._plain(eqn, var, values)
        blame = Blame(self._density)
        if rule is None:
            raise blame.refuse(eqn, origin, f"is no linear combination of statistics of {self._site}")
        try:
            out = rule(Operands(eqn, values, self._domain, lambda a: known_value(self._density, a)))
        except Unfit as why:
            raise blame.refuse(eqn, origin, str(why)) from None
        mixed = not self._scalar and isinstance(out, Form) and out.keys
        if mixed and not one_element(self._density.maps[var][self._site]):
            raise blame.refuse(eqn, origin, f"mixes several elements of {self._site}")
        return out

    def _plain(self, eqn: Any, var: Any, values: list[Any]) -> Any:
        return evaluate_lazily(eqn, values)[eqn.outvars.index(var)]


def statistics(
    density: Density, site: str, domain: Domain, latents: Mapping[str, Any], data: Any
) -> dict[Key, Any]:
    """Coefficient of each statistic of `site` in the log density, summed onto the site's elements.

    Arrays broadcast against the site's shape. Pure; raises `Refused`.
    """
    others = density.evaluator({n: v for n, v in latents.items() if n != site}, data)
    forms = FormEvaluator(density, site, domain, others)
    totals: dict[Key, Any] = {}
    for term, accesses in density.terms_of(site):
        form = forms.value(term.atom, term.origin)
        if not isinstance(form, Form):
            continue
        for key, part in _onto_elements(density, site, term, accesses, form, others).items():
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
            raise Refused(f"the density of {term.origin} mixes several elements of {site}")
        for access in accesses:
            part = reduce_onto(weighted, term.shape, access, shape, others.full)
            parts[key] = parts[key] + part if key in parts else part
    return parts
