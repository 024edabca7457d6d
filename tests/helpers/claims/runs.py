"""What is claimed of a random model's runs: finite draws, and the enumerated joint of discrete ones."""

import itertools

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
from gibbsite.conditional import FiniteConditional
from numpyro.infer.util import log_density

from helpers.claims.models import built
from helpers.models.grammar import Program

LARGEST = 256
"""Joint values of discrete models that are enumerated."""


def check_run(program: Program, draws: int = 4) -> str:
    """A short run of the default schedule: its draws are finite, or it says that it failed."""
    model = built(program, check_values=True)
    if model is None:
        return "refused"
    try:
        run = model.sample(draws=draws, warmup=4, chains=2, seed=1)
    except gb.GibbsiteError as why:
        return str(why)
    for name, draws_of in run.draws.items():  # sites of a loop are stacked
        assert np.isfinite(draws_of).all(), name
    return run.status


def check_reach(program: Program, draws: int = 300) -> None:
    """The default schedule's frequencies in each chain, against all joint values of a discrete model."""
    model = built(program)
    assert model is not None
    names = model.density.latents
    sizes = {n: int(np.prod(model.sites[n].shape)) for n in names}
    found = [model.conditional(n) for n in names for _ in range(sizes[n])]
    supports = [c.support for c in found if isinstance(c, FiniteConditional)]
    rows = np.array(list(itertools.product(*supports)))
    assert len(rows) <= LARGEST
    values, at = {}, 0
    for n in names:
        values[n] = rows[:, at : at + sizes[n]].reshape(-1, *model.sites[n].shape)
        at += sizes[n]
    fn = program.model()
    logs = jax.vmap(lambda v: log_density(fn, program.args, {}, v)[0])(
        {n: jnp.asarray(v) for n, v in values.items()}
    )
    weight = np.exp(np.asarray(logs, float) - np.max(logs))
    run = model.sample(draws=draws, warmup=5, chains=2, seed=1)
    for n in names:
        for k in np.unique(values[n]):
            p = np.tensordot(weight / weight.sum(), values[n] == k, 1)
            seen = (np.asarray(run.draws[n]) == k).mean(1)
            room = 5 * np.sqrt(p * (1 - p) / (draws / 3)) + 0.01  # a third as many as if independent
            assert (np.abs(seen - p) < room).all(), (
                f"{n} = {k}: {seen} of the draws of each chain, {p} expected"
            )
