"""Data that parameters are computed from: NaN among them, indices beyond an axis, scales that hurt."""

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.density.density import Density
from gibbsite.density.model.sites import Site
from gibbsite.density.possible.elements import fitted, kept_elements, known_numbers
from gibbsite.density.possible.words import at_line
from gibbsite.errors import DataError
from gibbsite.trace.jaxpr.compat import Literal
from gibbsite.trace.jaxpr.source_line import equation_line, line_at

_PREDICTS = frozenset(["loc", "logits", "rate", "probs", "mean", "predictor", "concentration1"])
_APART = 1000.0
_FAR = 30.0
_MOVES = frozenset("broadcast_in_dim reshape squeeze expand_dims convert_element_type copy transpose".split())


def check_covariates(density: Density) -> None:
    """Refuse NaN in arguments that a parameter of a site is computed from; raises `DataError` naming both."""
    arrays = zip(density.arguments.names, density.data_vars, density.arguments.arrays, strict=True)
    bad = {
        v: (n, np.asarray(a)) for n, v, a in arrays if a.dtype.kind == "f" and np.isnan(np.asarray(a)).any()
    }
    if not bad:
        return
    for name, parameters in density.outputs["parameters"].items():
        for parameter, atom in parameters.items():
            reached = [bad[v] for v in _sources(density, [atom]) if v in bad]
            if reached and _undefined(density, name, atom):
                argument, value = reached[0]
                at, site = np.argwhere(np.isnan(value)), density.sites.get(name)
                where = ", ".join(map(str, at[0]))
                raise DataError(
                    f"{argument!r} holds {len(at)} NaN (the first at [{where}]), and {parameter!r} of "
                    f"{name!r}{at_line(site) if site else ''} is computed from it: a covariate has no "
                    f"distribution to be drawn from. Drop those rows, fill them in, or give {argument!r} a "
                    f"distribution of its own, `{argument} ~ …`, and use what that statement returns"
                ).at(site.line if site else None, "nan-in-a-covariate", parameter)


def _undefined(density: Density, name: str, atom: Any) -> bool:
    """Whether a parameter is NaN, where no mask takes it out, at plain values of the latents."""
    latents = {n: _plain(density.sites[n]) for n in density.latents}
    wrong = np.isnan(np.asarray(density.evaluator(latents).full(atom)))
    kept = kept_elements(density, name)
    return bool((wrong if kept is None else wrong & fitted(kept, wrong.shape)).any())


def _plain(site: Site) -> Any:
    zeros = jnp.zeros(site.shape, site.dtype)
    return zeros if site.discrete else site.support.feasible_like(zeros)


def check_indices(density: Density) -> None:
    """Refuse data that index an axis beyond its end, which JAX would read as some other element; raises
    `DataError` with the line."""
    numbers = known_numbers(density, {})
    for eqn in density.closed.jaxpr.eqns:
        if eqn.primitive.name != "gather" or eqn.params["mode"].name != "PROMISE_IN_BOUNDS":
            continue
        if isinstance(eqn.invars[1], Literal) or density.maps.latents(eqn.invars[1]):
            continue
        found = numbers.value(eqn.invars[1])
        if found is None or not found.size:
            continue
        dims, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
        for column, axis in enumerate(dims.start_index_map):
            length = eqn.invars[0].aval.shape[axis]
            picked = found[..., column]
            if picked.max() > length - sizes[axis] or picked.min() < 0:
                raise _beyond(density, eqn, picked, length)


def _beyond(density: Density, eqn: Any, picked: np.ndarray, length: int) -> DataError:
    place = equation_line(eqn)
    text = line_at(*place).text if place else ""
    line = f" (line {place[1]}{f': `{text}`' if text else ''})" if place else ""
    names = [n for n, v in zip(density.arguments.names, density.data_vars, strict=True)]
    source = _sources(density, [eqn.invars[1]])
    told = [n for n, v in zip(names, density.data_vars, strict=True) if v in source]
    what = f"{told[0]!r}" if told else "an index"
    low, high = int(picked.min()), int(picked.max())
    if low < 0:
        low -= length  # as it was written, before the length was added
    plates = [f"{n!r}" for n, p in density.plates.items() if p.size == length]
    axis = f"an axis of {length} elements" + (f" (plate {', '.join(plates)})" if plates else "")
    if low >= 1 and high == length:
        cure = "it seems to count from 1: use it less 1"
    else:
        cure = (
            f"make the axis {high + 1} long, or look at those values"
            if high >= length
            else "look at those values"
        )
    return DataError(
        f"{what} runs from {low} to {high} and picks from {axis}{line}, which are counted from 0 to "
        f"{length - 1}; {cure}"
    ).at(place, "index-out-of-range", f"[{told[0]}]" if told else None)


def scaling_notes(density: Density) -> tuple[str, ...]:
    """What of the covariates makes sampling slow, a sentence each: columns of very different spread, and
    values far from zero."""
    arrays = dict(zip(density.data_vars, density.arguments.arrays, strict=True))
    names = dict(zip(density.data_vars, density.arguments.names, strict=True))
    notes: dict[Any, str] = {}
    for v in _multiplied(density):
        value = np.asarray(arrays[v]) if v in arrays else None
        if (
            v in notes
            or value is None
            or value.dtype.kind not in "fiu"
            or value.ndim not in (1, 2)
            or len(value) < 8
        ):
            continue
        with np.errstate(all="ignore"):
            spread, middle = (
                np.atleast_1d(value.std(0, dtype=float)),
                np.atleast_1d(value.mean(0, dtype=float)),
            )
        varied = spread > 0
        if (
            value.ndim == 2
            and varied.sum() > 1
            and (r := spread[varied].max() / spread[varied].min()) >= _APART
        ):
            notes[v] = (
                f"the columns of {names[v]!r} differ {r:,.0f}-fold in their spread: divided by its standard "
                f"deviation each gets a coefficient like the others', and sampling is faster"
            )
        elif varied.any() and (r := float((np.abs(middle[varied]) / spread[varied]).max())) >= _FAR:
            notes[v] = (
                f"{names[v]!r} lies far from zero ({r:.0f} times its standard deviation): less its mean it "
                f"leaves intercept and slope nearly uncorrelated, and sampling is faster"
            )
    return tuple(notes.values())


def _multiplied(density: Density) -> Iterator[Any]:
    """The data variables that a latent is multiplied with on the way to the middle of a distribution."""
    atoms = [
        a
        for parameters in density.outputs["parameters"].values()
        for n, a in parameters.items()
        if n.rpartition("/")[2] in _PREDICTS
    ]
    for eqn in _equations(density, atoms):
        if eqn.primitive.name not in ("mul", "dot_general"):
            continue
        for atom, other in (eqn.invars, eqn.invars[::-1]):
            if isinstance(other, Literal) or not density.maps.latents(other):
                continue
            while not isinstance(atom, Literal) and (made := density.producer.get(atom)) is not None:
                if made.primitive.name not in _MOVES:
                    break
                atom = made.invars[0]
            if not isinstance(atom, Literal) and atom not in density.producer:
                yield atom


def _equations(density: Density, atoms: list[Any]) -> Iterator[Any]:
    """Every equation that the atoms are computed by, once."""
    stack, seen = [a for a in atoms if not isinstance(a, Literal)], set()
    while stack:
        eqn = density.producer.get(stack.pop())
        if eqn is not None and id(eqn) not in seen:
            seen.add(id(eqn))
            yield eqn
            stack += [a for a in eqn.invars if not isinstance(a, Literal)]


def _sources(density: Density, atoms: list[Any]) -> set[Any]:
    """The inputs of the jaxpr that the atoms are computed from."""
    found = {a for a in atoms if not isinstance(a, Literal)}
    for eqn in _equations(density, atoms):
        found |= {a for a in eqn.invars if not isinstance(a, Literal)}
    return {v for v in found if v not in density.producer}
