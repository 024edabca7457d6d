"""Shapes that do not fit each other, by the names that the line calls them."""

import ast
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from gibbsite.density.told.spot import Spot


def told_shapes(message: str, spot: Spot, seen: Mapping[str, Any]) -> str:
    """What does not fit: the names in the piece of code with their shapes, and what would make them fit."""
    code = spot.code if _named(spot.code, spot) else spot.text.strip()
    shapes = _named(code, spot)
    listed = ", ".join(f"{n} is {_words(s)}" for n, s in shapes.items())
    if not listed:
        sizes = re.findall(r"\([\d, ]*\)", message)
        listed = f"their shapes are {' and '.join(sizes)}" if sizes else message
    return f"`{code.strip()}` does not fit together: {listed}; {_cure(code, shapes, message, seen)}"


def _named(code: str, spot: Spot) -> dict[str, tuple[int, ...]]:
    try:
        tree = ast.parse(code.strip().rstrip(":").replace("~", "="))
    except SyntaxError:
        return {}
    names = dict.fromkeys(
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    )
    found = {n: getattr(spot.values.get(n), "shape", None) for n in names}
    return {n: tuple(s) for n, s in found.items() if isinstance(s, tuple) and s}


def _words(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"{shape[0]} long"
    return f"{shape[0]} rows by {shape[1]} columns" if len(shape) == 2 else f"of shape {shape}"


def _cure(code: str, shapes: Mapping[str, tuple[int, ...]], message: str, seen: Mapping[str, Any]) -> str:
    product = re.search(r"(\w+) @ (\w+)", code)
    if product and all(n in shapes for n in product.groups()):
        left, right = (shapes[n] for n in product.groups())
        return (
            f"the {left[-1]} columns of {product.group(1)} meet {right[0]} elements of {product.group(2)}: "
            f"make {product.group(2)} {left[-1]} long"
        )
    plates = seen["plates"]
    sizes = {int(n) for s in re.findall(r"\(([\d, ]*)\)", message) for n in re.findall(r"\d+", s)}
    sizes |= {n for s in shapes.values() for n in s}
    near = [(n, k) for n, k in plates.items() if k in sizes or k - 1 in sizes or k + 1 in sizes]
    if near:
        name, size = near[0]
        others = sorted(n for n in sizes if n not in (1, size))
        meets = f", and meets {others[-1]}" if others else ""
        return f"the plate {name!r} has {size} elements{meets}: a plate is as long as what is in it"
    return "both need the same length, or one of them a new axis, `x[:, None]`"


def told_misfit(name: str, msg: Mapping[str, Any]) -> str | None:
    """A plate that is not as long as the data observed in it; None where plates are not to blame."""
    value, fn = msg["value"], msg["fn"]
    shape = tuple(np.shape(value))[: len(np.shape(value)) - fn.event_dim]
    for frame in msg.get("cond_indep_stack", ()):
        if -frame.dim <= len(shape) and shape[frame.dim] not in (1, frame.size):
            have = shape[frame.dim]
            return (
                f"the plate {frame.name!r} around {name!r} has {frame.size} elements, and the data of "
                f"{name!r} have {have}: write `plate({frame.name!r}, len({name}))`"
            )
    return None
