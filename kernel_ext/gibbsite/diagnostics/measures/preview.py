"""Warm-up as it goes on: a few scalars to look at, which are neither kept nor counted as draws."""

from collections.abc import Mapping

import numpy as np

from gibbsite.diagnostics.measures.snapshot import TraceView
from gibbsite.diagnostics.measures.thinned import Thinned
from gibbsite.plans.schedule.plan import Plan
from gibbsite.storage.draws import label_of

_PER_SITE = 16
_CHAINS = 8
_POINTS = 400


class Preview:
    """Up to 16 evenly spaced scalars of every site in up to 8 chains. Written by the sampling thread, read by
    any; its size does not depend on the length of the warm-up."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._series: dict[str, Thinned] = {}
        self._places: dict[str, tuple[str, int]] = {}

    def add(self, values: Mapping[str, np.ndarray]) -> None:
        """Take in steps of warm-up, arrays `[step, chain, …]` by site."""
        for site in sorted(values, key=self._dullness):
            v = values[site]
            flat = np.moveaxis(v[:, :_CHAINS].reshape(v.shape[0], min(v.shape[1], _CHAINS), -1), 1, 0)
            size = flat.shape[2]
            some = np.unique(np.linspace(0, max(size - 1, 0), min(size, _PER_SITE)).astype(int))
            new = site not in self._series
            if new:
                self._series[site] = Thinned(_POINTS)
            self._series[site].add(flat[:, :, some])
            for k, at in enumerate(some if new else ()):
                index = tuple(int(i) for i in np.unravel_index(int(at), v.shape[2:]))
                self._places[label_of(site, index)] = (site, k)

    def _dullness(self, site: str) -> tuple[bool, bool]:
        """What tells most comes first: continuous latents, discrete ones, what follows from them."""
        names = self._plan.groups.get(site, (site,))
        facts = self._plan.sites[names[0]]
        return facts.role != "latent", facts.discrete

    @property
    def labels(self) -> tuple[str, ...]:
        """The scalars that there are: the first of every site, then the second of every site, …"""
        places = list(self._places.items())
        return tuple(label for label, (_, k) in sorted(places, key=lambda item: item[1][1]))

    def trace(self, label: str) -> TraceView:
        """One of `labels` over the warm-up so far."""
        site, k = self._places[label]
        return self._series[site].view((k,))
