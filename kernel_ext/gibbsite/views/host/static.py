"""Static renderings that survive every viewer: a self-contained SVG inside an ``<img>``.

JupyterLab empties inline ``<svg>`` in a notebook that is not trusted, and code hosting does so always; an
image with a data address is kept by both, scales to the cell's width and cannot clash with page styles.
"""

import base64
from html import escape


def svg_html(svg: str, alt: str, width: int | None = None) -> str:
    """An ``<img>`` that holds `svg`; `alt` is read where images are not shown.

    Args:
        svg: a complete SVG document with ``xmlns`` and a ``viewBox``.
        alt: one line that says what the picture shows.
        width: pixels it would like to have; it shrinks with the page.
    """
    data = base64.b64encode(svg.encode()).decode()
    size = f' width="{width}"' if width else ""
    return (
        f'<img class="gibbsite-svg" alt="{escape(alt, quote=True)}"{size} '
        f'style="max-width:100%;height:auto" src="data:image/svg+xml;base64,{data}">'
    )
