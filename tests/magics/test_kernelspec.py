"""The kernelspec that the wheel installs starts a kernel with the magics loaded."""

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import start_new_kernel


def test_the_kernelspec_is_found():
    spec = KernelSpecManager().get_kernel_spec("gibbsite")
    assert spec.display_name == "Python 3 (Gibbsite)"
    assert spec.language == "python"


def test_its_kernel_has_the_magics():
    manager, client = start_new_kernel(kernel_name="gibbsite")
    try:
        code = "ip = get_ipython(); found = [ip.find_line_magic('sample'), ip.find_cell_magic('model')]"
        reply = client.execute_interactive(
            code, timeout=60, user_expressions={"all": "all(found)"}, output_hook=lambda message: None
        )
        assert reply["content"]["status"] == "ok"
        assert reply["content"]["user_expressions"]["all"]["data"]["text/plain"] == "True"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
