"""Which named values of a model each of its statements reads: the edges of the dependency graph."""

from collections.abc import Iterable
from typing import Any

import jax

from gibbsite.density.density import Density
from gibbsite.programs.jaxpr.compat import Literal


def named_values(density: Density) -> dict[Any, str]:
    """The jaxpr variables that are values people know by name: sites, deterministics and data arguments.

    A data argument that is the observed value of a site goes by the site's name.
    """
    names: dict[Any, str] = {v: n for n, v in density.latent_vars.items()}
    for name, atom in density.outputs["deterministic"].items():
        if not isinstance(atom, Literal):
            names.setdefault(atom, name)
    for name, atom in density.outputs["observed"].items():
        if not isinstance(atom, Literal) and atom in density.data_names:
            names.setdefault(atom, name)
    for var, name in density.data_names.items():
        names.setdefault(var, name)
    return names


def reads(density: Density, atoms: Iterable[Any], names: dict[Any, str], skip: Any = None) -> list[str]:
    """The named values that `atoms` are computed from without passing through another named value.

    `skip` is a variable that does not count and is not passed through. Names come in the order of the
    jaxpr's equations, latest first reversed, so that the result is stable.
    """
    found: dict[str, None] = {}
    for atom in density.behind(*atoms, ends=lambda a: a in names or a is skip):
        if atom in names and atom is not skip:
            found[names[atom]] = None
    return list(found)


def dependencies(density: Density) -> dict[str, tuple[str, ...]]:
    """Parents by name of every site, deterministic and factor.

    A site whose parameters read its own elements (a chain in a `scan`) is among its own parents.
    """
    names = named_values(density)
    order = {n: i for i, n in enumerate([*density.arguments.names, *density.sites])}
    out: dict[str, tuple[str, ...]] = {}
    atoms = {n: v for v, n in names.items()}

    def found(roots: Iterable[Any], named: dict[Any, str], skip: Any = None) -> set[str]:
        """What is read, but for what the index maps deny: an array filled element by element holds many
        sites, of which one is read."""
        out = set()
        for root in roots:
            near = density.maps.latents(root)
            for name in reads(density, [root], named, skip):
                behind = density.maps.latents(atoms[name])
                if not behind or behind & near:
                    out.add(name)
        return out

    for name, atom in density.outputs["log_prob"].items():
        own = density.latent_vars.get(name, density.outputs["observed"].get(name))
        parents = found([atom], names, own) - {name}
        parameters = jax.tree.leaves(density.outputs["parameters"].get(name, {}))
        parents |= found(parameters, names)
        out[name] = tuple(sorted(parents, key=lambda n: order.get(n, -1)))
    for name, atom in density.outputs["deterministic"].items():
        others = {v: n for v, n in names.items() if n != name}
        parents = found([atom], others)
        out[name] = tuple(sorted(parents, key=lambda n: order.get(n, -1)))
    return out
