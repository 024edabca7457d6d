"""One JupyterLab for the session, one page and one kernel: a test opens notebooks of its own there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.pages import lab as lab_module
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[object]:
    running = lab_module.start_server(tmp_path_factory.mktemp("lab"))
    yield running
    lab_module.stop_server(running)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(
            executable_path=lab_module.chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield chrome
        chrome.close()


@pytest.fixture(scope="session")
def opened(server, browser) -> Iterator[lab_module.Lab]:
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield lab_module.Lab(server, page)
    lab_module.stop_kernels(server, context)
    context.close()


@pytest.fixture
def lab(opened) -> Iterator[lab_module.Lab]:
    opened.begin()
    yield opened
    opened.end()


def pytest_collection_modifyitems(items) -> None:
    for item in items:
        if Path(__file__).parent in Path(item.fspath).parents:
            item.add_marker(pytest.mark.browser)
