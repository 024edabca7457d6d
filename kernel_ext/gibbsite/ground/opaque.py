"""What an analysis does not understand is opaque: what NumPyro samples is sampled, and a note says so.

An analysis may only ever say *more* than that everything depends on everything. Where one fails in a way that
nobody foresaw, what it would have said is left unsaid: maps blur, a conditional is none, a rewriting is not
made, and NUTS or a slice takes what is left. Errors that are raised on purpose pass.
"""

from collections.abc import Callable, MutableMapping
from contextlib import contextmanager
from typing import Any, TypeVar

from gibbsite.errors import GibbsiteError

T = TypeVar("T")
FAILED = "failed analyses"
_strict = False


@contextmanager
def strict(on: bool = True) -> Any:
    """Within it analyses fail as they fail: what tests want, and who looks for the cause of a note."""
    global _strict
    before, _strict = _strict, on
    try:
        yield
    finally:
        _strict = before


def is_strict() -> bool:
    """Whether what fails unforeseen is to fail."""
    return _strict


def attempted(
    what: str,
    analysis: Callable[[], T],
    otherwise: Callable[[], T],
    notes: list[str],
    passing: tuple[type[Exception], ...] = (),
) -> T:
    """`analysis()`; where it fails unforeseen, `otherwise()`, and a sentence in `notes`. Errors that are
    raised on purpose pass, and those of the classes `passing`."""
    try:
        return analysis()
    except (GibbsiteError, MemoryError, *passing):
        raise
    except Exception as error:
        if _strict:
            raise
        text = str(error).splitlines()[0][:160] if str(error) else ""
        said = (
            f"{what} was left out: its analysis failed ({type(error).__name__}: {text}). The draws are right"
        )
        said += ", and may be slower than they need be; please report it"
        if said not in notes:
            notes.append(said)
        return otherwise()


def notes_in(cache: MutableMapping[Any, Any]) -> list[str]:
    """The list of such sentences that is kept with what a density keeps."""
    return cache.setdefault(FAILED, [])
