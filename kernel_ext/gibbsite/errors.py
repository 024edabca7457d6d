"""Every error Gibbsite raises on purpose.

Each is a `GibbsiteError` and also the built-in that fits, so that code which knows nothing of Gibbsite
(`except ValueError`) still catches it. A message names what is wrong, where, and the way out.
"""

import difflib
from collections.abc import Iterable
from typing import Self

_LONGEST = 210  # of a name that is quoted; no site's is longer
CATALOGUE = "docs/errors.md"
"""Where every kind of error has a heading of its own."""


class GibbsiteError(Exception):
    """Base class of all errors that Gibbsite raises on purpose.

    `place` is the line of the user's program that is to blame, `(file name, line number)`, and `part` the
    piece of its text that is; `entry` the heading of `docs/errors.md` that says more.
    """

    place: tuple[str, int] | None = None
    part: str | None = None
    entry: str | None = None

    def at(self, place: tuple[str, int] | None, entry: str | None = None, part: str | None = None) -> Self:
        """The same error, with its place, its heading and the piece of the line it is about."""
        self.place, self.entry, self.part = place, entry, part
        if entry is not None:
            self.add_note(f"More: {CATALOGUE}#{entry}")
        return self


class ModelError(GibbsiteError, ValueError):
    """The model cannot be analysed or sampled as it is written."""


class StructureError(ModelError, AttributeError):
    """What is asked for belongs to one structure of a model whose structure changes."""


class ColumnError(ModelError, AttributeError):
    """What a model asks of a column belongs to pandas or polars."""


class DataError(GibbsiteError, ValueError):
    """The data bound to a model do not fit it: missing values, NaN, wrong shapes."""


class GrammarError(GibbsiteError, ValueError):
    """A cell is no Python, or names a distribution that it does not sample from; `__cause__` is the
    `SyntaxError` that says where. It is none itself, since IPython shows its own frames above those."""


class TapeError(GibbsiteError, ValueError):
    """A function cannot be recorded, or a tape cannot answer a question."""


class ArgumentError(GibbsiteError, TypeError):
    """A model was called with missing or unexpected arguments."""


class WordError(GibbsiteError, NameError):
    """A model uses a name that means nothing, or nothing yet."""


class OptionError(GibbsiteError, ValueError):
    """An option (draws, chains, device, …) has a value that makes no sense."""


class ScheduleError(GibbsiteError, ValueError):
    """A schedule does not parse, or does not fit the model."""


class ExpressionError(GibbsiteError, ValueError):
    """An expression over draws does not parse, reaches for what it may not, or does not fit the sites.

    `text` is the expression, `start` where in it the trouble begins and `length` how long that part is; the
    message shows it.
    """

    def __init__(self, message: str, text: str, start: int = 0, length: int = 1):
        self.sentence, self.text, self.start, self.length = message, text, start, max(1, length)
        line = text.replace("\n", " ")
        super().__init__(f"{message}\n    {line}\n    {' ' * start}{'^' * self.length}")


class CheckpointError(GibbsiteError, ValueError):
    """A saved run cannot be read, or belongs to another model, version or schedule."""


class StoreError(GibbsiteError, OSError):
    """A folder for draws is taken, full, or cannot be written to."""


class ResourceError(GibbsiteError, MemoryError):
    """A run does not fit into memory."""


class MissingPackageError(GibbsiteError, ImportError):
    """What is asked for needs a package that is not installed."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'theta'?`, or nothing where no known name is near."""
    known = list(known)
    near = [n for n in known if n.lower() == str(name).lower()]
    near = near or difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


class UnknownNameError(GibbsiteError, KeyError):
    """A site, node or model name that does not exist; the nearest existing name is suggested.

    Parameters: `kind` is the word for the thing ("site", "model", …), `name` what was asked for,
    `known` the names that exist.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        known = list(known)
        shown = ", ".join(map(repr, known[:12])) + (", …" if len(known) > 12 else "")
        asked = repr(name) if len(repr(name)) <= _LONGEST else f"{repr(name)[:_LONGEST]}…"
        self.message = f"no {kind} named {asked}{nearest(name, known)} (known: {shown or 'none'})"
        super().__init__(self.message)

    def __str__(self) -> str:  # KeyError would print the repr of its argument
        return self.message


class Question(Exception):
    """Python asks for what nobody has said; whoever runs a model hears of it, and people do not."""
