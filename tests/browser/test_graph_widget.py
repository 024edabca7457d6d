"""The graph in JupyterLab, with a kernel: change the model, watch a run."""

import contextlib
import json
from typing import NamedTuple

import pytest
from helpers import TESTS
from helpers.pages.graph_page import Graph
from playwright.sync_api import TimeoutError

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
    "run = mixture.start(draws=2_000_000, warmup=300, chains=2, seed=0)\nview.attach(run)",
    """import pandas as pd
counties = ["Aitkin", "Hennepin", "Ramsey", "Dakota"]
df = pd.DataFrame({"y": x, "county": pd.Categorical(counties * 10)})
""",
    """%%model radon(df)
mu ~ Normal(0, 5)
with plate("county", 4):
    alpha ~ Normal(mu, 1)
df.y ~ Normal(alpha[df.county], 1)
""",
    "labelled = %sample radon -n 40 -w 20 -c 2",
)
LATEST = "[...(globalThis.__gibbsiteDocuments ?? [])].filter(d => d.get_model_by_name('graph')).at(-1)"
MESSAGE = "doc.get_model_by_name('graph-message').text"


SETUP = f"""import sys
sys.path.insert(0, {str(TESTS)!r})
import numpy as np
import gibbsite as gb
from gibbsite.views import show_graph
from helpers.models.graph_models import hmm, hundred, lda
rng = np.random.default_rng(3)
MODELS = {{
    "hmm": gb.model(hmm, np.repeat([-3.0, 0.0, 3.0], 7).astype("float32")),
    "lda": gb.model(lda, rng.integers(0, 7, 30), np.arange(30) // 10),
    "hundred": gb.model(hundred, np.zeros(50, "float32")),
}}"""
SHOW = "view = show_graph(MODELS[{name!r}])\nview"


class Steps(NamedTuple):
    """What is done to one model: whose element is asked for, what is changed, which nodes are asked about."""

    element: tuple[str, str]
    node: str
    kernel: str
    value: str
    pair: tuple[str, str]
    given: str


STEPS = {
    "hmm": Steps(("z", "5"), "mu", "Slice", "[-3, 0, 3]", ("P", "mu"), "z"),
    "lda": Steps(("z", "17"), "theta", "Independence", "[0.1, 0.2, 0.3, 0.4]", ("theta", "phi"), "z"),
    "hundred": Steps(("effect_7", ""), "effect_7", "Slice", "0.5", ("effect_7", "effect_8"), "effect_1"),
}


def test_changing_and_watching_a_model_in_a_notebook(lab):
    lab.page.set_viewport_size({"width": 1280, "height": 1400})
    lab.write("ask.ipynb", *CELLS)
    lab.open("ask.ipynb")
    for cell in (0, 1):
        lab.run_cell(cell)

    # The model's own cell shows its graph: hover lights exactly the Markov blanket, a click explains.
    graph = Graph(lab.page, f"({LATEST})")
    lab.shot("graph")
    for name, blanket in {"w": "z", "mu": "z x", "z": "w mu x", "x": "z mu"}.items():
        graph.hover(name)
        graph.lit(blanket.split())
        assert set(lab.python(f"print(*mixture.graph.markov_blanket({name!r}))").split()) == set(
            blanket.split()
        )
    graph.hover("mu")
    lab.shot("graph_hover")
    graph.click("z")
    graph.tells("Categorical", "finite")
    lab.page.mouse.move(5, 500)
    graph.lit([])
    lab.run_cell(2)
    graph = Graph(lab.page, f"({LATEST})")

    # A plate closes and opens.
    lab.page.mouse.click(*graph.label("n"))
    names = "[...doc.get_model_by_name('graph-nodes').data.name]"
    graph.until(f"{names}.join() === 'w,mu,plate n'")
    lab.page.mouse.dblclick(*graph.place("plate n"))
    graph.until(f"{names}.join() === 'w,mu,z,x'")
    lab.page.wait_for_timeout(500)  # or the next click is the third of one

    graph.click("z")
    lab.page.get_by_placeholder("value or [index]").last.fill("17")
    lab.page.get_by_role("button", name="element").last.click()
    graph.until(f"{MESSAGE}.includes('z[17]: w[any], mu[any], x[17]')")

    graph.click("mu")
    lab.page.locator("select").last.select_option("Slice")
    lab.page.get_by_role("button", name="use kernel").last.click()
    graph.until(f"{MESSAGE}.includes('Slice mu')")
    lab.page.get_by_placeholder("value or [index]").last.fill("[-3, 3]")
    lab.page.get_by_role("button", name="condition").last.click()
    graph.until(f"{MESSAGE}.includes('.condition(mu=[-3, 3])')")
    graph.hover("w")
    lab.shot("graph_conditioned")
    assert lab.python("print(view.graph.nodes['mu'].kind)").strip() == "observed"
    lab.page.get_by_role("button", name="undo").last.click()
    graph.until(f"{MESSAGE}.includes('Undone')")

    lab.page.get_by_placeholder("value or [index]").last.wait_for()
    graph.click("z")
    lab.page.get_by_placeholder("value or [index]").last.fill("1")
    lab.page.get_by_role("button", name="do", exact=True).last.click()
    graph.until(f"{MESSAGE}.includes('.do(z=1)')")
    assert lab.python("print(view.graph.parents('z'))").strip() == "()"
    lab.shot("graph_intervened")
    lab.page.get_by_role("button", name="undo").last.click()
    graph.until("[...doc.get_model_by_name('graph-nodes').data.words].some(w => w.includes('Categorical'))")
    lab.page.get_by_placeholder("value or [index]").last.fill("5")
    lab.page.get_by_role("button", name="condition").last.click()
    graph.until(f"{MESSAGE}.includes('outside the support')")
    lab.page.get_by_role("button", name="undo").last.click()
    graph.until(f"{MESSAGE}.includes('Undone')")

    # Other coordinates, and one block.
    graph.click("mu")
    graph.press_button("make non-centred")
    graph.until(f"{MESSAGE}.includes('.reparam(mu=')")
    graph.until(f"{names}.join() === 'w,mu_decentered,mu,z,x'")
    lab.shot("graph_reparam")
    graph.press_button("undo")
    graph.until(f"{names}.join() === 'w,mu,z,x'")
    graph.click("mu")
    graph.click("w", "Shift")
    graph.press_button("one block with w")
    graph.until(f"{MESSAGE}.includes('NUTS [mu w]') && {MESSAGE}.includes('.with_schedule(')")
    graph.press_button("undo")
    graph.until(f"{MESSAGE}.includes('Undone')")

    # A run in the background: the badges move while it goes on.
    badges = "[...doc.get_model_by_name('graph-nodes').data.badge]"
    graph.click("mu")
    assert not any(graph.ask(badges))
    lab.run_cell(3)
    graph.until(f"{badges}.filter(b => b).length === 3", timeout=240_000)
    graph.until("doc.get_model_by_name('graph-panel').text.includes('<svg')")
    graph.tells("R-hat", "worst element mu[")
    for _ in range(2):
        seen = json.dumps(graph.ask("doc.get_model_by_name('graph-panel').text"))
        graph.until(f"doc.get_model_by_name('graph-panel').text !== {seen}")
    assert lab.python("print(run.status)").strip() == "sampling"
    lab.shot("graph_live")
    assert set("".join(b[0] for b in graph.ask(badges) if b)) <= set("✓…!")
    lab.python("run.stop(); run.wait()")

    # Dark, and by keyboard: JupyterLab leaves the keys to the graph.
    lab.command("apputils:change-theme", {"theme": "JupyterLab Dark"})
    lab.page.wait_for_selector(".gb-view.gb-dark")
    lab.page.get_by_role("button", name="w: latent").last.focus()
    graph.press("ArrowDown", "Enter")
    graph.until("doc.get_model_by_name('graph-panel').text.includes('Categorical(w)')")
    assert graph.focused.startswith("z: latent")
    lab.page.get_by_placeholder("find a node").last.click()
    lab.page.keyboard.type("mu")
    graph.until("doc.get_model_by_name('graph-panel').text.includes('Normal(0, 5)')")
    lab.shot("graph_dark")
    lab.command("apputils:change-theme", {"theme": "JupyterLab Light"})
    lab.page.wait_for_selector(".gb-view.gb-dark", state="detached")

    # The name is bound anew: the old graph says that it shows the earlier model.
    lab.python("mixture = mixture.condition(w=[0.5, 0.5])")
    since = f"{MESSAGE}.includes('bound to another model since')"
    graph.click("z")
    with contextlib.suppress(TimeoutError):  # the click may fall into the change of colours
        graph.until(since, timeout=20_000)
    graph.click("mu")
    graph.click("z")
    graph.until(since)

    # A table's labels: in nodes, plates and panel, in the dashboard, the summary and the DataTree. On a page
    # that is a little too narrow for it the drawing is smaller.
    lab.page.set_viewport_size({"width": 1000, "height": 1400})
    for cell in (4, 5, 6):
        lab.run_cell(cell)
    graph.until(f"{names}.includes('alpha')")
    assert graph.ask("[...doc.get_model_by_name('graph-plates').data.label]") == ["county: 4"]
    words = graph.ask("[...doc.get_model_by_name('graph-nodes').data.words]")
    assert any("Aitkin, Dakota, Hennepin, Ramsey" in w for w in words)
    assert graph.ask("doc.get_model_by_name('graph').width <= doc.gibbsiteBox.clientWidth")
    graph.click("alpha")
    graph.tells("county: Aitkin, Dakota, Hennepin, Ramsey")
    graph.type_in("value", "Hennepin")
    graph.press_button("element")
    graph.until(f"{MESSAGE}.includes('alpha[Hennepin]: mu, y[1]')")
    lab.page.wait_for_selector(".gb-dash tbody tr:has-text('alpha[Hennepin]')")
    told = "print('alpha[Hennepin]' in labelled.summary().to_string(),"
    told += " labelled.derive('alpha[Hennepin] - alpha[Ramsey]').shape,"
    told += " *labelled.to_datatree()['posterior']['county'].values)"
    assert lab.python(told).split() == ["True", "()", "Aitkin", "Dakota", "Hennepin", "Ramsey"]
    lab.shot("graph_labelled")
    lab.assert_quiet()


@pytest.mark.slow
def test_three_more_models_are_asked_and_changed(lab):
    lab.page.set_viewport_size({"width": 1280, "height": 1500})
    lab.write("more.ipynb", SETUP, *(SHOW.format(name=name) for name in STEPS))
    lab.open("more.ipynb")
    lab.run_cell(0)
    for cell, (name, todo) in enumerate(STEPS.items(), 1):
        lab.run_cell(cell)
        lab.scroll_to(cell)
        page = lab.page
        graph = Graph(page, f"({LATEST})")
        if name == "hundred":
            page.get_by_role("button", name="folded", exact=True).last.click()
            graph.until("doc.get_model_by_name('graph-nodes').data.name.length === 101")

        # Find, hover, click.
        page.get_by_placeholder("find a node").last.fill(todo.node)
        graph.until(f"doc.get_model_by_name('graph-panel').text.includes('<h4>{todo.node}</h4>')")
        page.get_by_placeholder("find a node").last.fill("")
        for node in (todo.node, *todo.pair):
            graph.hover(node)
            graph.lit(lab.python(f"print(*view.graph.markov_blanket({node!r}))").split())
        graph.click(todo.node)
        graph.tells("conditional", "kernel")

        # One element.
        site, index = todo.element
        graph.click(site)
        graph.type_in("value", index)
        graph.press_button("element")
        graph.until(f"{MESSAGE}.includes({json.dumps(element(lab, site, index))})")

        # Another kernel, a value, an intervention, and back.
        graph.click(todo.node)
        page.locator("select").last.select_option(todo.kernel)
        graph.press_button("use kernel")
        graph.until(f"{MESSAGE}.includes('{todo.kernel} {todo.node}')")
        graph.type_in("value", todo.value)
        for action, kind in (("condition", "observed"), ("do", "deterministic")):
            graph.press_button(action)
            graph.until(f"{MESSAGE}.includes('.{action}({todo.node}={todo.value})')")
            assert lab.python(f"print(view.graph.nodes[{todo.node!r}].kind)").strip() == kind
            graph.press_button("undo")
            graph.until(f"{MESSAGE}.includes('Undone')")
        graph.press_button("undo")
        graph.until(f"{MESSAGE}.includes('schedule: ' + {json.dumps(default_of(lab, name))})")

        # Two nodes, and what opens or closes the way between them.
        graph.click(todo.pair[0])
        graph.click(todo.pair[1], "Shift")
        asked = f"print(bool(view.graph.independent(*{todo.pair}, given)))"
        for given in ((), (todo.given,)):
            if given:
                graph.click(todo.given, "Control")
            free = lab.python(f"given = {given}\n{asked}").strip() == "True"
            lab.shot(f"graph_asked_{name}")
            words = "are independent given" if free else "depend on each other given"
            graph.until(f"doc.get_model_by_name('graph-panel').text.includes({words!r})")
    lab.assert_quiet()


def element(lab, site, index):
    """What there is to tell of one element."""
    code = "from gibbsite.graph import element_text\n"
    code += f"print(element_text({site!r}, at := ({index},), view.model.element_blanket({site!r}, at)))"
    return lab.python(code.replace("(,)", "()")).strip()


def default_of(lab, name):
    """The schedule of a model as it was."""
    return lab.python(f"print(MODELS[{name!r}].schedule().text)").strip()


def test_the_line_is_written_where_the_graph_is_though_notebooks_share_a_kernel(lab):
    lab.write("first.ipynb", CELLS[0])
    lab.open("first.ipynb")
    lab.run_cell(0)
    lab.write("second.ipynb", CELLS[1], "'below'")
    lab.open("second.ipynb")
    lab.run_cell(0)
    graph = Graph(lab.page, f"({LATEST})")
    graph.click("mu")
    graph.press_button("make non-centred")
    graph.until(f"{MESSAGE}.includes('.reparam(mu=')")
    graph.click("w")
    lab.page.get_by_placeholder("value or [index]").last.fill("[0.5, 0.5]")
    lab.page.get_by_role("button", name="do", exact=True).last.click()
    graph.until("[...doc.get_model_by_name('graph-nodes').data.words].includes('[0.5, 0.5] (set)')")
    graph.press_button("write the line")
    lab.page.get_by_role("button", name="written into a new cell below").last.wait_for()
    sources = lab.page.evaluate(
        "() => Object.fromEntries([...jupyterapp.shell.widgets('main')].filter(w => w.context).map(w =>"
        " [w.context.path, w.content.widgets.map(cell => cell.model.sharedModel.getSource())]))"
    )
    assert sources["first.ipynb"] == [CELLS[0]]
    lines = "mixture = mixture.reparam(mu='non-centred')\nmixture = mixture.do(w=[0.5, 0.5])"
    assert sources["second.ipynb"] == [CELLS[1], lines, "'below'"]
