"""The demos are right, run from the command line, and their notebooks run top to bottom."""

from pathlib import Path
from typing import Any

import gibbsite
import jax
import jax.numpy as jnp
import nbformat
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats import ess
from gibbsite.__main__ import main
from gibbsite.demo import DEMOS, changepoint, mixture, nile_flow, tumours
from nbclient import NotebookClient
from numpyro.infer import MCMC, NUTS

NOTEBOOKS = sorted((Path(__file__).parent.parent / "demo_notebooks").glob("*.ipynb"))


def mean_and_error(draws: np.ndarray) -> tuple[float, float]:
    """Mean of draws `[chain, draw]` and its Monte-Carlo standard error."""
    return float(draws.mean()), float(draws.std() / np.sqrt(ess(np.asarray(draws, float))))


def marginal_mixture(x: Any, K: int = 2) -> None:
    """The demo's model with the kinds summed out by NumPyro's own mixture distribution."""
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(K)))
    ordered = dist.transforms.OrderedTransform()
    means = dist.TransformedDistribution(dist.Normal(0, 1).expand([3, K]).to_event(1), ordered)
    mu = numpyro.sample("mu", means.to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1).expand([3, K]).to_event(2))
    kind = dist.Normal(mu.T, sigma.T).to_event(1)
    with numpyro.plate("tumour", len(x)):
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(w), kind), obs=x)


@pytest.mark.slow
def test_mixture_agrees_with_a_long_run_of_nuts_without_the_discrete_site():
    data = tumours()
    mcmc = MCMC(
        NUTS(marginal_mixture),
        num_warmup=400,
        num_samples=800,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(17), **data)
    reference = {name: np.asarray(v) for name, v in mcmc.get_samples(group_by_chain=True).items()}
    run = gibbsite.model(mixture, **data).sample(draws=1000, warmup=500, chains=4, seed=0)
    compared = 0
    for name, expected_draws in reference.items():
        for index in np.ndindex(expected_draws.shape[2:]):
            expected, error = mean_and_error(expected_draws[(..., *index)])
            found, own_error = mean_and_error(run.draws[name][(..., *index)])
            assert abs(found - expected) < 4 * np.hypot(error, own_error), (name, index, found, expected)
            compared += 1
    assert compared == 2 + 6 + 6


def exact_changepoint(flow: np.ndarray) -> np.ndarray:
    """p(tau | flow): levels integrated in closed form, sigma on a grid, tau summed over."""

    def log_marginal(y: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        n = len(y)
        if n == 0:
            return np.zeros_like(sigma)
        spread = sigma**2 + n * 300.0**2
        squares = ((y - y.mean()) ** 2).sum() / sigma**2 + n * (y.mean() - 900.0) ** 2 / spread
        return -(n - 1) * np.log(sigma) - 0.5 * np.log(spread) - 0.5 * squares

    sigma = np.linspace(60, 260, 2001)
    y = flow.astype(float)
    logs = np.stack(
        [
            -0.5 * (sigma / 200) ** 2 + log_marginal(y[:t], sigma) + log_marginal(y[t:], sigma)
            for t in range(len(y))
        ]
    )
    mass = np.exp(logs - logs.max()).sum(axis=1)
    return mass / mass.sum()


@pytest.mark.slow
def test_the_niles_break_matches_exact_enumeration():
    data = nile_flow()
    run = gibbsite.model(changepoint, **data).sample(draws=4000, warmup=500, chains=4, seed=0)
    exact = exact_changepoint(data["flow"])
    tau = run.draws["tau"]
    mass = np.bincount(tau.ravel(), minlength=100) / tau.size
    # 28 years at the old level, 1871 to 1898: the last of them has index 27.
    assert exact.argmax() == mass.argmax() == 28
    assert np.abs(mass - exact).max() < 2e-2
    for t in np.flatnonzero(exact > 0.02):
        _, error = mean_and_error((tau == t).astype(float))
        assert abs(mass[t] - exact[t]) < 4 * error


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "mixture" else pytest.mark.slow) for n in DEMOS]
)
def test_headless_demo_writes_a_report(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "report.html"
    options = ["--draws", "50", "--warmup", "50", "--chains", "2"]
    assert main(["demo", name, "--report", str(path), *options]) == 0
    printed = capsys.readouterr().out
    assert "finished" in printed
    assert str(path) in printed
    html = path.read_text(encoding="utf-8")
    assert name in html
    assert "<svg" in html or "data:image/svg" in html or "bokeh" in html.lower()


def test_headless_demo_refuses_senseless_options(capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "mixture", "--draws", "0"]) == 1
    assert "draws" in capsys.readouterr().err


def test_there_are_notebooks():
    assert [path.stem for path in NOTEBOOKS] == [
        "cement",
        "changepoint",
        "cluster",
        "compare",
        "decision",
        "elimination",
        "gaps",
        "keeling",
        "mixture",
        "pacific",
        "structures",
        "teaching",
        "transplants",
    ]


@pytest.mark.slow  # the browser runs one with each commit
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook_runs_top_to_bottom(path: Path):
    if path.stem == "cluster":
        pytest.importorskip("dask.distributed")
    notebook = nbformat.read(path, as_version=4)
    # Every statement about the result that the prose makes is asserted in the notebook's last cell.
    NotebookClient(notebook, timeout=300, kernel_name="python3", store_widget_state=False).execute()
    last = notebook.cells[-1]
    assert last.source.startswith("assert")
    assert last.execution_count is not None


def test_the_command_tells_its_version(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    told = capsys.readouterr().out
    assert told.startswith(f"gibbsite {gibbsite.__version__}") and f"jax {jax.__version__}" in told
