"""All that is looked at before anything is sampled, in the order in which one would want to hear of it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gibbsite.density.density import Density
from gibbsite.errors import DataError, ModelError
from gibbsite.validation.columns import code_notes
from gibbsite.validation.covariates import (
    check_covariates,
    figure_notes,
    intercept_notes,
    scaling_notes,
)
from gibbsite.validation.data import check_support
from gibbsite.validation.draws import Impossible
from gibbsite.validation.indices import check_indices, unread_notes
from gibbsite.validation.limits import kind_of
from gibbsite.validation.parameters import impossible_parameters
from gibbsite.validation.points import impossible_at
from gibbsite.validation.words import family, told_counts, told_parameter

_TOLERATED = 1 / 3  # of a parameter's elements on draws from the prior: a prior may be cut off by its use
_ALWAYS = 0.95  # of the draws: a matrix that is positive definite but for rounding still is now and then
_WAY_OUT = ". On purpose, or far from where the data are? `check_values=False` leaves this look out"
# NumPyro moves the probabilities of these to the nearest that can be
_CLAMPED = ("Bernoulli", "Binomial", "Geometric")


def impossible_values(fn: Callable, density: Density, labels: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Refuse what cannot be about the values of a model, and return notes of what merely hurts.

    Raises `DataError` for observations outside their support, indices beyond an axis and NaN in covariates,
    `ModelError` for parameters that do not meet their constraints: with line, site, argument and value.
    """
    check_support(density)
    check_indices(density)
    check_covariates(density)
    found = impossible_parameters(fn, density)
    for one in found:
        if _refused(one):
            site = density.sites[one.site]
            kind = ModelError if one.drawn else DataError
            name = one.parameter.rpartition("/")[2]
            told = told_parameter(site, one) + _WAY_OUT * one.drawn
            raise kind(told).at(site.line, "impossible-parameter", name)
    counted = [n for s in density.sites.values() if (n := told_counts(density, s)) is not None]
    return (
        *(_note(density, one) for one in found),
        *counted,
        *code_notes(density, labels),
        *unread_notes(density),
        *intercept_notes(density),
        *figure_notes(density),
        *scaling_notes(density),
    )


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
