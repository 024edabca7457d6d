"""The posterior as cards: for the page, plain values with pictures in them; for a still picture, columns."""

from typing import Any

from gibbsite.sampling.derived.marginals import Forest, Marginal, Ribbon, Shown, Strip
from gibbsite.sampling.run import Run
from gibbsite.views.ink import svg
from gibbsite.views.plots.plot import Rows, axes, rows_svg
from gibbsite.views.posterior.gather import Posterior
from gibbsite.views.posterior.marginals import focus_rows, plot_of, told, upright

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


def card_rows(posterior: Posterior) -> Rows:
    """The cards as plots: three in a row, and those that take the whole width below."""
    plots = [(plot_of(found, f"card{i}"), _wide(found)) for i, found in enumerate(posterior.shown)]
    narrow, wide = ([plot for plot, whole in plots if whole is which] for which in (False, True))
    return (*(tuple(narrow[i : i + 3]) for i in range(0, len(narrow), 3)), *((plot,) for plot in wide))
