"""Gibbsite: dependency graphs, derived Gibbs kernels and live sampling for NumPyro models in notebooks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gibbsite import showing
from gibbsite.errors import GibbsiteError
from gibbsite.ground import services as above

if TYPE_CHECKING:
    from gibbsite.checking import Check
    from gibbsite.facade import Model, model
    from gibbsite.inputs.tables import levels
    from gibbsite.kernels.blocks.finite import FiniteGibbs
    from gibbsite.prediction.of_runs import compare, contrast, decide
    from gibbsite.sampling import Run, joined, load, runs, verify
    from gibbsite.tape.tape import Tape, track

__all__ = [
    "Check",
    "FiniteGibbs",
    "GibbsiteError",
    "Model",
    "Run",
    "Tape",
    "compare",
    "contrast",
    "decide",
    "joined",
    "levels",
    "load",
    "model",
    "runs",
    "track",
    "verify",
]
__version__ = "0.2.0"

# imported when first used, so that `%load_ext gibbsite` does not have to wait for JAX
_LAZY = {
    "Check": "gibbsite.checking",
    "FiniteGibbs": "gibbsite.kernels.blocks.finite",
    "Model": "gibbsite.facade",
    "Run": "gibbsite.sampling",
    "Tape": "gibbsite.tape.tape",
    "compare": "gibbsite.prediction.of_runs",
    "contrast": "gibbsite.prediction.of_runs",
    "decide": "gibbsite.prediction.of_runs",
    "joined": "gibbsite.sampling",
    "levels": "gibbsite.inputs.tables",
    "load": "gibbsite.sampling",
    "model": "gibbsite.facade",
    "runs": "gibbsite.sampling",
    "track": "gibbsite.tape.tape",
    "verify": "gibbsite.sampling",
}

showing.use(lambda: import_module("gibbsite.views.shown"))
above.offer("prediction", lambda: import_module("gibbsite.prediction.of_runs"))
above.offer("structure", lambda: import_module("gibbsite.structure.run"))


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'gibbsite' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def load_ipython_extension(shell: Any) -> None:
    """Register the magics: `%load_ext gibbsite`. JAX is imported when a model is defined, not here."""
    from gibbsite_magics import load

    load(shell)
