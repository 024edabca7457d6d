"""Stores, seen from outside → a page that looks again by itself: no kernel, no script, no network."""

import time
from collections.abc import Sequence
from html import escape

from gibbsite.sampling.read_only import Outside
from gibbsite.views.report import report_html
from gibbsite.views.run.words import duration


def standing(seen: Outside) -> str:
    """In words: as of when, and whether a process goes on with the run."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seen.committed))
    said = f"As of its last commit, {duration(seen.age)} ago ({at}). "
    if seen.writer is not None:
        return f"{said}It goes on in {seen.writer}."
    if seen.run.status == "finished":
        return f"{said}It is finished."
    return f"{said}No process goes on with it: the same line with resume='auto' does."


def status_page(found: Sequence[Outside], every: float, at: int = 0) -> str:
    """The page of the `at`-th store, with links to the others; it is asked for again after `every` seconds
    while a process goes on with any of them, and less often afterwards."""
    seen = found[at]
    again = every if any(one.writer for one in found) else max(every, 60.0)
    head = f'<meta http-equiv="refresh" content="{max(1, round(again))}">'
    links = ""
    if len(found) > 1:
        names = (f'<a href="{i}">{escape(one.folder.name)}</a>' for i, one in enumerate(found))
        links = f" · {' · '.join(names)}"
    above = f'<p class="muted"><code>{escape(str(seen.folder))}</code>{links}<br>{escape(standing(seen))}</p>'
    return report_html(seen.run, None, head=head, above=above)
