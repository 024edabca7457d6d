"""Chains that lie far below others → which of them are in modes of no weight, by masses."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.diagnostics.modes.mass import DOUBT, Bounds, bounds
from gibbsite.diagnostics.modes.space import space_of
from gibbsite.sampling.engine.engine import Engine

STEPS = 100
"""Steps that chains are followed for, to see how much room there is where they are; none of them counts."""


def scouted(engine: Engine, state: Any, steps: int = STEPS) -> dict[str, np.ndarray]:
    """Values `[step, chain, *shape]` by the kernel's sites, of steps that chains would make from `state`."""
    taken = []
    for done in range(0, steps, engine.capacity):
        flight = engine.depart(state, min(engine.capacity, steps - done), True)
        chunk, _ = flight.landed()
        taken.append(chunk.values)
        state = flight.state
    return {n: np.concatenate([t[n] for t in taken]) for n in taken[0]}


def masses(engine: Engine, state: Any, ahead: float = np.inf) -> list[Bounds] | None:
    """Bounds of the log masses of the modes that chains are in, or that those that still climb reach in
    `ahead` steps, in their order; None where they cannot be told: supports that move, or sites whose values
    are not at hand."""
    density, space = engine.plan.density, space_of(engine.plan, engine.sites)
    if density is None or space is None or engine.shard is not None:
        return None
    values = scouted(engine, state)
    found = []
    for chain in range(engine.chains):
        own = density.packed({n: v[:, chain] for n, v in values.items()}, 1)
        if not {*space.smooth, *space.listed} <= set(own):
            return None
        found.append(bounds(space, own, seed=chain, ahead=ahead))
    return found


@dataclass(frozen=True)
class Weightless:
    """Which chains are in modes of no weight `[chain]`, at most of what log weight beside the heaviest
    `[chain]`, and by which chain's mode, -1 where none."""

    chains: np.ndarray
    log_weight: np.ndarray
    beside: np.ndarray


def weightless(found: list[Bounds] | None, chains: int, floor: float = -np.inf) -> Weightless:
    """What weighs less than a thousandth of another chain's mode, or of a mode of log mass `floor` at least,
    beyond doubt."""
    nothing = np.full(chains, np.inf)
    if found is None:
        return Weightless(np.zeros(chains, bool), nothing, np.full(chains, -1))
    upper, lower = np.array([b.upper for b in found]), np.array([b.lower for b in found])
    lower = np.where(np.isfinite(lower), lower, -np.inf)
    best = int(np.argmax(lower))
    top = max(float(lower[best]), floor)
    weight = upper - top if np.isfinite(top) else nothing
    return Weightless(
        weight < -DOUBT, weight, np.where(weight < -DOUBT, best if top == lower[best] else -1, -1)
    )
