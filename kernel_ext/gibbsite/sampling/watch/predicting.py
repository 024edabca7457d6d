"""What a run foretells: the part of `Run` that asks the floor above for predictions."""

from collections.abc import Mapping, Sequence
from typing import Any

from gibbsite.errors import OptionError
from gibbsite.ground.arguments import in_order, text
from gibbsite.ground.services import ask
from gibbsite.sampling.execution import Execution
from gibbsite.sampling.watch.results import Results, question_of


class Predicting(Execution):
    """For `Run`, by way of `Looking`."""

    @property
    def results(self) -> Results:
        """What was kept with the run, by title: see `keep`."""
        return self._results

    def keep(self, title: str, result: Any) -> Any:
        """Keep a prediction, checks, a contrast, effects, a decision or a comparison with the run under a
        title: in `results`, in its report, and where it is saved or stored, so that it is there tomorrow
        without the model. What had the title before is dropped; `forget(title)` drops it.

        Returns the result. Answers of `checks` and `elpd` are kept by themselves. Raises `OptionError` for
        what is none of these.
        """
        if not text("title", title, "all treated"):
            raise OptionError("keep: give the result a title, such as 'all treated'")
        self._results.keep(title, result, self.kept.sampled.steps)
        self._results_changed()
        return result

    def _answered(self, question: dict[str, Any], find: Any) -> Any:
        """The answer that was given of the same draws, else what `find()` says; without the model, an answer
        that holds more will do."""
        steps = self.kept.sampled.steps
        known = self._results.answered(question, steps, loosely=self.model is None)
        if known is not None:
            return known
        found = find()
        if not self.going or question["of"] == "elpd":  # what the draws of now are answered is soon of no use
            self._results.answer(question, found, steps)
            self._results_changed()
        return found

    def predict(
        self,
        table: Any = None,
        /,
        *more: Any,
        do: Mapping[str, Any] | None = None,
        given: Mapping[str, Any] | None = None,
        draws: int | None = None,
        seed: int = 0,
        to: Any = None,
        **arguments: Any,
    ) -> Any:
        """What the model says of other data: its own arguments with new values, by name, in their order, or
        as a new table.

        An argument of None is drawn, one that is not given stays; without any, replicates of the data are
        drawn. Data are always drawn. Elements of plates that the run knows, by label (or by place, where
        there
        are none), keep their draws; new ones are drawn given them. `do` sets arguments, columns or sites;
        `given` conditions on values of observed sites. `draws` is how many per chain, evenly spaced (all, or
        as many as fit into 2 GiB); with `to`, a new folder, all of them are written to
        files there, piece by piece.

        Returns a `Prediction`: `.draws`, `.probs`, `.to_frame()`, `.plot()`, `.to_datatree()`, `.derive(…)`,
        and
        `.note` on what was known and what was new. Raises `UnknownNameError` for names, `DataError` for data
        of
        another kind and categories that no plate has, `ModelError` for what cannot be had: a run without its
        model, sites not kept, new elements of what is drawn as a whole.
        """
        options = {"do": do, "given": given, "draws": draws, "seed": seed, "to": to}
        return ask("prediction").predict(self, in_order(table, more), arguments, **options)

    def effects(self, name: str, values: Any = None, *, site: str | None = None, **options: Any) -> Any:
        """What the outcome does over values of an argument, a column or a site, all others as observed.

        `values` are those to look at: by default all categories, both truth values, or a grid of nine from
        the 2.5th to
        the 97.5th percentile of what was observed. Returns `Effects`: `.to_frame()`, also `by="county"`, and
        `.slope` per unit. `site` is the outcome where there are several; options and other arguments are
        those of `predict`. Raises as `predict`.
        """
        return ask("prediction").effects(self, name, values, site=site, **options)

    def checks(
        self,
        site: str | None = None,
        *,
        by: Any = None,
        over: str | None = None,
        statistics: Sequence[str] = (),
        prior: bool = False,
        draws: int = 400,
        seed: int = 0,
        leave_one_out: bool = True,
    ) -> Any:
        """The data beside replicates of them: `run.checks(by="county", statistics=["max(y)"])`.

        `site` is the observed one where there are several; `by` a column, or an array with a value for every
        row, by whose values means are compared, and every plot can be had of each (`.plot(each="pit")`);
        `over` a column along which replicates are drawn (time, where the data have one); `statistics` are
        expressions as for `derive` that make one number of a data set. With `prior`, replicates of the prior
        are drawn below those of the posterior. `draws` replicates are made. Without `leave_one_out`, which
        looks at all draws, PIT are of data that the posterior has seen.

        Returns `Checks`: `.plot()`, `.to_frame()` of the statistics, `.pit` by leave-one-out, `.pareto_k` by
        observation; `.of("Ada")` are those of one group. They are kept with the run, and there again when it
        is loaded. Raises `UnknownNameError`, `ExpressionError`, and `ModelError` for what observes nothing.
        """
        if isinstance(statistics, str):
            statistics = (statistics,)
        more = {
            "by": by,
            "over": over,
            "statistics": statistics,
            "prior": prior,
            "leave_one_out": leave_one_out,
            "draws": draws,
            "seed": seed,
        }
        question = question_of("checks", site=site, **more)
        return self._answered(question, lambda: ask("prediction").checks(self, site, **more))
