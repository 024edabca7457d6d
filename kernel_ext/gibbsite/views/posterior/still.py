"""A run's plots as one picture, for every front end and for files."""

from os import PathLike
from pathlib import Path
from typing import Any

from gibbsite.errors import OptionError
from gibbsite.ground.arguments import shown
from gibbsite.views.host.display import bundle
from gibbsite.views.host.names import name_of
from gibbsite.views.host.static import svg_html
from gibbsite.views.ink import svg
from gibbsite.views.plots.picture import rows_svg
from gibbsite.views.posterior.cards import cards_svg
from gibbsite.views.posterior.gather import gather_posterior
from gibbsite.views.posterior.marginals import focus_rows
from gibbsite.views.run import words
from gibbsite.views.run.content import ENDED, RunLike, gather
from gibbsite.views.run.convergence import rows_of

WIDTH = 880
VIEWS = ("posterior", "convergence")


class Picture:
    """A picture that shows itself; `svg` is its text, `save(path)` writes it."""

    def __init__(self, markup: str, text: str):
        self.svg, self.text = markup, text

    def save(self, path: str | PathLike[str]) -> Path:
        """Write it as SVG and return the path. Raises `OptionError` for another kind of file, `OSError` where
        it cannot be written."""
        target = Path(path).expanduser()
        if target.suffix.lower() != ".svg":
            raise OptionError(f"a picture of a run is saved as .svg, not as {target.suffix or 'that'!r}")
        target.write_text(self.svg, encoding="utf-8")
        return target

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        return bundle(html=svg_html(self.svg, self.text.splitlines()[0], WIDTH), text=self.text)

    def __repr__(self) -> str:
        return self.text


def plot_run(run: RunLike, *labels: str, view: str | None = None, beside: RunLike | None = None) -> Picture:
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
    if view == "convergence":
        if beside is not None:
            raise OptionError("two runs are drawn beside each other in the posterior view alone")
        markup, height = rows_svg(rows_of(content, max(3, len(labels))), WIDTH)
        return Picture(svg.document(WIDTH, max(height, 1), [markup]), text)
    if len(labels) > 2:
        raise OptionError("at most two are plotted at a time; without names, run.plot() shows them all")
    prior = beside is None and content.snapshot.status in ENDED
    posterior = gather_posterior(run, labels, prior=prior, beside=beside)
    markup, height = rows_svg(focus_rows(posterior), WIDTH) if labels else cards_svg(posterior, WIDTH)
    if beside is not None and height:
        first, second = name_of(run, "this run"), name_of(beside, "the other run")
        legend = f"solid: {first} · dashed, and grey below: {second}"
        markup += svg.text(8, height + 12, legend)
        text, height = f"{text}\n{legend}", height + 20
    if not height:
        markup, height = svg.text(0, 16, words.text(content).splitlines()[0]), 24.0
    return Picture(svg.document(WIDTH, height, [markup]), text)
