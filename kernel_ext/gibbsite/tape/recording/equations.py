"""What JAX does during a recorded run: primitives, jaxprs equation by equation, and the branch taken."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax

from gibbsite.programs.jaxpr.compat import (
    ClosedJaxpr,
    JaxprEqn,
    Literal,
    bind_primitive,
    closed_call_body,
    is_traced,
    stage_custom,
)
from gibbsite.programs.jaxpr.source_line import equation_line
from gibbsite.tape.recording.context import Step
from gibbsite.tape.recording.record import Const, Ref, shape_of

if TYPE_CHECKING:
    from gibbsite.tape.recording.recorder import Recorder

_KINDS = {"cond": "branch", "scan": "loop", "while": "loop"}
_CONVERSIONS = ("convert_element_type", "device_put", "copy")

Pair = tuple[int, Any]  # the number of a value, 0 for one that stands in the program, and the value
Given = tuple[Ref | Const, Any]  # an operand and its value


@dataclass(frozen=True)
class _Equation:
    """What `closed_call_body` asks of an equation."""

    primitive: Any
    params: Any


@dataclass(frozen=True)
class _Work:
    """One primitive about to run: how its record will read, and what there is to enter."""

    step: Step
    body: ClosedJaxpr | None
    inner: list[Given]
    detail: dict[str, Any]


class Equations:
    """Runs primitives for a recorder and writes their records."""

    def __init__(self, recorder: "Recorder"):
        self._recorder = recorder

    def primitive(self, primitive: Any, values: list[Any], params: Any) -> Any:
        """One primitive of the running function, on values as the program sees them."""
        recorder = self._recorder
        if primitive.name in _CONVERSIONS and not any(map(recorder.is_mine, values)):
            given: list[Given] = [(Const(v), v) for v in values]  # how a constant gets into JAX
        else:
            given = [(recorder.operand(v), recorder.plain(v)) for v in values]
        wrapped = [recorder.wrap(v, i) for i, v in self._run(primitive, given, params, None)]
        return wrapped if primitive.multiple_results else wrapped[0]

    def custom(self, bind: Callable, values: list[Any]) -> list[Any]:
        """A function with derivatives of its own: staged, so that its derivative rule is kept."""
        recorder = self._recorder
        given: list[Given] = [(recorder.operand(v), recorder.plain(v)) for v in values]
        with recorder.paused():
            closed = stage_custom(bind, [v for _, v in given])
        return [recorder.wrap(v, i) if i else v for i, v in self._body(closed, given)]

    def _run(self, primitive: Any, given: list[Given], params: Any, eqn: JaxprEqn | None) -> list[Pair]:
        recorder, context = self._recorder, self._recorder.context

        def apply(*xs: Any) -> list[Any]:
            return bind_primitive(primitive, xs, params)

        plain = tuple(v for _, v in given)
        work = self._work(primitive, given, params, eqn, apply)
        step = work.step
        before = context.before(step)
        children: list[Any] = []
        if work.body is None or not context.enters(step) or not context.keeps_values:
            with recorder.paused():
                pairs = [(recorder.fresh(), v) for v in apply(*plain)]
        else:
            with recorder.call() as call:
                pairs = self._outputs(self._body(work.body, work.inner), work.inner)
            children = call.records
        values = context.replaces(step, [v for _, v in pairs])
        replaced = [a is not b for (_, a), b in zip(pairs, values, strict=True)]
        pairs = [
            (recorder.fresh() if r else i, v) for (i, _), v, r in zip(pairs, values, replaced, strict=True)
        ]
        notes = context.notes(step, values, before)
        if any(replaced):
            notes = {**notes, "replaced": tuple(replaced)}
        if context.keeps(step):
            recorder.add(
                step.kind,
                step.op,
                operands=tuple(o for o, _ in given),
                outputs=tuple(i for i, _ in pairs),
                shapes=tuple(shape_of(v) for _, v in pairs),
                values=recorder.kept(values),
                children=tuple(children),
                metadata=notes,
                detail=work.detail,
                apply=apply,
                **({} if eqn is None else {"place": equation_line(eqn) or recorder.line()}),
            )
        return pairs

    def _work(self, primitive: Any, given: list[Given], params: Any, eqn: Any, apply: Callable) -> _Work:
        name, inner = primitive.name, given
        body = closed_call_body(eqn or _Equation(primitive, params))
        kind = "call" if body is not None else _KINDS.get(name, "primitive")
        detail: dict[str, Any] = {}
        if kind == "branch":
            detail["branches"], inner = params["branches"], given[1:]
            if not is_traced(given[0][1]):
                last = len(params["branches"]) - 1
                detail["taken"] = min(max(int(given[0][1]), 0), last)
                body = params["branches"][detail["taken"]]
        elif name in _CONVERSIONS and not any(isinstance(o, Ref) for o, _ in given):
            kind = "constant"
        elif kind != "call":
            detail["params"] = params
        if body is not None:
            detail["primitive"], detail["body"] = name, body
        if kind == "call":
            op = str(params.get("name") or _function_name(body) or name).strip("_")
        else:
            op = "constant" if kind == "constant" else name
        plain = tuple(v for _, v in given)
        return _Work(Step(kind, op, self._recorder.depth, plain, apply, name), body, inner, detail)

    def _body(self, closed: ClosedJaxpr, given: list[Given]) -> list[Pair]:
        """Run a jaxpr equation by equation; its inputs keep their numbers, so nesting needs no renaming."""
        jaxpr, recorder = closed.jaxpr, self._recorder
        env: dict[Any, Given] = dict(zip(jaxpr.invars, given, strict=True))
        for var, value in zip(jaxpr.constvars, closed.consts, strict=True):
            env[var] = (recorder.operand(value), recorder.plain(value))

        def read(atom: Any) -> Given:
            return (Const(atom.val), atom.val) if isinstance(atom, Literal) else env[atom]

        for eqn in jaxpr.eqns:
            pairs = self._run(eqn.primitive, [read(a) for a in eqn.invars], eqn.params, eqn)
            env.update({v: (Ref(i), x) for v, (i, x) in zip(eqn.outvars, pairs, strict=True)})
        outs = [read(a) for a in jaxpr.outvars]
        return [(o.ident if isinstance(o, Ref) else 0, v) for o, v in outs]

    def _outputs(self, pairs: list[Pair], inputs: list[Given]) -> list[Pair]:
        """Outputs of a call as values of its own: one that is a literal, an input or a twin is copied."""
        recorder = self._recorder
        taken = {0, *(o.ident for o, _ in inputs if isinstance(o, Ref))}
        made = {i for r in recorder.stack[-1].records for i in r.outputs}
        found = []
        for ident, value in pairs:
            if ident in taken or ident not in made:
                source = Ref(ident) if ident else Const(value)
                ident = recorder.fresh()
                recorder.add(
                    "primitive",
                    "copy",
                    operands=(source,),
                    outputs=(ident,),
                    shapes=(shape_of(value),),
                    values=recorder.kept([value]),
                    apply=lambda x: [jax.numpy.asarray(x)],
                )
            taken.add(ident)
            found.append((ident, value))
        return found


def _function_name(body: ClosedJaxpr | None) -> str | None:
    return None if body is None else getattr(body.jaxpr.debug_info, "func_name", None)
