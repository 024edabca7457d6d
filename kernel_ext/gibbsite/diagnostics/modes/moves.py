"""What became of chains that were not left where they were: facts, with weights."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gibbsite.diagnostics.measures.snapshot import Notice

LOST, RESTARTED = "lost", "restarted"


@dataclass(frozen=True)
class Move:
    """One chain that started again (`onto` is -1), or went on from the place of chain `onto` after `steps`
    steps of warm-up.

    `log_weight`: what the mode that it was in weighs beside the heaviest one that was seen, at most, in log;
    None where it had no finite density or no slope there, and so no weight at all.
    """

    kind: str
    chain: int
    onto: int = -1
    steps: int = 0
    log_weight: float | None = None

    @property
    def weight(self) -> str:
        """The weight in words."""
        if self.log_weight is None:
            return "a place without density or slope"
        tens = int(np.floor(self.log_weight / np.log(10)))
        return f"a mode that weighs less than 1e{max(tens, -999) + 1} of another"

    def as_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        return asdict(self)


def moves_from(saved: Sequence[Mapping[str, Any]]) -> tuple[Move, ...]:
    """The inverse of `as_json`, of many."""
    return tuple(Move(**m) for m in saved)


def _which(chains: Sequence[int]) -> str:
    return f"chain{'s' * (len(chains) > 1)} {', '.join(map(str, chains))}"


def told_restarts(moves: Sequence[Move]) -> list[str]:
    """Which chains started again, and out of what, in words."""
    out = []
    for weights in dict.fromkeys(m.weight for m in moves):
        chains = sorted({m.chain for m in moves if m.weight == weights})
        out.append(f"{_which(chains)} started again out of {weights}")
    return out


def told_lost(moves: Sequence[Move]) -> str:
    """Which chains went on from another one's place after the same number of steps, in words."""
    told = [f"chain {m.chain} was lost and went on from chain {m.onto}, out of {m.weight}" for m in moves]
    return f"{', '.join(told)}, after {moves[0].steps} steps" if moves else ""


def noticed(moves: Sequence[Move]) -> list[Notice]:
    """The notice of chains that left a place with a density, or took another's: those that remain agree the
    more for it, and R-hat says the less."""
    told = []
    for kind, verb in ((RESTARTED, "started again"), (LOST, "went on from another chain's place")):
        of = [m for m in moves if m.kind == kind and (kind == LOST or m.log_weight is not None)]
        if of:
            heaviest = max(of, key=lambda m: -np.inf if m.log_weight is None else m.log_weight)
            chains = sorted({m.chain for m in of})
            told.append(f"{_which(chains)} {verb} (out of {heaviest.weight})")
    if not told:
        return []
    return [Notice("; ".join(told), "to have every chain stay where it is: sample(rescue=False)", "moved")]
