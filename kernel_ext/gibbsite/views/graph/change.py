"""What one can do to a model from its graph, each also as a line of Python to keep."""

import ast
import keyword
from dataclasses import dataclass
from typing import Any

from IPython.core.getipython import get_ipython

from gibbsite.errors import DataError, ModelError
from gibbsite.graph import element_blanket, element_text
from gibbsite.plans.schedule.edits import merged, with_kernel
from gibbsite.views.host.display import name_of


@dataclass(frozen=True)
class Change:
    """A model after a change, what there is to say of it, and the Python that makes it."""

    model: Any
    words: str
    code: str


def apply(model: Any, node: str | None, action: str, value: str, name: str = "model") -> Change:
    """Do `action` at a node: "condition", "do", "kernel", "reparam", "merge" or "element".

    `value` is what was typed or chosen: a number or list, the name of a kernel, a parameterisation, the other
    node of a block, or an index such as `17` or `[2, 3]`; `name` is what the notebook calls the model. Raises
    a `GibbsiteError` where it does not fit.
    """
    if model is None:
        raise ModelError("this is a bare graph: there is no model to change")
    if node is None:
        raise ModelError("click on a node first")
    if action == "element":
        at = _index(model, node, value)
        blanket = element_blanket(model.density, node, at)
        return Change(model, element_text(node, at, blanket, name=model.element_name), "")
    if action == "kernel":
        text = with_kernel(model, node, value)
        return _after(model.with_schedule(text), name, f"with_schedule({text!r})")
    if action == "merge":
        text = merged(model, node, value)
        return _after(model.with_schedule(text), name, f"with_schedule({text!r})")
    if action == "reparam":
        return _after(model.reparam({node: value}), name, f"reparam({_named(node, value)})")
    if action not in ("condition", "do"):
        raise ModelError(f"unknown action {action!r}")
    given = parsed(value)
    changed = getattr(model, action)({node: given})
    return _after(changed, name, f"{action}({_named(node, given)})")


def _index(model: Any, node: str, value: str) -> tuple[int, ...]:
    """An index as typed: `17`, `[2, 3]`, or the label of an element."""
    site = model.density.sites.get(node)
    if site is not None and not site.shape:
        return ()
    labels = model.element_labels(node)
    if len(labels) == 1 and labels[0] is not None and value.strip() in labels[0]:
        return (labels[0].index(value.strip()),)
    index = parsed(value)
    return tuple(index) if isinstance(index, list | tuple) else (index,)


def _named(node: str, value: Any) -> str:
    """An argument of the node's name, or a dict where that is no name of Python's."""
    plain = node.isidentifier() and not keyword.iskeyword(node)
    return f"{node}={value!r}" if plain else f"{{{node!r}: {value!r}}}"


def _after(model: Any, name: str, call: str) -> Change:
    return Change(model, f"Schedule now: {model.schedule().text}", f"{name} = {name}.{call}")


def parsed(text: str) -> Any:
    """A number, or a list of numbers, as typed; raises `DataError` for anything else."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not _numeric(value):
        raise DataError(f"type a number or a list of numbers; got {text.strip() or 'nothing'!r}")
    return value


def _numeric(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_numeric, value))
    return isinstance(value, int | float)


class Binding:
    """A model's name in the notebook, from the moment its graph is drawn.

    Nothing is overwritten that the graph did not put there: where the name has come to mean something else
    meanwhile, `use` asks first.
    """

    def __init__(self, model: Any):
        self.name = name_of(model, model.name)
        self._own = [model]
        self._before: list[Any] = []

    @property
    def _space(self) -> dict[str, Any]:
        shell = get_ipython()
        if shell is None:
            raise ModelError("there is no notebook whose names could be changed; use the line of code")
        return shell.user_ns

    def know(self, model: Any) -> None:
        """Take note of a model that was made here: to find it under the name is no surprise."""
        self._own.append(model)

    @property
    def now(self) -> Any:
        """What the name stands for; None where it is free."""
        shell = get_ipython()
        return None if shell is None else shell.user_ns.get(self.name)

    @property
    def taken(self) -> bool:
        """Whether the name stands for something that was not made here; False where it is free."""
        now = self.now
        return now is not None and not any(now is model for model in self._own)

    def use(self, model: Any, sure: bool = False) -> bool:
        """Bind the name to `model`; False, and nothing done, where it is taken and nobody is `sure`."""
        space = self._space
        if self.taken and not sure:
            return False
        self._before.append((space.get(self.name), model))
        self.know(model)
        space[self.name] = model
        return True

    @property
    def used(self) -> bool:
        """Whether there is a binding to take back."""
        return bool(self._before)

    def take_back(self) -> bool:
        """Bind the name to what it was before the last `use`; False, and nothing done, where it stands for
        something else by now, which is left alone."""
        if not self._before:
            return False
        before, put = self._before.pop()
        space = self._space
        if space.get(self.name) is not put:
            return False
        if before is None:
            del space[self.name]
        else:
            space[self.name] = before
        return True
