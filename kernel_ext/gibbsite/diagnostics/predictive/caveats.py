"""What a likelihood of single data, or a prediction, leaves out or is given, in words."""

from collections.abc import Collection, Sequence
from typing import Any

from gibbsite.density.known_elements import sources


def given_text(elpd: Any) -> str:
    """What an `elpd_of` is given that it should not be: "its labels (z), b"; empty where there is nothing."""
    labels = getattr(elpd, "labels", ())
    rest = [n for n in getattr(elpd, "given", ()) if n not in labels]
    return ", ".join([f"its labels ({', '.join(labels)})"] * bool(labels) + rest)


def factors_text(names: Sequence[str], verb: str) -> str:
    """That what factors say of the data is not among what is `verb` (drawn, counted)."""
    several = len(names) > 1
    they = "they speak" if several else "it speaks"
    return (
        f"factor{'s' * several} {', '.join(names)}: where {they} of data, that is not {verb} (a factor has "
        "no distribution)"
    )


def as_one_text(name: str, count: int) -> str:
    """That an observed site is one datum of so many numbers, and what would make data of them."""
    return (
        f"{name} is one datum, a vector of {count} numbers, which are not left out one by one. For that, "
        f"write the vector as a latent f, and the numbers of {name} as data around it: "
        f"`with plate('n', {count}): {name} ~ Normal(f, s)`"
    )


def as_one(density: Any, names: Collection[str]) -> dict[str, int]:
    """Which observed sites are one vector of real numbers, outside of any plate, and of how many."""
    sites = {n: density.sites[n] for n in names if n in density.sites}
    return {
        n: s.shape[0] for n, s in sites.items()
        if not s.element_rank and len(s.shape) == 1 and s.shape[0] > 1 and not s.discrete
    }  # fmt: skip


def factors_beside(density: Any, data: Collection[str]) -> tuple[str, ...]:
    """The `numpyro.factor` statements of a density that read latents from which data are drawn, or data of
    their own; one that is the prior of a latent without one of its own is left out, and what holds a
    structure."""
    read: dict[str, set[str]] = {}
    own: set[str] = set()
    for term in density.terms:
        if term.origin in data or term.origin in density.factor_names:
            read.setdefault(term.origin, set()).update(density.maps.latents(term.atom))
        if term.origin in density.factor_names and read[term.origin]:
            behind = sources(density, [term.atom])
            own |= {term.origin for v in density.data_vars if v in behind and v.aval.shape}
    of_data = set().union(*(sites for name, sites in read.items() if name in data))
    improper = {n for n in density.latents if density.sites[n].fn_name == "ImproperUniform"}
    others = (n for n in density.factor_names if n not in density.decisions)
    found = (n for n in others if n in own or read.get(n, set()) & of_data)
    return tuple(n for n in found if not read[n] & improper)
