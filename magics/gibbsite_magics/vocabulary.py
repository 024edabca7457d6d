"""The names that a tilde cell sees without importing them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

# The part of jax.numpy that reads like mathematics; nothing here hides a built-in.
MATHEMATICS = (
    "arange array asarray clip concatenate cos cosh cumprod cumsum diag dot einsum exp expm1 eye full hypot "
    "inf linspace log log1p logaddexp matmul maximum mean minimum nan ones ones_like outer pi prod repeat "
    "sign sin sinh sqrt square stack tan tanh tile where zeros zeros_like"
).split()
MODULES = {
    "jax": "import jax",
    "jnp": "import jax.numpy as jnp",
    "numpyro": "import numpyro",
    "dist": "import numpyro.distributions as dist",
}


@dataclass(frozen=True)
class Word:
    """A value and where it comes from: `module` is None for a module itself."""

    value: Any
    module: str | None


@cache
def vocabulary() -> Mapping[str, Word]:
    """Name → `Word`: NumPyro's distributions and primitives, `jnp` and some of its functions."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.contrib.control_flow import scan

    words = {name: Word(getattr(jnp, name), "jax.numpy") for name in MATHEMATICS}
    for name in dist.__all__:
        if name[0].isupper() or name in ("constraints", "transforms"):
            words[name] = Word(getattr(dist, name), "numpyro.distributions")
    for name in ("deterministic", "factor", "plate", "sample"):
        words[name] = Word(getattr(numpyro, name), "numpyro")
    words["scan"] = Word(scan, "numpyro.contrib.control_flow")
    modules = {"jax": jax, "jnp": jnp, "numpyro": numpyro, "dist": dist}
    return words | {name: Word(modules[name], None) for name in MODULES}


def import_lines(names: set[str]) -> list[str]:
    """The import statements that give these words of the vocabulary, sorted."""
    words = vocabulary()
    lines = [MODULES[name] for name in names if words[name].module is None]
    for module in {words[name].module for name in names} - {None}:
        members = sorted(name for name in names if words[name].module == module)
        lines.append(f"from {module} import {', '.join(members)}")
    return sorted(lines, key=lambda line: (line.startswith("from"), line))
