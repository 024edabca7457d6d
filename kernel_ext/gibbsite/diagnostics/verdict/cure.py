"""One thing to try about a run, and what is known of the run when it is looked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gibbsite.density import Density
from gibbsite.diagnostics.verdict.verdict import ESS_PER_CHAIN, RHAT_LIMIT


@dataclass(frozen=True)
class Cure:
    """A change, and what it is expected to do.

    Of the model by one of its methods (`method`, called with `value`), or `draws` more of the same run;
    `warmup` where another one is to be asked for.
    """

    words: str
    expects: str
    method: str = ""
    value: Any = None
    draws: int = 0
    warmup: str = ""

    def applied(self, model: Any) -> Any:
        """The changed model; raises a `GibbsiteError` where the model refuses."""
        return getattr(model, self.method)(*(self.value if isinstance(self.value, tuple) else (self.value,)))

    def code(self, model: str, run: str = "run", flags: str = "") -> str:
        """The lines that make it so in a notebook, where these are the names of model and run."""
        if self.draws:
            return f"{run}.resume(draws={self.draws})"
        sample = f"{run} = %sample {model}{flags}"
        if self.method == "with_schedule":
            return f'{sample} --schedule "{self.value}"'
        return f"{model} = {model}.{self.method}({_arguments(self.value)})\n{sample}"


def _arguments(value: Any) -> str:
    if isinstance(value, Mapping):
        plain = all(n.isidentifier() for n in value)
        return ", ".join(f'{n}="{v}"' for n, v in value.items()) if plain else repr(dict(value))
    return ", ".join(f'"{v}"' for v in (value if isinstance(value, tuple) else (value,)))


class Case:
    """A run at its end, and what the rows ask of it."""

    def __init__(self, run: Any):
        self.model, self.settings = run.model, run.settings
        self.snapshot = run.snapshot(limit=60)
        self.topics = {n.topic: n for n in self.snapshot.warnings}
        self.limit = ESS_PER_CHAIN * (getattr(self.snapshot, "groups", 0) or self.snapshot.chains)
        self.schedule_text = run.schedule_text

    @cached_property
    def density(self) -> Density:
        """That of the model."""
        return self.model.density

    @property
    def structures(self) -> bool:
        """Whether chains go between structures, of which each has its own density and updates."""
        return self.schedule_text.startswith("Structure ")

    @cached_property
    def schedule(self) -> Any:
        return self.model.schedule(self.schedule_text)

    @cached_property
    def bad(self) -> tuple[str, ...]:
        """The sites that have not converged, worst first."""
        poor = (s for s in self.snapshot.scalars if s.rhat > RHAT_LIMIT or s.ess_bulk < self.limit)
        return tuple(dict.fromkeys(s.site for s in poor))

    @cached_property
    def blocks(self) -> list[tuple[Any, tuple[str, ...]]]:
        """The schedule's updates, each with all the model's own sites in it."""
        return [(u, tuple(self.schedule.members(u.sites))) for u in self.schedule.updates]

    def block_of(self, site: str) -> Any:
        names = {site, *self.density.groups.get(site, ())}
        return next((u for u, members in self.blocks if names & set(members)), None)
