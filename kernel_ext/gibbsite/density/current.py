"""The model as it is now, for every use of it: what is data, what is given, what is drawn, what is scored.

| a statement | kernels | draws of the prior | new data at a draw | likelihood, LOO | `observed_data` |
|---|---|---|---|---|---|
| latent | drawn | drawn forward, unless weighted | as drawn | as drawn | – |
| latent that nothing observed depends on | drawn forward, unless weighted | same | same | same | – |
| `obs=` (or the user's `handlers.condition`) | held | drawn anew | drawn anew | scored | its value |
| `Model.condition(…)`, and others read it | held, its density counts | held | held | – | – |
| `Model.condition(…)` of what nothing reads | as `obs=` | | | | |
| `Model.do(…)` | a value, no density | a value | a value | – | – |
| observed value that a latent enters; `factor` | its density counts | – | held | – | – |

Weights and masks (`handlers.scale`, `handlers.mask`, `.mask`) count in every density: in that of kernels,
and in the likelihood, of which an element is a datum where its weight is not 0. Draws know no weight: data
are drawn from their distribution, whatever they weigh, and a latent that has one (or is masked) has no
distribution to be drawn from forward, so that kernels draw it. A missing observation weighs 0; imputed, it
is a latent (`y_missing`) beside that. Scopes and orders rename and restrict latents, and are nothing else.
"""

from dataclasses import dataclass

import jax
import numpy as np

from gibbsite.density.density import Density
from gibbsite.ground.once import once
from gibbsite.programs.jaxpr.compat import Literal
from gibbsite.programs.jaxpr.walker import reached


@dataclass(frozen=True)
class Current:
    """`data` names the observed sites that are data; `given` those that `Model.condition` holds fixed for
    others; `weighted` the latents whose density is not that of their distribution (a weight, a mask), so
    that they cannot be drawn forward. Each in program order."""

    data: tuple[str, ...]
    given: tuple[str, ...]
    weighted: tuple[str, ...]


@once
def current(density: Density) -> Current:
    """What the statements of a model are; of the whole model, with what is drawn forward from it."""
    observed = [n for n, s in density.sites.items() if s.role == "observed"]
    given = tuple(n for n in observed if density.sites[n].given and _read_by_others(density, n))
    known = density.outputs["observed"]
    data = tuple(n for n in observed if n not in given and not _latents(density, known[n]))
    return Current(data, given, weighted_latents(density))


@once
def weighted_latents(density: Density) -> tuple[str, ...]:
    """The latents whose log density is weighted or masked anywhere, in program order."""
    return tuple(n for n in density.latents if _is_weighted(density, n))


def scored_elements(density: Density, name: str) -> np.ndarray:
    """Which elements of an observed site's log density, `[*batch_shape]`, are data: those whose weight is
    not 0 whatever the latents are. Of an event some of whose elements are masked, the others remain."""
    atom = density.outputs["log_prob"][name]
    shape = tuple(atom.aval.shape)
    site = density.sites[name]
    there = np.ones(site.shape[: site.element_rank], bool)
    for weight in density.outputs["weights"].get(name, ()):
        if not _latents(density, weight):
            there = there & (_value(density, weight) != 0)
    events = there.ndim - len(site.batch_shape)
    whole = there.any(axis=tuple(range(there.ndim - events, there.ndim))) if events else there
    return np.broadcast_to(whole, shape).copy()


def _read_by_others(density: Density, name: str) -> bool:
    """Whether another statement's density depends on the value that a site is conditioned on, or nothing
    that is latent enters its own: then it is a value to others, and predicts or is predicted by nothing."""
    names = density.arguments.names
    if density.sites[name].given not in names or not _latents(density, density.outputs["log_prob"][name]):
        return True
    given = density.data_vars[names.index(density.sites[name].given or "")]
    found = reached(density.closed.jaxpr, [given])
    kinds = ("log_prob", "inside", "parameters")
    others = (v for kind in kinds for n, v in density.outputs[kind].items() if n != name)
    return any(a in found for a in jax.tree.leaves(list(others)) if not isinstance(a, Literal))


def _is_weighted(density: Density, name: str) -> bool:
    weights = density.outputs["weights"].get(name, ())
    return any(_latents(density, w) or bool(np.any(_value(density, w) != 1)) for w in weights)


def _latents(density: Density, atom: object) -> bool:
    return not isinstance(atom, Literal) and bool(density.maps.latents(atom))


def _value(density: Density, atom: object) -> np.ndarray:
    with jax.ensure_compile_time_eval():  # a kernel's `init` may be traced, and asks for levels
        return np.asarray(density.evaluator({}).full(atom))
