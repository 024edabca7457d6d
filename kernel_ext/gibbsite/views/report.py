"""A run as one HTML file that needs nothing else: no kernel, no network, no JavaScript."""

import errno
import os
import time
from collections.abc import Sequence
from datetime import datetime
from html import escape
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from gibbsite.checking.finding import LEVEL, Finding, Ranks, told_p
from gibbsite.checking.uniform import bands
from gibbsite.density.model.names import printed
from gibbsite.errors import GibbsiteError, ModelError
from gibbsite.prediction.prediction import Prediction
from gibbsite.prediction.uses.checking import Checks
from gibbsite.sampling.hosts import parts, without_folder
from gibbsite.sampling.read_only import Outside
from gibbsite.sampling.run import Run
from gibbsite.storage.checkpoint import versions
from gibbsite.views.ink import svg
from gibbsite.views.ink.colours import ANY_INK, BAD, CHAINS, GOOD, STATUS, WORN
from gibbsite.views.plots.plot import rows_svg
from gibbsite.views.posterior.cards import cards_svg
from gibbsite.views.posterior.gather import gather_posterior
from gibbsite.views.predictions.checks import checks_html, checks_rows, legend_of
from gibbsite.views.predictions.plots import prediction_html
from gibbsite.views.predictions.uses import use_html
from gibbsite.views.run import centring, words
from gibbsite.views.run.content import ENDED, RHAT_LIMIT, Content, gather, status_of
from gibbsite.views.run.convergence import rows_of
from gibbsite.views.run.status import advice_html
from gibbsite.views.run.words import duration

PLOTTED = 6
LISTED = 40
_LEAST_CHECKED = 25  # draws per chain; leave-one-out takes as many
WIDTH = 940
WHITE = "\n\t"

STYLE = """
:root { color-scheme: light dark; --page: #f4f6f8; --ink: #2b3036; --card: #fff; --edge: #e1e5ea;
  --muted: #6a737d; --faint: #eef1f4; --rule: #a3abb5; --link: #2f6fb0; --bad: #c8372d;
  --good: #1d8a5a; --worn: #b67700; }
@media (prefers-color-scheme: dark) { :root { --page: #16191d; --ink: #d9dee4; --card: #1f2429;
  --edge: #343b43; --muted: #98a2ad; --faint: #2b3138; --rule: #5b646e; --link: #7db4ea; --bad: #ff8a7d;
  --good: #5cc795; --worn: #e5ab45; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1000px; margin: 0 auto; padding: 28px 16px 60px; }
h1 { font-size: 26px; margin: 0 12px 0 0; display: inline-block; }
h2 { font-size: 17px; margin: 0 0 10px; }
section { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 18px 20px;
  margin-top: 18px; }
.pill { color: #fff; border-radius: 11px; padding: 2px 12px; font-size: 13px; font-weight: 600;
  vertical-align: 5px; }
.muted { color: var(--muted); font-size: 13px; }
.warning { border-left: 3px solid #b67700; padding: 1px 10px; margin: 10px 0 0; }
summary { cursor: pointer; color: var(--link); font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: 4px 10px; text-align: right; border-bottom: 1px solid var(--faint); vertical-align: top; }
th { border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
table.words { min-width: 680px; }
table.facts td { text-align: left; overflow-wrap: anywhere; }
table.words th, table.words td { text-align: left; white-space: normal; }
.verdict { margin-top: 4px; }
.strip { display: flex; gap: 4px 10px; align-items: center; flex-wrap: wrap; }
td.bad { color: var(--bad); font-weight: 600; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: 13px; }
pre { margin: 0; overflow-x: auto; line-height: 1.45; }
svg { max-width: 100%; height: auto; display: block; }
.graph svg { margin: 0 auto; }
.scroll { overflow-x: auto; }
.scroll svg { min-width: 700px; }
"""


def write_report(run: Run, model: Any, path: str | PathLike[str]) -> Path:
    """Write graph, checks, convergence, summary, schedule and kept results of a run to one HTML file, and
    return its path.

    Args:
        run: the run, finished or not; see `gibbsite.sampling.run`.
        model: its `Model`: `graph`, `schedule()` and `source` are shown; None where it is not at hand.
        path: where to write; the folder must exist.

    Raises:
        OSError: the file cannot be written.
    """
    target = Path(path)
    if not target.parent.is_dir():  # what is drawn takes a while
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    target.write_text(report_html(run, model), encoding="utf-8")
    return target


def report_html(run: Run, model: Any, head: str = "", above: str = "") -> str:
    """The page as text; see `write_report`. `head` and `above`: markup for the page's head, and before all
    the rest of it."""
    content = gather(run, None, slots=PLOTTED, limit=LISTED)
    body = [
        above,
        _head(content),
        _section("Run", _facts(run, content)),
        _section("Model", _graph(model), "graph") if model is not None else "",
        _section("Posterior", _posterior(run, content)),
        _section("Check", _checks(run, content)),
        *(_section(*_result(title, run.results[title])) for title in run.results),
        _section("Convergence", _plots(content)),
        _section("Summary", _table(content)),
        _section("Schedule", _schedule(model, content)) if model is not None else "",
        _section("Source", f"<pre>{escape(printed(str(model.source).rstrip(), WHITE))}</pre>")
        if model is not None
        else "",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(content.model)}: a Gibbsite report</title><style>{STYLE}</style>{head}</head>\n"
        f"<body><main>{''.join(body)}</main></body></html>\n"
    )


def _section(title: str, inner: str, name: str = "") -> str:
    return f'<section class="{name}"><h2>{escape(title)}</h2>{inner}</section>\n' if inner else ""


def _head(content: Content) -> str:
    snapshot = content.snapshot
    word, colour = status_of(snapshot)
    pill = f'<span class="pill" style="background:{STATUS[colour]}">{escape(word)}</span>'
    parts = [f"<header><h1>{escape(content.model)}</h1>{pill}"]
    parts.append(f"<div>{escape(words.progress(snapshot))}</div>")
    if worth := words.verdict(snapshot):
        parts.append(f'<div class="verdict">{escape(worth)}</div>')
    if snapshot.message:
        parts.append(f'<div class="warning">{escape(snapshot.message)}</div>')
    for warning in snapshot.warnings:
        hint = f'<div class="muted">{escape(warning.hint)}</div>' if warning.hint else ""
        more = advice_html(warning.topic)
        hint += f"<details><summary>what to try</summary>{more}</details>" if more else ""
        parts.append(f'<div class="warning">{escape(warning.text)}{hint}</div>')
    return "".join([*parts, "</header>\n"])


def _facts(run: Run, content: Content) -> str:
    """What it takes to have the run again: seed, options, data, versions; and when this was written."""
    settings, plan = getattr(run, "settings", None), getattr(run, "plan", None)
    if settings is None or plan is None:
        return ""
    lines = [
        ("seed", str(settings.seed)),
        (
            "asked for",
            f"{settings.draws} draws, warm-up {settings.asked_warmup}, {settings.chains} chains, "
            f"thin {settings.thin}",
        ),
        ("schedule", content.schedule),
        ("device", getattr(run, "device", "")),
        *((f"data of {n}", _described(np.asarray(v))) for n, v in plan.observed.items()),
        ("fingerprint of the data", run.data_fingerprint or "not known"),  # type: ignore[attr-defined]
        ("versions", ", ".join(f"{n} {v}" for n, v in versions().items())),
        ("written", datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")),
    ]
    rows = "".join(f"<tr><td>{escape(n)}</td><td>{escape(printed(v))}</td></tr>" for n, v in lines if v)
    return f'<div class="scroll"><table class="facts"><tbody>{rows}</tbody></table></div>'


def _described(values: np.ndarray) -> str:
    """An array in words: `476 numbers, 0.2 to 31, mean 8.1`."""
    size = " × ".join(map(str, values.shape)) or "1"
    if values.dtype.kind not in "biuf" or not values.size:
        return f"{size} of {values.dtype}"
    there = values[np.isfinite(values)].astype(float)
    gone = values.size - there.size
    span = f"{there.min():.4g} to {there.max():.4g}, mean {there.mean():.4g}" if there.size else "nothing"
    return f"{size} numbers, {span}" + f", {gone} missing" * bool(gone)


def _graph(model: Any) -> str:
    # Imported late: a page without a graph does not need the layout's packages.
    return import_module("gibbsite.views.graph.picture").graph_svg(model.graph)


def _posterior(run: Run, content: Content) -> str:
    if not content.parameters or content.warming:
        return ""
    found = gather_posterior(run)
    picture, height = cards_svg(found, WIDTH)
    note = f"Densities of all draws, thin ones of each chain; dots are medians, strokes {found.interval}."
    note += f" {found.more} more sites are not drawn." if found.more else ""
    return _drawn(picture, height, note)


def _drawn(picture: str, height: float, note: str) -> str:
    document = svg.document(WIDTH, height, [picture], colour="currentColor")
    return f'<div class="scroll">{document}</div><p class="muted">{escape(note)}</p>'


def _result(title: str, found: Any) -> tuple[str, str]:
    """A section's title, and what is in it."""
    if isinstance(found, Prediction):
        return f"Prediction: {title}", prediction_html(found)
    if isinstance(found, Checks):
        return f"Check: {title}", checks_html(found)
    if type(found).__name__ == "ELPDData":  # ArviZ's, which is text
        return title, f"<pre>{escape(repr(found))}</pre>"
    return title, use_html(found)


def _checks(run: Run, content: Content) -> str:
    """Data beside replicates; nothing where there are none to be made."""
    if content.snapshot.status not in ENDED or content.snapshot.draws_done < _LEAST_CHECKED:
        return ""
    try:
        try:
            found = run.checks(prior=True)
        except ModelError:  # without its model a run has what was asked of it before
            found = run.checks()
    except GibbsiteError as problem:
        return f'<p class="muted">{escape(str(problem))}</p>'
    picture, height = rows_svg(checks_rows(found), WIDTH)
    return _drawn(picture, height, legend_of(found))


def _plots(content: Content) -> str:
    if not content.parameters or content.warming:
        return '<p class="muted">There is no draw after warm-up yet.</p>'
    picture, height = rows_svg(rows_of(content, len(content.parameters)), WIDTH)
    note = (
        f"The {len(content.parameters)} scalars that are worst off. Lines are chains; a band is the range of "
        f"the draws that a point stands for; red marks are divergences. The rank plot is level, at 1, where "
        f"chains agree. Of R-hat and ESS, dashes are those before the names above; dashed red: "
        f"R-hat {RHAT_LIMIT}, and an ESS of {content.ess_limit}."
    )
    return _drawn(picture, height, note)


def _table(content: Content) -> str:
    table = words.rows(content)
    if not table:
        return ""
    heads = "".join(f"<th>{escape(head)}</th>" for head in words.HEADS)
    lines = []
    for row in table[:LISTED]:
        cells = []
        for name in words.CELLS:
            bad = ' class="bad"' if row.get(words.FLAGS.get(name, "")) else ""
            value = escape(row["shown" if name == "label" else name])
            cells.append(f"<td{bad}>{f'<code>{value}</code>' if name == 'label' else value}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    note = f"Worst first. Red: R-hat above {RHAT_LIMIT}, or an ESS below {content.ess_limit} (100 per chain)."
    if content.snapshot.partly:
        note += f" {words.partly(content.snapshot).capitalize()}."
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="scroll">{table}</div><p class="muted">{escape(note)}</p>'


def _schedule(model: Any, content: Content) -> str:
    heads = ("sites", "kernel", "why", "what stood in the way of the alternative", "cost")
    lines = []
    for row in model.schedule(content.schedule).rows:
        sites = ", ".join(row.sites) if not isinstance(row.sites, str) else row.sites
        values = (
            f"<code>{escape(sites)}</code>",
            *(
                escape(str(v or "")).replace("\n", "<br>")
                for v in (row.kernel, row.reason, row.blocked, row.cost)
            ),
        )
        lines.append("<tr>" + "".join(f"<td>{value}</td>" for value in values) + "</tr>")
    table = "".join(f"<th>{escape(head)}</th>" for head in heads)
    blocks = "".join(
        f"<div><code>{escape(block.label)}</code>: {escape(words.block_detail(block))}</div>"
        + "".join(_strip(*found) for found in centring.learnt_of(content.snapshot, block.sites))
        for block in content.snapshot.blocks
    )
    return (
        f'<div class="scroll"><table class="words"><thead><tr>{table}</tr></thead>'
        f'<tbody>{"".join(lines)}</tbody></table></div><div class="muted">{blocks}</div>'
    )


def _strip(site: str, degrees: np.ndarray) -> str:
    said = escape(centring.said(site, degrees))
    drawn = centring.strip_svg(site, degrees)
    return (
        f'<div class="strip" title="{escape(centring.help_on(site))}">{said} {drawn} ({centring.ENDS})</div>'
    )


# of a page that has a ground of its own, and of a notebook
_COLOURS = {
    "right": f"var(--good, {GOOD})",
    "wrong": f"var(--bad, {BAD})",
    "doubtful": f"var(--worn, {WORN})",
    "open": f"var(--muted, {ANY_INK})",
}
_LEVEL = 0.95
_WIDTH, _HEIGHT, _ACROSS, _SHOWN = 300, 150, 3, 12


def check_html(check: Any) -> str:
    """What a notebook shows of it."""
    rows = "".join(_row(f) for f in check.findings)
    head = f"<p><b>check of {escape(check.model.name)}</b>: {escape(check.verdict)}</p>"
    table = f'<table class="words" style="min-width:0"><tbody>{rows}</tbody></table>' if rows else ""
    pictures = "".join(ranks_svg(f.ranks) for f in check.findings if f.ranks is not None)
    return f'<div class="gibbsite-check">{head}{table}{pictures}</div>'


def _row(finding: Finding) -> str:
    colour = _COLOURS[finding.state]
    left = 'style="text-align:left;vertical-align:top"'
    state = f'<td {left}><b style="color:{colour}">{finding.state}</b></td>'
    blind = f"<br><small>cannot see: {escape(finding.blind)}</small>" if finding.blind else ""
    spent = f"<td {left}>{finding.seconds:.0f}&nbsp;s</td>"
    test = f"<td {left}>{escape(finding.test)}</td>"
    return f"<tr>{state}{test}<td {left}>{escape(finding.text)}{blind}</td>{spent}</tr>"


def ranks_svg(ranks: Ranks) -> str:
    """The empirical distribution function of ranks, less the uniform one, with simultaneous bands: of the
    quantities that are least uniform."""
    names = sorted(ranks.p, key=lambda n: ranks.p[n])[:_SHOWN]
    count = len(next(iter(ranks.by_quantity.values())))
    places, low, high = bands(count, ranks.most, _LEVEL)
    reach = 1.3 * float(max(np.abs(low - places).max(), np.abs(high - places).max()))
    parts = []
    for i, name in enumerate(names):
        below = np.array([(ranks.by_quantity[name] < k).mean() for k in range(1, ranks.most + 1)])
        far = max(reach, 1.1 * float(np.abs(below - places).max()))
        plot = svg.Axes(_WIDTH, _HEIGHT, (0.0, 1.0), (-far, far), title=f"{name}: p {told_p(ranks.p[name])}")
        plot.band(places, low - places, high - places, CHAINS[0], 0.25)
        plot.line(places, below - places, CHAINS[0])
        parts.append(plot.placed((i % _ACROSS) * _WIDTH, (i // _ACROSS) * _HEIGHT))
    high_as = _HEIGHT * -(-len(names) // _ACROSS)
    told = (
        f"Ranks of what made the data, {count} data sets: their distribution function less the uniform one, "
        f"of the {len(names)} quantities that are least uniform; {_LEVEL:.0%} simultaneous bands."
    )
    drawn = svg.document(_WIDTH * _ACROSS, high_as, parts)
    return f'<p>{escape(told)}</p><div class="scroll">{drawn}</div>'


def write_check(check: Any, path: str | PathLike[str]) -> Path:
    """Write a check's page; returns its path. Raises `OSError` where it cannot be written."""
    target = Path(path)
    title = f"{check.model.name}: a check by Gibbsite"
    schedule = escape(check.model.execution.schedule().text)
    rate = (
        f"Each statistical test calls what is right wrong in one case of {1 / LEVEL:.0f} at most, with all "
        f"that it compares counted. “open” is what could not be tested."
    )
    body = (
        f"<header><h1>{escape(check.model.name)}</h1></header><section>{check_html(check)}"
        f'<p class="muted">{rate}</p></section>'
        f"<section><h2>Schedule</h2><pre>{schedule}</pre></section>"
        f"<section><h2>Model</h2><pre>{escape(str(check.model.source).rstrip())}</pre></section>"
    )
    target.write_text(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style></head>\n<body><main>{body}</main></body></html>\n",
        encoding="utf-8",
    )
    return target


def standing(seen: Outside) -> str:
    """In words: as of when, whether a process goes on with the run, and whose chains are not here."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seen.committed))
    said = f"As of its last commit, {duration(seen.age)} ago ({at}). "
    beside = parts(seen.folder.parent)
    if seen.folder in beside and (unseen := without_folder(beside, seen.run.settings)):
        numbers = ", ".join(map(str, unseen))
        said += f"Without chains of hosts {numbers}: they have not begun, or store where this one is not. "
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
