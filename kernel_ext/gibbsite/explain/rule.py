"""What a rule for an exception is, and the error that it makes."""

from collections.abc import Callable, Mapping
from typing import Any

from gibbsite.errors import GibbsiteError
from gibbsite.explain.spot import Spot

Rule = Callable[[BaseException, Spot, Mapping[str, Any]], GibbsiteError | None]
"""The exception, where it arose, and what is known (the sizes of `plates`); None where it does not fit."""


def made(kind: type[GibbsiteError], spot: Spot, entry: str, sentence: str) -> GibbsiteError:
    """An error about a place, under its heading of the catalogue."""
    return kind(f"{sentence} ({spot.told})").at((spot.file, spot.line), entry, spot.code)
