"""What is measured while a run goes on: cheap running moments of all, exact measures of the worst."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from gibbsite.conditional.draws.directions import turns_of
from gibbsite.density.current import exchangeable
from gibbsite.diagnostics.measures.convergence import fair_share, scalar_stat, some_stats, worst_first
from gibbsite.diagnostics.measures.moments import Moments
from gibbsite.diagnostics.measures.snapshot import History, Notice, ScalarStat
from gibbsite.diagnostics.modes.found import Modes, modes_found, noticed_modes
from gibbsite.diagnostics.modes.renamed import one_labelling, renamed_chains, renamed_modes, signless
from gibbsite.diagnostics.verdict import hints
from gibbsite.diagnostics.verdict.notices import (
    ORDERS,
    disagreement,
    divergence_notice,
    endless,
    labels_switched,
    missing_information,
    run_away,
    stuck_chains,
    summed_sites,
    told_by_labels,
)
from gibbsite.diagnostics.verdict.rounding import Rounding, rounding_notices
from gibbsite.diagnostics.verdict.stake import held_by_each_other, never_at_stake
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.draws import Draws, empty_like
from gibbsite.storage.names import axis_labels, scalar_name

_WATCHED_PER_SITE = 24
_JUDGED_PER_SITE = 200
# in-run measures may take this share of the time that passes between them
_SHARE = 0.02
# most numbers that are ranked and sorted at a time, in mid-run and at its end (a second or two); of what
# is beyond that the moments are shown, and `Run.diagnostics` measures exactly on request
_RUNNING_NUMBERS = 60_000
_ENDED_NUMBERS = 1_000_000
_MOST_MARKS = 400
# scalars that are measured because someone looks at them, the last ones asked for
_MOST_FOLLOWED = 8
# draws' worth from which on agreement between chains says that they have met
_ENOUGH = 400
# a run that is over sooner is measured once, at its end
_FIRST_SECONDS = 0.1
_APART = 1.05
"""R-hat of what chains do not agree about, and not merely too short."""


class Monitor:
    """Fed with each chunk by the sampling thread; read by any thread. `aims` tells which acceptance blocks
    aim at by now, by their place in the sweep."""

    def __init__(self, plan: Plan, chains: int, aims: Callable[[], Mapping[int, float]] = dict):
        self._plan, self._aims = plan, aims
        self._informed = _informed(plan)
        self._turns = turns_of(plan.sites)
        self.superchains: np.ndarray | None = None
        self.moments = Moments()
        self.scalars: list[ScalarStat] = []
        self.followed: dict[str, tuple[str, int]] = {}
        self.divergences = np.zeros(chains, int)
        self._divergent: list[np.ndarray] = []
        self._rounding: dict[int, Rounding] = {}
        self._draws = 0
        self.stuck: dict[int, str] = {}
        self.notices: tuple[Notice, ...] = ()
        self.modes: Modes | None = None
        self.lasting: tuple[Notice, ...] = ()  # of warm-up, which is over
        self._marks: list[tuple[int, dict[str, tuple[float, float]]]] = []
        self._next: float | None = None  # when the worst are measured next

    def add(self, values: Mapping[str, np.ndarray], stats: Mapping[str, np.ndarray]) -> None:
        """Take in draws after warm-up, arrays `[step, chain, …]`."""
        self.moments.update(values)
        for key, v in stats.items():
            if key.endswith(".diverging"):
                self.divergences = self.divergences + v.sum(axis=0).astype(int)
                if v.any():
                    self._divergent.append(self._draws + np.flatnonzero(v.any(axis=1)))
            if key.endswith(".rounding"):
                self._rounding.setdefault(int(key.partition(".")[0]), Rounding()).add(v)
        self._draws += next((len(v) for v in (*values.values(), *stats.values())), 0)

    @property
    def divergent(self) -> np.ndarray:
        """Numbers of the draws at which any chain diverged in any block, ascending."""
        parts = list(self._divergent)
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, int)

    def follow(self, label: str, site: str, index: tuple[int, ...], draws: Draws) -> None:
        """Measure this scalar from now on whether or not it is among the worst, and at once if it was not."""
        values = draws.sampled.read()
        if site not in self.moments.sites:  # no draws yet
            return
        flat = int(np.ravel_multi_index(index, values[site].shape[2:])) if index else 0
        others = [item for item in self.followed.items() if item[0] != label]
        self.followed = dict([*others[1 - _MOST_FOLLOWED :], (label, (site, flat))])
        if all(s.label != label for s in self.scalars):
            alone = {site: np.array([flat])}
            if draws.sampled.steps * len(self.divergences) <= _RUNNING_NUMBERS:
                stats = some_stats(values, alone, self.superchains, self._turns)
            else:
                stats = self._streamed(values, alone, 0)
            self.scalars = worst_first([*self.scalars, *self._named(stats)])

    def _watched(self) -> dict[str, np.ndarray]:
        """Flat indices of the worst scalars of each site, and of those that are followed."""
        worst = {n: m.worst(_WATCHED_PER_SITE) for n, m in self.moments.sites.items()}
        for site, flat in self.followed.values():
            if site in worst and flat not in worst[site]:
                worst[site] = np.append(worst[site], flat)
        return worst

    def measure(self, draws: Draws, ended: bool = False) -> None:
        """Measure the worst scalars, unless that was done only just; what asks the model runs with the types
        of numbers that it was traced for, in whatever thread this is."""
        density = self._plan.density
        with nullcontext() if density is None else density.surroundings.carried():
            self._measure(draws, ended)

    def _measure(self, draws: Draws, ended: bool) -> None:
        done, began = draws.sampled.steps, time.monotonic()
        if done and self._next is None:
            self._next = began + _FIRST_SECONDS
        if self._next is None or (not ended and began < self._next):
            return
        values = draws.sampled.read()
        worst = self._watched()
        count = sum(len(flat) for flat in worst.values())
        affordable = (_ENDED_NUMBERS if ended else _RUNNING_NUMBERS) // (done * len(self.divergences))
        if count <= affordable:
            self.scalars = self._named(some_stats(values, worst, self.superchains, self._turns))
        else:
            self.scalars = self._named(self._streamed(values, worst, affordable if ended else 0))
        if len(self._marks) >= _MOST_MARKS:
            self._marks = self._marks[::2]
        mark = (done, {s.label: (s.rhat, s.ess_bulk) for s in self.scalars})
        if self._marks and self._marks[-1][0] == done:
            self._marks[-1] = mark
        else:
            self._marks.append(mark)
        stats = draws.sampled_stats.read()
        chains = len(self.divergences)
        self.stuck, still = stuck_chains(self._plan, self.moments)
        divergent = int(self.divergences.sum())
        hint = hints.for_divergences(self._plan, self._aims()) if divergent else ""
        found = divergence_notice(divergent, done * chains, hint) + still
        found += missing_information(self._plan, stats, hints.for_energies(self._plan))
        good = False
        if ended:
            of = self.judged
            hint = hints.for_disagreement(self._plan, of, values)
            alike = lambda sites: signless(self._plan, values, sites)  # noqa: E731
            apart = disagreement(of, values, hint, self._nameless, alike, summed_sites(self._plan))
            self.modes = None
            if [n.topic for n in apart] in (["rhat"], ["stuck"]):
                bad = {s.site for s in of if s.rhat > _APART}
                if renamed := renamed_chains(self._plan, values, bad):
                    apart = [labels_switched(renamed)]
            named = told_by_labels(self._plan, [*found, *apart])
            if away := run_away(values):
                apart = away
            if [n.topic for n in apart] in (["rhat"], [ORDERS]):
                self.modes = modes_found(self._plan, of, values)
            if self.modes is not None and (renamed := renamed_modes(self._plan, values, self.modes.groups)):
                self.modes, apart = None, [labels_switched(renamed)]
            if self.modes is not None:
                apart = [noticed_modes(self.modes, hints.for_modes(self._plan))]
            density = self._plan.density
            found += [labels_switched(n.sites, density) if n.topic == "labels" else n for n in apart]
            found = [n for n in found if n.topic != "stuck" or not named & set(n.sites)]
            self.stuck = {c: k for c, k in self.stuck.items() if k.partition("[")[0] not in named}
            # those of chains that had not met would not agree now, unless they are few
            good = bool(of) and not apart and not any(s.ess_bulk < _ENOUGH for s in of)
            held = held_by_each_other(self._plan, values)
            known = {s for n in held for s in n.sites}
            found += held + [
                n for n in never_at_stake(self._plan, self.moments, values) if not known.issuperset(n.sites)
            ]
            found += endless(self._plan, values)
            if not any(n.topic in ("labels", ORDERS, "signs", "modes") for n in found):
                found += one_labelling(self._plan, values)
        # that a shape is awkward matters where the draws are not good all the same; and chains whose labels
        # differ would not have agreed in any warm-up
        switched = any(n.topic in ("labels", ORDERS, "signs") for n in found)
        told = [n for n in self.lasting if n.topic != "warmup" or not switched]
        always = [n for n in told if n.topic in ("moved", "renamed")]
        found += [n for n in told if n not in always and (found if n.topic == "misfit" else not good)]
        found += always
        found += rounding_notices(self._plan, self._rounding, self.moments)
        self.notices = tuple(found)
        self._next = time.monotonic() + (time.monotonic() - began) / _SHARE

    def _nameless(self, site: str) -> bool:
        """Whether the components of a site can be renamed; also where nobody knows."""
        density = self._plan.density
        return density is None or site not in density.latents or exchangeable(density, site)

    def _named(self, stats: list[ScalarStat]) -> list[ScalarStat]:
        """With the labels of elements, where plates have some."""
        if not self._plan.labels:
            return stats
        shapes = {n: m.shape for n, m in empty_like(self._plan, 1).items()}
        labels = {n: axis_labels(self._plan, n, shapes[n][2:]) for n in {s.site for s in stats}}
        return [replace(s, shown=scalar_name(s.site, s.index, labels[s.site])) for s in stats]

    @property
    def lost(self) -> list[str]:
        """The latents of which a followed element is not finite."""
        found = []
        for site in self._informed & set(self.moments.sites):
            mean, _ = self.moments.sites[site].mean_and_sd()
            if not np.isfinite(mean).all():
                found.append(site)
        return sorted(found)

    @property
    def groups(self) -> int:
        """How many chains count as such: superchains, where chains are of some."""
        return len(self.divergences) if self.superchains is None else int(self.superchains.max()) + 1

    @property
    def judged(self) -> list[ScalarStat]:
        """The measures of what a run is judged by: latents that the data inform. The others follow them."""
        return [s for s in self.scalars if s.site in self._informed]

    def _streamed(
        self, values: Mapping[str, np.ndarray], elements: Mapping[str, np.ndarray], exact: int
    ) -> list[ScalarStat]:
        """What running moments tell, without looking at a long run's draws again: no tail ESS. Of these the
        `exact` worst, the sites in turn, are measured from their draws after all."""
        out: list[ScalarStat] = []
        for site, flat in elements.items():
            out += self.moments.sites[site].stats(site, flat, values[site].dtype.kind in "iub")
        again: dict[str, ScalarStat] = {
            s.label: scalar_stat(
                s.label,
                s.site,
                s.index,
                values[s.site][(..., *s.index)],
                self.superchains,
                self._turns.get(s.site),
            )
            for s in fair_share(worst_first(out), exact, self.followed if exact else ())
        }
        return worst_first([again.get(s.label, s) for s in out])

    def worst(self, draws: Draws) -> list[ScalarStat]:
        """Exact measures of up to 200 scalars of each site: those that running moments find worst."""
        worst = {n: m.worst(_JUDGED_PER_SITE) for n, m in self.moments.sites.items()}
        return some_stats(draws.sampled.read(), worst, self.superchains, self._turns)

    def history(self) -> History:
        """R-hat and ESS as they went, by label."""
        return History.of(list(self._marks))


def _informed(plan: Plan) -> frozenset[str]:
    """The latents, groups by their names, that are no predictions; all latents of a model without data."""
    latent = {n for n, s in plan.sites.items() if s.role == "latent"}
    groups = {g for g, members in plan.groups.items() if members[0] in latent}
    predicted = set(plan.generated) | {g for g in groups if set(plan.groups[g]) <= set(plan.generated)}
    everything = latent | groups
    return frozenset(everything - predicted or everything)
