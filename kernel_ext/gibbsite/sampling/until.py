"""Targets of a run in words: `"ess>400, rhat<1.01"`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gibbsite.errors import OptionError
from gibbsite.sampling.snapshot import ScalarStat

_MEASURES = {
    "ess": lambda s: min(s.ess_bulk, s.ess_tail),
    "ess_bulk": lambda s: s.ess_bulk,
    "ess_tail": lambda s: s.ess_tail,
    "rhat": lambda s: s.rhat,
    "mcse": lambda s: s.mcse,
}
_CLAUSE = re.compile(r"\s*(\w+)\s*(<=?|>=?)\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Until:
    """Conditions that every scalar with defined measures has to meet."""

    text: str
    clauses: tuple[tuple[str, str, float], ...]

    @classmethod
    def parse(cls, text: str) -> "Until":
        """Read `measure < number` or `measure > number`, separated by commas.

        Measures: ess (the lower of bulk and tail), ess_bulk, ess_tail, rhat, mcse. Raises `OptionError`.
        """
        clauses = []
        for part in text.split(","):
            match = _CLAUSE.fullmatch(part)
            if match is None or match[1].lower() not in _MEASURES:
                known = ", ".join(_MEASURES)
                raise OptionError(
                    f"until: {part.strip()!r} is no condition; write such as 'ess>400, rhat<1.01' ({known})"
                )
            clauses.append((match[1].lower(), match[2][0], float(match[3])))
        return cls(text, tuple(clauses))

    def met(self, scalars: Sequence[ScalarStat]) -> bool:
        """Whether all hold. Scalars without measures (constant ones) do not count; some must have them."""
        seen = False
        for measure, sign, bound in self.clauses:
            for s in scalars:
                value = _MEASURES[measure](s)
                if np.isnan(value):
                    continue
                seen = True
                if not (value < bound if sign == "<" else value > bound):
                    return False
        return seen
