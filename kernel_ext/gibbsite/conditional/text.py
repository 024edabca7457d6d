"""A conditional as a line: `p(z[n] | w, mu, x) ∝ Categorical(z[n] | w) · Normal(x[n] | mu[z[n]], 1)`."""

from collections.abc import Sequence
from typing import Any

from gibbsite.density import Density
from gibbsite.printing.elements.indices import Sym
from gibbsite.printing.statements.notation import GIVEN, PROPORTIONAL, TIMES, product, subscript
from gibbsite.printing.statements.statement import Statement, element_index, factor_text


def _own_letters(density: Density, origin: str, taken: Sequence[str]) -> tuple[str, ...]:
    return element_index(density, origin, [i for i in taken if not i.isdigit()])


def _reads(statement: Statement, name: str) -> set[Any]:
    """The indices at which a statement reads the elements of a site, its own value apart."""
    statement.factor()
    return statement.printer.reads.get(name, set())


def _coupled(density: Density, name: str, origins: Sequence[str]) -> bool:
    """Whether some factor reads several elements of the site at once, so that one stands for no other."""
    if not any(n != 1 for n in density.sites[name].shape[: density.sites[name].element_rank]):
        return False
    for origin in origins:
        if origin in density.sites:
            found = _reads(Statement(density, origin, through=name), name)
            several = len(found) > 1 or (origin == name and found)
            if several or any(index is None or not _single(index, density, name) for index in found):
                return True
        else:
            accesses = density.maps[density.outputs["log_prob"][origin]].get(name, ())
            if len(accesses) > 1 or not all(a.single for a in accesses):
                return True
    return False


def _single(index: tuple[Any, ...], density: Density, name: str) -> bool:
    rank = density.sites[name].element_rank
    return all(isinstance(i, int) or (isinstance(i, Sym) and not i.tags) for i in index[:rank])


def _shared(density: Density, origin: str, name: str, index: tuple[str, ...]) -> tuple[str, ...]:
    """Index letters of a factor beside those of the site `name`: the same along axes that run together."""
    own = _own_letters(density, origin, index)
    if origin == name:
        return index
    statement = Statement(density, origin, index=own, through=name)
    shared: dict[str, str] = {}
    for found in _reads(statement, name):
        for place, mine in zip(found or (), index, strict=False):
            for a, i in enumerate(statement.index):
                if isinstance(i, Sym) and place == i and not mine.isdigit():
                    shared.setdefault(own[a], mine)
    return tuple(shared.get(i, i) for i in own)


def conditional_text(density: Density, name: str, origins: Sequence[str], given: Sequence[str]) -> str:
    """`p(site | blanket) ∝ product of the factors that touch it`.

    The left side is one element, `p(z[n] | …)`, where every factor reads one element at a time; else it is
    the whole site, and the right side all of its factors.
    """
    coupled = _coupled(density, name, origins)
    index = () if coupled else element_index(density, name)
    left = subscript(name, index)
    parts = []
    for origin in origins:
        if origin not in density.sites:
            parts.append(factor_text(density, origin))
            continue
        letters = element_index(density, origin) if coupled else _shared(density, origin, name, index)
        extra = [i for i in dict.fromkeys(letters) if i not in index and not i.isdigit()]
        text = Statement(density, origin, letters, through=name).factor()
        parts.append(product(extra) + text)
    names = ", ".join(given)
    head = f"p({left}{GIVEN}{names})" if given else f"p({left})"
    return head + PROPORTIONAL + TIMES.join(parts)
