"""Which marginal a density without some of its sites is."""

from collections.abc import Callable, Sequence

from gibbsite.conditional.reads.support import endless
from gibbsite.density import Density
from gibbsite.elimination.integral import IntegralMarginal
from gibbsite.elimination.marginal import Marginal
from gibbsite.elimination.series import SeriesMarginal
from gibbsite.elimination.tabled import TableMarginal
from gibbsite.errors import ModelError
from gibbsite.ground.once import once

MOST_OPERATIONS = 64
"""Operations of a joint draw that nobody asked for."""


@once
def marginal_of(density: Density, sites: Sequence[str], order: Sequence[str] | None = None) -> Marginal:
    """The marginal of a density without `sites`: discrete ones are summed out, continuous ones integrated
    out.

    Raises `UnknownNameError`, and `ModelError` for sites that cannot be eliminated or take too large a table.
    """
    kind = _kind(density, sites)
    return kind(density if kind is IntegralMarginal else density.in_deviances, sites, order)


def _kind(density: Density, sites: Sequence[str]) -> Callable[..., Marginal]:
    if any(_continuous(density, s) for s in sites):
        return IntegralMarginal
    members = [n for s in sites for n in density.groups.get(s, (s,)) if n in density.sites]
    no_end = bool(members) and all(density.sites[n].latent and endless(density, n) for n in members)
    return SeriesMarginal if no_end else TableMarginal


def _continuous(density: Density, name: str) -> bool:
    members = [n for n in density.groups.get(name, (name,)) if n in density.sites]
    return any(density.sites[n].latent and not density.sites[n].discrete for n in members)


def joint_marginal(density: Density, sites: Sequence[str], insist: bool = True) -> TableMarginal | str:
    """The marginal that draws discrete sites jointly, or in words why there is none.

    Unless one insists, one that takes many operations to compile counts as none.
    """
    try:
        found = marginal_of(density, sites)
    except ModelError as problem:
        return str(problem)
    if not isinstance(found, TableMarginal):
        return f"{' and '.join(sites)} are not all discrete"
    operations = found.plan.operations
    if operations > MOST_OPERATIONS and not insist:
        return f"it takes {operations:,} operations to compile; ask for it with joint=True"
    return found
