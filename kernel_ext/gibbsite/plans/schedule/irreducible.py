"""Whether changing one discrete element at a time leads anywhere."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer.gibbs import conditioned, prototype_trace

from gibbsite.conditional.reads.support import finite_support
from gibbsite.conditional.tables.factor import Factor
from gibbsite.density import Density
from gibbsite.density.model.alone import handlers_alone
from gibbsite.elimination.tables.collect import Tables
from gibbsite.kernels.blocks.finite import INPUTS_KWARG
from gibbsite.plans.candidates.limits import KEPT_TRIES, LONG_ODDS, MOST_MOVED, NEVER, TRIES
from gibbsite.programs.jaxpr.compiling import Quick, once


def prior_states(facts: Any, density: Density, count: int) -> dict[str, Any]:
    """Draws from the prior of a model's latents, `[count, *shape]` by the names that `density` has for them;
    once per density."""
    key = "prior states"
    if key not in density.cache or len(next(iter(density.cache[key].values()))) < count:
        model = conditioned(facts.runtime_model)

        def one(key: Any) -> dict[str, Any]:
            trace = prototype_trace(model, key, (), {INPUTS_KWARG: facts.inputs})
            drawn = {n: s["value"] for n, s in trace.items() if s["type"] == "sample"}
            return {n: v for n, v in density.packed(drawn).items() if n in density.latent_vars}

        # keys are made within: outside, each step of making them would be a program of its own
        with handlers_alone:
            density.cache[key] = once(
                lambda seed: jax.vmap(one)(jax.random.split(jax.random.key(seed), count)), 0
            )
    return {n: v[:count] for n, v in density.cache[key].items()}


def possible_entries(
    tables: Tables, units: Sequence[str], states: Iterable[dict[str, Any]]
) -> Iterator[tuple[Factor, np.ndarray, np.ndarray]]:
    """All factors, each with the indicators `[*sizes, rows or 1]` of the entries that are possible in some of
    the states, and of those that are likely: not below the largest of their row by `LONG_ODDS`.

    `units` are the sites that the tables are over.
    """
    data = tuple(tables.density.arguments.arrays)

    def indicators(latents: Any, data: Any) -> list[Any]:
        out = []
        for t in tables(latents, data):
            possible = t > -jnp.inf
            top = jnp.max(t, axis=tuple(range(t.ndim - 1)), keepdims=True)
            out += [possible, possible & (t > top - LONG_ODDS)]
        return out

    run = Quick(indicators)
    known: list[Any] = []
    for state in states:
        found = run({n: v for n, v in state.items() if n not in units}, data)
        now = [np.asarray(t) for t in found]
        known = [a | b for a, b in zip(known, now, strict=True)] if known else now
    yield from zip(tables.factors, known[::2], known[1::2], strict=True)


def connected(possible: np.ndarray) -> bool:
    """Whether in every row, moves of one element at a time reach every possible entry from every other."""
    if possible.all():
        return True
    rows = np.unique(possible.reshape(-1, possible.shape[-1]), axis=1).T
    return all(_reaches_all(row.reshape(possible.shape[:-1])) for row in rows)


def _reaches_all(possible: np.ndarray) -> bool:
    """The same of one row: every entry takes the least number along each of its axes, until none changes."""
    unreached = possible.size
    numbers = np.where(possible, np.arange(unreached).reshape(possible.shape), unreached)
    while True:
        before = numbers
        for axis in range(possible.ndim):
            numbers = np.where(possible, numbers.min(axis, keepdims=True), unreached)
        if np.array_equal(numbers, before):
            return len(np.unique(numbers[possible])) < 2


def frozen(density: Density, sites: Sequence[str], states: Iterable[dict[str, Any]]) -> bool:
    """Whether possible values of the sites were found, and none of them can be left by one element alone: all
    such moves are against odds that no run overcomes.

    Values are the `states`' own and random ones; other latents are those of the states. False where nothing
    can be said.
    """
    supports = {s: finite_support(density, s) for s in sites}
    elements = sum(int(np.prod(density.sites[s].shape, dtype=int)) for s in sites)
    if elements > MOST_MOVED or any(f is None or f.values.ndim != 1 for f in supports.values()):
        return False
    values = {s: jnp.asarray(f.values) for s, f in supports.items() if f is not None}

    def height(numbers: Any, rest: Any) -> Any:
        """From numbers of values by site."""
        return density.log_joint({**rest, **{s: values[s][numbers[s]] for s in sites}})

    def free(numbers: Any, rest: Any) -> Any:
        """Whether any other value of any single element is within reach."""
        found, least = jnp.array(False), height(numbers, rest) - NEVER
        for s in sites:
            k, shape = len(values[s]), density.sites[s].shape
            flat = numbers[s].reshape(-1)

            def moved(i: Any, by: Any, s: str = s, k: int = k, flat: Any = flat, shape: Any = shape) -> Any:
                other = flat.at[i].set((flat[i] + by) % k).reshape(shape)
                return height({**numbers, s: other}, rest) > least

            tried = jax.vmap(jax.vmap(moved, (None, 0)), (0, None))(jnp.arange(flat.size), jnp.arange(1, k))
            found = found | jnp.any(tried)
        return found

    def over(fn: Any) -> Any:
        return Quick(lambda many, rest: jax.lax.map(lambda n: fn(n, rest), many, batch_size=KEPT_TRIES))

    heights, all_free = over(height), over(free)
    rng = np.random.default_rng(0)
    seen = False
    for state in states:
        rest = {n: v for n, v in state.items() if n not in sites}
        tried = _tries(rng, {s: (len(values[s]), density.sites[s].shape) for s in sites})
        for s in sites:
            own = np.searchsorted(np.asarray(values[s]), np.asarray(state[s]))
            tried[s][0] = np.clip(own, 0, len(values[s]) - 1)
        found = np.asarray(heights(tried, rest))
        at = np.flatnonzero((found > -np.inf) & (found > found.max() - NEVER))[:KEPT_TRIES]
        if not len(at):
            continue
        chosen = {s: t[np.resize(at, KEPT_TRIES)] for s, t in tried.items()}
        if np.asarray(all_free(chosen, rest)).any():
            return False
        seen = True
    return seen


def _tries(rng: np.random.Generator, shapes: Mapping[str, tuple[int, tuple[int, ...]]]) -> dict[str, Any]:
    """Random numbers of values by site, `[tries, *shape]`: in all proportions, since what the data say of
    their sum may be unlikely a priori, and with as many of each value."""
    out = {}
    for s, (k, shape) in shapes.items():
        n = int(np.prod(shape, dtype=int))
        share = np.cumsum(rng.dirichlet(np.full(k, 0.5), TRIES), axis=1)
        mixed = (rng.uniform(size=(TRIES, n, 1)) > share[:, None, :-1]).sum(-1)
        even = rng.permuted(np.tile(np.resize(np.arange(k), n), (TRIES // 4, 1)), axis=1)
        mixed[-len(even) :] = even
        out[s] = mixed.reshape(TRIES, *shape)
    return out
