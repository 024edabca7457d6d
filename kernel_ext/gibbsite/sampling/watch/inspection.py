"""What a run shows of itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from gibbsite.conditional.draws.directions import turns_of
from gibbsite.density.model.names import variable_name
from gibbsite.density.named import BlockInfo
from gibbsite.diagnostics.measures.convergence import all_stats
from gibbsite.diagnostics.measures.snapshot import History, ScalarStat
from gibbsite.diagnostics.modes.found import Modes
from gibbsite.diagnostics.verdict.advice import advice
from gibbsite.diagnostics.verdict.compare import Comparison, compare
from gibbsite.diagnostics.verdict.elpd import elpd_of
from gibbsite.diagnostics.verdict.history import logged
from gibbsite.diagnostics.verdict.verdict import Verdict, judged
from gibbsite.errors import OptionError, UnknownNameError
from gibbsite.ground.arguments import a_name, a_path, shown, text
from gibbsite.ground.lazy_import import DataFrame, later
from gibbsite.ground.lock import Writer
from gibbsite.ground.services import ask
from gibbsite.plans.schedule.plan import of_the_prior
from gibbsite.sampling.derived.deriving import Deriving
from gibbsite.sampling.engine.resources import Estimate, estimated, expected_seconds
from gibbsite.sampling.watch.predicting import Predicting
from gibbsite.sampling.watch.results import question_of
from gibbsite.sampling.watch.summary import WORST, summary_of
from gibbsite.showing import Once, views
from gibbsite.storage.described import write_remarks
from gibbsite.storage.draws import empty_like, label_of, scalar_labels
from gibbsite.storage.summaries import Summary

averaged = later("gibbsite.sampling.watch.averaged")


class Looking(Deriving, Predicting, Once):
    """The reading side of `Run`, safe from any thread: nothing here changes a run."""

    _averaged: tuple[int, dict[str, Summary]] = (0, {})  # of so many draws

    @property
    def model_name(self) -> str:
        """The model's name."""
        return self._plan.model_name

    @property
    def model(self) -> Any:
        """The `Model` that is sampled; None for a run that was loaded without it."""
        return self._plan.origin

    @property
    def source(self) -> str:
        """The model's NumPyro function as text; empty where a store does not tell."""
        return str(self.model.source) if self.model is not None else self._plan.source

    @property
    def path(self) -> str | None:
        """The folder, or the URL of an object store, that the run is stored in; None where it is not."""
        if self._objects is not None:
            return str(self._objects)
        folder = self._folder if self._store is None else self._store.path
        return None if folder is None else str(folder)

    @property
    def elsewhere(self) -> Writer | None:
        """The process that went on with the stored run when this was read from it; None where none did."""
        return self._elsewhere

    def annotate(self, note: str | None = None, *, tags: Iterable[str] | None = None) -> None:
        """Note something of the run, in place of what was noted before: `run.annotate("wider prior",
        tags=["paper"])`. It is shown by `gibbsite.runs(folder)` and in `run.remarks`, and kept beside the run
        where that is stored. Raises `OptionError` for what is no text, `StoreError` where it cannot be
        kept."""
        if note is not None:
            self._remember(note=text("note", note, "wider prior"))
        if tags is not None:
            listed = [tags] if not isinstance(tags, Iterable) else list(tags)
            if isinstance(tags, str) or not all(isinstance(t, str) for t in listed):
                raise OptionError(f"tags are a list of texts, as in ['paper'], not {shown(tags)}")
            self._remember(tags=listed)

    @property
    def remarks(self) -> Mapping[str, Any]:
        """What was noted of the run: "note" and "tags"."""
        return {"note": "", "tags": [], **self._remarks}

    def _remember(self, **more: Any) -> None:
        self._remarks = {**self._remarks, **more}
        folder = self._folder if self._store is None else self._store.path
        if folder is not None:
            write_remarks(folder, self.remarks)
        if self._store is not None:
            self._store.send_beside()
        elif self._folder is not None and self._objects is not None:
            self._objects.send_beside(self._folder)

    def log_to(self, mlflow: Any, *, report: bool = False) -> None:
        """Log the run to MLflow, by the module itself (`run.log_to(mlflow)`) or anything with its
        `start_run`, `log_params`, `log_metrics`, `set_tags` and, with `report`, `log_artifact`: what was
        asked for, measures of convergence, the elpd where it is known, source, fingerprints, note and tags.
        Gibbsite does not install it."""
        logged(self, mlflow, report)

    def elpd(self, *, kfold: int | None = None, by: Any = None, refit: bool = False) -> Any:
        """The expected log predictive density, by ArviZ's leave-one-out cross-validation (Vehtari, Gelman and
        Gabry 2017): `.elpd`, `.se`, `.p`, `.warning`, and `.mcse`, the error that comes of the run's length;
        over all elements of all observed sites, by name.

        With `refit` the data of bad Pareto k are left out in earnest, each in a fit of its own; `kfold=10`
        does so with a tenth of the data at a time, `by="county"` (a column, or an array with a value for
        every row) with a group at a time, whose data are predicted jointly. The fits are one compiled
        program, as long as this run; `.doubtful` tells of those that did not converge.

        Raises `ModelError` for a run without draws, without observed sites, or loaded without its model;
        `OptionError` for other numbers of folds, `UnknownNameError` and `DataError` for what `by` is not.
        """
        whole = self._answered(question_of("elpd"), lambda: elpd_of(self))
        if kfold is None and by is None and not refit:
            return whole
        question = question_of("refits", kfold=kfold, by=by, refit=refit)
        return self._answered(
            question, lambda: ask("prediction").left_out(self, kfold, by, refit, found=whole)
        )

    def compare(self, other: "Looking") -> Comparison:
        """This run and another: speed, convergence, and of one posterior whether their estimates agree within
        their Monte Carlo errors; of different models the difference of their elpd, with its standard error,
        first (`.predictions`)."""
        if not isinstance(other, Looking):
            raise OptionError(f"compare takes another run, not {shown(other)}")
        return compare(self, other)

    @property
    def schedule_text(self) -> str:
        """The schedule, as text."""
        return self._plan.schedule_text

    @property
    def status(self) -> str:
        """ "compiling", "warmup", "sampling", "finished", "stopped" or "failed"."""
        return self._status

    @property
    def device(self) -> str:
        """Where it runs, and why there."""
        if self._place is None:
            return "nowhere: loaded without its model"
        return f"{', '.join(map(str, self._place.devices))}: {self._place.reason}"

    @property
    def starts(self) -> str:
        """How the chains' starting values were found, in one line; empty before."""
        return ", ".join(filter(None, (self._told, self._warming.moved)))

    @property
    def memory(self) -> Estimate:
        """Bytes that the draws take when the run is complete, and about how long sampling takes."""
        s = self.settings
        found = estimated(self._plan, self._chains, self._target, self._warmup, s.keep_warmup, s.keep)
        sweeps = self._target * s.thin + self._warmup
        return replace(found, seconds=expected_seconds(self._plan, self._chains, sweeps))

    @property
    def summaries(self) -> dict[str, Summary]:
        """Mean and standard deviation of every element: of the sites whose draws are not kept (`keep=`), over
        all draws; and of the continuous ones that the schedule integrates out or draws exactly, averages of
        their conditional moments, whose errors are smaller than those of draws. The latter are computed when
        they are asked for, and need the model."""
        found, kept = self.kept.summaries.read(), self.kept.sampled.steps
        if self.model is None or not kept:
            return found
        if self._averaged[0] != kept:
            self._averaged = kept, averaged.averaged(self.model, self._plan.schedule_text, self.draws)
        return {**self._averaged[1], **found}

    @property
    def info(self) -> BlockInfo:
        """Per block, statistics `[chain, draw]` after warm-up: acceptance, step size, divergences, …

        `.info["plan"]` is what was predicted of the schedule, where it was weighed, and what has come of it:
        `times`, in steps, that the slowest number remembers, and `ess_per_second`.
        """
        out = BlockInfo({b.label: {} for b in self._plan.blocks}, self._outcome())
        for key, v in self.kept.sampled_stats.read().items():
            block, name = key.split(".", 1)
            out[self._plan.blocks[int(block)].label][name] = v
        return out

    @property
    def modes(self) -> Modes | None:
        """The modes that chains are in, where the run ended with chains apart: `.groups` of chains,
        `.weights` and `.errors` by bridge sampling (None where they cannot be told), and `.draws()`, which
        visit each in proportion. None where chains share their values."""
        return self._monitor.modes

    def dashboard(self) -> Any:
        """The live dashboard, which shows itself where it is the last value of a cell."""
        return views().dashboard(self)

    def plot(self, *labels: str, view: str | None = None, beside: Any = None) -> Any:
        """A picture of the posterior, or of `labels` (scalars, sites, derived quantities) large; two scalars
        also against each other. `view="convergence"` plots traces, ranks and autocorrelation instead;
        `beside` is another run, whose posterior is drawn into the same plots.

        It shows itself in every front end; `.save("plot.svg")` writes it. Raises `UnknownNameError`, and
        `OptionError` for another view or more than two labels.
        """
        for label in labels:
            a_name("parameter", label, (*self.draws, *self._numbers()))
        text("view", view, "convergence")
        if beside is not None and not isinstance(beside, Looking):
            raise OptionError(f"beside must be another run, not {shown(beside)}")
        return views().plot_run(self, *labels, view=view, beside=beside)

    def report(
        self, path: str | PathLike[str], *, compared: Any = None, predictions: Mapping[str, Any] | None = None
    ) -> Path:
        """Write model, estimates, predictive checks, convergence and schedule to one HTML file that needs
        nothing else, and return its path; with all that was kept (`keep`), what `gibbsite.compare` gave, and
        predictions by title, which are kept, too. Raises `OSError` where it cannot be written."""
        for title, one in (predictions or {}).items():
            self.keep(title, one)
        if compared is not None:
            self.keep("Comparison", compared)
        return views().write_report(self, self.model, a_path("path", path))

    def __repr__(self) -> str:
        s = self.snapshot(limit=1)
        chains = f"{s.chains} chain{'s' * (s.chains != 1)}"
        status = s.status if self._elsewhere is None else f"going on in {self._elsewhere}"
        text = f"<Run of {self.model_name}: {status}, {chains} × {s.draws_done} draws"
        divergent = f", {sum(s.divergences)} divergences" if any(s.divergences) else ""
        return f"{text}{divergent}; {self.verdict}>"

    @property
    def verdict(self) -> Verdict:
        """Whether the draws can be used: `.ok`, and `.reasons` why not."""
        monitor, steps = self._monitor, self.kept.sampled.steps
        transitions = int(monitor.divergences.sum()), steps * self._chains
        going = self._status not in ("finished", "stopped", "failed")
        return judged(
            self._status,
            self._message,
            monitor.judged,
            monitor.notices,
            transitions,
            monitor.groups,
            () if going else monitor.lost,
            of_the_prior(self._plan),
            getattr(getattr(self._plan.origin, "analysis", None), "doubts", ()),
        )

    def values(self, label: str) -> np.ndarray:
        """All draws of one scalar, `[chain, draw]`: a view that cannot be written to."""
        site, index = self._scalar(label)
        if self.kept.sampled.steps == 0:
            return np.zeros((self._chains, 0))
        held = self.derived.get(site)
        return self.kept.scalar(site, index) if held is None else held.values[(..., *index)]

    def _scalar(self, label: str) -> tuple[str, tuple[int, ...]]:
        """Site and index of a label such as `mu[0]`, read from its text: big sites have many labels."""
        empty = empty_like(self._plan, 1, self.settings.keep)
        label = a_name("parameter", label, (name for name, _, _ in scalar_labels(empty)))
        shapes = {n: v.shape[2:] for n, v in empty.items()}
        shapes |= {n: q.shape for n, q in self.derived.items()} if len(self._derived) else {}
        if shapes.get(label) == ():
            return label, ()
        site, _, rest = label.removesuffix("]").rpartition("[")
        index = tuple(int(i) for i in rest.split(", ") if i.isdecimal())
        shape = shapes.get(site, ())
        within = len(index) == len(shape) > 0 and all(i < n for i, n in zip(index, shape, strict=True))
        if not within or label != label_of(site, index):
            raise UnknownNameError("parameter", label, (name for name, _, _ in scalar_labels(empty)))
        return site, index

    @property
    def divergent(self) -> np.ndarray:
        """The draws at which any chain diverged in any block, by number."""
        return self._monitor.divergent

    def history(self) -> History:
        """R-hat and ESS as they went, by label."""
        return self._monitor.history()

    def diagnostics(self, site: str | None = None) -> list[ScalarStat]:
        """The measures of every scalar (of `site`, or of all sites), worst first."""
        draws = {**self.draws, **self._numbers()}
        if site is not None and a_name("site", site, draws) not in draws:
            raise UnknownNameError("site", site, draws)
        return all_stats(draws if site is None else {site: draws[site]})

    def advice(self) -> str:
        """What to try about the run's present warnings, at more length than the dashboard's hints."""
        notices = self._monitor.notices
        topics = [n.topic for n in notices] + ["failed"] * (self._status == "failed")
        parts = [advice(topic) for topic in dict.fromkeys(topics)]
        parts += [short] if parts and (short := self._too_short()) else []
        return "\n\n".join(parts) or "There are no warnings."

    @overload
    def summary(
        self, var_names: str | Sequence[str] | None = None, *, fmt: Literal["xarray"], **options: Any
    ) -> Any: ...
    @overload
    def summary(self, var_names: str | Sequence[str] | None = None, **options: Any) -> "DataFrame": ...
    def summary(self, var_names: str | Sequence[str] | None = None, **options: Any) -> Any:
        """ArviZ's summary table of the draws so far, printed with the digits that Monte Carlo errors leave;
        `options` are ArviZ's. Of discrete sites of more than 20 elements, and of others of more than 2000,
        ten are listed, unless `var_names` asks for them. An angle's mean is its mean direction, and its
        interval lies around that. Raises `UnknownNameError` for `var_names` that are not there,
        `ArgumentError` for other options, `OptionError` of no draws."""
        if not self.kept.sampled.steps:
            raise OptionError(
                "summary: there are no draws after warm-up yet; run.resume() goes on, and "
                "sample(keep_warmup=True) keeps those of warm-up"
            )
        if var_names is not None:
            options["var_names"] = var_names
        moments = self._monitor.moments
        worst = {variable_name(n): m.worst(WORST) for n, m in moments.sites.items()}
        turns = {variable_name(n): turn for n, turn in turns_of(self._plan.sites).items()}
        return summary_of(self.to_datatree(), worst, {*map(variable_name, moments.partly)}, options, turns)
