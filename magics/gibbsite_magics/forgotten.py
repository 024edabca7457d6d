"""Data that the notebook has and the model was not given."""

from collections.abc import Mapping
from typing import Any

_ARRAYS = ("numpy", "jax", "jaxlib", "pandas", "polars")


def forgotten(model: Any, namespace: Mapping[str, Any]) -> list[str]:
    """Where a model observes nothing: a line for each of its latent sites that the notebook has values for,
    of the site's own shape, with what to write."""
    if any(site.role == "observed" for site in model.sites.values()):
        return []
    found = []
    given = [*model.kwargs]
    for name, site in model.sites.items():
        value = namespace.get(name)
        if site.role != "latent" or value is None or tuple(getattr(value, "shape", ())) != tuple(site.shape):
            continue
        if site.shape and type(value).__module__.partition(".")[0] in (
            "numpy",
            "jax",
            "jaxlib",
            "pandas",
            "polars",
        ):
            call = ", ".join([*given, name])
            found.append(
                f"{model.name} observes nothing, and the notebook has values for {name!r}, of its shape "
                f"{tuple(site.shape)}: to condition on them, write `%%model {model.name}({call})`"
            )
    return found
