"""Plates closed in advance: every set of a few, and what each form tells."""

import itertools
import json

import numpy as np
import pytest
from gibbsite.graph import DependencyGraph, Node, PlateBox
from gibbsite.graph.drawing import draw
from gibbsite.views.graph.store import EVERY_SET, forms_of, store_of
from gibbsite.views.graph.widget import GraphWidget
from gibbsite.views.host.wire import unpacked

BOXES = [PlateBox("o", 2), PlateBox("p", 3, "o"), PlateBox("q", 4, "o"), PlateBox("r", 5)]
PLACES = [(), (), ("o",), ("o", "p"), ("o", "q"), ("o", "p", "q"), ("r",)]


def random_graph(rng):
    n = int(rng.integers(3, 12))
    nodes = [Node(f"v{i}", "latent", plates=PLACES[int(rng.integers(len(PLACES)))]) for i in range(n)]
    edges = [(f"v{i}", f"v{j}") for i, j in itertools.combinations(range(n), 2) if rng.random() < 1.5 / n]
    used = {p for v in nodes for p in v.plates}
    return DependencyGraph(nodes, edges, [b for b in BOXES if b.name in used])


def test_every_set_of_a_few_plates_is_drawn_as_the_graph_closes_it():
    rng = np.random.default_rng(6)
    sets = merged = 0
    for _ in range(60):
        graph = random_graph(rng)
        found = forms_of(graph, {}, {})
        free = found["closable"]
        few = len(free) <= EVERY_SET
        assert len(found["sets"]) == (2 ** len(free) - 1 if few else len(free) + 1)
        for key, i in found["sets"].items():
            small, members = graph.closed(key.split("\n"))
            form = found["forms"][i]
            assert form["nodes"]["name"] == list(small.nodes) and form["nodes"]["kind"] == [
                v.kind for v in small.nodes.values()
            ]
            names = form["nodes"]["name"]
            ends = zip(form["edges"]["start"], form["edges"]["end"], strict=True)
            assert {(names[a], names[b]) for a, b in ends} == {(a, b) for a, b in small.edges}
            assert form["merged"].keys() == members.keys() == form["told"].keys()
            assert all(form["merged"][n]["members"] == members[n] for n in members)
            assert all(set(m["shut"]) <= set(key.split("\n")) for m in form["merged"].values())
            # a plate that holds several nodes can still be closed, and nothing else
            for plate in small.plates:
                again, _ = graph.closed([*key.split("\n"), plate])
                assert (plate in form["closable"]) == (len(again.nodes) < len(small.nodes)), (key, plate)
            sets, merged = sets + 1, merged + len(members)
        assert len(found["forms"]) <= len(found["sets"])
    assert sets > 150 and merged > 150


@pytest.mark.slow
def test_what_stays_keeps_its_side():
    """No form has most of its pairs the other way round, which some drawn by themselves would have."""
    rng = np.random.default_rng(3)
    forms, alone = 0, 0
    for _ in range(25):
        graph = random_graph(rng)
        view = store_of(graph)["views"]["folded"]
        x = dict(zip(view["nodes"]["name"], view["nodes"]["x"], strict=True))
        for key, i in view["sets"].items():
            nodes, merged = view["forms"][i]["nodes"], view["forms"][i]["merged"]
            was = [
                np.mean([x[m] for m in merged[n]["members"]]) if n in merged else x[n] for n in nodes["name"]
            ]
            own = draw(graph.closed(key.split("\n"))[0])
            for is_form, at in ((True, nodes["x"]), (False, [own.nodes[n].x for n in nodes["name"]])):
                pairs = itertools.combinations(range(len(was)), 2)
                sides = sum(np.sign(at[a] - at[b]) * np.sign(was[a] - was[b]) for a, b in pairs)
                assert sides >= 0 or not is_form
                alone += sides < 0
            forms += 1
    assert forms > 50 and alone > 3


def crossed():
    """Four plates side by side, two nodes in each."""
    boxes = [PlateBox(name, 2) for name in "abcd"]
    nodes = [Node(f"{p}{i}", "latent", plates=(p,)) for p in "abcd" for i in range(2)]
    return DependencyGraph(nodes, [(f"{p}0", f"{p}1") for p in "abcd"], boxes)


def test_the_kernel_draws_a_set_that_was_not_sent():
    widget = GraphWidget(crossed())
    pushed = []
    widget.push = lambda name, **columns: pushed.append((name, columns))
    widget._on_close({"view": "folded", "plates": ["c", "a"]})
    ((name, columns),) = pushed
    view = unpacked(columns["text"][0])["views"]["folded"]
    assert name == "graph-store" and "a\nc" not in store_of(crossed())["views"]["folded"]["sets"]
    form = view["forms"][view["sets"]["a\nc"]]
    assert form["nodes"]["name"] == ["plate a", "b0", "b1", "plate c", "d0", "d1"]
    assert form["closable"] == ["b", "d"]


@pytest.mark.parametrize("detail", [{}, {"view": "folded"}, {"view": "none", "plates": ["a"]}])
def test_nonsense_from_a_page_changes_nothing(detail):
    widget = GraphWidget(crossed())
    pushed = []
    widget.push = lambda name, **columns: pushed.append(unpacked(columns["text"][0]))
    widget._on_close(detail)
    assert all(store == unpacked_store() for store in pushed)


def unpacked_store():
    return json.loads(json.dumps(store_of(crossed())))
