"""`%predict`: what stands on the line is handed on, and the prediction comes back."""

import numpy as np
import pytest
from IPython.core.error import UsageError


@pytest.fixture
def notebook(shell):
    shell.user_ns.update(x=np.linspace(-1, 1, 20), y=np.linspace(-2, 2, 20))
    shell.run_line_magic("config", "Gibbsite.show_graph = False")
    cell = "a ~ Normal(0, 1)\nwith plate('n', len(x)):\n    y ~ Normal(a * x, 0.5)\n"
    shell.run_cell_magic("model", "m(x, y)", cell)
    return shell


def test_prior_run_and_new_data(notebook):
    p = notebook.run_line_magic("predict", "m --prior -n 20")
    assert p.draws["y"].shape == (1, 20, 20)
    with pytest.raises(UsageError, match="no run yet"):
        notebook.run_line_magic("predict", "m")
    notebook.user_ns["run"] = notebook.run_line_magic("sample", "m -n 50 -w 50 -c 1 -q")
    assert notebook.run_line_magic("predict", "m").draws["y"].shape == (1, 50, 20)
    notebook.user_ns["new"] = np.array([0.0, 1.0])
    p = notebook.run_line_magic("predict", "run x=new y=None -s 3")
    assert p.draws["y"].shape == (1, 50, 2)
    same = notebook.user_ns["run"].predict(x=notebook.user_ns["new"], y=None, seed=3)
    np.testing.assert_array_equal(p.draws["y"], same.draws["y"])
    set_to = notebook.run_line_magic("predict", "run --do 'a=0, x=5.'")
    assert "a set to 0" in set_to.note
    assert abs(set_to.draws["y"].mean()) < 0.1
    with pytest.raises(UsageError, match="list of settings"):
        notebook.run_line_magic("predict", "run --do 'a'")
