"""What `run.plot` makes: a picture of the posterior, or of convergence, that shows and saves itself."""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib import import_module
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gibbsite.errors import OptionError
from gibbsite.ground.arguments import shown
from gibbsite.sampling.run import Run
from gibbsite.views.host.display import bundle, name_of, svg_html
from gibbsite.views.ink import svg
from gibbsite.views.plots.plot import Rows, Stage, axes, rows_svg
from gibbsite.views.posterior.cards import card_rows, cards_svg
from gibbsite.views.posterior.gather import gather_posterior
from gibbsite.views.posterior.marginals import focus_rows
from gibbsite.views.run import words
from gibbsite.views.run.content import ENDED, gather
from gibbsite.views.run.convergence import rows_of
from gibbsite.views.run.replay import stages_of

STILL_WIDTH = 880
_ALONE = 480  # of one plot in its row: on a narrow page its letters can still be read
VIEWS = ("posterior", "convergence")


class Picture:
    """A picture that shows itself; `svg` is its text, `views` its plots by title, `save(path)` writes it.
    `courses` makes of some of the views the stages that they went through; `html` is what a page shows, where
    that is not the picture whole."""

    def __init__(
        self,
        markup: str,
        text: str,
        views: Mapping[str, Rows],
        courses: Mapping[str, Callable[[], Sequence[Stage]]] = MappingProxyType({}),
        html: str = "",
    ):
        self.svg, self.text, self.views, self.courses, self.html = markup, text, views, courses, html

    def save(self, path: str | PathLike[str]) -> Path:
        """Write it and return the path: as `.svg`, or as an `.html` page that has posterior and convergence
        as tabs and answers without a kernel; there a slider goes through the course of the run, as warm-up
        and draws came. Raises `OptionError` for another kind of file, `OSError` where it cannot be
        written."""
        target = Path(path).expanduser()
        kind = target.suffix.lower()
        if kind not in (".svg", ".html"):
            raise OptionError(f"a picture of a run is saved as .svg or .html, not as {kind or 'that'!r}")
        # Imported late: Bokeh takes a third of a second, and a still picture does not need it.
        page = import_module("gibbsite.views.plots.bokeh").page if kind == ".html" else None
        courses = {} if page is None else {title: stages() for title, stages in self.courses.items()}
        text = self.svg if page is None else page(self.views, self.text.splitlines()[0], courses)
        target.write_text(text, encoding="utf-8")
        return target

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        html = self.html or svg_html(self.svg, self.text.splitlines()[0], STILL_WIDTH)
        return bundle(html=html, text=self.text)

    def __repr__(self) -> str:
        return self.text


def wrapped_html(rows: Rows, alt: str, least: float = 1) -> str:
    """Plots for a page, each an image of its own: they stand below each other where it is narrow, in letters
    that can be read. `alt` tells what they are."""
    images = []
    for row in rows:
        total = max(least, sum(plot.share for plot in row))
        for plot in row:
            wide = min(round(STILL_WIDTH * plot.share / total), _ALONE)
            if len(rows) > 1:  # as wide as those of the other rows
                wide = min(wide, STILL_WIDTH // max(len(r) for r in rows))
            picture = svg.document(wide, plot.height, [axes(plot, wide).render()])
            images.append(svg_html(picture, plot.title or alt, wide))
    return f'<div role="figure" aria-label="{escape(alt, quote=True)}">{"".join(images)}</div>'


def picture_of(rows: Rows, text: str, title: str, legend: str = "", least: float = 1) -> Picture:
    """A picture of plots with a line below them that says what is drawn how."""
    markup, height = rows_svg(rows, STILL_WIDTH, least)
    html = wrapped_html(rows, text.splitlines()[0], least)
    if legend:
        markup, height = markup + svg.text(8, height + 12, legend), height + 20
        html += f"<p>{escape(legend)}</p>"
    return Picture(svg.document(STILL_WIDTH, height, [markup]), text, {title: rows}, html=html)


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
    # one stage is no course
    courses = {"Convergence": lambda: stages_of(run, content)} if content.snapshot.draws_done > 1 else {}
    if view == "convergence":
        if beside is not None:
            raise OptionError("two runs are drawn beside each other in the posterior view alone")
        markup, height = rows_svg(convergence["Convergence"], STILL_WIDTH)
        return Picture(svg.document(STILL_WIDTH, max(height, 1), [markup]), text, convergence, courses)
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
    views = {"Posterior": focus_rows(posterior) if labels else card_rows(posterior)} | convergence
    return Picture(svg.document(STILL_WIDTH, height, [markup]), text, views, courses)
