"""Missing data that are masked, and read by others all the same."""

from collections.abc import Iterator, Mapping

import jax.numpy as jnp
import numpy as np

from gibbsite.density.current import scored_elements
from gibbsite.density.density import Density
from gibbsite.errors import DataError
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.validation.indices import somewhere
from gibbsite.validation.words import at_line


def check_masked(density: Density, missing: Mapping[str, np.ndarray]) -> None:
    """Refuse observed sites whose `missing` elements another statement reads, where that counts: a mask
    takes their own density out, and what is computed of them is of a number that nobody gave. Raises
    `DataError`."""
    if not missing:
        return
    latents = {n: somewhere(density.sites[n], k) for k, n in enumerate(density.latents)}
    for name, gone in missing.items():
        atom = density.outputs["observed"].get(name)
        others = [t for t in density.terms if t.origin != name]
        if atom is None or isinstance(atom, Literal) or not others:
            continue
        value = density.evaluator(latents).full(atom)
        totals = []
        for v in (value, jnp.where(gone, value + 1, value)):
            ev = density.evaluator(latents)
            ev.give({atom: v.astype(value.dtype)})
            totals.append([np.asarray(t.contribution(ev.full(t.atom), ev.full)) for t in others])
        for term, a, b in zip(others, *totals, strict=True):
            if not np.array_equal(a, b, equal_nan=True):
                site = density.sites[name]
                raise DataError(
                    f"{name!r}{at_line(site)} is missing at {np.argwhere(gone)[0].tolist()}, and "
                    f"{term.origin!r} reads it there: a mask takes its own density out, and no value has "
                    "been given for it. missing='impute' draws it, 'drop' leaves those rows out"
                ).at(site.line, "missing-values")


def partly_masked_notes(density: Density, missing: Mapping[str, np.ndarray]) -> Iterator[str]:
    """A sentence for each observed site of which events are left out that are known in part."""
    for name, gone in missing.items():
        site = density.sites[name]
        axes = tuple(range(site.element_rank, gone.ndim))
        some = gone.any(axes) & ~gone.all(axes) if axes else np.zeros((), bool)
        some = some & ~scored_elements(density, name) if some.any() else some
        if count := int(some.sum()):
            known = int((~gone[some]).sum())
            yield (
                f"{count} of {some.size} events of {name} are missing in part: what is drawn as a whole is "
                f"left out as a whole, {known} numbers that are known with it"
            )
