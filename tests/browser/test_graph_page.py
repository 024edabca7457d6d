"""The interactive graph in an exported page, without a kernel, as a person uses it."""

import itertools

import gibbsite as gb
import networkx as nx
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from bokeh.embed import file_html
from bokeh.resources import INLINE
from gibbsite.graph import DependencyGraph, Node
from gibbsite.views import graph_root
from gibbsite.views.assets import joined
from graph_models import hmm, hundred, lda, looped, mixture, ratings
from graph_page import Graph, shot


@pytest.fixture
def page(browser):
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    opened.set_default_timeout(10_000)
    complaints = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    yield opened
    opened.close()
    assert complaints == []


def show(page, tmp_path, model):
    path = tmp_path / "graph.html"
    path.write_text(file_html(graph_root(model.graph, model), INLINE, "graph"), encoding="utf-8")
    page.goto(path.as_uri())
    return Graph(page)


def steps(y):
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    scaled = numpyro.deterministic("scaled", 2 * tau)
    sd = numpyro.deterministic("sd", scaled + 1)
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    numpyro.sample("y", dist.Normal(mu, sd).expand([3]), obs=y)
    numpyro.sample("y_new", dist.Normal(mu, sd))


MODELS = {
    "mixture": lambda: gb.model(mixture, np.zeros(20, np.float32)),
    "hmm": lambda: gb.model(hmm, np.zeros(20, np.float32)),
    "crossing": lambda: gb.model(ratings, np.zeros((4, 3), np.int32)),
    "lda": lambda: gb.model(lda, np.arange(30) % 7, np.arange(30) // 10),
    "looped": lambda: gb.model(looped, np.zeros(5, np.float32)),
    "hundred": lambda: gb.model(hundred, np.zeros(50, np.float32)),
}


@pytest.mark.parametrize("name", MODELS)
def test_an_exported_page_answers_hover_and_click_without_a_kernel(page, tmp_path, name):
    model = MODELS[name]()
    graph = show(page, tmp_path, model)
    small, _ = model.graph.folded() if len(model.graph.nodes) <= 60 else model.graph.overview()
    assert graph.names == list(small.nodes)
    for node in list(small.nodes)[:8]:
        graph.hover(node)
        graph.lit(small.markov_blanket(node))
    latent = next(n for n, v in small.nodes.items() if v.kind == "latent" and n in model.graph.nodes)
    graph.click(latent)
    assert latent in graph.panel and "conditional" in graph.panel and "kernel" in graph.panel
    shot(page, f"graph_{name}")


def test_roles_folding_search_and_levels(page, tmp_path):
    graph = show(page, tmp_path, gb.model(steps, np.zeros(3, np.float32)))
    assert "scaled" not in graph.names
    graph.hover("mu")
    graph.lit(["tau", "y", "y_new"])
    roles = graph.column("role")
    assert roles["y"] == "child" and roles["tau"] == "co-parent" and roles["mu"] == "self"
    page.get_by_role("button", name="all", exact=True).click()
    graph.until("[...doc.get_model_by_name('graph-nodes').data.name].includes('scaled')")
    graph.hover("sd")
    graph.until("[...doc.get_model_by_name('graph-nodes').data.role].includes('parent')")
    assert graph.column("role")["scaled"] == "parent"
    shot(page, "graph_unfolded")
    page.get_by_role("button", name="folded", exact=True).click()
    graph.until("![...doc.get_model_by_name('graph-nodes').data.name].includes('scaled')")
    page.mouse.dblclick(*graph.place("sd"))
    graph.until("[...doc.get_model_by_name('graph-nodes').data.name].includes('scaled')")
    page.mouse.move(5, 5)
    page.get_by_placeholder("find a node").fill("y_n")
    graph.until("doc.get_model_by_name('graph-panel').text.includes('y_new')")
    assert [n for n, a in graph.column("alpha").items() if a == 1] == ["y_new"]
    page.get_by_placeholder("find a node").fill("")
    before = graph.column("fill")
    page.get_by_role("button", name="level", exact=True).click()
    graph.until("doc.get_model_by_name('graph-colour').active === 1")
    after = graph.column("fill")
    assert after["y_new"] != after["mu"] and before["y_new"] == before["mu"]
    shot(page, "graph_levels")


def test_plates_close_by_a_click_on_their_labels(page, tmp_path):
    graph = show(page, tmp_path, MODELS["crossing"]())
    names = "[...doc.get_model_by_name('graph-nodes').data.name].join()"
    page.mouse.click(*graph.label("items"))
    graph.until(f"{names} === 'difficulty,ability,plate items'")
    page.wait_for_timeout(400)  # the figure's size follows
    graph.click("plate items")
    graph.until("doc.get_model_by_name('graph-panel').text.includes('<dd>item, y</dd>')")
    graph.click("ability")
    graph.click("difficulty", "Shift")
    assert "may depend on each other given the data" in graph.panel and "open the plate" in graph.panel
    shot(page, "graph_closed")
    page.mouse.dblclick(*graph.place("plate items"))
    graph.until(f"{names} === 'difficulty,ability,item,y'")
    page.get_by_role("button", name="plates closed", exact=True).click()
    graph.until(f"{names}.includes('plate')")


def test_two_nodes_and_what_is_given(page, tmp_path):
    def chain():
        a = numpyro.sample("a", dist.Normal(0, 1))
        b = numpyro.sample("b", dist.Normal(a, 1))
        numpyro.sample("c", dist.Normal(b, 1))

    graph = show(page, tmp_path, gb.model(chain))
    graph.click("a")
    graph.click("c", "Shift")
    assert "depend on each other given the data: through a – b – c" in graph.panel
    shot(page, "graph_dependent")
    graph.click("b", "Control")
    assert "a and c are independent given the data, b" in graph.panel


def test_markup_in_names_stays_text(page, tmp_path):
    name = "<img src=x onerror=alert(1)>"
    graph = DependencyGraph([Node(name, "latent", distribution="<b>bold</b>"), Node("a", "latent")], [])
    path = tmp_path / "markup.html"
    path.write_text(file_html(graph_root(graph), INLINE, "graph"), encoding="utf-8")
    page.goto(path.as_uri())
    shown = Graph(page)
    shown.click(name)
    assert page.locator("img").count() == 0 and page.locator("b").count() == 0
    shown.click("a", "Shift")
    assert page.locator("img").count() == 0


def test_the_page_s_own_answers_on_random_graphs(page):
    """Blankets against the moralised graph, independences against networkx, on 1000 random graphs."""
    rng = np.random.default_rng(5)
    questions, blankets, truths = [], [], []
    for _ in range(1000):
        n = int(rng.integers(3, 11))
        kinds = rng.choice(["latent", "observed", "deterministic"], n, p=[0.5, 0.2, 0.3]).tolist()
        edges = [(i, j) for i, j in itertools.combinations(range(n), 2) if rng.random() < 2 / n]
        a, b = (int(v) for v in rng.choice(n, 2, replace=False))
        given = [i for i in range(n) if i not in (a, b) and rng.random() < 0.3]
        questions.append([kinds, edges, a, b, given])
        graph = nx.DiGraph(edges)
        graph.add_nodes_from(range(n))
        fixed = ({i for i in range(n) if kinds[i] == "observed"} | set(given)) - {a, b}
        truths.append(nx.is_d_separator(graph, {a}, {b}, fixed))
        for i in [i for i in range(n) if kinds[i] == "deterministic"]:
            graph.add_edges_from(itertools.product(list(graph.predecessors(i)), list(graph.successors(i))))
            graph.remove_node(i)
        moral = nx.moral_graph(graph)
        blankets.append({str(i): sorted(map(str, moral[i])) for i in graph})
    answers = page.evaluate(
        """async ([text, questions]) => {
            const url = URL.createObjectURL(new Blob([text], {type: 'text/javascript'}))
            const { activeTrail, blanketOf, joined } = await import(url)
            return questions.map(([kinds, edges, a, b, given]) => {
                const names = kinds.map((_, i) => String(i))
                const graph = joined(names, kinds, edges.map(e => e[0]), edges.map(e => e[1]))
                const random = names.filter(n => graph[n].kind !== 'deterministic')
                return [
                    activeTrail(graph, String(a), String(b), given.map(String)).length === 0,
                    Object.fromEntries(random.map(n => [n, blanketOf(graph, n).sort()])),
                ]
            })
        }""",
        [joined("graph_model.mjs"), questions],
    )
    assert [free for free, _ in answers] == truths and 150 < sum(truths) < 850
    assert [near for _, near in answers] == blankets
    assert sum(len(near) for row in blankets for near in row.values()) > 5000


def test_by_keyboard_alone(page, tmp_path):
    """Tab reaches the graph once; arrows walk it, Enter explains, Shift-Enter asks, Escape closes."""
    graph = show(page, tmp_path, MODELS["mixture"]())
    page.get_by_placeholder("find a node").focus()
    for _ in range(8):
        graph.press("Tab")
        if graph.focused.startswith("w:"):
            break
    assert graph.focused == "w: latent · continuous · 3; read by z"
    graph.lit(["z"])
    graph.press("ArrowDown")
    assert graph.focused.startswith("z: latent · discrete · 20 · in plate n; reads w; read by x")
    graph.lit(["w", "mu", "x"])
    graph.press("Enter")
    graph.until("doc.get_model_by_name('graph-panel').text.includes('Categorical(w)')")
    button = page.get_by_role("button", name="z: latent")
    assert button.get_attribute("aria-pressed") == "true"
    graph.press("End", "Shift+Enter")
    assert graph.focused.startswith("x: observed")
    graph.until("doc.get_model_by_name('graph-panel').text.includes('z and x depend on each other')")
    graph.press("ArrowUp", "ArrowLeft", "Escape")
    graph.until("doc.get_model_by_name('graph-panel').text.includes('Hover over a node')")
    shot(page, "graph_keyboard")
    graph.press("Shift+Tab")
    assert not graph.focused.startswith(("w:", "mu:", "z:", "x:"))
    graph.until("doc.get_model_by_name('graph-nodes').data.lit.every(v => !v)")


def test_overview_detail_and_fit_of_a_hundred_sites(page, tmp_path):
    graph = show(page, tmp_path, MODELS["hundred"]())
    assert graph.names == ["root", "effect*", "obs*"]
    page.mouse.dblclick(*graph.place("effect*"))
    graph.until("doc.get_model_by_name('graph-nodes').data.name.length === 101")
    wide = graph.ask("doc.get_model_by_name('graph').width")
    page.mouse.move(5, 5)
    shot(page, "graph_detail")
    page.get_by_role("button", name="fit", exact=True).click()
    graph.until("doc.get_model_by_name('graph').width <= 980 && doc.get_model_by_name('graph').height <= 700")
    assert wide > 980
    page.wait_for_timeout(500)  # the words and lines follow the new size
    graph.hover("effect_7")
    graph.lit(["effect_1", "effect_24", "effect_25", "effect_26", "obs_7"])
    shot(page, "graph_fit")
    page.get_by_role("button", name="overview", exact=True).click()
    graph.until("doc.get_model_by_name('graph-nodes').data.name.length === 3")


@pytest.mark.parametrize(
    ("names", "edges"),
    [
        (["only"], []),
        (["a", "b", "c"], []),
        (["x", "x ", "X", "х"], [("x", "X"), ("x ", "X"), ("х", "X")]),
        (["constructor", "__proto__", "toString"], [("constructor", "toString"), ("__proto__", "toString")]),
    ],
)
def test_odd_graphs_answer(page, tmp_path, names, edges):
    """One node, no edges, names that look alike, names of JavaScript's own properties."""
    bare = DependencyGraph([Node(n, "latent", distribution="Normal(0, 1)") for n in names], edges)
    path = tmp_path / "odd.html"
    path.write_text(file_html(graph_root(bare), INLINE, "graph"), encoding="utf-8")
    page.goto(path.as_uri())
    graph = Graph(page)
    assert graph.names == names
    for name in names:
        graph.hover(name)
        graph.lit(bare.markov_blanket(name))
        graph.click(name)
        graph.until("doc.get_model_by_name('graph-panel').text.includes('Normal(0, 1)')")
        assert name.strip() in graph.panel


def test_a_thousand_sites_are_told_in_words(page, tmp_path):
    nodes = [Node(f"v{i}{'ab'[i % 2]}", "latent") for i in range(1000)]
    chain = DependencyGraph(nodes, [(nodes[i].name, nodes[i + 1].name) for i in range(999)])
    path = tmp_path / "many.html"
    path.write_text(file_html(graph_root(chain), INLINE, "graph"), encoding="utf-8")
    page.goto(path.as_uri())
    page.get_by_text("1000 nodes (1000 latent) and 999 edges: too many to draw at once.").wait_for()
    page.get_by_text("The longest path has 999 edges.").wait_for()
