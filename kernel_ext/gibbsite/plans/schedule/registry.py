"""The kernels that a schedule may name: what each fits, its options, how it is built.

`register_kernel` adds one of your own, for every schedule from then on.
"""

import inspect
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpyro.infer.mcmc import MCMCKernel

from gibbsite.conditional.finite.window import window_draw
from gibbsite.conditional.forms.walk import Refused
from gibbsite.conditional.linear.choose import together
from gibbsite.conditional.linear.collapsed import collapsed_block, outer_site
from gibbsite.conditional.linear.joint import is_gaussian
from gibbsite.conditional.linear.polya_gamma import polya_gamma_block
from gibbsite.conditional.reads.elements import element_density
from gibbsite.conditional.reads.group import unit_of, updated_together
from gibbsite.conditional.reads.term_access import endless_terms
from gibbsite.conditional.update import Update as Exactly
from gibbsite.density.hierarchy.stick_labels import StickLabels, stick_labels
from gibbsite.errors import OptionError, ScheduleError
from gibbsite.kernels.blocks.conjugate import Ancestral, Collapsed, ConjugateGibbs, PolyaGamma, refusal
from gibbsite.kernels.blocks.crossing import Crossing
from gibbsite.kernels.blocks.crossing import together as crossing
from gibbsite.kernels.blocks.elliptical import GAUSSIAN, EllipticalSlice
from gibbsite.kernels.blocks.finite import FiniteGibbs, WindowGibbs
from gibbsite.kernels.blocks.label_switching import LabelSwitching
from gibbsite.kernels.blocks.metropolis import IndependenceMetropolis, Metropolis, RandomWalk
from gibbsite.kernels.blocks.slice import ReflectiveSlice, Slice
from gibbsite.kernels.blocks.tempered import Tempered
from gibbsite.kernels.hmc import AimedHMC
from gibbsite.kernels.learnt.moving import moving_support
from gibbsite.kernels.nuts.block import LearntNUTS

Facts = Any
"""What is asked of a model: `.sites`, `.conditional(site)`, `.density`, `.runtime_model`, `.inputs`."""


@dataclass(frozen=True)
class KernelRow:
    """One kernel. `fits(facts, site)` returns None, or in words why it cannot update that site.

    `options` maps each option to the types it takes; `build(facts, sites, options)` makes the NumPyro kernel;
    `cost(facts, sites, options)` estimates the work of one update, in words.
    `together(facts, sites, options)` returns None, or why the sites, each of which fits, cannot be one block.
    `signature(facts, sites)` names what of the analysis is compiled in beyond the model's fingerprint;
    `why(facts, sites)` says more than `reason` does of every block alike. `density_only` says that it needs
    nothing of a model but its log density, so that sites may be summed out of its target. `arguments` are the
    options, with their defaults, that a compiled program takes as inputs: others need no other program. They
    are built with the option `argument`, what the block is called there.
    """

    name: str
    fits: Callable[[Facts, str], str | None]
    build: Callable[[Facts, tuple[str, ...], Mapping[str, Any]], MCMCKernel]
    options: Mapping[str, tuple[type, ...]]
    cost: Callable[[Facts, tuple[str, ...], Mapping[str, Any]], str]
    reason: str
    needs: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    together: Callable[..., str | None] = lambda facts, sites, options: None
    signature: Callable[[Facts, tuple[str, ...]], tuple[str, ...]] = lambda facts, sites: ()
    density_only: bool = False
    why: Callable[[Facts, tuple[str, ...]], str] | None = None
    arguments: Mapping[str, float] = field(default_factory=dict)


_ROWS: dict[str, KernelRow] = {}
_NUMBER = (numbers.Real,)
_WHOLE = (numbers.Integral,)


def kernels() -> Mapping[str, KernelRow]:
    """All kernels by name."""
    return dict(_ROWS)


def find_kernel(name: str) -> KernelRow | None:
    """The row of a kernel's name or alias, upper and lower case alike."""
    for row in _ROWS.values():
        if name.lower() in (row.name.lower(), *(alias.lower() for alias in row.aliases)):
            return row
    return None


def register_kernel(row: KernelRow) -> None:
    """Add a kernel to those that schedules may name; `ScheduleError` if its name is taken."""
    for name in (row.name, *row.aliases):
        if find_kernel(name) is not None:
            raise ScheduleError(f"there is already a kernel named {name!r}")
    _ROWS[row.name] = row


def kernel_row(
    name: str, cls: type, *, fits: Callable[[Facts, str], str | None] | None = None, **more: Any
) -> KernelRow:
    """The row of a kernel class whose constructor takes the model first and then its options.

    Without `fits`, any continuous site will do.
    """
    known = [p for p in inspect.signature(cls).parameters.values() if p.name != "model"]
    options = {p.name: _types(p) for p in known}
    defaults = {
        "build": lambda facts, sites, options: cls(facts.runtime_model, **options),
        "options": options,
        "cost": lambda facts, sites, options: "not estimated",
        "reason": "asked for",
    }
    return KernelRow(name, fits or continuous, **{**defaults, **more})


def _types(parameter: inspect.Parameter) -> tuple[type, ...]:
    if isinstance(parameter.default, bool):
        return (bool,)
    if isinstance(parameter.default, int):
        return _WHOLE
    if isinstance(parameter.default, float):
        return _NUMBER
    return (object,)


def size(facts: Facts, sites: Sequence[str]) -> int:
    """Elements of the sites together."""
    return sum(int(np.prod(facts.sites[s].shape, dtype=np.int64)) for s in sites)


def continuous(facts: Facts, site: str) -> str | None:
    """Fits sites with a continuous support."""
    return f"{site!r} is discrete" if facts.sites[site].discrete else None


def apart(facts: Facts, sites: Sequence[str]) -> bool:
    """Whether the elements of each site are independent given all the rest, nothing being summed out."""
    if getattr(facts, "summed_out", ()):
        return False
    return all(n in facts.density.latent_vars and element_density(facts.density, n) for n in sites)


def _smooth(facts: Facts, site: str) -> str | None:
    """Fits continuous sites with a gradient that neither have nor move a support which depends on latents."""
    return continuous(facts, site) or moving_support(facts, site) or _without_gradient(facts, site)


def _without_gradient(facts: Facts, site: str) -> str | None:
    terms = endless_terms(facts.density, site)
    through = "reads it through a loop of unknown length, which has no gradient; use Slice"
    return f"{', '.join(terms)} {through}" if terms else None


def _finite(facts: Facts, site: str) -> str | None:
    if not facts.sites[site].discrete:
        return f"{site!r} is continuous: its values cannot be listed"
    c = facts.conditional(unit_of(facts.density, site))
    return None if c.kind in ("finite", "chain") else c.reason


def _conjugate(facts: Facts, site: str) -> str | None:
    c = facts.conditional(site)
    return None if c.kind == "conjugate" else c.reason


def _gaussian(facts: Facts, site: str) -> str | None:
    name = facts.sites[site].fn_name
    base, *transforms = facts.density.transforms.get(site, (name,))
    if base == "Normal" and set(transforms) == {"Affine"}:
        return None
    return None if name in GAUSSIAN else f"the prior of {site!r} is {name}, not Gaussian"


def _single_integers(facts: Facts, site: str) -> str | None:
    s = facts.sites[site]
    if s.discrete and s.support is not None and s.support.event_dim > 0 and s.event_shape:
        name = type(s.support).__name__
        if "Independent" not in name:
            return f"the support of {site!r} couples integers"
    return None


def _unseen(facts: Facts, site: str) -> str | None:
    return None if site in facts.generated else f"observations or factors depend on {site!r}"


def _build_ancestral(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> MCMCKernel:
    for site in sites:
        readers = {t.origin for t, _ in (*facts.density.terms_of(site), *facts.density.bounds_of(site))}
        outside = sorted(readers - set(sites))
        if outside:
            raise ScheduleError(
                f"{site!r} cannot be drawn forward alone: {', '.join(outside)} depends on it; put both into "
                f"one block"
            )
    return Ancestral(facts.runtime_model)


_ADAPTIVE: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("step_size", "target_accept_prob"), _NUMBER),
    **dict.fromkeys(("adapt_step_size", "adapt_mass_matrix", "dense_mass"), (bool,)),
}
_HMC: Mapping[str, tuple[type, ...]] = {**_ADAPTIVE, "num_steps": _WHOLE, "trajectory_length": _NUMBER}
_NUTS: Mapping[str, tuple[type, ...]] = {
    **_ADAPTIVE,
    "max_tree_depth": _WHOLE,
    "centring": (str,),
    "metric": (str,),
    "pooled": (bool,),
}


def _known(found: StickLabels | None) -> StickLabels:
    assert found is not None  # `fits` was asked
    return found


def _build_interleaved(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> MCMCKernel:
    raise ScheduleError("Interleave is built of its updates")


def _labelled(facts: Facts, site: str) -> str | None:
    """Why a site bears no label whose weight is broken off a stick."""
    found = stick_labels(facts.density)
    if found is None:
        return "no weights broken off a stick, as v * cumprod(1 - v), tell labels of its components apart"
    bearing = {*found.continuous, *found.labels}
    return None if site in bearing else f"only {' and '.join(sorted(bearing))} bear labels of components"


def _all_labelled(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> str | None:
    found = stick_labels(facts.density)
    missing = [n for n in found.continuous if n not in sites] if found else []
    return f"labels change places in {' and '.join(missing)} as well: add to the block" if missing else None


def _build_hmc(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> MCMCKernel:
    options = dict(options)
    for name in ("step_size", "num_steps", "trajectory_length"):
        if name in options and not 0 < options[name] < math.inf:
            raise OptionError(f"HMC: {name} must be positive, got {options[name]!r}")
    aim = options.pop("target_accept_prob", None)
    if aim is not None and not 0 < aim < 1:
        raise OptionError(f"HMC: target_accept_prob must lie between 0 and 1, got {aim!r}")
    if "num_steps" in options:
        options.setdefault("trajectory_length", None)
    return AimedHMC(facts.runtime_model, **options)


def _gradients(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> str:
    if "num_steps" in options:
        return f"{options['num_steps']} gradients"
    if "trajectory_length" in options or "max_tree_depth" not in options:
        return "up to 2^10 gradients; how many, warm-up settles"
    return f"up to 2^{options['max_tree_depth']} gradients"


def _jointly(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> str | None:
    """None where the coupled sites of a block are one Gaussian, or where a joint draw is not wanted."""
    if len(sites) < 2 or options.get("joint") is False:
        return None
    found = together(facts.density, sites)
    return refusal(found) if found.refused else None


Found = Callable[[Facts, tuple[str, ...], Mapping[str, Any]], Sequence[Exactly]]


def _exactly(found: Found) -> dict[str, Any]:
    """What a row says of blocks whose exact updates are `found`."""
    return {
        "cost": lambda facts, sites, options: "; ".join(u.cost for u in found(facts, sites, options)),
        "signature": lambda facts, sites: tuple(u.signature for u in found(facts, sites, {})),
        "why": lambda facts, sites: "; ".join(u.reason for u in found(facts, sites, {})),
    }


def _conjugates(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> Sequence[Exactly]:
    found = together(facts.density, sites if options.get("joint", True) else ())
    drawn = {s for j in found.joint for s in j.sites}
    return [*found.joint, *(facts.conditional(s) for s in sites if s not in drawn)]


def _conditionals(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> Sequence[Exactly]:
    return [facts.conditional(s) for s in updated_together(facts.density, sites)]


def _windows(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> Sequence[Exactly]:
    return [window_draw(facts.density, s) for s in updated_together(facts.density, sites)]


def _logistic(facts: Facts, site: str) -> str | None:
    """Fits the linear parts of logistic predictors, and sites that can join the block of one: those that
    are Gaussian, and scales, which are drawn with the Gaussian ones integrated out."""
    if facts.density.sites[site].discrete:
        return f"{site!r} is discrete"
    why = refused(polya_gamma_block, facts, (site,))
    outer = refused(outer_site, facts, site) is None
    if why is None or not (outer or is_gaussian(facts.conditional(site))):
        return why
    density = facts.density  # a blanket calls a group by its name
    near = [m for n in facts.conditional(site).blanket for m in density.groups.get(n, (n,))]
    near = [n for n in near if n in density.sites and density.sites[n].latent]
    joined = any(refused(polya_gamma_block, facts, (site, n)) is None for n in near)
    return None if joined else why


def refused(
    derive: Callable[..., Any], facts: Facts, sites: Sequence[str] | str, kind: type[Exception] = Refused
) -> str | None:
    """Why something cannot be derived for sites, or for one; None where it can."""
    try:
        derive(facts.density, sites)
    except kind as why:
        return str(why)
    return None


def _as_one(kernel: str, derive: Callable[..., Any]) -> Callable[..., str | None]:
    """A row's `together`: why what a kernel does to all sites of a block at once cannot be derived."""

    def refusing(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> str | None:
        why = refused(derive, facts, sites)
        return None if why is None else f"{kernel} cannot update {' and '.join(sites)}: {why}"

    return refusing


def _collapsible(facts: Facts, site: str) -> str | None:
    """Fits Gaussian sites, which are integrated out, and those that are drawn meanwhile: discrete ones with
    listed values, and continuous ones such as scales."""
    if facts.sites[site].discrete:
        return _finite(facts, site)
    return None if is_gaussian(facts.conditional(site)) else refused(outer_site, facts, site)


def _crossable(facts: Facts, site: str) -> str | None:
    """Fits continuous sites, and discrete ones whose values can be listed."""
    return _finite(facts, site) if facts.sites[site].discrete else None


def _endless(facts: Facts, site: str) -> str | None:
    """Fits integers of infinite support whose elements can be drawn apart."""
    return refused(window_draw, facts, unit_of(facts.density, site))


def _all_latents(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> str | None:
    """None where no continuous latent that observations see is left to other blocks."""
    left = [
        n
        for n in facts.density.latents
        if n not in (*sites, *facts.generated) and not facts.density.sites[n].discrete
    ]
    if not left:
        return None
    return (
        f"Tempered updates all latents that observations see, as replicas at other temperatures know nothing "
        f"of what other blocks draw; put {', '.join(map(repr, left))} into it too"
    )


def _build_independence(
    facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]
) -> IndependenceMetropolis:
    known = None if getattr(facts, "summed_out", ()) else facts.density
    return IndependenceMetropolis(facts.runtime_model, density=known, **options)


def _build_tempered(facts: Facts, sites: tuple[str, ...], options: Mapping[str, Any]) -> MCMCKernel:
    gone = (*sites, *getattr(facts, "summed_out", ()), *getattr(facts, "generated", ()))
    left = [n for n in facts.density.latents if n not in gone]
    if left:
        raise ScheduleError(
            f"Tempered updates all latents that observations see; sum {', '.join(map(repr, left))} out: "
            f"Eliminate [{' '.join(left)}] > Tempered(NUTS [{' '.join(sites)}])"
        )
    return Tempered(facts.runtime_model, **options)


for _row in (
    KernelRow(
        "Conjugate",
        _conjugate,
        lambda facts, sites, options: ConjugateGibbs(facts.runtime_model, facts.density, **options),
        {"joint": (bool,)},
        reason="certified conjugate",
        aliases=("ConjGibbs",),
        together=_jointly,
        **_exactly(_conjugates),
    ),
    KernelRow(
        "PolyaGamma",
        _logistic,
        lambda facts, sites, options: PolyaGamma(facts.runtime_model, facts.density),
        {},
        reason="logistic likelihood of a linear predictor",
        aliases=("PG",),
        together=_as_one("PolyaGamma", polya_gamma_block),
        **_exactly(lambda facts, sites, options: (polya_gamma_block(facts.density, sites),)),
    ),
    KernelRow(
        "Collapsed",
        _collapsible,
        lambda facts, sites, options: Collapsed(facts.runtime_model, facts.density),
        {},
        reason="Gaussian sites integrated out",
        together=_as_one("Collapsed", collapsed_block),
        **_exactly(lambda facts, sites, options: (collapsed_block(facts.density, sites),)),
    ),
    KernelRow(
        "Crossing",
        _crossable,
        lambda facts, sites, options: Crossing(facts.runtime_model, facts.density),
        {},
        lambda facts, sites, options: crossing(facts.density, sites).cost,
        "discrete and continuous sites that decide each other",
        together=_as_one("Crossing", crossing),
        why=lambda facts, sites: crossing(facts.density, sites).reason,
    ),
    KernelRow(
        "Gibbs",
        _finite,
        lambda facts, sites, options: FiniteGibbs(facts.runtime_model, facts.density, **options),
        {"joint": (bool,)},
        reason="listed support",
        aliases=("DiscGibbs", "FinGibbs", "Chain"),
        **_exactly(_conditionals),
    ),
    KernelRow(
        "Window",
        _endless,
        lambda facts, sites, options: WindowGibbs(facts.runtime_model, facts.density),
        {},
        reason="infinite support",
        **_exactly(_windows),
    ),
    KernelRow(
        "Interleave",
        lambda facts, site: (
            "it takes updates that share sites: Interleave(NUTS centred, NUTS non-centred) [a b]"
        ),
        _build_interleaved,
        {},
        lambda facts, sites, options: "those of its updates",
        "updates that share sites, one after another in every sweep",
    ),
    KernelRow(
        "SwitchLabels",
        _labelled,
        lambda facts, sites, options: LabelSwitching(
            facts.runtime_model, _known(stick_labels(facts.density)), **options
        ),
        {"times": _WHOLE},
        lambda facts, sites, options: (
            f"{options.get('times') or _known(stick_labels(facts.density)).count} evaluations of the density"
        ),
        "beside other updates of the same sites: two components change places, with or without their weights",
        aliases=("LabelSwitching",),
        together=_all_labelled,
        density_only=True,
    ),
    KernelRow(
        "Ancestral",
        _unseen,
        _build_ancestral,
        {},
        lambda facts, sites, options: "one run of the model",
        "no observation depends on it: drawn forward, each draw independent of the last",
        aliases=("Forward",),
    ),
    kernel_row(
        "ESlice",
        EllipticalSlice,
        fits=_gaussian,
        reason="Gaussian prior; nothing to tune",
        cost=lambda f, s, o: "about 4 evaluations of the touched factors",
        aliases=("EllipticalSlice",),
    ),
    KernelRow(
        "Slice",
        continuous,
        lambda facts, sites, options: Slice(
            facts.runtime_model, density=facts.density if apart(facts, sites) else None, **options
        ),
        {"width": _NUMBER, "max_steps": _WHOLE},
        lambda facts, sites, options: (
            "about 10 evaluations of the touched factors"
            if apart(facts, sites)
            else f"about 6 × {size(facts, sites)} evaluations of the touched factors"
        ),
        "any continuous support; element by element",
        density_only=True,
    ),
    kernel_row(
        "ReflectiveSlice",
        ReflectiveSlice,
        fits=continuous,
        reason="slice that follows the gradient",
        cost=lambda f, s, o: f"{o.get('num_steps', 10)} gradients",
        aliases=("RSlice", "ReflSlice"),
        density_only=True,
    ),
    kernel_row(
        "RandomWalk",
        RandomWalk,
        fits=_single_integers,
        reason="needs nothing but the density",
        cost=lambda f, s, o: "2 evaluations of the touched factors",
        options={"step_size": _NUMBER, "target_accept_prob": _NUMBER},
        aliases=("RWMetropolis", "MWG"),
        density_only=True,
        arguments={"target_accept_prob": math.nan},  # none is given
    ),
    kernel_row(
        "Independence",
        IndependenceMetropolis,
        build=_build_independence,
        fits=lambda facts, site: None,
        options={"proposal": (object,)},
        reason="proposes from the prior, or as asked",
        cost=lambda f, s, o: "2 evaluations of the touched factors",
        aliases=("IndependenceMetropolis",),
    ),
    kernel_row(
        "Metropolis",
        Metropolis,
        fits=lambda facts, site: None,
        reason="the user's proposal",
        cost=lambda f, s, o: "2 evaluations of the touched factors",
        needs=("proposal",),
        aliases=("MH", "Prop", "PropMH"),
        density_only=True,
    ),
    KernelRow(
        "HMC",
        _smooth,
        _build_hmc,
        _HMC,
        _gradients,
        "continuous",
        aliases=("GradHMC",),
        density_only=True,
        arguments={"target_accept_prob": math.nan},  # none is given
    ),
    KernelRow(
        "Tempered",
        _smooth,
        _build_tempered,
        {"rungs": _WHOLE, "explorer": (str,), "max_tree_depth": _WHOLE},
        lambda facts, sites, options: (
            f"{options.get('rungs', 10)} replicas, each up to 2^{options.get('max_tree_depth', 4)} gradients"
            if options.get("explorer", "NUTS") == "NUTS"
            else f"{options.get('rungs', 10)} replicas, each about 6 × {size(facts, sites)} evaluations"
        ),
        "several modes: replicas from a fitted reference to the density exchange places",
        aliases=("ParallelTempering",),
        together=_all_latents,
        density_only=True,
    ),
    KernelRow(
        "NUTS",
        _smooth,
        lambda facts, sites, options: LearntNUTS(facts.runtime_model, facts.density, **options),
        _NUTS,
        _gradients,
        "continuous; gradients and step size adapted",
        density_only=True,
        arguments={"target_accept_prob": math.nan},  # none is given
    ),
):
    register_kernel(_row)
