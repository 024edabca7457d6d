"""Names of sites and plates that nothing downstream can hold: refused when the model is traced. Of labels,
which are data, what cannot be printed is spelt out."""

import re
from collections.abc import Iterable

from gibbsite.errors import ModelError
from gibbsite.ground.arguments import shown

_MOST = 200
_SCOPED = re.compile(r"[\w.$ \[\],()-]*\w[\w.$ \[\],()-]*(?:/[\w.$ \[\],()-]*\w[\w.$ \[\],()-]*)*")

_TRACED = re.compile(r"\b\w*Tracer\b")


def printed(text: str, keep: str = "") -> str:
    """The text, with what cannot be printed (control characters, marks that turn the direction of writing)
    spelt out as in Python; all in `keep` stays."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape", "surrogatepass").decode()
        for c in text
    )


def checked_name(name: str, what: str) -> str:
    """The name, where it can be a file's, a variable's and a heading. Raises `ModelError` with the way
    out."""
    if not isinstance(name, str):
        raise ModelError(f"a {what} is called {shown(name)}: a name is a text")
    why = None
    if not name.strip():
        why = "an empty name names nothing"
    elif name != name.strip():
        why = "it begins or ends with a space"
    elif _TRACED.search(name):
        why = "a draw's value is written into it, which is not known yet: write `{int(z)}` for `{z}`"
    elif any(not c.isprintable() for c in name):
        why = "it holds a line break, a tab or another character that cannot be printed"
    elif not name.strip("./\\"):
        why = "it is nothing but dots and slashes"
    elif "/" in name and not _SCOPED.fullmatch(name):
        why = "a slash separates scopes, as in 'arm/mu', and nothing else"
    elif len(name) > _MOST:
        why = f"it has {len(name)} characters; {_MOST} are enough"
    if why is None:
        return name
    raise ModelError(f"the {what} {name[:60]!r} cannot be called so: {why}. Give it another name")


def variable_name(name: str) -> str:
    """What a site or plate is called among xarray's variables, where a slash would separate groups: `arm.mu`
    for the `arm/mu` that NumPyro's `scope` makes."""
    return name.replace("/", ".")


def spelt_notes(names: Iterable[str]) -> tuple[str, ...]:
    """A sentence on names that are others among a run's variables."""
    other = [f"{n!r} is {variable_name(n)!r}" for n in names if variable_name(n) != n]
    if not other:
        return ()
    more = f", and so for {len(other) - 1} more" if len(other) > 1 else ""
    return (f"in a run's DataTree, where no name has a slash, {other[0]}{more}",)


def check_apart(names: Iterable[str]) -> None:
    """Raise `ModelError` where two sites or plates would be one variable of a run's tree."""
    spelt: dict[str, str] = {}
    for name in names:
        other = spelt.setdefault(variable_name(name), name)
        if other != name:
            raise ModelError(
                f"{other!r} and {name!r} would both be called {variable_name(name)!r} among the variables of "
                f"a run, where a slash cannot stand; rename one of them"
            )
