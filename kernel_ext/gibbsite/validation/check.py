"""All that is looked at before anything is sampled, in the order in which one would want to hear of it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.intervals import range_of
from gibbsite.density.known_elements import constant_value, fitted, kept_elements
from gibbsite.errors import DataError, ModelError
from gibbsite.validation.covariates import (
    binary_notes,
    check_covariates,
    code_notes,
    figure_notes,
    intercept_notes,
    missing_notes,
    scaling_notes,
)
from gibbsite.validation.data import check_support, unread_notes
from gibbsite.validation.draws import Impossible, fails_somewhere, impossible_at, impossible_on_draws
from gibbsite.validation.indices import check_indices
from gibbsite.validation.limits import kind_of, outside, undecided
from gibbsite.validation.whole_numbers import check_whole_numbers
from gibbsite.validation.words import family, told_counts, told_parameter

# Parameters of distributions that cannot be: tested where they are known, and else on draws from the prior.
#
# Most are ruled out by the ranges of what they are computed from, which costs next to nothing, and most of
# the rest by their values at a few points; only what fails there is looked at on draws.


def impossible_parameters(fn: Callable, density: Density) -> list[Impossible]:
    """The parameters of the model `fn` that do not meet their constraints, in program order."""
    found, open_ = _known_parameters(density), undecided(density)[1]
    doubtful = [p for p in open_ if fails_somewhere(density, *p)]
    return found + (impossible_on_draws(fn, density, doubtful) if doubtful else [])


def _known_parameters(density: Density) -> list[Impossible]:
    constant, _ = undecided(density)
    found = [p for site, name in constant if (p := _constant(density, site, name)) is not None]
    return found + [p for site in density.sites if (p := _wrong_order(density, site)) is not None]


def _constant(density: Density, site: str, name: str) -> Impossible | None:
    constraint = density.parameter_constraints[site][name]
    value = constant_value(density, density.outputs["parameters"][site][name])
    wrong = np.asarray(outside(constraint, value, False))
    kept = kept_elements(density, site)
    if kept is not None:
        wrong = wrong & fitted(kept, wrong.shape)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return Impossible(site, name, constraint, 1.0, at, value[at] if value[at].ndim else value[at].item())


def _wrong_order(density: Density, site: str) -> Impossible | None:
    """Ends of an interval that are known, the lower above the upper."""
    ends = [density.outputs["parameters"].get(site, {}).get(n) for n in ("low", "high")]
    if any(e is None or density.maps.latents(e) for e in ends):
        return None
    low, high = (range_of(density, e) for e in ends)
    if low[0] <= high[1]:
        return None
    return Impossible(site, "low", constraints.less_than(high[1]), 1.0, (), low[0])


_TOLERATED = 1 / 3  # of a parameter's elements on draws from the prior: a prior may be cut off by its use
_ALWAYS = 0.95  # of the draws: a matrix that is positive definite but for rounding still is now and then
_WAY_OUT = ". On purpose, or far from where the data are? `check_values=False` leaves this look out"
# NumPyro moves the probabilities of these to the nearest that can be
_CLAMPED = ("Bernoulli", "Binomial", "Geometric")


def impossible_values(
    fn: Callable,
    density: Density,
    labels: Mapping[str, Sequence[str]],
    alphabetical: Collection[str] = (),
) -> tuple[str, ...]:
    """Refuse what cannot be about the values of a model, and return notes of what merely hurts.

    Raises `DataError` for whole numbers that wrap around, observations outside their support, indices
    beyond an axis, NaN in covariates and texts as amounts (`alphabetical` are the arguments whose categories
    nobody gave an order), `ModelError` for parameters that do not meet their constraints: with
    line, site, argument and value.
    """
    codes = tuple(code_notes(density, labels, alphabetical))  # of which others are consequences
    check_whole_numbers(density)
    check_support(density)
    check_indices(density)
    check_covariates(density)
    found = impossible_parameters(fn, density)
    _check_parameters(density, found, codes)
    return (
        *(_note(density, one) for one in found),
        *counted_notes(density),
        *codes,
        *binary_notes(density, labels),
        *missing_notes(density),
        *unread_notes(density),
        *intercept_notes(density),
        *figure_notes(density),
        *scaling_notes(density),
    )


def counted_notes(density: Density, meant: bool = False) -> tuple[str, ...]:
    """A sentence for each site whose data count several times; with `meant` not of single numbers."""
    told = (told_counts(density, site, meant) for site in density.sites.values())
    return tuple(n for n in told if n is not None)


def check_known(density: Density) -> None:
    """Of `impossible_values`, what is refused without a draw from the prior, and wherever else the same data
    could be. Raises `DataError`."""
    check_whole_numbers(density)
    check_indices(density)
    check_covariates(density)
    _check_parameters(density, _known_parameters(density))


def _check_parameters(density: Density, found: Sequence[Impossible], codes: Sequence[str] = ()) -> None:
    for one in found:
        if _refused(one):
            site = density.sites[one.site]
            kind = ModelError if one.drawn else DataError
            name = one.parameter.rpartition("/")[2]
            told = ". ".join((told_parameter(site, one) + _WAY_OUT * one.drawn, *codes))
            raise kind(told).at(site.line, "impossible-parameter", name)


def _refused(one: Impossible) -> bool:
    """Whether a parameter is impossible so often that the model cannot be meant so."""
    if one.drawn and kind_of(one.constraint) == "matrix":
        return one.share >= _ALWAYS
    return one.elements > _TOLERATED and not _equal_weights(one)


def told_start(density: Density, chains: Mapping[str, Any]) -> str | None:
    """What cannot be about parameters where chains start, from values `[chain, *shape]` by latent; None where
    all can be."""
    values = {n: np.asarray(v) for n, v in chains.items()}
    for chain in range(len(next(iter(values.values())))):
        found = impossible_at(density, {n: v[chain] for n, v in values.items()})
        if found is not None:
            return f"chain {chain} starts where {told_parameter(density.sites[found.site], found)}"
    return None


def _note(density: Density, one: Impossible) -> str:
    site = density.sites[one.site]
    meant = "Where a draw comes there it is held impossible"
    if _equal_weights(one):
        meant = "Equal weights mean equal probabilities"
    elif family(site) in _CLAMPED:
        meant = "NumPyro computes with the nearest probability that can be"
    elif kind_of(one.constraint) == "simplex":
        meant = "The density means nothing there"
    told = told_parameter(site, one)
    return f"{told}{'' if told.endswith('?') else '.'} {meant}"


def _equal_weights(one: Impossible) -> bool:
    """`Categorical(ones(3))`: what NumPyro draws from as everybody means it."""
    ones = bool((np.asarray(one.value) == 1).all())
    return ones and not one.drawn and kind_of(one.constraint) == "simplex"
