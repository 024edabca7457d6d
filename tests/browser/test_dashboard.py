"""The dashboard of a run in a real JupyterLab: it follows the run, stops it, and outlives the page."""

from pathlib import Path

SETUP = """
import sys, threading, time
sys.path.insert(0, FAKES)
from fakes import FakeRun
from gibbsite.views.run_dashboard import Dashboard
run = FakeRun()
view = Dashboard(run, interval=0.2)
"""
RUN = """
from IPython.display import display
display(view)
time.sleep(1)
while run.done < run.total and not run.stopped:
    run.advance(50)
    time.sleep(0.2)
"""


def test_look(lab):
    fakes = str(Path(__file__).parents[1] / "views")
    lab.write("dash.ipynb", f"FAKES = {fakes!r}" + SETUP, RUN)
    lab.open("dash.ipynb")
    lab.run_cell(0)
    lab.run_cell(1, wait=False)
    lab.page.wait_for_selector(".gb-dash table", state="attached")
    lab.page.wait_for_timeout(2500)
    lab.shot("dash_live")
    lab.page.locator(".gb-dash tbody tr").nth(4).click()
    lab.page.wait_for_timeout(1500)
    lab.shot("dash_chosen")
    lab.page.locator(".gb-stop").click()
    lab.wait_cell(1)
    print(lab.python("print(run.done, run.stopped)"))
    lab.page.evaluate(
        "() => { window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'}) }"
    )
    lab.page.set_viewport_size({"width": 1280, "height": 1500})
    lab.page.wait_for_timeout(1500)
    lab.shot("dash_dark")
    lab.assert_quiet()
