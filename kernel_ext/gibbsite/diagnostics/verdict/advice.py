"""What to try about a warning: the sections of `docs/warnings.md`, which the package carries with it."""

from functools import cache
from pathlib import Path

from gibbsite.errors import UnknownNameError

# A wheel carries the file within the package, an editable install finds it at the root of the source tree.
_PLACES = (Path(__file__).parents[2] / "docs", Path(__file__).parents[4] / "docs")
_FILE = "warnings.md"


@cache
def sections() -> dict[str, tuple[str, str]]:
    """Title and text (Markdown) of every section by topic.

    Raises `FileNotFoundError` where the installation lacks the file.
    """
    path = next((p / _FILE for p in _PLACES if (p / _FILE).is_file()), None)
    if path is None:
        raise FileNotFoundError(f"gibbsite is installed without its file {_FILE!r}; reinstall gibbsite")
    _, *parts = path.read_text(encoding="utf-8").split("\n## ")
    out = {}
    for part in parts:
        head, _, body = part.partition("\n")
        topic, _, title = head.partition(": ")
        out[topic] = (title, body.strip())
    return out


def advice(topic: str) -> str:
    """What to try, in a few lines of Markdown. Raises `UnknownNameError` (a `KeyError`)."""
    if topic not in sections():
        raise UnknownNameError("topic", topic, sections())
    title, body = sections()[topic]
    return f"{title[:1].upper()}{title[1:]}\n\n{body}"
