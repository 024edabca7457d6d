"""Names of sites and plates that nothing downstream can hold: refused when the model is traced. Of labels,
which are data, what cannot be printed is spelt out."""

import re

from gibbsite.errors import ModelError

_MOST = 200
_SCOPED = re.compile(r"[\w.$ \[\],()-]*\w[\w.$ \[\],()-]*(?:/[\w.$ \[\],()-]*\w[\w.$ \[\],()-]*)*")


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
        raise ModelError(f"a {what} is called {name!r}: a name is a text")
    why = None
    if not name.strip():
        why = "an empty name names nothing"
    elif name != name.strip():
        why = "it begins or ends with a space"
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
