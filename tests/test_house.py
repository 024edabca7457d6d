"""The plan of the house: who may import whom, what the wheel holds, what must not be committed."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
import typing
import zipfile
from functools import cache
from importlib.metadata import requires
from pathlib import Path

import gibbsite
import jinja2
import networkx as nx
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kernel_ext" / "gibbsite"
MAGICS = ROOT / "magics" / "gibbsite_magics"
# From the ground up: each may import those before it, but `graph` and `conditional` stand side by side.
ORDER = (
    "ground inputs programs tape explain density printing validation graph conditional elimination kernels "
    "plans modelling storage diagnostics sampling prediction structure checking views"
).split()
FLOORS = {floor: set(ORDER[:i]) for i, floor in enumerate(ORDER)}
FLOORS["conditional"].remove("graph")


# Imports inside functions, each for what its module must not load before it is asked to; nothing else waits.
LAZY = {
    "kernel_ext/gibbsite/__init__.py": {"gibbsite_magics"},
    "kernel_ext/gibbsite/__main__.py": {"gibbsite"},  # `--help` answers before JAX is there
    "kernel_ext/gibbsite/demo.py": {"sklearn", "statsmodels"},  # optional dependencies
    "kernel_ext/gibbsite/diagnostics/verdict/elpd.py": {"arviz_stats"},
    "magics/gibbsite_magics/__init__.py": {"gibbsite_magics"},
    "magics/gibbsite_magics/magics.py": {"gibbsite"},
    "magics/gibbsite_magics/notebook/data.py": {"gibbsite"},
    "magics/gibbsite_magics/said.py": {"gibbsite"},
    "magics/gibbsite_magics/show.py": {"gibbsite"},
    "magics/gibbsite_magics/target.py": {"gibbsite"},
    "magics/gibbsite_magics/vocabulary.py": {"jax", "numpyro"},
}
MOST_FILES = 13


def imported_later(node: ast.AST) -> set[str]:
    """The module that `later("…")` stands for, where a node is such a call."""
    if not isinstance(node, ast.Call):
        return set()
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if not called.endswith("later"):
        return set()
    return {n.value for n in node.args if isinstance(n, ast.Constant) and isinstance(n.value, str)}


@cache
def imports(path: Path) -> set[str]:
    """Absolute names of all modules that a file imports, anywhere in it, at once or later."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        found |= imported_later(node)
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
    # `errors` and `showing` lie beneath all, as the ground does; other modules at the top, the facade above
    # all, are out of bounds for every floor
    allowed = FLOORS[floor] | {floor, "errors", "ground", "showing"}
    top = {p.stem for p in PACKAGE.glob("*.py")} | set(FLOORS)
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((PACKAGE / floor).rglob("*.py"))
        for name in sorted(imports(path))
        if name.startswith("gibbsite.") and name.split(".")[1] in top - allowed
    ]
    assert not wrong, "\n".join(wrong)


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def running_imports(node: ast.AST, known: set[str]) -> set[str]:
    """The package's own modules that a file imports when it runs, anywhere in it, at once or later."""
    found: set[str] = set()
    for child in ast.iter_child_nodes(node):
        found |= imported_later(child) & known
        if isinstance(child, ast.Import):
            found |= {alias.name for alias in child.names} & known
        elif isinstance(child, ast.ImportFrom):
            names = {f"{child.module}.{alias.name}" for alias in child.names}
            found |= (names & known) or ({child.module or ""} & known)
        elif not for_types_only(child):
            found |= running_imports(child, known)
    return found


def test_no_circles_between_files():
    """Where two files need each other, what both need is a third."""
    files = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    graph = nx.DiGraph()
    for name, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        graph.add_edges_from((name, other) for other in running_imports(tree, set(files)) if other != name)
    assert graph.number_of_edges() > 300
    circles = [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1]
    assert not circles, circles


def test_files_do_not_import_from_the_package_that_they_are_in():
    """Where a package imports its files, one of them that two threads import at once, one by the package and
    one by itself, would wait for the package, and that for it: Python then breaks one of the imports off."""
    for path in PACKAGE.rglob("*.py"):
        package = module_name(path).rpartition(".")[0]
        if not package.partition(".")[2] or path.name == "__init__.py":
            continue
        imports = [n for n in ast.parse(path.read_text("utf-8")).body if isinstance(n, ast.ImportFrom)]
        whole = any(
            isinstance(n, ast.ImportFrom) for n in ast.parse((path.parent / "__init__.py").read_text()).body
        )
        found = [n.lineno for n in imports if n.module == package]
        assert not (whole and found), f"{path.relative_to(ROOT)}: {found}"


IMPORTED = """
import sys, threading, time
import gibbsite
found = []
def first():
    found.append(gibbsite.runs())
def second():
    from gibbsite.preparing import Preparing
    found.append(Preparing)
threads = [threading.Thread(target=t) for t in (first, second)]
for thread in threads:
    thread.start()
    time.sleep(float(sys.argv[1]))
for thread in threads:
    thread.join()
print(len(found))
"""


@pytest.mark.share(2)
@pytest.mark.parametrize("apart", ["0", "0.2"])
def test_two_threads_may_import_at_once(apart):
    done = subprocess.run([sys.executable, "-c", IMPORTED, apart], capture_output=True, text=True)
    assert done.stdout == "2\n", done.stderr


def test_a_name_means_one_thing_in_its_file():
    """A constant that is set again further down has its second value everywhere, and linters say nothing."""
    for path in (*PACKAGE.rglob("*.py"), *MAGICS.rglob("*.py")):
        given: list[str] = []
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                given.append(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [n for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
                given += {n.id for n in names if isinstance(n.ctx, ast.Store)}
        twice = {name for name in given if name != "_" and given.count(name) > 1}
        assert not twice, f"{path.relative_to(ROOT)}: {twice}"


def test_imports_inside_functions_are_listed():
    found: dict[str, set[str]] = {}
    for path in (p for root in (PACKAGE, MAGICS) for p in root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        for node in (n for f in functions for n in ast.walk(f)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                where = path.relative_to(ROOT).as_posix()
                found.setdefault(where, set()).add((module or "").split(".")[0])
    assert found == LAZY


def test_validation_is_switched_by_who_has_the_handlers_alone():
    """It is one for the process: what is traced meanwhile in another thread would lose its supports."""
    asked = held = 0
    for text in (p.read_text(encoding="utf-8") for root in (PACKAGE, MAGICS) for p in root.rglob("*.py")):
        if "validation_enabled" not in text:
            continue
        tree = ast.parse(text)
        asked += sum(isinstance(n, ast.Attribute) and n.attr == "validation_enabled" for n in ast.walk(tree))
        for node in (n for n in ast.walk(tree) if isinstance(n, ast.With)):
            items = [ast.unparse(item.context_expr) for item in node.items]
            before = items[: next((i for i, t in enumerate(items) if "validation_enabled" in t), 0)]
            held += "handlers_alone" in before
    assert asked == held > 5


def test_a_folder_is_taken_in_at_a_glance():
    """About a dozen files each; every wing says in its first line what turns into what."""
    folders = {
        p.parent for root in ("kernel_ext", "magics", "tests", "js") for p in (ROOT / root).rglob("*.*")
    }
    for folder in folders:
        files = [p for p in folder.glob("*.*") if p.suffix in (".py", ".mjs") and p.name != "__init__.py"]
        assert len(files) <= MOST_FILES, f"{folder.relative_to(ROOT)} holds {len(files)} files"
    for path in PACKAGE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path.relative_to(ROOT)


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


@pytest.mark.slow
def test_jax_internals_in_one_module_only():
    unstable = ("jax._src", "jax.extend", "jax.interpreters", "jax.core")
    users = {
        path.relative_to(ROOT).as_posix()
        for root in (PACKAGE, MAGICS)
        for path in root.rglob("*.py")
        if any(name == u or name.startswith(u + ".") for name in imports(path) for u in unstable)
    }
    assert users <= {"kernel_ext/gibbsite/programs/jaxpr/compat.py"}


def test_loading_the_extension_is_light():
    """`%load_ext gibbsite` must not wait for JAX: a kernel starts with the extension."""
    code = (
        "import sys; from IPython.core.interactiveshell import InteractiveShell as Shell; "
        "Shell.instance().run_line_magic('load_ext', 'gibbsite'); "
        "print([m for m in ('jax', 'numpyro', 'bokeh') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == "[]"


def loaded_by(code: str) -> set[str]:
    """The modules that a process has loaded when it has run `code`, those of JAX and NumPyro left out."""
    code = (
        "import sys, jax, numpyro, numpyro.distributions, numpyro.infer; known = set(sys.modules); "
        f"{code}; print(*set(sys.modules) - known)"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(out.stdout.split())


# What is loaded when it is used, and not with a model: what shows, keeps and summarises, and the floors above
# the density but for those that the facade's own classes are made of.
USED_LATER = {
    *"arviz_base arviz_stats xarray pandas narwhals zarr networkx scipy.stats scipy.optimize".split(),
    *"bokeh IPython anywidget matplotlib".split(),
    *(f"gibbsite.{f}" for f in ORDER[ORDER.index("graph") :] if f not in ("plans", "modelling", "structure")),
}


def test_a_script_pays_for_what_it_uses():
    """What stores, summaries, tables and views need is loaded when they are asked for, not with a model."""
    loaded = loaded_by("import gibbsite; gibbsite.model")
    assert not USED_LATER & loaded, USED_LATER & loaded
    assert len({name for name in loaded if name.startswith("gibbsite")}) <= 110
    assert "gibbsite.density.build" in loaded  # what is counted is there


def test_a_model_is_analysed_by_what_analyses():
    loaded = loaded_by(
        "import gibbsite, numpyro.distributions as dist; "
        "model = gibbsite.model(lambda y: numpyro.sample('y', dist.Normal(numpyro.sample('m', "
        "dist.Normal(0, 1)), 1), obs=y), 1.0); assert set(model.sites) == {'m', 'y'}"
    )
    assert not USED_LATER & loaded, USED_LATER & loaded


def test_annotations_of_what_is_loaded_later_can_be_evaluated():
    """`typing.get_type_hints` finds the classes of every public function, and loads what it names alone."""
    loaded = loaded_by(
        "import gibbsite, typing; plan = typing.get_type_hints(gibbsite.Model.plan)['return']; "
        "assert plan.__name__ == 'Plan'"
    )
    assert not loaded & {"gibbsite.sampling", "gibbsite.checking", "gibbsite.graph"}
    public = [getattr(gibbsite, name) for name in gibbsite.__all__]
    members = [member for c in public if inspect.isclass(c) for member in vars(c).values()]
    asked = [getattr(thing, "fget", thing) for thing in (*public, *members)]
    functions = [inspect.unwrap(thing) for thing in asked if inspect.isfunction(thing)]
    assert len(functions) > 100
    assert all(isinstance(typing.get_type_hints(function), dict) for function in functions)
    assert typing.get_type_hints(gibbsite.Model.sample)["return"] is gibbsite.Run


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
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    released = [h for h in headings if h != "Unreleased"]
    assert re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", released[0]), released


def test_the_conda_recipe_asks_for_all_that_the_wheel_asks_for():
    """Rendered as conda-build does. Conda knows no extras: what one brings is named."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = jinja2.Template((ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8"))
    told = yaml.safe_load(recipe.render(load_file_data=lambda *a, **k: {"project": project}, PYTHON="python"))
    assert told["package"] == {"name": project["name"], "version": project["version"]}
    named = {Requirement(line.replace("python-flatbuffers", "flatbuffers")).name
             for line in told["requirements"]["run"]}  # fmt: skip
    wanted = [Requirement(line) for line in project["dependencies"]]
    for one in tuple(wanted):
        for line in requires(one.name) or () if one.extras else ():
            brought = Requirement(line)
            if any(brought.marker and brought.marker.evaluate({"extra": extra}) for extra in one.extras):
                wanted.append(brought)
    assert {canonicalize_name(r.name) for r in wanted} | {"python"} == {canonicalize_name(n) for n in named}


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


def test_nothing_is_compiled_when_tests_are_collected(compiled_at_collection):
    """Of the files that were collected with this one. All workers of a suite import all of them."""
    assert not compiled_at_collection, "arrays: `helpers.startup.arrays`; distributions: made in the test"


# What may ask for the name of a primitive, beside the table and the interpreter: rules in tables of their
# own, and records for people. The list only shrinks.
NAMES_OF_PRIMITIVES = {
    "checking/perturbation.py",  # the truth that rules are held against computes some primitives otherwise
    "plans/candidates/promise.py",
    "programs/jaxpr/compat.py",
    "tape/recording/equations.py",
}
THE_TABLE = {"programs/jaxpr/primitives.py", "programs/jaxpr/walker.py"}


def test_what_primitives_are_is_asked_of_one_table():
    """Kinds and fields of its rows are asked for elsewhere: a primitive that JAX adds is entered once."""
    asking = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\bprimitive\.name\b", path.read_text(encoding="utf-8"))
    }
    assert not asking - NAMES_OF_PRIMITIVES - THE_TABLE
