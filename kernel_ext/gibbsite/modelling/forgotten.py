"""Data that a model was given and does not use: `obs=` forgotten, above all."""

import dis
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from gibbsite.density.density import Density
from gibbsite.errors import DataError


def unused(name: str, fn: Callable[..., Any]) -> list[str]:
    """A line for each argument of the function of the model `name` that nothing in it reads."""
    found = []
    for a in _unused(fn):
        other = _nearly(fn, a)
        hint = f"; did you mean {a!r} where {other!r} is sampled?" if other else ""
        found.append(f"nothing in {name} reads its argument {a!r}{hint}")
    return found


def check_forgotten(
    fn: Callable[..., Any], name: str, density: Density, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Raise `DataError` for data that were given and are not observed: an argument, whose values nothing
    reads, of the name of a latent site; and of a model that observes nothing, a column of that name, and any
    argument that nothing reads at all.

    What is asked for its length alone is read as far as the rest goes: an argument of another name than any
    site's may be there for that. Of a model that observes something, arguments that nothing reads are notes.
    """
    latent = {n for n, s in density.sites.items() if s.role == "latent"}
    latent |= {g for g, members in density.groups.items() if members[0] in latent}
    given = _given(fn, args, kwargs)
    never = [a for a in _unused(fn) if given.get(a) is not None]
    values = [n for n in _unread(density) if n in latent] + [a for a in never if a in latent]
    for a in values:
        line = density.sites[density.groups.get(a, (a,))[0]].line
        raise DataError(
            f"{name!r} was given {a!r}, and nothing reads its values: the site {a!r} is latent, and would be "
            f"drawn from its prior. Observe it: `numpyro.sample({a!r}, …, obs={a})`, or in a cell `{a} ~ …`; "
            f"if it is to be drawn, give None, or the argument another name"
        ).at(line, "forgotten-data", a)
    if density.factor_names or any(s.role == "observed" for s in density.sites.values()):
        return
    for column in _unread(density):
        table, _, rest = column.partition("[")
        site = rest.removesuffix("]").strip("'\"")
        if rest and site in latent:
            raise DataError(
                f"{name!r} observes nothing, and {table!r} has a column {site!r}: to condition on it, write "
                f"`{table}.{site} ~ …`, or `numpyro.sample({site!r}, …, obs={table}.{site})`"
            ).at(density.sites[site].line, "forgotten-data", site)
    for a in never:
        if not hasattr(given[a], "shape") and not isinstance(given[a], list | dict):
            continue  # a setting
        other = _nearly(fn, a)
        site = other if other is not None and other in density.sites else density.latents[-1]
        raise DataError(
            f"{name!r} observes nothing, and nothing in it reads its argument {a!r}: its draws would be "
            f"those of the prior. Observe it, as in `numpyro.sample({site!r}, …, obs={a})`"
            f"{f'; did you mean {a!r} where {other!r} is sampled?' if other else ''}"
            f"; for draws of the prior, leave {a!r} out"
        ).at(density.sites[site].line, "forgotten-data", site)


def _given(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(inspect.signature(fn).bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return dict(kwargs)


def _unread(density: Density) -> list[str]:
    """The array arguments whose values enter nothing that the model computes."""
    return [n for n in density.arguments.names if n not in density.read_names]


def _unused(fn: Callable[..., Any]) -> list[str]:
    """The parameters of a function that its code never loads; none where it has none of its own."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return []
    # of constants the value is loaded, which may be a text of an argument's name
    loads = [i.argval for i in dis.get_instructions(code) if "LOAD_" in i.opname and "CONST" not in i.opname]
    # from Python 3.13 on, one instruction may load two
    read = {name for found in loads for name in (found if isinstance(found, tuple) else (found,))}
    read |= {*code.co_cellvars}
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [a for a in arguments if a not in read]


def _nearly(fn: Callable[..., Any], argument: str) -> str | None:
    """A text in the function that is the argument's name but for capitals."""
    written = {c for c in fn.__code__.co_consts if isinstance(c, str)}
    return next((w for w in sorted(written) if w != argument and w.lower() == argument.lower()), None)
