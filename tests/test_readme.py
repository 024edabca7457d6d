"""README does what it says: its cells and its script run as they stand, and its links lead somewhere."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np
import pytest
from gibbsite.errors import ScheduleError
from gibbsite.plans.schedule.parse import parse_schedule
from IPython.core.interactiveshell import InteractiveShell

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")
SCHEDULE = re.compile(
    r"""(?:schedule\(|schedule=|--schedule )(["'])(?P<quoted>.+?)\1"""
    r"""|%schedule \w+ +(?P<bare>[^\s`"'][^`"'\n]*)`"""
    r"""|`(?P<span>(?!Structure)(?:\d x )?[A-Z][^`"'\n]* (?:\(\*\)|>) [^`"'\n]*)`"""
    r"""|`(?P<other>(?:random: |Tempered\(|Interleave\()[^`\n]*)`"""
    r"""|^    (?P<block>(?:Eliminate |Tempered\(|Interleave\().*)$""",
    re.MULTILINE,
)
FILE = re.compile(r"(?<![\w/.])(?:tests|benchmarks|kernel_ext|magics|docs|demo_notebooks|js|\.ci)/[\w./-]*\w")
PAGES = sorted(
    p
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md")
    for p in ROOT.glob(pattern)
    if "_build" not in p.parts
)


def anchors(page: Path) -> set[str]:
    """What headings are called in links, as GitHub and MyST write them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {"#" + re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path):
    for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name}: {path}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {path}{anchor}"


def test_files_that_pages_name_are_there():
    """But for the changelog, which names those of its day, and the gallery, which names other people's."""
    pages = [p for p in PAGES if p.name not in ("CHANGELOG.md", "gallery.md")]
    named = [(p.name, m[0]) for p in pages for m in FILE.finditer(p.read_text(encoding="utf-8"))]
    there = [
        (page, name) for page, name in named if (ROOT / name).exists() or (ROOT / "tests" / name).exists()
    ]
    gone = [(page, name) for page, name in set(named) - set(there) if not name.startswith("docs/_build")]
    assert len(named) >= 100 and not gone, gone


def test_schedules_in_prose_can_be_read():
    """Those that cells run are read when the site is built; these are in sentences and tables."""
    read, wrong = 0, []
    for page in PAGES:
        for found in SCHEDULE.finditer(page.read_text(encoding="utf-8")):
            text = next(t for t in found.group("quoted", "bare", "span", "other", "block") if t)
            if "…" in text or not text[0].isalnum():
                continue
            read += 1
            try:
                parse_schedule(text)
            except ScheduleError as error:
                wrong.append(f"{page.name}: {error}")
    assert read >= 30 and not wrong, wrong


def test_pages_that_analyse_data_assert_their_verdict():
    """A build of the site fails where such a run has not converged, whatever the page then says of it."""
    pages = [p for folder in ("examples", "coming-from") for p in ROOT.glob(f"docs/{folder}/*.md")]
    silent = [
        p.name for p in pages if p.name != "index.md" and "verdict.ok" not in p.read_text(encoding="utf-8")
    ]
    assert len(pages) > 30 and not silent, silent


def test_figures_in_prose_are_those_of_their_tables():
    """Where a page quotes what a table has; pages whose cells print their figures need none."""
    spec = spec_from_file_location("quoted", ROOT / "docs" / "quoted.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    figures = list(module.quoted())
    assert len(figures) >= 10
    assert not [f"{page} says {said}, and it is {true}" for page, said, true in figures if said != true]


def test_cells_and_script_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In one shell, in README's order: the cells of the first part, then what a script does."""
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell.instance()
    centres = np.repeat([-6.0, 0.0, 6.0], 20)
    shell.user_ns["x"] = np.random.default_rng(0).normal(centres, 1.0).astype("float32")
    try:
        for code in re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE):
            shell.run_cell(code).raise_error()
        run, p = shell.user_ns["run"], shell.user_ns["p"]
        assert run.verdict.ok
        means = np.sort(run.draws["mu"].mean(axis=(0, 1)))
        assert np.allclose(means, [-6.0, 0.0, 6.0], atol=4 / np.sqrt(20))
        assert len(p.to_frame()) == 5
    finally:
        InteractiveShell.clear_instance()
