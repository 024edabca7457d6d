"""Columns that were no numbers: what their codes and units mean, and where they are taken for amounts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gibbsite.density.density import Density
from gibbsite.errors import DataError
from gibbsite.validation.covariates import multiplied, plain_source
from gibbsite.validation.words import at_line


def check_categories(density: Density, labels: Mapping[str, Sequence[str]]) -> None:
    """Refuse codes of categories as the data of a distribution of amounts; raises `DataError`."""
    names = dict(zip(density.data_vars, density.arguments.names, strict=True))
    for site, atom in density.outputs["observed"].items():
        name = names.get(plain_source(density, atom))
        if name is not None and name in labels and not density.sites[site].discrete:
            one = density.sites[site]
            first = ", ".join(map(repr, labels[name][:3]))
            raise DataError(
                f"the data of {site!r}{at_line(one)} are categories ({first}, …), of which the "
                f"model gets the "
                f"codes 0, 1, …, and {one.fn_name} is a distribution of amounts; if these are numbers that "
                f"were read as texts, convert them, as with `pd.to_numeric({name})`"
            ).at(one.line, "no-numbers", site)


def unit_notes(density: Density, units: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each argument of times that the model reads."""
    read = {n for n, v in zip(density.arguments.names, density.data_vars, strict=True) if v in density.read}
    return tuple(f"{n} holds times: the model gets {unit}" for n, unit in units.items() if n in read)


def code_notes(density: Density, labels: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A sentence for each argument of more than two categories whose codes are multiplied with a latent;
    raises `DataError` where most rows have a text of their own, as numbers have that were read as texts."""
    arguments = zip(density.arguments.names, density.arguments.arrays, strict=True)
    known: dict[Any, tuple[str, Any]] = dict(zip(density.data_vars, arguments, strict=True))
    for variable in dict.fromkeys(multiplied(density)):
        name, array = known.get(variable, ("", None))
        texts = len(labels.get(name, ()))
        if texts and 2 < len(array) < 2 * texts:
            some = ", ".join(map(repr, labels[name][:3]))
            raise DataError(
                f"{name} holds {len(labels[name])} different texts in {len(array)} rows ({some}, …), and a "
                f"latent is multiplied with their codes 0, 1, 2, …: if these are numbers that were read as "
                f"texts (a decimal comma?), convert them, as with `pd.to_numeric({name}.str.replace(',', "
                f"'.'))`; as categories they are picked, `a[{name}]`"
            ).at(None, "no-numbers", name)
        if len(labels.get(name, ())) > 2:
            yield (
                f"{name} holds {len(labels[name])} categories, and a latent is multiplied with "
                f"their codes 0, "
                f"1, 2, …: to give each category an effect of its own, pick it, `a[{name}]`"
            )
