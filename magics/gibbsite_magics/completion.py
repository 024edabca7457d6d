"""Completion after the magics: flags, names of models, names of sites."""

import re
from collections.abc import Callable
from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher

from gibbsite_magics.target import models_in

LINE = re.compile(r"(?:^|[=(;]\s*|\s)%(sample|check|predict|graph|conditional|schedule|trace)\s+([^\n]*)$")
# what may follow a flag
VALUES = {
    "--device": ("auto", "cpu", "cpu:all", "gpu", "tpu"),
    "--until": ("'ess>400, rhat<1.01'", "'ess>400'", "'rhat<1.01'"),
}


def candidates(shell: Any, before: str) -> list[str] | None:
    """What may stand at the end of `before`, the line up to the cursor; None if it is no line of ours."""
    found = LINE.search(before)
    if found is None:
        return None
    magic, rest = found.groups()
    words = rest.split()
    current = "" if not words or rest[-1:].isspace() else words.pop()
    parser = shell.find_line_magic(magic).parser
    flags = {flag: action for action in parser._actions for flag in action.option_strings}
    if words and words[-1] in flags and flags[words[-1]].nargs != 0:
        known = [v for flag in flags[words[-1]].option_strings for v in VALUES.get(flag, ())]
    elif current.startswith("-"):
        known = [flag for flag in flags if flag.startswith("--") or len(current) < 2]
    else:
        known = _names(shell, magic, words)
    return [name for name in known if name.startswith(current)]


def _names(shell: Any, magic: str, words: list[str]) -> list[str]:
    models = models_in(shell)
    if not words:
        return sorted(models)
    if magic == "conditional" and len(words) == 1 and words[0] in models:
        model = models[words[0]]
        latent = [name for name, site in model.sites.items() if site.role == "latent"]
        return [*latent, *model.density.groups]
    return []


def matcher(shell: Any) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """A matcher for IPython's completer, which asks it at every completion."""

    @context_matcher(identifier="gibbsite")
    def gibbsite_matcher(context: CompletionContext) -> SimpleMatcherResult:
        found = candidates(shell, context.line_with_cursor[: context.cursor_position])
        completions = [SimpleCompletion(text=text, type="gibbsite") for text in found or []]
        return SimpleMatcherResult(completions=completions, suppress=bool(completions))

    return gibbsite_matcher
