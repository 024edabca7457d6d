"""The density of a looped model with every group of alike sites as one array site."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from gibbsite.density.model.bounds import base_constraint
from gibbsite.density.model.sites import Site
from gibbsite.density.passes.program import Program, program_of
from gibbsite.ground.once import once
from gibbsite.ground.opaque import FAILED, attempted, notes_in
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.passes.reroll import Reroll

if TYPE_CHECKING:
    from gibbsite.density.density import Density

_MANY = 8
_NUMBERED = re.compile(r"^(.*?)_?(\d+)$")


@once
def rerolled(density: "Density") -> "Density":
    """The same log density over array sites, one per group; `density` itself where there is no group.

    Groups are the indexed sites (`s[0]`, …) and latents with numbered names (`z_0`, `z_1`, …; `z1`, `z2`, …)
    of equal shape. The members of `z_0` … go by the group name `z`, where that is free. `Density.members`
    tells which sites each array site stands for, and states given by member are packed.
    """
    groups, notes = _groups(density), notes_in(density.cache)
    found = attempted(
        "a loop as arrays",
        lambda: _rewritten(density, groups) if groups else density,
        lambda: density,
        notes,
    )
    found.cache[FAILED] = notes  # of both there is one list
    return found


def latent_groups(density: "Density") -> dict[str, tuple[str, ...]]:
    """The latents that may be one array, by the name of the array."""
    return {g: m for g, m in _groups(density).items() if density.sites[m[0]].latent}


def _groups(density: "Density") -> dict[str, tuple[str, ...]]:
    groups = {**_numbered(density), **density.groups}
    return {g: names for g, names in groups.items() if _alike(density, names)}


def _numbered(density: "Density") -> dict[str, tuple[str, ...]]:
    """Latents `z_0`, `z_1`, … (or from 1 on), by their common name, where there are several."""
    found: dict[str, dict[int, str]] = {}
    for name in density.latents:
        match = _NUMBERED.match(name)
        if match and match.group(1) and not match.group(1).endswith("]"):
            found.setdefault(match.group(1), {}).setdefault(int(match.group(2)), name)
    groups = {}
    for group, members in found.items():
        numbers = sorted(members)
        consecutive = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        taken = group in density.sites or group in density.groups
        least = 3 if density.sites[members[numbers[0]]].discrete else _MANY
        if len(members) >= least and numbers[0] in (0, 1) and consecutive and not taken:
            groups[group] = tuple(members[i] for i in numbers)
    return groups


def _alike(density: "Density", names: Sequence[str]) -> bool:
    first = density.sites[names[0]]
    facts = (first.shape, first.dtype, first.role, first.discrete, first.element_rank)
    for site in map(density.sites.__getitem__, names):
        if (site.shape, site.dtype, site.role, site.discrete, site.element_rank) != facts:
            return False
        if not site.discrete and _kind(site) != _kind(density.sites[names[0]]):
            return False
    supports = [density.enumerated.get(n) for n in names]
    lists = [s for s in supports if s is not None]
    if lists and (len(lists) < len(supports) or not all(np.array_equal(s, lists[0]) for s in lists)):
        return False
    bounded = {n in density.outputs["bounds"] for n in names}
    return len(bounded) == 1


def _kind(site: Site) -> tuple[str, type]:
    """What the values of a continuous site are drawn from, and the kind of its support."""
    return site.fn_name, type(base_constraint(site.support))


def _site(name: str, members: Sequence[Site]) -> Site:
    member, count = members[0], len(members)
    one_plate = len({(m.plates, m.plate_axes) for m in members}) == 1
    return replace(
        member,
        name=name,
        shape=(count, *member.shape),
        batch_shape=(count, *member.batch_shape),
        plates=member.plates if one_plate else (),
        plate_axes=tuple(a + 1 for a in member.plate_axes) if one_plate else (),
        element_rank=member.element_rank + 1,
        fn_name=" or ".join(dict.fromkeys(m.fn_name for m in members)),
        in_scan=True,
    )


def _rewritten(density: "Density", groups: Mapping[str, tuple[str, ...]]) -> "Density":
    owner = {n: g for g, members in groups.items() for n in members}
    sites: dict[str, Site] = {}
    for name, site in density.sites.items():
        group = owner.get(name)
        if group is None:
            sites[name] = site
        elif group not in sites:
            sites[group] = _site(group, [density.sites[n] for n in groups[group]])

    latent = latent_groups(density)
    program = replace(program_of(density), groups=latent)

    def joined(reroll: Reroll) -> dict[str, Any]:
        def ranked(group: str, whole: Any, one: Any) -> Any:
            dims = density.parameter_event_dims.get(groups[group][0], {})
            return _ranked(reroll, sites[group], dims, whole, one)

        return {
            kind: _grouped(reroll, kind, atoms, groups, owner, ranked, latent)
            for kind, atoms in density.outputs.items()
            if kind != "supports"  # the sites know them by now
        }

    first = {g: m[0] for g, m in groups.items()}
    return replace(
        density,
        deviances=None,  # it is made over the sites of the model, which are others
        sites=sites,
        groups={},
        enumerated={n: density.enumerated[o] for n in sites if (o := first.get(n, n)) in density.enumerated},
        parameter_event_dims={n: density.parameter_event_dims.get(first.get(n, n), {}) for n in sites},
        transforms={n: t for n in sites if (t := density.transforms.get(first.get(n, n)))},
        members=latent,
        cache={},
        **rolled(program, joined).analysed(sites, notes_in(density.cache)),
    )


def rolled(program: Program, outputs: Callable[[Reroll], Any] | None = None) -> Program:
    """A flat program over one array for each of its groups, itself where it has none.

    `outputs` gives other outputs than its own, made of these by the rewriting.
    """
    if not program.groups and outputs is None:
        return program
    variables = program.latent_vars
    reroll = Reroll(program.closed, {g: [variables[n] for n in m] for g, m in program.groups.items()})
    members = {n for m in program.groups.values() for n in m}
    names = sorted([*program.groups, *(n for n in program.latents if n not in members)])
    inputs = {n: reroll.inputs[n if n in program.groups else variables[n]] for n in names}
    found = (
        program.arranged(map(reroll.read, program.closed.jaxpr.outvars))
        if outputs is None
        else outputs(reroll)
    )
    atoms, tree = jax.tree.flatten(found)
    data = [reroll.inputs[v] for v in program.data_vars]
    closed = reroll.builder.finished([*inputs.values(), *data], atoms)
    return Program(closed, {n: tuple(v.aval.shape) for n, v in inputs.items()}, tree)


def _grouped(
    reroll: Reroll,
    kind: str,
    atoms: Mapping[str, Any],
    groups: Mapping[str, tuple[str, ...]],
    owner: Mapping[str, str],
    ranked: Callable[[str, Any, Any], Any],
    latent: Collection[str],
) -> dict[str, Any]:
    """Outputs by group: those of the members along a new first axis. The order along it is free for log
    probabilities of latents, which are summed; the others keep the members' order."""
    out: dict[str, Any] = {}
    for name, atom in atoms.items():
        group = owner.get(name)
        if group is None:
            out[name] = jax.tree.map(reroll.read, atom)
        elif group not in out:
            members = [atoms[n] for n in groups[group] if n in atoms]
            if kind in ("log_prob", "inside"):
                kept = None if group in latent else reroll.joined(members, ordered=True)
                out[group] = reroll.joined(members, ordered=False) if kept is None else kept
            else:
                leaves = [jax.tree.flatten(m) for m in members]
                if len({(len(ls), tree) for ls, tree in leaves}) > 1:
                    continue  # members whose distributions differ have no parameters in common
                columns = [list(c) for c in zip(*[ls for ls, _ in leaves], strict=True)]
                shared = kind in ("parameters", "weights")
                stacked = [
                    reroll.read(c[0]) if shared and reroll.same(c) else reroll.joined(c, ordered=True)
                    for c in columns
                ]
                if all(s is not None for s in stacked):
                    whole = jax.tree.unflatten(leaves[0][1], stacked)
                    one = jax.tree.unflatten(leaves[0][1], [c[0] for c in columns])
                    out[group] = ranked(group, whole, one) if kind == "parameters" else whole
    return out


def _ranked(
    reroll: Reroll,
    group: Site,
    event_dims: Mapping[str, int],
    whole: Mapping[str, Any],
    one: Mapping[str, Any],
) -> dict[str, Any]:
    """Joined parameters with axes of size 1 where those of a member had none, so that the members' axis is
    broadcast against the site's first."""
    out = dict(whole)
    for name, atom in whole.items():
        rank, joined = (
            np.ndim(one[name].val) if isinstance(one[name], Literal) else one[name].aval.ndim,
            atom.aval,
        )
        missing = group.element_rank - 1 - (rank - min(event_dims.get(name, 0), rank))
        if joined.ndim == rank + 1 and missing > 0:
            shape = (joined.shape[0], *(1,) * missing, *joined.shape[1:])
            out[name] = reroll.reshaped(atom, shape)
    return out
