"""The graph as a picture and as a widget, without a browser."""

import itertools
import json
import shutil
import subprocess
from types import SimpleNamespace

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.graph import DependencyGraph, Node, PlateBox
from gibbsite.graph.drawing.engine import crossings, dot_layout
from gibbsite.graph.drawing.layout import Layout, bezier
from gibbsite.graph.drawing.shapes import draw
from gibbsite.views import graph_svg, show_graph
from gibbsite.views.graph import change
from gibbsite.views.graph.watch import BAD, GOOD, WAIT, badges, state_of
from gibbsite.views.host import display
from gibbsite.views.host.wire import unpacked
from helpers.models.graph_models import mixture


@pytest.fixture
def model():
    return gb.model(mixture, np.linspace(-1, 1, 20, dtype=np.float32))


def random_graph(n, seed, more=0):
    """A random tree, with `more` edges beside it."""
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["latent", "observed", "deterministic"], n, p=[0.6, 0.2, 0.2])
    nodes = [Node(f"node_{i}", str(k), distribution="Normal(0, 1)") for i, k in enumerate(kinds)]
    children = [*range(1, n), *rng.integers(1, n, more).tolist()]
    edges = {(f"node_{max(0, i - int(rng.integers(1, 9)))}", f"node_{i}") for i in children}
    return DependencyGraph(nodes, edges)


ENGINES = [None, *([found] if (found := shutil.which("dot")) else [])]


@pytest.mark.parametrize("dot", ENGINES)
@pytest.mark.parametrize(("n", "more"), [(3, 0), (20, 0), (100, 0), (100, 30), (300, 0)])
def test_nodes_do_not_overlap_and_edges_miss_them(n, more, dot, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: dot)
    graph = random_graph(n, n, more)
    drawing = draw(graph)
    assert drawing.curved == (dot is not None and more > 0)
    boxes = [
        (s.x - s.width / 2, s.y - s.height / 2, s.x + s.width / 2, s.y + s.height / 2, name)
        for name, s in drawing.nodes.items()
    ]
    for a, b in itertools.combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)
    for (start, end), line in drawing.edges.items():
        assert drawing.nodes[start].y < drawing.nodes[end].y  # top to bottom
        for x, y in line:
            for left, top, right, bottom, name in boxes:
                if name not in (start, end):
                    assert not (left + 1 < x < right - 1 and top + 1 < y < bottom - 1), (start, end, name)


ANSWER = {  # what `dot -Tjson` says of a → b with b in a plate
    "bb": "0,0,100,200",
    "objects": [
        {"_gvid": 0, "name": "cluster0", "bb": "8,8,92,80"},
        {"_gvid": 1, "name": "n1", "pos": "50,50"},
        {"_gvid": 2, "name": "n0", "pos": "50,180"},
    ],
    "edges": [{"tail": 2, "head": 1, "pos": "50,163 50,140 50,120 50,75"}],
}


@pytest.mark.parametrize(
    "answer", [json.dumps(ANSWER), "not JSON", json.dumps({"bb": "0,0,1,1", "objects": []})]
)
def test_what_dot_answers_becomes_a_layout_or_ours_is_taken(answer, monkeypatch):
    asked = []
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/dot")
    monkeypatch.setattr(
        subprocess, "run", lambda *args, **more: asked.append(more["input"]) or SimpleNamespace(stdout=answer)
    )
    graph = DependencyGraph(sites(a="", b="p"), [("a", "b")], [PlateBox("p", 3)])
    found = dot_layout(graph, {"a": (60, 34), "b": (60, 50)})
    assert "n0 -> n1;" in asked[0] and "subgraph cluster0" in asked[0]
    if "edges" not in answer:
        assert found is None
        return
    assert found is not None and found.curved and found.nodes["a"].y == 34 and found.nodes["b"].y == 164
    assert found.plates["p"].left == 22 and found.plates["p"].top == 134
    assert bezier(found.edges["a", "b"])[-1] == (64, 139)


def test_crossings_are_counted():
    lines = {("a", "b"): ((0.0, 0.0), (100.0, 100.0)), ("c", "d"): ((100.0, 0.0), (0.0, 100.0))}
    beside = {**lines, ("e", "f"): ((200.0, 0.0), (300.0, 100.0))}
    assert crossings(Layout(300, 100, {}, {}, beside)) == 1
    assert crossings(Layout(300, 100, {}, {}, {})) == 0


def test_plates_that_cross_are_laid_out_by_ourselves(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/dot")
    crossing = DependencyGraph(sites(y="pq", a="p", b="q"), [], [PlateBox("p", 3), PlateBox("q", 3)])
    assert dot_layout(crossing, dict.fromkeys("yab", (60, 34))) is None


def sites(**plates):
    """A latent node per name, in the plates given as text."""
    return [
        Node(name, "latent", (3,), distribution="Normal(0, 1)", plates=tuple(p)) for name, p in plates.items()
    ]


PLATED = {
    "nested": DependencyGraph(
        sites(a="", b="p", c="pq", d=""),
        [("a", "b"), ("b", "c"), ("d", "c")],
        [PlateBox("p", 3), PlateBox("q", 2, "p")],
    ),
    "crossing": DependencyGraph(
        sites(mu="", tau="", theta="p", beta="q", gamma="q", y="pq"),
        [("mu", "theta"), ("tau", "theta"), ("theta", "y"), ("beta", "y"), ("gamma", "y")],
        [PlateBox("p", 40), PlateBox("q", 12)],
    ),
    "crossing in a row": DependencyGraph(
        sites(u="p", v="q", t="r", y="pq", w="qr", g=""),
        [("u", "y"), ("v", "y"), ("v", "w"), ("t", "w"), ("g", "y"), ("g", "w")],
        [PlateBox("p", 4), PlateBox("q", 3), PlateBox("r", 20)],
    ),
    "crossing inside another": DependencyGraph(
        sites(g="", a="o", b="op", c="oq", y="opq", out=""),
        [("g", "a"), ("a", "b"), ("b", "y"), ("c", "y"), ("out", "y")],
        [PlateBox("o", 2), PlateBox("p", 4, "o"), PlateBox("q", 3, "o")],
    ),
}


@pytest.mark.parametrize("name", PLATED)
def test_a_plate_holds_its_members_and_nothing_else(name):
    graph = PLATED[name]
    drawing = draw(graph)
    for plate, shape in drawing.plates.items():
        box = shape.box
        for node, s in drawing.nodes.items():
            across, down = abs(s.x - box.x), abs(s.y - box.y)
            inside = across + s.width / 2 < box.width / 2 and down + s.height / 2 < box.height / 2
            apart = across - s.width / 2 > box.width / 2 or down - s.height / 2 > box.height / 2
            assert (inside, apart) == ((plate in graph.nodes[node].plates), not inside), (plate, node)
    corners = [(p.corner, p.anchor) for p in drawing.plates.values()]
    assert len({(round(x / 20), round(y / 12), anchor) for (x, y), anchor in corners}) == len(corners)


def test_pictures_escape_markup_and_sum_up_a_thousand_sites():
    name = '<script>alert("x")</script>&'
    odd = DependencyGraph([Node(name, "latent", distribution="<b>"), Node("a", "latent")], [("a", name)])
    for text in (graph_svg(odd), show_graph(odd).static_html()):
        assert "<script" not in text and "<b>" not in text
    many = graph_svg(random_graph(1000, 0))
    assert "1000 nodes" in many and "too many" in many


def test_greek_letters_are_asked_for(model):
    assert "μ [3]" in graph_svg(model.graph, use_greek=True) and "mu [3]" in graph_svg(model.graph)


def _model(widget, name):
    """The columns of a data source in the widget's document."""

    def find(value):
        if isinstance(value, dict):
            if (value.get("attributes") or {}).get("name") == name:
                yield value
            for v in value.values():
                yield from find(v)
        elif isinstance(value, list):
            for v in value:
                yield from find(v)

    found = next(find(unpacked(widget._item)))
    return dict(found["attributes"]["data"]["entries"])


# ------------------------------------------------------------ changing


@pytest.mark.slow
def test_changes_show_the_python_to_keep_and_can_be_undone(model):
    widget = show_graph(model)
    widget._receive(None, {"kind": "select", "node": "mu"}, [])
    widget._receive(None, {"kind": "change", "action": "kernel", "value": "Slice"}, [])
    assert "Slice mu" in widget.model.schedule().text and ".with_schedule(" in widget.message
    widget.change("condition", "[0, 1, 2]")
    assert widget.graph.nodes["mu"].kind == "observed" and ".condition(mu=[0, 1, 2])" in widget.message
    widget.change("undo")
    assert widget.graph.nodes["mu"].kind == "latent" and "Slice mu" in widget.model.schedule().text
    widget.change("undo")
    assert widget.model is model
    widget.change("undo")
    assert "nothing to undo" in widget.message


def hierarchy(y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("n", len(y)):
        a = numpyro.sample("a", dist.Bernoulli(0.3))
        b = numpyro.sample("b", dist.Bernoulli(0.2 + 0.5 * a))
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta + b, 1), obs=y)


@pytest.mark.slow
def test_sites_are_merged_and_reparameterised_from_the_node():
    apart = "Gibbs a (*) Gibbs b (*) NUTS theta (*) NUTS [mu tau]"
    model = gb.model(hierarchy, np.zeros(4, np.float32)).with_schedule(apart)
    widget = show_graph(model)
    told = unpacked(_model(widget, "graph-store")["text"][0])["told"]
    assert told["theta"]["ways"] == ["non-centred"] and "ways" not in told["tau"]
    widget._receive(None, {"kind": "select", "node": "a"}, [])
    widget.change("merge", "b")
    assert "Gibbs [a b]" in widget.model.schedule().text and ".with_schedule(" in widget.message
    widget.change("merge", "b")
    assert "in one block already" in widget.message
    widget.change("merge", "mu")
    assert "no kernel moves 'a' (Gibbs) and 'mu'" in widget.message
    widget._receive(None, {"kind": "select", "node": "theta"}, [])
    widget.change("merge", "mu")
    assert "NUTS [" in widget.model.schedule().text
    widget.change("merge", "y")
    assert "'y' has no kernel" in widget.message
    widget.change("reparam", "non-centred")
    assert ".reparam(theta='non-centred')" in widget.message
    assert (
        "Gibbs [a b]" in widget.model.schedule().text and "theta_decentered" in widget.model.schedule().text
    )
    assert widget.graph.nodes["theta"].kind == "deterministic"
    for _ in range(3):
        widget.change("undo")
    assert widget.model is model


@pytest.mark.share(5)
@pytest.mark.parametrize("value", ["9", "", "__import__('os')", "[1, 2]", "0.5"])
def test_a_value_that_does_not_fit_changes_nothing(model, value):
    widget = show_graph(model)
    widget._receive(None, {"kind": "select", "node": "z"}, [])
    widget.change("condition", value)
    assert widget.model is model and widget.message


def test_clicks_on_what_is_no_longer_there_are_answered(model):
    widget = show_graph(model)
    widget._receive(None, {"kind": "select", "node": "gone"}, [])
    widget.change("condition", "1")
    assert widget.selected is None and "click on a node" in widget.message
    widget._receive(None, {"kind": "select", "node": "x"}, [])
    widget.change("kernel", "NUTS")
    widget.change("element", "99")
    assert widget.model is model and widget.message


def test_an_element_is_explained(model):
    widget = show_graph(model)
    widget.selected = "z"
    widget.change("element", "17")
    assert widget.message == "z[17]: w[any], mu[any], x[17]"


@pytest.mark.slow
def test_nodes_carry_the_state_of_a_run(model):
    run = model.sample(draws=60, warmup=60, chains=2, seed=0)
    widget = show_graph(model, run=run)
    columns = widget._columns["graph-run"]["columns"]
    assert set(columns["name"]) == {"w", "mu", "z"}
    assert all(words[0] in "✓…!" for words in columns["words"])
    assert all("R-hat" in told for told in columns["told"])
    widget._receive(None, {"kind": "select", "node": "mu"}, [])
    assert "<svg" in widget._columns["graph-draws"]["columns"]["html"][0]
    assert widget.message == ""
    widget.model = model.with_schedule("Slice mu (*) Gibbs z (*) NUTS w")
    widget.attach(run)
    assert "another schedule" in widget.message


# ------------------------------------------------------------ what a saved notebook holds


def regression(y):
    """Twenty sites, and as many again observed with `y`."""
    values = [numpyro.sample("root", dist.Normal(0, 1))]
    for i in range(len(y)):
        values.append(numpyro.sample(f"effect_{i}", dist.Normal(values[i // 3], 1.0)))
        numpyro.sample(f"obs_{i}", dist.Normal(values[-1], 1.0), obs=y[i])


def saved_bytes(widget):
    """The widget's part of a saved notebook, without the library that all views share."""
    state = {k: v for k, v in widget.get_state().items() if k != "_library"}
    return len(json.dumps(state, default=lambda value: bytes(value).hex()))


@pytest.mark.parametrize(
    ("nodes", "limit"), [(21, 130_000), pytest.param(299, 300_000, marks=pytest.mark.slow)]
)
def test_a_saved_graph_is_small(nodes, limit):
    model = gb.model(regression, np.zeros(nodes // 2, np.float32))
    assert len(model.graph.nodes) == nodes
    widget = show_graph(model)
    store = unpacked(_model(widget, "graph-store")["text"][0])
    assert len(store["views"]["folded"]["nodes"]["name"]) == len(model.graph.nodes)
    assert "Normal(effect_3 | effect_0, 1)" in store["told"]["effect_3"]["conditional"]
    assert saved_bytes(widget) < limit


def test_badges_follow_a_run(make_run):
    """Not yet, stuck, converged and divergent, as a simulated run goes on."""
    names = ("a", "b", "mu", "w", "z")
    graph = DependencyGraph([Node(n, "latent") for n in names], [])
    widget, run = show_graph(graph), make_run()

    def shown():
        columns = widget._columns["graph-run"]["columns"]
        return dict(zip(columns["name"], zip(columns["words"], columns["colour"], strict=True), strict=True))

    widget.attach(run)
    assert shown() == {}
    widget._looked = -10.0  # as if a second had gone by
    run.advance(100)
    assert set(shown()) == {"mu", "w"} and shown()["mu"] == ("… R-hat 1.060 · 3 div.", BAD)
    assert "ESS 6 ·" in told(widget, "mu") and "3 of the block&#x27;s transitions" in told(widget, "mu")
    run.advance(400)  # too soon after the last look
    assert "ESS 6 ·" in told(widget, "mu")
    widget._looked = -10.0
    run.advance(500)
    assert "ESS 60 ·" in told(widget, "mu")
    run.advance(1000)
    assert run.status == "finished"
    assert shown()["mu"] == ("! R-hat 1.060 · 3 div.", BAD)


@pytest.mark.parametrize(
    ("rhat", "ess", "ended", "words", "colour"),
    [
        (float("nan"), 0, False, "… first draws", WAIT),
        (float("nan"), 0, False, "… constant so far", WAIT),
        (1.001, 900, False, "✓ ESS 900", GOOD),
        (1.001, 90, False, "… ESS 90", WAIT),
        (1.03, 900, False, "… R-hat 1.030", WAIT),
        (1.03, 900, True, "! R-hat 1.030", BAD),
        (1.4, 9, False, "! R-hat 1.400", BAD),
    ],
)
def test_the_state_of_a_node(rhat, ess, ended, words, colour):
    scalar = SimpleNamespace(rhat=rhat, ess_bulk=ess, sd=0.0 if words == "… constant so far" else 1.0)
    assert state_of(scalar, 4, ended) == (words, colour)


def test_a_merged_node_carries_its_worst_member():
    members = {f"b_{i}": (1.001 if i else 1.4) for i in range(4)}
    scalars = tuple(
        SimpleNamespace(site=n, label=n, rhat=r, ess_bulk=900, mean=0.0, sd=1.0) for n, r in members.items()
    )
    shot = SimpleNamespace(scalars=scalars, chains=2, status="sampling", divergences=(0, 0), blocks=())
    columns = badges(SimpleNamespace(snapshot=lambda limit: shot), members, {"b*": tuple(members)})
    row = columns["name"].index("b*")
    assert columns["words"][row] == "! R-hat 1.400 · 3 of 4 ✓" and columns["colour"][row] == BAD


def told(widget, name):
    columns = widget._columns["graph-run"]["columns"]
    return columns["told"][columns["name"].index(name)]


def notebook(monkeypatch, names_bound):
    """A notebook with these names."""
    for module in (change, display):
        monkeypatch.setattr(module, "get_ipython", lambda: SimpleNamespace(user_ns=names_bound))


def shown(widget, name):
    return widget._props[f"graph-{name}"]


def test_a_change_is_used_in_the_notebook_and_given_back(model, monkeypatch):
    bound = {"mine": model}
    notebook(monkeypatch, bound)
    widget = show_graph(model)
    widget.change("use")
    assert "no change to use" in widget.message and bound == {"mine": model}
    widget.selected = "mu"
    widget.change("condition", "[0, 1, 2]")
    assert "mine = mine.condition(mu=[0, 1, 2])" in widget.message and bound["mine"] is model
    assert shown(widget, "use")["label"] == "use it as mine" and not shown(widget, "back")["visible"]
    widget.change("use")
    changed = bound["mine"]
    assert changed is widget.model and not changed.sites["mu"].latent and shown(widget, "back")["visible"]
    widget.selected = "w"
    widget.change("kernel", "Slice")
    assert shown(widget, "write")["tags"][0] in widget.message  # what is shown is what is written
    lines = shown(widget, "write")["tags"][0].splitlines()
    assert lines[0] == "mine = mine.condition(mu=[0, 1, 2])" and lines[1].startswith(
        "mine = mine.with_schedule("
    )
    widget.change("use")
    assert "Slice w" in bound["mine"].schedule().text
    widget.change("take back")
    assert bound["mine"] is changed
    widget.change("take back")
    assert bound == {"mine": model} and not shown(widget, "back")["visible"]
    widget.change("take back")
    assert "nothing to take back" in widget.message


def test_a_name_that_means_something_else_by_now_is_asked_for_not_overwritten(model, monkeypatch):
    bound = {model.name: model}
    notebook(monkeypatch, bound)
    widget = show_graph(model)
    widget.selected = "mu"
    widget.change("condition", "[0, 1, 2]")
    bound[model.name] = "my notes"
    widget.change("use")
    assert bound[model.name] == "my notes" and "replace it?" in widget.message
    assert shown(widget, "use")["tags"] == ["use!"]
    widget.change("use!")
    assert bound[model.name] is widget.model
    bound[model.name] = "other notes"
    widget.change("take back")
    assert bound[model.name] == "other notes" and "left as it is" in widget.message


def test_without_a_notebook_the_line_is_left(model):
    widget = show_graph(model)
    widget.selected = "mu"
    widget.change("condition", "[0, 1, 2]")
    widget.change("use")
    assert "no notebook" in widget.message


@pytest.mark.slow
def test_a_name_that_was_bound_anew_is_told(model, monkeypatch):
    names = {model.name: model}
    notebook(monkeypatch, names)
    widget = show_graph(model)
    widget._receive(None, {"kind": "select", "node": "mu"}, [])
    assert widget.message == ""
    widget.change("condition", "[0, 1, 2]")
    widget._receive(None, {"kind": "select", "node": "mu"}, [])
    assert "earlier one" not in widget.message  # the change came from here
    names[model.name] = model.condition(w=[0.2, 0.3, 0.5])
    widget._receive(None, {"kind": "select", "node": "z"}, [])
    assert "bound to another model" in widget.message and widget.selected == "z"


def test_a_model_whose_structure_changes_is_shown_by_its_graph_alone():
    def grown():
        n = numpyro.sample("n", dist.DiscreteUniform(1, 2))
        with numpyro.plate("k", n):
            mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu.sum(), 1), obs=1.0)

    widget = show_graph(gb.model(grown))
    assert {"n", "mu", "y"} <= set(widget.graph.nodes)
    assert "svg" in widget.static_html()
