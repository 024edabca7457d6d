"""Shapes that do not fit each other, by the names that the line calls them."""

import ast
import math
import re
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from gibbsite.explain.spot import Spot
from gibbsite.programs.jaxpr.source_line import at_place, line_at


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
    if "ndim at least 1" in message:
        return "`@` sums products along an axis, and one of the two is a single number: write `*`"
    product = re.search(r"(\w+) @ (\w+)", code)
    if product and all(n in shapes for n in product.groups()):
        left, right = product.groups()
        return _product(left, right, shapes[left], shapes[right])
    met = re.search(r"contracting dimensions.*got \((\d+),?\) and \((\d+),?\)", message)
    if met:
        return (
            f"in the product {met.group(1)} elements meet {met.group(2)}, and it needs as many of one "
            f"as of the other"
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


def _product(left: str, right: str, a: tuple[int, ...], b: tuple[int, ...]) -> str:
    if len(a) == 1 and len(b) == 2 and a[0] == b[1]:
        return f"the columns stand on the left of a product: `{right} @ {left}`"
    *more, last = a
    what = f"{last} columns" if more else f"{last} elements"
    return f"the {what} of {left} meet {b[0]} elements of {right}: make {right} {last} long"


def masked_words(name: str | None) -> str:
    """What is said of a masked array that a model reads and is not given."""
    which = "they are" if name is None else f"{name} is"
    return (
        f"{which} a masked array, of which JAX knows no elements that are missing; give it to the model as "
        f"an argument, or fill it with `np.ma.filled({name or 'x'}.astype(float), np.nan)`"
    )


def told_data_shapes(
    name: str, msg: Mapping[str, Any], trace: Mapping[str, Any], line: tuple[str, int] | None
) -> str:
    """Data that do not have the shape of their distribution, with the sites and plates that may be why."""
    if isinstance(msg["value"], np.ma.MaskedArray):
        return f"the data of {name!r}{at_place(line)}: {masked_words(None)}"
    fn, text = msg["fn"], line_at(*line).text if line else ""
    drawn = tuple(fn.batch_shape) + tuple(fn.event_shape)
    role = "data" if msg["is_observed"] else "value"
    near = [n for n in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text)) if n != name and n in trace]
    shapes = {n: np.shape(trace[n]["value"]) for n in near if trace[n]["type"] in ("sample", "deterministic")}
    why = [f"{n} is {_words(s)}{_plate_of(trace[n])}" for n, s in shapes.items() if s]
    listed = f" ({', '.join(why)})" if why else ""
    times = re.search(r"\b\w+ \* (\w+)\b|\b(\w+) \* \w+\b", text)
    off = [p for n in shapes for p in _plates(trace[n]) if drawn == (p[1],) != np.shape(msg["value"])]
    if len(drawn) == len(np.shape(msg["value"])) + 1 and times:
        cure = "did you mean `@`, which sums the products along the last axis?"
    elif off and role == "data":
        cure = f"the plate {off[0][0]!r} has {off[0][1]} elements: write `plate({off[0][0]!r}, len({name}))`"
    else:
        cure = (
            f"the shapes of what {name!r} is computed from, and the plates around it, make that of its "
            f"distribution"
        )
    kind = np.dtype(jnp.result_type(msg["value"]))
    if kind.kind == "f" and getattr(fn.support, "is_discrete", False) and _fits(msg["value"], fn):
        return (
            f"the {role} of {name!r}{at_place(line)} are {kind}, and {family_called(fn)} takes whole "
            "numbers: write `.astype(int)`; where missing ones (NaN) have made them decimal, say what "
            "becomes of these: missing='impute', 'mask' or 'drop' (`--missing` after the parentheses of "
            "%%model)"
        )
    return (
        f"the {role} of {name!r}{at_place(line)} are {_long(np.shape(msg['value']))}, and their "
        f"distribution, {family_called(fn)}, is {_long(drawn)}{listed}; {cure}"
    )


def _fits(value: Any, fn: Any) -> bool:
    shape = np.shape(value)
    try:
        np.broadcast_shapes(shape[: len(shape) - fn.event_dim], tuple(fn.batch_shape))
    except ValueError:
        return False
    return True


def told_crossed(name: str, msg: Mapping[str, Any], line: tuple[str, int] | None) -> str | None:
    """Data and distribution that broadcast against each other into a table, in which each value would count
    many times: `(30,)` against `(30, 1)`, which a plate of 30 makes `(30, 30)`; None where they do not. A
    single number may stand for many, and data may be those of each element of a plate, but have no axis then
    that is neither the plate's nor the distribution's."""
    fn, value = msg["fn"], np.shape(msg["value"])
    data, drawn = value[: len(value) - fn.event_dim], tuple(fn.batch_shape)
    full = np.broadcast_shapes(data, drawn)
    plates = {f.dim for f in msg.get("cond_indep_stack", ())}
    axes = range(-len(full), 0)

    def axis(shape: tuple[int, ...], k: int) -> int:
        return shape[k] if -k <= len(shape) else 1

    across = any(k not in plates and axis(data, k) > axis(drawn, k) for k in axes)
    repeated = [k for k in axes if (across or k not in plates) and axis(data, k) == 1]
    times = math.prod(full[k] for k in repeated)
    if times <= 1 or math.prod(data) <= 1:
        return None
    enlarged = bool(plates) and isinstance(fn, dist.ExpandedDistribution)
    before = fn.base_dist.batch_shape if enlarged else drawn
    made = f", which the plates make of {before}" if before != drawn else ""
    return (
        f"the data of {name!r}{at_place(line)} have the shape {data} and their distribution, "
        f"{family_called(fn)}, {drawn}{made}: together they make a table of {full}, in which each value "
        f"counts {times} times; give both the same axes, as with `.squeeze(-1)` or `[:, 0]`"
    )


def _long(shape: tuple[int, ...]) -> str:
    return "a single number" if not shape else _words(shape)


def family_called(fn: Any) -> str:
    """What a statement calls its distribution, whatever has been wrapped around it."""
    while hasattr(fn, "base_dist") and type(fn).__name__ in (
        "Independent",
        "MaskedDistribution",
        "ExpandedDistribution",
    ):
        fn = fn.base_dist
    return type(fn).__name__.removesuffix("Probs").removesuffix("Logits")


def _plate_of(msg: Mapping[str, Any]) -> str:
    plates = _plates(msg)
    return f", as plate {plates[0][0]!r}" if len(plates) == 1 else ""


def _plates(msg: Mapping[str, Any]) -> list[tuple[str, int]]:
    return [(f.name, f.size) for f in msg.get("cond_indep_stack", ())]


def told_misfit(name: str, msg: Mapping[str, Any]) -> str | None:
    """A plate that is not as long as the data observed in it; None where plates are not to blame."""
    value, fn = msg["value"], msg["fn"]
    shape = tuple(np.shape(value))[: len(np.shape(value)) - fn.event_dim]
    frames = msg.get("cond_indep_stack", ())
    for frame in frames:
        if -frame.dim <= len(shape) and shape[frame.dim] not in (1, frame.size):
            have = shape[frame.dim]
            other = next((f.name for f in frames if f.size == have), None)
            cure = f"write `plate({frame.name!r}, len({name}))`"
            if other is not None:
                cure = (
                    f"the plate that is opened first has the last axis: open {other!r} around {frame.name!r}"
                )
            return (
                f"the plate {frame.name!r} around {name!r} has {frame.size} elements, and the data of "
                f"{name!r} have {have} there: {cure}"
            )
    return None
