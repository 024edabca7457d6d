"""The notebook's name for a model: bound anew when a person asks for that, and given back."""

from typing import Any

from IPython.core.getipython import get_ipython

from gibbsite.errors import ModelError
from gibbsite.views.host.names import name_of


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
