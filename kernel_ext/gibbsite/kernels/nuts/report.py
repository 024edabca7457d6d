"""What warm-up learnt about centring and bends, in numbers and in words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.density.hierarchy.location_scale import TILTED
from gibbsite.kernels.blocks.eliminated import Eliminated
from gibbsite.kernels.composite import Repeat
from gibbsite.kernels.interleaved import Interleaved
from gibbsite.kernels.learnt.centring import GRID
from gibbsite.kernels.learnt.components import components_of
from gibbsite.kernels.learnt.coordinates import declared
from gibbsite.kernels.nuts.block import LearntNUTS

_BAD_FIT = 1.0


@dataclass(frozen=True)
class Learnt:
    """A site's degrees of centring, of the site's shape, and the mean divergence F per element of what was
    chosen, of the model as written and of the wholly non-centred site."""

    degrees: np.ndarray
    used: float
    written: float
    non_centred: float

    def __str__(self) -> str:
        low, high = float(np.min(self.degrees)), float(np.max(self.degrees))
        span = f"{low:.2g}" if high - low < 0.01 else f"{low:.2g} … {high:.2g}"
        if not (self.known and np.isfinite(self.used)):
            return f"λ {span}"
        return (
            f"λ {span}; F {self.used:.2g}, as written {self.written:.2g}, non-centred {self.non_centred:.2g}"
        )

    @property
    def known(self) -> bool:
        """Whether there were draws to learn it from; before, it is where learning begins."""
        return self.used > 0 or self.written > 0

    def as_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {**vars(self), "degrees": np.asarray(self.degrees, float).tolist()}


@dataclass(frozen=True)
class Bent:
    """Of a site of positive numbers: how many of its elements are sampled as something between logarithm and
    value, how many there are, and the mean divergence F of the former as chosen and as logarithms."""

    count: int
    size: int
    used: float
    written: float

    def __str__(self) -> str:
        some = "" if self.size == 1 else f"{self.count} of {self.size} elements "
        return f"{some}between logarithm and value; F {self.used:.2g}, as logarithm {self.written:.2g}"


class Centring(dict[str, np.ndarray]):
    """Degrees of centring by site, each of the site's shape: 1 is centred, 0 non-centred. Printing tells how
    well they fit; `notices` names sites for which no degree does. `bent` are the sites of positive numbers
    that are not sampled as logarithms."""

    def __init__(self, learnt: Mapping[str, Learnt], bent: Mapping[str, Bent] | None = None):
        super().__init__({n: found.degrees for n, found in learnt.items()})
        self.learnt, self.bent = dict(learnt), dict(bent or {})

    def __str__(self) -> str:
        found = [f"{n}: {found}" for n, found in (*self.learnt.items(), *self.bent.items())]
        return "\n".join(found) or "nothing to centre"

    @property
    def notices(self) -> list[str]:
        """Sites whose draws are far from normal in the chosen coordinates too."""
        return [
            f"{n}: no degree of centring makes its draws nearly normal (F {found.used:.2g}): "
            f"a bend or heavy tails are left"
            for n, found in self.learnt.items()
            if found.used > _BAD_FIT
        ]

    def as_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        bent = {n: vars(found) for n, found in self.bent.items()}
        return {**{n: found.as_json() for n, found in self.learnt.items()}, **bent}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> "Centring":
        """The inverse of `as_json`."""
        degrees = {n: s for n, s in saved.items() if "degrees" in s}
        return cls(
            {n: Learnt(**{**s, "degrees": np.asarray(s["degrees"])}) for n, s in degrees.items()},
            {n: Bent(**s) for n, s in saved.items() if n not in degrees},
        )


def learnt_centring(kernel: Any, state: Any) -> Centring:
    """What the blocks of a composite have learnt, from the state of all chains.

    Chains that learnt apart are averaged.
    """
    found: dict[str, Learnt] = {}
    bent: dict[str, Bent] = {}
    for inner, own in gradient_blocks(kernel, state):
        if not inner.learns_centring:
            continue
        tuning = own.tuning
        lam, fit = np.asarray(tuning.lam).mean(0), [np.asarray(f).mean(0) for f in tuning.fit]
        for part in inner.problem.coordinates.centred:
            at = part.degrees
            written, _, non_centred, used = (float(f[at].mean()) for f in fit)
            found[part.name] = Learnt(lam[at].reshape(part.shape), used, written, non_centred)
        knees = np.asarray(tuning.bends.knee)
        as_logarithm, as_chosen = (np.asarray(f).mean(0) for f in tuning.bends_fit)
        for part in inner.problem.coordinates.bent:
            which = np.isfinite(knees[:, part.bends]).any(0)
            if which.any():
                used, written = (float(f[part.bends][which].mean()) for f in (as_chosen, as_logarithm))
                bent[part.name] = Bent(int(which.sum()), which.size, used, written)
    return Centring(found, bent)


def aimed_at(kernel: Any, state: Any) -> dict[int, float]:
    """The mean acceptance that blocks of gradients aim at by now, by their place in the sweep, from the state
    of all chains: warm-up may have raised it."""
    found = {}
    for i, ((block, _), own) in enumerate(zip(kernel.blocks, state.block_states, strict=True)):
        # by NumPy: JAX would compile a program for it
        targets = [float(np.mean(np.asarray(inner.target))) for _, inner in _within(block, own)]
        if targets:
            found[i] = max(targets)
    return found


def gradient_blocks(kernel: Any, state: Any) -> Iterator[tuple[LearntNUTS, Any]]:
    """Every `LearntNUTS` of a composite with its state, also where it is repeated, one of several for the
    same sites, or on a marginal."""
    for (block, _), own in zip(kernel.blocks, state.block_states, strict=True):
        yield from _within(block, own)


def _within(block: Any, state: Any) -> Iterator[tuple[LearntNUTS, Any]]:
    if isinstance(block, LearntNUTS):
        yield block, state
    elif isinstance(block, Interleaved):
        for (part, _), own in zip(block.parts, state.inner, strict=True):
            yield from _within(part, own)
    elif isinstance(block, Repeat):
        yield from _within(block.kernel, state)
    elif isinstance(block, Eliminated):
        yield from _within(block.inner, state.inner)


def to_be_learnt(density: Density, sites: Sequence[str], centring: str) -> list[str]:
    """For a schedule's explanation: which sites of a block will be centred to a degree, and which have priors
    whose components are crossed, and at what cost."""
    lines = []
    for found in declared(density, sites, None, centring).values():
        if centring != "auto":
            lines.append(f"{found}: {centring}")
            continue
        if getattr(found, "whiten", None) is not None:
            lines.append(f"{found}: whitened by its prior's factor, or as written, as draws of warm-up say")
            continue
        learnt = "which of them" if getattr(found, "form", None) == TILTED else "centring"
        lines.append(
            f"{found}: {learnt} learnt per element in warm-up, one of {GRID} degrees, from draws that it has"
        )
    mixed = [n for n in sites if n in density.latent_vars and components_of(density, n) is not None]
    return lines + [f"{n}: steps between the components of its prior, one more gradient" for n in mixed]
