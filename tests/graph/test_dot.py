"""The graph in Graphviz's language: the drawing of the page, read back by ourselves and by Graphviz."""

import itertools
import json
import re
import shutil
import subprocess

import gibbsite as gb
import numpy as np
import pytest
from gibbsite.graph import DependencyGraph, Node, PlateBox
from gibbsite.graph.drawing import draw
from gibbsite.graph.drawing.style import FILL, LINE
from helpers.models.graph_models import hmm, lda, schools

GRAPHS = {
    "hmm": lambda: gb.model(hmm, np.zeros(20, np.float32)).graph,
    "lda": lambda: gb.model(lda, np.arange(30) % 7, np.arange(30) // 10).graph,
    "schools": lambda: gb.model(schools, np.zeros((3, 4), np.float32), np.zeros((3, 5), np.int32)).graph,
}


@pytest.fixture(scope="module", params=GRAPHS)
def graph(request):
    return GRAPHS[request.param]()


def numbers(text):
    return [float(v) for v in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?", text)]


def from_text(dot):
    """Places, boxes and lines as the text has them."""
    nodes, boxes, lines = {}, {}, {}
    plate = None
    for line in dot.splitlines():
        if found := re.search(r'subgraph "cluster_(.*)" \{', line):
            plate = found[1]
        elif found := re.search(r'label="[^"]*".* bb="([^"]*)"', line):
            boxes[plate] = numbers(found[1])
        elif found := re.search(r'"(.*)" -> "(.*)" \[pos="e,([^"]*)"\]', line):
            lines[found[1], found[2]] = numbers(found[3])
        elif found := re.search(r'"(.*)" \[label=.*width=([\d.]+), height=([\d.]+), pos="([^"]*)!"', line):
            nodes[found[1]] = [*numbers(found[4]), float(found[2]), float(found[3])]
    return nodes, boxes, lines


def from_graphviz(dot):
    """The same as `neato -n2` answers, which moves all of it to the corner."""
    done = subprocess.run(
        ["neato", "-n2", "-Tjson"], input=dot, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    told = json.loads(done.stdout)
    by_id = {o["_gvid"]: o for o in told["objects"]}
    nodes = {
        o["name"]: [*numbers(o["pos"]), float(o["width"]), float(o["height"])]
        for o in told["objects"]
        if "pos" in o
    }
    boxes = {o["name"].removeprefix("cluster_"): numbers(o["bb"]) for o in told["objects"] if "nodes" in o}
    lines = {
        (by_id[e["tail"]]["name"], by_id[e["head"]]["name"]): numbers(e["pos"].removeprefix("e,"))
        for e in told["edges"]
    }
    name = next(iter(nodes))
    move = np.subtract(from_text(dot)[0][name][:2], nodes[name][:2])
    for places in (*boxes.values(), *lines.values()):
        places[:] = (np.reshape(places, (-1, 2)) + move).ravel().tolist()
    for place in nodes.values():
        place[:2] = (place[:2] + move).tolist()
    return nodes, boxes, lines


READERS = [from_text, *([from_graphviz] if shutil.which("neato") else [])]


@pytest.mark.parametrize("read", READERS)
def test_the_text_is_the_drawing(graph, read):
    drawing = draw(graph)
    dot = graph.to_dot()
    nodes, boxes, lines = read(dot)
    assert set(nodes) == set(graph.nodes)
    for name, place in nodes.items():
        shape = drawing.nodes[name]
        wanted = [shape.x, drawing.height - shape.y, shape.width / 72, shape.height / 72]
        np.testing.assert_allclose(place, wanted, atol=0.06)
    assert set(boxes) == set(graph.plates)
    for name, corners in boxes.items():
        box = drawing.plates[name].box
        low = drawing.height - box.top - box.height
        np.testing.assert_allclose(
            corners, [box.left, low, box.left + box.width, low + box.height], atol=0.06
        )
    assert set(lines) == set(graph.edges) | {(n, n) for n, v in graph.nodes.items() if v.recurrent}
    for pair, (x, y, *points) in lines.items():
        end = drawing.edges[pair][-1]
        np.testing.assert_allclose([x, drawing.height - y], end, atol=0.06)  # the arrow's tip
        start = drawing.edges[pair][0]
        np.testing.assert_allclose([points[0], drawing.height - points[1]], start, atol=0.06)
        assert len(points) % 6 == 2  # 1 + 3 k points
        curve = bezier(points, drawing.height)
        ours = drawing.edges[pair]
        for px, py in curve:  # the same line
            nearest = min(distance((px, py), a, b) for a, b in itertools.pairwise(ours))
            assert nearest < 0.5, (pair, px, py)


def bezier(flat, height):
    control = np.asarray(flat).reshape(-1, 2) * [1, -1] + [0, height]
    t = np.linspace(0, 1, 9)[:, None]
    weights = np.hstack([(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3])
    return np.vstack([weights @ control[i : i + 4] for i in range(0, len(control) - 3, 3)])


def distance(p, a, b):
    p, a, b = map(np.asarray, (p, a, b))
    along = np.clip(np.dot(p - a, b - a) / max(np.dot(b - a, b - a), 1e-9), 0, 1)
    return float(np.linalg.norm(p - a - along * (b - a)))


def test_shapes_and_colours_are_the_drawing_s(graph):
    dot = graph.to_dot()
    for name, node in graph.nodes.items():
        (line,) = (text for text in dot.splitlines() if text.strip().startswith(f'"{name}" [label'))
        assert f'fillcolor="{FILL[node.kind]}"' in line and f'color="{LINE[node.kind]}"' in line
        random = node.kind in ("latent", "observed")
        assert f"shape={'hexagon' if node.discrete and random else 'box'}" in line
        assert ("rounded" in line) == (random and not node.discrete)


@pytest.mark.parametrize("program", [found] if (found := shutil.which("dot")) else [None])
def test_odd_names_and_large_graphs(program):
    """Quotes, markup and line ends in names; two plates across each other; Graphviz reads them all."""
    names = ['a "b" \\', "</TABLE><B>&amp;", "two\nlines", "", "graph"]
    nodes = [
        Node(n, "latent", (2,), distribution="<i>", plates=("p", "q")[i % 2 :][:2])
        for i, n in enumerate(names)
    ]
    odd = DependencyGraph(nodes, list(itertools.pairwise(names)), [PlateBox('p"', 2), PlateBox("q", 3)])
    many = [Node(f"v{i}", "latent") for i in range(301)]
    large = DependencyGraph(many, [(a.name, b.name) for a, b in itertools.pairwise(many)])
    for graph in (odd, large, DependencyGraph([], [])):
        dot = graph.to_dot()
        assert dot.count(" -> ") == len(graph.edges) and "<i>" not in dot
        assert ("pos=" in dot) == (graph is odd)
        if program and len(graph.nodes) < 300:
            done = subprocess.run([program, "-Tsvg"], input=dot, capture_output=True, text=True, timeout=60)
            assert (
                done.returncode == 0
                and done.stderr == ""
                and done.stdout.count('class="node"') == len(graph.nodes)
            )
