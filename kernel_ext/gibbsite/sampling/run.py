"""A run: sampling that can be watched, stopped and continued."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gibbsite.conditional.reads.support import finite_support
from gibbsite.diagnostics.modes.moves import Move
from gibbsite.diagnostics.predictive import predict
from gibbsite.diagnostics.predictive.likelihood import without_labels
from gibbsite.diagnostics.predictive.probabilities import probabilities
from gibbsite.diagnostics.verdict.elpd import scored
from gibbsite.errors import CheckpointError, ModelError, OptionError
from gibbsite.ground import arguments as sensible
from gibbsite.ground.arguments import shown
from gibbsite.ground.of_process import OfProcess
from gibbsite.kernels.nuts.report import Centring, learnt_centring
from gibbsite.sampling.engine.engine import INPUTS
from gibbsite.sampling.engine.timing import block_seconds
from gibbsite.sampling.execution import Execution, Settings
from gibbsite.sampling.options import place_of
from gibbsite.sampling.watch.inspection import Looking
from gibbsite.sampling.watch.until import Until
from gibbsite.showing import watch
from gibbsite.storage import checkpoint
from gibbsite.storage.datatree import to_datatree
from gibbsite.storage.described import write_remarks
from gibbsite.storage.draws import Drawn, empty_like
from gibbsite.storage.objects import store_in


class Run(OfProcess, Looking):
    """Chains of one plan, sampled in chunks in a background thread.

    Made by `Model.sample`, `Model.start` and `gibbsite.load`. `draws` holds what is completed at any moment;
    `stop` ends at the next chunk and keeps everything; `resume` and `extend` go on from there. The draws are
    the same however the run was cut into chunks, stopped, saved and resumed.
    """

    settings: Settings
    _keep_by = "keep it by `run.save(folder)` and `gibbsite.load`, or its draws by `run.to_datatree()`"

    def __dir__(self) -> list[str]:
        public = {n for c in Run.__mro__ if not issubclass(Execution, c) for n in vars(c)}
        internal = {*vars(Execution), *Execution.__annotations__} - public
        return [n for n in super().__dir__() if n not in internal]

    def wait(self, timeout: float | None = None) -> "Run":
        """Block until the run ends (or `timeout` seconds pass); raises what made it fail, with this run as
        the error's attribute `run`."""
        deadline = None if timeout is None else time.monotonic() + sensible.seconds("timeout", timeout)
        while not self._ended.is_set():
            left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
            if left <= 0:
                return self
            self._ended.wait(left)  # in short pieces, so that an interrupt is seen
        if self._error is not None:
            error, self._error = self._error, None
            error.run = self  # type: ignore[attr-defined]
            raise error
        return self

    def stop(self) -> None:
        """End at the next chunk; all completed draws are kept. Returns at once."""
        self._stop.set()

    def resume(self, draws: int | None = None, *, on: Any = None) -> "Run":
        """Go on with `draws` more draws per chain (default: those that are left), and block until done.

        An unfinished warm-up is finished first. In a notebook, the cell shows it as it goes on. `on`: other
        workers for a run that was begun with some, as many as there are.
        """
        self.continue_(draws, on=on)
        watch(self)
        return self.wait()

    def extend(self, until: str, max_draws: int = 20_000) -> "Run":
        """Go on until every scalar meets `until` (such as "ess>400, rhat<1.01") or there are `max_draws`
        draws per chain in all; blocks. Conditions are looked at whenever the draws have grown by half."""
        if not isinstance(until, str):
            raise OptionError(
                f"until: say what to go on for, such as 'ess>400, rhat<1.01', not {shown(until)}; "
                "run.resume(500) makes 500 draws more per chain"
            )
        aim, most = Until.parse(until, self._chains), sensible.count("max_draws", max_draws, 1)
        self._until, self._max_draws = aim, most
        return self.resume()

    def save(self, path: str | Path) -> None:
        """Write draws, statistics and state to a new folder, which `gibbsite.load` and xarray read.

        While the run goes on, what is complete now is written. Raises `StoreError` where the path is taken
        or cannot be written to, `CheckpointError` before there is anything to save.
        """
        where = place_of(path)
        if self._plan.kernel is None:
            raise ModelError("a run that was loaded without its model is on disk already; copy the folder")
        with self._lock:  # the sampling thread waits at the end of its chunk: state and draws fit
            state = self._saved_state if self._state is None else checkpoint.pack(self._state)
            if state is None:
                if self.kept.sampled.steps:
                    raise CheckpointError(
                        "this run was made beside those of longer data, whose program it shares, and has no "
                        "state to go on from: sample its model, run.model.sample(draws=…), or keep "
                        "run.to_datatree()"
                    )
                raise CheckpointError(
                    "the run has not begun yet: there is nothing to save before its first chunk"
                )
            state = {**state, **self._beside()}
            store = store_in(where, self._plan, lock=False)
            try:
                store.commit(self.kept, self._facts(live=False), state)
                self._results.written(store.path)
                if self._remarks:
                    write_remarks(store.path, self.remarks)
                store.send_beside()
            except BaseException:
                store.withdraw()
                raise

    def time_blocks(self) -> dict[str, float]:
        """Measure now how long one application of each block takes: seconds for all chains, by label.

        Compiles every block by itself, which takes some seconds, and changes nothing of the run; from then on
        the dashboard shows each block's share. A run of some minutes does the like by itself. Raises
        `GibbsiteError` while the run is going.
        """
        with self._by_one_thread("timing its blocks"):
            engine = self._ready_engine()
            self._stop.clear()
            with engine.surroundings.carried(), jax.default_device(engine.home):
                self._prepare(engine)
                kwargs = {INPUTS: engine.placed(self._plan.inputs, by_chain=False)}
                states = self._state.block_states
                found = block_seconds(engine.compile_blocks(kwargs, states), kwargs, states)
        self._clock.fix(found)
        self._notify()
        return {b.label: s for b, s in zip(self._plan.blocks, found, strict=True)}

    @property
    def draws(self) -> Mapping[str, np.ndarray]:
        """Completed draws after warm-up, `[chain, draw, *shape]` by site; equal counts over chains.

        Read-only views of the arrays that the run writes to: copy what you want to change. Printed, it tells
        shapes.
        """
        return Drawn(self.kept.sampled.read() or empty_like(self._plan, self._chains, self.settings.keep))

    @property
    def moves(self) -> tuple[Move, ...]:
        """Which chains started again, or went on from another one's place in warm-up, and out of what: at
        most what log weight beside the other mode (`.log_weight`; None where there was no density)."""
        return (*self._restarts, *self._warming.moves)

    @property
    def probs(self) -> Mapping[str, np.ndarray]:
        """`P(site = value)` of every discrete site with listed values, `[*shape, K]`: the mean over draws of
        its exact probabilities given the others (Rao-Blackwell), which is closer than the share of draws.

        Computed when asked for, from the draws so far; after `sample(keep_probs=True)`, at its end, and saved
        with the run. Raises `ModelError` where there is no such site, or where draws of others are missing.
        """
        steps = self.kept.sampled.steps
        if self._probs[0] != steps or not self._probs[1]:
            self._probs = (steps, probabilities(self._plan, self.draws))
        return self._probs[1].named(lambda n: (self.element_names(n), self._values_called(n)))

    def _values_called(self, site: str) -> Sequence[Any]:
        """The values of a discrete site: by labels, or as they are where the model is known."""
        if (labels := self.value_labels(site)) or self._plan.density is None:
            return labels
        found = finite_support(self._plan.density, self._plan.groups.get(site, (site,))[0])
        return () if found is None or found.values.ndim > 1 else found.values.tolist()

    @property
    def centring(self) -> Centring:
        """Degrees of centring that NUTS has learnt, by site, of its shape: 1 is centred, 0 non-centred.

        Printed, it tells how well they fit.
        """
        if self._state is None or self._engine is None:
            return self._saved_centring
        return learnt_centring(self._engine.kernel, self._state)

    @property
    def elapsed(self) -> float:
        """Seconds that a person has waited so far: the schedule's choice, compiling, sampling, and what is
        measured at the end."""
        began = self._began
        return self._elapsed + (time.monotonic() - began if began is not None else 0.0)

    def to_datatree(
        self,
        *,
        posterior_predictive: bool = False,
        log_likelihood: bool | str = False,
        warmup: bool | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Any] | None = None,
    ) -> Any:
        """The draws as the `xarray.DataTree` that ArviZ reads.

        Dimensions are named after plates, unless `dims` names those of a site; `coords` labels dimensions.
        New data and pointwise log-likelihoods are computed on request; warm-up is there if it was kept. With
        `log_likelihood=True` these are given the draws of all latents; "marginal" sums the discrete ones of
        listed values out: `log p(y_i | the other data, parameters)`, which is what LOO wants of a mixture.
        Weights and masks count; what the model is conditioned on is no datum, and elements that are
        missing or masked are left out, so that such a site has its data in a row. The attribute
        `log_likelihood_given` says what was summed out. Raises `OptionError` for labels and names that do not
        fit, and for warm-up that was not kept; `ModelError` where "marginal" cannot be had of all data.
        """
        sensible.flag("posterior_predictive", posterior_predictive)
        if not (isinstance(log_likelihood, str) and log_likelihood == "marginal"):
            sensible.flag("log_likelihood (unless 'marginal')", log_likelihood)
        with_warmup = self.settings.keep_warmup if warmup is None else sensible.flag("warmup", warmup)
        if with_warmup and not self.settings.keep_warmup:
            raise OptionError("warm-up was not kept; sample with keep_warmup=True")
        extra: dict[str, Mapping[str, np.ndarray]] = {}
        asked = self._plan, self._kwargs, self.draws, self.settings.seed
        if posterior_predictive:
            extra["posterior_predictive"] = predict.posterior_predictive(*asked)
        given = "all latents"
        if log_likelihood == "marginal":
            found = without_labels(*asked, strict=True)
            extra["log_likelihood"], given = found.values, found.words
        elif log_likelihood:
            extra["log_likelihood"] = predict.log_likelihood(*asked)
        if log_likelihood and self.model is not None:  # no zeros where there is no datum
            there = {n: t for n, t in scored(self).items() if not t.all()}
            found = extra["log_likelihood"]
            whole = {n: v[:, :, there[n]] if n in there else v for n, v in found.items()}
            extra["log_likelihood"] = {n: v for n, v in whole.items() if v.size}
        attrs = {
            "log_likelihood_given": given,
            "model": self.model_name,
            "schedule": self.schedule_text,
            "seed": self.settings.seed,
            "thin": self.settings.thin,
            "sampling_time": self.elapsed - self._compile_seconds,
            "tuning_steps": self._warmup,
        }
        return to_datatree(
            self._plan,
            self.kept,
            {**self.draws, **self._numbers()},
            extra=extra,
            warmup=with_warmup,
            dims=sensible.by_name("dims", dims),
            coords={
                "chain": np.arange(self._chains) + self.settings.first_chain,
                **sensible.by_name("coords", coords),
            },
            attrs=attrs,
        )
