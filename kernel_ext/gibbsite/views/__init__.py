"""Figures, widgets, pictures and words for graphs, conditionals and runs; imported when they are used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers; at run time `__getattr__` imports what is asked for
    from gibbsite.views.graph.picture import graph_svg
    from gibbsite.views.graph.widget import GraphWidget, graph_html, graph_root, show_graph
    from gibbsite.views.report import write_report
    from gibbsite.views.run_dashboard import Dashboard, dashboard, dashboard_ahead

__all__ = [
    "Dashboard",
    "GraphWidget",
    "dashboard",
    "dashboard_ahead",
    "graph_html",
    "graph_root",
    "graph_svg",
    "show_graph",
    "write_report",
]

_WHERE = {
    "Dashboard": "run_dashboard",
    "dashboard": "run_dashboard",
    "dashboard_ahead": "run_dashboard",
    "GraphWidget": "graph.widget",
    "graph_html": "graph.widget",
    "graph_root": "graph.widget",
    "graph_svg": "graph.picture",
    "show_graph": "graph.widget",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
