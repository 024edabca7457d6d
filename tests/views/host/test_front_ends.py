"""What every front end supports of the widget protocol, and no more, is what the views ask for.

anywidget's rules (https://anywidget.dev/en/afm/): one ES module with a default export, for which no page
resolves imports; state in traits, everything else in custom messages.
"""

import re

import pytest
from gibbsite.views.host.bokeh import BokehWidget, Control, Library
from gibbsite.views.run_dashboard import DashboardWidget

WIDGETS = (BokehWidget, DashboardWidget, Library, Control)


@pytest.mark.parametrize("widget", WIDGETS)
def test_a_module_is_one_text_that_asks_for_nothing_else(widget):
    text = str(widget._esm)
    assert len(re.findall(r"^export default ", text, re.MULTILINE)) == 1
    assert not re.search(r"^import\b|\bimport\(|\brequire\(|\bfrom\s+\"", text, re.MULTILINE)
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    assert not re.search(r"\beval\(|new Function\(", text)  # which strict pages forbid


@pytest.mark.parametrize("widget", WIDGETS)
def test_what_is_synced_is_plain(widget):
    """Traits hold JSON, bytes, or the reference to another widget: no front end needs a codec of ours."""
    own = {
        n: t for n, t in widget.class_traits(sync=True).items() if n in vars(widget) or n in vars(BokehWidget)
    }
    assert {type(t).__name__ for t in own.values()} <= {"Unicode", "Dict", "Instance"}
