"""What a compiled run needs of a model and a schedule: one kernel, its inputs, and names for the rest."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gibbsite.conditional.reads.group import updated_together
from gibbsite.density import Density, Site
from gibbsite.density.liveness import switched
from gibbsite.kernels.composite import PoolingGibbs
from gibbsite.plans.candidates.trial import Candidate

GRADIENTS = ("NUTS", "HMC")
"""Kernels that follow gradients of a target."""


@dataclass(frozen=True)
class Block:
    """One block of a sweep: `kernel` updates `sites` with `options`, `eliminated` among them, which are
    summed out of its target; `label` names it to people."""

    label: str
    kernel: str
    sites: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    eliminated: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Plan:
    """A model and a schedule, ready to run.

    `kernel` is a `numpyro.infer.Gibbs` composite; `inputs` are the arrays that every step takes as
    arguments (`model_kwargs={"_gibbsite_inputs": inputs}`), so that plans with equal `cache_key` share one
    compiled program whatever their data. `blocks` stand in sweep order; `sites` are those to be recorded,
    `groups` the indexed ones to be stacked under one name; `observed` holds data by the names of
    `observed_sites`. `fingerprint` is a stable hash of the structure,
    by which a saved run knows its model. `model` is the model as written, with its data in the one keyword
    argument; where the kernel runs on array sites instead, `members` tells whose values each of them stacks.
    `density` is what the kernel was derived from, over the kernel's own sites; a run that was loaded without
    its model has none. `generated` names the latents that no observation can see; those that are
    `hidden` from the kernel are drawn forward by `model`, given its values, once per draw, where `stacked`
    tells which of the model's sites the kernel's and the recorded ones are made of. `origin` is the `Model`
    itself; `prepared` is what it keeps that was made for runs to come. `labels` are those of plates'
    elements, `value_labels` those of discrete sites' values. `values_checked` asks for parameters to be
    looked at where chains start. `promised` is the schedule as it was weighed among others, where it was;
    `work()` is that of a sweep where it can be counted, in about nanoseconds for four chains. A plan that was
    read back has the model's `source` and the `data`'s hash as texts.
    """

    kernel: PoolingGibbs
    inputs: Any
    blocks: tuple[Block, ...]
    sites: Mapping[str, Site]
    observed: Mapping[str, Any]
    groups: Mapping[str, tuple[str, ...]]
    fingerprint: str
    cache_key: Hashable
    model_name: str
    schedule_text: str
    observed_sites: Mapping[str, Site] = field(default_factory=dict)
    model: Callable[..., Any] | None = None
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    density: Density | None = None
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    value_labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    values_checked: bool = True
    generated: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    stacked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: Any = None
    prepared: dict[Any, Any] = field(default_factory=dict)
    promised: Candidate | None = None
    work: Callable[[], float] = lambda: math.nan
    source: str = ""
    data: str = ""

    @property
    def eliminated(self) -> frozenset[str]:
        """The sites that some block integrates out."""
        return frozenset(n for block in self.blocks for n in block.eliminated)


def drawn_as_one(density: Density, block: Block) -> bool:
    """Whether a block draws discrete sites from their joint law: several of them, or all elements of one."""
    several = len(updated_together(density, block.sites)) > 1
    return block.kernel == "Gibbs" and bool(block.options.get("joint", several))


def of_the_prior(plan: Plan) -> bool:
    """Whether nothing informs the latents: no observed site and no factor, so that draws are of the prior."""
    latents = {n for n, s in plan.sites.items() if s.role == "latent"}
    members = {m for n in latents for m in plan.groups.get(n, plan.stacked.get(n, (n,)))}
    if latents and (latents | members) <= {*plan.generated, *(latents - members)}:
        return True
    density = plan.density
    return density is not None and not (
        density.factor_names or any(s.role == "observed" for s in density.sites.values())
    )


def switches_apart(plan: Plan) -> tuple[str, ...]:
    """The discrete latents that switch others on and off which the plan does not draw with them."""
    if plan.density is None:
        return ()
    return drawn_apart(plan.density, [(b.kernel, b.sites, b.eliminated) for b in plan.blocks])


def drawn_apart(
    density: Density, updates: Iterable[tuple[str, Sequence[str], Sequence[str]]]
) -> tuple[str, ...]:
    """The discrete latents that switch others on and off which no exact draw of `updates` (kernel, sites, and
    what is eliminated from these) joins with them."""
    exact = [{*gone} if kernel in GRADIENTS else {*sites, *gone} for kernel, sites, gone in updates]
    found = switched(density)
    return tuple(n for n, off in found.items() if not any({n, *off} <= sites for sites in exact))
