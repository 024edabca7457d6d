"""The posterior as cards: for the page, plain values with pictures in them; for a still picture, columns."""

from collections.abc import Mapping
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from gibbsite.errors import OptionError
from gibbsite.ground.arguments import shown
from gibbsite.sampling.derived.marginals import Forest, Marginal, Ribbon, Shown, Strip
from gibbsite.sampling.run import Run
from gibbsite.views.host.display import bundle, name_of, svg_html
from gibbsite.views.ink import svg
from gibbsite.views.plots.plot import Rows, axes, rows_svg
from gibbsite.views.posterior.gather import Posterior, gather_posterior
from gibbsite.views.posterior.marginals import focus_rows, plot_of, told, upright
from gibbsite.views.run import words
from gibbsite.views.run.content import ENDED, gather
from gibbsite.views.run.convergence import rows_of

WIDTH = 290
WIDE = 560


def told_cards(posterior: Posterior, run: Run, *, prior: bool) -> dict[str, Any]:
    """The trait `_posterior` of a dashboard, which `js/dashboard/posterior.mjs` reads."""
    derived = set(run.derived)
    return {
        "cards": [_card(found, f"card{i}", derived) for i, found in enumerate(posterior.shown)],
        "focus": [label_of(found) for found in posterior.focus],
        "legend": f"Dots are medians, strokes {posterior.interval} intervals; thin lines are chains"
        + ("; dashed is the prior." if prior else "."),
        "more": f"… and {posterior.more} more sites" if posterior.more else "",
    }


def label_of(found: Shown) -> str:
    """What names it to a run: a scalar's label, or a site."""
    return found.label if isinstance(found, Marginal) else found.site


def _card(found: Shown, name: str, derived: set[str]) -> dict[str, Any]:
    plot = plot_of(found, name)
    width = WIDE if _wide(found) else WIDTH
    frame = axes(plot, width)
    return {
        "label": label_of(found),
        "words": _words(found),
        "wide": _wide(found),
        "derived": found.site if found.site in derived else "",
        "svg": f'<svg viewBox="0 0 {width} {plot.height}" font-family="{svg.FONT}">{frame.render()}</svg>',
        "rows": [
            {"label": label, "name": row, "at": frame.place(len(found.names) - i) / plot.height}
            for i, (label, row) in enumerate(zip(found.labels, found.names, strict=True))
        ]
        if isinstance(found, Forest) or (isinstance(found, Strip) and upright(found))
        else [],
    }


def _wide(found: Shown) -> bool:
    return isinstance(found, Ribbon) or (isinstance(found, Strip) and not upright(found))


def _words(found: Shown) -> str:
    """For those who do not see the picture."""
    if isinstance(found, Marginal):
        return f"{found.label}: {told(found)}"
    what = "probabilities of values" if isinstance(found, Strip) else "intervals"
    return f"{found.site}: {what} of {found.total} elements"


def cards_svg(posterior: Posterior, width: float) -> tuple[str, float]:
    """What is plotted large, then the cards in columns, then those that take the whole width."""
    parts, top = [], 0.0
    large, height = rows_svg(focus_rows(posterior), width)
    if large:
        parts, top = [large], height
    count = max(1, int(width // WIDTH))
    column = width / count
    bottoms = [top] * count
    for found in (f for f in posterior.shown if not _wide(f)):
        at = bottoms.index(min(bottoms))
        plot = plot_of(found, "card")
        parts.append(axes(plot, column - 8).placed(at * column, bottoms[at]))
        bottoms[at] += plot.height + 6
    y = max(bottoms)
    for found in (f for f in posterior.shown if _wide(f)):
        plot = plot_of(found, "card")
        parts.append(axes(plot, width).placed(0, y))
        y += plot.height + 6
    return "".join(parts), y


STILL_WIDTH = 880
VIEWS = ("posterior", "convergence")


class Picture:
    """A picture that shows itself; `svg` is its text, `views` its plots by title, `save(path)` writes it."""

    def __init__(self, markup: str, text: str, views: Mapping[str, Rows]):
        self.svg, self.text, self.views = markup, text, views

    def save(self, path: str | PathLike[str]) -> Path:
        """Write it and return the path: as `.svg`, or as an `.html` page that has posterior and convergence
        as tabs and answers without a kernel. Raises `OptionError` for another kind of file, `OSError` where
        it cannot be written."""
        target = Path(path).expanduser()
        kind = target.suffix.lower()
        if kind not in (".svg", ".html"):
            raise OptionError(f"a picture of a run is saved as .svg or .html, not as {kind or 'that'!r}")
        # Imported late: Bokeh takes a third of a second, and a still picture does not need it.
        page = import_module("gibbsite.views.plots.bokeh").page if kind == ".html" else None
        text = self.svg if page is None else page(self.views, self.text.splitlines()[0])
        target.write_text(text, encoding="utf-8")
        return target

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        return bundle(html=svg_html(self.svg, self.text.splitlines()[0], STILL_WIDTH), text=self.text)

    def __repr__(self) -> str:
        return self.text


def plot_run(run: Run, *labels: str, view: str | None = None, beside: Run | None = None) -> Picture:
    """Plots of a run's draws.

    Args:
        run: the run.
        labels: what to plot large: scalars, sites, derived quantities; two scalars also against each other.
            Without any, an overview.
        view: "posterior" (the default) or "convergence": traces, ranks and autocorrelation.
        beside: another run, whose posterior is drawn into the same plots: dashed, or below.

    Raises:
        OptionError: another view, or too many labels.
        UnknownNameError: the run has no such scalar.
    """
    if view not in (None, *VIEWS):
        raise OptionError(f"view is {' or '.join(map(repr, VIEWS))}, not {shown(view)}")
    content = gather(run, labels if view == "convergence" and labels else None, slots=max(3, len(labels)))
    text = words.text(content)
    convergence = {"Convergence": rows_of(content, max(3, len(labels)))}
    if view == "convergence":
        if beside is not None:
            raise OptionError("two runs are drawn beside each other in the posterior view alone")
        markup, height = rows_svg(convergence["Convergence"], STILL_WIDTH)
        return Picture(svg.document(STILL_WIDTH, max(height, 1), [markup]), text, convergence)
    if len(labels) > 2:
        raise OptionError("at most two are plotted at a time; without names, run.plot() shows them all")
    prior = beside is None and content.snapshot.status in ENDED
    posterior = gather_posterior(run, labels, prior=prior, beside=beside)
    markup, height = (
        rows_svg(focus_rows(posterior), STILL_WIDTH) if labels else cards_svg(posterior, STILL_WIDTH)
    )
    if beside is not None and height:
        first, second = name_of(run, "this run"), name_of(beside, "the other run")
        legend = f"solid: {first} · dashed, and grey below: {second}"
        markup += svg.text(8, height + 12, legend)
        text, height = f"{text}\n{legend}", height + 20
    if not height:
        markup, height = svg.text(0, 16, words.text(content).splitlines()[0]), 24.0
    views = {"Posterior": focus_rows(posterior) if labels else _card_rows(posterior)} | convergence
    return Picture(svg.document(STILL_WIDTH, height, [markup]), text, views)


def _card_rows(posterior: Posterior) -> Rows:
    """The cards as plots: three in a row, and those that take the whole width below."""
    plots = [(plot_of(found, f"card{i}"), _wide(found)) for i, found in enumerate(posterior.shown)]
    narrow, wide = ([plot for plot, whole in plots if whole is which] for which in (False, True))
    return (*(tuple(narrow[i : i + 3]) for i in range(0, len(narrow), 3)), *((plot,) for plot in wide))
