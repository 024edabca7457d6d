"""Take README's picture anew: `python docs/picture.py` (needs Chromium and the `dev` extra)."""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.pages.lab import Lab, chromium, start_server, stop_server  # pyright: ignore[reportMissingImports]
from helpers.pages.photograph import photograph, run_demo  # pyright: ignore[reportMissingImports]
from playwright.sync_api import sync_playwright


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = start_server(Path(folder))
        chrome = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            page = chrome.new_context(viewport={"width": 1100, "height": 1900}).new_page()
            page.set_default_timeout(60_000)
            lab = Lab(server, page)
            if errors := run_demo(lab):
                raise SystemExit(f"the demo notebook fails: {errors}")
            print(*photograph(lab, Path(__file__).with_name("notebook.png")))
        finally:
            chrome.close()
            stop_server(server)


if __name__ == "__main__":
    main()
