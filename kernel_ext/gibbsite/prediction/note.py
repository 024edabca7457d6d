"""In one line, what a prediction knew and what was new."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gibbsite.diagnostics.predictive.caveats import factors_beside, factors_text
from gibbsite.prediction.asked.arguments import Asked, leaves_of, observed_of
from gibbsite.prediction.asked.planned import Planned
from gibbsite.prediction.asked.resting import bypassed
from gibbsite.prediction.asked.set_sites import Held


def told(
    origin: Any, asked: Asked, held: Held, plan: Planned, prior: bool, worth: float | None, words: str
) -> str:
    """The line."""
    parts = ["the prior, before any data" if prior else ""]
    for r in plan.rows if asked.new and plan.cut is None else ():
        if r.same < r.now:
            parts.append(f"{_rows(r.now - r.same)}" + (f" after {r.same} of the run's own" if r.same else ""))
    if plan.cut is not None:
        parts.append(f"{_rows(plan.cut[1])}, given the {plan.cut[0]} that the run has seen")
    seen: dict[tuple[int, int, str], list[str]] = {}
    for name, (known, new, text) in plan.news.items():
        site = plan.density.sites[name]
        before = origin.sites.get(name)
        if site.in_scan:
            seen.setdefault((known, new, "steps: drawn forward from the last"), []).append(name)
            continue
        grown = {
            p: a for a, p in zip(site.plate_axes, site.plates, strict=True)
            if before is None or a >= len(before.shape) or before.shape[a] != site.shape[a]
        }  # fmt: skip
        joint = known and site.element_rank < len(site.shape)
        how = f"drawn from {text}" + (" given the known" if joint else "")
        what = next(iter(grown or site.plates[-1:]), "elements")
        part = plan.ask.recipe.parts.get(name)
        if len(grown) == 1:  # of several numbers each, or in other plates, too
            at = np.full(site.shape[grown[what]], -1) if part is None else part.axes[grown[what]]
            known, new = int((at >= 0).sum()), int((at < 0).sum())
        seen.setdefault((known, new, f"{what}: {how}"), []).append(name)
    for (known, new, text), names in seen.items():
        what, _, how = text.partition(": ")
        count = f"{known} {what} known, {new} new" if known else f"{new} new {what}"
        parts.append(f"{count}: {', '.join(names)} {how}")
    if not prior and not plan.news and not plan.new_rows:
        parts.append("all latents as the run drew them")
    for name in sorted(plan.ask.recipe.series):
        now, before = plan.density.sites[name].shape[0], origin.sites[name].shape[0]
        if now < before:
            parts.append(
                f"{name}: the first {now} of {before} steps; a forecast takes all of them and those to come"
            )
            break
    parts += plan.beside
    for leaf, site, other in () if asked.new else bypassed(origin, plan.density):
        if other != site and {site, other} <= plan.ask.data:
            parts.append(f"{other} given {leaf} as it was observed, and not as {site} is drawn here")
    if beside := factors_beside(origin.density, plan.data):
        parts.append(factors_text(beside, "drawn"))
    parts += [*_unused(origin, asked, held), *held.words]
    if worth is not None:
        parts.append(f"draws weighted by its likelihood, worth {worth:.0f}")
    parts.append(words)
    return "; ".join(p for p in parts if p)


def _unused(origin: Any, asked: Asked, held: Held) -> Iterator[str]:
    """A sentence for each site of vectors for which new data hold numbers and gaps, as if those were to be
    drawn given the numbers."""
    now = leaves_of(origin, asked.values) if asked.new else {}
    for name, leaves in observed_of(origin, asked.new - asked.absent).items():
        site = origin.sites[name]
        arrays = [np.asarray(now[leaf]) for leaf in leaves if leaf in now]
        gaps = [np.isnan(a) for a in arrays if a.dtype.kind == "f"]
        some = any(g.any() for g in gaps) and not all(g.all() for g in gaps)
        if some and name not in held.values and site.element_rank < len(site.shape):
            yield (
                f"the numbers among the data of {name} are not used, as all of it is drawn: "
                f"given={{{name!r}: …}} draws what is NaN there given the others"
            )


def thinned(leading: tuple[int, int], wanted: int | None, each: int, most: int) -> tuple[int, str]:
    """How many draws per chain are predicted with, and what is said of it where they are fewer than all."""
    chains, steps = leading
    fits = max(1, most // (each * chains))
    count = min(steps if wanted is None else min(wanted, steps), fits if wanted is None else steps)
    if count == steps:
        return count, ""
    why = f", which take {count * chains * each / 2**30:.1f} GiB" if wanted is None else ""
    return count, f"{count} of {steps} draws per chain, evenly spaced{why}"


def _rows(count: int) -> str:
    return f"{count} new row{'s' * (count != 1)}"
