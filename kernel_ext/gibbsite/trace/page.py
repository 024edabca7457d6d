"""A tape in a notebook: tilde statements stand out, calls open on a click, colours are the notebook's own."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from gibbsite.trace.record import STATEMENTS, Record
from gibbsite.trace.show import ENDS, FULL, number, parts

if TYPE_CHECKING:
    from gibbsite.trace.tape import Tape

LIMIT = 2000  # records on a page
WIDE = 64  # columns after which values are told more briefly

_STYLE = """<style>
.gibbsite-tape{font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);
color:var(--jp-content-font-color1,inherit);line-height:1.6;overflow-x:auto}
.gibbsite-tape .row{display:inline-grid;grid-template-columns:3.2em minmax(0,1fr) auto;column-gap:.6em;
width:calc(100% - 1.4em);vertical-align:top}
.gibbsite-tape .row>*{white-space:pre;overflow:hidden;text-overflow:ellipsis;color:inherit}
.gibbsite-tape details>:not(summary){margin-left:2.2em}
.gibbsite-tape div.leaf{padding-left:1.05em}.gibbsite-tape summary{cursor:pointer;color:inherit}
.gibbsite-tape .no,.gibbsite-tape .line,.gibbsite-tape .note{opacity:.6}.gibbsite-tape .no{text-align:right}
.gibbsite-tape .line{font-style:italic;max-width:26em}
.gibbsite-tape .value{opacity:.75}
.gibbsite-tape .tilde .what{font-weight:bold}.gibbsite-tape .tilde .value{opacity:1}
.gibbsite-tape .tilde{box-shadow:inset 3px 0 0 var(--tape-mark)}
.gibbsite-tape .assumption,.gibbsite-tape .subsample{--tape-mark:#2f7fc1}
.gibbsite-tape .observation{--tape-mark:#b97700}.gibbsite-tape .deterministic{--tape-mark:#7a62b8}
.gibbsite-tape .factor{--tape-mark:#b8473a}
.gibbsite-tape .note{font-family:var(--jp-content-font-family,sans-serif);margin:.2em 0 .5em}
</style>"""

_WORDS = {
    "assumption": "<b>~</b> drawn: a latent",
    "observation": "<b>⩪</b> observed, <b>←</b> the data",
    "deterministic": "<b>:=</b> named by the model",
    "factor": "<b>∝</b> a factor of the density",
    "subsample": "<b>~ n of m</b> a subsample",
    "decision": "<b>decide</b> Python took a branch on this value",
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

    def row(self, record: Record) -> str:
        """One record, and what is inside."""
        self.left -= 1
        if self.left < 0:
            return ""
        kind = f" tilde {record.kind}" if record.kind in STATEMENTS else ""
        if not record.children or (self.depth is not None and len(record.index) >= self.depth):
            return f'<div class="leaf{kind}">{self._columns(record)}</div>'
        self.openable = True
        inner = "".join(map(self.row, record.children))
        return f'<details class="call{kind}"><summary>{self._columns(record)}</summary>{inner}</details>'

    def _columns(self, record: Record) -> str:
        head, value = parts(self.tape, record, FULL)
        if len(head) + len(value) > WIDE:
            head, value = parts(self.tape, record, ENDS)
        line = "" if record.line is None else str(record.line)
        hint = f' title="{escape(line)}"' if line else ""
        return (
            f'<span class="row"><span class="no">{number(record)}</span>'
            f'<span><span class="what">{escape(head)}</span><span class="value">{escape(value)}</span></span>'
            f'<span class="line"{hint}>{escape(line)}</span></span>'
        )


def _legend(tape: "Tape", openable: bool) -> str:
    """What the signs mean that occur on this page."""
    kinds = {r.kind for r in tape.records}
    words = [text for kind, text in _WORDS.items() if kind in kinds]
    words = ["<b>⟨n⟩</b> value number n", *words, "<b>→</b> the value in this run"]
    if openable:
        words.append("<b>▸</b> opens what a call did")
    return f'<div class="note">One run of <b>{escape(tape.name)}</b>. {" · ".join(words)}</div>'
