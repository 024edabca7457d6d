"""What people ask of a run, checked before anything is made."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from gibbsite.errors import OptionError, UnknownNameError
from gibbsite.ground import arguments as sensible
from gibbsite.ground.arguments import shown
from gibbsite.plans.schedule.plan import Plan
from gibbsite.sampling.remote.pieces import checked
from gibbsite.storage.draws import empty_like
from gibbsite.storage.objects import Objects, local, located


class Options(TypedDict, total=False):
    """What may be asked of a run besides its schedule, for type checkers; what each means and its default:
    `gibbsite.sampling.start.made`, which tests hold this to."""

    draws: int
    warmup: int | str
    chains: int
    seed: int
    device: str | None
    store: str | Path | None
    keep_warmup: bool
    thin: int
    chunk: int | None
    init: Mapping[str, Any] | None
    until: str | None
    max_draws: int | None
    keep: str | Sequence[str] | None
    shard: str | None
    keep_probs: bool
    resume: str | None
    rescue: bool
    host: str | None
    on: Any
    durable: bool


def elsewhere(executor: Any, host: Any = None, shard: Any = None) -> None:
    """Raise `OptionError` where an executor is none, or where it is asked for beside what it replaces."""
    checked(executor)
    for name, value in (("host", host), ("shard", shard)):
        if value is not None:
            raise OptionError(f"on= deals the chains of one run out to workers; leave {name}= out")


MOST_CHAINS = 1_000_000
MOST_THIN = 2**31 - 1
MOST_DRAWS = 20_000
MOST_WARMUP = 1000
MOST_SEED = 2**63 - 1


def warmup_steps(value: Any) -> tuple[int, bool]:
    """The most steps of warm-up, and whether it may end sooner: a whole number, or "auto". Raises
    `OptionError`."""
    if isinstance(value, str):
        if value != "auto":
            raise OptionError(f"warmup must be a whole number or 'auto', not {shown(value)}")
        return MOST_WARMUP, True
    return sensible.count("warmup", value, 0), False


def place_of(value: Any, name: str = "path") -> Path | Objects:
    """A folder or a place in an object store. Raises `OptionError`."""
    return located(name, value) or sensible.a_path(name, local(value)).expanduser()


def local_folder(name: str, value: Any) -> Path:
    """A folder of this machine. Raises `OptionError`, also of a URL of another's."""
    found = local(value)
    if "://" in str(found):
        raise OptionError(f"{name}: {shown(value)} is no folder of this machine; gibbsite.load reads URLs")
    return sensible.a_path(name, found).expanduser()


def most_draws(value: Any, draws: int) -> int:
    """Draws per chain at which `until` gives up: 20,000, or as many as are asked for, unless it is given.
    Raises `OptionError`."""
    if value is None:
        return max(MOST_DRAWS, draws)
    most = sensible.count("max_draws", value, 1)
    if most < draws:
        raise OptionError(f"max_draws={most} is below draws={draws}; raise it, or ask for fewer draws")
    return most


def again(resume: Any, store: Any) -> None:
    """Raise `OptionError` where `resume` is not what goes on with the run in a store."""
    if resume is None:
        return
    if not isinstance(resume, str) or resume != "auto":
        raise OptionError(
            f"resume must be 'auto', which starts a run or goes on with it, not {shown(resume)}"
        )
    if store is None:
        raise OptionError("resume='auto' goes on with the run in a store: give store=PATH too")


def with_probabilities(plan: Plan, wanted: Any, keep: Any) -> bool:
    """Whether probabilities of discrete sites are to be computed at the end. Raises `OptionError` where there
    are none, or where draws that they are computed from are not kept."""
    wanted = sensible.flag("keep_probs", wanted)
    discrete = [n for n, s in plan.sites.items() if s.role == "latent" and s.discrete]
    if wanted and not discrete:
        raise OptionError("keep_probs: the model has no discrete latent site")
    if wanted and keep is not None:
        raise OptionError("keep_probs needs the draws of all latents: leave keep= out")
    return wanted


def kept(plan: Plan, keep: Any) -> tuple[str, ...] | None:
    """Names of sites to keep, in the plan's order; None keeps all. Raises `OptionError` or
    `UnknownNameError`."""
    if keep is None:
        return None
    if not isinstance(keep, str | Sequence) or not all(isinstance(name, str) for name in keep):
        raise OptionError(f"keep must name sites, as in 'mu, w' or ['mu', 'w'], not {shown(keep)}")
    names = keep.replace(",", " ").split() if isinstance(keep, str) else list(keep)
    known = empty_like(plan, 1)
    if not names:
        raise OptionError("keep: name at least one site, or leave it out to keep all")
    for name in names:
        if name not in known:
            raise UnknownNameError("site to keep", name, known)
    return tuple(n for n in known if n in names)


def starts(init: Any) -> Mapping[str, Any]:
    """Starting values by site. Raises `OptionError` for anything that is not numbers by name."""
    if init is None:
        return {}
    if not isinstance(init, Mapping):
        raise OptionError(f"init must give values by site, as in {{'mu': 0.0}}, not {shown(init)}")
    for name, value in init.items():
        if np.asarray(value).dtype.kind not in "biufc":
            raise OptionError(f"init[{shown(name)}] must be numbers, not {shown(value)}")
    return init
