"""Whatever warm-up may have learnt, the kernel leaves the posterior as it is: joint-distribution tests."""

import gibbsite as gb
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.kernels.blocks.conjugate import ConjugateGibbs
from gibbsite.kernels.learnt.coordinates import Coordinates
from helpers.truths.frozen import Frozen, survives
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


@pytest.mark.slow
@pytest.mark.parametrize("model", [declared, pytest.param(by_hand, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_frozen_at_random(model, seed):
    analysed = gb.model(model, DATA)
    kernel = Frozen(analysed.execution.runtime_model, analysed.density, step_size=0.4, max_tree_depth=4)
    kernel.seed = seed
    composite = Gibbs([(kernel, list(analysed.density.latents))])
    survives(model, composite)


@pytest.mark.slow  # random bends are among what the others freeze
@pytest.mark.parametrize("bent", [(1.0, 0.0), (-0.5, 0.3)])
def test_frozen_with_a_scale_between_itself_and_its_logarithm(bent):
    analysed = gb.model(declared, DATA)
    kernel = Frozen(analysed.execution.runtime_model, analysed.density, step_size=0.4, max_tree_depth=4)
    kernel.bent = bent
    survives(declared, Gibbs([(kernel, list(analysed.density.latents))]))


@pytest.mark.slow
def test_frozen_beside_a_block_that_owns_a_parent():
    analysed = gb.model(declared, DATA)
    kernel = Frozen(analysed.execution.runtime_model, analysed.density, step_size=0.4, max_tree_depth=4)
    conjugate = ConjugateGibbs(analysed.execution.runtime_model, analysed.density)
    survives(declared, Gibbs([(conjugate, ["mu"]), (kernel, ["tau", "theta"])]))


@pytest.mark.slow
def test_a_wrong_jacobian_would_be_seen(monkeypatch):
    """The test itself: without the log determinant of the coordinates it fails."""
    right = Coordinates.written_with_offsets

    def wrong(self, u, lam, around):
        v, total, offsets = right(self, u, lam, around)
        return v, 0.0 * total, offsets

    monkeypatch.setattr(Coordinates, "written_with_offsets", wrong)
    analysed = gb.model(declared, DATA)
    kernel = Frozen(analysed.execution.runtime_model, analysed.density, step_size=0.4, max_tree_depth=4)
    with pytest.raises(AssertionError):
        survives(declared, Gibbs([(kernel, list(analysed.density.latents))]))
