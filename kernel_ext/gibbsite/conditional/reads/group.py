"""Which sites are updated together because a group of them is one array site in the re-rolled density."""

from collections.abc import Iterable, Mapping

from gibbsite.density import Density, rerolled


def _groups(density: Density) -> Mapping[str, tuple[str, ...]]:
    """The groups that re-rolling makes of the sites; a density that is re-rolled already has none."""
    grouped = rerolled(density)
    return {} if grouped is density else grouped.members


def updated_together(density: Density, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """`names` as units of update: complete groups of discrete sites by the group's name, others by their own.

    Maps each unit to the names it stands for, in the order of `names`.
    """
    names = tuple(names)
    owner: dict[str, str] = {}
    for group, members in _groups(density).items():
        if density.sites[members[0]].discrete and set(members) <= set(names):
            owner.update(dict.fromkeys(members, group))
    out: dict[str, tuple[str, ...]] = {}
    for name in names:
        group = owner.get(name, name)
        out[group] = rerolled(density).members[group] if name in owner else (name,)
    return out


def unit_of(density: Density, name: str) -> str:
    """The group whose conditional serves a discrete site `name` as well, or `name` itself."""
    if name in density.sites and density.sites[name].discrete:
        for group, members in _groups(density).items():
            if name in members:
                return group
    return name
