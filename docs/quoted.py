"""Figures that prose quotes, each beside what its table, or a count of files, says: `python docs/quoted.py`.

Pages whose cells print their figures need no line here. `tests/test_readme.py` compares, the build counts.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
NUMBERS = dict(enumerate("ten eleven twelve thirteen fourteen fifteen sixteen".split(), 10))
NUMBERS |= {30: "thirty", 31: "thirty-one", 32: "thirty-two"}


def _page(name: str) -> str:
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def _said(name: str, pattern: str) -> str:
    found = re.findall(pattern, _page(name))
    if len(found) != 1:
        raise ValueError(f"{name} says {len(found)} times, not once: {pattern}")
    return found[0]


def quoted() -> Iterator[tuple[str, str, str]]:
    """For each quoted figure: the page, what it says, and what is true. Raises `ValueError` where a page does
    not say it once."""

    def read(name: str) -> str:
        return (ROOT / name).read_text(encoding="utf-8")

    def cell(text: str, pattern: str) -> str:
        return next(iter(re.findall(pattern, text, re.MULTILINE)), "in no table")

    def count(pattern: str, less: int = 0) -> str:
        return NUMBERS.get(n := len(list(ROOT.glob(pattern))) - less, str(n))

    tables, page = read("benchmarks/README.md"), "docs/clusters.md"
    of_workers = _said(page, r"of all workers' time (.*?), and no more")
    for share, workers in re.findall(r"(\d+) %[^%]*? with (\d+)", of_workers):
        yield page, share, cell(tables, rf"^\| {workers} \|.*\| ({share}) % \|")
    page = "docs/explanation/plan.md"
    said = _said(page, r"`python benchmarks/regret.py` runs, for (\d+ of \d+) models")
    yield page, said, cell(tables, rf"({said}) models;")
    page, row = "docs/devices.md", r"^\| eight schools \| {} \|[^|]*\|[^|]*\| ([\d.]+) \|"
    few, many = (float(cell(tables, row.format(n))) for n in (4, 1024))
    yield page, _said(page, r"eight schools took (\.\d+) of the GPU's"), f"{few:.2f}".lstrip("0")
    yield page, _said(page, r"(twice) the GPU's with 1024"), "twice" if round(many) == 2 else f"{many} times"
    page, row = "README.md", r"^\| [^|]+ \| 32 \| (\d+) \| (\d+) \| 0 \| 0 \| 0 \|"
    total = sum(int(a) + int(b) for a, b in re.findall(row, read("docs/stores.md"), re.MULTILINE))
    yield page, _said(page, r"\| (\d+ of \d+) \| `pytest tests/faults -m"), f"{total} of {total}"
    yield page, _said(page, r"\[All (\w+)\]\(docs/examples"), count("demo_notebooks/*.ipynb")
    page = "docs/examples/index.md"
    yield page, _said(page, r"the (\w+) notebooks in"), count("demo_notebooks/*.ipynb")
    page = "docs/paper/paper.md"
    yield page, _said(page, r"among them ([\w-]+) short analyses"), count("docs/examples/*.md", less=1)
    page, schedules = "docs/trust.md", read("tests/plans/candidates/default_schedules.txt")
    yield page, _said(page, r"those of (\d+) models"), str(len(schedules.splitlines()))


if __name__ == "__main__":
    for page, said, true in quoted():
        print(page, said, "" if said == true else f"but it is {true}")
