"""Whether changing one discrete element at a time leads anywhere."""

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np

from gibbsite.conditional.reads.support import finite_support
from gibbsite.density import Density

_TRIES = 64
_MOST_ELEMENTS = 512


def connected(possible: np.ndarray) -> bool:
    """Whether in every row, moves of one element at a time reach every possible entry from every other."""
    for row in np.unique(possible.reshape(-1, possible.shape[-1]), axis=1).T:
        cells = [tuple(c) for c in np.argwhere(row.reshape(possible.shape[:-1]))]
        graph = nx.Graph()
        graph.add_nodes_from(cells)
        for axis in range(possible.ndim - 1):
            lines: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
            for c in cells:
                lines.setdefault((*c[:axis], *c[axis + 1 :]), []).append(c)
            graph.add_edges_from((line[0], c) for line in lines.values() for c in line[1:])
        if cells and not nx.is_connected(graph):
            return False
    return True


def frozen(density: Density, sites: Sequence[str], states: Iterable[dict[str, Any]]) -> bool:
    """Whether possible values of the sites were found, and none of them can be left by one element alone.

    Values are the `states`' own and random ones; other latents are those of the states. False where nothing
    can be said.
    """
    supports = {s: finite_support(density, s) for s in sites}
    elements = sum(int(np.prod(density.sites[s].shape, dtype=int)) for s in sites)
    if elements > _MOST_ELEMENTS or any(f is None or f.values.ndim != 1 for f in supports.values()):
        return False
    values = {s: jnp.asarray(f.values) for s, f in supports.items() if f is not None}

    def possible(numbers: Any, rest: Any) -> Any:
        """From numbers of values by site."""
        z = {s: values[s][numbers[s]] for s in sites}
        return density.log_joint({**rest, **z}) > -jnp.inf

    def moves(numbers: Any, rest: Any) -> Any:
        """Whether any other value of any single element is possible."""
        found = jnp.array(False)
        for s in sites:
            k, shape = len(values[s]), density.sites[s].shape
            flat = numbers[s].reshape(-1)

            def moved(i: Any, by: Any, s: str = s, k: int = k, flat: Any = flat, shape: Any = shape) -> Any:
                other = flat.at[i].set((flat[i] + by) % k).reshape(shape)
                return possible({**numbers, s: other}, rest)

            tried = jax.vmap(jax.vmap(moved, (None, 0)), (0, None))(jnp.arange(flat.size), jnp.arange(1, k))
            found = found | jnp.any(tried)
        return found

    look = jax.jit(jax.vmap(lambda n, rest: (possible(n, rest), moves(n, rest)), (0, None)))
    rng = np.random.default_rng(0)
    seen = False
    for state in states:
        rest = {n: v for n, v in state.items() if n not in sites}
        numbers = {}
        for s in sites:
            own = np.searchsorted(np.asarray(values[s]), np.asarray(state[s]))
            random = rng.integers(len(values[s]), size=(_TRIES, *density.sites[s].shape))
            numbers[s] = np.concatenate([np.clip(own, 0, len(values[s]) - 1)[None], random])
        here, free = (np.asarray(x) for x in look(numbers, rest))
        if (here & free).any():
            return False
        seen = seen or bool(here.any())
    return seen
