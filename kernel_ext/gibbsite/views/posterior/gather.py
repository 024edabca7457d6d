"""What a posterior view shows at one moment, gathered from a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gibbsite.sampling.posterior.interval import Interval, chosen
from gibbsite.sampling.posterior.marginals import Marginal, Shown, elements, marginal, with_prior
from gibbsite.sampling.storage.draws import label_of
from gibbsite.views.run.content import MAX_CHAINS, RunLike

MOST_SITES = 36
_POINTS = 2000
_MARKED = 400


@dataclass(frozen=True)
class Pair:
    """Two scalars against each other: by chain the same draws of both, `[chain, draw]`, and the draws that
    diverged, `[draw]`."""

    labels: tuple[str, str]
    x: np.ndarray
    y: np.ndarray
    diverged_x: np.ndarray
    diverged_y: np.ndarray


@dataclass(frozen=True)
class Posterior:
    """Marginals of all sites, `more` sites left out; and what is plotted large: `focus`, and `pair` if it is
    two scalars."""

    shown: tuple[Shown, ...]
    more: int
    interval: Interval
    focus: tuple[Shown, ...] = ()
    pair: Pair | None = None


def gather_posterior(run: RunLike, focus: Sequence[str] = (), *, prior: bool = False) -> Posterior:
    """The posterior of `run` now.

    Args:
        run: the run.
        focus: labels of up to two scalars, or one site, to plot large.
        prior: whether to draw the prior where that is possible; the first time it is compiled.

    Raises:
        UnknownNameError: the run has no such scalar.
    """
    interval = chosen()
    arrays = _arrays(run)
    before = run.prior() if prior else {}
    names = list(arrays)[:MOST_SITES]
    shown = tuple(_shown(run, n, arrays[n], before, interval) for n in names)
    large = tuple(_large(run, label, arrays, before, interval) for label in focus[:2])
    scalars = [m.label for m in large if isinstance(m, Marginal)]
    pair = _pair(run, scalars[0], scalars[1]) if len(scalars) == 2 else None
    return Posterior(shown, len(arrays) - len(names), interval, large, pair)


def _arrays(run: RunLike) -> dict[str, np.ndarray]:
    """Derived quantities first: somebody asked for them."""
    derived = {n: q.values for n, q in run.derived.items()}
    return {n: v for n, v in {**derived, **run.draws}.items() if v.shape[1] > 1 and 0 not in v.shape}


def _shown(
    run: RunLike, site: str, values: np.ndarray, before: Mapping[str, np.ndarray], interval: Interval
) -> Shown:
    if values[0, 0].size == 1:
        return _scalar(run, site, (0,) * (values.ndim - 2), values, before, interval)
    return elements(site, values, run.element_names(site), interval, run.value_labels(site))


def _scalar(
    run: RunLike,
    site: str,
    index: tuple[int, ...],
    values: np.ndarray,
    before: Mapping[str, np.ndarray],
    interval: Interval,
) -> Marginal:
    own = values[(..., *index)]
    found = marginal(label_of(site, index), site, own, interval, run.value_labels(site))
    known = before.get(site)
    fits = known is not None and known.shape[1:] == values.shape[2:]
    return with_prior(found, known[(slice(None), *index)]) if known is not None and fits else found


def _large(
    run: RunLike,
    label: str,
    arrays: Mapping[str, np.ndarray],
    before: Mapping[str, np.ndarray],
    interval: Interval,
) -> Shown:
    if label in arrays:
        return _shown(run, label, arrays[label], before, interval)
    run.values(label)  # raises for what does not exist
    site, _, rest = label.removesuffix("]").rpartition("[")
    return _scalar(run, site, tuple(int(i) for i in rest.split(", ")), arrays[site], before, interval)


def _pair(run: RunLike, first: str, second: str) -> Pair:
    x, y = (np.asarray(run.values(label), float)[:MAX_CHAINS] for label in (first, second))
    marked = np.asarray(run.diverging)[:MAX_CHAINS]
    at = np.argwhere(marked[:, : x.shape[1]]) if marked.size else np.zeros((0, 2), int)
    at = (
        at[np.unique(np.linspace(0, max(len(at) - 1, 0), min(len(at), _MARKED)).astype(int))]
        if len(at)
        else at
    )
    step = max(1, x.size // _POINTS)
    spots = tuple(at.T)
    return Pair((first, second), x[:, ::step], y[:, ::step], x[spots], y[spots])
