"""Values of warm-up, kept until it ends: do the chains agree yet?"""

from collections.abc import Mapping

import numpy as np

from gibbsite.diagnostics.measures.convergence import least_esses, rank_rhats
from gibbsite.diagnostics.measures.series import spaced
from gibbsite.errors import CheckpointError
from gibbsite.plans.schedule.plan import Plan

KEY = "followed in warm-up"
_STEPS, _SCALARS, _CHAINS = 1000, 256, 16
_LEAST_HALF = 4


class Followed:
    """Some scalars of every latent site that data bear upon, in some chains, at every step of a warm-up of
    `most` steps (of a long one, at evenly spaced steps): at most four million numbers.

    What is kept depends on the step and not on chunks; a step that is made again is written again.
    """

    def __init__(self, plan: Plan, most: int):
        self._plan = plan
        self.sites = [n for n, s in plan.sites.items() if s.role == "latent" and n not in plan.generated]
        self._every = max(1, -(-most // _STEPS))
        self._rows = -(-most // self._every)
        self._per_site = max(1, _SCALARS // max(1, len(self.sites)))
        self._held: np.ndarray | None = None

    def add(self, values: Mapping[str, np.ndarray], before: int) -> None:
        """Take in steps `[step, chain, …]` by site, of which `before` others came before."""
        steps = np.arange(before, before + len(next(iter(values.values()))))
        wanted = steps % self._every == 0
        rows = [self._some(values[n])[wanted] for n in self.sites]
        if not rows:
            return
        with np.errstate(over="ignore"):
            rows = np.concatenate(rows, axis=-1, dtype=np.float32)
        if self._held is None:
            self._held = np.empty((self._rows, *rows.shape[1:]), np.float32)
        self._held[steps[wanted] // self._every] = rows

    def _some(self, v: np.ndarray) -> np.ndarray:
        flat = v.reshape(*v.shape[:2], -1)
        some = flat[..., spaced(flat.shape[-1], self._per_site)]  # first: of a large site few are copied
        return some[:, spaced(v.shape[1], _CHAINS)]

    def rhat(self, done: int) -> tuple[float, str]:
        """The largest split R-hat of the later half of `done` steps, and the site that has it.

        Rank-normalised; infinite for values that are not finite, and where there are too few of them.
        """
        if not self.sites:  # every draw is independent of the last
            return 1.0, ""
        x = self._later_half(done)
        if not x.size:
            return np.inf, self.sites[0]
        found = np.where(np.isnan(rhats := rank_rhats(x)), np.inf, rhats)
        found[np.ptp(x, axis=(0, 1)) == 0] = 1.0  # the same in all chains
        worst = int(np.argmax(found))
        return float(found[worst]), self._owners()[worst]

    def ess(self, done: int) -> tuple[float, str]:
        """The least effective number of those draws, in the bulk and in the tails, of continuous sites, and
        the site that has it; infinite where there is none."""
        owners = np.array(self._owners())
        continuous = np.array([not self._plan.sites[n].discrete for n in owners], bool)
        x = self._later_half(done)
        if not x.size or not continuous.any():
            return np.inf, ""
        found = least_esses(x[..., continuous])
        worst = int(np.argmin(found))
        return float(found[worst]), str(owners[continuous][worst])

    def _owners(self) -> list[str]:
        """The site of every scalar that is held."""
        sizes = [min(self._per_site, int(np.prod(self._plan.sites[n].shape, dtype=int))) for n in self.sites]
        return [n for n, size in zip(self.sites, sizes, strict=True) for _ in range(size)]

    def _later_half(self, done: int) -> np.ndarray:
        """The steps that count, `[step, chain, scalar]`, an even number; nothing where they are too few."""
        last = -(-done // self._every)
        half = (last - last // 2) // 2
        if self._held is None or half < _LEAST_HALF:
            return np.zeros((0, 0, 0))
        return self._held[last - 2 * half : last]

    def pack(self, done: int) -> dict[str, np.ndarray]:
        """What is held of `done` steps, for a checkpoint."""
        return {} if self._held is None else {KEY: self._held[: -(-done // self._every)].copy()}

    def unpack(self, arrays: Mapping[str, np.ndarray], done: int) -> None:
        """The inverse of `pack`. Raises `CheckpointError` where the array is of another warm-up."""
        held = arrays.get(KEY)
        if held is None:
            return
        if held.ndim != 3 or len(held) != -(-done // self._every) or held.dtype != np.float32:
            raise CheckpointError(f"the saved run is damaged: {KEY!r} does not fit {done} steps")
        self._held = np.empty((self._rows, *held.shape[1:]), np.float32)
        self._held[: len(held)] = held

    def forget(self) -> None:
        """Hold nothing any more."""
        self._held = None
