"""The numbers of a run in words: one place for how they are written, in the page and in a terminal."""

import math
from typing import Any

from gibbsite.sampling.engine.stages import COMPILING
from gibbsite.views.run.content import ENDED, ESS_PER_CHAIN, RHAT_LIMIT, Content, status_of


def number(value: float | None, digits: int = 3) -> str:
    """A number with about `digits` significant digits; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "–"
    if value != 0 and (abs(value) >= 10**6 or abs(value) < 1e-4):
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else digits - 1
    return f"{value:.{decimals}f}"


def beside(value: float, sd: float) -> str:
    """A value with the decimals that its spread gives sense to: three digits of the standard deviation."""
    if not (math.isfinite(value) and math.isfinite(sd)) or not 1e-5 < sd < 1e6:
        return number(value, 4)
    return f"{value:.{max(0, 2 - math.floor(math.log10(sd)))}f}"


def fixed(value: float | None) -> str:
    """R-hat: always three decimals, so that a column of them can be compared."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.3f}" if value < 100 else "> 100"


def whole(value: float | None) -> str:
    """A count, with thin separators."""
    return "–" if value is None or not math.isfinite(value) else f"{round(value):,}".replace(",", "\u202f")


def duration(seconds: float | None) -> str:
    """Seconds as a person says them: `0.4 s`, `12 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    minutes, rest = divmod(whole_seconds, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def _about(seconds: float) -> str:
    """Seconds that are guessed: `5 s`."""
    return f"{max(1, round(seconds))} s" if seconds < 59.5 else duration(seconds)


def done(snapshot: Any) -> str:
    """What a run has made by now: `1 200 of 2 000 draws × 4 chains`."""
    chains = f"{snapshot.chains} chain{'s' * (snapshot.chains != 1)}"
    if snapshot.status == "compiling" and not snapshot.draws_done:
        return f"no draws yet in {chains}"
    if snapshot.status == "warmup":
        return f"{whole(snapshot.warmup_done)} of {whole(snapshot.warmup_total)} warm-up steps × {chains}"
    return f"{whole(snapshot.draws_done)} of {whole(snapshot.draws_total)} draws × {chains}"


def progress(snapshot: Any) -> str:
    """Where a run is: `1 200 of 2 000 draws × 4 chains · 3.1 s · about 2.0 s left · 1 600 steps/s`."""
    parts = [done(snapshot)]
    if snapshot.status == "compiling":
        for name, seconds in snapshot.stages.items():
            whole_stage = snapshot.compiling if name == COMPILING else None
            about = "" if whole_stage is None else f" (about {_about(whole_stage)})"
            parts.append(f"{name} {duration(seconds)}{about}")
    parts.append(duration(snapshot.elapsed))
    if snapshot.status not in ENDED and snapshot.eta is not None:
        parts.append(f"about {duration(snapshot.eta)} left")
    if snapshot.steps_per_second:
        parts.append(f"{whole(snapshot.steps_per_second)} steps/s")
    if snapshot.efficiency.ess_per_second is not None:
        speed = snapshot.efficiency.ess_per_second
        parts.append(f"{whole(speed) if speed >= 1000 else number(speed, 2)} ESS/s")
    if snapshot.compile_seconds >= 0.05:
        parts.append(f"compiled in {duration(snapshot.compile_seconds)}")
    if snapshot.because:
        parts.append(f"compiled again: {snapshot.because}")
    kept = snapshot.draws_done or snapshot.warmup_done
    if kept and snapshot.stored is not None and snapshot.stored.age is not None:
        parts.append(f"on disk {duration(snapshot.stored.age)} ago")
    divergences = int(sum(snapshot.divergences))
    if divergences:
        parts.append(f"{whole(divergences)} divergence{'s' * (divergences != 1)}")
    return " · ".join(parts)


def without_kernel(snapshot: Any) -> str:
    """What a page says of a run whose kernel ended while it went on."""
    ended = "The kernel ended or was restarted while this run went on"
    if snapshot.stored is None:
        return f"{ended}, and its draws went with it; with --store FOLDER, %sample keeps them on disk."
    if not snapshot.draws_done:
        return (
            f"{ended}, before its first draw: the same line begins it again, when the cells above have run."
        )
    return (
        f"{ended}; its draws are on disk. When the cells above have run again, the same line with --resume "
        f"auto goes on, and gibbsite.load({snapshot.stored.path!r}) reads them."
    )


def block_detail(block: Any) -> str:
    """What is worth knowing of a block: `NUTS · 62 % of the time · accept 0.87 (target 0.8) · step 0.21`."""
    parts = [block.kernel]
    if block.seconds_share is not None and math.isfinite(block.seconds_share):
        parts.append(f"{100 * block.seconds_share:.0f} % of the time")
    for word, value in (("accept", block.accept), ("step", block.step_size), ("depth", block.tree_depth)):
        if value is not None and math.isfinite(value):
            aim = f" (target {number(block.target, 2)})" if word == "accept" and block.target else ""
            parts.append(f"{word} {number(value, 2)}{aim}")
    return " · ".join(parts)


def rows(content: Content) -> list[dict[str, Any]]:
    """The table of scalars, worst first: cells as text, with flags for values beyond their thresholds."""
    out = []
    for scalar in content.snapshot.scalars:
        rhat_bad = scalar.rhat is not None and math.isfinite(scalar.rhat) and scalar.rhat > RHAT_LIMIT
        out.append(
            {
                "label": scalar.label,
                "shown": content.called.get(scalar.label, scalar.label),
                "mean": beside(scalar.mean, scalar.sd),
                "sd": number(scalar.sd),
                "mcse": number(scalar.mcse, 2),
                "rhat": fixed(scalar.rhat),
                "ess_bulk": whole(scalar.ess_bulk),
                "ess_tail": whole(scalar.ess_tail),
                "rhat_bad": rhat_bad,
                "bulk_bad": _below(scalar.ess_bulk, content.ess_limit),
                "tail_bad": _below(scalar.ess_tail, content.ess_limit),
            }
        )
    return out


def _below(value: float | None, limit: float) -> bool:
    return value is not None and math.isfinite(value) and value < limit


def others(snapshot: Any, shown: int) -> str:
    """What a table of so many scalars leaves out: `… and 110 more: run.summary() has all`; empty where that
    is nothing."""
    left = max(snapshot.numbers, len(snapshot.scalars)) - shown
    return f"… and {whole(left)} more: run.summary() has all" if left > 0 else ""


def partly(snapshot: Any) -> str:
    """Which sites are followed in part: `followed, evenly spaced: 2 048 of 84 010 elements of z`."""
    parts = [f"{whole(some)} of {whole(size)} elements of {n}" for n, (some, size) in snapshot.partly.items()]
    return f"followed, evenly spaced: {'; '.join(parts)}" if parts else ""


def verdict(snapshot: Any) -> str:
    """What an ended run is worth, with what was checked or why not; empty while it goes on."""
    found = getattr(snapshot, "verdict", None)
    if snapshot.status not in ENDED or found is None or snapshot.status == "failed":
        return ""
    if found.state == "converged" and not found.notes:
        nested = getattr(snapshot, "groups", 0) not in (0, snapshot.chains)
        each = "superchain" if nested else "chain"
        return (
            f"Converged: every R-hat is at most {RHAT_LIMIT}, every bulk ESS at least {ESS_PER_CHAIN} per "
            f"{each}, no chain is stuck, and fewer than one transition in a thousand diverged."
        )
    return f"{str(found)[0].upper()}{str(found)[1:]}."


HEADS = ("", "mean", "sd", "mcse", "R-hat", "ESS bulk", "ESS tail")
CELLS = ("label", "mean", "sd", "mcse", "rhat", "ess_bulk", "ess_tail")
FLAGS = {"rhat": "rhat_bad", "ess_bulk": "bulk_bad", "ess_tail": "tail_bad"}
"""What tells in a row that the cell is bad."""


def text(content: Content, limit: int = 12) -> str:
    """The dashboard for a terminal."""
    snapshot = content.snapshot
    lines = [f"{content.model}: {status_of(snapshot)[0]} · {progress(snapshot)}"]
    verdict = getattr(snapshot, "verdict", None)
    if snapshot.status in ENDED and verdict is not None and not verdict.ok:
        lines.append(f"  {verdict}")
    if snapshot.message:
        lines.append(snapshot.message)
    for block in snapshot.blocks:
        lines.append(f"  {block.label}: {block_detail(block)}")
    table = rows(content)
    if table:
        cells = [HEADS, *((row["shown"], *(row[name] for name in CELLS[1:])) for row in table[:limit])]
        widths = [max(len(line[i]) for line in cells) for i in range(len(HEADS))]
        for line in cells:
            first, *rest = zip(line, widths, strict=True)
            padded = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
            lines.append(("  " + "  ".join(padded)).rstrip())
        if left := others(snapshot, min(len(table), limit)):
            lines.append(f"  {left}")
        if snapshot.partly:
            lines.append(f"  {partly(snapshot)}")
    for warning in snapshot.warnings:
        lines.append(f"! {warning.text}" + (f" ({warning.hint})" if warning.hint else ""))
    return "\n".join(lines)
