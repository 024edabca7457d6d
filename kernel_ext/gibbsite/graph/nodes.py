"""What a dependency graph is made of: nodes and plates."""

from dataclasses import dataclass

KINDS = ("latent", "observed", "deterministic", "data", "factor", "plate")


@dataclass(frozen=True)
class Node:
    """A named value or factor.

    `kind` is one of "latent", "observed", "deterministic", "data", "factor" and, where a closed plate holds
    latent and observed members, "plate"; `distribution` the right-hand side of its statement as text;
    `recurrent` says that elements depend on other elements of the same node; `elements` what data or elements
    are called (`AITKIN, ANOKA, … 83 more`), or the unit they are in.
    """

    name: str
    kind: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    discrete: bool = False
    distribution: str = ""
    plates: tuple[str, ...] = ()
    line: tuple[str, int] | None = None
    recurrent: bool = False
    elements: str = ""

    @property
    def random(self) -> bool:
        """Whether the node is a random variable."""
        return self.kind in ("latent", "observed", "plate")


@dataclass(frozen=True)
class PlateBox:
    """A plate; `parent` is the plate it is drawn inside, where plates are properly nested; `labels` are those
    of its elements, where they have some."""

    name: str
    size: int
    parent: str | None = None
    labels: tuple[str, ...] = ()
