"""What new rows hold of one outcome and a prediction of others does not hear: a latent of these rows, which
both speak of, is drawn from its distribution and not given what is known."""

from collections.abc import Collection
from typing import Any

import numpy as np

from gibbsite.density import Density
from gibbsite.prediction.asked.arguments import Asked, laid_in, leaves_of
from gibbsite.prediction.asked.places import Places
from gibbsite.prediction.drawn.forward import Part


def unheard(
    origin: Any,
    density: Density,
    asked: Asked,
    places: Places,
    news: Collection[str],
    held: Collection[str],
) -> tuple[str, ...]:
    """A sentence for each latent with elements in `news`, of which outcomes that are given, all of them or
    some elements, and others that are asked for both speak. `held` sites are set, which says nothing of a
    latent, or given, which weighs the draws."""
    now, outcomes = leaves_of(origin, asked.values), laid_in(origin)
    gaps: dict[str, np.ndarray] = {}
    for leaf, site in outcomes.items():
        if leaf in asked.new - asked.absent and leaf in now and np.ndim(now[leaf]):
            lost = np.isnan(np.asarray(now[leaf], float))
            axes = places.of(site) if site in density.sites else None
            known = Part(axes).known if axes is not None else np.zeros((), bool)
            gone = lost[~known] if known.shape == lost.shape else lost
            gaps[site] = np.append(gaps.get(site, gone[:0]), gone)
    found = []
    for name in news:
        speak = {term.origin for term, _ in density.terms_of(name)} & set(outcomes.values()) - set(held)
        given = sorted(s for s in speak if s in gaps and not gaps[s].all())
        others = ", ".join(sorted(s for s in speak if s not in gaps or gaps[s].any()))
        if given and others:
            found.append(
                f"{name} of new rows is drawn without what these hold of {', '.join(given)}: to have it "
                f"count for {others}, put the rows into the data, {others} missing (missing='impute'), and "
                "sample again"
            )
    return tuple(found)
