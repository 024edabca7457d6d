"""Many short chains in groups with a common start: nested R-hat, against its formula and by whole runs."""

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.diagnostics.measures.convergence import scalar_stat
from scipy import stats

Y = np.random.default_rng(0).normal(1.0, 1.0, 20).astype(np.float32)


def normal(y):
    m = numpyro.sample("m", dist.Normal(0, 5.0))
    s = numpyro.sample("s", dist.HalfNormal(2.0))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(m, s), obs=y)


def by_hand(x, number):
    """Equations 4 to 8 of Margossian and others (2024), on ranks and folded ranks of half chains."""
    half = x.shape[1] // 2
    split, ids = np.concatenate([x[:, :half], x[:, -half:]]), np.tile(number, 2)
    out = []
    for v in (split, np.abs(split - np.median(split))):
        z = stats.norm.ppf((stats.rankdata(v).reshape(v.shape) - 3 / 8) / (v.size + 1 / 4))
        means = np.array([z[ids == k].mean() for k in np.unique(ids)])
        within = [
            z[ids == k].mean(1).var(ddof=1) + z[ids == k].var(axis=1, ddof=1).mean() for k in np.unique(ids)
        ]
        out.append(np.sqrt(1 + means.var(ddof=1) / np.mean(within)))
    return max(out)


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_nested_r_hat_is_that_of_the_paper(shift):
    rng, number = np.random.default_rng(1), np.repeat(np.arange(8), 16)
    x = rng.normal(size=(128, 20)) + shift * number[:, None]
    found = scalar_stat("x", "x", (), x, number)
    assert found.rhat == pytest.approx(by_hand(x, number), rel=1e-6)
    assert (found.rhat > 1.01) == (shift > 0)
    assert shift or found.rhat - 1 < 0.5 * (scalar_stat("x", "x", (), x).rhat - 1)


def starts(chains, groups, spread=1.0):
    at = np.repeat(np.linspace(-2, 2, groups) * spread, chains // groups).astype(np.float32)
    return {"m": at, "s": np.exp(0.3 * at)}


@pytest.mark.slow
def test_many_short_chains_converge_by_superchains(tmp_path):
    model = gb.model(normal, Y)
    run = model.sample(chains=64, draws=24, warmup=100, seed=0, init=starts(64, 4))
    assert run.verdict.ok and run.snapshot().groups == 4, run.verdict
    plain = model.sample(chains=64, draws=24, warmup=100, seed=0)
    assert not plain.verdict.ok and plain.snapshot().groups == 64
    run.save(tmp_path / "run")
    again = gb.load(tmp_path / "run", model=model)
    assert again.verdict.ok and again.snapshot().groups == 4
    assert model.sample(chains=8, draws=24, warmup=20, seed=0, init=starts(8, 4)).snapshot().groups == 8


def two_modes(y):
    m = numpyro.sample("m", dist.Normal(0, 5.0))
    numpyro.sample("y", dist.Normal(m**2, 0.1), obs=y)


@pytest.mark.slow
def test_superchains_in_different_modes_do_not_converge():
    at = {"m": np.repeat(np.float32([-2.0, -1.9, 1.9, 2.0]), 8)}
    run = gb.model(two_modes, np.float32(4.0)).sample(chains=32, draws=40, warmup=100, seed=0, init=at)
    assert run.snapshot().groups == 4 and not run.verdict.ok
