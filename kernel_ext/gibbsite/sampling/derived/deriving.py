"""What a run says of its posterior: the part of `Run` that derives quantities and names elements."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from gibbsite.density.model.names import checked_name
from gibbsite.errors import ExpressionError, ModelError
from gibbsite.plans.schedule.plan import Plan
from gibbsite.sampling.derived.derived import Derived, Quantity, given_name
from gibbsite.sampling.derived.expression import Shape
from gibbsite.sampling.derived.prior import prior_draws
from gibbsite.storage.draws import Draws, empty_like
from gibbsite.storage.names import axis_labels, element_names


class Deriving:
    """For `Run`, by way of `Looking`."""

    kept: Draws
    draws: Any
    settings: Any
    results: Any
    _results_changed: Any
    _plan: Plan
    _derived: Derived
    _prior: Mapping[str, np.ndarray] | None

    def derive(self, expression: str, *, name: str | None = None, of: Any = None) -> Quantity:
        """A quantity of every draw, from an expression over sites: `run.derive("mu[1] - mu[0]")`.

        Sites by name, in backquotes where that is no identifier; indices, labels (`theta["Choate"]`), those
        of values (`kind == "rural"`), and slices; arithmetic, comparisons, `and`, `or`, `not`,
        `a if c else b`; exp log log1p log10 sqrt abs sign round floor sin cos tanh expit logit; over the
        elements of an array sum prod mean median sd any all min max; `where(c, a, b)`.
        `"lift = p[1] - p[0]"` gives it a name, as does `name`.

        It is kept with the run: in `derived`, `summary`, `to_datatree`, `save` and the dashboard, and grows
        with the draws. With `of`, a prediction (`run.predict(…)`), it is over that, and kept there.
        Raises `ExpressionError`, which shows the place, for everything else.
        """
        if of is not None:
            return of.derive(expression, name=name)
        if name is not None:
            try:
                checked_name(name, "derived quantity")
            except ModelError as problem:
                raise ExpressionError(str(problem), str(expression)) from None
        sites = {
            n: Shape(v.shape[2:], axis_labels(self._plan, n, v.shape[2:]), self.value_labels(n))
            for n, v in self.draws.items()
        }
        found = self._derived.add(expression, name, self.draws, self.kept.sampled.steps, sites)
        self._derived_changed()
        return found

    def forget(self, name: str) -> None:
        """Drop a derived quantity, and those derived from it; or what was kept under that title. Raises
        `UnknownNameError`."""
        if name in self.results:
            self.results.remove(name)
            self._results_changed()
            return
        self._derived.remove(name)
        self._derived_changed()

    def _derived_changed(self) -> None:
        """Keep them where the run is kept."""

    @property
    def derived(self) -> dict[str, Quantity]:
        """What `derive` made, by name."""
        return self._derived.quantities(self.draws, self.kept.sampled.steps)

    def element_names(self, site: str) -> list[str]:
        """What people call the elements of a site, or of a derived quantity: by labels where there are."""
        held = self.derived.get(site)
        return element_names(self._plan, site, held.shape if held else self.draws[site].shape[2:])

    def axis_labels(self, site: str) -> list[tuple[str, ...] | None]:
        """The labels along each axis of a site, where its plates have some; empty for derived quantities."""
        shape = empty_like(self._plan, 1).get(site, np.zeros((1, 0))).shape[2:]
        return axis_labels(self._plan, site, shape)

    def value_labels(self, site: str) -> tuple[str, ...]:
        """What the values 0, 1, … of a discrete site are called; empty where nobody said."""
        return tuple(self._plan.value_labels.get(site, ()))

    @property
    def diverging(self) -> np.ndarray:
        """Which draws diverged in any block, `[chain, draw]`."""
        found = [v for k, v in self.kept.sampled_stats.read().items() if k.endswith(".diverging")]
        steps = self.kept.sampled.steps
        return np.any([v[:, :steps] for v in found], axis=0) if found else np.zeros((0, steps), bool)

    def prior(self) -> Mapping[str, np.ndarray]:
        """Draws of the prior `[draw, *shape]`, of the sites that can be drawn forward quickly; drawn once."""
        if self._prior is None:
            self._prior = prior_draws(self._plan, tuple(self.draws), self.settings.seed)
        return self._prior

    def _numbers(self) -> dict[str, np.ndarray]:
        """Derived values by name, truth values as 0 and 1."""
        return {n: _as_numbers(q.values) for n, q in self.derived.items()}

    def _derive_again(self, told: Any) -> None:
        """Take up what was kept, as texts: they are parsed as a person's are."""
        for pair in told if isinstance(told, Iterable) else ():
            try:
                name, text = pair
                self.derive(text, name=given_name(name, text) if isinstance(text, str) else name)
            except (ExpressionError, TypeError, ValueError) as problem:
                warnings.warn(f"a derived quantity could not be taken up: {problem}", stacklevel=2)


def _as_numbers(values: np.ndarray) -> np.ndarray:
    return values.astype(np.int32) if values.dtype == bool else values
