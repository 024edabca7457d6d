"""The picture in README: the demo notebook's model and its run, as a real JupyterLab shows them."""

import shutil
from pathlib import Path

import nbformat
from PIL import Image

from helpers.pages.lab import Lab

DEMO = Path(__file__).parents[3] / "demo_notebooks" / "mixture.ipynb"


def run_demo(lab: Lab) -> list[str]:
    """Run the demo notebook from top to bottom; what its cells say in error."""
    shutil.copy(DEMO, lab.server.folder / "demo.ipynb")
    lab.page.set_viewport_size({"width": 1100, "height": 1900})
    lab.open("demo.ipynb")
    lab.command("runmenu:run-all")
    book = nbformat.read(DEMO, as_version=4)
    last = max(i for i, cell in enumerate(book.cells) if cell.cell_type == "code")
    errors = (
        "() => window.jupyterapp.shell.currentWidget.content.widgets.flatMap("
        "w => w.model.outputs?.toJSON() ?? []).filter(o => o.output_type === 'error').map(o => o.evalue)"
    )
    lab.page.wait_for_function(
        f"i => ({errors})().length"
        " || window.jupyterapp.shell.currentWidget.content.widgets[i].model.executionCount !== null",
        arg=last,
        timeout=300_000,
    )
    return lab.page.evaluate(errors)


def photograph(lab: Lab, out: Path) -> tuple[int, int]:
    """The cell of the model, a node of its graph lit, above the cell of the run; width and height."""
    book = nbformat.read(DEMO, as_version=4)
    parts = []
    for word, sight in (("%%model", ".gk-nodes > *"), ("%sample", ".gb-pill")):
        index = next(i for i, cell in enumerate(book.cells) if cell.source.find(word) >= 0)
        lab.scroll_to(index)
        cell = lab.page.locator(f".jp-Notebook-cell[data-windowed-list-index='{index}']")
        seen = cell.locator(sight).first
        seen.wait_for(state="attached")
        box = seen.bounding_box()
        assert box is not None, f"{sight} is not on the page"
        lab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        lab.page.wait_for_timeout(500)  # until what the pointer lights up has faded in
        parts.append(out.with_name(f"{out.stem}.{len(parts)}.png"))
        cell.screenshot(path=parts[-1])
    pictures = [Image.open(part) for part in parts]
    whole = Image.new("RGB", (max(p.width for p in pictures), sum(p.height for p in pictures)), "white")
    top = 0
    for picture in pictures:
        whole.paste(picture, (0, top))
        top += picture.height
    whole.save(out, optimize=True)
    for part in parts:
        part.unlink()
    return whole.size
