"""Credible intervals: how wide and of which kind, unless somebody says otherwise."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gibbsite.errors import OptionError
from gibbsite.ground.lazy_import import later

arviz_base = later("arviz_base")
az = later("arviz_stats.base")

KINDS = ("eti", "hdi")


@dataclass(frozen=True)
class Interval:
    """An interval that holds the share `prob` of the draws: `kind` "eti" leaves out as many at both ends,
    "hdi" is the shortest one."""

    prob: float
    kind: str

    def __str__(self) -> str:
        return f"{100 * self.prob:g} % {self.kind.upper()}"

    def of(self, values: ArrayLike, prob: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends over the last axis; NaN where a value is not finite."""
        x = np.asarray(values)
        if x.shape[-1] == 0:
            return np.full(x.shape[:-1], np.nan), np.full(x.shape[:-1], np.nan)
        x = x.astype(float)
        share = self.prob if prob is None else prob
        with np.errstate(invalid="ignore"):
            ends: Any = az.array_stats.eti(x, share) if self.kind == "eti" else az.array_stats.hdi(x, share)
        return ends[..., 0], ends[..., 1]


_chosen: dict[str, Any] = {"prob": None, "kind": None}


def choose(prob: float | None = None, kind: str | None = None) -> None:
    """Have all views show this interval; None leaves it to ArviZ's settings (`stats.ci_prob`,
    `stats.ci_kind`). Raises `OptionError` for a share or a kind that makes no sense."""
    if prob is not None and not 0 < prob < 1:
        raise OptionError(
            f"an interval holds a share of the draws between 0 and 1, such as 0.89; not {prob!r}"
        )
    if kind is not None and kind not in KINDS:
        raise OptionError(f"an interval is {' or '.join(map(repr, KINDS))}, not {kind!r}")
    _chosen.update(prob=prob, kind=kind)


def chosen() -> Interval:
    """The interval that is shown now."""
    prob, kind = _chosen["prob"], _chosen["kind"]
    return Interval(
        float(arviz_base.rcParams["stats.ci_prob"] if prob is None else prob),
        str(arviz_base.rcParams["stats.ci_kind"] if kind is None else kind),
    )
