"""A graph as the page receives it: places, edges and what there is to tell, as small as it goes.

Outlines, curves, neighbours, Markov blankets, levels and panels are made by the page (`js/graph/`) from
these columns, so that exported pages answer without a kernel and saved notebooks stay small.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gibbsite.graph.drawing.layout import MAX_DRAWN
from gibbsite.graph.drawing.style import (
    DARK,
    DASH,
    EDGE,
    FILL,
    INK,
    LEVEL_FILL,
    LINE,
    PLATE_TEXT,
    READABLE,
)
from gibbsite.views.graph.columns import view_of
from gibbsite.views.graph.forms import forms_of
from gibbsite.views.graph.steps import steps_of
from gibbsite.views.graph.told import told


def store_of(
    graph: Any, model: Any = None, use_greek: bool = False, asked: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """All views that are not too large to draw: "overview", "folded" and "open", where they differ, each with
    its plates closed in the ways that `forms_of` prepares and, by view, that was `asked` for.

    `start` names the one to begin with; `views` is empty where even the overview is too large.
    """
    shown: dict[str, tuple[Any, Mapping[str, Any]]] = {}
    small, members = graph.folded()
    whole, groups = graph.overview()
    if groups and len(whole.nodes) <= MAX_DRAWN and len(whole.nodes) < len(small.nodes):
        shown["overview"] = (whole, groups)
    if len(small.nodes) <= MAX_DRAWN:
        shown["folded"] = (small, members)
    if members and len(graph.nodes) <= MAX_DRAWN:
        shown["open"] = (graph, {})
    entries: dict[str, dict] = {}
    for seen, inside in shown.values():
        entries |= told(seen, model, inside, entries)
    large = "overview" in shown and len(small.nodes) > READABLE
    views = {}
    for name, (seen, inside) in shown.items():
        more = (asked or {}).get(name, ())
        view = view_of(seen, use_greek)
        like = dict(zip(view["nodes"]["name"], view["nodes"]["x"], strict=True))
        views[name] = view | forms_of(seen, inside, entries, use_greek, more, like)
    return {
        "views": views,
        "start": "overview" if large else "folded",
        "told": entries,
        "steps": [step["text"] for step in steps_of(model)],
        "colours": {
            "fill": FILL,
            "line": LINE,
            "level": LEVEL_FILL,
            "dash": DASH,
            "edge": EDGE,
            "ink": INK,
            "paper": "#ffffff",
            "plate": PLATE_TEXT,
            "dark": DARK,
        },
    }
