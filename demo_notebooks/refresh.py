"""Run the demo notebooks and keep their outputs, so that a preview shows what a reader would see.

Widgets live only as long as their kernel; their static twins are kept, their references are not.
"""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

WIDGET = "application/vnd.jupyter.widget-view+json"


def refresh(path: Path) -> None:
    """Execute a notebook and write it back with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3", store_widget_state=False).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET, None)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for path in sorted(Path(__file__).parent.glob("*.ipynb")):
        refresh(path)
        print(path.name)
