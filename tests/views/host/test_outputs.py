"""What cells have shown is let go of when they run again: a kernel would hold every run that it ever had."""

import gc
import time
import weakref
from types import SimpleNamespace

import pytest
from bokeh.models import Spacer
from gibbsite.views import dashboard
from gibbsite.views.host import display
from gibbsite.views.host.bokeh import BokehWidget
from helpers.pages.fakes import FakeRun


@pytest.fixture
def execute(monkeypatch):
    """`execute(cell, *views)`: the cell with this id, or a cell without one, runs and displays the views."""
    parent, number, views_shown = {}, iter(range(100)), weakref.WeakSet()
    kernel = SimpleNamespace(get_parent=lambda: parent)
    monkeypatch.setattr(display, "get_ipython", lambda: SimpleNamespace(kernel=kernel))
    monkeypatch.setattr(display, "publish_display_data", lambda *_, **__: None)
    monkeypatch.setattr(display, "_OUTPUTS", display._Outputs())

    def run(cell, *views):
        parent.clear()
        parent.update(header={"msg_id": str(next(number))}, metadata={"cellId": cell} if cell else {})
        for view in views:
            view._ipython_display_()
            views_shown.add(view)

    yield run
    for view in tuple(views_shown):
        view.put_away()


def shown(widget):
    return widget.comm is not None


@pytest.mark.slow
def test_a_cell_that_runs_again_lets_go_of_the_run_that_it_showed(execute):
    gc.collect()
    run = FakeRun()
    held = weakref.ref(run)
    execute("a", dashboard(run), dashboard(run))
    again = dashboard(FakeRun())
    execute("b", again)
    del run
    assert held() is not None
    execute("a", dashboard(FakeRun()))
    deadline = time.monotonic() + 20
    while held() is not None and time.monotonic() < deadline:  # a thread may still be drawing
        time.sleep(0.05)
        gc.collect()
    assert held() is None and shown(again.widget)


def test_what_a_page_heard_of_too_late_is_shown_once_more(execute, monkeypatch):
    """Notebooks on one kernel hear of its widgets through the first of them: one that is displayed before
    stays "model not found"."""
    view, published = BokehWidget(Spacer()), []
    monkeypatch.setattr(display, "publish_display_data", lambda data, **how: published.append((data, how)))
    view._receive(view, {"kind": "unseen"}, [])
    assert not published  # it is on no page
    execute("a", view)
    live = published[0]
    assert live[0][display.WIDGET_MIME]["model_id"] == view.model_id
    published.clear()
    for _ in range(2):
        view._receive(view, {"kind": "unseen"}, [])
    assert published == [(live[0], {**live[1], "update": True})]


def test_what_another_cell_shows_too_stays(execute):
    one, two = BokehWidget(Spacer()), BokehWidget(Spacer())
    execute("a", one, two)
    execute("b", one)
    execute("a")
    assert shown(one) and shown(two)  # nothing was shown in their place: nothing is known of that cell yet
    execute("a", two)
    assert shown(one) and shown(two)
    execute("b", two)
    assert not shown(one) and not shown(one.layout) and shown(two) and shown(two._library)
    execute("c", one)
    assert shown(one) and shown(one.layout)


def test_cells_without_a_name_keep_what_they_show(execute):
    one = BokehWidget(Spacer())
    execute(None, one)
    execute(None, BokehWidget(Spacer()))
    assert shown(one)


def test_a_dashboard_that_was_put_away_watches_again_where_it_is_displayed(execute):
    run = FakeRun()
    first = dashboard(run)
    execute("a", first)
    execute("a", dashboard(FakeRun()))
    assert not shown(first.widget) and not shown(first.widget._control)
    execute("b", first)
    done = first.updates
    run.advance(50)
    deadline = time.monotonic() + 20
    while first.updates == done and time.monotonic() < deadline:
        time.sleep(0.05)
    assert first.updates > done and shown(first.widget) and shown(first.widget._control)
