"""Advice about warnings as HTML, for the dashboard and the report."""

import re
from functools import cache
from html import escape

from gibbsite.diagnostics.verdict.advice import sections

_CODE = re.compile(r"`([^`]+)`")
_STRESS = re.compile(r"\*([^*]+)\*")


@cache
def advice_html(topic: str) -> str:
    """The section on `topic`: paragraphs and lists, with code and stress; empty for no topic."""
    if topic not in sections():
        return ""
    out = []
    for block in sections()[topic][1].split("\n\n"):
        if block.startswith("- "):
            items = re.split(r"\n- ", block[2:])
            out.append("<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>")
        else:
            out.append(f"<p>{_inline(block)}</p>")
    return "".join(out)


def _inline(text: str) -> str:
    pieces = _CODE.split(" ".join(text.split()))
    # Every second piece is code, in which an asterisk is one.
    return "".join(
        f"<code>{escape(piece)}</code>" if i % 2 else _STRESS.sub(r"<em>\1</em>", escape(piece))
        for i, piece in enumerate(pieces)
    )
