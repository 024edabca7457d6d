"""Kernels tuned as warm-up might have done it, and the test that they leave the posterior as it is."""

import jax.numpy as jnp
import numpy as np
from gibbsite.kernels.learnt.metric import Metric
from gibbsite.kernels.learnt.power_transform import Bends
from gibbsite.kernels.nuts.block import LearntNUTS

from helpers.truths.geweke import joint_distribution_test


class Frozen(LearntNUTS):
    """With random degrees, bends and a random low-rank metric, as if they had been learnt."""

    seed = 0
    bent = None  # a power and a knee; else random ones
    white = None  # whether what is whitened as a whole is white; else at random, site by site

    def init(self, *args, **kwargs):
        state = super().init(*args, **kwargs)
        rng, size = np.random.default_rng(self.seed), state.u.size
        rank = state.tuning.metric.stretch.size
        directions = np.linalg.qr(rng.normal(size=(size, rank)))[0]
        lam = rng.choice([0.0, 1.0, *rng.random(3)], state.tuning.lam.size)
        white = rng.integers(2, size=lam.size) if self.white is None else np.full(lam.size, self.white)
        c = self.problem.coordinates
        lam = np.where(c.whole, 1.0 - white[c.site], lam)
        metric = Metric(
            jnp.asarray(rng.gamma(4.0, 0.2, size=size), jnp.float32),
            jnp.asarray(directions, jnp.float32),
            jnp.asarray(np.exp(rng.normal(size=rank) / 2), jnp.float32),
        )
        count = state.tuning.bends.knee.size
        knee = (
            rng.choice([*rng.normal(size=3), np.inf], count) if self.bent is None else [self.bent[1]] * count
        )
        power = rng.choice([1.0, 0.5, -0.5, -1.0], count) if self.bent is None else [self.bent[0]] * count
        bends = Bends(jnp.asarray(power, jnp.float32), jnp.asarray(knee, jnp.float32))
        tuning = state.tuning._replace(lam=jnp.asarray(lam, jnp.float32), metric=metric, bends=bends)
        return self.refresh(state._replace(tuning=tuning), args[3], args[4])

    def refresh(self, state, model_args, model_kwargs):
        """The coordinates anew as well: the degrees are not those of `init`."""
        c = self.problem.coordinates
        around = self.problem.around(model_args, model_kwargs)
        state = state._replace(u=c.learnt_from(c.flat(state.z), state.tuning.form, around))
        return super().refresh(state, model_args, model_kwargs)


def survives(model, kernel, worst=4.5, chains=3000, steps=4):
    """The joint-distribution test of a composite on a model that takes its data as `y`."""

    def inputs(data):
        return {"_gibbsite_inputs": {"data": (data["y"],)}}

    scores = joint_distribution_test(model, kernel, {"y": "y"}, inputs=inputs, chains=chains, steps=steps)
    found = max(float(np.abs(z).max()) for z in scores.values())
    assert found < worst, scores
    return scores
