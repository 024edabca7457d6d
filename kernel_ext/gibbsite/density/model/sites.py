"""The sites of a model, as facts."""

from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = tuple[int, ...]
GAUSSIAN_VECTORS = ("MultivariateNormal", "LowRankMultivariateNormal")
"""Classes of vectors whose parts are Gaussian, too, alone and given each other."""


@dataclass(frozen=True)
class Plate:
    """A plate: conditionally independent copies along batch dimension `dim` (negative, as in NumPyro)."""

    name: str
    size: int
    dim: int


@dataclass(frozen=True)
class Site:
    """One named statement of a model.

    `shape` is the shape of the site's value, `batch_shape + event_shape`; `support` a NumPyro constraint
    (None for deterministic sites); `role` is "latent", "observed" or "deterministic"; `plates` names the
    enclosing plates, outermost first; `fn_name` the distribution's class; `line` the user's line, as
    `(file name, line number)`, where it is known. The first `element_rank` axes count the draws of the
    innermost distribution (those that `to_event` moved into the event included); `in_scan` says that axis 0
    is time; `given` names the argument that holds the value which `Model.condition` fixed it at; `own_class`
    says that the distribution, or a part of it, is of a class that NumPyro does not ship; `interval` is the
    class of the support where latents move its bounds.
    """

    name: str
    shape: Shape
    dtype: Any
    support: Any
    role: str
    discrete: bool
    plates: tuple[str, ...]
    batch_shape: Shape
    event_shape: Shape
    fn_name: str
    line: tuple[str, int] | None
    plate_axes: tuple[int, ...] = ()
    element_rank: int = 0
    in_scan: bool = False
    given: str | None = None
    own_class: bool = False
    interval: Any = None

    @property
    def latent(self) -> bool:
        """Whether the site is to be sampled."""
        return self.role == "latent"

    def plain(self) -> Any:
        """An ordinary value: zeros of a discrete site, of others one that their support calls feasible."""
        zeros = np.zeros(self.shape, self.dtype)
        return zeros if self.discrete or self.support is None else self.support.feasible_like(zeros)

    def __repr__(self) -> str:
        plates = f" in {', '.join(self.plates)}" if self.plates else ""
        return f"Site({self.name} ~ {self.fn_name}{list(self.shape)}, {self.role}{plates})"
