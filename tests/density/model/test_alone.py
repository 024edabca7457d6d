"""The context in which a model is run under handlers, one thread at a time."""

import threading
import time

from gibbsite.density.model.alone import HandlersAlone
from numpyro import primitives


def test_a_thread_that_ended_inside_lets_go():
    alone, before = HandlersAlone(), primitives._PYRO_STACK
    dead = threading.Thread(target=alone.__enter__)
    dead.start()
    dead.join()
    began = time.monotonic()
    with alone, alone:
        assert primitives._PYRO_STACK is not before
    assert primitives._PYRO_STACK is before
    assert time.monotonic() - began < 30
    with alone:
        pass


def test_one_that_is_alive_is_waited_for():
    alone, go, order = HandlersAlone(), threading.Event(), []

    def holds():
        with alone:
            go.set()
            time.sleep(2.0)
            order.append("first")

    threads = [threading.Thread(target=holds)]
    threads[0].start()
    go.wait()

    def waits():
        with alone:
            order.append("then")

    threads += [threading.Thread(target=waits) for _ in range(2)]
    for t in threads[1:]:
        t.start()
    for t in threads:
        t.join()
    assert order == ["first", "then", "then"]
