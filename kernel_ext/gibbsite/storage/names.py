"""Names of dimensions and statistics, as ArviZ and xarray want them."""

import hashlib
import re
import urllib.parse
from collections.abc import Mapping, Sequence

import numpy as np

from gibbsite.density.model.names import variable_name
from gibbsite.errors import OptionError
from gibbsite.ground.arguments import shown
from gibbsite.plans.schedule.plan import Plan


def dims_of(
    plan: Plan, name: str, shape: tuple[int, ...], given: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Dimension names of a site: those given, else plates where it has them, else `<site>_dim_<i>`. Raises
    `OptionError` where more are given than it has axes.

    The first axis of a group counts its members; a plate that was used twice in one site is numbered.
    """
    site, shift = plan.sites.get(name) or plan.observed_sites.get(name), 0
    if site is None and name in plan.groups:
        site, shift = plan.sites.get(plan.groups[name][0]), 1
    axes = {} if site is None else dict(zip(site.plate_axes, site.plates, strict=True))
    own = [axes.get(a - shift, f"{name}_dim_{a}") for a in range(len(shape))]
    told = _listed(name, given[name]) if given and name in given else []
    if len(told) > len(shape):
        raise OptionError(f"dims: {name!r} has {len(shape)} axes of its own, and {len(told)} names are given")
    dims = [variable_name(d) for d in [*told, *own[len(told) :]]]
    dims = [f"{d}_" if d in ("chain", "draw") else d for d in dims]  # those count chains and draws
    return [d if dims.index(d) == a else f"{d}_{a}" for a, d in enumerate(dims)]


def _listed(name: str, dims: object) -> list[str]:
    if not isinstance(dims, list | tuple) or not all(isinstance(d, str) and d for d in dims):
        raise OptionError(f"dims: the axes of {name!r} are a list of names, as in ['row'], not {shown(dims)}")
    return list(dims)


def axis_labels(plan: Plan, name: str, shape: tuple[int, ...]) -> list[tuple[str, ...] | None]:
    """Per axis of a site the labels of its elements, where its plate has some."""
    found = [plan.labels.get(d) for d in dims_of(plan, name, shape)]
    return [k if k is not None and len(k) == n else None for k, n in zip(found, shape, strict=True)]


def element_names(plan: Plan, name: str, shape: tuple[int, ...]) -> list[str]:
    """What people call the elements of a site, in order: by labels where there are some (`Choate`,
    `Choate, 0`), else `theta[3]`."""
    labels = axis_labels(plan, name, shape)
    if not any(labels):
        return [f"{name}[{', '.join(map(str, i))}]" for i in np.ndindex(shape)]
    return [element_name(i, labels) for i in np.ndindex(shape)]


def scalar_name(name: str, index: Sequence[int], labels: Sequence[Sequence[str] | None]) -> str:
    """What people call one scalar of a site: `alpha[Choate]`, `alpha[Choate, 0]`, `theta[3]`, `mu`."""
    return f"{name}[{element_name(index, labels)}]" if len(index) else name


def element_name(index: Sequence[int], labels: Sequence[Sequence[str] | None]) -> str:
    """What people call one element: `Choate, 0`, of the labels along each axis."""
    return ", ".join(str(k) if known is None else known[k] for k, known in zip(index, labels, strict=True))


def stat_names(plan: Plan, keys: Sequence[str]) -> dict[str, str]:
    """Names of statistics `"<block>.<name>"`: of the first block that has one ArviZ's own, of the others
    with the block's label before it."""
    out: dict[str, str] = {}
    for key in keys:
        block, name = key.split(".", 1)
        label = plan.blocks[int(block)].label.replace("/", " ")
        out[key] = f"{label}_{name}" if name in out.values() else name
        if list(out.values()).count(out[key]) > 1:
            out[key] = f"{block}_{out[key]}"
    return out


_PLAIN = re.compile(r"[\w\[\], +()-][\w\[\], +().-]{0,120}")


def file_name(name: str) -> str:
    """What a site is called in a store: its own name where that can be a file's, else with other characters
    percent-encoded, and cut, with a hash, where it is long."""
    if _PLAIN.fullmatch(name) and name not in ("c", "zarr.json") and not name.endswith(" "):
        return name
    quoted = urllib.parse.quote(name, safe="").replace(".", "%2E")
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{quoted[:80]}~{digest}"
