"""What a run compiles is lowered for CUDA and for TPUs too: nothing that only a CPU has slips in."""

import gibbsite as gb
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from gibbsite.sampling.engine.engine import Engine
from helpers.models.sampling_models import coins, data
from numpyro.contrib.control_flow import scan

PLATFORMS = ("cuda", "tpu")


def regression(x, y):
    tau = numpyro.sample("tau", dist.Gamma(2.0, 2.0))
    b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    with numpyro.plate("n", len(y)):
        numpyro.sample("y", dist.Normal(x @ b, tau**-0.5), obs=y)


def switching(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0).expand([2]).to_event(1))

    def step(before, seen):
        z = numpyro.sample("z", dist.Categorical(jnp.array([[0.9, 0.1], [0.2, 0.8]])[before]))
        numpyro.sample("y", dist.Normal(mu[z], 1.0), obs=seen)
        return z, None

    scan(step, 0, y)


RNG = np.random.default_rng(0)
MODELS = {
    "finite and NUTS": (coins, (data(),), "Gibbs z (*) NUTS [w p]"),
    "gamma and regression": (regression, (RNG.normal(size=(6, 2)), RNG.normal(size=6)), None),
    "chain": (switching, (RNG.normal(size=8),), None),
}


@pytest.mark.share(5)
@pytest.mark.parametrize("name", MODELS)
def test_programs_of_a_run(name):
    fn, arguments, schedule = MODELS[name]
    plan = gb.model(fn, *arguments).plan(schedule)
    engine = Engine(plan, chains=2, warmup=100, capacity=8, devices=(jax.devices("cpu")[0],), thin=2)
    words, inputs = jax.random.key_data(jax.random.split(jax.random.key(0), 2)), plan.inputs
    count = jnp.zeros((), jnp.int32)

    def init(words, asked):
        return engine._init_chains(jax.random.wrap_key_data(words), inputs, asked)

    asked = jax.eval_shape(lambda w: engine._nothing_asked(jax.random.wrap_key_data(w), inputs), words)
    state, _ = jax.eval_shape(init, words, asked)
    programs = {
        "init": (init, words, asked),
        "advance": (lambda s, n, k: engine._advance_chains(s, inputs, n, k), state, count, count),
    }
    if engine.window_ends:
        programs["pool"] = (lambda s: engine._pool_chains(s, inputs), state)
    for what, (program, *given) in programs.items():
        bare, tree = jax.tree.flatten(tuple(given))
        keyed = [jnp.issubdtype(v.dtype, jax.dtypes.prng_key) for v in bare]
        flat = [jax.eval_shape(jax.random.key_data, v) if k else v for v, k in zip(bare, keyed, strict=True)]

        def called(*flat, program=program, tree=tree, keyed=keyed):
            leaves = [jax.random.wrap_key_data(v) if k else v for v, k in zip(flat, keyed, strict=True)]
            out = program(*jax.tree.unflatten(tree, leaves))
            is_key = lambda v: jnp.issubdtype(v.dtype, jax.dtypes.prng_key)  # noqa: E731
            return jax.tree.map(lambda v: jax.random.key_data(v) if is_key(v) else v, out)

        exported = jax.export.export(jax.jit(called), platforms=PLATFORMS)(*flat)
        assert exported.platforms == PLATFORMS, what
