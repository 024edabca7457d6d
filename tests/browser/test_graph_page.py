"""The interactive graph, and a run, in exported pages, without a kernel, as a person uses them."""

from html import escape
from itertools import pairwise

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from bokeh.embed import file_html
from bokeh.resources import INLINE
from gibbsite.graph import DependencyGraph, Node
from gibbsite.views import graph_root
from gibbsite.views.plotted import plot_run
from helpers.models.graph_models import hmm, hundred, lda, looped, mixture, ratings, schools
from helpers.pages.fakes import FakeRun
from helpers.pages.graph_page import Graph, shot


@pytest.fixture
def page(browser):
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    opened.set_default_timeout(30_000)
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


@pytest.mark.slow
def test_the_order_in_which_sites_are_summed_out_is_gone_through(page, tmp_path):
    model = gb.model(mixture, np.linspace(-1, 1, 20, dtype=np.float32)).eliminate("z")
    graph = show(page, tmp_path, model)
    faint = "doc.get_model_by_name('graph-nodes').data"
    page.locator(".bk-btn").filter(has_text="1").first.click()
    page.get_by_text("Step 1 of 1: sum out z").wait_for()
    graph.until(f"Math.min(...{faint}.alpha) < 1")
    shown = dict(graph.ask(f"{faint}.name.map((n, i) => [n, {faint}.alpha[i]])"))
    assert shown["z"] == 1 and shown["x"] == 1
    page.locator(".bk-btn").filter(has_text="all").first.click()
    graph.until(f"Math.min(...{faint}.alpha) === 1")
    page.get_by_text("summed out of the target").wait_for()


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
    "schools": lambda: gb.model(schools, np.zeros((3, 4), np.float32), np.zeros((3, 5), np.int32)),
    "looped": lambda: gb.model(looped, np.zeros(5, np.float32)),
    "hundred": lambda: gb.model(hundred, np.zeros(50, np.float32)),
}


@pytest.mark.slow
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
    graph.tells(latent, "conditional", "kernel")
    shot(page, f"graph_{name}")


@pytest.mark.slow
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


@pytest.mark.slow
def test_any_set_of_plates_closes_and_opens(page, tmp_path):
    """By click and by keyboard; one inside another, and two that cross."""
    graph = show(page, tmp_path, MODELS["schools"]())
    found = "[...doc.get_model_by_name('graph-nodes').data.name].join()"

    def until(names):
        graph.until(f"{found} === '{names}'")
        page.wait_for_timeout(400)  # the figure's size follows

    whole = "mu,region,spread,school,score,hardness,answer"
    page.mouse.click(*graph.label("schools"))
    until("mu,region,spread,plate schools,hardness,answer")
    graph.click("plate schools")
    graph.until("doc.get_model_by_name('graph-panel').text.includes('<dd>school, score</dd>')")
    graph.click("mu")
    graph.click("hardness", "Shift")
    graph.tells("depend on each other given the data: through mu – region – answer – hardness")
    page.mouse.click(*graph.label("items"))
    until("mu,region,spread,plate schools,plate items")
    graph.click("mu")
    graph.click("plate items", "Shift")
    graph.tells("may depend on each other given the data", "open the plate")
    shot(page, "graph_closed")
    page.mouse.dblclick(*graph.place("plate schools"))
    until("mu,region,spread,school,score,plate items")
    page.mouse.click(*graph.label("regions"))
    until("mu,plates regions, items")
    page.mouse.dblclick(*graph.place("plates regions, items"))
    until("mu,region,spread,school,score,plate items")
    page.mouse.dblclick(*graph.place("plate items"))
    until(whole)
    shot(page, "graph_opened")
    for _ in range(2):
        page.get_by_role("button", name="plates closed", exact=True).click()
        until("mu,plates regions, items")
        page.get_by_role("button", name="folded", exact=True).click()
        until(whole)

    # By keyboard: the plates are a stop of the Tab key after the nodes.
    page.get_by_role("button", name="mu: latent").focus()
    graph.press("Tab")
    assert graph.focused == "plate items: 5, open"
    graph.press("ArrowDown", "ArrowDown")
    assert graph.focused == "plate schools: 4, open"
    graph.press("Enter")
    until("mu,region,spread,plate schools,hardness,answer")
    assert graph.focused == "plate schools, closed"
    graph.press("ArrowUp", "Enter")
    until("mu,plate regions,hardness")
    graph.press("Enter")
    until("mu,region,spread,plate schools,hardness,answer")
    page.get_by_role("button", name="plate schools: ").focus()
    graph.press("+")
    until(whole)


@pytest.mark.slow
def test_two_nodes_and_what_is_given(page, tmp_path):
    def chain():
        a = numpyro.sample("a", dist.Normal(0, 1))
        b = numpyro.sample("b", dist.Normal(a, 1))
        numpyro.sample("c", dist.Normal(b, 1))

    graph = show(page, tmp_path, gb.model(chain))
    graph.click("a")
    graph.click("c", "Shift")
    graph.tells("depend on each other given the data: through a – b – c")
    shot(page, "graph_dependent")
    graph.click("b", "Control")
    graph.tells("a and c are independent given the data, b")


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


@pytest.mark.slow
def test_overview_detail_and_fit_of_a_hundred_sites(page, tmp_path):
    graph = show(page, tmp_path, MODELS["hundred"]())
    assert graph.names == ["root", "effect*", "obs*"]
    page.mouse.dblclick(*graph.place("effect*"))
    graph.until("doc.get_model_by_name('graph-nodes').data.name.length === 101")
    wide = graph.ask("doc.get_model_by_name('graph').width")
    page.mouse.move(5, 5)
    seen = "(({left, right}) => [left, right])(doc.get_model_by_name('graph-box'))"
    graph.until(f"{seen}[1] > 300 && {seen}[0] > 0")
    shot(page, "graph_detail")

    # The map: drag the box, click elsewhere, use the arrow keys. What one finds is scrolled to.
    assert graph.ask("doc.get_model_by_name('graph-map').visible")
    left, right = graph.ask(seen)
    assert left < graph.column("x")["root"] < right  # begins at the root
    middle, y = (left + right) / 2, -20
    page.mouse.move(*graph.on_map(middle, y))
    page.mouse.down()
    page.mouse.move(*graph.on_map(middle - 200, y), steps=5)
    page.mouse.up()
    graph.until(f"Math.abs({seen}[0] - {left - 200}) < 20")
    far = graph.ask("doc.get_model_by_name('graph').x_range.end")
    assert abs(graph.scrolled[0] * far / wide - (left - 200)) < 20
    page.mouse.click(*graph.on_map(far - 5, y))
    graph.until(f"Math.abs({seen}[1] - {far}) < 20")
    shot(page, "graph_map")
    page.get_by_role("application", name="Map of the graph").focus()
    graph.press("ArrowLeft")
    graph.until(f"{seen}[1] < {far} - 50")
    page.get_by_placeholder("find a node").fill("obs_39")
    graph.until(f"{seen}[0] < 60")
    page.get_by_placeholder("find a node").fill("")
    page.get_by_role("button", name="fit", exact=True).click()
    graph.until("doc.get_model_by_name('graph').width <= 980 && doc.get_model_by_name('graph').height <= 700")
    assert wide > 980 and not graph.ask("doc.get_model_by_name('graph-map').visible")
    page.wait_for_timeout(500)  # the words and lines follow the new size
    beside = 1200 - 330  # the panel's width
    assert graph.scrolled[0] == 0 and graph.ask("doc.get_model_by_name('graph').width") < beside
    graph.hover("effect_7")
    graph.lit(["effect_1", "effect_24", "effect_25", "effect_26", "obs_7"])
    shot(page, "graph_fit")
    page.get_by_role("button", name="overview", exact=True).click()
    graph.until("doc.get_model_by_name('graph-nodes').data.name.length === 3")


def boxes(graph):
    """Left, top and right of the drawing's box and of the panel."""
    return graph.ask(
        "['graph-scroll', 'graph-panel'].map(n => Bokeh.index.find_one(doc.get_model_by_name(n)).el"
        ".getBoundingClientRect()).map(b => [b.left, b.top, b.right])"
    )


@pytest.mark.share(3)
@pytest.mark.parametrize(("width", "deep", "beside"), [(1400, 1, True), (900, 6, True), (700, 6, False)])
def test_the_panel_opens_beside_a_wide_drawing_that_would_push_it_out_of_sight(
    page, tmp_path, width, deep, beside
):
    across, down = [f"a{i}" for i in range(14)], [f"z{i}" for i in range(deep)]
    edges = [*((a, "z0") for a in across), *pairwise(down)]
    nodes = [Node(n, "latent", distribution="Normal(0, 1)") for n in [*across, *down]]
    graph_of = DependencyGraph(nodes, edges)
    path = tmp_path / "wide.html"
    path.write_text(file_html(graph_root(graph_of), INLINE, "graph"), encoding="utf-8")
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(path.as_uri())
    graph = Graph(page)
    graph.click("z0")
    graph.until("doc.get_model_by_name('graph-panel').text.includes('<h4>z0')")
    drawing, panel = boxes(graph)
    assert panel[2] <= width and drawing[2] <= width
    assert (panel[0] >= drawing[2] and panel[1] < 120) if beside else panel[0] < 20
    shot(page, f"graph_panel_{width}")


@pytest.mark.share(5)
@pytest.mark.parametrize(
    ("names", "edges"),
    [
        (["only"], []),
        (["a", "b", "c"], []),
        (["x", "x ", "X", "х"], [("x", "X"), ("x ", "X"), ("х", "X")]),
        (["constructor", "__proto__", "toString"], [("constructor", "toString"), ("__proto__", "toString")]),
        (
            ["<img src=x onerror=alert(1)>", "</script><b>"],
            [("<img src=x onerror=alert(1)>", "</script><b>")],
        ),
    ],
)
def test_odd_graphs_answer(page, tmp_path, names, edges):
    """One node, no edges, names that look alike, names of JavaScript's own properties, names with markup."""
    bare = DependencyGraph([Node(n, "latent", distribution="Normal(0, 1) <i>") for n in names], edges)
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
        graph.tells(escape(name.strip()))
    if len(names) > 1:
        graph.click(names[0], "Shift")
        graph.tells("the data")
    assert page.locator("img").count() == page.locator("b").count() == page.locator("i").count() == 0


def test_a_thousand_sites_are_told_in_words(page, tmp_path):
    nodes = [Node(f"v{i}{'ab'[i % 2]}", "latent") for i in range(1000)]
    chain = DependencyGraph(nodes, [(nodes[i].name, nodes[i + 1].name) for i in range(999)])
    path = tmp_path / "many.html"
    path.write_text(file_html(graph_root(chain), INLINE, "graph"), encoding="utf-8")
    page.goto(path.as_uri())
    page.get_by_text("1000 nodes (1000 latent) and 999 edges: too many to draw at once.").wait_for()
    page.get_by_text("The longest path has 999 edges.").wait_for()


@pytest.mark.slow
def test_a_run_as_a_page_answers_without_its_kernel(page, tmp_path):
    run = FakeRun()
    for _ in range(20):
        run.advance(50)
    page.goto(plot_run(run).save(tmp_path / "run.html").as_uri())
    page.get_by_text("Convergence", exact=True).click()
    plot = page.locator(".bk-Figure").filter(visible=True).first
    plot.wait_for()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.get_by_text("draw:").first.wait_for()


@pytest.mark.slow
def test_the_course_of_a_run_is_played_without_its_kernel(page, tmp_path):
    run = FakeRun()
    run.warm_up(120)
    for _ in range(20):
        run.advance(50)
    picture = plot_run(run)
    worst = run.values(run.snapshot().scalars[0].label)
    page.goto(picture.save(tmp_path / "run.html").as_uri())
    page.get_by_text("Convergence", exact=True).wait_for()
    player, words = page.locator(".gb-player"), page.locator(".gb-player output")
    page.wait_for_function("() => document.querySelector('.gb-player')?.hidden === true")  # of another tab
    page.get_by_text("Convergence", exact=True).click()
    assert words.inner_text() == "1\u202f000 of 1\u202f000 draws × 4 chains"
    column = """name => {
        const { data } = [...Bokeh.documents[0]._all_models.values()].find(m => m.name === name)
        return Object.fromEntries(Object.entries(data).map(([key, of]) => [key, [...of]])) }"""
    shown = page.evaluate(column, "trace0")
    assert len(shown["draw"]) > 200 and shown["draw"][-1] > 990  # the last is as fine as a live view is
    np.testing.assert_allclose(shown["chain 0"], worst[0, shown["draw"]], atol=0.001)

    slider = player.get_by_role("slider")
    slider.fill("0")
    assert words.inner_text() == "167 of 1\u202f000 warm-up steps × 4 chains"
    page.get_by_text("these steps are no draws").wait_for()
    ranks = "() => [...Bokeh.documents[0]._all_models.values()].find(m => m.name === 'plot ranks0').visible"
    assert page.evaluate(ranks) is False and page.evaluate(column, "run0")["rhat"] == []
    slider.fill("12")
    assert words.inner_text() == "269 of 1\u202f000 draws × 4 chains" and page.evaluate(ranks) is True
    assert 250 < page.evaluate(column, "trace0")["draw"][-1] < 269
    assert page.evaluate(column, "run0")["draw"] == [38, 77, 115, 154, 192, 231, 269]
    assert page.locator(".gb-told tr").count() == 4

    slider.press("ArrowRight")
    assert words.inner_text().startswith("308 of")
    slider.fill("29")
    page.get_by_role("button", name="play").click()
    page.get_by_role("button", name="pause").wait_for()
    page.get_by_role("button", name="play").wait_for()  # it has come to the end
    assert words.inner_text().startswith("1\u202f000 of")
    page.get_by_text("Posterior", exact=True).click()
    page.wait_for_function("() => document.querySelector('.gb-player').hidden")
    for width in (700, 1400):
        page.set_viewport_size({"width": width, "height": 1000})
        page.get_by_text("Convergence", exact=True).click()
        page.wait_for_timeout(300)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth + 1")
        shot(page, f"course_{width}")
