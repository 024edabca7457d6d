"""Gibbsite is a guest in its process: what it finds there, it leaves as it was."""

import json
import subprocess
import sys

import pytest

LOOK = """
import json, logging, os, signal, sys, threading, warnings
import jax, jax.numpy as jnp, numpy as np, numpyro, numpyro.distributions as dist
import IPython, anywidget, arviz_stats, bokeh.models, networkx, scipy.stats, xarray, zarr
from IPython.core.interactiveshell import InteractiveShell
from jax._src.interpreters import mlir
# JAX 0.10.0 imports that, and with it lowerings, with the first array that it puts somewhere
import jax.experimental.multihost_utils

shell = InteractiveShell.instance()
jnp.linalg.cholesky(jnp.eye(3) + jnp.zeros((2, 3, 3))).block_until_ready()


def look():
    rules = {**mlir._lowerings, **mlir._platform_specific_lowerings["cpu"]}
    return {
        "environment": dict(os.environ),
        "configuration": {k: str(v) for k, v in jax.config.values.items()},
        "lowerings": {str(p): f"{r.rule!r}" for p, r in rules.items()},
        "draws of gammas": str(dist.Gamma.sample),
        "validation": str(dist.Distribution._validate_args),
        "handlers": str(numpyro.primitives._PYRO_STACK),
        "filters": [str(f) for f in warnings.filters],
        "loggers": [str(h) for h in logging.getLogger().handlers] + [logging.getLogger().level],
        "signals": [str(signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)],
        "hooks": [str(sys.excepthook), str(threading.excepthook), sys.getrecursionlimit(), sys.path],
        "threads": sorted(t.name for t in threading.enumerate() if not t.name.startswith("IPython")),
        "numpy": [str(np.geterr()), str(np.get_printoptions())],
    }


def m(y=1.0):
    s = numpyro.sample("s", dist.Gamma(2.0, 1.0))
    numpyro.sample("y", dist.Normal(0.0, s), obs=y)


before = look()
found = {}


def compare(stage):
    now = look()
    found[stage] = {}
    for what, was in before.items():
        if isinstance(was, dict):
            names = {n for n in {*was, *now[what]} if was.get(n) != now[what].get(n)}
            was, is_ = ({n: side.get(n) for n in names} for side in (was, now[what]))
        else:
            is_ = now[what]
        if was != is_:
            found[stage][what] = [was, is_]


import gibbsite
compare("import")
shell.run_line_magic("load_ext", "gibbsite")
compare("load_ext")
model = gibbsite.model(m)
model.graph, str(model.schedule()), model.conditional("s")
compare("model")
run = model.sample(draws=5, warmup=5, chains=2)
run.to_datatree()
compare("run")
shell.user_ns.update(model=model)
shell.run_line_magic("sample", "model --draws 5 --warmup 5 --chains 2 --quiet")
compare("magics")
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def changes():
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("stage", ["import", "load_ext", "model", "run", "magics"])
def test_nothing_of_the_process_changes(changes, stage):
    assert changes[stage] == {}


def test_children_inherit_nothing():
    code = "import os; a = dict(os.environ); import gibbsite; print(a == dict(os.environ))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
