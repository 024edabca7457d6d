"""Figures, widgets, pictures and words for graphs, conditionals and runs; imported when they are used."""

from importlib import import_module
from typing import Any

# Public name → the module that holds it.
_WHERE = {
    "Dashboard": "run_dashboard",
    "dashboard": "run_dashboard",
    "GraphWidget": "graph_widget",
    "graph_html": "graph_widget",
    "graph_root": "graph_widget",
    "graph_svg": "graph_picture",
    "show_graph": "graph_widget",
    "write_report": "report",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
