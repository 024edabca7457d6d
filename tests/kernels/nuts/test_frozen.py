"""Whatever warm-up may have learnt, the kernel leaves the posterior as it is: joint-distribution tests."""

import gibbsite as gb
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.blocks.conjugate import ConjugateGibbs
from gibbsite.kernels.learnt.bending import Bends
from gibbsite.kernels.learnt.coordinates import Coordinates
from gibbsite.kernels.learnt.metric import Metric
from gibbsite.kernels.nuts.block import LearntNUTS
from helpers.truths.geweke import joint_distribution_test
from numpyro.infer import Gibbs

N = 4
DATA = np.zeros(N)


def declared(y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.LogNormal(0, 0.5))
    theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([N]))
    numpyro.sample("y", dist.Normal(theta, 0.7), obs=y)


def by_hand(y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.LogNormal(0, 0.5))
    z = numpyro.sample("z", dist.Normal(0, 1).expand([N]))
    numpyro.sample("y", dist.Normal(mu + tau * z, 0.7), obs=y)


class Frozen(LearntNUTS):
    """With random degrees, bends and a random low-rank metric, as if they had been learnt."""

    seed = 0
    bent = None  # a power and a knee; else random ones

    def init(self, *args, **kwargs):
        state = super().init(*args, **kwargs)
        rng, size = np.random.default_rng(self.seed), state.u.size
        rank = state.tuning.metric.stretch.size
        directions = np.linalg.qr(rng.normal(size=(size, rank)))[0]
        lam = rng.choice([0.0, 1.0, *rng.random(3)], state.tuning.lam.size)
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


def survives(model, kernel, worst=4.5):
    def inputs(data):
        return {"_gibbsite_inputs": {"data": (data["y"],)}}

    scores = joint_distribution_test(model, kernel, {"y": "y"}, inputs=inputs, chains=3000, steps=4)
    found = max(float(np.abs(z).max()) for z in scores.values())
    assert found < worst, scores
    return scores


@pytest.mark.parametrize("model", [declared, pytest.param(by_hand, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_frozen_at_random(model, seed):
    analysed = gb.model(model, DATA)
    kernel = Frozen(analysed.runtime_model, analysed.density, step_size=0.4, max_tree_depth=4)
    kernel.seed = seed
    composite = Gibbs([(kernel, list(analysed.density.latents))])
    survives(model, composite)


@pytest.mark.parametrize("bent", [(1.0, 0.0), pytest.param((-0.5, 0.3), marks=pytest.mark.slow)])
def test_frozen_with_a_scale_between_itself_and_its_logarithm(bent):
    analysed = gb.model(declared, DATA)
    kernel = Frozen(analysed.runtime_model, analysed.density, step_size=0.4, max_tree_depth=4)
    kernel.bent = bent
    survives(declared, Gibbs([(kernel, list(analysed.density.latents))]))


def test_frozen_beside_a_block_that_owns_a_parent():
    analysed = gb.model(declared, DATA)
    kernel = Frozen(analysed.runtime_model, analysed.density, step_size=0.4, max_tree_depth=4)
    conjugate = ConjugateGibbs(analysed.runtime_model, analysed.density)
    survives(declared, Gibbs([(conjugate, ["mu"]), (kernel, ["tau", "theta"])]))


def test_a_wrong_jacobian_would_be_seen(monkeypatch):
    """The test itself: without the log determinant of the coordinates it fails."""
    right = Coordinates.written_with_offsets

    def wrong(self, u, lam, around):
        v, total, offsets = right(self, u, lam, around)
        return v, 0.0 * total, offsets

    monkeypatch.setattr(Coordinates, "written_with_offsets", wrong)
    analysed = gb.model(declared, DATA)
    kernel = Frozen(analysed.runtime_model, analysed.density, step_size=0.4, max_tree_depth=4)
    with pytest.raises(AssertionError):
        survives(declared, Gibbs([(kernel, list(analysed.density.latents))]))
