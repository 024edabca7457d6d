"""The demo notebook runs to its end in a real JupyterLab, and README's picture is taken of it."""

from helpers import SCREENSHOTS
from helpers.pages.photograph import photograph, run_demo


def test_demo_notebook_runs_from_top_to_bottom(lab):
    assert run_demo(lab) == []
    SCREENSHOTS.mkdir(exist_ok=True)
    width, height = photograph(lab, SCREENSHOTS / "demo.png")
    assert width > 700 and height > 1000
    lab.assert_quiet()
