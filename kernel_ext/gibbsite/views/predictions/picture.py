"""A prediction's plot as one picture, and what it shows of itself in a notebook."""

from html import escape
from typing import Any

from gibbsite.prediction.prediction import Prediction
from gibbsite.views.host.static import svg_html
from gibbsite.views.ink import svg
from gibbsite.views.plots.picture import rows_svg
from gibbsite.views.posterior.still import WIDTH, Picture
from gibbsite.views.predictions.plots import plots_of

_LINES = 10  # of the table below a picture


def plot_prediction(prediction: Prediction, name: str) -> Picture:
    """The picture of one site of a prediction."""
    markup, height = rows_svg(plots_of(prediction, name), WIDTH)
    return Picture(svg.document(WIDTH, height, [markup]), f"{name}: {prediction.note}")


def prediction_html(prediction: Prediction) -> str:
    """The note, the first outcome's picture, and the head of the table."""
    parts = [f"<p>{escape(prediction.model_name)}: {escape(prediction.note)}</p>"]
    if prediction.draws:
        name = next(iter(prediction.outcomes or prediction.draws))
        picture = plot_prediction(prediction, name)
        parts.append(svg_html(picture.svg, picture.text, WIDTH))
    parts.append(f"<pre>{escape(table_text(prediction))}</pre>")
    return f'<div class="gibbsite-prediction">{"".join(parts)}</div>'


def prediction_text(prediction: Prediction) -> str:
    """The same for terminals, without the picture."""
    return f"{prediction!r}\n{table_text(prediction)}"


def table_text(prediction: Prediction) -> str:
    """The first rows of the table."""
    return head_of(prediction.to_frame()) if prediction.outcomes else ""


def head_of(frame: Any) -> str:
    """The first rows of a pandas or polars table, and how many more there are."""
    head = frame.head(_LINES)
    text = head.to_string() if hasattr(head, "to_string") else str(head)
    return text + (f"\n… and {len(frame) - _LINES} more rows" if len(frame) > _LINES else "")
