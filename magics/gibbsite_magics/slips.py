"""Statements that name a distribution and sample nothing, `a == Normal(0, 1)`, or lose their data."""

import ast
from collections.abc import Collection
from typing import NamedTuple

from gibbsite_magics.vocabulary import vocabulary

_SHAPED = ("expand", "to_event", "mask")


class Slip(NamedTuple):
    """A statement that cannot be meant, and the sentence to say so."""

    node: ast.stmt
    sentence: str


def find_slip(
    tree: ast.Module, parameters: Collection[str], sampled: Collection[tuple[int, int]]
) -> Slip | None:
    """The first such statement of a tilde cell, parsed with `=` for each `~`; None where there is none.
    `sampled` are line and column of the statements that had one."""
    for node in ast.walk(tree):
        made = _made(node) if isinstance(node, ast.stmt) else None
        if made is not None:
            name, family = made
            return Slip(node, f"this samples nothing: write `{name} ~ {family}(…)`")  # type: ignore[arg-type]
        if not isinstance(node, ast.Assign) or (node.lineno, node.col_offset) in sampled:
            continue
        if _hides(node, tree, parameters):
            name, family = node.targets[0].id, _family(node.value)  # type: ignore[attr-defined]
            return Slip(node, f"{name!r} is data, and this observes nothing: write `{name} ~ {family}(…)`")
    return _overwritten(tree.body, {}, parameters, sampled)


def _overwritten(
    block: list[ast.stmt],
    unread: dict[str, ast.expr],
    parameters: Collection[str],
    sampled: Collection[tuple[int, int]],
) -> Slip | None:
    """A latent sampled under a name that holds data which nothing has read: `x = df.x`, then `x ~ …`.
    `unread` are such names so far; blocks that may run or not are left alone."""
    for node in block:
        if isinstance(node, ast.With):
            for item in node.items:
                _read(item, unread)
            if found := _overwritten(node.body, unread, parameters, sampled):
                return found
            continue
        _read(node, unread)
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name, value = node.targets[0].id, node.value
        if (node.lineno, node.col_offset) not in sampled:
            if len(node.targets) == 1 and _names(value) & set(parameters):
                unread[name] = value
        elif name in unread and name not in parameters:
            data = unread[name]
            told = ast.unparse(data)
            column = isinstance(data, ast.Attribute | ast.Subscript) and isinstance(data.value, ast.Name)
            text = not isinstance(data, ast.Subscript) or isinstance(getattr(data.slice, "value", 0), str)
            cure = f"`{told} ~ …`" if column and text else f"`numpyro.sample({name!r}, …, obs={told})`"
            return Slip(
                node,
                f"{name!r} becomes a latent here, and the data it held, `{told}`, are lost, since {name!r} "
                f"is no argument of the model: to observe them write {cure}",
            )
    return None


def _read(node: ast.AST, unread: dict[str, ast.expr]) -> None:
    for name in _names(node):
        unread.pop(name, None)


def _names(node: ast.AST) -> set[str]:
    """The names that a statement or expression reads."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _made(node: ast.stmt) -> tuple[str, str] | None:
    """Name and family of what a statement was likely meant to sample."""
    left: ast.expr | None = None
    right: ast.expr | None = None
    if isinstance(node, ast.AnnAssign) and node.value is None:
        left, right = node.target, node.annotation
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.UnaryOp):
        # `a ~~ Normal(0, 1)`: a second tilde
        doubled = isinstance(node.value.op, ast.Invert)
        left, right = node.targets[0], node.value.operand if doubled else None
    elif isinstance(node, ast.Expr):
        value = node.value
        if isinstance(value, ast.Compare):
            left, right = value.left, value.comparators[-1]
        elif isinstance(value, ast.BinOp):
            left, right = value.left, value.right
        else:
            right = value
        if isinstance(right, ast.UnaryOp):
            right = right.operand
    family = None if right is None else _family(right)
    if family is None:
        return None
    return (ast.unparse(left) if left is not None else "name"), family


def _hides(node: ast.Assign, tree: ast.Module, parameters: Collection[str]) -> bool:
    """Whether an argument is given a distribution that nothing below reads."""
    target = node.targets[0]
    if not isinstance(target, ast.Name) or target.id not in parameters or _family(node.value) is None:
        return False
    later = (n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    return not any(n.id == target.id and n.lineno > (node.end_lineno or node.lineno) for n in later)


def _family(node: ast.expr) -> str | None:
    """The family of an expression that is a distribution as NumPyro makes them; None for anything else."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPED:
        node = node.func.value
    if not isinstance(node, ast.Call):
        return None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    word = vocabulary().get(name)
    return name if word is not None and word.module == "numpyro.distributions" else None
