"""`sample` against `log_prob` of every distribution in the model."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpyro

from gibbsite.checking.finding import NO_PLACE, Finding
from gibbsite.checking.truth import Place, sites_of
from gibbsite.density.forward.agrees import disagreement
from gibbsite.density.model.alone import handlers_alone
from gibbsite.density.model.collect import base_distribution

_BLIND = "joint behaviour of integers that are drawn as vectors, and weights of modes without mass between"


def distributions(model: Any, at: Sequence[Place], seed: int, going: Callable[[], bool]) -> Finding | None:
    """Draws of each class of distribution against its log density, with the parameters of one site; None
    where no class of the model can be drawn from."""
    if not at:
        return Finding("distributions", "open", NO_PLACE)
    wrong, looked, late = [], 0, False
    classes: set[type] = set()
    for i, (name, site) in enumerate(sites_of(model, at[0].values).items()):
        if late := not going():
            break
        if site["type"] != "sample":
            continue
        fn = base_distribution(site["fn"])
        if type(fn).__name__ in ("Unit", "Delta", "ImproperUniform") or fn.support is None:
            continue
        if type(fn) in classes:
            continue
        classes.add(type(fn))
        with handlers_alone, numpyro.validation_enabled(False):
            why = disagreement(fn, jax.random.fold_in(jax.random.key(seed), i))
        if why == "it has no `sample`":
            continue
        looked += 1
        if why:
            wrong.append(f"{name} ({type(fn).__name__}): {why}")
    if not looked:
        return Finding("distributions", "open", "no time was left", _BLIND) if late else None
    if not wrong:
        text = f"draws of {looked} class{'' if looked == 1 else 'es'} follow the log density"
        text += "; no time was left for the others" * late
        return Finding("distributions", "right", text, _BLIND)
    # kernels take latents from `log_prob`; what a dummy `sample` spoils is what is drawn forward
    doubted = set(model.density.doubted)
    harmless = all(w.split(" ")[0] in doubted for w in wrong)
    text = "; ".join(wrong)
    if harmless:
        return Finding("distributions", "doubtful", f"{text}; drawn by the log density", _BLIND)
    told = f"{text}. Predictions and starts use `sample`, kernels `log_prob`: mend the class"
    return Finding("distributions", "wrong", told, _BLIND)
