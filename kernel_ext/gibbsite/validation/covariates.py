"""Data that parameters are computed from: NaN among them, and scales that hurt."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from gibbsite.density.density import Density
from gibbsite.density.known_elements import equations_behind, fitted, kept_elements, sources
from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.model.sites import Site
from gibbsite.errors import DataError
from gibbsite.ground.arguments import listed
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.primitives import (
    ADDS,
    COMPARES,
    CONVERTS,
    GROWS,
    MOVES,
    PASSES,
    PICKS,
    REARRANGES,
    SELECTS,
    SPREADS,
    SUBTRACTS,
    is_product,
    moved_from,
    of_kind,
)
from gibbsite.validation.words import at_line

_PREDICTS = frozenset(["loc", "logits", "rate", "probs", "mean", "predictor", "concentration1"])
_APART = 1000.0
_FAR = 30.0
# spreads from zero at which joint draws in single precision begin to be off (`benchmarks/precision.py`)
_TOO_FAR = 1e5
# of a column's spread, what rounding it may take without a note: it adds half of its square to the spread
_LOST = 0.03
# of what a column of one value is, what its spread may come out as in double precision
_ROUNDING = 1e-14
_MOVES = REARRANGES, SPREADS, CONVERTS, PASSES
_KEEPS_AMOUNTS = ADDS | CONVERTS | GROWS | MOVES | SELECTS | SUBTRACTS


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
            reached = [bad[v] for v in sources(density, [atom]) if v in bad]
            if reached and _undefined(density, name, atom):
                argument, value = reached[0]
                at, site = np.argwhere(np.isnan(value)), density.sites.get(name)
                where = ", ".join(map(str, at[0]))
                called = f"`{argument}`" if "'" in argument else repr(argument)  # `df['x']`
                raise DataError(
                    f"{called} holds {len(at)} NaN (the first at [{where}]), and {parameter!r} of "
                    f"{name!r}{at_line(site) if site else ''} is computed from it: "
                    f"{_way_out(site, argument, called)}"
                ).at(site.line if site else None, "nan-in-a-covariate", parameter)


def _way_out(site: Site | None, argument: str, called: str) -> str:
    if site is not None and site.in_scan and site.role == "observed":
        return (
            "steps of a loop (`scan`) are handed on as given. Have the loop draw what is missing, and hand "
            "on what the statement returns: "
            f"`numpyro.sample({site.name!r}, …, obs=value, obs_mask=seen)`, of inputs in which gaps are "
            f"filled with any number, and `seen = ~np.isnan({argument})`"
        )
    return (
        "a covariate has no distribution to be drawn from. Drop those rows, fill them in, or give "
        f"{called} a distribution of its own, `{argument} ~ …`, and use what that statement returns"
    )


def missing_notes(density: Density) -> Iterator[str]:
    """A sentence for each argument whose NaN are compared, on the way to a parameter, with something else
    than themselves: that is a no, whatever they are."""
    arrays = zip(density.arguments.names, density.data_vars, density.arguments.arrays, strict=True)
    bad = {v: (n, int(np.isnan(a).sum())) for n, v, a in arrays if np.asarray(a).dtype.kind == "f"}
    bad = {v: told for v, told in bad.items() if told[1]}
    atoms = [a for parameters in density.outputs["parameters"].values() for a in parameters.values()]
    found: dict[str, int] = {}
    for eqn in equations_behind(density, atoms) if bad else ():
        if of_kind(eqn, COMPARES) and len(eqn.invars) == 2:
            one, other = (plain_source(density, a) for a in eqn.invars)
            if one is not other:
                found |= dict([bad[v] for v in (one, other) if v in bad])
    for name, count in found.items():
        yield (
            f"{name} holds {count} NaN, and is compared with something: what is missing counts as no there. "
            "Leave those rows out, or give it a distribution of its own"
        )


def _undefined(density: Density, name: str, atom: Any) -> bool:
    """Whether a parameter is NaN, where no mask takes it out, at plain values of the latents."""
    latents = {n: density.sites[n].plain() for n in density.latents}
    wrong = np.isnan(np.asarray(density.evaluator(latents).full(atom)))
    kept = kept_elements(density, name)
    return bool((wrong if kept is None else wrong & fitted(kept, wrong.shape)).any())


def scaling_notes(density: Density) -> tuple[str, ...]:
    """What of the covariates makes sampling slow, a sentence each: columns of very different spread, and
    values far from zero."""
    notes = []
    for name, (value, middle, spread) in columns(density).items():
        varied = spread > 0
        if (
            value.ndim == 2
            and varied.sum() > 1
            and (r := spread[varied].max() / spread[varied].min()) >= _APART
        ):
            notes.append(
                f"the columns of {name!r} differ {r:,.0f}-fold in their spread: divided by its standard "
                f"deviation each gets a coefficient like the others', and sampling is faster"
                f"{_done(name, ', scaled=True')}"
            )
        elif (r := _spreads_from_zero(middle, spread)) >= _FAR:
            cure = "less its mean it leaves intercept and slope nearly uncorrelated, and sampling is faster"
            if r >= _TOO_FAR and value.dtype == np.float32:
                cure = (
                    f"single precision has seven figures, which a level and a slope that make up for each "
                    f"other use up; hand over {_centred(name)}"
                )
            notes.append(
                f"{name!r} lies far from zero ({r:.0f} times its standard deviation): {cure}{_done(name)}"
            )
    return tuple(notes)


def intercept_notes(density: Density) -> tuple[str, ...]:
    """A sentence for each predictor that has one level for all rows twice: two scalar sites that are added,
    or one beside a column of a matrix that is the same in all rows. The data tell nothing but their sum."""
    notes = []
    sites = {v: n for n, v in density.latent_vars.items()}
    arrays = dict(zip(density.data_vars, density.arguments.arrays, strict=True))
    for name, parameters in density.outputs["parameters"].items():
        if name not in density.outputs["observed"]:
            continue
        for atom in (a for n, a in parameters.items() if n.rpartition("/")[2] in _PREDICTS):
            levels = list(_levels(density, atom, sites, arrays))
            if len(found := list(dict.fromkeys(levels))) > 1:
                site = density.sites[name]
                notes.append(
                    f"{name!r}{at_line(site)} has {len(found)} levels that are the same for all rows, "
                    f"{listed(found)}: the data tell their sum alone, and each of "
                    f"them is as uncertain as its prior; leave one out"
                )
    return tuple(notes)


def _levels(density: Density, atom: Any, sites: Any, arrays: Any) -> Iterator[str]:
    """What an atom adds to all its elements alike, by its name: scalar sites, columns of ones.
    An indicator is none: the data tell more of it than a sum."""
    waiting = [atom]
    while waiting:
        at = moved_from(density.producer, waiting.pop(0), *_MOVES)
        if isinstance(at, Literal):
            continue
        eqn = density.producer.get(at)
        if at in sites and density.sites[sites[at]].shape == () and not density.sites[sites[at]].discrete:
            yield repr(sites[at])
        elif eqn is not None and of_kind(eqn, ADDS, SUBTRACTS):
            waiting += eqn.invars
        elif eqn is not None and is_product(eqn):
            for data, latent in (eqn.invars, eqn.invars[::-1]):
                column = plain_source(density, data)
                if not density.maps.latents(latent) or column not in arrays:
                    continue
                value = np.asarray(arrays[column])
                if value.ndim == 2 and len(value) > 1 and eqn.outvars[0].aval.ndim == 1:
                    same = (value == value[:1]).all(axis=0) & (value[0] != 0)
                    yield from (f"`{density.data_names[column]}[:, {j}]`" for j in np.flatnonzero(same))


def columns(density: Density) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The covariates by argument's name, that a latent is multiplied with: values `[row]` or `[row, column]`,
    means and standard deviations `[1 or column]`, in double precision. Those of fewer than 8 rows tell
    nothing."""
    arrays = dict(zip(density.data_vars, density.arguments.arrays, strict=True))
    found: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    for v in multiplied(density):
        value = np.asarray(arrays[v]) if v in arrays else None
        if value is None or value.dtype.kind not in "fiu" or value.ndim not in (1, 2) or len(value) < 8:
            continue
        with np.errstate(all="ignore"):
            middle, spread = (np.atleast_1d(f(value, 0, dtype=float)) for f in (np.mean, np.std))
        found[density.data_names[v]] = value, middle, spread
    return found


def far_from_zero(density: Density) -> tuple[str, ...]:
    """The covariates that lie far from zero beside their spread."""
    found = columns(density).items()
    return tuple(n for n, (_, m, s) in found if _spreads_from_zero(m, s) >= _FAR)


def _spreads_from_zero(middle: np.ndarray, spread: np.ndarray) -> float:
    varied = spread > 0
    return float((np.abs(middle[varied]) / spread[varied]).max()) if varied.any() else 0.0


def _done(name: str, how: str = "") -> str:
    return f'; `.centred("{name}"{how})` does so'


def figure_notes(density: Density) -> tuple[str, ...]:
    """Which arguments lose figures on the way into single precision, a sentence each with the cure: of those
    that are observed, or that the middle of a distribution is computed from. Of scales and weights it counts
    how large they are, not by how little they differ."""
    notes = []
    atoms = [*density.outputs["observed"].values(), *_middles(density)]
    behind = set(sources(density, atoms))
    found = zip(
        density.arguments.names,
        density.data_vars,
        density.arguments.given,
        density.arguments.arrays,
        strict=True,
    )
    for name, variable, given, array in found:
        if array.dtype != np.float32 or getattr(given, "dtype", None) != np.float64 or array.ndim > 2:
            continue
        if variable not in behind:
            continue
        wide, held = np.asarray(given), np.asarray(array).astype(np.float64)
        known = np.isfinite(wide).all(0) & (wide.shape[0] > 1) if wide.ndim else np.bool_(False)
        if not known.any():
            continue
        with np.errstate(all="ignore"):
            spread, lost = wide.std(0), np.sqrt(np.mean((wide - held) ** 2, axis=0))
            differs = spread > _ROUNDING * np.abs(wide).max(0)
        if (known & differs & (lost > _LOST * spread)).any():
            notes.append(
                f"{name!r} loses its figures in single precision, which has seven of them: its values differ "
                f"by less than a millionth of what they are; hand over {_centred(name)}"
            )
    return tuple(notes)


def _centred(name: str) -> str:
    return (
        f"`{name} - {name}.mean(0)`, computed in double precision"
        if name.isidentifier()
        else "it less its mean"
    )


def _middles(density: Density) -> list[Any]:
    return [
        a
        for parameters in density.outputs["parameters"].values()
        for n, a in parameters.items()
        if n.rpartition("/")[2] in _PREDICTS
    ]


def multiplied(density: Density) -> Iterator[Any]:
    """The data variables that a latent is multiplied with on the way to the middle of a distribution."""
    for eqn in equations_behind(density, _middles(density)):
        if not is_product(eqn):
            continue
        for atom, other in (eqn.invars, eqn.invars[::-1]):
            if not density.maps.latents(other):
                continue
            if (source := plain_source(density, atom)) is not None:
                yield source


def plain_source(density: Density, atom: Any) -> Any:
    """The input of the jaxpr that an atom is, but for its shape and type; None where it is computed."""
    source = moved_from(density.producer, atom, *_MOVES)
    return None if isinstance(source, Literal) or source in density.producer else source


def check_categories(density: Density, labels: Mapping[str, Sequence[str]]) -> None:
    """Refuse codes of categories as the data of a distribution of amounts or counts; raises `DataError`."""
    for site, atom in density.outputs["observed"].items():
        name = density.data_names.get(plain_source(density, atom), "")
        one = density.sites[site]
        if name in labels and not _of_codes(one, len(labels[name])):
            first = ", ".join(map(repr, labels[name][:3]))
            raise DataError(
                f"the data of {site!r}{at_line(one)} are categories ({first}, …), of which the "
                f"model gets the codes 0, 1, …, and {one.fn_name} is a distribution of "
                f"{'counts' if one.discrete else 'amounts'}; if these are numbers that were read as texts, "
                f"or made categories, convert them, as with `pd.to_numeric({name})`"
            ).at(one.line, "no-numbers", site)
        if name in labels and len(labels[name]) == 1 and "Categorical" not in one.fn_name:
            raise DataError(
                f"the data of {site!r}{at_line(one)} are all {labels[name][0]!r}, of which the model gets "
                f"the code 0: whether that is no or yes nobody has said; write `1 * ({name} == "
                f"{labels[name][0]!r})`, or give the column both categories"
            ).at(one.line, "no-numbers", site)


def _of_codes(site: Site, count: int) -> bool:
    """Whether so many codes may be the data of a site: it is one of categories, or of no and yes."""
    support = base_constraint(site.support)
    yes_or_no = count <= 2 and getattr(support, "upper_bound", None) is not None  # trials of one each
    named = any(word in site.fn_name for word in ("Categorical", "Ordered", "Bernoulli"))
    return site.discrete and (named or yes_or_no or support is constraints.boolean)


def check_order(density: Density, labels: Mapping[str, Sequence[str]], alphabetical: Collection[str]) -> None:
    """Refuse an ordinal outcome whose order is the alphabet's alone; raises `DataError`."""
    for site, atom in density.outputs["observed"].items():
        name, one = density.data_names.get(plain_source(density, atom), ""), density.sites[site]
        texts = labels.get(name, ())
        if "Ordered" not in one.fn_name or name not in alphabetical or len(texts) < 3:
            continue
        if _all_numbers(texts) and [*texts] == sorted(texts, key=float):
            continue
        raise DataError(
            f"{one.fn_name} of {site!r}{at_line(one)} takes the categories of {name} in an order that nobody "
            f"gave, that of the alphabet: {' < '.join(map(repr, texts[:4]))}{' < …' * (len(texts) > 4)}; "
            f"`pd.Categorical({name}, [{texts[1]!r}, …], ordered=True)` gives them one"
        ).at(one.line, "no-numbers", site)


def unit_notes(density: Density, units: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each argument of times that the model reads."""
    return tuple(
        f"{n} holds times: the model gets {unit}" for n, unit in units.items() if n in density.read_names
    )


def code_notes(
    density: Density, labels: Mapping[str, Sequence[str]], alphabetical: Collection[str]
) -> Iterator[str]:
    """A sentence for each argument of more than two categories whose codes parameters are computed with;
    raises `DataError` where nobody gave the categories an order, so that the codes are no amounts."""
    arguments = zip(density.arguments.names, density.arguments.arrays, strict=True)
    known: dict[Any, tuple[str, Any]] = dict(zip(density.data_vars, arguments, strict=True))
    coded = {v: n for v, (n, _) in known.items() if len(labels.get(n, ())) > 2}
    for variable in amounts(density, coded):
        name = known[variable][0]
        texts = labels[name]
        numbers = f"; as the numbers that they are, `{made}`" if (made := _numbers(name, texts)) else ""
        some = f"{', '.join(map(repr, texts[:3]))}{', …' * (len(texts) > 3)}"
        told = (
            f"{name} holds {len(texts)} categories ({some}), and the model computes with their codes 0, 1, "
            f"2, …: to give each category an effect of its own, pick it, `a[{name}]`{numbers}"
        )
        if name in alphabetical:
            raise DataError(
                f"{told}; with an order and equal steps, `pd.Categorical({name}, [{texts[1]!r}, …], "
                f"ordered=True)`"
            ).at(None, "no-numbers", name)
        yield told


def binary_notes(density: Density, labels: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A sentence for each argument of two texts whose codes, 0 and 1, parameters are computed with."""
    names = dict(zip(density.data_vars, density.arguments.names, strict=True))
    coded = {v: n for v, n in names.items() if len(labels.get(n, ())) == 2 and not _all_numbers(labels[n])}
    for variable in amounts(density, coded):
        no, yes = labels[names[variable]]
        yield f"the model computes with {names[variable]}: 0 is {no!r}, 1 is {yes!r}"


def _numbers(name: str, texts: Sequence[str]) -> str:
    """How texts become the numbers that they are; "" where they are none."""
    if _all_numbers(texts):
        return f"pd.to_numeric({name})"
    point = [t.replace(",", ".") for t in texts]
    return f"pd.to_numeric({name}.str.replace(',', '.'))" if _all_numbers(point) else ""


def _all_numbers(texts: Sequence[str]) -> bool:
    try:
        return bool(np.isfinite([float(t) for t in texts]).all())
    except ValueError:
        return False


def amounts(density: Density, coded: Mapping[Any, str]) -> list[Any]:
    """Which of the inputs in `coded`, whole numbers, parameters of distributions are computed with as numbers
    that mean an amount: they become decimal on the way, or are a parameter. As indices, and as what is
    compared, they do not."""
    atoms = [a for parameters in density.outputs["parameters"].values() for a in parameters.values()]
    behind = {id(eqn) for eqn in equations_behind(density, atoms)}
    holds: dict[Any, Any] = {v: v for v in coded}
    found = {holds[a]: None for a in atoms if not isinstance(a, Literal) and a in holds}
    for eqn in density.closed.jaxpr.eqns:
        read = eqn.invars[:1] if of_kind(eqn, PICKS) else eqn.invars
        whose = [holds[v] for v in read if not isinstance(v, Literal) and v in holds]
        if id(eqn) not in behind or not whose:
            continue
        whole = all(jnp.issubdtype(v.aval.dtype, jnp.integer) for v in eqn.outvars)
        if of_kind(eqn, CONVERTS) and jnp.issubdtype(eqn.outvars[0].aval.dtype, jnp.inexact):
            found |= dict.fromkeys(whose)
        elif whole and of_kind(eqn, _KEEPS_AMOUNTS):
            holds |= dict.fromkeys(eqn.outvars, whose[0])
            found |= {whose[0]: None} if any(v in atoms for v in eqn.outvars) else {}
    return list(found)
