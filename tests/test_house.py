"""The plan of the house: who may import whom, what the wheel holds, what must not be committed."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kernel_ext" / "gibbsite"
MAGICS = ROOT / "magics" / "gibbsite_magics"
# Each floor with the floors that it may import: everything below it, but `graph` and `conditional`, which
# stand side by side.
FLOORS = {
    "trace": set(),
    "density": {"trace"},
    "graph": {"trace", "density"},
    "conditional": {"trace", "density"},
    "elimination": {"trace", "density", "conditional"},
    "kernels": {"trace", "density", "graph", "conditional", "elimination"},
    "sampling": {"trace", "density", "graph", "conditional", "elimination", "kernels"},
    "views": {"trace", "density", "graph", "conditional", "elimination", "kernels", "sampling"},
}


def imports(path: Path) -> set[str]:
    """Absolute names of all modules that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}:{node.lineno} imports relatively"
            found.update({node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names})
    return found


def test_every_folder_of_the_package_is_a_floor():
    assert {p.parent.name for p in PACKAGE.glob("*/__init__.py")} == set(FLOORS)


@pytest.mark.parametrize("floor", FLOORS)
def test_floors_import_downwards_only(floor: str):
    # `gibbsite.errors` is the ground that all stand on; other modules at the top, the facade above all, are
    # out of bounds for every floor.
    allowed = FLOORS[floor] | {floor, "errors"}
    top = {p.stem for p in PACKAGE.glob("*.py")} | set(FLOORS)
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((PACKAGE / floor).rglob("*.py"))
        for name in sorted(imports(path))
        if name.startswith("gibbsite.") and name.split(".")[1] in top - allowed
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("floor", sorted(set(FLOORS) - {"views"}))
def test_only_views_know_bokeh_and_widgets(floor: str):
    drawing = {"bokeh", "anywidget", "ipywidgets"}
    for path in (PACKAGE / floor).rglob("*.py"):
        assert not drawing & {name.split(".")[0] for name in imports(path)}, path.relative_to(ROOT)


def test_only_the_hook_knows_the_magics():
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(name.split(".")[0] == "gibbsite_magics" for name in imports(path))
    }
    assert users == {"__init__.py"}


def test_jax_internals_in_one_module_only():
    unstable = ("jax._src", "jax.extend", "jax.interpreters", "jax.core")
    users = {
        path.relative_to(ROOT).as_posix()
        for root in (PACKAGE, MAGICS)
        for path in root.rglob("*.py")
        if any(name == u or name.startswith(u + ".") for name in imports(path) for u in unstable)
    }
    assert users <= {"kernel_ext/gibbsite/trace/jaxpr/compat.py"}


def test_loading_the_extension_is_light():
    """`%load_ext gibbsite` must not wait for JAX: a kernel starts with the extension."""
    code = (
        "import sys; from IPython.core.interactiveshell import InteractiveShell as Shell; "
        "Shell.instance().run_line_magic('load_ext', 'gibbsite'); "
        "print([m for m in ('jax', 'numpyro', 'bokeh') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


def test_wheel_holds_both_packages_and_the_kernelspec(tmp_path: Path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {
        p.relative_to(root.parent).as_posix()
        for root in (PACKAGE, MAGICS)
        for p in root.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    assert sources <= names
    scripts = {f"gibbsite/views/js/{p.relative_to(ROOT / 'js')}" for p in (ROOT / "js").glob("*/*.mjs")}
    assert scripts
    assert scripts <= names
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    data = f"gibbsite-{version}.data/data/share/jupyter/kernels/gibbsite/kernel.json"
    assert data in names
    packages = {name.split("/")[0] for name in names}
    assert packages == {
        "gibbsite",
        "gibbsite_magics",
        f"gibbsite-{version}.dist-info",
        f"gibbsite-{version}.data",
    }


def test_version_is_told_once():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    code = "import gibbsite; print(gibbsite.__version__)"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == version


def test_no_machine_paths():
    """Nothing that is committed may name a folder of the machine it was written on."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    here = re.compile(rb"/(root|home/\w+|Users/\w+|tmp/\w+|work)/")
    wrong = []
    for name in filter(None, listed.decode().split("\0")):
        path = ROOT / name
        if path.is_file() and path.suffix not in {".png", ".whl"} and path.name != "test_house.py":
            wrong += [f"{name}: {m.group().decode()}" for m in here.finditer(path.read_bytes())]
    assert not wrong, "\n".join(wrong)
