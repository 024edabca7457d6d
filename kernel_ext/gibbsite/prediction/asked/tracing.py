"""A model traced under the arguments that are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.density import Density, build_density
from gibbsite.density.build import named_arguments
from gibbsite.density.current import current
from gibbsite.density.model.alone import as_columns
from gibbsite.density.model.arguments import Arguments
from gibbsite.errors import DataError, GibbsiteError
from gibbsite.inputs.compared import with_columns
from gibbsite.inputs.table import ANEW
from gibbsite.prediction.asked.arguments import (
    Asked,
    arguments_of,
    bound_arguments,
    call_of,
    leaves_of,
    places_of,
    with_leaf,
)
from gibbsite.prediction.asked.groups import argument_of
from gibbsite.prediction.asked.places import Rows
from gibbsite.prediction.drawn.asking import asking


@dataclass(frozen=True)
class Tracing:
    """How `origin` is traced under what is asked: `outcomes` name the site that observes an argument, `rows`
    tell how rows go with the model's own, `sizes` how long plates have become, and `data` which sites are let
    go."""

    origin: Any
    asked: Asked
    outcomes: Mapping[str, str]
    rows: list[Rows]
    sizes: Mapping[str, int]
    data: frozenset[str]

    @property
    def anew(self) -> bool:
        """Whether the gaps in the model's own data are elsewhere now."""
        return bool(self.asked.new) and any(r.same < r.now or r.before != r.now for r in self.rows)

    def density(self, values: Mapping[str, Any], anew: bool = True) -> Density:
        """The model's density under these arguments, with its gaps where they are in them where `anew`."""
        args, kwargs = call_of(self.origin, values)
        token = ANEW.set(anew)
        try:
            return build_density(asking(self._with_labels(), self.data, self.sizes), args, kwargs)
        finally:
            ANEW.reset(token)

    def analysed(self) -> tuple[Density, dict[str, Any], set[str]]:
        """The model's density under what is asked, the arguments, and which of them only stand in for
        observed values that nobody gave. Raises `DataError` for a model that cannot run without one."""
        if not self.asked.new:
            return self.density(self.asked.values, False), dict(self.asked.values), set()
        values, stood_in = self._stand_ins()
        as_none = {n for n, v in self.asked.values.items() if v is None and n in self.outcomes}

        def traced() -> Density:
            try:
                return self.density(values, self.anew)
            except (TypeError, AttributeError, IndexError) as problem:
                own = bound_arguments(self.origin)
                gone = [n for n, v in values.items() if v is None and own.get(n) is not None]
                if not gone:
                    raise
                way_out = instead(self.origin, "give the values that go before those to come")
                raise DataError(
                    f"the model computes with {', '.join(gone)}, and does not only observe it (`obs=`), so "
                    f"that it cannot run with None: {way_out}"
                ) from problem

        if not as_none:
            return traced(), values, stood_in
        plain = {**values, **dict.fromkeys(as_none)}
        try:
            found = self.density(plain, self.anew)
        except (GibbsiteError, TypeError, AttributeError, ValueError, IndexError):
            # what takes its length from the data it observes needs something that has one
            return traced(), values, stood_in
        return found, plain, stood_in - as_none

    def in_front(self, values: Mapping[str, Any], rows: Rows, stood_in: set[str]) -> dict[str, Any]:
        """The arguments with the model's own rows before the new ones."""
        found = arguments_of(self.origin, values)
        before = leaves_of(self.origin, bound_arguments(self.origin))
        arrays = []
        for name, array in zip(found.names, found.given, strict=True):
            own = before.get(name)
            if own is not None and np.ndim(own) and len(own) == rows.before and len(array) == rows.now:
                array = np.concatenate([np.asarray(own), np.asarray(array)])
            arrays.append(jnp.asarray(array))
        out = named_arguments(self.origin.fn, *found.rebuild(arrays))
        for name in stood_in | set(self.outcomes):
            if name in out and out[name] is None and name in before:
                own = np.asarray(before[name])
                out[name] = np.concatenate([own, np.zeros_like(own, shape=(rows.now, *own.shape[1:]))])
        return out

    def function(self, values: Mapping[str, Any]) -> tuple[Any, Arguments]:
        """The model's function with the categories that there are now, and its arguments, of which those that
        its trace took as constants are fixed."""
        arguments = arguments_of(self.origin, values)
        kept = set(self.origin.density.arguments.names)
        own = leaves_of(self.origin, bound_arguments(self.origin))
        fixed = [i for i, n in enumerate(arguments.names) if n in own and n not in kept]
        return self._with_labels(), arguments.fixing(fixed) if fixed else arguments

    def _with_labels(self) -> Any:
        """The model's function with the categories that there are now."""
        labels, own = self.asked.labels, self.origin.labels
        if all(own.get(n) == t for n, t in labels.items() if " of " not in n):
            return self.origin.fn
        known = replace(self.origin.analysis.known, labels=labels, plates={})
        return with_columns(self.origin.fn, known, as_columns)

    def _stand_ins(self) -> tuple[dict[str, Any], set[str]]:
        """Zeros, as long as the new rows, for observed values that were not given: they are let go anyway."""
        bound = bound_arguments(self.origin)
        before, places = leaves_of(self.origin, bound), places_of(self.origin, bound)
        lengths = {r.before: r.now for r in self.rows}
        values, stood_in = dict(self.asked.values), set()
        for leaf in self.outcomes:
            own = before.get(leaf)
            if own is None or not np.ndim(own):
                continue
            gone, longer = leaf in self.asked.absent, lengths.get(len(own), len(own))
            if not gone and (leaf in self.asked.new or longer == len(own)):
                continue
            array = np.zeros((longer, *np.shape(own)[1:]), np.asarray(own).dtype)
            if not places[leaf] or values[argument_of(leaf)] is not None:
                values = with_leaf(values, places, leaf, array)
            stood_in.add(leaf)
        return values, stood_in


def instead(origin: Any, otherwise: str) -> str:
    """What to do about outcomes that a model reads and that nobody gives."""
    factors = origin.density.factor_names
    if factors and not current(origin.density).data:
        return (
            f"the factor {factors[0]!r} has no distribution that they could be drawn from; write what is "
            "observed as data of one (`obs=`; a class of your own with `log_prob` and `sample` will do)"
        )
    going_on = "have the model go on with what `sample` returns, which is the datum where there is one"
    return f"{otherwise}, or {going_on}"
