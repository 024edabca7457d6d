"""The kernelspec that the wheel installs starts a kernel with the magics loaded."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import start_new_kernel


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    manager, client = start_new_kernel(kernel_name="gibbsite")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def execute(client: Any, code: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The reply to a cell, and the contents of what it sent to be shown."""
    shown: list[dict[str, Any]] = []
    reply = client.execute_interactive(
        code, timeout=120, output_hook=lambda message: shown.append(message["content"])
    )
    return reply["content"], shown


def test_the_kernelspec_is_found():
    spec = KernelSpecManager().get_kernel_spec("gibbsite")
    assert spec.display_name == "Python 3 (Gibbsite)"
    assert spec.language == "python"


def test_its_kernel_has_the_magics(client: Any):
    code = "ip = get_ipython()\nassert ip.find_line_magic('sample') and ip.find_cell_magic('model')"
    assert execute(client, code)[0]["status"] == "ok"


@pytest.mark.slow
def test_the_front_end_gets_more_than_text(client: Any):
    code = "%%model m\na ~ Normal(0, 1)\n"
    reply, shown = execute(client, code)
    assert reply["status"] == "ok"
    kinds = {kind for content in shown for kind in content.get("data", {})}
    assert {"text/plain", "text/html"} <= kinds


STAGE = "get_ipython().magics_manager.registry['Gibbsite']._ahead._preparing.stage"


@pytest.mark.slow
def test_a_run_is_prepared_between_cells_and_what_its_model_prints_belongs_to_none(client: Any):
    _, shown = execute(client, "%%model talker\nprint('said')\na ~ Normal(0, 1)\nb ~ Normal(a, 1)\n")
    assert [content for content in shown if "said" in content.get("text", "")]
    heard: list[dict[str, Any]] = []
    for _ in range(200):
        time.sleep(0.5)
        asked, text = client.execute(f"print('stage', {STAGE})"), ""
        while (message := client.get_iopub_msg(timeout=60))["content"] != {"execution_state": "idle"}:
            heard.append(message)
            if message["parent_header"].get("msg_id") == asked:
                text += message["content"].get("text", "")
        if text == "stage None\n":
            break
    prints = [m for m in heard if "said" in str(m["content"])]
    assert prints and not [m for m in prints if m["parent_header"].get("msg_id")]
    reply, _ = execute(client, "assert [e.ready for e in talker.execution.prepared.values()] == [True]")
    assert reply["status"] == "ok"


@pytest.mark.slow
def test_a_run_is_shown_live_and_as_what_stays(client: Any):
    execute(client, "%%model m\na ~ Normal(0, 1)\nb ~ Normal(a, 1)\n")
    reply, shown = execute(client, "run = %sample m -n 50 -w 50 -c 2")
    assert reply["status"] == "ok"
    kinds = {kind for content in shown for kind in content.get("data", {})}
    assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} <= kinds
    still = [content["data"]["text/plain"] for content in shown if "text/html" in content.get("data", {})]
    while "finished" not in still[-1]:  # the cell is not held for the last picture
        content = client.get_iopub_msg(timeout=60)["content"]
        still += [content["data"]["text/plain"]] if "text/html" in content.get("data", {}) else []
    reply, _ = execute(client, "assert run.draws['a'].shape == (2, 50)")
    assert reply["status"] == "ok"


def test_a_traceback_shows_the_cell_as_written(client: Any):
    reply, _ = execute(client, "%%model m\na ~ Normal(0, 1)\nif 1:\n    b = [1, 2][5]\n")
    seen = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(reply["traceback"]))
    assert reply["ename"] == "IndexError"
    assert "2 a ~ Normal(0, 1)\n" in seen
    assert "----> 4     b = [1, 2][5]\n" in seen
    number = reply["execution_count"]
    assert f"Cell In[{number}], line 4, in m()" in seen


def test_without_the_packages_of_the_widgets_there_is_text(client: Any):
    execute(
        client,
        "import sys\nsys.modules['anywidget'] = None\nfor n in list(sys.modules):\n"
        "    if n.startswith('gibbsite.views'): del sys.modules[n]",
    )
    reply, shown = execute(client, "%%model m2\na ~ Normal(0, 1)\n")
    assert reply["status"] == "ok"
    text = "".join(content.get("text", "") for content in shown)
    assert "a ~ Normal(0, 1)" in text
    assert "anywidget" in text
