"""Settings that every test shares."""

import gc
import importlib
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import jax
import pytest
from gibbsite.ground import opaque

ROOT = Path(__file__).parent.parent

# Compiled programs outlive a test session in a git-ignored folder: most of a suite's time is XLA's. The
# variables are for kernels and commands that tests start, the settings for this process.
CACHE = str(ROOT / ".jax_cache")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", CACHE)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# several processes share that folder: see `whole_entries`
STARTUP = str(Path(__file__).parent / "helpers" / "startup")
os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (STARTUP, os.environ.get("PYTHONPATH")) if p)
sys.path.append(STARTUP)
importlib.import_module("jax_plugins.whole_entries").initialize()
os.environ.pop("VIRTUAL_ENV", None)  # a shell's other environment, which IPython would warn of
jax.config.update("jax_compilation_cache_dir", CACHE)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
jax.config.update("jax_enable_x64", False)

# What tests leave behind is in JAX's caches and stays: looking through it again and again takes the collector
# a tenth of a suite.
gc.freeze()
gc.set_threshold(20_000, 20, 50)

# Two thirds of the rest goes into making programs fast that then run on a few numbers. What each commit runs
# is about Gibbsite's programs, which these options leave as they are; the slow suites, the notebooks and what
# tests start as processes of their own compile as users do, and so does all with a variable `XLA_FLAGS`, even
# an empty one.
# Code in one part takes a quarter less of the memory maps, of which a process has 65,530.
QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if jax.__version_info__ < (0, 11):  # later ones know one way of fusing, and refuse the option
    QUICKLY += " --xla_cpu_use_fusion_emitters=false"
# for a process whose draws are compared with this one's
ALIKE = "GIBBSITE_TESTS_XLA_FLAGS"


# programs that were compiled, or read from the cache, so far; and how many of them while a file was collected
compiled = 0
at_collection: dict[str, int] = {}


def _compiled(event: str, seconds: float, **_: Any) -> None:
    global compiled
    compiled += event == "/jax/core/compile/backend_compile_duration"


jax.monitoring.register_event_duration_secs_listener(_compiled)


@pytest.fixture(autouse=True, scope="session")
def analyses_fail_as_they_fail() -> Generator[None]:
    """What becomes a note for people is an error for tests."""
    with opaque.strict():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Note which file compiles when it is imported: `tests/test_house.py` wants none to."""
    before = compiled
    report = yield
    if isinstance(collector, pytest.Module) and compiled > before:
        at_collection[collector.nodeid] = compiled - before
    return report


@pytest.fixture
def programs_compiled() -> Callable[[], int]:
    """How many programs have been compiled so far, or read from the cache."""
    return lambda: compiled


@pytest.fixture
def compiled_at_collection() -> dict[str, int]:
    """Programs by the file that had them compiled when it was collected."""
    return at_collection


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr not in ("not slow", "core") or "XLA_FLAGS" in os.environ:
        return
    os.environ["XLA_FLAGS"] = QUICKLY
    jax.devices()  # XLA reads the variable once
    del os.environ["XLA_FLAGS"]
    os.environ[ALIKE] = QUICKLY


# `pytest -m core`: of each file so many tests, evenly spaced: one oracle for every floor
CORE = {
    "test_house.py": 14,
    "programs/jaxpr/test_primitives.py": 100,
    "programs/jaxpr/test_walker.py": 10,
    "tape/test_tape.py": 6,
    "programs/maps/test_soundness.py": 12,
    "programs/passes/test_barriers.py": 3,
    "validation/test_values.py": 8,
    "printing/elements/test_printed.py": 4,
    "density/test_current.py": 6,
    "graph/test_graph.py": 8,
    "conditional/finite/test_brute_force.py": 8,
    "conditional/conjugate/test_conjugate.py": 12,
    "conditional/linear/test_joint.py": 4,
    "elimination/test_marginal_brute_force.py": 6,
    "elimination/test_pointwise.py": 3,
    "kernels/blocks/test_conformance.py": 6,
    "kernels/blocks/test_geweke.py": 2,
    "plans/schedule/test_schedule.py": 12,
    "sampling/test_run.py": 6,
    "diagnostics/verdict/test_verdict.py": 10,
    "magics/test_tilde.py": 12,
    "views/graph/test_forms.py": 3,
}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m core`, nothing else is imported."""
    if config.option.markexpr != "core" or collection_path.suffix != ".py":
        return None
    return collection_path.relative_to(ROOT / "tests").as_posix() not in CORE


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `CORE`, and as slow the cases of a table beyond the share that its test names."""
    cases: dict[tuple[Path, str], int] = {}
    for item in items:
        share = item.get_closest_marker("share")
        if share is not None and isinstance(item, pytest.Function):
            table = item.path, item.originalname
            cases[table] = cases.get(table, -1) + 1
            if cases[table] % share.args[0]:
                item.add_marker("slow")
    by_file: dict[str, list[pytest.Item]] = {}
    for item in items:
        if "slow" not in item.keywords:
            by_file.setdefault(item.path.relative_to(ROOT / "tests").as_posix(), []).append(item)
    for file, count in CORE.items():
        found = by_file.get(file, [])
        for i in range(min(count, len(found))):
            found[i * len(found) // min(count, len(found))].add_marker("core")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """With `-n auto`, one worker more than there are cores: the browser's waits most of its time."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `-n`, a file stays with one worker, since its tests share compiled models; so does the browser."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "browser" if nodeid.startswith("tests/browser/") else super()._split_scope(nodeid)

    return ByFile(config, log)


@pytest.fixture(scope="session")
def model() -> Any:
    """One small model for all tests of runs; its programs are compiled once."""
    from helpers.models.sampling_models import coins, data

    return importlib.import_module("gibbsite").model(coins, data())


@pytest.fixture(scope="session")
def whole(model: Any) -> Any:
    """An uninterrupted run of it."""
    return model.sample(draws=60, warmup=40, chains=2, seed=1, schedule="Gibbs z (*) NUTS [w p]")
