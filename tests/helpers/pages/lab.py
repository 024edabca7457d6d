"""A private JupyterLab server and a browser page that drives it."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from playwright.sync_api import BrowserContext, Error, Locator, Page

from helpers import SCREENSHOTS, TESTS

# JupyterLab's own noise: requests for optional things it does without.
QUIET = re.compile(
    r"favicon|ResizeObserver loop|lab/extensions/.*schemas|Failed to load resource.*404.*workspaces"
)

# Open a notebook, and do not wait for ever for what the page may never answer.
_OPEN = """async ([path, id]) => {
    const kernel = id ? {id} : undefined
    const opened = jupyterapp.restored.then(
        () => jupyterapp.commands.execute('docmanager:open', {path, factory: 'Notebook', kernel})
    )
    const late = new Promise((_, reject) => {
        setTimeout(() => reject(new Error('docmanager:open waits')), 120000)
    })
    await Promise.race([opened, late])
}"""
# Whether it is there. The launcher may have come to the front after it.
_OPENED = """name => {
    const { shell } = window.jupyterapp
    if (shell.currentWidget?.context?.path !== name) {
        const opened = [...shell.widgets('main')].find(widget => widget.context?.path === name)
        if (opened) shell.activateById(opened.id)
        return false
    }
    return shell.currentWidget.content.activeCell
}"""
_SHOWN = """() => JSON.stringify({
    url: location.href,
    open: [...(window.jupyterapp?.shell?.widgets('main') ?? [])].map(widget => widget.title.label),
    current: window.jupyterapp?.shell?.currentWidget?.title?.label,
    ready: window.jupyterapp?.shell?.currentWidget?.context?.isReady,
    dialogs: [...document.querySelectorAll('.jp-Dialog')].map(dialog => dialog.innerText),
    visible: document.visibilityState,
})"""
_KERNEL = "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel"

# The cells that most notebooks of the tests begin with: real data, and a mixture of three components.
LOAD = """
%load_ext gibbsite
from sklearn.datasets import load_iris
x = load_iris().data[:, 2].astype("float32")
"""
MIXTURE = """
%%model mixture(x, K=3)
w  ~ Dirichlet(ones(K))
mu ~ Normal(0, 5).expand([K])
with plate("n", len(x)):
    z ~ Categorical(w)
    x ~ Normal(mu[z], 1.0)
"""


@dataclass
class Server:
    """A running JupyterLab whose files live in `folder`."""

    url: str
    folder: Path
    process: subprocess.Popen
    environment: dict[str, str]


def start_server(folder: Path) -> Server:
    """Start JupyterLab on a free port, with its own configuration, data and run-time folders."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    work = folder / "notebooks"
    work.mkdir(parents=True)
    private = {
        name: str(folder / name.lower())
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "HOME")
    }
    environment = (
        os.environ
        | private
        | {
            "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
            # Kernels share the test session's cache of compiled programs: most of a test's time is XLA's.
            "JAX_COMPILATION_CACHE_DIR": str(TESTS.parent / ".jax_cache"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
        }
    )
    quiet = folder / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text('{"fetchNews": "false"}')
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={port}", "--ServerApp.port_retries=0",
        "--ip=127.0.0.1", "--IdentityProvider.token=", "--allow-root", "--LabApp.expose_app_in_browser=True",
        "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        f"--ServerApp.root_dir={work}",
    ]  # fmt: skip
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=work)
    url = f"http://127.0.0.1:{port}"
    for _ in range(960):  # seconds; on a crowded machine more than a minute
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/api/status", timeout=2):
                return Server(url, work, process, environment)
        except OSError:
            time.sleep(0.25)
    process.terminate()
    raise RuntimeError((folder / "server.log").read_text())


def stop_server(server: Server) -> None:
    """End the server and its kernels."""
    server.process.terminate()
    try:
        server.process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()


def stop_kernels(server: Server, context: BrowserContext) -> None:
    """End all kernels, so that what one test left running does not slow the next."""
    cookies = {c["name"]: c["value"] for c in context.cookies(server.url)}
    headers = {"X-XSRFToken": cookies.get("_xsrf", "")}
    for kernel in context.request.get(f"{server.url}/api/kernels").json():
        context.request.delete(f"{server.url}/api/kernels/{kernel['id']}", headers=headers)


@dataclass
class Lab:
    """One browser page on the server, and everything it complained about."""

    server: Server
    page: Page
    off_site: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    kernel: str = ""

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.route(re.compile(".*"), self._route)

    def _console(self, message) -> None:
        if message.type == "error" and not QUIET.search(f"{message.text} {message.location.get('url', '')}"):
            self.errors.append(f"{message.text} @ {message.location.get('url', '')}")

    def _route(self, route) -> None:
        url = route.request.url
        if url.startswith((self.server.url, "blob:", "data:", "file:")):
            route.continue_()
        else:
            self.off_site.append(url)
            route.abort()

    # ------------------------------------------------------------ notebooks

    def write(self, name: str, *cells: str) -> Path:
        """Write a notebook of code cells into the server's folder."""
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
        book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path = self.server.folder / name
        nbformat.write(book, path)
        return path

    def trust(self, name: str) -> None:
        """Sign a notebook as a person who trusts it would."""
        subprocess.run(
            [sys.executable, "-m", "jupyter", "trust", str(self.server.folder / name)],
            env=self.server.environment,
            check=True,
            capture_output=True,
        )

    def open(self, name: str) -> None:
        """Open a notebook, on the kernel that the last one had if that is there still, and wait for it.

        The first notebook of a session has been seen not to come in four minutes, with nothing of Gibbsite's
        in it yet: the page is read again then, once, and what it showed is said if that does not help.
        """
        shown = ""
        for _ in range(2):
            if not self.page.url.startswith(f"{self.server.url}/lab") or not self.kernel or shown:
                self.page.goto(f"{self.server.url}/lab?reset")
                self.page.wait_for_function(
                    "() => window.jupyterapp?.commands?.hasCommand('docmanager:open')"
                )
            try:
                self.page.evaluate(_OPEN, [name, self.kernel])
                self.page.wait_for_function(_OPENED, arg=name, timeout=120_000)
                self.wait_idle()
                break
            except Error as error:
                shown += f"{error}\n{self.page.evaluate(_SHOWN)}\n{self.errors}\n"
        else:
            raise RuntimeError(f"{name} was not opened:\n{shown}")
        if shown:  # past pytest's capture: nobody should take it for a page that opened at once
            print(f"{name} was opened at the second attempt:\n{shown}", file=sys.__stderr__)
        self.kernel = self.page.evaluate(f"() => {_KERNEL}.id")

    def begin(self) -> None:
        """Forget what was: complaints, the size of the window, the theme."""
        self.errors.clear()
        self.off_site.clear()
        self.page.set_viewport_size({"width": 1280, "height": 1000})

    def end(self) -> None:
        """Close all notebooks, end all runs; the kernel stays, unless it is busy."""
        if not self.kernel:
            stop_kernels(self.server, self.page.context)
            return
        if not self.page.url.startswith(f"{self.server.url}/lab"):
            return
        busy = self.page.evaluate(f"() => {_KERNEL}?.status !== 'idle'")
        if busy:
            stop_kernels(self.server, self.page.context)
            self.kernel = ""
        else:
            self.python("import gibbsite\nfor run in gibbsite.runs(): run.stop()")
        self.page.evaluate(
            """async () => {
                for (const open of [...jupyterapp.shell.widgets('main')]) {
                    if (open.context) open.context.model.dirty = false // or it asks
                    open.close()
                }
            }"""
        )

    def reload(self) -> None:
        """Reload the page, as a person does after closing the tab."""
        name = self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path")
        self.page.goto(f"{self.server.url}/lab/tree/{name}?reset")
        self.page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.content?.activeCell")

    def scroll_to(self, index: int) -> None:
        """Bring the cell at `index` into view; JupyterLab keeps no page elements for cells far from it."""
        self.page.wait_for_function(
            "i => window.jupyterapp.shell.currentWidget.content.widgets.length > i", arg=index
        )
        self.page.evaluate(
            """i => {
                const { content } = window.jupyterapp.shell.currentWidget
                content.activeCellIndex = i
                return content.scrollToItem(i, 'center')
            }""",
            index,
        )

    def picture(self, words: str) -> Locator:
        """The last static picture whose description has these words, once it is visible and loaded."""
        found = self.page.locator(f"img.gibbsite-svg[alt*='{words}']").last
        found.wait_for(state="visible")
        self.page.wait_for_function(
            "words => [...document.querySelectorAll('img.gibbsite-svg')]"
            ".some(img => img.alt.includes(words) && img.complete && img.naturalWidth > 0)",
            arg=words,
        )
        return found

    def wait_idle(self, timeout: float = 120) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(
            f"() => {_KERNEL}?.status === 'idle'",
            timeout=1000 * timeout,
        )

    def command(self, name: str, arguments: dict | None = None) -> None:
        """Run one of JupyterLab's commands without waiting for its promise: it may open a dialog."""
        run = "([name, arguments]) => { window.jupyterapp.commands.execute(name, arguments) }"
        self.page.evaluate(run, [name, arguments or {}])

    def run_cell(self, index: int, wait: bool = True, timeout: float = 120) -> None:
        """Run the cell at `index`; with `wait`, until its prompt shows a number."""
        self.page.evaluate(
            "i => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = i }",
            index,
        )
        self.command("notebook:run-cell")
        if wait:
            self.wait_cell(index, timeout)

    def wait_cell(self, index: int, timeout: float = 120) -> None:
        """Wait until the cell at `index` has been executed and the kernel is idle."""
        self.page.wait_for_function(
            "i => window.jupyterapp.shell.currentWidget.content.widgets[i].model.executionCount !== null",
            arg=index,
            timeout=1000 * timeout,
        )
        self.wait_idle(timeout)

    def save(self) -> None:
        """Save the notebook and wait until it is on disk."""
        self.command("docmanager:save")
        self.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")

    def read(self, name: str) -> nbformat.NotebookNode:
        """A notebook as it is on disk."""
        return nbformat.read(self.server.folder / name, as_version=4)

    def converted(self, name: str) -> str:
        """The address of a notebook's conversion to HTML."""
        command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", name]
        folder = self.server.folder
        subprocess.run(command, cwd=folder, env=self.server.environment, check=True, capture_output=True)
        return (folder / name).with_suffix(".html").as_uri()

    def output_text(self, index: int) -> str:
        """All text of a cell's outputs, from the notebook model."""
        return self.page.evaluate(
            "i => JSON.stringify(window.jupyterapp.shell.currentWidget.content.widgets[i]"
            ".model.outputs.toJSON())",
            index,
        )

    def shut_down(self) -> None:
        """End the notebook's kernel, and wait until it is gone."""
        self.command("kernelmenu:shutdown")
        self.page.wait_for_function(f"() => !{_KERNEL}")
        self.kernel = ""

    def python(self, code: str) -> str:
        """Run code in the notebook's kernel and return what it printed; raises if it raised."""
        result = self.page.evaluate(
            """async code => {
                const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel
                const future = kernel.requestExecute({code, store_history: false})
                let text = '', error = null
                future.onIOPub = m => {
                    if (m.header.msg_type === 'stream') text += m.content.text
                    if (m.header.msg_type === 'error') error = m.content.traceback.join('\\n')
                }
                await future.done
                return {text, error}
            }""",
            code,
        )
        if result["error"]:
            raise RuntimeError(result["error"])
        return result["text"]

    def shot(self, name: str, selector: str | None = None) -> Path:
        """Write a screenshot of the page, or of one element, for a person to look at."""
        path = SCREENSHOTS / f"{name}.png"
        path.parent.mkdir(exist_ok=True)
        if selector:
            self.page.locator(selector).first.screenshot(path=path)
        else:
            self.page.screenshot(path=path)
        return path

    def assert_quiet(self) -> None:
        """No request left the machine, and the console holds no error."""
        assert self.off_site == [], self.off_site
        assert self.errors == [], json.dumps(self.errors, indent=1)


def prepare(lab: Lab, name: str, *cells: str) -> None:
    """A notebook with these cells, in a kernel where `mixture` is defined."""
    lab.write(name, *cells)
    lab.open(name)
    defined = "globals().get('defined') is not None and globals().get('mixture') is defined"
    if lab.python(f"print({defined})").strip() != "True":
        for code in (LOAD, MIXTURE, "defined = mixture"):
            lab.python(code)


def chromium() -> str | None:
    """Path of the system's Chromium, or None to let Playwright use its own."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
