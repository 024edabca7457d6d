"""A dependency graph in Graphviz's language."""

from typing import Any

_SHAPES = {
    "latent": "ellipse",
    "observed": "ellipse",
    "deterministic": "box",
    "data": "box",
    "factor": "square",
    "plate": "box3d",
}


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def to_dot(graph: Any) -> str:
    """`digraph` text: filled ellipses are observed, nested clusters are plates."""
    lines = ["digraph model {", "  rankdir=TB;"]
    inner: dict[str | None, list[str]] = {}
    for node in graph.nodes.values():
        shape = "hexagon" if node.discrete and node.kind in ("latent", "observed") else _SHAPES[node.kind]
        style = {"observed": "filled", "data": "dashed", "deterministic": "rounded"}.get(node.kind, "solid")
        label = node.name + (f"\n{node.distribution}" if node.distribution else "")
        text = f"{_quoted(node.name)} [label={_quoted(label)}, shape={shape}, style={style}];"
        inner.setdefault(node.plates[-1] if node.plates else None, []).append(text)
    lines += ["  " + t for t in inner.get(None, [])]

    def plate(name: str, indent: str) -> None:
        box = graph.plates[name]
        lines.append(f"{indent}subgraph {_quoted('cluster_' + name)} {{")
        lines.append(f"{indent}  label={_quoted(f'{name}: {box.size}')};")
        lines.extend(f"{indent}  {t}" for t in inner.get(name, []))
        for child in graph.plates.values():
            if child.parent == name:
                plate(child.name, indent + "  ")
        lines.append(indent + "}")

    for box in graph.plates.values():
        if box.parent is None:
            plate(box.name, "  ")
    lines += [f"  {_quoted(a)} -> {_quoted(b)};" for a, b in graph.edges]
    return "\n".join([*lines, "}"])
