"""What an elimination costs, in words."""

from collections.abc import Sequence

from gibbsite.conditional.tables.factor import TooLarge
from gibbsite.elimination.steps.plate import PlatePlan
from gibbsite.elimination.steps.step import Step, origins
from gibbsite.elimination.tables.collect import Summed


def count(x: float) -> str:
    """A number as people write it."""
    return f"{x:,.0f}" if x < 1e15 else f"{x:.0e}".replace("e+", " × 10^")


def cost_text(steps: Sequence[Step], evaluations: float) -> str:
    """Entries and evaluations of one elimination, in one line."""
    total, widest = sum(s.entries for s in steps), max(s.entries for s in steps)
    return (
        f"{count(total)} table entries per evaluation, widest table {count(widest)}, "
        f"from {count(evaluations)} term elements"
    )


def plan_text(steps: Sequence[Step], evaluations: float) -> str:
    """The steps, numbered, and the cost."""
    lines = [f"{i}. {s.text}" for i, s in enumerate(steps, 1)]
    return "\n".join([*lines, f"   {cost_text(steps, evaluations)}"])


def too_wide(plan: PlatePlan, of: Summed, limit: float) -> TooLarge:
    """The refusal of a plan whose smallest next table is beyond the limit."""
    sizes = " × ".join(map(str, (of.sizes[plan.site], *plan.sizes)))
    met = ", ".join(dict.fromkeys(o for o, _ in plan.others))
    made_by = origins([f for f, _, _ in plan.uses])
    return TooLarge(
        f"summing out {plan.site!r} next would take a table of {sizes} × {of.count[plan.site]:,} = "
        f"{count(plan.entries)} entries, over the values of {met} that {made_by} couples it to; the limit is "
        f"{count(limit)}. Gibbs {plan.site} still works"
    )
