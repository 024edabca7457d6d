"""What things are called in the notebook."""

from typing import Any

from IPython.core.getipython import get_ipython


def name_of(thing: Any, otherwise: str) -> str:
    """The notebook's name for a thing: `otherwise` if that is it, or nothing else is."""
    shell = get_ipython()
    space = {} if shell is None else shell.user_ns
    if space.get(otherwise) is thing:
        return otherwise
    own = (n for n, v in list(space.items()) if v is thing and not n.startswith("_"))
    return next(own, otherwise)
