"""What a run says of its posterior: the part of `Run` that derives quantities and names elements."""

import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from math import prod
from typing import Any

import jax
import numpy as np
from numpyro.infer import Predictive

from gibbsite.density.current import weighted_latents
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.names import checked_name
from gibbsite.errors import ExpressionError, ModelError
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.plans.schedule.plan import Plan
from gibbsite.programs.jaxpr.compiling import Quick
from gibbsite.sampling.derived.derived import Quantity, given_name
from gibbsite.sampling.derived.expression import Shape
from gibbsite.sampling.execution import Execution
from gibbsite.storage.draws import empty_like
from gibbsite.storage.names import axis_labels


class Deriving(Execution):
    """For `Run`, by way of `Looking`."""

    def derive(self, expression: str, *, name: str | None = None, of: Any = None) -> Quantity:
        """A quantity of every draw, from an expression over sites: `run.derive("mu[1] - mu[0]")`.

        Sites by name, in backquotes where that is no identifier; indices, labels (`theta["Choate"]`), those
        of values (`kind == "rural"`), and slices; arithmetic, comparisons, `and`, `or`, `not`,
        `a if c else b`; exp log log1p log10 sqrt abs sign round floor sin cos tanh expit logit; over the
        elements of an array, or along an `axis`, sum prod mean median sd std var any all min max argmin
        argmax, and in their order sort cumsum softmax; `where(c, a, b)`; `a @ b`, `a.T`. As NumPy writes
        them, too: `theta.mean(0)`, `np.exp(b)`.
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
        try:
            found = self._derived.add(expression, name, self._read, self.kept.sampled.steps, sites)
        except ExpressionError as problem:
            lost = re.search(r"no site is called '(.+?)'", problem.sentence)
            if lost is None or lost.group(1) not in {*self._plan.sites, *self._plan.groups}:
                raise
            told = f"draws of {lost.group(1)!r} were not kept: sample with keep= naming it, too"
            raise ExpressionError(told, problem.text, problem.start, problem.length) from None
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

    @property
    def derived(self) -> dict[str, Quantity]:
        """What `derive` made, by name."""
        return self._derived.quantities(self._read, self.kept.sampled.steps)

    @property
    def _read(self) -> Mapping[str, np.ndarray]:
        """What expressions are computed from."""
        return self.draws

    def axis_labels(self, site: str) -> list[tuple[str, ...] | None]:
        """The labels along each axis of a site, where its plates have some; empty for derived quantities."""
        shape = empty_like(self._plan, 1).get(site, np.zeros((1, 0))).shape[2:]
        return axis_labels(self._plan, site, shape)

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


DRAWS = 2000
_MOST = 400


def prior_draws(plan: Plan, names: Collection[str], seed: int = 0) -> Mapping[str, np.ndarray]:
    """`[draw, *shape]` of those of the sites in `names` that have at most 400 elements.

    Nothing where the prior is not what the model draws forward: with `factor` statements, with improper
    distributions, with latents that are weighted or masked, with those whose draws are
    doubted, or for a run that was loaded without its model.
    """
    if plan.model is None or plan.density is None or plan.density.factor_names:
        return {}
    if weighted_latents(plan.density) or plan.density.doubted:
        return {}
    members = {m: g for g, ms in plan.groups.items() for m in ms if g in names}
    wanted = {*names, *members}
    small = [n for n, site in plan.sites.items() if n in wanted and prod(site.shape) <= _MOST]
    forward = Predictive(plan.model, num_samples=DRAWS, return_sites=small, parallel=True)
    # one program for all runs of a model, kept from kernel to kernel as those of runs are: it takes what the
    # model reads of a plan's inputs, and not what kernels of one schedule do
    data = {"data": plan.inputs["data"]}
    held = plan.density.cache.setdefault(
        ("prior", tuple(small)), Quick(lambda key, inputs: forward(key, **{INPUTS_KWARG: inputs}))
    )
    try:
        with handlers_alone:  # a dashboard asks from a thread of its own
            drawn = held(jax.random.key(seed), data)
    except NotImplementedError:
        # `Distribution.sample` is abstract, and says so by this: what is improper (`ImproperUniform`, and
        # whatever wraps it) has no prior to draw from
        return {}
    found = {n: np.asarray(v) for n, v in drawn.items()}
    out = {n: v for n, v in found.items() if n in names}
    for group, ms in plan.groups.items():
        if group in names and all(m in found for m in ms):
            out[group] = np.stack([found[m] for m in ms], axis=1)
    return out
