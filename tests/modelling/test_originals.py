"""Programs as others write them are lifted, analysed and told of by `benchmarks/originals.py`."""

import subprocess
import sys
from pathlib import Path

import pytest

ORIGINALS = Path(__file__).parents[2] / "benchmarks" / "originals.py"
PROGRAM = """
!pip install -q numpyro
%matplotlib inline
import argparse
import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
from jax import random
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

x = jnp.linspace(-1, 1, 8)
y = 2 * x + 1

def line(x, y=None):
    a = numpyro.sample("a", dist.Normal(0, 1))
    s = numpyro.sample("s", dist.Exponential(1))
    numpyro.sample("y", dist.Normal(a * x, s), obs=y)

def thinned(y):
    with numpyro.plate("N", 8, subsample_size=2) as i:
        mu = numpyro.sample("mu", dist.Normal())
        numpyro.sample("y", dist.Normal(mu, 1), obs=y[i])

def grouped(y):
    z = numpyro.sample("z", dist.Bernoulli(0.5).expand([8]).to_event(1))
    m = numpyro.sample("m", dist.Normal(0, 3).expand([2]).to_event(1))
    numpyro.sample("y", dist.Normal(m[z], 1).to_event(1), obs=y)

SVI(grouped, AutoNormal(grouped), numpyro.optim.Adam(0.1), Trace_ELBO()).run(random.key(0), 100, y)
MCMC(NUTS(thinned), num_warmup=10, num_samples=10).run(random.key(0), y)

def main(args):
    mcmc = MCMC(NUTS(line), num_warmup=args.n, num_samples=args.n)
    mcmc.run(random.key(0), x, y=y)
    mcmc.print_summary()
    assert mcmc.get_samples()["a"].shape

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", default=1000)
    main(parser.parse_args())

import a_package_that_is_not_there
"""


@pytest.mark.slow
def test_what_a_file_hands_to_samplers_is_lifted(tmp_path):
    folder, page = tmp_path / "others", tmp_path / "gallery.md"
    folder.mkdir()
    (folder / "notebook.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, str(ORIGINALS), str(folder), "--draws", "0", "--out", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    assert "| accepted and scheduled | 2 of 3 |" in text and "| raw errors | 0 of 3 |" in text
    assert " line | `Conjugate a (*) NUTS s` | accepted; not run |" in text
    assert " grouped | `Gibbs z (*) Conjugate m` | accepted; not run |" in text
    assert "refused: ModelError: plate 'N' takes a random subsample of 2 of its 8" in text
    assert "NumPyro's NUTS starts |" in text
    assert "- notebook.py: package a_package_that_is_not_there" in text
