"""The summary of a run, whatever its draws are like."""

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist


def still(y):
    kind = numpyro.sample("kind", dist.Categorical(np.array([0.0, 1.0])))
    mu = numpyro.sample("mu", dist.Normal(kind * 1.0, 1.0))
    numpyro.deterministic("one", mu * 0.0 + 1.0)
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def test_of_what_never_moves_there_is_no_r_hat_and_no_warning():
    """Variances of 0 are divided by: NumPy's warnings, which are errors here, are no news to anybody."""
    run = gb.model(still, np.ones(3, np.float32), check_values=False).sample(draws=20, warmup=5, chains=2)
    with np.errstate(all="raise", under="ignore"):
        table = run.summary(kind="diagnostics")
        whole = run.summary()
    assert {"kind", "mu", "one"} <= {*table.index} and np.isnan(float(table.loc["kind", "r_hat"]))
    assert float(whole.loc["kind", "mean"]) == 1 and np.isfinite(float(whole.loc["mu", "r_hat"]))
