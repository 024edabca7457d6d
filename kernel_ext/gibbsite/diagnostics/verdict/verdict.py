"""Whether the draws of a run can be used, in one word and with reasons."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsite.diagnostics.measures.snapshot import Notice, ScalarStat

CONVERGED, PRIOR = "converged", "prior"
OF_THE_PRIOR = "the model observes nothing, and these are draws of its prior"
RHAT_LIMIT = 1.01
ESS_PER_CHAIN = 100
_REASONS = ("stuck", "held", "forms", "labels", "orders", "signs", "modes", "precision", "improper")
# fewer divergent transitions than this share are told, but stop nobody
_DIVERGENT = 0.001
_GOING = {"compiling": "being compiled", "warmup": "still warming up", "sampling": "still sampling"}


@dataclass(frozen=True)
class Verdict:
    """`state` is "converged", "prior", "not yet" or "failed"; `reasons` say why it is neither of the first
    two, worst first; `notes` what such a judgement cannot see: which chains were moved, and out of what;
    discrete sites that had one value in all draws of all chains; components that can be renamed, of which
    all chains have one labelling; arguments that the model reads nowhere, and data that count several times.

    Converged: every R-hat is at most 1.01 and every bulk ESS at least 100 per chain (Vehtari and others
    2021; superchains count as chains), no chain is stuck, no scale under an improper
    prior goes on to zero, joint draws lose less than a fifth of a standard deviation to rounding, and fewer
    than one transition in a thousand diverged. Predictions and other values computed from the draws are
    not judged: what they are computed from is. Prior: the same of a model
    that observes nothing, whose draws are of its prior.
    """

    state: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the draws can be used."""
        return self.state in (CONVERGED, PRIOR)

    def __bool__(self) -> bool:
        return self.ok

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def __str__(self) -> str:
        word = {"not yet": "not converged", PRIOR: f"{PRIOR}: {OF_THE_PRIOR}"}.get(self.state, self.state)
        told = f"{word}: {'; '.join(self.reasons)}" if self.reasons else word
        return ("; but " if self.ok else "; ").join([told, *self.notes])


def judged(
    status: str,
    message: str | None,
    scalars: Sequence[ScalarStat],
    notices: Sequence[Notice],
    divergences: tuple[int, int],
    chains: int,
    lost: Sequence[str] = (),
    prior: bool = False,
    doubts: Sequence[str] = (),
) -> Verdict:
    """The verdict on a run: its status, the measures of what is judged (worst first), what was noticed, how
    many of how many transitions diverged, which sites have draws that are `lost`, not finite, whether the
    model observes nothing (`prior`), and `doubts` that it is the model that was meant."""
    if status == "failed":
        return Verdict("failed", (message or "the run failed",))
    if lost:
        return Verdict("failed", (f"draws of {', '.join(lost)} are not finite",))
    if status in _GOING:
        return Verdict("not yet", (_GOING[status],))
    if not scalars:
        return Verdict("not yet", ("there are no draws",))
    # without an end, chains are nowhere for long: what else is seen of such sites follows from that
    endless = [n for n in notices if n.topic == "improper"]
    nowhere = {s for n in endless for s in n.sites}
    others = [n for n in notices if n.topic in _REASONS and n not in endless]
    others = [n for n in others if not (n.topic in ("modes", "stuck") and n.sites and nowhere >= {*n.sites})]
    reasons = [n.text for n in (*endless, *others)]
    told = any(n.topic in ("labels", "orders", "signs") for n in notices)
    over = [s for s in scalars if s.rhat > RHAT_LIMIT]
    if over and not told:
        rest = f" and {len(over) - 1} more" * (len(over) > 1)
        # as many digits as tell it from the limit
        worst_rhat = over[0].rhat
        digits = 2 if round(worst_rhat, 2) > RHAT_LIMIT else 4
        number = f"{worst_rhat:.{digits}f}" if worst_rhat < 100 else "above 100"
        reasons.append(f"R-hat {number} of {over[0].called}{rest}")
    few = [s for s in scalars if s.ess_bulk < ESS_PER_CHAIN * chains]
    if few and not told:
        worst = min(few, key=lambda s: s.ess_bulk)
        rest = f", and {len(few) - 1} more are low" * (len(few) > 1)
        reasons.append(f"ESS {worst.ess_bulk:.0f} of {worst.called}{rest}")
    if divergences[0] > _DIVERGENT * divergences[1]:
        reasons.append(f"{divergences[0]} divergent transitions")
    if all(np.isnan(s.rhat) for s in scalars if not s.discrete) and not all(s.discrete for s in scalars):
        alone = "one chain alone cannot be compared: two or more tell whether they agree (R-hat)"
        reasons.append(alone if chains == 1 else "too few draws to tell")
    notes = (*(n.text for n in notices if n.topic in ("moved", "stake", "renamed")), *doubts)
    return Verdict("not yet" if reasons else PRIOR if prior else CONVERGED, tuple(reasons), notes)
