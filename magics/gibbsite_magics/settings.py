"""`treated=1, dose=new.dose` as typed on a line → values by name, computed in the notebook's names."""

import ast
from collections.abc import Mapping
from typing import Any

from IPython.core.error import UsageError


def settings(text: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name of `name=expression` pairs with commas between them. Raises `UsageError` for what are
    none;
    what an expression raises passes through."""
    if not text.strip():
        return {}
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except SyntaxError:
        raise UsageError(f"{text!r} is no list of settings, such as x=1, y=None") from None
    if not isinstance(call, ast.Call) or call.args or any(k.arg is None for k in call.keywords):
        raise UsageError(f"{text!r} is no list of settings, such as x=1, y=None")
    return {str(k.arg): evaluated(ast.unparse(k.value), names) for k in call.keywords}


def evaluated(text: str, names: Mapping[str, Any]) -> Any:
    """The value of an expression. Raises `UsageError` for what is none, and for names of nothing."""
    try:
        code = compile(text, "<%predict>", "eval")
    except SyntaxError:
        raise UsageError(f"{text!r} is no expression") from None
    try:
        return eval(code, dict(names))
    except NameError as problem:
        raise UsageError(f"{text!r}: there is no {problem.name!r} in the notebook") from None
