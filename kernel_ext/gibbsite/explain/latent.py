"""Python or NumPy at a value that is not there yet: what wanted it, and what to write there instead."""

import ast
import re

import numpy as np

from gibbsite.errors import DataError, GibbsiteError, ModelError
from gibbsite.explain.spot import Spot, foreign_tables, made
from gibbsite.programs.jaxpr.compat import is_traced

_SLICED = re.compile(r"([A-Za-z_]\w*)\s*\[([^\[\]]*:.*)\]$")
_NUMPY = {"fabs": "abs", "pow": "power", "fmax": "maximum", "fmin": "minimum"}
_SIZED = ("expand", "arange", "zeros", "ones", "full")
_SIZES = re.compile(rf"\b({'|'.join(_SIZED)})\b")
_TEXT = re.compile(r"""(^|\W)f(['"]).*\{.*\2|\.format\(|^(str|repr|format)\(|^(['"]).*%.*\4\s*%""")
_UPDATES = {"": "set", "+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
_SPECIAL = {"expit": "jax.nn.sigmoid", "softmax": "jax.nn.softmax", "logsumexp": "jax.nn.logsumexp"}


def told_latent(spot: Spot | None, drawn: bool = True) -> GibbsiteError:
    """The error to raise where the value of a latent is asked for, with its place; or, where nothing that is
    `drawn` is in it, of something that JAX computes."""
    if spot is None:
        return ModelError(
            "the model needs the value of a random variable while it is traced. Python's `if`, `for`, "
            "`int()`, shapes and NumPy functions cannot depend on a latent value: use `jnp` functions, "
            "`jnp.where`, `jax.lax.cond` or a plate of fixed size"
        ).at(None, "value-of-a-latent")
    if (table := told_table(spot)) is not None:
        return made(spot, DataError, "tables-of-the-notebook", table)
    if (sparse := _sparse(spot)) is not None:
        return made(spot, DataError, "no-numbers", sparse)
    bounds = _SLICED.match(spot.code.strip())
    asked = bounds.group(2) if bounds else spot.code
    names = [n for n in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", asked)) if is_traced(spot.values.get(n))]
    if not names and (of_data := _eager(spot)) is not None:
        return made(spot, ModelError, "value-of-a-latent", of_data)
    if not drawn:
        undrawn = (
            f"`{spot.code.strip()}` needs a number, and what JAX computes in a model has none while it is "
            "traced, though no draw is in it: make its arrays with NumPy (`np.array`, `np.sum`), or before "
            "the model"
        )
        return made(spot, ModelError, "computed-by-jax", undrawn)
    of = f"{names[0]!r}, " if names else ""
    what = (
        f"`{spot.code.strip()}` needs the value of {of}{'' if of else 'something computed from '}a random "
        f"variable, which has none while the model is traced; {_cure(spot)}"
    )
    return made(spot, ModelError, "value-of-a-latent", what)


def _eager(spot: Spot) -> str | None:
    """A function of `jax.numpy` whose result is as long as its data say, of data alone."""
    called = re.match(r"(jnp|jax\.numpy)\.(\w+)\s*\(", spot.code.strip())
    words = dict.fromkeys(re.findall(r"(?<![\w.])[A-Za-z_]\w*", spot.code))
    arrays = [n for n in words if hasattr(spot.values.get(n), "__array__")]
    if called is None or not arrays:
        return None
    code, function = spot.code.strip(), f"{called.group(1)}.{called.group(2)}"
    return (
        f"`{code}` has as many elements as the data in {arrays[0]!r} say, which JAX does not look at while "
        f"it traces; NumPy does: `{code.replace(function, f'np.{called.group(2)}', 1)}`"
    )


def picked_from_a_list(spot: Spot | None) -> GibbsiteError | None:
    """A list from which an array of places picks."""
    picked = spot and re.match(r"([A-Za-z_]\w*)\s*\[", spot.code.strip())
    if not spot or not picked or not isinstance(spot.values.get(picked.group(1)), list | tuple):
        return None
    name = picked.group(1)
    what = f"{name!r} is a list, from which one place at a time is picked; write `jnp.array({name})[…]`"
    return made(spot, DataError, "no-numbers", what)


def told_table(spot: Spot) -> str | None:
    """A table of the notebook in a line that computes with latents, and what to write."""
    tables = foreign_tables(spot)
    if not tables:
        return None
    name, value = next(iter(tables.items()))
    kind = f"a {type(value).__name__} of {type(value).__module__.partition('.')[0]}"
    return (
        f"{name!r} is {kind}, which the model reads from outside; give it in the parentheses, `m(…, "
        f"{name})`, and its columns become arrays, its categories codes"
    )


def _sparse(spot: Spot) -> str | None:
    """A sparse matrix of SciPy, which computes with numbers only."""
    for name in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", spot.text)):
        value = spot.values.get(name)
        if type(value).__module__.startswith("scipy.sparse"):
            return (
                f"{name!r} is a sparse matrix of SciPy, which knows no latents; give the "
                f"model `{name}.toarray()`, or rows, columns and entries as arrays"
            )
    return None


def _cure(spot: Spot) -> str:
    text, code = spot.text.strip(), spot.code.strip()
    fixed = "take the largest length, a loop or plate of fixed size, and mask out what is beyond it"
    called = re.match(r"([A-Za-z_][\w.]*)\s*\(", code)
    name = called.group(1) if called else ""
    module, _, function = name.rpartition(".")
    if (stored := _stored(text, code)) is not None:
        return stored
    if _TEXT.search(code):
        return "a latent has no digits yet; look at values in the draws of a run"
    of_numpy = module in ("np", "numpy", "math") and function not in _SIZED
    if name in ("range", "plate", "numpyro.plate") or (not of_numpy and _SIZES.search(code)):
        return fixed
    if name in ("int", "float", "bool"):
        return (
            f"leave the conversion out where arrays are computed with it; where it is a length (of a "
            f"`range`, a plate, an array), {fixed}"
        )
    if name in ("max", "min"):
        return f"`jnp.{name}imum(a, b)` compares element by element"
    if function in _SPECIAL and module:
        return f"use `{_SPECIAL[function]}`"
    if of_numpy:
        return f"use `jnp` functions, which work on latents: `jnp.{_NUMPY.get(function, function)}(…)`"
    if has_list(code):
        return "a list is no array, and `jnp.array([…])` makes one of latents"
    asks = re.match(r"(el)?if\b|while\b|assert\b", text)
    asks = asks or re.search(r"\bif\b.*\belse\b|\b(and|or|not)\b", text)
    if asks and module.partition(".")[0] in ("jnp", "jax"):
        return (
            "`if` decides by what Python's own arithmetic makes of latents, and not by what a function of "
            f"JAX does: compare without `{name}` (`x > 0` for `jnp.exp(x) > 1`); or `jnp.where(condition, "
            "a, b)` picks by a condition"
        )
    if module:
        return "use `jnp` functions (`jax.numpy`, `jax.nn`, `jax.scipy`), which work on latents"
    if asks:
        return "`jnp.where(condition, a, b)` picks by a condition"
    picked = re.match(r"([A-Za-z_]\w*)\s*\[(.*)\]$", code)
    if picked and _is_condition(picked.group(2)):
        return (
            f"`jnp.where({picked.group(2)}, {picked.group(1)}, …)` keeps the shape, and a mask leaves "
            f"elements out"
        )
    if sliced := _SLICED.match(code):
        return f"a slice has a fixed length: take all of {sliced.group(1)!r}, and `jnp.where` what counts"
    if picked and _functions(spot.values.get(picked.group(1))):
        index, several = picked.group(2), picked.group(1)
        return f"a latent picks one of several functions by `jax.lax.switch({index}, {several}, …)`"
    if picked and isinstance(spot.values.get(picked.group(1)), dict):
        return "a latent picks from arrays and not from a dict: `jnp.array([…])[z]`"
    if picked:
        index = spot.values.get(picked.group(2))
        one = index is not None and np.ndim(index) == 0
        asks = f"; with `int({picked.group(2)})` Python asks for its value, a structure each" if one else ""
        return f"a latent picks from arrays of JAX: `jnp.asarray({picked.group(1)})[…]`{asks}"
    return f"use `jnp` functions and `jnp.where`, or {fixed}"


def has_list(code: str) -> bool:
    """Whether a list or a tuple stands among the arguments of a call."""
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except SyntaxError:
        return False
    given = [*tree.args, *(k.value for k in tree.keywords)] if isinstance(tree, ast.Call) else []
    return any(isinstance(a, ast.List | ast.Tuple) for a in given)


def _stored(text: str, code: str) -> str | None:
    """What to write for an assignment to an element or a slice of an array of NumPy."""
    target = re.match(r"([A-Za-z_]\w*)\s*\[(.*)\]$", code)
    found = target and re.search(re.escape(code) + r"\s*([-+*/]?)=(?!=)", text)
    if not target or not found:
        return None
    array, at = target.groups()
    kept = f"`{array} = {array}.at[{at}].{_UPDATES[found.group(1)]}(…)`"
    of_jax = f"make it an array of JAX, `{array} = jnp.asarray({array})`"
    return f"{of_jax}, and keep what the assignment gives: {kept}"


def _functions(value: object) -> bool:
    """Whether it is a list of functions."""
    return isinstance(value, list | tuple) and bool(value) and all(map(callable, value))


def _is_condition(text: str) -> bool:
    try:
        return isinstance(ast.parse(text, mode="eval").body, ast.Compare | ast.BoolOp | ast.UnaryOp)
    except SyntaxError:
        return False
