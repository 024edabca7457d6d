"""What a click on a node tells, as HTML: statement, conditional, kernel with its reason, neighbours."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from gibbsite.errors import GibbsiteError

STYLE = (
    "<style>.gp{font:13px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif;color:inherit}"
    ".gp h4{margin:0 0 2px;font-size:15px}.gp .k{opacity:.65;font-size:12px}"
    ".gp code{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace;white-space:pre-wrap;"
    "overflow-wrap:anywhere;background:rgba(127,127,127,.12);border-radius:4px;padding:1px 4px}"
    ".gp .ask{margin:0 0 8px;padding:6px 8px;border-left:3px solid #c2185b;background:rgba(127,127,127,.12)}"
    ".gp dl{margin:8px 0 0}.gp dt{opacity:.65;font-size:12px;margin-top:6px}.gp dd{margin:0}</style>"
)


LEVEL_WORDS = {
    "data": "data: computed once",
    "model": "model: in the inner loop",
    "generated": "generated: no observation sees it, drawn after the fact",
}


def hint_html() -> str:
    """What the panel says before anything was clicked."""
    words = (
        "Hover over a node to see its Markov blanket (blue edges come from parents, "
        "orange ones go to children); "
        "click for its conditional and its kernel. Then Shift-click a second node: are the two independent? "
        "Ctrl-click adds a node to what is given."
    )
    return f'<div class="gp"><span class="k">{words}</span></div>'


def panels(
    graph: Any, model: Any = None, members: Mapping[str, Any] | None = None, run: Any = None
) -> dict[str, str]:
    """The panel of every node; without `model`, only what the graph knows; with `run`, its draws too.

    `members` names what merged nodes stand for.
    """
    rows = _kernel_rows(model)
    out = {}
    for name in graph.nodes:
        inside = (members or {}).get(name, ())
        row = next((rows[n] for n in (name, *inside) if n in rows), None)
        out[name] = _panel(graph, name, model, row, inside, run)
    return out


def kernel_choices(graph: Any, model: Any) -> dict[str, tuple[list[str], str]]:
    """For every latent node the kernels that fit it, and the one that the schedule has for it."""
    if model is None:
        return {}
    rows = _kernel_rows(model)
    return {
        name: (fitting_kernels(model, name), rows[name].kernel.split("(")[0].strip())
        for name, node in graph.nodes.items()
        if node.kind == "latent" and name in rows
    }


def fitting_kernels(model: Any, site: str) -> list[str]:
    """Kernels that can update a site and need no further options."""
    from gibbsite.kernels.registry import kernels

    return [name for name, row in kernels().items() if not row.needs and row.fits(model, site) is None]


def _kernel_rows(model: Any) -> Mapping[str, Any]:
    if model is None:
        return {}
    try:
        schedule = model.schedule()
        rows = schedule.rows
    except GibbsiteError:
        return {}  # a model that cannot be sampled can still be looked at
    return {site: row for row in rows for site in schedule.members(row.sites)}


def _entry(term: str, words: str, code: bool = False) -> str:
    body = f"<code>{escape(words)}</code>" if code else escape(words)
    return f"<dt>{escape(term)}</dt><dd>{body}</dd>"


def _panel(graph: Any, name: str, model: Any, row: Any, inside: Sequence[str], run: Any) -> str:
    node, level = graph.nodes[name], graph.levels()[name]
    facts = [node.kind]
    if node.random:
        facts.append("discrete" if node.discrete else "continuous")
    if node.shape:
        facts.append(" × ".join(map(str, node.shape)))
    if node.plates:
        facts.append("in plate " + ", ".join(node.plates))
    parts = []
    if inside:
        parts.append(_entry("stands for", ", ".join(inside[:8]) + (", …" if len(inside) > 8 else "")))
    if run is not None and node.kind in ("latent", "deterministic"):
        from gibbsite.views.graph_watch import run_entries

        for term, body in run_entries(run, name):
            parts.append(
                f"<dt>{escape(term)}</dt><dd>{body if body.startswith('<svg') else escape(body)}</dd>"
            )
    if node.distribution and node.kind != "factor":
        sign = "=" if node.kind == "deterministic" else "~"
        parts.append(_entry("statement", f"{name} {sign} {node.distribution}", code=True))
    if node.kind == "latent" and model is not None:
        parts += _conditional(model, name, row is None)
    if row is not None:
        parts.append(_entry("kernel", f"{row.kernel}: {row.reason}"))
        if row.blocked:
            parts.append(_entry("what blocked a better one", row.blocked))
    for term, names in (
        ("parents", graph.parents(name)),
        ("children", graph.children(name)),
        ("Markov blanket", graph.markov_blanket(name)),
    ):
        if names:
            parts.append(_entry(term, ", ".join(n for n in names if n != name) or name))
    parts.append(_entry("level", LEVEL_WORDS[level]))
    if node.line is not None:
        parts.append(_entry("written at", f"line {node.line[1]}"))
    return (
        f'<div class="gp"><h4>{escape(name)}</h4><span class="k">{escape(" · ".join(facts))}</span>'
        f"<dl>{''.join(parts)}</dl></div>"
    )


def _conditional(model: Any, name: str, with_reason: bool) -> list[str]:
    try:
        conditional = model.conditional(name)
    except GibbsiteError as problem:
        return [_entry("conditional", str(problem))]
    out = [_entry("conditional", conditional.text, code=True)]
    latex = (
        f"<details><summary class='k'>as LaTeX</summary><code>{escape(conditional.latex)}</code></details>"
    )
    out.append(f"<dd>{latex}</dd>")
    if with_reason:
        kind = "" if conditional.kind == "none" else f"{conditional.kind}: "
        out.append(_entry("form", kind + conditional.reason))
    return out
