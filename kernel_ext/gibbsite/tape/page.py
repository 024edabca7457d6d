"""A tape in a notebook: tilde statements stand out, calls open on a click, colours are the notebook's own."""

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from gibbsite.programs.jaxpr.source_line import Line
from gibbsite.tape.recording.record import STATEMENTS, Record, index_of
from gibbsite.tape.show import ENDS, FULL, SHAPES, number, parts, statement

if TYPE_CHECKING:
    from gibbsite.tape.tape import Tape

LIMIT = 2000  # records on a page
WIDE = 58  # columns after which values are told more briefly

_STYLE = """<style>
.gibbsite-tape{font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);
color:var(--jp-content-font-color1,inherit);line-height:1.6;overflow-x:auto}
.gibbsite-tape .row{display:inline-grid;grid-template-columns:3.2em minmax(20em,1fr) 23em;column-gap:.6em;
width:calc(100% - 1.4em);vertical-align:top}
.gibbsite-tape .leaf{padding-left:1.05em}.gibbsite-tape .leaf>.row{width:calc(100% - .35em)}
.gibbsite-tape .row>*{white-space:pre;overflow:hidden;text-overflow:ellipsis;color:inherit}
.gibbsite-tape details>:not(summary){margin-left:2.2em}
.gibbsite-tape summary{cursor:pointer;color:inherit}.gibbsite-tape .what [title]{cursor:help}
.gibbsite-tape .no{text-align:right}.gibbsite-tape .no,.gibbsite-tape .where{opacity:.6}
.gibbsite-tape .line,.gibbsite-tape .value{opacity:.8}
.gibbsite-tape .tilde{box-shadow:inset 3px 0 0 var(--tape-mark)}
.gibbsite-tape .tilde .what{font-weight:bold}.gibbsite-tape .tilde .value{opacity:1}
.gibbsite-tape .assumption,.gibbsite-tape .subsample{--tape-mark:#2f7fc1}
.gibbsite-tape .observation{--tape-mark:#b97700}.gibbsite-tape .deterministic{--tape-mark:#7a62b8}
.gibbsite-tape .factor{--tape-mark:#b8473a}
.gibbsite-tape .note{font-family:var(--jp-content-font-family,sans-serif);margin:.2em 0 .6em}
.gibbsite-tape .note span{display:inline-block;margin-right:1.2em}
</style>"""

_WORDS = {  # kind: the sign, what it says
    "assumption": ("w ~", "a latent, drawn"),
    "observation": ("x ⩪ … ← …", "observed, and the data"),
    "deterministic": (":=", "a value that the model names"),
    "factor": ("∝", "a factor of the density"),
    "subsample": ("~ 3 of 6", "a subsample"),
    "decision": ("decide", "Python took a branch on this value"),
}


@dataclass(frozen=True)
class TapeView:
    """A tape shown to a depth: text in a terminal, collapsible in a notebook."""

    tape: "Tape"
    depth: int | None = None

    def __repr__(self) -> str:
        return self.tape.to_text(self.depth)

    def _repr_html_(self) -> str:
        return html(self.tape, self.depth)


def html(tape: "Tape", depth: int | None, limit: int = LIMIT) -> str:
    """At most `limit` records; those to `depth` (None: all) can be opened."""
    page = _Page(tape, depth, limit)
    body = "".join(map(page.row, tape.records))
    cut = f'<div class="note">… cut after {limit} records</div>' if page.left < 0 else ""
    return f'{_STYLE}<div class="gibbsite-tape">{_legend(tape, page.openable)}{body}{cut}</div>'


class _Page:
    def __init__(self, tape: "Tape", depth: int | None, limit: int):
        self.tape, self.depth, self.left = tape, depth, limit
        self.openable = False
        self._shown: Line | None = None

    def row(self, record: Record) -> str:
        """One record, and what is inside."""
        self.left -= 1
        if self.left < 0:
            return ""
        kind = f" tilde {record.kind}" if record.kind in STATEMENTS else ""
        columns = self._columns(record)
        if not record.children or (self.depth is not None and len(record.index) >= self.depth):
            return f'<div class="leaf{kind}">{columns}</div>'
        self.openable = True
        inner = "".join(map(self.row, record.children))
        return f'<details class="call{kind}"><summary>{columns}</summary>{inner}</details>'

    def _columns(self, record: Record) -> str:
        head, value = parts(self.tape, record, FULL)
        whole = escape(f"{head}{value}")
        for detail in (ENDS, SHAPES):
            if len(head) + len(value) > WIDE:
                head, value = parts(self.tape, record, detail)
        return (
            f'<span class="row"><span class="no">{number(record)}</span>'
            f'<span title="{whole}"><span class="what">{self._linked(escape(head))}</span>'
            f'<span class="value">{escape(value)}</span></span>{self._line(record)}</span>'
        )

    def _linked(self, head: str) -> str:
        """Numbers tell what they stand for when the mouse rests on them."""

        def told(match: re.Match) -> str:
            source = self.tape.get(index_of(match[0]))
            if source is None:
                return match[0]
            return f'<span title="{escape(statement(self.tape, source, 100))}">{match[0]}</span>'

        return re.sub(r"⟨[\d.]+⟩", told, head)

    def _line(self, record: Record) -> str:
        """The user's line, told once for all rows that it makes."""
        if record.line is None or record.line == self._shown:
            return "<span></span>"
        self._shown = record.line
        text = escape(record.line.text)
        return (
            f'<span class="line" title="{text}"><span class="where">{escape(record.line.where)}</span>'
            f"  {text}</span>"
        )


def _legend(tape: "Tape", openable: bool) -> str:
    """What the signs mean that occur on this page."""
    kinds = {r.kind for r in tape.records}
    words = [("⟨3⟩", "value number 3"), *(told for kind, told in _WORDS.items() if kind in kinds)]
    words.append(("→", "the value in this run"))
    if openable:
        words.append(("▸", "opens what a call did"))
    told = "".join(f"<span><b>{escape(sign)}</b> {escape(meaning)}</span>" for sign, meaning in words)
    return f'<div class="note"><span>One run of <b>{escape(tape.name)}</b>:</span>{told}</div>'
