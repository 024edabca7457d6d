"""What the pages about the house name is there: files, folders, and functions where the page says."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT, ROOT / "kernel_ext" / "gibbsite", ROOT / "magics" / "gibbsite_magics")
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
NAMED = re.compile(r"(?<![\w/.])((?:[\w.-]+/)*[\w.-]+\.(?:py|mjs|md)|(?:\.?[\w-]+/)+[\w-]*)(?![\w(])")
PLACED = re.compile(r"`(\w+(?:\.\w+)?)`\s+\(`([\w/.]+\.(?:py|mjs))`\)")


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def found(path):
    """Where a path leads that a page names: from the root, from a source folder, or a file beside another."""
    places = [root / path for root in SOURCES if (root / path).exists()]
    if "/" not in path.strip("/"):
        folders = ("kernel_ext", "magics", "js", "tests")
        places += [p for folder in folders for p in (ROOT / folder).rglob(path.strip("/"))]
    return places


@pytest.mark.parametrize("page", PAGES)
def test_the_paths_are_there(page):
    named = {
        m
        for m in NAMED.findall(text_of(page))
        if "venv" not in m and not m.startswith(("bin/", "docs/_build/"))
    }
    assert len(named) > 3
    missing = sorted(path for path in named if not found(path))
    assert not missing, f"{page} names {missing}"


def test_functions_stand_where_the_page_says():
    placed = PLACED.findall(text_of("docs/architecture.md"))
    assert len(placed) > 20
    for name, path in placed:
        own = name.split(".")[-1]
        defined = re.compile(rf"^\s*(?:export )?(?:def|class|function) {own}\b|^{own}\b.*=", re.MULTILINE)
        assert any(defined.search(p.read_text(encoding="utf-8")) for p in found(path)), f"{name} in {path}"


def test_the_picture_has_every_floor_with_its_wings():
    picture = text_of("docs/architecture.md").split("```")[1]
    package = ROOT / "kernel_ext" / "gibbsite"
    floors = {
        p.parent.name: {w.parent.name for w in p.parent.glob("*/__init__.py")}
        for p in package.glob("*/__init__.py")
    }
    drawn, floor = {}, ""
    for line in picture.splitlines():
        named = re.match(r"  ([a-z]+) {2,}\S", line)
        beside = re.findall(r" {2}(graph)  Density →", line)
        if named and named[1] in floors:
            floor = named[1]
            drawn[floor] = set()
        drawn.update({name: set() for name in beside})
        if line.startswith("     ") and floor:
            drawn[floor] |= set(re.findall(r"([a-z]+)/", line.split("js/")[0]))
    drawn["graph"] = {"drawing"} & drawn["conditional"]  # stands beside
    drawn["conditional"] -= {"drawing"}
    assert drawn == {n: wings for n, wings in floors.items() if n != "ground"}


def test_every_benchmark_is_run_by_the_one_command():
    known = runpy.run_path(str(ROOT / "benchmarks" / "all_small.py"))
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert scripts == set(known["ARGUMENTS"]) | known["PARTS"]
