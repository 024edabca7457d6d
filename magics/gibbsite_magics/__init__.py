"""The IPython magics of Gibbsite: parse, delegate, display."""

from typing import Any


def load(shell: Any) -> None:
    """Register the magics and their completion in an IPython shell, once."""
    from gibbsite_magics.completion import matcher
    from gibbsite_magics.magics import Gibbsite

    shell.register_magics(Gibbsite)
    matchers = shell.Completer.custom_matchers
    matchers[:] = [m for m in matchers if getattr(m, "matcher_identifier", None) != "gibbsite"]
    matchers.append(matcher(shell))
