"""One generic interpreter over jaxprs; every interpretation is a table of rules on it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from gibbsite.trace.jaxpr.compat import Jaxpr, JaxprEqn, Literal

T = TypeVar("T")
Rule = Callable[[JaxprEqn, list[T]], Sequence[T]]


def walk(
    jaxpr: Jaxpr,
    consts: Sequence[T],
    inputs: Sequence[T],
    rules: Mapping[str, Rule[T]],
    default: Rule[T],
    literal: Callable[[Any], T],
    visit: Callable[[JaxprEqn, list[T], Sequence[T]], None] | None = None,
) -> list[T]:
    """Interpret `jaxpr` over abstract or concrete values of any type `T`.

    `rules` maps primitive names to a rule `(eqn, operands) -> results` (one result per output); a primitive
    without a rule goes to `default`, which is explicit so that conservatism is a choice. `literal` turns the
    Python value of a `Literal` into a `T`. `visit` sees every equation after its rule ran. Returns the values
    of the jaxpr's outputs.
    """
    env: dict[Any, T] = {}

    def read(atom: Any) -> T:
        return literal(atom.val) if isinstance(atom, Literal) else env[atom]

    env.update(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, inputs, strict=True))
    for eqn in jaxpr.eqns:
        operands = [read(a) for a in eqn.invars]
        results = rules.get(eqn.primitive.name, default)(eqn, operands)
        if visit is not None:
            visit(eqn, operands, results)
        env.update(zip(eqn.outvars, results, strict=True))
    return [read(a) for a in jaxpr.outvars]
