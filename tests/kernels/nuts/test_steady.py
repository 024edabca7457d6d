"""Long after warm-up: nothing goes astray, and effective draws keep coming."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.diagnostics.measures.convergence import all_stats


def group_counts(g, y, n):
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    tau = numpyro.sample("tau", dist.HalfNormal(1))
    with numpyro.plate("group", n):
        a = numpyro.sample("a", dist.Normal(mu, tau))
    numpyro.sample("y", dist.Poisson(jnp.exp(a[g])), obs=y)


@pytest.mark.slow
def test_counts_in_groups_have_no_divergence_in_nine_thousand_draws():
    """Counts that do not tell the groups apart: the spread between them may be 0, where the funnel is."""
    g = np.repeat(np.arange(20), 5)
    model = gb.model(group_counts, g, np.random.default_rng(1).poisson(2, len(g)), 20)
    for seed in (1, 2):
        run = model.sample(draws=9000, seed=seed)
        assert sum(int(v.sum()) for n, v in run.kept.sampled_stats.read().items() if "diverging" in n) == 0
        stats = all_stats({n: run.draws[n] for n in ("mu", "tau", "a")})
        assert max(s.rhat for s in stats) < 1.005
        assert min(s.ess_bulk for s in stats) > 10_000  # of 36,000
