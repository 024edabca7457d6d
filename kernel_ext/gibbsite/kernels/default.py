"""The kernels that a model gets when nobody says otherwise."""

from typing import Any

from numpyro.infer import NUTS, Gibbs

from gibbsite.conditional import FiniteConditional
from gibbsite.errors import ModelError
from gibbsite.kernels.finite import FiniteGibbs
from gibbsite.kernels.plan import Block, Plan


def default_plan(model: Any) -> Plan:
    """Gibbs for every discrete site, one NUTS block for everything continuous.

    Raises `ModelError` for a discrete site that has no finite conditional.
    """
    blocks, kernels, signatures = [], [], []
    continuous = []
    for name in model.density.latents:
        if not model.sites[name].discrete:
            continuous.append(name)
            continue
        conditional = model.conditional(name)
        if not isinstance(conditional, FiniteConditional):
            raise ModelError(f"{name!r} cannot be sampled: {conditional.reason}")
        signatures.append(conditional.signature)
        blocks.append(Block(name, "Gibbs", (name,)))
        kernels.append((FiniteGibbs(model.runtime_model, model.density), [name]))
    if continuous:
        label = continuous[0] if len(continuous) == 1 else f"[{' '.join(continuous)}]"
        blocks.append(Block(label, "NUTS", tuple(continuous)))
        kernels.append((NUTS(model.runtime_model), continuous))
    text = " (*) ".join(f"{b.kernel} {b.label}" for b in blocks)
    recorded = {n: s for n, s in model.sites.items() if s.role != "observed"}
    return Plan(
        kernel=Gibbs(kernels),
        inputs=model.inputs,
        blocks=tuple(blocks),
        sites=recorded,
        observed=model.observed,
        groups=model.density.groups,
        fingerprint=model.fingerprint,
        cache_key=(model.fingerprint, text, tuple(signatures)),
        model_name=model.name,
        schedule_text=text,
    )
