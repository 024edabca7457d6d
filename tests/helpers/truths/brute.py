"""The truth about small models, by NumPyro's own density: every joint value of their discrete sites, and
dense algebra for Gaussian ones."""

import itertools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gibbsite.checking.perturbation import QUICK
from jax.flatten_util import ravel_pytree
from numpyro.infer.util import log_density

MOST = 5_000


@dataclass(frozen=True)
class Table:
    """`values[site]`: `[combinations, *shape]`; `log_joint(continuous)`: `[combinations]`."""

    values: dict[str, np.ndarray]
    log_joint: Any

    @property
    def size(self) -> int:
        return len(next(iter(self.values.values())))


def table(case, marginal, density) -> Table | None:
    """All joint values of a marginal's sites; None where there are too many."""
    shapes = {s: density.sites[s].shape for s in marginal.sites}
    supports = {s: np.asarray(marginal.support(s)) for s in marginal.sites}
    counts = {}
    for s, v in supports.items():
        assert v.ndim == 1
        counts[s] = int(np.prod(shapes[s], dtype=int))
    if np.prod([float(len(supports[s])) ** n for s, n in counts.items()]) > MOST:
        return None
    spread = [supports[s] for s, n in counts.items() for _ in range(n)]
    rows = np.array(list(itertools.product(*spread))).reshape(-1, sum(counts.values()))
    values, at = {}, 0
    for s, n in counts.items():
        values[s] = rows[:, at : at + n].reshape(-1, *shapes[s]).astype(supports[s].dtype)
        at += n

    def log_joint(continuous):
        def one(z):
            return log_density(case.fn, case.args, case.kwargs, {**continuous, **z})[0]

        return jax.vmap(one)({s: jnp.asarray(v) for s, v in values.items()})

    return Table(values, log_joint)


def continuous(state, sites) -> dict[str, Any]:
    """The other latents of a state, in double precision where they are real."""
    rest = {n: np.asarray(v) for n, v in state.items() if n not in sites}
    return {n: v.astype(np.float64) if v.dtype.kind == "f" else v for n, v in rest.items()}


def quick(fn):
    """Compiled without pains."""
    return jax.jit(fn, compiler_options=QUICK)


def dense(case, shapes):
    """With Gaussian sites of a case integrated out, a function of the state of the rest: log density with all
    constants, and `(mean, covariance)` of the sites as flat vectors with the way back to arrays by site."""
    zero, unravel = ravel_pytree({s: jnp.zeros(shapes[s]) for s in case.sites})

    def joint(x, state):
        return log_density(case.fn, case.args, {}, {**state, **unravel(x)})[0]

    def truth(state):
        precision = -jax.hessian(joint)(zero, state)
        slope = jax.grad(joint)(zero, state)
        covariance = jnp.linalg.inv(precision)
        mean = covariance @ slope
        value = joint(mean, state) + (len(zero) * jnp.log(2 * jnp.pi) - jnp.linalg.slogdet(precision)[1]) / 2
        return value, (mean, covariance)

    return truth, unravel
