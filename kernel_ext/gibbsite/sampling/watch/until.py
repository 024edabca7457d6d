"""Targets of a run in words: `"ess>400, rhat<1.01"`."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gibbsite.diagnostics.measures.snapshot import ScalarStat
from gibbsite.errors import OptionError
from gibbsite.ground.arguments import shown

_MEASURES = {
    "ess": lambda s: min(s.ess_bulk, s.ess_tail),
    "ess_bulk": lambda s: s.ess_bulk,
    "ess_tail": lambda s: s.ess_tail,
    "rhat": lambda s: s.rhat,
    "mcse": lambda s: s.mcse,
}
_CLAUSE = re.compile(
    r"\s*(\w+)\s*(<=?|>=?)\s*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)\s*", re.IGNORECASE
)


@dataclass(frozen=True)
class Until:
    """Conditions that every scalar with defined measures has to meet."""

    text: str
    clauses: tuple[tuple[str, str, float], ...]

    @classmethod
    def parse(cls, text: str, chains: int) -> "Until":
        """Read `measure < number` or `measure > number`, separated by commas, for a run of so many chains.

        Measures: ess (the lower of bulk and tail), ess_bulk, ess_tail, rhat, mcse. Raises `OptionError`.
        """
        clauses = []
        for part in text.split(","):
            match = _CLAUSE.fullmatch(part)
            if match is None or match[1].lower() not in _MEASURES:
                known = ", ".join(_MEASURES)
                raise OptionError(
                    f"until: {shown(part.strip())} is no condition; write such as 'ess>400, rhat<1.01' "
                    f"({known})"
                )
            measure, sign, bound = match[1].lower(), match[2][0], float(match[3])
            if bound == math.inf or (measure == "rhat" and sign == "<" and bound <= 1):
                raise OptionError(f"until: {part.strip()!r} can never hold")
            clauses.append((measure, sign, bound))
        if chains < 2 and any(measure == "rhat" for measure, _, _ in clauses):
            raise OptionError("until: rhat compares chains, and there is one; ask for more, or for ess")
        return cls(text, tuple(clauses))

    def met(self, scalars: Sequence[ScalarStat]) -> bool:
        """Whether all hold. Constant scalars do not count, but not all may be constant; a measure that is not
        defined (too few draws, non-finite ones) does not meet anything."""
        moving = [s for s in scalars if s.sd != 0]
        return bool(moving) and all(
            _MEASURES[measure](s) < bound if sign == "<" else _MEASURES[measure](s) > bound
            for measure, sign, bound in self.clauses
            for s in moving
        )
