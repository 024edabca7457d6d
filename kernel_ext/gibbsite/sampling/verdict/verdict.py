"""Whether the draws of a run can be used, in one word and with reasons."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gibbsite.sampling.watch.snapshot import Notice, ScalarStat

RHAT_LIMIT = 1.01
ESS_PER_CHAIN = 100
# fewer divergent transitions than this share are told, but stop nobody
_DIVERGENT = 0.001
_GOING = {"compiling": "being compiled", "warmup": "still warming up", "sampling": "still sampling"}


@dataclass(frozen=True)
class Verdict:
    """`state` is "converged", "not yet" or "failed"; `reasons` say why it is not the first, worst first.

    Converged: every R-hat is at most 1.01 and every bulk ESS at least 100 per chain (Vehtari and others
    2021), no chain is stuck, joint draws lose less than a fifth of a standard deviation to rounding, and
    fewer than one transition in a thousand diverged. Predictions and other values computed from the draws are
    not judged: what they are computed from is.
    """

    state: str
    reasons: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the draws can be used."""
        return self.state == "converged"

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        word = {"converged": "converged", "not yet": "not converged", "failed": "failed"}[self.state]
        return f"{word}: {'; '.join(self.reasons)}" if self.reasons else word


def judged(
    status: str,
    message: str | None,
    scalars: Sequence[ScalarStat],
    notices: Sequence[Notice],
    divergences: tuple[int, int],
    chains: int,
    lost: Sequence[str] = (),
) -> Verdict:
    """The verdict on a run: its status, the measures of what is judged (worst first), what was noticed, how
    many of how many transitions diverged, and which sites have draws that are `lost`, not finite."""
    if status == "failed":
        return Verdict("failed", (message or "the run failed",))
    if lost:
        return Verdict("failed", (f"draws of {', '.join(lost)} are not finite",))
    if status in _GOING:
        return Verdict("not yet", (_GOING[status],))
    if not scalars:
        return Verdict("not yet", ("there are no draws",))
    reasons = [n.text for n in notices if n.topic in ("stuck", "labels", "signs", "precision")]
    told = any(n.topic in ("labels", "signs") for n in notices)
    over = [s for s in scalars if s.rhat > RHAT_LIMIT]
    if over and not told:
        rest = f" and {len(over) - 1} more" * (len(over) > 1)
        reasons.append(f"R-hat {min(over[0].rhat, 99):.2f} of {over[0].label}{rest}")
    few = [s for s in scalars if s.ess_bulk < ESS_PER_CHAIN * chains]
    if few and not told:
        worst = min(few, key=lambda s: s.ess_bulk)
        rest = f", and {len(few) - 1} more are low" * (len(few) > 1)
        reasons.append(f"ESS {worst.ess_bulk:.0f} of {worst.label}{rest}")
    if divergences[0] > _DIVERGENT * divergences[1]:
        reasons.append(f"{divergences[0]} divergent transitions")
    if all(np.isnan(s.rhat) for s in scalars if not s.discrete) and not all(s.discrete for s in scalars):
        reasons.append("too few draws to tell")
    return Verdict("not yet" if reasons else "converged", tuple(reasons))
