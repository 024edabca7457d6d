"""Seconds from executing `%sample` to the first plotted draws, in a real kernel.

    python benchmarks/first_plot.py [--models schools mixture]
    python benchmarks/first_plot.py --page

Per model three kernels: a fresh one with an empty cache of compiled programs, one that looked at the graph
for ten seconds before (with a cache of its own), and a fresh one that finds what the first has compiled. In
each a model is made by `%%model` and run by `%sample`; the clock stops when the dashboard has draws to plot.
Processor seconds are those of the kernel meanwhile. No browser is attached.

With `--page`, a real JupyterLab in Chromium, one kernel for six models of `first_draw.py`: from Enter on the
cell that samples until the next one can be run, by the clock; processor seconds of the kernel until then, and
those that it takes afterwards for what nobody waits for. The first run of each compiles, the second does not.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.pages import lab as pages  # pyright: ignore[reportMissingImports]
from jupyter_client.manager import start_new_kernel
from playwright.sync_api import sync_playwright

LOOK_SECONDS = 10
SETUP = """
%load_ext gibbsite
import json, threading, time
import numpy as np
from numpyro.distributions import Categorical, Dirichlet, HalfCauchy, Normal
from jax.numpy import ones
from numpyro import plate
from gibbsite.views.run_dashboard import Dashboard
%config Gibbsite.prepare = PREPARE
rng = np.random.default_rng(0)
y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)
x = np.concatenate([rng.normal(-3, 1, 150), rng.normal(3, 1, 150)]).astype(np.float32)
made, plotted = [], threading.Event()
first = Dashboard.__init__
def remembered(self, *args, **kwargs):
    first(self, *args, **kwargs)
    made.append(self)
Dashboard.__init__ = remembered
def watch():
    while not any(view.content.parameters for view in list(made)):
        time.sleep(0.005)
    found.update(clock=time.perf_counter() - clock, processor=time.process_time() - processor)
    plotted.set()
found = {}
"""
MODELS = {
    "schools": """%%model schools(y, sigma)
mu ~ Normal(0, 5)
tau ~ HalfCauchy(5)
with plate("school", len(y)):
    theta ~ Normal(0, 1)
    y ~ Normal(mu + tau * theta, sigma)
""",
    "mixture": """%%model mixture(x, K=3)
w  ~ Dirichlet(ones(K))
mu ~ Normal(0, 5).expand([K])
with plate("n", len(x)):
    z ~ Categorical(w)
    x ~ Normal(mu[z], 1.0)
""",
}
SAMPLE = """clock, processor = time.perf_counter(), time.process_time()
threading.Thread(target=watch, daemon=True).start()
run = %sample NAME
"""
TOLD = """plotted.wait()
print("found", json.dumps(found))
"""


def measured(name: str, cache: str, look: bool) -> dict[str, float]:
    """Seconds by the clock and of the processor, in a kernel of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment |= {"JAX_PLATFORMS": "cpu", "GIBBSITE_CACHE": cache}
    manager, client = start_new_kernel(kernel_name="python3", env=environment)
    try:
        _said(client, SETUP.replace("PREPARE", str(look)))
        _said(client, MODELS[name])
        if look:
            time.sleep(LOOK_SECONDS)
        _said(client, SAMPLE.replace("NAME", name))
        return json.loads(_said(client, TOLD).rpartition("found ")[2])
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _said(client: Any, code: str) -> str:
    """What a cell prints."""
    printed: list[str] = []

    def hear(message: Any) -> None:
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    reply = client.execute_interactive(code, timeout=300, output_hook=hear)
    if reply["content"]["status"] != "ok":
        raise RuntimeError("\n".join(reply["content"]["traceback"]))
    return "".join(printed)


IN_PAGE = """
import os
os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)
os.environ["GIBBSITE_CACHE"] = "off"
%load_ext gibbsite
%config Gibbsite.prepare = False
import sys, time, threading
sys.path.append(HERE)
import first_draw as made
import gibbsite as gb
models = {name: gb.model(made.MODELS[name][0], *made.MODELS[name][1](0)) for name in NAMES}
"""
SIX = ("schools", "mixture", "hmm", "irt", "logistic", "gp")
BUSY = "any(t.name == 'gibbsite beside runs' for t in threading.enumerate())"


def in_page() -> None:
    """Print the table of a page."""
    print(
        "| model | run | clock to the next Enter | processor until then | after |\n|---|---|---:|---:|---:|"
    )
    setup = IN_PAGE.replace("HERE", repr(str(Path(__file__).parent))).replace("NAMES", repr(SIX))
    end = "\nended = time.process_time()"
    cells = [
        part
        for name in SIX
        for part in (f"m = models['{name}']", f"run = %sample m{end}", f"run = %sample m -s 1{end}")
    ]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = pages.start_server(Path(folder))
        try:
            browser = playwright.chromium.launch(executable_path=pages.chromium(), args=["--no-sandbox"])
            page = browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()
            page.set_default_timeout(600_000)
            lab = pages.Lab(server, page)
            lab.write("enter.ipynb", setup, *cells)
            lab.open("enter.ipynb")
            lab.run_cell(0, timeout=900)
            for at, name in enumerate(SIX):
                lab.run_cell(3 * at + 1, timeout=900)
                for second in (0, 1):
                    before = float(lab.python("print(time.process_time())"))
                    clock = time.perf_counter()
                    lab.run_cell(3 * at + 2 + second, timeout=900)
                    clock = time.perf_counter() - clock
                    time.sleep(2)
                    told = lab.python(f"while {BUSY}: time.sleep(.1)\nprint(ended, time.process_time())")
                    ended, after = map(float, told.split())
                    figures = (clock, ended - before, after - ended)
                    kind = ("first", "second")[second]
                    print(f"| {name} | {kind} | {' | '.join(f'{v:.2f}' for v in figures)} |", flush=True)
        finally:
            pages.stop_server(server)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    if asked.page:
        in_page()
        return
    print("| model | | seconds by the clock | processor seconds |\n|---|---|---:|---:|")
    for name in asked.models:
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as other:
            rows = {
                "fresh": measured(name, cache, False),
                "graph looked at for ten seconds": measured(name, other, True),
                "next day": measured(name, cache, False),
            }
        for kind, row in rows.items():
            print(f"| {name} | {kind} | {row['clock']:.1f} | {row['processor']:.1f} |", flush=True)


if __name__ == "__main__":
    main()
