"""What the manual says of a warning or an error: sections of two pages that the package carries with it."""

from functools import cache
from pathlib import Path

from gibbsite.errors import GibbsiteError, UnknownNameError

# A wheel carries the file within the package, an editable install finds it at the root of the source tree.
_PLACES = (Path(__file__).parents[2] / "docs", Path(__file__).parents[4] / "docs")
_FILE = "warnings.md"
ERRORS = "errors.md"


@cache
def sections(page: str = _FILE) -> dict[str, tuple[str, str]]:
    """Title and text (Markdown) of every section of a page by topic.

    Raises `FileNotFoundError` where the installation lacks the file.
    """
    path = next((p / page for p in _PLACES if (p / page).is_file()), None)
    if path is None:
        raise FileNotFoundError(f"gibbsite is installed without its file {page!r}; reinstall gibbsite")
    _, *parts = path.read_text(encoding="utf-8").split("\n## ")
    out = {}
    for part in parts:
        head, _, body = part.partition("\n")
        topic, _, title = head.partition(": ")
        out[topic] = (title, body.strip())
    return out


def advice(topic: str, page: str = _FILE) -> str:
    """What to try, in a few lines of Markdown. Raises `UnknownNameError` (a `KeyError`)."""
    if topic not in sections(page):
        raise UnknownNameError("topic", topic, sections(page))
    title, body = sections(page)[topic]
    title = title or topic.replace("-", " ")
    return f"{title[:1].upper()}{title[1:]}\n\n{body}"


def heading(error: BaseException | None) -> str | None:
    """The section of the page of errors that is about `error`: its own or its class's; None if not ours."""
    if not isinstance(error, GibbsiteError):
        return None
    return error.entry or next(c.__name__ for c in type(error).__mro__ if c.__name__ in sections(ERRORS))
