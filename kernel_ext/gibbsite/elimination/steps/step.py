"""What every step of a plan has in common."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
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
    made: Sequence[Factor]
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


def named(factors: Iterable[Factor]) -> str:
    """The origins of factors as that of the one that is made of them."""
    return " ".join(dict.fromkeys(f.origin for f in factors if f.origin))


def left_over(
    others: Sequence[tuple[str, np.ndarray]], sizes: Mapping[str, int], used: Iterable[Factor]
) -> tuple[np.ndarray, Factor]:
    """What is left of `used` factors whose sites meet the elements of `others`: the row that each of theirs
    adds to, and the factor."""
    rows, onto = np.unique(np.stack([w for _, w in others]), axis=1, return_inverse=True)
    sites = tuple(s for s, _ in others)
    made = Factor(sites, tuple(rows), rows.shape[1], tuple(sizes[s] for s in sites), named(used))
    return onto.reshape(-1), made


def elements(index: np.ndarray) -> bytes:
    """An index array as a key."""
    return np.ascontiguousarray(index).tobytes()
