"""The site, built offline by one command: `sphinx-build -W --keep-going docs docs/_build/html`.

Pages are Markdown (MyST); those with a kernel in their head are executed by MyST-NB, a failing cell fails
the build, and what was executed is kept by the content of a page's cells. The theme is that of NumPy, SciPy,
pandas and ArviZ: its readers know where things are, it has both colour schemes, and its search needs no
server.
"""

import re
import sys
import time
from pathlib import Path
from typing import Any

import gibbsite
from docutils import nodes
from ipython_pygments_lexers import IPython3Lexer
from latex2mathml.converter import convert
from pygments.lexer import bygroups, using
from pygments.lexers.python import Python3Lexer
from pygments.token import Keyword, Text
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).parent))
from quoted import quoted  # pyright: ignore[reportMissingImports]

BEGAN = time.monotonic()

project = "Gibbsite"
author = "The Gibbsite developers"
copyright = "The Gibbsite developers"
version = release = gibbsite.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "paper/*", "picture.py", "quoted.py"]
suppress_warnings = ["misc.highlighting_failure"]  # errors that are shown on purpose are no tracebacks

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parent / "_build" / ".cells")
nb_execution_timeout = 900
nb_execution_show_tb = True
nb_merge_streams = True
nb_render_error_lexer = "myst-ansi"  # what errors say are sentences, not Python
nb_render_markdown_format = "myst"  # what a cell shows as Markdown may hold a table
nb_ipywidgets_js: dict[str, Any] = {}  # widgets need a kernel; their static twins are on the page
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": False}

html_theme = "pydata_sphinx_theme"
html_title = f"Gibbsite {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# pages without others below them: no empty column
html_sidebars = {page: [] for page in ("tutorial", "search", "genindex")}
html_domain_indices = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_math_renderer = "mathml"

WIDGETS = "application/vnd.jupyter.widget-state+json"


class CellLexer(IPython3Lexer):
    """Gibbsite's magics: a model is Python below its first line, and `%schedule` is no `%sc`."""

    tokens = IPython3Lexer.tokens | {
        "root": [
            (r"(?s)(%%model)([^\n]*\n)(.*)", bygroups(Keyword, Text, using(Python3Lexer))),
            (r"(%schedule)([^\n]*\n)", bygroups(Keyword, Text)),
            *IPython3Lexer.tokens["root"],
        ]
    }


def formula(visitor: Any, node: nodes.math, display: str) -> None:
    """A formula as MathML, which browsers draw without a script."""
    drawn = convert(node.astext(), display=display)
    if ">\\" in drawn:
        raise ValueError(f"a command that MathML does not have: {node.astext()}")
    visitor.body.append(drawn)
    raise nodes.SkipNode


def without_widgets(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Leave the state of widgets out, which only a kernel could answer."""
    scripts = context["script_files"]
    context["script_files"] = [s for s in scripts if getattr(s, "attributes", {}).get("type") != WIDGETS]


def without_blanks(app: Any, tree: nodes.document, page: str) -> None:
    """Leave out what a widget says in plain text, which is nothing."""
    for block in list(tree.findall(nodes.literal_block)):
        if not block.astext().strip():
            block.parent.remove(block)


def docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: code stands in single backticks, and stars and bars mean nothing."""

    def plain(text: str) -> str:
        return re.sub(r"([*|_])", r"\\\1", text)

    text, out = "\n".join(lines), []
    for k, piece in enumerate(re.split(r"(?<!`)`([^`]+)`(?!`)", text)):
        out.append(f"``{' '.join(piece.split())}``" if k % 2 else plain(piece))
    lines[:] = "".join(out).split("\n")


def measured(app: Any, problem: Exception | None) -> None:
    """Say how large the site is, what was executed for it, and how long that took."""
    if problem is not None or app.builder.name != "html" or app.config.nb_execution_mode == "off":
        return
    pages = [Path(app.env.doc2path(page)).read_text(encoding="utf-8") for page in app.env.found_docs]
    cells = [len(re.findall(r"^```\{code-cell\}", page, re.MULTILINE)) for page in pages]
    megabytes = sum(f.stat().st_size for f in Path(app.outdir).rglob("*") if f.is_file()) / 1e6
    ran = [data.get("exec_data") or {} for data in getattr(app.env, "nb_metadata", {}).values()]
    kernels = sum(data.get("runtime") or 0.0 for data in ran)
    logging.getLogger("gibbsite").info(
        f"the site: {len(pages)} pages, {megabytes:.0f} MB; {sum(cells)} executed cells on "
        f"{sum(n > 0 for n in cells)} pages, {kernels:.0f} s in their kernels when they ran; "
        f"{len(list(quoted()))} quoted figures; built in {time.monotonic() - BEGAN:.0f} s"
    )


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.add_lexer("ipython3", CellLexer)
    app.connect("autodoc-process-docstring", docstring)
    inline = (lambda visitor, node: formula(visitor, node, "inline"), None)
    block = (lambda visitor, node: formula(visitor, node, "block"), None)
    app.add_html_math_renderer("mathml", inline, block)
    app.connect("doctree-resolved", without_blanks)
    app.connect("html-page-context", without_widgets, priority=900)
    app.connect("build-finished", measured)
