"""What every step of a plan has in common."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from gibbsite.conditional.tables.factor import Factor, aligned, rows_onto
from gibbsite.elimination.steps.semiring import reduce_first

Name = Any
"""Anything that can be compared and hashed."""
Named = tuple[Sequence[Name], Any]
"""Names of the value axes, and an array with the rows on one more axis, the last."""


def added(tables: Sequence[Named], names: Sequence[Name]) -> Any:
    """The sum of tables, with an axis for each of `names`; None of no table."""
    total = None
    for own, x in tables:
        x = aligned(x, own, names)
        total = x if total is None else total + x
    return total


def reduced(
    tables: Sequence[Named], names: Sequence[Name], sizes: Sequence[int], uniforms: Any, mode: str
) -> Any:
    """The sum of tables, which has an axis of `sizes` for each of `names`, with the first of them reduced."""
    total = added(tables, names) if tables else jnp.zeros((1,) * (len(names) + 1))
    return reduce_first(jnp.broadcast_to(total, (*sizes, total.shape[-1])), uniforms, mode)


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

    def _left(self, env: dict[Factor, Any], onto: np.ndarray, out: Any, n: int) -> Any:
        """Puts what is left of `n` elements side by side into `env`; their sum, where they meet no others."""
        out = jnp.broadcast_to(out, (*out.shape[:-1], n))
        if not self.made:
            return jnp.sum(out)
        env[self.made[0]] = rows_onto(out, onto, self.made[0].rows)
        return jnp.zeros(())

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
) -> tuple[np.ndarray, tuple[Factor, ...]]:
    """What is left of `used` factors whose sites meet the elements of `others`: the row that each of theirs
    adds to, and the factor; none where there are no others."""
    if not others:
        return np.zeros(0, np.int64), ()
    rows, onto = np.unique(np.stack([w for _, w in others]), axis=1, return_inverse=True)
    sites = tuple(s for s, _ in others)
    made = Factor(sites, tuple(rows), rows.shape[1], tuple(sizes[s] for s in sites), named(used))
    return onto.reshape(-1), (made,)


def elements(index: np.ndarray) -> bytes:
    """An index array as a key."""
    return np.ascontiguousarray(index).tobytes()
