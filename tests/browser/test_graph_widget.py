"""The graph in JupyterLab, with a kernel: change the model, watch a run, come back later."""

import json

from graph_page import Graph

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
    "run = mixture.start(draws=400_000, warmup=300, chains=2, seed=0)\nview.attach(run)",
)
LATEST = "[...(globalThis.__gibbsiteDocuments ?? [])].filter(d => d.get_model_by_name('graph')).at(-1)"


def test_changing_and_watching_a_model_in_a_notebook(lab):
    lab.page.set_viewport_size({"width": 1280, "height": 1400})
    lab.write("ask.ipynb", *CELLS)
    lab.open("ask.ipynb")
    lab.python("get_ipython().run_line_magic('load_ext', 'gibbsite')\n%config Gibbsite.show_graph = False")
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

    lab.page.get_by_placeholder("value or [index]").last.wait_for()
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
    lab.page.get_by_role("button", name="undo").last.click()
    graph.until(f"{message}.includes('Undone')")

    # A run in the background: the badges move while it goes on.
    badges = "[...doc.get_model_by_name('graph-nodes').data.badge]"
    graph.click("mu")
    assert not any(graph.ask(badges))
    lab.run_cell(3)
    graph.until(f"{badges}.filter(b => b).length === 3", timeout=240_000)
    graph.until("doc.get_model_by_name('graph-panel').text.includes('<svg')")
    assert "R-hat" in graph.panel and "worst element mu[" in graph.panel
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
    graph.click("z")
    graph.until(f"{message}.includes('bound to another model since')")
    lab.save()
    lab.assert_quiet()

    # Saved, re-opened without a kernel, and converted.
    html = [o.data.get("text/html", "") for o in lab.read("ask.ipynb").cells[2].outputs if "data" in o]
    assert sum("gibbsite-svg" in text for text in html) == 1
    lab.command("kernelmenu:shutdown")
    lab.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel")
    lab.reload()
    lab.scroll_to(2)
    lab.picture("Dependency graph: 4 nodes")
    lab.shot("graph_reopened")
    lab.page.goto(lab.converted("ask.ipynb"))
    lab.picture("Dependency graph: 4 nodes")
