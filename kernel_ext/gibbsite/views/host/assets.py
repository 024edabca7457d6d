"""The browser side of the views: the modules of `js/`, from the installed package or the source tree."""

import posixpath
import re
from functools import cache
from pathlib import Path

_IMPORT = re.compile(r'^import .* from "(\.[\w./]+)";$', re.MULTILINE)

# What a browser does not need: types, other comments, indentation. No string of the modules looks like that.
_COMMENTS = re.compile(r"/\*\*.*?\*/ ?|^ *//[^\n]*$", re.MULTILINE | re.DOTALL)
_INDENTS = re.compile(r"^ +|^\n", re.MULTILINE)

# A wheel carries the files beside the floor; an editable install finds them at the root of the source tree.
_PLACES = (Path(__file__).parents[1] / "js", Path(__file__).parents[4] / "js")


@cache
def source(name: str) -> str:
    """Text of one file of `js/`, for example ``source("host/host.mjs")``.

    Raises:
        FileNotFoundError: the installation lacks the file.
    """
    for place in _PLACES:
        path = place / name
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise FileNotFoundError(f"gibbsite is installed without its browser file {name!r}; reinstall gibbsite")


@cache
def joined(name: str) -> str:
    """A module of `js/` with all that it imports by paths, as one text without imports and comments.

    Names must differ between the files. Bokeh and anywidget each take one text and resolve no imports; every
    saved notebook carries it.
    """
    seen: dict[str, str] = {}

    def add(file: str) -> None:
        if file in seen:
            return
        seen[file] = ""
        text = source(file)
        for other in _IMPORT.findall(text):
            add(posixpath.normpath(posixpath.join(posixpath.dirname(file), other)))
        del seen[file]  # what a file imports stands before it
        seen[file] = _IMPORT.sub("", text)

    add(name)
    return _INDENTS.sub("", _COMMENTS.sub("", "\n".join(seen.values())))
