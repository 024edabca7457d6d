"""The suite at the lowest and at the newest versions that `pyproject.toml` allows, one command each.

    python .ci/versions.py lowest [pytest's arguments]
    python .ci/versions.py newest [pytest's arguments]

Makes a virtual environment below `.versions/`, and runs the tests there (without a browser's, unless they are
named). `lowest` takes every dependency of the package and of its extras `demos` and `png` at its lower bound,
and what these need at the newest that fits; the tools of development are the newest. `--only-install` stops
before the tests.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("demos", "png")
SUITE = ("-q", "--ignore=tests/browser")


def called(*command: str | Path, **variables: str) -> int:
    print("+", *command, flush=True)
    return subprocess.run(list(map(str, command)), cwd=ROOT, env=os.environ | variables).returncode


def checked(*command: str | Path) -> None:
    if status := called(*command):
        sys.exit(status)


def uv(folder: Path) -> Path:
    """The installer that knows how to take the lowest versions: pip does not."""
    tools = folder / "tools"
    if not (tools / "bin" / "uv").exists():
        checked(sys.executable, "-m", "venv", tools)
        checked(tools / "bin" / "python", "-m", "pip", "install", "-q", "uv")
    return tools / "bin" / "uv"


def named(requirement: str) -> str:
    """`arviz-stats` of `arviz-stats[xarray]>=0.6`."""
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None, requirement
    return found[0].lower().replace("_", "-")


def lower_bounds(folder: Path, installer: Path) -> Path:
    """A file of constraints: every dependency that users get, at its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(r for e in EXTRAS for r in project["optional-dependencies"][e])]
    (folder / "asked.txt").write_text("\n".join(asked))
    where = ["--python-version", "{}.{}".format(*sys.version_info), "--resolution", "lowest-direct"]
    told = ["--no-header", "--no-annotate", "-q", "-o", folder / "resolved.txt"]
    checked(installer, "pip", "compile", folder / "asked.txt", *where, *told)
    direct = {named(r) for r in asked}
    lines = (folder / "resolved.txt").read_text().splitlines()
    pins = [line for line in lines if named(line) in direct]
    for requirement in asked:  # a bound that no set of packages can have is no bound
        bound, pin = (
            re.search(r">=([\d.]+)", requirement),
            next(p for p in pins if named(p) == named(requirement)),
        )
        if bound is not None and not _same(bound[1], pin.partition("==")[2]):
            sys.exit(f"{requirement}: the lowest that fits beside the others is {pin}; raise the bound")
    (folder / "constraints.txt").write_text("\n".join(pins) + "\n")
    return folder / "constraints.txt"


def _same(bound: str, version: str) -> bool:
    """Whether `version` is the first of what `bound` says: `3.2` and `3.2.0`."""
    said = [int(n) for n in bound.split(".")]
    return [int(n) for n in re.findall(r"\d+", version)][: len(said)] == said


def main(which: str, arguments: Sequence[str]) -> int:
    folder = ROOT / ".versions" / which
    folder.mkdir(parents=True, exist_ok=True)
    installer, python = uv(folder.parent), folder / "venv" / "bin" / "python"
    if not python.exists():
        checked(installer, "venv", "-q", "--python", sys.executable, folder / "venv")
    constrained = ["-c", lower_bounds(folder, installer)] if which == "lowest" else ["--upgrade"]
    checked(
        installer,
        "pip",
        "install",
        "-q",
        "--compile-bytecode",
        "--python",
        python,
        "-e",
        ".[dev]",
        *constrained,
    )
    checked(installer, "pip", "freeze", "-q", "--python", python)
    if "--only-install" in arguments:
        return 0
    given = list(arguments) or list(SUITE)
    # a suite that names no folder is all of it, but for the browser's tests
    return called(python, "-m", "pytest", *given)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("lowest", "newest"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
