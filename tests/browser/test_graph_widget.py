"""The interactive graph as a person uses it: in an exported page without a kernel, and in JupyterLab."""

import itertools
import json
import re

import gibbsite as gb
import jax.numpy as jnp
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

DOC = "(globalThis.Bokeh.documents.find(d => d.get_model_by_name('graph')))"
PLACE = """([name, doc]) => {
    const plot = doc.get_model_by_name('graph')
    const view = (globalThis.Bokeh.index ?? Bokeh.index).find_one(plot) ?? doc.views_manager.find_one(plot)
    const data = doc.get_model_by_name('graph-nodes').data
    const i = [...data.name].indexOf(name)
    const { x_scale, y_scale } = view.frame
    for (let el = view.el; el; el = el.parentNode ?? el.host) {  // large graphs lie in a box that scrolls
        if (el.scrollWidth > el.clientWidth + 20 || el.scrollHeight > el.clientHeight + 20) {
            el.scrollLeft = x_scale.compute(data.x[i]) - 300
            el.scrollTop = y_scale.compute(data.title_y[i]) - 300
            break
        }
    }
    const box = view.canvas_view.el.getBoundingClientRect()
    return [box.x + x_scale.compute(data.x[i]), box.y + y_scale.compute(data.title_y[i])]
}"""


class Graph:
    """A graph on a page, and what a person does to it. `doc` is JavaScript that finds its document."""

    def __init__(self, page, doc=DOC):
        self.page, self.doc = page, doc
        drawn = f"{doc}?.get_model_by_name('graph-nodes')?.data.name.length > 0"
        page.wait_for_function(f"() => {drawn}", timeout=60_000)
        page.wait_for_timeout(300)

    def ask(self, expression):
        return self.page.evaluate(f"() => {{ const doc = {self.doc}; return {expression} }}")

    def until(self, expression, **more):
        self.page.wait_for_function(f"() => {{ const doc = {self.doc}; return {expression} }}", **more)

    def place(self, name):
        return self.page.evaluate(f"name => ({PLACE})([name, {self.doc}])", name)

    def hover(self, name):
        self.page.mouse.move(*self.place(name))

    def click(self, name, key=None):
        if key:
            self.page.keyboard.down(key)
        self.page.mouse.click(*self.place(name))
        if key:
            self.page.keyboard.up(key)
        self.page.wait_for_timeout(350)  # a tap waits for a second one

    @property
    def names(self):
        return self.ask("[...doc.get_model_by_name('graph-nodes').data.name]")

    def column(self, name):
        data = f"doc.get_model_by_name('graph-nodes').data.{name}"
        return dict(zip(self.names, self.ask(f"[...{data}]"), strict=True))

    @property
    def panel(self):
        text = re.sub(r"<style>.*?</style>", "", self.ask("doc.get_model_by_name('graph-panel').text"))
        return re.sub(r"<[^>]+>", " ", text)

    def lit(self, names):
        wanted = json.dumps(sorted(names), separators=(",", ":"))
        self.until(
            "(() => { const d = doc.get_model_by_name('graph-nodes').data;"
            f"return JSON.stringify([...d.name].filter((_, i) => d.lit[i]).sort()) === '{wanted}' }})()"
        )


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


def shot(page, name):
    from pathlib import Path

    folder = Path(__file__).parent / "screenshots"
    folder.mkdir(exist_ok=True)
    page.screenshot(path=folder / f"{name}.png")


def lda(words, docs):
    with numpyro.plate("topics", 4):
        phi = numpyro.sample("phi", dist.Dirichlet(jnp.ones(7)))
    with numpyro.plate("documents", 3):
        theta = numpyro.sample("theta", dist.Dirichlet(jnp.ones(4)))
    with numpyro.plate("tokens", len(words)):
        z = numpyro.sample("z", dist.Categorical(theta[docs]))
        numpyro.sample("words", dist.Categorical(phi[z]), obs=words)


def looped(x):
    rows = numpyro.sample("P", dist.Dirichlet(jnp.ones((3, 3))).to_event(1))
    z = None
    for t in range(len(x)):
        z = numpyro.sample(f"z[{t}]", dist.Categorical(jnp.ones(3) / 3 if z is None else rows[z]))
        numpyro.sample(f"x[{t}]", dist.Normal(z, 0.5), obs=x[t])


def steps(y):
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    scaled = numpyro.deterministic("scaled", 2 * tau)
    sd = numpyro.deterministic("sd", scaled + 1)
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    numpyro.sample("y", dist.Normal(mu, sd).expand([3]), obs=y)
    numpyro.sample("y_new", dist.Normal(mu, sd))


def hundred(y):
    values = [numpyro.sample("root", dist.Normal(0, 1))]
    for i in range(50):
        values.append(numpyro.sample(f"effect_{i}", dist.Normal(values[i // 3], 1.0)))
        numpyro.sample(f"obs_{i}", dist.Normal(values[-1], 1.0), obs=y[i])


MODELS = {
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


def test_the_page_s_independence_answers_are_d_separation(page):
    """The page's own code on random graphs, against networkx."""
    rng = np.random.default_rng(5)
    questions, truths = [], []
    for _ in range(400):
        n = int(rng.integers(3, 11))
        kinds = rng.choice(["latent", "observed", "deterministic"], n, p=[0.5, 0.2, 0.3]).tolist()
        edges = [(i, j) for i, j in itertools.combinations(range(n), 2) if rng.random() < 2 / n]
        a, b = (int(v) for v in rng.choice(n, 2, replace=False))
        given = [i for i in range(n) if i not in (a, b) and rng.random() < 0.3]
        facts = {
            str(i): {
                "kind": kinds[i],
                "parents": [str(p) for p, c in edges if c == i],
                "children": [str(c) for p, c in edges if p == i],
            }
            for i in range(n)
        }
        questions.append([facts, str(a), str(b), [str(g) for g in given]])
        graph = nx.DiGraph(edges)
        graph.add_nodes_from(range(n))
        fixed = ({i for i in range(n) if kinds[i] == "observed"} | set(given)) - {a, b}
        truths.append(nx.is_d_separator(graph, {a}, {b}, fixed))
    answers = page.evaluate(
        """async ([text, questions]) => {
            const url = URL.createObjectURL(new Blob([text], {type: 'text/javascript'}))
            const { activeTrail } = await import(url)
            return questions.map(q => activeTrail(...q).length === 0)
        }""",
        [joined("graph_model.mjs"), questions],
    )
    assert answers == truths and 50 < sum(truths) < 350


# ------------------------------------------------------------ with a kernel

CELLS = (
    "%load_ext gibbsite\nimport numpy as np\nx = np.repeat([-3.0, 3.0], 20).astype('float32')",
    """%%model mixture(x, K=2)
w  ~ Dirichlet(ones(K))
mu ~ Normal(0, 5).expand([K])
with plate("n", len(x)):
    z ~ Categorical(w)
    x ~ Normal(mu[z], 1.0)
""",
    "from gibbsite.views import show_graph\nview = show_graph(mixture)\nview",
    "run = mixture.sample(draws=200, warmup=200, chains=2, seed=0)\nview.attach(run)",
)
LATEST = "[...(globalThis.__gibbsiteDocuments ?? [])].filter(d => d.get_model_by_name('graph')).at(-1)"


def test_changing_and_watching_a_model_in_a_notebook(lab):
    lab.page.set_viewport_size({"width": 1280, "height": 1400})
    lab.write("ask.ipynb", *CELLS)
    lab.open("ask.ipynb")
    lab.python(
        "get_ipython().run_line_magic('load_ext', 'gibbsite')\n%config GibbsiteMagics.show_graph = False"
    )
    for cell in (0, 1, 2):
        lab.run_cell(cell)
    graph = Graph(lab.page, f"({LATEST})")
    message = "doc.get_model_by_name('graph-message').text"

    graph.click("z")
    lab.page.get_by_placeholder("value or [index]").last.fill("17")
    lab.page.get_by_role("button", name="element").last.click()
    graph.until(f"{message}.includes('z[17]: w[any], mu[any], x[17]')")

    graph.click("mu")
    lab.page.locator("select").last.select_option("Slice")
    lab.page.get_by_role("button", name="use kernel").last.click()
    graph.until(f"{message}.includes('Slice mu')")
    lab.page.get_by_placeholder("value or [index]").last.fill("[-3, 3]")
    lab.page.get_by_role("button", name="condition").last.click()
    graph.until(f"{message}.includes('model.condition(mu=[-3, 3])')")
    graph.hover("w")
    lab.shot("graph_conditioned")
    assert lab.python("print(view.graph.nodes['mu'].kind)").strip() == "observed"
    lab.page.get_by_role("button", name="undo").last.click()
    graph.until(f"{message}.includes('Undone')")

    graph.click("z")
    lab.page.get_by_placeholder("value or [index]").last.fill("1")
    lab.page.get_by_role("button", name="do", exact=True).last.click()
    graph.until(f"{message}.includes('model.do(z=1)')")
    assert lab.python("print(view.graph.parents('z'))").strip() == "()"
    lab.shot("graph_intervened")
    lab.page.get_by_role("button", name="undo").last.click()
    graph.until("[...doc.get_model_by_name('graph-nodes').data.words].some(w => w.includes('Categorical'))")
    lab.page.get_by_placeholder("value or [index]").last.fill("5")
    lab.page.get_by_role("button", name="condition").last.click()
    graph.until(f"{message}.includes('outside the support')")

    lab.run_cell(3, timeout=240)
    graph.until("[...doc.get_model_by_name('graph-nodes').data.badge].filter(b => b).length === 3")
    graph.click("mu")
    graph.until("doc.get_model_by_name('graph-panel').text.includes('R-hat')")
    lab.page.wait_for_timeout(300)
    lab.shot("graph_watched")
    lab.assert_quiet()
