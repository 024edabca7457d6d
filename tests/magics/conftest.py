"""A real IPython shell with the extension loaded."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "gibbsite")
    yield shell
    shell.restore_sys_module_state()
    InteractiveShell.clear_instance()


@pytest.fixture
def run(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Run a cell and return what it printed; an error of the cell is raised."""

    def run(cell: str) -> str:
        capsys.readouterr()
        result = shell.run_cell(cell)
        printed = capsys.readouterr().out
        result.raise_error()
        return printed

    return run


@pytest.fixture
def fail(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[Any, str]]:
    """Run a cell that must fail; returns the error and what a person sees."""

    def fail(cell: str) -> tuple[Any, str]:
        capsys.readouterr()
        result = shell.run_cell(cell)
        assert not result.success
        seen = capsys.readouterr()
        text = re.sub(r"\x1b\[[0-9;]*m", "", seen.out + seen.err)
        return result.error_in_exec or result.error_before_exec, text

    return fail
