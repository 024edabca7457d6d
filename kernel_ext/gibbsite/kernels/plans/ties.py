"""A density → its ties: which site hardly moves while which others are held, and by how much at most.

Drawn in turn, a site forgets as slowly as the others tell where it was: with the share γ of the information
on it that is lost when the others are integrated out, its integrated autocorrelation time is (1 + γ) /
(1 − γ) (Liu 1994, "The fraction of missing information and convergence rate for data augmentation"). Two
counts bound γ before anything is compiled:

- What the prior of K numbers reads is told by all K while they are held, and by the data through them
  otherwise: anything between what all of them tell and next to nothing. Unknown until tried, at most about
  K + 1.
- The noise of N data is told by N, of which p coefficients take away p: γ = p / N.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from gibbsite.density import Density
from gibbsite.kernels.plans.limits import FILLED, LEAST_TOLD
from gibbsite.trace.jaxpr.compat import Literal

_SPREADS = ("scale", "concentration", "covariance_matrix", "precision_matrix", "scale_tril")


@dataclass(frozen=True)
class Tie:
    """`site` is held by `given`: drawn apart from them, its draws have an integrated autocorrelation time
    between `least` and `most`; `where` names the statement in which they meet."""

    site: str
    given: tuple[str, ...]
    where: str
    least: float
    most: float
    unbounded: bool = False
    """Whether `site` is the noise of data that `given` can meet all of: none of them then keeps it from 0."""

    @property
    def known(self) -> bool:
        """Whether the counts tell it."""
        return self.least == self.most

    def tried(self, times: float) -> "Tie":
        """The same with the time that a trial found."""
        return replace(self, least=times, most=times)

    def __str__(self) -> str:
        return f"{self.site} and {', '.join(self.given)} hold each other in {self.where}"


def ties_of(density: Density) -> tuple[Tie, ...]:
    """The ties among the continuous latents of a density, in the order of its terms."""
    found: dict[tuple[str, tuple[str, ...], str], Tie] = {}
    near_of: dict[str, set[str]] = {}
    for term in (t for t in density.terms if t.origin in density.sites):
        near = {n for n in density.maps.latents(term.atom) if not density.sites[n].discrete}
        near_of[term.origin] = near_of.get(term.origin, set()) | near
    data = {own: near for own, near in near_of.items() if own not in near}
    noise = {n: t for own, near in data.items() for n, t in _of_data(density, own, near)}
    for own, near in near_of.items():
        mine = [_of_prior(density, n, own, noise.get(n)) for n in near if n != own] if own in near else []
        found |= {(t.site, t.given, t.where): t for t in mine}
    found |= {(t.tie.site, t.tie.given, t.tie.where): t.tie for t in noise.values()}
    order = {n: i for i, n in enumerate(density.latents)}
    return tuple(sorted(found.values(), key=lambda t: (order.get(t.site, 0), t.where)))


def size_of(density: Density, names: Sequence[str]) -> int:
    """Numbers in sites together."""
    return sum(math.prod(density.sites[n].shape) for n in names)


@dataclass(frozen=True)
class _Noise:
    """A tie to the location of data: `data` of them tell of the site, `lost` of which the location takes."""

    tie: Tie
    data: int
    lost: int


def _of_prior(density: Density, parent: str, child: str, noise: _Noise | None) -> Tie:
    size = size_of(density, [child])
    each = size / max(1, size_of(density, [parent]))
    least, most = 1.0, max(1.0, each) + LEAST_TOLD
    # one that is the noise of data as well: they tell of it whatever the child is
    if noise is not None and size_of(density, [parent]) == 1:
        least, most = _times(size + noise.lost, size + noise.data, least, most)
    return Tie(parent, (child,), child, least, most)


def _of_data(density: Density, name: str, near: Collection[str]) -> Iterator[tuple[str, _Noise]]:
    """Noise and what the location reads; a curve whose parts meet in other ways is left to the rules."""
    parameters = density.outputs["parameters"].get(name, {})
    read = {p: _latents(density, a) for p, a in parameters.items()}
    spread = {n for p in _SPREADS for n in read.get(p, ())}
    told = {n for p, names in read.items() if p not in _SPREADS for n in names}
    noise = [n for n in near if n in spread - told]
    level = tuple(n for n in density.latents if n in near and n in told - spread)
    lost, data = size_of(density, level), size_of(density, [name])
    for n in noise if level else ():
        yield n, _Noise(Tie(n, level, name, *_times(lost, data, 1.0, data + 1.0), lost >= data), data, lost)


def _times(lost: int, data: int, least: float, most: float) -> tuple[float, float]:
    """The least and the most time where `lost` of `data` are, which is not known beyond `limits.FILLED`."""
    if lost >= data:
        return least, most
    times = (data + lost) / (data - lost)
    return (times, times) if lost <= FILLED * data else (least, min(2 * times, most))


def _latents(density: Density, atom: object) -> Sequence[str]:
    return () if atom is None or isinstance(atom, Literal) else tuple(density.maps.latents(atom))
