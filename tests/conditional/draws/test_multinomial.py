"""Multinomial counts whose totals a program does not know: moments, and runs of models that have them."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.conditional.draws.gamma import drawn_here

PROBS = np.array([0.5, 0.0, 0.2999, 1e-4, 0.2])
TOTALS = np.array([0, 1, 7, 300])
FAMILIES = {
    "probs": lambda total: dist.Multinomial(total, probs=PROBS),
    "logits": lambda total: dist.Multinomial(total, logits=np.log(PROBS + 1e-30)),
    "dirichlet": lambda total: dist.DirichletMultinomial(8 * PROBS + 1e-3, total),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", FAMILIES)
def test_counts_have_their_moments(name):
    """Means and covariances beside the closed form, within five standard errors."""
    n = 20_000

    @jax.jit
    def draws(key, totals):
        return drawn_here(FAMILIES[name](totals)).sample(key, (n,))

    x = np.asarray(draws(jax.random.key(0), TOTALS), float)
    assert (x >= 0).all() and (x.sum(-1) == TOTALS).all()
    p, spread = PROBS, np.ones(len(TOTALS))
    if name == "dirichlet":
        a = 8 * PROBS + 1e-3
        p, spread = a / a.sum(), (TOTALS + a.sum()) / (1 + a.sum())
    for total, factor, of in zip(TOTALS, spread, np.moveaxis(x, 1, 0), strict=True):
        cov = factor * total * (np.diag(p) - np.outer(p, p))
        sd = np.sqrt(np.diag(cov))
        assert (np.abs(of.mean(0) - total * p) <= 5 * sd / np.sqrt(n) + 1e-3).all()
        apart = of - total * p
        products = apart[:, :, None] * apart[:, None, :]
        error = products.std(0) / np.sqrt(n)
        assert (np.abs(products.mean(0) - cov) <= 5 * error + 1e-3).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", [dist.Multinomial, pytest.param(dist.DirichletMultinomial, marks=pytest.mark.slow)]
)
def test_runs_predict_check_and_are_checked(family):
    def counts(total, y):
        a = numpyro.sample("a", dist.Normal(0, 1).expand([3]).to_event(1))
        with numpyro.plate("rows", len(total)):
            if family is dist.Multinomial:
                numpyro.sample("y", family(total, logits=a), obs=y)
            else:
                numpyro.sample("y", family(jnp.exp(a), total), obs=y)

    rng = np.random.default_rng(0)
    total = rng.integers(3, 9, 12)
    y = np.stack([rng.multinomial(t, [0.2, 0.3, 0.5]) for t in total])
    run = gb.model(counts, total=total, y=y).sample(draws=40, chains=2, seed=1)
    assert (run.predict().draws["y"].sum(-1) == total).all()
    new = run.predict(total=np.array([5, 60]), y=None)
    assert (new.draws["y"].sum(-1) == [5, 60]).all()
    assert run.checks() is not None
    assert run.model.predict(draws=20).draws["y"].shape == (1, 20, 12, 3)
