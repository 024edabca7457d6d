"""One interpreter over jaxprs, forwards, on demand and backwards; every analysis is rules on it.

Abstract interpretation (Cousot and Cousot 1977) of straight programs: an equation is interpreted once, when
its operands, or on the way back its results, have been.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from gibbsite.programs.jaxpr.compat import Jaxpr, JaxprEqn, Literal

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


class OnDemand(Generic[T]):
    """The values of a flat program's variables, each computed when it is asked for, and kept in `found`.

    `producer` tells which equation computes a variable; `leaf` gives the value of an atom that is not to be
    computed (an input, a `Literal`, whatever is known otherwise), None for all others; `rule` interprets an
    equation, and may raise; `needed` are the operands that it takes, where not all.
    """

    def __init__(
        self,
        producer: Mapping[Any, JaxprEqn],
        leaf: Callable[[Any], T | None],
        rule: Rule[T],
        found: dict[Any, T] | None = None,
        needed: Callable[[JaxprEqn], Sequence[Any]] = lambda eqn: eqn.invars,
    ):
        self._producer, self._leaf, self._rule, self._needed = producer, leaf, rule, needed
        self.found: dict[Any, T] = {} if found is None else found

    def __call__(self, atom: Any) -> T:
        """The value of `atom`."""
        stack = [atom]
        while stack:
            var = stack[-1]
            if self._known(var) is not None:
                stack.pop()
                continue
            eqn = self._producer[var]
            needed = self._needed(eqn)
            waiting = [a for a in needed if self._known(a) is None]
            if waiting:
                stack += waiting
                continue
            operands = [self._known(a) for a in needed]
            self.found.update(zip(eqn.outvars, self._rule(eqn, operands), strict=True))  # type: ignore[arg-type]
        return self._known(atom)  # type: ignore[return-value]

    def _known(self, atom: Any) -> T | None:
        if isinstance(atom, Literal):
            return self._leaf(atom)
        if atom not in self.found and (value := self._leaf(atom)) is not None:
            self.found[atom] = value
        return self.found.get(atom)


def back(
    jaxpr: Jaxpr,
    roots: Mapping[Any, T],
    through: Callable[[JaxprEqn, int, list[T | None]], T | None],
    join: Callable[[T, T], T],
) -> dict[Any, T]:
    """What `roots` ask of the variables that they are computed from.

    `through(eqn, i, asked)` tells what is asked of operand `i` where `asked` is of the results (None:
    nothing); what several equations ask of one variable is joined. Variables of which nothing is asked are
    left out.
    """
    found = dict(roots)
    for eqn in reversed(jaxpr.eqns):
        asked = [found.get(v) for v in eqn.outvars]
        if all(a is None for a in asked):
            continue
        for i, atom in enumerate(eqn.invars):
            more = None if isinstance(atom, Literal) else through(eqn, i, asked)
            if more is not None:
                found[atom] = join(found[atom], more) if atom in found else more
    return found


def made_by(jaxpr: Jaxpr) -> dict[Any, JaxprEqn]:
    """Which equation computes each variable."""
    return {v: eqn for eqn in jaxpr.eqns for v in eqn.outvars}


def behind(
    producer: Mapping[Any, JaxprEqn], atoms: Iterable[Any], ends: Callable[[Any], bool] = lambda atom: False
) -> Iterator[Any]:
    """The variables that `atoms` are computed from, these included, each once; none that is needed only
    beyond one that `ends` the search."""
    stack, seen = list(atoms), set()
    while stack:
        atom = stack.pop()
        if isinstance(atom, Literal) or atom in seen:
            continue
        seen.add(atom)
        yield atom
        if not ends(atom) and atom in producer:
            stack += producer[atom].invars


def reached(
    jaxpr: Jaxpr,
    sources: Iterable[Any],
    through: Callable[[JaxprEqn], Iterable[Any]] = lambda eqn: eqn.invars,
) -> set[Any]:
    """The variables that `sources` reach, these included, where `through` gives the operands that count."""
    found = set(sources)
    for eqn in jaxpr.eqns:
        if any(a in found for a in through(eqn) if not isinstance(a, Literal)):
            found.update(eqn.outvars)
    return found
