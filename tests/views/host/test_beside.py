"""One worker for what nobody waits for."""

import logging
import threading
import time

from gibbsite.views.host.beside import MOST, Beside


class View:
    """What is to be finished, when it may."""

    def __init__(self, name, done, gate=None, fails=False):
        self.name, self.done, self.gate, self.fails = name, done, gate, fails

    def finish(self):
        if self.gate is not None:
            self.gate.wait(30)
        if self.fails:
            raise RuntimeError(self.name)
        self.done.append(self.name)


def test_last_asked_comes_first_and_the_queue_has_an_end(caplog):
    beside, done, gate = Beside(), [], threading.Event()
    first = View("first", done, gate)
    beside.ask(first)
    while beside._waiting:  # the worker has it
        time.sleep(0.001)
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
    assert (
        done[:3] == ["first", views[-2].name, views[-1].name]
        and len(done) == MOST - 1
        and "RuntimeError" in caplog.text
    )
    assert beside.dropped == 5 and beside._thread is None
    beside.ask(first)
    beside.settle(30)
    assert done[-1] == "first"
