"""One worker for what nobody waits for."""

import logging
import threading
import time

from gibbsite.views.host.beside import MOST, PAUSE, Beside


class View:
    """What is to be finished, when it may."""

    def __init__(self, name, done, gate=None, fails=False):
        self.name, self.done, self.gate, self.fails = name, done, gate, fails

    def finish(self, whole):
        if self.gate is not None:
            self.gate.wait(30)
        if self.fails:
            raise RuntimeError(self.name)
        self.done.append((self.name, whole))


def test_last_asked_comes_first_and_the_oldest_get_less(caplog):
    beside, done, gate, began = Beside(), [], threading.Event(), time.monotonic()
    first = View("first", done, gate)
    beside.ask(first)
    while beside._waiting:  # the worker has it, after a pause
        time.sleep(0.001)
    assert time.monotonic() - began >= PAUSE
    views = [View(str(k), done) for k in range(MOST + 3)]
    for view in views:
        beside.ask(view)
    beside.ask(views[-2])  # asked for again, it comes next, and once
    wrong = View("wrong", done, fails=True)
    beside.ask(View("nobody holds it", done))
    beside.ask(wrong)
    assert sum(t.name == "gibbsite beside runs" for t in threading.enumerate()) == 1
    with caplog.at_level(logging.ERROR, logger="gibbsite"):
        gate.set()
        beside.settle(30)
    assert [name for name, _ in done[:3]] == ["first", views[-2].name, views[-1].name]
    # of all, one failed, and one is not done that nobody holds
    assert len(done) == MOST + 4 and sum(whole for _, whole in done) == MOST - 1
    assert "RuntimeError" in caplog.text and beside._thread is None
    beside.ask(first)
    beside.settle(30)
    assert done[-1] == ("first", True)


def test_it_begins_in_a_pause_unless_somebody_waits():
    beside, done = Beside(), []
    views = [View(str(k), done) for k in range(8)]
    for view in views:  # a loop of short runs
        beside.ask(view)
        time.sleep(PAUSE / 4)
    assert not done
    began = time.monotonic()
    beside.settle(30)
    assert len(done) == 8 and time.monotonic() - began < PAUSE / 2
