"""What is said of a value that cannot be: the line, the site, the argument, the value, and what was likely
meant."""

from typing import Any

import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.model.sites import Site
from gibbsite.programs.jaxpr.source_line import at_place
from gibbsite.validation.draws import Impossible
from gibbsite.validation.limits import kind_of, wanted

_NEVER_ZERO = ("Gamma", "LogNormal", "Exponential", "Weibull", "Beta", "InverseGamma")


def at_line(site: Site) -> str:
    """` (line 4: the statement)`, where the line is known."""
    return at_place(site.line)


def family(site: Site) -> str:
    """A distribution as its user calls it: `Bernoulli` for `BernoulliProbs`."""
    name = site.fn_name
    return name.removesuffix("Probs").removesuffix("Logits") or name


def shown(value: Any) -> str:
    """A number in a few digits, an array cut short; no more than that of one with NaN."""
    array = np.asarray(value)
    if array.ndim and array.dtype.kind == "f" and np.isnan(array).any():
        return "NaN"
    if not array.ndim:
        return f"{array:.4g}" if array.dtype.kind == "f" else str(array)
    return np.array2string(array, precision=3, threshold=6, edgeitems=2).replace("\n", "")


def index(at: tuple[int, ...]) -> str:
    """` at [3, 1]`; nothing for a scalar."""
    return f" at [{', '.join(map(str, at))}]" if at else ""


def told_parameter(site: Site, found: Impossible) -> str:
    """The sentence about a parameter."""
    name = found.parameter.rpartition("/")[2]
    how = _share(found.share) if found.drawn else ""
    return (
        f"{name!r} of {site.name!r}{at_line(site)} is {shown(found.value)}{index(found.index)}{how}, and "
        f"{family(site)} takes {_because(found)}; {_meant_parameter(found, name)}"
    )


def _because(found: Impossible) -> str:
    value = np.asarray(found.value)
    want = wanted(found.constraint)
    if kind_of(found.constraint) == "simplex" and not np.isnan(value).any() and (value >= 0).all():
        return f"{want} (these sum to {value.sum():.4g})"
    return want


def _share(share: float) -> str:
    return " on every draw from the prior" if share == 1 else f" on {share:.0%} of the draws from the prior"


def _meant_parameter(found: Impossible, name: str) -> str:
    value = np.asarray(found.value, float)
    if np.isnan(value).any():
        if kind_of(found.constraint) == "matrix":
            return (
                "what it is the root of is not positive definite: add a little to the diagonal, `1e-4 "
                "* jnp.eye(n)`"
            )
        return "look for NaN among what it is computed from"
    if name in ("probs", "gate"):
        logits = "logits" if name == "probs" else "gate_logits"
        return (
            f"did you mean `{logits}=`?" if not _sums(found) else "divide by the sum, or use `jax.nn.softmax`"
        )
    if kind_of(found.constraint) == "matrix":
        return "add a little to its diagonal, such as `1e-6 * jnp.eye(n)`, or look at how it is computed"
    if kind_of(found.constraint) == "ordered":
        return "give it an ordered prior: `dist.TransformedDistribution(…, OrderedTransform())`"
    if name == "low":
        return "are the two ends in the right order?"
    if np.all(value == 0):
        return "0 leaves no distribution; did you mean another argument?"
    if name in ("total_count", "n"):
        return "are the arguments in the right order?"
    if name in ("mean", "quantile"):
        return "`jax.nn.sigmoid(…)` or `jnp.exp(…)` keeps it there"
    return (
        "a prior on positive numbers (`HalfNormal`, `Gamma`), or `jnp.exp(…)` of a predictor, keeps it there"
    )


def _sums(found: Impossible) -> bool:
    value = np.asarray(found.value)
    return kind_of(found.constraint) == "simplex" and bool((value >= 0).all())


def told_counts(density: Density, site: Site, meant: bool = False) -> str | None:
    """Data that have fewer elements than the statement has: each then counts several times. One number for
    all may be `meant`."""
    atom = density.outputs["log_prob"].get(site.name)
    if site.role != "observed" or atom is None or site.fn_name in ("Unit", "Delta"):
        return None
    have, counted = int(np.prod(site.batch_shape)), int(np.prod(atom.aval.shape))
    if have == 0 or counted <= have or (meant and have == 1):
        return None
    each = "the one value" if have == 1 else f"each of the {have} values"
    return (
        f"{each} of {site.name!r}{at_line(site)} counts {counted // have} times, since the statement has the "
        f"shape {tuple(atom.aval.shape)}: see that the plates around it are meant so"
    )


def told_data(site: Site, values: np.ndarray, at: tuple[int, ...], many: int) -> str:
    """The sentence about an observed value outside of its support."""
    value = values[at[: values.ndim]]
    more = f" ({many} such values)" if many > 1 else ""
    return (
        f"the data of {site.name!r}{at_line(site)} hold {shown(value)}{index(at)}{more}, which "
        f"{family(site)} never draws: it draws {_draws(site)}; {_meant_data(site, values, value)}"
    )


def _draws(site: Site) -> str:
    if isinstance(site.support, type(constraints.boolean)):
        return "0 or 1"
    low, high = (getattr(base_constraint(site.support), n, None) for n in ("lower_bound", "upper_bound"))
    if any(np.size(e) > 1 for e in (low, high) if e is not None):
        return "whole numbers up to its own total" if site.discrete else "numbers between its own bounds"
    if kind_of(site.support) == "":
        return "values of another kind"
    return wanted(site.support).replace("a whole number", "whole numbers").replace("a number", "numbers")


def _meant_data(site: Site, values: np.ndarray, value: Any) -> str:
    name, number = family(site), np.asarray(value, float)
    if site.discrete and np.any(number % 1):
        return "counts are whole numbers: round them on purpose, or take a continuous distribution"
    if name == "Bernoulli" and set(np.unique(values)) <= {1, 2}:
        return "code the two outcomes as 0 and 1, for example `y - 1`"
    if name in ("Categorical", "OrderedLogistic") and values.min() >= 1:
        return "categories are counted from 0, for example `y - 1`"
    if name in ("Binomial", "BetaBinomial", "Multinomial") and np.all(number >= 0):
        return "are trials and successes in the right places?"
    if name in _NEVER_ZERO and np.any(number == 0):
        return "where 0 means `none`, model it apart (a hurdle) or move it off the edge on purpose"
    return "look at that value, or take a distribution that can draw it"
