"""A run whose chains found different modes → which they are, what each weighs, and draws in proportion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gibbsite.diagnostics.measures.snapshot import Notice, ScalarStat
from gibbsite.diagnostics.modes.apart import Apart, groups_of_chains, told_chains
from gibbsite.diagnostics.modes.bridge import Weights, mode_weights
from gibbsite.diagnostics.modes.renamed import latent_draws
from gibbsite.diagnostics.modes.space import space_of
from gibbsite.errors import ModelError
from gibbsite.plans.schedule.plan import Plan


@dataclass(frozen=True)
class Modes:
    """The modes that chains of a run are in: `groups` of chains, and `weights` of bridge sampling where these
    could be told. There may be others that no chain has found."""

    apart: Apart
    estimated: Weights | None
    draws_of: Mapping[str, np.ndarray]

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The chains in each mode."""
        return self.apart.groups

    @property
    def weights(self) -> np.ndarray | None:
        """What each weighs `[mode]`, summing to 1; None where it cannot be told."""
        return None if self.estimated is None else self.estimated.share

    @property
    def errors(self) -> np.ndarray | None:
        """Standard errors of `weights`."""
        return None if self.estimated is None else self.estimated.error

    def draws(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Draws `[draw, *shape]` by site, as many as the run has, that visit each mode in proportion to its
        weight: with replacement, at random. Raises `ModelError` where weights cannot be told."""
        if self.weights is None:
            raise ModelError("the weights of the modes could not be told; give the run a Tempered kernel")
        random = np.random.default_rng(seed)
        chains, steps = next(iter(self.draws_of.values())).shape[:2]
        share = np.zeros(chains)
        for group, weight in zip(self.groups, self.weights, strict=True):
            share[list(group)] = weight / len(group)
        chain = random.choice(chains, chains * steps, p=share / share.sum())
        step = random.integers(steps, size=chains * steps)
        return {n: v[chain, step] for n, v in self.draws_of.items()}

    def __str__(self) -> str:
        count = len(self.groups)
        text = f"chains are in {count} different modes: {self.apart}"
        if self.weights is None or self.errors is None:
            return f"{text}; what each weighs cannot be told"
        each = [f"{w:.2g} ± {e:.1g}" for w, e in zip(self.weights, self.errors, strict=True)]
        return f"{text}; they weigh {', '.join(each)}"

    def __repr__(self) -> str:
        which = "; ".join(told_chains(g) for g in self.groups)
        return f"<Modes: {which}>"


def modes_found(plan: Plan, scalars: Sequence[ScalarStat], draws: Mapping[str, np.ndarray]) -> Modes | None:
    """The modes that chains are in by their draws `[chain, draw, *shape]`; None where they are not apart."""
    apart = groups_of_chains(scalars, draws)
    if apart is None:
        return None
    return Modes(apart, _weights(plan, apart.groups, draws), draws)


def _weights(plan: Plan, groups: Sequence[Sequence[int]], draws: Mapping[str, np.ndarray]) -> Weights | None:
    density = plan.density
    if density is None:
        return None
    held = latent_draws(plan, draws)
    names = [n for n in density.latents if n not in set(plan.generated) | set(plan.hidden)]
    space = space_of(plan, names)
    if space is None or not {*space.smooth} <= set(held):
        return None
    modes = [{n: held[n][list(g)] for n in space.smooth} for g in groups]
    return mode_weights(space, modes)


def noticed_modes(found: Modes, hint: str) -> Notice:
    """The notice of a run whose chains are in different modes."""
    return Notice(str(found), hint, "modes", (found.apart.label.partition("[")[0],))
