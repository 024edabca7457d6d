"""Seconds from executing `%sample` to the first plotted draws, in a real kernel.

    python benchmarks/first_plot.py [--models schools mixture]

Per model three kernels: a fresh one with an empty cache of compiled programs, one that looked at the graph
for ten seconds before (with a cache of its own), and a fresh one that finds what the first has compiled. In
each a model is made by `%%model` and run by `%sample`; the clock stops when the dashboard has draws to plot.
Processor seconds are those of the kernel meanwhile. No browser is attached.
"""

import argparse
import json
import os
import tempfile
import time
from typing import Any

from jupyter_client.manager import start_new_kernel

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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    print("| model | | seconds by the clock | processor seconds |\n|---|---|---:|---:|")
    for name in parser.parse_args().models:
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
