"""In a notebook a model's run is prepared when its cell has ended, with the configured defaults."""

import pytest
from gibbsite import preparing as preparing_module

CELL = "%%model m\na ~ Normal(0, 1)\nb ~ Normal(a, 1)\n"


@pytest.fixture
def notebook(shell, monkeypatch):
    """A shell that looks like a kernel's, and its preparations."""
    monkeypatch.setattr(preparing_module, "_IDLE_SECONDS", 0.0)
    shell.kernel = object()
    shell.run_cell("%config Gibbsite.show_graph = False\n%config Gibbsite.chains = 2")
    ahead = shell.magics_manager.registry["Gibbsite"]._ahead
    yield ahead
    ahead.drop()
    if ahead._preparing is not None:
        ahead._preparing.settle(60)


@pytest.mark.slow
def test_the_run_of_a_cell_is_prepared_with_the_defaults(notebook, run, shell):
    run(CELL)
    notebook._preparing.settle(60)
    (engine,) = shell.user_ns["m"].execution.prepared.values()
    assert engine.ready and engine.chains == 2
    run("run = %sample m -n 10 -q")
    assert shell.user_ns["run"]._engine.kernel is engine.kernel
    assert not shell.user_ns["m"].execution.prepared


def test_defaults_that_would_fail_tell_nothing(notebook, run, shell):
    run("%config Gibbsite.device = 'tpu'")
    assert run(CELL) == ""
    notebook._preparing.settle(60)
    assert not shell.user_ns["m"].execution.prepared and run("1").endswith("1\n")


def test_nothing_is_prepared_where_it_is_switched_off_or_interrupted(notebook, run, shell, monkeypatch):
    monkeypatch.setattr(preparing_module, "_IDLE_SECONDS", 600.0)
    run(CELL)
    assert notebook._preparing.stage is not None
    run("%config Gibbsite.prepare = False")
    notebook._preparing.settle(60)
    assert notebook._preparing.stage is None
    run(CELL)
    assert notebook._preparing.stage is None
    run("%config Gibbsite.prepare = True")
    run(CELL)
    assert notebook._preparing.stage is not None
    shell.run_cell("raise KeyboardInterrupt")
    notebook._preparing.settle(60)
    assert notebook._preparing.stage is None


def test_a_terminal_prepares_nothing(run, shell):
    run(CELL)
    assert shell.magics_manager.registry["Gibbsite"]._ahead._preparing is None
