"""The IPython magics of Gibbsite: parse, delegate, display."""

from typing import Any


def load(shell: Any) -> None:
    """Register the magics, their completion and how errors are shown in an IPython shell, once."""
    from gibbsite_magics.completion import matcher
    from gibbsite_magics.magics import Gibbsite
    from gibbsite_magics.said import show_calls

    shell.register_magics(Gibbsite)
    show_calls(shell)
    matchers = shell.Completer.custom_matchers
    matchers[:] = [m for m in matchers if getattr(m, "matcher_identifier", None) != "gibbsite"]
    matchers.append(matcher(shell))
