"""Time from `show_graph` to the painted graph, and what it adds to a saved notebook, for 20 and 300 sites.

    python benchmarks/graph_paint.py

Python's part (layout, texts, serialising) is timed in this process, the browser's part (unpacking, shapes,
painting) in headless Chromium from the moment in which the page has BokehJS. The model itself is analysed
before. Least of five.
"""

import json
import shutil
import tempfile
import time
from pathlib import Path

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
from bokeh.embed import file_html
from bokeh.resources import INLINE
from gibbsite.views import graph_root, show_graph
from playwright.sync_api import sync_playwright

DETAIL = """detail => new Promise(resolve => {
    const doc = Bokeh.documents[0]
    const control = doc.get_model_by_name('graph-detail')
    const began = performance.now()
    const nodes = doc.get_model_by_name('graph-nodes')
    const seen = nodes.data.name.length
    const done = () => requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - began)))
    nodes.change.connect(() => { if (nodes.data.name.length !== seen) done() })
    control.active = control.labels.indexOf(detail)
})"""
FIRST = """() => performance.getEntriesByName('painted')[0].startTime
    - performance.getEntriesByName('bokeh')[0].startTime"""
# Runs before the page's own scripts: when BokehJS is there, and when the first nodes are painted.
WATCH = """
let loaded = false
const timer = setInterval(() => {
    const documents = globalThis.Bokeh?.documents
    if (documents && !loaded) { loaded = true; performance.mark('bokeh') }
    const nodes = documents?.[0]?.get_model_by_name('graph-nodes')
    if (nodes?.data.name.length) {
        clearInterval(timer)
        requestAnimationFrame(() => setTimeout(() => performance.mark('painted')))
    }
}, 1)"""


def tree(y):
    """A tree of effects, each observed."""
    values = [numpyro.sample("root", dist.Normal(0, 1))]
    for i in range(len(y)):
        values.append(numpyro.sample(f"effect_{i}", dist.Normal(values[i // 3], 1.0)))
        numpyro.sample(f"obs_{i}", dist.Normal(values[-1], 1.0), obs=y[i])


def least(fn, times=5):
    """The least number of seconds."""
    out = []
    for _ in range(times):
        began = time.perf_counter()
        fn()
        out.append(time.perf_counter() - began)
    return min(out)


def browser(page, model, folder):
    """Milliseconds to the first paint, and to all sites painted where the first is an overview."""
    path = folder / "graph.html"
    path.write_text(file_html(graph_root(model.graph, model), INLINE, "graph"), encoding="utf-8")
    first, whole = [], []
    for _ in range(5):
        page.goto(path.as_uri())
        page.wait_for_function("() => performance.getEntriesByName('painted').length")
        first.append(page.evaluate(FIRST))
        seen = page.evaluate("() => Bokeh.documents[0].get_model_by_name('graph-nodes').data.name.length")
        if seen < len(model.graph.nodes):
            whole.append(page.evaluate(DETAIL, "folded"))
    return min(first), min(whole, default=0.0)


def main():
    """Measure and print."""
    chrome = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        page = playwright.chromium.launch(executable_path=chrome, args=["--no-sandbox"]).new_page()
        page.add_init_script(WATCH)
        for sites in (21, 299):
            model = gb.model(tree, np.zeros(sites // 2, np.float32))
            model.graph, model.schedule()
            show_graph(model)
            python = least(lambda model=model: show_graph(model))
            first, whole = browser(page, model, Path(folder))
            state = {k: v for k, v in show_graph(model).get_state().items() if k != "_library"}
            size = len(json.dumps(state, default=lambda value: bytes(value).hex()))
            print(
                f"{sites} sites: Python {python:.2f} s, first paint {first / 1000:.2f} s"
                + (f", all sites {whole / 1000:.2f} s more" if whole else "")
                + f"; {size / 1000:.0f} kB in a saved notebook"
            )


if __name__ == "__main__":
    main()
