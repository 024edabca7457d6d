"""What every step of a plan has in common."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from gibbsite.conditional.tables.factor import Factor


class Step:
    """Sums out `sites`: takes the tables of `used` factors from an environment and puts those of `made`
    there.

    Abstract. `entries` counts the entries of the tables it makes, `widest` those of the widest of them, and
    `uniforms` is the shape of the random numbers that a draw takes.
    """

    sites: tuple[str, ...]
    used: tuple[Factor, ...]
    made: tuple[Factor, ...]
    entries: float
    widest: float
    uniforms: tuple[int, ...]
    text: str

    @abstractmethod
    def run(self, env: dict[Factor, Any], mode: str, uniforms: Any) -> Any:
        """What the step adds to the log density: a scalar."""

    @property
    def signature(self) -> str:
        """Equal for steps that are the same program on tables of the same shapes."""
        return repr((type(self).__name__, self.sites, self.text, self.uniforms))


def origins(factors: Mapping[Factor, Any] | tuple[Factor, ...] | list[Factor], most: int = 6) -> str:
    """The sites and factors of the model that factors came from, as `[y, z]`."""
    names = list(dict.fromkeys(n for f in factors for n in f.origin.split(" ") if n))
    shown = names[:most] + ([f"… {len(names) - most} more"] if len(names) > most else [])
    return f"[{', '.join(shown)}]" if names else ""


def elements(index: np.ndarray) -> bytes:
    """An index array as a key."""
    return np.ascontiguousarray(index).tobytes()
