"""`python -m gibbsite watch PATH`: a store's status page, from any process; nothing in the store is changed.

The page is served to this machine alone, under an address that only the terminal tells: on a shared server
others could ask for it too.
"""

import math
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gibbsite.errors import OptionError
from gibbsite.ground import arguments as sensible
from gibbsite.sampling import options
from gibbsite.sampling.read_only import Outside, outside, stores
from gibbsite.views.report import standing, status_page
from gibbsite.views.run.content import gather
from gibbsite.views.run.words import text

_PATIENCE = 30.0  # seconds
# The page holds styles and pictures of its own, and nothing else: whatever a store's names say, a browser
# runs nothing of it, and shows it within no other page.
_GUARDS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
# reading a large store may take this share of the time
_SHARE = 0.1


class Watch:
    """The stores in `path`, read again when there was a commit, and no oftener than is fair to the machine.

    Raises `CheckpointError` where there is none, `OptionError` where `every` is no number of seconds.
    """

    def __init__(self, path: str | Path, every: float = 5.0):
        self.path, self.every = options.local_folder("path", path), sensible.seconds("every", every)
        if not math.isfinite(every):
            raise OptionError("every must be a number of seconds between two looks, not infinity")
        self._lock, self._next = threading.Lock(), 0.0
        self._seen: dict[Path, Outside] = {}
        self.look()

    def look(self) -> list[Outside]:
        """What is there now."""
        with self._lock:
            began = time.monotonic()
            if began >= self._next:
                self._seen = {f: outside(f, self._seen.get(f)) for f in stores(self.path)}
                spent = time.monotonic() - began
                self._next = time.monotonic() + spent / _SHARE
            return list(self._seen.values())

    def page(self, at: int = 0) -> str:
        """The status page of the `at`-th store."""
        return status_page(self.look(), self.every, at)

    def words(self) -> str:
        """The stores' dashboards in words."""
        return "\n\n".join(f"{text(gather(one.run, None))}\n{standing(one)}" for one in self.look())


def served(watch: Watch, port: int = 0) -> tuple[ThreadingHTTPServer, str]:
    """A server of the page on the loopback interface, and its address. `serve_forever` runs it."""
    token = secrets.token_urlsafe(16)

    class Page(BaseHTTPRequestHandler):
        timeout = _PATIENCE  # of a client that says nothing

        def do_GET(self) -> None:
            _, _, rest = self.path.partition(f"/{token}/")
            wanted = self.path.startswith(f"/{token}/") and (rest.isdecimal() or not rest)
            try:
                content = watch.page(int(rest or 0)) if wanted else None
            except IndexError:
                content = None
            except Exception as problem:  # a store that is gone or damaged: the page says so, and looks again
                content = f'<meta http-equiv="refresh" content="10"><pre>{_escaped(problem)}</pre>'
            body = (content or "There is nothing here.").encode()
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            for name, value in _GUARDS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the terminal is a person's."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Nothing: a browser that hangs up is no error, and the terminal is a person's."""

    if not 0 <= port < 2**16:
        raise OptionError(f"port: {port} is none; take one from 1024 to 65535, or 0 for a free one")
    try:
        server = Server(("127.0.0.1", port), Page)
    except OSError as problem:
        raise OptionError(f"port: {port} cannot be served: {problem}; 0 takes a free one") from None
    return server, f"http://127.0.0.1:{server.server_address[1]}/{token}/"


def _escaped(problem: Exception) -> str:
    return str(problem).replace("&", "&amp;").replace("<", "&lt;")


def write_until_ended(watch: Watch, file: Path, sleep: Callable[[float], None] = time.sleep) -> None:
    """Write the page to a file, again and again while a process goes on with the run. Raises `OptionError`
    where the file cannot be written."""
    while True:
        found = watch.look()
        new = file.with_name(f"{file.name}.new")
        page = watch.page()
        try:
            new.write_text(page, encoding="utf-8")
            os.replace(new, file)
        except OSError as problem:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise OptionError(f"html: {str(file)!r} cannot be written: {problem.strerror}") from problem
        if not any(one.writer for one in found):
            return
        sleep(watch.every)
