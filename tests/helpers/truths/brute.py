"""The truth about small models: every joint value of their discrete sites, by NumPyro's own density."""

import itertools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.util import log_density

from helpers.truths.perturbation import QUICK

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
